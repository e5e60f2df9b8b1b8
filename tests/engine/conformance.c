/* conformance.c - every op's every case on every engine, against ref.
 *
 * Per engine and instruction set: results near ref's, the same bits for any number of threads
 * (promise (a) of design.md: 1 to 8 on the best instruction set, 1 and 3 on the others), the same on every
 * instruction set, and for a row alone, in a part and in the whole batch (promise (b)). An op without cases fails, and so does
 * an op of f32 operands that the cpu has no kernel for. Prints a line an op: gradient, dtypes, and
 * the worst error seen. Gradients are grad.c's, the eager functions' are eager_ops.c's.
 *
 * conformance [ENGINE [OP...]]: on this engine and ref alone, these ops alone.
 * conformance bits [ISA [OP...]]: prints the bits of the cpu (conformance_bits.h).
 * conformance contract ENGINE [OP...]: compares the kernels that promise the bits of docs/arithmetic.md with the cpu's.
 */
#include "lib/run/diff.h"
#include "tests/engine/conformance_bits.h"
#include "tests/engine/conformance_rows.h"
#include "tests/engine/conformance_trial.h"

#include <math.h>
#include <stdlib.h>

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
    return c
        ->in[zt_op_info(op)->def->weights != 0 || op == ZT_OP_attention || op == ZT_OP_attention_sinks ||
             op == ZT_OP_attention_alibi || op == ZT_OP_attention_chunked || op == ZT_OP_attention_indexed]
        .dtype;
}

/* Are all floats of the case f32? */
static bool is_f32(const trial *tried)
{
    bool any = false;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (!tried->o.in[k] || !zt_dtype_is_float(tried->o.in[k]->dtype)) continue;
        if (tried->o.in[k]->dtype != ZT_F32) return false;
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

static void note(const trial *tried, const setup *options, double error, bool falls_back)
{
    int line = rounds(tried) ? LINEAR_Q8 : (int)tried->o.op;
    cell *m = &matrix[options->column][line][key_dtype(tried->o.op, &tried->c)];
    m->cases++;
    m->fallbacks += falls_back;
    if (falls_back && options->column == ON_CPU && is_f32(tried)) f32_falls_back[tried->o.op] = true;
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
                 m->fallbacks == m->cases ? "-"
                 : m->worst > 0           ? error
                                          : "0",
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
        const char *gradient = def->vjp ? "vjp" : zt_op_has_gradient((zt_op)op) ? "expand" : "none";
        put_line(zt_op_info((zt_op)op)->name, def->flags & ZT_OPF_VIEW ? "view" : gradient, matrix[ON_CPU][op]);
        if (op == ZT_OP_linear) put_line("  in 8 or 16 bits", "none", matrix[ON_CPU][LINEAR_Q8]);
    }
}

static void print_device(int column)
{
    diag("the same on %s, of the ops that it has", columns[column]);
    for (int op = 0; op < N_LINES; op++)
        if (has_any(matrix[column][op]))
            put_line(op == LINEAR_Q8 ? "linear in 8 or 16 bits" : zt_op_info((zt_op)op)->name, "", matrix[column][op]);
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

/* Ops that cuda, and so hip, leaves to the cpu. One that has a kernel by now is a failure, so that the list stays true. */
/* All but attention_indexed are gradients, or products of adapters, that training alone runs. */
static const zt_op left_by_cuda[] = {ZT_OP_attention_indexed,   ZT_OP_matmul_weight,           ZT_OP_causal_conv_backward,
                                     ZT_OP_delta_rule_backward, ZT_OP_selective_scan_backward, ZT_OP_wkv7_backward};

static bool is_left_by_cuda(zt_op op)
{
    for (size_t i = 0; i < sizeof left_by_cuda / sizeof left_by_cuda[0]; i++)
        if (left_by_cuda[i] == op) return true;
    return false;
}

/* Ops that opencl leaves besides, and why; those whose cases without an element it has still, as nothing is launched for them. */
static const struct {
    zt_op op;
    const char *why;
    bool but_empty;
} left_by_opencl[] = {
    {ZT_OP_sample_token, "its probabilities are f64", false},
    {ZT_OP_rfft, "transforms have no kernel", true},
    {ZT_OP_rfft_backward, "transforms have no kernel", true},
    {ZT_OP_irfft, "transforms have no kernel", true},
    {ZT_OP_irfft_backward, "transforms have no kernel", true},
    {ZT_OP_dft, "transforms have no kernel", true},
    {ZT_OP_spectral_conv1d_rfft, "transforms have no kernel", false},
    {ZT_OP_spectral_conv1d_rfft_backward, "transforms have no kernel", false},
    {ZT_OP_wkv7, "the recurrence of RWKV-7 has no kernel", true},
};

/* Why a device has no kernel for an op, or NULL: it must have one, as it must of no elements where `but_empty`. Vulkan has all but
 * hadamard. */
static const char *left_by(const int column, zt_op op, bool *but_empty)
{
    *but_empty = false;
    if (op == ZT_OP_hadamard) return "quantized KV caches, for which it is, are the cpu's";
    for (size_t i = 0; column == ON_OPENCL && i < sizeof left_by_opencl / sizeof left_by_opencl[0]; i++) {
        if (left_by_opencl[i].op != op) continue;
        *but_empty = left_by_opencl[i].but_empty;
        return left_by_opencl[i].why;
    }
    return column != ON_VULKAN && is_left_by_cuda(op) ? "it is a gradient, or an op of one architecture" : NULL;
}

/* A device has a kernel for some case of every op that moves anything, but those that are listed above. */
static void check_device(int column)
{
    if (column == ON_OPENCL) diag("opencl leaves every case in f64 to the cpu: its kernels do not compute in f64");
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        const char *name = zt_op_info((zt_op)op)->name;
        if (zt_op_info((zt_op)op)->def->flags & (ZT_OPF_VIEW | ZT_OPF_CALLERS)) continue;
        bool but_empty;
        const char *why = left_by(column, (zt_op)op, &but_empty);
        if (why) diag("%s has no kernel on %s, the step falls back to the cpu: %s", name, columns[column], why);
        ok(has_any(matrix[column][op]) == (!why || but_empty), "%s on %s", name, columns[column]);
    }
}

