/* recurrent_unroll.c - owns the gradients of recurrences as ops: those of x, w_ih and b, and, a few
 * ops for each step, all that the rows in recurrent_back.c give. Gradients of gradients go there.
 *
 * What hangs on `saved` alone is made first, [T,N,H] of all steps at once. Then the steps are
 * walked from the last to the first with the gradients of h and c in hand, [1,N,H]; those of the
 * gates of each step, [1,N,G*H], are joined again. Letters are the forward rows': i f g o c, r z n.
 */
#include "lib/ops/recurrent.h"

#include <stdio.h>

enum { PARTS = ZT_LSTM_SAVED, GATES = 4 };

/* ---- absent values are 0 --------------------------------------------------------------------- */

static int add_optional(const zt_emit *emit, int x, int y)
{
    return x == ZT_NONE ? y : y == ZT_NONE ? x : zt_build_add(emit, x, y);
}

static int multiply_optional(const zt_emit *emit, int x, int y)
{
    return x == ZT_NONE || y == ZT_NONE ? ZT_NONE : zt_build_mul(emit, x, y);
}

static int part_of(const zt_emit *emit, int x, int axis, int64_t from, int64_t to)
{
    return x == ZT_NONE ? x : zt_build_slice(emit, x, &(zt_slice_attrs){axis, from, to});
}

/* x (1 - x) and 1 - x^2 */
static int sigmoid_slope(const zt_emit *emit, int x) { return zt_build_sub(emit, x, zt_build_square(emit, x)); }
static int tanh_slope(const zt_emit *emit, int x)
{
    return zt_build_plus(emit, zt_build_neg(emit, zt_build_square(emit, x)), 1);
}

/* Along axis, values that are there. */
static int emit_concat(const zt_emit *emit, int axis, int n, const int *x)
{
    int in[5] = {ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE};
    for (int i = 0; i < n; i++) in[i] = x[i];
    return zt_build_concat(emit, in[0], in[1], in[2], in[3], in[4], &(zt_concat_attrs){axis});
}

/* ---- the walk -------------------------------------------------------------------------------- */

typedef struct walk {
    const zt_emit *e;
    zt_unrolled *u;
    int64_t T, N, H, t; /* t: of the step */
    int part[PARTS], dpart[PARTS]; /* of saved, and of its cotangent (ZT_NONE: 0), [T,N,H] */
    int slope[GATES], extra[GATES]; /* a gate's gradient is slope times what comes in, + extra */
    int slope_c;    /* of c by h */
    int zero, dy;   /* [1,N,H]; [T,N,H] or ZT_NONE */
    int r[2];       /* gru's w_hh, gates r and z, and gate n; with one product for all r[0] alone */
    int valid, within; /* bool [T,N,1]: steps within their sequence; the step's. ZT_NONE: all */
    int h, c;       /* in hand */
    int gates, hidden; /* the step's gradients, [1,N,G*H]; hidden: of what w_hh h is */
} walk;

typedef struct kind {
    int parts, gates;
    bool has_hidden;
    void (*begin)(walk *w);
    void (*step)(walk *w, int *h, int *c); /* what is in hand next */
    void (*end)(walk *w, int dg, int dhidden);
} kind;

/* The step's row of a value of the sequence. */
static int step_of(const walk *w, int x) { return part_of(w->e, x, 0, w->t, w->t + 1); }

/* slope times d, and extra, of gate i. */
static int gate_of(const walk *w, int i, int d)
{
    return add_optional(w->e, multiply_optional(w->e, d, step_of(w, w->slope[i])), step_of(w, w->extra[i]));
}

static int by_r(const walk *w, int x, int r) { return zt_build_matmul(w->e, x, r, NULL); }

