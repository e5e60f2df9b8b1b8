/* hf_export.c - Hugging Face directories as they are written: tokenizers made of GGUF's keys alone
 * give the same ids, quantized weights their values, targets are whole or as they were; and what of
 * a directory cannot be read for a file is told. That all goes there and back is for hf_gguf. */
#include "tests/common/hf_writer.h"
#include "tests/common/made_llm.h"

#include "lib/io/checkpoint.h"

#include <dirent.h>
#include <libgen.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define D(...) ((int64_t[]){__VA_ARGS__})

static char build[4200]; /* the folder with archs, ggufs and whole */
static const zt_hf_opts as_stored = {.dtype = ZT_DTYPE_COUNT};

static int files_in(const char *dir)
{
    int n = 0;
    DIR *directory = opendir(dir);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (directory) closedir(directory);
    return n;
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

static const char *const texts[] = {"Copyright (C) 1991, it's free software!",
                                    " two  spaces, caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd",
                                    "x",
                                    "abcd ab cab",
                                    "a 12345 b\n\n c\t",
                                    "<|im_start|>user<|im_end|>[SEP]",
                                    "AbC <b>bold</b>"};

static bool same_ids(zt_ctx *ctx, const zt_vocab *a, const zt_vocab *b, const char *text, unsigned flags)
{
    zt_ids x = {0}, y = {0};
    bool same = zt_vocab_encode(a, text, strlen(text), flags, &x) == ZT_OK &&
                zt_vocab_encode(b, text, strlen(text), flags, &y) == ZT_OK && x.count == y.count && x.count &&
                memcmp(x.id, y.id, x.count * sizeof *x.id) == 0;
    for (size_t i = 0; !same && i < (x.count < y.count ? x.count : y.count); i++)
        if (x.id[i] != y.id[i]) {
            diag("'%s': id %zu is %d and %d", text, i, x.id[i], y.id[i]);
            break;
        }
    zt_ids_fini(ctx, &x);
    zt_ids_fini(ctx, &y);
    return same;
}

static void copy_into(const char *from, const char *to)
{
    char command[9000];
    snprintf(command, sizeof command, "cp -r '%s'/. '%s'", from, to);
    if (system(command) != 0) abort();
}

/* The model's keys without tokenizer.json or tokenizer.model among them. */
static zt_gguf *keys_alone(zt_ctx *ctx, const char *path)
{
    zt_gguf *gguf = zt_model_open_whole(ctx, path);
    zt_checkpoint *checkpoint = gguf ? zt_checkpoint_of_gguf(ctx, gguf) : NULL;
    if (!checkpoint) return NULL;
    static const char *const whole[] = {"tokenizer.huggingface.json", "zt.tokenizer.sentencepiece"};
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++) {
        int64_t i = zt_meta_find(zt_checkpoint_meta(checkpoint), whole[k]);
        if (i >= 0) zt_meta_remove(zt_checkpoint_meta(checkpoint), i);
    }
    return zt_checkpoint_gguf(checkpoint);
}

static void check_words(const char *folder, const char *dress)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    char from[5000];
    int wrong = 0;
    snprintf(from, sizeof from, "%s/%s", build, folder);
    copy_into(from, directory.path);
    if (dress) {
        snprintf(from, sizeof from, "%s/ggufs/dress/%s", build, dress);
        copy_into(from, directory.path);
    }
    zt_gguf *gguf = keys_alone(ctx, directory.path), *again = NULL;
    if (gguf && zt_hf_write(ctx, gguf, hfw_path(&directory, "back"), &as_stored) == ZT_OK)
        again = zt_model_open(ctx, hfw_path(&directory, "back"));
    zt_vocab *a = again ? zt_vocab_open(gguf) : NULL, *b = again ? zt_vocab_open(again) : NULL;
    for (size_t i = 0; a && b && i < sizeof texts / sizeof *texts; i++)
        for (unsigned flags = 0; flags < 8; flags += 2) /* the rule, special tokens */
            wrong += !same_ids(ctx, a, b, texts[i], flags);
    ok(a && b && wrong == 0, "%s%s%s: tokenizer.json made of keys gives their ids %s", folder, dress ? " in " : "",
       dress ? dress : "", zt_ctx_error(ctx));
    zt_vocab_free(a);
    zt_vocab_free(b);
    zt_gguf_close(again);
    zt_gguf_close(gguf);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

