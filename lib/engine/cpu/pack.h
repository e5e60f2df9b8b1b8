/* pack.h - private to lib/engine/cpu: weights as the inner loops want them.
 *
 * A weight w[M,K] is kept once, its rows interleaved in groups of 16 (M padded with zero rows): one 512-bit register
 * holds four bytes (k..k+3) of each of 16 rows, so that a dot product of 8-bit values takes K in order for 16 rows at
 * once, on every instruction set, and the sums of a row never depend on how many tokens there are.
 *
 * Group g is at g * zt_pack_group_bytes. Stacked matrices [E,M,K] lie one after the other, each padded to whole groups.
 * Inside a group, K is in order:
 *
 *   f32         [K][16] float
 *   f16         [K][16] half
 *   bf16        [K/2 up][16][2] bfloat16 (pairs, for vdpbf16ps; odd K padded with zero)
 *   block types f32 power[16] (below), then heads of scales, each with the slices that it is for
 *
 * A slice is 32 columns: codes of 16 rows, unsigned, as 8 registers of 64 bytes. Byte 4*r+j of register i is the code
 * of row r, column 4*i+j. Fewer than 8 bits are packed:
 *
 *     2 bits    u8 two[2][64]: bits 2*i of byte b of two[h] are byte b of register 4*h+i
 *     3 bits    the same, then u8 hi[64]: bit i of byte b is the third bit of byte b of register i
 *     4 bits    u8 nib[4][64]: nib[i] has register i in the low and register 4+i in the high halves
 *     5 bits    the same, then u8 hi[64] as with 3 bits: the fifth bits
 *     6 bits    the same nibbles, then u8 hi[2][64] as with 2 bits: the upper two bits
 *     8 bits    u8 code[8][64]: q8_0 as code + 128
 *
 * Codes of 4 bits may be indices into a table of values (zt_pack_table_values).
 *
 * A head has the scales of n slices (of what is left at the end, fewer) and lies in front of their codes, in whole
 * lines of 64 bytes, so that codes lie on lines too, and lines are wanted in the order in which they lie: memory then
 * comes as fast as it can.
 *
 *   F16       n 2  f16 d[2][16]                                         d (code - offset)
 *   F16_MIN   n 2  f16 d[2][16], f16 m[2][16]                           d code + m
 *   E8M0      n 4  u8 d[4][16]                                          2^(d-128) (code - offset)
 *   E4M3      n 2  u8 d[2][2][16], one a 16 columns, bias 7, half of it d (code - offset)
 *   U6_MIN    n 8  f16 d[16], f16 dmin[16], u8 sc[4][16][2], mn like it d sc code - dmin mn
 *   U4_MIN    n 8  f16 d[16], f16 dmin[16], u8 both[8][16][2]: sc low, mn high, one a 16 columns
 *   ONE       n 8  f16 d[16]                                            d (code - offset)
 *   I8        n 8  f16 d[16], i8 sc[4][16][2]                           d sc (code - offset)
 *   I8_16     n 8  f16 d[16], i8 sc[8][16][2], one a 16 columns         the same
 *
 * With activations of 8 bits tiles take two scales at a time (a pair), of two slices or of the halves of one, as
 * integers of 16 bits (isa/gemm_quant/tile_codes.h). power[r] is the power of two by which all scales of row r are
 * such, rounded, and what its minima are over 2^zt_pack_min_shift; NaN where one of them is not finite. So that all
 * come in twos, an odd number of slices has one more behind it, of zeros.
 *
 * These are the sizes of the files' own types but for the unpacked 6-bit scales of q4_k, q5_k, q3_k and iq4_xs, the
 * scale that q2_0 has for 64 columns, and what fills up lines.
 *
 *   other block types (ZT_PACK_AS_IN_FILE): 16 rows as the file has them, one after the other. They are decoded to
 *   the form of f32 a group at a time, while it is multiplied by.
 */
#ifndef ZT_CPU_PACK_H
#define ZT_CPU_PACK_H

#include <string.h>

#include "lib/tensor/tensor.h"

#define ZT_PACK_ROWS 16

