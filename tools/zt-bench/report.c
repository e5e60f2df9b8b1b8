/* report.c - results: kept in a list, written as a table or as zt.bench/1. */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

bench_result *bench_add(zt_ctx *ctx, bench_list *l, const char *test, int64_t threads,
                        int64_t reps)
{
    bench_result *r = zt_calloc(ctx, 1, sizeof *r);
    double *samples = r ? zt_calloc(ctx, (size_t)reps, sizeof *samples) : NULL;
    char *name = samples ? zt_alloc(ctx, strlen(test) + 1) : NULL;
    if (!name) {
        zt_free(ctx, samples);
        zt_free(ctx, r);
        return NULL;
    }
    r->test = strcpy(name, test);
    r->threads = threads;
    r->unit = "tokens/s";
    r->samples = samples;
    if (!l->first)
        l->last = &l->first;
    *l->last = r;
    l->last = &r->next;
    return r;
}

void bench_list_free(zt_ctx *ctx, bench_list *l)
{
    for (bench_result *r = l->first, *next; r; r = next) {
        next = r->next;
        zt_free(ctx, r->samples);
        zt_free(ctx, r->test);
        zt_free(ctx, r);
    }
    l->first = NULL;
}

/* ---- json ------------------------------------------------------------------------------------ */

static void put_text(zt_str *s, const char *key, const char *text)
{
    zt_str_printf(s, "\"%s\":", key);
    zt_str_put_json(s, text, strlen(text));
}

static void put_number(zt_str *s, const char *before, double x)
{
    zt_str_printf(s, "%s%.6g", before, x);
}

const char *bench_os(char os[BENCH_OS])
{
    struct utsname u;
    strcpy(os, "unknown");
    if (uname(&u) == 0)
        snprintf(os, BENCH_OS, "%.64s %.64s %.64s", u.sysname, u.release, u.machine);
    return os;
}

static void put_machine(zt_str *s, const zt_cli *cli, const bench_list *l)
{
    char os[BENCH_OS], model[ZT_CPU_MODEL];
    zt_str_puts(s, "\"machine\":{");
    put_text(s, "os", bench_os(os));
    zt_str_puts(s, ",");
    put_text(s, "cpu", zt_cpu_model(model));
    zt_str_printf(s, ",\"isa\":\"%s\",\"threads\":%d,\"version\":\"%s\"", zt_isa_name(cli->isa),
                  zt_cpu_count(), ZT_VERSION);
    if (l->put_machine) l->put_machine(s, l->user);
    zt_str_putc(s, '}');
}

static void put_result(zt_str *s, const bench_result *r, const bench_summary *m)
{
    zt_str_puts(s, "{");
    put_text(s, "test", r->test);
    zt_str_printf(s, ",\"threads\":%" PRId64 ",\"unit\":\"%s\"", r->threads, r->unit);
    put_number(s, ",\"median\":", m->median);
    put_number(s, ",\"min\":", m->min);
    put_number(s, ",\"max\":", m->max);
    put_number(s, ",\"mad\":", m->mad);
    put_number(s, ",\"ci95\":[", m->ci95[0]);
    put_number(s, ",", m->ci95[1]);
    zt_str_puts(s, "],\"samples\":[");
    for (int64_t i = 0; i < r->n; i++)
        put_number(s, i ? "," : "", r->samples[i]);
    zt_str_puts(s, "]}");
}

static void put_model(zt_str *s, const zt_gguf *model)
{
    zt_str_puts(s, ",\"model\":{");
    put_text(s, "file", zt_gguf_name(model));
    zt_str_printf(s, ",\"id\":\"%s\",\"bytes\":%" PRIu64 "}", zt_gguf_id(model),
                  zt_gguf_file_size(model));
}

static zt_status write_json(zt_cli *cli, const bench_list *l, double *scratch)
{
    zt_str s;
    zt_str_init(&s, cli->ctx);
    zt_str_puts(&s, "{\"schema\":\"zt.bench/1\",");
    put_machine(&s, cli, l);
    zt_str_puts(&s, ",");
    if (l->engine) put_text(&s, "engine", l->engine);
    if (l->model) put_model(&s, l->model);
    zt_str_puts(&s, l->engine ? ",\"results\":[" : "\"results\":[");
    for (const bench_result *r = l->first; r; r = r->next) {
        bench_summary m = bench_summarize(r->samples, r->n, scratch);
        put_result(&s, r, &m);
        zt_str_puts(&s, r->next ? "," : "");
    }
    zt_str_puts(&s, "]}\n");
    zt_status st = zt_ctx_status(cli->ctx);
    if (st == ZT_OK)
        st = zt_cli_write(cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

/* ---- tables ---------------------------------------------------------------------------------- */

enum { N_COLUMNS = 9 };
static const char *const columns[N_COLUMNS] = {"test", "#threads", "unit",      "#median",   "#min",
                                               "#max", "#mad",     "#ci95_low", "#ci95_high"};

static zt_status add_row(zt_table *t, const bench_result *r, const bench_summary *m)
{
    const double value[] = {m->median, m->min, m->max, m->mad, m->ci95[0], m->ci95[1]};
    char threads[24], number[6][24];
    snprintf(threads, sizeof threads, "%" PRId64, r->threads);
    for (int i = 0; i < 6; i++)
        snprintf(number[i], sizeof number[i], "%.2f", value[i]);
    const char *cell[N_COLUMNS] = {r->test, threads, r->unit};
    for (int i = 0; i < 6; i++)
        cell[3 + i] = number[i];
    return zt_table_row(t, cell);
}

static zt_status print_table(zt_cli *cli, const bench_list *l, double *scratch)
{
    zt_table *t = zt_table_new(cli, "bench", columns, N_COLUMNS);
    zt_status s = t ? ZT_OK : zt_ctx_status(cli->ctx);
    for (const bench_result *r = l->first; r && s == ZT_OK; r = r->next) {
        bench_summary m = bench_summarize(r->samples, r->n, scratch);
        s = add_row(t, r, &m);
    }
    if (s == ZT_OK)
        s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

zt_status bench_print(zt_cli *cli, const bench_list *l)
{
    double *scratch = zt_calloc(cli->ctx, BENCH_MAX_REPS, sizeof *scratch);
    if (!scratch)
        return zt_ctx_status(cli->ctx);
    zt_status s = cli->format == ZT_FMT_JSON ? write_json(cli, l, scratch)
                                             : print_table(cli, l, scratch);
    zt_free(cli->ctx, scratch);
    return s;
}
