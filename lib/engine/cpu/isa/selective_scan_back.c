/* selective_scan_back.c - kernel of the gradient of the recurrence of state-space models (lib/ops/selective_scan_back.c has the
 * formulas).
 *
 * Phase 0: an item is a block of the heads of a group, at most BLOCKS of them a group, through all rows. What a block adds
 * to the gradients of b and c, which all heads of the group read, stays by itself: phase 1 sums the blocks, a row an item.
 *
 *   shared   f32[groups * blocks, rows, 2 N]: parts of db and dc
 *   local    the memory of state_back.h for the block's channels
 */
#include "lib/engine/cpu/isa/state_back.h"

enum { STATE, X, DT, A, B, C, FROM, TO, D, DSTATE1, DY }; /* inputs */
enum { DSTATE, DX, DDT, DA, DB, DC, DD };                 /* outputs */
enum { BLOCKS = 8 };                                      /* of a group, at most */

typedef struct scan_back {
    zt_cpu_call *call;
    int64_t rows, width, H, P, N, groups, blocks; /* H heads of P channels of N numbers; blocks of a group */
    bool wide;                                    /* a has a column for each number */
    int64_t group, first, last;                   /* heads of the item */
    float *parts;                                 /* of the item, [rows, 2 N] */
} scan_back;

static bool selective_scan_back_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static scan_back sizes_of(zt_cpu_call *call)
{
    scan_back of = {.call = call,
                    .rows = call->in[X].type.dim[0],
                    .width = call->in[X].type.dim[1],
                    .H = call->in[A].type.dim[0],
                    .N = call->in[STATE].type.dim[2],
                    .wide = call->in[A].type.dim[1] > 1};
    of.P = of.width / of.H;
    of.groups = call->in[B].type.dim[1] / of.N;
    int64_t heads = of.H / of.groups;
    of.blocks = heads < BLOCKS ? heads : BLOCKS;
    return of;
}

static void selective_scan_back_setup(zt_cpu_call *call)
{
    scan_back of = sizes_of(call);
    int64_t heads = of.H / of.groups, channels = (heads + of.blocks - 1) / of.blocks * of.P;
    call->n_phases = 2;
    call->items[0] = of.groups * of.blocks;
    call->items[1] = of.rows;
    call->shared_bytes = (size_t)(of.groups * of.blocks * of.rows * 2 * of.N) * sizeof(float);
    call->local_bytes = state_back_floats(of.rows, call->in[STATE].type.dim[0], channels * of.N) * sizeof(float);
}

static int lanes_at(int64_t i, int64_t count) { return count - i < LANES ? (int)(count - i) : LANES; }

/* ---- a row of a block ------------------------------------------------------------------------ */

/* What the channels of head h read in row r. */
typedef struct head_row {
    const float *a, *b, *c;
    float dt;
    vf decay; /* of a narrow a */
} head_row;

static head_row read_head(const scan_back *of, int64_t r, int64_t h)
{
    const zt_cpu_call *call = of->call;
    int64_t group = (r * of->groups + of->group) * of->N;
    head_row row = {.a = (const float *)call->in[A].data + (of->wide ? h * of->N : h),
                    .b = (const float *)call->in[B].data + group,
                    .c = (const float *)call->in[C].data + group,
                    .dt = ((const float *)call->in[DT].data)[r * of->H + h]};
    row.decay = of->wide ? vf_set(0) : vf_exp(vf_set(row.dt * *row.a));
    return row;
}

static vf decay_of(const scan_back *of, const head_row *row, int64_t k, int lanes)
{
    return of->wide ? vf_exp(vf_mul(vf_set(row->dt), vf_load_n(row->a + k, lanes))) : row->decay;
}

static void step_block(void *user, int64_t r, float *state)
{
    const scan_back *of = user;
    for (int64_t h = of->first; h < of->last; h++) {
        head_row row = read_head(of, r, h);
        for (int64_t p = 0; p < of->P; p++) {
            vf input = vf_set(row.dt * ((const float *)of->call->in[X].data)[r * of->width + h * of->P + p]);
            float *s = state + ((h - of->first) * of->P + p) * of->N;
            for (int64_t k = 0; k < of->N; k += LANES) {
                int lanes = lanes_at(k, of->N);
                vf added = vf_mul(input, vf_load_n(row.b + k, lanes));
                vf_store_n(s + k, lanes, vf_fma(vf_load_n(s + k, lanes), decay_of(of, &row, k, lanes), added));
            }
        }
    }
}

/* y[0..lanes-1] += x */
static void add_lanes(float *y, int lanes, vf x) { vf_store_n(y, lanes, vf_add(vf_load_n(y, lanes), x)); }

/* One channel of a row: adds to db, dc (parts) and to da, where it is wanted and a is wide; what it gives to the gradients of
 * x, dt and, of a narrow a, a. */
typedef struct channel_sums {
    float dx, ddt, da;
} channel_sums;

