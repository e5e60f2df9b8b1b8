/* recurrent_back.c - rows of the gradients of recurrences, from what the forward ops saved.
 *
 * Each goes through a sequence from its last step to its first and gives dg, the gradient of what
 * the gates are made of, w x + b: those of x, w and b are products of it. No memory is to be had
 * here, so what a step hands on to the one before it waits in that one's row of dg. Gradients of
 * these gradients go through the expansions (recurrent_unroll.c).
 */
#include "lib/ops/recurrent.h"

#include <math.h>
#include <string.h>

/* ---- what they share ------------------------------------------------------------------------- */

/* Of saved [T,N,S*H], r [gates*H,H], dy and the last state's gradients; outputs 0 dg, 1 dr and, at
 * `state`, of [N,H]. */
static zt_status back_infer(zt_ctx *ctx, int gates, int S, const zt_type *saved, const zt_type *r, const zt_type *lengths,
                            const zt_type *dy, const zt_type *dhn, zt_type *dg, zt_type *state)
{
    zt_status status = zt_row_want(ctx, "saved", saved, ZT_F32, 3);
    if (!status) status = zt_row_want(ctx, "w_hh", r, ZT_F32, 2);
    if (status) return status;
    int64_t H = r->dim[1], rows, columns;
    if (!zt_mul_i64(H, gates, &rows) || !zt_mul_i64(H, S, &columns))
        return zt_row_fail(ctx, ZT_ESHAPE, "invalid number of hidden units %lld", (long long)H);
    const int64_t *d = saved->dim;
    status = zt_recurrent_want(ctx, "w_hh", r, 2, (int64_t[]){rows, H});
    if (!status) status = zt_recurrent_want(ctx, "saved", saved, 3, (int64_t[]){d[0], d[1], columns});
    if (!status) status = zt_recurrent_want(ctx, "dy", dy, 3, (int64_t[]){d[0], d[1], H});
    *state = zt_type_make(ZT_F32, 2, (int64_t[]){d[1], H});
    if (!status) status = zt_recurrent_want(ctx, "dhn", dhn, 2, state->dim);
    *dg = *saved;
    dg->dim[2] = rows;
    return status ? status : zt_recurrent_lengths(ctx, lengths, d[1]);
}

static double back_flops(const void *attrs, const zt_type *const in[], const zt_type *out)
{
    (void)attrs;
    return 4 * (double)zt_type_count(out) * (double)in[1]->dim[1];
}

/* One step of one sequence. dg_later: the row of the step that came after it, NULL at the last;
 * `handed`: what that one left here of each unit, H values, or from outside; `hand`: where this one
 * leaves it for the step before, NULL for nobody. */
typedef struct back {
    const void *attrs;
    const zt_arg *in;
    zt_arg *out;
    int64_t H, n; /* n: which sequence */
    const double *saved, *saved_later, *dy, *dg_later, *handed;
    double *dg, *hand;
} back;

static double saved_value(const back *k, int which, int64_t j) { return k->saved[which * k->H + j]; }

/* sum_j dg[g H + j] r[g H + j, i] over the gates first..last-1 of the later step. */
static double through_r(const back *k, int first, int last, int64_t i)
{
    double sum = 0;
    for (int64_t row = first * k->H; row < last * k->H && k->dg_later; row++)
        sum += k->dg_later[row] * k->in[1].f[row * k->H + i];
    return sum;
}

/* dr's rows of gate g += their gradients times what they were multiplied by. */
static void add_dr(const back *k, int g, int64_t j, double d, const double *by)
{
    double *to = k->out[1].type ? k->out[1].f + (g * k->H + j) * k->H : NULL;
    for (int64_t i = 0; i < k->H && to; i++) to[i] += d * by[i];
}

typedef struct backward_loop {
    int gates, S, lengths, dy, last, dh0, dlast0; /* dlast0: where the handed goes; -1 nowhere */
    void (*step)(const back *k);
    double (*dh)(const back *k, int64_t j); /* of h, from the step after */
} backward_loop;

/* Before the first step: the gradients of the states that the sequence began with. */
static void finish_step(const backward_loop *loop, back *k, const double *dhn)
{
    int64_t H = k->H, n = k->n;
    zt_arg *dh0 = &k->out[loop->dh0];
    for (int64_t j = 0; j < H && dh0->type; j++) dh0->f[n * H + j] = k->dg_later ? loop->dh(k, j) : dhn ? dhn[j] : 0;
}

