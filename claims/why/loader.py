"""loader.py take CSV ROUNDS LOADER TSC NAME PROGRAM...: in each round one start with LD_DEBUG=statistics and one that
LOADER (the example `loader` of measure/cpu) watches, in random order: rows of round,source,phase,us. TSC: cycles of the
time stamp counter in a second.
loader.py sum CSV...: medians of both with intervals, and how far apart they are."""

import csv
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}


def by_glibc(program, hertz, folder):
    started = subprocess.Popen(program, env={**os.environ, "LD_DEBUG": "statistics",
                                             "LD_DEBUG_OUTPUT": os.path.join(folder, "said")}, **QUIET)
    started.wait()
    # The first block is of the loading, the second of the end.
    said = open(os.path.join(folder, f"said.{started.pid}")).read().split("runtime linker statistics:")[1]
    # Glibc 2.36 prints them without their last digit: results/2026-11-27-loader-digit.txt.
    cycles = lambda label: int(re.search(label + r": (\d+) cycles", said)[1]) * 10 / hertz * 1e6
    yield "all", cycles("total startup time in dynamic loader")
    yield "relocate", cycles("time needed for relocation")
    yield "map", cycles("time needed to load objects")


def by_thaw(program, loader):
    said = subprocess.run([loader, *program], check=True, capture_output=True, text=True).stdout
    # Several programs: what the first one executed.
    of = {name.lower(): float(us) for us, name in re.findall(r"^ +([\d.]+) µs (\w+)$", said.split("mapped\n")[0], re.M)}
    for name in ("bootstrap", "map", "prepare", "relocate", "finish"):
        yield name, of[name]
    yield "all", sum(of[name] for name in ("bootstrap", "map", "prepare", "relocate", "finish"))


def take(path, rounds, loader, hertz, name, program):
    with open(path, "w", newline="") as out, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow("program round source phase us".split())
        for number in range(-2, int(rounds)):
            sources = [("glibc", lambda: by_glibc(program, float(hertz), folder)), ("thaw", lambda: by_thaw(program, loader))]
            random.shuffle(sources)
            for source, run in sources:
                for phase, us in run():
                    # The first starts bring what the others find in memory.
                    if number >= 0:
                        rows.writerow([name, number, source, phase, f"{us:.2f}"])


def middle(values):
    """The median, and what holds it in 95 of 100 cases: a bootstrap."""
    chance = random.Random(1)
    again = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), again[50], again[1949]


def sum_up(paths):
    print("program     phase       glibc µs [95 %]          thaw µs [95 %]           difference [95 %]")
    for path in paths:
        rows = list(csv.DictReader(open(path)))
        of = lambda source, phase: [float(row["us"]) for row in rows if row["source"] == source and row["phase"] == phase]
        for phase in ("map", "relocate", "all"):
            glibc, thaw = of("glibc", phase), of("thaw", phase)
            text = "".join(f"{m:8.1f} [{low:.1f}, {high:.1f}]".ljust(25) for m, low, high in (middle(glibc), middle(thaw)))
            chance = random.Random(2)
            draw = lambda values: statistics.median(chance.choices(values, k=len(values)))
            ratio = sorted(100 * (draw(thaw) / draw(glibc) - 1) for _ in range(2000))
            now = 100 * (statistics.median(thaw) / statistics.median(glibc) - 1)
            print(f"{rows[0]['program']:10}  {phase:10}{text}{now:+6.1f} % [{ratio[50]:+.1f}, {ratio[1949]:+.1f}]")


if sys.argv[1] == "take":
    take(*sys.argv[2:7], sys.argv[7:])
else:
    sum_up(sys.argv[2:])
