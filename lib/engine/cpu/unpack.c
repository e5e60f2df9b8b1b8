/* unpack.c - a row of packed weights back to f32, with the bits that its dtype's decode gives. */
#include "lib/engine/cpu/pack.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* ---- back ------------------------------------------------------------------------------------ */

INLINE float f16_at(const uint8_t *line, int r)
{
    uint16_t bits;
    memcpy(&bits, line + 2 * r, 2);
    return zt_f16_to_f32(bits);
}

/* The 32 codes of row r, in order: their two, four or eight low bits, then those above. */
INLINE void unpack_codes(zt_pack_form form, const uint8_t *packed, int r, uint8_t *code)
{
    for (int i = 0; i < 8; i++) {
        uint32_t word;
        if (form.bits == 8)
            word = load32(packed + 64 * i + 4 * r);
        else if (form.bits < 4)
            word = load32(packed + i / 4 * 64 + 4 * r) >> i % 4 * 2 & 0x03030303u;
        else
            word = load32(packed + i % 4 * 64 + 4 * r) >> i / 4 * 4 & 0x0f0f0f0fu;
        if (form.bits == 3) word |= (load32(packed + 128 + 4 * r) >> i & 0x01010101u) << 2;
        if (form.bits == 5) word |= (load32(packed + 256 + 4 * r) >> i & 0x01010101u) << 4;
        if (form.bits == 6) word |= (load32(packed + 256 + i / 4 * 64 + 4 * r) >> i % 4 * 2 & 0x03030303u) << 4;
        memcpy(code + 4 * i, &word, 4);
    }
    for (int i = 0; i < 32 && form.table; i++) code[i] = zt_pack_table_values[form.table][code[i]];
}

/* Scale and minimum of row r for columns 16h..16h+15 of the b-th 32 columns after the head p. */
typedef float scale_fn(const uint8_t *p, int b, int h, int r, float *min);

#define SCALE(name) static float scale_##name(const uint8_t *p, int b, int h, int r, float *min)
SCALE(half) { return (void)h, (void)min, f16_at(p + 32 * b, r); }
SCALE(half_min) { return *min = f16_at(p + 64 + 32 * b, r), scale_half(p, b, h, r, min); }
SCALE(e8m0) { return (void)h, (void)min, zt_pack_e8m0(p[16 * b + r]); }
SCALE(e4m3) { return (void)min, zt_pack_e4m3(p[32 * b + 16 * h + r]); }
SCALE(one) { return (void)b, (void)h, (void)min, f16_at(p, r); }
SCALE(u6_min)
{
    (void)h;
    *min = -(f16_at(p + 32, r) * (float)p[192 + zt_pack_scale_at(b, r)]);
    return f16_at(p, r) * (float)p[64 + zt_pack_scale_at(b, r)];
}
SCALE(u4_min)
{
    uint8_t both = p[64 + zt_pack_scale_at(2 * b + h, r)];
    *min = -(f16_at(p + 32, r) * (float)(both >> 4));
    return f16_at(p, r) * (float)(both & 15);
}
SCALE(i8)
{
    (void)h, (void)min;
    return f16_at(p, r) * (float)(int8_t)p[32 + zt_pack_scale_at(b, r)];
}
SCALE(i8_16) { return scale_i8(p, 2 * b + h, h, r, min); }

static scale_fn *const scale_of[] = {
    [ZT_SCALES_F16] = scale_half,  [ZT_SCALES_F16_MIN] = scale_half_min, [ZT_SCALES_E8M0] = scale_e8m0,
    [ZT_SCALES_E4M3] = scale_e4m3, [ZT_SCALES_U6_MIN] = scale_u6_min,    [ZT_SCALES_U4_MIN] = scale_u4_min,
    [ZT_SCALES_I8] = scale_i8,     [ZT_SCALES_I8_16] = scale_i8_16,      [ZT_SCALES_ONE] = scale_one,
};

static void unpack_blocks(zt_pack_form form, int64_t K, const uint8_t *head, int r, float *dst)
{
    for (int64_t left = K / 32; left > 0; left -= form.head_slices) {
        const uint8_t *codes = head + form.head_bytes;
        for (int slice = 0; slice < zt_pack_head_slices(form, left); slice++, codes += ZT_PACK_CODE_BYTES(form.bits)) {
            uint8_t code[32];
            unpack_codes(form, codes, r, code);
            for (int half = 0; half < 2; half++, dst += 16) {
                float min = 0, scale = scale_of[form.scales](head, slice, half, r, &min);
                for (int j = 0; j < 16; j++) dst[j] = scale * (float)(code[16 * half + j] - form.offset);
                for (int j = 0; j < 16 && zt_pack_has_mins(form); j++) dst[j] += min;
            }
        }
        head = codes;
    }
}

void zt_unpack_row(zt_dtype type, int64_t K, const void *group, int r, float *dst)
{
    const zt_pack_form form = zt_pack_form_of(type);
    const uint8_t *packed = group;
    if (zt_pack_as_in_file(type)) {
        zt_dtype_get(type)->decode(packed + (size_t)r * zt_pack_file_bytes(type, K), dst, K);
        return;
    }
    if (form.bits) {
        unpack_blocks(form, K, packed + ZT_PACK_POWERS, r, dst);
        return;
    }
    size_t size = type == ZT_F32 ? 4 : 2;
    for (int64_t k = 0; k < K; k++) {
        size_t at =
            type == ZT_BF16 ? (size_t)(k / 2) * 64 + 4 * (size_t)r + 2 * (size_t)(k % 2) : ((size_t)k * 16 + (size_t)r) * size;
        zt_dtype_get(type)->decode(packed + at, dst + k, 1);
    }
}
