/* A program whose work grows with its argument in an order that is known.
   usage: order constant|log|linear|loglinear|quadratic N */
#include <math.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    double n = atof(argv[2]), most = 1000.0, part = 0.0;
    if (!strcmp(argv[1], "log")) part = log1p(n) / log1p(most);
    if (!strcmp(argv[1], "linear")) part = n / most;
    if (!strcmp(argv[1], "loglinear")) part = n * log1p(n) / (most * log1p(most));
    if (!strcmp(argv[1], "quadratic")) part = n * n / (most * most);
    /* Ten million turns for the start itself, and up to fifteen times as many for n. */
    volatile unsigned long turns = 0, all = (unsigned long)(1e7 + 1.5e8 * part);
    while (turns < all) turns++;
    return 0;
}
