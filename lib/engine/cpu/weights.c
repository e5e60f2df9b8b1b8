/* weights.c - how weights come into the engine.
 *
 * A matrix of a type that linear multiplies by is read slab by slab, a few groups of 16 rows each,
 * and repacked straight into its final place (pack.h), by all threads. So of a weight's file bytes
 * only a slab for each thread is ever in memory. Of stacked matrices, those of experts, each begins
 * with a group of its own. All else is read as it is. A large matrix waits in its store until an op other than gather wants it:
 * of a table of embeddings, or of per-layer embeddings, only the rows of tokens are ever read.
 */
#include "lib/engine/cpu/cpu_engine.h"
#include "lib/engine/cpu/pack.h"

#include <inttypes.h>
#include <string.h>

enum { SLAB = 128 << 10, SMALL = 64 << 10, TABLE = 16 << 20 };

typedef struct weight_packing {
    zt_cpu_engine *engine;
    const zt_store *store;
    int64_t handle;
    zt_ebuf *buffer;
    size_t row_bytes, group_bytes;
    int64_t matrices, rows, columns; /* rows of each matrix */
    int64_t slab_rows, slabs;        /* slab_rows: a multiple of 16; slabs of a matrix */
    int64_t next;                    /* atomic: the next slab */
    int status;                      /* atomic: the first that failed */
} weight_packing;

static int64_t groups_of(int64_t rows) { return rows / ZT_PACK_ROWS + (rows % ZT_PACK_ROWS != 0); }

static zt_status pack_slab(const weight_packing *packing, int64_t slab, uint8_t *raw)
{
    int64_t matrix = slab / packing->slabs, row = slab % packing->slabs * packing->slab_rows, columns = packing->columns;
    int64_t rows = packing->rows - row < packing->slab_rows ? packing->rows - row : packing->slab_rows;
    size_t first_group = (size_t)(matrix * groups_of(packing->rows) + row / ZT_PACK_ROWS);
    zt_status status =
        packing->store->read(packing->store->user, packing->handle, (size_t)(matrix * packing->rows + row) * packing->row_bytes,
                             raw, (size_t)rows * packing->row_bytes);
    for (int64_t r = 0; r < rows && !status; r += ZT_PACK_ROWS) {
        int group_rows = rows - r < ZT_PACK_ROWS ? (int)(rows - r) : ZT_PACK_ROWS;
        uint8_t *group = (uint8_t *)packing->buffer->data + (first_group + (size_t)(r / ZT_PACK_ROWS)) * packing->group_bytes;
        zt_pack_group(packing->buffer->type.dtype, columns, raw + (size_t)r * packing->row_bytes, packing->row_bytes, group_rows,
                      group);
    }
    return status;
}

