/* matmul.c - kernel of matmul: two matrices, or stacks of them; f32, f16 and bf16, sums in f32.
 *
 * An item is a tile of y, by shapes alone. It goes over k in blocks of GEMM_DEPTH words, for each
 * copies its rows of a side by side, then one panel of b after the other, and multiplies (gemm.h).
 * With AVX-512, floats that need no turning are copied while the panel before, or the rows before,
 * are multiplied: they come from far caches, and copying alone took a seventh of the time.
 * f16 is made f32 on the way, and bf16 too where the processor does not multiply pairs of it, or
 * slowly: in the order and with the bits of its pairs (GEMM_APART). What is transposed is turned in registers, 16 by 16 words, on the way.
 *
 * Wide tiles spare copies: an element of a is copied once for every tile beside it, of b once for
 * every tile above. Where copies of b cost little, tiles are low, so that the rows of a leave room
 * in the second cache.
 */
#include "lib/base/processor.h"
#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/gemm.h"

enum { MOST_ROWS = GEMM_ALONG ? 264 : 516, MOST_COLUMNS = GEMM_ALONG ? 1024 : 512 };
enum { LEAST_ROWS = 96, LEAST_COLUMNS = 128 };
enum { PANELS = 2 * GEMM_WIDE * GEMM_DEPTH }; /* floats: two of b, or one of numbers apart */
enum { ENOUGH = 4, MANY = 8, WIDE = 512 };    /* tiles; more of them while they are wider than WIDE */

/* ---- operands as words ----------------------------------------------------------------------- */

/* What a word of the tile (gemm.h) is made of. */
typedef enum kind { FLOATS, HALVES, BRAINS, PAIRS, APART } kind;

INLINE gemm_way way_of(kind of) { return of == PAIRS ? GEMM_BOTH : of == APART ? GEMM_APART : GEMM_FLOATS; }

/* From row to row of the packed a; and so deep is a block. */
INLINE int stride_of(kind of) { return of == APART ? GEMM_FAR : GEMM_STRIDE; }
INLINE int depth_of(kind of) { return of == APART ? 2 * GEMM_DEPTH : GEMM_DEPTH; }

/* An operand: element (line, k) lies at line * by_line + k * by_k elements from `data`; a line is a
 * row of a, or a column of b. One of the two is 1. */
typedef struct operand {
    const char *data;
    int64_t by_line, by_k, K;
} operand;

/* n <= 16 numbers of 16 bits, zeros behind them. */
INLINE const uint16_t *sixteen(const uint16_t *p, int64_t n, uint16_t room[LANES])
{
    if (n >= LANES) return p;
    for (int i = 0; i < LANES; i++) room[i] = i < n ? p[i] : 0;
    return room;
}

/* n <= 16 neighbours from the i-th element; zeros behind them. */
INLINE vf neighbours(kind of, const operand *x, int64_t i, int64_t n)
{
    uint16_t room[LANES];
    if (of == FLOATS) {
        const float *p = (const float *)x->data + i;
        return n >= LANES ? vf_load(p) : vf_load_n(p, (int)n);
    }
    const uint16_t *h = sixteen((const uint16_t *)x->data + i, n, room);
    return of == HALVES ? vf_of_f16(h) : vf_of_bf16(h);
}

/* Words k.. of one line, n of them, where k is the direction of neighbours. */
INLINE vf along(kind of, const operand *x, int64_t line, int64_t k, int64_t n)
{
    int64_t left = x->K - k < n ? x->K - k : n;
    if (of == APART) return vf_swap_pairs(neighbours(BRAINS, x, line * x->by_line + k, left));
    if (of != PAIRS) return neighbours(of, x, line * x->by_line + k, n);
    const uint16_t *p = (const uint16_t *)x->data + line * x->by_line + 2 * k;
    left = x->K - 2 * k < 2 * n ? x->K - 2 * k : 2 * n;
    float both[LANES] = {0};
    if (left >= 2 * LANES) return vf_load((const float *)(const void *)p);
    memcpy(both, p, (size_t)left * sizeof *p);
    return vf_load(both);
}

