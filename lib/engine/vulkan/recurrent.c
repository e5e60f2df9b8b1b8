/* recurrent.c - recurrences over sequences and their gradients: what does not depend on the step before
 * (w_ih x, and the gradients of weights) are products of their own. */
#include "lib/ops/recurrent.h"
#include "lib/engine/vulkan/matmul.h"

enum { RNN, LSTM, GRU }; /* as shaders/recurrent.glsl has them */
enum { SMALL_ROOM = 4096, FEW_INVOCATIONS = 64, INVOCATIONS = 256, LARGE_LANES = 32 };

static const struct {
    int gates, saved, state_room, back_room; /* numbers of a unit in shared memory */
} kinds[] = {{1, ZT_RNN_SAVED, 2, 3}, {4, ZT_LSTM_SAVED, 3, 6}, {3, ZT_GRU_SAVED, 4, 6}};

static bool fits_room(const zt_vk_engine *engine, int64_t hidden, int room)
{
    return hidden * room * (int64_t)sizeof(float) <= (int64_t)engine->shared_bytes;
}

static uint32_t room_of(const zt_vk_engine *engine, int64_t floats)
{
    return floats <= SMALL_ROOM ? SMALL_ROOM : engine->shared_bytes / (uint32_t)sizeof(float);
}

/* ---- what both directions share -------------------------------------------------------------- */

typedef struct recurrence {
    int kind;
    bool reverse, other; /* other: relu; gru with the reset before w_hh */
    int64_t T, N, H;
} recurrence;

static void set_sequences(const zt_vk_engine *engine, zt_vk_call *call, const recurrence *loop, int room)
{
    call->spec[0] = (uint32_t)loop->kind;
    call->spec[1] = room_of(engine, loop->H * room);
    call->spec[2] = engine->lanes >= LARGE_LANES ? INVOCATIONS : FEW_INVOCATIONS;
    call->word[10] = (uint32_t)loop->T;
    call->word[11] = (uint32_t)loop->N;
    call->word[12] = (uint32_t)loop->H;
    call->word[13] = loop->reverse;
    call->word[14] = loop->other;
    zt_vk_group_each(engine, call, 15, loop->H ? loop->N : 0);
}

static zt_vk_arg skip_floats(zt_vk_arg arg, int64_t floats)
{
    arg.offset += (size_t)floats * sizeof(float);
    return arg;
}

/* Zeros, where a sequence may be shorter than others. */
static zt_status clear_output(zt_vk_call *call, int output)
{
    return call->wanted[output] ? zt_vk_fill(call, zt_vk_out(output), zt_type_bytes(&call->out[output]), 0) : ZT_OK;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* x, w_ih, w_hh and b are inputs 0 to 3; the others' places among inputs and outputs, -1: none. */
typedef struct forward_places {
    int more_bias, h0, c0, peep, lengths, cn, saved;
} forward_places;

static zt_vk_arg input_of(int place) { return place < 0 ? zt_vk_none() : zt_vk_in(place); }
static zt_vk_arg output_of(int place) { return place < 0 ? zt_vk_none() : zt_vk_out(place); }

/* w_hh [gates*H,H] to [H,gates*H]. */
static zt_status transpose_weights(zt_vk_engine *engine, zt_vk_call *call, const recurrence *loop, zt_vk_arg to)
{
    const int64_t rows = kinds[loop->kind].gates * loop->H;
    call->shader = ZT_VK_SHADER_recurrent_transpose;
    call->word[0] = (uint32_t)(rows * loop->H);
    call->word[1] = (uint32_t)rows;
    call->word[2] = (uint32_t)loop->H;
    ZT_VK_ARGS(call, zt_vk_in(2), to);
    zt_vk_spread(engine, call, rows * loop->H, 64);
    return zt_vk_then(engine, call);
}

static zt_status run_forward(zt_vk_engine *engine, zt_vk_call *call, recurrence loop, const forward_places *at)
{
    const int64_t gates = kinds[loop.kind].gates, K = call->in[0]->dim[2];
    loop.T = call->in[0]->dim[0];
    loop.N = call->in[0]->dim[1];
    loop.H = call->in[2]->dim[1];
    const zt_vk_arg incoming = zt_vk_scratch(call, (size_t)(loop.T * loop.N * gates * loop.H) * sizeof(float));
    const zt_vk_arg weights = zt_vk_scratch(call, (size_t)(gates * loop.H * loop.H) * sizeof(float));
    const zt_vk_product product = {.a = zt_vk_in(0),
                                   .b = zt_vk_in(1),
                                   .y = incoming,
                                   .N = loop.T * loop.N,
                                   .K = K,
                                   .M = gates * loop.H,
                                   .batches = 1,
                                   .a_row = K,
                                   .a_column = 1,
                                   .b_row = 1,
                                   .b_column = K};
    zt_status status = ZT_OK;
    if (call->in[at->lengths]) status = clear_output(call, 0);
    if (!status && call->in[at->lengths]) status = clear_output(call, at->saved);
    if (status) return status;
    zt_vk_multiply(engine, call, &product);
    status = zt_vk_then(engine, call);
    if (!status) status = transpose_weights(engine, call, &loop, weights);
    if (status) return status;
    call->shader = ZT_VK_SHADER_recurrent;
    ZT_VK_ARGS(call, incoming, weights, zt_vk_in(3), input_of(at->more_bias), zt_vk_in(at->h0), input_of(at->c0),
               input_of(at->peep), zt_vk_in(at->lengths), zt_vk_out(0), zt_vk_out(1), output_of(at->cn), zt_vk_out(at->saved));
    set_sequences(engine, call, &loop, kinds[loop.kind].state_room);
    return ZT_OK;
}

static zt_status set_rnn(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rnn_attrs *attrs = call->attrs;
    const recurrence loop = {.kind = RNN, .reverse = attrs->reverse != 0, .other = attrs->act.s[0] == 'r'};
    return run_forward(engine, call, loop, &(forward_places){-1, 4, -1, -1, 5, -1, 2});
}

static zt_status set_lstm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_lstm_attrs *attrs = call->attrs;
    const recurrence loop = {.kind = LSTM, .reverse = attrs->reverse != 0};
    return run_forward(engine, call, loop, &(forward_places){-1, 4, 5, 6, 7, 2, 3});
}

