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
    const char *line;   /* what it does */
    const char *source; /* paper or page */
} zt_merge_method;
const zt_merge_method *zt_merge_method_at(int i); /* NULL past the last */

/* ---- recipes --------------------------------------------------------------------------------- */

typedef struct zt_recipe zt_recipe;

/* Of a file, or "-". What the schema's common part does not have is ZT_EDATA, one line that names
 * key and line. Without libyaml JSON alone is read, else ZT_ENOTSUP. */
zt_recipe *zt_recipe_open(zt_ctx *ctx, const char *path);
/* The same from n bytes of text, which are not needed afterwards; `name` is for messages. */
zt_recipe *zt_recipe_parse(zt_ctx *ctx, const char *name, const char *text, size_t n);
void zt_recipe_free(zt_recipe *r); /* after merges of it. NULL: nothing */

int zt_recipe_count(const zt_recipe *r);                /* of models; each is named once */
const char *zt_recipe_model(const zt_recipe *r, int i); /* as it is written: "a.gguf", "a+lora" */
int zt_recipe_first(const zt_recipe *r); /* whose types and metadata the child has: the base, else
                                            the first */

/* ---- merging --------------------------------------------------------------------------------- */

typedef struct zt_merge_parent { /* all borrowed until zt_merge_free */
    zt_checkpoint *model; /* one that can be read anywhere; several parents may be of one */
    const zt_adapted *adapted; /* whose checkpoint it is, as floats; NULL: a model as it is */
} zt_merge_parent;

typedef struct zt_merge_opts {
    int threads;        /* 0: as many as there are processors */
    uint64_t seed;      /* of dare and della */
    bool (*stop)(void); /* asked now and then: ZT_EINTR when it says so; NULL: never */
    /* Bytes of the child, and which tensor they are of; NULL: nobody asks. */
    void (*progress)(void *user, const char *tensor, double done, double all);
    void *user;
} zt_merge_opts;

typedef struct zt_merge zt_merge;

/* What can be found wrong without a look at values is found here: ZT_EDATA for a recipe that does
 * not fit its method or models, ZT_ESHAPE for parents of different shapes, ZT_ENOTSUP for types
 * that cannot be read or written. */
zt_merge *zt_merge_new(zt_ctx *ctx, const zt_recipe *r, const zt_merge_parent *parent,
                       const zt_merge_opts *o);
void zt_merge_free(zt_merge *m); /* before the parents. NULL: nothing */

int64_t zt_merge_count(const zt_merge *m); /* tensors of the child */
const zt_entry *zt_merge_entries(const zt_merge *m); /* [count], for zt_writer_open; borrowed */
/* Tensor i's type in the child: of floats that can be written. search: the codes of least error,
 * also where the format has a rule of its own (zt_quantizer.search). */
zt_status zt_merge_retype(zt_merge *m, int64_t i, zt_dtype t, bool search);
/* Can all of it be written? ZT_ENOTSUP, naming the first tensor whose type is only read. */
zt_status zt_merge_check(const zt_merge *m);
bool zt_merge_copies(const zt_merge *m, int64_t i); /* it goes over as it is: no floats */
/* The child's: the first parent's, the tokenizer that the recipe asks for, and where it comes from:
 *   zt.merge.method    its name
 *   zt.merge.recipe    the recipe's text
 *   zt.merge.parents   the models as the recipe has them
 *   zt.merge.ids       zt_dna_id of each
 * May be changed. */
zt_meta *zt_merge_meta(zt_merge *m);
/* All tensors' bytes in the order of the entries; w NULL: computed, and not kept. */
zt_status zt_merge_write(zt_merge *m, zt_writer *w);

/* 32 hex digits: XXH3-128 of all tensors' names, dtypes and shapes in the order of names, and of a
 * sample of each one's bytes (of its first, middle and last 512). The same in every container. */
zt_status zt_dna_id(zt_ctx *ctx, zt_checkpoint *c, char id[33]);

#ifdef __cplusplus
}
#endif
#endif
