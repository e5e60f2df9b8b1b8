/* kv_cache.c - keys and values into their caches: kv_put, and rope_put, which norms and turns queries and keys before. */
#include "lib/engine/vulkan/norm.h"
#include "lib/engine/vulkan/rope.h"
#include "lib/ops/rope.h"
#include "lib/tensor/block_row.h"

/* ---- kv_put ---------------------------------------------------------------------------------- */

static bool kv_put_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return !zt_is_block_cache(input_types[0]->dtype) && input_types[1]->dim[0] <= engine->groups[1];
}

/* Rows of x into a cache; the inputs from `pos` on are pos, seq and table. */
static void set_put(zt_vk_call *call, int cache, const zt_type *x_type, zt_vk_arg x, int pos)
{
    const zt_type *type = call->in[cache];
    call->shader = ZT_VK_SHADER_kv_cache;
    call->spec[0] = type->dtype == ZT_F16;
    call->word[0] = (uint32_t)type->dim[1];
    zt_vk_set_slots(call, 1, type, call->in[pos + 2]);
    call->groups[0] = (call->word[0] + 63) / 64;
    call->groups[1] = (uint32_t)x_type->dim[0];
    call->groups[2] = 1;
    ZT_VK_ARGS(call, zt_vk_in(cache), x, zt_vk_in(pos), zt_vk_in(pos + 1), zt_vk_in(pos + 2));
}

static zt_status set_kv_put(zt_vk_engine *engine, zt_vk_call *call)
{
    (void)engine;
    set_put(call, 0, call->in[1], zt_vk_in(1), 2);
    return ZT_OK;
}

/* ---- rope_put -------------------------------------------------------------------------------- */

enum { KC, VC, Q, K, V, POS, SEQ, TABLE, TAB, GQ, GK }; /* inputs */

static bool rope_put_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    (void)out;
    if (zt_is_block_cache(input_types[KC]->dtype) || zt_is_block_cache(input_types[VC]->dtype)) return false;
    for (int input = Q; input <= V; input++)
        if (input_types[input]->dtype != ZT_F32 || !zt_vk_has_rope(engine, &rope, input_types[input], input_types[TAB]))
            return false;
    return true;
}

/* q or k, normed where there are gains, and turned into y. */
static zt_status rotate_input(zt_vk_engine *engine, zt_vk_call *call, int input, int gain, zt_vk_arg y)
{
    const zt_rope_put_attrs *attrs = call->attrs;
    const zt_rope_attrs rope = zt_rope_put_rope(attrs);
    const zt_type *x = call->in[input];
    zt_vk_arg from = zt_vk_in(input);
    zt_status status = ZT_OK;
    if (call->in[gain]) {
        const int64_t columns = attrs->norm_dims ? attrs->norm_dims : zt_vk_last_dim(x);
        from = zt_vk_scratch(call, zt_type_bytes(x));
        zt_vk_set_rms_norm(engine, call, columns, columns ? zt_type_count(x) / columns : 0, attrs->eps);
        call->spec[ZT_VK_FLOATS] = 0;
        ZT_VK_ARGS(call, zt_vk_in(input), zt_vk_in(gain), from, zt_vk_none());
        status = zt_vk_then(engine, call);
    }
    if (status) return status;
    zt_vk_set_rope(engine, call, &rope, x);
    ZT_VK_ARGS(call, from, zt_vk_in(POS), zt_vk_in(TAB), zt_vk_table(0), y);
    return zt_vk_then(engine, call);
}

static zt_status set_rope_put(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rope_attrs rope = zt_rope_put_rope(call->attrs);
    const zt_vk_arg k = zt_vk_scratch(call, zt_type_bytes(call->in[K]));
    zt_status status = zt_vk_put_angles(engine, call, &rope, call->in[Q]);
    if (!status) status = rotate_input(engine, call, K, GK, k);
    if (!status && call->wanted[2]) status = rotate_input(engine, call, Q, GQ, zt_vk_out(2));
    if (status) return status;
    set_put(call, KC, call->in[K], k, POS);
    status = zt_vk_then(engine, call);
    set_put(call, VC, call->in[V], zt_vk_in(V), POS);
    return status;
}

const zt_vk_kernel zt_vk_kv_cache[] = {
    {.op = ZT_OP_kv_put, .has = kv_put_has, .set = set_kv_put, .contract = zt_vk_always},
    {.op = ZT_OP_rope_put, .has = rope_put_has, .set = set_rope_put, .contract = zt_vk_with_f64},
    {0},
};