static zt_status set_gru(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gru_attrs *attrs = call->attrs;
    const recurrence loop = {.kind = GRU, .reverse = attrs->reverse != 0, .other = !attrs->linear_before_reset};
    return run_forward(engine, call, loop, &(forward_places){4, 5, -1, -1, 6, -1, 2});
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* saved and w_hh are inputs 0 and 1, dy and dhn follow the lengths; dg and dw_hh are outputs 0 and 1. */
typedef struct backward_places {
    int peep, lengths, dcn, dh0, dc0;
} backward_places;

/* The gradients of gates and of first states; *dg is where those of gates are. */
static zt_status run_backward(zt_vk_engine *engine, zt_vk_call *call, recurrence *loop, const backward_places *at,
                              zt_vk_arg third, zt_vk_arg *dg)
{
    const int64_t gates = kinds[loop->kind].gates;
    loop->T = call->in[0]->dim[0];
    loop->N = call->in[0]->dim[1];
    loop->H = call->in[1]->dim[1];
    const size_t unit_bytes = (size_t)(loop->T * loop->N * loop->H) * sizeof(float), bytes = unit_bytes * (size_t)gates;
    *dg = call->wanted[0] ? zt_vk_out(0) : zt_vk_scratch(call, bytes);
    zt_status status = call->in[at->lengths] ? zt_vk_fill(call, *dg, bytes, 0) : ZT_OK;
    if (!status && call->in[at->lengths] && third.kind != ZT_VK_ARG_NONE) status = zt_vk_fill(call, third, unit_bytes, 0);
    if (status) return status;
    call->shader = ZT_VK_SHADER_recurrent_backward;
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), input_of(at->peep), zt_vk_in(at->lengths + 1), zt_vk_in(at->lengths + 2),
               input_of(at->dcn), *dg, zt_vk_in(at->lengths), zt_vk_out(at->dh0), output_of(at->dc0), third);
    set_sequences(engine, call, loop, kinds[loop->kind].back_room);
    return zt_vk_then(engine, call);
}

/* dw_hh of `gates` gates from gate `first` on: dg, `step` numbers a row, times what they were multiplied
 * by, part `part` of saved. */
static zt_status weight_gradient(zt_vk_engine *engine, zt_vk_call *call, const recurrence *loop, int first, int gates,
                                 zt_vk_arg dg, int64_t step, int part)
{
    const int64_t H = loop->H;
    const zt_vk_product product = {.a = dg,
                                   .b = skip_floats(zt_vk_in(0), part * H),
                                   .y = skip_floats(zt_vk_out(1), first * H * H),
                                   .N = gates * H,
                                   .K = loop->T * loop->N,
                                   .M = H,
                                   .batches = 1,
                                   .a_row = 1,
                                   .a_column = step,
                                   .b_row = kinds[loop->kind].saved * H,
                                   .b_column = 1};
    if (!call->wanted[1]) return ZT_OK;
    zt_vk_multiply(engine, call, &product);
    return zt_vk_then(engine, call);
}

