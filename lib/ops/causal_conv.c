/* causal_conv.c - the row of the causal convolution of each channel by itself (depthwise) over the rows of sequences, which
 * starts where the last step ended.
 */
#include "lib/ops/state_rows.h"
#include "lib/ops/vjp.h"

#include <math.h>
#include <string.h>

enum { STATE, X, W, FROM, TO, B }; /* inputs */
enum { MAX_WIDTH = 256 };          /* rows that a row sees */

static const char *const curves[] = {"none", "silu"};

/* ---- rows that name states ------------------------------------------------------------------- */

zt_status zt_state_rows_infer(zt_ctx *ctx, int64_t n, const zt_type *from, const zt_type *to)
{
    zt_status status = zt_row_want(ctx, "from", from, ZT_I32, 1);
    if (!status) status = zt_row_want(ctx, "to", to, ZT_I32, 1);
    if (!status && (from->dim[0] != n || to->dim[0] != n))
        status = zt_row_fail(ctx, ZT_ESHAPE, "from and to have %lld and %lld entries, expected %lld (rows)",
                             (long long)from->dim[0], (long long)to->dim[0], (long long)n);
    return status;
}

int64_t zt_state_rows_from(const zt_arg *from, int64_t r, int64_t slots, zt_runtime_error *error)
{
    int64_t slot = from->i[r];
    if (slot < slots && slot >= (r ? ZT_STATE_CONTINUED : ZT_STATE_ZEROS)) return slot;
    zt_row_runtime_error(error, "state slot", slot, slots);
    return ZT_STATE_ZEROS;
}

int64_t zt_state_rows_to(const zt_arg *to, int64_t r, int64_t slots, zt_runtime_error *error)
{
    int64_t slot = to->i[r];
    if (slot < slots && slot >= -1) return slot;
    zt_row_runtime_error(error, "state slot", slot, slots);
    return -1;
}

void zt_state_rows_case(zt_case *test_case, int k, int64_t n, int64_t slots)
{
    zt_case_in(test_case, k, ZT_FILL_STARTS, slots, ZT_I32, 1, &n);
    zt_case_in(test_case, k + 1, ZT_FILL_ENDS, slots, ZT_I32, 1, &n);
}

/* ---- causal_conv ----------------------------------------------------------------------------- */

static zt_status causal_conv_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_type *state = in[STATE], *x = in[X], *w = in[W], *b = in[B];
    zt_status status = zt_row_word(ctx, "act", &((const zt_causal_conv_attrs *)attrs)->act, curves, ZT_LEN(curves));
    if (!status) status = zt_row_want(ctx, "state", state, ZT_F32, 3);
    if (!status) status = zt_row_want(ctx, "x", x, ZT_F32, 2);
    if (!status) status = zt_row_want(ctx, "w", w, ZT_F32, 2);
    if (!status && b) status = zt_row_want(ctx, "b", b, ZT_F32, 1);
    if (status) return status;
    int64_t C = x->dim[1], K = w->dim[1];
    if (K < 1 || K > MAX_WIDTH)
        return zt_row_fail(ctx, ZT_ESHAPE, "w has %lld columns, expected 1 to %d", (long long)K, MAX_WIDTH);
    if (w->dim[0] != C)
        return zt_row_fail(ctx, ZT_ESHAPE, "w has %lld rows, but x has %lld columns", (long long)w->dim[0], (long long)C);
    if (state->dim[1] != K - 1 || state->dim[2] != C)
        return zt_row_fail(ctx, ZT_ESHAPE, "state must have shape [S,%lld,%lld]: one row fewer than w has columns, columns of x",
                           (long long)(K - 1), (long long)C);
    if (b && b->dim[0] != C)
        return zt_row_fail(ctx, ZT_ESHAPE, "b has %lld entries, but x has %lld columns", (long long)b->dim[0], (long long)C);
    out[0] = *state;
    out[1] = *x;
    return zt_state_rows_infer(ctx, x->dim[0], in[FROM], in[TO]);
}

/* The last K - 1 entries of a channel and the new one, in order. */
typedef struct window {
    double entry[MAX_WIDTH];
} window;

