/* conv.h - private to isa/: convolution as a matrix product whose right operand is never whole.
 *
 * A view is a grid of output pixels that meet the input with one set of taps:
 *
 *     input i = j * step + shift(tap)      output pixel = first + j * spread      in each dimension
 *
 * Conv has one view: step is its stride, spread 1. Transposed convolution has one for each residue
 * of its output modulo the stride, which only the taps of that residue reach: step 1, spread the
 * stride. So both are the same sum over taps and channels without a multiplication by zero, and a
 * row of the right operand is (tap, channel), taps outside; columns are pixels of the grid.
 */
#ifndef ZT_CPU_CONV_H
#define ZT_CPU_CONV_H

#include "lib/engine/cpu/cpu.h"
#include "lib/engine/cpu/isa/gemm.h"
#include "lib/ops/window.h"

typedef struct conv_view {
    int n;                        /* spatial dimensions */
    int64_t grid[ZT_WINDOW_RANK]; /* pixels */
    int64_t first[ZT_WINDOW_RANK], spread[ZT_WINDOW_RANK];
    int64_t in[ZT_WINDOW_RANK], step[ZT_WINDOW_RANK];
    int64_t k[ZT_WINDOW_RANK];                                                    /* the whole kernel */
    int64_t tap0[ZT_WINDOW_RANK], tap_step[ZT_WINDOW_RANK], taps[ZT_WINDOW_RANK]; /* this view's */
    int64_t shift0[ZT_WINDOW_RANK], shift_step[ZT_WINDOW_RANK];                   /* of the first; from tap to tap */
    int64_t n_pixels, n_taps, n_in;
} conv_view;

static inline void conv_view_count(conv_view *v)
{
    v->n_pixels = v->n_taps = v->n_in = 1;
    for (int d = 0; d < v->n; d++) {
        v->n_pixels *= v->grid[d];
        v->n_taps *= v->taps[d];
        v->n_in *= v->in[d];
    }
}

/* Conv's only view. */
static inline conv_view conv_view_forward(const zt_window *window)
{
    conv_view v = {.n = window->n};
    for (int d = 0; d < window->n; d++) {
        v.grid[d] = window->out[d];
        v.spread[d] = v.tap_step[d] = 1;
        v.in[d] = window->in[d];
        v.step[d] = window->stride[d];
        v.k[d] = v.taps[d] = window->k[d];
        v.shift0[d] = -window->pad[d];
        v.shift_step[d] = window->dilation[d];
    }
    conv_view_count(&v);
    return v;
}

static inline int64_t conv_gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* The taps of one dimension with tap * dilation = rest modulo the stride. */
static inline void conv_taps(conv_view *v, int d, int64_t dilation, int64_t stride, int64_t rest)
{
    int64_t first = 0, period = stride / conv_gcd(stride, dilation);
    int64_t most = period < v->k[d] ? period : v->k[d];
    while (first < most && first * dilation % stride != rest) first++;
    v->tap0[d] = first;
    v->tap_step[d] = period;
    v->taps[d] = first == most ? 0 : (v->k[d] - 1 - first) / period + 1;
}

/* Views of transposed convolution: min(stride, output) along each dimension. */
static inline int64_t conv_views(const zt_window *window)
{
    int64_t n = 1;
    for (int d = 0; d < window->n; d++) {
        n *= window->stride[d] < window->in[d] ? window->stride[d] : window->in[d];
        if (n > 1 << 20) return n;
    }
    return n;
}

/* The i-th view: its output begins at the i-th pixel of the first stride. */
static inline conv_view conv_view_data(const zt_window *window, int64_t i)
{
    conv_view v = {.n = window->n};
    for (int d = window->n - 1; d >= 0; d--) {
        int64_t stride = window->stride[d], n = stride < window->in[d] ? stride : window->in[d];
        int64_t first = i % n, at = first + window->pad[d], rest = (at % stride + stride) % stride;
        i /= n;
        v.grid[d] = (window->in[d] - 1 - first) / stride + 1;
        v.first[d] = first;
        v.spread[d] = stride;
        v.in[d] = window->out[d];
        v.step[d] = 1;
        v.k[d] = window->k[d];
        conv_taps(&v, d, window->dilation[d], stride, rest);
        v.shift0[d] = (at - v.tap0[d] * window->dilation[d]) / stride;
        v.shift_step[d] = -(v.tap_step[d] * window->dilation[d] / stride);
    }
    conv_view_count(&v);
    return v;
}

