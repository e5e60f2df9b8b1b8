/* microkernel_avx2.h - private to microkernel.h, which says what these are: vpmaddubsw and vpmaddwd. */
#ifndef ZT_CPU_MICROKERNEL_AVX2_H
#define ZT_CPU_MICROKERNEL_AVX2_H

enum { REGISTER_ROWS = 4 };

/* Here and not elsewhere: the compiler puts such sums off, and then has no registers for them. */
INLINE void keep_in_register(iv *a) { __asm__("" : "+x"(a->lo), "+x"(a->hi)); }

INLINE __m256i broadcast_word(const uint8_t *x) { return _mm256_set1_epi32(load_i32(x)); }

/* Pairs of products in 16 bits: of codes below 128, or of signed ones given |code|. */
INLINE iv multiply_pairs(cv codes, __m256i x)
{
    return (iv){_mm256_maddubs_epi16(codes.lo, x), _mm256_maddubs_epi16(codes.hi, x)};
}
INLINE iv multiply_pairs_signed(cv codes, cv abs, __m256i x)
{
    return (iv){_mm256_maddubs_epi16(abs.lo, _mm256_sign_epi8(x, codes.lo)),
                _mm256_maddubs_epi16(abs.hi, _mm256_sign_epi8(x, codes.hi))};
}
INLINE iv add_pairs16(iv a) { return iv16_dot(a, TWICE(iv, _mm256_set1_epi16(1))); }

/* Codes of 8 bits less 128. */
INLINE cv cv_signed(cv codes)
{
    const cv sign = TWICE(cv, _mm256_set1_epi8((char)128));
    return TWO(cv, _mm256_xor_si256, codes, sign);
}

/* These: |code| * 127 * 2 fits 16 bits, two of them do not. */
TEMPLATE void add_signed_codes(int T, cv codes, const uint8_t *x, iv *y)
{
    const cv abs = ONE(cv, _mm256_abs_epi8, codes);
    UNROLL_FOR (int t = 0; t < T; t++) {
        y[t] = iv_add(y[t], add_pairs16(multiply_pairs_signed(codes, abs, broadcast_word(x + 4 * t))));
        keep_in_register(&y[t]);
    }
}

/* Codes of fewer: register i of a run, whose pairs are summed up in 16 bits. */
TEMPLATE void accumulate_pairs(int T, bool begins, cv codes, const uint8_t *x, iv *sums)
{
    UNROLL_FOR (int t = 0; t < T; t++) {
        const iv products = multiply_pairs(codes, broadcast_word(x + 4 * t));
        sums[t] = begins ? products : iv16_add(sums[t], products);
        keep_in_register(&sums[t]);
    }
}

/* How many registers of codes have sums that 16 bits hold: 15 * 127 * 2 * 8, 31 * 127 * 2 * 4,
 * 63 * 127 * 2 * 2. */
INLINE int registers_in_16_bits(int bits) { return bits <= 4 ? 8 : bits == 5 ? 4 : 2; }

/* What sums begin with. */
TEMPLATE void begin_sums(int bits, int T, sums_start start, iv *y)
{
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = iv_set(bits < 8 ? load_i32(start.each + 4 * t) : start.common);
}

/* Register i of n of codes; those of 8 bits are signed. s: sums of a run. */
TEMPLATE void accumulate_register(int bits, int count, int T, int i, cv codes, const uint8_t *x, iv *sums, iv *y)
{
    const int run = registers_in_16_bits(bits) < count ? registers_in_16_bits(bits) : count;
    if (bits == 8) {
        add_signed_codes(T, codes, x, y);
        return;
    }
    accumulate_pairs(T, i % run == 0, codes, x, sums);
    if (i % run != run - 1) return;
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = iv_add(y[t], add_pairs16(sums[t]));
}

