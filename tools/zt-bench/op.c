/* op.c - zt-bench op: the speed of one op, or of a program, per thread count.
 *
 * A line such as 'rms_norm f32[512,576] f32[576] eps=1e-6' becomes a program of one step: types are
 * inputs (`_` is an absent one), except a weight (linear's w), which is data, packed once as a
 * model's is. Of a program's file inputs and data are made up likewise (lib/run/bind_inputs.h), so that
 * indices are in range.
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

static const double SHORTEST = 0.002; /* seconds a sample lasts at least */

/* ---- subjects -------------------------------------------------------------------------------- */

typedef struct subject {
    zt_cli *cli;
    const bench_options *o;
    zt_prog *prog;
    zt_bindings bind;
    zt_bound_inputs *feed;
    double flops, bytes;
    zt_cost_whole cost;
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

/* The parser tells of LINE:N, lines of a program that the caller did not write: what is wrong is enough. */
static void tell_of_line(zt_ctx *ctx, const char *line)
{
    char what[512], shown[128];
    zt_status s = zt_ctx_status(ctx);
    size_t n = strlen(line);
    const char *said = zt_ctx_error(ctx);
    if (strncmp(said, line, n) || said[n] != ':') return;
    said += n + 1;
    said += strspn(said, "0123456789");
    snprintf(what, sizeof what, "%s", said + strspn(said, ": "));
    zt_ctx_clear(ctx);
    zt_fail(ctx, s, "'%s': %s", zt_escape(shown, sizeof shown, line, n), what);
}

static zt_prog *program_of_line(zt_ctx *ctx, const char *line)
{
    zt_str text, call;
    zt_str_init(&text, ctx);
    zt_str_init(&call, ctx);
    zt_status s = write_program(line, &text, &call);
    zt_prog *p = s == ZT_OK ? zt_prog_parse(ctx, line, text.data, text.len) : NULL;
    if (s == ZT_OK && !p) tell_of_line(ctx, line);
    zt_str_fini(&text);
    zt_str_fini(&call);
    return p;
}

static bool is_file(zt_cli *cli, const char *name)
{
    size_t n = strlen(name);
    return (n > 3 && !strcmp(name + n - 3, ".zt")) || zt_cli_is_network(cli, name);
}

static zt_prog *program_of(zt_cli *cli, const char *name)
{
    return is_file(cli, name) ? zt_cli_program(cli, name) : program_of_line(cli->ctx, name);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Of inputs and data, read once, and outputs, written once. */
static double bytes_of(const subject *s)
{
    const zt_type *type = s->feed->bound->type;
    double sum = 0;
    for (int v = 0; v < s->feed->bound->n_values; v++) {
        zt_value_kind kind = zt_prog_value(s->prog, v)->kind;
        if (kind == ZT_VALUE_IN || kind == ZT_VALUE_DATA) sum += (double)zt_type_bytes(&type[v]);
    }
    for (int o = 0; o < zt_prog_n_outputs(s->prog); o++)
        sum += (double)zt_type_bytes(&type[zt_prog_output(s->prog, o)->value]);
    return sum;
}

static double flops_of(const subject *s)
{
    double sum = 0;
    for (int i = 0; i < s->feed->bound->n_steps; i++) {
        const zt_step *st = zt_prog_step(s->prog, i);
        const zt_type *in[ZT_MAX_IN] = {0};
        zt_type out[ZT_MAX_OUT] = {{0}};
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (st->in[k] >= 0) in[k] = &s->feed->bound->type[st->in[k]];
        for (int k = 0; k < ZT_MAX_OUT; k++)
            if (st->out[k] >= 0) out[k] = s->feed->bound->type[st->out[k]];
        const void *attrs = s->feed->bound->attrs[i];
        sum += zt_op_flops(st->op, attrs ? attrs : zt_op_info(st->op)->defaults, in, out);
    }
    return sum;
}

static zt_status open_subject(subject *s, const char *name)
{
    zt_ctx *ctx = s->cli->ctx;
    s->prog = program_of(s->cli, name);
    zt_status st = s->prog ? zt_bindings_of(ctx, s->o->bind, s->prog, &s->bind) : zt_ctx_status(ctx);
    if (st != ZT_OK) return st;
    s->feed = zt_bound_inputs_new(ctx, s->prog,
                          &(zt_bound_inputs_opts){.bind = s->bind.items, .n_bind = s->bind.count, .draw = true,
                                          .draw_data = true});
    if (!s->feed) return zt_ctx_status(ctx);
    int *root = zt_cost_roots(ctx, s->prog);
    st = root ? zt_cost_add(ctx, s->feed->bound, root, -1, 1, &s->cost) : ZT_ENOMEM;
    s->flops = flops_of(s);
    s->bytes = bytes_of(s);
    zt_free(ctx, root);
    return st;
}

static void close_subject(subject *s)
{
    zt_bound_inputs_free(s->feed);
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
    if (w->door) return bench_door_run(w->door, s->feed->out);
    return zt_session_step(w->session, s->bind.items, s->bind.count, (const void *const *)s->feed->in,
                           s->feed->out);
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

/* A subject on an engine: prepared and replayed, or op by op, as --ops says. */
typedef struct rig {
    subject *s;
    const char *name;
    zt_engine *engine;
    zt_prog *ready; /* as a session has it: through the passes */
    way way;
    bench_counters counters;
    int64_t times;   /* runs a sample */
    double *seconds; /* [n] a run */
    int64_t n;
} rig;

static zt_status rig_open(rig *r, subject *s, const char *name, int64_t threads)
{
    zt_ctx *ctx = s->cli->ctx;
    bool replay = s->o->how == BENCH_REPLAY;
    zt_session_opts so = {.strict = s->cli->strict, .fixed = s->bind.items, .n_fixed = s->bind.count};
    *r = (rig){.s = s, .name = name};
    if (!s->o->vs) bench_counters_open(&r->counters); /* before its threads begin */
    zt_engine *e = r->engine =
        zt_cli_engine_for(s->cli, threads, s->prog, s->bind.items, s->bind.count);
    zt_pass_opts po = {.sample = s->bind.items, .n_sample = s->bind.count, .engine = e};
    r->seconds = zt_calloc(ctx, (size_t)bench_most(s->o), sizeof *r->seconds);
    if (e && replay) r->ready = zt_prog_passes(ctx, s->prog, &po, NULL);
    if (r->ready)
        r->way.session = zt_session_open(e, r->ready, &s->feed->store, &so);
    else if (e && !replay)
        r->way.door = bench_door_open(e, s->prog, s->feed->bound, s->feed->in, s->feed->data,
                                      s->o->how == BENCH_EAGER, s->cli->strict);
    return zt_ctx_status(ctx);
}

static void rig_close(rig *r)
{
    if (!r->s) return;
    zt_free(r->s->cli->ctx, r->seconds);
    bench_counters_close(&r->counters);
    bench_door_close(r->way.door);
    if (r->way.session) zt_session_close(r->way.session);
    zt_prog_free(r->ready);
    if (r->engine) zt_engine_close(r->engine);
}

/* Rows of one subject: the same samples in three units; beside another, whose work may be another
 * amount, its time alone. */
static zt_status add_rows(rig *r, bench_list *l, int64_t threads)
{
    const subject *s = r->s;
    const struct {
        const char *unit;
        double per; /* the unit's figure of a run is per / seconds; 0: seconds in us */
    } unit[] = {{"us", 0}, {"GFLOP/s", s->flops / 1e9}, {"GB/s", s->bytes / 1e9}};
    snprintf(l->engine, sizeof l->engine, "%s", r->engine->vt->name);
    const zt_roof *roof = bench_roof(s->cli, s->o, l, (int)threads);
    for (int u = 0; u < (s->o->vs ? 1 : 3); u++) {
        if (u && unit[u].per == 0) continue;
        bench_result *row = bench_add(s->cli->ctx, l, r->name, threads, unit[u].unit, r->n);
        if (!row) return zt_ctx_status(s->cli->ctx);
        if (roof) bench_set_roof(row, &s->cost, roof);
        bench_set_counts(row, &r->counters);
        for (row->n = 0; row->n < r->n; row->n++)
            row->samples[row->n] =
                u ? unit[u].per / r->seconds[row->n] : r->seconds[row->n] * 1e6;
    }
    int fell = r->way.door ? bench_door_fallbacks(r->way.door)
                           : zt_session_get(r->way.session).fallbacks;
    if (fell) zt_cli_note(s->cli, "%s: %d steps fell back to another engine", r->name, fell);
    return ZT_OK;
}

/* Two runs, which say too how many a sample takes. */
static zt_status warm_up(rig *r)
{
    double once = 0;
    zt_status st = run_times(r->s, &r->way, 1, &once);
    if (st == ZT_OK) st = run_times(r->s, &r->way, 1, &once);
    r->times = once >= SHORTEST ? 1 : 1 + (int64_t)(SHORTEST / (once > 1e-9 ? once : 1e-9));
    return st;
}

/* More rounds, of two sides? */
static zt_status more(const rig *r, int64_t *rounds)
{
    bench_result row[2];
    for (int k = 0; k < 2; k++)
        row[k] = (bench_result){.test = "", .unit = "us", .samples = r[k].seconds, .n = r[k].n};
    return bench_more(r->s->cli, r->s->o, &row[0], &row[1], rounds);
}

static zt_status sample(rig *r, int sides)
{
    int64_t reps = r->s->o->reps;
    zt_status st = ZT_OK;
    for (int k = 0; k < sides && st == ZT_OK; k++) st = warm_up(&r[k]);
    bench_counters_start(&r->counters, r->engine);
    for (int64_t i = 0; i < reps && st == ZT_OK; i++) {
        for (int turn = 0; turn < sides && st == ZT_OK; turn++) {
            rig *now = &r[bench_turn(sides, i, turn)];
            st = run_times(now->s, &now->way, now->times, &now->seconds[now->n++]);
        }
        zt_progress(r->s->cli, &(zt_work){"op", r->name, "samples", (double)(i + 1), (double)reps});
        if (st == ZT_OK && i + 1 == reps) st = more(r, &reps);
    }
    bench_counters_stop(&r->counters, r->engine, (double)(reps * r->times));
    return st;
}

static zt_status with_threads(subject *s, bench_list *l, char *const *name, int sides,
                              int64_t threads)
{
    rig r[2] = {{0}};
    zt_status st = ZT_OK;
    for (int k = 0; k < sides && st == ZT_OK; k++) st = rig_open(&r[k], &s[k], name[k], threads);
    if (st == ZT_OK) st = sample(r, sides);
    for (int k = 0; k < sides && st == ZT_OK; k++) st = add_rows(&r[k], &l[k], threads);
    for (int k = 0; k < sides; k++) rig_close(&r[k]);
    return st;
}

/* One subject, or with --vs two. */
static zt_status measure(zt_cli *cli, const bench_options *o, bench_list *l, char *const *name,
                         const int64_t *count, int n)
{
    int sides = bench_sides(o);
    subject s[2] = {{.cli = cli, .o = o}, {.cli = cli, .o = o}};
    zt_status st = ZT_OK;
    for (int k = 0; k < sides && st == ZT_OK; k++) st = open_subject(&s[k], name[k]);
    for (int i = 0; i < n && st == ZT_OK; i++) st = with_threads(s, l, name, sides, count[i]);
    for (int k = 0; k < sides; k++) close_subject(&s[k]);
    return st;
}

/* The lines of -i FILE; empty ones and those that begin with # are none. */
static zt_status measure_lines(zt_cli *cli, const bench_options *o, bench_list *l,
                               const int64_t *count, int n)
{
    size_t bytes;
    char *text = zt_read_all(cli->ctx, o->input, &bytes);
    zt_status st = text ? ZT_OK : zt_ctx_status(cli->ctx);
    bool any = false;
    for (char *at = text, *next; st == ZT_OK && at && *at; at = next) {
        size_t len = strcspn(at, "\n");
        next = at + len + (at[len] == '\n');
        at[len] = 0;
        char *line = at + strspn(at, " \t");
        if (!*line || *line == '#') continue;
        any = true;
        st = measure(cli, o, l, &line, count, n);
    }
    if (st == ZT_OK && !any) st = zt_fail(cli->ctx, ZT_EDATA, "%s: no op is in it", o->input);
    zt_free(cli->ctx, text);
    return st;
}

zt_status bench_op(zt_cli *cli, const bench_options *o)
{
    int64_t count[BENCH_MAX_COUNTS] = {zt_cpu_count()};
    int n = 1, sides = bench_sides(o);
    bench_list l[2] = {{0}};
    zt_status s = o->threads ? bench_threads(cli->ctx, o->threads, count, &n) : ZT_OK;
    if (s == ZT_OK && cli->n_operands < 2 && !o->input)
        s = zt_fail(cli->ctx, ZT_EUSAGE, "no op: 'rms_norm f32[512,576] f32[576] eps=1e-6'");
    if (s == ZT_OK && o->vs && (cli->n_operands != 3 || o->input))
        s = zt_fail(cli->ctx, ZT_EUSAGE, "op --vs takes two ops or programs, not %d",
                    cli->n_operands - 1);
    for (int i = 1; i < cli->n_operands && s == ZT_OK; i += sides)
        s = measure(cli, o, l, cli->operands + i, count, n);
    if (s == ZT_OK && o->input) s = measure_lines(cli, o, l, count, n);
    if (s == ZT_OK) s = bench_answer(cli, o, l);
    for (int k = 0; k < sides; k++) bench_list_free(cli->ctx, &l[k]);
    return s;
}
