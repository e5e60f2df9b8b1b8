/* gguf.c - tests lib/io's GGUF reader on files made here: values of every kind, the tensor list,
 * messages, every truncation, every byte changed, every allocation failing. The golden files are
 * golden_gguf.c's. */
#include "lib/io/gguf.h"

#include <math.h>
#include <unistd.h>
#include <xxhash.h>

#include "tests/io/read_gguf.h"
#include "tests/common/gguf_writer.h"
#include "tests/common/mkmodel.h"
#include "tests/common/tap.h"

/* ---- a small file with everything ----------------------------------------------------------- */

static const float w_data[6] = {1, 2, 3, 4, 5, 6};

static char *sample(size_t *n)
{
    static char *const words[] = {"a", "", "\xc4\xa0t"};
    ggufw w = {0};
    ggufw_str(&w, "general.architecture", "llama");
    ggufw_plain(&w, "u8", 0, "\xff", 1);
    ggufw_plain(&w, "i8", 1, "\xff", 1);
    ggufw_plain(&w, "u16", 2, "\xff\xff", 2);
    ggufw_plain(&w, "i16", 3, "\xfe\xff", 2);
    ggufw_u32(&w, "u32", UINT32_MAX);
    ggufw_plain(&w, "i32", 5, &(int32_t){INT32_MIN}, 4);
    ggufw_f32(&w, "f32", 0.5f);
    ggufw_f32(&w, "whole", 1e6f);
    ggufw_bool(&w, "bool", true);
    ggufw_plain(&w, "u64", 10, &(uint64_t){UINT64_MAX}, 8);
    ggufw_plain(&w, "i64", 11, &(int64_t){INT64_MIN}, 8);
    ggufw_plain(&w, "f64", 12, &(double){0.1}, 8);
    ggufw_plain(&w, "huge", 12, &(double){0x1p63}, 8);
    ggufw_plain(&w, "nan", 12, &(double){NAN}, 8);
    ggufw_strs(&w, "words", words, 3);
    ggufw_array(&w, "ints", 5, 3, (int32_t[]){-1, 0, 7}, 12);
    ggufw_array(&w, "reals", 6, 2, (float[]){0.25f, -2}, 8);
    ggufw_array(&w, "none", 8, 0, NULL, 0);
    ggufw_array(&w, "flags", 7, 2, "\1\0", 2);
    uint8_t blocks[292] = {9};
    ggufw_tensor(&w, "w", 0, 2, (int64_t[]){2, 3}, w_data, 24);
    ggufw_tensor(&w, "scalar", 26, 0, NULL, &(int32_t){-5}, 4);
    ggufw_tensor(&w, "void", 8, 2, (int64_t[]){3, 0}, NULL, 0);
    ggufw_tensor(&w, "odd one", 15, 2, (int64_t[]){1, 256}, blocks, 292); /* q8_k */
    ggufw_tensor(&w, "last", 8, 1, (int64_t[]){32}, blocks, 34);
    return ggufw_bytes(&w, n);
}

/* ---- values --------------------------------------------------------------------------------- */

static bool int_is(const zt_gguf *g, const char *key, int64_t want)
{
    int64_t v;
    return zt_gguf_i64(g, key, &v) && v == want;
}

static bool real_is(const zt_gguf *g, const char *key, double want)
{
    double v;
    return zt_gguf_f64(g, key, &v) && v == want;
}

static bool text_is(zt_bytes b, const char *want)
{
    return b.n == strlen(want) && memcmp(b.data, want, b.n) == 0;
}

