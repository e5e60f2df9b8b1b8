/* state_space.c - models with short convolutions and state-space layers (tests/llm/state_space) that are spoilt: every key of
 * these layers missing, zero, negative, huge, every list too short or with a negative entry, and every tensor missing or of
 * another shape are refused with one line. That the formulas are right is for golden_architectures.c to say.
 *
 *   state_space [FOLDER]
 *
 * FOLDER holds the directories of tests/llm/state_space/make.py; default: state_space, beside this program's folder. */
#include "tests/common/gguf_writer.h"
#include "tests/common/tap.h"

#include "lib/zt/all.h"

#include <dirent.h>
#include <libgen.h>

/* What is done to one key or tensor; HARM_NONE: nothing. */
typedef enum harm { HARM_NONE, HARM_MISSING, HARM_ZERO, HARM_NEGATIVE, HARM_HUGE, HARM_SHAPE } harm;

typedef struct spoilt {
    const char *key, *tensor; /* NULL: none */
    harm harm;
} spoilt;

enum { MOST = 64 };

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy_list(ggufw *to, const zt_gguf *from, const char *key, int64_t count, harm done)
{
    int64_t values[MOST] = {0};
    int32_t small[MOST] = {0};
    zt_gguf_array_i64(from, key, values, count);
    for (int64_t i = 0; i < count; i++) small[i] = (int32_t)values[i];
    if (done == HARM_ZERO) count--;
    if (done == HARM_NEGATIVE) small[count - 1] = -1;
    if (done == HARM_HUGE) small[count - 1] = INT32_MAX;
    ggufw_array(to, key, 5, (uint64_t)count, small, (size_t)count * sizeof *small);
}

static void copy_number(ggufw *to, const char *key, int64_t value, harm done)
{
    int32_t below = -1;
    if (done == HARM_NEGATIVE)
        ggufw_plain(to, key, 5, &below, sizeof below);
    else
        ggufw_u32(to, key, done == HARM_ZERO ? 0 : done == HARM_HUGE ? UINT32_MAX : (uint32_t)value);
}

/* The keys of the architecture; running needs no others. */
static void copy_keys(ggufw *to, const zt_gguf *from, const spoilt *spoil)
{
    for (int64_t i = 0; i < zt_gguf_n_keys(from); i++) {
        zt_gguf_kind kind, element;
        zt_bytes name = zt_gguf_key(from, i, &kind), text;
        char key[128], word[128];
        int64_t value = 0;
        double real = 0;
        snprintf(key, sizeof key, "%.*s", (int)name.n, name.data);
        harm done = spoil->key && strcmp(spoil->key, key) == 0 ? spoil->harm : HARM_NONE;
        if (strncmp(key, "tokenizer.", 10) == 0 || done == HARM_MISSING) continue;
        if (kind == ZT_GGUF_STR && zt_gguf_str(from, key, &text) && text.n < sizeof word) {
            snprintf(word, sizeof word, "%.*s", (int)text.n, text.data);
            ggufw_str(to, key, word);
        } else if (kind == ZT_GGUF_ARRAY && zt_gguf_array(from, key, &element, &value) && value <= MOST) {
            copy_list(to, from, key, value, done);
        } else if (kind == ZT_GGUF_BOOL && zt_gguf_i64(from, key, &value)) {
            ggufw_bool(to, key, value != 0);
        } else if (kind == ZT_GGUF_U32 && zt_gguf_i64(from, key, &value)) {
            copy_number(to, key, value, done);
        } else if (zt_gguf_f64(from, key, &real)) {
            ggufw_f32(to, key, (float)real);
        }
    }
}

/* Names, types and shapes; no value is read. */
static void copy_tensors(ggufw *to, const zt_gguf *from, const spoilt *spoil)
{
    for (int64_t i = 0; i < zt_gguf_n_tensors(from); i++) {
        zt_type type;
        const char *name = zt_gguf_tensor(from, i, &type, NULL, NULL);
        harm done = spoil->tensor && strcmp(spoil->tensor, name) == 0 ? spoil->harm : HARM_NONE;
        if (done == HARM_MISSING) continue;
        if (done == HARM_SHAPE) type.dim[0]++;
        type.dtype = ZT_F32;
        char *zeros = calloc(zt_type_bytes(&type) + 1, 1);
        ggufw_tensor(to, name, 0, type.rank, type.dim, zeros, zt_type_bytes(&type));
        free(zeros);
    }
}

/* What the plan says of the copy: its message, in `text`. */
static zt_status plan_copy(const zt_gguf *from, const spoilt *spoil, char text[400])
{
    ggufw writer = {0};
    size_t count;
    copy_keys(&writer, from, spoil);
    copy_tensors(&writer, from, spoil);
    char *bytes = ggufw_bytes(&writer, &count);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *source = zt_source_memory(ctx, "spoilt", bytes, count);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    zt_engine *engine = zt_engine_open(ctx, "ref", &(zt_engine_opts){.threads = 1});
    zt_llm_opts options = {.engine = engine, .ctx_len = 64, .kv = ZT_DTYPE_COUNT};
    zt_llm_info info;
    zt_status status = gguf ? zt_llm_plan(gguf, &options, &info) : zt_ctx_status(ctx);
    snprintf(text, 400, "%s", status == ZT_OK ? "" : zt_ctx_error(ctx));
    zt_engine_close(engine);
    zt_gguf_close(gguf);
    zt_source_close(source);
    if (zt_mem_get(ctx).blocks) {
        diag("%zu blocks leak", zt_mem_get(ctx).blocks);
        status = ZT_EBUG;
    }
    zt_ctx_free(ctx);
    free(bytes);
    return status;
}

