/* hf_export.c - writes a GGUF as a Hugging Face directory: the directory, whole or absent, and
 * the small files in it. */
#include "lib/base/attributes.h"
#include "lib/base/require.h"
#include "lib/llm/hf/hf_export.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- keys ------------------------------------------------------------------------------------ */

const char *zt_export_key(const hf_export *export, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.%s", export->arch->name, suffix);
    return key;
}

bool zt_export_int(const hf_export *export, const char *suffix, int64_t *value)
{
    char key[128];
    return zt_gguf_i64(export->gguf, zt_export_key(export, suffix, key), value);
}

bool zt_export_real(const hf_export *export, const char *suffix, double *value)
{
    char key[128];
    return zt_gguf_f64(export->gguf, zt_export_key(export, suffix, key), value);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *zt_export_number(double value)
{
    char text[40];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) break;
    }
    return json_real(strtod(text, NULL));
}

static zt_status no_memory(hf_export *export) { return zt_fail(export->ctx, ZT_ENOMEM, "%s: out of memory", export->file); }

zt_status zt_export_set(hf_export *export, json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 ? ZT_OK : no_memory(export);
}

zt_status zt_export_text(hf_export *export, json_t *object, const char *name, zt_bytes text)
{
    json_t *value = json_stringn(text.data, text.n);
    if (!value) return zt_fail(export->ctx, ZT_EDATA, "%s: the string for '%s' is not UTF-8", export->file, name);
    return zt_export_set(export, object, name, value);
}

zt_status zt_export_file(hf_export *export, const char *name, const void *bytes, size_t size)
{
    size_t length = export->directory.len;
    zt_status status = zt_str_puts(&export->directory, name);
    zt_sink *sink = status == ZT_OK ? zt_sink_open(export->ctx, export->directory.data, false) : NULL;
    status = sink ? zt_sink_write(sink, bytes, size) : zt_ctx_status(export->ctx);
    if (status == ZT_OK) status = zt_sink_commit(sink);
    zt_sink_close(sink);
    export->directory.len = length;
    export->directory.data[length] = 0;
    return status;
}

zt_status zt_export_folder(hf_export *export, const char *name)
{
    size_t length = export->directory.len;
    zt_status status = zt_str_puts(&export->directory, name);
    if (status == ZT_OK && mkdir(export->directory.data, 0777) != 0)
        status = zt_fail(export->ctx, ZT_ECREATE, "%s: cannot create the directory: %s", export->directory.data, strerror(errno));
    export->directory.len = length;
    export->directory.data[length] = 0;
    return status;
}

zt_status zt_export_json(hf_export *export, const char *name, const json_t *object)
{
    char *text = object ? json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    zt_status status = text ? zt_export_file(export, name, text, strlen(text)) : no_memory(export);
    free(text);
    return status;
}

int64_t zt_export_values(hf_export *export, const char *name, float *values, int64_t limit)
{
    zt_type type;
    int64_t handle;
    zt_store store = zt_gguf_store(export->gguf);
    if (zt_gguf_find(export->gguf, name) < 0 || store.find(store.user, name, &type, &handle) != ZT_OK) return 0;
    if (type.dtype != ZT_F32 || type.rank != 1 || type.dim[0] > limit) return 0;
    return store.read(store.user, handle, 0, values, (size_t)type.dim[0] * sizeof *values) == ZT_OK ? type.dim[0] : 0;
}

/* ---- what it is ------------------------------------------------------------------------------ */

/* Of Llama's architecture with a window Mistral is written, with experts Mixtral; Falcon with one norm or two. */
/* A bias on the choice of experts, in any layer. */
static bool has_choice_bias(const hf_export *export)
{
    static const char end[] = ".exp_probs_b.bias";
    zt_type type;
    for (int64_t i = 0; i < zt_gguf_n_tensors(export->gguf); i++) {
        const char *name = zt_gguf_tensor(export->gguf, i, &type, NULL, NULL);
        size_t length = strlen(name);
        if (length >= sizeof end && strcmp(name + length - (sizeof end - 1), end) == 0) return true;
    }
    return false;
}

static bool has_token(const hf_export *export, const char *text)
{
    zt_gguf_kind kind;
    int64_t count;
    bool found = false;
    if (!zt_gguf_array(export->gguf, "tokenizer.ggml.tokens", &kind, &count) || kind != ZT_GGUF_STR) return false;
    zt_bytes *tokens = zt_alloc_array(export->ctx, (size_t)count, sizeof *tokens);
    if (tokens && zt_gguf_array_strs(export->gguf, "tokenizer.ggml.tokens", tokens, count))
        for (int64_t i = 0; i < count && !found; i++)
            found = tokens[i].n == strlen(text) && memcmp(tokens[i].data, text, tokens[i].n) == 0;
    zt_free(export->ctx, tokens);
    return found;
}