/* y: sums over rows of columns of dg, each times a part of saved where `by` names one. */
static zt_status column_sums(zt_vk_engine *engine, zt_vk_call *call, const recurrence *loop, zt_vk_arg y, int64_t columns,
                             zt_vk_arg dg, int64_t step, int by)
{
    const int64_t H = loop->H;
    call->shader = ZT_VK_SHADER_recurrent_sums;
    call->word[0] = (uint32_t)columns;
    call->word[1] = (uint32_t)(loop->T * loop->N);
    call->word[2] = (uint32_t)step;
    call->word[3] = (uint32_t)(kinds[loop->kind].saved * H);
    ZT_VK_ARGS(call, dg, by < 0 ? zt_vk_none() : skip_floats(zt_vk_in(0), by * H), y);
    zt_vk_spread(engine, call, columns, 64);
    return zt_vk_then(engine, call);
}

static zt_status set_rnn_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rnn_backward_attrs *attrs = call->attrs;
    recurrence loop = {.kind = RNN, .reverse = attrs->reverse != 0, .other = attrs->act.s[0] == 'r'};
    zt_vk_arg dg;
    zt_status status = run_backward(engine, call, &loop, &(backward_places){-1, 2, -1, 2, -1}, zt_vk_none(), &dg);
    return status ? status : weight_gradient(engine, call, &loop, 0, 1, dg, loop.H, 1);
}

static zt_status set_lstm_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_lstm_backward_attrs *attrs = call->attrs;
    recurrence loop = {.kind = LSTM, .reverse = attrs->reverse != 0};
    static const struct {
        int gate, by; /* peepholes: of gates 0 and 1 the c before, of the last the new one */
    } peep[] = {{0, 5}, {1, 5}, {3, 4}};
    zt_vk_arg dg;
    zt_status status = run_backward(engine, call, &loop, &(backward_places){2, 3, 6, 2, 3}, zt_vk_none(), &dg);
    if (!status) status = weight_gradient(engine, call, &loop, 0, 4, dg, 4 * loop.H, 6);
    for (int k = 0; k < 3 && !status && call->wanted[4]; k++)
        status = column_sums(engine, call, &loop, skip_floats(zt_vk_out(4), k * loop.H), loop.H,
                             skip_floats(dg, peep[k].gate * loop.H), 4 * loop.H, peep[k].by);
    return status;
}

static zt_status set_gru_backward(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_gru_backward_attrs *attrs = call->attrs;
    recurrence loop = {.kind = GRU, .reverse = attrs->reverse != 0, .other = !attrs->linear_before_reset};
    const int64_t units = call->in[0]->dim[0] * call->in[0]->dim[1] * call->in[1]->dim[1], H = call->in[1]->dim[1];
    zt_vk_arg dg, apart = loop.other ? zt_vk_none() : zt_vk_scratch(call, (size_t)units * sizeof(float));
    zt_status status = run_backward(engine, call, &loop, &(backward_places){-1, 2, -1, 3, -1}, apart, &dg);
    const zt_vk_arg third = loop.other ? skip_floats(dg, 2 * H) : apart;
    const int64_t step = loop.other ? 3 * H : H;
    if (!status) status = weight_gradient(engine, call, &loop, 0, 2, dg, 3 * H, 4);
    if (!status) status = weight_gradient(engine, call, &loop, 2, 1, third, step, loop.other ? 3 : 4);
    if (!call->wanted[2]) return status;
    if (!status) status = column_sums(engine, call, &loop, zt_vk_out(2), 2 * H, dg, 3 * H, -1);
    return status ? status : column_sums(engine, call, &loop, skip_floats(zt_vk_out(2), 2 * H), H, third, step, -1);
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define HAS(NAME, KIND, WEIGHT, ROOM)                                                                                            \
    static bool has_##NAME(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])        \
    {                                                                                                                            \
        (void)attrs, (void)out;                                                                                                  \
        return fits_room(engine, in[WEIGHT]->dim[1], kinds[KIND].ROOM);                                                          \
    }
HAS(rnn, RNN, 2, state_room)
HAS(lstm, LSTM, 2, state_room)
HAS(gru, GRU, 2, state_room)
HAS(rnn_backward, RNN, 1, back_room)
HAS(lstm_backward, LSTM, 1, back_room)
HAS(gru_backward, GRU, 1, back_room)

const zt_vk_kernel zt_vk_recurrent[] = {
    {.op = ZT_OP_rnn, .has = has_rnn, .set = set_rnn},
    {.op = ZT_OP_lstm, .has = has_lstm, .set = set_lstm},
    {.op = ZT_OP_gru, .has = has_gru, .set = set_gru},
    {.op = ZT_OP_rnn_backward, .has = has_rnn_backward, .set = set_rnn_backward},
    {.op = ZT_OP_lstm_backward, .has = has_lstm_backward, .set = set_lstm_backward},
    {.op = ZT_OP_gru_backward, .has = has_gru_backward, .set = set_gru_backward},
    {0},
};
