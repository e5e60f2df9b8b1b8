/* llm.h - language models: vocabulary, templates, sampling, and the forward pass as a program.
 *
 *     zt_gguf *g = zt_model_open(ctx, "m.gguf");
 *     zt_vocab *v = zt_vocab_open(g);
 *     zt_llm *m = zt_llm_open(g, &(zt_llm_opts){.engine = e, .ctx_len = 4096});
 *     zt_ids ids = {0};
 *     zt_vocab_encode(v, text, n, ZT_TOK_BOS_RULE, &ids);
 *     zt_llm_feed(m, ids.id, ids.count, false, logits);     // f32[V] after the last token
 *     int32_t next = zt_sample(&sampler, logits, V, ...);
 *
 * To add an architecture, add a row to arch.c (its parts, RoPE, activation, windows). If it needs something new, add
 * a field to the row and use it in the builder, build.c.
 */
#ifndef ZT_LLM_H
#define ZT_LLM_H

#include "lib/io/gguf.h"
#include "lib/base/ranks.h"
#include "lib/run/plan_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files ----------------------------------------------------------------------------------- */

/* Opens a model of any container as a GGUF: a GGUF file; a Hugging Face directory (config.json;
 * model.safetensors, pytorch_model.bin or an index of such; tokenizer.json ...); or weights, one of
 * several shards or an index, with the other files in the same directory. Keys and tensors have the names that
 * llama.cpp's converter gives them. A directory without config.json or without weights is
 * ZT_ENOENT. A model of an unknown architecture opens with its tokenizer, but without tensors.
 * Release the result with zt_gguf_close. */
zt_gguf *zt_model_open(zt_ctx *ctx, const char *path);
/* As zt_model_open, for the vocabulary alone: a directory needs no weights. */
zt_gguf *zt_model_open_vocabulary(zt_ctx *ctx, const char *path);
/* As zt_model_open, for conversion: a Hugging Face model also gets the metadata that other programs read:
 * general.*, and the tokenizer as tokenizer.ggml.* in addition to tokenizer.huggingface.json. A model of an
 * unknown architecture has its tensors under their own names, and config.json as the key
 * huggingface.config.json. */
zt_gguf *zt_model_open_whole(zt_ctx *ctx, const char *path);
/* Does llama.cpp's converter always write the tensor of this name as f32, whatever the requested type? It does
 * so for vectors and for the embeddings of positions and token types. */
bool zt_model_stays_f32(const char *name, const zt_type *type);

/* How a tensor of a Hugging Face model is stored in a GGUF of an architecture (general.architecture), as
 * llama.cpp's converter does it. */
typedef struct zt_hf_place {
    char name[64];   /* the name in the GGUF */
    bool transposed; /* the matrix is transposed in the GGUF */
    float add;       /* added to each value */
    bool pairs;      /* rows are permuted to pairs (RoPE) within each head of q or k ... */
    bool kv;         /* ... and the number of heads is attention.head_count_kv */
    int64_t expert;  /* the matrix of this expert in a stacked tensor; -1: the whole tensor */
} zt_hf_place;
/* Finds the place of the tensor `hf_name`; a prefix before the known part of the name is ignored. False: unknown
 * tensor or unknown architecture. */
bool zt_hf_place_of(const char *arch, const char *hf_name, zt_hf_place *out);
enum { ZT_HF_MODULE = 160 };
/* The way back for matrices: the module of a Hugging Face model of the architecture whose weight becomes the tensor,
 * "model.layers.0.self_attn.q_proj" of "blk.0.attn_q.weight", and its place. False: the tensor is not the weight of one
 * module, unknown tensor or unknown architecture. */
bool zt_hf_module_of(const char *arch, const char *tensor, char module[ZT_HF_MODULE], zt_hf_place *out);

/* Export to a new Hugging Face directory that transformers reads: config.json, model.safetensors, tokenizer.json
 * and their companions. The directory is written completely or not at all. ZT_ECREATE: the path exists and is not an
 * empty directory. ZT_ENOTSUP: the format cannot express the model (an architecture that zt_model_open
 * does not read, a tokenizer that tokenizer.json cannot hold). */
typedef struct zt_hf_opts {
    zt_dtype dtype;     /* F32, F16 or BF16 of the matrices; ZT_DTYPE_COUNT: as stored, blocks as F16 */
    bool (*stop)(void); /* polled; true ends the export with ZT_EINTR. NULL: never */
} zt_hf_opts;
/* Writes gguf, a model from zt_model_open_whole, to the directory `path`. opts NULL: types as stored. */
zt_status zt_hf_write(zt_ctx *ctx, zt_gguf *gguf, const char *path, const zt_hf_opts *opts);

