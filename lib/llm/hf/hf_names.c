/* hf_names.c - owns the names of tensors: which GGUF tensor each one of a Hugging Face model is,
 * and what has to be done to its values.
 *
 * Names are facts from llama.cpp (gguf-py/gguf/tensor_mapping.py, conversion/). Whatever stands
 * before the part that we know ("model.", "transformer.", "bert.", "language_model.model.", ...) is
 * let pass, so that models saved from inside of others load too; a head or final norm that is
 * missing is tied to the embedding or taken as all ones.
 */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tables ------------------------------------------------------------------------------ */

#define PAIR_Q    HF_PAIR_Q
#define PAIR_K    HF_PAIR_K
#define TRANSPOSE HF_TRANSPOSE
#define NORM      HF_NORM

/* Of several names for one tensor the first is written. */
typedef struct hf_name {
    const char *hf, *gguf; /* both without ".weight" or ".bias"; of a layer: behind its number */
    unsigned archs;
    unsigned todo;
} hf_name;

#define LLAMAS      HF_LLAMA_LIKE
#define POST_NORMED (HF_GEMMAS | HF_SET(HF_OLMO2))
#define GPT2        HF_SET(HF_GPT2)
#define BERT        HF_SET(HF_BERT)
#define NOMIC       HF_SET(HF_NOMIC)

static const hf_name layered[] = {
    {"ln_1", "attn_norm", GPT2, 0},
    {"attn.c_attn", "attn_qkv", GPT2, TRANSPOSE},
    {"attn.c_proj", "attn_output", GPT2, TRANSPOSE},
    {"ln_2", "ffn_norm", GPT2, 0},
    {"mlp.c_fc", "ffn_up", GPT2, TRANSPOSE},
    {"mlp.c_proj", "ffn_down", GPT2, TRANSPOSE},
    {"attention.self.query", "attn_q", BERT, 0},
    {"attention.self.key", "attn_k", BERT, 0},
    {"attention.self.value", "attn_v", BERT, 0},
    {"attention.output.dense", "attn_output", BERT, 0},
    {"attention.output.LayerNorm", "attn_output_norm", BERT, 0},
    {"intermediate.dense", "ffn_up", BERT, 0},
    {"output.dense", "ffn_down", BERT, 0},
    {"output.LayerNorm", "layer_output_norm", BERT, 0},
    {"attn.Wqkv", "attn_qkv", NOMIC, 0},
    {"attn.out_proj", "attn_output", NOMIC, 0},
    {"norm1", "attn_output_norm", NOMIC, 0},
    {"post_attention_layernorm", "attn_output_norm", NOMIC, 0},
    {"mlp.fc11", "ffn_up", NOMIC, 0},
    {"mlp.fc12", "ffn_gate", NOMIC, 0},
    {"mlp.fc2", "ffn_down", NOMIC, 0},
    {"norm2", "layer_output_norm", NOMIC, 0},
    {"post_mlp_layernorm", "layer_output_norm", NOMIC, 0},
    {"input_layernorm", "attn_norm", LLAMAS, NORM},
    {"self_attn.q_proj", "attn_q", LLAMAS | BERT | NOMIC, PAIR_Q},
    {"self_attn.k_proj", "attn_k", LLAMAS | BERT | NOMIC, PAIR_K},
    {"self_attn.v_proj", "attn_v", LLAMAS | BERT | NOMIC, 0},
    {"self_attn.qkv_proj", "attn_qkv", LLAMAS, 0},
    {"self_attn.o_proj", "attn_output", LLAMAS | BERT | NOMIC, 0},
    {"self_attn.q_norm", "attn_q_norm", LLAMAS, NORM},
    {"self_attn.k_norm", "attn_k_norm", LLAMAS, NORM},
    {"post_attention_layernorm", "ffn_norm", LLAMAS & ~POST_NORMED, NORM},
    {"post_attention_layernorm", "post_attention_norm", POST_NORMED, NORM},
    {"pre_feedforward_layernorm", "ffn_norm", HF_GEMMAS, NORM},
    {"post_feedforward_layernorm", "post_ffw_norm", POST_NORMED, NORM},
    {"mlp.gate_up_proj", "ffn_up", HF_SET(HF_PHI3), 0},
    {"mlp.gate_proj", "ffn_gate", LLAMAS | NOMIC, 0},
    {"mlp.up_proj", "ffn_up", LLAMAS | NOMIC, 0},
    {"mlp.down_proj", "ffn_down", LLAMAS | NOMIC, 0},
};