/* n registers of crossed codes, which lie at p, from what is at `from` on. rolled: two in a turn of a loop. */
TEMPLATE void sum_crossed(bool rolled, int count, int T, int row_step, const uint8_t *p, const uint8_t *x, const uint8_t *start,
                          iv *sums)
{
    UNROLL_FOR (int t = 0; t < T; t++) sums[t] = iv_set(load_i32(start + 4 * t));
    ROLLED_FOR (int i = 0; rolled && i < count; i += 2) {
        UNROLL_FOR (int j = 0; j < 2; j++) /* (not of a number that is known later: gcc 12 then copies sums about) */
            accumulate_pairs(T, false, cv_load_in_order(p + 64 * j), x + 4 * row_step * j, sums);
        p += 128, x += 8 * row_step;
        __asm__("" : "+r"(p), "+r"(x)); /* two pointers, not one and all distances */
    }
    UNROLL_FOR (int i = 0; !rolled && i < count; i++)
        accumulate_pairs(T, false, cv_load_in_order(p + 64 * i), x + 4 * row_step * i, sums);
}

/* Codes of 8 bits as 16 upper + lower - 8. */
INLINE cv cv_upper(cv codes)
{
    const cv round = TWICE(cv, _mm256_set1_epi8(7)); /* the sum of both and 1 is halved */
    return cv_and(cv_shr(TWO(cv, _mm256_avg_epu8, codes, round), 3), 31);
}
INLINE cv cv_lower(cv codes)
{
    const cv eight = TWICE(cv, _mm256_set1_epi8(8));
    return cv_and(TWO(cv, _mm256_add_epi8, codes, eight), 15);
}

/* What sums of more bits are put together of (tile_codes.h). */
INLINE iv join_crossed(int beyond, iv a, iv b)
{
    const iv middle = TWICE(iv, _mm256_set1_epi16(-32768));
    if (beyond == 1) {
        a = TWO(iv, _mm256_avg_epu16, a, b);
        return TWO(iv, _mm256_xor_si256, a, middle);
    }
    return iv16_add(a, SHIFT(iv, _mm256_srai_epi16, b, 4));
}

/* The first of two waits in memory: there are no registers for both, and the compiler would move them about.
 * Where each is of all columns, they are rolled: else the sums of a tile are so many bytes of instructions that
 * a Zen 3 is 8 per cent slower at them. */
TEMPLATE void cv_dots_crossed(int beyond, int count, int T, int row_step, const uint8_t *p, const uint8_t *x,
                              const uint8_t *start, iv *y)
{
    const bool whole_codes = beyond > 1;
    const int registers = beyond == 1 ? count / 2 : count;
    uint8_t first[REGISTER_ROWS * 64] __attribute__((aligned(64)));
    const uint8_t *stored = first;
    sum_crossed(whole_codes, registers, T, row_step, p, x, start, y);
    if (beyond == 0) return;
    UNROLL_FOR (int t = 0; t < T; t++) cv_store(first + 64 * t, y[t]);
    __asm__ volatile("" : "+r"(stored) : : "memory");
    sum_crossed(whole_codes, registers, T, row_step, p + 64 * registers, whole_codes ? x : x + 4 * row_step * registers,
                start + 4 * row_step, y);
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = join_crossed(beyond, cv_load(stored + 64 * t), y[t]);
}

/* The sum of both rows of a token is the second one's (activations.h). */
TEMPLATE void begin_sums_q16(int T, sums_start start, iv *y)
{
    UNROLL_FOR (int u = 0; u < T / 2; u++) y[u] = iv_set(load_i32(start.each + 8 * u + 4));
}

/* Two numbers of 16 bits by even codes, two by odd ones. */
TEMPLATE void accumulate_q16(int T, cv codes, const uint8_t *x, iv *y)
{
    const iv even = TWO(cv, _mm256_and_si256, codes, TWICE(cv, _mm256_set1_epi16(255)));
    const iv odd = cv_shr(codes, 8);
    UNROLL_FOR (int u = 0; u < T / 2; u++) {
        const iv a = TWICE(iv, broadcast_word(x + 8 * u)), b = TWICE(iv, broadcast_word(x + 8 * u + 4));
        y[u] = iv_add(y[u], iv_add(iv16_dot(even, a), iv16_dot(odd, b)));
        keep_in_register(&y[u]);
    }
}

