/* hf.h - private to lib/llm/hf: a Hugging Face model, presented as the GGUF that llama.cpp's convert_hf_to_gguf.py
 * would have made of it (import), and a GGUF written as a Hugging Face directory (export, hf_export.h).
 *
 *     hf.c                finds the files and builds the header of the GGUF
 *     hf_weights.c        finds the files of the weights
 *     hf_config.c         config.json: the architecture, its layers, what it demands
 *     hf_keys.c           its numbers as keys
 *     hf_rope.c           rope's parameters as keys and tensors
 *     hf_classifier.c     classifiers of texts, and rerankers
 *     hf_dense.c          what only some dense models have: parallel residuals, grouped keys
 *     hf_gemma.c          Gemma 3n and 4: sizes by layer, embeddings for each layer, several streams
 *     hf_experts.c        routed experts: the same, and stacked tensors
 *     hf_baichuan.c       Baichuan: rows of length 1
 *     hf_packed.c         q, k and v in one matrix: Baichuan, InternLM 2
 *     hf_llama4.c         Llama 4: layers with chunks and without rope, growth of queries
 *     hf_latent.c         latent attention: the same, and the matrix of its keys and values
 *     hf_delta.c          gated delta nets: the same, and matrices whose rows change places
 *     hf_mamba.c          short convolutions and state-space layers: the same, and tensors in other shapes
 *     hf_rwkv.c           RWKV-7 and ARWKV: the same, with hf_rwkv_vocab.c for the vocabulary
 *     hf_mxfp4.c          matrices of blocks and scales
 *     hf_quantized.c      weights in FP8, of compressed-tensors, GPTQ and AWQ (hf_quantized.h)
 *     hf_name_rows.c      the tables of names
 *     hf_names.c          the GGUF name of every tensor, and what is done to its values
 *     hf_store.c          reads the tensors' values so
 *     hf_tokenizer.c      tokenizer.json as a key, special tokens, chat templates
 *
 * and what only a file that others read must hold:
 *
 *     hf_general.c        general.*
 *     hf_card.c           the model card
 *     hf_vocab.c          the tokens as tokenizer.ggml.*
 *     hf_spm.c            the same from tokenizer.model, and back
 *     hf_special.c        special tokens
 *     hf_pretokenizer.c   the pre-tokenizer's name
 *
 * The differences between architectures are columns and masks of the tables in those files.
 */
#ifndef ZT_HF_H
#define ZT_HF_H

#include "lib/io/checkpoint.h"
#include "lib/io/gguf_write.h"
#include "lib/io/json.h"
#include "lib/llm/llm.h"
#include "lib/llm/vocab/sentencepiece.h"

/* ---- architectures --------------------------------------------------------------------------- */

typedef enum hf_id {
    HF_LLAMA,
    HF_MISTRAL,
    HF_QWEN2,
    HF_QWEN3,
    HF_GEMMA2,
    HF_GEMMA3,
    HF_PHI3,
    HF_GPT2,
    HF_SMOLLM3,
    HF_OLMO2,
    HF_GRANITE,
    HF_BERT,
    HF_NOMIC,
    HF_MIXTRAL,
    HF_QWEN2MOE,
    HF_QWEN3MOE,
    HF_OLMOE,
    HF_GRANITEMOE,
    HF_PHIMOE,
    HF_ERNIE_MOE,
    HF_GLM4MOE,
    HF_GPT_OSS,
    HF_COHERE,
    HF_COHERE2,
    HF_STABLELM,
    HF_STARCODER2,
    HF_NEOX,
    HF_FALCON,
    HF_FALCON_TWO, /* two norms a layer, one for attention */
    HF_PHI2,
    HF_EXAONE4,
    HF_GLM4,
    HF_SEED_OSS,
    HF_HUNYUAN,
    HF_MINISTRAL3,
    HF_OLMO3,
    HF_MODERNBERT,
    HF_EXAONE,
    HF_DEEPSEEK2,
    HF_DEEPSEEK3, /* and Kimi K2 */
    HF_GLM4_LITE,
    HF_MISTRAL4,
    HF_YOUTU,
    HF_MINICPM3,
    HF_MINICPM,
    HF_APERTUS,
    HF_QWEN3NEXT,
    HF_QWEN35,
    HF_QWEN35MOE,
    HF_GEMMA3N,
    HF_GEMMA4,
    HF_GEMMA_EMBEDDING,
    HF_MPT,
    HF_JINA, /* BERT with linear biases */
    HF_T5,   /* its encoder alone */
    HF_T5_GATED,
    HF_LFM2,
    HF_LFM2MOE,
    HF_MAMBA,
    HF_MAMBA2,
    HF_FALCON_H1,
    HF_GRANITE_HYBRID,
    HF_GRANITE_HYBRID_DENSE, /* without routed experts */
    HF_NEMOTRON_H,
    HF_LLAMA4,
    HF_BAICHUAN, /* 1 and 2 */
    HF_NEMOTRON_H_MOE,
    HF_BAMBA,
    HF_DEEPSEEK32,
    HF_RWKV7,
    HF_INTERNLM2,
    HF_ARWKV7, /* RWKV-7 in the place of attention in Qwen 2.5 */
    HF_COUNT
} hf_id;

