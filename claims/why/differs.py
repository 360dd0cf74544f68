"""Whether the largest cause that `thaw why --compare --json` names is the one that was planted, as a line of CSV; with --sum: how often."""
import collections
import csv
import json
import sys

# Part: thread and words of its cause; no thread: several have it.
PLANTED = {
    "initialiser": ("", "static initialisers of libplanted.so"),
    "sleep": ("planted", "sleeps"),
    "lock": ("holder", "planted_spin"),
    "pipe": ("napper", "sleeps"),
    "cpu": ("planted", "planted_spin"),
    "competitor": ("planted", "its own thread 'competitor' took"),
}

if sys.argv[1] == "--sum":
    with open(sys.argv[2], encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    print("planted: how often its cause was the largest; that, and what the whole differed by, in ms")
    for part in PLANTED:
        of = [row for row in rows if row["planted"] == part]
        right = [row for row in of if row["right"] == "1"]
        ms = [f"{float(row['cause_ms']):.1f}" for row in of]
        print(f"{part:12} {len(right)} of {len(of)}   {' '.join(ms)}   of {' '.join(row['whole_ms'] for row in of)}")
    print(f"all          {sum(row['right'] == '1' for row in rows)} of {len(rows)}")
else:
    part, repeat, path = sys.argv[1:]
    with open(path, encoding="utf-8") as text:
        difference = json.load(text)["starts"][0]["difference"]
    # Waits for a CPU are one cause, whoever took it: who did is among the owners.
    of = "owners" if part == "competitor" else "causes"
    first = max(difference[of], key=lambda cause: cause["ns"])
    thread, words = PLANTED[part]
    right = words in first["text"] and thread in ("", first["thread"])
    csv.writer(sys.stdout, lineterminator="\n").writerow([
        part, repeat, int(right), f"{first['ns'] / 1e6:.3f}", f"{difference['ns'] / 1e6:.3f}", first["thread"], first["text"], difference["text"],
    ])
