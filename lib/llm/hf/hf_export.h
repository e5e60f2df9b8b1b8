/* hf_export.h - private to lib/llm/hf/hf_export*.c: a GGUF being written as a Hugging Face directory.
 *
 *     hf_export.c                    the directory, whole or absent, and functions for its small files
 *     hf_export_config.c             config.json, by the tables that hf_config.c reads it by
 *     hf_export_tensors.c            model.safetensors, by the names of hf_names.c
 *     hf_export_tokenizer.c          tokenizer.json and tokenizer.model, where the GGUF does not hold them
 *     hf_export_tokenizer_config.c   tokenizer_config.json and generation_config.json
 *     hf_export_mamba.c              short convolutions and state-space layers
 *     hf_export_rwkv.c               RWKV-7
 *     hf_card.c                      README.md, in both directions
 */
#ifndef ZT_HF_EXPORT_H
#define ZT_HF_EXPORT_H

#include "lib/llm/arch/arch.h"
#include "lib/llm/hf/hf.h"

typedef struct hf_export {
    zt_ctx *ctx;
    zt_gguf *gguf;
    const char *file; /* the GGUF's name, for messages */
    zt_hf_opts opts;
    const hf_arch *arch;
    zt_hyper hyper;
    zt_dtype dtype;   /* of the matrices that are written */
    bool mxfp4;       /* but experts as NAME_blocks and NAME_scales */
    json_t *config;   /* config.json */
    zt_str directory; /* being written, with '/' at its end */
} hf_export;

/* The key ARCH.SUFFIX. */
const char *zt_export_key(const hf_export *export, const char *suffix, char key[128]);
bool zt_export_int(const hf_export *export, const char *suffix, int64_t *value);
bool zt_export_real(const hf_export *export, const char *suffix, double *value);
/* The shortest number that reads back as this f32. */
json_t *zt_export_number(double value);
/* object[name] = value, which is taken over. ZT_ENOMEM when either is NULL. */
zt_status zt_export_set(hf_export *export, json_t *object, const char *name, json_t *value);
zt_status zt_export_text(hf_export *export, json_t *object, const char *name, zt_bytes text);
/* A new file of the directory. */
zt_status zt_export_file(hf_export *export, const char *name, const void *bytes, size_t size);
zt_status zt_export_folder(hf_export *export, const char *name); /* an empty one in the directory */
zt_status zt_export_json(hf_export *export, const char *name, const json_t *object);

zt_status zt_export_config(hf_export *export);
zt_status zt_export_dense(hf_export *export); /* hf_dense.c */
/* hf_gemma.c: the matrices behind EmbeddingGemma as folders, and their entries of modules.json. */
zt_status zt_export_dense_modules(hf_export *export, json_t *modules);
zt_status zt_export_gemma(hf_export *export);   /* hf_gemma.c */
zt_status zt_export_experts(hf_export *export); /* config.json of routed experts: hf_experts.c */
zt_status zt_export_llama4(hf_export *export);  /* hf_llama4.c */
zt_status zt_export_mamba(hf_export *export);   /* of short convolutions and state-space layers: hf_export_mamba.c */
/* The type that a tensor named HF_MIXER is written in, where it is another; true: its values are decays, written as the
 * logarithms of what they are below 0. */
bool zt_export_mixer_type(const char *gguf, const zt_type *from, zt_type *out);
/* hf_export_rwkv.c: config.json; how many tensors a GGUF's becomes; of a part the type where it is stored, as it is written, and
 * the row where it begins; the file of tokens. */
zt_status zt_export_rwkv(hf_export *export);
int64_t zt_export_rwkv_count(const hf_export *export, const char *gguf);
void zt_export_rwkv_type(const hf_export *export, const char *gguf, int64_t part, zt_type *from, zt_type *out, int64_t *row);
zt_status zt_export_rwkv_vocabulary(hf_export *export);
zt_status zt_export_latent(hf_export *export); /* the same of latent attention: hf_latent.c */
zt_status zt_export_heads(hf_export *export);  /* hf_head.c: layers behind the last; after all other keys */
zt_status zt_export_delta(hf_export *export);  /* and of gated delta nets: hf_delta.c */
/* hf_delta.c: the name of a tensor of a layer behind the last; how a tensor that is named HF_DELTA is ordered (false: as it is
 * stored); the stored row or column for one that is written, of qwen3next's matrix in the tensor of gates or in the other; what
 * becomes of a rate. */
zt_status zt_export_name_further(const hf_export *export, zt_str *name);
bool zt_export_delta_order(const hf_export *export, const char *gguf, hf_delta_order *order);
int64_t zt_export_delta_place(const hf_delta_order *order, int64_t place, bool *gate);
float zt_export_rate(float rate);
zt_status zt_export_card(hf_export *export); /* README.md: hf_card.c */
zt_status zt_export_tensors(hf_export *export);
zt_status zt_export_tokenizer(hf_export *export); /* all that a text needs; none without a tokenizer */
/* tokenizer.json, and tokenizer.model of SentencePiece's BPE, from tokenizer.ggml.*. */
zt_status zt_export_tokens(hf_export *export);

/* hf_dense.c: tensors of one number that GGUF has as keys, how many and each. */
int64_t zt_export_constants(const hf_export *export);
zt_status zt_export_constant(const hf_export *export, int64_t index, zt_str *name, float *value);
/* hf_mxfp4.c: the bytes of NAME_scales or NAME_blocks for so many blocks of GGUF. */
void zt_export_mxfp4(const uint8_t *blocks, int64_t count, bool scales, uint8_t *out);

/* Reads the values of a tensor of f32, at most `limit`. Returns how many; 0: there is no such tensor. */
int64_t zt_export_values(hf_export *export, const char *name, float *values, int64_t limit);

#endif
