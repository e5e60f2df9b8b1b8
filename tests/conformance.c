/* conformance.c - every op's every case on every engine, against ref.
 *
 * Per engine and instruction set: results near ref's, the same bits for any number of threads
 * (promise (a) of design.md: 1 to 8 on the best instruction set, 1 and 3 on the others), and for a
 * row alone, in a part and in the whole batch (promise (b)). An op without cases fails, and so does
 * an op of f32 operands that the cpu has no kernel for. Prints a line an op: gradient, dtypes, and
 * the worst error seen. Gradients are grad.c's, the eager door door.c's.
 */
#include "tests/oneop.h"
#include "tests/tap.h"
#include <stdlib.h>

#include <math.h>

enum { GUARD = 64, THREADS = 8, KERNELS_FOR_ALL = 0, MAX_SETUPS = 1 + 2 * ZT_ISA_COUNT + THREADS };

/* ---- engines tried --------------------------------------------------------------------------- */

typedef struct setup {
    char name[32];
    zt_engine *engine;
    int threads, twin; /* twin: the same with 1 thread, whose bits must be met; -1: none */
    bool forced;       /* every thread gets its part, even of little work */
} setup;

static setup setups[MAX_SETUPS];
static int n_setups;

static void add_setup(zt_ctx *ctx, const char *engine, zt_isa isa, int threads, int twin,
                      bool forced)
{
    setup *s = &setups[n_setups++];
    zt_engine_opts opts = {.threads = threads, .isa = isa};
    s->engine = zt_engine_open(ctx, engine, &opts);
    s->threads = threads;
    s->twin = twin;
    s->forced = forced;
    bool ref = strcmp(engine, "ref") == 0;
    snprintf(s->name, sizeof s->name, "%s%s%s", engine, ref ? "" : "-",
             ref ? "" : zt_isa_name(isa));
    ok(s->engine != NULL, "open %s with %d threads", s->name, threads);
}

static void add_setups(zt_ctx *ctx)
{
    add_setup(ctx, "ref", ZT_ISA_SCALAR, 1, -1, false);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        int one = n_setups;
        bool best = isa == (int)zt_isa_best();
        add_setup(ctx, "cpu", (zt_isa)isa, 1, -1, false);
        add_setup(ctx, "cpu", (zt_isa)isa, 3, one, false);
        for (int threads = 2; best && threads <= THREADS; threads++)
            add_setup(ctx, "cpu", (zt_isa)isa, threads, one, true);
    }
}

/* ---- tolerances ------------------------------------------------------------------------------ */

/* Bits that activations go to against block types: 8, 16; 0: they stay f32. */
static int activation_bits(zt_op op, const zt_case *c)
{
    zt_linear_attrs a;
    memcpy(&a, c->attrs, sizeof a);
    return op != ZT_OP_linear || strcmp(a.act.s, "f32") == 0 ? 0 : atoi(a.act.s + 1);
}

/* Ops whose values are long sums of products (or, sum_to, of what was broadcast). */
static bool is_dot_product(zt_op op)
{
    static const char *const of[] = {"linear", "matmul", "attention", "sdpa",     "conv",
                                     "rnn",    "lstm",   "gru",       "spectral", "rfft",
                                     "irfft",  "sum_to", "paged",     "scatter_add"};
    const char *name = zt_op_info(op)->name;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (!strncmp(name, of[i], strlen(of[i]))) return true;
    return false;
}

/* Normalised mean squared error, sum (y - ref)^2 / sum ref^2, that a case may have. f32 arithmetic
 * has 2^-24 = 6e-8, squared 4e-15, a step; a value in 16 bits may round to the other side here and
 * there, and one in 8 bits as well. */
static double tolerance(zt_op op, const zt_case *c, const zt_type *out)
{
    const zt_dtype_info *d = zt_dtype_get(out->dtype);
    char kind = zt_dtype_get(c->in[1].dtype)->kind;
    int bits = activation_bits(op, c);
    if (bits && kind == 'Q') /* x in 8 bits a block of 32: (amax/127)^2/12 of 1 is 3e-5 */
        return bits == 8 ? 5e-4 : 5e-4 / 254 / 254;
    if (bits && c->in[1].dtype == ZT_BF16) return 4e-6; /* x in bf16: 2^-18 for the worst value */
    if (op == ZT_OP_kv_put) return 0;                 /* only rounds, and so does ref's download */
    if (out->dtype == ZT_F16) return 1e-6;
    if (out->dtype == ZT_BF16) return 4e-6;
    if (d->kind == 'F' && d->block_bytes == 1) return 1e-3;
    return is_dot_product(op) ? 1e-10 : 1e-12;
}

