/* cost.c - arithmetic and bytes of a program's steps, from what the ops' rows state (zt_op_flops,
 * zt_op_bytes), held against a roof.
 */
#include "lib/run/cost.h"
#include "lib/ops/linear.h"

#include <string.h>

int *zt_cost_roots(zt_ctx *ctx, const zt_prog *program)
{
    int n = zt_prog_n_values(program);
    int *root = zt_alloc_array(ctx, (size_t)n + 1, sizeof *root);
    for (int v = 0; root && v < n; v++) root[v] = v;
    for (int s = 0; root && s < zt_prog_n_steps(program); s++) {
        const zt_step *step = zt_prog_step(program, s);
        for (int k = 0; k < zt_op_shares(step->op); k++)
            if (step->out[k] >= 0) root[step->out[k]] = root[step->in[k]];
    }
    return root;
}

/* How often the products of all outputs are made, on the average. */
static double passes_of(zt_op op, const void *attrs, const zt_type out[])
{
    double all = 0, passes = 0;
    for (int k = 0; k < zt_op_info(op)->n_out; k++) {
        double n = (double)zt_type_count(&out[k]);
        all += n;
        passes += n * (strcmp(zt_op_act(op, attrs, k)->s, "q16") ? 1 : 2);
    }
    return all > 0 ? passes / all : 1;
}

/* By the op's attribute `act`: what weights of blocks are multiplied with. */
static zt_roof_kind kind_of(zt_op op, const void *attrs, const zt_type *const input_types[])
{
    const zt_enum_string *act = zt_op_act(op, attrs, 0);
    if (!act || !input_types[1]) return ZT_ROOF_F32;
    if (input_types[1]->dtype == ZT_BF16) return ZT_ROOF_BF16;
    bool blocks = zt_dtype_get(input_types[1]->dtype)->block > 1;
    return blocks && strcmp(act->s, "f32") ? ZT_ROOF_INT8 : ZT_ROOF_F32;
}

/* A step's types: of a cache the rows that are filled. */
typedef struct operands {
    const zt_step *step;
    const zt_opinfo *info;
    const void *attrs;
    const zt_type *in[ZT_MAX_IN];
    zt_type of[ZT_MAX_IN], out[ZT_MAX_OUT];
} operands;

static zt_value_kind kind_at(const zt_bound *bound, const int *root, int v)
{
    return zt_prog_value(bound->prog, root[v])->kind;
}

static void find_operands(const zt_bound *bound, const int *root, int64_t filled, int step, operands *o)
{
    const zt_step *st = zt_prog_step(bound->prog, step);
    *o = (operands){.step = st, .info = zt_op_info(st->op)};
    o->attrs = bound->attrs[step] ? bound->attrs[step] : o->info->defaults;
    for (int k = 0; k < o->info->n_in; k++) {
        if (st->in[k] < 0) continue;
        zt_type *type = &o->of[k];
        *type = bound->type[st->in[k]];
        o->in[k] = type;
        if (kind_at(bound, root, st->in[k]) == ZT_VALUE_STATE && filled >= 0 && type->rank &&
            type->dim[0] > filled)
            type->dim[0] = filled;
    }
    for (int k = 0; k < o->info->n_out; k++)
        if (st->out[k] >= 0) o->out[k] = bound->type[st->out[k]];
}

zt_cost zt_cost_of(const zt_bound *bound, const int *root, int64_t filled, int step)
{
    operands o;
    zt_cost c = {0};
    find_operands(bound, root, filled, step, &o);
    for (int k = 0; k < o.info->n_in; k++) {
        if (!o.in[k]) continue;
        zt_value_kind kind = kind_at(bound, root, o.step->in[k]);
        bool donated = k < o.info->def->donates;
        if ((kind == ZT_VALUE_STATE && !donated) || kind == ZT_VALUE_DATA)
            c.data += (double)zt_type_bytes(o.in[k]);
    }
    double bytes = zt_op_bytes(o.step->op, o.attrs, o.in, o.out);
    c.flops = zt_op_flops(o.step->op, o.attrs, o.in, o.out);
    c.data = c.data < bytes ? c.data : bytes;
    c.rest = bytes - c.data;
    c.kind = kind_of(o.step->op, o.attrs, o.in);
    c.passes = c.kind == ZT_ROOF_INT8 ? passes_of(o.step->op, o.attrs, o.out) : 1;
    if (o.info->def->flags & ZT_OPF_VIEW) c.flops = 0;
    return c;
}

/* ---- whole programs -------------------------------------------------------------------------- */

/* Of what is declared the most that a step reads: a table of which some rows are wanted is not read
 * whole. read: [values], by root. */
static void note_reads(const zt_bound *bound, const int *root, int64_t filled, int step, double *read)
{
    operands o;
    find_operands(bound, root, filled, step, &o);
    double bytes = zt_op_bytes(o.step->op, o.attrs, o.in, o.out);
    for (int k = 0; k < o.info->n_in; k++) {
        if (!o.in[k] || k < o.info->def->donates || o.info->def->flags & ZT_OPF_VIEW) continue;
        int v = root[o.step->in[k]];
        double all = (double)zt_type_bytes(o.in[k]), some = all < bytes ? all : bytes;
        if (zt_prog_value(bound->prog, v)->kind != ZT_VALUE_OP && some > read[v]) read[v] = some;
    }
}

zt_status zt_cost_add(zt_ctx *ctx, const zt_bound *bound, const int *root, int64_t filled, double runs,
                      zt_cost_whole *w)
{
    double bytes = 0, *read = zt_calloc(ctx, (size_t)bound->n_values + 1, sizeof *read);
    if (!read) return ZT_ENOMEM;
    for (int s = 0; s < bound->n_steps; s++) {
        zt_cost c = zt_cost_of(bound, root, filled, s);
        w->flops[c.kind] += runs * c.flops * c.passes;
        note_reads(bound, root, filled, s, read);
    }
    for (int v = 0; v < bound->n_values; v++) bytes += read[v];
    for (int o = 0; o < zt_prog_n_outputs(bound->prog); o++)
        bytes += (double)zt_type_bytes(&bound->type[zt_prog_output(bound->prog, o)->value]);
    w->bytes += runs * bytes;
    w->held = bytes > w->held ? bytes : w->held;
    zt_free(ctx, read);
    return ZT_OK;
}

double zt_cost_least(const zt_cost_whole *w, const zt_roof *roof)
{
    double compute = 0;
    for (int k = 0; k < ZT_ROOF_KINDS; k++)
        compute += w->flops[k] / zt_roof_rate(roof, (zt_roof_kind)k);
    const zt_roof_level *level = zt_roof_level_of(roof, (size_t)w->held);
    double move = w->bytes / level->read[ZT_ROOF_ALL];
    return compute > move ? compute : move;
}
