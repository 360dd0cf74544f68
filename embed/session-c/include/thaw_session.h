/* A session store: which windows, tabs and entries are open, saved by their changes. What is visible is loaded first, however many tabs
 * there are.
 *
 * No call waits for the disk but thaw_session_close. What comes later is an event: taken with thaw_session_next when thaw_session_fd is
 * readable. There are no call-backs, and no thread of the library runs code of the program.
 *
 * Every function returns THAW_SESSION_OK (0), THAW_SESSION_EMPTY (1) where it says so, or an error below 0; thaw_session_fd returns a
 * descriptor. Any pointer may be NULL: THAW_SESSION_NULL, if it must not be. A function that returns an error has changed nothing.
 *
 * Memory: texts that are handed in are read before the function returns. What thaw_session_get and thaw_session_next hand out is freed with
 * thaw_session_item_free and thaw_session_event_free.
 *
 * Threads: a session may be used by many threads at once. A process that forks goes on with it in the parent alone.
 *
 * C99 and C++17. Link with -lthaw_session_c, or with libthaw_session_c.a and -lpthread -ldl -lm.
 */
#ifndef THAW_SESSION_H
#define THAW_SESSION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct thaw_session thaw_session;

enum thaw_session_code {
	THAW_SESSION_OK = 0,
	THAW_SESSION_EMPTY = 1,      /* there is no event now; the item is so already */
	THAW_SESSION_NULL = -1,      /* a pointer is NULL that must not be */
	THAW_SESSION_INVALID = -2,   /* a text is no UTF-8, too long, or no version; a number is out of its range */
	THAW_SESSION_NO_ITEM = -3,   /* there is no such item, parent or sibling, or it is not loaded yet */
	THAW_SESSION_CIRCLE = -4,    /* the item would lie in itself */
	THAW_SESSION_NOT_READY = -5, /* nothing is loaded yet: THAW_SESSION_READY tells when */
	THAW_SESSION_SYSTEM = -6,    /* the process has no thread or descriptor left */
	THAW_SESSION_NOT_SAVED = -7, /* what was to be saved at the end is not */
	THAW_SESSION_PANIC = -8      /* a defect of the library */
};

/* Kinds of items; from THAW_SESSION_OWN_KIND to 255 they are the application's. An entry is loaded with what it is in. */
#define THAW_SESSION_WINDOW 1u
#define THAW_SESSION_TAB 2u
#define THAW_SESSION_ENTRY 3u
#define THAW_SESSION_OWN_KIND 16u

/* Flags of items; the upper 16 bits are the application's. */
#define THAW_SESSION_VISIBLE 1u    /* a selected tab: loaded first, if what it is in is */
#define THAW_SESSION_CRASH_ONLY 2u /* gone after a clean end, with all below */
#define THAW_SESSION_RECOVERED 4u  /* a window that the library has made for what has lost its parent */

/* Bytes with their length. NULL with length 0 is an empty text. */
typedef struct thaw_session_text {
	const char *bytes;
	size_t length;
} thaw_session_text;

/* Where an item goes. */
#define THAW_SESSION_LAST 0u
#define THAW_SESSION_FIRST 1u
#define THAW_SESSION_AFTER 2u /* behind the item `after` */

/* Which fields of an item count for thaw_session_change. */
#define THAW_SESSION_TITLE 1u
#define THAW_SESSION_FLAGS 2u
#define THAW_SESSION_ORIGIN 4u
#define THAW_SESSION_PAYLOAD 8u

typedef struct thaw_session_item {
	thaw_session_text title;
	thaw_session_text origin;  /* whose it is, for thaw_session_forget */
	thaw_session_text payload; /* any bytes */
	uint64_t parent;           /* 0: it lies at the top */
	uint64_t changed_ms;       /* milliseconds since 1970; read only */
	uint32_t kind;
	uint32_t flags;
	uint32_t on_disk;          /* 1: thaw_session_want brings the payload; read only */
	uint32_t reserved;
	void *owner;               /* the library's; read only */
} thaw_session_item;

