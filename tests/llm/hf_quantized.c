/* hf_quantized.c - quantized Hugging Face models, as tests/llm/quantized/make.py makes them: every tensor has the dtype, the shape
 * and the bytes that the libraries read back, in pieces of any size; and with any tensor or setting of the quantization spoilt,
 * the model is refused in one line.
 *
 *   hf_quantized [FOLDER]      default: quantized, beside this program's folder
 */
#include "tests/common/hf_writer.h"
#include "tests/common/tap.h"

#include "lib/io/checkpoint.h"
#include "lib/llm/llm.h"

#include <dirent.h>
#include <jansson.h>
#include <libgen.h>
#include <pthread.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- tensors --------------------------------------------------------------------------------- */

/* Reads a tensor in pieces of so many bytes (0: at once). */
static bool read_all(const zt_store *store, int64_t handle, char *bytes, size_t size, size_t piece)
{
    for (size_t offset = 0; offset < size; offset += piece) {
        if (piece == 0 || piece > size - offset) piece = size - offset;
        if (store->read(store->user, handle, offset, bytes + offset, piece) != ZT_OK) return false;
    }
    return true;
}

/* "name dtype shape hash", or the reason that there is none. */
static void describe_tensor(zt_gguf *gguf, int64_t i, char *line, size_t room)
{
    zt_type type;
    int64_t handle;
    zt_store store = zt_gguf_store(gguf);
    const char *name = zt_gguf_tensor(gguf, i, &type, NULL, NULL);
    size_t size = zt_type_bytes(&type);
    char *bytes = malloc(size + 1), *pieces = malloc(size + 1), shape[80] = "";
    bool good = store.find(store.user, name, &type, &handle) == ZT_OK && read_all(&store, handle, bytes, size, 0);
    static const size_t sizes[] = {1000, 7};
    for (size_t k = 0; good && k < sizeof sizes / sizeof *sizes; k++)
        good = read_all(&store, handle, pieces, size, sizes[k]) && memcmp(bytes, pieces, size) == 0;
    for (int d = 0; d < type.rank; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%s%" PRId64, d ? "x" : "", type.dim[d]);
    if (good)
        snprintf(line, room, "%s %s %s %016" PRIx64, name, zt_dtype_get(type.dtype)->name, shape,
                 (uint64_t)XXH3_64bits(bytes, size));
    else
        snprintf(line, room, "%s: %.150s", name, zt_ctx_error(zt_gguf_ctx(gguf)));
    free(bytes);
    free(pieces);
}

static bool has_line(zt_gguf *gguf, const char *wanted, const char *label)
{
    char line[400];
    size_t length = strcspn(wanted, " ") + 1;
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf); i++) {
        zt_type type;
        const char *name = zt_gguf_tensor(gguf, i, &type, NULL, NULL);
        if (strlen(name) + 1 != length || memcmp(name, wanted, length - 1) != 0) continue;
        describe_tensor(gguf, i, line, sizeof line);
        if (strcmp(line, wanted) == 0) return true;
        diag("%s: expected %s", label, wanted);
        diag("%s: found    %s", label, line);
        return false;
    }
    diag("%s: no tensor %s", label, wanted);
    return false;
}

static void count_warning(void *user, zt_level level, const char *line)
{
    (void)line;
    if (level == ZT_LOG_WARN) ++*(int *)user;
}

