// A signal handler above a function whose first instruction cannot be executed, and one on a stack of its own.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

volatile int sink;

void before(void);
void faults(void);
__asm__(
    ".text\n.globl before\n.type before,@function\nbefore: .cfi_startproc\n ret\n .cfi_endproc\n.size before,.-before\n"
    ".globl faults\n.type faults,@function\nfaults: .cfi_startproc\n ud2\n .cfi_endproc\n.size faults,.-faults\n");

__attribute__((noinline)) static void handler(int number) {
    if (write(1, "ready\n", 6) != 6) _exit(1);
    for (;;) pause();
    sink = number;
}

__attribute__((noinline)) void caller(void) {
    faults();
    sink = 1;
}

int main(int argc, char **argv) {
    (void)argv;
    struct sigaction action = {.sa_handler = handler, .sa_flags = argc > 1 ? SA_ONSTACK : 0};
    stack_t own = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    if (argc > 1) sigaltstack(&own, 0);
    sigaction(SIGILL, &action, 0);
    caller();
    sink = 2;
    return 0;
}
