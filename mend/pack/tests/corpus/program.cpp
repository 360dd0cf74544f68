// The program: tries everything that relocation has a part in, and prints one line. Two builds of it that behave alike
// print the same.
#include "corpus.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <memory>
#include <pthread.h>
#include <string>

namespace {
char pool[32768];
const char *const table[] = {POINTERS_4096(pool), POINTERS_4096(pool + 100), POINTERS_4096(pool + 3)};
__thread int local_tls = 11;
std::string made_by_constructor = "made";
int early;

int threefold(int value) { return 3 * value; }
#ifndef WITHOUT_EARLY
extern "C" int (*resolve_own(void))(int) { return threefold; }
#endif

int thrower(int value) {
    if (value > 5)
        throw Trouble(value);
    return value;
}

int frames;
int trace(int) {
    void *found[32];
    frames = backtrace(found, 32);
    return frames > 2 ? 1 : 0;
}

void *thread(void *argument) {
    long number = (long)argument;
    corpus_tls += (int)number;
    local_tls += (int)number;
    int caught = 0;
    try {
        corpus_throw(2);
    } catch (const Trouble &trouble) {
        caught = trouble.code();
    }
    return (void *)(long)(corpus_tls * 1000 + local_tls + corpus_tls_local((int)number) + caught);
}
} // namespace

extern "C" {
#ifdef WITHOUT_EARLY
static int own_ifunc(int value) { return threefold(value); }
#else
int own_ifunc(int value) __attribute__((ifunc("resolve_own")));
#endif
EXPORT int program_doubles(int value) { return 2 * value; }
EXPORT int corpus_weak(void) { return 2; }
__attribute__((weak)) extern int corpus_absent(void);
EXPORT __attribute__((noinline)) void known_function(void) { __asm__ volatile("" ::: "memory"); }
}

#ifdef WITHOUT_EARLY
__attribute__((constructor(101))) static void before() { early = 1; }
#else
static void preinit(int, char **, char **) { early = 1; }
__attribute__((section(".preinit_array"), used)) static void (*const preinits[])(int, char **, char **) = {preinit};
#endif
__attribute__((constructor(201))) static void first() { corpus_note('1'); }
__attribute__((constructor(202))) static void second() { corpus_note('2'); }

int main(int argc, char **argv) {
    // For profilers: spend time in a function of the library.
    unsigned long long spent = 0;
    for (int round = argc > 1 ? std::atoi(argv[1]) : 0; round > 0; round--)
        spent += corpus_sum();
    std::string line = made_by_constructor;
    auto say = [&](const char *what, long long value) {
        line += std::string(" ") + what + "=" + std::to_string(value);
    };
    say("early", early);
    say("table", (long long)(SUM(table, pool) % 1000003));
    say("library", (long long)(corpus_sum() % 1000003));
    say("data", corpus_data);
    line += std::string(" text=") + corpus_text[2];
    say("ifunc", corpus_ifunc(1) * 10 + own_ifunc(2));
    say("weak", corpus_call_weak());
    say("same", corpus_address_of_weak() == (const void *)&corpus_weak);
    say("absent", corpus_absent == nullptr);

    std::unique_ptr<Shape> shape(corpus_shape(3));
    line += " " + shape->name();
    say("corners", shape->corners() + std::unique_ptr<Shape>(corpus_shape(4))->corners());

    try {
        corpus_throw(3);
    } catch (const DeepTrouble &trouble) {
        say("caught", trouble.code());
    }
    try {
        corpus_through(thrower, 6);
    } catch (const Trouble &trouble) {
        say("back", trouble.code());
    }
    say("unwound", corpus_data);

    pthread_t threads[3];
    long sum = 0;
    for (long number = 0; number < 3; number++)
        pthread_create(&threads[number], nullptr, thread, (void *)number);
    for (pthread_t &one : threads) {
        void *result = nullptr;
        pthread_join(one, &result);
        sum += (long)result;
    }
    say("threads", sum);
    say("tls", corpus_tls + local_tls);

    std::string path = argv[0];
    path = path.substr(0, path.rfind('/') + 1) + "libplugin.so";
    for (int round = 0; round < 2; round++) {
        void *plugin = dlopen(path.c_str(), round == 0 ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_LOCAL);
        if (!plugin) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        auto run = (int (*)(int))dlsym(plugin, "plugin_run");
        auto raise = (void (*)(void))dlsym(plugin, "plugin_throw");
        auto uses = (int (*)(int))dlsym(plugin, "plugin_uses_program");
        say("plugin", run(4) + uses(5));
        try {
            raise();
        } catch (const Trouble &trouble) {
            say("thrown", trouble.code());
        }
        dlclose(plugin);
    }
    say("trace", corpus_through(trace, 0));
    Dl_info info;
    line += std::string(" dladdr=") +
            (dladdr((void *)known_function, &info) && info.dli_sname ? info.dli_sname : "nothing");
    line += std::string(" order=") + corpus_order;
    std::puts(line.c_str());
    return spent == 1;
}
