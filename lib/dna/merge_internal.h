/* merge_internal.h - private to lib/dna: what recipes, plans and the work on tensors share.
 *
 *     recipe.c         recipes, from YAML or JSON
 *     recipe_tokens.c  their tokens
 *     merge_methods.c  tables of methods and parameters; the value of a parameter for a tensor
 *     merge.c          a merge from beginning to end: each tensor copied, or computed by the method
 *     merge_plan.c     the tensors of the child; what the parents must have in common
 *     merge_vocab.c    the child's tokens, and the rows of each model for them
 *     merge_rows.c     tensors with a row for each token, as a merge reads them
 *     merge_meta.c     the child's metadata
 *     merge_tokens.c   the tokenizer in it
 *     merge_net.c      networks' codes
 *     merge_pass.c     passes over the values of one tensor
 *     merge_linear.c   methods that are linear combinations
 *     merge_rank.c     ranks by magnitude of the values of a tensor
 *     merge_sparse.c   methods that choose among differences to the base
 *     merge_fusion.c   methods that choose by importance, or by how many models changed an element
 *     isa/merge.c      the inner loops
 */
#ifndef ZT_MERGE_INTERNAL_H
#define ZT_MERGE_INTERNAL_H

#include "lib/dna/merge.h"
#include "lib/dna/tree.h"
#include "lib/io/netjson.h"
#include "lib/tensor/quantize.h"

/* ---- parameters and methods ------------------------------------------------------------------ */

typedef enum merge_param {
    MP_WEIGHT,
    MP_DENSITY,
    MP_GAMMA,
    MP_EPSILON,
    MP_T,
    MP_LAMBDA,
    MP_SCALE,
    MP_TOL,
    MP_SELECT_TOPK,
    MP_MAX_ITER,
    MP_NORMALIZE,
    MP_RESCALE,
    MP_INT8_MASK,
    MP_ROW_WISE,
    MP_FLATTEN,
    MP_FILTER_WISE,
    MP_EPS,
    MP_NORMALIZE_WEIGHTS,
    MP_R,
    MP_ALPHA,
    MP_COUNT
} merge_param;

enum { RESCALE_NONE, RESCALE_L1, RESCALE_DENSITY }; /* values of MP_RESCALE */

typedef struct merge_param_info {
    const char *name;
    char kind; /* 'f' a number, 'i' an integer, 'b' a switch, 'r' a value of MP_RESCALE */
    double minimum, maximum;
} merge_param_info;
extern const merge_param_info zt_merge_params[MP_COUNT];

#define MP_BIT(p) (1u << (p))

/* Which differences to the base a method keeps. */
typedef enum merge_sparse {
    SPARSE_NONE,
    SPARSE_LARGEST, /* the largest magnitudes */
    SPARSE_MIDDLE,  /* the largest without the outliers */
    SPARSE_RANDOM,  /* each with the same probability */
    SPARSE_RANKED   /* larger ones with a higher probability */
} merge_sparse;

typedef struct merge_method merge_method;
typedef struct merge_work merge_work;

/* Computes one tensor by a method. */
typedef zt_status merge_run_fn(merge_work *work);

struct merge_method {
    zt_merge_method info;
    merge_run_fn *run_method;
    unsigned shared, per_source, per_other; /* MP_BITs: of the tensor; of each source; of each but the base */
    unsigned required;                      /* those of them that have no default */
    int base;                               /* 0: ignored, 1: optional, 2: required */
    int min_sources, max_sources;           /* max 0: any number */
    int min_others, max_others;             /* sources other than the base; max 0: any number */
    merge_sparse sparse;
    bool consensus; /* only differences of the elected sign */
    bool normalize; /* default of MP_NORMALIZE */
    int rescale;    /* default of MP_RESCALE */
    double epsilon; /* default of MP_EPSILON; 0: 0.15 */
    bool strict;    /* parameters of other methods are refused; else they have no effect, as in mergekit */
};
const merge_method *zt_merge_method_find(const char *name);

/* ---- recipes --------------------------------------------------------------------------------- */

