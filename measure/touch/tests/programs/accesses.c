// Maps a file, does to it what a script says, one access each, and nothing else: accesses DATA SCRIPT. The script's lines are
// `OPERATION OFFSET LENGTH`; it is read, not mapped. An anonymous page lies before the mapping and one behind it.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONCE __attribute__((noinline))

static unsigned char buffer[1 << 16] __attribute__((aligned(64)));
static int null_fd, zero_fd;

ONCE static void load(unsigned char *at, long length) {
    switch (length) {
    case 1: asm volatile("movb (%0), %%al" ::"r"(at) : "rax", "memory"); break;
    case 2: asm volatile("movw (%0), %%ax" ::"r"(at) : "rax", "memory"); break;
    case 4: asm volatile("movl (%0), %%eax" ::"r"(at) : "rax", "memory"); break;
    case 8: asm volatile("movq (%0), %%rax" ::"r"(at) : "rax", "memory"); break;
    case 10: asm volatile("fldt (%0); fstp %%st(0)" ::"r"(at) : "memory"); break;
    case 16: asm volatile("movups (%0), %%xmm0" ::"r"(at) : "xmm0", "memory"); break;
    case 32: asm volatile("vmovdqu (%0), %%ymm0; vzeroupper" ::"r"(at) : "xmm0", "memory"); break;
    default: abort();
    }
}

ONCE static void store(unsigned char *at, long length) {
    switch (length) {
    case 1: asm volatile("movb $0x65, (%0)" ::"r"(at) : "memory"); break;
    case 2: asm volatile("movw $0x65, (%0)" ::"r"(at) : "memory"); break;
    case 4: asm volatile("movl $0x65, (%0)" ::"r"(at) : "memory"); break;
    case 8: asm volatile("movq $0x65, (%0)" ::"r"(at) : "memory"); break;
    case 10: asm volatile("fld1; fstpt (%0)" ::"r"(at) : "memory"); break;
    case 16: asm volatile("movups %%xmm0, (%0)" ::"r"(at) : "memory"); break;
    case 32: asm volatile("vmovdqu %%ymm0, (%0); vzeroupper" ::"r"(at) : "xmm0", "memory"); break;
    default: abort();
    }
}

// What is loaded is overwritten at once: nobody can see it, and its page is needed all the same.
ONCE static void load_in_vain(unsigned char *at, long length) {
    switch (length) {
    case 1: asm volatile("cmpb $0, (%0); testl %%eax, %%eax" ::"r"(at) : "cc", "memory"); break;
    case 4: asm volatile("movl (%0), %%eax; movl $0, %%eax" ::"r"(at) : "rax", "memory"); break;
    case 8: asm volatile("movq (%0), %%rax; movq $0, %%rax" ::"r"(at) : "rax", "memory"); break;
    case 16: asm volatile("movups (%0), %%xmm0; xorps %%xmm0, %%xmm0" ::"r"(at) : "xmm0", "memory"); break;
    default: abort();
    }
}

ONCE static void atomic(unsigned char *at, long length) {
    switch (length) {
    case 1: asm volatile("lock xaddb %%al, (%0)" ::"r"(at) : "rax", "memory"); break;
    case 2: asm volatile("lock incw (%0)" ::"r"(at) : "memory"); break;
    case 4: asm volatile("xchgl %%eax, (%0)" ::"r"(at) : "rax", "memory"); break;
    case 8: asm volatile("lock cmpxchgq %%rcx, (%0)" ::"r"(at) : "rax", "rcx", "memory"); break;
    case 16: asm volatile("lock cmpxchg16b (%0)" ::"r"(at) : "rax", "rbx", "rcx", "rdx", "memory"); break;
    default: abort();
    }
}

ONCE static void string_load(unsigned char *at, long length) {
    void *to = buffer;
    asm volatile("rep movsb" : "+S"(at), "+D"(to), "+c"(length)::"memory");
}

ONCE static void string_store(unsigned char *at, long length) { asm volatile("rep stosb" : "+D"(at), "+c"(length) : "a"(7) : "memory"); }

// From the last byte down.
ONCE static void string_load_down(unsigned char *at, long length) {
    void *to = buffer + length - 1;
    at += length - 1;
    asm volatile("std; rep movsb; cld" : "+S"(at), "+D"(to), "+c"(length)::"memory");
}

// The bit with this number from here: one byte of it is touched.
ONCE static void bit(unsigned char *at, long number) { asm volatile("btq %1, (%0)" ::"r"(at), "r"(number) : "cc", "memory"); }

// Elements 1 and 3 of four double words.
ONCE static void masked(unsigned char *at) {
    static const int mask[4] __attribute__((aligned(16))) = { 0, -1, 0, -1 };
    asm volatile("vmovdqa %1, %%xmm1; vmaskmovps (%0), %%xmm1, %%xmm0" ::"r"(at), "m"(mask) : "xmm0", "xmm1", "memory");
}

ONCE static void copy(unsigned char *at, long length) { memcpy(buffer, at, length); }

int main(int argc, char **argv) {
    (void)argc;
    int fd = open(argv[1], O_RDONLY);
    struct stat data;
    if (fstat(fd, &data) != 0) return 1;
    long size = data.st_size, whole = (size + 4095) & -4096;
    unsigned char *room = mmap(0, whole + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *base = mmap(room + 4096, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
    if (base != room + 4096) return 1;
    null_fd = open("/dev/null", O_WRONLY);
    zero_fd = open("/dev/zero", O_RDONLY);
    int script = open(argv[2], O_RDONLY);
    static char text[1 << 20];
    long length = 0, got;
    while ((got = read(script, text + length, sizeof text - 1 - length)) > 0) length += got;
    for (char *line = strtok(text, "\n"); line; line = strtok(0, "\n")) {
        char operation;
        long offset, count;
        if (sscanf(line, "%c %ld %ld", &operation, &offset, &count) != 3) return 1;
        unsigned char *at = base + offset;
        switch (operation) {
        case 'l': load(at, count); break;
        case 's': store(at, count); break;
        case 'v': load_in_vain(at, count); break;
        case 'a': atomic(at, count); break;
        case 'm': string_load(at, count); break;
        case 'd': string_load_down(at, count); break;
        case 'f': string_store(at, count); break;
        case 'b': bit(at, count); break;
        case 'k': masked(at); break;
        case 'c': copy(at, count); break;
        case 'w': if (write(null_fd, at, count) != count) return 1; break;
        case 'r': if (read(zero_fd, at, count) != count) return 1; break;
        case 'p': if (pread(fd, buffer, count, offset) != count) return 1; break;
        case 'o': if (access((char *)at, F_OK) == 0) return 1; break;
        default: return 1;
        }
    }
    return 0;
}
