/* build.c - the one builder: hyper-parameters and weights become the program of a forward pass.
 *
 *   in ids, pos, seq: i32[n]   table: i32[S, ctx/32]   rows: i32[m]      out logits: f32[m,V]
 *   state kc0, vc0, ...: [ctx, kv_width]                     or states: f32[m,width]
 *
 * and of an encoder
 *
 *   in ids, types, pos, last: i32[n]                         out states: f32[n,width]
 *
 * and of a lesson (learn.h), n texts of T tokens
 *
 *   in ids, target, pos: i32[n,T]                            out loss: f32
 *
 * n tokens go in, and logits come out for those m of them that `rows` names. Only n, m and ctx are
 * symbols, so a prompt and a token are the same program. In the last layer everything after
 * attention is done for the wanted rows alone. Names carry the layer: q3 is made in layer 3.
 * An encoder has no cache: its keys are the step's own rows, one text a step, of which each row
 * sees those up to `last`; rows after that one are padding that nobody sees.
 * Errors stay in the context: a value of -1 is passed on, and zt_llm_build looks once at the end.
 */
#include "lib/llm/arch.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct builder {
    zt_prog *p;
    const zt_gguf *g;
    const zt_hyper *h;
    const zt_build_opts *o;
    int pos, seq, table, rows; /* inputs; of an encoder pos alone, */
    int types, last;           /* and these */
    int target;                /* of a lesson */
    int64_t texts, rows_all;   /* of a lesson: n, and n T */
    int tab;                   /* divisors of rope, ZT_NONE in most models */
    int64_t ctx;               /* the symbol */
    int64_t layer;
    char label[32];
} builder;

/* "q3" in layer 3; good until the next call. */
static const char *named(builder *b, const char *what)
{
    snprintf(b->label, sizeof b->label, "%s%" PRId64, what, b->layer);
    return b->label;
}

/* ---- weights -------------------------------------------------------------------------------- */

/* The data value of a weight, named as the tensor less ".weight"; ZT_NONE where there is none.
 * Vectors are used in f32: that is how converters write them, but a file may say otherwise. */
static int weight(builder *b, zt_weight w)
{
    char name[ZT_WEIGHT_NAME], wide[ZT_WEIGHT_NAME + 4];
    zt_type t;
    int64_t i = w < ZT_WEIGHT_COUNT ? zt_weight_find(b->g, b->h, w, b->layer) : -1;
    if (i < 0)
        return ZT_NONE;
    const char *tensor = zt_gguf_tensor(b->g, i, &t, NULL, NULL);
    snprintf(name, sizeof name, "%s", tensor);
    size_t n = strlen(name), cut = strlen(".weight");
    if (n > cut && strcmp(name + n - cut, ".weight") == 0)
        name[n - cut] = 0;
    if (b->o->lesson)
        t.dtype = ZT_F32;
    int data = zt_prog_data(b->p, name, t.dtype, t.rank, t.dim, tensor);
    if (t.rank != 1 || t.dtype == ZT_F32)
        return data;
    snprintf(wide, sizeof wide, "%s.f32", name);
    return zt_program_cast(b->p, wide, data, &(zt_cast_attrs){.to.s = "f32"});
}

/* x w^T + bias. Unless all is exact, activations go to 8 bits where the weight is block-quantized
 * and to bf16 where it is bf16; with f16 and f32 weights they stay f32. `fine`: to 16 bits, not 8.
 * So it is for k and v, which steer what all later tokens see, and for the logits: of the distance
 * from exact arithmetic these make more than half, and q next to nothing (bench/results/perplexity.md). */
static int linear(builder *b, const char *what, int x, int w, int bias, bool fine)
{
    zt_linear_attrs a = zt_linear_defaults();
    if (w < 0)
        return -1;
    zt_dtype t = zt_prog_value(b->p, w)->type.dtype;
    bool round = zt_dtype_get(t)->kind == 'Q' || t == ZT_BF16;
    snprintf(a.act.s, sizeof a.act.s, "%s", !round || b->o->exact ? "f32" : fine ? "q16" : "q8");
    return zt_program_linear(b->p, what, x, w, bias, &a);
}

static int layer_linear(builder *b, const char *what, int x, zt_weight w, zt_weight bias)
{
    int data = weight(b, w), more = weight(b, bias);
    bool fine = w == ZT_W_K || w == ZT_W_V || w == ZT_W_QKV;
    return linear(b, named(b, what), x, data, more, fine);
}

