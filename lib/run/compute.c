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

typedef enum form { DECLARED, LOWERED, WEIGHT, FORMS } form;

typedef struct lowering_state {
    zt_rewrite rewrite;
    const zt_bound *bound;
    zt_dtype dtypes[FORMS]; /* of LESS and WEIGHT */
    bool has_weights;       /* are there WEIGHTs */
    int *values[FORMS];     /* [values] of LESS and WEIGHT: numbers in w.to, or -1 */
} lowering_state;

/* ---- values ---------------------------------------------------------------------------------- */

static int *form_slot(lowering_state *lowering, int value_id, form wanted)
{
    return wanted == DECLARED ? &lowering->rewrite.map[value_id] : &lowering->values[wanted][value_id];
}

/* A name that neither program has: "h3.bf16". One that the builder finds may be a later value's. */
static const char *name_of(const lowering_state *lowering, int value_id, zt_dtype dtype, char buffer[128])
{
    const char *name = zt_prog_value(lowering->rewrite.source, value_id)->name, *type = zt_dtype_get(dtype)->name;
    snprintf(buffer, 128, "%.80s.%s", name, type);
    for (int k = 2; zt_prog_find(lowering->rewrite.source, buffer) >= 0 || zt_prog_find(lowering->rewrite.target, buffer) >= 0;
         k++)
        snprintf(buffer, 128, "%.80s.%s.%d", name, type, k);
    return buffer;
}

/* The value as it is in `from`, cast. */
static zt_status add_cast(lowering_state *lowering, int value_id, int from, zt_dtype dtype, int *value)
{
    zt_cast_attrs attrs = zt_cast_defaults();
    char buffer[128];
    const char *names[] = {name_of(lowering, value_id, dtype, buffer)};
    memset(&attrs.to, 0, sizeof attrs.to);
    strncpy(attrs.to.s, zt_dtype_get(dtype)->name, sizeof attrs.to.s - 1);
    return zt_prog_op(lowering->rewrite.target, ZT_OP_cast, &attrs, &from, names, value);
}

/* The value in the wanted form, made of the form that is there. */
static zt_status ensure_form(lowering_state *lowering, int value_id, form wanted)
{
    int *slot = form_slot(lowering, value_id, wanted);
    if (*slot >= 0) return ZT_OK;
    int from = lowering->rewrite.map[value_id] >= 0 ? lowering->rewrite.map[value_id] : lowering->values[LOWERED][value_id];
    return add_cast(lowering, value_id, from,
                    wanted == DECLARED ? lowering->bound->type[value_id].dtype : lowering->dtypes[wanted], slot);
}

/* ---- forms of a step ------------------------------------------------------------------------- */

static bool keeps_precision(zt_op op)
{
    static const char *const wide[] = {"reduce", "axis", "loss", "random", "quantization", "call", "spectral"};
    const char *family = zt_op_family(op);
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (!strcmp(family, wide[i])) return true;
    return op == ZT_OP_cast || op == ZT_OP_bitcast;
}

/* A plain matrix of data that a linear op multiplies by. */
static bool is_weight(const lowering_state *lowering, const zt_step *step, int k)
{
    int last_weight = step->op == ZT_OP_linear ? 1 : step->op == ZT_OP_linears ? 3 : step->op == ZT_OP_gated_linear ? 2 : 0;
    const zt_type *type = &lowering->bound->type[step->in[k]];
    return k >= 1 && k <= last_weight && zt_prog_value(lowering->rewrite.source, step->in[k])->kind == ZT_VALUE_DATA &&
           type->rank == 2 && (type->dtype == ZT_F32 || type->dtype == ZT_F16 || type->dtype == ZT_BF16);
}

enum { ALL_AND_WEIGHTS, ALL, WHAT_IS_THERE, TRIES };

/* The form of input k in one of the tries. What is used up keeps its own. */
static form form_of(const lowering_state *lowering, const zt_step *step, int k, int attempt)
{
    int value_id = step->in[k];
    if (k < zt_op_info(step->op)->def->donates) return DECLARED;
    if (attempt == ALL_AND_WEIGHTS && lowering->has_weights && is_weight(lowering, step, k)) return WEIGHT;
    if (lowering->bound->type[value_id].dtype != ZT_F32) return DECLARED;
    return attempt != WHAT_IS_THERE || lowering->values[LOWERED][value_id] >= 0 ? LOWERED : DECLARED;
}

