#!/usr/bin/env python3
"""Medians with 95 % intervals (bootstrap, 2,000 times, always the same) beside the goals.

    medians.py SAMPLES.jsonl
"""
import json
import random
import statistics
import sys

GOALS = {"wall_s": 5.0, "peak_mb": 200.0}
chance = random.Random(1)


def median(values):
    again = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), again[50], again[1949]


groups = {}
for line in open(sys.argv[1]):
    sample = json.loads(line)
    groups.setdefault((sample["recording"], sample["bytes"], sample["form"], sample["binary"]), []).append(sample)
for (recording, size, form, binary), samples in groups.items():
    wall, low, high = median([sample["wall_s"] for sample in samples])
    cpu, cpu_low, cpu_high = median([sample["user_s"] + sample["system_s"] for sample in samples])
    peak, peak_low, peak_high = median([sample["peak_kb"] / 1000 for sample in samples])
    said = [
        "within" if wall <= GOALS["wall_s"] else "MISSED",
        "within" if peak <= GOALS["peak_mb"] else "MISSED",
    ]
    print(f"{recording} ({size / 1e6:.0f} MB), {form}, {binary}, {len(samples)} times: "
          f"{wall:.2f} s [{low:.2f}, {high:.2f}] (goal {GOALS['wall_s']:.0f} s: {said[0]}), "
          f"CPU {cpu:.2f} s [{cpu_low:.2f}, {cpu_high:.2f}], "
          f"peak {peak:.0f} MB [{peak_low:.0f}, {peak_high:.0f}] (goal {GOALS['peak_mb']:.0f} MB: {said[1]})")
