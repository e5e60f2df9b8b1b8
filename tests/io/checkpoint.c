/* checkpoint.c - model files of any container: what is written is read again, whole, by every way:
 * from a file, from a stream, in shards; and what a container cannot say comes back from its mask.
 */
#include "lib/io/checkpoint.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/folder.h"
#include "tests/common/tap.h"

/* ---- a made model ---------------------------------------------------------------------------- */

enum { N = 8, MOST = 4096 };

static const struct {
    const char *name;
    zt_dtype dtype;
    int rank;
    int64_t dim[5];
} made[N] = {
    {"token_embd.weight", ZT_Q4_1, 2, {6, 64}},
    {"blk.0.norm", ZT_F32, 1, {7}},
    {"blk.0.half", ZT_F16, 2, {3, 5}},
    {"blk.0.mask", ZT_BOOL, 1, {5}},
    {"a name that is longer than the 63 bytes that a GGUF file lets its tensors have", ZT_BF16, 1, {4}},
    {"five", ZT_F8_E4M3, 5, {2, 1, 3, 1, 2}},
    {"empty", ZT_F32, 2, {0, 4}},
    {"one", ZT_F64, 0, {0}},
};

static void entry_of(int i, zt_entry *e)
{
    *e = (zt_entry){.name = made[i].name,
                    .dtype = zt_dtype_get(made[i].dtype)->name,
                    .type = zt_type_make(made[i].dtype, made[i].rank, made[i].dim)};
    e->bytes = zt_type_bytes(&e->type);
}

static unsigned char byte_of(int i, size_t k) { return (unsigned char)(31 * i + 7 * k + k / 256); }

static zt_meta *made_meta(zt_ctx *ctx)
{
    zt_meta *m = zt_meta_new(ctx);
    const zt_bytes words[] = {{"a", 1}, {"", 0}, {"two\nlines", 9}};
    zt_meta_put_str(m, "general.architecture", "none", 4);
    zt_meta_put_u32(m, "none.block_count", 3);
    zt_meta_put_strs(m, "tokenizer.ggml.tokens", words, 3);
    zt_meta_put(m, "a.double", ZT_GGUF_F64, "\1\2\3\4\5\6\7\10", 8);
    return m;
}

static bool write_made(zt_ctx *ctx, const char *path, const char *to, uint64_t shard)
{
    zt_entry entry[N];
    for (int i = 0; i < N; i++) entry_of(i, &entry[i]);
    zt_meta *meta = made_meta(ctx);
    zt_checkpoint_opts o = {.to = zt_container_named(to), .shard = shard, .force = true};
    zt_writer *writer = zt_writer_open(ctx, path, &o, meta, entry, N);
    for (int i = 0; writer && i < N; i++)
        for (size_t k = 0; k < entry[i].bytes; k++) {
            unsigned char b = byte_of(i, k);
            zt_writer_put(writer, &b, 1);
        }
    bool done = writer && zt_writer_commit(writer) == ZT_OK;
    zt_writer_close(writer);
    zt_meta_free(meta);
    return done;
}

/* ---- and read again -------------------------------------------------------------------------- */

static bool meta_is_made(zt_ctx *ctx, const zt_meta *got)
{
    zt_meta *meta = made_meta(ctx);
    bool same = got && zt_meta_count(got) == zt_meta_count(meta);
    for (int64_t i = 0; same && i < zt_meta_count(meta); i++) {
        const zt_meta_item *a = zt_meta_get(meta, i), *b = zt_meta_get(got, i);
        same = a->kind == b->kind && a->bytes == b->bytes && !strcmp(a->key.data, b->key.data) &&
               !memcmp(a->value, b->value, a->bytes);
    }
    zt_meta_free(meta);
    return same;
}

static bool tensor_is_made(zt_checkpoint *checkpoint, int i)
{
    zt_entry want, entry;
    char buf[MOST];
    entry_of(i, &want);
    zt_checkpoint_get(checkpoint, i, &entry);
    if (strcmp(entry.name, want.name) || strcmp(entry.dtype, want.dtype) || !zt_type_equal(&entry.type, &want.type) ||
        entry.bytes != want.bytes || zt_checkpoint_find(checkpoint, want.name) != i)
        return false;
    size_t half = (size_t)entry.bytes / 2;
    if (zt_checkpoint_read(checkpoint, i, 0, buf, half) ||
        zt_checkpoint_read(checkpoint, i, half, buf + half, (size_t)entry.bytes - half))
        return false;
    for (size_t k = 0; k < entry.bytes; k++)
        if ((unsigned char)buf[k] != byte_of(i, k)) return false;
    return true;
}

