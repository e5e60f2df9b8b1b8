/* norm.cl - norms of rows and by channels with their gradients, softmax, its logarithm and entmax. */
#include "lib/engine/opencl/prim.clh"
#include "lib/engine/cuda/args_llm.h"
#include "lib/engine/cuda/args_nn.h"

enum { MOST_THREADS = 512 };

/* ---- norms of rows ----------------------------------------------------------------------------- */

/* x, and what is added to it first. */
FN float summed(int type, const zt_cu_norm_args *a, int64_t i)
{
    const float x = get(type, a->x, i);
    return a->before ? x + get(type, a->before, i) : x;
}

/* A work-group a row. */
FN void norm_row(int type, const zt_cu_norm_args *a, __local float *room)
{
    const int64_t row = block(), from = row * a->K;
    float sum = 0;
    for (int64_t i = thread(); i < a->K; i += threads()) {
        const float v = summed(type, a, from + i);
        sum += v * v;
        if (a->sum) put(type, a->sum, from + i, v);
    }
    const float rstd = 1 / sqrt(group_sum(sum, room) / (float)a->K + number(a->eps));
    if (a->rstd && thread() == 0) PTR(float, a->rstd)[row] = rstd;
    for (int64_t i = thread(); i < a->K; i += threads()) {
        float v = summed(type, a, from + i) * rstd * get(type, a->g, i);
        if (a->after) v += get(type, a->after, from + i);
        put(type, a->y, from + i, v);
    }
}

/* y = (x - mean) rstd g + b, where g and b may be absent. */
FN void layer_row(int type, const zt_cu_norm_args *a, __local float *room)
{
    const int64_t row = block(), from = row * a->K;
    float sum = 0, squares = 0;
    for (int64_t i = thread(); i < a->K; i += threads()) sum += get(type, a->x, from + i);
    const float mean = group_sum(sum, room) / (float)a->K;
    for (int64_t i = thread(); i < a->K; i += threads()) {
        const float v = get(type, a->x, from + i) - mean;
        squares += v * v;
    }
    const float rstd = 1 / sqrt(group_sum(squares, room) / (float)a->K + number(a->eps));
    if (a->sum && thread() == 0) PTR(float, a->sum)[row] = mean;
    if (a->rstd && thread() == 0) PTR(float, a->rstd)[row] = rstd;
    for (int64_t i = thread(); i < a->K; i += threads()) {
        const float g = a->g ? get(type, a->g, i) : 1, b = a->after ? get(type, a->after, i) : 0;
        put(type, a->y, from + i, (get(type, a->x, from + i) - mean) * rstd * g + b);
    }
}

#define BY_ROOM(name, args, type, work)                                                                                          \
    KERNEL(name, args)                                                                                                           \
    {                                                                                                                            \
        __local float room[MOST_THREADS];                                                                                        \
        work(type, &a, room);                                                                                                    \
    }
BY_ROOM(zt_norm_f32, zt_cu_norm_args, ZT_CU_F32, norm_row)
BY_ROOM(zt_norm_f16, zt_cu_norm_args, ZT_CU_F16, norm_row)
BY_ROOM(zt_norm_bf16, zt_cu_norm_args, ZT_CU_BF16, norm_row)
BY_ROOM(zt_layer_f32, zt_cu_norm_args, ZT_CU_F32, layer_row)
BY_ROOM(zt_layer_f16, zt_cu_norm_args, ZT_CU_F16, layer_row)
BY_ROOM(zt_layer_bf16, zt_cu_norm_args, ZT_CU_BF16, layer_row)

/* ---- softmax ----------------------------------------------------------------------------------- */

/* A work-group a line whose entries lie side by side. */
FN void softmax_line(int type, const zt_cu_softmax_args *a, __local float *room)
{
    const int64_t from = (int64_t)block() * a->n;
    const float scale = number(a->scale);
    float top = -INFINITY, sum = 0;
    for (int64_t i = thread(); i < a->n; i += threads()) top = fmax(top, get(type, a->x, from + i) * scale);
    top = group_max(top, room);
    for (int64_t i = thread(); i < a->n; i += threads()) sum += exp(get(type, a->x, from + i) * scale - top);
    sum = group_sum(sum, room);
    const float less = a->log ? log(sum) : 0;
    for (int64_t i = thread(); i < a->n; i += threads()) {
        const float v = get(type, a->x, from + i) * scale - top;
        put(type, a->y, from + i, a->log ? v - less : exp(v) / sum);
    }
}

/* A work-item a line. */
FN void softmax_across(int type, const zt_cu_softmax_args *a)
{
    const float scale = number(a->scale);
    EACH_OF(line, a->lines)
    {
        const int64_t from = line / a->inner * a->n * a->inner + line % a->inner;
        float top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < a->n; i++) top = fmax(top, get(type, a->x, from + i * a->inner) * scale);
        for (int64_t i = 0; i < a->n; i++) sum += exp(get(type, a->x, from + i * a->inner) * scale - top);
        const float less = a->log ? log(sum) : 0;
        for (int64_t i = 0; i < a->n; i++) {
            const float v = get(type, a->x, from + i * a->inner) * scale - top;
            put(type, a->y, from + i * a->inner, a->log ? v - less : exp(v) / sum);
        }
    }
}

