/* cases.c - making cases and filling their inputs, from nothing but a seed. */
#include "lib/ops/row.h"

#include <math.h>
#include <string.h>

/* ---- making ---------------------------------------------------------------------------------- */

void zt_case_in(zt_case *test_case, int k, zt_fill fill, int64_t limit, zt_dtype dtype, int rank, const int64_t *dim)
{
    test_case->in[k] = zt_type_make(dtype, rank, dim);
    test_case->fill[k] = fill;
    test_case->limit[k] = limit;
}

void zt_case_type_in(zt_case *test_case, int k, zt_fill fill, const zt_case_type *type)
{
    zt_case_in(test_case, k, fill, 0, type->dtype, type->rank, type->dim);
}

void zt_case_plain_in(zt_case *test_case, int k, zt_fill fill, int64_t limit, const zt_case_type *type)
{
    zt_case_type_in(test_case, k, zt_dtype_get(type->dtype)->kind == 'F' ? fill : ZT_FILL_IDS, type);
    test_case->limit[k] = type->dtype == ZT_BOOL ? 2 : limit;
}

void zt_case_attrs(zt_case *test_case, const void *attrs, size_t bytes) { memcpy(test_case->attrs, attrs, bytes); }

bool zt_case_shape(int i, int min_rank, zt_case_type *type)
{
    static const zt_case_type shapes[] = {
        {ZT_F32, 2, {2, 33}},   {ZT_F32, 1, {1}},      {ZT_F32, 1, {7}},       {ZT_F32, 2, {0, 16}},
        {ZT_F32, 3, {2, 3, 5}}, {ZT_F32, 2, {9, 576}}, {ZT_F32, 2, {65, 100}}, {ZT_F32, 0, {0}},
    };
    int n = ZT_LEN(shapes) - (min_rank > 0);
    if (i >= n) return false;
    *type = shapes[i];
    return true;
}

/* ---- filling --------------------------------------------------------------------------------- */

enum { CHUNK = 256 };

typedef struct fill_args {
    uint64_t seed, sequence;
    int64_t limit;
} fill_args;

static uint32_t draw_bits(const fill_args *a, int64_t i, int word)
{
    uint32_t r[4];
    zt_philox(a->seed, a->sequence, (uint64_t)i, r);
    return r[word];
}

static float fill_normal(const fill_args *a, int64_t i) { return (float)zt_normal(a->seed, a->sequence, (uint64_t)i); }

static float fill_zero(const fill_args *a, int64_t i)
{
    (void)a;
    (void)i;
    return 0;
}

static float fill_positive(const fill_args *a, int64_t i) { return fabsf(fill_normal(a, i)) + 0.2f; }

static float fill_small(const fill_args *a, int64_t i) { return 0.1f * fill_normal(a, i); }

static float fill_unit(const fill_args *a, int64_t i)
{
    float x = fill_normal(a, i);
    return x / (1.1f + fabsf(x));
}

static float fill_above(const fill_args *a, int64_t i) { return fabsf(fill_normal(a, i)) + 1.2f; }

static float fill_ties(const fill_args *a, int64_t i)
{
    uint32_t r = draw_bits(a, i, 0);
    return r % 16 == 0 ? NAN : (float)(r / 16 % 5) - 2;
}

static void fill_float(const zt_type *type, const fill_args *a, float (*f)(const fill_args *, int64_t), void *dst)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    float chunk[CHUNK];
    int64_t count = zt_type_count(type);
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        for (int64_t i = 0; i < n; i++) chunk[i] = f(a, at + i);
        info->encode(chunk, (char *)dst + at * info->block_bytes, n);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The scale `value` of a block, or all its scales alike, written at `at`. */
static void put_half(unsigned char *at, float value)
{
    uint16_t h = zt_f32_to_f16(value);
    memcpy(at, &h, sizeof h);
}

static void put_e8m0(unsigned char *at, float value) /* 2^(byte - 128), rounded down */
{
    *at = (unsigned char)(128 + ilogbf(value));
}

static void put_e4m3(unsigned char *at, float value) /* four of them */
{
    int exponent;
    float fraction = frexpf(2 * value, &exponent);
    memset(at, 8 * (exponent + 6) + (int)(16 * fraction) - 8, 4);
}

