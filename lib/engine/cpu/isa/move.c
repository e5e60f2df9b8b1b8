/* move.c - kernels of the ops that put elements in other places: transpose, concat, uncat, repeat,
 * slice_put. Elements are bytes to them.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

static bool any_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static int64_t size_of(const zt_type *t) { return zt_dtype_get(t->dtype)->block_bytes; }

static int plain_axis(int64_t axis, const zt_type *t)
{
    return (int)(axis < 0 ? axis + t->rank : axis);
}

/* How many there are before an axis, and bytes of one of its entries. */
static int64_t outer_of(const zt_type *t, int axis)
{
    int64_t n = 1;
    for (int d = 0; d < axis; d++) n *= t->dim[d];
    return n;
}

static int64_t inner_of(const zt_type *t, int axis)
{
    int64_t n = size_of(t);
    for (int d = axis + 1; d < t->rank; d++) n *= t->dim[d];
    return n;
}

/* ---- transpose ------------------------------------------------------------------------------- */

/* y's dimensions without those of 1, neighbours that are so in x too taken together, with strides
 * in elements. `thin` is the one that is innermost in x. */
typedef struct turned {
    int n, thin;
    int64_t dim[ZT_MAX_RANK], from[ZT_MAX_RANK], to[ZT_MAX_RANK];
} turned;

static turned turned_of(const zt_ints *axes, const zt_type *x, const zt_type *y)
{
    turned t = {0};
    int64_t stride[ZT_MAX_RANK], step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->dim[d];
    }
    for (int d = 0; d < y->rank; d++) {
        int64_t from = stride[axes->n ? plain_axis(axes->v[d], x) : x->rank - 1 - d];
        if (y->dim[d] == 1) continue;
        bool joins = t.n > 0 && t.from[t.n - 1] == from * y->dim[d];
        if (!joins) t.dim[t.n++] = 1;
        t.dim[t.n - 1] *= y->dim[d];
        t.from[t.n - 1] = from;
    }
    step = 1;
    for (int d = t.n - 1; d >= 0; d--) {
        t.to[d] = step;
        step *= t.dim[d];
        if (t.from[d] == 1) t.thin = d;
    }
    return t;
}

/* A run of neighbours an item; or LANES entries of the thin dimension by all of y's innermost. */
static void transpose_setup(zt_cpu_call *c)
{
    turned t = turned_of(&((const zt_transpose_attrs *)c->attrs)->axes, &c->in[0].type,
                         &c->out[0].type);
    bool empty = zt_type_count(&c->out[0].type) == 0;
    c->items[0] = !empty;
    for (int d = 0; d + 1 < t.n && !empty; d++)
        c->items[0] *= d == t.thin ? (t.dim[d] + LANES - 1) / LANES : t.dim[d];
}

/* rows x columns elements: x[c * down + r] becomes y[r * across + c]. */
INLINE void turn(int size, const char *x, int64_t down, char *y, int64_t across, int rows,
                 int64_t columns)
{
    int64_t c = 0;
    if (size == sizeof(float) && rows == LANES)
        for (; c + LANES <= columns; c += LANES) {
            vf r[LANES];
            for (int l = 0; l < LANES; l++) r[l] = vf_load((const float *)x + (c + l) * down);
            vf_transpose(r);
            for (int l = 0; l < LANES; l++) vf_store((float *)y + l * across + c, r[l]);
        }
    for (int r = 0; r < rows; r++)
        for (int64_t k = c; k < columns; k++)
            memcpy(y + (r * across + k) * size, x + (k * down + r) * size, (size_t)size);
}

static void transpose_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    turned t = turned_of(&((const zt_transpose_attrs *)c->attrs)->axes, &c->in[0].type,
                         &c->out[0].type);
    int size = (int)size_of(&c->in[0].type), last = t.n - 1;
    bool plain = t.n == 0 || t.thin == last;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end; i++) {
        int64_t from = 0, to = 0, rest = i;
        int rows = LANES;
        for (int d = last - 1; d >= 0; d--) {
            int64_t n = d == t.thin ? (t.dim[d] + LANES - 1) / LANES : t.dim[d], k = rest % n;
            if (d == t.thin) {
                k *= LANES;
                if (t.dim[d] - k < LANES) rows = (int)(t.dim[d] - k);
            }
            from += k * t.from[d];
            to += k * t.to[d];
            rest /= n;
        }
        const char *x = (const char *)c->in[0].data + from * size;
        char *y = (char *)c->out[0].data + to * size;
        if (plain)
            memcpy(y, x, (size_t)((t.n ? t.dim[last] : 1) * size));
        else if (size == 4)
            turn(4, x, t.from[last], y, t.to[t.thin], rows, t.dim[last]);
        else if (size == 2)
            turn(2, x, t.from[last], y, t.to[t.thin], rows, t.dim[last]);
        else if (size == 8)
            turn(8, x, t.from[last], y, t.to[t.thin], rows, t.dim[last]);
        else
            turn(1, x, t.from[last], y, t.to[t.thin], rows, t.dim[last]);
    }
}