static void run_sequence_back(const backward_loop *loop, const zt_steps *steps, back k, int64_t length, const double *dhn)
{
    int64_t n = k.n, H = k.H, G = loop->gates * H, S = loop->S * H;
    zt_arg *end = loop->dlast0 >= 0 ? &k.out[loop->dlast0] : NULL;
    double *start = end && end->type ? end->f + n * H : NULL;
    const zt_arg *saved = &k.in[0], *dy = &k.in[loop->dy];
    for (int64_t j = 0; j < H && start; j++) start[j] = k.handed ? k.handed[j] : 0;
    for (int64_t i = length; i-- > 0;) {
        int64_t row = zt_steps_row(steps, n, length, i);
        k.saved = saved->f + row * S;
        k.dy = dy->type ? dy->f + row * H : NULL;
        k.dg = k.out[0].f + row * G;
        k.hand = i ? k.out[0].f + zt_steps_row(steps, n, length, i - 1) * G : start;
        loop->step(&k);
        k.saved_later = k.saved;
        k.dg_later = k.dg;
        k.handed = k.hand;
    }
    finish_step(loop, &k, dhn);
}

static void run_sequences_back(const backward_loop *loop, const zt_steps *steps, const void *attrs, const zt_arg *in, zt_arg *out,
                               int n_out, int dcn, zt_runtime_error *error)
{
    for (int o = 0; o < n_out; o++)
        if (out[o].type) memset(out[o].f, 0, (size_t)zt_type_count(out[o].type) * sizeof(double));
    for (int64_t n = 0; n < steps->N && steps->H; n++) {
        const zt_arg *dhn = &in[loop->last], *first = dcn >= 0 ? &in[dcn] : dhn;
        back k = {.attrs = attrs, .in = in, .out = out, .H = steps->H, .n = n};
        k.handed = first->type ? first->f + n * steps->H : NULL;
        run_sequence_back(loop, steps, k, zt_steps_length(steps, n, error), dhn->type ? dhn->f + n * steps->H : NULL);
    }
}

/* Inputs saved, r, and those of the gradients, from `dy` on, of a case. */
static void case_inputs(const zt_recurrent_case *k, int gates, int S, int lengths, int states, zt_case *test_case)
{
    zt_case_in(test_case, 0, ZT_FILL_NORMAL, 0, ZT_F32, 3, (int64_t[]){k->T, k->N, S * k->H});
    zt_case_in(test_case, 1, ZT_FILL_SMALL, 0, ZT_F32, 2, (int64_t[]){gates * k->H, k->H});
    if (k->lengths) zt_case_in(test_case, lengths, ZT_FILL_IDS, k->T + 1, ZT_I32, 1, &k->N);
    if (k->biases) zt_case_in(test_case, lengths + 1, ZT_FILL_NORMAL, 0, ZT_F32, 3, (int64_t[]){k->T, k->N, k->H});
    for (int i = 0; i < states && (k->states || !k->biases); i++)
        zt_case_in(test_case, lengths + 2 + i, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){k->N, k->H});
}

#define BACK "gradient of "
#define BACK_ARGS                                                                                                                \
    " from its saved, w_hh and lengths, and the gradients of its results, of which any may be "                                  \
    "absent; "                                                                                                                   \
    "dg f32[T,N,"
#define BACK_DG "H] is that of w_ih x + b, 0 past a sequence's length; dw_hh of w_hh"

/* ---- rnn ------------------------------------------------------------------------------------- */

static zt_status rnn_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_rnn_backward_attrs *rnn_backward = attrs;
    zt_status status = zt_recurrent_act(ctx, &rnn_backward->act);
    if (!status) status = zt_recurrent_flag(ctx, "reverse", rnn_backward->reverse);
    out[1] = *in[1];
    return status ? status : back_infer(ctx, 1, ZT_RNN_SAVED, in[0], in[1], in[2], in[3], in[4], &out[0], &out[2]);
}

static double rnn_dh(const back *k, int64_t j) { return through_r(k, 0, 1, j); }

