/* norm_double_backward.c - owns the second gradients of normalisation by channels: how the gradients' rows,
 * and the statistics that they take, are differentiated.
 *
 * With n = (x - mean) rstd, d = dy g and means over a set of m elements normalised together:
 *
 *     dx = rstd (d - mean(d) - n mean(d n)), dg = sum(dy n), db = sum(dy)
 *
 * For cotangents a, b, c of dx, dg, db and A = a rstd:
 *
 *     of d     A - mean(A) - n mean(A n)
 *     of n     b dy - A mean(d n) - d mean(A n)
 *     of rstd  sum(a (d - mean(d) - n mean(d n))), and by n
 *     of dy    g times that of d, + b n + c
 *
 * and x, mean and rstd get what n does. mean and rstd are inputs here; that they are functions of x
 * the forward rows say: dmean / m and -drstd rstd^3 (x - mean) / m.
 */
#include "lib/ops/norm_channels.h"

#include <stdio.h>

/* x [N,C,...] as [N,G,K,L]: groups of K channels; of batch norm each of one, over the batch. */
typedef struct frame {
    const zt_emit *e;
    bool batch;
    int64_t dim[4];
} frame;

static bool frame_of(zt_vjp *vjp, int64_t groups, frame *f)
{
    zt_type x = vjp->emit->type(vjp->emit->user, vjp->in[0]);
    int64_t size = 1;
    for (int d = 0; d < x.rank; d++) {
        if (x.dim[d] < 0) {
            snprintf(vjp->refused, sizeof vjp->refused, "the shape of x is symbolic: a sample value is needed for each symbol");
            return false;
        }
        if (d >= 2) size *= x.dim[d];
    }
    int64_t G = groups ? groups : x.dim[1];
    *f = (frame){vjp->emit, !groups, {x.dim[0], G, G ? x.dim[1] / G : 0, size}};
    return true;
}

static int emit_reshaped(const frame *f, int x, int64_t N, int64_t G, int64_t K, int64_t L)
{
    if (x == ZT_NONE) return x;
    return zt_build_reshape(f->e, zt_build_wide(f->e, x), &(zt_reshape_attrs){{4, {N, G, K, L}}});
}

static int emit_whole(const frame *f, int x) { return emit_reshaped(f, x, f->dim[0], f->dim[1], f->dim[2], f->dim[3]); }

static int of_sets(const frame *f, int x) { return emit_reshaped(f, x, f->batch ? 1 : f->dim[0], f->dim[1], 1, 1); }

static int of_channels(const frame *f, int x) { return emit_reshaped(f, x, 1, f->dim[1], f->dim[2], 1); }

static zt_ints set_axes(const frame *f) { return f->batch ? (zt_ints){3, {0, 2, 3}} : (zt_ints){2, {2, 3}}; }

static int mean_of(const frame *f, int x) { return zt_build_mean(f->e, x, &(zt_mean_attrs){set_axes(f), 1}); }

static int sum_of(const frame *f, int x) { return zt_build_sum(f->e, x, &(zt_sum_attrs){set_axes(f), 1}); }

static int sum_channels(const frame *f, int x) { return zt_build_sum(f->e, x, &(zt_sum_attrs){{2, {0, 3}}, 1}); }

/* x + y, where either may be absent. */
static int add_optional(const frame *f, int x, int y) { return x == ZT_NONE ? y : y == ZT_NONE ? x : zt_build_add(f->e, x, y); }

/* x - mean(p) - n mean(q) */
static int emit_centred(const frame *f, int x, int mean, int n, int along)
{
    const zt_emit *emit = f->e;
    return zt_build_sub(emit, zt_build_sub(emit, x, mean), zt_build_mul(emit, n, along));
}

/* x in the shape and dtype of input k, if that is wanted. */
static void add_gradient(zt_vjp *vjp, int k, int x)
{
    if (vjp->want[k] && x != ZT_NONE)
        vjp->dx[k] = zt_build_as(vjp->emit, zt_build_reshape_like(vjp->emit, x, vjp->in[k]), vjp->in[k]);
}

