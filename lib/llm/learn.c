/* learn.c - owns new language models: their shape, their header, their drawn weights. */
#include "lib/llm/learn.h"
#include "lib/io/gguf_write.h"
#include "lib/llm/arch.h"
#include "lib/llm/bpe_make.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEAD = 32, MAX_TENSORS = 9 * ZT_MAX_LAYERS + 2 };

/* ---- shapes ---------------------------------------------------------------------------------- */

static int64_t parameters_of(const zt_llm_shape *s)
{
    int64_t layer = 4 * s->width * s->width + 3 * s->width * s->ff + 2 * s->width;
    return s->layers * layer + s->vocab * s->width + s->width;
}

/* A layer for each 32 columns, from 2 to 32; ff 8/3 of the width. */
static zt_llm_shape shape_at(int64_t width, int64_t vocab)
{
    int64_t layers = width / 32 < 2 ? 2 : width / 32 > 32 ? 32 : width / 32;
    return (zt_llm_shape){.arch = "llama", .layers = layers, .width = width, .heads = width / HEAD,
                          .ff = (8 * width / 3 + 31) / 32 * 32, .vocab = vocab};
}

zt_status zt_llm_shape_of(zt_ctx *ctx, int64_t parameters, int64_t vocab, zt_llm_shape *s)
{
    zt_llm_shape at = shape_at(HEAD, vocab);
    int64_t least = parameters_of(&at);
    if (parameters < least)
        return zt_fail(ctx, ZT_EUSAGE,
                       "a model of %lld parameters: with %lld tokens it has %lld at least",
                       (long long)parameters, (long long)vocab, (long long)least);
    while (at.width < 1 << 14 && parameters_of(&at) <= parameters) {
        *s = at;
        at = shape_at(at.width + HEAD, vocab);
    }
    return ZT_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct drawn {
    zt_ctx *ctx;
    uint64_t seed;
    int n;
    struct {
        char name[ZT_WEIGHT_NAME];
        zt_type type;
        float deviation; /* 0: all ones */
    } tensor[];
} drawn;

static void add(drawn *d, zt_weight w, int64_t layer, int64_t rows, int64_t columns,
                double deviation)
{
    zt_weight_name(w, layer, d->tensor[d->n].name);
    d->tensor[d->n].type = rows ? zt_type_make(ZT_F32, 2, (int64_t[]){rows, columns})
                                : zt_type_make(ZT_F32, 1, &columns);
    d->tensor[d->n++].deviation = (float)deviation;
}

static void add_layer(drawn *d, const zt_llm_shape *s, int64_t l)
{
    double in = 1 / sqrt((double)s->width), out = sqrt(0.5 / (double)s->layers);
    add(d, ZT_W_ATTN_NORM, l, 0, s->width, 0);
    add(d, ZT_W_Q, l, s->width, s->width, in);
    add(d, ZT_W_K, l, s->width, s->width, in);
    add(d, ZT_W_V, l, s->width, s->width, in);
    add(d, ZT_W_O, l, s->width, s->width, in * out);
    add(d, ZT_W_FF_NORM, l, 0, s->width, 0);
    add(d, ZT_W_GATE, l, s->ff, s->width, in);
    add(d, ZT_W_UP, l, s->ff, s->width, in);
    add(d, ZT_W_DOWN, l, s->width, s->ff, out / sqrt((double)s->ff));
}

static drawn *draw(zt_ctx *ctx, const zt_llm_shape *s)
{
    drawn *d = zt_calloc(ctx, 1, sizeof *d + MAX_TENSORS * sizeof *d->tensor);
    if (!d) return NULL;
    d->ctx = ctx;
    d->seed = s->seed;
    add(d, ZT_W_EMBED, 0, s->vocab, s->width, 0.02);
    for (int64_t l = 0; l < s->layers; l++) add_layer(d, s, l);
    add(d, ZT_W_OUT_NORM, 0, 0, s->width, 0);
    return d;
}

static zt_status find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    drawn *d = user;
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->tensor[i].name, name)) {
            *type = d->tensor[i].type;
            *handle = i;
            return ZT_OK;
        }
    return ZT_ENOENT;
}

