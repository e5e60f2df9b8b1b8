/* hf_back_tensors.c - owns model.safetensors as it is written: names, shapes and dtypes first, then
 * the values in GGUF's order, with what the converter did to them undone.
 *
 * Memory: pieces of a mebibyte, and one matrix that is transposed. */
#include "lib/llm/hf/hf_back.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 20 };

typedef struct out {
    zt_str name;
    zt_type type, from; /* as written, as stored */
    unsigned todo;
    int64_t heads; /* whose rows are apart again; 0: none */
    int64_t handle;
} out;

/* ---- what each becomes ----------------------------------------------------------------------- */

/* Tensors that config.json says instead. */
static bool is_said(const char *name)
{
    return strncmp(name, "rope_", 5) == 0;
}

/* Vectors stay in f32; of matrices what is asked for, else what they are stored in, blocks f16. */
static zt_dtype dtype_of(const hf_back *b, const zt_type *from)
{
    bool plain = from->dtype == ZT_F32 || from->dtype == ZT_F16 || from->dtype == ZT_BF16;
    if (from->rank < 2)
        return plain ? from->dtype : ZT_F32;
    return b->opts.dtype != ZT_DTYPE_COUNT ? b->opts.dtype : plain ? from->dtype : ZT_F16;
}

static zt_status plan(hf_back *b, int64_t i, out *o)
{
    const char *name = zt_gguf_tensor(b->g, i, &o->from, NULL, NULL);
    zt_store store = zt_gguf_store(b->g);
    zt_status s = zt_hf_name_back(b->ctx, b->arch, name, &o->name, &o->todo);
    if (s == ZT_OK)
        s = store.find(store.user, name, &o->from, &o->handle);
    if (s != ZT_OK)
        return s;
    o->type = o->from;
    o->type.dtype = dtype_of(b, &o->from);
    o->heads = 0;
    if ((o->todo & (HF_PAIR_Q | HF_PAIR_K)) && (HF_SET(b->arch->id) & HF_PAIRED))
        o->heads = o->todo & HF_PAIR_Q ? b->h.n_heads : b->h.n_kv_heads;
    if (o->from.rank != 2)
        o->todo &= ~(unsigned)HF_TRANSPOSE;
    if (!(HF_SET(b->arch->id) & HF_GEMMAS))
        o->todo &= ~(unsigned)HF_NORM;
    if (o->todo & HF_TRANSPOSE) {
        o->type.dim[0] = o->from.dim[1];
        o->type.dim[1] = o->from.dim[0];
    }
    return ZT_OK;
}

/* ---- the header ------------------------------------------------------------------------------ */

static const char *word_of(zt_dtype t)
{
    return t == ZT_F16 ? "F16" : t == ZT_BF16 ? "BF16" : "F32";
}

static zt_status put_entry(zt_str *head, const out *o, uint64_t at)
{
    char text[200];
    int n = 0;
    for (int d = 0; d < o->type.rank; d++)
        n += snprintf(text + n, sizeof text - (size_t)n, d ? ",%" PRId64 : "%" PRId64,
                      o->type.dim[d]);
    return zt_str_printf(
        head,
        ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
        o->name.data, word_of(o->type.dtype), text, at, at + zt_type_bytes(&o->type));
}

static zt_status make_header(hf_back *b, out *o, zt_str *head)
{
    uint64_t at = 0, n;
    zt_status s = zt_str_put(head, "\0\0\0\0\0\0\0\0", 8);
    if (s == ZT_OK)
        s = zt_str_puts(head, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int64_t i = 0; s == ZT_OK && i < zt_gguf_n_tensors(b->g); i++) {
        if (is_said(zt_gguf_tensor(b->g, i, &(zt_type){0}, NULL, NULL)))
            continue;
        s = plan(b, i, o);
        if (s == ZT_OK)
            s = put_entry(head, o, at);
        at += zt_type_bytes(&o->type);
    }
    if (s == ZT_OK)
        s = zt_str_putc(head, '}');
    while (s == ZT_OK && head->len % 8)
        s = zt_str_putc(head, ' ');
    n = head->len - 8;
    for (int i = 0; s == ZT_OK && i < 8; i++)
        head->data[i] = (char)(n >> 8 * i);
    return s;
}

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct writer {
    hf_back *b;
    zt_store store;
    zt_sink *sink;
    char *raw, *bytes; /* PIECE or one row, whichever is more */
    float *value;
    size_t raw_room, values_room;
} writer;

static zt_status grow(writer *w, size_t raw, size_t values)
{
    zt_ctx *ctx = w->b->ctx;
    if (raw > w->raw_room) {
        zt_free(ctx, w->raw);
        w->raw = zt_alloc(ctx, raw);
        w->raw_room = w->raw ? raw : 0;
    }
    if (values > w->values_room) {
        zt_free(ctx, w->value);
        zt_free(ctx, w->bytes);
        w->value = zt_alloc_array(ctx, values, sizeof *w->value);
        w->bytes = zt_alloc_array(ctx, values, sizeof(float));
        w->values_room = w->value && w->bytes ? values : 0;
    }
    return (raw && !w->raw) || (values && !w->values_room) ? ZT_ENOMEM : ZT_OK;
}

