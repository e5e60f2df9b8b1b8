/* grammar.c - grammars from their parts, and matchers that follow a text. */
#include "lib/base/require.h"
#include "lib/io/json.h"
#include "lib/llm/grammar/internal.h"

#include <math.h>
#include <string.h>

/* ---- compilation ----------------------------------------------------------------------------- */

static gexpr *read_text(gbuilder *builder, const zt_grammar_part *part)
{
    return zt_g_text(builder, part->text.data, part->text.n);
}

static gexpr *read_gbnf(gbuilder *builder, const zt_grammar_part *part)
{
    return zt_g_gbnf(builder, part->text.data, part->text.n);
}

static gexpr *read_regex(gbuilder *builder, const zt_grammar_part *part)
{
    return zt_g_regex(builder, part->text.data, part->text.n, G_PLAIN);
}

static gexpr *read_schema(gbuilder *builder, const zt_grammar_part *part)
{
    if (part->schema) return zt_g_schema(builder, part->schema);
    json_t *schema = zt_json_load(builder->ctx, builder->name, part->text.data, part->text.n);
    gexpr *expr = schema ? zt_g_schema(builder, schema) : NULL;
    json_decref(schema);
    return expr;
}

static gexpr *read_json(gbuilder *builder, const zt_grammar_part *part)
{
    (void)part;
    return zt_g_json_object(builder);
}

static const struct {
    const char *name;
    gexpr *(*read)(gbuilder *builder, const zt_grammar_part *part);
} kinds[ZT_GRAMMAR_KINDS] = {
    [ZT_GRAMMAR_TEXT] = {"text", read_text},        [ZT_GRAMMAR_GBNF] = {"grammar", read_gbnf},
    [ZT_GRAMMAR_REGEX] = {"regex", read_regex},     [ZT_GRAMMAR_SCHEMA] = {"schema", read_schema},
    [ZT_GRAMMAR_JSON] = {"JSON object", read_json},
};

static gexpr *read_part(gbuilder *builder, const zt_grammar_part *part)
{
    builder->name = part->name ? part->name : kinds[part->kind].name;
    if (!part->schema && part->kind != ZT_GRAMMAR_JSON && !zt_utf8_valid(part->text.data, part->text.n))
        return zt_g_fail(builder, "not valid UTF-8");
    return kinds[part->kind].read(builder, part);
}

/* Alternatives that are one text each, in one expression of their common beginnings; NULL without an error: there are
 * others. */
static gexpr *read_choices(gbuilder *builder, const zt_grammar_part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].kind != ZT_GRAMMAR_TEXT || (i && !parts[i].alternative)) return NULL;
    zt_bytes *texts = zt_alloc_array(builder->ctx, count, sizeof *texts);
    if (!texts) return NULL;
    builder->name = parts[0].name ? parts[0].name : kinds[ZT_GRAMMAR_TEXT].name;
    bool valid = true;
    for (size_t i = 0; i < count && valid; i++) {
        texts[i] = parts[i].text;
        valid = zt_utf8_valid(texts[i].data, texts[i].n);
    }
    gexpr *expr = valid ? zt_g_one_of(builder, texts, count) : zt_g_fail(builder, "not valid UTF-8");
    zt_free(builder->ctx, texts);
    return expr;
}

gexpr *zt_g_parts(gbuilder *builder, const zt_grammar_part *parts, size_t count)
{
    gexpr *choice = read_choices(builder, parts, count), *sequence = NULL;
    if (choice || zt_ctx_status(builder->ctx) != ZT_OK) return choice;
    choice = zt_g_list(builder, G_CHOICE);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || parts[i].alternative) choice = zt_g_add(builder, choice, sequence = zt_g_list(builder, G_SEQUENCE));
        if (!choice || !zt_g_add(builder, sequence, read_part(builder, &parts[i]))) return NULL;
    }
    return choice;
}

