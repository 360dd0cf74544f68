"""sampling.py take CSV ROUNDS STARTS THAW NAME PROGRAM...: in each round STARTS starts that `thaw why` watches and as
many under `perf record`, in random order, with the same event and period: rows of samples by round, tool and function.
sampling.py sum CSV: of the twenty functions that `perf report --no-children` puts first, the share of both tools, with
Wilson's intervals; a two-proportion test of each, corrected by Holm; the same of perf against perf (odd against even
rounds), which shows how much starts themselves differ; and a permutation test, whose unit is the round."""

import bisect
import collections
import csv
import math
import os
import random
import re
import subprocess
import sys
import tempfile

TOP = 20
LEVEL = 0.05
SHUFFLES = 10000
# Where each sample was: the innermost frame that is a function of its own, as perf report --no-inline has it.
SELF = """with recursive at(run, stack, ticks) as (
 select run, stack, count(*) from samples where run in (select run from runs where kind = 'trace' and state = 'hot')
 group by run, stack
 union all select at.run, stacks.caller, ticks from at join stacks using (run, stack) join frames using (run, frame)
 where inlined)
select object, coalesce(function, printf('0x%x', address)) as function, sum(ticks) as ticks from at left join stacks using (run, stack)
left join frames using (run, frame) where inlined is null or not inlined group by 1, 2"""


def lines(*words):
    return subprocess.run(words, capture_output=True, text=True, errors="replace").stdout.splitlines()


def bare(name):
    """Without arguments, what compilers append to parts of functions, and what demanglers do not agree upon."""
    name = re.sub(r" \[clone [^]]*\]|(\.(cold|part|isra|constprop|lto_priv|localalias|\d+))+$|@@?[A-Z].*$", "", name)
    name = name.replace("(anonymous namespace)", "{anonymous}")
    depth, end = 0, len(name)
    for at, sign in enumerate(name):
        depth += (sign == "<") - (sign == ">")
        if sign == "(" and depth <= 0 and at and not name[:at].endswith("operator"):
            end = at
            break
    return re.sub(r"\s+", "", name[:end])


class Names:
    """Names of an object that are one function: of one address, or the same without arguments."""

    def __init__(self, path):
        self.one = {}
        self.smallest = {}
        by_address = collections.defaultdict(list)
        for address, name in symbols(path):
            by_address[address].append(bare(name))
        for names in by_address.values():
            for name in names[1:]:
                self.join(names[0], name)

        self.starts, self.ends, self.places = [], [], []
        self.path = path

    def code(self, tool, address):
        """The function at an address that has no name, by the unwinding tables: as where it begins. perf gives places
        in the file, thaw those that the file states."""
        if not self.starts:
            for line in lines("readelf", "-lW", self.path):
                parts = line.split()
                if parts[:1] == ["LOAD"] and "E" in parts[6:8]:
                    self.places.append((int(parts[1], 16), int(parts[4], 16), int(parts[2], 16)))
            ranges = re.findall(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", "\n".join(lines("readelf", "-wf", self.path)))
            for low, high in sorted((int(low, 16), int(high, 16)) for low, high in ranges):
                self.starts.append(low)
                self.ends.append(high)
        if tool == "perf":
            address = next((address - place + stated for place, size, stated in self.places
                            if place <= address < place + size), address)
        at = bisect.bisect(self.starts, address) - 1
        return f"(at {self.starts[at]:#x})" if at >= 0 and address < self.ends[at] else "(no name)"

    def of(self, name):
        name = bare(name)
        while self.one.get(name, name) != name:
            name = self.one[name]
        return name

    def join(self, first, second):
        first, second = self.of(first), self.of(second)
        self.one[max(first, second)] = min(first, second)


def symbols(path):
    if path == "[kernel]":
        for line in open("/proc/kallsyms"):
            address, kind, name = line.split()[:3]
            if kind in "tTwW":
                yield address, name
        return
    found = "\n".join(lines("readelf", "-n", path))
    build = re.search(r"Build ID: (..)(\w+)", found)
    debug = build and f"/usr/lib/debug/.build-id/{build[1]}/{build[2]}.debug"
    for words in (["-D", path], [path], [debug]):
        if words[0]:
            for line in lines("nm", "-C", *words):
                parts = line.split(None, 2)
                if len(parts) == 3 and parts[1] in "tTwWiV":
                    yield parts[0], parts[2]


def by_thaw(thaw, starts, program, folder):
    file = os.path.join(folder, "why.thaw")
    words = [thaw, "why", "-q", "--force", "-o", file, "--no-loader", "--state", "hot", "--runs", starts]
    subprocess.run([*words, "--trace-runs", starts, "--", *program], check=True, stdout=subprocess.DEVNULL)
    told = subprocess.run([thaw, "query", file, SELF, "--csv", "--max-rows", "1000000"], check=True, capture_output=True, text=True)
    for row in csv.DictReader(told.stdout.splitlines()):
        function = row["function"]
        if row["object"] == "[kernel]":
            function = re.sub(r" \[\w+\]$", "", function)
        yield row["object"], function, int(row["ticks"])


def by_perf(starts, program, folder):
    file = os.path.join(folder, "perf.data")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for _ in range(int(starts)):
        words = ["perf", "record", "-q", "-o", file, "-e", "task-clock", "-c", "1000000", "--", *program]
        subprocess.run(words, **quiet)
        report = ["perf", "report", "-i", file, "--stdio", "--no-children", "--no-inline", "-n", "-q"]
        for line in lines(*report, "--sort", "dso,sym", "-t", "\t"):
            parts = [part.strip() for part in line.split("\t")]
            if len(parts) < 4 or not parts[0].endswith("%"):
                continue
            level, _, function = parts[3].partition(" ")
            yield "[kernel]" if level == "[k]" else parts[2], function, int(parts[1])


def take(path, rounds, starts, thaw, name, program):
    with open(path, "w", newline="") as out, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["program", "starts", "round", "tool", "object", "function", "samples"])
        for number in range(int(rounds)):
            tools = [("thaw", lambda: by_thaw(thaw, starts, program, folder)),
                     ("perf", lambda: by_perf(starts, program, folder))]
            random.shuffle(tools)
            for tool, run in tools:
                counts = collections.Counter()
                for where, function, samples in run():
                    counts[where, function] += samples
                for (where, function), samples in sorted(counts.items()):
                    rows.writerow([name, starts, number, tool, where, function, samples])


