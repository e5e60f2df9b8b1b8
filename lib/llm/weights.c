/* weights.c - which tensors a language model has: names, shapes, and whether they may be absent.
 *
 * Names are llama.cpp's (gguf-py/gguf/constants.py), as facts. A shape is written as fields of
 * zt_hyper, so that the same table names the tensors, checks a file and serves the builder.
 */
#include "lib/llm/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define D(field) offsetof(zt_hyper, field)

typedef struct weight_row {
    const char *name; /* of a layer: what follows "blk.N." */
    bool layered;
    bool optional;
    unsigned part;
    int rank;
    size_t dim[2]; /* offsets into zt_hyper, row-major */
} weight_row;

#define ONCE(n, may, p, r, ...) {n, false, may, ZT_PART_##p, r, {__VA_ARGS__}}
#define EACH(n, may, p, r, ...) {n, true, may, ZT_PART_##p, r, {__VA_ARGS__}}

static const weight_row rows[ZT_WEIGHT_COUNT] = {
    [ZT_W_EMBED] = ONCE("token_embd.weight", false, COMMON, 2, D(vocab), D(width)),
    [ZT_W_ROPE_TAB] = ONCE("rope_freqs.weight", true, ROPE_TAB, 1, D(rope_half)),
    [ZT_W_ATTN_NORM] = EACH("attn_norm.weight", false, COMMON, 1, D(width)),
    [ZT_W_Q] = EACH("attn_q.weight", false, COMMON, 2, D(q_width), D(width)),
    [ZT_W_Q_BIAS] = EACH("attn_q.bias", true, BIASES, 1, D(q_width)),
    [ZT_W_K] = EACH("attn_k.weight", false, COMMON, 2, D(kv_width), D(width)),
    [ZT_W_K_BIAS] = EACH("attn_k.bias", true, BIASES, 1, D(kv_width)),
    [ZT_W_V] = EACH("attn_v.weight", false, COMMON, 2, D(kv_width), D(width)),
    [ZT_W_V_BIAS] = EACH("attn_v.bias", true, BIASES, 1, D(kv_width)),
    [ZT_W_Q_NORM] = EACH("attn_q_norm.weight", false, QK_NORM, 1, D(head)),
    [ZT_W_K_NORM] = EACH("attn_k_norm.weight", false, QK_NORM, 1, D(head)),
    [ZT_W_O] = EACH("attn_output.weight", false, COMMON, 2, D(width), D(q_width)),
    [ZT_W_O_BIAS] = EACH("attn_output.bias", true, BIASES, 1, D(width)),
    [ZT_W_ATTN_POST] = EACH("post_attention_norm.weight", false, POST_NORM, 1, D(width)),
    [ZT_W_FF_NORM] = EACH("ffn_norm.weight", false, COMMON, 1, D(width)),
    [ZT_W_GATE] = EACH("ffn_gate.weight", false, COMMON, 2, D(ff), D(width)),
    [ZT_W_GATE_BIAS] = EACH("ffn_gate.bias", true, BIASES, 1, D(ff)),
    [ZT_W_UP] = EACH("ffn_up.weight", false, COMMON, 2, D(ff), D(width)),
    [ZT_W_UP_BIAS] = EACH("ffn_up.bias", true, BIASES, 1, D(ff)),
    [ZT_W_DOWN] = EACH("ffn_down.weight", false, COMMON, 2, D(width), D(ff)),
    [ZT_W_DOWN_BIAS] = EACH("ffn_down.bias", true, BIASES, 1, D(width)),
    [ZT_W_FF_POST] = EACH("post_ffw_norm.weight", false, POST_NORM, 1, D(width)),
    [ZT_W_OUT_NORM] = ONCE("output_norm.weight", false, COMMON, 1, D(width)),
    /* absent: the embedding is the output too */
    [ZT_W_OUT] = ONCE("output.weight", true, COMMON, 2, D(vocab), D(width)),
};

const char *zt_weight_name(zt_weight w, int64_t layer, char name[ZT_WEIGHT_NAME])
{
    if (rows[w].layered)
        snprintf(name, ZT_WEIGHT_NAME, "blk.%" PRId64 ".%s", layer, rows[w].name);
    else
        snprintf(name, ZT_WEIGHT_NAME, "%s", rows[w].name);
    return name;
}

