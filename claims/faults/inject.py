"""Fails one system call of thaw at a time and looks at what is left. Used by `run`: inject.py THAW FOLDER VERB PLACES.

A good run under strace says which calls the main thread makes. Of these, PLACES are taken, spread over all kinds; each fails once, with an error
that the kernel can give there. After each: the exit code is one of the README's table; the user's files are as before or wholly the new ones;
what is left beside them, mounted, running or set is named by `thaw doctor` and gone after `thaw doctor --mend`; the verb works
afterwards, and can be undone to the byte."""

import collections, fcntl, glob, hashlib, json, os, re, shutil, signal, stat, subprocess, sys

THAW, WORK, VERB, PLACES = sys.argv[1], os.path.realpath(sys.argv[2]), sys.argv[3], int(sys.argv[4])
TRY = f'{WORK}/try'
TEMPLATE = f'{WORK}/template'

# What the kernel can say to each call. close, munmap, waits and exits are left out: they do what they do whatever they return.
ERRORS = {
    'openat': ['EMFILE', 'EACCES', 'ENOMEM', 'EIO'], 'openat2': ['EMFILE', 'EACCES', 'ENOMEM', 'EIO'], 'open': ['EMFILE', 'EIO'],
    'read': ['EIO'], 'pread64': ['EIO'], 'readv': ['EIO'], 'getdents64': ['EIO'],
    'write': ['ENOSPC', 'EIO'], 'pwrite64': ['ENOSPC', 'EIO'], 'writev': ['ENOSPC', 'EIO'],
    'fsync': ['EIO', 'ENOSPC'], 'fdatasync': ['EIO'], 'syncfs': ['EIO'], 'sync_file_range': ['EIO'],
    'ftruncate': ['EIO', 'ENOSPC'], 'fallocate': ['ENOSPC'], 'rename': ['EIO', 'ENOSPC'], 'renameat': ['EIO', 'ENOSPC'],
    'renameat2': ['EIO', 'ENOSPC', 'EACCES'], 'unlink': ['EIO', 'EACCES'], 'unlinkat': ['EIO', 'EACCES'], 'rmdir': ['EBUSY'],
    'link': ['ENOSPC'], 'linkat': ['ENOSPC', 'EIO'], 'symlink': ['ENOSPC'], 'symlinkat': ['ENOSPC'],
    'mkdir': ['ENOSPC', 'EACCES'], 'mkdirat': ['ENOSPC', 'EACCES'], 'fchmod': ['EPERM', 'EIO'], 'fchmodat': ['EPERM', 'EIO'],
    'chmod': ['EPERM', 'EIO'], 'fchown': ['EPERM', 'EIO'], 'fchownat': ['EPERM', 'EIO'], 'chown': ['EPERM', 'EIO'],
    'utimensat': ['EPERM', 'EIO'], 'fsetxattr': ['ENOSPC', 'EPERM'], 'fgetxattr': ['EIO'], 'flistxattr': ['EIO'],
    'fstat': ['EIO'], 'newfstatat': ['EIO', 'EACCES'], 'statx': ['EIO', 'EACCES', 'ENOMEM'], 'fstatfs': ['EIO'], 'statfs': ['EIO'],
    'readlink': ['EIO', 'EACCES'], 'readlinkat': ['EIO', 'EACCES'], 'lseek': ['EIO'], 'access': ['EACCES'], 'faccessat2': ['EACCES'],
    'copy_file_range': ['EIO', 'ENOSPC'], 'sendfile': ['EIO'], 'ioctl': ['EPERM', 'ENOTTY'], 'flock': ['ENOLCK'],
    'fcntl': ['EMFILE'], 'dup': ['EMFILE'], 'dup3': ['EMFILE'], 'pipe2': ['EMFILE', 'ENFILE'], 'socket': ['EMFILE'], 'socketpair': ['EMFILE'],
    'connect': ['EACCES'], 'memfd_create': ['EMFILE', 'ENOMEM'], 'eventfd2': ['EMFILE'], 'signalfd4': ['EMFILE'],
    'timerfd_create': ['EMFILE'], 'epoll_create1': ['EMFILE'], 'epoll_ctl': ['ENOMEM'], 'inotify_init1': ['EMFILE'],
    'inotify_add_watch': ['ENOSPC'], 'perf_event_open': ['EMFILE', 'EACCES'], 'pidfd_open': ['EMFILE'], 'mmap': ['ENOMEM'],
    'clone3': ['EAGAIN', 'ENOMEM'], 'clone': ['EAGAIN'], 'vfork': ['EAGAIN'], 'fork': ['EAGAIN'],
    'execve': ['EACCES'], 'mount': ['EPERM', 'EBUSY'], 'umount2': ['EBUSY'], 'unshare': ['EPERM'], 'setns': ['EPERM'],
    'fadvise64': ['EINVAL'], 'posix_fadvise': ['EINVAL'], 'mincore': ['ENOMEM'], 'kill': ['EPERM'], 'prctl': ['EINVAL'],
    'prlimit64': ['EPERM'], 'sched_setaffinity': ['EPERM'], 'name_to_handle_at': ['EOPNOTSUPP'], 'open_by_handle_at': ['ESTALE'],
    'process_vm_readv': ['EPERM'], 'chdir': ['EACCES'], 'fchdir': ['EACCES'], 'getrandom': ['EINTR'], 'truncate': ['EIO'],
}
CODES = {0, 1, 2, 3, 4, 5, 130}

