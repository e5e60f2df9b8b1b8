/* lora.c - owns adapters: their files, which of their matrices is for which of a model's, and
 * adding them.
 *
 * PEFT (huggingface/peft, "LoRA", as facts): adapter_config.json, adapter_model.safetensors with
 * base_model.model.MODULE.lora_A.weight [r, in] and lora_B.weight [out, r]; of embeddings
 * lora_embedding_A [r, tokens] and _B [columns, r]; scale lora_alpha / r, over the root of r with
 * use_rslora. GGUF (llama.cpp, convert_lora_to_gguf.py, as facts): general.type "adapter",
 * adapter.type "lora", NAME.lora_a [r, in], NAME.lora_b [out, r], scale adapter.lora.alpha / r.
 * Rows of q and k that rope pairs lie differently in GGUF: they are moved.
 */
#include "lib/dna/lora_part.h"

#include "lib/dna/merge_room.h"
#include "lib/io/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct part {
    const char *name; /* of the matrix, as the adapter's side calls it */
    int64_t a, b;     /* tensors of the file, or -1 */
    bool embedding;   /* of a transposed matrix: [r, rows], [columns, r] */
    int64_t r;
    double scale;
} part;

struct zt_lora {
    zt_ctx *ctx;
    zt_arena *arena;
    zt_checkpoint *file;
    part *part;
    int64_t n;
    zt_map *by_name, *by_hf_name; /* parts; the latter of a GGUF's */
    bool gguf, root, transposed;  /* transposed: fan_in_fan_out */
    double alpha;
    json_t *config, *alphas; /* alphas: of single modules, or NULL */
};

void zt_lora_close(zt_lora *l)
{
    if (!l) return;
    json_decref(l->config);
    zt_checkpoint_close(l->file);
    zt_map_free(l->by_name);
    zt_map_free(l->by_hf_name);
    zt_free(l->ctx, l->part);
    zt_arena_free(l->arena);
    zt_free(l->ctx, l);
}

static const char *file_of(const zt_lora *l) { return zt_checkpoint_name(l->file); }

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct ending {
    const char *text;
    bool is_b, embedding;
} ending;

static const ending peft[] = {{".lora_A.weight", false, false},
                              {".lora_B.weight", true, false},
                              {".lora_A.default.weight", false, false},
                              {".lora_B.default.weight", true, false},
                              {".lora_embedding_A", false, true},
                              {".lora_embedding_B", true, true},
                              {".lora_embedding_A.default", false, true},
                              {".lora_embedding_B.default", true, true},
                              {NULL, false, false}};
static const ending ggufs[] = {
    {".lora_a", false, false}, {".lora_b", true, false}, {NULL, false, false}};

/* The matrix that a tensor of the adapter is for, in the arena; NULL with an error: none. */
static const char *target_of(zt_lora *l, const char *name, const ending **how)
{
    const char *prefix = "base_model.model.";
    char shown[160];
    for (const ending *e = l->gguf ? ggufs : peft; e->text; e++) {
        size_t n = strlen(name), k = strlen(e->text), skip = 0;
        if (n <= k || strcmp(name + n - k, e->text)) continue;
        if (!l->gguf && !strncmp(name, prefix, strlen(prefix))) skip = strlen(prefix);
        char *out = skip < n - k ? zt_arena_alloc(l->arena, n + 8) : NULL;
        if (!out) break;
        snprintf(out, n + 8, "%.*s%s", (int)(n - k - skip), name + skip, l->gguf ? "" : ".weight");
        *how = e;
        return out;
    }
    zt_fail(l->ctx, ZT_EDATA, "%s: tensor '%s' is no part of a LoRA that is supported", file_of(l),
            zt_escape(shown, sizeof shown, name, strlen(name)));
    return NULL;
}

