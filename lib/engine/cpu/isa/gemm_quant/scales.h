/* scales.h - private to gemm_quant/: the scales and minima of a group's 16 rows, as f32 and as the integers of the
 * arithmetic of a pair (tile_codes.h).
 *
 * head: where the scales of some slices (32 columns each) lie, in front of their codes; slice: which of them;
 * half: 0 or 1, its first or last 16 columns.
 */
#ifndef ZT_CPU_GEMM_QUANT_SCALES_H
#define ZT_CPU_GEMM_QUANT_SCALES_H

#include "lib/engine/cpu/isa/gemm_quant/layout.h"

/* zt_pack_head_slices; a constant for blocks of 256 columns, which are always whole. */
INLINE int head_slices(zt_pack_form form, int64_t left) { return form.head_slices == 8 ? 8 : zt_pack_head_slices(form, left); }

/* ---- as f32 ---------------------------------------------------------------------------------- */

/* Scales of a byte lie two beside each other: which one is wanted, where the two are, and that one as f32. */
INLINE int scale_index(zt_pack_form form, int slice, int half) { return zt_pack_scale_per_16(form) ? 2 * slice + half : slice; }
INLINE const uint8_t *two_scales_at(const uint8_t *scales, int index) { return scales + zt_pack_scale_at(index / 2 * 2, 0); }
INLINE fv one_of_two(iv two, int index) { return fv_of_iv(index % 2 ? iv16_second(two) : iv16_first(two)); }

INLINE fv f32_scale(zt_pack_form form, const uint8_t *head, int slice, int half)
{
    const int index = scale_index(form, slice, half);
    if (form.scales == ZT_SCALES_E8M0) return fv_of_e8m0(head + 16 * slice);
    if (form.scales == ZT_SCALES_E4M3) return fv_of_e4m3(head + 16 * index);
    if (form.scales == ZT_SCALES_F16 || form.scales == ZT_SCALES_F16_MIN) return fv_of_f16(head + 32 * slice);
    fv d = fv_of_f16(head);
    if (form.scales == ZT_SCALES_ONE) return d;
    if (form.scales == ZT_SCALES_I8 || form.scales == ZT_SCALES_I8_16)
        return fv_mul(d, one_of_two(iv16_of_i8(two_scales_at(head + 32, index)), index));
    iv two = iv16_of_u8(two_scales_at(head + 64, index));
    return fv_mul(d, one_of_two(form.scales == ZT_SCALES_U4_MIN ? iv16_low_bits(two, 4) : two, index));
}

INLINE fv f32_min(zt_pack_form form, const uint8_t *head, int slice, int half)
{
    const int index = scale_index(form, slice, half);
    if (form.scales == ZT_SCALES_F16_MIN) return fv_of_f16(head + 64 + 32 * slice);
    fv d = fv_neg(fv_of_f16(head + 32));
    if (form.scales == ZT_SCALES_U4_MIN)
        return fv_mul(d, one_of_two(iv16_shr(iv16_of_u8(two_scales_at(head + 64, index)), 4), index));
    return fv_mul(d, one_of_two(iv16_of_u8(two_scales_at(head + 192, index)), index));
}

/* ---- as integers ----------------------------------------------------------------------------- */

/* The powers of a group's rows, as fv_mul_power wants them: for scales, and for minima. */
typedef struct row_powers {
    fv scale, min;
} row_powers;

INLINE row_powers load_powers(zt_pack_form form, const uint8_t *group)
{
    const fv power = fv_load(group);
    const float unit = 1.0f / (float)(1 << zt_pack_min_shift(form));
    return (row_powers){fv_power(power), fv_power(fv_mul(power, fv_set(unit)))};
}

/* Two numbers times a power, rounded. */
INLINE iv two_integers(fv a, fv b, fv power)
{
    return iv16_pair(iv_of_fv(fv_mul_power(a, power)), iv_of_fv(fv_mul_power(b, power)), 0);
}

/* Where scales are integers of b bits times d of their head (minima: times dmin): d 2^b power, rounded, twice. */
typedef struct head_units {
    iv scale, min;
} head_units;

INLINE head_units load_head_units(zt_pack_form form, const uint8_t *head, row_powers powers)
{
    head_units units = {iv_set(0), iv_set(0)};
    if (!zt_pack_scale_bits(form)) return units;
    const fv up = fv_set((float)(1 << zt_pack_scale_bits(form)));
    const fv d = fv_mul(fv_of_f16(head), up);
    units.scale = two_integers(d, d, powers.scale);
    if (!zt_pack_has_mins(form)) return units;
    const fv m = fv_mul(fv_of_f16(head + 32), up);
    units.min = two_integers(m, m, powers.min);
    return units;
}

/* D: the two scales of the pair that begins at `slice`. */
INLINE iv int_scales(zt_pack_form form, const uint8_t *head, int slice, row_powers powers, head_units units)
{
    const int last = zt_pack_pair_slices(form) - 1, index = scale_index(form, slice, 0);
    if (!zt_pack_scale_bits(form))
        return two_integers(f32_scale(form, head, slice, 0), f32_scale(form, head, slice + last, 1 - last), powers.scale);
    iv two = zt_pack_has_mins(form) ? iv16_of_u8(two_scales_at(head + 64, index)) : iv16_of_i8(two_scales_at(head + 32, index));
    if (form.scales == ZT_SCALES_U4_MIN) two = iv16_low_bits(two, 4);
    return iv16_scale(units.scale, iv16_shl(two, 15 - zt_pack_scale_bits(form)));
}

/* N: the two minima, given D: those of codes less zt_pack_middle. */
INLINE iv int_mins(zt_pack_form form, const uint8_t *head, int slice, row_powers powers, head_units units, iv scale)
{
    const int index = scale_index(form, slice, 0), times = zt_pack_middle(form) >> zt_pack_min_shift(form);
    if (!zt_pack_has_mins(form)) return iv_set(0);
    if (times == 2) scale = iv16_shl(scale, 1); /* else it is 1 */
    if (!zt_pack_scale_bits(form))
        return iv16_add(scale, two_integers(f32_min(form, head, slice, 0), f32_min(form, head, slice + 1, 0), powers.min));
    const uint8_t *both = head + 64, *mins = head + 192;
    iv two = form.scales == ZT_SCALES_U4_MIN ? iv16_shr(iv16_of_u8(two_scales_at(both, index)), 4)
                                             : iv16_of_u8(two_scales_at(mins, index));
    return iv16_sub(scale, iv16_scale(units.min, iv16_shl(two, 15 - zt_pack_scale_bits(form))));
}

/* What the sums of a pair are multiplied by. */
typedef struct pair_factors {
    iv int_scale, int_min; /* act=q8: D and N */
    fv scale[2], min[2];   /* act=q16: d and n */
} pair_factors;

INLINE pair_factors load_factors(zt_pack_form form, int parts, const uint8_t *head, int slice, row_powers powers,
                                 head_units units)
{
    pair_factors by = {.int_scale = iv_set(0)};
    const int last = zt_pack_pair_slices(form) - 1;
    if (parts == 1) {
        by.int_scale = int_scales(form, head, slice, powers, units);
        by.int_min = int_mins(form, head, slice, powers, units, by.int_scale);
        return by;
    }
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const int at = slice + last * i, half = (1 - last) * i;
        by.scale[i] = f32_scale(form, head, at, half);
        if (!zt_pack_has_mins(form)) continue;
        fv middle = fv_mul(by.scale[i], fv_set((float)zt_pack_middle(form)));
        by.min[i] = fv_add(middle, f32_min(form, head, at, half));
    }
    return by;
}

#endif