static void test_numbers(const zt_gguf *g)
{
    int64_t v;
    double d;
    ok(int_is(g, "u8", 255) && int_is(g, "i8", -1) && int_is(g, "u16", 65535) &&
           int_is(g, "i16", -2) && int_is(g, "u32", UINT32_MAX) && int_is(g, "i32", INT32_MIN) &&
           int_is(g, "i64", INT64_MIN) && int_is(g, "bool", 1) && int_is(g, "whole", 1000000),
       "integers of every width");
    ok(real_is(g, "i8", -1) && real_is(g, "u64", 0x1p64) && real_is(g, "i64", -0x1p63) &&
           real_is(g, "f32", 0.5) && real_is(g, "f64", 0.1) && real_is(g, "bool", 1),
       "the same and floats as doubles");
    ok(!zt_gguf_i64(g, "u64", &v) && !zt_gguf_i64(g, "f32", &v) && !zt_gguf_i64(g, "huge", &v) &&
           !zt_gguf_i64(g, "nan", &v),
       "no integer where none fits");
    ok(!zt_gguf_i64(g, "general.architecture", &v) && !zt_gguf_f64(g, "ints", &d) &&
           !zt_gguf_i64(g, "ints", &v) && !zt_gguf_f64(g, "not there", &d),
       "nor from strings, arrays or nothing");
    ok(zt_ctx_status(zt_gguf_ctx(g)) == ZT_OK, "and that is no error");
}

static void test_strings_arrays(const zt_gguf *g)
{
    zt_bytes s, words[4];
    zt_gguf_kind kind;
    int64_t n, ints[3], flags[2];
    double reals[2];
    ok(zt_gguf_str(g, "general.architecture", &s) && text_is(s, "llama"), "a string");
    ok(!zt_gguf_str(g, "words", &s) && !zt_gguf_str(g, "u8", &s), "only where there is one");
    ok(zt_gguf_array(g, "words", &kind, &n) && kind == ZT_GGUF_STR && n == 3 &&
           zt_gguf_array_strs(g, "words", words, 3) && text_is(words[0], "a") &&
           text_is(words[1], "") && text_is(words[2], "\xc4\xa0t"),
       "an array of strings");
    ok(text_is(zt_gguf_array_str(g, "words", 2), "\xc4\xa0t") &&
           text_is(zt_gguf_array_str(g, "words", 3), "") &&
           text_is(zt_gguf_array_str(g, "words", -1), "") &&
           text_is(zt_gguf_array_str(g, "ints", 0), ""),
       "one string of it");
    ok(zt_gguf_array_i64(g, "ints", ints, 3) && ints[0] == -1 && ints[2] == 7 &&
           zt_gguf_array_f64(g, "reals", reals, 2) && reals[0] == 0.25 && reals[1] == -2 &&
           zt_gguf_array_i64(g, "flags", flags, 2) && flags[0] == 1 && flags[1] == 0,
       "arrays of numbers");
    ok(!zt_gguf_array_strs(g, "words", words, 4) && !zt_gguf_array_strs(g, "ints", words, 3) &&
           !zt_gguf_array_i64(g, "words", ints, 3) && !zt_gguf_array_i64(g, "reals", ints, 2) &&
           !zt_gguf_array_f64(g, "ints", reals, 2) && !zt_gguf_array(g, "u8", NULL, NULL),
       "only whole and of that kind");
    ok(zt_gguf_array(g, "none", &kind, &n) && n == 0 && zt_gguf_array_strs(g, "none", words, 0),
       "an empty array");
    s = zt_gguf_key(g, 15, &kind);
    ok(zt_gguf_n_keys(g) == 20 && text_is(s, "words") && kind == ZT_GGUF_ARRAY, "keys by number");
}