/* Gates H from..to of a [T,N,G*H], transposed, times b [T,N,H]: [.,H] */
static int emit_outer(const walk *w, int a, int from, int to, int b)
{
    int64_t rows = w->T * w->N;
    a = part_of(w->e, a, 2, from * w->H, to * w->H);
    a = zt_build_reshape(w->e, a, &(zt_reshape_attrs){{2, {rows, (to - from) * w->H}}});
    b = zt_build_reshape(w->e, b, &(zt_reshape_attrs){{2, {rows, w->H}}});
    return zt_build_matmul(w->e, a, b, &(zt_matmul_attrs){1, 0});
}

/* Over steps and sequences. */
static int sum_rows(const walk *w, int x)
{
    return zt_build_sum(w->e, x, &(zt_sum_attrs){{2, {0, 1}}, 0});
}

/* t < length, of all steps and sequences. */
static int valid_steps(const walk *w)
{
    const zt_emit *emit = w->e;
    const zt_cast_attrs f32 = zt_cast_defaults();
    if (w->u->lengths == ZT_NONE) return ZT_NONE;
    int one = zt_build_sum(emit, w->part[0], &(zt_sum_attrs){{1, {2}}, 1});
    one = zt_build_fill_like(emit, one, &(zt_fill_like_attrs){1});
    int t = zt_build_cumsum(emit, one, &(zt_cumsum_attrs){.axis = 0, .exclusive = 1});
    int lengths = zt_build_group(emit, zt_build_cast(emit, w->u->lengths, &f32), &(zt_group_attrs){1});
    return zt_build_lt(emit, t, lengths);
}

/* x at steps within their sequence, else y, or 0 where that is absent. */
static int mask_past(const walk *w, int x, int y)
{
    if (x == ZT_NONE || w->within == ZT_NONE) return x;
    if (y == ZT_NONE) y = zt_build_fill_like(w->e, x, &(zt_fill_like_attrs){0});
    return zt_build_where(w->e, w->within, x, y);
}

/* ---- pieces of a sequence -------------------------------------------------------------------- */

/* Steps [1,N,.] as they come, neighbours of one length joined, so that each is copied only as often
 * as the number of steps has bits. */
typedef struct pieces {
    int value[64];
    int64_t length[64];
    int n;
} pieces;

/* The last two; the later piece stands first where steps go from the last to the first. */
static void join_last(const walk *w, pieces *p)
{
    int last = --p->n, two[2] = {p->value[last], p->value[last - 1]};
    if (w->u->reverse) two[0] = p->value[last - 1], two[1] = p->value[last];
    p->value[last - 1] = emit_concat(w->e, 0, 2, two);
    p->length[last - 1] += p->length[last];
}

static void add_piece(const walk *w, pieces *p, int x)
{
    p->value[p->n] = x;
    p->length[p->n++] = 1;
    while (p->n > 1 && p->length[p->n - 1] == p->length[p->n - 2]) join_last(w, p);
}

/* The pieces as one; of nothing nothing, [T,N,gates*H]. */
static int end_of(const walk *w, pieces *p, int gates)
{
    const zt_fill_like_attrs zero = {0};
    while (p->n > 1) join_last(w, p);
    if (p->n) return p->value[0];
    return zt_build_fill_like(w->e, part_of(w->e, w->u->saved, 2, 0, gates * w->H), &zero);
}

/* ---- beginning, steps, end ------------------------------------------------------------------- */

static int initial_state(const walk *w, int state)
{
    if (state == ZT_NONE) return w->zero;
    return zt_build_reshape(w->e, state, &(zt_reshape_attrs){{3, {1, w->N, w->H}}});
}