/* ---- vocabulary ------------------------------------------------------------------------------ */

typedef struct zt_vocab zt_vocab;

typedef struct zt_ids { /* a growing list of token ids; zero-initialized is empty */
    int32_t *id;
    size_t count, capacity;
} zt_ids;
zt_status zt_ids_push(zt_ctx *ctx, zt_ids *ids, int32_t id); /* appends; ZT_ENOMEM: unchanged */
void zt_ids_fini(zt_ctx *ctx, zt_ids *ids);                  /* frees the list and empties it */

/* Opens the vocabulary of a model. Only the tokenizer's keys are needed: any architecture, no tensors.
 * ZT_ENOTSUP: unknown tokenizer or pre-tokenizer (the message names it); ZT_EDATA: inconsistent metadata. Token
 * texts are borrowed: gguf must outlive the vocabulary. */
zt_vocab *zt_vocab_open(const zt_gguf *gguf);
/* As zt_vocab_open, with the pre-tokenizer `pre` (a value of tokenizer.ggml.pre) instead of that of the file: files
 * older than this key name none. NULL: that of the file. */
zt_vocab *zt_vocab_open_pre(const zt_gguf *gguf, const char *pre);
/* The name of pre-tokenizer `index`, a value of tokenizer.ggml.pre; NULL after the last. */
const char *zt_pre_name(int index);
/* As zt_vocab_open, from the `size` bytes of a tokenizer.json, which the call only reads. `name` is used in
 * messages and must outlive the vocabulary. A GGUF that has only the key tokenizer.huggingface.json opens this
 * way. */
zt_vocab *zt_vocab_open_json(zt_ctx *ctx, const char *name, const char *text, size_t size);
void zt_vocab_free(zt_vocab *vocab);          /* NULL: nothing */
int32_t zt_vocab_size(const zt_vocab *vocab); /* number of ids, from 0 */

enum {
    ZT_TOK_BOS = 1,      /* prepend BOS */
    ZT_TOK_BOS_RULE = 2, /* prepend BOS and append EOS as the model's metadata asks for */
    ZT_TOK_SPECIAL = 4   /* parse control tokens in the text */
};
/* Appends to ids. Text is any bytes. */
zt_status zt_vocab_encode(const zt_vocab *vocab, const char *text, size_t size, unsigned flags, zt_ids *ids);
/* As zt_vocab_encode, for a text of two origins: origin[i] is 1 if byte i is user input and 0 if a chat template
 * wrote it. A control token is parsed only where its first and last bytes come from the template, or everywhere
 * with ZT_TOK_SPECIAL. Neither BOS nor EOS is added. */
zt_status zt_vocab_encode_origin(const zt_vocab *vocab, const char *text, size_t size, const char *origin, unsigned flags,
                                 zt_ids *ids);
/* Appends the bytes of one token. `special`: control tokens yield their text; otherwise they yield nothing.
 * `first`: the token is the first of the text (SentencePiece drops the leading space that it added).
 * ZT_EUSAGE for an id out of range. */
zt_status zt_vocab_decode(const zt_vocab *vocab, int32_t id, bool special, bool first, zt_str *out);
/* Appends the text of a whole list of tokens. The text of some tokens depends on their neighbours, and invalid
 * UTF-8 may become U+FFFD. */
zt_status zt_vocab_decode_ids(const zt_vocab *vocab, const int32_t *ids, size_t count, bool special, zt_str *out);
/* Checks that every token that plain text can produce has a row in an embedding of `rows` rows. ZT_EDATA names the
 * first token without one. Control tokens may have none, because plain text does not produce them (the image
 * placeholder of Gemma 3 is beyond its embedding). */
zt_status zt_vocab_check_rows(const zt_vocab *vocab, int64_t rows);
/* Is the vocabulary a whole SentencePiece model (tokenizer.model)? Then control symbols have no text, and decoding is
 * defined for whole lists only: zt_vocab_decode_ids. */
bool zt_vocab_is_pieces(const zt_vocab *vocab);
bool zt_vocab_is_eog(const zt_vocab *vocab, int32_t id);                     /* ends a generation */
bool zt_vocab_is_control(const zt_vocab *vocab, int32_t id);                 /* a control token, such as BOS */
int32_t zt_vocab_bos(const zt_vocab *vocab);                                 /* -1: none */
int32_t zt_vocab_eos(const zt_vocab *vocab);                                 /* -1: none */
int32_t zt_vocab_find(const zt_vocab *vocab, const char *text, size_t size); /* exact token text, or -1 */

