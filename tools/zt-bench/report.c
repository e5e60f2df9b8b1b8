/* report.c - results: kept in a list, written as a table or as zt.bench/1. */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

bench_result *bench_add(zt_ctx *ctx, bench_list *l, const char *test, int64_t threads,
                        const char *unit, int64_t most)
{
    bench_result *r = zt_calloc(ctx, 1, sizeof *r);
    if (!r) return NULL;
    r->threads = threads;
    r->samples = zt_calloc(ctx, (size_t)most, sizeof *r->samples);
    r->test = zt_strdup(ctx, test);
    r->unit = zt_strdup(ctx, unit);
    if (!l->first) l->last = &l->first;
    *l->last = r;
    l->last = &r->next;
    return r->samples && r->test && r->unit ? r : NULL; /* the list has it in any case */
}

zt_status bench_list_model(zt_ctx *ctx, bench_list *l, const zt_gguf *model)
{
    l->model = zt_strdup(ctx, zt_gguf_name(model));
    l->model_id = zt_strdup(ctx, zt_gguf_id(model));
    l->model_bytes = zt_gguf_file_size(model);
    return l->model && l->model_id ? ZT_OK : ZT_ENOMEM;
}

void bench_list_free(zt_ctx *ctx, bench_list *l)
{
    for (bench_result *r = l->first, *next; r; r = next) {
        next = r->next;
        zt_free(ctx, r->samples);
        zt_free(ctx, r->test);
        zt_free(ctx, r->unit);
        zt_free(ctx, r->model);
        zt_free(ctx, r);
    }
    zt_free(ctx, l->roofs);
    zt_free(ctx, l->model);
    zt_free(ctx, l->model_id);
    zt_free(ctx, l->command);
    *l = (bench_list){0};
}

zt_status bench_list_join(zt_ctx *ctx, bench_list *to, bench_list *from)
{
    for (bench_result *r = from->first; r; r = r->next)
        if (!(r->model = zt_strdup(ctx, from->model))) return ZT_ENOMEM;
    memcpy(to->engine, from->engine, sizeof to->engine);
    if (!from->first) return ZT_OK;
    if (!to->first) to->last = &to->first;
    *to->last = from->first;
    to->last = from->last;
    from->first = NULL;
    return ZT_OK;
}

void bench_machine_here(const zt_cli *cli, bench_machine_id *m)
{
    struct utsname u;
    *m = (bench_machine_id){.os = "unknown", .version = ZT_VERSION, .threads = zt_cpu_count()};
    if (uname(&u) == 0)
        snprintf(m->os, sizeof m->os, "%.64s %.64s %.64s", u.sysname, u.release, u.machine);
    zt_cpu_model(m->cpu);
    snprintf(m->isa, sizeof m->isa, "%s", zt_isa_name(cli->isa));
}

/* ---- json ------------------------------------------------------------------------------------ */

static void put_text(zt_str *s, const char *key, const char *text)
{
    zt_str_printf(s, "\"%s\":", key);
    zt_str_put_json(s, text, strlen(text));
}

static void put_member(zt_str *s, const char *key, const char *text)
{
    put_text(s, key, text);
    zt_str_puts(s, ",");
}

/* JSON has no numbers that are none. */
static void put_number(zt_str *s, const char *before, double x)
{
    if (isfinite(x))
        zt_str_printf(s, "%s%.9g", before, x);
    else
        zt_str_printf(s, "%snull", before);
}

static void put_machine(zt_str *s, const zt_cli *cli, const bench_list *l)
{
    bench_machine_id m = l->machine;
    if (!m.os[0]) bench_machine_here(cli, &m);
    zt_str_puts(s, "\"machine\":{");
    put_text(s, "os", m.os);
    zt_str_puts(s, ",");
    put_text(s, "cpu", m.cpu);
    zt_str_puts(s, ",");
    put_text(s, "isa", m.isa);
    zt_str_printf(s, ",\"threads\":%" PRId64 ",", m.threads);
    put_text(s, "version", m.version);
    if (l->put_machine) l->put_machine(s, l->user);
    zt_str_putc(s, '}');
}

static void put_counts(zt_str *s, const bench_result *r)
{
    const char *before = ",\"counters\":{";
    for (int i = 0; i < BENCH_COUNTS; i++) {
        if (r->count[i] < 0) continue;
        zt_str_printf(s, "%s\"%s\":", before, bench_count_name(i));
        put_number(s, "", r->count[i]);
        before = ",";
    }
    zt_str_putc(s, '}'); /* the last five are always there */
}

