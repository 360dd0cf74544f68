/* A library that is loaded late, with a copy of its own. */
#include "thaw_events.h"

void late(void)
{
	THAW_MARK(1, "late::mark");
}
