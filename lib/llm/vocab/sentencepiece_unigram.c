/* sentencepiece_unigram.c - SentencePiece's Unigram model: the pieces whose scores add up best.
 *
 * Viterbi over byte positions. Sums are floats, in SentencePiece's order, so that near ties are
 * decided as it decides them. Source: unigram_model.cc of google/sentencepiece, as facts. */
#include "lib/llm/vocab/vocab_sentencepiece.h"

#define UNKNOWN_PENALTY 10.0f
#define RESET_SCORE     100000.0f /* a sum beyond this starts again from 0, to keep its precision */

typedef struct best_path { /* the best way to a position */
    float score;
    int32_t from, id; /* where its last piece starts, -1: not reached; that piece */
} best_path;

/* A user's symbol counts more than any other, a long one more than several short ones. */
static float piece_score(const zt_sp *pieces, int32_t id, size_t size)
{
    const zt_sp_piece *piece = &pieces->model.piece[id];
    return piece->type == ZT_TOK_USER ? (float)(0.1 * ((double)size - 1)) : piece->score;
}

static void offer_path(best_path *path, float score, size_t from, int32_t id)
{
    if (path->from < 0 || score > path->score) *path = (best_path){score, (int32_t)from, id};
}

static void reset_scores(best_path *paths, size_t position, size_t frontier)
{
    float offset = paths[position].score;
    for (size_t i = position; i <= frontier; i++)
        if (i == position || paths[i].from >= 0) paths[i].score -= offset;
}

/* All pieces that begin at `offset`. */
static void extend_paths(const zt_sp_out *output, best_path *paths, size_t offset, size_t length, size_t *frontier)
{
    const zt_sp *pieces = output->pieces;
    bool whole = false; /* the character itself is a piece */
    uint32_t node = ZT_TRIE_ROOT;
    if (paths[offset].score < -RESET_SCORE || paths[offset].score > RESET_SCORE) reset_scores(paths, offset, *frontier);
    float before = paths[offset].score;
    for (size_t i = offset; i < output->size; i++) {
        node = zt_trie_step(pieces->trie, node, (unsigned char)output->text[i]);
        if (node == ZT_TRIE_NONE) break;
        int32_t id = zt_trie_value(pieces->trie, node);
        if (id < 0 || pieces->model.piece[id].type == ZT_TOK_UNUSED) continue;
        *frontier = i + 1 > *frontier ? i + 1 : *frontier;
        offer_path(&paths[i + 1], piece_score(pieces, id, i + 1 - offset) + before, offset, id);
        whole = whole || i + 1 == offset + length;
    }
    if (whole) return;
    *frontier = offset + length > *frontier ? offset + length : *frontier;
    offer_path(&paths[offset + length], pieces->worst - UNKNOWN_PENALTY + before, offset, pieces->model.unk);
}

/* Reverses the best path: each `from` becomes the end of the next piece. Returns the end of the first piece. */
static size_t reverse_path(best_path *paths, size_t size)
{
    size_t position = size, next = size;
    for (;;) {
        size_t from = (size_t)paths[position].from;
        paths[position].from = (int32_t)next;
        if (!from) return position;
        next = position;
        position = from;
    }
}

zt_status zt_sp_unigram(zt_sp_out *output, zt_merger *merger)
{
    zt_status status = ZT_OK;
    size_t frontier = 0;
    (void)merger;
    best_path *paths = zt_alloc_array(output->vocab->ctx, output->size + 1, sizeof *paths);
    if (!paths) return ZT_ENOMEM;
    for (size_t i = 0; i <= output->size; i++) paths[i] = (best_path){0, -1, -1};
    for (size_t offset = 0, length; offset < output->size; offset += length) {
        length = zt_sp_char(output->text + offset, output->size - offset);
        extend_paths(output, paths, offset, length, &frontier);
    }
    for (size_t start = 0, end = reverse_path(paths, output->size); status == ZT_OK && start < output->size;) {
        status = zt_sp_emit(output, start, end - start, paths[end].id);
        start = end;
        end = (size_t)paths[end].from;
    }
    zt_free(output->vocab->ctx, paths);
    return status;
}
