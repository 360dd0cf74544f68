/* A loaded object in miniature for the initialiser: code, table, read-only data, data. Test fixture.
 *
 *   harness places          prints the address of the object and the address of its original initialiser
 *   harness run CODE WORDS  CODE goes to offset 0, and WORDS (what the linker left there) to offset DATA; pages from
 *                           RELRO on are made read-only, CODE is called as a loader would; then WORDS as they are
 *                           now go to stdout
 *   harness run CODE WORDS PAGE
 *                           likewise on a kernel with pages of PAGE bytes, played by a signal handler: the caller has
 *                           put trapping instructions in place of the system calls
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

static unsigned char object[SIZE] __attribute__((aligned(0x10000)));
static long long_arguments[3];
static uintptr_t frame;
static int calls;

/* The initialiser that stood there before; takes what a loader passes. */
__attribute__((noinline, used)) void original(long argc, long argv, long envp)
{
    long_arguments[0] = argc;
    long_arguments[1] = argv;
    long_arguments[2] = envp;
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

/* Calls the code with three arguments and known values in the registers that a function must keep. Tells whether they,
 * and the stack pointer, are the same afterwards. */
static int call_keeps_registers(void *code);

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
extern long checked_call(void *code);

static int call_keeps_registers(void *code)
{
    return checked_call(code) == 1;
}

/* The kernel with large pages: the trapping instruction stands for a system call. */
static unsigned long played_page;

static void kernel(int signal, siginfo_t *info, void *context)
{
    ucontext_t *thread = context;
    (void)signal;
    (void)info;
#if defined(__aarch64__)
    unsigned long long *registers = thread->uc_mcontext.regs;
    unsigned long address = registers[0], length = registers[1], protection = registers[2], number = registers[8];
    thread->uc_mcontext.pc += 4;
#elif defined(__arm__)
    unsigned long *registers = &thread->uc_mcontext.arm_r0;
    unsigned long address = registers[0], length = registers[1], protection = registers[2], number = registers[7];
    thread->uc_mcontext.arm_pc += 4;
#else
    unsigned long registers[1], address = 0, length = 0, protection = 0, number = 0;
    (void)thread;
#endif
    if (number != SYS_mprotect)
        _exit(9);
    fprintf(stderr, "mprotect %#lx %#lx %lu\n", address, length, protection);
    if (address % played_page)
        registers[0] = -22;
    else if (length == 0)
        registers[0] = 0;
    else
        registers[0] = mprotect((void *)address, (length + played_page - 1) / played_page * played_page, protection);
}

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
    if (argc == 5) {
        struct sigaction action = {.sa_sigaction = kernel, .sa_flags = SA_SIGINFO};
        played_page = strtoul(argv[4], 0, 10);
        sigaction(SIGTRAP, &action, 0);
        sigaction(SIGILL, &action, 0);
    }
    if (!call_keeps_registers(object))
        fail("a register that belongs to the caller has changed");
    /* 0 where the code has no original. */
    if (calls == 1) {
        if (long_arguments[0] != 11 || long_arguments[1] != 22 || long_arguments[2] != 33)
            fail("other arguments");
#if defined(__x86_64__)
        if (frame % 16)
            fail("the stack is not aligned");
#elif defined(__aarch64__)
        if (frame % 16)
            fail("the stack is not aligned");
#endif
    }
    fprintf(stderr, "calls %d\n", calls);
    if (writable(object + RELRO) || writable(object + RELRO_END - 1))
        fail("writable after the initialiser");
    if (!writable(object + RELRO_END))
        fail("too much is read-only after the initialiser");
    return write(1, object + DATA, length) != length;
}