static const hf_name once[] = {
    {"embed_tokens", "token_embd", LLAMAS, 0},
    {"norm", "output_norm", LLAMAS, NORM},
    {"lm_head", "output", HF_ALL & ~HF_BERTS, 0},
    {"wte", "token_embd", GPT2, 0},
    {"wpe", "position_embd", GPT2, 0},
    {"ln_f", "output_norm", GPT2, 0},
    {"embeddings.word_embeddings", "token_embd", HF_BERTS, 0},
    {"embeddings.position_embeddings", "position_embd", BERT, 0},
    {"embeddings.token_type_embeddings", "token_types", HF_BERTS, 0},
    {"emb_ln", "token_embd_norm", NOMIC, 0},
    {"embeddings.LayerNorm", "token_embd_norm", HF_BERTS, 0},
};

/* What is no weight of the language model: the converter leaves it out as well. */
static const struct {
    const char *part;
    unsigned archs;
} left_out[] = {
    {"rotary_emb.", HF_ALL},   {"position_ids", HF_ALL},
    {"masked_bias", HF_ALL},   {"vision_", HF_ALL},
    {"audio_", HF_ALL},        {"visual.", HF_ALL},
    {"vision.", HF_ALL},       {"multi_modal_projector.", HF_ALL},
    {"mm_projector.", HF_ALL}, {"pooler.", HF_BERTS},
    {"cls.", HF_BERTS},
};

static const char *const suffixes[][2] = {
    {".weight", ".weight"}, {".bias", ".bias"}, {".gamma", ".weight"}, {".beta", ".bias"}};

/* ---- finding a name -------------------------------------------------------------------------- */

typedef struct found {
    char name[64]; /* GGUF's */
    unsigned todo;
} found;

static bool is_left_out(const hf *m, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (zt_hf_is(m, left_out[i].archs) && strstr(name, left_out[i].part))
            return true;
    return zt_hf_is(m, GPT2) && n >= 10 &&
           strcmp(name + n - 10, ".attn.bias") == 0; /* the causal mask */
}

/* "layers.3." -> 3 and what is behind; -1: the name is not a layer's. */
static int64_t after_layer(const char *name, const char **rest)
{
    static const char *const words[] = {"layers.", "layer.", "h."};
    for (const char *p = name; p; p = strchr(p, '.'), p = p ? p + 1 : NULL) {
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
            const char *c = p + strlen(words[i]), *from = c;
            int64_t layer = 0;
            if (strncmp(p, words[i], strlen(words[i])) != 0)
                continue;
            for (; *c >= '0' && *c <= '9' && layer < 100000; c++)
                layer = 10 * layer + (*c - '0');
            if (c > from && *c == '.') {
                *rest = c + 1;
                return layer;
            }
        }
    }
    return -1;
}

/* Is text[0..n) the word, or does it end in it behind a point? */
static bool ends_in(const char *text, size_t n, const char *word, bool prefix)
{
    size_t k = strlen(word);
    if (n == k)
        return memcmp(text, word, k) == 0;
    return prefix && n > k && text[n - k - 1] == '.' && memcmp(text + n - k, word, k) == 0;
}

static const hf_name *look_up(const hf *m, const hf_name *table, size_t rows, const char *text,
                              size_t n, bool prefix)
{
    for (size_t i = 0; i < rows; i++)
        if (zt_hf_is(m, table[i].archs) && ends_in(text, n, table[i].hf, prefix))
            return &table[i];
    return NULL;
}