static channel_sums back_channel(const scan_back *of, const head_row *row, float x, float dy, const float *before,
                                 float *cotangent, float *part, float *da)
{
    vf sum_x = vf_set(0), sum_dt = vf_set(0), sum_a = vf_set(0), dts = vf_set(row->dt), xs = vf_set(x), dys = vf_set(dy);
    for (int64_t k = 0; k < of->N; k += LANES) {
        int lanes = lanes_at(k, of->N);
        vf decay = decay_of(of, row, k, lanes), b = vf_load_n(row->b + k, lanes);
        vf kept = vf_mul(decay, vf_load_n(before + k, lanes)), added = vf_mul(vf_mul(dts, xs), b);
        vf C1 = vf_fma(vf_load_n(row->c + k, lanes), dys, vf_load_n(cotangent + k, lanes));
        vf a = of->wide ? vf_load_n(row->a + k, lanes) : vf_set(*row->a), through = vf_mul(kept, C1);
        add_lanes(part + k, lanes, vf_mul(vf_mul(dts, xs), C1));
        add_lanes(part + of->N + k, lanes, vf_mul(vf_add(kept, added), dys));
        if (da && of->wide) add_lanes(da + k, lanes, vf_mul(dts, through));
        sum_a = vf_add(sum_a, through);
        sum_x = vf_fma(b, C1, sum_x);
        sum_dt = vf_fma(a, through, sum_dt);
        vf_store_n(cotangent + k, lanes, vf_mul(decay, C1));
    }
    float of_x = vf_sum(sum_x);
    return (channel_sums){of_x * row->dt, vf_sum(sum_dt) + x * of_x, row->dt * vf_sum(sum_a)};
}

static void back_head(const scan_back *of, int64_t r, int64_t h, const float *before, float *cotangent)
{
    const zt_cpu_call *call = of->call;
    const float *x = (const float *)call->in[X].data + r * of->width + h * of->P, *dy = call->in[DY].data, *d = call->in[D].data;
    float *dx = call->out[DX].data, *ddt = call->out[DDT].data, *da = call->out[DA].data, sum_dt = 0, sum_d = 0;
    head_row row = read_head(of, r, h);
    if (da) da += of->wide ? h * of->N : h;
    for (int64_t p = 0; p < of->P; p++) {
        int64_t at = r * of->width + h * of->P + p, state = ((h - of->first) * of->P + p) * of->N;
        float own = dy ? dy[at] : 0;
        channel_sums sums = back_channel(of, &row, x[p], own, before + state, cotangent + state, of->parts + r * 2 * of->N, da);
        if (dx) dx[at] = sums.dx + (d ? d[h] * own : 0);
        if (da && !of->wide) *da += sums.da;
        sum_dt += sums.ddt;
        sum_d += x[p] * own;
    }
    if (ddt) ddt[r * of->H + h] = sum_dt;
    if (d && call->out[DD].data) ((float *)call->out[DD].data)[h] += sum_d;
}

static void back_row(void *user, int64_t r, const float *before, float *cotangent)
{
    const scan_back *of = user;
    for (int64_t h = of->first; h < of->last; h++) back_head(of, r, h, before, cotangent);
}

/* ---- items ----------------------------------------------------------------------------------- */

static int64_t part_floats(const scan_back *of) { return (of->last - of->first) * of->P * of->N; }

static void load_part(const void *user, const float *from, int64_t slot, float *part)
{
    const scan_back *of = user;
    memcpy(part, from + (slot * of->width + of->first * of->P) * of->N, (size_t)part_floats(of) * sizeof *part);
}

static void store_part(const void *user, float *to, int64_t slot, const float *part)
{
    const scan_back *of = user;
    memcpy(to + (slot * of->width + of->first * of->P) * of->N, part, (size_t)part_floats(of) * sizeof *part);
}

static void run_block(scan_back *of, int64_t item, float *local)
{
    zt_cpu_call *call = of->call;
    int64_t heads = of->H / of->groups, block = item % of->blocks, columns = of->wide ? of->N : 1;
    float *da = call->out[DA].data, *dd = call->in[D].data ? call->out[DD].data : NULL;
    of->group = item / of->blocks;
    of->first = of->group * heads + block * heads / of->blocks;
    of->last = of->group * heads + (block + 1) * heads / of->blocks;
    of->parts = (float *)call->shared + item * of->rows * 2 * of->N;
    memset(of->parts, 0, (size_t)(of->rows * 2 * of->N) * sizeof *of->parts);
    if (da) memset(da + of->first * columns, 0, (size_t)((of->last - of->first) * columns) * sizeof *da);
    if (dd) memset(dd + of->first, 0, (size_t)(of->last - of->first) * sizeof *dd);
    const state_back back = {.from_to = state_rows_of(call, FROM, call->in[STATE].type.dim[0]),
                             .rows = of->rows,
                             .slots = call->in[STATE].type.dim[0],
                             .size = part_floats(of),
                             .user = of,
                             .load = load_part,
                             .store = store_part,
                             .step = step_block,
                             .back = back_row};
    state_back_run(&back, call, call->in[STATE].data, call->in[DSTATE1].data, call->out[DSTATE].data, local);
}

/* Row r of db, and of dc behind it in the parts. */
static void sum_blocks(const scan_back *of, int64_t r)
{
    for (int output = DB; output <= DC; output++) {
        float *d = of->call->out[output].data;
        for (int64_t group = 0; d && group < of->groups; group++) {
            float *row = d + (r * of->groups + group) * of->N;
            memset(row, 0, (size_t)of->N * sizeof *row);
            for (int64_t block = 0; block < of->blocks; block++) {
                int64_t item = group * of->blocks + block;
                const float *part = (const float *)of->call->shared + ((item * of->rows + r) * 2 + (output - DB)) * of->N;
                for (int64_t k = 0; k < of->N; k += LANES) {
                    int lanes = lanes_at(k, of->N);
                    add_lanes(row + k, lanes, vf_load_n(part + k, lanes));
                }
            }
        }
    }
}

static void selective_scan_back_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    scan_back of = sizes_of(call);
    for (int64_t item = begin; item < end && phase == 0; item++) run_block(&of, item, local);
    for (int64_t r = begin; r < end && phase == 1; r++) sum_blocks(&of, r);
}

const zt_cpu_kernel ZT_SYM(zt_cpu_selective_scan_back)[] = {
    {.op = ZT_OP_selective_scan_backward,
     .has = selective_scan_back_has,
     .setup = selective_scan_back_setup,
     .run = selective_scan_back_run},
    {0},
};
