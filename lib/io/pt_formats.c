/* pt_formats.c - owns the two formats of checkpoints: where their pickles and storages lie.
 *
 * torch/serialization.py and caffe2/serialize of PyTorch 2, as facts. */
#include "lib/io/fault.h"
#include "lib/io/pt_file.h"

#include <stdlib.h>
#include <string.h>

enum {
    MIN_VERSION = 1, /* of the zip format */
    MAX_VERSION = 10,
    OLDER_VERSION = 1001,
    DENSE = 16,     /* a pickle that is deflated has at most so many times the file's bytes */
    MAX_RECORD = 32 /* bytes of a small record */
};

/* The long number that an older file begins with, as it lies in its pickle. */
static const uint8_t magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

/* Memory that a pickle may take: real ones need about as much as the file that they are in has. */
static size_t memory_budget(const zt_pt *pt)
{
    uint64_t size = zt_source_size(pt->base.source);
    return size > SIZE_MAX / 8 ? SIZE_MAX / 2 : (size_t)(4 * size) + (40 << 20);
}

/* The reading of pickles that lie in what `fetch` gives, `bytes` of it; zt_free it. */
static pickle_reader *begin_pickle(zt_pt *pt, zt_fetch *fetch, void *user, uint64_t bytes)
{
    pickle_reader *pickle = zt_calloc(pt->base.ctx, 1, sizeof *pickle);
    if (pickle)
        *pickle = (pickle_reader){.ctx = pt->base.ctx,
                                  .file = pt->base.name,
                                  .arena = pt->base.arena,
                                  .budget = memory_budget(pt),
                                  .fetch = fetch,
                                  .user = user,
                                  .end = bytes};
    return pickle;
}

/* ---- zip ------------------------------------------------------------------------------------- */

/* The member ROOT/NAME, -1: there is none. */
static zt_status find_member(zt_pt *pt, const char *root, size_t root_length, const char *name, int64_t *index)
{
    zt_str path;
    zt_str_init(&path, pt->base.ctx);
    zt_status status = zt_str_put(&path, root, root_length);
    if (status == ZT_OK) status = zt_str_printf(&path, "/%s", name);
    *index = status == ZT_OK ? zt_zip_find(pt->zip, path.data) : -1;
    zt_str_fini(&path);
    return status;
}

/* A small record as text without white space at its end; "" when there is none. */
static zt_status read_record(zt_pt *pt, const char *root, size_t root_length, const char *name, char text[MAX_RECORD])
{
    int64_t index;
    text[0] = 0;
    zt_status status = find_member(pt, root, root_length, name, &index);
    if (status != ZT_OK) return status;
    uint64_t length = index < 0 ? 0 : zt_zip_get(pt->zip, index)->size;
    if (length >= MAX_RECORD)
        return zt_fail(pt->base.ctx, ZT_EDATA, "%s: record '%s' is too large (%llu bytes)", pt->base.name, name,
                       (unsigned long long)length);
    status = index < 0 ? ZT_OK : zt_zip_read(pt->zip, index, 0, text, (size_t)length);
    while (length && strchr(" \n\r\t", text[length - 1])) length--;
    text[status == ZT_OK ? length : 0] = 0;
    return status;
}

static zt_status check_records(zt_pt *pt, const char *root, size_t root_length)
{
    char text[MAX_RECORD], escaped[160];
    int64_t version = 0, code = -1;
    zt_status status = read_record(pt, root, root_length, "version", text);
    if (status == ZT_OK && !*text) status = read_record(pt, root, root_length, ".data/version", text);
    if (status == ZT_OK && (!zt_parse_i64(text, &version) || version < MIN_VERSION || version > MAX_VERSION))
        status = zt_fail(pt->base.ctx, ZT_EDATA, "%s: unsupported version '%s': %d to %d are supported", pt->base.name,
                         zt_escape(escaped, sizeof escaped, text, strlen(text)), MIN_VERSION, MAX_VERSION);
    if (status == ZT_OK) status = read_record(pt, root, root_length, "byteorder", text);
    pt->big_endian = strcmp(text, "big") == 0;
    if (status == ZT_OK && *text && !pt->big_endian && strcmp(text, "little") != 0)
        status = zt_fail(pt->base.ctx, ZT_EDATA, "%s: unknown byte order '%s': must be little or big", pt->base.name,
                         zt_escape(escaped, sizeof escaped, text, strlen(text)));
    if (status == ZT_OK) status = find_member(pt, root, root_length, "constants.pkl", &code);
    if (status == ZT_OK && code >= 0)
        status = zt_fail(pt->base.ctx, ZT_EDATA,
                         "%s: a TorchScript archive contains code and is not read: save the state_dict instead", pt->base.name);
    return status;
}