static bool meets_need(const hf_export *export, hf_need need)
{
    static const char *const suffix[] = {
        [HF_NEEDS_NOTHING] = NULL,           [HF_NEEDS_WINDOW] = "attention.sliding_window",
        [HF_NEEDS_EXPERTS] = "expert_count", [HF_NEEDS_SHARED_EXPERTS] = "expert_shared_feed_forward_length",
        [HF_NEEDS_SECOND_NORM] = NULL,       [HF_NEEDS_CHOICE_BIAS] = NULL,
        [HF_NEEDS_GLM_TOKENS] = NULL,        [HF_NEEDS_NO_EXPERTS] = "expert_count",
        [HF_NEEDS_ROPE_PAIR] = NULL,
    };
    int64_t value;
    zt_bytes word;
    char key[128];
    if (need == HF_NEEDS_ROPE_PAIR) return zt_gguf_str(export->gguf, zt_export_key(export, "rope.pair", key), &word);
    if (need == HF_NEEDS_CHOICE_BIAS) return has_choice_bias(export);
    if (need == HF_NEEDS_GLM_TOKENS) return has_choice_bias(export) && has_token(export, "[gMASK]");
    if (need == HF_NEEDS_GATE) return zt_gguf_find(export->gguf, "enc.blk.0.ffn_gate.weight") >= 0;
    if (need == HF_NEEDS_SECOND_NORM) return zt_gguf_find(export->gguf, "blk.0.attn_norm_2.weight") >= 0;
    bool found = suffix[need] && zt_export_int(export, suffix[need], &value) && value != 0;
    return need == HF_NEEDS_NO_EXPERTS ? !found : !suffix[need] || found;
}

static zt_status find_arch(hf_export *export)
{
    size_t count;
    const hf_arch *archs = zt_hf_archs(&count);
    zt_bytes name;
    if (!zt_gguf_str(export->gguf, "general.architecture", &name))
        return zt_fail(export->ctx, ZT_EDATA, "%s: key 'general.architecture' is missing: not a model", export->file);
    for (size_t i = 0; i < count; i++) {
        if (strlen(archs[i].name) != name.n || memcmp(archs[i].name, name.data, name.n) != 0) continue;
        const hf_arch *before = export->arch;
        if (!before) export->arch = &archs[i]; /* keys are looked up by it */
        if (before && archs[i].need > before->need && meets_need(export, archs[i].need)) export->arch = &archs[i];
    }
    char text[96];
    if (!export->arch)
        return zt_fail(export->ctx, ZT_ENOTSUP, "%s: architecture '%s' cannot be exported to transformers", export->file,
                       zt_escape(text, sizeof text, name.data, name.n));
    return ZT_OK;
}

/* Whether q, k and v, and gate and up, are one matrix or several, is the architecture's there. */
static zt_status check_layout(hf_export *export)
{
    const uint64_t fused = ZT_PART_QKV | ZT_PART_FUSED_QKV | ZT_PART_GATE | ZT_PART_FUSED_UP;
    const uint64_t optional = export->hyper.arch->ungated_act ? ZT_PART_GATE : 0;
    if (((export->hyper.parts ^ export->hyper.arch->parts) & fused & ~optional) == 0) return ZT_OK;
    return zt_fail(export->ctx, ZT_ENOTSUP, "%s: the weight matrices are fused differently from those of transformers' %s",
                   export->file, export->arch->type);
}

/* A classifier's classes and names differ from model to model. */
static zt_status check_classifier(const hf_export *export)
{
    if (!(export->hyper.parts & ZT_PART_CLASSIFIER)) return ZT_OK;
    return zt_fail(export->ctx, ZT_ENOTSUP, "%s: a classifier cannot be written as a Hugging Face directory", export->file);
}

/* Are all experts of a gpt-oss in MXFP4, and is no other type asked for? */
static bool keeps_mxfp4(const hf_export *export)
{
    zt_type type;
    if (export->arch->id != HF_GPT_OSS || export->opts.dtype != ZT_DTYPE_COUNT) return false;
    for (int64_t i = 0; i < zt_gguf_n_tensors(export->gguf); i++) {
        const char *name = zt_gguf_tensor(export->gguf, i, &type, NULL, NULL);
        if (strstr(name, "_exps.weight") && type.dtype != ZT_MXFP4) return false;
    }
    return true;
}

