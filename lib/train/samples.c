/* samples.c - owns a data set in memory, and batches of it. */
#include "lib/train/samples.h"

#include <string.h>

/* ---- made for a program ---------------------------------------------------------------------- */

static bool is_weight(const int *weights, int n, int v)
{
    for (int i = 0; i < n; i++)
        if (weights[i] == v) return true;
    return false;
}

static bool is_counter(const zt_value *x)
{
    return x->type.rank == 0 && x->type.dtype == ZT_I64 && strcmp(x->name, "counter") == 0;
}

static zt_status describe(zt_samples *s, const zt_value *x, int input)
{
    zt_type row = x->type;
    if (is_counter(x)) {
        s->counter = input;
        return ZT_OK;
    }
    if (row.rank < 1)
        return zt_fail(s->ctx, ZT_EUSAGE, "input '%s' has no rows: it is one number", x->name);
    if (input == ZT_FIT_INPUTS)
        return zt_fail(s->ctx, ZT_EUSAGE, "the program has more than %d inputs", ZT_FIT_INPUTS);
    row.rank--;
    for (int d = 0; d < row.rank; d++) {
        row.dim[d] = x->type.dim[d + 1];
        if (row.dim[d] < 0)
            return zt_fail(s->ctx, ZT_EUSAGE, "input '%s': how large a row is, is not known",
                           x->name);
    }
    row.dim[row.rank] = 0;
    if (row.dtype != ZT_F32 && row.dtype != ZT_F64 && row.dtype != ZT_I32 && row.dtype != ZT_I64)
        return zt_fail(s->ctx, ZT_EUSAGE, "input '%s' is %s: f32, f64, i32 or i64 can be read",
                       x->name, zt_dtype_get(row.dtype)->name);
    zt_field *f = &s->field[s->n++];
    *f = (zt_field){
        .name = x->name, .row = row, .bytes = zt_type_bytes(&row), .input = input};
    zt_str_init(&f->data, s->ctx);
    return ZT_OK;
}

zt_samples *zt_samples_new(zt_ctx *ctx, const zt_prog *p, const int *weights, int n_weights)
{
    int n = zt_prog_count(p, ZT_VALUE_IN);
    zt_samples *s = zt_calloc(ctx, 1, sizeof *s);
    if (!s) return NULL;
    s->ctx = ctx;
    s->prog = p;
    s->counter = -1;
    int inputs = 0;
    s->field = zt_calloc(ctx, (size_t)n + 1, sizeof *s->field);
    s->room = zt_calloc(ctx, (size_t)n + 1, sizeof *s->room);
    zt_status st = s->field && s->room ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < n && !st; i++) {
        int v = zt_prog_nth(p, ZT_VALUE_IN, i);
        if (!is_weight(weights, n_weights, v)) st = describe(s, zt_prog_value(p, v), inputs++);
    }
    if (!st && !s->n) st = zt_fail(ctx, ZT_EUSAGE, "the program has no inputs");
    if (!st) return s;
    zt_samples_free(s);
    return NULL;
}

void zt_samples_free(zt_samples *s)
{
    if (!s) return;
    for (int i = 0; s->field && i < s->n; i++) {
        zt_str_fini(&s->field[i].data);
        zt_free(s->ctx, s->room[i]);
    }
    zt_free(s->ctx, s->room);
    zt_free(s->ctx, s->field);
    zt_free(s->ctx, s->order);
    zt_free(s->ctx, s);
}

void zt_samples_scale(zt_samples *s, double by)
{
    zt_field *f = &s->field[0];
    size_t n = f->data.len / (size_t)zt_dtype_get(f->row.dtype)->block_bytes;
    for (size_t i = 0; i < n && by != 1; i++) {
        if (f->row.dtype == ZT_F32) ((float *)(void *)f->data.data)[i] *= (float)by;
        if (f->row.dtype == ZT_F64) ((double *)(void *)f->data.data)[i] *= by;
    }
}

