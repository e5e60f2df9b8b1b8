/* adapted.c - owns the tensors of a model with adapters: which are changed and by what, their
 * shapes and types, and reading them.
 */
#include "lib/dna/adapted_part.h"
#include "lib/dna/merge.h"
#include "lib/tensor/quantize.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- what is changed ------------------------------------------------------------------------- */

/* The shape as rows: a vector's elements are rows of one. */
static void set_shape(adapted_change *c, const zt_type *t)
{
    c->rows = t->rank ? t->dim[0] : 1;
    c->columns = !c->rows ? 0 : zt_type_count(t) / c->rows;
}

static adapted_change *change_of(zt_adapted *a, int64_t i)
{
    if (a->change[i]) return a->change[i];
    adapted_change *c = zt_arena_alloc(a->arena, sizeof *c);
    if (!c) return NULL;
    *c = (adapted_change){.base = a->of[i], .stored = a->entry[i].type.dtype};
    set_shape(c, &a->entry[i].type);
    c->base_rows = c->rows;
    return a->change[i] = c;
}

/* Two modules that have one place in the model: one of them is of another. */
static zt_status twice(const zt_adapted *a, const lora_fit *one, const lora_fit *other)
{
    char x[160], y[160];
    const char *p = one->part->name, *q = other->part->name;
    return zt_fail(a->ctx, ZT_EDATA, "%s: '%s' and '%s' are one tensor of %s",
                   zt_lora_name(one->lora), zt_escape(x, sizeof x, p, strlen(p)),
                   zt_escape(y, sizeof y, q, strlen(q)), zt_checkpoint_name(a->base));
}

/* One more adapter for tensor i, whose rows it may add to. */
static zt_status add_item(zt_adapted *a, int64_t i, const lora_fit *fit, double scale)
{
    adapted_change *c = change_of(a, i);
    adapted_item *item =
        c ? zt_arena_alloc(a->arena, (size_t)(c->n + 1) * sizeof *item) : NULL;
    if (!item) return ZT_ENOMEM;
    if (c->n) memcpy(item, c->item, (size_t)c->n * sizeof *item);
    item[c->n++] = (adapted_item){*fit, scale};
    c->item = item;
    if (fit->part->whole < 0 || fit->turned || !a->entry[i].type.rank) return ZT_OK;
    zt_entry e;
    zt_checkpoint_get(fit->lora->file, fit->part->whole, &e);
    c->rows = e.type.dim[0] > c->rows ? e.type.dim[0] : c->rows;
    return ZT_OK;
}

/* Adapters that have no one meaning together. */
static zt_status check_change(const zt_adapted *a, int64_t i)
{
    const adapted_change *c = a->change[i];
    char shown[160];
    zt_escape(shown, sizeof shown, a->entry[i].name, strlen(a->entry[i].name));
    for (int k = 0; k < c->n; k++) {
        const adapted_item *item = &c->item[k];
        const char *name = zt_lora_name(item->fit.lora);
        bool alone = c->n == 1 && item->scale == 1;
        if (item->fit.part->magnitude >= 0 && c->n > 1)
            return zt_fail(a->ctx, ZT_ENOTSUP,
                           "%s: DoRA of '%s' does not go together with another adapter's", name,
                           shown);
        if (c->rows > c->base_rows && !alone)
            return zt_fail(a->ctx, ZT_ENOTSUP,
                           "%s: adds %lld rows to '%s', which goes with the scale 1 and without "
                           "another adapter for it",
                           name, (long long)(c->rows - c->base_rows), shown);
    }
    if (!a->o.floats && !zt_quantize_has(c->stored))
        return zt_fail(a->ctx, ZT_ENOTSUP, "%s: tensor '%s': %s is read, and not written",
                       zt_checkpoint_name(a->base), shown, zt_dtype_get(c->stored)->name);
    if (c->columns % zt_dtype_get(c->stored)->block)
        return zt_fail(a->ctx, ZT_ENOTSUP, "%s: tensor '%s': rows of %lld are not whole blocks",
                       zt_checkpoint_name(a->base), shown, (long long)c->columns);
    return ZT_OK;
}

