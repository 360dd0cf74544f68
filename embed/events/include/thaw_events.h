/* What waits for what: events on objects, from inside a program, at the cost of one clock read.
 *
 *     THAW_NAME(transaction, url);                            what the object is called
 *     THAW_WAIT(transaction, "net::http::transaction");       it begins to wait: it was posted, queued, asked for
 *     THAW_EXEC_POSTED(transaction, "net::http::transaction");    it is worked on, on whatever thread
 *     THAW_LINK(socket, transaction, "net::socket");          this released, or caused, that
 *     THAW_DONE(transaction, "net::http::transaction");
 *     THAW_FREE(transaction);                                 the address may come to mean another object
 *
 * Nothing is linked: this header is all. It is off, and costs a load and a branch, unless the environment says where to write:
 *
 *     THAW_EVENTS=/some/directory[,ring=16M][,grow=1G][,age=30][,filter=net::*][,off]
 *
 * Each process makes one file there: `ring` keeps the latest events in so many bytes, `grow` all of them up to so many; `age`
 * lets events go that are older than so many seconds before the file grows; `filter` takes types by name or by `namespace::*`, with `+` between;
 * `off` waits to be switched on from outside. The format is docs/events-format.md. Files live on after SIGKILL.
 *
 * The program never suffers: where there is no room, events are lost and counted. Objects are any pointers or numbers of up to 48 bits;
 * types are string literals. For C11 and C++11, GCC and Clang, Linux. Build with -DTHAW_EVENTS_OFF to leave everything out.
 */
#ifndef THAW_EVENTS_H
#define THAW_EVENTS_H

#if defined(THAW_EVENTS_OFF) || !defined(__linux__)

#define THAW_MARK(object, type) ((void)0)
#define THAW_WAIT(object, type) ((void)0)
#define THAW_EXEC(object, type) ((void)0)
#define THAW_EXEC_POSTED(object, type) ((void)0)
#define THAW_DONE(object, type) ((void)0)
#define THAW_WAIT_SHARED(object, type) ((void)0)
#define THAW_EXEC_SHARED(object, type) ((void)0)
#define THAW_DONE_SHARED(object, type) ((void)0)
#define THAW_DONE_WAIT(done, done_type, waiting, waiting_type) ((void)0)
#define THAW_NAME(object, name) ((void)0)
#define THAW_NAME_WAIT(object, name, type) ((void)0)
#define THAW_COMPOUND_NAME(object, first, second) ((void)0)
#define THAW_LINK(from, to, type) ((void)0)
#define THAW_ARG(object, key, value) ((void)0)
#define THAW_FREE(object) ((void)0)
#define THAW_SCOPE(object, type) ((void)0)
#define THAW_THREAD_NAME(name) ((void)0)

#else

/* The system's headers give C11 without extensions (-std=c11) little of Linux unless they are asked before the first of them. */
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#if defined(_FEATURES_H) && defined(__STRICT_ANSI__)
#error "include thaw_events.h before the headers of the system, or build with -D_GNU_SOURCE or -std=gnu11"
#endif
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* One definition for all files of a program or a library that include this. */
#define THAW_EVENTS_ONE __attribute__((weak, visibility("default")))
#define THAW_EVENTS_INLINE static __inline__ __attribute__((unused))
#define THAW_EVENTS_COLD __attribute__((weak, visibility("default"), noinline, cold))
/* A library that is loaded late and finds no room for thread-local data takes "global-dynamic", which costs a call. */
#ifndef THAW_EVENTS_TLS_MODEL
#define THAW_EVENTS_TLS_MODEL "initial-exec"
#endif

/* The format: docs/events-format.md. */
enum {
	THAW_EVENTS_VERSION = 1,
	THAW_EVENTS_HEADER = 4096,
	THAW_EVENTS_META = 1 << 20,
	THAW_EVENTS_CHUNK = 65536,
	THAW_EVENTS_CHUNK_HEAD = 64,
	THAW_EVENTS_LANES = 4096,
	THAW_EVENTS_TEXT_MOST = 16384
};
enum {
	THAW_PHASE_NAME = 1,
	THAW_PHASE_MARK = 2,
	THAW_PHASE_WAIT = 3,
	THAW_PHASE_EXEC = 4,
	THAW_PHASE_DONE = 5,
	THAW_PHASE_LINK = 6,
	THAW_PHASE_ARG = 7,
	THAW_PHASE_FREE = 8,
	THAW_PHASE_THREAD = 9,
	THAW_PHASE_SHARED = 0x40,
	THAW_PHASE_TEXT = 0xf0,
	THAW_PHASE_MORE = 0xf1
};
enum { THAW_META_TYPE = 1, THAW_META_THREAD = 2 };
enum { THAW_CLOCK_TSC = 1, THAW_CLOCK_MONOTONIC = 2 };
enum { THAW_CHUNK_FREE = 0, THAW_CHUNK_WRITTEN = 1, THAW_CHUNK_LEFT = 2 };

struct thaw_events_pair {
	uint64_t ticks;
	uint64_t monotonic_ns;
	int64_t boot_offset_ns;
};

struct thaw_events_header {
	char magic[8];
	uint32_t version, header_size, pid, chunk_size, chunks, meta_size;
	uint64_t realtime_ns;
	uint32_t clock, flags;
	struct thaw_events_pair start; /* 48 */
	struct thaw_events_pair end;   /* 72 */
	char boot[32];		       /* 96: the kernel's boot_id without dashes */
	uint32_t control; /* 128: 0 is off; another number than before: types are asked again whether they pass */
	uint32_t padding[15];
	uint64_t next; /* 192 */
	uint64_t padding1[7];
	uint64_t lost; /* 256 */
	uint64_t overwritten, types_lost, texts_cut;
	uint64_t padding2[4];
	uint64_t meta_used; /* 320 */
	uint32_t next_type, generation;
	uint64_t padding3[22];
	char filter[1024];	/* 512 */
	char program[2560]; /* 1536 */
};