static bool find_name(const hf *m, const char *name, found *f)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t k = strlen(suffixes[i][0]);
        const char *rest = name;
        if (n <= k || strcmp(name + n - k, suffixes[i][0]) != 0)
            continue;
        int64_t layer = after_layer(name, &rest);
        size_t len = rest < name + n - k ? (size_t)(name + n - k - rest) : 0;
        const hf_name *row =
            layer >= 0 ? look_up(m, layered, sizeof layered / sizeof *layered, rest, len, false)
                       : look_up(m, once, sizeof once / sizeof *once, rest, len, true);
        if (!row)
            return false;
        if (layer >= 0)
            snprintf(f->name, sizeof f->name, "blk.%" PRId64 ".%s%s", layer, row->gguf,
                     suffixes[i][1]);
        else
            snprintf(f->name, sizeof f->name, "%s%s", row->gguf, suffixes[i][1]);
        f->todo = row->todo;
        return true;
    }
    return false;
}

bool zt_hf_place_of(const char *arch, const char *name, zt_hf_place *out)
{
    size_t n;
    const hf_arch *archs = zt_hf_archs(&n);
    found f;
    for (size_t i = 0; i < n; i++) {
        hf m = {.known = true, .arch = archs[i]};
        if (strcmp(archs[i].name, arch) != 0 || is_left_out(&m, name) || !find_name(&m, name, &f))
            continue;
        *out = (zt_hf_place){.transposed = f.todo & TRANSPOSE};
        out->add = (f.todo & NORM) && zt_hf_is(&m, HF_GEMMAS) ? 1 : 0;
        out->pairs = (f.todo & (PAIR_Q | PAIR_K)) && zt_hf_is(&m, HF_PAIRED);
        out->kv = f.todo & PAIR_K;
        memcpy(out->name, f.name, sizeof out->name);
        return true;
    }
    return false;
}

/* ---- and back -------------------------------------------------------------------------------- */

static const hf_name *look_back(const hf_name *table, size_t rows, unsigned archs, const char *text,
                                size_t n)
{
    for (size_t i = 0; i < rows; i++)
        if ((table[i].archs & archs) && strlen(table[i].gguf) == n &&
            memcmp(table[i].gguf, text, n) == 0)
            return &table[i];
    return NULL;
}

/* "blk.3.attn_q.weight": "3", and behind its point. */
static const char *layer_of(const char *gguf, size_t *digits)
{
    *digits = strncmp(gguf, "blk.", 4) == 0 ? strspn(gguf + 4, "0123456789") : 0;
    return *digits && gguf[4 + *digits] == '.' ? gguf + 4 : NULL;
}

zt_status zt_hf_name_back(zt_ctx *ctx, const hf_arch *arch, const char *gguf, zt_str *name,
                          unsigned *todo)
{
    size_t digits;
    const char *layer = layer_of(gguf, &digits), *stem = layer ? layer + digits + 1 : gguf;
    const char *point = strrchr(stem, '.');
    size_t n = point ? (size_t)(point - stem) : 0;
    bool known = point && (strcmp(point, ".weight") == 0 || strcmp(point, ".bias") == 0);
    unsigned set = HF_SET(arch->id);
    const hf_name *row =
        !known  ? NULL
        : layer ? look_back(layered, sizeof layered / sizeof *layered, set, stem, n)
                : look_back(once, sizeof once / sizeof *once, set, stem, n);
    char text[160];
    if (!row)
        return zt_fail(ctx, ZT_ENOTSUP, "tensor '%s' has no place in a %s model of transformers",
                       zt_escape(text, sizeof text, gguf, strlen(gguf)), arch->type);
    *todo = row->todo;
    zt_str_clear(name);
    bool head = strcmp(row->hf, "lm_head") == 0;
    zt_status s = zt_str_puts(name, layer ? arch->layers : head ? "" : arch->prefix);
    if (s == ZT_OK && layer)
        s = zt_str_put(name, layer, digits + 1);
    if (s == ZT_OK)
        s = zt_str_puts(name, row->hf);
    return s == ZT_OK ? zt_str_puts(name, point) : s;
}

