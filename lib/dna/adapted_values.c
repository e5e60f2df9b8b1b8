/* adapted_values.c - owns the values of a tensor with adapters, by rows.
 *
 * Of one adapter, in this order: the whole tensor where it has one; + left right, the product of B
 * and A with alpha / r; DoRA (S.-Y. Liu et al., arXiv:2402.09353) scales each output's weights to a
 * length; rows that were trained; a bias's addend.
 */
#include "lib/dna/adapted_part.h"
#include "lib/dna/merge_internal.h"

#include <math.h>
#include <string.h>

/* ---- an adapter's tensors as floats ---------------------------------------------------------- */

/* Elements [at, at + n) of tensor i of a plain type. */
static zt_status read_at(const zt_lora *l, int64_t i, int64_t at, int64_t n, float *out)
{
    zt_entry e;
    zt_checkpoint_get(l->file, i, &e);
    const zt_dtype_info *d = zt_dtype_get(e.type.dtype);
    size_t from = (size_t)(at / d->block) * (size_t)d->block_bytes;
    size_t bytes = (size_t)(n / d->block) * (size_t)d->block_bytes;
    char *raw = zt_alloc(l->ctx, bytes + 1);
    zt_status s = raw ? zt_checkpoint_read(l->file, i, from, raw, bytes) : ZT_ENOMEM;
    if (s == ZT_OK) d->decode(raw, out, n);
    zt_free(l->ctx, raw);
    return s;
}

static zt_status read_all(const zt_lora *l, int64_t i, float **out)
{
    zt_entry e;
    zt_checkpoint_get(l->file, i, &e);
    int64_t n = zt_type_count(&e.type);
    *out = zt_alloc_array(l->ctx, (size_t)n + 1, sizeof **out);
    return *out ? read_at(l, i, 0, n, *out) : ZT_ENOMEM;
}

/* [rows, columns] to [columns, rows]. */
static zt_status transpose(zt_ctx *ctx, float **x, int64_t rows, int64_t columns)
{
    float *y = zt_alloc_array(ctx, (size_t)(rows * columns) + 1, sizeof *y);
    for (int64_t r = 0; y && r < rows; r++)
        for (int64_t c = 0; c < columns; c++) y[c * rows + r] = (*x)[r * columns + c];
    if (!y) return ZT_ENOMEM;
    zt_free(ctx, *x);
    *x = y;
    return ZT_OK;
}

/* Row 2 i + j of a head in GGUF is row j d/2 + i of Hugging Face's. */
static int64_t source_row(int64_t r, int64_t rows, int64_t heads)
{
    if (!heads) return r;
    int64_t d = rows / heads, in = r % d;
    return r - in + in % 2 * (d / 2) + in / 2;
}

static zt_status pair(zt_ctx *ctx, float **x, int64_t rows, int64_t width, int64_t heads)
{
    float *y = heads ? zt_alloc_array(ctx, (size_t)(rows * width) + 1, sizeof *y) : NULL;
    if (!heads || !y) return heads ? ZT_ENOMEM : ZT_OK;
    for (int64_t r = 0; r < rows; r++)
        memcpy(y + r * width, *x + source_row(r, rows, heads) * width, (size_t)width * sizeof *y);
    zt_free(ctx, *x);
    *x = y;
    return ZT_OK;
}

