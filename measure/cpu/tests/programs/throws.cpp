// An exception that nobody may catch: the stack is whole below the functions that looked for a handler. With an
// argument it is caught, and a destructor runs meanwhile.
#include <exception>
#include <unistd.h>

volatile int sink;

__attribute__((noinline)) static void wait_for_ever() {
    if (write(1, "ready\n", 6) != 6) _exit(1);
    for (;;) pause();
}

struct Waits {
    bool now;
    ~Waits() { if (now) wait_for_ever(); sink = 3; }
};

__attribute__((noinline)) void thrower(int n) {
    if (n) throw n;
}

__attribute__((noinline)) void middle(int n, bool now) {
    Waits waits{now};
    thrower(n);
    sink = 4;
}

__attribute__((noinline)) void passes(int n) {
    thrower(n);
    sink = 7;
}

__attribute__((noinline)) void refuses(int n) noexcept {
    passes(n);
    sink = 5;
}

int main(int argc, char **) {
    std::set_terminate(wait_for_ever);
    if (argc == 1) refuses(argc);
    try { middle(argc, true); } catch (int) { sink = 6; }
    return 0;
}
