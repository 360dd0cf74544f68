/* Calls known functions in a known order: before main, in signal handlers, threads, forked children, a library that it opens; and it
   uses SIGTRAP itself. It prints `as expected` if all that worked as it does without a tracer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int traps, wakes, checks;
#define EXPECT(what) do { checks++; if (!(what)) { printf("not so: %s\n", #what); exit(1); } } while (0)

__attribute__((constructor)) void c01_before_main(void) {}
void c03_twice(void) {}
void c04_inner(void) {}
void c02_outer(void) { c03_twice(); c04_inner(); c03_twice(); }

void c06_in_handler(void) { wakes++; }
void c05_on_usr1(int signal) { (void)signal; c06_in_handler(); }

void c08_on_trap(int signal) { (void)signal; traps++; }
void c07_sets_trap_handler(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = c08_on_trap;
    EXPECT(sigaction(SIGTRAP, &action, NULL) == 0);
}
void c09_own_traps(void) {
    __asm__ volatile("int3");
    EXPECT(traps == 1);
    raise(SIGTRAP);
    EXPECT(traps == 2);
}

void c11_in_thread(void) {}
void *c10_thread(void *argument) { c11_in_thread(); return argument; }
void c12_second_thread_only(void) {}
void *c13_other_thread(void *argument) { c12_second_thread_only(); return argument; }

void c14_blocked(void) {}
void c15_while_blocked(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    c14_blocked();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void c16_in_child(void) {}
void c17_child(void) { c16_in_child(); _exit(3); }
void c18_in_grandchild(void) {}
void c19_vfork_child(void) {}

void wait_for(pid_t pid, int code) {
    int status = 0;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == code);
}

void c20_stopped_and_continued(void) {
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSTOP);
        _exit(5);
    }
    int status = 0;
    EXPECT(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    kill(pid, SIGCONT);
    wait_for(pid, 5);
}

void c21_opens_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) { printf("%s\n", dlerror()); exit(1); }
    int (*call)(void) = (int (*)(void))dlsym(library, "p02_call");
    EXPECT(call() == 42);
    dlclose(library);
}
void c22_at_exit(void) {}

int main(int argc, char **argv) {
    c02_outer();
    signal(SIGUSR1, c05_on_usr1);
    raise(SIGUSR1);
    EXPECT(wakes == 1);
    c07_sets_trap_handler();
    c09_own_traps();
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, c10_thread, NULL) == 0);
    pthread_join(thread, NULL);
    EXPECT(pthread_create(&thread, NULL, c13_other_thread, NULL) == 0);
    pthread_join(thread, NULL);
    c15_while_blocked();
    /* The handler is still there although SIGTRAP was blocked at a first call. */
    __asm__ volatile("int3");
    EXPECT(traps == 3);
    pid_t pid = fork();
    if (pid == 0) c17_child();
    wait_for(pid, 3);
    c16_in_child();
    pid = fork();
    if (pid == 0) {
        pid_t grandchild = fork();
        if (grandchild == 0) { c18_in_grandchild(); _exit(4); }
        wait_for(grandchild, 4);
        _exit(0);
    }
    wait_for(pid, 0);
    pid = vfork();
    if (pid == 0) { c19_vfork_child(); execl("/bin/sh", "sh", "-c", "exit 7", (char *)0); _exit(9); }
    wait_for(pid, 7);
    c20_stopped_and_continued();
    if (argc > 1) c21_opens_library(argv[1]);
    atexit(c22_at_exit);
    printf("as expected\n");
    return 0;
}
