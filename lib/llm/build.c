/* build.c - the one builder: hyper-parameters and weights become the program of a forward pass.
 *
 *   in ids, pos, seq: i32[n]   table: i32[S, ctx/32]   rows: i32[m]      out logits: f32[m,V]
 *   state kc0, vc0, ...: [ctx, kv_width]                     or states: f32[m,width]
 *
 * n tokens go in, and logits come out for those m of them that `rows` names. Only n, m and ctx are
 * symbols, so a prompt and a token are the same program. In the last layer everything after
 * attention is done for the wanted rows alone. Names carry the layer: q3 is made in layer 3.
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
    int pos, seq, table, rows; /* inputs */
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

/* The data value of a weight, named as the tensor less ".weight"; ZT_NONE where there is none. */
static int weight(builder *b, zt_weight w)
{
    char name[ZT_WEIGHT_NAME];
    zt_type t;
    int64_t i = zt_weight_find(b->g, b->h, w, b->layer);
    if (i < 0)
        return ZT_NONE;
    const char *tensor = zt_gguf_tensor(b->g, i, &t, NULL, NULL);
    snprintf(name, sizeof name, "%s", tensor);
    size_t n = strlen(name), cut = strlen(".weight");
    if (n > cut && strcmp(name + n - cut, ".weight") == 0)
        name[n - cut] = 0;
    return zt_prog_data(b->p, name, t.dtype, t.rank, t.dim, tensor);
}

/* x w^T + bias. Unless all is exact, activations go to 8 bits where the weight is block-quantized
 * and to bf16 where it is bf16; with f16 and f32 weights they stay f32. */
static int linear(builder *b, const char *what, int x, int w, int bias)
{
    zt_linear_attrs a = zt_linear_defaults();
    if (w < 0)
        return -1;
    zt_dtype t = zt_prog_value(b->p, w)->type.dtype;
    bool round = zt_dtype_get(t)->kind == 'Q' || t == ZT_BF16;
    snprintf(a.act.s, sizeof a.act.s, "%s", round && !b->o->exact ? "q8" : "f32");
    return zt_emit_linear(b->p, what, x, w, bias, &a);
}

static int layer_linear(builder *b, const char *what, int x, zt_weight w, zt_weight bias)
{
    int data = weight(b, w), more = weight(b, bias);
    return linear(b, named(b, what), x, data, more);
}

/* RMS norm of the row, or (dims) of each head in it; x itself where there is no such weight. */
static int norm(builder *b, const char *what, int x, zt_weight w, int64_t dims)
{
    int g = weight(b, w);
    zt_rms_norm_attrs a = {.eps = b->h->eps, .dims = dims};
    return g == ZT_NONE ? x : zt_emit_rms_norm(b->p, named(b, what), x, g, &a, NULL);
}

/* ---- attention ------------------------------------------------------------------------------ */

static int rope(builder *b, const char *what, int x)
{
    const zt_hyper *h = b->h;
    bool local = zt_hyper_local(h, b->layer);
    zt_rope_attrs a = {.theta = local ? h->local_theta : h->theta,
                       .dims = h->rope_dims,
                       .head = h->head,
                       .scale = local ? 1.0 : h->rope_scale,
                       .amplitude = 1};
    snprintf(a.pair.s, sizeof a.pair.s, "%s", h->arch->rope_pair);
    return zt_emit_rope(b->p, named(b, what), x, b->pos, b->tab, &a);
}

/* Put k or v into its cache, and return the cache as it is from then on. */
static int cached(builder *b, const char *state, const char *after, int x)
{
    int c = zt_prog_state(b->p, named(b, state), b->o->kv, 2, (int64_t[]){b->ctx, b->h->kv_width});
    int c1 = zt_emit_kv_put(b->p, named(b, after), c, x, b->pos, b->seq, b->table);
    zt_prog_keep(b->p, c, c1);
    return c1;
}

