/* kv_cache.c - kernels that write keys and values into their caches. kv_put: columns of all rows an item.
 * rope_put: the kernels of its expansion, on rows (phase 0: norm and rotation, keys into scratch), then on
 * columns of both caches (phase 1). So the bits are those of the expansion.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/slots.h"
#include "lib/ops/rope.h"
#include "lib/tensor/block_row.h"

/* ---- kv_put: columns of all rows an item, so that rows are written in order; of blocks, which take longer, a row ------ */

enum { COLUMNS = 64 };

static bool kv_put_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return zt_is_cache_type(out[0].dtype);
}

static void kv_put_setup(zt_cpu_call *call)
{
    const zt_type *x = &call->in[1].type;
    call->items[0] = zt_is_block_cache(call->in[0].type.dtype) ? x->dim[0] : (x->dim[1] + COLUMNS - 1) / COLUMNS;
}

static void put_f16(const float *x, char *dst, int64_t n)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_to_f16(dst + 2 * i, vf_load(x + i));
    if (i == n) return;
    uint16_t rest[LANES];
    vf_to_f16(rest, vf_load_n(x + i, (int)(n - i)));
    memcpy(dst + 2 * i, rest, (size_t)(n - i) * sizeof rest[0]);
}

static void put_blocks(zt_cpu_call *call, int64_t begin, int64_t end)
{
    const int64_t W = call->in[1].type.dim[1];
    const zt_type *cache = &call->out[0].type;
    const size_t row_bytes = (size_t)(W / zt_dtype_get(cache->dtype)->block * zt_dtype_get(cache->dtype)->block_bytes);
    const slots at = slots_of(call, 2, call->in[0].type.dim[0]);
    for (int64_t t = begin; t < end; t++) {
        const int64_t slot = slots_own(&at, call, t);
        if (slot < 0) continue;
        zt_block_row_encode(cache->dtype, (const float *)call->in[1].data + t * W, W,
                            (char *)call->out[0].data + (size_t)slot * row_bytes);
    }
}

static void kv_put_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t n = call->in[1].type.dim[0], W = call->in[1].type.dim[1];
    bool half = call->out[0].type.dtype == ZT_F16;
    int64_t first = begin * COLUMNS, last = end * COLUMNS < W ? end * COLUMNS : W;
    slots slots_table = slots_of(call, 2, call->in[0].type.dim[0]);
    (void)phase, (void)local;
    if (zt_is_block_cache(call->out[0].type.dtype)) {
        put_blocks(call, begin, end);
        return;
    }
    for (int64_t t = 0; t < n; t++) {
        int64_t slot = slots_own(&slots_table, call, t);
        if (slot < 0) continue;
        const float *x = (const float *)call->in[1].data + t * W + first;
        if (half)
            put_f16(x, (char *)call->out[0].data + 2 * (slot * W + first), last - first);
        else
            memcpy((float *)call->out[0].data + slot * W + first, x, (size_t)(last - first) * sizeof *x);
    }
}

enum { KC, VC, Q, K, V, POS, SEQ, TABLE, TAB, GQ, GK }; /* inputs */
enum { AUX_KEYS };                                      /* items of the cache of keys */

static const zt_cpu_kernel *kernel_of(const zt_cpu_kernel *list, zt_op op)
{
    while (list->op != op) list++;
    return list;
}

/* The call of a kernel of the expansion. */
typedef struct part {
    zt_rope_attrs rope;
    zt_rms_norm_attrs norm;
    zt_cpu_call call;
} part;

static void start(part *p, const zt_cpu_kernel *list, zt_op op, const void *attrs)
{
    p->call.kernel = kernel_of(list, op);
    p->call.op = op;
    p->call.attrs = attrs;
    p->call.n_phases = 1;
}

static void forward(zt_cpu_call *call, const zt_cpu_call *inner)
{
    const zt_runtime_error *bad = &inner->error;
    if (bad->what) zt_cpu_runtime_error(call, bad->what, bad->value, bad->limit);
}

/* ---- phase 0 --------------------------------------------------------------------------------- */

static void start_rope(part *p, const zt_cpu_call *call, const zt_type *rows)
{
    *p = (part){.rope = zt_rope_put_rope(call->attrs)};
    start(p, ZT_SYM(zt_cpu_rope), ZT_OP_rope, &p->rope);
    p->call.in[0].type = p->call.out[0].type = *rows;
    p->call.in[1] = call->in[POS];
    p->call.in[2] = call->in[TAB];
    p->call.kernel->setup(&p->call);
    p->call.keep = call->keep;
}