static bool begin_walk(walk *w, const kind *k)
{
    const zt_emit *emit = w->e;
    zt_unrolled *unrolled = w->u;
    if (unrolled->saved < 0) return false;
    zt_type saved = emit->type(emit->user, unrolled->saved);
    if (saved.dim[0] < 0) return false;
    w->T = saved.dim[0], w->N = saved.dim[1], w->H = saved.dim[2] / k->parts;
    for (int i = 0; i < k->parts; i++) {
        w->part[i] = part_of(emit, unrolled->saved, 2, i * w->H, (i + 1) * w->H);
        w->dpart[i] = part_of(emit, unrolled->dsaved, 2, i * w->H, (i + 1) * w->H);
    }
    int one = zt_build_sum(emit, w->part[0], &(zt_sum_attrs){{1, {0}}, 1});
    w->zero = zt_build_fill_like(emit, one, &(zt_fill_like_attrs){0});
    w->valid = valid_steps(w);
    w->dy = unrolled->dy;
    w->h = initial_state(w, unrolled->dhn);
    w->c = initial_state(w, unrolled->dcn);
    k->begin(w);
    return true;
}

static bool unroll_steps(const kind *k, zt_unrolled *unrolled)
{
    walk w = {.e = unrolled->e, .u = unrolled};
    pieces gates = {.n = 0}, hidden = {.n = 0};
    if (!begin_walk(&w, k)) return false;
    for (int64_t i = 0; i < w.T && w.N * w.H > 0; i++) {
        int h, c = ZT_NONE;
        w.t = unrolled->reverse ? i : w.T - 1 - i;
        w.within = step_of(&w, w.valid);
        k->step(&w, &h, &c);
        add_piece(&w, &gates, mask_past(&w, w.gates, ZT_NONE));
        if (k->has_hidden) add_piece(&w, &hidden, mask_past(&w, w.hidden, ZT_NONE));
        w.h = mask_past(&w, h, w.h);
        w.c = mask_past(&w, c, w.c);
    }
    unrolled->dg = end_of(&w, &gates, k->gates);
    unrolled->dh0 = zt_build_sum(w.e, w.h, &(zt_sum_attrs){{1, {0}}, 0});
    k->end(&w, unrolled->dg, k->has_hidden ? end_of(&w, &hidden, k->gates) : unrolled->dg);
    return true;
}

/* ---- rnn ------------------------------------------------------------------------------------- */

enum { RNN_H, RNN_BEFORE };

static void rnn_begin(walk *w)
{
    w->dy = add_optional(w->e, w->dy, w->dpart[RNN_H]);
    w->slope[0] = w->u->other ? zt_build_gt(w->e, w->part[RNN_H], w->zero)
                              : tanh_slope(w->e, w->part[RNN_H]);
}

static void rnn_step(walk *w, int *h, int *c)
{
    int dh = add_optional(w->e, w->h, step_of(w, w->dy)), slope = step_of(w, w->slope[0]);
    (void)c;
    w->gates = w->u->other ? zt_build_where(w->e, slope, dh, w->zero) : zt_build_mul(w->e, dh, slope);
    *h = add_optional(w->e, by_r(w, w->gates, w->u->w_hh), step_of(w, w->dpart[RNN_BEFORE]));
}

static void rnn_end(walk *w, int dg, int dhidden)
{
    w->u->dw_hh = emit_outer(w, dhidden, 0, 1, w->part[RNN_BEFORE]);
    (void)dg;
}

bool zt_rnn_unroll(zt_unrolled *unrolled)
{
    static const kind k = {ZT_RNN_SAVED, 1, false, rnn_begin, rnn_step, rnn_end};
    return unroll_steps(&k, unrolled);
}

/* ---- lstm ------------------------------------------------------------------------------------ */

enum { I, F, G, O, C, C_BEFORE, H_BEFORE };

static void lstm_begin(walk *w)
{
    const zt_emit *emit = w->e;
    const int *p = w->part;
    int tc = zt_build_tanh(emit, p[C]);
    const int by[GATES] = {p[G], p[C_BEFORE], p[I], tc};
    for (int i = 0; i < GATES; i++) {
        int slope = i == G ? tanh_slope(emit, p[i]) : sigmoid_slope(emit, p[i]);
        w->slope[i] = zt_build_mul(emit, by[i], slope);
        w->extra[i] = multiply_optional(emit, w->dpart[i], slope);
    }
    w->slope_c = zt_build_mul(emit, p[O], tanh_slope(emit, tc));
}