static zt_status load_product(zt_adapted *a, const adapted_change *c, const lora_fit *f,
                              adapted_loaded *out)
{
    const zt_lora *l = f->lora;
    const lora_part *p = f->part;
    zt_status s = read_all(l, p->a, &out->right);
    if (s == ZT_OK) s = read_all(l, p->b, &out->left);
    if (s == ZT_OK && f->flipped) { /* (B A)' = A' B' */
        float *x = out->left;
        out->left = out->right;
        out->right = x;
        if (!p->tokens) s = transpose(a->ctx, &out->left, p->r, c->rows);
        if (s == ZT_OK) s = transpose(a->ctx, &out->right, c->columns, p->r);
    }
    if (s == ZT_OK) s = pair(a->ctx, &out->left, c->rows, p->r, f->heads);
    for (int64_t i = 0; s == ZT_OK && i < c->rows * p->r; i++)
        out->left[i] = (float)(out->left[i] * p->scale);
    return s;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The base's; a row beyond its last is 0. */
static zt_status base_rows(zt_adapted *a, const adapted_change *c, int64_t first, int64_t n,
                           float *x)
{
    const zt_dtype_info *d = zt_dtype_get(c->stored);
    int64_t has = first >= c->base_rows ? 0 : c->base_rows - first < n ? c->base_rows - first : n;
    size_t row = (size_t)(c->columns / d->block) * (size_t)d->block_bytes;
    memset(x + has * c->columns, 0, (size_t)((n - has) * c->columns) * sizeof *x);
    if (!has) return ZT_OK;
    char *raw = zt_alloc(a->ctx, (size_t)has * row + 1);
    zt_status s = raw ? zt_checkpoint_read(a->base, c->base, (size_t)first * row, raw,
                                           (size_t)has * row)
                      : ZT_ENOMEM;
    if (s == ZT_OK) d->decode(raw, x, has * c->columns);
    zt_free(a->ctx, raw);
    return s;
}

/* Of the tensor that an adapter has whole. */
static zt_status whole_rows(const adapted_change *c, const lora_fit *f, const adapted_loaded *l,
                            int64_t first, int64_t n, float *y)
{
    zt_status s = ZT_OK;
    if (l->whole)
        memcpy(y, l->whole + first * c->columns, (size_t)(n * c->columns) * sizeof *y);
    else if (!f->heads)
        s = read_at(f->lora, f->part->whole, first * c->columns, n * c->columns, y);
    for (int64_t r = 0; f->heads && !l->whole && r < n && s == ZT_OK; r++)
        s = read_at(f->lora, f->part->whole,
                    source_row(first + r, c->rows, f->heads) * c->columns, c->columns,
                    y + r * c->columns);
    for (int64_t i = 0; f->add != 0 && i < n * c->columns; i++) y[i] += f->add;
    return s;
}

/* y += scale left right */
static void add_product(const adapted_change *c, const lora_fit *f, const adapted_loaded *l,
                        float scale, int64_t first, int64_t n, float *y)
{
    const merge_loops *loops = zt_merge_loops();
    int64_t r = f->part->r;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < r; k++)
            loops->add(y + i * c->columns, l->right + k * c->columns,
                       scale * l->left[(first + i) * r + k], c->columns);
}

static void scale_rows(const adapted_change *c, const lora_fit *f, const float *factor,
                       int64_t first, int64_t n, float *y)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < c->columns; k++)
            y[i * c->columns + k] *= factor[f->flipped ? k : first + i];
}

static void put_rows(const adapted_change *c, const lora_fit *f, const adapted_loaded *l,
                     int64_t first, int64_t n, float *y)
{
    for (int64_t i = 0; i < f->part->n_rows; i++) {
        int64_t r = f->part->row[i] - first;
        if (r >= 0 && r < n)
            memcpy(y + r * c->columns, l->rows + i * c->columns,
                   (size_t)c->columns * sizeof *y);
    }
}

/* y, which begins as the base's rows, as one adapter alone would have them. */
static zt_status apply(const adapted_change *c, const adapted_item *item, const adapted_loaded *l,
                       int64_t first, int64_t n, float *y)
{
    const lora_fit *f = &item->fit;
    zt_status s = f->part->whole >= 0 ? whole_rows(c, f, l, first, n, y) : ZT_OK;
    if (s != ZT_OK) return s;
    if (l->left) add_product(c, f, l, 1, first, n, y);
    if (l->factor) scale_rows(c, f, l->factor, first, n, y);
    if (l->rows) put_rows(c, f, l, first, n, y);
    for (int64_t i = 0; l->addend && i < n * c->columns; i++)
        y[i] += l->addend[first * c->columns + i];
    return ZT_OK;
}

/* A product alone is added without what it is added to. */
static bool is_product(const lora_part *p)
{
    return p->a >= 0 && p->whole < 0 && p->magnitude < 0 && p->rows < 0 && p->addend < 0;
}

