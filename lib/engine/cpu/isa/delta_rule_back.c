/* delta_rule_back.c - kernel of the gradient of the gated delta rule (lib/ops/delta_rule_back.c has the formulas). An item
 * is a key head: the heads that share it, one after the other, add to the gradients of its keys and queries.
 *
 *   local   k, q, dk and dq f32[D]; u, w and dv f32[E]; T f32[D,E]; the memory of state_back.h for a head's state
 */
#include "lib/engine/cpu/isa/state_back.h"

enum { STATE, Q, K, V, G, BETA, FROM, TO, DSTATE1, DY }; /* inputs */
enum { DSTATE, DQ, DK, DV, DG, DBETA };                  /* outputs */

static bool delta_rule_back_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32;
}

typedef struct head {
    const zt_cpu_call *call;
    int64_t heads, key_heads, D, E, number, key_head;
    float eps, scale;
    float *k, *q, *dk, *dq; /* local: k and q divided by their lengths, q times scale */
    float *u, *w, *dv, *T;  /* local */
    float key, query;       /* what k and q are multiplied by */
} head;

static size_t own_floats(const zt_type *state)
{
    return (size_t)(4 * state->dim[2] + 3 * state->dim[3] + state->dim[2] * state->dim[3]);
}

static void delta_rule_back_setup(zt_cpu_call *call)
{
    const zt_type *state = &call->in[STATE].type;
    int64_t size = state->dim[2] * state->dim[3];
    call->items[0] = call->in[Q].type.dim[1] / state->dim[2];
    call->local_bytes = (own_floats(state) + state_back_floats(call->in[Q].type.dim[0], state->dim[0], size)) * sizeof(float);
}

/* ---- rows of a matrix, vectors ---------------------------------------------------------------- */

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

static const float *key_of(const head *of, int which, int64_t r)
{
    return (const float *)of->call->in[which].data + (r * of->key_heads + of->key_head) * of->D;
}

static float of_head(const head *of, int which, int64_t r)
{
    return ((const float *)of->call->in[which].data)[r * of->heads + of->number];
}

static void normalize_key(head *of, int64_t r)
{
    const float *k = key_of(of, K, r);
    of->key = 1 / sqrtf(dot(k, k, of->D) + of->eps);
    set_times(of->k, of->key, k, of->D);
}

/* T = decay `state`; u = v - T^T k */
static void decay_state(const head *of, int64_t r, float decay, const float *state, float *T)
{
    memcpy(of->u, (const float *)of->call->in[V].data + (r * of->heads + of->number) * of->E, (size_t)of->E * sizeof *of->u);
    for (int64_t d = 0; d < of->D; d++) {
        set_times(T + d * of->E, decay, state + d * of->E, of->E);
        add_times(of->u, -of->k[d], T + d * of->E, of->E);
    }
}

static float decay_of(const head *of, int64_t r) { return expf(of_head(of, G, r)); }

static void step_head(void *user, int64_t r, float *state)
{
    head *of = user;
    normalize_key(of, r);
    decay_state(of, r, decay_of(of, r), state, state);
    float beta = of_head(of, BETA, r);
    for (int64_t d = 0; d < of->D; d++) add_times(state + d * of->E, beta * of->k[d], of->u, of->E);
}

/* Adds to dx the gradient of x divided by its length, times `scale`. */
static void add_through_length(const head *of, int output, int which, int64_t r, const float *d, float inverse, float scale)
{
    const float *x = key_of(of, which, r);
    float *dx = of->call->out[output].data;
    if (!dx) return;
    dx += (r * of->key_heads + of->key_head) * of->D;
    add_times(dx, scale * inverse, d, of->D);
    add_times(dx, -scale * inverse * inverse * inverse * dot(x, d, of->D), x, of->D);
}

/* dq and dv, and the cotangent C with the row's q dy^T. */
static void back_output(const head *of, const float *dy, float beta, float *C)
{
    memset(of->dq, 0, (size_t)of->D * sizeof *of->dq);
    memset(of->dv, 0, (size_t)of->E * sizeof *of->dv);
    set_times(of->w, beta, of->u, of->E);
    float along = dy ? dot(of->w, dy, of->E) : 0;
    for (int64_t d = 0; d < of->D; d++) {
        if (dy) {
            of->dq[d] = dot(of->T + d * of->E, dy, of->E) + of->k[d] * along;
            add_times(C + d * of->E, of->q[d], dy, of->E);
        }
        add_times(of->dv, of->k[d], C + d * of->E, of->E);
    }
}

