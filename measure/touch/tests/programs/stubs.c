// Thousands of functions of which nothing may be seen but that they ran: registers, flags, vector registers and the red
// zone are compared around their first calls, also where a signal comes at every instruction. Says "as expected".
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

// Each is 16 bytes long: part_I returns, piece_I goes back to where r11 says, as a part of a function that is jumped to.
__asm__(".text\n"
        ".altmacro\n"
        ".macro part kind, number, ending\n"
        ".p2align 4\n .globl \\kind\\()_\\number\n .type \\kind\\()_\\number, @function\n \\kind\\()_\\number:\n"
        "nop\n nop\n nop\n nop\n nop\n nop\n \\ending\n"
        ".size \\kind\\()_\\number, .-\\kind\\()_\\number\n"
        ".endm\n"
        ".set i, 0\n .rept 3000\n part part, %i, ret\n .set i, i + 1\n .endr\n"
        ".set i, 0\n .rept 100\n part piece, %i, <jmp *%r11>\n .set i, i + 1\n .endr\n"
        ".noaltmacro\n"
        // probe(function, before, after): all registers and flags from `before`, a call, all into `after`.
        ".p2align 4\n .globl probe\n .type probe, @function\n probe:\n"
        "push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n push %rdx\n push %rdi\n"
        ".set k, 0\n .irp k,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu 128 + 16 * \\k(%rsi), %xmm\\k\n .endr\n"
        "push 120(%rsi)\n"
        "mov (%rsi), %rax\n mov 8(%rsi), %rbx\n mov 16(%rsi), %rcx\n mov 24(%rsi), %rdx\n mov 40(%rsi), %rdi\n"
        "mov 48(%rsi), %rbp\n mov 56(%rsi), %r8\n mov 64(%rsi), %r9\n mov 72(%rsi), %r10\n mov 80(%rsi), %r11\n"
        "mov 88(%rsi), %r12\n mov 96(%rsi), %r13\n mov 104(%rsi), %r14\n mov 112(%rsi), %r15\n mov 32(%rsi), %rsi\n"
        "popfq\n"
        "call *(%rsp)\n"
        ".globl probed\n probed:\n"
        "pushfq\n push %rsi\n mov 24(%rsp), %rsi\n"
        "mov %rax, (%rsi)\n mov %rbx, 8(%rsi)\n mov %rcx, 16(%rsi)\n mov %rdx, 24(%rsi)\n mov %rdi, 40(%rsi)\n"
        "mov %rbp, 48(%rsi)\n mov %r8, 56(%rsi)\n mov %r9, 64(%rsi)\n mov %r10, 72(%rsi)\n mov %r11, 80(%rsi)\n"
        "mov %r12, 88(%rsi)\n mov %r13, 96(%rsi)\n mov %r14, 104(%rsi)\n mov %r15, 112(%rsi)\n"
        "pop %rax\n mov %rax, 32(%rsi)\n pop %rax\n mov %rax, 120(%rsi)\n push %rax\n andq $~0x500, (%rsp)\n popfq\n"
        ".irp k,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movdqu %xmm\\k, 128 + 16 * \\k(%rsi)\n .endr\n"
        "add $16, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
        ".size probe, .-probe\n"
        // red(piece): whether what lies below the stack pointer is as it was after a jump there and back.
        ".p2align 4\n .globl red\n .type red, @function\n red:\n"
        "mov $-128, %rax\n 1: mov %rax, (%rsp, %rax)\n add $8, %rax\n jnz 1b\n"
        "lea 2f(%rip), %r11\n jmp *%rdi\n"
        "2: mov $-128, %rdx\n 3: cmp %rdx, (%rsp, %rdx)\n jne 4f\n add $8, %rdx\n jnz 3b\n mov $1, %eax\n ret\n"
        "4: xor %eax, %eax\n ret\n"
        ".size red, .-red\n");

extern char part_0[], piece_0[], probed[];
extern void probe(void *function, const void *before, void *after);
extern int red(void *piece);

static void *part(int number) { return part_0 + 16 * number; }

struct state {
    uint64_t registers[15], flags;
    unsigned char vectors[256];
};

static void fail(const char *what, int number) {
    printf("%s of %d differ\n", what, number);
    fflush(stdout);
    _exit(1);
}

static void check(int number, uint64_t flags) {
    struct state before, after;
    for (unsigned at = 0; at < sizeof before; at++)
        ((unsigned char *)&before)[at] = at * 37 + number;
    before.flags = flags;
    memset(&after, 0, sizeof after);
    probe(part(number), &before, &after);
    if (memcmp(before.registers, after.registers, sizeof before.registers))
        fail("registers", number);
    // The flag of single steps is the handler's to clear.
    if ((before.flags ^ after.flags) & ~0x100ul)
        fail("flags", number);
    if (memcmp(before.vectors, after.vectors, sizeof before.vectors))
        fail("vector registers", number);
}

static volatile int steps, nested = 1000;

// Comes at every instruction between popfq and the return, and makes first calls itself.
static void on_trap(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *where = context;
    steps++;
    if (nested < 2000)
        ((void (*)(void))part(nested++))();
    if (where->uc_mcontext.gregs[REG_RIP] == (greg_t)probed)
        where->uc_mcontext.gregs[REG_EFL] &= ~0x100l;
}

static volatile int alarms, in_alarm = 2000;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
    if (in_alarm < 2400)
        ((void (*)(void))part(in_alarm++))();
}

static void *same(void *unused) {
    for (int number = 2400; number < 2800; number++)
        ((void (*)(void))part(number))();
    return unused;
}

__attribute__((noinline)) int deep(void) {
    void *frames[32];
    return backtrace(frames, 32);
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 1) {
        for (int number = 0; number < 2950; number++)
            ((void (*)(void))part(number))();
        puts(words[1]);
        return 0;
    }
    for (int number = 0; number < 400; number++)
        check(number, number % 2 ? 0xed7 : 0x202);
    for (int number = 0; number < 100; number++)
        if (!red(piece_0 + 16 * number))
            fail("red zone", number);

    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGTRAP, &action, NULL);
    for (int number = 400; number < 420; number++)
        check(number, number % 2 ? 0xfd7 : 0x302);
    if (steps < 20 * 7)
        fail("steps", steps);

    struct sigaction ticks = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &ticks, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec often = {{0, 200000}, {0, 200000}};
    timer_settime(timer, 0, &often, NULL);
    for (int number = 420; number < 1000; number++) {
        check(number, 0x202);
        while (alarms * 10 < number - 420)
            ;
    }
    struct itimerspec never = {{0, 0}, {0, 0}};
    timer_settime(timer, 0, &never, NULL);
    while (nested < 2000)
        check(nested++, 0x202);
    while (in_alarm < 2400)
        check(in_alarm++, 0x202);

    pthread_t threads[4];
    for (int at = 0; at < 4; at++)
        pthread_create(&threads[at], NULL, same, NULL);
    for (int at = 0; at < 4; at++)
        pthread_join(threads[at], NULL);

    // A child that has its parent's memory, and one that has a copy: what one calls, the other calls as if by itself.
    pid_t child = vfork();
    if (child == 0) {
        ((void (*)(void))part(2800))();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    child = fork();
    if (child == 0) {
        for (int number = 2801; number < 2900; number++)
            check(number, 0x202);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status)
        fail("a child's end", status);
    for (int number = 2801; number < 2950; number++)
        check(number, 0x202);
    // main, what calls it and what calls that, and itself.
    if (deep() < 4)
        fail("frames", deep());
    puts("as expected");
    return 0;
}
