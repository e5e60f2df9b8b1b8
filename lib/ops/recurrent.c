/* recurrent.c - rows of recurrences over a whole sequence: rnn, lstm, gru. Both directions, stacks
 * and batch-first layouts are compositions; gradients go through the rows in recurrent_back.c.
 */
#include "lib/ops/recurrent.h"

#include <math.h>
#include <string.h>

/* ---- sizes and cases ------------------------------------------------------------------------- */

/* Of x, w and r, and of outputs y, hn and, last, saved with S values a unit. */
static zt_status check_sizes(zt_ctx *ctx, const zt_type *x, const zt_type *w, const zt_type *r, int gates, int S, zt_type *y,
                             zt_type *hn, zt_type *saved)
{
    zt_status status = zt_row_want(ctx, "x", x, ZT_F32, 3);
    if (!status) status = zt_row_want(ctx, "w_ih", w, ZT_F32, 2);
    if (!status) status = zt_row_want(ctx, "w_hh", r, ZT_F32, 2);
    if (status) return status;
    int64_t H = r->dim[1], rows, columns;
    if (!zt_mul_i64(H, gates, &rows) || !zt_mul_i64(H, S, &columns))
        return zt_row_fail(ctx, ZT_ESHAPE, "invalid number of hidden units %lld", (long long)H);
    status = zt_recurrent_want(ctx, "w_hh", r, 2, (int64_t[]){rows, H});
    if (!status) status = zt_recurrent_want(ctx, "w_ih", w, 2, (int64_t[]){rows, x->dim[2]});
    *y = *saved = *x;
    y->dim[2] = H;
    saved->dim[2] = columns;
    *hn = zt_type_make(ZT_F32, 2, (int64_t[]){x->dim[1], H});
    return status;
}

static double flops_of(const zt_type *x, const zt_type *r)
{
    return 2 * (double)x->dim[0] * (double)x->dim[1] * (double)r->dim[0] * (double)(x->dim[2] + r->dim[1]);
}

/* x, w, r and the vector of biases at `bias`. */
static void case_weights(const zt_recurrent_case *k, int gates, int bias, zt_case *test_case)
{
    int64_t rows = gates * k->H;
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, ZT_F32, 3, (int64_t[]){k->T, k->N, k->K});
    zt_case_in(test_case, 1, ZT_FILL_SMALL, 0, ZT_F32, 2, (int64_t[]){rows, k->K});
    zt_case_in(test_case, 2, ZT_FILL_SMALL, 0, ZT_F32, 2, (int64_t[]){rows, k->H});
    if (k->biases) zt_case_in(test_case, bias, ZT_FILL_NORMAL, 0, ZT_F32, 1, &rows);
}

static void case_lengths(const zt_recurrent_case *k, int at, zt_case *test_case)
{
    if (k->lengths) zt_case_in(test_case, at, ZT_FILL_IDS, k->T + 1, ZT_I32, 1, &k->N);
}

static void case_state(const zt_recurrent_case *k, int at, zt_case *test_case)
{
    if (k->states) zt_case_in(test_case, at, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){k->N, k->H});
}

/* ---- walking a sequence ---------------------------------------------------------------------- */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n && b; i++) sum += a[i] * b[i];
    return sum;
}

/* One step of one sequence; h and c before it are NULL where they are 0. No memory is to be had
 * here, so a cell's c waits in the row of y where its h will be one step later. */
typedef struct cell {
    const void *attrs;
    const zt_arg *in;
    int64_t K, H;
    const double *x, *h, *c;
    double *y, *c_next, *saved; /* c_next and saved may be NULL */
} cell;

static double gate_input(const cell *k, int g, int64_t j)
{
    int64_t row = g * k->H + j;
    return dot(k->in[1].f + row * k->K, k->x, k->K) + (k->in[3].type ? k->in[3].f[row] : 0);
}

static double hidden_sum(const cell *k, int g, int64_t j) { return dot(k->in[2].f + (g * k->H + j) * k->H, k->h, k->H); }

static void keep_values(const cell *k, int64_t j, int n, const double *values)
{
    for (int i = 0; i < n && k->saved; i++) k->saved[i * k->H + j] = values[i];
}

/* Inputs h0 and c0 (below 0: no such), outputs 1 hn, 2 cn if there is a c, and saved last. */
typedef struct recurrence {
    int h0, c0, lengths, saved, per_unit;
    void (*step)(const cell *k);
} recurrence;

