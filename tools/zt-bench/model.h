/* model.h - private to zt-bench model: a model that is open on an engine, and the tests that measure it. */
#ifndef ZT_BENCH_MODEL_H
#define ZT_BENCH_MODEL_H

#include "tools/zt-bench/bench.h"

/* `tokens` after `depth` others, as one prompt or one by one. */
typedef struct model_test {
    bool is_prompt;
    int64_t depth, tokens;
} model_test;

/* How a model is run. */
typedef struct model_variant {
    int64_t threads;
    int64_t chunk;      /* tokens of a prompt at a time; 0: the default */
    zt_dtype kv;        /* ZT_DTYPE_COUNT: the default */
    const char *engine; /* one name of --engine */
} model_variant;

/* A model on an engine of its own (subject.c). */
typedef struct model_subject {
    zt_cli *cli;
    const bench_options *options;
    zt_gguf *gguf;    /* borrowed */
    bench_list *list; /* borrowed: its results */
    model_variant variant;
    zt_engine *engine;
    zt_llm *llm;    /* NULL: not loaded */
    int32_t *ids;   /* [longest] */
    float *logits;  /* [vocabulary] */
    int64_t filled; /* a rewind to so many tokens leaves nothing to compute again; 0: unknown */
} model_subject;

/* Opens the engine, and says how much memory the model needs on it for a context of `longest` tokens. */
zt_status bench_subject_engine(model_subject *subject, int64_t longest, size_t *bytes);
/* Loads the weights, after bench_subject_engine. */
zt_status bench_subject_load(model_subject *subject, int64_t longest);
void bench_subject_close(model_subject *subject); /* the engine too; also of one that is not open */
/* Fills the context up to where the test begins. */
zt_status bench_subject_fill(model_subject *subject, const model_test *test);
/* Runs the test after bench_subject_fill. */
zt_status bench_subject_run(model_subject *subject, const model_test *test, double *seconds);

#endif
