/* conformance.c - every op's every case on every engine, against ref.
 *
 * Per engine and instruction set: results near ref's, the same bits for any number of threads
 * (promise (a) of design.md: 1 to 8 on the best instruction set, 1 and 3 on the others), and for a
 * row alone, in a part and in the whole batch (promise (b)). An op without cases fails, and so does
 * an op of f32 operands that the cpu has no kernel for. Prints a line an op: gradient, dtypes, and
 * the worst error seen. Gradients are grad.c's, the eager door door.c's.
 *
 * conformance [ENGINE [OP...]]: on this engine and ref alone, these ops alone.
 */
#include "lib/run/diff.h"
#include "tests/oneop.h"
#include "tests/tap.h"
#include <stdlib.h>

#include <math.h>

enum {
    GUARD = 64,
    THREADS = 8,
    RETYPED = 20000, /* elements of a case that is tried in other dtypes as well */
    MAX_SETUPS = 1 + 2 * ZT_ISA_COUNT + THREADS + 4
};

/* ---- engines tried --------------------------------------------------------------------------- */

enum { ON_CPU, ON_VULKAN, ON_CUDA, ON_HIP, N_COLUMNS }; /* of the matrix */
static const char *const columns[N_COLUMNS] = {"cpu", "vulkan", "cuda", "hip"};