/* x times gate i's row of the peepholes. */
static int emit_peephole(const walk *w, int x, int row)
{
    return multiply_optional(w->e, x, part_of(w->e, w->u->peep, 0, row, row + 1));
}

static void lstm_step(walk *w, int *h, int *c)
{
    const zt_emit *emit = w->e;
    int d[GATES], dh = add_optional(emit, w->h, step_of(w, w->dy));
    d[O] = gate_of(w, O, dh);
    int dc = add_optional(emit, w->c, zt_build_mul(emit, dh, step_of(w, w->slope_c)));
    dc = add_optional(emit, add_optional(emit, dc, step_of(w, w->dpart[C])), emit_peephole(w, d[O], 2));
    for (int i = I; i <= G; i++) d[i] = gate_of(w, i, dc);
    w->gates = emit_concat(emit, 2, GATES, d);
    *h = add_optional(emit, by_r(w, w->gates, w->u->w_hh), step_of(w, w->dpart[H_BEFORE]));
    *c = add_optional(emit, zt_build_mul(emit, dc, step_of(w, w->part[F])), step_of(w, w->dpart[C_BEFORE]));
    *c = add_optional(emit, add_optional(emit, *c, emit_peephole(w, d[I], 0)), emit_peephole(w, d[F], 1));
}

static void lstm_end(walk *w, int dg, int dhidden)
{
    static const int of[3] = {I, F, O}, by[3] = {C_BEFORE, C_BEFORE, C};
    const zt_emit *emit = w->e;
    int row[3];
    w->u->dw_hh = emit_outer(w, dhidden, 0, GATES, w->part[H_BEFORE]);
    w->u->dc0 = zt_build_sum(emit, w->c, &(zt_sum_attrs){{1, {0}}, 0});
    for (int i = 0; i < 3; i++) {
        int d = part_of(emit, dg, 2, of[i] * w->H, (of[i] + 1) * w->H);
        row[i] = sum_rows(w, zt_build_mul(emit, d, w->part[by[i]]));
    }
    w->u->dpeep = zt_build_reshape(emit, emit_concat(emit, 0, 3, row), &(zt_reshape_attrs){{2, {3, w->H}}});
}

bool zt_lstm_unroll(zt_unrolled *unrolled)
{
    static const kind k = {ZT_LSTM_SAVED, GATES, false, lstm_begin, lstm_step, lstm_end};
    return unroll_steps(&k, unrolled);
}

/* ---- gru ------------------------------------------------------------------------------------- */

enum { R, Z, N, Q, GRU_BEFORE };

static void gru_begin(walk *w)
{
    const zt_emit *emit = w->e;
    const int *p = w->part;
    int h = p[GRU_BEFORE], r_slope = sigmoid_slope(emit, p[R]), z_slope = sigmoid_slope(emit, p[Z]);
    int n_slope = tanh_slope(emit, p[N]), kept = zt_build_plus(emit, zt_build_neg(emit, p[Z]), 1);
    w->slope[R] = zt_build_mul(emit, w->u->other ? h : p[Q], r_slope);
    w->slope[Z] = zt_build_mul(emit, zt_build_sub(emit, h, p[N]), z_slope);
    w->slope[N] = zt_build_mul(emit, kept, n_slope);
    w->extra[R] = multiply_optional(emit, w->dpart[R], r_slope);
    w->extra[Z] = multiply_optional(emit, w->dpart[Z], z_slope);
    w->extra[N] = multiply_optional(emit, w->dpart[N], n_slope);
    w->r[0] = w->u->w_hh;
    if (!w->u->other) return;
    w->r[0] = part_of(emit, w->u->w_hh, 0, 0, 2 * w->H);
    w->r[1] = part_of(emit, w->u->w_hh, 0, 2 * w->H, 3 * w->H);
}