/* Word k of n lines, where lines are the direction of neighbours. */
INLINE vf across(kind of, const operand *x, int64_t line, int64_t k, int64_t n)
{
    if (of == APART) return (k ^ 1) < x->K ? neighbours(BRAINS, x, line + (k ^ 1) * x->by_k, n) : vf_set(0);
    if (of != PAIRS) return neighbours(of, x, line + k * x->by_k, n);
    vi first = vi_of_bits(neighbours(BRAINS, x, line + 2 * k * x->by_k, n)), second = vi_set(0);
    if (2 * k + 1 < x->K) second = vi_of_bits(neighbours(BRAINS, x, line + (2 * k + 1) * x->by_k, n));
    return vf_of_bits(vi_or(vi_and(vi_right(first, 16), vi_set(0xffff)), second));
}

/* ---- a's rows and b's panels ------------------------------------------------------------------ */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* `rows` lines of a from `line`, words k..k+depth-1, to rows of stride_of(); of these there are
 * as many as 16 divides. */
INLINE void pack_rows(kind of, const operand *x, int64_t line, int rows, int64_t k, int depth, float *to)
{
    const int stride = stride_of(of);
    if (x->by_k == 1) {
        for (int i = 0; i < rows; i++)
            for (int d = 0; d < depth; d += LANES)
                vf_store(to + i * stride + d, along(of, x, line + i, k + d, least(depth - d, LANES)));
        return;
    }
    for (int d = 0; d < depth; d += LANES)
        for (int i = 0; i < rows; i += LANES) {
            vf r[LANES];
            for (int l = 0; l < LANES; l++) r[l] = d + l < depth ? across(of, x, line + i, k + d + l, rows - i) : vf_set(0);
            vf_transpose(r);
            for (int l = 0; l < LANES; l++) vf_store(to + (i + l) * stride + d, r[l]);
        }
}

/* n lines of b from `line`, words k..k+depth-1, to rows of GEMM_WIDE, filled up with zeros. */
INLINE void pack_panel(kind of, const operand *x, int64_t line, int n, int64_t k, int depth, float *to)
{
    if (x->by_k != 1) {
        for (int d = 0; d < depth; d++)
            for (int j = 0; j < GEMM_WIDE; j += LANES)
                vf_store(to + d * GEMM_WIDE + j, j < n ? across(of, x, line + j, k + d, n - j) : vf_set(0));
        return;
    }
    for (int j = 0; j < GEMM_WIDE; j += LANES)
        for (int d = 0; d < depth; d += LANES) {
            vf r[LANES];
            int deep = (int)least(depth - d, LANES);
            for (int l = 0; l < LANES; l++) r[l] = j + l < n ? along(of, x, line + j + l, k + d, deep) : vf_set(0);
            vf_transpose(r);
            for (int l = 0; l < deep; l++) vf_store(to + (d + l) * GEMM_WIDE + j, r[l]);
        }
}

/* ---- a tile ---------------------------------------------------------------------------------- */

typedef struct tile {
    operand a, b;
    int64_t row, column;
    int rows, columns;
    char *y; /* the tile's first element, rows `down` elements apart */
    int64_t down;
    float *packed_a, *panel, *other; /* the panel to multiply by, and the next */
    float *sums;                     /* of 16-bit y: panels of `rows` rows of GEMM_WIDE */
} tile;

/* One panel's part of a tile: n columns from the tile's j-th, words k..k+depth-1, the first `ready` of
 * which are in the panel already. n 0: there is none. */
typedef struct step {
    int64_t k;
    int j, n, depth, ready;
} step;

