#!/usr/bin/env python3
"""Starts each program under thaw, asks after a while what its resident memory consists of, and ends it.
usage: resident.py THAW FOLDER SECONDS CSV"""
import csv, glob, json, os, shutil, signal, subprocess, sys, time

thaw, folder, seconds, path = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]
java = folder + "/Hold.java"
open(java, "w").write("""public class Hold { public static void main(String[] words) throws Exception {
    java.util.List<byte[]> held = new java.util.ArrayList<>();
    for (int i = 0; i < 3000; i++) held.add(new byte[10000]);
    Thread.sleep(1000000); System.out.println(held.size()); } }""")
data = folder + "/pg"
binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
os.chmod(folder, 0o755)
os.mkdir(data)
shutil.chown(data, "postgres")
as_postgres = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
subprocess.run(as_postgres + [binaries + "/initdb", "-D", data, "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
PROGRAMS = {
    "python": ["/usr/bin/python3", "-c", "import json, time, decimal; held = [str(i) * 20 for i in range(200000)]; time.sleep(1e6)"],
    "node": ["node", "-e", "const held = []; for (let i = 0; i < 200; i++) held.push(Buffer.alloc(100000, 1)); setTimeout(() => {}, 1e9)"],
    "java": ["java", java],
    "postgres": as_postgres + [binaries + "/postgres", "-D", data, "-p", "54331", "-k", data, "-c", "listen_addresses="],
    "firefox": ["firefox-esr", "--headless", "--no-remote", "--profile", folder + "/firefox", "about:blank"],
    "chromium": ["chromium", "--headless", "--no-sandbox", f"--user-data-dir={folder}/chromium", "--remote-debugging-port=0", "about:blank"],
    "libreoffice": ["soffice", "--headless", "--norestore", "--writer", f"-env:UserInstallation=file://{folder}/office"],
}
os.mkdir(folder + "/firefox")
rows = []
for name, words in PROGRAMS.items():
    recording = f"{folder}/{name}.heap"
    env = {**os.environ, "HOME": folder, "MOZ_HEADLESS": "1", "PYTHONMALLOC": "malloc"}
    recorder = subprocess.Popen([thaw, "heap", "run", "--quiet", "--raw", "-o", recording, "--", *words], env=env, cwd="/", stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(seconds)
    asked = subprocess.run([thaw, "heap", "resident", recording, "--json"], capture_output=True, text=True)
    os.killpg(recorder.pid, signal.SIGTERM)
    try:
        recorder.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(recorder.pid, signal.SIGKILL)
        recorder.wait()
    if asked.returncode != 0:
        print(f"{name:<12} unknown: {asked.stderr.strip()}")
        continue
    for process in json.loads(asked.stdout)["processes"]:
        for part in process["parts"]:
            rows.append({"program": name, "pid": process["pid"], "exe": process["exe"], "rss_bytes": process["rss_bytes"],
                         "kind": part["kind"], "bytes": part["bytes"]})
with open(path, "w") as out:
    table = csv.DictWriter(out, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
print("Resident memory of all processes of a program, shares of it. In files: mapped programs and libraries, with their variables.")
print(f"{'program':<12} {'processes':>9} {'MB':>8} {'explained':>9} {'least':>8}  by kind")
for name in PROGRAMS:
    own = [row for row in rows if row["program"] == name]
    whole = {row["pid"]: row["rss_bytes"] for row in own}
    if not whole:
        continue
    unknown = {pid: sum(row["bytes"] for row in own if row["pid"] == pid and row["kind"] == "unknown") for pid in whole}
    total = sum(whole.values())
    kinds = {}
    for row in own:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + row["bytes"]
    shares = ", ".join(f"{kind} {100 * size / total:.1f} %" for kind, size in sorted(kinds.items(), key=lambda it: -it[1]))
    least = min(1 - unknown[pid] / whole[pid] for pid in whole)
    print(f"{name:<12} {len(whole):>9} {total / 1e6:>8.1f} {100 * (1 - sum(unknown.values()) / total):>7.2f} % {100 * least:>6.2f} %  {shares}")