static void put_spread(unsigned char *at, float value) /* on top of four u16 */
{
    uint16_t h = zt_f32_to_f16(value);
    for (int w = 0; w < 4; w++) at[2 * w + 1] = (unsigned char)((at[2 * w + 1] & 15) | (h >> 4 * w & 15) << 4);
}

/* Where the scales of a block are, and sizes that make its values about 1. `second` < 0: none.
 * Signed types have scales of either sign; the offset of the others is taken off. */
typedef struct block_scales {
    zt_dtype dtype;
    int first, second; /* bytes into the block */
    float unit, second_unit;
    bool either_sign;
    void (*put)(unsigned char *at, float value);
} block_scales;

static const block_scales scales[] = {
    {ZT_Q4_0, 0, -1, 0.25f, 0, true, put_half},
    {ZT_Q4_1, 0, 2, 0.25f, -1.9f, false, put_half},
    {ZT_Q5_0, 0, -1, 0.125f, 0, true, put_half},
    {ZT_Q5_1, 0, 2, 0.125f, -1.9f, false, put_half},
    {ZT_Q8_0, 0, -1, 1.0f / 64, 0, true, put_half},
    {ZT_IQ4_NL, 0, -1, 1.0f / 64, 0, true, put_half},
    {ZT_MXFP4, 0, -1, 0.25f, 0, false, put_e8m0},
    {ZT_NVFP4, 0, -1, 0.25f, 0, false, put_e4m3},
    {ZT_Q1_0, 0, -1, 1, 0, true, put_half},
    {ZT_Q2_0, 0, -1, 1, 0, true, put_half},
    {ZT_TQ1_0, 52, -1, 1, 0, true, put_half},
    {ZT_TQ2_0, 64, -1, 1, 0, true, put_half},
    {ZT_Q2_K, 80, 82, 1.0f / 12, 1.0f / 8, false, put_half},
    {ZT_Q3_K, 108, -1, 1.0f / 40, 0, true, put_half},
    {ZT_Q4_K, 0, 2, 1.0f / 256, 1.0f / 32, false, put_half},
    {ZT_Q5_K, 0, 2, 1.0f / 512, 1.0f / 32, false, put_half},
    {ZT_Q6_K, 208, -1, 1.0f / 1024, 0, true, put_half},
    {ZT_IQ4_XS, 0, -1, 1.0f / 1024, 0, true, put_half},
    {ZT_IQ3_XXS, 0, -1, 1.0f / 120, 0, true, put_half},
    {ZT_IQ3_S, 0, -1, 1.0f / 128, 0, true, put_half},
    {ZT_IQ2_XXS, 0, -1, 1.0f / 40, 0, true, put_half},
    {ZT_IQ2_XS, 0, -1, 1.0f / 40, 0, true, put_half},
    {ZT_IQ2_S, 0, -1, 1.0f / 40, 0, true, put_half},
    {ZT_IQ1_S, 0, -1, 1.0f / 6, 0, true, put_half},
    {ZT_IQ1_M, 48, -1, 1.0f / 6, 0, true, put_spread},
    {ZT_IQ2_K, 0, -1, 1.0f / 80, 0, true, put_half},
    {ZT_IQ3_K, 0, -1, 1.0f / 512, 0, true, put_half},
    {ZT_IQ4_K, 0, -1, 1.0f / 1024, 0, true, put_half},
    {ZT_IQ5_K, 0, -1, 1.0f / 1024, 0, true, put_half},
    {ZT_IQ6_K, 0, -1, 1.0f / 4096, 0, true, put_half},
};

static void fill_block(const fill_args *a, const block_scales *s, int64_t b, size_t bytes, unsigned char *block)
{
    uint32_t r[4];
    for (size_t at = 0; at < bytes; at += sizeof r) {
        zt_philox(a->seed, a->sequence, (uint64_t)b * 32 + at / sizeof r, r);
        memcpy(block + at, r, bytes - at < sizeof r ? bytes - at : sizeof r);
    }
    zt_philox(a->seed, a->sequence, (uint64_t)b * 32 + 31, r);
    float size = 0.5f + (float)(r[0] >> 8) * 0x1p-24f;
    s->put(block + s->first, s->unit * (s->either_sign && r[1] & 1 ? -size : size));
    size = 0.5f + (float)(r[2] >> 8) * 0x1p-24f;
    if (s->second >= 0) s->put(block + s->second, s->second_unit * size);
}

