/* matmul_weight.c - kernel of matmul_weight: x by a weight of any type, or by its transpose; sums in f32.
 *
 * An item is a tile of y, by shapes alone. It goes over the summed dimension in blocks of GEMM_DEPTH, for each copies its rows
 * of x side by side, then decodes one panel of the weight after the other to f32 and multiplies (gemm.h). A tile is as high as
 * possible, as a panel is decoded once for all its rows. The bits are those of matmul with the weight as f32.
 */
#include "lib/engine/cpu/isa/gemm.h"
#include "lib/engine/cpu/isa/gemm_quant/columns.h"

enum { MOST_ROWS = GEMM_ALONG ? 264 : 516, MOST_COLUMNS = 512, LEAST_COLUMNS = 128, ENOUGH = 8 };

enum { AUX_N, AUX_K, AUX_M, AUX_ROWS, AUX_COLUMNS, AUX_DOWN, AUX_ACROSS }; /* sizes, tile, tiles */

static bool matmul_weight_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs;
    return in[0]->dtype == ZT_F32 && out[0].dtype == ZT_F32 && zt_dtype_get(in[1]->dtype)->decode;
}

static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* n in even pieces of at most `most`, a multiple of `by` each. */
static int64_t even(int64_t n, int64_t most, int64_t by) { return n ? parts(parts(n, parts(n, most)), by) * by : by; }

static size_t floats_of_rows(const zt_cpu_call *call)
{
    return (size_t)(parts(call->aux[AUX_ROWS], LANES) * LANES * GEMM_STRIDE);
}

static void matmul_weight_setup(zt_cpu_call *call)
{
    const zt_type *y = &call->out[0].type;
    call->aux[AUX_N] = y->dim[0];
    call->aux[AUX_M] = y->dim[1];
    call->aux[AUX_K] = call->in[0].type.dim[1];
    call->aux[AUX_ROWS] = even(call->aux[AUX_N], MOST_ROWS, GEMM_ROWS);
    call->aux[AUX_DOWN] = parts(call->aux[AUX_N], call->aux[AUX_ROWS]);
    for (int64_t columns = MOST_COLUMNS; columns >= LEAST_COLUMNS; columns /= 2) {
        call->aux[AUX_COLUMNS] = even(call->aux[AUX_M], columns, GEMM_WIDE);
        call->aux[AUX_ACROSS] = parts(call->aux[AUX_M], call->aux[AUX_COLUMNS]);
        call->items[0] = call->aux[AUX_DOWN] * call->aux[AUX_ACROSS];
        if (call->items[0] >= ENOUGH) break;
    }
    call->local_bytes = (floats_of_rows(call) + GEMM_WIDE * GEMM_DEPTH + LANES * GEMM_WIDE + ZT_COLUMNS_ROOM) * sizeof(float);
}

/* Rows of x, words k..k+depth-1, to rows of GEMM_STRIDE. */
static void pack_rows(const float *x, int64_t K, int rows, int64_t k, int depth, float *to)
{
    for (int i = 0; i < rows; i++)
        for (int d = 0; d < depth; d += LANES)
            vf_store(to + i * GEMM_STRIDE + d, vf_load_n(x + i * K + k + d, (int)least(depth - d, LANES)));
}

/* Rows k.. of a panel are columns k.. of the weight, its GEMM_WIDE columns rows `from`.. of it. */
static void decode_rows(const zt_cpu_arg *w, int64_t from, int64_t k, int depth, float *panel, float *room)
{
    const int64_t groups = parts(w->type.dim[0], ZT_PACK_ROWS), count = parts(depth, 16) * 16;
    for (int j = 0; j < GEMM_WIDE; j += LANES) {
        if (from / ZT_PACK_ROWS + j / LANES < groups) {
            ZT_SYM(zt_weight_columns)(w, from / ZT_PACK_ROWS + j / LANES, k, count, panel + j, GEMM_WIDE, room);
            continue;
        }
        for (int d = 0; d < depth; d++) vf_store(panel + d * GEMM_WIDE + j, vf_set(0));
    }
}

/* Rows k.. of a panel are rows k.. of the weight, its GEMM_WIDE columns columns `from`.. of it. turned: LANES * GEMM_WIDE. */
static void decode_columns(const zt_cpu_arg *w, int64_t from, int64_t k, int depth, float *panel, float *turned, float *room)
{
    const int64_t K = parts(w->type.dim[1], LANES) * LANES;
    for (int d = 0; d < depth; d += LANES) {
        const int64_t columns = least(GEMM_WIDE, K - from);
        ZT_SYM(zt_weight_columns)(w, (k + d) / ZT_PACK_ROWS, from, columns, turned, LANES, room);
        for (int j = 0; j < GEMM_WIDE; j += LANES) {
            vf r[LANES];
            for (int l = 0; l < LANES; l++) r[l] = j < columns ? vf_load(turned + (j + l) * LANES) : vf_set(0);
            vf_transpose(r);
            for (int l = 0; l < LANES; l++) vf_store(panel + (d + l) * GEMM_WIDE + j, r[l]);
        }
    }
}

static void multiply_tile(const zt_cpu_call *call, int64_t row, int64_t column, float *local)
{
    const bool transposed = ((const zt_matmul_weight_attrs *)call->attrs)->tb;
    const int64_t K = call->aux[AUX_K], M = call->aux[AUX_M];
    const int rows = (int)least(call->aux[AUX_N] - row, call->aux[AUX_ROWS]);
    const int64_t columns = least(M - column, call->aux[AUX_COLUMNS]);
    const float *x = (const float *)call->in[0].data + row * K;
    float *y = (float *)call->out[0].data + row * M + column, *panel = local + floats_of_rows(call);
    float *turned = panel + GEMM_WIDE * GEMM_DEPTH, *room = turned + LANES * GEMM_WIDE;
    for (int64_t k = 0; k == 0 || k < K; k += GEMM_DEPTH) {
        const int depth = (int)least(K - k, GEMM_DEPTH);
        pack_rows(x, K, rows, k, depth, local);
        for (int64_t j = 0; j < columns; j += GEMM_WIDE) {
            if (transposed)
                decode_rows(&call->in[1], column + j, k, depth, panel, room);
            else
                decode_columns(&call->in[1], column + j, k, depth, panel, turned, room);
            const gemm_block block = {.a = local,
                                      .b = panel,
                                      .b_down = GEMM_WIDE,
                                      .depth = depth,
                                      .columns = (int)least(columns - j, GEMM_WIDE),
                                      .more = k > 0,
                                      .y = y + j,
                                      .down = M};
            gemm_from(GEMM_FLOATS, GEMM_NOTHING, &block, 0, rows);
        }
    }
}

static void matmul_weight_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    for (int64_t i = begin; i < end; i++)
        multiply_tile(call, i / call->aux[AUX_ACROSS] * call->aux[AUX_ROWS], i % call->aux[AUX_ACROSS] * call->aux[AUX_COLUMNS],
                      local);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_matmul_weight)[] = {
    {.op = ZT_OP_matmul_weight, .has = matmul_weight_has, .setup = matmul_weight_setup, .run = matmul_weight_run},
    {0},
};
