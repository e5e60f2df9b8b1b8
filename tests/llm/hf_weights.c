/* hf_weights.c - where a Hugging Face directory has its weights: model.safetensors, an index,
 * pytorch_model.bin, one file or several; which of them count, and what is said where there are none. */
#include <unistd.h>

#include "lib/io/checkpoint.h"
#include "lib/io/shards.h"
#include "tests/llm/hf_small.h"

/* Tensors [first, last) of the file `from` to the file `to`, whose suffix says what it is. */
static void copy_some(zt_ctx *ctx, const hfw *directory, const char *from, const char *to, int64_t first, int64_t last)
{
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, hfw_path(directory, from), 0);
    zt_entry *e = calloc((size_t)(last - first), sizeof *e);
    char buf[1024];
    zt_checkpoint_opts o = {.to = zt_container_for(to), .force = true};
    if (!checkpoint || !e) abort();
    for (int64_t i = first; i < last; i++) zt_checkpoint_get(checkpoint, i, &e[i - first]);
    zt_writer *writer = zt_writer_open(ctx, hfw_path(directory, to), &o, NULL, e, last - first);
    bool done = writer != NULL;
    for (int64_t i = first; done && i < last; i++)
        done = zt_checkpoint_read(checkpoint, i, 0, buf, (size_t)e[i - first].bytes) == ZT_OK &&
               zt_writer_put(writer, buf, (size_t)e[i - first].bytes) == ZT_OK;
    if (!done || zt_writer_commit(writer) != ZT_OK) abort();
    zt_writer_close(writer);
    zt_checkpoint_close(checkpoint);
    free(e);
}

/* The identity, which follows tensors and a sample of the weights; "" where it does not open. */
static const char *id_of(zt_ctx *ctx, const char *path, char id[40])
{
    zt_gguf *gguf = zt_model_open(ctx, path);
    snprintf(id, 40, "%s", gguf ? zt_gguf_id(gguf) : "");
    if (!gguf || zt_gguf_n_tensors(gguf) != 11) diag("%s: %s", path, zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    zt_ctx_clear(ctx);
    return id;
}

static void same_values(zt_ctx *ctx, const hfw *d, const char *name, const char *want)
{
    char id[40];
    ok(strcmp(id_of(ctx, *name ? hfw_path(d, name) : d->path, id), want) == 0 && *want, "'%s' is the model", name);
}

static void refused_with(zt_ctx *ctx, const char *path, zt_status want, const char *words)
{
    zt_gguf *g = zt_model_open(ctx, path);
    ok(!g && zt_ctx_status(ctx) == want && strstr(zt_ctx_error(ctx), words), "%s", zt_ctx_error(ctx));
    zt_gguf_close(g);
    zt_ctx_clear(ctx);
}

static void take_away(const hfw *d, const char *name) { unlink(hfw_path(d, name)); }

/* The names of the ten tensors, in the order of the file, to parts. */
static void index_parts(zt_ctx *ctx, hfw *directory, const char *from, const char *index, const char *a, const char *b)
{
    char map[4000] = "";
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, hfw_path(directory, from), 0);
    for (int64_t i = 0; checkpoint && i < zt_checkpoint_count(checkpoint); i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        hfw_map(map, sizeof map, entry.name, i < 6 ? a : b);
    }
    zt_checkpoint_close(checkpoint);
    hfw_index(directory, index, map);
}

static hfw make_directory(zt_ctx *ctx, char id[40])
{
    hfw d = hfw_new();
    hfw_text(&d, "config.json", LLAMA);
    put_layer(&d, "model.");
    hfw_save(&d, "model.safetensors");
    id_of(ctx, d.path, id);
    return d;
}

/* ---- what is taken --------------------------------------------------------------------------- */

static void test_bin(zt_ctx *ctx)
{
    char id[40];
    hfw directory = make_directory(ctx, id);
    copy_some(ctx, &directory, "model.safetensors", "pytorch_model.bin", 0, HFSMALL_ROWS);
    hfw_bytes(&directory, "pytorch_model.bin.index.json", "{}", 2);
    same_values(ctx, &directory, "", id);
    take_away(&directory, "model.safetensors");
    same_values(ctx, &directory, "", id);
    same_values(ctx, &directory, "pytorch_model.bin", id);
    take_away(&directory, "config.json");
    refused_with(ctx, hfw_path(&directory, "pytorch_model.bin"), ZT_ENOENT, "without config.json");
    hfw_end(&directory);
}

