// Changes what lies at its addresses, forks, executes and threads: remapped ONE TWO [HOW]. ONE and TWO are files of 16 pages. The bytes
// that it touches of them are what the test expects; everything else that it touches there is anonymous memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096l
static volatile unsigned char sink;
static unsigned char *base;

static unsigned char *map(const char *path, void *where, long pages, int flags, long first) {
    int fd = open(path, O_RDONLY);
    unsigned char *at = mmap(where, pages * PAGE, PROT_READ | PROT_WRITE, flags | MAP_PRIVATE, fd, first * PAGE);
    if (at == MAP_FAILED) _exit(9);
    close(fd);
    return at;
}

// The only code that touches the files: one translation for all that lies there.
static __attribute__((noinline)) void touch(volatile unsigned char *at) { sink = *at; }

static void *thread(void *at) {
    touch(at);
    return 0;
}

int main(int argc, char **argv) {
    const char *one = argv[1], *two = argv[2], *how = argc > 3 ? argv[3] : "";
    if (!strcmp(how, "executed")) {
        // The image after exec: bytes that were touched before do not count again, others do.
        base = map(one, 0, 16, 0, 0);
        touch(base + 100);
        touch(base + 900);
        return 0;
    }
    base = map(one, 0, 16, 0, 0);
    touch(base + 100); // one 100
    // Anonymous memory in its place.
    mmap(base + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    touch(base + PAGE + 5);
    base[PAGE + 6] = 1;
    touch(base + 2 * PAGE + 7); // one 8199
    // Another file in the middle, from its third page on.
    map(two, base + 2 * PAGE, 2, MAP_FIXED, 3);
    touch(base + 2 * PAGE + 7);     // two 12295
    touch(base + 3 * PAGE + 4095);  // two 20479
    touch(base + 4 * PAGE);         // one 16384
    // Gone, and anonymous memory at the same address.
    munmap(base + 4 * PAGE, 4 * PAGE);
    mmap(base + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(base + 4 * PAGE, 1, 4 * PAGE);
    // Moved: what was touched stays touched, and the new place is the file's.
    unsigned char *elsewhere = mmap(0, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *moved = mremap(base + 8 * PAGE, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere + 9 * PAGE);
    if (moved == MAP_FAILED) _exit(9);
    touch(moved + 3 * PAGE + 1); // one 45057
    // A second view of the first page: the byte counts once.
    unsigned char *again = map(one, 0, 1, 0, 0);
    touch(again + 100);
    touch(again + 101); // one 101
    // Shared memory that nobody has on a disk.
    unsigned char *shared = mmap(0, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    touch(shared + 3);
    pthread_t other;
    pthread_create(&other, 0, thread, base + 200); // one 200
    pthread_join(other, 0);
    pid_t child = fork();
    if (child == 0) {
        touch(base + 100);
        touch(base + 300); // one 300
        execl(argv[0], argv[0], one, two, "executed", (char *)0); // one 900
        _exit(9);
    }
    int status;
    waitpid(child, &status, 0);
    touch(base + 300);
    touch(base + 301); // one 301
    if (!strcmp(how, "killed")) {
        // By another process: its own SIGKILL is known to Valgrind before it comes.
        if (fork() == 0) _exit(kill(getppid(), SIGKILL));
        for (;;) pause();
    }
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "fault")) touch((unsigned char *)8);
    _exit(0);
}
