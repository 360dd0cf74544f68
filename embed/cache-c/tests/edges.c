/* What a program can do wrong, and what is told in small pieces: in memory, without an origin. */
#define _POSIX_C_SOURCE 200809L
#include "thaw_cache.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IS(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
			exit(1); \
		} \
	} while (0)

static thaw_text text(const char *of)
{
	thaw_text text = {of, strlen(of)};
	return text;
}

static thaw_field field(const char *name, const char *value)
{
	thaw_field field = {text(name), text(value)};
	return field;
}

static thaw_cache_request request(const char *method, const char *url)
{
	thaw_cache_request request;
	memset(&request, 0, sizeof request);
	request.size = sizeof request;
	request.method = text(method);
	request.url = text(url);
	return request;
}

static thaw_cache_response response(uint32_t status, const thaw_field *fields, size_t count)
{
	thaw_cache_response response;
	memset(&response, 0, sizeof response);
	response.size = sizeof response;
	response.status = status;
	response.fields = fields;
	response.field_count = count;
	return response;
}

static thaw_cache_event next(thaw_cache *cache)
{
	thaw_cache_event event;
	memset(&event, 0, sizeof event);
	event.size = sizeof event;
	int code;
	while ((code = thaw_cache_next(cache, &event)) == THAW_CACHE_EMPTY) {
		struct pollfd fd = {thaw_cache_fd(cache), POLLIN, 0};
		poll(&fd, 1, -1);
	}
	IS(code == THAW_CACHE_OK);
	return event;
}

static int readable(thaw_cache *cache)
{
	struct pollfd fd = {thaw_cache_fd(cache), POLLIN, 0};
	return poll(&fd, 1, 0) == 1;
}

static thaw_cache *in_memory(void)
{
	thaw_cache *cache = NULL;
	IS(thaw_cache_open(NULL, &cache) == THAW_CACHE_OK && cache);
	return cache;
}

static thaw_exchange *ask(thaw_cache *cache, const char *url, uint64_t tag)
{
	thaw_exchange *exchange = NULL;
	thaw_cache_request asked = request("GET", url);
	asked.tag = tag;
	IS(thaw_cache_ask(cache, &asked, &exchange) == THAW_CACHE_OK && exchange);
	return exchange;
}

/* An exchange that stores: FORWARD was decided, and a response came that may be kept. */
static thaw_exchange *storing(thaw_cache *cache, const char *url)
{
	int action = -1;
	thaw_field fresh = field("Cache-Control", "max-age=60");
	thaw_cache_response came = response(200, &fresh, 1);
	thaw_exchange *exchange = ask(cache, url, 7);
	thaw_cache_event event = next(cache);
	IS(event.kind == THAW_CACHE_DECIDED && event.action == THAW_CACHE_FORWARD && event.tag == 7);
	IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_OK && action == THAW_CACHE_STORE);
	return exchange;
}

static void store(thaw_cache *cache, const char *url, const char *body, size_t length)
{
	thaw_exchange *exchange = storing(cache, url);
	IS(thaw_cache_write(exchange, body, length) == THAW_CACHE_OK);
	IS(thaw_cache_finish(exchange, NULL, 0) == THAW_CACHE_OK);
	IS(next(cache).kind == THAW_CACHE_STORED);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
}