/* ---- chat templates -------------------------------------------------------------------------- */

/* The model's own chat template, in Jinja (lib/llm/jinja/jinja.h). variant NULL: the default template;
 * otherwise tokenizer.chat_template.VARIANT. False: not present. The text is borrowed from gguf. */
bool zt_chat_template(const zt_gguf *gguf, const char *variant, zt_bytes *text);
/* The name of a variant (tokenizer.chat_template.NAME), numbered from 0 in the order of the file's keys. False: there is no
 * such number, or an argument is NULL. The name is borrowed from gguf. */
bool zt_chat_template_variant(const zt_gguf *gguf, int index, zt_bytes *name);
/* Appends the names of the template's variants, separated by ", ". */
zt_status zt_chat_template_variants(const zt_gguf *gguf, zt_str *names);
/* An object with the text of each special token that the model has, by the names that templates use: bos_token,
 * eos_token, unk_token, pad_token, sep_token, cls_token, mask_token. Release it with json_decref. NULL: out of
 * memory. */
struct json_t *zt_chat_template_tokens(const zt_gguf *gguf, const zt_vocab *vocab);

/* A template of fixed strings, without Jinja: a prefix and a suffix for the text of each role. */
typedef struct zt_template zt_template;
typedef struct zt_message {
    const char *role; /* "system" "user" "assistant" */
    const char *content;
} zt_message;
const zt_template *zt_template_find(const char *name); /* "chatml", "llama3"; NULL: unknown name */
const char *zt_template_list(int index);               /* names, NULL after the last */
/* Reads a template from a JSON file (format: template_file.c). Free it with the context it was
 * opened in. ZT_EDATA: invalid template; the message gives the reason. */
zt_template *zt_template_open(zt_ctx *ctx, const char *path);
void zt_template_free(zt_ctx *ctx, zt_template *chat_template); /* only for templates from zt_template_open; NULL: no-op */
const char *zt_template_name(const zt_template *chat_template); /* lives as long as the template */
/* The string that opens a user turn, without surrounding blanks: generation must stop if the model writes it. */
zt_bytes zt_template_user(const zt_template *chat_template);

/* Receives a rendered conversation piece by piece, in order, ending where the assistant's answer begins. A piece is
 * text of the template (message is -1), in which special tokens are parsed, or the text of a message, in which they
 * are not. BOS at the beginning is left to zt_vocab_encode. A conversation without a system message begins with
 * the default system text, if the model's template has one. The vocabulary supplies the texts of BOS and EOS; NULL:
 * <s> and </s>. */
typedef zt_status zt_piece_fn(void *user, zt_bytes text, int message);
/* Calls fn for each piece of the message_count messages. A status other than ZT_OK from fn ends the call and is
 * returned. ZT_EUSAGE: the template does not support the role. */
zt_status zt_template_pieces(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab,
                             const zt_message *messages, int message_count, zt_piece_fn *fn, void *user);
/* The same for the text after an answer: one more user message. `close`: begin with the end of the assistant
 * turn. */
zt_status zt_template_next(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab, const char *text,
                           bool close, zt_piece_fn *fn, void *user);
/* Appends the pieces of zt_template_pieces as one text. */
zt_status zt_template_render(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab,
                             const zt_message *messages, int message_count, zt_str *out);

/* ---- sampling -------------------------------------------------------------------------------- */

typedef struct zt_sampler {
    double temp;           /* temperature; 0: greedy */
    int64_t top_k;         /* 0: off */
    double top_p;          /* nucleus sampling; 1: off */
    double min_p;          /* 0: off */
    double repeat_penalty; /* 1: off */
    int64_t repeat_last;   /* penalty window in tokens; -1: the whole context */
    /* Subtracted from the logit of a token in the penalty window: frequency_penalty once per occurrence,
     * presence_penalty once. 0: off; negative values make the token more probable. */
    double frequency_penalty, presence_penalty;
    uint64_t seed;
    uint64_t sequence;
} zt_sampler;
/* Temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, the penalties off, seed 0. */
zt_sampler zt_sampler_defaults(void);
zt_status zt_sampler_check(zt_ctx *ctx, const zt_sampler *sampler); /* ZT_EUSAGE: a value out of range, named in the message */
bool zt_sampler_penalises(const zt_sampler *sampler);               /* is any of the three penalties on? */
/* Samples the next token, at index `position` of the text; its random number is Philox(seed, sequence, position).
 * logits: f32[V], not changed; scratch: f32[2 * V]; history: all tokens so far. Ties go to the lower id. Returns -1 if
 * every logit is NaN. */
