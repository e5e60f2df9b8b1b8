/* checkpoint_np.c - owns npy, npz and pt as containers of checkpoint.h: a row each.
 *
 * Of npz and pt metadata is the tensor "zt.gguf". An npy has one tensor and nothing else: it is
 * called arr_0, as NumPy calls arrays without a name, and metadata is not written. */
#include "lib/io/checkpoint_file.h"
#include "lib/io/npy.h"
#include "lib/io/npz.h"
#include "lib/io/pt.h"

#include <string.h>

#define NPY_NAME "arr_0"

/* ---- reading --------------------------------------------------------------------------------- */

static void fill_entry(const zt_array *array, zt_entry *entry)
{
    bool known = array->type.dtype < ZT_DTYPE_COUNT;
    *entry = (zt_entry){.name = array->name,
                    .dtype = known ? zt_dtype_get(array->type.dtype)->name : array->dtype,
                    .type = array->type,
                    .bytes = array->bytes};
}

static bool has_no_key(const void *user, const char *key)
{
    (void)user;
    (void)key;
    return false;
}

static zt_status read_no_meta(const void *user, zt_meta *to)
{
    (void)user;
    (void)to;
    return ZT_OK;
}

/* The reader K_reader of a room zt_K_*, and what opens one. */
#define ROOM(K)                                                                                    \
    static int64_t K##_count(const void *user)                                                     \
    {                                                                                              \
        return zt_##K##_count(user);                                                               \
    }                                                                                              \
    static void K##_get(const void *user, int64_t i, zt_entry *e)                                  \
    {                                                                                              \
        fill_entry(zt_##K##_get(user, i), e);                                                        \
    }                                                                                              \
    static int64_t K##_find(const void *user, const char *name)                                    \
    {                                                                                              \
        return zt_##K##_find(user, name);                                                          \
    }                                                                                              \
    static zt_status K##_read(void *user, int64_t i, uint64_t offset, void *dst, size_t n)         \
    {                                                                                              \
        return zt_##K##_read(user, i, (size_t)offset, dst, n);                                     \
    }                                                                                              \
    static void K##_close(void *user)                                                              \
    {                                                                                              \
        zt_##K##_close(user);                                                                      \
    }                                                                                              \
    static const zt_reader K##_reader = {.count = K##_count,                                       \
                                         .get = K##_get,                                           \
                                         .find = K##_find,                                         \
                                         .read = K##_read,                                         \
                                         .has = has_no_key,                                       \
                                         .meta = read_no_meta,                                          \
                                         .close = K##_close};                                      \
    static zt_status K##_open(zt_checkpoint *c, zt_source *s)                                      \
    {                                                                                              \
        c->reader = &K##_reader;                                                                   \
        c->container = &zt_container_##K;                                                          \
        c->user = zt_##K##_take(c->ctx, s);                                                        \
        return c->user ? ZT_OK : zt_ctx_status(c->ctx);                                            \
    }

ROOM(npz)
ROOM(pt)

/* A zip is the one or the other. */
static zt_status open_zip(zt_checkpoint *checkpoint, zt_source *source)
{
    return zt_pt_is_zip(source) ? pt_open(checkpoint, source) : npz_open(checkpoint, source);
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

/* ---- npy: one array has a name here --------------------------------------------------------- */

static int64_t npy_count(const void *user)
{
    return zt_npy_count(user);
}

static void npy_get(const void *user, int64_t i, zt_entry *entry)
{
    fill_entry(zt_npy_get(user, i), entry);
    entry->name = NPY_NAME;
}

static int64_t npy_find(const void *user, const char *name)
{
    (void)user;
    return strcmp(name, NPY_NAME) == 0 ? 0 : -1;
}

static zt_status npy_read(void *user, int64_t i, uint64_t offset, void *dst, size_t size)
{
    return zt_npy_read(user, i, (size_t)offset, dst, size);
}

static void npy_close(void *user)
{
    zt_npy_close(user);
}

static const zt_reader npy_reader = {.count = npy_count,
                                     .get = npy_get,
                                     .find = npy_find,
                                     .read = npy_read,
                                     .has = has_no_key,
                                     .meta = read_no_meta,
                                     .close = npy_close};

static zt_status open_npy(zt_checkpoint *checkpoint, zt_source *source)
{
    checkpoint->reader = &npy_reader;
    checkpoint->user = zt_npy_take(checkpoint->ctx, source);
    return checkpoint->user ? ZT_OK : zt_ctx_status(checkpoint->ctx);
}

static zt_status begin_npy(zt_part *part, const zt_meta *meta)
{
    (void)meta;
    if (part->count != 1)
        return zt_fail(part->ctx, ZT_ENOTSUP, "%s: an npy file has one tensor, not %lld", part->path,
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

static bool npz_can(const zt_entry *entry)
{
    return npy_can(entry) && is_member_name(entry->name);
}

static bool pt_can(const zt_entry *entry)
{
    return entry->type.dtype < ZT_DTYPE_COUNT && entry->type.rank >= 0 && zt_pt_can(&entry->type) &&
           is_member_name(entry->name);
}

/* K_ops of a writer zt_K_writer_*. */
#define WRITER(K)                                                                                  \
    static zt_status K##_begin(zt_part *p, const zt_meta *meta)                                    \
    {                                                                                              \
        (void)meta;                                                                                \
        p->user = zt_##K##_writer_new(p->ctx, p->sink);                                            \
        return p->user ? ZT_OK : zt_ctx_status(p->ctx);                                            \
    }                                                                                              \
    static zt_status K##_tensor(zt_part *p, int64_t i)                                             \
    {                                                                                              \
        return zt_##K##_begin(p->user, p->entries[i].name, &p->entries[i].type);                       \
    }                                                                                              \
    static zt_status K##_put(zt_part *p, const void *bytes, size_t n)                              \
    {                                                                                              \
        return zt_##K##_write(p->user, bytes, n);                                                  \
    }                                                                                              \
    static zt_status K##_end(zt_part *p)                                                           \
    {                                                                                              \
        return zt_##K##_finish(p->user);                                                           \
    }                                                                                              \
    static void K##_part_close(zt_part *p)                                                         \
    {                                                                                              \
        zt_##K##_writer_free(p->user);                                                             \
        p->user = NULL;                                                                            \
    }                                                                                              \
    static const zt_part_ops K##_ops = {.begin = K##_begin,                                        \
                                        .tensor = K##_tensor,                                      \
                                        .put = K##_put,                                            \
                                        .end = K##_end,                                            \
                                        .close = K##_part_close};

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
                                      .open = pt_open,
                                      .ops = &pt_ops,
                                      .can_store = pt_can,
                                      .mask_dtype = ZT_U8,
                                      .numbered = is_numbered};
