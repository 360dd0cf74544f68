#!/usr/bin/env python3
"""Makes a Firefox profile as years of use leave it: 5,000 cookies, 10,000 entries of history, 50 tabs, three large
add-ons, 5,000 entries of form history.

usage: profile.py FIREFOX PROFILE
"""
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time
import zipfile

firefox, profile = sys.argv[1], pathlib.Path(sys.argv[2])
here = pathlib.Path(__file__).resolve().parent
chance = random.Random(1)
DAY = 86_400_000_000  # µs


def started(seconds):
    """Firefox makes its databases itself; it is given so long."""
    environment = dict(os.environ, HOME=str(profile), MOZ_HEADLESS="1", MOZ_CRASHREPORTER_DISABLE="1")
    words = [firefox, "--headless", "--no-remote", "--profile", str(profile), "about:blank"]
    program = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    program.send_signal(signal.SIGTERM)
    program.wait(60)


def rows(database, table, made):
    """Puts rows into a table of this version of Firefox: columns that it lacks are left out."""
    store = sqlite3.connect(profile / database)
    has = [row[1] for row in store.execute(f"pragma table_info({table})")]
    for row in made:
        columns = [name for name in row if name in has]
        marks = ", ".join("?" * len(columns))
        store.execute(f"insert into {table} ({', '.join(columns)}) values ({marks})", [row[name] for name in columns])
    store.commit()
    store.close()


def guid():
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", k=12))


profile.mkdir(parents=True)
(profile / "user.js").write_text(
    'user_pref("browser.startup.page", 3);\n'
    'user_pref("browser.sessionstore.restore_on_demand", true);\n'
    'user_pref("xpinstall.signatures.required", false);\n'
    'user_pref("extensions.autoDisableScopes", 0);\n'
    'user_pref("browser.aboutwelcome.enabled", false);\n'
    'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n',
    encoding="utf-8",
)
started(20)
now = int(time.time() * 1e6)
sites = [f"site{at}.example" for at in range(1500)]

rows("cookies.sqlite", "moz_cookies", (
    {
        "name": f"cookie{at}", "value": "x" * chance.randrange(20, 300), "host": f".{chance.choice(sites)}", "path": "/",
        "expiry": now // 1000 + 400 * DAY // 1000, "lastAccessed": now - at * 1000, "creationTime": now - at * 1000 - 1,
        "updateTime": now - at * 1000, "isSecure": 1, "isHttpOnly": at % 2, "sameSite": 0, "schemeMap": 2,
        "originAttributes": "",
    }
    for at in range(5000)
))

store = sqlite3.connect(profile / "places.sqlite")
first = store.execute("select coalesce(max(id), 0) from moz_places").fetchone()[0] + 1
origin = store.execute("select coalesce(max(id), 0) from moz_origins").fetchone()[0] + 1
store.close()
rows("places.sqlite", "moz_origins", (
    {"id": origin + at, "prefix": "https://", "host": site, "frecency": 100} for at, site in enumerate(sites)
))
pages = [(first + at, chance.randrange(len(sites))) for at in range(10_000)]
rows("places.sqlite", "moz_places", (
    {
        "id": page, "url": f"https://{sites[site]}/page/{page}", "title": f"Page {page} of site {site}",
        "rev_host": sites[site][::-1] + ".", "visit_count": 1, "hidden": 0, "typed": 0, "frecency": 100,
        "last_visit_date": now - page * 60_000_000, "guid": guid(), "url_hash": page, "origin_id": origin + site,
        "foreign_count": 0, "recalc_frecency": 0,
    }
    for page, site in pages
))
rows("places.sqlite", "moz_historyvisits", (
    {"place_id": page, "visit_date": now - page * 60_000_000, "visit_type": 1, "from_visit": 0, "session": 0, "source": 0}
    for page, _ in pages
))
# Firefox makes these tables only when a form is filled in: FormHistory.sys.mjs, schema 5.
store = sqlite3.connect(profile / "formhistory.sqlite")
store.executescript("""
    create table if not exists moz_formhistory (id INTEGER PRIMARY KEY, fieldname TEXT NOT NULL, value TEXT NOT NULL,
        timesUsed INTEGER, firstUsed INTEGER, lastUsed INTEGER, guid TEXT);
    create table if not exists moz_deleted_formhistory (id INTEGER PRIMARY KEY, timeDeleted INTEGER, guid TEXT);
    create table if not exists moz_sources (id INTEGER PRIMARY KEY, source TEXT NOT NULL);
    create table if not exists moz_history_to_sources (history_id INTEGER, source_id INTEGER,
        PRIMARY KEY (history_id, source_id), FOREIGN KEY (history_id) REFERENCES moz_formhistory(id) ON DELETE CASCADE,
        FOREIGN KEY (source_id) REFERENCES moz_sources(id) ON DELETE CASCADE) WITHOUT ROWID;
    create index if not exists moz_formhistory_index on moz_formhistory(fieldname);
    create index if not exists moz_formhistory_lastused_index on moz_formhistory(lastUsed);
    create index if not exists moz_formhistory_guid_index on moz_formhistory(guid);
    pragma user_version = 5;
""")
store.close()
rows("formhistory.sqlite", "moz_formhistory", (
    {
        "fieldname": f"field{at % 200}", "value": f"what was typed {at}", "timesUsed": 3, "firstUsed": now - DAY,
        "lastUsed": now, "guid": guid() + guid()[:4],
    }
    for at in range(5000)
))

# Three add-ons of some megabytes, each with a script in the background and one in every page.
(profile / "extensions").mkdir(exist_ok=True)
for number in range(3):
    name = f"addon{number}@thaw.example"
    manifest = (
        f'{{"manifest_version": 2, "name": "Add-on {number}", "version": "1.0", '
        f'"browser_specific_settings": {{"gecko": {{"id": "{name}"}}}}, '
        '"background": {"scripts": ["background.js"]}, "permissions": ["storage", "tabs", "<all_urls>"], '
        '"content_scripts": [{"matches": ["<all_urls>"], "js": ["content.js"]}]}'
    )
    table = ",\n".join(f'"rule{at}": "{"%08x" % chance.getrandbits(32)}"' for at in range(60_000))
    with zipfile.ZipFile(profile / "extensions" / f"{name}.xpi", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", manifest)
        archive.writestr("background.js", f"const rules = {{{table}}};\nconst keys = Object.keys(rules).sort();\n")
        archive.writestr("content.js", "document.documentElement.dataset.addon = '1';\n")
        archive.writestr("data.bin", chance.randbytes(3_000_000))

# It takes the add-ons in, and makes its caches.
started(20)
# The session last: a start writes its own.
keep = (profile / "user.js").read_text(encoding="utf-8")
subprocess.run([sys.executable, here.parent / "sweep" / "session.py", "50", str(profile)], check=True)
(profile / "user.js").write_text(keep, encoding="utf-8")
for left in ("sessionstore-backups",):
    if (profile / left).exists():
        for file in (profile / left).iterdir():
            file.unlink()
counted = {
    "cookies": ("cookies.sqlite", "moz_cookies"), "history": ("places.sqlite", "moz_places"),
    "form history": ("formhistory.sqlite", "moz_formhistory"),
}
for what, (database, table) in counted.items():
    count = sqlite3.connect(profile / database).execute(f"select count(*) from {table}").fetchone()[0]
    print(f"{what}: {count}")
active = (profile / "extensions.json").read_text(encoding="utf-8")
print("add-ons taken in:", sum(f"addon{number}@thaw.example" in active for number in range(3)))
