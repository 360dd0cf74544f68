#!/usr/bin/env python3
"""The same transactions with each sampler and without: CPU time of the server and of what records it, from its control
group, and the time that the transactions took.
usage: pgbench.py CSV ROUNDS FOLDER BIN     runs; FOLDER holds thaw and its guest and belongs to postgres
       pgbench.py CSV                       sums"""
import csv, os, pwd, random, shutil, statistics, subprocess, sys, time

from samplers import SAMPLE, TOOLS, environment, interval, status

# Version 1 of control groups has the CPU time elsewhere.
OLD = os.path.isdir("/sys/fs/cgroup/cpuacct")
GROUP = "/sys/fs/cgroup/" + ("cpuacct/" if OLD else "") + "thaw-claim-always"
PORT = "54329"


def as_postgres():
    user = pwd.getpwnam("postgres")
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def in_group():
    with open(GROUP + "/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
    as_postgres()


def cpu():
    """Seconds."""
    if OLD:
        return int(open(GROUP + "/cpuacct.usage").read()) / 1e9
    with open(GROUP + "/cpu.stat") as stat:
        return int(next(line.split()[1] for line in stat if line.startswith("usage_usec"))) / 1e6


def one(tool, folder, binaries):
    data, recording = folder + "/data", folder + "/server.heap"
    shutil.rmtree(recording, ignore_errors=True)
    server = [binaries + "/postgres", "-D", data, "-p", PORT, "-k", folder, "-c", "fsync=off", "-c", "autovacuum=off",
              "-c", "listen_addresses=", "-c", "shared_buffers=256MB"]
    if tool == "thaw":
        server = [folder + "/thaw", "heap", "run", "--quiet", "--sample", str(SAMPLE), "--aggregate", "--every", "60s", "--keep",
                  "24h", "-o", recording, "--"] + server
    if os.path.isdir(GROUP):
        os.rmdir(GROUP)
    os.mkdir(GROUP)
    env = {"PATH": "/usr/bin:/bin", "HOME": folder, "THAW_HEAP_AGENT": folder + "/libthaw_heap.so", **environment(tool)}
    log = open(folder + "/log", "w")
    process = subprocess.Popen(server, env=env, cwd=folder, preexec_fn=in_group, stdout=log, stderr=log)
    ask = lambda *words: subprocess.run([binaries + "/pgbench", "-h", folder, "-p", PORT, "-n", *words, "postgres"],
                                        preexec_fn=as_postgres, cwd=folder, capture_output=True, text=True)
    while subprocess.run([binaries + "/pg_isready", "-h", folder, "-p", PORT, "-q"]).returncode != 0:
        if process.poll() is not None:
            raise SystemExit(open(folder + "/log").read())
        time.sleep(0.05)
    # Once, so that each has its pages.
    ask("-S", "-c", "2", "-t", "2000")
    began, before = time.monotonic(), cpu()
    for words in (("-S", "-M", "simple", "-c", "2", "-t", "25000"), ("-c", "2", "-t", "5000")):
        done = ask(*words)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
    # What is recorded later than it happens belongs to it.
    time.sleep(1 if tool == "thaw" else 0)
    spent, wall = cpu() - before, time.monotonic() - began - (1 if tool == "thaw" else 0)
    recorder, private = (status(process.pid, "VmHWM"), status(process.pid, "RssAnon")) if tool == "thaw" else (0, 0)
    main = int(open(data + "/postmaster.pid").readline())
    os.kill(main, 2)
    process.wait()
    size = sum(entry.stat().st_size for entry in os.scandir(recording)) if tool == "thaw" else 0
    return {"cpu_s": round(spent, 4), "wall_s": round(wall, 3), "recorder_peak_kb": recorder, "recorder_private_kb": private, "recording_bytes": size}


def run(path, rounds, folder, binaries):
    subprocess.run([binaries + "/initdb", "-D", folder + "/data", "-A", "trust", "-E", "UTF8"], preexec_fn=as_postgres,
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)
    fresh = folder + "/data"
    start = [binaries + "/pg_ctl", "-D", fresh, "-w", "-o", f"-p {PORT} -k {folder} -c listen_addresses=", "-l", folder + "/log"]
    subprocess.run(start + ["start"], preexec_fn=as_postgres, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([binaries + "/pgbench", "-h", folder, "-p", PORT, "-i", "-q", "-s", "10", "postgres"], preexec_fn=as_postgres,
                   cwd=folder, check=True, capture_output=True)
    subprocess.run(start + ["stop"], preexec_fn=as_postgres, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with open(path, "w") as out:
        rows = csv.DictWriter(out, ["round", "tool", "cpu_s", "wall_s", "recorder_peak_kb", "recorder_private_kb", "recording_bytes"])
        rows.writeheader()
        for number in range(rounds):
            for tool in random.sample([*TOOLS, *TOOLS.values()], 6):
                rows.writerow({"round": number, "tool": tool, **one(tool, folder, binaries)})
                out.flush()
    os.rmdir(GROUP)


def sums(path):
    rows = list(csv.DictReader(open(path)))
    value = {(row["round"], row["tool"]): row for row in rows}
    rounds = sorted({row["round"] for row in rows}, key=int)
    print(f"{len(rounds)} rounds in random order, 50,000 selections and 10,000 TPC-B transactions of 2 clients each; one block for "
          "512 KiB. CPU of the server and of what records it.")
    print("Medians of the ratios of a round, with 95 % intervals (bootstrap).")
    for tool, base in TOOLS.items():
        of = lambda column: interval([100 * (float(value[each, tool][column]) / float(value[each, base][column]) - 1) for each in rounds])
        middle = lambda tool, column: statistics.median(float(value[each, tool][column]) for each in rounds)
        print(f"{tool:<17} CPU {middle(tool, 'cpu_s'):.2f} s, {base} alone {middle(base, 'cpu_s'):.2f} s: {of('cpu_s')}; wall {of('wall_s')}")
    most = lambda column: max(int(row[column]) for row in rows) / 1e3
    print(f"thaw beside the server: at most {most('recorder_peak_kb'):.1f} MB resident, {most('recorder_private_kb'):.1f} MB of it not of files; "
          f"recording {most('recording_bytes') / 1e3:.2f} MB")


run(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5]) if len(sys.argv) > 2 else sums(sys.argv[1])