/* ---- one model ------------------------------------------------------------------------------- */

static bool is_refused(const zt_gguf *gguf, const spoilt *spoil)
{
    char text[400];
    zt_status status = plan_copy(gguf, spoil, text);
    bool good = (status == ZT_EDATA || status == ZT_ENOTSUP) && *text && !strchr(text, '\n');
    if (!good) diag("%s, harm %d: status %d, '%s'", spoil->key ? spoil->key : spoil->tensor, (int)spoil->harm, (int)status, text);
    return good;
}

static void try_keys(const char *name, const zt_gguf *gguf)
{
    static const char *const ends[] = {"ssm.conv_kernel", "ssm.state_size",    "ssm.inner_size", "ssm.time_step_rank",
                                       "ssm.group_count", "shortconv.l_cache", "block_count",    "embedding_length"};
    static const harm harms[] = {HARM_MISSING, HARM_ZERO, HARM_NEGATIVE, HARM_HUGE};
    zt_bytes arch = {"", 0};
    int tried = 0;
    bool all = zt_gguf_str(gguf, "general.architecture", &arch);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[128];
        int64_t value;
        snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.data, ends[i]);
        if (!zt_gguf_i64(gguf, key, &value)) continue;
        for (size_t k = 0; k < sizeof harms / sizeof *harms; k++, tried++)
            all = is_refused(gguf, &(spoilt){.key = key, .harm = harms[k]}) && all;
    }
    ok(all && tried > 8, "%s: %d spoilt numbers are refused", name, tried);
}

static void try_lists(const char *name, const zt_gguf *gguf)
{
    static const char *const ends[] = {"attention.head_count_kv", "feed_forward_length"};
    static const harm harms[] = {HARM_ZERO, HARM_NEGATIVE, HARM_HUGE};
    zt_bytes arch = {"", 0};
    int tried = 0;
    bool all = zt_gguf_str(gguf, "general.architecture", &arch);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[128];
        zt_gguf_kind kind;
        int64_t count;
        snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.data, ends[i]);
        if (!zt_gguf_array(gguf, key, &kind, &count)) continue;
        for (size_t k = 0; k < sizeof harms / sizeof *harms; k++, tried++)
            all = is_refused(gguf, &(spoilt){.key = key, .harm = harms[k]}) && all;
    }
    if (tried) ok(all, "%s: %d spoilt lists are refused", name, tried);
}

/* May a model go without the tensor? */
static bool is_optional(const char *tensor)
{
    return strcmp(tensor, "output.weight") == 0 || strstr(tensor, "ssm_conv1d.bias") != NULL;
}

static void try_tensors(const char *name, const zt_gguf *gguf, bool norm_may)
{
    int64_t tried = 0;
    bool all = true;
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf); i++) {
        zt_type type;
        const char *tensor = zt_gguf_tensor(gguf, i, &type, NULL, NULL);
        bool may = is_optional(tensor) || (norm_may && strstr(tensor, "ssm_norm"));
        if (!may) all = is_refused(gguf, &(spoilt){.tensor = tensor, .harm = HARM_MISSING}) && all;
        bool rows = strcmp(tensor, "token_embd.weight") == 0; /* as many as there are tokens, which the copy does not say */
        if (!rows) all = is_refused(gguf, &(spoilt){.tensor = tensor, .harm = HARM_SHAPE}) && all;
        tried += 2 - may - rows;
    }
    ok(all && tried > 20, "%s: %d spoilt tensors are refused", name, (int)tried);
}

static void try_model(const char *folder, const char *name)
{
    char path[8192], text[400];
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/%s", folder, name);
    zt_gguf *gguf = zt_model_open(ctx, path);
    bool whole = gguf && plan_copy(gguf, &(spoilt){.harm = HARM_NONE}, text) == ZT_OK;
    ok(whole, "%s: a copy is a model %s", name, gguf ? text : zt_ctx_error(ctx));
    if (whole) {
        try_keys(name, gguf);
        try_lists(name, gguf);
        try_tensors(name, gguf, strncmp(name, "falcon_h1", 9) == 0);
    }
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
}

static int is_case(const struct dirent *entry) { return entry->d_name[0] != '.'; }

int main(int argc, char **argv)
{
    char self[4096], folder[4200];
    struct dirent **entry;
    snprintf(self, sizeof self, "%s", argv[0]);
    snprintf(folder, sizeof folder, "%s/../state_space", dirname(self));
    int count = scandir(argc > 1 ? argv[1] : folder, &entry, is_case, alphasort);
    ok(count > 0, "%s: %d models", argc > 1 ? argv[1] : folder, count);
    for (int i = 0; i < count; i++) {
        try_model(argc > 1 ? argv[1] : folder, entry[i]->d_name);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
    return tap_done();
}
