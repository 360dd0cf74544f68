/* Calls of thaw_webstorage.h at their edges: NULL, sizes, kinds, lengths, what is closed. Ends with 0 if all is as it says. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thaw_webstorage.h"

#define IS(what) do { if (!(what)) { fprintf(stderr, "%d: %s\n", __LINE__, #what); exit(1); } } while (0)

static thaw_webstorage *opened(const char *directory, uint64_t quota)
{
	thaw_webstorage_options options;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.directory = directory;
	options.quota = quota;
	thaw_webstorage *storage = NULL;
	IS(thaw_webstorage_open(&options, &storage) == THAW_WEBSTORAGE_OK && storage);
	return storage;
}

static void nulls(void)
{
	thaw_webstorage *storage = opened(NULL, 0);
	thaw_area *area = NULL;
	uint64_t number;
	size_t length;
	uint16_t unit;
	uint8_t byte;
	const uint16_t *units;
	const uint8_t *bytes;
	IS(thaw_webstorage_open(NULL, &storage) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_close(NULL) == THAW_WEBSTORAGE_NULL && thaw_webstorage_fd(NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_next(NULL, NULL) == THAW_WEBSTORAGE_NULL && thaw_webstorage_next(storage, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_event_free(NULL) == THAW_WEBSTORAGE_OK && thaw_area_free(NULL) == THAW_WEBSTORAGE_OK);
	IS(thaw_webstorage_event_kind(NULL, &number) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_event_text(NULL, NULL, NULL, NULL, NULL, NULL, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_event_units(NULL, 0, &units, &length) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_event_bytes(NULL, 0, &bytes, &length) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_flush(NULL, &number) == THAW_WEBSTORAGE_NULL && thaw_webstorage_flush(storage, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_get_stats(storage, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_area(NULL, NULL, "a", 0, &area) == THAW_WEBSTORAGE_NULL && !area);
	IS(thaw_webstorage_area(storage, NULL, NULL, 0, &area) == THAW_WEBSTORAGE_NULL && !area);
	IS(thaw_webstorage_area(storage, NULL, "a", 0, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_table(storage, NULL, NULL, 0, &area) == THAW_WEBSTORAGE_NULL && !area);
	IS(thaw_area_session(NULL, NULL, 0, &area) == THAW_WEBSTORAGE_NULL && thaw_area_copy(NULL, &area) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_loaded(NULL) == THAW_WEBSTORAGE_NULL && thaw_area_wait(NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_count(NULL, &length) == THAW_WEBSTORAGE_NULL && thaw_area_used(NULL, &number) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_clear(NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_get(NULL, &unit, 0, &unit, 1, &length) == THAW_WEBSTORAGE_NULL);
	IS(thaw_table_key(NULL, 0, &byte, 1, &length) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_area(storage, NULL, "https://a.example", 0, &area) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_set(area, NULL, 1, NULL, 0) == THAW_WEBSTORAGE_NULL && thaw_area_set(area, NULL, 0, NULL, 1) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_set(area, NULL, 0, NULL, 0) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_get(area, NULL, 0, NULL, 0, &length) == THAW_WEBSTORAGE_OK && length == 0);
	IS(thaw_area_get(area, NULL, 0, NULL, 1, &length) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_get(area, NULL, 0, NULL, 0, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_area_count(area, NULL) == THAW_WEBSTORAGE_NULL && thaw_area_copy(area, NULL) == THAW_WEBSTORAGE_NULL);
	IS(thaw_webstorage_area(storage, NULL, "", 0, &area) == THAW_WEBSTORAGE_INVALID);
	IS(thaw_webstorage_area(storage, "\xff", "a", 0, &area) == THAW_WEBSTORAGE_INVALID);
	IS(thaw_area_free(area) == THAW_WEBSTORAGE_OK && thaw_webstorage_close(storage) == THAW_WEBSTORAGE_OK);
	for (int code = -20; code < 5; code++)
		IS(strlen(thaw_webstorage_explain(code)) > 0);
}

static void sizes(void)
{
	thaw_webstorage *storage = NULL;
	thaw_webstorage_options options;
	memset(&options, 0, sizeof options);
	for (size_t size = 0; size < sizeof options; size++) {
		options.size = size;
		IS(thaw_webstorage_open(&options, &storage) == THAW_WEBSTORAGE_SIZE && !storage);
	}
	options.size = sizeof options;
	options.write_ms = UINT64_MAX;
	IS(thaw_webstorage_open(&options, &storage) == THAW_WEBSTORAGE_INVALID && !storage);
	storage = opened(NULL, 0);
	thaw_webstorage_stats stats;
	stats.size = 1;
	IS(thaw_webstorage_get_stats(storage, &stats) == THAW_WEBSTORAGE_SIZE);
	stats.size = sizeof stats;
	IS(thaw_webstorage_get_stats(storage, &stats) == THAW_WEBSTORAGE_OK && stats.areas == 0 && stats.size == sizeof stats);
	IS(thaw_webstorage_close(storage) == THAW_WEBSTORAGE_OK);
}

static void values(void)
{
	static const uint16_t lone[] = {0xD800, 0, 'x', 0xDFFF};
	uint16_t to[8];
	size_t length = 0;
	uint64_t used = 0;
	thaw_area *area = NULL, *copy = NULL, *table = NULL;
	thaw_webstorage *storage = opened(NULL, 64);
	IS(thaw_webstorage_area(storage, "https://top.example", "https://a.example", 0, &area) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_loaded(area) == THAW_WEBSTORAGE_OK && thaw_area_wait(area) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_set(area, lone, 4, lone, 3) == THAW_WEBSTORAGE_OK);
	memset(to, 0xEE, sizeof to);
	IS(thaw_area_get(area, lone, 4, to, 2, &length) == THAW_WEBSTORAGE_SHORT && length == 3);
	IS(to[0] == 0xD800 && to[1] == 0 && to[2] == 0xEEEE);
	IS(thaw_area_get(area, lone, 4, to, 8, &length) == THAW_WEBSTORAGE_OK && memcmp(to, lone, 6) == 0 && to[3] == 0xEEEE);
	IS(thaw_area_key(area, 0, to, 8, &length) == THAW_WEBSTORAGE_OK && length == 4 && memcmp(to, lone, 8) == 0);
	IS(thaw_area_key(area, 1, to, 8, &length) == THAW_WEBSTORAGE_EMPTY);
	IS(thaw_area_used(area, &used) == THAW_WEBSTORAGE_OK && used == 14);
	uint16_t many[64];
	memset(many, 'm', sizeof many);
	IS(thaw_area_set(area, lone, 4, many, 64) == THAW_WEBSTORAGE_QUOTA);
	IS(thaw_area_get(area, lone, 4, to, 8, &length) == THAW_WEBSTORAGE_OK && length == 3);
	IS(thaw_area_copy(area, &copy) == THAW_WEBSTORAGE_OK && thaw_area_clear(area) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_count(area, &length) == THAW_WEBSTORAGE_OK && length == 0);
	IS(thaw_area_count(copy, &length) == THAW_WEBSTORAGE_OK && length == 1);
	IS(thaw_area_remove(copy, lone, 4) == THAW_WEBSTORAGE_OK && thaw_area_get(copy, lone, 4, to, 8, &length) == THAW_WEBSTORAGE_EMPTY);
	uint8_t byte = 255;
	IS(thaw_table_set(area, &byte, 1, &byte, 1) == THAW_WEBSTORAGE_KIND);
	IS(thaw_webstorage_table(storage, NULL, "settings", 0, &table) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_set(table, lone, 1, lone, 1) == THAW_WEBSTORAGE_KIND);
	IS(thaw_table_set(table, &byte, 1, NULL, 0) == THAW_WEBSTORAGE_OK && thaw_table_get(table, &byte, 1, &byte, 1, &length) == THAW_WEBSTORAGE_OK);
	IS(length == 0 && thaw_table_key(table, 0, &byte, 1, &length) == THAW_WEBSTORAGE_OK && length == 1 && byte == 255);
	IS(thaw_table_remove(table, &byte, 1) == THAW_WEBSTORAGE_OK && thaw_table_key(table, 0, &byte, 1, &length) == THAW_WEBSTORAGE_EMPTY);
	IS(thaw_area_free(area) == THAW_WEBSTORAGE_OK && thaw_area_free(copy) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_free(table) == THAW_WEBSTORAGE_OK && thaw_webstorage_close(storage) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_session("p", "https://a.example", 0, &area) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_set(area, lone, 4, many, 64) == THAW_WEBSTORAGE_OK && thaw_area_free(area) == THAW_WEBSTORAGE_OK);
}

/* Another storage's changes, as those of another process; and an area that outlives its storage. */
static void changes(const char *directory)
{
	static const uint16_t key[] = {'k'}, value[] = {0x20AC};
	thaw_webstorage *one = opened(directory, 0), *two = opened(directory, 0);
	thaw_area *mine = NULL, *its = NULL;
	IS(thaw_webstorage_area(one, NULL, "https://a.example", 1, &mine) == THAW_WEBSTORAGE_OK);
	IS(thaw_webstorage_area(two, NULL, "https://a.example", 1, &its) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_wait(mine) == THAW_WEBSTORAGE_OK && thaw_area_wait(its) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_set(mine, key, 1, value, 1) == THAW_WEBSTORAGE_OK);
	thaw_webstorage_event *event = NULL;
	int kind = 0;
	while (kind != THAW_WEBSTORAGE_CHANGED) {
		thaw_webstorage_event_free(event);
		event = NULL;
		while (thaw_webstorage_next(two, &event) == THAW_WEBSTORAGE_EMPTY) {
			struct pollfd polled = {thaw_webstorage_fd(two), POLLIN, 0};
			poll(&polled, 1, -1);
		}
		kind = thaw_webstorage_event_kind(event, NULL);
	}
	const uint16_t *units = NULL;
	const uint8_t *bytes = NULL;
	const char *origin = NULL;
	size_t length = 0;
	IS(thaw_webstorage_event_units(event, THAW_WEBSTORAGE_KEY, &units, &length) == THAW_WEBSTORAGE_OK && length == 1 && units[0] == 'k');
	IS(thaw_webstorage_event_units(event, THAW_WEBSTORAGE_OLD, &units, &length) == THAW_WEBSTORAGE_EMPTY);
	IS(thaw_webstorage_event_units(event, THAW_WEBSTORAGE_NEW, &units, &length) == THAW_WEBSTORAGE_OK && units[0] == 0x20AC);
	IS(thaw_webstorage_event_units(event, 3, &units, &length) == THAW_WEBSTORAGE_INVALID);
	IS(thaw_webstorage_event_bytes(event, THAW_WEBSTORAGE_KEY, &bytes, &length) == THAW_WEBSTORAGE_KIND);
	IS(thaw_webstorage_event_text(event, &origin, &length, NULL, NULL, NULL, NULL) == THAW_WEBSTORAGE_OK);
	IS(length == 17 && memcmp(origin, "https://a.example", 17) == 0);
	IS(thaw_webstorage_event_free(event) == THAW_WEBSTORAGE_OK);
	IS(thaw_webstorage_close(two) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_set(its, key, 1, key, 1) == THAW_WEBSTORAGE_CLOSED && thaw_area_free(its) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_free(mine) == THAW_WEBSTORAGE_OK && thaw_webstorage_close(one) == THAW_WEBSTORAGE_OK);
}

