/* index.c - ops at places that are data. Sums of 16-bit floats are kept in f32 until the last one.
 */
#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/args_index.h"
#include "lib/engine/cuda/walk.h"

#include <string.h>

static bool plain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_plain(in[0]->dtype);
}

/* ---- sums that are wider than their result --------------------------------------------------- */

static zt_status cast(zt_cu_call *c, zt_cu_ptr x, zt_dtype from, zt_cu_ptr y, zt_dtype to,
                      int64_t n)
{
    zt_cu_chain_args a = {.n = n,
                          .x = {x},
                          .y = {y},
                          .n_ops = 1,
                          .n_in = 1,
                          .n_dims = 1,
                          .x_type = {(uint8_t)from},
                          .y_type = {(uint8_t)to},
                          .dim = {n},
                          .step = {{1}},
                          .one = {.fn = ZT_CU_F_cast, .of = (uint8_t)from, .to = (uint8_t)to}};
    return zt_cu_launch_each(c, "zt_cu_chain", n, &a, sizeof a);
}

/* Where entries are merged: the output, or an f32 copy of it; x's entries are there already. */
typedef struct target {
    zt_cu_ptr at;
    zt_dtype type;
    bool apart;
} target;

static zt_status target_open(zt_cu_call *c, target *t)
{
    const zt_type *x = c->in[0];
    int64_t n = zt_type_count(x);
    t->apart = x->dtype == ZT_F16 || x->dtype == ZT_BF16;
    t->type = t->apart ? ZT_F32 : x->dtype;
    t->at = t->apart ? zt_cu_scratch(c, (size_t)n * 4) : c->y[0];
    if (!t->at) return zt_ctx_status(c->e->base.ctx);
    return t->apart ? cast(c, c->x[0], x->dtype, t->at, ZT_F32, n)
                    : zt_cu_move(c, t->at, c->x[0], zt_type_bytes(x));
}

static zt_status target_close(zt_cu_call *c, const target *t)
{
    if (!t->apart) return ZT_OK;
    return cast(c, t->at, t->type, c->y[0], c->in[0]->dtype, zt_type_count(c->in[0]));
}

static bool word_is(const zt_enum_string *w, const char *s) { return strcmp(w->s, s) == 0; }

