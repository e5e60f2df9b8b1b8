/* hostile_directories.c - for a Hugging Face directory of every kind: each number, flag and list of config.json, and each tensor,
 * damaged in each way.
 *
 *   hostile_directories [FOLDER...]
 *
 * Directories are those of hostile_rows.c, and one of each model_type; of quantized weights one of each method and format. What
 * comes of a damage is refused with one line, or it is a model that runs. A key that matters (without it the model is refused, or
 * gives other logits) is refused if it has another kind: a text, a list, an object; a key of the quantization if it gives other
 * logits. With ZT_LONG=1 all of it, in every directory; else every so-many-th damage. */
#include "lib/base/sanitized.h"
#include "tests/common/folder.h"
#include "tests/common/npy.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_KINDS = 128, MOST_TENSORS = 1024 };

static int64_t stride, turn; /* of all damage, each `stride`th is done */

/* ---- what comes of a directory --------------------------------------------------------------- */

typedef struct outcome {
    zt_status status; /* ZT_OK: it ran */
    char text[400];
    size_t leaks;
    uint64_t sum; /* of what it computed */
} outcome;

static uint64_t sum_of(const float *values, int64_t count)
{
    uint64_t sum = UINT64_C(1469598103934665603);
    const uint8_t *bytes = (const uint8_t *)values;
    for (size_t i = 0; i < (size_t)count * sizeof *values; i++) sum = (sum ^ bytes[i]) * UINT64_C(1099511628211);
    return sum;
}

static zt_status run_model(zt_gguf *gguf, zt_engine *engine, uint64_t *sum)
{
    static const int32_t ids[] = {1, 2, 1, 0, 5, 7, 2, 3, 9, 4};
    const int count = sizeof ids / sizeof *ids;
    zt_bytes arch = {"", 0};
    zt_gguf_str(gguf, "general.architecture", &arch);
    bool embed =
        memmem(arch.data, arch.n, "bert", 4) || memmem(arch.data, arch.n, "t5", 2) || memmem(arch.data, arch.n, "embed", 5);
    zt_llm_opts options = {.engine = engine, .ctx_len = 32, .chunk = 4, .kv = ZT_DTYPE_COUNT, .embed = embed, .exact = true};
    zt_llm *model = zt_llm_open(gguf, &options);
    if (!model) return zt_ctx_status(zt_gguf_ctx(gguf));
    zt_llm_info info = zt_llm_get(model);
    int64_t entries = embed ? info.vector : info.vocab;
    float *out = calloc((size_t)entries + 1, sizeof *out);
    zt_status status = embed ? zt_llm_embed(model, ids, count, out) : zt_llm_feed(model, ids, count, false, out);
    *sum = sum_of(out, entries);
    free(out);
    zt_llm_close(model);
    return status;
}

static outcome try_path(const char *path)
{
    outcome o = {0};
    zt_ctx *ctx = zt_ctx_new();
    zt_mem_limit(ctx, (size_t)256 << 20);
    zt_gguf *gguf = zt_model_open(ctx, path);
    zt_engine *engine = gguf ? zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()}) : NULL;
    o.status = gguf ? run_model(gguf, engine, &o.sum) : zt_ctx_status(ctx);
    snprintf(o.text, sizeof o.text, "%s", zt_ctx_error(ctx));
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    o.leaks = zt_mem_get(ctx).blocks;
    zt_ctx_free(ctx);
    return o;
}

