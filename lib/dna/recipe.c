/* recipe.c - owns recipes: a document's keys become models and slices, or are refused.
 *
 * The schema is mergekit's MergeConfiguration (0.1.5, docs of "Merge Configuration", as facts): its
 * common part. What is not in the tables below is refused by name.
 */
#include "lib/base/near.h"
#include "lib/dna/recipe_internal.h"

#include <stdio.h>
#include <string.h>

enum { MODELS = 256, SLICES = 4096 };

void *zt_recipe_room(builder *b, int64_t n, size_t size)
{
    size_t bytes;
    if (!zt_mul_size((size_t)n + 1, size, &bytes)) return NULL;
    void *p = zt_arena_alloc(b->r->arena, bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

/* ---- the walk over a map by a table of keys -------------------------------------------------- */

bool zt_recipe_is_null(const zt_tree *t)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; t->kind == ZT_TREE_SCALAR && t->plain && i < sizeof words / sizeof *words;
         i++)
        if (!strcmp(t->text, words[i])) return true;
    return false;
}

static const char *key_name(const void *rows, int i) { return ((const recipe_key *)rows)[i].name; }

zt_status zt_recipe_keys(builder *b, const zt_tree *map, const char *what, const recipe_key *rows,
                         void *into)
{
    if (map->kind != ZT_TREE_MAP) return REFUSE(map, "%s: keys and values were expected", what);
    for (int64_t i = 0; i < map->n; i++) {
        const zt_tree *key = map->item[2 * i], *value = map->item[2 * i + 1];
        const recipe_key *row = rows;
        char shown[80];
        zt_near_hint hint;
        while (row->name && strcmp(row->name, key->text)) row++;
        if (!row->name)
            return REFUSE(key, "%s: unknown key '%s'%s", what,
                          zt_escape(shown, sizeof shown, key->text, strlen(key->text)),
                          zt_near(hint, key->text, key_name, rows));
        if (!row->fn)
            return REFUSE(key, "%s: the key '%s' of mergekit is not supported", what, key->text);
        zt_status s = zt_recipe_is_null(value) ? ZT_OK : row->fn(b, value, into);
        if (s != ZT_OK) return s;
    }
    return ZT_OK;
}

zt_status zt_recipe_text(builder *b, const zt_tree *t, const char *what, const char **out)
{
    if (t->kind != ZT_TREE_SCALAR || !*t->text) return REFUSE(t, "%s: a text was expected", what);
    *out = zt_arena_strndup(b->r->arena, t->text, strlen(t->text));
    return *out ? ZT_OK : ZT_ENOMEM;
}

/* ---- models and slices ----------------------------------------------------------------------- */

static zt_status model_of(builder *b, const zt_tree *t, int *out)
{
    zt_recipe *r = b->r;
    if (t->kind != ZT_TREE_SCALAR || !*t->text)
        return REFUSE(t, "a model: its file's name was expected");
    for (const char *p = t->text; *p; p++)
        if ((unsigned char)*p < ' ') return REFUSE(t, "a model: a name with control characters");
    for (*out = 0; *out < r->n_models; (*out)++)
        if (!strcmp(r->model[*out], t->text)) return ZT_OK;
    if (r->n_models == MODELS) return REFUSE(t, "more than %d models", MODELS);
    r->model[*out] = zt_arena_strndup(r->arena, t->text, strlen(t->text));
    r->n_models += r->model[*out] != NULL;
    return r->model[*out] ? ZT_OK : ZT_ENOMEM;
}

static zt_status on_model(builder *b, const zt_tree *t, void *into)
{
    return model_of(b, t, &((merge_source *)into)->model);
}

static zt_status on_scope_of_source(builder *b, const zt_tree *t, void *into)
{
    return zt_recipe_parameters(b, t, &((merge_source *)into)->scope);
}

static zt_status on_range(builder *b, const zt_tree *t, void *into)
{
    merge_source *s = into;
    bool good = t->kind == ZT_TREE_LIST && t->n == 2 && t->item[0]->kind == ZT_TREE_SCALAR &&
                t->item[1]->kind == ZT_TREE_SCALAR && zt_parse_i64(t->item[0]->text, &s->from) &&
                zt_parse_i64(t->item[1]->text, &s->to) && s->from >= 0 && s->from <= s->to;
    return good ? ZT_OK : REFUSE(t, "layer_range: [first, past the last] was expected");
}

static zt_status source_of(builder *b, const zt_tree *t, const char *what, const recipe_key *keys,
                           merge_source *s)
{
    *s = (merge_source){.model = -1, .to = -1, .line = t->line};
    zt_status st = zt_recipe_keys(b, t, what, keys, s);
    return st == ZT_OK && s->model < 0 ? REFUSE(t, "%s without 'model'", what) : st;
}

