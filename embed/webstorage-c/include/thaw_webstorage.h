/* Web Storage (localStorage, sessionStorage) and small tables of bytes, kept in a directory by one thread of the library.
 *
 * No call waits for the disk but thaw_area_wait and thaw_webstorage_close. What comes later (an area is loaded, another
 * process changed a key, a flush is done, trouble) is an event: taken with thaw_webstorage_next when the descriptor of
 * thaw_webstorage_fd is readable. There are no call-backs, and no thread of the library runs code of the program.
 *
 * Every function returns THAW_WEBSTORAGE_OK (0), THAW_WEBSTORAGE_EMPTY (1) or THAW_WEBSTORAGE_SHORT (2) where it says so,
 * or an error below 0; thaw_webstorage_fd returns a descriptor. Every function may be called with NULL for any pointer, and
 * returns THAW_WEBSTORAGE_NULL then, or does without where that is said. What a function could not do has changed nothing.
 *
 * Memory: what is handed in is read before the function returns, and stays the caller's.
 * Threads: storages and areas may be used by many threads at once. A process that forks goes on with them in the parent
 * alone. Structs begin with their size, which the caller sets to sizeof; what is not used is 0.
 *
 * Keys and values of areas are UTF-16 units, any of them: lone surrogates and NUL too. Those of tables are bytes.
 * Names of partitions and origins end with NUL and are UTF-8.
 *
 * C99 and C++17. Link with -lthaw_webstorage_c, or with libthaw_webstorage_c.a and -lpthread -ldl -lm.
 */
#ifndef THAW_WEBSTORAGE_H
#define THAW_WEBSTORAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A storage; the storage of one origin, or a table, in it. */
typedef struct thaw_webstorage thaw_webstorage;
typedef struct thaw_area thaw_area;
typedef struct thaw_webstorage_event thaw_webstorage_event;

/* What functions return. */
enum thaw_webstorage_code {
	THAW_WEBSTORAGE_OK = 0,
	THAW_WEBSTORAGE_EMPTY = 1,       /* there is none: no such key, no event now */
	THAW_WEBSTORAGE_SHORT = 2,       /* there is more than there was room for; the length is said */
	THAW_WEBSTORAGE_NULL = -1,       /* a pointer is NULL that must not be */
	THAW_WEBSTORAGE_INVALID = -2,    /* no origin, partition, name; a number out of its range */
	THAW_WEBSTORAGE_NOT_LOADED = -3, /* the area is not read yet: THAW_WEBSTORAGE_LOADED comes */
	THAW_WEBSTORAGE_UNREADABLE = -4, /* the area cannot be read; it is tried again */
	THAW_WEBSTORAGE_QUOTA = -5,      /* the area is full; the old value stays */
	THAW_WEBSTORAGE_LONG = -6,       /* a key or value is longer than 64 MiB */
	THAW_WEBSTORAGE_CLOSED = -7,     /* the storage is closed */
	THAW_WEBSTORAGE_SYSTEM = -8,     /* the process has no descriptor or no thread left */
	THAW_WEBSTORAGE_UNSAVED = -9,    /* not all could be written at the end */
	THAW_WEBSTORAGE_KIND = -10,      /* a table where an area is wanted, or the other way round */
	THAW_WEBSTORAGE_SIZE = -11,      /* the size of a struct is of no version of it */
	THAW_WEBSTORAGE_PANIC = -12      /* a defect of the library */
};

/* What came. */
enum thaw_webstorage_kind {
	THAW_WEBSTORAGE_LOADED = 1,        /* an area can be used */
	THAW_WEBSTORAGE_LOAD_FAILED = 2,   /* it cannot be read; told once; text says why */
	THAW_WEBSTORAGE_CHANGED = 3,       /* another process changed a key: key, old value, new value */
	THAW_WEBSTORAGE_FLUSHED = 4,       /* all from before this flush is on the medium: ticket */
	THAW_WEBSTORAGE_DAMAGED = 5,       /* a part of a file is not readable and was kept: text is its name */
	THAW_WEBSTORAGE_TROUBLE = 6,       /* changes cannot be written, and are tried again; told once; text says why */
	THAW_WEBSTORAGE_RECOVERED = 7,     /* they are written */
	THAW_WEBSTORAGE_MISSED = 8         /* more was changed by others than was taken: look at the whole area again */
};

/* How a storage works. 0 where nothing else is wanted. */
typedef struct thaw_webstorage_options {
	size_t size;
	const char *directory; /* made if need be. NULL: private, in memory alone */
	uint64_t write_ms;     /* a change is given to the kernel after this: 50 */
	uint64_t sync_ms;      /* and is on the medium after this: 1000 */
	uint64_t quota;        /* bytes of an area, two for each unit: 10 MiB */
	uint64_t table_quota;  /* bytes of a table: 64 MiB */
	uint64_t memory;       /* bytes of areas that stay in memory though nobody holds them: 20,000,000 */
	uint64_t changes;      /* changes of others that wait to be taken; then THAW_WEBSTORAGE_MISSED comes: 10,000 */
	uint64_t change_bytes; /* bytes of their keys and values: 8,000,000 */
} thaw_webstorage_options;

/* What a storage has and did. */
typedef struct thaw_webstorage_stats {
	size_t size;
	uint64_t areas;     /* in memory, or on their way to it */
	uint64_t bytes;     /* of their keys and values, as they are kept */
	uint64_t syncs;
	uint64_t batches;   /* how often changes of an area were given to the kernel */
	uint64_t written;   /* bytes that were */
	uint64_t rewritten; /* files that were written anew */
	uint64_t loaded;    /* areas that were read */
	uint64_t unloaded;  /* areas that left the memory */
	uint64_t changes;   /* changes of others that were not taken yet */
	uint64_t change_bytes; /* bytes of their keys and values */
} thaw_webstorage_stats;

