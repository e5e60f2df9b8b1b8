/* op.c - zt-bench op: the speed of one op, or of a program, per thread count.
 *
 * A line such as 'rms_norm f32[512,576] f32[576] eps=1e-6' becomes a program of one step: types are
 * inputs (`_` is an absent one), except a weight (linear's w), which is data, packed once as a
 * model's is. Of a program's file inputs, data and symbols are made up likewise. Values come from a
 * fixed seed; integers run from 0 below the least dimension of the other inputs, so that indices are
 * in range.
 *
 * A sample is the mean of as many runs as take two milliseconds or more. Three rows a subject: us a
 * run; GFLOP/s, from the flops that the ops' rows state; GB/s, of the inputs read once and the
 * outputs written once.
 */
#include "tools/common/subject.h"
#include "lib/run/pass.h"
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ARGS = 64 };
static const double SHORTEST = 0.002; /* seconds a sample lasts at least */

/* ---- subjects -------------------------------------------------------------------------------- */

typedef struct subject {
    zt_cli *cli;
    const bench_options *o;
    zt_prog *prog;
    zt_bound *bound;
    zt_bindings bind;
    void *in[MAX_ARGS], *out[MAX_ARGS], *data[MAX_ARGS];
    double flops, bytes;
} subject;

static const char *blank(const char *at) { return at + strspn(at, " \t"); }

/* The operand at `at`, the k-th: a declaration in `text` and its name in `call`. The next token. */
static const char *operand(const char *at, int k, bool weight, zt_str *text, zt_str *call)
{
    size_t n = strcspn(at, " \t");
    if (n == 1 && *at == '_') {
        zt_str_puts(call, " _");
    } else {
        zt_str_printf(text, "%s a%d: %.*s", weight ? "data" : "in  ", k, (int)n, at);
        zt_str_printf(text, weight ? " \"a%d\"\n" : "\n", k);
        zt_str_printf(call, " a%d", k);
    }
    return blank(at + n);
}

/* An op line as a program's text. */
static zt_status write_program(const char *line, zt_str *text, zt_str *call)
{
    const char *at = blank(line);
    size_t n = strcspn(at, " \t");
    zt_op op = ZT_OP_COUNT;
    unsigned weights = zt_op_find(at, n, &op) ? zt_op_info(op)->def->weights : 0;
    zt_str_puts(text, "zt program 1\n");
    zt_str_printf(call, "y = %.*s", (int)n, at);
    at = blank(at + n);
    for (int k = 0; *at && !memchr(at, '=', strcspn(at, " \t")); k++)
        at = operand(at, k, k < ZT_MAX_IN && weights >> k & 1, text, call);
    return zt_str_printf(text, "%s %s\nout y = y\n", call->data ? call->data : "", at);
}

static zt_prog *program_of_line(zt_ctx *ctx, const char *line)
{
    zt_str text, call;
    zt_str_init(&text, ctx);
    zt_str_init(&call, ctx);
    zt_status s = write_program(line, &text, &call);
    zt_prog *p = s == ZT_OK ? zt_prog_parse(ctx, line, text.data, text.len) : NULL;
    zt_str_fini(&text);
    zt_str_fini(&call);
    return p;
}

static bool is_file(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && !strcmp(name + n - 3, ".zt");
}