struct thaw_events_chunk {
	uint32_t state, tid;
	uint64_t sequence;
	struct thaw_events_pair pair;
	uint32_t used, events; /* of a chunk that is left: bytes, and records without what continues them */
	uint64_t padding[2];
};

/* What a thread writes with. Wiped in a forked child, which then begins a file of its own. */
struct thaw_events_lane {
	uint64_t *next, *end;
	struct thaw_events_chunk *chunk;
	uint32_t tid, busy;
	uint64_t continued; /* slots of its chunk that continue a record, or are no event */
	uint64_t padding[3];
};

struct thaw_events_arena {
	uint32_t alive, lock;
	uint32_t lanes, hand;
	uint64_t padding[6];
	struct thaw_events_lane lane[THAW_EVENTS_LANES];
};

/* A type at one place of the source. */
struct thaw_events_type {
	const char *name, *file;
	uint32_t line, id;
	uint32_t passes, fails; /* the control words under which it does */
};

struct thaw_events_state {
	struct thaw_events_header *file;
	struct thaw_events_arena *arena;
	size_t mapped;
	uint64_t growth, age_ns;
	uint64_t allocated; /* chunks that have room on the disk */
	dev_t device;
	ino_t inode;
	uint32_t asked, clock, generation, pid;
	struct sigaction before;
	char path[4096];
};

THAW_EVENTS_ONE uint32_t thaw_events_words_v1[2] = {0, 1}; /* off; not asked yet */
THAW_EVENTS_ONE uint32_t *thaw_events_control_v1 = &thaw_events_words_v1[1];
THAW_EVENTS_ONE struct thaw_events_state thaw_events_v1;
THAW_EVENTS_ONE __thread struct thaw_events_lane *thaw_events_lane_v1
	__attribute__((tls_model(THAW_EVENTS_TLS_MODEL))) = NULL;

/* Times. The plain read may come before a load that stands before it: whoever was handed something by another thread reads behind a fence. */
THAW_EVENTS_INLINE uint64_t thaw_events_nanoseconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

THAW_EVENTS_INLINE uint64_t thaw_events_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(thaw_events_v1.clock == THAW_CLOCK_TSC, 1))
		return __builtin_ia32_rdtsc();
#endif
	return thaw_events_nanoseconds(CLOCK_MONOTONIC);
}

THAW_EVENTS_INLINE uint64_t thaw_events_now_fenced(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#endif
	return thaw_events_now();
}

/* The clocks side by side; of three tries the shortest. */
THAW_EVENTS_COLD struct thaw_events_pair thaw_events_pair_v1(void)
{
	struct thaw_events_pair best = {0, 0, 0};
	uint64_t shortest = UINT64_MAX;
	for (int i = 0; i < 3; i++) {
		uint64_t before = thaw_events_now_fenced();
		uint64_t monotonic = thaw_events_nanoseconds(CLOCK_MONOTONIC);
		uint64_t took = thaw_events_now_fenced() - before;
		if (took < shortest) {
			shortest = took;
			best.ticks = before + took / 2;
			best.monotonic_ns = monotonic;
		}
	}
	best.boot_offset_ns = (int64_t)(thaw_events_nanoseconds(CLOCK_BOOTTIME) - thaw_events_nanoseconds(CLOCK_MONOTONIC));
	return best;
}

/* The time stamp counter, where the kernel itself trusts it. */
THAW_EVENTS_COLD uint32_t thaw_events_clock_v1(void)
{
#if defined(__x86_64__)
	unsigned a = 0, b, c, d = 0;
	char name[16] = "";
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
	if (fd >= 0)
		close(fd);
	if (got >= 3 && memcmp(name, "tsc", 3) == 0 && __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8))
		return THAW_CLOCK_TSC;
#endif
	return THAW_CLOCK_MONOTONIC;
}

THAW_EVENTS_INLINE struct thaw_events_chunk *thaw_events_chunk_at(uint64_t number)
{
	char *file = (char *)thaw_events_v1.file;
	return (struct thaw_events_chunk *)(file + THAW_EVENTS_HEADER + THAW_EVENTS_META + number * THAW_EVENTS_CHUNK);
}

THAW_EVENTS_INLINE void thaw_events_lost(uint64_t count)
{
	if (thaw_events_v1.file)
		__atomic_fetch_add(&thaw_events_v1.file->lost, count, __ATOMIC_RELAXED);
}

