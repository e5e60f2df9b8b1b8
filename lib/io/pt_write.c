/* pt_write.c - owns writing checkpoints: a zip whose storages stream out first and whose pickle, an
 * OrderedDict of tensors, follows them. */
#include "lib/base/require.h"
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
    zt_arena *arena;
    zt_map *names;
    zt_str pickle; /* of the tensors so far */
    int64_t tensor_count;
};

static const pk_dtype *find_dtype(zt_dtype dtype)
{
    for (size_t i = 0; i < zt_pk_n_dtypes; i++)
        if (zt_pk_dtypes[i].dtype == dtype) return &zt_pk_dtypes[i];
    return NULL;
}

bool zt_pt_can(const zt_type *type) { return type && type->dtype < ZT_DTYPE_COUNT && find_dtype(type->dtype); }

void zt_pt_writer_free(zt_pt_writer *writer)
{
    if (!writer) return;
    zt_zip_writer_free(writer->zip);
    zt_map_free(writer->names);
    zt_arena_free(writer->arena);
    zt_str_fini(&writer->pickle);
    zt_free(writer->ctx, writer);
}

zt_pt_writer *zt_pt_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_pt_writer *writer = zt_calloc(ctx, 1, sizeof *writer);
    if (!writer) return NULL;
    writer->ctx = ctx;
    zt_str_init(&writer->pickle, ctx);
    writer->zip = zt_zip_writer_new(ctx, out);
    writer->arena = writer->zip ? zt_arena_new(ctx, 4096) : NULL;
    writer->names = writer->arena ? zt_map_new(ctx, 64) : NULL;
    /* protocol 2; OrderedDict(); mark */
    if (writer->names && zt_str_puts(&writer->pickle, "\x80\x02"
                                                      "ccollections\nOrderedDict\n)R(") == ZT_OK)
        return writer;
    zt_pt_writer_free(writer);
    return NULL;
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static void put_le(zt_str *out, uint64_t value, int width)
{
    for (int i = 0; i < width; i++) zt_str_putc(out, (char)(value >> 8 * i));
}

static void put_text(zt_str *out, const char *text)
{
    zt_str_putc(out, 'X'); /* BINUNICODE */
    put_le(out, strlen(text), 4);
    zt_str_puts(out, text);
}

/* In the shortest way that there is, as Python's pickler does. */
static void put_int(zt_str *out, int64_t value)
{
    if (value < 256) {
        zt_str_putc(out, 'K');
        put_le(out, (uint64_t)value, 1);
    } else if (value < 65536) {
        zt_str_putc(out, 'M');
        put_le(out, (uint64_t)value, 2);
    } else if (value <= INT32_MAX) {
        zt_str_putc(out, 'J');
        put_le(out, (uint64_t)value, 4);
    } else {
        zt_str_puts(out, "\x8a\x08"); /* LONG1 */
        put_le(out, (uint64_t)value, 8);
    }
}

static void put_shape(zt_str *out, const zt_type *type)
{
    zt_str_putc(out, '(');
    for (int i = 0; i < type->rank; i++) put_int(out, type->dim[i]);
    zt_str_putc(out, 't');
}

/* Row-major, in elements. */
static void put_strides(zt_str *out, const zt_type *type)
{
    zt_str_putc(out, '(');
    for (int i = 0; i < type->rank; i++) {
        int64_t step = 1;
        for (int k = i + 1; k < type->rank; k++) step *= type->dim[k] ? type->dim[k] : 1;
        put_int(out, step);
    }
    zt_str_putc(out, 't');
}

/* The persistent id of storage `key`, and what is looked up by it. */
static void put_storage(zt_str *out, const pk_dtype *dtype, const char *key, const zt_type *type)
{
    int64_t bytes = (int64_t)zt_type_bytes(type);
    zt_str_putc(out, '(');
    put_text(out, "storage");
    if (dtype->storage)
        zt_str_printf(out, "ctorch\n%s\n", dtype->storage);
    else
        zt_str_puts(out, "ctorch.storage\nUntypedStorage\n");
    put_text(out, key);
    put_text(out, "cpu");
    put_int(out, dtype->storage ? bytes / (int64_t)dtype->item : bytes);
    zt_str_puts(out, "tQ");
}