static void put_result(zt_str *s, const bench_result *r, const bench_summary *m,
                       const char *subject)
{
    zt_str_puts(s, "{");
    if (subject) put_member(s, "subject", subject);
    if (r->model) put_member(s, "model", r->model);
    put_text(s, "test", r->test);
    zt_str_printf(s, ",\"threads\":%" PRId64 ",", r->threads);
    put_text(s, "unit", r->unit);
    put_number(s, ",\"median\":", m->median);
    put_number(s, ",\"min\":", m->min);
    put_number(s, ",\"max\":", m->max);
    put_number(s, ",\"mad\":", m->mad);
    put_number(s, ",\"ci95\":[", m->ci95[0]);
    put_number(s, ",", m->ci95[1]);
    zt_str_puts(s, "],\"samples\":[");
    for (int64_t i = 0; i < r->n; i++)
        put_number(s, i ? "," : "", r->samples[i]);
    zt_str_puts(s, "]");
    if (r->error > 0) put_number(s, ",\"error\":", r->error);
    if (r->flops > 0 || r->bytes > 0) {
        put_number(s, ",\"flops\":", r->flops);
        put_number(s, ",\"bytes\":", r->bytes);
    }
    if (r->counted) put_counts(s, r);
    if (r->roof > 0) {
        put_number(s, ",\"roof\":", r->roof);
        put_number(s, ",\"roof_share\":", bench_roof_share(r, m->median));
    }
    zt_str_puts(s, "}");
}

static void put_model(zt_str *s, const bench_list *l)
{
    zt_str_puts(s, "\"model\":{");
    put_text(s, "file", l->model);
    zt_str_puts(s, ",");
    put_text(s, "id", l->model_id);
    zt_str_printf(s, ",\"bytes\":%" PRIu64 "},", l->model_bytes);
}

/* Results; each after another that was put, and with its subject where there are two. */
static void put_results(zt_str *s, const bench_list *l, const char *subject, bool first,
                        double *scratch)
{
    for (const bench_result *r = l->first; r; r = r->next) {
        bench_summary m = bench_summarize(r->samples, r->n, scratch);
        zt_str_puts(s, first ? "" : ",");
        put_result(s, r, &m, subject);
        first = false;
    }
}

