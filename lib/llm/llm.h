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
 * To add an architecture: a row in arch.c (the parts it has, rope, curve, windows), and where it
 * needs what no row had before, a field of the row read by the one builder in build.c.
 */
#ifndef ZT_LLM_H
#define ZT_LLM_H

#include "lib/io/gguf.h"
#include "lib/run/plan_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- files ----------------------------------------------------------------------------------- */

/* A model of any container, as a GGUF: a GGUF file; a Hugging Face directory (config.json;
 * model.safetensors, pytorch_model.bin or an index of such; tokenizer.json ...); or weights, one of
 * several files of them or an index, with those beside it. Their keys and tensors have the names that
 * llama.cpp's converter gives them. A directory without config.json, or without weights, is
 * ZT_ENOENT. An architecture that is not known opens with its tokenizer, and without tensors.
 * zt_gguf_close it. */
zt_gguf *zt_model_open(zt_ctx *ctx, const char *path);
/* The same for who needs only the vocabulary: a directory may be without weights. */
zt_gguf *zt_model_open_vocabulary(zt_ctx *ctx, const char *path);
/* The same, to be written: of a Hugging Face model also what running does not need but others read:
 * general.*, the tokenizer as tokenizer.ggml.* beside tokenizer.huggingface.json. An architecture
 * that is not known comes with its tensors, under their own names, and config.json as the key
 * huggingface.config.json. */
zt_gguf *zt_model_open_whole(zt_ctx *ctx, const char *path);
/* Is a tensor of this name f32 in what llama.cpp's converter writes, whatever type it is told?
 * Vectors are, and embeddings of positions and types. */
bool zt_model_stays_f32(const char *name, const zt_type *type);

/* What a Hugging Face model's tensor is to a GGUF of this architecture (general.architecture), by
 * llama.cpp's converter. */
typedef struct zt_hf_place {
    char name[64];   /* GGUF's */
    bool transposed; /* a matrix's rows are its columns there */
    float add;       /* to each value */
    bool pairs;      /* rows lie in pairs, within each head of q, or of k ... */
    bool kv;         /* ... whose number is attention.head_count_kv */
} zt_hf_place;
/* False: there is no such tensor, or the architecture is not known. What stands before the known
 * part of the name is let pass. */
bool zt_hf_place_of(const char *arch, const char *hf_name, zt_hf_place *out);

/* And back: a new directory with config.json, model.safetensors, tokenizer.json and what goes with
 * them, as transformers reads it; whole or absent. ZT_ECREATE where something is there that is no
 * empty directory; ZT_ENOTSUP for what has no place in such (an architecture that zt_model_open
 * does not read, a tokenizer without a form there). */
typedef struct zt_hf_opts {
    zt_dtype dtype;     /* F32, F16 or BF16 of the matrices; ZT_DTYPE_COUNT: as stored, blocks as F16 */
    bool (*stop)(void); /* asked now and then: ZT_EINTR when it says so; NULL: never */
} zt_hf_opts;
/* Writes gguf, a model from zt_model_open_whole, to the directory `path`. opts NULL: types as stored. */
zt_status zt_hf_write(zt_ctx *ctx, zt_gguf *gguf, const char *path, const zt_hf_opts *opts);

/* ---- vocabulary ------------------------------------------------------------------------------ */

typedef struct zt_vocab zt_vocab;

typedef struct zt_ids { /* a growing list of token ids; zero-initialised is empty */
    int32_t *id;
    size_t count, capacity;
} zt_ids;
zt_status zt_ids_push(zt_ctx *ctx, zt_ids *ids, int32_t id); /* appends; ZT_ENOMEM: unchanged */
void zt_ids_fini(zt_ctx *ctx, zt_ids *ids);                  /* frees the list; it is empty then */

/* Needs only the tokenizer's keys: any architecture, no tensors. ZT_ENOTSUP names a tokenizer or
 * pre-tokenizer that is not known, ZT_EDATA what is inconsistent. Token texts are borrowed: gguf must
 * outlive the vocabulary. */
zt_vocab *zt_vocab_open(const zt_gguf *gguf);
/* The same with this pre-tokenizer (as in tokenizer.ggml.pre) whatever the file says: files from
 * before that key existed name none. NULL: the file's. */
