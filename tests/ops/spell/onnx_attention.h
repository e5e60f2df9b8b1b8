/* onnx_attention.h - how the ops of golden/ops/onnx are spelled in
 * zt: attention and rotary embedding. */
#ifndef ZT_SPELL_ONNX_ATTENTION_H
#define ZT_SPELL_ONNX_ATTENTION_H

#include "tests/ops/spell/spell.h"

static int attn_as_dtype(const call *node, int x, const char *dtype)
{
    zt_cast_attrs to = zt_cast_defaults();
    to.to = (zt_enum_string){{0}};
    memcpy(to.to.s, dtype, strlen(dtype));
    return zt_program_cast(node->p, NULL, x, &to);
}

static int attn_cast_like(const call *node, int x, zt_dtype t) { return attn_as_dtype(node, x, zt_dtype_get(t)->name); }

static int attn_all_like(const call *node, int x, double value)
{
    return zt_program_fill_like(node->p, NULL, x, &(zt_fill_like_attrs){value});
}

static int attn_turned_axes(const call *node, int x, int64_t p, int64_t q, int64_t r, int64_t s)
{
    return zt_program_transpose(node->p, NULL, x, &(zt_transpose_attrs){{4, {p, q, r, s}}});
}

/* Input i, or x in its place, of shape [b,n,heads*d] as [b,heads,n,d]. */
static int attn_by_heads(const call *node, int i, int x, int64_t heads)
{
    const int64_t *dim = node->type[i].dim, shape[] = {dim[0], dim[1], heads, dim[2] / heads};
    return attn_turned_axes(node, reshaped(node, x, 4, shape), 0, 2, 1, 3);
}

/* ---- Attention ------------------------------------------------------------------------------- */

typedef struct onnx_attention {
    zt_sdpa_attrs a;
    zt_dtype dtype;
    int q, k, v, mask, len; /* [b,heads,n,d]; the cache before k and v */
    int64_t b, h, g, s, t, d, dv, past;
} onnx_attention;

/* What is missing of the mask at its end hides. */
static int attn_whole_mask(const call *node, const onnx_attention *o)
{
    zt_type its_type = node->type[3];
    int64_t missing = o->t - its_type.dim[its_type.rank - 1];
    bool is_bool = its_type.dtype == ZT_BOOL;
    int mask = node->in[3];
    if (!is_bool && its_type.dtype != o->dtype) mask = attn_cast_like(node, mask, o->dtype);
    if (missing <= 0) return mask;
    its_type.dim[its_type.rank - 1] = missing;
    int64_t count = zt_type_count(&its_type);
    void *data = calloc((size_t)count + 1, sizeof(float));
    for (int64_t i = 0; i < count && !is_bool; i++) ((float *)data)[i] = -INFINITY;
    int rest = constant(node, is_bool ? ZT_BOOL : ZT_F32, its_type.rank, its_type.dim, data);
    free(data);
    if (!is_bool && o->dtype != ZT_F32) rest = attn_cast_like(node, rest, o->dtype);
    return zt_program_concat(node->p, NULL, mask, rest, ZT_NONE, ZT_NONE, ZT_NONE, &(zt_concat_attrs){-1});
}

