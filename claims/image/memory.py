"""Memory of cold starts, as their own control group counts it: at most, and page cache at the end.
memory.py CSV STARTS NAME=COMMANDLINE…   interleaved; all caches are dropped before each start. Needs root and a memory controller."""
import csv
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

path, starts, variants = sys.argv[1], int(sys.argv[2]), [word.split("=", 1) for word in sys.argv[3:]]
v1 = pathlib.Path("/sys/fs/cgroup/memory/memory.stat").exists()
group = pathlib.Path("/sys/fs/cgroup/memory" if v1 else "/sys/fs/cgroup") / f"thaw-claim-{os.getpid()}"


def counted(name, line):
    """One start, in a group of its own."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    group.mkdir()
    try:
        enter = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        subprocess.run(["sh", "-c", line], preexec_fn=enter, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        peak = (group / ("memory.max_usage_in_bytes" if v1 else "memory.peak")).read_text()
        return [name, int(peak), int(stat["cache" if v1 else "file"])]
    finally:
        # What was left running would keep the group.
        for _ in range(50):
            for pid in (group / "cgroup.procs").read_text().split():
                os.kill(int(pid), 9)
            if not (group / "cgroup.procs").read_text():
                break
            time.sleep(0.1)
        group.rmdir()


rows = []
for _ in range(starts):
    random.shuffle(variants)
    rows += [counted(name, line) for name, line in variants]
with open(path, "w", newline="") as file:
    csv.writer(file).writerows([["variant", "peak_bytes", "page_cache_bytes"], *rows])
print(f"{'start':18} {'n':>2}  memory at most             page cache at the end")
for name in sorted({row[0] for row in rows}):
    own = [row for row in rows if row[0] == name]
    words = []
    for column in (1, 2):
        of = sorted(row[column] / 1e6 for row in own)
        words.append(f"{statistics.median(of):6.1f} MB [{of[0]:.1f}, {of[-1]:.1f}]")
    print(f"{name:18} {len(own):2}  {words[0]:25}  {words[1]}")
