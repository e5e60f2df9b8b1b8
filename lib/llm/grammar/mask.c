/* mask.c - the tokens that a state allows, as a mask over the vocabulary.
 *
 * A mask is made by a search of the token tries with the automaton, and kept for the next time that a text is in the
 * same state. Most tokens need no search: in the middle of a word any letter leads to the same state (or, where the
 * length is limited, to one in which a letter less may follow). How many characters of which groups may follow in any order is found
 * once for a state; the tokens of these groups that have no more characters than that are allowed as a whole.
 */
#include "lib/llm/grammar/internal.h"

#include <string.h>

#define MASK_BYTES ((size_t)64 << 20) /* of all masks of a grammar */

/* ---- runs of characters ---------------------------------------------------------------------- */

typedef struct grun { /* any string of characters of the groups, up to this length, is allowed */
    ggroups groups;
    int length;  /* ANY_LENGTH: any */
    bool closed; /* no longer string is */
} grun;

/* Do all strings of the count byte ranges lead from the state to *target (STATE_UNKNOWN: wherever the first leads)? -1: an
 * error. */
static int lead_together(gautomaton *automaton, int32_t state, const unsigned char *first, const unsigned char *last, int count,
                         int32_t *target)
{
    int32_t before = STATE_UNKNOWN;
    for (unsigned byte = *first; byte <= *last; byte++) {
        int32_t next = zt_g_next(automaton, state, (unsigned char)byte);
        if (next < 0) return -1;
        if (next == before) continue;
        before = next;
        if (next == STATE_DEAD) return 0;
        if (count > 1) {
            int together = lead_together(automaton, next, first + 1, last + 1, count - 1, target);
            if (together <= 0) return together;
        } else if (*target != next && *target != STATE_UNKNOWN) {
            return 0;
        } else {
            *target = next;
        }
    }
    return 1;
}

/* The state after any character of the group; STATE_NONE: there are several, or some is not allowed; STATE_UNKNOWN: an error. */
static int32_t next_of_group(zt_grammar *grammar, int32_t state, int group)
{
    const gcharacter_groups *groups = grammar->trie->groups;
    const gset live = grammar->automaton->state[state].live, *first = &groups->first_bytes[group];
    int32_t target = STATE_UNKNOWN;
    int together = 1;
    for (int word = 0; word < 4; word++)
        if (first->word[word] & ~live.word[word]) return STATE_NONE;
    for (uint32_t i = groups->sequences[group]; together > 0 && i < groups->sequences[group + 1]; i++) {
        const gbytes_sequence *sequence = &groups->sequence[i];
        together = lead_together(grammar->automaton, state, sequence->first, sequence->last, sequence->count, &target);
    }
    return together < 0 ? STATE_UNKNOWN : together == 0 ? STATE_NONE : target;
}

/* Finds the state to which the characters of most groups lead, and these groups. false: an error. */
static bool find_run(zt_grammar *grammar, int32_t state)
{
    int32_t target[GROUPS], best = STATE_NONE;
    ggroups best_groups = 0;
    int best_count = 0;
    if (grammar->automaton->state[state].run_next != STATE_UNKNOWN) return true;
    for (int group = 0; group < BROKEN_GROUP; group++)
        if ((target[group] = next_of_group(grammar, state, group)) == STATE_UNKNOWN) return false;
    for (int group = 0; group < BROKEN_GROUP; group++) {
        ggroups groups = 0;
        int count = 0;
        for (int other = group; other < BROKEN_GROUP && target[group] != STATE_NONE; other++) {
            if (target[other] != target[group]) continue;
            groups |= (ggroups)(1u << other);
            count++;
        }
        if (count <= best_count) continue;
        best_count = count;
        best_groups = groups;
        best = target[group];
    }
    grammar->automaton->state[state].run_next = best;
    grammar->automaton->state[state].run_groups = best_groups;
    return true;
}

/* May a character of one of the groups come next? */
static bool any_may_come(const zt_grammar *grammar, int32_t state, ggroups groups)
{
    const gset *live = &grammar->automaton->state[state].live;
    for (int group = 0; group < GROUPS; group++) {
        const gset *first = &grammar->trie->groups->first_bytes[group];
        for (int word = 0; word < 4 && groups >> group & 1; word++)
            if (first->word[word] & live->word[word]) return true;
    }
    return false;
}

/* The run that begins in the state, as far as masks of lengths go. false: an error. */
static bool follow_run(zt_grammar *grammar, int32_t state, grun *run)
{
    if (!find_run(grammar, state)) return false;
    *run = (grun){.groups = grammar->automaton->state[state].run_groups};
    while (run->groups && run->length < ANY_LENGTH - 1) {
        const gstate *at = &grammar->automaton->state[state];
        if (run->groups & ~at->run_groups) break;
        if (at->run_next == state) {
            run->length = ANY_LENGTH;
            return true;
        }
        run->length++;
        state = at->run_next;
        if (!find_run(grammar, state)) return false;
    }
    run->closed = !any_may_come(grammar, state, run->groups);
    return true;
}

