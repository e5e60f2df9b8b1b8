/* kv_cache.c - keys and values into their caches: kv_put, and rope_put, which rotates queries and keys before. */
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/rope.h"
#include "lib/ops/rope.h"
#include "lib/tensor/block_row.h"

#include <string.h>

/* ---- kv_put ---------------------------------------------------------------------------------- */

zt_cu_slots zt_cu_slots_of(const zt_cu_call *call, const zt_type *cache, int pos)
{
    const zt_type *table = call->input_types[pos + 2];
    int64_t ctx = cache->dim[0];
    zt_cu_slots slots = {.pos = call->inputs[pos], .seq = call->inputs[pos + 1], .ctx = ctx, .S = 1, .B = 1, .block = ctx};
    if (!table) return slots;
    slots.table = call->inputs[pos + 2];
    slots.S = table->dim[0];
    slots.B = table->dim[1];
    slots.block = ctx / slots.B;
    return slots;
}

static zt_status launch_put(zt_cu_call *call, const zt_type *cache, zt_cu_ptr to, zt_cu_ptr x, int64_t row_count, int pos)
{
    zt_cu_put_args args = {.cache = to,
                           .x = x,
                           .trouble = call->error,
                           .slots = zt_cu_slots_of(call, cache, pos),
                           .n = row_count,
                           .W = cache->dim[1]};
    return zt_cu_launch(call, cache->dtype == ZT_F16 ? "zt_put_f16" : "zt_put_f32",
                        (zt_cu_dim){(unsigned)row_count, (unsigned)((args.W + 1023) / 1024 + !args.W), 1}, (zt_cu_dim){128, 1, 1},
                        0, &args, sizeof args);
}

static bool has_put(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                    const zt_type output_types[])
{
    (void)attrs, (void)output_types;
    return !zt_is_block_cache(input_types[0]->dtype) && input_types[1]->dim[0] <= (int64_t)engine->max_grid[0] &&
           input_types[0]->dim[1] <= 1024 * (int64_t)engine->max_grid[1];
}

static zt_status emit_put(zt_cu_call *call)
{
    return launch_put(call, call->input_types[0], call->outputs[0], call->inputs[1], call->input_types[1]->dim[0], 2);
}

/* ---- rope_put -------------------------------------------------------------------------------- */

enum { KC, VC, Q, K, V, POS, SEQ, TABLE, TAB, GQ, GK }; /* inputs */

static bool has_rope_put(const zt_cu_engine *engine, const void *attrs, const zt_type *const input_types[],
                         const zt_type output_types[])
{
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    (void)output_types;
    if (zt_is_block_cache(input_types[KC]->dtype) || zt_is_block_cache(input_types[VC]->dtype)) return false;
    for (int input = Q; input <= K; input++)
        if (!zt_cu_rope_fits(engine, &rope, input_types[input]) ||
            zt_type_count(input_types[input]) > (int64_t)engine->max_grid[0])
            return false;
    return input_types[KC]->dim[1] <= 1024 * (int64_t)engine->max_grid[1];
}

/* q or k, normed where there is a weight for it, and turned into y. */
static zt_status rotate_input(zt_cu_call *call, int input, int gain, zt_cu_ptr output)
{
    const zt_rope_put_attrs *attrs = call->attrs;
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    zt_cu_ptr from = call->inputs[input];
    zt_status status = ZT_OK;
    if (call->input_types[gain]) {
        from = zt_cu_scratch(call, zt_type_bytes(call->input_types[input]));
        if (!from) return ZT_ENOMEM;
        status = zt_cu_rms_norm(call, call->input_types[input], call->inputs[input], call->inputs[gain], attrs->eps,
                                attrs->norm_dims, from);
    }
    return status ? status
                  : zt_cu_launch_rope(call, &rope, call->input_types[input], from, call->inputs[POS], call->inputs[TAB], output);
}

/* Norms that a warp makes as a block of theirs would: heads that a team of 32 has. */
static bool norms_heads(const zt_cu_call *call, int64_t head)
{
    const zt_rope_put_attrs *attrs = call->attrs;
    for (int input = 0; input < 2; input++) {
        const zt_type *type = call->input_types[Q + input];
        int64_t columns = attrs->norm_dims ? attrs->norm_dims : type->dim[type->rank - 1];
        if (call->input_types[GQ + input] && (columns != head || zt_cu_norm_team(columns) != 32)) return false;
    }
    return true;
}

