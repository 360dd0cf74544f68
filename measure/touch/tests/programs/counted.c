/* Calls functions whose entries are of every shape, and prints how often it called each: NAME COUNT. With a plug-in
   as its argument it opens that twice; with "spawned" it is its own child. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
#define APART __attribute__((noinline, noipa))
#define NAKED(name, body) \
    __asm__(".pushsection .text\n.balign 16\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" body \
            "\n.size " #name ", .-" #name "\n.popsection\n")

int value = 41;
long q_pointed(void);
long (*pointer)(void) = q_pointed;
APART long q_pointed(void) { return 7; }
APART long q_leaf(void) { return 9; }

/* What is relative to the instruction pointer. */
long q_rip(void);
NAKED(q_rip, "movl value(%rip), %eax\nret");
/* Its own address. */
void *q_self(void);
NAKED(q_self, "pushq %r15\nleaq q_self(%rip), %rax\npopq %r15\nret");
/* Calls that a jump replaces, with and without something before them. */
long q_call(void);
NAKED(q_call, "subq $8, %rsp\ncall q_leaf\naddq $8, %rsp\nret");
long q_call_first(void);
NAKED(q_call_first, "call q_leaf\nret");
long q_call_got(void);
NAKED(q_call_got, "call *pointer(%rip)\nret");
/* A call that returns into the first five bytes. */
long q_back(long (*)(void));
NAKED(q_back, "call *%rdi\nret");
/* Short branches, and those that have no long form. */
long q_short(long);
NAKED(q_short, "testl %edi, %edi\nje 1f\nmovl $1, %eax\nret\n1: movl $2, %eax\nret");
long q_jrcxz(long);
NAKED(q_jrcxz, "movq %rdi, %rcx\njrcxz 1f\nmovl $5, %eax\nret\n1: movl $6, %eax\nret");
long q_loop(long);
NAKED(q_loop, "movq %rdi, %rcx\nloop 1f\nmovl $7, %eax\nret\n1: movl $8, %eax\nret");
/* A loop into the first five bytes, and one to the begin behind an endbr64. */
long q_into(long);
NAKED(q_into, "xorl %eax, %eax\n1: incl %eax\ncmpl %edi, %eax\njb 1b\nret");
long q_again(long);
NAKED(q_again, "endbr64\n1: testl %edi, %edi\nje 2f\ndecl %edi\njmp 1b\n2: movl $3, %eax\nret");
long q_guarded(long);
NAKED(q_guarded, "endbr64\nmovl %edi, %eax\naddl $1, %eax\nret");
/* Short ones, with something to fill up behind them and without. */
long q_tiny(long);
NAKED(q_tiny, "movl %edi, %eax\nret");
void q_nothing(void);
NAKED(q_nothing, "ret");
long q_packed(void);
NAKED(q_packed, "movb $1, %al\nret\n.globl q_after\n.type q_after, @function\nq_after: xorl %eax, %eax\nret\n");
long q_after(void);
/* What no compiler's function would ask for. */
long q_carry(void);
NAKED(q_carry, "sbbl %eax, %eax\nnegl %eax\nmovl %eax, %eax\nret");
static long with_carry(int carry) {
    long result;
    __asm__ volatile("subq $128, %%rsp\ncmpl %1, %%ecx\ncall q_carry\nleaq 128(%%rsp), %%rsp"
                     : "=a"(result) : "r"(carry), "c"(0) : "cc", "memory");
    return result;
}
double q_vector(double a, double b);
NAKED(q_vector, "addsd %xmm1, %xmm0\nmulsd %xmm1, %xmm0\nret");
long q_zone(long);
NAKED(q_zone, "movq %rdi, -8(%rsp)\nmovq -8(%rsp), %rax\nret");

/* Not a loop of calls, as optimising compilers make it. */
__attribute__((noinline, noipa, optimize("O0"))) long q_fibonacci(long n) { return n < 2 ? n : q_fibonacci(n - 1) + q_fibonacci(n - 2); }
static long fibonacci_calls(long n) { return n < 2 ? 1 : 1 + fibonacci_calls(n - 1) + fibonacci_calls(n - 2); }

APART long q_called(long n) { return n * 2 + value; }
APART long q_caller_a(void) { long sum = 0; for (int i = 0; i < 300; i++) sum += q_called(i); return sum; }
APART long q_caller_b(void) { long sum = 0; for (int i = 0; i < 500; i++) sum += q_called(i); return sum; }

/* Stacks through a call that a jump has replaced. */
static int depth;
APART long q_deepest(void) { void *at[64]; depth = backtrace(at, 64); return depth; }
APART long q_deep(void) { return q_deepest() + 1; }

