/* A library that is unloaded without taking its reporters out. */
#include "thaw_memreport.h"

static void collect(thaw_collection *c, void *context)
{
	thaw_report(c, "explicit/plugin", THAW_NONHEAP, THAW_BYTES, 1, "It is gone.");
	(void)context;
}

static void give_back(void *context)
{
	(void)context;
}

void start(void);

void start(void)
{
	thaw_reporter_register("plugin", collect, NULL);
	thaw_minimize_register(give_back, NULL);
}
