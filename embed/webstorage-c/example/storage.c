/* A program with local storage, in C99 or C++17: it opens a storage, waits for its event loop, sets and reads keys, and flushes.
 *
 *     cc -std=c99 storage.c -I ../include -lthaw_webstorage_c -o storage
 *     ./storage DIRECTORY              prints how often it has been started here
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "thaw_webstorage.h"

/* Ends the program where something cannot be. */
static int failed(const char *what, int code)
{
	fprintf(stderr, "%s: %s\n", what, thaw_webstorage_explain(code));
	return 1;
}

/* Text of one byte a letter as units. */
static size_t units(const char *text, uint16_t *to)
{
	size_t length = strlen(text);
	for (size_t i = 0; i < length; i++)
		to[i] = (unsigned char)text[i];
	return length;
}

/* What a program does in its event loop: waits for the descriptor, then takes all events. */
static int wait_for(thaw_webstorage *storage, int wanted, uint64_t ticket)
{
	for (;;) {
		struct pollfd polled;
		polled.fd = thaw_webstorage_fd(storage);
		polled.events = POLLIN;
		polled.revents = 0;
		poll(&polled, 1, -1);
		thaw_webstorage_event *event = NULL;
		int found = 0;
		while (thaw_webstorage_next(storage, &event) == THAW_WEBSTORAGE_OK) {
			uint64_t of = 0;
			int kind = thaw_webstorage_event_kind(event, &of);
			if (kind == THAW_WEBSTORAGE_LOAD_FAILED || kind == THAW_WEBSTORAGE_TROUBLE) {
				const char *text;
				size_t length;
				thaw_webstorage_event_text(event, NULL, NULL, NULL, NULL, &text, &length);
				fprintf(stderr, "%.*s\n", (int)length, text);
				found = -1;
			}
			if (kind == wanted && of == ticket)
				found = 1;
			thaw_webstorage_event_free(event);
		}
		if (found)
			return found;
	}
}

int main(int argc, char **argv)
{
	thaw_webstorage_options options;
	thaw_webstorage *storage = NULL;
	thaw_area *area = NULL;
	uint16_t key[16], value[32];
	size_t key_length = units("starts", key), length = 0;
	int code;

	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.directory = argc > 1 ? argv[1] : NULL;
	code = thaw_webstorage_open(&options, &storage);
	if (code != THAW_WEBSTORAGE_OK)
		return failed("open", code);
	code = thaw_webstorage_area(storage, NULL, "https://example.org", 1, &area);
	if (code != THAW_WEBSTORAGE_OK)
		return failed("area", code);
	if (wait_for(storage, THAW_WEBSTORAGE_LOADED, 0) < 0)
		return 1;

	/* As the page would: a number in a text, one more. */
	unsigned starts = 0;
	code = thaw_area_get(area, key, key_length, value, 32, &length);
	if (code == THAW_WEBSTORAGE_OK) {
		for (size_t i = 0; i < length; i++)
			starts = starts * 10 + (value[i] - '0');
	} else if (code != THAW_WEBSTORAGE_EMPTY) {
		return failed("get", code);
	}
	char text[32];
	snprintf(text, sizeof text, "%u", starts + 1);
	code = thaw_area_set(area, key, key_length, value, units(text, value));
	if (code != THAW_WEBSTORAGE_OK)
		return failed("set", code);
	printf("started %s times\n", text);

	/* It survives a power cut from here on. */
	uint64_t ticket = 0;
	thaw_webstorage_flush(storage, &ticket);
	if (wait_for(storage, THAW_WEBSTORAGE_FLUSHED, ticket) < 0)
		return 1;
	thaw_area_free(area);
	code = thaw_webstorage_close(storage);
	return code == THAW_WEBSTORAGE_OK ? 0 : failed("close", code);
}
