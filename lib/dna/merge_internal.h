/* merge_internal.h - private to lib/dna: what recipes, plans and the work on tensors share.
 *
 * Files: merge_methods.c the tables of methods and parameters; recipe.c recipes from documents;
 * merge_params.c a parameter's value for a tensor; merge_plan.c the child's tensors; merge_check.c what parents have in
 * common; merge_meta.c
 * its metadata; merge_net.c networks' codes; merge_write.c the way of a tensor; merge_pass.c passes
 * over its values; merge_coef.c methods that are linear combinations; merge_mask.c those that
 * choose among differences; isa/merge.c the loops.
 */
#ifndef ZT_MERGE_INTERNAL_H
#define ZT_MERGE_INTERNAL_H

#include "lib/dna/merge.h"
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
    MP_COUNT
} merge_param;

enum { RESCALE_NONE, RESCALE_L1, RESCALE_DENSITY }; /* values of MP_RESCALE */

typedef struct merge_param_info {
    const char *name;
    char kind; /* 'f' a number, 'i' a whole one, 'b' a switch, 'r' MP_RESCALE's */
    double least, most;
} merge_param_info;
extern const merge_param_info zt_merge_params[MP_COUNT];

#define MP_BIT(p) (1u << (p))

/* Which differences a method keeps. */
typedef enum merge_sparse {
    SPARSE_NONE,
    SPARSE_LARGEST, /* those of the largest magnitude */
    SPARSE_MIDDLE,  /* the same without outliers */
    SPARSE_RANDOM,
    SPARSE_RANKED /* at random, the larger with more chance */
} merge_sparse;

typedef struct merge_method merge_method;
typedef struct merge_work merge_work;

/* How a method is computed: one of these. */
typedef zt_status merge_run_fn(merge_work *w);

struct merge_method {
    zt_merge_method about;
    merge_run_fn *run;
    unsigned shared, each,
        others;        /* parameters of the tensor; of each source; of all but the base */
    unsigned required; /* of those, without default */
    int base;          /* 0 of no meaning, 1 may be, 2 must be */
    int least, most;   /* sources; most 0: any number */
    int least_others, most_others; /* those but the base; 0: any */
    merge_sparse sparse;
    bool consensus; /* only differences of the elected sign */
    bool normalize; /* default of MP_NORMALIZE */
    int rescale;    /* default of MP_RESCALE */
};
const merge_method *zt_merge_method_find(const char *name);

/* ---- recipes --------------------------------------------------------------------------------- */

typedef struct merge_cond { /* values where the filter is in the tensor's name */
    const char *filter;     /* NULL: everywhere */
    double *value;
    int n; /* 0: none */
} merge_cond;

typedef struct merge_setting {
    merge_param param;
    merge_cond *cond;
    int n;
} merge_setting;

typedef struct merge_scope {
    merge_setting *set;
    int n;
} merge_scope;

typedef struct merge_source {
    int model;
    int64_t from, to; /* layers; to -1: all that the model has */
    merge_scope scope;
    int line;
} merge_source;

typedef struct merge_slice {
    merge_source *source; /* the base among them, if there is one */
    int n, base;          /* its index, or -1 */
    merge_scope scope;
} merge_slice;

enum { TOKENS_OF_FIRST = -1, TOKENS_UNION = -2 };

struct zt_recipe {
    zt_ctx *ctx;
    zt_arena *arena;
    const char *name; /* of the file, for messages */
    const char *text; /* as it was read */
    size_t text_n;
    const merge_method *method;
    const char **model;
    int n_models, base; /* base: a model, or -1 */
    merge_slice *slice;
    int n_slices;
    merge_scope scope;
    zt_dtype dtype;            /* of the child; ZT_DTYPE_COUNT: as the parents have it */
    int tokens;                /* the model whose tokenizer it gets, or TOKENS_ */
    const char *chat_template; /* NULL: as it is */
};