/* Somebody cut the file under us: what follows goes nowhere, and the program goes on. */
THAW_EVENTS_COLD void thaw_events_cut_v1(int signal, siginfo_t *info, void *context)
{
	struct thaw_events_state *state = &thaw_events_v1;
	char *at = (char *)info->si_addr, *file = (char *)state->file;
	int kept = errno;
	if (file && at >= file && at < file + state->mapped) {
		void *mapped = mmap(file, state->mapped, PROT_READ | PROT_WRITE,
			MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		thaw_events_control_v1 = &thaw_events_words_v1[0];
		errno = kept;
		if (mapped != MAP_FAILED)
			return;
	}
	if (state->before.sa_flags & SA_SIGINFO)
		state->before.sa_sigaction(signal, info, context);
	else if (state->before.sa_handler != SIG_IGN && state->before.sa_handler != SIG_DFL)
		state->before.sa_handler(signal);
	else
		sigaction(signal, &state->before, NULL); /* the access is tried again, and is what it was without us */
	errno = kept;
}

/* Room on the disk for the bytes up to `end`: written to later, they cannot fail. -1: there is none. */
THAW_EVENTS_COLD int thaw_events_room_v1(int fd, uint64_t from, uint64_t end)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur)
		return -1;
	if (syscall(SYS_fallocate, fd, 0, (off_t)from, (off_t)(end - from)) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -1;
	static const char zeros[4096] = {0};
	for (uint64_t at = from; at < end; at += sizeof zeros)
		if (pwrite(fd, zeros, sizeof zeros, (off_t)at) != (ssize_t)sizeof zeros)
			return -1;
	return 0;
}

/* More room for a file that grows. The descriptor is not kept: a program that closes all may open another file under its number. */
THAW_EVENTS_COLD int thaw_events_grow_v1(void)
{
	struct thaw_events_state *state = &thaw_events_v1;
	uint64_t have = state->allocated, want = have + 16 < state->file->chunks ? have + 16 : state->file->chunks;
	uint64_t base = THAW_EVENTS_HEADER + THAW_EVENTS_META;
	struct stat about;
	int kept = errno, done = -1, fd = open(state->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0) {
		if (fstat(fd, &about) == 0 && about.st_dev == state->device && about.st_ino == state->inode)
			done = thaw_events_room_v1(fd, base + have * THAW_EVENTS_CHUNK, base + want * THAW_EVENTS_CHUNK);
		close(fd);
	}
	if (done == 0)
		__atomic_store_n(&state->allocated, want, __ATOMIC_RELEASE);
	errno = kept;
	return done;
}

THAW_EVENTS_INLINE uint64_t thaw_events_size(const char *text)
{
	char *end = NULL;
	uint64_t number = strtoull(text, &end, 10);
	switch (*end) {
	case 'G': return number << 30;
	case 'M': return number << 20;
	case 'K': return number << 10;
	default: return number;
	}
}

