/* pt_walk.c - owns going through what a pickle made: every tensor in it gets its path as a name.
 *
 * Attributes of an unknown object are parts of a path as keys of a dictionary are. A module of
 * PyTorch's is such an object; its tensors get the names that its state_dict would give them. What
 * has no name, and tensors that zt does not hold, are counted as unread.
 */
#include "lib/io/pt_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 128,
    MAX_NAME = 1 << 16,
    OFTEN = 16, /* values may be met so many times for each opcode that there was, */
    FEW = 4096, /* and so many more: containers that hold each other by the memo are bombs */
    SAID = 6    /* unread tensors, or unknown names, that a message says */
};

typedef struct walker {
    zt_pt *t;
    zt_str path;
    int parts;        /* keys that the path is made of */
    int nameless;     /* keys above that are neither text nor number, and sets */
    int opaque;       /* unknown objects above */
    const char *lost; /* why tensors here have no name; NULL: they have */
    int depth;
    size_t left;   /* visits */
    size_t budget; /* bytes for tensors and their names */
} walker;

static zt_status bad(const walker *w, const char *what)
{
    char text[160];
    return zt_fail(w->t->ctx, ZT_EDATA, "%s: at '%s': %s", w->t->file,
                   zt_escape(text, sizeof text, w->path.len ? w->path.data : "", w->path.len),
                   what);
}

/* Room for one more of n, in steps that double. */
static void *room(zt_ctx *ctx, void *list, int64_t n, size_t size)
{
    return n & (n - 1) ? list : zt_realloc(ctx, list, (size_t)(n ? 2 * n : 1) * size);
}

/* ---- a tensor -------------------------------------------------------------------------------- */

