"""Asks ClickHouse, as the library chdb, questions about a folder of segments.

stdin: one JSON object with "files" (absolute paths) and "questions" (SQL). stdout, for each question: one JSON array for each row,
the first one the names of the columns, and an empty line. Exit code 3: chdb is missing.
"""
import json
import sys
import tempfile

# Columns of a line; those of the view `pings` come from them.
SCHEMA = """schema String, id String, machine String, app String, version String, day String, state String, ready String,
wall_us Int64, user_us Int64, system_us Int64, minor_faults Int64, major_faults Int64, read_bytes Nullable(Int64), max_rss_bytes Int64,
cpus String, memory String, disk String, kernel String, distribution String, remedies Array(String)"""
TABLE = """create table pings (id String, machine String, app LowCardinality(String), version LowCardinality(String), day LowCardinality(String),
state LowCardinality(String), ready LowCardinality(String), wall_us Int64, user_us Int64, system_us Int64, minor_faults Int64,
major_faults Int64, read_bytes Nullable(Int64), max_rss_bytes Int64, cpus LowCardinality(String), memory LowCardinality(String),
disk LowCardinality(String), kernel LowCardinality(String), distribution LowCardinality(String), preload Int64, packed Int64,
ordered Int64, archive Int64) engine = ReplacingMergeTree order by id"""
PLAIN = [part.split()[0] for part in SCHEMA.replace("\n", " ").split(",")][1:-1]

asked = json.load(sys.stdin)
try:
    from chdb import session
except ImportError:
    print("the Python module chdb is not installed", file=sys.stderr)
    sys.exit(3)

quoted = lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
with tempfile.TemporaryDirectory(prefix="thaw-fleet-") as scratch:
    clickhouse = session.Session(scratch)
    # The columns are those of the lines: none comes from the names of the folders.
    settings = "settings use_hive_partitioning = 0, input_format_skip_unknown_fields = 1"
    clickhouse.query("create database fleet")
    clickhouse.query("use fleet")
    clickhouse.query(TABLE.replace("create table pings", "create table raw"))
    columns = ", ".join(PLAIN + [f"has(remedies, '{name}')" for name in ("preload", "packed", "ordered", "archive")])
    for path in asked["files"]:
        # A damaged file is an error: an answer about a part would look like one about all.
        source = f"file({quoted(path)}, 'JSONEachRow', {quoted(SCHEMA)}, 'zstd')"
        clickhouse.query(f"insert into raw select {columns} from {source} {settings}")
    # A ping that came twice counts once.
    clickhouse.query("create view pings as select * from raw final")
    for question in asked["questions"]:
        answer = clickhouse.query(question.rstrip().rstrip(";"), "JSONCompactEachRowWithNames")
        # Its integers of 64 bits may come as text.
        text = answer.bytes().decode()
        rows = [json.loads(line) for line in text.splitlines() if line]
        print(json.dumps(rows[0]))
        for row in rows[1:]:
            print(json.dumps(row))
        print()
    clickhouse.close()