/* ---- search ---------------------------------------------------------------------------------- */

typedef struct gpending { /* a node whose children are looked at later, in the state after its bytes */
    uint32_t node;
    int32_t state;
} gpending;

typedef struct gsearch {
    zt_grammar *grammar;
    uint64_t *mask;
    size_t count; /* of pending nodes */
    grun known;   /* its tokens are in the mask */
} gsearch;

/* Are all tokens at or below the node decided without a search? */
static bool is_known(const gsearch *search, const gnode *node)
{
    const grun *known = &search->known;
    return !(node->groups & ~known->groups) && (known->closed || known->length == ANY_LENGTH || node->most <= known->length);
}

static void allow_token(gsearch *search, int32_t token)
{
    const zt_token_trie *trie = search->grammar->trie;
    if (token >= 0) {
        search->mask[token / 64] |= UINT64_C(1) << token % 64;
    } else if (token != TOKEN_NONE) {
        for (token = TOKEN_FIRST - token; token >= 0; token = trie->same[token])
            search->mask[token / 64] |= UINT64_C(1) << token % 64;
    }
}

/* A node whose byte led to the state, which is not dead. false: an error. */
static bool search_node(gsearch *search, const gnode *node, int32_t state)
{
    const zt_token_trie *trie = search->grammar->trie;
    if (is_known(search, node)) return true;
    if (node->wide == WIDE_TAIL) {
        const char *tail = trie->tail + node->first;
        for (unsigned i = 0; i < node->count; i++) {
            state = zt_g_next(search->grammar->automaton, state, (unsigned char)tail[i]);
            if (state <= STATE_DEAD) return state == STATE_DEAD;
        }
        allow_token(search, node->token);
        return true;
    }
    allow_token(search, node->token);
    search->grammar->masks.pending[search->count++] = (gpending){(uint32_t)(node - trie->node), state};
    return true;
}

static unsigned count_bits(uint64_t bits)
{
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(bits * UINT64_C(0x0101010101010101) >> 56);
}

/* The children of a node that has many: only those whose bytes may come next. */
static bool search_wide(gsearch *search, const gnode *node, int32_t state)
{
    const zt_token_trie *trie = search->grammar->trie;
    const gset *bytes = &trie->wide[node->wide], live = search->grammar->automaton->state[state].live;
    const gnode *child = trie->node + node->first;
    for (unsigned word = 0; word < 4; word++) {
        for (uint64_t both = bytes->word[word] & live.word[word]; both; both &= both - 1) {
            const gnode *found = child + count_bits(bytes->word[word] & ((both & -both) - 1));
            int32_t next = zt_g_next(search->grammar->automaton, state, found->byte);
            if (next < 0 || !search_node(search, found, next)) return false;
        }
        child += count_bits(bytes->word[word]);
    }
    return true;
}

static bool search_children(gsearch *search, const gnode *node, int32_t state)
{
    const zt_token_trie *trie = search->grammar->trie;
    if (node->wide != WIDE_NONE) return search_wide(search, node, state);
    for (uint32_t i = node->first; i < node->first + node->count; i++) {
        int32_t next = zt_g_next(search->grammar->automaton, state, trie->node[i].byte);
        if (next < 0 || (next != STATE_DEAD && !search_node(search, &trie->node[i], next))) return false;
    }
    return true;
}

/* Memory for the children of one more node. */
static bool reserve_pending(gsearch *search)
{
    gmask_cache *masks = &search->grammar->masks;
    if (search->count + 256 <= masks->pending_capacity) return true;
    size_t capacity = 2 * masks->pending_capacity + 1024;
    gpending *grown = zt_realloc(search->grammar->ctx, masks->pending, capacity * sizeof *grown);
    if (!grown) return false;
    masks->pending = grown;
    masks->pending_capacity = capacity;
    return true;
}

static bool search_trie(gsearch *search, uint32_t root, int32_t state)
{
    const zt_token_trie *trie = search->grammar->trie;
    search->count = 0;
    if (!reserve_pending(search) || !search_node(search, &trie->node[root], state)) return false;
    while (search->count) {
        gpending at = search->grammar->masks.pending[--search->count];
        if (!reserve_pending(search) || !search_children(search, &trie->node[at.node], at.state)) return false;
    }
    return true;
}

/* ---- tokens that need no search -------------------------------------------------------------- */

enum { UNSEARCHED = 8 };

typedef struct gunsearched { /* the mask of a family's tokens of the groups, of up to so many characters */
    uint64_t *mask;
    int family, length;
    ggroups groups;
} gunsearched;

