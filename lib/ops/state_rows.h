/* state_rows.h - private to lib/ops: where the rows of a recurrence begin and where their states go (zt_state_start of
 * ops.h). Rows are computed in order: a row that starts from a slot reads what the rows before it stored there.
 */
#ifndef ZT_STATE_ROWS_H
#define ZT_STATE_ROWS_H

#include "lib/ops/row.h"

/* ZT_ESHAPE unless both are i32[n]. */
zt_status zt_state_rows_infer(zt_ctx *ctx, int64_t n, const zt_type *from, const zt_type *to);
/* Slot, ZT_STATE_ZEROS or ZT_STATE_CONTINUED of row r. ZT_STATE_ZEROS and an error "state slot": out of range, or row 0
 * continues. */
int64_t zt_state_rows_from(const zt_arg *from, int64_t r, int64_t slots, zt_runtime_error *error);
/* Slot of row r, or -1: none, or out of range with an error. */
int64_t zt_state_rows_to(const zt_arg *to, int64_t r, int64_t slots, zt_runtime_error *error);
/* Inputs k and k + 1 of a case: rows of several sequences, in slots below `slots`. */
void zt_state_rows_case(zt_case *test_case, int k, int64_t n, int64_t slots);

#endif
