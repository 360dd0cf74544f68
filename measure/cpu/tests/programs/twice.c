// One library, twice in one process.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

typedef void (*Step)(void (*)(void));
volatile int sink;
static Step second;

__attribute__((noinline)) static void innermost(void) {
    if (write(1, "ready\n", 6) != 6) _exit(1);
    for (;;) pause();
}

__attribute__((noinline)) static void between(void) {
    second(innermost);
    sink = 1;
}

int main(int argc, char **argv) {
    void *one = dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW), *two = dlmopen(LM_ID_NEWLM, argv[argc - 1], RTLD_NOW);
    if (!one || !two || one == two) return fprintf(stderr, "%s\n", dlerror());
    Step first = (Step)dlsym(one, "step");
    second = (Step)dlsym(two, "step");
    if (!first || first == second) return 1;
    first(between);
    sink = 2;
    return 0;
}