static double as_double(const zt_type *t, const void *data, int64_t i)
{
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    const char *at = (const char *)data + i / info->block * info->block_bytes;
    double d;
    float f[256]; /* a block */
    if (t->dtype == ZT_F64) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    info->decode(at, f, info->block);
    return (double)f[i % info->block];
}

/* 0 when equal; infinite when not comparable: a NaN on one side, or an integer that differs. */
static double error_of(const zt_type *t, const void *got, const void *want)
{
    double num = 0, den = 0;
    if (!zt_dtype_is_float(t->dtype)) return memcmp(got, want, zt_type_bytes(t)) ? INFINITY : 0;
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        double g = as_double(t, got, i), w = as_double(t, want, i);
        if (g == w || (isnan(g) && isnan(w))) continue;
        if (!isfinite(g) || !isfinite(w)) return INFINITY;
        num += (g - w) * (g - w);
    }
    if (num == 0) return 0;
    for (int64_t i = 0; i < zt_type_count(t); i++) {
        double w = as_double(t, want, i);
        den += isfinite(w) ? w * w : 0;
    }
    return den > 0 ? num / den : INFINITY;
}

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct trial {
    zt_ctx *ctx;
    zt_case c;
    oneop o;
    int index;
    void *data[ZT_MAX_IN];
    void *want[ZT_MAX_OUT];
    void *got[MAX_SETUPS][ZT_MAX_OUT];
} trial;

static const char *trial_text(const trial *t, char *buf, size_t n)
{
    char type[ZT_TYPE_TEXT];
    size_t at = (size_t)snprintf(buf, n, "%s case %d (", zt_op_info(t->o.op)->name, t->index);
    for (int k = 0; k < ZT_MAX_IN && at < n; k++)
        if (t->o.in[k])
            at += (size_t)snprintf(buf + at, n - at, "%s%s", k ? " " : "",
                                   zt_type_text(t->o.in[k], type));
    if (at < n) snprintf(buf + at, n - at, ")");
    return buf;
}

static bool fails(const trial *t, const char *engine, const char *what)
{
    char buf[512];
    diag("%s: %s: %s%s%s", engine, trial_text(t, buf, sizeof buf), what,
         zt_ctx_status(t->ctx) ? ": " : "", zt_ctx_error(t->ctx));
    zt_ctx_clear(t->ctx);
    return false;
}

/* Room for the outputs, full of bytes that no engine writes by chance, with a guard behind. */
static void new_results(zt_ctx *ctx, const zt_opinfo *info, const zt_type *out, void **result)
{
    for (int k = 0; k < info->n_out; k++) {
        size_t bytes = zt_type_bytes(&out[k]) + GUARD;
        result[k] = zt_alloc(ctx, bytes);
        memset(result[k], 0xA5, bytes);
    }
}

static bool guards_whole(const zt_opinfo *info, const zt_type *out, void *const *result)
{
    for (int k = 0; k < info->n_out; k++)
        for (int i = 0; i < GUARD; i++)
            if (((unsigned char *)result[k])[zt_type_bytes(&out[k]) + (size_t)i] != 0xA5)
                return false;
    return true;
}

static bool trial_open(trial *t, zt_ctx *ctx, zt_op op, int i)
{
    const zt_opinfo *info = zt_op_info(op);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->index = i;
    if (!zt_op_case(op, i, &t->c)) return false;
    t->o = (oneop){.op = op, .attrs = t->c.attrs};
    for (int k = 0; k < info->n_in; k++) {
        if (t->c.fill[k] == ZT_FILL_ABSENT) continue;
        t->o.in[k] = &t->c.in[k];
        t->data[k] = zt_alloc(ctx, zt_type_bytes(&t->c.in[k]));
        zt_case_fill(&t->c, k, 1 + (uint64_t)i, t->data[k]);
        t->o.data[k] = t->data[k];
    }
    return true;
}

static void trial_close(trial *t)
{
    for (int k = 0; k < ZT_MAX_IN; k++) zt_free(t->ctx, t->data[k]);
    for (int k = 0; k < ZT_MAX_OUT; k++) {
        zt_free(t->ctx, t->want[k]);
        for (int s = 0; s < n_setups; s++) zt_free(t->ctx, t->got[s][k]);
    }
}