static bool check(const char *name, const char *what, const char *harm, outcome o, bool must)
{
    bool refused = o.status == ZT_EDATA || o.status == ZT_ENOTSUP;
    bool one_line = !refused || (*o.text && !strchr(o.text, '\n'));
    bool good = (refused || (o.status == ZT_OK && !must)) && one_line && o.leaks == 0;
    if (!good) diag("%s: %s, %s: status %d, '%s', %zu leaks", name, what, harm, (int)o.status, o.text, o.leaks);
    return good;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static const struct {
    const char *word, *json; /* NULL: the key is missing */
    bool other;              /* of another kind than a number, a flag or a list */
} harms[] = {
    {"missing", NULL, false},
    {"a text", "\"hostile\"", true},
    {"an object", "{\"a\": 1}", true},
    {"a list of a text", "[\"hostile\"]", true},
    {"an empty list", "[]", false},
    {"null", "null", false},
    {"0", "0", false},
    {"1", "1", false},
    {"-7", "-7", false},
    {"large", "1048576", false},
    {"huge", "4000000000000000000", false},
    {"2.5", "2.5", false},
    {"1e300", "1e300", false},
    {"true", "true", false},
    {"a list of -1", "[-1]", false},
};

static bool save_config(const json_t *config, const char *path) { return json_dump_file(config, path, JSON_INDENT(1)) == 0; }

/* One damage: of `holder`, which is the configuration or an object in it. */
static outcome try_harm(json_t *config, json_t *holder, const char *key, const char *text, const char *copy)
{
    char path[8300];
    json_t *usual = json_incref(json_object_get(holder, key));
    if (text)
        json_object_set_new(holder, key, json_loads(text, JSON_DECODE_ANY, NULL));
    else
        json_object_del(holder, key);
    snprintf(path, sizeof path, "%s/config.json", copy);
    save_config(config, path);
    outcome o = try_path(copy);
    json_object_set_new(holder, key, usual);
    return o;
}

typedef struct place {
    const char *name, *copy;
    json_t *config;
    uint64_t sum;
    int64_t tried, wrong;
} place;

/* `quantized`: the holder is quantization_config, or in it. There only checkpoint_format distinguishes formats of the same shapes. */
static void try_keys(place *p, json_t *holder, bool quantized)
{
    const char *key;
    char keys[128][64];
    json_t *value;
    size_t count = 0;
    json_object_foreach(holder, key, value) if (count < 128) snprintf(keys[count++], sizeof *keys, "%s", key);
    for (size_t k = 0; k < count; k++) {
        value = json_object_get(holder, keys[k]);
        bool quantization = quantized || strcmp(keys[k], "quantization_config") == 0;
        if (json_is_object(value)) try_keys(p, value, quantization);
        if (turn++ % stride != 0 || json_is_null(value) || (json_is_object(value) && !quantization)) continue;
        outcome without = try_harm(p->config, holder, keys[k], NULL, p->copy);
        bool matters = !json_is_string(value) && (without.status != ZT_OK || without.sum != p->sum);
        for (size_t i = 0; i < sizeof harms / sizeof *harms; i++, p->tried++) {
            outcome o = try_harm(p->config, holder, keys[k], harms[i].json, p->copy);
            bool other_logits = quantization && strcmp(keys[k], "checkpoint_format") != 0 && o.sum != p->sum;
            p->wrong += !check(p->name, keys[k], harms[i].word, o, (matters && harms[i].other) || other_logits);
        }
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef enum tensor_harm {
    MISSING,
    RENAMED,
    LONGER,
    SHORTER,
    WIDER,
    SWAPPED,
    FLAT,
    NO_ROWS,
    INTEGER,
    ZEROS, /* from here on values, of the tensors that describe quantized ones */
    ALL_BITS,
    LARGE_VALUES,
    TENSOR_HARMS
} tensor_harm;

static const char *const tensor_words[TENSOR_HARMS] = {"missing", "renamed", "longer", "shorter", "wider",    "swapped",
                                                       "flat",    "no rows", "i32",    "zeros",   "all bits", "large values"};

/* Must values of this harm be refused? Groups of GPTQ that are all 0 are valid, and so is a large scale. */
static bool must_refuse_values(const char *name, tensor_harm harm)
{
    static const struct {
        const char *end;
        tensor_harm until, besides;
    } rows[] = {
        {".weight_shape", LARGE_VALUES, MISSING}, {".g_idx", LARGE_VALUES, ZEROS}, {".weight_global_scale", ALL_BITS, MISSING}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].end), whole = strlen(name);
        if (whole > length && strcmp(name + whole - length, rows[i].end) == 0)
            return harm <= rows[i].until && harm != rows[i].besides;
    }
    return false;
}

/* Does the tensor say how others are stored? Its values are damaged too. */
static bool describes_others(const char *name)
{
    static const char *const parts[] = {"scale", "zero", "weight_shape", "g_idx"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

typedef struct weights {
    json_t *header;
    const uint8_t *data;
} weights;

/* The shape that a harm makes; false: it changes nothing. */
static bool harm_shape(tensor_harm harm, const json_t *shape, int64_t dim[8], size_t *rank)
{
    *rank = json_array_size(shape);
    for (size_t i = 0; i < *rank && i < 8; i++) dim[i] = json_integer_value(json_array_get(shape, i));
    if (*rank < 1 || *rank > 7) return false;
    int64_t last = dim[*rank - 1];
    if (harm == LONGER) dim[0]++;
    if (harm == SHORTER) dim[0]--;
    if (harm == WIDER) dim[*rank - 1]++;
    if (harm == NO_ROWS) dim[0] = 0;
    if (harm == SWAPPED) {
        if (*rank < 2 || last == dim[*rank - 2]) return false;
        dim[*rank - 1] = dim[*rank - 2];
        dim[*rank - 2] = last;
    }
    if (harm == FLAT) {
        if (*rank < 2 || dim[0] == 1) return false;
        for (size_t i = 1; i < *rank; i++) dim[0] *= dim[i];
        *rank = 1;
    }
    return true;
}

static int64_t item_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } rows[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"U8", 1}, {"I8", 1}, {"F8_E4M3", 1}, {"I32", 4}, {"I64", 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, dtype) == 0) return rows[i].bytes;
    return 0;
}