static void rnn_back(const back *k)
{
    const zt_rnn_backward_attrs *attrs = k->attrs;
    for (int64_t j = 0; j < k->H; j++) {
        double h = saved_value(k, 0, j), dh = (k->dy ? k->dy[j] : 0) + rnn_dh(k, j);
        if (!k->dg_later && k->handed) dh += k->handed[j];
        k->dg[j] = attrs->act.s[0] == 't' ? dh * (1 - h * h) : h > 0 ? dh : 0;
    }
    for (int64_t j = 0; j < k->H; j++) add_dr(k, 0, j, k->dg[j], k->saved + k->H);
}

static void rnn_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    static const backward_loop loop = {1, ZT_RNN_SAVED, 2, 3, 4, 2, -1, rnn_back, rnn_dh};
    zt_steps steps = zt_steps_of(in[0].type, in[1].type->dim[1], ((const zt_rnn_backward_attrs *)attrs)->reverse, &in[2]);
    run_sequences_back(&loop, &steps, attrs, in, out, 3, -1, error);
}

static bool rnn_backward_cases(int i, zt_case *test_case)
{
    zt_recurrent_case k;
    if (!zt_recurrent_case_at(i, &k)) return false;
    zt_rnn_backward_attrs a = {{"tanh"}, k.reverse};
    if (k.other) a.act = (zt_enum_string){"relu"};
    zt_case_attrs(test_case, &a, sizeof a);
    case_inputs(&k, 1, ZT_RNN_SAVED, 2, 1, test_case);
    if (!k.other) test_case->fill[0] = ZT_FILL_SMALL; /* h of tanh is within 1 */
    return true;
}

static void rnn_backward_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_rnn_backward_attrs *rnn_backward = attrs;
    // clang-format off
    zt_unrolled unrolled = {.e = emit, .reverse = rnn_backward->reverse, .other = rnn_backward->act.s[0] == 'r', .saved = in[0],
                     .w_hh = in[1], .peep = ZT_NONE, .lengths = in[2], .dy = in[3], .dhn = in[4],
                     .dcn = ZT_NONE, .dsaved = ZT_NONE};
    // clang-format on
    if (!zt_rnn_unroll(&unrolled)) return;
    out[0] = unrolled.dg;
    out[1] = unrolled.dw_hh;
    out[2] = unrolled.dh0;
}

const zt_opdef zt_op_rnn_backward = {
    .synopsis = BACK "rnn" BACK_ARGS BACK_DG ", dh0 of h0",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = rnn_backward_infer,
    .ref = rnn_backward_ref,
    .flops = back_flops,
    .cases = rnn_backward_cases,
    .expand = rnn_backward_expand,
};

/* ---- lstm ------------------------------------------------------------------------------------ */

static zt_status lstm_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_lstm_backward_attrs *lstm_backward = attrs;
    zt_status status = zt_recurrent_flag(ctx, "reverse", lstm_backward->reverse);
    if (!status) status = back_infer(ctx, 4, ZT_LSTM_SAVED, in[0], in[1], in[3], in[4], in[5], &out[0], &out[2]);
    if (status) return status;
    out[1] = *in[1];
    out[3] = out[2];
    out[4] = zt_type_make(ZT_F32, 2, (int64_t[]){3, in[1]->dim[1]});
    status = zt_recurrent_want(ctx, "peep", in[2], 2, out[4].dim);
    return status ? status : zt_recurrent_want(ctx, "dcn", in[6], 2, out[2].dim);
}

static double lstm_dh(const back *k, int64_t j) { return through_r(k, 0, 4, j); }

/* What is handed on is the gradient of c. */
static void lstm_unit(const back *k, int64_t j, const double *dhn)
{
    const double *p = k->in[2].type ? k->in[2].f : NULL;
    double *dp = k->out[4].type ? k->out[4].f : NULL;
    int64_t H = k->H;
    double i = saved_value(k, 0, j), f = saved_value(k, 1, j), g = saved_value(k, 2, j), o = saved_value(k, 3, j);
    double c = saved_value(k, 4, j), before = saved_value(k, 5, j), tc = tanh(c);
    double dh = (k->dy ? k->dy[j] : 0) + lstm_dh(k, j) + (dhn ? dhn[j] : 0);
    double d_o = dh * tc * o * (1 - o);
    double dc = (k->handed ? k->handed[j] : 0) + dh * o * (1 - tc * tc) + (p ? d_o * p[2 * H + j] : 0);
    double d[4] = {dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g * g), d_o};
    for (int q = 0; q < 4; q++) k->dg[q * H + j] = d[q];
    if (k->hand) k->hand[j] = dc * f + (p ? d[0] * p[j] + d[1] * p[H + j] : 0);
    if (!dp) return;
    dp[j] += d[0] * before;
    dp[H + j] += d[1] * before;
    dp[2 * H + j] += d_o * c;
}

