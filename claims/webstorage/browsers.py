#!/usr/bin/env python3
"""localStorage of a real browser, by a page: sets and gets a second, the longest set, the first access of 2 MB after a
start, and what is lost when the browser is killed.

    browsers.py chromium|firefox rates|kill ROUNDS    one JSON document a line
"""
import http.server
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

RATES = """
const value = 'v'.repeat(100), keys = Array.from({length: 1000}, (_, at) => 'key number ' + at), store = localStorage;
keys.forEach(key => store.setItem(key, value));
let worst = 0, since = performance.now(), before = since;
const count = 200000;
for (let at = 0; at < count; at++) {
  store.setItem(keys[at * 7 % 1000], at + value.slice(8));
  if (at % 16 == 0) { const now = performance.now(); worst = Math.max(worst, now - before); before = now; }
}
const sets = count / (performance.now() - since) * 1000;
since = performance.now();
let length = 0;
for (let at = 0; at < count; at++) length += store.getItem(keys[at * 7 % 1000]).length;
const gets = count / (performance.now() - since) * 1000;
store.clear();
for (let at = 0; at < 1000; at++) store.setItem('key ' + at, 'x'.repeat(1000));
tell({sets, gets, longest_16_sets_ms: worst});
"""
FIRST = """
const since = performance.now(), value = localStorage.getItem('key 500');
tell({first_access_ms: performance.now() - since, right: value === 'x'.repeat(1000)});
"""
WRITES = """
let number = 0;
setInterval(() => { localStorage.setItem('number', ++number); tell({number}); }, 100);
"""
READS = "tell({number: +localStorage.getItem('number')});"
PAGES = {"/rates": RATES, "/first": FIRST, "/writes": WRITES, "/reads": READS}
TELL = "const tell = what => fetch('/told', {method: 'POST', body: JSON.stringify(what)});"
told = queue.Queue()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        script = PAGES.get(self.path)
        page = f"<!doctype html><title>{self.path}</title><script>{TELL}{script}</script>" if script else ""
        self.answer(page.encode(), "text/html")

    def do_POST(self):
        told.put(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.answer(b"", "text/plain")

    def log_message(self, *_):
        pass


def start(browser, profile, url):
    if browser == "chromium":
        words = ["chromium", "--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu", f"--user-data-dir={profile}", url]
    else:
        with open(os.path.join(profile, "user.js"), "w") as prefs:
            prefs.write('user_pref("browser.shell.checkDefaultBrowser", false);\nuser_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
                        'user_pref("browser.sessionstore.resume_from_crash", false);\nuser_pref("browser.aboutwelcome.enabled", false);\n')
        words = ["firefox", "--headless", "--no-remote", "--profile", profile, url]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)


def stop(running, how):
    try:
        if how == signal.SIGKILL:
            os.killpg(running.pid, how)
        else:
            running.send_signal(how)
        running.wait(60)
        os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def last():
    """The last that was told."""
    what = told.get(timeout=60)
    while not told.empty():
        what = told.get()
    return what


def rates(browser, site, profile):
    running = start(browser, profile, f"{site}/rates")
    result = told.get(timeout=120)
    # What was set is written within some seconds, and by the end.
    time.sleep(6)
    stop(running, signal.SIGTERM)
    running = start(browser, profile, f"{site}/first")
    result |= told.get(timeout=60)
    stop(running, signal.SIGTERM)
    return result


def kill(browser, site, profile):
    running = start(browser, profile, f"{site}/writes")
    told.get(timeout=60)
    time.sleep(14)
    stop(running, signal.SIGKILL)
    time.sleep(0.2)
    written = last()["number"]
    for lock in ("SingletonLock", "SingletonCookie", "SingletonSocket"):
        try:
            os.unlink(os.path.join(profile, lock))
        except FileNotFoundError:
            pass
    running = start(browser, profile, f"{site}/reads")
    kept = told.get(timeout=60)["number"]
    stop(running, signal.SIGTERM)
    return {"written": written, "kept": kept, "lost_s": round((written - kept) / 10, 1)}


def main():
    browser, what, rounds = sys.argv[1], {"rates": rates, "kill": kill}[sys.argv[2]], int(sys.argv[3])
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_address[1]}"
    for _ in range(rounds):
        profile = tempfile.mkdtemp(prefix="thaw-claim.", dir="/var/tmp")
        try:
            print(json.dumps({"browser": browser, **what(browser, site, profile)}), flush=True)
        finally:
            shutil.rmtree(profile, ignore_errors=True)


main()
