/* plain.c - what every number of a file passes on its way: f16 to f32, f32 to f16, and the look for
 * what is too large or no number. */
#include "lib/tensor/isa/encoders.h"
#include "lib/tensor/isa/lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static void decode_f16(const void *src, float *dst, int64_t count)
{
    const uint8_t *bytes = src;
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        __m128i half;
        memcpy(&half, bytes + 2 * i, sizeof half);
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(half));
    }
#endif
    for (; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, 2);
        dst[i] = zt_f16_to_f32(half);
    }
}

static void encode_f16(const float *src, void *dst, int64_t count)
{
    uint8_t *bytes = dst;
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= count; i += 8) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        memcpy(bytes + 2 * i, &half, sizeof half);
    }
#endif
    for (; i < count; i++) {
        uint16_t half = zt_f32_to_f16(src[i]);
        memcpy(bytes + 2 * i, &half, 2);
    }
}

/* As integers magnitudes have the same order, infinity and NaN above all. */
static bool any_above(const float *x, int64_t count, float most)
{
    int32_t limit, found[LANES], bits, sign = 0;
    int64_t i = 0;
    vi over = vi_set(0);
    memcpy(&limit, &most, 4);
    for (; i + LANES <= count; i += LANES) over |= limit - (vi)vf_abs(vf_load(x + i));
    memcpy(found, &over, sizeof found);
    for (int lane = 0; lane < LANES; lane++) sign |= found[lane];
    for (; i < count; i++) {
        memcpy(&bits, &x[i], 4);
        sign |= limit - (bits & 0x7fffffff);
    }
    return sign < 0;
}

const zt_plain ZT_ENCODER(plain) = {decode_f16, encode_f16, any_above};
