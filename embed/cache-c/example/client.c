/* An HTTP/1.1 client with a cache. It reads commands from its standard input and answers each with a line:
 *
 *     get URL [NAME: VALUE[|NAME: VALUE...]]    also head, post
 *     invalidate URL    clear    prefix URL    flush    stats
 *
 * What is fetched: status, where it came from, whether it was stored, the head's fields, the body; tabs between them.
 *
 *     cc client.c -I ../include -lthaw_cache -o client
 *     echo get http://example.org/ | ./client DIRECTORY    (no directory: in memory)
 */
#define _POSIX_C_SOURCE 200809L
#include "thaw_cache.h"
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_FIELDS 64
/* What is asked for at a time: no more of a stored body is in memory. */
#define CREDIT 4096

static void check(int code, const char *what)
{
	if (code < 0) {
		fprintf(stderr, "%s: %s\n", what, thaw_cache_explain(code));
		exit(1);
	}
}

static thaw_text text(const char *of)
{
	thaw_text text = {of, strlen(of)};
	return text;
}

/* The next event, waited for where there is nothing else to do. */
static thaw_cache_event next(thaw_cache *cache)
{
	thaw_cache_event event;
	memset(&event, 0, sizeof event);
	event.size = sizeof event;
	for (;;) {
		int code = thaw_cache_next(cache, &event);
		check(code, "next");
		if (code == THAW_CACHE_OK)
			return event;
		struct pollfd fd = {thaw_cache_fd(cache), POLLIN, 0};
		if (poll(&fd, 1, -1) < 0 && errno != EINTR)
			exit(1);
	}
}

/* A response as it came; fields point into it. */
struct response {
	char *bytes, *body;
	size_t length, body_length;
	int status, whole;
	thaw_field fields[MOST_FIELDS];
	size_t count;
};

static int dial(const char *host, const char *port)
{
	struct addrinfo hints, *found = NULL;
	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(host, port, &hints, &found) != 0)
		return -1;
	int fd = socket(found->ai_family, found->ai_socktype, 0);
	if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

/* Sends what the cache says; 0: there is no answer. A client of real life reads and writes without waiting, and passes bytes on as they come. */
static int fetch(const thaw_cache_message *request, struct response *response)
{
	char host[256] = "", port[8] = "80";
	const char *rest = request->url.bytes + strlen("http://"), *end = request->url.bytes + request->url.length;
	const char *path = memchr(rest, '/', (size_t)(end - rest));
	size_t named = (size_t)((path ? path : end) - rest);
	memset(response, 0, sizeof *response);
	if (named >= sizeof host)
		return 0;
	memcpy(host, rest, named);
	char *colon = strchr(host, ':');
	if (colon) {
		snprintf(port, sizeof port, "%.7s", colon + 1);
		*colon = 0;
	}
	int fd = dial(host, port);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "r+");
	if (!out)
		return 0;
	fprintf(out, "%.*s %.*s HTTP/1.1\r\nhost: %.*s\r\nconnection: close\r\n", (int)request->method.length, request->method.bytes,
		path ? (int)(end - path) : 1, path ? path : "/", (int)named, rest);
	for (size_t i = 0; i < request->field_count; i++)
		fprintf(out, "%.*s: %.*s\r\n", (int)request->fields[i].name.length, request->fields[i].name.bytes,
			(int)request->fields[i].value.length, request->fields[i].value.bytes);
	fputs("\r\n", out);
	fflush(out);
	size_t room = 65536, got;
	response->bytes = malloc(room + 1);
	while (response->bytes && (got = fread(response->bytes + response->length, 1, room - response->length, out)) > 0) {
		response->length += got;
		if (response->length == room)
			response->bytes = realloc(response->bytes, (room *= 2) + 1);
	}
	fclose(out);
	if (!response->bytes)
		return 0;
	response->bytes[response->length] = 0;
	char *at = strstr(response->bytes, "\r\n\r\n");
	if (!at || sscanf(response->bytes, "HTTP/1.%*d %d", &response->status) != 1)
		return 0;
	*at = 0;
	response->body = at + 4;
	response->body_length = response->length - (size_t)(response->body - response->bytes);
	response->whole = 1;
	for (char *line = strstr(response->bytes, "\r\n"); line && response->count < MOST_FIELDS; line = strstr(line, "\r\n")) {
		line += 2;
		char *value = strstr(line, ": "), *stop = strstr(line, "\r\n");
		if (!value)
			break;
		thaw_field *field = &response->fields[response->count++];
		field->name.bytes = line;
		field->name.length = (size_t)(value - line);
		field->value.bytes = value + 2;
		field->value.length = stop ? (size_t)(stop - value) - 2 : strlen(value + 2);
		if (strncasecmp(line, "content-length: ", 16) == 0 && request->method.length != 4)
			response->whole = strtoul(value + 2, NULL, 10) == response->body_length;
	}
	return 1;
}