/* The view's tap t: its place in the whole kernel, and what it shifts. */
static inline int64_t conv_tap(const conv_view *v, int64_t t, int64_t *shift)
{
    int64_t at = 0, size = 1;
    for (int d = v->n - 1; d >= 0; d--) {
        int64_t q = t % v->taps[d];
        t /= v->taps[d];
        shift[d] = v->shift0[d] + q * v->shift_step[d];
        at += (v->tap0[d] + q * v->tap_step[d]) * size;
        size *= v->k[d];
    }
    return at;
}

/* ---- a flat input ---------------------------------------------------------------------------- */

/* The input with zeros between its lines, planes and so on, as many as taps reach beyond them, and
 * these joined end to end, each one's zeros behind it also before the next. So a tap shifts every
 * pixel by as many positions, and with step 1 neighbouring positions are neighbouring pixels, but
 * for some that no pixel is at. Pixel 0 is at position 0. */
typedef struct conv_flat {
    int64_t size[ZT_WINDOW_RANK], unit[ZT_WINDOW_RANK]; /* positions along; from one to the next */
    int64_t low, high;                                  /* the least and the most that taps shift by */
    int64_t n;                                          /* positions from the first to the last pixel */
} conv_flat;

enum { CONV_BAND = 1 << 17, CONV_LINES = 64 }; /* floats of a band; lines at a time */

/* False where taps reach too far for it. */
static inline bool conv_flat_of(const conv_view *v, conv_flat *f)
{
    const int64_t most = 1 << 30;
    int64_t unit = 1;
    *f = (conv_flat){.n = 1};
    for (int d = v->n - 1; d >= 0; d--) {
        int64_t first = v->shift0[d], last = first + (v->taps[d] - 1) * v->shift_step[d];
        int64_t low = first < last ? first : last, high = first < last ? last : first;
        if (v->step[d] > most || low < -most || high > most || v->grid[d] > most) return false;
        int64_t pixels = (v->grid[d] - 1) * v->step[d], after = pixels + high - (v->in[d] - 1);
        int64_t more = after > -low ? after : -low, size = v->in[d] + (more > 0 ? more : 0);
        if (size <= pixels) size = pixels + 1;
        if (size > most / unit) return false;
        f->size[d] = size;
        f->unit[d] = unit;
        f->low += low * unit;
        f->high += high * unit;
        f->n += pixels * unit;
        unit *= size;
    }
    return true;
}

/* What a tap shifts by, in positions. */
static inline int64_t conv_flat_shift(const conv_view *v, const conv_flat *f, int64_t tap)
{
    int64_t shift[ZT_WINDOW_RANK], all = 0;
    conv_tap(v, tap, shift);
    for (int d = 0; d < v->n; d++) all += shift[d] * f->unit[d];
    return all;
}

/* The rest of a line from position q on, up to `end`: returns its positions, of which the first *len
 * are within `limit` along each dimension; at[] is where q is. */
static int conv_flat_line(const conv_view *v, const conv_flat *f, const int64_t *limit, int64_t q, int64_t end, int64_t *at,
                          int *len)
{
    int last = v->n - 1;
    int64_t rest = q;
    bool inside = true;
    for (int d = last; d >= 0; d--) {
        at[d] = rest % f->size[d];
        if (at[d] < 0) at[d] += f->size[d];
        rest = (rest - at[d]) / f->size[d];
        if (at[d] >= limit[d]) inside = false;
    }
    int64_t span = f->size[last] - at[last], left = limit[last] - at[last];
    if (span > end - q) span = end - q;
    *len = !inside || rest != 0 ? 0 : (int)(left < span ? left : span);
    return (int)span;
}

/* ---- a panel --------------------------------------------------------------------------------- */

/* GEMM_WIDE pixels of the grid from one on, row-major; a run is those of one line. */
typedef struct conv_run {
    int slot, len;
    int64_t at[ZT_WINDOW_RANK];
} conv_run;

typedef struct conv_panel {
    int n_runs, columns;
    conv_run run[GEMM_WIDE];
} conv_panel;

