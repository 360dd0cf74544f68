"""Runs each program bare, in thaw, in Valgrind and with LeakSanitizer, and prints what each of them says is lost."""

import csv
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

thaw, work, rounds, path = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
PLANTED = [
    "lost", "global", "chain", "lost-chain", "circle", "middle", "end", "array", "tls", "other-tls", "stack", "other-stack",
    "ended-stack", "key", "mapping", "unmapped", "hidden", "freed-keeps", "large", "large-global", "many", "realloc",
    "aligned", "fork", "_exit",
]
REAL = {
    "sqlite3": ["sqlite3", ":memory:", "create table t(a, b); with recursive c(x) as (select 1 union all select x + 1 from c "
                "where x < 20000) insert into t select x, x * x from c; select count(*), sum(b) from t;"],
    "python3": ["/usr/bin/python3", "-c", "import json, re, decimal; print(len(json.dumps(list(range(100000)))))"],
    "perl": ["perl", "-e", "my %h; $h{$_} = [1 .. 10] for 1 .. 5000; print scalar keys %h"],
    "git": ["git", "log", "-20", "--stat"],
    "bash": ["bash", "-c", "for i in $(seq 500); do a[i]=$i; done; echo ${#a[@]}"],
    "curl": ["curl", "--version"],
    "gcc": ["gcc", "-O1", "-c", "-o", "/dev/null", "fixtures/heap/leaks.c"],
    "grep": ["grep", "-rn", "static", "measure"],
    "java": ["java", "-version"],
    "node": ["node", "-e", "let m = new Map(); for (let i = 0; i < 1e5; i++) m.set(i, {i}); console.log(m.size)"],
}
lsan = subprocess.run(["gcc", "-print-file-name=liblsan.so"], capture_output=True, text=True).stdout.strip()
tool_of = {
    "bare": lambda command: command,
    "thaw": lambda command: [thaw, "heap", "run", "--leak-check", "--json", "--force", "-o", work + "/leaks.heap", "--"] + command,
    # Without the heap's own freeing at the end, so that the same blocks are live; LSan's and thaw's are.
    "valgrind": lambda command: ["valgrind", "--leak-check=full", "--run-libc-freeres=no"] + command,
}
if os.path.isabs(lsan):
    tool_of["lsan"] = lambda command: ["env", "LD_PRELOAD=" + lsan, "LSAN_OPTIONS=exitcode=0"] + command


