/* kv_store.c - blocks between the model's cache and their files. */
#include "lib/llm/kv_store.h"
#include "lib/base/require.h"
#include "lib/llm/arch/arch.h"
#include "lib/llm/kv_block.h"
#include "lib/llm/kv_files.h"
#include "lib/llm/llm_internal.h"
#include "lib/llm/model_digest.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

static const char MODEL[] = ".model";
static const char *const suffixes[ZT_KV_KINDS] = {".kv", ".state"};

/* States of recurrent layers are stored this often, in tokens, whatever comes later: a second text that begins as the first one
 * did can then go on from there. */
enum { STATES_EVERY = 16 * ZT_LLM_BLOCK };

/* What the files of one kind have. */
typedef struct store_part {
    uint32_t state_count;
    int *state;            /* [state_count]: which of the session's states, */
    uint64_t *state_bytes; /* [state_count]: and how much of each */
    size_t file_bytes;
    uint8_t *file; /* [file_bytes], to write; made when it is needed */
} store_part;

struct zt_kv_store {
    zt_ctx *ctx;
    char *path;
    zt_kv_files *files;
    zt_digest *digest;
    zt_llm *model; /* NULL: none is attached */
    uint8_t identity[ZT_DIGEST_BYTES];
    store_part part[ZT_KV_KINDS];
    zt_kv_block *chain; /* blocks of a text */
    size_t chain_capacity;
    zt_kv_store_count count;
};

/* ---- opening --------------------------------------------------------------------------------- */

zt_kv_store *zt_kv_store_open(zt_ctx *ctx, const char *path, uint64_t limit)
{
    if (!ctx) return NULL;
    ZT_REQUIRE(ctx, path, NULL);
    zt_kv_store *store = zt_calloc(ctx, 1, sizeof *store);
    if (!store) return NULL;
    store->ctx = ctx;
    store->path = zt_strdup(ctx, path);
    store->digest = store->path ? zt_digest_new(ctx) : NULL;
    store->files = store->digest ? zt_kv_files_open(ctx, path, limit) : NULL;
    if (store->files) return store;
    zt_kv_store_close(store);
    return NULL;
}

static void free_part(zt_ctx *ctx, store_part *part)
{
    zt_free(ctx, part->state);
    zt_free(ctx, part->state_bytes);
    zt_free(ctx, part->file);
    *part = (store_part){0};
}

void zt_kv_store_close(zt_kv_store *store)
{
    if (!store) return;
    zt_kv_files_close(store->files);
    zt_digest_free(store->digest);
    for (int kind = 0; kind < ZT_KV_KINDS; kind++) free_part(store->ctx, &store->part[kind]);
    zt_free(store->ctx, store->chain);
    zt_free(store->ctx, store->path);
    zt_free(store->ctx, store);
}

static zt_status refuse(const zt_kv_store *store, const char *why)
{
    return zt_fail(store->ctx, ZT_ENOTSUP, "%s: blocks of this model's cache cannot be stored: %s", store->path, why);
}

/* Divides the states among the kinds: of a cache the rows of a block, of a recurrent layer what a sequence has. */
static zt_status measure_states(zt_kv_store *store, zt_llm *model, int count)
{
    zt_session *session = zt_llm_session(model);
    const zt_prog *program = zt_llm_prog(model);
    const int64_t cache_rows = zt_llm_get(model).cache_len;
    for (int i = 0; i < count; i++) {
        const zt_type type = zt_session_state_type(session, i);
        const bool grows = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, i))->type.dim[0] < 0;
        if (type.rank < 1 || type.dim[0] < 1 || (grows && type.dim[0] != cache_rows))
            return refuse(store, "a state is neither rows of positions nor one of each sequence");
        store_part *part = &store->part[grows ? ZT_KV_ROWS : ZT_KV_STATES];
        part->state_bytes[part->state_count] =
            zt_session_state_own(session, i) / (size_t)type.dim[0] * (grows ? ZT_LLM_BLOCK : 1);
        part->state[part->state_count++] = i;
    }
    return ZT_OK;
}

static zt_kv_block make_block(const zt_kv_store *store, zt_kv_kind kind)
{
    const store_part *part = &store->part[kind];
    return (zt_kv_block){.kind = kind, .state_count = part->state_count, .state_bytes = part->state_bytes};
}

