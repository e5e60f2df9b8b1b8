/* bind_inputs.c - memory for a program's inputs, outputs, states and data, filled from files by name. */
#include "lib/base/require.h"
#include "lib/run/bind_inputs.h"

#include <string.h>

/* ---- arrays by name -------------------------------------------------------------------------- */

/* The number of the step, by which ops draw: no array's. */
static bool is_counter(const zt_value *value)
{
    return value->type.rank == 0 && value->type.dtype == ZT_I64 && strcmp(value->name, "counter") == 0;
}

/* Is the value the one input that arrays are for? */
static bool is_only(const zt_prog *program, int value_id)
{
    const zt_value *value = zt_prog_value(program, value_id);
    int candidate_count = 0;
    for (int input_index = 0; input_index < zt_prog_count(program, ZT_VALUE_IN); input_index++)
        candidate_count += !is_counter(zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_IN, input_index)));
    return value->kind == ZT_VALUE_IN && !is_counter(value) && candidate_count == 1;
}

/* The array for the value, or -1. */
static int64_t array_for(const zt_prog *program, zt_checkpoint *from, int value_id)
{
    const zt_value *value = zt_prog_value(program, value_id);
    zt_entry found;
    if (!from) return -1;
    int64_t i = zt_checkpoint_find(from, value->name);
    if (i >= 0 || !is_only(program, value_id) || zt_checkpoint_count(from) != 1) return i;
    zt_checkpoint_get(from, 0, &found);
    return strcmp(found.name, "arr_0") == 0 ? 0 : -1; /* NumPy's name for an array without one */
}

static bool is_bound(const char *symbol, const zt_binding *bindings, int binding_count)
{
    for (int binding_index = 0; binding_index < binding_count; binding_index++)
        if (strcmp(bindings[binding_index].symbol, symbol) == 0) return true;
    return false;
}

/* The symbols that follow from the shape of one array. */
static void symbols_of(const zt_prog *program, const zt_type *declared, const zt_type *actual, zt_binding *bindings,
                       int *binding_count)
{
    for (int axis = 0; axis < declared->rank && declared->rank == actual->rank; axis++) {
        int symbol_id = zt_prog_symbol_of(program, declared->dim[axis]);
        const char *name = symbol_id < 0 ? NULL : zt_prog_symbol_name(program, symbol_id);
        if (name && *binding_count < ZT_MAX_SYMBOLS && !is_bound(name, bindings, *binding_count))
            bindings[(*binding_count)++] = (zt_binding){name, actual->dim[axis]};
    }
}

zt_status zt_bound_inputs_symbols(zt_ctx *ctx, const zt_prog *program, zt_checkpoint *from, zt_binding *bindings,
                                  int *binding_count)
{
    ZT_REQUIRE(ctx, program, ZT_EUSAGE);
    static const zt_value_kind kinds[] = {ZT_VALUE_IN, ZT_VALUE_STATE};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < zt_prog_count(program, kinds[k]); i++) {
            int value_id = zt_prog_nth(program, kinds[k], i);
            int64_t array_index = array_for(program, from, value_id);
            zt_entry found;
            if (array_index < 0) continue;
            zt_checkpoint_get(from, array_index, &found);
            symbols_of(program, &zt_prog_value(program, value_id)->type, &found.type, bindings, binding_count);
        }
    }
    return zt_ctx_status(ctx);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* An array's bytes into *to; *to stays NULL where there is none. */
static zt_status read_array(zt_bound_inputs *bound_inputs, zt_checkpoint *from, int value_id, void **to)
{
    char has[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT], name[96];
    const zt_type *type = &bound_inputs->bound->type[value_id];
    const char *what = zt_prog_value(bound_inputs->prog, value_id)->kind == ZT_VALUE_IN ? "input" : "state";
    int64_t i = array_for(bound_inputs->prog, from, value_id);
    zt_entry found;
    if (i < 0) return ZT_OK;
    zt_checkpoint_get(from, i, &found);
    const char *label = zt_prog_value(bound_inputs->prog, value_id)->name;
    zt_escape(name, sizeof name, label, strlen(label));
    if (found.type.dtype == ZT_DTYPE_COUNT || found.type.rank < 0)
        return zt_fail(bound_inputs->ctx, ZT_EDATA, "%s: %s '%s' has an unsupported dtype or rank", zt_checkpoint_name(from),
                       what, name);
    if (!zt_type_equal(&found.type, type))
        return zt_fail(bound_inputs->ctx, ZT_EDATA, "%s: %s '%s' has type %s, but the program expects %s",
                       zt_checkpoint_name(from), what, name, zt_type_text(&found.type, has), zt_type_text(type, wants));
    *to = zt_alloc(bound_inputs->ctx, zt_type_bytes(type) + 1);
    return *to ? zt_checkpoint_read(from, i, 0, *to, zt_type_bytes(type)) : ZT_ENOMEM;
}

