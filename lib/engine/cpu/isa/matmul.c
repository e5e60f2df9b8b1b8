/* matmul.c - kernel of matmul: two matrices, or stacks of them; f32, f16 and bf16, sums in f32.
 *
 * An item is a tile of ROW_TILE x COLUMN_TILE of y, by shapes alone. It goes over k in blocks of
 * DEPTH, for each over panels of b, PANEL columns of DEPTH rows side by side (copied together
 * unless they lie so), and MICRO rows of a at a time. One value of y is one f32 accumulator that takes k =
 * 0, 1, 2 ... in order, so its bits depend on nothing but its row, its column and K.
 */
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/simd.h"

#if defined(ZT_ISA_avx512)
enum { MICRO = 12, WIDE = 2 };
#elif defined(ZT_ISA_avx2)
enum { MICRO = 6, WIDE = 1 };
#else
enum { MICRO = 4, WIDE = 1 };
#endif
enum { PANEL = WIDE * LANES, ROW_TILE = 96, COLUMN_TILE = 128, DEPTH = 256 };

/* A matrix as it is multiplied: element (i, j) is i * down + j * right elements from `data`. */
typedef struct matrix {
    const char *data;
    zt_dtype dtype;
    int64_t down, right;
} matrix;

typedef struct scratch {
    float y[ROW_TILE * COLUMN_TILE], a[ROW_TILE * DEPTH], panel[DEPTH * PANEL];
    float line[DEPTH > ROW_TILE ? DEPTH : ROW_TILE];
} scratch;

/* One tile's share of a product. */
typedef struct tile {
    matrix a, b;
    int64_t K, first_row, first_column;
    int rows, columns;
} tile;

static const char *at(const matrix *m, int64_t i, int64_t j)
{
    return m->data + (i * m->down + j * m->right) * zt_dtype_get(m->dtype)->block_bytes;
}

/* n elements that lie side by side, as f32: in place, or decoded into `line`. */
static const float *line_of(const matrix *m, int64_t i, int64_t j, int n, float *line)
{
    if (m->dtype == ZT_F32) return (const float *)at(m, i, j);
    zt_dtype_get(m->dtype)->decode(at(m, i, j), line, n);
    return line;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* Rows i.. of a from column k, as f32 with `*right` and `*down` between elements. */
static const float *block_of_a(const tile *t, int64_t k, int depth, scratch *s, int64_t *down,
                               int64_t *right)
{
    const matrix *a = &t->a;
    *down = a->down;
    *right = a->right;
    if (a->dtype == ZT_F32) return (const float *)at(a, t->first_row, k);
    *down = depth;
    *right = 1;
    if (a->right == 1)
        for (int i = 0; i < t->rows; i++) {
            float *row = s->a + (int64_t)i * depth;
            const float *from = line_of(a, t->first_row + i, k, depth, s->line);
            memcpy(row, from, (size_t)depth * sizeof *row);
        }
    else
        for (int j = 0; j < depth; j++) {
            const float *from = line_of(a, t->first_row, k + j, t->rows, s->line);
            for (int i = 0; i < t->rows; i++) s->a[(int64_t)i * depth + j] = from[i];
        }
    return s->a;
}

/* Columns that lie one after the other become rows of the panel. */
static void turn(const tile *t, int64_t k, int depth, int64_t column, int n, scratch *s)
{
    int j = 0;
    for (; t->b.dtype == ZT_F32 && j + LANES <= n; j += LANES) {
        int i = 0;
        for (; i + LANES <= depth; i += LANES) {
            vf r[LANES];
            for (int l = 0; l < LANES; l++)
                r[l] = vf_load((const float *)at(&t->b, k + i, column + j + l));
            vf_transpose(r);
            for (int l = 0; l < LANES; l++) vf_store(s->panel + (i + l) * PANEL + j, r[l]);
        }
        for (; i < depth; i++)
            for (int l = 0; l < LANES; l++)
                s->panel[i * PANEL + j + l] = *(const float *)at(&t->b, k + i, column + j + l);
    }
    for (; j < n; j++) {
        const float *from = line_of(&t->b, k, column + j, depth, s->line);
        for (int i = 0; i < depth; i++) s->panel[i * PANEL + j] = from[i];
    }
}

/* n columns of b from row k; a panel is filled up with zeros. `*down`: from row to row. */
static const float *panel_of_b(const tile *t, int64_t k, int depth, int64_t column, int n,
                               scratch *s, int64_t *down)
{
    *down = PANEL;
    if (t->b.right == 1 && t->b.dtype == ZT_F32 && n == PANEL && t->rows <= MICRO) {
        *down = t->b.down;
        return (const float *)at(&t->b, k, column);
    }
    if (n < PANEL) memset(s->panel, 0, sizeof s->panel);
    if (t->b.right != 1) {
        turn(t, k, depth, column, n, s);
        return s->panel;
    }
    for (int i = 0; i < depth; i++)
        memcpy(s->panel + i * PANEL, line_of(&t->b, k + i, column, n, s->line),
               (size_t)n * sizeof(float));
    return s->panel;
}

/* ---- the product ----------------------------------------------------------------------------- */

/* y += a b for R rows and a panel's columns. */
INLINE void micro(int R, const float *a, int64_t down, int64_t right, const float *b,
                  int64_t b_down, int depth, float *y)
{
    vf sum[MICRO][WIDE];
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int w = 0; w < WIDE; w++)
            sum[r][w] = vf_load(y + r * COLUMN_TILE + w * LANES);
    for (int k = 0; k < depth; k++) {
        vf v[WIDE];
        UNROLL for (int w = 0; w < WIDE; w++) v[w] = vf_load(b + k * b_down + w * LANES);
        UNROLL for (int r = 0; r < R; r++)
        {
            vf x = vf_set(a[r * down + k * right]);
            UNROLL for (int w = 0; w < WIDE; w++) sum[r][w] = vf_fma(x, v[w], sum[r][w]);
        }
    }
    UNROLL for (int r = 0; r < R; r++)
        UNROLL for (int w = 0; w < WIDE; w++)
            vf_store(y + r * COLUMN_TILE + w * LANES, sum[r][w]);
}