/* A watched replay hands out the items of every step, however little work they are. */
static zt_watch step_by_step;

static bool run_into(trial *t, const setup *s, void **result)
{
    new_results(t->ctx, zt_op_info(t->o.op), t->o.out, result);
    memcpy(t->o.result, result, sizeof t->o.result);
    t->o.watch = s->forced ? &step_by_step : NULL;
    if (oneop_run(s->engine, &t->o)) return fails(t, s->name, "does not run");
    if (!guards_whole(zt_op_info(t->o.op), t->o.out, result))
        return fails(t, s->name, "writes past its output");
    return true;
}

static bool same_bits(const trial *t, void *const *a, void *const *b)
{
    for (int k = 0; k < zt_op_info(t->o.op)->n_out; k++)
        if (memcmp(a[k], b[k], zt_type_bytes(&t->o.out[k]))) return false;
    return true;
}

/* ---- promise (b): a row does not know its neighbours ----------------------------------------- */

/* Inputs whose first dimension is the batch's rows (or images, or sequences), as bits; and the rank
 * of input `first` from which it is. */
typedef struct rows {
    unsigned inputs;
    int first, min_rank;
} rows;

static const rows batch[ZT_OP_COUNT] = {
    [ZT_OP_argmax] = {1, 0, 2},       [ZT_OP_argmin] = {1, 0, 2},
    [ZT_OP_softmax] = {1, 0, 2},      [ZT_OP_log_softmax] = {1, 0, 2},
    [ZT_OP_cumsum] = {1, 0, 2},       [ZT_OP_linear] = {1, 0, 2},
    [ZT_OP_gather] = {2, 1, 1},       [ZT_OP_rms_norm] = {1, 0, 2},
    [ZT_OP_layer_norm] = {1, 0, 2},   [ZT_OP_add_rms_norm] = {3, 0, 2},
    [ZT_OP_norm_add] = {5, 0, 2},     [ZT_OP_rope] = {3, 0, 2},
    [ZT_OP_attention] = {25, 0, 2},   [ZT_OP_cumprod] = {1, 0, 2},
    [ZT_OP_matmul] = {1, 0, 2},       [ZT_OP_conv] = {1, 0, 2},
    [ZT_OP_max_pool] = {1, 0, 2},     [ZT_OP_avg_pool] = {1, 0, 2},
    [ZT_OP_lp_pool] = {1, 0, 2},      [ZT_OP_smooth_max_pool] = {1, 0, 2},
    [ZT_OP_conv_transpose] = {1, 0, 2},
};

/* An op of single elements has rows wherever all its operands have the same shape. */
static rows rows_of(const trial *t)
{
    const zt_opdef *def = zt_op_info(t->o.op)->def;
    unsigned inputs = 0;
    if (!(def->flags & ZT_OPF_ELEMENTWISE)) return batch[t->o.op];
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (!t->o.in[k]) continue;
        zt_type like = t->o.out[0];
        like.dtype = t->o.in[k]->dtype;
        if (!zt_type_equal(&like, t->o.in[k])) return (rows){0};
        inputs |= 1u << k;
    }
    return (rows){inputs, 0, 1};
}

/* Attributes and inputs by which the first dimension is something else after all. */
static bool has_no_rows(const trial *t)
{
    zt_matmul_attrs m;
    memcpy(&m, t->c.attrs, sizeof m);
    if (t->o.op == ZT_OP_matmul) return m.ta || t->c.in[0].rank != 2 || t->c.in[1].rank != 2;
    return t->o.op == ZT_OP_conv_transpose && t->o.in[3]; /* like has its rows too */
}

/* Ops with an axis: the rows are one line of the case where it is the first. */
static bool goes_across_rows(const trial *t)
{
    const zt_opinfo *info = zt_op_info(t->o.op);
    for (int k = 0; k < info->n_attrs; k++) {
        int64_t axis;
        if (strcmp(info->attrs[k].name, "axis")) continue;
        memcpy(&axis, (const char *)t->c.attrs + info->attrs[k].offset, sizeof axis);
        return axis == 0 || axis == -t->c.in[0].rank;
    }
    return false;
}

/* Packed types may have rows that end within a byte. */
static bool rows_are_bytes(const zt_type *t, int64_t n)
{
    return zt_type_count(t) / n % zt_dtype_get(t->dtype)->block == 0;
}

