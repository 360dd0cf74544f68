/* A small start with SQLite: makes a table in memory, fills it, asks a question. */
#include "sqlite3.h"
#include <stdio.h>

static int row(void *unused, int columns, char **values, char **names) {
    (void)unused, (void)columns, (void)names;
    printf("%s\n", values[0]);
    return 0;
}

int main(void) {
    sqlite3 *database;
    char *error = 0;
    const char *work = "create table t (a integer primary key, b text);"
                       "with recursive n(x) as (select 1 union all select x + 1 from n where x < 100)"
                       "insert into t select x, 'number ' || x from n;"
                       "create index i on t (b); select count(*) || ' ' || max(b) from t where b like '%1%';";
    if (sqlite3_open(":memory:", &database) || sqlite3_exec(database, work, row, 0, &error)) {
        fprintf(stderr, "%s\n", error ? error : "cannot open");
        return 1;
    }
    return sqlite3_close(database);
}
