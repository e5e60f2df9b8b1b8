/* build.c - owns how a program grows: declarations, ops, outputs, kept states.
 *
 * Memory is followed through views and donations. A value of them has the root of its input 0; a
 * donation makes the root's memory younger, and what is older than its root cannot be used. What
 * is kept or an output is pinned: a later donation would change it after the fact.
 */
#include "lib/prog/list.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_name[] = {"in", "state", "data", "op"};

/* ---- values ---------------------------------------------------------------------------------- */

/* A failed call may leave names in the maps whose owners were taken back, so the owner decides. */
int zt_prog_lookup(const zt_prog *program, zt_span name)
{
    int64_t v;
    bool there = name.s && zt_map_get(program->names, name.s, name.n, &v) && v < program->values.n &&
                 zt_span_is(name, zt_item_at(program, (int)v)->pub.name);
    return there ? (int)v : -1;
}

static bool output_taken(const zt_prog *program, zt_span name)
{
    int64_t o;
    return zt_map_get(program->out_names, name.s, name.n, &o) && o < program->outputs.n &&
           zt_span_is(name, zt_prog_output(program, (int)o)->name);
}

/* "v7", or the next number whose name nobody took. */
static zt_span made_up(const zt_prog *program, char buf[24])
{
    int k = program->values.n;
    do {
        snprintf(buf, 24, "v%d", k++);
    } while (zt_prog_lookup(program, zt_span_of(buf)) >= 0);
    return zt_span_of(buf);
}

static zt_status put_name(zt_prog *program, zt_map *names, zt_span name, int number, const char **copy)
{
    *copy = zt_arena_strndup(program->memory, name.s, name.n);
    return *copy ? zt_map_put(names, *copy, name.n, number) : ZT_ENOMEM;
}

/* A new value, not used by anyone yet; its number, or -1 and nothing changed. */
static int add_value(zt_prog *program, zt_value_kind kind, zt_span name)
{
    char buf[24];
    int v = program->values.n, n_kind = program->kinds[kind].n;
    if (!name.s) name = made_up(program, buf);
    if (zt_name_check(program, "value", name)) return -1;
    if (zt_prog_lookup(program, name) >= 0) {
        zt_prog_fail(program, ZT_EUSAGE, "value '%.*s' is there already", (int)name.n, name.s);
        return -1;
    }
    zt_item *item = zt_prog_push(program, &program->values, sizeof *item, "values");
    if (!item) return -1;
    item->pub.kind = kind;
    item->pub.index = n_kind;
    item->pub.keep = item->holder = item->pinned = -1;
    item->root = v;
    int *number = zt_prog_push(program, &program->kinds[kind], sizeof *number, "values");
    if (number && !put_name(program, program->names, name, v, &item->pub.name)) {
        *number = v;
        return v;
    }
    program->values.n = v;
    program->kinds[kind].n = n_kind;
    return -1;
}

static zt_status check_type(const zt_prog *program, zt_span name, const zt_type *type)
{
    bool numbers = true;
    for (int i = 0; i < type->rank; i++) {
        if (!zt_dim_known(program, type->dim[i]))
            return zt_prog_fail(program, ZT_EUSAGE, "value '%.*s': dimension %d is not this program's",
                                (int)name.n, name.s, i);
        numbers = numbers && type->dim[i] >= 0;
    }
    if (!numbers || zt_type_check(NULL, type, NULL)) return ZT_OK;
    zt_ctx *own = zt_ctx_new();
    if (!own) return zt_prog_fail(program, ZT_ENOMEM, "no memory for a message");
    zt_type_check(own, type, NULL);
    zt_status status = zt_prog_fail(program, ZT_ESHAPE, "value '%.*s': %s", (int)name.n, name.s,
                               zt_ctx_error(own));
    zt_ctx_free(own);
    return status;
}

