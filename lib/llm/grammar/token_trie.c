/* token_trie.c - the bytes of a vocabulary's tokens as tries, one for each slice.
 *
 * A trie is an array of nodes in the order of a depth-first search, so that a search is one pass over the array, which jumps over
 * the subtree of a byte that is not allowed.
 */
#include "lib/base/require.h"
#include "lib/llm/grammar/internal.h"
#include "lib/llm/vocab/vocab.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_TOKEN = 4096 }; /* bytes; longer ones are never chosen */

typedef struct sorted_token {
    const char *bytes;
    uint32_t size;
    int32_t id;
    int slice, characters;
} sorted_token;

/* The number of characters, if all are plain, or 0. */
static int count_plain(const char *bytes, size_t size)
{
    int count = 0;
    for (size_t at = 0; at < size; count++) {
        uint32_t code_point;
        int length = zt_utf8_decode(bytes + at, size - at, &code_point);
        if (length == 0 || code_point < 0x20 || code_point == '"' || code_point == '\\') return 0;
        at += (size_t)length;
    }
    return count;
}

static int slice_of(int characters)
{
    static const int longest[SLICES - 1] = {0, 4, 8, 16};
    int slice = 0;
    while (slice < SLICES - 1 && characters > longest[slice]) slice++;
    return slice;
}

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

static int compare_tokens(const void *first, const void *second)
{
    const sorted_token *left = first, *right = second;
    if (left->slice != right->slice) return left->slice < right->slice ? -1 : 1;
    uint32_t shorter = left->size < right->size ? left->size : right->size;
    int order = memcmp(left->bytes, right->bytes, shorter);
    if (order == 0) order = (left->size > right->size) - (left->size < right->size);
    return order ? order : (left->id > right->id) - (left->id < right->id);
}

/* Appends the nodes of a token behind those of the one before it, with which it has `common` bytes in common. open[depth]:
 * the node of the last token at that depth. */
static void put_nodes(zt_token_trie *trie, const sorted_token *token, uint32_t common, uint32_t *open, uint32_t *depth)
{
    while (*depth > common) trie->node[open[--*depth]].skip = trie->node_count;
    for (; *depth < token->size; (*depth)++) {
        open[*depth] = trie->node_count;
        trie->node[trie->node_count++] =
            (gnode){.token = -1, .byte = (unsigned char)token->bytes[*depth], .depth = (uint16_t)(*depth + 1)};
    }
    if (trie->depth < (int)token->size) trie->depth = (int)token->size;
}

static uint32_t common_bytes(const sorted_token *left, const sorted_token *right)
{
    uint32_t common = 0;
    while (common < left->size && common < right->size && left->bytes[common] == right->bytes[common]) common++;
    return common;
}

/* The trie of the tokens of one slice. */
static bool make_slice(zt_token_trie *trie, gslice *slice, const sorted_token *tokens, size_t count, bool plain)
{
    uint32_t open[LONGEST_TOKEN], depth = 0;
    slice->first = trie->node_count;
    if (plain && !(slice->mask = zt_calloc(trie->ctx, trie->words, sizeof *slice->mask))) return false;
    for (size_t i = 0; i < count; i++) {
        const sorted_token *token = &tokens[i];
        uint32_t common = i ? common_bytes(&tokens[i - 1], token) : 0;
        if (plain) slice->mask[token->id / 64] |= UINT64_C(1) << token->id % 64;
        if (token->characters > slice->characters) slice->characters = token->characters;
        if (i && common == token->size && tokens[i - 1].size == token->size) { /* the same bytes again */
            trie->same[tokens[i - 1].id] = token->id;
            continue;
        }
        put_nodes(trie, token, common, open, &depth);
        trie->node[trie->node_count - 1].token = token->id;
    }
    while (depth) trie->node[open[--depth]].skip = trie->node_count;
    slice->end = trie->node_count;
    return true;
}

static bool make_slices(zt_token_trie *trie)
{
    sorted_token *tokens = zt_alloc_array(trie->ctx, (size_t)trie->token_count + 1, sizeof *tokens);
    size_t count = 0, first = 0;
    if (!tokens) return false;
    for (int32_t id = 0; id < trie->token_count; id++) {
        const char *bytes = trie->bytes + trie->first[id];
        uint32_t size = trie->first[id + 1] - trie->first[id];
        int characters = count_plain(bytes, size);
        if (size) tokens[count++] = (sorted_token){bytes, size, id, characters ? slice_of(characters) : 0, characters};
    }
    if (count > 1) qsort(tokens, count, sizeof *tokens, compare_tokens);
    bool made = true;
    for (int slice = 0; slice < SLICES && made; slice++) {
        size_t end = first;
        while (end < count && tokens[end].slice == slice) end++;
        made = make_slice(trie, &trie->slice[slice], tokens + first, end - first, slice > 0);
        first = end;
    }
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
        trie->node = zt_alloc_array(ctx, bytes.len + 1, sizeof *trie->node);
        made = trie->bytes && trie->node && make_slices(trie);
    }
    zt_str_fini(&bytes);
    if (made) { /* most nodes are shared */
        gnode *fitting = zt_realloc(ctx, trie->node, (trie->node_count + 1) * sizeof *trie->node);
        if (fitting) return trie->node = fitting, trie;
    }
    zt_token_trie_free(trie);
    return NULL;
}

void zt_token_trie_free(zt_token_trie *trie)
{
    if (!trie) return;
    zt_ctx *ctx = trie->ctx;
    for (int slice = 0; slice < SLICES; slice++) zt_free(ctx, trie->slice[slice].mask);
    zt_free(ctx, trie->bytes);
    zt_free(ctx, trie->first);
    zt_free(ctx, trie->same);
    zt_free(ctx, trie->node);
    zt_free(ctx, trie);
}
