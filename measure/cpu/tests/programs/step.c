// A library that calls back.
volatile int calls;

__attribute__((noinline)) void step(void (*back)(void)) {
    volatile char room[200];
    room[calls] = 1;
    back();
    calls = room[calls];
}
