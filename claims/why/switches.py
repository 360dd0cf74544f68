"""How many changes of CPUs this kernel does not tell: sched_switch of all CPUs for some seconds, in an instance of our own with nothing else in
it; a CPU that leaves another thread than it went over to has had one that is missing. Needs root.
usage: switches.py SECONDS"""
import collections
import pathlib
import re
import sys
import time

tracing = pathlib.Path("/sys/kernel/tracing")
instance = tracing / "instances" / "thaw-claim-switches"
line = re.compile(r"\[(\d+)\].*sched_switch: .* prev_pid=(\d+) .* next_pid=(\d+)")
instance.mkdir()
try:
    (instance / "trace_clock").write_text("mono")
    (instance / "buffer_size_kb").write_text("8192")
    (instance / "events/sched/sched_switch/enable").write_text("1")
    time.sleep(float(sys.argv[1]))
    (instance / "tracing_on").write_text("0")
    told, missing, runs = 0, collections.Counter(), {}
    for found in map(line.search, (instance / "trace").open(encoding="utf-8", errors="replace")):
        if not found:
            continue
        cpu, left, to = map(int, found.groups())
        told += 1
        if runs.get(cpu, left) != left:
            missing["idle" if runs[cpu] == 0 else "a thread"] += 1
        runs[cpu] = to
    lost = sum(int(text) for stats in instance.glob("per_cpu/cpu*/stats")
               for text in re.findall(r"(?:overrun|dropped events): (\d+)", stats.read_text()))
    print(f"{told} changes told in {sys.argv[1]} s, {lost} lost by the buffer; missing: {missing['idle']} from idle,"
          f" {missing['a thread']} from a thread")
finally:
    instance.rmdir()
