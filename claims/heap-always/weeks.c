// As many pairs of malloc and free as weeks of a server have, of sizes of three places; some blocks stay for a while, a few for
// ever. Usage: weeks PAIRS THREADS
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t pairs;

__attribute__((noinline)) static void *request(size_t size) { return malloc(size); }
__attribute__((noinline)) static void *cache(size_t size) { return malloc(size); }
__attribute__((noinline)) static void *leak(size_t size) { return malloc(size); }

static void *work(void *start) {
    uint64_t state = (uintptr_t)start;
    void *held[256] = {0};
    for (uint64_t i = 0; i < pairs; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t size = 16 + (state >> 33) % 240;
        if ((i & 1023) == 0) {
            unsigned place = state >> 40 & 255;
            free(held[place]);
            held[place] = cache(size * 8);
        } else if ((i & 0xfffffff) == 1) {
            *(volatile char *)leak(1 << 20) = 1;
        } else {
            void *block = request(size);
            *(volatile char *)block = 1;
            free(block);
        }
    }
    for (int i = 0; i < 256; i++) free(held[i]);
    return 0;
}

int main(int argc, char **argv) {
    int threads = argc > 2 ? atoi(argv[2]) : 1;
    pthread_t all[64];
    pairs = strtoull(argv[1], 0, 10) / threads;
    for (int i = 0; i < threads; i++) pthread_create(&all[i], 0, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < threads; i++) pthread_join(all[i], 0);
    return 0;
}
