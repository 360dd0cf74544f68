/* A child calls the functions that its parent called after it was made. Prints the sum of each, the parent's first; with an argument there
   is no child. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static long sum;
#define F(number) __attribute__((noinline)) void h##number(void) { sum += number; }
#define TEN(tens) F(tens##0) F(tens##1) F(tens##2) F(tens##3) F(tens##4) F(tens##5) F(tens##6) F(tens##7) F(tens##8) F(tens##9)
TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9)
#define N(number) h##number,
#define NAMES(tens) N(tens##0) N(tens##1) N(tens##2) N(tens##3) N(tens##4) N(tens##5) N(tens##6) N(tens##7) N(tens##8) N(tens##9)
static void (*const all[])(void) = {NAMES(1) NAMES(2) NAMES(3) NAMES(4) NAMES(5) NAMES(6) NAMES(7) NAMES(8) NAMES(9)};

static void call_all(void) {
    for (int index = 0; index < 90; index++) all[index]();
    printf("%ld\n", sum);
    fflush(stdout);
}

int main(int count, char **words) {
    int end[2];
    char byte;
    (void)words;
    if (count == 1) {
        if (pipe(end)) return 1;
        if (!fork()) {
            close(end[1]);
            if (read(end[0], &byte, 1) != 0) return 1;
            call_all();
            _exit(0);
        }
        close(end[0]);
    }
    call_all();
    if (count == 1) close(end[1]);
    while (wait(0) > 0) {}
    return 0;
}
