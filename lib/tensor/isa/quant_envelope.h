/* quant_envelope.h - private to isa/: of a grid's vectors those that are the best for some scale.
 *
 * Vector i of the grid leaves s (s q[i] - p2[i]) of a given x, beside what does not depend on i, for
 * the scale s. The lines s q[i] - p2[i] have a lower envelope, whose lines are found from both ends
 * of a range of scales: where the lines of two neighbours cross, a third one may be below both, and
 * then it lies between them. Every instruction set finds the same lines in the same order.
 */
#ifndef ZT_TENSOR_QUANT_ENVELOPE_H
#define ZT_TENSOR_QUANT_ENVELOPE_H

#include "lib/tensor/isa/lanes.h"

#include <math.h>

#define ENVELOPE_LINES 16   /* at most; where there are more, those are kept that are farthest below their neighbours' crossing */
#define ENVELOPE_GRID  2048 /* vectors of the largest grid */
#define LOWEST         0.25f
#define HIGHEST        4.0f

typedef struct envelope {
    int count;
    float q[ENVELOPE_LINES], p2[ENVELOPE_LINES];
    uint16_t vector[ENVELOPE_LINES];
} envelope;

/* p2 and q of the grid's vectors g, whose numbers are those of `table` [width][size] and `shift`. changed (NULL: not asked): p2
 * with the sign of one number changed, the one that it costs least. */
INLINE void score_grid(const float *table, int size, int width, const float *x, const float *w, float shift, float *p2, float *q,
                       float *changed)
{
    for (int i = 0; i < size; i += LANES) {
        vf sum_p = vf_set(0), sum_q = vf_set(0), least = vf_set(INFINITY);
        for (int j = 0; j < width; j++) {
            vf g = vf_load(table + j * size + i) + shift, weighted = w[j] * g, product = weighted * x[j];
            sum_q += weighted * g;
            sum_p += product;
            least = vf_min(least, product);
        }
        vf_store(q + i, sum_q);
        vf_store(p2 + i, 2 * sum_p);
        if (changed) vf_store(changed + i, 2 * sum_p - 4 * least);
    }
}

/* Lines, as many as a multiple of LANES; those past the last leave infinity. */
typedef struct line_list {
    const float *p2, *q;
    const uint16_t *vector; /* NULL: line i is of vector i */
    int size;
} line_list;

/* The first of the lines that are least at `scale`, and its value. */
INLINE int least_line(const line_list *lines, float scale, float *value)
{
    vf best = vf_set(INFINITY);
    vi at = vi_set(0), index = vi_set(0);
    for (int lane = 0; lane < LANES; lane++) index[lane] = lane;
    for (int i = 0; i < lines->size; i += LANES, index += LANES) {
        vf line = scale * vf_load(lines->q + i) - vf_load(lines->p2 + i);
        vi better = line < best;
        best = vf_select(better, line, best);
        at = (better & index) | (~better & at);
    }
    int first = at[0];
    *value = best[0];
    for (int lane = 1; lane < LANES; lane++) {
        if (!(best[lane] < *value || (best[lane] == *value && at[lane] < first))) continue;
        *value = best[lane];
        first = at[lane];
    }
    return first;
}

/* Room for the lines that are left of a grid's. */
typedef struct few_lines {
    float p2[ENVELOPE_GRID + LANES], q[ENVELOPE_GRID + LANES];
    uint16_t vector[ENVELOPE_GRID + LANES];
} few_lines;

/* Those below `limit` at `scale`, and two more. */
INLINE line_list lines_below(const line_list *lines, float scale, float limit, int low, int high, few_lines *few)
{
    int count = 0;
    for (int i = 0; i < lines->size; i += LANES) {
        vi below = scale * vf_load(lines->q + i) - vf_load(lines->p2 + i) < limit;
        if (!vi_any(below) && (low < i || low >= i + LANES) && (high < i || high >= i + LANES)) continue;
        for (int lane = 0; lane < LANES; lane++) {
            if (!below[lane] && i + lane != low && i + lane != high) continue;
            few->p2[count] = lines->p2[i + lane];
            few->q[count] = lines->q[i + lane];
            few->vector[count++] = (uint16_t)(i + lane);
        }
    }
    int size = (count + LANES - 1) / LANES * LANES;
    for (int i = count; i < size; i++) {
        few->p2[i] = 0;
        few->q[i] = INFINITY;
    }
    return (line_list){few->p2, few->q, few->vector, size};
}

INLINE void add_line(envelope *to, const line_list *lines, int line)
{
    to->q[to->count] = lines->q[line];
    to->p2[to->count] = lines->p2[line];
    to->vector[to->count++] = lines->vector ? lines->vector[line] : (uint16_t)line;
}

INLINE float crossing_of(const line_list *lines, int low, int high)
{
    return (lines->p2[low] - lines->p2[high]) / (lines->q[low] - lines->q[high]);
}

/* The lines between two of the envelope, those that lie farthest below first. */
INLINE void fill_envelope(envelope *to, const line_list *lines, int first, int last)
{
    struct {
        int low, high;
    } pair[2 * ENVELOPE_LINES] = {{first, last}};
    int pairs = 1;
    for (int i = 0; i < pairs && to->count < ENVELOPE_LINES; i++) {
        int low = pair[i].low, high = pair[i].high;
        float value;
        if (!(lines->q[low] > lines->q[high])) continue;
        float crossing = crossing_of(lines, low, high);
        int between = least_line(lines, crossing, &value);
        if (between == low || between == high) continue;
        if (!(value < crossing * lines->q[low] - lines->p2[low] && value < crossing * lines->q[high] - lines->p2[high])) continue;
        add_line(to, lines, between);
        pair[pairs].low = low;
        pair[pairs++].high = between;
        pair[pairs].low = between;
        pair[pairs++].high = high;
    }
}

/* The envelope of `size` lines for scales about `unit`, which puts the largest number of x's group on the largest of the
 * grid. A line that is not below the crossing of the two that are least at the ends is nowhere below both: only the others
 * are looked at again. */
INLINE void find_envelope(envelope *to, const float *p2, const float *q, int size, float unit)
{
    few_lines few;
    line_list all = {p2, q, NULL, size};
    float value;
    int low = least_line(&all, LOWEST * unit, &value), high = least_line(&all, HIGHEST * unit, &value);
    to->count = 0;
    add_line(to, &all, low);
    if (low == high) return;
    add_line(to, &all, high);
    if (!(q[low] > q[high])) return;
    float crossing = crossing_of(&all, low, high), at_low = crossing * q[low] - p2[low], at_high = crossing * q[high] - p2[high];
    line_list left = lines_below(&all, crossing, at_low < at_high ? at_low : at_high, low, high, &few);
    int first = 0, last = 0;
    for (int i = 0; i < left.size; i++) {
        first = few.vector[i] == low && isfinite(few.q[i]) ? i : first;
        last = few.vector[i] == high && isfinite(few.q[i]) ? i : last;
    }
    fill_envelope(to, &left, first, last);
}

/* Of its lines the one that is least at `scale`. */
INLINE int least_of_envelope(const envelope *lines, float scale)
{
    int best = 0;
    float least = INFINITY;
    for (int i = 0; i < lines->count; i++) {
        float line = scale * lines->q[i] - lines->p2[i];
        best = line < least ? i : best;
        least = line < least ? line : least;
    }
    return best;
}

#endif
