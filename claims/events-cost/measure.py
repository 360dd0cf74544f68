"""Runs every kind in random blocks; raw samples as CSV, then medians and ratios with intervals (bootstrap over blocks).
usage: measure.py DIRECTORY-OF-PROGRAMS EVENTS-DIRECTORY BLOCKS CSV"""
import os, random, statistics, subprocess, sys

programs, events, blocks, csv = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ON = {"THAW_EVENTS": f"{events},ring=4M"}
# Name, command, environment, events.
KINDS = [
    ("nothing, C", "cost nothing", {}, 60_000_000),
    ("rdtsc, C", "cost rdtsc", {}, 30_000_000),
    ("thaw off, C", "cost thaw", {}, 60_000_000),
    ("thaw, C", "cost thaw", ON, 30_000_000),
    ("rdtsc, Rust", "peers rdtsc", {}, 30_000_000),
    ("thaw off, Rust", "peers thaw", {}, 60_000_000),
    ("thaw, Rust", "peers thaw", ON, 30_000_000),
    ("nothing, Rust", "peers nothing", {}, 60_000_000),
    ("fastrace", "peers fastrace", {}, 6_000_000),
    ("Tracy", "peers tracy", {}, 3_000_000),
    ("Perfetto SDK", "peers perfetto", {}, 3_000_000),
]
if os.path.exists(f"{programs}/cost-lttng"):
    KINDS.append(("LTTng-UST", "cost-lttng lttng", {}, 6_000_000))

random.seed(15)
rows = []
for block in range(blocks):
    order = [(kind, threads) for kind in KINDS for threads in (1, 2)]
    random.shuffle(order)
    for (name, command, environment, count), threads in order:
        program, word = command.split()
        env = {key: value for key, value in os.environ.items() if key != "THAW_EVENTS"} | environment
        said = subprocess.run(
            [f"{programs}/{program}", word, str(threads), str(count)], env=env, capture_output=True, text=True, check=True
        )
        rows.append((block, name, threads, float(said.stdout)))
        for file in os.listdir(events):
            os.remove(f"{events}/{file}")
with open(csv, "w") as out:
    out.write("block,kind,threads,cpu_ns_an_event\n")
    out.writelines(f"{block},{name.replace(', ', ' ')},{threads},{ns}\n" for block, name, threads, ns in rows)

found = {}
for block, name, threads, ns in rows:
    found.setdefault((name, threads), {})[block] = ns


def interval(values):
    """Median, and 95 % of bootstrapped medians."""
    drawn = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), drawn[49], drawn[1949]


print("CPU nanoseconds an event of the thread that writes it: median [95 %]; a span counts as two events")
for name, *_ in KINDS:
    cells = ["%7.2f [%.2f, %.2f]" % interval(list(found[name, threads].values())) for threads in (1, 2)]
    print(f"{name:16}  1 thread {cells[0]:28}  2 threads {cells[1]}")
print("\nratios, block by block: median [95 %]")
PAIRS = [("thaw, C", "rdtsc, C"), ("thaw, Rust", "rdtsc, Rust")] + [
    (peer, "thaw, Rust") for peer in ("fastrace", "Tracy", "Perfetto SDK") if (peer, 1) in found
] + ([("LTTng-UST", "thaw, C")] if ("LTTng-UST", 1) in found else [])
for one, other in PAIRS:
    cells = []
    for threads in (1, 2):
        first, second = found[one, threads], found[other, threads]
        cells.append("%6.2f [%.2f, %.2f]" % interval([first[block] / second[block] for block in first]))
    print(f"{one + ' / ' + other:28}  1 thread {cells[0]:24}  2 threads {cells[1]}")
for language in ("C", "Rust"):
    for threads in (1, 2):
        off, loop = found[f"thaw off, {language}", threads], found[f"nothing, {language}", threads]
        text = "%.2f [%.2f, %.2f]" % interval([off[block] - loop[block] for block in off])
        print(f"off, over the loop alone, {language}, threads {threads}: {text} ns")
