/* mix.h - named mixes of quantization types: the type of each tensor of a model.
 *
 * A mix has one type for most matrices and better types where errors cost more: attention values, ffn_down of some
 * layers, the output. The choice equals that of llama-quantize for the file type of the same name (llama.cpp,
 * src/llama-quant.cpp, as facts).
 *
 *     zt_mix_of m = {.mix = zt_mix_find("q4_k_m"), .arch = "llama", .n_layers = 30, ...};
 *     zt_mix_tensor t[] = {{.name = "blk.0.attn_v.weight", .type = &type}, ...};
 *     zt_status s = zt_mix_choose(ctx, &m, t, n);
 *
 * Vectors, norms, expert routers and other small tensors are not quantized.
 */
#ifndef ZT_MIX_H
#define ZT_MIX_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_mix {
    const char *name;  /* "q4_k_m" */
    zt_dtype dtype;    /* type of most matrices */
    int file_type;     /* general.file_type of llama.cpp; -1: none */
    const char *alias; /* another name, such as "q4_k"; NULL: none */
} zt_mix;

const zt_mix *zt_mix_at(int index);          /* NULL past the last */
const zt_mix *zt_mix_find(const char *name); /* by name or alias, case-insensitive; NULL: unknown */

/* A regular expression in PCRE2's syntax, which is searched in names: it needs no ^ and matches anywhere. */
typedef struct zt_mix_pattern zt_mix_pattern;
/* `place` begins its messages, such as "types.txt:3". Both strings are copied. NULL: ZT_EDATA for an invalid expression,
 * ZT_ENOMEM. */
zt_mix_pattern *zt_mix_pattern_new(zt_ctx *ctx, const char *place, const char *regex);
void zt_mix_pattern_free(zt_mix_pattern *pattern); /* NULL: nothing */
/* Does the expression match somewhere in the name? A search that takes too many steps is false, with ZT_EDATA in the
 * context. One thread at a time. */
bool zt_mix_pattern_matches(const zt_mix_pattern *pattern, const char *name);

/* An override of the mix for some tensors (--tensor-type). */
typedef struct zt_mix_wish {
    const char *glob; /* pattern of names, as in fnmatch(3) */
    zt_dtype dtype;
    const zt_mix_pattern *regex; /* in place of the glob; NULL: the glob */
} zt_mix_wish;
/* Does the override match the tensor of this name? */
bool zt_mix_matches(const zt_mix_wish *wish, const char *name);

/* The model's metadata and the requested mix. 0: not in the file. */
typedef struct zt_mix_of {
    const zt_mix *mix;
    const char *arch; /* general.architecture; NULL: not a language model, every matrix is quantized */
    int64_t n_layers, n_heads, n_kv_heads, n_experts;
    bool imatrix;            /* an importance matrix is given */
    bool pure;               /* one type for all matrices */
    const zt_mix_wish *wish; /* overrides; the last match applies */
    int64_t n_wishes;
    const zt_dtype *embedding_type; /* of token_embd.weight, and of per_layer_token_embd.weight where no override matches; NULL */
    const zt_dtype *output_type;    /* of output.weight; without one, of the embedding where nothing else names its type; NULL */
} zt_mix_of;

/* What applies to a tensor instead of an override. */
enum { ZT_MIX_RULES = -1, ZT_MIX_EMBEDDING_TYPE = -2, ZT_MIX_OUTPUT_TYPE = -3 };

typedef struct zt_mix_tensor {
    const char *name;
    const zt_type *type; /* source type; dtype ZT_DTYPE_COUNT or rank -1: not supported by zt */
    zt_dtype dtype;      /* chosen type */
    zt_dtype wanted;     /* type by mix and overrides */
    bool fell_back;      /* dtype is a fallback: the row length is not a multiple of the block size of `wanted` */
    bool search;         /* search the codes of least error: a fallback from a type without its own rule */
    bool kept;           /* never quantized */
    int64_t wish;        /* index of the override that applies, or one of ZT_MIX_RULES ... */
} zt_mix_tensor;

/* Sets the fields from `dtype` on for each tensor; the order of the tensors does not matter. */
zt_status zt_mix_choose(zt_ctx *ctx, const zt_mix_of *spec, zt_mix_tensor *tensors, int64_t tensor_count);
/* The type for rows of `columns` columns if `wanted` is requested: `wanted`, a type with smaller blocks, or f16. */
zt_dtype zt_mix_fit(zt_dtype wanted, int64_t columns);

#ifdef __cplusplus
}
#endif
#endif