static step step_at(const tile *t, int64_t words, int most, int64_t k, int j)
{
    step s = {.k = k, .j = j};
    if (k == 0 || k < words) s.n = (int)least(t->columns - j, GEMM_WIDE);
    s.depth = (int)least(words - k, most);
    return s;
}

/* Few rows read whole panels of floats where they lie. */
INLINE bool lies_well(kind of, const tile *t, int n)
{
    return of == FLOATS && t->b.by_k != 1 && n == GEMM_WIDE && t->rows <= GEMM_ROWS;
}

/* n sums in 16 bits. */
INLINE void round_to(kind of, const float *sum, char *y, int n)
{
    for (int i = 0; i < n; i += LANES) {
        uint16_t room[LANES];
        void *to = i + LANES <= n ? y + 2 * i : (char *)room;
        if (of == HALVES)
            vf_to_f16(to, vf_load(sum + i));
        else
            vf_to_bf16(to, vf_load(sum + i));
        if (i + LANES > n) memcpy(y + 2 * i, room, 2 * (size_t)(n - i));
    }
}

/* Are whole panels of b copied while those before are multiplied? */
INLINE bool comes_along(kind of, const tile *t, const step *s)
{
    return GEMM_ALONG && of == FLOATS && t->b.by_k != 1 && s->n == GEMM_WIDE && t->rows > GEMM_ROWS;
}

/* What is copied meanwhile; its first lines are sent for. */
INLINE gemm_ride ride_of(kind of, const tile *t, const step *next)
{
    gemm_ride r = {.b_down = t->b.by_k, .panel = t->other, .a_down = t->a.by_line};
    if (!comes_along(of, t, next)) return r;
    r.b = (const float *)t->b.data + t->column + next->j + next->k * r.b_down;
    r.rows = next->depth;
    for (int i = 0; i < GEMM_SOON && i < next->depth; i++) gemm_fetch(r.b + i * r.b_down);
    return r;
}

/* The tile's rows are wanted from its first panel on. Those of floats are copied tile by tile, each
 * while the one before is multiplied. Returns how many rows are done. */
INLINE int multiply_first(kind of, const tile *t, const step *s, const gemm_block *g)
{
    const bool along = GEMM_ALONG && of == FLOATS && t->a.by_k == 1;
    int i = 0, ready = along ? (int)least(t->rows, GEMM_ROWS) : t->rows;
    pack_rows(of, &t->a, t->row, ready, s->k, s->depth, t->packed_a);
    if (!along) return 0;
    for (; ready + GEMM_ROWS <= t->rows; i += GEMM_ROWS, ready += GEMM_ROWS) {
        g->ride->a = (const float *)t->a.data + (t->row + ready) * t->a.by_line + s->k;
        g->ride->a_to = t->packed_a + ready * GEMM_STRIDE;
        gemm_rows(GEMM_ROWS, GEMM_FLOATS, GEMM_ROWS_TOO, g, i);
    }
    pack_rows(of, &t->a, t->row + ready, t->rows - ready, s->k, s->depth, t->packed_a + ready * GEMM_STRIDE);
    return i;
}

/* A panel of sums that are whole. */
INLINE void round_panel(kind of, const tile *t, const step *s, const float *sum)
{
    for (int r = 0; r < t->rows; r++) round_to(of, sum + r * GEMM_WIDE, t->y + 2 * (r * t->down + s->j), s->n);
}

