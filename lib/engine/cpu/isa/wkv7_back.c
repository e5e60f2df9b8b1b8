/* wkv7_back.c - kernel of the gradient of RWKV-7's recurrence (lib/ops/wkv7_back.c has the formulas). An item is a head.
 *
 *   local   u, du and dv f32[E], the state after a row f32[D,E]; the memory of state_back.h for a head's state
 */
#include "lib/engine/cpu/isa/state_back.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO, DSTATE1, DY }; /* inputs */
enum { DSTATE, DQ, DW, DK, DV, DA, DB };                 /* outputs */

static bool wkv7_back_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32;
}

typedef struct head {
    const zt_cpu_call *call;
    int64_t heads, D, E, number;
    float *u, *du, *dv, *after; /* local */
} head;

static size_t own_floats(const zt_type *state) { return (size_t)(3 * state->dim[3] + state->dim[2] * state->dim[3]); }

static void wkv7_back_setup(zt_cpu_call *call)
{
    const zt_type *state = &call->in[STATE].type;
    int64_t size = state->dim[2] * state->dim[3];
    call->items[0] = state->dim[1];
    call->local_bytes = (own_floats(state) + state_back_floats(call->in[Q].type.dim[0], state->dim[0], size)) * sizeof(float);
}

/* ---- vectors --------------------------------------------------------------------------------- */

static int lanes_at(int64_t i, int64_t count) { return count - i < LANES ? (int)(count - i) : LANES; }

static float dot(const float *a, const float *b, int64_t count)
{
    vf sum = vf_set(0);
    for (int64_t i = 0; i < count; i += LANES) {
        int lanes = lanes_at(i, count);
        sum = vf_fma(vf_load_n(a + i, lanes), vf_load_n(b + i, lanes), sum);
    }
    return vf_sum(sum);
}

/* y += factor x */
static void add_times(float *y, float factor, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES) {
        int lanes = lanes_at(i, count);
        vf_store_n(y + i, lanes, vf_fma(vf_set(factor), vf_load_n(x + i, lanes), vf_load_n(y + i, lanes)));
    }
}

/* y = factor x; y may be x */
static void set_times(float *y, float factor, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES) {
        int lanes = lanes_at(i, count);
        vf_store_n(y + i, lanes, vf_mul(vf_set(factor), vf_load_n(x + i, lanes)));
    }
}

/* ---- a row ----------------------------------------------------------------------------------- */

/* Of row r and the head: D numbers of an input, E of v. */
static const float *of_row(const head *of, int which, int64_t r)
{
    return (const float *)of->call->in[which].data + (r * of->heads + of->number) * (which == V || which == DY ? of->E : of->D);
}

/* u = state^T a */
static void sum_removed(const head *of, int64_t r, const float *state)
{
    const float *a = of_row(of, A, r);
    memset(of->u, 0, (size_t)of->E * sizeof *of->u);
    for (int64_t d = 0; d < of->D; d++) add_times(of->u, a[d], state + d * of->E, of->E);
}

/* to = diag(w) state + b u^T + k v^T; `to` may be `state`. */
static void change_state(const head *of, int64_t r, const float *state, float *to)
{
    const float *w = of_row(of, W, r), *b = of_row(of, B, r), *k = of_row(of, K, r), *v = of_row(of, V, r);
    for (int64_t d = 0; d < of->D; d++) {
        float *row = to + d * of->E;
        set_times(row, w[d], state + d * of->E, of->E);
        add_times(row, b[d], of->u, of->E);
        add_times(row, k[d], v, of->E);
    }
}

static void step_head(void *user, int64_t r, float *state)
{
    head *of = user;
    sum_removed(of, r, state);
    change_state(of, r, state, state);
}

/* The row of an output of D numbers; NULL: not wanted. */
static float *gradient_row(const head *of, int output, int64_t r)
{
    float *dx = of->call->out[output].data;
    return dx ? dx + (r * of->heads + of->number) * of->D : NULL;
}

