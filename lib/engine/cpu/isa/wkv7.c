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
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/state_rows.h"

enum { STATE, Q, W, K, V, A, B, FROM, TO }; /* inputs */
enum { REGISTERS = 2, COLUMNS = REGISTERS * LANES, SUMS = 4 };

typedef struct columns {
    int64_t heads, D, E, head, first;
    int count;                      /* of COLUMNS */
    float *S;                       /* local */
    const float *q, *w, *k, *a, *b; /* of a row and head, [D] */
    const float *ahead;             /* the state of the next item, [D] rows of E; NULL: not prefetched */
} columns;

static bool wkv7_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)out;
    return in[Q]->dtype == ZT_F32;
}

static int64_t blocks_of(int64_t E) { return (E + COLUMNS - 1) / COLUMNS; }

static void wkv7_setup(zt_cpu_call *call)
{
    const zt_type *state = &call->in[STATE].type;
    call->items[0] = state->dim[1] * blocks_of(state->dim[3]);
    call->local_bytes = (size_t)(state->dim[2] * COLUMNS) * sizeof(float);
}

static columns columns_of(const zt_cpu_call *call, int64_t item, float *local)
{
    const zt_type *state = &call->in[STATE].type;
    columns of = {.heads = state->dim[1], .D = state->dim[2], .E = state->dim[3], .S = local};
    int64_t blocks = blocks_of(of.E);
    of.head = item / blocks;
    of.first = item % blocks * COLUMNS;
    of.count = of.E - of.first < COLUMNS ? (int)(of.E - of.first) : COLUMNS;
    return of;
}

/* Columns of one register that there are: 0 to LANES. */
static int lanes_of(const columns *of, int i)
{
    int count = of->count - i * LANES;
    return count < 0 ? 0 : count > LANES ? LANES : count;
}

static vf load_columns(const columns *of, const float *x, int i)
{
    return of->count == COLUMNS ? vf_load(x + i * LANES) : vf_load_n(x + i * LANES, lanes_of(of, i));
}

static void store_columns(const columns *of, float *x, int i, vf value)
{
    if (of->count == COLUMNS)
        vf_store(x + i * LANES, value);
    else
        vf_store_n(x + i * LANES, lanes_of(of, i), value);
}

/* Where the state of an item in a slot begins: D rows of E. */
static int64_t state_at(const columns *of, int64_t slot) { return (slot * of->heads + of->head) * of->D * of->E + of->first; }

static void read_state(const columns *of, const float *state, int64_t slot)
{
    if (slot == STATE_ZEROS) memset(of->S, 0, (size_t)(of->D * COLUMNS) * sizeof *of->S);
    if (slot < 0) return;
    const float *head = state + state_at(of, slot);
    for (int64_t d = 0; d < of->D; d++)
        for (int i = 0; i < REGISTERS; i++) vf_store(of->S + d * COLUMNS + i * LANES, load_columns(of, head + d * of->E, i));
}

static void write_state(const columns *of, float *state, int64_t slot)
{
    if (slot < 0) return;
    float *head = state + state_at(of, slot);
    for (int64_t d = 0; d < of->D; d++)
        for (int i = 0; i < REGISTERS; i++) store_columns(of, head + d * of->E, i, vf_load(of->S + d * COLUMNS + i * LANES));
}

static vf add_sums(const vf sum[SUMS]) { return vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])); }

/* Row d of the next item's state, its i-th register. */
INLINE void prefetch_row(const columns *of, int64_t d, int i) { __builtin_prefetch(of->ahead + d * of->E + i * LANES, 0, 2); }

/* sum_d S[d] a[d], of D rows that lie `step` floats behind each other; with `ahead` the first half of the next item's state is
 * prefetched. */
INLINE void sum_removed(const columns *of, bool ahead, const float *state, int64_t step, vf removed[REGISTERS])
{
    vf sum[REGISTERS][SUMS];
    UNROLL_FOR (int i = 0; i < REGISTERS * SUMS; i++) sum[i / SUMS][i % SUMS] = vf_set(0);
    int64_t d = 0;
    for (; d + SUMS <= of->D; d += SUMS)
        UNROLL_FOR (int j = 0; j < SUMS; j++) {
            const float *S = state + (d + j) * step;
            vf a = vf_set(of->a[d + j]);
            if (ahead) prefetch_row(of, d + j, 0);
            UNROLL_FOR (int i = 0; i < REGISTERS; i++) sum[i][j] = vf_fma(vf_load(S + i * LANES), a, sum[i][j]);
        }
    for (int j = 0; d < of->D; d++, j++)
        for (int i = 0; i < REGISTERS; i++)
            sum[i][j] = vf_fma(vf_load(state + d * step + i * LANES), vf_set(of->a[d]), sum[i][j]);
    for (int i = 0; i < REGISTERS; i++) removed[i] = add_sums(sum[i]);
}

