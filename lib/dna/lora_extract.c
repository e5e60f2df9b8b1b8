/* lora_extract.c - owns the making of adapters from two models. */
#include "lib/dna/lora.h"

#include "lib/dna/lora_part.h"
#include "lib/dna/svd.h"

#include "lib/dna/merge_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct matrix {
    int64_t base, tuned;          /* tensors */
    int64_t rows, columns, heads; /* heads: rows are paired on the way to Hugging Face's order */
} matrix;

struct zt_extract {
    zt_ctx *ctx;
    zt_arena *arena;
    zt_checkpoint *base, *tuned;
    zt_extract_opts o;
    matrix *matrix;
    zt_entry *entry; /* [2 n] */
    int64_t n, left;
    zt_meta *meta;
    zt_pool *pool;
    double all2, has2; /* sums of squares: of the differences, of what the adapters have */
};

/* ---- what is taken --------------------------------------------------------------------------- */

static bool is_float(const zt_entry *e)
{
    return e->type.rank >= 0 && e->type.dtype != ZT_DTYPE_COUNT &&
           zt_dtype_is_float(e->type.dtype) && zt_dtype_get(e->type.dtype)->decode;
}

static bool same_shape(const zt_type *a, const zt_type *b)
{
    return a->rank == b->rank && !memcmp(a->dim, b->dim, sizeof a->dim);
}

/* Are the bytes of both the same? */
static zt_status compare(zt_extract *x, int64_t a, int64_t b, const zt_entry *e, bool *same)
{
    enum { BYTES = 1 << 15 };
    char p[BYTES], q[BYTES];
    zt_status s = ZT_OK;
    *same = true;
    for (uint64_t at = 0, k; at < e->bytes && *same && s == ZT_OK; at += k) {
        k = e->bytes - at < BYTES ? e->bytes - at : BYTES;
        s = zt_checkpoint_read(x->base, a, at, p, (size_t)k);
        if (s == ZT_OK) s = zt_checkpoint_read(x->tuned, b, at, q, (size_t)k);
        *same = s == ZT_OK && !memcmp(p, q, (size_t)k);
    }
    return s;
}

static bool is_embedding(const char *name)
{
    return strstr(name, "embd") || strstr(name, "embed") || strstr(name, "wte") ||
           strstr(name, "wpe");
}

/* "base_model.model.MODULE.lora_A.weight", or "NAME.lora_a". */
static const char *name_of(zt_extract *x, const char *tensor, bool b)
{
    char hf[256];
    const char *name = x->o.peft ? zt_merge_hf_name(tensor, hf, sizeof hf) : NULL;
    name = name ? name : tensor;
    size_t n = strlen(name), w = strlen(".weight");
    char *out = zt_arena_alloc(x->arena, n + 64);
    if (!out) return NULL;
    if (x->o.peft && n > w && !strcmp(name + n - w, ".weight")) n -= w;
    if (x->o.peft)
        snprintf(out, n + 64, "base_model.model.%.*s.lora_%s.weight", (int)n, name, b ? "B" : "A");
    else
        snprintf(out, n + 64, "%s.lora_%s", name, b ? "b" : "a");
    return out;
}

/* A model with GGUF's names has a name for PEFT where the way back is the same. */
static zt_status check_name(const zt_extract *x, const char *tensor)
{
    const zt_meta *m = zt_checkpoint_meta(x->base);
    int64_t at = zt_meta_find(m, "general.architecture");
    zt_bytes of = at >= 0 ? zt_meta_text(zt_meta_get(m, at)) : (zt_bytes){NULL, 0};
    char hf[256], arch[65], shown[160], name[80];
    zt_lora_place place;
    if (!x->o.peft || !of.data) return ZT_OK;
    snprintf(arch, sizeof arch, "%.*s", (int)(of.n < 64 ? of.n : 64), of.data);
    if (x->o.place && zt_merge_hf_name(tensor, hf, sizeof hf) && x->o.place(arch, hf, &place) &&
        !strcmp(place.name, tensor) && !place.transposed)
        return ZT_OK;
    return zt_fail(x->ctx, ZT_ENOTSUP,
                   "%s: PEFT's name for '%s' of the architecture '%s' is not known here: write a "
                   "GGUF",
                   zt_checkpoint_name(x->base),
                   zt_escape(shown, sizeof shown, tensor, strlen(tensor)),
                   zt_escape(name, sizeof name, arch, strlen(arch)));
}