int32_t zt_sample(const zt_sampler *sampler, const float *logits, int64_t V, const int32_t *history, size_t n_history,
                  int64_t position, float *scratch);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct zt_llm zt_llm;

typedef struct zt_llm_opts {
    zt_engine *engine;  /* borrowed */
    int64_t ctx_len;    /* context length; 0: the smaller of 4096 and the model's */
    int64_t chunk;      /* prefill chunk: prompt tokens per step; 0: 512 */
    int64_t n_seq;      /* number of sequences that share the cache; 0: 1 */
    int64_t cache_len;  /* capacity of the cache in tokens, all sequences together; at least ctx_len */
    bool exact;         /* activations and KV cache in f32 */
    zt_dtype kv;        /* of keys in the cache: F32, F16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0 or IQ4_NL; 0 or ZT_DTYPE_COUNT: F16,
                           or F32 with `exact`; of a program: as it declares */
    zt_dtype kv_values; /* of values; 0 or ZT_DTYPE_COUNT: as kv. Of a program: as kv */
    bool strict;
    int64_t max_tokens; /* upper bound of the tokens fed, which allows a shorter cache; 0: ctx_len */
    bool greedy;        /* prepare zt_llm_next first */
    bool draws;         /* enable zt_llm_draw, if the engine supports it (zt_llm_draws); without
                           `greedy` prepare it first */
    bool embed;         /* hidden states instead of logits, for zt_llm_embed; required for encoders */
    bool hidden;        /* keep the hidden states of tokens that are fed, for the head that predicts further tokens
                           (multi-token prediction). ZT_EDATA: the file has none; ZT_ENOTSUP: zt cannot run it */
    bool head;          /* open that head instead of the model, to draft (lib/llm/draft_model.h); errors as of `hidden` */
    zt_llm *
        lender; /* of `head`: the model of the same file, on the same engine, whose weights it shares; borrowed. NULL: loads its own */
    unsigned passes_off; /* bit i: disable pass i of lib/run/pass.h */
    /* A compiled plan (lib/run/plan_file.h), borrowed. ZT_EDATA if it was compiled for another model or does not
     * match the program of this one. NULL: the passes make the program. */
    const zt_plan_file *planned;
    /* A forward pass as a program, borrowed, of the file's context; its text is described in zt-program(5). The
     * architecture of the file then need not be supported, and only `exact` and `kv` change what is computed. ZT_EDATA if
     * its inputs, states, data or outputs do not fit; ZT_ENOTSUP if it has logits and `embed` needs states, or the other way
     * round. NULL: that of the file's architecture. */
    const zt_prog *forward;
    const char *forward_name; /* of the program's file, for messages; NULL: "program" */
    /* The layers are divided among these ranks (lib/run/stages.h), each of which reads only its tensors; the bits are the same.
     * Rank 0 opens the model, the others call zt_llm_work. Excludes `planned`; states cannot be saved or loaded. NULL: alone */
    zt_ranks *ranks;
} zt_llm_opts;

/* Opens a model on an engine. Hyperparameters and the shapes of all tensors are checked before any weight is read:
 * ZT_ENOTSUP names an unknown architecture, ZT_EDATA a missing tensor or one of the wrong shape. */
zt_llm *zt_llm_open(zt_gguf *gguf, const zt_llm_opts *opts);
/* On other ranks than 0: takes part in the models that rank 0 opens, until it calls zt_llm_dismiss. Of opts the engine, `forward` and
 * `ranks` count; all else comes from rank 0. ZT_EUSAGE: the files of the ranks differ. */
zt_status zt_llm_work(zt_gguf *gguf, const zt_llm_opts *opts);
/* On rank 0, with all models closed: the other ranks return from zt_llm_work. NULL: no effect. */
zt_status zt_llm_dismiss(zt_ranks *ranks);
void zt_llm_close(zt_llm *model); /* keeps its file and engine open. NULL: no-op */

