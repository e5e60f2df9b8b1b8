/* softmax.c - kernels of softmax and log_softmax along an axis, of softmax of what is scaled, and of entmax; f32.
 *
 * Sums run over at most CHUNK values in f32, in lanes, and go on in f64, in an order that shapes
 * alone decide.
 */
#include "lib/engine/cpu/isa/softmax.h"

/* ---- softmax --------------------------------------------------------------------------------- */

static void times(const float *x, float *y, int64_t n, float by)
{
    vf f = vf_set(by);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_mul(vf_load(x + i), f));
    int rest = (int)(n - i);
    if (rest) vf_store_n(y + i, rest, vf_mul(vf_load_n(x + i, rest), f));
}

static void softmax_row(const float *x, float *y, int64_t cols)
{
    double sum = row_exps(true, x, y, cols, largest(x, cols));
    times(y, y, cols, (float)(1 / sum));
}

/* ln sum exp(x - top) of a row whose largest is top. */
static double log_sum(const float *x, int64_t cols, float top) { return log(row_exps(false, x, NULL, cols, top)); }

static void log_softmax_row(const float *x, float *y, int64_t n)
{
    float top = largest(x, n), less = (float)log_sum(x, n, top);
    vf t = vf_set(top), l = vf_set(less);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) vf_store(y + i, vf_sub(vf_sub(vf_load(x + i), t), l));
    for (; i < n; i++) y[i] = x[i] - top - less;
}

/* ---- rows from memory, and to it past the caches --------------------------------------------- */

/* All of x to y, where a line begins; y may be x. */
INLINE void past_rows(bool logs, const float *x, float *y, int64_t rows, int64_t cols, float *e)
{
    rows_past p = {.e = e, .next_top = largest(x, cols)};
    for (int64_t r = 0; r < rows; r++, x += cols, y += cols) {
        float top = p.next_top;
        p.next = r + 1 < rows ? x + cols : x;
        double sum = r ? past_exps(logs, true, &p, x, cols, top) : past_exps(logs, false, &p, x, cols, top);
        p.before = y;
        p.top = top;
        p.by = (float)(logs ? log(sum) : 1 / sum);
    }
    vf top = vf_set(p.top), by = vf_set(p.by);
    for (int64_t i = 0; i < cols; i += LANES) put_before(logs, &p, x - cols, i, top, by);
}

enum { PAST_COLS = 65536 }; /* a row's scratch: 256 KiB at most */

static void softmax_setup(zt_cpu_call *call)
{
    int64_t cols = cols_of(&call->in[0].type);
    past_setup(call);
    call->aux[0] = call->aux[0] && cols <= PAST_COLS;
    if (call->aux[0]) call->local_bytes = (size_t)cols * sizeof(float);
}

typedef void row_run(const float *x, float *y, int64_t cols);

INLINE void softmax_rows(bool logs, zt_cpu_call *call, int64_t begin, int64_t end, void *local)
{
    int64_t cols = cols_of(&call->in[0].type);
    const float *x = (const float *)call->in[0].data + begin * cols;
    float *y = (float *)call->out[0].data + begin * cols;
    row_run *row = logs ? log_softmax_row : softmax_row;
    if (call->aux[0] && on_line(y) && begin < end)
        past_rows(logs, x, y, end - begin, cols, local);
    else
        for (int64_t r = begin; r < end; r++, x += cols, y += cols) row(x, y, cols);
}

static void softmax_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    softmax_rows(false, call, begin, end, local);
}

static void log_softmax_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase;
    softmax_rows(true, call, begin, end, local);
}

/* ---- softmax and log_softmax along another axis than the last: LANES neighbours an item ---------- */

/* Entries of a line, floats from one to the next, and items to `inner`. */
enum { L_TILES = L_INNER + 1, BLOCK = 16 };

static void columns_setup(zt_cpu_call *call)
{
    int64_t axis = ((const zt_softmax_attrs *)call->attrs)->axis;
    const zt_type *x = &call->in[0].type;
    call->aux[L_N] = x->dim[axis < 0 ? axis + x->rank : axis];
    call->aux[L_INNER] = inner_of(axis, x);
    call->aux[L_TILES] = (call->aux[L_INNER] + LANES - 1) / LANES;
    int64_t line = call->aux[L_N] * call->aux[L_INNER];
    call->items[0] = line ? zt_type_count(x) / line * call->aux[L_TILES] : 0;
}

