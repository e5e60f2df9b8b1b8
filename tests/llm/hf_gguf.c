/* hf_gguf.c - Hugging Face directories as GGUF, against what llama.cpp's convert_hf_to_gguf.py
 * makes of them (tests/llm/archs/ggufs.py): every key with its type and value, every tensor's dtype,
 * shape and bytes. What is otherwise on purpose is one table, with the reason. And written back as
 * a directory, each is the same GGUF again.
 *
 *   hf_gguf [FOLDER [ARCHS]]
 *
 * FOLDER: cases.tsv, CASE.txt and dress/ of ggufs.py; default: ggufs, and dense-ggufs, beside this program's folder.
 * ARCHS: the directories of make.py; default: archs, and dense, in the same place. */
#include "tests/common/tap.h"

#include "lib/llm/llm.h"

#include <dirent.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- what is otherwise on purpose ------------------------------------------------------------ */

typedef struct otherwise {
    const char *ends; /* of the key; behind the architecture's name and a point where it begins so */
    const char *why;
    const char *only; /* beginning of the case's name, NULL: any */
} otherwise;

static const otherwise ours[] = {
    {"tokenizer.huggingface.json", "the way back, and what the other keys cannot say", NULL},
    {"tokenizer.ggml.eos_token_ids", "GGUF's own key has room for one", NULL},
    {".attention.sliding_window", "windows that the model was trained with", NULL},
    {".attention.sliding_window_pattern", "which layers have them", NULL},
    {".rope.layer_pattern", "which layers rotate", NULL},
    {".rope.scaling.yarn_truncate", "bounds that are not whole pairs, or are, other than the architecture means", NULL},
    {"zt.tokenizer.sentencepiece", "the whole tokenizer.model, where it is all there is", NULL},
    {"olmoe.attention.layer_norm_rms_epsilon", "of config.json; the converter writes 1e-5 for all", NULL},
    {"phimoe.rope.scaling.attn_factor", "the amplitude that the model was trained with, short_mscale and long_mscale", NULL},
    {"glm4moe.block_count", "without the layers that predict further tokens, which transformers leaves out as well", NULL},
    {"glm4moe.nextn_predict_layers", "the same", NULL},
    {"mistral3.rope.scaling.attn_factor", "the amplitude that the model was trained with, where mscale is not 1", NULL},
    {"mistral4.attention.temperature_scale", "llama_4_scaling_beta, which the converter leaves out of this one", NULL},
    {"deepseek2.rope.scaling.yarn_attn_factor", "the amplitude, where mscale is not mscale_all_dim", NULL},
    {".attention.scale", "of gemma, query_pre_attn_scalar where it is not the head's length", NULL},
    {"exaone.attention.layer_norm_rms_epsilon", "what llama.cpp reads; this converter writes the other key", NULL},
    {"exaone.attention.layer_norm_epsilon", "the same", NULL},
    {"general.file_type", "the converter writes it for every other architecture", "gptneox"},
    {"general.file_type", "the same", "mpt"},
    {"minicpm.rope.scaling.attn_factor", "the amplitude that the model was trained with", NULL},
    {"minicpm.rope.scaling.original_context_length", "up to which short factors hold", NULL},
    {"qwen3next.expert_weights_norm", "norm_topk_prob false, which this converter does not pass on", "qwen3next-listed"},
    {"llama4.attention.temperature_length", "growth of queries that is not as all models have it", NULL},
    {"llama4.attention.temperature_scale", "the same", NULL},
    {"llama4.attention.use_qk_norm", "norms that do not follow from the number of experts", NULL},
    {"attn_q.weight", "half of each head rotates, by halves of that; this converter takes pairs of the whole", "bamba"},
    {"attn_k.weight", "the same", "bamba"},
    {"granitehybrid.rope.pair", "the same", "bamba"},
    {"output.weight", "rows of length 1, as the model's own class makes them", "baichuan2"},
    {"cls.weight", "what transformers' classifier reads, and the converter leaves out", "bert-"},
    {"cls.bias", "the same", "bert-"},
};

