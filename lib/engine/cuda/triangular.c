/* triangular.c - tril and triu. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/steps.h"

static const char *const triangle_names[] = {"zt_cu_triangle_1", "zt_cu_triangle_2", "zt_cu_triangle_4", "zt_cu_triangle_8"};

/* ---- triangles, padding ---------------------------------------------------------------------- */

static zt_status emit_triangle(zt_cu_call *call, int sign, int64_t diagonal)
{
    const zt_type *x_type = call->input_types[0];
    zt_cu_triangle_args args = {.x = call->inputs[0],
                                .y = call->outputs[0],
                                .n = zt_type_count(x_type),
                                .rows = x_type->dim[x_type->rank - 2],
                                .columns = x_type->dim[x_type->rank - 1],
                                .diagonal = diagonal,
                                .sign = sign};
    return zt_cu_launch_each(call, triangle_names[size_of(x_type->dtype)], args.n, &args, sizeof args);
}
static zt_status emit_tril(zt_cu_call *call) { return emit_triangle(call, 1, ((const zt_tril_attrs *)call->attrs)->diagonal); }
static zt_status emit_triu(zt_cu_call *call) { return emit_triangle(call, -1, ((const zt_triu_attrs *)call->attrs)->diagonal); }

const zt_cu_row zt_cu_triangular[] = {
    {.op = ZT_OP_tril, .has = bytes_has, .emit = emit_tril},
    {.op = ZT_OP_triu, .has = bytes_has, .emit = emit_triu},
    {.emit = NULL},
};
