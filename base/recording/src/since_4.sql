-- What version 4 of the schema added to version 3: events that the program told of, and who woke whom.

CREATE TABLE wakes (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    by_tid INTEGER
) STRICT;

CREATE TABLE event_sources (
    run INTEGER NOT NULL,
    path ANY NOT NULL,
    form TEXT NOT NULL,
    process INTEGER NOT NULL,
    step_ns INTEGER NOT NULL,
    is_ordered INTEGER NOT NULL,
    command_line TEXT NOT NULL
) STRICT;

CREATE TABLE event_losses (
    run INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    overwritten INTEGER NOT NULL,
    types INTEGER NOT NULL,
    texts_cut INTEGER NOT NULL
) STRICT;

CREATE TABLE event_processes (
    run INTEGER NOT NULL,
    process INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    program TEXT NOT NULL,
    filter TEXT NOT NULL,
    PRIMARY KEY (run, process)
) STRICT, WITHOUT ROWID;

CREATE TABLE event_threads (
    run INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    process INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    name TEXT NOT NULL,
    writer INTEGER,
    PRIMARY KEY (run, thread)
) STRICT, WITHOUT ROWID;

CREATE TABLE event_types (
    run INTEGER NOT NULL,
    type INTEGER NOT NULL,
    name TEXT NOT NULL,
    file TEXT NOT NULL,
    line INTEGER NOT NULL,
    concluded TEXT
) STRICT;

CREATE TABLE events (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    phase TEXT NOT NULL,
    is_shared INTEGER NOT NULL,
    object INTEGER NOT NULL,
    type INTEGER,
    other INTEGER,
    text TEXT
) STRICT;
CREATE INDEX events_by_object ON events (run, object, at_ns);

-- From each WAIT or EXEC of an object to what it does next; of an object that several threads work on at once, on the
-- same thread. What has not ended has no end.
CREATE VIEW v_intervals AS
WITH
    said AS (
        SELECT run, object, thread, phase, type, at_ns, lead(at_ns) OVER (
            PARTITION BY run, object, CASE WHEN is_shared THEN thread END ORDER BY at_ns, rowid) AS until_ns
        FROM events WHERE phase IN ('wait', 'exec', 'done', 'free')
    )
SELECT
    said.run,
    said.object,
    (SELECT text FROM events WHERE events.run = said.run AND events.object = said.object
        AND events.phase = 'name' AND events.at_ns <= coalesce(said.until_ns, said.at_ns)
        ORDER BY events.at_ns DESC LIMIT 1) AS name,
    event_types.name AS type,
    said.phase AS state,
    event_processes.pid,
    event_threads.tid,
    said.at_ns / 1e9 AS from_s,
    (said.until_ns - said.at_ns) / 1e9 AS took_s
FROM said
    LEFT JOIN event_types ON event_types.run = said.run AND event_types.type = said.type
    LEFT JOIN event_threads ON event_threads.run = said.run AND event_threads.thread = said.thread
    LEFT JOIN event_processes ON event_processes.run = said.run AND event_processes.process = event_threads.process
WHERE said.phase IN ('wait', 'exec');
