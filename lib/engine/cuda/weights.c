/* weights.c - how weights come into the engine: once, through the store, as the file has them;
 * those of block types are then repacked on the device, and what came from the file is given back.
 *
 * Where the device's memory is the host's own, what stays as in the file is read into memory that
 * both see, and not copied.
 */
#include "lib/engine/cuda/cu.h"

#include <string.h>

const zt_cu_pack *zt_cu_pack_find(zt_dtype dtype)
{
    for (const zt_cu_pack *pack = zt_cu_packs; pack->pack; pack++)
        if (pack->dtype == dtype) return pack;
    return NULL;
}

static zt_status read_through(zt_cu_engine *engine, size_t bytes, const zt_store *store, int64_t handle, zt_cu_ptr target)
{
    zt_status status = ZT_OK;
    for (size_t offset = 0; offset < bytes && !status;) {
        size_t part = bytes - offset;
        uint8_t *staging = zt_cu_half(engine, &part);
        if (!staging) return zt_ctx_status(engine->base.ctx);
        status = store->read(store->user, handle, offset, staging, part);
        if (!status) status = zt_cu_half_send(engine, target + offset, part);
        offset += part;
    }
    return status;
}

static zt_status load_raw(zt_cu_engine *engine, const zt_type *type, const zt_store *store, int64_t handle, bool stays,
                          zt_cu_mem *target)
{
    size_t bytes = zt_type_bytes(type);
    bool shared = stays && engine->unified;
    zt_status status = zt_cu_alloc(engine, shared ? ZT_CU_HOST_MEM : ZT_CU_DEVICE_MEM, bytes, target);
    if (status || bytes == 0) return status;
    return shared ? store->read(store->user, handle, 0, target->host, bytes)
                  : read_through(engine, bytes, store, handle, target->address);
}

/* The matrix that a weight is packed as: of a stack [E,M,K] the rows of all its matrices, where each begins with a tile. */
static int64_t packed_rows(const zt_type *type) { return type->rank == 3 ? type->dim[0] * type->dim[1] : type->dim[0]; }

static int64_t packed_columns(const zt_type *type) { return type->dim[type->rank - 1]; }

static bool may_pack(const zt_type *type)
{
    return zt_type_count(type) > 0 && (type->rank == 2 || (type->rank == 3 && type->dim[1] % ZT_CU_TILE_ROWS == 0));
}

/* One form into the other, both of them weights of b's type. */
static zt_status repack_weight(zt_cu_engine *engine, const zt_ebuf *buffer, bool back, zt_cu_ptr from, zt_cu_ptr target)
{
    const zt_type *type = &buffer->type;
    zt_cu_call call = {.engine = engine, .op = ZT_OP_linear};
    engine->pending = true;
    return (back ? buffer->pack->unpack : buffer->pack->pack)(buffer->pack, &call, from, target, packed_rows(type),
                                                              packed_columns(type));
}

static zt_status load_packed(zt_cu_engine *engine, const zt_store *store, int64_t handle, zt_ebuf *buffer)
{
    zt_cu_mem raw;
    const zt_type *type = &buffer->type;
    zt_status status = load_raw(engine, &buffer->type, store, handle, false, &raw);
    if (!status)
        status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, buffer->pack->bytes(buffer->pack, packed_rows(type), packed_columns(type)),
                             &buffer->memory);
    if (!status) status = repack_weight(engine, buffer, false, raw.address, buffer->memory.address);
    zt_cu_release(engine, &raw);
    return status;
}

/* Weights leave a part of the device's memory to what schedules need, so that where not all of them fit
 * the device still runs those that do. */
enum { PLANS_PART = 16 };

static zt_status leave_room(zt_cu_engine *engine, size_t bytes)
{
    size_t left = 0, whole = 0;
    zt_status status = zt_cu_try(engine, engine->cu.MemGetInfo(&left, &whole), "MemGetInfo");
    if (status || (left >= whole / PLANS_PART && bytes <= left - whole / PLANS_PART)) return status;
    return zt_fail(engine->base.ctx, ZT_ENOMEM,
                   "%s: %s: out of device memory for a weight: requested %zu bytes, %zu free, %zu of "
                   "these reserved for plans",
                   engine->base.vt->name, engine->name, bytes, left, whole / PLANS_PART);
}

zt_ebuf *zt_cu_load_weight(zt_engine *base, const zt_type *type, const zt_store *store, int64_t handle)
{
    zt_cu_engine *engine = (zt_cu_engine *)base;
    zt_ebuf *buffer = zt_cu_enter(engine) ? NULL : zt_calloc(base->ctx, 1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->type = *type;
    buffer->model = true;
    /* Kernels with the bits of docs/arithmetic.md read blocks as in a file. */
    buffer->pack =
        may_pack(type) && zt_cu_has_kernel(engine, "zt_pack") && !base->strict_bits ? zt_cu_pack_find(type->dtype) : NULL;
    zt_status status = leave_room(engine, zt_type_bytes(type));
    if (!status)
        status = buffer->pack ? load_packed(engine, store, handle, buffer)
                              : load_raw(engine, type, store, handle, true, &buffer->memory);
    if (!status) return buffer;
    base->vt->free(base, buffer);
    return NULL;
}

zt_status zt_cu_plain(zt_cu_engine *engine, zt_ebuf *buffer)
{
    if (buffer->plain.address) return ZT_OK;
    zt_status status = zt_cu_alloc(engine, ZT_CU_DEVICE_MEM, zt_type_bytes(&buffer->type), &buffer->plain);
    if (!status) status = repack_weight(engine, buffer, true, buffer->memory.address, buffer->plain.address);
    if (status) zt_cu_release(engine, &buffer->plain);
    return status;
}
