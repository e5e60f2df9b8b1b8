/* pack.h - private to lib/engine/cpu: weights as the inner loops want them.
 *
 * A weight w[M,K] is kept once, its rows interleaved in groups of 16 (M padded with zero rows): one
 * 512-bit register holds four bytes (k..k+3) of each of 16 rows, so that a dot product of 8-bit
 * values walks K in order for 16 rows at once, on every instruction set, and the sums of a row
 * never depend on how many tokens there are.
 *
 * Group g is at g * zt_pack_group_bytes. Inside a group, K is walked in order:
 *
 *   f32         [K][16] float
 *   f16         [K][16] half
 *   bf16        [K/2 up][16][2] bfloat16 (pairs, for vdpbf16ps; odd K padded with zero)
 *   block types per 32 columns: codes of 16 rows, unsigned, as 8 registers of 64 bytes: byte 4*r+j
 *   of register i is the code of row r, column 4*i+j.
 *     4 bits    u8 nib[4][64]: nib[i] has register i in the low and register 4+i in the high halves
 *     5 bits    the same, then u8 hi[64]: bit i of byte b is the fifth bit of byte b of register i
 *     6 bits    the same nibbles, then u8 hi[2][64]: bits 2*i of byte b of hi[h] are the upper two
 *               bits of byte b of register 4*h+i
 *     8 bits    u8 code[8][64]: q8_0 as code + 128
 *
 *   type   bits  value                  scales after the codes of 32 columns, before those of 256
 *   q4_0   4     d (code - 8)           after: f16 d[16]
 *   q4_1   4     d code + m             after: f16 d[16], f16 m[16]
 *   q5_0   5     d (code - 16)          after: f16 d[16]
 *   q5_1   5     d code + m             after: f16 d[16], f16 m[16]
 *   q8_0   8     d (code - 128)         after: f16 d[16]
 *   iq4_nl 8     d (code - 128)         after: f16 d[16]; 4-bit codes of the file looked up
 *   q4_k   4     d sc code - dmin mn    before: f16 d[16], f16 dmin[16], u8 sc[8][16], u8 mn[8][16]
 *   q5_k   5     the same               the same
 *   q6_k   6     d sc (code - 32)       before: f16 d[16], i8 sc[16][16] (one a 16 columns)
 *
 * These are the sizes of the files' own types but for iq4_nl and the unpacked 6-bit scales of q4_k
 * and q5_k.
 */
#ifndef ZT_CPU_PACK_H
#define ZT_CPU_PACK_H

#include "lib/tensor/tensor.h"

#define ZT_PACK_ROWS 16

/* X(NAME, bits a code, offset taken from it, has minima, bytes of scales before 256 columns, bytes
 * of scales after 32 columns) */
#define ZT_PACK_BLOCKS(X)                                                                          \
    X(Q4_0, 4, 8, 0, 0, 32)                                                                        \
    X(Q4_1, 4, 0, 1, 0, 64)                                                                        \
    X(Q5_0, 5, 16, 0, 0, 32)                                                                       \
    X(Q5_1, 5, 0, 1, 0, 64)                                                                        \
    X(Q8_0, 8, 128, 0, 0, 32)                                                                      \
    X(IQ4_NL, 8, 128, 0, 0, 32)                                                                    \
    X(Q4_K, 4, 0, 1, 320, 0)                                                                       \
    X(Q5_K, 5, 0, 1, 320, 0)                                                                       \
    X(Q6_K, 6, 32, 0, 288, 0)

typedef struct zt_pack_form {
    int bits, offset, mins, head, tail; /* as above */
} zt_pack_form;

/* Bytes of the codes of 32 columns of 16 rows. */
#define ZT_PACK_CODES(bits) ((bits) * 64)

bool zt_pack_has(zt_dtype t);                             /* may weights of this type be packed */
size_t zt_pack_group_bytes(zt_dtype t, int64_t K);        /* a multiple of 64 */
/* rows <= 16 rows of file layout, row_bytes apart, to one group; missing rows become zero. */
void zt_pack_group(zt_dtype t, int64_t K, const void *src, size_t row_bytes, int rows, void *dst);
/* Row r of a group back to f32[K], the same values as the dtype table's decode. */
void zt_unpack_row(zt_dtype t, int64_t K, const void *group, int r, float *dst);

#endif
