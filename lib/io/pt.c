/* pt.c - owns open checkpoints: opening and closing, tensors by name, reading them. */
#include "lib/base/require.h"
#include "lib/io/fault.h"
#include "lib/io/pt_file.h"

#include <string.h>

/* ---- open and close -------------------------------------------------------------------------- */

static bool is_zip(const zt_source *source)
{
    uint8_t head[4];
    return zt_source_size(source) >= sizeof head && zt_source_read(source, 0, head, sizeof head) == ZT_OK &&
           zt_zip_sniff(head, sizeof head);
}

/* What is right of all checkpoints: no file makes much more of itself than it is. */
static zt_status check_sum(const zt_pt *pt)
{
    uint64_t limit = zt_source_size(pt->base.source), sum = 0;
    limit = limit > UINT64_MAX / 64 - (1 << 20) ? UINT64_MAX : 64 * (limit + (1 << 20));
    for (int64_t i = 0; i < pt->base.count; i++) {
        const pt_tensor *tensor = &pt->tensors[i];
        uint64_t cost = tensor->array.bytes + (tensor->layout.forward ? pt->storages[tensor->storage_index].bytes : 0);
        if (cost > limit - sum)
            return zt_fail(pt->base.ctx, ZT_EDATA, "%s: the tensors overlap too much: more than %llu bytes in all", pt->base.name,
                           (unsigned long long)limit);
        sum += cost;
    }
    return ZT_OK;
}

/* Is it known where the tensor's bytes are? A storage's fault is told once. */
static zt_status check_place(const zt_pt *pt, const pt_tensor *tensor)
{
    char text[160], key[80];
    const pt_storage *storage = &pt->storages[tensor->storage_index];
    if (storage->placed || storage->reported) return ZT_OK;
    return zt_fail(pt->base.ctx, ZT_EDATA, "%s: tensor '%s': storage '%s' is not in the file", pt->base.name,
                   zt_escape(text, sizeof text, tensor->array.name, strlen(tensor->array.name)),
                   zt_escape(key, sizeof key, storage->key, strlen(storage->key)));
}

/* Tensors keep their places in the list of names, but for those whose faults have been told. */
static zt_status rebuild_names(zt_pt *pt)
{
    zt_status status = ZT_OK;
    zt_map_free(pt->base.names);
    pt->base.names = zt_map_new(pt->base.ctx, (size_t)pt->base.count);
    for (int64_t i = 0; pt->base.names && status == ZT_OK && i < pt->base.count; i++)
        status = zt_map_put(pt->base.names, pt->tensors[i].array.name, strlen(pt->tensors[i].array.name), i);
    return pt->base.names ? status : ZT_ENOMEM;
}

/* All storages have been found; how their bytes come is known. */
static zt_status place_tensors(zt_pt *pt)
{
    int64_t kept = 0;
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < pt->base.count; i++) {
        pt_tensor *tensor = &pt->tensors[i];
        const pt_storage *storage = &pt->storages[tensor->storage_index];
        status = zt_faults_pass(pt->base.ctx, check_place(pt, tensor));
        if (status != ZT_OK || !storage->placed) continue;
        tensor->layout.forward = storage->member >= 0 && zt_zip_get(pt->zip, storage->member)->deflated;
        if (!pt->big_endian) tensor->layout.swap = 1;
        pt->tensors[kept++] = *tensor;
    }
    if (status == ZT_OK && kept != pt->base.count) {
        pt->base.count = kept;
        status = rebuild_names(pt);
    }
    return status == ZT_OK ? check_sum(pt) : status;
}

static zt_status read_checkpoint(zt_pt *pt)
{
    zt_status status = ZT_OK;
    if (is_zip(pt->base.source)) {
        pt->zip = zt_zip_from(pt->base.ctx, pt->base.source);
        status = pt->zip ? zt_pt_parse_zip(pt) : zt_ctx_status(pt->base.ctx);
    } else {
        status = zt_pt_parse_older(pt);
    }
    return status == ZT_OK ? place_tensors(pt) : status;
}

/* What is in the file and not in the list of tensors, in one line. */
static void log_left_out(const zt_pt *pt)
{
    const bool globals = pt->unknown.len, tensors = pt->unread.len;
    if (globals || tensors)
        zt_log(pt->base.ctx, ZT_LOG_WARN, "%s: %s%s%s%s%s", pt->base.name,
               globals ? "unknown globals, kept as opaque values and not called: " : "", globals ? pt->unknown.data : "",
               globals && tensors ? "; " : "", tensors ? "tensors that cannot be read: " : "", tensors ? pt->unread.data : "");
}

typedef struct raw_storage {
    const zt_pt *pt;
    const pt_storage *storage;
} raw_storage;

static zt_status fetch_raw(void *user, uint64_t offset, void *dst, size_t size)
{
    const raw_storage *raw = user;
    if (raw->storage->member >= 0) return zt_zip_read(raw->pt->zip, raw->storage->member, offset, dst, size);
    return zt_source_read(raw->pt->base.source, raw->storage->begin + offset, dst, size);
}