/* n values that lie in w->raw as `from`, written as the tensor is. */
static zt_status put_values(writer *w, const out *o, int64_t n)
{
    if (w->b->opts.stop && w->b->opts.stop())
        return zt_fail(w->b->ctx, ZT_EINTR, "interrupted");
    const zt_dtype_info *from = zt_dtype_get(o->from.dtype), *to = zt_dtype_get(o->type.dtype);
    if (o->from.dtype == o->type.dtype && !(o->todo & HF_NORM))
        return zt_sink_write(w->sink, w->raw, (size_t)n * (size_t)to->block_bytes);
    from->decode(w->raw, w->value, n);
    for (int64_t i = 0; (o->todo & HF_NORM) && i < n; i++)
        w->value[i] -= 1;
    for (int64_t i = 0; o->type.dtype == ZT_F16 && i < n; i++)
        if (fabsf(w->value[i]) >= 65520 && isfinite(w->value[i]))
            return zt_fail(w->b->ctx, ZT_ENOTSUP,
                           "%s: tensor '%s' has the value %g, too large for f16: take bf16",
                           w->b->file, o->name.data, (double)w->value[i]);
    to->encode(w->value, w->bytes, n);
    return zt_sink_write(w->sink, w->bytes, (size_t)n * (size_t)to->block_bytes);
}

/* Of a vector each value is a row. */
static size_t row_bytes(const zt_type *t)
{
    zt_type one = *t;
    if (t->rank)
        one.dim[0] = 1;
    return zt_type_bytes(&one);
}

/* The row of the GGUF tensor that becomes row r of the tensor written. GGUF interleaves the two halves
 * of each head's rows (rope); with heads of four rows:
 *
 *     r, written     0  1  2  3
 *     row in GGUF    0  2  1  3
 */
static int64_t stored_row(const out *o, int64_t r)
{
    if (o->heads == 0)
        return r;
    int64_t head = o->from.dim[0] / o->heads, half = head / 2, in = r % head;
    return r - in + (in < half ? 2 * in : 2 * (in - half) + 1);
}

static zt_status write_rows(writer *w, const out *o)
{
    int64_t rows = o->from.rank ? o->from.dim[0] : 1;
    if (rows == 0)
        return ZT_OK;
    int64_t width = zt_type_count(&o->from) / rows;
    size_t row = row_bytes(&o->from);
    int64_t most = o->heads ? 1 : row && row < PIECE ? (int64_t)(PIECE / row) : 1;
    zt_status s = grow(w, (size_t)most * row, (size_t)(most * width));
    for (int64_t r = 0, k; s == ZT_OK && r < rows; r += k) {
        k = rows - r < most ? rows - r : most;
        s = w->store.read(w->store.user, o->handle, (size_t)stored_row(o, r) * row, w->raw,
                          (size_t)k * row);
        if (s == ZT_OK)
            s = put_values(w, o, k * width);
    }
    return s;
}

/* The whole of it as f32, then column by column. */
static zt_status write_columns(writer *w, const out *o)
{
    const zt_dtype_info *from = zt_dtype_get(o->from.dtype), *to = zt_dtype_get(o->type.dtype);
    int64_t rows = o->from.dim[0], columns = o->from.dim[1], n = rows * columns;
    float *all = zt_alloc_array(w->b->ctx, (size_t)n, sizeof *all);
    size_t bytes = zt_type_bytes(&o->from);
    zt_status s = all ? grow(w, bytes, (size_t)rows) : ZT_ENOMEM;
    if (s == ZT_OK)
        s = w->store.read(w->store.user, o->handle, 0, w->raw, bytes);
    if (s == ZT_OK)
        from->decode(w->raw, all, n);
    for (int64_t c = 0; s == ZT_OK && c < columns; c++) {
        for (int64_t r = 0; r < rows; r++)
            w->value[r] = all[r * columns + c];
        to->encode(w->value, w->bytes, rows);
        s = zt_sink_write(w->sink, w->bytes, (size_t)rows * (size_t)to->block_bytes);
    }
    zt_free(w->b->ctx, all);
    return s;
}

static zt_status write_data(writer *w, out *o)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; s == ZT_OK && i < zt_gguf_n_tensors(w->b->g); i++) {
        if (is_said(zt_gguf_tensor(w->b->g, i, &(zt_type){0}, NULL, NULL)))
            continue;
        s = plan(w->b, i, o);
        if (s == ZT_OK)
            s = o->todo & HF_TRANSPOSE ? write_columns(w, o) : write_rows(w, o);
    }
    return s;
}

zt_status zt_back_tensors(hf_back *b)
{
    writer w = {.b = b, .store = zt_gguf_store(b->g)};
    out o = {.handle = -1};
    zt_str head;
    size_t len = b->dir.len;
    zt_str_init(&head, b->ctx);
    zt_str_init(&o.name, b->ctx);
    zt_status s = make_header(b, &o, &head);
    if (s == ZT_OK)
        s = zt_str_puts(&b->dir, "model.safetensors");
    if (s == ZT_OK)
        w.sink = zt_sink_open(b->ctx, b->dir.data, false);
    b->dir.len = len;
    b->dir.data[len] = 0;
    if (s == ZT_OK)
        s = w.sink ? zt_sink_write(w.sink, head.data, head.len) : zt_ctx_status(b->ctx);
    if (s == ZT_OK)
        s = write_data(&w, &o);
    if (s == ZT_OK)
        s = zt_sink_commit(w.sink);
    zt_sink_close(w.sink);
    zt_free(b->ctx, w.raw);
    zt_free(b->ctx, w.bytes);
    zt_free(b->ctx, w.value);
    zt_str_fini(&o.name);
    zt_str_fini(&head);
    return s;
}
