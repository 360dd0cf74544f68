"""What the parts of this claim share: the samplers, what each is compared with, intervals."""
import random, statistics

JEMALLOC, TCMALLOC = "libjemalloc.so.2", "libtcmalloc.so.4"
# What each is compared with; both have the same allocator.
TOOLS = {"thaw": "glibc", "jemalloc sampler": "jemalloc", "tcmalloc sampler": "tcmalloc"}
SAMPLE = 512 << 10


def environment(tool):
    preload = {"jemalloc": JEMALLOC, "tcmalloc": TCMALLOC}.get(tool.split()[0])
    out = {"LD_PRELOAD": preload} if preload else {}
    if tool == "jemalloc sampler":
        out["MALLOC_CONF"] = "prof:true,prof_active:true,lg_prof_sample:19"
    if tool == "tcmalloc sampler":
        out["TCMALLOC_SAMPLE_PARAMETER"] = str(SAMPLE)
    return out


def status(pid, name):
    """A number of a process; 0: it is gone."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            return int(next((line.split()[1] for line in lines if line.startswith(name + ":")), 0))
    except OSError:
        return 0


def interval(values, unit=" %"):
    random.seed(1)
    again = sorted(statistics.median(random.choices(values, k=len(values))) for _ in range(4000))
    return f"{statistics.median(values):+.2f}{unit} [{again[100]:+.2f}, {again[3899]:+.2f}]"