static void copy_row(const zt_arg *to, int64_t n, const double *from, int64_t H)
{
    for (int64_t j = 0; j < H && to->type; j++) to->f[n * H + j] = from ? from[j] : 0;
}

static void run_sequence(const recurrence *loop, const zt_steps *steps, cell k, int64_t n, int64_t length, zt_arg *out)
{
    int64_t H = k.H, S = loop->per_unit * H;
    const zt_arg *in = k.in, *saved = &out[loop->saved], none = {0};
    k.h = in[loop->h0].type ? in[loop->h0].f + n * H : NULL;
    if (loop->c0 >= 0) k.c = in[loop->c0].type ? in[loop->c0].f + n * H : NULL;
    const zt_arg *cn = loop->c0 >= 0 ? &out[2] : &none;
    if (!length) copy_row(cn, n, k.c, H);
    for (int64_t i = 0; i < length; i++) {
        int64_t row = zt_steps_row(steps, n, length, i);
        bool last = i + 1 == length;
        k.x = in[0].f + row * k.K;
        k.y = out[0].f + row * H;
        k.saved = saved->type ? saved->f + row * S : NULL;
        k.c_next = !last ? out[0].f + zt_steps_row(steps, n, length, i + 1) * H : NULL;
        if (last && cn->type) k.c_next = cn->f + n * H;
        loop->step(&k);
        k.h = k.y;
        k.c = k.c_next;
    }
    copy_row(&out[1], n, k.h, H);
}

static void run_sequences(const recurrence *loop, const zt_steps *steps, const void *attrs, const zt_arg *in, zt_arg *out,
                          zt_runtime_error *error)
{
    const zt_arg *saved = &out[loop->saved];
    memset(out[0].f, 0, (size_t)zt_type_count(out[0].type) * sizeof(double));
    if (saved->type) memset(saved->f, 0, (size_t)zt_type_count(saved->type) * sizeof(double));
    cell k = {.attrs = attrs, .in = in, .K = in[0].type->dim[2], .H = steps->H};
    for (int64_t n = 0; n < steps->N && steps->H; n++) run_sequence(loop, steps, k, n, zt_steps_length(steps, n, error), out);
}

/* ---- rnn ------------------------------------------------------------------------------------- */

/* Elman, "Finding structure in time" (1990). */
static zt_status rnn_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_rnn_attrs *rnn = attrs;
    zt_status status = zt_recurrent_act(ctx, &rnn->act);
    if (!status) status = zt_recurrent_flag(ctx, "reverse", rnn->reverse);
    if (!status) status = check_sizes(ctx, in[0], in[1], in[2], 1, ZT_RNN_SAVED, &out[0], &out[1], &out[2]);
    if (!status) status = zt_recurrent_want(ctx, "b", in[3], 1, &out[0].dim[2]);
    if (!status) status = zt_recurrent_want(ctx, "h0", in[4], 2, out[1].dim);
    return status ? status : zt_recurrent_lengths(ctx, in[5], out[0].dim[1]);
}

static void rnn_step(const cell *k)
{
    const zt_rnn_attrs *attrs = k->attrs;
    for (int64_t j = 0; j < k->H; j++) {
        double g = gate_input(k, 0, j) + hidden_sum(k, 0, j), h = attrs->act.s[0] == 't' ? tanh(g) : fmax(g, 0);
        keep_values(k, j, ZT_RNN_SAVED, (double[]){h, k->h ? k->h[j] : 0});
        k->y[j] = h;
    }
}

static void rnn_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    static const recurrence loop = {4, -1, 5, 2, ZT_RNN_SAVED, rnn_step};
    zt_steps steps = zt_steps_of(in[0].type, in[2].type->dim[1], ((const zt_rnn_attrs *)attrs)->reverse, &in[5]);
    run_sequences(&loop, &steps, attrs, in, out, error);
}

static double recurrent_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs, (void)out;
    return flops_of(in[0], in[2]);
}

static bool rnn_cases(int i, zt_case *test_case)
{
    zt_recurrent_case k;
    if (!zt_recurrent_case_at(i, &k)) return false;
    zt_rnn_attrs a = zt_rnn_defaults();
    if (k.other) a.act = (zt_enum_string){"relu"};
    a.reverse = k.reverse;
    zt_case_attrs(test_case, &a, sizeof a);
    case_weights(&k, 1, 3, test_case);
    case_state(&k, 4, test_case);
    case_lengths(&k, 5, test_case);
    return true;
}

