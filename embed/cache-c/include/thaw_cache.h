/* An HTTP cache for programs that have their own HTTP client: what RFC 9111 allows to store, serve and validate, with what is kept in a
 * directory. The program asks before it sends a request, says what came, and is told what to do:
 *
 *     thaw_cache_ask          what to do with a request; THAW_CACHE_DECIDED tells
 *       THAW_CACHE_SERVE      answer it from the store: thaw_cache_head, thaw_cache_read, events with the body
 *       THAW_CACHE_FORWARD    send what thaw_cache_forward says, then thaw_cache_respond or thaw_cache_failed
 *         THAW_CACHE_STORE    pass the answer on, and its body to thaw_cache_write and thaw_cache_finish as well
 *         THAW_CACHE_PASS     pass the answer on; nothing is kept
 *         THAW_CACHE_WAIT     a 304 came, or a stale answer helps: THAW_CACHE_DECIDED tells
 *       THAW_CACHE_ANSWER     answer it with thaw_cache_head, which has no body: 504 for only-if-cached
 *
 * No call waits for the disk but thaw_cache_close. What comes later is an event: taken with thaw_cache_next when thaw_cache_fd is readable.
 * There are no call-backs, and no thread of the library runs code of the program.
 *
 * Every function returns THAW_CACHE_OK (0), THAW_CACHE_EMPTY (1) where it says so, or an error below 0; thaw_cache_fd returns a descriptor.
 * Every function may be called with NULL for any pointer, and then returns THAW_CACHE_NULL or does without where that is said. What a
 * function could not do has changed nothing, unless it says so.
 *
 * Memory: structs and texts that are handed in are read before the function returns, and stay the caller's. What the library hands out says
 * at the function who frees it, and when.
 *
 * Threads: a cache may be used by many threads at once; an exchange and an event by one at a time. A process that forks goes on with the
 * cache in the parent alone. The thread of the library has the signal mask of the thread that opens the cache.
 *
 * Structs begin with their size, which the caller sets to sizeof: so that a program and a newer library go together. Fields that a newer
 * header adds are 0 for an older program. Set all else to 0 what is not used.
 *
 * C11 and C++11. Link with -lthaw_cache, or with libthaw_cache.a and -lpthread -ldl -lm.
 */
#ifndef THAW_CACHE_H
#define THAW_CACHE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A cache, and a request with what comes of it. */
typedef struct thaw_cache thaw_cache;
typedef struct thaw_exchange thaw_exchange;

/* What functions return. */
enum thaw_cache_code {
	THAW_CACHE_OK = 0,
	THAW_CACHE_EMPTY = 1,     /* there is none: no event now, nothing to validate */
	THAW_CACHE_NULL = -1,     /* a pointer is NULL that must not be */
	THAW_CACHE_INVALID = -2,  /* a text is no method, absolute URL, field, partition; a number is out of its range */
	THAW_CACHE_STATE = -3,    /* the exchange does not stand where this can be called */
	THAW_CACHE_CLOSED = -4,   /* the cache of this exchange is closed */
	THAW_CACHE_LARGE = -5,    /* the body is too large to be kept: it is not stored, the rest need not be written */
	THAW_CACHE_SYSTEM = -6,   /* the process has no descriptor or no thread left */
	THAW_CACHE_SIZE = -7,     /* the size of a struct is of no version of it */
	THAW_CACHE_PANIC = -8     /* a defect of the library; the cache goes on if it can */
};

/* What to do with a request. */
enum thaw_cache_action {
	THAW_CACHE_WAIT = 0,    /* nothing yet: THAW_CACHE_DECIDED tells */
	THAW_CACHE_SERVE = 1,   /* answer it with the stored head and body */
	THAW_CACHE_FORWARD = 2, /* send the request to its origin */
	THAW_CACHE_ANSWER = 3,  /* answer it with the head alone */
	THAW_CACHE_STORE = 4,   /* answer it with the head and the origin's body, and write that */
	THAW_CACHE_PASS = 5,    /* answer it with the head and the origin's body */
	THAW_CACHE_FAIL = 6     /* there is no answer: the origin failed and nothing stored may be used */
};

/* What an event tells. */
enum thaw_cache_kind {
	THAW_CACHE_DECIDED = 1, /* `action`; with THAW_CACHE_SERVE `length` is how many bytes of a body there are to read */
	THAW_CACHE_BODY = 2,    /* `data`: the next bytes of a stored body */
	THAW_CACHE_END = 3,     /* all of it has come; where there is none it comes without thaw_cache_read */
	THAW_CACHE_BROKEN = 4,  /* what follows of it cannot be read; what came is right */
	THAW_CACHE_STORED = 5,  /* what was finished is stored, and outlives the process, not yet the machine (thaw_cache_flush) */
	THAW_CACHE_DROPPED = 6, /* what was finished is not stored: too large, cut short, no space, invalidated meanwhile */
	THAW_CACHE_DONE = 7     /* thaw_cache_invalidate, _clear or _flush is done; `done` 0: the disk failed */
};

