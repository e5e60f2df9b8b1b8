/* linear_fused.c - rows of products x w^T + b with what is done to them in one: several of one x, a gated
 * pair, a curve, a sum. What each means is its expansion.
 */
#include "lib/ops/linear.h"
#include "lib/ops/vjp.h"

#include <string.h>

static const char *const act_words[] = {"f32", "q8", "q16"};

/* ---- what is done to products ------------------------------------------------------------------ */

static const zt_gelu_attrs gelu_tanh = {{"tanh"}}, gelu_erf = {{"erf"}};
static const zt_geglu_attrs geglu_tanh = {{"tanh"}}, geglu_erf = {{"erf"}};

static const zt_after gates[] = {
    {"silu", ZT_OP_swiglu, NULL}, {"gelu", ZT_OP_geglu, &geglu_tanh}, {"gelu_erf", ZT_OP_geglu, &geglu_erf}};
static const zt_after curves[] = {{"relu", ZT_OP_relu, NULL},       {"silu", ZT_OP_silu, NULL},
                                  {"gelu", ZT_OP_gelu, &gelu_tanh}, {"gelu_erf", ZT_OP_gelu, &gelu_erf},
                                  {"tanh", ZT_OP_tanh, NULL},       {"sigmoid", ZT_OP_sigmoid, NULL}};

static const zt_after *find_after(const zt_after *list, int n, const zt_enum_string *word)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].word, word->s)) return &list[i];
    return NULL;
}

const zt_after *zt_gate_after(const zt_enum_string *gate) { return find_after(gates, ZT_LEN(gates), gate); }

const zt_after *zt_curve_after(const zt_enum_string *curve) { return find_after(curves, ZT_LEN(curves), curve); }

static zt_status want_word(zt_ctx *ctx, const char *name, const zt_enum_string *w, const zt_after *list, int n)
{
    const char *words[ZT_LEN(curves)];
    for (int i = 0; i < n; i++) words[i] = list[i].word;
    return zt_row_word(ctx, name, w, words, n);
}

static int emit_after(const zt_emit *emit, const zt_after *f, int a, int b)
{
    int out[ZT_MAX_OUT] = {0};
    return emit->op(emit->user, f->op, f->attrs, (const int[]){a, b}, out) ? -1 : out[0];
}

/* Its reference loop, over one element. */
static double apply_after(const zt_after *f, double a, double b)
{
    const zt_type one = zt_type_make(ZT_F64, 0, NULL);
    double y;
    zt_arg out = {.type = &one, .f = &y};
    zt_runtime_error t = {0};
    zt_op_info(f->op)->def->ref(f->attrs, (zt_arg[]){{&one, &a, NULL}, {&one, &b, NULL}}, &out, &t);
    return y;
}

static int emit_linear(const zt_emit *emit, const zt_enum_string *act, int x, int w, int b)
{
    return zt_build_linear(emit, x, w, b, &(zt_linear_attrs){*act});
}

/* An engine may compute a row in f64 where an operand is f64: what stands beside it in a fused row
 * would get other bits. */
static zt_status want_narrow(zt_ctx *ctx, const char *name, const zt_type *w)
{
    if (w->dtype != ZT_F64) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s must not be f64", name);
}

/* A product, what is made of it, and of two products where both are rounded. */
static int after_roundings(const void *attrs)
{
    (void)attrs;
    return 3;
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* x by weights: few rows and more than a tile; whole groups of 16 rows and not. */
typedef struct product_case {
    zt_dtype x;
    int64_t n, K;
    zt_dtype w[3];
    int64_t M[3];
    int act; /* of act_words */
} product_case;

/* Inputs 0, w.. and b.. of a case of some products; `biases`: which are there, as bits. */
static void case_products(zt_case *test_case, const product_case *p, int n, int w, int b, unsigned biases)
{
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, p->x, 2, (int64_t[]){p->n, p->K});
    for (int k = 0; k < n; k++) {
        zt_case_in(test_case, w + k, ZT_FILL_NORMAL, 0, p->w[k], 2, (int64_t[]){p->M[k], p->K});
        if (biases >> k & 1) zt_case_in(test_case, b + k, ZT_FILL_NORMAL, 0, p->x, 1, &p->M[k]);
    }
}

static zt_enum_string word_of(const char *s)
{
    zt_enum_string w = {{0}};
    memcpy(w.s, s, strlen(s));
    return w;
}

/* ---- linears --------------------------------------------------------------------------------- */

enum { MOST = 3 };

