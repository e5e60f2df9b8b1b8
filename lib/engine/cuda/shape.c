/* shape.c - ops that move elements: all are walks in steps, or rows for columns. */
#include "lib/engine/cuda/args_shape.h"
#include "lib/engine/cuda/walk.h"

#include <math.h>
#include <string.h>

enum { THREADS = 256, TILE = 32 };

static const char *const move_names[] = {"zt_cu_move_1", "zt_cu_move_2", "zt_cu_move_4",
                                         "zt_cu_move_8", "zt_cu_move_16"};
static const char *const turn_names[] = {"zt_cu_transpose_1", "zt_cu_transpose_2", "zt_cu_transpose_4",
                                         "zt_cu_transpose_8"};
static const char *const triangle_names[] = {"zt_cu_triangle_1", "zt_cu_triangle_2",
                                             "zt_cu_triangle_4", "zt_cu_triangle_8"};
static const char *const pad_names[] = {"zt_cu_pad_1", "zt_cu_pad_2", "zt_cu_pad_4", "zt_cu_pad_8"};

/* Elements of 1, 2, 4, 8 bytes: 0, 1, 2, 3. */
static int size_of(zt_dtype t)
{
    int bytes = zt_dtype_get(t)->block_bytes, k = 0;
    while (1 << k < bytes) k++;
    return k;
}

static bool bytes_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs, (void)in;
    return zt_dtype_get(out[0].dtype)->block == 1;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* Dimensions from the last, with the steps of what does not lie in a row. */
typedef struct steps {
    int n;
    int64_t base, dim[ZT_MAX_RANK], step[ZT_MAX_RANK];
} steps;

static void add_dim(steps *s, int64_t dim, int64_t step)
{
    if (dim == 1) return;
    if (s->n && step == s->step[s->n - 1] * s->dim[s->n - 1]) {
        s->dim[s->n - 1] *= dim;
        return;
    }
    s->dim[s->n] = dim;
    s->step[s->n++] = step;
}

static int64_t count_of(const steps *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->n; d++) n *= s->dim[d];
    return n;
}

/* Two elements as one of twice the size, where all of them lie so. */
static bool widen(steps *s, int size, zt_cu_ptr x, zt_cu_ptr y)
{
    bool even = s->n > 0 && s->step[0] == 1 && s->dim[0] % 2 == 0 && s->base % 2 == 0 &&
                (x | y) % (2u << size) == 0;
    for (int d = 1; d < s->n && even; d++) even = s->step[d] % 2 == 0;
    if (!even) return false;
    s->dim[0] /= 2;
    s->base /= 2;
    for (int d = 1; d < s->n; d++) s->step[d] /= 2;
    return true;
}

static zt_status emit_steps(zt_cu_call *c, zt_cu_ptr x, zt_cu_ptr y, int size, steps s, bool put)
{
    while (size < 4 && widen(&s, size, x, y)) size++;
    if (s.n == 0) {
        s.dim[0] = s.step[0] = 1;
        s.n = 1;
    }
    zt_cu_move_args a = {
        .x = x, .y = y, .n = count_of(&s), .base = s.base, .put = put, .n_dims = s.n};
    memcpy(a.dim, s.dim, sizeof a.dim);
    memcpy(a.step, s.step, sizeof a.step);
    return zt_cu_launch_each(c, move_names[size], a.n, &a, sizeof a);
}

/* Elements of all dimensions after `axis`. */
static int64_t inner_of(const zt_type *t, int axis)
{
    int64_t n = 1;
    for (int d = axis + 1; d < t->rank; d++) n *= t->dim[d];
    return n;
}

static int plain_axis(int64_t axis, int rank) { return (int)(axis < 0 ? axis + rank : axis); }

/* `count` entries of `whole` along an axis, from `from` on in steps of `by`. */
static steps along(const zt_type *whole, int axis, int64_t from, int64_t by, int64_t count)
{
    int64_t inner = inner_of(whole, axis), outer = 1;
    for (int d = 0; d < axis; d++) outer *= whole->dim[d];
    steps s = {.base = from * inner};
    add_dim(&s, inner, 1);
    add_dim(&s, count, by * inner);
    add_dim(&s, outer, whole->dim[axis] * inner);
    return s;
}

