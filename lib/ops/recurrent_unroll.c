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
static int tanh_slope(const zt_emit *emit, int x) { return zt_build_plus(emit, zt_build_neg(emit, zt_build_square(emit, x)), 1); }

/* Along axis, values that are there. */
static int emit_concat(const zt_emit *emit, int axis, int n, const int *x)
{
    int in[5] = {ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE, ZT_NONE};
    for (int i = 0; i < n; i++) in[i] = x[i];
    return zt_build_concat(emit, in[0], in[1], in[2], in[3], in[4], &(zt_concat_attrs){axis});
}

/* ---- the unrolling --------------------------------------------------------------------------- */

typedef struct unrolling {
    const zt_emit *e;
    zt_unrolled *u;
    int64_t T, N, H, t;             /* t: of the step */
    int part[PARTS], dpart[PARTS];  /* of saved, and of its cotangent (ZT_NONE: 0), [T,N,H] */
    int slope[GATES], extra[GATES]; /* a gate's gradient is slope times what comes in, + extra */
    int slope_c;                    /* of c by h */
    int zero, dy;                   /* [1,N,H]; [T,N,H] or ZT_NONE */
    int r[2];                       /* gru's w_hh, gates r and z, and gate n; with one product for all r[0] alone */
    int valid, within;              /* bool [T,N,1]: steps within their sequence; the step's. ZT_NONE: all */
    int h, c;                       /* in hand */
    int gates, hidden;              /* the step's gradients, [1,N,G*H]; hidden: of what w_hh h is */
} unrolling;

typedef struct kind {
    int parts, gates;
    bool has_hidden;
    void (*begin)(unrolling *unroll);
    void (*step)(unrolling *unroll, int *h, int *c); /* what is in hand next */
    void (*end)(unrolling *unroll, int dg, int dhidden);
} kind;

/* The step's row of a value of the sequence. */
static int step_of(const unrolling *unroll, int x) { return part_of(unroll->e, x, 0, unroll->t, unroll->t + 1); }

/* slope times d, and extra, of gate i. */
static int gate_of(const unrolling *unroll, int i, int d)
{
    return add_optional(unroll->e, multiply_optional(unroll->e, d, step_of(unroll, unroll->slope[i])),
                        step_of(unroll, unroll->extra[i]));
}

static int by_r(const unrolling *unroll, int x, int r) { return zt_build_matmul(unroll->e, x, r, NULL); }

/* Gates H from..to of a [T,N,G*H], transposed, times b [T,N,H]: [.,H] */
static int emit_outer(const unrolling *unroll, int a, int from, int to, int b)
{
    int64_t rows = unroll->T * unroll->N;
    a = part_of(unroll->e, a, 2, from * unroll->H, to * unroll->H);
    a = zt_build_reshape(unroll->e, a, &(zt_reshape_attrs){{2, {rows, (to - from) * unroll->H}}});
    b = zt_build_reshape(unroll->e, b, &(zt_reshape_attrs){{2, {rows, unroll->H}}});
    return zt_build_matmul(unroll->e, a, b, &(zt_matmul_attrs){1, 0});
}

/* Over steps and sequences. */
static int sum_rows(const unrolling *unroll, int x) { return zt_build_sum(unroll->e, x, &(zt_sum_attrs){{2, {0, 1}}, 0}); }

/* t < length, of all steps and sequences. */
static int valid_steps(const unrolling *unroll)
{
    const zt_emit *emit = unroll->e;
    const zt_cast_attrs f32 = zt_cast_defaults();
    if (unroll->u->lengths == ZT_NONE) return ZT_NONE;
    int one = zt_build_sum(emit, unroll->part[0], &(zt_sum_attrs){{1, {2}}, 1});
    one = zt_build_fill_like(emit, one, &(zt_fill_like_attrs){1});
    int t = zt_build_cumsum(emit, one, &(zt_cumsum_attrs){.axis = 0, .exclusive = 1});
    int lengths = zt_build_group(emit, zt_build_cast(emit, unroll->u->lengths, &f32), &(zt_group_attrs){1});
    return zt_build_lt(emit, t, lengths);
}