static void test_tensors(zt_gguf *g)
{
    zt_type t;
    uint64_t at;
    size_t bytes;
    int64_t handle;
    float x[3];
    zt_store s = zt_gguf_store(g);
    zt_ctx *ctx = zt_gguf_ctx(g);
    ok(zt_gguf_n_tensors(g) == 5 && strcmp(zt_gguf_tensor(g, 0, &t, &at, &bytes), "w") == 0 &&
           t.dtype == ZT_F32 && t.rank == 2 && t.dim[0] == 2 && t.dim[1] == 3 && bytes == 24 &&
           at % 32 == 0,
       "a tensor, row-major");
    ok(strcmp(zt_gguf_tensor(g, 1, &t, NULL, NULL), "scalar") == 0 && t.rank == 0, "a scalar");
    ok(strcmp(zt_gguf_tensor(g, 2, &t, NULL, &bytes), "void") == 0 && bytes == 0 && t.dim[0] == 3,
       "nothing at all");
    ok(zt_gguf_find(g, "last") == 4 && zt_gguf_find(g, "las") == -1, "by name");
    ok(s.find(s.user, "w", &t, &handle) == ZT_OK && t.rank == 2 &&
           s.read(s.user, handle, 12, x, 12) == ZT_OK && memcmp(x, w_data + 3, 12) == 0,
       "a row through the store");
    ok(s.find(s.user, "v", &t, &handle) == ZT_ENOENT && zt_ctx_status(ctx) == ZT_OK,
       "what is not there is no error yet");
    ok(s.read(s.user, 0, 16, x, 12) == ZT_EUSAGE &&
           s.read(s.user, 0, SIZE_MAX, x, 12) == ZT_EUSAGE &&
           s.read(s.user, 5, 0, x, 1) == ZT_EUSAGE && s.read(s.user, -1, 0, x, 1) == ZT_EUSAGE,
       "nothing beyond a tensor is read");
    zt_ctx_clear(ctx);
    zt_gguf_tensor(g, 3, &t, NULL, &bytes);
    ok(t.rank == -1 && bytes == 292, "a type that is not computed with is passed over");
    ok(s.find(s.user, "odd one", &t, &handle) == ZT_ENOTSUP &&
           strcmp(zt_ctx_error(ctx), "t.gguf: tensor 'odd one' is of type q8_k, which is not "
                                     "supported") == 0,
       "until it is used");
    zt_ctx_clear(ctx);
}

static void test_sample(zt_ctx *ctx)
{
    size_t n, start;
    char *file = sample(&n), id[33];
    zt_source *s = zt_source_memory(ctx, "t.gguf", file, n);
    zt_gguf *g = zt_gguf_from(ctx, s);
    if (!ok(g != NULL, "the sample opens %s", zt_ctx_error(ctx)))
        return;
    test_numbers(g);
    test_strings_arrays(g);
    test_tensors(g);
    uint64_t data;
    zt_gguf_tensor(g, 0, NULL, &data, NULL);
    start = (size_t)data;
    char *hashed = malloc(start + 8);
    memcpy(hashed, file, start);
    memcpy(hashed + start, &(uint64_t){n}, 8);
    XXH128_hash_t h = XXH3_128bits(hashed, start + 8);
    snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    ok(strcmp(zt_gguf_id(g), id) == 0, "identity: XXH3-128 of header and size, %s", id);
    ok(zt_gguf_file_size(g) == n && strcmp(zt_gguf_name(g), "t.gguf") == 0, "name and size");
    zt_gguf_close(g);
    zt_source_close(s);
    free(hashed);
    free(file);
    ok(zt_mem_get(ctx).blocks == 0, "closed without a leak");
}

/* ---- what is wrong is said ------------------------------------------------------------------ */

/* Opens bytes; true when that fails with the status and text, and nothing is left behind. */
static bool says(zt_ctx *ctx, const void *file, size_t n, zt_status status, const char *text)
{
    zt_source *s = zt_source_memory(ctx, "t.gguf", file, n);
    zt_gguf *g = zt_gguf_from(ctx, s);
    bool right = !g && zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), text);
    if (!right)
        diag("%s: '%s'", g ? "opened" : zt_status_name(zt_ctx_status(ctx)), zt_ctx_error(ctx));
    zt_gguf_close(g);
    zt_source_close(s);
    zt_ctx_clear(ctx);
    return right && zt_mem_get(ctx).blocks == 0;
}

