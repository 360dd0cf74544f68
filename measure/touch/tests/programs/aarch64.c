// Calls functions whose entries are armed, from several threads, and checks that they see what their caller gave:
// aarch64 IMAGE THREADS AWAY CODE SPACE END ONE
// IMAGE is what the test made: the text, whose first bytes are those of the section `armed` here, then code and stubs,
// the number of the address space, the table, the log. CODE, SPACE and END are offsets in it; AWAY is from the text to
// its writable view. ONE: the text is mapped once, to write and to run.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define PAGE 4096
#define EACH 16
#define IN_PAGE (PAGE / EACH)
#define FUNCTIONS (2 * IN_PAGE)
#ifndef PROT_BTI
#define PROT_BTI 0x10
#endif

// A function adds one to x9: it ran once. The second page may only be entered at landing pads.
asm(".arch armv8.5-a\n"
    ".pushsection armed, \"ax\", @progbits\n"
    ".balign 4096\n"
    ".globl armed_begin\n"
    "armed_begin:\n"
    ".rept 128\n"
    "add x9, x9, #1\n ret\n .balign 16\n"
    "b . + 8\n brk #1\n add x9, x9, #1\n ret\n"
    ".endr\n"
    ".rept 128\n"
    "bti c\n add x9, x9, #1\n ret\n .balign 16\n"
    "paciasp\n add x9, x9, #1\n autiasp\n ret\n"
    ".endr\n"
    ".popsection\n");
extern char armed_begin[];

struct registers {
    uint64_t x[31], sp, flags, sp_before;
    unsigned __int128 v[32];
};
_Static_assert(sizeof(struct registers) == 784 && offsetof(struct registers, v) == 272, "as call_with has it");

// Calls a function with these registers and tells which it leaves; returns the address it has to return to.
uint64_t call_with(void *function, const struct registers *in, struct registers *out);
asm(".globl call_with\n"
    "call_with:\n"
    "stp x29, x30, [sp, #-176]!\n"
    "stp x19, x20, [sp, #16]\n stp x21, x22, [sp, #32]\n stp x23, x24, [sp, #48]\n"
    "stp x25, x26, [sp, #64]\n stp x27, x28, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\n stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
    "str x2, [sp, #160]\n"
    "sub sp, sp, #1024\n"
    "mov x3, sp\n str x3, [sp, #264]\n"
    "add x3, x1, #272\n"
    "ldp q0, q1, [x3]\n ldp q2, q3, [x3, #32]\n ldp q4, q5, [x3, #64]\n ldp q6, q7, [x3, #96]\n"
    "ldp q8, q9, [x3, #128]\n ldp q10, q11, [x3, #160]\n ldp q12, q13, [x3, #192]\n ldp q14, q15, [x3, #224]\n"
    "ldp q16, q17, [x3, #256]\n ldp q18, q19, [x3, #288]\n ldp q20, q21, [x3, #320]\n ldp q22, q23, [x3, #352]\n"
    "ldp q24, q25, [x3, #384]\n ldp q26, q27, [x3, #416]\n ldp q28, q29, [x3, #448]\n ldp q30, q31, [x3, #480]\n"
    "ldr x3, [x1, #256]\n msr nzcv, x3\n"
    "mov x16, x0\n"
    "ldp x2, x3, [x1, #16]\n ldp x4, x5, [x1, #32]\n ldp x6, x7, [x1, #48]\n ldp x8, x9, [x1, #64]\n"
    "ldp x10, x11, [x1, #80]\n ldp x12, x13, [x1, #96]\n ldp x14, x15, [x1, #112]\n ldp x17, x18, [x1, #136]\n"
    "ldp x19, x20, [x1, #152]\n ldp x21, x22, [x1, #168]\n ldp x23, x24, [x1, #184]\n ldp x25, x26, [x1, #200]\n"
    "ldp x27, x28, [x1, #216]\n ldr x29, [x1, #232]\n"
    "ldp x0, x1, [x1]\n"
    "blr x16\n"
    "1:\n"
    "stp x0, x1, [sp]\n stp x2, x3, [sp, #16]\n stp x4, x5, [sp, #32]\n stp x6, x7, [sp, #48]\n"
    "stp x8, x9, [sp, #64]\n stp x10, x11, [sp, #80]\n stp x12, x13, [sp, #96]\n stp x14, x15, [sp, #112]\n"
    "stp x16, x17, [sp, #128]\n stp x18, x19, [sp, #144]\n stp x20, x21, [sp, #160]\n stp x22, x23, [sp, #176]\n"
    "stp x24, x25, [sp, #192]\n stp x26, x27, [sp, #208]\n stp x28, x29, [sp, #224]\n str x30, [sp, #240]\n"
    "mov x0, sp\n str x0, [sp, #248]\n"
    "mrs x0, nzcv\n str x0, [sp, #256]\n"
    "add x3, sp, #272\n"
    "stp q0, q1, [x3]\n stp q2, q3, [x3, #32]\n stp q4, q5, [x3, #64]\n stp q6, q7, [x3, #96]\n"
    "stp q8, q9, [x3, #128]\n stp q10, q11, [x3, #160]\n stp q12, q13, [x3, #192]\n stp q14, q15, [x3, #224]\n"
    "stp q16, q17, [x3, #256]\n stp q18, q19, [x3, #288]\n stp q20, q21, [x3, #320]\n stp q22, q23, [x3, #352]\n"
    "stp q24, q25, [x3, #384]\n stp q26, q27, [x3, #416]\n stp q28, q29, [x3, #448]\n stp q30, q31, [x3, #480]\n"
    "ldr x2, [sp, #1184]\n"
    "mov x3, #0\n"
    "2: ldr x4, [sp, x3]\n str x4, [x2, x3]\n add x3, x3, #8\n cmp x3, #784\n b.lo 2b\n"
    "adr x0, 1b\n"
    "add sp, sp, #1024\n"
    "ldp x19, x20, [sp, #16]\n ldp x21, x22, [sp, #32]\n ldp x23, x24, [sp, #48]\n"
    "ldp x25, x26, [sp, #64]\n ldp x27, x28, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n"
    "ldp x29, x30, [sp], #176\n"
    "ret\n");

