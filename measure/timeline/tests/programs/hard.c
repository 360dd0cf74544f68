/* What a tracer must survive, by name: hard CASE. Prints the same with and without events. */
#include "thaw_events.h"
#include <stdio.h>
#include <sys/time.h>
#include <sys/wait.h>

static uint64_t word;

/* A file that outlives this program too: what each thread has written for sure. */
static uint64_t *written;

static void *busy(void *of)
{
	uint64_t thread = (uint64_t)(uintptr_t)of;
	for (uint64_t i = 1;; i++) {
		THAW_MARK(thread << 40 | i, "test::busy");
		__atomic_store_n(&written[thread], i, __ATOMIC_RELEASE);
		if (i % 1000 == 0)
			usleep(20);
	}
	return NULL;
}

static void *once(void *of)
{
	THAW_WAIT(of, "test::thread");
	THAW_DONE(of, "test::thread");
	return NULL;
}

static void in_signal(int signal)
{
	(void)signal;
	for (int i = 0; i < 3; i++)
		THAW_MARK(&word, "test::signal");
}

struct handover {
	uint64_t turn, times;
};

static void *receives(void *of)
{
	struct handover *both = of;
	for (uint64_t i = 1; i <= both->times; i++) {
		while (__atomic_load_n(&both->turn, __ATOMIC_ACQUIRE) != 2 * i - 1)
			;
		THAW_EXEC_POSTED(i, "test::job");
		THAW_DONE(i, "test::job");
		__atomic_store_n(&both->turn, 2 * i, __ATOMIC_RELEASE);
	}
	return NULL;
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	long times = count > 2 ? atol(words[2]) : 1000;
	pthread_t thread;
	if (strcmp(what, "mark") == 0) {
		for (long i = 0; i < times; i++)
			THAW_MARK(&word, "test::mark");
	} else if (strcmp(what, "busy") == 0) {
		int fd = open(words[2], O_RDWR);
		written = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		for (uintptr_t i = 1; i <= 4; i++)
			pthread_create(&thread, NULL, busy, (void *)i);
		pause();
	} else if (strcmp(what, "threads") == 0) {
		/* One after the other, then many at once. */
		for (long i = 0; i < times; i++) {
			pthread_create(&thread, NULL, once, (void *)(uintptr_t)(i + 1));
			pthread_join(thread, NULL);
		}
		pthread_t *all = calloc((size_t)times, sizeof *all);
		pthread_attr_t small;
		pthread_attr_init(&small);
		pthread_attr_setstacksize(&small, 65536);
		for (long i = 0; i < times; i++)
			pthread_create(&all[i], &small, once, (void *)(uintptr_t)(i + 1));
		for (long i = 0; i < times; i++)
			pthread_join(all[i], NULL);
		free(all);
	} else if (strcmp(what, "handover") == 0) {
		struct handover both = {0, (uint64_t)times};
		pthread_create(&thread, NULL, receives, &both);
		for (uint64_t i = 1; i <= both.times; i++) {
			THAW_WAIT(i, "test::job");
			__atomic_store_n(&both.turn, 2 * i - 1, __ATOMIC_RELEASE);
			while (__atomic_load_n(&both.turn, __ATOMIC_ACQUIRE) != 2 * i)
				;
		}
		pthread_join(thread, NULL);
	} else if (strcmp(what, "fork") == 0) {
		THAW_MARK(1, "test::parent");
		/* By the C library, and past it. */
		for (int i = 0; i < 2; i++) {
			long child = i ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
			if (child == 0) {
				THAW_MARK(2, "test::child");
				_exit(0);
			}
			waitpid((pid_t)child, NULL, 0);
		}
		THAW_MARK(3, "test::parent");
	} else if (strcmp(what, "signals") == 0) {
		struct sigaction action;
		struct itimerval often = {{0, 50}, {0, 50}};
		memset(&action, 0, sizeof action);
		action.sa_handler = in_signal;
		sigaction(SIGPROF, &action, NULL);
		setitimer(ITIMER_PROF, &often, NULL);
		for (long i = 0; i < times; i++)
			THAW_MARK(&word, "test::mark");
	} else if (strcmp(what, "cut") == 0) {
		for (long i = 0; i < times; i++)
			THAW_MARK(&word, "test::mark");
		puts("cut now");
		fflush(stdout);
		getchar();
		for (long i = 0; i < times; i++) {
			THAW_MARK(&word, "test::mark");
			THAW_NAME(&word, "a name");
		}
		once((void *)1);
	} else if (strcmp(what, "exec") == 0) {
		THAW_MARK(1, "test::before");
		char number[] = "7";
		char *const next[] = {words[0], (char *)"mark", number, NULL};
		execv("/proc/self/exe", next);
	}
	puts("the end");
	return 0;
}