typedef struct fits {
    lora_fit *fit;
    double *scale;
    int64_t n;
} fits;

/* ---- a head that was the embedding ----------------------------------------------------------- */

/* Does it change the embedding alone? Trained rows, and a whole one that is not among
 * modules_to_save (a vocabulary of another size) or that PEFT tied to its head, are of both. */
static bool unties(const lora_fit *f)
{
    const lora_part *p = f->part;
    return p->a >= 0 || (p->whole >= 0 && p->saved && !f->lora->config.tied);
}

/* A head that is whole and not among modules_to_save, or that PEFT tied to its embedding, is the
 * embedding, saved under both names. */
static bool is_tied_copy(const lora_fit *f)
{
    const lora_part *p = f->part;
    return f->tensor < 0 && p->whole >= 0 && (!p->saved || f->lora->config.tied) && p->a < 0 &&
           p->rows < 0;
}

/* Does the adapter have the embedding whole as well? */
static bool has_whole(const fits *f, const zt_lora *l, int64_t tensor)
{
    for (int64_t i = 0; i < f->n; i++)
        if (f->fit[i].lora == l && f->fit[i].tensor == tensor && f->fit[i].part->whole >= 0)
            return true;
    return false;
}

/* The whole of an embedding that is also of the head which it was. */
static zt_status share_whole(zt_adapted *a, const lora_fit *f, double scale)
{
    const adapted_change *head = a->change[a->n - 1];
    for (int k = 0; head && k < head->n; k++)
        if (head->item[k].fit.lora == f->lora && head->item[k].fit.part->whole >= 0) return ZT_OK;
    lora_part *p = zt_arena_alloc(a->arena, sizeof *p);
    if (!p) return ZT_ENOMEM;
    *p = *f->part;
    p->a = p->b = p->magnitude = p->rows = p->addend = -1;
    lora_fit fit = *f;
    fit.part = p;
    return add_item(a, a->n - 1, &fit, scale);
}

static void add_head(zt_adapted *a, const lora_ends *ends)
{
    a->entry[a->n] = a->entry[ends->embedding];
    a->entry[a->n].name = ends->head_name;
    a->of[a->n++] = ends->embedding;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static zt_status fit_all(zt_adapted *a, const zt_lora_use *adapter, int n, lora_ends *ends, fits *f)
{
    int64_t parts = 0;
    for (int k = 0; k < n; k++) parts += adapter[k].lora->n;
    f->fit = zt_calloc(a->ctx, (size_t)parts + 1, sizeof *f->fit);
    f->scale = zt_calloc(a->ctx, (size_t)parts + 1, sizeof *f->scale);
    zt_status s = f->fit && f->scale ? ZT_OK : ZT_ENOMEM;
    for (int k = 0; k < n && s == ZT_OK; k++) {
        const zt_lora *l = adapter[k].lora;
        lora_ends own;
        s = zt_lora_check_arch(l, a->base);
        zt_lora_ends(l, a->base, &own);
        if (own.head_name || k == 0) *ends = own;
        for (int64_t i = 0; i < l->n && s == ZT_OK; i++, f->n++) {
            f->scale[f->n] = adapter[k].scale;
            s = zt_lora_fit(l, a->base, &own, &l->part[i], &f->fit[f->n]);
        }
    }
    return s;
}

static zt_status list_changes(zt_adapted *a, const lora_ends *ends, const fits *f)
{
    bool head = false;
    const lora_fit *copied = NULL;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < f->n && ends->head_name; i++) {
        const lora_fit *fit = &f->fit[i];
        head = head || (fit->tensor < 0 && !is_tied_copy(fit)) ||
               (!fit->lora->gguf && fit->tensor == ends->embedding && unties(fit));
    }
    if (head) add_head(a, ends);
    for (int64_t i = 0; i < f->n && s == ZT_OK; i++) {
        const lora_fit *fit = &f->fit[i];
        bool copy = is_tied_copy(fit);
        if (copy && copied && copied->lora == fit->lora) {
            s = twice(a, copied, fit);
            continue;
        }
        copied = copy ? fit : copied;
        if (copy && has_whole(f, fit->lora, ends->embedding)) continue;
        int64_t to = copy ? ends->embedding : fit->tensor < 0 ? a->n - 1 : fit->tensor;
        const adapted_change *c = a->change[to];
        if (c && c->item[c->n - 1].fit.lora == fit->lora) /* an adapter's parts come together */
            s = twice(a, &c->item[c->n - 1].fit, fit);
        if (s == ZT_OK) s = add_item(a, to, fit, f->scale[i]);
    }
    for (int64_t i = 0; i < f->n && s == ZT_OK && head; i++) {
        const lora_fit *fit = &f->fit[i];
        if (fit->tensor == ends->embedding && fit->part->whole >= 0 && !fit->part->saved)
            s = share_whole(a, fit, f->scale[i]);
    }
    return s;
}

