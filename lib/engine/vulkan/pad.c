/* pad.c - entries added at the ends of axes, and the gradient of that. */
#include "lib/ops/pad.h"
#include "lib/engine/vulkan/vk.h"

#include <string.h>

/* By the first letter of its word: the number of a mode in shaders/pad.glsl. */
static uint32_t mode_of(const zt_enum_string *mode) { return (uint32_t)(strchr("crew", mode->s[0]) - "crew"); }

/* ---- pad ------------------------------------------------------------------------------------- */

/* Of each axis, the last first, the sizes of y and of x and the entries before; axes without any are one. */
static size_t list_axes(const zt_pad_attrs *attrs, const zt_type *x, const zt_type *y, uint32_t *list)
{
    size_t count = 0;
    bool plain = false; /* the axis before it in the list */
    for (int axis = y->rank - 1; axis >= 0; axis--) {
        uint32_t size = (uint32_t)y->dim[axis], own = (uint32_t)x->dim[axis], before = (uint32_t)zt_pad_at(&attrs->before, axis);
        bool is_plain = size == own && before == 0;
        if (is_plain && plain) {
            list[3 * count - 3] *= size;
            list[3 * count - 2] *= own;
        } else {
            memcpy(list + 3 * count++, (const uint32_t[]){size, own, before}, 3 * sizeof *list);
        }
        plain = is_plain;
    }
    return count;
}

static zt_status set_pad(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_pad_attrs *attrs = call->attrs;
    const int64_t count = zt_type_count(call->out);
    call->table = zt_calloc(engine->base.ctx, 3 * ZT_MAX_RANK, sizeof *call->table);
    if (!call->table) return ZT_ENOMEM;
    call->table_words = 3 * ZT_MAX_RANK;
    call->shader = ZT_VK_SHADER_pad;
    call->spec[0] = zt_vk_bytes(call->out->dtype);
    call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)count;
    call->word[1] = (uint32_t)list_axes(attrs, call->in[0], call->out, call->table);
    call->word[2] = mode_of(&attrs->mode);
    zt_vk_value_bits(call->out->dtype, attrs->value, call->word + 3);
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

/* ---- pad_back -------------------------------------------------------------------------------- */

static bool float_has(const zt_vk_engine *engine, const void *attrs, const zt_type *const input_types[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, input_types[0]->dtype);
}

static bool is_padded(const zt_pad_back_attrs *attrs, const zt_type *dy, const zt_type *dx, int axis)
{
    return dy->dim[axis] != dx->dim[axis] || zt_pad_at(&attrs->before, axis);
}

static void set_axis(zt_vk_engine *engine, zt_vk_call *call, const zt_type *from, const zt_type *to, int axis)
{
    const zt_pad_back_attrs *attrs = call->attrs;
    call->shader = ZT_VK_SHADER_pad_back;
    call->spec[0] = (uint32_t)from->dtype;
    call->spec[1] = (uint32_t)to->dtype;
    if (from->dtype != ZT_F64) call->spec[ZT_VK_FLOATS] = 0;
    call->word[0] = (uint32_t)zt_type_count(to);
    call->word[1] = (uint32_t)from->dim[axis];
    call->word[2] = (uint32_t)to->dim[axis];
    call->word[3] = (uint32_t)zt_vk_inner(to, axis);
    call->word[4] = (uint32_t)zt_pad_at(&attrs->before, axis);
    call->word[5] = mode_of(&attrs->mode);
    zt_vk_spread(engine, call, zt_type_count(to), 64);
}

/* One axis after the other, the last first; sums in between are f32, of f64 f64. */
static zt_status set_pad_back(zt_vk_engine *engine, zt_vk_call *call)
{
    zt_type from = *call->in[0];
    zt_vk_arg x = zt_vk_in(0);
    int left = 0;
    for (int axis = 0; axis < from.rank; axis++) left += is_padded(call->attrs, &from, call->out, axis);
    if (!left) return zt_vk_copy(call, zt_vk_out(0), x, zt_type_bytes(call->out));
    for (int axis = from.rank - 1; axis >= 0; axis--) {
        if (!is_padded(call->attrs, &from, call->out, axis)) continue;
        zt_type to = from;
        to.dim[axis] = call->out->dim[axis];
        to.dtype = --left ? zt_vk_summed(call->out->dtype) : call->out->dtype;
        zt_vk_arg y = left ? zt_vk_scratch(call, zt_type_bytes(&to)) : zt_vk_out(0);
        set_axis(engine, call, &from, &to, axis);
        ZT_VK_ARGS(call, x, y);
        zt_status status = zt_vk_then(engine, call);
        if (status) return status;
        from = to;
        x = y;
    }
    return ZT_OK;
}

const zt_vk_kernel zt_vk_pad[] = {
    {.op = ZT_OP_pad, .has = zt_vk_moves, .set = set_pad},
    {.op = ZT_OP_pad_back, .has = float_has, .set = set_pad_back},
    {.set = NULL},
};