/* Bytes with their length; no NUL at the end is read or written. NULL with length 0 is an empty text. */
typedef struct thaw_text {
	const char *bytes;
	size_t length;
} thaw_text;

typedef struct thaw_field {
	thaw_text name;
	thaw_text value;
} thaw_field;

/* Many users are served: `private`, `s-maxage` and the rules for `Authorization` count. */
#define THAW_CACHE_SHARED 1u

typedef struct thaw_cache_options {
	size_t size;
	thaw_text directory; /* made if need be; empty: in memory alone */
	uint64_t budget;     /* bytes; from there on what was not used goes. 0: 1 GiB, 64 MiB in memory */
	uint64_t memory;     /* bytes of what is in a directory that are in memory too. 0: 16 MiB */
	uint64_t most_body;  /* bytes of the largest body that is kept. 0: 32 MiB, and never more, nor than an eighth of the budget */
	thaw_text name;      /* in `Cache-Status`: letters, digits, - . _ Empty: "thaw" */
	uint32_t flags;      /* THAW_CACHE_SHARED */
	uint32_t reserved;
} thaw_cache_options;

typedef struct thaw_cache_request {
	size_t size;
	thaw_text method;
	thaw_text url;       /* absolute; a fragment is not looked at */
	thaw_text partition; /* keeps apart what must not be shared: a top-level site, a user. No NUL. Empty: one for all */
	const thaw_field *fields;
	size_t field_count;
	uint64_t tag;        /* what its events bear */
} thaw_cache_request;

typedef struct thaw_cache_response {
	size_t size;
	const thaw_field *fields;
	size_t field_count;
	int64_t sent_ms; /* when the request was sent, milliseconds since 1970. 0: now */
	uint32_t status; /* a final one: 200 and above */
	uint32_t reserved;
} thaw_cache_response;

/* The head of an answer (`status`) or of a request for the origin (`method`, `url`). */
typedef struct thaw_cache_message {
	size_t size;
	thaw_text method;
	thaw_text url;
	const thaw_field *fields; /* names in lower case */
	size_t field_count;
	thaw_text reason; /* of a request: why nothing stored answers, as in Cache-Status (RFC 9211): uri-miss, vary-miss, stale, ... */
	uint32_t status;
	uint32_t refresh; /* of an answer: 1 if it is stale and wants to be validated behind its reader: thaw_cache_refresh */
} thaw_cache_message;

typedef struct thaw_cache_event {
	size_t size;
	uint64_t tag;
	thaw_text data;
	uint64_t length;
	uint32_t kind;
	int32_t action;
	int32_t done;
	uint32_t reserved;
	void *owner; /* the library's */
} thaw_cache_event;

typedef struct thaw_cache_stats {
	size_t size;
	uint64_t entries;   /* keys that are stored */
	uint64_t disk;      /* bytes of files */
	uint64_t memory;    /* bytes in memory */
	uint64_t served;    /* requests that were answered from the store, */
	uint64_t validated; /* of these, after their origin said that it stands */
	uint64_t forwarded; /* requests that were to be sent */
	uint64_t stored;    /* responses stored, */
	uint64_t dropped;   /* and those that were to be, and are not */
	uint64_t evicted;   /* entries that went for others */
	uint64_t broken;    /* reads that found a record which is not right */
	uint32_t dead;      /* 1: the directory cannot be used, or another process has it. Nothing is found or kept */
	uint32_t reserved;
} thaw_cache_stats;

/* Opens a cache. A directory that cannot be used is no error: see `dead` of the stats. `*cache` is the caller's, who ends it with
 * thaw_cache_close. NULL for `options`: all defaults, in memory. Errors: NULL, SIZE, INVALID, SYSTEM. */
int thaw_cache_open(const thaw_cache_options *options, thaw_cache **cache);

/* Writes what was finished, waits for that, and frees the cache: the one call that waits. Exchanges that are left have to be freed all the
 * same; all else that is called with them says CLOSED. No other call with this cache may be under way or follow. Errors: NULL. */
int thaw_cache_close(thaw_cache *cache);

/* A descriptor that is readable while events wait; the cache's, the same for its whole life. Errors: NULL. */
int thaw_cache_fd(const thaw_cache *cache);

/* Takes the next event. EMPTY: there is none now. What it holds is freed with thaw_cache_event_free, which is needed for those with `data`
 * and harmless for all. Events of one exchange are in order. Errors: NULL, SIZE. */
int thaw_cache_next(thaw_cache *cache, thaw_cache_event *event);