static void lstm_back(const back *k)
{
    int64_t H = k->H;
    const double *dhn = !k->dg_later && k->in[5].type ? k->in[5].f + k->n * H : NULL;
    for (int64_t j = 0; j < H; j++) lstm_unit(k, j, dhn);
    for (int g = 0; g < 4; g++)
        for (int64_t j = 0; j < H; j++) add_dr(k, g, j, k->dg[g * H + j], k->saved + 6 * H);
}

static void lstm_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    static const backward_loop loop = {4, ZT_LSTM_SAVED, 3, 4, 5, 2, 3, lstm_back, lstm_dh};
    zt_steps steps = zt_steps_of(in[0].type, in[1].type->dim[1], ((const zt_lstm_backward_attrs *)attrs)->reverse, &in[3]);
    run_sequences_back(&loop, &steps, attrs, in, out, 5, 6, error);
}

static bool lstm_backward_cases(int i, zt_case *test_case)
{
    zt_recurrent_case k;
    if (!zt_recurrent_case_at(i, &k)) return false;
    zt_lstm_backward_attrs a = {k.reverse};
    zt_case_attrs(test_case, &a, sizeof a);
    case_inputs(&k, 4, ZT_LSTM_SAVED, 3, 2, test_case);
    test_case->fill[0] = ZT_FILL_SMALL;
    if (k.peepholes) zt_case_in(test_case, 2, ZT_FILL_NORMAL, 0, ZT_F32, 2, (int64_t[]){3, k.H});
    return true;
}

static void lstm_backward_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_lstm_backward_attrs *lstm_backward = attrs;
    zt_unrolled unrolled = {.e = emit,
                            .reverse = lstm_backward->reverse,
                            .saved = in[0],
                            .w_hh = in[1],
                            .peep = in[2],
                            .lengths = in[3],
                            .dy = in[4],
                            .dhn = in[5],
                            .dcn = in[6],
                            .dsaved = ZT_NONE};
    if (!zt_lstm_unroll(&unrolled)) return;
    const int made[] = {unrolled.dg, unrolled.dw_hh, unrolled.dh0, unrolled.dc0, unrolled.dpeep};
    for (int i = 0; i < ZT_LEN(made); i++) out[i] = made[i];
}

const zt_opdef zt_op_lstm_backward = {
    .synopsis = BACK "lstm" BACK_ARGS "4" BACK_DG ", dh0 and dc0 of h0 and c0, dpeep of peep",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = lstm_backward_infer,
    .ref = lstm_backward_ref,
    .flops = back_flops,
    .cases = lstm_backward_cases,
    .expand = lstm_backward_expand,
};

/* ---- gru ------------------------------------------------------------------------------------- */

static zt_status gru_backward_infer(zt_ctx *ctx, const void *attrs, const zt_type *const in[], zt_type out[])
{
    const zt_gru_backward_attrs *gru_backward = attrs;
    zt_status status = zt_recurrent_flag(ctx, "linear_before_reset", gru_backward->linear_before_reset);
    if (!status) status = zt_recurrent_flag(ctx, "reverse", gru_backward->reverse);
    if (!status) status = back_infer(ctx, 3, ZT_GRU_SAVED, in[0], in[1], in[2], in[3], in[4], &out[0], &out[3]);
    if (status) return status;
    out[1] = *in[1];
    out[2] = zt_type_make(ZT_F32, 1, in[1]->dim);
    return ZT_OK;
}

/* The gradient of what r multiplies times R_n, of unit i of a row of dg. */
static double gru_dq(const back *k, const double *dg, int64_t i)
{
    double sum = 0;
    for (int64_t j = 0; j < k->H; j++) sum += dg[2 * k->H + j] * k->in[1].f[(2 * k->H + j) * k->H + i];
    return sum;
}

