/* zt-run - run a model: text in, text out. */
#include "tools/common/subject.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <string.h>

static zt_status run_with_output(run_state *run, zt_status (*job)(run_state *run))
{
    if (run->cli->output) {
        run->sink = zt_sink_open(run->ctx, run->cli->output, run->cli->force);
        if (!run->sink) return zt_ctx_status(run->ctx);
    }
    run->terminal = !run->sink && zt_cli_on_terminal();
    zt_status status = job(run);
    /* What was written before an interrupt is kept. */
    if (run->sink && (status == ZT_OK || status == ZT_EINTR)) {
        zt_status commit_status = zt_sink_commit(run->sink);
        status = commit_status == ZT_OK ? status : commit_status;
    }
    zt_sink_close(run->sink);
    run->sink = NULL;
    return status;
}

/* Operands are the texts after the first of --choices. */
static zt_status refuse_operand(run_state *run)
{
    char shown[128];
    const char *operand = run->cli->operands[0];
    return zt_fail(run->ctx, ZT_EUSAGE, "unexpected argument '%s'", zt_escape(shown, sizeof shown, operand, strlen(operand)));
}

/* ---- several ranks ---------------------------------------------------------------------------- */

/* What needs all of the model, or its states, in one process. */
static zt_status refuse_on_ranks(run_state *run, bool program)
{
    const run_options *options = run->options;
    const struct {
        bool given;
        const char *name;
    } alone[] = {{program, "a network or program"},
                 {options->tokenize, "--tokenize"},
                 {options->detokenize, "--detokenize"},
                 {options->count, "--count"},
                 {options->render, "--render"},
                 {options->dry_run, "--dry-run"},
                 {options->chat, "--chat"},
                 {options->serve != NULL, "--serve"},
                 {options->session != NULL, "--session"},
                 {options->plan != NULL, "--plan"},
                 {run_head_drafts(options), "--draft mtp"},
                 {options->kv_store != NULL, "--kv-store"}};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (alone[i].given) return zt_cli_refuse_ranks(run->cli, alone[i].name);
    return ZT_OK;
}

/* Ranks that compute otherwise would change the bits. */
static zt_status compare_engines(run_state *run)
{
    char text[128];
    zt_cli *cli = run->cli;
    snprintf(text, sizeof text, "%s %s %d %" PRId64, zt_engine_inmost(run->engine)->vt->name, zt_isa_name(cli->isa), cli->compute,
             cli->tile);
    return zt_ranks_agree(cli->ranks, "the engine, instruction set or their options", text, strlen(text));
}

/* Another rank than 0 computes layers of the models that rank 0 opens. */
static zt_status run_work(run_state *run)
{
    zt_llm_opts opts = run_llm_opts(run);
    opts.engine = run->engine;
    opts.ranks = run->cli->ranks;
    return zt_llm_work(run->gguf, &opts);
}

static zt_status join_ranks(run_state *run)
{
    if (!run->cli->ranks) return ZT_OK;
    zt_status status = run_open_engine(run);
    return status ? status : compare_engines(run);
}

/* ---- one ---------------------------------------------------------------------------------------- */

static zt_status run_mode(run_state *run)
{
    const run_options *options = run->options;
    if (run->cli->n_operands && !options->choices.n) return refuse_operand(run);
    int mode = zt_cli_mode(run->cli, RUN_TEXT);
    bool network = mode >= 0 && options->tokenizer;
    if (network && !zt_cli_is_network(run->cli, options->model))
        return zt_fail(run->ctx, ZT_EUSAGE,
                       "option '--tokenizer' does not apply to a model that has its own; it applies to a network in JSON");
    bool program = mode >= 0 && !network && run_is_program(run->cli, options->model);
    if (program) mode = zt_cli_is_network(run->cli, options->model) ? RUN_NETWORK : RUN_PROGRAM;
    zt_status status = mode < 0 ? ZT_EUSAGE : zt_cli_enter(run->cli, mode);
    if (status == ZT_OK) status = refuse_on_ranks(run, program);
    if (status == ZT_OK && !program) status = zt_cli_join(run->cli);
    if (status == ZT_OK && program) return run_program(run);
    if (status == ZT_OK) status = run_options_check(run->cli, options);
    if (status != ZT_OK) return status;
    const bool vocabulary = options->tokenize || options->detokenize || options->count || options->render;
    run->gguf =
        network ? run_open_network_model(run) : (vocabulary ? zt_model_open_vocabulary : zt_model_open)(run->ctx, options->model);
    if (!run->gguf) return zt_ctx_status(run->ctx);
    status = run_apply_adapters(run);
    if (status == ZT_OK) status = run_read_forward(run);
    if (status == ZT_OK) status = run_draft_read(run);
    if (status == ZT_OK) status = join_ranks(run);
    if (status != ZT_OK) return status;
    if (zt_ranks_own(run->cli->ranks)) return run_work(run);
    if (options->dry_run) return run_with_output(run, run_dry);
    if (!options->perplexity && !options->verify && !options->chat && !run_takes_requests(options)) status = run_read_prompt(run);
    if (status == ZT_OK) run->vocab = zt_vocab_open_pre(run->gguf, options->pre_tokenizer);
    if (!run->vocab) return zt_ctx_status(run->ctx);
    return run_with_output(run, options->tokenize     ? run_tokenize
                                : options->detokenize ? run_detokenize
                                : options->count      ? run_count
                                : options->render     ? run_render
                                : options->perplexity ? run_perplexity
                                : options->verify     ? run_verify
                                : options->chat       ? run_chat
                                : options->jsonl      ? run_jsonl
                                : options->serve      ? run_serve
                                : options->embed      ? run_embed
                                                      : run_generate);
}

int main(int argc, char **argv)
{
    double start = zt_seconds();
    run_options *options = run_options_init();
    zt_cli *cli = zt_cli_open(&run_tool, argc, argv);
    run_state run = {.cli = cli, .ctx = cli->ctx, .options = options, .start_time = start};
    zt_str *const strings[] = {&run.held_text, &run.held_shown, &run.answer_text, &run.logprobs, &run.likeliest};
    for (int i = 0; i < 5; i++) zt_str_init(strings[i], run.ctx);
    run.templates = run_templates_new(&run);
    run.grammars = run_grammars_new(&run);
    zt_status status = run.templates && run.grammars ? run_mode(&run) : ZT_ENOMEM;
    run_release(&run);
    json_decref(run.receipt_form);
    run_grammars_free(&run);
    for (int i = 0; i < 5; i++) zt_str_fini(strings[i]);
    zt_ids_fini(run.ctx, &run.ids);
    zt_ids_fini(run.ctx, &run.fed_ids);
    zt_ids_fini(run.ctx, &run.end_ids);
    zt_free(run.ctx, run.logits);
    zt_free(run.ctx, run.scratch);
    zt_drafts_free(run.drafts);
    run_reply_free(&run);
    run_templates_free(&run);
    run_kv_store_close(&run);
    run_draft_close(&run);
    zt_llm_close(run.llm);
    if (status == ZT_OK) status = zt_llm_dismiss(cli->ranks);
    zt_plan_file_free(run.plan);
    zt_prog_free(run.forward);
    zt_engine_close(run.engine);
    zt_free(run.ctx, run.times);
    zt_vocab_free(run.vocab);
    zt_free(run.ctx, run.prompt_text);
    zt_gguf_close(run.gguf);
    run_close_adapters(&run);
    return zt_cli_close(cli, status);
}
