/* pool.c - pools over windows, their gradients, and what follows max_pool's indices. */
#include "lib/engine/vulkan/window.h"

#include <math.h>
#include <string.h>

/* As shaders/pool.comp has them. */
enum { AVG, LP, SMOOTH, MEAN, AVG_BACK, SMOOTH_BACK };

/* ---- windows of each op ---------------------------------------------------------------------- */

#define WINDOW(NAME, LARGE, SMALL)                                                                                               \
    static zt_window NAME##_window(const void *attrs, const zt_type *const in[], const zt_type out[])                            \
    {                                                                                                                            \
        const zt_##NAME##_attrs *pool = attrs;                                                                                   \
        const zt_window_lists lists = ZT_WINDOW_LISTS(pool);                                                                     \
        (void)in, (void)out;                                                                                                     \
        return zt_window_of(&lists, LARGE, SMALL, pool->kernel.v);                                                               \
    }
WINDOW(max_pool, in[0], &out[1])
WINDOW(avg_pool, in[0], &out[0])
WINDOW(avg_unpool, &out[0], in[0])
WINDOW(lp_pool, in[0], &out[0])
WINDOW(smooth_max_pool, in[0], &out[0])
WINDOW(smooth_max_unpool, in[0], in[1])
WINDOW(smooth_max_mean, in[0], in[1])

static bool has_window(const zt_vk_engine *engine, const zt_type *x, zt_window window)
{
    return zt_vk_is_real(engine, x->dtype) && zt_vk_window_fits(&window);
}

#define HAS(NAME)                                                                                                                \
    static bool has_##NAME(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])        \
    {                                                                                                                            \
        return has_window(engine, in[0], NAME##_window(attrs, in, out));                                                         \
    }
HAS(avg_pool)
HAS(avg_unpool)
HAS(lp_pool)
HAS(smooth_max_pool)
HAS(smooth_max_unpool)
HAS(smooth_max_mean)

/* Of any plain type. */
static bool has_max_pool(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    const zt_window window = max_pool_window(attrs, in, out);
    (void)engine;
    return in[0]->dtype <= ZT_BOOL && zt_vk_window_fits(&window);
}

/* ---- passes ---------------------------------------------------------------------------------- */

/* An invocation an element of y; operands x, top, v, the table, y. */
static zt_status set_pool(zt_vk_engine *engine, zt_vk_call *call, int kind, zt_window window, double p)
{
    const int64_t count = zt_type_count(call->out);
    const bool weighted = kind == MEAN || kind == SMOOTH_BACK;
    zt_status status = zt_vk_set_window(engine, call, &window);
    if (status) return status;
    call->shader = ZT_VK_SHADER_pool;
    call->spec[0] = (uint32_t)kind;
    call->word[0] = (uint32_t)count;
    zt_vk_put_number(call, 1, 6, p);
    ZT_VK_ARGS(call, zt_vk_in(0), weighted ? zt_vk_in(1) : zt_vk_none(), weighted ? zt_vk_in(2) : zt_vk_none(), zt_vk_table(0),
               zt_vk_out(0));
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

static zt_status set_max_pool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_window window = max_pool_window(call->attrs, call->in, call->out);
    const int64_t count = zt_type_count(&call->out[1]);
    zt_status status = zt_vk_set_window(engine, call, &window);
    if (status) return status;
    call->shader = ZT_VK_SHADER_pool_max;
    call->spec[0] = (uint32_t)call->in[0]->dtype;
    call->word[0] = (uint32_t)count;
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_table(0), zt_vk_out(0), zt_vk_out(1));
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

static void set_divisor(zt_vk_call *call, int64_t divisor, bool count_pad)
{
    call->word[2] = (uint32_t)divisor;
    call->word[3] = count_pad;
}

static zt_status set_avg_pool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_avg_pool_attrs *attrs = call->attrs;
    zt_status status = set_pool(engine, call, AVG, avg_pool_window(attrs, call->in, call->out), 0);
    set_divisor(call, attrs->divisor_override, attrs->count_include_pad != 0);
    return status;
}

static zt_status set_avg_unpool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_avg_unpool_attrs *attrs = call->attrs;
    zt_status status = set_pool(engine, call, AVG_BACK, avg_unpool_window(attrs, call->in, call->out), 0);
    set_divisor(call, attrs->divisor_override, attrs->count_include_pad != 0);
    return status;
}

static zt_status set_lp_pool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_lp_pool_attrs *attrs = call->attrs;
    return set_pool(engine, call, LP, lp_pool_window(attrs, call->in, call->out), attrs->p);
}

static zt_status set_smooth_max_pool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_smooth_max_pool_attrs *attrs = call->attrs;
    zt_status status = set_pool(engine, call, SMOOTH, smooth_max_pool_window(attrs, call->in, call->out), attrs->beta);
    zt_vk_put_number(call, 4, 8, attrs->pad_value);
    call->word[5] = isfinite(attrs->pad_value);
    return status;
}

