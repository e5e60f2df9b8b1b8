/* pages.h - a cache of keys and values in blocks: which sequence owns which, exactly counted.
 *
 * The cache itself is a program's: rows [blocks * size, columns] that kv_put writes and attention
 * reads by `pos`, `seq` and `table`. zt_pages keeps the table. Sequences grow token by token from
 * one stock of blocks, give back what they have when they are cut or end, and may share whole
 * blocks of a common beginning:
 *
 *     zt_pages *p = zt_pages_open(ctx, 256, 16, 8);   // 256 blocks of 16 positions, 8 sequences
 *     int a = zt_pages_begin(p);
 *     int32_t pos[20], seq[20];
 *     zt_pages_append(p, a, 20, pos, seq);            // two blocks; inputs of kv_put and attention
 *     ... run with zt_pages_table(p), i32[8,256] ...
 *     int b = zt_pages_share(p, a, 20);               // begins with a's first 16 positions
 *     zt_pages_end(p, a), zt_pages_end(p, b);
 *     zt_pages_close(p);
 *
 * One thread at a time. A refused call changes nothing.
 */
#ifndef ZT_PAGES_H
#define ZT_PAGES_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zt_pages zt_pages;

/* blocks * size at most INT32_MAX. */
zt_pages *zt_pages_open(zt_ctx *ctx, int64_t blocks, int64_t size, int64_t sequences);
void zt_pages_close(zt_pages *p);

/* An empty sequence's number, the lowest that is free; -1: all are in use. */
int zt_pages_begin(zt_pages *p);
/* Blocks for n positions in all, so that appends up to there cannot fail. */
zt_status zt_pages_reserve(zt_pages *p, int seq, int64_t n);
/* n positions more. pos and seqs (NULL: not wanted) get them, n numbers each. ZT_ENOMEM: not so
 * many blocks are free. */
zt_status zt_pages_append(zt_pages *p, int seq, int64_t n, int32_t *pos, int32_t *seqs);
/* At most n positions are kept; fewer where n is in the middle of a block that another sequence
 * shares, for appends would write there. Returns how many, -1: no such sequence or n below 0. */
int64_t zt_pages_cut(zt_pages *p, int seq, int64_t n);
/* A new sequence that begins with seq's first n positions, as far as they fill whole blocks: those
 * are shared. Its number, -1 on failure; its length says how far. */
int zt_pages_share(zt_pages *p, int seq, int64_t n);
void zt_pages_end(zt_pages *p, int seq); /* a number not in use: nothing */

int64_t zt_pages_length(const zt_pages *p, int seq); /* -1: not in use */
int64_t zt_pages_left(const zt_pages *p); /* blocks that nobody owns */
/* [sequences, blocks] as kv_put and attention want it: row s holds the blocks of sequence s in
 * order of its positions, then zeros. */
const int32_t *zt_pages_table(const zt_pages *p);

typedef struct zt_pages_count {
    int64_t blocks, size;
    int64_t sequences; /* in use */
    int64_t used;      /* blocks owned by any */
    int64_t peak;      /* most ever used at once */
    int64_t shared;    /* blocks owned by more than one */
    int64_t positions; /* of all sequences */
} zt_pages_count;
zt_pages_count zt_pages_counted(const zt_pages *p);

#ifdef __cplusplus
}
#endif
#endif