/* What a tensor of the child is made with. */
typedef struct merge_values {
    double shared[MP_COUNT];
    double (*each)[MP_COUNT]; /* [sources] */
    unsigned has;             /* of the shared, and of each: those that are set or have a default */
    unsigned *has_each;
} merge_values;

/* Everything that the method has a use for; ZT_EDATA: something needed is not there, or makes no
 * sense. each and has_each have room for the slice's sources. `name`: the child's tensor;
 * `source_name`: as the k-th source calls it. t: where in the stack, 0..1. */
zt_status zt_merge_resolve(const zt_recipe *r, const merge_slice *slice, const char *name,
                           const char *const *source_name, double t, merge_values *out);

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct merge_job {
    zt_entry out; /* of the child; its type counts weights, also where they are packed */
    const merge_slice *slice;
    double t;
    int64_t order; /* of its place in the first source */
    int64_t *of;   /* [slice->n] index in each source's checkpoint */
    bool head;     /* of a source without one it is the embedding */
    bool copy;     /* bytes as they are, of source `from` */
    bool search;   /* codes of least error, whatever the format's own rule */
    bool coded;    /* of a network: codes, with the scale in `net` */
    zt_net_weights net;
    int from; /* whose type it has */
} merge_job;

struct zt_merge {
    zt_ctx *ctx;
    const zt_recipe *r;
    zt_merge_parent *parent; /* [r->n_models] */
    zt_merge_opts o;
    zt_arena *arena;
    merge_job *job;
    zt_entry *entry;
    int64_t n;
    int64_t *layers;  /* [r->n_models] */
    int64_t stack;    /* layers of the child */
    bool restacked;   /* they are not just the first parent's */
    zt_netjson **net; /* [r->n_models] frames of those that are networks; NULL: it is none */
    zt_meta *meta;
    zt_pool *pool;
    double done, all; /* bytes */
};

zt_status zt_merge_plan(zt_merge *m);
zt_status zt_merge_put_meta(zt_merge *m);

/* Architecture, heads, tokens. */
zt_status zt_merge_check_parents(const zt_merge *m);
/* Has a source of the slice tensors that its lead does not have? */
zt_status zt_merge_check_extra(const zt_merge *m, const merge_slice *slice, int lead);
/* The tensor of that name, or of a head that is not there the embedding's; -1. */
int64_t zt_merge_find(zt_checkpoint *c, const char *name);
int64_t zt_merge_head(zt_checkpoint *c);             /* -1: it has none beside its embedding */
const char *zt_merge_head_name(const zt_merge *m); /* of the first parent that has one; NULL */

/* The layer in a tensor's name, its first part that is a number ("blk.12.attn_q.weight"); *at and
 * *n: where its digits are. -1: it is of no layer. */
int64_t zt_merge_layer(const char *name, size_t *at, size_t *n);
/* The name that Hugging Face's models of llama's kind have for a GGUF's tensor, for filters. */
const char *zt_merge_hf_name(const char *name, char *buf, size_t n);

/* ---- the work on one tensor ------------------------------------------------------------------ */

enum { MERGE_SOURCES = 64 };

struct merge_work {
    zt_merge *m;
    const merge_job *job;
    const merge_values *v;
    zt_writer *w;
    int k, base;              /* sources; the base among them, or -1 */
    int other[MERGE_SOURCES]; /* those that are not the base */
    int n_others;
    zt_type in[MERGE_SOURCES]; /* of a network's packed codes: as many as there are weights */
    bool coded[MERGE_SOURCES]; /* codes of a network, read by: */
    zt_net_weights codes[MERGE_SOURCES];
    const char *name[MERGE_SOURCES]; /* of the tensor in each */
    int64_t n, columns, rows;        /* elements; of a row; rows */
    bool by_row;                     /* pieces are whole rows */
    bool alone;                      /* one thread, pieces in order */
    int64_t piece, pieces;           /* elements of a piece, and how many there are */
    int64_t window, loaded; /* pieces of a window; the first piece of the one in memory, or -1 */
    char *raw[MERGE_SOURCES];
    char *out;
    /* [pieces] of the magnitudes the largest or, where a scale is their mean, the sum: these are
     * wanted, nothing is written; NULL: the child is. */
    double *sizes;
    float **x;   /* [threads] of 2 k + 1 pieces */
    zt_status *status; /* [window] */
};

