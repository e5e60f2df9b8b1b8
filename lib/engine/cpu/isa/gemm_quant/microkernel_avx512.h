/* microkernel_avx512.h - private to microkernel.h, which says what these are: vpdpbusd. */
#ifndef ZT_CPU_MICROKERNEL_AVX512_H
#define ZT_CPU_MICROKERNEL_AVX512_H

enum { REGISTER_ROWS = 8 };

typedef int32_t __attribute__((may_alias)) word32;

/* y += the products of four columns of each row by those of a token at x. */
INLINE iv dot_words(iv y, cv codes, const uint8_t *x)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" /* gcc 12 takes two instructions for it */
            : "+v"(y)
            : "v"(codes), "m"(*(const word32 *)x));
    return y;
}

/* All tokens side by side: their chains are independent, and each register of codes is used up. One or
 * two have each two chains, even and odd columns: with one the scheduler would be full of instructions that wait. */
TEMPLATE void cv_dots(int bits, int count, int T, int row_step, const cv *codes, const uint8_t *x, sums_start start, iv *y)
{
    iv odd[2] = {iv_set(0), iv_set(0)};
    (void)bits;
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = iv_set(load_i32(start.each + 4 * t));
    UNROLL_FOR (int i = 0; i < count; i++)
        UNROLL_FOR (int t = 0; t < T; t++) {
            iv *to = T <= 2 && i % 2 ? &odd[t] : &y[t];
            *to = dot_words(*to, codes[i], x + 4 * (i * row_step + t));
        }
    UNROLL_FOR (int t = 0; t < T && T <= 2; t++) y[t] = iv_add(y[t], odd[t]);
}

/* The same of codes of 4 bits packed at p, the upper ones as 16 times what they are: shifted once, as
 * sums. */
TEMPLATE void cv_dots_nibbles(int T, const uint8_t *p, const uint8_t *x, sums_start start, iv *y)
{
    iv upper[2] = {iv_set(0), iv_set(0)};
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = iv_set(load_i32(start.each + 4 * t));
    UNROLL_FOR (int i = 0; i < 4; i++) {
        const cv codes = cv_load_in_order(p + 64 * i), low = cv_and(codes, 15), high = cv_and(codes, 0xf0);
        UNROLL_FOR (int t = 0; t < T; t++) {
            y[t] = dot_words(y[t], low, x + 4 * (i * T + t));
            upper[t] = dot_words(upper[t], high, x + 4 * ((4 + i) * T + t));
        }
    }
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = iv_add(y[t], _mm512_srai_epi32(upper[t], 4));
}

/* The same of codes of 8 bits packed at p, each register requested between products, and nothing that follows
 * before them: to request all eight at once, or the scales first, costs a tenth of the rate. */
TEMPLATE void cv_dots_bytes(int T, const uint8_t *p, const uint8_t *x, sums_start start, iv *y)
{
    UNROLL_FOR (int t = 0; t < T; t++) y[t] = iv_set(load_i32(start.each + 4 * t));
    UNROLL_FOR (int i = 0; i < 8; i++) {
        cv codes = cv_load_in_order(p + 64 * i);
        UNROLL_FOR (int t = 0; t < T; t++)
            __asm__ volatile("vpdpbusd %2%{1to16%}, %1, %0"
                             : "+v"(y[t])
                             : "v"(codes), "m"(*(const word32 *)(x + 4 * (i * T + t)))
                             : "memory");
    }
}

TEMPLATE bool streamed_dots(zt_pack_form form, int T, const uint8_t *p, const uint8_t *x, sums_start start, iv *y)
{
    if (form.bits == 8)
        cv_dots_bytes(T, p, x, start, y);
    else if (form.bits == 4 && !form.table)
        cv_dots_nibbles(T, p, x, start, y);
    else
        return false;
    return true;
}

#endif
