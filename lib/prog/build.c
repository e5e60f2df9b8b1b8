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
int zt_prog_lookup(const zt_prog *p, zt_span name)
{
    int64_t v;
    bool there = name.s && zt_map_get(p->names, name.s, name.n, &v) && v < p->values.n &&
                 zt_span_is(name, zt_item_at(p, (int)v)->pub.name);
    return there ? (int)v : -1;
}

static bool output_taken(const zt_prog *p, zt_span name)
{
    int64_t o;
    return zt_map_get(p->out_names, name.s, name.n, &o) && o < p->outputs.n &&
           zt_span_is(name, zt_prog_output(p, (int)o)->name);
}

/* "v7", or the next number whose name nobody took. */
static zt_span made_up(const zt_prog *p, char buf[24])
{
    int k = p->values.n;
    do {
        snprintf(buf, 24, "v%d", k++);
    } while (zt_prog_lookup(p, zt_span_of(buf)) >= 0);
    return zt_span_of(buf);
}

static zt_status put_name(zt_prog *p, zt_map *names, zt_span name, int number, const char **copy)
{
    *copy = zt_arena_strndup(p->memory, name.s, name.n);
    return *copy ? zt_map_put(names, *copy, name.n, number) : ZT_ENOMEM;
}

/* A new value, not used by anyone yet; its number, or -1 and nothing changed. */
static int add_value(zt_prog *p, zt_value_kind kind, zt_span name)
{
    char buf[24];
    int v = p->values.n, n_kind = p->kinds[kind].n;
    if (!name.s) name = made_up(p, buf);
    if (zt_name_check(p, "value", name)) return -1;
    if (zt_prog_lookup(p, name) >= 0) {
        zt_prog_fail(p, ZT_EUSAGE, "value '%.*s' is there already", (int)name.n, name.s);
        return -1;
    }
    zt_item *item = zt_prog_push(p, &p->values, sizeof *item, "values");
    if (!item) return -1;
    item->pub.kind = kind;
    item->pub.index = n_kind;
    item->pub.keep = item->holder = item->pinned = -1;
    item->root = v;
    int *number = zt_prog_push(p, &p->kinds[kind], sizeof *number, "values");
    if (number && !put_name(p, p->names, name, v, &item->pub.name)) {
        *number = v;
        return v;
    }
    p->values.n = v;
    p->kinds[kind].n = n_kind;
    return -1;
}

static zt_status check_type(const zt_prog *p, zt_span name, const zt_type *t)
{
    bool numbers = true;
    for (int i = 0; i < t->rank; i++) {
        if (!zt_dim_known(p, t->dim[i]))
            return zt_prog_fail(p, ZT_EUSAGE, "value '%.*s': dimension %d is not this program's",
                                (int)name.n, name.s, i);
        numbers = numbers && t->dim[i] >= 0;
    }
    if (!numbers || zt_type_check(NULL, t, NULL)) return ZT_OK;
    zt_ctx *own = zt_ctx_new();
    if (!own) return zt_prog_fail(p, ZT_ENOMEM, "no memory for a message");
    zt_type_check(own, t, NULL);
    zt_status s = zt_prog_fail(p, ZT_ESHAPE, "value '%.*s': %s", (int)name.n, name.s,
                               zt_ctx_error(own));
    zt_ctx_free(own);
    return s;
}