/* One piece of all sources: x[k] of n elements from `first` on; d: k pieces of room, y: one. */
typedef struct merge_piece {
    const float *const *x;
    float *const *d;
    float *y;
    int64_t index, first, n;
    int thread;
} merge_piece;
typedef void merge_piece_fn(merge_work *w, const merge_piece *p, void *arg);

/* fn on every piece, by all threads. */
zt_status zt_merge_pass(merge_work *w, merge_piece_fn *fn, void *arg);
/* The last: what fn leaves in y is the child's. */
zt_status zt_merge_pass_out(merge_work *w, merge_piece_fn *fn, void *arg);

zt_status zt_merge_begin(merge_work *w); /* room for it */
void zt_merge_end(merge_work *w);

/* Networks, merge_net.c. The codes that source k has for a job; false: they are numbers. */
bool zt_merge_net_codes(const zt_merge *m, const merge_job *j, int k, zt_net_weights *out);
zt_status zt_merge_net_open(zt_merge *m);
zt_status zt_merge_net_check(const zt_merge *m, int model, int64_t tensor); /* can it be read? */
/* A parent's tensor; packed codes of a network have as many elements as there are weights. */
void zt_merge_net_entry(const zt_merge *m, int model, int64_t tensor, zt_entry *e);
/* The scales of the child's codes, and its frame. */
zt_status zt_merge_net_finish(zt_merge *m);
/* The j-th tensor by the method, to be written (sizes NULL) or measured. */
zt_status zt_merge_make(zt_merge *m, const merge_job *j, zt_writer *out, double *sizes);
/* Is the scale of the job's codes the mean of its magnitudes? Else it is by the largest. */
bool zt_merge_net_by_mean(const merge_job *j);

/* ---- methods --------------------------------------------------------------------------------- */

merge_run_fn zt_merge_linear, zt_merge_slerp, zt_merge_nuslerp, zt_merge_tasks, zt_merge_karcher,
    zt_merge_stock, zt_merge_scale, zt_merge_nearswap, zt_merge_masked, zt_merge_sce;

/* y = sum c[i] x[i]; and y = b + sum c[i] (x[i] - b), which keeps b where all are equal. The same
 * bits on every instruction set. */
typedef struct merge_loops {
    void (*combine)(float *y, const float *const *x, const float *c, int k, int64_t n);
    void (*combine_from)(float *y, const float *b, const float *const *x, const float *c, int k,
                         int64_t n);
    /* y = b + sum c[i] d[i] */
    void (*combine_on)(float *y, const float *b, float *const *d, const float *c, int k, int64_t n);
    void (*subtract)(float *d, const float *x, const float *b, int64_t n);
    void (*add)(float *y, const float *x, float c, int64_t n); /* y += c x */
    double (*dot)(const float *x, const float *y, int64_t n);
    /* d where lo <= |d| <= hi, else 0 */
    void (*keep)(float *d, float lo, float hi, int64_t n);
    /* y = b + scale * (sum of w[i] d[i] of the elected sign), over the sum of their w if normalize
     */
    void (*consensus)(float *y, const float *b, float *const *d, const float *w, int k,
                      bool normalize, float scale, int64_t n);
    void (*nearswap)(float *y, const float *a, const float *b, float t, int64_t n);
} merge_loops;
extern const merge_loops zt_merge_loops_scalar, zt_merge_loops_avx2, zt_merge_loops_avx512;
const merge_loops *zt_merge_loops(void); /* merge_coef.c: of this processor */

#endif
