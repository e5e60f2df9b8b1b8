/* kv_store.c - blocks between the model's cache and their files. */
#include "lib/llm/kv_store.h"
#include "lib/base/require.h"
#include "lib/llm/arch/arch.h"
#include "lib/llm/kv_block.h"
#include "lib/llm/kv_files.h"
#include "lib/llm/model_digest.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

static const char BLOCK[] = ".kv", MODEL[] = ".model";

struct zt_kv_store {
    zt_ctx *ctx;
    char *path;
    zt_kv_files *files;
    zt_digest *digest;
    zt_llm *model; /* NULL: none is attached */
    uint8_t identity[ZT_DIGEST_BYTES];
    uint32_t state_count;
    uint64_t *state_bytes; /* [state_count], of a block */
    size_t block_bytes;    /* of a file */
    uint8_t *file;         /* [block_bytes], to write; made when it is needed */
    zt_kv_block *chain;    /* blocks of a text */
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

void zt_kv_store_close(zt_kv_store *store)
{
    if (!store) return;
    zt_kv_files_close(store->files);
    zt_digest_free(store->digest);
    zt_free(store->ctx, store->state_bytes);
    zt_free(store->ctx, store->chain);
    zt_free(store->ctx, store->file);
    zt_free(store->ctx, store->path);
    zt_free(store->ctx, store);
}

static zt_status refuse(const zt_kv_store *store, const char *why)
{
    return zt_fail(store->ctx, ZT_ENOTSUP, "%s: blocks of this model's cache cannot be stored: %s", store->path, why);
}

/* The rows of a block in each state. */
static zt_status measure_states(zt_kv_store *store, zt_llm *model)
{
    zt_session *session = zt_llm_session(model);
    const zt_prog *program = zt_llm_prog(model);
    const size_t cache_rows = (size_t)zt_llm_get(model).cache_len;
    for (int i = 0; i < (int)store->state_count; i++) {
        const zt_type type = zt_session_state_type(session, i);
        const bool grows = zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, i))->type.dim[0] < 0;
        if (!grows || type.rank < 1 || (size_t)type.dim[0] != cache_rows)
            return refuse(store, "it has recurrent layers, whose states are not rows of positions");
        store->state_bytes[i] = zt_session_state_own(session, i) / cache_rows * ZT_LLM_BLOCK;
    }
    return ZT_OK;
}

zt_status zt_kv_store_attach(zt_kv_store *store, zt_llm *model, const uint8_t identity[ZT_DIGEST_BYTES])
{
    if (!store) return ZT_EUSAGE;
    ZT_REQUIRE(store->ctx, model && identity, ZT_EUSAGE);
    const zt_engine_vt *engine = zt_engine_inmost(zt_session_engine(zt_llm_session(model)))->vt;
    store->model = NULL;
    store->state_count = (uint32_t)zt_prog_count(zt_llm_prog(model), ZT_VALUE_STATE);
    if (!store->state_count) return refuse(store, "it has none");
    if (!engine->read_part || !engine->write_part)
        return zt_fail(store->ctx, ZT_ENOTSUP, "%s: engine %s cannot read or write a part of a state", store->path, engine->name);
    zt_free(store->ctx, store->state_bytes);
    zt_free(store->ctx, store->file);
    store->file = NULL;
    store->state_bytes = zt_alloc_array(store->ctx, store->state_count, sizeof *store->state_bytes);
    zt_status status = store->state_bytes ? measure_states(store, model) : ZT_ENOMEM;
    if (status) return status;
    store->block_bytes = zt_kv_block_bytes(&(zt_kv_block){.state_count = store->state_count, .state_bytes = store->state_bytes});
    if (!store->block_bytes) return zt_fail(store->ctx, ZT_ENOMEM, "%s: a block is too large", store->path);
    memcpy(store->identity, identity, sizeof store->identity);
    store->model = model;
    return ZT_OK;
}

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
        *block = (zt_kv_block){.position = (int64_t)(i * ZT_LLM_BLOCK),
                               .ids = ids + i * ZT_LLM_BLOCK,
                               .state_count = store->state_count,
                               .state_bytes = store->state_bytes};
        memcpy(block->before, before, sizeof block->before);
        status = zt_kv_block_key(store->digest, block);
        before = block->key;
    }
    return status;
}

static size_t cache_block(const int32_t *table, size_t index) { return table ? (size_t)table[index] : index; }

/* ---- from a file ----------------------------------------------------------------------------- */

/* Rows that were written before a failure are behind the position, and are computed. */
static bool write_rows(const zt_kv_store *store, const uint8_t *rows, size_t cache_index)
{
    zt_session *session = zt_llm_session(store->model);
    zt_status status = ZT_OK;
    for (uint32_t i = 0; i < store->state_count && !status; i++) {
        const size_t bytes = (size_t)store->state_bytes[i];
        status = zt_session_state_write(session, (int)i, cache_index * bytes, bytes, rows);
        rows += bytes;
    }
    return status == ZT_OK;
}