int zt_prog_declare(zt_prog *p, zt_value_kind kind, zt_span name, zt_dtype dt, int rank,
                    const int64_t *dim, zt_span tensor)
{
    char buf[24], quote[ZT_QUOTE];
    if (!name.s) name = made_up(p, buf);
    if (rank < 0 || rank > ZT_MAX_RANK || !zt_dtype_get(dt)) {
        zt_prog_fail(p, ZT_EUSAGE, "value '%s': dtype %d of rank %d is no type",
                     zt_quote(quote, name), (int)dt, rank);
        return -1;
    }
    if (kind == ZT_VALUE_DATA && !tensor.s) {
        zt_prog_fail(p, ZT_EUSAGE, "value '%s': data of no tensor", zt_quote(quote, name));
        return -1;
    }
    zt_type type = zt_type_make(dt, rank, dim);
    const char *copy = NULL;
    if (zt_name_check(p, "value", name) || check_type(p, name, &type)) return -1;
    if (tensor.s && !(copy = zt_arena_strndup(p->memory, tensor.s, tensor.n))) return -1;
    int v = add_value(p, kind, name);
    if (v < 0) return -1;
    zt_item_at(p, v)->pub.type = type;
    zt_item_at(p, v)->pub.tensor = copy;
    return v;
}

int zt_prog_in(zt_prog *p, const char *name, zt_dtype dt, int rank, const int64_t *dim)
{
    return zt_prog_declare(p, ZT_VALUE_IN, zt_span_of(name), dt, rank, dim, (zt_span){0});
}

int zt_prog_state(zt_prog *p, const char *name, zt_dtype dt, int rank, const int64_t *dim)
{
    return zt_prog_declare(p, ZT_VALUE_STATE, zt_span_of(name), dt, rank, dim, (zt_span){0});
}

int zt_prog_data(zt_prog *p, const char *name, zt_dtype dt, int rank, const int64_t *dim,
                 const char *tensor)
{
    return zt_prog_declare(p, ZT_VALUE_DATA, zt_span_of(name), dt, rank, dim, zt_span_of(tensor));
}

/* ---- uses ------------------------------------------------------------------------------------ */

static zt_item *root_of(const zt_prog *p, int v)
{
    return zt_item_at(p, zt_item_at(p, v)->root);
}

/* Is v a value, and its memory still what it was? `who` wants it: "op rope", "out 'y'". */
static zt_status check_use(const zt_prog *p, const char *who, int v)
{
    if (v < 0 || v >= p->values.n)
        return zt_prog_fail(p, ZT_EUSAGE, v == -1 ? "%s is given a value that failed (%d)"
                                                  : "%s: value %d is not in the program", who, v);
    const zt_item *item = zt_item_at(p, v), *root = root_of(p, v);
    if (item->age == root->donations) return ZT_OK;
    return zt_prog_fail(p, ZT_EUSAGE, "%s: value '%s' is used up, its memory is '%s' now", who,
                        item->pub.name, zt_item_at(p, root->holder)->pub.name);
}

static zt_status check_inputs(const zt_prog *p, const zt_opinfo *info, const int *in)
{
    char who[64];
    snprintf(who, sizeof who, "op %s", info->name);
    for (int k = 0; k < info->n_in; k++) {
        if (in[k] == ZT_NONE && k >= info->def->n_required) continue;
        if (in[k] == ZT_NONE)
            return zt_prog_fail(p, ZT_EUSAGE, "%s: input '%s' is missing", who, info->in_name[k]);
        zt_status s = check_use(p, who, in[k]);
        if (s) return s;
    }
    return ZT_OK;
}

