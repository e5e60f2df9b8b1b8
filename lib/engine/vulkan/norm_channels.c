/* norm_channels.c - norms by channels, x [N,C,...], and their gradients. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* The constant KIND of shaders/norm_channels.comp, and its flags. */
typedef enum channels_kind { SETS, KNOWN, BACK } channels_kind;
enum { UNBIASED = 1, TRAINING = 2, GROUP = 64 };

static bool known_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype);
}

/* Three loops over a channel of all samples, or a group of a sample, by a workgroup. */
static bool sets_fit(const zt_vk_engine *engine, const zt_type *x, int64_t groups)
{
    int64_t count = zt_type_count(x), sets = groups ? x->dim[0] * groups : x->dim[1], channels = x->dim[1];
    return zt_vk_is_real(engine, x->dtype) && count / (sets ? sets : 1) / GROUP * 3 < ZT_VK_TURNS &&
           count / (channels ? channels : 1) / GROUP < ZT_VK_TURNS;
}

static bool batch_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return sets_fit(engine, input_types[0], 0);
}

static bool group_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)out;
    return sets_fit(engine, input_types[0], ((const zt_group_norm_attrs *)attrs)->groups);
}

static bool group_back_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return sets_fit(engine, input_types[0], input_types[1]->dim[1]);
}

/* A number in two parts: what f32 leaves out of it is f32 in word `rest`. */
static void put_parts(zt_vk_call *call, int word, int rest, double number)
{
    const float single = (float)number, left = (float)(number - (double)single);
    memcpy(&call->word[word], &single, sizeof single);
    memcpy(&call->word[rest], &left, sizeof left);
}

/* Sizes; groups 0: a set is a channel of all samples. Returns how many sets there are. */
static int64_t put_sizes(zt_vk_call *call, channels_kind kind, int64_t groups, uint32_t flags, double eps)
{
    const zt_type *x = call->in[0];
    int64_t size = 1, sets = groups ? x->dim[0] * groups : x->dim[1];
    for (int axis = 2; axis < x->rank; axis++) size *= x->dim[axis];
    call->shader = ZT_VK_SHADER_norm_channels;
    call->spec[0] = kind;
    call->word[6] = (uint32_t)x->dim[0];
    call->word[7] = (uint32_t)x->dim[1];
    call->word[8] = (uint32_t)size;
    call->word[10] = (uint32_t)groups;
    call->word[11] = (uint32_t)sets;
    call->word[13] = flags;
    put_parts(call, 14, 12, eps);
    return sets;
}

static zt_status set_batch_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_batch_norm_attrs *attrs = call->attrs;
    int64_t sets = put_sizes(call, SETS, 0, attrs->unbiased ? UNBIASED : 0, attrs->eps);
    put_parts(call, 15, 9, attrs->momentum);
    zt_vk_spread(engine, call, sets, 1);
    return ZT_OK;
}

static zt_status set_group_norm(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_group_norm_attrs *attrs = call->attrs;
    int64_t sets = put_sizes(call, SETS, attrs->groups, 0, attrs->eps);
    zt_vk_spread(engine, call, sets, 1);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_in(2), zt_vk_none(), zt_vk_none(), zt_vk_out(0), zt_vk_out(1), zt_vk_out(2),
               zt_vk_none(), zt_vk_none());
    return ZT_OK;
}

static zt_status set_inference(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_batch_norm_inference_attrs *attrs = call->attrs;
    put_sizes(call, KNOWN, 0, 0, attrs->eps);
    zt_vk_spread(engine, call, zt_type_count(call->in[0]), GROUP);
    return ZT_OK;
}

/* Both gradients: x, mean, rstd, dy, g. The sets give dx, the channels dg and db; what is not wanted has no workgroups. */
static zt_status set_back(zt_vk_engine *engine, zt_vk_call *call, int64_t groups, bool training)
{
    int64_t sets = put_sizes(call, BACK, groups, training ? TRAINING : 0, 0);
    int64_t channels = call->wanted[1] || call->wanted[2] ? call->in[0]->dim[1] : 0;
    if (!call->wanted[0]) sets = 0;
    call->word[11] = (uint32_t)sets;
    call->word[12] = (uint32_t)channels;
    zt_vk_spread(engine, call, sets + channels, 1);
    return ZT_OK;
}

static zt_status set_batch_back(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_back(engine, call, 0, ((const zt_batch_norm_backward_attrs *)call->attrs)->training != 0);
}

static zt_status set_group_back(zt_vk_engine *engine, zt_vk_call *call)
{
    return set_back(engine, call, call->in[1]->dim[1], true);
}

const zt_vk_kernel zt_vk_norm_channels[] = {
    {.op = ZT_OP_batch_norm, .has = batch_has, .set = set_batch_norm, .many = true},
    {.op = ZT_OP_batch_norm_inference, .has = known_has, .set = set_inference},
    {.op = ZT_OP_batch_norm_backward, .has = batch_has, .set = set_batch_back, .many = true},
    {.op = ZT_OP_group_norm, .has = group_has, .set = set_group_norm},
    {.op = ZT_OP_group_norm_backward, .has = group_back_has, .set = set_group_back, .many = true},
    {0},
};
