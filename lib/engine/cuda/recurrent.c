/* recurrent.c - rows of recurrences and of their gradients. */
#include "lib/ops/recurrent.h"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/args_nn.h"
#include "lib/engine/cuda/cu.h"

enum { THREADS = 256 };

/* `room`: numbers a unit in shared memory. */
static bool fits_shared(const zt_cu_engine *engine, int64_t batch, int64_t hidden, int room)
{
    return batch <= (int64_t)engine->max_grid[0] && zt_cu_has_shared(engine, (size_t)(hidden * room * 4));
}

static zt_cu_ptr offset_floats(zt_cu_ptr base, int64_t floats) { return base + (zt_cu_ptr)floats * sizeof(float); }

static zt_status launch_recurrent(zt_cu_call *call, const char *name, int room, const zt_cu_recurrent_args *args)
{
    if (args->H == 0) return ZT_OK;
    return zt_cu_launch(call, name, (zt_cu_dim){(unsigned)args->N, 1, 1}, (zt_cu_dim){THREADS, 1, 1},
                        (size_t)(args->H * room) * sizeof(float), args, sizeof *args);
}

/* ---- forward --------------------------------------------------------------------------------- */

enum { FORWARD_ROOM = 5 };

static bool has_forward(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                        const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    int64_t rows = input_types[0]->dim[0] * input_types[0]->dim[1];
    return fits_shared(engine, input_types[0]->dim[1], input_types[2]->dim[1], FORWARD_ROOM) && rows / 64 < engine->max_grid[1];
}

/* x, w_ih and w_hh are inputs 0 to 2, b input 3; the rest is in `a`, and saved at output `saved`.
 */
static zt_status run_forward(zt_cu_call *call, const char *name, int lengths, int saved, zt_cu_recurrent_args *args)
{
    const zt_type *x_type = call->input_types[0], *w_type = call->input_types[1];
    zt_cu_matmul_args product = {.a = call->inputs[0], .b = call->inputs[1], .a_col = 1, .b_row = 1};
    product.N = x_type->dim[0] * x_type->dim[1];
    product.K = product.a_row = product.b_col = x_type->dim[2];
    product.M = w_type->dim[0];
    product.y = zt_cu_scratch(call, (size_t)(product.N * product.M) * sizeof(float));
    if (!product.y) return ZT_ENOMEM;
    args->x = product.y;
    args->r = call->inputs[2];
    args->b = call->inputs[3];
    args->lengths = call->inputs[lengths];
    args->y = call->outputs[0];
    args->hn = call->outputs[1];
    args->saved = call->outputs[saved];
    args->trouble = call->error;
    args->T = x_type->dim[0];
    args->N = x_type->dim[1];
    args->H = call->input_types[2]->dim[1];
    zt_status status = zt_cu_multiply(call, &product);
    for (int k = 0; k < 4 && !status; k++)
        if (call->outputs[k] && (k == 0 || k == saved))
            status = zt_cu_fill(call, call->outputs[k], 0, zt_type_bytes(call->output_types[k]));
    return status ? status : launch_recurrent(call, name, FORWARD_ROOM, args);
}

static zt_status emit_rnn(zt_cu_call *call)
{
    const zt_rnn_attrs *attrs = call->attrs;
    zt_cu_recurrent_args args = {.h0 = call->inputs[4], .reverse = attrs->reverse != 0, .other = attrs->act.s[0] == 'r'};
    return run_forward(call, "zt_rnn", 5, 2, &args);
}

static zt_status emit_lstm(zt_cu_call *call)
{
    const zt_lstm_attrs *attrs = call->attrs;
    zt_cu_recurrent_args args = {.h0 = call->inputs[4],
                                 .c0 = call->inputs[5],
                                 .peep = call->inputs[6],
                                 .cn = call->outputs[2],
                                 .reverse = attrs->reverse != 0};
    return run_forward(call, "zt_lstm", 7, 3, &args);
}

static zt_status emit_gru(zt_cu_call *call)
{
    const zt_gru_attrs *attrs = call->attrs;
    zt_cu_recurrent_args args = {
        .rb = call->inputs[4], .h0 = call->inputs[5], .reverse = attrs->reverse != 0, .other = !attrs->linear_before_reset};
    return run_forward(call, "zt_gru", 6, 2, &args);
}

/* ---- gradients ------------------------------------------------------------------------------- */

enum { BACK_ROOM = 10 }; /* twice four gates, what is handed on, reset gates */

static bool has_back(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                     const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return fits_shared(engine, input_types[0]->dim[1], input_types[1]->dim[1], BACK_ROOM);
}

/* saved and w_hh are inputs 0 and 1; lengths, dy and dhn follow from `lengths` on. */
static zt_status run_backward(zt_cu_call *call, const char *name, int gates, int lengths, zt_cu_recurrent_args *args)
{
    args->saved = call->inputs[0];
    args->r = call->inputs[1];
    args->lengths = call->inputs[lengths];
    args->dy = call->inputs[lengths + 1];
    args->dhn = call->inputs[lengths + 2];
    args->trouble = call->error;
    args->T = call->input_types[0]->dim[0];
    args->N = call->input_types[0]->dim[1];
    args->H = call->input_types[1]->dim[1];
    size_t bytes = (size_t)(args->T * args->N * args->H * gates) * sizeof(float);
    args->dg = call->outputs[0] ? call->outputs[0] : zt_cu_scratch(call, bytes);
    if (!args->dg) return ZT_ENOMEM;
    zt_status status = zt_cu_fill(call, args->dg, 0, bytes);
    return status ? status : launch_recurrent(call, name, BACK_ROOM, args);
}

