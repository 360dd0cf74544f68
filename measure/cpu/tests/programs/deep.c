// A known depth of calls without frame pointers, one of them on a stack that it aligned itself.
#include <stdlib.h>
#include <unistd.h>

volatile int sink;

__attribute__((noinline)) void innermost(void) {
    if (write(1, "ready\n", 6) != 6) _exit(1);
    for (;;) pause();
}

__attribute__((noinline)) void depth(int n) {
    volatile char room[72];
    room[n] = 1;
    if (n == 0) innermost();
    else depth(n - 1);
    sink = room[n];
}

__attribute__((noinline)) void aligned(int n) {
    volatile char room[n] __attribute__((aligned(64)));
    room[n - 1] = 2;
    depth(40);
    sink = room[n - 1];
}

int main(int argc, char **argv) {
    (void)argv;
    aligned(argc + 100);
    return 0;
}