static void check_tensors(const char *folder, const char *name)
{
    char path[4600], line[400];
    int lines = 0, wrong = 0, warnings = 0;
    zt_ctx *ctx = zt_ctx_new();
    zt_log_set(ctx, ZT_LOG_WARN, count_warning, &warnings);
    snprintf(path, sizeof path, "%s/%s/expected.txt", folder, name);
    FILE *file = fopen(path, "r");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    zt_gguf *gguf = zt_model_open(ctx, path);
    if (!gguf) diag("%s: %s", name, zt_ctx_error(ctx));
    while (gguf && file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        wrong += !has_line(gguf, line, name);
        lines++;
    }
    ok(gguf && lines > 0 && wrong == 0 && lines == zt_gguf_n_tensors(gguf), "%s: %d tensors as the library reads them", name,
       lines);
    bool narrow = strncmp(name, "fp8", 3) == 0 || strcmp(name, "ct-fp8-channel") == 0 || strcmp(name, "ct-mixed") == 0;
    ok(warnings == narrow, "%s: %d warnings", name, warnings);
    if (file) fclose(file);
    zt_gguf_close(gguf);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", name);
    zt_ctx_free(ctx);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct reading {
    zt_gguf *gguf;
    int64_t first;
    uint64_t hash;
    bool good;
} reading;

/* All tensors from `first` on, then those before it. */
static void *read_tensors(void *user)
{
    reading *job = user;
    zt_store store = zt_gguf_store(job->gguf);
    int64_t count = zt_gguf_n_tensors(job->gguf);
    job->good = true;
    for (int64_t i = 0; job->good && i < count; i++) {
        zt_type type;
        int64_t handle;
        const char *name = zt_gguf_tensor(job->gguf, (job->first + i) % count, &type, NULL, NULL);
        size_t size = zt_type_bytes(&type);
        char *bytes = malloc(size + 1);
        job->good = store.find(store.user, name, &type, &handle) == ZT_OK && read_all(&store, handle, bytes, size, 777);
        job->hash += XXH3_64bits(bytes, job->good ? size : 0);
        free(bytes);
    }
    return NULL;
}

static void check_threads(const char *folder, const char *name)
{
    enum { THREADS = 11 }; /* more than matrices that are kept */
    char path[4600];
    pthread_t thread[THREADS];
    reading job[THREADS];
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/%s", folder, name);
    zt_gguf *gguf = zt_model_open(ctx, path);
    bool same = gguf;
    for (int i = 0; gguf && i < THREADS; i++) {
        job[i] = (reading){.gguf = gguf, .first = i};
        if (pthread_create(&thread[i], NULL, read_tensors, &job[i]) != 0) abort();
    }
    for (int i = 0; gguf && i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; gguf && i < THREADS; i++) same = same && job[i].good && job[i].hash == job[0].hash;
    ok(same, "%s: the same bytes for %d threads at once", name, THREADS);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
}

/* ---- spoilt tensors -------------------------------------------------------------------------- */

typedef enum spoiling { GONE, LONGER, FLATTER, OTHER_DTYPE, SPOILINGS } spoiling;

static const char *const spoilt_so[] = {"gone", "longer", "flatter", "of another dtype"};

static const char *dtype_in_file(zt_dtype dtype)
{
    static const struct {
        zt_dtype dtype;
        const char *name;
    } rows[] = {{ZT_BF16, "BF16"}, {ZT_F16, "F16"}, {ZT_F32, "F32"}, {ZT_F8_E4M3, "F8_E4M3"},
                {ZT_U8, "U8"},     {ZT_I8, "I8"},   {ZT_I32, "I32"}, {ZT_I64, "I64"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].dtype == dtype) return rows[i].name;
    return "F64";
}

/* A dtype of as many bytes that it must not be. */
static const char *other_dtype(zt_dtype dtype)
{
    int size = zt_dtype_get(dtype)->block_bytes;
    return size == 8 ? "F64" : size == 4 ? "U32" : size == 2 ? "I16" : "BOOL";
}

/* Copies the model with tensor `victim` spoilt. */
static void write_spoilt(hfw *out, zt_checkpoint *from, int64_t victim, spoiling how)
{
    for (int64_t i = 0; i < zt_checkpoint_count(from); i++) {
        zt_entry entry;
        zt_checkpoint_get(from, i, &entry);
        int64_t dim[4] = {entry.type.dim[0], entry.type.dim[1], 0, 0};
        int rank = entry.type.rank;
        size_t size = (size_t)entry.bytes, room = 2 * size + 16;
        char *bytes = calloc(1, room);
        const char *dtype = dtype_in_file(entry.type.dtype);
        if (!bytes || zt_checkpoint_read(from, i, 0, bytes, size) != ZT_OK) abort();
        if (i == victim && how == OTHER_DTYPE) dtype = other_dtype(entry.type.dtype);
        if (i == victim && how == LONGER) {
            size_t whole = size / (size_t)(rank && dim[0] ? dim[0] : 1);
            dim[0] = rank ? dim[0] + 1 : 2;
            if (rank == 0) rank = 1;
            size += whole;
        }
        if (i == victim && how == FLATTER) {
            dim[0] = zt_type_count(&entry.type) / 2; /* half of it, as a row of a row */
            size /= 2;
            dim[1] = dim[2] = 1;
            rank = 3;
        }
        if (i != victim || how != GONE) hfw_tensor(out, entry.name, dtype, rank, dim, bytes, size);
        free(bytes);
    }
    hfw_save(out, "model.safetensors");
}

static bool belongs_to_quantization(const char *name)
{
    static const char *const ends[] = {"weight_scale", "weight_scale_inv", "weight_packed", "weight_shape",
                                       "qweight",      "qzeros",           "scales",        "weight_global_scale",
                                       "g_idx",        "weight_zero_point"};
    const char *point = strrchr(name, '.');
    for (size_t i = 0; point && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(point + 1, ends[i]) == 0) return true;
    return false;
}

/* Is the model refused, as bad data and in one line, when it is opened or when its tensors are read? */
static bool is_refused(const char *path, char message[300])
{
    zt_ctx *ctx = zt_ctx_new();
    zt_gguf *gguf = zt_model_open(ctx, path);
    reading job = {.gguf = gguf};
    if (gguf) read_tensors(&job);
    zt_status status = zt_ctx_status(ctx);
    snprintf(message, 300, "%s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    bool whole = zt_mem_get(ctx).blocks == 0;
    zt_ctx_free(ctx);
    return status == ZT_EDATA && *message && !strchr(message, '\n') && whole;
}

static char *load_config(const char *folder, const char *name)
{
    char path[4600];
    snprintf(path, sizeof path, "%s/%s/config.json", folder, name);
    json_t *root = json_load_file(path, 0, NULL);
    char *text = json_dumps(root, JSON_INDENT(1));
    json_decref(root);
    return text;
}

/* Every tensor of the quantization of one module, each way; without g_idx a model whose groups follow each other is the same. */
static void check_spoilt(const char *folder, const char *name)
{
    char path[4600], message[300];
    char *config = load_config(folder, name);
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, name);
    zt_checkpoint *from = zt_checkpoint_open(ctx, path, 0);
    int tried = 0, refused = 0;
    for (int64_t i = 0; from && i < zt_checkpoint_count(from); i++) {
        zt_entry entry;
        zt_checkpoint_get(from, i, &entry);
        bool ours = strstr(entry.name, "v_proj") || strstr(entry.name, "experts.1.up_proj") || strstr(entry.name, "mlp.up_proj");
        if (!ours || !belongs_to_quantization(entry.name)) continue;
        for (int how = 0; how < SPOILINGS; how++) {
            if (how == GONE && strstr(entry.name, "g_idx") && !strstr(config, "\"desc_act\": true")) continue;
            hfw directory = hfw_new();
            hfw_text(&directory, "config.json", config);
            write_spoilt(&directory, from, i, (spoiling)how);
            bool good = is_refused(directory.path, message);
            if (!good) diag("%s: %s %s: %s", name, entry.name, spoilt_so[how], message);
            refused += good;
            tried++;
            hfw_end(&directory);
        }
    }
    ok(tried > 0 && refused == tried, "%s: %d of %d models with a spoilt tensor refused", name, refused, tried);
    zt_checkpoint_close(from);
    zt_ctx_free(ctx);
    free(config);
}

/* ---- spoilt settings ------------------------------------------------------------------------- */

static const struct {
    const char *name, *from, *to, *says;
    zt_status status;
} settings[] = {
    {"gptq-4", "\"group_size\": 16", "\"group_size\": 0", "'group_size' is 0", ZT_EDATA},
    {"gptq-4", "\"group_size\": 16", "\"group_size\": -16", "'group_size' is -16", ZT_EDATA},
    {"gptq-4", "\"group_size\": 16", "\"group_size\": 2147483647", ".scales' is f16[", ZT_EDATA},
    {"gptq-4", "\"group_size\": 16", "\"group_size\": 5000000000", "'group_size' is 5e+09", ZT_EDATA},
    {"gptq-4", "\"group_size\": 16", "\"group_size\": 1.5", "'group_size' is 1.5", ZT_EDATA},
    {"gptq-4", "\"group_size\": 16", "\"group_size\": \"16\"", "'group_size' is not a number", ZT_EDATA},
    {"gptq-4", "\"group_size\": 16", "\"group_size\": 8", ".scales' is f16[", ZT_EDATA},
    {"gptq-4", "\"bits\": 4", "\"bits\": 3", ".g_idx' is i32[", ZT_EDATA},
    {"gptq-3", "\"bits\": 3", "\"bits\": 4", ".g_idx' is i32[", ZT_EDATA},
    {"gptq-4", "\"bits\": 4", "\"bits\": 5", "'bits' is 5", ZT_EDATA},
    {"gptq-4", "\"bits\": 4", "\"bits\": 0", "'bits' is 0", ZT_EDATA},
    {"gptq-4", "\"bits\": 4", "\"bits\": 8", ".g_idx' is i32[", ZT_EDATA},
    {"gptq-4", "\"bits\": 4", "\"bits\": 4, \"checkpoint_format\": \"marlin\"", "checkpoint_format 'marlin'", ZT_ENOTSUP},
    {"gptq-4", "\"bits\": 4", "\"bits\": 4, \"dynamic\": {\"-:lm_head\": {}}", "'dynamic'", ZT_ENOTSUP},
    {"gptq-4", "\"gptq\"", "\"gptq3\"", "quant_method 'gptq3'", ZT_ENOTSUP},
    {"gptq-4", "\"desc_act\": false", "\"desc_act\": 1", "'desc_act' is not true or false", ZT_EDATA},
    {"awq-4", "\"group_size\": 16", "\"group_size\": 0", "'group_size' is 0", ZT_EDATA},
    {"awq-4", "\"group_size\": 16", "\"group_size\": 40", "groups of 40 do not divide", ZT_EDATA},
    {"awq-4", "\"bits\": 4", "\"bits\": 8", "'bits' is 8", ZT_EDATA},
    {"awq-4", "\"gemm\"", "\"gemv\"", "version 'gemv'", ZT_ENOTSUP},
    {"fp8-block", "24,", "0,", "'weight_block_size'", ZT_EDATA},
    {"fp8-block", "24,", "2147483648,", "'weight_block_size'", ZT_EDATA},
    {"fp8-block", "24,", "64,", "_scale_inv' is f32[", ZT_EDATA},
    {"fp8-block", "\"e4m3\"", "\"e5m2\"", "fmt 'e5m2'", ZT_ENOTSUP},
    {"ct-pack-4", "\"group_size\": 32", "\"group_size\": 0", "'group_size' is 0", ZT_EDATA},
    {"ct-pack-4", "\"group_size\": 32", "\"group_size\": 40", "groups of 40 do not divide", ZT_EDATA},
    {"ct-pack-4", "\"num_bits\": 4", "\"num_bits\": 8", "weight_packed' is i32[", ZT_EDATA},
    {"ct-pack-4", "\"num_bits\": 4", "\"num_bits\": 5", "int weights of 5 bits", ZT_ENOTSUP},
    {"ct-pack-4", "\"group\"", "\"token\"", "strategy 'token'", ZT_ENOTSUP},
    {"ct-pack-4", "\"pack-quantized\"", "\"marlin-24\"", "format 'marlin-24'", ZT_ENOTSUP},
    {"ct-pack-4", "\"ignore\"", "\"sparsity_config\": {\"format\": \"sparse-bitmask\"}, \"ignore\"", "sparsity_config",
     ZT_ENOTSUP},
    {"ct-pack-4", "\"ignore\"", "\"transform_config\": {\"a\": 1}, \"ignore\"", "transform_config", ZT_ENOTSUP},
    {"ct-pack-4", "\"config_groups\"", "\"groups\"", "without 'config_groups'", ZT_EDATA},
    {"ct-nvfp4", "\"group_size\": 16", "\"group_size\": 32", "'group_size' is 32, expected 16", ZT_EDATA},
    {"ct-mxfp4", "\"group_size\": 32", "\"group_size\": 16", "'group_size' is 16, expected 32", ZT_EDATA},
    {"ct-fp8-block", "\"block_structure\"", "\"block\"", "'block_structure'", ZT_EDATA},
    {"ct-fp8-channel", "\"channel\"", "\"tensor\"", "weight_scale' is bf16[", ZT_EDATA},
};

static void check_settings(const char *folder)
{
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char path[4600], to[200];
        char *config = load_config(folder, settings[i].name), *at = config ? strstr(config, settings[i].from) : NULL;
        hfw directory = hfw_new();
        zt_ctx *ctx = zt_ctx_new();
        snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, settings[i].name);
        snprintf(to, sizeof to, "%s/model.safetensors", directory.path);
        char *text = malloc(strlen(config ? config : "") + 400);
        if (!at || !text || symlink(path, to) != 0) abort();
        sprintf(text, "%.*s%s%s", (int)(at - config), config, settings[i].to, at + strlen(settings[i].from));
        hfw_text(&directory, "config.json", text);
        zt_gguf *gguf = zt_model_open(ctx, directory.path);
        const char *message = zt_ctx_error(ctx);
        ok(!gguf && zt_ctx_status(ctx) == settings[i].status && strstr(message, settings[i].says) && !strchr(message, '\n'),
           "%s with %s: %.200s", settings[i].name, settings[i].to, message);
        zt_gguf_close(gguf);
        zt_ctx_free(ctx);
        hfw_end(&directory);
        free(config);
        free(text);
    }
}