/* Opens a storage; nothing is read yet. Closed with thaw_webstorage_close. */
int thaw_webstorage_open(const thaw_webstorage_options *options, thaw_webstorage **storage);

/* Writes what is to be written, which waits for the disk, and frees the storage. Its areas are freed by themselves, before
 * or after; calls to them return THAW_WEBSTORAGE_CLOSED (not in a private storage). THAW_WEBSTORAGE_UNSAVED: not all could
 * be written; it is freed all the same. */
int thaw_webstorage_close(thaw_webstorage *storage);

/* A descriptor that is readable while there are events. It stays the library's. */
int thaw_webstorage_fd(const thaw_webstorage *storage);

/* The next event, or THAW_WEBSTORAGE_EMPTY. Freed with thaw_webstorage_event_free. */
int thaw_webstorage_next(thaw_webstorage *storage, thaw_webstorage_event **event);

/* Frees an event. NULL is none. */
int thaw_webstorage_event_free(thaw_webstorage_event *event);

/* Returns what came, enum thaw_webstorage_kind; and says the ticket of a flush, else 0. `ticket` may be NULL. */
int thaw_webstorage_event_kind(const thaw_webstorage_event *event, uint64_t *ticket);

/* Whose it is, and the text, if there is one: UTF-8 without a NUL at the end; empty for a flush. They live as long as the
 * event. Any may be NULL. */
int thaw_webstorage_event_text(const thaw_webstorage_event *event, const char **origin, size_t *origin_length,
	const char **partition, size_t *partition_length, const char **text, size_t *text_length);

/* Parts of a change: of areas units, of tables bytes. They live as long as the event. THAW_WEBSTORAGE_EMPTY: there is none;
 * THAW_WEBSTORAGE_KIND: it is of the other kind. */
enum thaw_webstorage_part { THAW_WEBSTORAGE_KEY = 0, THAW_WEBSTORAGE_OLD = 1, THAW_WEBSTORAGE_NEW = 2 };
int thaw_webstorage_event_units(const thaw_webstorage_event *event, int part, const uint16_t **units, size_t *length);
int thaw_webstorage_event_bytes(const thaw_webstorage_event *event, int part, const uint8_t **bytes, size_t *length);

/* Asks for all that was changed until now to come to the medium at once: THAW_WEBSTORAGE_FLUSHED with this ticket comes. */
int thaw_webstorage_flush(thaw_webstorage *storage, uint64_t *ticket);

/* What it has and did. */
int thaw_webstorage_get_stats(const thaw_webstorage *storage, thaw_webstorage_stats *stats);

/* The storage of an origin under a site (`partition`; NULL is none), or a table by its name. It is read if it is not in
 * memory, before all that nobody waits for if `urgent` is not 0. Freed with thaw_area_free. */
int thaw_webstorage_area(thaw_webstorage *storage, const char *partition, const char *origin, int urgent, thaw_area **area);
int thaw_webstorage_table(thaw_webstorage *storage, const char *partition, const char *name, int urgent, thaw_area **table);

/* Session storage: in memory, of this area alone. `quota` is in bytes; 0 is 10 MiB. */
int thaw_area_session(const char *partition, const char *origin, uint64_t quota, thaw_area **area);

/* A session storage with the same content, as a child context gets. */
int thaw_area_copy(const thaw_area *area, thaw_area **copy);

/* Frees the handle; what is in the area stays. NULL is none. */
int thaw_area_free(thaw_area *area);

/* THAW_WEBSTORAGE_OK: it can be used; THAW_WEBSTORAGE_EMPTY: not yet. */
int thaw_area_loaded(const thaw_area *area);

/* Waits until it can be used, and has it read before others. */
int thaw_area_wait(const thaw_area *area);

/* How many keys there are; bytes that are used of the quota. */
int thaw_area_count(const thaw_area *area, size_t *count);
int thaw_area_used(const thaw_area *area, uint64_t *bytes);

/* Removes all keys. */
int thaw_area_clear(const thaw_area *area);

/* The value of a key, and the key at a place in the order of insertion: as much as there is room for, and the whole length.
 * THAW_WEBSTORAGE_EMPTY: there is none. `to` may be NULL if `room` is 0; a pointer may be NULL if its length is 0. */
int thaw_area_get(const thaw_area *area, const uint16_t *key, size_t key_length, uint16_t *to, size_t room, size_t *length);
int thaw_area_key(const thaw_area *area, size_t at, uint16_t *to, size_t room, size_t *length);
int thaw_area_set(const thaw_area *area, const uint16_t *key, size_t key_length, const uint16_t *value, size_t value_length);
int thaw_area_remove(const thaw_area *area, const uint16_t *key, size_t key_length);

/* The same of tables. */
int thaw_table_get(const thaw_area *table, const uint8_t *key, size_t key_length, uint8_t *to, size_t room, size_t *length);
int thaw_table_key(const thaw_area *table, size_t at, uint8_t *to, size_t room, size_t *length);
int thaw_table_set(const thaw_area *table, const uint8_t *key, size_t key_length, const uint8_t *value, size_t value_length);
int thaw_table_remove(const thaw_area *table, const uint8_t *key, size_t key_length);

/* A code in words; never NULL. */
const char *thaw_webstorage_explain(int code);

#ifdef __cplusplus
}
#endif

#endif
