/* Callbacks and recursion. */
#include <stdio.h>
#include <stdlib.h>

static int t_by_value(const void *one, const void *other) { return *(const int *)one - *(const int *)other; }
static int t_by_digit(const void *one, const void *other) { return *(const int *)one % 10 - *(const int *)other % 10; }
__attribute__((noinline)) static int t_even(int number);
__attribute__((noinline)) static int t_odd(int number) { return number == 0 ? 0 : t_even(number - 1); }
__attribute__((noinline)) static int t_even(int number) { return number == 0 ? 1 : t_odd(number - 1); }
__attribute__((noinline)) static int t_depth(int number) { return number <= 0 ? 0 : 1 + t_depth(number / 2); }
__attribute__((noinline)) static void t_never(void) { puts("never"); }
__attribute__((noinline)) static void t_last(void) { puts("sorted"); }

int main(int argc, char **argv) {
    (void)argv;
    int numbers[] = {31, 4, 15, 9, 26, 5, 35};
    qsort(numbers, 7, sizeof(int), t_by_value);
    int sum = t_odd(7) + t_depth(numbers[3]);
    qsort(numbers, 7, sizeof(int), t_by_digit);
    if (argc > 100) t_never();
    t_last();
    return sum > 0 ? 0 : 1;
}