zt_grammar *zt_g_compile(zt_ctx *ctx, const char *name, zt_g_make *make, const void *user)
{
    gbuilder builder = {.ctx = ctx, .name = name, .arena = zt_arena_new(ctx, 0)};
    zt_grammar *grammar = builder.arena ? zt_calloc(ctx, 1, sizeof *grammar) : NULL;
    bool made = false;
    if (grammar) {
        grammar->ctx = ctx;
        gexpr *root = make(&builder, user);
        made = root && zt_g_rules_make(&builder, root, &grammar->rules);
        if (made) grammar->automaton = zt_g_automaton_new(ctx, &grammar->rules);
        made = grammar->automaton != NULL;
    }
    zt_free(ctx, builder.rule);
    zt_arena_free(builder.arena);
    if (made) return grammar;
    zt_grammar_free(grammar);
    return NULL;
}

typedef struct gparts {
    const zt_grammar_part *part;
    size_t count;
} gparts;

static gexpr *make_parts(gbuilder *builder, const void *user)
{
    const gparts *parts = user;
    return zt_g_parts(builder, parts->part, parts->count);
}

zt_grammar *zt_grammar_compile(zt_ctx *ctx, const zt_grammar_part *parts, size_t count)
{
    ZT_REQUIRE(ctx, parts && count, NULL);
    for (size_t i = 0; i < count; i++)
        ZT_REQUIRE(ctx, (unsigned)parts[i].kind < ZT_GRAMMAR_KINDS && (parts[i].text.data || !parts[i].text.n), NULL);
    return zt_g_compile(ctx, "grammar", make_parts, &(gparts){parts, count});
}

void zt_grammar_free(zt_grammar *grammar)
{
    if (!grammar) return;
    zt_g_automaton_free(grammar->automaton);
    zt_g_masks_fini(grammar);
    zt_g_rules_fini(grammar->ctx, &grammar->rules);
    zt_free(grammar->ctx, grammar);
}

zt_grammar_info zt_grammar_get(const zt_grammar *grammar)
{
    if (!grammar) return (zt_grammar_info){0};
    return (zt_grammar_info){.rules = grammar->rules.rule_count,
                             .symbols = grammar->rules.symbol_count,
                             .states = grammar->automaton->states.count,
                             .masks = grammar->masks.count,
                             .bytes = zt_g_automaton_bytes(grammar->automaton),
                             .restarts = grammar->restarts};
}

/* ---- matchers -------------------------------------------------------------------------------- */

static zt_grammar_matcher *new_matcher(zt_grammar *grammar, int32_t state)
{
    zt_grammar_matcher *matcher = zt_alloc(grammar->ctx, sizeof *matcher);
    if (!matcher) return NULL;
    *matcher = (zt_grammar_matcher){.grammar = grammar, .state = state, .next = grammar->matchers, .at = &grammar->matchers};
    if (matcher->next) matcher->next->at = &matcher->next;
    return grammar->matchers = matcher;
}

zt_grammar_matcher *zt_grammar_matcher_new(zt_grammar *grammar, const zt_token_trie *trie)
{
    if (!grammar) return NULL;
    ZT_REQUIRE(grammar->ctx, !trie || !grammar->trie || trie == grammar->trie, NULL);
    if (trie) grammar->trie = trie;
    return new_matcher(grammar, grammar->automaton->start);
}

zt_grammar_matcher *zt_grammar_matcher_clone(const zt_grammar_matcher *matcher)
{
    return matcher ? new_matcher(matcher->grammar, matcher->state) : NULL;
}

void zt_grammar_matcher_free(zt_grammar_matcher *matcher)
{
    if (!matcher) return;
    *matcher->at = matcher->next;
    if (matcher->next) matcher->next->at = matcher->at;
    zt_free(matcher->grammar->ctx, matcher);
}

void zt_grammar_matcher_reset(zt_grammar_matcher *matcher)
{
    if (matcher) matcher->state = matcher->grammar->automaton->start;
}

void zt_grammar_matcher_copy(zt_grammar_matcher *matcher, const zt_grammar_matcher *other)
{
    if (!matcher || !other) return;
    ZT_REQUIRE(matcher->grammar->ctx, matcher->grammar == other->grammar, );
    matcher->state = other->state;
}