zt_vocab *zt_vocab_open_pre(const zt_gguf *gguf, const char *pre);
/* The same from the size bytes of a tokenizer.json, which are not needed afterwards; `name` is, for
 * messages, as long as the vocabulary. A GGUF with the key
 * tokenizer.huggingface.json alone opens so. */
zt_vocab *zt_vocab_open_json(zt_ctx *ctx, const char *name, const char *text, size_t size);
void zt_vocab_free(zt_vocab *vocab);          /* NULL: nothing */
int32_t zt_vocab_size(const zt_vocab *vocab); /* ids are 0 to this - 1 */

enum {
    ZT_TOK_BOS = 1,      /* put BOS first */
    ZT_TOK_BOS_RULE = 2, /* put BOS first if the model's rule says so (and EOS last likewise) */
    ZT_TOK_SPECIAL = 4   /* text of control tokens becomes those tokens */
};
/* Appends to ids. Text is any bytes. */
zt_status zt_vocab_encode(const zt_vocab *vocab, const char *text, size_t size, unsigned flags, zt_ids *ids);
/* The same of a text of which `origin` says for each byte whether somebody typed it (1) or a chat
 * template wrote it (0): control tokens are meant where their first and last bytes are the template's;
 * with ZT_TOK_SPECIAL, everywhere. Puts nothing before or after. */
zt_status zt_vocab_encode_origin(const zt_vocab *vocab, const char *text, size_t size, const char *origin, unsigned flags,
                                 zt_ids *ids);
/* Appends the bytes of one token. `special`: control tokens print their text, else nothing.
 * `first`: the token opens the text (SentencePiece drops its leading space there if it added one).
 * ZT_EUSAGE for an id out of range. */
zt_status zt_vocab_decode(const zt_vocab *vocab, int32_t id, bool special, bool first, zt_str *out);
/* Appends the text of a whole list: some tokens' text depends on their neighbours, and bytes that
 * are no UTF-8 may come out as U+FFFD. */
zt_status zt_vocab_decode_ids(const zt_vocab *vocab, const int32_t *ids, size_t count, bool special, zt_str *out);
/* Has every token that a text can become a row of an embedding of so many? ZT_EDATA names the first
 * that has none. Control tokens may lie beyond: no text becomes them unasked (Gemma 3's stand-in for
 * an image is one more than its embedding). */
zt_status zt_vocab_check_rows(const zt_vocab *vocab, int64_t rows);
/* Is it a whole SentencePiece model (tokenizer.model)? Its control symbols are no text, and what it
 * decodes is defined for whole lists: zt_vocab_decode_ids. */
bool zt_vocab_is_pieces(const zt_vocab *vocab);
bool zt_vocab_is_eog(const zt_vocab *vocab, int32_t id);                     /* ends a generation */
bool zt_vocab_is_control(const zt_vocab *vocab, int32_t id);                 /* a control token, as BOS is */
int32_t zt_vocab_bos(const zt_vocab *vocab);                                 /* -1: none */
int32_t zt_vocab_eos(const zt_vocab *vocab);                                 /* -1: none */
int32_t zt_vocab_find(const zt_vocab *vocab, const char *text, size_t size); /* exact token text, or -1 */

/* ---- chat templates -------------------------------------------------------------------------- */

/* The model's own template, a program in Jinja (lib/llm/jinja/jinja.h). variant NULL: the default;
 * else the one of that name (tokenizer.chat_template.NAME). False: there is none. The text is g's. */
bool zt_chat_template(const zt_gguf *gguf, const char *variant, zt_bytes *text);
/* Appends the names of its variants, ", " between; nothing where there is none. */
zt_status zt_chat_template_variants(const zt_gguf *gguf, zt_str *names);
/* The texts of the special tokens by the names that templates use: bos_token, eos_token, unk_token,
 * pad_token, sep_token, cls_token, mask_token, those that the model has. An object to be released by
 * json_decref; NULL: no memory. */
struct json_t *zt_chat_template_tokens(const zt_gguf *gguf, const zt_vocab *vocab);

/* A template by rule: what stands before and after each role's text. */
typedef struct zt_template zt_template;
typedef struct zt_message {
    const char *role; /* "system" "user" "assistant" */
    const char *content;
} zt_message;
const zt_template *zt_template_find(const char *name); /* "chatml" "llama3"; NULL: not known */
const char *zt_template_list(int index);               /* names, NULL after the last */
/* A template from a JSON file (template_file.c tells its form); free it with the context it was
 * opened in. ZT_EDATA says what is wrong with it. */