/* The cotangent C with the row's q dy^T; dq, dv and du. */
static void back_output(const head *of, int64_t r, float *C)
{
    const float *q = of_row(of, Q, r), *k = of_row(of, K, r), *b = of_row(of, B, r);
    const float *dy = of->call->in[DY].data ? of_row(of, DY, r) : NULL;
    float *dq = gradient_row(of, DQ, r);
    memset(of->du, 0, (size_t)of->E * sizeof *of->du);
    memset(of->dv, 0, (size_t)of->E * sizeof *of->dv);
    for (int64_t d = 0; d < of->D; d++) {
        if (dq) dq[d] = dy ? dot(of->after + d * of->E, dy, of->E) : 0;
        if (dy) add_times(C + d * of->E, q[d], dy, of->E);
        add_times(of->dv, k[d], C + d * of->E, of->E);
        add_times(of->du, b[d], C + d * of->E, of->E);
    }
}

/* dw, dk, da and db; C becomes the cotangent of the state before. */
static void back_state(const head *of, int64_t r, const float *before, float *C)
{
    const float *w = of_row(of, W, r), *a = of_row(of, A, r), *v = of_row(of, V, r);
    float *dw = gradient_row(of, DW, r), *dk = gradient_row(of, DK, r), *da = gradient_row(of, DA, r),
          *db = gradient_row(of, DB, r);
    for (int64_t d = 0; d < of->D; d++) {
        float *row = C + d * of->E;
        const float *S = before + d * of->E;
        if (dw) dw[d] = dot(row, S, of->E);
        if (dk) dk[d] = dot(row, v, of->E);
        if (da) da[d] = dot(S, of->du, of->E);
        if (db) db[d] = dot(row, of->u, of->E);
        set_times(row, w[d], row, of->E);
        add_times(row, a[d], of->du, of->E);
    }
}

static void back_row(void *user, int64_t r, const float *before, float *C)
{
    head *of = user;
    float *dv = of->call->out[DV].data;
    sum_removed(of, r, before);
    change_state(of, r, before, of->after);
    back_output(of, r, C);
    back_state(of, r, before, C);
    if (dv) memcpy(dv + (r * of->heads + of->number) * of->E, of->dv, (size_t)of->E * sizeof *dv);
}

/* ---- items ----------------------------------------------------------------------------------- */

static void load_part(const void *user, const float *from, int64_t slot, float *part)
{
    const head *of = user;
    memcpy(part, from + (slot * of->heads + of->number) * of->D * of->E, (size_t)(of->D * of->E) * sizeof *part);
}

static void store_part(const void *user, float *to, int64_t slot, const float *part)
{
    const head *of = user;
    memcpy(to + (slot * of->heads + of->number) * of->D * of->E, part, (size_t)(of->D * of->E) * sizeof *part);
}

static void wkv7_back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_type *state = &call->in[STATE].type;
    head of = {.call = call, .heads = state->dim[1], .D = state->dim[2], .E = state->dim[3], .u = local};
    const state_back back = {.from_to = state_rows_of(call, FROM, state->dim[0]),
                             .rows = call->in[Q].type.dim[0],
                             .slots = state->dim[0],
                             .size = of.D * of.E,
                             .user = &of,
                             .load = load_part,
                             .store = store_part,
                             .step = step_head,
                             .back = back_row};
    float *memory = (float *)local + own_floats(state);
    (void)phase;
    of.du = of.u + of.E;
    of.dv = of.du + of.E;
    of.after = of.dv + of.E;
    for (of.number = begin; of.number < end; of.number++)
        state_back_run(&back, call, call->in[STATE].data, call->in[DSTATE1].data, call->out[DSTATE].data, memory);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_wkv7_back)[] = {
    {.op = ZT_OP_wkv7_backward, .has = wkv7_back_has, .setup = wkv7_back_setup, .run = wkv7_back_run},
    {0},
};