static void rnn_vjp(zt_vjp *vjp)
{
    const zt_rnn_attrs *attrs = vjp->attrs;
    // clang-format off
    zt_unrolled unrolled = {.e = vjp->emit, .reverse = attrs->reverse, .other = attrs->act.s[0] == 'r',
                     .saved = vjp->out[2], .w_hh = vjp->in[2], .peep = ZT_NONE, .lengths = vjp->in[5],
                     .dy = vjp->dy[0], .dhn = vjp->dy[1], .dcn = ZT_NONE, .dsaved = vjp->dy[2]};
    // clang-format on
    bool one = vjp->dy[2] == ZT_NONE, made = one || zt_rnn_unroll(&unrolled);
    if (one)
        unrolled.dg = zt_build_rnn_backward(vjp->emit, unrolled.saved, unrolled.w_hh, unrolled.lengths, unrolled.dy, unrolled.dhn,
                                            &(zt_rnn_backward_attrs){attrs->act, attrs->reverse}, &unrolled.dw_hh, &unrolled.dh0);
    const int to[] = {2, 4}, dx[] = {unrolled.dw_hh, unrolled.dh0};
    zt_recurrent_vjp(vjp, made, unrolled.dg, ZT_LEN(to), to, dx);
}

const zt_opdef zt_op_rnn = {
    .synopsis = "h = act(w_ih x[t] + w_hh h + b) over t, y[t] = h; x f32[T,N,K], w_ih f32[H,K], w_hh "
                "f32[H,H], b f32[H], h0 f32[N,H] (0 if absent), lengths i32[N] (T): y is 0 past "
                "them; act tanh or relu; reverse=1 goes from the last step to the first; y "
                "f32[T,N,H], hn the last h f32[N,H]; saved f32[T,N,2H] is for the gradient",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = rnn_infer,
    .ref = rnn_ref,
    .flops = recurrent_flops,
    .cases = rnn_cases,
    .vjp = rnn_vjp,
};

/* ---- lstm ------------------------------------------------------------------------------------ */

/* Hochreiter and Schmidhuber, "Long short-term memory" (1997); forget gate and peepholes: Gers and
 * Schmidhuber, "Recurrent nets that time and count" (2000). */
static zt_status lstm_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_lstm_attrs *lstm = attrs;
    zt_status status = zt_recurrent_flag(ctx, "reverse", lstm->reverse);
    if (!status) status = check_sizes(ctx, in[0], in[1], in[2], 4, ZT_LSTM_SAVED, &out[0], &out[1], &out[3]);
    if (!status) status = zt_recurrent_want(ctx, "b", in[3], 1, &in[2]->dim[0]);
    if (!status) status = zt_recurrent_want(ctx, "h0", in[4], 2, out[1].dim);
    if (!status) status = zt_recurrent_want(ctx, "c0", in[5], 2, out[1].dim);
    if (!status) status = zt_recurrent_want(ctx, "peep", in[6], 2, (int64_t[]){3, in[2]->dim[1]});
    out[2] = out[1];
    return status ? status : zt_recurrent_lengths(ctx, in[7], out[0].dim[1]);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void lstm_step(const cell *k)
{
    const double *p = k->in[6].type ? k->in[6].f : NULL;
    for (int64_t j = 0; j < k->H; j++) {
        double before = k->c ? k->c[j] : 0, g[4];
        for (int i = 0; i < 4; i++) g[i] = gate_input(k, i, j) + hidden_sum(k, i, j);
        for (int i = 0; i < 2 && p; i++) g[i] += p[i * k->H + j] * before;
        double in = sigmoid(g[0]), forget = sigmoid(g[1]), fresh = tanh(g[2]);
        double c = forget * before + in * fresh;
        double out = sigmoid(p ? g[3] + p[2 * k->H + j] * c : g[3]);
        keep_values(k, j, ZT_LSTM_SAVED, (double[]){in, forget, fresh, out, c, before, k->h ? k->h[j] : 0});
        k->y[j] = out * tanh(c);
        if (k->c_next) k->c_next[j] = c;
    }
}

static void lstm_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    static const recurrence loop = {4, 5, 7, 3, ZT_LSTM_SAVED, lstm_step};
    zt_steps steps = zt_steps_of(in[0].type, in[2].type->dim[1], ((const zt_lstm_attrs *)attrs)->reverse, &in[7]);
    run_sequences(&loop, &steps, attrs, in, out, error);
}

