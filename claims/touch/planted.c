/* Calls a function CALLS times in each of THREADS threads; prints nanoseconds of CPU time for each call. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long calls;
static double took[64];
__attribute__((noinline, noipa)) long planted(long n) { return n * 3 + 1; }
static void *work(void *number) {
    struct timespec from, to;
    long n = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (long i = 0; i < calls; i++) n = planted(n);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    took[(long)number] = (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
    return (void *)n;
}
int main(int argc, char **argv) {
    (void)argc;
    calls = atol(argv[1]);
    long threads = atol(argv[2]);
    pthread_t all[64];
    for (long i = 0; i < threads; i++) pthread_create(&all[i], 0, work, (void *)i);
    double sum = 0;
    for (long i = 0; i < threads; i++) pthread_join(all[i], 0);
    for (long i = 0; i < threads; i++) sum += took[i];
    fprintf(stderr, "ns_per_call %.2f\n", sum / threads / calls);
    return 0;
}
