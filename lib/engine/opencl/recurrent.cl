/* recurrent.cl - recurrences over sequences and their gradients: a work-group goes through a sequence, the state in local memory,
 * a work-item a unit. What does not depend on the step before (w_ih x, and the gradients of weights) are products of their own.
 * Letters and what `saved` holds: lib/ops/recurrent.h. */
#include "lib/engine/opencl/functions.clh"
#include "lib/engine/cuda/args_nn.h"

enum { RNN, LSTM, GRU };

FN float at(zt_cu_ptr p, int64_t i) { return p ? PTR(const float, p)[i] : 0; }
FN void set_at(zt_cu_ptr p, int64_t i, float v)
{
    if (p) PTR(float, p)[i] = v;
}

FN int64_t length_of(const zt_cu_recurrent_args *a, int64_t n)
{
    const int64_t length = a->lengths ? PTR(const int32_t, a->lengths)[n] : a->T;
    if (length >= 0 && length <= a->T) return length;
    if (thread() == 0) trouble(a->trouble, ZT_CU_LENGTH, n, length, a->T + 1);
    return 0;
}

FN int64_t row_of(const zt_cu_recurrent_args *a, int64_t n, int64_t length, int64_t i)
{
    return (a->reverse ? length - 1 - i : i) * a->N + n;
}

/* ---- forward ------------------------------------------------------------------------------------ */

/* Row `row` of w_hh times a state. */
FN float hidden(const zt_cu_recurrent_args *a, int64_t row, __local const float *h)
{
    float sum = 0;
    for (int64_t k = 0; k < a->H; k++) sum = fma(PTR(const float, a->r)[row * a->H + k], h[k], sum);
    return sum;
}

/* What comes in at gate g of unit j, from x and its bias. */
FN float input(const zt_cu_recurrent_args *a, int gates, int64_t row, int g, int64_t j)
{
    return PTR(const float, a->x)[row * gates * a->H + g * a->H + j] + at(a->b, g * a->H + j);
}

FN float step_rnn(const zt_cu_recurrent_args *a, int64_t row, int64_t j, __local const float *h)
{
    const float g = input(a, 1, row, 0, j) + hidden(a, j, h), y = a->other ? (g < 0 ? 0.0f : g) : tanh(g);
    if (a->saved) {
        set_at(a->saved, row * 2 * a->H + j, y);
        set_at(a->saved, row * 2 * a->H + a->H + j, h[j]);
    }
    return y;
}

FN float step_lstm(const zt_cu_recurrent_args *a, int64_t row, int64_t j, __local const float *h, __local float *c)
{
    float g[4];
    const float before = c[j];
    for (int i = 0; i < 4; i++) g[i] = input(a, 4, row, i, j) + hidden(a, i * a->H + j, h);
    for (int i = 0; i < 2 && a->peep; i++) g[i] += at(a->peep, i * a->H + j) * before;
    const float in = f_sigmoid_of(g[0]), forget = f_sigmoid_of(g[1]), fresh = tanh(g[2]), now = forget * before + in * fresh;
    const float out = f_sigmoid_of(a->peep ? g[3] + at(a->peep, 2 * a->H + j) * now : g[3]);
    const float keep[7] = {in, forget, fresh, out, now, before, h[j]};
    c[j] = now;
    for (int i = 0; i < 7 && a->saved; i++) set_at(a->saved, (row * 7 + i) * a->H + j, keep[i]);
    return out * tanh(now);
}

/* reset: of all units, and what they leave of h, made before where the product comes after. */
FN float step_gru(const zt_cu_recurrent_args *a, int64_t row, int64_t j, __local const float *h, __local const float *reset,
                  __local const float *left)
{
    const float r = reset[j];
    const float z = f_sigmoid_of(input(a, 3, row, 1, j) + (hidden(a, a->H + j, h) + at(a->rb, a->H + j)));
    const float after = hidden(a, 2 * a->H + j, a->other ? left : h) + at(a->rb, 2 * a->H + j), q = a->other ? left[j] : after;
    const float n = tanh(input(a, 3, row, 2, j) + (a->other ? after : r * after));
    const float keep[5] = {r, z, n, q, h[j]};
    for (int i = 0; i < 5 && a->saved; i++) set_at(a->saved, (row * 5 + i) * a->H + j, keep[i]);
    return (1 - z) * n + z * h[j];
}

