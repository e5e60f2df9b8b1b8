/* grammar.c - structured output: what the command line or a request holds an answer to, and the tokens that it allows.
 *
 * The bytes of the vocabulary's tokens and compiled grammars are shared by all requests: requests with the same schema share
 * its automaton and masks.
 */
#include "tools/zt-run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT_GRAMMARS = 16 }; /* compiled grammars that no request uses */

struct run_grammar {
    run_grammar *next; /* the one used before it */
    zt_str key;        /* what it was compiled from */
    zt_grammar *grammar;
    int users;
};

struct run_grammars {
    zt_token_trie *trie; /* made for the first grammar */
    run_grammar *last;   /* used last; a list */
};

run_grammars *run_grammars_new(const run_state *run) { return zt_calloc(run->ctx, 1, sizeof(run_grammars)); }

static void free_grammar(run_grammar *entry)
{
    zt_ctx *ctx = entry->key.ctx;
    zt_grammar_free(entry->grammar);
    zt_str_fini(&entry->key);
    zt_free(ctx, entry);
}

void run_grammars_free(const run_state *run)
{
    if (!run->grammars) return;
    for (run_grammar *entry = run->grammars->last, *next; entry; entry = next) {
        next = entry->next;
        free_grammar(entry);
    }
    zt_token_trie_free(run->grammars->trie);
    zt_free(run->ctx, run->grammars);
}

/* ---- compiled grammars ----------------------------------------------------------------------- */

static zt_status put_key(zt_str *key, const zt_grammar_part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        zt_str_printf(key, "%d %d %zu:", (int)parts[i].kind, parts[i].alternative, parts[i].text.n);
        zt_str_put(key, parts[i].text.data ? parts[i].text.data : "", parts[i].text.n);
    }
    return zt_ctx_status(key->ctx);
}

/* Frees grammars that nobody uses, all but those used last. */
static void drop_unused(run_grammars *grammars)
{
    int unused = 0;
    for (run_grammar **at = &grammars->last, *entry; (entry = *at);) {
        unused += entry->users == 0;
        if (entry->users == 0 && unused > KEPT_GRAMMARS) {
            *at = entry->next;
            free_grammar(entry);
        } else {
            at = &entry->next;
        }
    }
}

/* What a grammar is made of: parts, or calls of tools. */
typedef struct grammar_source {
    const zt_grammar_part *parts;
    size_t count;
    const zt_reply_hold *calls; /* NULL: of parts */
} grammar_source;

static zt_status put_text_key(zt_str *key, const char *text, size_t size)
{
    zt_str_printf(key, "%zu:", size);
    return zt_str_put(key, size ? text : "", size);
}

/* The template as a whole, since its form is found in it; of the prompt, only whether it ends inside of the reasoning matters. */
static zt_status put_calls_key(zt_str *key, const zt_reply_hold *calls)
{
    enum { TAIL = 64 };
    size_t tail = calls->prompt.n < TAIL ? calls->prompt.n : TAIL;
    char *tools = json_dumps(calls->tools, JSON_COMPACT);
    if (!tools) return zt_fail(key->ctx, ZT_ENOMEM, "no memory for tools");
    zt_str_printf(key, "calls %d %d ", calls->required, calls->one);
    if (calls->content) put_key(key, calls->content, 1);
    for (size_t i = 0; i < calls->only_count; i++) put_text_key(key, calls->only[i], strlen(calls->only[i]));
    put_text_key(key, tools, strlen(tools));
    put_text_key(key, calls->template_text.data, calls->template_text.n);
    free(tools);
    return put_text_key(key, calls->prompt.data + calls->prompt.n - tail, tail);
}

static run_grammar *compile_grammar(run_state *run, zt_str *key, const grammar_source *source)
{
    run_grammar *entry = zt_calloc(run->ctx, 1, sizeof *entry);
    if (!entry) return NULL;
    entry->grammar =
        source->calls ? zt_reply_grammar(run->ctx, source->calls) : zt_grammar_compile(run->ctx, source->parts, source->count);
    if (!entry->grammar) {
        zt_free(run->ctx, entry);
        return NULL;
    }
    entry->key = *key; /* it takes the text */
    zt_str_init(key, run->ctx);
    return entry;
}

/* The grammar of a source, first in the list. NULL: an error. */
static run_grammar *find_grammar(run_state *run, const grammar_source *source)
{
    run_grammars *grammars = run->grammars;
    zt_str key;
    zt_str_init(&key, run->ctx);
    run_grammar *found = NULL, **at = &grammars->last;
    zt_status status = source->calls ? put_calls_key(&key, source->calls) : put_key(&key, source->parts, source->count);
    if (status == ZT_OK) {
        while (*at && ((*at)->key.len != key.len || memcmp((*at)->key.data, key.data, key.len) != 0)) at = &(*at)->next;
        found = *at;
        if (found)
            *at = found->next;
        else
            found = compile_grammar(run, &key, source);
    }
    zt_str_fini(&key);
    if (!found) return NULL;
    found->next = grammars->last;
    return grammars->last = found;
}

void run_release(run_state *run)
{
    zt_grammar_matcher_free(run->matcher);
    zt_grammar_matcher_free(run->draft_matcher);
    run->matcher = run->draft_matcher = NULL;
    if (run->grammar) run->grammar->users--;
    run->grammar = NULL;
}

