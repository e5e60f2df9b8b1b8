/* recurrent.cu - recurrences over sequences and their gradients: a block goes through a sequence, the
 * state in shared memory. What does not depend on the step before (w_ih x, and the gradients of
 * weights) are products of their own. Letters and what `saved` holds: lib/ops/recurrent.h.
 */
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/functions.h"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { RNN, LSTM, GRU };

FN float at(zt_cu_ptr p, int64_t i) { return p ? PTR(const float, p)[i] : 0; }
FN void set_at(zt_cu_ptr p, int64_t i, float v)
{
    if (p) PTR(float, p)[i] = v;
}

FN int64_t length_of(const zt_cu_recurrent_args &a, int64_t n)
{
    int64_t length = a.lengths ? PTR(const int32_t, a.lengths)[n] : a.T;
    if (length >= 0 && length <= a.T) return length;
    if (thread() == 0) trouble(PTR(zt_cu_runtime_error, a.trouble), ZT_CU_LENGTH, n, length, a.T + 1);
    return 0;
}

FN int64_t row_of(const zt_cu_recurrent_args &a, int64_t n, int64_t length, int64_t i)
{
    return (a.reverse ? length - 1 - i : i) * a.N + n;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Row `row` of w_hh times a state; every lane gets it. */
FN float hidden(const zt_cu_recurrent_args &a, int64_t row, const float *h)
{
    float sum = 0;
    for (int64_t k = lane(); k < a.H; k += 32)
        sum = fmaf(PTR(const float, a.r)[row * a.H + k], h[k], sum);
    return warp_sum(sum);
}

/* What comes in at gate g of unit j, from x and its bias. */
FN float input(const zt_cu_recurrent_args &a, int gates, int64_t row, int g, int64_t j)
{
    return PTR(const float, a.x)[row * gates * a.H + g * a.H + j] + at(a.b, g * a.H + j);
}

FN float step_rnn(const zt_cu_recurrent_args &a, int64_t row, int64_t j, const float *h)
{
    float g = hidden(a, j, h), y;
    g = input(a, 1, row, 0, j) + g;
    y = a.other ? f_relu(g) : f_tanh(g);
    if (lane() != 0) return y;
    set_at(a.saved, a.saved ? row * 2 * a.H + j : 0, y);
    set_at(a.saved, a.saved ? row * 2 * a.H + a.H + j : 0, h[j]);
    return y;
}

FN float step_lstm(const zt_cu_recurrent_args &a, int64_t row, int64_t j, const float *h, float *c)
{
    float g[4], before = c[j];
    for (int i = 0; i < 4; i++) g[i] = input(a, 4, row, i, j) + hidden(a, i * a.H + j, h);
    for (int i = 0; i < 2 && a.peep; i++) g[i] += at(a.peep, i * a.H + j) * before;
    float in = f_sigmoid(g[0]), forget = f_sigmoid(g[1]), fresh = f_tanh(g[2]);
    float now = forget * before + in * fresh;
    float out = f_sigmoid(a.peep ? g[3] + at(a.peep, 2 * a.H + j) * now : g[3]);
    const float keep[7] = {in, forget, fresh, out, now, before, h[j]};
    warp_barrier(); /* all lanes have read c */
    if (lane() == 0) {
        c[j] = now;
        for (int i = 0; i < 7 && a.saved; i++) set_at(a.saved, (row * 7 + i) * a.H + j, keep[i]);
    }
    return out * f_tanh(now);
}

/* reset: of all units, and what they leave of h, made before where the product comes after. */
FN float step_gru(const zt_cu_recurrent_args &a, int64_t row, int64_t j, const float *h,
                  const float *reset, const float *left)
{
    float r = reset[j], z = hidden(a, a.H + j, h) + at(a.rb, a.H + j);
    z = f_sigmoid(input(a, 3, row, 1, j) + z);
    float after = hidden(a, 2 * a.H + j, a.other ? left : h) + at(a.rb, 2 * a.H + j);
    float q = a.other ? left[j] : after;
    float n = f_tanh(input(a, 3, row, 2, j) + (a.other ? after : r * after));
    const float keep[5] = {r, z, n, q, h[j]};
    if (lane() == 0)
        for (int i = 0; i < 5 && a.saved; i++) set_at(a.saved, (row * 5 + i) * a.H + j, keep[i]);
    return (1 - z) * n + z * h[j];
}

/* Reset gates of all units. */
FN void resets(const zt_cu_recurrent_args &a, int64_t row, const float *h, float *reset,
               float *left)
{
    for (int64_t j = warp(); j < a.H; j += WARPS) {
        float r = hidden(a, j, h) + at(a.rb, j);
        r = f_sigmoid(input(a, 3, row, 0, j) + r);
        if (lane() == 0) reset[j] = r, left[j] = r * h[j];
    }
    barrier();
}

/* Shared: two states that take turns, c, reset gates and what they leave. */
template <int KIND> FN void recur(const zt_cu_recurrent_args &a, float *room)
{
    int64_t n = block(), H = a.H, length = length_of(a, n);
    float *h = room, *next = room + H, *c = room + 2 * H, *reset = room + 3 * H,
          *left = room + 4 * H;
    for (int64_t j = thread(); j < H; j += THREADS) {
        h[j] = a.h0 ? at(a.h0, n * H + j) : 0;
        c[j] = a.c0 ? at(a.c0, n * H + j) : 0;
    }
    for (int64_t i = 0; i < length; i++) {
        int64_t row = row_of(a, n, length, i);
        barrier();
        if (KIND == GRU) resets(a, row, h, reset, left);
        for (int64_t j = warp(); j < H; j += WARPS) {
            float y = KIND == RNN    ? step_rnn(a, row, j, h)
                      : KIND == LSTM ? step_lstm(a, row, j, h, c)
                                     : step_gru(a, row, j, h, reset, left);
            if (lane() != 0) continue;
            next[j] = y;
            PTR(float, a.y)[row * H + j] = y;
        }
        float *was = h;
        h = next;
        next = was;
    }
    barrier();
    for (int64_t j = thread(); j < H; j += THREADS) {
        if (a.hn) set_at(a.hn, n * H + j, h[j]);
        if (a.cn) set_at(a.cn, n * H + j, c[j]);
    }
}

#define WALK(name, kind)                                                                           \
    KERNEL_OF(name, zt_cu_recurrent_args, THREADS)                                                 \
    {                                                                                              \
        DYNAMIC_SHARED(float, room);                                                               \
        recur<kind>(a, room);                                                                       \
    }
WALK(zt_rnn, RNN)
WALK(zt_lstm, LSTM)
WALK(zt_gru, GRU)

/* ---- gradient -------------------------------------------------------------------------------- */

/* What comes to unit i of h through rows first..last-1 of w_hh. */
FN float through(const zt_cu_recurrent_args &a, const float *dg, int64_t first, int64_t last,
                 int64_t i)
{
    float sum = 0;
    for (int64_t row = first; row < last; row++)
        sum = fmaf(dg[row], PTR(const float, a.r)[row * a.H + i], sum);
    return sum;
}

/* The room of a block: dg of the step after and of this one (gru's third gate as w_hh has it), what
 * is handed on, and gru's reset gates of the step after. */
typedef struct back {
    float *later, *now, *hand, *reset;
    int64_t row, n;
    bool last; /* no step comes after */
} back;

/* The gradient of h of unit j, as far as it is known before the step. */
template <int KIND> FN float back_h(const zt_cu_recurrent_args &a, const back &b, int64_t j)
{
    const int64_t H = a.H;
    if (KIND == RNN)
        return b.last ? at(a.dhn, a.dhn ? b.n * H + j : 0) : through(a, b.later, 0, H, j);
    if (KIND == LSTM)
        return b.last ? at(a.dhn, a.dhn ? b.n * H + j : 0) : through(a, b.later, 0, 4 * H, j);
    if (b.last) return b.hand[j];
    float third = through(a, b.later, 2 * H, 3 * H, j);
    return b.hand[j] + through(a, b.later, 0, 2 * H, j) + (a.other ? b.reset[j] * third : third);
}

FN float saved_of(const zt_cu_recurrent_args &a, const back &b, int of, int which, int64_t j)
{
    return PTR(const float, a.saved)[(b.row * of + which) * a.H + j];
}

FN void back_rnn(const zt_cu_recurrent_args &a, const back &b, int64_t j, float dh)
{
    float h = saved_of(a, b, 2, 0, j);
    b.now[j] = a.other ? (h > 0 ? dh : 0) : dh * (1 - h * h);
    PTR(float, a.dg)[b.row * a.H + j] = b.now[j];
}

FN void back_lstm(const zt_cu_recurrent_args &a, const back &b, int64_t j, float dh)
{
    int64_t H = a.H;
    float i = saved_of(a, b, 7, 0, j), f = saved_of(a, b, 7, 1, j), g = saved_of(a, b, 7, 2, j);
    float o = saved_of(a, b, 7, 3, j), tc = f_tanh(saved_of(a, b, 7, 4, j));
    float before = saved_of(a, b, 7, 5, j), d_o = dh * tc * o * (1 - o);
    float dc = b.hand[j] + dh * o * (1 - tc * tc);
    if (a.peep) dc += d_o * at(a.peep, 2 * H + j);
    const float d[4] = {dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), d_o};
    for (int q = 0; q < 4; q++) {
        b.now[q * H + j] = d[q];
        PTR(float, a.dg)[b.row * 4 * H + q * H + j] = d[q];
    }
    b.hand[j] = dc * f;
    if (a.peep) b.hand[j] += d[0] * at(a.peep, j) + d[1] * at(a.peep, H + j);
}

