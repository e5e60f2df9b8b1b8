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

/* A cache of `blocks` blocks of `size` positions for at most `sequences` sequences. Each is at
 * least 1, blocks * size at most INT32_MAX (ZT_EUSAGE). NULL: failed, see ctx. */
zt_pages *zt_pages_open(zt_ctx *ctx, int64_t blocks, int64_t size, int64_t sequences);
void zt_pages_close(zt_pages *pages); /* NULL: nothing */

/* Begins an empty sequence: its number, the lowest that is free; -1: all are in use (ZT_ENOMEM). */
int zt_pages_begin(zt_pages *pages);
/* Gives the sequence blocks for count positions in all, so that appends up to count cannot fail. ZT_ENOMEM:
 * too few blocks are free; ZT_EUSAGE: seq is not in use. */
zt_status zt_pages_reserve(zt_pages *pages, int seq, int64_t count);
/* Appends count positions. positions[count] gets the positions, seqs[count] the sequence's number count
 * times; NULL: not wanted. ZT_ENOMEM: too few blocks are free; ZT_EUSAGE: seq is not in use, or count
 * below 0. */
zt_status zt_pages_append(zt_pages *pages, int seq, int64_t count, int32_t *positions, int32_t *seqs);
/* Keeps at most the first count positions; fewer where count is inside a block that another sequence
 * shares, since appends would write there. Returns how many are kept; -1: seq is not in use, or count
 * below 0 (ZT_EUSAGE). */
int64_t zt_pages_cut(zt_pages *pages, int seq, int64_t count);
/* Begins a sequence with seq's first count positions, rounded down to whole blocks, which both share.
 * Returns its number (zt_pages_length says how many positions it has); -1: failed, as begin, or seq
 * is not in use. */
int zt_pages_share(zt_pages *pages, int seq, int64_t count);
void zt_pages_end(zt_pages *pages, int seq); /* frees its blocks; a number not in use: nothing */

int64_t zt_pages_length(const zt_pages *pages, int seq); /* positions; -1: not in use */
int64_t zt_pages_left(const zt_pages *pages);            /* blocks that no sequence owns */
/* The block table, i32[sequences, blocks], as kv_put and attention take it: row s holds the blocks
 * of sequence s in order of its positions, then zeros. Lives as long as pages; calls change it. */
const int32_t *zt_pages_table(const zt_pages *pages);

typedef struct zt_pages_count {
    int64_t blocks, size;
    int64_t sequences; /* in use */
    int64_t used;      /* blocks owned by any */
    int64_t peak;      /* most ever used at once */
    int64_t shared;    /* blocks owned by more than one */
    int64_t positions; /* of all sequences */
} zt_pages_count;
zt_pages_count zt_pages_counted(const zt_pages *pages); /* what is in use now */

#ifdef __cplusplus
}
#endif
#endif