int64_t zt_weight_find(const zt_gguf *g, const zt_hyper *h, zt_weight w, int64_t layer)
{
    char name[ZT_WEIGHT_NAME];
    if (!(rows[w].part & h->arch->parts))
        return -1;
    return zt_gguf_find(g, zt_weight_name(w, layer, name));
}

/* ---- check ---------------------------------------------------------------------------------- */

static zt_type expected(const zt_hyper *h, const weight_row *row, zt_dtype dtype)
{
    int64_t dim[2] = {0};
    for (int i = 0; i < row->rank; i++)
        memcpy(&dim[i], (const char *)h + row->dim[i], sizeof dim[i]);
    return zt_type_make(dtype, row->rank, dim);
}

static zt_status check_found(zt_gguf *g, const zt_hyper *h, const weight_row *row, int64_t index)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    zt_type is, should;
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    const char *name = zt_gguf_tensor(g, index, &is, NULL, NULL);
    if (is.rank < 0) { /* a type that zt does not know: the store says which */
        zt_store store = zt_gguf_store(g);
        return store.find(store.user, name, &is, &index);
    }
    should = expected(h, row, is.dtype);
    if (!zt_dtype_is_float(is.dtype))
        return zt_fail(ctx, ZT_EDATA, "%s: tensor '%s': %s where numbers with a fraction belong",
                       zt_gguf_name(g), name, zt_type_text(&is, a));
    if (!zt_type_equal(&is, &should))
        return zt_fail(ctx, ZT_EDATA, "%s: tensor '%s': %s expected, %s found", zt_gguf_name(g),
                       name, zt_type_text(&should, a), zt_type_text(&is, b));
    return ZT_OK;
}

static zt_status check_one(zt_gguf *g, const zt_hyper *h, zt_weight w, int64_t layer, int64_t *used)
{
    char name[ZT_WEIGHT_NAME];
    int64_t index = zt_weight_find(g, h, w, layer);
    if (index >= 0) {
        ++*used;
        return check_found(g, h, &rows[w], index);
    }
    if (rows[w].optional || !(rows[w].part & h->arch->parts))
        return ZT_OK;
    return zt_fail(zt_gguf_ctx(g), ZT_EDATA, "%s: tensor '%s' is missing (%s, %" PRId64 " layers)",
                   zt_gguf_name(g), zt_weight_name(w, layer, name), h->arch->name, h->n_layers);
}

/* "3.attn_q.weight" after "blk.": the layer's number, and what follows the point. */
static const char *after_layer(const char *text, int64_t n_layers)
{
    int64_t layer = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && layer < n_layers; c++)
        layer = 10 * layer + (*c - '0');
    return c > text && *c == '.' && layer < n_layers ? c + 1 : "";
}

/* Is a tensor one that the architecture has? Asked only to name the one that is too many. */
static bool is_known(const zt_hyper *h, const char *tensor)
{
    bool layered = strncmp(tensor, "blk.", 4) == 0;
    const char *name = layered ? after_layer(tensor + 4, h->n_layers) : tensor;
    for (int w = 0; w < ZT_WEIGHT_COUNT; w++)
        if (rows[w].layered == layered && (rows[w].part & h->arch->parts) &&
            strcmp(name, rows[w].name) == 0)
            return true;
    return false;
}

/* A tensor that nobody reads means another model than the row describes. */
static zt_status refuse_extra(const zt_gguf *g, const zt_hyper *h)
{
    char text[128];
    zt_type type;
    for (int64_t i = 0; i < zt_gguf_n_tensors(g); i++) {
        const char *name = zt_gguf_tensor(g, i, &type, NULL, NULL);
        if (!is_known(h, name))
            return zt_fail(zt_gguf_ctx(g), ZT_ENOTSUP,
                           "%s: tensor '%s' has no place in a %s model of %" PRId64 " layers",
                           zt_gguf_name(g), zt_escape(text, sizeof text, name, strlen(name)),
                           h->arch->name, h->n_layers);
    }
    return ZT_OK;
}

zt_status zt_weights_check(zt_gguf *g, const zt_hyper *h)
{
    int64_t used = 0;
    for (int w = 0; w < ZT_WEIGHT_COUNT; w++) {
        int64_t layers = rows[w].layered ? h->n_layers : 1;
        for (int64_t l = 0; l < layers; l++) {
            zt_status s = check_one(g, h, (zt_weight)w, l, &used);
            if (s != ZT_OK)
                return s;
        }
    }
    return used == zt_gguf_n_tensors(g) ? ZT_OK : refuse_extra(g, h);
}
