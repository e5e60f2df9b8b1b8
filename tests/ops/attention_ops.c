/* attention_ops.c - scaled dot-product attention and the fused rows beside it: what they refuse and in
 * which words, values known by hand, rows that see nothing, memory that is linear in length. */
#include "lib/run/run.h"
#include "tests/common/one_op.h"
#include "tests/common/refusal.h"

#include <math.h>

/* ---- refusals -------------------------------------------------------------------------------- */

#define SDPA(...)                                                                                                                \
    &(const zt_sdpa_attrs) { __VA_ARGS__ }
#define QKV "f32 1 4 3 8", "f32 1 2 5 8", "f32 1 2 5 6"

static const zt_qk_norm_rope_attrs five_heads = {1e-5, 5, {"halves"}};
static const zt_scaled_softmax_attrs axis2 = {1, 2}, endless = {INFINITY, -1};

static const refusal refusals[] = {
    {ZT_OP_sdpa, NULL, ZT_ESHAPE, "q has 3 dimensions, expected 4", {"f32 4 3 8", "f32 1 2", "f32 1"}},
    {ZT_OP_sdpa, NULL, ZT_ESHAPE, "k has type f16, expected f32", {"f32 1 4 3 8", "f16 1 2 5 8", "f32 1 2 5 8"}},
    {ZT_OP_sdpa,
     NULL,
     ZT_ESHAPE,
     "q, k and v have different batch sizes 1, 2 and 1",
     {"f32 1 4 3 8", "f32 2 2 5 8", "f32 1 2 5 8"}},
    {ZT_OP_sdpa, NULL, ZT_ESHAPE, "k has 9 columns, but q has 8", {"f32 1 4 3 8", "f32 1 2 5 9", "f32 1 2 5 8"}},
    {ZT_OP_sdpa,
     NULL,
     ZT_ESHAPE,
     "k and v must have the same shape except for the columns",
     {"f32 1 4 3 8", "f32 1 2 5 8", "f32 1 2 6 8"}},
    {ZT_OP_sdpa,
     NULL,
     ZT_ESHAPE,
     "the number of query heads 4 is not a multiple of the number of key heads 3",
     {"f32 1 4 3 8", "f32 1 3 5 8", "f32 1 3 5 8"}},
    {ZT_OP_sdpa, NULL, ZT_ESHAPE, "mask must be bool or have the dtype of q", {QKV, "i32 3 5"}},
    {ZT_OP_sdpa, NULL, ZT_ESHAPE, "mask cannot be broadcast to batch 1 x heads 4 x queries 3 x keys 5", {QKV, "bool 3 4"}},
    {ZT_OP_sdpa, NULL, ZT_ESHAPE, "len must have type i32[1]", {QKV, NULL, "i32 2"}},
    {ZT_OP_sdpa, SDPA(0, 2, {"start"}, 0, -1, -1, 0, {"bhsd"}), ZT_EUSAGE, "causal is 2: must be 0 or 1", {QKV}},
    {ZT_OP_sdpa, SDPA(0, 0, {"middle"}, 0, -1, -1, 0, {"bhsd"}), ZT_EUSAGE, "align is 'middle'", {QKV}},
    {ZT_OP_sdpa, SDPA(0, 0, {"end"}, 0, -1, -1, 0, {"sbhd"}), ZT_EUSAGE, "layout is 'sbhd'", {QKV}},
    {ZT_OP_sdpa, SDPA(NAN, 0, {"end"}, 0, -1, -1, 0, {"bhsd"}), ZT_EUSAGE, "scale is nan", {QKV}},
    {ZT_OP_sdpa, SDPA(0, 0, {"end"}, 0, -2, -1, 0, {"bhsd"}), ZT_EUSAGE, "left is -2 and right -1", {QKV}},
    {ZT_OP_sdpa,
     SDPA(0, 0, {"end"}, INT64_MAX, 0, 0, 0, {"bhsd"}),
     ZT_EUSAGE,
     "offset 9223372036854775807 is out of range",
     {QKV}},
    {ZT_OP_sdpa, SDPA(0, 0, {"end"}, 0, 0, 0, -1, {"bhsd"}), ZT_EUSAGE, "softcap is -1", {QKV}},
    {ZT_OP_sdpa_grad, NULL, ZT_ESHAPE, "dy must have the type of the output", {QKV, "f32 1 4 3 8", "f32 1 4 3", "f32 1 4 3"}},
    {ZT_OP_sdpa_grad,
     NULL,
     ZT_ESHAPE,
     "lse and delta must have type f32 [1,4,3]",
     {QKV, "f32 1 4 3 6", "f32 1 4 3", "f64 1 4 3"}},
    {ZT_OP_qk_norm_rope, &five_heads, ZT_EUSAGE, "q_heads is 5: must be 0 to 4", {"f32 4 8", "f32 8", "f32 8", "f32 4", "f32 4"}},
    {ZT_OP_qk_norm_rope,
     NULL,
     ZT_ESHAPE,
     "wq and wk have 8 and 7 entries, expected 8 (columns)",
     {"f32 4 8", "f32 8", "f32 7", "f32 4", "f32 4"}},
    {ZT_OP_qk_norm_rope,
     NULL,
     ZT_ESHAPE,
     "cos and sin must have the same shape, with one row for all heads of x",
     {"f32 4 8", "f32 8", "f32 8", "f32 4", "f32 3"}},
    {ZT_OP_qk_norm_rope,
     NULL,
     ZT_ESHAPE,
     "cos has 3 rows along axis 0, but x has 2",
     {"f32 2 4 8", "f32 8", "f32 8", "f32 3 4", "f32 3 4"}},
    {ZT_OP_qk_norm_rope, NULL, ZT_ESHAPE, "5 pairs do not fit in 8 columns", {"f32 4 8", "f32 8", "f32 8", "f32 5", "f32 5"}},
    {ZT_OP_scaled_softmax, &axis2, ZT_ESHAPE, "axis 2 is out of range for 2 dimensions", {"f32 2 3"}},
    {ZT_OP_scaled_softmax, &endless, ZT_EUSAGE, "scale is inf", {"f32 2 3"}},
    {ZT_OP_scaled_softmax, NULL, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension", {"f32"}},
    {ZT_OP_rms_norm, NULL, ZT_ESHAPE, "g has type f32, expected f16", {"f16 2 8", "f32 8"}},
    {ZT_OP_add_rms_norm, NULL, ZT_ESHAPE, "residual must have the type of x", {"f16 2 8", "f16 2 7", "f16 8"}},
};

/* ---- values ---------------------------------------------------------------------------------- */

/* Keys are all alike, so that y is the mean of the values that a query sees: value j is 2^j. */
typedef struct mean_case {
    const char *what;
    zt_sdpa_attrs a;
    const unsigned char *mask; /* [3,4], or NULL */
    int32_t len;               /* -1: absent */
    double want[3];            /* sums of the values seen; 0: none */
    int n[3];                  /* how many */
} mean_case;

static const unsigned char some[12] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1};

