// A library whose data needs relocations of every kind. Test fixture; says what it sees on stdout.
#include "program.h"
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace {

struct Shape {
    virtual ~Shape() {}
    virtual const char *name() const = 0;
    virtual int corners() const { return 0; }
};
struct Square : Shape {
    const char *name() const override { return "square"; }
    int corners() const override { return 4; }
};
struct Triangle : Shape {
    const char *name() const override { return "triangle"; }
    int corners() const override { return 3; }
};

// Read-only after relocation.
const char *const words[] = {WORDS};
// Writable.
const char *moods[] = {HUNDRED("x"), HUNDRED("y"), HUNDRED("z")};

Square square;
Triangle triangle;
Shape *shapes[] = {&square, &triangle};

// Copied by the loader for the first thread before any initialiser.
thread_local const char *const *volatile here = words + 7;
thread_local const char *volatile mine = "thread";

struct First {
    First() { std::printf("constructor sees %s %s\n", words[321], shapes[1] ? shapes[1]->name() : "nothing"); }
    ~First() { std::printf("destructor sees %s\n", moods[5]); }
} first;

__attribute__((constructor(101))) void early() { std::printf("early constructor sees %s\n", words[42]); }
__attribute__((constructor(102))) void less_early() { std::printf("second constructor sees %s\n", moods[42]); }

} // namespace

// A program may copy these.
const char *exported[3] = {"copied-0", "copied-1", "copied-2"};

extern "C" void set_up() { std::printf("own initialiser sees %s\n", words[9999]); }

extern "C" unsigned sum_of_words()
{
    unsigned sum = 0;
    for (const char *word : words)
        for (const char *at = word; *at; at++)
            sum = sum * 31 + (unsigned char)*at;
    for (const char *&mood : moods)
        sum = sum * 31 + (unsigned)std::strlen(mood) + (unsigned char)*mood;
    return sum;
}

extern "C" void use(int depth)
{
    if (depth == 0)
        throw std::runtime_error(shapes[0]->name());
    std::printf("thread-local %s %s\n", *here, mine);
    moods[0] = "changed";
    use(depth - 1);
}
