/* state_back.c - what the gradients of recurrences over rows of sequences share (state_back.h). */
#include "lib/ops/state_back.h"

#include <string.h>

/* The row after which row r starts; -1: it starts from zeros, or from a slot as the step found it. */
static int64_t row_before(const zt_state_back *back, int64_t r, zt_runtime_error *error)
{
    int64_t start = zt_state_rows_from(back->from, r, back->slots, error);
    if (start == ZT_STATE_CONTINUED) return r - 1;
    if (start == ZT_STATE_ZEROS) return -1;
    while (--r >= 0)
        if (zt_state_rows_to(back->to, r, back->slots, error) == start) break;
    return r;
}

/* The first of the rows up to r each of which continues the row before it. */
static int64_t run_of(const zt_state_back *back, int64_t r, zt_runtime_error *error)
{
    while (zt_state_rows_from(back->from, r, back->slots, error) == ZT_STATE_CONTINUED) r--;
    return r;
}

/* Of the rows that lead to row r, the one that starts after `row`; `run` is run_of(r). */
static int64_t row_after(const zt_state_back *back, int64_t row, int64_t r, int64_t run, zt_runtime_error *error)
{
    if (row >= run) return row + 1;
    for (int64_t earlier; (earlier = row_before(back, r, error)) != row;) r = earlier;
    return r;
}

/* The unit's state before row r. */
static void find_state(const zt_state_back *back, int64_t r, int64_t size, double *state, zt_runtime_error *error)
{
    int64_t run = run_of(back, r, error), row = run;
    for (int64_t earlier; (earlier = row_before(back, row, error)) >= 0;) row = earlier;
    int64_t slot = zt_state_rows_from(back->from, row, back->slots, error);
    for (int64_t i = 0; i < size; i++) state[i] = slot < 0 ? 0 : back->state->f[back->place(back->user, slot, i)];
    for (; row != r; row = row_after(back, row, r, run, error)) back->step(back->user, row, state);
}

/* dstate holds the cotangents of the slots: a row that writes one takes its cotangent, a row that starts from one adds to it. */
void zt_state_back_unit(const zt_state_back *back, int64_t size, double *before, double *cotangent, zt_runtime_error *error)
{
    double *slots = back->dstate->f;
    for (int64_t slot = 0; slot < back->slots; slot++)
        for (int64_t i = 0; i < size; i++) {
            int64_t at = back->place(back->user, slot, i);
            slots[at] = back->dstate1->type ? back->dstate1->f[at] : 0;
        }
    memset(cotangent, 0, (size_t)size * sizeof *cotangent);
    for (int64_t r = back->rows; r-- > 0;) {
        int64_t start = zt_state_rows_from(back->from, r, back->slots, error);
        int64_t end = zt_state_rows_to(back->to, r, back->slots, error);
        for (int64_t i = 0; i < size && end >= 0; i++) {
            double *slot = slots + back->place(back->user, end, i);
            cotangent[i] += *slot;
            *slot = 0;
        }
        find_state(back, r, size, before, error);
        back->back(back->user, r, before, cotangent);
        for (int64_t i = 0; i < size && start >= 0; i++) slots[back->place(back->user, start, i)] += cotangent[i];
        if (start != ZT_STATE_CONTINUED) memset(cotangent, 0, (size_t)size * sizeof *cotangent);
    }
}

void zt_state_back_clear(zt_arg *out, int n)
{
    for (int k = 1; k < n; k++)
        if (out[k].type) memset(out[k].f, 0, (size_t)zt_type_count(out[k].type) * sizeof(double));
}

zt_status zt_state_back_infer(zt_ctx *ctx, const zt_type *const in[], int k, const zt_type *y)
{
    if (in[k] && !zt_type_equal(in[k], in[0])) return zt_row_fail(ctx, ZT_ESHAPE, "dstate1 must have the type of state");
    if (in[k + 1] && !zt_type_equal(in[k + 1], y)) return zt_row_fail(ctx, ZT_ESHAPE, "dy must have the type of the output");
    return ZT_OK;
}

void zt_state_back_case(zt_case *test_case, int i, int k, const zt_type *y)
{
    const zt_type *state = &test_case->in[0];
    if (i % 3 != 1) zt_case_in(test_case, k, ZT_FILL_NORMAL, 0, state->dtype, state->rank, state->dim);
    if (i % 3 != 2) zt_case_in(test_case, k + 1, ZT_FILL_NORMAL, 0, y->dtype, y->rank, y->dim);
}
