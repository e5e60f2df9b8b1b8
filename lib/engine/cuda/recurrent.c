/* recurrent.c - rows of recurrences and of their gradients. */
#include "lib/ops/recurrent.h"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

enum { THREADS = 256 };

/* `room`: numbers a unit in shared memory. */
static bool fits(const zt_cu_engine *e, int64_t N, int64_t H, int room)
{
    return N <= (int64_t)e->max_grid[0] && zt_cu_has_shared(e, (size_t)(H * room * 4));
}

static zt_cu_ptr offset(zt_cu_ptr p, int64_t floats)
{
    return p + (zt_cu_ptr)floats * sizeof(float);
}

static zt_status launch(zt_cu_call *c, const char *name, int room, const zt_cu_recurrent_args *a)
{
    if (a->H == 0) return ZT_OK;
    return zt_cu_launch(c, name, (zt_cu_dim){(unsigned)a->N, 1, 1}, (zt_cu_dim){THREADS, 1, 1},
                        (size_t)(a->H * room) * sizeof(float), a, sizeof *a);
}

/* ---- forward --------------------------------------------------------------------------------- */

enum { FORWARD_ROOM = 5 };

static bool has_forward(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                        const zt_type out[])
{
    (void)attrs, (void)out;
    int64_t rows = in[0]->dim[0] * in[0]->dim[1];
    return fits(e, in[0]->dim[1], in[2]->dim[1], FORWARD_ROOM) && rows / 64 < e->max_grid[1];
}

/* x, w_ih and w_hh are inputs 0 to 2, b input 3; the rest is in `a`, and saved at output `saved`.
 */
static zt_status forward(zt_cu_call *c, const char *name, int lengths, int saved,
                         zt_cu_recurrent_args *a)
{
    const zt_type *x = c->in[0], *w = c->in[1];
    zt_cu_matmul_args m = {.a = c->x[0], .b = c->x[1], .a_col = 1, .b_row = 1};
    m.N = x->dim[0] * x->dim[1];
    m.K = m.a_row = m.b_col = x->dim[2];
    m.M = w->dim[0];
    m.y = zt_cu_scratch(c, (size_t)(m.N * m.M) * sizeof(float));
    if (!m.y) return ZT_ENOMEM;
    a->x = m.y;
    a->r = c->x[2];
    a->b = c->x[3];
    a->lengths = c->x[lengths];
    a->y = c->y[0];
    a->hn = c->y[1];
    a->saved = c->y[saved];
    a->trouble = c->trouble;
    a->T = x->dim[0];
    a->N = x->dim[1];
    a->H = c->in[2]->dim[1];
    zt_status s = zt_cu_multiply(c, &m);
    for (int k = 0; k < 4 && !s; k++)
        if (c->y[k] && (k == 0 || k == saved))
            s = zt_cu_fill(c, c->y[k], 0, zt_type_bytes(c->out[k]));
    return s ? s : launch(c, name, FORWARD_ROOM, a);
}

static zt_status emit_rnn(zt_cu_call *c)
{
    const zt_rnn_attrs *at = c->attrs;
    zt_cu_recurrent_args a = {
        .h0 = c->x[4], .reverse = at->reverse != 0, .other = at->act.s[0] == 'r'};
    return forward(c, "zt_rnn", 5, 2, &a);
}

static zt_status emit_lstm(zt_cu_call *c)
{
    const zt_lstm_attrs *at = c->attrs;
    zt_cu_recurrent_args a = {
        .h0 = c->x[4], .c0 = c->x[5], .peep = c->x[6], .cn = c->y[2], .reverse = at->reverse != 0};
    return forward(c, "zt_lstm", 7, 3, &a);
}

static zt_status emit_gru(zt_cu_call *c)
{
    const zt_gru_attrs *at = c->attrs;
    zt_cu_recurrent_args a = {.rb = c->x[4],
                              .h0 = c->x[5],
                              .reverse = at->reverse != 0,
                              .other = !at->linear_before_reset};
    return forward(c, "zt_gru", 6, 2, &a);
}

/* ---- gradients ------------------------------------------------------------------------------- */

enum { BACK_ROOM = 10 }; /* twice four gates, what is handed on, reset gates */

static bool has_back(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    (void)attrs, (void)out;
    return fits(e, in[0]->dim[1], in[1]->dim[1], BACK_ROOM);
}

/* saved and w_hh are inputs 0 and 1; lengths, dy and dhn follow from `lengths` on. */
static zt_status back(zt_cu_call *c, const char *name, int gates, int lengths,
                      zt_cu_recurrent_args *a)
{
    a->saved = c->x[0];
    a->r = c->x[1];
    a->lengths = c->x[lengths];
    a->dy = c->x[lengths + 1];
    a->dhn = c->x[lengths + 2];
    a->trouble = c->trouble;
    a->T = c->in[0]->dim[0];
    a->N = c->in[0]->dim[1];
    a->H = c->in[1]->dim[1];
    size_t bytes = (size_t)(a->T * a->N * a->H * gates) * sizeof(float);
    a->dg = c->y[0] ? c->y[0] : zt_cu_scratch(c, bytes);
    if (!a->dg) return ZT_ENOMEM;
    zt_status s = zt_cu_fill(c, a->dg, 0, bytes);
    return s ? s : launch(c, name, BACK_ROOM, a);
}

