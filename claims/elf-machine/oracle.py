#!/usr/bin/env python3
"""Holds packed files against their originals, with code that shares nothing with thaw: relocates both in memory at one base,
as the x86-64 loader does, and compares every byte that is not one of the loader's own tables, every other relocation by the
name of its symbol, all dynamic symbols, and what the dynamic table says of libraries and initialisers.

usage: oracle.py ORIGINALS PACKED      two directories; each file below PACKED has its original at the same place
"""
import os, struct, sys

BASE = 0x5555_5555_4000
MOVABLE = {".dynsym", ".dynstr", ".hash", ".gnu.hash", ".gnu.version", ".gnu.version_r", ".gnu.version_d", ".rela.dyn",
           ".rela.plt", ".relr.dyn", ".dynamic", ".interp"}


class File:
    def __init__(self, path):
        data = self.data = open(path, "rb").read()
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", data, 16) != (3, 62):
            raise ValueError("not an x86-64 ET_DYN")
        self.phoff, shoff = struct.unpack_from("<QQ", data, 32)
        phnum, _, shnum, names = struct.unpack_from("<HHHH", data, 56)
        self.phend = self.phoff + 56 * phnum
        self.segments = [struct.unpack_from("<IIQQQQQQ", data, self.phoff + 56 * i) for i in range(phnum)]
        self.loads = [(s[3], s[2], s[5], s[6], s[1]) for s in self.segments if s[0] == 1]
        raw = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(shnum)] if shoff else []
        text = raw[names] if raw else None
        name = lambda at: data[text[4] + at:data.index(b"\0", text[4] + at)].decode()
        self.sections = {name(s[0]): s for s in raw}
        dynamic = next(s for s in self.segments if s[0] == 2)
        self.tags = []
        for at in range(dynamic[2], dynamic[2] + dynamic[5], 16):
            tag, value = struct.unpack_from("<QQ", data, at)
            if tag == 0:
                break
            self.tags.append((tag, value))
        self.tag = dict(self.tags)
        self.relocate()

    def offset(self, address):
        for at, offset, filesz, _, _ in self.loads:
            if at <= address < at + filesz:
                return offset + address - at
        raise ValueError(f"{address:#x} is not loaded")

    def string(self, at):
        start = self.offset(self.tag[5]) + at
        return self.data[start:self.data.index(b"\0", start)]

    def relocate(self):
        self.memory = [(at, bytearray(self.data[offset:offset + filesz].ljust(memsz, b"\0")), flags)
                       for at, offset, filesz, memsz, flags in self.loads]
        self.relative, others = 0, []
        add = lambda value: (value + BASE) & 0xffff_ffff_ffff_ffff
        for table, size in ((self.tag.get(7), self.tag.get(8, 0)), (self.tag.get(23), self.tag.get(2, 0))):
            if table is None or not size:
                continue
            start = self.offset(table)
            for at, info, addend in struct.iter_unpack("<QQq", self.data[start:start + size]):
                if info == 8:
                    self.put(at, add(addend))
                    self.relative += 1
                elif info:
                    others.append((at, info & 0xffff_ffff, info >> 32, addend))
        if self.tag.get(36) is not None:
            start, where = self.offset(self.tag[36]), 0
            for (word,) in struct.iter_unpack("<Q", self.data[start:start + self.tag[35]]):
                if word & 1 == 0:
                    self.put(word, add(self.get(word)))
                    self.relative += 1
                    where = word + 8
                    continue
                for bit in range(63):
                    if word >> (bit + 1) & 1:
                        self.put(where + 8 * bit, add(self.get(where + 8 * bit)))
                        self.relative += 1
                where += 63 * 8
        symbol = lambda index: self.symbol(index) if index else None
        self.others = sorted((at, kind, symbol(index), addend) for at, kind, index, addend in others)

    def find(self, address):
        for at, memory, _ in self.memory:
            if at <= address and address + 8 <= at + len(memory):
                return memory, address - at
        raise ValueError(f"a relocation at {address:#x} is outside memory")

    def get(self, address):
        memory, at = self.find(address)
        return struct.unpack_from("<Q", memory, at)[0]

    def put(self, address, value):
        memory, at = self.find(address)
        struct.pack_into("<Q", memory, at, value)

    def symbol(self, index):
        at = self.offset(self.tag[6]) + 24 * index
        name, info, other, section, value, size = struct.unpack_from("<IBBHQQ", self.data, at)
        version = None
        if 0x6ffffff0 in self.tag:
            version = struct.unpack_from("<H", self.data, self.offset(self.tag[0x6ffffff0]) + 2 * index)[0]
        return self.string(name), info, other, section == 0, value if section else 0, size, version

    def symbols(self):
        return [self.symbol(index) for index in range(1, self.sections[".dynsym"][5] // 24)]

    def promises(self):
        text = {1, 14, 15, 29}
        plain = {12, 13, 25, 26, 27, 28, 30, 32, 33, 0x6ffffffb}
        return ([(tag, self.string(value)) for tag, value in self.tags if tag in text]
                + sorted((tag, value) for tag, value in self.tags if tag in plain))

    def read(self, start, end):
        for at, memory, flags in self.memory:
            if at <= start < at + len(memory):
                return bytes(memory[start - at:end - at]), flags
        return b"", None


def skipped(old, new):
    ranges = [(0, 64), (old.phoff, old.phend)]
    place = lambda file, name: file.sections[name][3] if name in file.sections else None
    for name, section in old.sections.items():
        moved = name.startswith(".note") and place(new, name) != section[3]
        if name in MOVABLE or moved:
            # With the alignment in front of what comes next.
            ranges.append((section[3] - 16, section[3] + section[5] + 16))
    loaded = [(s[3], s[3] + s[5]) for name, s in old.sections.items() if s[2] & 2 and name not in MOVABLE and s[1] != 8
              and not (name.startswith(".note") and place(new, name) != s[3])]
    out = []
    for start, end in sorted(ranges):
        for low, high in loaded:
            if low <= start < high:
                start = high
            if low < end <= high:
                end = low
        if start < end:
            out.append((start, end))
    return out


def compare(old, new):
    wrong = []
    if old.relative != new.relative:
        wrong.append(f"{old.relative} relative relocations became {new.relative}")
    if old.others != new.others:
        wrong.append("other relocations differ")
    if old.symbols() != new.symbols():
        wrong.append("dynamic symbols differ")
    if old.promises() != new.promises():
        wrong.append("the dynamic table promises something else")
    holes = skipped(old, new)
    total = 0
    for at, memory, flags in old.memory:
        cursor = at
        for start, end in holes + [(at + len(memory), at + len(memory))]:
            if end < cursor or start > at + len(memory):
                continue
            stop = min(max(start, cursor), at + len(memory))
            while cursor < stop:
                # Packing may split a segment, but not change what is in it.
                theirs, access = new.read(cursor, stop)
                if not theirs:
                    wrong.append(f"{cursor:#x} is not in memory any more")
                    break
                if access != flags or theirs != bytes(memory[cursor - at:cursor - at + len(theirs)]):
                    wrong.append(f"memory from {cursor:#x} to {cursor + len(theirs):#x} differs")
                total += len(theirs)
                cursor += len(theirs)
            cursor = max(cursor, end)
    return wrong, total


def main():
    originals, packed = sys.argv[1:]
    files = relative = compared = failed = other = 0
    for directory, _, names in os.walk(packed):
        for name in sorted(names):
            path = os.path.join(directory, name)
            original = os.path.join(originals, os.path.relpath(path, packed))
            try:
                old = File(original)
            except ValueError:
                other += 1
                continue
            try:
                wrong, total = compare(old, File(path))
            except (ValueError, KeyError, struct.error) as error:
                wrong, total = [f"{type(error).__name__}: {error}"], 0
            files, relative, compared = files + 1, relative + old.relative, compared + total
            if wrong:
                failed += 1
                print(f"WRONG {original}: {'; '.join(wrong[:4])}")
    print(f"{files} packed files, {relative} relative relocations, {compared} bytes of memory compared: {failed} wrong "
          f"({other} files for other machines not judged)")
    sys.exit(failed != 0)


main()
