/* tile_table.h - private to gemm_quant/: the tiles of every type of weights, and how they take
 * activations.
 */
#ifndef ZT_CPU_TILE_TABLE_H
#define ZT_CPU_TILE_TABLE_H

#include "lib/engine/cpu/isa/gemm_quant/unpacked.h"
#include "lib/engine/cpu/isa/gemm_quant/tile_plain.h"

typedef enum act_form { ROWS, BRAIN, WIDE, CODES } act_form;

typedef struct tiles {
    tile_fn *fn[SIZES];
    int groups[SIZES]; /* that one call takes */
} tiles;

typedef struct opened { /* NULL: is not, as it would save nothing */
    open_fn *open;
    opened_fn *tile;
} opened;

typedef struct weights {
    tiles exact, fast, fine; /* act=f32, act=q8, act=q16 */
    act_form fast_form; /* with BRAIN: of processors that are fast at it, WIDE of the others */
    zt_pack_form form;
    opened by_vectors[2], by_amx[2]; /* [parts - 1] */
    many many[2];
} weights;

#define ONE_BY_ONE {{0, NULL}, {0, NULL}}

#define TILE(name, body)                                                                           \
    static void name(const uint8_t *const *w, int64_t K, const void *x, size_t step, float *acc,   \
                     int64_t down, tile_sends sends)                                               \
    {                                                                                              \
        (void)step, (void)sends;                                                                   \
        body;                                                                                      \
    }