static const uint64_t *unsearched_mask(zt_grammar *grammar, int family, ggroups groups, int length)
{
    gmask_cache *masks = &grammar->masks;
    const zt_token_trie *trie = grammar->trie;
    const gfamily *of = &trie->family[family];
    if (!masks->unsearched && !(masks->unsearched = zt_calloc(grammar->ctx, UNSEARCHED, sizeof *masks->unsearched))) return NULL;
    for (int i = 0; i < UNSEARCHED; i++) {
        const gunsearched *known = &masks->unsearched[i];
        if (known->mask && known->family == family && known->groups == groups && known->length == length) return known->mask;
    }
    gunsearched *made = &masks->unsearched[masks->unsearched_next++ % UNSEARCHED];
    if (!made->mask && !(made->mask = zt_alloc_array(grammar->ctx, trie->words + 1, sizeof *made->mask))) return NULL;
    *made = (gunsearched){made->mask, family, length, groups};
    memcpy(made->mask, of->upto[length], trie->words * sizeof *made->mask);
    for (int group = 0; group < GROUPS; group++)
        for (size_t word = 0; !(groups >> group & 1) && word < trie->words; word++) made->mask[word] &= ~of->with[group][word];
    return made->mask;
}

/* Few tokens are faster found by a search. */
static bool has_many(const zt_token_trie *trie, int family, ggroups groups)
{
    size_t count = 0;
    for (int group = 0; group < GROUPS; group++)
        if (groups >> group & 1) count += trie->family[family].with_count[group];
    return count > trie->words;
}

/* Adds a family's tokens that may come next to the mask. */
static bool add_family(zt_grammar *grammar, int family, int32_t state, uint64_t *mask)
{
    const zt_token_trie *trie = grammar->trie;
    gsearch search = {.grammar = grammar, .mask = mask};
    grun run;
    if (!follow_run(grammar, state, &run)) return false;
    if (run.length && has_many(trie, family, run.groups)) {
        const uint64_t *known = unsearched_mask(grammar, family, run.groups, run.length);
        if (!known) return false;
        for (size_t word = 0; word < trie->words; word++) mask[word] |= known[word];
        search.known = run;
    }
    return search_trie(&search, trie->family[family].root, state);
}

static bool make_mask(zt_grammar *grammar, int32_t state, uint64_t *mask)
{
    const size_t words = grammar->trie->words;
    memset(mask, 0, (words + 1) * sizeof *mask);
    if (!add_family(grammar, FAMILY_OTHER, state, mask)) return false;
    int32_t spaced = zt_g_next(grammar->automaton, state, ' ');
    if (spaced < 0 || (spaced != STATE_DEAD && !add_family(grammar, FAMILY_SPACED, spaced, mask))) return false;
    for (size_t word = 0; word < words; word++)
        if (mask[word]) mask[words] += count_bits(mask[word]);
    return true;
}

/* ---- masks that are kept --------------------------------------------------------------------- */

void zt_g_masks_forget(zt_grammar *grammar)
{
    for (uint32_t i = 0; i < grammar->automaton->states.count; i++) grammar->automaton->state[i].mask = -1;
    grammar->masks.count = 0;
}

void zt_g_masks_fini(zt_grammar *grammar)
{
    for (size_t i = 0; i < grammar->masks.made_count; i++) zt_free(grammar->ctx, grammar->masks.mask[i]);
    zt_free(grammar->ctx, grammar->masks.mask);
    for (int i = 0; i < UNSEARCHED && grammar->masks.unsearched; i++) zt_free(grammar->ctx, grammar->masks.unsearched[i].mask);
    zt_free(grammar->ctx, grammar->masks.unsearched);
    zt_free(grammar->ctx, grammar->masks.pending);
    grammar->masks = (gmask_cache){0};
}

/* Memory for one more mask; where there are as many as may be, all are forgotten. NULL: no memory. */
static uint64_t *room_for_mask(zt_grammar *grammar)
{
    gmask_cache *masks = &grammar->masks;
    size_t bytes = (grammar->trie->words + 1) * sizeof **masks->mask, most = MASK_BYTES / bytes + 16;
    if (masks->count == most) zt_g_masks_forget(grammar);
    if (masks->count < masks->made_count) return masks->mask[masks->count];
    if (masks->made_count == masks->capacity) {
        size_t capacity = masks->capacity ? 2 * masks->capacity : 16;
        uint64_t **grown = zt_realloc(grammar->ctx, masks->mask, capacity * sizeof *grown);
        if (!grown) return NULL;
        masks->mask = grown;
        masks->capacity = capacity;
    }
    uint64_t *mask = zt_alloc(grammar->ctx, bytes);
    if (mask) masks->mask[masks->made_count++] = mask;
    return mask;
}

const uint64_t *zt_g_mask(zt_grammar *grammar, int32_t state)
{
    gmask_cache *masks = &grammar->masks;
    int32_t known = grammar->automaton->state[state].mask;
    if (known >= 0) return masks->mask[known];
    uint64_t *mask = room_for_mask(grammar);
    if (!mask || !make_mask(grammar, state, mask)) return NULL;
    grammar->automaton->state[state].mask = (int32_t)masks->count++;
    return mask;
}