/* The GGUF that is written of a directory gives the directory's ids; of tokenizers whose keys say
 * all, without tokenizer.json in it. */
static void check_file(const char *folder, bool keys_suffice)
{
    zt_ctx *ctx = zt_ctx_new();
    char path[5000];
    int wrong = 0;
    zt_bytes json;
    snprintf(path, sizeof path, "%s/whole/%s", build, folder);
    zt_gguf *dir = zt_model_open(ctx, path), *made = zt_model_open_whole(ctx, path);
    zt_vocab *a = dir ? zt_vocab_open(dir) : NULL, *b = made ? zt_vocab_open(made) : NULL;
    for (size_t i = 0; a && b && i < sizeof texts / sizeof *texts; i++)
        for (unsigned flags = 0; flags < 8; flags++) wrong += !same_ids(ctx, a, b, texts[i], flags);
    ok(a && b && wrong == 0, "%s as a file gives the same ids %s", folder, zt_ctx_error(ctx));
    ok(made && zt_gguf_str(made, "tokenizer.huggingface.json", &json) != keys_suffice, "with%s tokenizer.json in it",
       keys_suffice ? "out" : "");
    zt_vocab_free(a);
    zt_vocab_free(b);
    zt_gguf_close(dir);
    zt_gguf_close(made);
    zt_ctx_free(ctx);
}

/* One score for all tokens, which is no order: told. */
static void check_unscored(void)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    char from[5000];
    snprintf(from, sizeof from, "%s/whole/llama2", build);
    zt_gguf *gguf = keys_alone(ctx, from);
    zt_status status = gguf ? zt_hf_write(ctx, gguf, hfw_path(&directory, "back"), &as_stored) : ZT_OK;
    ok(status == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), "scores") && files_in(directory.path) == 0, "tokens without scores: %s",
       zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

/* ---- tokenizer.model ------------------------------------------------------------------------- */

/* Runs, where there is no tokenizer.json. */
static void check_pieces(void)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    char path[5000];
    int wrong = 0;
    snprintf(path, sizeof path, "%s/archs/llama", build);
    copy_into(path, directory.path);
    snprintf(path, sizeof path, "%s/ggufs/dress/spm", build);
    copy_into(path, directory.path);
    zt_gguf *dir = zt_model_open(ctx, directory.path), *made = zt_model_open_whole(ctx, directory.path);
    zt_vocab *a = dir ? zt_vocab_open(dir) : NULL, *b = made ? zt_vocab_open(made) : NULL;
    for (size_t i = 0; a && b && i < sizeof texts / sizeof *texts; i++) wrong += !same_ids(ctx, a, b, texts[i], ZT_TOK_BOS_RULE);
    ok(a && b && wrong == 0, "tokenizer.model alone is a vocabulary too %s", zt_ctx_error(ctx));
    zt_vocab_free(a);
    zt_vocab_free(b);
    zt_gguf_close(dir);
    zt_gguf_close(made);
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

static void check_truncated(void)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    char path[5000], *pieces;
    size_t count;
    int wrong = 0;
    snprintf(path, sizeof path, "%s/archs/llama", build);
    copy_into(path, directory.path);
    snprintf(path, sizeof path, "%s/ggufs/dress/spm", build);
    copy_into(path, directory.path);
    pieces = zt_read_all(ctx, hfw_path(&directory, "tokenizer.model"), &count);
    for (size_t k = 0; pieces && k < count; k++) {
        hfw_bytes(&directory, "tokenizer.model", pieces, k);
        zt_gguf *gguf = zt_model_open_whole(ctx, directory.path);
        zt_status status = zt_ctx_status(ctx);
        wrong += gguf ? status != ZT_OK : status != ZT_EDATA;
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
    }
    ok(pieces && count > 500 && wrong == 0, "tokenizer.model cut anywhere in %zu bytes: sound, or bad data", count);
    for (size_t k = 0; pieces && k < count; k++) {
        pieces[k] = (char)(pieces[k] ^ 0x95);
        hfw_bytes(&directory, "tokenizer.model", pieces, count);
        zt_gguf *gguf = zt_model_open_whole(ctx, directory.path);
        zt_status status = zt_ctx_status(ctx);
        wrong += gguf ? status != ZT_OK : status != ZT_EDATA && status != ZT_ENOTSUP; /* a type that is not known */
        zt_gguf_close(gguf);
        zt_ctx_clear(ctx);
        pieces[k] = (char)(pieces[k] ^ 0x95);
    }
    ok(wrong == 0, "likewise with any byte changed");
    zt_free(ctx, pieces);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