static onnx_attention read_attention(const call *node)
{
    onnx_attention o = {.a = zt_sdpa_defaults(), .mask = ZT_NONE, .len = ZT_NONE};
    const zt_type *q = &node->type[0], *k = &node->type[1], *v = &node->type[2];
    bool flat = q->rank == 3;
    const zt_concat_attrs along = {2};
    o.dtype = q->dtype;
    o.b = q->dim[0];
    o.h = flat ? int_or(node, "q_num_heads", 1) : q->dim[1];
    o.g = flat ? int_or(node, "kv_num_heads", 1) : k->dim[1];
    o.s = q->dim[flat ? 1 : 2];
    o.t = k->dim[flat ? 1 : 2];
    o.d = flat ? q->dim[2] / o.h : q->dim[3];
    o.dv = flat ? v->dim[2] / o.g : v->dim[3];
    o.q = flat ? attn_by_heads(node, 0, node->in[0], o.h) : node->in[0];
    o.k = flat ? attn_by_heads(node, 1, node->in[1], o.g) : node->in[1];
    o.v = flat ? attn_by_heads(node, 2, node->in[2], o.g) : node->in[2];
    if (given(node, 4)) {
        o.past = node->type[4].dim[2];
        o.t += o.past;
        o.k = zt_program_concat(node->p, NULL, node->in[4], o.k, ZT_NONE, ZT_NONE, ZT_NONE, &along);
        o.v = zt_program_concat(node->p, NULL, node->in[5], o.v, ZT_NONE, ZT_NONE, ZT_NONE, &along);
    }
    o.a.scale = number_or(node, "scale", 0);
    o.a.causal = int_or(node, "is_causal", 0) != 0;
    o.a.softcap = number_or(node, "softcap", 0);
    o.a.left = int_or(node, "left_window_size", -1);
    o.a.right = int_or(node, "right_window_size", -1);
    o.a.offset = o.past;
    if (given(node, 6)) o.len = attn_as_dtype(node, node->in[6], "i32");
    if (given(node, 6)) o.a.align = (zt_enum_string){"end"};
    if (given(node, 3)) o.mask = attn_whole_mask(node, &o);
    return o;
}

/* Does query i of batch b see key j, the mask apart? From the operator's words, not from sdpa's. */
static bool attn_sees(const call *node, const onnx_attention *o, int64_t b, int64_t i, int64_t j)
{
    int64_t keys = given(node, 6) ? (int64_t)value_of(node, 6, b) : o->t;
    int64_t pos = i + (given(node, 6) ? keys - o->s : o->past);
    if (j >= keys || (o->a.causal && j > pos)) return false;
    if (o->a.left >= 0 && j < pos - o->a.left) return false;
    return o->a.right < 0 || j <= pos + o->a.right;
}

static int attn_seen_keys(const call *node, const onnx_attention *o)
{
    const int64_t dim[] = {o->b, 1, o->s, o->t};
    unsigned char *seen = calloc((size_t)(o->b * o->s * o->t) + 1, 1), *at = seen;
    for (int64_t b = 0; b < o->b; b++)
        for (int64_t i = 0; i < o->s; i++)
            for (int64_t j = 0; j < o->t; j++) *at++ = attn_sees(node, o, b, i, j);
    int v = constant(node, ZT_BOOL, 4, dim, seen);
    free(seen);
    return v;
}

/* The fourth output: scores, capped, with what masks add, or the softmax of that, by its lse. */
static int attn_scores_of(const call *node, const onnx_attention *o, int lse)
{
    int64_t mode = int_or(node, "qk_matmul_output_mode", 0);
    int q = attn_as_dtype(node, o->q, "f32"), k = attn_as_dtype(node, o->k, "f32");
    if (o->h != o->g) k = zt_program_repeat(node->p, NULL, k, &(zt_repeat_attrs){1, o->h / o->g});
    int s = zt_program_matmul(node->p, NULL, q, k, &(zt_matmul_attrs){0, 1});
    double scale = o->a.scale != 0 ? o->a.scale : 1 / sqrt((double)o->d);
    s = zt_program_scale(node->p, NULL, s, &(zt_scale_attrs){scale});
    if (mode >= 1 && o->a.softcap > 0) s = zt_program_softcap(node->p, NULL, s, &(zt_softcap_attrs){o->a.softcap});
    if (mode >= 2) {
        int none = attn_all_like(node, s, -INFINITY);
        s = zt_program_where(node->p, NULL, attn_seen_keys(node, o), s, none);
        if (o->mask != ZT_NONE && node->type[3].dtype == ZT_BOOL)
            s = zt_program_where(node->p, NULL, o->mask, s, none);
        else if (o->mask != ZT_NONE)
            s = zt_program_add(node->p, NULL, s, attn_as_dtype(node, o->mask, "f32"));
    }
    if (mode == 3) { /* a row that sees nothing: exp(-inf) */
        int nothing = zt_program_eq(node->p, NULL, lse, attn_all_like(node, lse, -INFINITY));
        lse = zt_program_where(node->p, NULL, nothing, attn_all_like(node, lse, INFINITY), lse);
        lse = zt_program_group(node->p, NULL, lse, &(zt_group_attrs){1});
        s = zt_program_exp(node->p, NULL, zt_program_sub(node->p, NULL, s, lse));
    }
    return attn_cast_like(node, s, o->dtype);
}