/* Of one list, or of two. */
static zt_status write_json(zt_cli *cli, const bench_list *l, const bench_list *old,
                            const zt_str *more, double *scratch)
{
    zt_str s;
    zt_str_init(&s, cli->ctx);
    zt_str_puts(&s, "{\"schema\":\"zt.bench/1\",");
    put_machine(&s, cli, l);
    zt_str_puts(&s, ",");
    if (l->engine[0]) put_member(&s, "engine", l->engine);
    if (l->command) put_member(&s, "command", l->command);
    if (l->model) put_model(&s, l);
    if (more) zt_str_printf(&s, "%s,", more->data ? more->data : "");
    zt_str_puts(&s, "\"results\":[");
    if (old) put_results(&s, old, "old", true, scratch);
    put_results(&s, l, old ? "new" : NULL, !old || !old->first, scratch);
    zt_str_puts(&s, "]}\n");
    zt_status st = zt_ctx_status(cli->ctx);
    if (st == ZT_OK)
        st = bench_write(cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- tables ---------------------------------------------------------------------------------- */

const char *bench_number(char to[BENCH_NUMBER], double x, int digits)
{
    int whole = isfinite(x) && x != 0 ? 1 + (int)floor(log10(fabs(x))) : 1;
    int places = digits > whole ? digits - whole : 0;
    if (!isfinite(x) || whole > 20 || x == 0)
        snprintf(to, BENCH_NUMBER, "%.*g", digits, x);
    else
        snprintf(to, BENCH_NUMBER, "%.*f", places < 15 ? places : 15, x);
    return to;
}

/* The first column is there where the list is of several models. */
enum { N_COLUMNS = 11 };
static const char *const columns[N_COLUMNS] = {"model",     "test",       "#threads", "unit",
                                               "#median",   "#min",       "#max",     "#mad",
                                               "#ci95_low", "#ci95_high", "#roof_share"};

static zt_status add_row(zt_table *t, const bench_result *r, const bench_summary *m)
{
    const double value[] = {m->median, m->min, m->max, m->mad, m->ci95[0], m->ci95[1]};
    char threads[24], number[6][BENCH_NUMBER], share[24] = "";
    snprintf(threads, sizeof threads, "%" PRId64, r->threads);
    const char *cell[N_COLUMNS] = {r->model, r->test, threads, r->unit};
    for (int i = 0; i < 6; i++) cell[4 + i] = bench_number(number[i], value[i], 5);
    if (r->roof > 0) snprintf(share, sizeof share, "%.3f", bench_roof_share(r, m->median));
    cell[10] = share;
    return zt_table_row(t, cell + !r->model);
}

static zt_status print_table(zt_cli *cli, const bench_list *l, double *scratch)
{
    int one = !l->first || !l->first->model; /* of one model: no column for it */
    zt_table *t = zt_table_new(cli, "bench", columns + one, N_COLUMNS - one);
    zt_status s = t ? ZT_OK : zt_ctx_status(cli->ctx);
    for (const bench_result *r = l->first; r && s == ZT_OK; r = r->next) {
        bench_summary m = bench_summarize(r->samples, r->n, scratch);
        s = add_row(t, r, &m);
    }
    if (s == ZT_OK)
        s = bench_write_table(cli, t);
    zt_table_free(t);
    return s;
}

/* ---- junit ----------------------------------------------------------------------------------- */

/* Seconds that the samples stand for, where their unit is a time. */
static double seconds_of(const bench_result *r)
{
    double sum = 0, unit = !strcmp(r->unit, "us") ? 1e-6 : !strcmp(r->unit, "s");
    for (int64_t i = 0; i < r->n; i++) sum += r->samples[i] * unit;
    return sum;
}

static const char *text_of(zt_arena *a, const bench_result *r, double *scratch)
{
    char text[256];
    bench_summary m = bench_summarize(r->samples, r->n, scratch);
    snprintf(text, sizeof text,
             "%.6g %s, of %" PRId64 " samples %.6g to %.6g, interval %.6g to %.6g", m.median,
             r->unit, r->n, m.min, m.max, m.ci95[0], m.ci95[1]);
    return zt_arena_strndup(a, text, strlen(text));
}

static const char *name_of(zt_arena *a, const bench_result *r)
{
    char more[64];
    snprintf(more, sizeof more, " (%" PRId64 " threads, ", r->threads);
    const char *model = r->model ? r->model : "", *gap = r->model ? " " : "";
    size_t n = strlen(model) + strlen(r->test) + strlen(more) + strlen(r->unit) + 3;
    char *name = zt_arena_alloc(a, n);
    if (name) snprintf(name, n, "%s%s%s%s%s)", model, gap, r->test, more, r->unit);
    return name;
}

static zt_status write_junit(zt_cli *cli, const bench_list *l, double *scratch)
{
    int64_t n = 0, i = 0;
    for (const bench_result *r = l->first; r; r = r->next) n++;
    zt_arena *a = zt_arena_new(cli->ctx, 0);
    bench_case *c = a ? zt_arena_alloc(a, (size_t)(n + 1) * sizeof *c) : NULL;
    for (const bench_result *r = l->first; r && c; r = r->next, i++)
        c[i] = (bench_case){name_of(a, r), text_of(a, r, scratch), seconds_of(r), NULL};
    zt_status st = zt_ctx_status(cli->ctx);
    if (st == ZT_OK) st = bench_junit(cli, cli->operands[0], c, n);
    zt_arena_free(a);
    return st;
}

bool bench_is_list(const zt_cli *cli)
{
    return cli->format == ZT_FMT_JSON || cli->format == ZT_FMT_JUNIT;
}

zt_status bench_print(zt_cli *cli, const bench_list *l)
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    if (!scratch)
        return zt_ctx_status(cli->ctx);
    zt_status s = cli->format == ZT_FMT_JSON    ? write_json(cli, l, NULL, NULL, scratch)
                  : cli->format == ZT_FMT_JUNIT ? write_junit(cli, l, scratch)
                                                : print_table(cli, l, scratch);
    zt_free(cli->ctx, scratch);
    return s;
}

zt_status bench_print_both(zt_cli *cli, const bench_list *old, const bench_list *now,
                           const zt_str *more)
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    zt_status s = scratch ? write_json(cli, now, old, more, scratch) : zt_ctx_status(cli->ctx);
    zt_free(cli->ctx, scratch);
    return s;
}

/* ---- where it goes --------------------------------------------------------------------------- */

zt_status bench_write(zt_cli *cli, const char *bytes, size_t n)
{
    if (!cli->output) return zt_cli_write(cli, bytes, n);
    zt_sink *to = zt_sink_open(cli->ctx, cli->output, cli->force);
    zt_status s = to ? zt_sink_write(to, bytes, n) : zt_ctx_status(cli->ctx);
    if (!s) s = zt_sink_commit(to);
    zt_sink_close(to);
    return s;
}

zt_status bench_write_table(zt_cli *cli, zt_table *t)
{
    if (!cli->output) return zt_table_print(t);
    zt_str s;
    zt_str_init(&s, cli->ctx);
    zt_status st = zt_table_put(t, false, &s);
    if (!st) st = bench_write(cli, s.data ? s.data : "", s.len);
    zt_str_fini(&s);
    return st;
}
