/* recurrent_back.c - kernels of the gradients of recurrences.
 *
 * Phase 0 goes through the steps from the last to the first, one block of sequences an item, and
 * leaves dg; phase 1 multiplies dg with what w_hh was multiplied by, some rows of dw_hh an item;
 * phase 2 (lstm) sums up the gradient of peepholes.
 */
#include "lib/engine/cpu/isa/recurrent.h"

enum { AUX_T, AUX_N, AUX_H, AUX_G, AUX_S };

/* Where inputs and outputs of an op are; below 0: it has none such. */
typedef struct backward {
    int lengths, dy, dhn, dcn, dh0, dc0;
} backward;

static backward backward_of(zt_op op)
{
    if (op == ZT_OP_rnn_backward) return (backward){2, 3, 4, -1, 2, -1};
    if (op == ZT_OP_lstm_backward) return (backward){3, 4, 5, 6, 2, 3};
    return (backward){2, 3, 4, -1, 3, -1};
}

static bool back_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

static bool linear_before(const zt_cpu_call *call)
{
    return call->kernel->op == ZT_OP_gru_backward && ((const zt_gru_backward_attrs *)call->attrs)->linear_before_reset;
}

static int64_t gates_of(const zt_cpu_call *call)
{
    return call->kernel->op == ZT_OP_rnn_backward ? 1 : call->kernel->op == ZT_OP_lstm_backward ? 4 : 3;
}

/* Shared: of a gru that is linear before the reset, dg's part of n times r, [T*N,H]. */
static void back_setup(zt_cpu_call *call)
{
    const zt_type *saved = &call->in[0].type, *r = &call->in[1].type;
    int64_t T = saved->dim[0], N = saved->dim[1], H = r->dim[1];
    if (!H) T = N = 0; /* no units: nothing to do, however many steps */
    call->aux[AUX_T] = T;
    call->aux[AUX_N] = N;
    call->aux[AUX_H] = H;
    call->aux[AUX_G] = r->dim[0];
    call->aux[AUX_S] = saved->dim[2];
    call->n_phases = call->kernel->op == ZT_OP_lstm_backward ? 3 : 2;
    call->items[0] = (N + ROWS - 1) / ROWS;
    call->items[1] = gates_of(call) * ((H + ROWS - 1) / ROWS);
    call->items[2] = (H + LANES - 1) / LANES;
    call->shared_bytes = (size_t)(T * N * (H + r->dim[0])) * sizeof(float);
    call->local_bytes = (size_t)(ROWS * (r->dim[0] + 3 * H)) * sizeof(float);
}

/* dg where it is wanted, else in shared memory. */
static float *dg_of(const zt_cpu_call *call)
{
    if (call->out[0].data) return call->out[0].data;
    return (float *)call->shared + call->aux[AUX_T] * call->aux[AUX_N] * call->aux[AUX_H];
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The thread's scratch, ROWS rows each: g the gates' gradients, dh and dc of the states, q. */
typedef struct lane_rows {
    float *g, *dh, *dc, *q;
} lane_rows;

/* to[q] += a[q] w_hh, of rows first.. of w_hh. */
static void add_through(const zt_cpu_call *call, const float *a, int64_t first, int64_t n, float *to, int rows)
{
    int64_t H = call->aux[AUX_H];
    product p = {.a = a,
                 .b = (const float *)call->in[1].data + first * H,
                 .c = to,
                 .down = call->aux[AUX_G],
                 .right = 1,
                 .b_step = H,
                 .c_step = H,
                 .depth = n,
                 .columns = H};
    product_run(p, rows);
}

INLINE vf one_minus_square(vf x) { return vf_sub(vf_set(1), vf_mul(x, x)); }
INLINE vf times_one_minus(vf x) { return vf_mul(x, vf_sub(vf_set(1), x)); }

/* The gradient of h that a step begins with. */
INLINE vf dh_at(const float *dh, const float *dy, int64_t j, int n)
{
    vf d = vf_load_n(dh + j, n);
    return dy ? vf_add(d, vf_load_n(dy + j, n)) : d;
}

static void rnn_units(const zt_cpu_call *call, const lane_rows *l, int q, const float *saved, const float *dy)
{
    const zt_rnn_backward_attrs *rnn_backward = call->attrs;
    int64_t H = call->aux[AUX_H];
    float *g = l->g + q * H, *dh = l->dh + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf h = vf_load_n(saved + j, n), d = dh_at(dh, dy, j, n), zero = vf_set(0);
        vf on = vf_choose(vf_sub(zero, h), d, zero); /* -h has its sign set: h > 0 */
        vf_store_n(g + j, n, rnn_backward->act.s[0] == 't' ? vf_mul(d, one_minus_square(h)) : on);
        vf_store_n(dh + j, n, zero);
    }
}

