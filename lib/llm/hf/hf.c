/* hf.c - owns opening a model of any container: what a path is, and where the files of a Hugging
 * Face model are. */
#include "lib/llm/hf/hf.h"
#include "lib/io/checkpoint.h"
#include "lib/io/npz.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { MAX_JSON = 4 << 20 }; /* bytes of a small file; tokenizer.json is not read here */

/* ---- files beside each other ----------------------------------------------------------------- */

const char *zt_hf_file(hf *m, const char *name)
{
    zt_str_clear(&m->file);
    bool done =
        zt_str_puts(&m->file, m->folder.data) == ZT_OK && zt_str_puts(&m->file, name) == ZT_OK;
    return done ? m->file.data : NULL;
}

bool zt_hf_has_file(hf *m, const char *name)
{
    struct stat st;
    const char *path = zt_hf_file(m, name);
    return path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

json_t *zt_hf_load(hf *m, const char *name, zt_status *status)
{
    *status = ZT_OK;
    if (!zt_hf_has_file(m, name))
        return NULL;
    const char *path = zt_hf_file(m, name);
    json_t *j = path ? zt_json_file(m->ctx, path, MAX_JSON) : NULL;
    if (!j)
        *status = zt_ctx_status(m->ctx);
    return j;
}

/* The folder of a file, or a folder itself, with '/' at its end. */
static zt_status set_folder(hf *m, bool is_folder)
{
    const char *slash = strrchr(m->path, '/');
    size_t n = is_folder ? strlen(m->path) : slash ? (size_t)(slash - m->path) + 1 : 0;
    zt_status s = zt_str_put(&m->folder, m->path, n);
    if (s == ZT_OK && is_folder && (n == 0 || m->path[n - 1] != '/'))
        s = zt_str_putc(&m->folder, '/');
    return s;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* "x-00002-of-00005.safetensors": the index beside it, "x.safetensors.index.json", into `index`. */
static bool index_of_shard(const char *path, zt_str *index)
{
    static const char shape[] = "-00000-of-00000.safetensors";
    size_t n = strlen(path), k = sizeof shape - 1;
    struct stat st;
    if (n <= k)
        return false;
    for (size_t i = 0; i < k; i++) {
        char c = path[n - k + i];
        if (shape[i] == '0' ? !isdigit((unsigned char)c) : c != shape[i])
            return false;
    }
    return zt_str_put(index, path, n - k) == ZT_OK &&
           zt_str_puts(index, ".safetensors.index.json") == ZT_OK && stat(index->data, &st) == 0;
}

static zt_safetensors *open_file(hf *m, const char *path)
{
    zt_str index;
    zt_str_init(&index, m->ctx);
    zt_safetensors *s = index_of_shard(path, &index) ? zt_safetensors_open_index(m->ctx, index.data)
                                                     : zt_safetensors_open(m->ctx, path);
    zt_str_fini(&index);
    return s;
}

/* Of a folder; a folder without weights still has a vocabulary: NULL and ZT_OK. */
static zt_safetensors *open_in_folder(hf *m, zt_status *status)
{
    zt_safetensors *s;
    if (zt_hf_has_file(m, "model.safetensors.index.json"))
        s = zt_safetensors_open_index(m->ctx, zt_hf_file(m, "model.safetensors.index.json"));
    else
        s = zt_safetensors_open_parts(m->ctx, m->folder.data, "model");
    *status = s ? ZT_OK : zt_ctx_status(m->ctx);
    if (!s || zt_safetensors_count(s) > 0)
        return s;
    zt_safetensors_close(s);
    return NULL;
}

/* ---- building the header --------------------------------------------------------------------- */

static zt_status load_config(hf *m)
{
    zt_status s;
    if (!zt_hf_has_file(m, "config.json"))
        return zt_fail(m->ctx, ZT_ENOENT, "%s: is a %s without config.json", m->path,
                       m->is_folder ? "directory" : "file of weights");
    m->config = zt_hf_load(m, "config.json", &s);
    if (m->config && !json_is_object(m->config))
        return zt_fail(m->ctx, ZT_EDATA, "%s: not a JSON object", zt_hf_file(m, "config.json"));
    m->text = json_object_get(m->config, "text_config");
    if (!json_is_object(m->text))
        m->text = m->config;
    return s;
}

/* The identity of a GGUF is its header's, and models that were tuned apart from one another may
 * have the same one here: a sample of the weights goes into it. */
static zt_status put_sample(hf *m)
{
    enum { SAMPLES = 32, BYTES = 256 };
    const zt_safetensors *st = m->tensors->from;
    int64_t n = zt_safetensors_count(st);
    char sample[SAMPLES * BYTES], text[40];
    size_t used = 0;
    for (int64_t i = 0; i < SAMPLES && i < n; i++) {
        int64_t tensor = n <= SAMPLES ? i : i * n / SAMPLES;
        size_t bytes = zt_safetensors_get(st, tensor)->bytes, k = bytes < BYTES ? bytes : BYTES;
        zt_status s = zt_safetensors_read(st, tensor, (bytes - k) / 2, sample + used, k);
        if (s != ZT_OK)
            return s;
        used += k;
    }
    snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)XXH3_64bits(sample, used));
    return zt_gguf_put_str(m->w, "zt.weights.sample", text, strlen(text));
}

