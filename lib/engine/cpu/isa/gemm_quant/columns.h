/* columns.h - private to isa/: columns of a group of 16 rows of a weight as f32. */
#ifndef ZT_CPU_GEMM_QUANT_COLUMNS_H
#define ZT_CPU_GEMM_QUANT_COLUMNS_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/pack.h"

/* Decodes columns k..k+count-1 of rows 16 group.. of w, a matrix of any type, packed or as in a file: to[column * stride + row],
 * rows and columns behind the last are zeros. k and count: multiples of 16. room: ZT_COLUMNS_ROOM floats. The values are those
 * of the dtype's decode. */
enum { ZT_COLUMNS_ROOM = 512 };
void ZT_SYM(zt_weight_columns)(const zt_cpu_arg *w, int64_t group, int64_t k, int64_t count, float *to, int64_t stride,
                               float *room);

#endif