/* The type of the matrices: as stored, blocks as f16, unless it is asked for. */
static void find_dtype(hf_export *export)
{
    zt_type type;
    int64_t tensor_count = zt_gguf_n_tensors(export->gguf);
    export->dtype = ZT_DTYPE_COUNT;
    for (int64_t i = 0; i < tensor_count && export->dtype == ZT_DTYPE_COUNT; i++) {
        const char *name = zt_gguf_tensor(export->gguf, i, &type, NULL, NULL);
        bool plain = type.dtype == ZT_F32 || type.dtype == ZT_F16 || type.dtype == ZT_BF16;
        if (type.rank == 2 && !zt_model_stays_f32(name, &type)) export->dtype = plain ? type.dtype : ZT_F16;
    }
    if (export->opts.dtype != ZT_DTYPE_COUNT) export->dtype = export->opts.dtype;
    export->mxfp4 = keeps_mxfp4(export);
}

/* ---- the directory --------------------------------------------------------------------------- */

static void remove_all(const char *path, int depth)
{
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char child[4600];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (unlinkat(dirfd(directory), entry->d_name, 0) != 0 && depth > 0) remove_all(child, depth - 1);
    }
    if (directory) closedir(directory);
    rmdir(path);
}

/* What may become the directory: nothing, or one without files. */
static zt_status check_target(hf_export *export, const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return ZT_OK;
    DIR *directory = S_ISDIR(info.st_mode) ? opendir(path) : NULL;
    int files = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        files += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (!directory || files)
        zt_fail(export->ctx, ZT_ECREATE, "%s: already exists and is %s", path, directory ? "not empty" : "not a directory");
    if (directory) closedir(directory);
    return directory && !files ? ZT_OK : ZT_ECREATE;
}

/* "dir/.name.XXXXXX" */
static zt_status make_dir(hf_export *export, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    const char *slash = memrchr(path, '/', length);
    size_t parent = slash ? (size_t)(slash - path) + 1 : 0;
    zt_status status =
        zt_str_printf(&export->directory, "%.*s.%.*s.XXXXXX", (int)parent, path, (int)(length - parent), path + parent);
    if (status == ZT_OK && (!mkdtemp(export->directory.data) || !zt_attributes_open_folder(export->directory.data)))
        status = zt_fail(export->ctx, ZT_ECREATE, "%s: cannot create the directory: %s", path, strerror(errno));
    return status == ZT_OK ? zt_str_putc(&export->directory, '/') : status;
}

static zt_status write_all(hf_export *export)
{
    static zt_status (*const step[])(hf_export *) = {zt_export_config, zt_export_card, zt_export_tokenizer, zt_export_tensors};
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof step / sizeof *step; i++) status = step[i](export);
    return status == ZT_OK ? zt_export_json(export, "config.json", export->config) : status;
}

static zt_status write_model(hf_export *export, const char *path)
{
    zt_status status = make_dir(export, path);
    if (status != ZT_OK) return status;
    status = write_all(export);
    export->directory.data[--export->directory.len] = 0;
    if (status == ZT_OK) status = zt_attributes_keep_folder(export->ctx, export->directory.data, path);
    if (status == ZT_OK && rename(export->directory.data, path) != 0)
        status = zt_fail(export->ctx, ZT_ECREATE, "%s: cannot rename the new directory: %s", path, strerror(errno));
    if (status != ZT_OK) remove_all(export->directory.data, 1);
    return status;
}

zt_status zt_hf_write(zt_ctx *ctx, zt_gguf *gguf, const char *path, const zt_hf_opts *opts)
{
    ZT_REQUIRE(ctx, gguf && path && opts, ZT_EUSAGE);
    hf_export export = {.ctx = ctx, .gguf = gguf, .file = zt_gguf_name(gguf), .opts = *opts};
    zt_str_init(&export.directory, ctx);
    export.config = json_object();
    zt_status status = export.config ? check_target(&export, path) : no_memory(&export);
    if (status == ZT_OK) status = find_arch(&export);
    if (status == ZT_OK) status = zt_hyper_read(gguf, &export.hyper);
    if (status == ZT_OK) status = zt_weights_check(gguf, &export.hyper);
    if (status == ZT_OK) status = check_layout(&export);
    if (status == ZT_OK) status = check_classifier(&export);
    if (status == ZT_OK) {
        find_dtype(&export);
        status = write_model(&export, path);
    }
    json_decref(export.config);
    zt_str_fini(&export.directory);
    return status;
}
