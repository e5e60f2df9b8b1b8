/* lora.c - owns adapters as they are read: their files, and what each of their tensors is.
 *
 * PEFT (huggingface/peft 0.21.2, as facts): adapter_config.json, adapter_model.safetensors with
 * base_model.model.MODULE.lora_A.weight [r, in] and lora_B.weight [out, r]; of embeddings
 * lora_embedding_A [r, tokens] and _B [columns, r]; scale lora_alpha / r, over the root of r with
 * use_rslora; lora_magnitude_vector of DoRA; whole tensors under the module's own name
 * (modules_to_save, biases, a vocabulary of another size); rows of embeddings. GGUF (llama.cpp,
 * convert_lora_to_gguf.py, as facts): general.type "adapter", adapter.type "lora", NAME.lora_a
 * [r, in], NAME.lora_b [out, r], scale adapter.lora.alpha / r.
 */
#include "lib/dna/lora_part.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void zt_lora_close(zt_lora *l)
{
    if (!l) return;
    zt_lora_config_fini(&l->config);
    zt_checkpoint_close(l->file);
    zt_map_free(l->by_name);
    zt_free(l->ctx, l->part);
    zt_arena_free(l->arena);
    zt_free(l->ctx, l);
}

const char *zt_lora_name(const zt_lora *l) { return zt_checkpoint_name(l->file); }

/* ---- names ----------------------------------------------------------------------------------- */

/* What a tensor is by the end of its name. */
typedef struct ending {
    const char *text;
    size_t field;       /* of lora_part; NO_FIELD: of no use */
    const char *tensor; /* what the tensor's own name ends in instead */
    bool embedding;
} ending;

#define NO_FIELD SIZE_MAX
#define FIELD(f) offsetof(lora_part, f)
/* With and without the adapter's name, which PEFT takes away. */
#define BOTH(text, end, field, tensor, embedding)                                                  \
    {text end, FIELD(field), tensor, embedding},                                                   \
    {                                                                                              \
        text ".default" end, FIELD(field), tensor, embedding                                       \
    }

static const ending peft[] = {
    BOTH(".lora_A", ".weight", a, ".weight", false),
    BOTH(".lora_B", ".weight", b, ".weight", false),
    BOTH(".lora_B", ".bias", addend, ".bias", false),
    BOTH(".lora_embedding_A", "", a, ".weight", true),
    BOTH(".lora_embedding_B", "", b, ".weight", true),
    BOTH(".lora_magnitude_vector", "", magnitude, ".weight", false),
    BOTH(".lora_magnitude_vector", ".weight", magnitude, ".weight", false),
    BOTH(".token_adapter.trainable_tokens_delta", "", rows, ".weight", true),
    BOTH(".modules_to_save", ".weight", whole, ".weight", false),
    BOTH(".modules_to_save", ".bias", whole, ".bias", false),
    {".token_adapter.base_layer.weight", FIELD(whole), ".weight", false},
    {".base_layer.weight", FIELD(whole), ".weight", false},
    {".base_layer.bias", FIELD(whole), ".bias", false},
    {".original_module.weight", NO_FIELD, ".weight", false},
    {".original_module.bias", NO_FIELD, ".bias", false},
    {NULL, 0, NULL, false}};
static const ending ggufs[] = {{".lora_a", FIELD(a), "", false},
                               {".lora_b", FIELD(b), "", false},
                               {NULL, 0, NULL, false}};
/* Else it is a tensor of the model itself. */
static const ending whole[] = {{".weight", FIELD(whole), ".weight", false},
                               {".bias", FIELD(whole), ".bias", false},
                               {NULL, 0, NULL, false}};

static const ending *ending_of(const ending *table, const char *name)
{
    size_t n = strlen(name);
    for (const ending *e = table; e->text; e++) {
        size_t k = strlen(e->text);
        if (n > k && !strcmp(name + n - k, e->text)) return e;
    }
    return NULL;
}