zt_template *zt_template_open(zt_ctx *ctx, const char *path);
void zt_template_free(zt_ctx *ctx, zt_template *chat_template); /* only what was opened; NULL: nothing */
const char *zt_template_name(const zt_template *chat_template); /* lives as long as the template */
/* What opens a user's turn, without blanks around it: a model that writes it goes too far. */
zt_bytes zt_template_user(const zt_template *chat_template);

/* A conversation in pieces, in order, open for the assistant's answer: the template's own words
 * (message -1), in which special tokens are meant, and the texts of messages, in which they are
 * not. BOS at the very beginning is left to zt_vocab_encode. The default system text (taken from
 * the model's template where it names one) opens a conversation that has none. v gives BOS and EOS
 * their texts where a template writes them; NULL: <s> and </s>. */
typedef zt_status zt_piece_fn(void *user, zt_bytes text, int message);
/* Calls fn for each piece of the message_count messages; a status of fn that is not ZT_OK ends it and is
 * returned. ZT_EUSAGE: a role that the template does not have. */
zt_status zt_template_pieces(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab,
                             const zt_message *messages, int message_count, zt_piece_fn *fn, void *user);
/* The same for what follows an answer: one more message of the user. `close`: begin with the end of
 * the assistant's turn. */
zt_status zt_template_next(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab, const char *text,
                           bool close, zt_piece_fn *fn, void *user);
/* The pieces of zt_template_pieces in one text. */
zt_status zt_template_render(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab,
                             const zt_message *messages, int message_count, zt_str *out);

/* ---- sampling -------------------------------------------------------------------------------- */

typedef struct zt_sampler {
    double temp;           /* 0: greedy */
    int64_t top_k;         /* 0: all */
    double top_p;          /* 1: all */
    double min_p;          /* 0: all */
    double repeat_penalty; /* 1: off */
    int64_t repeat_last;   /* how many last tokens the penalties look at; -1: all */
    /* Subtracted from the logit of a token among the last: the first for each time that it is there,
     * the second once. 0: off; below 0 they make it more probable. */
    double frequency_penalty, presence_penalty;
    uint64_t seed;
    uint64_t sequence;
} zt_sampler;
/* Temperature 0.8, top_k 40, top_p 0.95, min_p 0.05, the penalties off, seed 0. */
zt_sampler zt_sampler_defaults(void);
zt_status zt_sampler_check(zt_ctx *ctx, const zt_sampler *sampler); /* ZT_EUSAGE names the value */
bool zt_sampler_penalises(const zt_sampler *sampler);               /* by any of the three penalties */
/* The next token. `position` is that of the token being chosen: a draw is
 * Philox(seed, sequence, position). logits are f32[V], not changed; scratch f32[2 * V]. Ties go to
 * the lower id. history: all tokens so far. -1 when every logit is NaN. */
int32_t zt_sample(const zt_sampler *sampler, const float *logits, int64_t V, const int32_t *history, size_t n_history,
                  int64_t position, float *scratch);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct zt_llm zt_llm;

typedef struct zt_llm_opts {
    zt_engine *engine; /* borrowed */
    int64_t ctx_len;   /* 0: the smaller of 4096 and the model's */
    int64_t chunk;     /* most tokens of a prompt at a time; 0: 512 */
    int64_t n_seq;     /* sequences that share the cache; 0: 1 */
    int64_t cache_len; /* tokens that the cache holds, of all sequences; at least ctx_len */
    bool exact;        /* activations and cache f32 */
    zt_dtype kv;       /* F16 or F32; 0 or ZT_DTYPE_COUNT: F16, or F32 with `exact` */
    bool strict;
    int64_t max_tokens;  /* no more will be fed: a shorter cache will do; 0: as many as ctx_len */
    bool greedy;         /* zt_llm_next is what will be asked: it is prepared first */
    bool draws;          /* zt_llm_draw may be, where the engine can (zt_llm_draws says); without
                           `greedy` it is prepared first */
    bool embed;          /* hidden states instead of logits, for zt_llm_embed; encoders need it */
    unsigned passes_off; /* bit i: pass i of lib/run/pass.h does not run on the program */
    /* What runs, and where in memory (lib/run/plan_file.h); borrowed. ZT_EDATA where it is another
     * model's, or not the program of this one; NULL: the passes make it. */
    const zt_plan_file *planned;
} zt_llm_opts;

