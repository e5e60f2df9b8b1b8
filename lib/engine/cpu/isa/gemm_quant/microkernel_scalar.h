/* microkernel_scalar.h - private to microkernel.h, which says what these are: plain C. */
#ifndef ZT_CPU_MICROKERNEL_SCALAR_H
#define ZT_CPU_MICROKERNEL_SCALAR_H

enum { REGISTER_ROWS = 8 };

TEMPLATE void cv_dots(int bits, int count, int T, int row_step, const cv *codes, const uint8_t *x, sums_start start, iv *y)
{
    (void)bits;
    for (int t = 0; t < T; t++) {
        iv sum = iv_set(load_i32(start.each + 4 * t));
        for (int i = 0; i < count; i++) {
            int8_t x4[4];
            memcpy(x4, x + 4 * (i * row_step + t), 4);
            for (int r = 0; r < 16; r++)
                for (int j = 0; j < 4; j++) sum.v[r] += codes[i].v[4 * r + j] * x4[j];
        }
        y[t] = sum;
    }
}

/* Codes of 8 bits. */
TEMPLATE bool streamed_dots(zt_pack_form form, int T, const uint8_t *p, const uint8_t *x, sums_start start, iv *y)
{
    cv codes[8];
    if (form.bits != 8) return false;
    UNROLL_FOR (int i = 0; i < 8; i++) codes[i] = cv_load_in_order(p + 64 * i);
    cv_dots(8, 8, T, T, codes, x, start, y);
    return true;
}

#endif