/* What a GGUF must have to be written as one of several architectures of its name. */
typedef enum hf_need {
    HF_NEEDS_NOTHING,
    HF_NEEDS_WINDOW,
    HF_NEEDS_EXPERTS,
    HF_NEEDS_SHARED_EXPERTS,
    HF_NEEDS_SECOND_NORM,
    HF_NEEDS_GATE,
    HF_NEEDS_CHOICE_BIAS,
    HF_NEEDS_GLM_TOKENS, /* the same, and GLM's first token */
    HF_NEEDS_NO_EXPERTS,
    HF_NEEDS_ROPE_PAIR
} hf_need;

typedef struct hf_arch {
    const char *name; /* general.architecture */
    const char *type; /* config.json's model_type */
    hf_id id;
    const char *class; /* config.json's architectures */
    /* What stands before the names of tensors where they are written. */
    const char *prefix, *layers;
    hf_need need;
} hf_arch;
/* hf_config.c; of one name the last is written whose need is met, of those with the same need the first */
const hf_arch *zt_hf_archs(size_t *count);

/* A set of architectures, for rows that some have and others not. */
__extension__ typedef unsigned __int128 hf_set;
#define HF_SET(id) ((hf_set)1 << (id))
#define HF_ALL     (~(hf_set)0)
_Static_assert(HF_COUNT <= 128, "a set has a bit for each architecture");
/* Whose norms are 1 plus what is in the file. */
#define HF_GEMMAS   (HF_SET(HF_GEMMA2) | HF_GEMMA3S)
#define HF_GEMMA3S  (HF_SET(HF_GEMMA3) | HF_SET(HF_GEMMA_EMBEDDING))
#define HF_LAYERED  (HF_SET(HF_GEMMA3N) | HF_SET(HF_GEMMA4)) /* whose sizes differ by layer: hf_gemma.c */
#define HF_BERTS    (HF_SET(HF_BERT) | HF_SET(HF_NOMIC) | HF_SET(HF_JINA))
#define HF_ENCODERS (HF_BERTS | HF_SET(HF_MODERNBERT) | HF_T5S)
#define HF_T5S      (HF_SET(HF_T5) | HF_SET(HF_T5_GATED))
#define HF_POOLED   (HF_SET(HF_GEMMA_EMBEDDING) | HF_SET(HF_QWEN2) | HF_SET(HF_QWEN3)) /* decoders that may have a pooling */
#define HF_FALCONS  (HF_SET(HF_FALCON) | HF_SET(HF_FALCON_TWO))
#define HF_QWENS    (HF_SET(HF_QWEN2) | HF_SET(HF_QWEN3) | HF_SET(HF_QWEN2MOE) | HF_SET(HF_QWEN3MOE))
#define HF_PHIS     (HF_SET(HF_PHI3) | HF_SET(HF_PHIMOE))
#define HF_WINDOWED                                                                                                              \
    (HF_GEMMAS | HF_SET(HF_MISTRAL) | HF_SET(HF_MIXTRAL) | HF_PHIS | HF_QWENS | HF_SET(HF_COHERE2) | HF_SET(HF_STARCODER2) |     \
     HF_SET(HF_EXAONE4) | HF_SET(HF_MINISTRAL3) | HF_SET(HF_OLMO3) | HF_SET(HF_GPT_OSS))
/* Of whose heads a part may rotate. */
#define HF_PARTIAL                                                                                                               \
    (HF_PHIS | HF_SET(HF_EXAONE) | HF_SET(HF_GLM4MOE) | HF_SET(HF_STABLELM) | HF_SET(HF_NEOX) | HF_SET(HF_PHI2) |                \
     HF_SET(HF_GLM4) | HF_SET(HF_BAMBA))
#define HF_DEEPSEEKS                                                                                                             \
    (HF_SET(HF_DEEPSEEK2) | HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_GLM4_LITE) | HF_SET(HF_MISTRAL4))
