/* mix.h - named mixes of quantization types: which tensor of a model gets which.
 *
 * A mix has one type for most matrices, and others where errors cost more: values, some layers' way
 * down, the output. Which, is what llama-quantize does for the file type of that name (llama.cpp,
 * src/llama-quant.cpp, as facts), so that a file of a known name is what is expected of it.
 *
 *     zt_mix_of m = {.mix = zt_mix_find("q4_k_m"), .arch = "llama", .n_layers = 30, ...};
 *     zt_mix_tensor t[] = {{.name = "blk.0.attn_v.weight", .type = &type}, ...};
 *     zt_status s = zt_mix_choose(ctx, &m, t, n);
 *
 * What is no matrix, norms, what routes between experts and other small things stay as they are.
 */
#ifndef ZT_MIX_H
#define ZT_MIX_H

#include "lib/tensor/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_mix {
    const char *name;  /* "q4_k_m" */
    zt_dtype dtype;    /* of most matrices */
    int file_type;     /* general.file_type of llama.cpp; -1: it has none */
    const char *alias; /* another name, "q4_k"; NULL */
} zt_mix;

const zt_mix *zt_mix_at(int index);          /* NULL past the last */
const zt_mix *zt_mix_find(const char *name); /* by name or alias, in any case; NULL: none */

/* A wish for some tensors, over what the mix says. */
typedef struct zt_mix_wish {
    const char *glob; /* of names: as fnmatch(3) has it */
    zt_dtype dtype;
} zt_mix_wish;
/* Does the wish name the tensor of this name? */
bool zt_mix_matches(const zt_mix_wish *wish, const char *name);

/* What is known of the model, and what is asked for. Zero where the file does not say. */
typedef struct zt_mix_of {
    const zt_mix *mix;
    const char *arch; /* general.architecture; NULL: no language model, any matrix counts */
    int64_t n_layers, n_heads, n_kv_heads, n_experts;
    bool imatrix;            /* importance is known */
    bool pure;               /* all matrices of one type */
    const zt_mix_wish *wish; /* the last that matches holds */
    int64_t n_wishes;
} zt_mix_of;

typedef struct zt_mix_tensor {
    const char *name;
    const zt_type *type; /* as it is; dtype ZT_DTYPE_COUNT or rank -1: not known to zt */
    zt_dtype dtype;      /* what it becomes */
    zt_dtype wanted;     /* what it should have become, */
    bool fell_back;      /* but its rows are no whole blocks of that */
    bool search;         /* for codes of least error: it fell back from a type without own rule */
    bool kept;           /* not to be quantized, whatever is asked for */
    int64_t wish;        /* the wish that holds, or -1 */
} zt_mix_tensor;

/* Fills the last five fields of each; the order of tensors does not matter. */
zt_status zt_mix_choose(zt_ctx *ctx, const zt_mix_of *spec, zt_mix_tensor *tensors, int64_t tensor_count);
/* The type that rows of so many columns can have when `wanted` is asked for: `wanted`, a type of smaller blocks, or f16. */
zt_dtype zt_mix_fit(zt_dtype wanted, int64_t columns);

#ifdef __cplusplus
}
#endif
#endif
