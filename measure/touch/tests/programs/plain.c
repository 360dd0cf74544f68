/* Calls that are the same on each machine; prints how often it makes them. */
#include <pthread.h>
#include <stdio.h>
__attribute__((noinline)) long q_called(long n) { return n * 2; }
__attribute__((noinline)) long q_other(long n) { return q_called(n) + 1; }
static void *work(void *argument) {
    for (int i = 0; i < 500; i++) *(long *)argument += q_other(i);
    return 0;
}
int main(void) {
    pthread_t threads[4];
    long sums[4] = {0};
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, &sums[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < 4; i++)
        if (sums[i] != 500 * 499 + 500) return 1;
    for (int i = 0; i < 30; i++) q_called(i);
    printf("q_called 2030\nq_other 2000\n");
    return 0;
}