PROGRAM = r'''
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char text[] = "abc";
static const char *table[] = {%s};
int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++) sum += table[i][0];
    for (int i = 0; i < 100; i++) { char *kept = malloc(1000 + i); kept[0] = 1; if (i %% 2) free(kept); }
    printf("sum %%u\n", sum);
    return 0;
}
''' % ','.join(f'text+{i % 3}' for i in range(20000))
ENTRY = '[Desktop Entry]\nType=Application\nName=Tool\nExec=tool --new %u\nTryExec=sh\n'


def fail(text):
    sys.exit(f'faults: {text}')


def environment(mark=None):
    env = dict(os.environ, THAW_STATE_DIR=f'{TRY}/state', THAW_MACHINE_DIR=f'{TRY}/machine', THAW_RUN_DIR=f'{TRY}/run', HOME=f'{TRY}/user/home',
               XDG_CONFIG_HOME=f'{TRY}/user/home/.config', XDG_DATA_DIRS=f'{TRY}/user/share', LC_ALL='C')
    for name in ('XDG_DATA_HOME', 'SUDO_UID', 'SUDO_USER', 'XDG_STATE_HOME', 'XDG_RUNTIME_DIR'):
        env.pop(name, None)
    if mark:
        env['THAW_FAULT'] = mark
    return env


