"""stacks.py take FOLDER UNWIND COUNT APART PROGRAM...: stops PROGRAM under gdb at random moments, in as many starts as
COUNT stops need, at most APART seconds between two stops; each start gets a folder of its own, in which UNWIND (the
example of measure/cpu) unwinds the same stops.
stacks.py sum CSV NAME=FOLDER...: compares both address by address, frame by frame, and says why they differ."""

import bisect
import collections
import csv
import os
import subprocess
import sys

STACK = 16384
LOST = "goes on where no code is"


def take(folder, unwind, count, apart, program):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stops.py")
    have, start = 0, 0
    while have < int(count):
        here = os.path.join(folder, str(start))
        os.makedirs(here)
        # Few of each start, so that the beginning and the end are seen equally often.
        few = min(60, int(count) - have)
        env = {**os.environ, "FOLDER": here, "STOPS": str(few), "SEED": str(start), "APART": apart}
        done = subprocess.run(["gdb", "-nx", "-batch", "-x", script, "--args", *program], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        stops = sum(name.endswith(".gdb") for name in os.listdir(here))
        if not stops:
            sys.exit(f"gdb has stopped nothing of {program[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        with open(os.path.join(here, "thaw"), "w") as out:
            subprocess.run([unwind, here], check=True, stdout=out)
        have, start = have + stops, start + 1


def code(path):
    """What is mapped as code: starts and ends, and the file of each."""
    found = []
    for line in open(path, errors="replace"):
        parts = line.split(None, 5)
        if "x" in parts[1]:
            low, high = (int(word, 16) for word in parts[0].split("-"))
            found.append((low, high, parts[5].strip() if len(parts) > 5 else "(no file)"))
    return sorted(found)


def whose(maps, address):
    at = bisect.bisect(maps, (address, 1 << 64, "")) - 1
    return maps[at][2] if at >= 0 and maps[at][0] <= address < maps[at][1] else None


def by_gdb(path, maps):
    """Its frames up to the first that is no code, and why it ends. Not those that are on no stack: inlined ones, and
    callers that went over to another function by a jump, which gdb concludes from debug data."""
    places, why, wrong = [], "", False
    for line in open(path, errors="replace"):
        word, kind, *_ = line.rstrip("\n").split(" ", 2) + [""]
        if word in ("end", "error"):
            why = line.rstrip("\n")
        elif kind not in ("inlined", "tail") and not wrong:
            wrong = bool(places) and whose(maps, int(word, 16)) is None
            if not wrong:
                places.append(int(word, 16))
    return places, LOST if wrong else why


def judged(gdb, why, thaw, whole, maps, stack):
    """One word about how both tell a stack, and a sentence about the place where they part."""
    same = 0
    while same < min(len(gdb), len(thaw)) and gdb[same] == thaw[same]:
        same += 1
    at = f"in {os.path.basename(whose(maps, thaw[same - 1]) or '?')}" if same else "at once"
    if same == len(gdb) == len(thaw):
        return ("equal to the end" if whole else "equal as far as both go"), why
    if same == len(thaw):
        return ("thaw says that is the end, gdb goes on" if whole else
                "equal to the end of the 16 KiB" if stack >= STACK else "thaw ends earlier"), at
    if whole and why == LOST:
        return "gdb is lost, thaw reaches the end", at
    if same == len(gdb):
        return "gdb ends earlier", f"{at}: {why}"
    return "differs", f"{at}: {why}"


def sum_up(path, folders):
    rows, all_ = [], collections.Counter()
    for name, folder in (word.split("=", 1) for word in folders):
        verdicts, places, frames = collections.Counter(), collections.Counter(), 0
        for start in sorted(os.listdir(folder), key=int):
            here = os.path.join(folder, start)
            for line in open(os.path.join(here, "thaw")):
                number, whole, *thaw = line.split()
                thaw = [int(word, 16) for word in thaw]
                stop = os.path.join(here, number)
                if not os.path.exists(stop + ".gdb"):
                    continue
                maps = code(stop + ".maps")
                gdb, why = by_gdb(stop + ".gdb", maps)
                word, where = judged(gdb, why, thaw, whole == "whole", maps, os.path.getsize(stop + ".stack"))
                rows.append([name, start, number, len(gdb), len(thaw), whole, word, where])
                verdicts[word] += 1
                frames += len(thaw)
                if not word.startswith("equal"):
                    places[word, where] += 1
        count = sum(verdicts.values())
        print(f"{name}: {count} stacks, {frames / max(1, count):.1f} frames each: "
              + ", ".join(f"{word} {number}" for word, number in verdicts.most_common()))
        for (word, where), number in places.most_common(8):
            print(f"  {number} {word} {where}")
        all_ += verdicts
    count, equal = sum(all_.values()), sum(number for word, number in all_.items() if word.startswith("equal"))
    print(f"all: {equal} of {count} equal ({100 * equal / count:.1f} %); " + ", ".join(
        f"{word} {number}" for word, number in all_.most_common()))
    with open(path, "w", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow("program start stop gdb_frames thaw_frames thaw_whole verdict where".split())
        table.writerows(rows)


if sys.argv[1] == "take":
    take(*sys.argv[2:6], sys.argv[6:])
else:
    sum_up(sys.argv[2], sys.argv[3:])