/* Multiplies one panel; says in `next` how much of its panel was copied meanwhile. */
INLINE void multiply_step(kind of, tile *t, const step *s, step *next)
{
    gemm_ride ride = ride_of(of, t, next);
    gemm_block g = {.a = t->packed_a,
                    .b = t->panel,
                    .b_down = GEMM_WIDE,
                    .depth = s->depth,
                    .columns = s->n,
                    .more = s->k > 0,
                    .y = (float *)t->y + s->j,
                    .down = t->down,
                    .ride = &ride};
    if (of != FLOATS) {
        g.y = t->sums + (int64_t)s->j * t->rows;
        g.down = g.columns = GEMM_WIDE;
    }
    if (lies_well(of, t, s->n)) {
        g.b_down = t->b.by_k;
        g.b = (const float *)t->b.data + t->column + s->j + s->k * g.b_down;
    } else {
        pack_panel(of, &t->b, t->column + s->j, s->n, s->k + s->ready, s->depth - s->ready, t->panel + s->ready * GEMM_WIDE);
    }
    gemm_from(way_of(of), GEMM_ALONG && of == FLOATS ? GEMM_PANEL : GEMM_NOTHING, &g,
              s->j == 0 ? multiply_first(of, t, s, &g) : 0, t->rows);
    if (of != FLOATS) return;
    if (comes_along(of, t, next)) next->ready = next->depth - (int)ride.rows;
    float *was = t->panel;
    t->panel = t->other;
    t->other = was;
}

INLINE void multiply(kind of, tile *t)
{
    int64_t twos = (t->a.K + 1) / 2, words = of == PAIRS ? twos : of == APART ? 2 * twos : t->a.K;
    const int most = depth_of(of);
    for (step s = step_at(t, words, most, 0, 0), next; s.n; s = next) {
        bool over = s.j + s.n == t->columns;
        next = step_at(t, words, most, over ? s.k + most : s.k, over ? 0 : s.j + GEMM_WIDE);
        multiply_step(of, t, &s, &next);
        if (of != FLOATS && s.k + s.depth == words) round_panel(of, t, &s, t->sums + (int64_t)s.j * t->rows);
    }
}

static void multiply_floats(tile *t) { multiply(FLOATS, t); }
static void multiply_halves(tile *t) { multiply(HALVES, t); }
static void multiply_brains(tile *t) { multiply(PAIRS, t); }
static void multiply_apart(tile *t) { multiply(APART, t); }

/* ---- the kernel ------------------------------------------------------------------------------ */

enum { /* sizes, tile, tiles, how */
       AUX_N,
       AUX_K,
       AUX_M,
       AUX_ROWS,
       AUX_COLUMNS,
       AUX_DOWN,
       AUX_ACROSS,
       AUX_APART
};

static bool matmul_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in;
    return out[0].dtype == ZT_F32 || out[0].dtype == ZT_F16 || out[0].dtype == ZT_BF16;
}

static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* n in even pieces of at most `most`, a multiple of `by` each. */
static int64_t even(int64_t n, int64_t most, int64_t by)
{
    int64_t pieces = n ? parts(n, most) : 1;
    return n ? parts(parts(n, pieces), by) * by : by;
}

/* Wide tiles, or where these would be few, narrower and then lower ones. */
static void choose_tile(zt_cpu_call *call, int64_t batches)
{
    int64_t N = call->aux[AUX_N], M = call->aux[AUX_M], columns = MOST_COLUMNS;
    int64_t rows = MOST_ROWS;
    for (;;) {
        call->aux[AUX_ROWS] = even(N, rows, GEMM_ROWS);
        call->aux[AUX_COLUMNS] = even(M, columns, GEMM_WIDE);
        call->aux[AUX_DOWN] = parts(N, call->aux[AUX_ROWS]);
        call->aux[AUX_ACROSS] = parts(M, call->aux[AUX_COLUMNS]);
        call->items[0] = batches * call->aux[AUX_DOWN] * call->aux[AUX_ACROSS];
        if (call->items[0] >= (columns > WIDE ? MANY : ENOUGH)) return;
        if (columns <= LEAST_COLUMNS && rows <= LEAST_ROWS) return;
        if (columns > LEAST_COLUMNS)
            columns /= 2;
        else
            rows /= 2;
    }
}

/* Floats of a thread's scratch: rows of a, a panel, and y where it is not of floats. */
static int64_t floats_of_rows(const zt_cpu_call *call)
{
    return parts(call->aux[AUX_ROWS], LANES) * LANES * stride_of(call->aux[AUX_APART] ? APART : FLOATS);
}

