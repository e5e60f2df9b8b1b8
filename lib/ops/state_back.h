/* state_back.h - private to lib/ops: what the gradients of recurrences over rows of sequences share (state_rows.h).
 *
 * A unit is a part of the state that depends on no other part: a channel, or a column of a head. Its rows are visited from
 * the last to the first, with the cotangent of the unit's state. No memory is to be had here, so the state before a row is
 * computed again from where its sequence starts.
 */
#ifndef ZT_STATE_BACK_H
#define ZT_STATE_BACK_H

#include "lib/ops/state_rows.h"
#include "lib/ops/vjp.h"

typedef struct zt_state_back {
    const zt_arg *state, *from, *to;
    const zt_arg *dstate1; /* the cotangent of the states afterwards; type NULL: zeros */
    zt_arg *dstate;        /* gets the gradient of the states before */
    int64_t rows, slots;
    const void *user;
    /* The entry of `state` that holds a number of the unit in a slot. */
    int64_t (*place)(const void *user, int64_t slot, int64_t number);
    /* The state after row r from the state before it. */
    void (*step)(const void *user, int64_t r, double *state);
    /* Adds row r's part to the gradients; `cotangent` of the state after the row becomes that of the state before it. */
    void (*back)(const void *user, int64_t r, const double *before, double *cotangent);
} zt_state_back;

/* One unit of `size` numbers; before and cotangent: memory for that many. Sets its part of dstate. */
void zt_state_back_unit(const zt_state_back *back, int64_t size, double *before, double *cotangent, zt_runtime_error *error);

/* Zeros in outputs 1..n-1 that are wanted. */
void zt_state_back_clear(zt_arg *out, int n);

/* dstate1 has the type of the state, and dy of y, where they are there: inputs k and k + 1. */
zt_status zt_state_back_infer(zt_ctx *ctx, const zt_type *const in[], int k, const zt_type *y);

/* Inputs k and k + 1 of case i: both, or one of them. */
void zt_state_back_case(zt_case *test_case, int i, int k, const zt_type *y);

#endif