BY_ROOM(zt_softmax_f32, zt_cu_softmax_args, ZT_CU_F32, softmax_line)
BY_ROOM(zt_softmax_f16, zt_cu_softmax_args, ZT_CU_F16, softmax_line)
BY_ROOM(zt_softmax_bf16, zt_cu_softmax_args, ZT_CU_BF16, softmax_line)
KERNEL(zt_softmax_across_f32, zt_cu_softmax_args) { softmax_across(ZT_CU_F32, &a); }
KERNEL(zt_softmax_across_f16, zt_cu_softmax_args) { softmax_across(ZT_CU_F16, &a); }
KERNEL(zt_softmax_across_bf16, zt_cu_softmax_args) { softmax_across(ZT_CU_BF16, &a); }

/* What an entry is at threshold t, for x times alpha - 1. */
FN float entmax_share(float x, float t, float alpha) { return x > t ? pow(x - t, 1 / (alpha - 1)) : 0; }

/* A work-group of 32 a line: the threshold below the largest is found by halves. scale: alpha. */
FN void entmax_line(int type, const zt_cu_softmax_args *a, __local float *room)
{
    const int64_t line = block(), from = line / a->inner * a->n * a->inner + line % a->inner;
    const float alpha = number(a->scale), by = alpha - 1;
    float top = -INFINITY, sum = 0, low = -1, high = 0;
    for (int64_t i = thread(); i < a->n; i += threads()) top = fmax(top, get(type, a->x, from + i * a->inner) * by);
    top = group_max(top, room);
    for (int k = 0; k < 40; k++) {
        const float middle = low + (high - low) / 2;
        float total = 0;
        for (int64_t i = thread(); i < a->n; i += threads())
            total += entmax_share(get(type, a->x, from + i * a->inner) * by - top, middle, alpha);
        total = group_sum(total, room);
        if (total >= 1)
            low = middle;
        else
            high = middle;
    }
    for (int64_t i = thread(); i < a->n; i += threads())
        sum += entmax_share(get(type, a->x, from + i * a->inner) * by - top, low, alpha);
    sum = group_sum(sum, room);
    for (int64_t i = thread(); i < a->n; i += threads())
        put(type, a->y, from + i * a->inner, entmax_share(get(type, a->x, from + i * a->inner) * by - top, low, alpha) / sum);
}
BY_ROOM(zt_entmax_f32, zt_cu_softmax_args, ZT_CU_F32, entmax_line)
BY_ROOM(zt_entmax_f16, zt_cu_softmax_args, ZT_CU_F16, entmax_line)
BY_ROOM(zt_entmax_bf16, zt_cu_softmax_args, ZT_CU_BF16, entmax_line)

/* ---- norms by channels ------------------------------------------------------------------------- */

/* The elements of a set: `runs` pieces of `length` that lie side by side. */
typedef struct set {
    int64_t at, runs, step, length, channel; /* the first's */
} set;

FN set set_of(const zt_cu_set_args *a, int64_t i)
{
    set s;
    s.channel = a->groups ? i % a->groups * a->of : i;
    s.runs = a->groups ? 1 : a->N;
    s.step = a->C * a->size;
    s.length = a->of * a->size;
    s.at = (a->groups ? i / a->groups * a->C : 0) * a->size + s.channel * a->size;
    return s;
}

/* Number e of a set: where it is, and its channel. */
FN int64_t place_of(const zt_cu_set_args *a, const set *s, int64_t e, int64_t *channel)
{
    const int64_t run = e / s->length, i = e % s->length;
    *channel = s->channel + i / a->size;
    return s->at + run * s->step + i;
}

FN float scaled(int type, zt_cu_ptr p, int64_t channel, float none) { return p ? get(type, p, channel) : none; }

FN void set_norm(int type, const zt_cu_set_args *a, __local float *room)
{
    const set s = set_of(a, block());
    const int64_t n = s.runs * s.length, i = block(), less = a->unbiased && n > 1 ? n - 1 : n;
    int64_t c;
    float mean = 0, squares = 0;
    for (int64_t e = thread(); e < n; e += threads()) mean += get(type, a->x, place_of(a, &s, e, &c));
    mean = group_sum(mean, room);
    mean = n ? mean / (float)n : 0;
    for (int64_t e = thread(); e < n; e += threads()) {
        const float v = get(type, a->x, place_of(a, &s, e, &c)) - mean;
        squares += v * v;
    }
    squares = group_sum(squares, room);
    const float rstd = 1 / sqrt((n ? squares / (float)n : 0) + number(a->eps));
    for (int64_t e = thread(); e < n; e += threads()) {
        const int64_t at = place_of(a, &s, e, &c);
        const float g = scaled(type, a->g, c, 1), b = scaled(type, a->b, c, 0);
        put(type, a->y, at, (get(type, a->x, at) - mean) * rstd * g + b);
    }
    if (thread() != 0) return;
    const float var = less ? squares / (float)less : 0, by = number(a->momentum);
    if (a->mean) PTR(float, a->mean)[i] = mean;
    if (a->rstd) PTR(float, a->rstd)[i] = rstd;
    if (a->new_mean) PTR(float, a->new_mean)[i] = (1 - by) * (a->run_mean ? PTR(float, a->run_mean)[i] : 0) + by * mean;
    if (a->new_var) PTR(float, a->new_var)[i] = (1 - by) * (a->run_var ? PTR(float, a->run_var)[i] : 1) + by * var;
}

