/* diff.c - two runs compared op by op, and two values element by element. */
#include "lib/run/diff.h"

#include "lib/engine/convert.h"
#include "lib/run/rounding.h"

#include <math.h>
#include <string.h>

/* ---- two values ------------------------------------------------------------------------------ */

enum { CHUNK = 256 }; /* elements at a time: a whole number of blocks of every type */

typedef struct sums {
    double error, size; /* sums of squares */
    int64_t finite;
    bool apart; /* something cannot be compared */
} sums;

/* One element's distance; infinite: it cannot be compared. */
static double distance(bool integer, double g, double w)
{
    if (g == w || (isnan(g) && isnan(w))) return 0;
    if (!isfinite(g) || !isfinite(w)) return INFINITY;
    return integer ? INFINITY : fabs(g - w);
}

static void count_element(zt_difference *difference, sums *s, bool integer, int64_t i, double g, double w)
{
    double e = distance(integer, g, w), shown = isfinite(g) && isfinite(w) ? fabs(g - w) : e;
    if (isfinite(w)) {
        s->size += w * w;
        s->finite++;
    }
    if (e == 0) return;
    s->apart = s->apart || isinf(e);
    if (!isinf(e)) s->error += e * e;
    if (difference->worst >= 0 && shown <= difference->max_abs) return;
    difference->worst = i;
    difference->max_abs = shown;
    difference->got = g;
    difference->want = w;
}

static double number(bool integer, const void *wide, int64_t i)
{
    return integer ? (double)((const int64_t *)wide)[i] : ((const double *)wide)[i];
}

static void compare_chunk(const zt_type *type, int64_t at, int64_t n, const char *got,
                          const char *want, zt_difference *difference, sums *s)
{
    union {
        double f[CHUNK];
        int64_t i[CHUNK];
    } g, w;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    bool integer = !zt_dtype_is_float(type->dtype);
    size_t bytes = (size_t)info->block_bytes;
    for (int64_t b = 0; b * info->block < n; b++)
        difference->bits += memcmp(got + (size_t)b * bytes, want + (size_t)b * bytes, bytes) != 0;
    zt_widen(type->dtype, got, &g, n);
    zt_widen(type->dtype, want, &w, n);
    for (int64_t i = 0; i < n; i++) {
        /* Integers past 2^53 that round to one double. */
        bool hidden = integer && g.i[i] != w.i[i] && (double)g.i[i] == (double)w.i[i];
        count_element(difference, s, integer, at + i, number(integer, &g, i),
                      hidden ? NAN : number(integer, &w, i));
    }
}

void zt_compare(const zt_type *type, const void *got, const void *want, zt_difference *difference)
{
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    int64_t count = zt_type_count(type);
    sums s = {0};
    *difference = (zt_difference){.worst = -1};
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        size_t offset = (size_t)(at / info->block) * (size_t)info->block_bytes;
        compare_chunk(type, at, n, (const char *)got + offset, (const char *)want + offset, difference, &s);
    }
    difference->rms = s.finite ? sqrt(s.size / (double)s.finite) : 0;
    difference->nmse = s.apart ? INFINITY : s.error == 0 ? 0 : s.size > 0 ? s.error / s.size : INFINITY;
}

double zt_difference_share(const zt_difference *difference, double bound)
{
    const double one_of_many = 32;
    if (difference->worst < 0) return 0;
    if (bound <= 0 || !isfinite(difference->nmse)) return INFINITY;
    double of_mean = difference->nmse / bound, size = fmax(fabs(difference->want), difference->rms);
    double of_worst = difference->max_abs / (one_of_many * size * sqrt(bound));
    return fmax(of_mean, of_worst * of_worst);
}

void zt_summarize(const zt_type *type, const void *bytes, zt_summary *s)
{
    union {
        double f[CHUNK];
        int64_t i[CHUNK];
    } x;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    bool integer = !zt_dtype_is_float(type->dtype);
    int64_t count = zt_type_count(type), finite = 0;
    double sum = 0, squares = 0;
    *s = (zt_summary){.min = INFINITY, .max = -INFINITY};
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        zt_widen(type->dtype, (const char *)bytes + at / info->block * info->block_bytes, &x, n);
        for (int64_t i = 0; i < n; i++) {
            double v = number(integer, &x, i);
            s->nan += isnan(v) != 0;
            s->infinite += isinf(v) != 0;
            if (!isfinite(v)) continue;
            finite++;
            sum += v;
            squares += v * v;
            s->min = fmin(s->min, v);
            s->max = fmax(s->max, v);
        }
    }
    if (!finite) s->min = s->max = 0;
    s->mean = finite ? sum / (double)finite : 0;
    s->rms = finite ? sqrt(squares / (double)finite) : 0;
}