static void say_head(thaw_exchange *exchange, const char *from)
{
	thaw_cache_message head;
	memset(&head, 0, sizeof head);
	head.size = sizeof head;
	check(thaw_cache_head(exchange, &head), "head");
	printf("%u\t%s\t", head.status, from);
	for (size_t i = 0; i < head.field_count; i++)
		printf("%.*s: %.*s; ", (int)head.fields[i].name.length, head.fields[i].name.bytes, (int)head.fields[i].value.length,
			head.fields[i].value.bytes);
	putchar('\t');
}

/* A stored body, a little at a time. */
static void say_stored(thaw_cache *cache, thaw_exchange *exchange)
{
	say_head(exchange, "store");
	for (size_t had = 0;; ) {
		if (had == 0)
			check(thaw_cache_read(exchange, had = CREDIT), "read");
		thaw_cache_event event = next(cache);
		fwrite(event.data.bytes, 1, event.data.length, stdout);
		had -= event.data.length;
		unsigned kind = event.kind;
		check(thaw_cache_event_free(&event), "event_free");
		if (kind == THAW_CACHE_BROKEN)
			printf("(broken)");
		if (kind == THAW_CACHE_END || kind == THAW_CACHE_BROKEN)
			return;
	}
}

/* Asks the origin. What the cache wants to be done then. */
static int ask_origin(thaw_exchange *exchange, struct response *came)
{
	thaw_cache_message request;
	memset(&request, 0, sizeof request);
	request.size = sizeof request;
	check(thaw_cache_forward(exchange, &request), "forward");
	int action;
	if (!fetch(&request, came)) {
		check(thaw_cache_failed(exchange, &action), "failed");
		return action;
	}
	thaw_cache_response response;
	memset(&response, 0, sizeof response);
	response.size = sizeof response;
	response.status = (uint32_t)came->status;
	response.fields = came->fields;
	response.field_count = came->count;
	check(thaw_cache_respond(exchange, &response, &action), "response");
	return action;
}

/* Hands a body over, in pieces as a socket would; whether it was stored. */
static const char *keep(thaw_cache *cache, thaw_exchange *exchange, const struct response *came)
{
	for (size_t at = 0; at < came->body_length; at += CREDIT) {
		size_t piece = came->body_length - at < CREDIT ? came->body_length - at : CREDIT;
		int code = thaw_cache_write(exchange, came->body + at, piece);
		if (code == THAW_CACHE_LARGE)
			break;
		check(code, "write");
	}
	if (!came->whole) {
		check(thaw_cache_abort(exchange), "abort");
		return "aborted";
	}
	check(thaw_cache_finish(exchange, NULL, 0), "finish");
	return next(cache).kind == THAW_CACHE_STORED ? "stored" : "dropped";
}

