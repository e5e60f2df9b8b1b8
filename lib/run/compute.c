/* compute.c - programs that compute in less than f32: which values have which form, step by step.
 *
 * A value that was of f32 may be there as declared (rewrite's map), in the lesser type, and as
 * weights of E4M3, each made when first asked for. A step takes the least form that its rule
 * allows, of three: all its floats in the lesser type; those that are there in it already; none.
 */
#include "lib/run/compute.h"

#include <stdio.h>
#include <string.h>

#include "lib/run/passes/rewrite.h"

typedef enum form { DECLARED, LESS, WEIGHT, FORMS } form;

typedef struct lessening {
    zt_rewrite w;
    const zt_bound *b;
    zt_dtype dtype[FORMS]; /* of LESS and WEIGHT */
    bool weights;          /* are there WEIGHTs */
    int *made[FORMS];      /* [values] of LESS and WEIGHT: numbers in w.to, or -1 */
} lessening;

/* ---- values ---------------------------------------------------------------------------------- */

static int *slot(lessening *h, int v, form f)
{
    return f == DECLARED ? &h->w.map[v] : &h->made[f][v];
}

/* A name that neither program has: "h3.bf16". One that the builder finds may be a later value's. */
static const char *name_of(const lessening *h, int v, zt_dtype dtype, char buf[128])
{
    const char *name = zt_prog_value(h->w.from, v)->name, *type = zt_dtype_get(dtype)->name;
    snprintf(buf, 128, "%.80s.%s", name, type);
    for (int k = 2; zt_prog_find(h->w.from, buf) >= 0 || zt_prog_find(h->w.to, buf) >= 0; k++)
        snprintf(buf, 128, "%.80s.%s.%d", name, type, k);
    return buf;
}

/* Value v as it is in `from`, cast. */
static zt_status cast(lessening *h, int v, int from, zt_dtype dtype, int *made)
{
    zt_cast_attrs attrs = zt_cast_defaults();
    char buf[128];
    const char *names[] = {name_of(h, v, dtype, buf)};
    memset(&attrs.to, 0, sizeof attrs.to);
    strncpy(attrs.to.s, zt_dtype_get(dtype)->name, sizeof attrs.to.s - 1);
    return zt_prog_op(h->w.to, ZT_OP_cast, &attrs, &from, names, made);
}

/* v in form f, made of the form that is there. */
static zt_status want(lessening *h, int v, form f)
{
    int *to = slot(h, v, f);
    if (*to >= 0) return ZT_OK;
    int from = h->w.map[v] >= 0 ? h->w.map[v] : h->made[LESS][v];
    return cast(h, v, from, f == DECLARED ? h->b->type[v].dtype : h->dtype[f], to);
}

/* ---- forms of a step ------------------------------------------------------------------------- */

static bool stays(zt_op op)
{
    static const char *const wide[] = {"reduce", "axis", "loss", "random", "quantization", "call",
                                       "spectral"};
    const char *family = zt_op_family(op);
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (!strcmp(family, wide[i])) return true;
    return op == ZT_OP_cast || op == ZT_OP_bitcast;
}

/* A plain matrix of data that a linear op multiplies by. */
static bool is_weight(const lessening *h, const zt_step *step, int k)
{
    int n = step->op == ZT_OP_linear         ? 1
            : step->op == ZT_OP_linears      ? 3
            : step->op == ZT_OP_gated_linear ? 2
                                           : 0;
    const zt_type *type = &h->b->type[step->in[k]];
    return k >= 1 && k <= n && zt_prog_value(h->w.from, step->in[k])->kind == ZT_VALUE_DATA &&
           type->rank == 2 && (type->dtype == ZT_F32 || type->dtype == ZT_F16 || type->dtype == ZT_BF16);
}

enum { ALL_AND_WEIGHTS, ALL, WHAT_IS_THERE, TRIES };

/* The form of input k in one of the tries. What is used up keeps its own. */
static form form_of(const lessening *h, const zt_step *step, int k, int how)
{
    int v = step->in[k];
    if (k < zt_op_info(step->op)->def->donates) return DECLARED;
    if (how == ALL_AND_WEIGHTS && h->weights && is_weight(h, step, k)) return WEIGHT;
    if (h->b->type[v].dtype != ZT_F32) return DECLARED;
    return how != WHAT_IS_THERE || h->made[LESS][v] >= 0 ? LESS : DECLARED;
}