/* Layers behind the last may be heads; in a file, those of latent attention are left out. */
#define HF_NEXTS      (HF_SET(HF_GLM4MOE) | HF_SET(HF_DEEPSEEK3) | HF_SET(HF_DEEPSEEK32) | HF_SET(HF_GLM4_LITE))
#define HF_SPLIT_B    (HF_DEEPSEEKS | HF_SET(HF_YOUTU)) /* with latent attention, whose keys and values are two matrices in GGUF */
#define HF_LATENTS    (HF_SPLIT_B | HF_SET(HF_MINICPM3)) /* with latent attention */
#define HF_QWEN35S    (HF_SET(HF_QWEN35) | HF_SET(HF_QWEN35MOE))
#define HF_DELTAS     (HF_SET(HF_QWEN3NEXT) | HF_QWEN35S)    /* with gated delta nets */
#define HF_LFM2S      (HF_SET(HF_LFM2) | HF_SET(HF_LFM2MOE)) /* with short convolutions */
#define HF_MAMBAS     (HF_SET(HF_MAMBA) | HF_SET(HF_MAMBA2)) /* state-space layers alone, */
#define HF_HYBRIDS    (HF_SET(HF_GRANITE_HYBRID) | HF_SET(HF_GRANITE_HYBRID_DENSE))
#define HF_FUSED_QKVS (HF_SET(HF_BAICHUAN) | HF_SET(HF_INTERNLM2)) /* q, k and v of which are one matrix there */
#define HF_RWKVS      (HF_SET(HF_RWKV7) | HF_SET(HF_ARWKV7))
#define HF_NEMOTRONS  (HF_SET(HF_NEMOTRON_H) | HF_SET(HF_NEMOTRON_H_MOE)) /* and with attention */
#define HF_SCANS      (HF_MAMBAS | HF_HYBRIDS | HF_SET(HF_FALCON_H1) | HF_NEMOTRONS | HF_SET(HF_BAMBA))
#define HF_ADD_ONE    (HF_GEMMAS | HF_DELTAS) /* whose norms multiply by 1 + weight */
#define HF_MOES                                                                                                                  \
    ((HF_SET(HF_GPT_OSS + 1) - HF_SET(HF_MIXTRAL)) | HF_DEEPSEEKS | HF_SET(HF_QWEN3NEXT) | HF_SET(HF_QWEN35MOE) |                \
     HF_SET(HF_LFM2MOE) | HF_SET(HF_GRANITE_HYBRID) | HF_SET(HF_LLAMA4) | HF_SET(HF_NEMOTRON_H_MOE)) /* with routed experts */
/* Decoders whose norms have biases. */
#define HF_BIASED_NORMS                                                                                                          \
    (HF_SET(HF_GPT2) | HF_FALCONS | HF_SET(HF_STABLELM) | HF_SET(HF_STARCODER2) | HF_SET(HF_NEOX) | HF_SET(HF_PHI2) |            \
     HF_SET(HF_PHIMOE) | HF_SET(HF_RWKV7))
/* Whose q and k rows go from rope's two halves to neighbouring pairs. */
#define HF_PAIRED                                                                                                                \
    (HF_SET(HF_LLAMA) | HF_SET(HF_MISTRAL) | HF_SET(HF_SMOLLM3) | HF_SET(HF_GRANITE) | HF_SET(HF_MIXTRAL) |                      \
     HF_SET(HF_GRANITEMOE) | HF_HYBRIDS | HF_NEMOTRONS | HF_SET(HF_MINISTRAL3) | HF_SET(HF_MINICPM) | HF_FUSED_QKVS)
/* With the names of llama's tensors, at least of most. */
#define HF_LLAMA_LIKE                                                                                                            \
    (HF_ALL &                                                                                                                    \
     ~(HF_ENCODERS | HF_SET(HF_RWKV7) | HF_SET(HF_EXAONE) | HF_FALCONS | HF_SET(HF_GPT2) | HF_SET(HF_NEOX) | HF_SET(HF_MPT)))

/* ---- keys ------------------------------------------------------------------------------------ */

#define HF_NO  0    /* the architecture has no such key; so also where a row does not name it */
#define HF_MAY (-1) /* only where config.json has it */

typedef struct hf_key {         /* a number: hf_keys.c */
    const char *suffix, *names; /* GGUF's behind the architecture; config.json's, "a|b" */
    char kind;                  /* 'u' u32, 'f' f32 */
    size_t size;                /* one of the sizes that every model has: its number, from 1; 0: `otherwise` holds */
    double otherwise[HF_COUNT];
    const char *gpt2; /* the name in its config.json, where it is not the first */
} hf_key;
const hf_key *zt_hf_keys(size_t *count);
/* What holds where config.json is silent, HF_NO or HF_MAY. */
double zt_hf_otherwise(const hf_key *key, hf_id id);