/* modules_to_save must be there: a module without its tensors would stay as it was. */
static zt_status check_saved(const zt_adapted *a, const zt_lora *l, const lora_ends *ends)
{
    size_t i;
    json_t *v;
    json_array_foreach(l->config.saved, i, v)
    {
        const char *name = json_string_value(v);
        size_t k = strlen(name);
        bool has = false;
        for (int64_t p = 0; p < l->n && !has; p++) {
            const char *m = l->part[p].module;
            size_t n = strlen(m);
            for (size_t at = 0; at + k <= n && !has; at++)
                has = !strncmp(m + at, name, k) && (!at || m[at - 1] == '.') &&
                      (at + k == n || m[at + k] == '.') && l->part[p].whole >= 0;
        }
        bool end = !strcmp(name, "lm_head") || !strcmp(name, "embed_tokens") || !strcmp(name, "wte");
        if (!has && end && ends->embedding >= 0)
            return zt_fail(a->ctx, ZT_EDATA, "%s: has no tensor of '%s', which is among "
                           "modules_to_save", zt_lora_name(l), name);
    }
    return ZT_OK;
}

/* Sizes, types and shapes of what is changed. */
static zt_status finish(zt_adapted *a, const lora_ends *ends)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < a->n && s == ZT_OK; i++) {
        adapted_change *c = a->change[i];
        zt_entry *e = &a->entry[i];
        if (!c) continue;
        s = check_change(a, i);
        if (e->type.rank) e->type.dim[0] = c->rows;
        if (a->o.floats) e->type.dtype = ZT_F32;
        size_t bytes;
        if (s == ZT_OK && !zt_type_check(a->ctx, &e->type, &bytes)) s = ZT_EDATA;
        e->dtype = zt_dtype_get(e->type.dtype)->name;
        e->bytes = s == ZT_OK ? bytes : 0;
        if (s == ZT_OK && c->rows > c->base_rows) a->grown = c->rows - c->base_rows;
    }
    if (s != ZT_OK || ends->embedding < 0) return s;
    int64_t head = ends->head >= 0               ? ends->head
                   : a->n > zt_checkpoint_count(a->base) ? a->n - 1
                                                         : -1;
    const zt_entry *e = &a->entry[ends->embedding], *h = head >= 0 ? &a->entry[head] : e;
    bool same = e->type.rank == 2 && h->type.rank == 2 && e->type.dim[0] == h->type.dim[0];
    return same || !a->grown
               ? ZT_OK
               : zt_fail(a->ctx, ZT_EDATA, "%s: with the adapters '%s' has %lld rows, and '%s' %lld",
                         zt_checkpoint_name(a->base), e->name, (long long)e->type.dim[0], h->name,
                         (long long)h->type.dim[0]);
}

