/* Reporters with planted mistakes; what each must be found out for stands beside it. */
#include "thaw_memreport.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *honest, *less, *more, *shared, *inside, *counted, *freed, *next, *never, *small[100];
static int64_t falling = 10;

static void say(thaw_collection *c, const char *path, size_t bytes)
{
	thaw_report(c, path, THAW_HEAP, THAW_BYTES, (int64_t)bytes, "A block.");
}

static void be_honest(thaw_collection *c, void *context)
{
	say(c, "explicit/honest", thaw_measure(c, honest));
	for (int i = 0; i < 100; i++)
		thaw_report_block(c, small[i], "explicit/small/blocks");
	thaw_report(c, "small-blocks", THAW_OTHER, THAW_COUNT, *(int *)context, "Small blocks.");
}

static void forget(thaw_collection *c, void *context)
{
	(void)context;
	say(c, "explicit/less", thaw_measure(c, less) - 5000);
}

static void boast(thaw_collection *c, void *context)
{
	(void)context;
	say(c, "explicit/more", thaw_measure(c, more) + 7000);
}

static void first(thaw_collection *c, void *context)
{
	say(c, context, thaw_measure(c, shared));
}

static void wrong(thaw_collection *c, void *context)
{
	size_t sum = 0;
	int local;
	(void)context;
	sum += thaw_measure(c, inside);
	sum += thaw_measure(c, (char *)inside + 4096);
	sum += thaw_measure(c, (char *)inside + 8);
	sum += thaw_measure(c, &local);
	sum += thaw_measure(c, &inside);
	sum += thaw_measure(c, (void *)24);
	sum += thaw_measure(c, NULL);
	say(c, "explicit/wrong", sum);
}

static void hold_on(thaw_collection *c, void *context)
{
	(void)context;
	say(c, "explicit/freed", thaw_measure(c, freed));
}

static void first_of(thaw_collection *c, void *context)
{
	(void)context;
	say(c, "explicit/next", thaw_measure(c, next));
}

static void break_rules(thaw_collection *c, void *context)
{
	(void)context;
	thaw_report(c, "explicit/other", THAW_OTHER, THAW_BYTES, 1, "Wrong kind.");
	thaw_report(c, "explicit/count", THAW_HEAP, THAW_COUNT, 1, "Wrong units.");
	thaw_report(c, "explicit/text", THAW_NONHEAP, THAW_BYTES, 1, "no sentence");
	thaw_report(c, "a//b", THAW_OTHER, THAW_BYTES, 1, "Empty name.");
	thaw_report(c, "number", 7, THAW_BYTES, 1, "Unknown kind.");
	thaw_report(c, "falling", THAW_OTHER, THAW_COUNT_CUMULATIVE, falling--, "Falls.");
}

static void counter(thaw_collection *c, void *context)
{
	(void)context;
	say(c, "explicit/counted", 30008);
}

int main(int argc, char **argv)
{
	static int hundred = 100;
	int gone;
	honest = malloc(20000);
	less = malloc(20000);
	more = malloc(20000);
	shared = malloc(50000);
	inside = malloc(60000);
	counted = malloc(30000);
	freed = malloc(3000);
	never = malloc(400000);
	for (int i = 0; i < 100; i++)
		small[i] = malloc(24);
	thaw_report_on_alloc(counted, "explicit/counted");
	thaw_report_on_alloc(freed, "explicit/freed");
	thaw_report_on_free(freed);
	free(freed);
	next = malloc(3000);
	if (next != freed)
		puts("another address");
	thaw_reporter_register("honest", be_honest, &hundred);
	thaw_reporter_register("forgets", forget, NULL);
	thaw_reporter_register("boasts", boast, NULL);
	thaw_reporter_register("first", first, "explicit/first");
	thaw_reporter_register("second", first, "explicit/second");
	thaw_reporter_register("third", first, "explicit/third");
	thaw_reporter_register("wrong", wrong, NULL);
	thaw_reporter_register("stale", hold_on, NULL);
	/* The same address is rightly somebody else's by now. */
	thaw_reporter_register("next", first_of, NULL);
	thaw_reporter_register("breaks", break_rules, NULL);
	thaw_reporter_register("counter", counter, NULL);
	gone = thaw_reporter_register("gone", boast, NULL);
	thaw_reporter_unregister(gone);
	if (argc > 1 && thaw_memreport_start(argv[1]) != 0)
		return 3;
	puts(thaw_memreport_is_there() ? "there" : "not there");
	fflush(stdout);
	if (getchar() == 'd')
		printf("%d\n", thaw_memreport_dump(argv[2])), printf("%d\n", thaw_memreport_dump(argv[2]));
	while (getchar() != EOF)
		;
	return never == NULL;
}
