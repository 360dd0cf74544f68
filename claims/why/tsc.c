/* tsc: cycles of the time stamp counter in a second, by CLOCK_MONOTONIC. */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

int main(void) {
    double began = now(), end;
    unsigned long long first = __rdtsc(), last;
    do {
        end = now();
        last = __rdtsc();
    } while (end - began < 0.5);
    printf("%.0f\n", (double)(last - first) / (end - began));
    return 0;
}