static void nulls(void)
{
	thaw_cache *cache = in_memory();
	thaw_exchange *exchange = ask(cache, "http://a/", 1), *other = NULL;
	thaw_cache_request asked = request("GET", "http://a/");
	thaw_cache_response came = response(200, NULL, 0);
	thaw_text none = {NULL, 0};
	int action;
	IS(thaw_cache_open(NULL, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_close(NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_fd(NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_next(NULL, NULL) == THAW_CACHE_NULL && thaw_cache_next(cache, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_event_free(NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_ask(NULL, &asked, &other) == THAW_CACHE_NULL && !other);
	IS(thaw_cache_ask(cache, NULL, &other) == THAW_CACHE_NULL && !other);
	IS(thaw_cache_ask(cache, &asked, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_action(NULL, &action) == THAW_CACHE_NULL && thaw_cache_action(exchange, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_head(NULL, NULL) == THAW_CACHE_NULL && thaw_cache_head(exchange, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_forward(NULL, NULL) == THAW_CACHE_NULL && thaw_cache_forward(exchange, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_refresh(NULL, 1, &other) == THAW_CACHE_NULL && thaw_cache_refresh(exchange, 1, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_respond(NULL, &came, &action) == THAW_CACHE_NULL);
	IS(thaw_cache_respond(exchange, NULL, &action) == THAW_CACHE_NULL);
	IS(thaw_cache_respond(exchange, &came, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_failed(NULL, &action) == THAW_CACHE_NULL && thaw_cache_failed(exchange, NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_read(NULL, 1) == THAW_CACHE_NULL);
	IS(thaw_cache_write(NULL, "", 0) == THAW_CACHE_NULL && thaw_cache_write(exchange, NULL, 1) == THAW_CACHE_NULL);
	IS(thaw_cache_finish(NULL, NULL, 0) == THAW_CACHE_NULL && thaw_cache_finish(exchange, NULL, 1) == THAW_CACHE_NULL);
	IS(thaw_cache_abort(NULL) == THAW_CACHE_NULL);
	IS(thaw_cache_free(NULL) == THAW_CACHE_OK);
	IS(thaw_cache_invalidate(NULL, text("http://a/"), none, 1) == THAW_CACHE_NULL);
	IS(thaw_cache_clear(NULL, 1) == THAW_CACHE_NULL && thaw_cache_clear_prefix(NULL, none, none, 1) == THAW_CACHE_NULL);
	IS(thaw_cache_flush(NULL, 1) == THAW_CACHE_NULL);
	IS(thaw_cache_get_stats(NULL, NULL) == THAW_CACHE_NULL && thaw_cache_get_stats(cache, NULL) == THAW_CACHE_NULL);
	/* Texts and lists that are not there, with a length. */
	asked.method.bytes = NULL;
	IS(thaw_cache_ask(cache, &asked, &other) == THAW_CACHE_NULL);
	asked = request("GET", "http://a/");
	asked.field_count = 1;
	IS(thaw_cache_ask(cache, &asked, &other) == THAW_CACHE_NULL && !other);
	for (int code = -20; code < 5; code++)
		IS(strlen(thaw_cache_explain(code)) > 0);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK && thaw_cache_close(cache) == THAW_CACHE_OK);
}

static void sizes(void)
{
	thaw_cache *cache = NULL;
	thaw_cache_options options;
	memset(&options, 0, sizeof options);
	for (size_t size = 0; size < sizeof options; size++) {
		options.size = size;
		IS(thaw_cache_open(&options, &cache) == THAW_CACHE_SIZE && !cache);
	}
	/* Of a newer header: what this library does not know has to be 0. */
	struct { thaw_cache_options known; uint64_t newer; } more;
	memset(&more, 0, sizeof more);
	more.known.size = sizeof more;
	more.newer = 1;
	IS(thaw_cache_open(&more.known, &cache) == THAW_CACHE_SIZE && !cache);
	more.newer = 0;
	IS(thaw_cache_open(&more.known, &cache) == THAW_CACHE_OK && cache);
	struct { thaw_cache_stats known; uint64_t newer; } stats;
	memset(&stats, 255, sizeof stats);
	IS(thaw_cache_get_stats(cache, &stats.known) == THAW_CACHE_SIZE && stats.newer == UINT64_MAX);
	stats.known.size = sizeof stats;
	IS(thaw_cache_get_stats(cache, &stats.known) == THAW_CACHE_OK && stats.known.entries == 0 && stats.newer == 0);
	IS(stats.known.size == sizeof stats && stats.known.dead == 0 && stats.known.reserved == 0);
	thaw_cache_event event;
	memset(&event, 0, sizeof event);
	IS(thaw_cache_next(cache, &event) == THAW_CACHE_SIZE && thaw_cache_event_free(&event) == THAW_CACHE_SIZE);
	IS(thaw_cache_close(cache) == THAW_CACHE_OK);
}

static void texts(void)
{
	thaw_cache *cache = in_memory();
	thaw_exchange *exchange = NULL;
	static const char *const urls[] = {"", "/a", "a", "http://", "http:///a", "http://a b/", "//a/b", "http://a/\n"};
	for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
		thaw_cache_request asked = request("GET", urls[i]);
		thaw_text all = {NULL, 0};
		IS(thaw_cache_ask(cache, &asked, &exchange) == THAW_CACHE_INVALID && !exchange);
		IS(thaw_cache_invalidate(cache, text(urls[i]), all, 1) == THAW_CACHE_INVALID);
	}
	thaw_cache_request asked = request("G T", "http://a/");
	IS(thaw_cache_ask(cache, &asked, &exchange) == THAW_CACHE_INVALID);
	asked = request("GET", "http://a/");
	asked.partition.bytes = "a\0b";
	asked.partition.length = 3;
	IS(thaw_cache_ask(cache, &asked, &exchange) == THAW_CACHE_INVALID);
	asked = request("GET", "http://a/");
	thaw_field fields[] = {field("a b", "c"), field("a", "b\r\nc: d"), field("", "a")};
	asked.field_count = 1;
	for (size_t i = 0; i < 3; i++) {
		asked.fields = &fields[i];
		IS(thaw_cache_ask(cache, &asked, &exchange) == THAW_CACHE_INVALID && !exchange);
	}
	thaw_cache_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.flags = 2;
	thaw_cache *other = NULL;
	IS(thaw_cache_open(&options, &other) == THAW_CACHE_INVALID && !other);
	options.flags = 0;
	options.name = text("a b");
	IS(thaw_cache_open(&options, &other) == THAW_CACHE_INVALID && !other);
	exchange = ask(cache, "http://a/", 1);
	next(cache);
	static const uint32_t statuses[] = {0, 99, 100, 103, 1000, 65736};
	int action;
	for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
		thaw_cache_response came = response(statuses[i], NULL, 0);
		IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_INVALID);
	}
	thaw_cache_response came = response(200, NULL, 0);
	came.sent_ms = -1;
	IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_INVALID);
	/* None of that has changed anything. */
	came.sent_ms = 0;
	IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_OK && action == THAW_CACHE_PASS);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK && thaw_cache_close(cache) == THAW_CACHE_OK);
}

static void states(void)
{
	thaw_cache *cache = in_memory();
	thaw_exchange *exchange = ask(cache, "http://a/", 1), *other = NULL;
	thaw_cache_message message;
	memset(&message, 0, sizeof message);
	message.size = sizeof message;
	thaw_cache_response came = response(200, NULL, 0);
	int action = -1;
	IS(thaw_cache_action(exchange, &action) == THAW_CACHE_OK && action == THAW_CACHE_WAIT);
	IS(thaw_cache_head(exchange, &message) == THAW_CACHE_STATE);
	IS(next(cache).action == THAW_CACHE_FORWARD);
	IS(thaw_cache_head(exchange, &message) == THAW_CACHE_STATE);
	IS(thaw_cache_read(exchange, 1) == THAW_CACHE_STATE);
	IS(thaw_cache_write(exchange, "a", 1) == THAW_CACHE_STATE);
	IS(thaw_cache_finish(exchange, NULL, 0) == THAW_CACHE_STATE);
	IS(thaw_cache_abort(exchange) == THAW_CACHE_STATE);
	IS(thaw_cache_refresh(exchange, 2, &other) == THAW_CACHE_EMPTY && !other);
	IS(thaw_cache_forward(exchange, &message) == THAW_CACHE_OK);
	IS(message.url.length == 9 && memcmp(message.url.bytes, "http://a/", 9) == 0);
	IS(message.reason.length == 8 && memcmp(message.reason.bytes, "uri-miss", 8) == 0);
	IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_OK && action == THAW_CACHE_PASS);
	IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_STATE);
	IS(thaw_cache_failed(exchange, &action) == THAW_CACHE_STATE);
	IS(thaw_cache_forward(exchange, &message) == THAW_CACHE_STATE);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
	/* What is finished cannot be written to. */
	exchange = storing(cache, "http://a/");
	IS(thaw_cache_finish(exchange, NULL, 0) == THAW_CACHE_OK);
	IS(thaw_cache_write(exchange, "a", 1) == THAW_CACHE_STATE && thaw_cache_abort(exchange) == THAW_CACHE_STATE);
	IS(next(cache).kind == THAW_CACHE_STORED);
	/* Of a cache that is closed there is nothing to be had, and all can be freed. */
	other = storing(cache, "http://b/");
	IS(thaw_cache_close(cache) == THAW_CACHE_OK);
	IS(thaw_cache_write(other, "a", 1) == THAW_CACHE_CLOSED && thaw_cache_finish(other, NULL, 0) == THAW_CACHE_CLOSED);
	IS(thaw_cache_read(exchange, 1) == THAW_CACHE_CLOSED && thaw_cache_failed(exchange, &action) == THAW_CACHE_CLOSED);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK && thaw_cache_free(other) == THAW_CACHE_OK);
}

/* Nothing comes unasked, and never more than was asked for. */
static void credit(void)
{
	thaw_cache *cache = in_memory();
	static char body[600000];
	for (size_t i = 0; i < sizeof body; i++)
		body[i] = (char)(i * 31 / 7);
	store(cache, "http://a/", body, sizeof body);
	thaw_exchange *exchange = ask(cache, "http://a/", 9);
	thaw_cache_event event = next(cache);
	IS(event.kind == THAW_CACHE_DECIDED && event.action == THAW_CACHE_SERVE && event.length == sizeof body && event.tag == 9);
	size_t had = 0, asked = 0;
	/* Whether something would come unasked is known when what was asked later has come: of another exchange. */
	store(cache, "http://b/", "b", 1);
	IS(!readable(cache) && thaw_cache_next(cache, &event) == THAW_CACHE_EMPTY);
	while (had < sizeof body) {
		size_t more = asked % 3 ? 1000 : 77777;
		asked += more;
		IS(thaw_cache_read(exchange, more) == THAW_CACHE_OK);
		size_t wanted = asked < sizeof body ? asked : sizeof body;
		while (had < wanted) {
			event = next(cache);
			IS(event.kind == THAW_CACHE_BODY && event.tag == 9 && had + event.data.length <= wanted);
			IS(memcmp(event.data.bytes, body + had, event.data.length) == 0);
			had += event.data.length;
			IS(thaw_cache_event_free(&event) == THAW_CACHE_OK && !event.data.bytes);
			IS(thaw_cache_event_free(&event) == THAW_CACHE_OK);
		}
	}
	IS(next(cache).kind == THAW_CACHE_END && !readable(cache));
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
	/* Freed in the middle, with an event that nobody took: none of it comes. */
	exchange = ask(cache, "http://a/", 10);
	IS(next(cache).action == THAW_CACHE_SERVE);
	IS(thaw_cache_read(exchange, 100000) == THAW_CACHE_OK && thaw_cache_free(exchange) == THAW_CACHE_OK);
	exchange = ask(cache, "http://b/", 11);
	event = next(cache);
	IS(event.tag == 11 && event.action == THAW_CACHE_SERVE && event.length == 1);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
	IS(!readable(cache) && thaw_cache_close(cache) == THAW_CACHE_OK);
}

static void too_large(void)
{
	thaw_cache_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.most_body = 100;
	thaw_cache *cache = NULL;
	IS(thaw_cache_open(&options, &cache) == THAW_CACHE_OK);
	char body[101] = "";
	thaw_exchange *exchange = storing(cache, "http://a/");
	IS(thaw_cache_write(exchange, body, 100) == THAW_CACHE_OK);
	IS(thaw_cache_write(exchange, body, 1) == THAW_CACHE_LARGE && thaw_cache_write(exchange, body, 1) == THAW_CACHE_LARGE);
	IS(thaw_cache_finish(exchange, NULL, 0) == THAW_CACHE_OK && next(cache).kind == THAW_CACHE_DROPPED);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
	store(cache, "http://a/", body, 100);
	/* One that says it beforehand. */
	exchange = ask(cache, "http://b/", 1);
	IS(next(cache).action == THAW_CACHE_FORWARD);
	thaw_field fields[] = {field("Cache-Control", "max-age=60"), field("Content-Length", "101")};
	thaw_cache_response came = response(200, fields, 2);
	int action;
	IS(thaw_cache_respond(exchange, &came, &action) == THAW_CACHE_OK && action == THAW_CACHE_PASS);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
	thaw_cache_stats stats;
	memset(&stats, 0, sizeof stats);
	stats.size = sizeof stats;
	IS(thaw_cache_get_stats(cache, &stats) == THAW_CACHE_OK && stats.stored == 1 && stats.dropped == 1);
	IS(thaw_cache_close(cache) == THAW_CACHE_OK);
}

/* What was asked for before something was invalidated is not stored after it. */
static void invalidated_meanwhile(void)
{
	thaw_cache *cache = in_memory();
	thaw_text all = {NULL, 0};
	for (int how = 0; how < 3; how++) {
		thaw_exchange *exchange = storing(cache, "http://a/b");
		IS(thaw_cache_write(exchange, "old", 3) == THAW_CACHE_OK);
		if (how == 0)
			IS(thaw_cache_invalidate(cache, text("http://a/b"), all, 5) == THAW_CACHE_OK);
		else if (how == 1)
			IS(thaw_cache_clear(cache, 5) == THAW_CACHE_OK);
		else
			IS(thaw_cache_clear_prefix(cache, all, text("http://a/"), 5) == THAW_CACHE_OK);
		IS(thaw_cache_finish(exchange, NULL, 0) == THAW_CACHE_OK);
		thaw_cache_event one = next(cache), two = next(cache);
		IS(one.kind != two.kind && (one.kind == THAW_CACHE_DROPPED || two.kind == THAW_CACHE_DROPPED));
		IS((one.kind == THAW_CACHE_DONE && one.done == 1 && one.tag == 5) || (two.kind == THAW_CACHE_DONE && two.tag == 5));
		IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
		exchange = ask(cache, "http://a/b", 1);
		IS(next(cache).action == THAW_CACHE_FORWARD && thaw_cache_free(exchange) == THAW_CACHE_OK);
	}
	/* Another partition's is not touched. */
	store(cache, "http://a/b", "body", 4);
	IS(thaw_cache_clear_prefix(cache, text("other"), all, 5) == THAW_CACHE_OK && next(cache).kind == THAW_CACHE_DONE);
	thaw_cache_request asked = request("GET", "http://a/b");
	asked.partition = text("other");
	thaw_exchange *exchange = NULL;
	IS(thaw_cache_ask(cache, &asked, &exchange) == THAW_CACHE_OK && next(cache).action == THAW_CACHE_FORWARD);
	IS(thaw_cache_free(exchange) == THAW_CACHE_OK);
	exchange = ask(cache, "http://a/b", 1);
	IS(next(cache).action == THAW_CACHE_SERVE && thaw_cache_free(exchange) == THAW_CACHE_OK);
	IS(thaw_cache_close(cache) == THAW_CACHE_OK);
}

/* Two that store variants of one key at once: neither is lost. And a store that is freed at once is kept. */
static void at_once(void)
{
	thaw_cache *cache = in_memory();
	static const char *const languages[] = {"de", "en", "fr", "it"};
	thaw_exchange *exchanges[4];
	thaw_field fields[] = {field("Cache-Control", "max-age=60"), field("Vary", "Accept-Language")};
	thaw_cache_response came = response(200, fields, 2);
	int action;
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 4; i++) {
			thaw_field language = field("Accept-Language", languages[i]);
			thaw_cache_request asked = request("GET", "http://a/");
			asked.fields = &language;
			asked.field_count = 1;
			IS(thaw_cache_ask(cache, &asked, &exchanges[i]) == THAW_CACHE_OK);
			thaw_cache_event event = next(cache);
			IS(event.action == (round ? THAW_CACHE_SERVE : THAW_CACHE_FORWARD) && event.length == (round ? 2u : 0u));
			if (round)
				continue;
			IS(thaw_cache_respond(exchanges[i], &came, &action) == THAW_CACHE_OK && action == THAW_CACHE_STORE);
			IS(thaw_cache_write(exchanges[i], languages[i], 2) == THAW_CACHE_OK);
		}
		for (int i = 0; i < 4; i++) {
			if (round == 0)
				IS(thaw_cache_finish(exchanges[i], NULL, 0) == THAW_CACHE_OK);
			IS(thaw_cache_free(exchanges[i]) == THAW_CACHE_OK);
		}
		/* Behind all that was finished. */
		IS(thaw_cache_flush(cache, 3) == THAW_CACHE_OK);
		thaw_cache_event event = next(cache);
		IS(event.kind == THAW_CACHE_DONE && event.done == 1 && event.tag == 3);
	}
	IS(thaw_cache_close(cache) == THAW_CACHE_OK);
}

int main(void)
{
	nulls();
	sizes();
	texts();
	states();
	credit();
	too_large();
	invalidated_meanwhile();
	at_once();
	return 0;
}
