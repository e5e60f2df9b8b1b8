/* builder.c - owns zt_emit on a program: ops added one by one, their types known at once.
 *
 * Symbols have the numbers of a sample, so that each op can be inferred where it is written; rows
 * see dtypes and ranks, and dims only in a program without symbols.
 */
#include "lib/base/require.h"
#include "lib/prog/list.h"
#include "lib/prog/states.h"

#include <string.h>

struct zt_builder {
    zt_prog *program;
    zt_emit emit;
    zt_type *types; /* of the first n values, bound */
    int type_count, capacity;
    int64_t *expr_values; /* of the program's expressions */
    int n_exprs;
};

static zt_status emit_op(void *user, zt_op op, const void *attrs, const int *inputs, int *outputs)
{
    zt_status status = zt_builder_op(user, op, attrs, inputs, NULL, outputs);
    for (int output = 0; status && output < zt_op_info(op)->n_out; output++) outputs[output] = -1;
    return status;
}

static zt_type emit_type(void *user, int value_id)
{
    zt_builder *builder = user;
    zt_type type = zt_builder_type(builder, value_id);
    for (int axis = 0; axis < type.rank && builder->program->n_symbols; axis++) type.dim[axis] = -1;
    return type;
}

static zt_status sample_symbols(const zt_prog *program, const zt_binding *bindings, int binding_count, int64_t *symbol)
{
    for (int symbol_id = 0; symbol_id < program->n_symbols; symbol_id++) {
        int k = 0;
        while (k < binding_count && strcmp(bindings[k].symbol, program->symbol_names[symbol_id]) != 0) k++;
        if (k == binding_count)
            return zt_fail(program->ctx, ZT_EUSAGE, "no sample value for symbol '%s'", program->symbol_names[symbol_id]);
        symbol[symbol_id] = bindings[k].value;
    }
    return ZT_OK;
}

zt_builder *zt_builder_new(zt_prog *program, const zt_binding *sample, int sample_count)
{
    if (!program) return NULL;
    ZT_REQUIRE(program->ctx, sample_count >= 0 && (sample || !sample_count), NULL);
    for (int k = 0; k < sample_count; k++) ZT_REQUIRE(program->ctx, sample[k].symbol, NULL);
    int64_t symbol[ZT_MAX_SYMBOLS] = {0};
    if (sample_symbols(program, sample, sample_count, symbol)) return NULL;
    zt_builder *builder = zt_calloc(program->ctx, 1, sizeof *builder);
    if (!builder) return NULL;
    builder->program = program;
    builder->emit = (zt_emit){builder, emit_op, emit_type};
    builder->n_exprs = program->expressions.count;
    builder->expr_values = zt_calloc(program->ctx, (size_t)program->expressions.count + 1, sizeof *builder->expr_values);
    if (builder->expr_values && zt_dims_eval(program, symbol, builder->expr_values) == ZT_OK) return builder;
    zt_builder_free(builder);
    return NULL;
}

void zt_builder_free(zt_builder *builder)
{
    if (!builder) return;
    zt_free(builder->program->ctx, builder->types);
    zt_free(builder->program->ctx, builder->expr_values);
    zt_free(builder->program->ctx, builder);
}

const zt_emit *zt_builder_emit(zt_builder *builder) { return &builder->emit; }

/* Room for the types of all values; declarations since the last time get theirs. */
static zt_status know_types(zt_builder *builder)
{
    zt_prog *program = builder->program;
    if (program->expressions.count != builder->n_exprs)
        return zt_fail(program->ctx, ZT_EBUG, "dimensions were added to the program while a builder was open");
    if (program->values.count > builder->capacity) {
        zt_type *type = zt_realloc(program->ctx, builder->types, (size_t)program->values.count * 2 * sizeof *type);
        if (!type) return ZT_ENOMEM;
        builder->types = type;
        builder->capacity = program->values.count * 2;
    }
    for (; builder->type_count < program->values.count; builder->type_count++) {
        zt_type *type = &builder->types[builder->type_count];
        *type = zt_item_at(program, builder->type_count)->value.type;
        if (zt_dims_bind(program, builder->expr_values, type->rank, type->dim)) return zt_ctx_status(program->ctx);
    }
    return ZT_OK;
}

static zt_status infer_last(zt_builder *builder)
{
    const zt_made *made = (const zt_made *)builder->program->steps.items + (builder->program->steps.count - 1);
    const zt_step *step = &made->step;
    const zt_opinfo *op_info = zt_op_info(step->op);
    int64_t bound[ZT_MAX_ATTR_BYTES / sizeof(int64_t)];
    const zt_type *input_types[ZT_MAX_IN] = {0};
    zt_type output_types[ZT_MAX_OUT];
    const void *attrs = step->attrs;
    if (made->symbolic) {
        zt_status status = zt_attrs_bind(builder->program, op_info, step->attrs, builder->expr_values, bound);
        if (status) return status;
        attrs = bound;
    }
    for (int input = 0; input < op_info->n_in; input++)
        input_types[input] = step->in[input] >= 0 ? &builder->types[step->in[input]] : NULL;
    zt_status status = zt_op_infer(builder->program->ctx, step->op, attrs, input_types, output_types);
    for (int output = 0; output < op_info->n_out && !status; output++)
        if (step->out[output] >= 0) builder->types[step->out[output]] = output_types[output];
    return status;
}