static int build_attention(const call *node)
{
    onnx_attention o = read_attention(node);
    int lse, y = zt_program_sdpa(node->p, NULL, o.q, o.k, o.v, o.mask, o.len, &o.a, &lse);
    node->more[0] = o.k;
    node->more[1] = o.v;
    if (node->n_out > 3 && node->out_dtype[3]) node->more[2] = attn_scores_of(node, &o, lse);
    if (node->type[0].rank == 4) return y;
    const int64_t flat[] = {o.b, o.s, o.h * o.dv};
    return reshaped(node, attn_turned_axes(node, y, 0, 2, 1, 3), 3, flat);
}

/* ---- LinearAttention: one token after the other ---------------------------------------------- */

typedef struct linear_attention {
    int q, k, v, decay, beta; /* [b,heads,n,d]; decay's and beta's d may be 1 */
    int state;                /* [b,g,d,dv] */
    int64_t b, h, g, n, d, dv;
} linear_attention;

static linear_attention read_linear_attention(const call *node)
{
    linear_attention l = {.b = dim_of(node, 0, 0), .n = dim_of(node, 0, 1)};
    int in[6];
    for (int i = 0; i < 6; i++) in[i] = given(node, i) ? attn_as_dtype(node, node->in[i], "f32") : ZT_NONE;
    l.h = int_or(node, "q_num_heads", 1);
    l.g = int_or(node, "kv_num_heads", 1);
    l.d = dim_of(node, 0, 2) / l.h;
    l.dv = dim_of(node, 2, 2) / l.g;
    l.q = attn_by_heads(node, 0, in[0], l.h);
    l.k = attn_by_heads(node, 1, in[1], l.g);
    l.v = attn_by_heads(node, 2, in[2], l.g);
    l.decay = given(node, 4) ? attn_by_heads(node, 4, in[4], l.g) : ZT_NONE;
    l.beta = given(node, 5) ? attn_by_heads(node, 5, in[5], dim_of(node, 5, 2)) : ZT_NONE;
    const int64_t dim[] = {l.b, l.g, l.d, l.dv};
    float *zeros = calloc((size_t)(l.b * l.g * l.d * l.dv) + 1, sizeof *zeros);
    l.state = given(node, 3) ? in[3] : constant(node, ZT_F32, 4, dim, zeros);
    free(zeros);
    return l;
}

static int attn_token(const call *node, int x, int64_t t)
{
    return zt_program_slice(node->p, NULL, x, &(zt_slice_attrs){2, t, t + 1});
}

