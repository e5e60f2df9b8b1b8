/* npz.c - owns .npz archives: opening, arrays by name, reading, writing. */
#include "lib/io/npz.h"
#include "lib/io/fault.h"
#include "lib/io/npy_array.h"
#include "lib/io/zip.h"

#include <string.h>

enum { ALIGN = 64 }; /* of members that are written: their arrays can be mapped */

typedef struct npz_array {
    npy_array a;
    int64_t member;
} npz_array;

struct zt_npz {
    zt_ctx *ctx;
    const char *file;
    zt_source *owned;
    zt_zip *zip;
    zt_arena *keep;
    zt_gather *gather;
    npz_array *array;
    int64_t n;
    zt_map *names;
};

bool zt_npz_sniff(const void *bytes, size_t n)
{
    return zt_zip_sniff(bytes, n);
}

/* ---- open and close -------------------------------------------------------------------------- */

/* Member i as the next array, if it is one. */
static zt_status add_member(zt_npz *z, int64_t i)
{
    static const char end[] = ".npy";
    const zt_zip_entry *e = zt_zip_get(z->zip, i);
    size_t n = strlen(e->name), k = sizeof end - 1;
    char text[160];
    if (n < k || strcmp(e->name + n - k, end) != 0)
        return ZT_OK;
    npz_array *a = &z->array[z->n];
    zt_zip_member m = {.zip = z->zip, .index = i};
    zt_str s;
    zt_str_init(&s, z->ctx);
    zt_status st =
        zt_str_printf(&s, "%s: member '%s'", z->file, zt_escape(text, sizeof text, e->name, n));
    if (st == ZT_OK)
        st = zt_npy_array_parse(z->ctx, s.data, e->size, zt_zip_fetch, &m, z->keep, &a->a);
    zt_str_fini(&s);
    if (st != ZT_OK)
        return st;
    a->member = i;
    a->a.layout.forward = e->deflated;
    a->a.e.name = zt_arena_strndup(z->keep, e->name, n - k);
    if (!a->a.e.name)
        return ZT_ENOMEM;
    return zt_map_put(z->names, a->a.e.name, n - k, z->n++);
}

static zt_status read_members(zt_npz *z)
{
    int64_t n = zt_zip_count(z->zip);
    zt_status st = ZT_OK;
    z->array = zt_alloc_array(z->ctx, (size_t)n, sizeof *z->array);
    z->names = zt_map_new(z->ctx, (size_t)n);
    if (!z->array || !z->names)
        return ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < n; i++)
        st = zt_faults_pass(z->ctx, add_member(z, i));
    if (st == ZT_OK && n && !z->n)
        st = zt_fail(z->ctx, ZT_EDATA,
                     "%s: a zip archive without an array (NAME.npy) or a checkpoint of PyTorch's: "
                     "extract it and name the model in it (unzip)",
                     z->file);
    return st;
}

zt_npz *zt_npz_from(zt_ctx *ctx, zt_source *s)
{
    zt_npz *z = zt_calloc(ctx, 1, sizeof *z);
    if (!z)
        return NULL;
    z->ctx = ctx;
    z->file = zt_source_name(s);
    z->keep = zt_arena_new(ctx, 4096);
    z->gather = z->keep ? zt_gather_new(ctx) : NULL;
    z->zip = z->gather ? zt_zip_from(ctx, s) : NULL;
    if (z->zip && read_members(z) == ZT_OK)
        return z;
    zt_npz_close(z);
    return NULL;
}

zt_npz *zt_npz_open(zt_ctx *ctx, const char *path)
{
    zt_source *s = zt_source_open(ctx, path);
    return s ? zt_npz_take(ctx, s) : NULL;
}

zt_npz *zt_npz_take(zt_ctx *ctx, zt_source *s)
{
    zt_npz *z = zt_npz_from(ctx, s);
    if (z)
        z->owned = s;
    else
        zt_source_close(s);
    return z;
}

void zt_npz_close(zt_npz *z)
{
    if (!z)
        return;
    zt_zip_close(z->zip);
    zt_gather_free(z->gather);
    zt_map_free(z->names);
    zt_arena_free(z->keep);
    zt_free(z->ctx, z->array);
    zt_source_close(z->owned);
    zt_free(z->ctx, z);
}

/* ---- arrays ---------------------------------------------------------------------------------- */

int64_t zt_npz_count(const zt_npz *z)
{
    return z->n;
}

const zt_array *zt_npz_get(const zt_npz *z, int64_t i)
{
    return &z->array[i].a.e;
}

int64_t zt_npz_find(const zt_npz *z, const char *name)
{
    return zt_map_find(z->names, name);
}

zt_status zt_npz_read(zt_npz *z, int64_t i, size_t offset, void *dst, size_t n)
{
    const npz_array *a = &z->array[i];
    zt_zip_member m = {.zip = z->zip, .index = a->member};
    zt_status st = zt_array_range(z->ctx, z->file, &a->a.e, offset, n);
    if (st != ZT_OK)
        return st;
    return zt_gather_read(z->gather, &a->a.layout, i, offset, dst, n, zt_zip_fetch, &m);
}

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    zt_npz *z = user;
    *handle = zt_npz_find(z, name);
    return *handle < 0 ? ZT_ENOENT : zt_array_type(z->ctx, z->file, zt_npz_get(z, *handle), type);
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    return zt_npz_read(user, handle, offset, dst, n);
}

zt_store zt_npz_store(zt_npz *z)
{
    return (zt_store){.user = z, .find = store_find, .read = store_read};
}

/* ---- writing --------------------------------------------------------------------------------- */

struct zt_npz_writer {
    zt_ctx *ctx;
    zt_zip_writer *zip;
};

zt_npz_writer *zt_npz_writer_new(zt_ctx *ctx, zt_sink *out)
{
    zt_npz_writer *w = zt_calloc(ctx, 1, sizeof *w);
    if (!w)
        return NULL;
    w->ctx = ctx;
    w->zip = zt_zip_writer_new(ctx, out);
    if (w->zip)
        return w;
    zt_npz_writer_free(w);
    return NULL;
}

void zt_npz_writer_free(zt_npz_writer *w)
{
    if (!w)
        return;
    zt_zip_writer_free(w->zip);
    zt_free(w->ctx, w);
}

bool zt_npz_can(const zt_type *type)
{
    return zt_npy_word(type->dtype) != NULL;
}

zt_status zt_npz_begin(zt_npz_writer *w, const char *name, const zt_type *type)
{
    zt_str head, member_name;
    size_t bytes;
    if (!zt_type_check(w->ctx, type, &bytes))
        return zt_ctx_status(w->ctx);
    zt_str_init(&head, w->ctx);
    zt_str_init(&member_name, w->ctx);
    zt_status st = zt_npy_header(&head, type);
    if (st == ZT_OK)
        st = zt_str_printf(&member_name, "%s.npy", name);
    if (st == ZT_OK)
        st = zt_zip_begin(w->zip, member_name.data, (uint64_t)head.len + bytes, ALIGN);
    if (st == ZT_OK)
        st = zt_zip_write(w->zip, head.data, head.len);
    zt_str_fini(&head);
    zt_str_fini(&member_name);
    return st;
}

zt_status zt_npz_write(zt_npz_writer *w, const void *bytes, size_t n)
{
    return zt_zip_write(w->zip, bytes, n);
}

zt_status zt_npz_finish(zt_npz_writer *w)
{
    return zt_zip_finish(w->zip);
}
