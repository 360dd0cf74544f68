/* timed FILE PROGRAM ARGS...: runs a program until it and all that it left behind have ended, and adds a line to FILE:
   seconds until the program itself ended, and seconds of CPU time of all of them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count < 3 || prctl(PR_SET_CHILD_SUBREAPER, 1)) return 2;
    double began = now(), ended = 0;
    pid_t program = fork();
    if (!program) {
        execvp(words[2], words + 2);
        _exit(127);
    }
    int status, code = 0;
    for (pid_t pid; (pid = wait(&status)) > 0;) {
        if (pid == program) {
            ended = now();
            code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
    }
    struct rusage used;
    getrusage(RUSAGE_CHILDREN, &used);
    FILE *file = fopen(words[1], "a");
    if (!file) return 2;
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    fprintf(file, "%.6f %.6f\n", ended - began, cpu);
    fclose(file);
    return code;
}
