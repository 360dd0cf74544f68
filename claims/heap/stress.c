// The worst case for remembered stacks: two threads, a million operations each, 24 frames whose outer ones change each time.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

static int operations = 1000000;

__attribute__((noinline)) static void operate(uint64_t *random, void **slots)
{
    *random = *random * 6364136223846793005 + 1442695040888963407;
    int slot = *random >> 54 & 255;
    // Few sizes: heaptrack 1.4.0 runs out of memory with many sizes from few stacks.
    size_t size = 16 + 32 * (*random >> 40 & 15);
    switch (*random >> 62) {
    case 0: free(slots[slot]); slots[slot] = malloc(size); break;
    case 1: slots[slot] = realloc(slots[slot], size); break;
    case 2: free(slots[slot]); slots[slot] = calloc(1, size); break;
    default: free(slots[slot]); slots[slot] = 0;
    }
    __asm__ volatile("" : : : "memory");
}

static void left(int depth, unsigned path, uint64_t *random, void **slots);
__attribute__((noinline)) static void right(int depth, unsigned path, uint64_t *random, void **slots)
{
    if (depth == 0) operate(random, slots);
    else if (path & 1) left(depth - 1, path >> 1, random, slots);
    else right(depth - 1, path >> 1, random, slots);
    __asm__ volatile("" : : : "memory");
}
__attribute__((noinline)) static void left(int depth, unsigned path, uint64_t *random, void **slots)
{
    if (depth == 0) operate(random, slots);
    else if (path & 1) right(depth - 1, path >> 1, random, slots);
    else left(depth - 1, path >> 1, random, slots);
    __asm__ volatile("" : : : "memory");
}

static void *work(void *seed)
{
    uint64_t random = (uintptr_t)seed;
    void *slots[256] = {0};
    // Five bits choose among 32 stacks, at the outer end.
    for (int i = 0; i < operations; i++) left(18, random >> 33 & 31, &random, slots);
    for (int i = 0; i < 256; i++) free(slots[i]);
    return 0;
}

int main(int count, char **words)
{
    pthread_t other;
    if (count > 1) operations = atoi(words[1]);
    pthread_create(&other, 0, work, (void *)7);
    work((void *)9);
    pthread_join(other, 0);
}