typedef enum zt_pack_scales {
    ZT_SCALES_NONE, /* not a packed block type */
    ZT_SCALES_F16,
    ZT_SCALES_F16_MIN,
    ZT_SCALES_E8M0,
    ZT_SCALES_E4M3,
    ZT_SCALES_U6_MIN,
    ZT_SCALES_U4_MIN,
    ZT_SCALES_ONE,
    ZT_SCALES_I8,
    ZT_SCALES_I8_16
} zt_pack_scales;

/* Tables of what codes of 4 bits stand for, plus the offset. */
typedef enum zt_pack_table { ZT_TABLE_NONE, ZT_TABLE_IQ4, ZT_TABLE_E2M1, ZT_TABLE_ODD, ZT_TABLE_COUNT } zt_pack_table;
extern const uint8_t zt_pack_table_values[ZT_TABLE_COUNT][16];

/* X(NAME, bits a code, table, offset taken from it, scales, bytes of a head in whole lines, slices of a head (n
 * above)) */
// clang-format off
#define ZT_PACK_BLOCKS(X)                                                                          \
    X(Q4_0, 4, NONE, 8, F16, 64, 2)                                                               \
    X(Q4_1, 4, NONE, 0, F16_MIN, 128, 2)                                                          \
    X(Q5_0, 5, NONE, 16, F16, 64, 2)                                                              \
    X(Q5_1, 5, NONE, 0, F16_MIN, 128, 2)                                                          \
    X(Q8_0, 8, NONE, 128, F16, 64, 2)                                                             \
    X(IQ4_NL, 4, IQ4, 128, F16, 64, 2)                                                            \
    X(MXFP4, 4, E2M1, 12, E8M0, 64, 4)                                                             \
    X(NVFP4, 4, E2M1, 12, E4M3, 64, 2)                                                             \
    X(Q2_0, 2, NONE, 1, F16, 64, 2)                                                               \
    X(TQ2_0, 2, NONE, 1, ONE, 64, 8)                                                               \
    X(Q2_K, 2, NONE, 0, U4_MIN, 320, 8)                                                            \
    X(Q3_K, 3, NONE, 4, I8_16, 320, 8)                                                             \
    X(Q4_K, 4, NONE, 0, U6_MIN, 320, 8)                                                            \
    X(Q5_K, 5, NONE, 0, U6_MIN, 320, 8)                                                            \
    X(Q6_K, 6, NONE, 32, I8_16, 320, 8)                                                            \
    X(IQ4_XS, 4, IQ4, 128, I8, 192, 8)                                                             \
    X(IQ3_S, 4, ODD, 15, I8, 192, 8)

#define ZT_PACK_AS_IN_FILE(X)                                                                           \
    X(Q1_0) X(TQ1_0) X(IQ3_XXS) X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ1_S) X(IQ1_M)          \
    X(IQ2_K) X(IQ3_K) X(IQ4_K) X(IQ5_K) X(IQ6_K)
// clang-format on

typedef struct zt_pack_form {
    int bits; /* as above; 0: not a block type, or one kept as in the file */
    zt_pack_table table;
    int offset;
    zt_pack_scales scales;
    int head_bytes, head_slices;
} zt_pack_form;

