/* The cache as an addon for Node: its functions, and one call-back for its events, from Node's own loop.
 *
 *     cc -shared -fPIC -I ../include -I NODE/include/node addon.c -lthaw_cache -o thaw_cache.node
 *
 *     open(directory, onEvent) -> cache          onEvent(tag, kind, action, bytes)
 *     ask(cache, method, url, fields, tag) -> exchange      fields: [name, value, name, value, ...]
 *     forward(exchange) -> {method, url, fields}            head(exchange) -> {status, fields}
 *     respond(exchange, status, fields) -> action           failed(exchange) -> action
 *     read(exchange, bytes)  write(exchange, buffer)  finish(exchange)  free(exchange)  close(cache)
 */
#define NAPI_VERSION 8
#include "thaw_cache.h"
#include <node_api.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define MOST 8
#define MOST_FIELDS 256

struct cache {
	thaw_cache *cache;
	napi_env env;
	napi_ref listener;
	uv_poll_t poll;
};

static napi_value fail(napi_env env, const char *what)
{
	napi_throw_error(env, NULL, what);
	return NULL;
}

#define CHECK(call) \
	do { \
		int code_ = (call); \
		if (code_ < 0) \
			return fail(env, thaw_cache_explain(code_)); \
	} while (0)

static int arguments(napi_env env, napi_callback_info info, size_t wanted, napi_value *values)
{
	size_t count = MOST;
	if (napi_get_cb_info(env, info, &count, values, NULL, NULL) == napi_ok && count >= wanted)
		return 1;
	fail(env, "too few arguments");
	return 0;
}

/* NULL where it is none: the cache's functions say so. */
static void *handle(napi_env env, napi_value value)
{
	void *handle = NULL;
	return napi_get_value_external(env, value, &handle) == napi_ok ? handle : NULL;
}

/* A text, to be freed. */
static thaw_text text(napi_env env, napi_value value)
{
	thaw_text text = {NULL, 0};
	size_t length = 0;
	char *bytes;
	if (napi_get_value_string_utf8(env, value, NULL, 0, &length) == napi_ok && (bytes = malloc(length + 1))) {
		napi_get_value_string_utf8(env, value, bytes, length + 1, &length);
		text.bytes = bytes;
		text.length = length;
	}
	return text;
}

/* Fields, to be freed with free_fields. */
static size_t fields(napi_env env, napi_value value, thaw_field *list)
{
	uint32_t length = 0;
	napi_value item;
	napi_get_array_length(env, value, &length);
	size_t count = length / 2 < MOST_FIELDS ? length / 2 : MOST_FIELDS;
	for (size_t i = 0; i < count; i++) {
		napi_get_element(env, value, (uint32_t)(2 * i), &item);
		list[i].name = text(env, item);
		napi_get_element(env, value, (uint32_t)(2 * i + 1), &item);
		list[i].value = text(env, item);
	}
	return count;
}

static void free_fields(thaw_field *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		free((void *)(uintptr_t)list[i].name.bytes);
		free((void *)(uintptr_t)list[i].value.bytes);
	}
}

static napi_value string(napi_env env, thaw_text of)
{
	napi_value value = NULL;
	napi_create_string_utf8(env, of.length ? of.bytes : "", of.length, &value);
	return value;
}

static napi_value number(napi_env env, int64_t of)
{
	napi_value value = NULL;
	napi_create_int64(env, of, &value);
	return value;
}

/* All events that wait, in the loop's own thread. */
static void ready(uv_poll_t *poll, int status, int events)
{
	struct cache *cache = poll->data;
	napi_env env = cache->env;
	napi_handle_scope scope;
	(void)status;
	(void)events;
	napi_open_handle_scope(env, &scope);
	thaw_cache_event event;
	memset(&event, 0, sizeof event);
	event.size = sizeof event;
	while (cache->cache && thaw_cache_next(cache->cache, &event) == THAW_CACHE_OK) {
		napi_value listener, self, values[4];
		napi_get_reference_value(env, cache->listener, &listener);
		napi_get_undefined(env, &self);
		values[0] = number(env, (int64_t)event.tag);
		values[1] = number(env, event.kind);
		values[2] = number(env, event.action);
		napi_create_buffer_copy(env, event.data.length, event.data.bytes, NULL, &values[3]);
		thaw_cache_event_free(&event);
		if (napi_call_function(env, self, listener, 4, values, NULL) == napi_pending_exception) {
			napi_value thrown;
			napi_get_and_clear_last_exception(env, &thrown);
			napi_fatal_exception(env, thrown);
		}
	}
	napi_close_handle_scope(env, scope);
}

static napi_value open_cache(napi_env env, napi_callback_info info)
{
	napi_value values[MOST], result;
	if (!arguments(env, info, 2, values))
		return NULL;
	struct cache *cache = calloc(1, sizeof *cache);
	if (!cache)
		return fail(env, "no memory");
	thaw_cache_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.directory = text(env, values[0]);
	int code = thaw_cache_open(&options, &cache->cache);
	free((void *)(uintptr_t)options.directory.bytes);
	if (code < 0) {
		free(cache);
		return fail(env, thaw_cache_explain(code));
	}
	uv_loop_t *loop;
	cache->env = env;
	napi_create_reference(env, values[1], 1, &cache->listener);
	napi_get_uv_event_loop(env, &loop);
	uv_poll_init(loop, &cache->poll, thaw_cache_fd(cache->cache));
	cache->poll.data = cache;
	uv_poll_start(&cache->poll, UV_READABLE, ready);
	napi_create_external(env, cache, NULL, NULL, &result);
	return result;
}