static void lstm_units(const zt_cpu_call *call, const lane_rows *l, int q, const float *saved, const float *dy)
{
    int64_t H = call->aux[AUX_H];
    const float *p = call->in[2].data;
    float *g = l->g + q * 4 * H, *dh = l->dh + q * H, *dc = l->dc + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf v[6];
        for (int k = 0; k < 6; k++) v[k] = vf_load_n(saved + k * H + j, n);
        vf tc = vf_tanh(v[4]), d = dh_at(dh, dy, j, n);
        vf d_o = vf_mul(vf_mul(d, tc), times_one_minus(v[3]));
        vf d_c = vf_fma(vf_mul(d, v[3]), one_minus_square(tc), vf_load_n(dc + j, n));
        if (p) d_c = vf_fma(d_o, vf_load_n(p + 2 * H + j, n), d_c);
        vf d_i = vf_mul(vf_mul(d_c, v[2]), times_one_minus(v[0]));
        vf d_f = vf_mul(vf_mul(d_c, v[5]), times_one_minus(v[1]));
        vf before = vf_mul(d_c, v[1]);
        if (p) before = vf_fma(d_i, vf_load_n(p + j, n), before);
        if (p) before = vf_fma(d_f, vf_load_n(p + H + j, n), before);
        vf_store_n(g + j, n, d_i);
        vf_store_n(g + H + j, n, d_f);
        vf_store_n(g + 2 * H + j, n, vf_mul(vf_mul(d_c, v[0]), one_minus_square(v[2])));
        vf_store_n(g + 3 * H + j, n, d_o);
        vf_store_n(dc + j, n, before);
        vf_store_n(dh + j, n, vf_set(0));
    }
}

/* z and n of the gates; dh becomes what z passes on, q what the reset gate is given. */
static void gru_units(const zt_cpu_call *call, const lane_rows *l, int q, const float *saved, const float *dy)
{
    int64_t H = call->aux[AUX_H];
    float *g = l->g + q * 3 * H, *dh = l->dh + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf z = vf_load_n(saved + H + j, n), fresh = vf_load_n(saved + 2 * H + j, n);
        vf h = vf_load_n(saved + 4 * H + j, n), d = dh_at(dh, dy, j, n);
        vf dz = vf_mul(vf_mul(d, vf_sub(h, fresh)), times_one_minus(z));
        vf dn = vf_mul(vf_mul(d, vf_sub(vf_set(1), z)), one_minus_square(fresh));
        vf_store_n(g + H + j, n, dz);
        vf_store_n(g + 2 * H + j, n, dn);
        vf_store_n(dh + j, n, vf_mul(d, z));
    }
}

/* The reset gate. Linear before it: dn w_hh is multiplied by r first, kept in q for all rows; else
 * q has dn w_hh. */