/* Why vulkan leaves all cases of a type to the cpu, of an op that it has; NULL: it does not. */
static const char *type_left(zt_dtype dtype)
{
    const cell *twin = &matrix[ON_VULKAN][ZT_OP_exp][ZT_F64]; /* computed in f64 where the device does that */
    if (dtype == ZT_F64 && twin->fallbacks == twin->cases) return "the device lacks shaderFloat64 or shaderInt64";
    if (dtype == ZT_F64) return "chains, gradients of attention and ops of language models have no f64 shader";
    if (zt_dtype_get(dtype)->kind == 'Q') return "the shaders of the op decode other blocks";
    return dtype == ZT_F8_E4M3 || dtype == ZT_F8_E5M2 ? "the op has no shader for floats of 8 bits" : NULL;
}

/* No cell of the matrix is empty on vulkan but those of these types; they are printed. */
static void check_types(void)
{
    for (int dtype = 0; dtype < ZT_DTYPE_COUNT; dtype++) {
        const char *name = zt_dtype_get((zt_dtype)dtype)->name, *why = type_left((zt_dtype)dtype);
        char ops[80] = "";
        bool but_empty;
        int left = 0;
        for (int op = 0; op < ZT_OP_COUNT; op++) {
            const cell *m = &matrix[ON_VULKAN][op][dtype];
            if (!m->cases || m->fallbacks < m->cases || left_by(ON_VULKAN, (zt_op)op, &but_empty)) continue;
            if (zt_op_info((zt_op)op)->def->flags & (ZT_OPF_VIEW | ZT_OPF_CALLERS)) continue;
            const size_t at = strlen(ops);
            snprintf(ops + at, sizeof ops - at, "%s%s", left++ ? ", " : "", zt_op_info((zt_op)op)->name);
        }
        if (left)
            diag("%s has no kernel on vulkan for %d ops (%s%s): %s", name, left, ops, strlen(ops) > 70 ? "..." : "",
                 why ? why : "?");
        ok(left == 0 || why, "%s on vulkan", name);
    }
}

/* ---- cases for `make long` alone ------------------------------------------------------------- */

/* A case on vulkan is a pipeline, which a driver for CPUs compiles for up to a second. */
static bool is_common_block(zt_dtype dtype)
{
    return zt_dtype_get(dtype)->kind != 'Q' || dtype == ZT_Q4_K || dtype == ZT_Q8_0 || dtype == ZT_Q6_K || dtype == ZT_IQ3_S;
}

static bool is_second_to_fourth(const trial *tried) { return tried->index % 4 != 0; }

static bool has_rare_block(const trial *tried) { return !is_common_block(key_dtype(tried->o.op, &tried->c)); }

static bool is_retyped_with_rare_block(const trial *tried) { return tried->retyped && has_rare_block(tried); }

/* The variants of attention are one shader with a constant. Four types of blocks stand for all in gather and
 * matmul_weight: linear and cast, whose shaders unpack them in the same way, have cases of all types. */
static const struct {
    zt_op op;
    bool (*left)(const trial *tried);
} for_long[] = {
    {ZT_OP_attention_alibi, is_second_to_fourth}, {ZT_OP_attention_chunked, is_second_to_fourth},
    {ZT_OP_attention_sinks, is_second_to_fourth}, {ZT_OP_gather, has_rare_block},
    {ZT_OP_matmul_weight, has_rare_block},        {ZT_OP_linear, is_retyped_with_rare_block},
};