/* A number depends on its place alone. */
static zt_status read_numbers(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    drawn *d = user;
    double deviation = (double)d->tensor[handle].deviation;
    for (size_t done = 0; done < n;) {
        size_t at = offset + done, inside = at % sizeof(float), k = sizeof(float) - inside;
        float x = deviation > 0
                      ? (float)(deviation * zt_normal(d->seed, (uint64_t)handle, at / sizeof x))
                      : 1;
        if (k > n - done) k = n - done;
        memcpy((char *)dst + done, (const char *)&x + inside, k);
        done += k;
    }
    return ZT_OK;
}

static void release(void *user) { zt_free(((drawn *)user)->ctx, user); }

/* ---- the header ------------------------------------------------------------------------------ */

static void put_keys(zt_gguf_writer *w, const zt_llm_shape *s)
{
    const struct {
        const char *name;
        int64_t value;
    } number[] = {{"block_count", s->layers},        {"context_length", s->ctx},
                  {"embedding_length", s->width},    {"feed_forward_length", s->ff},
                  {"attention.head_count", s->heads}, {"attention.head_count_kv", s->heads},
                  {"rope.dimension_count", s->width / s->heads}, {"vocab_size", s->vocab}};
    char key[96];
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        snprintf(key, sizeof key, "%s.%s", s->arch, number[i].name);
        zt_gguf_put_int(w, key, ZT_GGUF_U32, number[i].value);
    }
    snprintf(key, sizeof key, "%s.rope.freq_base", s->arch);
    zt_gguf_put_real(w, key, ZT_GGUF_F32, 10000);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", s->arch);
    zt_gguf_put_real(w, key, ZT_GGUF_F32, 1e-5);
}

static zt_gguf *finish(zt_gguf_writer *w, zt_ctx *ctx, const zt_llm_shape *s)
{
    size_t n;
    uint64_t bytes;
    drawn *d = draw(ctx, s);
    if (!d) return NULL;
    put_keys(w, s);
    for (int i = 0; i < d->n; i++) zt_gguf_put_tensor(w, d->tensor[i].name, &d->tensor[i].type);
    char *header = zt_gguf_writer_finish(w, &n, &bytes);
    const zt_store store = {d, find, read_numbers};
    if (header) return zt_gguf_over(ctx, "new model", header, n, bytes, &store, release);
    release(d);
    return NULL;
}

zt_gguf *zt_llm_new(zt_ctx *ctx, const zt_llm_shape *shape, const char *text, size_t n)
{
    zt_llm_shape s = *shape;
    if (strcmp(s.arch, "llama") != 0) {
        zt_fail(ctx, ZT_ENOTSUP, "new models are of the architecture llama, not '%s'", s.arch);
        return NULL;
    }
    if (s.layers < 1 || s.layers > ZT_MAX_LAYERS || s.heads < 1 || s.width % s.heads) {
        zt_fail(ctx, ZT_EUSAGE, "%lld layers, %lld columns in %lld heads make no model",
                (long long)s.layers, (long long)s.width, (long long)s.heads);
        return NULL;
    }
    zt_gguf_writer *w = zt_gguf_writer_new(ctx);
    if (!w) return NULL;
    zt_gguf_put_str(w, "general.architecture", s.arch, strlen(s.arch));
    zt_status st = zt_bpe_make(w, ctx, text, n, s.vocab, &s.vocab);
    zt_gguf *g = st ? NULL : finish(w, ctx, &s);
    zt_gguf_writer_free(w);
    return g;
}

/* ---- the program ----------------------------------------------------------------------------- */

zt_prog *zt_llm_training(zt_gguf *g, int64_t T)
{
    zt_hyper *h = zt_calloc(zt_gguf_ctx(g), 1, sizeof *h);
    zt_prog *p = NULL;
    if (!h) return NULL;
    zt_status s = zt_hyper_read(g, h);
    if (!s) s = zt_weights_check(g, h);
    if (!s && h->arch->encoder)
        s = zt_fail(zt_gguf_ctx(g), ZT_ENOTSUP, "%s: %s models do not continue a text",
                    zt_gguf_name(g), h->arch->name);
    if (!s && (T < 2 || T > h->ctx_train))
        s = zt_fail(zt_gguf_ctx(g), ZT_EUSAGE, "%s: texts of %lld tokens: from 2 to %lld",
                    zt_gguf_name(g), (long long)T, (long long)h->ctx_train);
    if (!s) p = zt_llm_build(g, h, &(zt_build_opts){.exact = true, .kv = ZT_F32, .n_seq = 1,
                                                    .ctx = T, .lesson = T});
    zt_free(zt_gguf_ctx(g), h);
    return p;
}