/* ---- weights --------------------------------------------------------------------------------- */

static float *values_of(zt_gguf *gguf, const char *name, zt_type *type)
{
    int64_t handle;
    zt_store store = zt_gguf_store(gguf);
    if (store.find(store.user, name, type, &handle) != ZT_OK) return NULL;
    char *raw = malloc(zt_type_bytes(type) + 1);
    float *x = malloc((size_t)zt_type_count(type) * sizeof *x + 1);
    if (store.read(store.user, handle, 0, raw, zt_type_bytes(type)) == ZT_OK)
        zt_dtype_get(type->dtype)->decode(raw, x, zt_type_count(type));
    free(raw);
    return x;
}

/* The largest difference of all tensors' values; how many matrices are of a dtype. */
static double compare_values(zt_gguf *a, zt_gguf *b, zt_dtype want, int *of_dtype)
{
    double most = 0;
    *of_dtype = 0;
    for (int64_t i = 0; i < zt_gguf_n_tensors(a); i++) {
        zt_type type, u;
        const char *name = zt_gguf_tensor(a, i, &type, NULL, NULL);
        float *x = values_of(a, name, &type), *y = values_of(b, name, &u);
        for (int64_t k = 0; x && y && k < zt_type_count(&type); k++) most = fmax(most, (double)fabsf(x[k] - y[k]));
        *of_dtype += y && u.rank == 2 && u.dtype == want;
        most = x && y ? most : INFINITY;
        free(x);
        free(y);
    }
    return most;
}

static void check_blocks(zt_dtype dtype, zt_dtype want, double bound)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    int matrices = 0;
    file file_data = make_file("llama", "q8_0", 2, NULL);
    zt_source *src = zt_source_memory(ctx, "made.gguf", file_data.bytes, file_data.n);
    zt_gguf *gguf = zt_gguf_from(ctx, src), *again = NULL;
    zt_hf_opts o = {.dtype = dtype};
    if (gguf && zt_hf_write(ctx, gguf, hfw_path(&directory, "back"), &o) == ZT_OK)
        again = zt_model_open(ctx, hfw_path(&directory, "back"));
    double off = again ? compare_values(gguf, again, want, &matrices) : INFINITY;
    ok(off <= bound && matrices == 15, "q8_0 as %s: off by %g, %d matrices %s", zt_dtype_get(want)->name, off, matrices,
       zt_ctx_error(ctx));
    zt_gguf_close(again);
    zt_gguf_close(gguf);
    zt_source_close(src);
    free(file_data.bytes);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

/* Of a model in bf16, what the converter keeps in f32. */
static void check_kept(const char *folder, const char *name)
{
    zt_ctx *ctx = zt_ctx_new();
    char path[5000];
    zt_type type = {0}, u = {0};
    snprintf(path, sizeof path, "%s/whole/%s", build, folder);
    zt_gguf *gguf = zt_model_open_whole(ctx, path);
    float *x = gguf ? values_of(gguf, name, &type) : NULL, *y = gguf ? values_of(gguf, "token_embd.weight", &u) : NULL;
    ok(x && type.rank == 2 && type.dtype == ZT_F32 && y && u.dtype == ZT_BF16, "%s of %s is f32", name, folder);
    free(x);
    free(y);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
}

/* ---- targets --------------------------------------------------------------------------------- */

static int asked;

static bool at_once(void) { return ++asked > 3; }

