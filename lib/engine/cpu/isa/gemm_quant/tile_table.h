/* tile_table.h - private to gemm_quant/: the tile functions of every type of weights. What differs between
 * instruction sets is defined first; then each type is one macro that makes its functions and its row.
 */
#ifndef ZT_CPU_GEMM_QUANT_TILE_TABLE_H
#define ZT_CPU_GEMM_QUANT_TILE_TABLE_H

#include "lib/engine/cpu/isa/gemm_quant/tile_plain.h"
#include "lib/engine/cpu/isa/gemm_quant/unpacked.h"

/* How tiles take activations:
 *   ACT_F32           f32
 *   ACT_BF16          rounded to bfloat16: pairs of columns in a word (AVX-512)
 *   ACT_BF16_AS_F32   rounded to bfloat16, as f32, an even number of columns: without AVX-512, and where FMAs are faster than its pairs
 *   ACT_CODES         quantized (layout.h) */
typedef enum act_form { ACT_F32, ACT_BF16, ACT_BF16_AS_F32, ACT_CODES } act_form;

typedef struct sized_tiles { /* of 1, 2, 4 and 8 rows */
    tile_fn *fn[TILE_SIZES];
    int groups[TILE_SIZES]; /* that one call takes */
} sized_tiles;

typedef struct unpacked_tiles { /* NULL: groups are not unpacked, as it would save nothing */
    unpack_fn *unpack;
    unpacked_tile_fn *tile;
} unpacked_tiles;

typedef struct weight_tiles {
    sized_tiles f32, q8, q16; /* by act */
    act_form q8_form;         /* ACT_BF16 is of processors that are fast at it, ACT_BF16_AS_F32 of the others */
    zt_pack_form form;
    unpacked_tiles by_vectors[2], by_amx[2]; /* [parts - 1] */
    several_tiles several[2];                /* [parts - 1]; of plain weights [with activations of bfloat16] */
} weight_tiles;

// clang-format off
#define TILE(name, body)                                                                                               \
    static void name(const uint8_t *const *group, int64_t K, const void *x, size_t x_stride, float *acc,               \
                     int64_t acc_stride, tile_prefetch prefetch)                                                       \
    {                                                                                                                  \
        (void)x_stride, (void)prefetch;                                                                                \
        body;                                                                                                          \
    }
#define SEVERAL_TILES(name, body)                                                                                      \
    static void name(const uint8_t *group, int64_t K, const uint8_t *x, size_t x_stride, float *acc,                   \
                     int64_t acc_stride, size_t distance)                                                              \
    {                                                                                                                  \
        body;                                                                                                          \
    }
#define UNPACK(name, form, parts, order)                                                                               \
    static void name(const uint8_t *group, const uint8_t *head, int64_t K, uint8_t *to, size_t distance)               \
    {                                                                                                                  \
        unpack_group(form, parts, order, group, head, K, to, distance);                                                \
    }
#define UNPACKED_TILE(name, body)                                                                                      \
    static void name(const uint8_t *p, int64_t K, const uint8_t *x, float *acc, int64_t acc_stride, bool continues,    \
                     const uint8_t *group)                                                                             \
    {                                                                                                                  \
        body;                                                                                                          \
    }
