/* pt_walk.c - owns going through what a pickle made: every tensor in it gets its path as a name. */
#include "lib/io/pt_file.h"

#include <inttypes.h>
#include <string.h>

enum {
    MAX_DEPTH = 128,
    MAX_NAME = 1 << 16,
    OFTEN = 16, /* values may be met so many times for each opcode that there was, */
    FEW = 4096  /* and so many more: containers that hold each other by the memo are bombs */
};

typedef struct walker {
    zt_pt *t;
    zt_str path;
    int nameless; /* keys above that are neither text nor number, and sets */
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
    if (w->nameless)
        return bad(w, "a tensor in a set, or below a key that is neither text nor number");
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

/* ---- containers ------------------------------------------------------------------------------ */

static zt_status visit(walker *w, const pk_value *v);

/* A value below a key; `at` is where the path was, `first` whether it was empty by being the root.
 */
static zt_status below(walker *w, const pk_value *v, const pk_value *key)
{
    size_t at = w->path.len;
    bool named = key->kind == PK_TEXT || key->kind == PK_INT;
    zt_status st = w->depth > 1 ? zt_str_putc(&w->path, '.') : ZT_OK;
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

/* Keys may hold nothing but what names are made of, so that no tensor is passed over. */
static zt_status visit_dict(walker *w, const pk_list *l)
{
    zt_status st = ZT_OK;
    for (size_t i = 0; st == ZT_OK && i + 1 < l->n; i += 2)
        st = below(w, &l->item[i + 1], &l->item[i]);
    return st;
}

static zt_status visit(walker *w, const pk_value *v)
{
    zt_status st = ZT_OK;
    if (!w->left--)
        return bad(w, "containers that hold each other over and over");
    if (w->depth == MAX_DEPTH)
        return bad(w, "containers nested too deep");
    w->depth++;
    if (v->kind == PK_TENSOR)
        st = add_tensor(w, v->tensor);
    else if (v->kind == PK_DICT)
        st = visit_dict(w, v->list);
    else if (v->kind == PK_LIST)
        st = visit_items(w, v->list->item, v->list->n, v->list->set);
    else if (v->kind == PK_TUPLE)
        st = visit_items(w, v->item, v->n, false);
    w->depth--;
    return st;
}

zt_status zt_pt_collect(zt_pt *t, pk_value root, const pickle *p)
{
    walker w = {.t = t, .left = OFTEN * p->ops + FEW, .budget = p->budget};
    zt_str_init(&w.path, t->ctx);
    zt_status st = visit(&w, &root);
    zt_str_fini(&w.path);
    return st;
}
