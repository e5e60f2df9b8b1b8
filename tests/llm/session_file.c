/* session_file.c - tests of session files over made models: the same bits after them, damaged and hostile
 * ones refused, failing allocations; and of the scores of a window. */
#include "tests/common/made_llm.h"

#include <math.h>
#include <unistd.h>
#include <xxhash.h>

enum { N = 9, MORE = 5 };
/* Places in the file. */
enum { AT_HOW = 40, AT_KV = 104, AT_STATES = 108, AT_N = 112, AT_BYTES = 120, HEAD = 128 };

static const char ID[] = "0123456789abcdef0123456789abcdef", HOW[] = "cpu as tested";
static char path[64];

static const setup as_usual = {.engine = "cpu", .threads = 1, .isa = ZT_ISA_SCALAR, .ctx_len = 64};

static char *slurp(size_t *size)
{
    FILE *stream = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 20);
    *size = stream ? fread(bytes, 1, 1 << 20, stream) : 0;
    if (stream) fclose(stream);
    return bytes;
}

static void spit(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
}

/* A session of N tokens in the file, and the logits that MORE more tokens have after it. */
static void make_session(const file *file_data, const int32_t *ids, float *logits, int64_t V)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_status status = model_open(&o, ctx, file_data, &as_usual);
    if (status == ZT_OK) status = zt_llm_feed(o.m, ids, N, false, NULL);
    if (status == ZT_OK) status = zt_llm_save(o.m, ID, HOW, ids, path);
    if (status == ZT_OK) status = zt_llm_feed(o.m, ids + N, MORE, true, logits);
    ok(status == ZT_OK && zt_llm_get(o.m).vocab == V, "saved: %s", zt_ctx_error(ctx));
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "saving leaves nothing behind");
    zt_ctx_free(ctx);
}

static void test_goes_on(const char *arch, const file *file_data, const int32_t *ids, const float *want, int64_t V)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_ids got = {0};
    float *logits = calloc((size_t)(MORE * V), sizeof *logits);
    zt_status status = model_open(&o, ctx, file_data, &as_usual);
    if (status == ZT_OK) status = zt_llm_load(o.m, ID, HOW, path, &got);
    ok(status == ZT_OK && got.count == N && zt_llm_position(o.m) == N && memcmp(got.id, ids, N * 4) == 0,
       "%s: tokens and position are back: %s", arch, zt_ctx_error(ctx));
    if (status == ZT_OK) status = zt_llm_feed(o.m, ids + N, MORE, true, logits);
    ok(status == ZT_OK && memcmp(logits, want, (size_t)(MORE * V) * 4) == 0, "%s: what comes after has the same bits", arch);
    zt_ids_fini(ctx, &got);
    model_close(&o);
    free(logits);
    zt_ctx_free(ctx);
}

/* One try with the file as it is: the status, and whether all is as it was unless it was taken. */
static zt_status restore_session(model *o, bool *sound)
{
    zt_ids ids = {0};
    zt_llm_rewind(o->m, 0);
    zt_status s = zt_llm_load(o->m, ID, HOW, path, &ids);
    *sound = s == zt_ctx_status(o->ctx) && (s == ZT_OK || zt_llm_position(o->m) == 0);
    zt_ids_fini(o->ctx, &ids);
    zt_ctx_clear(o->ctx);
    return s;
}

static void test_damaged(const file *file_data)
{
    size_t count;
    char *bytes = slurp(&count);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    bool sound = true;
    int wrong = 0;
    zt_log_set(ctx, ZT_LOG_WARN, NULL, NULL);
    if (!ok(model_open(&o, ctx, file_data, &as_usual) == ZT_OK && restore_session(&o, &sound) == ZT_OK, "a sound one"))
        diag("%s", zt_ctx_error(ctx));
    for (size_t i = 0; i < count; i++) {
        bytes[i] ^= 0x55;
        spit(bytes, count);
        bytes[i] ^= 0x55;
        zt_status status = restore_session(&o, &sound);
        bool other = (i >= AT_HOW && i < AT_KV + 4) && status == ZT_OK; /* of another arithmetic: not used */
        wrong += !sound || !(status == ZT_EDATA || other);
    }
    ok(!wrong, "each of %zu bytes changed", count);
    wrong = 0;
    for (size_t i = 0; i < count; i++) {
        spit(bytes, i);
        wrong += restore_session(&o, &sound) != ZT_EDATA || !sound;
    }
    ok(!wrong, "cut at each of %zu bytes", count);
    spit(bytes, count);
    zt_ids ids = {0};
    ok(zt_llm_load(o.m, ID, HOW, "/nonexistent/s", &ids) == ZT_ENOENT, "no such file");
    zt_ctx_clear(ctx);
    model_close(&o);
    free(bytes);
    zt_ctx_free(ctx);
}