/* Does the rule take these, and give each output as it was or in the lesser type? *lowered_outputs: those. */
static bool rule_allows(const lowering_state *lowering, const zt_step *step, const void *attrs, const form *forms,
                        unsigned *lowered_outputs)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    zt_type type[ZT_MAX_IN], output_types[ZT_MAX_OUT] = {{0}};
    const zt_type *input_types[ZT_MAX_IN] = {0};
    bool any = false;
    *lowered_outputs = 0;
    for (int input = 0; input < op_info->n_in; input++) {
        if (step->in[input] < 0) continue;
        type[input] = lowering->bound->type[step->in[input]];
        if (forms[input] != DECLARED) type[input].dtype = lowering->dtypes[forms[input]];
        any = any || forms[input] != DECLARED;
        input_types[input] = &type[input];
    }
    if (!any || zt_op_infer(NULL, step->op, attrs, input_types, output_types)) return false;
    for (int output = 0; output < op_info->n_out; output++) {
        if (step->out[output] < 0) continue;
        zt_type was = lowering->bound->type[step->out[output]];
        bool lowered = was.dtype == ZT_F32 && output_types[output].dtype == lowering->dtypes[LOWERED];
        if (lowered) was.dtype = output_types[output].dtype;
        if (!zt_type_equal(&was, &output_types[output]) || (lowered && output < op_info->def->donates)) return false;
        *lowered_outputs |= (unsigned)lowered << output;
    }
    return true;
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* lowered_outputs: outputs that come in the lesser type. */
static zt_status emit_step(lowering_state *lowering, const zt_step *step, const form *forms, unsigned lowered_outputs)
{
    const zt_opinfo *op_info = zt_op_info(step->op);
    const char *names[ZT_MAX_OUT] = {0};
    int inputs[ZT_MAX_IN], outputs[ZT_MAX_OUT];
    for (int input = 0; input < op_info->n_in; input++) {
        inputs[input] = ZT_NONE;
        if (step->in[input] < 0) continue;
        zt_status status = ensure_form(lowering, step->in[input], forms[input]);
        if (status) return status;
        inputs[input] = *form_slot(lowering, step->in[input], forms[input]);
    }
    for (int output = 0; output < op_info->n_out; output++)
        names[output] = step->out[output] >= 0 ? zt_prog_value(lowering->rewrite.source, step->out[output])->name
                        : output               ? "_"
                                               : NULL;
    zt_status status = zt_prog_op(lowering->rewrite.target, step->op, step->attrs, inputs, names, outputs);
    for (int output = 0; output < op_info->n_out && !status; output++)
        if (step->out[output] >= 0)
            *form_slot(lowering, step->out[output], lowered_outputs >> output & 1 ? LOWERED : DECLARED) = outputs[output];
    return status;
}

static zt_status lower_step(lowering_state *lowering, int step)
{
    const zt_step *source_step = zt_prog_step(lowering->rewrite.source, step);
    unsigned lowered_outputs;
    for (int attempt = lowering->has_weights ? ALL_AND_WEIGHTS : ALL; attempt < TRIES && !keeps_precision(source_step->op);
         attempt++) {
        form forms[ZT_MAX_IN] = {DECLARED};
        for (int input = 0; input < zt_op_info(source_step->op)->n_in; input++)
            if (source_step->in[input] >= 0) forms[input] = form_of(lowering, source_step, input, attempt);
        if (rule_allows(lowering, source_step, lowering->bound->attrs[step], forms, &lowered_outputs))
            return emit_step(lowering, source_step, forms, lowered_outputs);
    }
    return emit_step(lowering, source_step, (const form[ZT_MAX_IN]){DECLARED}, 0);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* What states keep and outputs give is as it was declared. */
static zt_status declare_ends(lowering_state *lowering)
{
    const zt_prog *program = lowering->rewrite.source;
    zt_status status = ZT_OK;
    for (int state_index = 0; state_index < zt_prog_count(program, ZT_VALUE_STATE) && !status; state_index++) {
        int keep = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, state_index))->keep;
        if (keep >= 0) status = ensure_form(lowering, keep, DECLARED);
    }
    for (int output_index = 0; output_index < zt_prog_n_outputs(program) && !status; output_index++)
        status = ensure_form(lowering, zt_prog_output(program, output_index)->value, DECLARED);
    return status;
}

static zt_status rewrite_program(lowering_state *lowering, zt_ctx *ctx, const zt_prog *program, bool lower, zt_prog **rewritten)
{
    zt_status status = zt_rewrite_begin(&lowering->rewrite, ctx, program);
    for (int step_index = 0; step_index < zt_prog_n_steps(program) && !status; step_index++)
        status = lower ? lower_step(lowering, step_index) : zt_rewrite_copy(&lowering->rewrite, step_index, NULL);
    if (!status && lower) status = declare_ends(lowering);
    return zt_rewrite_end(&lowering->rewrite, status, rewritten);
}

zt_prog *zt_prog_computed(zt_ctx *ctx, const zt_prog *program, const zt_binding *sample, int n_sample, zt_compute compute)
{
    size_t value_slots = (size_t)zt_prog_n_values(program) + 1;
    bool lower = compute != ZT_COMPUTE_F32 && zt_prog_n_symbols(program) <= n_sample;
    zt_dtype half = compute == ZT_COMPUTE_F16 ? ZT_F16 : ZT_BF16;
    lowering_state lowering = {.dtypes = {ZT_F32, half, ZT_F8_E4M3}, .has_weights = compute == ZT_COMPUTE_FP8};
    zt_bound *bound = lower ? zt_prog_bind(program, sample, n_sample) : NULL;
    zt_prog *out = NULL;
    zt_status status = lower && !bound ? zt_ctx_status(ctx) : ZT_OK;
    lowering.bound = bound;
    for (int f = LOWERED; f < FORMS && !status; f++) {
        lowering.values[f] = zt_alloc_array(ctx, value_slots, sizeof *lowering.values[f]);
        if (!lowering.values[f]) status = ZT_ENOMEM;
        for (size_t value_id = 0; value_id < value_slots && !status; value_id++) lowering.values[f][value_id] = -1;
    }
    if (!status) rewrite_program(&lowering, ctx, program, lower, &out);
    for (int f = LOWERED; f < FORMS; f++) zt_free(ctx, lowering.values[f]);
    zt_bound_free(bound);
    return out;
}