static const ending *classify(const zt_lora *l, const char *name)
{
    const ending *e = ending_of(l->gguf ? ggufs : peft, name);
    if (e || l->gguf) return e;
    bool tuner = strstr(name, ".lora_") || strstr(name, ".token_adapter.");
    return tuner ? NULL : ending_of(whole, name);
}

/* The part of a tensor of the model, new or there already. */
static lora_part *part_named(zt_lora *l, const char *module, size_t n, const char *tensor)
{
    int64_t at;
    size_t k = n + strlen(tensor);
    char *name = zt_arena_alloc(l->arena, k + 1);
    if (!name) return NULL;
    snprintf(name, k + 1, "%.*s%s", (int)n, module, tensor);
    if (zt_map_get(l->by_name, name, k, &at)) return &l->part[at];
    lora_part *p = &l->part[l->n];
    *p = (lora_part){.name = name,
                     .module = zt_arena_strndup(l->arena, module, n),
                     .whole = -1,
                     .a = -1,
                     .b = -1,
                     .magnitude = -1,
                     .rows = -1,
                     .addend = -1};
    return p->module && zt_map_put(l->by_name, name, k, l->n++) == ZT_OK ? p : NULL;
}

static zt_status add_tensor(zt_lora *l, int64_t i)
{
    static const char prefix[] = "base_model.model.";
    char shown[160];
    zt_entry e;
    zt_checkpoint_get(l->file, i, &e);
    const char *name = e.name;
    if (!l->gguf && !strncmp(name, prefix, sizeof prefix - 1)) name += sizeof prefix - 1;
    const ending *how = classify(l, name);
    zt_escape(shown, sizeof shown, e.name, strlen(e.name));
    if (!how)
        return zt_fail(l->ctx, ZT_EDATA, "%s: tensor '%s' is not part of a LoRA that is supported",
                       zt_lora_name(l), shown);
    if (how->field == NO_FIELD) return ZT_OK;
    lora_part *p = part_named(l, name, strlen(name) - strlen(how->text), how->tensor);
    if (!p) return ZT_ENOMEM;
    int64_t *field = (int64_t *)(void *)((char *)p + how->field);
    if (*field >= 0)
        return zt_fail(l->ctx, ZT_EDATA, "%s: tensor '%s' is there twice under two names",
                       zt_lora_name(l), shown);
    *field = i;
    p->embedding = p->embedding || how->embedding;
    return ZT_OK;
}

static zt_status list_parts(zt_lora *l)
{
    int64_t n = zt_checkpoint_count(l->file);
    l->by_name = zt_map_new(l->ctx, (size_t)n);
    l->part = zt_calloc(l->ctx, (size_t)n + 1, sizeof *l->part);
    zt_status s = l->by_name && l->part ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < n && s == ZT_OK; i++) s = add_tensor(l, i);
    return s;
}

/* ---- what goes together ---------------------------------------------------------------------- */

/* Floats that can be decoded; their type. */
static zt_status check_floats(const zt_lora *l, int64_t i, zt_type *t)
{
    zt_entry e;
    char shown[160];
    if (i < 0) return ZT_OK;
    zt_checkpoint_get(l->file, i, &e);
    *t = e.type;
    bool floats = e.type.rank >= 0 && e.type.dtype != ZT_DTYPE_COUNT &&
                  zt_dtype_is_float(e.type.dtype) && zt_dtype_get(e.type.dtype)->decode;
    return floats ? ZT_OK
                  : zt_fail(l->ctx, ZT_EDATA, "%s: tensor '%s' is %s, which is not a type of floats "
                            "that is read", zt_lora_name(l),
                            zt_escape(shown, sizeof shown, e.name, strlen(e.name)), e.dtype);
}

static bool is_matrix(const zt_type *t) { return t->rank >= 2 && t->rank <= 5; }

