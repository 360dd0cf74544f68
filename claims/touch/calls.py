"""What a counted call costs, on a program that does nothing but call, and on Python.

calls.py COUNTS PLANTED PLANTED_PG CSV ROUNDS: COUNTS is the example of the room, PLANTED a program that prints what a call takes
its thread, PLANTED_PG the same for uftrace. All ways are taken once in each round, in random order. Python is measured from exec to the
end of the program.
"""

import csv
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

CALLS = 2_000_000
FEW = 5_000


def median(values):
    """With its interval by order statistics, 95 % at least."""
    values, count = sorted(values), len(values)
    below, low = 0.0, -1
    while below + math.comb(count, low + 1) / 2**count <= 0.025:
        low += 1
        below += math.comb(count, low) / 2**count
    low = max(low, 0)
    return f"{statistics.median(values):.1f} [{values[low]:.1f}, {values[-1 - low]:.1f}]"


def said(words, key, expected=None):
    """A number that a program prints on stderr; expected: calls that thaw must have counted."""
    process = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, text=True)
    if expected is not None:
        counted = int(re.search(r"\bcalls (\d+)", process.stderr)[1])
        assert counted == expected, (words, counted, expected)
    return float(re.search(rf"\b{key} ([\d.]+)", process.stderr)[1])


def by_uftrace(program):
    folder = tempfile.mkdtemp()
    try:
        words = ["uftrace", "record", "--no-event", "--no-libcall", "-d", folder + "/data", program, str(CALLS // 10), "1"]
        return said(words, "ns_per_call")
    finally:
        shutil.rmtree(folder)


def by_gdb(program):
    words = ["gdb", "-q", "-batch", "-ex", "set breakpoint pending on", "-ex", "break planted", "-ex", "ignore 1 100000000",
             "-ex", "run", "--args", program, str(FEW), "1"]
    return said(words, "ns_per_call")


def main():
    counts, program, profiled, path, rounds = sys.argv[1:6]
    limited = ["sh", "-c", f"ulimit -v 8000000; exec {program} {FEW} 1"]
    python = [sys.executable, "-c", "print(1)"]
    ways = {
        "alone, 1 thread": lambda: said([program, str(CALLS), "1"], "ns_per_call"),
        "alone, 2 threads": lambda: said([program, str(CALLS), "2"], "ns_per_call"),
        "counted, 1 thread": lambda: said([counts, "planted", program, str(CALLS), "1"], "ns_per_call", CALLS),
        "counted, 2 threads": lambda: said([counts, "planted", program, str(CALLS), "2"], "ns_per_call", 2 * CALLS),
        "counted by a breakpoint": lambda: said([counts, "planted", *limited], "ns_per_call", FEW),
    }
    if shutil.which("uftrace"):
        ways["uftrace (-pg), entry and exit"] = lambda: by_uftrace(profiled)
    if shutil.which("gdb"):
        ways["gdb, a breakpoint that is ignored"] = lambda: by_gdb(program)
    starts = {
        "python alone": lambda: said([counts, "--native", *python], "native_ms"),
        "python, PyObject_* counted": lambda: said([counts, "PyObject_*", *python], "watched_ms"),
        "python, _Py*, PyObject_*, malloc, free counted": lambda:
            said([counts, "_Py*,PyObject_*,malloc,free", *python], "watched_ms"),
    }
    rows = {name: [] for name in [*ways, *starts]}
    with open(path, "w", encoding="ascii", newline="") as file:
        out = csv.writer(file)
        out.writerow(["round", "way", "value"])
        for number in range(int(rounds)):
            for name in random.sample(list(rows), len(rows)):
                value = (ways.get(name) or starts[name])()
                rows[name].append(value)
                out.writerow([number, name, f"{value:.2f}"])
    print(f"{rounds} rounds; CPU time of a thread for a call, in ns, the loop around it included")
    for name in ways:
        print(f"{name}: {median(rows[name])}")
    print("from exec to the end, in ms; of a round: to Python alone")
    for name in starts:
        ratio = [value / alone for value, alone in zip(rows[name], rows["python alone"])]
        print(f"{name}: {median(rows[name])}; {statistics.median(ratio):.2f}")


if __name__ == "__main__":
    main()
