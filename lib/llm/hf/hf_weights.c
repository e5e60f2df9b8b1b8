/* hf_weights.c - finds the weights of a Hugging Face directory. */
#include "lib/io/index.h"
#include "lib/io/shards.h"
#include "lib/llm/hf/hf.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* What weights may be called, what comes first is taken: transformers' order, then names that it does
 * not know and that leave no choice. */
typedef struct weights_pattern {
    const char *prefix, *suffix; /* a name of these two ends, whatever is between them */
    bool exact;                  /* nothing is */
    bool part;                   /* what is, are the numbers of one of several files */
} weights_pattern;

static const weights_pattern places[] = {
    {"model", ".safetensors", .exact = true},
    {"model", ".safetensors.index.json", .exact = true},
    {"model-", ".safetensors", .part = true},
    {"", ".safetensors.index.json", .exact = false},
    {"model", ".safetensors", .exact = false},
    {"pytorch_model", ".bin", .exact = true},
    {"pytorch_model", ".bin.index.json", .exact = true},
    {"pytorch_model-", ".bin", .part = true},
};

enum { N_PLACES = sizeof places / sizeof *places };

static bool name_fits(const weights_pattern *pattern, const char *name)
{
    size_t length = strlen(name), prefix_length = strlen(pattern->prefix), suffix_length = strlen(pattern->suffix);
    zt_shard_name part;
    return length >= prefix_length + suffix_length &&
           (pattern->exact ? length == prefix_length + suffix_length : length > prefix_length + suffix_length) &&
           memcmp(name, pattern->prefix, prefix_length) == 0 &&
           memcmp(name + length - suffix_length, pattern->suffix, suffix_length) == 0 &&
           zt_shard_parse(name, &part) == pattern->part;
}

/* Are two names files of one model in several? */
static bool same_model(const char *left, const char *right)
{
    zt_shard_name left_shard, right_shard;
    return zt_shard_parse(left, &left_shard) && zt_shard_parse(right, &right_shard) && left_shard.stem == right_shard.stem &&
           left_shard.count == right_shard.count && memcmp(left, right, left_shard.stem) == 0;
}

/* The file that fits, the first by name where several are one model; "" where there is none. Two
 * models are ZT_EDATA. */
static zt_status choose_file(hf_import *import, const weights_pattern *pattern, zt_str *found)
{
    char first_text[120], second_text[120];
    DIR *directory = opendir(import->folder.data);
    zt_status status = ZT_OK;
    zt_str_clear(found);
    if (!directory) return zt_fail(import->ctx, ZT_ENOENT, "%s: %s", import->path, strerror(errno));
    for (struct dirent *entry; status == ZT_OK && (entry = readdir(directory));) {
        if (!name_fits(pattern, entry->d_name)) continue;
        if (found->len && !same_model(found->data, entry->d_name))
            status = zt_fail(import->ctx, ZT_EDATA, "%s: ambiguous weights: %s or %s; specify one of these files", import->path,
                             zt_escape(first_text, sizeof first_text, found->data, found->len),
                             zt_escape(second_text, sizeof second_text, entry->d_name, strlen(entry->d_name)));
        if (status == ZT_OK && (!found->len || strcmp(entry->d_name, found->data) < 0)) {
            zt_str_clear(found);
            status = zt_str_puts(found, entry->d_name);
        }
    }
    closedir(directory);
    return status;
}

zt_status zt_hf_no_weights(hf_import *import)
{
    zt_str names;
    zt_str_init(&names, import->ctx);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < N_PLACES; i++)
        status = zt_str_printf(&names, "%s%s%s%s", i ? ", " : "", places[i].prefix, places[i].exact ? "" : "*", places[i].suffix);
    if (status == ZT_OK)
        status = zt_fail(import->ctx, ZT_ENOENT, "%s: no weights%s: searched for %s", import->path,
                         zt_hf_has_file(import, "adapter_config.json") ? " except a LoRA adapter (see --lora)" : "", names.data);
    zt_str_fini(&names);
    return status;
}

static zt_checkpoint *open_found(hf_import *import, const char *name)
{
    const char *path = zt_hf_file(import, name), *dot = strrchr(name, '.');
    bool index = dot && strcmp(dot, ".json") == 0;
    if (!path || index) return path ? zt_checkpoint_open_index(import->ctx, path) : NULL;
    zt_source *source = zt_shard_open(import->ctx, path);
    return zt_checkpoint_take(import->ctx, source);
}

typedef struct index_check {
    hf_import *import;
    const zt_checkpoint *weights;
    bool lacking;
} index_check;

static zt_status check_indexed_tensor(void *user, const char *tensor, const char *file)
{
    index_check *check = user;
    const char *name = zt_checkpoint_name(check->weights);
    char text[160];
    if (zt_checkpoint_find(check->weights, tensor) >= 0 || !zt_hf_has_file(check->import, file)) return ZT_OK;
    check->lacking = true;
    return zt_fail(
        check->import->ctx, ZT_EDATA,
        "%s: tensor '%s' is missing, but the index in the same directory assigns it to %s: the files are of two models or incomplete; specify the index, or move one of them away",
        name, zt_escape(text, sizeof text, tensor, strlen(tensor)), zt_hf_file(check->import, file));
}

/* Weights in one file go before an index of several, as transformers has it. Where the index's files
 * have a tensor that the one file lacks, half a model would be read. An index that cannot be read, or
 * whose files are gone, says nothing. */
static zt_status check_beside(hf_import *import, const zt_checkpoint *checkpoint, const char *name)
{
    index_check check = {.import = import, .weights = checkpoint};
    zt_str path;
    zt_str_init(&path, import->ctx);
    zt_status status = zt_str_printf(&path, "%s.index.json", name);
    bool there = status == ZT_OK && zt_hf_has_file(import, path.data);
    zt_str_clear(&path);
    if (there) status = zt_str_printf(&path, "%s%s.index.json", import->folder.data, name);
    if (there && status == ZT_OK) status = zt_index_read(import->ctx, path.data, check_indexed_tensor, &check);
    zt_str_fini(&path);
    if (status != ZT_EDATA || check.lacking) return status;
    zt_ctx_clear(import->ctx);
    return ZT_OK;
}

zt_checkpoint *zt_hf_open_weights(hf_import *import, zt_status *status)
{
    zt_checkpoint *checkpoint = NULL;
    zt_str name;
    zt_str_init(&name, import->ctx);
    zt_status result = ZT_OK;
    for (size_t i = 0; result == ZT_OK && !name.len && i < N_PLACES; i++) result = choose_file(import, &places[i], &name);
    if (result == ZT_OK && name.len) {
        checkpoint = open_found(import, name.data);
        result = checkpoint ? check_beside(import, checkpoint, name.data) : zt_ctx_status(import->ctx);
    }
    zt_str_fini(&name);
    if (result != ZT_OK) {
        zt_checkpoint_close(checkpoint);
        checkpoint = NULL;
    }
    *status = result;
    return checkpoint;
}