static zt_status put_tensors(hf *m)
{
    hf_tensors *t = m->tensors;
    zt_map *names = zt_map_new(m->ctx, (size_t)t->n);
    zt_status s = names ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; s == ZT_OK && i < t->n; i++) {
        const char *name = t->list[i].name;
        if (zt_map_get(names, name, strlen(name), NULL))
            s = zt_fail(m->ctx, ZT_EDATA, "%s: two tensors are '%s' to a %s model", m->path, name,
                        m->arch.name);
        if (s == ZT_OK)
            s = zt_map_put(names, name, strlen(name), i);
        if (s == ZT_OK)
            s = zt_gguf_put_tensor(m->w, name, &t->list[i].type);
    }
    zt_map_free(names);
    return s;
}

/* The tokenizer, by far the longest of the keys, comes last: nothing is moved to make room behind.
 */
static zt_status build(hf *m)
{
    const bool weights = m->tensors->from != NULL;
    zt_status s = zt_hf_find_arch(m);
    if (s == ZT_OK && !m->arch.name && m->whole)
        m->arch.name = "unknown";
    if (s == ZT_OK && m->arch.name)
        s = zt_gguf_put_str(m->w, "general.architecture", m->arch.name, strlen(m->arch.name));
    if (s == ZT_OK && m->known)
        s = zt_hf_put_config(m);
    if (s == ZT_OK && m->known)
        s = zt_hf_put_rope(m);
    if (s == ZT_OK && m->known && weights)
        s = zt_hf_add_tensors(m);
    if (s == ZT_OK && !m->known && m->whole)
        s = zt_hf_pass_all(m);
    if (s == ZT_OK && m->whole)
        s = zt_hf_put_general(m);
    else if (s == ZT_OK && weights)
        s = put_sample(m);
    if (s == ZT_OK)
        s = zt_hf_put_tokenizer(m);
    return s == ZT_OK && weights ? put_tensors(m) : s;
}

/* Hands over the header and the tensors. */
static zt_gguf *finish(hf *m)
{
    size_t n;
    uint64_t data_bytes;
    char *header = zt_gguf_writer_finish(m->w, &n, &data_bytes);
    zt_store store = zt_hf_tensors_store(m->tensors);
    if (!header)
        return NULL;
    zt_gguf_writer_free(m->w);
    m->w = NULL;
    m->tensors = NULL;
    return zt_gguf_over(m->ctx, m->path, header, n, data_bytes, &store, zt_hf_tensors_free);
}

