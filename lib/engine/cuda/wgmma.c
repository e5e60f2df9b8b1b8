/* wgmma.c - which products the kernels of *_sm90.cu make, and how they are called. */
#include "lib/engine/cuda/wgmma.h"

#include <stdlib.h>
#include <string.h>

#define LAYOUTS(number, dtype, width)                                                              \
    {"zt_wgmma_" number "_nt_" #width, dtype, width, false, true},                                 \
        {"zt_wgmma_" number "_nn_" #width, dtype, width, false, false},                            \
    {                                                                                              \
        "zt_wgmma_" number "_tn_" #width, dtype, width, true, false                                \
    }
const zt_cu_wgmma zt_cu_wgmmas[] = {
    LAYOUTS("f16", ZT_F16, 128),
    LAYOUTS("f16", ZT_F16, 256),
    LAYOUTS("bf16", ZT_BF16, 128),
    LAYOUTS("bf16", ZT_BF16, 256),
};
_Static_assert(sizeof zt_cu_wgmmas / sizeof zt_cu_wgmmas[0] == ZT_CU_WGMMAS, "wgmma.h");

/* ---- tensor maps ----------------------------------------------------------------------------- */

/* Numbers of the driver's enumerations. */
enum { OF_16_BITS = 1, CHUNKS_OF_128 = 3, LINES_OF_256 = 3 };

/* Matrices one behind the other, of which boxes of 64 columns by `high` rows are copied. */
static zt_status map_of(zt_cu_engine *e, zt_cu_tensor_map *map, zt_cu_ptr at, int64_t rows,
                        int64_t columns, int64_t matrices, int high)
{
    const uint64_t size[3] = {(uint64_t)columns, (uint64_t)rows, (uint64_t)matrices};
    const uint64_t step[2] = {size[0] * 2, size[0] * size[1] * 2};
    const uint32_t box[3] = {64, (uint32_t)high, 1}, every[3] = {1, 1, 1};
    return zt_cu_try(e,
                     e->cu.TensorMapEncodeTiled(map, OF_16_BITS, 3, (void *)(uintptr_t)at, size,
                                                step, box, every, 0, CHUNKS_OF_128, LINES_OF_256,
                                                0),
                     "TensorMapEncodeTiled");
}

/* How many matrices of `size` numbers there are, by the steps from one to the next. */
static int64_t matrices_of(const zt_cu_matmul_args *m, const int64_t *step, int64_t size)
{
    int64_t last = 0;
    for (int d = 0; d < m->rank; d++) last += (m->dim[d] - 1) * step[d];
    return last / size + 1;
}

zt_status zt_cu_wgmma_launch(zt_cu_call *c, const zt_cu_wgmma *by, const zt_cu_matmul_args *m,
                             int64_t batches, unsigned blocks)
{
    zt_cu_wgmma_args a = {
        .m = *m, .a_size = m->N * m->K, .b_size = m->K * m->M, .batches = batches};
    const bool side_a = by->ta, side_b = !by->tb; /* rows lie side by side, not K */
    zt_status s = ZT_OK;
    if (!c->sizing) {
        s = map_of(c->e, &a.a, m->a, side_a ? m->K : m->N, side_a ? m->N : m->K,
                   matrices_of(m, m->a_step, a.a_size), side_a ? 64 : ZT_CU_WG_ROWS);
        if (!s)
            s = map_of(c->e, &a.b, m->b, side_b ? m->K : m->M, side_b ? m->M : m->K,
                       matrices_of(m, m->b_step, a.b_size), side_b ? 64 : by->width);
    }
    if (s) return s;
    return zt_cu_launch(c, by->kernel, (zt_cu_dim){blocks, 1, 1},
                        (zt_cu_dim){ZT_CU_WG_THREADS, 1, 1}, (size_t)ZT_CU_WG_BYTES(by->width), &a,
                        sizeof a);
}

/* ---- which ----------------------------------------------------------------------------------- */

static int64_t tiles_of(const zt_cu_matmul_args *m, int64_t batches, int width)
{
    return (m->N + ZT_CU_WG_ROWS - 1) / ZT_CU_WG_ROWS * ((m->M + width - 1) / width) * batches;
}

/* The wide tiles where there is one for every processor: each number of them is brought for more
 * products. */
static const zt_cu_wgmma *pick(const zt_cu_engine *e, const zt_cu_matmul_args *m, zt_dtype t,
                               int64_t batches, bool ta, bool tb)
{
    const int width = tiles_of(m, batches, 256) >= e->processors ? 256 : 128;
    for (int i = 0; i < ZT_CU_WGMMAS; i++) {
        const zt_cu_wgmma *w = &zt_cu_wgmmas[i];
        if (w->dtype == t && w->width == width && w->ta == ta && w->tb == tb) return w;
    }
    return NULL;
}

static bool fits(int64_t n) { return n > 0 && n < INT32_MAX - 256; }

/* What maps can say: rows from 16 bytes to 16 bytes, places that 32 bits hold. */
static bool can_map(const zt_cu_matmul_args *m, int64_t batches, bool ta, bool tb)
{
    const int64_t most = (int64_t)1 << 38;
    return fits(m->N) && fits(m->M) && fits(m->K) && fits(batches) && (ta ? m->N : m->K) % 8 == 0 &&
           (tb ? m->K : m->M) % 8 == 0 && m->a % 16 == 0 && m->b % 16 == 0 && m->N <= most / m->K &&
           m->M <= most / m->K;
}

/* Once for an engine: what it may, and does. */
static bool gives(zt_cu_call *c, zt_cu_wgmma_use use)
{
    zt_cu_engine *e = c->e;
    const char *wanted = getenv("ZT_CUDA_WGMMA");
    if (e->wgmma || !c->sizing) return e->wgmma >= (int)use;
    bool can = e->major == 9 && e->minor == 0 && e->cu.TensorMapEncodeTiled && e->cu.CtxCreate &&
               e->cu.CtxDestroy && zt_cu_has_shared(e, ZT_CU_WG_BYTES(256)) &&
               !(wanted && !strcmp(wanted, "0"));
    e->wgmma = can ? (int)zt_cu_wgmma_prove(e) : ZT_CU_WG_NONE;
    return e->wgmma >= (int)use;
}

zt_status zt_cu_wgmma_multiply(zt_cu_call *c, const zt_cu_matmul_args *m, zt_dtype t,
                               int64_t batches, bool *done)
{
    const bool ta = m->a_row == 1 && m->a_col != 1, tb = m->b_row == 1 && m->b_col != 1;
    const zt_cu_wgmma *by = pick(c->e, m, t, batches, ta, tb);
    *done = by && can_map(m, batches, ta, tb) && gives(c, ZT_CU_WG_MATMUL);
    if (!*done) return ZT_OK;
    int64_t tiles = tiles_of(m, batches, by->width);
    return zt_cu_wgmma_launch(c, by, m, batches,
                              (unsigned)(tiles < c->e->processors ? tiles : c->e->processors));
}

/* ---- with weights ---------------------------------------------------------------------------- */

zt_status zt_cu_wgmma_linear_launch(zt_cu_call *c, zt_dtype t, const zt_cu_linear_args *a,
                                    unsigned count, unsigned blocks)
{
    zt_cu_wgmma_linear_args w = {.l = *a, .products = (int32_t)count};
    zt_status s = c->sizing ? ZT_OK : map_of(c->e, &w.x, a->x, a->n, a->K, 1, ZT_CU_WG_ROWS);
    for (unsigned i = 0; i < count && !s && !c->sizing; i++)
        s = map_of(c->e, &w.w[i], a->product[i].w, a->product[i].M, a->K, 1, ZT_CU_WG_ROWS);
    if (s) return s;
    return zt_cu_launch(c, t == ZT_F16 ? "zt_wgmma_linear_f16" : "zt_wgmma_linear_bf16",
                        (zt_cu_dim){blocks, 1, 1}, (zt_cu_dim){ZT_CU_WG_THREADS, 1, 1},
                        (size_t)ZT_CU_WG_BYTES(128), &w, sizeof w);
}

zt_status zt_cu_wgmma_linear(zt_cu_call *c, zt_dtype t, const zt_cu_linear_args *a, unsigned count,
                             bool *done)
{
    const int64_t tall = (a->n + ZT_CU_WG_ROWS - 1) / ZT_CU_WG_ROWS;
    int64_t tiles = 0;
    *done = fits(a->n) && fits(a->K) && a->K % 8 == 0 && a->x % 16 == 0 && a->units_slice % 2 == 0;
    for (unsigned i = 0; i < count; i++) {
        *done = *done && fits(a->product[i].M) && a->product[i].w % 16 == 0;
        tiles += (a->product[i].M + 127) / 128 * tall;
    }
    *done = *done && fits(tiles) && gives(c, ZT_CU_WG_ALL);
    if (!*done) return ZT_OK;
    return zt_cu_wgmma_linear_launch(
        c, t, a, count, (unsigned)(tiles < c->e->processors ? tiles : c->e->processors));
}
