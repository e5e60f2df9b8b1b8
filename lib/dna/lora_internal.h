/* lora_internal.h - private to lib/dna: an adapter's parts, and their tensors in a model.
 *
 *     lora.c            opens files, groups tensors into parts
 *     lora_config.c     adapter_config.json and its patterns for module names
 *     lora_parameters.c parameters that hold the matrices of all experts
 *     lora_placement.c  finds each part's tensor in a model
 *     adapted.c         the tensors of a model with adapters
 *     adapted_values.c  their values
 */
#ifndef ZT_LORA_INTERNAL_H
#define ZT_LORA_INTERNAL_H

#include "lib/dna/lora.h"
#include "lib/io/json.h"

/* ---- patterns -------------------------------------------------------------------------------- */

/* An object of adapter_config.json whose keys are Python regular expressions that match module names. */
typedef struct lora_patterns lora_patterns;

/* ---- adapters -------------------------------------------------------------------------------- */

typedef struct lora_config {
    const char *file; /* for messages */
    json_t *json;
    double alpha; /* lora_alpha */
    int64_t rank;
    lora_patterns *alphas, *ranks;
    bool rank_stabilized;                     /* use_rslora */
    bool transposed;                          /* fan_in_fan_out */
    bool dora;                                /* use_dora */
    bool tied;                                /* ensure_weight_tying */
    const json_t *parameters;                 /* target_parameters; NULL: none */
    const json_t *saved_modules, *token_rows; /* modules_to_save, trainable_token_indices; NULL: none */
} lora_config;

zt_status zt_lora_config_read(zt_ctx *ctx, const char *path, lora_config *config);
void zt_lora_config_fini(lora_config *config);
/* Is the module among modules_to_save? */
bool zt_lora_config_saves(const lora_config *config, const char *module);
/* The scale alpha / rank of a module whose matrices have actual_rank; ZT_EDATA: the configuration says another rank. */
zt_status zt_lora_config_scale(zt_ctx *ctx, const lora_config *config, const char *module, int64_t actual_rank, double *scale);
/* The rank of a module, or of a parameter; ZT_EDATA: it is not a whole number of 1 or more. */
zt_status zt_lora_config_rank(zt_ctx *ctx, const lora_config *config, const char *module, int64_t *rank);
/* The indices of an embedding's trained rows, [count], allocated in the arena. */
zt_status zt_lora_config_rows(zt_ctx *ctx, const lora_config *config, const char *module, int64_t count, zt_arena *arena,
                              const int64_t **row);

/* What an adapter has for one tensor of a model. Tensors are indices in its file; -1: absent. */
typedef struct lora_part {
    const char *name;       /* the model's tensor, in the adapter's naming */
    const char *module;     /* the same without ".weight"; in a GGUF equal to name */
    int64_t whole;          /* the whole tensor, trained */
    int64_t lora_a, lora_b; /* [rank, in], [out, rank] */
    int64_t magnitude;      /* DoRA: the length of each output's weight vector */
    int64_t rows;           /* trained rows, those of row_indices */
    int64_t addend;         /* lora_B.bias, added to a bias */
    bool embedding;         /* A is [rank, rows], B [columns, rank]: the product is transposed */
    bool tokens;            /* the same in a GGUF: A is [rows, rank] */
    bool saved;             /* among modules_to_save */
    int64_t
        experts; /* in a GGUF: matrices that A [experts, rank, in] and B [experts, out, rank] are for; 0: one, of 2 dimensions */
    bool parameter; /* of the matrices of all experts, `experts` of them: lora_parameters.c */
    int64_t rank;
    double scale;
    const int64_t *row_indices; /* [row_count] rows of the model's tensor */
    int64_t row_count;
} lora_part;

struct zt_lora {
    zt_ctx *ctx;
    zt_arena *arena;
    zt_checkpoint *file;
    zt_lora_place_fn *place;
    bool gguf;
    lora_config config;
    double alpha; /* in a GGUF */
    lora_part *parts;
    int64_t part_count;
    zt_map *by_name;
};

/* Where a part belongs in a model, and how it is oriented there. */
typedef struct lora_placement {
    const zt_lora *adapter;
    const lora_part *part;
    int64_t tensor; /* the model's tensor; -1: the output head of a model that uses its embedding as the head */
    bool flipped;   /* the product B A is transposed, magnitudes are of columns */
    bool turned;    /* whole matrices are transposed */
    float add;      /* added to whole tensors */
    int64_t heads;  /* rows are in pairs for rope within each of so many heads; 0: they are not */
    int64_t expert; /* the matrix of a stacked tensor that it is for; -1: the tensor */
    /* Of a parameter: the expert whose matrix the tensor is, or 0 for all; how many there are; rows first, first + step, .. of the
     * parameter's product; whether that is transposed. */
    bool parameter, parameter_turned;
    int64_t parameter_expert, parameter_experts, parameter_first, parameter_step;
} lora_placement;

/* A model's embedding and output head. */
typedef struct lora_ends {
    int64_t embedding, head; /* tensors, -1 */
    const char *head_name;   /* name of a head that could be added; NULL */
} lora_ends;
void zt_lora_ends(const zt_lora *adapter, zt_checkpoint *model, lora_ends *out);

/* Finds a part's tensor and checks shapes. ZT_EDATA: the model has no such tensor; ZT_ESHAPE: it has another shape. */
zt_status zt_lora_place_part(const zt_lora *adapter, zt_checkpoint *model, const lora_ends *ends, const lora_part *part,
                             lora_placement *out);
/* Parts for parameters, lora_parameters.c: reads target_parameters; the module and the parameter of a tensor's module (false: it is
 * not one's); checks A and B; how many places there are at most in a model, and these; factors left [stack * rows, rank] and right
 * [stack * rank, columns] of its A and B. */
zt_status zt_lora_parameters_read(zt_ctx *ctx, lora_config *config);
bool zt_lora_parameter_name(const lora_config *config, const char *module, size_t length, size_t *module_length,
                            const char **parameter);
zt_status zt_lora_parameter_pair(const zt_lora *adapter, lora_part *part, const zt_type *a, const zt_type *b, const char *shown);
int64_t zt_lora_parameter_places(const lora_part *part);
zt_status zt_lora_place_parameter(const zt_lora *adapter, zt_checkpoint *model, const char *arch, const lora_part *part,
                                  lora_placement *out, int64_t *count);
void zt_lora_parameter_values(const lora_placement *placement, const float *a, const float *b, int64_t a_columns, int64_t rows,
                              int64_t columns, float *left, float *right);
/* The tensor of this name, or without what a wrapping model puts before it; -1: there is none. */
int64_t zt_lora_find_own(zt_checkpoint *model, const char *name);
/* The same for any part: adds its placements to `out`. */
zt_status zt_lora_place_all(const zt_lora *adapter, zt_checkpoint *model, const lora_ends *ends, const lora_part *part,
                            lora_placement *out, int64_t *count);
/* ZT_EDATA: the adapter is for another architecture. */
zt_status zt_lora_check_arch(const zt_lora *adapter, zt_checkpoint *model);
/* The number of heads within which the conversion from Hugging Face to GGUF pairs a tensor's rows for rope; 0: rows keep
 * their order; -1: not known. */
int64_t zt_lora_heads(zt_checkpoint *model, const char *name);

#endif