static void multiply(const tile *t, scratch *s)
{
    memset(s->y, 0, sizeof s->y);
    for (int64_t k = 0; k < t->K; k += DEPTH) {
        int depth = t->K - k < DEPTH ? (int)(t->K - k) : DEPTH;
        int64_t down, right, b_down;
        const float *a = block_of_a(t, k, depth, s, &down, &right);
        for (int j = 0; j < t->columns; j += PANEL) {
            int n = t->columns - j < PANEL ? t->columns - j : PANEL, i = 0;
            const float *b = panel_of_b(t, k, depth, t->first_column + j, n, s, &b_down);
            float *y = s->y + j;
            for (; i + MICRO <= t->rows; i += MICRO)
                micro(MICRO, a + i * down, down, right, b, b_down, depth, y + i * COLUMN_TILE);
            for (; i + 2 <= t->rows; i += 2)
                micro(2, a + i * down, down, right, b, b_down, depth, y + i * COLUMN_TILE);
            if (i < t->rows)
                micro(1, a + i * down, down, right, b, b_down, depth, y + i * COLUMN_TILE);
        }
    }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

enum { AUX_N, AUX_K, AUX_M, AUX_DOWN, AUX_ACROSS }; /* sizes; tiles down and across */

static bool matmul_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32 || out[0].dtype == ZT_F16 || out[0].dtype == ZT_BF16;
}

static void matmul_setup(zt_cpu_call *c)
{
    const zt_matmul_attrs *at_ = c->attrs;
    const zt_type *a = &c->in[0].type, *y = &c->out[0].type;
    int64_t batches = 1;
    c->aux[AUX_N] = y->dim[y->rank - 2];
    c->aux[AUX_M] = y->dim[y->rank - 1];
    c->aux[AUX_K] = a->dim[a->rank - (at_->ta ? 2 : 1)];
    c->aux[AUX_DOWN] = (c->aux[AUX_N] + ROW_TILE - 1) / ROW_TILE;
    c->aux[AUX_ACROSS] = (c->aux[AUX_M] + COLUMN_TILE - 1) / COLUMN_TILE;
    for (int d = 0; d < y->rank - 2; d++) batches *= y->dim[d];
    c->items[0] = batches * c->aux[AUX_DOWN] * c->aux[AUX_ACROSS];
    c->local_bytes = sizeof(scratch);
}

/* The operand's matrix for the i-th of y's, by broadcasting of the dimensions before. */
static const char *matrix_at(const zt_cpu_arg *x, const zt_type *y, int64_t i)
{
    const zt_type *t = &x->type;
    int64_t size = t->dim[t->rank - 1] * t->dim[t->rank - 2], from = 0;
    for (int d = y->rank - 3; d >= 0; d--) {
        int own = d - (y->rank - t->rank);
        if (own >= 0) {
            from += (t->dim[own] == 1 ? 0 : i % y->dim[d]) * size;
            size *= t->dim[own];
        }
        i /= y->dim[d];
    }
    return (const char *)x->data + from * zt_dtype_get(t->dtype)->block_bytes;
}

static void matmul_run(zt_cpu_call *c, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_matmul_attrs *at_ = c->attrs;
    int64_t N = c->aux[AUX_N], K = c->aux[AUX_K], M = c->aux[AUX_M];
    const zt_type *y = &c->out[0].type;
    const zt_dtype_info *d = zt_dtype_get(y->dtype);
    scratch *s = local;
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        int64_t across = i % c->aux[AUX_ACROSS], rest = i / c->aux[AUX_ACROSS];
        int64_t down = rest % c->aux[AUX_DOWN], batch = rest / c->aux[AUX_DOWN];
        tile t = {.a = {matrix_at(&c->in[0], y, batch), y->dtype, K, 1},
                  .b = {matrix_at(&c->in[1], y, batch), y->dtype, M, 1},
                  .K = K, .first_row = down * ROW_TILE, .first_column = across * COLUMN_TILE};
        if (at_->ta) t.a.down = 1, t.a.right = N;
        if (at_->tb) t.b.down = 1, t.b.right = K;
        t.rows = N - t.first_row < ROW_TILE ? (int)(N - t.first_row) : ROW_TILE;
        t.columns = M - t.first_column < COLUMN_TILE ? (int)(M - t.first_column) : COLUMN_TILE;
        multiply(&t, s);
        for (int r = 0; r < t.rows; r++) {
            int64_t to = (batch * N + t.first_row + r) * M + t.first_column;
            char *row = (char *)c->out[0].data + to * d->block_bytes;
            d->encode(s->y + r * COLUMN_TILE, row, t.columns);
        }
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_matmul)[] = {
    {.op = ZT_OP_matmul, .has = matmul_has, .setup = matmul_setup, .run = matmul_run},
    {0},
};
