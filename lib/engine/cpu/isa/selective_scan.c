/* selective_scan.c - the recurrence of state-space models: some channels of all rows an item, row after row, so that their
 * states stay in the first-level cache, and a prompt has the bits of its tokens one by one. A channel's numbers lie in
 * lanes; what decays them is computed once a head, or for each number where the model has it so.
 */
#include "lib/engine/cpu/isa/simd.h"
#include "lib/engine/cpu/isa/state_rows.h"

enum { STATE, X, DT, A, B, C, FROM, TO, D }; /* inputs */
enum { CHANNELS = 32, TOGETHER = 4 };        /* of an item; that read b and c at once */

typedef struct scan_call {
    const zt_cpu_call *call;
    int64_t width, H, P, N, groups, per_group; /* per_group: channels of a group */
    bool wide;
} scan_call;

static bool selective_scan_has(const void *attrs, const zt_type *const in[], const zt_type out[])
{
    (void)attrs, (void)in, (void)out;
    return true;
}

static void selective_scan_setup(zt_cpu_call *call)
{
    call->items[0] = (call->in[X].type.dim[1] + CHANNELS - 1) / CHANNELS;
    call->local_bytes = CHANNELS * (size_t)call->in[STATE].type.dim[2] * sizeof(float);
}

static scan_call sizes_of(const zt_cpu_call *call)
{
    scan_call s = {.call = call, .width = call->in[X].type.dim[1], .H = call->in[A].type.dim[0]};
    s.P = s.width / s.H;
    s.N = call->in[STATE].type.dim[2];
    s.groups = call->in[B].type.dim[1] / s.N;
    s.per_group = s.width / s.groups;
    s.wide = call->in[A].type.dim[1] > 1;
    return s;
}

/* Up to TOGETHER channels of one row and one group. */
typedef struct lane_set {
    const float *a[TOGETHER]; /* of a wide a: the head's */
    vf decay[TOGETHER];       /* of a narrow one */
    float dt[TOGETHER];
    const float *b, *c;
} lane_set;

/* Numbers k..k+lanes-1 of the channels; lanes below LANES: the last. */
INLINE void scan_lanes(int count, bool wide, bool whole, const lane_set *set, const vf *input, const float *before, float *after,
                       int64_t N, int64_t k, vf *sum)
{
    int lanes = whole ? LANES : (int)(N - k);
    vf b = whole ? vf_load(set->b + k) : vf_load_n(set->b + k, lanes),
       c = whole ? vf_load(set->c + k) : vf_load_n(set->c + k, lanes);
    UNROLL_FOR (int j = 0; j < count; j++) {
        int64_t at = j * N + k;
        vf s = vf_mul(input[j], b), decay = set->decay[j];
        if (wide) decay = vf_exp(vf_mul(vf_set(set->dt[j]), whole ? vf_load(set->a[j] + k) : vf_load_n(set->a[j] + k, lanes)));
        if (before) s = vf_fma(whole ? vf_load(before + at) : vf_load_n(before + at, lanes), decay, s);
        if (whole)
            vf_store(after + at, s);
        else
            vf_store_n(after + at, lanes, s);
        sum[j] = vf_fma(s, c, sum[j]);
    }
}

/* From the states `before`, NULL: zeros, to `after`. Their sums over the numbers, lane j: channel j. */
INLINE vf scan_together(int count, bool wide, const lane_set *set, const float *x, const float *before, float *after, int64_t N)
{
    vf input[TOGETHER], sum[TOGETHER];
    int64_t k = 0;
    for (int j = 0; j < count; j++) {
        input[j] = vf_set(set->dt[j] * x[j]);
        sum[j] = vf_set(0);
    }
    for (; k + LANES <= N; k += LANES) scan_lanes(count, wide, true, set, input, before, after, N, k, sum);
    if (k < N) scan_lanes(count, wide, false, set, input, before, after, N, k, sum);
    return vf_sums(count, sum);
}

