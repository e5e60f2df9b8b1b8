/* linear.cl - products with weights of any type, as files have them, and rows of such weights.
 *
 * A work-group makes 16 rows of w (a tile) by up to 8 rows of x, or eight tiles one after the other. K goes by fours to SLICES
 * work-items a row of w, whose sums are added up in the slices' order: a row of x gets the same bits whatever is beside it.
 */
#include "lib/engine/opencl/blocks.clh"
#include "lib/engine/opencl/functions.clh"
#include "lib/engine/cuda/args_llm.h"

enum { ROWS = 16, SLICES = 16, TOKENS = 8, TILES = 8 };

FN float curve_of(int curve, float x)
{
    switch (curve) {
    case ZT_CU_RELU: return x < 0 ? 0.0f : x;
    case ZT_CU_SILU: return f_silu_of(x);
    case ZT_CU_GELU: return f_gelu_tanh_of(x);
    case ZT_CU_GELU_ERF: return f_gelu_erf_of(x);
    case ZT_CU_TANH: return tanh(x);
    default: return f_sigmoid_of(x);
    }
}

/* The sum of row t of x and row m of w is done. */
FN void finish(const zt_cu_linear_args *a, const zt_cu_product *p, int64_t expert, int64_t t, int64_t m, float v)
{
    const int64_t at = t * p->M + m;
    if (p->b) v += get(p->b_type, p->b, expert * p->M + m);
    if (a->after != ZT_CU_AFTER_NONE) v = rounded(a->y_type, v);
    if (a->after == ZT_CU_AFTER_ADD) v = get(a->y_type, a->residual, at) + v;
    if (a->after == ZT_CU_AFTER_CURVE) v = curve_of(a->curve, v);
    put(a->y_type, p->y, at, v);
}

FN void multiply_tile(const zt_cu_linear_args *a, const zt_cu_product *p, int64_t expert, int64_t tile, int64_t token, int tokens,
                      __local float (*part)[TOKENS][ROWS])
{
    const int r = thread() % ROWS, slice = thread() / ROWS;
    const int64_t m = tile * ROWS + r;
    float sum[TOKENS] = {0, 0, 0, 0, 0, 0, 0, 0};
    bytes row = PTR(const uint8_t, p->w) + expert * a->w_step + (m < p->M ? m : 0) * a->row_bytes;
    for (int64_t k = slice * 4; k < a->K; k += SLICES * 4) {
        float w[4];
        four_at(a->w_type, row, a->block, a->block_bytes, PTR(const uint16_t, a->grid), k, a->K, w);
        for (int t = 0; t < tokens; t++)
            for (int j = 0; j < 4; j++)
                if (k + j < a->K) sum[t] = fma(get(a->x_type, a->x, (token + t) * a->K + k + j), w[j], sum[t]);
    }
    for (int t = 0; t < TOKENS; t++) part[slice][t][r] = sum[t];
    meet();
    if (thread() < TOKENS * ROWS) {
        const int t = thread() / ROWS;
        float v = 0;
        for (int s = 0; s < SLICES; s++) v += part[s][t][r];
        if (t < tokens && m < p->M) finish(a, p, expert, token + t, m, v);
    }
    meet();
}

KERNEL(zt_linear_file, zt_cu_linear_args)
{
    __local float part[SLICES][TOKENS][ROWS];
    const zt_cu_product p = a.product[block_z()];
    const int64_t token = (int64_t)block_y() * TOKENS, left = a.n - token, tiles = (p.M + ROWS - 1) / ROWS;
    const int64_t from = a.split ? block() : (int64_t)block() * TILES, to = from + (a.split ? 1 : TILES);
    int tokens = left < TOKENS ? (int)left : TOKENS;
    int64_t expert = 0;
    if (a.expert_tiles) {
        tokens = PTR(const zt_cu_expert_tile, a.expert_tiles)[block_y()].rows;
        expert = PTR(const zt_cu_expert_tile, a.expert_tiles)[block_y()].expert;
    }
    for (int64_t tile = from; tile < to && tile < tiles && tokens > 0; tile++)
        multiply_tile(&a, &p, expert, tile, token, tokens, part);
}

/* y = gate(g) * u */
KERNEL(zt_gate, zt_cu_gate_args)
{
    EACH_OF(i, a.n)
    {
        const float g = get(a.type, a.g, i), u = get(a.type, a.u, i);
        put(a.type, a.y, i, curve_of(a.gate, g) * u);
    }
}

/* Rows of a matrix of any type as f32: four columns a work-item. */
KERNEL(zt_rows, zt_cu_rows_args)
{
    const int64_t n = block_y(), at = (int64_t)block() * threads() + thread(), i = PTR(const int32_t, a.i)[n];
    const bool good = i >= 0 && i < a.rows;
    float v[4];
    if (!good && a.strict && at == 0) trouble(a.trouble, ZT_CU_INDEX, n, i, a.rows);
    four_at(a.w_type, PTR(const uint8_t, a.w) + (good ? i * a.row_bytes : 0), a.block, a.block_bytes,
            PTR(const uint16_t, a.grid), at * 4, good ? a.K : 0, v);
    for (int j = 0; j < 4; j++)
        if (at * 4 + j < a.K) PTR(float, a.y)[n * a.K + at * 4 + j] = v[j];
}