/* ---- two runs -------------------------------------------------------------------------------- */

typedef struct pair {
    zt_interpreter *a, *b;
    const zt_prog *pa, *pb;
    const zt_diff_opts *o;
    int *in_a;    /* [values of b]: the value of a, or -1 */
    double *root; /* [values of b]: root of the bound on what may have added up, through */
    zt_diff_fn *fn;
    void *user;
} pair;

/* How much rougher than normal numbers x is where it is rounded in blocks of 32 by their largest:
 * the mean of the largest's square, of that of all, over the six that normal numbers have. */
static double roughness(const zt_type *type, const void *bytes)
{
    double x[32], squares = 0, largest = 0;
    int64_t cols = type->rank ? type->dim[type->rank - 1] : 1, count = zt_type_count(type);
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    for (int64_t row = 0; row + cols <= count && cols > 0; row += cols) {
        for (int64_t at = 0; at < cols; at += 32) {
            int64_t n = cols - at < 32 ? cols - at : 32;
            double most = 0;
            zt_widen(type->dtype, (const char *)bytes + (row + at) * info->block_bytes, x, n);
            for (int64_t i = 0; i < n; i++) {
                squares += x[i] * x[i];
                most = fmax(most, x[i] * x[i]);
            }
            largest += most * (double)n;
        }
    }
    return squares > 0 && isfinite(largest) ? fmax(1, largest / squares / 6) : 1;
}

/* The root of the bound of output k of step s, when what the op reads
 * may be off by `before`, a root of NMSE. */
static double root_of(zt_interpreter *interpreter, int s, int k, const zt_diff_opts *options, double before)
{
    const zt_bound *bound = zt_interpreter_bound(interpreter);
    const zt_step *step = zt_prog_step(zt_interpreter_prog(interpreter), s);
    const zt_type *input_types[ZT_MAX_IN] = {0}, *out = &bound->type[step->out[k]];
    for (int i = 0; i < zt_op_info(step->op)->n_in; i++)
        input_types[i] = step->in[i] < 0 ? NULL : &bound->type[step->in[i]];
    double own = zt_op_bound(step->op, bound->attrs[s], input_types, out);
    /* What only moves or rounds rounds other values to the other side now and then, as a cast. */
    if (before > 0) own = fmax(own, zt_op_bound(ZT_OP_cast, NULL, input_types, out));
    double root = sqrt(own) * (options->judge ? 1 : 2);
    const void *x = zt_op_rounds(step->op, bound->attrs[s], input_types) ? zt_interpreter_get(interpreter, step->in[0]) : NULL;
    if (x && zt_dtype_get(input_types[0]->dtype)->kind == 'F') root *= sqrt(roughness(input_types[0], x));
    return options->exact ? 0 : zt_dtype_is_float(out->dtype) ? root + before : root;
}

/* Compares what both have. */
static zt_status fill_item(zt_interpreter *a, zt_interpreter *b, const zt_diff_opts *options, double root,
                           zt_diff_item *item)
{
    const void *want = zt_interpreter_get(a, item->in_a), *got = zt_interpreter_get(b, item->value);
    if (!want || !got) return zt_ctx_status(zt_interpreter_ctx(a));
    zt_compare(&zt_interpreter_bound(b)->type[item->value], got, want, &item->d);
    item->bound = root * root;
    item->share = zt_difference_share(&item->d, item->bound);
    if (options->exact) item->share = item->d.bits ? INFINITY : 0;
    return ZT_OK;
}

/* An input with outliers that the weights hardly meet makes an output far smaller than its errors:
 * then they are estimated from the numbers. The bound is as many times the estimate as that of the
 * op, which is for normal numbers, is of theirs. */
static zt_status widen_bound(zt_interpreter *b, const zt_diff_opts *options, double before, zt_diff_item *item)
{
    const double margin = 16;
    double size = item->d.rms * item->d.rms * (double)zt_type_count(&zt_interpreter_bound(b)->type[item->value]);
    if (options->exact || item->share <= 1 || !isfinite(item->d.nmse) || size <= 0) return ZT_OK;
    double error = zt_rounding_error(b, item->step, item->output);
    double root = sqrt(margin * error / size) * (options->judge ? 1 : 2) + before;
    if (error > 0 && root * root > item->bound) {
        item->bound = root * root;
        item->share = zt_difference_share(&item->d, item->bound);
    }
    return zt_ctx_status(zt_interpreter_ctx(b));
}

