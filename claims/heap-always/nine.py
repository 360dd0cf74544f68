#!/usr/bin/env python3
"""The nine workloads of claims/heap with each sampler and without: CPU time of all processes, thaw's among them, wall time, the
target's peak resident set, and thaw's own beside it.
usage: nine.py CSV ROUNDS THAW FOLDER WORKLOAD...   runs; FOLDER/commands has a shell script for each workload
       nine.py CSV                                  sums"""
import csv, os, random, shutil, statistics, subprocess, sys, threading, time

from samplers import SAMPLE, TOOLS, environment, interval, status

COLUMNS = ["round", "workload", "tool", "cpu_s", "program_cpu_s", "wall_s", "peak_kb", "beside_kb", "beside_private_kb", "recording_bytes"]


def watch(pid, ended, seen):
    """thaw's peak, as it was last before it ended."""
    while not ended.wait(0.01):
        seen[:] = [max(old, status(pid, name)) for old, name in zip(seen, ("VmHWM", "RssAnon"))]


def one(tool, thaw, folder, workload):
    recording, peak = folder + "/nine.heap", folder + "/peak"
    shutil.rmtree(recording, ignore_errors=True)
    # The allocator is the workload's alone: not the wrapper's that tells its peak.
    preset = [f"{name}={value}" for name, value in environment(tool).items()]
    words = ["/usr/bin/time", "-f", "%M %U %S", "-o", peak, "env", *preset, "sh", f"{folder}/commands/{workload}"]
    if tool == "thaw":
        words = [thaw, "heap", "run", "--quiet", "--sample", str(SAMPLE), "--aggregate", "-o", recording, "--"] + words
    began, seen, ended = time.monotonic(), [0, 0], threading.Event()
    with open(folder + "/out", "w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out)
        watcher = threading.Thread(target=watch, args=(process.pid, ended, seen))
        if tool == "thaw":
            watcher.start()
        _, code, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(code)
    ended.set()
    if tool == "thaw":
        watcher.join()
    if process.returncode != 0:
        raise SystemExit(open(folder + "/out").read()[-2000:])
    size = sum(entry.stat().st_size for entry in os.scandir(recording)) if tool == "thaw" else 0
    peak_kb, user, system = open(peak).read().split()[-3:]
    return {"cpu_s": round(used.ru_utime + used.ru_stime, 4), "program_cpu_s": round(float(user) + float(system), 2),
            "wall_s": round(wall, 3), "peak_kb": peak_kb, "beside_kb": seen[0], "beside_private_kb": seen[1], "recording_bytes": size}


def run(path, rounds, thaw, folder, workloads):
    with open(path, "w") as out:
        rows = csv.DictWriter(out, COLUMNS)
        rows.writeheader()
        # The first round fills caches, and does not count.
        for number in range(rounds + 1):
            for workload in random.sample(workloads, len(workloads)):
                for tool in random.sample([*TOOLS, *TOOLS.values()], 6):
                    row = {"round": number, "workload": workload, "tool": tool, **one(tool, thaw, folder, workload)}
                    if number > 0:
                        rows.writerow(row)
                        out.flush()


def sums(path):
    rows = list(csv.DictReader(open(path)))
    value = {(row["workload"], row["round"], row["tool"]): row for row in rows}
    rounds = sorted({row["round"] for row in rows}, key=int)
    workloads = list(dict.fromkeys(sorted(row["workload"] for row in rows)))
    print(f"{len(rounds)} rounds, workloads and tools in random order; one block for 512 KiB. CPU of all processes, thaw's among them.")
    print("Medians of the differences of a round to the same allocator without a sampler, with 95 % intervals (bootstrap).")
    print("in it: beyond in the workload's own process, to 10 ms; the rest is thaw beside it: its start, the sums, the summary, names.")
    print("peak: of the workload's own process; beside: the most that thaw had in memory of its own, files apart.")
    print(f"{'workload':<8} {'tool':<17} {'CPU alone':>9}  {'CPU beyond':<27} {'CPU beyond, ms':<29} {'of it in it, ms':<29} {'wall beyond':<27} {'peak alone':>10}  {'peak beyond':<30} beside")
    within = {tool: [0, 0] for tool in TOOLS}
    for workload in workloads:
        for tool, base in TOOLS.items():
            of = lambda each, which, column: float(value[workload, each, which][column])
            pairs = lambda column: [(of(each, tool, column), of(each, base, column)) for each in rounds]
            share = lambda column: [100 * (with_it / without - 1) for with_it, without in pairs(column)]
            more = lambda column, scale: [(with_it - without) * scale for with_it, without in pairs(column)]
            alone = lambda column: statistics.median(of(each, base, column) for each in rounds)
            beside = max(of(each, tool, "beside_private_kb") for each in rounds) / 1e3
            memory = [grown + of(each, tool, "beside_private_kb") / 1e3 for grown, each in zip(more("peak_kb", 1e-3), rounds)]
            within[tool][0] += statistics.median(share("cpu_s")) <= 1
            within[tool][1] += statistics.median(memory) <= 16
            print(f"{workload:<8} {tool:<17} {alone('cpu_s'):>7.2f} s  {interval(share('cpu_s')):<27} {interval(more('cpu_s', 1e3), ' ms'):<29} "
                  f"{interval(more('program_cpu_s', 1e3), ' ms'):<29} {interval(share('wall_s')):<27} {alone('peak_kb') / 1e3:>7.1f} MB  {interval(more('peak_kb', 1e-3), ' MB'):<30} {beside:.1f} MB")
    for tool, (cpu, memory) in within.items():
        print(f"{tool}: at most 1 % of CPU beyond on {cpu} of {len(workloads)} workloads, at most 16 MB of memory beyond (with what is beside) on {memory}")


run(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5], sys.argv[5:]) if len(sys.argv) > 2 else sums(sys.argv[1])
