/* selective_scan_back.c - the row of the gradient of the recurrence of selective state-space models (selective_scan.c). For
 * a number s of a channel before a row, and the cotangent C of it after the row, to which the row adds c dy:
 *
 *     dc += s1 dy      db += dt x C      dx += dt b C      da += dt exp(dt a) s C      ddt += (a exp(dt a) s + x b) C
 *
 * and exp(dt a) C is the cotangent of s. dx also has d dy, and dd is the sum of x dy over rows and channels of a head.
 */
#include "lib/ops/state_back.h"

#include <math.h>

enum { STATE, X, DT, A, B, C, FROM, TO, D, DSTATE1, DY }; /* inputs: those of selective_scan, cotangents of its outputs */
enum { DSTATE, DX, DDT, DA, DB, DC, DD, OUTPUTS };        /* outputs */
enum { MAX_NUMBERS = 4096 };                              /* of a channel */

static zt_status selective_scan_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    zt_type forward[ZT_MAX_OUT];
    zt_status status = zt_op_selective_scan.infer(ctx, attrs, in, forward);
    if (!status) status = zt_state_back_infer(ctx, in, DSTATE1, &forward[1]);
    for (int k = 0; k < DD && !status; k++) out[k] = *in[k];
    out[DD] = in[D] ? *in[D] : zt_type_make(ZT_F32, 1, (int64_t[]){0});
    return status;
}

/* A channel of N numbers: of head h, in group g of G. */
typedef struct channel {
    const zt_arg *in;
    zt_arg *out;
    int64_t number, width, N, heads, head, groups, group;
    bool wide; /* a has a column for each number */
} channel;

static int64_t place_entry(const void *user, int64_t slot, int64_t number)
{
    const channel *of = user;
    return (slot * of->width + of->number) * of->N + number;
}

static double x_of(const channel *of, int64_t r) { return of->in[X].f[r * of->width + of->number]; }
static double dt_of(const channel *of, int64_t r) { return of->in[DT].f[r * of->heads + of->head]; }
static int64_t a_at(const channel *of, int64_t k) { return of->wide ? of->head * of->N + k : of->head; }
static int64_t group_at(const channel *of, int64_t r) { return (r * of->groups + of->group) * of->N; }

static void step_channel(const void *user, int64_t r, double *state)
{
    const channel *of = user;
    const double *b = of->in[B].f + group_at(of, r);
    double dt = dt_of(of, r), x = x_of(of, r);
    for (int64_t k = 0; k < of->N; k++) state[k] = exp(dt * of->in[A].f[a_at(of, k)]) * state[k] + dt * x * b[k];
}

static void back_row(const void *user, int64_t r, const double *before, double *cotangent)
{
    const channel *of = user;
    int64_t at = r * of->width + of->number, group = group_at(of, r);
    const double *b = of->in[B].f + group, *c = of->in[C].f + group;
    double dt = dt_of(of, r), x = x_of(of, r), dy = of->in[DY].type ? of->in[DY].f[at] : 0;
    if (of->out[DD].type && of->in[D].type) of->out[DD].f[of->head] += x * dy;
    double dx = of->in[D].type ? of->in[D].f[of->head] * dy : 0, ddt = 0;
    for (int64_t k = 0; k < of->N; k++) {
        double a = of->in[A].f[a_at(of, k)], kept = exp(dt * a) * before[k], C1 = cotangent[k] + c[k] * dy;
        if (of->out[DC].type) of->out[DC].f[group + k] += (kept + dt * x * b[k]) * dy;
        if (of->out[DB].type) of->out[DB].f[group + k] += dt * x * C1;
        if (of->out[DA].type) of->out[DA].f[a_at(of, k)] += dt * kept * C1;
        dx += dt * b[k] * C1;
        ddt += (a * kept + x * b[k]) * C1;
        cotangent[k] = exp(dt * a) * C1;
    }
    if (of->out[DX].type) of->out[DX].f[at] = dx;
    if (of->out[DDT].type) of->out[DDT].f[r * of->heads + of->head] += ddt;
}

static void selective_scan_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    double before[MAX_NUMBERS], cotangent[MAX_NUMBERS];
    channel of = {.in = in,
                  .out = out,
                  .width = in[X].type->dim[1],
                  .N = in[STATE].type->dim[2],
                  .heads = in[A].type->dim[0],
                  .wide = in[A].type->dim[1] > 1};
    const zt_state_back back = {.state = &in[STATE],
                                .from = &in[FROM],
                                .to = &in[TO],
                                .dstate1 = &in[DSTATE1],
                                .dstate = &out[DSTATE],
                                .rows = in[X].type->dim[0],
                                .slots = in[STATE].type->dim[0],
                                .user = &of,
                                .place = place_entry,
                                .step = step_channel,
                                .back = back_row};
    (void)attrs;
    of.groups = in[B].type->dim[1] / of.N;
    zt_state_back_clear(out, OUTPUTS);
    for (; of.number < of.width; of.number++) {
        of.head = of.number / (of.width / of.heads);
        of.group = of.head / (of.heads / of.groups);
        zt_state_back_unit(&back, of.N, before, cotangent, error);
    }
}

static double selective_scan_backward_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    return 4 * zt_op_selective_scan.flops(attrs, in, out);
}

static bool selective_scan_backward_cases(int i, zt_case *test_case)
{
    if (!zt_op_selective_scan.cases(i, test_case)) return false;
    zt_state_back_case(test_case, i, DSTATE1, &test_case->in[X]);
    return true;
}

const zt_opdef zt_op_selective_scan_backward = {
    .synopsis = "gradient of selective_scan from its inputs (state: as the step found it) and the gradients of its outputs, of "
                "which any may be absent: dstate, dx, ddt, da, db, dc and dd (f32[0] without d) have the types of state, x, "
                "dt, a, b, c and d",
    .n_required = 8,
    .flags = ZT_OPF_SUMS,
    .infer = selective_scan_backward_infer,
    .ref = selective_scan_backward_ref,
    .flops = selective_scan_backward_flops,
    .cases = selective_scan_backward_cases,
};