static void closed(uv_handle_t *poll)
{
	free(poll->data);
}

static napi_value close_cache(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	struct cache *cache = arguments(env, info, 1, values) ? handle(env, values[0]) : NULL;
	if (!cache || !cache->cache)
		return NULL;
	uv_poll_stop(&cache->poll);
	CHECK(thaw_cache_close(cache->cache));
	cache->cache = NULL;
	napi_delete_reference(env, cache->listener);
	uv_close((uv_handle_t *)&cache->poll, closed);
	return NULL;
}

static napi_value ask(napi_env env, napi_callback_info info)
{
	napi_value values[MOST], result;
	struct cache *cache = arguments(env, info, 5, values) ? handle(env, values[0]) : NULL;
	if (!cache)
		return NULL;
	thaw_field list[MOST_FIELDS];
	thaw_cache_request request;
	memset(&request, 0, sizeof request);
	request.size = sizeof request;
	request.method = text(env, values[1]);
	request.url = text(env, values[2]);
	request.fields = list;
	request.field_count = fields(env, values[3], list);
	int64_t tag = 0;
	napi_get_value_int64(env, values[4], &tag);
	request.tag = (uint64_t)tag;
	thaw_exchange *exchange = NULL;
	int code = thaw_cache_ask(cache->cache, &request, &exchange);
	free((void *)(uintptr_t)request.method.bytes);
	free((void *)(uintptr_t)request.url.bytes);
	free_fields(list, request.field_count);
	CHECK(code);
	napi_create_external(env, exchange, NULL, NULL, &result);
	return result;
}

static napi_value message(napi_env env, napi_callback_info info, int (*of)(thaw_exchange *, thaw_cache_message *))
{
	napi_value values[MOST], result, list;
	if (!arguments(env, info, 1, values))
		return NULL;
	thaw_cache_message message;
	memset(&message, 0, sizeof message);
	message.size = sizeof message;
	CHECK(of(handle(env, values[0]), &message));
	napi_create_object(env, &result);
	napi_create_array(env, &list);
	for (size_t i = 0; i < message.field_count; i++) {
		napi_set_element(env, list, (uint32_t)(2 * i), string(env, message.fields[i].name));
		napi_set_element(env, list, (uint32_t)(2 * i + 1), string(env, message.fields[i].value));
	}
	napi_set_named_property(env, result, "method", string(env, message.method));
	napi_set_named_property(env, result, "url", string(env, message.url));
	napi_set_named_property(env, result, "status", number(env, message.status));
	napi_set_named_property(env, result, "fields", list);
	return result;
}

static napi_value forward(napi_env env, napi_callback_info info)
{
	return message(env, info, thaw_cache_forward);
}

static napi_value head(napi_env env, napi_callback_info info)
{
	return message(env, info, thaw_cache_head);
}

static napi_value respond(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	if (!arguments(env, info, 3, values))
		return NULL;
	thaw_field list[MOST_FIELDS];
	thaw_cache_response response;
	memset(&response, 0, sizeof response);
	response.size = sizeof response;
	napi_get_value_uint32(env, values[1], &response.status);
	response.fields = list;
	response.field_count = fields(env, values[2], list);
	int action = 0, code = thaw_cache_respond(handle(env, values[0]), &response, &action);
	free_fields(list, response.field_count);
	CHECK(code);
	return number(env, action);
}

static napi_value failed(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	int action = 0;
	if (!arguments(env, info, 1, values))
		return NULL;
	CHECK(thaw_cache_failed(handle(env, values[0]), &action));
	return number(env, action);
}

static napi_value read_body(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	int64_t bytes = 0;
	if (!arguments(env, info, 2, values))
		return NULL;
	napi_get_value_int64(env, values[1], &bytes);
	CHECK(thaw_cache_read(handle(env, values[0]), (uint64_t)bytes));
	return NULL;
}

static napi_value write_body(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	void *bytes = NULL;
	size_t length = 0;
	if (!arguments(env, info, 2, values))
		return NULL;
	if (napi_get_buffer_info(env, values[1], &bytes, &length) != napi_ok)
		return fail(env, "no buffer");
	CHECK(thaw_cache_write(handle(env, values[0]), bytes, length));
	return NULL;
}

static napi_value finish(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	if (!arguments(env, info, 1, values))
		return NULL;
	CHECK(thaw_cache_finish(handle(env, values[0]), NULL, 0));
	return NULL;
}

static napi_value free_exchange(napi_env env, napi_callback_info info)
{
	napi_value values[MOST];
	if (arguments(env, info, 1, values))
		thaw_cache_free(handle(env, values[0]));
	return NULL;
}

NAPI_MODULE_INIT()
{
	static const struct {
		const char *name;
		napi_callback function;
	} all[] = {{"open", open_cache}, {"close", close_cache}, {"ask", ask}, {"forward", forward}, {"head", head},
		{"respond", respond}, {"failed", failed}, {"read", read_body}, {"write", write_body}, {"finish", finish},
		{"free", free_exchange}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		napi_value function;
		napi_create_function(env, all[i].name, NAPI_AUTO_LENGTH, all[i].function, NULL, &function);
		napi_set_named_property(env, exports, all[i].name, function);
	}
	return exports;
}