static zt_status make_part(zt_kv_store *store, zt_kv_kind kind, int most)
{
    store_part *part = &store->part[kind];
    free_part(store->ctx, part);
    part->state = zt_alloc_array(store->ctx, (size_t)most, sizeof *part->state);
    part->state_bytes = part->state ? zt_alloc_array(store->ctx, (size_t)most, sizeof *part->state_bytes) : NULL;
    return part->state_bytes ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_kv_store_attach(zt_kv_store *store, zt_llm *model, const uint8_t identity[ZT_DIGEST_BYTES])
{
    if (!store) return ZT_EUSAGE;
    ZT_REQUIRE(store->ctx, model && identity, ZT_EUSAGE);
    const zt_engine_vt *engine = zt_engine_inmost(zt_session_engine(zt_llm_session(model)))->vt;
    const int count = zt_prog_count(zt_llm_prog(model), ZT_VALUE_STATE);
    store->model = NULL;
    if (!count) return refuse(store, "it has none");
    if (!engine->read_part || !engine->write_part)
        return zt_fail(store->ctx, ZT_ENOTSUP, "%s: engine %s cannot read or write a part of a state", store->path, engine->name);
    zt_status status = ZT_OK;
    for (int kind = 0; kind < ZT_KV_KINDS && !status; kind++) status = make_part(store, (zt_kv_kind)kind, count);
    if (!status) status = measure_states(store, model, count);
    for (int kind = 0; kind < ZT_KV_KINDS && !status; kind++) {
        const zt_kv_block block = make_block(store, (zt_kv_kind)kind);
        store->part[kind].file_bytes = zt_kv_block_bytes(&block);
        if (!store->part[kind].file_bytes) status = zt_fail(store->ctx, ZT_ENOMEM, "%s: a block is too large", store->path);
    }
    if (status) return status;
    memcpy(store->identity, identity, sizeof store->identity);
    store->model = model;
    return ZT_OK;
}

static bool is_recurrent(const zt_kv_store *store) { return store->part[ZT_KV_STATES].state_count > 0; }

zt_kv_store_count zt_kv_store_counted(const zt_kv_store *store)
{
    if (!store) return (zt_kv_store_count){0};
    zt_kv_store_count count = store->count;
    count.removed = zt_kv_files_counted(store->files).removed;
    return count;
}

/* ---- the model's digest ---------------------------------------------------------------------- */

/* The file: this, then XXH3-128 of it. Its name is the digest of the model's files. */
typedef struct model_note {
    char magic[8];
    uint8_t files[ZT_DIGEST_BYTES], digest[ZT_DIGEST_BYTES];
    XXH128_canonical_t sum;
} model_note;

static model_note make_note(const uint8_t files[ZT_DIGEST_BYTES], const uint8_t digest[ZT_DIGEST_BYTES])
{
    model_note note = {.magic = {'z', 't', '-', 'k', 'v', 'm', '0', '1'}};
    memcpy(note.files, files, sizeof note.files);
    memcpy(note.digest, digest, sizeof note.digest);
    XXH128_canonicalFromHash(&note.sum, XXH3_128bits(&note, offsetof(model_note, sum)));
    return note;
}

static void note_damaged(zt_kv_store *store, const uint8_t name[ZT_DIGEST_BYTES], const char *suffix)
{
    char text[ZT_DIGEST_TEXT];
    zt_log(store->ctx, ZT_LOG_INFO, "%s/%s%s: damaged: removed", store->path, zt_digest_text(name, text), suffix);
    zt_kv_files_remove(store->files, name, suffix);
    store->count.damaged++;
}

static bool read_note(zt_kv_store *store, const uint8_t files[ZT_DIGEST_BYTES], uint8_t digest[ZT_DIGEST_BYTES])
{
    bool damaged, good = false;
    const uint8_t *bytes = zt_kv_files_map(store->files, files, MODEL, sizeof(model_note), &damaged);
    if (bytes) {
        memcpy(digest, bytes + offsetof(model_note, digest), ZT_DIGEST_BYTES);
        const model_note note = make_note(files, digest);
        good = memcmp(&note, bytes, sizeof note) == 0;
        zt_kv_files_unmap(bytes, sizeof note);
    }
    if (damaged || (bytes && !good)) note_damaged(store, files, MODEL);
    if (good) zt_kv_files_touch(store->files, files, MODEL, 0);
    return good;
}

zt_status zt_kv_store_model(zt_kv_store *store, zt_gguf *gguf, bool (*stop)(void), uint8_t digest[ZT_DIGEST_BYTES])
{
    uint8_t files[ZT_DIGEST_BYTES];
    uint64_t room;
    if (!store) return ZT_EUSAGE;
    ZT_REQUIRE(store->ctx, gguf && digest, ZT_EUSAGE);
    const bool known = zt_model_files_digest(gguf, files);
    if (known && read_note(store, files, digest)) return ZT_OK;
    zt_status status = zt_model_digest(gguf, stop, digest);
    if (status || !known || !zt_kv_files_begin(store->files, 0, sizeof(model_note), &room)) return status;
    const model_note note = make_note(files, digest);
    if (room >= sizeof note) zt_kv_files_write(store->files, files, MODEL, &note, sizeof note);
    zt_kv_files_end(store->files);
    return ZT_OK;
}

/* ---- the chain of a text --------------------------------------------------------------------- */

/* Sets the first `count` blocks of a text. */
static zt_status make_chain(zt_kv_store *store, const int32_t *ids, size_t count)
{
    const uint8_t *before = store->identity;
    zt_status status = ZT_OK;
    if (count > store->chain_capacity) {
        size_t bytes;
        zt_kv_block *more = zt_mul_size(count, sizeof *more, &bytes) ? zt_realloc(store->ctx, store->chain, bytes) : NULL;
        if (!more) return ZT_ENOMEM;
        store->chain = more;
        store->chain_capacity = count;
    }
    for (size_t i = 0; i < count && !status; i++) {
        zt_kv_block *block = &store->chain[i];
        *block = make_block(store, ZT_KV_ROWS);
        block->position = (int64_t)(i * ZT_LLM_BLOCK);
        block->ids = ids + i * ZT_LLM_BLOCK;
        memcpy(block->before, before, sizeof block->before);
        status = zt_kv_block_key(store->digest, block);
        before = block->key;
    }
    return status;
}

/* The block's file of a kind. */
static zt_kv_block file_of(const zt_kv_store *store, const zt_kv_block *block, zt_kv_kind kind)
{
    zt_kv_block file = *block;
    file.kind = kind;
    file.state_count = store->part[kind].state_count;
    file.state_bytes = store->part[kind].state_bytes;
    return file;
}

static bool has_file(const zt_kv_store *store, size_t index, zt_kv_kind kind)
{
    return zt_kv_files_has(store->files, store->chain[index].key, suffixes[kind]);
}

/* How many blocks from the first on are there, of which those before `from` are taken to be. */
static size_t count_stored(const zt_kv_store *store, size_t from, size_t block_count)
{
    while (from < block_count && has_file(store, from, ZT_KV_ROWS)) from++;
    return from;
}

/* Which of the rows or slots of a state a file of this kind is about. */
static size_t part_of_cache(const zt_kv_place *place, zt_kv_kind kind, size_t index)
{
    if (kind == ZT_KV_STATES) return (size_t)place->slot;
    return place->table ? (size_t)place->table[index] : index;
}

/* What failed is logged; blocks are computed then. */
static void forgive(zt_kv_store *store)
{
    if (!zt_ctx_status(store->ctx)) return;
    zt_log(store->ctx, ZT_LOG_INFO, "%s: %s", store->path, zt_ctx_error(store->ctx));
    zt_ctx_clear(store->ctx);
}

/* ---- from a file ----------------------------------------------------------------------------- */

/* Rows that were written before a failure are behind the position, and are computed. */
static bool write_part(const zt_kv_store *store, zt_kv_kind kind, const uint8_t *rows, size_t cache_index)
{
    zt_session *session = zt_llm_session(store->model);
    const store_part *part = &store->part[kind];
    zt_status status = ZT_OK;
    for (uint32_t i = 0; i < part->state_count && !status; i++) {
        const size_t bytes = (size_t)part->state_bytes[i];
        status = zt_session_state_write(session, part->state[i], cache_index * bytes, bytes, rows);
        rows += bytes;
    }
    return status == ZT_OK;
}

/* *torn: it failed while it was written into the cache. */
static bool fetch_file(zt_kv_store *store, size_t index, zt_kv_kind kind, const zt_kv_place *place, bool *torn)
{
    bool damaged, good = false;
    const zt_kv_block block = file_of(store, &store->chain[index], kind);
    const size_t bytes = store->part[kind].file_bytes;
    const uint8_t *file = zt_kv_files_map(store->files, block.key, suffixes[kind], bytes, &damaged);
    if (file) damaged = !zt_kv_block_check(&block, file, bytes);
    if (damaged) note_damaged(store, block.key, suffixes[kind]);
    if (file && !damaged) {
        good = write_part(store, kind, file + zt_kv_block_rows(&block), part_of_cache(place, kind, index));
        *torn = !good;
    }
    zt_kv_files_unmap(file, bytes);
    store->count.found += good;
    return good;
}

/* Blocks [index, end), as many as there are. Returns the end of those. */
static size_t fetch_blocks(zt_kv_store *store, size_t index, size_t end, const zt_kv_place *place)
{
    bool torn = false;
    while (index < end && fetch_file(store, index, ZT_KV_ROWS, place, &torn)) index++;
    return index;
}

/* The same in a model with recurrent layers: up to the last state that is there. *torn: a state is damaged, in the cache. */
static size_t fetch_to_state(zt_kv_store *store, size_t from, size_t block_count, const zt_kv_place *place, bool *torn)
{
    size_t fetched = from, end = count_stored(store, from, block_count);
    for (; end > from && !*torn; end--) {
        if (!has_file(store, end - 1, ZT_KV_STATES)) continue;
        if (end > fetched) fetched = fetch_blocks(store, fetched, end, place);
        if (fetched < end)
            end = fetched + 1; /* a block is damaged: states before it */
        else if (fetch_file(store, end - 1, ZT_KV_STATES, place, torn))
            return end;
    }
    return from;
}

int64_t zt_kv_store_fetch(zt_kv_store *store, const int32_t *ids, size_t count, int64_t from, const zt_kv_place *place)
{
    if (!store) return from;
    ZT_REQUIRE(store->ctx, (ids || !count) && from >= 0 && place, from);
    const size_t block_count = count / ZT_LLM_BLOCK, first = (size_t)from / ZT_LLM_BLOCK;
    if (!store->model || first >= block_count || (is_recurrent(store) && place->slot < 0) || zt_ctx_status(store->ctx) ||
        make_chain(store, ids, block_count))
        return from;
    bool torn = false;
    const size_t end = is_recurrent(store) ? fetch_to_state(store, first, block_count, place, &torn)
                                           : fetch_blocks(store, first, block_count, place);
    forgive(store);
    if (torn) return 0;
    const int64_t position = (int64_t)(end * ZT_LLM_BLOCK);
    zt_log(store->ctx, ZT_LOG_DEBUG, "%s: %" PRId64 " of %zu tokens, %" PRId64 " of them were in the cache", store->path,
           position > from ? position : from, count, from);
    return position > from ? position : from;
}

zt_status zt_kv_store_resume(zt_kv_store *store, const int32_t *ids, size_t count, zt_ids *fed)
{
    if (!store) return ZT_OK;
    ZT_REQUIRE(store->ctx, (ids || !count) && fed && fed->count <= count, ZT_EUSAGE);
    const int64_t got = zt_kv_store_fetch(store, ids, count, (int64_t)fed->count, &(zt_kv_place){0});
    zt_status status = ZT_OK;
    if (got == (int64_t)fed->count) return ZT_OK;
    if (got == 0) fed->count = 0;
    for (size_t i = fed->count; i < (size_t)got && !status; i++) status = zt_ids_push(store->ctx, fed, ids[i]);
    return status ? status : zt_llm_place(store->model, fed->id, got, got > 0);
}

/* ---- to a file ------------------------------------------------------------------------------- */

int64_t zt_kv_store_stop(zt_kv_store *store, const int32_t *ids, size_t count, int64_t from)
{
    const int64_t end = (int64_t)count;
    if (!store) return end;
    ZT_REQUIRE(store->ctx, (ids || !count) && from >= 0, end);
    if (!store->model || !is_recurrent(store) || from + 1 >= end) return end;
    const size_t block_count = (count - 1) / ZT_LLM_BLOCK;
    if (make_chain(store, ids, block_count)) {
        forgive(store);
        return end;
    }
    const int64_t next = (from / STATES_EVERY + 1) * STATES_EVERY, last = (int64_t)block_count * ZT_LLM_BLOCK,
                  known = (int64_t)count_stored(store, 0, block_count) * ZT_LLM_BLOCK;
    int64_t stop = last > from ? last : end;
    if (known > from && known < stop) stop = known;
    return next < stop ? next : stop;
}

static bool read_part(const zt_kv_store *store, zt_kv_kind kind, uint8_t *rows, size_t cache_index)
{
    zt_session *session = zt_llm_session(store->model);
    const store_part *part = &store->part[kind];
    zt_status status = ZT_OK;
    for (uint32_t i = 0; i < part->state_count && !status; i++) {
        const size_t bytes = (size_t)part->state_bytes[i];
        status = zt_session_state_read(session, part->state[i], cache_index * bytes, bytes, rows);
        rows += bytes;
    }
    return status == ZT_OK;
}

static bool keep_file(zt_kv_store *store, size_t index, zt_kv_kind kind, const zt_kv_place *place)
{
    store_part *part = &store->part[kind];
    const zt_kv_block block = file_of(store, &store->chain[index], kind);
    if (!part->file) part->file = zt_alloc(store->ctx, part->file_bytes);
    if (!part->file || !read_part(store, kind, part->file + zt_kv_block_rows(&block), part_of_cache(place, kind, index)))
        return false;
    zt_kv_block_seal(&block, part->file);
    bool good = zt_kv_files_write(store->files, block.key, suffixes[kind], part->file, part->file_bytes);
    if (good) zt_kv_files_touch(store->files, block.key, suffixes[kind], (int64_t)index);
    store->count.written += good;
    return good;
}

/* Blocks that are missing, from the first on, as many as there is room for: one without those before it is of no use. Then, if it
 * is wanted, the state behind the last. */
static void keep_missing(zt_kv_store *store, size_t block_count, size_t missing, bool state, const zt_kv_place *place)
{
    const uint64_t bytes = store->part[ZT_KV_ROWS].file_bytes, state_bytes = state ? store->part[ZT_KV_STATES].file_bytes : 0;
    uint64_t room;
    if (!zt_kv_files_begin(store->files, (block_count - missing) * bytes, missing * bytes + state_bytes, &room)) return;
    bool good = true;
    for (size_t i = 0; i < block_count && good; i++) {
        if (has_file(store, i, ZT_KV_ROWS)) continue;
        good = room >= bytes && keep_file(store, i, ZT_KV_ROWS, place);
        room -= good ? bytes : 0;
    }
    if (good && state && room >= state_bytes) keep_file(store, block_count - 1, ZT_KV_STATES, place);
    zt_kv_files_end(store->files);
}

/* It is used now. */
static bool touch_file(const zt_kv_store *store, size_t index, zt_kv_kind kind)
{
    const bool has = has_file(store, index, kind);
    if (has) zt_kv_files_touch(store->files, store->chain[index].key, suffixes[kind], (int64_t)index);
    return has;
}

void zt_kv_store_keep(zt_kv_store *store, const int32_t *ids, size_t count, const zt_kv_place *place)
{
    if (!store) return;
    ZT_REQUIRE(store->ctx, (ids || !count) && place, );
    const size_t block_count = count / ZT_LLM_BLOCK;
    size_t missing = 0;
    if (!store->model || !block_count || zt_ctx_status(store->ctx)) return;
    zt_status status = make_chain(store, ids, block_count);
    for (size_t i = 0; i < block_count && !status; i++) {
        missing += !touch_file(store, i, ZT_KV_ROWS);
        if (is_recurrent(store)) touch_file(store, i, ZT_KV_STATES);
    }
    const bool state = !status && is_recurrent(store) && place->slot >= 0 && count % ZT_LLM_BLOCK == 0 &&
                       !has_file(store, block_count - 1, ZT_KV_STATES);
    if (missing || state) keep_missing(store, block_count, missing, state, place);
    forgive(store);
}

void zt_kv_store_keep_fed(zt_kv_store *store, const int32_t *ids, size_t count)
{
    if (!store || !store->model) return;
    const zt_recurrent_rows *rows = store->model->recurrent;
    zt_kv_store_keep(store, ids, count, &(zt_kv_place){.slot = rows ? zt_recurrent_slot(rows, (int64_t)count) : -1});
}