/* Local: two states that take turns, c, reset gates and what they leave. */
FN void recur(int kind, const zt_cu_recurrent_args *a, __local float *room)
{
    const int64_t n = block(), H = a->H, length = length_of(a, n);
    __local float *h = room, *next = room + H, *c = room + 2 * H, *reset = room + 3 * H, *left = room + 4 * H;
    for (int64_t j = thread(); j < H; j += threads()) {
        h[j] = a->h0 ? at(a->h0, n * H + j) : 0;
        c[j] = a->c0 ? at(a->c0, n * H + j) : 0;
    }
    meet();
    for (int64_t i = 0; i < length; i++) {
        const int64_t row = row_of(a, n, length, i);
        for (int64_t j = thread(); kind == GRU && j < H; j += threads()) {
            reset[j] = f_sigmoid_of(input(a, 3, row, 0, j) + (hidden(a, j, h) + at(a->rb, j)));
            left[j] = reset[j] * h[j];
        }
        meet();
        for (int64_t j = thread(); j < H; j += threads()) {
            const float y = kind == RNN    ? step_rnn(a, row, j, h)
                            : kind == LSTM ? step_lstm(a, row, j, h, c)
                                           : step_gru(a, row, j, h, reset, left);
            next[j] = y;
            PTR(float, a->y)[row * H + j] = y;
        }
        meet();
        __local float *was = h;
        h = next;
        next = was;
    }
    for (int64_t j = thread(); j < H; j += threads()) {
        if (a->hn) set_at(a->hn, n * H + j, h[j]);
        if (a->cn) set_at(a->cn, n * H + j, c[j]);
    }
}

KERNEL(zt_rnn, zt_cu_recurrent_args) { recur(RNN, &a, (__local float *)dynamic); }
KERNEL(zt_lstm, zt_cu_recurrent_args) { recur(LSTM, &a, (__local float *)dynamic); }
KERNEL(zt_gru, zt_cu_recurrent_args) { recur(GRU, &a, (__local float *)dynamic); }

/* ---- gradient ----------------------------------------------------------------------------------- */

/* What comes to unit i of h through rows from..to-1 of w_hh. */
FN float through(const zt_cu_recurrent_args *a, __local const float *dg, int64_t from, int64_t to, int64_t i)
{
    float sum = 0;
    for (int64_t row = from; row < to; row++) sum = fma(dg[row], PTR(const float, a->r)[row * a->H + i], sum);
    return sum;
}

/* The room of a work-group: dg of the step after and of this one (gru's third gate as w_hh has it), what is handed on, and gru's
 * reset gates of the step after. */
typedef struct back {
    __local float *later, *now, *hand, *reset;
    int64_t row, n;
    bool last; /* no step comes after */
} back;

/* The gradient of h of unit j, as far as it is known before the step. */
FN float back_h(int kind, const zt_cu_recurrent_args *a, const back *b, int64_t j)
{
    const int64_t H = a->H;
    if (kind != GRU)
        return b->last ? at(a->dhn, a->dhn ? b->n * H + j : 0) : through(a, b->later, 0, kind == RNN ? H : 4 * H, j);
    if (b->last) return b->hand[j];
    const float third = through(a, b->later, 2 * H, 3 * H, j);
    return b->hand[j] + through(a, b->later, 0, 2 * H, j) + (a->other ? b->reset[j] * third : third);
}

FN float saved_of(const zt_cu_recurrent_args *a, const back *b, int of, int which, int64_t j)
{
    return PTR(const float, a->saved)[(b->row * of + which) * a->H + j];
}

FN void back_rnn(const zt_cu_recurrent_args *a, const back *b, int64_t j, float dh)
{
    const float h = saved_of(a, b, 2, 0, j);
    b->now[j] = a->other ? (h > 0 ? dh : 0) : dh * (1 - h * h);
    PTR(float, a->dg)[b->row * a->H + j] = b->now[j];
}

FN void back_lstm(const zt_cu_recurrent_args *a, const back *b, int64_t j, float dh)
{
    const int64_t H = a->H;
    const float i = saved_of(a, b, 7, 0, j), f = saved_of(a, b, 7, 1, j), g = saved_of(a, b, 7, 2, j);
    const float o = saved_of(a, b, 7, 3, j), tc = tanh(saved_of(a, b, 7, 4, j));
    const float before = saved_of(a, b, 7, 5, j), d_o = dh * tc * o * (1 - o);
    float dc = b->hand[j] + dh * o * (1 - tc * tc);
    if (a->peep) dc += d_o * at(a->peep, 2 * H + j);
    const float d[4] = {dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), d_o};
    for (int q = 0; q < 4; q++) {
        b->now[q * H + j] = d[q];
        PTR(float, a->dg)[b->row * 4 * H + q * H + j] = d[q];
    }
    b->hand[j] = dc * f;
    if (a->peep) b->hand[j] += d[0] * at(a->peep, j) + d[1] * at(a->peep, H + j);
}

