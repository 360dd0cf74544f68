#!/usr/bin/env python3
"""The medians of the runs at each number of tabs: printed in words, and written as columns for the chart.

    medians.py CSV TO
"""
import csv
import statistics
import sys

rows = list(csv.DictReader(open(sys.argv[1])))
with open(sys.argv[2], "w") as to:
    first = None
    for tabs in sorted({int(row["tabs"]) for row in rows}):
        at = [row for row in rows if int(row["tabs"]) == tabs]
        of = {name: statistics.median(float(row[name]) for row in at) for name in at[0] if name not in ("run", "tabs")}
        first = first or of
        print(f"{tabs:6} tabs: one change {of['save_us']:.0f} us, {of['save_bytes']:.0f} bytes; all anew {of['save_all_us']:.0f} us, "
              f"{of['save_all_bytes']:.0f} bytes: {of['save_all_us'] / of['save_us']:.1f} times the time, "
              f"{of['save_all_bytes'] / of['save_bytes']:.0f} times the bytes; first tab {of['start_us']:.0f} us, "
              f"{of['start_us'] / first['start_us']:.2f} times that of {min(int(row['tabs']) for row in rows)} tabs; "
              f"reading all {of['start_of_all_us']:.0f} us")
        to.write(" ".join(str(value) for value in [tabs, *of.values()]) + "\n")
