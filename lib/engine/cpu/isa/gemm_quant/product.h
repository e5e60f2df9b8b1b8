/* product.h - private to isa/: one product x w^T + b as a part of a call; product.c owns what it does.
 *
 * A product is made anew for each run of its call, from the operands alone, which costs less than a
 * block of its multiplying. Its work is two phases of items: n_first that bring weights and x into
 * their forms (often none), n_items that multiply, each a group of 16 columns of y for `block` rows
 * of x: item i is group i % groups of the rows from i / groups * block.
 */
#ifndef ZT_CPU_PRODUCT_H
#define ZT_CPU_PRODUCT_H

#include "lib/engine/cpu/cpu.h"

typedef struct zt_product {
    const zt_cpu_arg *x, *w, *b; /* b->data NULL: no bias */
    int64_t n, K, M;
    int64_t rows, parts;  /* of activations: `parts` for each of x (act=q16: 2) */
    int form;             /* of activations */
    int64_t row_bytes;    /* in that form; 0: x is read where it lies */
    int64_t block, groups;
    int at_once;          /* groups that a tile may take together */
    int64_t n_first, n_items;
    bool exact;           /* x is not rounded */
    bool pack;            /* the weights must be packed first */
    bool alone;           /* few rows: every thread brings them into their form for itself */
    bool lies;            /* x is in its form already */
    bool decoded;         /* weights are decoded to f32 group by group */
    bool opens;           /* or unpacked for many tiles */
    bool amx;             /* which AMX multiplies */
    size_t packed_bytes;  /* of weights packed here, at the beginning of `shared` */
    size_t shared_bytes, local_bytes;
    size_t acts_bytes;    /* of activations, in `shared` after those, or with `alone` by each thread */
    uint8_t *shared;
} zt_product;

/* Where products go: element (t, m) of y is at[(t - t0) * step + m - m0], of x's dtype. */
typedef struct zt_product_out {
    char *at;
    int64_t step, t0, m0;
} zt_product_out;

bool ZT_SYM(zt_product_has)(const zt_type *x, const zt_type *w, const zt_type *b);
zt_product ZT_SYM(zt_product_make)(const zt_cpu_arg *x, const zt_cpu_arg *w, const zt_cpu_arg *b,
                                   const char *act, zt_cpu_tile tile, uint8_t *shared);
/* Items of the first phase. `local`: local_bytes of the thread's own. */
void ZT_SYM(zt_product_first)(const zt_product *p, int64_t begin, int64_t end, uint8_t *local);
/* Activations in their form: where x lies, where the first phase left them, or made now at `room`,
 * acts_bytes on a line. Of another product, `of`, where that is alike. */
const uint8_t *ZT_SYM(zt_product_acts)(const zt_product *of, uint8_t *room, uint8_t *local);
/* Rows t..last-1 of x (in one block) times groups g..end-1. */
void ZT_SYM(zt_product_multiply)(const zt_product *p, const uint8_t *acts,
                                 const zt_product_out *out, int64_t t, int64_t last, int64_t g,
                                 int64_t end, uint8_t *local);
/* The weights of groups g..end-1, where they are packed and one block has all rows of x; returns how
 * many pieces: one or none. */
int ZT_SYM(zt_product_ahead)(const zt_product *p, int64_t g, int64_t end, zt_cpu_prefetch *a);
/* Do two products of the same x bring it into the same form? */
bool ZT_SYM(zt_product_alike)(const zt_product *a, const zt_product *b);

#endif
