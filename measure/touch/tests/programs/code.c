// Functions whose executed bytes are known, between labels that begin with `yes_` (executed) and `no_` (not): all of `block` is
// between such labels. Its branches go both ways by the number of arguments alone.
#include <unistd.h>

__asm__(".text\n"
        ".p2align 6\n"
        ".globl block\n"
        "block:\n"
        // A conditional jump that is taken leaves what follows it.
        "yes_1: test %edi, %edi\n"
        "       je 1f\n"
        "no_1:  mov $1, %eax\n"
        "       ud2\n"
        // A jump that is not taken goes on.
        "yes_2:\n"
        "1:     cmp $5, %edi\n"
        "       je 2f\n"
        "       xor %eax, %eax\n"
        "       jmp 3f\n"
        "no_2:\n"
        "2:     ud2\n"
        "       .ascii \"data between code\"\n"
        // A loop and string instructions, of which one does nothing.
        "yes_3:\n"
        "3:     mov $10, %ecx\n"
        "4:     dec %ecx\n"
        "       jnz 4b\n"
        "       mov %rsp, %rsi\n"
        "       mov %rsp, %rdi\n"
        "       rep movsb\n"
        "       mov $8, %ecx\n"
        "       rep lodsb\n"
        "       call 6f\n"
        "       xor %edx, %edx\n"
        "       cmovne %rdx, %rax\n"
        "       lea 8f(%rip), %rdx\n"
        "       jmp *%rdx\n"
        "no_3:  mov %rax, %rax\n"
        "       jmp 4b\n"
        // Called, in the middle of what jumps over it.
        "yes_4:\n"
        "6:     nopw 0(%rax,%rax)\n"
        "       ret\n"
        "no_4:  int3\n"
        "yes_5:\n"
        "8:     xor %eax, %eax\n"
        "       ret\n"
        "no_5:  nop\n"
        "never: mov $60, %eax\n"
        "       syscall\n"
        ".globl end_of_block\n"
        "end_of_block:\n"
        "       .p2align 6\n");

int block(int zero);

int main(int argc, char **argv) {
    (void)argv;
    // Twice: what ran once does not count again.
    return block(argc - 1) + block(argc - 1);
}