/* Hyper-parameters and every tensor's shape are checked before any weight is read: an unknown
 * architecture is ZT_ENOTSUP, a missing or misshapen tensor ZT_EDATA, both with names. */
zt_llm *zt_llm_open(zt_gguf *gguf, const zt_llm_opts *opts);
void zt_llm_close(zt_llm *model); /* not its file or engine. NULL: nothing */

typedef struct zt_llm_info {
    const char *arch;
    int64_t n_layers, width, n_heads, n_kv_heads, head, vocab, ctx_train, ctx_len;
    int64_t n_seq, chunk, cache_len;              /* cache_len in whole blocks of ZT_LLM_BLOCK */
    size_t weight_bytes, kv_bytes, scratch_bytes; /* what it needs; scratch for a full chunk */
} zt_llm_info;
zt_llm_info zt_llm_get(const zt_llm *model); /* sizes of the open model; arch lives as long as the model */
/* The same without loading weights: for --dry-run. */
zt_status zt_llm_plan(zt_gguf *gguf, const zt_llm_opts *opts, zt_llm_info *out);
/* Only the program of zt_llm_prog, the caller's to free: no weight is read. Of opts what the
 * program depends on counts; the engine may be NULL. Its table has blocks of ZT_LLM_BLOCK
 * positions: ctx must be a multiple of it. */
#define ZT_LLM_BLOCK 32
zt_prog *zt_llm_program(zt_gguf *gguf, const zt_llm_opts *opts);
/* The forward pass, as it was built (the session's own program has gone through the passes): in
 * ids, pos, seq i32[n], table i32[S,blocks], rows i32[m]; out logits f32[m,V] and best i32[m], the
 * places of the largest (either may be NULL: not wanted), or with `embed` states f32[m,width]. Of
 * an encoder (one text a step, no cache; rows after `last` are not seen): in ids, types, pos, last
 * i32[n]; out states f32[n,width]. */
const zt_prog *zt_llm_prog(const zt_llm *model);
zt_ctx *zt_llm_ctx(const zt_llm *model);   /* its file's */
zt_session *zt_llm_session(zt_llm *model); /* in which it runs, for reports and watching; the model's */

/* Feed token_count more tokens of sequence 0, in chunks. logits: NULL, or f32[V] after the last, or with
 * `all` f32[token_count, V]. ZT_ENOMEM with the numbers when the context would overflow. */
zt_status zt_llm_feed(zt_llm *model, const int32_t *ids, size_t token_count, bool all, float *logits);
/* The same, and the most probable next token, which the engine chooses, so that no logits leave it.
 * Ties go to the lower id; -1 when every logit is NaN. */
zt_status zt_llm_next(zt_llm *model, const int32_t *ids, size_t token_count, int32_t *next);
/* The same after each of the tokens: next[token_count]. */
zt_status zt_llm_nexts(zt_llm *model, const int32_t *ids, size_t token_count, int32_t *next);
/* The next token drawn by the engine as zt_sample would draw it (op
 * sample_token), of a model opened with `draws`; with `all` next[i] after each
 * of the n tokens, else one after the last. -1 when no logit is a number. */
typedef struct zt_draw {
    const zt_sampler *sampler;
    const int32_t *history; /* tokens of the text before those that are fed */
    size_t n_history;
    const int32_t *banned; /* never drawn */
    size_t n_banned;
} zt_draw;
enum { ZT_DRAW_RECENT = 64, ZT_DRAW_BANNED = 32 };
bool zt_draw_fits(const zt_draw *draw); /* no more are banned, and the penalty looks back no further */
bool zt_llm_draws(const zt_llm *model); /* the engine has the op, and the model was opened so */
/* Feeds token_count tokens and draws. ZT_EUSAGE: !zt_llm_draws(model), or !zt_draw_fits(draw). */
zt_status zt_llm_draw(zt_llm *model, const int32_t *ids, size_t token_count, bool all, const zt_draw *draw, int32_t *next);
int64_t zt_llm_position(const zt_llm *model);             /* tokens fed so far */
zt_status zt_llm_rewind(zt_llm *model, int64_t position); /* forget what came after */

/* One text's embedding, f32[width], not normalised, of a model opened with `embed`: the states of
 * all token_count tokens after the last norm, pooled as the file's pooling_type says (mean where it says
 * nothing, or none). Whatever was fed before is forgotten. ZT_EUSAGE for no tokens, ZT_ENOMEM with
 * the numbers for more than the context holds. */
