-- What version 5 of the schema added to version 4: relocations of what was mapped, where the time of a start went,
-- and what of it is the loader's.

CREATE TABLE relocations (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    entries INTEGER NOT NULL
) STRICT;

CREATE TABLE cpu_traces (
    run INTEGER PRIMARY KEY,
    root INTEGER NOT NULL,
    ready_ns INTEGER NOT NULL,
    ready_by INTEGER,
    cpus INTEGER NOT NULL,
    tick_ns INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    lost_switches INTEGER NOT NULL,
    own_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE cpu_limits (
    run INTEGER NOT NULL,
    cannot TEXT NOT NULL
) STRICT;

CREATE TABLE threads (
    run INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    name TEXT NOT NULL,
    of_tree INTEGER NOT NULL,
    made_by INTEGER,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER
) STRICT;

CREATE TABLE switches (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    from_tid INTEGER NOT NULL,
    went TEXT NOT NULL,
    to_tid INTEGER NOT NULL,
    stack INTEGER
) STRICT;

CREATE TABLE wakeups (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    by_tid INTEGER,
    woken_tid INTEGER NOT NULL,
    is_new INTEGER NOT NULL,
    stack INTEGER
) STRICT;

CREATE TABLE samples (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    in_kernel INTEGER NOT NULL,
    stack INTEGER
) STRICT;

CREATE TABLE frames (
    run INTEGER NOT NULL,
    frame INTEGER NOT NULL,
    function TEXT,
    object TEXT NOT NULL,
    source TEXT,
    inlined INTEGER NOT NULL,
    address INTEGER NOT NULL,
    PRIMARY KEY (run, frame)
) STRICT, WITHOUT ROWID;

CREATE TABLE stacks (
    run INTEGER NOT NULL,
    stack INTEGER NOT NULL,
    caller INTEGER,
    frame INTEGER NOT NULL,
    PRIMARY KEY (run, stack)
) STRICT, WITHOUT ROWID;

CREATE TABLE loader_runs (
    run INTEGER PRIMARY KEY,
    stops INTEGER NOT NULL,
    stopped_ns INTEGER NOT NULL,
    subtracted_ns INTEGER NOT NULL,
    waited_ns INTEGER NOT NULL,
    first INTEGER NOT NULL,
    breakpoint_ns INTEGER NOT NULL,
    call_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE loader_starts (
    run INTEGER NOT NULL,
    start INTEGER NOT NULL,
    program ANY NOT NULL,
    because TEXT,
    exec_ns INTEGER,
    before_main_ns INTEGER,
    PRIMARY KEY (run, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE loader_limits (
    run INTEGER NOT NULL,
    start INTEGER NOT NULL,
    position INTEGER NOT NULL,
    cannot TEXT NOT NULL,
    PRIMARY KEY (run, start, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE loader_phases (
    run INTEGER NOT NULL,
    start INTEGER NOT NULL,
    position INTEGER NOT NULL,
    phase TEXT NOT NULL,
    from_ns INTEGER NOT NULL,
    took_ns INTEGER NOT NULL,
    PRIMARY KEY (run, start, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE loader_objects (
    run INTEGER NOT NULL,
    start INTEGER NOT NULL,
    position INTEGER NOT NULL,
    path ANY NOT NULL,
    is_object INTEGER NOT NULL,
    mapped_ns INTEGER,
    relocated_ns INTEGER,
    protected_ns INTEGER,
    relative INTEGER NOT NULL,
    symbolic INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    irelative INTEGER NOT NULL,
    thread_local INTEGER NOT NULL,
    copies INTEGER NOT NULL,
    bound_at_once INTEGER NOT NULL,
    PRIMARY KEY (run, start, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE initialisers (
    run INTEGER NOT NULL,
    start INTEGER NOT NULL,
    position INTEGER NOT NULL,
    object ANY NOT NULL,
    address INTEGER NOT NULL,
    in_table TEXT NOT NULL,
    place INTEGER NOT NULL,
    function TEXT,
    source TEXT,
    tid INTEGER NOT NULL,
    began_ns INTEGER NOT NULL,
    took_ns INTEGER NOT NULL,
    cpu_ns INTEGER,
    within INTEGER,
    returned INTEGER NOT NULL,
    PRIMARY KEY (run, start, position)
) STRICT, WITHOUT ROWID;
