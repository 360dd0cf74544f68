-- Version 1 of a history. Rows are only ever added: triggers refuse the rest.
CREATE TABLE setups (
    setup INTEGER PRIMARY KEY,
    identity TEXT NOT NULL
) STRICT;
CREATE TABLE commits (
    commit_id TEXT PRIMARY KEY,
    repository TEXT NOT NULL,
    ancestors INTEGER NOT NULL,
    committed_unix_s INTEGER NOT NULL,
    authored_unix_s INTEGER NOT NULL,
    subject TEXT NOT NULL
) STRICT;
CREATE TABLE recordings (
    recording INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    content TEXT NOT NULL,
    file TEXT NOT NULL,
    created_unix_ns INTEGER NOT NULL,
    added_unix_ns INTEGER NOT NULL,
    thaw_version TEXT NOT NULL,
    commit_id TEXT NOT NULL REFERENCES commits (commit_id),
    dirty INTEGER NOT NULL CHECK (dirty IN (0, 1)),
    setup INTEGER NOT NULL REFERENCES setups (setup),
    UNIQUE (source, content)
) STRICT;
CREATE TABLE figures (
    recording INTEGER NOT NULL REFERENCES recordings (recording),
    variant TEXT NOT NULL,
    state TEXT NOT NULL,
    metric TEXT NOT NULL,
    run INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (recording, variant, state, metric, run)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER setups_stay BEFORE UPDATE ON setups BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER setups_keep BEFORE DELETE ON setups BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER commits_stay BEFORE UPDATE ON commits BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER commits_keep BEFORE DELETE ON commits BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER recordings_stay BEFORE UPDATE ON recordings BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER recordings_keep BEFORE DELETE ON recordings BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER figures_stay BEFORE UPDATE ON figures BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
CREATE TRIGGER figures_keep BEFORE DELETE ON figures BEGIN SELECT RAISE(ABORT, 'a history is only added to'); END;