static bool on_purpose(const char *line, const char *name)
{
    size_t count = strcspn(line, " ");
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        size_t k = strlen(ours[i].ends);
        if (ours[i].only && strncmp(name, ours[i].only, strlen(ours[i].only)) != 0) continue;
        if (count >= k && memcmp(line + count - k, ours[i].ends, k) == 0) return true;
    }
    return false;
}

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct list {
    char *line[2000];
    int n;
} list;

__attribute__((format(printf, 2, 3))) static void add(list *l, const char *fmt, ...)
{
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    l->line[l->n++] = strdup(text);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void list_free(list *l)
{
    for (int i = 0; i < l->n; i++) free(l->line[i]);
}

static const char *const kind_name[] = {"UINT8", "INT8",   "UINT16", "INT16",  "UINT32", "INT32",  "FLOAT32",
                                        "BOOL",  "STRING", "ARRAY",  "UINT64", "INT64",  "FLOAT64"};

static void add_text(list *l, const char *key, zt_bytes t)
{
    if (t.n > 60 || memchr(t.data, '\n', t.n) || memchr(t.data, '\t', t.n))
        add(l, "%s STRING %zu %016" PRIx64, key, t.n, (uint64_t)XXH3_64bits(t.data, t.n));
    else
        add(l, "%s STRING %.*s", key, (int)t.n, t.data);
}

static uint64_t hash_strs(const zt_gguf *gguf, const char *key, int64_t count)
{
    zt_bytes *s = malloc((size_t)(count + 1) * sizeof *s);
    XXH3_state_t *h = XXH3_createState();
    XXH3_64bits_reset(h);
    if (!zt_gguf_array_strs(gguf, key, s, count)) count = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t len = s[i].n;
        XXH3_64bits_update(h, &len, sizeof len);
        XXH3_64bits_update(h, s[i].data, s[i].n);
    }
    uint64_t out = XXH3_64bits_digest(h);
    XXH3_freeState(h);
    free(s);
    return out;
}

static uint64_t hash_numbers(const zt_gguf *gguf, const char *key, zt_gguf_kind kind, int64_t count)
{
    static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    double *x = malloc((size_t)(count + 1) * sizeof *x);
    char *raw = calloc((size_t)(count + 1), 8), *p = raw;
    if (!zt_gguf_array_f64(gguf, key, x, count)) count = 0;
    for (int64_t i = 0; i < count; i++, p += bytes[kind]) {
        int64_t v = (int64_t)x[i];
        float f = (float)x[i];
        memcpy(p, kind == ZT_GGUF_F32 ? (void *)&f : (void *)&v, bytes[kind]);
    }
    uint64_t out = XXH3_64bits(raw, (size_t)(p - raw));
    free(raw);
    free(x);
    return out;
}

static void add_key(list *l, const zt_gguf *gguf, int64_t i)
{
    zt_gguf_kind kind, elem;
    zt_bytes name = zt_gguf_key(gguf, i, &kind), text;
    int64_t count;
    double x = 0;
    char key[256];
    snprintf(key, sizeof key, "%.*s", (int)name.n, name.data);
    if (kind == ZT_GGUF_STR && zt_gguf_str(gguf, key, &text))
        add_text(l, key, text);
    else if (kind == ZT_GGUF_ARRAY && zt_gguf_array(gguf, key, &elem, &count))
        add(l, "%s [%s] %" PRId64 " %016" PRIx64, key, kind_name[elem], count,
            elem == ZT_GGUF_STR ? hash_strs(gguf, key, count) : hash_numbers(gguf, key, elem, count));
    else if (kind == ZT_GGUF_BOOL && zt_gguf_i64(gguf, key, &count))
        add(l, "%s BOOL %" PRId64, key, count);
    else if (zt_gguf_f64(gguf, key, &x))
        add(l, "%s %s %.9g", key, kind_name[kind], x);
}

