/* hf.c - owns opening a model of any container: what a path is, and where the files of a Hugging
 * Face model are. */
#include "lib/llm/hf/hf.h"
#include "lib/io/pt.h"
#include "lib/io/npz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { MAX_JSON = 4 << 20 }; /* bytes of a small file; tokenizer.json is not read here */

/* How a model is opened: for a file, with all keys; for its vocabulary, weights or not. */
enum { WHOLE = 1, VOCABULARY = 2 };

/* ---- files beside each other ----------------------------------------------------------------- */

const char *zt_hf_file(hf *m, const char *name)
{
    zt_str_clear(&m->file);
    bool done =
        zt_str_puts(&m->file, m->folder.data) == ZT_OK && zt_str_puts(&m->file, name) == ZT_OK;
    return done ? m->file.data : NULL;
}

/* A link that leads nowhere and a directory are there too: who reads them says what is wrong. */
bool zt_hf_has_file(hf *m, const char *name)
{
    struct stat st;
    const char *path = zt_hf_file(m, name);
    return path && lstat(path, &st) == 0;
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

/* ---- building the header --------------------------------------------------------------------- */

static zt_status load_config(hf *m)
{
    zt_status s;
    const bool config = zt_hf_has_file(m, "config.json");
    if (!config && m->is_folder && zt_hf_has_file(m, "adapter_config.json"))
        return zt_fail(m->ctx, ZT_ENOENT,
                       "%s: is an adapter, without config.json: name its base model and give the "
                       "adapter by zt-run --lora, or to zt-dna merge as BASE+ADAPTER",
                       m->path);
    if (!config)
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
    zt_checkpoint *c = m->tensors->from;
    int64_t n = zt_checkpoint_count(c);
    char sample[SAMPLES * BYTES], text[40];
    size_t used = 0;
    for (int64_t i = 0; i < SAMPLES && i < n; i++) {
        int64_t tensor = n <= SAMPLES ? i : i * n / SAMPLES;
        zt_entry e;
        zt_checkpoint_get(c, tensor, &e);
        size_t k = e.bytes < BYTES ? (size_t)e.bytes : BYTES;
        zt_status s = zt_checkpoint_read(c, tensor, (e.bytes - k) / 2, sample + used, k);
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
    if (s == ZT_OK && weights && m->is_folder && zt_hf_has_file(m, "adapter_config.json"))
        zt_log(m->ctx, ZT_LOG_WARN,
               "%s: the adapter in it (adapter_config.json) is not applied to the weights: that is "
               "zt-run --lora, or BASE+ADAPTER to zt-dna merge", m->path);
    if (s == ZT_OK && m->weights && !weights && (m->known || m->whole))
        s = zt_hf_no_weights(m);
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

/* A folder, whose weights are found there, or `weights` by the path of theirs, which are taken over. */
static zt_gguf *open_model(zt_ctx *ctx, const char *path, zt_checkpoint *weights, unsigned how)
{
    hf m = {.ctx = ctx,
            .path = path,
            .is_folder = !weights,
            .whole = how & WHOLE,
            .weights = !(how & VOCABULARY)};
    m.bos = m.eos = m.add_bos = m.add_eos = m.ids[0] = m.ids[1] = m.ids[2] = -1;
    zt_gguf *g = NULL;
    zt_str_init(&m.folder, ctx);
    zt_str_init(&m.file, ctx);
    zt_str_init(&m.pieces, ctx);
    zt_status s = set_folder(&m, m.is_folder);
    if (s == ZT_OK)
        s = load_config(&m);
    if (s == ZT_OK && m.is_folder)
        weights = zt_hf_open_weights(&m, &s);
    if (s == ZT_OK && weights && zt_checkpoint_count(weights) == 0)
        s = zt_fail(ctx, ZT_EDATA, "%s: there are no tensors", zt_checkpoint_name(weights));
    m.tensors = zt_hf_tensors_new(ctx, path, weights);
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

/* Weights without a name for what they are: safetensors, or PyTorch's. */
static bool may_be_weights(const void *head, size_t n, uint64_t size)
{
    return zt_safetensors_sniff(head, n, size) || zt_npz_sniff(head, n) || zt_pt_sniff(head, n);
}

/* May a stream be a model, by its first bytes: GGUF, JSON, or weights? */
static bool may_be_model(const void *head, size_t n)
{
    return (n >= 4 && memcmp(head, "GGUF", 4) == 0) || (n >= 1 && *(const char *)head == '{') ||
           may_be_weights(head, n, UINT64_MAX) || zt_sp_sniff(head, n);
}

/* What zt wrote into another container carries a GGUF's metadata, and is one by itself; else
 * config.json is beside the weights. Takes c over; NULL gives NULL. */
static zt_gguf *open_weights(zt_ctx *ctx, const char *path, zt_checkpoint *c, unsigned how)
{
    const zt_meta *m = c ? zt_checkpoint_meta(c) : NULL;
    if (m && zt_meta_find(m, "general.architecture") >= 0)
        return zt_checkpoint_gguf(c);
    if (m && zt_checkpoint_container(c) == zt_container_named("npz"))
        zt_fail(ctx, ZT_EDATA, "%s: arrays without a model's metadata", path);
    else if (m && strcmp(path, "-") == 0)
        zt_fail(ctx, ZT_ENOENT, "stdin: weights without config.json: name their directory");
    else if (m)
        return open_model(ctx, path, c, how);
    zt_checkpoint_close(c);
    return NULL;
}

/* A tokenizer's JSON, or an index. */
static zt_gguf *open_json(zt_ctx *ctx, const char *path, unsigned how)
{
    bool tokenizer = false;
    zt_gguf *g = open_tokenizer(ctx, path, &tokenizer);
    return tokenizer ? g : open_weights(ctx, path, zt_checkpoint_open_index(ctx, path), how);
}

static zt_gguf *open_any(zt_ctx *ctx, const char *path, unsigned how)
{
    enum { HEAD = 64 }; /* bytes that tell what it is */
    char head[HEAD] = {0};
    if (is_folder(path))
        return open_model(ctx, path, NULL, how);
    zt_source *s = zt_source_open_if(ctx, path, may_be_model);
    if (!s)
        return NULL;
    uint64_t size = zt_source_size(s);
    size_t n = size < sizeof head ? (size_t)size : sizeof head;
    if (zt_source_read(s, 0, head, n) != ZT_OK) {
        zt_source_close(s);
        return NULL;
    }
    if (may_be_weights(head, n, size))
        return open_weights(ctx, path, zt_checkpoint_take(ctx, s), how);
    if (zt_sp_sniff(head, n))
        return open_pieces(ctx, path, s);
    if (head[0] == '{' && strcmp(path, "-") != 0) {
        zt_source_close(s);
        return open_json(ctx, path, how);
    }
    if (head[0] == '{') {
        zt_source_close(s);
        zt_fail(ctx, ZT_ENOENT, "stdin: weights without config.json: name their directory");
        return NULL;
    }
    zt_gguf *g = zt_gguf_take(ctx, s);
    return g ? zt_gguf_with_shards(g, path) : NULL;
}

zt_gguf *zt_model_open(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, 0);
}

zt_gguf *zt_model_open_vocabulary(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, VOCABULARY);
}

zt_gguf *zt_model_open_whole(zt_ctx *ctx, const char *path)
{
    return open_any(ctx, path, WHOLE);
}
