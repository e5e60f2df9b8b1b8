/* change.c - owns what a difference between two layers is: rounding, a change, another layer. */
#include "lib/dna/dna_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what rounding does ---------------------------------------------------------------------- */

/* By how much of their size numbers of a normal distribution differ at most from what they are as
 * this dtype; measured with zt's own quantizers, and about a half above that. */
static double rounding_of_bits(double bits)
{
    static const struct {
        double bits, error;
    } rows[] = {{8, 0.02}, {6, 0.04}, {5, 0.07}, {4, 0.16}, {3, 0.3}, {2, 0.5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (bits >= rows[i].bits) return rows[i].error;
    return 0.9;
}

static double rounding_of(const char *dtype)
{
    static const struct {
        const char *name;
        double error;
    } floats[] = {{"f64", 1e-6},     {"f32", 1e-6},     {"float64", 1e-6}, {"float32", 1e-6},
                  {"f16", 1e-3},     {"float16", 1e-3}, {"bf16", 4e-3},    {"bfloat16", 4e-3},
                  {"f8_e4m3", 0.06}, {"f8_e5m2", 0.1}};
    zt_dtype t;
    size_t n = strlen(dtype);
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (!strncmp(dtype, floats[i].name, strlen(floats[i].name))) return floats[i].error;
    if (zt_dtype_parse(dtype, n, &t)) {
        const zt_dtype_info *d = zt_dtype_get(t);
        return rounding_of_bits(8.0 * d->block_bytes / d->block);
    }
    const char *digits = strpbrk(dtype, "0123456789"); /* "int8", "fp4", "uint2" of networks */
    return rounding_of_bits(digits ? strtod(digits, NULL) : 1);
}

/* ---- of all layers --------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t n)
{
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

typedef struct marking {
    const zt_dna *a, *b;
    zt_dna_verdict *v;
} marking;

static bool same_dtypes(const marking *m, const zt_dna_score *x, const zt_dna_score *y)
{
    return strcmp(m->a->layer[x->a].dtype, m->a->layer[y->a].dtype) == 0 &&
           strcmp(m->b->layer[x->b].dtype, m->b->layer[y->b].dtype) == 0;
}

/* outlier: it differs by more than is usual between layers of these two dtypes. */
static zt_dna_change change_of(const marking *m, const zt_dna_score *r, bool outlier)
{
    double rel = isnan(r->rel_l2) ? sqrt(2 * fmax(0, 1 - r->overlap)) : r->rel_l2;
    double cosine = isnan(r->cosine) ? r->overlap : r->cosine;
    double most = rounding_of(m->a->layer[r->a].dtype) + rounding_of(m->b->layer[r->b].dtype);
    if (r->same) return ZT_DNA_SAME;
    if (rel <= most) return outlier ? ZT_DNA_CHANGED : ZT_DNA_ROUNDED;
    return cosine < 0.5 ? ZT_DNA_UNRELATED : ZT_DNA_CHANGED;
}

/* Layers of two dtypes differ by what rounding does, all about as much: one that differs by more
 * than six deviations (by their median) above the median and half of it has changed. Where most
 * do not differ at all, any that does has. Marks those of row k's dtypes; x has room for all. */
static void mark(const marking *m, int64_t k, double *x, bool *seen)
{
    zt_dna_verdict *v = m->v;
    const zt_dna_score *first = &v->layer[k];
    int64_t n = 0;
    for (int64_t i = k; i < v->n; i++)
        if (same_dtypes(m, first, &v->layer[i]) && !isnan(v->layer[i].rel_l2))
            x[n++] = v->layer[i].rel_l2;
    double middle = n ? median(x, n) : 0;
    for (int64_t i = 0; i < n; i++) x[i] = fabs(x[i] - middle);
    double six = n ? 6 * 1.4826 * median(x, n) : 0, half = middle / 2;
    for (int64_t i = k; i < v->n; i++) {
        zt_dna_score *r = &v->layer[i];
        if (seen[i] || !same_dtypes(m, first, r)) continue;
        seen[i] = true;
        r->change = change_of(m, r, r->rel_l2 > middle + (six > half ? six : half));
        r->changed = r->change == ZT_DNA_CHANGED || r->change == ZT_DNA_UNRELATED;
    }
}

zt_status zt_dna_mark_changes(const zt_dna *a, const zt_dna *b, zt_dna_verdict *v)
{
    const marking m = {a, b, v};
    double *x = zt_alloc_array(a->ctx, (size_t)v->n + 1, sizeof *x);
    bool *seen = zt_calloc(a->ctx, (size_t)v->n + 1, sizeof *seen);
    for (int64_t k = 0; x && seen && k < v->n; k++)
        if (!seen[k]) mark(&m, k, x, seen);
    zt_free(a->ctx, x);
    zt_free(a->ctx, seen);
    return x && seen ? ZT_OK : ZT_ENOMEM;
}

const char *zt_dna_change_word(zt_dna_change c)
{
    static const char *const words[] = {[ZT_DNA_SAME] = "no",
                                        [ZT_DNA_ROUNDED] = "identical within rounding",
                                        [ZT_DNA_CHANGED] = "yes",
                                        [ZT_DNA_UNRELATED] = "unrelated"};
    return words[c];
}
