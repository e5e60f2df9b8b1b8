/* bind_inputs.c - memory for a program's inputs, outputs, states and data, filled from files by name. */
#include "lib/run/bind_inputs.h"

#include <string.h>

/* ---- arrays by name -------------------------------------------------------------------------- */

/* The number of the step, by which ops draw: no array's. */
static bool is_counter(const zt_value *x)
{
    return x->type.rank == 0 && x->type.dtype == ZT_I64 && strcmp(x->name, "counter") == 0;
}

/* Is v the one input that arrays are for? */
static bool is_only(const zt_prog *p, int v)
{
    const zt_value *x = zt_prog_value(p, v);
    int n = 0;
    for (int i = 0; i < zt_prog_count(p, ZT_VALUE_IN); i++)
        n += !is_counter(zt_prog_value(p, zt_prog_nth(p, ZT_VALUE_IN, i)));
    return x->kind == ZT_VALUE_IN && !is_counter(x) && n == 1;
}

/* The array for value v, or -1. */
static int64_t array_for(const zt_prog *p, zt_checkpoint *from, int v)
{
    const zt_value *x = zt_prog_value(p, v);
    zt_entry e;
    if (!from) return -1;
    int64_t i = zt_checkpoint_find(from, x->name);
    if (i >= 0 || !is_only(p, v) || zt_checkpoint_count(from) != 1) return i;
    zt_checkpoint_get(from, 0, &e);
    return strcmp(e.name, "arr_0") == 0 ? 0 : -1; /* an array that NumPy was told no name for */
}

static bool is_bound(const char *symbol, const zt_binding *b, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(b[i].symbol, symbol) == 0) return true;
    return false;
}

/* What the shape of one array tells. */
static void symbols_of(const zt_prog *p, const zt_type *declared, const zt_type *is, zt_binding *b,
                       int *n)
{
    for (int d = 0; d < declared->rank && declared->rank == is->rank; d++) {
        int s = zt_prog_symbol_of(p, declared->dim[d]);
        const char *name = s < 0 ? NULL : zt_prog_symbol_name(p, s);
        if (name && *n < ZT_MAX_SYMBOLS && !is_bound(name, b, *n))
            b[(*n)++] = (zt_binding){name, is->dim[d]};
    }
}

zt_status zt_bound_inputs_symbols(zt_ctx *ctx, const zt_prog *p, zt_checkpoint *from, zt_binding *b, int *n)
{
    static const zt_value_kind kinds[] = {ZT_VALUE_IN, ZT_VALUE_STATE};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < zt_prog_count(p, kinds[k]); i++) {
            int v = zt_prog_nth(p, kinds[k], i);
            int64_t at = array_for(p, from, v);
            zt_entry e;
            if (at < 0) continue;
            zt_checkpoint_get(from, at, &e);
            symbols_of(p, &zt_prog_value(p, v)->type, &e.type, b, n);
        }
    }
    return zt_ctx_status(ctx);
}

/* ---- filling --------------------------------------------------------------------------------- */

/* An array's bytes into *to; *to stays NULL where there is none. */
static zt_status read_array(zt_bound_inputs *f, zt_checkpoint *from, int v, void **to)
{
    char has[ZT_TYPE_TEXT], wants[ZT_TYPE_TEXT], name[96];
    const zt_type *t = &f->bound->type[v];
    const char *what = zt_prog_value(f->prog, v)->kind == ZT_VALUE_IN ? "input" : "state";
    int64_t i = array_for(f->prog, from, v);
    zt_entry e;
    if (i < 0) return ZT_OK;
    zt_checkpoint_get(from, i, &e);
    const char *label = zt_prog_value(f->prog, v)->name;
    zt_escape(name, sizeof name, label, strlen(label));
    if (e.type.dtype == ZT_DTYPE_COUNT || e.type.rank < 0)
        return zt_fail(f->ctx, ZT_EDATA, "%s: %s '%s' is of a type or rank that zt lacks",
                       zt_checkpoint_name(from), what, name);
    if (!zt_type_equal(&e.type, t))
        return zt_fail(f->ctx, ZT_EDATA, "%s: %s '%s' is %s, the program wants %s",
                       zt_checkpoint_name(from), what, name, zt_type_text(&e.type, has),
                       zt_type_text(t, wants));
    *to = zt_alloc(f->ctx, zt_type_bytes(t) + 1);
    return *to ? zt_checkpoint_read(from, i, 0, *to, zt_type_bytes(t)) : ZT_ENOMEM;
}