/* Words and switches of config.json that must be what the architecture means. */
typedef struct hf_demand {
    const char *names, *words; /* words: " a b " */
    hf_set archs;
} hf_demand;
const hf_demand *zt_hf_demands(size_t *count);

typedef struct hf_special { /* a special token: hf_special.c */
    const char *name, *key; /* NAME_token of tokenizer_config.json; tokenizer.ggml.KEY_token_id */
} hf_special;
const hf_special *zt_hf_specials(size_t *count);

typedef struct hf_sampling { /* a number of generation_config.json: hf_general.c */
    const char *name, *key;  /* general.sampling.KEY */
    zt_gguf_kind kind;
} hf_sampling;
const hf_sampling *zt_hf_samplings(size_t *count);

/* ---- tensors --------------------------------------------------------------------------------- */

/* Done to a tensor's values. Stacked: the matrices of all experts, which are tensors of their own there, with the expert's
 * number for '*' in the name. First, second: of two tensors that there are the halves of one matrix, or of each of several.
 * In turns: rows of the two halves take turns. Turned: matrices that are transposed there, of each expert.
 * Flat: a matrix of one row, which may be a vector in GGUF. Grouped: rows of q, k and v, which are there by key head: its query
 * heads, itself, its values. */
enum {
    HF_PAIR_Q = 1,
    HF_PAIR_K = 2,
    HF_TRANSPOSE = 4,
    HF_NORM = 8,
    HF_STACKED = 16,
    HF_FIRST_HALF = 32,
    HF_SECOND_HALF = 64,
    HF_FLAT = 128,
    HF_UNDERSCORE = 256, /* the name there ends in _bias, not .bias */
    HF_GROUPED = 512,
    HF_BARE = 1024, /* the name there does not end in .weight, and that of a bias in _bias */
    HF_TURNED = 2048,
    HF_IN_TURNS = 4096,
    HF_DELTA = 16384,      /* of a gated delta net: hf_delta.c */
    HF_SCALE = 32768,      /* the name in GGUF ends in .scale */
    HF_PADDED = 65536,     /* has a row for each token in GGUF, of zeros where there it has none */
    HF_MIXER = 131072,     /* of a short convolution or a state-space layer: hf_mamba.c */
    HF_FUSED_QKV = 262144, /* q, k and v, which are one matrix there: hf_packed.c */
    HF_LOW_RANK = 524288,  /* its bias there is a weight in GGUF, whose name ends in 0, not 2 */
    HF_RWKV = 1048576,     /* of RWKV-7: hf_rwkv.c */
    HF_HEADS = 8192        /* of halves: of each head the rows of its keys, which are transposed, and those of its values */
};
/* Of several names for one tensor the first is written. */
typedef struct hf_name {
    const char *hf, *gguf; /* both without ".weight" or ".bias"; of a layer: behind its number; '*': an expert's */
    hf_set archs;
    unsigned todo;
} hf_name;
/* hf_name_rows.c: the names of layers' tensors, and all others. */
const hf_name *zt_hf_layer_names(size_t *count);
const hf_name *zt_hf_other_names(size_t *count);
/* The name in a Hugging Face model of a GGUF's tensor, of a stacked one that of an expert, and what was done to its values;
 * ZT_ENOTSUP: it has no place there. */
zt_status zt_hf_export_name(zt_ctx *ctx, const hf_arch *arch, const char *gguf, int64_t expert, zt_str *name, unsigned *todo);
/* The GGUF name of the second half whose first half is this GGUF tensor. */
zt_status zt_hf_second_half(zt_ctx *ctx, const hf_arch *arch, const char *gguf, zt_str *name);

/* hf_delta.c: which of its rows (columns: of its columns) change places. */
typedef enum hf_delta_part {
    HF_DELTA_QKV,      /* those of values, behind q and k */
    HF_DELTA_VALUES,   /* all */
    HF_DELTA_COLUMNS,  /* the same of columns */
    HF_DELTA_NEXT_QKV, /* out of qwen3next's matrix */
    HF_DELTA_NEXT_GATE
} hf_delta_part;
typedef struct hf_delta_order {
    hf_delta_part part;
    int64_t key_heads, each, key, value; /* each: value heads of a key head; lengths of a key, of a value */
} hf_delta_order;
/* The source's row or column for one of the tensor. */
int64_t zt_hf_delta_place(const hf_delta_order *order, int64_t place);

