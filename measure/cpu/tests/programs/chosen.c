/* A function that another one chooses when it is first called, which takes for ever. */
#include <stdio.h>
#include <unistd.h>

static int one(int it) { return it + 1; }

__attribute__((noinline)) static void *innermost(void) {
    puts("ready");
    fflush(stdout);
    pause();
    return one;
}

__attribute__((noinline)) static void *choose(void) {
    void *found = innermost();
    __asm__ volatile("" : "+r"(found));
    return found;
}

int chosen(int it) __attribute__((ifunc("choose")));
