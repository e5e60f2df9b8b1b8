/* kernels.c - which row runs an op, and how a row launches its kernels. */
#include "lib/engine/cuda/persistent_kernel.h"

#include <string.h>

#define X(name) _Static_assert((int)ZT_CU_##name == (int)ZT_##name, "the dtypes of args.h");
ZT_CU_DTYPES(X)
#undef X
_Static_assert((int)ZT_CU_DTYPE_COUNT == (int)ZT_DTYPE_COUNT, "the dtypes of args.h");

/* ---- rows ------------------------------------------------------------------------------------ */

static const zt_cu_row *const families[] = {
#define X(f) zt_cu_##f,
    ZT_CU_FAMILIES(X)
#undef X
};

const zt_cu_row *zt_cu_find(const zt_cu_engine *e, zt_op op, const void *attrs,
                            const zt_type *const in[], const zt_type out[])
{
    if (!attrs) attrs = zt_op_info(op)->defaults;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (const zt_cu_row *r = families[f]; r->emit; r++)
            if (r->op == op && r->has(e, attrs, in, out)) return r;
    return NULL;
}

bool zt_cu_is_float(zt_dtype t) { return t == ZT_F32 || t == ZT_F16 || t == ZT_BF16; }

bool zt_cu_has_shared(const zt_cu_engine *e, size_t shared)
{
    return shared + ZT_CU_SHARED_OWN <= e->shared_optin;
}

/* ---- kernels by name ------------------------------------------------------------------------- */

/* Images are loaded one after the other until one has the kernel. The emulation has one module. */
static zt_status load_next(zt_cu_engine *e, bool *more)
{
    const void *image = e->cu.emulated ? NULL : e->cu.platform->images[e->n_modules];
    *more = e->n_modules < ZT_CU_MODULES && (e->cu.emulated ? e->n_modules == 0 : image != NULL);
    if (!*more) return ZT_OK;
    int r = e->cu.ModuleLoadData(&e->module[e->n_modules], image);
    if (r == ZT_CU_NO_BINARY)
        return zt_fail(e->base.ctx, ZT_ENOTSUP, "engine %s: no kernels for %s of compute %d.%d",
                       e->base.vt->name, e->name, e->major, e->minor);
    zt_status s = zt_cu_try(e, r, "ModuleLoadData");
    if (!s) e->n_modules++;
    return s;
}

static zt_status look_up(zt_cu_engine *e, const char *name, zt_cu_function *f)
{
    bool more = true;
    for (int m = 0; more; m++) {
        zt_status s = m < e->n_modules ? ZT_OK : load_next(e, &more);
        if (s) return s;
        if (!more) break;
        int r = e->cu.ModuleGetFunction(f, e->module[m], name);
        if (r != ZT_CU_NOT_FOUND) return zt_cu_try(e, r, "ModuleGetFunction");
    }
    return zt_fail(e->base.ctx, ZT_EBUG, "engine %s: no kernel '%s'", e->base.vt->name, name);
}

/* Its place in the table, or the free one where it belongs; NULL: the table is full. */
static zt_cu_known *place_of(zt_cu_engine *e, const char *name)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (const char *p = name; *p; p++) h = (h ^ (uint8_t)*p) * 16777619u;
    for (uint32_t i = 0; i < ZT_CU_KNOWN; i++) {
        zt_cu_known *k = &e->known[(h + i) % ZT_CU_KNOWN];
        if (!k->name || !strcmp(k->name, name)) return k;
    }
    return NULL;
}

zt_cu_function zt_cu_function_of(zt_cu_engine *e, const char *name, size_t shared)
{
    zt_cu_known *k = place_of(e, name);
    if (!k) {
        zt_fail(e->base.ctx, ZT_EBUG, "engine %s: more than %d kernels", e->base.vt->name,
                ZT_CU_KNOWN);
        return NULL;
    }
    if (!k->name) {
        zt_cu_function f = NULL;
        if (look_up(e, name, &f)) return NULL;
        *k = (zt_cu_known){.name = name, .f = f, .shared = e->shared - ZT_CU_SHARED_OWN};
    }
    if (shared > k->shared) { /* more than every kernel has, its own arrays counted, must be asked for */
        if (zt_cu_try(e, e->cu.FuncSetAttribute(k->f, ZT_CU_FUNC_DYNAMIC_SHARED, (int)shared),
                      "FuncSetAttribute"))
            return NULL;
        k->shared = shared;
    }
    return k->f;
}

void zt_cu_modules_close(zt_cu_engine *e)
{
    for (int m = 0; m < e->n_modules; m++) e->cu.ModuleUnload(e->module[m]);
    e->n_modules = 0;
}

/* ---- what a row's emit calls ----------------------------------------------------------------- */

