/* random.c - uniform and normal draws. */
#include "lib/engine/cuda/args_random.h"
#include "lib/engine/cuda/walk.h"

static bool any_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                    const zt_type out[])
{
    (void)e, (void)attrs, (void)in, (void)out;
    return true;
}

static zt_status emit(zt_cu_call *c, int64_t seed, double a, double b, bool normal)
{
    zt_cu_random_args args = {.counter = c->x[0],
                              .y = c->y[0],
                              .n = zt_type_count(c->out[0]),
                              .seed = (uint64_t)seed,
                              .a = a,
                              .b = b,
                              .normal = normal};
    return zt_cu_launch_each(c, "zt_cu_random", (args.n + 3) / 4, &args, sizeof args);
}

static zt_status emit_uniform(zt_cu_call *c)
{
    const zt_random_uniform_attrs *r = c->attrs;
    return emit(c, r->seed, r->low, r->high - r->low, false);
}
static zt_status emit_normal(zt_cu_call *c)
{
    const zt_random_normal_attrs *r = c->attrs;
    return emit(c, r->seed, r->mean, r->std, true);
}

const zt_cu_row zt_cu_random[] = {
    {.op = ZT_OP_random_uniform, .has = any_has, .emit = emit_uniform},
    {.op = ZT_OP_random_normal, .has = any_has, .emit = emit_normal},
    {.emit = NULL},
};