/* All of it in one launch: false where that has no way. */
static bool is_rope_kv_write(const zt_cu_call *call, int64_t head)
{
    if (call->engine->base.strict_bits && (call->input_types[GQ] || call->input_types[GK])) return false;
    for (int input = Q; input <= V; input++)
        if (call->input_types[input]->dtype != ZT_F32) return false;
    for (int gain = GQ; gain <= GK; gain++)
        if (call->input_types[gain] && call->input_types[gain]->dtype != ZT_F32) return false;
    return call->input_types[KC]->dtype == call->input_types[VC]->dtype && call->input_types[KC]->dim[1] % head == 0 &&
           norms_heads(call, head);
}

static zt_status launch_rope_kv_write(zt_cu_call *call, const zt_rope_attrs *rope)
{
    const zt_type *q_type = call->input_types[Q];
    int64_t row_count = q_type->dim[0], head = zt_cu_rope_head(rope, q_type), dims = zt_cu_rope_dims(rope, q_type);
    double turns[ZT_CU_PAIRS];
    zt_cu_rope_quarter_turns(rope, dims, turns);
    // clang-format off
    zt_cu_rope_kv_write_args args = {.q = call->inputs[Q],
                         .k = call->inputs[K],
                         .v = call->inputs[V],
                         .y = call->outputs[2],
                         .kc = call->outputs[0],
                         .vc = call->outputs[1],
                         .gq = call->inputs[GQ],
                         .gk = call->inputs[GK],
                         .trouble = call->error,
                         .turns = zt_cu_table(call, turns, (size_t)dims / 2 * sizeof *turns),
                         .tab = call->inputs[TAB],
                         .slots = zt_cu_slots_of(call, call->input_types[KC], POS),
                         .n = row_count,
                         .head = head,
                         .half = dims / 2,
                         .heads = row_count ? zt_type_count(q_type) / row_count / head : 0,
                         .k_heads = call->input_types[KC]->dim[1] / head,
                         .v_width = call->input_types[VC]->dim[1],
                         .eps = ((const zt_rope_put_attrs *)call->attrs)->eps,
                         .amplitude = (float)rope->amplitude,
                         .neighbours = !strcmp(rope->pair.s, "neighbours"),
                         .cache_type = (int32_t)call->input_types[KC]->dtype};
    // clang-format on
    int64_t all = args.heads + args.k_heads + (args.v_width + head - 1) / head;
    if (!args.turns) return ZT_ENOMEM;
    return zt_cu_launch(call, "zt_rope_kv_write", zt_cu_grid(row_count * ((all + 7) / 8), 1), (zt_cu_dim){256, 1, 1}, 0, &args,
                        sizeof args);
}

static zt_status emit_rope_put(zt_cu_call *call)
{
    const zt_rope_attrs rope = zt_rope_put_rope(call->attrs);
    int64_t row_count = call->input_types[Q]->dim[0];
    if (is_rope_kv_write(call, zt_cu_rope_head(&rope, call->input_types[Q]))) return launch_rope_kv_write(call, &rope);
    zt_cu_ptr k = zt_cu_scratch(call, zt_type_bytes(call->input_types[K]));
    zt_status status = k ? rotate_input(call, K, GK, k) : ZT_ENOMEM;
    if (!status && call->outputs[2]) status = rotate_input(call, Q, GQ, call->outputs[2]);
    if (!status) status = launch_put(call, call->input_types[KC], call->outputs[0], k, row_count, POS);
    return status ? status : launch_put(call, call->input_types[VC], call->outputs[1], call->inputs[V], row_count, POS);
}

static bool rope_put_contract(zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)op, (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32 && in[K]->dtype == ZT_F32;
}

const zt_cu_row zt_cu_kv_cache[] = {
    {.op = ZT_OP_kv_put, .has = has_put, .emit = emit_put, .contract = zt_cu_always},
    {.op = ZT_OP_rope_put, .has = has_rope_put, .emit = emit_rope_put, .contract = rope_put_contract},
    {.emit = NULL},
};
