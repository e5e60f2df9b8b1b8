/* token_trie.c - the bytes of a vocabulary's tokens as two tries: of tokens that begin with a space, and of the others.
 *
 * The children of a node are consecutive, and groups of children are in the order of a depth-first search. So a search that few bytes
 * pass reads the children of a node as one piece of memory, and one that many pass reads the whole array in its order.
 */
#include "lib/base/require.h"
#include "lib/llm/grammar/internal.h"
#include "lib/llm/vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_TOKEN = 4096 }; /* bytes; longer ones are never chosen */

typedef struct sorted_token { /* of a family: without the space of FAMILY_SPACED */
    const char *bytes;
    uint32_t size;
    int32_t id, node_token; /* what its node has as token */
    int family, characters;
    ggroups groups;
} sorted_token;

static bool is_listed(const zt_vocab *vocab, int32_t id)
{
    int type = zt_vocab_type(vocab, id);
    return type != ZT_TOK_UNKNOWN && type != ZT_TOK_UNUSED && !zt_vocab_is_eog(vocab, id);
}

/* Appends a token's bytes. Those of a control token begin with CONTROL_BYTE, and no others have it. */
static zt_status put_bytes(const zt_vocab *vocab, int32_t id, zt_str *bytes)
{
    size_t begin = bytes->len;
    bool control = zt_vocab_type(vocab, id) == ZT_TOK_CONTROL || zt_vocab_is_control(vocab, id);
    zt_status status = control ? zt_str_putc(bytes, (char)CONTROL_BYTE) : ZT_OK;
    if (status == ZT_OK) status = zt_vocab_decode(vocab, id, true, false, bytes);
    size_t text = begin + control;
    bool bad = bytes->len == text || memchr(bytes->data + text, CONTROL_BYTE, bytes->len - text);
    if (status == ZT_OK && bad) bytes->len = begin;
    return status;
}

/* The bytes of all tokens, one after the other. */
static zt_status list_bytes(zt_token_trie *trie, const zt_vocab *vocab, zt_str *bytes)
{
    zt_status status = ZT_OK;
    for (int32_t id = 0; id < trie->token_count && status == ZT_OK; id++) {
        trie->first[id] = (uint32_t)bytes->len;
        if (is_listed(vocab, id)) status = put_bytes(vocab, id, bytes);
        if (bytes->len - trie->first[id] > LONGEST_TOKEN) bytes->len = trie->first[id];
        if (status == ZT_OK && bytes->len > UINT32_MAX / 2)
            status = zt_fail(trie->ctx, ZT_EDATA, "the tokens of the vocabulary have more than %u bytes", UINT32_MAX / 2);
    }
    trie->first[trie->token_count] = (uint32_t)bytes->len;
    return status;
}

/* By family, then by bytes. */
static int compare_tokens(const void *first, const void *second)
{
    const sorted_token *left = first, *right = second;
    if (left->family != right->family) return left->family - right->family;
    uint32_t shorter = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->bytes, right->bytes, shorter);
    if (order == 0) order = (left->size > right->size) - (left->size < right->size);
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

/* ---- sorting --------------------------------------------------------------------------------- */

typedef struct token_key { /* the family and the first bytes of a token */
    uint64_t key;
    size_t token;
} token_key;

static uint64_t key_of(const sorted_token *token)
{
    uint64_t key = (uint64_t)token->family;
    for (uint32_t i = 0; i < sizeof key - 1; i++) key = key << 8 | (i < token->size ? (unsigned char)token->bytes[i] : 0);
    return key;
}

/* Sorts by the key, a byte at a time from the last. `other` has room for as many. */
static void sort_keys(token_key *keys, token_key *other, size_t count)
{
    for (unsigned shift = 0; shift < 64; shift += 8) { /* an even number of passes: the result is in keys */
        size_t place[257] = {0};
        for (size_t i = 0; i < count; i++) place[(keys[i].key >> shift & 255) + 1]++;
        for (int byte = 0; byte < 256; byte++) place[byte + 1] += place[byte];
        for (size_t i = 0; i < count; i++) other[place[keys[i].key >> shift & 255]++] = keys[i];
        token_key *swapped = keys;
        keys = other;
        other = swapped;
    }
}

