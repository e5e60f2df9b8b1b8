/* llm.h - language models: vocabulary, templates, sampling, and the forward pass as a program.
 *
 *     zt_gguf *g = zt_gguf_open(ctx, "m.gguf");
 *     zt_vocab *v = zt_vocab_open(g);
 *     zt_llm *m = zt_llm_open(g, &(zt_llm_opts){.engine = e, .ctx_len = 4096});
 *     zt_ids ids = {0};
 *     zt_vocab_encode(v, text, n, ZT_TOK_BOS_RULE, &ids);
 *     zt_llm_feed(m, ids.id, ids.n, logits);            // f32[V] after the last token
 *     int32_t next = zt_sample(&sampler, logits, V, ...);
 *
 * To add an architecture: a row in arch.c (tensor names, norms, rope, gating, scales), and where it
 * needs what no row had before, a field of the row read by the one builder in build.c.
 */
#ifndef ZT_LLM_H
#define ZT_LLM_H

#include "lib/io/gguf.h"
#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- vocabulary -------------------------------------------------------------------------------- */

typedef struct zt_vocab zt_vocab;

typedef struct zt_ids { /* a growing list of token ids; zero-initialised is empty */
    int32_t *id;
    size_t n, cap;
} zt_ids;
zt_status zt_ids_push(zt_ctx *ctx, zt_ids *ids, int32_t id);
void zt_ids_fini(zt_ctx *ctx, zt_ids *ids);

/* Needs only the tokenizer's keys: any architecture, no tensors. ZT_ENOTSUP names a tokenizer or
 * pre-tokenizer that is not known, ZT_EDATA what is inconsistent. Token texts are borrowed: g must
 * outlive the vocabulary. */
zt_vocab *zt_vocab_open(const zt_gguf *g);
/* The same with this pre-tokenizer (as in tokenizer.ggml.pre) whatever the file says: files from
 * before that key existed name none. NULL: the file's. */
zt_vocab *zt_vocab_open_pre(const zt_gguf *g, const char *pre);
void zt_vocab_free(zt_vocab *v);
int32_t zt_vocab_size(const zt_vocab *v);

enum {
    ZT_TOK_BOS = 1,      /* put BOS first */
    ZT_TOK_BOS_RULE = 2, /* put BOS first if the model's rule says so (and EOS last likewise) */
    ZT_TOK_SPECIAL = 4   /* text of control tokens becomes those tokens */
};
/* Appends to ids. Text is any bytes. */
zt_status zt_vocab_encode(const zt_vocab *v, const char *text, size_t n, unsigned flags, zt_ids *ids);
/* Appends the bytes of one token. `special`: control tokens print their text, else nothing.
 * `first`: the token opens the text (SentencePiece drops its leading space there if it added one).
 * ZT_EUSAGE for an id out of range. */
zt_status zt_vocab_decode(const zt_vocab *v, int32_t id, bool special, bool first, zt_str *out);
bool zt_vocab_is_eog(const zt_vocab *v, int32_t id); /* ends a generation */
bool zt_vocab_is_control(const zt_vocab *v, int32_t id);
int32_t zt_vocab_bos(const zt_vocab *v); /* -1: none */
int32_t zt_vocab_eos(const zt_vocab *v);
int32_t zt_vocab_find(const zt_vocab *v, const char *text, size_t n); /* exact token text, or -1 */

/* ---- chat templates ---------------------------------------------------------------------------- */

typedef struct zt_template zt_template;
typedef struct zt_message {
    const char *role; /* "system" "user" "assistant" */
    const char *content;
} zt_message;
/* Recognised from the model's own template; NULL without a message when it has none, NULL and
 * ZT_ENOTSUP when it has one that is not known. */
const zt_template *zt_template_of(const zt_gguf *g);
const zt_template *zt_template_find(const char *name); /* "chatml" "gemma"; NULL: not known */
const char *zt_template_name(const zt_template *t);
const char *zt_template_list(int i); /* names, NULL after the last */
/* The whole conversation as text, open for the assistant's answer. The template's default system
 * text (taken from the model's where it names one) opens it when there is no system message. */