/* May input d be used up: not an input or data of the program, not read beside, not pinned. */
static zt_status check_donation(const zt_prog *p, const zt_opinfo *info, const int *in, int d)
{
    const zt_item *item = zt_item_at(p, in[d]), *root = root_of(p, in[d]);
    const char *name = item->pub.name;
    if (root->pub.kind == ZT_VALUE_IN || root->pub.kind == ZT_VALUE_DATA)
        return zt_prog_fail(p, ZT_EUSAGE, "op %s uses up '%s', which is %s and no state",
                            info->name, name, kind_name[root->pub.kind]);
    if (root->pinned >= 0)
        return zt_prog_fail(p, ZT_EUSAGE, "op %s uses up '%s', but '%s' is kept or an output",
                            info->name, name, zt_item_at(p, root->pinned)->pub.name);
    for (int k = 0; k < info->n_in; k++)
        if (k != d && in[k] >= 0 && zt_item_at(p, in[k])->root == item->root)
            return zt_prog_fail(p, ZT_EUSAGE, "op %s uses up '%s' and reads it as '%s' too",
                                info->name, name, info->in_name[k]);
    return ZT_OK;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* In views and donations an output has the memory of the input of its number. */
static void share_memory(zt_prog *p, const zt_step *st)
{
    for (int k = 0; k < zt_op_shares(st->op); k++) {
        zt_item *out = zt_item_at(p, st->out[k]), *root = root_of(p, st->in[k]);
        if (k < zt_op_info(st->op)->def->donates) {
            root->donations++;
            root->holder = st->out[k];
        }
        out->root = zt_item_at(p, st->in[k])->root;
        out->age = root->donations;
    }
}

static zt_status add_outputs(zt_prog *p, const zt_opinfo *info, const zt_span *names, zt_step *st)
{
    for (int k = 0; k < ZT_MAX_OUT; k++) {
        st->out[k] = ZT_NONE;
        if (k >= info->n_out || zt_span_is(names[k], "_")) continue;
        st->out[k] = add_value(p, ZT_VALUE_OP, names[k]);
        if (st->out[k] < 0) return zt_ctx_status(p->ctx);
        zt_item_at(p, st->out[k])->pub.index = p->steps.n - 1;
    }
    return ZT_OK;
}

static zt_status add_step(zt_prog *p, const zt_opinfo *info, zt_made made, const zt_span *names)
{
    zt_made *to = zt_prog_push(p, &p->steps, sizeof *to, "ops");
    if (!to) return ZT_ENOMEM;
    int n_values = p->values.n, n_ops = p->kinds[ZT_VALUE_OP].n;
    zt_status s = add_outputs(p, info, names, &made.pub);
    if (s) {
        p->values.n = n_values;
        p->kinds[ZT_VALUE_OP].n = n_ops;
        p->steps.n--;
        return s;
    }
    *to = made;
    if (made.symbolic) p->symbolic_bytes += (info->attr_bytes + 15) & ~(size_t)15;
    share_memory(p, &to->pub);
    return ZT_OK;
}

zt_status zt_prog_add_op(zt_prog *p, zt_op op, const void *attrs, const int *in,
                         const zt_span *names, int *out)
{
    const zt_opinfo *info = zt_op_info(op);
    if (!info) return zt_prog_fail(p, ZT_EUSAGE, "op number %d is not known", (int)op);
    zt_status s = check_inputs(p, info, in);
    for (int k = 0; k < info->def->donates && !s; k++) s = check_donation(p, info, in, k);
    if (s) return s;
    if (zt_span_is(names[0], "_"))
        return zt_prog_fail(p, ZT_EUSAGE, "op %s: its first output needs a name", info->name);
    for (int k = 1; k < info->def->donates; k++)
        if (zt_span_is(names[k], "_"))
            return zt_prog_fail(p, ZT_EUSAGE, "op %s: output '%s', which has the memory of '%s', "
                                "needs a name", info->name, info->out_name[k], info->in_name[k]);
    zt_made made = {.pub.op = op, .line = p->line};
    made.pub.attrs = zt_attrs_keep(p, info, attrs, &made.symbolic);
    if (!made.pub.attrs) return zt_ctx_status(p->ctx);
    for (int k = 0; k < ZT_MAX_IN; k++) made.pub.in[k] = k < info->n_in ? in[k] : ZT_NONE;
    s = add_step(p, info, made, names);
    if (s || !out) return s;
    memcpy(out, zt_prog_step(p, p->steps.n - 1)->out, (size_t)info->n_out * sizeof *out);
    return ZT_OK;
}

zt_status zt_prog_op(zt_prog *p, zt_op op, const void *attrs, const int *in,
                     const char *const *names, int *out)
{
    zt_span span[ZT_MAX_OUT] = {{0}};
    const zt_opinfo *info = zt_op_info(op);
    for (int k = 0; names && info && k < info->n_out; k++) span[k] = zt_span_of(names[k]);
    return zt_prog_add_op(p, op, attrs, in, span, out);
}

/* ---- the end of a step ----------------------------------------------------------------------- */

zt_status zt_prog_keep(zt_prog *p, int state, int value)
{
    char who[ZT_MAX_NAME + 16] = "keep";
    if (state < 0 || state >= p->values.n) return check_use(p, who, state);
    zt_value *val = &zt_item_at(p, state)->pub;
    snprintf(who, sizeof who, "keep '%s'", val->name);
    if (val->kind != ZT_VALUE_STATE) return zt_prog_fail(p, ZT_EUSAGE, "%s: it is no state", who);
    zt_status s = check_use(p, who, value);
    if (s) return s;
    if (val->keep >= 0)
        return zt_prog_fail(p, ZT_EUSAGE, "%s: it keeps '%s' already", who,
                            zt_item_at(p, val->keep)->pub.name);
    if (root_of(p, value)->pub.kind == ZT_VALUE_DATA)
        return zt_prog_fail(p, ZT_EUSAGE, "%s: '%s' is data of the model", who,
                            zt_item_at(p, value)->pub.name);
    val->keep = value;
    root_of(p, value)->pinned = value;
    return ZT_OK;
}

zt_status zt_prog_add_out(zt_prog *p, zt_span name, int value)
{
    char who[ZT_MAX_NAME + 16];
    const char *copy;
    zt_status s = zt_name_check(p, "output", name);
    if (s) return s;
    snprintf(who, sizeof who, "out '%.*s'", (int)name.n, name.s);
    s = check_use(p, who, value);
    if (s) return s;
    if (output_taken(p, name)) return zt_prog_fail(p, ZT_EUSAGE, "%s is there already", who);
    s = put_name(p, p->out_names, name, p->outputs.n, &copy);
    zt_output *to = s ? NULL : zt_prog_push(p, &p->outputs, sizeof *to, "outputs");
    if (!to) return s ? s : zt_ctx_status(p->ctx);
    *to = (zt_output){copy, value};
    root_of(p, value)->pinned = value;
    return ZT_OK;
}

zt_status zt_prog_out(zt_prog *p, const char *name, int value)
{
    return zt_prog_add_out(p, zt_span_of(name), value);
}

static bool is_hex(zt_span id)
{
    size_t k = 0;
    while (k < id.n && strchr("0123456789abcdefABCDEF", id.s[k])) k++;
    return k == id.n && k > 0 && k <= 128;
}

zt_status zt_prog_set_model(zt_prog *p, zt_span file, zt_span id)
{
    char buf[ZT_QUOTE];
    if (p->file) return zt_prog_fail(p, ZT_EUSAGE, "the model is named already: '%s'", p->file);
    if (id.s && !is_hex(id))
        return zt_prog_fail(p, ZT_EUSAGE, "id '%s' is not hexadecimal", zt_quote(buf, id));
    const char *id_copy = id.s ? zt_arena_strndup(p->memory, id.s, id.n) : NULL;
    const char *copy = !id.s || id_copy ? zt_arena_strndup(p->memory, file.s, file.n) : NULL;
    if (!copy) return ZT_ENOMEM;
    p->file = copy;
    p->id = id_copy;
    return ZT_OK;
}

zt_status zt_prog_model_path(zt_prog *p, const char *file)
{
    if (!p->file) return zt_prog_fail(p, ZT_EUSAGE, "the program names no model");
    const char *copy = zt_arena_strndup(p->memory, file, strlen(file));
    if (!copy) return ZT_ENOMEM;
    p->file = copy;
    return ZT_OK;
}

zt_status zt_prog_model(zt_prog *p, const char *file, const char *id)
{
    return zt_prog_set_model(p, zt_span_of(file), zt_span_of(id));
}
