/* wkv7.c - kernel of RWKV-7's recurrence (lib/ops/wkv7.c).
 *
 * Columns of a head's state do not know each other, so an item is 32 columns of one head: D rows of two registers, which
 * stay in the first-level cache while all rows of the step pass, in order. A row costs two passes over them:
 *
 *     removed = sum_d S[d] a[d]
 *     S[d]    = w[d] S[d] + b[d] removed + k[d] v
 *     y       = sum_d S[d] q[d]
 *
 * Each sum is of four, over d = 0, 4, 8 ..., 1, 5, 9 ... and so on, added in one order: the bits are the same for any
 * number of rows in a step, and whether the state comes from a slot or from the row before.
 *
 * While an item's only or last row is computed, the state of the next item is prefetched. The only row of a step reads and
 * writes the state in its slots.
 *
 *   local   S f32[D,32]
 */
#include "lib/engine/cpu/isa/state_columns.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO }; /* inputs */

typedef struct work {
    state_columns columns;
    const float *q, *w, *k, *a, *b; /* of a row and head, [D] */
} work;

static bool wkv7_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32;
}

static void wkv7_setup(zt_cpu_call *call)
{
    const zt_type *state = &call->in[STATE].type;
    call->items[0] = state->dim[1] * state_column_blocks(state->dim[3]);
    call->local_bytes = (size_t)(state->dim[2] * COLUMNS) * sizeof(float);
}

/* sum_d S[d] a[d], of D rows that lie `step` floats behind each other; with `ahead` the first half of the next item's state is
 * prefetched. */
INLINE void sum_removed(const work *of, bool ahead, const float *state, int64_t step, vf removed[REGISTERS])
{
    vf sum[REGISTERS][SUMS];
    UNROLL_FOR (int i = 0; i < REGISTERS * SUMS; i++) sum[i / SUMS][i % SUMS] = vf_set(0);
    int64_t d = 0;
    for (; d + SUMS <= of->columns.D; d += SUMS)
        UNROLL_FOR (int j = 0; j < SUMS; j++) {
            const float *S = state + (d + j) * step;
            vf a = vf_set(of->a[d + j]);
            if (ahead) prefetch_row(&of->columns, d + j, 0);
            UNROLL_FOR (int i = 0; i < REGISTERS; i++) sum[i][j] = vf_fma(vf_load(S + i * LANES), a, sum[i][j]);
        }
    for (int j = 0; d < of->columns.D; d++, j++)
        for (int i = 0; i < REGISTERS; i++)
            sum[i][j] = vf_fma(vf_load(state + d * step + i * LANES), vf_set(of->a[d]), sum[i][j]);
    for (int i = 0; i < REGISTERS; i++) removed[i] = add_sums(sum[i]);
}

/* w S + b removed + k v, for row d and one register. */
INLINE vf change_row(const work *of, int64_t d, const float *S, float *to, vf removed, vf v)
{
    vf changed = vf_fma(vf_set(of->b[d]), removed, vf_mul(vf_load(S), vf_set(of->w[d])));
    changed = vf_fma(vf_set(of->k[d]), v, changed);
    vf_store(to, changed);
    return changed;
}

/* The state after the row, and its sum with q; with `ahead` the second half is prefetched. */
INLINE void change_state(const work *of, bool ahead, const float *state, float *to, int64_t step, const vf removed[REGISTERS],
                         const vf v[REGISTERS], vf y[REGISTERS])
{
    vf sum[REGISTERS][SUMS];
    UNROLL_FOR (int i = 0; i < REGISTERS * SUMS; i++) sum[i / SUMS][i % SUMS] = vf_set(0);
    int64_t d = 0;
    for (; d + SUMS <= of->columns.D; d += SUMS)
        UNROLL_FOR (int j = 0; j < SUMS; j++) {
            const int64_t at = (d + j) * step;
            vf q = vf_set(of->q[d + j]);
            if (ahead) prefetch_row(&of->columns, d + j, 1);
            UNROLL_FOR (int i = 0; i < REGISTERS; i++)
                sum[i][j] =
                    vf_fma(change_row(of, d + j, state + at + i * LANES, to + at + i * LANES, removed[i], v[i]), q, sum[i][j]);
        }
    for (int j = 0; d < of->columns.D; d++, j++)
        for (int i = 0; i < REGISTERS; i++) {
            const int64_t at = d * step + i * LANES;
            sum[i][j] = vf_fma(change_row(of, d, state + at, to + at, removed[i], v[i]), vf_set(of->q[d]), sum[i][j]);
        }
    for (int i = 0; i < REGISTERS; i++) y[i] = add_sums(sum[i]);
}