/* A norm of the row, or (dims) of each head in it; x itself where there is no such weight. */
static int norm(builder *b, const char *label, int x, zt_weight w, zt_weight bias, int64_t dims)
{
    int g = weight(b, w);
    if (g == ZT_NONE)
        return x;
    if (b->h->arch->layer_norm)
        return zt_program_layer_norm(b->p, label, x, g, weight(b, bias),
                                  &(zt_layer_norm_attrs){.eps = b->h->eps}, NULL, NULL);
    return zt_program_rms_norm(b->p, label, x, g,
                            &(zt_rms_norm_attrs){.eps = b->h->eps, .dims = dims}, NULL);
}

/* Of a layer; ZT_WEIGHT_COUNT: a norm that has no bias anywhere. */
static int layer_norm(builder *b, const char *what, int x, zt_weight w, zt_weight bias)
{
    return norm(b, named(b, what), x, w, bias, 0);
}

static int scaled(builder *b, const char *label, int x, double by)
{
    return by == 1 ? x : zt_program_scale(b->p, label, x, &(zt_scale_attrs){.by = by});
}

/* Columns from..to-1 of x. */
static int columns(builder *b, const char *what, int x, int64_t from, int64_t to)
{
    zt_slice_attrs a = {.axis = 1, .from = from, .to = to};
    return zt_program_slice(b->p, named(b, what), x, &a);
}

/* ---- attention ------------------------------------------------------------------------------ */

/* The norm of q's or k's heads, or of all together, and the rotation. */
static int turned(builder *b, const char *normed, const char *what, int x, zt_weight w)
{
    const zt_hyper *h = b->h;
    bool local = h->local[b->layer];
    x = norm(b, named(b, normed), x, w, ZT_WEIGHT_COUNT, h->arch->qk_norm_whole ? 0 : h->head);
    if (!h->rotated[b->layer])
        return x;
    int tab = local && h->arch->local_plain ? ZT_NONE : b->tab;
    return zt_program_rope(b->p, named(b, what), x, b->pos, tab, local ? &h->local_rope : &h->rope);
}

/* Put k or v into its cache, and return the cache as it is from then on. */
static int cached(builder *b, const char *state, const char *after, int x)
{
    if (b->h->arch->encoder || b->o->lesson)
        return x;
    int c = zt_prog_state(b->p, named(b, state), b->o->kv, 2, (int64_t[]){b->ctx, b->h->kv_width});
    int c1 = zt_program_kv_put(b->p, named(b, after), c, x, b->pos, b->seq, b->table);
    zt_prog_keep(b->p, c, c1);
    return c1;
}

typedef struct heads {
    int q, k, v;
} heads;

static heads project(builder *b, int x)
{
    const zt_hyper *h = b->h;
    if (!(h->parts & ZT_PART_FUSED_QKV)) {
        int q = layer_linear(b, "q", x, ZT_W_Q, ZT_W_Q_BIAS);
        int k = layer_linear(b, "k", x, ZT_W_K, ZT_W_K_BIAS);
        return (heads){q, k, layer_linear(b, "v", x, ZT_W_V, ZT_W_V_BIAS)};
    }
    int all = layer_linear(b, "qkv", x, ZT_W_QKV, ZT_W_QKV_BIAS);
    int64_t k_end = h->q_width + h->kv_width;
    int q = columns(b, "q", all, 0, h->q_width), k = columns(b, "k", all, h->q_width, k_end);
    return (heads){q, k, columns(b, "v", all, k_end, h->qkv_width)};
}

/* [n T, heads * head] as [n, T, heads, head], or back. */
static int in_texts(builder *b, const char *what, int x, int64_t n_heads)
{
    zt_reshape_attrs a = {.shape = {4, {b->texts, b->o->lesson, n_heads, b->h->head}}};
    return zt_program_reshape(b->p, named(b, what), x, &a);
}

/* A lesson's: every text by itself, each token sees those before it. */
static int causal_attention(builder *b, heads a)
{
    const zt_hyper *h = b->h;
    zt_sdpa_attrs at = zt_sdpa_defaults();
    at.scale = h->attn_scale;
    at.causal = 1;
    at.softcap = h->attn_cap;
    at.left = h->local[b->layer] && h->window ? h->window - 1 : -1;
    snprintf(at.layout.s, sizeof at.layout.s, "bshd");
    int q = in_texts(b, "qt", a.q, h->n_heads), k = in_texts(b, "kt", a.k, h->n_kv_heads);
    int v = in_texts(b, "vt", a.v, h->n_kv_heads);
    int y = zt_program_sdpa(b->p, named(b, "at"), q, k, v, ZT_NONE, ZT_NONE, &at, NULL);
    zt_reshape_attrs back = {.shape = {2, {b->rows_all, h->q_width}}};
    return zt_program_reshape(b->p, named(b, "a"), y, &back);
}