zt_status zt_diff_step(zt_interpreter *a, zt_interpreter *b, int step, int k, const zt_diff_opts *opts,
                       zt_diff_item *item)
{
    int v = zt_prog_step(zt_interpreter_prog(b), step)->out[k];
    *item = (zt_diff_item){.step = step, .output = k, .value = v, .in_a = v};
    zt_status status = fill_item(a, b, opts, root_of(b, step, k, opts, 0), item);
    return status ? status : widen_bound(b, opts, 0, item);
}

/* The value of a that has b's name and type. */
static int namesake(const pair *d, int v)
{
    int u = zt_prog_find(d->pa, zt_prog_value(d->pb, v)->name);
    if (u < 0) return -1;
    return zt_type_equal(&zt_interpreter_bound(d->a)->type[u], &zt_interpreter_bound(d->b)->type[v]) ? u : -1;
}

static zt_status give(pair *d, zt_ctx *ctx, int v)
{
    const void *bytes = zt_interpreter_get(d->a, d->in_a[v]);
    return bytes ? zt_interpreter_put(d->b, v, bytes) : zt_ctx_status(ctx);
}

/* Inputs and states of b, from a. */
static zt_status give_all(pair *d, zt_ctx *ctx)
{
    zt_status status = ZT_OK;
    for (int v = 0; v < zt_prog_n_values(d->pb) && !status; v++) {
        const zt_value *value = zt_prog_value(d->pb, v);
        if (value->kind == ZT_VALUE_IN && d->in_a[v] < 0)
            return zt_fail(ctx, ZT_EDATA, "input '%s' is not in both programs with one type",
                           value->name);
        if ((value->kind == ZT_VALUE_IN || value->kind == ZT_VALUE_STATE) && d->in_a[v] >= 0)
            status = give(d, ctx, v);
    }
    return status;
}

/* What step s reads, as a has it. */
static zt_status give_inputs(pair *d, zt_ctx *ctx, const zt_step *step)
{
    zt_status status = ZT_OK;
    for (int k = 0; k < zt_op_info(step->op)->n_in && !status; k++) {
        int v = step->in[k];
        if (v >= 0 && d->in_a[v] >= 0 && zt_prog_value(d->pb, v)->kind == ZT_VALUE_OP)
            status = give(d, ctx, v);
    }
    return status;
}

static zt_status tell(pair *d, int s, const zt_step *step, int k)
{
    double before = 0;
    zt_diff_item it = {.step = s, .output = k, .value = step->out[k], .in_a = d->in_a[step->out[k]]};
    for (int i = 0; i < zt_op_info(step->op)->n_in && d->o->through; i++)
        if (step->in[i] >= 0) before = fmax(before, d->root[step->in[i]]);
    d->root[it.value] = root_of(d->b, s, k, d->o, before);
    if (it.in_a < 0) return ZT_OK;
    zt_status bad = fill_item(d->a, d->b, d->o, d->root[it.value], &it);
    if (!bad) bad = widen_bound(d->b, d->o, before, &it);
    d->root[it.value] = fmax(d->root[it.value], sqrt(it.bound));
    return bad ? bad : d->fn(d->user, &it);
}

static zt_status run_b(pair *d, zt_ctx *ctx)
{
    zt_status bad = give_all(d, ctx);
    for (int s = 0; s < zt_prog_n_steps(d->pb) && !bad; s++) {
        const zt_step *step = zt_prog_step(d->pb, s);
        if (!d->o->through) bad = give_inputs(d, ctx, step);
        if (!bad) bad = zt_interpreter_step(d->b, s);
        for (int k = 0; k < zt_op_info(step->op)->n_out && !bad; k++)
            if (step->out[k] >= 0) bad = tell(d, s, step, k);
    }
    return bad;
}

zt_status zt_diff(zt_interpreter *a, zt_interpreter *b, const zt_diff_opts *opts, zt_diff_fn *fn, void *user)
{
    static const zt_diff_opts plain;
    zt_ctx *ctx = zt_interpreter_ctx(a);
    const zt_prog *pa = zt_interpreter_prog(a), *pb = zt_interpreter_prog(b);
    size_t n = (size_t)zt_prog_n_values(pb) + 1;
    pair d = {.a = a, .b = b, .pa = pa, .pb = pb, .o = opts ? opts : &plain, .fn = fn,
              .user = user};
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_n_steps(pa) && !status; i++) status = zt_interpreter_step(a, i);
    d.in_a = zt_calloc(ctx, n, sizeof *d.in_a);
    d.root = zt_calloc(ctx, n, sizeof *d.root);
    if (!status && (!d.in_a || !d.root)) status = ZT_ENOMEM;
    for (int v = 0; v < zt_prog_n_values(pb) && !status; v++) d.in_a[v] = namesake(&d, v);
    if (!status) status = run_b(&d, ctx);
    zt_free(ctx, d.in_a);
    zt_free(ctx, d.root);
    return status;
}
