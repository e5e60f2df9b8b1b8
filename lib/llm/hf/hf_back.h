/* hf_back.h - private to lib/llm/hf/hf_back*.c: a GGUF on its way to a Hugging Face directory.
 *
 * hf_back.c owns the directory, whole or absent, and its small files; hf_back_config.c writes
 * config.json by the tables that hf_config.c reads it by, hf_back_rope.c its part of rope;
 * hf_back_tensors.c model.safetensors, by the names of hf_names.c; hf_back_words.c and
 * hf_back_models.c tokenizer.json and tokenizer.model where the file does not hold them,
 * hf_back_token.c what goes with them. */
#ifndef ZT_HF_BACK_H
#define ZT_HF_BACK_H

#include "lib/llm/arch.h"
#include "lib/llm/hf/hf.h"

typedef struct hf_back {
    zt_ctx *ctx;
    zt_gguf *g;
    const char *file; /* g's name, for messages */
    zt_hf_opts opts;
    const hf_arch *arch;
    zt_hyper h;
    zt_dtype dtype; /* of the matrices that are written */
    json_t *config; /* config.json */
    zt_str dir;     /* being written, with '/' at its end */
} hf_back;

/* The key ARCH.SUFFIX. */
const char *zt_back_key(const hf_back *b, const char *suffix, char key[128]);
bool zt_back_int(const hf_back *b, const char *suffix, int64_t *v);
bool zt_back_real(const hf_back *b, const char *suffix, double *v);
/* As short as an f32 may be written and read back. */
json_t *zt_back_number(double v);
/* object[name] = v, which is taken over. ZT_ENOMEM when either is NULL. */
zt_status zt_back_set(hf_back *b, json_t *object, const char *name, json_t *v);
zt_status zt_back_text(hf_back *b, json_t *object, const char *name, zt_bytes text);
/* A new file of the directory. */
zt_status zt_back_write(hf_back *b, const char *name, const void *bytes, size_t n);
zt_status zt_back_json(hf_back *b, const char *name, const json_t *j);

zt_status zt_back_config(hf_back *b);
zt_status zt_back_rope(hf_back *b);
zt_status zt_back_card(hf_back *b); /* README.md: hf_card.c */
zt_status zt_back_tensors(hf_back *b);
zt_status zt_back_tokenizer(hf_back *b); /* all that a text needs; none without a tokenizer */
/* tokenizer.json, and tokenizer.model of SentencePiece's BPE, from tokenizer.ggml.*. */
zt_status zt_back_words(hf_back *b);

/* Values of a tensor of f32, n of them at most; 0: there is none such. */
int64_t zt_back_values(hf_back *b, const char *name, float *v, int64_t n);

#endif
