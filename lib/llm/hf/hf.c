/* hf.c - opens a model of any container: what a path is, and where the files of a Hugging
 * Face model are. */
#include "lib/base/require.h"
#include "lib/llm/hf/hf.h"
#include "lib/io/pt.h"
#include "lib/io/npz.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { MAX_JSON = 4 << 20 }; /* bytes of a small file; tokenizer.json is not read here */

/* How a model is opened: for a file, with all keys; for its vocabulary, weights or not. */
enum { WHOLE = 1, VOCABULARY = 2 };

/* ---- files beside each other ----------------------------------------------------------------- */

const char *zt_hf_file(hf_import *import, const char *name)
{
    zt_str_clear(&import->file);
    bool done = zt_str_puts(&import->file, import->folder.data) == ZT_OK && zt_str_puts(&import->file, name) == ZT_OK;
    return done ? import->file.data : NULL;
}

/* A link that leads nowhere and a directory are there too: who reads them says what is wrong. */
bool zt_hf_has_file(hf_import *import, const char *name)
{
    struct stat info;
    const char *path = zt_hf_file(import, name);
    return path && lstat(path, &info) == 0;
}

json_t *zt_hf_load(hf_import *import, const char *name, zt_status *status)
{
    *status = ZT_OK;
    if (!zt_hf_has_file(import, name)) return NULL;
    const char *path = zt_hf_file(import, name);
    json_t *object = path ? zt_json_file(import->ctx, path, MAX_JSON) : NULL;
    if (!object) *status = zt_ctx_status(import->ctx);
    return object;
}

/* The folder of a file, or a folder itself, with '/' at its end. */
static zt_status set_folder(hf_import *import, bool is_folder)
{
    const char *slash = strrchr(import->path, '/');
    size_t length = is_folder ? strlen(import->path) : slash ? (size_t)(slash - import->path) + 1 : 0;
    zt_status status = zt_str_put(&import->folder, import->path, length);
    if (status == ZT_OK && is_folder && (length == 0 || import->path[length - 1] != '/'))
        status = zt_str_putc(&import->folder, '/');
    return status;
}

/* ---- an architecture that is not known ------------------------------------------------------- */

zt_status zt_hf_pass_all(hf_import *import)
{
    zt_status status = ZT_OK;
    const zt_checkpoint *from = import->tensors->from;
    for (int64_t i = 0; from && status == ZT_OK && i < zt_checkpoint_count(from); i++) {
        char text[160];
        zt_entry entry;
        zt_checkpoint_get(from, i, &entry);
        if (entry.type.rank < 0 || entry.type.dtype == ZT_DTYPE_COUNT)
            return zt_fail(import->ctx, ZT_ENOTSUP, "%s: tensor '%s' has the unsupported type %s", zt_checkpoint_name(from),
                           zt_escape(text, sizeof text, entry.name, strlen(entry.name)), entry.dtype);
        status = zt_hf_tensors_add(import->tensors,
                                   &(hf_tensor){.name = entry.name, .type = entry.type, .source = i, .from = entry.type.dtype});
    }
    char *config = status == ZT_OK ? json_dumps(import->config, JSON_COMPACT) : NULL;
    if (status == ZT_OK)
        status = config ? zt_gguf_put_str(import->writer, "huggingface.config.json", config, strlen(config))
                        : zt_fail(import->ctx, ZT_ENOMEM, "%s: out of memory", import->path);
    free(config);
    return status;
}

/* ---- building the header --------------------------------------------------------------------- */

static zt_status load_config(hf_import *import)
{
    zt_status status;
    const bool config = zt_hf_has_file(import, "config.json");
    if (!config && import->is_folder && zt_hf_has_file(import, "adapter_config.json"))
        return zt_fail(
            import->ctx, ZT_ENOENT,
            "%s: is a LoRA adapter, not a model (no config.json): use its base model with zt-run --lora, or BASE+ADAPTER with zt-dna merge",
            import->path);
    if (!config)
        return zt_fail(import->ctx, ZT_ENOENT, "%s: is a %s without config.json", import->path,
                       import->is_folder ? "directory" : "weights file");
    import->config = zt_hf_load(import, "config.json", &status);
    if (import->config && !json_is_object(import->config))
        return zt_fail(import->ctx, ZT_EDATA, "%s: not a JSON object", zt_hf_file(import, "config.json"));
    import->text = json_object_get(import->config, "text_config");
    if (!json_is_object(import->text)) import->text = import->config;
    return status;
}

