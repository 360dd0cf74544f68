/* Maps the code of a library a second time, changes it, and lets thaw see that; then calls both. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    (void)argc;
    void *plug = dlopen(argv[1], RTLD_NOW);
    if (!plug) return 1;
    long (*call)(long) = (long (*)(long))dlsym(plug, "q_plugged");
    Dl_info info;
    if (!dladdr((void *)call, &info)) return 2;
    /* In such a small library code lies at its offset. */
    uintptr_t offset = (uintptr_t)call - (uintptr_t)info.dli_fbase;
    int fd = open(argv[1], O_RDONLY);
    char *code = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, offset & ~4095UL);
    if (code == MAP_FAILED) return 3;
    char *other = code + (offset & 4095);
    memcpy(other, "\xb8\x4d\0\0\0\xc3", 6);
    if (mprotect(code, 8192, PROT_READ | PROT_EXEC)) return 4;
    dlclose(dlopen(argv[2], RTLD_NOW));
    for (int i = 0; i < 3; i++)
        if (call(i) != i * 3 || ((long (*)(long))other)(i) != 77) return 5;
    printf("q_plugged 3\n");
    return 0;
}
