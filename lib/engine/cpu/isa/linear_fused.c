/* linear_fused.c - kernels of rows with products and what is done to them (lib/ops/linear_fused.c): x is
 * brought into its form once for all products that read that form; the weights' groups are one list
 * of items, so that threads stay balanced over all of them.
 *
 * A product is linear's, and what comes after it is the kernel of its elementwise op, run on a
 * piece of the product while that is in the caches. So the bits are those of the expansion.
 */
#include "lib/ops/linear.h"
#include "lib/engine/cpu/isa/gemm_quant/product.h"

#include <string.h>

enum { LINE = 64, MOST = 3, PIECE = 4096 /* elements of a product that are worked on at once */ };

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* ---- products of one x ----------------------------------------------------------------------- */

typedef struct set {
    int n;
    zt_product p[MOST];
    int made_by[MOST];         /* the first product with activations like this one's */
    size_t room[MOST];         /* in a thread's scratch: of each made_by its activations */
    size_t scratch, all;       /* theirs and products' own, which lies at `scratch`; with both */
} set;

/* Where x is one that another product brings into its form, only the weights may want packing. */
static int64_t first_of(const set *s, int k)
{
    const zt_product *p = &s->p[k];
    return s->made_by[k] == k ? p->n_first : p->pack ? p->groups : 0;
}

/* Products of in[0] by the weights that are there of n from in[w] on, with biases from in[b] on; the
 * first with an act of its own. */
static set set_of(const zt_cpu_call *c, int n, int w, int b, const char *act, const char *first_act)
{
    set s = {0};
    size_t shared = 0, scratch = 0;
    for (int k = 0; k < n; k++) {
        if (!c->in[w + k].data) continue;
        zt_product *p = &s.p[s.n];
        *p = ZT_SYM(zt_product_make)(&c->in[0], &c->in[w + k], &c->in[b + k],
                                     k ? act : first_act, c->tile, (uint8_t *)c->shared + shared);
        shared += lines(p->shared_bytes);
        if (lines(p->local_bytes) > scratch) scratch = lines(p->local_bytes);
        s.made_by[s.n] = s.n;
        for (int i = s.n - 1; i >= 0; i--)
            if (ZT_SYM(zt_product_alike)(&s.p[i], p)) s.made_by[s.n] = i;
        s.room[s.n] = s.scratch;
        if (s.made_by[s.n] == s.n && p->alone) s.scratch += lines(p->acts_bytes);
        s.n++;
    }
    s.all = s.scratch + scratch;
    return s;
}

static size_t shared_of(const set *s)
{
    size_t bytes = 0;
    for (int k = 0; k < s->n; k++) bytes += lines(s->p[k].shared_bytes);
    return bytes;
}

/* `items` of the last phase. */
static void set_up(zt_cpu_call *c, const set *s, int64_t items, size_t more)
{
    int64_t first = 0;
    for (int k = 0; k < s->n; k++) first += first_of(s, k);
    c->n_phases = first ? 2 : 1;
    c->items[0] = first;
    c->items[c->n_phases - 1] = items;
    c->shared_bytes = shared_of(s);
    c->local_bytes = s->all + more;
}

static void run_first(const set *s, int64_t begin, int64_t end, uint8_t *local)
{
    for (int k = 0; k < s->n && begin < end; k++) {
        int64_t n = first_of(s, k), last = end < n ? end : n;
        if (begin < last) ZT_SYM(zt_product_first)(&s->p[k], begin, last, local + s->scratch);
        begin = begin > n ? begin - n : 0;
        end -= n;
    }
}

/* The activations that product k reads; `made`: those that this thread has made already. */
static const uint8_t *acts_of(const set *s, int k, unsigned *made, uint8_t *local)
{
    int by = s->made_by[k];
    const zt_product *p = &s->p[by];
    if (*made >> by & 1 && p->alone && !p->lies) return local + s->room[by];
    *made |= 1u << by;
    return ZT_SYM(zt_product_acts)(p, local + s->room[by], local + s->scratch);
}