static void test_not_gguf(zt_ctx *ctx)
{
    ok(says(ctx, "", 0, ZT_EDATA, "t.gguf: empty file"), "an empty file");
    ok(says(ctx, "Once upon a time", 16, ZT_EDATA, "t.gguf: not a GGUF file (starts with 'Once')"),
       "a text file");
    ok(says(ctx, "\x1b[2", 3, ZT_EDATA, "not a GGUF file (starts with '\\x1b[2')"), "escaped");
    ok(says(ctx, "GG", 2, ZT_EDATA, "header: 24 bytes expected, 2 left"), "a beginning");
    size_t n;
    char *file = sample(&n);
    memcpy(file + 4, "\0\0\0\3", 4);
    ok(says(ctx, file, n, ZT_EDATA, "cannot fit"),
       "a big-endian version before little-endian counts");
    memcpy(file + 4, "\1\0\0\0", 4);
    ok(says(ctx, file, n, ZT_EDATA, "version 1"), "version 1");
    memcpy(file + 4, "\0\0\0\0", 4);
    ok(says(ctx, file, n, ZT_EDATA, "version 0"), "version 0");
    free(file);
    ok(!zt_gguf_open(ctx, "/nowhere/m.gguf") && zt_ctx_status(ctx) == ZT_ENOENT, "no file");
    zt_ctx_clear(ctx);
    ok(!zt_gguf_open(ctx, "/") && strstr(zt_ctx_error(ctx), "directory"), "a directory");
    zt_ctx_clear(ctx);
}