/* What a tensor of the file is of: a new part, or one whose other half is there. */
static zt_status add_tensor(zt_lora *l, int64_t i)
{
    const ending *how = NULL;
    char hf[256];
    int64_t at;
    zt_entry e;
    zt_checkpoint_get(l->file, i, &e);
    size_t n = strlen(e.name), k = strlen(".base_layer.weight");
    if (!l->gguf && n > k && !strcmp(e.name + n - k, ".base_layer.weight"))
        return ZT_OK; /* the model's own */
    const char *name = target_of(l, e.name, &how);
    if (!name || !how) return zt_ctx_status(l->ctx);
    zt_status s = ZT_OK;
    if (!zt_map_get(l->by_name, name, strlen(name), &at)) {
        at = l->n++;
        l->part[at] = (part){.name = name, .a = -1, .b = -1, .embedding = how->embedding};
        s = zt_map_put(l->by_name, name, strlen(name), at);
        const char *as = l->gguf ? zt_merge_hf_name(name, hf, sizeof hf) : NULL;
        const char *kept = as ? zt_arena_strndup(l->arena, as, strlen(as)) : NULL;
        if (s == ZT_OK && as)
            s = kept ? zt_map_put(l->by_hf_name, kept, strlen(kept), at) : ZT_ENOMEM;
    }
    *(how->is_b ? &l->part[at].b : &l->part[at].a) = i;
    return s;
}

static zt_status list_parts(zt_lora *l)
{
    int64_t n = zt_checkpoint_count(l->file);
    l->by_name = zt_map_new(l->ctx, (size_t)n);
    l->by_hf_name = zt_map_new(l->ctx, (size_t)n);
    l->part = zt_calloc(l->ctx, (size_t)n + 1, sizeof *l->part);
    zt_status s = l->by_name && l->by_hf_name && l->part ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < n && s == ZT_OK; i++) s = add_tensor(l, i);
    return s;
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* The alpha of one module: alpha_pattern's last words of names, else the adapter's. */
static double alpha_of(const zt_lora *l, const char *name)
{
    size_t n = strlen(name) - strlen(".weight");
    const char *key;
    json_t *value;
    json_object_foreach(l->alphas, key, value)
    {
        size_t k = strlen(key);
        bool ends = k <= n && !strncmp(name + n - k, key, k) && (k == n || name[n - k - 1] == '.');
        if (ends && json_is_number(value)) return json_number_value(value);
    }
    return l->alpha;
}

/* Two matrices of one rank; the scale. */
static zt_status check_part(const zt_lora *l, part *p)
{
    zt_entry a, b;
    char shown[160];
    zt_escape(shown, sizeof shown, p->name, strlen(p->name));
    if (p->a < 0 || p->b < 0)
        return zt_fail(l->ctx, ZT_EDATA, "%s: '%s' has one of A and B alone", file_of(l), shown);
    zt_checkpoint_get(l->file, p->a, &a);
    zt_checkpoint_get(l->file, p->b, &b);
    /* llama.cpp's of the tokens: [tokens, r] and [columns, r] */
    bool tokens = l->gguf && !strncmp(p->name, "token_embd.", 11);
    if (a.type.rank == 2 && b.type.rank == 2) p->r = tokens ? a.type.dim[1] : a.type.dim[0];
    if (a.type.rank != 2 || b.type.rank != 2 || p->r < 1 || b.type.dim[1] != p->r ||
        !zt_dtype_is_float(a.type.dtype) || !zt_dtype_is_float(b.type.dtype))
        return zt_fail(l->ctx, ZT_EDATA, "%s: A and B of '%s' are no matrices of one rank",
                       file_of(l), shown);
    p->embedding = p->embedding || tokens;
    double alpha = l->gguf ? l->alpha : alpha_of(l, p->name);
    p->scale = l->gguf && alpha == 0 ? 1 : alpha / (l->root ? sqrt((double)p->r) : (double)p->r);
    return isfinite(p->scale) ? ZT_OK
                              : zt_fail(l->ctx, ZT_EDATA, "%s: its alpha is no number", file_of(l));
}

/* ---- files ----------------------------------------------------------------------------------- */

static bool is_true(const json_t *config, const char *key)
{
    return json_is_true(json_object_get(config, key));
}

