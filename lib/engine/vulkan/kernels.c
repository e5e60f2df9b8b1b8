/* kernels.c - which kernel runs an op, and what the families share. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static const zt_vk_kernel *const families[] = {
#define X(family) zt_vk_##family,
    ZT_VK_FAMILIES(X)
#undef X
};

const zt_vk_kernel *zt_vk_find(const zt_vk_engine *engine, zt_op op, const void *attrs, const zt_type *const input_types[],
                               const zt_type out[])
{
    const zt_opinfo *info = zt_op_info(op);
    if (!attrs) attrs = info->defaults;
    if (!zt_vk_small(input_types, info->n_in, out)) return NULL;
    for (size_t family = 0; family < sizeof families / sizeof families[0]; family++)
        for (const zt_vk_kernel *k = families[family]; k->set; k++)
            if (k->op == op && k->has(engine, attrs, input_types, out)) return k;
    return NULL;
}

bool zt_vk_always(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)input_types, (void)out;
    return true;
}

bool zt_vk_with_f64(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)input_types, (void)out;
    return engine->doubles;
}

bool zt_vk_small(const zt_type *const input_types[], int n_in, const zt_type *out)
{
    const int64_t most = INT64_C(1) << 31;
    for (int input = 0; input < n_in; input++)
        if (input_types[input] && zt_type_count(input_types[input]) >= most) return false;
    return zt_type_count(&out[0]) < most;
}

bool zt_vk_is_float(zt_dtype dtype) { return dtype == ZT_F32 || dtype == ZT_F16 || dtype == ZT_BF16; }

bool zt_vk_is_real(const zt_vk_engine *engine, zt_dtype dtype)
{
    return zt_vk_is_float(dtype) || (dtype == ZT_F64 && engine->doubles);
}

uint32_t zt_vk_floats(zt_dtype dtype) { return dtype == ZT_F16 ? 1 : dtype == ZT_BF16 ? 2 : dtype == ZT_F64 ? ZT_VK_F64 : 0; }

zt_dtype zt_vk_summed(zt_dtype dtype) { return dtype == ZT_F64 ? ZT_F64 : ZT_F32; }

size_t zt_vk_sum_bytes(zt_dtype dtype) { return (size_t)zt_dtype_get(zt_vk_summed(dtype))->block_bytes; }

void zt_vk_put_number(zt_vk_call *call, int word, int bits, double number)
{
    const float single = (float)number;
    memcpy(&call->word[word], &single, sizeof single);
    if (call->spec[ZT_VK_FLOATS] == ZT_VK_F64) memcpy(&call->word[bits], &number, sizeof number);
}

bool zt_vk_is_value(zt_dtype dtype) { return dtype <= ZT_BOOL; }

_Static_assert(ZT_F64 == 0 && ZT_F8_E8M0 == 8 && ZT_I64 == 9 && ZT_I8 == 12 && ZT_U8 == 16 && ZT_BOOL == 17, "values.glsl");

uint32_t zt_vk_width(const zt_vk_engine *engine)
{
    uint32_t width = 8;
    while (width < 64 && width < engine->lanes) width *= 2;
    return engine->lanes ? width : 64;
}

void zt_vk_spread(const zt_vk_engine *engine, zt_vk_call *call, int64_t item_count, int64_t items_each)
{
    int64_t groups = (item_count + items_each - 1) / items_each, most = engine->groups[0];
    int64_t down = (groups + most - 1) / most;
    call->groups[0] = (uint32_t)(down > 1 ? most : groups);
    call->groups[1] = (uint32_t)down;
    call->groups[2] = 1;
}

void zt_vk_group_each(const zt_vk_engine *engine, zt_vk_call *call, int word, int64_t rows)
{
    call->word[word] = (uint32_t)rows;
    zt_vk_spread(engine, call, rows, 1);
}

void zt_vk_set_slots(zt_vk_call *call, int word, const zt_type *cache, const zt_type *table)
{
    int64_t ctx = cache->dim[0], S = table ? table->dim[0] : 1, B = table ? table->dim[1] : 1;
    call->word[word] = (uint32_t)ctx;
    call->word[word + 1] = (uint32_t)S;
    call->word[word + 2] = (uint32_t)B;
    call->word[word + 3] = (uint32_t)(B ? ctx / B : 0);
}

int64_t zt_vk_last_dim(const zt_type *type) { return type->rank ? type->dim[type->rank - 1] : 1; }
