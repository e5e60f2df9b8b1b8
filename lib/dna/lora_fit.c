/* lora_fit.c - owns the way from an adapter's names to a model's: which tensor each part is for, how
 * it lies there, and whether it is of the right shape.
 *
 * A model with GGUF's metadata has GGUF's names, and values as llama.cpp's converter leaves them:
 * rows of q and k in pairs for rope, matrices of GPT-2 transposed, 1 added to Gemma's norms. Other
 * models have the adapter's own names.
 */
#include "lib/dna/lora_part.h"

#include <stdio.h>
#include <string.h>

/* ---- keys of the model ----------------------------------------------------------------------- */

/* The architecture whose names in GGUF the tensors have. A Hugging Face model of an architecture
 * that zt does not know comes with its own names, and its configuration as a key. */
static zt_bytes arch_of(const zt_meta *m)
{
    int64_t at = zt_meta_find(m, "huggingface.config.json") < 0
                     ? zt_meta_find(m, "general.architecture")
                     : -1;
    return at >= 0 ? zt_meta_text(zt_meta_get(m, at)) : (zt_bytes){NULL, 0};
}

/* The layer in "blk.12.attn_q.weight"; -1: none. */
static int64_t layer_of(const char *name)
{
    int64_t layer = 0;
    const char *p = strncmp(name, "blk.", 4) ? "" : name + 4;
    size_t n = strspn(p, "0123456789");
    for (size_t i = 0; i < n && i < 6; i++) layer = 10 * layer + (p[i] - '0');
    return n && n <= 6 && p[n] == '.' ? layer : -1;
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

/* How many heads there are; -1: not known. */
static int64_t heads_of(zt_checkpoint *model, const char *name, bool kv)
{
    const zt_meta *m = zt_checkpoint_meta(model);
    zt_bytes arch = arch_of(m);
    char key[160];
    if (!arch.data || arch.n > 64) return -1;
    snprintf(key, sizeof key, "%.*s.attention.head_count%s", (int)arch.n, arch.data,
             kv ? "_kv" : "");
    int64_t at = zt_meta_find(m, key);
    if (at < 0 && kv) {
        key[strlen(key) - 3] = 0;
        at = zt_meta_find(m, key);
    }
    int64_t n = at >= 0 ? number_in(zt_meta_get(m, at), layer_of(name)) : 0;
    return n > 0 ? n : -1;
}

int64_t zt_lora_heads(zt_checkpoint *model, const char *name)
{
    static const char *const archs[] = {"llama", "smollm3", "granite"};
    zt_bytes arch = arch_of(zt_checkpoint_meta(model));
    bool q = strstr(name, ".attn_q."), k = strstr(name, ".attn_k."), paired = false;
    if (!q && !k) return 0;
    for (size_t i = 0; i < sizeof archs / sizeof *archs && arch.data; i++)
        paired = paired || (strlen(archs[i]) == arch.n && !memcmp(archs[i], arch.data, arch.n));
    return paired ? heads_of(model, name, k) : arch.data ? 0 : -1;
}

/* ---- the architecture ------------------------------------------------------------------------ */

zt_status zt_lora_check_arch(const zt_lora *l, zt_checkpoint *model)
{
    zt_bytes of = arch_of(zt_checkpoint_meta(model));
    zt_bytes is = l->gguf ? arch_of(zt_checkpoint_meta(l->file)) : (zt_bytes){NULL, 0};
    char a[80], b[80];
    zt_lora_place place;
    if (!of.data || of.n > 64) return ZT_OK;
    zt_escape(b, sizeof b, of.data, of.n);
    if (l->gguf && is.data && (is.n != of.n || memcmp(is.data, of.data, of.n)))
        return zt_fail(l->ctx, ZT_EDATA, "%s: is for the architecture '%s', %s is '%s'",
                       zt_lora_name(l), zt_escape(a, sizeof a, is.data, is.n),
                       zt_checkpoint_name(model), b);
    if (l->gguf) return ZT_OK;
    bool known = l->place && (l->place(b, "embed_tokens.weight", &place) ||
                              l->place(b, "wte.weight", &place) ||
                              l->place(b, "embeddings.word_embeddings.weight", &place));
    return known ? ZT_OK
                 : zt_fail(l->ctx, ZT_ENOTSUP,
                           "%s: adapters of PEFT are not supported for the architecture '%s' of %s",
                           zt_lora_name(l), b, zt_checkpoint_name(model));
}

/* ---- embedding and head ---------------------------------------------------------------------- */

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n >= k && !strcmp(name + n - k, end) && (n == k || name[n - k - 1] == '.');
}

/* The tensor whose name ends in one of these; -1. */
static int64_t find_end(zt_checkpoint *model, const char *const *ends)
{
    for (int64_t i = 0; i < zt_checkpoint_count(model); i++) {
        zt_entry e;
        zt_checkpoint_get(model, i, &e);
        for (const char *const *p = ends; *p; p++)
            if (ends_in(e.name, *p)) return i;
    }
    return -1;
}