/* Frees what an event holds: its `data` is gone. It may be called again. Errors: NULL, SIZE. */
int thaw_cache_event_free(thaw_cache_event *event);

/* Asks what to do with a request: DECIDED with its tag tells. `*exchange` is the caller's, who frees it with thaw_cache_free.
 * Errors: NULL, SIZE, INVALID. */
int thaw_cache_ask(thaw_cache *cache, const thaw_cache_request *request, thaw_exchange **exchange);

/* What is to be done now, into `*action`. Errors: NULL. */
int thaw_cache_action(const thaw_exchange *exchange, int *action);

/* The head of the answer, after SERVE, ANSWER, STORE or PASS: without fields of the connection, with what this cache did in `Cache-Status`.
 * What it points to is the exchange's, until the next thaw_cache_head or thaw_cache_forward with it, or its end. Errors: NULL, SIZE, STATE. */
int thaw_cache_head(thaw_exchange *exchange, thaw_cache_message *head);

/* The request to send, after FORWARD: with validators where that helps. Memory as with thaw_cache_head. Errors: NULL, SIZE, STATE. */
int thaw_cache_forward(thaw_exchange *exchange, thaw_cache_message *request);

/* After SERVE of a stale answer that is to be validated behind its reader: `*refresh` is another exchange, the caller's, which begins with
 * FORWARD. Nobody waits for its answer: with SERVE after its response all is done. EMPTY: there is nothing to validate. Errors: NULL. */
int thaw_cache_refresh(thaw_exchange *exchange, uint64_t tag, thaw_exchange **refresh);

/* The head of the origin's final response came; what to do now into `*action`: STORE, PASS, SERVE (its head is all, or the body is none), WAIT
 * (DECIDED will tell: SERVE, or FORWARD where what was stored has gone meanwhile), FORWARD (this response is of no use: drop its body, and
 * send what thaw_cache_forward says now). Errors: NULL, SIZE, INVALID, STATE, CLOSED. */
int thaw_cache_respond(thaw_exchange *exchange, const thaw_cache_response *response, int *action);

/* The origin could not be reached, or its response not be read, before anything of it was passed on. `*action`: WAIT (a stale answer may be
 * served: DECIDED will tell), FAIL. Errors: NULL, STATE, CLOSED. */
int thaw_cache_failed(thaw_exchange *exchange, int *action);

/* After SERVE: asks for so many bytes more of the stored body. They come as BODY, in pieces of at most 256 KiB; never more than was asked
 * for. Errors: NULL, STATE, CLOSED. */
int thaw_cache_read(thaw_exchange *exchange, uint64_t bytes);

/* After STORE: the next bytes of the origin's body, without transfer coding. They are copied. Errors: NULL, STATE, CLOSED, LARGE. */
int thaw_cache_write(thaw_exchange *exchange, const void *bytes, size_t length);

/* After STORE: the body has ended as its framing says; with the trailer fields, NULL and 0 if there are none. STORED or DROPPED tells.
 * Errors: NULL, INVALID, STATE, CLOSED. */
int thaw_cache_finish(thaw_exchange *exchange, const thaw_field *trailers, size_t count);

/* After STORE: the body broke off; nothing of it is kept. Errors: NULL, STATE, CLOSED. */
int thaw_cache_abort(thaw_exchange *exchange);

/* Frees an exchange. Its reads end, what is not finished is not stored, what was finished is; no event with its tag comes any more. NULL is
 * nothing to free. */
int thaw_cache_free(thaw_exchange *exchange);

/* Takes away what is stored of a URL, all variants, also what still comes. DONE with this tag tells. Errors: NULL, INVALID. */
int thaw_cache_invalidate(thaw_cache *cache, thaw_text url, thaw_text partition, uint64_t tag);

/* Takes all away, also what still comes: requests miss it from now on. DONE: it cannot come back. Errors: NULL. */
int thaw_cache_clear(thaw_cache *cache, uint64_t tag);

/* Takes away what a partition has of URLs that begin so; all of the partition with an empty prefix. The prefix is of a URL in normal form:
 * scheme and host in lower case, no port that is the scheme's. DONE as with thaw_cache_clear. Errors: NULL, INVALID. */
int thaw_cache_clear_prefix(thaw_cache *cache, thaw_text partition, thaw_text prefix, uint64_t tag);

/* DONE with this tag when all that was finished before is on the medium. Errors: NULL. */
int thaw_cache_flush(thaw_cache *cache, uint64_t tag);

/* What the cache holds and has done. Errors: NULL, SIZE. */
int thaw_cache_get_stats(const thaw_cache *cache, thaw_cache_stats *stats);

/* What a code means: a text with NUL at its end that lives for ever. */
const char *thaw_cache_explain(int code);

#ifdef __cplusplus
}
#endif

#endif /* THAW_CACHE_H */
