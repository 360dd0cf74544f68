/* Copies a function of its own into fresh memory and calls the copy: `m` that of an anonymous mapping, `f` that of a file in memory.
   With `s` it adds up the bytes of the function, and fails if they are not the sum that it was built with (`c`: prints the sum).
   With `t` it handles SIGTRAP, has a trap of its own in fresh memory, and goes on. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef SUM
#define SUM 0
#endif

__asm__(".text\n.globl k01_copied\n.type k01_copied, @function\nk01_copied:\n"
        ".cfi_startproc\n"
        "  push %rbp\n  mov %rsp, %rbp\n  lea (%rdi,%rdi,2), %eax\n  pop %rbp\n  ret\n"
        ".cfi_endproc\n"
        ".size k01_copied, . - k01_copied\n.globl end_of_copied\nend_of_copied:\n");
int k01_copied(int);
extern const unsigned char end_of_copied[];
static void on_trap(int signal) { (void)signal; }

int main(int argc, char **argv) {
    const unsigned char *code = (const unsigned char *)k01_copied;
    size_t len = (size_t)(end_of_copied - code);
    char how = argc > 1 ? argv[1][0] : 'm';
    if (how == 's' || how == 'c') {
        unsigned sum = 0;
        for (size_t at = 0; at < len; at++) sum += code[at];
        if (how == 'c') printf("%u\n", sum);
        return how == 's' && sum != SUM ? 3 : 0;
    }
    int file = how == 'f' ? memfd_create("code", 0) : -1;
    if (file >= 0 && ftruncate(file, 4096)) return 4;
    unsigned char *copy = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (copy == MAP_FAILED) return 5;
    if (how == 't') {
        signal(SIGTRAP, on_trap);
        memcpy(copy, "\xcc\x90\x90\x90\x90\xc3", 6);
        for (int time = 0; time < 3; time++) ((void (*)(void))copy)();
        return 0;
    }
    memcpy(copy, code, len);
    printf("%d\n", ((int (*)(int))copy)(14));
    return 0;
}
