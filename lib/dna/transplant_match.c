/* transplant_match.c - owns which tokens of two vocabularies are the same.
 *
 * Texts are compared as bytes, so that the notations of byte-level BPE and SentencePiece do not matter. Of tokens with the same
 * text the first counts. A special token without an equal is that of its role; a single byte may have its byte token instead.
 */
#include "lib/dna/transplant_internal.h"

typedef struct token_index {
    zt_map *by_kind[2]; /* text: of text tokens, of special tokens */
    int64_t bytes[256]; /* byte tokens; -1: none */
    const zt_transplant_vocab *vocab;
} token_index;

static zt_map *map_of(const token_index *index, zt_transplant_kind kind) { return index->by_kind[kind == ZT_TRANSPLANT_SPECIAL]; }

static zt_status fill_index(zt_ctx *ctx, token_index *index, const zt_transplant_vocab *vocab)
{
    index->vocab = vocab;
    for (int i = 0; i < 2; i++) index->by_kind[i] = zt_map_new(ctx, (size_t)vocab->count);
    for (int i = 0; i < 256; i++) index->bytes[i] = -1;
    zt_status status = index->by_kind[0] && index->by_kind[1] ? ZT_OK : ZT_ENOMEM;
    for (int64_t id = 0; id < vocab->count && status == ZT_OK; id++) {
        const zt_transplant_token *token = &vocab->tokens[id];
        if (!token->text.n) continue;
        if (token->kind == ZT_TRANSPLANT_BYTE) {
            int64_t *byte = &index->bytes[(unsigned char)token->text.data[0]];
            if (*byte < 0) *byte = id;
        } else if (!zt_map_get(map_of(index, token->kind), token->text.data, token->text.n, NULL))
            status = zt_map_put(map_of(index, token->kind), token->text.data, token->text.n, id);
    }
    return status;
}

static void free_index(token_index *index)
{
    for (int i = 0; i < 2; i++) zt_map_free(index->by_kind[i]);
}

static int64_t find_text(const token_index *index, const zt_transplant_token *token, zt_transplant_kind kind)
{
    int64_t id = -1;
    zt_map_get(map_of(index, kind), token->text.data, token->text.n, &id);
    return id;
}

/* The first role of a token; ZT_TRANSPLANT_ROLES: none. */
static int role_of(const zt_transplant_vocab *vocab, int64_t id)
{
    int role = 0;
    while (role < ZT_TRANSPLANT_ROLES && vocab->roles[role] != id) role++;
    return role;
}

static int64_t find_role(const token_index *index, const zt_transplant_vocab *donor, int64_t id)
{
    int role = role_of(donor, id);
    int64_t found = role < ZT_TRANSPLANT_ROLES ? index->vocab->roles[role] : -1;
    return found >= 0 && found < index->vocab->count && role_of(index->vocab, found) == role ? found : -1;
}

static int64_t find_exact(const token_index *index, const zt_transplant_vocab *donor, int64_t id)
{
    const zt_transplant_token *token = &donor->tokens[id];
    const bool special = token->kind == ZT_TRANSPLANT_SPECIAL;
    if (!token->text.n) return find_role(index, donor, id);
    if (token->kind == ZT_TRANSPLANT_BYTE) return index->bytes[(unsigned char)token->text.data[0]];
    int64_t found = find_text(index, token, token->kind);
    if (found < 0) found = find_text(index, token, special ? ZT_TRANSPLANT_TEXT : ZT_TRANSPLANT_SPECIAL);
    return found < 0 ? find_role(index, donor, id) : found;
}

static int64_t find_byte(const token_index *index, const zt_transplant_token *token)
{
    if (token->text.n != 1 || token->kind == ZT_TRANSPLANT_SPECIAL) return -1;
    return token->kind == ZT_TRANSPLANT_BYTE ? find_text(index, token, ZT_TRANSPLANT_TEXT)
                                             : index->bytes[(unsigned char)token->text.data[0]];
}

zt_status zt_transplant_match(zt_ctx *ctx, const zt_transplant_vocab *model, const zt_transplant_vocab *donor, int64_t *ids,
                              bool *exact)
{
    token_index index = {0};
    zt_status status = fill_index(ctx, &index, model);
    for (int64_t id = 0; id < donor->count && status == ZT_OK; id++) {
        ids[id] = find_exact(&index, donor, id);
        exact[id] = ids[id] >= 0;
        if (ids[id] < 0) ids[id] = find_byte(&index, &donor->tokens[id]);
    }
    free_index(&index);
    return status;
}
