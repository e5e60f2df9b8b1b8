/* save.c - the KV cache and the tokens in it as a file, to go on from there.
 *
 * The file, little endian: the head below; tokens i32[n]; of each state its first n rows, or of a recurrent layer what one
 * sequence has; then XXH3-128 of all of that. The header names model and arithmetic, so that the restored cache has the
 * bits that feeding would have produced. The whole file is checked before any of it is used.
 */
#define XXH_STATIC_LINKING_ONLY /* the state's size, to have its memory from the context */
#include "lib/base/require.h"
#include "lib/llm/arch/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC "zt-sess1"
#define PIECE (1u << 20)

typedef struct session_header {
    char magic[8];
    char model[32];      /* zt_llm_key */
    char arithmetic[64]; /* the arithmetic, zeros behind */
    int32_t kv;          /* zt_dtype of the cache; where that of values is another, and 256 times that more */
    int32_t n_states;
    int64_t token_count; /* tokens */
    uint64_t bytes;      /* of the whole file */
} session_header;

zt_status zt_llm_key(zt_gguf *gguf, char key[33])
{
    if (!gguf) return ZT_EUSAGE;
    ZT_REQUIRE(zt_gguf_ctx(gguf), key, ZT_EUSAGE);
    enum { SAMPLES = 64, BYTES = 256 };
    int64_t tensor_count = zt_gguf_n_tensors(gguf), picked = tensor_count < SAMPLES ? tensor_count : SAMPLES;
    char sample[32 + SAMPLES * BYTES];
    size_t used = 32;
    zt_store store = zt_gguf_store(gguf);
    memcpy(sample, zt_gguf_id(gguf), 32);
    for (int64_t i = 0; i < picked; i++) {
        zt_type type;
        int64_t handle;
        size_t bytes;
        const char *name = zt_gguf_tensor(gguf, i * tensor_count / picked, &type, NULL, &bytes);
        size_t piece = bytes < BYTES ? bytes : BYTES;
        zt_status status = store.find(store.user, name, &type, &handle);
        if (status == ZT_OK) status = store.read(store.user, handle, (bytes - piece) / 2, sample + used, piece);
        if (status != ZT_OK) return status;
        used += piece;
    }
    XXH128_hash_t hash = XXH3_128bits(sample, used);
    snprintf(key, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
    return ZT_OK;
}

static int count_states(zt_llm *model) { return zt_prog_count(zt_llm_prog(model), ZT_VALUE_STATE); }

/* How the i-th state is laid out: rows by position, or slots of which a sequence has one. */
typedef struct state_rows {
    size_t bytes, count; /* of a row or slot; how many */
    bool slots;          /* of a recurrent layer: its first dimension does not grow with the context */
} state_rows;

static state_rows rows_of(zt_llm *model, int index)
{
    const zt_prog *program = zt_llm_prog(model);
    zt_type type = zt_session_state_type(zt_llm_session(model), index);
    state_rows rows = {.count = type.rank > 0 ? (size_t)type.dim[0] : 0};
    rows.bytes = rows.count ? zt_type_bytes(&type) / rows.count : 0;
    rows.slots = rows.count && zt_prog_value(program, zt_prog_nth(program, ZT_VALUE_STATE, index))->type.dim[0] >= 0;
    return rows;
}

/* Bytes of the i-th state after so many tokens. */
static size_t saved_bytes(const state_rows *rows, size_t token_count)
{
    return rows->slots ? (token_count ? rows->bytes : 0) : rows->bytes * token_count;
}

/* The largest state, whole. */
static size_t largest_state_bytes(zt_llm *model)
{
    size_t most = 0;
    for (int i = 0; i < count_states(model); i++) {
        state_rows rows = rows_of(model, i);
        most = rows.bytes * rows.count > most ? rows.bytes * rows.count : most;
    }
    return most;
}

static zt_status make_head(zt_llm *model, const char *model_key, const char *arithmetic, int64_t token_count,
                           session_header *made)
{
    char program[ZT_FORWARD_KEY];
    int32_t keys = -1, values = -1; /* the first state by positions is a layer's keys, the last a layer's values */
    session_header header = {.token_count = token_count, .n_states = count_states(model)};
    zt_status status = zt_forward_key(model, program);
    header.bytes = sizeof header + (size_t)token_count * sizeof(int32_t) + sizeof(XXH128_canonical_t);
    memcpy(header.magic, MAGIC, sizeof header.magic);
    memcpy(header.model, model_key, strnlen(model_key, sizeof header.model));
    size_t length = strnlen(arithmetic, sizeof header.arithmetic - 1 - strlen(program));
    memcpy(header.arithmetic, arithmetic, length);
    memcpy(header.arithmetic + length, program, strlen(program));
    for (int i = 0; i < header.n_states; i++) {
        state_rows rows = rows_of(model, i);
        header.bytes += saved_bytes(&rows, (size_t)token_count);
        const int32_t dtype = (int32_t)zt_session_state_type(zt_llm_session(model), i).dtype;
        if (!rows.slots) keys = keys < 0 ? dtype : keys, values = dtype;
    }
    if (keys >= 0) header.kv = keys == values ? keys : keys + 256 * values;
    *made = header;
    return status;
}

/* ---- save ------------------------------------------------------------------------------------ */

typedef struct session_writer {
    zt_sink *sink;
    XXH3_state_t *hash;
} session_writer;

static zt_status write_hashed(session_writer *writer, const void *bytes, size_t size)
{
    XXH3_128bits_update(writer->hash, bytes, size);
    return zt_sink_write(writer->sink, bytes, size);
}

static zt_status write_states(zt_llm *model, session_writer *writer, size_t token_count)
{
    int slot = token_count ? zt_llm_state_slot(model) : 0;
    if (slot < 0) return zt_ctx_status(zt_llm_ctx(model));
    zt_status status = ZT_OK;
    char *whole = zt_alloc(zt_llm_ctx(model), largest_state_bytes(model));
    if (!whole) return ZT_ENOMEM;
    for (int i = 0; i < count_states(model) && status == ZT_OK; i++) {
        state_rows rows = rows_of(model, i);
        if (!rows.slots && token_count > rows.count)
            status = zt_fail(zt_llm_ctx(model), ZT_ENOTSUP, "state %d holds %zu positions of %zu: the session cannot be saved", i,
                             rows.count, token_count);
        else
            status = zt_session_state_get(zt_llm_session(model), i, whole);
        const char *from = whole + (rows.slots ? (size_t)slot * rows.bytes : 0);
        if (status == ZT_OK) status = write_hashed(writer, from, saved_bytes(&rows, token_count));
    }
    zt_free(zt_llm_ctx(model), whole);
    return status;
}

static zt_status write_session(zt_llm *model, session_writer *writer, const session_header *header, const int32_t *ids)
{
    XXH128_canonical_t sum;
    XXH3_128bits_reset(writer->hash);
    zt_status status = write_hashed(writer, header, sizeof *header);
    if (status == ZT_OK) status = write_hashed(writer, ids, (size_t)header->token_count * sizeof *ids);
    if (status == ZT_OK) status = write_states(model, writer, (size_t)header->token_count);
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(writer->hash));
    if (status == ZT_OK) status = zt_sink_write(writer->sink, &sum, sizeof sum);
    return status == ZT_OK ? zt_sink_commit(writer->sink) : status;
}