/* The identity of a GGUF is its header's, and models that were tuned apart from one another may
 * have the same one here: a sample of the weights goes into it. */
static zt_status put_weights_sample(hf_import *import)
{
    enum { SAMPLES = 32, BYTES = 256 };
    zt_checkpoint *checkpoint = import->tensors->from;
    int64_t tensor_count = zt_checkpoint_count(checkpoint);
    char sample[SAMPLES * BYTES], text[40];
    size_t used = 0;
    for (int64_t i = 0; i < SAMPLES && i < tensor_count; i++) {
        int64_t tensor = tensor_count <= SAMPLES ? i : i * tensor_count / SAMPLES;
        zt_entry entry;
        zt_checkpoint_get(checkpoint, tensor, &entry);
        size_t piece = entry.bytes < BYTES ? (size_t)entry.bytes : BYTES;
        zt_status status = zt_checkpoint_read(checkpoint, tensor, (entry.bytes - piece) / 2, sample + used, piece);
        if (status != ZT_OK) return status;
        used += piece;
    }
    snprintf(text, sizeof text, "%016" PRIx64, (uint64_t)XXH3_64bits(sample, used));
    return zt_gguf_put_str(import->writer, "zt.weights.sample", text, strlen(text));
}

static zt_status put_tensors(hf_import *import)
{
    hf_tensors *tensors = import->tensors;
    zt_map *names = zt_map_new(import->ctx, (size_t)tensors->count);
    zt_status status = names ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < tensors->count; i++) {
        const char *name = tensors->list[i].name;
        if (zt_map_get(names, name, strlen(name), NULL))
            status = zt_fail(import->ctx, ZT_EDATA, "%s: two tensors map to '%s' of a %s model", import->path, name,
                             import->arch.name);
        if (status == ZT_OK) status = zt_map_put(names, name, strlen(name), i);
        if (status == ZT_OK) status = zt_gguf_put_tensor(import->writer, name, &tensors->list[i].type);
    }
    zt_map_free(names);
    return status;
}

/* The tokenizer, by far the longest of the keys, comes last: nothing is moved to make room behind.
 */
static zt_status build_header(hf_import *import)
{
    const bool weights = import->tensors->from != NULL;
    zt_status status = zt_hf_find_arch(import);
    if (status == ZT_OK && weights && import->is_folder && zt_hf_has_file(import, "adapter_config.json"))
        zt_log(
            import->ctx, ZT_LOG_WARN,
            "%s: the adapter in the directory (adapter_config.json) is not applied: use zt-run --lora, or BASE+ADAPTER with zt-dna merge",
            import->path);
    if (status == ZT_OK && import->weights && !weights && (import->known || import->whole)) status = zt_hf_no_weights(import);
    if (status == ZT_OK && !import->arch.name && import->whole) import->arch.name = "unknown";
    if (status == ZT_OK && import->arch.name)
        status = zt_gguf_put_str(import->writer, "general.architecture", import->arch.name, strlen(import->arch.name));
    if (status == ZT_OK && import->known) status = zt_hf_open_quantized(import);
    if (status == ZT_OK && import->known) status = zt_hf_put_config(import);
    if (status == ZT_OK && import->known) status = zt_hf_put_rope(import);
    if (status == ZT_OK && import->known && weights) status = zt_hf_add_tensors(import);
    if (status == ZT_OK && import->known) status = zt_hf_put_reranker(import);
    if (status == ZT_OK && !import->known && import->whole) status = zt_hf_pass_all(import);
    if (status == ZT_OK && import->whole)
        status = zt_hf_put_general(import);
    else if (status == ZT_OK && weights)
        status = put_weights_sample(import);
    if (status == ZT_OK) status = zt_hf_put_tokenizer(import);
    return status == ZT_OK && weights ? put_tensors(import) : status;
}

/* Hands over the header and the tensors. */
static zt_gguf *finish_gguf(hf_import *import)
{
    size_t header_size;
    uint64_t data_bytes;
    char *header = zt_gguf_writer_finish(import->writer, &header_size, &data_bytes);
    zt_store store = zt_hf_tensors_store(import->tensors);
    if (!header) return NULL;
    zt_gguf_writer_free(import->writer);
    import->writer = NULL;
    import->tensors = NULL;
    return zt_gguf_over(import->ctx, import->path, header, header_size, data_bytes, &store, zt_hf_tensors_free);
}