/* A column of a group that is not there. */
static void check_group_index(const char *folder)
{
    static const int32_t wrong[] = {-1, 4, INT32_MAX};
    char path[4600], message[300];
    char *config = load_config(folder, "gptq-4-order");
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        zt_ctx *ctx = zt_ctx_new();
        snprintf(path, sizeof path, "%s/gptq-4-order/model.safetensors", folder);
        zt_checkpoint *from = zt_checkpoint_open(ctx, path, 0);
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", config);
        for (int64_t i = 0; i < zt_checkpoint_count(from); i++) {
            zt_entry entry;
            zt_checkpoint_get(from, i, &entry);
            char *bytes = calloc(1, (size_t)entry.bytes + 1);
            if (!bytes || zt_checkpoint_read(from, i, 0, bytes, (size_t)entry.bytes) != ZT_OK) abort();
            if (strstr(entry.name, "v_proj.g_idx")) memcpy(bytes + 20, &wrong[k], sizeof *wrong);
            hfw_tensor(&directory, entry.name, dtype_in_file(entry.type.dtype), entry.type.rank, entry.type.dim, bytes,
                       (size_t)entry.bytes);
            free(bytes);
        }
        hfw_save(&directory, "model.safetensors");
        ok(is_refused(directory.path, message) && strstr(message, "of column 5, expected 0 to 3"), "g_idx: %s", message);
        hfw_end(&directory);
        zt_checkpoint_close(from);
        zt_ctx_free(ctx);
    }
    free(config);
}

/* ---- all ------------------------------------------------------------------------------------- */

static int is_case(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int main(int argc, char **argv)
{
    char folder[4200], *own = realpath("/proc/self/exe", NULL);
    struct dirent **entry;
    snprintf(folder, sizeof folder, argc > 1 ? "%s" : "%s/quantized", argc > 1 ? argv[1] : own ? dirname(dirname(own)) : ".");
    int count = scandir(folder, &entry, is_case, alphasort);
    ok(count > 0, "%s: %d models", folder, count);
    for (int i = 0; i < count; i++) {
        check_tensors(folder, entry[i]->d_name);
        check_threads(folder, entry[i]->d_name);
        check_spoilt(folder, entry[i]->d_name);
        free(entry[i]);
    }
    if (count > 0) {
        check_settings(folder);
        check_group_index(folder);
        free(entry);
    }
    free(own);
    return tap_done();
}
