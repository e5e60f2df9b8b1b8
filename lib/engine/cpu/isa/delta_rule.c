/* delta_rule.c - kernel of the gated delta rule (lib/ops/delta_rule.c).
 *
 * Columns of a head's state do not know each other, so an item is 32 columns of one head: D rows of two registers, which
 * stay in the first-level cache while all rows of the step pass, in order. A row costs two passes over them:
 *
 *     seen   = exp(g) sum_d S[d] k[d]
 *     S[d]   = exp(g) S[d] + k[d] change        change = beta (v - seen)
 *     y      = scale sum_d S[d] q[d]
 *
 * Each sum is of four, over d = 0, 4, 8 ..., 1, 5, 9 ... and so on, added in one order: the bits are the same for any
 * number of rows in a step, and whether the state comes from a slot or from the row before.
 *
 * A head's rows of 32 columns are far from each other in memory, where no processor expects them: while an item's only or last
 * row is computed, the state of the next item is prefetched. The only row of a step reads and writes the state in its slots.
 *
 *   local   S f32[D,32], then k and q f32[D], divided by their lengths
 */
#include "lib/engine/cpu/isa/state_columns.h"

enum { STATE, Q, K, V, G, BETA, FROM, TO }; /* inputs */

typedef struct work {
    state_columns columns;
    int64_t key_column, key_width;
    float eps, scale;
    float *k, *q; /* local */
} work;

static bool delta_rule_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32;
}

static void delta_rule_setup(zt_cpu_call *call)
{
    const zt_type *state = &call->in[STATE].type;
    int64_t padded = (state->dim[2] + LANES - 1) / LANES * LANES;
    call->items[0] = state->dim[1] * state_column_blocks(state->dim[3]);
    call->local_bytes = (size_t)(state->dim[2] * COLUMNS + 2 * padded) * sizeof(float);
}

static work work_of(const zt_cpu_call *call, int64_t item, float *local)
{
    const zt_delta_rule_attrs *attrs = call->attrs;
    work of = {.columns = state_columns_of(&call->in[STATE].type, item, local), .eps = (float)attrs->eps};
    const state_columns *columns = &of.columns;
    int64_t key_heads = call->in[Q].type.dim[1] / columns->D;
    of.key_width = key_heads * columns->D;
    of.key_column =
        (attrs->share.s[0] == 't' ? columns->head % key_heads : columns->head / (columns->heads / key_heads)) * columns->D;
    of.scale = (float)(attrs->scale > 0 ? attrs->scale : 1 / sqrt((double)columns->D));
    of.k = local + columns->D * COLUMNS;
    of.q = of.k + (columns->D + LANES - 1) / LANES * LANES;
    return of;
}

/* x, of length D, divided by its length, times `scale`. */
static void normalize(const work *of, const float *x, float scale, float *y)
{
    vf sum = vf_set(0);
    for (int64_t d = 0; d < of->columns.D; d += LANES) {
        vf part = vf_load_n(x + d, of->columns.D - d < LANES ? (int)(of->columns.D - d) : LANES);
        sum = vf_fma(part, part, sum);
    }
    vf factor = vf_set(scale / sqrtf(vf_sum(sum) + of->eps));
    for (int64_t d = 0; d < of->columns.D; d += LANES)
        vf_store(y + d, vf_mul(vf_load_n(x + d, of->columns.D - d < LANES ? (int)(of->columns.D - d) : LANES), factor));
}

/* sum_d S[d] k[d], of D rows that lie `step` floats behind each other; with `ahead` the first half of the next item's state is
 * prefetched. */
INLINE void see_keys(const work *of, bool ahead, const float *state, int64_t step, vf seen[REGISTERS])
{
    vf sum[REGISTERS][SUMS];
    UNROLL_FOR (int i = 0; i < REGISTERS * SUMS; i++) sum[i / SUMS][i % SUMS] = vf_set(0);
    int64_t d = 0;
    for (; d + SUMS <= of->columns.D; d += SUMS)
        UNROLL_FOR (int j = 0; j < SUMS; j++) {
            const float *S = state + (d + j) * step;
            vf k = vf_set(of->k[d + j]);
            if (ahead) prefetch_row(&of->columns, d + j, 0);
            UNROLL_FOR (int i = 0; i < REGISTERS; i++) sum[i][j] = vf_fma(vf_load(S + i * LANES), k, sum[i][j]);
        }
    for (int j = 0; d < of->columns.D; d++, j++)
        for (int i = 0; i < REGISTERS; i++)
            sum[i][j] = vf_fma(vf_load(state + d * step + i * LANES), vf_set(of->k[d]), sum[i][j]);
    for (int i = 0; i < REGISTERS; i++) seen[i] = add_sums(sum[i]);
}

