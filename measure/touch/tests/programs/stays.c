// Functions that may be moved, and functions that may not, each for a reason of its own. Compiled with
// -ffunction-sections -fno-toplevel-reorder -Wl,--emit-relocs.
#include <stdlib.h>

asm(// Runs on into the next one.
    ".section .text.runs, \"ax\", @progbits\n"
    ".globl runs, into\n .type runs, @function\n .type into, @function\n"
    "runs: .cfi_startproc\n xor %eax, %eax\n nop\n .cfi_endproc\n .size runs, . - runs\n"
    "into: .cfi_startproc\n ret\n .cfi_endproc\n .size into, . - into\n"
    // Has no unwind data, and jumps into one that has.
    ".section .text.bare, \"ax\", @progbits\n"
    ".globl bare, target\n .type bare, @function\n .type target, @function\n"
    "bare: test %edi, %edi\n jne 1f\n ret\n .size bare, . - bare\n"
    "target: .cfi_startproc\n xor %eax, %eax\n 1: ret\n .cfi_endproc\n .size target, . - target\n"
    // Two entrances.
    ".section .text.two, \"ax\", @progbits\n"
    ".globl two, inner\n .type two, @function\n"
    "two: .cfi_startproc\n xor %eax, %eax\n inner: ret\n .cfi_endproc\n .size two, . - two\n"
    // Data in front of which it jumps.
    ".section .text.data, \"ax\", @progbits\n"
    ".globl data, behind\n .type data, @function\n .type behind, @function\n"
    "data: .cfi_startproc\n jmp 1f\n .byte 6, 6, 6\n 1: ret\n .cfi_endproc\n .size data, . - data\n"
    "behind: .cfi_startproc\n ret\n .cfi_endproc\n .size behind, . - behind\n"
    // Its symbol is longer than its unwind data say.
    ".section .text.longer, \"ax\", @progbits\n"
    ".globl longer\n .type longer, @function\n"
    "longer: .cfi_startproc\n ret\n .cfi_endproc\n nop\n .size longer, . - longer\n"
    // One calls the other without a relocation.
    ".section .text.pair, \"ax\", @progbits\n"
    ".globl caller\n .type caller, @function\n .type callee, @function\n"
    "caller: .cfi_startproc\n call callee\n ret\n .cfi_endproc\n .size caller, . - caller\n"
    "callee: .cfi_startproc\n ret\n .cfi_endproc\n .size callee, . - callee\n"
    // Data count from themselves, in eight bytes.
    ".section .text.tabled, \"ax\", @progbits\n"
    ".globl tabled\n .type tabled, @function\n"
    "tabled: .cfi_startproc\n ret\n .cfi_endproc\n .size tabled, . - tabled\n"
    ".data\n .quad tabled - .\n"
    // In a section of its own.
    ".section apart, \"ax\", @progbits\n"
    ".globl own\n .type own, @function\n"
    "own: .cfi_startproc\n ret\n .cfi_endproc\n .size own, . - own\n"
    ".text\n");
int runs(void), into(void), bare(int), target(void), two(void), inner(void), data(void), behind(void), longer(void),
    caller(void), tabled(void), own(void);

volatile int sink;
#define PLAIN __attribute__((noinline, noipa))
PLAIN int plain(int x) { return x * 3 + sink; }
PLAIN int loops(int x) {
    for (int at = 0; at < x; at++) sink += plain(at);
    return sink;
}
PLAIN void aborts(int x) {
    if (x > 100) return;
    sink = x;
    abort();
}
// By a table of jumps.
PLAIN int switches(int x) {
    switch (x) {
    case 0: sink += 7; return plain(1);
    case 1: sink -= x; return loops(2);
    case 2: sink *= 3; return x;
    case 3: sink ^= 9; return plain(x) + 1;
    case 4: sink = 12; break;
    case 5: sink |= 4; return 17;
    case 6: sink <<= 1; return loops(x);
    case 7: sink /= 5; break;
    case 8: sink %= 6; return 4;
    }
    return plain(sink);
}
PLAIN int by_pointer(int x) { return x + 1; }
int (*volatile pointer)(int) = by_pointer;
__attribute__((noreturn, noinline, noipa)) void forever(void) {
    for (;;) sink++;
}
// Nobody knows that what it calls last never returns.
PLAIN void may_run_on(int x) {
    if (x > 100) return;
    sink = x;
    forever();
}
PLAIN int after(int x) { return x; }
PLAIN int last(int x) { return x + after(x); }

int main(int count, char **words) {
    (void)words;
    if (count > 100) {
        return runs() + into() + bare(1) + target() + two() + inner() + data() + behind() + longer() + caller() +
               tabled() + own();
    }
    if (count > 90) aborts(count), may_run_on(count);
    return (loops(3) + switches(count) + pointer(2) + last(1)) == 0;
}
