/* machine.c - zt-bench machine: what the machine is, and its roof (lib/engine/roof.h): bandwidth
 * per level of the caches and of memory, arithmetic per instruction set, with one thread and with
 * all, or as many as -t says.
 *
 * The roof is measured -r times. json tells each figure as a result with its samples; the table,
 * which has a row for what the machine is too, the best of them.
 */
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ADAPTERS = 16 };
static const double SECONDS = 0.4; /* for one measurement of everything */

typedef struct found_adapter {
    char engine[24]; /* "vulkan:0" */
    zt_adapter is;
} found_adapter;

typedef struct subject {
    zt_cli *cli;
    const bench_options *o;
    bench_list list;
    zt_roof roof; /* the last that was measured */
    found_adapter adapter[MAX_ADAPTERS];
    int n_adapters;
} subject;

/* ---- adapters -------------------------------------------------------------------------------- */

/* Is this engine, or one of its devices, what --engine names? */
static bool is_named(const char *option, const char *engine)
{
    size_t n = strlen(engine);
    return !strcmp(option, "auto") ||
           (!strncmp(option, engine, n) && (option[n] == 0 || option[n] == ':'));
}

/* In a context of their own: no driver is no error here. */
static void find_adapters(subject *s)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_adapter *a = ctx ? zt_alloc_array(ctx, MAX_ADAPTERS, sizeof *a) : NULL;
    for (int i = 0; a && zt_engine_list(i); i++) {
        const char *engine = zt_engine_list(i);
        if (!is_named(s->cli->engine, engine)) continue;
        int n = zt_engine_adapters(ctx, engine, a, MAX_ADAPTERS);
        for (int k = 0; k < n && k < MAX_ADAPTERS && s->n_adapters < MAX_ADAPTERS; k++) {
            found_adapter *to = &s->adapter[s->n_adapters++];
            to->is = a[k];
            snprintf(to->engine, sizeof to->engine, "%.16s:%d", engine, k);
        }
        zt_ctx_clear(ctx);
    }
    if (ctx) zt_free(ctx, a);
    zt_ctx_free(ctx);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* One more sample of the test; made when it is the first. */
static zt_status add_sample(subject *s, const char *test, int threads, const char *unit, double x)
{
    bench_result *r = s->list.first;
    while (r && (r->threads != threads || strcmp(r->test, test))) r = r->next;
    if (!r) r = bench_add(s->cli->ctx, &s->list, test, threads, unit, s->o->reps);
    if (!r) return zt_ctx_status(s->cli->ctx);
    if (r->n < s->o->reps) r->samples[r->n++] = x;
    return ZT_OK;
}

/* A figure of the roof: with all threads, and with one too unless -t says which numbers count. */
static zt_status add_pair(subject *s, const char *test, const char *unit, const double rate[2])
{
    int threads = s->roof.threads;
    zt_status st = ZT_OK;
    if (!s->o->threads && threads > 1) st = add_sample(s, test, 1, unit, rate[ZT_ROOF_ONE] / 1e9);
    return st ? st : add_sample(s, test, threads, unit, rate[ZT_ROOF_ALL] / 1e9);
}

static zt_status add_roof(subject *s)
{
    char test[64];
    zt_status st = ZT_OK;
    for (int i = 0; i < s->roof.n_levels && !st; i++) {
        const zt_roof_level *l = &s->roof.level[i];
        snprintf(test, sizeof test, "read %s", l->name);
        st = add_pair(s, test, "GB/s", l->read);
        snprintf(test, sizeof test, "copy %s", l->name);
        if (!st) st = add_pair(s, test, "GB/s", l->copy);
    }
    for (int i = 0; i < s->roof.n_peaks && !st; i++) {
        const zt_roof_peak *p = &s->roof.peak[i];
        snprintf(test, sizeof test, "%s %s", zt_roof_kind_name(p->kind), p->set);
        st = add_pair(s, test, p->kind == ZT_ROOF_INT8 ? "GOP/s" : "GFLOP/s", p->rate);
    }
    return st;
}

