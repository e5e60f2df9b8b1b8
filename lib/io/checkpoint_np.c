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

static void entry_of(const zt_array *a, zt_entry *e)
{
    bool known = a->type.dtype < ZT_DTYPE_COUNT;
    *e = (zt_entry){.name = a->name,
                    .dtype = known ? zt_dtype_get(a->type.dtype)->name : a->dtype,
                    .type = a->type,
                    .bytes = a->bytes};
}

static bool has_nothing(const void *user, const char *key)
{
    (void)user;
    (void)key;
    return false;
}

static zt_status no_meta(const void *user, zt_meta *to)
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
        entry_of(zt_##K##_get(user, i), e);                                                        \
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
                                         .has = has_nothing,                                       \
                                         .meta = no_meta,                                          \
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
static zt_status open_zip(zt_checkpoint *c, zt_source *s)
{
    return zt_pt_is_zip(s) ? pt_open(c, s) : npz_open(c, s);
}

static bool probe_npy(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return zt_npy_sniff(head, n);
}

static bool probe_npz(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return zt_npz_sniff(head, n);
}

static bool probe_pt(const unsigned char *head, size_t n, uint64_t size)
{
    (void)size;
    return zt_pt_sniff(head, n);
}

/* ---- npy: one array has a name here --------------------------------------------------------- */

static int64_t npy_count(const void *user)
{
    return zt_npy_count(user);
}

static void npy_get(const void *user, int64_t i, zt_entry *e)
{
    entry_of(zt_npy_get(user, i), e);
    e->name = NPY_NAME;
}

static int64_t npy_find(const void *user, const char *name)
{
    (void)user;
    return strcmp(name, NPY_NAME) == 0 ? 0 : -1;
}

static zt_status npy_read(void *user, int64_t i, uint64_t offset, void *dst, size_t n)
{
    return zt_npy_read(user, i, (size_t)offset, dst, n);
}

static void npy_close(void *user)
{
    zt_npy_close(user);
}

static const zt_reader npy_reader = {.count = npy_count,
                                     .get = npy_get,
                                     .find = npy_find,
                                     .read = npy_read,
                                     .has = has_nothing,
                                     .meta = no_meta,
                                     .close = npy_close};

static zt_status open_npy(zt_checkpoint *c, zt_source *s)
{
    c->reader = &npy_reader;
    c->user = zt_npy_take(c->ctx, s);
    return c->user ? ZT_OK : zt_ctx_status(c->ctx);
}

static zt_status begin_npy(zt_part *p, const zt_meta *meta)
{
    (void)meta;
    if (p->n != 1)
        return zt_fail(p->ctx, ZT_ENOTSUP, "%s: an npy file has one tensor, not %lld", p->path,
                       (long long)p->n);
    return ZT_OK;
}

static zt_status npy_tensor(zt_part *p, int64_t i)
{
    return zt_npy_write_header(p->sink, p->ctx, &p->entry[i].type);
}

static bool npy_can(const zt_entry *e)
{
    return e->type.dtype < ZT_DTYPE_COUNT && e->type.rank >= 0 && zt_npz_can(&e->type);
}

static bool passes_meta(const zt_meta *m)
{
    (void)m;
    return true;
}

static const zt_part_ops npy_ops = {.begin = begin_npy, .tensor = npy_tensor};

const zt_container zt_container_npy = {.name = "npy",
                                       .suffix = ".npy",
                                       .probe = probe_npy,
                                       .open = open_npy,
                                       .ops = &npy_ops,
                                       .can = npy_can,
                                       .can_meta = passes_meta,
                                       .bytes = ZT_U8};

/* ---- npz and pt: members one after the other ------------------------------------------------ */

static bool is_text(const char *s)
{
    size_t n = strlen(s);
    return n < 65000 && zt_utf8_valid(s, n); /* a zip's names have 64 KiB */
}

static bool npz_can(const zt_entry *e)
{
    return npy_can(e) && is_text(e->name);
}

static bool pt_can(const zt_entry *e)
{
    return e->type.dtype < ZT_DTYPE_COUNT && e->type.rank >= 0 && zt_pt_can(&e->type) &&
           is_text(e->name);
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
        return zt_##K##_begin(p->user, p->entry[i].name, &p->entry[i].type);                       \
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

static bool is_numbered(const zt_source *s)
{
    (void)s;
    return true;
}

/* A zip is found as one, and a checkpoint of PyTorch's in several files is not of .npz. */
const zt_container zt_container_npz = {.name = "npz",
                                       .suffix = ".npz",
                                       .probe = probe_npz,
                                       .open = open_zip,
                                       .ops = &npz_ops,
                                       .can = npz_can,
                                       .bytes = ZT_U8,
                                       .numbered = zt_pt_is_zip};

/* Found by its first bytes it is the older format, by its name either. */
const zt_container zt_container_pt = {.name = "pt",
                                      .suffix = ".pt",
                                      .probe = probe_pt,
                                      .open = pt_open,
                                      .ops = &pt_ops,
                                      .can = pt_can,
                                      .bytes = ZT_U8,
                                      .numbered = is_numbered};
