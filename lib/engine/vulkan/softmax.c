/* softmax.c - softmax along an axis, of what is scaled, its logarithm, and entmax. */
#include "lib/engine/vulkan/lines.h"

/* The constant KIND of shaders/softmax.comp. */
typedef enum softmax_kind { SOFTMAX, LOGARITHM, ENTMAX } softmax_kind;

static bool softmax_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype) &&
           zt_vk_lines_fit(input_types[0], ((const zt_softmax_attrs *)attrs)->axis, 3);
}

static bool scaled_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype) &&
           zt_vk_lines_fit(input_types[0], ((const zt_scaled_softmax_attrs *)attrs)->axis, 3);
}

/* The threshold is found in 40 steps. */
static bool entmax_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype) &&
           zt_vk_lines_fit(input_types[0], ((const zt_entmax_attrs *)attrs)->axis, 50);
}

/* How the lines are divided depends on their length, not on their number: a line does not know its neighbours. */
static zt_status set_lines(zt_vk_engine *engine, zt_vk_call *call, softmax_kind kind, int64_t axis, double scale)
{
    zt_vk_lines all = zt_vk_lines_of(call->in[0], axis);
    bool apart = zt_vk_lines_apart(&all);
    call->shader = ZT_VK_SHADER_softmax;
    call->spec[0] = kind;
    call->spec[1] = apart;
    zt_vk_put_number(call, 3, 4, scale);
    zt_vk_put_lines(engine, call, &all, apart);
    return ZT_OK;
}

static zt_status set_softmax(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_lines(engine, call, SOFTMAX, ((const zt_softmax_attrs *)call->attrs)->axis, 1);
}

static zt_status set_log_softmax(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_lines(engine, call, LOGARITHM, ((const zt_log_softmax_attrs *)call->attrs)->axis, 1);
}

static zt_status set_scaled_softmax(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_scaled_softmax_attrs *attrs = call->attrs;
    return set_lines(engine, call, SOFTMAX, attrs->axis, attrs->scale);
}

static zt_status set_entmax(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_entmax_attrs *attrs = call->attrs;
    return set_lines(engine, call, ENTMAX, attrs->axis, attrs->alpha);
}

const zt_vk_kernel zt_vk_softmax[] = {
    {.op = ZT_OP_softmax, .has = softmax_has, .set = set_softmax},
    {.op = ZT_OP_log_softmax, .has = softmax_has, .set = set_log_softmax},
    {.op = ZT_OP_scaled_softmax, .has = scaled_has, .set = set_scaled_softmax},
    {.op = ZT_OP_entmax, .has = entmax_has, .set = set_entmax},
    {0},
};