/* ---- linears --------------------------------------------------------------------------------- */

static bool linears_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    for (int k = 0; k < MOST; k++)
        if (in[1 + k] && !ZT_SYM(zt_product_has)(in[0], in[1 + k], in[4 + k])) return false;
    return true;
}

static set linears_set(const zt_cpu_call *c)
{
    const zt_linears_attrs *a = c->attrs;
    return set_of(c, MOST, 1, 4, a->act.s, zt_linears_act(a, 0)->s);
}

static void linears_setup(zt_cpu_call *c)
{
    set s = linears_set(c);
    int64_t items = 0;
    for (int k = 0; k < s.n; k++) items += s.p[k].n_items;
    set_up(c, &s, items, 0);
}

/* Items begin..end-1 of one product. */
static void multiply(const zt_product *p, const uint8_t *acts, char *y, int64_t begin, int64_t end,
                     uint8_t *scratch)
{
    const zt_product_out out = {.at = y, .step = p->M};
    while (begin < end && y) {
        int64_t t = begin / p->groups * p->block, g = begin % p->groups;
        int64_t last = t + p->block < p->n ? t + p->block : p->n;
        int64_t n = end - begin < p->groups - g ? end - begin : p->groups - g;
        ZT_SYM(zt_product_multiply)(p, acts, &out, t, last, g, g + n, scratch);
        begin += n;
    }
}

static void linears_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    set s = linears_set(c);
    unsigned made = 0;
    if (phase != c->n_phases - 1) {
        run_first(&s, begin, end, local);
        return;
    }
    for (int k = 0; k < s.n && begin < end; k++) {
        int64_t n = s.p[k].n_items, last = end < n ? end : n;
        if (begin < last)
            multiply(&s.p[k], acts_of(&s, k, &made, local), c->out[k].data, begin, last,
                     (uint8_t *)local + s.scratch);
        begin = begin > n ? begin - n : 0;
        end -= n;
    }
}

static int linears_ahead(const zt_cpu_call *c, int64_t begin, int64_t end, zt_cpu_prefetch a[])
{
    set s = linears_set(c);
    int pieces = 0;
    for (int k = 0; k < s.n && begin < end; k++) {
        int64_t n = s.p[k].n_items, last = end < n ? end : n;
        if (begin < last) pieces += ZT_SYM(zt_product_ahead)(&s.p[k], begin, last, &a[pieces]);
        begin = begin > n ? begin - n : 0;
        end -= n;
    }
    return pieces;
}

/* ---- products, and an elementwise op on them ------------------------------------------------- */

/* A kernel of this instruction set for the op that comes after. */
static const zt_cpu_kernel *kernel_of(const zt_after *f)
{
    static const zt_cpu_kernel *const lists[] = {ZT_SYM(zt_cpu_elementwise_unary),
                                                 ZT_SYM(zt_cpu_elementwise_binary)};
    for (int i = 0; i < 2; i++)
        for (const zt_cpu_kernel *k = lists[i]; k->run; k++)
            if (k->op == f->op) return k; /* the first of each takes the floats that x may have */
    return NULL;
}

static const zt_after sum = {"add", ZT_OP_add, NULL};

/* A row: its products, what comes after, and the input that this reads beside them (0: none). */
typedef struct after_set {
    set s;
    const zt_after *f;
    const zt_cpu_kernel *kernel;
    int beside;
    int64_t block, groups; /* as a product's, of all of them */
    int64_t piece;         /* groups worked on at once */
    size_t elements, room; /* bytes: of a piece, and of those with the kernel's scratch */
    zt_cpu_call call;      /* of the kernel, on a piece */
} after_set;