/* All members lie in one folder, whatever its name is. */
static zt_status find_root(const zt_pt *pt, const char **root, size_t *length)
{
    int64_t members = zt_zip_count(pt->zip);
    const char *first = members ? zt_zip_get(pt->zip, 0)->name : "", *slash = strchr(first, '/');
    *root = first;
    *length = slash ? (size_t)(slash - first) : 0;
    bool same = slash != NULL;
    for (int64_t i = 1; same && i < members; i++) same = strncmp(zt_zip_get(pt->zip, i)->name, first, *length + 1) == 0;
    return same ? ZT_OK
                : zt_fail(pt->base.ctx, ZT_EDATA, "%s: not a PyTorch checkpoint: the zip members are not in one folder",
                          pt->base.name);
}

/* Storages are members data/KEY, and have the size that the pickle says. */
static zt_status place_members(zt_pt *pt, const char *root, size_t root_length)
{
    char text[160];
    zt_str name;
    zt_status status = ZT_OK;
    zt_str_init(&name, pt->base.ctx);
    for (int64_t i = 0; status == ZT_OK && i < pt->storage_count; i++) {
        pt_storage *storage = &pt->storages[i];
        zt_str_clear(&name);
        status = zt_str_printf(&name, "data/%s", storage->key);
        if (status == ZT_OK) status = find_member(pt, root, root_length, name.data, &storage->member);
        storage->placed = storage->member >= 0;
        if (!storage->placed || zt_zip_get(pt->zip, storage->member)->size == storage->bytes) continue;
        status = zt_fail(pt->base.ctx, ZT_EDATA, "%s: storage '%s' has %llu bytes, but its zip member has %llu", pt->base.name,
                         zt_escape(text, sizeof text, storage->key, strlen(storage->key)), (unsigned long long)storage->bytes,
                         (unsigned long long)zt_zip_get(pt->zip, storage->member)->size);
        status = zt_faults_pass(pt->base.ctx, status);
        storage->placed = false;
        storage->reported = true;
    }
    zt_str_fini(&name);
    return status;
}

static void end_pickle(zt_pt *pt, pickle_reader *pickle)
{
    zt_pickle_end(pickle);
    zt_free(pt->base.ctx, pickle);
}

static zt_status read_pickle(zt_pt *pt, pickle_reader *pickle, pk_value *root)
{
    zt_status status = zt_pickle_read(pickle, root);
    if (status == ZT_OK) status = zt_pt_collect(pt, *root, pickle);
    return status;
}

zt_status zt_pt_parse_zip(zt_pt *pt)
{
    const char *root;
    size_t root_length;
    pk_value value;
    zt_status status = find_root(pt, &root, &root_length);
    if (status == ZT_OK) status = check_records(pt, root, root_length);
    if (status != ZT_OK) return status;
    zt_zip_member request = {.zip = pt->zip};
    status = find_member(pt, root, root_length, "data.pkl", &request.index);
    if (status != ZT_OK) return status;
    if (request.index < 0)
        return zt_fail(pt->base.ctx, ZT_EDATA, "%s: not a PyTorch checkpoint: no member data.pkl", pt->base.name);
    if (zt_zip_get(pt->zip, request.index)->size > zt_source_size(pt->base.source) * DENSE + (1 << 20))
        return zt_fail(pt->base.ctx, ZT_EDATA, "%s: data.pkl is too large for the size of the file", pt->base.name);
    pickle_reader *pickle = begin_pickle(pt, zt_zip_fetch, &request, zt_zip_get(pt->zip, request.index)->size);
    if (!pickle) return ZT_ENOMEM;
    status = read_pickle(pt, pickle, &value);
    if (status == ZT_OK && pickle->position != pickle->end) status = zt_pk_fail(pickle, "unexpected data after the pickle");
    end_pickle(pt, pickle);
    return status == ZT_OK ? place_members(pt, root, root_length) : status;
}

/* ---- the older format ------------------------------------------------------------------------ */

static zt_status fetch_file(void *user, uint64_t offset, void *dst, size_t size)
{
    return zt_source_read(user, offset, dst, size);
}

/* Of protocols 0 and 1 as text; from 4 on a frame may be around it. */
bool zt_pt_sniff(const void *bytes, size_t size)
{
    if (!bytes) return false;
    static const char text[] = "L119547037146038801333356L\n.";
    const uint8_t *head = bytes;
    if (size >= sizeof text - 1 && memcmp(head, text, sizeof text - 1) == 0) return true;
    size_t start = size > 2 && head[2] == 0x95 ? 11 : 2;
    return size >= start + 2 + sizeof magic && head[0] == 0x80 && head[start] == 0x8a && head[start + 1] == sizeof magic &&
           memcmp(head + start + 2, magic, sizeof magic) == 0;
}