static bool run_rows(trial *t, const setup *s, int64_t n, int64_t begin, int64_t end,
                     void *const *whole)
{
    const zt_opinfo *info = zt_op_info(t->o.op);
    oneop part = t->o;
    zt_type in[ZT_MAX_IN];
    void *result[ZT_MAX_OUT] = {0};
    bool good = true;
    rows by = rows_of(t);
    for (int k = 0; k < info->n_in; k++) {
        if (!t->o.in[k] || !(by.inputs >> k & 1)) continue;
        in[k] = *t->o.in[k];
        in[k].dim[0] = end - begin;
        part.in[k] = &in[k];
        part.data[k] =
            (const char *)t->data[k] + zt_type_bytes(t->o.in[k]) / (size_t)n * (size_t)begin;
    }
    if (zt_op_infer(t->ctx, part.op, part.attrs, part.in, part.out))
        return fails(t, s->name, "part of the rows does not infer");
    new_results(t->ctx, info, part.out, result);
    memcpy(part.result, result, sizeof result);
    if (oneop_run(s->engine, &part)) good = fails(t, s->name, "part of the rows does not run");
    for (int k = 0; k < info->n_out && good; k++) {
        size_t row = zt_type_bytes(&t->o.out[k]) / (size_t)n;
        if (memcmp(result[k], (char *)whole[k] + row * (size_t)begin, row * (size_t)(end - begin)))
            good = fails(t, s->name, "rows depend on their batch");
    }
    for (int k = 0; k < info->n_out; k++) zt_free(t->ctx, result[k]);
    return good;
}

static bool rows_alone(trial *t, const setup *s, void *const *whole)
{
    rows by = rows_of(t);
    if (!by.inputs || t->c.in[by.first].rank < by.min_rank) return true;
    if (goes_across_rows(t) || has_no_rows(t)) return true;
    int64_t n = t->c.in[by.first].dim[0];
    if (n < 2 || !rows_are_bytes(&t->o.out[0], n)) return true;
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (by.inputs >> k & 1 && t->o.in[k] && !rows_are_bytes(t->o.in[k], n)) return true;
    return run_rows(t, s, n, 0, n / 2, whole) && run_rows(t, s, n, n / 2, n, whole) &&
           run_rows(t, s, n, n - 1, n, whole);
}

/* ---- the matrix ------------------------------------------------------------------------------ */

typedef struct cell {
    int cases, fallbacks;
    double worst;
} cell;

/* A line an op, and one more for linear with rounded activations. */
enum { LINEAR_Q8 = ZT_OP_COUNT, N_LINES };

static cell matrix[N_LINES][ZT_DTYPE_COUNT];
static bool f32_falls_back[ZT_OP_COUNT];

/* The dtype that a case is about: of the weight, of the cache, else of the first input. */
static zt_dtype key_dtype(zt_op op, const zt_case *c)
{
    return c->in[op == ZT_OP_linear || op == ZT_OP_attention].dtype;
}

/* Are all floats of the case f32? */
static bool is_f32(const trial *t)
{
    bool any = false;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (!t->o.in[k] || !zt_dtype_is_float(t->o.in[k]->dtype)) continue;
        if (t->o.in[k]->dtype != ZT_F32) return false;
        any = true;
    }
    return any;
}

static void note(const trial *t, double error, bool falls_back)
{
    int line = activation_bits(t->o.op, &t->c) ? LINEAR_Q8 : (int)t->o.op;
    cell *m = &matrix[line][key_dtype(t->o.op, &t->c)];
    m->cases++;
    m->fallbacks += falls_back;
    if (falls_back && is_f32(t)) f32_falls_back[t->o.op] = true;
    if (error > m->worst) m->worst = error;
}

static void put_line(const char *name, const char *gradient, const cell *row)
{
    char line[128];
    int start = snprintf(line, sizeof line, "%-22s %-6s", name, gradient), at = start;
    for (int d = 0; d < ZT_DTYPE_COUNT; d++) {
        const cell *m = &row[d];
        char text[48], error[16];
        if (!m->cases) continue;
        snprintf(error, sizeof error, "%.0e", m->worst);
        snprintf(text, sizeof text, "  %s %s%s", zt_dtype_get((zt_dtype)d)->name,
                 m->fallbacks == m->cases ? "-" : m->worst > 0 ? error : "0",
                 m->fallbacks && m->fallbacks < m->cases ? " (in part)" : "");
        if (at + strlen(text) > 98) {
            diag("%s", line);
            at = snprintf(line, sizeof line, "%*s", start, "");
        }
        at += snprintf(line + at, sizeof line - (size_t)at, "%s", text);
    }
    diag("%s", line);
}

