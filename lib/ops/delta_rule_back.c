/* delta_rule_back.c - the row of the gradient of the gated delta rule (delta_rule.c). With k and q divided by their lengths,
 * and S the state before a row:
 *
 *     T = exp(g) S        u = v - T^T k        w = beta u        S1 = T + k w^T        y = S1^T q
 *
 * and so, for the cotangent C of S1, to which the row adds q dy^T:
 *
 *     dq = S1 dy        dw = C^T k        dbeta = dw u        dv = beta dw
 *     dk = C w - T dv   dT = C - k dv^T   dg = sum of dT T    dS = exp(g) dT
 */
#include "lib/ops/state_back.h"

#include <math.h>

_Static_assert(sizeof(zt_delta_rule_backward_attrs) == sizeof(zt_delta_rule_attrs), "one list of attributes");

enum { STATE, Q, K, V, G, BETA, FROM, TO, DSTATE1, DY }; /* inputs: those of delta_rule, and the cotangents of its outputs */
enum { DSTATE, DQ, DK, DV, DG, DBETA, OUTPUTS };         /* outputs */
enum { MAX_KEY = 1024 };                                 /* rows of a head's state */

static zt_status delta_rule_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type forward[ZT_MAX_OUT];
    zt_status status = zt_op_delta_rule.infer(ctx, attrs, in, forward);
    if (!status) status = zt_state_back_infer(ctx, in, DSTATE1, &forward[1]);
    for (int k = 0; k < OUTPUTS && !status; k++) out[k] = *in[k];
    return status;
}

/* A column of a head's state: D numbers, E columns. */
typedef struct column {
    const zt_arg *in;
    zt_arg *out;
    int64_t key_heads, heads, D, E, head, key_head, number;
    double eps, scale;
} column;

static int64_t place_entry(const void *user, int64_t slot, int64_t number)
{
    const column *of = user;
    return ((slot * of->heads + of->head) * of->D + number) * of->E + of->number;
}

static double inverse_length(const column *of, const double *x)
{
    double sum = of->eps;
    for (int64_t i = 0; i < of->D; i++) sum += x[i] * x[i];
    return 1 / sqrt(sum);
}

static const double *key_of(const column *of, int which, int64_t r)
{
    return of->in[which].f + (r * of->key_heads + of->key_head) * of->D;
}

static double of_head(const column *of, int which, int64_t r) { return of->in[which].f[r * of->heads + of->head]; }

static int64_t value_at(const column *of, int64_t r) { return (r * of->heads + of->head) * of->E + of->number; }

/* v - T^T k; `state` becomes T. */
static double decay_column(const column *of, int64_t r, const double *k, double key, double *state)
{
    double decay = exp(of_head(of, G, r)), left = of->in[V].f[value_at(of, r)];
    for (int64_t d = 0; d < of->D; d++) {
        state[d] *= decay;
        left -= state[d] * k[d] * key;
    }
    return left;
}

static void step_column(const void *user, int64_t r, double *state)
{
    const column *of = user;
    const double *k = key_of(of, K, r);
    double key = inverse_length(of, k), change = of_head(of, BETA, r) * decay_column(of, r, k, key, state);
    for (int64_t d = 0; d < of->D; d++) state[d] += change * k[d] * key;
}

/* Adds to the gradient of x that of x divided by its length, times `scale`. */
static void add_through_length(const column *of, double *dx, const double *x, const double *d, double inverse, double scale)
{
    double along = 0;
    for (int64_t i = 0; i < of->D; i++) along += x[i] * d[i];
    for (int64_t i = 0; i < of->D; i++) dx[i] += scale * inverse * (d[i] - x[i] * inverse * inverse * along);
}

static void back_row(const void *user, int64_t r, const double *before, double *C)
{
    const column *of = user;
    const double *q = key_of(of, Q, r), *k = key_of(of, K, r);
    double T[MAX_KEY], dq[MAX_KEY], dk[MAX_KEY], dw = 0, dg = 0;
    double key = inverse_length(of, k), query = inverse_length(of, q), beta = of_head(of, BETA, r);
    double dy = of->in[DY].type ? of->in[DY].f[value_at(of, r)] : 0, decay = exp(of_head(of, G, r));
    int64_t at = r * of->heads + of->head, keys = (r * of->key_heads + of->key_head) * of->D;
    for (int64_t d = 0; d < of->D; d++) T[d] = before[d];
    double u = decay_column(of, r, k, key, T), w = beta * u;
    for (int64_t d = 0; d < of->D; d++) {
        dq[d] = (T[d] + k[d] * key * w) * dy;
        C[d] += of->scale * q[d] * query * dy;
        dw += C[d] * k[d] * key;
    }
    for (int64_t d = 0; d < of->D; d++) {
        dk[d] = C[d] * w - T[d] * beta * dw;
        C[d] -= k[d] * key * beta * dw;
        dg += C[d] * T[d];
        C[d] *= decay;
    }
    if (of->out[DQ].type) add_through_length(of, of->out[DQ].f + keys, q, dq, query, of->scale);
    if (of->out[DK].type) add_through_length(of, of->out[DK].f + keys, k, dk, key, 1);
    if (of->out[DV].type) of->out[DV].f[value_at(of, r)] = beta * dw;
    if (of->out[DG].type) of->out[DG].f[at] += dg;
    if (of->out[DBETA].type) of->out[DBETA].f[at] += dw * u;
}

static void delta_rule_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    const zt_delta_rule_backward_attrs *delta = attrs;
    const zt_type *state = in[STATE].type;
    double before[MAX_KEY], cotangent[MAX_KEY];
    column of = {.in = in, .out = out, .heads = state->dim[1], .D = state->dim[2], .E = state->dim[3], .eps = delta->eps};
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
    of.key_heads = in[Q].type->dim[1] / of.D;
    of.scale = delta->scale > 0 ? delta->scale : 1 / sqrt((double)of.D);
    zt_state_back_clear(out, OUTPUTS);
    for (; of.head < of.heads; of.head++) {
        of.key_head = delta->share.s[0] == 't' ? of.head % of.key_heads : of.head / (of.heads / of.key_heads);
        for (of.number = 0; of.number < of.E; of.number++) zt_state_back_unit(&back, of.D, before, cotangent, error);
    }
}

static double delta_rule_backward_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return 4 * zt_op_delta_rule.flops(attrs, in, out);
}

static bool delta_rule_backward_cases(int i, zt_case *test_case)
{
    if (!zt_op_delta_rule.cases(i, test_case)) return false;
    zt_state_back_case(test_case, i, DSTATE1, &test_case->in[V]);
    return true;
}

const zt_opdef zt_op_delta_rule_backward = {
    .synopsis = "gradient of delta_rule from its inputs (state: as the step found it) and the gradients of its outputs, of "
                "which any may be absent: dstate, dq, dk, dv, dg and dbeta have the types of state, q, k, v, g and beta",
    .n_required = 8,
    .flags = ZT_OPF_SUMS,
    .infer = delta_rule_backward_infer,
    .ref = delta_rule_backward_ref,
    .flops = delta_rule_backward_flops,
    .cases = delta_rule_backward_cases,
};