static zt_status sources_of(builder *b, const zt_tree *t, const char *what, const recipe_key *keys,
                            merge_slice *slice)
{
    if (t->kind != ZT_TREE_LIST || !t->n) return REFUSE(t, "%s: a list was expected", what);
    if (t->n >= MERGE_SOURCES) return REFUSE(t, "%s: more than %d", what, MERGE_SOURCES - 1);
    slice->source =
        zt_recipe_room(b, t->n + 1, sizeof *slice->source); /* and the base, if it is not there */
    slice->base = -1;
    for (int64_t i = 0; slice->source && i < t->n; i++) {
        zt_status s = source_of(b, t->item[i], what, keys, &slice->source[slice->n++]);
        for (int k = 0; s == ZT_OK && k < i; k++)
            if (slice->source[k].model == slice->source[i].model)
                s = REFUSE(t->item[i], "%s: '%s' comes twice", what,
                           b->r->model[slice->source[i].model]);
        if (s != ZT_OK) return s;
    }
    return slice->source ? ZT_OK : ZT_ENOMEM;
}

static zt_status on_models(builder *b, const zt_tree *t, void *into)
{
    static const recipe_key keys[] = {{"model", on_model}, {"parameters", on_scope_of_source}, {0}};
    zt_recipe *r = into;
    r->slice = zt_recipe_room(b, 1, sizeof *r->slice);
    r->n_slices = 1;
    return r->slice ? sources_of(b, t, "models", keys, r->slice) : ZT_ENOMEM;
}

typedef struct slice_into {
    merge_slice *slice;
    int base;
} slice_into;

static zt_status on_sources(builder *b, const zt_tree *t, void *into)
{
    static const recipe_key keys[] = {
        {"model", on_model}, {"layer_range", on_range}, {"parameters", on_scope_of_source}, {0}};
    return sources_of(b, t, "sources", keys, ((slice_into *)into)->slice);
}

static zt_status on_slice_scope(builder *b, const zt_tree *t, void *into)
{
    return zt_recipe_parameters(b, t, &((slice_into *)into)->slice->scope);
}

static zt_status on_slice_base(builder *b, const zt_tree *t, void *into)
{
    return model_of(b, t, &((slice_into *)into)->base);
}

/* Every source says which layers; the base is one of them. */
static zt_status check_slice(builder *b, const zt_tree *t, const slice_into *into)
{
    merge_slice *slice = into->slice;
    if (!slice->n) return REFUSE(t, "a slice without 'sources'");
    for (int i = 0; i < slice->n; i++) {
        if (slice->source[i].to < 0) return REFUSE(t, "a source without 'layer_range'");
        if (slice->source[i].model == into->base) slice->base = i;
    }
    return into->base < 0 || slice->base >= 0
               ? ZT_OK
               : REFUSE(t, "a slice's base_model is none of its sources");
}