static void print_matrix(void)
{
    diag("op, its gradient, and for each dtype the worst normalised mean squared error on cpu (of");
    diag("all instruction sets) against ref; '-' has no kernel, falls back to ref; a view moves");
    diag("nothing");
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const zt_opdef *def = zt_op_info((zt_op)op)->def;
        const char *gradient = def->vjp ? "vjp" : def->expand ? "expand" : "none";
        put_line(zt_op_info((zt_op)op)->name, def->flags & ZT_OPF_VIEW ? "view" : gradient,
                 matrix[op]);
        if (op == ZT_OP_linear) put_line("  in 8 or 16 bits", "none", matrix[LINEAR_Q8]);
    }
}

/* Ops that the cpu may do without a kernel of its own for f32, and why. */
static const struct {
    zt_op op;
    const char *why;
} without_kernel[] = {
    {ZT_OP_call, "it is the caller's own function"},
};

static void check_fallbacks(void)
{
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const char *why = NULL;
        if (!f32_falls_back[op]) continue;
        for (size_t i = 0; i < sizeof without_kernel / sizeof without_kernel[0]; i++)
            if (without_kernel[i].op == (zt_op)op) why = without_kernel[i].why;
        if (why) diag("%s has no kernel on cpu: %s", zt_op_info((zt_op)op)->name, why);
        ok(why || !KERNELS_FOR_ALL, "%s of f32 has a kernel on cpu", zt_op_info((zt_op)op)->name);
        if (!why) diag("%s falls back", zt_op_info((zt_op)op)->name);
    }
}

/* ---- walking --------------------------------------------------------------------------------- */

static bool check(trial *t, int which)
{
    const setup *s = &setups[which];
    double worst = 0;
    if (!oneop_has(s->engine, &t->o)) {
        note(t, 0, true);
        return true;
    }
    if (!run_into(t, s, t->got[which])) return false;
    for (int k = 0; k < zt_op_info(t->o.op)->n_out; k++) {
        double e = error_of(&t->o.out[k], t->got[which][k], t->want[k]);
        double limit = tolerance(t->o.op, &t->c, &t->o.out[k]);
        char text[80];
        worst = fmax(worst, e);
        snprintf(text, sizeof text, "output %d: error %.3g, allowed %.3g", k, e, limit);
        if (!(e <= limit)) return fails(t, s->name, text);
    }
    note(t, worst, false);
    if (s->twin >= 0 && !same_bits(t, t->got[which], t->got[s->twin]))
        return fails(t, s->name, "other bits than with 1 thread");
    return s->forced || rows_alone(t, s, t->got[which]);
}

static void walk(zt_ctx *ctx, zt_op op)
{
    bool good[MAX_SETUPS], ref_good = true, all_good = true;
    int n = 0;
    trial t;
    for (int s = 0; s < n_setups; s++) good[s] = true;
    for (; trial_open(&t, ctx, op, n); n++, trial_close(&t)) {
        if (zt_op_infer(ctx, op, t.o.attrs, t.o.in, t.o.out)) {
            ref_good = fails(&t, "infer", "is refused");
            continue;
        }
        if (!run_into(&t, &setups[0], t.want) || !rows_alone(&t, &setups[0], t.want)) {
            ref_good = false;
            continue;
        }
        for (int s = 1; s < n_setups; s++)
            if (!check(&t, s)) good[s] = false;
    }
    ok(n > 0, "%s has cases: %d", zt_op_info(op)->name, n);
    ok(ref_good, "%s on ref", zt_op_info(op)->name);
    for (int s = 1; s < n_setups; s++) all_good &= good[s];
    ok(all_good, "%s on cpu", zt_op_info(op)->name);
    for (int s = 1; s < n_setups; s++)
        if (!good[s]) diag("%s fails on %s, %d threads", zt_op_info(op)->name, setups[s].name,
                           setups[s].threads);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    add_setups(ctx);
    if (tap_failed) return tap_done();
    for (int op = 0; op < ZT_OP_COUNT; op++) walk(ctx, (zt_op)op);
    print_matrix();
    check_fallbacks();
    for (int s = 0; s < n_setups; s++) zt_engine_close(setups[s].engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
