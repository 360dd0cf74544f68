"""What a first call of a function costs when all functions of a program are watched.

first.py CALLS CSV ROUNDS: CALLS is the example of the room. A program of 20,000 functions is compiled here; it calls each of
them, in an order that no prefetcher guesses, and then all again, and prints what a call took its thread. The first call of a
function that is not watched is slower than the second too (its text is mapped and comes into the caches): what is asked for is
the difference between watched and alone.
"""

import csv
import os
import random
import re
import subprocess
import sys
import tempfile

from calls import median

FUNCTIONS = 20_000
PROGRAM = """
#include <stdio.h>
#include <time.h>
static volatile long sum;
%(functions)s
static void (*const all[])(long) = {%(names)s};
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}
int main(void) {
    enum { COUNT = sizeof all / sizeof *all };
    double from = now();
    for (long i = 0; i < COUNT; i++) all[i](i);
    double first = now() - from;
    from = now();
    for (long i = 0; i < COUNT; i++) all[i](i);
    fprintf(stderr, "first_ns %%.2f second_ns %%.2f\\n", first / COUNT, (now() - from) / COUNT);
    return 0;
}
"""


def compiled(folder):
    body = "__attribute__((noinline, noipa)) static void f{0}(long n) {{ sum += n * 3; sum ^= n + {0}; }}"
    order = list(range(FUNCTIONS))
    random.Random(1).shuffle(order)
    source, program = os.path.join(folder, "first.c"), os.path.join(folder, "first")
    with open(source, "w", encoding="ascii") as file:
        functions = "\n".join(body.format(number) for number in range(FUNCTIONS))
        file.write(PROGRAM % {"functions": functions, "names": ",".join(f"f{number}" for number in order)})
    subprocess.run(["cc", "-O2", source, "-o", program], check=True)
    return program


def run(words, program):
    """Nanoseconds of a first and of a second call; how many stops the watching took, and how many calls were seen."""
    environment = dict(os.environ, PREPARE=program)
    said = subprocess.run(words + [program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, text=True, env=environment)
    find = lambda key: float(re.search(rf"\b{key} ([\d.]+)", said.stderr)[1])
    watched = "--native" not in words
    if watched:
        names = set(re.findall(r" (f\d+)$", said.stdout, re.MULTILINE))
        assert len(names) == FUNCTIONS, len(names)
    return [find("first_ns"), find("second_ns"), find("stops") if watched else 0]


def main():
    calls, path, rounds = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder, open(path, "w", encoding="ascii", newline="") as file:
        program = compiled(folder)
        out = csv.writer(file)
        out.writerow(["round", "way", "first_ns", "second_ns", "stops"])
        rows = {"alone": [], "watched": []}
        for turn in range(int(rounds)):
            ways = [("alone", [calls, "--native"]), ("watched", [calls])]
            random.shuffle(ways)
            for way, words in ways:
                rows[way].append(run(words, program))
                out.writerow([turn, way, *rows[way][-1]])
    print(f"{rounds} rounds; {FUNCTIONS:,} functions, each called once and then once more; ns of CPU time of its thread")
    for way, found in rows.items():
        first, second, stops = zip(*found)
        print(f"{way}: first call {median(first)}, second {median(second)}; stops {median(stops)}")
    more = [watched[0] - alone[0] for watched, alone in zip(rows["watched"], rows["alone"])]
    print(f"a first call costs {median(more)} more when it is watched")


main()