int zt_prog_declare(zt_prog *program, zt_value_kind kind, zt_span name, zt_dtype dtype, int rank,
                    const int64_t *dim, zt_span tensor)
{
    char buf[24], quote[ZT_QUOTE];
    if (!name.s) name = made_up(program, buf);
    if (rank < 0 || rank > ZT_MAX_RANK || !zt_dtype_get(dtype)) {
        zt_prog_fail(program, ZT_EUSAGE, "value '%s': dtype %d of rank %d is no type",
                     zt_quote(quote, name), (int)dtype, rank);
        return -1;
    }
    if (kind == ZT_VALUE_DATA && !tensor.s) {
        zt_prog_fail(program, ZT_EUSAGE, "value '%s': data of no tensor", zt_quote(quote, name));
        return -1;
    }
    zt_type type = zt_type_make(dtype, rank, dim);
    const char *copy = NULL;
    if (zt_name_check(program, "value", name) || check_type(program, name, &type)) return -1;
    if (tensor.s && !(copy = zt_arena_strndup(program->memory, tensor.s, tensor.n))) return -1;
    int v = add_value(program, kind, name);
    if (v < 0) return -1;
    zt_item_at(program, v)->pub.type = type;
    zt_item_at(program, v)->pub.tensor = copy;
    return v;
}

int zt_prog_in(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dim)
{
    return zt_prog_declare(program, ZT_VALUE_IN, zt_span_of(name), dtype, rank, dim, (zt_span){0});
}

int zt_prog_state(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dim)
{
    return zt_prog_declare(program, ZT_VALUE_STATE, zt_span_of(name), dtype, rank, dim, (zt_span){0});
}

int zt_prog_data(zt_prog *program, const char *name, zt_dtype dtype, int rank, const int64_t *dim,
                 const char *tensor)
{
    return zt_prog_declare(program, ZT_VALUE_DATA, zt_span_of(name), dtype, rank, dim, zt_span_of(tensor));
}

/* ---- uses ------------------------------------------------------------------------------------ */

static zt_item *root_of(const zt_prog *program, int v)
{
    return zt_item_at(program, zt_item_at(program, v)->root);
}

/* Is v a value, and its memory still what it was? `who` wants it: "op rope", "out 'y'". */
static zt_status check_use(const zt_prog *program, const char *who, int v)
{
    if (v < 0 || v >= program->values.n)
        return zt_prog_fail(program, ZT_EUSAGE, v == -1 ? "%s is given a value that failed (%d)"
                                                  : "%s: value %d is not in the program", who, v);
    const zt_item *item = zt_item_at(program, v), *root = root_of(program, v);
    if (item->age == root->donations) return ZT_OK;
    return zt_prog_fail(program, ZT_EUSAGE, "%s: value '%s' is used up, its memory is '%s' now", who,
                        item->pub.name, zt_item_at(program, root->holder)->pub.name);
}

static zt_status check_inputs(const zt_prog *program, const zt_opinfo *info, const int *inputs)
{
    char who[64];
    snprintf(who, sizeof who, "op %s", info->name);
    for (int k = 0; k < info->n_in; k++) {
        if (inputs[k] == ZT_NONE && k >= info->def->n_required) continue;
        if (inputs[k] == ZT_NONE)
            return zt_prog_fail(program, ZT_EUSAGE, "%s: input '%s' is missing", who, info->in_name[k]);
        zt_status status = check_use(program, who, inputs[k]);
        if (status) return status;
    }
    return ZT_OK;
}

