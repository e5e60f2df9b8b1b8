/* subject.c - a model on an engine, as zt-bench model measures it.
 *
 * The tokens are drawn from a fixed seed: their values do not matter to the time, and sampling is not measured. Each position
 * always has the same token, so that what a test leaves in the cache serves the next one.
 */
#include "tools/zt-bench/model.h"

#include <stdio.h>

/* ---- open and close --------------------------------------------------------------------------- */

static zt_llm_opts options_of(const model_subject *subject, int64_t longest)
{
    return (zt_llm_opts){.engine = subject->engine,
                         .ctx_len = longest,
                         .chunk = subject->variant.chunk,
                         .exact = subject->options->exact,
                         .kv = subject->variant.kv,
                         .strict = subject->cli->strict};
}

zt_status bench_subject_engine(model_subject *subject, int64_t longest, size_t *bytes)
{
    zt_cli *cli = subject->cli;
    zt_llm_info info;
    zt_llm_opts llm_options = options_of(subject, longest);
    cli->engine = subject->variant.engine; /* of a list, the one that is opened */
    zt_binding bindings[] = {{"n", 1}, {"m", 1}, {"ctx", (longest / ZT_LLM_BLOCK + 1) * ZT_LLM_BLOCK}};
    zt_prog *program = zt_cli_may_choose(cli) ? zt_llm_program(subject->gguf, &llm_options) : NULL;
    if (!program) zt_ctx_clear(cli->ctx); /* zt_llm_plan reports what is wrong */
    llm_options.engine = subject->engine = zt_cli_engine_for(cli, subject->variant.threads, program, bindings, 3);
    zt_prog_free(program);
    zt_status status = subject->engine ? zt_llm_plan(subject->gguf, &llm_options, &info) : zt_ctx_status(cli->ctx);
    if (!status) *bytes = info.weight_bytes + info.kv_bytes + info.recurrent_bytes + info.scratch_bytes;
    return status;
}

static zt_status make_inputs(model_subject *subject, int64_t longest)
{
    zt_ctx *ctx = subject->cli->ctx;
    int64_t vocab = zt_llm_get(subject->llm).vocab;
    subject->ids = zt_alloc_array(ctx, (size_t)longest, sizeof *subject->ids);
    subject->logits = zt_alloc_array(ctx, (size_t)vocab, sizeof *subject->logits);
    if (!subject->ids || !subject->logits) return zt_ctx_status(ctx);
    for (int64_t i = 0; i < longest; i++) subject->ids[i] = (int32_t)(zt_uniform(1, 0, (uint64_t)i) * (double)vocab);
    return ZT_OK;
}

zt_status bench_subject_load(model_subject *subject, int64_t longest)
{
    zt_llm_opts llm_options = options_of(subject, longest);
    subject->llm = zt_llm_open(subject->gguf, &llm_options);
    if (!subject->llm) return zt_ctx_status(subject->cli->ctx);
    snprintf(subject->list->engine, sizeof subject->list->engine, "%s", subject->engine->vt->name);
    return make_inputs(subject, longest);
}

void bench_subject_close(model_subject *subject)
{
    zt_free(subject->cli->ctx, subject->ids);
    zt_free(subject->cli->ctx, subject->logits);
    zt_llm_close(subject->llm);
    zt_engine_close(subject->engine);
    subject->ids = NULL;
    subject->logits = NULL;
    subject->llm = NULL;
    subject->engine = NULL;
    subject->filled = 0;
}

/* ---- tests ------------------------------------------------------------------------------------ */

/* Tokens in the context before time is taken: a token is generated after another one. */
static int64_t tokens_before(const model_test *test) { return test->is_prompt || test->depth > 0 ? test->depth : 1; }

/* Feeds what is missing of the first `count` tokens. */
static zt_status feed_until(model_subject *subject, int64_t count)
{
    int64_t position = zt_llm_position(subject->llm);
    return zt_llm_feed(subject->llm, subject->ids + position, (size_t)(count - position), false, subject->logits);
}

/* Leaves the first tokens in the context, and the states of recurrent layers behind them. These cannot be rewound, but the
 * one before the last token of a prompt is kept, until another prompt comes. So a prompt of two tokens comes last, and one is
 * dropped: the test does not compute the context again. */
zt_status bench_subject_fill(model_subject *subject, const model_test *test)
{
    const int64_t count = tokens_before(test);
    int64_t position = zt_llm_position(subject->llm), before = count > 0 ? count - 1 : 0;
    if (count == 0 || (count == subject->filled && position >= count)) return zt_llm_rewind(subject->llm, count);
    zt_status status = position > before ? zt_llm_rewind(subject->llm, before) : feed_until(subject, before);
    if (!status) status = feed_until(subject, count + 1);
    if (!status) status = zt_llm_rewind(subject->llm, count);
    subject->filled = status ? 0 : count;
    return status;
}

zt_status bench_subject_run(model_subject *subject, const model_test *test, double *seconds)
{
    const int64_t before = tokens_before(test), step = test->is_prompt ? test->tokens : 1;
    zt_status status = ZT_OK;
    double start = zt_seconds();
    for (int64_t i = 0; i < test->tokens && status == ZT_OK; i += step)
        status = zt_llm_feed(subject->llm, subject->ids + before + i, (size_t)step, false, subject->logits);
    *seconds = zt_seconds() - start;
    if (test->is_prompt) subject->filled = 0;
    return status;
}