enum thaw_session_kind {
	THAW_SESSION_READY = 1,   /* what is visible is there; `number`: how many items there were; `text`: which file, or empty */
	THAW_SESSION_MORE = 2,    /* `number` more items are there */
	THAW_SESSION_LOADED = 3,  /* all is there; `number`: bytes that could not be read */
	THAW_SESSION_BYTES = 4,   /* `id`, and in `text` its payload; `failed` 1: the reason */
	THAW_SESSION_DONE = 5,    /* `id` is the ticket; `failed` 1: `text` is the reason */
	THAW_SESSION_FAILING = 6, /* saving does not work from now on; `text`: the reason. It is tried again and again */
	THAW_SESSION_RESUMED = 7, /* it works again, and all is saved */
	THAW_SESSION_REFUSED = 8  /* another process has the session; `text` says so */
};

typedef struct thaw_session_event {
	uint32_t kind;
	uint32_t failed;
	uint64_t id;
	uint64_t number;
	thaw_session_text text;
	void *owner;
} thaw_session_event;

typedef struct thaw_session_health {
	uint64_t durable_ms;       /* all that was changed before is on the medium; milliseconds since 1970, 0: nothing yet */
	uint64_t unsaved_since_ms; /* the first change that is not; 0: there is none */
	uint64_t failing_since_ms; /* since when saving has not worked; 0: it does */
	uint64_t written;          /* bytes written, */
	uint64_t writes;           /* calls that did it, */
	uint64_t syncs;            /* and syncs, since the session was opened, */
	uint64_t hour_written;     /* and in the last hour */
	uint64_t hour_writes;
	uint64_t hour_syncs;
} thaw_session_health;

/* Opens the session in a directory. `version` is the application's: 1 to 32 letters, digits, dots, hyphens, underscores. A change waits
 * `delay_ms` until it is saved; 0: 1000. */
int thaw_session_open(thaw_session_text directory, thaw_session_text version, uint32_t delay_ms, thaw_session **session);
/* Ends it, and waits until all is saved; it is freed in any case. `clean` 0: the session goes on as after a crash. */
int thaw_session_close(thaw_session *session, int clean);
/* Readable while there are events. */
int thaw_session_fd(const thaw_session *session);
/* The next event. THAW_SESSION_EMPTY: there is none now. */
int thaw_session_next(thaw_session *session, thaw_session_event *event);
void thaw_session_event_free(thaw_session_event *event);

/* Makes an item: `item` says what, its `parent` where. */
int thaw_session_insert(thaw_session *session, const thaw_session_item *item, uint32_t place, uint64_t after, uint64_t *id);
/* Changes what `fields` names. */
int thaw_session_change(thaw_session *session, uint64_t id, const thaw_session_item *item, uint32_t fields);
int thaw_session_move(thaw_session *session, uint64_t id, uint64_t parent, uint32_t place, uint64_t after);
/* With all below. */
int thaw_session_remove(thaw_session *session, uint64_t id);
int thaw_session_get(const thaw_session *session, uint64_t id, thaw_session_item *item);
void thaw_session_item_free(thaw_session_item *item);
/* Writes the numbers of at most `room` items into `ids`, and how many there are into `count`. */
int thaw_session_children(const thaw_session *session, uint64_t parent, uint64_t *ids, size_t room, size_t *count);

/* Brings a payload: THAW_SESSION_BYTES. `urgent` 1: before the rest of the session. */
int thaw_session_want(thaw_session *session, uint64_t id, int urgent);
/* These are THAW_SESSION_DONE later. */
int thaw_session_flush(thaw_session *session, uint64_t *ticket);
int thaw_session_forget(thaw_session *session, thaw_session_text origin, uint64_t *ticket);
int thaw_session_forget_since(thaw_session *session, uint64_t since_ms, uint64_t *ticket);
/* On battery changes wait five times as long. */
int thaw_session_on_battery(thaw_session *session, int battery);
int thaw_session_last_durable(const thaw_session *session, thaw_session_health *health);

#ifdef __cplusplus
}
#endif
#endif