/* ---- concat, uncat: a run of one part an item ------------------------------------------------ */

enum { PARTS = 5 };

static void concat_setup(zt_cpu_call *c)
{
    const zt_type *y = &c->out[0].type;
    int at = plain_axis(((const zt_concat_attrs *)c->attrs)->axis, y);
    c->items[0] = outer_of(y, at) * PARTS;
}

static void concat_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_type *y = &c->out[0].type;
    int at = plain_axis(((const zt_concat_attrs *)c->attrs)->axis, y);
    int64_t inner = inner_of(y, at), first[PARTS + 1] = {0}, run[PARTS] = {0};
    (void)phase, (void)local;
    for (int k = 0; k < PARTS; k++) {
        if (c->in[k].data) run[k] = c->in[k].type.dim[at] * inner;
        first[k + 1] = first[k] + run[k];
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i / PARTS, k = i % PARTS;
        if (run[k] == 0) continue;
        char *to = (char *)c->out[0].data + o * first[PARTS] + first[k];
        memcpy(to, (const char *)c->in[k].data + o * run[k], (size_t)run[k]);
    }
}

static void uncat_setup(zt_cpu_call *c)
{
    const zt_uncat_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type;
    int at = plain_axis(a->axis, x);
    c->items[0] = outer_of(x, at);
    c->aux[0] = x->dim[at] * inner_of(x, at);
    c->aux[1] = 0;
    for (int k = 0; k < a->part; k++)
        if (c->in[1 + k].data) c->aux[1] += c->in[1 + k].type.dim[at] * inner_of(x, at);
    c->aux[2] = c->out[0].type.dim[at] * inner_of(x, at);
}

static void uncat_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t whole = c->aux[0], first = c->aux[1], run = c->aux[2];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end && run > 0; i++)
        memcpy((char *)c->out[0].data + i * run, (const char *)c->in[0].data + i * whole + first,
               (size_t)run);
}

/* ---- repeat: one entry of the axis an item --------------------------------------------------- */

static void repeat_setup(zt_cpu_call *c)
{
    const zt_type *x = &c->in[0].type;
    int at = plain_axis(((const zt_repeat_attrs *)c->attrs)->axis, x);
    c->items[0] = outer_of(x, at) * x->dim[at];
    c->aux[0] = inner_of(x, at);
}

static void repeat_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t inner = c->aux[0], times = ((const zt_repeat_attrs *)c->attrs)->times;
    (void)phase, (void)local;
    for (int64_t i = begin; i < end && inner > 0; i++)
        for (int64_t k = 0; k < times; k++)
            memcpy((char *)c->out[0].data + (i * times + k) * inner,
                   (const char *)c->in[0].data + i * inner, (size_t)inner);
}

/* ---- slice_put: all of the axis for one index before it an item ------------------------------ */

static void slice_put_setup(zt_cpu_call *c)
{
    const zt_slice_put_attrs *a = c->attrs;
    const zt_type *x = &c->in[0].type, *y = &c->out[0].type;
    int at = plain_axis(a->axis, y);
    int64_t inner = inner_of(y, at);
    c->items[0] = outer_of(y, at);
    c->aux[0] = y->dim[at] * inner;
    c->aux[1] = (a->from < 0 ? a->from + y->dim[at] : a->from) * inner;
    c->aux[2] = x->dim[at] * inner;
}

static void slice_put_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    int64_t whole = c->aux[0], first = c->aux[1], run = c->aux[2];
    (void)phase, (void)local;
    for (int64_t i = begin; i < end && whole > 0; i++) {
        char *y = (char *)c->out[0].data + i * whole;
        memset(y, 0, (size_t)first);
        if (run > 0) memcpy(y + first, (const char *)c->in[0].data + i * run, (size_t)run);
        memset(y + first + run, 0, (size_t)(whole - first - run));
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_move)[] = {
    {.op = ZT_OP_transpose, .has = any_has, .setup = transpose_setup, .run = transpose_run},
    {.op = ZT_OP_concat, .has = any_has, .setup = concat_setup, .run = concat_run},
    {.op = ZT_OP_uncat, .has = any_has, .setup = uncat_setup, .run = uncat_run},
    {.op = ZT_OP_repeat, .has = any_has, .setup = repeat_setup, .run = repeat_run},
    {.op = ZT_OP_slice_put, .has = any_has, .setup = slice_put_setup, .run = slice_put_run},
    {0},
};
