/* vjp.c - the functions through which rows write ops, made from ops.def. */
#include "lib/ops/vjp.h"

#include <string.h>

static int emit(const zt_emit *e, zt_op op, const void *attrs, const int *in, int *const *more)
{
    int out[ZT_MAX_OUT];
    bool made = e && e->op && e->op(e->user, op, attrs, in, out) == ZT_OK;
    for (int k = 0; k < ZT_MAX_OUT && !made; k++) out[k] = -1;
    for (int k = 1; k < zt_op_info(op)->n_out; k++)
        if (more[k]) *more[k] = out[k];
    return out[0];
}

// clang-format off
#define OP(name, ins, outs, attributes)                                                            \
    int zt_build_##name(const zt_emit *emitter ZT_EMIT_##ins ZT_PARAM_##attributes(name)               \
                        ZT_EMIT_##outs)                                                            \
    {                                                                                              \
        return emit(emitter, ZT_OP_##name, ZT_ATTRS_##attributes, (const int[]){ZT_ARGS_##ins},    \
                    (int *const[]){ZT_MORE_##outs});                                               \
    }
// clang-format on
#include "lib/ops/ops.def"
#undef OP

int zt_build_times(const zt_emit *emit, int x, double by)
{
    return by == 1 ? x : zt_build_scale(emit, x, &(zt_scale_attrs){.by = by});
}

int zt_build_plus(const zt_emit *emit, int x, double by) { return zt_build_add_scalar(emit, x, &(zt_add_scalar_attrs){by}); }

static bool surely_one_shape(const zt_type *a, const zt_type *b)
{
    if (a->rank != b->rank) return false;
    for (int d = 0; d < a->rank; d++)
        if (a->dim[d] < 0 || a->dim[d] != b->dim[d]) return false;
    return true;
}

int zt_build_reduced(const zt_emit *emit, int x, int like)
{
    if (x < 0) return x;
    zt_type a = emit->type(emit->user, x), b = emit->type(emit->user, like);
    return surely_one_shape(&a, &b) ? x : zt_build_sum_to(emit, x, like);
}

int zt_build_as(const zt_emit *emit, int x, int like)
{
    if (x < 0) return x;
    zt_type a = emit->type(emit->user, x), b = emit->type(emit->user, like);
    zt_cast_attrs to = zt_cast_defaults();
    if (a.dtype == b.dtype) return x;
    const char *name = zt_dtype_get(b.dtype)->name;
    memset(&to.to, 0, sizeof to.to);
    memcpy(to.to.s, name, strlen(name));
    return zt_build_cast(emit, x, &to);
}

int zt_build_wide(const zt_emit *emit, int x)
{
    if (x < 0) return x;
    zt_dtype dtype = emit->type(emit->user, x).dtype;
    const zt_cast_attrs f32 = zt_cast_defaults();
    return dtype == ZT_F64 || dtype == ZT_F32 ? x : zt_build_cast(emit, x, &f32);
}