static zt_status add(zt_extract *x, int64_t i, int64_t other, const zt_entry *e)
{
    matrix *m = &x->matrix[x->n];
    char hf[256], shown[160];
    const char *a = name_of(x, e->name, false), *b = name_of(x, e->name, true);
    if (!a || !b) return ZT_ENOMEM;
    zt_status s = check_name(x, e->name);
    if (s != ZT_OK) return s;
    *m = (matrix){.base = i, .tuned = other, .rows = e->type.dim[0], .columns = e->type.dim[1]};
    if (x->o.peft && zt_merge_hf_name(e->name, hf, sizeof hf))
        m->heads = zt_lora_heads(x->base, e->name);
    if (m->heads < 0 || (m->heads && m->rows % (2 * m->heads)))
        return zt_fail(x->ctx, ZT_EDATA, "%s: '%s': the number of heads is not known",
                       zt_checkpoint_name(x->base),
                       zt_escape(shown, sizeof shown, e->name, strlen(e->name)));
    zt_type ta = zt_type_make(ZT_F32, 2, (const int64_t[]){x->o.rank, m->columns});
    zt_type tb = zt_type_make(ZT_F32, 2, (const int64_t[]){m->rows, x->o.rank});
    size_t na, nb;
    if (!zt_type_check(x->ctx, &ta, &na) || !zt_type_check(x->ctx, &tb, &nb)) return ZT_EDATA;
    x->entry[2 * x->n] = (zt_entry){.name = a, .dtype = "f32", .type = ta, .bytes = na};
    x->entry[2 * x->n + 1] = (zt_entry){.name = b, .dtype = "f32", .type = tb, .bytes = nb};
    x->n++;
    return ZT_OK;
}

