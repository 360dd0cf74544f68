"""told.py PROGRAM < JSON of `thaw why`: rows of a CSV: how much of each start has an owner, its ten longest owners, and
what has none."""

import csv
import json
import sys

rows = csv.writer(sys.stdout, lineterminator="\n")
if sys.argv[1] == "--head":
    head = "program state run ready_ms explained_percent lost lost_switches is thread ms text"
    rows.writerow(head.split())
    sys.exit()
for start in json.load(sys.stdin)["starts"]:
    report = start["report"]
    known = [sys.argv[1], start["state"], start["run"], round(report["ready_ns"] / 1e6, 1)]
    known += [round(report["explained_share"] * 100, 2), report["lost"], report["lost_switches"]]
    for owner in report["owners"][:10]:
        rows.writerow([*known, "owner", owner["thread"]["name"], round(owner["ns"] / 1e6, 2), owner["text"]])
    for nobody in report["unexplained"]:
        rows.writerow([*known, "unexplained", "", round(nobody["ns"] / 1e6, 3), nobody["why"]])