def run(command):
    """Output, and CPU and wall seconds of all processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=os.getcwd())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done, cpu, time.monotonic() - began


def said(tool, done):
    """(lost, indirectly lost, possibly lost, reachable) as (bytes, blocks), and for how long the process stood still.

    What a tool does not tell is None. LSan calls blocks reachable that something points into."""
    if tool == "thaw":
        report = json.loads(done.stdout)["report"]
        checks = [process["leak_check"] for process in report["processes"]]
        # Valgrind and LSan are asked about the first process alone.
        check = checks[0]
        if check.get("unknown"):
            return None, None
        kinds = [(check["reached"][kind]["bytes"], check["reached"][kind]["blocks"])
                 for kind in ("lost", "indirect", "possible", "reachable")]
        return kinds, check["stopped_ns"] / 1e6
    number = lambda text: int(text.replace(",", ""))
    if tool == "valgrind":
        # Of the first process: children tell theirs before it ends.
        found = {}
        for pid, kind, size, blocks in re.findall(r"==(\d+)==\s+(definitely|indirectly|possibly|still) (?:lost|reachable): ([\d,]+) bytes in "
                                                  r"([\d,]+) blocks", done.stderr):
            found.setdefault(pid, {})[kind] = (number(size), number(blocks))
        first = re.search(r"==(\d+)== Memcheck", done.stderr)
        kinds = found.get(first.group(1)) if first else None
        if kinds is None:
            nothing = "no leaks are possible" in done.stderr
            return ([(0, 0)] * 4 if nothing else None), None
        return [kinds[kind] for kind in ("definitely", "indirectly", "possibly", "still")], None
    if tool == "lsan":
        sums = {}
        for kind, size, blocks in re.findall(r"(Direct|Indirect) leak of (\d+) byte\(s\) in (\d+) object", done.stderr):
            held = sums.get(kind, (0, 0))
            sums[kind] = (held[0] + int(size), held[1] + int(blocks))
        return [sums.get("Direct", (0, 0)), sums.get("Indirect", (0, 0)), None, None], None
    return None, None


rows = []
answers, stops, times = {}, {}, {}
programs = {name: [work + "/leaks", name] for name in PLANTED} | {
    name: command for name, command in REAL.items() if shutil.which(command[0])
}
for name, command in programs.items():
    for number in range(rounds if name in REAL else 1):
        for tool, of in tool_of.items():
            done, cpu, wall = run(of(command))
            if tool == "bare":
                bare = done
            answer, stopped = said(tool, done)
            # Some programs do not begin with a preloaded LSan.
            if tool == "lsan" and (done.returncode, bool(done.stdout)) != (bare.returncode, bool(bare.stdout)):
                answer = None
            rows.append([name, number, tool, f"{cpu:.3f}", f"{wall:.3f}", stopped or "", json.dumps(answer)])
            answers.setdefault((name, tool), answer)
            times.setdefault((name, tool), []).append((cpu, wall))
            if stopped:
                stops.setdefault(name, []).append(stopped)
with open(path, "w", newline="") as out:
    writer = csv.writer(out)
    writer.writerow(["program", "round", "tool", "cpu_s", "wall_s", "stopped_ms", "lost_indirect_possible_reachable"])
    writer.writerows(rows)

held = lambda kind: "-" if kind is None else f"{kind[0]} in {kind[1]}"
text = lambda answer: "unknown" if answer is None else "; ".join(held(kind) for kind in answer)
print("bytes in blocks: lost; only lost ones point to; possibly lost; still reachable")
alike = {"valgrind": 0, "lsan": 0}
other = {"valgrind": [], "lsan": []}
for name in programs:
    print(f"\n{name}")
    for tool in tool_of:
        if tool != "bare":
            print(f"  {tool:9} {text(answers[name, tool])}")
    ours = answers[name, "thaw"]
    if name in PLANTED and ours is not None:
        for tool, kinds in (("valgrind", 3), ("lsan", 2)):
            theirs = answers.get((name, tool))
            same = theirs is not None and theirs[:kinds] == ours[:kinds]
            alike[tool] += same
            other[tool] += [] if same else [name]
print(f"\nof {len(PLANTED)} planted ones, all but what is reachable is as Valgrind has it: {alike['valgrind']}; what is lost "
      f"and what only lost ones point to is as LSan has it: {alike['lsan']}")
print("otherwise than Valgrind:", ", ".join(other["valgrind"]), "(the C library's table of a thread's variables, which thaw "
      "knows to be in use)")
print("otherwise than LSan:", ", ".join(other["lsan"]))
print("\nexcess over the bare program, medians of", rounds, "(CPU of all processes s, wall s); stood still")
middle = lambda name, tool, at: statistics.median(one[at] for one in times[name, tool])
for name in REAL:
    if name in programs:
        excess = [f"{tool} {middle(name, tool, 0) - middle(name, 'bare', 0):.2f} {middle(name, tool, 1) - middle(name, 'bare', 1):.2f}"
                  for tool in tool_of if tool != "bare"]
        excess = [text for text in excess if answers[name, text.split()[0]] is not None]
        still = statistics.median(stops.get(name, [0]))
        print(f"  {name:9} bare {middle(name, 'bare', 0):.2f} {middle(name, 'bare', 1):.2f}; {'; '.join(excess)}; {still:.0f} ms")