static zt_status consider(zt_extract *x, int64_t i)
{
    zt_entry e, t;
    char shown[160];
    bool same = false;
    zt_checkpoint_get(x->base, i, &e);
    int64_t other = zt_checkpoint_find(x->tuned, e.name);
    if (other < 0 || !is_float(&e)) return ZT_OK;
    zt_checkpoint_get(x->tuned, other, &t);
    if (!is_float(&t) || !same_shape(&e.type, &t.type))
        return zt_fail(x->ctx, ZT_ESHAPE, "%s: tensor '%s' is of another shape than in %s",
                       zt_checkpoint_name(x->tuned),
                       zt_escape(shown, sizeof shown, e.name, strlen(e.name)),
                       zt_checkpoint_name(x->base));
    zt_status s = e.type.dtype == t.type.dtype ? compare(x, i, other, &e, &same) : ZT_OK;
    if (s != ZT_OK || same) return s;
    if (e.type.rank == 2 && !is_embedding(e.name)) return add(x, i, other, &e);
    x->left++;
    return ZT_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static zt_status put_meta(zt_extract *x)
{
    const zt_meta *of = zt_checkpoint_meta(x->base);
    int64_t at = zt_meta_find(of, "general.architecture");
    float alpha = (float)x->o.rank;
    x->meta = zt_meta_new(x->ctx);
    if (!x->meta || x->o.peft) return x->meta ? ZT_OK : ZT_ENOMEM;
    zt_status s = ZT_OK;
    if (at >= 0) {
        const zt_meta_item *item = zt_meta_get(of, at);
        s = zt_meta_put(x->meta, item->key.data, item->kind, item->value, item->bytes);
    }
    if (s == ZT_OK) s = zt_meta_put_str(x->meta, "general.type", "adapter", 7);
    if (s == ZT_OK) s = zt_meta_put_str(x->meta, "adapter.type", "lora", 4);
    return s == ZT_OK
               ? zt_meta_put(x->meta, "adapter.lora.alpha", ZT_GGUF_F32, &alpha, sizeof alpha)
               : s;
}

static zt_status begin(zt_extract *x)
{
    int64_t n = zt_checkpoint_count(x->base);
    int threads = x->o.threads ? x->o.threads : zt_cpu_count();
    x->arena = zt_arena_new(x->ctx, 0);
    x->matrix = zt_calloc(x->ctx, (size_t)n + 1, sizeof *x->matrix);
    x->entry = zt_calloc(x->ctx, 2 * (size_t)n + 1, sizeof *x->entry);
    x->pool = zt_pool_new(x->ctx, threads > 256 ? 256 : threads);
    if (!x->arena || !x->matrix || !x->entry || !x->pool) return ZT_ENOMEM;
    if (!zt_checkpoint_meta(x->base)) return zt_ctx_status(x->ctx); /* from now on it is there */
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < n && s == ZT_OK; i++) s = consider(x, i);
    for (int64_t i = 0; i < zt_checkpoint_count(x->tuned); i++) { /* what the base does not have */
        zt_entry e;
        zt_checkpoint_get(x->tuned, i, &e);
        x->left += zt_checkpoint_find(x->base, e.name) < 0;
    }
    if (s == ZT_OK && !x->n)
        s = zt_fail(x->ctx, ZT_EDATA, "%s: has no matrix that is another one in %s",
                    zt_checkpoint_name(x->tuned), zt_checkpoint_name(x->base));
    return s == ZT_OK ? put_meta(x) : s;
}

zt_extract *zt_extract_new(zt_ctx *ctx, zt_checkpoint *base, zt_checkpoint *tuned,
                           const zt_extract_opts *o)
{
    zt_extract *x = zt_calloc(ctx, 1, sizeof *x);
    if (!x) return NULL;
    *x = (zt_extract){.ctx = ctx, .base = base, .tuned = tuned, .o = *o};
    if (begin(x) == ZT_OK) return x;
    zt_extract_free(x);
    return NULL;
}

void zt_extract_free(zt_extract *x)
{
    if (!x) return;
    zt_meta_free(x->meta);
    zt_pool_free(x->pool);
    zt_free(x->ctx, x->matrix);
    zt_free(x->ctx, x->entry);
    zt_arena_free(x->arena);
    zt_free(x->ctx, x);
}

int64_t zt_extract_count(const zt_extract *x) { return 2 * x->n; }
const zt_entry *zt_extract_entries(const zt_extract *x) { return x->entry; }
zt_meta *zt_extract_meta(zt_extract *x) { return x->meta; }
int64_t zt_extract_left(const zt_extract *x) { return x->left; }
double zt_extract_share(const zt_extract *x) { return x->all2 > 0 ? x->has2 / x->all2 : 1; }

/* ---- values ---------------------------------------------------------------------------------- */

/* d = sign values of a tensor, added; row by row, so that little is in memory beside. */
static zt_status add_values(zt_extract *x, zt_checkpoint *c, int64_t tensor, const matrix *m,
                            float sign, float *d)
{
    zt_entry e;
    zt_checkpoint_get(c, tensor, &e);
    const zt_dtype_info *type = zt_dtype_get(e.type.dtype);
    size_t bytes = (size_t)(m->columns / type->block) * (size_t)type->block_bytes;
    char *raw = zt_alloc(x->ctx, bytes);
    float *row = zt_alloc_array(x->ctx, (size_t)m->columns + 1, sizeof *row);
    zt_status s = raw && row ? ZT_OK : ZT_ENOMEM;
    for (int64_t r = 0; r < m->rows && s == ZT_OK; r++) {
        s = zt_checkpoint_read(c, tensor, (uint64_t)r * bytes, raw, bytes);
        if (s != ZT_OK) break;
        if (e.type.dtype == ZT_F32)
            memcpy(row, raw, bytes);
        else
            type->decode(raw, row, m->columns);
        zt_merge_loops()->add(d + r * m->columns, row, sign, m->columns);
    }
    zt_free(x->ctx, raw);
    zt_free(x->ctx, row);
    return s;
}