FN void back_gru(const zt_cu_recurrent_args &a, const back &b, int64_t j, float dh)
{
    float z = saved_of(a, b, 5, 1, j), n = saved_of(a, b, 5, 2, j), h = saved_of(a, b, 5, 4, j);
    b.now[a.H + j] = dh * (h - n) * z * (1 - z);
    b.now[2 * a.H + j] = dh * (1 - z) * (1 - n * n);
    b.hand[j] = dh * z;
}

/* The reset gates, when all units of the third gate are there; then that is kept as w_hh has it. */
FN void back_resets(const zt_cu_recurrent_args &a, const back &b)
{
    int64_t H = a.H;
    barrier();
    for (int64_t j = thread(); j < H; j += THREADS) {
        float r = saved_of(a, b, 5, 0, j), third = b.now[2 * H + j];
        float dr = a.other ? through(a, b.now, 2 * H, 3 * H, j) * saved_of(a, b, 5, 4, j)
                           : third * saved_of(a, b, 5, 3, j);
        b.now[j] = dr * r * (1 - r);
        b.reset[j] = r;
        for (int g = 0; g < 3; g++) PTR(float, a.dg)[b.row * 3 * H + g * H + j] = b.now[g * H + j];
    }
    barrier();
    for (int64_t j = thread(); !a.other && j < H; j += THREADS) {
        b.now[2 * H + j] *= b.reset[j];
        PTR(float, a.third)[b.row * H + j] = b.now[2 * H + j];
    }
}

