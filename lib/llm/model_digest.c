/* model_digest.c - a digest of all tensors, and one of the files that hold them. */
#include "lib/llm/model_digest.h"
#include "lib/base/require.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { PIECE = 1 << 20, RECENT_SECONDS = 2 };

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Name and dtype with their zeros, rank and dimensions as i64, the bytes as they are stored. */
static zt_status add_tensor(zt_digest *digest, const zt_store *store, const char *name, bool (*stop)(void), uint8_t *piece)
{
    zt_type type;
    int64_t handle, shape[1 + ZT_MAX_RANK];
    zt_status status = store->find(store->user, name, &type, &handle);
    if (status) return status;
    const char *dtype = zt_dtype_get(type.dtype)->name;
    shape[0] = type.rank;
    for (int axis = 0; axis < type.rank; axis++) shape[1 + axis] = type.dim[axis];
    status = zt_digest_add(digest, name, strlen(name) + 1);
    if (!status) status = zt_digest_add(digest, dtype, strlen(dtype) + 1);
    if (!status) status = zt_digest_add(digest, shape, (size_t)(1 + type.rank) * sizeof *shape);
    const size_t bytes = zt_type_bytes(&type);
    for (size_t at = 0, count; at < bytes && !status; at += count) {
        count = bytes - at < PIECE ? bytes - at : PIECE;
        if (stop && stop()) return ZT_EINTR;
        status = store->read(store->user, handle, at, piece, count);
        if (!status) status = zt_digest_add(digest, piece, count);
    }
    return status;
}

zt_status zt_model_digest(zt_gguf *gguf, bool (*stop)(void), uint8_t digest[ZT_DIGEST_BYTES])
{
    if (!gguf) return ZT_EUSAGE;
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    ZT_REQUIRE(ctx, digest, ZT_EUSAGE);
    const size_t count = (size_t)zt_gguf_n_tensors(gguf);
    const zt_store store = zt_gguf_store(gguf);
    zt_digest *all = zt_digest_new(ctx);
    const char **names = zt_alloc_array(ctx, count + 1, sizeof *names);
    uint8_t *piece = zt_alloc(ctx, PIECE);
    zt_status status = all && names && piece ? ZT_OK : zt_ctx_status(ctx);
    for (size_t i = 0; i < count && !status; i++) names[i] = zt_gguf_tensor(gguf, (int64_t)i, NULL, NULL, NULL);
    if (!status) qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count && !status; i++) status = add_tensor(all, &store, names[i], stop, piece);
    if (!status) status = zt_digest_end(all, digest);
    zt_free(ctx, piece);
    zt_free(ctx, names);
    zt_digest_free(all);
    return status;
}

/* ---- files ------------------------------------------------------------------------------------ */

static int64_t nanoseconds(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }

/* A file that changed just now may change again without another time. */
static bool add_file(zt_digest *digest, int fd)
{
    struct stat info;
    struct timespec now;
    if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode) || clock_gettime(CLOCK_REALTIME, &now)) return false;
    const int64_t changed = nanoseconds(info.st_ctim), written = nanoseconds(info.st_mtim);
    const int64_t latest = nanoseconds(now) - (int64_t)RECENT_SECONDS * 1000000000;
    if (changed > latest || written > latest) return false;
    const int64_t facts[] = {(int64_t)info.st_dev, (int64_t)info.st_ino, (int64_t)info.st_size, written, changed};
    return zt_digest_add(digest, facts, sizeof facts) == ZT_OK;
}

bool zt_model_files_digest(const zt_gguf *gguf, uint8_t digest[ZT_DIGEST_BYTES])
{
    if (!gguf || !digest) return false;
    const char *id = zt_gguf_id(gguf);
    zt_digest *all = zt_digest_new(zt_gguf_ctx(gguf));
    bool known = all && zt_digest_add(all, id, strlen(id)) == ZT_OK;
    const zt_source *source = NULL, *last = NULL;
    uint64_t offset;
    for (int64_t i = 0; known && i < zt_gguf_n_tensors(gguf); i++) {
        known = zt_gguf_place(gguf, i, &source, &offset);
        if (known && source != last) known = add_file(all, zt_source_fd(source));
        last = source;
    }
    if (known) known = last && zt_digest_end(all, digest) == ZT_OK;
    zt_digest_free(all);
    return known;
}