static void fill_blocks(const zt_type *type, const fill_args *a, void *dst)
{
    const block_scales *s = scales;
    if (zt_dtype_is_packed(type->dtype)) {
        for (size_t i = 0; i < zt_type_bytes(type); i++) ((unsigned char *)dst)[i] = (unsigned char)draw_bits(a, (int64_t)i, 0);
        return;
    }
    while (s->dtype != type->dtype) s++;
    size_t bytes = (size_t)zt_dtype_get(type->dtype)->block_bytes;
    int64_t blocks = (int64_t)(zt_type_bytes(type) / bytes);
    for (int64_t b = 0; b < blocks; b++) fill_block(a, s, b, bytes, (unsigned char *)dst + (size_t)b * bytes);
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Entry i of a table [S,B]: row s is one permutation of 0..B-1, multiples of a step that has no
 * divisor with B, rotated so that the first B/S columns of all rows are different blocks. */
static int64_t perm_at(const zt_type *type, const fill_args *a, int64_t i)
{
    int64_t S = type->dim[0], B = type->dim[1], step = 1 + draw_bits(a, 0, 0) % B;
    while (gcd(step, B) != 1) step++;
    return ((i % B + i / B * (B / S)) * step + 1) % B;
}

/* A row of a recurrence: -2 continues the row before it, -1 starts from zeros. */
static int64_t start_at(const fill_args *a, int64_t i)
{
    uint32_t bits = draw_bits(a, i, 0);
    if (a->limit < 1) return i ? -2 : 0;
    return i && bits % 4 < 2 ? -2 : (int64_t)(bits / 4) % (a->limit + 1) - 1;
}

static int64_t end_at(const zt_type *type, const fill_args *a, int64_t i)
{
    uint32_t bits = draw_bits(a, i, 0);
    if (a->limit < 1) return i == zt_type_count(type) - 1 ? 0 : -1;
    return bits % 3 == 0 ? -1 : (int64_t)(bits / 3) % a->limit;
}

static int64_t integer_at(const zt_type *type, zt_fill fill, const fill_args *a, int64_t i)
{
    if (fill == ZT_FILL_RISING) return a->limit + i;
    if (fill == ZT_FILL_PERM) return perm_at(type, a, i);
    if (fill == ZT_FILL_STARTS) return start_at(a, i);
    if (fill == ZT_FILL_ENDS) return end_at(type, a, i);
    if (fill == ZT_FILL_IDS && a->limit > 0) return draw_bits(a, i, 0) % a->limit;
    return 0;
}

static void fill_integers(const zt_type *type, zt_fill fill, const fill_args *a, void *dst)
{
    size_t size = (size_t)zt_dtype_get(type->dtype)->block_bytes;
    int64_t count = zt_type_count(type);
    for (int64_t i = 0; i < count; i++) {
        int64_t v = integer_at(type, fill, a, i);
        int32_t v32 = (int32_t)v;
        int16_t v16 = (int16_t)v;
        int8_t v8 = (int8_t)v;
        const void *from = size == 8 ? (void *)&v : size == 4 ? (void *)&v32 : size == 2 ? (void *)&v16 : (void *)&v8;
        memcpy((char *)dst + (size_t)i * size, from, size);
    }
}

void zt_case_fill(const zt_case *test_case, int k, uint64_t seed, void *dst)
{
    if (!test_case) return;
    const zt_type *type = &test_case->in[k];
    fill_args a = {.seed = seed, .sequence = (uint64_t)k, .limit = test_case->limit[k]};
    if (test_case->fill[k] == ZT_FILL_ABSENT) return;
    if (!zt_dtype_is_float(type->dtype))
        fill_integers(type, test_case->fill[k], &a, dst);
    else if (zt_dtype_get(type->dtype)->kind == 'Q')
        fill_blocks(type, &a, dst);
    else
        fill_float(type, &a,
                   test_case->fill[k] == ZT_FILL_TIES       ? fill_ties
                   : test_case->fill[k] == ZT_FILL_ZERO     ? fill_zero
                   : test_case->fill[k] == ZT_FILL_POSITIVE ? fill_positive
                   : test_case->fill[k] == ZT_FILL_SMALL    ? fill_small
                   : test_case->fill[k] == ZT_FILL_UNIT     ? fill_unit
                   : test_case->fill[k] == ZT_FILL_ABOVE    ? fill_above
                                                            : fill_normal,
                   dst);
}