/* Begins the automaton anew where it has grown large: only the states in which texts are stay. */
static zt_status spare_memory(zt_grammar *grammar)
{
    size_t bytes = zt_g_automaton_bytes(grammar->automaton), count = 0;
    if (bytes < SPARED_BYTES || bytes < 2 * grammar->kept_bytes) return ZT_OK;
    for (zt_grammar_matcher *matcher = grammar->matchers; matcher; matcher = matcher->next) count++;
    int32_t *states = zt_alloc_array(grammar->ctx, count + 1, sizeof *states);
    if (!states) return ZT_ENOMEM;
    count = 0;
    for (zt_grammar_matcher *matcher = grammar->matchers; matcher; matcher = matcher->next) states[count++] = matcher->state;
    zt_status status = zt_g_automaton_restart(grammar->automaton, states, count);
    count = 0;
    for (zt_grammar_matcher *matcher = grammar->matchers; matcher && status == ZT_OK; matcher = matcher->next)
        matcher->state = states[count++];
    zt_free(grammar->ctx, states);
    grammar->masks.count = 0;
    grammar->restarts++;
    grammar->kept_bytes = zt_g_automaton_bytes(grammar->automaton);
    return status;
}

zt_status zt_grammar_matcher_accept(zt_grammar_matcher *matcher, const char *bytes, size_t size, bool *fits)
{
    if (!matcher) return ZT_EUSAGE;
    zt_grammar *grammar = matcher->grammar;
    ZT_REQUIRE(grammar->ctx, (bytes || !size) && fits, ZT_EUSAGE);
    zt_status status = spare_memory(grammar);
    int32_t state = matcher->state;
    *fits = false;
    if (status != ZT_OK) return status;
    for (size_t i = 0; i < size && state != STATE_DEAD; i++) {
        grammar->automaton->steps = MOST_STEPS;
        state = zt_g_next(grammar->automaton, state, (unsigned char)bytes[i]);
        if (state < 0) return zt_ctx_status(grammar->ctx);
    }
    *fits = state != STATE_DEAD;
    if (*fits) matcher->state = state;
    return ZT_OK;
}

zt_status zt_grammar_matcher_accept_token(zt_grammar_matcher *matcher, int32_t id, bool *fits)
{
    if (!matcher) return ZT_EUSAGE;
    const zt_token_trie *trie = matcher->grammar->trie;
    ZT_REQUIRE(matcher->grammar->ctx, trie && fits, ZT_EUSAGE);
    *fits = false;
    if (id < 0 || id >= trie->token_count || trie->first[id] == trie->first[id + 1]) return ZT_OK;
    return zt_grammar_matcher_accept(matcher, trie->bytes + trie->first[id], trie->first[id + 1] - trie->first[id], fits);
}

const uint64_t *zt_grammar_matcher_mask(zt_grammar_matcher *matcher)
{
    if (!matcher) return NULL;
    ZT_REQUIRE(matcher->grammar->ctx, matcher->grammar->trie, NULL);
    matcher->grammar->automaton->steps = MOST_STEPS;
    return zt_g_mask(matcher->grammar, matcher->state);
}

/* What makes NaN of the four logits whose bits are not set: its exponent is all ones. */
#define NAN_UNLESS(bits, i) ((bits) >> (i)&1 ? 0 : UINT32_C(0x7fc00000))
#define NAN_LANES(bits)                                                                                                          \
    {                                                                                                                            \
        NAN_UNLESS(bits, 0), NAN_UNLESS(bits, 1), NAN_UNLESS(bits, 2), NAN_UNLESS(bits, 3)                                       \
    }
static const uint32_t nan_lanes[16][4] = {NAN_LANES(0),  NAN_LANES(1),  NAN_LANES(2),  NAN_LANES(3), NAN_LANES(4),  NAN_LANES(5),
                                          NAN_LANES(6),  NAN_LANES(7),  NAN_LANES(8),  NAN_LANES(9), NAN_LANES(10), NAN_LANES(11),
                                          NAN_LANES(12), NAN_LANES(13), NAN_LANES(14), NAN_LANES(15)};