static pthread_barrier_t together;

static void check(int number, uint64_t *seed) {
    struct registers in, out;
    uint64_t *words = (uint64_t *)&in;
    for (size_t at = 0; at < sizeof in / 8; at++) {
        *seed ^= *seed << 13, *seed ^= *seed >> 7, *seed ^= *seed << 17;
        words[at] = *seed;
    }
    in.flags &= (uint64_t)0xf << 28;
    char *function = armed_begin + number * EACH;
    uint64_t back = call_with(function, &in, &out);
    in.x[9]++;
    in.x[16] = (uint64_t)function;
    in.x[30] = back;
    int wrong = -1;
    for (int at = 0; at < 31; at++)
        if (in.x[at] != out.x[at]) wrong = at;
    for (int at = 0; at < 32; at++)
        if (in.v[at] != out.v[at]) wrong = 100 + at;
    if (in.flags != out.flags) wrong = 200;
    if (out.sp != out.sp_before) wrong = 201;
    if (wrong >= 0) {
        printf("function %d: register %d\n", number, wrong);
        exit(1);
    }
}

static void *calls(void *given) {
    uint64_t seed = (uintptr_t)given * 0x9e3779b97f4a7c15;
    uint64_t base;
    asm volatile("mrs %0, tpidr_el0" : "=r"(base));
    printf("thread %lu\n", base);
    for (int number = 0; number < FUNCTIONS; number++) {
        if (number % 16 == 0) pthread_barrier_wait(&together);
        check(number, &seed);
    }
    return NULL;
}

static uint64_t now(void) {
    uint64_t ticks;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

static void on_alarm(int signal) {
    volatile char room[2048];
    memset((void *)room, signal, sizeof room);
}

static void *map(char *at, size_t length, int protection, int flags, int file, off_t offset) {
    void *mapped = mmap(at, length, protection, flags | MAP_FIXED, file, offset);
    if (mapped != at) perror("mmap"), exit(2);
    return mapped;
}

int main(int count, char **words) {
    if (count != 8) return 2;
    int file = open(words[1], O_RDWR), threads = atoi(words[2]), one = atoi(words[7]);
    long away = atol(words[3]), code = atol(words[4]), space = atol(words[5]), end = atol(words[6]);
    char *view = armed_begin + away;
    map(view, end, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    map(view + code, space - code, PROT_READ | PROT_EXEC, MAP_SHARED, file, code);
    map(view + space, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(uint32_t *)(view + space) = 7;
    int to_run = PROT_READ | PROT_EXEC | (one ? PROT_WRITE : 0);
    map(armed_begin, code, to_run, MAP_SHARED, file, 0);
    puts(mprotect(armed_begin + PAGE, PAGE, to_run | PROT_BTI) ? "unguarded" : "guarded");

    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t all[threads];
    pthread_barrier_init(&together, NULL, threads);
    printf("from %lu\n", now());
    for (long at = 0; at < threads; at++) pthread_create(&all[at], NULL, calls, (void *)(at + 1));
    for (int at = 0; at < threads; at++) pthread_join(all[at], NULL);
    printf("to %lu\n", now());

    // Emulators keep what they made of code that was replaced through another mapping, until its rights change.
    if (!one && (mprotect(armed_begin, code, PROT_READ) || mprotect(armed_begin, code, to_run))) return 2;
    // Whoever passes a stub now ends.
    if (mprotect(view + code, space - code, PROT_NONE)) return 2;
    uint64_t seed = 1;
    for (int number = 0; number < FUNCTIONS; number++) check(number, &seed);
    puts("done");
    return 0;
}