/* act1: of y1 alone. */
static bool has_own(const zt_linears_attrs *attrs) { return strcmp(attrs->act1.s, "act") != 0; }

const zt_enum_string *zt_linears_act(const zt_linears_attrs *attrs, int k)
{
    return k == 0 && has_own(attrs) ? &attrs->act1 : &attrs->act;
}

const zt_enum_string *zt_op_act(zt_op op, const void *attrs, int k)
{
    const zt_opinfo *info = zt_op_info(op);
    if (op == ZT_OP_linears) return zt_linears_act(attrs, k);
    for (int i = 0; i < info->n_attrs; i++)
        if (info->attrs[i].kind == ZT_ATTR_word && !strcmp(info->attrs[i].name, "act"))
            return (const zt_enum_string *)(const void *)((const char *)attrs + info->attrs[i].offset);
    return NULL;
}

static zt_status linears_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    static const char *const w[] = {"w1", "w2", "w3"}, *const b[] = {"b1", "b2", "b3"};
    const zt_linears_attrs *linears = attrs;
    zt_status status = zt_linear_want_x(ctx, &linears->act, in[0]);
    if (!status && has_own(linears)) status = zt_linear_want_x(ctx, &linears->act1, in[0]);
    for (int k = 0; k < MOST && !status; k++) {
        out[k] = zt_type_make(in[0]->dtype, 2, (int64_t[]){0, 0});
        if (!in[1 + k] && in[4 + k]) status = zt_row_fail(ctx, ZT_EUSAGE, "%s needs %s", b[k], w[k]);
        if (!in[1 + k]) continue;
        status = want_narrow(ctx, w[k], in[1 + k]);
        if (!status) status = zt_linear_want(ctx, w[k], b[k], in[0], in[1 + k], in[4 + k], &out[k]);
    }
    return status;
}

static void linears_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    (void)attrs, (void)error;
    for (int k = 0; k < MOST; k++) {
        if (!in[1 + k].type || !out[k].type) continue;
        int64_t n = in[0].type->dim[0], M = in[1 + k].type->dim[0];
        for (int64_t m = 0; m < M; m++)
            for (int64_t r = 0; r < n; r++) out[k].f[r * M + m] = zt_linear_at(&in[0], &in[1 + k], &in[4 + k], r, m);
    }
}

static double linears_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double flops = 0;
    (void)attrs;
    for (int k = 0; k < MOST; k++) flops += 2 * (double)zt_type_count(&out[k]);
    return flops * (double)in[0]->dim[1];
}

static const product_case linears_shapes[] = {
    {ZT_F32, 1, 256, {ZT_Q4_1, ZT_Q4_1, ZT_Q4_1}, {48, 16, 16}, 2},
    {ZT_F32, 19, 256, {ZT_Q4_K, ZT_Q4_K, ZT_Q6_K}, {40, 33, 16}, 2},
    {ZT_F32, 1, 512, {ZT_Q4_K, ZT_Q5_0, ZT_Q8_0}, {33, 7, 100}, 1},
    {ZT_F32, 7, 256, {ZT_Q6_K, ZT_Q4_K, ZT_F32}, {16, 16, 16}, 1},
    {ZT_F32, 3, 33, {ZT_F32, ZT_F16, ZT_BF16}, {5, 18, 1}, 0},
    {ZT_F32, 9, 100, {ZT_BF16, ZT_BF16, ZT_F16}, {17, 33, 48}, 1},
    {ZT_F32, 2, 256, {ZT_IQ3_S, ZT_Q4_0, ZT_IQ3_S}, {20, 40, 16}, 1},
    {ZT_F32, 130, 64, {ZT_Q8_0, ZT_Q4_0, ZT_Q5_1}, {16, 48, 20}, 2},
    {ZT_F16, 3, 256, {ZT_Q4_K, ZT_F16, ZT_Q8_0}, {33, 16, 7}, 2},
    {ZT_BF16, 12, 64, {ZT_BF16, ZT_BF16, ZT_BF16}, {16, 16, 16}, 1},
    {ZT_F32, 0, 64, {ZT_F32, ZT_Q8_0, ZT_F32}, {16, 16, 16}, 0},
    {ZT_F32, 3, 0, {ZT_F32, ZT_F32, ZT_F32}, {4, 2, 3}, 0},
    {ZT_F32, 3, 64, {ZT_F32, ZT_F32, ZT_Q8_0}, {0, 2, 3}, 0},
    {ZT_F32, 1, 576, {ZT_Q4_1, ZT_Q4_1, ZT_Q4_1}, {576, 192, 192}, 1},
};