/* Row r: from a state to a state, which may be the same. */
INLINE void run_row(const zt_cpu_call *call, work *of, bool ahead, int64_t r, const float *state, float *to, int64_t step)
{
    const int64_t at = r * of->columns.heads + of->columns.head, column = at * of->columns.E + of->columns.first;
    const float *values = call->in[V].data;
    float *result = call->out[1].data;
    vf removed[REGISTERS], v[REGISTERS], y[REGISTERS];
    of->q = (const float *)call->in[Q].data + at * of->columns.D;
    of->w = (const float *)call->in[W].data + at * of->columns.D;
    of->k = (const float *)call->in[K].data + at * of->columns.D;
    of->a = (const float *)call->in[A].data + at * of->columns.D;
    of->b = (const float *)call->in[B].data + at * of->columns.D;
    for (int i = 0; i < REGISTERS; i++) v[i] = load_columns(&of->columns, values + column, i);
    sum_removed(of, ahead, state, step, removed);
    change_state(of, ahead, state, to, step, removed, v, y);
    for (int i = 0; i < REGISTERS && result; i++) store_columns(&of->columns, result + column, i, y[i]);
}

/* The rows of an item, with the state in local memory meanwhile. */
static void run_rows(zt_cpu_call *call, const state_rows *rows, work *of)
{
    const int64_t count = call->in[Q].type.dim[0];
    for (int64_t r = 0; r < count; r++) {
        read_state(&of->columns, call->out[0].data, state_row_from(rows, call, r));
        if (of->columns.ahead && r + 1 == count)
            run_row(call, of, true, r, of->columns.S, of->columns.S, COLUMNS);
        else
            run_row(call, of, false, r, of->columns.S, of->columns.S, COLUMNS);
        write_state(&of->columns, call->out[0].data, state_row_to(rows, call, r));
    }
}

/* The only row, as of a token, from slot to slot without a copy; false: not possible. */
static bool run_only_row(zt_cpu_call *call, const state_rows *rows, work *of)
{
    if (call->in[Q].type.dim[0] != 1 || of->columns.count < COLUMNS) return false;
    const int64_t from = state_row_from(rows, call, 0), into = state_row_to(rows, call, 0);
    if (from < 0 || into < 0) return false;
    float *state = call->out[0].data;
    if (of->columns.ahead)
        run_row(call, of, true, 0, state + state_at(&of->columns, from), state + state_at(&of->columns, into), of->columns.E);
    else
        run_row(call, of, false, 0, state + state_at(&of->columns, from), state + state_at(&of->columns, into), of->columns.E);
    return true;
}

static void wkv7_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    state_rows rows = state_rows_of(call, FROM, call->in[STATE].type.dim[0]);
    (void)phase;
    for (int64_t item = begin; item < end && call->in[Q].type.dim[0]; item++) {
        work of = {.columns = state_columns_of(&call->in[STATE].type, item, local)};
        of.columns.ahead = first_state(call, &rows, item + 1);
        if (!run_only_row(call, &rows, &of)) run_rows(call, &rows, &of);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_wkv7)[] = {
    {.op = ZT_OP_wkv7, .has = wkv7_has, .setup = wkv7_setup, .run = wkv7_run},
    {0},
};