def wilson(hits, of):
    z = 1.959964
    middle = (hits + z * z / 2) / (of + z * z)
    half = z / (of + z * z) * math.sqrt(hits * (of - hits) / of + z * z / 4)
    return middle - half, middle + half


def two_proportions(a, of_a, b, of_b):
    both = (a + b) / (of_a + of_b)
    error = math.sqrt(both * (1 - both) * (1 / of_a + 1 / of_b))
    return math.erfc(abs(a / of_a - b / of_b) / error / math.sqrt(2)) if error else 1.0


def holm(values):
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        adjusted[index] = largest
    return adjusted


def ranks(values):
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def correlation(a, b):
    a, b = ranks(a), ranks(b)
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b))
    return top / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))


def shuffled(a, b):
    """How often rounds that were given to both tools at random differ as much: each a list of (hits, of)."""
    share = lambda rounds: sum(hits for hits, _ in rounds) / sum(of for _, of in rounds)
    seen = abs(share(a) - share(b))
    chance = random.Random(1)
    all_, more = a + b, 0
    for _ in range(SHUFFLES):
        chance.shuffle(all_)
        more += abs(share(all_[: len(a)]) - share(all_[len(a) :])) >= seen - 1e-12
    return (more + 1) / (SHUFFLES + 1)


def known(rows):
    """Samples by tool, round and function, names normalised."""
    names, counts = {}, collections.defaultdict(collections.Counter)
    # perf says the names of files alone.
    paths = {os.path.basename(row["object"]): row["object"] for row in rows if row["tool"] == "thaw"}
    for row in rows:
        where, function = row["object"], row["function"]
        real = paths.get(os.path.basename(where), where)
        if not where or "JIT" in where or where.startswith(("//anon", "[unknown", "[anon", "/tmp/perf-", "/memfd")):
            key = ("(made at run time)", "(any)")
        else:
            if real not in names:
                names[real] = Names(real)
            number = re.fullmatch(r"0x[0-9a-f]+", function)
            function = names[real].code(row["tool"], int(function, 16)) if number else names[real].of(function)
            key = (os.path.basename(real), function)
        counts[row["tool"], int(row["round"])][key] += int(row["samples"])
    return counts


def sum_up(path):
    rows = list(csv.DictReader(open(path)))
    counts = known(rows)
    of = {}
    for tool in ("perf", "thaw"):
        of[tool] = [counts[key] for key in sorted(counts) if key[0] == tool]
    total = {tool: sum(rounds, collections.Counter()) for tool, rounds in of.items()}
    samples = {tool: sum(total[tool].values()) for tool in total}
    top = [key for key, _ in total["perf"].most_common(TOP)]
    starts = int(rows[0]["starts"]) * len(of["perf"])
    print(f"{rows[0]['program']}: {starts} starts each: {samples['thaw']} samples by thaw, {samples['perf']} by perf")
    pairs = [[(rounds[key], sum(rounds.values())) for rounds in of[tool]] for key in top for tool in ("perf", "thaw")]
    plain = holm([two_proportions(total["perf"][key], samples["perf"], total["thaw"][key], samples["thaw"])
                  for key in top])
    by_round = holm([shuffled(pairs[2 * at], pairs[2 * at + 1]) for at in range(len(top))])
    print("  perf %  [95 %]          thaw %  [95 %]          p       p by rounds  function")
    for at, key in enumerate(top):
        text = ""
        for tool in ("perf", "thaw"):
            hits = total[tool][key]
            low, high = (100 * end for end in wilson(hits, samples[tool]))
            text += f"  {100 * hits / samples[tool]:6.2f}  " + f"[{low:.2f}, {high:.2f}]".ljust(14)
        print(f"{text}  {plain[at]:.4f}  {by_round[at]:.4f}       {key[1][:70]} in {key[0]}")
    halves = [sum(of["perf"][start::2], collections.Counter()) for start in (0, 1)]
    size = [sum(half.values()) for half in halves]
    own = holm([two_proportions(halves[0][key], size[0], halves[1][key], size[1]) for key in top])
    agree = lambda values: sum(value >= LEVEL for value in values)
    shared = {key for key, _ in total["thaw"].most_common(TOP)} & set(top)
    lists = [[total[tool][key] / samples[tool] for key in top] for tool in ("perf", "thaw")]
    print(f"  agree: {agree(plain)} of {len(top)} by single samples, {agree(by_round)} by rounds; perf with itself "
          f"{agree(own)}; rank correlation {correlation(*lists):.3f}; {len(shared)} of {len(top)} are thaw's first too")


if sys.argv[1] == "take":
    take(*sys.argv[2:7], sys.argv[7:])
else:
    for file in sys.argv[2:]:
        sum_up(file)