typedef struct merge_cond { /* values for tensors whose name contains the filter */
    const char *filter;     /* NULL: all tensors */
    double *values;
    int count; /* 0: none */
} merge_cond;

typedef struct merge_setting {
    merge_param param;
    merge_cond *conditions;
    int count;
} merge_setting;

typedef struct merge_scope {
    merge_setting *settings;
    int count;
} merge_scope;

typedef struct merge_source {
    int model;
    int64_t first_layer, end_layer; /* [first, end); end -1: to the model's last layer */
    merge_scope scope;
    int line;
} merge_source;

typedef struct merge_slice {
    merge_source *sources;        /* with the base, if there is one */
    int source_count, base_index; /* base_index: -1 without a base */
    merge_scope scope;
} merge_slice;

enum { TOKENS_OF_FIRST = -1, TOKENS_UNION = -2 };

/* Where the row of a token comes from that the recipe's tokens name. */
typedef enum recipe_token_kind {
    TOKEN_UNSET, /* by the rules for all tokens */
    TOKEN_MODEL, /* the model's row of this token */
    TOKEN_ZERO,
    TOKEN_OTHER /* the model's row of another token */
} recipe_token_kind;

typedef struct recipe_token {
    const char *text;
    recipe_token_kind kind;
    int model;        /* index; -1: none */
    int64_t id;       /* of TOKEN_OTHER; -1: the token is named */
    const char *name; /* of TOKEN_OTHER; NULL: it is numbered */
    bool force;       /* for models too that have the token */
} recipe_token;

struct zt_recipe {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *name; /* the file's, for messages */
    const char *text; /* the document */
    size_t text_length;
    const merge_method *method;
    const char **models;
    int model_count, base; /* base: index of a model, or -1 */
    merge_slice *slices;
    int slice_count;
    merge_scope scope;
    zt_dtype dtype;  /* of the child; ZT_DTYPE_COUNT: the parents' */
    int tokens_from; /* index of the model whose tokenizer it gets, or TOKENS_ */
    bool aligns;     /* tensors with a row for each token are aligned with the child's tokens */
    recipe_token *tokens;
    int token_count;
    int64_t pad_to_multiple;   /* of the number of rows; 0: not set */
    bool rectifies;            /* without alignment: such tensors are cut to the rows that all have */
    const char *chat_template; /* NULL: the parent's */
};

/* recipe.c: index of the model that the node names, which is new or not; YAML 1.1's switches. */
zt_status zt_recipe_find_model(zt_tree_reader *builder, const zt_tree *node, int *out);
bool zt_recipe_is_switch(const zt_tree *node, double *out);
/* recipe_tokens.c: the keys tokenizer_source and tokenizer; into: the recipe. */
zt_status zt_recipe_read_tokens_from(zt_tree_reader *builder, const zt_tree *node, void *into);
zt_status zt_recipe_read_tokenizer(zt_tree_reader *builder, const zt_tree *node, void *into);

/* Values of the parameters for one tensor of the child. */
typedef struct merge_values {
    double shared[MP_COUNT];
    double (*each)[MP_COUNT]; /* [sources] */
    unsigned has_shared;      /* MP_BITs of those that are set or have a default */
    unsigned *has_each;       /* [sources] the same of each */
} merge_values;

/* Finds the values of all parameters that the method uses. out->each and out->has_each: buffers for the slice's
 * sources. name: of the child's tensor; source_name[k]: its name in source k; position: of its layer in the stack, 0 to 1.
 * ZT_EDATA: a required parameter is missing, or values contradict each other. */
zt_status zt_merge_resolve(const zt_recipe *recipe, const merge_slice *slice, const char *name, const char *const *source_name,
                           double position, merge_values *out);

/* ---- tokens ---------------------------------------------------------------------------------- */

/* A token of the child. */
typedef struct merge_token {
    zt_bytes text; /* borrowed from a model's metadata, or the recipe */
    int model;     /* its type and score come from this model's token `id`; -1: the recipe adds it */
    int32_t id;
    const recipe_token *setting; /* NULL: none */
} merge_token;

