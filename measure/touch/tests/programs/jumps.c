/* Jumps over calls, jumps instead of calls, calls through tables. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static jmp_buf back;
__attribute__((noinline)) void t_deepest(int code) { longjmp(back, code); }
__attribute__((noinline)) void t_deeper(int code) { t_deepest(code + 1); puts("not reached"); }
__attribute__((noinline)) int t_one(int number) { return number + 1; }
__attribute__((noinline)) int t_two(int number) { return number * 2; }
__attribute__((noinline)) int t_tail(int number) { return t_two(number + 3); }
__attribute__((noinline)) void t_at_exit(void) { puts("bye"); }
__attribute__((noinline)) void t_on_signal(int signal) { (void)signal; siglongjmp(back, 9); }
int (*const table[])(int) = {t_tail, t_one, t_two};

int main(void) {
    atexit(t_at_exit);
    int code = sigsetjmp(back, 1);
    if (code == 0) t_deeper(3);
    if (code == 4) {
        signal(SIGUSR2, t_on_signal);
        raise(SIGUSR2);
    }
    int sum = 0;
    for (int index = 0; index < 3; index++) sum += table[index](index);
    return sum == 12 ? 0 : 1;
}
