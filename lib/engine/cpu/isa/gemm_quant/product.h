/* product.h - private to isa/: one product x w^T + b, with packed weights, as a part of a call (product.c).
 *
 * A product is made anew for each run of its call, from the operands alone, which costs less than a block of its
 * multiplying. Its work is two phases of items:
 *
 *   prepare_items     bring weights and x into their forms (often none)
 *   multiply_items    a group of 16 columns of y for block_tokens rows of x: item i is group i % group_count of the
 *                     rows from i / group_count * block_tokens on
 */
#ifndef ZT_CPU_PRODUCT_H
#define ZT_CPU_PRODUCT_H

#include "lib/engine/cpu/cpu.h"

typedef struct zt_product {
    const zt_cpu_arg *x, *w, *b; /* x [tokens, K], w [M, K]; b->data NULL: no bias */
    const int32_t *rows;         /* NULL, or which row of x each token is: x may then have any number of rows */
    int64_t tokens, K, M;
    int64_t act_rows, parts; /* rows of activations: `parts` for each token (act=q16: 2) */
    int act_form;            /* tile_table.h */
    int64_t act_row_bytes;   /* in that form; 0: x is read in place */
    int64_t block_tokens, group_count;
    int groups_at_once; /* that a tile may take together */
    int64_t prepare_items, multiply_items;
    bool f32_acts;        /* act=f32: x is not rounded */
    bool packs_weights;   /* the weights must be packed first */
    bool acts_per_thread; /* few rows: every thread brings them into their form for itself */
    bool acts_in_place;   /* x is in its form already */
    bool decodes_weights; /* to f32, group by group */
    bool unpacks;         /* or unpacks them, for many tiles */
    bool uses_amx;        /* which AMX multiplies */
    size_t packed_bytes;  /* of weights packed here, at the beginning of `shared` */
    size_t shared_bytes, local_bytes;
    size_t acts_bytes; /* of activations, in `shared` after those, or with acts_per_thread by each thread */
    uint8_t *shared;
} zt_product;

/* Where products go: element (token, column) of y is
 * at[(token - first_token) * row_stride + column - first_column], of x's dtype; with `rows` it is
 * at[rows[token] * row_stride + column]. */
typedef struct zt_product_out {
    char *at;
    int64_t row_stride, first_token, first_column;
    const int32_t *rows; /* NULL: as they are */
} zt_product_out;

bool ZT_SYM(zt_product_supports)(const zt_type *x, const zt_type *w, const zt_type *b);
zt_product ZT_SYM(zt_product_make)(const zt_cpu_arg *x, const zt_cpu_arg *w, const zt_cpu_arg *b, const char *act,
                                   zt_cpu_tile tile, uint8_t *shared);
/* The same of `count` tokens, whose rows of x `rows` names. */
zt_product ZT_SYM(zt_product_make_rows)(const zt_cpu_arg *x, const int32_t *rows, int64_t count, const zt_cpu_arg *w,
                                        const zt_cpu_arg *b, const char *act, zt_cpu_tile tile, uint8_t *shared);
/* Items begin..end-1 of the first phase. `local`: local_bytes of the thread's own. */
void ZT_SYM(zt_product_prepare)(const zt_product *product, int64_t begin, int64_t end, uint8_t *local);
/* Activations in their form: in place, where the first phase left them, or made now at `room`, acts_bytes on a line.
 * May be another product's, where zt_product_same_acts. */
const uint8_t *ZT_SYM(zt_product_activations)(const zt_product *product, uint8_t *room, uint8_t *local);
/* Tokens first..last-1 of x (in one block) times groups begin..end-1. */
void ZT_SYM(zt_product_multiply)(const zt_product *product, const uint8_t *acts, const zt_product_out *out, int64_t first,
                                 int64_t last, int64_t begin, int64_t end, uint8_t *local);
/* Items begin..end-1 of the second phase; y: all of the output, [tokens, M]. */
void ZT_SYM(zt_product_multiply_items)(const zt_product *product, const uint8_t *acts, void *y, int64_t begin, int64_t end,
                                       uint8_t *local);
/* The weights of groups begin..end-1, where they are packed and one block has all rows of x; returns how many
 * pieces: one or none. */
int ZT_SYM(zt_product_prefetch)(const zt_product *product, int64_t begin, int64_t end, zt_cpu_prefetch *piece);
/* Do two products of the same x bring it into the same form? */
bool ZT_SYM(zt_product_same_acts)(const zt_product *a, const zt_product *b);

#endif