template <int KIND> FN void recur_back(const zt_cu_recurrent_args &a, float *room)
{
    const int G = KIND == RNN ? 1 : KIND == LSTM ? 4 : 3;
    int64_t H = a.H, length = length_of(a, block());
    back b = {room, room + G * H, room + 2 * G * H, room + (2 * G + 1) * H, 0, block(), true};
    zt_cu_ptr first = KIND == LSTM ? a.dcn : a.dhn;
    for (int64_t j = thread(); j < H; j += THREADS) b.hand[j] = first ? at(first, b.n * H + j) : 0;
    for (int64_t i = length; i-- > 0;) {
        b.row = row_of(a, b.n, length, i);
        barrier();
        for (int64_t j = thread(); j < H; j += THREADS) {
            float dh = back_h<KIND>(a, b, j) + (a.dy ? at(a.dy, b.row * H + j) : 0);
            if (KIND == RNN) back_rnn(a, b, j, dh);
            if (KIND == LSTM) back_lstm(a, b, j, dh);
            if (KIND == GRU) back_gru(a, b, j, dh);
        }
        if (KIND == GRU) back_resets(a, b);
        float *was = b.later;
        b.later = b.now;
        b.now = was;
        b.last = false;
    }
    barrier();
    for (int64_t j = thread(); j < H; j += THREADS) {
        if (a.dh0) set_at(a.dh0, b.n * H + j, back_h<KIND>(a, b, j));
        if (KIND == LSTM && a.dc0) set_at(a.dc0, b.n * H + j, b.hand[j]);
    }
}

#define BACK(name, kind)                                                                           \
    KERNEL_OF(name, zt_cu_recurrent_args, THREADS)                                                 \
    {                                                                                              \
        DYNAMIC_SHARED(float, room);                                                               \
        recur_back<kind>(a, room);                                                                  \
    }
BACK(zt_rnn_back, RNN)
BACK(zt_lstm_back, LSTM)
BACK(zt_gru_back, GRU)

/* y[j] = the sum over rows of a[row,j] b[row,j], or of a alone. */
KERNEL(zt_columns, zt_cu_columns_args)
{
    int64_t j = first();
    float sum = 0;
    for (int64_t r = 0; j < a.columns && r < a.rows; r++) {
        float v = PTR(const float, a.a)[r * a.a_step + j];
        sum = a.b ? fmaf(v, PTR(const float, a.b)[r * a.b_step + j], sum) : sum + v;
    }
    if (j < a.columns) PTR(float, a.y)[j] = sum;
}
