/* Memory reporters: each part of a program says what it has, block by block.
 *
 * All symbols are weak: a program that includes this header builds and runs without the library, and each call then costs
 * one comparison. With the library (libthaw_memreport.so, linked or preloaded) the calls work. A static library is not pulled in by weak
 * symbols: link it with -Wl,--whole-archive, or define THAW_MEMREPORT_REQUIRED before the first include, which makes them strong.
 *
 * A collect function runs on a thread of the library while the program runs: it takes the locks that its data needs, and must not wait for
 * something that a thread in unregister holds. A library unregisters its functions before it is unloaded. Example: example/cache.c.
 */
#ifndef THAW_MEMREPORT_H
#define THAW_MEMREPORT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef THAW_MEMREPORT_REQUIRED
#define THAW_MEMREPORT_WEAK __attribute__((visibility("default")))
#define THAW_MEMREPORT_THERE(function) 1
#else
#define THAW_MEMREPORT_WEAK __attribute__((weak, visibility("default")))
#define THAW_MEMREPORT_THERE(function) ((function) != NULL)
#endif
/* As C89 and all compilers take it; not every file that includes this uses all of it. */
#define THAW_MEMREPORT_INLINE static __inline__ __attribute__((unused))

/* Where memory lies; numbers of the file format. */
enum { THAW_NONHEAP = 0, THAW_HEAP = 1, THAW_OTHER = 2 };
/* Units; numbers of the file format. Percentages are hundredths of a per cent; cumulative counts never fall. */
enum { THAW_BYTES = 0, THAW_COUNT = 1, THAW_COUNT_CUMULATIVE = 2, THAW_PERCENTAGE = 3 };

typedef struct thaw_collection thaw_collection;
typedef void (*thaw_collect_fn)(thaw_collection *collection, void *context);
typedef void (*thaw_minimize_fn)(void *context);

extern THAW_MEMREPORT_WEAK int thaw_memreport_register(const char *, thaw_collect_fn, void *);
extern THAW_MEMREPORT_WEAK void thaw_memreport_unregister(int);
extern THAW_MEMREPORT_WEAK int thaw_memreport_minimize_register(thaw_minimize_fn, void *);
extern THAW_MEMREPORT_WEAK size_t thaw_memreport_measure(thaw_collection *, const void *);
extern THAW_MEMREPORT_WEAK size_t thaw_memreport_measure_as(thaw_collection *, const void *, const char *);
extern THAW_MEMREPORT_WEAK void thaw_memreport_report_block(thaw_collection *, const void *, const char *);
extern THAW_MEMREPORT_WEAK void thaw_memreport_report(thaw_collection *, const char *, int, int, int64_t, const char *);
extern THAW_MEMREPORT_WEAK void thaw_memreport_on_alloc(const void *, const char *);
extern THAW_MEMREPORT_WEAK void thaw_memreport_on_free(const void *);
extern THAW_MEMREPORT_WEAK int thaw_memreport_minimize(void);
extern THAW_MEMREPORT_WEAK int thaw_memreport_start_with(const char *);
extern THAW_MEMREPORT_WEAK int thaw_memreport_dump_to(const char *);

/* Whether the library is there. */
THAW_MEMREPORT_INLINE int thaw_memreport_is_there(void)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_register);
}

/* Starts answering. Options: words with commas between: socket, signal (SIGRTMIN), exit, pressure, pressure=/file, rss=500M,
 * dir=/path, blocks; NULL: socket.
 * The environment variable THAW_MEMREPORT goes before them. 0; -1 and a line on stderr if it cannot. Without the library 0. */
THAW_MEMREPORT_INLINE int thaw_memreport_start(const char *options)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_start_with) ? thaw_memreport_start_with(options) : 0;
}

/* Writes a report into this file. 0; -1 if it cannot, also without the library. */
THAW_MEMREPORT_INLINE int thaw_memreport_dump(const char *path)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_dump_to) ? thaw_memreport_dump_to(path) : -1;
}

/* Adds a reporter; its number, 0 without the library. */
THAW_MEMREPORT_INLINE int thaw_reporter_register(const char *name, thaw_collect_fn collect, void *context)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_register) ? thaw_memreport_register(name, collect, context) : 0;
}

/* Takes out a reporter, or what thaw_minimize_register added. When it returns, the function runs no more. */
THAW_MEMREPORT_INLINE void thaw_reporter_unregister(int id)
{
	if (THAW_MEMREPORT_THERE(thaw_memreport_unregister))
		thaw_memreport_unregister(id);
}

/* Adds a function that gives back what the program can do without; called when somebody asks, or under memory pressure. */
THAW_MEMREPORT_INLINE int thaw_minimize_register(thaw_minimize_fn minimize, void *context)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_minimize_register) ? thaw_memreport_minimize_register(minimize, context) : 0;
}

/* In a collect function: usable size of a block, which is marked for the heap report that this reporter makes next. 0 for NULL and for
 * what is no block. */
THAW_MEMREPORT_INLINE size_t thaw_measure(thaw_collection *collection, const void *block)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_measure) ? thaw_memreport_measure(collection, block) : 0;
}

/* The same for a report of this path, for reporters that keep several sums at once. */
THAW_MEMREPORT_INLINE size_t thaw_measure_as(thaw_collection *collection, const void *block, const char *path)
{
	return THAW_MEMREPORT_THERE(thaw_memreport_measure_as) ? thaw_memreport_measure_as(collection, block, path) : 0;
}

/* Measures a block and adds it to the heap report of this path, which is made when the collect function has returned. */
THAW_MEMREPORT_INLINE void thaw_report_block(thaw_collection *collection, const void *block, const char *path)
{
	if (THAW_MEMREPORT_THERE(thaw_memreport_report_block))
		thaw_memreport_report_block(collection, block, path);
}

/* Reports a figure. Paths have / between names; a slash inside a name is written \. Below explicit/ there are only bytes of THAW_HEAP or
 * THAW_NONHEAP, nothing is reported twice, and the description is a sentence. */
THAW_MEMREPORT_INLINE void thaw_report(thaw_collection *collection, const char *path, int kind, int units, int64_t amount,
			       const char *description)
{
	if (THAW_MEMREPORT_THERE(thaw_memreport_report))
		thaw_memreport_report(collection, path, kind, units, amount, description);
}

/* Marks a block until thaw_report_on_free: for reporters that keep a counter, which they report with thaw_report as usual. */
THAW_MEMREPORT_INLINE void thaw_report_on_alloc(const void *block, const char *path)
{
	if (THAW_MEMREPORT_THERE(thaw_memreport_on_alloc))
		thaw_memreport_on_alloc(block, path);
}

/* Before such a block is freed. */
THAW_MEMREPORT_INLINE void thaw_report_on_free(const void *block)
{
	if (THAW_MEMREPORT_THERE(thaw_memreport_on_free))
		thaw_memreport_on_free(block);
}

#ifdef __cplusplus
}
#endif

#endif