/* A folder, or a file of weights or an index. */
static zt_gguf *open_model(zt_ctx *ctx, const char *path, bool is_folder, bool is_index, bool whole)
{
    hf m = {.ctx = ctx, .path = path, .is_folder = is_folder, .whole = whole};
    m.bos = m.eos = m.add_bos = m.add_eos = m.ids[0] = m.ids[1] = m.ids[2] = -1;
    zt_gguf *g = NULL;
    zt_safetensors *st = NULL;
    zt_str_init(&m.folder, ctx);
    zt_str_init(&m.file, ctx);
    zt_str_init(&m.pieces, ctx);
    zt_status s = set_folder(&m, is_folder);
    if (s == ZT_OK && !is_folder) {
        st = is_index ? zt_safetensors_open_index(ctx, path) : open_file(&m, path);
        s = st ? ZT_OK : zt_ctx_status(ctx);
    }
    if (s == ZT_OK)
        s = load_config(&m);
    if (s == ZT_OK && is_folder)
        st = open_in_folder(&m, &s);
    m.tensors = zt_hf_tensors_new(ctx, path, st);
    m.w = zt_gguf_writer_new(ctx);
    if (s == ZT_OK && m.tensors && m.w && build(&m) == ZT_OK)
        g = finish(&m);
    zt_gguf_writer_free(m.w);
    zt_hf_tensors_free(m.tensors);
    json_decref(m.config);
    zt_str_fini(&m.folder);
    zt_str_fini(&m.file);
    zt_str_fini(&m.pieces);
    return g;
}

/* ---- a tokenizer alone ----------------------------------------------------------------------- */

static zt_status see_member(void *user, const char *key, const char *text, size_t n)
{
    (void)text, (void)n;
    bool *seen = user; /* "model", "weight_map" */
    seen[0] = seen[0] || strcmp(key, "model") == 0;
    seen[1] = seen[1] || strcmp(key, "weight_map") == 0;
    return ZT_OK;
}

static zt_status put_json(hf *m, const char *text, size_t n)
{
    return zt_gguf_put_str(m->w, "tokenizer.huggingface.json", text, n);
}

/* A GGUF of the keys that put makes of a file's text. */
static zt_gguf *keys_alone(zt_ctx *ctx, const char *path, const char *text, size_t n,
                           zt_status (*put)(hf *m, const char *text, size_t n))
{
    zt_gguf *g = NULL;
    hf m = {.ctx = ctx, .path = path};
    zt_str_init(&m.file, ctx);
    zt_str_init(&m.pieces, ctx);
    m.tensors = zt_hf_tensors_new(ctx, path, NULL);
    m.w = zt_gguf_writer_new(ctx);
    if (m.tensors && m.w && put(&m, text, n) == ZT_OK)
        g = finish(&m);
    zt_gguf_writer_free(m.w);
    zt_hf_tensors_free(m.tensors);
    zt_str_fini(&m.file);
    zt_str_fini(&m.pieces);
    return g;
}

/* tokenizer.json, under whatever name: JSON with a model and no map of weights. *is false: it is
 * none, and NULL is no failure. */
static zt_gguf *open_tokenizer(zt_ctx *ctx, const char *path, bool *is)
{
    size_t n;
    bool seen[2] = {false, false};
    zt_gguf *g = NULL;
    char *text = zt_read_all(ctx, path, &n);
    *is = !text || zt_json_members(ctx, path, text, n, see_member, seen) || (seen[0] && !seen[1]);
    if (*is && zt_ctx_status(ctx) == ZT_OK)
        g = keys_alone(ctx, path, text, n, put_json);
    zt_free(ctx, text);
    return g;
}

