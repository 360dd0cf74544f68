#!/usr/bin/env python3
"""Fetches URLs through the cache, by ctypes: client.py LIBRARY DIRECTORY URL...

Each is answered by a line: status, where it came from, the body.
"""
import ctypes as c
import http.client
import select
import sys
import urllib.parse

WAIT, SERVE, FORWARD, ANSWER, STORE, PASS, FAIL = range(7)
DECIDED, BODY, END, BROKEN, STORED, DROPPED, DONE = range(1, 8)


class Text(c.Structure):
    _fields_ = [("bytes", c.c_void_p), ("length", c.c_size_t)]

    @classmethod
    def of(cls, data):
        """Of bytes that the caller keeps."""
        return cls(c.cast(c.c_char_p(data), c.c_void_p), len(data))

    def get(self):
        return c.string_at(self.bytes, self.length) if self.length else b""


class Field(c.Structure):
    _fields_ = [("name", Text), ("value", Text)]


class Sized(c.Structure):
    """A struct that begins with its size."""

    def __init__(self, **fields):
        super().__init__(size=c.sizeof(type(self)), **fields)


class Options(Sized):
    _fields_ = [("size", c.c_size_t), ("directory", Text), ("budget", c.c_uint64), ("memory", c.c_uint64),
                ("most_body", c.c_uint64), ("name", Text), ("flags", c.c_uint32), ("reserved", c.c_uint32)]


class Request(Sized):
    _fields_ = [("size", c.c_size_t), ("method", Text), ("url", Text), ("partition", Text),
                ("fields", c.POINTER(Field)), ("field_count", c.c_size_t), ("tag", c.c_uint64)]


class Response(Sized):
    _fields_ = [("size", c.c_size_t), ("fields", c.POINTER(Field)), ("field_count", c.c_size_t),
                ("sent_ms", c.c_int64), ("status", c.c_uint32), ("reserved", c.c_uint32)]


class Message(Sized):
    _fields_ = [("size", c.c_size_t), ("method", Text), ("url", Text), ("fields", c.POINTER(Field)),
                ("field_count", c.c_size_t), ("reason", Text), ("status", c.c_uint32), ("refresh", c.c_uint32)]

    def headers(self):
        return [(f.name.get().decode(), f.value.get().decode("latin-1")) for f in self.fields[:self.field_count]]


class Event(Sized):
    _fields_ = [("size", c.c_size_t), ("tag", c.c_uint64), ("data", Text), ("length", c.c_uint64),
                ("kind", c.c_uint32), ("action", c.c_int32), ("done", c.c_int32), ("reserved", c.c_uint32),
                ("owner", c.c_void_p)]


class Cache:
    def __init__(self, library, directory):
        self.library = c.CDLL(library)
        self.library.thaw_cache_explain.restype = c.c_char_p
        directory = directory.encode()
        self.handle = c.c_void_p()
        self.call("open", c.byref(Options(directory=Text.of(directory))), c.byref(self.handle))

    def call(self, name, *arguments):
        code = getattr(self.library, "thaw_cache_" + name)(*arguments)
        if code < 0:
            raise RuntimeError(f"{name}: {self.library.thaw_cache_explain(code).decode()}")
        return code

    def next(self):
        """The next event, and its bytes. An event loop would watch the descriptor instead."""
        event = Event()
        while self.call("next", self.handle, c.byref(event)) == 1:
            select.select([self.call("fd", self.handle)], [], [])
        data = event.data.get()
        self.call("event_free", c.byref(event))
        return event, data

    def message(self, name, exchange):
        message = Message()
        self.call(name, exchange, c.byref(message))
        return message

    def get(self, url):
        """Status, where it came from, body."""
        method, address = b"GET", url.encode()
        request = Request(method=Text.of(method), url=Text.of(address))
        exchange = c.c_void_p()
        self.call("ask", self.handle, c.byref(request), c.byref(exchange))
        try:
            return self.answer(exchange)
        finally:
            self.call("free", exchange)

    def answer(self, exchange):
        action, body = c.c_int(WAIT), b""
        while action.value in (WAIT, FORWARD):
            if action.value == WAIT:
                action.value = self.next()[0].action
                continue
            sent = self.message("forward", exchange)
            try:
                status, headers, body = fetch(sent.url.get().decode(), sent.headers())
            except OSError:
                self.call("failed", exchange, c.byref(action))
                continue
            texts = [(name.encode(), value.encode("latin-1")) for name, value in headers]
            fields = (Field * len(texts))(*[Field(Text.of(name), Text.of(value)) for name, value in texts])
            response = Response(status=status, fields=fields, field_count=len(texts))
            self.call("respond", exchange, c.byref(response), c.byref(action))
        if action.value == FAIL:
            return 502, "nowhere", b""
        status = self.message("head", exchange).status
        if action.value == STORE:
            self.call("write", exchange, body, c.c_size_t(len(body)))
            self.call("finish", exchange, None, c.c_size_t(0))
            return status, {STORED: "stored", DROPPED: "dropped"}[self.next()[0].kind], body
        if action.value == SERVE:
            self.call("read", exchange, c.c_uint64(1 << 40))
            parts = []
            while True:
                event, data = self.next()
                if event.kind != BODY:
                    return status, "store" if event.kind == END else "broken", b"".join(parts)
                parts.append(data)
        return status, "origin" if action.value == PASS else "cache", body

    def close(self):
        self.call("close", self.handle)


def fetch(url, headers):
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", parts.path + ("?" + parts.query if parts.query else ""), headers=dict(headers))
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, response.getheaders(), body


def main():
    cache = Cache(sys.argv[1], sys.argv[2])
    for url in sys.argv[3:]:
        status, source, body = cache.get(url)
        print(status, source, body.decode(), flush=True)
    cache.close()


main()
