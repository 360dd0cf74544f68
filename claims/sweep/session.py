#!/usr/bin/env python3
"""Gives a Firefox profile a session of so many tabs, each with five entries, that is restored at its next start.

usage: session.py TABS PROFILE
"""
import json
import os
import sys

TRIANGLE = "{\"3\":{}}"  # the principal that may load anything


def entry(tab, step):
    """An entry of a tab's history as Firefox saves it."""
    return {
        "url": f"https://site{tab}.example/page/{step}?from=session",
        "title": f"Page {step} of tab {tab}, with a title of usual length",
        "cacheKey": 0,
        "ID": tab * 100 + step + 1,
        "docshellUUID": f"{{{tab:08x}-0000-4000-8000-{step:012x}}}",
        "triggeringPrincipal_base64": TRIANGLE,
        "hasUserInteraction": True,
        "docIdentifier": tab * 100 + step + 1,
        "scroll": "0,1200",
    }


def packed(text):
    """mozLz4: a magic, the size, and an LZ4 block; this one is a single run of literals."""
    block = bytearray([0xF0])
    left = len(text) - 15
    while left >= 255:
        block.append(255)
        left -= 255
    block.append(left)
    return b"mozLz40\0" + len(text).to_bytes(4, "little") + bytes(block) + text


tabs, profile = int(sys.argv[1]), sys.argv[2]
session = {
    "version": ["sessionrestore", 1],
    "windows": [
        {
            "tabs": [
                {
                    "entries": [entry(tab, step) for step in range(5)],
                    "lastAccessed": 1760000000000 + tab,
                    "hidden": False,
                    "index": 5,
                    "userContextId": 0,
                    "attributes": {},
                    "formdata": {"id": {"search": f"what was typed in tab {tab}"}},
                }
                for tab in range(tabs)
            ],
            "selected": 1,
            "_closedTabs": [],
            "width": 1200,
            "height": 800,
        }
    ],
    "selectedWindow": 1,
    "_closedWindows": [],
    "session": {"lastUpdate": 1760000000000, "startTime": 1760000000000, "recentCrashes": 0},
    "global": {},
}
os.makedirs(profile, exist_ok=True)
with open(os.path.join(profile, "user.js"), "w", encoding="utf-8") as prefs:
    prefs.write('user_pref("browser.startup.page", 3);\n')
    prefs.write('user_pref("browser.sessionstore.restore_on_demand", true);\n')
with open(os.path.join(profile, "sessionstore.jsonlz4"), "wb") as out:
    out.write(packed(json.dumps(session).encode()))