/* _rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()), or _v3 with a dtype. */
static void put_tensor(zt_str *out, const char *name, const char *key, const zt_type *type)
{
    const pk_dtype *dtype = find_dtype(type->dtype);
    put_text(out, name);
    zt_str_printf(out, "ctorch._utils\n_rebuild_tensor_v%d\n(", dtype->storage ? 2 : 3);
    put_storage(out, dtype, key, type);
    put_int(out, 0);
    put_shape(out, type);
    put_strides(out, type);
    zt_str_puts(out, "\x89"
                     "ccollections\nOrderedDict\n)R");
    if (!dtype->storage) zt_str_printf(out, "ctorch\n%s\n", dtype->name);
    zt_str_puts(out, "tR");
}

/* ---- members --------------------------------------------------------------------------------- */

/* Is the name UTF-8, which PyTorch's texts are, and new? */
static zt_status check_name(zt_pt_writer *writer, const char *name)
{
    char text[160];
    size_t length = strlen(name);
    if (!zt_utf8_valid(name, length))
        return zt_fail(writer->ctx, ZT_ENOTSUP, "pt cannot store the name '%s': not valid UTF-8",
                       zt_escape(text, sizeof text, name, length));
    if (zt_map_get(writer->names, name, length, NULL))
        return zt_fail(writer->ctx, ZT_EUSAGE, "duplicate tensor '%s'", zt_escape(text, sizeof text, name, length));
    const char *kept = zt_arena_strndup(writer->arena, name, length);
    return kept ? zt_map_put(writer->names, kept, length, 0) : ZT_ENOMEM;
}

zt_status zt_pt_begin(zt_pt_writer *writer, const char *name, const zt_type *type)
{
    if (!writer) return ZT_EUSAGE;
    ZT_REQUIRE(writer->ctx, name && type, ZT_EUSAGE);
    char key[32], member[64];
    size_t bytes;
    if (!zt_type_check(writer->ctx, type, &bytes)) return zt_ctx_status(writer->ctx);
    if (!zt_pt_can(type)) return zt_fail(writer->ctx, ZT_ENOTSUP, "pt cannot store dtype %s", zt_dtype_get(type->dtype)->name);
    zt_status status = check_name(writer, name);
    if (status != ZT_OK) return status;
    snprintf(key, sizeof key, "%" PRId64, writer->tensor_count);
    snprintf(member, sizeof member, "archive/data/%s", key);
    put_tensor(&writer->pickle, name, key, type);
    status = zt_ctx_status(writer->ctx);
    if (status == ZT_OK) status = zt_zip_begin(writer->zip, member, bytes, ALIGN);
    writer->tensor_count += status == ZT_OK;
    return status;
}

zt_status zt_pt_write(zt_pt_writer *writer, const void *bytes, size_t size)
{
    return writer ? zt_zip_write(writer->zip, bytes, size) : ZT_EUSAGE;
}

static zt_status put_record(zt_pt_writer *writer, const char *name, const char *bytes, size_t size)
{
    zt_status status = zt_zip_begin(writer->zip, name, size, ALIGN);
    return status == ZT_OK ? zt_zip_write(writer->zip, bytes, size) : status;
}

zt_status zt_pt_finish(zt_pt_writer *writer)
{
    if (!writer) return ZT_EUSAGE;
    zt_str *pickle = &writer->pickle;
    zt_status status = zt_str_puts(pickle, "u."); /* SETITEMS, STOP */
    if (status == ZT_OK) status = put_record(writer, "archive/data.pkl", pickle->data, pickle->len);
    if (status == ZT_OK) status = put_record(writer, "archive/byteorder", "little", 6);
    if (status == ZT_OK) status = put_record(writer, "archive/version", "3\n", 2);
    return status == ZT_OK ? zt_zip_finish(writer->zip) : status;
}
