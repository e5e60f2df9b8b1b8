/* planted.h - the arguments of planted.cu's kernels, for C and C++. */
#ifndef ZT_EMU_PLANTED_H
#define ZT_EMU_PLANTED_H

#include <stdint.h>

typedef struct emu_args {
    uint64_t x, y, z, word; /* word: of a grid barrier */
    int64_t n;
} emu_args;

#endif