/* hf_mamba.c: what the rows of a matrix are multiplied by, first by numbers for all, then by one for each of some runs. */
enum { HF_MOST_RUNS = 5 };
typedef struct hf_factors {
    double all[2];
    int64_t run_count, end[HF_MOST_RUNS]; /* the row behind a run */
    double run[HF_MOST_RUNS];
} hf_factors;

typedef struct hf_tensor {
    const char *name;            /* GGUF's */
    zt_type type;                /* as it is read */
    int64_t source;              /* in the weights' checkpoint, -1: made by us, `values` */
    int64_t *sources;            /* of a stacked tensor: one for each expert, -1: not seen; else NULL */
    int half;                    /* 1, 2: that half of the rows of the source, or of each of its matrices; 0: all */
    zt_dtype from;               /* dtype of the source */
    float add;                   /* to each value; only where type is F32 */
    int64_t heads;               /* 0: rows stay in place; else they are paired within each of so many heads, */
    int64_t groups;              /* or, where this is not 0, grouped by so many key heads */
    bool transposed;             /* the source is [columns, rows], or several such */
    bool in_turns;               /* of halves: rows of both take turns, of vectors values */
    int64_t each;                /* of halves by head: rows of the source for each, */
    int64_t skipped;             /* of which so many are the first half's and come before these; 0: any other tensor */
    int64_t scales;              /* of MXFP4: its second source */
    int64_t given;               /* elements of the source; zeros follow. 0: all */
    const int64_t *rows;         /* of a matrix: the source's row for each of its own; NULL: all */
    bool unit_rows;              /* of a matrix: each row is divided by its length */
    const hf_factors *factors;   /* NULL: rows stay as they are */
    const hf_delta_order *order; /* NULL: rows and columns stay in place, but for the above */
    const float *values;
} hf_tensor;

typedef struct hf_tensors {
    zt_ctx *ctx;
    const char *name; /* of the model, for messages; owned by the arena */
    zt_arena *arena;
    zt_checkpoint *from; /* the weights; NULL: there are none */
    hf_tensor *list;
    int64_t count;
    struct hf_cache *cache;
} hf_tensors;

/* NULL on failure; takes over `from`, also then. */
hf_tensors *zt_hf_tensors_new(zt_ctx *ctx, const char *name, zt_checkpoint *from);
void zt_hf_tensors_free(void *user);
zt_status zt_hf_tensors_add(hf_tensors *tensors, const hf_tensor *added); /* its name and values are copied */
/* Source `index`, of one matrix's type, is that of an expert's part of the stacked tensor, which is added if it is not there.
 * `named`: its name in the weights, for messages. */
zt_status zt_hf_tensors_stack(hf_tensors *tensors, const hf_tensor *matrix, int64_t expert, int64_t experts, int64_t index,
                              const char *named);
/* hf_mxfp4.c: the length of NAME in NAME_blocks and NAME_scales, 0: neither; the tensor that both are, without its name, for
 * the first of them (source -1 for the second); and blocks of it. */
size_t zt_hf_mxfp4_stem(const char *name);
/* A block of GGUF from its exponent and its values, of which two that follow each other are a byte. */
enum { HF_MXFP4_PAIRS = 16, HF_MXFP4_BLOCK = 17 };
void zt_hf_mxfp4_block(uint8_t scale, const uint8_t *pairs, uint8_t *block);
zt_status zt_hf_read_mxfp4(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst);
zt_status zt_hf_tensors_check_stacks(const hf_tensors *tensors); /* ZT_EDATA: an expert has not been seen */
zt_store zt_hf_tensors_store(hf_tensors *tensors);

/* ---- a model being opened -------------------------------------------------------------------- */

typedef struct hf_import {
    zt_ctx *ctx;
    const char *path; /* as given */
    bool is_folder;   /* that path is one, not a file of weights */
    zt_str folder;    /* with '/' at its end, or empty */
    zt_str file;      /* of hf_file */
    zt_str pieces;    /* the path of the SentencePiece file, for messages */
    json_t *config;   /* the whole, an object */
    json_t *text;     /* of a model for more than text: the part for text; else config */
    hf_arch arch;
    bool known; /* arch.id is set; else only its name is */
    /* Of BOS and EOS, once put: tokenizer.ggml.*_token_id, and .add_*_token; -1: not said. */
    int64_t bos, eos;
    int add_bos, add_eos;
    bool keys_suffice; /* tokenizer.ggml.* says all that tokenizer.json does */
    bool whole;        /* for a file, with all keys: else only what running needs */
    bool weights;      /* a model without them is ZT_ENOENT */
    bool is_alone;     /* path is a tokenizer.model, not a model */
    bool embedded;     /* tokens are as many as the embedding has rows */
    bool spaced;       /* tokenizer.ggml.add_space_prefix is put */
    int64_t behind;    /* tensors behind the last layer that were left out */
    int64_t ids[3];    /* BOS, EOS, UNK where no other file names them; -1: none */
    zt_gguf_writer *writer;
    hf_tensors *tensors;
} hf_import;

