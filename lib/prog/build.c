/* build.c - owns how a program grows: declarations, ops, outputs, kept states.
 *
 * Memory is followed through views and donations. A value of them has the root of its input 0; a
 * donation makes the root's memory younger, and what is older than its root cannot be used. What
 * is kept or an output is pinned: a later donation would change it after the fact.
 */
#include "lib/base/require.h"
#include "lib/prog/list.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_name[] = {"in", "state", "data", "op"};

/* ---- values ---------------------------------------------------------------------------------- */

/* A failed call may leave names in the maps whose owners were taken back, so the owner decides. */
int zt_prog_lookup(const zt_prog *program, zt_span name)
{
    int64_t found;
    bool there = name.text && zt_map_get(program->names, name.text, name.length, &found) && found < program->values.count &&
                 zt_span_is(name, zt_item_at(program, (int)found)->value.name);
    return there ? (int)found : -1;
}

static bool output_taken(const zt_prog *program, zt_span name)
{
    int64_t found;
    return zt_map_get(program->out_names, name.text, name.length, &found) && found < program->outputs.count &&
           zt_span_is(name, zt_prog_output(program, (int)found)->name);
}

/* "v7", or the next number whose name nobody took. */
static zt_span made_up(const zt_prog *program, char buffer[24])
{
    int k = program->values.count;
    do {
        snprintf(buffer, 24, "v%d", k++);
    } while (zt_prog_lookup(program, zt_span_of(buffer)) >= 0);
    return zt_span_of(buffer);
}

static zt_status put_name(zt_prog *program, zt_map *names, zt_span name, int number, const char **copy)
{
    *copy = zt_arena_strndup(program->memory, name.text, name.length);
    return *copy ? zt_map_put(names, *copy, name.length, number) : ZT_ENOMEM;
}

/* A new value, not used by anyone yet; its number, or -1 and nothing changed. */
static int add_value(zt_prog *program, zt_value_kind kind, zt_span name)
{
    char buffer[24];
    int value_id = program->values.count, kind_count = program->kinds[kind].count;
    if (!name.text) name = made_up(program, buffer);
    if (zt_name_check(program, "value", name)) return -1;
    if (zt_prog_lookup(program, name) >= 0) {
        zt_prog_fail(program, ZT_EUSAGE, "value '%.*s' is already defined", (int)name.length, name.text);
        return -1;
    }
    zt_item *item = zt_prog_push(program, &program->values, sizeof *item, "values");
    if (!item) return -1;
    item->value.kind = kind;
    item->value.index = kind_count;
    item->value.keep = item->holder = item->pinned = -1;
    item->root = value_id;
    int *number = zt_prog_push(program, &program->kinds[kind], sizeof *number, "values");
    if (number && !put_name(program, program->names, name, value_id, &item->value.name)) {
        *number = value_id;
        return value_id;
    }
    program->values.count = value_id;
    program->kinds[kind].count = kind_count;
    return -1;
}

static zt_status check_type(const zt_prog *program, zt_span name, const zt_type *type)
{
    bool numbers = true;
    for (int axis = 0; axis < type->rank; axis++) {
        if (!zt_dim_known(program, type->dim[axis]))
            return zt_prog_fail(program, ZT_EUSAGE, "value '%.*s': dimension %d belongs to another program", (int)name.length,
                                name.text, axis);
        numbers = numbers && type->dim[axis] >= 0;
    }
    if (!numbers || zt_type_check(NULL, type, NULL)) return ZT_OK;
    zt_ctx *own = zt_ctx_new();
    if (!own) return zt_prog_fail(program, ZT_ENOMEM, "out of memory (error message)");
    zt_type_check(own, type, NULL);
    zt_status status = zt_prog_fail(program, ZT_ESHAPE, "value '%.*s': %s", (int)name.length, name.text, zt_ctx_error(own));
    zt_ctx_free(own);
    return status;
}

