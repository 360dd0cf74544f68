// A program that needs nothing: for the builds that must be refused (static, static PIE, fixed address).
#include <stdio.h>

static char pool[4096];
#define FOUR(x) (x), (x) + 1, (x) + 2, (x) + 5
#define SIXTEEN(x) FOUR(x), FOUR((x) + 7), FOUR((x) + 20), FOUR((x) + 33)
#define MANY(x) SIXTEEN(x), SIXTEEN((x) + 64), SIXTEEN((x) + 99), SIXTEEN((x) + 128)
#define MORE(x) MANY(x), MANY((x) + 256), MANY((x) + 300), MANY((x) + 512)
static const char *const volatile table[] = {MORE(pool), MORE(pool + 700)};

int main(void) {
    unsigned long sum = 0;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        sum = sum * 31 + (unsigned long)(table[i] - pool);
    printf("%lu\n", sum % 1000003);
}