static const mean_case means[] = {
    {"all", {0, 0, {"start"}, 0, -1, -1, 0, {"bhsd"}}, NULL, -1, {15, 15, 15}, {4, 4, 4}},
    {"causal from the start", {0, 1, {"start"}, 0, -1, -1, 0, {"bhsd"}}, NULL, -1, {1, 3, 7}, {1, 2, 3}},
    {"causal from the end", {0, 1, {"end"}, 0, -1, -1, 0, {"bhsd"}}, NULL, -1, {3, 7, 15}, {2, 3, 4}},
    {"a window", {0, 0, {"start"}, 0, 1, 1, 0, {"bhsd"}}, NULL, -1, {3, 7, 14}, {2, 3, 3}},
    {"an offset", {0, 1, {"start"}, -2, -1, -1, 0, {"bhsd"}}, NULL, -1, {0, 0, 1}, {0, 0, 1}},
    {"a length", {0, 1, {"end"}, 0, -1, -1, 0, {"bhsd"}}, NULL, 2, {0, 1, 3}, {0, 1, 2}},
    {"a mask", {0, 0, {"start"}, 0, -1, -1, 0, {"bhsd"}}, some, -1, {9, 0, 14}, {2, 0, 3}},
    {"a mask and causal", {0, 1, {"start"}, 0, -1, -1, 0, {"bhsd"}}, some, 4, {1, 0, 6}, {1, 0, 2}},
};

