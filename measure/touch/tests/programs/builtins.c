/* Code as V8 embeds it: builtins in a range of their own, begun by a symbol, which the program copies to fresh memory and runs there.
   There are so many other functions that their entries are jumps; a copy of one that was changed would run astray. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define STRING(x) #x
#define BUILTIN(n) \
    ".type Builtins_" STRING(n) ", @function\n.balign 64\nBuiltins_" STRING(n) ":\n" \
    "  push %rbp\n  mov %rsp, %rbp\n  lea " STRING(n) "(%rdi), %eax\n  pop %rbp\n  ret\n.size Builtins_" STRING(n) ", . - Builtins_" STRING(n) "\n"

__asm__(".text\n.balign 64\nv8_Default_embedded_blob_code_:\n.globl builtins_begin\nbuiltins_begin:\n"
        BUILTIN(0) BUILTIN(1) BUILTIN(2) BUILTIN(3) BUILTIN(4) BUILTIN(5) BUILTIN(6) BUILTIN(7)
        ".globl builtins_end\nbuiltins_end:\n.balign 64\n");
extern const unsigned char builtins_begin[], builtins_end[];

#define ONE(n) __attribute__((noinline)) static int part_##n(int x) { return x + n; }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5) HUNDRED(6) HUNDRED(7) HUNDRED(8) HUNDRED(9) HUNDRED(10) HUNDRED(11) HUNDRED(12)

int main(void) {
    size_t len = (size_t)(builtins_end - builtins_begin);
    unsigned char *copy = mmap(0, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) return 5;
    memcpy(copy, builtins_begin, len);
    int sum = 0;
    for (size_t at = 0; at < len; at += 64) sum += ((int (*)(int))(copy + at))(10);
    printf("%d\n", part_100(sum) + part_1299(0));
    return 0;
}
