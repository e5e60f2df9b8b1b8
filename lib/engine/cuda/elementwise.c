/* elementwise.c - ops of single elements: one, or a chain of them. */
#include "lib/engine/cuda/args_elementwise.h"
#include "lib/engine/cuda/walk.h"
#include "lib/ops/pointwise.h"

#include <string.h>

enum { THREADS = 256 };

/* ---- an op as the kernel knows it ------------------------------------------------------------ */

static const struct {
    zt_op op;
    zt_cu_fn fn;
} functions[] = {
#define X(name) {ZT_OP_##name, ZT_CU_F_##name},
    ZT_CU_OPS(X)
#undef X
    {ZT_OP_gelu, ZT_CU_F_gelu_tanh},
    {ZT_OP_geglu, ZT_CU_F_geglu_tanh},
    {ZT_OP_where, ZT_CU_F_where},
    {ZT_OP_cast, ZT_CU_F_cast},
    {ZT_OP_fill_like, ZT_CU_F_fill},
};

/* gelu and geglu in their other form. */
static zt_cu_fn form_of(zt_cu_fn fn, const void *attrs)
{
    const zt_gelu_attrs *a = attrs; /* geglu's are the same */
    if (fn != ZT_CU_F_gelu_tanh && fn != ZT_CU_F_geglu_tanh) return fn;
    if (strcmp(a->form.s, "erf")) return fn;
    return fn == ZT_CU_F_gelu_tanh ? ZT_CU_F_gelu_erf : ZT_CU_F_geglu_erf;
}

/* The k-th attribute, if it is a number. */
static double number_of(const zt_opinfo *info, const void *attrs, int k)
{
    double f;
    int64_t i;
    if (k >= info->n_attrs) return 0;
    const char *at = (const char *)attrs + info->attrs[k].offset;
    memcpy(&f, at, sizeof f);
    memcpy(&i, at, sizeof i);
    return info->attrs[k].kind == ZT_ATTR_f64   ? f
           : info->attrs[k].kind == ZT_ATTR_i64 ? (double)i
                                                : 0;
}

/* Operands' values are numbers in[], of type[]. */
static bool op_of(zt_op op, const void *attrs, const zt_dtype *type, const uint8_t *in, zt_dtype to,
                  zt_cu_chain_op *o)
{
    const zt_opinfo *info = zt_op_info(op);
    *o = (zt_cu_chain_op){.of = (uint8_t)type[op == ZT_OP_where], .of0 = (uint8_t)type[0]};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (functions[i].op != op) continue;
        o->fn = (uint8_t)form_of(functions[i].fn, attrs);
        o->to = (uint8_t)to;
        o->p = number_of(info, attrs, 0);
        o->q = number_of(info, attrs, 1);
        for (int k = 0; k < 3; k++) o->in[k] = k < info->n_in ? in[k] : in[0];
        return true;
    }
    return false;
}

/* ---- one op ---------------------------------------------------------------------------------- */

static bool plain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    (void)e, (void)attrs;
    bool good = zt_cu_is_plain(out[0].dtype);
    for (int k = 0; k < 3; k++) good = good && (!in[k] || zt_cu_is_plain(in[k]->dtype));
    return good;
}

/* Floats of a byte too; of powers of two, which a cast rounds as it is told, the other way alone. */
static bool cast_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                     const zt_type out[])
{
    (void)e, (void)attrs;
    const zt_dtype from = in[0]->dtype, to = out[0].dtype;
    return (from <= ZT_F8_E8M0 || zt_cu_is_plain(from)) && (to < ZT_F8_E8M0 || zt_cu_is_plain(to));
}

static void set_walk(zt_cu_chain_args *a, const zt_cu_call *c, int n_in, const zt_type *y)
{
    zt_cu_walk w = zt_cu_walk_of(c->in, n_in, y);
    a->n = zt_type_count(y);
    a->n_in = n_in;
    a->n_dims = w.n;
    a->trouble = c->trouble;
    memcpy(a->dim, w.dim, sizeof a->dim);
    memcpy(a->step, w.step, sizeof a->step);
    for (int k = 0; k < n_in; k++) {
        a->x[k] = c->x[k];
        if (c->in[k]) a->x_type[k] = (uint8_t)c->in[k]->dtype;
    }
}

static bool aligned(zt_cu_ptr at, zt_dtype t)
{
    return at % (4 * (zt_cu_ptr)zt_dtype_get(t)->block_bytes) == 0;
}

static zt_status emit_map(zt_cu_call *c, const zt_cu_chain_op *o)
{
    static const char *const names[] = ZT_CU_FLOAT_NAMES(zt_cu_map);
    const zt_dtype t = c->out[0]->dtype;
    zt_cu_map_args a = {.x = c->x[0],
                        .y = c->y[0],
                        .n = zt_type_count(c->out[0]),
                        .p = o->p,
                        .q = o->q,
                        .fn = o->fn,
                        .vectors = aligned(c->x[0], t) && aligned(c->y[0], t)};
    return zt_cu_launch(c, names[zt_cu_float_index(t)], zt_cu_spread(c, a.n, 4 * THREADS),
                        (zt_cu_dim){THREADS, 1, 1}, 0, &a, sizeof a);
}

