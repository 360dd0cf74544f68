/* Programs that make reporting hard: they fork while others report, end with a lock in their hands, unload a library with reporters. */
#include "thaw_memreport.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int over;

static void wait_for_lock(thaw_collection *c, void *context)
{
	(void)c;
	(void)context;
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
}

static void many(thaw_collection *c, void *context)
{
	char path[64];
	(void)context;
	for (int i = 0; i < 10000; i++) {
		snprintf(path, sizeof path, "explicit/many/report %d \xff\x01", i);
		thaw_report(c, path, THAW_NONHEAP, THAW_BYTES, i, "One of many.");
	}
}

static void *mark(void *context)
{
	while (!over) {
		void *block = malloc(32);
		thaw_report_on_alloc(block, "explicit/marked");
		thaw_report_on_free(block);
		free(block);
	}
	return context;
}

static void *report(void *path)
{
	while (!over)
		thaw_memreport_dump(path);
	return path;
}

static void *come_and_go(void *context)
{
	while (!over)
		thaw_reporter_unregister(thaw_reporter_register("passing", many, NULL));
	return context;
}

/* Children use the library, whatever the parent's other threads were doing. */
static int forks(char *path)
{
	void *(*work[])(void *) = { mark, report, come_and_go };
	pthread_t threads[3];
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work[i], path);
	for (int i = 0; i < 100; i++) {
		int status, id;
		pid_t child = fork();
		if (child == 0) {
			alarm(60);
			thaw_report_on_alloc(&status, "explicit/child");
			id = thaw_reporter_register("child", many, NULL);
			thaw_memreport_minimize();
			thaw_reporter_unregister(id);
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (status != 0) {
			printf("child %d: %d\n", i, status);
			return 1;
		}
	}
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	puts("all children ended");
	return 0;
}

static int unload(const char *library, const char *path)
{
	void *handle = dlopen(library, RTLD_NOW);
	void (*start)(void) = (void (*)(void))dlsym(handle, "start");
	start();
	if (dlclose(handle) != 0 || thaw_memreport_minimize() != 0)
		return 1;
	return thaw_memreport_dump(path) != 0;
}

int main(int count, char **words)
{
	if (count == 3 && strcmp(words[1], "forks") == 0)
		return forks(words[2]);
	if (count == 4 && strcmp(words[1], "unload") == 0)
		return unload(words[2], words[3]);
	if (count == 3 && strcmp(words[1], "many") == 0) {
		thaw_reporter_register("many", many, NULL);
		return thaw_memreport_dump(words[2]) != 0;
	}
	if (count == 2 && strcmp(words[1], "stuck") == 0) {
		thaw_reporter_register("stuck one", wait_for_lock, NULL);
		thaw_memreport_start("exit");
		pthread_mutex_lock(&lock);
		return 0;
	}
	return 2;
}