def run(words, before=(), mark=None, patience=180):
    """Exit code (None: it hung), what it said."""
    child = subprocess.Popen([*before, THAW, *words], cwd=f'{TRY}/user', env=environment(mark), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        out, _ = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, _ = child.communicate()
        return None, out.decode(errors='replace')
    return child.returncode, out.decode(errors='replace')


def good(words, codes=(0,)):
    code, said = run(words)
    if code not in codes:
        fail(f'without a fault: thaw {" ".join(words)}: exit {code}\n{said}')
    return said


def fresh(template=True):
    shutil.rmtree(TRY, ignore_errors=True)
    os.makedirs(TRY)
    if template:
        subprocess.run(['cp', '-a', f'{TEMPLATE}/.', f'{TRY}/user'], check=True)
    else:
        os.makedirs(f'{TRY}/user')
    for name in ('state', 'machine', 'run'):
        os.mkdir(f'{TRY}/{name}', 0o700)


def look(folder=None):
    """Everything below the user's files: kind, mode, owner, bytes."""
    folder = folder or f'{TRY}/user'
    seen = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = f'{at}/{name}'
            about = os.lstat(path)
            what = [oct(about.st_mode), about.st_uid, about.st_gid]
            if stat.S_ISREG(about.st_mode):
                what.append(hashlib.sha256(open(path, 'rb').read()).hexdigest())
            elif stat.S_ISLNK(about.st_mode):
                what.append(os.readlink(path))
            seen[os.path.relpath(path, folder)] = tuple(what)
    return seen


def summed(body):
    value = 0xcbf29ce484222325
    for byte in body.encode():
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    return f'{body}sum {value:016x}\n'


def program():
    os.makedirs(f'{TRY}/user/app')
    open(f'{TRY}/big.c', 'w').write(PROGRAM)
    subprocess.run(['cc', '-O1', '-fPIE', '-pie', '-o', f'{TRY}/user/app/big', f'{TRY}/big.c'], check=True)
    os.chmod(f'{TRY}/user/app/big', 0o4711)
    os.chown(f'{TRY}/user/app/big', 65534, 65534)


def launcher():
    os.makedirs(f'{TRY}/user/share/applications')
    open(f'{TRY}/user/share/applications/tool.desktop', 'w').write(ENTRY)
    os.makedirs(f'{TRY}/user/home/.local/share/applications')
    # The user's own entry is what is to be lost by no fault.
    open(f'{TRY}/user/home/.local/share/applications/tool.desktop', 'w').write(ENTRY.replace('--new', '--mine'))


def preload_manifest(data, to):
    about = os.stat(data)
    open(to, 'w').write(summed(f'thaw preload manifest 1\nabout host {os.uname().nodename}\n'
                               f'file regular 1 1 {about.st_size} {about.st_mtime_ns} - {data}\nread 0 0 {about.st_size} 0\n'))


def crc(path):
    import zlib
    data = open(path, 'rb').read()
    return {'size': len(data), 'crc32': zlib.crc32(data)}


class Pack:
    words = ['elf', 'pack', 'app/big', '--in-place', '--setuid']
    undo = ['elf', 'restore', 'app/big']

    def make(self):
        program()

    def check(self, whole=True):
        problems = []
        if subprocess.run([f'{TRY}/user/app/big'], stdout=subprocess.PIPE).returncode != 0:
            problems.append('the packed program does not run')
        code, said = run(['elf', 'verify', f'{TEMPLATE}/app/big', 'app/big'])
        if code != 0:
            problems.append(f'elf verify: {code} {said.strip()[-200:]}')
        return problems


class Preload:
    words = ['preload', 'install', 'a.preload', '--desktop', 'tool.desktop']
    undo = ['preload', 'uninstall', '--desktop', 'tool.desktop']

    def make(self):
        open(f'{TRY}/user/data', 'wb').write(b'\7' * (64 << 12))
        preload_manifest(f'{TRY}/user/data', f'{TRY}/user/a.preload')
        launcher()

    def check(self, whole=True):
        entry = open(f'{TRY}/user/home/.local/share/applications/tool.desktop').read()
        return [] if ' preload run ' in entry and 'tool --mine' in entry else ['the entry is not the one to install']


class Optimize:
    words = ['optimize', '--apply', 'fast', '--desktop', 'tool.desktop']
    undo = ['optimize', '--undo', 'fast']

    def make(self):
        program()
        os.chmod(f'{TRY}/user/app/big', 0o711)
        launcher()
        big = f'{TRY}/user/app/big'
        subprocess.run(['sync', big], check=True)
        good(['record', '-q', '-o', 'big.thaw', '--state', 'app', '--runs', '1', '--trace-runs', '1', '--needed', 'no',
              '--disk', 'throttle:iops=2000,bps=200M', '--readahead', '128K', '--', big])
        manifest = json.loads(good(['optimize', 'big.thaw', '--plan', '--json']))
        os.makedirs(f'{TRY}/user/fast/tree')
        good(['elf', 'pack', big, '-o', 'fast/tree/big'])
        preload_manifest(f'{TRY}/user/fast/tree/big', f'{TRY}/user/fast/start.preload')
        manifest['kept'] = ['pack', 'preload']
        manifest['files'] = [{'path': 'big', 'by': 'pack', 'before': crc(big), 'after': crc(f'{TRY}/user/fast/tree/big')}]
        json.dump(manifest, open(f'{TRY}/user/fast/thaw-optimize.json', 'w'))

    def check(self, whole=True):
        code, said = run(['elf', 'verify', f'{TEMPLATE}/app/big', 'app/big'])
        return ([] if code == 0 else [f'elf verify: {code}']) + Preload.check(self)


class Record:
    words = ['record', '-q', '-o', 'r.thaw', '--state', 'app,hot', '--runs', '1', '--trace-runs', '1', '--needed', 'no',
             '--readahead', '128K', '--', './app/big']
    undo = None
    result = 'r.thaw'

    def make(self):
        program()
        os.chmod(f'{TRY}/user/app/big', 0o755)

    def check(self, whole=True):
        code, said = run(['report', 'r.thaw'])
        return [] if code == 0 and (not whole or 'starts in' in said) else [f'thaw report: {code} {said.strip()[-300:]}']


class Heap(Record):
    words = ['heap', 'run', '-q', '-o', 'h.heap', '--', './app/big']
    result = 'h.heap'

    def check(self, whole=True):
        code, said = run(['heap', 'report', 'h.heap'])
        return [] if code == 0 else [f'thaw heap report: {code} {said.strip()[-300:]}']


VERBS = {'pack': Pack, 'preload': Preload, 'optimize': Optimize, 'record': Record, 'heap': Heap}
verb = VERBS[VERB]()
TRACE = ['strace', '-qq', '-o', f'{WORK}/strace.log']


def places():
    """(call, which one, error): of the calls after the language's own set-up, spread over all kinds."""
    fresh()
    code, said = run(verb.words, TRACE)
    if code != 0:
        fail(f'under strace without a fault: exit {code}\n{said}')
    count, eligible, started = collections.Counter(), collections.defaultdict(list), False
    for line in open(f'{WORK}/strace.log', errors='replace'):
        found = re.match(r'(\w+)\((.*)', line)
        if not found:
            continue
        call, rest = found.groups()
        count[call] += 1
        # Rust's set-up ends with the stack for signals of the main thread; what fails before it is the loader's or the language's.
        started = started or call == 'sigaltstack'
        # Memory that has no file is the allocator's: a program without memory is ended by its language.
        if not started or call not in ERRORS or (call == 'mmap' and 'MAP_ANON' in rest):
            continue
        if call == 'fcntl' and 'F_DUPFD' not in rest or call == 'prlimit64' and 'NULL, {' in rest:
            continue
        eligible[call].append(count[call])
    taken = []
    pools = {call: [(call, n, ERRORS[call][(i + r) % len(ERRORS[call])]) for r in range(len(ERRORS[call])) for i, n in enumerate(numbers)]
             for call, numbers in eligible.items()}
    # Each kind gets the same share; what a kind does not need goes to the others.
    left = PLACES
    for at, (call, pool) in enumerate(sorted(pools.items(), key=lambda item: len(item[1]))):
        share = min(len(pool), max(1, left // (len(pools) - at)), left)
        first = len(eligible[call])
        # First over all places of the kind, then with other errors.
        some = [pool[i * first // share] for i in range(share)] if share <= first else pool[:share]
        taken += some
        left -= share
    return taken, {call: len(numbers) for call, numbers in eligible.items()}


def outside():
    """Whatever of the machine names this folder."""
    found = [line.split()[4] for line in open('/proc/self/mountinfo') if WORK in line]
    found += [line for line in subprocess.run(['losetup', '-a'], stdout=subprocess.PIPE, text=True).stdout.splitlines() if WORK in line]
    return found


def groups():
    """Control groups of thaws that run no more: those of others that run are theirs."""
    for path in glob.glob('/sys/fs/cgroup/**/thaw-*', recursive=True):
        found = re.search(r'-(\d+)-\d+$', path)
        if found and not os.path.exists(f'/proc/{found.group(1)}'):
            yield path


def running(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if f'THAW_FAULT={mark}'.encode() in open(f'/proc/{pid}/environ', 'rb').read().split(b'\0'):
                found.append((int(pid), open(f'/proc/{pid}/cmdline').read().replace('\0', ' ')))
        except OSError:
            pass
    return found


def settings():
    return {path: open(path).read() for path in glob.glob('/sys/block/*/queue/read_ahead_kb')}


def one(place, original, done, number):
    """The problems of one place."""
    call, n, error = place
    fresh()
    mark = f'{os.getpid()}-{number}'
    before = settings()
    cgroups = set(groups())
    code, said = run(verb.words, [*TRACE, '-e', f'trace={call}', '-e', f'inject={call}:error={error}:when={n}'], mark)
    problems = []
    injected = any('(INJECTED)' in line for line in open(f'{WORK}/strace.log', errors='replace'))
    if code is None:
        problems.append('it hangs')
    elif code not in CODES:
        problems.append(f'exit {code}')
    if 'bug of thaw' in said or 'panicked' in said:
        problems.append('a panic')
    left = running(mark)
    if left:
        problems.append(f'left running: {left}')
        for pid, _ in left:
            os.kill(pid, signal.SIGKILL)
    seen = look()
    _, doctor = run(['doctor'])
    flat = re.sub(r'\s+', '', doctor)
    for path in seen:
        if path in original or path in done or (VERB == 'heap' and path.startswith('h.heap')):
            continue
        if re.sub(r'\s+', '', os.path.basename(path)) not in flat and not any(
                re.sub(r'\s+', '', os.path.basename(parent)) in flat for parent in parents(path) if parent not in original):
            problems.append(f'left, and doctor does not know: {path}')
    for path in original:
        if path not in seen:
            problems.append(f'lost: {path}')
    result = getattr(verb, 'result', None)
    mend_code, mended = run(['doctor', '--mend'])
    if mend_code != 0:
        problems.append(f'doctor --mend: exit {mend_code}: {mended[mended.find("What killed"):][:400]}')
    for path in outside():
        problems.append(f'left in the machine: {path}')
    for path in set(groups()) - cgroups:
        problems.append(f'a control group is left: {path}')
    if VERB == 'record' and settings() != before:
        problems.append('a setting is not what it was')
    after = look()
    for path, what in after.items():
        if what not in (original.get(path), done.get(path)) and not (result and path.split('/')[0] == result):
            problems.append(f'neither old nor new: {path}: {what} old {original.get(path)} new {done.get(path)}' if path in original or path in done
                            else f'still there after doctor --mend: {path}')
    if code == 0:
        problems += verb.check()
    elif result and {path: what for path, what in after.items() if path.split('/')[0] == result} != {
            path: what for path, what in original.items() if path.split('/')[0] == result}:
        problems += [f'exit {code}, and of the result: {it}' for it in verb.check(False)]
    if verb.undo:
        if code != 0:
            again, text = run(verb.words)
            if again not in (0, 1, 2):
                problems.append(f'afterwards, without a fault: exit {again}: {text.strip()[-300:]}')
        back, text = run(verb.undo)
        if back != 0:
            problems.append(f'undo: exit {back}: {text.strip()[-300:]}')
        if look() != original:
            last = look()
            odd = [path for path in {**original, **last} if original.get(path) != last.get(path)]
            problems.append(f'not as before after the undo: {odd}')
    for folder in ('run', 'state'):
        for path, what in look(f'{TRY}/{folder}').items():
            if stat.S_ISREG(int(what[0], 8)) and not path.endswith('lock'):
                problems.append(f'left in {folder}: {path}')
    return code, injected, problems, said


def parents(path):
    while path:
        path = os.path.dirname(path)
        if path:
            yield path


def main():
    lock = open('/tmp/thaw-machine.lock', 'a')
    machine = VERB in ('record', 'optimize')
    os.makedirs(WORK, exist_ok=True)
    fresh(template=False)
    if machine:
        fcntl.flock(lock, fcntl.LOCK_EX)
    verb.make()
    good(['doctor', '--mend'])
    shutil.rmtree(TEMPLATE, ignore_errors=True)
    subprocess.run(['cp', '-a', f'{TRY}/user', TEMPLATE], check=True)
    fresh()
    original = look()
    good(verb.words)
    done = look()
    taken, kinds = places()
    fcntl.flock(lock, fcntl.LOCK_UN)
    codes, bad, missed = collections.Counter(), 0, 0
    used = collections.Counter(call for call, _, _ in taken)
    only = sys.argv[5:]
    for number, place in enumerate(taken):
        if only and f'{place[0]}:{place[1]}:{place[2]}' not in only:
            continue
        for again in range(3):
            if VERB == 'record':
                fcntl.flock(lock, fcntl.LOCK_EX)
            code, injected, problems, said = one(place, original, done, f'{number}-{again}')
            if VERB == 'record':
                fcntl.flock(lock, fcntl.LOCK_UN)
            # The machine is shared: what another process did is not met three times.
            if not any(problem.startswith(('a setting', 'a control group')) for problem in problems):
                break
        codes[code] += 1
        missed += not injected
        if only or problems:
            last = ' | '.join(said.strip().splitlines()[-4:])[:500]
            print(f'# {VERB} {place}: exit {code}: {"; ".join(problems) or "nothing"}\n#   it said: {last}', file=sys.stderr, flush=True)
        bad += bool(problems)
    print(f'{VERB:9} {len(taken):4} places of {sum(kinds.values())} calls of {len(kinds)} kinds; exits: '
          + ', '.join(f'{code}: {count}' for code, count in sorted(codes.items(), key=str))
          + f'; not reached: {missed}; with a defect: {bad}')
    print('          by call: ' + ', '.join(f'{call} {count}' for call, count in used.most_common()), flush=True)
    shutil.rmtree(TRY, ignore_errors=True)
    shutil.rmtree(TEMPLATE, ignore_errors=True)


main()
