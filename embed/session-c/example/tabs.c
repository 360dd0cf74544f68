/* Opens a session, makes a window with tabs if there is none, changes a title, saves, and says what there is. C99 and C++17. */
#include "thaw_session.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

static thaw_session_text text(const char *of)
{
	thaw_session_text made;
	made.bytes = of;
	made.length = strlen(of);
	return made;
}

/* Waits for an event of a kind; its number, or -1 if it tells that something failed. */
static long wait_for(thaw_session *session, uint32_t kind)
{
	for (;;) {
		thaw_session_event event;
		struct pollfd fd;
		fd.fd = thaw_session_fd(session);
		fd.events = POLLIN;
		poll(&fd, 1, -1);
		while (thaw_session_next(session, &event) == THAW_SESSION_OK) {
			long number = event.failed ? -1 : (long)event.number;
			int found = event.kind == kind;
			if (event.kind == THAW_SESSION_BYTES)
				printf("payload %.*s\n", (int)event.text.length, event.text.bytes);
			thaw_session_event_free(&event);
			if (found)
				return number;
		}
	}
}

int main(int count, char **arguments)
{
	thaw_session *session = NULL;
	thaw_session_item item;
	thaw_session_health health;
	uint64_t window = 0, tab = 0, ids[8], ticket = 0;
	size_t tabs = 0, at;

	if (count < 2 || thaw_session_open(text(arguments[1]), text("1.0"), 0, &session) != THAW_SESSION_OK)
		return 2;
	printf("items %ld\n", wait_for(session, THAW_SESSION_READY));
	memset(&item, 0, sizeof item);
	if (thaw_session_children(session, 0, &window, 1, &tabs) != THAW_SESSION_OK)
		return 3;
	if (tabs == 0) {
		item.kind = THAW_SESSION_WINDOW;
		if (thaw_session_insert(session, &item, THAW_SESSION_LAST, 0, &window) != THAW_SESSION_OK)
			return 4;
		for (at = 0; at < 3; at++) {
			item.kind = THAW_SESSION_TAB;
			item.parent = window;
			item.flags = at == 1 ? THAW_SESSION_VISIBLE : 0;
			item.title = text("a tab");
			item.origin = text("https://a.example");
			item.payload = text("scrolled to 7");
			if (thaw_session_insert(session, &item, THAW_SESSION_FIRST, 0, &tab) != THAW_SESSION_OK)
				return 5;
		}
		item.title = text("changed");
		if (thaw_session_change(session, tab, &item, THAW_SESSION_TITLE) != THAW_SESSION_OK
		    || thaw_session_change(session, tab, &item, THAW_SESSION_TITLE) != THAW_SESSION_EMPTY
		    || thaw_session_move(session, window, tab, THAW_SESSION_LAST, 0) != THAW_SESSION_CIRCLE
		    || thaw_session_remove(session, 99) != THAW_SESSION_NO_ITEM
		    || thaw_session_insert(session, NULL, 0, 0, &tab) != THAW_SESSION_NULL
		    || thaw_session_insert(session, &item, 7, 0, &tab) != THAW_SESSION_INVALID)
			return 6;
	} else {
		wait_for(session, THAW_SESSION_LOADED);
	}
	if (thaw_session_flush(session, &ticket) != THAW_SESSION_OK || wait_for(session, THAW_SESSION_DONE) < 0)
		return 7;
	thaw_session_children(session, window, ids, 8, &tabs);
	for (at = 0; at < tabs; at++) {
		if (thaw_session_get(session, ids[at], &item) != THAW_SESSION_OK)
			return 8;
		printf("%s %.*s\n", item.flags & THAW_SESSION_VISIBLE ? "selected" : "tab", (int)item.title.length, item.title.bytes);
		thaw_session_item_free(&item);
		thaw_session_want(session, ids[at], 1);
		wait_for(session, THAW_SESSION_BYTES);
	}
	thaw_session_last_durable(session, &health);
	printf("writes %d\n", (int)health.writes);
	return thaw_session_close(session, 1) == THAW_SESSION_OK ? 0 : 9;
}
