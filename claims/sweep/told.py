"""What a sweep's document says of a planted order, as a line of CSV; with --sum: of all lines, how often it was told."""
import collections
import csv
import json
import sys

NAMES = {
    "constant": "constant", "log": "logarithmic", "linear": "linear", "loglinear": "linearithmic", "quadratic": "quadratic",
}

if sys.argv[1] == "--sum":
    with open(sys.argv[2], encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    for figure in ("wall_s", "cpu_s"):
        print(f"\n{figure}: planted, then how often which order was told")
        for planted, name in NAMES.items():
            of = [row for row in rows if row["planted"] == planted and row["figure"] == figure]
            told = collections.Counter(row["told"] or f"cannot tell ({row['untold']})" for row in of)
            right = told.pop(name, 0)
            others = "".join(f", {count} {what}" for what, count in told.most_common())
            print(f"{planted:10} {right} of {len(of)}{others}")
else:
    planted, repeat, path = sys.argv[1:]
    with open(path, encoding="utf-8") as text:
        swept = json.load(text)["growth"][0]
    for figure in swept["figures"]:
        growth = figure["growth"]
        supports = " ".join(f"{fit['order']}={fit['support']:.2f}" for fit in growth["fits"])
        print(planted, repeat, figure["name"], growth["order"] or "", growth["untold"] or "",
              f"{growth['ratio']['value']:.3f}", supports, sep=",")