#define ROWS_TILE(NAME, form, G, T)                                                                \
    TILE(rows_##NAME##_##T, tile_rows(form, G, T, w, K, x, step, acc, down))
#define ALONE_TILE(NAME, form)                                                                     \
    TILE(codes_##NAME##_1, tile_alone(form, 1, w, K, x, acc, down, sends))                         \
    TILE(fine_##NAME##_2, tile_alone(form, 2, w, K, x, acc, down, sends))
#define CODES_TILE(NAME, form, T)                                                                  \
    TILE(codes_##NAME##_##T, tile_codes(form, 1, T, 1, w, K, x, acc, down, sends))
#define FINE_TILE(NAME, form, T)                                                                   \
    TILE(fine_##NAME##_##T, tile_codes(form, 1, T, 2, w, K, x, acc, down, sends))
#define PLAIN_TILE(NAME, type, G, T)                                                               \
    TILE(rows_##NAME##_##T, tile_plain(type, G, T, w, K, x, step, acc, down, sends.reach))
#define DECODED_TILE(NAME, type, G, T)                                                             \
    TILE(decoded_##NAME##_##T, tile_plain(type, 1, T, w, K, x, step, acc, down, sends.reach))
#define BRAIN_TILE(NAME, unused, G, T)                                                             \
    TILE(brain_##NAME##_##T, tile_brain(T, w[0], K, x, step, acc, down))                           \
    TILE(wide_##NAME##_##T, tile_wide(T, w[0], K, x, step, acc, down, sends.reach))

#define X(NAME, ...)                                                                               \
    EACH_SIZE(ROWS_TILE, NAME, ZT_PACK_FORM(__VA_ARGS__))                                          \
    ALONE_TILE(NAME, ZT_PACK_FORM(__VA_ARGS__))                                                    \
    CODES_TILE(NAME, ZT_PACK_FORM(__VA_ARGS__), 2)                                                 \
    CODES_TILE(NAME, ZT_PACK_FORM(__VA_ARGS__), 4)                                                 \
    CODES_TILE(NAME, ZT_PACK_FORM(__VA_ARGS__), 8)                                                 \
    FINE_TILE(NAME, ZT_PACK_FORM(__VA_ARGS__), 4)                                                  \
    FINE_TILE(NAME, ZT_PACK_FORM(__VA_ARGS__), 8)
ZT_PACK_BLOCKS(X)
#undef X
#define OPENED_TILE(NAME, what, P, amx, tile, ...)                                                 \
    static void open_##what##_##NAME(const uint8_t *group, const uint8_t *w, int64_t K,            \
                                     uint8_t *to, size_t reach)                                    \
    {                                                                                              \
        open_codes(ZT_PACK_FORM(__VA_ARGS__), P, amx, group, w, K, to, reach);                     \
    }                                                                                              \
    static void what##_##NAME(const uint8_t *w, int64_t K, const uint8_t *x, float *acc,           \
                              int64_t down, bool goes_on, const uint8_t *group)                    \
    {                                                                                              \
        tile(ZT_PACK_FORM(__VA_ARGS__), P, w, K, x, acc, down, goes_on, group);                    \
    }
#define OPENED(what, NAME, is) {(is) ? open_##what##_##NAME : NULL, (is) ? what##_##NAME : NULL}
#if defined(ZT_ISA_scalar)
#define BY_VECTORS(NAME, bits) {{NULL, NULL}, {NULL, NULL}}
#else
#define X(NAME, ...)                                                                               \
    OPENED_TILE(NAME, opened, 1, false, tile_opened, __VA_ARGS__)                                  \
    OPENED_TILE(NAME, opened_fine, 2, false, tile_opened, __VA_ARGS__)
ZT_PACK_BLOCKS(X)
#undef X
#if defined(ZT_ISA_avx2)
#define BY_VECTORS(NAME, bits) {OPENED(opened, NAME, true), OPENED(opened_fine, NAME, true)}
#else
#define BY_VECTORS(NAME, bits)                                                                     \
    {OPENED(opened, NAME, (bits) < 8), OPENED(opened_fine, NAME, (bits) < 8)}
#endif
#endif
#if defined(ZT_ISA_avx512)
#define X(NAME, ...)                                                                               \
    OPENED_TILE(NAME, amx, 1, true, tile_amx, __VA_ARGS__)                                         \
    OPENED_TILE(NAME, amx_fine, 2, true, tile_amx, __VA_ARGS__)                                    \
    static void twin_##NAME(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart,           \
                            float *acc, int64_t down, size_t reach)                                \
    {                                                                                              \
        twin_codes(ZT_PACK_FORM(__VA_ARGS__), 1, w, K, x, apart, acc, down, reach);                \
    }                                                                                              \
    static void twin_fine_##NAME(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart,      \
                                 float *acc, int64_t down, size_t reach)                           \
    {                                                                                              \
        twin_codes(ZT_PACK_FORM(__VA_ARGS__), 2, w, K, x, apart, acc, down, reach);                \
    }
ZT_PACK_BLOCKS(X)
#undef X
#define BY_AMX(NAME, scales)                                                                       \
    {OPENED(amx, NAME, !ZT_PACK_HALVES(ZT_SCALES_##scales)),                                       \
     OPENED(amx_fine, NAME, !ZT_PACK_HALVES(ZT_SCALES_##scales))}
#define TWIN(NAME) {{2, twin_##NAME}, {2, twin_fine_##NAME}}
#else
#define BY_AMX(NAME, scales) {{NULL, NULL}, {NULL, NULL}}
#define TWIN(NAME) ONE_BY_ONE
#endif
EACH_PLAIN_SIZE(PLAIN_TILE, F32, ZT_F32)
EACH_PLAIN_SIZE(PLAIN_TILE, F16, ZT_F16)
EACH_PLAIN_SIZE(PLAIN_TILE, BF16, ZT_BF16)
EACH_SIZE(DECODED_TILE, F32, ZT_F32)
#if defined(ZT_ISA_avx512)
EACH_SIZE(BRAIN_TILE, BF16, 0)
#elif defined(ZT_ISA_avx2)
#define PLAIN_MANY_TILE(NAME)                                                                      \
    static void many_##NAME(const uint8_t *w, int64_t K, const uint8_t *x, size_t apart,           \
                            float *acc, int64_t down, size_t reach)                                \
    {                                                                                              \
        many_plain(ZT_##NAME, w, K, (const float *)(const void *)x,                                \
                   apart / (MOST * sizeof(float)), acc, down, reach);                              \
    }
PLAIN_MANY_TILE(F32)
PLAIN_MANY_TILE(F16)
PLAIN_MANY_TILE(BF16)
#endif

/* `kind` of tiles, and how many groups those of each size take. */
#define TILES(kind, NAME, ...)                                                                     \
    {{kind##_##NAME##_1, kind##_##NAME##_2, kind##_##NAME##_4, kind##_##NAME##_8}, {__VA_ARGS__}}
#define ROWS_TILES(NAME)  TILES(rows, NAME, ROWS_GROUPS)
#define PLAIN_TILES(NAME) TILES(rows, NAME, PLAIN_GROUPS)
#define CODES_TILES(NAME, bits) TILES(codes, NAME, CODES_GROUPS(bits), 1, 1, 1)
/* A token is two rows. */
#define FINE_TILES(NAME, bits)                                                                     \
    {{NULL, fine_##NAME##_2, fine_##NAME##_4, fine_##NAME##_8}, {1, CODES_GROUPS(bits), 1, 1}}
#define DECODED_TILES     TILES(decoded, F32, 1, 1, 1, 1) /* of a group that was decoded to f32 */
#if defined(ZT_ISA_avx512)
#define BRAIN_TILES TILES(brain, BF16, PLAIN_GROUPS), TILES(brain, BF16, PLAIN_GROUPS), BRAIN
static const tiles wide_tiles = TILES(wide, BF16, PLAIN_GROUPS);
#else
#define BRAIN_TILES PLAIN_TILES(BF16), PLAIN_TILES(BF16), WIDE
static const tiles wide_tiles = PLAIN_TILES(BF16);
#endif

#define NOT_OPENED {{NULL, NULL}}, {{NULL, NULL}}
#if defined(ZT_ISA_avx2)
#define PLAIN_MANY(NAME) {{PLAIN_TILES_AT_ONCE, many_##NAME}, {0, NULL}}
#else
#define PLAIN_MANY(NAME) ONE_BY_ONE
#endif

static const weights table[ZT_DTYPE_COUNT] = {
    [ZT_F32] = {PLAIN_TILES(F32), PLAIN_TILES(F32), PLAIN_TILES(F32), ROWS, {0}, NOT_OPENED,
                PLAIN_MANY(F32)},
    [ZT_F16] = {PLAIN_TILES(F16), PLAIN_TILES(F16), PLAIN_TILES(F16), ROWS, {0}, NOT_OPENED,
                PLAIN_MANY(F16)},
    [ZT_BF16] = {PLAIN_TILES(BF16), BRAIN_TILES, {0}, NOT_OPENED, PLAIN_MANY(BF16)},
#define X(NAME, bits, look, offset, scales, head, n)                                               \
    [ZT_##NAME] = {ROWS_TILES(NAME),                                                               \
                   CODES_TILES(NAME, bits),                                                        \
                   FINE_TILES(NAME, bits),                                                         \
                   CODES,                                                                          \
                   ZT_PACK_FORM(bits, look, offset, scales, head, n),                              \
                   BY_VECTORS(NAME, bits),                                                         \
                   BY_AMX(NAME, scales),                                                           \
                   TWIN(NAME)},
    ZT_PACK_BLOCKS(X)
#undef X
#define X(NAME) [ZT_##NAME] = {DECODED_TILES, DECODED_TILES, DECODED_TILES, ROWS, {0}, NOT_OPENED,  \
                ONE_BY_ONE},
    ZT_PACK_WHOLE(X)
#undef X
};

#endif
