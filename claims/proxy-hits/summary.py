"""Lines `ROUND SERVER SIZE REQUESTS_A_SECOND P50_US P99_US BYTES_A_SECOND` as a table: medians, and how often a pair of
rounds is beaten. usage: summary.py < samples"""

import statistics
import sys

rows = [line.split() for line in sys.stdin if line.strip() and not line.startswith("#")]
servers = list(dict.fromkeys(row[1] for row in rows))
for size in dict.fromkeys(row[2] for row in rows):
    print(f"{int(size):,} bytes, 32 connections")
    print(f"{'server':<8} {'requests/s':>11} {'min':>9} {'max':>9} {'p50 us':>8} {'p99 us':>8}   thaw has, by round (median, min, max)")
    of = {name: [row for row in rows if row[1] == name and row[2] == size] for name in servers}
    for name in servers:
        rates = [float(row[3]) for row in of[name]]
        if not rates:
            continue
        middle = lambda column: statistics.median(float(row[column]) for row in of[name])
        ratios = sorted(float(a[3]) / float(b[3]) for a, b in zip(of.get("thaw", []), of[name]))
        against = f"{statistics.median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})" if name != "thaw" and ratios else ""
        print(f"{name:<8} {middle(3):>11,.0f} {min(rates):>9,.0f} {max(rates):>9,.0f} {middle(4):>8.0f} {middle(5):>8.0f}   {against}")
    print()
