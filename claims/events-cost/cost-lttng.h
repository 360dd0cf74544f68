/* The same three events for LTTng-UST: an object and a phase. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER cost
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./cost-lttng.h"
#if !defined(COST_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define COST_LTTNG_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(cost, job, LTTNG_UST_TP_ARGS(unsigned long, object, int, phase),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(unsigned long, object, object) lttng_ust_field_integer(int, phase, phase)))
#endif
#include <lttng/tracepoint-event.h>
