/* A library (-DLIBRARY) whose functions the loader calls before the program begins, one that audits (-DAUDIT), and a program that links
   against libraries and sets as many handlers as its argument says. */
#include <signal.h>
#include <stdlib.h>

#if defined LIBRARY
static int l01_chosen(void) { return 1; }
/* By its shorter name. */
void *l00_resolves(void) { return l01_chosen; }
int l00_asks(void) __attribute__((ifunc("l00_resolves")));
__attribute__((constructor)) void l02_constructs(void) { l00_asks(); }
#elif defined AUDIT
unsigned la_version(unsigned version) { return version; }
#else
int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = SIG_IGN};
    for (int left = argc > 1 ? atoi(argv[1]) : 0; left > 0; left--) sigaction(SIGUSR1, &action, NULL);
    return 0;
}
#endif
