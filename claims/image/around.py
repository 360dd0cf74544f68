"""Requests and bytes that an ordered image takes once its start is over, by how much the kernel reads around a fault on it.
usage: around.py IMAGE DIRECTORY FILE RESULT.csv ROUNDS   the image lies on a disk of its own; FILE is the large one of its directory"""
import csv
import ctypes
import mmap
import os
import random
import statistics
import subprocess
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
image, directory, large, result, rounds = sys.argv[1:]
AROUND = [0, 16, 128]


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Disk:
    """The image alone on a file system in a file, behind a loop device whose requests are counted."""

    def __enter__(self):
        self.home = tempfile.mkdtemp(prefix="thaw-around.", dir="/var/tmp")
        self.place = os.path.join(self.home, "image")
        os.mkdir(os.path.join(self.home, "disk"))
        os.mkdir(self.place)
        file = os.path.join(self.home, "disk.ext4")
        with open(file, "wb") as disk:
            disk.truncate(2 * os.path.getsize(image) + (64 << 20))
        output("mkfs.ext4", "-qF", file)
        self.device = output("losetup", "--direct-io=on", "-f", "--show", file)
        output("mount", self.device, os.path.join(self.home, "disk"))
        self.image = os.path.join(self.home, "disk", "image")
        output("cp", image, self.image)
        os.sync()
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", os.path.join(self.home, "disk")])
        subprocess.run(["losetup", "-d", self.device])
        subprocess.run(["rm", "-rf", self.home])

    def counted(self):
        with open(f"/sys/block/{os.path.basename(self.device)}/stat") as text:
            figures = text.read().split()
        return int(figures[0]), int(figures[2]) * 512

    def cold(self, around, work):
        """Requests and bytes of some work on the image, of which nothing is in memory."""
        file = os.open(self.image, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        before = set(os.listdir("/sys/class/bdi"))
        if libc.mount(self.image.encode(), self.place.encode(), b"erofs", 1, None):
            raise OSError(ctypes.get_errno(), "mount")
        try:
            [name] = set(os.listdir("/sys/class/bdi")) - before
            with open(f"/sys/class/bdi/{name}/read_ahead_kb", "w") as setting:
                setting.write(str(around))
            begun = self.counted()
            work(self.place)
            ended = self.counted()
            return ended[0] - begun[0], ended[1] - begun[1]
        finally:
            libc.umount2(self.place.encode(), 0)


def whole(place):
    with open(os.path.join(place, large), "rb", buffering=0) as file:
        while file.read(1 << 17):
            pass


def places(seed):
    def work(place):
        dice = random.Random(seed)
        with open(os.path.join(place, large), "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            for _ in range(300):
                mapped[dice.randrange(len(mapped) // 4096) * 4096]

    return work


found = {}
with Disk() as disk, open(result, "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["round", "work", "around_kib", "requests", "bytes"])
    for number in range(int(rounds)):
        for name, work in [("300 places, mapped", places(number)), ("from its beginning to its end", whole)]:
            for around in random.sample(AROUND, len(AROUND)):
                figures = disk.cold(around, work)
                found.setdefault((name, around), []).append(figures)
                rows.writerow([number, name, around, *figures])
print(f"{large} of {directory}, {os.path.getsize(os.path.join(directory, large)) / 1e6:.1f} MB; medians of {rounds} rounds, cold [least, most]")
for (name, around), figures in sorted(found.items()):
    requests, read = zip(*figures)
    print(f"{name:30} read around {around:3} KiB: {statistics.median(requests):6.0f} requests [{min(requests)}, {max(requests)}], "
          f"{statistics.median(read) / 1e6:6.1f} MB [{min(read) / 1e6:.1f}, {max(read) / 1e6:.1f}]")