static zt_status draw(zt_bound_inputs *f, int v, uint64_t seed, void **to)
{
    *to = zt_alloc(f->ctx, zt_type_bytes(&f->bound->type[v]) + 1);
    if (!*to) return ZT_ENOMEM;
    zt_bound_inputs_draw(f->bound, v, seed, *to);
    return ZT_OK;
}

static zt_status fill_inputs(zt_bound_inputs *f, const zt_bound_inputs_opts *o)
{
    char name[96];
    for (int i = 0; i < zt_prog_count(f->prog, ZT_VALUE_IN); i++) {
        int v = zt_prog_nth(f->prog, ZT_VALUE_IN, i);
        const char *label = zt_prog_value(f->prog, v)->name;
        zt_status st = read_array(f, o->from, v, &f->in[i]);
        if (!st && !f->in[i] && o->counts && is_counter(zt_prog_value(f->prog, v)))
            f->in[i] = zt_calloc(f->ctx, 1, sizeof(int64_t));
        if (!st && !f->in[i] && o->draw) st = draw(f, v, o->seed, &f->in[i]);
        if (!st && !f->in[i])
            st = zt_fail(f->ctx, ZT_EDATA, "%s: no input '%s', which the program has",
                         o->from ? zt_checkpoint_name(o->from) : "nothing is given",
                         zt_escape(name, sizeof name, label, strlen(label)));
        if (st) return st;
    }
    return ZT_OK;
}

static zt_status fill_states(zt_bound_inputs *f, const zt_bound_inputs_opts *o)
{
    zt_status st = ZT_OK;
    for (int i = 0; i < zt_prog_count(f->prog, ZT_VALUE_STATE) && !st; i++)
        st = read_array(f, o->from, zt_prog_nth(f->prog, ZT_VALUE_STATE, i), &f->state[i]);
    return st;
}

static zt_status make_outputs(zt_bound_inputs *f)
{
    for (int i = 0; i < zt_prog_n_outputs(f->prog); i++) {
        size_t bytes = zt_type_bytes(&f->bound->type[zt_prog_output(f->prog, i)->value]);
        f->out[i] = zt_calloc(f->ctx, bytes + 1, 1);
        if (!f->out[i]) return ZT_ENOMEM;
    }
    return ZT_OK;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Handles of the store below are its own times two; those of drawn data are odd. */
static zt_status find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_bound_inputs *f = user;
    zt_status st = f->below ? f->below->find(f->below->user, name, type, handle) : ZT_ENOENT;
    if (st == ZT_OK) *handle *= 2;
    if (st != ZT_ENOENT) return st;
    for (int i = 0; i < f->n_data; i++) {
        int v = zt_prog_nth(f->prog, ZT_VALUE_DATA, i);
        if (!f->data[i] || strcmp(zt_prog_value(f->prog, v)->tensor, name) != 0) continue;
        *type = f->bound->type[v];
        *handle = 2 * (int64_t)i + 1;
        return ZT_OK;
    }
    return ZT_ENOENT;
}

static zt_status read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    const zt_bound_inputs *f = user;
    if (handle % 2 == 0) return f->below->read(f->below->user, handle / 2, offset, dst, n);
    memcpy(dst, (const char *)f->data[handle / 2] + offset, n);
    return ZT_OK;
}

static zt_status fill_data(zt_bound_inputs *f, const zt_bound_inputs_opts *o)
{
    for (int i = 0; i < f->n_data && o->draw_data; i++) {
        int v = zt_prog_nth(f->prog, ZT_VALUE_DATA, i);
        zt_type type;
        int64_t handle;
        zt_status st = find(f, zt_prog_value(f->prog, v)->tensor, &type, &handle);
        if (st == ZT_ENOENT) st = draw(f, v, o->seed, &f->data[i]);
        if (st) return st;
    }
    return ZT_OK;
}

