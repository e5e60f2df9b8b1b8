/* zt-run - run a model: text in, text out. */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"

#include <unistd.h>

static zt_status with_output(run *r, zt_status (*job)(run *r))
{
    if (r->cli->output) {
        r->sink = zt_sink_open(r->ctx, r->cli->output, r->cli->force);
        if (!r->sink)
            return zt_ctx_status(r->ctx);
    }
    r->terminal = !r->sink && isatty(STDOUT_FILENO);
    zt_status s = job(r);
    /* What was written before an interrupt stays valid. */
    if (r->sink && (s == ZT_OK || s == ZT_EINTR)) {
        zt_status c = zt_sink_commit(r->sink);
        s = c == ZT_OK ? s : c;
    }
    zt_sink_close(r->sink);
    r->sink = NULL;
    return s;
}

static zt_status work(run *r)
{
    const run_options *o = r->o;
    int mode = zt_cli_mode(r->cli, RUN_TEXT);
    bool program = mode >= 0 && run_is_program(r->cli, o->model);
    if (program)
        mode = zt_cli_is_network(r->cli, o->model) ? RUN_NETWORK : RUN_PROGRAM;
    zt_status s = mode < 0 ? ZT_EUSAGE : zt_cli_enter(r->cli, mode);
    if (s == ZT_OK && program)
        return run_program(r);
    if (s == ZT_OK)
        s = run_options_check(r->cli, o);
    if (s != ZT_OK)
        return s;
    const bool vocabulary = o->tokenize || o->detokenize || o->count || o->render;
    r->gguf = (vocabulary ? zt_model_open_vocabulary : zt_model_open)(r->ctx, o->model);
    if (!r->gguf)
        return zt_ctx_status(r->ctx);
    s = run_adapt(r);
    if (s != ZT_OK)
        return s;
    if (o->dry_run)
        return with_output(r, run_dry);
    if (!o->perplexity && !o->chat && !o->jsonl)
        s = run_read_prompt(r);
    if (s == ZT_OK)
        r->vocab = zt_vocab_open_pre(r->gguf, o->pre);
    if (!r->vocab)
        return zt_ctx_status(r->ctx);
    return with_output(r, o->tokenize     ? run_tokenize
                          : o->detokenize ? run_detokenize
                          : o->count      ? run_count
                          : o->render     ? run_render
                          : o->perplexity ? run_perplexity
                          : o->chat       ? run_chat
                          : o->jsonl      ? run_jsonl
                          : o->embed      ? run_embed
                                          : run_generate);
}

int main(int argc, char **argv)
{
    double start = zt_seconds();
    run_options *o = run_options_init();
    zt_cli *cli = zt_cli_open(&run_tool, argc, argv);
    run r = {.cli = cli, .ctx = cli->ctx, .o = o, .start = start};
    zt_str *const strings[] = {&r.held, &r.shown, &r.text, &r.logprobs, &r.likeliest};
    for (int i = 0; i < 5; i++)
        zt_str_init(strings[i], r.ctx);
    r.templates = run_templates_new(&r);
    zt_status s = r.templates ? work(&r) : ZT_ENOMEM;
    for (int i = 0; i < 5; i++)
        zt_str_fini(strings[i]);
    zt_ids_fini(r.ctx, &r.ids);
    zt_ids_fini(r.ctx, &r.fed);
    zt_ids_fini(r.ctx, &r.ends);
    zt_free(r.ctx, r.logits);
    zt_free(r.ctx, r.scratch);
    zt_drafts_free(r.drafts);
    run_templates_free(&r);
    zt_llm_close(r.llm);
    zt_plan_file_free(r.plan);
    zt_engine_close(r.engine);
    zt_free(r.ctx, r.times);
    zt_vocab_free(r.vocab);
    zt_free(r.ctx, r.input);
    zt_gguf_close(r.gguf);
    run_unadapt(&r);
    return zt_cli_close(cli, s);
}