/* Read in pieces of an odd number of bytes: what is given must not depend on it. */
static void add_tensor(list *l, zt_gguf *gguf, int64_t i)
{
    zt_type type;
    size_t bytes;
    int64_t handle;
    char shape[200] = "", dtype[32];
    zt_store store = zt_gguf_store(gguf);
    const char *name = zt_gguf_tensor(gguf, i, &type, NULL, &bytes);
    char *data = malloc(bytes + 1);
    bool good = store.find(store.user, name, &type, &handle) == ZT_OK;
    for (size_t at = 0, step = 1001; good && at < bytes; at += step)
        good = store.read(store.user, handle, at, data + at, bytes - at < step ? bytes - at : step) == ZT_OK;
    for (int d = 0; d < type.rank; d++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), d ? "x%" PRId64 : "%" PRId64, type.dim[d]);
    snprintf(dtype, sizeof dtype, "%s", zt_dtype_get(type.dtype)->name);
    for (char *c = dtype; *c; c++) *c = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
    add(l, "%s %s %s %016" PRIx64, name, dtype, shape, good ? (uint64_t)XXH3_64bits(data, bytes) : 0);
    free(data);
}

/* What the converter guesses from the directory's name is not compared. */
static bool is_guess(const char *line)
{
    return strncmp(line, "general.name ", 13) == 0 || strncmp(line, "general.size_label ", 19) == 0;
}

static void list_model(list *l, zt_gguf *gguf)
{
    for (int64_t i = 0; i < zt_gguf_n_keys(gguf); i++) {
        add_key(l, gguf, i);
        if (is_guess(l->line[l->n - 1])) free(l->line[--l->n]);
    }
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf); i++) add_tensor(l, gguf, i);
    qsort(l->line, (size_t)l->n, sizeof *l->line, by_text);
}

static bool list_file(list *l, const char *path)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        add(l, "%s", line);
    }
    if (file) fclose(file);
    qsort(l->line, (size_t)l->n, sizeof *l->line, by_text);
    return file != NULL;
}

/* ---- a case ---------------------------------------------------------------------------------- */

/* Links to all files of a folder. */
static void link_all(const char *from, const char *to)
{
    DIR *directory = opendir(from);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char a[5000], b[5000];
        snprintf(a, sizeof a, "%s/%s", from, entry->d_name);
        snprintf(b, sizeof b, "%s/%s", to, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && symlink(a, b) != 0)
            diag("%s: cannot be linked", b);
    }
    if (directory) closedir(directory);
}

static void unlink_all(const char *dir)
{
    DIR *directory = opendir(dir);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[5000];
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (unlinkat(dirfd(directory), entry->d_name, 0) != 0 && entry->d_name[0] != '.') unlink_all(path);
    }
    if (directory) closedir(directory);
    rmdir(dir);
}

/* Lines that only one side has. */
static int compare(const list *want, const list *got, const char *name)
{
    int i = 0, j = 0, wrong = 0;
    while (i < want->n || j < got->n) {
        int c = i == want->n ? 1 : j == got->n ? -1 : strcmp(want->line[i], got->line[j]);
        const char *line = c < 0 ? want->line[i] : j < got->n ? got->line[j] : "";
        if (c != 0 && !on_purpose(line, name)) {
            diag("%s: %s %.200s", name, c < 0 ? "missing" : "more", line);
            wrong++;
        }
        i += c <= 0;
        j += c >= 0;
    }
    return wrong;
}

/* A tokenizer that was made of the keys goes along from then on. */
static bool is_new(const char *line) { return strncmp(line, "tokenizer.huggingface.json ", 27) == 0; }