static bool is_mean(zt_engine *engine, const mean_case *m)
{
    zt_type q = zt_type_make(ZT_F32, 4, (int64_t[]){1, 1, 3, 2});
    zt_type k = zt_type_make(ZT_F32, 4, (int64_t[]){1, 1, 4, 2});
    zt_type v = zt_type_make(ZT_F32, 4, (int64_t[]){1, 1, 4, 1});
    zt_type mask = zt_type_make(ZT_BOOL, 2, (int64_t[]){3, 4});
    zt_type len = zt_type_make(ZT_I32, 1, (int64_t[]){1});
    float qs[6] = {1, 2, 3, 4, 5, 6}, ks[8] = {0}, vs[4] = {1, 2, 4, 8}, y[3], lse[3];
    oneop call = {.op = ZT_OP_sdpa, .attrs = &m->a, .in = {&q, &k, &v}, .data = {qs, ks, vs}};
    call.in[3] = m->mask ? &mask : NULL;
    call.data[3] = m->mask;
    call.in[4] = m->len >= 0 ? &len : NULL;
    call.data[4] = &m->len;
    call.result[0] = y;
    call.result[1] = lse;
    bool good = zt_op_infer(NULL, call.op, call.attrs, call.in, call.out) == ZT_OK && !oneop_run(engine, &call);
    for (int i = 0; i < 3 && good; i++) {
        double want = m->n[i] ? m->want[i] / m->n[i] : 0;
        good = fabs((double)y[i] - want) < 1e-6 && (m->n[i] ? fabs((double)lse[i] - log(m->n[i])) < 1e-6 : lse[i] == -INFINITY);
    }
    return good;
}

/* A NaN is a row's own, not hidden, and not its neighbours'. */
static bool keeps_nan(zt_engine *engine)
{
    zt_type q = zt_type_make(ZT_F32, 4, (int64_t[]){1, 1, 3, 1});
    float qs[3] = {1, NAN, 2}, ks[3] = {1, 2, 3}, y[3];
    zt_sdpa_attrs a = zt_sdpa_defaults();
    oneop call = {.op = ZT_OP_sdpa, .attrs = &a, .in = {&q, &q, &q}, .data = {qs, ks, ks}};
    call.result[0] = y;
    return zt_op_infer(NULL, call.op, call.attrs, call.in, call.out) == ZT_OK && !oneop_run(engine, &call) && isnan(y[1]) &&
           isfinite(y[0]) && isfinite(y[2]);
}

/* What a row does not see may be anything, keys and values, by causality or by either mask; and
 * gradients of what is seen do not have it: causally those of the queries before. */
enum { N = 200, D = 40 }; /* over a tile, beside whole registers */

typedef struct hiding {
    float q[N][D], k[N][D], v[N][D], dy[N][D], added[N], lse[N], delta[N];
    float y[2][N][D], dq[2][N][D], dk[2][N][D], dv[2][N][D];
    uint8_t seen[N];
} hiding;

static void fill_hiding(hiding *h)
{
    for (int i = 0; i < N; i++) {
        bool hidden = i == 150 || i == 199;
        h->seen[i] = !hidden;
        h->added[i] = hidden ? -INFINITY : 0;
        for (int d = 0; d < D; d++) {
            h->q[i][d] = sinf((float)(i * D + d));
            h->k[i][d] = cosf((float)(3 * i + d));
            h->v[i][d] = sinf((float)(7 * i - d));
            h->dy[i][d] = cosf((float)(5 * i - 2 * d));
        }
    }
}

static bool run_hiding(zt_engine *engine, hiding *h, const zt_sdpa_attrs *a, zt_dtype mask, int run)
{
    const int64_t four[] = {1, 1, N, D}, n = N;
    zt_type type = zt_type_make(ZT_F32, 4, four), stat = zt_type_make(ZT_F32, 3, four);
    zt_type m = zt_type_make(mask, 1, &n);
    void *is = a->causal ? NULL : mask == ZT_BOOL ? (void *)h->seen : (void *)h->added;
    oneop call = {.op = ZT_OP_sdpa, .attrs = a, .in = {&type, &type, &type, is ? &m : NULL}, .data = {h->q, h->k, h->v, is}};
    oneop g = {.op = ZT_OP_sdpa_grad,
               .attrs = a,
               .in = {&type, &type, &type, &type, &stat, &stat, is ? &m : NULL},
               .data = {h->q, h->k, h->v, h->dy, h->lse, h->delta, is}};
    call.result[0] = h->y[run];
    call.result[1] = h->lse;
    g.result[0] = h->dq[run];
    g.result[1] = h->dk[run];
    g.result[2] = h->dv[run];
    return zt_op_infer(NULL, call.op, a, call.in, call.out) == ZT_OK && !oneop_run(engine, &call) &&
           zt_op_infer(NULL, g.op, a, g.in, g.out) == ZT_OK && !oneop_run(engine, &g);
}

