/* linear.c - products with packed weights. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

static bool linear_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_float(input_types[0]->dtype) && zt_vk_pack_of(input_types[1]->dtype) &&
           input_types[0]->dim[0] <= engine->groups[1] && input_types[1]->dim[0] / 32 < engine->groups[0];
}

/* Rows of 8-bit codes that a row of x becomes, as `act` allows against blocks of codes: 1, or with
 * what the first leave 2; 0: x stays as it is. */
static uint32_t codes_a_row(const zt_vk_engine *engine, const zt_vk_call *call)
{
    const char *act = ((const zt_linear_attrs *)call->attrs)->act.s;
    bool blocks = zt_dtype_get(call->in[1]->dtype)->kind == 'Q';
    if (!engine->dots || engine->lanes < 8 || !blocks || !strcmp(act, "f32")) return 0;
    return strcmp(act, "q16") ? 1 : 2;
}

/* The pass that makes them, once for all products with x; *codes is where they are, or x. */
static zt_status make_codes(zt_vk_engine *engine, zt_vk_call *call, uint32_t each, zt_vk_arg *codes)
{
    int64_t tokens = call->in[0]->dim[0], K = call->in[0]->dim[1], blocks = tokens * K / 32;
    *codes = zt_vk_in(0);
    if (!each) return ZT_OK;
    *codes = zt_vk_kept(call, (size_t)blocks * each * 40);
    call->shader = ZT_VK_SHADER_linear_codes;
    call->spec[0] = each;
    call->word[0] = (uint32_t)blocks;
    call->word[1] = (uint32_t)(K / 32);
    zt_vk_spread(engine, call, blocks, 64);
    ZT_VK_ARGS(call, zt_vk_in(0), *codes);
    return zt_vk_once(engine, call);
}

/* Rows of x that an invocation takes: a weight is unpacked once for all of them. */
static uint32_t rows_each(int64_t n) { return n >= 8 ? 8 : n >= 4 ? 4 : 1; }

static zt_status set_linear(zt_vk_engine *engine, zt_vk_call *call)
{
    int64_t tokens = call->in[0]->dim[0], K = call->in[0]->dim[1], M = call->in[1]->dim[0];
    uint32_t codes = codes_a_row(engine, call);
    const char *act = ((const zt_linear_attrs *)call->attrs)->act.s;
    bool brain = call->in[1]->dtype == ZT_BF16 && strcmp(act, "f32");
    zt_vk_arg x;
    zt_status status = make_codes(engine, call, codes, &x);
    if (status) return status;
    call->shader = codes ? ZT_VK_SHADER_linear_int8 : ZT_VK_SHADER_linear;
    call->spec[0] = (uint32_t)call->packed[1];
    call->spec[1] = rows_each(tokens);
    call->spec[2] = codes ? codes : brain;
    call->spec[3] = call->plain[1];
    call->word[0] = (uint32_t)tokens;
    call->word[1] = (uint32_t)K;
    call->word[2] = (uint32_t)M;
    call->word[3] = call->in[2] ? zt_vk_floats(call->in[2]->dtype) : 0;
    call->groups[0] = (uint32_t)((M + 31) / 32);
    call->groups[1] = (uint32_t)((tokens + call->spec[1] - 1) / call->spec[1]);
    call->groups[2] = 1;
    ZT_VK_ARGS(call, x, zt_vk_in(1), zt_vk_in(2), zt_vk_out(0));
    return ZT_OK;
}

const zt_vk_kernel zt_vk_linear[] = {
    {.op = ZT_OP_linear, .has = linear_has, .set = set_linear, .weights = 1u << 1},
    {0},
};