/* Every shape; then two products and three, with every choice of biases, with one act and with one
 * of its own for the first. */
static bool linears_cases(int i, zt_case *test_case)
{
    const int choices = 4 + 8;
    int at = i < ZT_LEN(linears_shapes) ? i : (i - ZT_LEN(linears_shapes)) % 4;
    int more = i - ZT_LEN(linears_shapes), choice = more % choices;
    int n = more >= 0 && choice < 4 ? 2 : 3;
    if (more >= 2 * choices) return false;
    unsigned biases = more < 0 ? (unsigned)i : (unsigned)(choice < 4 ? choice : choice - 4);
    const product_case *p = &linears_shapes[at];
    zt_linears_attrs a = {word_of(act_words[p->act]), word_of("act")};
    if (more >= choices) a.act1 = word_of(act_words[p->act == 1 ? 2 : 1]);
    zt_case_attrs(test_case, &a, sizeof a);
    case_products(test_case, p, n, 1, 4, biases);
    return true;
}

static void linears_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_linears_attrs *linears = attrs;
    for (int k = 0; k < MOST; k++)
        if (in[1 + k] != ZT_NONE) out[k] = emit_linear(emit, zt_linears_act(linears, k), in[0], in[1 + k], in[4 + k]);
}

const zt_opdef zt_op_linears = {
    .synopsis = "yk = linear(x, wk, bk) with this act for k = 1 to 3: several products of the same "
                "x; act1 is the act of y1 (default: act); w3 is optional (y3 is then [0,0]), as is "
                "each bk; x f32, f16 or bf16 [n,K], wk any float or block type but f64 [Mk,K], bk "
                "f32 or the type of x [Mk], yk [n,Mk] of the type of x",
    .n_required = 3,
    .flags = ZT_OPF_SAME | ZT_OPF_SUMS,
    .infer = linears_infer,
    .ref = linears_ref,
    .flops = linears_flops,
    .cases = linears_cases,
    .expand = linears_expand,
    .weights = 2 | 4 | 8,
};

/* ---- gated_linear ---------------------------------------------------------------------------- */

static zt_status gated_linear_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_gated_linear_attrs *linear = attrs;
    zt_type up;
    zt_status status = want_word(ctx, "gate", &linear->gate, gates, ZT_LEN(gates));
    if (!status) status = zt_linear_want_x(ctx, &linear->act, in[0]);
    if (!status) status = want_narrow(ctx, "wg", in[1]);
    if (!status) status = want_narrow(ctx, "wu", in[2]);
    if (!status) status = zt_linear_want(ctx, "wg", "bg", in[0], in[1], in[3], &out[0]);
    if (!status) status = zt_linear_want(ctx, "wu", "bu", in[0], in[2], in[4], &up);
    if (status || zt_type_equal(&up, &out[0])) return status;
    return zt_row_fail(ctx, ZT_ESHAPE, "wg has %lld rows, but wu has %lld", (long long)in[1]->dim[0], (long long)in[2]->dim[0]);
}

static void gated_linear_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_after *gate = zt_gate_after(&((const zt_gated_linear_attrs *)attrs)->gate);
    int64_t n = in[0].type->dim[0], M = in[1].type->dim[0];
    (void)error;
    for (int64_t m = 0; m < M; m++)
        for (int64_t r = 0; r < n; r++)
            out[0].f[r * M + m] =
                apply_after(gate, zt_linear_at(&in[0], &in[1], &in[3], r, m), zt_linear_at(&in[0], &in[2], &in[4], r, m));
}

static double gated_linear_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return (4 * (double)in[0]->dim[1] + 10) * (double)zt_type_count(out);
}