static int attention(builder *b, int x)
{
    const zt_hyper *h = b->h;
    int q = layer_linear(b, "q", x, ZT_W_Q, ZT_W_Q_BIAS);
    int k = layer_linear(b, "k", x, ZT_W_K, ZT_W_K_BIAS);
    int v = layer_linear(b, "v", x, ZT_W_V, ZT_W_V_BIAS);
    q = rope(b, "qr", norm(b, "qn", q, ZT_W_Q_NORM, h->head));
    k = rope(b, "kr", norm(b, "kn", k, ZT_W_K_NORM, h->head));
    int kc = cached(b, "kc", "kp", k), vc = cached(b, "vc", "vp", v);
    zt_attention_attrs a = {.head = h->head,
                            .scale = h->attn_scale,
                            .window = zt_hyper_local(h, b->layer) ? h->window : 0,
                            .softcap = h->attn_cap};
    return zt_emit_attention(b->p, named(b, "a"), q, kc, vc, b->pos, b->seq, b->table, &a);
}

/* ---- layers --------------------------------------------------------------------------------- */

static int feed_forward(builder *b, int x)
{
    int gate = layer_linear(b, "g", x, ZT_W_GATE, ZT_W_GATE_BIAS);
    int up = layer_linear(b, "u", x, ZT_W_UP, ZT_W_UP_BIAS);
    int y = b->h->arch->gate(b->p, named(b, "f"), gate, up);
    return layer_linear(b, "d", y, ZT_W_DOWN, ZT_W_DOWN_BIAS);
}

static int layer(builder *b, int x)
{
    int a = attention(b, norm(b, "h", x, ZT_W_ATTN_NORM, 0));
    if (b->layer == b->h->n_layers - 1) {
        a = zt_emit_gather(b->p, "a_rows", a, b->rows);
        x = zt_emit_gather(b->p, "x_rows", x, b->rows);
    }
    a = layer_linear(b, "o", a, ZT_W_O, ZT_W_O_BIAS);
    x = zt_emit_add(b->p, named(b, "y"), x, norm(b, "on", a, ZT_W_ATTN_POST, 0));
    int f = feed_forward(b, norm(b, "hf", x, ZT_W_FF_NORM, 0));
    return zt_emit_add(b->p, named(b, "x"), x, norm(b, "dn", f, ZT_W_FF_POST, 0));
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Declares the inputs; the ids. */
static int inputs(builder *b)
{
    zt_prog *p = b->p;
    int64_t n = zt_prog_symbol(p, "n"), m = zt_prog_symbol(p, "m");
    b->ctx = zt_prog_symbol(p, "ctx");
    int64_t blocks = zt_prog_dim(p, '/', b->ctx, ZT_KV_BLOCK);
    int ids = zt_prog_in(p, "ids", ZT_I32, 1, &n);
    b->pos = zt_prog_in(p, "pos", ZT_I32, 1, &n);
    b->seq = zt_prog_in(p, "seq", ZT_I32, 1, &n);
    b->table = zt_prog_in(p, "table", ZT_I32, 2, (int64_t[]){b->o->n_seq, blocks});
    b->rows = zt_prog_in(p, "rows", ZT_I32, 1, &m);
    return ids;
}

/* The embedded tokens; `*table` is the embedding's value. */
static int embed(builder *b, int ids, int *table)
{
    *table = weight(b, ZT_W_EMBED);
    int x = zt_emit_gather(b->p, "x", *table, ids);
    if (!b->h->arch->embed_scale)
        return x;
    return zt_emit_scale(b->p, "xs", x, &(zt_scale_attrs){.by = sqrt((double)b->h->width)});
}

/* States after the last norm, or logits. */
static int output(builder *b, int x, int embedding)
{
    int g = weight(b, ZT_W_OUT_NORM), w;
    x = zt_emit_rms_norm(b->p, "x_norm", x, g, &(zt_rms_norm_attrs){.eps = b->h->eps}, NULL);
    if (b->o->embed)
        return x;
    w = weight(b, ZT_W_OUT);
    x = linear(b, "logits", x, w == ZT_NONE ? embedding : w, ZT_NONE);
    if (b->h->final_cap == 0)
        return x;
    return zt_emit_softcap(b->p, "capped", x, &(zt_softcap_attrs){.cap = b->h->final_cap});
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
    b.tab = weight(&b, ZT_W_ROPE_TAB);
    for (b.layer = 0; b.layer < h->n_layers; b.layer++)
        x = layer(&b, x);
    zt_status s = zt_prog_out(b.p, opts->embed ? "states" : "logits", output(&b, x, embedding));
    if (s == ZT_OK && zt_ctx_status(ctx) == ZT_OK)
        return b.p;
    zt_prog_free(b.p);
    return NULL;
}
