/* sentencepiece_unigram.c - SentencePiece's Unigram model: the pieces whose scores add up best.
 *
 * Viterbi over byte positions. Sums are floats, in SentencePiece's order, so that near ties are
 * decided as it decides them. Source: unigram_model.cc of google/sentencepiece, as facts. */
#include "lib/llm/vocab/vocab_sentencepiece.h"

#define UNKNOWN_PENALTY 10.0f
#define RESET_SCORE     100000.0f /* a sum beyond this starts again from 0, to keep its precision */

typedef struct best { /* the best way to a position */
    float score;
    int32_t from, id; /* where its last piece starts, -1: not reached; that piece */
} best;

/* A user's symbol counts more than any other, a long one more than several short ones. */
static float score_of(const zt_sp *k, int32_t id, size_t n)
{
    const zt_sp_piece *p = &k->m.piece[id];
    return p->type == ZT_TOK_USER ? (float)(0.1 * ((double)n - 1)) : p->score;
}

static void offer(best *b, float score, size_t from, int32_t id)
{
    if (b->from < 0 || score > b->score)
        *b = (best){score, (int32_t)from, id};
}

static void reset_scores(best *b, size_t at, size_t frontier)
{
    float offset = b[at].score;
    for (size_t i = at; i <= frontier; i++)
        if (i == at || b[i].from >= 0)
            b[i].score -= offset;
}

/* All pieces that begin at `at`. */
static void step(const zt_sp_out *o, best *b, size_t at, size_t len, size_t *frontier)
{
    const zt_sp *k = o->k;
    bool whole = false; /* the character itself is a piece */
    uint32_t node = ZT_TRIE_ROOT;
    if (b[at].score < -RESET_SCORE || b[at].score > RESET_SCORE)
        reset_scores(b, at, *frontier);
    float before = b[at].score;
    for (size_t i = at; i < o->n; i++) {
        node = zt_trie_step(k->trie, node, (unsigned char)o->text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        int32_t id = zt_trie_value(k->trie, node);
        if (id < 0 || k->m.piece[id].type == ZT_TOK_UNUSED)
            continue;
        *frontier = i + 1 > *frontier ? i + 1 : *frontier;
        offer(&b[i + 1], score_of(k, id, i + 1 - at) + before, at, id);
        whole = whole || i + 1 == at + len;
    }
    if (whole)
        return;
    *frontier = at + len > *frontier ? at + len : *frontier;
    offer(&b[at + len], k->worst - UNKNOWN_PENALTY + before, at, k->m.unk);
}

/* Turns the best way round: each `from` becomes the end of the piece that comes next. Returns the
 * end of the first. */
static size_t turn(best *b, size_t n)
{
    size_t at = n, next = n;
    for (;;) {
        size_t from = (size_t)b[at].from;
        b[at].from = (int32_t)next;
        if (!from)
            return at;
        next = at;
        at = from;
    }
}

zt_status zt_sp_unigram(zt_sp_out *o, zt_merger *m)
{
    zt_status s = ZT_OK;
    size_t frontier = 0;
    (void)m;
    best *b = zt_alloc_array(o->v->ctx, o->n + 1, sizeof *b);
    if (!b)
        return ZT_ENOMEM;
    for (size_t i = 0; i <= o->n; i++)
        b[i] = (best){0, -1, -1};
    for (size_t at = 0, len; at < o->n; at += len) {
        len = zt_sp_char(o->text + at, o->n - at);
        step(o, b, at, len, &frontier);
    }
    for (size_t start = 0, end = turn(b, o->n); s == ZT_OK && start < o->n;) {
        s = zt_sp_emit(o, start, end - start, b[end].id);
        start = end;
        end = (size_t)b[end].from;
    }
    zt_free(o->v->ctx, b);
    return s;
}
