#!/usr/bin/env python3
"""A program that allocates as often as in weeks, sampled into sums with a state each second: what thaw and the recording take over
time, and whether the sums are those of the program.
usage: weeks.py THAW FOLDER PAIRS CSV"""
import csv, json, os, subprocess, sys, time

thaw, folder, pairs, path = sys.argv[1], sys.argv[2], int(float(sys.argv[3])), sys.argv[4]
recording = folder + "/weeks.heap"
program = [folder + "/weeks", str(pairs), "2"]
began = time.monotonic()
subprocess.run(program, check=True)
alone = time.monotonic() - began
process = subprocess.Popen([thaw, "heap", "run", "--quiet", "--sample", str(512 << 10), "--aggregate", "--every", "1s", "--keep", "20s", "-o",
                            recording, "--", *program], stdout=subprocess.DEVNULL)
began, rows = time.monotonic(), []
while process.poll() is None:
    time.sleep(0.5)
    try:
        status = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status"))
        ticks = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
        disk = sum(entry.stat().st_blocks * 512 for entry in os.scandir(recording))
        rows.append({"s": round(time.monotonic() - began, 1), "thaw_rss_kb": int(status["VmRSS"].split()[0]),
                     "thaw_cpu_s": (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK"), "disk_bytes": disk,
                     "files": len(os.listdir(recording))})
    except (FileNotFoundError, ProcessLookupError, KeyError):
        continue
taken = time.monotonic() - began
with open(path, "w") as out:
    table = csv.DictWriter(out, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
report = json.loads(subprocess.run([thaw, "heap", "report", recording, "--json", "--mode", "cumulative"], check=True, capture_output=True).stdout)
made, end = report["total"]["made"], report["total"]["end"]
each = pairs // 2
leaks = 2 * sum(1 for _ in range(1, each, 1 << 28))
print(f"{2 * pairs:.1e} calls of malloc and free: {taken:.1f} s, alone {alone:.1f} s; CPU of thaw {rows[-1]['thaw_cpu_s']:.2f} s")
quarter = max(1, len(rows) // 4)
for name in ("thaw_rss_kb", "disk_bytes", "files"):
    print(f"{name}: {rows[quarter][name]} after a quarter of the time, {rows[-1][name]} at the end, at most {max(row[name] for row in rows)}")
print(f"blocks made: {made['blocks']:.4e} by the samples, {pairs:.4e} by the program ({100 * (made['blocks'] / pairs - 1):+.2f} %)")
print(f"live at the end: {end['bytes'] / 2**20:.1f} MiB by the samples, {leaks} MiB by the program")
