"""Starts of a program bare and under tools that watch it, interleaved in random order.

overhead.py run CSV ROUNDS STATE PROGRAM TAKE TIMED WORK -- COMMAND...: adds a row for each start.
overhead.py sum CSV: medians of wall and CPU time of the program, and of what it is more than bare in the same round,
with the interval of the median by order statistics (95 % at least).
overhead.py parts CSV: of starts of parts.c, CPU time by tick, leave and thread, with that interval.
METHODS: only these. BEFORE: an older build of TAKE, to compare with. OPTIONS: of both.
"""

import csv
import math
import os
import random
import shutil
import statistics
import subprocess
import sys


def methods(take, work):
    options = os.environ.get("OPTIONS", "").split()
    found = {"bare": [], "thaw why": [take, *options, "--"]}
    if "BEFORE" in os.environ:
        found["before"] = [os.environ["BEFORE"], *options, "--"]
    if shutil.which("perf"):
        data = os.path.join(work, "perf.data")
        found["perf record"] = ["perf", "record", "-q", "-F", "1000", "--call-graph", "dwarf", "-o", data, "--"]
    if shutil.which("strace"):
        found["strace -c -f"] = ["strace", "-c", "-f", "-o", os.path.join(work, "strace.txt")]
    if shutil.which("samply"):
        found["samply"] = ["samply", "record", "-s", "-o", os.path.join(work, "samply.json"), "--"]
    only = os.environ.get("METHODS")
    return {name: words for name, words in found.items() if not only or name in only.split(",")}


def once(words, timed, work, state, command):
    if state == "cold":
        os.sync()
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
    said = os.path.join(work, "times")
    if os.path.exists(said):
        os.remove(said)
    line = [*words, timed, said, *[word.replace("{work}", work) for word in command]]
    for name in ("profile", "home"):
        shutil.rmtree(os.path.join(work, name), ignore_errors=True)
        os.mkdir(os.path.join(work, name))
    done = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"{line}: {done.returncode}\n{done.stderr.decode(errors='replace')[-2000:]}")
    with open(said, encoding="ascii") as file:
        return [float(word) for word in file.read().split()]


def run(path, rounds, state, program, take, timed, work, command):
    found = methods(take, work)
    once([], timed, work, "hot", command)
    is_new = not os.path.exists(path)
    with open(path, "a", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        if is_new:
            rows.writerow(["program", "state", "round", "method", "wall_s", "cpu_s"])
        for number in range(rounds):
            for name in random.sample(list(found), len(found)):
                rows.writerow([program, state, number, name, *once(found[name], timed, work, state, command)])
                file.flush()


def interval(values):
    """The median, and the narrowest symmetric pair of order statistics that holds it with 95 % at least."""
    values = sorted(values)
    count = len(values)
    for low in range(count // 2, -1, -1):
        inside = sum(math.comb(count, k) for k in range(low + 1, count - low)) / 2**count
        if inside >= 0.95 or low == 0:
            return statistics.median(values), values[low], values[count - 1 - low]
    raise AssertionError


def added_up(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    kinds = list(dict.fromkeys((row["program"], row["state"]) for row in rows))
    for program, state in kinds:
        these = [row for row in rows if (row["program"], row["state"]) == (program, state)]
        bare = {row["round"]: row for row in these if row["method"] == "bare"}
        print(f"\n{program}, {state}, {len(bare)} rounds: median [95 %], and more than bare in the same round")
        for name in sorted({row["method"] for row in these}, key=lambda name: (name != "bare", name)):
            line = f"  {name:<14}"
            for what in ("wall_s", "cpu_s"):
                own = [row for row in these if row["method"] == name]
                line += "  {} {:7.3f} s [{:.3f}, {:.3f}]".format(what[:-2], *interval([float(it[what]) for it in own]))
                if name != "bare":
                    more = [float(it[what]) / float(bare[it["round"]][what]) * 100 - 100 for it in own]
                    line += "  {:+.1f} % [{:+.1f}, {:+.1f}]".format(*interval(more))
            print(line)


def by_part(path):
    """Parts are named by what is counted and how often; ticks by their period in microseconds."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for program in dict.fromkeys(row["program"] for row in rows):
        what, count = program.split()
        cpu = {(row["round"], row["method"]): float(row["cpu_s"]) for row in rows if row["program"] == program}
        rounds = sorted({number for number, _ in cpu})
        for method in sorted({method for _, method in cpu} - {"bare"}):
            ticks = [cpu[number, method] * 1e6 / int(count) for number in rounds]
            times = ticks if what == "ticks" else [int(count)] * len(rounds)
            more = [cpu[number, method] - cpu[number, "bare"] for number in rounds]
            each = interval([more * 1e6 / times for more, times in zip(more, times, strict=True)])
            print("  {:<10} {:<8} {:+.1f} us [{:+.1f}, {:+.1f}] of CPU each".format(method, what, *each))


if sys.argv[1] == "sum":
    added_up(sys.argv[2])
elif sys.argv[1] == "parts":
    by_part(sys.argv[2])
else:
    path, rounds, state, program, take, timed, work = sys.argv[2:9]
    run(path, int(rounds), state, program, take, timed, work, sys.argv[10:])