/* Left out without ZT_LONG=1: rows of for_long, and of cases in another dtype two of three. */
static bool is_left_for_long(const trial *tried, const setup *options)
{
    if (options->column != ON_VULKAN || getenv("ZT_LONG")) return false;
    if (tried->retyped && tried->index % 3 != 0) return true;
    for (size_t i = 0; i < sizeof for_long / sizeof for_long[0]; i++)
        if (for_long[i].op == tried->o.op) return for_long[i].left(tried);
    return false;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Recurrences, of which vulkan has the cpu's bits (docs/decisions/0042-the-same-bits-on-vulkan.md). */
static bool has_cpu_bits(const trial *tried, const setup *options)
{
    static const zt_op ops[] = {ZT_OP_causal_conv, ZT_OP_delta_rule, ZT_OP_selective_scan, ZT_OP_wkv7};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0] && options->column == ON_VULKAN && is_f32(tried); i++)
        if (ops[i] == tried->o.op) return true;
    return false;
}

static bool check(trial *tried, int which)
{
    const setup *options = &setups[which];
    double worst = 0;
    if (is_left_for_long(tried, options)) return true;
    if (!oneop_has(options->engine, &tried->o)) {
        note(tried, options, 0, true);
        return true;
    }
    if (!run_into(tried, options, tried->got[which])) return false;
    for (int k = 0; k < zt_op_info(tried->o.op)->n_out; k++) {
        double limit = zt_op_bound(tried->o.op, tried->c.attrs, tried->o.in, &tried->o.out[k]);
        zt_difference d;
        char text[160];
        zt_compare(&tried->o.out[k], tried->got[which][k], tried->want[k], &d);
        worst = fmax(worst, d.nmse);
        snprintf(text, sizeof text, "output %d: error %.3g, allowed %.3g; element %lld is %g, not %g", k, d.nmse, limit,
                 (long long)d.worst, d.got, d.want);
        if (!(zt_difference_share(&d, limit) <= 1)) return fails(tried, options->name, text);
    }
    note(tried, options, worst, false);
    if (options->twin >= 0 && !same_bits(tried, tried->got[which], tried->got[options->twin]))
        return fails(tried, options->name,
                     setups[options->twin].isa == options->isa ? "other bits than with 1 thread" : "other bits than scalar");
    if (has_cpu_bits(tried, options) && !same_bits(tried, tried->got[which], tried->got[cpu_setup]))
        return fails(tried, options->name, "other bits than the cpu");
    return options->forced || is_second_run(options) || rows_alone(tried, options, tried->got[which]);
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

static void check_op(zt_ctx *ctx, zt_op op)
{
    static const zt_dtype others[] = {ZT_F64, ZT_F16, ZT_BF16};
    bool good[MAX_SETUPS], all_good = true;
    int more = 0;
    for (int s = 0; s < n_setups; s++) good[s] = true;
    int count = walk_as(ctx, op, ZT_F32, good);
    for (int d = 0; d < 3; d++) more += walk_as(ctx, op, others[d], good);
    ok(count > 0, "%s has cases: %d, and %d in other dtypes", zt_op_info(op)->name, count, more);
    ok(good[0], "%s on ref", zt_op_info(op)->name);
    for (int s = 1; s < n_setups; s++) all_good &= good[s];
    ok(all_good, "%s on the engines", zt_op_info(op)->name);
    for (int s = 1; s < n_setups; s++)
        if (!good[s]) diag("%s fails on %s, %d threads", zt_op_info(op)->name, setups[s].name, setups[s].threads);
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
    if (argc > 1 && !strcmp(argv[1], "bits")) {
        const int status = print_bits(ctx, argv[2], argc > 2 ? argv + 3 : NULL);
        zt_ctx_free(ctx);
        return status;
    }
    if (argc > 2 && !strcmp(argv[1], "contract")) {
        const int status = print_contract(ctx, argv[2], argv + 3);
        zt_ctx_free(ctx);
        return status;
    }
    add_setups(ctx, argc > 1 ? argv[1] : NULL);
    if (tap_failed) return tap_done();
    for (int op = 0; op < ZT_OP_COUNT; op++)
        if (argc < 3 || among(zt_op_info((zt_op)op)->name, argv + 2)) check_op(ctx, (zt_op)op);
    if (argc < 2 || !strcmp(argv[1], "cpu")) print_cpu();
    for (int s = 0; s < n_setups; s++)
        if (setups[s].column != ON_CPU && setups[s].twin < 0) print_device(setups[s].column);
    for (int i = 0; i < n_setups && argc < 3; i++)
        if (setups[i].column != ON_CPU && setups[i].twin < 0) {
            check_device(setups[i].column);
            if (setups[i].column == ON_VULKAN) check_types();
        }
    check_fallbacks();
    for (int s = 0; s < n_setups; s++)
        if (!is_second_run(&setups[s])) zt_engine_close(setups[s].engine);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