static zt_status find_storage(walker *w, const pk_storage *s, int64_t *out)
{
    zt_pt *t = w->t;
    size_t n = strlen(s->key);
    if (zt_map_get(t->keys, s->key, n, out))
        return t->storage[*out].bytes == s->bytes ? ZT_OK : bad(w, "its storage has two sizes");
    pt_storage *list = room(t->ctx, t->storage, t->n_storages, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    t->storage = list;
    *out = t->n_storages++;
    list[*out] = (pt_storage){
        .key = s->key, .bytes = s->bytes, .item = s->dtype ? s->dtype->item : 1, .member = -1};
    return zt_map_put(t->keys, s->key, n, *out);
}

static void lay_out(pt_tensor *x, const pk_tensor *k)
{
    int64_t count;
    uint64_t span;
    x->layout = (zt_layout){.rank = k->rank,
                            .dim = k->dim,
                            .stride = k->stride,
                            .item = k->dtype->item,
                            .swap = k->dtype->swap,
                            .begin = k->storage->begin + (uint64_t)k->offset * k->dtype->item};
    zt_layout_check(&x->layout, &count, &span); /* the pickle's reader has, too */
    x->a.type = (zt_type){.dtype = k->dtype->dtype, .rank = k->rank <= ZT_MAX_RANK ? k->rank : -1};
    for (int i = 0; i < x->a.type.rank; i++)
        x->a.type.dim[i] = k->dim[i];
    x->a.dtype = k->dtype->name;
    x->a.bytes = (size_t)count * k->dtype->item;
    x->a.rank = k->rank;
    x->a.dim = k->dim;
}

static zt_status add_tensor(walker *w, const pk_tensor *k)
{
    zt_pt *t = w->t;
    const char *path = w->path.len ? w->path.data : "";
    size_t n = w->path.len, cost = n + 2 * sizeof(pt_tensor) + 64;
    if (cost > w->budget)
        return bad(w, "more tensors than a file of its size should name");
    w->budget -= cost;
    if (memchr(path, 0, n))
        return bad(w, "a tensor whose name has a zero byte");
    if (zt_map_get(t->names, path, n, NULL))
        return bad(w, "two tensors have this name");
    pt_tensor *list = room(t->ctx, t->tensor, t->n, sizeof *list);
    if (!list)
        return ZT_ENOMEM;
    t->tensor = list;
    pt_tensor *x = &list[t->n];
    *x = (pt_tensor){.a = {.name = zt_arena_strndup(t->keep, path, n)}};
    if (!x->a.name)
        return ZT_ENOMEM;
    lay_out(x, k);
    zt_status st = find_storage(w, k->storage, &x->storage);
    return st == ZT_OK ? zt_map_put(t->names, x->a.name, n, t->n++) : st;
}

/* A tensor at this path is not read. Several in one object are said once. */
static zt_status lose(walker *w, const char *why)
{
    zt_pt *t = w->t;
    char path[100], text[200];
    zt_escape(path, sizeof path, w->path.len ? w->path.data : "", w->path.len);
    snprintf(text, sizeof text, "'%s' (%s)", path, why);
    if (strcmp(text, t->unread_last) == 0)
        return ZT_OK;
    memcpy(t->unread_last, text, sizeof text);
    if (t->n_unread++ >= SAID)
        return ZT_OK;
    return zt_str_printf(&t->unread, "%s%s", t->n_unread > 1 ? ", " : "", text);
}

/* ---- containers ------------------------------------------------------------------------------ */

static zt_status visit(walker *w, const pk_value *v);

/* A value below a key. */
static zt_status below(walker *w, const pk_value *v, const pk_value *key)
{
    if (w->lost)
        return visit(w, v);
    size_t at = w->path.len;
    bool named = key->kind == PK_TEXT || key->kind == PK_INT;
    zt_status st = named && w->parts ? zt_str_putc(&w->path, '.') : ZT_OK;
    w->parts += named;
    if (st == ZT_OK && key->kind == PK_TEXT)
        st = zt_str_put(&w->path, key->text, key->n);
    else if (st == ZT_OK && named)
        st = zt_str_printf(&w->path, "%" PRId64, key->i);
    if (st == ZT_OK && w->path.len > MAX_NAME)
        st = bad(w, "a path of more than 64 KiB");
    w->nameless += !named;
    if (st == ZT_OK)
        st = visit(w, v);
    w->nameless -= !named;
    w->parts -= named;
    w->path.len = at;
    return st;
}

static zt_status visit_items(walker *w, const pk_value *item, size_t n, bool set)
{
    zt_status st = ZT_OK;
    for (size_t i = 0; st == ZT_OK && i < n; i++) {
        pk_value key = {.kind = set ? PK_NONE : PK_INT, .i = (int64_t)i};
        st = below(w, &item[i], &key);
    }
    return st;
}

/* Of keys nothing but the name is looked at. */
static zt_status visit_dict(walker *w, const pk_list *l)
{
    zt_status st = ZT_OK;
    for (size_t i = 0; st == ZT_OK && i + 1 < l->n; i += 2)
        st = below(w, &l->item[i + 1], &l->item[i]);
    return st;
}

/* What has no name of its own. */
static zt_status visit_lost(walker *w, const pk_value *v, const char *why)
{
    const char *was = w->lost;
    w->lost = was ? was : why;
    zt_status st = visit(w, v);
    w->lost = was;
    return st;
}

/* ---- objects --------------------------------------------------------------------------------- */

static const char inside[] = "inside an unknown object";

/* A dictionary of attributes, or a pair of such and of slots. */
static zt_status visit_state(walker *w, const pk_value *v)
{
    bool pair = v->kind == PK_TUPLE && v->n == 2;
    for (uint32_t i = 0; pair && i < 2; i++)
        pair = v->item[i].kind == PK_DICT || v->item[i].kind == PK_NONE;
    if (!pair)
        return v->kind == PK_DICT ? visit_dict(w, v->list) : visit_lost(w, v, inside);
    zt_status st = visit_state(w, &v->item[0]);
    return st == ZT_OK ? visit_state(w, &v->item[1]) : st;
}

static zt_status visit_tensor(walker *w, const pk_tensor *k)
{
    if (w->lost || w->nameless)
        return lose(w, w->lost ? w->lost : "in a set, or below a key that is no name");
    zt_status st = add_tensor(w, k);
    return st == ZT_OK && k->state ? visit_state(w, k->state) : st;
}

/* The attribute of this name; NULL: none. */
static const pk_value *attribute(const pk_object *o, const char *name)
{
    for (size_t i = 0; i < o->state.n; i++) {
        const pk_value *s = &o->state.item[i];
        for (size_t k = 0; s->kind == PK_DICT && k + 1 < s->list->n; k += 2)
            if (s->list->item[k].kind == PK_TEXT &&
                zt_pk_is(s->list->item[k].text, s->list->item[k].n, name))
                return &s->list->item[k + 1];
    }
    return NULL;
}

/* The parts of torch.nn.Module that make its state_dict, in its order. */
enum { PARAMETERS, BUFFERS, MODULES, PARTS };

static bool is_module(const pk_object *o, const pk_value *part[PARTS])
{
    static const char *const name[PARTS] = {"_parameters", "_buffers", "_modules"};
    bool all = true;
    for (int i = 0; all && i < PARTS; i++) {
        part[i] = attribute(o, name[i]);
        all = part[i] && part[i]->kind == PK_DICT;
    }
    return all;
}

/* Is the key one of a set of texts? */
static bool is_among(const pk_value *key, const pk_value *set)
{
    for (size_t i = 0; set && set->kind == PK_LIST && i < set->list->n; i++) {
        const pk_value *v = &set->list->item[i];
        if (v->kind == PK_TEXT && key->kind == PK_TEXT && v->n == key->n &&
            memcmp(v->text, key->text, v->n) == 0)
            return true;
    }
    return false;
}

static zt_status visit_module(walker *w, const pk_object *o, const pk_value *part[PARTS])
{
    const pk_value *skip = attribute(o, "_non_persistent_buffers_set");
    zt_status st = ZT_OK;
    for (int k = 0; k < PARTS; k++) {
        const pk_list *l = part[k]->list;
        for (size_t i = 0; st == ZT_OK && i + 1 < l->n; i += 2)
            if (k != BUFFERS || !is_among(&l->item[i], skip))
                st = below(w, &l->item[i + 1], &l->item[i]);
    }
    return st;
}

static zt_status visit_parts(walker *w, const pk_object *o)
{
    zt_status st = visit_dict(w, &o->pairs);
    if (st == ZT_OK)
        st = visit_items(w, o->items.item, o->items.n, false);
    for (size_t i = 0; st == ZT_OK && i < o->state.n; i++)
        st = visit_state(w, &o->state.item[i]);
    return st == ZT_OK ? visit_lost(w, &o->args, inside) : st;
}

/* A module's tensors have a name by each path to it, as in its state_dict. Another object's have
 * one name, by the first path, however often and by whom, also itself, it is held. */
static zt_status visit_object(walker *w, pk_object *o)
{
    const pk_value *part[PARTS];
    bool lost = w->lost || w->nameless, done = o->named || (lost && o->lost);
    if (o->tensor)
        return visit_tensor(w, o->tensor);
    if (o->type->what == PK_TENSOR_CLASS)
        return lose(w, "a tensor without data");
    bool module = is_module(o, part);
    if (done && !module)
        return ZT_OK;
    *(lost ? &o->lost : &o->named) = true;
    w->opaque++;
    zt_status st = module ? visit_module(w, o, part) : visit_parts(w, o);
    w->opaque--;
    return st;
}

static zt_status visit_one(walker *w, const pk_value *v)
{
    pk_value attributes = {.kind = PK_DICT};
    zt_status st = ZT_OK;
    switch (v->kind) {
    case PK_TENSOR: return visit_tensor(w, v->tensor);
    case PK_OBJECT: return visit_object(w, v->object);
    case PK_FOREIGN: return lose(w, v->text);
    case PK_STORAGE: return lose(w, w->lost ? w->lost : "a storage without a tensor");
    case PK_TUPLE: return visit_items(w, v->item, v->n, false);
    case PK_LIST: return visit_items(w, v->list->item, v->list->n, v->list->set);
    case PK_DICT:
        st = visit_dict(w, v->list);
        attributes.list = v->list->attr;
        return st == ZT_OK && attributes.list
                   ? visit_lost(w, &attributes, "an attribute of a dictionary")
                   : st;
    default: return ZT_OK;
    }
}

static zt_status visit(walker *w, const pk_value *v)
{
    if (!w->left--)
        return bad(w, "containers that hold each other over and over");
    if (w->depth == MAX_DEPTH && w->opaque)
        return lose(w, "an unknown object nested too deep");
    if (w->depth == MAX_DEPTH)
        return bad(w, "containers nested too deep");
    w->depth++;
    zt_status st = visit_one(w, v);
    w->depth--;
    return st;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The first unknown names that the pickle used, as a list. */
static zt_status say_unknown(zt_pt *t, const pickle *p)
{
    const pk_global *first[SAID] = {0};
    int64_t n = p->n_unknown;
    for (const pk_global *g = p->unknown; g; g = g->before) /* the last one first */
        if (--n < SAID)
            first[n] = g;
    zt_status st = ZT_OK;
    for (int i = 0; st == ZT_OK && i < SAID && first[i]; i++)
        st = zt_str_printf(&t->unknown, "%s%s", i ? ", " : "", first[i]->shown);
    if (st == ZT_OK && p->n_unknown > SAID)
        st = zt_str_printf(&t->unknown, " and %" PRId64 " more", p->n_unknown - SAID);
    return st;
}

/* A file whose tensors are all lost has none, which is an answer that nobody may take for one. */
static zt_status check_any(zt_pt *t, const pickle *p)
{
    if (t->n == 0 && t->n_unread)
        return zt_fail(t->ctx, ZT_EDATA, "%s: it has no tensor that can be read: %s%s%s", t->file,
                       t->unread.data, p->n_unknown ? "; unknown globals, not called: " : "",
                       p->n_unknown ? t->unknown.data : "");
    if (t->n == 0 && p->n_unknown)
        return zt_fail(t->ctx, ZT_EDATA,
                       "%s: it has no tensors, and its pickle names unknown globals, which are "
                       "not called: %s",
                       t->file, t->unknown.data);
    return ZT_OK;
}

/* The older format has all storages in the file, also those that no tensor here uses. */
static zt_status add_storages(walker *w, const pickle *p)
{
    int64_t i;
    zt_status st = ZT_OK;
    for (const pk_storage *s = p->storages; st == ZT_OK && s; s = s->before)
        st = find_storage(w, s, &i);
    return st;
}

zt_status zt_pt_collect(zt_pt *t, pk_value root, const pickle *p)
{
    walker w = {.t = t, .left = OFTEN * p->ops + FEW, .budget = p->budget};
    zt_str_init(&w.path, t->ctx);
    zt_status st = visit(&w, &root);
    if (st == ZT_OK && !t->zip)
        st = add_storages(&w, p);
    if (st == ZT_OK)
        st = say_unknown(t, p);
    if (st == ZT_OK && t->n_unread > SAID)
        st = zt_str_printf(&t->unread, " and %" PRId64 " more", t->n_unread - SAID);
    zt_str_fini(&w.path);
    return st == ZT_OK ? check_any(t, p) : st;
}