/* "folder/name", good until the next call; NULL without memory. */
const char *zt_hf_file(hf_import *import, const char *name);
bool zt_hf_has_file(hf_import *import, const char *name);
/* The object that the file is; NULL when there is no such file (status ZT_OK) or it is bad. */
json_t *zt_hf_load(hf_import *import, const char *name, zt_status *status);

/* The weights of the directory: model.safetensors, an index, pytorch_model.bin and others (the table in
 * hf_weights.c). NULL: they cannot be read; or there are none, ZT_OK. */
zt_checkpoint *zt_hf_open_weights(hf_import *import, zt_status *status);
zt_status zt_hf_no_weights(hf_import *import); /* ZT_ENOENT, with the names that were looked for */

/* Of the first of these names ("a|b") that config.json has, text part first; NULL: none has it. It
 * may be null. */
const json_t *zt_hf_get(const hf_import *import, const char *names);
/* Numbers of config.json: `out` stays when it is absent or null; ZT_EDATA when it is something
 * else. */
zt_status zt_hf_int(const hf_import *import, const char *names, int64_t *out);
zt_status zt_hf_real(const hf_import *import, const char *names, double *out);
/* A number in any object of it; `what` names it in messages. */
zt_status zt_hf_number(const hf_import *import, const json_t *value, const char *what, double *out);
/* The value of a number's key in GGUF: config.json's, else the default. `out` stays if there is neither. */
zt_status zt_hf_value(const hf_import *import, const char *suffix, double *out);
bool zt_hf_is(const hf_import *import, hf_set set); /* is the architecture of the set? */