/* tokenizer.model, under whatever name: s is taken over. */
static zt_gguf *open_pieces(zt_ctx *ctx, const char *path, zt_source *s)
{
    enum { MOST = 1 << 28 }; /* bytes: a hundred times the largest that is in use */
    uint64_t n = zt_source_size(s);
    zt_gguf *g = NULL;
    char *text = NULL;
    if (n > MOST)
        zt_fail(ctx, ZT_EDATA, "%s: %" PRIu64 " bytes, a tokenizer.model has at most %d", path, n,
                MOST);
    else
        text = zt_alloc(ctx, (size_t)n);
    if (text && zt_source_read(s, 0, text, (size_t)n) == ZT_OK)
        g = keys_alone(ctx, path, text, (size_t)n, zt_hf_spm_alone);
    zt_free(ctx, text);
    zt_source_close(s);
    return g;
}

/* ---- what a path is -------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* May a stream be a model, by its first bytes: GGUF, JSON, or weights after a length? */
static bool may_be_model(const void *head, size_t n)
{
    return (n >= 4 && memcmp(head, "GGUF", 4) == 0) || zt_npz_sniff(head, n) ||
           (n >= 1 && *(const char *)head == '{') || zt_safetensors_sniff(head, n, UINT64_MAX) ||
           zt_sp_sniff(head, n);
}

/* What zt wrote into another container carries a GGUF's metadata, and is one by itself. Takes c
 * over; NULL and *is false: it carries none, and that is no failure. */
static zt_gguf *open_carried(zt_checkpoint *c, bool *is)
{
    const zt_meta *m = c ? zt_checkpoint_meta(c) : NULL;
    *is = !m || zt_meta_find(m, "general.architecture") >= 0;
    if (m && *is)
        return zt_checkpoint_gguf(c);
    zt_checkpoint_close(c);
    return NULL;
}

/* The same of weights, in a file or by their index. */
static zt_gguf *open_weights(zt_ctx *ctx, const char *path, zt_source *s, bool is_index, bool *is)
{
    zt_safetensors *st =
        is_index ? zt_safetensors_open_index(ctx, path) : zt_safetensors_take(ctx, s);
    return open_carried(st ? zt_checkpoint_of_safetensors(ctx, st) : NULL, is);
}

static zt_gguf *open_any(zt_ctx *ctx, const char *path, bool whole)
{
    char head[9] = {0};
    if (is_folder(path))
        return open_model(ctx, path, true, false, whole);
    zt_source *s = zt_source_open_if(ctx, path, may_be_model);
    if (!s)
        return NULL;
    uint64_t size = zt_source_size(s);
    size_t n = size < sizeof head ? (size_t)size : sizeof head;
    if (zt_source_read(s, 0, head, n) != ZT_OK) {
        zt_source_close(s);
        return NULL;
    }
    bool weights = zt_safetensors_sniff(head, n, size), index = head[0] == '{';
    bool is = false, tokenizer = false;
    zt_gguf *g = NULL;
    if (zt_npz_sniff(head, n)) {
        g = open_carried(zt_checkpoint_take(ctx, s), &is);
        if (!is)
            zt_fail(ctx, ZT_EDATA, "%s: is no model: it has no metadata", path);
        return g;
    }
    if (!weights && zt_sp_sniff(head, n))
        return open_pieces(ctx, path, s);
    if (!weights && !index) {
        g = zt_gguf_take(ctx, s);
        return g ? zt_gguf_with_shards(g, path) : NULL;
    }
    if (weights)
        g = open_weights(ctx, path, s, false, &is);
    else
        zt_source_close(s);
    if (is)
        return g;
    if (strcmp(path, "-") == 0) {
        zt_fail(ctx, ZT_ENOENT, "stdin: weights without config.json: name their directory");
        return NULL;
    }
    g = weights ? NULL : open_tokenizer(ctx, path, &tokenizer);
    if (!weights && !tokenizer)
        g = open_weights(ctx, path, NULL, true, &is);
    return tokenizer || is ? g : open_model(ctx, path, false, index && !weights, whole);
}

zt_gguf *zt_model_open(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, false);
}

zt_gguf *zt_model_open_whole(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, true);
}