zt_status zt_builder_op(zt_builder *builder, zt_op op, const void *attrs, const int *inputs, const char *const *names,
                        int *outputs)
{
    if (!builder) return ZT_EUSAGE;
    zt_status status = zt_prog_op(builder->program, op, attrs, inputs, names, outputs);
    if (!status) status = know_types(builder);
    return status ? status : infer_last(builder);
}

zt_type zt_builder_type(zt_builder *builder, int value_id)
{
    if (!builder) return (zt_type){.rank = -1};
    if (value_id < 0 || value_id >= builder->program->values.count || know_types(builder)) return (zt_type){0};
    return builder->types[value_id];
}

/* ---- a program like another ------------------------------------------------------------------ */

static zt_status copy_dims(zt_prog *target, const zt_prog *program)
{
    for (int i = 0; i < program->expressions.count; i++) {
        zt_expr *expression = zt_prog_push(target, &target->expressions, sizeof *expression, "dimension expressions");
        if (!expression) return ZT_ENOMEM;
        *expression = ((const zt_expr *)program->expressions.items)[i];
    }
    for (int symbol_id = 0; symbol_id < program->n_symbols; symbol_id++) {
        target->symbol_names[symbol_id] =
            zt_arena_strndup(target->memory, program->symbol_names[symbol_id], strlen(program->symbol_names[symbol_id]));
        if (!target->symbol_names[symbol_id]) return ZT_ENOMEM;
        target->symbol_dims[symbol_id] = program->symbol_dims[symbol_id];
    }
    target->n_symbols = program->n_symbols;
    for (int i = 0; i < program->n_bindings; i++) {
        zt_status status = zt_prog_set_binding(target, program->bindings[i].symbol, program->bindings[i].value);
        if (status) return status;
    }
    return program->file ? zt_prog_model(target, program->file, program->id) : ZT_OK;
}

/* How declarations change: value v is left out unless wanted[v], becomes a state where state[v], and has the type types[v];
 * first[first_count] come before the others. NULL: nothing changes. */
typedef struct declared_changes {
    const bool *wanted, *state;
    const zt_type *types;
    const int *first;
    int first_count;
} declared_changes;

static zt_status copy_value(zt_prog *target, const zt_prog *program, const declared_changes *changes, int value_id, int *map)
{
    const zt_value *value = zt_prog_value(program, value_id);
    bool turned = changes->state && changes->state[value_id];
    const zt_type *type = changes->types ? &changes->types[value_id] : &value->type;
    map[value_id] = zt_prog_declare(target, turned ? ZT_VALUE_STATE : value->kind, zt_span_of(value->name), type->dtype,
                                    type->rank, type->dim, turned ? (zt_span){0} : zt_span_of(value->tensor));
    return map[value_id] < 0 ? zt_ctx_status(program->ctx) : ZT_OK;
}

static zt_status copy_values(zt_prog *target, const zt_prog *program, const declared_changes *changes, int *map)
{
    zt_status status = ZT_OK;
    for (int value_id = 0; value_id < program->values.count; value_id++) map[value_id] = -1;
    for (int i = 0; i < changes->first_count && !status; i++)
        status = copy_value(target, program, changes, changes->first[i], map);
    for (int value_id = 0; value_id < program->values.count && !status; value_id++)
        if (map[value_id] < 0 && zt_prog_value(program, value_id)->kind != ZT_VALUE_OP &&
            (!changes->wanted || changes->wanted[value_id]))
            status = copy_value(target, program, changes, value_id, map);
    return status;
}

static zt_prog *copy_declarations(const zt_prog *program, const declared_changes *changes, int *map)
{
    if (!program) return NULL;
    ZT_REQUIRE(program->ctx, map, NULL);
    zt_prog *target = zt_prog_new(program->ctx);
    if (target && copy_dims(target, program) == ZT_OK && copy_values(target, program, changes, map) == ZT_OK) return target;
    zt_prog_free(target);
    return NULL;
}

zt_prog *zt_prog_like_states(const zt_prog *program, const bool *state, int *map)
{
    return copy_declarations(program, &(declared_changes){.state = state}, map);
}

zt_prog *zt_prog_like_some(const zt_prog *program, const bool *wanted, int *map)
{
    if (!program) return NULL;
    ZT_REQUIRE(program->ctx, wanted, NULL);
    return copy_declarations(program, &(declared_changes){.wanted = wanted}, map);
}

zt_prog *zt_prog_like_types(const zt_prog *program, const zt_type *types, const int *first, int first_count, int *map)
{
    if (!program) return NULL;
    ZT_REQUIRE(program->ctx, first_count >= 0 && first_count <= program->values.count && (first || !first_count), NULL);
    for (int i = 0; i < first_count; i++)
        ZT_REQUIRE(program->ctx, zt_prog_value(program, first[i]) && zt_prog_value(program, first[i])->kind != ZT_VALUE_OP, NULL);
    return copy_declarations(program, &(declared_changes){.types = types, .first = first, .first_count = first_count}, map);
}

zt_prog *zt_prog_like(const zt_prog *program, int *map) { return copy_declarations(program, &(declared_changes){0}, map); }
