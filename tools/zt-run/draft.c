/* draft.c - speculative decoding: where drafts come from, and the model of --draft, or the model's own head.
 *
 * Of --speculate and --draft together, the text itself is looked up first: that costs nothing. Only where nothing is found
 * the model drafts.
 */
#include "lib/llm/draft_model.h"
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <string.h>

struct run_draft {
    zt_gguf *gguf;   /* NULL: the model's, whose head drafts */
    zt_vocab *vocab; /* the same */
    zt_llm *llm;
    zt_draft_model *drafts;
};

/* The model's own context, or less; behind the text there is room for what is drafted. */
enum { DRAFT_MARGIN = 64 };

void run_draft_close(run_state *run)
{
    struct run_draft *draft = run->draft;
    if (!draft) return;
    zt_draft_model_free(draft->drafts);
    zt_llm_close(draft->llm);
    zt_vocab_free(draft->vocab);
    zt_gguf_close(draft->gguf);
    zt_free(run->ctx, draft);
    run->draft = NULL;
}

bool run_head_drafts(const run_options *options) { return options->draft && strcmp(options->draft, "mtp") == 0; }

zt_status run_draft_read(run_state *run)
{
    if (!run->options->draft) return ZT_OK;
    run->draft = zt_calloc(run->ctx, 1, sizeof *run->draft);
    if (!run->draft) return ZT_ENOMEM;
    if (run_head_drafts(run->options)) return ZT_OK;
    run->draft->gguf = zt_model_open(run->ctx, run->options->draft);
    if (run->draft->gguf) run->draft->vocab = zt_vocab_open(run->draft->gguf);
    return run->draft->vocab ? ZT_OK : zt_ctx_status(run->ctx);
}

static zt_gguf *draft_file(const run_state *run) { return run->draft->gguf ? run->draft->gguf : run->gguf; }

/* How the draft model is opened for texts of so many tokens. Its activations are quantized also under --exact: what it
 * computes does not change the text. */
static zt_status draft_opts(run_state *run, int64_t context, zt_llm_opts *opts)
{
    zt_llm_info info;
    *opts = (zt_llm_opts){.engine = run->engine, .chunk = run->options->chunk, .kv = ZT_DTYPE_COUNT, .strict = run->cli->strict};
    opts->head = run_head_drafts(run->options);
    opts->lender = opts->head ? run->llm : NULL;
    zt_status status = zt_llm_plan(draft_file(run), opts, &info);
    opts->ctx_len = context + DRAFT_MARGIN;
    if (status == ZT_OK && info.ctx_train > 0 && opts->ctx_len > info.ctx_train) opts->ctx_len = info.ctx_train;
    return status;
}

zt_status run_draft_plan(run_state *run, int64_t context, zt_llm_info *info)
{
    zt_llm_opts opts;
    zt_status status = draft_opts(run, context, &opts);
    return status == ZT_OK ? zt_llm_plan(draft_file(run), &opts, info) : status;
}

zt_status run_draft_open(run_state *run, int64_t max_tokens)
{
    struct run_draft *draft = run->draft;
    zt_llm_opts opts;
    zt_llm_info info = zt_llm_get(run->llm);
    if (!draft) return ZT_OK;
    int64_t context = max_tokens > 0 && max_tokens < info.ctx_len ? max_tokens : info.ctx_len;
    zt_status status = draft_opts(run, context, &opts);
    if (status != ZT_OK) return status;
    draft->llm = zt_llm_open(draft_file(run), &opts);
    if (draft->llm)
        draft->drafts = zt_draft_model_open(&(zt_draft_model_opts){.model = draft->llm,
                                                                   .head_of = opts.lender,
                                                                   .model_vocab = draft->vocab ? draft->vocab : run->vocab,
                                                                   .vocab = run->vocab,
                                                                   .vocab_rows = info.vocab,
                                                                   .length = run->options->draft_tokens});
    if (!draft->drafts) return zt_ctx_status(run->ctx);
    if (opts.head) {
        zt_log(run->ctx, ZT_LOG_INFO, "%s: %s multi-token-prediction head drafts", zt_gguf_name(run->gguf),
               info.heads == 1 ? "its" : "the first");
        return ZT_OK;
    }
    zt_log(run->ctx, ZT_LOG_INFO, "%s drafts for %s: %s", zt_gguf_name(draft->gguf), zt_gguf_name(run->gguf),
           zt_draft_model_maps(draft->drafts) ? "the same tokens" : "another vocabulary, drafts are converted by their text");
    return ZT_OK;
}

bool run_drafts(const run_state *run) { return run->drafts || run->draft; }

size_t run_next_draft(run_state *run, size_t limit, const int32_t **draft)
{
    size_t count = 0;
    *draft = run->next_ids;
    if (run_receipt_is_verified(run)) return run_receipt_draft(run, limit, draft);
    if (run->drafts) count = zt_drafts_next(run->drafts, run->ids.id, run->ids.count, limit, draft);
    if (count || !run->draft || zt_ctx_status(run->ctx) != ZT_OK) return count;
    zt_sampler sampler = run->options->sampler;
    sampler.seed = run->seed;
    return zt_draft_model_next(run->draft->drafts, run->ids.id, run->ids.count, limit, &sampler, draft);
}

void run_draft_took(run_state *run, size_t rows, double seconds)
{
    if (run->drafts) zt_drafts_took(run->drafts, rows, seconds);
    if (run->draft) zt_draft_model_took(run->draft->drafts, rows, seconds);
}
