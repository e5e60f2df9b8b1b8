/* chain.c - a chain of elementwise ops as one dispatch: `pointwise`.
 *
 * A chain is a list of words, an op each: its function, its operands, its output. module.c writes
 * from them what shaders/pointwise.comp runs; attributes and shapes come in the step's own table,
 * so that chains alike but for these share a pipeline.
 */
#include "lib/engine/vulkan/vk.h"
#include "lib/ops/pointwise.h"

#include <string.h>

enum { DIMS = 4, STEPS_AT = 1 + DIMS, ATTRS_AT = STEPS_AT + DIMS * ZT_POINTWISE_INS };

/* Parsed and typed; false where a value or an op is none of the shader's. */
static bool understand(const void *attrs, const zt_type *const in[], zt_pointwise_chain *p,
                       zt_type value[ZT_POINTWISE_VALUES], zt_type *whole)
{
    const zt_pointwise_attrs *a = attrs;
    if (zt_pointwise_parse(NULL, a->chain, p) || zt_pointwise_types(NULL, p, in, value, whole))
        return false;
    zt_dtype t = value[ZT_POINTWISE_INS].dtype;
    bool good = zt_vk_is_float(t);
    for (int k = 0; k < ZT_POINTWISE_INS && good; k++) good = !in[k] || in[k]->dtype == t;
    for (int i = 0; i < p->n_ops && good; i++)
        good = value[ZT_POINTWISE_INS + i].dtype == t &&
               zt_vk_function(p->op[i].op, p->op[i].attrs, NULL) >= 0;
    return good && zt_vk_walk_of(in, ZT_POINTWISE_INS, whole).n <= DIMS;
}

static bool chain_has(const zt_vk_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    zt_pointwise_chain p;
    zt_type value[ZT_POINTWISE_VALUES], whole;
    (void)e, (void)out;
    return understand(attrs, in, &p, value, &whole);
}

static void set_shapes(zt_vk_call *c, const zt_type *whole, uint32_t *table)
{
    zt_vk_walk w = zt_vk_walk_of(c->in, ZT_POINTWISE_INS, whole);
    table[0] = (uint32_t)zt_type_count(whole);
    for (int d = 0; d < DIMS; d++) table[DIMS - d] = d < w.n ? w.dim[d] : 1;
    for (int k = 0; k < ZT_POINTWISE_INS; k++) {
        if (!c->in[k]) continue;
        zt_type same = *c->in[k];
        same.dtype = whole->dtype;
        c->spec[0] |= 1u << k;
        if (zt_type_equal(&same, whole)) c->spec[1] |= 1u << k;
        for (int d = 0; d < DIMS && d < w.n; d++)
            table[STEPS_AT + DIMS * k + DIMS - 1 - d] = w.step[k][d];
    }
}

static uint32_t float_bits(double x)
{
    float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static zt_status set_chain(zt_vk_engine *e, zt_vk_call *c)
{
    zt_pointwise_chain p;
    zt_type value[ZT_POINTWISE_VALUES], whole;
    if (!understand(c->attrs, c->in, &p, value, &whole))
        return zt_fail(e->base.ctx, ZT_EBUG, "op pointwise: vulkan has no kernel for it");
    c->table_words = ATTRS_AT + 2 * (size_t)p.n_ops;
    c->table = zt_calloc(e->base.ctx, c->table_words, sizeof *c->table);
    if (!c->table) return ZT_ENOMEM;
    c->shader = ZT_VK_SHADER_pointwise;
    set_shapes(c, &whole, c->table);
    for (int i = 0; i < p.n_ops; i++) {
        const zt_pointwise_op *o = &p.op[i];
        double attr[2];
        int f = zt_vk_function(o->op, o->attrs, attr);
        c->body[c->n_body++] = ZT_VK_BODY(f, o->in[0], o->in[1] < 0 ? o->in[0] : o->in[1]);
        for (int k = 0; k < 2; k++) c->table[ATTRS_AT + 2 * i + k] = float_bits(attr[k]);
    }
    for (int k = 0; k < p.n_out; k++)
        if (c->wanted[k]) c->body[p.out[k] - ZT_POINTWISE_INS] |= ZT_VK_BODY_OUT((uint32_t)k);
    zt_vk_spread(e, c, zt_type_count(&whole), 64);
    return ZT_OK;
}

const zt_vk_kernel zt_vk_chain[] = {
    {.op = ZT_OP_pointwise, .has = chain_has, .set = set_chain, .many = true},
    {0},
};
