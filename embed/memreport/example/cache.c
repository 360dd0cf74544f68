/* A cache that reports itself. Build it with or without the library:
 *   cc -I include example/cache.c -o cache
 *   cc -I include example/cache.c -o cache -L DIR -Wl,--no-as-needed -lthaw_memreport
 * Then: sleep 1000 | ./cache & sleep 1; thaw memory show --pid $!   (it ends when its input does)
 */
#include "thaw_memreport.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *pages[1000];

static void collect(thaw_collection *collection, void *context)
{
	size_t bytes = 0;
	int64_t count = 0;
	(void)context;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 1000; i++) {
		bytes += thaw_measure(collection, pages[i]);
		count += pages[i] != NULL;
	}
	pthread_mutex_unlock(&lock);
	thaw_report(collection, "explicit/cache/pages", THAW_HEAP, THAW_BYTES, (int64_t)bytes, "Pages that were read.");
	thaw_report(collection, "cache-pages", THAW_OTHER, THAW_COUNT, count, "Pages in the cache.");
}

static void minimize(void *context)
{
	(void)context;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 1000; i++) {
		free(pages[i]);
		pages[i] = NULL;
	}
	pthread_mutex_unlock(&lock);
}

int main(void)
{
	for (int i = 0; i < 1000; i++)
		pages[i] = malloc(4096);
	thaw_reporter_register("cache", collect, NULL);
	thaw_minimize_register(minimize, NULL);
	if (thaw_memreport_start(NULL) != 0)
		return 1;
	puts(thaw_memreport_is_there() ? "reporting" : "no library");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
