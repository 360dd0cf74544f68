"""What looking for a port takes: usage: looks.py THAW SPOOL

The CPU time (schedstat, ns) and the turns of the process that `thaw ping` leaves beside a program, 1.4 s after the start
of one that listens nowhere; and the wall time of the two ways to ask who listens, 100 times each.
"""

import pathlib
import socket
import statistics
import struct
import subprocess
import sys
import time

thaw, spool = sys.argv[1:]
PORT, AFTER, ROUNDS = 29333, 1.4, 5


def beside():
    """CPU time in ms and turns of the process beside the program."""
    words = ["ping", "--app", "looks", "--ready", f"listen:{PORT}", "--spool", spool, "--timeout", "10s"]
    program = subprocess.Popen([thaw, *words, "--", "sleep", "60"])
    time.sleep(AFTER)
    try:
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                # The words of the one beside are those that thaw was started by; the program has its own.
                if (process / "cmdline").read_bytes().split(b"\0")[:3] == [thaw.encode(), b"ping", b"--app"]:
                    cpu, _, turns = map(int, (process / "schedstat").read_text().split())
                    return cpu / 1e6, turns
            except OSError:
                continue
        sys.exit("looks.py: there is no process beside the program")
    finally:
        program.kill()
        program.wait()


def by_netlink():
    """sock_diag(7): the sockets that listen, of both families."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 4) as kernel:
        for family in (socket.AF_INET, socket.AF_INET6):
            body = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 1 << 10) + bytes(48)
            kernel.send(struct.pack("=IHHII", 16 + len(body), 20, 0x301, 1, 0) + body)
            while struct.unpack_from("=IH", kernel.recv(1 << 16))[1] != 3:
                pass


def by_proc():
    for table in ("tcp", "tcp6"):
        pathlib.Path("/proc/net", table).read_bytes()


def microseconds(ask):
    times = []
    for _ in range(100):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e6)
    return statistics.median(times)


subprocess.run([thaw, "ping", "--app", "looks", "--enable", "--spool", spool], check=True)
cpu, turns = zip(*(beside() for _ in range(ROUNDS)))
print(
    f"the process beside, {AFTER} s after the start: {statistics.median(cpu):.1f} ms of CPU "
    f"({min(cpu):.1f} to {max(cpu):.1f}) in {statistics.median(turns)} turns, {ROUNDS} starts"
)
print(f"who listens: {microseconds(by_netlink):.0f} us by sock_diag, {microseconds(by_proc):.0f} us by /proc/net/tcp and tcp6")