static zt_status set_smooth_max_unpool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_smooth_max_unpool_attrs *attrs = call->attrs;
    return set_pool(engine, call, SMOOTH_BACK, smooth_max_unpool_window(attrs, call->in, call->out), attrs->beta);
}

static zt_status set_smooth_max_mean(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_smooth_max_mean_attrs *attrs = call->attrs;
    return set_pool(engine, call, MEAN, smooth_max_mean_window(attrs, call->in, call->out), attrs->beta);
}

/* ---- planes: max_pool's indices -------------------------------------------------------------- */

enum { GATHER, SCATTER, NARROW }; /* as shaders/pool_planes.comp has them */

static bool has_scatter(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return zt_vk_is_real(engine, in[0]->dtype);
}

/* Of any plain type. */
static bool has_gather(const zt_vk_engine *engine, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)engine, (void)attrs, (void)out;
    return in[0]->dtype <= ZT_BOOL;
}

/* i's elements are places in the planes of `large`. */
static void set_planes(zt_vk_call *call, int kind, const zt_type *large, const zt_enum_string *oob)
{
    const int64_t planes = large->dim[0] * large->dim[1], indices = zt_type_count(call->in[1]);
    call->shader = ZT_VK_SHADER_pool_planes;
    call->spec[0] = (uint32_t)kind;
    call->word[0] = (uint32_t)indices;
    call->word[1] = (uint32_t)(planes ? indices / planes : 0);
    call->word[2] = (uint32_t)(planes ? zt_type_count(large) / planes : 0);
    call->word[3] = !strcmp(oob->s, "error");
}

static zt_status set_plane_gather(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_plane_gather_attrs *attrs = call->attrs;
    set_planes(call, GATHER, call->in[0], &attrs->oob);
    call->spec[1] = (uint32_t)call->in[0]->dtype;
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), zt_vk_out(0));
    zt_vk_spread(engine, call, zt_type_count(call->out), 64);
    return ZT_OK;
}

/* Of a plane an invocation adds up those of a bucket of its elements, so that their order is that of the
 * indices; in f32, of which numbers of 16 bits are made by another pass; of f64 in f64. */
static zt_status set_max_unpool(zt_vk_engine *engine, zt_vk_call *call)
{
    const zt_max_unpool_attrs *attrs = call->attrs;
    const zt_type *y = call->out;
    const int64_t planes = y->dim[0] * y->dim[1], count = zt_type_count(y), buckets = planes < 4096 ? 16 : 1;
    const bool narrow = y->dtype != zt_vk_summed(y->dtype);
    const size_t bytes = (size_t)count * zt_vk_sum_bytes(y->dtype);
    const zt_vk_arg sums = narrow ? zt_vk_scratch(call, bytes) : zt_vk_out(0);
    zt_status status = zt_vk_fill(call, sums, bytes, 0);
    if (status || count == 0) return status;
    set_planes(call, SCATTER, y, &attrs->oob);
    call->word[4] = (uint32_t)buckets;
    call->word[5] = (uint32_t)(planes * buckets);
    ZT_VK_ARGS(call, zt_vk_in(0), zt_vk_in(1), sums);
    zt_vk_spread(engine, call, planes * buckets, 64);
    if (!narrow) return ZT_OK;
    status = zt_vk_then(engine, call);
    if (status) return status;
    call->shader = ZT_VK_SHADER_pool_planes;
    call->spec[0] = NARROW;
    call->word[0] = (uint32_t)count;
    ZT_VK_ARGS(call, sums, zt_vk_none(), zt_vk_out(0));
    zt_vk_spread(engine, call, count, 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_pools[] = {
    {.op = ZT_OP_max_pool, .has = has_max_pool, .set = set_max_pool},
    {.op = ZT_OP_avg_pool, .has = has_avg_pool, .set = set_avg_pool},
    {.op = ZT_OP_avg_unpool, .has = has_avg_unpool, .set = set_avg_unpool},
    {.op = ZT_OP_lp_pool, .has = has_lp_pool, .set = set_lp_pool},
    {.op = ZT_OP_smooth_max_pool, .has = has_smooth_max_pool, .set = set_smooth_max_pool},
    {.op = ZT_OP_smooth_max_unpool, .has = has_smooth_max_unpool, .set = set_smooth_max_unpool},
    {.op = ZT_OP_smooth_max_mean, .has = has_smooth_max_mean, .set = set_smooth_max_mean},
    {.op = ZT_OP_max_unpool, .has = has_scatter, .set = set_max_unpool},
    {.op = ZT_OP_plane_gather, .has = has_gather, .set = set_plane_gather},
    {0},
};