static const product_case gated_shapes[] = {
    {ZT_F32, 1, 256, {ZT_Q4_1, ZT_Q4_1}, {48, 48}, 1},     {ZT_F32, 19, 256, {ZT_Q4_K, ZT_Q6_K}, {40, 40}, 1},
    {ZT_F32, 5, 64, {ZT_Q8_0, ZT_Q8_0}, {33, 33}, 2},      {ZT_F32, 3, 33, {ZT_F32, ZT_F16}, {100, 100}, 0},
    {ZT_F32, 1, 576, {ZT_Q4_1, ZT_Q4_1}, {1536, 1536}, 1}, {ZT_F32, 9, 100, {ZT_BF16, ZT_BF16}, {17, 17}, 1},
    {ZT_F32, 2, 256, {ZT_IQ3_S, ZT_Q4_0}, {20, 20}, 1},    {ZT_F32, 130, 64, {ZT_Q4_0, ZT_Q4_0}, {112, 112}, 1},
    {ZT_F32, 2, 64, {ZT_Q5_0, ZT_Q4_0}, {96, 96}, 0},      {ZT_F16, 3, 256, {ZT_Q4_K, ZT_F16}, {33, 33}, 2},
    {ZT_BF16, 12, 64, {ZT_BF16, ZT_BF16}, {16, 16}, 1},    {ZT_F32, 0, 64, {ZT_F32, ZT_Q8_0}, {16, 16}, 0},
    {ZT_F32, 3, 0, {ZT_F32, ZT_F32}, {4, 4}, 0},           {ZT_F32, 3, 64, {ZT_F32, ZT_Q8_0}, {0, 0}, 0},
};

/* Every shape; then every gate with every choice of biases. */
static bool gated_linear_cases(int i, zt_case *test_case)
{
    const int shapes = ZT_LEN(gated_shapes);
    if (i >= shapes + 4 * ZT_LEN(gates)) return false;
    const product_case *p = &gated_shapes[i < shapes ? i : (i - shapes) % 4];
    zt_gated_linear_attrs a = {word_of(act_words[p->act]), word_of(gates[i < shapes ? i % 3 : (i - shapes) / 4].word)};
    zt_case_attrs(test_case, &a, sizeof a);
    case_products(test_case, p, 2, 1, 3, (unsigned)(i < shapes ? i / 2 : i - shapes));
    return true;
}

static void gated_linear_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_gated_linear_attrs *linear = attrs;
    int g = emit_linear(emit, &linear->act, in[0], in[1], in[3]);
    int u = emit_linear(emit, &linear->act, in[0], in[2], in[4]);
    out[0] = emit_after(emit, zt_gate_after(&linear->gate), g, u);
}

const zt_opdef zt_op_gated_linear = {
    .synopsis = "y = swiglu (gate=silu), geglu (gate=gelu) or geglu form=erf (gate=gelu_erf) of "
                "linear(x, wg, bg) and linear(x, wu, bu) with this act; x f32, f16 or bf16 [n,K], wg "
                "and wu any float or block type but f64 [M,K], bg and bu (optional) f32 or the type "
                "of x [M], y [n,M] of the type of x",
    .n_required = 3,
    .flags = ZT_OPF_SAME | ZT_OPF_SUMS,
    .infer = gated_linear_infer,
    .ref = gated_linear_ref,
    .flops = gated_linear_flops,
    .cases = gated_linear_cases,
    .expand = gated_linear_expand,
    .roundings = after_roundings,
    .weights = 2 | 4,
};

/* ---- linear_act ------------------------------------------------------------------------------ */

static zt_status linear_act_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_linear_act_attrs *linear = attrs;
    zt_status status = want_word(ctx, "curve", &linear->curve, curves, ZT_LEN(curves));
    if (!status) status = zt_linear_want_x(ctx, &linear->act, in[0]);
    if (!status) status = want_narrow(ctx, "w", in[1]);
    return status ? status : zt_linear_want(ctx, "w", "b", in[0], in[1], in[2], &out[0]);
}

static void linear_act_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_after *curve = zt_curve_after(&((const zt_linear_act_attrs *)attrs)->curve);
    int64_t n = in[0].type->dim[0], M = in[1].type->dim[0];
    (void)error;
    for (int64_t m = 0; m < M; m++)
        for (int64_t r = 0; r < n; r++) out[0].f[r * M + m] = apply_after(curve, zt_linear_at(&in[0], &in[1], &in[2], r, m), 0);
}

static double linear_act_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return (2 * (double)in[0]->dim[1] + 10) * (double)zt_type_count(out);
}

static const product_case one_shapes[] = {
    {ZT_F32, 5, 35, {ZT_BF16}, {17}, 1},   {ZT_F32, 1, 256, {ZT_Q4_K}, {48}, 1},  {ZT_F32, 130, 64, {ZT_F32}, {40}, 0},
    {ZT_F32, 19, 64, {ZT_Q8_0}, {100}, 2}, {ZT_F32, 7, 100, {ZT_F32}, {33}, 0},   {ZT_F32, 2, 256, {ZT_IQ3_S}, {20}, 0},
    {ZT_F16, 3, 64, {ZT_F16}, {33}, 0},    {ZT_BF16, 12, 64, {ZT_Q4_0}, {16}, 1}, {ZT_F32, 1, 1536, {ZT_Q4_1}, {576}, 1},
    {ZT_F32, 0, 64, {ZT_F32}, {16}, 0},    {ZT_F32, 3, 0, {ZT_F32}, {4}, 0},      {ZT_F32, 3, 64, {ZT_F32}, {0}, 0},
};

