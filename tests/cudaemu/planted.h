/* planted.h - the arguments of the planted kernels, for C and C++. */
#ifndef ZT_EMU_PLANTED_H
#define ZT_EMU_PLANTED_H

#include "lib/engine/cuda/args_wgmma.h"

typedef struct emu_args {
    uint64_t x, y, z, word; /* word: of a grid barrier */
    int64_t n;
    zt_cu_tensor_map map; /* x as 16 rows of 64 numbers of 16 bits, in boxes of 8 rows */
} emu_args;

#endif