typedef struct setup {
    char name[32];
    zt_engine *engine;
    int column;
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

/* Twice, so that a second run must give the same bits. */
static void add_device(zt_ctx *ctx, int column)
{
    zt_engine_opts opts = {.isa = zt_isa_best()};
    for (int twice = 0; twice < 2; twice++) {
        zt_engine *e = zt_engine_open(ctx, columns[column], &opts);
        if (!e) {
            skip("%s: %s", columns[column], zt_ctx_error(ctx));
            zt_ctx_clear(ctx);
            return;
        }
        setups[n_setups] = (setup){.engine = e, .column = column, .threads = 1};
        snprintf(setups[n_setups].name, sizeof setups[0].name, "%s", columns[column]);
        setups[n_setups].twin = twice ? n_setups - 1 : -1;
        n_setups++;
    }
}

static void add_setups(zt_ctx *ctx, const char *only)
{
    add_setup(ctx, "ref", ZT_ISA_SCALAR, 1, -1, false);
    for (int isa = 0; isa <= (int)zt_isa_best() && (!only || !strcmp(only, "cpu")); isa++) {
        int one = n_setups;
        bool best = isa == (int)zt_isa_best();
        add_setup(ctx, "cpu", (zt_isa)isa, 1, -1, false);
        add_setup(ctx, "cpu", (zt_isa)isa, 3, one, false);
        for (int threads = 2; best && threads <= THREADS; threads++)
            add_setup(ctx, "cpu", (zt_isa)isa, threads, one, true);
    }
    /* hip has cuda's rows and kernels: it is tried where it is named. */
    for (int column = ON_VULKAN; column < N_COLUMNS; column++)
        if (only ? !strcmp(only, columns[column]) : column != ON_HIP) add_device(ctx, column);
}

/* ---- one case -------------------------------------------------------------------------------- */

typedef struct trial {
    zt_ctx *ctx;
    zt_case c;
    oneop o;
    int index;
    bool skip; /* the op does not take it in this dtype */
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

/* Case i with its f32 inputs in another dtype, where the op takes that: every case in f64, f16 and
 * bf16, without a word about it in the rows. */
static bool is_another(const trial *t)
{
    int64_t count = 0;
    zt_type out[ZT_MAX_OUT];
    const zt_type *in[ZT_MAX_IN] = {0};
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (t->c.fill[k] == ZT_FILL_ABSENT) continue;
        in[k] = &t->c.in[k];
        count += zt_type_count(in[k]);
    }
    return count <= RETYPED && !zt_op_infer(NULL, t->o.op, t->c.attrs, in, out);
}

static bool trial_open(trial *t, zt_ctx *ctx, zt_op op, int i, zt_dtype as)
{
    const zt_opinfo *info = zt_op_info(op);
    memset(t, 0, sizeof *t);
    t->ctx = ctx;
    t->index = i;
    t->o = (oneop){.op = op, .attrs = t->c.attrs};
    if (!zt_op_case(op, i, &t->c)) return false;
    t->skip = as != ZT_F32 && (!retyped(&t->c, as) || !is_another(t));
    for (int k = 0; k < info->n_in && !t->skip; k++) {
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
    [ZT_OP_scaled_softmax] = {1, 0, 2}, [ZT_OP_qk_norm_rope] = {25, 0, 3},
    [ZT_OP_attention] = {25, 0, 2},   [ZT_OP_cumprod] = {1, 0, 2},
    [ZT_OP_matmul] = {1, 0, 2},       [ZT_OP_conv] = {1, 0, 2},
    [ZT_OP_max_pool] = {1, 0, 2},     [ZT_OP_avg_pool] = {1, 0, 2},
    [ZT_OP_lp_pool] = {1, 0, 2},      [ZT_OP_smooth_max_pool] = {1, 0, 2},
    [ZT_OP_conv_transpose] = {1, 0, 2}, [ZT_OP_linears] = {1, 0, 2},
    [ZT_OP_gated_linear] = {1, 0, 2}, [ZT_OP_linear_act] = {1, 0, 2},
    [ZT_OP_linear_add] = {5, 0, 2},   [ZT_OP_sample_token] = {255, 0, 2},
};

/* An op of single elements has rows wherever all its operands have the same shape. */
static rows rows_of(const trial *t)
{
    const zt_opdef *def = zt_op_info(t->o.op)->def;
    unsigned inputs = 0;
    if (t->o.op == ZT_OP_sample_token && t->o.in[8] && t->o.in[8]->rank == 2)
        return (rows){511, 0, 2}; /* rows have lists of their own */
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

static cell matrix[N_COLUMNS][N_LINES][ZT_DTYPE_COUNT];
static bool f32_falls_back[ZT_OP_COUNT];

/* The dtype that a case is about: of the weight, of the cache, else of the first input. */
static zt_dtype key_dtype(zt_op op, const zt_case *c)
{
    return c->in[zt_op_info(op)->def->weights != 0 || op == ZT_OP_attention].dtype;
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

/* Does it round its activations? */
static bool rounds(const trial *t)
{
    zt_linear_attrs a;
    memcpy(&a, t->c.attrs, sizeof a);
    return t->o.op == ZT_OP_linear && strcmp(a.act.s, "f32") != 0;
}

static void note(const trial *t, const setup *s, double error, bool falls_back)
{
    int line = rounds(t) ? LINEAR_Q8 : (int)t->o.op;
    cell *m = &matrix[s->column][line][key_dtype(t->o.op, &t->c)];
    m->cases++;
    m->fallbacks += falls_back;
    if (falls_back && s->column == ON_CPU && is_f32(t)) f32_falls_back[t->o.op] = true;
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

static bool has_any(const cell *row)
{
    for (int d = 0; d < ZT_DTYPE_COUNT; d++)
        if (row[d].cases > row[d].fallbacks) return true;
    return false;
}

static void print_cpu(void)
{
    diag("op, its gradient, and for each dtype the worst normalised mean squared error on cpu (of");
    diag("all instruction sets) against ref; '-' has no kernel, falls back to ref; a view moves");
    diag("nothing");
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const zt_opdef *def = zt_op_info((zt_op)op)->def;
        const char *gradient = def->vjp                       ? "vjp"
                               : zt_op_has_gradient((zt_op)op) ? "expand"
                                                               : "none";
        put_line(zt_op_info((zt_op)op)->name, def->flags & ZT_OPF_VIEW ? "view" : gradient,
                 matrix[ON_CPU][op]);
        if (op == ZT_OP_linear)
            put_line("  in 8 or 16 bits", "none", matrix[ON_CPU][LINEAR_Q8]);
    }
}

static void print_device(int column)
{
    diag("the same on %s, of the ops that it has", columns[column]);
    for (int op = 0; op < N_LINES; op++)
        if (has_any(matrix[column][op]))
            put_line(op == LINEAR_Q8 ? "linear in 8 or 16 bits" : zt_op_info((zt_op)op)->name, "",
                     matrix[column][op]);
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
        ok(why != NULL, "%s of f32 has a kernel on cpu", zt_op_info((zt_op)op)->name);
    }
}

/* cuda, and so hip, has a kernel for some case of every op that moves anything. */
static void check_cuda(int column)
{
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        bool needs = !(zt_op_info((zt_op)op)->def->flags & (ZT_OPF_VIEW | ZT_OPF_CALLERS));
        if (needs)
            ok(has_any(matrix[column][op]), "%s on %s", zt_op_info((zt_op)op)->name,
               columns[column]);
    }
}

/* ---- walking --------------------------------------------------------------------------------- */

static bool check(trial *t, int which)
{
    const setup *s = &setups[which];
    double worst = 0;
    if (!oneop_has(s->engine, &t->o)) {
        note(t, s, 0, true);
        return true;
    }
    if (!run_into(t, s, t->got[which])) return false;
    for (int k = 0; k < zt_op_info(t->o.op)->n_out; k++) {
        double limit = zt_op_bound(t->o.op, t->c.attrs, t->o.in, &t->o.out[k]);
        zt_difference d;
        char text[160];
        zt_compare(&t->o.out[k], t->got[which][k], t->want[k], &d);
        worst = fmax(worst, d.nmse);
        snprintf(text, sizeof text,
                 "output %d: error %.3g, allowed %.3g; element %lld is %g, not %g", k, d.nmse,
                 limit, (long long)d.worst, d.got, d.want);
        if (!(zt_difference_share(&d, limit) <= 1)) return fails(t, s->name, text);
    }
    note(t, s, worst, false);
    if (s->twin >= 0 && !same_bits(t, t->got[which], t->got[s->twin]))
        return fails(t, s->name, "other bits than with 1 thread");
    return s->forced || rows_alone(t, s, t->got[which]);
}

/* All cases of an op, as they are or in another dtype; how many. */
static int walk_as(zt_ctx *ctx, zt_op op, zt_dtype as, bool *good)
{
    int n = 0;
    trial t;
    for (int i = 0; trial_open(&t, ctx, op, i, as); i++, trial_close(&t)) {
        if (t.skip) continue;
        n++;
        if (zt_op_infer(ctx, op, t.o.attrs, t.o.in, t.o.out))
            good[0] = fails(&t, "infer", "is refused");
        else if (!run_into(&t, &setups[0], t.want) || !rows_alone(&t, &setups[0], t.want))
            good[0] = false;
        else
            for (int s = 1; s < n_setups; s++)
                if (!check(&t, s)) good[s] = false;
    }
    return n;
}

static void walk(zt_ctx *ctx, zt_op op)
{
    static const zt_dtype others[] = {ZT_F64, ZT_F16, ZT_BF16};
    bool good[MAX_SETUPS], all_good = true;
    int more = 0;
    for (int s = 0; s < n_setups; s++) good[s] = true;
    int n = walk_as(ctx, op, ZT_F32, good);
    for (int d = 0; d < 3; d++) more += walk_as(ctx, op, others[d], good);
    ok(n > 0, "%s has cases: %d, and %d in other dtypes", zt_op_info(op)->name, n, more);
    ok(good[0], "%s on ref", zt_op_info(op)->name);
    for (int s = 1; s < n_setups; s++) all_good &= good[s];
    ok(all_good, "%s on the engines", zt_op_info(op)->name);
    for (int s = 1; s < n_setups; s++)
        if (!good[s])
            diag("%s fails on %s, %d threads", zt_op_info(op)->name, setups[s].name,
                 setups[s].threads);
}

static bool among(const char *name, char **list)
{
    for (; *list; list++)
        if (!strcmp(name, *list)) return true;
    return false;
}

int main(int argc, char **argv)
{
    zt_ctx *ctx = zt_ctx_new();
    add_setups(ctx, argc > 1 ? argv[1] : NULL);
    if (tap_failed) return tap_done();
    for (int op = 0; op < ZT_OP_COUNT; op++)
        if (argc < 3 || among(zt_op_info((zt_op)op)->name, argv + 2)) walk(ctx, (zt_op)op);
    if (argc < 2 || !strcmp(argv[1], "cpu")) print_cpu();
    for (int s = 0; s < n_setups; s++)
        if (setups[s].column != ON_CPU && setups[s].twin < 0) print_device(setups[s].column);
    const int last = setups[n_setups - 1].column;
    if (argc < 3 && last >= ON_CUDA) check_cuda(last);
    check_fallbacks();
    for (int s = 0; s < n_setups; s++) zt_engine_close(setups[s].engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