/* w S + b removed + k v, for row d and one register. */
INLINE vf change_row(const columns *of, int64_t d, const float *S, float *to, vf removed, vf v)
{
    vf changed = vf_fma(vf_set(of->b[d]), removed, vf_mul(vf_load(S), vf_set(of->w[d])));
    changed = vf_fma(vf_set(of->k[d]), v, changed);
    vf_store(to, changed);
    return changed;
}

/* The state after the row, and its sum with q; with `ahead` the second half is prefetched. */
INLINE void change_state(const columns *of, bool ahead, const float *state, float *to, int64_t step, const vf removed[REGISTERS],
                         const vf v[REGISTERS], vf y[REGISTERS])
{
    vf sum[REGISTERS][SUMS];
    UNROLL_FOR (int i = 0; i < REGISTERS * SUMS; i++) sum[i / SUMS][i % SUMS] = vf_set(0);
    int64_t d = 0;
    for (; d + SUMS <= of->D; d += SUMS)
        UNROLL_FOR (int j = 0; j < SUMS; j++) {
            const int64_t at = (d + j) * step;
            vf q = vf_set(of->q[d + j]);
            if (ahead) prefetch_row(of, d + j, 1);
            UNROLL_FOR (int i = 0; i < REGISTERS; i++)
                sum[i][j] =
                    vf_fma(change_row(of, d + j, state + at + i * LANES, to + at + i * LANES, removed[i], v[i]), q, sum[i][j]);
        }
    for (int j = 0; d < of->D; d++, j++)
        for (int i = 0; i < REGISTERS; i++) {
            const int64_t at = d * step + i * LANES;
            sum[i][j] = vf_fma(change_row(of, d, state + at, to + at, removed[i], v[i]), vf_set(of->q[d]), sum[i][j]);
        }
    for (int i = 0; i < REGISTERS; i++) y[i] = add_sums(sum[i]);
}

/* Row r: from a state to a state, which may be the same. */
INLINE void run_row(const zt_cpu_call *call, columns *of, bool ahead, int64_t r, const float *state, float *to, int64_t step)
{
    const int64_t at = r * of->heads + of->head, column = at * of->E + of->first;
    const float *values = call->in[V].data;
    float *result = call->out[1].data;
    vf removed[REGISTERS], v[REGISTERS], y[REGISTERS];
    of->q = (const float *)call->in[Q].data + at * of->D;
    of->w = (const float *)call->in[W].data + at * of->D;
    of->k = (const float *)call->in[K].data + at * of->D;
    of->a = (const float *)call->in[A].data + at * of->D;
    of->b = (const float *)call->in[B].data + at * of->D;
    for (int i = 0; i < REGISTERS; i++) v[i] = load_columns(of, values + column, i);
    sum_removed(of, ahead, state, step, removed);
    change_state(of, ahead, state, to, step, removed, v, y);
    for (int i = 0; i < REGISTERS && result; i++) store_columns(of, result + column, i, y[i]);
}

/* The state that an item begins with, where it has one in a slot. */
static const float *first_state(zt_cpu_call *call, const state_rows *rows, int64_t item, float *local)
{
    const columns of = columns_of(call, item, local);
    const int64_t slot = state_row_from(rows, call, 0);
    return item < call->items[0] && slot >= 0 ? (const float *)call->out[0].data + state_at(&of, slot) : NULL;
}

/* The rows of an item, with the state in local memory meanwhile. */
static void run_rows(zt_cpu_call *call, const state_rows *rows, columns *of)
{
    const int64_t count = call->in[Q].type.dim[0];
    for (int64_t r = 0; r < count; r++) {
        read_state(of, call->out[0].data, state_row_from(rows, call, r));
        if (of->ahead && r + 1 == count)
            run_row(call, of, true, r, of->S, of->S, COLUMNS);
        else
            run_row(call, of, false, r, of->S, of->S, COLUMNS);
        write_state(of, call->out[0].data, state_row_to(rows, call, r));
    }
}

/* The only row, as of a token, from slot to slot without a copy; false: not possible. */
static bool run_only_row(zt_cpu_call *call, const state_rows *rows, columns *of)
{
    if (call->in[Q].type.dim[0] != 1 || of->count < COLUMNS) return false;
    const int64_t from = state_row_from(rows, call, 0), into = state_row_to(rows, call, 0);
    if (from < 0 || into < 0) return false;
    float *state = call->out[0].data;
    if (of->ahead)
        run_row(call, of, true, 0, state + state_at(of, from), state + state_at(of, into), of->E);
    else
        run_row(call, of, false, 0, state + state_at(of, from), state + state_at(of, into), of->E);
    return true;
}

static void wkv7_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    state_rows rows = state_rows_of(call, FROM, call->in[STATE].type.dim[0]);
    (void)phase;
    for (int64_t item = begin; item < end && call->in[Q].type.dim[0]; item++) {
        columns of = columns_of(call, item, local);
        of.ahead = first_state(call, &rows, item + 1, local);
        if (!run_only_row(call, &rows, &of)) run_rows(call, &rows, &of);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_wkv7)[] = {
    {.op = ZT_OP_wkv7, .has = wkv7_has, .setup = wkv7_setup, .run = wkv7_run},
    {0},
};
