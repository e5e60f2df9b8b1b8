/* chain_program.h - for tests of lib/run: a chain of elementwise ops as a program, by eager ops and by
 * hand; and what such tests ask of an engine. For one C file each.
 */
#ifndef ZT_TEST_CHAIN_PROGRAM_H
#define ZT_TEST_CHAIN_PROGRAM_H

#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

#define CHAIN_FN __attribute__((unused)) static

enum { N = 5, W = 32 };

static zt_ctx *ctx;

CHAIN_FN zt_prog *parse(const char *text) { return zt_prog_parse(ctx, "test.zt", text, strlen(text)); }

CHAIN_FN void fill(float *x, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) x[i] = (float)zt_normal(seed, 0, (uint64_t)i);
}

CHAIN_FN bool close_to(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!(a[i] - b[i] < 1e-5f && b[i] - a[i] < 1e-5f)) return false;
    return true;
}

CHAIN_FN void said(const char *part)
{
    ok(strstr(zt_ctx_error(ctx), part) != NULL, "says '%s' (%s)", part, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

CHAIN_FN zt_engine *open_engine(const char *name)
{
    zt_engine *e = zt_engine_open(ctx, name, &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    if (!e) diag("%s: %s", name, zt_ctx_error(ctx));
    return e;
}

/* ---- the chain ------------------------------------------------------------------------------- */

CHAIN_FN const char *const chain_text = "zt program 1\n"
                                        "in    a: f32[n,32]\n"
                                        "in    b: f32[n,32]\n"
                                        "c = add a b\n"
                                        "d = mul c c\n"
                                        "e = scale d by=0.5\n"
                                        "f = add e a\n"
                                        "g = silu f\n"
                                        "h = mul g c\n"
                                        "i = reshape h shape=[32*n]\n"
                                        "out   y = h\n"
                                        "out   z = i\n"
                                        "out   a = a\n"
                                        "out   y2 = h\n";

CHAIN_FN void chain_by_hand(const float *a, const float *b, float *y)
{
    for (int i = 0; i < N * W; i++) {
        double c = (double)a[i] + b[i], f = 0.5 * c * c + a[i];
        y[i] = (float)(f / (1 + __builtin_exp(-f)) * c);
    }
}

CHAIN_FN zt_tensor *tensor(uint64_t seed)
{
    zt_type t = zt_type_make(ZT_F32, 2, (int64_t[]){N, W});
    zt_tensor *x = zt_tensor_new(ctx, &t);
    if (x) fill(zt_tensor_data(x), N * W, seed);
    return x;
}

CHAIN_FN zt_tensor *chain_eager(zt_run *r, zt_tensor *a, zt_tensor *b)
{
    zt_tensor *c = zt_eager_add(r, a, b);
    zt_tensor *e = zt_eager_scale(r, zt_eager_mul(r, c, c), &(zt_scale_attrs){.by = 0.5});
    return zt_eager_mul(r, zt_eager_silu(r, zt_eager_add(r, e, a)), c);
}

/* ---- every allocation fails once ------------------------------------------------------------- */

CHAIN_FN void every_allocation(const char *name, zt_status (*everything)(zt_engine *engine))
{
    zt_engine *engine = open_engine(name);
    size_t before = zt_mem_get(ctx).blocks;
    int count = 0, wrong = 0;
    size_t leaked = 0;
    for (zt_status st = ZT_ENOMEM; st; count++) {
        zt_mem_fail(ctx, (uint64_t)count + 1, false);
        st = everything(engine);
        wrong += st && st != ZT_ENOMEM;
        zt_ctx_clear(ctx);
        zt_mem_fail(ctx, 0, false);
    }
    zt_engine_close(engine); /* what the engine keeps for itself goes with it */
    leaked = zt_mem_get(ctx).blocks;
    ok(count > 30 && wrong == 0, "%s: each of %d allocations failing is out of memory (%d are not)", name, count - 1, wrong);
    ok(leaked < before, "%s: nothing leaks (%zu blocks, %zu with an engine)", name, leaked, before);
}

#endif