/* ---- adding ---------------------------------------------------------------------------------- */

bool zt_model_stays_f32(const char *name, const zt_type *type)
{
    return type->rank < 2 || strcmp(name, "position_embd.weight") == 0 ||
           strcmp(name, "token_types.weight") == 0;
}

/* As the converter has it; f64 becomes f32. */
static zt_status plan(const hf *m, const zt_entry *e, const found *f, hf_tensor *t)
{
    char text[160], is[ZT_TYPE_TEXT];
    zt_escape(text, sizeof text, e->name, strlen(e->name));
    const zt_dtype_info *dtype =
        e->type.dtype < ZT_DTYPE_COUNT ? zt_dtype_get(e->type.dtype) : NULL;
    if (e->type.rank < 0 || !dtype || dtype->kind != 'F' ||
        dtype->block_bytes < 2) /* no floats of a byte */
        return zt_fail(m->ctx, ZT_ENOTSUP,
                       "%s: tensor '%s' is of type %s, which is not supported here",
                       zt_checkpoint_name(m->tensors->from), text, e->dtype);
    if (e->type.rank > 4)
        return zt_fail(m->ctx, ZT_EDATA, "%s: tensor '%s' is %s, a weight has 4 dimensions at most",
                       zt_checkpoint_name(m->tensors->from), text, zt_type_text(&e->type, is));
    *t = (hf_tensor){.name = f->name, .type = e->type, .from = e->type.dtype};
    if (e->type.dtype == ZT_F64 || zt_model_stays_f32(f->name, &e->type))
        t->type.dtype = ZT_F32;
    if ((f->todo & NORM) && zt_hf_is(m, HF_GEMMAS)) {
        t->type.dtype = ZT_F32;
        t->add = 1;
    }
    if ((f->todo & TRANSPOSE) && e->type.rank == 2) {
        t->type.dim[0] = e->type.dim[1];
        t->type.dim[1] = e->type.dim[0];
        t->type.dtype = t->from = e->type.dtype;
        t->transposed = true;
    }
    return ZT_OK;
}

static zt_status pair_rows(const hf *m, const found *f, hf_tensor *t)
{
    double heads = 0;
    int64_t rows = t->type.rank ? t->type.dim[0] : 0;
    if (!(f->todo & (PAIR_Q | PAIR_K)) || !zt_hf_is(m, HF_PAIRED))
        return ZT_OK;
    zt_status s = zt_hf_value(m, "attention.head_count", &heads);
    if (s == ZT_OK && (f->todo & PAIR_K))
        s = zt_hf_value(m, "attention.head_count_kv", &heads);
    t->heads = (int64_t)heads;
    if (s == ZT_OK && (t->heads < 1 || rows % t->heads != 0 || rows / t->heads % 2 != 0))
        s = zt_fail(m->ctx, ZT_EDATA, "%s: tensor '%s': %" PRId64 " rows for %" PRId64 " heads",
                    m->path, f->name, rows, t->heads);
    return s;
}

static zt_status add_tensor(hf *m, int64_t i)
{
    char text[160];
    zt_entry e;
    found f;
    hf_tensor t;
    zt_checkpoint_get(m->tensors->from, i, &e);
    if (is_left_out(m, e.name))
        return ZT_OK;
    if (!find_name(m, e.name, &f))
        return zt_fail(m->ctx, ZT_ENOTSUP, "%s: tensor '%s' has no place in a %s model", m->path,
                       zt_escape(text, sizeof text, e.name, strlen(e.name)), m->arch.name);
    /* a tied head is the embedding once more; of gemma, unless config.json says that it is not */
    if (strcmp(f.name, "output.weight") == 0 && zt_checkpoint_count(m->tensors->from) > 1 &&
        (json_is_true(zt_hf_get(m, "tie_word_embeddings")) ||
         (zt_hf_is(m, HF_GEMMAS) && !json_is_false(zt_hf_get(m, "tie_word_embeddings")))))
        snprintf(f.name, sizeof f.name, "tied");
    zt_status s = plan(m, &e, &f, &t);
    if (s == ZT_OK)
        s = pair_rows(m, &f, &t);
    t.source = i;
    return s == ZT_OK ? zt_hf_tensors_add(m->tensors, &t) : s;
}

