/* wkv7.c - the row of RWKV-7's recurrence (Peng et al., "RWKV-7 Goose", 2025), a delta rule whose decay, removal and
 * replacement are vectors: the state of a head is a matrix that maps keys to values.
 */
#include "lib/ops/state_rows.h"
#include "lib/ops/vjp.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO }; /* inputs */
enum { MAX_KEY = 1024 };                    /* rows of a head's state */

typedef struct shape {
    int64_t slots, n, heads, D, E; /* D: length of a key, E: of a value */
} shape;

static shape shape_of(const zt_type *state, const zt_type *q)
{
    return (shape){.slots = state->dim[0], .n = q->dim[0], .heads = state->dim[1], .D = state->dim[2], .E = state->dim[3]};
}

static zt_status want_matrix(zt_ctx *ctx, const char *name, const zt_type *x, int64_t n, int64_t columns)
{
    zt_status status = zt_row_want(ctx, name, x, ZT_F32, 2);
    if (!status && (x->dim[0] != n || x->dim[1] != columns))
        status = zt_row_fail(ctx, ZT_ESHAPE, "%s must have shape [%lld,%lld]", name, (long long)n, (long long)columns);
    return status;
}

static zt_status wkv7_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    static const char *const names[] = {"state", "q", "w", "k", "v", "a", "b"};
    zt_status status = zt_row_want(ctx, "state", in[STATE], ZT_F32, 4);
    (void)attrs;
    if (!status) status = zt_row_want(ctx, "q", in[Q], ZT_F32, 2);
    if (status) return status;
    shape of = shape_of(in[STATE], in[Q]);
    if (of.D < 1 || of.D > MAX_KEY)
        return zt_row_fail(ctx, ZT_ESHAPE, "state has %lld rows in a head, expected 1 to %d", (long long)of.D, MAX_KEY);
    for (int i = Q; i <= B && !status; i++) status = want_matrix(ctx, names[i], in[i], of.n, of.heads * (i == V ? of.E : of.D));
    out[0] = *in[STATE];
    out[1] = *in[V];
    return status ? status : zt_state_rows_infer(ctx, of.n, in[FROM], in[TO]);
}

/* One column of a head's state through all rows. */
static void run_column(const zt_arg *in, zt_arg *out, int64_t head, int64_t e, zt_runtime_error *error)
{
    shape of = shape_of(in[STATE].type, in[Q].type);
    double column[MAX_KEY] = {0};
    for (int64_t row = 0; row < of.n; row++) {
        int64_t at = (row * of.heads + head) * of.D, value = (row * of.heads + head) * of.E + e;
        int64_t start = zt_state_rows_from(&in[FROM], row, of.slots, error),
                end = zt_state_rows_to(&in[TO], row, of.slots, error);
        double removed = 0, y = 0;
        for (int64_t d = 0; d < of.D; d++) {
            if (start != ZT_STATE_CONTINUED)
                column[d] = start < 0 ? 0 : out[0].f[((start * of.heads + head) * of.D + d) * of.E + e];
            removed += column[d] * in[A].f[at + d];
        }
        for (int64_t d = 0; d < of.D; d++) {
            column[d] = column[d] * in[W].f[at + d] + in[B].f[at + d] * removed + in[K].f[at + d] * in[V].f[value];
            y += column[d] * in[Q].f[at + d];
        }
        if (out[1].type) out[1].f[value] = y;
        for (int64_t d = 0; d < of.D && end >= 0; d++) out[0].f[((end * of.heads + head) * of.D + d) * of.E + e] = column[d];
    }
}

static void wkv7_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    shape of = shape_of(in[STATE].type, in[Q].type);
    (void)attrs;
    for (int64_t head = 0; head < of.heads; head++)
        for (int64_t e = 0; e < of.E; e++) run_column(in, out, head, e, error);
}

/* For each entry of the state: products with a, w, b, k and q, and four sums. */
static double wkv7_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    shape of = shape_of(in[STATE], in[Q]);
    (void)attrs, (void)out;
    return 9 * (double)of.n * (double)of.heads * (double)of.D * (double)of.E;
}

static double wkv7_bytes(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    double bytes = in[STATE]->dim[0] ? 2 * (double)zt_type_bytes(in[STATE]) / (double)in[STATE]->dim[0] : 0;
    (void)attrs;
    for (int k = Q; k <= TO; k++) bytes += (double)zt_type_bytes(in[k]);
    return bytes + (double)zt_type_bytes(&out[1]);
}

/* Lengths that 16 and 32 divide and not, one row and many. */
static bool wkv7_cases(int i, zt_case *test_case)
{
    static const struct {
        int64_t S, n, heads, D, E;
    } rows[] = {
        {1, 1, 2, 64, 64}, {3, 1, 3, 33, 40}, {3, 7, 2, 64, 64}, {3, 40, 3, 16, 7}, {2, 25, 2, 128, 128},
        {2, 12, 3, 5, 70}, {3, 0, 2, 16, 16}, {2, 4, 2, 8, 0},   {2, 5, 0, 8, 8},
    };
    if (i >= ZT_LEN(rows)) return false;
    static const zt_fill fills[] = {[Q] = ZT_FILL_NORMAL, [W] = ZT_FILL_UNIT,  [K] = ZT_FILL_NORMAL,
                                    [V] = ZT_FILL_NORMAL, [A] = ZT_FILL_SMALL, [B] = ZT_FILL_SMALL};
    zt_case_in(test_case, STATE, ZT_FILL_NORMAL, 0, ZT_F32, 4, (int64_t[]){rows[i].S, rows[i].heads, rows[i].D, rows[i].E});
    for (int k = Q; k <= B; k++)
        zt_case_in(test_case, k, fills[k], 0, ZT_F32, 2,
                   (int64_t[]){rows[i].n, rows[i].heads * (k == V ? rows[i].E : rows[i].D)});
    zt_state_rows_case(test_case, FROM, rows[i].n, rows[i].S);
    return true;
}

static void wkv7_vjp(zt_vjp *vjp)
{
    const int *in = vjp->in;
    vjp->dx[STATE] =
        zt_build_wkv7_backward(vjp->emit, in[STATE], in[Q], in[W], in[K], in[V], in[A], in[B], in[FROM], in[TO], vjp->dy[0],
                               vjp->dy[1], &vjp->dx[Q], &vjp->dx[W], &vjp->dx[K], &vjp->dx[V], &vjp->dx[A], &vjp->dx[B]);
}

const zt_opdef zt_op_wkv7 = {
    .synopsis =
        "the recurrence of RWKV-7: for each head and row, S = diag(w) S + b (S^T a)^T + k v^T; y = S^T q; state "
        "f32[slots,H,D,E] (donated: overwritten in place) holds S [D,E] of H heads; q (the receptance r), w, k, a and b f32[n,H D], v and "
        "y f32[n,H E]; w is what stays of each row of S (the decay itself, not its logarithm); from i32[n]: the slot "
        "with the state before row i, -1: zeros, -2: the state after row i-1 in this step; to i32[n]: the slot "
        "that gets the state after row i, -1: none. Rows are computed in order. A slot out of range is an error",
    .n_required = 9,
    .flags = ZT_OPF_SUMS,
    .donates = 1,
    .infer = wkv7_infer,
    .ref = wkv7_ref,
    .flops = wkv7_flops,
    .bytes = wkv7_bytes,
    .cases = wkv7_cases,
    .vjp = wkv7_vjp,
};