static vf scan_set(int count, const scan_call *s, const lane_set *set, const float *x, const float *before, float *after)
{
    if (count == TOGETHER)
        return s->wide ? scan_together(TOGETHER, true, set, x, before, after, s->N)
                       : scan_together(TOGETHER, false, set, x, before, after, s->N);
    return s->wide ? scan_together(count, true, set, x, before, after, s->N)
                   : scan_together(count, false, set, x, before, after, s->N);
}

/* The heads of channels channel..channel+count-1 of row t, and what they read. *head and *exponential are those of the
 * channel before, so that they are computed once a head. */
static void fill_set(lane_set *set, const scan_call *s, int64_t t, int64_t channel, int count, int64_t *head, vf *exponential)
{
    const float *dt = (const float *)s->call->in[DT].data + t * s->H, *a = s->call->in[A].data;
    int64_t group = channel / s->per_group, inputs = (t * s->groups + group) * s->N;
    set->b = (const float *)s->call->in[B].data + inputs;
    set->c = (const float *)s->call->in[C].data + inputs;
    for (int j = 0; j < count; j++) {
        int64_t h = s->P == 1 ? channel + j : (channel + j) / s->P;
        if (h != *head && !s->wide) *exponential = vf_exp(vf_set(dt[h] * a[h]));
        *head = h;
        set->dt[j] = dt[h];
        set->a[j] = a + (s->wide ? h * s->N : h);
        set->decay[j] = *exponential;
    }
}

/* How many channels from `channel` on are taken together: those of a group. */
static int count_together(const scan_call *s, int64_t channel, int64_t last)
{
    int64_t group_end = (channel / s->per_group + 1) * s->per_group, end = channel + TOGETHER;
    if (end > group_end) end = group_end;
    return (int)((end > last ? last : end) - channel);
}

/* Channels first..last-1 of row t. */
static void scan_row(const scan_call *s, int64_t t, int64_t first, int64_t last, const float *before, float *after)
{
    const float *x = (const float *)s->call->in[X].data + t * s->width, *d = s->call->in[D].data;
    float *y = s->call->out[1].data;
    int64_t head = -1;
    vf exponential = vf_set(0);
    for (int64_t channel = first; channel < last;) {
        int count = count_together(s, channel, last);
        int64_t at = (channel - first) * s->N;
        lane_set set;
        fill_set(&set, s, t, channel, count, &head, &exponential);
        vf sum = scan_set(count, s, &set, x + channel, before ? before + at : NULL, after + at);
        float sums[LANES];
        vf_store(sums, sum);
        for (int j = 0; j < count && y; j++) {
            int64_t h = s->P == 1 ? channel + j : (channel + j) / s->P;
            y[t * s->width + channel + j] = d ? sums[j] + d[h] * x[channel + j] : sums[j];
        }
        channel += count;
    }
}

/* An item: channels first..last-1 of all rows. A state that no slot gets but the next row reads is in `local`. */
static void scan_channels(zt_cpu_call *call, const scan_call *s, int64_t first, int64_t last, float *local)
{
    int64_t n = call->in[X].type.dim[0], slots = call->in[STATE].type.dim[0];
    float *state = (float *)call->out[0].data + first * s->N, *after = NULL;
    state_rows rows = state_rows_of(call, FROM, slots);
    for (int64_t t = 0; t < n; t++) {
        int64_t start = state_row_from(&rows, call, t), end = state_row_to(&rows, call, t);
        const float *before = start == STATE_CONTINUED ? after : start < 0 ? NULL : state + start * s->width * s->N;
        after = end < 0 ? local : state + end * s->width * s->N;
        scan_row(s, t, first, last, before, after);
    }
}

static void selective_scan_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    scan_call s = sizes_of(call);
    (void)phase;
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item * CHANNELS, last = first + CHANNELS < s.width ? first + CHANNELS : s.width;
        scan_channels(call, &s, first, last, local);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_selective_scan)[] = {
    {.op = ZT_OP_selective_scan, .has = selective_scan_has, .setup = selective_scan_setup, .run = selective_scan_run},
    {0},
};