static void conv_panel_at(const conv_view *v, int64_t pixel, int columns, conv_panel *p)
{
    int64_t at[ZT_WINDOW_RANK];
    for (int d = v->n - 1; d >= 0; d--) {
        at[d] = pixel % v->grid[d];
        pixel /= v->grid[d];
    }
    p->n_runs = 0;
    p->columns = columns;
    for (int slot = 0; slot < columns;) {
        int64_t left = v->grid[v->n - 1] - at[v->n - 1];
        conv_run *r = &p->run[p->n_runs++];
        r->slot = slot;
        r->len = left < columns - slot ? (int)left : columns - slot;
        memcpy(r->at, at, sizeof at);
        slot += r->len;
        at[v->n - 1] = 0;
        for (int d = v->n - 2; d >= 0; d--) {
            if (++at[d] < v->grid[d]) break;
            at[d] = 0;
        }
    }
}

/* GEMM_WIDE positions of a flat input from q on: runs of those that pixels are at. */
static inline void conv_panel_flat(const conv_view *v, const conv_flat *f, int64_t q, conv_panel *p)
{
    p->n_runs = 0;
    p->columns = GEMM_WIDE;
    for (int slot = 0; slot < GEMM_WIDE;) {
        conv_run *r = &p->run[p->n_runs];
        r->slot = slot;
        slot += conv_flat_line(v, f, v->grid, q + slot, q + GEMM_WIDE, r->at, &r->len);
        if (r->len) p->n_runs++;
    }
}

/* What a row of the panel is copied from, up to 16 elements each; past `len` they are zeros. */
typedef struct conv_piece {
    int slot, len;
    int64_t from; /* elements into the channel's plane */
} conv_piece;

enum { CONV_PIECES = 3 * GEMM_WIDE };

/* Zeros from `slot` up to `to`. */
static int conv_zeros(conv_piece *piece, int n, int slot, int to)
{
    for (; slot < to; slot += LANES) piece[n++] = (conv_piece){slot, 0, 0};
    return n;
}

/* A run's elements inside the input, from *lo to *hi of its len; where the first of the run is, or
 * would be. */
static int64_t conv_clip(const conv_view *v, const conv_run *r, const int64_t *shift, int *lo, int *hi)
{
    int64_t from = 0, last = v->n - 1, step = v->step[last];
    *lo = *hi = 0;
    for (int d = 0; d < last; d++) {
        int64_t i = r->at[d] * v->step[d] + shift[d];
        if (i < 0 || i >= v->in[d]) return 0;
        from = (from + i) * v->in[d + 1];
    }
    int64_t i = r->at[last] * step + shift[last], in = v->in[last];
    int64_t skip = i < 0 ? (-i + step - 1) / step : 0;
    int64_t end = i >= in ? 0 : (in - 1 - i) / step + 1;
    if (end > r->len) end = r->len;
    if (skip < end) *lo = (int)skip, *hi = (int)end;
    return from + i;
}

static int conv_pieces(const conv_view *v, const conv_panel *p, const int64_t *shift, conv_piece *piece)
{
    int n = 0, covered = 0; /* slots written so far */
    for (int k = 0; k < p->n_runs; k++) {
        const conv_run *r = &p->run[k];
        int lo, hi;
        int64_t from = conv_clip(v, r, shift, &lo, &hi), step = v->step[v->n - 1];
        if (lo == hi) continue;
        n = conv_zeros(piece, n, covered, r->slot + lo);
        for (int i = lo; i < hi; i += LANES) {
            int len = hi - i < LANES ? hi - i : LANES;
            piece[n++] = (conv_piece){r->slot + i, len, from + i * step};
            covered = r->slot + i + LANES;
        }
    }
    return conv_zeros(piece, n, covered, GEMM_WIDE);
}

/* Lanes 0 2 4 ... of a, then of b. */
INLINE vf conv_evens(vf a, vf b)
{
#if defined(ZT_ISA_avx512)
    const vi at = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return _mm512_permutex2var_ps(a, at, b);
#elif defined(ZT_ISA_avx2)
    __m256d lo = _mm256_castps_pd(_mm256_shuffle_ps(a.lo, a.hi, 0x88));
    __m256d hi = _mm256_castps_pd(_mm256_shuffle_ps(b.lo, b.hi, 0x88));
    return (vf){_mm256_castpd_ps(_mm256_permute4x64_pd(lo, 0xd8)), _mm256_castpd_ps(_mm256_permute4x64_pd(hi, 0xd8))};
#elif defined(ZT_ISA_neon)
    return (vf){vuzp1q_f32(a.a, a.b), vuzp1q_f32(a.c, a.d), vuzp1q_f32(b.a, b.b), vuzp1q_f32(b.c, b.d)};
#else
    vf y;
    for (int i = 0; i < LANES; i++) y.v[i] = i < LANES / 2 ? a.v[2 * i] : b.v[2 * i - LANES];
    return y;
#endif
}