static zt_status on_slices(builder *b, const zt_tree *t, void *into)
{
    static const recipe_key keys[] = {{"sources", on_sources},
                                      {"parameters", on_slice_scope},
                                      {"base_model", on_slice_base},
                                      {"residual_weight", NULL},
                                      {0}};
    zt_recipe *r = into;
    if (t->kind != ZT_TREE_LIST || !t->n) return REFUSE(t, "slices: a list was expected");
    if (t->n > SLICES) return REFUSE(t, "slices: more than %d", SLICES);
    r->slice = zt_recipe_room(b, t->n, sizeof *r->slice);
    for (int64_t i = 0; r->slice && i < t->n; i++) {
        slice_into one = {.slice = &r->slice[r->n_slices++], .base = -1};
        one.slice->base = -1;
        zt_status s = zt_recipe_keys(b, t->item[i], "slices", keys, &one);
        if (s == ZT_OK) s = check_slice(b, t->item[i], &one);
        if (s != ZT_OK) return s;
    }
    return r->slice ? ZT_OK : ZT_ENOMEM;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static const char *method_name(const void *user, int i)
{
    (void)user;
    return zt_merge_method_at(i) ? zt_merge_method_at(i)->name : NULL;
}

static zt_status on_method(builder *b, const zt_tree *t, void *into)
{
    const char *name = NULL;
    char shown[80], known[400];
    zt_near_hint hint;
    size_t n = 0;
    zt_status s = zt_recipe_text(b, t, "merge_method", &name);
    if (s != ZT_OK) return s;
    ((zt_recipe *)into)->method = zt_merge_method_find(name);
    if (((zt_recipe *)into)->method) return ZT_OK;
    for (int i = 0; zt_merge_method_at(i) && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "",
                              zt_merge_method_at(i)->name);
    return REFUSE(t, "there is no merge_method '%s'%s: %s",
                  zt_escape(shown, sizeof shown, name, strlen(name)),
                  zt_near(hint, name, method_name, NULL), known);
}

static zt_status on_base(builder *b, const zt_tree *t, void *into)
{
    return model_of(b, t, &((zt_recipe *)into)->base);
}

static zt_status on_scope(builder *b, const zt_tree *t, void *into)
{
    return zt_recipe_parameters(b, t, &((zt_recipe *)into)->scope);
}

static zt_status dtype_of(builder *b, const zt_tree *t, const char *what, zt_dtype *out)
{
    static const struct {
        const char *name;
        zt_dtype dtype;
    } words[] = {{"float32", ZT_F32},     {"float", ZT_F32},   {"float16", ZT_F16},
                 {"half", ZT_F16},        {"float64", ZT_F64}, {"bfloat16", ZT_BF16},
                 {"auto", ZT_DTYPE_COUNT}};
    const char *name = NULL;
    char shown[80];
    zt_status s = zt_recipe_text(b, t, what, &name);
    if (s != ZT_OK) return s;
    if (!strncmp(name, "torch.", 6)) name += 6;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, name)) return *out = words[i].dtype, ZT_OK;
    if (zt_dtype_parse(name, strlen(name), out) && zt_quantize_has(*out)) return ZT_OK;
    return REFUSE(t, "%s: there is no type '%s' to write", what,
                  zt_escape(shown, sizeof shown, name, strlen(name)));
}

/* The type that is computed in says the child's too, unless out_dtype does: we compute in f32. */
static zt_status on_dtype(builder *b, const zt_tree *t, void *into)
{
    zt_dtype d = ZT_DTYPE_COUNT;
    zt_recipe *r = into;
    zt_status s = dtype_of(b, t, "dtype", &d);
    if (s == ZT_OK && r->dtype == ZT_DTYPE_COUNT) r->dtype = d;
    return s;
}

static zt_status on_out_dtype(builder *b, const zt_tree *t, void *into)
{
    zt_dtype d = ZT_DTYPE_COUNT;
    zt_status s = dtype_of(b, t, "out_dtype", &d);
    if (s == ZT_OK && d != ZT_DTYPE_COUNT) ((zt_recipe *)into)->dtype = d;
    return s;
}

/* "base", "union" or a model; the base itself may come later in the document. */
static zt_status on_tokens(builder *b, const zt_tree *t, void *into)
{
    zt_recipe *r = into;
    if (t->kind == ZT_TREE_SCALAR && !strcmp(t->text, "base")) return ZT_OK;
    if (t->kind == ZT_TREE_SCALAR && !strcmp(t->text, "union"))
        return r->tokens = TOKENS_UNION, ZT_OK;
    return model_of(b, t, &r->tokens);
}

static zt_status on_tokenizer(builder *b, const zt_tree *t, void *into)
{
    static const recipe_key keys[] = {
        {"source", on_tokens}, {"tokens", NULL}, {"pad_to_multiple_of", NULL}, {0}};
    return zt_recipe_keys(b, t, "tokenizer", keys, into);
}

static zt_status on_template(builder *b, const zt_tree *t, void *into)
{
    zt_recipe *r = into;
    zt_status s = zt_recipe_text(b, t, "chat_template", &r->chat_template);
    if (s != ZT_OK) return s;
    if (!strcmp(r->chat_template, "auto")) return r->chat_template = NULL, ZT_OK;
    return strchr(r->chat_template, '{')
               ? ZT_OK
               : REFUSE(t, "chat_template: 'auto' or a template was expected, not a name");
}

static zt_status check_whole(builder *b, const zt_tree *t)
{
    zt_recipe *r = b->r;
    if (!r->method) return REFUSE(t, "it names no merge_method");
    if (!zt_tree_get(t, "models") == !zt_tree_get(t, "slices") || !r->n_slices)
        return REFUSE(t, "it needs 'models' or 'slices', one of them");
    if (zt_tree_get(t, "tokenizer_source") && zt_tree_get(t, "tokenizer"))
        return REFUSE(t, "tokenizer_source and tokenizer say the same");
    return ZT_OK;
}

