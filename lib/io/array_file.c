/* array_file.c - owns what the readers of npy, npz, PyTorch's checkpoints and network JSON share. */
#include "lib/io/array_file.h"

#include <string.h>

void *zt_array_file_new(zt_ctx *ctx, const zt_array_file_ops *ops, size_t bytes, zt_source *source, bool owns)
{
    zt_array_file *file = zt_calloc(ctx, 1, bytes);
    zt_arena *arena = file ? zt_arena_new(ctx, 4096) : NULL;
    if (!arena) {
        zt_free(ctx, file);
        if (owns) zt_source_close(source);
        return NULL;
    }
    *file = (zt_array_file){.ctx = ctx, .ops = ops, .source = source, .owns_source = owns, .arena = arena};
    file->name = source ? zt_source_name(source) : "";
    return file;
}

void zt_array_file_close(zt_array_file *file)
{
    if (!file) return;
    file->ops->close(file);
    zt_map_free(file->names);
    zt_arena_free(file->arena);
    if (file->owns_source) zt_source_close(file->source);
    zt_free(file->ctx, file);
}

int64_t zt_array_file_find(const zt_array_file *file, const char *name)
{
    return file->names ? zt_map_find(file->names, name) : *name ? -1 : 0;
}

zt_status zt_array_file_read(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size)
{
    const zt_array *array = file->ops->get(file, i);
    char text[160];
    size_t end;
    if (!zt_add_size(offset, size, &end) || end > array->bytes)
        return zt_fail(file->ctx, ZT_EUSAGE,
                       "%s: tensor '%s': read of %zu bytes at offset %zu is out of range: the tensor has "
                       "%zu bytes",
                       file->name, zt_escape(text, sizeof text, array->name, strlen(array->name)), size, offset, array->bytes);
    return file->ops->read(file, i, offset, dst, size);
}

/* ---- the store ------------------------------------------------------------------------------- */

static zt_status store_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    const zt_array_file *file = user;
    char text[160], word[80];
    *handle = zt_array_file_find(file, name);
    if (*handle < 0) return ZT_ENOENT;
    const zt_array *array = file->ops->get(file, *handle);
    *type = array->type;
    if (array->type.rank >= 0 && array->type.dtype < ZT_DTYPE_COUNT) return ZT_OK;
    return zt_fail(file->ctx, ZT_ENOTSUP, "%s: tensor '%s': unsupported type %s%s", file->name,
                   zt_escape(text, sizeof text, array->name, strlen(array->name)),
                   zt_escape(word, sizeof word, array->dtype, strlen(array->dtype)),
                   array->type.dtype < ZT_DTYPE_COUNT ? " with too many dimensions" : "");
}

static zt_status store_read(void *user, int64_t handle, size_t offset, void *dst, size_t size)
{
    return zt_array_file_read(user, handle, offset, dst, size);
}

zt_store zt_array_file_store(zt_array_file *file) { return (zt_store){.user = file, .find = store_find, .read = store_read}; }
