/* recurrent.c - kernels of recurrences over a whole sequence: rnn, lstm, gru.
 *
 * Phase 0 turns the weights, so that products go along the gates; phase 1 multiplies all of x, as
 * one product; phase 2 takes the steps, one block of sequences an item.
 */
#include "lib/engine/cpu/isa/recurrent.h"

enum { AUX_T, AUX_N, AUX_K, AUX_H, AUX_G };
enum { TURN = 16, PART_ROWS = 32, PART_COLUMNS = 128 };

static bool recurrent_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32;
}

/* Shared: w_ih turned [K,G], w_hh turned [H,G], then the gates' part of x [T*N,G]. */
static void recurrent_setup(zt_cpu_call *call)
{
    const zt_type *x = &call->in[0].type, *r = &call->in[2].type;
    int64_t T = x->dim[0], N = x->dim[1], K = x->dim[2], H = r->dim[1], G = r->dim[0];
    if (!H) T = N = K = 0; /* no units: nothing to do, however many steps */
    call->aux[AUX_T] = T;
    call->aux[AUX_N] = N;
    call->aux[AUX_K] = K;
    call->aux[AUX_H] = H;
    call->aux[AUX_G] = G;
    call->n_phases = 3;
    call->items[0] = (K + TURN - 1) / TURN + (H + TURN - 1) / TURN;
    call->items[1] = (T * N + PART_ROWS - 1) / PART_ROWS * ((G + PART_COLUMNS - 1) / PART_COLUMNS);
    call->items[2] = (N + ROWS - 1) / ROWS;
    call->shared_bytes = (size_t)((K + H + T * N) * G) * sizeof(float);
    call->local_bytes = (size_t)(ROWS * (2 * G + 3 * H)) * sizeof(float);
}

/* Columns first.. of w [G,n] become rows. */
static void turn(const float *w, float *to, int64_t G, int64_t n, int64_t first)
{
    int64_t last = first + TURN < n ? first + TURN : n;
    for (int64_t g = 0; g < G; g++)
        for (int64_t k = first; k < last; k++) to[k * G + g] = w[g * n + k];
}

static void turn_item(const zt_cpu_call *call, int64_t item)
{
    int64_t K = call->aux[AUX_K], H = call->aux[AUX_H], G = call->aux[AUX_G];
    int64_t of_x = (K + TURN - 1) / TURN;
    float *shared = call->shared;
    if (item < of_x)
        turn(call->in[1].data, shared, G, K, item * TURN);
    else
        turn(call->in[2].data, shared + K * G, G, H, (item - of_x) * TURN);
}

/* b + w_ih x of some rows and columns. */
static void gates_item(const zt_cpu_call *call, int64_t item)
{
    int64_t K = call->aux[AUX_K], G = call->aux[AUX_G], rows = call->aux[AUX_T] * call->aux[AUX_N];
    int64_t across = (G + PART_COLUMNS - 1) / PART_COLUMNS;
    int64_t row = item / across * PART_ROWS, column = item % across * PART_COLUMNS;
    int64_t n = rows - row < PART_ROWS ? rows - row : PART_ROWS;
    int64_t m = G - column < PART_COLUMNS ? G - column : PART_COLUMNS;
    const float *turned = call->shared, *b = call->in[3].data;
    float *gates = (float *)call->shared + (K + call->aux[AUX_H]) * G + row * G + column;
    for (int64_t i = 0; i < n; i++)
        if (b)
            memcpy(gates + i * G, b + column, (size_t)m * sizeof *b);
        else
            memset(gates + i * G, 0, (size_t)m * sizeof *b);
    product p = {.a = (const float *)call->in[0].data + row * K,
                 .b = turned + column,
                 .c = gates,
                 .down = K,
                 .right = 1,
                 .b_step = G,
                 .c_step = G,
                 .depth = K,
                 .columns = m};
    product_run(p, n);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The thread's scratch, ROWS rows each: g the gates, hid their hidden part (gru), h, c, q. */
typedef struct lane_rows {
    float *g, *hid, *h, *c, *q;
} lane_rows;

static lane_rows lane_rows_of(const zt_cpu_call *call, float *local)
{
    int64_t H = call->aux[AUX_H], G = call->aux[AUX_G];
    return (lane_rows){local, local + ROWS * G, local + 2 * ROWS * G, local + ROWS * (2 * G + H), local + ROWS * (2 * G + 2 * H)};
}

/* hid[q, from..from+n-1] += w_hh a[q] for the block's rows. */
static void add_hidden(const zt_cpu_call *call, const float *a, float *to, int64_t from, int64_t n, int rows)
{
    int64_t H = call->aux[AUX_H], G = call->aux[AUX_G];
    const float *turned = (const float *)call->shared + call->aux[AUX_K] * G;
    product p = {
        .a = a, .b = turned + from, .c = to + from, .down = H, .right = 1, .b_step = G, .c_step = G, .depth = H, .columns = n};
    product_run(p, rows);
}

INLINE void keep(float *saved, int64_t H, int64_t j, int n, int count, const vf *values)
{
    for (int i = 0; i < count && saved; i++) vf_store_n(saved + i * H + j, n, values[i]);
}

static void rnn_units(const zt_cpu_call *call, const lane_rows *l, int q, float *y, float *saved)
{
    const zt_rnn_attrs *rnn = call->attrs;
    int64_t H = call->aux[AUX_H];
    bool is_tanh = rnn->act.s[0] == 't';
    float *h = l->h + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf g = vf_load_n(l->g + q * H + j, n);
        vf v = is_tanh ? vf_tanh(g) : vf_max(g, vf_set(0));
        keep(saved, H, j, n, 2, (vf[]){v, vf_load_n(h + j, n)});
        vf_store_n(h + j, n, v);
        if (y) vf_store_n(y + j, n, v);
    }
}