/* The base is a source of every slice, the last of those that models list without it. */
static zt_status place_base(builder *b, const zt_tree *t)
{
    zt_recipe *r = b->r;
    bool listed = zt_tree_get(t, "models") != NULL;
    for (int i = 0; r->base >= 0 && i < r->n_slices; i++) {
        merge_slice *slice = &r->slice[i];
        for (int k = 0; k < slice->n && slice->base < 0; k++)
            if (slice->source[k].model == r->base) slice->base = k;
        if (slice->base >= 0) continue;
        if (!listed)
            return REFUSE(t, "slice %d: base_model '%s' is none of its sources", i + 1,
                          r->model[r->base]);
        slice->base = slice->n;
        slice->source[slice->n++] = (merge_source){.model = r->base, .to = -1};
    }
    return ZT_OK;
}

static zt_status check_contract(builder *b, const zt_tree *t)
{
    const zt_recipe *r = b->r;
    const merge_method *m = r->method;
    for (int i = 0; i < r->n_slices; i++) {
        const merge_slice *s = &r->slice[i];
        int others = s->n - (m->base && s->base >= 0);
        if (m->base == 2 && s->base < 0) return REFUSE(t, "%s needs a base_model", m->about.name);
        if (s->n < m->least || (m->most && s->n > m->most) || others < m->least_others ||
            (m->most_others && others > m->most_others))
            return REFUSE(t, "%s is not of %d model%s%s", m->about.name, s->n, s->n == 1 ? "" : "s",
                          s->base >= 0 ? ", the base counted" : "");
    }
    return ZT_OK;
}

static zt_status build(builder *b, const zt_tree *t)
{
    static const recipe_key keys[] = {{"merge_method", on_method}, {"base_model", on_base},
                                      {"models", on_models},       {"slices", on_slices},
                                      {"parameters", on_scope},    {"dtype", on_dtype},
                                      {"out_dtype", on_out_dtype}, {"tokenizer_source", on_tokens},
                                      {"tokenizer", on_tokenizer}, {"chat_template", on_template},
                                      {"modules", NULL},           {0}};
    zt_status s = zt_recipe_keys(b, t, "recipe", keys, b->r);
    if (s == ZT_OK) s = check_whole(b, t);
    if (s == ZT_OK) s = place_base(b, t);
    return s == ZT_OK ? check_contract(b, t) : s;
}

zt_recipe *zt_recipe_parse(zt_ctx *ctx, const char *name, const char *text, size_t n)
{
    zt_arena *arena = zt_arena_new(ctx, 0);
    zt_recipe *r = arena ? zt_arena_alloc(arena, sizeof *r) : NULL;
    if (!r) {
        zt_arena_free(arena);
        return NULL;
    }
    *r = (zt_recipe){.ctx = ctx,
                     .arena = arena,
                     .base = -1,
                     .dtype = ZT_DTYPE_COUNT,
                     .tokens = TOKENS_OF_FIRST,
                     .text_n = n};
    builder b = {.r = r, .ctx = ctx};
    r->name = zt_arena_strndup(arena, name, strlen(name));
    r->text = n <= ZT_TREE_BYTES ? zt_arena_strndup(arena, text, n) : "";
    r->model = zt_recipe_room(&b, MODELS, sizeof *r->model);
    bool good = r->name && r->text && r->model;
    const zt_tree *t = good ? zt_tree_parse(ctx, arena, r->name, text, n) : NULL;
    if (t && build(&b, t) == ZT_OK) return r;
    zt_recipe_free(r);
    return NULL;
}

zt_recipe *zt_recipe_open(zt_ctx *ctx, const char *path)
{
    zt_source *in = zt_source_open(ctx, path);
    uint64_t n = in ? zt_source_size(in) : 0;
    zt_recipe *r = NULL;
    char *text = in && n <= ZT_TREE_BYTES ? zt_alloc(ctx, (size_t)n + 1) : NULL;
    if (in && n > ZT_TREE_BYTES)
        zt_fail(ctx, ZT_EDATA, "%s: %llu bytes are no recipe: at most %d", zt_source_name(in),
                (unsigned long long)n, ZT_TREE_BYTES);
    if (text && zt_source_read(in, 0, text, (size_t)n) == ZT_OK)
        r = zt_recipe_parse(ctx, zt_source_name(in), text, (size_t)n);
    zt_free(ctx, text);
    zt_source_close(in);
    return r;
}

void zt_recipe_free(zt_recipe *r)
{
    if (r) zt_arena_free(r->arena);
}

int zt_recipe_count(const zt_recipe *r) { return r->n_models; }
const char *zt_recipe_model(const zt_recipe *r, int i) { return r->model[i]; }

int zt_recipe_first(const zt_recipe *r)
{
    return r->base >= 0 ? r->base : r->slice[0].source[0].model;
}