static void gru_reset(const zt_cpu_call *call, const lane_rows *l, int q, const float *saved, float *hidden)
{
    int64_t H = call->aux[AUX_H];
    float *g = l->g + q * 3 * H, *dh = l->dh + q * H, *dq = l->q + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf r = vf_load_n(saved + j, n), dn = vf_load_n(g + 2 * H + j, n), dr;
        if (hidden) {
            dr = vf_mul(dn, vf_load_n(saved + 3 * H + j, n));
            vf_store_n(hidden + j, n, vf_mul(dn, r));
        } else {
            vf d = vf_load_n(dq + j, n);
            dr = vf_mul(d, vf_load_n(saved + 4 * H + j, n));
            vf_store_n(dh + j, n, vf_fma(d, r, vf_load_n(dh + j, n)));
        }
        vf_store_n(g + j, n, vf_mul(dr, times_one_minus(r)));
    }
}

/* After the units of all rows: dg's r, what is kept for dw_hh, and dh through w_hh. */
static void gru_hidden(const zt_cpu_call *call, const sequences *s, const lane_rows *l, int64_t i)
{
    int64_t H = call->aux[AUX_H], G = 3 * H;
    bool before = linear_before(call);
    memset(l->q, 0, (size_t)(ROWS * H) * sizeof(float));
    if (!before) add_through(call, l->g + 2 * H, 2 * H, H, l->q, s->n);
    for (int q = 0; q < s->n; q++) {
        if (i >= s->length[q]) continue;
        int64_t row = sequences_row(s, q, i);
        const float *saved = (const float *)call->in[0].data + row * call->aux[AUX_S];
        float *hidden = before ? (float *)call->shared + row * H : NULL;
        gru_reset(call, l, q, saved, hidden);
        memcpy(dg_of(call) + row * G, l->g + q * G, (size_t)G * sizeof(float));
        if (before) memcpy(l->g + q * G + 2 * H, hidden, (size_t)H * sizeof(float));
    }
    add_through(call, l->g, 0, before ? G : 2 * H, l->dh, s->n);
}

static void back_step(const zt_cpu_call *call, const backward *b, const sequences *s, const lane_rows *l, int64_t i)
{
    int64_t H = call->aux[AUX_H], G = call->aux[AUX_G];
    zt_op op = call->kernel->op;
    const float *dy = call->in[b->dy].data;
    for (int q = 0; q < s->n; q++) {
        if (i >= s->length[q]) continue;
        int64_t row = sequences_row(s, q, i);
        const float *saved = (const float *)call->in[0].data + row * call->aux[AUX_S];
        const float *d = dy ? dy + row * H : NULL;
        if (op == ZT_OP_rnn_backward) rnn_units(call, l, q, saved, d);
        if (op == ZT_OP_lstm_backward) lstm_units(call, l, q, saved, d);
        if (op == ZT_OP_gru_backward) gru_units(call, l, q, saved, d);
        if (op != ZT_OP_gru_backward) memcpy(dg_of(call) + row * G, l->g + q * G, (size_t)G * sizeof(float));
    }
    if (op == ZT_OP_gru_backward)
        gru_hidden(call, s, l, i);
    else
        add_through(call, l->g, 0, G, l->dh, s->n);
}