/* The state after token t, and what it reads of it. */
static int linear_step(const call *node, linear_attention *l, int64_t t)
{
    const char *rule = word_or(node, "update_rule", "gated_delta");
    const zt_matmul_attrs plain = {0, 0}, outer = {1, 0};
    int k = attn_token(node, l->k, t), v = attn_token(node, l->v, t);
    if (!strncmp(rule, "gated", 5)) {
        int keep = attn_turned_axes(node, zt_program_exp(node->p, NULL, attn_token(node, l->decay, t)), 0, 1, 3, 2);
        l->state = zt_program_mul(node->p, NULL, l->state, keep);
    }
    if (strstr(rule, "delta")) {
        v = zt_program_sub(node->p, NULL, v, zt_program_matmul(node->p, NULL, k, l->state, &plain));
        v = zt_program_mul(node->p, NULL, v, attn_token(node, l->beta, t));
    }
    l->state = zt_program_add(node->p, NULL, l->state, zt_program_matmul(node->p, NULL, k, v, &outer));
    int shared = zt_program_repeat(node->p, NULL, l->state, &(zt_repeat_attrs){1, l->h / l->g});
    return zt_program_matmul(node->p, NULL, attn_token(node, l->q, t), shared, &plain);
}

static int build_linear_attention(const call *node)
{
    linear_attention l = read_linear_attention(node);
    const int64_t flat[] = {l.b, l.n, l.h * l.dv};
    const zt_concat_attrs along = {2};
    double scale = number_or(node, "scale", 0);
    int y = -1;
    for (int64_t t = 0; t < l.n; t++) {
        int o = linear_step(node, &l, t);
        y = t ? zt_program_concat(node->p, NULL, y, o, ZT_NONE, ZT_NONE, ZT_NONE, &along) : o;
    }
    y = zt_program_scale(node->p, NULL, y, &(zt_scale_attrs){scale != 0 ? scale : 1 / sqrt((double)l.d)});
    node->more[0] = attn_cast_like(node, l.state, node->type[given(node, 3) ? 3 : 0].dtype);
    return attn_cast_like(node, reshaped(node, attn_turned_axes(node, y, 0, 2, 1, 3), 3, flat), node->type[0].dtype);
}

/* ---- RotaryEmbedding ------------------------------------------------------------------------- */

/* A row of the table for each row of [b,s]. */
static int rotary_table(const call *node, int k, int64_t rows)
{
    const int64_t ids_dim[] = {rows}, dim[] = {rows, dim_of(node, k, -1)};
    if (!given(node, 3)) return reshaped(node, node->in[k], 2, dim);
    int ids = attn_as_dtype(node, reshaped(node, node->in[3], 1, ids_dim), "i32");
    return attn_cast_like(node, zt_program_gather(node->p, NULL, node->in[k], ids, NULL), node->type[0].dtype);
}

/* All heads of a row turn alike: [heads, b*s, d] by tables [b*s, half]. */
static int build_rotary_embedding(const call *node)
{
    const zt_type *x = &node->type[0];
    bool flat = x->rank == 3;
    int64_t b = x->dim[0], s = x->dim[flat ? 1 : 2];
    int64_t h = flat ? int_or(node, "num_heads", 1) : x->dim[1];
    int64_t d = flat ? x->dim[2] / h : x->dim[3];
    const int64_t split[] = {b, s, h, d}, rows[] = {h, b * s, d}, apart[] = {h, b, s, d};
    int v = flat ? attn_turned_axes(node, reshaped(node, node->in[0], 4, split), 2, 0, 1, 3)
                 : attn_turned_axes(node, node->in[0], 1, 0, 2, 3);
    zt_rope_table_attrs a = zt_rope_table_defaults();
    if (int_or(node, "interleaved", 0)) a.pair = (zt_enum_string){"neighbours"};
    v = zt_program_rope_table(node->p, NULL, reshaped(node, v, 3, rows), rotary_table(node, 1, b * s),
                              rotary_table(node, 2, b * s), &a);
    v = reshaped(node, v, 4, apart);
    if (!flat) return attn_turned_axes(node, v, 1, 0, 2, 3);
    return reshaped(node, attn_turned_axes(node, v, 1, 2, 0, 3), 3, x->dim);
}

static const spelling onnx_attention_ops[] = {
    {"Attention", .build = build_attention},
    {"LinearAttention", .build = build_linear_attention},
    {"RotaryEmbedding", .build = build_rotary_embedding},
};

#endif