static void check_targets(void)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    char path[5000];
    struct stat st;
    snprintf(path, sizeof path, "%s/whole/gpt2", build);
    zt_gguf *gguf = zt_model_open_whole(ctx, path);
    ok(gguf && zt_hf_write(ctx, gguf, hfw_path(&directory, "new/"), &as_stored) == ZT_OK, "a new directory");
    ok(stat(hfw_path(&directory, "new/config.json"), &st) == 0 && files_in(directory.path) == 1,
       "it is there, and nothing beside it");
    ok(zt_hf_write(ctx, gguf, hfw_path(&directory, "new"), &as_stored) == ZT_ECREATE, "one with files stays: %s",
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    mkdir(hfw_path(&directory, "empty"), 0700);
    ok(zt_hf_write(ctx, gguf, hfw_path(&directory, "empty"), &as_stored) == ZT_OK, "an empty one is filled");
    hfw_text(&directory, "file", "x");
    ok(zt_hf_write(ctx, gguf, hfw_path(&directory, "file"), &as_stored) == ZT_ECREATE, "a file stays: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(zt_hf_write(ctx, gguf, hfw_path(&directory, "no/such/place"), &as_stored) == ZT_ECREATE, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_hf_opts stopped = {.dtype = ZT_DTYPE_COUNT, .stop = at_once};
    ok(zt_hf_write(ctx, gguf, hfw_path(&directory, "stopped"), &stopped) == ZT_EINTR && asked > 3, "interrupted in the middle");
    zt_ctx_clear(ctx);
    ok(files_in(directory.path) == 3, "no temporary is left");
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

/* ---- what is not known ----------------------------------------------------------------------- */

static void check_unknown(void)
{
    hfw directory = hfw_new();
    zt_ctx *ctx = zt_ctx_new();
    zt_bytes text = {"", 0};
    zt_type type = {0};
    hfw_text(&directory, "config.json", "{\"model_type\":\"dinosaur\",\"teeth\":60}");
    hfw_f32(&directory, "jaw.weight", 2, D(4, 3), 0);
    hfw_f32(&directory, "jaw.scale", 1, D(3), 7);
    hfw_save(&directory, "model.safetensors");
    zt_gguf *gguf = zt_model_open_whole(ctx, directory.path);
    float *x = gguf ? values_of(gguf, "jaw.weight", &type) : NULL;
    ok(gguf && zt_gguf_n_tensors(gguf) == 2 && x && type.dim[0] == 4 && x[11] == 11,
       "an unknown architecture has its tensors under their names");
    ok(gguf && zt_gguf_str(gguf, "general.architecture", &text) && text.n == 8 &&
           zt_gguf_str(gguf, "huggingface.config.json", &text) && strstr(text.data, "\"teeth\":60"),
       "and config.json as a key");
    ok(gguf && zt_hf_write(ctx, gguf, hfw_path(&directory, "back"), &as_stored) == ZT_ENOTSUP &&
           strstr(zt_ctx_error(ctx), "'dinosaur'"),
       "back: %s", zt_ctx_error(ctx));
    free(x);
    zt_gguf_close(gguf);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    hfw_end(&directory);
}

int main(void)
{
    char *own = realpath("/proc/self/exe", NULL);
    snprintf(build, sizeof build, "%s", own ? dirname(dirname(own)) : ".");
    check_words("whole/gpt2", NULL);
    check_words("whole/llama3", NULL);
    check_words("whole/qwen3", NULL);
    check_words("whole/bert", NULL);
    check_words("archs/llama", "spm");
    check_words("archs/gemma2", "spm");
    check_words("archs/nomic-bert", "unigram");
    check_file("gpt2", true);
    check_file("llama3", true);
    check_file("qwen3", false); /* NFC */
    check_file("bert", false);
    check_file("llama2", false);
    check_unscored();
    check_pieces();
    check_truncated();
    check_blocks(ZT_DTYPE_COUNT, ZT_F16, 1e-3);
    check_blocks(ZT_BF16, ZT_BF16, 1e-2);
    check_blocks(ZT_F32, ZT_F32, 0);
    check_kept("gpt2", "position_embd.weight");
    check_kept("bert", "token_types.weight");
    check_targets();
    check_unknown();
    free(own);
    return tap_done();
}