static zt_status hold_to_source(run_state *run, const char *form, const grammar_source *source)
{
    run_release(run);
    run->form = form;
    if (!run->grammars->trie && !(run->grammars->trie = zt_token_trie_new(run->ctx, run->vocab))) return ZT_ENOMEM;
    run->grammar = find_grammar(run, source);
    if (!run->grammar) return zt_ctx_status(run->ctx);
    run->grammar->users++;
    drop_unused(run->grammars);
    run->matcher = zt_grammar_matcher_new(run->grammar->grammar, run->grammars->trie);
    return run->matcher ? ZT_OK : zt_ctx_status(run->ctx);
}

zt_status run_hold_to(run_state *run, const char *form, const zt_grammar_part *parts, size_t count)
{
    zt_status status = hold_to_source(run, form, &(grammar_source){.parts = parts, .count = count});
    return status ? status : run_receipt_form(run, form, parts, count);
}

zt_status run_hold_to_calls(run_state *run, const zt_reply_hold *hold)
{
    return hold_to_source(run, "tools", &(grammar_source){.calls = hold});
}

/* ---- the command line ------------------------------------------------------------------------ */

static zt_status hold_to_file(run_state *run, const char *form, zt_grammar_kind kind, const char *path)
{
    size_t size;
    char *text = zt_read_all(run->ctx, path, &size);
    if (!text) return zt_ctx_status(run->ctx);
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    zt_status status = run_hold_to(run, form, &(zt_grammar_part){.kind = kind, .name = name, .text = {text, size}}, 1);
    zt_free(run->ctx, text);
    return status;
}

/* --choices and the operands after it. */
static zt_status hold_to_choices(run_state *run)
{
    const zt_opt_list *given = &run->options->choices;
    size_t count = (size_t)(given->n + run->cli->n_operands);
    zt_grammar_part *parts = zt_calloc(run->ctx, count, sizeof *parts);
    if (!parts) return ZT_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const char *text = i < (size_t)given->n ? given->item[i] : run->cli->operands[i - (size_t)given->n];
        parts[i] =
            (zt_grammar_part){.kind = ZT_GRAMMAR_TEXT, .name = "--choices", .text = {text, strlen(text)}, .alternative = true};
    }
    zt_status status = run_hold_to(run, "choices", parts, count);
    zt_free(run->ctx, parts);
    return status;
}

zt_status run_hold_to_options(run_state *run)
{
    const run_options *options = run->options;
    if (options->json_schema) return hold_to_file(run, "json_schema", ZT_GRAMMAR_SCHEMA, options->json_schema);
    if (options->grammar) return hold_to_file(run, "grammar", ZT_GRAMMAR_GBNF, options->grammar);
    if (options->choices.n) return hold_to_choices(run);
    if (!options->regex) return ZT_OK;
    zt_bytes text = {options->regex, strlen(options->regex)};
    return run_hold_to(run, "regex", &(zt_grammar_part){.kind = ZT_GRAMMAR_REGEX, .name = "--regex", .text = text}, 1);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

zt_status run_restrict_logits(run_state *run, float *logits)
{
    int64_t allowed;
    bool complete = zt_grammar_matcher_complete(run->matcher);
    zt_status status = ZT_OK;
    if (zt_grammar_matcher_finished(run->matcher)) {
        run->stop_reason = "grammar";
        return ZT_OK;
    }
    status = zt_grammar_matcher_restrict(run->matcher, run->end_ids.id, run->end_ids.count, logits, run->choices, &allowed);
    for (size_t i = 0; status == ZT_OK && complete && run->options->ignore_eos && i < run->end_ids.count; i++) {
        int32_t id = run->end_ids.id[i];
        if (id >= run->choices) continue;
        allowed -= logits[id] == logits[id]; /* not a number: it is listed twice, or was none before */
        logits[id] = NAN;
    }
    if (status != ZT_OK || allowed > 0) return status;
    if (!complete)
        return zt_fail(run->ctx, ZT_EDATA, "%s: no token fits the %s after token %zu", zt_gguf_name(run->gguf), run->form,
                       run->ids.count);
    run->stop_reason = "grammar";
    return ZT_OK;
}

zt_status run_follow_grammar(run_state *run, int32_t id)
{
    bool fits;
    zt_status status = zt_grammar_matcher_accept_token(run->matcher, id, &fits);
    if (status == ZT_OK && !fits)
        return zt_fail(run->ctx, ZT_EBUG, "token %" PRId32 " was chosen, and does not fit the %s", id, run->form);
    return status;
}

zt_status run_cut_draft(run_state *run, const int32_t *draft, size_t *count)
{
    bool fits = true;
    if (!run->draft_matcher && !(run->draft_matcher = zt_grammar_matcher_clone(run->matcher))) return ZT_ENOMEM;
    zt_grammar_matcher_copy(run->draft_matcher, run->matcher);
    for (size_t i = 0; i < *count; i++) {
        zt_status status = zt_grammar_matcher_accept_token(run->draft_matcher, draft[i], &fits);
        if (status != ZT_OK) return status;
        if (!fits) *count = i;
    }
    return ZT_OK;
}

bool run_is_complete(const run_state *run) { return run->cut_bytes == 0 && zt_grammar_matcher_complete(run->matcher); }