/* Rows begin..end-1 of input x by the gains g into y. */
static void norm_rows(const zt_cpu_call *call, int x, int g, float *y, int64_t begin, int64_t end, void *local)
{
    const zt_rope_put_attrs *rope_put = call->attrs;
    int64_t W = call->in[x].type.dim[1], groups = rope_put->norm_dims ? W / rope_put->norm_dims : 1;
    part p = {.norm = {rope_put->eps, rope_put->norm_dims}};
    start(&p, ZT_SYM(zt_cpu_norm), ZT_OP_rms_norm, &p.norm);
    p.call.in[0] = call->in[x];
    p.call.in[1] = call->in[g];
    p.call.out[0].type = call->in[x].type;
    p.call.out[0].data = y;
    p.call.out[1].type = zt_type_make(ZT_F32, 2, (int64_t[]){call->in[x].type.dim[0], groups});
    p.call.kernel->setup(&p.call);
    p.call.kernel->run(&p.call, 0, begin * groups, end * groups, local);
}

static void rotate_rows(const zt_cpu_call *call, int x, int g, float *y, int64_t begin, int64_t end, void *local)
{
    part p;
    if (call->in[g].data) norm_rows(call, x, g, y, begin, end, local);
    start_rope(&p, call, &call->in[x].type);
    p.call.in[0].data = call->in[g].data ? y : call->in[x].data;
    p.call.out[0].data = y;
    p.call.kernel->run(&p.call, 0, begin, end, local);
}

/* ---- phase 1 --------------------------------------------------------------------------------- */

static void start_put(part *p, const zt_cpu_call *call, int cache)
{
    *p = (part){.norm = {0}};
    start(p, ZT_SYM(zt_cpu_kv_cache), ZT_OP_kv_put, NULL);
    p->call.in[0] = call->in[cache];
    p->call.in[1] = call->in[cache + K];
    for (int k = 0; k < 3; k++) p->call.in[2 + k] = call->in[POS + k];
    p->call.out[0] = call->out[cache];
    p->call.kernel->setup(&p->call);
}

static void put(zt_cpu_call *call, int cache, const void *x, int64_t begin, int64_t end, void *local)
{
    part p;
    start_put(&p, call, cache);
    p.call.in[1].data = (void *)(uintptr_t)x;
    p.call.kernel->run(&p.call, 0, begin, end, local);
    forward(call, &p.call);
}

/* ---- the call -------------------------------------------------------------------------------- */

static bool rope_put_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    for (int k = 0; k < 2; k++)
        if (!zt_is_cache_type(out[k].dtype)) return false;
    return true;
}

static void rope_put_setup(zt_cpu_call *call)
{
    part rope, keys, values;
    start_rope(&rope, call, &call->in[Q].type);
    start_put(&keys, call, KC);
    start_put(&values, call, VC);
    call->n_phases = 2;
    call->items[0] = call->in[Q].type.dim[0];
    call->aux[AUX_KEYS] = keys.call.items[0];
    call->items[1] = keys.call.items[0] + values.call.items[0];
    call->keep_bytes = rope.call.keep_bytes;
    call->local_bytes = rope.call.local_bytes;
    call->shared_bytes = zt_type_bytes(&call->in[K].type);
}

static void rope_put_prime(zt_cpu_call *call)
{
    part rope;
    start_rope(&rope, call, &call->in[Q].type);
    rope.call.kernel->prime(&rope.call);
}

static void rope_put_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const int64_t keys = call->aux[AUX_KEYS];
    if (phase == 0) {
        if (call->out[2].data) rotate_rows(call, Q, GQ, call->out[2].data, begin, end, local);
        rotate_rows(call, K, GK, call->shared, begin, end, local);
        return;
    }
    if (begin < keys) put(call, KC, call->shared, begin, end < keys ? end : keys, local);
    if (end > keys) put(call, VC, call->in[V].data, (begin > keys ? begin : keys) - keys, end - keys, local);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_kv_cache)[] = {
    {.op = ZT_OP_kv_put, .has = kv_put_has, .setup = kv_put_setup, .run = kv_put_run},
    {.op = ZT_OP_rope_put, .has = rope_put_has, .setup = rope_put_setup, .run = rope_put_run, .prime = rope_put_prime},
    {0},
};
