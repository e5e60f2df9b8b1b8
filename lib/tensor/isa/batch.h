/* batch.h - private to isa/: sixteen groups of numbers searched at once, a group a lane.
 *
 * A group is the part of a block that has a scale of its own: 16 or 32 numbers. Its sums run over its
 * numbers in order, in its own lane, so that what it gets does not depend on the other fifteen.
 */
#ifndef ZT_TENSOR_BATCH_H
#define ZT_TENSOR_BATCH_H

#include "lib/tensor/isa/lanes.h"

#define GROUP 32 /* numbers of the largest group */

typedef struct batch {
    int size;         /* numbers of a group */
    vf x[GROUP];      /* number j of each group */
    vf w[GROUP];      /* its weight */
    vf sw, sx, sxx;   /* sums of w, w x and w x^2 */
    vf least, most;   /* of x */
    vf magnitude;     /* the largest |x| */
} batch;

/* `groups` groups of `size` numbers from x; lanes past them are 0. w NULL: weights of 1. */
INLINE void batch_load(batch *b, int size, const float *x, const float *w, int groups)
{
    b->size = size;
    for (int j = 0; j < size; j++) {
        float v[LANES] = {0}, u[LANES];
        for (int l = 0; l < LANES; l++) u[l] = 1;
        for (int l = 0; l < groups; l++) v[l] = x[l * size + j];
        for (int l = 0; w && l < groups; l++) u[l] = w[l * size + j];
        b->x[j] = vf_load(v);
        b->w[j] = vf_load(u);
    }
    b->sw = b->sx = b->sxx = vf_set(0);
    b->least = b->most = b->x[0];
    for (int j = 0; j < size; j++) {
        vf x1 = b->x[j], wx = b->w[j] * x1;
        b->sw += b->w[j];
        b->sx += wx;
        b->sxx += wx * x1;
        b->least = vf_min(b->least, x1);
        b->most = vf_max(b->most, x1);
    }
    b->magnitude = vf_max(b->most, -b->least);
}

/* Codes of each group to bytes, code j of group l to out[l * size + j]. */
INLINE void batch_codes(const vf *code, int size, int groups, uint8_t *out)
{
    for (int j = 0; j < size; j++) {
        vi c = __builtin_convertvector(code[j], vi);
        int32_t v[LANES];
        memcpy(v, &c, sizeof v);
        for (int l = 0; l < groups; l++) out[l * size + j] = (uint8_t)v[l];
    }
}

/* Sums of lanes first .. first + n - 1, in order. */
INLINE double lane_sum(vf a, int first, int n)
{
    float v[LANES];
    double sum = 0;
    vf_store(v, a);
    for (int l = first; l < first + n; l++) sum += (double)v[l];
    return sum;
}

INLINE float lane_most(vf a, int first, int n)
{
    float v[LANES], most = 0;
    vf_store(v, a);
    for (int l = first; l < first + n; l++) most = v[l] > most ? v[l] : most;
    return most;
}

/* a with lanes first .. first + n - 1 set to x. */
INLINE vf lanes_set(vf a, int first, int n, float x)
{
    float v[LANES];
    vf_store(v, a);
    for (int l = first; l < first + n; l++) v[l] = x;
    return vf_load(v);
}

#endif
