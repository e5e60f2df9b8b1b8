/* sentencepiece_bpe.c - SentencePiece's BPE model: neighbours merge while their text is a piece,
 * the best score first.
 *
 * Symbols are characters, and the user's symbols, which never merge. A piece that is not to be used
 * takes part in merging; where it is left over it comes apart again, into what it was made of when
 * its pair was last seen. Source: bpe_model.cc of google/sentencepiece, as facts. */
#include "lib/llm/vocab/vocab_sentencepiece.h"

#include <string.h>

enum { FROZEN = -2, DEPTH = 100 }; /* a user's symbol; how often a piece comes apart at most */

/* Scores to integers in opposite order: the best score is the smallest. */
static uint32_t order_of(float score)
{
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

typedef struct pairs { /* of one text */
    const zt_sp *k;
    uint32_t
        *left; /* [pieces]: of a piece that is not to be used, bytes of its left part; or NULL */
} pairs;

static bool pair(const void *arg, const char *text, const zt_sym *a, const zt_sym *b,
                 uint32_t *rank, int32_t *id)
{
    const pairs *p = arg;
    if (a->id == FROZEN || b->id == FROZEN)
        return false;
    *id = zt_sp_find(p->k, text + a->at, (size_t)a->len + b->len);
    if (*id < 0)
        return false;
    const zt_sp_piece *piece = &p->k->m.piece[*id];
    *rank = order_of(piece->score);
    if (piece->type == ZT_TOK_UNUSED)
        p->left[*id] = a->len;
    return true;
}

static zt_status symbols(const zt_sp_out *o, zt_merger *m)
{
    zt_status s = zt_merger_reserve(m, o->n);
    size_t n = 0;
    for (size_t at = 0, len; s == ZT_OK && at < o->n; at += len, n++) {
        size_t user = zt_sp_longest(o->k->user, o->text + at, o->n - at);
        len = user ? user : zt_sp_char(o->text + at, o->n - at);
        m->sym[n] = (zt_sym){.at = (uint32_t)at, .len = (uint32_t)len, .id = user ? FROZEN : -1};
    }
    m->n = n;
    return s;
}

typedef struct part { /* of a piece that comes apart */
    size_t at, n;
    int depth;
} part;

/* Bytes of the left part of this text, 0: it stays whole, as *id. */
static size_t cut(const zt_sp *k, const pairs *p, const char *text, part w, int32_t *id)
{
    *id = zt_sp_find(k, text, w.n);
    if (*id < 0)
        *id = k->m.unk;
    if (*id < 0 || k->m.piece[*id].type != ZT_TOK_UNUSED || w.depth > DEPTH)
        return 0;
    size_t left = p->left[*id];
    if (!left)
        *id = k->m.unk;
    return left;
}

/* The left part first: a stack of right parts that wait, at most one for each level. */
static zt_status emit_parts(zt_sp_out *o, const pairs *p, size_t at, size_t n)
{
    part stack[DEPTH + 3];
    int top = 0;
    zt_status s = ZT_OK;
    stack[top++] = (part){at, n, 0};
    while (s == ZT_OK && top > 0) {
        part w = stack[--top];
        int32_t id;
        size_t left = cut(o->k, p, o->text + w.at, w, &id);
        if (!left) {
            s = zt_sp_emit(o, w.at, w.n, id);
            continue;
        }
        stack[top++] = (part){w.at + left, w.n - left, w.depth + 1};
        stack[top++] = (part){w.at, left, w.depth + 1};
    }
    return s;
}

zt_status zt_sp_bpe(zt_sp_out *o, zt_merger *m)
{
    pairs p = {.k = o->k};
    zt_status s = symbols(o, m);
    if (s == ZT_OK && o->k->unused) {
        p.left = zt_calloc(o->v->ctx, (size_t)o->k->m.n, sizeof *p.left);
        s = p.left ? ZT_OK : ZT_ENOMEM;
    }
    if (s == ZT_OK)
        zt_merger_run(m, &p, o->text, pair);
    for (int32_t i = 0; s == ZT_OK && i >= 0; i = m->sym[i].next)
        s = emit_parts(o, &p, m->sym[i].at, m->sym[i].len);
    zt_free(o->v->ctx, p.left);
    return s;
}
