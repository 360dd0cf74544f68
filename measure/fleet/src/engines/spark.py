"""Asks Apache Spark questions about a list of segments.

stdin: one JSON object with "files" (absolute paths), "questions" (SQL), and "master" (spark://HOST:PORT, local[N]; null: what
spark-submit gives or local[*]). stdout, for each question: one JSON array for each row, the first one the names of the columns, and an
empty line. Exit code 3: Spark or Java is missing.
"""
import json
import os
import shutil
import sys

# Columns of a line; those of the view `pings` come from them.
SCHEMA = """schema string, id string, machine string, app string, version string, day string, state string, ready string,
wall_us bigint, user_us bigint, system_us bigint, minor_faults bigint, major_faults bigint, read_bytes bigint,
max_rss_bytes bigint, cpus string, memory string, disk string, kernel string, distribution string,
remedies array<string>"""
PLAIN = [part.split()[0] for part in SCHEMA.split(",")][1:-1]


def lacks(what):
    print(what, file=sys.stderr)
    sys.exit(3)


asked = json.load(sys.stdin)
try:
    from pyspark.sql import SparkSession
    from pyspark.storagelevel import StorageLevel
except ImportError:
    lacks("the Python module pyspark is not installed")
if not (shutil.which("java") or os.path.exists(os.path.join(os.environ.get("JAVA_HOME", "/nonexistent"), "bin", "java"))):
    lacks("there is no java")

builder = SparkSession.builder.appName("thaw-fleet").config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.adaptive.enabled", "true")
if asked["master"]:
    builder = builder.master(asked["master"])
elif "MASTER" not in os.environ and "SPARK_MASTER" not in os.environ:
    builder = builder.master("local[*]")
session = builder.getOrCreate()
session.sparkContext.setLogLevel("ERROR")
# Spark's own 200 are for clusters of hundreds of cores: each costs more than the few rows of a small fleet that it gets.
session.conf.set("spark.sql.shuffle.partitions", str(max(8, 4 * session.sparkContext.defaultParallelism)))
# A damaged file or line ends the question: an answer about a part would look like one about all.
session.conf.set("spark.sql.files.ignoreCorruptFiles", "false")
read = session.read.schema(SCHEMA).option("mode", "FAILFAST").option("recursiveFileLookup", "true")
lines = read.json(asked["files"]).dropDuplicates(["id"])
columns = PLAIN + [
    f"cast(coalesce(array_contains(remedies, '{name}'), false) as int) as {name}" for name in ("preload", "packed", "ordered", "archive")
]
pings = lines.selectExpr(*columns).persist(StorageLevel.MEMORY_AND_DISK)
pings.createOrReplaceTempView("pings")
for question in asked["questions"]:
    answer = session.sql(question)
    print(json.dumps(answer.columns))
    for row in answer.collect():
        print(json.dumps(list(row)))
    print()
session.stop()