static zt_cu_merge merge_of(const zt_enum_string *w)
{
    static const char *const words[] = {"none", "add", "mul", "max", "min"};
    int k = 0;
    while (k < ZT_CU_SMALLER && !word_is(w, words[k])) k++;
    return (zt_cu_merge)k;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static zt_cu_parts_args parts_of(const zt_cu_call *c, int64_t batch, int64_t k, const zt_enum_string *oob)
{
    const zt_type *x = c->in[0], *i = c->in[1];
    zt_cu_parts_args a = {.x = c->x[0],
                          .i = c->x[1],
                          .y = c->y[0],
                          .trouble = c->trouble,
                          .tuples = k ? zt_type_count(i) / k : 0,
                          .k = k,
                          .rest = 1,
                          .per_batch = 1,
                          .span = 1,
                          .fails = word_is(oob, "error"),
                          .x_type = x->dtype,
                          .y_type = c->out[0]->dtype,
                          .batches = 1};
    for (int d = 0; d < batch; d++) a.batches *= i->dim[d];
    for (int d = (int)batch; d < x->rank; d++) {
        a.span *= x->dim[d];
        if (d < batch + k)
            a.dim[d - batch] = x->dim[d];
        else
            a.rest *= x->dim[d];
    }
    return a;
}

/* of gather_nd and scatter_nd: the tuples are i's last dimension. */
static zt_cu_parts_args tuples_of(const zt_cu_call *c, int64_t batch, const zt_enum_string *oob)
{
    const zt_type *i = c->in[1];
    zt_cu_parts_args a = parts_of(c, batch, i->dim[i->rank - 1], oob);
    a.tuples = 1;
    for (int d = 0; d + 1 < i->rank; d++) {
        a.tuples *= i->dim[d];
        if (d >= batch) a.per_batch *= i->dim[d];
    }
    return a;
}

static zt_status emit_gather(zt_cu_call *c)
{
    zt_cu_parts_args a = parts_of(c, 0, 1, &((const zt_gather_attrs *)c->attrs)->oob);
    a.per_batch = a.tuples;
    return zt_cu_launch_each(c, "zt_cu_gather", a.tuples * (a.rest ? a.rest : 1), &a, sizeof a);
}

static zt_status emit_gather_nd(zt_cu_call *c)
{
    const zt_gather_nd_attrs *n = c->attrs;
    zt_cu_parts_args a = tuples_of(c, n->batch, &n->oob);
    return zt_cu_launch_each(c, "zt_cu_gather", a.tuples * (a.rest ? a.rest : 1), &a, sizeof a);
}

/* Few elements a part: more buckets, so that the device is full. */
static zt_status scatter(zt_cu_call *c, zt_cu_parts_args *a, zt_cu_merge how)
{
    target t;
    zt_status s = target_open(c, &t);
    if (s) return s;
    a->y = t.at;
    a->y_type = t.type;
    a->u = c->x[2];
    a->merge = how;
    a->buckets = 1;
    while (a->buckets < 64 && a->buckets * a->rest * a->batches < 65536 && a->buckets < a->tuples)
        a->buckets *= 2;
    s = zt_cu_launch_each(c, "zt_cu_scatter", (a->rest ? a->rest : 1) * a->buckets * a->batches, a,
                          sizeof *a);
    return s ? s : target_close(c, &t);
}

static zt_status emit_scatter_add(zt_cu_call *c)
{
    zt_cu_parts_args a = parts_of(c, 0, 1, &((const zt_scatter_add_attrs *)c->attrs)->oob);
    a.per_batch = a.tuples;
    return scatter(c, &a, ZT_CU_ADD);
}

static zt_status emit_scatter_nd(zt_cu_call *c)
{
    const zt_scatter_nd_attrs *n = c->attrs;
    zt_cu_parts_args a = tuples_of(c, n->batch, &n->oob);
    return scatter(c, &a, merge_of(&n->reduction));
}

/* ---- planes: max_pool's indices -----------------------------------------------------------------
 */

/* i's elements are places in the plane of `large`, one after the other. */
static zt_cu_parts_args planes_of(const zt_cu_call *c, const zt_type *large, const zt_enum_string *oob)
{
    const zt_type *i = c->in[1];
    const int64_t planes = large->dim[0] * large->dim[1], n = zt_type_count(i);
    zt_cu_parts_args a = {.x = c->x[0],
                          .i = c->x[1],
                          .y = c->y[0],
                          .trouble = c->trouble,
                          .tuples = n,
                          .k = 1,
                          .rest = 1,
                          .per_batch = planes ? n / planes : 0,
                          .span = planes ? zt_type_count(large) / planes : 0,
                          .fails = word_is(oob, "error"),
                          .x_type = c->in[0]->dtype,
                          .y_type = c->out[0]->dtype,
                          .batches = planes};
    a.dim[0] = a.span;
    return a;
}

static zt_status emit_plane_gather(zt_cu_call *c)
{
    zt_cu_parts_args a = planes_of(c, c->in[0], &((const zt_plane_gather_attrs *)c->attrs)->oob);
    return zt_cu_launch_each(c, "zt_cu_gather", a.tuples, &a, sizeof a);
}

static zt_status emit_max_unpool(zt_cu_call *c)
{
    const zt_type *y = c->out[0];
    zt_cu_parts_args a = planes_of(c, y, &((const zt_max_unpool_attrs *)c->attrs)->oob);
    const bool apart = y->dtype == ZT_F16 || y->dtype == ZT_BF16;
    const int64_t n = zt_type_count(y);
    const size_t bytes = apart ? (size_t)n * 4 : zt_type_bytes(y);
    a.u = c->x[0];
    a.y = apart ? zt_cu_scratch(c, bytes) : c->y[0];
    a.y_type = apart ? ZT_F32 : y->dtype;
    a.merge = ZT_CU_ADD;
    a.buckets = a.batches < 4096 ? 16 : 1;
    if (!a.y) return zt_ctx_status(c->e->base.ctx);
    zt_status s = zt_cu_fill(c, a.y, 0, bytes);
    if (!s) s = zt_cu_launch_each(c, "zt_cu_scatter", a.buckets * a.batches, &a, sizeof a);
    return s || !apart ? s : cast(c, a.y, ZT_F32, c->y[0], y->dtype, n);
}

/* ---- elements -------------------------------------------------------------------------------- */

static zt_cu_elements_args elements_of(const zt_cu_call *c, int64_t axis, const zt_enum_string *oob)
{
    const zt_type *x = c->in[0], *i = c->in[1];
    int at = (int)(axis < 0 ? axis + x->rank : axis);
    zt_cu_elements_args a = {.x = c->x[0],
                             .i = c->x[1],
                             .u = c->x[2],
                             .y = c->y[0],
                             .trouble = c->trouble,
                             .lines = 1,
                             .n = i->dim[at],
                             .size = x->dim[at],
                             .fails = word_is(oob, "error"),
                             .type = x->dtype,
                             .y_type = x->dtype};
    int64_t i_step = 1, x_step = 1;
    for (int d = x->rank - 1; d >= 0; i_step *= i->dim[d], x_step *= x->dim[d--]) {
        if (d == at) {
            a.i_step = i_step;
            a.x_step = x_step;
            continue;
        }
        a.dim[a.n_dims] = i->dim[d];
        a.i_at[a.n_dims] = i_step;
        a.x_at[a.n_dims++] = x_step;
        a.lines *= i->dim[d];
    }
    if (!a.n_dims) a.dim[a.n_dims++] = 1;
    return a;
}

static zt_status emit_gather_elements(zt_cu_call *c)
{
    const zt_gather_elements_attrs *n = c->attrs;
    zt_cu_elements_args a = elements_of(c, n->axis, &n->oob);
    return zt_cu_launch_each(c, "zt_cu_gather_elements", a.lines * a.n, &a, sizeof a);
}

static zt_status scatter_elements(zt_cu_call *c, int64_t axis, const zt_enum_string *oob, zt_cu_merge how)
{
    target t;
    zt_cu_elements_args a = elements_of(c, axis, oob);
    zt_status s = target_open(c, &t);
    if (s) return s;
    a.y = t.at;
    a.y_type = t.type;
    a.merge = how;
    s = zt_cu_launch_each(c, "zt_cu_scatter_elements", a.lines, &a, sizeof a);
    return s ? s : target_close(c, &t);
}

static zt_status emit_scatter_add_elements(zt_cu_call *c)
{
    const zt_scatter_add_elements_attrs *n = c->attrs;
    return scatter_elements(c, n->axis, &n->oob, ZT_CU_ADD);
}
static zt_status emit_scatter_elements(zt_cu_call *c)
{
    const zt_scatter_elements_attrs *n = c->attrs;
    return scatter_elements(c, n->axis, &n->oob, merge_of(&n->reduction));
}

static zt_status emit_one_hot(zt_cu_call *c)
{
    const zt_one_hot_attrs *n = c->attrs;
    zt_cu_one_hot_args a = {.i = c->x[0],
                            .y = c->y[0],
                            .trouble = c->trouble,
                            .n = zt_type_count(c->in[0]),
                            .depth = n->depth,
                            .fails = word_is(&n->oob, "error")};
    return zt_cu_launch_each(c, "zt_cu_one_hot", a.depth ? a.n * a.depth : a.n, &a, sizeof a);
}

static bool one_hot_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                        const zt_type out[])
{
    (void)e, (void)attrs, (void)in, (void)out;
    return true;
}

const zt_cu_row zt_cu_index[] = {
    {.op = ZT_OP_gather, .has = plain_has, .emit = emit_gather},
    {.op = ZT_OP_scatter_add, .has = plain_has, .emit = emit_scatter_add},
    {.op = ZT_OP_gather_elements, .has = plain_has, .emit = emit_gather_elements},
    {.op = ZT_OP_scatter_add_elements, .has = plain_has, .emit = emit_scatter_add_elements},
    {.op = ZT_OP_scatter_elements, .has = plain_has, .emit = emit_scatter_elements},
    {.op = ZT_OP_gather_nd, .has = plain_has, .emit = emit_gather_nd},
    {.op = ZT_OP_scatter_nd, .has = plain_has, .emit = emit_scatter_nd},
    {.op = ZT_OP_max_unpool, .has = plain_has, .emit = emit_max_unpool},
    {.op = ZT_OP_plane_gather, .has = plain_has, .emit = emit_plane_gather},
    {.op = ZT_OP_one_hot, .has = one_hot_has, .emit = emit_one_hot},
    {.emit = NULL},
};
