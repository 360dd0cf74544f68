/* A library to be opened by exact.c. */
__attribute__((constructor)) void p01_opened(void) {}
int p03_inner(void) { return 42; }
int p02_call(void) { return p03_inner(); }
__attribute__((destructor)) void p04_closed(void) {}
int never_called(void) { return 0; }