/* The file with tensor `name` harmed. False: the harm does not apply. */
static bool write_weights(const weights *w, const char *name, tensor_harm harm, const char *path)
{
    const char *key;
    json_t *value, *out = json_object();
    char *body = NULL, other[300];
    size_t size = 0;
    bool applies = true;
    json_object_foreach(w->header, key, value)
    {
        bool this = strcmp(key, name) == 0;
        if (strcmp(key, "__metadata__") == 0) {
            json_object_set(out, key, value);
            continue;
        }
        if (this && harm == MISSING) continue;
        int64_t dim[8], bytes;
        size_t rank, from = (size_t)json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 0)),
                     until = (size_t)json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 1));
        const char *dtype = json_string_value(json_object_get(value, "dtype"));
        applies = harm_shape(this ? harm : RENAMED, json_object_get(value, "shape"), dim, &rank) && applies;
        if (this && harm == INTEGER) applies = applies && item_bytes(dtype) == 4, dtype = "I32";
        bytes = item_bytes(dtype);
        applies = applies && bytes > 0;
        for (size_t i = 0; i < rank && applies; i++) bytes *= dim[i];
        if (!applies) break;
        body = realloc(body, size + (size_t)bytes + 1);
        memset(body + size, this && harm == ALL_BITS ? 0xff : this && harm == LARGE_VALUES ? 0x7f : 0, (size_t)bytes);
        if (!this || harm < ZEROS)
            memcpy(body + size, w->data + from, (size_t)bytes < until - from ? (size_t)bytes : until - from);
        json_t *shape = json_array();
        for (size_t i = 0; i < rank; i++) json_array_append_new(shape, json_integer(dim[i]));
        snprintf(other, sizeof other, "%s%s", key, this && harm == RENAMED ? "_" : "");
        json_object_set_new(out, other,
                            json_pack("{s:s,s:o,s:[I,I]}", "dtype", dtype, "shape", shape, "data_offsets", (json_int_t)size,
                                      (json_int_t)(size + (size_t)bytes)));
        size += (size_t)bytes;
    }
    char *head = json_dumps(out, JSON_COMPACT);
    uint64_t length = strlen(head);
    FILE *file = applies ? fopen(path, "wb") : NULL;
    if (file) {
        fwrite(&length, 1, sizeof length, file);
        fwrite(head, 1, length, file);
        fwrite(body, 1, size, file);
        fclose(file);
    }
    free(head);
    free(body);
    json_decref(out);
    return file != NULL;
}

/* May the tensor be missing, and nothing else says that the model has it? */
static bool is_optional(const char *name)
{
    static const char *const parts[] = {"lm_head.", "bias", "rotary_emb", "inv_freq", "mtp.", "position_ids", "token_type"};
    static const char *const norms[] = {
        "model.norm.weight",      "language_model.norm.weight", "ln_f.weight", "norm_f.weight",
        "final_layernorm.weight", "final_layer_norm.weight"}; /* which are then of ones, with a warning */
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (strlen(name) >= strlen(norms[i]) && strcmp(name + strlen(name) - strlen(norms[i]), norms[i]) == 0) return true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i])) return true;
    return strcmp(name, "norm.weight") == 0;
}