static void back_item(zt_cpu_call *call, int64_t item, float *local)
{
    backward b = backward_of(call->kernel->op);
    const zt_opinfo *info = zt_op_info(call->kernel->op);
    int64_t reverse, T = call->aux[AUX_T], N = call->aux[AUX_N], H = call->aux[AUX_H], G = call->aux[AUX_G];
    memcpy(&reverse, (const char *)call->attrs + info->attrs[info->n_attrs - 1].offset, sizeof reverse);
    sequences s = sequences_of(call, &call->in[b.lengths], T, N, H, reverse, item);
    lane_rows l = {local, local + ROWS * G, local + ROWS * (G + H), local + ROWS * (G + 2 * H)};
    memset(l.g, 0, (size_t)(ROWS * G) * sizeof(float));
    for (int q = 0; q < s.n; q++) {
        sequences_state(&s, q, call->in[b.dhn].data, l.dh + q * H);
        if (b.dcn >= 0) sequences_state(&s, q, call->in[b.dcn].data, l.dc + q * H);
    }
    for (int64_t i = s.longest; i-- > 0;) back_step(call, &b, &s, &l, i);
    sequences_clear(&s, dg_of(call), G);
    if (linear_before(call)) sequences_clear(&s, call->shared, H);
    size_t bytes = (size_t)(s.n * H) * sizeof(float);
    if (call->out[b.dh0].data) memcpy((float *)call->out[b.dh0].data + s.first * H, l.dh, bytes);
    if (b.dc0 >= 0 && call->out[b.dc0].data) memcpy((float *)call->out[b.dc0].data + s.first * H, l.dc, bytes);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Up to ROWS rows of dw_hh, within one gate; of gru also of db_hh. */
static void weights_item(const zt_cpu_call *call, int64_t item)
{
    int64_t H = call->aux[AUX_H], G = call->aux[AUX_G], S = call->aux[AUX_S];
    int64_t across = (H + ROWS - 1) / ROWS, gate = item / across, unit = item % across * ROWS;
    int64_t rows = H - unit < ROWS ? H - unit : ROWS, depth = call->aux[AUX_T] * call->aux[AUX_N];
    bool gru = call->kernel->op == ZT_OP_gru_backward, before = linear_before(call);
    bool other = gru && gate == 2;
    const float *saved = call->in[0].data;
    product p = {.a = dg_of(call) + gate * H + unit,
                 .down = 1,
                 .right = G,
                 .depth = depth,
                 .b = saved + (other && !before ? 3 * H : S - H),
                 .b_step = S,
                 .c_step = H,
                 .columns = H};
    if (other && before) {
        p.a = (const float *)call->shared + unit;
        p.right = H;
    }
    if (call->out[1].data) {
        p.c = (float *)call->out[1].data + (gate * H + unit) * H;
        memset(p.c, 0, (size_t)(rows * H) * sizeof(float));
        product_run(p, rows);
    }
    if (!gru || !call->out[2].data) return;
    float *db = (float *)call->out[2].data + gate * H + unit;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t m = 0; m < depth; m++) sum += (double)p.a[r + m * p.right];
        db[r] = (float)sum;
    }
}

/* LANES units of the peepholes' gradient. */
static void peepholes_item(const zt_cpu_call *call, int64_t item)
{
    int64_t H = call->aux[AUX_H], G = call->aux[AUX_G], S = call->aux[AUX_S], j = item * LANES;
    int64_t rows = call->aux[AUX_T] * call->aux[AUX_N];
    static const int gate[] = {0, 1, 3}, by[] = {5, 5, 4}; /* c before, c before, c */
    const float *dg = dg_of(call), *saved = call->in[0].data;
    float *dp = call->out[4].data;
    int n = lanes_left(H, j);
    for (int k = 0; k < 3 && dp; k++) {
        vf sum = vf_set(0);
        for (int64_t m = 0; m < rows; m++)
            sum = vf_fma(vf_load_n(dg + m * G + gate[k] * H + j, n), vf_load_n(saved + m * S + by[k] * H + j, n), sum);
        vf_store_n(dp + k * H + j, n, sum);
    }
}

static void back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0) back_item(call, i, local);
        if (phase == 1) weights_item(call, i);
        if (phase == 2) peepholes_item(call, i);
    }
}

#define BACKWARD(OP)                                                                                                             \
    {                                                                                                                            \
        .op = ZT_OP_##OP, .has = back_has, .setup = back_setup, .run = back_run                                                  \
    }
const zt_cpu_kernel ZT_SYM(zt_cpu_recurrent_back)[] = {
    BACKWARD(rnn_backward),
    BACKWARD(lstm_backward),
    BACKWARD(gru_backward),
    {0},
};
