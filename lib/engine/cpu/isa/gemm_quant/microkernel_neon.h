/* microkernel_neon.h - private to microkernel.h, which says what these are: sdot, or without it smull and sadalp.
 *
 * Both multiply signed bytes, so codes of 8 bits are taken less 128; sums then begin without what the middle subtracts.
 */
#ifndef ZT_CPU_MICROKERNEL_NEON_H
#define ZT_CPU_MICROKERNEL_NEON_H

enum { REGISTER_ROWS = 4 };

INLINE int8x16_t signed_codes(int bits, uint8x16_t codes)
{
    return vreinterpretq_s8_u8(bits == 8 ? veorq_u8(codes, vdupq_n_u8(128)) : codes);
}

INLINE iv begin_sum(int bits, sums_start start, int t) { return iv_set(bits == 8 ? start.common : load_i32(start.each + 4 * t)); }

/* Four columns of a token, four times. */
INLINE int8x16_t repeat_word(const uint8_t *x) { return vreinterpretq_s8_s32(vdupq_n_s32(load_i32(x))); }

#if defined(ZT_ISA_dotprod)
TEMPLATE void cv_dots(int bits, int count, int T, int row_step, const cv *codes, const uint8_t *x, sums_start start, iv *y)
{
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = begin_sum(bits, start, t);
    UNROLL_FOR (int i = 0; i < count; i++) {
        const int8x16_t a = signed_codes(bits, codes[i].a), b = signed_codes(bits, codes[i].b);
        const int8x16_t c = signed_codes(bits, codes[i].c), d = signed_codes(bits, codes[i].d);
        UNROLL_FOR (int t = 0; t < T; t++) {
            const int8x16_t word = repeat_word(x + 4 * (i * row_step + t));
            y[t].a = vdotq_s32(y[t].a, a, word);
            y[t].b = vdotq_s32(y[t].b, b, word);
            y[t].c = vdotq_s32(y[t].c, c, word);
            y[t].d = vdotq_s32(y[t].d, d, word);
        }
    }
}
#else
/* How many products of each byte 16 bits hold two sums of: 15 * 127 * 8 * 2, 31 * 127 * 4 * 2, 63 * 127 * 2 * 2, 128 * 127 * 2. */
INLINE int registers_in_16_bits(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1; }

/* Adds to the sums of four rows: of `run` registers of codes, 16 bytes of each, 64 apart, by as many words of a token. */
INLINE int32x4_t add_products(int bits, int run, int32x4_t sum, const uint8_t *codes, const int8x16_t *words)
{
    int16x8_t low = vdupq_n_s16(0), high = low;
    UNROLL_FOR (int i = 0; i < run; i++) {
        const int8x16_t code = signed_codes(bits, vld1q_u8(codes + 64 * i));
        low = vmlal_s8(low, vget_low_s8(code), vget_low_s8(words[i]));
        high = vmlal_high_s8(high, code, words[i]);
    }
    return vpadalq_s16(sum, vpaddq_s16(low, high));
}

TEMPLATE void cv_dots(int bits, int count, int T, int row_step, const cv *codes, const uint8_t *x, sums_start start, iv *y)
{
    const int run = registers_in_16_bits(bits) < count ? registers_in_16_bits(bits) : count;
    uint8_t stored[8 * 64];
    UNROLL_FOR (int i = 0; i < count; i++) cv_store(stored + 64 * i, codes[i]);
    UNROLL_FOR (int t = 0; t < T; t++) {
        iv sum = begin_sum(bits, start, t);
        UNROLL_FOR (int i = 0; i < count; i += run) {
            int8x16_t words[8];
            UNROLL_FOR (int k = 0; k < run; k++) words[k] = repeat_word(x + 4 * ((i + k) * row_step + t));
            sum.a = add_products(bits, run, sum.a, stored + 64 * i, words);
            sum.b = add_products(bits, run, sum.b, stored + 64 * i + 16, words);
            sum.c = add_products(bits, run, sum.c, stored + 64 * i + 32, words);
            sum.d = add_products(bits, run, sum.d, stored + 64 * i + 48, words);
        }
        y[t] = sum;
    }
}
#endif

/* One or two rows take their codes like more. */
TEMPLATE bool streamed_dots(zt_pack_form form, int T, const uint8_t *p, const uint8_t *x, sums_start start, iv *y)
{
    (void)form, (void)T, (void)p, (void)x, (void)start, (void)y;
    return false;
}

#endif