/* ---- metadata -------------------------------------------------------------------------------- */

enum { ARRAY_HEAD = 12 }; /* kind and count before an array's elements */

/* An array of the tokenizer, with n elements of `bytes` more; NULL: of names for new tokens. */
static zt_status lengthen(zt_adapted *a, const char *key, zt_gguf_kind kind, int64_t to,
                          const void *one, size_t bytes)
{
    int64_t at = zt_meta_find(a->meta, key);
    zt_gguf_kind elem;
    uint64_t count, all = (uint64_t)to;
    if (at < 0 || !zt_meta_array(zt_meta_get(a->meta, at), &elem, &count) || elem != kind ||
        count >= all)
        return ZT_OK;
    const zt_meta_item *item = zt_meta_get(a->meta, at);
    uint32_t word = (uint32_t)elem;
    zt_str out;
    zt_str_init(&out, a->ctx);
    zt_status s = zt_str_put(&out, &word, sizeof word);
    if (s == ZT_OK) s = zt_str_put(&out, &all, sizeof all);
    if (s == ZT_OK) s = zt_str_put(&out, item->value + ARRAY_HEAD, item->bytes - ARRAY_HEAD);
    for (uint64_t i = count; i < all && s == ZT_OK; i++) {
        char name[32];
        uint64_t n = (uint64_t)snprintf(name, sizeof name, "[PAD%llu]", (unsigned long long)i);
        s = one ? zt_str_put(&out, one, bytes) : zt_str_put(&out, &n, sizeof n);
        if (s == ZT_OK && !one) s = zt_str_put(&out, name, (size_t)n);
    }
    if (s == ZT_OK) s = zt_meta_put(a->meta, key, ZT_GGUF_ARRAY, out.data, out.len);
    zt_str_fini(&out);
    return s;
}

/* The rows that were added are tokens without a name. */
static zt_status put_vocabulary(zt_adapted *a, int64_t rows)
{
    static const float score = 0;
    static const int32_t unused = 5;
    int64_t at = zt_meta_find(a->meta, "general.architecture");
    zt_bytes arch = at >= 0 ? zt_meta_text(zt_meta_get(a->meta, at)) : (zt_bytes){NULL, 0};
    char key[128];
    zt_status s = lengthen(a, "tokenizer.ggml.tokens", ZT_GGUF_STR, rows, NULL, 0);
    if (s == ZT_OK)
        s = lengthen(a, "tokenizer.ggml.scores", ZT_GGUF_F32, rows, &score, sizeof score);
    if (s == ZT_OK)
        s = lengthen(a, "tokenizer.ggml.token_type", ZT_GGUF_I32, rows, &unused, sizeof unused);
    if (s != ZT_OK || !arch.data || arch.n > 64) return s;
    snprintf(key, sizeof key, "%.*s.vocab_size", (int)arch.n, arch.data);
    return zt_meta_find(a->meta, key) >= 0 ? zt_meta_put_u32(a->meta, key, (uint32_t)rows) : ZT_OK;
}

/* Where it comes from: a model with other adapters is another model. */
static zt_status put_adapters(zt_adapted *a, const zt_lora_use *adapter, int n)
{
    zt_bytes *text = zt_calloc(a->ctx, (size_t)n * 2, sizeof *text);
    zt_status s = text ? ZT_OK : ZT_ENOMEM;
    for (int k = 0; k < n && s == ZT_OK; k++) {
        const char *name = zt_lora_name(adapter[k].lora);
        char *is = zt_arena_alloc(a->arena, strlen(name) + 40), *id = zt_arena_alloc(a->arena, 33);
        if (!is || !id) s = ZT_ENOMEM;
        if (s == ZT_OK) s = zt_dna_id(a->ctx, adapter[k].lora->file, id);
        if (s != ZT_OK) break;
        snprintf(is, strlen(name) + 40, "%s=%.17g", name, adapter[k].scale);
        text[k] = (zt_bytes){is, strlen(is)};
        text[n + k] = (zt_bytes){id, 32};
    }
    if (s == ZT_OK) s = zt_meta_put_strs(a->meta, "zt.lora.adapters", text, n);
    if (s == ZT_OK) s = zt_meta_put_strs(a->meta, "zt.lora.ids", text + n, n);
    zt_free(a->ctx, text);
    return s;
}