/* A folder, whose weights are found there, or `weights` by the path of theirs, which are taken over. */
static zt_gguf *open_model(zt_ctx *ctx, const char *path, zt_checkpoint *weights, unsigned flags)
{
    hf_import import = {
        .ctx = ctx, .path = path, .is_folder = !weights, .whole = flags & WHOLE, .weights = !(flags & VOCABULARY)};
    import.bos = import.eos = import.add_bos = import.add_eos = import.ids[0] = import.ids[1] = import.ids[2] = -1;
    zt_gguf *gguf = NULL;
    zt_str_init(&import.folder, ctx);
    zt_str_init(&import.file, ctx);
    zt_str_init(&import.pieces, ctx);
    zt_status status = set_folder(&import, import.is_folder);
    if (status == ZT_OK) status = load_config(&import);
    if (status == ZT_OK && import.is_folder) weights = zt_hf_open_weights(&import, &status);
    if (status == ZT_OK && weights && zt_checkpoint_count(weights) == 0)
        status = zt_fail(ctx, ZT_EDATA, "%s: no tensors", zt_checkpoint_name(weights));
    import.tensors = zt_hf_tensors_new(ctx, path, weights);
    import.writer = zt_gguf_writer_new(ctx);
    if (status == ZT_OK && import.tensors && import.writer && build_header(&import) == ZT_OK) gguf = finish_gguf(&import);
    zt_gguf_writer_free(import.writer);
    zt_hf_tensors_free(import.tensors);
    json_decref(import.config);
    zt_str_fini(&import.folder);
    zt_str_fini(&import.file);
    zt_str_fini(&import.pieces);
    return gguf;
}

/* ---- a tokenizer alone ----------------------------------------------------------------------- */

static zt_status see_member(void *user, const char *key, const char *text, size_t size)
{
    (void)text, (void)size;
    bool *seen = user; /* "model", "weight_map" */
    seen[0] = seen[0] || strcmp(key, "model") == 0;
    seen[1] = seen[1] || strcmp(key, "weight_map") == 0;
    return ZT_OK;
}

static zt_status put_json(hf_import *import, const char *text, size_t size)
{
    return zt_gguf_put_str(import->writer, "tokenizer.huggingface.json", text, size);
}

/* A GGUF of the keys that put makes of a file's text. */
static zt_gguf *keys_of_file(zt_ctx *ctx, const char *path, const char *text, size_t size,
                             zt_status (*put_keys)(hf_import *import, const char *text, size_t size))
{
    zt_gguf *gguf = NULL;
    hf_import import = {.ctx = ctx, .path = path};
    zt_str_init(&import.file, ctx);
    zt_str_init(&import.pieces, ctx);
    import.tensors = zt_hf_tensors_new(ctx, path, NULL);
    import.writer = zt_gguf_writer_new(ctx);
    if (import.tensors && import.writer && put_keys(&import, text, size) == ZT_OK) gguf = finish_gguf(&import);
    zt_gguf_writer_free(import.writer);
    zt_hf_tensors_free(import.tensors);
    zt_str_fini(&import.file);
    zt_str_fini(&import.pieces);
    return gguf;
}

/* tokenizer.json, under whatever name: JSON with a model and no map of weights. *is_tokenizer false: it is
 * none, and NULL is no failure. */
static zt_gguf *open_tokenizer(zt_ctx *ctx, const char *path, bool *is_tokenizer)
{
    size_t size;
    bool seen[2] = {false, false};
    zt_gguf *gguf = NULL;
    char *text = zt_read_all(ctx, path, &size);
    *is_tokenizer = !text || zt_json_members(ctx, path, text, size, see_member, seen) || (seen[0] && !seen[1]);
    if (*is_tokenizer && zt_ctx_status(ctx) == ZT_OK) gguf = keys_of_file(ctx, path, text, size, put_json);
    zt_free(ctx, text);
    return gguf;
}