static zt_status draw_array(zt_bound_inputs *bound_inputs, int value_id, uint64_t seed, void **to)
{
    *to = zt_alloc(bound_inputs->ctx, zt_type_bytes(&bound_inputs->bound->type[value_id]) + 1);
    if (!*to) return ZT_ENOMEM;
    zt_bound_inputs_draw(bound_inputs->bound, value_id, seed, *to);
    return ZT_OK;
}

static zt_status fill_inputs(zt_bound_inputs *bound_inputs, const zt_bound_inputs_opts *options)
{
    char name[96];
    for (int input_index = 0; input_index < zt_prog_count(bound_inputs->prog, ZT_VALUE_IN); input_index++) {
        int value_id = zt_prog_nth(bound_inputs->prog, ZT_VALUE_IN, input_index);
        const char *label = zt_prog_value(bound_inputs->prog, value_id)->name;
        zt_status status = read_array(bound_inputs, options->from, value_id, &bound_inputs->in[input_index]);
        if (!status && !bound_inputs->in[input_index] && options->counts &&
            is_counter(zt_prog_value(bound_inputs->prog, value_id)))
            bound_inputs->in[input_index] = zt_calloc(bound_inputs->ctx, 1, sizeof(int64_t));
        if (!status && !bound_inputs->in[input_index] && options->draw)
            status = draw_array(bound_inputs, value_id, options->seed, &bound_inputs->in[input_index]);
        if (!status && !bound_inputs->in[input_index])
            status = zt_fail(bound_inputs->ctx, ZT_EDATA, "%s: missing input '%s' of the program",
                             options->from ? zt_checkpoint_name(options->from) : "no inputs given",
                             zt_escape(name, sizeof name, label, strlen(label)));
        if (status) return status;
    }
    return ZT_OK;
}

static zt_status fill_states(zt_bound_inputs *bound_inputs, const zt_bound_inputs_opts *options)
{
    zt_status status = ZT_OK;
    for (int state_index = 0; state_index < zt_prog_count(bound_inputs->prog, ZT_VALUE_STATE) && !status; state_index++)
        status = read_array(bound_inputs, options->from, zt_prog_nth(bound_inputs->prog, ZT_VALUE_STATE, state_index),
                            &bound_inputs->state[state_index]);
    return status;
}