/* Files of the suffix, told apart by an index and by their numbers. */
static void test_parts(zt_ctx *ctx, const char *stem, const char *suffix)
{
    char id[40], a[80], b[80], whole[80], index[80], other[80];
    hfw directory = make_directory(ctx, id);
    snprintf(a, sizeof a, "%s-00001-of-00002%s", stem, suffix);
    snprintf(b, sizeof b, "%s-00002-of-00002%s", stem, suffix);
    snprintf(index, sizeof index, "%s%s.index.json", stem, suffix);
    snprintf(whole, sizeof whole, "whole%s", suffix);
    copy_some(ctx, &directory, "model.safetensors", whole, 0, HFSMALL_ROWS);
    copy_some(ctx, &directory, whole, a, 0, 6);
    copy_some(ctx, &directory, whole, b, 6, HFSMALL_ROWS);
    take_away(&directory, "model.safetensors");
    const char *const parts[] = {"", a, b};
    for (size_t i = 0; i < 3; i++) same_values(ctx, &directory, parts[i], id);
    index_parts(ctx, &directory, whole, index, a, b);
    for (size_t i = 0; i < 3; i++) same_values(ctx, &directory, parts[i], id);
    same_values(ctx, &directory, index, id);

    index_parts(ctx, &directory, whole, index, b, a);
    refused_with(ctx, directory.path, ZT_EDATA, "but the index does not list it there");
    snprintf(other, sizeof other, "other-x%s", suffix);
    copy_some(ctx, &directory, whole, other, 0, 6);
    index_parts(ctx, &directory, whole, index, other, b);
    same_values(ctx, &directory, "", id);
    refused_with(ctx, hfw_path(&directory, a), ZT_EDATA, "does not name it");
    index_parts(ctx, &directory, whole, index, a, "../x");
    refused_with(ctx, directory.path, ZT_EDATA, "not a plain file name");
    index_parts(ctx, &directory, whole, index, a, "none");
    refused_with(ctx, directory.path, ZT_ENOENT, "none");
    take_away(&directory, index);

    copy_some(ctx, &directory, whole, b, 5, HFSMALL_ROWS);
    refused_with(ctx, directory.path, ZT_EDATA, "duplicate tensor");
    index_parts(ctx, &directory, whole, index, a, b);
    refused_with(ctx, directory.path, ZT_EDATA, "duplicate tensor");
    take_away(&directory, index);
    take_away(&directory, a);
    refused_with(ctx, directory.path, ZT_EDATA, "the first");
    refused_with(ctx, hfw_path(&directory, b), ZT_EDATA, "-00001-of-00002");
    hfw_end(&directory);
}

static void test_shard_names(zt_ctx *ctx)
{
    static const struct {
        const char *path;
        int64_t no, count;
        const char *second;
    } names[] = {{"a/m-00001-of-00003.gguf", 1, 3, "a/m-00002-of-00003.gguf"},
                 {"m_00072-of-00072.bin", 72, 72, "m_00002-of-00072.bin"},
                 {"m-00001-of-000163.safetensors", 1, 163, "m-00002-of-000163.safetensors"},
                 {"m.v1-3-of-12.pt", 3, 12, "m.v1-2-of-12.pt"},
                 {"-1-of-2.gguf", 1, 2, "-2-of-2.gguf"}};
    static const char *const others[] = {
        "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-00001-of-.gguf",    "m-of-00002.gguf",        "m00001-of-00002.gguf",
        "m-00001-of-00002",      "m-00001-of-00002.d/x",  "00001-of-00002.gguf", "m-1-of-1000000000000.x", ""};
    zt_shard_name n;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool is = zt_shard_parse(names[i].path, &n) && n.number == names[i].no && n.count == names[i].count;
        char *second = is ? zt_shard_path(ctx, names[i].path, &n, 2) : NULL;
        ok(second && strcmp(second, names[i].second) == 0, "'%s' is a part", names[i].path);
        zt_free(ctx, second);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) ok(!zt_shard_parse(others[i], &n), "'%s' is not", others[i]);
}