static bool is_made(zt_ctx *ctx, zt_checkpoint *c)
{
    bool same = c && zt_checkpoint_count(c) == N && meta_is_made(ctx, zt_checkpoint_meta(c));
    for (int i = 0; same && i < N; i++) same = tensor_is_made(c, i);
    same = same && zt_checkpoint_end(c) == ZT_OK;
    zt_checkpoint_close(c);
    return same;
}

/* npy and json hold no such model: tests/io/checkpoint_arrays.c */
static bool holds_little(const char *name) { return strcmp(name, "npy") == 0 || strcmp(name, "json") == 0; }

static void test_files(zt_ctx *ctx, const zt_container *to)
{
    char name[64];
    snprintf(name, sizeof name, "m.%s", zt_container_name(to));
    if (holds_little(zt_container_name(to))) {
        bool done = write_made(ctx, under(name), zt_container_name(to), 0);
        ok(!done && zt_ctx_status(ctx) == ZT_ENOTSUP && access(under(name), F_OK) != 0, "refused: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        return;
    }
    ok(write_made(ctx, under(name), zt_container_name(to), 0), "%s is written: %s", name, zt_ctx_error(ctx));
    ok(is_made(ctx, zt_checkpoint_open(ctx, under(name), 0)), "%s: all of it comes back %s", name, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static void test_shards(zt_ctx *ctx, const char *to, const char *first)
{
    char name[64];
    snprintf(name, sizeof name, "s.%s", to);
    ok(write_made(ctx, under(name), to, 30), "%s is written in shards: %s", to, zt_ctx_error(ctx));
    ok(access(under(name), F_OK) != 0, "there is no file of the name without a number");
    ok(is_made(ctx, zt_checkpoint_open(ctx, under(first), 0)), "%s: all of them come back %s", first, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

/* ---- streams --------------------------------------------------------------------------------- */

typedef struct feed {
    const char *from, *fifo;
    size_t most; /* bytes that go through */
} feed;

static void *feeder(void *user)
{
    const feed *f = user;
    FILE *in = fopen(f->from, "rb"), *out = fopen(f->fifo, "wb");
    for (size_t k = 0; k < f->most; k++) {
        int c = getc(in);
        if (c == EOF || putc(c, out) == EOF) break;
        if (k % 100 == 0) fflush(out);
    }
    fclose(in);
    fclose(out);
    return NULL;
}

static void test_stream(zt_ctx *ctx, const char *name)
{
    feed f = {.from = strdup(under(name)), .fifo = strdup(under("fifo")), .most = SIZE_MAX};
    pthread_t t;
    ok(mkfifo(f.fifo, 0600) == 0, "a FIFO");
    pthread_create(&t, NULL, feeder, &f);
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, f.fifo, ZT_CHECKPOINT_STREAM);
    ok(checkpoint && zt_checkpoint_streams(checkpoint) && is_made(ctx, checkpoint), "%s comes through it whole %s", name,
       zt_ctx_error(ctx));
    pthread_join(t, NULL);
    /* cut in its header, and in its data */
    struct stat st;
    stat(f.from, &st);
    const size_t cuts[] = {0, 3, 8, 20, 100, 300, (size_t)st.st_size - 40};
    int bad = 0;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        f.most = cuts[i];
        pthread_create(&t, NULL, feeder, &f);
        checkpoint = zt_checkpoint_open(ctx, f.fifo, ZT_CHECKPOINT_STREAM);
        bad += checkpoint ? is_made(ctx, checkpoint) : 0;
        bad += zt_ctx_status(ctx) != ZT_EDATA;
        if (zt_ctx_status(ctx) != ZT_EDATA) diag("cut at %zu: %s", cuts[i], zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        pthread_join(t, NULL);
    }
    ok(bad == 0, "%s cut short is bad data", name);
    unlink(f.fifo);
    free((void *)f.from), free((void *)f.fifo);
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void test_meta(zt_ctx *ctx)
{
    zt_meta *meta = made_meta(ctx);
    ok(zt_meta_find(meta, "none.block_count") == 1 && zt_meta_find(meta, "none") < 0, "keys are found");
    zt_meta_remove(meta, 0);
    ok(zt_meta_count(meta) == 3 && zt_meta_find(meta, "general.architecture") < 0 && zt_meta_find(meta, "a.double") == 2,
       "a key is taken away, the others move up");
    zt_meta_put_str(meta, "none.block_count", "four", 4);
    zt_meta_put_str(meta, "general.architecture", "x", 1);
    ok(!zt_meta_get(meta, -1) && !zt_meta_get(meta, zt_meta_count(meta)), "no item in front of the first, none behind the last");
    zt_bytes four = zt_meta_text(zt_meta_get(meta, 0));
    ok(zt_meta_find(meta, "none.block_count") == 0 && four.n == 4 && !memcmp(four.data, "four", 4) &&
           zt_meta_find(meta, "general.architecture") == 3,
       "a value is replaced in its place, a key put again comes last");
    zt_meta_free(meta);
}

/* A mask that contradicts what is stored is bad data. */
static void test_false_masks(zt_ctx *ctx)
{
    static const char *const told[][3] = {{"x", "y", "q4_1[32]"}, {"x", "y", "f32[3]"},  {"x", "y", "f32"},
                                          {"x", "y", "f32[-1]"},  {"x", "z", "i8[2,4]"}, {"x", "y", "f32[99999999999999999999]"}};
    zt_entry entry[2] = {{.name = "x", .dtype = "i8", .type = zt_type_make(ZT_I8, 1, (int64_t[]){8}), .bytes = 8},
                         {.name = "z", .dtype = "i8", .type = zt_type_make(ZT_I8, 1, (int64_t[]){1}), .bytes = 1}};
    int bad = 0;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        zt_bytes text[3];
        for (int k = 0; k < 3; k++) text[k] = (zt_bytes){told[i][k], strlen(told[i][k])};
        zt_meta *meta = zt_meta_new(ctx);
        zt_meta_put_strs(meta, "zt.tensors", text, 3);
        zt_writer *writer = zt_writer_open(ctx, under("false.gguf"), &(zt_checkpoint_opts){.force = true}, meta, entry, 2);
        zt_writer_put(writer, "123456789", 9);
        zt_writer_commit(writer);
        zt_writer_close(writer);
        zt_meta_free(meta);
        zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, under("false.gguf"), 0);
        bad += checkpoint != NULL || zt_ctx_status(ctx) != ZT_EDATA;
        if (checkpoint || zt_ctx_status(ctx) != ZT_EDATA) diag("%s: %s", told[i][2], zt_ctx_error(ctx));
        zt_checkpoint_close(checkpoint);
        zt_ctx_clear(ctx);
    }
    ok(bad == 0, "masks that cannot be true are bad data");
}

static void test_gguf_of(zt_ctx *ctx)
{
    zt_checkpoint *checkpoint = zt_checkpoint_open(ctx, under("m.safetensors"), 0);
    zt_gguf *gguf = checkpoint ? zt_checkpoint_gguf(checkpoint) : NULL;
    int64_t layers = 0, handle;
    zt_type type;
    char buf[MOST];
    bool same = gguf && zt_gguf_i64(gguf, "none.block_count", &layers) && layers == 3;
    if (same) {
        zt_store s = zt_gguf_store(gguf);
        same = s.find(s.user, made[0].name, &type, &handle) == ZT_OK && type.dtype == ZT_Q4_1 &&
               s.read(s.user, handle, 0, buf, zt_type_bytes(&type)) == ZT_OK;
        for (size_t k = 0; same && k < zt_type_bytes(&type); k++) same = (unsigned char)buf[k] == byte_of(0, k);
    }
    ok(same, "safetensors with GGUF's metadata is a GGUF %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!folder_make("checkpoint")) return 1;
    test_meta(ctx);
    for (int i = 0; zt_container_at(i); i++)
        if (zt_container_writes(zt_container_at(i))) test_files(ctx, zt_container_at(i));
    test_shards(ctx, "gguf", "s-00001-of-00005.gguf");
    test_shards(ctx, "safetensors", "s.safetensors.index.json");
    test_shards(ctx, "safetensors", "s-00001-of-00005.safetensors");
    test_stream(ctx, "m.gguf");
    test_stream(ctx, "m.safetensors");
    test_false_masks(ctx);
    test_gguf_of(ctx);
    ok(folder_remove(), "cleaned");
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
