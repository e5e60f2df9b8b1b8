/* linear.c - op linear: y = x w^T + b, one product (gemm_quant/product.h). */
#include "lib/engine/cpu/isa/gemm_quant/product.h"
#include "lib/ops/linear.h"

enum { LINE = 64 };

static size_t whole_lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static zt_product product_of(const zt_cpu_call *call)
{
    const char *act = ((const zt_linear_attrs *)call->attrs)->act.s;
    return ZT_SYM(zt_product_make)(&call->in[0], &call->in[1], &call->in[2], act, call->tile, call->shared);
}

static bool linear_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    return ZT_SYM(zt_product_supports)(in[0], in[1], in[2]) && out[0].dtype == in[0]->dtype;
}

/* With acts_per_thread, activations lie behind the thread's scratch. */
static void linear_setup(zt_cpu_call *call)
{
    zt_product product = product_of(call);
    call->n_phases = product.prepare_items ? 2 : 1;
    call->items[0] = product.prepare_items;
    call->items[call->n_phases - 1] = product.multiply_items;
    call->shared_bytes = product.shared_bytes;
    call->local_bytes = whole_lines(product.local_bytes) + (product.acts_per_thread ? product.acts_bytes : 0);
}

static void linear_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    zt_product product = product_of(call);
    if (phase != call->n_phases - 1) {
        ZT_SYM(zt_product_prepare)(&product, begin, end, local);
        return;
    }
    uint8_t *room = (uint8_t *)local + whole_lines(product.local_bytes);
    const uint8_t *acts = ZT_SYM(zt_product_activations)(&product, room, local);
    ZT_SYM(zt_product_multiply_items)(&product, acts, call->out[0].data, begin, end, local);
}

/* In a phase that does nothing else? */
static bool linear_same_first_phase(const zt_cpu_call *a, const zt_cpu_call *b)
{
    zt_product p = product_of(a), q = product_of(b);
    return a->n_phases == 2 && b->n_phases == 2 && !p.packs_weights && !q.packs_weights && !p.acts_in_place &&
           ZT_SYM(zt_product_same_acts)(&p, &q);
}

static int linear_prefetch(const zt_cpu_call *call, int64_t begin, int64_t end, zt_cpu_prefetch pieces[])
{
    zt_product product = product_of(call);
    return ZT_SYM(zt_product_prefetch)(&product, begin, end, pieces);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_linear)[] = {
    {.op = ZT_OP_linear,
     .has = linear_has,
     .setup = linear_setup,
     .run = linear_run,
     .prefetch = linear_prefetch,
     .same_first_phase = linear_same_first_phase},
    {0},
};