#define ZT_PACK_FORM(bits, table, offset, scales, head_bytes, head_slices)                                                       \
    ((zt_pack_form){bits, ZT_TABLE_##table, offset, ZT_SCALES_##scales, head_bytes, head_slices})

#define ZT_PACK_POWERS 64 /* bytes before the first head */

/* 2^(e - 128); subnormal below 2. */
static inline float zt_pack_e8m0(uint8_t e)
{
    uint32_t bits = e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* As f16, whose exponent's bias is 8 more. */
static inline float zt_pack_e4m3(uint8_t e) { return zt_f16_to_f32((uint16_t)(e << 7)) * 0x1p7f; }

/* Where row r's j-th scale of a byte is: two of each row beside each other. */
static inline int zt_pack_scale_at(int j, int r) { return 32 * (j / 2) + 2 * r + j % 2; }

/* Bytes of the codes of a slice of 16 rows. */
#define ZT_PACK_CODE_BYTES(bits) ((bits)*64)

/* Slices, of `left` of them, whose codes come after one head. */
static inline int zt_pack_head_slices(zt_pack_form form, int64_t left)
{
    return left < form.head_slices ? (int)left : form.head_slices;
}

/* Does it have minima; is a scale for 16 columns, not 32; bits of what the codes stand for. */
static inline bool zt_pack_has_mins(zt_pack_form form)
{
    return form.scales == ZT_SCALES_F16_MIN || form.scales == ZT_SCALES_U6_MIN || form.scales == ZT_SCALES_U4_MIN;
}
#define ZT_PACK_SCALE_PER_16(scales) /* for constants */                                                                         \
    ((scales) == ZT_SCALES_E4M3 || (scales) == ZT_SCALES_U4_MIN || (scales) == ZT_SCALES_I8_16)
static inline bool zt_pack_scale_per_16(zt_pack_form form) { return ZT_PACK_SCALE_PER_16(form.scales); }
static inline int zt_pack_value_bits(zt_pack_form form) { return form.table == ZT_TABLE_IQ4 ? 8 : form.table ? 5 : form.bits; }

/* Bits of scales that are bytes, or halves of them, without their sign; 0: scales are floats. */
static inline int zt_pack_scale_bits(zt_pack_form form)
{
    if (form.scales == ZT_SCALES_I8) return 5;
    if (form.scales == ZT_SCALES_I8_16) return 7;
    return form.scales == ZT_SCALES_U6_MIN ? 6 : form.scales == ZT_SCALES_U4_MIN ? 4 : 0;
}

/* Slices of a pair, which shares two scales; slices of K columns, with the one of zeros behind an odd number. */
static inline int zt_pack_pair_slices(zt_pack_form form) { return zt_pack_scale_per_16(form) ? 1 : 2; }
static inline int64_t zt_pack_padded_slices(zt_pack_form form, int64_t K)
{
    return (K / 32 + zt_pack_pair_slices(form) - 1) / zt_pack_pair_slices(form) * zt_pack_pair_slices(form);
}

/* What tiles subtract from codes: with minima the middle, which minima then have more of. */
static inline int zt_pack_middle(zt_pack_form form) { return zt_pack_has_mins(form) ? 1 << (form.bits - 1) : form.offset; }

/* Bits that a sum of these times numbers of 8 bits, of the columns of one scale, has beyond 16: what tiles shift out. */
static inline int zt_pack_dot_shift(zt_pack_form form)
{
    const int last = form.table == ZT_TABLE_E2M1 ? 24 : form.table == ZT_TABLE_ODD ? 30 : (1 << zt_pack_value_bits(form)) - 1;
    const int middle = zt_pack_middle(form), most = middle > last - middle ? middle : last - middle;
    const int sum = most * 127 * (zt_pack_scale_per_16(form) ? 16 : 32);
    return (sum >> 15 > 0) + (sum >> 16 > 0) + (sum >> 17 > 0) + (sum >> 18 > 0);
}

/* log2 of the unit of minima in that of scales, by the bits that factors lose in tiles (tile_codes.h): sums
 * zt_pack_dot_shift, scales of 32 columns 15, and then what minima are multiplied by 12. */
static inline int zt_pack_min_shift(zt_pack_form form)
{
    return zt_pack_dot_shift(form) + (zt_pack_scale_per_16(form) ? 0 : 15 - 12);
}

/* The form of a type of ZT_PACK_BLOCKS; of others bits is 0. */
zt_pack_form zt_pack_form_of(zt_dtype type);

/* Bytes of a row of K columns in the file. */
static inline size_t zt_pack_file_bytes(zt_dtype type, int64_t K)
{
    const zt_dtype_info *dtype = zt_dtype_get(type);
    return (size_t)(K / dtype->block) * (size_t)dtype->block_bytes;
}

bool zt_pack_supports(zt_dtype type);                 /* may weights of this type be packed? */
bool zt_pack_as_in_file(zt_dtype type);               /* is it one of ZT_PACK_AS_IN_FILE? */
size_t zt_pack_group_bytes(zt_dtype type, int64_t K); /* a multiple of 64 */
/* rows <= 16 rows of file layout, row_bytes apart, to one group; missing rows become zero. */
void zt_pack_group(zt_dtype type, int64_t K, const void *src, size_t row_bytes, int rows, void *dst);
/* Row r of a group back to f32[K], the same values as the dtype table's decode. */
void zt_unpack_row(zt_dtype type, int64_t K, const void *group, int r, float *dst);

#endif