typedef struct zt_llm_info {
    const char *arch; /* "program": of zt_llm_opts.forward */
    int64_t n_layers, width, n_heads, n_kv_heads, head, vocab, ctx_train, ctx_len;
    int64_t vector;                               /* entries of an embedding: the width, or a classifier's labels */
    int64_t labels;                               /* 0: an embedding is states, not scores */
    int64_t n_seq, chunk, cache_len;              /* cache_len in whole blocks of ZT_LLM_BLOCK */
    size_t weight_bytes, kv_bytes, scratch_bytes; /* memory needed; scratch for a full chunk */
    size_t recurrent_bytes;                       /* states of recurrent layers, of all sequences; 0: there are no such layers */
    size_t hidden_bytes;                          /* hidden states that are kept; 0 without zt_llm_opts.hidden */
    int64_t heads;                                /* heads of multi-token prediction in the file */
} zt_llm_info;
zt_llm_info zt_llm_get(const zt_llm *model); /* sizes of the open model; arch lives as long as the model */
/* The same sizes without loading weights, as for --dry-run. */
zt_status zt_llm_plan(zt_gguf *gguf, const zt_llm_opts *opts, zt_llm_info *out);
/* The program of zt_llm_prog without a model; no weight is read, and the caller frees it. Only the options that the
 * program depends on matter; the engine may be NULL. The block table has blocks of ZT_LLM_BLOCK
 * positions, so ctx must be a multiple of it. */
#define ZT_LLM_BLOCK 32
zt_prog *zt_llm_program(zt_gguf *gguf, const zt_llm_opts *opts);
/* The program of the forward pass as built, before the passes that the session applies to it.
 *
 *     decoder: in  ids, pos, seq i32[n], table i32[S,blocks], rows i32[m]; with recurrent layers from, to i32[n]
 *              out logits f32[m,V] and best i32[m], the index of the largest logit (each may be NULL: not computed);
 *                  with `embed` states f32[m,width]; with `hidden` one more, hidden f32[n,width]; with `head` one
 *                  input more, hidden f32[n,width], and one output, state f32[m,width]
 *     encoder: in  ids, types, pos, last i32[n]; one text per step, no cache; rows after `last` are masked
 *              out states f32[n,width] */
const zt_prog *zt_llm_prog(const zt_llm *model);
zt_ctx *zt_llm_ctx(const zt_llm *model);   /* the context of its file */
zt_session *zt_llm_session(zt_llm *model); /* its session, for reports and profiling; owned by the model */

/* Feeds token_count more tokens of sequence 0, in chunks. logits: NULL, or f32[V] for the last token, or with
 * `all` f32[token_count, V]. ZT_ENOMEM: the tokens exceed the context; the message has the numbers. */
zt_status zt_llm_feed(zt_llm *model, const int32_t *ids, size_t token_count, bool all, float *logits);
/* Feeds tokens and returns the most probable next token. The engine computes the argmax, so no logits are copied from
 * the device. Ties go to the lower id; -1 if every logit is NaN. */
zt_status zt_llm_next(zt_llm *model, const int32_t *ids, size_t token_count, int32_t *next);
/* The same after each token: next[token_count]. */
zt_status zt_llm_nexts(zt_llm *model, const int32_t *ids, size_t token_count, int32_t *next);
/* Sampling on the engine (op sample_token), with the results of zt_sample, for a model opened with `draws`. With
 * `all`, next[i] is sampled after each of the tokens, otherwise one token after the last. -1 if every logit is NaN. */
typedef struct zt_draw {
    const zt_sampler *sampler;
    const int32_t *history; /* tokens of the text before the fed ones */
    size_t n_history;
    const int32_t *banned; /* never drawn */
    size_t n_banned;
} zt_draw;
enum { ZT_DRAW_RECENT = 64, ZT_DRAW_BANNED = 32 };
bool zt_draw_fits(const zt_draw *draw); /* within ZT_DRAW_RECENT and ZT_DRAW_BANNED? */
bool zt_llm_draws(const zt_llm *model); /* opened with `draws` on an engine that has the op? */
/* Feeds token_count tokens and samples. ZT_EUSAGE: !zt_llm_draws(model), or !zt_draw_fits(draw). */
zt_status zt_llm_draw(zt_llm *model, const int32_t *ids, size_t token_count, bool all, const zt_draw *draw, int32_t *next);
int64_t zt_llm_position(const zt_llm *model);             /* tokens fed so far */
zt_status zt_llm_rewind(zt_llm *model, int64_t position); /* drops the tokens from `position` on */

