"""CPU time of one run under perf, split by whose it is: the program's own code, the instrument's code inside the program, the kernel on
behalf of each, and the instrument's own processes.

split.py PERF_DATA HZ INSTRUMENT GUEST: INSTRUMENT is a pattern of names of processes, GUEST one of files that lie inside the program; it
may be empty.
"""

import collections
import re
import subprocess
import sys

LINE = re.compile(r"\s*(.+?)\s+([0-9a-f]+) (.*?) \((.*)\)\s*$")


def main():
    data, hz, instrument = sys.argv[1], float(sys.argv[2]), re.compile(sys.argv[3])
    guest = re.compile(sys.argv[4]) if sys.argv[4] else None
    script = subprocess.Popen(["perf", "script", "-i", data, "-F", "comm,ip,sym,dso"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="replace")
    whose, what = collections.Counter(), collections.Counter()
    for line in script.stdout:
        found = LINE.match(line)
        if not found or found[1].startswith(("swapper", "perf")):
            continue
        comm, _, symbol, place = found.groups()
        is_kernel = place.startswith("[kernel") or place == "[unknown]"
        if instrument.search(comm):
            name = "the instrument's processes, kernel" if is_kernel else "the instrument's processes"
        elif guest and guest.search(place):
            name = "the instrument inside the program"
        else:
            name = "the program, kernel" if is_kernel else "the program"
        whose[name] += 1
        if name.startswith("the instrument"):
            what[name, symbol.split("+")[0].split("::h")[0]] += 1
    all_of = sum(whose.values())
    print(f"  {all_of / hz * 1e3:8.0f} ms of CPU")
    for name, count in whose.most_common():
        print(f"  {count / hz * 1e3:8.0f} ms  {count / all_of * 100:4.1f} %  {name}")
    for (name, symbol), count in what.most_common(10):
        print(f"  {count / hz * 1e3:8.0f} ms  {count / all_of * 100:4.1f} %      {symbol[:90]} ({name.removeprefix('the ')})")


main()