enum { EACH = 20000, STOPS = 50 };
APART long q_hot(long n) { return n + 1; }
APART long q_turn(long n) { return n + 2; }
static void *hot(void *argument) {
    long n = 0;
    for (int i = 0; i < EACH; i++) n = q_hot(n);
    /* All at once at a breakpoint. */
    for (int i = 0; i < STOPS; i++) q_into(2);
    *(long *)argument = n;
    return 0;
}
static void *turn(void *argument) { q_turn((long)argument); return 0; }

static volatile sig_atomic_t signals;
APART void q_in_handler(void) { signals++; }
static void on_alarm(int number) { (void)number; q_in_handler(); }

APART long q_child(long n) { return n + 3; }
APART long q_spawned(long n) { return n + 4; }
APART long q_never(long n) { return n + 5; }

#define SAY(name, count) printf("%s %ld\n", #name, (long)(count))
#define CHECK(what) do { if (!(what)) { printf("wrong: %s\n", #what); exit(1); } } while (0)

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "spawned")) {
        for (int i = 0; i < 7; i++) q_spawned(i);
        return 0;
    }
    for (int i = 0; i < 10; i++) {
        CHECK(q_rip() == 41);
        CHECK(q_self() == (void *)q_self);
        CHECK(q_call() == 9);
        CHECK(q_call_first() == 9);
        CHECK(q_call_got() == 7);
        CHECK(q_back(q_leaf) == 9);
        CHECK(q_short(i) == (i ? 1 : 2));
        CHECK(q_jrcxz(i) == (i ? 5 : 6));
        CHECK(q_loop(i) == (i == 1 ? 7 : 8));
        CHECK(q_into(i) == (i ? i : 1));
        CHECK(q_again(i) == 3);
        CHECK(q_guarded(i) == i + 1);
        CHECK(q_tiny(i) == i);
        q_nothing();
        CHECK((q_packed() & 0xff) == 1);
        CHECK(q_after() == 0);
        CHECK(with_carry(i & 1) == (i & 1));
        CHECK(q_vector(i, 2.5) == (i + 2.5) * 2.5);
        CHECK(q_zone(i) == i);
    }
    const char *often[] = {"q_rip", "q_self", "q_call", "q_call_first", "q_call_got", "q_back", "q_short", "q_jrcxz", "q_loop",
                           "q_again", "q_guarded", "q_tiny", "q_nothing", "q_packed", "q_after", "q_carry", "q_vector", "q_zone"};
    for (unsigned i = 0; i < sizeof often / sizeof *often; i++) printf("%s 10\n", often[i]);
    SAY(q_into, 10 + 8 * STOPS);
    SAY(q_leaf, 30);
    SAY(q_pointed, 10);
    CHECK(q_fibonacci(15) == 610);
    SAY(q_fibonacci, fibonacci_calls(15));
    CHECK(q_caller_a() + q_caller_b() == 2 * (299 * 150 + 499 * 250) + 800 * 41);
    SAY(q_called, 800);
    CHECK(q_deep() == depth + 1);
    SAY(depth, depth);

    pthread_t threads[8];
    long results[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, hot, &results[i]);
    for (int i = 0; i < 8; i++) { pthread_join(threads[i], 0); CHECK(results[i] == EACH); }
    for (long i = 0; i < 5; i++) { pthread_create(&threads[0], 0, turn, (void *)i); pthread_join(threads[0], 0); }
    SAY(q_turn, 5);

    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often_enough = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often_enough, 0);
    long more = 0;
    while (signals < 50) more = q_hot(more);
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, 0);
    SAY(q_hot, 8 * EACH + more);
    SAY(q_in_handler, signals);

    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (!child) { for (int k = 0; k < 100; k++) q_child(k); _exit(0); }
        waitpid(child, 0, 0);
    }
    SAY(q_child, 300);
    char *again[] = {argv[0], "spawned", 0};
    pid_t spawned;
    CHECK(!posix_spawn(&spawned, argv[0], 0, 0, again, environ));
    waitpid(spawned, 0, 0);
    SAY(q_spawned, 7);
    if (argc > 1) {
        for (int i = 0; i < 2; i++) {
            void *plug = dlopen(argv[1], RTLD_NOW);
            CHECK(plug);
            long (*call)(long) = (long (*)(long))dlsym(plug, "q_plugged");
            for (int k = 0; k < 11; k++) CHECK(call(k) == k * 3);
            dlclose(plug);
        }
        SAY(q_plugged, 22);
    }
    if (argc > 5) q_never(1);
    SAY(q_never, 0);
    return 0;
}
