/* grammar.c - the cost of structured output: bench/grammar builds and runs it.
 *
 *     grammar MODEL.gguf KIND FILE TOKENS TEXT [SEED]
 *
 * KIND is gbnf, schema or regex. Follows TOKENS tokens of texts that fit: at each step the logits are equal, those of tokens that do not fit are
 * masked, and a random one of the others is taken; a text that is complete begins again. Prints the cells of a table: the time to
 * compile, and of a token's cost (mask, masking of the logits, acceptance) in microseconds the first, median and 99th percentile of the first TEXT tokens,
 * and median, 99th percentile and largest of all.
 */
#include "lib/zt/llm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The processor's time of this thread: other programs do not count. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare(const void *first, const void *second)
{
    const double *left = first, *right = second;
    return (*left > *right) - (*left < *right);
}

static double quantile(const double *sorted, size_t count, double share) { return sorted[(size_t)(share * (double)(count - 1))]; }

/* The largest logit of a token that is one of few drawn ones: random, without a pass over all that would be timed. */
static int32_t choose(const float *logits, int32_t count, uint64_t seed, uint64_t step)
{
    int32_t best = -1, from = (int32_t)(zt_uniform(seed, 1, step) * count);
    for (int32_t i = 0; i < count && best < 0; i++) {
        int32_t id = (from + i) % count;
        if (!isnan(logits[id])) best = id;
    }
    return best;
}

int main(int argc, char **argv)
{
    zt_ctx *ctx = zt_ctx_new();
    size_t count = argc > 5 ? strtoul(argv[4], NULL, 10) : 0, text_tokens = argc > 5 ? strtoul(argv[5], NULL, 10) : 0, done = 0,
           size;
    uint64_t seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
    if (!text_tokens || count < text_tokens)
        return fprintf(stderr, "usage: grammar MODEL.gguf gbnf|schema|regex FILE TOKENS TEXT [SEED]\n"), 64;
    zt_gguf *gguf = zt_model_open_vocabulary(ctx, argv[1]);
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    char *text = zt_read_all(ctx, argv[3], &size);
    zt_token_trie *trie = vocab ? zt_token_trie_new(ctx, vocab) : NULL;
    zt_grammar_part part = {.name = argv[3], .text = {text, size}};
    part.kind = strcmp(argv[2], "gbnf") == 0    ? ZT_GRAMMAR_GBNF
                : strcmp(argv[2], "regex") == 0 ? ZT_GRAMMAR_REGEX
                                                : ZT_GRAMMAR_SCHEMA;
    double start = seconds();
    zt_grammar *grammar = text ? zt_grammar_compile(ctx, &part, 1) : NULL;
    double compile_time = seconds() - start;
    zt_grammar_matcher *matcher = grammar ? zt_grammar_matcher_new(grammar, trie) : NULL;
    double *cost = zt_calloc(ctx, count, sizeof *cost);
    int32_t vocab_size = vocab ? zt_vocab_size(vocab) : 0;
    float *logits = zt_calloc(ctx, (size_t)vocab_size + 1, sizeof *logits);
    int64_t allowed;
    bool fits;
    for (; matcher && done < count; done++) {
        memset(logits, 0, (size_t)vocab_size * sizeof *logits);
        start = seconds();
        if (zt_grammar_matcher_finished(matcher)) zt_grammar_matcher_reset(matcher);
        if (zt_grammar_matcher_restrict(matcher, NULL, 0, logits, vocab_size, &allowed) != ZT_OK) break;
        double masked = seconds() - start;
        int32_t id = choose(logits, vocab_size, seed, done);
        cost[done] = masked * 1e6;
        if (id < 0) { /* complete: no end of text is drawn here */
            zt_grammar_matcher_reset(matcher);
            continue;
        }
        start = seconds();
        if (zt_grammar_matcher_accept_token(matcher, id, &fits) != ZT_OK || !fits) break;
        cost[done] = (masked + seconds() - start) * 1e6;
    }
    zt_grammar_info info = zt_grammar_get(grammar);
    if (done >= text_tokens && done) {
        double first = cost[0];
        qsort(cost, text_tokens, sizeof *cost, compare);
        double text_median = quantile(cost, text_tokens, .5), text_late = quantile(cost, text_tokens, .99);
        qsort(cost, done, sizeof *cost, compare);
        printf("| %.0f | %.0f | %.1f, %.0f | %.1f | %.0f | %.0f | %zu | %zu | %.1f |\n", compile_time * 1e6, first, text_median,
               text_late, quantile(cost, done, .5), quantile(cost, done, .99), cost[done - 1], info.states, info.masks,
               (double)info.bytes / 1e6);
    }
    if (zt_ctx_status(ctx) != ZT_OK) fprintf(stderr, "grammar: %s\n", zt_ctx_error(ctx));
    int status = zt_ctx_status(ctx) != ZT_OK;
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    zt_token_trie_free(trie);
    zt_vocab_free(vocab);
    zt_gguf_close(gguf);
    zt_free(ctx, text);
    zt_free(ctx, cost);
    zt_free(ctx, logits);
    zt_ctx_free(ctx);
    return status;
}
