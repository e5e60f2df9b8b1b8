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

static void count_element(zt_difference *d, sums *s, bool integer, int64_t i, double g, double w)
{
    double e = distance(integer, g, w), shown = isfinite(g) && isfinite(w) ? fabs(g - w) : e;
    if (isfinite(w)) {
        s->size += w * w;
        s->finite++;
    }
    if (e == 0) return;
    s->apart = s->apart || isinf(e);
    if (!isinf(e)) s->error += e * e;
    if (d->worst >= 0 && shown <= d->max_abs) return;
    d->worst = i;
    d->max_abs = shown;
    d->got = g;
    d->want = w;
}

static double number(bool integer, const void *wide, int64_t i)
{
    return integer ? (double)((const int64_t *)wide)[i] : ((const double *)wide)[i];
}

static void compare_chunk(const zt_type *t, int64_t at, int64_t n, const char *got,
                          const char *want, zt_difference *d, sums *s)
{
    union {
        double f[CHUNK];
        int64_t i[CHUNK];
    } g, w;
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    bool integer = !zt_dtype_is_float(t->dtype);
    size_t bytes = (size_t)info->block_bytes;
    for (int64_t b = 0; b * info->block < n; b++)
        d->bits += memcmp(got + (size_t)b * bytes, want + (size_t)b * bytes, bytes) != 0;
    zt_widen(t->dtype, got, &g, n);
    zt_widen(t->dtype, want, &w, n);
    for (int64_t i = 0; i < n; i++) {
        /* Integers past 2^53 that round to one double. */
        bool hidden = integer && g.i[i] != w.i[i] && (double)g.i[i] == (double)w.i[i];
        count_element(d, s, integer, at + i, number(integer, &g, i),
                      hidden ? NAN : number(integer, &w, i));
    }
}

void zt_compare(const zt_type *t, const void *got, const void *want, zt_difference *d)
{
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    int64_t count = zt_type_count(t);
    sums s = {0};
    *d = (zt_difference){.worst = -1};
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        size_t offset = (size_t)(at / info->block) * (size_t)info->block_bytes;
        compare_chunk(t, at, n, (const char *)got + offset, (const char *)want + offset, d, &s);
    }
    d->rms = s.finite ? sqrt(s.size / (double)s.finite) : 0;
    d->nmse = s.apart ? INFINITY : s.error == 0 ? 0 : s.size > 0 ? s.error / s.size : INFINITY;
}

double zt_difference_share(const zt_difference *d, double bound)
{
    const double one_of_many = 32;
    if (d->worst < 0) return 0;
    if (bound <= 0 || !isfinite(d->nmse)) return INFINITY;
    double of_mean = d->nmse / bound, size = fmax(fabs(d->want), d->rms);
    double of_worst = d->max_abs / (one_of_many * size * sqrt(bound));
    return fmax(of_mean, of_worst * of_worst);
}

