/* Plays the programs that the tests start: one act per word. Compiled by the tests with cc. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what) { perror(what); exit(9); }

static void wait_for(const char *path) {
    struct timespec nap = {0, 2000000};
    while (access(path, F_OK) != 0) nanosleep(&nap, NULL);
}

static void make(const char *path, const char *text) {
    char partial[4096];
    snprintf(partial, sizeof partial, "%s.partial", path);
    FILE *file = fopen(partial, "w");
    if (!file) die(path);
    fputs(text, file);
    fclose(file);
    if (rename(partial, path) != 0) die(path);
}

static int listening(int port) {
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (void *)&at, sizeof at) || listen(fd, 16)) die("listen");
    return fd;
}

/* Answers 503 to the first two requests, then nothing but a redirect, then 204. */
static void serve(int port) {
    int fd = listening(port);
    const char *answers[] = {"503 Later", "503 Later", "302 Found\r\nLocation: http://example.org/", "204 No Content"};
    for (int n = 0;; n++) {
        int peer = accept(fd, NULL, NULL);
        char got[4096], answer[256];
        if (read(peer, got, sizeof got) <= 0) { close(peer); n--; continue; }
        int len = snprintf(answer, sizeof answer, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", answers[n < 3 ? n : 3]);
        if (write(peer, answer, len) != len) die("write");
        close(peer);
        printf("answered %s\n", n < 3 ? "no" : "yes");
        fflush(stdout);
    }
}

static void tell(const char *text) {
    const char *name = getenv("NOTIFY_SOCKET");
    if (!name) die("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    strncpy(to.sun_path, name, sizeof to.sun_path - 1);
    socklen_t len = offsetof(struct sockaddr_un, sun_path) + strlen(name);
    if (name[0] == '@') to.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (sendto(fd, text, strlen(text), 0, (void *)&to, len) < 0) die("sendto");
    close(fd);
}

/* A daemon by the book that does not want to end. */
static void daemonize(const char *pidfile) {
    if (fork()) exit(0);
    setsid();
    if (fork()) exit(0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    char pid[32];
    snprintf(pid, sizeof pid, "%d", getpid());
    make(pidfile, pid);
    for (;;) pause();
}

static void read_all(const char *path) {
    static char buffer[1 << 20];
    int fd = open(path, O_RDONLY);
    if (fd < 0) die(path);
    while (read(fd, buffer, sizeof buffer) > 0) {}
    close(fd);
}

static void map_all(const char *path) {
    int fd = open(path, O_RDONLY);
    struct stat meta;
    if (fd < 0 || fstat(fd, &meta)) die(path);
    volatile char *at = mmap(NULL, meta.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) die("mmap");
    for (off_t i = 0; i < meta.st_size; i += 4096) (void)at[i];
}

/* CPU time: on a busy machine the clock alone may pass while others compute. */
static void spin(int ms) {
    struct timespec from, now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while ((now.tv_sec - from.tv_sec) * 1000000000LL + (now.tv_nsec - from.tv_nsec) < ms * 1000000LL);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *act = argv[i], *with = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(act, "print")) { puts(with); fflush(stdout); i++; }
        else if (!strcmp(act, "warn")) { fprintf(stderr, "%s\n", with); i++; }
        else if (!strcmp(act, "prompt")) { fputs(with, stdout); fflush(stdout); i++; }
        else if (!strcmp(act, "terminal")) { puts(isatty(0) && isatty(1) && isatty(2) ? "a terminal" : "no terminal"); fflush(stdout); }
        else if (!strcmp(act, "flood")) { for (long n = atol(with) * 1024; n > 0; n--) printf("%01023ld\n", n); i++; }
        else if (!strcmp(act, "listen")) { listening(atoi(with)); i++; }
        else if (!strcmp(act, "serve")) serve(atoi(with));
        else if (!strcmp(act, "notify")) { tell("STATUS=x\nREADY=1\n"); }
        else if (!strcmp(act, "status")) { tell("STATUS=not yet READY=1\n"); }
        else if (!strcmp(act, "socket")) { make(with, getenv("NOTIFY_SOCKET")); i++; }
        else if (!strcmp(act, "fd")) { int fd = atoi(getenv("THAW_READY_FD")); for (int n = 0; n < 3; n++) if (write(fd, "\n", 1) != 1) die("fd"); }
        else if (!strcmp(act, "make")) { make(with, "x"); i++; }
        else if (!strcmp(act, "append")) { FILE *f = fopen(with, "a"); if (!f) die(with); fputs("more\n", f); fclose(f); i++; }
        else if (!strcmp(act, "mkdir")) { if (mkdir(with, 0700)) die(with); i++; }
        else if (!strcmp(act, "wait")) { wait_for(with); i++; }
        else if (!strcmp(act, "read")) { read_all(with); i++; }
        else if (!strcmp(act, "map")) { map_all(with); i++; }
        else if (!strcmp(act, "spin")) { spin(atoi(with)); i++; }
        else if (!strcmp(act, "daemon")) daemonize(with);
        else if (!strcmp(act, "deaf")) signal(SIGTERM, SIG_IGN);
        else if (!strcmp(act, "stay")) for (;;) pause();
        else if (!strcmp(act, "crash")) abort();
        else if (!strcmp(act, "exit")) return atoi(with);
        else { fprintf(stderr, "no such act: %s\n", act); return 8; }
    }
    return 0;
}