zt_status zt_hf_find_arch(hf_import *import);  /* from config.json; ZT_OK also when it is not known */
zt_status zt_hf_put_config(hf_import *import); /* sizes, norms, windows, scales */
zt_status zt_hf_put_dense(hf_import *import);  /* what the table of numbers cannot say of dense models: hf_dense.c */
/* hf_classifier.c: do the tensors hold a classifier? Its labels; and, after the tensors, of a reranker what it adds. */
bool zt_hf_has_classifier(const hf_import *import);
zt_status zt_hf_put_labels(hf_import *import);
zt_status zt_hf_put_reranker(hf_import *import);
zt_status zt_hf_falcon_groups(const hf_import *import, double *groups); /* key heads of a Falcon */
zt_status zt_hf_put_gemma(hf_import *import); /* lists of sizes, and what else Gemma 3n and 4 have: hf_gemma.c */
/* The matrices that sentence-transformers' modules.json puts behind a model, as keys and tensors. */
zt_status zt_hf_put_dense_modules(hf_import *import);
/* Length of a head of Gemma 4: of layers without a window, and with one. */
zt_status zt_hf_gemma_heads(const hf_import *import, double *global, double *local);
/* How many of Gemma 3n's streams are not the first. */
zt_status zt_hf_gemma_streams(const hf_import *import, double *others);
zt_status zt_hf_put_experts(hf_import *import); /* what the table of numbers cannot say of experts: hf_experts.c */
zt_status zt_hf_put_llama4(hf_import *import);  /* layers, growth of queries, norms: hf_llama4.c */
zt_status zt_hf_put_latent(hf_import *import);  /* the same of latent attention: hf_latent.c */
zt_status zt_hf_put_delta(hf_import *import);   /* and of gated delta nets: hf_delta.c */
zt_status zt_hf_put_mamba(hf_import *import);   /* and of short convolutions and state-space layers: hf_mamba.c */
/* Groups of rows: those of the group's query heads, then of its key heads, then of as many heads of values. */
typedef struct hf_packed {
    int64_t groups, queries, keys; /* heads of a group */
    int64_t head;                  /* rows of a head */
} hf_packed;
/* hf_packed.c: of an architecture with so many heads and key heads, each of `head` rows. */
hf_packed zt_hf_packed_layout(hf_id id, int64_t heads, int64_t key_heads, int64_t head);
/* hf_packed.c: the three tensors of one that is named HF_FUSED_QKV. */
zt_status zt_hf_add_packed(hf_import *import, const hf_tensor *tensor);
/* hf_baichuan.c: are the rows of the output matrix divided by their lengths? */
bool zt_hf_has_unit_head(const hf_import *import);
zt_status zt_hf_put_baichuan(hf_import *import);
zt_status zt_hf_put_rwkv(hf_import *import);  /* of RWKV-7: hf_rwkv.c */
zt_status zt_hf_put_arwkv(hf_import *import); /* of ARWKV, in the same file */
enum {
    ZT_HF_ARWKV_DECAY = 64,
    ZT_HF_ARWKV_RATE = 64,
    ZT_HF_ARWKV_SHARE = 32,
    ZT_HF_ARWKV_GATE = 128
}; /* ranks, of every width */
/* Adds a tensor that is named HF_RWKV; its name, type and source are set. */
zt_status zt_hf_add_rwkv(hf_import *import, hf_tensor *tensor);
#define ZT_HF_LERPS "rwkvag" /* attn.x_r and so on, in the order of GGUF's one tensor; without a gate the last is absent */
/* hf_export_rwkv.c: the name of a GGUF's tensor, or of its part, where the tables of names do not say it; false: they do. */
bool zt_hf_rwkv_export_name(const hf_arch *arch, const char *gguf, int64_t part, zt_str *name, zt_status *status);
/* Adds a tensor that is named HF_MIXER; its name, type and source are set. */
zt_status zt_hf_add_mixer(hf_import *import, hf_tensor *tensor);
/* Layers behind the last that predict further tokens: as config.json says, or the weights show. */
enum { MOST_FURTHER = 64 };
zt_status zt_hf_further_layers(const hf_import *import, int64_t *count);
/* hf_head.c: the same of models without gated delta nets, 0 in other ones, and its key. */
zt_status zt_hf_head_layers(const hf_import *import, int64_t *count);
zt_status zt_hf_put_heads(hf_import *import);
/* The name that a tensor of such a layer would have in a layer's place; other names as they are. */
zt_status zt_hf_name_further(const hf_import *import, const char *name, char *out, size_t size);
/* Adds a tensor that is named HF_DELTA; its name, type and source are set. */
enum { ZT_HF_NAME = 64 };
zt_status zt_hf_add_delta(hf_import *import, hf_tensor *tensor);
zt_status zt_hf_put_rope(hf_import *import);      /* also adds the tensors of rope's factors */
zt_status zt_hf_put_tokenizer(hf_import *import); /* tokenizer.json, special tokens, chat templates */
/* hf_latent.c: of the matrix of keys and values that `tensor` is, that of keys [heads, latent, plain], or of values [heads,
 * value, latent]. */
zt_status zt_hf_split_heads(const hf_import *import, hf_tensor *tensor, bool values);
zt_status zt_hf_plan_mxfp4(const hf_import *import, int64_t index, hf_tensor *tensor);
/* Where config.json has a quantization: the weights' checkpoint becomes one whose matrices are floats or blocks. */
zt_status zt_hf_open_quantized(hf_import *import);
zt_status zt_hf_add_tensors(hf_import *import); /* from the weights: names, types, transforms */
/* All of them as they are, of an architecture that is not known; and config.json as a key. */
zt_status zt_hf_pass_all(hf_import *import);

/* ---- what only a file needs ------------------------------------------------------------------ */

zt_status zt_hf_put_general(hf_import *import); /* general.*; when the tensors are known */
zt_status zt_hf_put_card(hf_import *import);    /* of it what README.md says */
/* tokenizer.ggml.*: the tokens in GGUF's terms, and special ones, where they can be said so. */
zt_status zt_hf_put_vocabulary(hf_import *import);
/* From tokenizer.json's tree (may be NULL) and tokenizer_config.json: special tokens, what is put
 * around texts, normalizers. An id from n_tokens on is none; -1: all may be. */
zt_status zt_hf_put_special(hf_import *import, const json_t *tokenizer, int64_t n_tokens);

/* The tokens of a file. Those that nobody names are "[PAD7]", which are not used. */
typedef enum hf_token_type { /* as GGUF numbers them */
                             HF_TOKEN_NORMAL = 1,
                             HF_TOKEN_UNKNOWN,
                             HF_TOKEN_CONTROL,
                             HF_TOKEN_USER,
                             HF_TOKEN_UNUSED,
                             HF_TOKEN_BYTE
} hf_token_type;

typedef struct hf_tokens {
    hf_import *import;
    zt_arena *texts;
    int64_t count;
    zt_bytes *text;
    int32_t *type;
    float *score;
} hf_tokens;

