/* random.c - uniform and normal draws. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* A number as the sum of two floats. */
static void put_pair(uint32_t word[2], double number)
{
    const float high = (float)number, rest = (float)(number - (double)high);
    memcpy(&word[0], &high, sizeof high);
    memcpy(&word[1], &rest, sizeof rest);
}

static zt_status set_random(zt_vk_engine *engine, zt_vk_call *call, int64_t seed, double base, double by, bool normal)
{
    const int64_t count = zt_type_count(call->out);
    call->shader = ZT_VK_SHADER_random;
    call->spec[0] = normal;
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)seed;
    call->word[2] = (uint32_t)((uint64_t)seed >> 32);
    put_pair(call->word + 3, base);
    put_pair(call->word + 5, by);
    zt_vk_spread(engine, call, (count + 3) / 4, 64);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_out(0));
    return ZT_OK;
}

static zt_status set_uniform(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_random_uniform_attrs *attrs = call->attrs;
    return set_random(engine, call, attrs->seed, attrs->low, attrs->high - attrs->low, false);
}

static zt_status set_normal(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_random_normal_attrs *attrs = call->attrs;
    return set_random(engine, call, attrs->seed, attrs->mean, attrs->std, true);
}

/* Numbers that floats hold. */
static bool is_small(double number) { return number >= -1e37 && number <= 1e37; }

static bool uniform_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_random_uniform_attrs *random = attrs;
    (void)engine, (void)input_types, (void)out;
    return is_small(random->low) && is_small(random->high);
}

static bool normal_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    const zt_random_normal_attrs *random = attrs;
    (void)engine, (void)input_types, (void)out;
    return is_small(random->mean) && is_small(random->std);
}

const zt_vk_kernel zt_vk_random[] = {
    {.op = ZT_OP_random_uniform, .has = uniform_has, .set = set_uniform},
    {.op = ZT_OP_random_normal, .has = normal_has, .set = set_normal},
    {.set = NULL},
};