/* The child's tokens. In all models, a token is known by its text. */
typedef struct merge_vocab {
    int from;            /* the model whose tokenizer the child has; its tokens are the first `kept` */
    merge_token *tokens; /* [count] */
    int64_t count, kept, capacity;
    int64_t row_count; /* count, padded to a multiple */
    int32_t **ids;     /* [models] [count] the model's token; -1: it has none */
    zt_map **maps;     /* [models] from texts to ids; those without tokens share another's */
} merge_vocab;

/* ROW_MEAN: of the rows of all sources that have the token; ROW_PAD: of all rows of the source itself. */
enum { ROW_ZERO = -1, ROW_MEAN = -2, ROW_PAD = -3 };
typedef struct merge_row {
    int32_t source; /* of the slice, or ROW_ */
    int32_t row;
} merge_row;

/* A tensor with a row for each token, as its job reads it from each source. */
typedef struct merge_rows {
    int64_t count;    /* rows of the child */
    merge_row **from; /* [sources] [count]; NULL: the first `count` rows as stored */
    bool *decoded;    /* [sources] it has rows of other types or means, and is read as f32 */
    zt_entry *stored; /* [sources] */
    float **pads;     /* [sources] the row ROW_PAD; NULL: not computed yet */
    float *values;    /* one row */
    char *raw;        /* one row of any source */
} merge_rows;

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct merge_job {
    zt_entry entry; /* of the child; its type counts weights, packed ones too */
    const merge_slice *slice;
    double stack_position;
    int64_t order;    /* its index in the first source */
    int64_t *tensors; /* [slice->source_count] index in each source's checkpoint */
    bool head;        /* the output head, which in a source without one is the embedding */
    bool copy;        /* copy the bytes of source type_source */
    bool search;      /* search for the codes of least error instead of the format's rule */
    bool coded;       /* codes of a network, whose scale is in net_weights */
    zt_net_weights net_weights;
    int type_source;  /* the source whose type it gets */
    merge_rows *rows; /* NULL: the sources' tensors as stored */
} merge_job;

struct zt_merge {
    zt_ctx *ctx;
    const zt_recipe *recipe;
    zt_merge_parent *parents; /* [recipe->model_count] */
    zt_merge_opts options;
    zt_arena *arena;
    merge_job *jobs;
    zt_entry *entries;
    int64_t job_count;
    int64_t *layer_counts; /* [recipe->model_count] */
    int64_t child_layers;  /* number of layers of the child */
    bool restacked;        /* the child's layers are not exactly the first parent's */
    zt_netjson **frames;   /* [recipe->model_count] frame of each network; NULL: not a network */
    merge_vocab *vocab;    /* NULL: the models have the same tokens */
    zt_meta *meta;
    zt_pool *pool;
    double bytes_done, bytes_total; /* of the child */
};

zt_status zt_merge_plan(zt_merge *merge);
zt_status zt_merge_put_meta(zt_merge *merge);

/* The layer in a tensor's name: its first part that is a number ("blk.12.attn_q.weight"). The digits are at
 * name[*digits_at], *digit_count of them. -1: the tensor belongs to no layer. */
int64_t zt_merge_layer(const char *name, size_t *digits_at, size_t *digit_count);
/* The name of a GGUF tensor in Hugging Face's llama models, for filters; written to buffer. NULL: not known. */
const char *zt_merge_hf_name(const char *name, char *buffer, size_t size);

/* merge_vocab.c: the child's tokens, where the models' differ or the recipe names some. */
zt_status zt_merge_vocab_plan(zt_merge *merge);
void zt_merge_vocab_free(zt_merge *merge);
/* Which row the child's token has in a tensor of each source. ZT_EDATA: the recipe's source of a token does not have it. */
zt_status zt_merge_vocab_rows(const zt_merge *merge, const merge_job *job, merge_rows *rows);
/* The texts of a model's tokens; NULL: it has none. */
const zt_meta_item *zt_merge_token_list(const zt_merge *merge, int model);

