/* perplexity.c - --perplexity: how well the model predicts a text.
 *
 * The method is that of llama.cpp's llama-perplexity (tools/perplexity):
 *
 *   - the tokens are cut into windows of --ctx tokens (512); the rest, too short for one, is left out
 *   - each window is run by itself, and begins with BOS where the model wants that
 *   - the second half of each window is scored
 */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <stdio.h>

#define WINDOW 512

static zt_status encode_text(run_state *run)
{
    const run_options *options = run->options;
    run->prompt_text = zt_read_all(run->ctx, options->perplexity, &run->prompt_bytes);
    if (!run->prompt_text || zt_foreign_text_fail(run->ctx, options->perplexity, run->prompt_text, run->prompt_bytes))
        return zt_ctx_status(run->ctx);
    return zt_vocab_encode(run->vocab, run->prompt_text, run->prompt_bytes, run_encode_flags(options), &run->ids);
}

static zt_status score_windows(run_state *run, int64_t window, zt_score *score)
{
    int64_t window_count = (int64_t)run->ids.count / window;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < window_count && status == ZT_OK; i++) {
        const int32_t *ids = zt_score_window(run->vocab, &run->ids, window, i);
        if (zt_cli_interrupted()) return ZT_EINTR;
        status = zt_llm_score(run->llm, ids, (size_t)window, (size_t)window / 2, score);
        zt_progress(run->cli,
                    &(zt_work){"perplexity", run->options->perplexity, "windows", (double)(i + 1), (double)window_count});
    }
    return status;
}

static zt_status print_score(run_state *run, const zt_score *score, int64_t window)
{
    char cell[5][32];
    double error, perplexity = zt_score_perplexity(score, &error);
    snprintf(cell[0], sizeof cell[0], "%.6f", perplexity);
    snprintf(cell[1], sizeof cell[1], "%.6f", error);
    snprintf(cell[2], sizeof cell[2], "%" PRId64, score->count);
    snprintf(cell[3], sizeof cell[3], "%" PRId64, (int64_t)run->ids.count / window);
    snprintf(cell[4], sizeof cell[4], "%" PRId64, window);
    zt_table *table =
        zt_table_new(run->cli, "perplexity", (const char *const[]){"#perplexity", "#error", "#tokens", "#windows", "#window"}, 5);
    if (!table) return zt_ctx_status(run->ctx);
    zt_status status = zt_table_row(table, (const char *const[]){cell[0], cell[1], cell[2], cell[3], cell[4]});
    if (status == ZT_OK) status = run_write_table(run, table);
    zt_table_free(table);
    return status;
}

zt_status run_perplexity(run_state *run)
{
    int64_t window = run->options->context_tokens ? run->options->context_tokens : WINDOW;
    zt_score score = {0};
    zt_status status = encode_text(run);
    if (status == ZT_OK) status = run_open_llm(run, window, false);
    if (status == ZT_OK && window > zt_llm_get(run->llm).ctx_len)
        window = zt_llm_get(run->llm).ctx_len; /* all that the model was trained for */
    if (status == ZT_OK && (int64_t)run->ids.count < window)
        status = zt_fail(run->ctx, ZT_EDATA, "%s: %zu tokens are too few for a window of %" PRId64 ": see --ctx",
                         run->options->perplexity, run->ids.count, window);
    if (status == ZT_OK) status = score_windows(run, window, &score);
    run->prompt_time = run->end_time = zt_seconds();
    return status == ZT_OK ? print_score(run, &score, window) : status;
}
