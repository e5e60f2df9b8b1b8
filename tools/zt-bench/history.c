/* history.c - owns the file of --history (history.h): writing and reading it by SQLite. */
#include "tools/zt-bench/history.h"

#if !defined(ZT_HAVE_SQLITE)

static zt_status absent(zt_cli *cli, const char *path)
{
    return zt_fail(cli->ctx, ZT_ENOTSUP, "%s: zt was built without SQLite: there is no history",
                   path);
}

zt_status bench_history_add(zt_cli *cli, const char *path, const bench_list *l)
{
    (void)l;
    return absent(cli, path);
}

zt_status bench_history_read(zt_cli *cli, const char *path, bench_past_fn *fn, void *user)
{
    (void)fn, (void)user;
    return absent(cli, path);
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

static const char make_tables[] =
    "CREATE TABLE run(id INTEGER PRIMARY KEY, at TEXT NOT NULL, command TEXT NOT NULL,"
    " version TEXT NOT NULL, os TEXT NOT NULL, cpu TEXT NOT NULL, isa TEXT NOT NULL,"
    " processors INTEGER NOT NULL, engine TEXT, model TEXT, model_id TEXT, model_bytes INTEGER);"
    "CREATE TABLE result(id INTEGER PRIMARY KEY, run INTEGER NOT NULL REFERENCES run(id),"
    " test TEXT NOT NULL, threads INTEGER NOT NULL, unit TEXT NOT NULL, median REAL, low REAL,"
    " high REAL, roof_share REAL);"
    "CREATE TABLE sample(result INTEGER NOT NULL REFERENCES result(id), n INTEGER NOT NULL,"
    " value REAL, PRIMARY KEY(result, n)) WITHOUT ROWID;"
    "PRAGMA application_id = 2054447726; PRAGMA user_version = 1;";
_Static_assert(OURS == 2054447726, "the number in make_tables");

typedef struct history {
    zt_cli *cli;
    const char *path;
    sqlite3 *db;
    sqlite3_stmt *run, *result, *sample;
} history;

/* ---- failures -------------------------------------------------------------------------------- */

static zt_status failed(const history *h, int rc)
{
    static const struct {
        int rc;
        zt_status s;
    } table[] = {{SQLITE_NOTADB, ZT_EDATA},      {SQLITE_CORRUPT, ZT_EDATA},
                 {SQLITE_ERROR, ZT_EDATA},       {SQLITE_CONSTRAINT, ZT_EDATA},
                 {SQLITE_NOMEM, ZT_ENOMEM},      {SQLITE_CANTOPEN, ZT_ECREATE},
                 {SQLITE_READONLY, ZT_ECREATE}, {SQLITE_PERM, ZT_ECREATE}};
    zt_status s = ZT_EIO;
    char shown[256];
    const char *why = h->db ? sqlite3_errmsg(h->db) : sqlite3_errstr(rc);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((rc & 0xff) == table[i].rc) s = table[i].s;
    return zt_fail(h->cli->ctx, s, "%s: %s", h->path,
                   zt_escape(shown, sizeof shown, why, strlen(why)));
}

static zt_status run_sql(const history *h, const char *sql)
{
    int rc = sqlite3_exec(h->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? ZT_OK : failed(h, rc);
}

/* A statement's one number. */
static zt_status ask(const history *h, const char *sql, int64_t *x)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(h->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK) rc = sqlite3_step(st);
    zt_status s = rc == SQLITE_ROW ? ZT_OK : failed(h, rc);
    *x = s ? 0 : sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return s;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* *empty: nothing is in it yet. */
static zt_status check_ours(const history *h, bool *empty)
{
    int64_t tables = 0, ours = 0, form = 0;
    zt_status s = ask(h, "SELECT count(*) FROM sqlite_master", &tables);
    if (!s) s = ask(h, "PRAGMA application_id", &ours);
    if (!s) s = ask(h, "PRAGMA user_version", &form);
    *empty = tables == 0 && ours == 0;
    if (s || *empty) return s;
    if (ours != OURS)
        return zt_fail(h->cli->ctx, ZT_EDATA, "%s: a database of another program", h->path);
    if (form == FORM) return ZT_OK;
    return zt_fail(h->cli->ctx, ZT_ENOTSUP, "%s: history of form %" PRId64 ", not %d", h->path,
                   form, FORM);
}

static zt_status open_file(history *h, int flags)
{
    if (!*h->path || *h->path == ':' || !strcmp(h->path, "-")) /* SQLite's own meanings */
        return zt_fail(h->cli->ctx, ZT_EUSAGE, "a history is a file: '%s'", h->path);
    struct stat st;
    if (stat(h->path, &st) == 0 && S_ISDIR(st.st_mode)) /* SQLite would speak of its own file in it */
        return zt_fail(h->cli->ctx, flags & SQLITE_OPEN_READONLY ? ZT_ENOENT : ZT_ECREATE,
                       "%s: is a directory", h->path);
    int rc = sqlite3_open_v2(h->path, &h->db, flags, NULL);
    if (rc != SQLITE_OK) return failed(h, rc);
    sqlite3_busy_timeout(h->db, PATIENCE);
    /* of a hostile file: no functions from its schema, and pages are looked at before use */
    sqlite3_db_config(h->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(h->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    return run_sql(h, "PRAGMA cell_size_check = 1");
}

static void close_file(history *h)
{
    sqlite3_finalize(h->run);
    sqlite3_finalize(h->result);
    sqlite3_finalize(h->sample);
    sqlite3_close(h->db);
}

/* ---- write ----------------------------------------------------------------------------------- */

static zt_status prepare(const history *h, sqlite3_stmt **st, const char *sql)
{
    int rc = sqlite3_prepare_v2(h->db, sql, -1, st, NULL);
    return rc == SQLITE_OK ? ZT_OK : failed(h, rc);
}

static zt_status prepare_all(history *h)
{
    zt_status s = prepare(h, &h->run,
                          "INSERT INTO run(at, command, version, os, cpu, isa, processors, engine,"
                          " model, model_id, model_bytes) VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    if (!s)
        s = prepare(h, &h->result,
                    "INSERT INTO result(run, test, threads, unit, median, low, high, roof_share)"
                    " VALUES(?,?,?,?,?,?,?,?)");
    return s ? s : prepare(h, &h->sample, "INSERT INTO sample(result, n, value) VALUES(?,?,?)");
}

/* NULL: nothing there. */
static void bind_text(sqlite3_stmt *st, int at, const char *text)
{
    if (text) sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC);
}

/* A failed bind leaves nothing there, which the table's NOT NULL refuses. */
static zt_status insert(const history *h, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    sqlite3_reset(st);
    sqlite3_clear_bindings(st);
    return rc == SQLITE_DONE ? ZT_OK : failed(h, rc);
}

static zt_status add_run(const history *h, const bench_list *l)
{
    char at[32];
    time_t now = time(NULL);
    struct tm utc;
    bench_machine_id m = l->machine;
    if (!m.os[0]) bench_machine_here(h->cli, &m);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    const char *const text[] = {at, h->cli->operands[0], m.version, m.os, m.cpu, m.isa};
    for (int i = 0; i < 6; i++) bind_text(h->run, i + 1, text[i]);
    sqlite3_bind_int64(h->run, 7, m.threads);
    bind_text(h->run, 8, l->engine[0] ? l->engine : NULL);
    bind_text(h->run, 9, l->model);
    bind_text(h->run, 10, l->model_id);
    if (l->model) sqlite3_bind_int64(h->run, 11, (sqlite3_int64)l->model_bytes);
    return insert(h, h->run);
}

static zt_status add_result(const history *h, sqlite3_int64 run, const bench_result *r,
                            double *scratch)
{
    bench_summary m = bench_summarize(r->samples, r->n, scratch);
    const double x[] = {m.median, m.ci95[0], m.ci95[1]};
    sqlite3_bind_int64(h->result, 1, run);
    bind_text(h->result, 2, r->test);
    sqlite3_bind_int64(h->result, 3, r->threads);
    bind_text(h->result, 4, r->unit);
    for (int i = 0; i < 3; i++) sqlite3_bind_double(h->result, 5 + i, x[i]);
    if (r->roof > 0) sqlite3_bind_double(h->result, 8, bench_roof_share(r, m.median));
    zt_status s = insert(h, h->result);
    sqlite3_int64 result = sqlite3_last_insert_rowid(h->db);
    for (int64_t i = 0; i < r->n && !s; i++) {
        sqlite3_bind_int64(h->sample, 1, result);
        sqlite3_bind_int64(h->sample, 2, i);
        sqlite3_bind_double(h->sample, 3, r->samples[i]); /* NaN: NULL */
        s = insert(h, h->sample);
    }
    return s;
}

static zt_status add_all(history *h, const bench_list *l, double *scratch)
{
    bool empty = false;
    zt_status s = run_sql(h, "BEGIN IMMEDIATE");
    if (!s) s = check_ours(h, &empty);
    if (!s && empty) s = run_sql(h, make_tables);
    if (!s) s = prepare_all(h);
    if (!s) s = add_run(h, l);
    sqlite3_int64 run = sqlite3_last_insert_rowid(h->db);
    for (const bench_result *r = l->first; r && !s; r = r->next)
        if (r->n) s = add_result(h, run, r, scratch);
    return s ? s : run_sql(h, "COMMIT"); /* else closing rolls back */
}

zt_status bench_history_add(zt_cli *cli, const char *path, const bench_list *l)
{
    history h = {.cli = cli, .path = path};
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status s = scratch ? open_file(&h, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) : ZT_ENOMEM;
    if (!s) s = add_all(&h, l, scratch);
    close_file(&h);
    zt_free(cli->ctx, scratch);
    return s;
}

/* ---- read ------------------------------------------------------------------------------------ */

static const char *text_at(sqlite3_stmt *st, int column)
{
    const unsigned char *text = sqlite3_column_text(st, column);
    return text ? (const char *)text : "";
}

static double real_at(sqlite3_stmt *st, int column)
{
    return sqlite3_column_type(st, column) == SQLITE_NULL ? NAN : sqlite3_column_double(st, column);
}

static zt_status tell(sqlite3_stmt *st, bench_past_fn *fn, void *user)
{
    bench_past p = {.run = sqlite3_column_int64(st, 0), .at = text_at(st, 1),
                    .command = text_at(st, 2), .version = text_at(st, 3), .cpu = text_at(st, 4),
                    .engine = text_at(st, 5), .model = text_at(st, 6), .model_id = text_at(st, 7),
                    .test = text_at(st, 8), .unit = text_at(st, 9),
                    .threads = sqlite3_column_int64(st, 10), .median = real_at(st, 11),
                    .low = real_at(st, 12), .high = real_at(st, 13),
                    .samples = sqlite3_column_int64(st, 14)};
    return fn(user, &p);
}

static zt_status read_all(history *h, bench_past_fn *fn, void *user)
{
    bool empty = false;
    zt_status s = check_ours(h, &empty);
    if (s || empty) return s;
    s = prepare(h, &h->result,
                "SELECT run.id, at, command, version, cpu, engine, model, model_id, test, unit,"
                " result.threads, median, low, high,"
                " (SELECT count(*) FROM sample WHERE sample.result = result.id)"
                " FROM result JOIN run ON run.id = result.run ORDER BY run.id, result.id");
    int rc = s ? SQLITE_DONE : sqlite3_step(h->result);
    for (; rc == SQLITE_ROW && !s; rc = sqlite3_step(h->result))
        s = zt_cli_interrupted() ? ZT_EINTR : tell(h->result, fn, user);
    return s || rc == SQLITE_DONE ? s : failed(h, rc);
}

zt_status bench_history_read(zt_cli *cli, const char *path, bench_past_fn *fn, void *user)
{
    history h = {.cli = cli, .path = path};
    if (strcmp(path, "-") && access(path, R_OK))
        return zt_fail(cli->ctx, ZT_ENOENT, "%s: %s", path, strerror(errno));
    zt_status s = open_file(&h, SQLITE_OPEN_READONLY);
    if (!s) s = read_all(&h, fn, user);
    close_file(&h);
    return s;
}

#endif