/* May input d be used up: not an input or data of the program, not read beside, not pinned. */
static zt_status check_donation(const zt_prog *program, const zt_opinfo *info, const int *inputs, int d)
{
    const zt_item *item = zt_item_at(program, inputs[d]), *root = root_of(program, inputs[d]);
    const char *name = item->pub.name;
    if (root->pub.kind == ZT_VALUE_IN || root->pub.kind == ZT_VALUE_DATA)
        return zt_prog_fail(program, ZT_EUSAGE, "op %s uses up '%s', which is %s and no state",
                            info->name, name, kind_name[root->pub.kind]);
    if (root->pinned >= 0)
        return zt_prog_fail(program, ZT_EUSAGE, "op %s uses up '%s', but '%s' is kept or an output",
                            info->name, name, zt_item_at(program, root->pinned)->pub.name);
    for (int k = 0; k < info->n_in; k++)
        if (k != d && inputs[k] >= 0 && zt_item_at(program, inputs[k])->root == item->root)
            return zt_prog_fail(program, ZT_EUSAGE, "op %s uses up '%s' and reads it as '%s' too",
                                info->name, name, info->in_name[k]);
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

static zt_status add_outputs(zt_prog *program, const zt_opinfo *info, const zt_span *names, zt_step *step)
{
    for (int k = 0; k < ZT_MAX_OUT; k++) {
        step->out[k] = ZT_NONE;
        if (k >= info->n_out || zt_span_is(names[k], "_")) continue;
        step->out[k] = add_value(program, ZT_VALUE_OP, names[k]);
        if (step->out[k] < 0) return zt_ctx_status(program->ctx);
        zt_item_at(program, step->out[k])->pub.index = program->steps.n - 1;
    }
    return ZT_OK;
}

static zt_status add_step(zt_prog *program, const zt_opinfo *info, zt_made made, const zt_span *names)
{
    zt_made *to = zt_prog_push(program, &program->steps, sizeof *to, "ops");
    if (!to) return ZT_ENOMEM;
    int n_values = program->values.n, n_ops = program->kinds[ZT_VALUE_OP].n;
    zt_status status = add_outputs(program, info, names, &made.pub);
    if (status) {
        program->values.n = n_values;
        program->kinds[ZT_VALUE_OP].n = n_ops;
        program->steps.n--;
        return status;
    }
    *to = made;
    if (made.symbolic) program->symbolic_bytes += (info->attr_bytes + 15) & ~(size_t)15;
    share_memory(program, &to->pub);
    return ZT_OK;
}

zt_status zt_prog_add_op(zt_prog *program, zt_op op, const void *attrs, const int *inputs,
                         const zt_span *names, int *outputs)
{
    const zt_opinfo *info = zt_op_info(op);
    if (!info) return zt_prog_fail(program, ZT_EUSAGE, "op number %d is not known", (int)op);
    zt_status status = check_inputs(program, info, inputs);
    for (int k = 0; k < info->def->donates && !status; k++) status = check_donation(program, info, inputs, k);
    if (status) return status;
    if (zt_span_is(names[0], "_"))
        return zt_prog_fail(program, ZT_EUSAGE, "op %s: its first output needs a name", info->name);
    for (int k = 1; k < info->def->donates; k++)
        if (zt_span_is(names[k], "_"))
            return zt_prog_fail(program, ZT_EUSAGE, "op %s: output '%s', which has the memory of '%s', "
                                "needs a name", info->name, info->out_name[k], info->in_name[k]);
    zt_made made = {.pub.op = op, .line = program->line};
    made.pub.attrs = zt_attrs_keep(program, info, attrs, &made.symbolic);
    if (!made.pub.attrs) return zt_ctx_status(program->ctx);
    for (int k = 0; k < ZT_MAX_IN; k++) made.pub.in[k] = k < info->n_in ? inputs[k] : ZT_NONE;
    status = add_step(program, info, made, names);
    if (status || !outputs) return status;
    memcpy(outputs, zt_prog_step(program, program->steps.n - 1)->out, (size_t)info->n_out * sizeof *outputs);
    return ZT_OK;
}

zt_status zt_prog_op(zt_prog *program, zt_op op, const void *attrs, const int *inputs,
                     const char *const *names, int *outputs)
{
    zt_span span[ZT_MAX_OUT] = {{0}};
    const zt_opinfo *info = zt_op_info(op);
    for (int k = 0; names && info && k < info->n_out; k++) span[k] = zt_span_of(names[k]);
    return zt_prog_add_op(program, op, attrs, inputs, span, outputs);
}

/* ---- the end of a step ----------------------------------------------------------------------- */

zt_status zt_prog_keep(zt_prog *program, int state, int value)
{
    char who[ZT_MAX_NAME + 16] = "keep";
    if (state < 0 || state >= program->values.n) return check_use(program, who, state);
    zt_value *val = &zt_item_at(program, state)->pub;
    snprintf(who, sizeof who, "keep '%s'", val->name);
    if (val->kind != ZT_VALUE_STATE) return zt_prog_fail(program, ZT_EUSAGE, "%s: it is no state", who);
    zt_status status = check_use(program, who, value);
    if (status) return status;
    if (val->keep >= 0)
        return zt_prog_fail(program, ZT_EUSAGE, "%s: it keeps '%s' already", who,
                            zt_item_at(program, val->keep)->pub.name);
    if (root_of(program, value)->pub.kind == ZT_VALUE_DATA)
        return zt_prog_fail(program, ZT_EUSAGE, "%s: '%s' is data of the model", who,
                            zt_item_at(program, value)->pub.name);
    val->keep = value;
    root_of(program, value)->pinned = value;
    return ZT_OK;
}

zt_status zt_prog_add_out(zt_prog *program, zt_span name, int value)
{
    char who[ZT_MAX_NAME + 16];
    const char *copy;
    zt_status status = zt_name_check(program, "output", name);
    if (status) return status;
    snprintf(who, sizeof who, "out '%.*s'", (int)name.n, name.s);
    status = check_use(program, who, value);
    if (status) return status;
    if (output_taken(program, name)) return zt_prog_fail(program, ZT_EUSAGE, "%s is there already", who);
    status = put_name(program, program->out_names, name, program->outputs.n, &copy);
    zt_output *to = status ? NULL : zt_prog_push(program, &program->outputs, sizeof *to, "outputs");
    if (!to) return status ? status : zt_ctx_status(program->ctx);
    *to = (zt_output){copy, value};
    root_of(program, value)->pinned = value;
    return ZT_OK;
}

zt_status zt_prog_out(zt_prog *program, const char *name, int value)
{
    return zt_prog_add_out(program, zt_span_of(name), value);
}

static bool is_hex(zt_span id)
{
    size_t k = 0;
    while (k < id.n && strchr("0123456789abcdefABCDEF", id.s[k])) k++;
    return k == id.n && k > 0 && k <= 128;
}

zt_status zt_prog_set_model(zt_prog *program, zt_span file, zt_span id)
{
    char buf[ZT_QUOTE];
    if (program->file) return zt_prog_fail(program, ZT_EUSAGE, "the model is named already: '%s'", program->file);
    if (id.s && !is_hex(id))
        return zt_prog_fail(program, ZT_EUSAGE, "id '%s' is not hexadecimal", zt_quote(buf, id));
    const char *id_copy = id.s ? zt_arena_strndup(program->memory, id.s, id.n) : NULL;
    const char *copy = !id.s || id_copy ? zt_arena_strndup(program->memory, file.s, file.n) : NULL;
    if (!copy) return ZT_ENOMEM;
    program->file = copy;
    program->id = id_copy;
    return ZT_OK;
}

zt_status zt_prog_model_path(zt_prog *program, const char *file)
{
    if (!program->file) return zt_prog_fail(program, ZT_EUSAGE, "the program names no model");
    const char *copy = zt_arena_strndup(program->memory, file, strlen(file));
    if (!copy) return ZT_ENOMEM;
    program->file = copy;
    return ZT_OK;
}

zt_status zt_prog_model(zt_prog *program, const char *file, const char *id)
{
    return zt_prog_set_model(program, zt_span_of(file), zt_span_of(id));
}