/* ---- slices ---------------------------------------------------------------------------------- */

static steps slice_steps(const zt_slice_attrs *a, const zt_type *whole, const zt_type *part)
{
    int axis = plain_axis(a->axis, whole->rank);
    int64_t from = a->from < 0 ? a->from + whole->dim[axis] : a->from;
    return along(whole, axis, from, 1, part->dim[axis]);
}

static steps slice_step_steps(const zt_slice_step_attrs *a, const zt_type *whole,
                              const zt_type *part)
{
    int axis = plain_axis(a->axis, whole->rank);
    int64_t from = a->from < 0 ? a->from + whole->dim[axis] : a->from;
    return along(whole, axis, from, a->step, part->dim[axis]);
}

static zt_status emit_part(zt_cu_call *c, steps s)
{
    return emit_steps(c, c->x[0], c->y[0], size_of(c->out[0]->dtype), s, false);
}

static zt_status emit_put(zt_cu_call *c, steps s)
{
    zt_status r = zt_cu_fill(c, c->y[0], 0, zt_type_bytes(c->out[0]));
    return r ? r : emit_steps(c, c->x[0], c->y[0], size_of(c->out[0]->dtype), s, true);
}

static zt_status emit_slice(zt_cu_call *c)
{
    return emit_part(c, slice_steps(c->attrs, c->in[0], c->out[0]));
}
static zt_status emit_slice_put(zt_cu_call *c)
{
    const zt_slice_put_attrs *a = c->attrs;
    return emit_put(c,
                    slice_steps(&(zt_slice_attrs){a->axis, a->from, a->to}, c->out[0], c->in[0]));
}
static zt_status emit_slice_step(zt_cu_call *c)
{
    return emit_part(c, slice_step_steps(c->attrs, c->in[0], c->out[0]));
}
static zt_status emit_slice_step_put(zt_cu_call *c)
{
    const zt_slice_step_put_attrs *a = c->attrs;
    const zt_slice_step_attrs plain = {a->axis, a->from, a->step, a->count};
    return emit_put(c, slice_step_steps(&plain, c->out[0], c->in[0]));
}

/* ---- concat, uncat, repeat, broadcast_to ----------------------------------------------------- */

enum { PARTS = 5 };

static zt_status emit_concat(zt_cu_call *c)
{
    const zt_type *y = c->out[0];
    int axis = plain_axis(((const zt_concat_attrs *)c->attrs)->axis, y->rank);
    int64_t from = 0;
    zt_status r = ZT_OK;
    for (int k = 0; k < PARTS && !r; k++) {
        if (!c->in[k]) continue;
        r = emit_steps(c, c->x[k], c->y[0], size_of(y->dtype),
                       along(y, axis, from, 1, c->in[k]->dim[axis]), true);
        from += c->in[k]->dim[axis];
    }
    return r;
}

static zt_status emit_uncat(zt_cu_call *c)
{
    const zt_uncat_attrs *a = c->attrs;
    int axis = plain_axis(a->axis, c->in[0]->rank);
    int64_t from = 0;
    for (int k = 0; k < a->part; k++) from += c->in[1 + k] ? c->in[1 + k]->dim[axis] : 0;
    return emit_part(c, along(c->in[0], axis, from, 1, c->out[0]->dim[axis]));
}

static zt_status emit_repeat(zt_cu_call *c)
{
    const zt_repeat_attrs *a = c->attrs;
    const zt_type *x = c->in[0];
    int axis = plain_axis(a->axis, x->rank);
    int64_t inner = inner_of(x, axis), outer = 1;
    for (int d = 0; d <= axis; d++) outer *= x->dim[d];
    steps s = {0};
    add_dim(&s, inner, 1);
    add_dim(&s, a->times, 0);
    add_dim(&s, outer, inner);
    return emit_part(c, s);
}