static const zt_array *get_array(const zt_array_file *file, int64_t i) { return &((const zt_pt *)file)->tensors[i].array; }

static zt_status read_array(zt_array_file *file, int64_t i, size_t offset, void *dst, size_t size)
{
    const zt_pt *pt = (const zt_pt *)file;
    const pt_tensor *tensor = &pt->tensors[i];
    raw_storage raw = {.pt = pt, .storage = &pt->storages[tensor->storage_index]};
    return zt_gather_read(pt->gather, &tensor->layout, i, offset, dst, size, fetch_raw, &raw);
}

static void close_pt(zt_array_file *file)
{
    zt_pt *pt = (zt_pt *)file;
    zt_zip_close(pt->zip);
    zt_gather_free(pt->gather);
    zt_map_free(pt->keys);
    zt_str_fini(&pt->unknown);
    zt_str_fini(&pt->unread);
    zt_free(file->ctx, pt->storages);
    zt_free(file->ctx, pt->tensors);
}

static const zt_array_file_ops pt_ops = {.get = get_array, .read = read_array, .close = close_pt};

static zt_pt *open_source(zt_ctx *ctx, zt_source *source, bool owns)
{
    zt_pt *pt = zt_array_file_new(ctx, &pt_ops, sizeof *pt, source, owns);
    if (!pt) return NULL;
    zt_str_init(&pt->unknown, ctx);
    zt_str_init(&pt->unread, ctx);
    pt->gather = zt_gather_new(ctx);
    pt->keys = pt->gather ? zt_map_new(ctx, 64) : NULL;
    pt->base.names = pt->keys ? zt_map_new(ctx, 64) : NULL;
    if (pt->base.names && read_checkpoint(pt) == ZT_OK) {
        log_left_out(pt);
        return pt;
    }
    zt_pt_close(pt);
    return NULL;
}

zt_pt *zt_pt_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    zt_source *source = zt_source_open(ctx, path);
    return source ? open_source(ctx, source, true) : NULL;
}

zt_pt *zt_pt_from(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, false);
}

zt_pt *zt_pt_take(zt_ctx *ctx, zt_source *source)
{
    ZT_REQUIRE(ctx, source, NULL);
    return open_source(ctx, source, true);
}

void zt_pt_close(zt_pt *pt) { zt_array_file_close((zt_array_file *)pt); }

/* Does the first member's name, as it stands at the file's beginning, end so? */
static bool first_member_ends(const zt_source *source, const char *end)
{
    uint8_t head[30], tail[16];
    size_t end_length = strlen(end);
    if (zt_source_size(source) < sizeof head || zt_source_read(source, 0, head, sizeof head) != ZT_OK) return false;
    size_t name_length = head[26] | (size_t)head[27] << 8, start = sizeof head + name_length - end_length;
    return name_length >= end_length && zt_source_size(source) - sizeof head >= name_length &&
           zt_source_read(source, start, tail, end_length) == ZT_OK && memcmp(tail, end, end_length) == 0;
}

bool zt_pt_is_zip(const zt_source *source)
{
    if (!source) return false;
    if (!is_zip(source) || first_member_ends(source, ".npy")) /* NumPy's first member, PyTorch's: no need to look on */
        return false;
    if (first_member_ends(source, "/data.pkl")) return true;
    zt_ctx *ctx = zt_ctx_new(); /* its messages are nobody's */
    zt_zip *zip = ctx ? zt_zip_from(ctx, source) : NULL;
    bool found = false;
    for (int64_t i = 0; zip && !found && i < zt_zip_count(zip); i++) {
        const char *slash = strchr(zt_zip_get(zip, i)->name, '/');
        found = slash && strcmp(slash, "/data.pkl") == 0;
    }
    zt_zip_close(zip);
    zt_ctx_free(ctx);
    return found;
}

/* ---- tensors --------------------------------------------------------------------------------- */

int64_t zt_pt_count(const zt_pt *pt) { return pt ? pt->base.count : 0; }

const zt_array *zt_pt_get(const zt_pt *pt, int64_t i) { return pt ? get_array(&pt->base, i) : NULL; }

int64_t zt_pt_find(const zt_pt *pt, const char *name)
{
    if (!pt) return -1;
    ZT_REQUIRE(pt->base.ctx, name, -1);
    return zt_array_file_find(&pt->base, name);
}

zt_status zt_pt_read(zt_pt *pt, int64_t i, size_t offset, void *dst, size_t size)
{
    if (!pt) return ZT_EUSAGE;
    ZT_REQUIRE(pt->base.ctx, i >= 0 && i < zt_pt_count(pt) && (dst || !size), ZT_EUSAGE);
    return zt_array_file_read(&pt->base, i, offset, dst, size);
}

zt_store zt_pt_store(zt_pt *pt) { return zt_array_file_store(&pt->base); }
