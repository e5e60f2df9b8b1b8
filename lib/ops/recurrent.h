/* recurrent.h - private to lib/ops: sizes and steps that recurrences and their gradients share.
 *
 * Letters: T steps, N sequences side by side, K columns of x, H units, G gates of a unit.
 */
#ifndef ZT_RECURRENT_H
#define ZT_RECURRENT_H

#include "lib/ops/vjp.h"

/* What `saved` holds of a unit, in this order, H of each: rnn h, h before; lstm i f g o c, c
 * before, h before; gru r z n q, h before. gru's q is what r multiplies, R_n h + rb_n, with
 * linear_before_reset, else r times h before. */
enum { ZT_RNN_SAVED = 2, ZT_LSTM_SAVED = 7, ZT_GRU_SAVED = 5 };

typedef struct zt_steps {
    int64_t T, N, H;
    bool reverse;
    const int64_t *lengths; /* NULL: all T */
} zt_steps;

/* `first` is a value [T,N,...]; lengths may be absent. */
zt_steps zt_steps_of(const zt_type *first, int64_t H, int64_t reverse, const zt_arg *lengths);
/* The length of sequence n, and trouble where it is not from 0 to T. */
int64_t zt_steps_length(const zt_steps *steps, int64_t n, zt_runtime_error *t);
/* Row (t, n) of values [T,N,...] at step i of a sequence of `length`; last step first if reverse.
 */
int64_t zt_steps_row(const zt_steps *steps, int64_t n, int64_t length, int64_t i);

/* ZT_ESHAPE unless t, where it is there, is f32 of these dimensions. */
zt_status zt_recurrent_want(zt_ctx *ctx, const char *name, const zt_type *type, int rank, const int64_t *dim);
zt_status zt_recurrent_lengths(zt_ctx *ctx, const zt_type *lengths, int64_t N);
zt_status zt_recurrent_flag(zt_ctx *ctx, const char *name, int64_t value); /* 0 or 1 */
zt_status zt_recurrent_act(zt_ctx *ctx, const zt_enum_string *act);

/* A gradient as ops, for gradients of gradients: what the row of the gradient takes (ZT_NONE:
 * absent) and the cotangent of `saved` itself, and then what that row gives. */
typedef struct zt_unrolled {
    const zt_emit *e;
    bool reverse, other; /* other: rnn's act is relu; gru's reset is before w_hh */
    int saved, w_hh, peep, lengths, dy, dhn, dcn, dsaved;
    int dg, dw_hh, dh0, dc0, dpeep, db_hh; /* those that the recurrence has */
} zt_unrolled;
/* False, and no op written, where the number of steps is not known. */
bool zt_rnn_unroll(zt_unrolled *unrolled);
bool zt_lstm_unroll(zt_unrolled *unrolled);
bool zt_gru_unroll(zt_unrolled *unrolled);

/* From the gradient dg of w_ih x + b: those of x, w_ih and b, inputs 0, 1 and 3; of the n inputs
 * to[i] it is dx[i]. Not `made`: refused for the number of steps. */
void zt_recurrent_vjp(zt_vjp *v, bool made, int dg, int n, const int *to, const int *dx);

/* The i-th shape of cases: T, N, K, H, which optional inputs are there, and flags. */
typedef struct zt_recurrent_case {
    int64_t T, N, K, H;
    bool biases, states, peepholes, lengths, reverse, other; /* other: relu; not linear before */
} zt_recurrent_case;
bool zt_recurrent_case_at(int i, zt_recurrent_case *c);

#endif