/* With a checksum that is right. */
static void test_hostile(const file *file_data)
{
    static const struct {
        const char *what;
        size_t at;
        int64_t value;
        size_t size;
    } cases[] = {
        {"a token id is out of range", HEAD, 1 << 20, 4},
        {"a negative id", HEAD + 4, -1, 4},
        {"more states", AT_STATES, 100, 4},
        {"negative states", AT_STATES, -4, 4},
        {"more tokens", AT_N, 1 << 30, 8},
        {"far more tokens", AT_N, INT64_MAX / 2, 8},
        {"negative tokens", AT_N, -9, 8},
        {"fewer tokens", AT_N, 3, 8},
        {"another size", AT_BYTES, 77, 8},
        {"no size", AT_BYTES, 0, 8},
    };
    size_t count;
    char *bytes = slurp(&count), *bad = malloc(count);
    zt_ctx *ctx = zt_ctx_new();
    model o;
    bool sound;
    if (model_open(&o, ctx, file_data, &as_usual) != ZT_OK) diag("%s", zt_ctx_error(ctx));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        XXH128_canonical_t sum;
        memcpy(bad, bytes, count);
        memcpy(bad + cases[i].at, &cases[i].value, cases[i].size);
        XXH128_canonicalFromHash(&sum, XXH3_128bits(bad, count - sizeof sum));
        memcpy(bad + count - sizeof sum, &sum, sizeof sum);
        spit(bad, count);
        ok(restore_session(&o, &sound) == ZT_EDATA && sound, "hostile: %s", cases[i].what);
    }
    spit(bytes, count);
    model_close(&o);
    free(bytes);
    free(bad);
    zt_ctx_free(ctx);
}

static void test_faults(const file *file_data)
{
    zt_ctx *ctx = zt_ctx_new();
    model o;
    int count = 0, wrong = 0;
    if (model_open(&o, ctx, file_data, &as_usual) != ZT_OK) diag("%s", zt_ctx_error(ctx));
    zt_mem before = zt_mem_get(ctx);
    for (bool done = false; !done && count < 200;) {
        zt_ids ids = {0};
        zt_llm_rewind(o.m, 0);
        zt_mem_fail(ctx, (uint64_t)++count, false);
        done = zt_llm_load(o.m, ID, HOW, path, &ids) == ZT_OK && zt_llm_save(o.m, ID, HOW, ids.id, path) == ZT_OK;
        if (zt_ctx_status(ctx) != (done ? ZT_OK : ZT_ENOMEM)) {
            wrong++;
            diag("allocation %d: %s", count, zt_ctx_error(ctx));
        }
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
        zt_ids_fini(ctx, &ids);
        wrong += zt_mem_get(ctx).blocks != before.blocks;
    }
    ok(count > 4 && count < 200 && !wrong, "each of %d allocations failing", count - 1);
    model_close(&o);
    zt_ctx_free(ctx);
}

/* The score of a window is that of its logits, whatever was fed before. */
static void test_score(const file *file_data, int64_t V)
{
    enum { W = 30, FROM = 15 };
    setup options = as_usual;
    int32_t ids[W];
    zt_ctx *ctx = zt_ctx_new();
    model o;
    zt_score got = {0}, again = {0};
    float *y = calloc((size_t)(W * V), sizeof *y);
    double want = 0;
    draw_ids(ids, W, V);
    zt_status st = model_open(&o, ctx, file_data, &options);
    if (st == ZT_OK) st = zt_llm_feed(o.m, ids, W, true, y);
    for (int i = FROM; i < W - 1; i++) {
        double sum = 0;
        for (int64_t k = 0; k < V; k++) sum += exp(y[i * V + k]);
        want += log(sum) - y[i * V + ids[i + 1]];
    }
    if (st == ZT_OK) st = zt_llm_score(o.m, ids, W, FROM, &got);
    if (st == ZT_OK) st = zt_llm_score(o.m, ids, W, FROM, &again);
    ok(st == ZT_OK && got.count == W - 1 - FROM && fabs(got.sum / want - 1) < 1e-6, "a window's score: %g, not %g %s", got.sum,
       want, zt_ctx_error(ctx));
    ok(again.sum == got.sum && again.sum2 == got.sum2, "the same again");
    ids[3] = (int32_t)V;
    ok(zt_llm_score(o.m, ids, W, FROM, &again) == ZT_EUSAGE, "an id that is none");
    model_close(&o);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    free(y);
}

int main(void)
{
    static const char *const archs[] = {"llama", "gemma3", "qwen35"};
    snprintf(path, sizeof path, "/tmp/zt-save-%d", (int)getpid());
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        file file_data = make_file(archs[i], "q8_0", 2, NULL);
        int64_t V = vocab_of(&file_data);
        int32_t ids[N + MORE];
        float *logits = calloc((size_t)(MORE * V), sizeof *logits);
        draw_ids(ids, N + MORE, V);
        make_session(&file_data, ids, logits, V);
        test_goes_on(archs[i], &file_data, ids, logits, V);
        test_damaged(&file_data);
        test_hostile(&file_data);
        test_faults(&file_data);
        test_score(&file_data, V);
        free(logits);
        free(file_data.bytes);
    }
    remove(path);
    return tap_done();
}
