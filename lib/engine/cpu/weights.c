/* weights.c - how weights come into the engine.
 *
 * A matrix of a type that linear multiplies by is read slab by slab, a few groups of 16 rows each,
 * and repacked straight into its final place (pack.h), by all threads. So of a weight's file bytes
 * only a slab for each thread is ever in memory. All else is read as it is.
 */
#include "lib/engine/cpu/cpu_engine.h"
#include "lib/engine/cpu/pack.h"

#include <string.h>

enum { SLAB = 128 << 10, SMALL = 64 << 10 };

typedef struct packing {
    zt_cpu_engine *e;
    const zt_store *store;
    int64_t handle;
    zt_ebuf *b;
    size_t row_bytes, group_bytes;
    int64_t rows, slab_rows; /* slab_rows: a multiple of 16 */
    int64_t next;            /* atomic: the next slab */
    int status;              /* atomic: the first that failed */
} packing;

static zt_status pack_slab(const packing *p, int64_t slab, uint8_t *raw)
{
    int64_t row = slab * p->slab_rows,
            n = p->rows - row < p->slab_rows ? p->rows - row : p->slab_rows;
    int64_t columns = p->b->type.dim[1];
    zt_status st = p->store->read(p->store->user, p->handle, (size_t)row * p->row_bytes, raw,
                                  (size_t)n * p->row_bytes);
    for (int64_t r = 0; r < n && !st; r += ZT_PACK_ROWS) {
        int rows = n - r < ZT_PACK_ROWS ? (int)(n - r) : ZT_PACK_ROWS;
        uint8_t *group =
            (uint8_t *)p->b->data + (size_t)((row + r) / ZT_PACK_ROWS) * p->group_bytes;
        zt_pack_group(p->b->type.dtype, columns, raw + (size_t)r * p->row_bytes, p->row_bytes, rows,
                      group);
    }
    return st;
}

static void pack_some(void *user, int thread, int n_threads)
{
    packing *p = user;
    (void)n_threads;
    while (!__atomic_load_n(&p->status, __ATOMIC_RELAXED)) {
        int64_t slab = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
        if (slab * p->slab_rows >= p->rows) break;
        int st = pack_slab(p, slab, zt_cpu_local(p->e, thread)), none = ZT_OK;
        if (st)
            __atomic_compare_exchange_n(&p->status, &none, st, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED);
    }
}

static zt_ebuf *load_packed(zt_cpu_engine *e, const zt_type *t, const zt_store *s, int64_t handle)
{
    const zt_dtype_info *d = zt_dtype_get(t->dtype);
    packing p = {.e = e, .store = s, .handle = handle, .rows = t->dim[0]};
    size_t bytes, slab;
    p.row_bytes = (size_t)(t->dim[1] / d->block) * (size_t)d->block_bytes;
    p.group_bytes = zt_pack_group_bytes(t->dtype, t->dim[1]);
    p.slab_rows = ZT_PACK_ROWS;
    if (p.row_bytes && p.row_bytes < SLAB / ZT_PACK_ROWS)
        p.slab_rows = (int64_t)(SLAB / p.row_bytes) / ZT_PACK_ROWS * ZT_PACK_ROWS;
    size_t groups = (size_t)(t->dim[0] / ZT_PACK_ROWS + (t->dim[0] % ZT_PACK_ROWS != 0));
    if (!zt_mul_size(groups, p.group_bytes, &bytes) ||
        !zt_mul_size((size_t)p.slab_rows, p.row_bytes, &slab)) {
        zt_fail(e->base.ctx, ZT_ENOMEM, "a weight of %zu groups of %zu bytes", groups,
                p.group_bytes);
        return NULL;
    }
    if (zt_cpu_reserve(e, 0, 0, slab)) return NULL;
    p.b = zt_cpu_buffer(e, &e->weights, t, bytes);
    if (!p.b) return NULL;
    p.b->packed = true;
    if (bytes < SMALL)
        pack_some(&p, 0, 1);
    else
        zt_pool_run(e->pool, pack_some, &p);
    if (!p.status) return p.b;
    zt_cpu_buffer_free(e, p.b);
    return NULL;
}

zt_ebuf *zt_cpu_load(zt_engine *base, const zt_type *t, const zt_store *s, int64_t handle)
{
    zt_cpu_engine *e = (zt_cpu_engine *)base;
    if (t->rank == 2 && zt_pack_has(t->dtype)) return load_packed(e, t, s, handle);
    zt_ebuf *b = zt_cpu_buffer(e, &e->weights, t, zt_type_bytes(t));
    if (!b || !b->bytes || s->read(s->user, handle, 0, b->data, b->bytes) == ZT_OK) return b;
    zt_cpu_buffer_free(e, b);
    return NULL;
}

void *zt_cpu_plain(zt_cpu_engine *e, zt_ebuf *b)
{
    const zt_type *t = &b->type;
    const zt_dtype_info *d = zt_dtype_get(t->dtype);
    size_t group = zt_pack_group_bytes(t->dtype, t->dim[1]), columns = (size_t)t->dim[1];
    size_t row = columns * (d->kind == 'Q' ? sizeof(float) : (size_t)d->block_bytes), bytes;
    if (b->plain) return b->plain;
    if (!zt_mul_size(row, (size_t)t->dim[0], &bytes)) bytes = SIZE_MAX;
    float *line = zt_alloc_array(e->base.ctx, columns, sizeof *line);
    uint8_t *plain = line ? zt_alloc(e->base.ctx, bytes) : NULL;
    for (int64_t r = 0; plain && r < t->dim[0]; r++) {
        zt_unpack_row(t->dtype, t->dim[1], (uint8_t *)b->data + (size_t)(r / ZT_PACK_ROWS) * group,
                      (int)(r % ZT_PACK_ROWS), line);
        if (d->kind == 'Q')
            memcpy(plain + (size_t)r * row, line, row);
        else
            d->encode(line, plain + (size_t)r * row, t->dim[1]);
    }
    zt_free(e->base.ctx, line);
    if (plain) zt_cpu_held(e, b->plain_bytes = bytes, 0);
    b->plain = plain;
    return plain;
}
