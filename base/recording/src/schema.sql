-- The schema of a recording, version 2; since_3.sql has what came later. Every table, column, unit and word is explained in docs/recording.md; a test
-- holds that page against this file.
--
-- Rows are only ever added. Tables are flat: a row makes sense with its `run` number and without a join, except that
-- `file` numbers point into `files` of the same run. Where order matters it is the order of insertion (rowid).
-- ANY columns hold names that the system gave: TEXT where they are UTF-8, else BLOB.

CREATE TABLE header (
    thaw_version TEXT NOT NULL,
    created_unix_ns INTEGER NOT NULL,
    cwd ANY NOT NULL,
    plan TEXT NOT NULL,
    seed INTEGER NOT NULL
) STRICT;

CREATE TABLE command_line (
    position INTEGER PRIMARY KEY,
    argument ANY NOT NULL
) STRICT;

CREATE TABLE environment (
    name ANY NOT NULL,
    value ANY NOT NULL
) STRICT;

CREATE TABLE endings (
    finished_unix_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE facts (
    subject TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE binaries (
    path ANY NOT NULL,
    size_bytes INTEGER NOT NULL,
    mtime_unix_ns INTEGER NOT NULL,
    build_id TEXT
) STRICT;

CREATE TABLE variants (
    variant INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE arguments (
    variant INTEGER NOT NULL,
    position INTEGER NOT NULL,
    argument ANY NOT NULL
) STRICT;

CREATE TABLE warnings (
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    hint TEXT,
    run INTEGER
) STRICT;

CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    variant INTEGER NOT NULL,
    state TEXT NOT NULL,
    kind TEXT NOT NULL,
    block INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    rejected_because TEXT,
    started_unix_ns INTEGER NOT NULL,
    wall_ns INTEGER,
    exit_ns INTEGER,
    user_ns INTEGER NOT NULL,
    system_ns INTEGER NOT NULL,
    max_rss_bytes INTEGER NOT NULL,
    minor_faults INTEGER NOT NULL,
    major_faults INTEGER NOT NULL,
    read_bytes INTEGER,
    read_requests INTEGER,
    written_bytes INTEGER,
    instructions INTEGER,
    cycles INTEGER,
    exit_code INTEGER,
    exit_signal INTEGER,
    others_cpu_share REAL,
    others_io_pressure REAL,
    own_resident_share REAL,
    system_resident_share REAL
) STRICT;

CREATE TABLE milestones (
    run INTEGER NOT NULL,
    name TEXT NOT NULL,
    at_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE residency (
    run INTEGER NOT NULL,
    path ANY NOT NULL,
    needed_bytes INTEGER NOT NULL,
    resident_bytes INTEGER NOT NULL
) STRICT;

-- The trace tables. All of one traced run are written in one transaction.

CREATE TABLE traces (
    run INTEGER PRIMARY KEY,
    engine TEXT NOT NULL,
    records INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    moved_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE trace_limits (
    run INTEGER NOT NULL,
    cannot TEXT NOT NULL
) STRICT;

CREATE TABLE files (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    path ANY NOT NULL,
    kind TEXT NOT NULL,
    owner TEXT NOT NULL,
    dev INTEGER NOT NULL,
    ino INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    extents INTEGER,
    build_id TEXT,
    PRIMARY KEY (run, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE sections (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    name TEXT NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX sections_by_file ON sections (run, file, offset_bytes);

CREATE TABLE extents (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    disk_offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE fills (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    cause TEXT NOT NULL
) STRICT;

CREATE TABLE reads (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE faults (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    missed INTEGER NOT NULL
) STRICT;

CREATE TABLE blocks (
    run INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    done_ns INTEGER,
    pid INTEGER,
    dev INTEGER NOT NULL,
    disk_offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    write INTEGER NOT NULL,
    served TEXT NOT NULL,
    file INTEGER,
    offset_bytes INTEGER,
    flags TEXT NOT NULL
) STRICT;

CREATE TABLE processes (
    run INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    comm TEXT NOT NULL,
    exe ANY,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER
) STRICT;

CREATE TABLE mmaps (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    exec INTEGER NOT NULL
) STRICT;

CREATE TABLE opens (
    run INTEGER NOT NULL,
    path ANY NOT NULL,
    count INTEGER NOT NULL
) STRICT;

CREATE TABLE syncs (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    file INTEGER NOT NULL,
    took_ns INTEGER
) STRICT;

CREATE TABLE touch (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    position INTEGER,
    at_ns INTEGER,
    tid INTEGER,
    engine TEXT NOT NULL,
    name TEXT
) STRICT;

CREATE TABLE watched (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    functions INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    starts TEXT NOT NULL
) STRICT;

-- Views for people. Time waiting is the union of the intervals in which at least one read request was in flight: two
-- requests at the same moment are waited for once.

CREATE VIEW v_runs AS
SELECT
    runs.run,
    runs.variant,
    variants.name AS variant_name,
    runs.state,
    runs.kind,
    runs.block,
    runs.attempt,
    runs.accepted,
    runs.rejected_because,
    runs.wall_ns / 1e9 AS wall_s,
    runs.exit_ns / 1e9 AS exit_s,
    runs.user_ns / 1e9 AS user_s,
    runs.system_ns / 1e9 AS system_s,
    runs.max_rss_bytes / 1e6 AS max_rss_mb,
    runs.major_faults,
    runs.read_bytes / 1e6 AS read_mb,
    runs.read_requests,
    runs.own_resident_share,
    runs.system_resident_share,
    runs.run IN (SELECT traces.run FROM traces) AS traced
FROM runs LEFT JOIN variants USING (variant);

CREATE VIEW v_files AS
WITH
    -- Read requests with the file that each served; one for metadata belongs to the metadata of its device, or to the
    -- first metadata of the run where no device agrees. NULL: it could not be told.
    requests AS (
        SELECT run, start_ns, done_ns, length_bytes,
            CASE served
                WHEN 'file' THEN file
                WHEN 'metadata' THEN (
                    SELECT files.file FROM files
                    WHERE files.run = blocks.run AND files.kind = 'metadata'
                    ORDER BY files.dev = blocks.dev DESC, files.file LIMIT 1)
            END AS file
        FROM blocks WHERE write = 0
    ),
    flights AS (
        SELECT *, max(done_ns) OVER (
            PARTITION BY run, file ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until_ns
        FROM requests
    ),
    waits AS (
        SELECT run, file, count(*) AS requests, sum(length_bytes) AS request_bytes,
            sum(max(0, coalesce(done_ns, start_ns) - max(start_ns, coalesce(busy_until_ns, 0)))) AS waiting_ns
        FROM flights GROUP BY run, file
    ),
    filled AS (
        SELECT run, file, min(at_ns) AS first_fill_ns, sum(length_bytes) AS filled_bytes
        FROM fills WHERE cause <> 'write' GROUP BY run, file
    )
SELECT
    files.run,
    files.file,
    files.path,
    files.kind,
    files.owner,
    files.size_bytes,
    files.extents,
    filled.first_fill_ns,
    coalesce(filled.filled_bytes, 0) AS filled_bytes,
    coalesce(waits.requests, 0) AS requests,
    coalesce(waits.request_bytes, 0) AS request_bytes,
    coalesce(waits.waiting_ns, 0) AS waiting_ns
FROM files
    LEFT JOIN filled ON filled.run = files.run AND filled.file = files.file
    LEFT JOIN waits ON waits.run = files.run AND waits.file = files.file
UNION ALL
SELECT run, NULL, NULL, 'unattributed', NULL, NULL, NULL, NULL, 0, requests, request_bytes, waiting_ns
FROM waits WHERE file IS NULL;

CREATE VIEW v_sections AS
WITH
    requests AS (
        SELECT sections.rowid AS section, start_ns, done_ns, max(done_ns) OVER (
            PARTITION BY sections.rowid ORDER BY start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until_ns
        FROM blocks JOIN sections ON sections.run = blocks.run AND sections.file = blocks.file
            AND sections.offset_bytes < blocks.offset_bytes + blocks.length_bytes
            AND sections.offset_bytes + sections.length_bytes > blocks.offset_bytes
        WHERE blocks.write = 0 AND blocks.served = 'file'
    ),
    waits AS (
        SELECT section, count(*) AS requests,
            sum(max(0, coalesce(done_ns, start_ns) - max(start_ns, coalesce(busy_until_ns, 0)))) AS waiting_ns
        FROM requests GROUP BY section
    ),
    filled AS (
        SELECT sections.rowid AS section, min(fills.at_ns) AS first_fill_ns, sum(
            min(sections.offset_bytes + sections.length_bytes, fills.offset_bytes + fills.length_bytes)
            - max(sections.offset_bytes, fills.offset_bytes)) AS filled_bytes
        FROM fills JOIN sections ON sections.run = fills.run AND sections.file = fills.file
            AND sections.offset_bytes < fills.offset_bytes + fills.length_bytes
            AND sections.offset_bytes + sections.length_bytes > fills.offset_bytes
        WHERE fills.cause <> 'write' GROUP BY sections.rowid
    )
SELECT
    sections.run,
    sections.file,
    files.path,
    sections.name AS section,
    sections.offset_bytes,
    sections.length_bytes,
    filled.first_fill_ns,
    coalesce(filled.filled_bytes, 0) AS filled_bytes,
    coalesce(waits.requests, 0) AS requests,
    coalesce(waits.waiting_ns, 0) AS waiting_ns
FROM sections
    LEFT JOIN files ON files.run = sections.run AND files.file = sections.file
    LEFT JOIN filled ON filled.section = sections.rowid
    LEFT JOIN waits ON waits.section = sections.rowid;