FN void back_gru(const zt_cu_recurrent_args *a, const back *b, int64_t j, float dh)
{
    const float z = saved_of(a, b, 5, 1, j), n = saved_of(a, b, 5, 2, j), h = saved_of(a, b, 5, 4, j);
    b->now[a->H + j] = dh * (h - n) * z * (1 - z);
    b->now[2 * a->H + j] = dh * (1 - z) * (1 - n * n);
    b->hand[j] = dh * z;
}

/* The reset gates, when all units of the third gate are there; then that is kept as w_hh has it. */
FN void back_resets(const zt_cu_recurrent_args *a, const back *b)
{
    const int64_t H = a->H;
    meet();
    for (int64_t j = thread(); j < H; j += threads()) {
        const float r = saved_of(a, b, 5, 0, j), third = b->now[2 * H + j];
        const float dr =
            a->other ? through(a, b->now, 2 * H, 3 * H, j) * saved_of(a, b, 5, 4, j) : third * saved_of(a, b, 5, 3, j);
        b->now[j] = dr * r * (1 - r);
        b->reset[j] = r;
        for (int g = 0; g < 3; g++) PTR(float, a->dg)[b->row * 3 * H + g * H + j] = b->now[g * H + j];
    }
    meet();
    for (int64_t j = thread(); !a->other && j < H; j += threads()) {
        b->now[2 * H + j] *= b->reset[j];
        PTR(float, a->third)[b->row * H + j] = b->now[2 * H + j];
    }
}

FN void recur_back(int kind, const zt_cu_recurrent_args *a, __local float *room)
{
    const int G = kind == RNN ? 1 : kind == LSTM ? 4 : 3;
    const int64_t H = a->H, length = length_of(a, block());
    back b = {room, room + G * H, room + 2 * G * H, room + (2 * G + 1) * H, 0, block(), true};
    const zt_cu_ptr handed = kind == LSTM ? a->dcn : a->dhn;
    for (int64_t j = thread(); j < H; j += threads()) b.hand[j] = handed ? at(handed, b.n * H + j) : 0;
    for (int64_t i = length - 1; i >= 0; i--) {
        b.row = row_of(a, b.n, length, i);
        meet();
        for (int64_t j = thread(); j < H; j += threads()) {
            const float dh = back_h(kind, a, &b, j) + (a->dy ? at(a->dy, b.row * H + j) : 0);
            if (kind == RNN) back_rnn(a, &b, j, dh);
            if (kind == LSTM) back_lstm(a, &b, j, dh);
            if (kind == GRU) back_gru(a, &b, j, dh);
        }
        if (kind == GRU) back_resets(a, &b);
        __local float *was = b.later;
        b.later = b.now;
        b.now = was;
        b.last = false;
    }
    meet();
    for (int64_t j = thread(); j < H; j += threads()) {
        if (a->dh0) set_at(a->dh0, b.n * H + j, back_h(kind, a, &b, j));
        if (kind == LSTM && a->dc0) set_at(a->dc0, b.n * H + j, b.hand[j]);
    }
}

KERNEL(zt_rnn_back, zt_cu_recurrent_args) { recur_back(RNN, &a, (__local float *)dynamic); }
KERNEL(zt_lstm_back, zt_cu_recurrent_args) { recur_back(LSTM, &a, (__local float *)dynamic); }
KERNEL(zt_gru_back, zt_cu_recurrent_args) { recur_back(GRU, &a, (__local float *)dynamic); }

/* y[j] = the sum over rows of a[row,j] b[row,j], or of a alone. */
KERNEL(zt_columns, zt_cu_columns_args)
{
    EACH_OF(j, a.columns)
    {
        float sum = 0;
        for (int64_t r = 0; r < a.rows; r++) {
            const float v = PTR(const float, a.a)[r * a.a_step + j];
            sum = a.b ? fma(v, PTR(const float, a.b)[r * a.b_step + j], sum) : sum + v;
        }
        PTR(float, a.y)[j] = sum;
    }
}