void zt_summarize(const zt_type *t, const void *bytes, zt_summary *s)
{
    union {
        double f[CHUNK];
        int64_t i[CHUNK];
    } x;
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    bool integer = !zt_dtype_is_float(t->dtype);
    int64_t count = zt_type_count(t), finite = 0;
    double sum = 0, squares = 0;
    *s = (zt_summary){.min = INFINITY, .max = -INFINITY};
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = count - at < CHUNK ? count - at : CHUNK;
        zt_widen(t->dtype, (const char *)bytes + at / info->block * info->block_bytes, &x, n);
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
static double roughness(const zt_type *t, const void *bytes)
{
    double x[32], squares = 0, largest = 0;
    int64_t cols = t->rank ? t->dim[t->rank - 1] : 1, count = zt_type_count(t);
    const zt_dtype_info *info = zt_dtype_get(t->dtype);
    for (int64_t row = 0; row + cols <= count && cols > 0; row += cols) {
        for (int64_t at = 0; at < cols; at += 32) {
            int64_t n = cols - at < 32 ? cols - at : 32;
            double most = 0;
            zt_widen(t->dtype, (const char *)bytes + (row + at) * info->block_bytes, x, n);
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
static double root_of(zt_interpreter *w, int s, int k, const zt_diff_opts *o, double before)
{
    const zt_bound *bound = zt_interpreter_bound(w);
    const zt_step *st = zt_prog_step(zt_interpreter_prog(w), s);
    const zt_type *in[ZT_MAX_IN] = {0}, *out = &bound->type[st->out[k]];
    for (int i = 0; i < zt_op_info(st->op)->n_in; i++)
        in[i] = st->in[i] < 0 ? NULL : &bound->type[st->in[i]];
    double own = zt_op_bound(st->op, bound->attrs[s], in, out);
    /* What only moves or rounds rounds other values to the other side now and then, as a cast. */
    if (before > 0) own = fmax(own, zt_op_bound(ZT_OP_cast, NULL, in, out));
    double root = sqrt(own) * (o->judge ? 1 : 2);
    const void *x = zt_op_rounds(st->op, bound->attrs[s], in) ? zt_interpreter_get(w, st->in[0]) : NULL;
    if (x && zt_dtype_get(in[0]->dtype)->kind == 'F') root *= sqrt(roughness(in[0], x));
    return o->exact ? 0 : zt_dtype_is_float(out->dtype) ? root + before : root;
}

/* Compares what both have. */
static zt_status fill_item(zt_interpreter *a, zt_interpreter *b, const zt_diff_opts *o, double root,
                           zt_diff_item *it)
{
    const void *want = zt_interpreter_get(a, it->in_a), *got = zt_interpreter_get(b, it->value);
    if (!want || !got) return zt_ctx_status(zt_interpreter_ctx(a));
    zt_compare(&zt_interpreter_bound(b)->type[it->value], got, want, &it->d);
    it->bound = root * root;
    it->share = zt_difference_share(&it->d, it->bound);
    if (o->exact) it->share = it->d.bits ? INFINITY : 0;
    return ZT_OK;
}

/* An input with outliers that the weights hardly meet makes an output far smaller than its errors:
 * then they are estimated from the numbers. The bound is as many times the estimate as that of the
 * op, which is for normal numbers, is of theirs. */
static zt_status widen_bound(zt_interpreter *b, const zt_diff_opts *o, double before, zt_diff_item *it)
{
    const double margin = 16;
    double size = it->d.rms * it->d.rms * (double)zt_type_count(&zt_interpreter_bound(b)->type[it->value]);
    if (o->exact || it->share <= 1 || !isfinite(it->d.nmse) || size <= 0) return ZT_OK;
    double error = zt_rounding_error(b, it->step, it->output);
    double root = sqrt(margin * error / size) * (o->judge ? 1 : 2) + before;
    if (error > 0 && root * root > it->bound) {
        it->bound = root * root;
        it->share = zt_difference_share(&it->d, it->bound);
    }
    return zt_ctx_status(zt_interpreter_ctx(b));
}

zt_status zt_diff_step(zt_interpreter *a, zt_interpreter *b, int step, int k, const zt_diff_opts *opts,
                       zt_diff_item *item)
{
    int v = zt_prog_step(zt_interpreter_prog(b), step)->out[k];
    *item = (zt_diff_item){.step = step, .output = k, .value = v, .in_a = v};
    zt_status s = fill_item(a, b, opts, root_of(b, step, k, opts, 0), item);
    return s ? s : widen_bound(b, opts, 0, item);
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
    zt_status s = ZT_OK;
    for (int v = 0; v < zt_prog_n_values(d->pb) && !s; v++) {
        const zt_value *val = zt_prog_value(d->pb, v);
        if (val->kind == ZT_VALUE_IN && d->in_a[v] < 0)
            return zt_fail(ctx, ZT_EDATA, "input '%s' is not in both programs with one type",
                           val->name);
        if ((val->kind == ZT_VALUE_IN || val->kind == ZT_VALUE_STATE) && d->in_a[v] >= 0)
            s = give(d, ctx, v);
    }
    return s;
}

/* What step s reads, as a has it. */
static zt_status give_inputs(pair *d, zt_ctx *ctx, const zt_step *st)
{
    zt_status s = ZT_OK;
    for (int k = 0; k < zt_op_info(st->op)->n_in && !s; k++) {
        int v = st->in[k];
        if (v >= 0 && d->in_a[v] >= 0 && zt_prog_value(d->pb, v)->kind == ZT_VALUE_OP)
            s = give(d, ctx, v);
    }
    return s;
}

static zt_status tell(pair *d, int s, const zt_step *st, int k)
{
    double before = 0;
    zt_diff_item it = {.step = s, .output = k, .value = st->out[k], .in_a = d->in_a[st->out[k]]};
    for (int i = 0; i < zt_op_info(st->op)->n_in && d->o->through; i++)
        if (st->in[i] >= 0) before = fmax(before, d->root[st->in[i]]);
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
        const zt_step *st = zt_prog_step(d->pb, s);
        if (!d->o->through) bad = give_inputs(d, ctx, st);
        if (!bad) bad = zt_interpreter_step(d->b, s);
        for (int k = 0; k < zt_op_info(st->op)->n_out && !bad; k++)
            if (st->out[k] >= 0) bad = tell(d, s, st, k);
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
    zt_status s = ZT_OK;
    for (int i = 0; i < zt_prog_n_steps(pa) && !s; i++) s = zt_interpreter_step(a, i);
    d.in_a = zt_calloc(ctx, n, sizeof *d.in_a);
    d.root = zt_calloc(ctx, n, sizeof *d.root);
    if (!s && (!d.in_a || !d.root)) s = ZT_ENOMEM;
    for (int v = 0; v < zt_prog_n_values(pb) && !s; v++) d.in_a[v] = namesake(&d, v);
    if (!s) s = run_b(&d, ctx);
    zt_free(ctx, d.in_a);
    zt_free(ctx, d.root);
    return s;
}
