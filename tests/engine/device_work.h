/* device_work.h - what tests of a failing driver ask of an engine with a device: a weight added in a
 * session, a state that goes up and comes back, ops ahead of the caller, an op that is watched.
 * `right` becomes false where a result is wrong; errors are given back. For one C file each. */
#ifndef ZT_DEVICE_WORK_H
#define ZT_DEVICE_WORK_H

#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <string.h>

static inline zt_status find_w(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user, (void)name;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){1, 8});
    *handle = 0;
    return ZT_OK;
}

static inline zt_status read_w(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user, (void)handle, (void)offset;
    for (size_t i = 0; i < n / 4; i++) ((float *)dst)[i] = 1;
    return ZT_OK;
}

static zt_prog *added; /* (x + w) + x, in a context of its own, which does not fail */

static inline zt_prog *make_added(zt_ctx *ctx)
{
    const int64_t dim[] = {1, 8};
    zt_prog *p = zt_prog_new(ctx);
    int a = zt_prog_in(p, "x", ZT_F32, 2, dim), w = zt_prog_data(p, "w", ZT_F32, 2, dim, "w");
    zt_prog_out(p, "y", zt_program_add(p, NULL, zt_program_add(p, NULL, a, w), a));
    return p;
}

/* A weight is added. */
static inline zt_status replayed(zt_ctx *ctx, zt_engine *e, bool *right)
{
    const zt_store store = {.find = find_w, .read = read_w};
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8] = {0};
    zt_session *s = zt_session_open(e, added, &store, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    zt_status st = s ? zt_session_step(s, NULL, 0, in, out) : zt_ctx_status(ctx);
    *right = *right && (st || (y[0] == 3 && y[7] == 17));
    zt_session_close(s);
    return st;
}

/* A state goes up and comes back. */
static inline zt_status copied(zt_engine *e, bool *right)
{
    const int64_t dim = 5;
    zt_type t = zt_type_make(ZT_F32, 1, &dim);
    float x[5] = {5, 4, 3, 2, 1}, y[5] = {0};
    zt_ebuf *b = e->vt->alloc(e, &t);
    zt_status st = b ? e->vt->upload(e, b, x) : zt_ctx_status(e->ctx);
    if (!st) st = e->vt->download(e, b, y);
    *right = *right && (st || !memcmp(x, y, sizeof x));
    e->vt->free(e, b);
    return st;
}

/* Ops ahead of the caller, handed over at two. */
static inline zt_status ahead(zt_ctx *ctx, zt_engine *e, bool *right)
{
    const int64_t dim = 6;
    zt_type t = zt_type_make(ZT_F32, 1, &dim);
    zt_run *r = zt_run_new(e, true);
    zt_tensor *x = zt_tensor_new(ctx, &t);
    zt_status st = r && x ? ZT_OK : ZT_ENOMEM;
    if (!st) {
        zt_run_flush_at(r, 2);
        for (int i = 0; i < 6; i++) ((float *)zt_tensor_data(x))[i] = (float)i;
        zt_tensor *y = zt_eager_add(r, zt_eager_add(r, zt_eager_add(r, x, x), x), x);
        const float *data = y ? zt_tensor_data(y) : NULL;
        st = zt_ctx_status(ctx);
        *right = *right && (st || data[5] == 20);
    }
    zt_run_free(r);
    zt_tensor_unref(x);
    return st ? st : zt_ctx_status(ctx);
}

static inline void ignore(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    (void)user, (void)plan, (void)step, (void)seconds;
}

/* One op, whose time is asked for. */
static inline zt_status watched(zt_engine *e, bool *right)
{
    const int64_t dim = 3;
    zt_type type[] = {zt_type_make(ZT_F32, 1, &dim), zt_type_make(ZT_F32, 1, &dim)};
    zt_place place[] = {{.kind = ZT_PLACE_IN}, {.kind = ZT_PLACE_OUT}};
    zt_step step = {.op = ZT_OP_add, .in = {0, 0}, .out = {1}};
    zt_run_schedule plan = {.n_values = 2, .type = type, .place = place, .n_steps = 1, .step = &step, .n_in = 1, .n_out = 1};
    const zt_watch watch = {.after = ignore};
    float x[3] = {1, 2, 3}, y[3] = {0};
    const void *in[] = {x};
    void *out[] = {y};
    zt_executable *r = e->vt->prepare(e, &plan);
    zt_status st = r ? e->vt->replay(e, r, in, out, &watch) : zt_ctx_status(e->ctx);
    *right = *right && (st || y[2] == 6);
    if (r) e->vt->unprepare(e, r);
    return st;
}

#endif
