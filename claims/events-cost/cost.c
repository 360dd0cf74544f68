/* What an event costs the thread that writes it: cost KIND THREADS EVENTS, one line: CPU nanoseconds an event, all threads averaged.
 * KIND: nothing (the loop), rdtsc, thaw (what THAW_EVENTS says: on or off), lttng. Three events each round, as an object has: WAIT, EXEC, DONE. */
#include "thaw_events.h"
#include <stdio.h>
#ifdef WITH_LTTNG
#include "cost-lttng.h"
#endif

struct job {
	const char *kind;
	uint64_t events;
	double ns;
};

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#define ROUNDS(what) \
	for (uint64_t i = 0; i < rounds; i++) { \
		what \
	}
#define USE(value) __asm__ volatile("" : : "r"(value))

static void *work(void *of)
{
	struct job *job = of;
	uint64_t rounds = job->events / 3;
	/* The first ones pay for the file, the lane, the types. */
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t began;
		if (i == 0)
			rounds = job->events / 30;
		else
			rounds = job->events / 3;
		began = cpu_ns();
		if (strcmp(job->kind, "nothing") == 0) {
			ROUNDS(USE(i); USE(i); USE(i);)
		} else if (strcmp(job->kind, "rdtsc") == 0) {
			ROUNDS(USE(__builtin_ia32_rdtsc()); USE(__builtin_ia32_rdtsc()); USE(__builtin_ia32_rdtsc());)
		} else if (strcmp(job->kind, "thaw") == 0) {
			ROUNDS(THAW_WAIT(i, "cost::job"); USE(i); THAW_EXEC(i, "cost::job"); USE(i); THAW_DONE(i, "cost::job"); USE(i);)
#ifdef WITH_LTTNG
		} else if (strcmp(job->kind, "lttng") == 0) {
			ROUNDS(lttng_ust_tracepoint(cost, job, i, 1); lttng_ust_tracepoint(cost, job, i, 2); lttng_ust_tracepoint(cost, job, i, 3);)
#endif
		} else {
			fprintf(stderr, "cost: no such kind: %s\n", job->kind);
			exit(2);
		}
		job->ns = (double)(cpu_ns() - began) / (double)(3 * rounds);
	}
	return NULL;
}

int main(int count, char **words)
{
	if (count != 4)
		return 2;
	int threads = atoi(words[2]);
	struct job jobs[64];
	pthread_t ids[64];
	if (threads < 1 || threads > 64)
		return 2;
	for (int i = 0; i < threads; i++) {
		jobs[i] = (struct job){words[1], strtoull(words[3], NULL, 10), 0};
		pthread_create(&ids[i], NULL, work, &jobs[i]);
	}
	double sum = 0;
	for (int i = 0; i < threads; i++) {
		pthread_join(ids[i], NULL);
		sum += jobs[i].ns;
	}
	printf("%.3f\n", sum / threads);
	return 0;
}
