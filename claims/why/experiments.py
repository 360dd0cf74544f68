"""Experiments on what `thaw why` says of real programs.

experiments.py owned BARE OTHER REGEX all|some: from the JSON of `thaw why` of both: what a start takes longer, in
milliseconds, because the owners on the path whose thread and sentence match are gone, or have less; some: at most that,
for what takes their place costs time, too. And the ends of that.
experiments.py row FILE PROGRAM WHAT SAYS LOW HIGH OTHER: from the JSON of `thaw record` with the variants bare and
OTHER: a row of the result: how much later OTHER is ready than bare, beside what was predicted.
experiments.py sum CSV: the result as text.
"""

import csv
import json
import random
import re
import statistics
import sys


def start_of(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["starts"][0]


def matching(path, pattern):
    found = [it for it in start_of(path)["owners"] if re.search(pattern, it["thread"] + " " + it["text"])]
    ends = [[abs(it["ns"] - (it["ns"] if it[end] is None else it[end])) for it in found] for end in ("low_ns", "high_ns")]
    # Independent: their squares add up.
    return sum(it["ns"] for it in found), *(sum(off * off for off in offs) ** 0.5 for offs in ends)


def owned(bare, other, pattern, goes):
    (before, low, high), (after, low_after, high_after) = matching(bare, pattern), matching(other, pattern)
    total = after - before
    least = total - (high**2 + low_after**2) ** 0.5
    most = total + (low**2 + high_after**2) ** 0.5
    if goes == "some":
        most = max(most, 0)
    print(f"{total / 1e6:.2f} {least / 1e6:.2f} {most / 1e6:.2f}")


def row(path, program, what, says, low, high, other):
    with open(path, encoding="utf-8") as file:
        results = json.load(file)["results"]
    times = {it["variant"]: it["times"] for it in results}
    bare, changed = times["bare"], times[other]
    dice = random.Random(1)
    middle = statistics.median(changed) - statistics.median(bare)
    again = sorted(
        statistics.median(dice.choices(changed, k=len(changed))) - statistics.median(dice.choices(bare, k=len(bare)))
        for _ in range(10000)
    )
    found = [round(value * 1000, 2) for value in (middle, again[250], again[9749])]
    values = [program, what, says, low, high, *found, len(bare)]
    csv.writer(sys.stdout, lineterminator="\n").writerow(values)


def added_up(path):
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    held = 0
    for it in rows:
        low, high = float(it["low_ms"]), float(it["high_ms"])
        says = "as predicted" if float(it["at_least"]) <= high and float(it["at_most"]) >= low else "NOT AS PREDICTED"
        held += says == "as predicted"
        print(
            f"{it['program']:<12} {it['what']:<58} predicted {float(it['predicted_ms']):+8.1f} ms [{low:+.1f}, {high:+.1f}]"
            f"  measured {float(it['measured_ms']):+8.1f} ms [{float(it['at_least']):+.1f}, {float(it['at_most']):+.1f}]  {says}"
        )
    print(f"\n{held} of {len(rows)} as predicted: the intervals (95 % each) meet")


if __name__ == "__main__":
    {"owned": owned, "row": row, "sum": added_up}[sys.argv[1]](*sys.argv[2:])
