/* save.c - the KV cache and the tokens in it as a file, to go on from there.
 *
 * The file, little endian: the head below; tokens i32[n]; of each state its first n rows; then
 * XXH3-128 of all of that. The head names model and arithmetic, so that what is taken back has the
 * very bits that feeding would have made. The whole file is checked before any of it is used.
 */
#define XXH_STATIC_LINKING_ONLY /* the state's size, to have its memory from the context */
#include "lib/llm/arch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define MAGIC "zt-sess1"
#define PIECE (1u << 20)

typedef struct head {
    char magic[8];
    char model[32]; /* zt_llm_key */
    char how[64];   /* the arithmetic, zeros behind */
    int32_t kv;     /* zt_dtype of the cache */
    int32_t n_states;
    int64_t n;      /* tokens */
    uint64_t bytes; /* of the whole file */
} head;

zt_status zt_llm_key(zt_gguf *g, char key[33])
{
    enum { SAMPLES = 64, BYTES = 256 };
    int64_t n = zt_gguf_n_tensors(g), picked = n < SAMPLES ? n : SAMPLES;
    char sample[32 + SAMPLES * BYTES];
    size_t used = 32;
    zt_store store = zt_gguf_store(g);
    memcpy(sample, zt_gguf_id(g), 32);
    for (int64_t i = 0; i < picked; i++) {
        zt_type type;
        int64_t handle;
        size_t bytes;
        const char *name = zt_gguf_tensor(g, i * n / picked, &type, NULL, &bytes);
        size_t k = bytes < BYTES ? bytes : BYTES;
        zt_status s = store.find(store.user, name, &type, &handle);
        if (s == ZT_OK)
            s = store.read(store.user, handle, (bytes - k) / 2, sample + used, k);
        if (s != ZT_OK)
            return s;
        used += k;
    }
    XXH128_hash_t h = XXH3_128bits(sample, used);
    snprintf(key, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
    return ZT_OK;
}

static int n_states(zt_llm *m)
{
    return zt_prog_count(zt_llm_prog(m), ZT_VALUE_STATE);
}

/* Bytes of one row (a token) of the i-th state, whose first dimension is positions. */
static size_t row_bytes(zt_llm *m, int i, size_t *rows)
{
    zt_type t = zt_session_state_type(zt_llm_session(m), i);
    *rows = t.rank > 0 ? (size_t)t.dim[0] : 0;
    return *rows ? zt_type_bytes(&t) / *rows : 0;
}

/* The largest state, whole. */
static size_t most_bytes(zt_llm *m)
{
    size_t most = 0, rows;
    for (int i = 0; i < n_states(m); i++) {
        size_t bytes = row_bytes(m, i, &rows) * rows;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static head make_head(zt_llm *m, const char *model, const char *how, int64_t n)
{
    size_t rows;
    head h = {.n = n, .n_states = n_states(m)};
    h.bytes = sizeof h + (size_t)n * sizeof(int32_t) + sizeof(XXH128_canonical_t);
    memcpy(h.magic, MAGIC, sizeof h.magic);
    memcpy(h.model, model, strnlen(model, sizeof h.model));
    memcpy(h.how, how, strnlen(how, sizeof h.how - 1));
    for (int i = 0; i < h.n_states; i++) {
        h.bytes += row_bytes(m, i, &rows) * (size_t)n;
        h.kv = (int32_t)zt_session_state_type(zt_llm_session(m), i).dtype;
    }
    return h;
}

/* ---- save ------------------------------------------------------------------------------------ */

typedef struct writer {
    zt_sink *sink;
    XXH3_state_t *hash;
} writer;

static zt_status put(writer *w, const void *bytes, size_t n)
{
    XXH3_128bits_update(w->hash, bytes, n);
    return zt_sink_write(w->sink, bytes, n);
}

static zt_status put_states(zt_llm *m, writer *w, size_t n)
{
    zt_status s = ZT_OK;
    void *whole = zt_alloc(zt_llm_ctx(m), most_bytes(m));
    if (!whole)
        return ZT_ENOMEM;
    for (int i = 0; i < n_states(m) && s == ZT_OK; i++) {
        size_t rows, bytes = row_bytes(m, i, &rows);
        if (n > rows)
            s = zt_fail(zt_llm_ctx(m), ZT_ENOTSUP, "state %d holds %zu positions, not all %zu", i,
                        rows, n);
        else
            s = zt_session_state_get(zt_llm_session(m), i, whole);
        if (s == ZT_OK)
            s = put(w, whole, bytes * n);
    }
    zt_free(zt_llm_ctx(m), whole);
    return s;
}

static zt_status put_all(zt_llm *m, writer *w, const head *h, const int32_t *ids)
{
    XXH128_canonical_t sum;
    XXH3_128bits_reset(w->hash);
    zt_status s = put(w, h, sizeof *h);
    if (s == ZT_OK)
        s = put(w, ids, (size_t)h->n * sizeof *ids);
    if (s == ZT_OK)
        s = put_states(m, w, (size_t)h->n);
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(w->hash));
    if (s == ZT_OK)
        s = zt_sink_write(w->sink, &sum, sizeof sum);
    return s == ZT_OK ? zt_sink_commit(w->sink) : s;
}

zt_status zt_llm_save(zt_llm *m, const char *model, const char *how, const int32_t *ids,
                      const char *path)
{
    zt_ctx *ctx = zt_llm_ctx(m);
    head h = make_head(m, model, how, zt_llm_position(m));
    writer w = {.hash = zt_alloc(ctx, sizeof(XXH3_state_t))};
    if (w.hash)
        w.sink = zt_sink_open(ctx, path, true);
    zt_status s = w.sink ? put_all(m, &w, &h, ids) : zt_ctx_status(ctx);
    zt_sink_close(w.sink);
    zt_free(ctx, w.hash);
    return s;
}

/* ---- load ------------------------------------------------------------------------------------ */

typedef struct reader {
    zt_llm *m;
    zt_ctx *ctx;
    zt_source *src;
    const char *path;
    head h;
} reader;

static zt_status damaged(reader *r, const char *what)
{
    return zt_fail(r->ctx, ZT_EDATA, "%s: session: %s", r->path, what);
}

/* Ours, of this model, and as long as it says. `*use` false: of another arithmetic. */
static zt_status check_head(reader *r, const char *model, const char *how, bool *use)
{
    head *h = &r->h, want;
    uint64_t size = zt_source_size(r->src);
    char shown[64];
    if (size < sizeof *h || zt_source_read(r->src, 0, h, sizeof *h) != ZT_OK)
        return damaged(r, "too short to be one");
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return damaged(r, "not a session file of zt-run");
    if (memcmp(h->model, model, sizeof h->model) != 0)
        return zt_fail(r->ctx, ZT_EDATA, "%s: session of another model: %s, this is %s", r->path,
                       zt_escape(shown, sizeof shown, h->model, sizeof h->model), model);
    if (h->n < 0 || h->n > INT32_MAX || h->bytes != size)
        return zt_fail(r->ctx, ZT_EDATA,
                       "%s: session: %" PRIu64 " bytes, where its head says %" PRIu64, r->path,
                       size, h->bytes);
    h->how[sizeof h->how - 1] = 0;
    want = make_head(r->m, model, how, h->n);
    *use = strcmp(h->how, want.how) == 0 && h->kv == want.kv;
    if (!*use)
        zt_log(r->ctx, ZT_LOG_WARN, "%s: session made with '%s', this is '%s': not used", r->path,
               zt_escape(shown, sizeof shown, h->how, strlen(h->how)), how);
    else if (h->n_states != want.n_states || h->bytes != want.bytes)
        return damaged(r, "its cache has another shape than the model's");
    return ZT_OK;
}

static zt_status check_sum(reader *r)
{
    XXH128_canonical_t sum, stored;
    XXH3_state_t *hash = zt_alloc(r->ctx, sizeof *hash);
    void *piece = zt_alloc(r->ctx, PIECE);
    zt_status s = hash && piece ? ZT_OK : ZT_ENOMEM;
    uint64_t end = r->h.bytes - sizeof sum;
    if (s == ZT_OK)
        XXH3_128bits_reset(hash);
    for (uint64_t at = 0, n; s == ZT_OK && at < end; at += n) {
        n = end - at < PIECE ? end - at : PIECE;
        s = zt_source_read(r->src, at, piece, (size_t)n);
        if (s == ZT_OK)
            XXH3_128bits_update(hash, piece, (size_t)n);
    }
    if (s == ZT_OK)
        s = zt_source_read(r->src, end, &stored, sizeof stored);
    if (s == ZT_OK) {
        XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(hash));
        if (memcmp(&sum, &stored, sizeof sum) != 0)
            s = damaged(r, "damaged: its checksum is another");
    }
    zt_free(r->ctx, hash);
    zt_free(r->ctx, piece);
    return s;
}

/* Tokens 0 .. n - 1, all of them in the vocabulary. */
static zt_status take_ids(reader *r, size_t n, zt_ids *ids)
{
    int64_t V = zt_llm_get(r->m).vocab;
    int32_t *id = zt_alloc_array(r->ctx, n, sizeof *id);
    zt_status s = id ? zt_source_read(r->src, sizeof r->h, id, n * sizeof *id) : ZT_ENOMEM;
    for (size_t i = 0; i < n && s == ZT_OK; i++)
        s = id[i] < 0 || id[i] >= V ? damaged(r, "a token id beyond the vocabulary")
                                    : zt_ids_push(r->ctx, ids, id[i]);
    zt_free(r->ctx, id);
    return s;
}

/* The rest of a state is what it is: nothing before it is written is read. */
static zt_status take_states(reader *r, size_t n)
{
    zt_status s = ZT_OK;
    zt_session *session = zt_llm_session(r->m);
    uint64_t at = sizeof r->h + (uint64_t)r->h.n * sizeof(int32_t);
    void *whole = zt_calloc(r->ctx, most_bytes(r->m), 1);
    if (!whole)
        return ZT_ENOMEM;
    for (int i = 0; i < r->h.n_states && s == ZT_OK; i++) {
        size_t rows, bytes = row_bytes(r->m, i, &rows);
        s = n > rows ? damaged(r, "more positions than a state holds")
                     : zt_source_read(r->src, at, whole, bytes * n);
        if (s == ZT_OK)
            s = zt_session_state_set(session, i, whole);
        at += bytes * (uint64_t)r->h.n;
    }
    zt_free(r->ctx, whole);
    return s;
}

zt_status zt_llm_load(zt_llm *m, const char *model, const char *how, const char *path, zt_ids *ids)
{
    reader r = {.m = m, .ctx = zt_llm_ctx(m), .path = path};
    bool use = false;
    r.src = zt_source_open(r.ctx, path);
    zt_status s = r.src ? check_head(&r, model, how, &use) : zt_ctx_status(r.ctx);
    int64_t limit = zt_llm_get(m).ctx_len, n = r.h.n < limit ? r.h.n : limit;
    if (s == ZT_OK && use)
        s = check_sum(&r);
    if (s == ZT_OK && use)
        s = take_ids(&r, (size_t)n, ids);
    if (s == ZT_OK && use)
        s = take_states(&r, (size_t)n);
    if (s == ZT_OK && use)
        zt_llm_place(m, n);
    zt_source_close(r.src);
    return s;
}