zt_status zt_template_render(const zt_template *t, const zt_gguf *g, const zt_message *m, int n,
                             zt_str *out);

/* ---- sampling ---------------------------------------------------------------------------------- */

typedef struct zt_sampler {
    double temp;           /* 0: greedy */
    int64_t top_k;         /* 0: all */
    double top_p;          /* 1: all */
    double min_p;          /* 0: all */
    double repeat_penalty; /* 1: off */
    int64_t repeat_last;   /* how many last tokens count; -1: all */
    uint64_t seed;
    uint64_t sequence;
} zt_sampler;
zt_sampler zt_sampler_defaults(void);
zt_status zt_sampler_check(zt_ctx *ctx, const zt_sampler *s); /* ZT_EUSAGE names the value */
/* The next token. `position` is that of the token being chosen: a draw is
 * Philox(seed, sequence, position). logits are f32[V], not changed; scratch f32[2 * V]. Ties go to
 * the lower id. history: all tokens so far. -1 when every logit is NaN. */
int32_t zt_sample(const zt_sampler *s, const float *logits, int64_t V, const int32_t *history,
                  size_t n_history, int64_t position, float *scratch);

/* ---- models ------------------------------------------------------------------------------------ */

typedef struct zt_llm zt_llm;

typedef struct zt_llm_opts {
    zt_engine *engine; /* borrowed */
    int64_t ctx_len;   /* 0: the smaller of 4096 and the model's */
    int64_t chunk;     /* most tokens of a prompt at a time; 0: 512 */
    int64_t n_seq;     /* sequences that share the cache; 0: 1 */
    bool exact;        /* activations and cache f32 */
    zt_dtype kv;       /* F16 or F32, or ZT_DTYPE_COUNT for the default */
    bool strict;
    int64_t max_tokens; /* no more will be fed: a shorter cache will do; 0: as many as ctx_len */
    bool embed;         /* hidden states instead of logits, for zt_llm_embed; encoders need it */
} zt_llm_opts;

/* Hyper-parameters and every tensor's shape are checked before any weight is read: an unknown
 * architecture is ZT_ENOTSUP, a missing or misshapen tensor ZT_EDATA, both with names. */
zt_llm *zt_llm_open(zt_gguf *g, const zt_llm_opts *opts);
void zt_llm_close(zt_llm *m);

typedef struct zt_llm_info {
    const char *arch;
    int64_t n_layers, width, n_heads, n_kv_heads, head, vocab, ctx_train, ctx_len;
    size_t weight_bytes, kv_bytes, scratch_bytes; /* what it needs; scratch for a full chunk */
} zt_llm_info;
zt_llm_info zt_llm_get(const zt_llm *m);
/* The same without loading weights: for --dry-run. */
zt_status zt_llm_plan(zt_gguf *g, const zt_llm_opts *opts, zt_llm_info *out);
/* The forward pass: in ids, pos, seq i32[n], table i32[S,blocks], rows i32[m]; out logits f32[m,V],
 * or with `embed` states f32[m,width]. */
const zt_prog *zt_llm_prog(const zt_llm *m);
zt_session *zt_llm_session(zt_llm *m);

/* Feed n more tokens of sequence 0, in chunks. logits: NULL, or f32[V] after the last, or with
 * `all` f32[n, V]. ZT_ENOMEM with the numbers when the context would overflow. */
zt_status zt_llm_feed(zt_llm *m, const int32_t *ids, size_t n, bool all, float *logits);
int64_t zt_llm_position(const zt_llm *m); /* tokens fed so far */
zt_status zt_llm_rewind(zt_llm *m, int64_t position); /* forget what came after */

/* One text's embedding, f32[width], not normalised, of a model opened with `embed`: the states of
 * all n tokens after the last norm, pooled as the file's pooling_type says (mean where it says
 * nothing, or none). Whatever was fed before is forgotten. ZT_EUSAGE for no tokens, ZT_ENOMEM with
 * the numbers for more than the context holds. */
zt_status zt_llm_embed(zt_llm *m, const int32_t *ids, size_t n, float *out);

#ifdef __cplusplus
}
#endif
#endif