/* The largest of each lane's line, and the sum of exp(x - it), in blocks of BLOCK. */
INLINE vf columns_sum(const float *x, int64_t n, int64_t inner, int some, vf *top)
{
    vf sum = vf_set(0);
    *top = vf_set(-INFINITY);
    for (int64_t i = 0; i < n; i++) *top = vf_max(vf_load_n(x + i * inner, some), *top);
    for (int64_t i = 0; i < n;) {
        vf part = vf_set(0);
        for (int64_t last = n - i < BLOCK ? n : i + BLOCK; i < last; i++)
            part = vf_add(part, vf_exp(vf_sub(vf_load_n(x + i * inner, some), *top)));
        sum = vf_add(sum, part);
    }
    return sum;
}

INLINE void columns(bool logs, zt_cpu_call *call, int64_t begin, int64_t end)
{
    int64_t n = call->aux[L_N], inner = call->aux[L_INNER], tiles = call->aux[L_TILES];
    for (int64_t i = begin; i < end; i++) {
        int64_t column = i % tiles * LANES, at = i / tiles * n * inner + column;
        int some = inner - column < LANES ? (int)(inner - column) : LANES;
        const float *x = (const float *)call->in[0].data + at;
        float *y = (float *)call->out[0].data + at, lane[LANES];
        vf top, sum = columns_sum(x, n, inner, some, &top);
        if (logs) {
            vf_store(lane, sum);
            for (int j = 0; j < LANES; j++) lane[j] = logf(lane[j]);
            sum = vf_load(lane);
        }
        for (int64_t k = 0; k < n; k++) {
            vf d = vf_sub(vf_load_n(x + k * inner, some), top);
            vf_store_n(y + k * inner, some, logs ? vf_sub(d, sum) : vf_div(vf_exp(d), sum));
        }
    }
}

static void softmax_columns(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    columns(false, call, begin, end);
}

static void log_softmax_columns(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    (void)phase, (void)local;
    columns(true, call, begin, end);
}

/* ---- scaled_softmax: LANES neighbours of the inner dimension an item, or a line --------------- */

static void scaled_softmax_setup(zt_cpu_call *call)
{
    const zt_scaled_softmax_attrs *scaled_softmax = call->attrs;
    const zt_type *type = &call->in[0].type;
    int at = (int)(scaled_softmax->axis < 0 ? scaled_softmax->axis + type->rank : scaled_softmax->axis);
    int64_t inner = 1, outer = 1;
    for (int d = 0; d < at; d++) outer *= type->dim[d];
    for (int d = at + 1; d < type->rank; d++) inner *= type->dim[d];
    call->aux[L_N] = type->dim[at];
    call->aux[L_INNER] = inner;
    call->aux[L_TILES] = inner == 1 ? 1 : (inner + LANES - 1) / LANES;
    call->items[0] = type->dim[at] ? outer * call->aux[L_TILES] : 0;
}

static void softmax_line(const float *x, float *y, int64_t n, vf scale)
{
    vf most = vf_set(-INFINITY);
    double total = 0;
    for (int64_t i = 0; i < n; i += LANES) {
        int some = n - i < LANES ? (int)(n - i) : LANES;
        most = vf_max(vf_first(some, vf_mul(vf_load_n(x + i, some), scale), most), most);
    }
    const vf top = vf_set(vf_top(most));
    for (int64_t from = 0; from < n; from += CHUNK) {
        vf sum = vf_set(0);
        for (int64_t i = from; i < n && i < from + CHUNK; i += LANES) {
            int some = n - i < LANES ? (int)(n - i) : LANES;
            vf e = vf_exp(vf_sub(vf_mul(vf_load_n(x + i, some), scale), top));
            vf_store_n(y + i, some, e);
            sum = vf_add(sum, vf_first(some, e, vf_set(0)));
        }
        total += (double)vf_sum(sum);
    }
    const vf by = vf_set((float)total);
    for (int64_t i = 0; i < n; i += LANES) {
        int some = n - i < LANES ? (int)(n - i) : LANES;
        vf_store_n(y + i, some, vf_div(vf_load_n(y + i, some), by));
    }
}

/* Some lines side by side, `step` floats from entry to entry. Sums of chunks are added in f32: each
 * is a lane's own. */
static void softmax_lines(const float *x, float *y, int64_t n, int64_t step, int some, vf scale)
{
    vf top = vf_set(-INFINITY), total = vf_set(0);
    for (int64_t i = 0; i < n; i++) top = vf_max(vf_mul(vf_load_n(x + i * step, some), scale), top);
    for (int64_t from = 0; from < n; from += CHUNK) {
        vf sum = vf_set(0);
        for (int64_t i = from; i < n && i < from + CHUNK; i++) {
            vf e = vf_exp(vf_sub(vf_mul(vf_load_n(x + i * step, some), scale), top));
            vf_store_n(y + i * step, some, e);
            sum = vf_add(sum, e);
        }
        total = vf_add(total, sum);
    }
    for (int64_t i = 0; i < n; i++) vf_store_n(y + i * step, some, vf_div(vf_load_n(y + i * step, some), total));
}

