/* sentencepiece_bpe.c - SentencePiece's BPE model: neighbours merge while their text is a piece,
 * the best score first.
 *
 * Symbols are characters, and user-defined symbols, which never merge. An unused piece takes part in merging; if it is
 * left at the end, it is split again into the two parts that it was last seen made of. Source: bpe_model.cc of
 * google/sentencepiece, as facts. */
#include "lib/llm/vocab/vocab_sentencepiece.h"

#include <string.h>

enum { FROZEN = -2, DEPTH = 100 }; /* a user's symbol; how often a piece comes apart at most */

/* Scores to integers in opposite order: the best score is the smallest. */
static uint32_t score_order(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

typedef struct pair_search { /* of one text */
    const zt_sp *pieces;
    uint32_t *left; /* [pieces]: of a piece that is not to be used, bytes of its left part; or NULL */
} pair_search;

static bool find_pair(const void *arg, const char *text, const zt_sym *left, const zt_sym *right, uint32_t *rank, int32_t *id)
{
    const pair_search *search = arg;
    if (left->id == FROZEN || right->id == FROZEN) return false;
    *id = zt_sp_find(search->pieces, text + left->offset, (size_t)left->length + right->length);
    if (*id < 0) return false;
    const zt_sp_piece *piece = &search->pieces->model.piece[*id];
    *rank = score_order(piece->score);
    if (piece->type == ZT_TOK_UNUSED) search->left[*id] = left->length;
    return true;
}

static zt_status split_symbols(const zt_sp_out *output, zt_merger *merger)
{
    zt_status status = zt_merger_reserve(merger, output->size);
    size_t count = 0;
    for (size_t offset = 0, length; status == ZT_OK && offset < output->size; offset += length, count++) {
        size_t user = zt_sp_longest(output->pieces->user, output->text + offset, output->size - offset);
        length = user ? user : zt_sp_char(output->text + offset, output->size - offset);
        merger->symbols[count] = (zt_sym){.offset = (uint32_t)offset, .length = (uint32_t)length, .id = user ? FROZEN : -1};
    }
    merger->count = count;
    return status;
}

typedef struct piece_part { /* of a piece that comes apart */
    size_t offset, size;
    int depth;
} piece_part;

/* Bytes of the left part of this text, 0: it stays whole, as *id. */
static size_t split_piece(const zt_sp *pieces, const pair_search *search, const char *text, piece_part part, int32_t *id)
{
    *id = zt_sp_find(pieces, text, part.size);
    if (*id < 0) *id = pieces->model.unk;
    if (*id < 0 || pieces->model.piece[*id].type != ZT_TOK_UNUSED || part.depth > DEPTH) return 0;
    size_t left = search->left[*id];
    if (!left) *id = pieces->model.unk;
    return left;
}

/* Emits the left part first; the right parts wait on a stack, at most one for each level. */
static zt_status emit_parts(zt_sp_out *output, const pair_search *search, size_t offset, size_t size)
{
    piece_part stack[DEPTH + 3];
    int top = 0;
    zt_status status = ZT_OK;
    stack[top++] = (piece_part){offset, size, 0};
    while (status == ZT_OK && top > 0) {
        piece_part part = stack[--top];
        int32_t id;
        size_t left = split_piece(output->pieces, search, output->text + part.offset, part, &id);
        if (!left) {
            status = zt_sp_emit(output, part.offset, part.size, id);
            continue;
        }
        stack[top++] = (piece_part){part.offset + left, part.size - left, part.depth + 1};
        stack[top++] = (piece_part){part.offset, left, part.depth + 1};
    }
    return status;
}

zt_status zt_sp_bpe(zt_sp_out *output, zt_merger *merger)
{
    pair_search search = {.pieces = output->pieces};
    zt_status status = split_symbols(output, merger);
    if (status == ZT_OK && output->pieces->unused) {
        search.left = zt_calloc(output->vocab->ctx, (size_t)output->pieces->model.piece_count, sizeof *search.left);
        status = search.left ? ZT_OK : ZT_ENOMEM;
    }
    if (status == ZT_OK) zt_merger_run(merger, &search, output->text, find_pair);
    for (int32_t i = 0; status == ZT_OK && i >= 0; i = merger->symbols[i].next)
        status = emit_parts(output, &search, merger->symbols[i].offset, merger->symbols[i].length);
    zt_free(output->vocab->ctx, search.left);
    return status;
}
