/* A loaded object in miniature for the initialiser: code, table, read-only data, data. Test fixture.
 *
 *   harness places          prints the address of the object and the address of its original initialiser
 *   harness run CODE WORDS  CODE goes to offset 0, and WORDS (what the linker left there) to offset DATA; pages from
 *                           RELRO on are made read-only, CODE is called as a loader would; then WORDS as they are
 *                           now go to stdout
 *   harness run CODE WORDS PAGE
 *                           likewise on a kernel with pages of PAGE bytes, played by a signal handler: the caller has
 *                           put STAND_IN in place of the system calls
 *   harness run CODE WORDS PAGE N
 *                           likewise, and that kernel refuses the N-th call that would change something
 *
 * Linked at a fixed address, so that the caller can make CODE in between. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { SIZE = 0x80000, DATA = 0x20000, RELRO = 0x20000, RELRO_END = 0x50000 };

unsigned char object[SIZE] __attribute__((aligned(0x10000), section(".object"))) = {1};
static long arguments[3];
static uintptr_t frame;
static int calls;

/* The initialiser that stood there before; takes what a loader passes. */
__attribute__((noinline, used)) void original(long argc, long argv, long envp)
{
    arguments[0] = argc;
    arguments[1] = argv;
    arguments[2] = envp;
    frame = (uintptr_t)__builtin_frame_address(0);
    calls++;
}

static void fail(const char *what)
{
    fprintf(stderr, "harness: %s\n", what);
    exit(1);
}

static long fill(const char *path, unsigned char *to, long room)
{
    int file = open(path, O_RDONLY);
    long got = read(file, to, room);
    if (file < 0 || got <= 0)
        fail(path);
    close(file);
    return got;
}

/* Calls the code with three arguments and known values in the registers that a function must keep; 1 if they and the
 * stack pointer are the same afterwards, else 0. */
extern long checked_call(void *code);

#if defined(__x86_64__)
__asm__(".text\n.globl checked_call\nchecked_call:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15; push %rdi\n"
        "mov %rdi,%rax; mov $0x1b,%rbx; mov $0x1c,%r12; mov $0x1d,%r13; mov $0x1e,%r14; mov $0x1f,%r15; mov %rsp,%rbp\n"
        "mov $11,%rdi; mov $22,%rsi; mov $33,%rdx; call *%rax\n"
        "xor %rax,%rax; cmp %rsp,%rbp; jne 1f; cmp $0x1b,%rbx; jne 1f; cmp $0x1c,%r12; jne 1f; cmp $0x1d,%r13; jne 1f\n"
        "cmp $0x1e,%r14; jne 1f; cmp $0x1f,%r15; jne 1f; mov $1,%rax\n"
        "1: mov %rbp,%rsp; pop %rdi; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");
#elif defined(__i386__)
__asm__(".text\n.globl checked_call\nchecked_call:\n"
        "mov 4(%esp),%eax; push %ebx; push %ebp; push %esi; push %edi; push $33; push $22; push $11\n"
        "mov $0x1b,%ebx; mov $0x1c,%esi; mov $0x1d,%edi; mov %esp,%ebp; call *%eax\n"
        "xor %eax,%eax; cmp %esp,%ebp; jne 1f; cmp $0x1b,%ebx; jne 1f; cmp $0x1c,%esi; jne 1f; cmp $0x1d,%edi; jne 1f; inc %eax\n"
        "1: mov %ebp,%esp; add $12,%esp; pop %edi; pop %esi; pop %ebp; pop %ebx; ret\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl checked_call\nchecked_call:\n"
        "stp x29,x30,[sp,#-112]!; stp x19,x20,[sp,#16]; stp x21,x22,[sp,#32]; stp x23,x24,[sp,#48]; stp x25,x26,[sp,#64]; stp x27,x28,[sp,#80]\n"
        "mov x17,x0; mov x19,#19; mov x20,#20; mov x21,#21; mov x22,#22; mov x23,#23; mov x24,#24; mov x25,#25; mov x26,#26; mov x27,#27; mov x28,#28\n"
        "mov x29,sp; str x18,[sp,#96]; mov x0,#11; mov x1,#22; mov x2,#33; blr x17\n"
        "mov x0,#0; mov x1,sp; cmp x1,x29; b.ne 1f; ldr x1,[sp,#96]; cmp x1,x18; b.ne 1f\n"
        "cmp x19,#19; b.ne 1f; cmp x20,#20; b.ne 1f; cmp x21,#21; b.ne 1f; cmp x22,#22; b.ne 1f; cmp x23,#23; b.ne 1f; cmp x24,#24; b.ne 1f\n"
        "cmp x25,#25; b.ne 1f; cmp x26,#26; b.ne 1f; cmp x27,#27; b.ne 1f; cmp x28,#28; b.ne 1f; mov x0,#1\n"
        "1: mov sp,x29; ldp x19,x20,[sp,#16]; ldp x21,x22,[sp,#32]; ldp x23,x24,[sp,#48]; ldp x25,x26,[sp,#64]; ldp x27,x28,[sp,#80]; ldp x29,x30,[sp],#112; ret\n");
