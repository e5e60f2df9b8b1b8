/* mask.c - the tokens that a state allows, as a mask over the vocabulary.
 *
 * A mask is made by a search of the token tries with the automaton, and kept for the next time that a text is in the
 * same state. Most tokens need no search: in the middle of a JSON string any plain character leads to the same state (or, where the
 * length is limited, to one in which a character less may follow). How many such characters may follow is found once
 * for a state; the slices of plain tokens that have no more than that are allowed as a whole.
 */
#include "lib/llm/grammar/internal.h"

#include <string.h>

#define MASK_BYTES ((size_t)64 << 20) /* of all masks of a grammar */

/* ---- runs of plain characters ---------------------------------------------------------------- */

typedef struct byte_range {
    unsigned char first, last;
} byte_range;

/* Plain characters, as token_trie.c has them: all but controls, '"' and '\\'. */
static const struct {
    int count;
    byte_range range[4];
} plain_characters[] = {
    {1, {{0x20, 0x21}}},
    {1, {{0x23, 0x5b}}},
    {1, {{0x5d, 0x7f}}},
    {2, {{0xc2, 0xdf}, {0x80, 0xbf}}},
    {3, {{0xe0, 0xe0}, {0xa0, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xe1, 0xec}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {3, {{0xed, 0xed}, {0x80, 0x9f}, {0x80, 0xbf}}},
    {3, {{0xee, 0xef}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf0, 0xf0}, {0x90, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf1, 0xf3}, {0x80, 0xbf}, {0x80, 0xbf}, {0x80, 0xbf}}},
    {4, {{0xf4, 0xf4}, {0x80, 0x8f}, {0x80, 0xbf}, {0x80, 0xbf}}},
};

/* Do all strings of the byte ranges lead from the state to *target (STATE_UNKNOWN: wherever the first leads)? -1: an
 * error. */
static int lead_together(gautomaton *automaton, int32_t state, const byte_range *range, int count, int32_t *target)
{
    int32_t last = STATE_UNKNOWN;
    for (unsigned byte = range->first; byte <= range->last; byte++) {
        int32_t next = zt_g_next(automaton, state, (unsigned char)byte);
        if (next < 0) return -1;
        if (next == last) continue;
        last = next;
        if (next == STATE_DEAD) return 0;
        if (count > 1) {
            int together = lead_together(automaton, next, range + 1, count - 1, target);
            if (together <= 0) return together;
        } else if (*target != next && *target != STATE_UNKNOWN) {
            return 0;
        } else {
            *target = next;
        }
    }
    return 1;
}

/* The state after any plain character. STATE_NONE: there are several, or some is not allowed; STATE_UNKNOWN: an error. */
static int32_t next_of_run(gautomaton *automaton, int32_t state)
{
    int32_t target = STATE_UNKNOWN;
    int together = 1;
    if (automaton->state[state].run_next != STATE_UNKNOWN) return automaton->state[state].run_next;
    for (size_t i = 0; together > 0 && i < sizeof plain_characters / sizeof *plain_characters; i++)
        together = lead_together(automaton, state, plain_characters[i].range, plain_characters[i].count, &target);
    if (together < 0) return STATE_UNKNOWN;
    return automaton->state[state].run_next = together ? target : STATE_NONE;
}

/* How many plain characters may follow, up to `most`, whatever they are; -1: an error. */
static int length_of_run(gautomaton *automaton, int32_t state, int most)
{
    for (int length = 0; length < most; length++) {
        int32_t next = next_of_run(automaton, state);
        if (next == STATE_UNKNOWN) return -1;
        if (next == STATE_NONE) return length;
        if (next == state) return most;
        state = next;
    }
    return most;
}

/* ---- search ---------------------------------------------------------------------------------- */

static void allow_tokens(const zt_token_trie *trie, int32_t token, uint64_t *mask)
{
    for (; token >= 0; token = trie->same[token]) mask[token / 64] |= UINT64_C(1) << token % 64;
}

static bool search_slice(zt_grammar *grammar, const gslice *slice, int32_t state, uint64_t *mask)
{
    const zt_token_trie *trie = grammar->trie;
    int32_t *at = grammar->masks.depth_state; /* [depth]: the state after so many bytes */
    at[0] = state;
    for (uint32_t i = slice->first; i < slice->end;) {
        const gnode *node = &trie->node[i];
        int32_t next = zt_g_next(grammar->automaton, at[node->depth - 1], node->byte);
        if (next < 0) return false;
        if (next == STATE_DEAD) {
            i = node->skip;
            continue;
        }
        at[node->depth] = next;
        if (node->token >= 0) allow_tokens(trie, node->token, mask);
        i++;
    }
    return true;
}

static bool make_mask(zt_grammar *grammar, int32_t state, uint64_t *mask)
{
    const zt_token_trie *trie = grammar->trie;
    int most = 0;
    memset(mask, 0, trie->words * sizeof *mask);
    for (int i = 1; i < SLICES; i++)
        if (trie->slice[i].characters > most) most = trie->slice[i].characters;
    int run = length_of_run(grammar->automaton, state, most);
    bool made = run >= 0;
    for (int i = 0; i < SLICES && made; i++) {
        const gslice *slice = &trie->slice[i];
        if (!slice->mask || run < slice->characters)
            made = search_slice(grammar, slice, state, mask);
        else
            for (size_t word = 0; word < trie->words; word++) mask[word] |= slice->mask[word];
    }
    return made;
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
    zt_free(grammar->ctx, grammar->masks.depth_state);
    grammar->masks = (gmask_cache){0};
}

/* Memory for one more mask; where there are as many as may be, all are forgotten. NULL: no memory. */
static uint64_t *room_for_mask(zt_grammar *grammar)
{
    gmask_cache *masks = &grammar->masks;
    size_t bytes = grammar->trie->words * sizeof **masks->mask + 1, most = MASK_BYTES / bytes + 16;
    if (!masks->depth_state &&
        !(masks->depth_state = zt_alloc_array(grammar->ctx, (size_t)grammar->trie->depth + 1, sizeof *masks->depth_state)))
        return NULL;
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
