/* A library that is opened twice. */
__attribute__((noinline)) long q_plugged(long n) { return n * 3; }
