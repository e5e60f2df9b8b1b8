/* run.h - private to zt-run: its options, and one request on its way from prompt to report. */
#ifndef ZT_RUN_TOOL_H
#define ZT_RUN_TOOL_H

#include "tools/common/cli.h"

/* ---- options (options.c) --------------------------------------------------------------------- */

typedef struct run_options {
    const char *model, *prompt, *input, *system;
    int64_t n; /* -1: until the text ends or the context is full */
    bool raw, bos, no_bos, special, ids, tokenize, detokenize, count;
    zt_sampler sampler; /* its seed is the shared --seed */
    const char *logits;
    bool all_logits, exact, ignore_eos, json, stats, dry_run;
    int64_t chunk, ctx;
    int kv; /* index into f16|f32; -1: the default */
    zt_opt_list stop;
    const char *eos; /* "2,7": instead of the model's own; NULL: not given */
} run_options;

extern const zt_tool run_tool;
run_options *run_options_init(void); /* with defaults, before the command line is read */
zt_status run_options_check(zt_cli *cli, const run_options *o);
zt_llm_opts run_llm_opts(const zt_cli *cli, const run_options *o);

/* ---- one request ----------------------------------------------------------------------------- */

typedef struct run {
    zt_cli *cli;
    zt_ctx *ctx;
    const run_options *o;
    double start; /* when the process began, as zt_seconds has it */
    zt_gguf *gguf;
    zt_vocab *vocab;
    char *input; /* the prompt's text, input_bytes of it */
    size_t input_bytes;
    zt_sink *sink; /* of --output; NULL: stdout */
    zt_engine *engine;
    zt_llm *llm;
    zt_ids ids;      /* the prompt, then what was generated */
    size_t n_prompt; /* how many of them are the prompt */
    zt_str text;     /* what was generated, for --json */
    const char *stop; /* why generation ended: "eos" "stop" "length" "ctx" */
    double loaded, prompted, first, ended; /* when, as zt_seconds */
} run;

/* Data goes to --output, or to stdout at once. */
zt_status run_write(run *r, const void *bytes, size_t n);

/* prompt.c: the text, whole, from the one place that the options name; then its ids into r->ids. */
zt_status run_read_prompt(run *r);
zt_status run_encode_prompt(run *r);

/* tokens.c: the three that need only the vocabulary. */
zt_status run_tokenize(run *r);
zt_status run_detokenize(run *r);
zt_status run_count(run *r);

/* generate.c: the prompt through the model, logits out, then token after token. */
zt_status run_generate(run *r);

/* report.c */
zt_status run_report_json(run *r);
void run_report_stats(run *r);
zt_status run_dry(run *r);

#endif