static zt_status read_config(zt_lora *l, const char *path)
{
    const char *type = NULL;
    l->config = zt_json_file(l->ctx, path, 1 << 20);
    if (!l->config) return zt_ctx_status(l->ctx);
    type = json_string_value(json_object_get(l->config, "peft_type"));
    if (type && strcmp(type, "LORA"))
        return zt_fail(l->ctx, ZT_ENOTSUP, "%s: peft_type '%.40s': only LORA is read", path, type);
    if (is_true(l->config, "use_dora"))
        return zt_fail(l->ctx, ZT_ENOTSUP, "%s: use_dora is not supported", path);
    json_t *alpha = json_object_get(l->config, "lora_alpha"), *r = json_object_get(l->config, "r");
    if (!json_is_number(alpha) && !json_is_number(r))
        return zt_fail(l->ctx, ZT_EDATA, "%s: has neither lora_alpha nor r", path);
    l->alpha = json_is_number(alpha) ? json_number_value(alpha) : json_number_value(r);
    l->root = is_true(l->config, "use_rslora");
    l->transposed = is_true(l->config, "fan_in_fan_out");
    l->alphas = json_object_get(l->config, "alpha_pattern");
    return ZT_OK;
}

static zt_status read_keys(zt_lora *l)
{
    const zt_meta *m = zt_checkpoint_meta(l->file);
    int64_t type = zt_meta_find(m, "adapter.type"), alpha = zt_meta_find(m, "adapter.lora.alpha");
    zt_bytes word = type >= 0 ? zt_meta_text(zt_meta_get(m, type)) : (zt_bytes){NULL, 0};
    float f = 0;
    if (!word.data || word.n != 4 || memcmp(word.data, "lora", 4))
        return zt_fail(l->ctx, ZT_EDATA, "%s: is no LoRA: adapter.type does not say so",
                       file_of(l));
    if (alpha >= 0 && zt_meta_get(m, alpha)->kind == ZT_GGUF_F32)
        memcpy(&f, zt_meta_get(m, alpha)->value, 4);
    l->alpha = f;
    return ZT_OK;
}

/* A directory, or the file in it: then the configuration lies beside. */
static zt_status open_files(zt_lora *l, const char *path)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const char *slash = strrchr(path, '/');
    zt_str name;
    zt_str_init(&name, l->ctx);
    zt_status s = folder ? zt_str_printf(&name, "%s/adapter_model.safetensors", path)
                         : zt_str_puts(&name, path);
    if (s == ZT_OK) l->file = zt_checkpoint_open(l->ctx, name.data, 0);
    s = l->file && zt_checkpoint_meta(l->file) ? ZT_OK : zt_ctx_status(l->ctx);
    l->gguf = l->file && zt_checkpoint_container(l->file) == zt_container_named("gguf");
    zt_str_clear(&name);
    if (s == ZT_OK)
        s = folder ? zt_str_printf(&name, "%s/adapter_config.json", path)
                   : zt_str_printf(&name, "%.*sadapter_config.json",
                                   slash ? (int)(slash - path) + 1 : 0, path);
    if (s == ZT_OK) s = l->gguf ? read_keys(l) : read_config(l, name.data);
    zt_str_fini(&name);
    return s;
}

zt_lora *zt_lora_open(zt_ctx *ctx, const char *path)
{
    zt_lora *l = zt_calloc(ctx, 1, sizeof *l);
    if (!l) return NULL;
    l->ctx = ctx;
    l->arena = zt_arena_new(ctx, 0);
    zt_status s = l->arena ? open_files(l, path) : ZT_ENOMEM;
    if (s == ZT_OK) s = list_parts(l);
    for (int64_t i = 0; i < l->n && s == ZT_OK; i++) s = check_part(l, &l->part[i]);
    if (s == ZT_OK && !l->n) s = zt_fail(ctx, ZT_EDATA, "%s: has no LoRA in it", path);
    if (s == ZT_OK) return l;
    zt_lora_close(l);
    return NULL;
}

/* ---- to a model ------------------------------------------------------------------------------ */

/* The part for a tensor of the model; NULL: none. *other: the names are of the other side's kind.
 */
static const part *part_of(const zt_lora *l, const char *name, bool *other)
{
    char buf[256];
    int64_t at;
    *other = false;
    if (zt_map_get(l->by_name, name, strlen(name), &at)) return &l->part[at];
    *other = true;
    const char *as = l->gguf ? name : zt_merge_hf_name(name, buf, sizeof buf);
    const zt_map *map = l->gguf ? l->by_hf_name : l->by_name;
    return as && zt_map_get(map, as, strlen(as), &at) ? &l->part[at] : NULL;
}