static void lstm_units(const zt_cpu_call *call, const lane_rows *l, int q, float *y, float *saved)
{
    int64_t H = call->aux[AUX_H];
    const float *g = l->g + q * 4 * H, *p = call->in[6].data;
    float *h = l->h + q * H, *state = l->c + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf was = vf_load_n(state + j, n), gi = vf_load_n(g + j, n), gf = vf_load_n(g + H + j, n);
        vf go = vf_load_n(g + 3 * H + j, n);
        if (p) gi = vf_fma(vf_load_n(p + j, n), was, gi);
        if (p) gf = vf_fma(vf_load_n(p + H + j, n), was, gf);
        vf i = vf_sigmoid(gi), f = vf_sigmoid(gf), fresh = vf_tanh(vf_load_n(g + 2 * H + j, n));
        vf now = vf_fma(f, was, vf_mul(i, fresh));
        if (p) go = vf_fma(vf_load_n(p + 2 * H + j, n), now, go);
        vf o = vf_sigmoid(go), v = vf_mul(o, vf_tanh(now));
        keep(saved, H, j, n, 7, (vf[]){i, f, fresh, o, now, was, vf_load_n(h + j, n)});
        vf_store_n(state + j, n, now);
        vf_store_n(h + j, n, v);
        if (y) vf_store_n(y + j, n, v);
    }
}

/* r, z in place of the gates; q = r h, or what is multiplied by r. */
static void gru_gates(const zt_cpu_call *call, const lane_rows *l, int q, bool before)
{
    int64_t H = call->aux[AUX_H];
    float *g = l->g + q * 3 * H, *hid = l->hid + q * 3 * H;
    for (int64_t j = 0; j < 2 * H; j += LANES) {
        int n = lanes_left(2 * H, j);
        vf_store_n(g + j, n, vf_sigmoid(vf_add(vf_load_n(g + j, n), vf_load_n(hid + j, n))));
    }
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf rh = vf_mul(vf_load_n(g + j, n), vf_load_n(l->h + q * H + j, n));
        vf_store_n(l->q + q * H + j, n, before ? vf_load_n(hid + 2 * H + j, n) : rh);
    }
}

static void gru_units(const zt_cpu_call *call, const lane_rows *l, int q, float *y, float *saved)
{
    const zt_gru_attrs *gru = call->attrs;
    int64_t H = call->aux[AUX_H];
    const float *g = l->g + q * 3 * H, *hid = l->hid + q * 3 * H;
    float *h = l->h + q * H;
    for (int64_t j = 0; j < H; j += LANES) {
        int n = lanes_left(H, j);
        vf r = vf_load_n(g + j, n), z = vf_load_n(g + H + j, n), x = vf_load_n(g + 2 * H + j, n);
        vf u = vf_load_n(hid + 2 * H + j, n), was = vf_load_n(h + j, n);
        vf fresh = vf_tanh(gru->linear_before_reset ? vf_fma(r, u, x) : vf_add(x, u));
        vf v = vf_fma(z, vf_sub(was, fresh), fresh);
        keep(saved, H, j, n, 5, (vf[]){r, z, fresh, vf_load_n(l->q + q * H + j, n), was});
        vf_store_n(h + j, n, v);
        if (y) vf_store_n(y + j, n, v);
    }
}

