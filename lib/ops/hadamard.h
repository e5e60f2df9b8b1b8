/* hadamard.h - the size of the blocks that the op hadamard rotates. */
#ifndef ZT_HADAMARD_H
#define ZT_HADAMARD_H

#include <stdint.h>

/* The largest power of two that divides a head of so many columns; 1 of none. */
static inline int64_t zt_hadamard_size(int64_t head) { return head > 0 ? head & -head : 1; }

#endif
