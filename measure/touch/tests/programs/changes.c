/* A thread other than the first calls exec while others run; then the new program calls ptrace. `again` marks the second one. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

static char *self;
void e02_before_exec(void) {}
void e04_after_exec(void) {}
static void *sleeps(void *argument) { for (;;) pause(); return argument; }
static void *e01_thread(void *argument) {
    e02_before_exec();
    execl(self, self, "again", (char *)0);
    return argument;
}
int e03_main_again(void) {
    e04_after_exec();
    long refused = ptrace(PTRACE_TRACEME, 0, 0, 0);
    printf("ptrace: %s\n", refused == -1 ? strerror(errno) : "allowed");
    return 0;
}

int main(int argc, char **argv) {
    self = argv[0];
    if (argc > 1) return e03_main_again();
    pthread_t thread;
    for (int index = 0; index < 4; index++) pthread_create(&thread, 0, sleeps, 0);
    pthread_create(&thread, 0, e01_thread, 0);
    pthread_join(thread, 0);
    return 1;
}
