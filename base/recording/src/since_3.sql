-- What version 3 of the schema added to version 2.

CREATE TABLE owners (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    rule TEXT NOT NULL,
    what TEXT,
    because TEXT
) STRICT;

CREATE TABLE held (
    run INTEGER NOT NULL,
    file INTEGER NOT NULL,
    processes INTEGER NOT NULL,
    example TEXT NOT NULL
) STRICT;

CREATE TABLE direct (
    run INTEGER NOT NULL,
    at_ns INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    file INTEGER NOT NULL,
    offset_bytes INTEGER NOT NULL,
    length_bytes INTEGER NOT NULL,
    write INTEGER NOT NULL
) STRICT;

CREATE TABLE file_systems (
    run INTEGER NOT NULL,
    dev INTEGER NOT NULL,
    type TEXT NOT NULL,
    point ANY NOT NULL,
    source TEXT NOT NULL,
    on_disk INTEGER NOT NULL
) STRICT;