/* dw_hh of `gates` gates from gate `first` on: dg, `step` numbers a row, times what they were
 * multiplied by, part `part` of `parts` in saved. */
static zt_status weights(zt_cu_call *c, const zt_cu_recurrent_args *a, int first, int gates,
                         zt_cu_ptr dg, int64_t step, int part, int parts)
{
    const zt_cu_matmul_args m = {.a = dg,
                                 .b = offset(a->saved, part * a->H),
                                 .y = offset(c->y[1], first * a->H * a->H),
                                 .N = gates * a->H,
                                 .K = a->T * a->N,
                                 .M = a->H,
                                 .a_row = 1,
                                 .a_col = step,
                                 .b_row = parts * a->H,
                                 .b_col = 1};
    return c->y[1] ? zt_cu_multiply(c, &m) : ZT_OK;
}

static zt_status columns(zt_cu_call *c, const zt_cu_recurrent_args *a, zt_cu_ptr y, int64_t n,
                         zt_cu_ptr dg, int64_t step, zt_cu_ptr by, int64_t by_step)
{
    const zt_cu_columns_args k = {.a = dg,
                                  .b = by,
                                  .y = y,
                                  .rows = a->T * a->N,
                                  .columns = n,
                                  .a_step = step,
                                  .b_step = by_step};
    return zt_cu_launch(c, "zt_columns", zt_cu_grid(n, 128), (zt_cu_dim){128, 1, 1}, 0, &k,
                        sizeof k);
}

static zt_status emit_rnn_back(zt_cu_call *c)
{
    const zt_rnn_backward_attrs *at = c->attrs;
    zt_cu_recurrent_args a = {
        .dh0 = c->y[2], .reverse = at->reverse != 0, .other = at->act.s[0] == 'r'};
    zt_status s = back(c, "zt_rnn_back", 1, 2, &a);
    return s ? s : weights(c, &a, 0, 1, a.dg, a.H, 1, ZT_RNN_SAVED);
}

static zt_status emit_lstm_back(zt_cu_call *c)
{
    const zt_lstm_backward_attrs *at = c->attrs;
    zt_cu_recurrent_args a = {.peep = c->x[2],
                              .dcn = c->x[6],
                              .dh0 = c->y[2],
                              .dc0 = c->y[3],
                              .reverse = at->reverse != 0};
    static const struct {
        int gate, by; /* peepholes: of gate 0 and 1 the c before, of the last the new one */
    } peep[] = {{0, 5}, {1, 5}, {3, 4}};
    zt_status s = back(c, "zt_lstm_back", 4, 3, &a);
    if (!s) s = weights(c, &a, 0, 4, a.dg, 4 * a.H, 6, ZT_LSTM_SAVED);
    for (int k = 0; k < 3 && !s && c->y[4]; k++)
        s = columns(c, &a, offset(c->y[4], k * a.H), a.H, offset(a.dg, peep[k].gate * a.H), 4 * a.H,
                    offset(a.saved, peep[k].by * a.H), ZT_LSTM_SAVED * a.H);
    return s;
}

static zt_status emit_gru_back(zt_cu_call *c)
{
    const zt_gru_backward_attrs *at = c->attrs;
    zt_cu_recurrent_args a = {
        .dh0 = c->y[3], .reverse = at->reverse != 0, .other = !at->linear_before_reset};
    size_t bytes = (size_t)(c->in[0]->dim[0] * c->in[0]->dim[1] * c->in[1]->dim[1]) * sizeof(float);
    if (!(a.third = zt_cu_scratch(c, bytes))) return ZT_ENOMEM;
    zt_status s = zt_cu_fill(c, a.third, 0, bytes);
    if (!s) s = back(c, "zt_gru_back", 3, 2, &a);
    if (s) return s;
    int64_t H = a.H;
    zt_cu_ptr third = a.other ? offset(a.dg, 2 * H) : a.third;
    int64_t step = a.other ? 3 * H : H;
    s = weights(c, &a, 0, 2, a.dg, 3 * H, 4, ZT_GRU_SAVED);
    if (!s) s = weights(c, &a, 2, 1, third, step, a.other ? 3 : 4, ZT_GRU_SAVED);
    if (!c->y[2]) return s;
    if (!s) s = columns(c, &a, c->y[2], 2 * H, a.dg, 3 * H, 0, 0);
    return s ? s : columns(c, &a, offset(c->y[2], 2 * H), H, third, step, 0, 0);
}

const zt_cu_row zt_cu_recurrent[] = {
    {ZT_OP_rnn, has_forward, emit_rnn, 0},
    {ZT_OP_lstm, has_forward, emit_lstm, 0},
    {ZT_OP_gru, has_forward, emit_gru, 0},
    {ZT_OP_rnn_backward, has_back, emit_rnn_back, 0},
    {ZT_OP_lstm_backward, has_back, emit_lstm_back, 0},
    {ZT_OP_gru_backward, has_back, emit_gru_back, 0},
    {0},
};