static zt_prog *program_of(zt_cli *cli, const char *name)
{
    return is_file(name) ? zt_cli_program(cli, name) : program_of_line(cli->ctx, name);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The least dimension of the inputs but v itself: what an index may be below. */
static int64_t limit_for(const subject *s, int v)
{
    int64_t least = INT32_MAX;
    for (int i = 0; i < s->bound->n_values; i++) {
        const zt_value *x = zt_prog_value(s->prog, i);
        if (i == v || x->kind == ZT_VALUE_OP) continue;
        for (int d = 0; d < s->bound->type[i].rank; d++)
            if (s->bound->type[i].dim[d] < least) least = s->bound->type[i].dim[d];
    }
    return least > 0 ? least : 1;
}

static void *values_for(const subject *s, int v)
{
    const zt_type *t = &s->bound->type[v];
    void *p = zt_alloc(s->cli->ctx, zt_type_bytes(t) + 1);
    bool whole = !zt_dtype_get(t->dtype)->decode;
    zt_case c = {.in = {*t}, .fill = {whole ? ZT_FILL_IDS : ZT_FILL_NORMAL},
                 .limit = {limit_for(s, v)}};
    if (p) zt_case_fill(&c, 0, (uint64_t)v + 1, p);
    return p;
}

static zt_status make_values(subject *s)
{
    zt_ctx *ctx = s->cli->ctx;
    const zt_prog *p = s->prog;
    int n_in = zt_prog_count(p, ZT_VALUE_IN), n_data = zt_prog_count(p, ZT_VALUE_DATA);
    if (n_in > MAX_ARGS || n_data > MAX_ARGS || zt_prog_n_outputs(p) > MAX_ARGS)
        return zt_fail(ctx, ZT_ENOTSUP, "more than %d inputs, data or outputs", MAX_ARGS);
    for (int i = 0; i < n_in + n_data; i++) {
        bool data = i >= n_in;
        int v = zt_prog_nth(p, data ? ZT_VALUE_DATA : ZT_VALUE_IN, data ? i - n_in : i);
        void **to = data ? &s->data[i - n_in] : &s->in[i];
        *to = values_for(s, v);
        if (!*to) return zt_ctx_status(ctx);
        s->bytes += (double)zt_type_bytes(&s->bound->type[v]);
    }
    for (int o = 0; o < zt_prog_n_outputs(p); o++) {
        size_t bytes = zt_type_bytes(&s->bound->type[zt_prog_output(p, o)->value]);
        s->out[o] = zt_calloc(ctx, bytes + 1, 1);
        if (!s->out[o]) return zt_ctx_status(ctx);
        s->bytes += (double)bytes;
    }
    return ZT_OK;
}

static double flops_of(const subject *s)
{
    double sum = 0;
    for (int i = 0; i < s->bound->n_steps; i++) {
        const zt_step *st = zt_prog_step(s->prog, i);
        const zt_type *in[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT] = {{0}};
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (st->in[k] >= 0) in[k] = &s->bound->type[st->in[k]];
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (st->out[k] >= 0) out[k] = s->bound->type[st->out[k]];
        const void *attrs = s->bound->attrs[i];
        sum += zt_op_flops(st->op, attrs ? attrs : zt_op_info(st->op)->defaults, in, out);
    }
    return sum;
}

/* Data as a store: its handle is its place. */
static zt_status find_data(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const subject *s = user;
    for (int i = 0; i < zt_prog_count(s->prog, ZT_VALUE_DATA); i++) {
        int v = zt_prog_nth(s->prog, ZT_VALUE_DATA, i);
        if (strcmp(zt_prog_value(s->prog, v)->tensor, name) != 0) continue;
        *type = s->bound->type[v];
        *handle = i;
        return ZT_OK;
    }
    return ZT_ENOENT;
}

static zt_status read_data(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    memcpy(dst, (const char *)((const subject *)user)->data[handle] + offset, n);
    return ZT_OK;
}

static zt_status open_subject(subject *s, const char *name)
{
    zt_ctx *ctx = s->cli->ctx;
    s->prog = program_of(s->cli, name);
    zt_status st = s->prog ? zt_bindings_parse(ctx, s->o->bind, &s->bind) : zt_ctx_status(ctx);
    if (st != ZT_OK) return st;
    s->bound = zt_prog_bind(s->prog, s->bind.at, s->bind.n);
    st = s->bound ? make_values(s) : zt_ctx_status(ctx);
    if (st == ZT_OK) s->flops = flops_of(s);
    return st;
}

static void close_subject(subject *s)
{
    for (int i = 0; i < MAX_ARGS; i++) {
        zt_free(s->cli->ctx, s->in[i]);
        zt_free(s->cli->ctx, s->out[i]);
        zt_free(s->cli->ctx, s->data[i]);
    }
    if (s->bound) zt_bound_free(s->bound);
    zt_prog_free(s->prog);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* One of the two, as --ops says. */
typedef struct way {
    zt_session *session;
    bench_door *door;
} way;

static zt_status run_once(subject *s, const way *w)
{
    if (w->door) return bench_door_run(w->door, s->out);
    return zt_session_step(w->session, s->bind.at, s->bind.n, (const void *const *)s->in, s->out);
}

static zt_status run_times(subject *s, const way *w, int64_t times, double *seconds)
{
    zt_status st = ZT_OK;
    double start = zt_seconds();
    for (int64_t i = 0; i < times && st == ZT_OK; i++)
        st = zt_cli_interrupted() ? ZT_EINTR : run_once(s, w);
    *seconds = (zt_seconds() - start) / (double)times;
    return st;
}

/* Rows of one subject: the same samples in three units. */
static zt_status add_rows(subject *s, bench_list *l, const char *name, int64_t threads,
                          const double *seconds)
{
    const struct {
        const char *unit;
        double per; /* the unit's figure of a run is per / seconds; 0: seconds in us */
    } unit[] = {{"us", 0}, {"GFLOP/s", s->flops / 1e9}, {"GB/s", s->bytes / 1e9}};
    for (int u = 0; u < 3; u++) {
        if (u && unit[u].per == 0) continue;
        bench_result *r = bench_add(s->cli->ctx, l, name, threads, s->o->reps);
        if (!r) return zt_ctx_status(s->cli->ctx);
        r->unit = unit[u].unit;
        for (r->n = 0; r->n < s->o->reps; r->n++)
            r->samples[r->n] = u ? unit[u].per / seconds[r->n] : seconds[r->n] * 1e6;
    }
    return ZT_OK;
}

/* Two runs to warm up, which say too how many a sample takes. */
static zt_status sample(subject *s, const way *w, double *seconds)
{
    double once = 0;
    zt_status st = run_times(s, w, 1, &once);
    if (st == ZT_OK) st = run_times(s, w, 1, &once);
    int64_t times = once >= SHORTEST ? 1 : 1 + (int64_t)(SHORTEST / (once > 1e-9 ? once : 1e-9));
    for (int64_t i = 0; i < s->o->reps && st == ZT_OK; i++) {
        st = run_times(s, w, times, &seconds[i]);
        zt_progress(s->cli, "op", (double)(i + 1), (double)s->o->reps);
    }
    return st;
}

static zt_status with_threads(subject *s, bench_list *l, const char *name, int64_t threads)
{
    zt_ctx *ctx = s->cli->ctx;
    zt_engine_opts eo = {.threads = (int)threads, .isa = s->cli->isa};
    zt_engine *e = zt_engine_open(ctx, s->cli->engine, &eo);
    zt_store store = {.user = s, .find = find_data, .read = read_data};
    zt_session_opts so = {.strict = s->cli->strict, .fixed = s->bind.at, .n_fixed = s->bind.n};
    zt_pass_opts po = {.sample = s->bind.at, .n_sample = s->bind.n, .engine = e};
    zt_prog *ready = NULL; /* as a session has it: through the passes */
    way w = {NULL, NULL};
    if (e && s->o->how == BENCH_REPLAY) ready = zt_prog_passes(ctx, s->prog, &po, NULL);
    if (ready)
        w.session = zt_session_open(e, ready, &store, &so);
    else if (e && s->o->how != BENCH_REPLAY)
        w.door = bench_door_open(e, s->prog, s->bound, s->in, s->data, s->o->how == BENCH_EAGER,
                                 s->cli->strict);
    double *seconds = zt_calloc(ctx, (size_t)s->o->reps, sizeof *seconds);
    zt_status st = (w.session || w.door) && seconds ? sample(s, &w, seconds) : zt_ctx_status(ctx);
    if (st == ZT_OK) {
        l->engine = e->vt->name;
        int fell = w.door ? bench_door_fallbacks(w.door) : zt_session_get(w.session).fallbacks;
        if (fell) zt_cli_note(s->cli, "%s: %d steps fell back to another engine", name, fell);
        st = add_rows(s, l, name, threads, seconds);
    }
    zt_free(ctx, seconds);
    bench_door_close(w.door);
    if (w.session) zt_session_close(w.session);
    zt_prog_free(ready);
    if (e) zt_engine_close(e);
    return st;
}

static zt_status measure(zt_cli *cli, const bench_options *o, bench_list *l, const char *name,
                         const int64_t *count, int n)
{
    subject s = {.cli = cli, .o = o};
    zt_status st = open_subject(&s, name);
    for (int i = 0; i < n && st == ZT_OK; i++) st = with_threads(&s, l, name, count[i]);
    close_subject(&s);
    return st;
}

/* The lines of -i FILE; empty ones and those that begin with # are none. */
static zt_status measure_lines(zt_cli *cli, const bench_options *o, bench_list *l,
                               const int64_t *count, int n)
{
    size_t bytes;
    char *text = zt_read_all(cli->ctx, o->input, &bytes);
    zt_status st = text ? ZT_OK : zt_ctx_status(cli->ctx);
    for (char *at = text, *next; st == ZT_OK && at && *at; at = next) {
        size_t len = strcspn(at, "\n");
        next = at + len + (at[len] == '\n');
        at[len] = 0;
        const char *line = blank(at);
        if (*line && *line != '#') st = measure(cli, o, l, line, count, n);
    }
    zt_free(cli->ctx, text);
    return st;
}

zt_status bench_op(zt_cli *cli, const bench_options *o)
{
    int64_t count[BENCH_MAX_COUNTS] = {zt_cpu_count()};
    int n = 1;
    bench_list list = {0};
    zt_status s = o->threads ? bench_threads(cli->ctx, o->threads, count, &n) : ZT_OK;
    if (s == ZT_OK && cli->n_operands < 2 && !o->input)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "no op: 'rms_norm f32[512,576] f32[576] eps=1e-6'");
    for (int i = 1; i < cli->n_operands && s == ZT_OK; i++)
        s = measure(cli, o, &list, cli->operands[i], count, n);
    if (s == ZT_OK && o->input) s = measure_lines(cli, o, &list, count, n);
    if (s == ZT_OK) s = bench_print(cli, &list);
    bench_list_free(cli->ctx, &list);
    return s;
}