static void matmul_setup(zt_cpu_call *call)
{
    const zt_matmul_attrs *matmul = call->attrs;
    const zt_type *a = &call->in[0].type, *y = &call->out[0].type;
    int64_t batches = 1, floats;
    call->aux[AUX_N] = y->dim[y->rank - 2];
    call->aux[AUX_M] = y->dim[y->rank - 1];
    call->aux[AUX_K] = a->dim[a->rank - (matmul->ta ? 2 : 1)];
    for (int d = 0; d < y->rank - 2; d++) batches *= y->dim[d];
    call->aux[AUX_APART] = y->dtype == ZT_BF16 && (!GEMM_PAIRS || zt_cpu_slow_bf16());
    choose_tile(call, batches);
    floats = floats_of_rows(call) + PANELS;
    if (y->dtype != ZT_F32) floats += call->aux[AUX_ROWS] * call->aux[AUX_COLUMNS];
    call->local_bytes = (size_t)floats * sizeof(float);
}

/* The operand's matrix for the i-th of y's, by broadcasting of the dimensions before. */
static const char *matrix_at(const zt_cpu_arg *x, const zt_type *y, int64_t i)
{
    const zt_type *type = &x->type;
    int64_t size = type->dim[type->rank - 1] * type->dim[type->rank - 2], from = 0;
    for (int d = y->rank - 3; d >= 0; d--) {
        int own = d - (y->rank - type->rank);
        if (own >= 0) {
            from += (type->dim[own] == 1 ? 0 : i % y->dim[d]) * size;
            size *= type->dim[own];
        }
        i /= y->dim[d];
    }
    return (const char *)x->data + from * zt_dtype_get(type->dtype)->block_bytes;
}

static tile tile_of(const zt_cpu_call *call, int64_t batch, int64_t down, int64_t over, float *local)
{
    const zt_matmul_attrs *matmul = call->attrs;
    int64_t N = call->aux[AUX_N], K = call->aux[AUX_K], M = call->aux[AUX_M];
    const zt_type *y = &call->out[0].type;
    tile t = {.a = {matrix_at(&call->in[0], y, batch), matmul->ta ? 1 : K, matmul->ta ? N : 1, K},
              .b = {matrix_at(&call->in[1], y, batch), matmul->tb ? K : 1, matmul->tb ? 1 : M, K},
              .row = down * call->aux[AUX_ROWS],
              .column = over * call->aux[AUX_COLUMNS],
              .packed_a = local,
              .panel = local + floats_of_rows(call)};
    t.rows = (int)least(N - t.row, call->aux[AUX_ROWS]);
    t.columns = (int)least(M - t.column, call->aux[AUX_COLUMNS]);
    t.y = (char *)call->out[0].data + ((batch * N + t.row) * M + t.column) * zt_dtype_get(y->dtype)->block_bytes;
    t.down = M;
    t.other = t.panel + GEMM_WIDE * GEMM_DEPTH;
    t.sums = t.panel + PANELS;
    return t;
}

static void matmul_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    zt_dtype dtype = call->out[0].type.dtype;
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        int64_t over = i % call->aux[AUX_ACROSS], rest = i / call->aux[AUX_ACROSS];
        int64_t batch = rest / call->aux[AUX_DOWN];
        tile t = tile_of(call, batch, rest % call->aux[AUX_DOWN], over, local);
        (dtype == ZT_F32                       ? multiply_floats
         : dtype == ZT_F16                     ? multiply_halves
         : !GEMM_PAIRS || call->aux[AUX_APART] ? multiply_apart
                                               : multiply_brains)(&t);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_matmul)[] = {
    {.op = ZT_OP_matmul, .has = matmul_has, .setup = matmul_setup, .run = matmul_run},
    {0},
};