/* B [rows, rank] of left [rank, rows]; of paired rows in Hugging Face's order. */
static void put_left(const zt_svd *v, int64_t heads, float *b)
{
    int64_t d = heads ? v->rows / heads : v->rows;
    for (int64_t r = 0; r < v->rows; r++) {
        int64_t to = heads ? r / d * d + r % 2 * (d / 2) + r % d / 2 : r;
        for (int64_t k = 0; k < v->rank; k++) b[to * v->rank + k] = v->left[k * v->rows + r];
    }
}

static zt_status find(zt_extract *x, const matrix *m, float *d, zt_svd *v)
{
    zt_status s = add_values(x, x->tuned, m->tuned, m, 1, d);
    if (s == ZT_OK) s = add_values(x, x->base, m->base, m, -1, d);
    if (s == ZT_OK) s = zt_svd_find(x->ctx, x->pool, d, v);
    if (s != ZT_OK) return s;
    for (int64_t r = 0; r < m->rows; r++)
        x->all2 += zt_merge_loops()->dot(d + r * m->columns, d + r * m->columns, m->columns);
    for (int64_t k = 0; k < v->rank; k++) x->has2 += v->value[k] * v->value[k];
    return ZT_OK;
}

static zt_status write_one(zt_extract *x, const matrix *m, zt_writer *w)
{
    size_t cells, r = (size_t)x->o.rank;
    if (!zt_mul_size((size_t)m->rows, (size_t)m->columns, &cells))
        return zt_fail(x->ctx, ZT_ENOMEM, "a matrix too large");
    zt_svd v = {.rows = m->rows, .columns = m->columns, .rank = x->o.rank, .seed = x->o.seed};
    float *d = zt_calloc(x->ctx, cells + 1, sizeof *d),
          *b = zt_alloc_array(x->ctx, (size_t)m->rows * r + 1, sizeof *b);
    v.left = zt_alloc_array(x->ctx, (size_t)m->rows * r + 1, sizeof *v.left);
    v.right = zt_alloc_array(x->ctx, (size_t)m->columns * r + 1, sizeof *v.right);
    v.value = zt_alloc_array(x->ctx, r + 1, sizeof *v.value);
    zt_status s = d && b && v.left && v.right && v.value ? find(x, m, d, &v) : ZT_ENOMEM;
    if (s == ZT_OK) put_left(&v, m->heads, b);
    if (s == ZT_OK) s = zt_writer_put(w, v.right, (size_t)m->columns * r * sizeof *v.right);
    if (s == ZT_OK) s = zt_writer_put(w, b, (size_t)m->rows * r * sizeof *b);
    zt_free(x->ctx, d);
    zt_free(x->ctx, b);
    zt_free(x->ctx, v.left);
    zt_free(x->ctx, v.right);
    zt_free(x->ctx, v.value);
    return s;
}

zt_status zt_extract_write(zt_extract *x, zt_writer *w)
{
    zt_status s = ZT_OK;
    x->all2 = x->has2 = 0;
    for (int64_t i = 0; i < x->n && s == ZT_OK; i++) {
        if (x->o.stop && x->o.stop()) return zt_fail(x->ctx, ZT_EINTR, "interrupted");
        zt_entry e;
        zt_checkpoint_get(x->base, x->matrix[i].base, &e);
        if (x->o.progress) x->o.progress(x->o.user, e.name, (double)i, (double)x->n);
        s = write_one(x, &x->matrix[i], w);
    }
    return s;
}