static zt_status put_meta(zt_adapted *a, const zt_lora_use *adapter, int n, const lora_ends *ends)
{
    a->meta = zt_meta_new(a->ctx);
    zt_status s = a->meta ? zt_meta_share(a->meta, zt_checkpoint_meta(a->base)) : ZT_ENOMEM;
    if (s == ZT_OK) s = put_adapters(a, adapter, n);
    if (s == ZT_OK && a->grown) s = put_vocabulary(a, a->entry[ends->embedding].type.dim[0]);
    return s;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void empty_slot(zt_adapted *a, adapted_slot *s)
{
    for (int k = 0; k < s->n; k++) zt_adapted_unload(a->ctx, &s->item[k]);
    zt_free(a->ctx, s->item);
    *s = (adapted_slot){.tensor = -1};
}

/* The slot that has tensor i, or the one that waited longest; NULL: all are in use. */
static adapted_slot *find_slot(zt_adapted *a, int64_t i)
{
    adapted_slot *oldest = NULL;
    for (int k = 0; k < ADAPTED_SLOTS; k++) {
        adapted_slot *s = &a->slot[k];
        if (s->tensor == i) return s;
        if (!s->users && (!oldest || s->used < oldest->used)) oldest = s;
    }
    return oldest;
}

static zt_status fill_slot(zt_adapted *a, adapted_slot *s, int64_t i)
{
    const adapted_change *c = a->change[i];
    empty_slot(a, s);
    s->item = zt_calloc(a->ctx, (size_t)c->n, sizeof *s->item);
    zt_status st = s->item ? ZT_OK : ZT_ENOMEM;
    for (; s->item && s->n < c->n && st == ZT_OK; s->n++)
        st = zt_adapted_load(a, c, &c->item[s->n], &s->item[s->n]);
    if (st == ZT_OK)
        s->tensor = i;
    else
        empty_slot(a, s);
    return st;
}

static zt_status hold(zt_adapted *a, int64_t i, adapted_slot **out)
{
    zt_status st = ZT_OK;
    pthread_mutex_lock(&a->lock);
    while (!(*out = find_slot(a, i))) pthread_cond_wait(&a->idle, &a->lock);
    if ((*out)->tensor != i) st = fill_slot(a, *out, i);
    if (st == ZT_OK) {
        (*out)->users++;
        (*out)->used = ++a->clock;
    }
    pthread_mutex_unlock(&a->lock);
    return st;
}

static void let_go(zt_adapted *a, adapted_slot *s)
{
    pthread_mutex_lock(&a->lock);
    if (!--s->users) pthread_cond_broadcast(&a->idle);
    pthread_mutex_unlock(&a->lock);
}

/* A read in strips of whole rows. */
typedef struct strips {
    zt_adapted *a;
    const adapted_change *c;
    const adapted_loaded *loaded;
    int64_t tensor, first, end, strip; /* rows */
    size_t row;                        /* bytes */
    uint64_t offset;
    size_t n;
    char *dst;
    atomic_llong next;
    atomic_int status;
} strips;

static zt_status encode(const strips *t, const float *y, int64_t first, int64_t n, char *out)
{
    const zt_entry *e = &t->a->entry[t->tensor];
    int64_t last = e->type.rank > 1 ? e->type.dim[e->type.rank - 1] : 1;
    int64_t rows = last ? n * t->c->columns / last : 0;
    zt_quantizer q = {.dtype = e->type.dtype, .n = last, .name = e->name};
    q.first_row = last ? first * t->c->columns / last : 0;
    if (!t->a->o.floats) return zt_quantize_rows(t->a->ctx, &q, y, rows, out);
    memcpy(out, y, (size_t)(n * t->c->columns) * sizeof *y);
    return ZT_OK;
}

/* Rows [first, first + n), of which what was asked for goes to its place. */
static zt_status do_strip(strips *t, int64_t first, int64_t n, float *y, char *bytes)
{
    int64_t count = n * t->c->columns;
    zt_status s = zt_adapted_rows(t->a, t->c, t->loaded, first, n, y, y + count);
    if (s == ZT_OK) s = encode(t, y, first, n, bytes);
    uint64_t from = (uint64_t)first * t->row, to = from + (uint64_t)n * t->row;
    uint64_t lo = from > t->offset ? from : t->offset;
    uint64_t hi = to < t->offset + t->n ? to : t->offset + t->n;
    if (s == ZT_OK && hi > lo)
        memcpy(t->dst + (lo - t->offset), bytes + (lo - from), (size_t)(hi - lo));
    return s;
}

static void do_strips(void *user, int thread, int n_threads)
{
    strips *t = user;
    zt_ctx *ctx = t->a->ctx;
    (void)thread, (void)n_threads;
    float *y = zt_alloc_array(ctx, (size_t)(3 * t->strip * t->c->columns) + 1, sizeof *y);
    char *bytes = zt_alloc(ctx, (size_t)t->strip * t->row + 1);
    int64_t k = 0;
    if (!y || !bytes) atomic_store(&t->status, ZT_ENOMEM);
    while (y && bytes && atomic_load(&t->status) == ZT_OK &&
           (k = t->first + t->strip * atomic_fetch_add(&t->next, 1)) < t->end) {
        zt_status s = do_strip(t, k, t->end - k < t->strip ? t->end - k : t->strip, y, bytes);
        if (s != ZT_OK) atomic_store(&t->status, (int)s);
    }
    zt_free(ctx, y);
    zt_free(ctx, bytes);
}

static zt_status read_strips(zt_adapted *a, strips *t)
{
    if (a->pool && t->end - t->first > t->strip && !pthread_mutex_trylock(&a->pool_lock)) {
        zt_pool_run(a->pool, do_strips, t);
        pthread_mutex_unlock(&a->pool_lock);
    } else {
        do_strips(t, 0, 1);
    }
    return (zt_status)atomic_load(&t->status);
}

zt_status zt_adapted_read(void *adapted, int64_t i, uint64_t offset, void *dst, size_t n)
{
    enum { STRIP = 1 << 15 };
    zt_adapted *a = adapted;
    const adapted_change *c = a->change[i];
    adapted_slot *slot;
    if (!c) return zt_checkpoint_read(a->base, a->of[i], offset, dst, n);
    zt_status s = hold(a, i, &slot);
    if (s != ZT_OK) return s;
    const zt_dtype_info *d = zt_dtype_get(a->entry[i].type.dtype);
    strips t = {.a = a, .c = c, .loaded = slot->item, .tensor = i, .offset = offset, .n = n};
    t.dst = dst;
    t.row = (size_t)(c->columns / d->block) * (size_t)d->block_bytes;
    t.strip = c->columns < STRIP ? STRIP / c->columns : 1;
    t.first = (int64_t)(offset / t.row);
    t.end = (int64_t)((offset + n + t.row - 1) / t.row);
    t.strip = t.strip < t.end - t.first ? t.strip : t.end - t.first;
    s = read_strips(a, &t);
    let_go(a, slot);
    return s;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void free_all(zt_adapted *a)
{
    for (int k = 0; k < ADAPTED_SLOTS; k++) empty_slot(a, &a->slot[k]);
    zt_pool_free(a->pool);
    zt_meta_free(a->meta);
    zt_free(a->ctx, a->entry);
    zt_free(a->ctx, a->of);
    zt_free(a->ctx, a->change);
    zt_arena_free(a->arena);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->pool_lock);
    pthread_cond_destroy(&a->idle);
    zt_free(a->ctx, a);
}

static void on_close(void *user)
{
    zt_adapted *a = user;
    if (a->released) free_all(a);
}

void zt_adapted_free(zt_adapted *a)
{
    if (!a) return;
    zt_checkpoint_close(a->made);
    free_all(a);
}

static zt_status begin(zt_adapted *a)
{
    int64_t n = zt_checkpoint_count(a->base);
    a->arena = zt_arena_new(a->ctx, 0);
    a->entry = zt_calloc(a->ctx, (size_t)n + 1, sizeof *a->entry);
    a->of = zt_calloc(a->ctx, (size_t)n + 1, sizeof *a->of);
    a->change = zt_calloc(a->ctx, (size_t)n + 1, sizeof(adapted_change *));
    a->pool = a->o.threads > 1
                  ? zt_pool_new(a->ctx, a->o.threads > 256 ? 256 : a->o.threads)
                  : NULL;
    if (!a->arena || !a->entry || !a->of || !a->change || (a->o.threads > 1 && !a->pool))
        return ZT_ENOMEM;
    for (; a->n < n; a->n++) {
        zt_checkpoint_get(a->base, a->n, &a->entry[a->n]);
        a->of[a->n] = a->n;
    }
    return zt_checkpoint_meta(a->base) ? ZT_OK : zt_ctx_status(a->ctx);
}

zt_adapted *zt_adapted_new(zt_ctx *ctx, zt_checkpoint *base, const zt_lora_use *adapter, int n,
                           const zt_adapted_opts *o)
{
    zt_adapted *a = zt_calloc(ctx, 1, sizeof *a);
    lora_ends ends = {.embedding = -1, .head = -1};
    fits f = {0};
    if (!a) return NULL;
    *a = (zt_adapted){.ctx = ctx, .base = base, .o = *o};
    for (int k = 0; k < ADAPTED_SLOTS; k++) a->slot[k].tensor = -1;
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->pool_lock, NULL);
    pthread_cond_init(&a->idle, NULL);
    zt_status s = begin(a);
    if (s == ZT_OK) s = fit_all(a, adapter, n, &ends, &f);
    for (int k = 0; k < n && s == ZT_OK; k++) s = check_saved(a, adapter[k].lora, &ends);
    if (s == ZT_OK) s = list_changes(a, &ends, &f);
    if (s == ZT_OK) s = finish(a, &ends);
    if (s == ZT_OK) s = put_meta(a, adapter, n, &ends);
    zt_free(ctx, f.fit);
    zt_free(ctx, f.scale);
    if (s == ZT_OK)
        a->made = zt_checkpoint_of_made(ctx, &(zt_made){.name = zt_checkpoint_name(base),
                                                        .container = zt_checkpoint_container(base),
                                                        .entries = a->entry,
                                                        .count = a->n,
                                                        .meta = a->meta,
                                                        .user = a,
                                                        .read = zt_adapted_read,
                                                        .release = on_close});
    if (a->made) return a;
    free_all(a);
    return NULL;
}

zt_checkpoint *zt_adapted_checkpoint(const zt_adapted *a) { return a->made; }

zt_checkpoint *zt_adapted_release(zt_adapted *a)
{
    a->released = true;
    return a->made;
}

bool zt_adapted_changes(const zt_adapted *a, int64_t i) { return a->change[i] != NULL; }

zt_dtype zt_adapted_type(const zt_adapted *a, int64_t i)
{
    return a->change[i] ? a->change[i]->stored : a->entry[i].type.dtype;
}

int64_t zt_adapted_grown(const zt_adapted *a) { return a->grown; }