int zt_prog_declare(zt_prog *program, zt_value_kind kind, zt_span name, zt_dtype dtype, int rank, const int64_t *dims,
                    zt_span tensor)
{
    char buffer[24], quote[ZT_QUOTE];
    if (!name.text) name = made_up(program, buffer);
    if (rank < 0 || rank > ZT_MAX_RANK || !zt_dtype_get(dtype)) {
        zt_prog_fail(program, ZT_EUSAGE, "value '%s': invalid dtype %d or rank %d", zt_quote(quote, name), (int)dtype, rank);
        return -1;
    }
    if (kind == ZT_VALUE_DATA && !tensor.text) {
        zt_prog_fail(program, ZT_EUSAGE, "value '%s': data without a tensor name", zt_quote(quote, name));
        return -1;
    }
    zt_type type = zt_type_make(dtype, rank, dims);
    const char *copy = NULL;
    if (zt_name_check(program, "value", name) || check_type(program, name, &type)) return -1;
    if (tensor.text && !(copy = zt_arena_strndup(program->memory, tensor.text, tensor.length))) return -1;
    int value_id = add_value(program, kind, name);
    if (value_id < 0) return -1;
    zt_item_at(program, value_id)->value.type = type;
    zt_item_at(program, value_id)->value.tensor = copy;
    return value_id;
}

int zt_prog_in(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dims)
{
    if (!program) return -1;
    ZT_REQUIRE(program->ctx, dims || rank <= 0, -1);
    return zt_prog_declare(program, ZT_VALUE_IN, zt_span_of(name), dtype, rank, dims, (zt_span){0});
}

int zt_prog_state(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dims)
{
    if (!program) return -1;
    ZT_REQUIRE(program->ctx, dims || rank <= 0, -1);
    return zt_prog_declare(program, ZT_VALUE_STATE, zt_span_of(name), dtype, rank, dims, (zt_span){0});
}

int zt_prog_data(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dims, const char *tensor)
{
    if (!program) return -1;
    ZT_REQUIRE(program->ctx, dims || rank <= 0, -1);
    return zt_prog_declare(program, ZT_VALUE_DATA, zt_span_of(name), dtype, rank, dims, zt_span_of(tensor));
}

/* ---- uses ------------------------------------------------------------------------------------ */

static zt_item *root_of(const zt_prog *program, int value_id) { return zt_item_at(program, zt_item_at(program, value_id)->root); }

/* Is it a value, and its memory still what it was? `who` wants it: "op rope", "out 'y'". */
static zt_status check_use(const zt_prog *program, const char *who, int value_id)
{
    if (value_id < 0 || value_id >= program->values.count)
        return zt_prog_fail(program, ZT_EUSAGE,
                            value_id == -1 ? "%s: input value is invalid (%d): an earlier step failed"
                                           : "%s: value %d is not in the program",
                            who, value_id);
    const zt_item *item = zt_item_at(program, value_id), *root = root_of(program, value_id);
    if (item->age == root->donations) return ZT_OK;
    return zt_prog_fail(program, ZT_EUSAGE, "%s: value '%s' was donated: its memory now holds '%s'", who, item->value.name,
                        zt_item_at(program, root->holder)->value.name);
}

static zt_status check_inputs(const zt_prog *program, const zt_opinfo *op_info, const int *inputs)
{
    char who[64];
    snprintf(who, sizeof who, "op %s", op_info->name);
    for (int input = 0; input < op_info->n_in; input++) {
        if (inputs[input] == ZT_NONE && input >= op_info->def->n_required) continue;
        if (inputs[input] == ZT_NONE)
            return zt_prog_fail(program, ZT_EUSAGE, "%s: missing input '%s'", who, op_info->in_name[input]);
        zt_status status = check_use(program, who, inputs[input]);
        if (status) return status;
    }
    return ZT_OK;
}