zt_status zt_llm_save(zt_llm *model, const char *model_key, const char *arithmetic, const int32_t *ids, const char *path)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(zt_llm_ctx(model), model_key && arithmetic && path, ZT_EUSAGE);
    zt_ctx *ctx = zt_llm_ctx(model);
    session_header header;
    zt_status made = make_head(model, model_key, arithmetic, zt_llm_position(model), &header);
    session_writer writer = {.hash = made ? NULL : zt_alloc(ctx, sizeof(XXH3_state_t))};
    if (writer.hash) writer.sink = zt_sink_open(ctx, path, true);
    zt_status status = writer.sink ? write_session(model, &writer, &header, ids) : zt_ctx_status(ctx);
    zt_sink_close(writer.sink);
    zt_free(ctx, writer.hash);
    return status;
}

/* ---- load ------------------------------------------------------------------------------------ */

typedef struct session_reader {
    zt_llm *model;
    zt_ctx *ctx;
    zt_source *src;
    const char *path;
    session_header header;
} session_reader;

static zt_status fail_damaged(session_reader *reader, const char *what)
{
    return zt_fail(reader->ctx, ZT_EDATA, "%s: session: %s", reader->path, what);
}

/* Checks format, model and length. *use false: made with another arithmetic, not an error. */
static zt_status check_head(session_reader *reader, const char *model_key, const char *arithmetic, bool *use)
{
    session_header *header = &reader->header, want;
    uint64_t size = zt_source_size(reader->src);
    char shown[64];
    if (size < sizeof *header || zt_source_read(reader->src, 0, header, sizeof *header) != ZT_OK)
        return fail_damaged(reader, "the file is too short");
    if (memcmp(header->magic, MAGIC, sizeof header->magic) != 0) return fail_damaged(reader, "not a session file of zt-run");
    if (memcmp(header->model, model_key, sizeof header->model) != 0)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: session of another model: %s, this is %s", reader->path,
                       zt_escape(shown, sizeof shown, header->model, sizeof header->model), model_key);
    if (header->token_count < 0 || header->token_count > INT32_MAX || header->bytes != size)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: session: %" PRIu64 " bytes, expected %" PRIu64 " by its header", reader->path,
                       size, header->bytes);
    header->arithmetic[sizeof header->arithmetic - 1] = 0;
    zt_status status = make_head(reader->model, model_key, arithmetic, header->token_count, &want);
    if (status) return status;
    *use = strcmp(header->arithmetic, want.arithmetic) == 0 && header->kv == want.kv;
    if (!*use)
        zt_log(reader->ctx, ZT_LOG_WARN, "%s: the session was made with '%s', this is '%s': session ignored", reader->path,
               zt_escape(shown, sizeof shown, header->arithmetic, strlen(header->arithmetic)), want.arithmetic);
    else if (header->n_states != want.n_states || header->bytes != want.bytes)
        return fail_damaged(reader, "its cache shape differs from the model's");
    return ZT_OK;
}