/* Which program on which boot: clocks of one boot can be held against each other. */
THAW_EVENTS_COLD void thaw_events_who_v1(struct thaw_events_header *header)
{
	char boot[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? 0 : read(fd, boot, sizeof boot - 1);
	if (fd >= 0)
		close(fd);
	for (ssize_t i = 0, digits = 0; i < got && digits < 32; i++)
		if (boot[i] != '-')
			header->boot[digits++] = boot[i];
	got = readlink("/proc/self/exe", header->program, sizeof header->program - 1);
	(void)got;
}

/* Makes this process's file from what the environment says. */
THAW_EVENTS_COLD void thaw_events_open_v1(void)
{
	struct thaw_events_state *state = &thaw_events_v1;
	const char *says = getenv("THAW_EVENTS");
	char words[4096], filter[1024] = "";
	uint64_t ring = 16u << 20, grow = 0;
	int is_off = 0, fd = -1;
	state->pid = (uint32_t)getpid();
	if (!says || !*says || strlen(says) >= sizeof words)
		return;
	strcpy(words, says);
	char *rest = strchr(words, ',');
	if (rest)
		*rest++ = 0;
	while (rest && *rest) {
		char *word = rest;
		rest = strchr(rest, ',');
		if (rest)
			*rest++ = 0;
		if (strncmp(word, "ring=", 5) == 0)
			ring = thaw_events_size(word + 5);
		else if (strncmp(word, "grow=", 5) == 0)
			grow = thaw_events_size(word + 5);
		else if (strncmp(word, "age=", 4) == 0)
			state->age_ns = thaw_events_size(word + 4) * 1000000000u;
		else if (strncmp(word, "filter=", 7) == 0 && strlen(word + 7) < sizeof filter)
			strcpy(filter, word + 7);
		else if (strcmp(word, "off") == 0)
			is_off = 1;
	}
	uint64_t chunks = (grow ? grow : ring) / THAW_EVENTS_CHUNK;
	chunks = chunks < 1 ? 1 : chunks > 1u << 24 ? 1u << 24 : chunks;
	uint64_t base = THAW_EVENTS_HEADER + THAW_EVENTS_META, first = grow ? 0 : chunks;
	/* Directory, process, and a number where a process of this number was there before. */
	size_t length = strlen(words);
	if (length + 32 >= sizeof state->path)
		return;
	for (unsigned number = 0; fd < 0 && number < 10000; number++) {
		char digits[24], *at = digits + sizeof digits;
		unsigned parts[2] = {number, state->pid};
		*--at = 0;
		for (int i = number ? 0 : 1; i < 2; i++) {
			unsigned part = parts[i];
			do
				*--at = (char)('0' + part % 10);
			while (part /= 10);
			if (i == 0)
				*--at = '.';
		}
		strcpy(state->path, words);
		strcpy(state->path + length, "/");
		strcpy(state->path + length + 1, at);
		strcat(state->path, ".events");
		fd = open(state->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 && errno != EEXIST)
			return;
	}
	struct stat about;
	void *file = MAP_FAILED;
	size_t mapped = (size_t)(base + chunks * THAW_EVENTS_CHUNK);
	if (fd >= 0 && thaw_events_room_v1(fd, 0, base + first * THAW_EVENTS_CHUNK) == 0 && fstat(fd, &about) == 0)
		file = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED) {
		if (fd >= 0) {
			close(fd);
			unlink(state->path);
		}
		return;
	}
	/* Core dumps stay small; a forked child keeps nothing of ours. */
	madvise(file, mapped, MADV_DONTDUMP);
	struct thaw_events_header *header = (struct thaw_events_header *)file;
	state->clock = thaw_events_clock_v1();
	header->version = THAW_EVENTS_VERSION;
	header->header_size = THAW_EVENTS_HEADER;
	header->pid = state->pid;
	header->chunk_size = THAW_EVENTS_CHUNK;
	header->chunks = (uint32_t)chunks;
	header->meta_size = THAW_EVENTS_META;
	header->realtime_ns = thaw_events_nanoseconds(CLOCK_REALTIME);
	header->clock = state->clock;
	header->start = header->end = thaw_events_pair_v1();
	strcpy(header->filter, filter);
	thaw_events_who_v1(header);
	/* Another number than any before in this process: types ask anew, and are told in the new file. */
	state->generation += 2;
	header->generation = state->generation | 1;
	header->next_type = 1;
	header->control = is_off ? 0 : header->generation;
	/* Last: who reads the file knows it as one now. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(header->magic, "thawevt\1", 8);
	close(fd);
	state->device = about.st_dev;
	state->inode = about.st_ino;
	state->growth = grow;
	state->allocated = first;
	state->mapped = mapped;
	state->file = header;
	struct sigaction action;
	memset(&action, 0, sizeof action);
	action.sa_sigaction = thaw_events_cut_v1;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	struct sigaction now;
	if (sigaction(SIGBUS, NULL, &now) == 0 && !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == thaw_events_cut_v1)) {
		state->before = now;
		sigaction(SIGBUS, &action, NULL);
	}
	__atomic_store_n(&thaw_events_control_v1, &header->control, __ATOMIC_RELEASE);
}

/* At the end, or when the library with this copy goes: our handler too. */
THAW_EVENTS_COLD void thaw_events_end_v1(void)
{
	struct thaw_events_state *state = &thaw_events_v1;
	struct sigaction now;
	if (state->file && state->pid == (uint32_t)getpid() && thaw_events_control_v1 == &state->file->control)
		state->file->end = thaw_events_pair_v1();
	if (state->file && sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
		now.sa_sigaction == thaw_events_cut_v1) {
		thaw_events_control_v1 = &thaw_events_words_v1[0];
		sigaction(SIGBUS, &state->before, NULL);
	}
}
static __attribute__((destructor, unused)) void thaw_events_at_end(void)
{
	thaw_events_end_v1();
}

/* The lock of the slow paths. 0: this thread has it already, in what a signal interrupted. */
THAW_EVENTS_INLINE int thaw_events_lock(struct thaw_events_arena *arena, uint32_t tid)
{
	for (;;) {
		uint32_t owner = 0;
		if (__atomic_compare_exchange_n(&arena->lock, &owner, tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return 1;
		if (owner == tid)
			return 0;
		sched_yield();
	}
}

THAW_EVENTS_INLINE void thaw_events_unlock(struct thaw_events_arena *arena)
{
	__atomic_store_n(&arena->lock, 0, __ATOMIC_RELEASE);
}

/* The memory of the lanes, there once; it forgets everything in a forked child, however that was forked. */
THAW_EVENTS_COLD struct thaw_events_arena *thaw_events_arena_v1(void)
{
	struct thaw_events_arena *arena = __atomic_load_n(&thaw_events_v1.arena, __ATOMIC_ACQUIRE), *none = NULL;
	if (arena)
		return arena;
	void *made = mmap(NULL, sizeof *arena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (made == MAP_FAILED)
		return NULL;
	if (madvise(made, sizeof *arena, MADV_WIPEONFORK) != 0 ||
		!__atomic_compare_exchange_n(&thaw_events_v1.arena, &none, (struct thaw_events_arena *)made, 0, __ATOMIC_ACQ_REL,
			__ATOMIC_ACQUIRE))
		munmap(made, sizeof *arena);
	return thaw_events_v1.arena;
}

/* Whether this process has its file; makes it where it is not asked for yet. */
THAW_EVENTS_COLD void thaw_events_begin_v1(void)
{
	int kept = errno;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	struct thaw_events_arena *arena = thaw_events_arena_v1();
	if (!arena) {
		thaw_events_control_v1 = &thaw_events_words_v1[0];
	} else if (thaw_events_lock(arena, tid)) {
		if (!arena->alive) {
			if (thaw_events_v1.file) { /* the parent's */
				void *parents = thaw_events_v1.file;
				thaw_events_control_v1 = &thaw_events_words_v1[1];
				thaw_events_v1.file = NULL;
				munmap(parents, thaw_events_v1.mapped);
			}
			/* Until it is known other threads wait for the answer. */
			thaw_events_open_v1();
			if (!thaw_events_v1.file)
				__atomic_store_n(&thaw_events_control_v1, &thaw_events_words_v1[0], __ATOMIC_RELEASE);
			arena->alive = 1;
		}
		thaw_events_unlock(arena);
	}
	errno = kept;
}

/* A lane for this thread: its own from before, or that of a thread that is gone with what is left of its chunk, or a new one. */
THAW_EVENTS_COLD struct thaw_events_lane *thaw_events_lane_of_v1(void)
{
	struct thaw_events_arena *arena = thaw_events_v1.arena;
	struct thaw_events_lane *found = NULL;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	if (!thaw_events_lock(arena, tid))
		return NULL;
	for (uint32_t tries = 0; !found && tries < 8 && arena->lanes; tries++) {
		struct thaw_events_lane *lane = &arena->lane[arena->hand++ % arena->lanes];
		int kept = errno;
		if (lane->tid == tid || syscall(SYS_tgkill, getpid(), (pid_t)lane->tid, 0) != 0)
			found = lane;
		errno = kept;
	}
	if (!found && arena->lanes < THAW_EVENTS_LANES)
		found = &arena->lane[arena->lanes++];
	if (found) {
		found->tid = tid;
		found->busy = 0;
	}
	thaw_events_unlock(arena);
	return found;
}

THAW_EVENTS_INLINE uint64_t thaw_events_record(uint64_t object, uint32_t type)
{
	return object << 16 | type;
}

/* Gives the lane a chunk with nothing in it. 0: there is none. */
THAW_EVENTS_COLD int thaw_events_refill_v1(struct thaw_events_lane *lane)
{
	struct thaw_events_state *state = &thaw_events_v1;
	struct thaw_events_header *file = state->file;
	if (lane->chunk) {
		lane->chunk->used = (uint32_t)((char *)lane->next - (char *)lane->chunk);
		lane->chunk->events = (lane->chunk->used - THAW_EVENTS_CHUNK_HEAD) / 16 - (uint32_t)lane->continued;
		__atomic_store_n(&lane->chunk->state, THAW_CHUNK_LEFT, __ATOMIC_RELEASE);
		lane->chunk = NULL;
		lane->next = lane->end = NULL;
	}
	struct thaw_events_pair pair = thaw_events_pair_v1();
	for (uint64_t tries = 0; tries < file->chunks; tries++) {
		uint64_t allocated = __atomic_load_n(&state->allocated, __ATOMIC_ACQUIRE);
		uint64_t number = __atomic_load_n(&file->next, __ATOMIC_RELAXED);
		/* The oldest one, while it is young and there is room for more, stays. */
		if (state->growth && allocated < file->chunks && number >= allocated) {
			int is_old = 0;
			if (allocated && state->age_ns) {
				struct thaw_events_chunk *oldest = thaw_events_chunk_at(number % allocated);
				is_old = oldest->pair.monotonic_ns + state->age_ns < pair.monotonic_ns;
			}
			if (!is_old && thaw_events_lock(state->arena, lane->tid)) {
				int grown = state->allocated > allocated || thaw_events_grow_v1() == 0;
				/* No more room: it is a ring of what it has. */
				if (!grown)
					state->growth = 0;
				thaw_events_unlock(state->arena);
				if (grown)
					continue;
			}
		}
		if (!allocated)
			return 0;
		number = __atomic_fetch_add(&file->next, 1, __ATOMIC_RELAXED);
		struct thaw_events_chunk *chunk = thaw_events_chunk_at(number % allocated);
		uint32_t was = __atomic_load_n(&chunk->state, __ATOMIC_ACQUIRE);
		if (was == THAW_CHUNK_WRITTEN ||
			!__atomic_compare_exchange_n(&chunk->state, &was, THAW_CHUNK_WRITTEN, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		uint64_t *first = (uint64_t *)((char *)chunk + THAW_EVENTS_CHUNK_HEAD);
		if (was == THAW_CHUNK_LEFT) {
			__atomic_fetch_add(&file->overwritten, chunk->events, __ATOMIC_RELAXED);
			__atomic_store_n(&chunk->sequence, 0, __ATOMIC_RELEASE);
			memset(first, 0, THAW_EVENTS_CHUNK - THAW_EVENTS_CHUNK_HEAD);
		}
		chunk->tid = lane->tid;
		chunk->pair = pair;
		chunk->used = 0;
		__atomic_store_n(&chunk->sequence, number + 1, __ATOMIC_RELEASE);
		file->end = pair;
		lane->chunk = chunk;
		lane->continued = 0;
		lane->next = first;
		lane->end = (uint64_t *)((char *)chunk + THAW_EVENTS_CHUNK);
		return 1;
	}
	return 0;
}

/* Room for `slots` records in this thread's lane, which is busy then. NULL: the events are lost, and counted. */
THAW_EVENTS_COLD struct thaw_events_lane *thaw_events_make_room_v1(uint32_t slots, uint64_t events)
{
	if (!thaw_events_v1.arena->alive)
		thaw_events_begin_v1();
	if (!thaw_events_v1.file || !*thaw_events_control_v1)
		return NULL;
	struct thaw_events_lane *lane = thaw_events_lane_v1;
	if (!lane || !lane->tid) {
		lane = thaw_events_lane_of_v1();
		if (!lane) {
			thaw_events_lost(events);
			return NULL;
		}
		lane->busy = 1;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		thaw_events_lane_v1 = lane;
		/* What a thread left, another goes on with. */
		if (lane->chunk && (char *)lane->end - (char *)lane->next >= (ptrdiff_t)(16 * (slots + 1))) {
			lane->next[1] = thaw_events_record(lane->tid, 0);
			__atomic_store_n(&lane->next[0], thaw_events_now() << 8 | THAW_PHASE_THREAD, __ATOMIC_RELEASE);
			lane->next += 2;
			lane->continued++;
			return lane;
		}
	} else if (lane->busy) {
		/* A signal came in the middle of a record of this thread. */
		thaw_events_lost(events);
		return NULL;
	}
	lane->busy = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (slots * 16u <= THAW_EVENTS_CHUNK - THAW_EVENTS_CHUNK_HEAD && thaw_events_refill_v1(lane))
		return lane;
	lane->busy = 0;
	thaw_events_lost(events);
	return NULL;
}

THAW_EVENTS_INLINE struct thaw_events_lane *thaw_events_room(uint32_t slots, uint64_t events)
{
	struct thaw_events_lane *lane = thaw_events_lane_v1;
	if (__builtin_expect(lane && !lane->busy && (char *)lane->end - (char *)lane->next >= (ptrdiff_t)(16 * slots), 1)) {
		lane->busy = 1;
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		return lane;
	}
	return thaw_events_make_room_v1(slots, events);
}

THAW_EVENTS_INLINE void thaw_events_ready(struct thaw_events_lane *lane)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	lane->busy = 0;
}

/* The first word of a record says that it is whole. */
THAW_EVENTS_INLINE void thaw_events_put(struct thaw_events_lane *lane, uint64_t now, uint32_t phase, uint64_t object, uint32_t type)
{
	uint64_t *at = lane->next;
	at[1] = thaw_events_record(object, type);
	__atomic_store_n(&at[0], now << 8 | phase, __ATOMIC_RELEASE);
	lane->next = at + 2;
}

/* Whether a name passes the filter: one of its parts is the name, or a namespace of it with `*` behind. */
THAW_EVENTS_INLINE int thaw_events_passes(const char *filter, const char *name)
{
	if (!*filter)
		return 1;
	while (*filter) {
		size_t length = strcspn(filter, "+");
		if (length && filter[length - 1] == '*' ? strncmp(filter, name, length - 1) == 0
			: strlen(name) == length && strncmp(filter, name, length) == 0)
			return 1;
		filter += length + (filter[length] == '+');
	}
	return 0;
}

/* Adds an entry to the file's tables: length, kind, number, line, and two texts. */
THAW_EVENTS_COLD int thaw_events_tell_v1(uint32_t kind, uint32_t id, uint32_t line, const char *first, const char *second)
{
	struct thaw_events_header *file = thaw_events_v1.file;
	size_t one = strnlen(first, 4095), two = strnlen(second, 4095), length = (16 + one + 1 + two + 1 + 7) & ~(size_t)7;
	uint64_t at = __atomic_fetch_add(&file->meta_used, length, __ATOMIC_RELAXED);
	if (at + length > THAW_EVENTS_META)
		return 0;
	char *entry = (char *)file + THAW_EVENTS_HEADER + at;
	memcpy(entry + 4, &kind, 4);
	memcpy(entry + 8, &id, 4);
	memcpy(entry + 12, &line, 4);
	memcpy(entry + 16, first, one);
	memcpy(entry + 16 + one + 1, second, two);
	__atomic_store_n((uint32_t *)(void *)entry, (uint32_t)length, __ATOMIC_RELEASE);
	return 1;
}

/* Whether this type is to be written under this control word; its number in the file. */
THAW_EVENTS_COLD int thaw_events_ask_v1(struct thaw_events_type *type, uint32_t word)
{
	struct thaw_events_state *state = &thaw_events_v1;
	if (thaw_events_control_v1 == &thaw_events_words_v1[1] || !state->arena || !state->arena->alive) {
		thaw_events_begin_v1();
		word = __atomic_load_n(thaw_events_control_v1, __ATOMIC_RELAXED);
	}
	if (!word || !state->file || type->fails == word)
		return 0;
	if (!thaw_events_passes(state->file->filter, type->name)) {
		__atomic_store_n(&type->fails, word, __ATOMIC_RELAXED);
		return 0;
	}
	uint32_t id = __atomic_fetch_add(&state->file->next_type, 1, __ATOMIC_RELAXED);
	if (id >= 0xffff || !thaw_events_tell_v1(THAW_META_TYPE, id, type->line, type->name, type->file)) {
		__atomic_fetch_add(&state->file->types_lost, 1, __ATOMIC_RELAXED);
		id = 0xffff;
	}
	__atomic_store_n(&type->id, id, __ATOMIC_RELAXED);
	__atomic_store_n(&type->passes, word, __ATOMIC_RELEASE);
	return 1;
}

THAW_EVENTS_INLINE int thaw_events_is_on(struct thaw_events_type *type)
{
	uint32_t word = __atomic_load_n(thaw_events_control_v1, __ATOMIC_RELAXED);
	if (__builtin_expect(word == 0, 1))
		return 0;
	return __builtin_expect(__atomic_load_n(&type->passes, __ATOMIC_ACQUIRE) == word, 1) || thaw_events_ask_v1(type, word);
}

/* Whether anything is written; for records without a type. */
THAW_EVENTS_INLINE int thaw_events_any(void)
{
	uint32_t word = __atomic_load_n(thaw_events_control_v1, __ATOMIC_RELAXED);
	if (__builtin_expect(word == 0, 1))
		return 0;
	if (__builtin_expect(word == 1, 0) && thaw_events_control_v1 == &thaw_events_words_v1[1]) {
		thaw_events_begin_v1();
		word = __atomic_load_n(thaw_events_control_v1, __ATOMIC_RELAXED);
	}
	return word != 0;
}

THAW_EVENTS_INLINE void thaw_events_one(uint32_t phase, uint64_t object, struct thaw_events_type *type, int is_fenced)
{
	if (!thaw_events_is_on(type))
		return;
	struct thaw_events_lane *lane = thaw_events_room(1, 1);
	if (lane) {
		thaw_events_put(lane, is_fenced ? thaw_events_now_fenced() : thaw_events_now(), phase, object, type->id);
		thaw_events_ready(lane);
	}
}

THAW_EVENTS_INLINE void thaw_events_done_wait(uint64_t done, struct thaw_events_type *done_type, uint64_t waiting,
	struct thaw_events_type *waiting_type)
{
	int first = thaw_events_is_on(done_type), second = thaw_events_is_on(waiting_type);
	if (!first && !second)
		return;
	struct thaw_events_lane *lane = thaw_events_room(2, (uint64_t)(first + second));
	if (lane) {
		uint64_t now = thaw_events_now();
		if (first)
			thaw_events_put(lane, now, THAW_PHASE_DONE, done, done_type->id);
		if (second)
			thaw_events_put(lane, now, THAW_PHASE_WAIT, waiting, waiting_type->id);
		thaw_events_ready(lane);
	}
}

/* A record with a second object: what it leads to stands behind it, and is there before it. */
THAW_EVENTS_INLINE void thaw_events_link(uint64_t from, uint64_t to, struct thaw_events_type *type)
{
	if (!thaw_events_is_on(type))
		return;
	struct thaw_events_lane *lane = thaw_events_room(2, 1);
	if (lane) {
		uint64_t now = thaw_events_now_fenced(), *at = lane->next;
		at[2] = THAW_PHASE_MORE;
		at[3] = thaw_events_record(to, 0);
		at[1] = thaw_events_record(from, type->id);
		__atomic_store_n(&at[0], now << 8 | THAW_PHASE_LINK, __ATOMIC_RELEASE);
		lane->next = at + 4;
		lane->continued++;
		thaw_events_ready(lane);
	}
}

/* A record with a text of up to three parts behind it, 15 bytes a slot, ended by a zero; then, at the same time, a wait. */
THAW_EVENTS_COLD void thaw_events_text_v1(uint32_t phase, uint64_t object, const char *one, const char *two, const char *three,
	struct thaw_events_type *waits)
{
	const char *parts[3] = {one, two, three};
	size_t total = 0, lengths[3];
	for (int i = 0; i < 3; i++) {
		lengths[i] = parts[i] ? strnlen(parts[i], THAW_EVENTS_TEXT_MOST - total) : 0;
		total += lengths[i];
		if (total == THAW_EVENTS_TEXT_MOST && thaw_events_v1.file)
			__atomic_fetch_add(&thaw_events_v1.file->texts_cut, 1, __ATOMIC_RELAXED);
	}
	uint32_t slots = (uint32_t)(total / 15 + 1);
	struct thaw_events_lane *lane = thaw_events_room(1 + slots + (waits ? 1 : 0), waits ? 2 : 1);
	if (!lane)
		return;
	uint64_t now = thaw_events_now(), *at = lane->next;
	unsigned char slot[16];
	size_t part = 0, done = 0;
	for (uint32_t i = 0; i < slots; i++) {
		memset(slot, 0, sizeof slot);
		slot[0] = THAW_PHASE_TEXT;
		for (size_t byte = 1; byte < 16; byte++) {
			while (part < 3 && done == lengths[part]) {
				part++;
				done = 0;
			}
			if (part == 3)
				break;
			slot[byte] = (unsigned char)parts[part][done++];
		}
		memcpy(at + 2 + 2 * i, slot, sizeof slot);
	}
	at[1] = thaw_events_record(object, 0);
	__atomic_store_n(&at[0], now << 8 | phase, __ATOMIC_RELEASE);
	lane->next = at + 2 + 2 * slots;
	lane->continued += slots;
	if (waits)
		thaw_events_put(lane, now, THAW_PHASE_WAIT, object, waits->id);
	thaw_events_ready(lane);
}

THAW_EVENTS_INLINE void thaw_events_text(uint32_t phase, uint64_t object, const char *one, const char *two, const char *three)
{
	if (thaw_events_any())
		thaw_events_text_v1(phase, object, one, two, three, NULL);
}

THAW_EVENTS_INLINE void thaw_events_name_wait(uint64_t object, const char *name, struct thaw_events_type *type)
{
	if (thaw_events_is_on(type))
		thaw_events_text_v1(THAW_PHASE_NAME, object, name, NULL, NULL, type);
}

THAW_EVENTS_INLINE void thaw_events_free(uint64_t object)
{
	if (!thaw_events_any())
		return;
	struct thaw_events_lane *lane = thaw_events_room(1, 1);
	if (lane) {
		thaw_events_put(lane, thaw_events_now(), THAW_PHASE_FREE, object, 0);
		thaw_events_ready(lane);
	}
}

THAW_EVENTS_INLINE void thaw_events_thread_name(const char *name)
{
	if (thaw_events_any() && thaw_events_v1.file)
		thaw_events_tell_v1(THAW_META_THREAD, (uint32_t)syscall(SYS_gettid), 0, name, "");
}

#ifdef __cplusplus
}
#endif

#define THAW_EVENTS_OBJECT(object) ((uint64_t)(uintptr_t)(object))
#define THAW_EVENTS_TYPE(name) \
	static struct thaw_events_type thaw_events_type_here = {"" name, __FILE__, __LINE__, 0, 0, 0}
#define THAW_EVENTS_EVENT(phase, object, type, fenced) \
	do { \
		THAW_EVENTS_TYPE(type); \
		thaw_events_one((phase), THAW_EVENTS_OBJECT(object), &thaw_events_type_here, (fenced)); \
	} while (0)

/* Something happened. */
#define THAW_MARK(object, type) THAW_EVENTS_EVENT(THAW_PHASE_MARK, object, type, 0)
/* It begins to wait. */
#define THAW_WAIT(object, type) THAW_EVENTS_EVENT(THAW_PHASE_WAIT, object, type, 0)
/* It is worked on; _POSTED: what another thread handed to this one, so that no clock shows it before that. */
#define THAW_EXEC(object, type) THAW_EVENTS_EVENT(THAW_PHASE_EXEC, object, type, 0)
#define THAW_EXEC_POSTED(object, type) THAW_EVENTS_EVENT(THAW_PHASE_EXEC, object, type, 1)
/* It is done. */
#define THAW_DONE(object, type) THAW_EVENTS_EVENT(THAW_PHASE_DONE, object, type, 0)
/* The same for an object that several threads work on at once: each thread's events belong together. */
#define THAW_WAIT_SHARED(object, type) THAW_EVENTS_EVENT(THAW_PHASE_WAIT | THAW_PHASE_SHARED, object, type, 0)
#define THAW_EXEC_SHARED(object, type) THAW_EVENTS_EVENT(THAW_PHASE_EXEC | THAW_PHASE_SHARED, object, type, 0)
#define THAW_DONE_SHARED(object, type) THAW_EVENTS_EVENT(THAW_PHASE_DONE | THAW_PHASE_SHARED, object, type, 0)
/* The end of one and the beginning of another, at one time. */
#define THAW_DONE_WAIT(done, done_type, waiting, waiting_type) \
	do { \
		static struct thaw_events_type thaw_events_type_done = {"" done_type, __FILE__, __LINE__, 0, 0, 0}; \
		THAW_EVENTS_TYPE(waiting_type); \
		thaw_events_done_wait( \
			THAW_EVENTS_OBJECT(done), &thaw_events_type_done, THAW_EVENTS_OBJECT(waiting), &thaw_events_type_here); \
	} while (0)
/* What an object is called, up to 16 KiB: a URL, a host; also of two parts. */
#define THAW_NAME(object, name) thaw_events_text(THAW_PHASE_NAME, THAW_EVENTS_OBJECT(object), (name), NULL, NULL)
#define THAW_COMPOUND_NAME(object, first, second) \
	thaw_events_text(THAW_PHASE_NAME, THAW_EVENTS_OBJECT(object), (first), (second), NULL)
#define THAW_NAME_WAIT(object, name, type) \
	do { \
		THAW_EVENTS_TYPE(type); \
		thaw_events_name_wait(THAW_EVENTS_OBJECT(object), (name), &thaw_events_type_here); \
	} while (0)
/* `from` released, or caused, `to`. */
#define THAW_LINK(from, to, type) \
	do { \
		THAW_EVENTS_TYPE(type); \
		thaw_events_link(THAW_EVENTS_OBJECT(from), THAW_EVENTS_OBJECT(to), &thaw_events_type_here); \
	} while (0)
/* Something to know of it: two texts. */
#define THAW_ARG(object, key, value) thaw_events_text(THAW_PHASE_ARG, THAW_EVENTS_OBJECT(object), (key), "=", (value))
/* The object is gone. */
#define THAW_FREE(object) thaw_events_free(THAW_EVENTS_OBJECT(object))
/* What this thread is called. */
#define THAW_THREAD_NAME(name) thaw_events_thread_name(name)

/* Worked on from here to the end of the block. */
#ifdef __cplusplus
struct thaw_events_scope {
	uint64_t object;
	thaw_events_type *type;
	thaw_events_scope(uint64_t object, thaw_events_type *type) : object(object), type(type)
	{
		thaw_events_one(THAW_PHASE_EXEC, object, type, 0);
	}
	~thaw_events_scope() { thaw_events_one(THAW_PHASE_DONE, object, type, 0); }
	thaw_events_scope(const thaw_events_scope &) = delete;
	thaw_events_scope &operator=(const thaw_events_scope &) = delete;
};
#define THAW_EVENTS_JOIN2(a, b) a##b
#define THAW_EVENTS_JOIN(a, b) THAW_EVENTS_JOIN2(a, b)
#define THAW_SCOPE(object, type) \
	static thaw_events_type THAW_EVENTS_JOIN(thaw_scope_type_, __LINE__) = {"" type, __FILE__, __LINE__, 0, 0, 0}; \
	thaw_events_scope THAW_EVENTS_JOIN(thaw_scope_, __LINE__)( \
		THAW_EVENTS_OBJECT(object), &THAW_EVENTS_JOIN(thaw_scope_type_, __LINE__))
#else
struct thaw_events_scope {
	uint64_t object;
	struct thaw_events_type *type;
};
THAW_EVENTS_INLINE struct thaw_events_scope thaw_events_scope_begin(uint64_t object, struct thaw_events_type *type)
{
	struct thaw_events_scope scope = {object, type};
	thaw_events_one(THAW_PHASE_EXEC, object, type, 0);
	return scope;
}
THAW_EVENTS_INLINE void thaw_events_scope_end(struct thaw_events_scope *scope)
{
	thaw_events_one(THAW_PHASE_DONE, scope->object, scope->type, 0);
}
#define THAW_EVENTS_JOIN2(a, b) a##b
#define THAW_EVENTS_JOIN(a, b) THAW_EVENTS_JOIN2(a, b)
#define THAW_SCOPE(object, name) \
	static struct thaw_events_type THAW_EVENTS_JOIN(thaw_scope_type_, __LINE__) = {"" name, __FILE__, __LINE__, 0, 0, 0}; \
	struct thaw_events_scope THAW_EVENTS_JOIN(thaw_scope_, __LINE__) __attribute__((cleanup(thaw_events_scope_end), unused)) = \
		thaw_events_scope_begin(THAW_EVENTS_OBJECT(object), &THAW_EVENTS_JOIN(thaw_scope_type_, __LINE__))
#endif

#endif /* THAW_EVENTS_OFF */
#endif /* THAW_EVENTS_H */