/* Does what is to be done with a request until it is answered. */
static void answer(thaw_cache *cache, thaw_exchange *exchange, int action)
{
	struct response came;
	memset(&came, 0, sizeof came);
	while (action == THAW_CACHE_WAIT || action == THAW_CACHE_FORWARD) {
		if (action == THAW_CACHE_WAIT) {
			action = next(cache).action;
			continue;
		}
		free(came.bytes);
		action = ask_origin(exchange, &came);
	}
	const char *kept = "-";
	switch (action) {
	case THAW_CACHE_SERVE:
		say_stored(cache, exchange);
		break;
	case THAW_CACHE_ANSWER:
		say_head(exchange, "cache");
		break;
	case THAW_CACHE_STORE:
		kept = keep(cache, exchange, &came); /* fall through */
	case THAW_CACHE_PASS:
		say_head(exchange, "origin");
		fwrite(came.body, 1, came.body_length, stdout);
		break;
	default:
		printf("502\tnowhere\t\t");
	}
	printf("\t%s\n", kept);
	fflush(stdout);
	free(came.bytes);
	thaw_exchange *refresh = NULL;
	if (thaw_cache_refresh(exchange, 2, &refresh) == THAW_CACHE_OK) {
		answer(cache, refresh, THAW_CACHE_FORWARD);
		thaw_cache_free(refresh);
	}
}

static void get(thaw_cache *cache, const char *method, const char *url, char *fields)
{
	thaw_field list[MOST_FIELDS];
	size_t count = 0;
	for (char *field = fields ? strtok(fields, "|") : NULL; field && count < MOST_FIELDS; field = strtok(NULL, "|")) {
		char *colon = strstr(field, ": ");
		if (!colon)
			continue;
		*colon = 0;
		list[count].name = text(field);
		list[count++].value = text(colon + 2);
	}
	thaw_cache_request request;
	memset(&request, 0, sizeof request);
	request.size = sizeof request;
	request.method = text(method);
	request.url = text(url);
	request.fields = list;
	request.field_count = count;
	request.tag = 1;
	thaw_exchange *exchange = NULL;
	check(thaw_cache_ask(cache, &request, &exchange), "ask");
	answer(cache, exchange, THAW_CACHE_WAIT);
	check(thaw_cache_free(exchange), "free");
}

/* Waits for the end of a call that is not about an exchange. */
static void done(thaw_cache *cache, int code)
{
	check(code, "call");
	printf("done %d\n", next(cache).done);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	thaw_cache_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.directory = text(argc > 1 ? argv[1] : "");
	thaw_cache *cache = NULL;
	check(thaw_cache_open(&options, &cache), "open");
	static char line[65536];
	thaw_text all = {NULL, 0};
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		char *word = strtok(line, " "), *url = strtok(NULL, " "), *rest = strtok(NULL, "");
		if (!word)
			continue;
		if (strcmp(word, "get") == 0)
			get(cache, "GET", url ? url : "", rest);
		else if (strcmp(word, "head") == 0)
			get(cache, "HEAD", url ? url : "", rest);
		else if (strcmp(word, "post") == 0)
			get(cache, "POST", url ? url : "", rest);
		else if (strcmp(word, "invalidate") == 0)
			done(cache, thaw_cache_invalidate(cache, text(url ? url : ""), all, 1));
		else if (strcmp(word, "clear") == 0)
			done(cache, thaw_cache_clear(cache, 1));
		else if (strcmp(word, "prefix") == 0)
			done(cache, thaw_cache_clear_prefix(cache, all, text(url ? url : ""), 1));
		else if (strcmp(word, "flush") == 0)
			done(cache, thaw_cache_flush(cache, 1));
		else if (strcmp(word, "stats") == 0) {
			thaw_cache_stats stats;
			memset(&stats, 0, sizeof stats);
			stats.size = sizeof stats;
			check(thaw_cache_get_stats(cache, &stats), "stats");
			printf("entries %llu served %llu validated %llu forwarded %llu stored %llu dropped %llu dead %u\n",
				(unsigned long long)stats.entries, (unsigned long long)stats.served, (unsigned long long)stats.validated,
				(unsigned long long)stats.forwarded, (unsigned long long)stats.stored, (unsigned long long)stats.dropped,
				stats.dead);
			fflush(stdout);
		}
	}
	check(thaw_cache_close(cache), "close");
	return 0;
}