static zt_status check_sum(session_reader *reader)
{
    XXH128_canonical_t sum, stored;
    XXH3_state_t *hash = zt_alloc(reader->ctx, sizeof *hash);
    void *piece = zt_alloc(reader->ctx, PIECE);
    zt_status status = hash && piece ? ZT_OK : ZT_ENOMEM;
    uint64_t end = reader->header.bytes - sizeof sum;
    if (status == ZT_OK) XXH3_128bits_reset(hash);
    for (uint64_t at = 0, piece_size; status == ZT_OK && at < end; at += piece_size) {
        piece_size = end - at < PIECE ? end - at : PIECE;
        status = zt_source_read(reader->src, at, piece, (size_t)piece_size);
        if (status == ZT_OK) XXH3_128bits_update(hash, piece, (size_t)piece_size);
    }
    if (status == ZT_OK) status = zt_source_read(reader->src, end, &stored, sizeof stored);
    if (status == ZT_OK) {
        XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(hash));
        if (memcmp(&sum, &stored, sizeof sum) != 0) status = fail_damaged(reader, "damaged: checksum mismatch");
    }
    zt_free(reader->ctx, hash);
    zt_free(reader->ctx, piece);
    return status;
}

/* Tokens 0 .. token_count - 1, all of them in the vocabulary. */
static zt_status read_ids(session_reader *reader, size_t token_count, zt_ids *ids)
{
    int64_t V = zt_llm_get(reader->model).vocab;
    int32_t *id = zt_alloc_array(reader->ctx, token_count, sizeof *id);
    zt_status status = id ? zt_source_read(reader->src, sizeof reader->header, id, token_count * sizeof *id) : ZT_ENOMEM;
    for (size_t i = 0; i < token_count && status == ZT_OK; i++)
        status =
            id[i] < 0 || id[i] >= V ? fail_damaged(reader, "a token id is out of range") : zt_ids_push(reader->ctx, ids, id[i]);
    zt_free(reader->ctx, id);
    return status;
}

/* Restores the first token_count positions of each state, and slot 0 of a recurrent layer's. The rest is zero and never read
 * before it is written. */
static zt_status read_states(session_reader *reader, size_t token_count)
{
    const size_t saved = (size_t)reader->header.token_count;
    zt_status status = ZT_OK;
    zt_session *session = zt_llm_session(reader->model);
    uint64_t at = sizeof reader->header + (uint64_t)reader->header.token_count * sizeof(int32_t);
    void *whole = zt_calloc(reader->ctx, largest_state_bytes(reader->model), 1);
    if (!whole) return ZT_ENOMEM;
    for (int i = 0; i < reader->header.n_states && status == ZT_OK; i++) {
        state_rows rows = rows_of(reader->model, i);
        status = !rows.slots && token_count > rows.count
                     ? fail_damaged(reader, "more positions than a state holds")
                     : zt_source_read(reader->src, at, whole, saved_bytes(&rows, rows.slots ? saved : token_count));
        if (status == ZT_OK) status = zt_session_state_set(session, i, whole);
        at += saved_bytes(&rows, saved);
    }
    zt_free(reader->ctx, whole);
    return status;
}

zt_status zt_llm_load(zt_llm *model, const char *model_key, const char *arithmetic, const char *path, zt_ids *ids)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(zt_llm_ctx(model), model_key && arithmetic && path && ids, ZT_EUSAGE);
    session_reader reader = {.model = model, .ctx = zt_llm_ctx(model), .path = path};
    bool use = false;
    reader.src = zt_source_open(reader.ctx, path);
    zt_status status = reader.src ? check_head(&reader, model_key, arithmetic, &use) : zt_ctx_status(reader.ctx);
    int64_t limit = zt_llm_get(model).ctx_len,
            token_count = reader.header.token_count < limit ? reader.header.token_count : limit;
    if (status == ZT_OK && use) status = check_sum(&reader);
    size_t before = ids->count;
    if (status == ZT_OK && use) status = read_ids(&reader, (size_t)token_count, ids);
    if (status == ZT_OK && use) status = read_states(&reader, (size_t)token_count);
    /* a context of fewer tokens than were saved has no state at its end */
    if (status == ZT_OK && use)
        status = zt_llm_place(model, ids->id + before, token_count, token_count == reader.header.token_count);
    zt_source_close(reader.src);
    return status;
}