/* ---- bound inputs ---------------------------------------------------------------------------- */

static void **pointers(zt_bound_inputs *f, int n)
{
    return zt_calloc(f->ctx, (size_t)n + 1, sizeof(void *));
}

static zt_status make(zt_bound_inputs *f, const zt_bound_inputs_opts *o)
{
    const zt_prog *p = f->prog;
    f->below = o->store;
    f->store = (zt_store){.user = f, .find = find, .read = read};
    f->bound = zt_prog_bind(p, o->bind, o->n_bind);
    f->in = pointers(f, zt_prog_count(p, ZT_VALUE_IN));
    f->out = pointers(f, zt_prog_n_outputs(p));
    f->state = pointers(f, zt_prog_count(p, ZT_VALUE_STATE));
    f->data = pointers(f, zt_prog_count(p, ZT_VALUE_DATA));
    if (!f->bound || !f->in || !f->out || !f->state || !f->data) return zt_ctx_status(f->ctx);
    f->n_data = zt_prog_count(p, ZT_VALUE_DATA);
    zt_status st = fill_inputs(f, o);
    if (!st) st = fill_states(f, o);
    if (!st) st = fill_data(f, o);
    return st ? st : make_outputs(f);
}

zt_bound_inputs *zt_bound_inputs_new(zt_ctx *ctx, const zt_prog *p, const zt_bound_inputs_opts *o)
{
    zt_bound_inputs *f = zt_calloc(ctx, 1, sizeof *f);
    if (!f) return NULL;
    f->ctx = ctx;
    f->prog = p;
    if (make(f, o) == ZT_OK) return f;
    zt_bound_inputs_free(f);
    return NULL;
}

static void free_all(zt_ctx *ctx, void **at, int n)
{
    for (int i = 0; at && i < n; i++) zt_free(ctx, at[i]);
    zt_free(ctx, at);
}

void zt_bound_inputs_free(zt_bound_inputs *f)
{
    if (!f) return;
    free_all(f->ctx, f->in, zt_prog_count(f->prog, ZT_VALUE_IN));
    free_all(f->ctx, f->out, zt_prog_n_outputs(f->prog));
    free_all(f->ctx, f->state, zt_prog_count(f->prog, ZT_VALUE_STATE));
    free_all(f->ctx, f->data, zt_prog_count(f->prog, ZT_VALUE_DATA));
    zt_bound_free(f->bound);
    zt_free(f->ctx, f);
}

zt_status zt_bound_inputs_states(const zt_bound_inputs *f, zt_session *s)
{
    zt_status st = ZT_OK;
    for (int i = 0; i < zt_prog_count(f->prog, ZT_VALUE_STATE) && !st; i++) {
        zt_type t = zt_session_state_type(s, i);
        void *zero = f->state[i] ? NULL : zt_calloc(f->ctx, zt_type_bytes(&t) + 1, 1);
        if (!f->state[i] && !zero) return ZT_ENOMEM;
        st = zt_session_state_set(s, i, f->state[i] ? f->state[i] : zero);
        zt_free(f->ctx, zero);
    }
    return st;
}

zt_status zt_prog_check_id(zt_ctx *ctx, const zt_prog *p, const char *name, const char *id)
{
    const char *wanted = zt_prog_model_id(p);
    char file[128];
    if (!wanted || strcmp(wanted, id) == 0) return ZT_OK;
    const char *named = zt_prog_model_file(p);
    return zt_fail(ctx, ZT_EDATA, "%s: this model's id is %s, the program is of '%s', id %s", name,
                   id, zt_escape(file, sizeof file, named, strlen(named)), wanted);
}

zt_status zt_prog_check_model(zt_ctx *ctx, const zt_prog *p, const zt_gguf *g)
{
    return zt_prog_check_id(ctx, p, zt_gguf_name(g), zt_gguf_id(g));
}