zt_status zt_adapted_rows(zt_adapted *a, const adapted_change *c, const adapted_loaded *loaded,
                          int64_t first, int64_t n, float *y, float *x)
{
    zt_status s = base_rows(a, c, first, n, y);
    for (int k = 0; k < c->n && s == ZT_OK; k++) {
        const adapted_item *item = &c->item[k];
        if (is_product(item->fit.part)) {
            add_product(c, &item->fit, &loaded[k], (float)item->scale, first, n, y);
        } else if (c->n == 1 && item->scale == 1) {
            s = apply(c, item, &loaded[k], first, n, y);
        } else {
            int64_t count = n * c->columns;
            float *base = x, *with = x + count;
            s = base_rows(a, c, first, n, base);
            memcpy(with, base, (size_t)count * sizeof *with);
            if (s == ZT_OK) s = apply(c, item, &loaded[k], first, n, with);
            for (int64_t i = 0; s == ZT_OK && i < count; i++)
                y[i] += (float)item->scale * (with[i] - base[i]);
        }
    }
    return s;
}

/* ---- into memory ----------------------------------------------------------------------------- */

/* DoRA's factors: what there is of each output's length, to what it shall be. */
static zt_status load_factor(zt_adapted *a, const adapted_change *c, const adapted_item *item,
                             adapted_loaded *out)
{
    enum { STRIP = 1 << 16 };
    const lora_fit *f = &item->fit;
    int64_t n = f->flipped ? c->columns : c->rows;
    int64_t strip = c->columns && c->columns < STRIP ? STRIP / c->columns : 1;
    double *sum = zt_calloc(a->ctx, (size_t)n + 1, sizeof *sum);
    float *y = zt_alloc_array(a->ctx, (size_t)(strip * c->columns) + 1, sizeof *y);
    zt_status s = sum && y ? read_all(f->lora, f->part->magnitude, &out->factor) : ZT_ENOMEM;
    if (s == ZT_OK && !f->flipped) s = pair(a->ctx, &out->factor, n, 1, f->heads);
    for (int64_t first = 0; first < c->rows && s == ZT_OK; first += strip) {
        int64_t k = c->rows - first < strip ? c->rows - first : strip;
        s = base_rows(a, c, first, k, y);
        if (s == ZT_OK && f->part->whole >= 0) s = whole_rows(c, f, out, first, k, y);
        if (s == ZT_OK) add_product(c, f, out, 1, first, k, y);
        for (int64_t i = 0; s == ZT_OK && i < k * c->columns; i++)
            sum[f->flipped ? i % c->columns : first + i / c->columns] += (double)y[i] * y[i];
    }
    for (int64_t i = 0; s == ZT_OK && i < n; i++)
        out->factor[i] = (float)(out->factor[i] / sqrt(sum[i]));
    zt_free(a->ctx, sum);
    zt_free(a->ctx, y);
    return s;
}

zt_status zt_adapted_load(zt_adapted *a, const adapted_change *c, const adapted_item *item,
                          adapted_loaded *out)
{
    const lora_fit *f = &item->fit;
    const lora_part *p = f->part;
    zt_status s = ZT_OK;
    *out = (adapted_loaded){0};
    if (p->whole >= 0 && f->turned && c->columns) {
        zt_entry e;
        zt_checkpoint_get(f->lora->file, p->whole, &e);
        if (e.type.rank == 2) {
            s = read_all(f->lora, p->whole, &out->whole);
            if (s == ZT_OK) s = transpose(a->ctx, &out->whole, c->columns, c->rows);
        }
    }
    if (s == ZT_OK && p->a >= 0) s = load_product(a, c, f, out);
    if (s == ZT_OK && p->magnitude >= 0) s = load_factor(a, c, item, out);
    if (s == ZT_OK && p->rows >= 0) s = read_all(f->lora, p->rows, &out->rows);
    if (s == ZT_OK && p->addend >= 0) {
        s = read_all(f->lora, p->addend, &out->addend);
        if (s == ZT_OK) s = pair(a->ctx, &out->addend, c->rows * c->columns, 1, f->heads);
        for (int64_t i = 0; s == ZT_OK && i < c->rows * c->columns; i++)
            out->addend[i] = (float)(out->addend[i] * p->scale);
    }
    if (s != ZT_OK) zt_adapted_unload(a->ctx, out);
    return s;
}

void zt_adapted_unload(zt_ctx *ctx, adapted_loaded *l)
{
    float *all[] = {l->left, l->right, l->factor, l->whole, l->rows, l->addend};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) zt_free(ctx, all[i]);
    *l = (adapted_loaded){0};
}