/* By statistics that are known: mean, and the variance in `run_var`. */
FN void known_norm(int type, const zt_cu_set_args *a)
{
    EACH_OF(i, a->N * a->C * a->size)
    {
        const int64_t c = i / a->size % a->C;
        const float rstd = 1 / sqrt(PTR(float, a->run_var)[c] + number(a->eps));
        const float v = (get(type, a->x, i) - PTR(float, a->mean)[c]) * rstd;
        put(type, a->y, i, v * scaled(type, a->g, c, 1) + scaled(type, a->b, c, 0));
    }
}

/* dx = rstd (d - s1 / n - h s2 / n), d = dy g, h = (x - mean) rstd, s1 and s2 the sums of d and d h. */
FN void set_back(int type, const zt_cu_set_args *a, __local float *room)
{
    const set s = set_of(a, block());
    const int64_t n = s.runs * s.length;
    const float mean = PTR(float, a->mean)[block()], rstd = PTR(float, a->rstd)[block()];
    int64_t c;
    float s1 = 0, s2 = 0;
    for (int64_t e = thread(); a->training && e < n; e += threads()) {
        const int64_t at = place_of(a, &s, e, &c);
        const float d = get(type, a->dy, at) * scaled(type, a->g, c, 1);
        s1 += d;
        s2 += d * ((get(type, a->x, at) - mean) * rstd);
    }
    s1 = group_sum(s1, room);
    s2 = group_sum(s2, room);
    for (int64_t e = thread(); e < n; e += threads()) {
        const int64_t at = place_of(a, &s, e, &c);
        const float d = get(type, a->dy, at) * scaled(type, a->g, c, 1), h = (get(type, a->x, at) - mean) * rstd;
        put(type, a->dx, at, rstd * (d - (a->training ? s1 / (float)n + h * (s2 / (float)n) : 0)));
    }
}

/* dg = sum dy h, db = sum dy of a channel. */
FN void channel_back(int type, const zt_cu_set_args *a, __local float *room)
{
    const int64_t c = block();
    float dg = 0, db = 0;
    for (int64_t e = thread(); e < a->N * a->size; e += threads()) {
        const int64_t n = e / a->size, at = (n * a->C + c) * a->size + e % a->size;
        const int64_t stat = a->groups ? n * a->groups + c / a->of : c;
        const float d = get(type, a->dy, at);
        dg += d * ((get(type, a->x, at) - PTR(float, a->mean)[stat]) * PTR(float, a->rstd)[stat]);
        db += d;
    }
    dg = group_sum(dg, room);
    db = group_sum(db, room);
    if (thread() != 0) return;
    if (a->dg) put(type, a->dg, c, dg);
    if (a->db) put(type, a->db, c, db);
}

BY_ROOM(zt_set_norm_f32, zt_cu_set_args, ZT_CU_F32, set_norm)
BY_ROOM(zt_set_norm_f16, zt_cu_set_args, ZT_CU_F16, set_norm)
BY_ROOM(zt_set_norm_bf16, zt_cu_set_args, ZT_CU_BF16, set_norm)
BY_ROOM(zt_set_back_f32, zt_cu_set_args, ZT_CU_F32, set_back)
BY_ROOM(zt_set_back_f16, zt_cu_set_args, ZT_CU_F16, set_back)
BY_ROOM(zt_set_back_bf16, zt_cu_set_args, ZT_CU_BF16, set_back)
BY_ROOM(zt_channel_back_f32, zt_cu_set_args, ZT_CU_F32, channel_back)
BY_ROOM(zt_channel_back_f16, zt_cu_set_args, ZT_CU_F16, channel_back)
BY_ROOM(zt_channel_back_bf16, zt_cu_set_args, ZT_CU_BF16, channel_back)
KERNEL(zt_known_norm_f32, zt_cu_set_args) { known_norm(ZT_CU_F32, &a); }
KERNEL(zt_known_norm_f16, zt_cu_set_args) { known_norm(ZT_CU_F16, &a); }
KERNEL(zt_known_norm_bf16, zt_cu_set_args) { known_norm(ZT_CU_BF16, &a); }