/* The 64 logits of a word of the mask: those whose bits are not set become NaN. Most words are empty or full. */
static void restrict_word(uint64_t bits, float *logits)
{
    if (bits == 0) {
        for (int i = 0; i < 64; i++) logits[i] = NAN;
    } else if (~bits) {
        for (int i = 0; i < 64; i += 4, bits >>= 4) {
            uint32_t four[4];
            memcpy(four, logits + i, sizeof four);
            for (int lane = 0; lane < 4; lane++) four[lane] |= nan_lanes[bits & 15][lane];
            memcpy(logits + i, four, sizeof four);
        }
    }
}

/* The logits of a last word that has no 64 of them. Returns how many are left. */
static int restrict_part(uint64_t bits, float *logits, int64_t count)
{
    int left = 0;
    for (int64_t i = 0; i < count; i++) {
        bool allowed = bits >> i & 1;
        left += allowed;
        if (!allowed) logits[i] = NAN;
    }
    return left;
}

/* All logits. Returns how many are left. */
static int64_t restrict_all(const uint64_t *mask, size_t words, float *logits, int64_t count)
{
    size_t whole = (size_t)count / 64;
    int64_t left = (int64_t)mask[words]; /* of all tokens */
    for (size_t i = 0; i < whole; i++) restrict_word(i < words ? mask[i] : 0, logits + 64 * i);
    int in_part = restrict_part(whole < words ? mask[whole] : 0, logits + 64 * whole, count % 64);
    if (whole >= words) return left;
    for (size_t i = whole; i < words; i++) left -= __builtin_popcountll(mask[i]);
    return left + in_part;
}

enum { FEW_ENDS = 64 };

/* The ends come where the text may end, with the logits that they had. */
static void restrict_ends(const uint64_t *mask, size_t words, bool complete, const int32_t *ends, const float *saved,
                          size_t ends_count, float *logits, int64_t count, int64_t *allowed)
{
    for (size_t i = 0; i < ends_count; i++) {
        if (ends[i] < 0 || ends[i] >= count) continue;
        size_t word = (size_t)ends[i] / 64;
        bool counted = word < words && (mask[word] >> ends[i] % 64 & 1);
        for (size_t j = 0; j < i; j++) /* listed twice */
            if (ends[j] == ends[i]) counted = complete;
        *allowed += (int64_t)complete - (int64_t)counted;
        logits[ends[i]] = complete ? saved[i] : NAN;
    }
}

zt_status zt_grammar_matcher_restrict(zt_grammar_matcher *matcher, const int32_t *ends, size_t ends_count, float *logits,
                                      int64_t count, int64_t *allowed)
{
    if (!matcher) return ZT_EUSAGE;
    zt_ctx *ctx = matcher->grammar->ctx;
    ZT_REQUIRE(ctx, (ends || !ends_count) && logits && count >= 0 && allowed, ZT_EUSAGE);
    const uint64_t *mask = zt_grammar_matcher_mask(matcher);
    if (!mask) return zt_ctx_status(ctx);
    float few[FEW_ENDS], *saved = ends_count > FEW_ENDS ? zt_alloc_array(ctx, ends_count, sizeof *saved) : few;
    if (!saved) return ZT_ENOMEM;
    for (size_t i = 0; i < ends_count; i++) saved[i] = ends[i] >= 0 && ends[i] < count ? logits[ends[i]] : NAN;
    size_t words = matcher->grammar->trie->words;
    *allowed = restrict_all(mask, words, logits, count);
    restrict_ends(mask, words, zt_grammar_matcher_complete(matcher), ends, saved, ends_count, logits, count, allowed);
    if (saved != few) zt_free(ctx, saved);
    return ZT_OK;
}

bool zt_grammar_matcher_complete(const zt_grammar_matcher *matcher)
{
    return matcher && matcher->grammar->automaton->state[matcher->state].complete;
}

bool zt_grammar_matcher_finished(const zt_grammar_matcher *matcher)
{
    if (!zt_grammar_matcher_complete(matcher)) return false;
    const glist *states = &matcher->grammar->automaton->states;
    return states->first[matcher->state + 1] - states->first[matcher->state] == 1; /* the end is all that it has */
}