/* merge_rows.c */
bool zt_merge_has_token_rows(const zt_merge *merge, const zt_entry *entry); /* may the models' tensors differ in rows? */
/* Sets job->rows, and the rows of the child's entry. */
zt_status zt_merge_plan_rows(zt_merge *merge, merge_job *job);
/* A source's tensor as the job reads it. */
zt_status zt_merge_source_entry(const zt_merge *merge, const merge_job *job, int source, zt_entry *entry);
zt_status zt_merge_read(const zt_merge *merge, const merge_job *job, int source, uint64_t offset, void *dst, size_t size);

/* merge_tokens.c: the child's tokenizer, in its metadata, which have the first parent's. */
zt_status zt_merge_put_tokenizer(zt_merge *merge);

/* ---- the work on one tensor ------------------------------------------------------------------ */

enum { MERGE_SOURCES = 64 };

struct merge_work {
    zt_merge *merge;
    const merge_job *job;
    const merge_values *values;
    zt_writer *writer;
    int source_count, base;    /* base: index of the base source, or -1 */
    int others[MERGE_SOURCES]; /* sources other than the base */
    int other_count;
    zt_type types[MERGE_SOURCES]; /* of a network's packed codes: their count is that of the weights */
    bool coded[MERGE_SOURCES];    /* codes of a network, read by net_weights[k] */
    zt_net_weights net_weights[MERGE_SOURCES];
    const char *names[MERGE_SOURCES];     /* name of the tensor in each source */
    int64_t element_count, columns, rows; /* columns: elements of a row */
    bool by_row;                          /* each piece is whole rows */
    bool single_thread;                   /* process pieces in order, by one thread */
    int64_t piece_size, piece_count;      /* elements of a piece; number of pieces */
    int64_t window_pieces, loaded_piece;  /* pieces of a window; first piece of the window in memory, or -1 */
    char *raw[MERGE_SOURCES];
    char *out;
    /* [piece_count] NULL: write the child. Else nothing is written, and each piece's largest magnitude is stored here,
     * or the sum of magnitudes where the scale is their mean. */
    double *magnitudes;
    float **buffers;     /* [threads] of 2 * source_count + 1 pieces each */
    zt_status *statuses; /* [window_pieces] */
};

/* One piece of all sources: elements [first, first + count).
 *   sources[k]  the values of source k
 *   deltas[k]   scratch of one piece for each source
 *   result      one piece, which becomes the child's in zt_merge_pass_out */
typedef struct merge_piece {
    const float *const *sources;
    float *const *deltas;
    float *result;
    int64_t index, first, count;
    int thread;
} merge_piece;
typedef void merge_piece_fn(merge_work *work, const merge_piece *piece, void *arg);

/* Calls visit on every piece, by all threads. */
zt_status zt_merge_pass(merge_work *work, merge_piece_fn *visit, void *arg);
/* The last pass: what visit leaves in piece->result is written to the child. */
zt_status zt_merge_pass_out(merge_work *work, merge_piece_fn *visit, void *arg);

zt_status zt_merge_begin(merge_work *work); /* sets sizes, allocates buffers */
void zt_merge_end(merge_work *work);

/* ---- ranks (merge_rank.c) --------------------------------------------------------------------- */

/* Keeps the values of ranks [first_rank, end_rank) of a list, ranked by magnitude, equal ones by position. The search finds
 * the magnitudes low and high of the first and the last; where more values than are kept have one of these magnitudes, the
 * first skip_low at low are dropped, and the first take_high at high are kept. */
typedef struct merge_range {
    int64_t first_rank, end_rank;
    float low, high;
    int64_t skip_low, take_high; /* numbers of values equal to the limit */
    bool some_low, some_high;    /* are some of the values at the limit dropped? */
    int64_t *equal;              /* [pieces][2] values at the limits in earlier pieces; NULL: not needed */
} merge_range;