/* Of C: what of it goes through T, dk and dg. dv is C^T k before, beta times that after. */
static float back_state(const head *of, float beta, float decay, float *C)
{
    float dg = 0;
    set_times(of->dv, beta, of->dv, of->E);
    for (int64_t d = 0; d < of->D; d++) {
        float *row = C + d * of->E;
        const float *T = of->T + d * of->E;
        of->dk[d] = dot(row, of->w, of->E) - dot(T, of->dv, of->E);
        add_times(row, -of->k[d], of->dv, of->E);
        dg += dot(row, T, of->E);
        set_times(row, decay, row, of->E);
    }
    return dg;
}

static void back_row(void *user, int64_t r, const float *before, float *C)
{
    head *of = user;
    const zt_cpu_call *call = of->call;
    int64_t at = r * of->heads + of->number;
    const float *q = key_of(of, Q, r), *dy = call->in[DY].data ? (const float *)call->in[DY].data + at * of->E : NULL;
    float decay = decay_of(of, r), beta = of_head(of, BETA, r);
    normalize_key(of, r);
    of->query = 1 / sqrtf(dot(q, q, of->D) + of->eps);
    set_times(of->q, of->query * of->scale, q, of->D);
    decay_state(of, r, decay, before, of->T);
    back_output(of, dy, beta, C);
    if (call->out[DBETA].data) ((float *)call->out[DBETA].data)[at] = dot(of->dv, of->u, of->E);
    float dg = back_state(of, beta, decay, C);
    if (call->out[DG].data) ((float *)call->out[DG].data)[at] = dg;
    if (call->out[DV].data) memcpy((float *)call->out[DV].data + at * of->E, of->dv, (size_t)of->E * sizeof *of->dv);
    add_through_length(of, DQ, Q, r, of->dq, of->query, of->scale);
    add_through_length(of, DK, K, r, of->dk, of->key, 1);
}

/* ---- items ----------------------------------------------------------------------------------- */

static void load_part(const void *user, const float *from, int64_t slot, float *part)
{
    const head *of = user;
    int64_t size = of->D * of->E;
    memcpy(part, from + (slot * of->heads + of->number) * size, (size_t)size * sizeof *part);
}

static void store_part(const void *user, float *to, int64_t slot, const float *part)
{
    const head *of = user;
    int64_t size = of->D * of->E;
    memcpy(to + (slot * of->heads + of->number) * size, part, (size_t)size * sizeof *part);
}

static head head_of(const zt_cpu_call *call, float *local)
{
    const zt_delta_rule_backward_attrs *attrs = call->attrs;
    const zt_type *state = &call->in[STATE].type;
    head of = {.call = call, .heads = state->dim[1], .D = state->dim[2], .E = state->dim[3], .eps = (float)attrs->eps};
    of.key_heads = call->in[Q].type.dim[1] / of.D;
    of.scale = (float)(attrs->scale > 0 ? attrs->scale : 1 / sqrt((double)of.D));
    of.k = local;
    of.q = of.k + of.D;
    of.dk = of.q + of.D;
    of.dq = of.dk + of.D;
    of.u = of.dq + of.D;
    of.w = of.u + of.E;
    of.dv = of.w + of.E;
    of.T = of.dv + of.E;
    return of;
}

/* Rows of the key head in dq or dk become zeros. */
static void clear_keys(const head *of, int output)
{
    float *dx = of->call->out[output].data;
    for (int64_t r = 0; dx && r < of->call->in[Q].type.dim[0]; r++)
        memset(dx + (r * of->key_heads + of->key_head) * of->D, 0, (size_t)of->D * sizeof *dx);
}

static void delta_rule_back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_delta_rule_backward_attrs *attrs = call->attrs;
    head of = head_of(call, local);
    const state_back back = {.from_to = state_rows_of(call, FROM, call->in[STATE].type.dim[0]),
                             .rows = call->in[Q].type.dim[0],
                             .slots = call->in[STATE].type.dim[0],
                             .size = of.D * of.E,
                             .user = &of,
                             .load = load_part,
                             .store = store_part,
                             .step = step_head,
                             .back = back_row};
    float *memory = (float *)local + own_floats(&call->in[STATE].type);
    (void)phase;
    for (of.key_head = begin; of.key_head < end; of.key_head++) {
        int64_t ratio = of.heads / of.key_heads;
        bool tiled = attrs->share.s[0] == 't';
        clear_keys(&of, DQ);
        clear_keys(&of, DK);
        for (int64_t i = 0; i < ratio; i++) {
            of.number = tiled ? i * of.key_heads + of.key_head : of.key_head * ratio + i;
            state_back_run(&back, call, call->in[STATE].data, call->in[DSTATE1].data, call->out[DSTATE].data, memory);
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_delta_rule_back)[] = {
    {.op = ZT_OP_delta_rule_backward, .has = delta_rule_back_has, .setup = delta_rule_back_setup, .run = delta_rule_back_run},
    {0},
};