/* Two matrices of one rank; the scale. */
static zt_status check_pair(const zt_lora *l, lora_part *p, const char *shown)
{
    zt_type a = {0}, b = {0};
    if (p->a < 0 || p->b < 0)
        return zt_fail(l->ctx, ZT_EDATA, "%s: '%s' has one of A and B alone", zt_lora_name(l),
                       shown);
    zt_status s = check_floats(l, p->a, &a);
    if (s == ZT_OK) s = check_floats(l, p->b, &b);
    if (s != ZT_OK) return s;
    /* llama.cpp's of the tokens: [tokens, r] and [columns, r] */
    p->tokens = l->gguf && !strncmp(p->name, "token_embd.", 11);
    bool flat = true; /* a convolution's B is of one element a channel */
    for (int k = 2; k < b.rank; k++) flat = flat && b.dim[k] == 1;
    if (is_matrix(&a) && is_matrix(&b)) p->r = p->tokens ? a.dim[1] : a.dim[0];
    if (p->r < 1 || b.dim[1] != p->r || !flat || a.rank != b.rank)
        return zt_fail(l->ctx, ZT_EDATA, "%s: A and B of '%s' are not matrices of one rank",
                       zt_lora_name(l), shown);
    if (!l->gguf) return zt_lora_config_scale(l->ctx, &l->config, p->module, p->r, &p->scale);
    p->scale = l->alpha == 0 ? 1 : l->alpha / (double)p->r;
    return ZT_OK;
}

/* lora_B.bias is scaled as the matrices of its module are. */
static zt_status scale_addend(const zt_lora *l, lora_part *p, const char *shown)
{
    int64_t at;
    zt_str name;
    zt_str_init(&name, l->ctx);
    zt_status s = zt_str_printf(&name, "%s.weight", p->module);
    bool is = s == ZT_OK && zt_map_get(l->by_name, name.data, name.len, &at);
    if (is) p->scale = l->part[at].scale;
    zt_str_fini(&name);
    if (s == ZT_OK && (!is || l->part[at].b < 0))
        s = zt_fail(l->ctx, ZT_EDATA, "%s: '%s' has a bias of B, and no B", zt_lora_name(l), shown);
    return s;
}

static zt_status check_part(const zt_lora *l, lora_part *p)
{
    zt_type t = {0};
    char shown[160];
    zt_status s = ZT_OK;
    zt_escape(shown, sizeof shown, p->name, strlen(p->name));
    if (p->a >= 0 || p->b >= 0) s = check_pair(l, p, shown);
    if (s == ZT_OK) s = check_floats(l, p->whole, &t);
    if (s == ZT_OK) s = check_floats(l, p->magnitude, &t);
    if (s == ZT_OK) s = check_floats(l, p->addend, &t);
    if (s == ZT_OK) s = check_floats(l, p->rows, &t);
    if (s != ZT_OK) return s;
    bool dora = !l->gguf && l->config.dora && p->a >= 0;
    if (dora != (p->magnitude >= 0))
        return zt_fail(l->ctx, ZT_EDATA, "%s: use_dora is %s, and '%s' has %s lora_magnitude_vector",
                       zt_lora_name(l), !l->gguf && l->config.dora ? "true" : "false", shown,
                       dora ? "no" : "a");
    p->saved = !l->gguf && zt_lora_config_saves(&l->config, p->module);
    if (p->rows < 0) return ZT_OK;
    if (t.rank != 2 || t.dim[0] < 1)
        return zt_fail(l->ctx, ZT_EDATA, "%s: the trained rows of '%s' are not a matrix",
                       zt_lora_name(l), shown);
    p->n_rows = t.dim[0];
    return zt_lora_config_rows(l->ctx, &l->config, p->module, p->n_rows, l->arena, &p->row);
}

static zt_status check_parts(zt_lora *l)
{
    zt_status s = ZT_OK;
    char shown[160];
    for (int64_t i = 0; i < l->n && s == ZT_OK; i++) s = check_part(l, &l->part[i]);
    for (int64_t i = 0; i < l->n && s == ZT_OK; i++) {
        lora_part *p = &l->part[i];
        zt_escape(shown, sizeof shown, p->name, strlen(p->name));
        if (p->addend >= 0) s = scale_addend(l, p, shown);
    }
    return s;
}