static bool fetch_block(zt_kv_store *store, const zt_kv_block *block, size_t cache_index)
{
    bool damaged, good = false;
    const uint8_t *file = zt_kv_files_map(store->files, block->key, BLOCK, store->block_bytes, &damaged);
    if (file) damaged = !zt_kv_block_check(block, file, store->block_bytes);
    if (damaged) note_damaged(store, block->key, BLOCK);
    if (file && !damaged) good = write_rows(store, file + zt_kv_block_rows(block), cache_index);
    zt_kv_files_unmap(file, store->block_bytes);
    store->count.found += good;
    return good;
}

int64_t zt_kv_store_fetch(zt_kv_store *store, const int32_t *ids, size_t count, int64_t from, const int32_t *table)
{
    if (!store) return from;
    ZT_REQUIRE(store->ctx, (ids || !count) && from >= 0, from);
    size_t block_count = count / ZT_LLM_BLOCK, index = (size_t)from / ZT_LLM_BLOCK;
    if (!store->model || index >= block_count || zt_ctx_status(store->ctx) || make_chain(store, ids, block_count)) return from;
    while (index < block_count && fetch_block(store, &store->chain[index], cache_block(table, index))) index++;
    if (zt_ctx_status(store->ctx)) {
        zt_log(store->ctx, ZT_LOG_INFO, "%s: %s", store->path, zt_ctx_error(store->ctx));
        zt_ctx_clear(store->ctx);
    }
    const int64_t position = (int64_t)(index * ZT_LLM_BLOCK);
    zt_log(store->ctx, ZT_LOG_DEBUG, "%s: %" PRId64 " of %zu tokens, %" PRId64 " of them were in the cache", store->path,
           position > from ? position : from, count, from);
    return position > from ? position : from;
}

zt_status zt_kv_store_resume(zt_kv_store *store, const int32_t *ids, size_t count, zt_ids *fed)
{
    if (!store) return ZT_OK;
    ZT_REQUIRE(store->ctx, (ids || !count) && fed && fed->count <= count, ZT_EUSAGE);
    const int64_t got = zt_kv_store_fetch(store, ids, count, (int64_t)fed->count, NULL);
    zt_status status = ZT_OK;
    if (got <= (int64_t)fed->count) return ZT_OK;
    for (size_t i = fed->count; i < (size_t)got && !status; i++) status = zt_ids_push(store->ctx, fed, ids[i]);
    return status ? status : zt_llm_place(store->model, fed->id, got, false);
}

/* ---- to a file ------------------------------------------------------------------------------- */

static bool read_rows(const zt_kv_store *store, uint8_t *rows, size_t cache_index)
{
    zt_session *session = zt_llm_session(store->model);
    zt_status status = ZT_OK;
    for (uint32_t i = 0; i < store->state_count && !status; i++) {
        const size_t bytes = (size_t)store->state_bytes[i];
        status = zt_session_state_read(session, (int)i, cache_index * bytes, bytes, rows);
        rows += bytes;
    }
    return status == ZT_OK;
}

static bool keep_block(zt_kv_store *store, const zt_kv_block *block, size_t cache_index)
{
    if (!store->file) store->file = zt_alloc(store->ctx, store->block_bytes);
    if (!store->file || !read_rows(store, store->file + zt_kv_block_rows(block), cache_index)) return false;
    zt_kv_block_seal(block, store->file);
    bool good = zt_kv_files_write(store->files, block->key, BLOCK, store->file, store->block_bytes);
    store->count.written += good;
    return good;
}

/* Blocks that are missing, from the first on, as many as there is room for: one without those before it is of no use. */
static void keep_missing(zt_kv_store *store, size_t block_count, size_t missing, const int32_t *table)
{
    uint64_t room, bytes = store->block_bytes;
    if (!zt_kv_files_begin(store->files, (block_count - missing) * bytes, missing * bytes, &room)) return;
    bool good = true;
    for (size_t i = 0; i < block_count && room >= bytes && good; i++) {
        if (zt_kv_files_has(store->files, store->chain[i].key, BLOCK)) continue;
        good = keep_block(store, &store->chain[i], cache_block(table, i));
        if (good) zt_kv_files_touch(store->files, store->chain[i].key, BLOCK, (int64_t)i);
        room -= bytes;
    }
    zt_kv_files_end(store->files);
}

void zt_kv_store_keep(zt_kv_store *store, const int32_t *ids, size_t count, const int32_t *table)
{
    if (!store) return;
    ZT_REQUIRE(store->ctx, ids || !count, );
    const size_t block_count = count / ZT_LLM_BLOCK;
    size_t missing = 0;
    if (!store->model || !block_count || zt_ctx_status(store->ctx)) return;
    zt_status status = make_chain(store, ids, block_count);
    for (size_t i = 0; i < block_count && !status; i++) {
        bool has = zt_kv_files_has(store->files, store->chain[i].key, BLOCK);
        if (has) zt_kv_files_touch(store->files, store->chain[i].key, BLOCK, (int64_t)i);
        missing += !has;
    }
    if (missing) keep_missing(store, block_count, missing, table);
    if (!zt_ctx_status(store->ctx)) return;
    zt_log(store->ctx, ZT_LOG_INFO, "%s: %s", store->path, zt_ctx_error(store->ctx));
    zt_ctx_clear(store->ctx);
}