static int64_t number_in(const zt_meta_item *item, int64_t layer)
{
    zt_gguf_kind elem;
    uint64_t count;
    uint32_t u = 0;
    if (item->kind == ZT_GGUF_U32 || item->kind == ZT_GGUF_I32) memcpy(&u, item->value, 4);
    if (zt_meta_array(item, &elem, &count) && layer >= 0 && (uint64_t)layer < count &&
        (elem == ZT_GGUF_U32 || elem == ZT_GGUF_I32))
        memcpy(&u, item->value + 12 + 4 * layer, 4); /* behind kind and count */
    return u;
}

int64_t zt_lora_heads(zt_checkpoint *model, const char *name)
{
    static const char *const archs[] = {"llama", "smollm3", "granite"};
    const zt_meta *m = zt_checkpoint_meta(model);
    bool q = strstr(name, ".attn_q."), k = strstr(name, ".attn_k.");
    int64_t at = zt_meta_find(m, "general.architecture");
    zt_bytes arch = at >= 0 ? zt_meta_text(zt_meta_get(m, at)) : (zt_bytes){NULL, 0};
    char key[160];
    size_t where, digits;
    bool paired = false;
    if (!q && !k) return 0;
    for (size_t i = 0; i < sizeof archs / sizeof *archs && arch.data; i++)
        paired = paired || (strlen(archs[i]) == arch.n && !memcmp(archs[i], arch.data, arch.n));
    if (!paired) return arch.data ? 0 : -1;
    snprintf(key, sizeof key, "%.*s.attention.head_count%s", (int)arch.n, arch.data,
             k ? "_kv" : "");
    at = zt_meta_find(m, key);
    if (at < 0 && k) {
        key[strlen(key) - 3] = 0;
        at = zt_meta_find(m, key);
    }
    int64_t n = at >= 0 ? number_in(zt_meta_get(m, at), zt_merge_layer(name, &where, &digits)) : 0;
    return n > 0 ? n : -1;
}

/* How the part lies in the model's matrix. */
typedef struct fit {
    const part *p;
    bool turned;   /* A and B change places */
    int64_t heads; /* rows of B are paired; 0: not */
    zt_type a, b;
} fit;

static zt_status fit_to(const zt_lora *l, zt_checkpoint *model, int64_t tensor, fit *f)
{
    zt_entry e, x;
    bool other;
    char shown[160];
    zt_checkpoint_get(model, tensor, &e);
    *f = (fit){.p = part_of(l, e.name, &other)};
    if (!f->p) return ZT_OK;
    zt_escape(shown, sizeof shown, e.name, strlen(e.name));
    f->turned = f->p->embedding || (l->transposed && !other);
    zt_checkpoint_get(l->file, f->p->a, &x);
    f->a = x.type;
    zt_checkpoint_get(l->file, f->p->b, &x);
    f->b = x.type;
    int64_t columns = f->turned ? f->b.dim[0] : f->a.dim[1],
            rows = f->turned ? f->a.dim[1] : f->b.dim[0];
    if (l->gguf && f->p->embedding) rows = f->a.dim[0];
    if (e.type.rank != 2 || e.type.dim[0] != rows || e.type.dim[1] != columns)
        return zt_fail(l->ctx, ZT_ESHAPE, "%s: is for '%s' of [%lld,%lld], not of %s", file_of(l),
                       shown, (long long)rows, (long long)columns, zt_checkpoint_name(model));
    if (l->gguf && other)
        return zt_fail(l->ctx, ZT_ENOTSUP, "%s: is for a GGUF, and %s has other names", file_of(l),
                       zt_checkpoint_name(model));
    f->heads = other ? zt_lora_heads(model, e.name) : 0;
    if (f->heads < 0 || (f->heads && rows % (2 * f->heads)))
        return zt_fail(l->ctx, ZT_EDATA, "%s: '%s': the number of heads is not known",
                       zt_checkpoint_name(model), shown);
    return ZT_OK;
}