zt_status zt_hf_tokens_init(hf_tokens *tokens, hf_import *import, int64_t count);
void zt_hf_tokens_fini(hf_tokens *tokens);
/* The text is copied. Ids from `count` on are ignored: the model has no rows for them. */
zt_status zt_hf_tokens_set(hf_tokens *tokens, int64_t id, zt_bytes text, hf_token_type type, float score);
bool zt_hf_looks_special(zt_bytes text); /* "<|...|>" and the like */
/* A token that was added: CONTROL if it is special or looks so, else USER with plain spaces. */
zt_status zt_hf_tokens_add(hf_tokens *tokens, int64_t id, zt_bytes text, bool special, float score);
/* tokenizer.ggml.model, .pre, .tokens, .scores (where so said), .token_type */
zt_status zt_hf_tokens_put(hf_tokens *tokens, const char *model, const char *pre, bool scores);

/* hf_vocab.c: as many tokens as the embedding has rows, else as config.json says, else as are `there`. */
zt_status zt_hf_count_rows(hf_import *import, int64_t there, int64_t *rows);

/* hf_rwkv_vocab.c: the tokens of that file. */
#define ZT_HF_RWKV_VOCAB "rwkv_vocab_v20230424.txt"
bool zt_hf_has_rwkv_vocabulary(hf_import *import); /* the file is there, and no tokenizer.json */
zt_status zt_hf_put_rwkv_vocabulary(hf_import *import);

/* The name of SentencePiece's file in the directory: tokenizer.model, or as some models name it
 * (spiece.model ...); NULL: there is none. */
const char *zt_hf_spm_name(hf_import *import);
/* That file, whose bytes outlive sp: read; its pieces into w, with what added_tokens.json and
 * tokenizer_config.json add; ggml's name of such a model. */
zt_status zt_hf_spm_open(hf_import *import, zt_sp_model *model, zt_bytes file);
zt_status zt_hf_spm_words(hf_tokens *tokens, const zt_sp_model *model);
const char *zt_hf_spm_model(const zt_sp_model *model);
/* Does tokenizer_config.json, or the model's type where that is silent, name a class whose ids are those
 * of the file? ZT_ENOTSUP: it does not. */
zt_status zt_hf_spm_class(hf_import *import, const json_t *config);
/* What goes around a text, where no file said so. */
zt_status zt_hf_spm_ends(hf_import *import, const zt_sp_model *model, const json_t *config);
/* The keys of its normalizer, but add_space_prefix where that was put, and the file itself; config is
 * tokenizer_config.json or NULL. */
zt_status zt_hf_spm_put_keys(hf_import *import, const zt_sp_model *model, zt_bytes file, bool spaced, const json_t *config);
/* All keys of a tokenizer.model that is alone, import->path. */
zt_status zt_hf_spm_alone(hf_import *import, const char *text, size_t size);
/* Appends a piece to a tokenizer.model; after the last what its reader wants to know: `bytes`, that
 * there are pieces for all bytes. */
zt_status zt_hf_spm_put(zt_str *out, zt_bytes text, float score, hf_token_type type);
zt_status zt_hf_spm_end(zt_str *out, bool bytes);

/* The name of a tokenizer.json's pre-tokenizer for tokenizer.ggml.pre, by the ids that it makes of
 * a certain text, else by its patterns; *name NULL: it has none. */

zt_status zt_hf_pre_name(hf_import *import, const zt_vocab *vocab, const json_t *tokenizer, const char **name);
/* Are its patterns, to the letter, those that the name stands for here? */
bool zt_hf_pre_same(const json_t *tokenizer, const char *name);

/* The wave of a pair of columns, the number of positions in which it rotates once; and the factor by which
 * Llama 3 divides its angle. */
#define ZT_HF_STILL 1e30f /* divisor of the angle of a pair that does not rotate */
float zt_hf_wave(double theta, int64_t pair, int64_t dims);
float zt_hf_llama3(float wave, double factor, double low, double high, double original);

/* The key ARCH.SUFFIX */
zt_status zt_hf_put_int(hf_import *import, const char *suffix, int64_t value);
zt_status zt_hf_put_real(hf_import *import, const char *suffix, double value);
zt_status zt_hf_put_ints(hf_import *import, const char *suffix, const int32_t *number, size_t count);
zt_status zt_hf_put_reals(hf_import *import, const char *suffix, const float *number, size_t count);
zt_status zt_hf_put_flags(hf_import *import, const char *suffix, const uint8_t *flags, size_t count);
zt_status zt_hf_put_text(hf_import *import, const char *suffix, const char *text);

#endif
