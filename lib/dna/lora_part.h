/* lora_part.h - private to lib/dna: an adapter's parts, and how they lie in a model.
 *
 * lora.c opens files and sorts tensors into parts; lora_config.c reads adapter_config.json,
 * lora_pattern.c its patterns; lora_fit.c finds each part's tensor in a model; adapted.c makes the
 * tensors of the model with adapters, adapted_values.c their values.
 */
#ifndef ZT_LORA_PART_H
#define ZT_LORA_PART_H

#include "lib/dna/lora.h"
#include "lib/io/json.h"

/* ---- patterns -------------------------------------------------------------------------------- */

/* An object of adapter_config.json whose keys are Python's regular expressions for modules. */
typedef struct lora_patterns lora_patterns;
/* NULL with ZT_OK in *s: the member is absent, null or empty. The object must live as long. */
lora_patterns *zt_lora_patterns_read(zt_ctx *ctx, const char *file, const char *member,
                                     const json_t *object, zt_status *s);
void zt_lora_patterns_free(lora_patterns *p);
/* The value of the first key that fits the module, as PEFT asks; NULL in *value: none does. */
zt_status zt_lora_patterns_find(const lora_patterns *p, const char *module, const json_t **value);

/* ---- adapters -------------------------------------------------------------------------------- */

typedef struct lora_config {
    const char *file; /* for messages */
    json_t *json;
    double alpha; /* lora_alpha */
    int64_t r;
    lora_patterns *alphas, *ranks;
    bool root;                   /* use_rslora */
    bool transposed;             /* fan_in_fan_out */
    bool dora;                   /* use_dora */
    bool tied;                   /* ensure_weight_tying */
    const json_t *saved, *token; /* modules_to_save, trainable_token_indices; NULL: none */
} lora_config;

zt_status zt_lora_config_read(zt_ctx *ctx, const char *path, lora_config *c);
void zt_lora_config_fini(lora_config *c);
/* Is the module among modules_to_save? */
bool zt_lora_config_saves(const lora_config *c, const char *module);
/* alpha / r of a module, whose matrices are of rank r; ZT_EDATA: the configuration has another. */
zt_status zt_lora_config_scale(zt_ctx *ctx, const lora_config *c, const char *module, int64_t r,
                               double *scale);
/* The rows of an embedding that were trained, [n] in the arena. */
zt_status zt_lora_config_rows(zt_ctx *ctx, const lora_config *c, const char *module, int64_t n,
                              zt_arena *arena, const int64_t **row);

/* What an adapter has for one tensor of a model. Numbers are tensors of its file, -1: it has none.
 */
typedef struct lora_part {
    const char *name;   /* of the tensor, by the adapter's names */
    const char *module; /* the same without ".weight"; of a GGUF the whole */
    int64_t whole;      /* the tensor itself, trained */
    int64_t a, b;       /* [r, in], [out, r] */
    int64_t magnitude;  /* DoRA: the length of each output's weights */
    int64_t rows;       /* some rows, trained */
    int64_t addend;     /* lora_B.bias, to a bias */
    bool embedding;     /* A is [r, rows], B [columns, r]: the product is transposed */
    bool tokens;        /* the same of a GGUF: A is [rows, r] */
    bool saved;         /* among modules_to_save */
    int64_t r;
    double scale;
    const int64_t *row; /* [n_rows] of `rows` */
    int64_t n_rows;
} lora_part;

struct zt_lora {
    zt_ctx *ctx;
    zt_arena *arena;
    zt_checkpoint *file;
    zt_lora_place_fn *place;
    bool gguf;
    lora_config config;
    double alpha; /* of a GGUF */
    lora_part *part;
    int64_t n;
    zt_map *by_name;
};

/* How a part lies in a model. */
typedef struct lora_fit {
    const zt_lora *lora;
    const lora_part *part;
    int64_t tensor; /* of the model; -1: the head of a model whose embedding is its head */
    bool flipped;   /* the product is transposed, magnitudes are of columns */
    bool turned;    /* whole matrices are transposed */
    float add;      /* to whole tensors */
    int64_t heads;  /* rows lie in pairs within each of so many; 0: they do not */
} lora_fit;

/* Names of a model's embedding and head. */
typedef struct lora_ends {
    int64_t embedding, head; /* tensors, -1 */
    const char *head_name;   /* of a head that is not there and could be; NULL */
} lora_ends;
void zt_lora_ends(const zt_lora *l, zt_checkpoint *model, lora_ends *out);

/* Shapes are checked. ZT_EDATA, ZT_ESHAPE: the model has no such tensor, or of another shape. */
zt_status zt_lora_fit(const zt_lora *l, zt_checkpoint *model, const lora_ends *ends,
                      const lora_part *p, lora_fit *out);
/* Is it for models of this architecture? */
zt_status zt_lora_check_arch(const zt_lora *l, zt_checkpoint *model);
/* In how many heads a tensor's rows are paired on the way from Hugging Face's names to GGUF's; 0:
 * they are not, -1: not known. */
int64_t zt_lora_heads(zt_checkpoint *model, const char *name);

#endif
