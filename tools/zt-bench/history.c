/* history.c - owns the file of --history (history.h): writing and reading it by SQLite. */
#include "tools/zt-bench/history.h"

#if !defined(ZT_HAVE_SQLITE)

static zt_status fail_absent(zt_cli *cli, const char *path)
{
    return zt_fail(cli->ctx, ZT_ENOTSUP, "%s: history is not supported: zt was built without SQLite", path);
}

zt_status bench_history_add(zt_cli *cli, const char *path, const char *commit, const bench_list *list)
{
    (void)list, (void)commit;
    return fail_absent(cli, path);
}

zt_status bench_history_read(zt_cli *cli, const char *path, bench_past_fn *visit, void *user)
{
    (void)visit, (void)user;
    return fail_absent(cli, path);
}

#else

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What tells our files: "ztbn", and the number of the tables' form. */
enum { OURS = 0x7a74626e, FORM = 1, PATIENCE = 10000 /* ms for another writer */ };

static const char make_tables[] = "CREATE TABLE run(id INTEGER PRIMARY KEY, at TEXT NOT NULL, command TEXT NOT NULL,"
                                  " version TEXT NOT NULL, os TEXT NOT NULL, cpu TEXT NOT NULL, isa TEXT NOT NULL,"
                                  " processors INTEGER NOT NULL, engine TEXT, model TEXT, model_id TEXT, model_bytes INTEGER,"
                                  " commit_id TEXT);"
                                  "CREATE TABLE result(id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id),"
                                  " test TEXT NOT NULL, threads INTEGER NOT NULL, unit TEXT NOT NULL, median REAL, low REAL,"
                                  " high REAL, roof_share REAL);"
                                  "CREATE TABLE sample(result INTEGER NOT NULL REFERENCES result(id), n INTEGER NOT NULL,"
                                  " value REAL, PRIMARY KEY(result, n)) WITHOUT ROWID;"
                                  "PRAGMA application_id = 2054447726; PRAGMA user_version = 1;";
_Static_assert(OURS == 2054447726, "the number in make_tables");

typedef struct history_file {
    zt_cli *cli;
    const char *path;
    const char *commit; /* of the run that is added; NULL: not known */
    sqlite3 *database;
    sqlite3_stmt *run, *result, *sample;
} history_file;

/* ---- failures -------------------------------------------------------------------------------- */

static zt_status fail_history(const history_file *history, int code)
{
    static const struct {
        int rc;
        zt_status s;
    } table[] = {{SQLITE_NOTADB, ZT_EDATA},     {SQLITE_CORRUPT, ZT_EDATA}, {SQLITE_ERROR, ZT_EDATA},
                 {SQLITE_CONSTRAINT, ZT_EDATA}, {SQLITE_NOMEM, ZT_ENOMEM},  {SQLITE_CANTOPEN, ZT_ECREATE},
                 {SQLITE_READONLY, ZT_ECREATE}, {SQLITE_PERM, ZT_ECREATE}};
    zt_status status = ZT_EIO;
    char shown[256];
    const char *why = history->database ? sqlite3_errmsg(history->database) : sqlite3_errstr(code);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((code & 0xff) == table[i].rc) status = table[i].s;
    return zt_fail(history->cli->ctx, status, "%s: %s", history->path, zt_escape(shown, sizeof shown, why, strlen(why)));
}