/* Changes that nobody takes: as many as may wait, then one event for all. */
static void missed(const char *directory)
{
	static const uint16_t key[] = {'m'};
	uint16_t value = 0;
	thaw_webstorage_options options;
	thaw_webstorage *one = opened(directory, 0), *two = NULL;
	thaw_area *mine = NULL, *its = NULL, *other = NULL;
	memset(&options, 0, sizeof options);
	options.size = sizeof options;
	options.directory = directory;
	options.changes = 2;
	IS(thaw_webstorage_open(&options, &two) == THAW_WEBSTORAGE_OK);
	IS(thaw_webstorage_area(one, NULL, "https://m.example", 1, &mine) == THAW_WEBSTORAGE_OK);
	IS(thaw_webstorage_area(two, NULL, "https://m.example", 1, &its) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_wait(mine) == THAW_WEBSTORAGE_OK && thaw_area_wait(its) == THAW_WEBSTORAGE_OK);
	for (value = 1; value <= 5; value++) {
		uint64_t ticket = 0;
		uint16_t had = 0;
		size_t length = 0;
		IS(thaw_area_set(mine, key, 1, &value, 1) == THAW_WEBSTORAGE_OK);
		IS(thaw_webstorage_flush(one, &ticket) == THAW_WEBSTORAGE_OK);
		while (thaw_area_get(its, key, 1, &had, 1, &length) != THAW_WEBSTORAGE_OK || had != value)
			poll(NULL, 0, 1);
	}
	/* When this is there, all before it was told. */
	IS(thaw_webstorage_area(two, NULL, "https://other.example", 1, &other) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_wait(other) == THAW_WEBSTORAGE_OK);
	thaw_webstorage_stats stats;
	memset(&stats, 0, sizeof stats);
	stats.size = sizeof stats;
	IS(thaw_webstorage_get_stats(two, &stats) == THAW_WEBSTORAGE_OK && stats.changes == 2 && stats.change_bytes > 0);
	thaw_webstorage_event *event = NULL;
	int changed = 0, all = 0;
	while (thaw_webstorage_next(two, &event) == THAW_WEBSTORAGE_OK) {
		const char *origin = NULL;
		size_t length = 0;
		int kind = thaw_webstorage_event_kind(event, NULL);
		changed += kind == THAW_WEBSTORAGE_CHANGED;
		if (kind == THAW_WEBSTORAGE_MISSED) {
			all++;
			IS(changed == 2);
			IS(thaw_webstorage_event_text(event, &origin, &length, NULL, NULL, NULL, NULL) == THAW_WEBSTORAGE_OK);
			IS(length == 17 && memcmp(origin, "https://m.example", 17) == 0);
		}
		IS(thaw_webstorage_event_free(event) == THAW_WEBSTORAGE_OK);
		event = NULL;
	}
	IS(changed == 2 && all == 1);
	IS(thaw_webstorage_get_stats(two, &stats) == THAW_WEBSTORAGE_OK && stats.changes == 0 && stats.change_bytes == 0);
	IS(thaw_area_free(mine) == THAW_WEBSTORAGE_OK && thaw_area_free(its) == THAW_WEBSTORAGE_OK);
	IS(thaw_area_free(other) == THAW_WEBSTORAGE_OK);
	IS(thaw_webstorage_close(two) == THAW_WEBSTORAGE_OK && thaw_webstorage_close(one) == THAW_WEBSTORAGE_OK);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	nulls();
	sizes();
	values();
	changes(argv[1]);
	missed(argv[1]);
	return 0;
}
