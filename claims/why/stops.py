"""In gdb: gdb -batch -x stops.py --args PROGRAM. Stops the program at random moments, STOPS times at most, and writes
of each stop what thaw's recorder takes down of a sample (FOLDER/N.state, N.stack, N.maps), and the stack as gdb tells it
(N.gdb: address, kind and function of each frame, then why there is no further one)."""

import os
import random
import subprocess

import gdb

FOLDER = os.environ["FOLDER"]
STOPS = int(os.environ["STOPS"])
SEED = os.environ["SEED"]
# As much of the stack as a sample has.
STACK = 16384
# Its default is that nothing happens, should one come late.
SIGNAL = "SIGURG"

for line in (
    "set pagination off", "set confirm off", "set height 0", "set print thread-events off", "set auto-solib-add on",
    "set backtrace past-main on", "set backtrace past-entry on", "set backtrace limit unlimited",
    "set disable-randomization off", "set debuginfod enabled off",
    f"handle {SIGNAL} stop print nopass", "handle SIGSEGV SIGUSR1 SIGUSR2 SIGPIPE SIGCHLD SIGSYS nostop noprint pass",
):
    gdb.execute(line, to_string=True)


def kind(frame):
    return {gdb.INLINE_FRAME: "inlined", gdb.TAILCALL_FRAME: "tail", gdb.SIGTRAMP_FRAME: "signal"}.get(frame.type(), "frame")


def frames():
    frame, seen = gdb.newest_frame(), 0
    while frame is not None and seen < 20000:
        yield f"{frame.pc():x} {kind(frame)} {frame.name() or '?'}"
        if frame.older() is None:
            yield "end " + gdb.frame_stop_reason_string(frame.unwind_stop_reason())
        frame, seen = frame.older(), seen + 1


def register(name):
    return int(gdb.parse_and_eval(f"(unsigned long)${name}")) & (2**64 - 1)


def memory(start):
    inferior = gdb.selected_inferior()
    for length in range(STACK, 0, -256):
        try:
            return inferior.read_memory(start, length).tobytes()
        except gdb.MemoryError:
            pass
    return b""


def take(number):
    pid, tid, _ = gdb.selected_thread().ptid
    gdb.newest_frame().select()
    path = os.path.join(FOLDER, str(number))
    with open(path + ".state", "w") as out:
        print(pid, *(register(name) for name in ("rip", "rsp", "rbp", "rbx")), file=out)
    with open(path + ".stack", "wb") as out:
        out.write(memory(register("rsp")))
    with open(path + ".maps", "wb") as out, open(f"/proc/{pid}/maps", "rb") as maps:
        out.write(maps.read())
    try:
        told = list(frames())
    except gdb.error as error:
        told = [f"error {error}"]
    with open(path + ".gdb", "w") as out:
        print(*told, sep="\n", file=out)


def main():
    chance, number = random.Random(SEED), int(os.environ.get("FIRST", "0"))
    last = number + STOPS
    gdb.execute("starti", to_string=True)
    while number < last and gdb.selected_thread() is not None:
        pid = gdb.selected_inferior().pid
        wait = chance.uniform(0, float(os.environ["APART"]))
        subprocess.Popen(["sh", "-c", f"sleep {wait}; kill -{SIGNAL[3:]} {pid} 2>/dev/null"])
        gdb.execute("continue", to_string=True)
        if gdb.selected_thread() is None:
            break
        # The one that the signal met, and one of the others: a sample may be of any.
        threads = [gdb.selected_thread()]
        others = [it for it in gdb.selected_inferior().threads() if it != threads[0]]
        for thread in threads + chance.sample(others, min(1, len(others))):
            thread.switch()
            take(number)
            number += 1
        threads[0].switch()
    gdb.execute("kill", to_string=True)


try:
    main()
except gdb.error as error:
    print("gdb:", error)