/* Written as a directory, read again: the same keys and tensors. */
static void check_back(zt_ctx *ctx, zt_gguf *gguf, const list *before, const char *tmp, const char *name)
{
    char dir[5000];
    int wrong = 0, i = 0, j = 0;
    list after = {.n = 0};
    snprintf(dir, sizeof dir, "%s/back", tmp);
    zt_hf_opts o = {.dtype = ZT_DTYPE_COUNT};
    if (zt_gguf_find(gguf, "cls.output.weight") >= 0) {
        bool refused = zt_hf_write(ctx, gguf, dir, &o) == ZT_ENOTSUP;
        ok(refused, "%s: not written: %s", name, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        return;
    }
    zt_gguf *again = zt_hf_write(ctx, gguf, dir, &o) == ZT_OK ? zt_model_open_whole(ctx, dir) : NULL;
    if (again)
        list_model(&after, again);
    else
        diag("%s: %s", name, zt_ctx_error(ctx));
    while (i < before->n || j < after.n) {
        int c = i == before->n ? 1 : j == after.n ? -1 : strcmp(before->line[i], after.line[j]);
        const char *line = c < 0 ? before->line[i] : j < after.n ? after.line[j] : "";
        if (c != 0 && !(c > 0 && is_new(line))) {
            diag("%s: %s %.200s", name, c < 0 ? "gone" : "new", line);
            wrong++;
        }
        i += c <= 0;
        j += c >= 0;
    }
    ok(again && wrong == 0, "%s: there and back again", name);
    zt_gguf_close(again);
    list_free(&after);
}

static void check_case(const char *root, const char *archs, const char *arch, const char *dress)
{
    char tmp[] = "/tmp/zt-hf-gguf-XXXXXX", path[5000], name[300];
    list want = {.n = 0}, got = {.n = 0};
    zt_ctx *ctx = zt_ctx_new();
    snprintf(name, sizeof name, "%s-%s", arch, dress);
    if (!mkdtemp(tmp)) {
        ok(false, "%s: no directory in /tmp", name);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", archs, arch);
    link_all(path, tmp);
    snprintf(path, sizeof path, "%s/dress/%s", root, dress);
    link_all(path, tmp);
    snprintf(path, sizeof path, "%s/%s.txt", root, name);
    zt_gguf *gguf = zt_model_open_whole(ctx, tmp);
    if (gguf)
        list_model(&got, gguf);
    else
        diag("%s: %s", name, zt_ctx_error(ctx));
    bool there = list_file(&want, path) && gguf;
    ok(there && compare(&want, &got, name) == 0, "%s in %s: the converter's keys and tensors", arch, dress);
    if (gguf) check_back(ctx, gguf, &got, tmp, name);
    zt_gguf_close(gguf);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", name);
    zt_ctx_free(ctx);
    list_free(&want);
    list_free(&got);
    unlink_all(tmp);
}

static void check_set(const char *root, const char *archs)
{
    char path[4400], line[512];
    snprintf(path, sizeof path, "%s/cases.tsv", root);
    FILE *file = fopen(path, "r");
    int cases = 0;
    while (file && fgets(line, sizeof line, file)) {
        char arch[128], dress[128];
        if (sscanf(line, "%127s %127s", arch, dress) == 2) {
            check_case(root, archs, arch, dress);
            cases++;
        }
    }
    if (file) fclose(file);
    ok(cases > 0, "%d cases in %s", cases, root);
}

int main(int argc, char **argv)
{
    static const char *const sets[][2] = {{"ggufs", "archs"},           {"dense-ggufs", "dense"},
                                          {"gpt_oss-ggufs", "gpt_oss"}, {"latent-ggufs", "latent"},
                                          {"rows-ggufs", "rows"},       {"gemma-ggufs", "gemma"},
                                          {"delta-ggufs", "delta"},     {"state_space-ggufs", "state_space"},
                                          {"further-ggufs", "further"}, {"rwkv-ggufs", "rwkv"}};
    char root[4200], archs[4200], *own = realpath("/proc/self/exe", NULL);
    const char *build = own ? dirname(dirname(own)) : ".";
    for (size_t i = 0; i < sizeof sets / sizeof *sets && (i == 0 || argc < 2); i++) {
        snprintf(root, sizeof root, argc > 1 ? "%s" : "%s/%s", argc > 1 ? argv[1] : build, sets[i][0]);
        snprintf(archs, sizeof archs, argc > 2 ? "%s" : "%s/%s", argc > 2 ? argv[2] : build, sets[i][1]);
        check_set(root, archs);
    }
    free(own);
    return tap_done();
}