/* q is what r multiplies, R_n h + rb_n, or (`other`) r h, of which R_n is taken. */
static void gru_step(walk *w, int *h, int *c)
{
    const zt_emit *emit = w->e;
    int d[3], dh = add_optional(emit, w->h, step_of(w, w->dy)), dq;
    (void)c;
    d[Z] = gate_of(w, Z, dh);
    d[N] = gate_of(w, N, dh);
    dq = w->u->other ? by_r(w, d[N], w->r[1]) : zt_build_mul(emit, d[N], step_of(w, w->part[R]));
    dq = add_optional(emit, dq, step_of(w, w->dpart[Q]));
    d[R] = gate_of(w, R, w->u->other ? dq : d[N]);
    w->gates = emit_concat(emit, 2, 3, d);
    w->hidden = w->u->other ? w->gates : emit_concat(emit, 2, 3, (const int[]){d[R], d[Z], dq});
    *h = by_r(w, w->u->other ? emit_concat(emit, 2, 2, d) : w->hidden, w->r[0]);
    if (w->u->other) *h = add_optional(emit, *h, zt_build_mul(emit, dq, step_of(w, w->part[R])));
    *h = add_optional(emit, *h, zt_build_mul(emit, dh, step_of(w, w->part[Z])));
    *h = add_optional(emit, *h, step_of(w, w->dpart[GRU_BEFORE]));
}

static void gru_end(walk *w, int dg, int dhidden)
{
    int h = w->part[GRU_BEFORE];
    (void)dg;
    w->u->db_hh = sum_rows(w, dhidden);
    if (!w->u->other) {
        w->u->dw_hh = emit_outer(w, dhidden, 0, 3, h);
        return;
    }
    const int rows[] = {emit_outer(w, dhidden, 0, 2, h), emit_outer(w, dhidden, 2, 3, w->part[Q])};
    w->u->dw_hh = emit_concat(w->e, 0, 2, rows);
}

bool zt_gru_unroll(zt_unrolled *unrolled)
{
    static const kind k = {ZT_GRU_SAVED, 3, true, gru_begin, gru_step, gru_end};
    return unroll_steps(&k, unrolled);
}

/* ---- what is outside the loop ---------------------------------------------------------------- */

static bool is_known(const zt_emit *emit, int x)
{
    zt_type type = emit->type(emit->user, x);
    for (int d = 0; d < type.rank; d++)
        if (type.dim[d] < 0) return false;
    return true;
}

/* x [T,N,K] as [T*N,K] */
static int emit_flat(const zt_emit *emit, int x)
{
    zt_type type = emit->type(emit->user, x);
    return zt_build_reshape(emit, x, &(zt_reshape_attrs){{2, {type.dim[0] * type.dim[1], type.dim[2]}}});
}

void zt_recurrent_vjp(zt_vjp *vjp, bool made, int dg, int n, const int *to, const int *dx)
{
    const zt_emit *emit = vjp->emit;
    if (!made) {
        snprintf(vjp->refused, sizeof vjp->refused, "the number of steps is not known");
        return;
    }
    if (vjp->want[0]) vjp->dx[0] = zt_build_matmul(emit, dg, vjp->in[1], NULL);
    if (vjp->want[1] && dg >= 0) { /* one product where numbers are known, else one a step */
        bool one = is_known(emit, dg) && is_known(emit, vjp->in[0]);
        int x = one ? emit_flat(emit, vjp->in[0]) : vjp->in[0];
        int dw = zt_build_matmul(emit, one ? emit_flat(emit, dg) : dg, x, &(zt_matmul_attrs){1, 0});
        vjp->dx[1] = zt_build_reduced(emit, dw, vjp->in[1]);
    }
    if (vjp->want[3]) vjp->dx[3] = zt_build_sum_to(emit, dg, vjp->in[3]);
    for (int i = 0; i < n; i++)
        if (vjp->want[to[i]]) vjp->dx[to[i]] = dx[i];
}
