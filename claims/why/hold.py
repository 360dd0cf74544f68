"""Holds one thread of a start for a while, to see whether what it does then is on the way to readiness.

hold.py MARK NAME INDEX AT HOLD LOG: waits for a process whose environment has THAW_HOLD=MARK, AT milliseconds longer,
and keeps the INDEX-th thread named NAME (from 0, by number, of all processes with that mark) from running for HOLD
milliseconds. Adds a line to LOG: milliseconds since exec, the thread's state as it was met, how long it was held; or
"not met". HOLD 0: looks for it in the same way and does not touch it.
"""

import ctypes
import os
import sys
import time

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, tid):
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_marked(pid, mark):
    return mark in read(f"/proc/{pid}/environ").split(b"\0")


def begins(mark):
    """The first process with the mark, which it has from exec on."""
    last, watched = int(read("/proc/loadavg").split()[-1]), {}
    until = time.monotonic() + 120
    while time.monotonic() < until:
        now = int(read("/proc/loadavg").split()[-1])
        watched.update((pid, time.monotonic() + 5) for pid in range(last + 1, now + 1))
        last = now
        for pid, end in list(watched.items()):
            if is_marked(pid, mark):
                return pid, time.monotonic()
            if time.monotonic() > end:
                del watched[pid]
        time.sleep(0.001)
    sys.exit("no process has the mark")


def threads(first, mark, name):
    found = []
    for pid in sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        if pid >= first and is_marked(pid, mark):
            try:
                tids = sorted(int(tid) for tid in os.listdir(f"/proc/{pid}/task"))
            except OSError:
                continue
            found += [tid for tid in tids if read(f"/proc/{pid}/task/{tid}/comm").rstrip(b"\n") == name]
    return sorted(found)


def main(mark, name, index, at, hold, log):
    first, began = begins(mark)
    time.sleep(max(0, began + float(at) / 1000 - time.monotonic()))
    found = threads(first, mark, name)
    since = (time.monotonic() - began) * 1000
    if len(found) <= int(index):
        line = f"{since:.1f} not met"
    else:
        tid = found[int(index)]
        state = read(f"/proc/{tid}/stat").rpartition(b")")[2].split()[:1]
        from_then = time.monotonic()
        if float(hold) > 0:
            ptrace(SEIZE, tid)
            ptrace(INTERRUPT, tid)
            os.waitpid(tid, WALL)
            time.sleep(float(hold) / 1000)
            ptrace(DETACH, tid)
        line = f"{since:.1f} {state[0].decode() if state else '?'} {(time.monotonic() - from_then) * 1000:.1f}"
    with open(log, "a", encoding="ascii") as file:
        print(line, file=file)


main(f"THAW_HOLD={sys.argv[1]}".encode(), sys.argv[2].encode(), *sys.argv[3:])
