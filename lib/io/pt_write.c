/* pt_write.c - owns writing checkpoints: a zip whose storages stream out first and whose pickle, an
 * OrderedDict of tensors, follows them. */
#include "lib/io/pickle.h"
#include "lib/io/pt.h"
#include "lib/io/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 64 }; /* of storages, as PyTorch's own writer has it */

struct zt_pt_writer {
    zt_ctx *ctx;
    zt_zip_writer *zip;
    zt_arena *keep;
    zt_map *names;
    zt_str pickle; /* of the tensors so far */
    int64_t n;
};

static const pk_dtype *dtype_of(zt_dtype t)
{
    for (size_t i = 0; i < zt_pk_n_dtypes; i++)
        if (zt_pk_dtypes[i].dtype == t)
            return &zt_pk_dtypes[i];
    return NULL;
}

bool zt_pt_can(const zt_type *type)
{
    return type->dtype < ZT_DTYPE_COUNT && dtype_of(type->dtype);
}

void zt_pt_writer_free(zt_pt_writer *w)
{
    if (!w)
        return;
    zt_zip_writer_free(w->zip);
    zt_map_free(w->names);
    zt_arena_free(w->keep);
    zt_str_fini(&w->pickle);
    zt_free(w->ctx, w);
}

zt_pt_writer *zt_pt_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_pt_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w)
        return NULL;
    w->ctx = ctx;
    zt_str_init(&w->pickle, ctx);
    w->zip = zt_zip_writer_new(ctx, out);
    w->keep = w->zip ? zt_arena_new(ctx, 4096) : NULL;
    w->names = w->keep ? zt_map_new(ctx, 64) : NULL;
    /* protocol 2; OrderedDict(); mark */
    if (w->names && zt_str_puts(&w->pickle, "\x80\x02"
                                            "ccollections\nOrderedDict\n)R(") == ZT_OK)
        return w;
    zt_pt_writer_free(w);
    return NULL;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static void put_le(zt_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        zt_str_putc(s, (char)(v >> 8 * i));
}

static void put_text(zt_str *s, const char *text)
{
    zt_str_putc(s, 'X'); /* BINUNICODE */
    put_le(s, strlen(text), 4);
    zt_str_puts(s, text);
}

/* In the shortest way that there is, as Python's pickler does. */
static void put_int(zt_str *s, int64_t v)
{
    if (v < 256) {
        zt_str_putc(s, 'K');
        put_le(s, (uint64_t)v, 1);
    } else if (v < 65536) {
        zt_str_putc(s, 'M');
        put_le(s, (uint64_t)v, 2);
    } else if (v <= INT32_MAX) {
        zt_str_putc(s, 'J');
        put_le(s, (uint64_t)v, 4);
    } else {
        zt_str_puts(s, "\x8a\x08"); /* LONG1 */
        put_le(s, (uint64_t)v, 8);
    }
}

static void put_shape(zt_str *s, const zt_type *t)
{
    zt_str_putc(s, '(');
    for (int i = 0; i < t->rank; i++)
        put_int(s, t->dim[i]);
    zt_str_putc(s, 't');
}

/* Row-major, in elements. */
static void put_strides(zt_str *s, const zt_type *t)
{
    zt_str_putc(s, '(');
    for (int i = 0; i < t->rank; i++) {
        int64_t step = 1;
        for (int k = i + 1; k < t->rank; k++)
            step *= t->dim[k] ? t->dim[k] : 1;
        put_int(s, step);
    }
    zt_str_putc(s, 't');
}

/* The persistent id of storage `key`, and what is looked up by it. */
static void put_storage(zt_str *s, const pk_dtype *d, const char *key, const zt_type *t)
{
    int64_t bytes = (int64_t)zt_type_bytes(t);
    zt_str_putc(s, '(');
    put_text(s, "storage");
    if (d->storage)
        zt_str_printf(s, "ctorch\n%s\n", d->storage);
    else
        zt_str_puts(s, "ctorch.storage\nUntypedStorage\n");
    put_text(s, key);
    put_text(s, "cpu");
    put_int(s, d->storage ? bytes / (int64_t)d->item : bytes);
    zt_str_puts(s, "tQ");
}

/* _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()), or _v3 with a dtype. */
static void put_tensor(zt_str *s, const char *name, const char *key, const zt_type *t)
{
    const pk_dtype *d = dtype_of(t->dtype);
    put_text(s, name);
    zt_str_printf(s, "ctorch._utils\n_rebuild_tensor_v%d\n(", d->storage ? 2 : 3);
    put_storage(s, d, key, t);
    put_int(s, 0);
    put_shape(s, t);
    put_strides(s, t);
    zt_str_puts(s, "\x89"
                   "ccollections\nOrderedDict\n)R");
    if (!d->storage)
        zt_str_printf(s, "ctorch\n%s\n", d->name);
    zt_str_puts(s, "tR");
}

/* ---- members --------------------------------------------------------------------------------- */

/* Is the name UTF-8, which PyTorch's texts are, and new? */
static zt_status check_name(zt_pt_writer *w, const char *name)
{
    char text[160];
    size_t n = strlen(name);
    if (!zt_utf8_valid(name, n))
        return zt_fail(w->ctx, ZT_ENOTSUP, "pt has no name '%s': it is no UTF-8",
                       zt_escape(text, sizeof text, name, n));
    if (zt_map_get(w->names, name, n, NULL))
        return zt_fail(w->ctx, ZT_EUSAGE, "tensor '%s' is there twice",
                       zt_escape(text, sizeof text, name, n));
    const char *kept = zt_arena_strndup(w->keep, name, n);
    return kept ? zt_map_put(w->names, kept, n, 0) : ZT_ENOMEM;
}

zt_status zt_pt_begin(zt_pt_writer *w, const char *name, const zt_type *type)
{
    char key[32], member[64];
    size_t bytes;
    if (!zt_type_check(w->ctx, type, &bytes))
        return zt_ctx_status(w->ctx);
    if (!zt_pt_can(type))
        return zt_fail(w->ctx, ZT_ENOTSUP, "pt has no %s", zt_dtype_get(type->dtype)->name);
    zt_status st = check_name(w, name);
    if (st != ZT_OK)
        return st;
    snprintf(key, sizeof key, "%" PRId64, w->n);
    snprintf(member, sizeof member, "archive/data/%s", key);
    put_tensor(&w->pickle, name, key, type);
    st = zt_ctx_status(w->ctx);
    if (st == ZT_OK)
        st = zt_zip_begin(w->zip, member, bytes, ALIGN);
    w->n += st == ZT_OK;
    return st;
}

zt_status zt_pt_write(zt_pt_writer *w, const void *bytes, size_t n)
{
    return zt_zip_write(w->zip, bytes, n);
}

static zt_status put_record(zt_pt_writer *w, const char *name, const char *bytes, size_t n)
{
    zt_status st = zt_zip_begin(w->zip, name, n, ALIGN);
    return st == ZT_OK ? zt_zip_write(w->zip, bytes, n) : st;
}

zt_status zt_pt_finish(zt_pt_writer *w)
{
    zt_str *s = &w->pickle;
    zt_status st = zt_str_puts(s, "u."); /* SETITEMS, STOP */
    if (st == ZT_OK)
        st = put_record(w, "archive/data.pkl", s->data, s->len);
    if (st == ZT_OK)
        st = put_record(w, "archive/byteorder", "little", 6);
    if (st == ZT_OK)
        st = put_record(w, "archive/version", "3\n", 2);
    return st == ZT_OK ? zt_zip_finish(w->zip) : st;
}