/* Sets lists[i] to the values of list i in a piece; they may be in the piece's scratch. */
typedef void merge_list_fn(merge_work *work, const merge_piece *piece, const float **lists, void *arg);
/* Finds the magnitudes at the limits of `count` lists' ranges. The list of values has one entry for each range. */
zt_status zt_merge_rank_limits(merge_work *work, merge_range *ranges, int count, merge_list_fn *list_values, void *arg);
void zt_merge_free_ranges(merge_work *work, merge_range *ranges, int count);
/* Sets the values at a limit that are not kept to 0, by the magnitudes in `ranked`; others stay. */
void zt_merge_keep_range(const merge_range *range, const merge_piece *piece, const float *ranked, float *values);
/* The magnitudes at `count` ranks, ascending from 0, of one list. */
zt_status zt_merge_rank_values(merge_work *work, const int64_t *ranks, int count, merge_list_fn *list_values, void *arg,
                               float *values);

/* ---- networks (merge_net.c) ------------------------------------------------------------------- */

/* How the codes of a source are read for a job; false: the tensor holds numbers, not codes. */
bool zt_merge_net_codes(const zt_merge *merge, const merge_job *job, int source, zt_net_weights *out);
zt_status zt_merge_net_open(zt_merge *merge);
zt_status zt_merge_net_check(const zt_merge *merge, int model, int64_t tensor); /* ZT_ENOTSUP: it cannot be decoded */
/* A parent's tensor. The type of packed codes counts the weights. */
void zt_merge_net_entry(const zt_merge *merge, int model, int64_t tensor, zt_entry *entry);
/* Sets the scales of the child's codes, and its frame. */
zt_status zt_merge_net_finish(zt_merge *merge);
/* Computes a tensor by the method. magnitudes NULL: it is written; else they are stored there (merge_work). */
zt_status zt_merge_compute(zt_merge *merge, const merge_job *job, zt_writer *writer, double *magnitudes);
/* Is the scale of the job's codes the mean of the magnitudes? Else it follows from the largest. */
bool zt_merge_net_by_mean(const merge_job *job);

/* ---- methods --------------------------------------------------------------------------------- */

merge_run_fn zt_merge_linear, zt_merge_slerp, zt_merge_nuslerp, zt_merge_tasks, zt_merge_karcher, zt_merge_stock, zt_merge_scale,
    zt_merge_nearswap, zt_merge_masked, zt_merge_sce, zt_merge_multislerp, zt_merge_fusion, zt_merge_ram;

/* The inner loops; k: number of vectors x[i] of n floats. The same bits on every instruction set.
 *
 *     combine       y = sum c[i] x[i]
 *     combine_from  y = b + sum c[i] (x[i] - b)     keeps b where all are equal
 *     combine_on    y = b + sum c[i] d[i]
 *     subtract      d = x - b
 *     add           y += c x
 *     dot           sum x y
 *     dots          y[4 i + j] = the products of rows[i], of n floats, with x[j], j < 4
 *     keep          d where lo <= |d| <= hi, else 0
 *     consensus     y = b + scale * sum w[i] d[i] over those of the elected sign; normalize: divided by the sum of their w[i]
 *     nearswap      y = a moved towards b, by at most t
 */
typedef struct merge_loops {
    void (*combine)(float *y, const float *const *x, const float *c, int k, int64_t n);
    void (*combine_from)(float *y, const float *b, const float *const *x, const float *c, int k, int64_t n);
    void (*combine_on)(float *y, const float *b, float *const *d, const float *c, int k, int64_t n);
    void (*subtract)(float *d, const float *x, const float *b, int64_t n);
    void (*add)(float *y, const float *x, float c, int64_t n);
    double (*dot)(const float *x, const float *y, int64_t n);
    void (*dots)(float *y, const float *rows, int64_t row_count, const float *const *x, int64_t n);
    void (*keep)(float *d, float lo, float hi, int64_t n);
    void (*consensus)(float *y, const float *b, float *const *d, const float *w, int k, bool normalize, float scale, int64_t n);
    void (*nearswap)(float *y, const float *a, const float *b, float t, int64_t n);
} merge_loops;
extern const merge_loops zt_merge_loops_scalar, zt_merge_loops_avx2, zt_merge_loops_avx512, zt_merge_loops_neon,
    zt_merge_loops_dotprod;
const merge_loops *zt_merge_loops(void); /* those of this processor */

#endif