/* One file a row: what is put in place of a good key or tensor, and the message. */
static void test_messages(zt_ctx *ctx)
{
    static const struct {
        const char *what, *message;
    } cases[] = {
        {"cut data", "t.gguf: tensor 'x': 16 bytes expected, 15 left in the file"},
        {"two keys", "t.gguf: key 'k' is there twice"},
        {"two tensors", "t.gguf: tensor 'x' is there twice"},
        {"bad bool", "t.gguf: key 'k': a bool of 2"},
        {"alignment 48", "key 'general.alignment': 48 is not a power of two"},
        {"alignment f32", "key 'general.alignment': a value of kind f32, u32 expected"},
        {"a gap", "tensor 'x': offset 64, 0 expected"},
        {"block", "tensor 'x': rows of 48 are not in whole blocks of 32 (q4_0)"},
        {"type", "tensor 'x': tensor type 4, which there is not"},
        {"long name", "tensor 1 of 1: a name of 64 bytes, 63 are allowed"},
        {"control", "tensor 'a\\x1b[31m': tensor type 99"},
        {"nested", "key 'k': an array of arrays"},
        {"kind", "key 'k': a value of kind 13, which there is not"},
        {"empty key", "key 1 of 1: the key is empty"},
        {"array", "key 'k': 1000000 values of u32 expected, "},
        {"scalar", "tensor 'x': a scalar of q8_0, whose blocks have 32 elements"},
        {"elements", "tensor 'x': dimension 1 of 4294967296: too many elements"},
        {"zeros", "tensor 'x': dimension 2 of 1073741824: too many elements"},
        {"bytes", "tensor 'x': 4611686018427387904 elements of f32 in a file of "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *c = cases[i].what;
        ggufw w = {0};
        const int64_t four[] = {4}, part[] = {48}, many[] = {INT64_C(1) << 31, INT64_C(1) << 31};
        const int64_t more[] = {INT64_C(1) << 32, INT64_C(1) << 32};
        const int64_t zeros[] = {1 << 30, 0, INT64_C(1) << 40};
        char longest[65];
        memset(longest, 'n', 64);
        longest[64] = 0;
#define CASE(name) if (strcmp(c, name) == 0)
        CASE("two keys") ggufw_u32(&w, "k", 1), ggufw_u32(&w, "k", 2);
        CASE("bad bool") ggufw_plain(&w, "k", 7, "\2", 1);
        CASE("alignment 48") ggufw_u32(&w, "general.alignment", 48);
        CASE("alignment f32") ggufw_f32(&w, "general.alignment", 32);
        CASE("nested") ggufw_array(&w, "k", 9, 1, "", 0);
        CASE("kind") ggufw_plain(&w, "k", 13, w_data, 4);
        CASE("empty key") ggufw_u32(&w, "", 1);
        CASE("array") ggufw_array(&w, "k", 4, 1000000, "", 0);
        CASE("a gap") ggufw_put(&w.data, w_data, 4), ggufw_pad(&w.data, 64);
        CASE("block") ggufw_tensor(&w, "x", 2, 1, part, w_data, 24);
        CASE("type") ggufw_tensor(&w, "x", 4, 1, four, w_data, 16);
        CASE("long name") ggufw_tensor(&w, longest, 0, 1, four, w_data, 16);
        CASE("control") ggufw_tensor(&w, "a\x1b[31m", 99, 1, four, w_data, 16);
        CASE("scalar") ggufw_tensor(&w, "x", 8, 0, NULL, w_data, 24);
        CASE("bytes") ggufw_tensor(&w, "x", 0, 2, many, w_data, 24);
        CASE("zeros") ggufw_tensor(&w, "x", 0, 3, zeros, w_data, 0);
        CASE("elements") ggufw_tensor(&w, "x", 0, 2, more, w_data, 24);
#undef CASE
        if (w.n_tensors == 0)
            ggufw_tensor(&w, "x", 0, 1, four, w_data, 16);
        if (strcmp(c, "two tensors") == 0)
            ggufw_tensor(&w, "x", 0, 1, four, w_data, 16);
        size_t n;
        char *file = ggufw_bytes(&w, &n);
        n -= strcmp(c, "cut data") == 0;
        ok(says(ctx, file, n, ZT_EDATA, cases[i].message), "%s: %s", c, cases[i].message);
        free(file);
    }
}

/* Counts and lengths far beyond the file: bad data, at once, and no memory to speak of. */
static void test_bombs(zt_ctx *ctx)
{
    size_t n;
    char *file = sample(&n);
    zt_mem_limit(ctx, 1 << 20);
    for (int shift = 12; shift < 64; shift += 3) {
        bool right = true;
        for (int at = 8; at <= 24; at += 8) { /* tensors, keys, the first key's length */
            uint64_t old, big = UINT64_C(1) << shift;
            memcpy(&old, file + at, 8);
            memcpy(file + at, &big, 8);
            right &= says(ctx, file, n, ZT_EDATA, "t.gguf: ");
            memcpy(file + at, &old, 8);
        }
        ok(right, "2^%d tensors, keys, bytes of a key", shift);
    }
    zt_mem_limit(ctx, 0);
    free(file);
}

/* ---- cut, changed, starved ------------------------------------------------------------------ */

static void test_cut(zt_ctx *ctx)
{
    size_t n, wrong = 0;
    char *file = sample(&n);
    for (size_t k = 0; k < n; k++) {
        char *cut = malloc(k + !k); /* of its own, so that a sanitizer sees the end */
        memcpy(cut, file, k);
        wrong += !says(ctx, cut, k, ZT_EDATA, "t.gguf: ");
        free(cut);
    }
    ok(wrong == 0, "every one of %zu truncations is bad data (%zu are not)", n, wrong);
    free(file);
}

static void test_changed(zt_ctx *ctx)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x55};
    size_t n, opened = 0, wrong = 0;
    char *file = sample(&n);
    for (size_t k = 0; k < n * sizeof masks; k++) {
        size_t at = k / sizeof masks;
        file[at] ^= (char)masks[k % sizeof masks];
        zt_source *s = zt_source_memory(ctx, "t.gguf", file, n);
        zt_gguf *g = zt_gguf_from(ctx, s);
        opened += g && gguf_walk(g);
        wrong += !g && zt_ctx_status(ctx) != ZT_EDATA && zt_ctx_status(ctx) != ZT_ENOTSUP;
        zt_gguf_close(g);
        zt_source_close(s);
        zt_ctx_clear(ctx);
        file[at] ^= (char)masks[k % sizeof masks];
    }
    ok(wrong == 0 && zt_mem_get(ctx).blocks == 0, "every byte changed: an error or a sound file");
    ok(opened > 0 && opened < 4 * n, "both happen (%zu of %zu open)", opened, 4 * n);
    free(file);
}