static bool lstm_cases(int i, zt_case *test_case)
{
    zt_recurrent_case k;
    if (!zt_recurrent_case_at(i, &k)) return false;
    zt_lstm_attrs a = {k.reverse};
    zt_case_attrs(test_case, &a, sizeof a);
    case_weights(&k, 4, 3, test_case);
    case_state(&k, 4, test_case);
    case_state(&k, 5, test_case);
    if (k.peepholes) zt_case_in(test_case, 6, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){3, k.H});
    case_lengths(&k, 7, test_case);
    return true;
}

static void lstm_vjp(zt_vjp *vjp)
{
    const zt_lstm_attrs *attrs = vjp->attrs;
    zt_unrolled unrolled = {.e = vjp->emit,
                            .reverse = attrs->reverse,
                            .saved = vjp->out[3],
                            .w_hh = vjp->in[2],
                            .peep = vjp->in[6],
                            .lengths = vjp->in[7],
                            .dy = vjp->dy[0],
                            .dhn = vjp->dy[1],
                            .dcn = vjp->dy[2],
                            .dsaved = vjp->dy[3]};
    bool one = vjp->dy[3] == ZT_NONE, made = one || zt_lstm_unroll(&unrolled);
    if (one)
        unrolled.dg = zt_build_lstm_backward(vjp->emit, unrolled.saved, unrolled.w_hh, unrolled.peep, unrolled.lengths,
                                             unrolled.dy, unrolled.dhn, unrolled.dcn, &(zt_lstm_backward_attrs){attrs->reverse},
                                             &unrolled.dw_hh, &unrolled.dh0, &unrolled.dc0, &unrolled.dpeep);
    const int to[] = {2, 4, 5, 6}, dx[] = {unrolled.dw_hh, unrolled.dh0, unrolled.dc0, unrolled.dpeep};
    zt_recurrent_vjp(vjp, made, unrolled.dg, ZT_LEN(to), to, dx);
}

const zt_opdef zt_op_lstm = {
    .synopsis = "i, f, g, o = w_ih x[t] + w_hh h + b, c = sigmoid(f) c + sigmoid(i) tanh(g), h = "
                "sigmoid(o) tanh(c) over t, y[t] = h; x f32[T,N,K], w_ih f32[4H,K], w_hh f32[4H,H], "
                "b f32[4H], h0 and c0 f32[N,H] (0 if absent), peep f32[3,H]: i, f, o also get peep c "
                "(o the new c), lengths i32[N] (T): y is 0 past them; reverse=1 goes from the last step to "
                "the first; y "
                "f32[T,N,H], hn and cn the last h and c; saved f32[T,N,7H] is for the gradient",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = lstm_infer,
    .ref = lstm_ref,
    .flops = recurrent_flops,
    .cases = lstm_cases,
    .vjp = lstm_vjp,
};

/* ---- gru ------------------------------------------------------------------------------------- */

/* Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014). Where the reset
 * gate stands: before R in that paper, after it in cuDNN and PyTorch (linear_before_reset, ONNX).
 */
static zt_status gru_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_gru_attrs *gru = attrs;
    zt_status status = zt_recurrent_flag(ctx, "linear_before_reset", gru->linear_before_reset);
    if (!status) status = zt_recurrent_flag(ctx, "reverse", gru->reverse);
    if (!status) status = check_sizes(ctx, in[0], in[1], in[2], 3, ZT_GRU_SAVED, &out[0], &out[1], &out[2]);
    if (!status) status = zt_recurrent_want(ctx, "b_ih", in[3], 1, &in[2]->dim[0]);
    if (!status) status = zt_recurrent_want(ctx, "b_hh", in[4], 1, &in[2]->dim[0]);
    if (!status) status = zt_recurrent_want(ctx, "h0", in[5], 2, out[1].dim);
    return status ? status : zt_recurrent_lengths(ctx, in[6], out[0].dim[1]);
}

static double gru_hidden(const cell *k, int g, int64_t j)
{
    return hidden_sum(k, g, j) + (k->in[4].type ? k->in[4].f[g * k->H + j] : 0);
}

static double gru_reset(const cell *k, int64_t j) { return sigmoid(gate_input(k, 0, j) + gru_hidden(k, 0, j)); }