/* ---- what is missing ------------------------------------------------------------------------- */

static hf_tensor *find_added(const hf *m, const char *name)
{
    for (int64_t i = 0; i < m->tensors->n; i++)
        if (strcmp(m->tensors->list[i].name, name) == 0)
            return &m->tensors->list[i];
    return NULL;
}

/* The head that is tied: the embedding, where that was left out; else not needed. */
static void settle_tied(hf *m)
{
    hf_tensor *tied = find_added(m, "tied");
    bool embedded = find_added(m, "token_embd.weight") != NULL;
    if (!embedded && !tied)
        tied = find_added(m, "output.weight");
    if (!tied)
        return;
    if (!embedded)
        tied->name = "token_embd.weight";
    else
        *tied = m->tensors->list[--m->tensors->n];
}

static zt_status add_constant(hf *m, const char *name, float value, int64_t n)
{
    float *v = zt_alloc_array(m->ctx, (size_t)n, sizeof *v);
    if (!v)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < n; i++)
        v[i] = value;
    hf_tensor t = {.name = name, .source = -1, .from = ZT_F32, .values = v};
    t.type = zt_type_make(ZT_F32, 1, &n);
    zt_status s = zt_hf_tensors_add(m->tensors, &t);
    zt_free(m->ctx, v);
    return s;
}

/* A final norm that was not saved does not scale. */
static zt_status add_final_norm(hf *m)
{
    const hf_tensor *embedding = find_added(m, "token_embd.weight");
    if (zt_hf_is(m, HF_BERTS) || !embedding || embedding->type.rank != 2 ||
        find_added(m, "output_norm.weight"))
        return ZT_OK;
    int64_t width = embedding->type.dim[1];
    zt_status s = add_constant(m, "output_norm.weight", 1, width);
    return s == ZT_OK && zt_hf_is(m, GPT2) ? add_constant(m, "output_norm.bias", 0, width) : s;
}

zt_status zt_hf_add_tensors(hf *m)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; s == ZT_OK && i < zt_checkpoint_count(m->tensors->from); i++)
        s = add_tensor(m, i);
    if (s != ZT_OK)
        return s;
    settle_tied(m);
    return add_final_norm(m);
}

/* ---- an architecture that is not known ------------------------------------------------------- */

zt_status zt_hf_pass_all(hf *m)
{
    zt_status s = ZT_OK;
    const zt_checkpoint *from = m->tensors->from;
    for (int64_t i = 0; from && s == ZT_OK && i < zt_checkpoint_count(from); i++) {
        char text[160];
        zt_entry e;
        zt_checkpoint_get(from, i, &e);
        if (e.type.rank < 0 || e.type.dtype == ZT_DTYPE_COUNT)
            return zt_fail(m->ctx, ZT_ENOTSUP,
                           "%s: tensor '%s' is of type %s, which is not supported here",
                           zt_checkpoint_name(from),
                           zt_escape(text, sizeof text, e.name, strlen(e.name)), e.dtype);
        s = zt_hf_tensors_add(m->tensors, &(hf_tensor){.name = e.name, .type = e.type,
                                                       .source = i, .from = e.type.dtype});
    }
    char *config = s == ZT_OK ? json_dumps(m->config, JSON_COMPACT) : NULL;
    if (s == ZT_OK)
        s = config ? zt_gguf_put_str(m->w, "huggingface.config.json", config, strlen(config))
                   : zt_fail(m->ctx, ZT_ENOMEM, "%s: out of memory", m->path);
    free(config);
    return s;
}