/* Two floats of one type, each operand a stretch that is repeated; false: they are not. */
static bool map2_of(const zt_cu_call *c, const zt_cu_chain_op *o, zt_cu_map2_args *a)
{
    const zt_dtype t = c->out[0]->dtype;
    zt_cu_walk w = zt_cu_walk_of(c->in, 2, c->out[0]);
    if (o->fn < ZT_CU_F_add || o->fn >= ZT_CU_F_bitwise_and || !zt_cu_is_wide_float(t))
        return false;
    *a = (zt_cu_map2_args){.a = c->x[0],
                           .b = c->x[1],
                           .y = c->y[0],
                           .n = zt_type_count(c->out[0]),
                           .fn = o->fn,
                           .vectors =
                               aligned(c->x[0], t) && aligned(c->x[1], t) && aligned(c->y[0], t)};
    return zt_cu_walk_short(&w, 0, &a->a_each, &a->a_size) &&
           zt_cu_walk_short(&w, 1, &a->b_each, &a->b_size);
}

static zt_status emit_one(zt_cu_call *c)
{
    static const char *const names[] = ZT_CU_FLOAT_NAMES(zt_cu_map2);
    static const uint8_t order[] = {0, 1, 2};
    const zt_type *y = c->out[0];
    zt_cu_chain_args a = {.y = {c->y[0]}, .y_type = {(uint8_t)y->dtype}, .n_ops = 1};
    zt_cu_map2_args two;
    zt_dtype type[3];
    for (int k = 0; k < 3; k++) type[k] = c->in[k] ? c->in[k]->dtype : y->dtype;
    if (!op_of(c->op, c->attrs, type, order, y->dtype, &a.one)) return ZT_EBUG;
    if (a.one.fn < ZT_CU_F_add && zt_cu_is_wide_float(y->dtype)) return emit_map(c, &a.one);
    if (map2_of(c, &a.one, &two))
        return zt_cu_launch(c, names[zt_cu_float_index(y->dtype)],
                            zt_cu_spread(c, two.n, 4 * THREADS), (zt_cu_dim){THREADS, 1, 1}, 0,
                            &two, sizeof two);
    set_walk(&a, c, a.one.fn == ZT_CU_F_fill ? 0 : 3, y); /* which reads nothing */
    return zt_cu_launch_each(c, "zt_cu_chain", a.n, &a, sizeof a);
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Parsed and typed, as the kernel has it; false where a value is none of its numbers. */
static bool chain_of(const void *attrs, const zt_type *const in[], zt_cu_chain_op *ops, int *n,
                     zt_type *whole)
{
    const zt_pointwise_attrs *a = attrs;
    zt_pointwise_chain p;
    zt_type value[ZT_POINTWISE_VALUES];
    if (zt_pointwise_parse(NULL, a->chain, &p) || zt_pointwise_types(NULL, &p, in, value, whole))
        return false;
    *n = p.n_ops;
    for (int i = 0; i < p.n_ops; i++) {
        const zt_type *y = &value[ZT_POINTWISE_INS + i];
        uint8_t from[3];
        zt_dtype type[3];
        for (int k = 0; k < 3; k++) {
            int v = p.op[i].in[k] < 0 ? p.op[i].in[0] : p.op[i].in[k];
            from[k] = (uint8_t)v;
            type[k] = value[v].dtype;
            if (!zt_cu_is_plain(type[k])) return false;
        }
        if (!zt_cu_is_plain(y->dtype) ||
            !op_of(p.op[i].op, p.op[i].attrs, type, from, y->dtype, &ops[i]))
            return false;
    }
    for (int k = 0; k < p.n_out; k++) ops[p.out[k] - ZT_POINTWISE_INS].out = (uint8_t)(k + 1);
    return true;
}

static bool chain_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                      const zt_type out[])
{
    zt_cu_chain_op ops[ZT_CU_CHAIN_OPS];
    zt_type whole;
    int n;
    (void)e, (void)out;
    return chain_of(attrs, in, ops, &n, &whole);
}

static zt_status emit_chain(zt_cu_call *c)
{
    zt_cu_chain_op ops[ZT_CU_CHAIN_OPS];
    zt_cu_chain_args a = {0};
    zt_type whole;
    if (!chain_of(c->attrs, c->in, ops, &a.n_ops, &whole)) return ZT_EBUG;
    set_walk(&a, c, ZT_CU_CHAIN_IN, &whole);
    for (int k = 0; k < ZT_CU_CHAIN_OUT; k++) {
        a.y[k] = c->y[k];
        if (c->out[k]) a.y_type[k] = (uint8_t)c->out[k]->dtype;
    }
    a.ops = zt_cu_table(c, ops, (size_t)a.n_ops * sizeof ops[0]);
    if (!a.ops) return zt_ctx_status(c->e->base.ctx);
    return zt_cu_launch_each(c, "zt_cu_chain", a.n, &a, sizeof a);
}

/* ---- bits ------------------------------------------------------------------------------------ */

static bool any_has(const zt_cu_engine *e, const void *attrs, const zt_type *const in[],
                    const zt_type out[])
{
    (void)e, (void)attrs, (void)in, (void)out;
    return true;
}

static zt_status emit_same_bytes(zt_cu_call *c)
{
    return zt_cu_move(c, c->y[0], c->x[0], zt_type_bytes(c->in[0]));
}

const zt_cu_row zt_cu_elementwise[] = {
#define X(name) {.op = ZT_OP_##name, .has = plain_has, .emit = emit_one},
    ZT_CU_OPS(X) X(gelu) X(geglu) X(where) X(fill_like)
#undef X
    {.op = ZT_OP_cast, .has = cast_has, .emit = emit_one},
        {.op = ZT_OP_pointwise, .has = chain_has, .emit = emit_chain},
    {.op = ZT_OP_bitcast, .has = any_has, .emit = emit_same_bytes},
    {.emit = NULL},
};
