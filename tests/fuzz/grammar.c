/* grammar.c - a fuzz target for grammars: any bytes are refused by a message, or give an automaton whose texts can be followed
 * within the bounds.
 *
 * The first byte is the kind of the grammar, the bytes up to the next zero its text; those after it are a text that is followed. What
 * is accepted byte by byte is also accepted in one go, and a byte that the automaton allows somewhere leads on: no state
 * without an end. Drivers: see main.c and make fuzz.
 */
#include "lib/llm/grammar/grammar.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_status(zt_ctx *ctx, zt_status s)
{
    if (s != ZT_OK && s != ZT_EDATA && s != ZT_ENOMEM) abort();
    if (s != zt_ctx_status(ctx)) abort();
}

/* Follows the text byte by byte as far as it fits; a byte that does not is tried again as the next of those that do. */
static void follow(zt_ctx *ctx, zt_grammar *grammar, const char *text, size_t size)
{
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL), *whole = zt_grammar_matcher_new(grammar, NULL);
    char taken[512];
    size_t count = 0;
    bool fits = true;
    if (!matcher || !whole) abort();
    for (size_t i = 0; i < size && count < sizeof taken; i++) {
        bool finished = zt_grammar_matcher_finished(matcher), any = false;
        for (int add = 0; add < 256 && !any && zt_ctx_status(ctx) == ZT_OK; add++) {
            taken[count] = (char)(text[i] + add);
            zt_status status = zt_grammar_matcher_accept(matcher, taken + count, 1, &any);
            check_status(ctx, status);
        }
        if (zt_ctx_status(ctx) != ZT_OK) break;
        if (any == finished) abort(); /* a state without an end, or an end that is none */
        if (!any) break;
        count++;
    }
    if (zt_ctx_status(ctx) == ZT_OK) {
        check_status(ctx, zt_grammar_matcher_accept(whole, taken, count, &fits));
        if (zt_ctx_status(ctx) == ZT_OK && (!fits || zt_grammar_matcher_complete(whole) != zt_grammar_matcher_complete(matcher)))
            abort();
    }
    zt_grammar_matcher_free(matcher);
    zt_grammar_matcher_free(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    if (count == 0) return 0;
    const char *text = (const char *)bytes + 1, *zero = memchr(text, 0, count - 1);
    size_t size = zero ? (size_t)(zero - text) : count - 1;
    zt_grammar_part part = {.kind = (zt_grammar_kind)(bytes[0] % ZT_GRAMMAR_KINDS), .name = "g", .text = {text, size}};
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) abort();
    zt_mem_limit(ctx, 1 << 27);
    zt_grammar *grammar = zt_grammar_compile(ctx, &part, 1);
    check_status(ctx, zt_ctx_status(ctx));
    if (!grammar && zt_ctx_status(ctx) == ZT_OK) abort();
    if (grammar && zero) follow(ctx, grammar, zero + 1, count - 2 - size);
    zt_grammar_free(grammar);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    return 0;
}
