"""Which threads are held, and when, and by how much that is foretold to make a start longer.

hold.py choose SHARE FILE...: from the JSON of `thaw why` of hot starts of one program, each with one that was traced:
up to three threads that run on the path, each where it runs longest (of fewer threads several places), and one that runs
beside it. A line each, of words apart by tabs: process, thread, when after exec and for how long it is held (us: that
SHARE of a start), foretold by how much ready is later, least and most (ms), and what is held.

A thread that is on the path when it is held makes ready as much later. So much is foretold as the share of the starts,
and of the moments near this one, in which it is; least and most are those of single starts. Where a thread is beside
the path in all of them: nothing.
"""

import json
import statistics
import sys

# A start is not like the next one: so far around a moment, as a share of the start.
NEAR = 0.03


class Start:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        (start,) = document["starts"]
        self.report = start["report"]
        self.ready = self.report["ready_ns"]
        threads = {lane["thread"]["tid"]: lane for lane in self.report["threads"]}
        self.names = {}
        for tid, lane in threads.items():
            leader = threads.get(lane["thread"]["pid"], lane)
            self.names[tid] = (leader["thread"]["name"], lane["thread"]["name"])
        self.of_tree = {tid for tid, lane in threads.items() if lane["of_tree"]}

    def runs(self):
        return [step for step in self.report["steps"] if step["state"] == "runs" and step["tid"] in self.of_tree]

    def share(self, name, middle):
        """How much of the time around this moment, a share of the start, a thread of this name is on the path."""
        low, high = max(0, (middle - NEAR)) * self.ready, min(1, middle + NEAR) * self.ready
        both = [(max(low, step["from_ns"]), min(high, step["to_ns"])) for step in self.runs() if self.names[step["tid"]] == name]
        return sum(to - at for at, to in both if at < to) / (high - low)


def middle(piece, start):
    return (piece["from_ns"] + piece["to_ns"]) / 2 / start.ready


def on_path(start):
    """Moments: of each thread the middle of its longest step, threads by that; then of further steps."""
    steps = sorted(start.runs(), key=lambda step: step["from_ns"] - step["to_ns"])
    firsts, rest, seen = [], [], set()
    for step in steps:
        name = start.names[step["tid"]]
        (rest if name in seen else firsts).append((name, middle(step, start)))
        seen.add(name)
    # What is over at once cannot be met.
    chosen = []
    for name, at in firsts + rest:
        if start.share(name, at) > 0.3 and all(abs(at - other) > 2 * NEAR for _, other in chosen):
            chosen.append((name, at))
    return chosen[:3]


def beside(starts, start):
    """The thread that runs longest of those that are never on the path, in the middle of its longest piece."""
    never = None
    for one in starts:
        off = {one.names[row["thread"]["tid"]] for row in one.report["off_path"] if row["thread"]["tid"] in one.of_tree}
        off -= {one.names[step["tid"]] for step in one.report["steps"] if step["tid"] in one.names}
        never = off if never is None else never & off
    lanes = [lane for lane in start.report["threads"] if start.names[lane["thread"]["tid"]] in never and lane["ran_ns"]]
    pieces = [(piece, lane) for lane in lanes for piece in lane["pieces"] if piece["state"] == "runs"]
    if not pieces:
        return []
    piece, lane = max(pieces, key=lambda both: both[0]["to_ns"] - both[0]["from_ns"])
    return [(start.names[lane["thread"]["tid"]], middle(piece, start))]


def choose(part, *files):
    starts = sorted((Start(file) for file in files), key=lambda start: start.ready)
    start = starts[len(starts) // 2]
    length = float(part) * start.ready / 1e6

    def line(name, at, shares, what):
        foretold = [length * share for share in (statistics.mean(shares), min(shares), max(shares))]
        words = [*name, round(at * start.ready / 1e3), round(length * 1e3), *(f"{ms:.1f}" for ms in foretold), what]
        print("\t".join(map(str, words)))

    for name, at in on_path(start):
        shares = [one.share(name, at) for one in starts]
        line(name, at, shares, f"{'/'.join(name)} held at {at:.0%} of it")
    for name, at in beside(starts, start):
        line(name, at, [0], f"{'/'.join(name)} held at {at:.0%} of it, beside the path")


if __name__ == "__main__":
    {"choose": choose}[sys.argv[1]](*sys.argv[2:])