static zt_status emit_broadcast_to(zt_cu_call *c)
{
    zt_cu_walk w = zt_cu_walk_of(c->in, 1, c->out[0]);
    steps s = {.n = w.n};
    memcpy(s.dim, w.dim, sizeof s.dim);
    memcpy(s.step, w.step[0], sizeof s.step);
    return emit_part(c, s);
}

/* ---- transpose ------------------------------------------------------------------------------- */

/* Rows (the dimension `at`, along which x lies in a row) and columns (along which y does). */
static zt_status emit_turn(zt_cu_call *c, const steps *s, int at, int size)
{
    zt_cu_transpose_args a = {.x = c->x[0],
                         .y = c->y[0],
                         .rows = s->dim[at],
                         .columns = s->dim[0],
                         .x_step = s->step[0],
                         .batches = 1};
    int64_t y_step = 1;
    for (int d = 0; d < s->n; y_step *= s->dim[d++]) {
        if (d == at) a.y_step = y_step;
        if (d == 0 || d == at) continue;
        a.dim[a.n_dims] = s->dim[d];
        a.x_at[a.n_dims] = s->step[d];
        a.y_at[a.n_dims++] = y_step;
        a.batches *= s->dim[d];
    }
    if (!a.n_dims) a.dim[a.n_dims++] = 1;
    int64_t tiles = (a.rows + TILE - 1) / TILE * ((a.columns + TILE - 1) / TILE);
    zt_cu_dim grid = zt_cu_grid(tiles, 1);
    grid.y = (unsigned)(a.batches < 4096 ? a.batches : 4096);
    return zt_cu_launch(c, turn_names[size], grid, (zt_cu_dim){THREADS, 1, 1}, 0, &a, sizeof a);
}

static zt_status emit_transpose(zt_cu_call *c)
{
    const zt_ints *axes = &((const zt_transpose_attrs *)c->attrs)->axes;
    const zt_type *x = c->in[0], *y = c->out[0];
    steps s = {0};
    for (int d = y->rank - 1; d >= 0; d--) {
        int from = axes->n ? plain_axis(axes->v[d], x->rank) : x->rank - 1 - d;
        add_dim(&s, y->dim[d], inner_of(x, from));
    }
    for (int d = 1; d < s.n && s.step[0] != 1; d++)
        if (s.step[d] == 1 && s.dim[d] > 1 && count_of(&s) > 0)
            return emit_turn(c, &s, d, size_of(x->dtype));
    return emit_part(c, s);
}

/* ---- triangles, padding ---------------------------------------------------------------------- */

static zt_status emit_triangle(zt_cu_call *c, int sign, int64_t diagonal)
{
    const zt_type *x = c->in[0];
    zt_cu_triangle_args a = {.x = c->x[0],
                             .y = c->y[0],
                             .n = zt_type_count(x),
                             .rows = x->dim[x->rank - 2],
                             .columns = x->dim[x->rank - 1],
                             .diagonal = diagonal,
                             .sign = sign};
    return zt_cu_launch_each(c, triangle_names[size_of(x->dtype)], a.n, &a, sizeof a);
}
static zt_status emit_tril(zt_cu_call *c)
{
    return emit_triangle(c, 1, ((const zt_tril_attrs *)c->attrs)->diagonal);
}
static zt_status emit_triu(zt_cu_call *c)
{
    return emit_triangle(c, -1, ((const zt_triu_attrs *)c->attrs)->diagonal);
}

static int64_t before_of(const zt_ints *pads, int d) { return d < pads->n ? pads->v[d] : 0; }

/* A constant's bits as an element of type t; what no integer is: 0. */
static uint64_t fill_of(zt_dtype t, double value)
{
    uint64_t bits = 0;
    if (t == ZT_F64) {
        memcpy(&bits, &value, sizeof value);
    } else if (zt_dtype_get(t)->kind == 'F') {
        float f = zt_f64_to_f32_odd(value);
        if (t == ZT_F32) f = (float)value;
        zt_dtype_get(t)->encode(&f, &bits, 1);
    } else if (t == ZT_BOOL) {
        bits = value != 0;
    } else {
        bits = fabs(value) < 0x1p63 ? (uint64_t)(int64_t)value : 0;
    }
    return bits;
}