static void pack_slabs(void *user, int thread, int n_threads)
{
    weight_packing *packing = user;
    (void)n_threads;
    while (!__atomic_load_n(&packing->status, __ATOMIC_RELAXED)) {
        int64_t slab = __atomic_fetch_add(&packing->next, 1, __ATOMIC_RELAXED);
        if (slab >= packing->matrices * packing->slabs) break;
        int status = pack_slab(packing, slab, zt_cpu_local(packing->engine, thread)), ok = ZT_OK;
        if (status) __atomic_compare_exchange_n(&packing->status, &ok, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

static zt_ebuf *load_packed(zt_cpu_engine *engine, const zt_type *type, const zt_store *store, int64_t handle)
{
    const zt_dtype_info *dtype = zt_dtype_get(type->dtype);
    weight_packing packing = {.engine = engine, .store = store, .handle = handle, .matrices = type->rank == 3 ? type->dim[0] : 1};
    size_t bytes, slab, groups;
    packing.rows = type->dim[type->rank - 2];
    packing.columns = type->dim[type->rank - 1];
    packing.row_bytes = (size_t)(packing.columns / dtype->block) * (size_t)dtype->block_bytes;
    packing.group_bytes = zt_pack_group_bytes(type->dtype, packing.columns);
    packing.slab_rows = ZT_PACK_ROWS;
    if (packing.row_bytes && packing.row_bytes < SLAB / ZT_PACK_ROWS)
        packing.slab_rows = (int64_t)(SLAB / packing.row_bytes) / ZT_PACK_ROWS * ZT_PACK_ROWS;
    packing.slabs = (packing.rows + packing.slab_rows - 1) / packing.slab_rows;
    if (!zt_mul_size((size_t)groups_of(packing.rows), (size_t)packing.matrices, &groups) ||
        !zt_mul_size(groups, packing.group_bytes, &bytes) || !zt_mul_size((size_t)packing.slab_rows, packing.row_bytes, &slab)) {
        zt_fail(engine->base.ctx, ZT_ENOMEM, "weight too large (%" PRId64 " matrices of %" PRId64 " groups of %zu bytes)",
                packing.matrices, groups_of(packing.rows), packing.group_bytes);
        return NULL;
    }
    if (zt_cpu_reserve(engine, 0, 0, slab)) return NULL;
    packing.buffer = zt_cpu_buffer(engine, &engine->weights, type, bytes);
    if (!packing.buffer) return NULL;
    packing.buffer->packed = true;
    if (bytes < SMALL)
        pack_slabs(&packing, 0, 1);
    else
        zt_pool_run(engine->pool, pack_slabs, &packing);
    if (!packing.status) return packing.buffer;
    zt_cpu_buffer_free(engine, packing.buffer);
    return NULL;
}

static zt_ebuf *load_whole(zt_cpu_engine *engine, const zt_type *type, const zt_store *store, int64_t handle)
{
    if ((type->rank == 2 || type->rank == 3) && zt_pack_supports(type->dtype)) return load_packed(engine, type, store, handle);
    zt_ebuf *buffer = zt_cpu_buffer(engine, &engine->weights, type, zt_type_bytes(type));
    if (!buffer || !buffer->bytes || store->read(store->user, handle, 0, buffer->data, buffer->bytes) == ZT_OK) return buffer;
    zt_cpu_buffer_free(engine, buffer);
    return NULL;
}

zt_ebuf *zt_cpu_load(zt_engine *base, const zt_type *type, const zt_store *store, int64_t handle)
{
    zt_cpu_engine *engine = (zt_cpu_engine *)base;
    const zt_dtype_info *dtype = zt_dtype_get(type->dtype);
    bool table = type->rank == 2 && zt_type_bytes(type) >= TABLE && dtype->decode && type->dim[1] % dtype->block == 0;
    zt_ebuf *buffer = table ? zt_cpu_buffer(engine, &engine->weights, type, 1) : load_whole(engine, type, store, handle);
    if (!buffer) return NULL;
    buffer->in_store = table;
    buffer->store = *store;
    buffer->handle = handle;
    return buffer;
}

zt_status zt_cpu_load_table(zt_cpu_engine *engine, zt_ebuf *buffer)
{
    zt_ebuf *loaded = load_whole(engine, &buffer->type, &buffer->store, buffer->handle), table = *buffer;
    if (!loaded) return zt_ctx_status(engine->base.ctx);
    *buffer = *loaded;
    buffer->store = table.store;
    buffer->handle = table.handle;
    *loaded = table;
    zt_cpu_buffer_free(engine, loaded);
    return ZT_OK;
}

static size_t stored_row(const zt_type *type)
{
    const zt_dtype_info *dtype = zt_dtype_get(type->dtype);
    return (size_t)(type->dim[1] / dtype->block) * (size_t)dtype->block_bytes;
}

static void gather_setup(zt_cpu_call *call)
{
    call->items[0] = zt_type_count(&call->in[1].type);
    call->local_bytes = stored_row(&call->in[0].type);
}

static void gather_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_ebuf *table = call->in[0].data;
    const bool wide = call->in[1].type.dtype == ZT_I64;
    const zt_type *type = &call->in[0].type; /* the table's, or that of a view of it */
    int64_t rows = type->dim[0], columns = type->dim[1];
    size_t bytes = stored_row(type);
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        float *y = (float *)call->out[0].data + item * columns;
        int64_t at = wide ? ((const int64_t *)call->in[1].data)[item] : ((const int32_t *)call->in[1].data)[item];
        bool there = at >= 0 && at < rows;
        zt_status status = there ? table->store.read(table->store.user, table->handle, (size_t)at * bytes, local, bytes) : ZT_OK;
        if (there && status == ZT_OK) {
            zt_dtype_get(type->dtype)->decode(local, y, columns);
            continue;
        }
        if (status) zt_cpu_runtime_error(call, "a row of a weight cannot be read", 0, -1);
        if (!there && ((const zt_gather_attrs *)call->attrs)->oob.s[0] == 'e') zt_cpu_runtime_error(call, "index", at, rows);
        memset(y, 0, (size_t)columns * sizeof *y);
    }
}

const zt_cpu_kernel zt_cpu_gather_stored = {.op = ZT_OP_gather, .setup = gather_setup, .run = gather_run};

void *zt_cpu_plain_copy(zt_cpu_engine *engine, zt_ebuf *buffer)
{
    const zt_type *type = &buffer->type;
    const zt_dtype_info *dtype = zt_dtype_get(type->dtype);
    int64_t matrix_rows = type->dim[type->rank - 2], columns = type->dim[type->rank - 1];
    int64_t rows = matrix_rows * (type->rank == 3 ? type->dim[0] : 1);
    size_t group = zt_pack_group_bytes(type->dtype, columns), bytes;
    size_t row = (size_t)columns * (dtype->kind == 'Q' ? sizeof(float) : (size_t)dtype->block_bytes);
    if (buffer->plain) return buffer->plain;
    if (!zt_mul_size(row, (size_t)rows, &bytes)) bytes = SIZE_MAX;
    float *line = zt_alloc_array(engine->base.ctx, (size_t)columns, sizeof *line);
    uint8_t *plain = line ? zt_alloc(engine->base.ctx, bytes) : NULL;
    for (int64_t r = 0; plain && r < rows; r++) {
        int64_t within = r % matrix_rows, at = r / matrix_rows * groups_of(matrix_rows) + within / ZT_PACK_ROWS;
        zt_unpack_row(type->dtype, columns, (uint8_t *)buffer->data + (size_t)at * group, (int)(within % ZT_PACK_ROWS), line);
        if (dtype->kind == 'Q')
            memcpy(plain + (size_t)r * row, line, row);
        else
            dtype->encode(line, plain + (size_t)r * row, columns);
    }
    zt_free(engine->base.ctx, line);
    if (plain) zt_cpu_count_bytes(engine, buffer->plain_bytes = bytes, 0);
    buffer->plain = plain;
    return plain;
}