static int attention(builder *b, int x)
{
    const zt_hyper *h = b->h;
    heads a = project(b, x);
    int q = turned(b, "qn", "qr", a.q, ZT_W_Q_NORM), k = turned(b, "kn", "kr", a.k, ZT_W_K_NORM);
    if (b->o->lesson)
        return causal_attention(b, (heads){q, k, a.v});
    int kc = cached(b, "kc", "kp", k), vc = cached(b, "vc", "vp", a.v);
    zt_attention_attrs attrs = {.head = h->head,
                                .scale = h->attn_scale,
                                .window = h->local[b->layer] ? h->window : 0,
                                .softcap = h->attn_cap};
    int seen = h->arch->encoder ? b->last : b->pos;
    return zt_program_attention(b->p, named(b, "a"), q, kc, vc, seen, b->seq, b->table, &attrs);
}

/* ---- layers --------------------------------------------------------------------------------- */

static int feed_forward(builder *b, int x)
{
    const zt_hyper *h = b->h;
    int gate, up = ZT_NONE;
    if (h->parts & ZT_PART_FUSED_UP) {
        int both = layer_linear(b, "gu", x, ZT_W_GATE_UP, ZT_WEIGHT_COUNT);
        gate = columns(b, "g", both, 0, h->ff);
        up = columns(b, "u", both, h->ff, h->up_width);
    } else if (h->parts & ZT_PART_GATE) {
        gate = layer_linear(b, "g", x, ZT_W_GATE, ZT_W_GATE_BIAS);
        up = layer_linear(b, "u", x, ZT_W_UP, ZT_W_UP_BIAS);
    } else {
        gate = layer_linear(b, "u", x, ZT_W_UP, ZT_W_UP_BIAS);
    }
    int y = h->arch->act(b->p, named(b, "f"), gate, up);
    return layer_linear(b, "d", y, ZT_W_DOWN, ZT_W_DOWN_BIAS);
}