/* One piece of `rows` channels, planes of n_in elements apart, into rows `down` apart. */
static void conv_copy(const conv_piece *q, int64_t step, const float *x, int64_t n_in, int64_t rows, float *to, int64_t down)
{
    int room = GEMM_WIDE - q->slot;
    x += q->from;
    to += q->slot;
    if (step == 2 && q->len) {
        int all = 2 * q->len - 1, more = all > LANES ? all - LANES : 0; /* elements it spans */
        for (int64_t c = 0; c < rows; c++, x += n_in, to += down)
            vf_store_n(to, room, conv_evens(vf_load_n(x, all), vf_load_n(x + (more ? LANES : 0), more)));
    } else if (step != 1 && q->len) {
        for (int64_t c = 0; c < rows; c++, x += n_in, to += down) {
            float line[LANES] = {0};
            for (int i = 0; i < q->len; i++) line[i] = x[i * step];
            vf_store_n(to, room, vf_load(line));
        }
    } else if (q->len == LANES && room >= LANES) {
        for (int64_t c = 0; c < rows; c++, x += n_in, to += down) vf_store(to, vf_load(x));
    } else {
        for (int64_t c = 0; c < rows; c++, x += n_in, to += down) vf_store_n(to, room, vf_load_n(x, q->len));
    }
}

/* Lines of a flat input, positions *q..end-1, CONV_LINES of them at most: pieces with zeros behind
 * them up to the next one's slot, counted from `from`. piece[] has one more than are returned, the
 * end, which *q becomes. */
static int conv_lines(const conv_view *v, const conv_flat *f, int64_t from, int64_t *q, int64_t end, conv_piece *piece)
{
    int n = 0;
    for (; n < CONV_LINES && *q < end; n++) {
        int64_t at[ZT_WINDOW_RANK], i = 0;
        piece[n].slot = (int)(*q - from);
        *q += conv_flat_line(v, f, v->in, *q, end, at, &piece[n].len);
        for (int d = 0; d < v->n; d++) i = i * v->in[d] + at[d];
        piece[n].from = piece[n].len ? i : 0;
    }
    piece[n].slot = (int)(*q - from);
    return n;
}

/* A panel with its pieces of the first taps, which all channels of all groups share. */
enum { CONV_TAPS = 64, CONV_KEPT = 512 };

typedef struct conv_place {
    conv_panel panel;
    int n_taps, start[CONV_TAPS + 1];
    conv_piece piece[CONV_KEPT];
} conv_place;

static void conv_place_at(const conv_view *v, int64_t pixel, conv_place *p)
{
    int64_t left = v->n_pixels - pixel, shift[ZT_WINDOW_RANK];
    conv_panel_at(v, pixel, left < GEMM_WIDE ? (int)left : GEMM_WIDE, &p->panel);
    p->n_taps = p->start[0] = 0;
    while (p->n_taps < CONV_TAPS && p->n_taps < v->n_taps && p->start[p->n_taps] + CONV_PIECES <= CONV_KEPT) {
        conv_tap(v, p->n_taps, shift);
        int from = p->start[p->n_taps++];
        p->start[p->n_taps] = from + conv_pieces(v, &p->panel, shift, p->piece + from);
    }
}

/* Rows k..k+depth-1 of the right operand for the place's pixels; x the group's first channel, of
 * `channels`. */
static void conv_pack(const conv_view *v, const conv_place *p, const float *x, int64_t channels, int64_t k, int64_t depth,
                      float *to)
{
    conv_piece own[CONV_PIECES];
    int64_t shift[ZT_WINDOW_RANK];
    while (depth > 0) {
        int64_t tap = k / channels, c = k % channels;
        int64_t rows = channels - c < depth ? channels - c : depth;
        const conv_piece *q = own, *end;
        if (tap < p->n_taps) {
            q = p->piece + p->start[tap];
            end = p->piece + p->start[tap + 1];
        } else {
            conv_tap(v, tap, shift);
            end = own + conv_pieces(v, &p->panel, shift, own);
        }
        for (; q < end; q++) conv_copy(q, v->step[v->n - 1], x + c * v->n_in, v->n_in, rows, to, GEMM_WIDE);
        to += rows * GEMM_WIDE;
        k += rows;
        depth -= rows;
    }
}

#endif