/* dw_hh of `gates` gates from gate `first` on: dg, `step` numbers a row, times what they were
 * multiplied by, part `part` of `parts` in saved. */
static zt_status weight_gradient(zt_cu_call *call, const zt_cu_recurrent_args *args, int first, int gates, zt_cu_ptr dg,
                                 int64_t step, int part, int parts)
{
    // clang-format off
    const zt_cu_matmul_args product = {.a = dg,
                                 .b = offset_floats(args->saved, part * args->H),
                                 .y = offset_floats(call->outputs[1], first * args->H * args->H),
                                 .N = gates * args->H,
                                 .K = args->T * args->N,
                                 .M = args->H,
                                 .a_row = 1,
                                 .a_col = step,
                                 .b_row = parts * args->H,
                                 .b_col = 1};
    // clang-format on
    return call->outputs[1] ? zt_cu_multiply(call, &product) : ZT_OK;
}

static zt_status column_sums(zt_cu_call *call, const zt_cu_recurrent_args *args, zt_cu_ptr y, int64_t column_count, zt_cu_ptr dg,
                             int64_t step, zt_cu_ptr by, int64_t by_step)
{
    const zt_cu_columns_args k = {
        .a = dg, .b = by, .y = y, .rows = args->T * args->N, .columns = column_count, .a_step = step, .b_step = by_step};
    return zt_cu_launch(call, "zt_columns", zt_cu_grid(column_count, 128), (zt_cu_dim){128, 1, 1}, 0, &k, sizeof k);
}

static zt_status emit_rnn_back(zt_cu_call *call)
{
    const zt_rnn_backward_attrs *attrs = call->attrs;
    zt_cu_recurrent_args args = {.dh0 = call->outputs[2], .reverse = attrs->reverse != 0, .other = attrs->act.s[0] == 'r'};
    zt_status status = run_backward(call, "zt_rnn_back", 1, 2, &args);
    return status ? status : weight_gradient(call, &args, 0, 1, args.dg, args.H, 1, ZT_RNN_SAVED);
}

static zt_status emit_lstm_back(zt_cu_call *call)
{
    const zt_lstm_backward_attrs *attrs = call->attrs;
    zt_cu_recurrent_args args = {.peep = call->inputs[2],
                                 .dcn = call->inputs[6],
                                 .dh0 = call->outputs[2],
                                 .dc0 = call->outputs[3],
                                 .reverse = attrs->reverse != 0};
    static const struct {
        int gate, by; /* peepholes: of gate 0 and 1 the c before, of the last the new one */
    } peep[] = {{0, 5}, {1, 5}, {3, 4}};
    zt_status status = run_backward(call, "zt_lstm_back", 4, 3, &args);
    if (!status) status = weight_gradient(call, &args, 0, 4, args.dg, 4 * args.H, 6, ZT_LSTM_SAVED);
    for (int k = 0; k < 3 && !status && call->outputs[4]; k++)
        status = column_sums(call, &args, offset_floats(call->outputs[4], k * args.H), args.H,
                             offset_floats(args.dg, peep[k].gate * args.H), 4 * args.H,
                             offset_floats(args.saved, peep[k].by * args.H), ZT_LSTM_SAVED * args.H);
    return status;
}

static zt_status emit_gru_back(zt_cu_call *call)
{
    const zt_gru_backward_attrs *attrs = call->attrs;
    zt_cu_recurrent_args args = {.dh0 = call->outputs[3], .reverse = attrs->reverse != 0, .other = !attrs->linear_before_reset};
    size_t bytes =
        (size_t)(call->input_types[0]->dim[0] * call->input_types[0]->dim[1] * call->input_types[1]->dim[1]) * sizeof(float);
    if (!(args.third = zt_cu_scratch(call, bytes))) return ZT_ENOMEM;
    zt_status status = zt_cu_fill(call, args.third, 0, bytes);
    if (!status) status = run_backward(call, "zt_gru_back", 3, 2, &args);
    if (status) return status;
    int64_t H = args.H;
    zt_cu_ptr third = args.other ? offset_floats(args.dg, 2 * H) : args.third;
    int64_t step = args.other ? 3 * H : H;
    status = weight_gradient(call, &args, 0, 2, args.dg, 3 * H, 4, ZT_GRU_SAVED);
    if (!status) status = weight_gradient(call, &args, 2, 1, third, step, args.other ? 3 : 4, ZT_GRU_SAVED);
    if (!call->outputs[2]) return status;
    if (!status) status = column_sums(call, &args, call->outputs[2], 2 * H, args.dg, 3 * H, 0, 0);
    return status ? status : column_sums(call, &args, offset_floats(call->outputs[2], 2 * H), H, third, step, 0, 0);
}

const zt_cu_row zt_cu_recurrent[] = {
    {.op = ZT_OP_rnn, .has = has_forward, .emit = emit_rnn},
    {.op = ZT_OP_lstm, .has = has_forward, .emit = emit_lstm},
    {.op = ZT_OP_gru, .has = has_forward, .emit = emit_gru},
    {.op = ZT_OP_rnn_backward, .has = has_back, .emit = emit_rnn_back},
    {.op = ZT_OP_lstm_backward, .has = has_back, .emit = emit_lstm_back},
    {.op = ZT_OP_gru_backward, .has = has_back, .emit = emit_gru_back},
    {0},
};