static zt_status too_large(const zt_cu_call *c, const char *what)
{
    return zt_fail(c->e->base.ctx, ZT_ENOTSUP, "engine %s: op %s: %s is too large",
                   c->e->base.vt->name, zt_op_info(c->op)->name, what);
}

static zt_status fits(const zt_cu_call *c, zt_cu_dim g, zt_cu_dim b, size_t shared, size_t bytes)
{
    const zt_cu_engine *e = c->e;
    uint64_t threads = (uint64_t)b.x * b.y * b.z;
    if (bytes > ZT_CU_ARGS) return too_large(c, "what a kernel is given");
    if (!zt_cu_has_shared(e, shared)) return too_large(c, "a block's shared memory");
    if (threads > (uint64_t)e->max_threads) return too_large(c, "a block");
    if (g.x > e->max_grid[0] || g.y > e->max_grid[1] || g.z > e->max_grid[2])
        return too_large(c, "a grid");
    return ZT_OK;
}

zt_status zt_cu_launch(zt_cu_call *c, const char *name, zt_cu_dim g, zt_cu_dim b, size_t shared,
                       const void *args, size_t bytes)
{
    zt_cu_engine *e = c->e;
    void *params[] = {(void *)(uintptr_t)args};
    if (!g.x || !g.y || !g.z) return ZT_OK;
    zt_status s = c->sizing ? fits(c, g, b, shared, bytes) : ZT_OK;
    zt_cu_function f = s ? NULL : zt_cu_function_of(e, name, shared);
    if (!f) return s ? s : zt_ctx_status(e->base.ctx);
    c->launches++;
    bool taken = false;
    if (c->tape && (s = zt_cu_persistent_kernel_take(c, name, g, shared, args, bytes, &taken))) return s;
    if (c->sizing || taken) return ZT_OK;
    if (c->tape) c->tape->launches++;
    return zt_cu_try(e,
                     e->cu.LaunchKernel(f, g.x, g.y, g.z, b.x, b.y, b.z, (unsigned)shared,
                                        e->stream, params, NULL),
                     "LaunchKernel");
}

zt_status zt_cu_foreign(zt_cu_call *c, bool *goes)
{
    c->launches++;
    zt_status s = zt_cu_persistent_kernel_cut(c->e, c->tape);
    *goes = !s && !c->sizing;
    if (*goes && c->tape) c->tape->launches++;
    return s;
}

enum { ALIGN = 256 };

/* What stands for an address while sizing: not 0, which would mean that there is none. */
static const zt_cu_ptr somewhere = ALIGN;

zt_cu_ptr zt_cu_scratch(zt_cu_call *c, size_t bytes)
{
    size_t at = c->scratch_used;
    if (bytes > SIZE_MAX / 2 || at > SIZE_MAX / 2) {
        too_large(c, "scratch");
        return 0;
    }
    c->scratch_used = at + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (c->scratch_used > c->scratch_bytes) c->scratch_bytes = c->scratch_used;
    return c->sizing && !c->tape ? somewhere : c->scratch + at;
}

zt_cu_ptr zt_cu_table(zt_cu_call *c, const void *host, size_t bytes)
{
    size_t at = c->table_bytes, end = at + (bytes + ALIGN - 1) / ALIGN * ALIGN;
    c->table_bytes = end;
    if (!c->sizing || c->tape) return c->tables + at;
    if (end > c->table_room) {
        size_t room = end > 2 * c->table_room ? end : 2 * c->table_room;
        uint8_t *more = zt_realloc(c->e->base.ctx, c->table, room);
        if (!more) return 0;
        c->table = more;
        c->table_room = room;
    }
    memset(c->table + at, 0, end - at);
    if (bytes) memcpy(c->table + at, host, bytes);
    return somewhere;
}

zt_status zt_cu_fill(zt_cu_call *c, zt_cu_ptr at, unsigned char v, size_t n)
{
    zt_status s = n ? zt_cu_persistent_kernel_cut(c->e, c->tape) : ZT_OK;
    if (c->sizing || n == 0 || s) return s;
    return zt_cu_try(c->e, c->e->cu.MemsetD8Async(at, v, n, c->e->stream), "MemsetD8Async");
}

zt_status zt_cu_move(zt_cu_call *c, zt_cu_ptr to, zt_cu_ptr from, size_t n)
{
    if (n == 0 || to == from) return ZT_OK;
    zt_status s = zt_cu_persistent_kernel_cut(c->e, c->tape);
    if (c->sizing || s) return s;
    return zt_cu_try(c->e, c->e->cu.MemcpyDtoDAsync(to, from, n, c->e->stream), "MemcpyDtoDAsync");
}

zt_cu_dim zt_cu_grid(int64_t n, int64_t each)
{
    int64_t blocks = n / each + (n % each > 0);
    return (zt_cu_dim){(unsigned)(blocks < UINT32_MAX ? blocks : UINT32_MAX), 1, 1};
}
