/* pointwise.c - the row of `pointwise`: a chain of elementwise ops in one pass over memory. What it
 * means is its expansion; its text is pointwise_text.c's. */
#include "lib/ops/pointwise.h"
#include "lib/ops/row.h"

#include <string.h>

static const char *text_of(const void *attrs)
{
    const zt_pointwise_attrs *pointwise = attrs;
    return pointwise->chain;
}

/* Outputs past the chain's own are empty vectors. */
static zt_status pointwise_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_pointwise_chain chain;
    zt_type value[ZT_POINTWISE_VALUES], whole;
    zt_status status = zt_pointwise_parse(ctx, text_of(attrs), &chain);
    if (!status) status = zt_pointwise_types(ctx, &chain, in, value, &whole);
    for (int k = 0; k < ZT_POINTWISE_OUTS && !status; k++)
        out[k] = k < chain.n_out ? value[chain.out[k]] : zt_type_make(ZT_F32, 1, (int64_t[]){0});
    return status;
}

static double pointwise_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    zt_pointwise_chain chain;
    zt_type value[ZT_POINTWISE_VALUES], whole;
    double sum = 0;
    (void)out;
    if (zt_pointwise_parse(NULL, text_of(attrs), &chain) || zt_pointwise_types(NULL, &chain, in, value, &whole)) return 0;
    for (int i = 0; i < chain.n_ops; i++) {
        const zt_type *args[ZT_MAX_IN] = {0};
        for (int k = 0; k < 3; k++)
            if (chain.op[i].in[k] >= 0) args[k] = &value[chain.op[i].in[k]];
        sum += zt_op_flops(chain.op[i].op, chain.op[i].attrs, args, &value[ZT_POINTWISE_INS + i]);
    }
    return sum;
}

static int pointwise_roundings(const void *attrs)
{
    zt_pointwise_chain chain;
    return zt_pointwise_parse(NULL, text_of(attrs), &chain) ? 1 : chain.n_ops;
}

/* ---- the reference loop ---------------------------------------------------------------------- */

enum { TILE = 64 };

/* 8 bytes an element: f64 or int64_t. */
typedef struct tiles {
    zt_type type[ZT_POINTWISE_VALUES];
    int64_t data[ZT_POINTWISE_VALUES][TILE];
} tiles;

static zt_arg arg_of(tiles *t, int v)
{
    bool floats = zt_dtype_is_float(t->type[v].dtype);
    void *data = t->data[v];
    return (zt_arg){&t->type[v], floats ? data : NULL, floats ? NULL : data};
}

/* Elements at.. of input x, broadcast to `whole`. */
static void gather_places(const zt_arg *x, const zt_type *whole, int64_t at, int64_t n, int64_t *to)
{
    int64_t stride[ZT_MAX_RANK];
    zt_row_strides(x->type, whole, stride);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = at + i, from = 0;
        for (int d = whole->rank - 1; d >= 0; d--) {
            from += rest % whole->dim[d] * stride[d];
            rest /= whole->dim[d];
        }
        memcpy(&to[i], x->f ? (const void *)&x->f[from] : (const void *)&x->i[from], sizeof *to);
    }
}

static void run_tile(const zt_pointwise_chain *chain, tiles *t, int64_t n, zt_runtime_error *trouble)
{
    for (int i = 0; i < chain->n_ops; i++) {
        zt_arg in[ZT_MAX_IN] = {{0}}, out[ZT_MAX_OUT] = {{0}};
        for (int k = 0; k < 3; k++) {
            int v = chain->op[i].in[k];
            if (v < 0) continue;
            t->type[v] = zt_type_make(t->type[v].dtype, 1, &n);
            in[k] = arg_of(t, v);
        }
        t->type[ZT_POINTWISE_INS + i] = zt_type_make(t->type[ZT_POINTWISE_INS + i].dtype, 1, &n);
        out[0] = arg_of(t, ZT_POINTWISE_INS + i);
        zt_op_info(chain->op[i].op)->def->ref(chain->op[i].attrs, in, out, trouble);
    }
}

/* Outputs are written when a piece of all is done: they may lie over inputs. */
static void put_tile(const zt_pointwise_chain *chain, tiles *t, int64_t at, int64_t n, zt_arg *out)
{
    for (int k = 0; k < chain->n_out; k++) {
        void *to = out[k].f ? (void *)out[k].f : out[k].i;
        if (to) memcpy((int64_t *)to + at, t->data[chain->out[k]], (size_t)n * sizeof(int64_t));
    }
}

static void pointwise_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *trouble)
{
    zt_pointwise_chain chain;
    zt_type whole;
    tiles t;
    const zt_type *type[ZT_POINTWISE_INS];
    for (int k = 0; k < ZT_POINTWISE_INS; k++) type[k] = in[k].type;
    if (zt_pointwise_parse(NULL, text_of(attrs), &chain) || zt_pointwise_types(NULL, &chain, type, t.type, &whole))
        return; /* the rule refused it before */
    int64_t count = zt_type_count(&whole);
    for (int64_t at = 0; at < count; at += TILE) {
        int64_t n = count - at < TILE ? count - at : TILE;
        for (int k = 0; k < ZT_POINTWISE_INS; k++)
            if (in[k].type) gather_places(&in[k], &whole, at, n, t.data[k]);
        run_tile(&chain, &t, n, trouble);
        put_tile(&chain, &t, at, n, out);
    }
}

/* ---- as ops ---------------------------------------------------------------------------------- */