static void try_tensors(place *p, const char *from)
{
    char path[8300], copy[8300];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/model.safetensors", from);
    snprintf(copy, sizeof copy, "%s/model.safetensors", p->copy);
    uint8_t *bytes = npy_file(path, &size);
    if (!bytes) return; /* it has several files */
    uint64_t length;
    memcpy(&length, bytes, sizeof length);
    weights w = {.header = json_loadb((const char *)bytes + 8, length, 0, NULL), .data = bytes + 8 + length};
    const char *key;
    json_t *value;
    json_object_foreach(w.header, key, value)
    {
        for (tensor_harm harm = MISSING; harm < TENSOR_HARMS; harm++) {
            if (strcmp(key, "__metadata__") == 0 || (harm >= ZEROS && !describes_others(key)) || turn++ % stride != 0) continue;
            unlink(copy);
            if (!write_weights(&w, key, harm, copy)) continue;
            outcome o = try_path(p->copy);
            /* without a tokenizer, and by some kinds, tokens are the rows of the embedding */
            bool rows = (harm == LONGER || harm == SHORTER) && (strstr(key, "embed") || strstr(key, "wte"));
            bool unused = harm <= RENAMED ? is_optional(key) : rows;
            bool must = harm < ZEROS ? !unused && o.sum != p->sum : must_refuse_values(key, harm);
            p->wrong += !check(p->name, key, tensor_words[harm], o, must);
            p->tried++;
        }
    }
    json_decref(w.header);
    free(bytes);
}

/* ---- all directories ------------------------------------------------------------------------- */

static char seen[MOST_KINDS][64];
static int seen_count;

static bool is_new(const char *kind)
{
    for (int i = 0; i < seen_count; i++)
        if (strcmp(seen[i], kind) == 0) return false;
    if (seen_count < MOST_KINDS) snprintf(seen[seen_count++], sizeof *seen, "%s", kind);
    return true;
}

static int is_file(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Links to all files but the configuration. */
static void link_files(const char *from, const char *to)
{
    struct dirent **entry;
    int count = scandir(from, &entry, is_file, alphasort);
    for (int i = 0; i < count; i++) {
        char old[8600], new[8600], whole[4096];
        snprintf(old, sizeof old, "%s/%s", from, entry[i]->d_name);
        snprintf(new, sizeof new, "%s/%s", to, entry[i]->d_name);
        if (strcmp(entry[i]->d_name, "config.json") != 0 && realpath(old, whole)) (void)!symlink(whole, new);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
}

static void try_directory(const char *path, const char *name, bool all)
{
    char file[8300];
    snprintf(file, sizeof file, "%s/config.json", path);
    json_t *config = json_load_file(file, 0, NULL);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *quantization = json_object_get(config, "quantization_config");
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    const char *format = json_string_value(json_object_get(quantization, "format"));
    char kind[64];
    snprintf(kind, sizeof kind, "%s %s %s", type ? type : "", method ? method : "", format ? format : "");
    if (type && (is_new(kind) || all)) {
        char copy[600];
        snprintf(copy, sizeof copy, "%s", under(name));
        outcome usual = {.status = ZT_EBUG};
        if (mkdir(copy, 0700) == 0) {
            link_files(path, copy);
            snprintf(file, sizeof file, "%s/config.json", copy);
            save_config(config, file);
            usual = try_path(copy);
        }
        if (ok(usual.status == ZT_OK, "%s: the copy runs %s", name, usual.text)) {
            place p = {.name = name, .copy = copy, .config = config, .sum = usual.sum};
            try_keys(&p, config, false);
            save_config(config, file);
            try_tensors(&p, path);
            ok(p.wrong == 0, "%s: %" PRId64 " damages, %" PRId64 " wrong", name, p.tried, p.wrong);
        }
    }
    json_decref(config);
}

static void try_folder(const char *where, bool all)
{
    struct dirent **entry;
    int count = scandir(where, &entry, is_file, alphasort);
    ok(count > 0, "%s: %d directories", where, count);
    for (int i = 0; i < count; i++) {
        char path[8192];
        snprintf(path, sizeof path, "%s/%s", where, entry[i]->d_name);
        try_directory(path, entry[i]->d_name, all);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"archs", "delta",       "dense",   "gemma", "gpt_oss",  "latent",
                                       "rows",  "state_space", "further", "rwkv",  "quantized"};
    const char *asked = getenv("ZT_LONG");
    bool all = asked && *asked;
    char self[4096], where[4200];
    snprintf(self, sizeof self, "%s", argv[0]);
    const char *beside = dirname(self);
    stride = all ? 1 : SANITIZED ? 307 : 37;
    if (!folder_make("hostile-directories")) return 1;
    for (int i = 1; i < argc; i++) try_folder(argv[i], all);
    for (size_t i = 0; argc < 2 && i < sizeof sets / sizeof *sets; i++) {
        snprintf(where, sizeof where, "%s/../%s", beside, sets[i]);
        try_folder(where, all);
    }
    ok(folder_remove(), "the folder is removed");
    return tap_done();
}