zt_status zt_llm_embed(zt_llm *model, const int32_t *ids, size_t token_count, float *out);

/* ---- sessions (save.c) ----------------------------------------------------------------------- */

/* What a session is keyed by, 32 hex digits: XXH3-128 of zt_gguf_id and of a sample of the weights,
 * since two models tuned apart may have one header. ZT_EIO where they cannot be read. */
zt_status zt_llm_key(zt_gguf *gguf, char key[33]);
/* The KV cache and the tokens in it as a file, whole or not at all; an existing one is replaced.
 * `model_key` is zt_llm_key, `arithmetic` names the arithmetic: whatever gives the cache other bits. ids: the
 * zt_llm_position tokens that were fed. */
zt_status zt_llm_save(zt_llm *model, const char *model_key, const char *arithmetic, const int32_t *ids, const char *path);
/* Back again: the cache and position of a model just opened, and the tokens appended to ids; no
 * more than its context holds. ZT_EDATA for another model's file and for a damaged one. One of
 * another arithmetic or cache type is no error: a warning in the log, and nothing is taken from
 * it. */
zt_status zt_llm_load(zt_llm *model, const char *model_key, const char *arithmetic, const char *path, zt_ids *ids);

/* ---- scores (score.c) ------------------------------------------------------------------------ */

/* The logarithm of the sum of all exp(logit), NaN passed over: a logit less this is the natural
 * logarithm of its token's probability. */
double zt_log_sum_exp(const float *logits, int64_t V);
/* The limit most probable tokens, best first, ties by id; returns how many there are. */
int zt_likeliest(const float *logits, int64_t V, int limit, int32_t *ids);

typedef struct zt_score { /* zero-initialised; grows from window to window */
    int64_t count;        /* tokens scored */
    double sum, sum2;     /* of their negative log probabilities, and of those squared */
} zt_score;
/* Feed a window of token_count tokens, forgetting what was fed before, and score those after index `from`:
 * token_count - 1 - from of them. The last token is not fed. */
zt_status zt_llm_score(zt_llm *model, const int32_t *ids, size_t token_count, size_t from, zt_score *score);
/* exp of the mean; *error: one standard error of it. */
double zt_score_perplexity(const zt_score *score, double *error);
/* A long text in windows of `size` tokens, each by itself, as llama-perplexity has it: where the
 * text opens with BOS they all do, in place of their first token (which is overwritten). Window index
 * of the ids.count / size that there are. */
int32_t *zt_score_window(const zt_vocab *vocab, zt_ids *ids, int64_t size, int64_t index);

/* How far model b is from model a on what both read. Zero-initialised
 * is empty; zt_kl_fini frees. */
typedef struct zt_kl {
    int64_t count;    /* tokens scored */
    int64_t same_top; /* of which both find the same next token likeliest */
    double *each;     /* [n]: the divergence of each, zt_kl_row */
    int64_t capacity;
    double shift, shift2; /* sums of log p_a - log p_b of the tokens that came; of its squares */
} zt_kl;
/* Kullback-Leibler divergence of the probabilities q (of logits `other`) from p (of `base`), in nats: the sum of
 * p log(p / q). A logit that is NaN has probability 0; infinite where q is 0 and p is not. */
double zt_kl_row(const float *base, const float *other, int64_t V);
/* zt_llm_score of two models at once, which have one vocabulary:
 * ZT_EUSAGE where its sizes differ. */
zt_status zt_llm_score_pair(zt_llm *base, zt_llm *other, const int32_t *ids, size_t token_count, size_t from,
                            zt_score *base_score, zt_score *other_score, zt_kl *kl);
double zt_kl_mean(const zt_kl *kl, double *error); /* *error: one standard error of it */
/* exp of the mean of log p_a - log p_b: how many times a's perplexity b's is. */
double zt_kl_ratio(const zt_kl *kl, double *error);
/* Sorts `each`. For q from 0 to 1, between two values on the line between them. */
void zt_kl_sort(zt_kl *kl);
double zt_kl_quantile(const zt_kl *sorted, double fraction); /* NaN: nothing was scored, or q is out of range */
void zt_kl_fini(zt_ctx *ctx, zt_kl *kl);                     /* frees `each`; it is empty then */

#ifdef __cplusplus
}
#endif
#endif
