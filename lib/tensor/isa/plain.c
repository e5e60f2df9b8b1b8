/* plain.c - what every number of a file passes on its way: f16 to f32, f32 to f16, and the look for
 * what is too large or no number. */
#include "lib/tensor/isa/encoders.h"
#include "lib/tensor/isa/lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

static void decode_f16(const void *src, float *dst, int64_t n)
{
    const uint8_t *s = src;
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m128i h;
        memcpy(&h, s + 2 * i, sizeof h);
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(h));
    }
#endif
    for (; i < n; i++) {
        uint16_t h;
        memcpy(&h, s + 2 * i, 2);
        dst[i] = zt_f16_to_f32(h);
    }
}

static void encode_f16(const float *src, void *dst, int64_t n)
{
    uint8_t *d = dst;
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + i), _MM_FROUND_TO_NEAREST_INT);
        memcpy(d + 2 * i, &h, sizeof h);
    }
#endif
    for (; i < n; i++) {
        uint16_t h = zt_f32_to_f16(src[i]);
        memcpy(d + 2 * i, &h, 2);
    }
}

/* As integers magnitudes are ordered as they are, infinity and NaN above all. */
static bool any_above(const float *x, int64_t n, float most)
{
    int32_t limit, found[LANES], bits, any = 0;
    int64_t i = 0;
    vi over = vi_set(0);
    memcpy(&limit, &most, 4);
    for (; i + LANES <= n; i += LANES) over |= limit - (vi)vf_abs(vf_load(x + i));
    memcpy(found, &over, sizeof found);
    for (int l = 0; l < LANES; l++) any |= found[l];
    for (; i < n; i++) {
        memcpy(&bits, &x[i], 4);
        any |= limit - (bits & 0x7fffffff);
    }
    return any < 0;
}

const zt_plain ZT_ENCODER(plain) = {decode_f16, encode_f16, any_above};
