// The library: throws, has thread-local data, an IFUNC, constructors with priorities, and data that programs copy.
#include "corpus.h"
#include <cstring>

namespace {
char pool[32768];
const char *const table[] = {POINTERS_4096(pool), POINTERS_4096(pool + 100), POINTERS_4096(pool + 3)};
const char gap[4000] = {1};
const char *writable[] = {POINTERS_64(pool), nullptr, POINTERS_16(gap)};

struct Square : Shape {
    int corners() const override { return 4; }
    std::string name() const override { return "square"; }
};
struct Triangle : Shape {
    int corners() const override { return 3; }
    std::string name() const override { return "triangle"; }
};

__thread int hidden_tls = 5;
__thread int zero_tls;

int plain(int value) { return value + 1; }
int other(int value) { return value + 2; }
int (*const choices[2])(int) = {plain, other};
} // namespace

extern "C" {
#ifdef WITHOUT_EARLY
int corpus_ifunc(int value) { return plain(value); }
#else
static int (*resolve(void))(int) { return plain; }
int corpus_ifunc(int value) __attribute__((ifunc("resolve")));
#endif

char corpus_order[64];
void corpus_note(char mark) {
    size_t len = std::strlen(corpus_order);
    if (len + 1 < sizeof corpus_order)
        corpus_order[len] = mark;
}

int corpus_data = 42;
const char *corpus_text[4] = {"zero", "one", "two", "three"};
__thread int corpus_tls = 7;
int corpus_tls_local(int add) { return hidden_tls += add + zero_tls; }

unsigned long long corpus_sum(void) {
    unsigned long long sum = SUM(table, pool);
    for (int i = 0; i < 64; i++)
        sum += (unsigned long long)(writable[i] - pool);
    for (int i = 0; i < 16; i++)
        sum += (unsigned long long)(writable[65 + i] - gap);
    return sum + (unsigned long long)choices[1](0);
}

__attribute__((weak)) int corpus_weak(void) { return 1; }
int corpus_call_weak(void) { return corpus_weak(); }
const void *corpus_address_of_weak(void) { return (const void *)&corpus_weak; }
__attribute__((noinline)) int corpus_through(int (*function)(int), int value) { return function(value) + 100; }
}

Trouble::~Trouble() = default;
int Trouble::code() const { return number; }
DeepTrouble::~DeepTrouble() = default;
int DeepTrouble::code() const { return number * 10; }

Shape *corpus_shape(int corners) {
    if (corners == 3)
        return new Triangle;
    return new Square;
}

void corpus_throw(int depth) {
    struct Note {
        ~Note() { corpus_data++; }
    } note;
    if (depth > 0)
        corpus_throw(depth - 1);
    else
        throw DeepTrouble(9);
}

__attribute__((constructor(102))) static void second() { corpus_note('b'); }
__attribute__((constructor(101))) static void first() { corpus_note('a'); }
__attribute__((constructor)) static void last() { corpus_note('c'); }