static bool row_is(const float (*x)[N][D], int row)
{
    return isfinite(x[0][row][0]) && !memcmp(x[0][row], x[1][row], sizeof x[0][row]);
}

static bool hides(zt_engine *engine, bool causal, zt_dtype mask)
{
    static hiding h;
    zt_sdpa_attrs a = zt_sdpa_defaults();
    bool good = true;
    a.causal = causal;
    fill_hiding(&h);
    for (int run = 0; run < 2; run++) {
        for (int d = 0; d < D && run; d++) {
            h.k[150][d] = h.k[199][d] = NAN;
            h.v[150][d] = d % 2 ? NAN : INFINITY;
            h.v[199][d] = -INFINITY;
        }
        good = good && run_hiding(engine, &h, &a, mask, run);
    }
    for (int i = 0; i < (causal ? 150 : N); i++) good = good && row_is(h.y, i) && row_is(h.dq, i);
    for (int i = 0; i < N && !causal; i++) good = good && row_is(h.dk, i) && row_is(h.dv, i);
    return good && (!causal || (isnan(h.y[1][150][0]) && isnan(h.dq[1][150][0])));
}

/* ---- memory and trouble ---------------------------------------------------------------------- */

/* Peak bytes of a step over count tokens, with its gradient. */
static size_t peak_of(int64_t count, int32_t len, const char **error)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2});
    zt_prog *graph = zt_prog_new(ctx);
    static const char *const names[] = {"q", "k", "v"};
    static char says[200];
    const int64_t dim[] = {1, 1, count, 16}, one = 1;
    zt_sdpa_attrs a = zt_sdpa_defaults();
    a.causal = 1;
    int wrt[3], lens = zt_prog_in(graph, "len", ZT_I32, 1, &one);
    for (int k = 0; k < 3; k++) wrt[k] = zt_prog_in(graph, names[k], ZT_F32, 4, dim);
    int y = zt_program_sdpa(graph, NULL, wrt[0], wrt[1], wrt[2], ZT_NONE, lens, &a, NULL);
    zt_prog_out(graph, "y", y);
    zt_prog *program = zt_prog_grad(ctx, graph, wrt, 3, &(zt_grad_opts){.seeds = true});
    zt_session *session = program ? zt_session_open(engine, program, NULL, NULL) : NULL;
    float *x = calloc((size_t)count * 16, sizeof *x), *out = calloc((size_t)count * 16, sizeof *out);
    const void *in[] = {&len, x, x, x, x};
    void *outs[] = {out, out, out, out};
    if (session) zt_session_step(session, NULL, 0, in, outs);
    snprintf(says, sizeof says, "%s", zt_ctx_error(ctx));
    *error = says;
    zt_session_close(session);
    zt_prog_free(program);
    zt_prog_free(graph);
    size_t peak = zt_mem_get(ctx).peak;
    zt_engine_close(engine);
    zt_ctx_free(ctx);
    free(x);
    free(out);
    return peak;
}

static void memory_is_linear(void)
{
    const char *error;
    double one = (double)peak_of(2048, 2048, &error), two = (double)peak_of(4096, 4096, &error);
    ok(!*error && two < 2.2 * one, "twice the length takes twice the memory, forward and back");
    if (*error) diag("%s", error);
    peak_of(64, 65, &error);
    ok(strstr(error, "length") != NULL, "a length past the keys is an error");
    if (!strstr(error, "length")) diag("%s", error);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) op_refused(&refusals[i]);
    for (int k = 0; k < 2; k++) {
        const char *name = k ? "cpu" : "ref";
        zt_engine *engine = zt_engine_open(ctx, name, &(zt_engine_opts){.threads = 2});
        for (size_t i = 0; i < sizeof means / sizeof means[0]; i++)
            ok(is_mean(engine, &means[i]), "%s: the mean of what is seen: %s", name, means[i].what);
        ok(keeps_nan(engine), "%s: a row of NaN stays one", name);
        ok(hides(engine, true, ZT_BOOL), "%s: what is causally hidden may be NaN", name);
        ok(hides(engine, false, ZT_BOOL), "%s: what a mask of bools hides may be NaN", name);
        ok(hides(engine, false, ZT_F32), "%s: what a mask of -infinity hides may be NaN", name);
        zt_engine_close(engine);
    }
    memory_is_linear();
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
