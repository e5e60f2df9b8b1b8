/* merge.h - several models of one shape made into one, tensor by tensor.
 *
 * A recipe says how: a method by its name in mergekit, models, their parameters. It is read from
 * mergekit's YAML (the common part of its schema) or from the same as JSON. A merge is a recipe
 * over open models: it knows the child's tensors and metadata from the parents' headers alone, and
 * then makes one tensor after the other.
 *
 *     zt_recipe *r = zt_recipe_open(ctx, "recipe.yaml");
 *     zt_merge_parent p[zt_recipe_count(r)];            // opened by the caller, by zt_recipe_model
 *     zt_merge *m = zt_merge_new(ctx, r, p, &(zt_merge_opts){.threads = 2});
 *     zt_writer *w = zt_writer_open(ctx, "child.gguf", &o, zt_merge_meta(m), zt_merge_entries(m),
 *                                   zt_merge_count(m));
 *     zt_merge_write(m, w);
 *     zt_writer_commit(w);
 *
 * Parents may be of any type that zt decodes: values are computed in f32, sums over a tensor in
 * f64, and the child's tensor is of the type that the first parent's is (or the base's), unless the
 * recipe or zt_merge_retype says else. Of each parent at most a window of one tensor is in memory.
 * The child's bytes do not depend on the number of threads. Where all parents have the same values,
 * methods that leave such alone give those values to the bit.
 *
 * Methods: lib/dna/merge_methods.c names each one's paper; the formulas are mergekit 0.1.5's where
 * it says more than the paper does (https://github.com/arcee-ai/mergekit, as facts).
 */
#ifndef ZT_MERGE_H
#define ZT_MERGE_H

#include "lib/dna/adapted.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- methods --------------------------------------------------------------------------------- */

typedef struct zt_merge_method {
    const char *name;   /* "slerp" */
    const char *line;   /* what it does, in one line */
    const char *source; /* paper or web page */
} zt_merge_method;
const zt_merge_method *zt_merge_method_at(int index); /* NULL past the last */
const char *zt_merge_parameter(int index);            /* the name of a parameter, by mergekit's names; NULL past the last */
/* Does the method have the parameter? False: it has not, or one of the names is unknown. */
bool zt_merge_has_parameter(const char *method, const char *parameter);

/* ---- recipes --------------------------------------------------------------------------------- */

typedef struct zt_recipe zt_recipe;

/* From a file, or "-" for stdin. ZT_EDATA: a key that is not supported, with its line. ZT_ENOTSUP: YAML, where zt was
 * built without libyaml; JSON is always read. NULL: the error is in the context. */
zt_recipe *zt_recipe_open(zt_ctx *ctx, const char *path);
/* The same from text, which is copied; `name` is for messages. */
zt_recipe *zt_recipe_parse(zt_ctx *ctx, const char *name, const char *text, size_t length);
void zt_recipe_free(zt_recipe *recipe); /* after the merges that use it. NULL: no effect */

int zt_recipe_count(const zt_recipe *recipe);                    /* number of models, each counted once */
const char *zt_recipe_model(const zt_recipe *recipe, int index); /* as the recipe has it: "a.gguf", "a+lora" */
int zt_recipe_first(const zt_recipe *recipe); /* the model that gives types and metadata: the base, else the first */

/* ---- merging --------------------------------------------------------------------------------- */

typedef struct zt_merge_parent { /* borrowed until zt_merge_free */
    zt_checkpoint *model;        /* must be seekable; several parents may share one */
    const zt_adapted *adapted;   /* NULL, or the adapted model that `model` is the checkpoint of, opened with floats */
} zt_merge_parent;

typedef struct zt_merge_opts {
    int threads;        /* 0: one per processor */
    uint64_t seed;      /* for dare and della */
    bool (*stop)(void); /* polled; true ends the merge with ZT_EINTR; NULL: never */
    /* Called with bytes of the child done and in total, and the tensor at work; NULL: not called. */
    void (*progress)(void *user, const char *tensor, double done, double total);
    void *user;
} zt_merge_opts;

typedef struct zt_merge zt_merge;

/* Plans the merge and checks everything that does not need values. ZT_EDATA: the recipe does not fit its method or
 * models; ZT_ESHAPE: parents of different shapes; ZT_ENOTSUP: types that cannot be read or written. */
zt_merge *zt_merge_new(zt_ctx *ctx, const zt_recipe *recipe, const zt_merge_parent *parent, const zt_merge_opts *options);
void zt_merge_free(zt_merge *merge); /* before the parents. NULL: no effect */

int64_t zt_merge_count(const zt_merge *merge);           /* number of tensors of the child */
const zt_entry *zt_merge_entries(const zt_merge *merge); /* [count], for zt_writer_open; borrowed */
/* Sets the type of a tensor of the child: a float type that can be written. search: search for the codes of least error
 * instead of the format's rule (zt_quantizer.search). */
zt_status zt_merge_retype(zt_merge *merge, int64_t index, zt_dtype dtype, bool search);
/* ZT_ENOTSUP: a tensor has a type that can be read but not written; the message names the first. */
zt_status zt_merge_check(const zt_merge *merge);
bool zt_merge_copies(const zt_merge *merge, int64_t index); /* is the tensor copied without change? */
/* The child's metadata: the first parent's, the recipe's tokenizer, and its origin:
 *   zt.merge.method    the method's name
 *   zt.merge.recipe    the recipe's text
 *   zt.merge.parents   the models, as the recipe has them
 *   zt.merge.ids       zt_dna_id of each model
 * The caller may change it before the file is written. */
zt_meta *zt_merge_meta(zt_merge *merge);
/* Writes all tensors in the order of the entries. writer NULL: computes them without writing. */
zt_status zt_merge_write(zt_merge *merge, zt_writer *writer);

/* A model's identity: 32 hex digits, XXH3-128 of all tensors in the order of their names: name, dtype, shape, and the
 * first, middle and last 512 bytes. The same in every container. */
zt_status zt_dna_id(zt_ctx *ctx, zt_checkpoint *checkpoint, char id[33]);

#ifdef __cplusplus
}
#endif
#endif
