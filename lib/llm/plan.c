/* plan.c - check that a plan belongs to this model: its id, and the inputs, states and outputs of its program. */
#include "lib/llm/arch.h"

#include <string.h>

static zt_status check_model_id(zt_ctx *ctx, const zt_gguf *gguf, const zt_prog *program)
{
    const char *id = zt_prog_model_id(program), *file = zt_prog_model_file(program);
    if (id && !strcmp(id, zt_gguf_id(gguf)))
        return ZT_OK;
    return zt_fail(ctx, ZT_EDATA, "the plan is of the model %s (id %s), not of %s (id %s)", file ? file : "?", id ? id : "none",
                   zt_gguf_name(gguf), zt_gguf_id(gguf));
}

/* Values of a kind, one by one: the same names and, bound, types. */
static zt_status check_values(zt_ctx *ctx, const zt_bound *expected, const zt_bound *planned, zt_value_kind kind)
{
    char planned_text[ZT_TYPE_TEXT], expected_text[ZT_TYPE_TEXT];
    int count = zt_prog_count(expected->prog, kind);
    if (zt_prog_count(planned->prog, kind) != count)
        return zt_fail(ctx, ZT_EDATA, "the plan has %d %s, the model's program %d", zt_prog_count(planned->prog, kind),
                       kind == ZT_VALUE_IN ? "inputs" : "states", count);
    for (int i = 0; i < count; i++) {
        int expected_value = zt_prog_nth(expected->prog, kind, i), planned_value = zt_prog_nth(planned->prog, kind, i);
        const char *name = zt_prog_value(expected->prog, expected_value)->name;
        if (!strcmp(name, zt_prog_value(planned->prog, planned_value)->name) &&
            zt_type_equal(&expected->type[expected_value], &planned->type[planned_value]))
            continue;
        return zt_fail(ctx, ZT_EDATA, "the plan has %s: %s in the place of %s: %s",
                       zt_prog_value(planned->prog, planned_value)->name,
                       zt_type_text(&planned->type[planned_value], planned_text), name,
                       zt_type_text(&expected->type[expected_value], expected_text));
    }
    return ZT_OK;
}

static zt_status check_outputs(zt_ctx *ctx, const zt_bound *expected, const zt_bound *planned)
{
    int count = zt_prog_n_outputs(expected->prog);
    bool same = zt_prog_n_outputs(planned->prog) == count;
    for (int index = 0; index < count && same; index++) {
        const zt_output *expected_output = zt_prog_output(expected->prog, index),
                        *planned_output = zt_prog_output(planned->prog, index);
        same = !strcmp(expected_output->name, planned_output->name) &&
               zt_type_equal(&expected->type[expected_output->value], &planned->type[planned_output->value]);
    }
    return same ? ZT_OK : zt_fail(ctx, ZT_EDATA, "the plan's outputs are not the model's");
}

zt_status zt_llm_check_plan(const zt_gguf *gguf, const zt_plan_file *plan, const zt_prog *built, const zt_binding *sample,
                            int sample_count)
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    const zt_prog *program = zt_plan_file_prog(plan);
    zt_status status = check_model_id(ctx, gguf, program);
    for (int i = 0; i < zt_prog_n_symbols(program) && !status; i++) {
        int k = 0;
        while (k < sample_count && strcmp(sample[k].symbol, zt_prog_symbol_name(program, i)) != 0)
            k++;
        if (k == sample_count)
            status = zt_fail(ctx, ZT_EDATA, "the plan has a symbol '%s', the model none", zt_prog_symbol_name(program, i));
    }
    zt_bound *expected = status ? NULL : zt_prog_bind(built, sample, sample_count);
    zt_bound *planned = expected ? zt_prog_bind(program, sample, sample_count) : NULL;
    if (planned) {
        status = check_values(ctx, expected, planned, ZT_VALUE_IN);
        if (!status)
            status = check_values(ctx, expected, planned, ZT_VALUE_STATE);
        if (!status)
            status = check_outputs(ctx, expected, planned);
    }
    zt_bound_free(expected);
    zt_bound_free(planned);
    return status ? status : zt_ctx_status(ctx);
}
