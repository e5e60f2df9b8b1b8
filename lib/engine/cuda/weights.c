/* weights.c - how weights come into the engine: once, through the store, as the file has them;
 * those of block types are then repacked on the device, and what came from the file is given back.
 *
 * Where the device's memory is the host's own, what stays as in the file is read into memory that
 * both see, and not copied.
 */
#include "lib/engine/cuda/cu.h"

#include <string.h>

const zt_cu_pack *zt_cu_pack_find(zt_dtype t)
{
    for (const zt_cu_pack *p = zt_cu_packs; p->pack; p++)
        if (p->dtype == t) return p;
    return NULL;
}

static zt_status read_through(zt_cu_engine *e, size_t bytes, const zt_store *s, int64_t handle,
                              zt_cu_ptr to)
{
    zt_status st = ZT_OK;
    for (size_t at = 0; at < bytes && !st;) {
        size_t part = bytes - at;
        uint8_t *p = zt_cu_half(e, &part);
        if (!p) return zt_ctx_status(e->base.ctx);
        st = s->read(s->user, handle, at, p, part);
        if (!st) st = zt_cu_half_send(e, to + at, part);
        at += part;
    }
    return st;
}

static zt_status load_raw(zt_cu_engine *e, const zt_type *t, const zt_store *s, int64_t handle,
                          bool stays, zt_cu_mem *to)
{
    size_t bytes = zt_type_bytes(t);
    bool shared = stays && e->unified;
    zt_status st = zt_cu_alloc(e, shared ? ZT_CU_HOST_MEM : ZT_CU_DEVICE_MEM, bytes, to);
    if (st || bytes == 0) return st;
    return shared ? s->read(s->user, handle, 0, to->host, bytes)
                  : read_through(e, bytes, s, handle, to->at);
}

/* One form into the other, both of them weights of b's type. */
static zt_status repack(zt_cu_engine *e, const zt_ebuf *b, bool back, zt_cu_ptr from, zt_cu_ptr to)
{
    const zt_type *t = &b->type;
    zt_cu_call c = {.e = e, .op = ZT_OP_linear};
    e->pending = true;
    return (back ? b->pack->unpack : b->pack->pack)(b->pack, &c, from, to, t->dim[0], t->dim[1]);
}

static zt_status load_packed(zt_cu_engine *e, const zt_store *s, int64_t handle, zt_ebuf *b)
{
    zt_cu_mem raw;
    zt_status st = load_raw(e, &b->type, s, handle, false, &raw);
    if (!st)
        st = zt_cu_alloc(e, ZT_CU_DEVICE_MEM,
                         b->pack->bytes(b->pack, b->type.dim[0], b->type.dim[1]), &b->mem);
    if (!st) st = repack(e, b, false, raw.at, b->mem.at);
    zt_cu_release(e, &raw);
    return st;
}

/* Weights leave a part of the device's memory to what plans need, so that where not all of them fit
 * the device still runs those that do. */
enum { PLANS_PART = 16 };

static zt_status leave_room(zt_cu_engine *e, size_t bytes)
{
    size_t left = 0, whole = 0;
    zt_status s = zt_cu_try(e, e->cu.MemGetInfo(&left, &whole), "MemGetInfo");
    if (s || (left >= whole / PLANS_PART && bytes <= left - whole / PLANS_PART)) return s;
    return zt_fail(e->base.ctx, ZT_ENOMEM,
                   "%s: %s has no %zu bytes more for a weight: %zu are free, %zu of them for plans",
                   e->base.vt->name, e->name, bytes, left, whole / PLANS_PART);
}

zt_ebuf *zt_cu_load_weight(zt_engine *base, const zt_type *t, const zt_store *s, int64_t handle)
{
    zt_cu_engine *e = (zt_cu_engine *)base;
    zt_ebuf *b = zt_cu_enter(e) ? NULL : zt_calloc(base->ctx, 1, sizeof *b);
    if (!b) return NULL;
    b->type = *t;
    b->model = true;
    b->pack = t->rank == 2 && zt_type_count(t) > 0 ? zt_cu_pack_find(t->dtype) : NULL;
    zt_status st = leave_room(e, zt_type_bytes(t));
    if (!st)
        st = b->pack ? load_packed(e, s, handle, b) : load_raw(e, t, s, handle, true, &b->mem);
    if (!st) return b;
    base->vt->free(base, b);
    return NULL;
}

zt_status zt_cu_plain(zt_cu_engine *e, zt_ebuf *b)
{
    if (b->plain.at) return ZT_OK;
    zt_status s = zt_cu_alloc(e, ZT_CU_DEVICE_MEM, zt_type_bytes(&b->type), &b->plain);
    if (!s) s = repack(e, b, true, b->mem.at, b->plain.at);
    if (s) zt_cu_release(e, &b->plain);
    return s;
}
