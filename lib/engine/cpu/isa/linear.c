/* linear.c - op linear: y = x w^T + b, one product (gemm_quant/product.h). */
#include "lib/engine/cpu/isa/gemm_quant/product.h"
#include "lib/ops/linear.h"

enum { LINE = 64 };

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static zt_product product_of(const zt_cpu_call *c)
{
    const char *act = ((const zt_linear_attrs *)c->attrs)->act.s;
    return ZT_SYM(zt_product_make)(&c->in[0], &c->in[1], &c->in[2], act, c->tile,
                                   c->shared);
}

static bool linear_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    return ZT_SYM(zt_product_has)(in[0], in[1], in[2]) && out[0].dtype == in[0]->dtype;
}

/* With `alone`, activations lie behind the thread's scratch. */
static void linear_setup(zt_cpu_call *c)
{
    zt_product p = product_of(c);
    c->n_phases = p.n_first ? 2 : 1;
    c->items[0] = p.n_first;
    c->items[c->n_phases - 1] = p.n_items;
    c->shared_bytes = p.shared_bytes;
    c->local_bytes = lines(p.local_bytes) + (p.alone ? p.acts_bytes : 0);
}

static void linear_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    zt_product p = product_of(c);
    if (phase != c->n_phases - 1) {
        ZT_SYM(zt_product_first)(&p, begin, end, local);
        return;
    }
    uint8_t *room = (uint8_t *)local + lines(p.local_bytes);
    const uint8_t *acts = ZT_SYM(zt_product_acts)(&p, room, local);
    const zt_product_out out = {.at = c->out[0].data, .step = p.M};
    while (begin < end) {
        int64_t t = begin / p.groups * p.block, g = begin % p.groups;
        int64_t last = t + p.block < p.n ? t + p.block : p.n;
        int64_t n = end - begin < p.groups - g ? end - begin : p.groups - g;
        ZT_SYM(zt_product_multiply)(&p, acts, &out, t, last, g, g + n, local);
        begin += n;
    }
}

/* In a phase that does nothing else? */
static bool linear_alike(const zt_cpu_call *a, const zt_cpu_call *b)
{
    zt_product p = product_of(a), q = product_of(b);
    return a->n_phases == 2 && b->n_phases == 2 && !p.pack && !q.pack && !p.lies &&
           ZT_SYM(zt_product_alike)(&p, &q);
}

static int linear_ahead(const zt_cpu_call *c, int64_t begin, int64_t end, zt_cpu_prefetch a[])
{
    zt_product p = product_of(c);
    return ZT_SYM(zt_product_ahead)(&p, begin, end, a);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_linear)[] = {
    {.op = ZT_OP_linear,
     .has = linear_has,
     .setup = linear_setup,
     .run = linear_run,
     .ahead = linear_ahead,
     .alike = linear_alike},
    {0},
};