void zt_norm_stats_vjp(zt_vjp *vjp, int64_t groups)
{
    const zt_emit *emit = vjp->emit;
    frame f;
    if (!vjp->want[0] || (vjp->dy[1] == ZT_NONE && vjp->dy[2] == ZT_NONE)) return;
    if (!frame_of(vjp, groups, &f)) return;
    int64_t m = f.dim[3] * (f.batch ? f.dim[0] : f.dim[2]);
    int x = emit_whole(&f, vjp->in[0]), mean = of_sets(&f, vjp->out[1]), r = of_sets(&f, vjp->out[2]);
    int by = ZT_NONE, was = vjp->dx[0];
    if (vjp->dy[2] != ZT_NONE) {
        by = zt_build_mul(emit, of_sets(&f, vjp->dy[2]), zt_build_mul(emit, r, zt_build_square(emit, r)));
        by = zt_build_neg(emit, zt_build_mul(emit, zt_build_sub(emit, x, mean), by));
    }
    if (vjp->dy[1] != ZT_NONE) by = add_optional(&f, by, zt_build_broadcast_to(emit, of_sets(&f, vjp->dy[1]), x, NULL));
    add_gradient(vjp, 0, zt_build_times(emit, by, m ? 1 / (double)m : 0));
    vjp->dx[0] = add_optional(&f, was, vjp->dx[0]);
}

/* What n and d get, and rstd but for n: ZT_NONE where it is nothing. */
typedef struct cotangents {
    int n, d, rstd;
} cotangents;

static cotangents by_dx(const frame *f, int a, int n, int d, int r, bool training)
{
    const zt_emit *emit = f->e;
    int A = zt_build_mul(emit, a, r);
    if (!training) return (cotangents){ZT_NONE, A, sum_of(f, zt_build_mul(emit, a, d))};
    int dn = mean_of(f, zt_build_mul(emit, d, n)), An = mean_of(f, zt_build_mul(emit, A, n));
    int rest = emit_centred(f, d, mean_of(f, d), n, dn);
    int of_n = zt_build_neg(emit, zt_build_add(emit, zt_build_mul(emit, A, dn), zt_build_mul(emit, d, An)));
    return (cotangents){of_n, emit_centred(f, A, mean_of(f, A), n, An), sum_of(f, zt_build_mul(emit, a, rest))};
}

void zt_norm_backward_vjp(zt_vjp *vjp, int64_t groups, bool training)
{
    const zt_emit *emit = vjp->emit;
    frame f;
    if (!frame_of(vjp, groups, &f)) return;
    int r = of_sets(&f, vjp->in[2]), g = of_channels(&f, vjp->in[4]), dy = emit_whole(&f, vjp->in[3]);
    int off = zt_build_sub(emit, emit_whole(&f, vjp->in[0]), of_sets(&f, vjp->in[1])), n = zt_build_mul(emit, off, r);
    int d = g == ZT_NONE ? dy : zt_build_mul(emit, dy, g);
    int b = of_channels(&f, vjp->dy[1]), c = of_channels(&f, vjp->dy[2]);
    cotangents to = {ZT_NONE, ZT_NONE, ZT_NONE};
    if (vjp->dy[0] != ZT_NONE) to = by_dx(&f, emit_whole(&f, vjp->dy[0]), n, d, r, training);
    if (b != ZT_NONE) to.n = add_optional(&f, to.n, zt_build_mul(emit, b, dy));
    if (to.n != ZT_NONE) {
        int x = zt_build_mul(emit, to.n, r);
        add_gradient(vjp, 0, x);
        add_gradient(vjp, 1, zt_build_neg(emit, sum_of(&f, x)));
        to.rstd = add_optional(&f, to.rstd, sum_of(&f, zt_build_mul(emit, to.n, off)));
    }
    add_gradient(vjp, 2, to.rstd);
    int by = to.d == ZT_NONE || g == ZT_NONE ? to.d : zt_build_mul(emit, to.d, g);
    if (b != ZT_NONE) by = add_optional(&f, by, zt_build_mul(emit, n, b));
    if (c != ZT_NONE) by = add_optional(&f, by, zt_build_broadcast_to(emit, c, dy, NULL));
    add_gradient(vjp, 3, by);
    if (to.d != ZT_NONE && g != ZT_NONE) add_gradient(vjp, 4, sum_channels(&f, zt_build_mul(emit, to.d, dy)));
}
