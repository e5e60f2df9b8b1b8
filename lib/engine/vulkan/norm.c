/* norm.c - norms of rows, alone and with a sum before or after: a workgroup each. */
#include "lib/engine/vulkan/norm.h"

#include <string.h>

/* The constant KIND of shaders/norm.comp. */
typedef enum norm_kind { RMS, LAYER, ADDED, AFTER } norm_kind;

static bool norm_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && zt_vk_last_dim(input_types[0]) / 16 * 2 < ZT_VK_TURNS;
}

static uint32_t float_word(double number)
{
    const float single = (float)number;
    uint32_t word;
    memcpy(&word, &single, sizeof word);
    return word;
}

static void set_rows(zt_vk_engine *engine, zt_vk_call *call, norm_kind kind, int64_t K, int64_t rows, double eps)
{
    call->shader = ZT_VK_SHADER_norm;
    call->spec[0] = kind;
    call->word[0] = (uint32_t)K;
    call->word[1] = float_word(eps);
    call->word[3] = float_word(eps - (double)(float)eps);
    zt_vk_group_each(engine, call, 2, rows);
}

void zt_vk_set_rms_norm(zt_vk_engine *engine, zt_vk_call *call, int64_t K, int64_t rows, double eps)
{
    set_rows(engine, call, RMS, K, rows, eps);
}

static zt_status set_norm(zt_vk_engine *engine, zt_vk_call *call, norm_kind kind, int64_t K, double eps)
{
    const zt_type *x = call->in[0];
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < x->rank; axis++) rows *= x->dim[axis];
    if (K) rows *= zt_vk_last_dim(x) / K;
    set_rows(engine, call, kind, K, rows, eps);
    return ZT_OK;
}

static zt_status set_rms_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_rms_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, RMS, call->in[1]->dim[0], attrs->eps);
}

static zt_status set_layer_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_layer_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, LAYER, zt_vk_last_dim(call->in[0]), attrs->eps);
}

static zt_status set_add_rms_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_add_rms_norm_attrs *attrs = call->attrs;
    return set_norm(engine, call, ADDED, zt_vk_last_dim(call->in[0]), attrs->eps);
}

static zt_status set_norm_add(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_norm_add_attrs *attrs = call->attrs;
    return set_norm(engine, call, AFTER, zt_vk_last_dim(call->in[0]), attrs->eps);
}

const zt_vk_kernel zt_vk_norm[] = {
    {.op = ZT_OP_rms_norm, .has = norm_has, .set = set_rms_norm, .contract = zt_vk_always},
    {.op = ZT_OP_layer_norm, .has = norm_has, .set = set_layer_norm},
    {.op = ZT_OP_add_rms_norm, .has = norm_has, .set = set_add_rms_norm, .contract = zt_vk_always},
    {.op = ZT_OP_norm_add, .has = norm_has, .set = set_norm_add, .contract = zt_vk_always},
    {0},
};