static after_set after_of(const zt_cpu_call *c, set s, const zt_after *f, int beside)
{
    after_set a = {.s = s, .f = f, .kernel = kernel_of(f), .beside = beside};
    int64_t tokens, at_once = 1;
    a.groups = s.p[0].groups;
    a.block = s.p[0].block;
    for (int k = 0; k < s.n; k++) {
        if (s.p[k].block < a.block) a.block = s.p[k].block;
        if (s.p[k].at_once > at_once) at_once = s.p[k].at_once;
    }
    tokens = s.p[0].n < a.block ? s.p[0].n : a.block;
    a.piece = PIECE / 16 / (tokens > 0 ? tokens : 1) / at_once * at_once;
    if (a.piece < at_once) a.piece = at_once;
    if (a.piece > a.groups) a.piece = a.groups;
    zt_type t = zt_type_make(c->in[0].type.dtype, 2, (int64_t[]){tokens, 16 * a.piece});
    a.elements = lines(zt_type_bytes(&t));
    a.call = (zt_cpu_call){.kernel = a.kernel, .op = f->op, .attrs = f->attrs, .n_phases = 1};
    a.call.in[0].type = a.call.in[1].type = a.call.out[0].type = t;
    a.kernel->setup(&a.call);
    a.room = 2 * a.elements + lines(a.call.local_bytes);
    return a;
}

static void after_setup(zt_cpu_call *c, const after_set *a)
{
    int64_t n = a->s.p[0].n;
    set_up(c, &a->s, (n + a->block - 1) / a->block * a->groups, a->room);
}

/* Rows of `bytes` from one step to another. They are few lines each: line by line is faster than a
 * call. */
static void copy_rows(const char *from, size_t from_step, char *to, size_t to_step, int64_t rows,
                      size_t bytes)
{
    for (int64_t r = 0; r < rows; r++, from += from_step, to += to_step) {
        size_t i = 0;
        for (; i + LINE <= bytes; i += LINE) memcpy(to + i, from + i, LINE);
        if (i < bytes) memcpy(to + i, from + i, bytes - i);
    }
}

/* Rows of `bytes`, a step apart, will be written: to the second-level cache, as the first has few
 * places for what is so far apart. */
static void ask_for_rows(const char *to, size_t step, int64_t rows, size_t bytes)
{
    for (int64_t r = 0; r < rows; r++, to += step)
        for (size_t i = 0; i < bytes; i += LINE) __builtin_prefetch(to + i, 1, 2);
}

/* Rows t..last-1 and groups g..end-1 of y. */
static void run_piece(const zt_cpu_call *c, after_set *a, const uint8_t *const *acts, int64_t t,
                      int64_t last, int64_t g, int64_t end, uint8_t *local)
{
    int64_t M = a->s.p[0].M, m = 16 * g, columns = (16 * end < M ? 16 * end : M) - m;
    size_t size = (size_t)zt_dtype_get(c->in[0].type.dtype)->block_bytes;
    size_t at = (size_t)(t * M + m) * size, step = (size_t)M * size, bytes = (size_t)columns * size;
    uint8_t *room = local + a->s.all, *one[] = {room, room + a->elements};
    zt_product_out out = {.step = columns, .t0 = t, .m0 = m};
    int in = 0;
    if (!a->s.p[0].alone) ask_for_rows((char *)c->out[0].data + at, step, last - t, bytes);
    if (a->beside)
        copy_rows((const char *)c->in[a->beside].data + at, step, (char *)one[in++], bytes,
                  last - t, bytes);
    for (int k = 0; k < a->s.n; k++) {
        out.at = (char *)one[in++];
        ZT_SYM(zt_product_multiply)(&a->s.p[k], acts[k], &out, t, last, g, end,
                                    local + a->s.scratch);
    }
    zt_cpu_call *call = &a->call;
    for (int k = 0; k < 2; k++) {
        call->in[k].type.dim[0] = call->out[0].type.dim[0] = last - t;
        call->in[k].type.dim[1] = call->out[0].type.dim[1] = columns;
        call->in[k].data = k < in ? one[k] : NULL;
    }
    call->out[0].data = one[0];
    a->kernel->setup(call);
    a->kernel->run(call, 0, 0, call->items[0], room + 2 * a->elements);
    copy_rows((char *)one[0], bytes, (char *)c->out[0].data + at, step, last - t, bytes);
}