zt_status zt_samples_check(zt_samples *s, const char *name)
{
    for (int i = 0; i < s->n; i++) {
        const zt_field *f = &s->field[i];
        int64_t rows = f->bytes ? (int64_t)(f->data.len / f->bytes) : s->rows;
        if (i == 0) s->rows = rows;
        if (!f->data.len && f->bytes)
            return zt_fail(s->ctx, ZT_EDATA, "%s: nothing is there for input '%s'", name, f->name);
        if (rows != s->rows)
            return zt_fail(s->ctx, ZT_EDATA, "%s: %lld rows for input '%s', and %lld for '%s'",
                           name, (long long)rows, f->name, (long long)s->rows, s->field[0].name);
    }
    return s->rows > 0 ? ZT_OK : zt_fail(s->ctx, ZT_EDATA, "%s: has no samples", name);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A uniform number below n, the i-th of the epoch. */
static int64_t below(const zt_samples *s, uint64_t epoch, int64_t i, int64_t n)
{
    return (int64_t)(zt_uniform(s->seed, epoch, (uint64_t)i) * (double)n);
}

/* Fisher and Yates. */
static void put_in_order(zt_samples *s, uint64_t epoch)
{
    if (s->ordered && s->epoch == epoch) return;
    for (int64_t i = 0; i < s->rows; i++) s->order[i] = i;
    for (int64_t i = s->rows - 1; i > 0 && s->shuffles; i--) {
        int64_t k = below(s, epoch, i, i + 1), x = s->order[i];
        s->order[i] = s->order[k];
        s->order[k] = x;
    }
    s->epoch = epoch;
    s->ordered = true;
}

static zt_status get(void *user, uint64_t epoch, int64_t batch, const void **in, zt_binding *b,
                     int *n, int64_t *samples)
{
    zt_samples *s = user;
    int64_t first = batch * s->batch, left = s->rows - first;
    int64_t rows = left < s->batch ? left : s->batch;
    put_in_order(s, epoch);
    for (int i = 0; i < s->n; i++) {
        const zt_field *f = &s->field[i];
        for (int64_t r = 0; r < rows; r++)
            memcpy(s->room[i] + (size_t)r * f->bytes,
                   f->data.data + (size_t)s->order[first + r] * f->bytes, f->bytes);
        in[f->input] = s->room[i];
    }
    s->count = (int64_t)epoch * ((s->rows + s->batch - 1) / s->batch) + batch;
    if (s->counter >= 0) in[s->counter] = &s->count;
    *n = zt_prog_n_symbols(s->prog);
    for (int i = 0; i < *n; i++) b[i] = (zt_binding){zt_prog_symbol_name(s->prog, i), rows};
    *samples = rows;
    return ZT_OK;
}

zt_status zt_samples_batches(zt_samples *s, const zt_shuffle *o, zt_batches *out)
{
    if (o->batch < 1)
        return zt_fail(s->ctx, ZT_EUSAGE, "batches of %lld rows", (long long)o->batch);
    if (zt_prog_n_symbols(s->prog) > 1)
        return zt_fail(s->ctx, ZT_EUSAGE, "a program of %d symbols: its rows alone may be one",
                       zt_prog_n_symbols(s->prog));
    s->batch = o->batch < s->rows ? o->batch : s->rows;
    s->shuffles = o->shuffle;
    s->seed = o->seed;
    s->ordered = false;
    zt_free(s->ctx, s->order);
    s->order = zt_alloc_array(s->ctx, (size_t)s->rows + 1, sizeof *s->order);
    if (!s->order) return ZT_ENOMEM;
    for (int i = 0; i < s->n; i++) {
        zt_free(s->ctx, s->room[i]);
        s->room[i] = zt_alloc_array(s->ctx, (size_t)s->batch, s->field[i].bytes + 1);
        if (!s->room[i]) return ZT_ENOMEM;
    }
    *out = (zt_batches){.user = s, .per_epoch = (s->rows + s->batch - 1) / s->batch, .get = get};
    return ZT_OK;
}