/* x at steps within their sequence, else y, or 0 where that is absent. */
static int mask_past(const unrolling *unroll, int x, int y)
{
    if (x == ZT_NONE || unroll->within == ZT_NONE) return x;
    if (y == ZT_NONE) y = zt_build_fill_like(unroll->e, x, &(zt_fill_like_attrs){0});
    return zt_build_where(unroll->e, unroll->within, x, y);
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
static void join_last(const unrolling *unroll, pieces *p)
{
    int last = --p->n, two[2] = {p->value[last], p->value[last - 1]};
    if (unroll->u->reverse) two[0] = p->value[last - 1], two[1] = p->value[last];
    p->value[last - 1] = emit_concat(unroll->e, 0, 2, two);
    p->length[last - 1] += p->length[last];
}

static void add_piece(const unrolling *unroll, pieces *p, int x)
{
    p->value[p->n] = x;
    p->length[p->n++] = 1;
    while (p->n > 1 && p->length[p->n - 1] == p->length[p->n - 2]) join_last(unroll, p);
}

/* The pieces as one; of nothing nothing, [T,N,gates*H]. */
static int end_of(const unrolling *unroll, pieces *p, int gates)
{
    const zt_fill_like_attrs zero = {0};
    while (p->n > 1) join_last(unroll, p);
    if (p->n) return p->value[0];
    return zt_build_fill_like(unroll->e, part_of(unroll->e, unroll->u->saved, 2, 0, gates * unroll->H), &zero);
}

/* ---- beginning, steps, end ------------------------------------------------------------------- */

static int initial_state(const unrolling *unroll, int state)
{
    if (state == ZT_NONE) return unroll->zero;
    return zt_build_reshape(unroll->e, state, &(zt_reshape_attrs){{3, {1, unroll->N, unroll->H}}});
}

static bool begin_unrolling(unrolling *unroll, const kind *k)
{
    const zt_emit *emit = unroll->e;
    zt_unrolled *unrolled = unroll->u;
    if (unrolled->saved < 0) return false;
    zt_type saved = emit->type(emit->user, unrolled->saved);
    if (saved.dim[0] < 0) return false;
    unroll->T = saved.dim[0], unroll->N = saved.dim[1], unroll->H = saved.dim[2] / k->parts;
    for (int i = 0; i < k->parts; i++) {
        unroll->part[i] = part_of(emit, unrolled->saved, 2, i * unroll->H, (i + 1) * unroll->H);
        unroll->dpart[i] = part_of(emit, unrolled->dsaved, 2, i * unroll->H, (i + 1) * unroll->H);
    }
    int one = zt_build_sum(emit, unroll->part[0], &(zt_sum_attrs){{1, {0}}, 1});
    unroll->zero = zt_build_fill_like(emit, one, &(zt_fill_like_attrs){0});
    unroll->valid = valid_steps(unroll);
    unroll->dy = unrolled->dy;
    unroll->h = initial_state(unroll, unrolled->dhn);
    unroll->c = initial_state(unroll, unrolled->dcn);
    k->begin(unroll);
    return true;
}

static bool unroll_steps(const kind *k, zt_unrolled *unrolled)
{
    unrolling unroll = {.e = unrolled->e, .u = unrolled};
    pieces gates = {.n = 0}, hidden = {.n = 0};
    if (!begin_unrolling(&unroll, k)) return false;
    for (int64_t i = 0; i < unroll.T && unroll.N * unroll.H > 0; i++) {
        int h, c = ZT_NONE;
        unroll.t = unrolled->reverse ? i : unroll.T - 1 - i;
        unroll.within = step_of(&unroll, unroll.valid);
        k->step(&unroll, &h, &c);
        add_piece(&unroll, &gates, mask_past(&unroll, unroll.gates, ZT_NONE));
        if (k->has_hidden) add_piece(&unroll, &hidden, mask_past(&unroll, unroll.hidden, ZT_NONE));
        unroll.h = mask_past(&unroll, h, unroll.h);
        unroll.c = mask_past(&unroll, c, unroll.c);
    }
    unrolled->dg = end_of(&unroll, &gates, k->gates);
    unrolled->dh0 = zt_build_sum(unroll.e, unroll.h, &(zt_sum_attrs){{1, {0}}, 0});
    k->end(&unroll, unrolled->dg, k->has_hidden ? end_of(&unroll, &hidden, k->gates) : unrolled->dg);
    return true;
}

/* ---- rnn ------------------------------------------------------------------------------------- */

enum { RNN_H, RNN_BEFORE };

static void rnn_begin(unrolling *unroll)
{
    unroll->dy = add_optional(unroll->e, unroll->dy, unroll->dpart[RNN_H]);
    unroll->slope[0] =
        unroll->u->other ? zt_build_gt(unroll->e, unroll->part[RNN_H], unroll->zero) : tanh_slope(unroll->e, unroll->part[RNN_H]);
}

static void rnn_step(unrolling *unroll, int *h, int *c)
{
    int dh = add_optional(unroll->e, unroll->h, step_of(unroll, unroll->dy)), slope = step_of(unroll, unroll->slope[0]);
    (void)c;
    unroll->gates = unroll->u->other ? zt_build_where(unroll->e, slope, dh, unroll->zero) : zt_build_mul(unroll->e, dh, slope);
    *h = add_optional(unroll->e, by_r(unroll, unroll->gates, unroll->u->w_hh), step_of(unroll, unroll->dpart[RNN_BEFORE]));
}

static void rnn_end(unrolling *unroll, int dg, int dhidden)
{
    unroll->u->dw_hh = emit_outer(unroll, dhidden, 0, 1, unroll->part[RNN_BEFORE]);
    (void)dg;
}

bool zt_rnn_unroll(zt_unrolled *unrolled)
{
    static const kind k = {ZT_RNN_SAVED, 1, false, rnn_begin, rnn_step, rnn_end};
    return unroll_steps(&k, unrolled);
}

/* ---- lstm ------------------------------------------------------------------------------------ */

enum { I, F, G, O, C, C_BEFORE, H_BEFORE };

static void lstm_begin(unrolling *unroll)
{
    const zt_emit *emit = unroll->e;
    const int *p = unroll->part;
    int tc = zt_build_tanh(emit, p[C]);
    const int by[GATES] = {p[G], p[C_BEFORE], p[I], tc};
    for (int i = 0; i < GATES; i++) {
        int slope = i == G ? tanh_slope(emit, p[i]) : sigmoid_slope(emit, p[i]);
        unroll->slope[i] = zt_build_mul(emit, by[i], slope);
        unroll->extra[i] = multiply_optional(emit, unroll->dpart[i], slope);
    }
    unroll->slope_c = zt_build_mul(emit, p[O], tanh_slope(emit, tc));
}

/* x times gate i's row of the peepholes. */
static int emit_peephole(const unrolling *unroll, int x, int row)
{
    return multiply_optional(unroll->e, x, part_of(unroll->e, unroll->u->peep, 0, row, row + 1));
}

static void lstm_step(unrolling *unroll, int *h, int *c)
{
    const zt_emit *emit = unroll->e;
    int d[GATES], dh = add_optional(emit, unroll->h, step_of(unroll, unroll->dy));
    d[O] = gate_of(unroll, O, dh);
    int dc = add_optional(emit, unroll->c, zt_build_mul(emit, dh, step_of(unroll, unroll->slope_c)));
    dc = add_optional(emit, add_optional(emit, dc, step_of(unroll, unroll->dpart[C])), emit_peephole(unroll, d[O], 2));
    for (int i = I; i <= G; i++) d[i] = gate_of(unroll, i, dc);
    unroll->gates = emit_concat(emit, 2, GATES, d);
    *h = add_optional(emit, by_r(unroll, unroll->gates, unroll->u->w_hh), step_of(unroll, unroll->dpart[H_BEFORE]));
    *c = add_optional(emit, zt_build_mul(emit, dc, step_of(unroll, unroll->part[F])), step_of(unroll, unroll->dpart[C_BEFORE]));
    *c = add_optional(emit, add_optional(emit, *c, emit_peephole(unroll, d[I], 0)), emit_peephole(unroll, d[F], 1));
}

static void lstm_end(unrolling *unroll, int dg, int dhidden)
{
    static const int of[3] = {I, F, O}, by[3] = {C_BEFORE, C_BEFORE, C};
    const zt_emit *emit = unroll->e;
    int row[3];
    unroll->u->dw_hh = emit_outer(unroll, dhidden, 0, GATES, unroll->part[H_BEFORE]);
    unroll->u->dc0 = zt_build_sum(emit, unroll->c, &(zt_sum_attrs){{1, {0}}, 0});
    for (int i = 0; i < 3; i++) {
        int d = part_of(emit, dg, 2, of[i] * unroll->H, (of[i] + 1) * unroll->H);
        row[i] = sum_rows(unroll, zt_build_mul(emit, d, unroll->part[by[i]]));
    }
    unroll->u->dpeep = zt_build_reshape(emit, emit_concat(emit, 0, 3, row), &(zt_reshape_attrs){{2, {3, unroll->H}}});
}

bool zt_lstm_unroll(zt_unrolled *unrolled)
{
    static const kind k = {ZT_LSTM_SAVED, GATES, false, lstm_begin, lstm_step, lstm_end};
    return unroll_steps(&k, unrolled);
}

/* ---- gru ------------------------------------------------------------------------------------- */

enum { R, Z, N, Q, GRU_BEFORE };

static void gru_begin(unrolling *unroll)
{
    const zt_emit *emit = unroll->e;
    const int *p = unroll->part;
    int h = p[GRU_BEFORE], r_slope = sigmoid_slope(emit, p[R]), z_slope = sigmoid_slope(emit, p[Z]);
    int n_slope = tanh_slope(emit, p[N]), kept = zt_build_plus(emit, zt_build_neg(emit, p[Z]), 1);
    unroll->slope[R] = zt_build_mul(emit, unroll->u->other ? h : p[Q], r_slope);
    unroll->slope[Z] = zt_build_mul(emit, zt_build_sub(emit, h, p[N]), z_slope);
    unroll->slope[N] = zt_build_mul(emit, kept, n_slope);
    unroll->extra[R] = multiply_optional(emit, unroll->dpart[R], r_slope);
    unroll->extra[Z] = multiply_optional(emit, unroll->dpart[Z], z_slope);
    unroll->extra[N] = multiply_optional(emit, unroll->dpart[N], n_slope);
    unroll->r[0] = unroll->u->w_hh;
    if (!unroll->u->other) return;
    unroll->r[0] = part_of(emit, unroll->u->w_hh, 0, 0, 2 * unroll->H);
    unroll->r[1] = part_of(emit, unroll->u->w_hh, 0, 2 * unroll->H, 3 * unroll->H);
}

/* q is what r multiplies, R_n h + rb_n, or (`other`) r h, of which R_n is taken. */
static void gru_step(unrolling *unroll, int *h, int *c)
{
    const zt_emit *emit = unroll->e;
    int d[3], dh = add_optional(emit, unroll->h, step_of(unroll, unroll->dy)), dq;
    (void)c;
    d[Z] = gate_of(unroll, Z, dh);
    d[N] = gate_of(unroll, N, dh);
    dq = unroll->u->other ? by_r(unroll, d[N], unroll->r[1]) : zt_build_mul(emit, d[N], step_of(unroll, unroll->part[R]));
    dq = add_optional(emit, dq, step_of(unroll, unroll->dpart[Q]));
    d[R] = gate_of(unroll, R, unroll->u->other ? dq : d[N]);
    unroll->gates = emit_concat(emit, 2, 3, d);
    unroll->hidden = unroll->u->other ? unroll->gates : emit_concat(emit, 2, 3, (const int[]){d[R], d[Z], dq});
    *h = by_r(unroll, unroll->u->other ? emit_concat(emit, 2, 2, d) : unroll->hidden, unroll->r[0]);
    if (unroll->u->other) *h = add_optional(emit, *h, zt_build_mul(emit, dq, step_of(unroll, unroll->part[R])));
    *h = add_optional(emit, *h, zt_build_mul(emit, dh, step_of(unroll, unroll->part[Z])));
    *h = add_optional(emit, *h, step_of(unroll, unroll->dpart[GRU_BEFORE]));
}

static void gru_end(unrolling *unroll, int dg, int dhidden)
{
    int h = unroll->part[GRU_BEFORE];
    (void)dg;
    unroll->u->db_hh = sum_rows(unroll, dhidden);
    if (!unroll->u->other) {
        unroll->u->dw_hh = emit_outer(unroll, dhidden, 0, 3, h);
        return;
    }
    const int rows[] = {emit_outer(unroll, dhidden, 0, 2, h), emit_outer(unroll, dhidden, 2, 3, unroll->part[Q])};
    unroll->u->dw_hh = emit_concat(unroll->e, 0, 2, rows);
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
        snprintf(vjp->refused, sizeof vjp->refused, "the number of steps is symbolic: a sample value is needed");
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