/* Does the rule take these, and give each output as it was or in the lesser type? *less: those. */
static bool allowed(const lessening *h, const zt_step *step, const void *attrs, const form *f,
                    unsigned *less)
{
    const zt_opinfo *info = zt_op_info(step->op);
    zt_type type[ZT_MAX_IN], out[ZT_MAX_OUT] = {{0}};
    const zt_type *input_types[ZT_MAX_IN] = {0};
    bool any = false;
    *less = 0;
    for (int k = 0; k < info->n_in; k++) {
        if (step->in[k] < 0) continue;
        type[k] = h->b->type[step->in[k]];
        if (f[k] != DECLARED) type[k].dtype = h->dtype[f[k]];
        any = any || f[k] != DECLARED;
        input_types[k] = &type[k];
    }
    if (!any || zt_op_infer(NULL, step->op, attrs, input_types, out)) return false;
    for (int k = 0; k < info->n_out; k++) {
        if (step->out[k] < 0) continue;
        zt_type was = h->b->type[step->out[k]];
        bool lesser = was.dtype == ZT_F32 && out[k].dtype == h->dtype[LESS];
        if (lesser) was.dtype = out[k].dtype;
        if (!zt_type_equal(&was, &out[k]) || (lesser && k < info->def->donates)) return false;
        *less |= (unsigned)lesser << k;
    }
    return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* less: outputs that come in the lesser type. */
static zt_status emit(lessening *h, const zt_step *step, const form *f, unsigned less)
{
    const zt_opinfo *info = zt_op_info(step->op);
    const char *names[ZT_MAX_OUT] = {0};
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int k = 0; k < info->n_in; k++) {
        inputs[k] = ZT_NONE;
        if (step->in[k] < 0) continue;
        zt_status status = want(h, step->in[k], f[k]);
        if (status) return status;
        inputs[k] = *slot(h, step->in[k], f[k]);
    }
    for (int k = 0; k < info->n_out; k++)
        names[k] = step->out[k] >= 0 ? zt_prog_value(h->w.from, step->out[k])->name : k ? "_" : NULL;
    zt_status status = zt_prog_op(h->w.to, step->op, step->attrs, inputs, names, outputs);
    for (int k = 0; k < info->n_out && !status; k++)
        if (step->out[k] >= 0) *slot(h, step->out[k], less >> k & 1 ? LESS : DECLARED) = outputs[k];
    return status;
}

static zt_status lessen(lessening *h, int step)
{
    const zt_step *st = zt_prog_step(h->w.from, step);
    unsigned less;
    for (int how = h->weights ? ALL_AND_WEIGHTS : ALL; how < TRIES && !stays(st->op); how++) {
        form f[ZT_MAX_IN] = {DECLARED};
        for (int k = 0; k < zt_op_info(st->op)->n_in; k++)
            if (st->in[k] >= 0) f[k] = form_of(h, st, k, how);
        if (allowed(h, st, h->b->attrs[step], f, &less)) return emit(h, st, f, less);
    }
    return emit(h, st, (const form[ZT_MAX_IN]){DECLARED}, 0);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* What states keep and outputs give is as it was declared. */
static zt_status declare_ends(lessening *h)
{
    const zt_prog *program = h->w.from;
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_STATE) && !status; i++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, i))->keep;
        if (keep >= 0) status = want(h, keep, DECLARED);
    }
    for (int o = 0; o < zt_prog_n_outputs(program) && !status; o++)
        status = want(h, zt_prog_output(program, o)->value, DECLARED);
    return status;
}

static zt_status rewrite(lessening *h, zt_ctx *ctx, const zt_prog *program, bool less, zt_prog **out)
{
    zt_status status = zt_rewrite_begin(&h->w, ctx, program);
    for (int i = 0; i < zt_prog_n_steps(program) && !status; i++)
        status = less ? lessen(h, i) : zt_rewrite_copy(&h->w, i, NULL);
    if (!status && less) status = declare_ends(h);
    return zt_rewrite_end(&h->w, status, out);
}

zt_prog *zt_prog_computed(zt_ctx *ctx, const zt_prog *program, const zt_binding *sample, int n_sample,
                          zt_compute how)
{
    size_t n = (size_t)zt_prog_n_values(program) + 1;
    bool less = how != ZT_COMPUTE_F32 && zt_prog_n_symbols(program) <= n_sample;
    zt_dtype half = how == ZT_COMPUTE_F16 ? ZT_F16 : ZT_BF16;
    lessening h = {.dtype = {ZT_F32, half, ZT_F8_E4M3}, .weights = how == ZT_COMPUTE_FP8};
    zt_bound *bound = less ? zt_prog_bind(program, sample, n_sample) : NULL;
    zt_prog *out = NULL;
    zt_status status = less && !bound ? zt_ctx_status(ctx) : ZT_OK;
    h.b = bound;
    for (int f = LESS; f < FORMS && !status; f++) {
        h.made[f] = zt_alloc_array(ctx, n, sizeof *h.made[f]);
        if (!h.made[f]) status = ZT_ENOMEM;
        for (size_t v = 0; v < n && !status; v++) h.made[f][v] = -1;
    }
    if (!status) rewrite(&h, ctx, program, less, &out);
    for (int f = LESS; f < FORMS; f++) zt_free(ctx, h.made[f]);
    zt_bound_free(bound);
    return out;
}
