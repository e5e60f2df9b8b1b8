/* checkpoint_arrays.c - owns npy, npz and pt as containers of checkpoint.h: one reader over array_file.h, a row
 * each.
 *
 * Of npz and pt metadata is the tensor "zt.gguf". An npy has one tensor and nothing else: it is
 * called arr_0, as NumPy calls arrays without a name, and metadata is not written. */
#include "lib/io/array_file.h"
#include "lib/io/checkpoint_file.h"
#include "lib/io/npy.h"
#include "lib/io/npz.h"
#include "lib/io/pt.h"

#include <string.h>

#define NPY_NAME "arr_0"

/* ---- reading --------------------------------------------------------------------------------- */

static int64_t count_arrays(const void *user) { return ((const zt_array_file *)user)->count; }

static void get_entry(const void *user, int64_t i, zt_entry *entry)
{
    const zt_array_file *file = user;
    const zt_array *array = file->ops->get(file, i);
    bool known = array->type.dtype < ZT_DTYPE_COUNT;
    *entry = (zt_entry){.name = file->names ? array->name : NPY_NAME,
                        .dtype = known ? zt_dtype_get(array->type.dtype)->name : array->dtype,
                        .type = array->type,
                        .bytes = array->bytes};
}

static int64_t find_array(const void *user, const char *name)
{
    const zt_array_file *file = user;
    return file->names ? zt_array_file_find(file, name) : strcmp(name, NPY_NAME) == 0 ? 0 : -1;
}

static zt_status read_array(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    return zt_array_file_read(user, i, (size_t)offset, dst, size);
}

static zt_status read_no_meta(const void *user, zt_meta *to)
{
    (void)user;
    (void)to;
    return ZT_OK;
}

static void close_arrays(void *user) { zt_array_file_close(user); }

static const zt_reader array_reader = {
    .count = count_arrays, .get = get_entry, .find = find_array, .read = read_array, .meta = read_no_meta, .close = close_arrays};

/* `file` is an open zt_npy, zt_npz or zt_pt, each of which begins with its zt_array_file; NULL: it failed. */
static zt_status use_array_file(zt_checkpoint *checkpoint, const zt_container *container, void *file)
{
    checkpoint->reader = &array_reader;
    checkpoint->container = container;
    checkpoint->user = file;
    return file ? ZT_OK : zt_ctx_status(checkpoint->ctx);
}

static zt_status open_npy(zt_checkpoint *checkpoint, zt_source *source)
{
    return use_array_file(checkpoint, &zt_container_npy, zt_npy_take(checkpoint->ctx, source));
}

static zt_status open_pt(zt_checkpoint *checkpoint, zt_source *source)
{
    return use_array_file(checkpoint, &zt_container_pt, zt_pt_take(checkpoint->ctx, source));
}

/* A zip is the one or the other. */
static zt_status open_zip(zt_checkpoint *checkpoint, zt_source *source)
{
    if (zt_pt_is_zip(source)) return open_pt(checkpoint, source);
    return use_array_file(checkpoint, &zt_container_npz, zt_npz_take(checkpoint->ctx, source));
}

static bool probe_npy(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return zt_npy_sniff(head, head_size);
}

static bool probe_npz(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return zt_npz_sniff(head, head_size);
}

static bool probe_pt(const unsigned char *head, size_t head_size, uint64_t size)
{
    (void)size;
    return zt_pt_sniff(head, head_size);
}

/* ---- npy: writing one array ------------------------------------------------------------------ */

static zt_status begin_npy(zt_part *part, const zt_meta *meta)
{
    (void)meta;
    if (part->count != 1)
        return zt_fail(part->ctx, ZT_ENOTSUP, "%s: an npy file holds exactly one tensor, got %lld", part->path,
                       (long long)part->count);
    return ZT_OK;
}

static zt_status npy_tensor(zt_part *part, int64_t i)
{
    return zt_npy_write_header(part->sink, part->ctx, &part->entries[i].type);
}

static bool npy_can(const zt_entry *entry)
{
    return entry->type.dtype < ZT_DTYPE_COUNT && entry->type.rank >= 0 && zt_npz_can(&entry->type);
}

static bool accepts_meta(const zt_meta *meta)
{
    (void)meta;
    return true;
}

static const zt_part_ops npy_ops = {.begin = begin_npy, .tensor = npy_tensor};

const zt_container zt_container_npy = {.name = "npy",
                                       .suffix = ".npy",
                                       .probe = probe_npy,
                                       .open = open_npy,
                                       .ops = &npy_ops,
                                       .can_store = npy_can,
                                       .can_meta = accepts_meta,
                                       .mask_dtype = ZT_U8};

/* ---- npz and pt: members one after the other ------------------------------------------------ */

static bool is_member_name(const char *text)
{
    size_t length = strlen(text);
    return length < 65000 && zt_utf8_valid(text, length); /* a zip's names have 64 KiB */
}

static bool npz_can(const zt_entry *entry) { return npy_can(entry) && is_member_name(entry->name); }

static bool pt_can(const zt_entry *entry)
{
    return entry->type.dtype < ZT_DTYPE_COUNT && entry->type.rank >= 0 && zt_pt_can(&entry->type) && is_member_name(entry->name);
}

/* K_ops of a writer zt_K_writer_*. */
// clang-format off
#define WRITER(K)                                                                                  \
    static zt_status K##_begin(zt_part *part, const zt_meta *meta)                                    \
    {                                                                                              \
        (void)meta;                                                                                \
        part->user = zt_##K##_writer_new(part->ctx, part->sink);                                            \
        return part->user ? ZT_OK : zt_ctx_status(part->ctx);                                            \
    }                                                                                              \
    static zt_status K##_tensor(zt_part *part, int64_t i)                                             \
    {                                                                                              \
        return zt_##K##_begin(part->user, part->entries[i].name, &part->entries[i].type);                       \
    }                                                                                              \
    static zt_status K##_put(zt_part *part, const void *bytes, size_t size)                              \
    {                                                                                              \
        return zt_##K##_write(part->user, bytes, size);                                                  \
    }                                                                                              \
    static zt_status K##_end(zt_part *part)                                                           \
    {                                                                                              \
        return zt_##K##_finish(part->user);                                                           \
    }                                                                                              \
    static void K##_part_close(zt_part *part)                                                         \
    {                                                                                              \
        zt_##K##_writer_free(part->user);                                                             \
        part->user = NULL;                                                                            \
    }                                                                                              \
    static const zt_part_ops K##_ops = {.begin = K##_begin,                                        \
                                        .tensor = K##_tensor,                                      \
                                        .put = K##_put,                                            \
                                        .end = K##_end,                                            \
                                        .close = K##_part_close};
// clang-format on

WRITER(npz)
WRITER(pt)

static bool is_numbered(const zt_source *source)
{
    (void)source;
    return true;
}

/* A zip is found as one, and a checkpoint of PyTorch's in several files is not of .npz. */
const zt_container zt_container_npz = {.name = "npz",
                                       .suffix = ".npz",
                                       .probe = probe_npz,
                                       .open = open_zip,
                                       .ops = &npz_ops,
                                       .can_store = npz_can,
                                       .mask_dtype = ZT_U8,
                                       .numbered = zt_pt_is_zip};

/* Found by its first bytes it is the older format, by its name either. */
const zt_container zt_container_pt = {.name = "pt",
                                      .suffix = ".pt",
                                      .probe = probe_pt,
                                      .open = open_pt,
                                      .ops = &pt_ops,
                                      .can_store = pt_can,
                                      .mask_dtype = ZT_U8,
                                      .numbered = is_numbered};