// clang-format on
#define TILES_OF(kind, NAME, ...)                                                                                                \
    {                                                                                                                            \
        {kind##_##NAME##_1, kind##_##NAME##_2, kind##_##NAME##_4, kind##_##NAME##_8}, { __VA_ARGS__ }                            \
    }
#define NOT_UNPACKED                                                                                                             \
    {                                                                                                                            \
        {NULL, NULL}, { NULL, NULL }                                                                                             \
    }
#define ONE_BY_ONE                                                                                                               \
    {                                                                                                                            \
        {0, NULL}, { 0, NULL }                                                                                                   \
    }

/* ---- what instruction sets have -------------------------------------------------------------- */

/* q8's tile of 8 rows; functions of unpacked groups and of several tiles at once; their places in a row. (A scale
 * for 32 columns: AMX takes it.) */
#if defined(ZT_ISA_avx2)
#define Q8_TILE_8(form) tile_crossed(form, group[0], K, x, acc, acc_stride, prefetch)
// clang-format off
#define ISA_FUNCTIONS(NAME, form)                                                                                      \
    UNPACK(unpack_q8_##NAME, form, 1, UNPACK_CROSSED)                                                                  \
    UNPACK(unpack_q16_##NAME, form, 2, UNPACK_VECTORS)                                                                 \
    UNPACKED_TILE(unpacked_q8_##NAME, tile_crossed_unpacked(form, p, K, x, acc, acc_stride, continues, group))         \
    UNPACKED_TILE(unpacked_q16_##NAME, tile_unpacked(form, 2, p, K, x, acc, acc_stride, continues, group))
// clang-format on
#define ISA_ROW(NAME, bits, scales)                                                                                              \
    {{unpack_q8_##NAME, unpacked_q8_##NAME}, {unpack_q16_##NAME, unpacked_q16_##NAME}}, NOT_UNPACKED, ONE_BY_ONE
#elif defined(ZT_ISA_avx512)
#define Q8_TILE_8(form) tile_codes(form, 1, 8, 1, group, K, x, acc, acc_stride, prefetch)
// clang-format off
#define ISA_FUNCTIONS(NAME, form)                                                                                      \
    UNPACK(unpack_q8_##NAME, form, 1, UNPACK_VECTORS)                                                                  \
    UNPACK(unpack_q16_##NAME, form, 2, UNPACK_VECTORS)                                                                 \
    UNPACK(unpack_amx_q8_##NAME, form, 1, UNPACK_AMX)                                                                  \
    UNPACK(unpack_amx_q16_##NAME, form, 2, UNPACK_AMX)                                                                 \
    UNPACKED_TILE(unpacked_q8_##NAME, tile_unpacked(form, 1, p, K, x, acc, acc_stride, continues, group))              \
    UNPACKED_TILE(unpacked_q16_##NAME, tile_unpacked(form, 2, p, K, x, acc, acc_stride, continues, group))             \
    UNPACKED_TILE(amx_q8_##NAME, tile_amx(form, 1, p, K, x, acc, acc_stride, continues, group))                        \
    UNPACKED_TILE(amx_q16_##NAME, tile_amx(form, 2, p, K, x, acc, acc_stride, continues, group))                       \
    SEVERAL_TILES(two_q8_##NAME, two_tiles_codes(form, 1, group, K, x, x_stride, acc, acc_stride, distance))           \
    SEVERAL_TILES(two_q16_##NAME, two_tiles_codes(form, 2, group, K, x, x_stride, acc, acc_stride, distance))
// clang-format on
#define TILES_IF(condition, unpack, tile)                                                                                        \
    {                                                                                                                            \
        (condition) ? unpack : NULL, (condition) ? tile : NULL                                                                   \
    }
#define ISA_ROW(NAME, bits, scales)                                                                                              \
    {TILES_IF((bits) < 8, unpack_q8_##NAME, unpacked_q8_##NAME), TILES_IF((bits) < 8, unpack_q16_##NAME, unpacked_q16_##NAME)},  \
        {TILES_IF(!ZT_PACK_SCALE_PER_16(scales), unpack_amx_q8_##NAME, amx_q8_##NAME),                                           \
         TILES_IF(!ZT_PACK_SCALE_PER_16(scales), unpack_amx_q16_##NAME, amx_q16_##NAME)},                                        \
    {                                                                                                                            \
        {2, two_q8_##NAME}, { 2, two_q16_##NAME }                                                                                \
    }
#else
#define Q8_TILE_8(form) tile_codes(form, 1, 8, 1, group, K, x, acc, acc_stride, prefetch)
#define ISA_FUNCTIONS(NAME, form)
#define ISA_ROW(NAME, bits, scales) NOT_UNPACKED, NOT_UNPACKED, ONE_BY_ONE
#endif

/* ---- block types ----------------------------------------------------------------------------- */

#define F32_TILE(NAME, form, G, T)       TILE(f32_##NAME##_##T, tile_decoded_codes(form, G, T, group, K, x, x_stride, acc, acc_stride))
#define CODES_TILE(name, form, T, parts) TILE(name, tile_codes(form, 1, T, parts, group, K, x, acc, acc_stride, prefetch))
/* With q16 a token is two rows: there is no tile of one. */
// clang-format off
#define BLOCK_TYPE(NAME, bits, scales, form)                                                                           \
    EACH_SIZE(F32_TILE, NAME, form)                                                                                    \
    TILE(q8_##NAME##_1, tile_one_token(form, 1, group, K, x, acc, acc_stride, prefetch))                               \
    CODES_TILE(q8_##NAME##_2, form, 2, 1)                                                                              \
    CODES_TILE(q8_##NAME##_4, form, 4, 1)                                                                              \
    TILE(q8_##NAME##_8, Q8_TILE_8(form))                                                                               \
    TILE(q16_##NAME##_2, tile_one_token(form, 2, group, K, x, acc, acc_stride, prefetch))                              \
    CODES_TILE(q16_##NAME##_4, form, 4, 2)                                                                             \
    CODES_TILE(q16_##NAME##_8, form, 8, 2)                                                                             \
    ISA_FUNCTIONS(NAME, form)                                                                                          \
    static const weight_tiles tiles_of_##NAME = {                                                                      \
        TILES_OF(f32, NAME, DECODED_GROUPS),                                                                           \
        TILES_OF(q8, NAME, CODES_GROUPS(bits), 1, 1, 1),                                                               \
        {{NULL, q16_##NAME##_2, q16_##NAME##_4, q16_##NAME##_8}, {1, CODES_GROUPS(bits), 1, 1}},                       \
        ACT_CODES,                                                                                                     \
        form,                                                                                                          \
        ISA_ROW(NAME, bits, scales)};
// clang-format on

#define X(NAME, bits, table, offset, scales, head_bytes, n)                                                                      \
    BLOCK_TYPE(NAME, bits, ZT_SCALES_##scales, ZT_PACK_FORM(bits, table, offset, scales, head_bytes, n))
ZT_PACK_BLOCKS(X)
#undef X

/* ---- plain types, and groups decoded to f32 -------------------------------------------------- */

#define PLAIN_TILE(NAME, type, G, T)                                                                                             \
    TILE(f32_##NAME##_##T, tile_plain(type, false, G, T, group, K, x, x_stride, acc, acc_stride, prefetch.distance))
#define DECODED_TILE(NAME, type, G, T)                                                                                           \
    TILE(decoded_##NAME##_##T, tile_plain(type, false, 1, T, group, K, x, x_stride, acc, acc_stride, prefetch.distance))
#if defined(ZT_ISA_avx512)
#define BF16_TILE(NAME, unused, G, T)                                                                                            \
    TILE(bf16_##NAME##_##T, tile_bf16(T, group[0], K, x, x_stride, acc, acc_stride))                                             \
    TILE(bf16_as_f32_##NAME##_##T, tile_bf16_as_f32(T, group[0], K, x, x_stride, acc, acc_stride, prefetch.distance))
#else
#define BF16_TILE(NAME, unused, G, T)                                                                                            \
    TILE(bf16_as_f32_##NAME##_##T, tile_plain(ZT_BF16, true, G, T, group, K, x, x_stride, acc, acc_stride, prefetch.distance))
#endif
#if defined(ZT_ISA_avx2)
#define PLAIN_SEVERAL(NAME)                                                                                                      \
    SEVERAL_TILES(several_##NAME, several_plain(ZT_##NAME, false, group, K, (const float *)(const void *)x,                      \
                                                x_stride / (TILE_ROWS * sizeof(float)), acc, acc_stride, distance))
#define PLAIN_SEVERAL_ROW(NAME, pairs)                                                                                           \
    {                                                                                                                            \
        {PLAIN_TILES_AT_ONCE, several_##NAME}, { PLAIN_TILES_AT_ONCE, pairs }                                                    \
    }
SEVERAL_TILES(several_pairs, several_plain(ZT_BF16, true, group, K, (const float *)(const void *)x,
                                           x_stride / (TILE_ROWS * sizeof(float)), acc, acc_stride, distance))
#else
#define PLAIN_SEVERAL(NAME)
#define PLAIN_SEVERAL_ROW(NAME, pairs) ONE_BY_ONE
#endif
#define F32_TILES(NAME) TILES_OF(f32, NAME, PLAIN_GROUPS)
// clang-format off
#define PLAIN_TYPE(NAME, q8_tiles, q8_form, pairs)                                                                        \
    EACH_PLAIN_SIZE(PLAIN_TILE, NAME, ZT_##NAME)                                                                       \
    PLAIN_SEVERAL(NAME)                                                                                                \
    static const weight_tiles tiles_of_##NAME = {                                                                      \
        F32_TILES(NAME), q8_tiles, q8_tiles, q8_form, {0}, NOT_UNPACKED, NOT_UNPACKED, PLAIN_SEVERAL_ROW(NAME, pairs)};
// clang-format on

EACH_PLAIN_SIZE(BF16_TILE, BF16, 0)
static const sized_tiles bf16_as_f32_tiles = TILES_OF(bf16_as_f32, BF16, PLAIN_GROUPS);
#if defined(ZT_ISA_avx512)
PLAIN_TYPE(BF16, TILES_OF(bf16, BF16, PLAIN_GROUPS), ACT_BF16, NULL)
#else
PLAIN_TYPE(BF16, TILES_OF(bf16_as_f32, BF16, PLAIN_GROUPS), ACT_BF16_AS_F32, several_pairs)
#endif
PLAIN_TYPE(F32, F32_TILES(F32), ACT_F32, NULL)
PLAIN_TYPE(F16, F32_TILES(F16), ACT_F32, NULL)

EACH_SIZE(DECODED_TILE, F32, ZT_F32)
#define DECODED TILES_OF(decoded, F32, 1, 1, 1, 1)
static const weight_tiles tiles_of_decoded = {DECODED, DECODED, DECODED, ACT_F32, {0}, NOT_UNPACKED, NOT_UNPACKED, ONE_BY_ONE};

/* ---- the table ------------------------------------------------------------------------------- */

static const weight_tiles *const tile_table[ZT_DTYPE_COUNT] = {[ZT_F32] = &tiles_of_F32,
                                                               [ZT_F16] = &tiles_of_F16,
                                                               [ZT_BF16] = &tiles_of_BF16,
#define X(NAME, ...) [ZT_##NAME] = &tiles_of_##NAME,
                                                               ZT_PACK_BLOCKS(X)
#undef X
#define X(NAME) [ZT_##NAME] = &tiles_of_decoded,
                                                                   ZT_PACK_AS_IN_FILE(X)
#undef X
};

#endif
