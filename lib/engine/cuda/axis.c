/* axis.c - ops along one axis. Of a line whose entries lie in a row a block takes care, else a
 * thread. */
#include "lib/engine/cuda/args_reduce.h"
#include "lib/engine/cuda/walk.h"

enum { THREADS = 256 };

static zt_cu_line_args line_of(const zt_cu_call *c, int64_t axis)
{
    const zt_type *x = c->in[0];
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    zt_cu_line_args a = {.x = c->x[0], .n = x->dim[at], .inner = 1, .lines = 1, .type = x->dtype};
    for (int d = 0; d < x->rank; d++) {
        if (d != at) a.lines *= x->dim[d];
        if (d > at) a.inner *= x->dim[d];
    }
    return a;
}

static zt_status launch(zt_cu_call *c, const char *rows, const char *lines,
                        const zt_cu_line_args *a)
{
    bool row = !lines || (a->inner == 1 && a->n >= 64);
    unsigned threads = !lines && a->n <= 256 ? 32 : THREADS; /* topk of short lines: a warp */
    return zt_cu_launch(c, row ? rows : lines, zt_cu_spread(c, a->lines, row ? 1 : THREADS),
                        (zt_cu_dim){threads, 1, 1}, 0, a, sizeof *a);
}

static bool plain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_plain(in[0]->dtype);
}

static zt_status emit_arg(zt_cu_call *c, bool largest)
{
    zt_cu_line_args a = line_of(c, ((const zt_argmax_attrs *)c->attrs)->axis);
    a.i = c->y[0];
    a.largest = largest;
    return launch(c, "zt_cu_arg_rows", "zt_cu_arg_lines", &a);
}
static zt_status emit_argmax(zt_cu_call *c) { return emit_arg(c, true); }
static zt_status emit_argmin(zt_cu_call *c) { return emit_arg(c, false); }

static zt_status emit_topk(zt_cu_call *c)
{
    const zt_topk_attrs *t = c->attrs;
    zt_cu_line_args a = line_of(c, t->axis);
    a.y = c->y[0];
    a.i = c->y[1];
    a.k = t->k ? t->k : a.n;
    a.largest = t->largest != 0;
    return launch(c, "zt_cu_topk", NULL, &a);
}

/* k says whether it is products. */
static zt_status emit_run(zt_cu_call *c, bool product)
{
    const zt_cumsum_attrs *s = c->attrs; /* cumprod's are the same */
    zt_cu_line_args a = line_of(c, s->axis);
    a.y = c->y[0];
    a.k = product;
    a.exclusive = s->exclusive != 0;
    a.reverse = s->reverse != 0;
    return launch(c, "zt_cu_run_rows", "zt_cu_run_lines", &a);
}
static zt_status emit_cumsum(zt_cu_call *c) { return emit_run(c, false); }
static zt_status emit_cumprod(zt_cu_call *c) { return emit_run(c, true); }

const zt_cu_row zt_cu_axis[] = {
    {.op = ZT_OP_argmax, .has = plain_has, .emit = emit_argmax},
    {.op = ZT_OP_argmin, .has = plain_has, .emit = emit_argmin},
    {.op = ZT_OP_topk, .has = plain_has, .emit = emit_topk},
    {.op = ZT_OP_cumsum, .has = plain_has, .emit = emit_cumsum},
    {.op = ZT_OP_cumprod, .has = plain_has, .emit = emit_cumprod},
    {.emit = NULL},
};
