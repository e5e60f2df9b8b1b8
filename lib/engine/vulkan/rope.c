/* rope.c - rotary positions: from positions, by tables, and after norms of queries and keys. */
#include "lib/engine/vulkan/rope.h"
#include "lib/ops/rope.h"

#include <math.h>
#include <string.h>

static uint32_t float_word(double number)
{
    const float single = (float)number;
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    return word;
}

static bool is_neighbours(const zt_enum_string *pair) { return !strcmp(pair->s, "neighbours"); }

/* ---- rope ------------------------------------------------------------------------------------ */

/* Quarter turns a position of pair i. */
static double quarters_of(const zt_rope_attrs *attrs, int64_t i, int64_t dims)
{
    return zt_rope_scale(attrs, i) * zt_rope_power(attrs->theta, i, dims) / M_PI_2;
}

static int64_t rope_head(const zt_rope_attrs *attrs, const zt_type *rows)
{
    return attrs->head ? attrs->head : attrs->dims ? attrs->dims : rows->dim[rows->rank - 1];
}

static int64_t rope_dims(const zt_rope_attrs *attrs, const zt_type *rows)
{
    return attrs->dims ? attrs->dims : rope_head(attrs, rows);
}

/* Without f64 whole turns a position are left out, but they may not be before a division: with divisors, which are known
 * only when it runs, frequencies must be below one. */
bool zt_vk_has_rope(const zt_vk_engine *engine, const zt_rope_attrs *rope, const zt_type *rows, bool divided)
{
    const int64_t dims = rope_dims(rope, rows);
    for (int64_t i = 0; divided && !engine->doubles && i < dims / 2; i++) {
        double quarters = quarters_of(rope, i, dims);
        if (!(quarters >= 0 && quarters < 4)) return false;
    }
    return zt_vk_is_float(rows->dtype) && rows->dim[0] <= engine->groups[1];
}

static uint64_t angle_bits(const zt_vk_engine *engine, double quarters)
{
    uint64_t bits;
    if (!engine->doubles) return (uint64_t)ldexp(quarters - 4 * floor(quarters / 4), 62);
    memcpy(&bits, &quarters, sizeof bits);
    return bits;
}

zt_status zt_vk_put_angles(zt_vk_engine *engine, zt_vk_call *call, const zt_rope_attrs *rope, const zt_type *rows)
{
    const int64_t dims = rope_dims(rope, rows);
    call->table_words = (size_t)dims + !dims;
    call->table = zt_alloc_array(engine->base.ctx, call->table_words, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    for (int64_t i = 0; i < dims / 2; i++) {
        const uint64_t bits = angle_bits(engine, quarters_of(rope, i, dims));
        call->table[2 * i] = (uint32_t)bits;
        call->table[2 * i + 1] = (uint32_t)(bits >> 32);
    }
    return ZT_OK;
}

void zt_vk_set_rope(zt_vk_engine *engine, zt_vk_call *call, const zt_rope_attrs *rope, const zt_type *rows)
{
    const int64_t count = rows->dim[0], cols = count ? zt_type_count(rows) / count : 0;
    call->shader = engine->doubles ? ZT_VK_SHADER_rope_f64 : ZT_VK_SHADER_rope;
    call->spec[ZT_VK_FLOATS] = zt_vk_floats(rows->dtype);
    call->word[0] = (uint32_t)cols;
    call->word[1] = (uint32_t)rope_head(rope, rows);
    call->word[2] = (uint32_t)rope_dims(rope, rows);
    call->word[3] = is_neighbours(&rope->pair);
    call->word[4] = float_word(rope->amplitude);
    call->groups[0] = (uint32_t)((cols + 63) / 64);
    call->groups[1] = (uint32_t)count;
    call->groups[2] = 1;
}

static bool rope_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)out;
    return zt_vk_has_rope(engine, attrs, input_types[0], input_types[2]);
}

static zt_status set_rope(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_status status = zt_vk_put_angles(engine, call, call->attrs, call->in[0]);
    if (!status) zt_vk_set_rope(engine, call, call->attrs, call->in[0]);
    return status;
}

/* ---- rotations by tables ----------------------------------------------------------------------- */

static bool floats_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype);
}

/* Rows of the last dimension by tables of `half` columns; `each` rows share one of the tables' rows. */
static void set_rotation(zt_vk_engine *engine, zt_vk_call *call, const zt_type *table, int64_t each, const zt_enum_string *pair)
{
    const zt_type *x = call->in[0];
    const int64_t K = zt_vk_last_dim(x), half = zt_vk_last_dim(table);
    const int64_t rows = K ? zt_type_count(x) / K : 0, tables = half ? zt_type_count(table) / half : 0;
    call->shader = ZT_VK_SHADER_rope_table;
    call->word[1] = (uint32_t)K;
    call->word[2] = (uint32_t)half;
    call->word[3] = (uint32_t)(tables + !tables);
    call->word[4] = (uint32_t)(each + !each);
    call->word[5] = is_neighbours(pair);
    zt_vk_group_each(engine, call, 0, rows);
}

static zt_status set_rope_table(zt_vk_engine *engine, zt_vk_call *call)
{
    set_rotation(engine, call, call->in[1], 1, &((const zt_rope_table_attrs *)call->attrs)->pair);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(2), zt_vk_none(), zt_vk_none(), zt_vk_out(0));
    return ZT_OK;
}

static zt_status set_qk_norm_rope(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_qk_norm_rope_attrs *attrs = call->attrs;
    const int64_t heads = call->in[0]->dim[call->in[0]->rank - 2];
    set_rotation(engine, call, call->in[3], heads, &attrs->pair);
    call->spec[0] = 1;
    call->word[6] = (uint32_t)(heads + !heads);
    call->word[7] = (uint32_t)attrs->q_heads;
    call->word[8] = float_word(attrs->eps);
    call->word[9] = float_word(attrs->eps - (double)(float)attrs->eps);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(3), zt_vk_in(4), zt_vk_in(1), zt_vk_in(2), zt_vk_out(0));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_rope[] = {
    {.op = ZT_OP_rope, .has = rope_has, .set = set_rope, .contract = zt_vk_with_f64},
    {.op = ZT_OP_rope_table, .has = floats_has, .set = set_rope_table, .contract = zt_vk_always},
    {.op = ZT_OP_qk_norm_rope, .has = floats_has, .set = set_qk_norm_rope, .contract = zt_vk_always},
    {0},
};
