/* rows.c - kernels that take a row at a time: norms, argmax, and pieces of rows. */
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* One workgroup a row; shaders find theirs by row_of_group() and count them in the word given. */
static void a_group_each(const zt_vk_engine *e, zt_vk_call *c, int word, int64_t rows)
{
    c->word[word] = (uint32_t)rows;
    zt_vk_spread(e, c, rows, 1);
}

static int64_t last_dim(const zt_type *t) { return t->rank ? t->dim[t->rank - 1] : 1; }

/* ---- norms ----------------------------------------------------------------------------------- */

static bool norm_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_vk_is_float(in[0]->dtype);
}

static zt_status set_norm(zt_vk_engine *e, zt_vk_call *c, bool layer, int64_t K, double eps)
{
    float f = (float)eps;
    c->shader = ZT_VK_SHADER_norm;
    c->spec[0] = layer;
    c->word[0] = (uint32_t)K;
    memcpy(&c->word[1], &f, sizeof f);
    a_group_each(e, c, 2, zt_type_count(&c->out[1]));
    return ZT_OK;
}

static zt_status set_rms_norm(zt_vk_engine *e, zt_vk_call *c)
{
    const zt_rms_norm_attrs *a = c->attrs;
    return set_norm(e, c, false, c->in[1]->dim[0], a->eps);
}

static zt_status set_layer_norm(zt_vk_engine *e, zt_vk_call *c)
{
    const zt_layer_norm_attrs *a = c->attrs;
    return set_norm(e, c, true, last_dim(c->in[0]), a->eps);
}

/* ---- argmax along the last dimension --------------------------------------------------------- */

static bool argmax_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                       const zt_type out[])
{
    const zt_argmax_attrs *a = attrs;
    (void)e, (void)out;
    return zt_vk_is_float(in[0]->dtype) && (a->axis == -1 || a->axis == in[0]->rank - 1) &&
           last_dim(in[0]) > 0;
}

static zt_status set_argmax(zt_vk_engine *e, zt_vk_call *c)
{
    c->shader = ZT_VK_SHADER_argmax;
    c->word[0] = (uint32_t)last_dim(c->in[0]);
    a_group_each(e, c, 1, zt_type_count(c->out));
    return ZT_OK;
}

/* ---- slice ----------------------------------------------------------------------------------- */

static bool slice_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_dtype_get(in[0]->dtype)->block == 1 &&
           zt_dtype_get(in[0]->dtype)->block_bytes % 2 == 0;
}

/* By words, or where elements have 2 bytes by those. */
static zt_status set_slice(zt_vk_engine *e, zt_vk_call *c)
{
    const zt_slice_attrs *a = c->attrs;
    const zt_type *x = c->in[0], *y = c->out;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t bytes = zt_dtype_get(x->dtype)->block_bytes, each = bytes == 2 ? 2 : 4;
    int64_t inner = bytes / each, count = zt_type_count(y) * inner;
    int64_t from = a->from < 0 ? a->from + x->dim[axis] : a->from;
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    c->shader = ZT_VK_SHADER_copy;
    c->spec[0] = each == 2;
    c->word[0] = (uint32_t)count;
    c->word[1] = (uint32_t)(y->dim[axis] * inner);
    c->word[2] = (uint32_t)(x->dim[axis] * inner);
    c->word[3] = (uint32_t)(from * inner);
    zt_vk_spread(e, c, count, 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_rows[] = {
    {ZT_OP_rms_norm, norm_has, set_rms_norm, 0, NULL, false},
    {ZT_OP_layer_norm, norm_has, set_layer_norm, 0, NULL, false},
    {ZT_OP_argmax, argmax_has, set_argmax, 0, NULL, false},
    {ZT_OP_slice, slice_has, set_slice, 0, NULL, false},
    {0},
};