static zt_status emit_pad(zt_cu_call *c)
{
    const zt_pad_attrs *p = c->attrs;
    const zt_type *x = c->in[0], *y = c->out[0];
    zt_cu_pad_args a = {.x = c->x[0],
                        .y = c->y[0],
                        .n = zt_type_count(y),
                        .fill = fill_of(y->dtype, p->value),
                        .n_dims = y->rank,
                        .mode = p->mode.s[0]};
    for (int d = 0; d < y->rank; d++) {
        a.dim[d] = y->dim[y->rank - 1 - d];
        a.size[d] = x->dim[y->rank - 1 - d];
        a.before[d] = before_of(&p->before, y->rank - 1 - d);
    }
    return zt_cu_launch_each(c, pad_names[size_of(x->dtype)], a.n, &a, sizeof a);
}

static bool pad_back_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                         const zt_type out[])
{
    (void)e, (void)attrs, (void)out;
    return zt_cu_is_wide_float(in[0]->dtype);
}

/* One dimension after the other, the last first; sums in between are f64 of f64, else f32. */
static zt_status emit_pad_back(zt_cu_call *c)
{
    const zt_pad_back_attrs *p = c->attrs;
    zt_type now = *c->in[0];
    const zt_type *y = c->out[0];
    const zt_dtype wide = now.dtype == ZT_F64 ? ZT_F64 : ZT_F32;
    zt_cu_ptr at = c->x[0];
    int left = 0;
    for (int d = 0; d < y->rank; d++) left += now.dim[d] != y->dim[d] || before_of(&p->before, d);
    if (!left) return zt_cu_move(c, c->y[0], at, zt_type_bytes(y));
    for (int d = y->rank - 1; d >= 0; d--) {
        if (now.dim[d] == y->dim[d] && !before_of(&p->before, d)) continue;
        zt_cu_pad_back_args a = {.x = at,
                                 .x_type = now.dtype,
                                 .padded = now.dim[d],
                                 .size = y->dim[d],
                                 .inner = inner_of(&now, d),
                                 .before = before_of(&p->before, d),
                                 .mode = p->mode.s[0]};
        now.dim[d] = y->dim[d];
        now.dtype = --left ? wide : y->dtype;
        at = left ? zt_cu_scratch(c, zt_type_bytes(&now)) : c->y[0];
        if (!at) return zt_ctx_status(c->e->base.ctx);
        a.y = at;
        a.y_type = now.dtype;
        a.n = zt_type_count(&now);
        zt_status s = zt_cu_launch_each(c, "zt_cu_pad_back", a.n, &a, sizeof a);
        if (s) return s;
    }
    return ZT_OK;
}

const zt_cu_row zt_cu_shape[] = {
    {.op = ZT_OP_slice, .has = bytes_has, .emit = emit_slice},
    {.op = ZT_OP_slice_put, .has = bytes_has, .emit = emit_slice_put},
    {.op = ZT_OP_slice_step, .has = bytes_has, .emit = emit_slice_step},
    {.op = ZT_OP_slice_step_put, .has = bytes_has, .emit = emit_slice_step_put},
    {.op = ZT_OP_concat, .has = bytes_has, .emit = emit_concat},
    {.op = ZT_OP_uncat, .has = bytes_has, .emit = emit_uncat},
    {.op = ZT_OP_repeat, .has = bytes_has, .emit = emit_repeat},
    {.op = ZT_OP_broadcast_to, .has = bytes_has, .emit = emit_broadcast_to},
    {.op = ZT_OP_transpose, .has = bytes_has, .emit = emit_transpose},
    {.op = ZT_OP_tril, .has = bytes_has, .emit = emit_tril},
    {.op = ZT_OP_triu, .has = bytes_has, .emit = emit_triu},
    {.op = ZT_OP_pad, .has = bytes_has, .emit = emit_pad},
    {.op = ZT_OP_pad_back, .has = pad_back_has, .emit = emit_pad_back},
    {.emit = NULL},
};
