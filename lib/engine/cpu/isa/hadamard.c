/* hadamard.c - the kernel of rotations by a Hadamard matrix: rows are items, columns go in blocks of a power of two. Sums are of
 * pairs 1, 2, 4 ... apart, each rounded, then comes one product by 1/sqrt(size): so the bits do not depend on lanes.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"
#include "lib/ops/hadamard.h"

enum { AUX_SIZE, AUX_COLUMNS };

static bool hadamard_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[0]->dtype == ZT_F32;
}

static void hadamard_setup(zt_cpu_call *call)
{
    const zt_hadamard_attrs *hadamard = call->attrs;
    const zt_type *x = &call->in[0].type;
    const int64_t columns = x->dim[x->rank - 1];
    call->aux[AUX_SIZE] = zt_hadamard_size(hadamard->head ? hadamard->head : columns);
    call->aux[AUX_COLUMNS] = columns;
    call->items[0] = zt_type_count(x) ? zt_type_count(x) / columns : 0;
}

/* Sums and differences of lanes `apart`: lane i has x[i] + x[i + apart], lane i + apart x[i] - x[i + apart]. */
INLINE vf rotate_lanes(int apart, vf x, vf signs) { return vf_add(vf_swap(apart, x), vf_mul(x, signs)); }

/* 1 in the lanes that become sums, -1 in the others. */
INLINE vf signs_of(int apart)
{
    float signs[LANES];
    for (int lane = 0; lane < LANES; lane++) signs[lane] = lane & apart ? -1 : 1;
    return vf_load(signs);
}

/* Pairs within registers, those of blocks of `size`. */
static void rotate_registers(const float *x, float *y, int64_t columns, int64_t size)
{
    const vf one = signs_of(1), two = signs_of(2), four = signs_of(4), eight = signs_of(8);
    for (int64_t i = 0; i < columns; i += LANES) {
        const int n = columns - i < LANES ? (int)(columns - i) : LANES;
        vf a = vf_load_n(x + i, n);
        if (size > 1) a = rotate_lanes(1, a, one);
        if (size > 2) a = rotate_lanes(2, a, two);
        if (size > 4) a = rotate_lanes(4, a, four);
        if (size > 8) a = rotate_lanes(8, a, eight);
        vf_store_n(y + i, n, a);
    }
}

/* Pairs of registers; columns are whole blocks, and blocks whole registers. */
static void rotate_pairs(float *y, int64_t columns, int64_t size)
{
    for (int64_t apart = LANES; apart < size; apart *= 2)
        for (int64_t at = 0; at < columns; at += 2 * apart)
            for (float *p = y + at; p < y + at + apart; p += LANES) {
                const vf a = vf_load(p), b = vf_load(p + apart);
                vf_store(p, vf_add(a, b));
                vf_store(p + apart, vf_sub(a, b));
            }
}

static void hadamard_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const int64_t size = call->aux[AUX_SIZE], columns = call->aux[AUX_COLUMNS];
    const vf scale = vf_set((float)(1 / sqrt((double)size)));
    (void)phase, (void)local;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)call->in[0].data + row * columns;
        float *y = (float *)call->out[0].data + row * columns;
        rotate_registers(x, y, columns, size);
        if (size > LANES) rotate_pairs(y, columns, size);
        for (int64_t i = 0; i < columns; i += LANES) {
            const int n = columns - i < LANES ? (int)(columns - i) : LANES;
            vf_store_n(y + i, n, vf_mul(vf_load_n(y + i, n), scale));
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_hadamard)[] = {
    {.op = ZT_OP_hadamard, .has = hadamard_has, .setup = hadamard_setup, .run = hadamard_run},
    {0},
};