/* What is handed on is the gradient of h times z. */
static double gru_dh(const back *k, int64_t j)
{
    const zt_gru_backward_attrs *attrs = k->attrs;
    int64_t H = k->H;
    double dh = (k->handed ? k->handed[j] : 0) + through_r(k, 0, 2, j);
    if (!k->dg_later) return dh;
    if (!attrs->linear_before_reset) return dh + k->saved_later[j] * gru_dq(k, k->dg_later, j);
    for (int64_t i = 0; i < H; i++) dh += k->dg_later[2 * H + i] * k->saved_later[i] * k->in[1].f[(2 * H + i) * H + j];
    return dh;
}

static void gru_weights(const back *k, int64_t j)
{
    const zt_gru_backward_attrs *attrs = k->attrs;
    const double *h = k->saved + 4 * k->H, *q = k->saved + 3 * k->H;
    bool before = attrs->linear_before_reset;
    for (int g = 0; g < 3; g++) {
        double d = k->dg[g * k->H + j] * (g == 2 && before ? saved_value(k, 0, j) : 1);
        add_dr(k, g, j, d, g == 2 && !before ? q : h);
        if (k->out[2].type) k->out[2].f[g * k->H + j] += d;
    }
}

static void gru_back(const back *k)
{
    const zt_gru_backward_attrs *attrs = k->attrs;
    int64_t H = k->H;
    for (int64_t j = 0; j < H; j++) {
        double z = saved_value(k, 1, j), n = saved_value(k, 2, j), h = saved_value(k, 4, j);
        double dh = (k->dy ? k->dy[j] : 0) + gru_dh(k, j);
        k->dg[H + j] = dh * (h - n) * z * (1 - z);
        k->dg[2 * H + j] = dh * (1 - z) * (1 - n * n);
        if (k->hand) k->hand[j] = dh * z;
    }
    for (int64_t j = 0; j < H; j++) {
        double r = saved_value(k, 0, j);
        double dr =
            attrs->linear_before_reset ? k->dg[2 * H + j] * saved_value(k, 3, j) : gru_dq(k, k->dg, j) * saved_value(k, 4, j);
        k->dg[j] = dr * r * (1 - r);
    }
    for (int64_t j = 0; j < H; j++) gru_weights(k, j);
}

static void gru_backward_ref(const void *attrs, const zt_arg *in, zt_arg *out, zt_runtime_error *error)
{
    static const backward_loop loop = {3, ZT_GRU_SAVED, 2, 3, 4, 3, 3, gru_back, gru_dh};
    zt_steps steps = zt_steps_of(in[0].type, in[1].type->dim[1], ((const zt_gru_backward_attrs *)attrs)->reverse, &in[2]);
    run_sequences_back(&loop, &steps, attrs, in, out, 4, -1, error);
}

static bool gru_backward_cases(int i, zt_case *test_case)
{
    zt_recurrent_case k;
    if (!zt_recurrent_case_at(i, &k)) return false;
    zt_gru_backward_attrs a = {!k.other, k.reverse};
    zt_case_attrs(test_case, &a, sizeof a);
    case_inputs(&k, 3, ZT_GRU_SAVED, 2, 1, test_case);
    test_case->fill[0] = ZT_FILL_SMALL;
    return true;
}

static void gru_backward_expand(const zt_emit *emit, const void *attrs, const int *in, int *out)
{
    const zt_gru_backward_attrs *gru_backward = attrs;
    // clang-format off
    zt_unrolled unrolled = {.e = emit, .reverse = gru_backward->reverse, .other = !gru_backward->linear_before_reset,
                     .saved = in[0], .w_hh = in[1], .peep = ZT_NONE, .lengths = in[2],
                     .dy = in[3], .dhn = in[4], .dcn = ZT_NONE, .dsaved = ZT_NONE};
    // clang-format on
    if (!zt_gru_unroll(&unrolled)) return;
    const int made[] = {unrolled.dg, unrolled.dw_hh, unrolled.db_hh, unrolled.dh0};
    for (int i = 0; i < ZT_LEN(made); i++) out[i] = made[i];
}

const zt_opdef zt_op_gru_backward = {
    .synopsis = BACK "gru" BACK_ARGS "3" BACK_DG ", db_hh of b_hh, dh0 of h0",
    .n_required = 2,
    .flags = ZT_OPF_SUMS,
    .infer = gru_backward_infer,
    .ref = gru_backward_ref,
    .flops = back_flops,
    .cases = gru_backward_cases,
    .expand = gru_backward_expand,
};
