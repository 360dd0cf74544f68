"""Experiments on what `thaw why` says of real programs.

experiments.py targets FILE: from the JSON of `thaw why`: threads to hold, a line each: where (path or beside), name,
which of that name, milliseconds since exec, milliseconds to hold. Three that the path lies on for long at a stretch,
and the one that runs longest beside it.
experiments.py owned FILE REGEX all|some: what a start takes longer, in milliseconds, without the owners on the path whose
thread and sentence match, or with less of them; and the ends of that.
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


def targets(path):
    report = start_of(path)["report"]
    lanes = [lane for lane in report["threads"] if lane["of_tree"]]
    number = {}
    for lane in sorted(lanes, key=lambda lane: lane["thread"]["tid"]):
        name = lane["thread"]["name"]
        number[lane["thread"]["tid"]] = (name, sum(1 for other in number.values() if other[0] == name))
    # Long enough to be seen among starts that differ by some percent.
    hold = max(25.0, report["ready_ns"] * 0.1 / 1e6)
    stretches = []
    for step in report["steps"]:
        if step["tid"] not in number:
            continue
        last = stretches[-1] if stretches else None
        if last and last[2] == step["tid"] and step["from_ns"] - last[1] < 2e6:
            last[1] = step["to_ns"]
        else:
            stretches.append([step["from_ns"], step["to_ns"], step["tid"]])
    stretches.sort(key=lambda it: it[0] - it[1])
    seen = set()
    for begin, end, tid in stretches:
        if tid not in seen and len(seen) < 3 and end - begin > 4e6:
            seen.add(tid)
            at = begin + (end - begin) * 0.4
            print("path", *number[tid], round(at / 1e6, 1), round(hold, 1), sep="\t")
    beside = []
    for lane in lanes:
        if lane["path_ns"] == 0:
            for piece in lane["pieces"]:
                if piece["state"] == "runs":
                    beside.append((piece["to_ns"] - piece["from_ns"], piece["from_ns"], lane["thread"]["tid"]))
    if beside:
        _, begin, tid = max(beside)
        print("beside", *number[tid], round(begin / 1e6 + 1, 1), round(hold, 1), sep="\t")


def owned(path, pattern, goes):
    owners = start_of(path)["owners"]
    found = [it for it in owners if re.search(pattern, it["thread"] + " " + it["text"])]
    total = sum(it["ns"] for it in found)
    off = {}
    for end in ("low_ns", "high_ns"):
        # Independent: their squares add up.
        off[end] = sum((it["ns"] - (it["ns"] if it[end] is None else it[end])) ** 2 for it in found) ** 0.5
    least = max(0, total - off["low_ns"]) if goes == "all" else 0
    print(f"{-total / 1e6:.2f} {-(total + off['high_ns']) / 1e6:.2f} {-least / 1e6:.2f}")


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
    {"targets": targets, "owned": owned, "row": row, "sum": added_up}[sys.argv[1]](*sys.argv[2:])
