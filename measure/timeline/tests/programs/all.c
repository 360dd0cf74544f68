/* Every kind of event once; C and C++. */
#include "thaw_events.h"
#include <stdio.h>

int main(void)
{
	THAW_THREAD_NAME("main thread");
	THAW_NAME(1, "http://a/");
	THAW_COMPOUND_NAME(2, "db:", "orders \"x\"\n");
	THAW_NAME_WAIT(3, "a name of more than fifteen bytes", "a::third");
	THAW_WAIT(1, "net::http::transaction");
	THAW_EXEC_POSTED(1, "net::http::transaction");
	THAW_LINK(9, 1, "net::socket");
	THAW_ARG(1, "bytes", "4096");
	THAW_DONE_WAIT(1, "net::http::transaction", 2, "db::query");
	THAW_EXEC_SHARED(2, "db::query");
	THAW_DONE_SHARED(2, "db::query");
	{
		THAW_SCOPE(3, "a::scope");
		THAW_MARK(3, "a::mark");
	}
	THAW_FREE(1);
	puts("the end");
	return 0;
}