#elif defined(__arm__)
__asm__(".text\n.arm\n.globl checked_call\n.type checked_call,%function\nchecked_call:\n"
        "push {r4-r11,lr}\nsub sp,sp,#4\nmov r12,r0\nmov r4,#4\nmov r5,#5\nmov r6,#6\nmov r7,#7\nmov r8,#8\nmov r9,#9\nmov r10,#10\nmov r11,sp\n"
        "mov r0,#11\nmov r1,#22\nmov r2,#33\nblx r12\n"
        "mov r0,#0\ncmp r11,sp\nbne 1f\ncmp r4,#4\nbne 1f\ncmp r5,#5\nbne 1f\ncmp r6,#6\nbne 1f\ncmp r7,#7\nbne 1f\ncmp r8,#8\nbne 1f\ncmp r9,#9\nbne 1f\ncmp r10,#10\nbne 1f\nmov r0,#1\n"
        "1: mov sp,r11\nadd sp,sp,#4\npop {r4-r11,pc}\n");
#endif
/* The kernel that is played. On x86 pages have one size only. */
static unsigned long played_page;
static int refuse;

#if defined(__aarch64__) || defined(__arm__)
static void kernel(int signal, siginfo_t *info, void *context)
{
    mcontext_t *thread = &((ucontext_t *)context)->uc_mcontext;
    (void)signal;
    (void)info;
#if defined(__aarch64__)
    enum { STAND_IN = 0xd4200000 };
    unsigned long long *registers = thread->regs;
    unsigned long number = registers[8];
    const unsigned *at = (const unsigned *)thread->pc;
    thread->pc += 4;
#else
    enum { STAND_IN = 0xe7f100f0 };
    unsigned long *registers = &thread->arm_r0;
    unsigned long number = registers[7];
    const unsigned *at = (const unsigned *)thread->arm_pc;
    thread->arm_pc += 4;
#endif
    unsigned long address = registers[0], length = registers[1], protection = registers[2];
    if (*at != STAND_IN)
        fail("stopped by a trap");
    if (number != SYS_mprotect)
        fail("another system call");
    fprintf(stderr, "mprotect %#lx %#lx %lu\n", address, length, protection);
    if (address % played_page)
        registers[0] = -22;
    else if (length && !--refuse)
        registers[0] = -12;
    else
        registers[0] = length ? mprotect((void *)address, length, protection) : 0;
}

static void play(void)
{
    struct sigaction action = {.sa_sigaction = kernel, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0);
    sigaction(SIGILL, &action, 0);
}
#else
static void play(void)
{
    fail("no page but one of 4096 bytes can be played here");
}
#endif

static sigjmp_buf back;

static void refused(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static int writable(volatile unsigned char *at)
{
    signal(SIGSEGV, refused);
    if (sigsetjmp(back, 1))
        return 0;
    *at = *at;
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 2) {
        printf("%lu %lu\n", (unsigned long)(uintptr_t)object, (unsigned long)(uintptr_t)original);
        return 0;
    }
    fill(argv[2], object, DATA);
    long length = fill(argv[3], object + DATA, SIZE - DATA);
    if (mprotect(object, DATA, PROT_READ | PROT_EXEC) || mprotect(object + RELRO, RELRO_END - RELRO, PROT_READ))
        fail("mprotect");
    if (argc >= 5) {
        played_page = strtoul(argv[4], 0, 10);
        refuse = argc > 5 ? atoi(argv[5]) : 0;
        play();
    }
    if (!checked_call(object))
        fail("a register that belongs to the caller has changed");
    /* 0 where the code has no original. */
    if (calls == 1) {
        if (arguments[0] != 11 || arguments[1] != 22 || arguments[2] != 33)
            fail("other arguments");
#if defined(__x86_64__) || defined(__aarch64__)
        if (frame % 16)
            fail("the stack is not aligned");
#endif
    }
    fprintf(stderr, "calls %d\n", calls);
    if (writable(object + RELRO) || writable(object + RELRO_END - 1))
        fail("writable after the initialiser");
    /* Where a kernel is played, the caller compares the calls. */
    if (!played_page && !writable(object + RELRO_END))
        fail("too much is read-only after the initialiser");
    return write(1, object + DATA, length) != length;
}