/* A pickle in which nothing may be named. */
static zt_status read_plain(pickle_reader *pickle, pk_value *value)
{
    pickle->plain = true;
    zt_status status = zt_pickle_read(pickle, value);
    pickle->plain = false;
    return status;
}

/* Does it tell which byte order the machine had? Storages are little endian all the same. */
static bool is_machine(const pk_value *value)
{
    for (size_t i = 0; value->kind == PK_DICT && i < value->list->count; i += 2) {
        const pk_value *key = &value->list->items[i];
        if (key->kind == PK_TEXT && strcmp(key->text, "little_endian") == 0) return key[1].kind == PK_BOOL;
    }
    return false;
}

/* Magic number, version, and a dictionary about the machine, each a pickle. */
static zt_status read_preamble(zt_pt *pt, pickle_reader *pickle)
{
    pk_value value;
    zt_status status = read_plain(pickle, &value);
    if (status == ZT_OK && (value.kind != PK_LONG || value.count != sizeof magic || memcmp(value.text, magic, value.count) != 0))
        status = zt_fail(pt->base.ctx, ZT_EDATA, "%s: not a PyTorch checkpoint", pt->base.name);
    if (status == ZT_OK) status = read_plain(pickle, &value);
    if (status == ZT_OK && (value.kind != PK_INT || value.i != OLDER_VERSION))
        status = zt_fail(pt->base.ctx, ZT_EDATA, "%s: unsupported format version: must be %d", pt->base.name, OLDER_VERSION);
    if (status == ZT_OK) status = read_plain(pickle, &value);
    if (status == ZT_OK && !is_machine(&value))
        status = zt_fail(pt->base.ctx, ZT_EDATA, "%s: not a PyTorch checkpoint: no sys_info record", pt->base.name);
    return status;
}

/* At pickle->position lies the storage of this key: how many elements, then these. */
static zt_status place_older(zt_pt *pt, pickle_reader *pickle, const pk_value *key)
{
    char text[160];
    uint8_t count[8];
    uint64_t element_count = 0;
    int64_t index;
    if (key->kind != PK_TEXT || !zt_map_get(pt->keys, key->text, key->count, &index))
        return zt_pk_fail(pickle, "storage key is not used by any tensor");
    pt_storage *storage = &pt->storages[index];
    zt_status status = ZT_OK;
    if (storage->placed || pickle->end - pickle->position < sizeof count)
        return zt_pk_fail(pickle, storage->placed ? "duplicate storage key" : "truncated storages");
    status = zt_source_read(pt->base.source, pickle->position, count, sizeof count);
    for (int byte = 8; byte-- > 0;) element_count = element_count << 8 | count[byte];
    storage->begin = pickle->position + sizeof count;
    if (status == ZT_OK && (storage->bytes / storage->item != element_count || pickle->end - storage->begin < storage->bytes))
        status = zt_fail(pt->base.ctx, ZT_EDATA,
                         "%s: storage '%s' should have %llu bytes, but the file declares %llu elements and "
                         "has %llu bytes left",
                         pt->base.name, zt_escape(text, sizeof text, storage->key, strlen(storage->key)),
                         (unsigned long long)storage->bytes, (unsigned long long)element_count,
                         (unsigned long long)(pickle->end - storage->begin));
    storage->placed = true;
    if (status == ZT_OK) pickle->position = storage->begin + storage->bytes;
    return status;
}

static zt_status read_older(zt_pt *pt, pickle_reader *pickle)
{
    pk_value value;
    zt_status status = read_preamble(pt, pickle);
    if (status == ZT_OK) status = read_pickle(pt, pickle, &value);
    if (status == ZT_OK) status = read_plain(pickle, &value);
    if (status == ZT_OK && value.kind != PK_LIST) status = zt_pk_fail(pickle, "storage list is not a list");
    for (size_t i = 0; status == ZT_OK && i < value.list->count; i++) status = place_older(pt, pickle, &value.list->items[i]);
    if (status == ZT_OK && pickle->position != pickle->end) status = zt_pk_fail(pickle, "unexpected data after the last storage");
    return status;
}

zt_status zt_pt_parse_older(zt_pt *pt)
{
    pickle_reader *pickle = begin_pickle(pt, fetch_file, pt->base.source, zt_source_size(pt->base.source));
    if (!pickle) return ZT_ENOMEM;
    zt_status status = read_older(pt, pickle);
    end_pickle(pt, pickle);
    return status;
}