static zt_status run_sql(const history_file *history, const char *sql)
{
    int code = sqlite3_exec(history->database, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? ZT_OK : fail_history(history, code);
}

/* A statement's one number. */
static zt_status query_number(const history_file *history, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(history->database, sql, -1, &statement, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(statement);
    zt_status status = code == SQLITE_ROW ? ZT_OK : fail_history(history, code);
    *out = status ? 0 : sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* *empty: nothing is in it yet. */
static zt_status check_ours(const history_file *history, bool *empty)
{
    int64_t tables = 0, ours = 0, form = 0;
    zt_status status = query_number(history, "SELECT count(*) FROM sqlite_master", &tables);
    if (!status) status = query_number(history, "PRAGMA application_id", &ours);
    if (!status) status = query_number(history, "PRAGMA user_version", &form);
    *empty = tables == 0 && ours == 0;
    if (status || *empty) return status;
    if (ours != OURS)
        return zt_fail(history->cli->ctx, ZT_EDATA, "%s: not a zt-bench history, but another SQLite database", history->path);
    if (form == FORM) return ZT_OK;
    return zt_fail(history->cli->ctx, ZT_ENOTSUP, "%s: unsupported history format version %" PRId64 ", expected %d",
                   history->path, form, FORM);
}

static zt_status open_file(history_file *history, int flags)
{
    if (!*history->path || *history->path == ':' || !strcmp(history->path, "-")) /* SQLite's own meanings */
        return zt_fail(history->cli->ctx, ZT_EUSAGE, "--history: '%s' is not a file name", history->path);
    struct stat info;
    if (stat(history->path, &info) == 0 && S_ISDIR(info.st_mode)) /* SQLite would speak of its own file in it */
        return zt_fail(history->cli->ctx, flags & SQLITE_OPEN_READONLY ? ZT_ENOENT : ZT_ECREATE, "%s: is a directory",
                       history->path);
    int code = sqlite3_open_v2(history->path, &history->database, flags, NULL);
    if (code != SQLITE_OK) return fail_history(history, code);
    sqlite3_busy_timeout(history->database, PATIENCE);
    /* of a hostile file: no functions from its schema, and pages are looked at before use */
    sqlite3_db_config(history->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(history->database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return run_sql(history, "PRAGMA cell_size_check = 1");
}

static void close_file(history_file *history)
{
    sqlite3_finalize(history->run);
    sqlite3_finalize(history->result);
    sqlite3_finalize(history->sample);
    sqlite3_close(history->database);
}

/* Has the table of runs a column for the commit? Files of older versions have none. */
static zt_status has_commits(const history_file *history, bool *has)
{
    int64_t count = 0;
    zt_status status = query_number(history, "SELECT count(*) FROM pragma_table_info('run') WHERE name = 'commit_id'", &count);
    *has = count > 0;
    return status;
}

/* ---- write ----------------------------------------------------------------------------------- */

static zt_status prepare_statement(const history_file *history, sqlite3_stmt **statement, const char *sql)
{
    int code = sqlite3_prepare_v2(history->database, sql, -1, statement, NULL);
    return code == SQLITE_OK ? ZT_OK : fail_history(history, code);
}

static zt_status prepare_all(history_file *history)
{
    zt_status status = prepare_statement(history, &history->run,
                                         "INSERT INTO run(at, command, version, os, cpu, isa, processors, engine,"
                                         " model, model_id, model_bytes, commit_id) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)");
    if (!status)
        status = prepare_statement(history, &history->result,
                                   "INSERT INTO result(run, test, threads, unit, median, low, high, roof_share)"
                                   " VALUES(?,?,?,?,?,?,?,?)");
    return status ? status : prepare_statement(history, &history->sample, "INSERT INTO sample(result, n, value) VALUES(?,?,?)");
}

/* NULL: nothing there. */
static void bind_text(sqlite3_stmt *statement, int column, const char *text)
{
    if (text) sqlite3_bind_text(statement, column, text, -1, SQLITE_STATIC);
}

/* A failed bind leaves nothing there, which the table's NOT NULL refuses. */
static zt_status insert_row(const history_file *history, sqlite3_stmt *statement)
{
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return code == SQLITE_DONE ? ZT_OK : fail_history(history, code);
}

static zt_status add_run(const history_file *history, const bench_list *list)
{
    char time_text[32];
    time_t now = time(NULL);
    struct tm utc;
    bench_machine_id machine = list->machine;
    if (!machine.os[0]) bench_machine_here(history->cli, &machine);
    strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const char *const text[] = {time_text, history->cli->operands[0], machine.version, machine.os, machine.cpu, machine.isa};
    for (int i = 0; i < 6; i++) bind_text(history->run, i + 1, text[i]);
    sqlite3_bind_int64(history->run, 7, machine.threads);
    bind_text(history->run, 8, list->engine[0] ? list->engine : NULL);
    bind_text(history->run, 9, list->model);
    bind_text(history->run, 10, list->model_id);
    if (list->model) sqlite3_bind_int64(history->run, 11, (sqlite3_int64)list->model_bytes);
    bind_text(history->run, 12, history->commit);
    return insert_row(history, history->run);
}

static zt_status add_result(const history_file *history, sqlite3_int64 run, const bench_result *row, double *scratch)
{
    bench_summary summary = bench_summarize(row->samples, row->count, scratch);
    const double values[] = {summary.median, summary.ci95[0], summary.ci95[1]};
    sqlite3_bind_int64(history->result, 1, run);
    bind_text(history->result, 2, row->test);
    sqlite3_bind_int64(history->result, 3, row->threads);
    bind_text(history->result, 4, row->unit);
    for (int i = 0; i < 3; i++) sqlite3_bind_double(history->result, 5 + i, values[i]);
    if (row->roof > 0) sqlite3_bind_double(history->result, 8, bench_roof_share(row, summary.median));
    zt_status status = insert_row(history, history->result);
    sqlite3_int64 result = sqlite3_last_insert_rowid(history->database);
    for (int64_t i = 0; i < row->count && !status; i++) {
        sqlite3_bind_int64(history->sample, 1, result);
        sqlite3_bind_int64(history->sample, 2, i);
        sqlite3_bind_double(history->sample, 3, row->samples[i]); /* NaN: NULL */
        status = insert_row(history, history->sample);
    }
    return status;
}

static zt_status add_all(history_file *history, const bench_list *list, double *scratch)
{
    bool empty = false;
    zt_status status = run_sql(history, "BEGIN IMMEDIATE");
    if (!status) status = check_ours(history, &empty);
    if (!status && empty) status = run_sql(history, make_tables);
    bool commits = false;
    if (!status) status = has_commits(history, &commits);
    if (!status && !commits) status = run_sql(history, "ALTER TABLE run ADD COLUMN commit_id TEXT");
    if (!status) status = prepare_all(history);
    if (!status) status = add_run(history, list);
    sqlite3_int64 run = sqlite3_last_insert_rowid(history->database);
    for (const bench_result *result = list->first; result && !status; result = result->next)
        if (result->count) status = add_result(history, run, result, scratch);
    return status ? status : run_sql(history, "COMMIT"); /* else closing rolls back */
}

zt_status bench_history_add(zt_cli *cli, const char *path, const char *commit, const bench_list *list)
{
    history_file history = {.cli = cli, .path = path, .commit = commit};
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status status = scratch ? open_file(&history, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) : ZT_ENOMEM;
    if (!status) status = add_all(&history, list, scratch);
    close_file(&history);
    zt_free(cli->ctx, scratch);
    return status;
}

/* ---- read ------------------------------------------------------------------------------------ */

static const char *text_at(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

static double real_at(sqlite3_stmt *statement, int column)
{
    return sqlite3_column_type(statement, column) == SQLITE_NULL ? NAN : sqlite3_column_double(statement, column);
}

static zt_status visit_rows(sqlite3_stmt *statement, bench_past_fn *visit, void *user)
{
    bench_past past = {.run = sqlite3_column_int64(statement, 0),
                       .time = text_at(statement, 1),
                       .command = text_at(statement, 2),
                       .version = text_at(statement, 3),
                       .cpu = text_at(statement, 4),
                       .engine = text_at(statement, 5),
                       .model = text_at(statement, 6),
                       .model_id = text_at(statement, 7),
                       .test = text_at(statement, 8),
                       .unit = text_at(statement, 9),
                       .threads = sqlite3_column_int64(statement, 10),
                       .median = real_at(statement, 11),
                       .low = real_at(statement, 12),
                       .high = real_at(statement, 13),
                       .samples = sqlite3_column_int64(statement, 14),
                       .commit = text_at(statement, 15)};
    return visit(user, &past);
}

static zt_status read_all(history_file *history, bench_past_fn *visit, void *user)
{
#define QUERY(commit)                                                                                                            \
    "SELECT run.id, at, command, version, cpu, engine, model, model_id, test, unit, result.threads, median, low, high,"          \
    " (SELECT count(*) FROM sample WHERE sample.result = result.id), " commit                                                    \
    " FROM result JOIN run ON run.id = result.run ORDER BY run.id, result.id"
    bool empty = false, commits = false;
    zt_status status = check_ours(history, &empty);
    if (status || empty) return status;
    status = has_commits(history, &commits);
    if (!status) status = prepare_statement(history, &history->result, commits ? QUERY("commit_id") : QUERY("NULL"));
    int code = status ? SQLITE_DONE : sqlite3_step(history->result);
    for (; code == SQLITE_ROW && !status; code = sqlite3_step(history->result))
        status = zt_cli_interrupted() ? ZT_EINTR : visit_rows(history->result, visit, user);
    return status || code == SQLITE_DONE ? status : fail_history(history, code);
}

zt_status bench_history_read(zt_cli *cli, const char *path, bench_past_fn *visit, void *user)
{
    history_file history = {.cli = cli, .path = path};
    if (strcmp(path, "-") && access(path, R_OK)) return zt_fail(cli->ctx, ZT_ENOENT, "%s: %s", path, strerror(errno));
    zt_status status = open_file(&history, SQLITE_OPEN_READONLY);
    if (!status) status = read_all(&history, visit, user);
    close_file(&history);
    return status;
}

#endif