/* tokenizer.model, under whatever name: source is taken over. */
static zt_gguf *open_pieces(zt_ctx *ctx, const char *path, zt_source *source)
{
    enum { MOST = 1 << 28 }; /* bytes: a hundred times the largest that is in use */
    uint64_t size = zt_source_size(source);
    zt_gguf *gguf = NULL;
    char *text = NULL;
    if (size > MOST)
        zt_fail(ctx, ZT_EDATA, "%s: tokenizer.model of %" PRIu64 " bytes, the limit is %d", path, size, MOST);
    else
        text = zt_alloc(ctx, (size_t)size);
    if (text && zt_source_read(source, 0, text, (size_t)size) == ZT_OK)
        gguf = keys_of_file(ctx, path, text, (size_t)size, zt_hf_spm_alone);
    zt_free(ctx, text);
    zt_source_close(source);
    return gguf;
}

/* ---- what a path is -------------------------------------------------------------------------- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Weights without a name for what they are: safetensors, or PyTorch's. */
static bool may_be_weights(const void *head, size_t head_size, uint64_t size)
{
    return zt_safetensors_sniff(head, head_size, size) || zt_npz_sniff(head, head_size) || zt_pt_sniff(head, head_size);
}

/* May a stream be a model, by its first bytes: GGUF, JSON, or weights? */
static bool may_be_model(const void *head, size_t size)
{
    return (size >= 4 && memcmp(head, "GGUF", 4) == 0) || (size >= 1 && *(const char *)head == '{') ||
           may_be_weights(head, size, UINT64_MAX) || zt_sp_sniff(head, size);
}

/* What zt wrote into another container carries a GGUF's metadata, and is one by itself; else
 * config.json is beside the weights. Takes checkpoint over; NULL gives NULL. */
static zt_gguf *open_weights(zt_ctx *ctx, const char *path, zt_checkpoint *checkpoint, unsigned flags)
{
    const zt_meta *meta = checkpoint ? zt_checkpoint_meta(checkpoint) : NULL;
    if (meta && zt_meta_find(meta, "general.architecture") >= 0) return zt_checkpoint_gguf(checkpoint);
    if (meta && zt_checkpoint_container(checkpoint) == zt_container_named("npz"))
        zt_fail(ctx, ZT_EDATA, "%s: not a model: the arrays have no model metadata", path);
    else if (meta && strcmp(path, "-") == 0)
        zt_fail(ctx, ZT_ENOENT, "stdin: weights without config.json: use the model directory instead");
    else if (meta)
        return open_model(ctx, path, checkpoint, flags);
    zt_checkpoint_close(checkpoint);
    return NULL;
}

/* A tokenizer's JSON, or an index. */
static zt_gguf *open_json(zt_ctx *ctx, const char *path, unsigned flags)
{
    bool tokenizer = false;
    zt_gguf *gguf = open_tokenizer(ctx, path, &tokenizer);
    return tokenizer ? gguf : open_weights(ctx, path, zt_checkpoint_open_index(ctx, path), flags);
}

static zt_gguf *open_any(zt_ctx *ctx, const char *path, unsigned flags)
{
    enum { HEAD = 64 }; /* bytes that tell what it is */
    char head[HEAD] = {0};
    if (is_folder(path)) return open_model(ctx, path, NULL, flags);
    zt_source *source = zt_source_open_if(ctx, path, may_be_model);
    if (!source) return NULL;
    uint64_t size = zt_source_size(source);
    size_t head_size = size < sizeof head ? (size_t)size : sizeof head;
    if (zt_source_read(source, 0, head, head_size) != ZT_OK) {
        zt_source_close(source);
        return NULL;
    }
    if (may_be_weights(head, head_size, size)) return open_weights(ctx, path, zt_checkpoint_take(ctx, source), flags);
    if (zt_sp_sniff(head, head_size)) return open_pieces(ctx, path, source);
    if (head[0] == '{' && strcmp(path, "-") != 0) {
        zt_source_close(source);
        return open_json(ctx, path, flags);
    }
    if (head[0] == '{') {
        zt_source_close(source);
        zt_fail(ctx, ZT_ENOENT, "stdin: weights without config.json: use the model directory instead");
        return NULL;
    }
    zt_gguf *gguf = zt_gguf_take(ctx, source);
    return gguf ? zt_gguf_with_shards(gguf, path) : NULL;
}

zt_gguf *zt_model_open(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    return open_any(ctx, path, 0);
}

zt_gguf *zt_model_open_vocabulary(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    return open_any(ctx, path, VOCABULARY);
}

zt_gguf *zt_model_open_whole(zt_ctx *ctx, const char *path)
{
    ZT_REQUIRE(ctx, path, NULL);
    return open_any(ctx, path, WHOLE);
}
