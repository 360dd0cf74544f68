/* A machine with instructions as functions; a program of it is read from a string. */
#include <stdio.h>
#include <string.h>

struct machine { long stack[32]; int top; const char *next; int running; };
#define OP(name) __attribute__((noinline)) static void name(struct machine *machine)
OP(t_push) { machine->stack[machine->top++] = *machine->next++ - '0'; }
OP(t_add) { machine->top--; machine->stack[machine->top - 1] += machine->stack[machine->top]; }
OP(t_multiply) { machine->top--; machine->stack[machine->top - 1] *= machine->stack[machine->top]; }
OP(t_double) { machine->stack[machine->top] = machine->stack[machine->top - 1]; machine->top++; }
OP(t_print) { printf("%ld\n", machine->stack[--machine->top]); }
OP(t_halt) { machine->running = 0; }
OP(t_unused) { memset(machine, 0, sizeof *machine); }

__attribute__((noinline)) static void (*t_decode(char letter))(struct machine *) {
    switch (letter) {
    case 'p': return t_push;
    case '+': return t_add;
    case '*': return t_multiply;
    case 'd': return t_double;
    case '.': return t_print;
    case '?': return t_unused;
    default: return t_halt;
    }
}

__attribute__((noinline)) static void t_run(const char *program) {
    struct machine machine = {.next = program, .running = 1};
    while (machine.running) t_decode(*machine.next++)(&machine);
}

int main(void) {
    t_run("p3p4+d*.");
    t_run("p2.");
    return 0;
}