/* The sums of T / 2 tokens by `count` registers of codes that lie unpacked at p. (With act=q8 those are crossed:
 * cv_dots_crossed.) */
TEMPLATE void unpacked_dots(int parts, int bits, int count, int T, int row_step, const uint8_t *p, const uint8_t *x,
                            sums_start start, iv *y)
{
    (void)parts, (void)bits;
    begin_sums_q16(T, start, y);
    UNROLL_FOR (int i = 0; i < count; i++) accumulate_q16(T, cv_load_in_order(p + 64 * i), x + 4 * row_step * i, y);
}

/* cv_dots, with P = 2 cv_dots_fine, of n registers of the codes packed at p, from `first` on. Each is unpacked
 * where it is multiplied: there are no registers for all. */
TEMPLATE void cv_dots_packed(zt_pack_form form, int first, int count, int T, int parts, int row_step, const uint8_t *p,
                             const uint8_t *x, sums_start start, iv *y)
{
    const int bits = zt_pack_value_bits(form);
    const bool in_twos = count == 8 && form.bits >= 4 && form.bits < 8; /* the i-th lies where the i + 4-th does */
    cv packed[8];
    iv sums[REGISTER_ROWS];
    if (parts == 2)
        begin_sums_q16(T, start, y);
    else
        begin_sums(bits, T, start, y);
    UNROLL_FOR (int k = 0; k < count; k++) {
        const int i = first + (in_twos ? k % 2 * 4 + k / 2 : k), low_at = low_register(form, i),
                  upper_at = high_register(form, i);
        if (!in_twos || k % 2 == 0) packed[low_at] = cv_load_in_order(p + 64 * low_at);
        if (upper_at != low_at) packed[upper_at] = cv_load(p + 64 * upper_at);
        const cv codes = cv_code(form, packed, i);
        const uint8_t *xi = x + 4 * row_step * (i - first);
        if (parts == 2)
            accumulate_q16(T, codes, xi, y);
        else
            accumulate_register(bits, count, T, k, bits == 8 ? cv_signed(codes) : codes, xi, sums, y);
    }
}

/* The two sums of rows t to t + rows - 1 of a tile of T (with parts = 2 of their tokens), by codes packed at q. */
TEMPLATE void pair_dots(zt_pack_form form, int T, int t, int rows, int parts, const uint8_t *q, const uint8_t *x,
                        iv (*dot)[TILE_ROWS])
{
    const int per_16 = zt_pack_scale_per_16(form), registers = per_16 ? 4 : 8;
    const uint8_t *each = x + (pair_columns(form) + pair_scale_bytes(form)) * T + 4 * t;
    UNROLL_FOR (int i = 0; i < 2; i++) {
        const sums_start start = start_of_sums(form, parts, i, each + 4 * T * i);
        const uint8_t *xi = x + 4 * registers * T * i + 4 * t, *qi = q + (per_16 ? 0 : ZT_PACK_CODE_BYTES(form.bits) * i);
        cv_dots_packed(form, per_16 ? 4 * i : 0, registers, rows, parts, T, qi, xi, start, dot[i]);
    }
}

/* The codes packed at p, crossed, to 16 n registers (of 8 bits twice as many). */
TEMPLATE void cv_cross(zt_pack_form form, const uint8_t *packed, uint8_t *to)
{
    const int per_16 = zt_pack_scale_per_16(form), registers = per_16 ? 4 : 8;
    cv a[8], b[8];
    cv_unpack(form, false, packed, a);
    if (!per_16) cv_unpack(form, false, packed + ZT_PACK_CODE_BYTES(form.bits), b);
    UNROLL_FOR (int i = 0; i < 2 * registers; i++, to += 64) {
        const cv words = iv16_pair(a[i / 2], per_16 ? a[4 + i / 2] : b[i / 2], i % 2 * 16);
        cv_store(to, zt_pack_value_bits(form) == 8 ? cv_upper(words) : words);
        if (zt_pack_value_bits(form) == 8) cv_store(to + 64 * 2 * registers, cv_lower(words));
    }
}

#undef ONE
#undef TWO
#undef THREE
#undef SHIFT
#undef WIDER
#undef AT

#endif