/* What has another name is taken where there is no choice. */
static void test_names(zt_ctx *ctx)
{
    char id[40];
    hfw directory = make_directory(ctx, id);
    copy_some(ctx, &directory, "model.safetensors", "model.fp16.safetensors", 0, HFSMALL_ROWS);
    copy_some(ctx, &directory, "model.safetensors", "weights.safetensors", 0, HFSMALL_ROWS);
    take_away(&directory, "model.safetensors");
    same_values(ctx, &directory, "", id);
    copy_some(ctx, &directory, "weights.safetensors", "model.other.safetensors", 0, 3);
    refused_with(ctx, directory.path, ZT_EDATA, "ambiguous weights");
    take_away(&directory, "model.fp16.safetensors");
    take_away(&directory, "model.other.safetensors");
    refused_with(ctx, directory.path, ZT_ENOENT, "no weights");
    index_parts(ctx, &directory, "weights.safetensors", "transformer.safetensors.index.json", "weights.safetensors",
                "weights.safetensors");
    same_values(ctx, &directory, "", id);
    copy_some(ctx, &directory, "weights.safetensors", "model-00001-of-00002.safetensors", 0, 3);
    copy_some(ctx, &directory, "weights.safetensors", "model-00001-of-00003.safetensors", 0, 3);
    refused_with(ctx, directory.path, ZT_EDATA, "ambiguous weights");
    hfw_end(&directory);
}

/* ---- none ------------------------------------------------------------------------------------ */

static void test_none(zt_ctx *ctx)
{
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", LLAMA);
    hfw_text(&directory, "tokenizer.json", "{}");
    refused_with(ctx, directory.path, ZT_ENOENT, "model.safetensors, model.safetensors.index.json, model-*.");
    refused_with(ctx, directory.path, ZT_ENOENT, "pytorch_model.bin");
    zt_gguf *gguf = zt_model_open_whole(ctx, directory.path);
    ok(!gguf && zt_ctx_status(ctx) == ZT_ENOENT, "nor is it a file: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    gguf = zt_model_open_vocabulary(ctx, directory.path);
    ok(gguf && zt_gguf_n_tensors(gguf) == 0, "a vocabulary it has %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    hfw_text(&directory, "config.json", "{\"model_type\":\"dinosaur\"}");
    gguf = zt_model_open_whole(ctx, directory.path);
    ok(!gguf && zt_ctx_status(ctx) == ZT_ENOENT, "of no architecture: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    hfw_text(&directory, "config.json", LLAMA);
    hfw_save(&directory, "model.safetensors");
    refused_with(ctx, directory.path, ZT_EDATA, "no tensors");
    hfw_end(&directory);
}

/* ---- what stands in their place -------------------------------------------------------------- */

static void test_foreign(zt_ctx *ctx)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n"
                                  "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2"
                                  "ca24d17e2393\nsize 12345\n";
    static const char page[] = "\n<!DOCTYPE HTML>\n<html><body>Sign in</body></html>\n";
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        hfw directory = hfw_new();
        hfw_text(&directory, "config.json", LLAMA);
        hfw_text(&directory, files[i], pointer);
        refused_with(ctx, directory.path, i == 1 ? ZT_ENOENT : ZT_EDATA, i == 1 ? "no weights" : "git lfs pull");
        hfw_text(&directory, files[i], page);
        refused_with(ctx, directory.path, i == 1 ? ZT_ENOENT : ZT_EDATA, i == 1 ? "no weights" : "HTML");
        hfw_end(&directory);
    }
    hfw directory = hfw_new();
    hfw_text(&directory, "config.json", LLAMA);
    put_layer(&directory, "model.");
    hfw_save(&directory, "model-00001-of-00002.safetensors");
    hfw_text(&directory, "model-00002-of-00002.safetensors", pointer);
    refused_with(ctx, directory.path, ZT_EDATA, "git lfs pull");
    hfw_end(&directory);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_bin(ctx);
    test_parts(ctx, "model", ".safetensors");
    test_parts(ctx, "pytorch_model", ".bin");
    test_shard_names(ctx);
    test_names(ctx);
    test_none(ctx);
    test_foreign(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