static void pointwise_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    zt_pointwise_chain chain;
    int value[ZT_POINTWISE_VALUES];
    if (zt_pointwise_parse(NULL, text_of(attrs), &chain)) {
        out[0] = -1;
        return;
    }
    memcpy(value, in, ZT_POINTWISE_INS * sizeof *in);
    for (int i = 0; i < chain.n_ops; i++) {
        int args[ZT_MAX_IN], made[ZT_MAX_OUT];
        for (int k = 0; k < ZT_MAX_IN; k++) args[k] = k < 3 && chain.op[i].in[k] >= 0 ? value[chain.op[i].in[k]] : ZT_NONE;
        if (emit->op(emit->user, chain.op[i].op, chain.op[i].attrs, args, made)) made[0] = -1;
        value[ZT_POINTWISE_INS + i] = made[0];
    }
    for (int k = 0; k < chain.n_out; k++) out[k] = value[chain.out[k]];
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const char sixty_four[] = "tanh a; add %0 b; tanh %1; add %2 b; tanh %3; add %4 b; tanh %5; add %6 b; tanh %7; "
                                 "add %8 b; "
                                 "tanh %9; add %10 b; tanh %11; add %12 b; tanh %13; add %14 b; tanh %15; add %16 b; tanh %17; "
                                 "add %18 b; tanh %19; add %20 b; tanh %21; add %22 b; tanh %23; add %24 b; tanh %25; "
                                 "add %26 b; "
                                 "tanh %27; add %28 b; tanh %29; add %30 b; tanh %31; add %32 b; tanh %33; add %34 b; tanh %35; "
                                 "add %36 b; tanh %37; add %38 b; tanh %39; add %40 b; tanh %41; add %42 b; tanh %43; "
                                 "add %44 b; tanh %45; add %46 b; tanh %47; add %48 b; tanh %49; add %50 b; tanh %51; "
                                 "add %52 b; tanh %53; add %54 b; tanh %55; add %56 b; tanh %57; add %58 b; tanh %59; "
                                 "add %60 b; tanh %61; add %62 b";

/* Which chain, and the types of its inputs. */
static const struct {
    const char *chain;
    int n_in;
    zt_case_type in[3];
} rows[] = {
    {"mul a b; add_scalar %0 by=0.5; tanh %1", 2, {{ZT_F32, 2, {9, 576}}, {ZT_F32, 1, {576}}}},
    {"exp a; add_scalar %0 by=1; sqrt %1; out %0 %2", 1, {{ZT_F32, 2, {5, 33}}}},
    {"sigmoid a; mul %0 b; sub %1 c; out %0 %1 %2", 3, {{ZT_F32, 3, {3, 4, 5}}, {ZT_F32, 2, {4, 1}}, {ZT_F32, 0, {0}}}},
    {"square a", 1, {{ZT_F32, 1, {33}}}},
    {"sub a b; square %0; scale %1 by=-0.5; exp %2", 2, {{ZT_F32, 2, {1, 4}}, {ZT_F32, 2, {0, 4}}}},
    {"add a b; gelu %0 form=erf; mul %1 c", 3, {{ZT_F16, 2, {3, 40}}, {ZT_F16, 1, {40}}, {ZT_F16, 2, {3, 1}}}},
    {"mul a a; silu %0; add %1 b", 2, {{ZT_BF16, 2, {3, 40}}, {ZT_BF16, 2, {3, 40}}}},
    {"mul a b; cos %0; add %1 a", 2, {{ZT_F64, 2, {3, 40}}, {ZT_F64, 2, {3, 1}}}},
    {"cast a; mul %0 b; cast %1 to=f16", 2, {{ZT_F16, 2, {3, 40}}, {ZT_F32, 1, {40}}}},
    {"gt a b; where %0 a b; cast %0; add %1 %2", 2, {{ZT_F32, 1, {300}}, {ZT_F32, 1, {300}}}},
    {"add a b; mul %0 a; neg %1", 2, {{ZT_I32, 2, {5, 13}}, {ZT_I32, 1, {13}}}},
    {sixty_four, 2, {{ZT_F32, 1, {2100}}, {ZT_F32, 1, {2100}}}},
};

static bool pointwise_cases(int i, zt_case *test_case)
{
    if (i >= ZT_LEN(rows)) return false;
    const zt_pointwise_attrs a = {rows[i].chain};
    zt_case_attrs(test_case, &a, sizeof a);
    for (int k = 0; k < rows[i].n_in; k++) {
        bool real = zt_dtype_is_float(rows[i].in[k].dtype);
        zt_case_type_in(test_case, k, real ? ZT_FILL_NORMAL : ZT_FILL_IDS, &rows[i].in[k]);
        test_case->limit[k] = 100;
    }
    return true;
}

const zt_opdef zt_op_pointwise = {
    .synopsis = "y and up to five more outputs: a chain of elementwise ops on a to h, whose shapes "
                "broadcast, in one pass over memory. The chain lists up to 64 ops with operands (an "
                "input, or %k, the result of op k counted from 0) and attributes as in a program, "
                "separated by '; '; the output is the result of the last op, or the results that '; "
                "out %i %j' at the end lists. Values are f64 f32 f16 bf16, integers of 8 to 64 bits "
                "or bool; outputs have the broadcast shape",
    .n_required = 1,
    .flags = ZT_OPF_ELEMENTWISE | ZT_OPF_INPLACE,
    .infer = pointwise_infer,
    .ref = pointwise_ref,
    .flops = pointwise_flops,
    .roundings = pointwise_roundings,
    .cases = pointwise_cases,
    .expand = pointwise_expand,
};