/* A driver that fails is no failure of the machine's other figures. */
static zt_status add_device(subject *s, const found_adapter *a)
{
    char test[64];
    double rate[2] = {0, 0};
    const char *const name[] = {"copy", "linear f32"}, *const unit[] = {"GB/s", "GFLOP/s"};
    zt_status st = bench_device(s->cli->ctx, a->engine, !strcmp(a->is.type, "cpu"), &rate[0],
                                &rate[1]);
    if (st) {
        zt_cli_note(s->cli, "%s: %s", a->engine, zt_ctx_error(s->cli->ctx));
        zt_ctx_clear(s->cli->ctx);
        return ZT_OK;
    }
    for (int i = 0; i < 2 && !st; i++) {
        snprintf(test, sizeof test, "%s %s", name[i], a->engine);
        if (rate[i] > 0) st = add_sample(s, test, 0, unit[i], rate[i] / 1e9);
    }
    return st;
}

static zt_status sample(subject *s, const int64_t *count, int n)
{
    zt_status st = ZT_OK;
    double total = (double)(n * s->o->reps), done = 0;
    for (int64_t r = 0; r < s->o->reps && !st; r++)
        for (int i = 0; i < n && !st; i++) {
            zt_roof_opts o = {.threads = (int)count[i], .isa = s->cli->isa, .seconds = SECONDS};
            st = zt_cli_interrupted() ? ZT_EINTR : zt_roof_measure(s->cli->ctx, &o, &s->roof);
            if (!st) st = add_roof(s);
            for (int k = 0; k < s->n_adapters && i == 0 && !st; k++)
                st = add_device(s, &s->adapter[k]);
            zt_progress(s->cli, &(zt_work){"machine", NULL, "samples", ++done, total});
        }
    return st;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { N_COLUMNS = 5 };
static const char *const columns[N_COLUMNS] = {"name", "#threads", "#value", "unit", "detail"};

static zt_status add_fact(zt_table *t, const char *name, const char *detail)
{
    const char *cell[N_COLUMNS] = {name, NULL, NULL, NULL, detail};
    return zt_table_row(t, cell);
}

static zt_status add_count(zt_table *t, const char *name, size_t n, const char *unit,
                           const char *detail)
{
    char value[24];
    snprintf(value, sizeof value, "%zu", n);
    const char *cell[N_COLUMNS] = {name, NULL, value, unit, detail};
    return zt_table_row(t, cell);
}

static zt_status add_level(zt_table *t, const zt_roof_level *l, bool memory)
{
    char detail[64];
    snprintf(detail, sizeof detail, l->sharers == 1 ? "each processor's" : "of %d processors",
             l->sharers);
    return add_count(t, l->name, l->bytes, "bytes", memory ? NULL : detail);
}

static zt_status add_adapter(zt_table *t, const found_adapter *a)
{
    char detail[1024];
    snprintf(detail, sizeof detail, "%s, %s, %s, api %s", a->is.name, a->is.type, a->is.driver,
             a->is.api);
    return add_count(t, a->engine, a->is.memory, "bytes", detail);
}

static zt_status add_facts(subject *s, zt_table *t)
{
    bench_machine_id m;
    bench_machine_here(s->cli, &m);
    zt_status st = add_fact(t, "os", m.os);
    if (!st) st = add_fact(t, "cpu", m.cpu);
    if (!st) st = add_fact(t, "isa", m.isa);
    if (!st) st = add_count(t, "processors", (size_t)m.threads, NULL, NULL);
    for (int i = 0; i < s->roof.n_levels && !st; i++)
        st = add_level(t, &s->roof.level[i], i == s->roof.n_levels - 1);
    if (!st) st = add_fact(t, "huge pages", s->roof.huge ? "yes" : "no");
    for (int i = 0; i < s->n_adapters && !st; i++) st = add_adapter(t, &s->adapter[i]);
    return st;
}

/* The instructions behind a test's name; NULL: it is no arithmetic. */
static const char *how_of(const zt_roof *r, const char *test)
{
    char name[64];
    for (int i = 0; i < r->n_peaks; i++) {
        snprintf(name, sizeof name, "%s %s", zt_roof_kind_name(r->peak[i].kind), r->peak[i].set);
        if (!strcmp(name, test)) return r->peak[i].how;
    }
    return NULL;
}

static zt_status add_best(subject *s, zt_table *t, const bench_result *r)
{
    char threads[24] = "", value[32];
    double best = 0;
    for (int64_t i = 0; i < r->n; i++) best = r->samples[i] > best ? r->samples[i] : best;
    if (r->threads) snprintf(threads, sizeof threads, "%" PRId64, r->threads);
    snprintf(value, sizeof value, "%.1f", best);
    const char *cell[N_COLUMNS] = {r->test, threads, value, r->unit, how_of(&s->roof, r->test)};
    return zt_table_row(t, cell);
}

static zt_status print_rows(subject *s)
{
    zt_table *t = zt_table_new(s->cli, "machine", columns, N_COLUMNS);
    zt_status st = t ? add_facts(s, t) : zt_ctx_status(s->cli->ctx);
    for (const bench_result *r = s->list.first; r && !st; r = r->next) st = add_best(s, t, r);
    if (!st) st = bench_write_table(s->cli, t);
    zt_table_free(t);
    return st;
}

/* ---- json ------------------------------------------------------------------------------------ */

static void put_key(zt_str *out, const char *key, const char *text)
{
    zt_str_printf(out, "\"%s\":", key);
    zt_str_put_json(out, text, strlen(text));
}

static void put_machine(zt_str *out, const void *user)
{
    const subject *s = user;
    int last = s->roof.n_levels - 1;
    zt_str_printf(out, ",\"memory\":%zu,\"huge_pages\":%s,\"caches\":[", s->roof.level[last].bytes,
                  s->roof.huge ? "true" : "false");
    for (int i = 0; i < last; i++)
        zt_str_printf(out, "%s{\"name\":\"%s\",\"bytes\":%zu,\"processors\":%d}", i ? "," : "",
                      s->roof.level[i].name, s->roof.level[i].bytes, s->roof.level[i].sharers);
    zt_str_puts(out, "],\"adapters\":[");
    for (int i = 0; i < s->n_adapters; i++) {
        const found_adapter *a = &s->adapter[i];
        zt_str_puts(out, i ? ",{" : "{");
        put_key(out, "engine", a->engine);
        zt_str_putc(out, ',');
        put_key(out, "name", a->is.name);
        zt_str_putc(out, ',');
        put_key(out, "type", a->is.type);
        zt_str_putc(out, ',');
        put_key(out, "driver", a->is.driver);
        zt_str_putc(out, ',');
        put_key(out, "api", a->is.api);
        zt_str_printf(out, ",\"memory\":%zu}", a->is.memory);
    }
    zt_str_putc(out, ']');
}

zt_status bench_machine(zt_cli *cli, const bench_options *o)
{
    int64_t count[BENCH_MAX_COUNTS] = {zt_cpu_count()};
    int n = 1;
    zt_status st = o->threads ? bench_threads(cli->ctx, o->threads, count, &n) : ZT_OK;
    if (!st && cli->n_operands > 1)
        st = zt_fail(cli->ctx, ZT_EUSAGE, "machine takes no operand: '%s'", cli->operands[1]);
    if (st) return st;
    subject *s = zt_calloc(cli->ctx, 1, sizeof *s);
    if (!s) return ZT_ENOMEM;
    s->cli = cli;
    s->o = o;
    s->list.put_machine = put_machine;
    s->list.user = s;
    find_adapters(s);
    st = sample(s, count, n);
    if (!st) st = bench_roof_add(cli->ctx, &s->list, &s->roof);
    if (!st) st = bench_keep(cli, o, &s->list);
    if (!st) st = bench_is_list(cli) ? bench_print(cli, &s->list) : print_rows(s);
    bench_list_free(cli->ctx, &s->list);
    zt_free(cli->ctx, s);
    return st;
}