zt_status zt_lora_check(const zt_lora *l, zt_checkpoint *model)
{
    bool *found = zt_calloc(l->ctx, (size_t)l->n + 1, sizeof *found);
    zt_status s = found ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < zt_checkpoint_count(model) && s == ZT_OK; i++) {
        fit f;
        s = fit_to(l, model, i, &f);
        if (f.p) found[f.p - l->part] = true;
    }
    for (int64_t k = 0; k < l->n && s == ZT_OK; k++) {
        const char *name = l->part[k].name;
        char shown[160];
        if (!found[k])
            s = zt_fail(l->ctx, ZT_EDATA, "%s: is for a tensor '%s', which %s has not", file_of(l),
                        zt_escape(shown, sizeof shown, name, strlen(name)),
                        zt_checkpoint_name(model));
    }
    zt_free(l->ctx, found);
    return s;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* A tensor of the adapter as floats. */
static float *read_floats(const zt_lora *l, int64_t i, const zt_type *t)
{
    size_t bytes = zt_type_bytes(t);
    int64_t n = zt_type_count(t);
    char *raw = zt_alloc(l->ctx, bytes);
    float *x = raw ? zt_alloc_array(l->ctx, (size_t)n + 1, sizeof *x) : NULL;
    if (x && zt_checkpoint_read(l->file, i, 0, raw, bytes) == ZT_OK) {
        zt_dtype_convert(t->dtype, raw, ZT_F32, x, n);
        zt_free(l->ctx, raw);
        return x;
    }
    zt_free(l->ctx, raw);
    zt_free(l->ctx, x);
    return NULL;
}

/* [rows, columns] to [columns, rows]. */
static float *turned(const zt_lora *l, float *x, int64_t rows, int64_t columns)
{
    float *y = x ? zt_alloc_array(l->ctx, (size_t)(rows * columns) + 1, sizeof *y) : NULL;
    for (int64_t r = 0; y && r < rows; r++)
        for (int64_t c = 0; c < columns; c++) y[c * rows + r] = x[r * columns + c];
    zt_free(l->ctx, x);
    return y;
}

/* Row 2 i + j of a head in GGUF is row j d/2 + i of Hugging Face's. */
static float *paired(const zt_lora *l, float *b, int64_t rows, int64_t rank, int64_t heads)
{
    float *y = b ? zt_alloc_array(l->ctx, (size_t)(rows * rank) + 1, sizeof *y) : NULL;
    int64_t d = rows / heads;
    for (int64_t r = 0; y && r < rows; r++) {
        int64_t h = r / d, i = r % d / 2, j = r % 2;
        memcpy(y + r * rank, b + (h * d + j * (d / 2) + i) * rank, (size_t)rank * sizeof *y);
    }
    zt_free(l->ctx, b);
    return y;
}

zt_status zt_lora_get(const zt_lora *l, zt_checkpoint *model, int64_t tensor, zt_lora_of *out)
{
    fit f;
    *out = (zt_lora_of){0};
    zt_status s = fit_to(l, model, tensor, &f);
    if (s != ZT_OK || !f.p) return s;
    float *a = read_floats(l, f.p->a, &f.a), *b = a ? read_floats(l, f.p->b, &f.b) : NULL;
    out->rank = f.p->r;
    if (f.turned) { /* W' = (B A)' = A' B' */
        float *t = turned(l, b, f.b.dim[0], f.b.dim[1]);
        b = l->gguf ? a : turned(l, a, f.a.dim[0], f.a.dim[1]);
        a = t;
        out->columns = f.b.dim[0];
        out->rows = l->gguf ? f.a.dim[0] : f.a.dim[1];
    } else {
        out->columns = f.a.dim[1];
        out->rows = f.b.dim[0];
        if (f.heads) b = paired(l, b, out->rows, out->rank, f.heads);
    }
    out->a = a;
    out->b = b;
    if (!a || !b) {
        zt_lora_fini(l, out);
        return zt_ctx_status(l->ctx);
    }
    for (int64_t i = 0; i < out->rows * out->rank; i++) b[i] = (float)(b[i] * f.p->scale);
    return ZT_OK;
}

void zt_lora_fini(const zt_lora *l, zt_lora_of *of)
{
    if (!l) return;
    zt_free(l->ctx, of->a);
    zt_free(l->ctx, of->b);
    *of = (zt_lora_of){0};
}

void zt_lora_add(const zt_lora_of *of, float *y, int64_t first, int64_t rows)
{
    const merge_loops *loops = zt_merge_loops();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < of->rank; k++)
            loops->add(y + r * of->columns, of->a + k * of->columns,
                       of->b[(first + r) * of->rank + k], of->columns);
}