static void gru_hidden(const zt_cpu_call *call, const lane_rows *l, int rows)
{
    const zt_gru_attrs *gru = call->attrs;
    int64_t H = call->aux[AUX_H], G = 3 * H;
    const float *b = call->in[4].data;
    bool before = gru->linear_before_reset;
    for (int q = 0; q < rows; q++)
        for (int64_t j = 0; j < G; j++) l->hid[q * G + j] = b ? b[j] : 0;
    add_hidden(call, l->h, l->hid, 0, before ? G : 2 * H, rows);
    for (int q = 0; q < rows; q++) gru_gates(call, l, q, before);
    if (!before) add_hidden(call, l->q, l->hid, 2 * H, H, rows);
}

typedef struct recurrence {
    int h0, c0, lengths, saved; /* inputs (below 0: none), and the output that is saved */
    void (*units)(const zt_cpu_call *c, const lane_rows *l, int q, float *y, float *saved);
} recurrence;

static recurrence recurrence_of(zt_op op)
{
    if (op == ZT_OP_rnn) return (recurrence){4, -1, 5, 2, rnn_units};
    if (op == ZT_OP_lstm) return (recurrence){4, 5, 7, 3, lstm_units};
    return (recurrence){5, -1, 6, 2, gru_units};
}

static void take_step(const zt_cpu_call *call, const recurrence *r, const sequences *s, const lane_rows *l, int64_t i)
{
    int64_t H = call->aux[AUX_H], K = call->aux[AUX_K], G = call->aux[AUX_G];
    const float *gates = (const float *)call->shared + (K + H) * G;
    const zt_cpu_arg *saved = &call->out[r->saved];
    int64_t S = saved->type.dim[2];
    for (int q = 0; q < s->n; q++)
        if (i < s->length[q]) memcpy(l->g + q * G, gates + sequences_row(s, q, i) * G, (size_t)G * sizeof *gates);
    if (r->units == gru_units)
        gru_hidden(call, l, s->n);
    else
        add_hidden(call, l->h, l->g, 0, G, s->n);
    for (int q = 0; q < s->n; q++) {
        if (i >= s->length[q]) continue;
        int64_t row = sequences_row(s, q, i);
        float *y = call->out[0].data;
        r->units(call, l, q, y ? y + row * H : NULL, saved->data ? (float *)saved->data + row * S : NULL);
    }
}

static void steps_item(zt_cpu_call *call, int64_t item, float *local)
{
    recurrence r = recurrence_of(call->kernel->op);
    int64_t reverse, H = call->aux[AUX_H];
    const zt_opinfo *info = zt_op_info(call->kernel->op);
    memcpy(&reverse, (const char *)call->attrs + info->attrs[info->n_attrs - 1].offset, sizeof reverse);
    sequences s = sequences_of(call, &call->in[r.lengths], call->aux[AUX_T], call->aux[AUX_N], H, reverse, item);
    lane_rows l = lane_rows_of(call, local);
    memset(l.g, 0, (size_t)(ROWS * call->aux[AUX_G]) * sizeof *l.g);
    for (int q = 0; q < s.n; q++) {
        sequences_state(&s, q, call->in[r.h0].data, l.h + q * H);
        if (r.c0 >= 0) sequences_state(&s, q, call->in[r.c0].data, l.c + q * H);
    }
    for (int64_t i = 0; i < s.longest; i++) take_step(call, &r, &s, &l, i);
    sequences_clear(&s, call->out[0].data, H);
    sequences_clear(&s, call->out[r.saved].data, call->out[r.saved].type.dim[2]);
    size_t bytes = (size_t)(s.n * H) * sizeof(float);
    if (call->out[1].data) memcpy((float *)call->out[1].data + s.first * H, l.h, bytes);
    if (r.c0 >= 0 && call->out[2].data) memcpy((float *)call->out[2].data + s.first * H, l.c, bytes);
}

static void recurrent_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    for (int64_t i = begin; i < end; i++) {
        if (phase == 0) turn_item(call, i);
        if (phase == 1) gates_item(call, i);
        if (phase == 2) steps_item(call, i, local);
    }
}

#define RECURRENCE(OP)                                                                                                           \
    {                                                                                                                            \
        .op = ZT_OP_##OP, .has = recurrent_has, .setup = recurrent_setup, .run = recurrent_run                                   \
    }
const zt_cpu_kernel ZT_SYM(zt_cpu_recurrent)[] = {
    RECURRENCE(rnn),
    RECURRENCE(lstm),
    RECURRENCE(gru),
    {0},
};