void zt_lora_ends(const zt_lora *l, zt_checkpoint *model, lora_ends *out)
{
    static const char *const embeddings[] = {"embed_tokens.weight", "wte.weight", NULL};
    static const char *const heads[] = {"lm_head.weight", "output.weight", NULL};
    zt_bytes arch = arch_of(zt_checkpoint_meta(model));
    char text[65];
    zt_lora_place place;
    *out = (lora_ends){.embedding = -1, .head = -1};
    if (l->gguf || (arch.data && arch.n > 64)) return; /* llama.cpp changes both at once */
    if (arch.data) {
        snprintf(text, sizeof text, "%.*s", (int)arch.n, arch.data);
        if (!l->place || !l->place(text, "lm_head.weight", &place)) return; /* an encoder */
        out->embedding = zt_checkpoint_find(model, "token_embd.weight");
        out->head = zt_checkpoint_find(model, "output.weight");
        out->head_name = out->head < 0 && out->embedding >= 0 ? "output.weight" : NULL;
        return;
    }
    out->embedding = find_end(model, embeddings);
    out->head = find_end(model, heads);
    out->head_name = out->head < 0 && out->embedding >= 0 ? "lm_head.weight" : NULL;
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* By its own name, or without what a wrapping model puts before it. */
static int64_t find_own(zt_checkpoint *model, const char *name)
{
    int64_t i = -1;
    for (const char *p = name; p && i < 0; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL)
        if (strchr(p, '.')) i = zt_checkpoint_find(model, p);
    return i;
}

static zt_status no_tensor(const zt_lora *l, zt_checkpoint *model, const lora_part *p)
{
    char shown[160];
    return zt_fail(l->ctx, ZT_EDATA, "%s: is for a tensor '%s', which %s does not have",
                   zt_lora_name(l), zt_escape(shown, sizeof shown, p->name, strlen(p->name)),
                   zt_checkpoint_name(model));
}

/* Where it is in a model with GGUF's names. */
static zt_status fit_gguf(const zt_lora *l, zt_checkpoint *model, const lora_part *p,
                          const char **name, lora_fit *f)
{
    char arch[65], shown[160];
    zt_bytes of = arch_of(zt_checkpoint_meta(model));
    zt_lora_place place;
    snprintf(arch, sizeof arch, "%.*s", (int)(of.n < 64 ? of.n : 64), of.data);
    if (!l->place || !l->place(arch, p->name, &place)) return no_tensor(l, model, p);
    *name = zt_arena_strndup(l->arena, place.name, strlen(place.name));
    if (!*name) return ZT_ENOMEM;
    f->tensor = zt_checkpoint_find(model, *name);
    f->flipped = p->embedding;
    f->turned = place.transposed;
    f->add = place.add;
    f->heads = place.pairs ? heads_of(model, *name, place.kv) : 0;
    if (f->heads >= 0) return ZT_OK;
    return zt_fail(l->ctx, ZT_EDATA, "%s: '%s': the number of heads is not known",
                   zt_checkpoint_name(model),
                   zt_escape(shown, sizeof shown, *name, strlen(*name)));
}

/* All but the first dimension. */
static int64_t width_of(const zt_type *t)
{
    return !t->rank ? 1 : t->dim[0] ? zt_type_count(t) / t->dim[0] : 0;
}

static zt_status bad_shape(const lora_fit *f, zt_checkpoint *model, const char *what,
                           const zt_type *is, const zt_type *of)
{
    const zt_lora *l = f->lora;
    char shown[160], a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    return zt_fail(l->ctx, ZT_ESHAPE, "%s: %s of '%s' is %s, the tensor in %s is %s",
                   zt_lora_name(l), what,
                   zt_escape(shown, sizeof shown, f->part->name, strlen(f->part->name)),
                   zt_type_text(is, a), zt_checkpoint_name(model), zt_type_text(of, b));
}

/* Rows and columns that the product of A and B has in the model; in the model's matrix. */
static zt_status check_product(lora_fit *f, zt_checkpoint *model, const zt_type *of)
{
    const lora_part *p = f->part;
    zt_entry a, b;
    zt_checkpoint_get(f->lora->file, p->a, &a);
    zt_checkpoint_get(f->lora->file, p->b, &b);
    int64_t in = p->tokens ? a.type.dim[0] : width_of(&a.type), out = b.type.dim[0];
    int64_t rows = of->rank ? of->dim[0] : 0, columns = rows ? width_of(of) : 0;
    bool straight = rows == out && columns == in, flipped = rows == in && columns == out;
    if (p->tokens || p->embedding) {
        f->flipped = true;
    } else if (!f->turned && of->rank == 2 && !arch_of(zt_checkpoint_meta(model)).data) {
        /* a layer that keeps its matrix as [in, out]: by the shape, else as the adapter says */
        f->flipped = flipped && (!straight || f->lora->config.transposed);
    }
    if (of->rank >= 2 && (of->rank == a.type.rank || p->tokens) && (f->flipped ? flipped : straight))
        return ZT_OK;
    return bad_shape(f, model, "A", &a.type, of);
}

static zt_status check_whole(const lora_fit *f, zt_checkpoint *model, const zt_type *of)
{
    zt_entry e;
    zt_checkpoint_get(f->lora->file, f->part->whole, &e);
    zt_type is = e.type;
    if (f->turned && is.rank == 2) {
        is.dim[0] = e.type.dim[1];
        is.dim[1] = e.type.dim[0];
    }
    bool same = is.rank == of->rank;
    for (int k = 1; k < of->rank && same; k++) same = is.dim[k] == of->dim[k];
    /* only a vocabulary may grow */
    if (same && of->rank) {
        bool vocabulary = of->rank == 2 && (ends_in(f->part->module, "embed_tokens") ||
                                            ends_in(f->part->module, "wte") ||
                                            ends_in(f->part->module, "lm_head"));
        same = is.dim[0] == of->dim[0] || (vocabulary && is.dim[0] > of->dim[0]);
    }
    return same ? ZT_OK : bad_shape(f, model, "the whole", &is, of);
}

/* A vector of so many elements. */
static zt_status check_vector(const lora_fit *f, zt_checkpoint *model, int64_t i, const char *what,
                              int64_t n, const zt_type *of)
{
    zt_entry e;
    zt_checkpoint_get(f->lora->file, i, &e);
    return zt_type_count(&e.type) == n ? ZT_OK : bad_shape(f, model, what, &e.type, of);
}

static zt_status check_rows(const lora_fit *f, zt_checkpoint *model, const zt_type *of)
{
    const lora_part *p = f->part;
    zt_entry e;
    char shown[160];
    zt_checkpoint_get(f->lora->file, p->rows, &e);
    if (of->rank != 2 || e.type.dim[1] != of->dim[1])
        return bad_shape(f, model, "the trained rows", &e.type, of);
    for (int64_t i = 0; i < p->n_rows; i++)
        if (p->row[i] >= of->dim[0])
            return zt_fail(f->lora->ctx, ZT_EDATA, "%s: row %lld of '%s', which has %lld rows in %s",
                           zt_lora_name(f->lora), (long long)p->row[i],
                           zt_escape(shown, sizeof shown, p->name, strlen(p->name)),
                           (long long)of->dim[0], zt_checkpoint_name(model));
    return ZT_OK;
}

static zt_status check_shapes(lora_fit *f, zt_checkpoint *model, const zt_entry *e)
{
    const lora_part *p = f->part;
    const zt_type *of = &e->type;
    char shown[160];
    if (of->rank < 0 || of->dtype == ZT_DTYPE_COUNT || !zt_dtype_is_float(of->dtype) ||
        !zt_dtype_get(of->dtype)->decode)
        return zt_fail(f->lora->ctx, ZT_ENOTSUP, "%s: tensor '%s' is %s, which cannot be decoded",
                       zt_checkpoint_name(model),
                       zt_escape(shown, sizeof shown, e->name, strlen(e->name)), e->dtype);
    int64_t rows = of->rank ? of->dim[0] : 1;
    zt_status s = f->heads && rows % (2 * f->heads)
                      ? bad_shape(f, model, "what is in heads", of, of)
                      : ZT_OK;
    zt_type now = *of; /* with the rows that the whole has */
    if (s == ZT_OK && p->whole >= 0) s = check_whole(f, model, of);
    if (s == ZT_OK && p->whole >= 0 && !f->turned && of->rank) {
        zt_entry w;
        zt_checkpoint_get(f->lora->file, p->whole, &w);
        now.dim[0] = w.type.dim[0];
    }
    if (s == ZT_OK && p->a >= 0) s = check_product(f, model, &now);
    if (s == ZT_OK && p->magnitude >= 0)
        s = check_vector(f, model, p->magnitude, "lora_magnitude_vector",
                         f->flipped ? width_of(&now) : now.dim[0], &now);
    if (s == ZT_OK && p->addend >= 0)
        s = check_vector(f, model, p->addend, "lora_B.bias", zt_type_count(of), of);
    if (s == ZT_OK && p->rows >= 0) s = check_rows(f, model, &now);
    return s;
}

zt_status zt_lora_fit(const zt_lora *l, zt_checkpoint *model, const lora_ends *ends,
                      const lora_part *p, lora_fit *out)
{
    const char *name = p->name;
    bool gguf = arch_of(zt_checkpoint_meta(model)).data != NULL;
    zt_status s = ZT_OK;
    zt_entry e;
    *out = (lora_fit){.lora = l, .part = p, .tensor = -1};
    if (l->gguf)
        out->tensor = zt_checkpoint_find(model, name);
    else if (gguf)
        s = fit_gguf(l, model, p, &name, out);
    else
        out->tensor = find_own(model, name);
    if (s != ZT_OK) return s;
    if (out->tensor < 0 && (!ends->head_name || !ends_in(name, ends->head_name)))
        return no_tensor(l, model, p);
    zt_checkpoint_get(model, out->tensor < 0 ? ends->embedding : out->tensor, &e);
    return check_shapes(out, model, &e);
}
