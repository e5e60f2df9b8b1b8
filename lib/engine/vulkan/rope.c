/* rope.c - rotary positions. */
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/rope.h"

#include <math.h>
#include <string.h>

/* Quarter turns a position of pair i. */
static double quarters_of(const zt_rope_attrs *attrs, int64_t i, int64_t dims)
{
    return zt_rope_scale(attrs, i) * pow(attrs->theta, -2 * (double)i / (double)dims) / M_PI_2;
}

static int64_t rope_head(const zt_rope_attrs *attrs, const zt_type *rows)
{
    return attrs->head ? attrs->head : attrs->dims ? attrs->dims : rows->dim[rows->rank - 1];
}

/* Whole turns a position may be left out, but not before a division: with divisors, which are known
 * only when it runs, frequencies must be below one. */
static bool rope_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_rope_attrs *rope = attrs;
    int64_t dims = rope->dims ? rope->dims : rope_head(rope, input_types[0]);
    (void)out;
    for (int64_t i = 0; input_types[2] && i < dims / 2; i++) {
        double quarters = quarters_of(rope, i, dims);
        if (!(quarters >= 0 && quarters < 4)) return false;
    }
    return zt_vk_is_float(input_types[0]->dtype) && input_types[0]->dim[0] <= engine->groups[1];
}

static zt_status set_rope(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rope_attrs *attrs = call->attrs;
    const zt_type *rotated = call->in[0];
    int64_t rows = rotated->dim[0], cols = rows ? zt_type_count(rotated) / rows : 0;
    int64_t head = rope_head(attrs, rotated), dims = attrs->dims ? attrs->dims : head;
    float amplitude = (float)attrs->amplitude;
    call->shader = ZT_VK_SHADER_rope;
    call->word[0] = (uint32_t)cols;
    call->word[1] = (uint32_t)head;
    call->word[2] = (uint32_t)dims;
    call->word[3] = !strcmp(attrs->pair.s, "neighbours");
    memcpy(&call->word[4], &amplitude, sizeof amplitude);
    call->groups[0] = (uint32_t)((cols + 63) / 64);
    call->groups[1] = (uint32_t)rows;
    call->groups[2] = 1;
    call->table_words = (size_t)dims;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    for (int64_t i = 0; i < dims / 2; i++) {
        double quarters = quarters_of(attrs, i, dims);
        quarters -= 4 * floor(quarters / 4); /* a position is whole: whole turns do not count */
        uint64_t fixed = (uint64_t)ldexp(quarters, 62);
        call->table[2 * i] = (uint32_t)fixed;
        call->table[2 * i + 1] = (uint32_t)(fixed >> 32);
    }
    return ZT_OK;
}

const zt_vk_kernel zt_vk_rope[] = {
    {.op = ZT_OP_rope, .has = rope_has, .set = set_rope},
    {0},
};