/* ---- files ----------------------------------------------------------------------------------- */

static zt_status read_keys(zt_lora *l)
{
    const zt_meta *m = zt_checkpoint_meta(l->file);
    int64_t type = zt_meta_find(m, "adapter.type"), alpha = zt_meta_find(m, "adapter.lora.alpha");
    zt_bytes word = type >= 0 ? zt_meta_text(zt_meta_get(m, type)) : (zt_bytes){NULL, 0};
    float f = 0;
    if (!word.data || word.n != 4 || memcmp(word.data, "lora", 4))
        return zt_fail(l->ctx, ZT_EDATA, "%s: not a LoRA: adapter.type is not 'lora'",
                       zt_lora_name(l));
    if (zt_meta_find(m, "adapter.alora.invocation_tokens") >= 0)
        return zt_fail(l->ctx, ZT_ENOTSUP, "%s: adapter.alora.invocation_tokens is not supported",
                       zt_lora_name(l));
    if (alpha >= 0 && zt_meta_get(m, alpha)->kind == ZT_GGUF_F32)
        memcpy(&f, zt_meta_get(m, alpha)->value, 4);
    if (!isfinite(f))
        return zt_fail(l->ctx, ZT_EDATA, "%s: adapter.lora.alpha is not a finite number",
                       zt_lora_name(l));
    l->alpha = f;
    return ZT_OK;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The weights in a folder: safetensors, else what torch.save wrote. */
static zt_status find_weights(const char *folder, zt_str *name)
{
    zt_status s = zt_str_printf(name, "%s/adapter_model.safetensors", folder);
    if (s != ZT_OK || is_file(name->data)) return s;
    zt_str_clear(name);
    s = zt_str_printf(name, "%s/adapter_model.bin", folder);
    if (s != ZT_OK || is_file(name->data)) return s;
    zt_str_clear(name);
    return zt_str_printf(name, "%s/adapter_model.safetensors", folder);
}

/* A directory, or the file in it: then the configuration lies beside. */
static zt_status open_files(zt_lora *l, const char *path)
{
    struct stat st;
    bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const char *slash = strrchr(path, '/');
    zt_str name;
    zt_str_init(&name, l->ctx);
    zt_status s = folder ? find_weights(path, &name) : zt_str_puts(&name, path);
    if (s == ZT_OK) l->file = zt_checkpoint_open(l->ctx, name.data, 0);
    s = l->file && zt_checkpoint_meta(l->file) ? ZT_OK : zt_ctx_status(l->ctx);
    l->gguf = l->file && zt_checkpoint_container(l->file) == zt_container_named("gguf");
    zt_str_clear(&name);
    if (s == ZT_OK)
        s = folder ? zt_str_printf(&name, "%s/adapter_config.json", path)
                   : zt_str_printf(&name, "%.*sadapter_config.json",
                                   slash ? (int)(slash - path) + 1 : 0, path);
    const char *kept = s == ZT_OK ? zt_arena_strndup(l->arena, name.data, name.len) : NULL;
    if (s == ZT_OK && !kept) s = ZT_ENOMEM;
    zt_str_fini(&name);
    if (s == ZT_OK)
        s = l->gguf ? read_keys(l) : zt_lora_config_read(l->ctx, kept, &l->config);
    return s;
}

zt_lora *zt_lora_open(zt_ctx *ctx, const char *path, zt_lora_place_fn *place)
{
    zt_lora *l = zt_calloc(ctx, 1, sizeof *l);
    if (!l) return NULL;
    l->ctx = ctx;
    l->place = place;
    l->arena = zt_arena_new(ctx, 0);
    zt_status s = l->arena ? open_files(l, path) : ZT_ENOMEM;
    if (s == ZT_OK) s = list_parts(l);
    if (s == ZT_OK) s = check_parts(l);
    if (s == ZT_OK && !l->n) s = zt_fail(ctx, ZT_EDATA, "%s: has no LoRA in it", path);
    if (s == ZT_OK) return l;
    zt_lora_close(l);
    return NULL;
}
