// A program that uses library.cpp directly, in a second thread, and as a plugin. Test fixture.
#include "program.h"
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <typeinfo>

namespace {

struct Animal {
    virtual ~Animal() {}
    virtual const char *sound() const = 0;
};
struct Dog : Animal {
    const char *sound() const override { return "wuff"; }
};
struct Cat : Animal {
    const char *sound() const override { return "miau"; }
};

const char *const names[] = {WORDS, "zero", "one", "two"};
Dog dog;
Cat cat;
Animal *animals[] = {&dog, &cat};
int (*functions[])(const char *) = {std::puts, std::puts};
thread_local const char *const *volatile place = names + 4;

struct Start {
    Start() { std::printf("program's constructor sees %s %s\n", names[10002], animals[1] ? animals[1]->sound() : "?"); }
    ~Start() { std::printf("program's destructor sees %s\n", names[1]); }
} start;

void *in_thread(void *)
{
    std::printf("second thread sees %s\n", *place);
    try {
        use(1);
    } catch (const std::exception &error) {
        std::printf("second thread caught %s\n", error.what());
    }
    return nullptr;
}

} // namespace

int main(int argc, char **argv)
{
    std::printf("%d arguments, first thread sees %s, exported %s %s\n", argc, *place, exported[0], exported[2]);
    std::printf("name %s, words %u, type %s, %s\n", names[argc * 300], sum_of_words(), typeid(*animals[0]).name(), animals[0]->sound());
    functions[1]("through a table");
    try {
        use(3);
    } catch (const std::runtime_error &error) {
        std::printf("caught %s\n", error.what());
    }
    pthread_t thread;
    if (pthread_create(&thread, nullptr, in_thread, nullptr) || pthread_join(thread, nullptr))
        return 2;
    for (int round = 0; round < 3 && argc > 1; round++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!plugin) {
            std::printf("dlopen: %s\n", dlerror());
            return 3;
        }
        auto sum = (unsigned (*)())dlsym(plugin, "sum_of_words");
        std::printf("plugin %u\n", sum());
        dlclose(plugin);
    }
    return 0;
}