static void scaled_softmax_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    const zt_scaled_softmax_attrs *scaled_softmax = call->attrs;
    int64_t n = call->aux[L_N], inner = call->aux[L_INNER], strips = call->aux[L_TILES];
    const vf scale = vf_set((float)scaled_softmax->scale);
    (void)phase, (void)local;
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item % strips * LANES, at = item / strips * n * inner + first;
        const float *x = (const float *)call->in[0].data + at;
        float *y = (float *)call->out[0].data + at;
        if (inner == 1)
            softmax_line(x, y, n, scale);
        else
            softmax_lines(x, y, n, inner, inner - first < LANES ? (int)(inner - first) : LANES, scale);
    }
}

/* ---- entmax: one line an item, in f64 -------------------------------------------------------- */

static void entmax_setup(zt_cpu_call *call)
{
    const zt_entmax_attrs *entmax = call->attrs;
    const zt_type *x = &call->in[0].type;
    int axis = (int)(entmax->axis < 0 ? entmax->axis + x->rank : entmax->axis);
    int64_t inner = 1, outer = 1;
    call->items[0] = 0;
    if (!zt_type_count(x)) return;
    for (int d = 0; d < axis; d++) outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dim[d];
    call->aux[L_N] = x->dim[axis];
    call->aux[L_INNER] = inner;
    call->items[0] = outer * inner;
    call->local_bytes = (size_t)x->dim[axis] * sizeof(double);
}

static double power(double x, double p) { return p == 1 ? x : p == 2 ? x * x : pow(x, p); }

/* The sum of (z - t)^p above t, and its slope in t. */
static double total(const double *z, int64_t n, double t, double p, double *slope)
{
    double sum = 0, fall = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = z[i] - t;
        if (!(d > 0)) continue;
        double y = power(d, p);
        sum += y;
        fall -= p * y / d;
    }
    *slope = fall;
    return sum;
}

static double threshold(const double *z, int64_t n, double top, double p)
{
    double low = top - 1, high = top, slope;
    for (int k = 0; k < 60 && p >= 1; k++) {
        double sum = total(z, n, low, p, &slope), next = low - (sum - 1) / slope;
        if (!(next > low)) return low;
        low = next;
    }
    for (int k = 0; k < 200 && p < 1; k++) {
        double middle = low + (high - low) / 2;
        if (middle == low || middle == high) break;
        *(total(z, n, middle, p, &slope) >= 1 ? &low : &high) = middle;
    }
    return low;
}

static void entmax_run(zt_cpu_call *call, int phase, int64_t begin, int64_t end, void *local)
{
    double alpha = ((const zt_entmax_attrs *)call->attrs)->alpha, p = 1 / (alpha - 1), *z = local;
    int64_t n = call->aux[L_N], inner = call->aux[L_INNER];
    (void)phase;
    for (int64_t i = begin; i < end; i++) {
        int64_t at = i / inner * n * inner + i % inner;
        const float *x = (const float *)call->in[0].data + at;
        float *y = (float *)call->out[0].data + at;
        double top = -INFINITY, sum = 0;
        for (int64_t k = 0; k < n; k++) {
            z[k] = (double)x[k * inner] * (alpha - 1);
            top = z[k] > top ? z[k] : top;
        }
        double t = threshold(z, n, top, p);
        for (int64_t k = 0; k < n; k++) sum += z[k] = z[k] > t ? power(z[k] - t, p) : 0;
        for (int64_t k = 0; k < n; k++) y[k * inner] = (float)(z[k] / sum);
    }
}

const zt_cpu_kernel ZT_SYM(zt_cpu_softmax)[] = {
    {.op = ZT_OP_softmax, .has = last_has, .setup = softmax_setup, .run = softmax_run},
    {.op = ZT_OP_softmax, .has = f32_has, .setup = columns_setup, .run = softmax_columns},
    {.op = ZT_OP_log_softmax, .has = last_has, .setup = past_setup, .run = log_softmax_run},
    {.op = ZT_OP_log_softmax, .has = f32_has, .setup = columns_setup, .run = log_softmax_columns},
    {.op = ZT_OP_scaled_softmax, .has = f32_has, .setup = scaled_softmax_setup, .run = scaled_softmax_run},
    {.op = ZT_OP_entmax, .has = f32_has, .setup = entmax_setup, .run = entmax_run},
    {0},
};
