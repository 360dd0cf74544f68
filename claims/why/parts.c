/* parts ticks|leaves|threads N: what a recorder of threads costs, apart. `ticks`: N times 100,000 steps of a loop, 16 KiB
   deep in the stack. `leaves`: two threads on one CPU hand a number to and fro by a futex, so that each leaves N times,
   4 KiB deep. `threads`: N threads that do nothing, one after the other. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int count;
static _Atomic int turn;

static void spin(int mine) {
    volatile long steps = mine;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 100000; j++) steps++;
}

static void hand(int mine) {
    for (int i = 0; i < count; i++) {
        int other;
        while ((other = turn) != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, other, 0, 0, 0);
        turn = 1 - mine;
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
    }
}

__attribute__((noinline)) static void deep(int bytes, void (*act)(int), int mine) {
    volatile char frame[1024];
    frame[0] = 1;
    if (bytes > 0) deep(bytes - (int)sizeof frame, act, mine);
    else act(mine);
    frame[1] = 1;
}

static void *second(void *nothing) {
    deep(4096, hand, 1);
    return nothing;
}

static void *idle(void *nothing) { return nothing; }

int main(int words, char **word) {
    if (words != 3) return 2;
    count = atoi(word[2]);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    pthread_t other;
    if (sched_setaffinity(0, sizeof one, &one)) return 3;
    if (!strcmp(word[1], "ticks")) {
        deep(16384, spin, 0);
    } else if (!strcmp(word[1], "leaves")) {
        if (pthread_create(&other, 0, second, 0)) return 4;
        deep(4096, hand, 0);
        pthread_join(other, 0);
    } else {
        for (int i = 0; i < count; i++)
            if (pthread_create(&other, 0, idle, 0) || pthread_join(other, 0)) return 4;
    }
    return 0;
}
