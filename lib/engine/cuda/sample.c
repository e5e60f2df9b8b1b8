/* sample.c - the row of op sample_token: a language model's next token, chosen where its logits are. */
#include "lib/engine/cuda/args_sample.h"
#include "lib/engine/cuda/cu.h"

/* Threads of a row's block: of a short row fewer. */
enum { SHORT_ROW = 4096, SHORT_ROW_THREADS = 256, LONG_ROW_THREADS = 1024 };

static bool sample_has(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                       const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return zt_cu_is_float(input_types[0]->dtype) && input_types[0]->dim[0] <= (int64_t)engine->max_grid[0];
}

static zt_status emit_sample(zt_cu_call *call)
{
    const zt_type *x_type = call->input_types[0], *recent = call->input_types[7], *banned = call->input_types[8];
    // clang-format off
    zt_cu_sample_args args = {.x = call->inputs[0],
                           .u = call->inputs[1],
                           .temp = call->inputs[2],
                           .top_k = call->inputs[3],
                           .top_p = call->inputs[4],
                           .min_p = call->inputs[5],
                           .penalty = call->inputs[6],
                           .recent = call->inputs[7],
                           .banned = call->inputs[8],
                           .y = call->outputs[0],
                           .n = x_type->dim[1],
                           .n_recent = recent ? recent->dim[1] : 0,
                           .n_banned = banned ? banned->dim[banned->rank - 1] : 0,
                           .x_type = (int32_t)x_type->dtype,
                           .own = banned && banned->rank == 2};
    // clang-format on
    args.orders = zt_cu_scratch(call, (size_t)zt_type_count(x_type) * sizeof(uint32_t));
    if (!args.orders) return ZT_ENOMEM;
    return zt_cu_launch(call, "zt_cu_sample", (zt_cu_dim){(unsigned)x_type->dim[0], 1, 1},
                        (zt_cu_dim){args.n <= SHORT_ROW ? SHORT_ROW_THREADS : LONG_ROW_THREADS, 1, 1}, 0, &args, sizeof args);
}

const zt_cu_row zt_cu_sample[] = {
    {.op = ZT_OP_sample_token, .has = sample_has, .emit = emit_sample},
    {.emit = NULL},
};