/* The embedding of one text, f32[zt_llm_info.vector], not normalized, for a model opened with `embed`: the hidden states of
 * all token_count tokens after the final norm, pooled by the pooling_type of the file (mean if absent or
 * none); of a model with a classifier (zt_llm_info.labels) its scores. Tokens fed before are dropped. ZT_EUSAGE: no tokens. ZT_ENOMEM: the tokens exceed the context; the message
 * has the numbers. */
zt_status zt_llm_embed(zt_llm *model, const int32_t *ids, size_t token_count, float *out);

/* ---- sessions (save.c) ----------------------------------------------------------------------- */

/* The key of a session, 32 hex digits: XXH3-128 of zt_gguf_id and of a sample of the weights,
 * because two fine-tuned models may have the same header. ZT_EIO: the weights cannot be read. */
zt_status zt_llm_key(zt_gguf *gguf, char key[33]);
/* Saves the KV cache and its tokens to a file, completely or not at all; an existing file is replaced.
 * `model_key`: from zt_llm_key. `arithmetic`: a name for everything that changes the bits of the cache. ids: the
 * zt_llm_position tokens that were fed. */
zt_status zt_llm_save(zt_llm *model, const char *model_key, const char *arithmetic, const int32_t *ids, const char *path);
/* Loads a session into a model just opened: restores cache and position, and appends the tokens to ids, at most as
 * many as the context holds. ZT_EDATA: a damaged file, or that of another model. A file with
 * another arithmetic or cache type is ignored with a warning in the log. */
zt_status zt_llm_load(zt_llm *model, const char *model_key, const char *arithmetic, const char *path, zt_ids *ids);

/* ---- scores (score.c) ------------------------------------------------------------------------ */

/* log(sum(exp(logit))), ignoring NaN. A logit minus this value is the natural logarithm of the token's
 * probability. */
double zt_log_sum_exp(const float *logits, int64_t V);
/* The `limit` most probable tokens in descending order, ties by id. Returns their number. */
int zt_likeliest(const float *logits, int64_t V, int limit, int32_t *ids);

typedef struct zt_score { /* zero-initialized; accumulates over windows */
    int64_t count;        /* tokens scored */
    double sum, sum2;     /* sum of the negative log probabilities, and of their squares */
} zt_score;
/* Feeds a window of token_count tokens, after dropping those fed before, and scores the token_count - 1 - from tokens
 * after index `from`. The last token is not fed. */
zt_status zt_llm_score(zt_llm *model, const int32_t *ids, size_t token_count, size_t from, zt_score *score);
/* Perplexity: exp of the mean. *error: its standard error. */
double zt_score_perplexity(const zt_score *score, double *error);
/* Window `index` of a long text that is split into ids.count / size independent windows of `size` tokens, as in
 * llama-perplexity: if the text begins with BOS, BOS overwrites the first token of each window. */
int32_t *zt_score_window(const zt_vocab *vocab, zt_ids *ids, int64_t size, int64_t index);

/* KL divergence of a model from a base model on the same tokens. Zero-initialized is empty; free it with
 * zt_kl_fini. */
typedef struct zt_kl {
    int64_t count;    /* tokens scored */
    int64_t same_top; /* tokens for which both models have the same most probable token */
    double *each;     /* [count]: the divergence of each token, zt_kl_row */
    int64_t capacity;
    double shift, shift2; /* sum of log p_base - log p_other of the actual tokens, and of its squares */
} zt_kl;
/* KL divergence of the distribution q (logits `other`) from p (logits `base`), in nats: the sum of
 * p log(p / q). A NaN logit has probability 0. Infinite if q is 0 where p is not. */
double zt_kl_row(const float *base, const float *other, int64_t V);
/* zt_llm_score for two models at once, and their divergence. ZT_EUSAGE: the vocabularies differ in size. */
zt_status zt_llm_score_pair(zt_llm *base, zt_llm *other, const int32_t *ids, size_t token_count, size_t from,
                            zt_score *base_score, zt_score *other_score, zt_kl *kl);
double zt_kl_mean(const zt_kl *kl, double *error); /* mean divergence; *error: its standard error */
/* Perplexity of the other model divided by that of the base: exp of the mean of log p_base - log p_other. */
double zt_kl_ratio(const zt_kl *kl, double *error);
/* Sorts `each`, as zt_kl_quantile needs it. */
void zt_kl_sort(zt_kl *kl);
double zt_kl_quantile(const zt_kl *sorted, double fraction); /* linear interpolation; NaN: empty, or not 0 to 1 */
void zt_kl_fini(zt_ctx *ctx, zt_kl *kl);                     /* frees `each` and empties kl */

#ifdef __cplusplus
}
#endif
#endif
