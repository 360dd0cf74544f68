"""Hot starts of a program alone and with its functions watched, interleaved in random order.

cost.py CALLS CSV ROUNDS PREPARE -- COMMAND...: CALLS is the example of the room, PREPARE a list of files for it. Wall time is from
exec to the end of the program; CPU time that of the whole machine, which should do nothing else: of all of the program's processes and of
the tracer, what is made ready before the start and what is done after its end included. What is kept of the program's files lies in
$THAW_CACHE_DIR, made by one run that is not counted; beside it an empty directory stands for a first run.
BEFORE: an older build of CALLS, to compare with.
"""

import csv
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import time


FIRST = os.environ["THAW_CACHE_DIR"] + "-first"


def used():
    """Milliseconds that the whole machine has worked."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, hard, soft = map(int, file.readline().split()[1:8])
    return (user + nice + system + hard + soft) * 10.0


def once(words, environment):
    before = used()
    said = subprocess.run(words, env=dict(os.environ, **environment), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          check=True, text=True).stderr
    # Processes that outlive their first one are on their way out.
    time.sleep(0.5)
    cpu = used() - before
    number = lambda key: float((re.search(rf"\b{key} ([\d.]+)", said) or [0, "nan"])[1])
    wall = number("watched_ms") if "watched_ms" in said else number("native_ms")
    return [wall, cpu, number("prepared_cpu_ms"), number("planting_ms"), number("stops"), number("calls")]


def median(values):
    """With its interval by order statistics, 95 % at least."""
    values, count = sorted(values), len(values)
    below, low = 0.0, -1
    while below + math.comb(count, low + 1) / 2**count <= 0.025:
        low += 1
        below += math.comb(count, low) / 2**count
    low = max(low, 0)
    return f"{statistics.median(values):.2f} [{values[low]:.2f}, {values[-1 - low]:.2f}]"


def main():
    calls, path, rounds, prepare = sys.argv[1:5]
    command = sys.argv[sys.argv.index("--") + 1:]
    ways = {
        "alone": ([calls, "--native", *command], {}),
        "watched": ([calls, *command], {"PREPARE": prepare}),
        "watched, nothing kept": ([calls, *command], {"PREPARE": prepare, "THAW_CACHE_DIR": FIRST}),
        "watched, nothing made ready": ([calls, *command], {}),
    }
    if "BEFORE" in os.environ:
        ways["watched before"] = ([os.environ["BEFORE"], *command], {})
    rows = {name: [] for name in ways}
    once(*ways["alone"])
    once(*ways["watched"])
    with open(path, "w", encoding="ascii", newline="") as file:
        out = csv.writer(file)
        out.writerow(["round", "way", "wall_ms", "cpu_ms", "prepared_cpu_ms", "planting_ms", "stops", "calls"])
        for number in range(int(rounds)):
            for name in random.sample(list(ways), len(ways)):
                shutil.rmtree(FIRST, ignore_errors=True)
                row = once(*ways[name])
                rows[name].append(row)
                out.writerow([number, name, *(f"{value:.1f}" for value in row)])
    print(f"{rounds} rounds; of a round: wall and CPU time to those alone, and CPU without what is made ready before the start")
    for name, all_of in rows.items():
        wall = statistics.median(row[0] for row in all_of)
        cpu = statistics.median(row[1] for row in all_of)
        line = f"{name}: wall {wall:.0f} ms, CPU {cpu:.0f} ms"
        if name != "alone":
            of_wall = [row[0] / alone[0] for row, alone in zip(all_of, rows["alone"])]
            of_cpu = [row[1] / alone[1] for row, alone in zip(all_of, rows["alone"])]
            line += f"; {median(of_wall)}, {median(of_cpu)}"
            if name.startswith("watched") and not math.isnan(all_of[0][2]):
                start = [(row[1] - row[2]) / alone[1] for row, alone in zip(all_of, rows["alone"])]
                line += f", {median(start)}"
            planting, stops, first = (statistics.median(row[at] for row in all_of) for at in (3, 4, 5))
            line += f"; programs waited {planting:.0f} ms, {stops:.0f} stops, {first:.0f} first calls"
        print(line)


main()