static zt_status make_outputs(zt_bound_inputs *bound_inputs)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(bound_inputs->prog); output_index++) {
        size_t bytes = zt_type_bytes(&bound_inputs->bound->type[zt_prog_output(bound_inputs->prog, output_index)->value]);
        bound_inputs->out[output_index] = zt_calloc(bound_inputs->ctx, bytes + 1, 1);
        if (!bound_inputs->out[output_index]) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Handles of the store below are its own times two; those of drawn data are odd. */
static zt_status find_data(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_bound_inputs *bound_inputs = user;
    zt_status status = bound_inputs->below ? bound_inputs->below->find(bound_inputs->below->user, name, type, handle) : ZT_ENOENT;
    if (status == ZT_OK) *handle *= 2;
    if (status != ZT_ENOENT) return status;
    for (int i = 0; i < bound_inputs->n_data; i++) {
        int value_id = zt_prog_nth(bound_inputs->prog, ZT_VALUE_DATA, i);
        if (!bound_inputs->data[i] || strcmp(zt_prog_value(bound_inputs->prog, value_id)->tensor, name) != 0) continue;
        *type = bound_inputs->bound->type[value_id];
        *handle = 2 * (int64_t)i + 1;
        return ZT_OK;
    }
    return ZT_ENOENT;
}

static zt_status read_data(void *user, int64_t handle, size_t offset, void *bytes, size_t byte_count)
{
    const zt_bound_inputs *bound_inputs = user;
    if (handle % 2 == 0) return bound_inputs->below->read(bound_inputs->below->user, handle / 2, offset, bytes, byte_count);
    memcpy(bytes, (const char *)bound_inputs->data[handle / 2] + offset, byte_count);
    return ZT_OK;
}

static zt_status fill_data(zt_bound_inputs *bound_inputs, const zt_bound_inputs_opts *options)
{
    for (int i = 0; i < bound_inputs->n_data && options->draw_data; i++) {
        int value_id = zt_prog_nth(bound_inputs->prog, ZT_VALUE_DATA, i);
        zt_type type;
        int64_t handle;
        zt_status status = find_data(bound_inputs, zt_prog_value(bound_inputs->prog, value_id)->tensor, &type, &handle);
        if (status == ZT_ENOENT) status = draw_array(bound_inputs, value_id, options->seed, &bound_inputs->data[i]);
        if (status) return status;
    }
    return ZT_OK;
}

/* ---- bound inputs ---------------------------------------------------------------------------- */

static void **alloc_pointers(zt_bound_inputs *bound_inputs, int count)
{
    return zt_calloc(bound_inputs->ctx, (size_t)count + 1, sizeof(void *));
}

static zt_status fill_bound_inputs(zt_bound_inputs *bound_inputs, const zt_bound_inputs_opts *options)
{
    const zt_prog *program = bound_inputs->prog;
    bound_inputs->below = options->store;
    bound_inputs->store = (zt_store){.user = bound_inputs, .find = find_data, .read = read_data};
    bound_inputs->bound = zt_prog_bind(program, options->bind, options->n_bind);
    bound_inputs->in = alloc_pointers(bound_inputs, zt_prog_count(program, ZT_VALUE_IN));
    bound_inputs->out = alloc_pointers(bound_inputs, zt_prog_n_outputs(program));
    bound_inputs->state = alloc_pointers(bound_inputs, zt_prog_count(program, ZT_VALUE_STATE));
    bound_inputs->data = alloc_pointers(bound_inputs, zt_prog_count(program, ZT_VALUE_DATA));
    if (!bound_inputs->bound || !bound_inputs->in || !bound_inputs->out || !bound_inputs->state || !bound_inputs->data)
        return zt_ctx_status(bound_inputs->ctx);
    bound_inputs->n_data = zt_prog_count(program, ZT_VALUE_DATA);
    zt_status status = fill_inputs(bound_inputs, options);
    if (!status) status = fill_states(bound_inputs, options);
    if (!status) status = fill_data(bound_inputs, options);
    return status ? status : make_outputs(bound_inputs);
}

zt_bound_inputs *zt_bound_inputs_new(zt_ctx *ctx, const zt_prog *program, const zt_bound_inputs_opts *options)
{
    ZT_REQUIRE(ctx, program && options, NULL);
    zt_bound_inputs *bound_inputs = zt_calloc(ctx, 1, sizeof *bound_inputs);
    if (!bound_inputs) return NULL;
    bound_inputs->ctx = ctx;
    bound_inputs->prog = program;
    if (fill_bound_inputs(bound_inputs, options) == ZT_OK) return bound_inputs;
    zt_bound_inputs_free(bound_inputs);
    return NULL;
}

static void free_all(zt_ctx *ctx, void **arrays, int count)
{
    for (int i = 0; arrays && i < count; i++) zt_free(ctx, arrays[i]);
    zt_free(ctx, arrays);
}

void zt_bound_inputs_free(zt_bound_inputs *bound_inputs)
{
    if (!bound_inputs) return;
    free_all(bound_inputs->ctx, bound_inputs->in, zt_prog_count(bound_inputs->prog, ZT_VALUE_IN));
    free_all(bound_inputs->ctx, bound_inputs->out, zt_prog_n_outputs(bound_inputs->prog));
    free_all(bound_inputs->ctx, bound_inputs->state, zt_prog_count(bound_inputs->prog, ZT_VALUE_STATE));
    free_all(bound_inputs->ctx, bound_inputs->data, zt_prog_count(bound_inputs->prog, ZT_VALUE_DATA));
    zt_bound_free(bound_inputs->bound);
    zt_free(bound_inputs->ctx, bound_inputs);
}

zt_status zt_bound_inputs_states(const zt_bound_inputs *bound_inputs, zt_session *session)
{
    if (!bound_inputs) return ZT_EUSAGE;
    zt_status status = ZT_OK;
    for (int state_index = 0; state_index < zt_prog_count(bound_inputs->prog, ZT_VALUE_STATE) && !status; state_index++) {
        zt_type type = zt_session_state_type(session, state_index);
        void *zero = bound_inputs->state[state_index] ? NULL : zt_calloc(bound_inputs->ctx, zt_type_bytes(&type) + 1, 1);
        if (!bound_inputs->state[state_index] && !zero) return ZT_ENOMEM;
        status = zt_session_state_set(session, state_index,
                                      bound_inputs->state[state_index] ? bound_inputs->state[state_index] : zero);
        zt_free(bound_inputs->ctx, zero);
    }
    return status;
}

zt_status zt_prog_check_id(zt_ctx *ctx, const zt_prog *program, const char *name, const char *id)
{
    ZT_REQUIRE(ctx, program, ZT_EUSAGE);
    const char *wanted = zt_prog_model_id(program);
    char file[128];
    if (!wanted || strcmp(wanted, id) == 0) return ZT_OK;
    const char *named = zt_prog_model_file(program);
    return zt_fail(ctx, ZT_EDATA, "%s: the model's id is %s, but the program was made for '%s' with id %s", name, id,
                   zt_escape(file, sizeof file, named, strlen(named)), wanted);
}

zt_status zt_prog_check_model(zt_ctx *ctx, const zt_prog *program, const zt_gguf *model)
{
    ZT_REQUIRE(ctx, program && model, ZT_EUSAGE);
    return zt_prog_check_id(ctx, program, zt_gguf_name(model), zt_gguf_id(model));
}