/* Every shape, with a bias and without; every curve. */
static bool linear_act_cases(int i, zt_case *test_case)
{
    if (i >= 2 * ZT_LEN(one_shapes)) return false;
    const product_case *p = &one_shapes[i / 2];
    zt_linear_act_attrs a = {word_of(act_words[p->act]), word_of(curves[(i / 2 + i % 2) % ZT_LEN(curves)].word)};
    zt_case_attrs(test_case, &a, sizeof a);
    case_products(test_case, p, 1, 1, 2, i % 2);
    return true;
}

static void linear_act_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_linear_act_attrs *linear = attrs;
    int y = emit_linear(emit, &linear->act, in[0], in[1], in[2]);
    out[0] = emit_after(emit, zt_curve_after(&linear->curve), y, ZT_NONE);
}

const zt_opdef zt_op_linear_act = {
    .synopsis = "y = curve(linear(x, w, b)) with this act; curve is relu, silu, gelu, gelu_erf (gelu "
                "form=erf), tanh or sigmoid; x f32, f16 or bf16 [n,K], w any float or block type but "
                "f64 [M,K], b (optional) f32 or the type of x [M], y [n,M] of the type of x",
    .n_required = 2,
    .flags = ZT_OPF_SAME | ZT_OPF_SUMS,
    .infer = linear_act_infer,
    .ref = linear_act_ref,
    .flops = linear_act_flops,
    .cases = linear_act_cases,
    .expand = linear_act_expand,
    .roundings = after_roundings,
    .weights = 2,
};

/* ---- linear_add ------------------------------------------------------------------------------ */

static zt_status linear_add_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_linear_add_attrs *linear_add = attrs;
    zt_status status = zt_linear_want_x(ctx, &linear_add->act, in[0]);
    if (!status) status = want_narrow(ctx, "w", in[1]);
    if (!status) status = zt_linear_want(ctx, "w", "b", in[0], in[1], in[3], &out[0]);
    if (status || zt_type_equal(in[2], &out[0])) return status;
    char text[ZT_TYPE_TEXT];
    return zt_row_fail(ctx, ZT_ESHAPE, "residual must have type %s", zt_type_text(&out[0], text));
}

static void linear_add_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    int64_t n = in[0].type->dim[0], M = in[1].type->dim[0];
    (void)attrs, (void)error;
    for (int64_t m = 0; m < M; m++)
        for (int64_t r = 0; r < n; r++) out[0].f[r * M + m] = in[2].f[r * M + m] + zt_linear_at(&in[0], &in[1], &in[3], r, m);
}

static double linear_add_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return (2 * (double)in[0]->dim[1] + 1) * (double)zt_type_count(out);
}

/* Every shape, with a bias and without. */
static bool linear_add_cases(int i, zt_case *test_case)
{
    if (i >= 2 * ZT_LEN(one_shapes)) return false;
    const product_case *p = &one_shapes[i / 2];
    zt_linear_add_attrs a = {word_of(act_words[p->act])};
    zt_case_attrs(test_case, &a, sizeof a);
    case_products(test_case, p, 1, 1, 3, i % 2);
    zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, p->x, 2, (int64_t[]){p->n, p->M[0]});
    return true;
}

static void linear_add_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_linear_add_attrs *linear_add = attrs;
    out[0] = zt_build_add(emit, in[2], emit_linear(emit, &linear_add->act, in[0], in[1], in[3]));
}

const zt_opdef zt_op_linear_add = {
    .synopsis = "y = residual + linear(x, w, b) with this act; x f32, f16 or bf16 [n,K], w any float "
                "or block type but f64 [M,K], residual and y [n,M] of the type of x, b (optional) "
                "f32 or the type of x [M]",
    .n_required = 3,
    .flags = ZT_OPF_SAME | ZT_OPF_SUMS,
    .infer = linear_add_infer,
    .ref = linear_add_ref,
    .flops = linear_add_flops,
    .cases = linear_add_cases,
    .expand = linear_add_expand,
    .roundings = after_roundings,
    .weights = 2,
};