/* May the donated input be used up: not an input or data of the program, not read beside, not pinned. */
static zt_status check_donation(const zt_prog *program, const zt_opinfo *op_info, const int *inputs, int donated_input)
{
    const zt_item *item = zt_item_at(program, inputs[donated_input]), *root = root_of(program, inputs[donated_input]);
    const char *name = item->value.name;
    if (root->value.kind == ZT_VALUE_IN || root->value.kind == ZT_VALUE_DATA)
        return zt_prog_fail(program, ZT_EUSAGE,
                            "op %s overwrites '%s', which is %s: only a state or a computed value can be donated", op_info->name,
                            name, kind_name[root->value.kind]);
    if (root->pinned >= 0)
        return zt_prog_fail(program, ZT_EUSAGE, "op %s overwrites '%s', but '%s' is kept or an output", op_info->name, name,
                            zt_item_at(program, root->pinned)->value.name);
    for (int input = 0; input < op_info->n_in; input++)
        if (input != donated_input && inputs[input] >= 0 && zt_item_at(program, inputs[input])->root == item->root)
            return zt_prog_fail(program, ZT_EUSAGE, "op %s overwrites '%s', but also reads it as '%s'", op_info->name, name,
                                op_info->in_name[input]);
    return ZT_OK;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* In views and donations an output has the memory of the input of its number. */
static void share_memory(zt_prog *program, const zt_step *step)
{
    for (int k = 0; k < zt_op_shares(step->op); k++) {
        zt_item *out = zt_item_at(program, step->out[k]), *root = root_of(program, step->in[k]);
        if (k < zt_op_info(step->op)->def->donates) {
            root->donations++;
            root->holder = step->out[k];
        }
        out->root = zt_item_at(program, step->in[k])->root;
        out->age = root->donations;
    }
}

static zt_status add_outputs(zt_prog *program, const zt_opinfo *op_info, const zt_span *names, zt_step *step)
{
    for (int output = 0; output < ZT_MAX_OUT; output++) {
        step->out[output] = ZT_NONE;
        if (output >= op_info->n_out || zt_span_is(names[output], "_")) continue;
        step->out[output] = add_value(program, ZT_VALUE_OP, names[output]);
        if (step->out[output] < 0) return zt_ctx_status(program->ctx);
        zt_item_at(program, step->out[output])->value.index = program->steps.count - 1;
    }
    return ZT_OK;
}

static zt_status add_step(zt_prog *program, const zt_opinfo *op_info, zt_made made, const zt_span *names)
{
    zt_made *step = zt_prog_push(program, &program->steps, sizeof *step, "ops");
    if (!step) return ZT_ENOMEM;
    int n_values = program->values.count, n_ops = program->kinds[ZT_VALUE_OP].count;
    zt_status status = add_outputs(program, op_info, names, &made.step);
    if (status) {
        program->values.count = n_values;
        program->kinds[ZT_VALUE_OP].count = n_ops;
        program->steps.count--;
        return status;
    }
    *step = made;
    if (made.symbolic) program->symbolic_bytes += (op_info->attr_bytes + 15) & ~(size_t)15;
    share_memory(program, &step->step);
    return ZT_OK;
}

zt_status zt_prog_add_op(zt_prog *program, zt_op op, const void *attrs, const int *inputs, const zt_span *names, int *outputs)
{
    const zt_opinfo *op_info = zt_op_info(op);
    if (!op_info) return zt_prog_fail(program, ZT_EUSAGE, "invalid op number %d", (int)op);
    zt_status status = check_inputs(program, op_info, inputs);
    for (int donated = 0; donated < op_info->def->donates && !status; donated++)
        status = check_donation(program, op_info, inputs, donated);
    if (status) return status;
    if (zt_span_is(names[0], "_"))
        return zt_prog_fail(program, ZT_EUSAGE, "op %s: the first output must have a name", op_info->name);
    for (int donated = 1; donated < op_info->def->donates; donated++)
        if (zt_span_is(names[donated], "_"))
            return zt_prog_fail(program, ZT_EUSAGE, "op %s: output '%s' must have a name: it uses the memory of '%s'",
                                op_info->name, op_info->out_name[donated], op_info->in_name[donated]);
    zt_made made = {.step.op = op, .line = program->line};
    made.step.attrs = zt_attrs_keep(program, op_info, attrs, &made.symbolic);
    if (!made.step.attrs) return zt_ctx_status(program->ctx);
    for (int input = 0; input < ZT_MAX_IN; input++) made.step.in[input] = input < op_info->n_in ? inputs[input] : ZT_NONE;
    status = add_step(program, op_info, made, names);
    if (status || !outputs) return status;
    memcpy(outputs, zt_prog_step(program, program->steps.count - 1)->out, (size_t)op_info->n_out * sizeof *outputs);
    return ZT_OK;
}

zt_status zt_prog_op(zt_prog *program, zt_op op, const void *attrs, const int *inputs, const char *const *names, int *outputs)
{
    if (!program) return ZT_EUSAGE;
    zt_span span[ZT_MAX_OUT] = {{0}};
    const zt_opinfo *op_info = zt_op_info(op);
    ZT_REQUIRE(program->ctx, inputs || !op_info || !op_info->n_in, ZT_EUSAGE);
    for (int output = 0; names && op_info && output < op_info->n_out; output++) span[output] = zt_span_of(names[output]);
    return zt_prog_add_op(program, op, attrs, inputs, span, outputs);
}

/* ---- the end of a step ----------------------------------------------------------------------- */

zt_status zt_prog_keep(zt_prog *program, int state, int value)
{
    if (!program) return ZT_EUSAGE;
    char who[ZT_MAX_NAME + 16] = "keep";
    if (state < 0 || state >= program->values.count) return check_use(program, who, state);
    zt_value *state_value = &zt_item_at(program, state)->value;
    snprintf(who, sizeof who, "keep '%s'", state_value->name);
    if (state_value->kind != ZT_VALUE_STATE) return zt_prog_fail(program, ZT_EUSAGE, "%s: not a state", who);
    zt_status status = check_use(program, who, value);
    if (status) return status;
    if (state_value->keep >= 0)
        return zt_prog_fail(program, ZT_EUSAGE, "%s: the state already keeps '%s'", who,
                            zt_item_at(program, state_value->keep)->value.name);
    if (root_of(program, value)->value.kind == ZT_VALUE_DATA)
        return zt_prog_fail(program, ZT_EUSAGE, "%s: '%s' is data of the model and cannot be kept", who,
                            zt_item_at(program, value)->value.name);
    state_value->keep = value;
    root_of(program, value)->pinned = value;
    return ZT_OK;
}

zt_status zt_prog_add_out(zt_prog *program, zt_span name, int value)
{
    char who[ZT_MAX_NAME + 16];
    const char *copy;
    zt_status status = zt_name_check(program, "output", name);
    if (status) return status;
    snprintf(who, sizeof who, "out '%.*s'", (int)name.length, name.text);
    status = check_use(program, who, value);
    if (status) return status;
    if (output_taken(program, name)) return zt_prog_fail(program, ZT_EUSAGE, "%s is already defined", who);
    status = put_name(program, program->out_names, name, program->outputs.count, &copy);
    zt_output *output = status ? NULL : zt_prog_push(program, &program->outputs, sizeof *output, "outputs");
    if (!output) return status ? status : zt_ctx_status(program->ctx);
    *output = (zt_output){copy, value};
    root_of(program, value)->pinned = value;
    return ZT_OK;
}

zt_status zt_prog_out(zt_prog *program, const char *name, int value)
{
    if (!program) return ZT_EUSAGE;
    if (program->dims_failed)
        return zt_prog_fail(program, program->dims_failed, "%s: a dimension is invalid: an earlier call failed",
                            name ? name : "");
    return zt_prog_add_out(program, zt_span_of(name), value);
}

static bool is_hex(zt_span id)
{
    size_t k = 0;
    while (k < id.length && strchr("0123456789abcdefABCDEF", id.text[k])) k++;
    return k == id.length && k > 0 && k <= 128;
}

zt_status zt_prog_set_model(zt_prog *program, zt_span file, zt_span id)
{
    char buffer[ZT_QUOTE];
    if (program->file) return zt_prog_fail(program, ZT_EUSAGE, "the model is already named: '%s'", program->file);
    if (id.text && !is_hex(id)) return zt_prog_fail(program, ZT_EUSAGE, "id '%s' is not hexadecimal", zt_quote(buffer, id));
    const char *id_copy = id.text ? zt_arena_strndup(program->memory, id.text, id.length) : NULL;
    const char *copy = !id.text || id_copy ? zt_arena_strndup(program->memory, file.text, file.length) : NULL;
    if (!copy) return ZT_ENOMEM;
    program->file = copy;
    program->id = id_copy;
    return ZT_OK;
}

zt_status zt_prog_model_path(zt_prog *program, const char *file)
{
    if (!program) return ZT_EUSAGE;
    if (!program->file) return zt_prog_fail(program, ZT_EUSAGE, "the program names no model");
    if (!file) {
        program->file = program->id = NULL;
        return ZT_OK;
    }
    const char *copy = zt_arena_strndup(program->memory, file, strlen(file));
    if (!copy) return ZT_ENOMEM;
    program->file = copy;
    return ZT_OK;
}

zt_status zt_prog_model(zt_prog *program, const char *file, const char *id)
{
    return program ? zt_prog_set_model(program, zt_span_of(file), zt_span_of(id)) : ZT_EUSAGE;
}
