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

/* A weight has a place where the model has all of the parts `with`; there it must be in the file
 * where it has any of `must`, and may be where it has any of `may`. */
typedef struct weight_row {
    const char *name; /* of a layer: what follows "blk.N." */
    bool layered;
    unsigned with, must, may;
    int rank;
    size_t dim[2]; /* offsets into zt_hyper, row-major */
} weight_row;

#define P(part) ZT_PART_##part
#define ONCE(n, with, must, may, r, ...) {n, false, with, must, may, r, {__VA_ARGS__}}
#define EACH(n, with, must, may, r, ...) {n, true, with, must, may, r, {__VA_ARGS__}}

/* A norm that a part brings, and its bias; a matrix; a bias that a part brings or BIASES may. */
#define NORM(n, part, d)                    EACH(n, 0, P(part), 0, 1, D(d))
#define NORM_BIAS(n, part)                  EACH(n, P(part), P(NORM_BIAS), 0, 1, D(width))
#define MATRIX(n, with, rows, cols)         EACH(n, with, P(ALL), 0, 2, D(rows), D(cols))
#define BIAS(n, with, part, d)              EACH(n, with, P(part), P(BIASES), 1, D(d))

static const weight_row rows[ZT_WEIGHT_COUNT] = {
    [ZT_W_EMBED] = ONCE("token_embd.weight", 0, P(ALL), 0, 2, D(vocab), D(width)),
    [ZT_W_POSITIONS] =
        ONCE("position_embd.weight", 0, P(POSITIONS), 0, 2, D(ctx_train), D(width)),
    [ZT_W_TYPES] =
        ONCE("token_types.weight", 0, P(TYPES), P(TYPES_MAY), 2, D(n_types), D(width)),
    [ZT_W_EMBED_NORM] = ONCE("token_embd_norm.weight", 0, P(EMBED_NORM), 0, 1, D(width)),
    [ZT_W_EMBED_NORM_BIAS] =
        ONCE("token_embd_norm.bias", P(EMBED_NORM), P(NORM_BIAS), 0, 1, D(width)),
    [ZT_W_ROPE_TAB] = ONCE("rope_freqs.weight", 0, 0, P(ROPE_TAB), 1, D(rope_half)),
    [ZT_W_ROPE_LONG] = ONCE("rope_factors_long.weight", 0, 0, P(ROPE_TAB), 1, D(rope_half)),
    [ZT_W_ROPE_SHORT] = ONCE("rope_factors_short.weight", 0, 0, P(ROPE_TAB), 1, D(rope_half)),
    [ZT_W_ATTN_NORM] = NORM("attn_norm.weight", PRE_NORM, width),
    [ZT_W_ATTN_NORM_BIAS] = NORM_BIAS("attn_norm.bias", PRE_NORM),
    [ZT_W_Q] = MATRIX("attn_q.weight", P(QKV), q_width, width),
    [ZT_W_Q_BIAS] = BIAS("attn_q.bias", P(QKV), QKV_BIAS, q_width),
    [ZT_W_K] = MATRIX("attn_k.weight", P(QKV), kv_width, width),
    [ZT_W_K_BIAS] = BIAS("attn_k.bias", P(QKV), QKV_BIAS, kv_width),
    [ZT_W_V] = MATRIX("attn_v.weight", P(QKV), kv_width, width),
    [ZT_W_V_BIAS] = BIAS("attn_v.bias", P(QKV), QKV_BIAS, kv_width),
    [ZT_W_QKV] = MATRIX("attn_qkv.weight", P(FUSED_QKV), qkv_width, width),
    [ZT_W_QKV_BIAS] = BIAS("attn_qkv.bias", P(FUSED_QKV), QKV_BIAS, qkv_width),
    [ZT_W_Q_NORM] = NORM("attn_q_norm.weight", QK_NORM, q_norm),
    [ZT_W_K_NORM] = NORM("attn_k_norm.weight", QK_NORM, k_norm),
    [ZT_W_O] = MATRIX("attn_output.weight", 0, width, q_width),
    [ZT_W_O_BIAS] = BIAS("attn_output.bias", 0, MORE_BIAS, width),
    [ZT_W_ATTN_POST] = NORM("post_attention_norm.weight", POST_NORM, width),
    [ZT_W_ATTN_SUM] = NORM("attn_output_norm.weight", SUM_NORM, width),
    [ZT_W_ATTN_SUM_BIAS] = NORM_BIAS("attn_output_norm.bias", SUM_NORM),
    [ZT_W_FF_NORM] = NORM("ffn_norm.weight", PRE_NORM, width),
    [ZT_W_FF_NORM_BIAS] = NORM_BIAS("ffn_norm.bias", PRE_NORM),
    [ZT_W_GATE] = MATRIX("ffn_gate.weight", P(GATE), ff, width),
    [ZT_W_GATE_BIAS] = BIAS("ffn_gate.bias", P(GATE), MORE_BIAS, ff),
    [ZT_W_UP] = MATRIX("ffn_up.weight", P(UP), ff, width),
    [ZT_W_UP_BIAS] = BIAS("ffn_up.bias", P(UP), MORE_BIAS, ff),
    [ZT_W_GATE_UP] = MATRIX("ffn_up.weight", P(FUSED_UP), up_width, width),
    [ZT_W_DOWN] = MATRIX("ffn_down.weight", 0, width, ff),
    [ZT_W_DOWN_BIAS] = BIAS("ffn_down.bias", 0, MORE_BIAS, width),
    [ZT_W_FF_POST] = NORM("post_ffw_norm.weight", POST_NORM, width),
    [ZT_W_FF_SUM] = NORM("layer_output_norm.weight", SUM_NORM, width),
    [ZT_W_FF_SUM_BIAS] = NORM_BIAS("layer_output_norm.bias", SUM_NORM),
    [ZT_W_OUT_NORM] = ONCE("output_norm.weight", 0, P(LAST_NORM), 0, 1, D(width)),
    [ZT_W_OUT_NORM_BIAS] =
        ONCE("output_norm.bias", P(LAST_NORM), P(NORM_BIAS), 0, 1, D(width)),
    /* absent: the embedding is the output too */
    [ZT_W_OUT] = ONCE("output.weight", 0, 0, P(HEAD), 2, D(vocab), D(width)),
};

static bool has_place(const zt_hyper *h, const weight_row *row)
{
    return (row->with & ~h->parts) == 0 && (h->parts & (row->must | row->may)) != 0;
}

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
    if (!has_place(h, &rows[w]))
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
    if (!has_place(h, &rows[w]) || !(h->parts & rows[w].must))
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
        if (rows[w].layered == layered && has_place(h, &rows[w]) &&
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

/* Divisors for long contexts and for short ones are a pair. */
static zt_status check_divisors(const zt_gguf *g, const zt_hyper *h)
{
    bool two[] = {zt_weight_find(g, h, ZT_W_ROPE_LONG, 0) >= 0,
                  zt_weight_find(g, h, ZT_W_ROPE_SHORT, 0) >= 0};
    if (two[0] == two[1])
        return ZT_OK;
    return zt_fail(zt_gguf_ctx(g), ZT_EDATA, "%s: tensor '%s' is missing, and '%s' is there",
                   zt_gguf_name(g), rows[two[0] ? ZT_W_ROPE_SHORT : ZT_W_ROPE_LONG].name,
                   rows[two[0] ? ZT_W_ROPE_LONG : ZT_W_ROPE_SHORT].name);
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
    if (used != zt_gguf_n_tensors(g))
        return refuse_extra(g, h);
    return check_divisors(g, h);
}
