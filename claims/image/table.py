"""Medians of the timed starts of each variant: table.py CSV. In brackets the interval by order statistics (n >= 6: at least 95 %)."""
import csv
import statistics
import sys

# By a loop device the kernel's own threads read. Only a simulated disk holds them.
UNCHARGED = "not charged to the program"
if "laptop2010" not in sys.argv[1]:
    UNCHARGED += ": not held to the limit"

starts = {}
with open(sys.argv[1], newline="") as file:
    for row in csv.DictReader(file):
        if row["kind"] == "timed" and row["accepted"] == "true":
            starts.setdefault(row["variant"], []).append(row)
names = sorted(starts, key=lambda name: -statistics.median(float(row["wall_s"]) for row in starts[name]))
# The program as it is.
variants = {"preload", "erofs", "squashfs", "erofs-preload", "squashfs-preload", "image", "image-preload", "image-unchanged", "set",
    "set-unchanged", "set-preload"}
as_it_is = next(name for name in names if name not in variants)
base = statistics.median(float(row["wall_s"]) for row in starts[as_it_is])
print(f"{'start':18} {'n':>2}  median                    x faster     read  requests")
for name in names:
    walls = sorted(float(row["wall_s"]) for row in starts[name])
    # Of eight the second and the seventh do not hold the median with 95 %: the first and the last do.
    low, high = walls[0], walls[-1]
    middle = statistics.median(walls)
    read = statistics.median(int(row["read_bytes"]) for row in starts[name]) / 1e6
    requests = statistics.median(int(row["read_requests"]) for row in starts[name])
    charged = f"{read:7.1f} MB {requests:7.0f}" if requests else f"  {UNCHARGED}"
    print(f"{name:18} {len(walls):2}  {middle:6.2f} s [{low:.2f}, {high:.2f}]  {base / middle:10.2f}  {charged}")
