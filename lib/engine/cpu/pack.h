/* pack.h - private to lib/engine/cpu: weights as the inner loops want them.
 *
 * A weight w[M,K] is kept once, its rows interleaved in groups of 16 (M padded with zero rows): one
 * 512-bit register holds four bytes (k..k+3) of each of 16 rows, so that a dot product of 8-bit
 * values walks K in order for 16 rows at once, on every instruction set, and the sums of a row never
 * depend on how many tokens there are.
 *
 * Group g is at g * zt_pack_group_bytes. Inside a group, K is walked in blocks:
 *
 *   f32         [K][16] float
 *   f16         [K][16] half
 *   bf16        [K/2 up][16][2] bfloat16 (pairs, for vdpbf16ps; odd K padded with zero)
 *   block types per 32 columns: codes of 16 rows, unsigned, then scales:
 *     4 bits    u8 nib[4][64]: byte 4*r+j of nib[i] has code (r, k=4i+j) in its low and code
 *               (r, k=16+4i+j) in its high half
 *     5 bits    the same, then u64 hi[8]: bit b of hi[i] is the fifth bit of byte b of the i-th
 *               register of 64 codes (i 0..3: k=4i.., 4..7: k=16+4(i-4)..)
 *     6 bits    the same nibbles, then u8 hi[2][64]: two bits of codes: byte b of hi[h] has, at bits
 *               2*i, the upper two bits of byte b of register 4*h+i
 *     8 bits    u8 code[8][64]: register i has k=4i..4i+3; q8_0 as code + 128
 *
 *   type   bits  value                       scales after (or before) the codes of a block
 *   q4_0   4     d (code - 8)                f16 d[16]
 *   q4_1   4     d code + m                  f16 d[16], f16 m[16]
 *   q5_0   5     d (code - 16)               f16 d[16]
 *   q5_1   5     d code + m                  f16 d[16], f16 m[16]
 *   q8_0   8     d (code - 128)              f16 d[16]
 *   q4_k   4     d sc code - dmin mn         per 256 columns first: f16 d[16], f16 dmin[16],
 *   q5_k   5     the same                      u8 sc[8][16], u8 mn[8][16]; then 8 blocks of codes
 *   q6_k   6     d sc (code - 32)            per 256 columns first: f16 d[16], i8 sc[16][16] (one a
 *                                              16 columns); then 8 blocks of codes
 *
 * These are the sizes of the files' own types but for the unpacked 6-bit scales of q4_k and q5_k.
 */
#ifndef ZT_CPU_PACK_H
#define ZT_CPU_PACK_H

#include "lib/tensor/tensor.h"

#define ZT_PACK_ROWS 16

bool zt_pack_has(zt_dtype t);                             /* may weights of this type be packed */
size_t zt_pack_group_bytes(zt_dtype t, int64_t K);        /* a multiple of 64 */
/* rows <= 16 rows of file layout, row_bytes apart, to one group; missing rows become zero. */
void zt_pack_group(zt_dtype t, int64_t K, const void *src, size_t row_bytes, int rows, void *dst);
/* Row r of a group back to f32[K], the same values as the dtype table's decode. */
void zt_unpack_row(zt_dtype t, int64_t K, const void *group, int r, float *dst);

#endif