static void test_starved(zt_ctx *ctx, const char *path)
{
    uint64_t nth = 1;
    bool clean = true;
    for (bool onwards = false;; onwards = !onwards) {
        zt_mem_fail(ctx, nth, onwards);
        zt_gguf *g = zt_gguf_open(ctx, path);
        zt_mem_fail(ctx, 0, false);
        bool done = g != NULL;
        clean &= done || zt_ctx_status(ctx) == ZT_ENOMEM;
        zt_gguf_close(g);
        clean &= zt_mem_get(ctx).blocks == 0;
        zt_ctx_clear(ctx);
        if (done || nth > 1000)
            break;
        nth += onwards;
    }
    ok(clean && nth > 5, "each of %llu allocations failing: out of memory, no leak",
       (unsigned long long)nth - 1);
}

/* ---- made models ---------------------------------------------------------------------------- */

static char *made(const char *arch, const mkmodel_kind *type, uint64_t seed, size_t *n)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    o.width = o.ffn = 256, o.head = 64, o.layers = 1;
    o.type = type;
    o.seed = seed;
    ggufw w = {0};
    return mkmodel(&o, &w) ? NULL : ggufw_bytes(&w, n);
}

/* Are its values finite, with the mean square that was asked for (4 / width), within a third? */
static bool sane_weights(zt_gguf *g)
{
    zt_type t;
    int64_t handle;
    zt_store s = zt_gguf_store(g);
    if (s.find(s.user, "token_embd.weight", &t, &handle) != ZT_OK)
        return false;
    int64_t n = zt_type_count(&t);
    char *data = malloc(zt_type_bytes(&t));
    float *x = malloc((size_t)n * sizeof *x);
    double sum = 0;
    if (data && x && s.read(s.user, handle, 0, data, zt_type_bytes(&t)) == ZT_OK) {
        zt_dtype_get(t.dtype)->decode(data, x, n);
        for (int64_t i = 0; i < n; i++)
            sum += (double)x[i] * x[i];
    }
    free(data);
    free(x);
    double ratio = sum / (double)n / (4.0 / (double)t.dim[1]);
    if (!(ratio > 0.67 && ratio < 1.5))
        diag("mean square is %g of what was asked for", ratio);
    return ratio > 0.67 && ratio < 1.5;
}

static void test_made(zt_ctx *ctx)
{
    for (size_t k = 0; k < sizeof mkmodel_kinds / sizeof *mkmodel_kinds; k++) {
        const mkmodel_kind *type = &mkmodel_kinds[k];
        const char *arch = k % 2 ? "gemma3" : "llama";
        size_t n = 0, again = 0, other = 0;
        char *file = made(arch, type, 7, &n), *same = made(arch, type, 7, &again);
        char *differs = made(arch, type, 8, &other);
        zt_source *s = zt_source_memory(ctx, "made", file, n);
        zt_gguf *g = zt_gguf_from(ctx, s);
        ok(g && gguf_walk(g) && sane_weights(g), "%s %s: sound, weights of the size asked for %s",
           arch, type->name, zt_ctx_error(ctx));
        ok(n == again && n == other && memcmp(file, same, n) == 0 && memcmp(file, differs, n) != 0,
           "and drawn from the seed");
        zt_gguf_close(g);
        zt_source_close(s);
        zt_ctx_clear(ctx);
        free(file);
        free(same);
        free(differs);
    }
}

static void test_model(zt_ctx *ctx)
{
    char path[] = "/tmp/zt-test-gguf-XXXXXX";
    mkmodel_opts o = mkmodel_defaults("llama");
    o.vocab = 20000; /* a header of more than one block */
    ggufw w = {0};
    int fd = mkstemp(path);
    if (!ok(fd >= 0 && !mkmodel(&o, &w) && ggufw_save(&w, path), "a made model"))
        return;
    close(fd);
    zt_gguf *g = zt_gguf_open(ctx, path);
    ok(g && gguf_walk(g) && zt_gguf_n_tensors(g) == 20, "opens %s", zt_ctx_error(ctx));
    zt_gguf_close(g);
    test_starved(ctx, path);
    unlink(path);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_sample(ctx);
    test_not_gguf(ctx);
    test_messages(ctx);
    test_bombs(ctx);
    test_cut(ctx);
    test_changed(ctx);
    test_made(ctx);
    test_model(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