INLINE vf change_row(const float *S, float *to, vf decay, vf k, vf change)
{
    vf changed = vf_fma(k, change, vf_mul(vf_load(S), decay));
    vf_store(to, changed);
    return changed;
}

/* to[d] = decay S[d] + k[d] change; sum_d to[d] q[d]; with `ahead` the second half is prefetched. */
INLINE void change_state(const work *of, bool ahead, const float *state, float *to, int64_t step, vf decay,
                         const vf change[REGISTERS], vf y[REGISTERS])
{
    vf sum[REGISTERS][SUMS];
    UNROLL_FOR (int i = 0; i < REGISTERS * SUMS; i++) sum[i / SUMS][i % SUMS] = vf_set(0);
    int64_t d = 0;
    for (; d + SUMS <= of->columns.D; d += SUMS)
        UNROLL_FOR (int j = 0; j < SUMS; j++) {
            const int64_t at = (d + j) * step;
            vf k = vf_set(of->k[d + j]), q = vf_set(of->q[d + j]);
            if (ahead) prefetch_row(&of->columns, d + j, 1);
            UNROLL_FOR (int i = 0; i < REGISTERS; i++)
                sum[i][j] = vf_fma(change_row(state + at + i * LANES, to + at + i * LANES, decay, k, change[i]), q, sum[i][j]);
        }
    for (int j = 0; d < of->columns.D; d++, j++)
        for (int i = 0; i < REGISTERS; i++) {
            const int64_t at = d * step + i * LANES;
            vf changed = change_row(state + at, to + at, decay, vf_set(of->k[d]), change[i]);
            sum[i][j] = vf_fma(changed, vf_set(of->q[d]), sum[i][j]);
        }
    for (int i = 0; i < REGISTERS; i++) y[i] = add_sums(sum[i]);
}

/* Row r: from a state to a state, which may be the same. */
INLINE void run_row(const zt_cpu_call *call, const work *of, bool ahead, int64_t r, const float *state, float *to, int64_t step)
{
    const float *q = call->in[Q].data, *k = call->in[K].data, *v = call->in[V].data;
    const int64_t at = r * of->columns.heads + of->columns.head, column = at * of->columns.E + of->columns.first,
                  key = r * of->key_width + of->key_column;
    vf decay = vf_exp(vf_set(((const float *)call->in[G].data)[at])), beta = vf_set(((const float *)call->in[BETA].data)[at]);
    vf change[REGISTERS], y[REGISTERS];
    normalize(of, k + key, 1, of->k);
    normalize(of, q + key, of->scale, of->q);
    see_keys(of, ahead, state, step, change);
    for (int i = 0; i < REGISTERS; i++)
        change[i] = vf_mul(beta, vf_sub(load_columns(&of->columns, v + column, i), vf_mul(decay, change[i])));
    change_state(of, ahead, state, to, step, decay, change, y);
    for (int i = 0; i < REGISTERS && call->out[1].data; i++)
        store_columns(&of->columns, (float *)call->out[1].data + column, i, y[i]);
}

/* The rows of an item, with the state in local memory meanwhile. */
static void run_rows(zt_cpu_call *call, const state_rows *rows, const work *of)
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
static bool run_only_row(zt_cpu_call *call, const state_rows *rows, const work *of)
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

static void delta_rule_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    state_rows rows = state_rows_of(call, FROM, call->in[STATE].type.dim[0]);
    (void)phase;
    for (int64_t item = begin; item < end && call->in[Q].type.dim[0]; item++) {
        work of = work_of(call, item, local);
        of.columns.ahead = first_state(call, &rows, item + 1);
        if (!run_only_row(call, &rows, &of)) run_rows(call, &rows, &of);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_delta_rule)[] = {
    {.op = ZT_OP_delta_rule, .has = delta_rule_has, .setup = delta_rule_setup, .run = delta_rule_run},
    {0},
};