/* Sorts tokens by family and bytes: by keys, and those of one key by comparison. */
static bool sort_tokens(zt_ctx *ctx, sorted_token *tokens, size_t count)
{
    token_key *keys = zt_alloc_array(ctx, 2 * count + 1, sizeof *keys);
    sorted_token *copy = zt_alloc_array(ctx, count + 1, sizeof *copy);
    if (keys && copy) {
        for (size_t i = 0; i < count; i++) keys[i] = (token_key){key_of(&tokens[i]), i};
        memcpy(copy, tokens, count * sizeof *tokens);
        sort_keys(keys, keys + count, count);
        for (size_t i = 0; i < count; i++) tokens[i] = copy[keys[i].token];
        for (size_t first = 0, end; first < count; first = end) {
            for (end = first + 1; end < count && keys[end].key == keys[first].key;) end++;
            if (end - first > 1) qsort(tokens + first, end - first, sizeof *tokens, compare_tokens);
        }
    }
    bool sorted = keys && copy;
    zt_free(ctx, keys);
    zt_free(ctx, copy);
    return sorted;
}

/* Links tokens with the same bytes, and keeps the first of each. Returns how many those are. */
static size_t link_same(zt_token_trie *trie, sorted_token *tokens, size_t count)
{
    size_t kept = 0;
    int32_t last = -1;
    for (size_t i = 0; i < count; i++) {
        sorted_token *before = kept ? &tokens[kept - 1] : NULL;
        if (before && tokens[i].family == before->family && tokens[i].size == before->size &&
            memcmp(tokens[i].bytes, before->bytes, before->size) == 0) {
            trie->same[last] = tokens[i].id;
            before->node_token = TOKEN_FIRST - before->id;
        } else {
            tokens[kept++] = tokens[i];
        }
        last = tokens[i].id;
    }
    return kept;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef struct token_span { /* tokens that are equal up to `depth` bytes, and the node that they are at or below */
    size_t first, end;
    uint32_t node, depth;
} token_span;

typedef struct trie_maker {
    zt_token_trie *trie;
    const sorted_token *tokens;
    token_span *waiting; /* a stack */
    size_t waiting_count, waiting_capacity;
} trie_maker;

static bool reserve_items(zt_ctx *ctx, void **array, size_t size, size_t count, size_t *capacity)
{
    if (count <= *capacity) return true;
    size_t wanted = 2 * *capacity > count ? 2 * *capacity : count + 256;
    void *grown = zt_realloc(ctx, *array, wanted * size);
    if (!grown) return false;
    *array = grown;
    *capacity = wanted;
    return true;
}

static void put_token(gnode *node, const sorted_token *token)
{
    node->token = token->node_token;
    node->groups = token->groups;
    node->most = (unsigned char)(token->characters < UINT8_MAX ? token->characters : UINT8_MAX);
}

/* The node of one token: its other bytes are the tail. */
static void put_tail(zt_token_trie *trie, gnode *node, const sorted_token *token, uint32_t depth)
{
    node->wide = WIDE_TAIL;
    node->first = (uint32_t)trie->tail_size;
    node->count = (uint16_t)(token->size - depth);
    put_token(node, token);
    memcpy(trie->tail + trie->tail_size, token->bytes + depth, token->size - depth);
    trie->tail_size += token->size - depth;
}

/* The end of the tokens from `first` that have the same byte at `depth`: those after it have larger ones. Most are few. */
static size_t end_of_byte(const sorted_token *tokens, size_t first, size_t end, uint32_t depth)
{
    char byte = tokens[first].bytes[depth];
    if (tokens[end - 1].bytes[depth] == byte) return end;
    for (size_t step = 1; first + step < end; step *= 2) {
        if (tokens[first + step].bytes[depth] != byte)
            end = first + step;
        else
            first += step;
    }
    while (end - first > 1) {
        size_t middle = first + (end - first) / 2;
        if (tokens[middle].bytes[depth] == byte)
            first = middle;
        else
            end = middle;
    }
    return end;
}

/* Puts the children of a node, and lets their spans wait, the last on top: a search goes on with the last one, too. */
static bool put_children(trie_maker *maker, token_span span)
{
    zt_token_trie *trie = maker->trie;
    const sorted_token *tokens = maker->tokens;
    size_t count = 0, first = trie->node_count, ends[256];
    gset bytes = {{0}};
    for (size_t i = span.first; i < span.end; i = ends[count++]) {
        zt_g_set_add(&bytes, (unsigned char)tokens[i].bytes[span.depth]);
        ends[count] = end_of_byte(tokens, i, span.end, span.depth);
    }
    if (!reserve_items(trie->ctx, (void **)&trie->node, sizeof *trie->node, first + count, &trie->node_capacity) ||
        !reserve_items(trie->ctx, (void **)&trie->wide, sizeof *trie->wide, trie->wide_count + 1, &trie->wide_capacity) ||
        !reserve_items(trie->ctx, (void **)&maker->waiting, sizeof *maker->waiting, maker->waiting_count + count,
                       &maker->waiting_capacity))
        return false;
    gnode *node = &trie->node[span.node];
    node->first = (uint32_t)first;
    node->count = (uint16_t)count;
    if (count >= WIDE_LEAST) {
        node->wide = (uint32_t)trie->wide_count;
        trie->wide[trie->wide_count++] = bytes;
    }
    trie->node_count += count;
    for (size_t i = span.first, child = 0; child < count; i = ends[child++]) {
        trie->node[first + child].byte = (unsigned char)tokens[i].bytes[span.depth];
        maker->waiting[maker->waiting_count++] = (token_span){i, ends[child], (uint32_t)(first + child), span.depth + 1};
    }
    return true;
}

static bool put_node(trie_maker *maker, token_span span)
{
    const sorted_token *tokens = maker->tokens;
    gnode *node = &maker->trie->node[span.node];
    *node = (gnode){.byte = node->byte, .token = TOKEN_NONE, .wide = WIDE_NONE};
    if (span.end - span.first == 1) {
        put_tail(maker->trie, node, &tokens[span.first], span.depth);
        return true;
    }
    if (span.first < span.end && tokens[span.first].size == span.depth) put_token(node, &tokens[span.first++]);
    return put_children(maker, span);
}

/* Groups and lengths of what is below a node, from the last nodes on: children come after their parents. */
static void summarize_nodes(zt_token_trie *trie)
{
    for (size_t i = trie->node_count; i-- > 0;) {
        gnode *node = &trie->node[i];
        const gnode *child = trie->node + node->first;
        for (unsigned j = 0; node->wide != WIDE_TAIL && j < node->count; j++) {
            node->groups |= child[j].groups;
            if (child[j].most > node->most) node->most = child[j].most;
        }
    }
}

/* The trie of the tokens of one family. */
static bool make_trie(trie_maker *maker, uint32_t root, size_t first, size_t end)
{
    bool made = put_node(maker, (token_span){first, end, root, 0});
    while (made && maker->waiting_count) made = put_node(maker, maker->waiting[--maker->waiting_count]);
    return made;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool make_masks(zt_token_trie *trie, const sorted_token *tokens, size_t count)
{
    for (int i = 0; i < FAMILIES; i++) {
        gfamily *family = &trie->family[i];
        for (int group = 0; group < GROUPS; group++)
            if (!(family->with[group] = zt_calloc(trie->ctx, trie->words, sizeof **family->with))) return false;
        for (int length = 0; length < TOKEN_LENGTHS; length++)
            if (!(family->upto[length] = zt_calloc(trie->ctx, trie->words, sizeof **family->upto))) return false;
    }
    for (size_t i = 0; i < count; i++) {
        gfamily *family = &trie->family[tokens[i].family];
        size_t word = (size_t)tokens[i].id / 64;
        uint64_t bit = UINT64_C(1) << tokens[i].id % 64;
        for (int group = 0; group < GROUPS; group++)
            if (tokens[i].groups >> group & 1) family->with[group][word] |= bit, family->with_count[group]++;
        family->upto[tokens[i].characters < ANY_LENGTH ? tokens[i].characters : ANY_LENGTH][word] |= bit;
    }
    for (int i = 0; i < FAMILIES; i++)
        for (int length = 1; length < TOKEN_LENGTHS; length++)
            for (size_t word = 0; word < trie->words; word++)
                trie->family[i].upto[length][word] |= trie->family[i].upto[length - 1][word];
    return true;
}

static sorted_token token_of_family(const zt_token_trie *trie, int32_t id)
{
    const char *bytes = trie->bytes + trie->first[id];
    uint32_t size = trie->first[id + 1] - trie->first[id];
    bool spaced = size > 1 && *bytes == ' ';
    sorted_token token = {.bytes = bytes + spaced, .size = size - spaced, .id = id, .node_token = id};
    token.family = spaced ? FAMILY_SPACED : FAMILY_OTHER;
    token.groups = zt_g_groups(token.bytes, token.size, &token.characters);
    return token;
}

static bool make_tries(zt_token_trie *trie)
{
    sorted_token *tokens = zt_alloc_array(trie->ctx, (size_t)trie->token_count + 1, sizeof *tokens);
    size_t count = 0, end = 0;
    if (!tokens) return false;
    for (int32_t id = 0; id < trie->token_count; id++) {
        if (trie->first[id] < trie->first[id + 1]) tokens[count++] = token_of_family(trie, id);
    }
    bool made = sort_tokens(trie->ctx, tokens, count) && make_masks(trie, tokens, count);
    count = link_same(trie, tokens, count);
    trie_maker maker = {.trie = trie, .tokens = tokens};
    trie->node_count = FAMILIES;
    made = made && reserve_items(trie->ctx, (void **)&trie->node, sizeof *trie->node, FAMILIES, &trie->node_capacity);
    if (made) memset(trie->node, 0, FAMILIES * sizeof *trie->node);
    for (int family = 0; family < FAMILIES && made; family++) {
        size_t first = end;
        while (end < count && tokens[end].family == family) end++;
        trie->family[family].root = (uint32_t)family;
        made = make_trie(&maker, (uint32_t)family, first, end);
    }
    if (made) summarize_nodes(trie);
    zt_free(trie->ctx, maker.waiting);
    zt_free(trie->ctx, tokens);
    return made;
}

zt_token_trie *zt_token_trie_new(zt_ctx *ctx, const zt_vocab *vocab)
{
    ZT_REQUIRE(ctx, vocab, NULL);
    zt_token_trie *trie = zt_calloc(ctx, 1, sizeof *trie);
    if (!trie) return NULL;
    zt_str bytes;
    zt_str_init(&bytes, ctx);
    trie->ctx = ctx;
    trie->token_count = zt_vocab_size(vocab);
    trie->words = ((size_t)trie->token_count + 63) / 64;
    trie->first = zt_alloc_array(ctx, (size_t)trie->token_count + 1, sizeof *trie->first);
    trie->same = zt_alloc_array(ctx, (size_t)trie->token_count + 1, sizeof *trie->same);
    bool made = trie->first && trie->same && list_bytes(trie, vocab, &bytes) == ZT_OK;
    if (made) {
        memset(trie->same, 0xff, ((size_t)trie->token_count + 1) * sizeof *trie->same);
        trie->bytes = zt_strndup(ctx, bytes.data, bytes.len);
        trie->tail = zt_alloc(ctx, bytes.len + 1);
        trie->groups = zt_g_character_groups(ctx);
        made = trie->bytes && trie->tail && trie->groups && make_tries(trie);
    }
    zt_str_fini(&bytes);
    if (made) {
        char *fitting = zt_realloc(ctx, trie->tail, trie->tail_size + 1);
        if (fitting) return trie->tail = fitting, trie;
    }
    zt_token_trie_free(trie);
    return NULL;
}

void zt_token_trie_free(zt_token_trie *trie)
{
    if (!trie) return;
    zt_ctx *ctx = trie->ctx;
    for (int i = 0; i < FAMILIES; i++) {
        for (int group = 0; group < GROUPS; group++) zt_free(ctx, trie->family[i].with[group]);
        for (int length = 0; length < TOKEN_LENGTHS; length++) zt_free(ctx, trie->family[i].upto[length]);
    }
    zt_free(ctx, trie->groups);
    zt_free(ctx, trie->bytes);
    zt_free(ctx, trie->first);
    zt_free(ctx, trie->same);
    zt_free(ctx, trie->node);
    zt_free(ctx, trie->wide);
    zt_free(ctx, trie->tail);
    zt_free(ctx, trie);
}
