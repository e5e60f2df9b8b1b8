/* perplexity.c - --perplexity: how well the model foresees a text.
 *
 * As llama.cpp's llama-perplexity does it (tools/perplexity, as facts): the text's tokens in
 * windows of --ctx (512), each by itself and beginning with BOS where the model wants that; of each
 * window the second half is scored; a rest too short for a window is left out.
 */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <stdio.h>

#define WINDOW 512

static zt_status encode_text(run *r)
{
    const run_options *o = r->o;
    unsigned bos = o->bos ? ZT_TOK_BOS : o->no_bos ? 0 : ZT_TOK_BOS_RULE;
    r->input = zt_read_all(r->ctx, o->perplexity, &r->input_bytes);
    if (!r->input || zt_foreign_text_fail(r->ctx, o->perplexity, r->input, r->input_bytes))
        return zt_ctx_status(r->ctx);
    return zt_vocab_encode(r->vocab, r->input, r->input_bytes,
                           bos | (o->special ? ZT_TOK_SPECIAL : 0), &r->ids);
}

static zt_status score_windows(run *r, int64_t window, zt_score *score)
{
    int64_t n = (int64_t)r->ids.count / window;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < n && s == ZT_OK; i++) {
        const int32_t *ids = zt_score_window(r->vocab, &r->ids, window, i);
        if (zt_cli_interrupted())
            return ZT_EINTR;
        s = zt_llm_score(r->llm, ids, (size_t)window, (size_t)window / 2, score);
        zt_progress(r->cli, &(zt_work){"perplexity", r->o->perplexity, "windows", (double)(i + 1),
                                       (double)n});
    }
    return s;
}

static zt_status print(run *r, const zt_score *score, int64_t window)
{
    char cell[5][32];
    double error, perplexity = zt_score_perplexity(score, &error);
    snprintf(cell[0], sizeof cell[0], "%.6f", perplexity);
    snprintf(cell[1], sizeof cell[1], "%.6f", error);
    snprintf(cell[2], sizeof cell[2], "%" PRId64, score->count);
    snprintf(cell[3], sizeof cell[3], "%" PRId64, (int64_t)r->ids.count / window);
    snprintf(cell[4], sizeof cell[4], "%" PRId64, window);
    zt_table *t = zt_table_new(
        r->cli, "perplexity",
        (const char *const[]){"#perplexity", "#error", "#tokens", "#windows", "#window"}, 5);
    if (!t)
        return zt_ctx_status(r->ctx);
    zt_status s =
        zt_table_row(t, (const char *const[]){cell[0], cell[1], cell[2], cell[3], cell[4]});
    if (s == ZT_OK)
        s = run_write_table(r, t);
    zt_table_free(t);
    return s;
}

zt_status run_perplexity(run *r)
{
    int64_t window = r->o->ctx ? r->o->ctx : WINDOW;
    zt_score score = {0};
    zt_status s = encode_text(r);
    if (s == ZT_OK)
        s = run_open_llm(r, window, false);
    if (s == ZT_OK && window > zt_llm_get(r->llm).ctx_len)
        window = zt_llm_get(r->llm).ctx_len; /* all that the model was trained for */
    if (s == ZT_OK && (int64_t)r->ids.count < window)
        s = zt_fail(r->ctx, ZT_EDATA,
                    "%s: %zu tokens are too few for a window of %" PRId64 ": see --ctx",
                    r->o->perplexity, r->ids.count, window);
    if (s == ZT_OK)
        s = score_windows(r, window, &score);
    r->prompted = r->ended = zt_seconds();
    return s == ZT_OK ? print(r, &score, window) : s;
}