static void convolve_channel(const zt_causal_conv_attrs *attrs, const zt_arg *in, zt_arg *out, int64_t c, zt_runtime_error *error)
{
    int64_t n = in[X].type->dim[0], C = in[X].type->dim[1], K = in[W].type->dim[1], slots = in[STATE].type->dim[0];
    window seen = {{0}};
    for (int64_t r = 0; r < n; r++) {
        int64_t start = zt_state_rows_from(&in[FROM], r, slots, error), end = zt_state_rows_to(&in[TO], r, slots, error);
        for (int64_t k = 0; k < K - 1 && start != ZT_STATE_CONTINUED; k++)
            seen.entry[k] = start < 0 ? 0 : out[0].f[(start * (K - 1) + k) * C + c];
        seen.entry[K - 1] = in[X].f[r * C + c];
        double sum = in[B].type ? in[B].f[c] : 0;
        for (int64_t k = 0; k < K; k++) sum += in[W].f[c * K + k] * seen.entry[k];
        if (out[1].type) out[1].f[r * C + c] = attrs->act.s[0] == 's' ? sum / (1 + exp(-sum)) : sum;
        memmove(seen.entry, seen.entry + 1, (size_t)(K - 1) * sizeof *seen.entry);
        for (int64_t k = 0; k < K - 1 && end >= 0; k++) out[0].f[(end * (K - 1) + k) * C + c] = seen.entry[k];
    }
}

static void causal_conv_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    for (int64_t c = 0; c < in[X].type->dim[1]; c++) convolve_channel(attrs, in, out, c, error);
}

static double causal_conv_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return 2 * (double)zt_type_count(in[X]) * (double)in[W]->dim[1];
}

static double causal_conv_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double slot = in[STATE]->dim[0] ? (double)zt_type_bytes(in[STATE]) / (double)in[STATE]->dim[0] : 0;
    (void)attrs, (void)out;
    return 2 * slot + 2 * (double)zt_type_bytes(in[X]) + (double)zt_type_bytes(in[W]);
}

static bool causal_conv_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t S, n, C, K;
        bool b;
        const char *act;
    } rows[] = {
        {1, 1, 16, 4, false, "silu"},  {3, 1, 33, 4, true, "silu"},  {3, 9, 64, 4, false, "silu"},
        {4, 40, 100, 3, true, "none"}, {2, 65, 7, 4, false, "none"}, {3, 12, 48, 1, true, "silu"},
        {2, 30, 20, 9, false, "silu"}, {3, 0, 16, 4, false, "silu"}, {1, 5, 0, 4, false, "none"},
    };
    if (i >= ZT_LEN(rows)) return false;
    int64_t C = rows[i].C, K = rows[i].K;
    zt_causal_conv_attrs a = zt_causal_conv_defaults();
    memset(&a.act, 0, sizeof a.act);
    memcpy(a.act.s, rows[i].act, strlen(rows[i].act));
    zt_case_attrs(test_case, &a, sizeof a);
    zt_case_in(test_case, STATE, ZT_FILL_NORMAL, 0, ZT_F32, 3, (int64_t[]){rows[i].S, K - 1, C});
    zt_case_in(test_case, X, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){rows[i].n, C});
    zt_case_in(test_case, W, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){C, K});
    zt_state_rows_case(test_case, FROM, rows[i].n, rows[i].S);
    if (rows[i].b) zt_case_in(test_case, B, ZT_FILL_NORMAL, 0, ZT_F32, 1, &C);
    return true;
}

static void causal_conv_vjp(zt_vjp *vjp)
{
    const int *in = vjp->in;
    int d[3];
    vjp->dx[STATE] = zt_build_causal_conv_backward(vjp->emit, in[STATE], in[X], in[W], in[FROM], in[TO], in[B], vjp->dy[0],
                                                   vjp->dy[1], vjp->attrs, &d[0], &d[1], &d[2]);
    vjp->dx[X] = d[0];
    vjp->dx[W] = d[1];
    vjp->dx[B] = d[2];
}

const zt_opdef zt_op_causal_conv = {
    .synopsis = "y[r,c] = act(b[c] + sum_k w[c,k] x[r-(K-1)+k,c]): a causal convolution of each channel over the rows "
                "of sequences; state f32[S,K-1,C] (donated: overwritten in place) holds in each of S slots the last K-1 "
                "rows of a sequence; x f32[n,C]; w f32[C,K]; from i32[n]: the slot whose rows precede row r, -1: zeros, "
                "-2: the rows before r in this step; to i32[n]: the slot that gets the last K-1 rows up to r, -1: none; "
                "b (optional) f32[C]; act none or silu. Rows are computed in order. A slot out of range is an error",
    .n_required = 5,
    .flags = ZT_OPF_SUMS,
    .donates = 1,
    .infer = causal_conv_infer,
    .ref = causal_conv_ref,
    .flops = causal_conv_flops,
    .bytes = causal_conv_bytes,
    .cases = causal_conv_cases,
    .vjp = causal_conv_vjp,
};