/* Each half of a layer reads x (normed), and is added to it (normed, scaled; the sum normed). */
static int layer(builder *b, int x)
{
    double by = b->h->residual_scale;
    int a = attention(b, layer_norm(b, "h", x, ZT_W_ATTN_NORM, ZT_W_ATTN_NORM_BIAS));
    if (b->layer == b->h->n_layers - 1 && b->rows != ZT_NONE) {
        a = zt_program_gather(b->p, "a_rows", a, b->rows, NULL);
        x = zt_program_gather(b->p, "x_rows", x, b->rows, NULL);
    }
    a = layer_linear(b, "o", a, ZT_W_O, ZT_W_O_BIAS);
    a = layer_norm(b, "on", a, ZT_W_ATTN_POST, ZT_WEIGHT_COUNT);
    a = scaled(b, named(b, "os"), a, by);
    x = zt_program_add(b->p, named(b, "y"), x, a);
    x = layer_norm(b, "yn", x, ZT_W_ATTN_SUM, ZT_W_ATTN_SUM_BIAS);
    int f = feed_forward(b, layer_norm(b, "hf", x, ZT_W_FF_NORM, ZT_W_FF_NORM_BIAS));
    f = layer_norm(b, "dn", f, ZT_W_FF_POST, ZT_WEIGHT_COUNT);
    f = scaled(b, named(b, "ds"), f, by);
    x = zt_program_add(b->p, named(b, "x"), x, f);
    return layer_norm(b, "xn", x, ZT_W_FF_SUM, ZT_W_FF_SUM_BIAS);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int input(builder *b, const char *name, int64_t n)
{
    return zt_prog_in(b->p, name, ZT_I32, 1, &n);
}

/* i32[n,T], as one row behind the other. */
static int flat_input(builder *b, const char *name, const char *flat)
{
    int x = zt_prog_in(b->p, name, ZT_I32, 2, (int64_t[]){b->texts, b->o->lesson});
    zt_reshape_attrs a = {.shape = {1, {b->rows_all}}};
    return zt_program_reshape(b->p, flat, x, &a);
}

static int lesson_inputs(builder *b)
{
    b->texts = zt_prog_symbol(b->p, "n");
    b->rows_all = zt_prog_dim(b->p, '*', b->texts, b->o->lesson);
    b->types = b->last = b->seq = b->table = b->rows = ZT_NONE;
    int ids = flat_input(b, "ids", "ids_flat");
    b->target = flat_input(b, "target", "target_flat");
    b->pos = flat_input(b, "pos", "pos_flat");
    return ids;
}

/* Declares the inputs; the ids. */
static int inputs(builder *b)
{
    zt_prog *p = b->p;
    if (b->o->lesson)
        return lesson_inputs(b);
    int64_t n = zt_prog_symbol(p, "n");
    int ids = input(b, "ids", n);
    b->types = b->last = b->seq = b->table = b->rows = ZT_NONE;
    if (b->h->arch->encoder) {
        b->types = input(b, "types", n);
        b->pos = input(b, "pos", n);
        b->last = input(b, "last", n);
        return ids;
    }
    int64_t m = zt_prog_symbol(p, "m");
    b->ctx = zt_prog_symbol(p, "ctx");
    int64_t blocks = zt_prog_dim(p, '/', b->ctx, ZT_KV_BLOCK);
    b->pos = input(b, "pos", n);
    b->seq = input(b, "seq", n);
    b->table = zt_prog_in(p, "table", ZT_I32, 2, (int64_t[]){b->o->n_seq, blocks});
    b->rows = input(b, "rows", m);
    return ids;
}

/* x plus a row of the table `w` for each of `i`; x where there is no such table. */
static int plus_row(builder *b, const char *row, const char *sum, int x, zt_weight w, int i)
{
    int table = weight(b, w);
    if (table == ZT_NONE)
        return x;
    return zt_program_add(b->p, sum, x, zt_program_gather(b->p, row, table, i, NULL));
}

/* The embedded tokens; `*table` is the embedding's value. */
static int embed(builder *b, int ids, int *table)
{
    *table = weight(b, ZT_W_EMBED);
    int x = zt_program_gather(b->p, "x", *table, ids, NULL);
    x = scaled(b, "xs", x, b->h->embed_scale);
    x = plus_row(b, "x_type", "xt", x, ZT_W_TYPES, b->types);
    x = plus_row(b, "x_pos", "xp", x, ZT_W_POSITIONS, b->pos);
    return norm(b, "x_embd", x, ZT_W_EMBED_NORM, ZT_W_EMBED_NORM_BIAS, 0);
}

/* States after the last norm, or logits. */
static int output(builder *b, int x, int embedding)
{
    x = norm(b, "x_norm", x, ZT_W_OUT_NORM, ZT_W_OUT_NORM_BIAS, 0);
    if (b->o->embed)
        return x;
    int w = weight(b, ZT_W_OUT);
    x = linear(b, "logits", x, w == ZT_NONE ? embedding : w, ZT_NONE, true);
    x = scaled(b, "less", x, b->h->logit_scale);
    if (b->h->final_cap == 0)
        return x;
    return zt_program_softcap(b->p, "capped", x, &(zt_softcap_attrs){.cap = b->h->final_cap});
}

/* What the rotations are divided by, for every context, or for long and for short ones. */
static int divisors(builder *b)
{
    int tab = weight(b, ZT_W_ROPE_TAB);
    if (tab != ZT_NONE)
        return tab;
    return weight(b, b->o->ctx > b->h->ctx_orig ? ZT_W_ROPE_LONG : ZT_W_ROPE_SHORT);
}

/* Declares the outputs: y is states, or logits. */
static zt_status put_out(builder *b, int y)
{
    if (b->o->lesson)
        return zt_prog_out(b->p, "loss", zt_program_cross_entropy(b->p, "mean", y, b->target, ZT_NONE,
                                                               NULL, NULL));
    zt_status s = zt_prog_out(b->p, b->o->embed ? "states" : "logits", y);
    if (s != ZT_OK || b->o->embed)
        return s;
    s = zt_prog_out(b->p, "best", zt_program_argmax(b->p, "likeliest", y, NULL));
    if (s != ZT_OK || !b->o->draws)
        return s;
    return zt_prog_out(b->p, "token", zt_drawing_build(b->p, y, zt_prog_symbol(b->p, "m")));
}

zt_prog *zt_llm_build(const zt_gguf *g, const zt_hyper *h, const zt_build_opts *opts)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    builder b = {.p = zt_prog_new(ctx), .g = g, .h = h, .o = opts};
    int embedding;
    if (!b.p)
        return NULL;
    zt_prog_model(b.p, zt_gguf_name(g), zt_gguf_id(g));
    int x = embed(&b, inputs(&b), &embedding);
    b.tab = divisors(&b);
    for (b.layer = 0; b.layer < h->n_layers; b.layer++)
        x = layer(&b, x);
    zt_status s = put_out(&b, output(&b, x, embedding));
    if (s == ZT_OK && zt_ctx_status(ctx) == ZT_OK)
        return b.p;
    zt_prog_free(b.p);
    return NULL;
}
