// What the three parts of the corpus share: see README.md.
#pragma once
#include <string>

#define EXPORT __attribute__((visibility("default")))

// 4096 pointers into a pool: as many relative relocations, and a gap in the middle so that packing needs more than one run.
#define POINTERS_4(x) (x), (x) + 1, (x) + 2, (x) + 5
#define POINTERS_16(x) POINTERS_4(x), POINTERS_4((x) + 7), POINTERS_4((x) + 20), POINTERS_4((x) + 33)
#define POINTERS_64(x) POINTERS_16(x), POINTERS_16((x) + 64), POINTERS_16((x) + 99), POINTERS_16((x) + 128)
#define POINTERS_256(x) POINTERS_64(x), POINTERS_64((x) + 256), POINTERS_64((x) + 300), POINTERS_64((x) + 512)
#define POINTERS_1024(x) POINTERS_256(x), POINTERS_256((x) + 1024), POINTERS_256((x) + 1500), POINTERS_256((x) + 2048)
#define POINTERS_4096(x) POINTERS_1024(x), POINTERS_1024((x) + 4096), POINTERS_1024((x) + 5000), POINTERS_1024((x) + 8192)

// Sum of the distances from the pool: the same wherever the object is loaded, if every pointer was relocated once.
#define SUM(table, pool)                                                                                               \
    ([] {                                                                                                              \
        unsigned long long sum = 0;                                                                                    \
        for (const char *const volatile &pointer : table)                                                              \
            sum = sum * 31 + (unsigned long long)(pointer - pool);                                                     \
        return sum;                                                                                                    \
    }())

// Constructors note themselves here; plain memory, so that it is there before any constructor runs.
extern "C" EXPORT char corpus_order[64];
extern "C" EXPORT void corpus_note(char mark);

struct Shape {
    virtual ~Shape() = default;
    virtual int corners() const = 0;
    virtual std::string name() const = 0;
};

struct EXPORT Trouble {
    explicit Trouble(int number) : number(number) {}
    virtual ~Trouble();
    virtual int code() const;
    int number;
};

struct EXPORT DeepTrouble : Trouble {
    using Trouble::Trouble;
    ~DeepTrouble() override;
    int code() const override;
};

extern "C" {
EXPORT extern int corpus_data;               // copied into the program
EXPORT extern const char *corpus_text[4];    // copied, and it holds pointers of the library
EXPORT extern __thread int corpus_tls;
EXPORT int corpus_tls_local(int add);
EXPORT int corpus_ifunc(int value);
EXPORT unsigned long long corpus_sum(void);
EXPORT int corpus_weak(void);                // the program's own replaces the library's
EXPORT int corpus_call_weak(void);
EXPORT int corpus_through(int (*function)(int), int value);
EXPORT const void *corpus_address_of_weak(void);
}
EXPORT Shape *corpus_shape(int corners);
EXPORT void corpus_throw(int depth);
