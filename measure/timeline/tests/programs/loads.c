/* Loads a library with a copy of its own, calls it, unloads it, goes on. */
#include "thaw_events.h"
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **words)
{
	THAW_MARK(1, "main::mark");
	for (int i = 0; i < 3; i++) {
		void *library = dlopen(words[count - 1], RTLD_NOW);
		if (!library)
			return puts(dlerror()), 1;
		((void (*)(void))dlsym(library, "late"))();
		dlclose(library);
	}
	THAW_MARK(2, "main::mark");
	puts("the end");
	return 0;
}
