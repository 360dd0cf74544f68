// Starts a program and holds one of its threads for a while: what a thread owns of a start takes that much longer.
//
// usage: hold LOG PROCESS THREAD AT FOR PROGRAM ARGS: AT microseconds after its exec, the thread of that name of a
// process of that name in the same control group is stopped for FOR microseconds; where there is none yet, as soon as
// there is one. FOR 0: it is looked for, and not stopped. A line in LOG says what became of it: when it was stopped and
// for how long, in microseconds, and how many threads of that name there were. Needs root.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

static void until(long moment)
{
    struct timespec at = {moment / 1000000, moment % 1000000 * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

// The file's text without the last line's end; empty: it is gone.
static void text_of(char *into, size_t size, const char *path)
{
    ssize_t got = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        got = read(file, into, size - 1);
        close(file);
    }
    into[got > 0 ? got : 0] = 0;
    if (got > 0 && into[got - 1] == '\n') {
        into[got - 1] = 0;
    }
}

// The first thread of these names that is of our group; `count`: how many there are.
static int find(const char *process, const char *thread, int *count)
{
    char own[4096], text[4096], path[300];
    int found = 0;
    text_of(own, sizeof own, "/proc/self/cgroup");
    DIR *all = opendir("/proc");
    *count = 0;
    for (struct dirent *one; all && (one = readdir(all));) {
        if (!isdigit(one->d_name[0]) || atoi(one->d_name) == getpid()) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%s/comm", one->d_name);
        text_of(text, sizeof text, path);
        if (strcmp(text, process)) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%s/cgroup", one->d_name);
        text_of(text, sizeof text, path);
        if (strcmp(text, own)) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/%s/task", one->d_name);
        DIR *tasks = opendir(path);
        for (struct dirent *task; tasks && (task = readdir(tasks));) {
            char name[600];
            snprintf(name, sizeof name, "%s/%s/comm", path, task->d_name);
            text_of(text, sizeof text, name);
            if (isdigit(task->d_name[0]) && !strcmp(text, thread)) {
                found = found ? found : atoi(task->d_name);
                ++*count;
            }
        }
        if (tasks) {
            closedir(tasks);
        }
    }
    if (all) {
        closedir(all);
    }
    return found;
}

static void hold(const char *log, const char *process, const char *thread, long began, long at, long length)
{
    const long patience = 5000000;
    int count = 0, tid = 0;
    until(began + at);
    while (!(tid = find(process, thread, &count)) && now() < began + at + patience) {
        usleep(500);
    }
    long stopped = now(), went_on = stopped;
    if (tid && length && !ptrace(PTRACE_SEIZE, tid, 0, 0)) {
        if (!ptrace(PTRACE_INTERRUPT, tid, 0, 0) && waitpid(tid, NULL, __WALL) == tid) {
            stopped = now();
            until(stopped + length);
            went_on = now();
        }
        ptrace(PTRACE_DETACH, tid, 0, 0);
    }
    FILE *file = fopen(log, "ae");
    if (file) {
        fprintf(file, "%ld %ld %d\n", stopped - began, went_on - stopped, count);
        fclose(file);
    }
}

int main(int count, char **words)
{
    if (count < 7) {
        fprintf(stderr, "usage: hold LOG PROCESS THREAD AT FOR PROGRAM ARGS\n");
        return 2;
    }
    long began = now();
    // Its parent ends at once: a program that waits for its children knows nothing of it.
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            for (int file = 0; file < 3; ++file) {
                dup2(open("/dev/null", O_RDWR), file);
            }
            hold(words[1], words[2], words[3], began, atol(words[4]), atol(words[5]));
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    execvp(words[6], words + 6);
    perror(words[6]);
    return 127;
}