static void after_run(zt_cpu_call *c, after_set *a, int phase, int64_t begin, int64_t end,
                      uint8_t *local)
{
    const uint8_t *acts[MOST];
    unsigned made = 0;
    int64_t n = a->s.p[0].n;
    if (phase != c->n_phases - 1) {
        run_first(&a->s, begin, end, local);
        return;
    }
    for (int k = 0; k < a->s.n; k++) acts[k] = acts_of(&a->s, k, &made, local);
    while (begin < end) {
        int64_t t = begin / a->groups * a->block, g = begin % a->groups;
        int64_t last = t + a->block < n ? t + a->block : n, most = a->piece;
        if (most > a->groups - g) most = a->groups - g;
        if (most > end - begin) most = end - begin;
        run_piece(c, a, acts, t, last, g, g + most, local);
        begin += most;
    }
}

static int after_ahead(const after_set *a, int64_t begin, int64_t end, zt_cpu_prefetch to[])
{
    int pieces = 0;
    for (int k = 0; k < a->s.n; k++)
        pieces += ZT_SYM(zt_product_ahead)(&a->s.p[k], begin, end, &to[pieces]);
    return pieces;
}

/* ---- the rows -------------------------------------------------------------------------------- */

static bool one_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return ZT_SYM(zt_product_has)(in[0], in[1], in[2]);
}

static bool add_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return ZT_SYM(zt_product_has)(in[0], in[1], in[3]);
}

static bool gated_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return ZT_SYM(zt_product_has)(in[0], in[1], in[3]) &&
           ZT_SYM(zt_product_has)(in[0], in[2], in[4]);
}

static after_set gated_set(const zt_cpu_call *c)
{
    const zt_gated_linear_attrs *a = c->attrs;
    return after_of(c, set_of(c, 2, 1, 3, a->act.s, a->act.s), zt_gate_after(&a->gate), 0);
}

static after_set act_set(const zt_cpu_call *c)
{
    const zt_linear_act_attrs *a = c->attrs;
    return after_of(c, set_of(c, 1, 1, 2, a->act.s, a->act.s), zt_curve_after(&a->curve), 0);
}

static after_set add_set(const zt_cpu_call *c)
{
    const zt_linear_add_attrs *a = c->attrs;
    return after_of(c, set_of(c, 1, 1, 3, a->act.s, a->act.s), &sum, 2);
}

#define AFTER(name)                                                                                \
    static void name##_setup(zt_cpu_call *c)                                                       \
    {                                                                                              \
        after_set a = name##_set(c);                                                               \
        after_setup(c, &a);                                                                        \
    }                                                                                              \
    static void name##_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)     \
    {                                                                                              \
        after_set a = name##_set(c);                                                               \
        after_run(c, &a, phase, begin, end, local);                                                \
    }                                                                                              \
    static int name##_ahead(const zt_cpu_call *c, int64_t begin, int64_t end, zt_cpu_prefetch to[])   \
    {                                                                                              \
        after_set a = name##_set(c);                                                               \
        return after_ahead(&a, begin, end, to);                                                    \
    }
AFTER(gated)
AFTER(act)
AFTER(add)

#define KERNEL(OP, name, has_it)                                                                   \
    {.op = OP, .has = has_it, .setup = name##_setup, .run = name##_run, .ahead = name##_ahead}
const zt_cpu_kernel ZT_SYM(zt_cpu_linear_fused)[] = {
    KERNEL(ZT_OP_linears, linears, linears_has),
    KERNEL(ZT_OP_gated_linear, gated, gated_has),
    KERNEL(ZT_OP_linear_act, act, one_has),
    KERNEL(ZT_OP_linear_add, add, add_has),
    {0},
};