/* R_n (r h) + rb_n: with no memory for r h, each of r is made anew. */
static double gru_after_reset(const cell *k, int64_t j)
{
    double sum = k->in[4].type ? k->in[4].f[2 * k->H + j] : 0;
    for (int64_t i = 0; i < k->H && k->h; i++) sum += k->in[2].f[(2 * k->H + j) * k->H + i] * gru_reset(k, i) * k->h[i];
    return sum;
}

static void gru_step(const cell *k)
{
    bool before = ((const zt_gru_attrs *)k->attrs)->linear_before_reset;
    for (int64_t j = 0; j < k->H; j++) {
        double h = k->h ? k->h[j] : 0, r = gru_reset(k, j);
        double z = sigmoid(gate_input(k, 1, j) + gru_hidden(k, 1, j));
        double q = before ? gru_hidden(k, 2, j) : r * h;
        double n = tanh(gate_input(k, 2, j) + (before ? r * q : gru_after_reset(k, j)));
        keep_values(k, j, ZT_GRU_SAVED, (double[]){r, z, n, q, h});
        k->y[j] = (1 - z) * n + z * h;
    }
}

static void gru_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    static const recurrence loop = {5, -1, 6, 2, ZT_GRU_SAVED, gru_step};
    zt_steps steps = zt_steps_of(in[0].type, in[2].type->dim[1], ((const zt_gru_attrs *)attrs)->reverse, &in[6]);
    run_sequences(&loop, &steps, attrs, in, out, error);
}

static bool gru_cases(int i, zt_case *test_case)
{
    zt_recurrent_case k;
    if (!zt_recurrent_case_at(i, &k)) return false;
    zt_gru_attrs a = {!k.other, k.reverse};
    int64_t rows = 3 * k.H;
    zt_case_attrs(test_case, &a, sizeof a);
    case_weights(&k, 3, 3, test_case);
    if (k.biases) zt_case_in(test_case, 4, ZT_FILL_NORMAL, 0, ZT_F32, 1, &rows);
    case_state(&k, 5, test_case);
    case_lengths(&k, 6, test_case);
    return true;
}

static void gru_vjp(zt_vjp *vjp)
{
    const zt_gru_attrs *attrs = vjp->attrs;
    // clang-format off
    zt_unrolled unrolled = {.e = vjp->emit, .reverse = attrs->reverse, .other = !attrs->linear_before_reset,
                     .saved = vjp->out[2], .w_hh = vjp->in[2], .peep = ZT_NONE, .lengths = vjp->in[6],
                     .dy = vjp->dy[0], .dhn = vjp->dy[1], .dcn = ZT_NONE, .dsaved = vjp->dy[2]};
    // clang-format on
    bool one = vjp->dy[2] == ZT_NONE, made = one || zt_gru_unroll(&unrolled);
    if (one)
        unrolled.dg = zt_build_gru_backward(vjp->emit, unrolled.saved, unrolled.w_hh, unrolled.lengths, unrolled.dy, unrolled.dhn,
                                            &(zt_gru_backward_attrs){attrs->linear_before_reset, attrs->reverse}, &unrolled.dw_hh,
                                            &unrolled.db_hh, &unrolled.dh0);
    const int to[] = {2, 4, 5}, dx[] = {unrolled.dw_hh, unrolled.db_hh, unrolled.dh0};
    zt_recurrent_vjp(vjp, made, unrolled.dg, ZT_LEN(to), to, dx);
}

const zt_opdef zt_op_gru = {
    .synopsis = "r, z = sigmoid(w_ih x[t] + b_ih + w_hh h + b_hh), n = tanh(w_ih x[t] + b_ih + r (w_hh h + "
                "b_hh)), the last with linear_before_reset=0 w_hh (r h) + b_hh, h = (1 - z) n + z h "
                "over t, y[t] = h; rows r, z, n; x f32[T,N,K], w_ih f32[3H,K], w_hh f32[3H,H], b_ih "
                "and b_hh f32[3H], h0 f32[N,H] (0 if absent), lengths i32[N] (T): y is 0 past them; "
                "reverse=1 goes from the last "
                "step to the first; y f32[T,N,H], hn the last h; saved f32[T,N,5H] is for the "
                "gradient",
    .n_required = 3,
    .flags = ZT_OPF_SUMS,
    .infer = gru_infer,
    .ref = gru_ref,
    .flops = recurrent_flops,
    .cases = gru_cases,
    .vjp = gru_vjp,
};
