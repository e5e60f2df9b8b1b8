/* wkv7_back.c - the row of the gradient of RWKV-7's recurrence (wkv7.c). With S the state before a row and S1 that after it,
 *
 *     u = S^T a        S1 = diag(w) S + b u^T + k v^T        y = S1^T q
 *
 * and so, for the cotangent C of S1, to which the row adds q dy^T:
 *
 *     dq = S1 dy       dw = row sums of C S       dk = C v       dv = C^T k
 *     db = C u         du = C^T b                 da = S du      dS = diag(w) C + a du^T
 */
#include "lib/ops/state_back.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO, DSTATE1, DY }; /* inputs: those of wkv7, and the cotangents of its outputs */
enum { DSTATE, DQ, DW, DK, DV, DA, DB, OUTPUTS };        /* outputs */
enum { MAX_KEY = 1024 };                                 /* rows of a head's state */

static zt_status wkv7_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type forward[ZT_MAX_OUT];
    zt_status status = zt_op_wkv7.infer(ctx, attrs, in, forward);
    if (!status) status = zt_state_back_infer(ctx, in, DSTATE1, &forward[1]);
    for (int k = 0; k < OUTPUTS && !status; k++) out[k] = *in[k];
    return status;
}

/* A column of a head's state: D numbers, E columns. */
typedef struct column {
    const zt_arg *in;
    zt_arg *out;
    int64_t heads, D, E, head, number;
} column;

static int64_t place_entry(const void *user, int64_t slot, int64_t number)
{
    const column *of = user;
    return ((slot * of->heads + of->head) * of->D + number) * of->E + of->number;
}

static int64_t key_at(const column *of, int64_t r) { return (r * of->heads + of->head) * of->D; }

static int64_t value_at(const column *of, int64_t r) { return (r * of->heads + of->head) * of->E + of->number; }

/* S^T a */
static double removed_of(const column *of, int64_t r, const double *state)
{
    const double *a = of->in[A].f + key_at(of, r);
    double sum = 0;
    for (int64_t d = 0; d < of->D; d++) sum += state[d] * a[d];
    return sum;
}

static void step_column(const void *user, int64_t r, double *state)
{
    const column *of = user;
    int64_t key = key_at(of, r);
    double removed = removed_of(of, r, state), v = of->in[V].f[value_at(of, r)];
    for (int64_t d = 0; d < of->D; d++)
        state[d] = state[d] * of->in[W].f[key + d] + of->in[B].f[key + d] * removed + of->in[K].f[key + d] * v;
}

static void add_to(const column *of, int output, int64_t at, double x)
{
    if (of->out[output].type) of->out[output].f[at] += x;
}

static void back_row(const void *user, int64_t r, const double *before, double *C)
{
    const column *of = user;
    int64_t key = key_at(of, r), value = value_at(of, r);
    double after[MAX_KEY], dv = 0, du = 0, dy = of->in[DY].type ? of->in[DY].f[value] : 0;
    double removed = removed_of(of, r, before), v = of->in[V].f[value];
    for (int64_t d = 0; d < of->D; d++) after[d] = before[d];
    step_column(of, r, after);
    for (int64_t d = 0; d < of->D; d++) {
        C[d] += of->in[Q].f[key + d] * dy;
        dv += C[d] * of->in[K].f[key + d];
        du += C[d] * of->in[B].f[key + d];
    }
    for (int64_t d = 0; d < of->D; d++) {
        add_to(of, DQ, key + d, after[d] * dy);
        add_to(of, DW, key + d, C[d] * before[d]);
        add_to(of, DK, key + d, C[d] * v);
        add_to(of, DA, key + d, before[d] * du);
        add_to(of, DB, key + d, C[d] * removed);
        C[d] = C[d] * of->in[W].f[key + d] + of->in[A].f[key + d] * du;
    }
    add_to(of, DV, value, dv);
}

static void wkv7_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_type *state = in[STATE].type;
    double before[MAX_KEY], cotangent[MAX_KEY];
    column of = {.in = in, .out = out, .heads = state->dim[1], .D = state->dim[2], .E = state->dim[3]};
    const zt_state_back back = {.state = &in[STATE],
                                .from = &in[FROM],
                                .to = &in[TO],
                                .dstate1 = &in[DSTATE1],
                                .dstate = &out[DSTATE],
                                .rows = in[Q].type->dim[0],
                                .slots = state->dim[0],
                                .user = &of,
                                .place = place_entry,
                                .step = step_column,
                                .back = back_row};
    (void)attrs;
    zt_state_back_clear(out, OUTPUTS);
    for (; of.head < of.heads; of.head++)
        for (of.number = 0; of.number < of.E; of.number++) zt_state_back_unit(&back, of.D, before, cotangent, error);
}

static double wkv7_backward_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return 4 * zt_op_wkv7.flops(attrs, in, out);
}

static bool wkv7_backward_cases(int i, zt_case *test_case)
{
    if (!zt_op_wkv7.cases(i, test_case)) return false;
    zt_state_back_case(test_case, i, DSTATE1, &test_case->in[V]);
    return true;
}

const zt_opdef zt_op_wkv7_backward = {
    .synopsis = "gradient of wkv7 from its inputs (state: as the step found it) and the gradients of its outputs, of which any "
                "may be absent: dstate, dq, dw, dk, dv, da and db have the types of state, q, w, k, v, a and b",
    .n_required = 9,
    .flags = ZT_OPF_SUMS,
    .infer = wkv7_backward_infer,
    .ref = wkv7_backward_ref,
    .flops = wkv7_backward_flops,
    .cases = wkv7_backward_cases,
};
