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

static char *sample(size_t *count)
{
    static char *const words[] = {"a", "", "\xc4\xa0t"};
    ggufw writer = {0};
    ggufw_str(&writer, "general.architecture", "llama");
    ggufw_plain(&writer, "u8", 0, "\xff", 1);
    ggufw_plain(&writer, "i8", 1, "\xff", 1);
    ggufw_plain(&writer, "u16", 2, "\xff\xff", 2);
    ggufw_plain(&writer, "i16", 3, "\xfe\xff", 2);
    ggufw_u32(&writer, "u32", UINT32_MAX);
    ggufw_plain(&writer, "i32", 5, &(int32_t){INT32_MIN}, 4);
    ggufw_f32(&writer, "f32", 0.5f);
    ggufw_f32(&writer, "whole", 1e6f);
    ggufw_bool(&writer, "bool", true);
    ggufw_plain(&writer, "u64", 10, &(uint64_t){UINT64_MAX}, 8);
    ggufw_plain(&writer, "i64", 11, &(int64_t){INT64_MIN}, 8);
    ggufw_plain(&writer, "f64", 12, &(double){0.1}, 8);
    ggufw_plain(&writer, "huge", 12, &(double){0x1p63}, 8);
    ggufw_plain(&writer, "nan", 12, &(double){NAN}, 8);
    ggufw_strs(&writer, "words", words, 3);
    ggufw_array(&writer, "ints", 5, 3, (int32_t[]){-1, 0, 7}, 12);
    ggufw_array(&writer, "reals", 6, 2, (float[]){0.25f, -2}, 8);
    ggufw_array(&writer, "none", 8, 0, NULL, 0);
    ggufw_array(&writer, "flags", 7, 2, "\1\0", 2);
    uint8_t blocks[292] = {9};
    ggufw_tensor(&writer, "w", 0, 2, (int64_t[]){2, 3}, w_data, 24);
    ggufw_tensor(&writer, "scalar", 26, 0, NULL, &(int32_t){-5}, 4);
    ggufw_tensor(&writer, "void", 8, 2, (int64_t[]){3, 0}, NULL, 0);
    ggufw_tensor(&writer, "odd one", 15, 2, (int64_t[]){1, 256}, blocks, 292); /* q8_k */
    ggufw_tensor(&writer, "last", 8, 1, (int64_t[]){32}, blocks, 34);
    return ggufw_bytes(&writer, count);
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

static bool text_is(zt_bytes b, const char *want) { return b.n == strlen(want) && memcmp(b.data, want, b.n) == 0; }

static void test_numbers(const zt_gguf *gguf)
{
    int64_t v;
    double d;
    ok(int_is(gguf, "u8", 255) && int_is(gguf, "i8", -1) && int_is(gguf, "u16", 65535) && int_is(gguf, "i16", -2) &&
           int_is(gguf, "u32", UINT32_MAX) && int_is(gguf, "i32", INT32_MIN) && int_is(gguf, "i64", INT64_MIN) &&
           int_is(gguf, "bool", 1) && int_is(gguf, "whole", 1000000),
       "integers of every width");
    ok(real_is(gguf, "i8", -1) && real_is(gguf, "u64", 0x1p64) && real_is(gguf, "i64", -0x1p63) && real_is(gguf, "f32", 0.5) &&
           real_is(gguf, "f64", 0.1) && real_is(gguf, "bool", 1),
       "the same and floats as doubles");
    ok(!zt_gguf_i64(gguf, "u64", &v) && !zt_gguf_i64(gguf, "f32", &v) && !zt_gguf_i64(gguf, "huge", &v) &&
           !zt_gguf_i64(gguf, "nan", &v),
       "no integer where none fits");
    ok(!zt_gguf_i64(gguf, "general.architecture", &v) && !zt_gguf_f64(gguf, "ints", &d) && !zt_gguf_i64(gguf, "ints", &v) &&
           !zt_gguf_f64(gguf, "not there", &d),
       "nor from strings, arrays or nothing");
    ok(zt_ctx_status(zt_gguf_ctx(gguf)) == ZT_OK, "and that is no error");
}

static void test_strings_arrays(const zt_gguf *gguf)
{
    zt_bytes s, words[4];
    zt_gguf_kind kind;
    int64_t count, ints[3], flags[2];
    double reals[2];
    ok(zt_gguf_str(gguf, "general.architecture", &s) && text_is(s, "llama"), "a string");
    ok(!zt_gguf_str(gguf, "words", &s) && !zt_gguf_str(gguf, "u8", &s), "only where there is one");
    ok(zt_gguf_array(gguf, "words", &kind, &count) && kind == ZT_GGUF_STR && count == 3 &&
           zt_gguf_array_strs(gguf, "words", words, 3) && text_is(words[0], "a") && text_is(words[1], "") &&
           text_is(words[2], "\xc4\xa0t"),
       "an array of strings");
    ok(text_is(zt_gguf_array_str(gguf, "words", 2), "\xc4\xa0t") && text_is(zt_gguf_array_str(gguf, "words", 3), "") &&
           text_is(zt_gguf_array_str(gguf, "words", -1), "") && text_is(zt_gguf_array_str(gguf, "ints", 0), ""),
       "one string of it");
    ok(zt_gguf_array_i64(gguf, "ints", ints, 3) && ints[0] == -1 && ints[2] == 7 && zt_gguf_array_f64(gguf, "reals", reals, 2) &&
           reals[0] == 0.25 && reals[1] == -2 && zt_gguf_array_i64(gguf, "flags", flags, 2) && flags[0] == 1 && flags[1] == 0,
       "arrays of numbers");
    ok(!zt_gguf_array_strs(gguf, "words", words, 4) && !zt_gguf_array_strs(gguf, "ints", words, 3) &&
           !zt_gguf_array_i64(gguf, "words", ints, 3) && !zt_gguf_array_i64(gguf, "reals", ints, 2) &&
           !zt_gguf_array_f64(gguf, "ints", reals, 2) && !zt_gguf_array(gguf, "u8", NULL, NULL),
       "only whole and of that kind");
    ok(zt_gguf_array(gguf, "none", &kind, &count) && count == 0 && zt_gguf_array_strs(gguf, "none", words, 0), "an empty array");
    s = zt_gguf_key(gguf, 15, &kind);
    ok(zt_gguf_n_keys(gguf) == 20 && text_is(s, "words") && kind == ZT_GGUF_ARRAY, "keys by number");
}

static void test_tensors(zt_gguf *gguf)
{
    zt_type its_type;
    uint64_t at;
    size_t bytes;
    int64_t handle;
    float x[3];
    zt_store s = zt_gguf_store(gguf);
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    ok(zt_gguf_n_tensors(gguf) == 5 && strcmp(zt_gguf_tensor(gguf, 0, &its_type, &at, &bytes), "w") == 0 &&
           its_type.dtype == ZT_F32 && its_type.rank == 2 && its_type.dim[0] == 2 && its_type.dim[1] == 3 && bytes == 24 &&
           at % 32 == 0,
       "a tensor, row-major");
    ok(strcmp(zt_gguf_tensor(gguf, 1, &its_type, NULL, NULL), "scalar") == 0 && its_type.rank == 0, "a scalar");
    ok(strcmp(zt_gguf_tensor(gguf, 2, &its_type, NULL, &bytes), "void") == 0 && bytes == 0 && its_type.dim[0] == 3,
       "nothing at all");
    ok(zt_gguf_find(gguf, "last") == 4 && zt_gguf_find(gguf, "las") == -1, "by name");
    ok(s.find(s.user, "w", &its_type, &handle) == ZT_OK && its_type.rank == 2 && s.read(s.user, handle, 12, x, 12) == ZT_OK &&
           memcmp(x, w_data + 3, 12) == 0,
       "a row through the store");
    ok(s.find(s.user, "v", &its_type, &handle) == ZT_ENOENT && zt_ctx_status(ctx) == ZT_OK, "what is not there is no error yet");
    ok(s.read(s.user, 0, 16, x, 12) == ZT_EUSAGE && s.read(s.user, 0, SIZE_MAX, x, 12) == ZT_EUSAGE &&
           s.read(s.user, 5, 0, x, 1) == ZT_EUSAGE && s.read(s.user, -1, 0, x, 1) == ZT_EUSAGE,
       "nothing beyond a tensor is read");
    zt_ctx_clear(ctx);
    zt_gguf_tensor(gguf, 3, &its_type, NULL, &bytes);
    ok(its_type.rank == -1 && bytes == 292, "a type that is not computed with is passed over");
    ok(s.find(s.user, "odd one", &its_type, &handle) == ZT_ENOTSUP &&
           strcmp(zt_ctx_error(ctx), "t.gguf: tensor 'odd one': unsupported "
                                     "type q8_k") == 0,
       "until it is used");
    zt_ctx_clear(ctx);
}

static void test_sample(zt_ctx *ctx)
{
    size_t count, start;
    char *file = sample(&count), id[33];
    zt_source *source = zt_source_memory(ctx, "t.gguf", file, count);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    if (!ok(gguf != NULL, "the sample opens %s", zt_ctx_error(ctx))) return;
    test_numbers(gguf);
    test_strings_arrays(gguf);
    test_tensors(gguf);
    uint64_t data;
    zt_gguf_tensor(gguf, 0, NULL, &data, NULL);
    start = (size_t)data;
    char *hashed = malloc(start + 8);
    memcpy(hashed, file, start);
    memcpy(hashed + start, &(uint64_t){count}, 8);
    XXH128_hash_t h = XXH3_128bits(hashed, start + 8);
    snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    ok(strcmp(zt_gguf_id(gguf), id) == 0, "identity: XXH3-128 of header and size, %s", id);
    ok(zt_gguf_file_size(gguf) == count && strcmp(zt_gguf_name(gguf), "t.gguf") == 0, "name and size");
    zt_gguf_close(gguf);
    zt_source_close(source);
    free(hashed);
    free(file);
    ok(zt_mem_get(ctx).blocks == 0, "closed without a leak");
}

/* ---- what is wrong is said ------------------------------------------------------------------ */

/* Opens bytes; true when that fails with the status and text, and nothing is left behind. */
static bool refused_with(zt_ctx *ctx, const void *file, size_t count, zt_status status, const char *text)
{
    zt_source *source = zt_source_memory(ctx, "t.gguf", file, count);
    zt_gguf *gguf = zt_gguf_from(ctx, source);
    bool right = !gguf && zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), text);
    if (!right) diag("%s: '%s'", gguf ? "opened" : zt_status_name(zt_ctx_status(ctx)), zt_ctx_error(ctx));
    zt_gguf_close(gguf);
    zt_source_close(source);
    zt_ctx_clear(ctx);
    return right && zt_mem_get(ctx).blocks == 0;
}

static void test_not_gguf(zt_ctx *ctx)
{
    ok(refused_with(ctx, "", 0, ZT_EDATA, "t.gguf: empty file"), "an empty file");
    ok(refused_with(ctx, "Once upon a time", 16, ZT_EDATA, "t.gguf: not a GGUF file (starts with 'Once')"), "a text file");
    ok(refused_with(ctx, "\x1b[2", 3, ZT_EDATA, "not a GGUF file (starts with '\\x1b[2')"), "escaped");
    ok(refused_with(ctx, "GG", 2, ZT_EDATA, "header: 24 bytes expected, 2 left"), "a beginning");
    size_t count;
    char *file = sample(&count);
    memcpy(file + 4, "\0\0\0\3", 4);
    ok(refused_with(ctx, file, count, ZT_EDATA, "do not fit"), "a big-endian version before little-endian counts");
    memcpy(file + 4, "\1\0\0\0", 4);
    ok(refused_with(ctx, file, count, ZT_EDATA, "version 1"), "version 1");
    memcpy(file + 4, "\0\0\0\0", 4);
    ok(refused_with(ctx, file, count, ZT_EDATA, "version 0"), "version 0");
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
        {"two keys", "t.gguf: duplicate key 'k'"},
        {"two tensors", "t.gguf: duplicate tensor 'x'"},
        {"bad bool", "t.gguf: key 'k': invalid bool 2: must be 0 or 1"},
        {"alignment 48", "key 'general.alignment': invalid alignment 48: must be a power of two"},
        {"alignment f32", "key 'general.alignment': the value is of type f32: must be u32"},
        {"a gap", "tensor 'x': data offset is 64, expected 0"},
        {"block", "tensor 'x': row length 48 is not a multiple of the block size 32 (q4_0)"},
        {"type", "tensor 'x': unknown tensor type 4"},
        {"long name", "tensor 1 of 1: the name has 64 bytes: at most 63 are allowed"},
        {"control", "tensor 'a\\x1b[31m': unknown tensor type 99"},
        {"nested", "key 'k': nested arrays are not allowed"},
        {"kind", "key 'k': unknown value type 13"},
        {"empty key", "key 1 of 1: the key is empty"},
        {"array", "key 'k': 1000000 values of u32 expected, "},
        {"scalar", "tensor 'x': a scalar cannot be of type q8_0: its block size is 32"},
        {"elements", "tensor 'x': dimension 1 is 4294967296: too many elements"},
        {"zeros", "tensor 'x': dimension 2 is 1073741824: too many elements"},
        {"bytes", "tensor 'x': 4611686018427387904 elements of type f32 do not fit in the file of "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *c = cases[i].what;
        ggufw writer = {0};
        const int64_t four[] = {4}, part[] = {48}, many[] = {INT64_C(1) << 31, INT64_C(1) << 31};
        const int64_t more[] = {INT64_C(1) << 32, INT64_C(1) << 32};
        const int64_t zeros[] = {1 << 30, 0, INT64_C(1) << 40};
        char longest[65];
        memset(longest, 'n', 64);
        longest[64] = 0;
#define CASE(name) if (strcmp(c, name) == 0)
        CASE("two keys") ggufw_u32(&writer, "k", 1), ggufw_u32(&writer, "k", 2);
        CASE("bad bool") ggufw_plain(&writer, "k", 7, "\2", 1);
        CASE("alignment 48") ggufw_u32(&writer, "general.alignment", 48);
        CASE("alignment f32") ggufw_f32(&writer, "general.alignment", 32);
        CASE("nested") ggufw_array(&writer, "k", 9, 1, "", 0);
        CASE("kind") ggufw_plain(&writer, "k", 13, w_data, 4);
        CASE("empty key") ggufw_u32(&writer, "", 1);
        CASE("array") ggufw_array(&writer, "k", 4, 1000000, "", 0);
        CASE("a gap") ggufw_put(&writer.data, w_data, 4), ggufw_pad(&writer.data, 64);
        CASE("block") ggufw_tensor(&writer, "x", 2, 1, part, w_data, 24);
        CASE("type") ggufw_tensor(&writer, "x", 4, 1, four, w_data, 16);
        CASE("long name") ggufw_tensor(&writer, longest, 0, 1, four, w_data, 16);
        CASE("control") ggufw_tensor(&writer, "a\x1b[31m", 99, 1, four, w_data, 16);
        CASE("scalar") ggufw_tensor(&writer, "x", 8, 0, NULL, w_data, 24);
        CASE("bytes") ggufw_tensor(&writer, "x", 0, 2, many, w_data, 24);
        CASE("zeros") ggufw_tensor(&writer, "x", 0, 3, zeros, w_data, 0);
        CASE("elements") ggufw_tensor(&writer, "x", 0, 2, more, w_data, 24);
#undef CASE
        if (writer.n_tensors == 0) ggufw_tensor(&writer, "x", 0, 1, four, w_data, 16);
        if (strcmp(c, "two tensors") == 0) ggufw_tensor(&writer, "x", 0, 1, four, w_data, 16);
        size_t count;
        char *file = ggufw_bytes(&writer, &count);
        count -= strcmp(c, "cut data") == 0;
        ok(refused_with(ctx, file, count, ZT_EDATA, cases[i].message), "%s: %s", c, cases[i].message);
        free(file);
    }
}

/* Counts and lengths far beyond the file: bad data, at once, and no memory to speak of. */
static void test_bombs(zt_ctx *ctx)
{
    size_t count;
    char *file = sample(&count);
    zt_mem_limit(ctx, 1 << 20);
    for (int shift = 12; shift < 64; shift += 3) {
        bool right = true;
        for (int at = 8; at <= 24; at += 8) { /* tensors, keys, the first key's length */
            uint64_t old, big = UINT64_C(1) << shift;
            memcpy(&old, file + at, 8);
            memcpy(file + at, &big, 8);
            right &= refused_with(ctx, file, count, ZT_EDATA, "t.gguf: ");
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
    size_t count, wrong = 0;
    char *file = sample(&count);
    for (size_t k = 0; k < count; k++) {
        char *cut = malloc(k + !k); /* of its own, so that a sanitizer sees the end */
        memcpy(cut, file, k);
        wrong += !refused_with(ctx, cut, k, ZT_EDATA, "t.gguf: ");
        free(cut);
    }
    ok(wrong == 0, "every one of %zu truncations is bad data (%zu are not)", count, wrong);
    free(file);
}

static void test_changed(zt_ctx *ctx)
{
    static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x55};
    size_t count, opened = 0, wrong = 0;
    char *file = sample(&count);
    for (size_t k = 0; k < count * sizeof masks; k++) {
        size_t at = k / sizeof masks;
        file[at] ^= (char)masks[k % sizeof masks];
        zt_source *source = zt_source_memory(ctx, "t.gguf", file, count);
        zt_gguf *gguf = zt_gguf_from(ctx, source);
        opened += gguf && gguf_walk(gguf);
        wrong += !gguf && zt_ctx_status(ctx) != ZT_EDATA && zt_ctx_status(ctx) != ZT_ENOTSUP;
        zt_gguf_close(gguf);
        zt_source_close(source);
        zt_ctx_clear(ctx);
        file[at] ^= (char)masks[k % sizeof masks];
    }
    ok(wrong == 0 && zt_mem_get(ctx).blocks == 0, "every byte changed: an error or a sound file");
    ok(opened > 0 && opened < 4 * count, "both happen (%zu of %zu open)", opened, 4 * count);
    free(file);
}

static void test_starved(zt_ctx *ctx, const char *path)
{
    uint64_t nth = 1;
    bool clean = true;
    for (bool onwards = false;; onwards = !onwards) {
        zt_mem_fail(ctx, nth, onwards);
        zt_gguf *gguf = zt_gguf_open(ctx, path);
        zt_mem_fail(ctx, 0, false);
        bool done = gguf != NULL;
        clean &= done || zt_ctx_status(ctx) == ZT_ENOMEM;
        zt_gguf_close(gguf);
        clean &= zt_mem_get(ctx).blocks == 0;
        zt_ctx_clear(ctx);
        if (done || nth > 1000) break;
        nth += onwards;
    }
    ok(clean && nth > 5, "each of %llu allocations failing: out of memory, no leak", (unsigned long long)nth - 1);
}

/* ---- made models ---------------------------------------------------------------------------- */

static char *made_file(const char *arch, const mkmodel_kind *type, uint64_t seed, size_t *count)
{
    mkmodel_opts o = mkmodel_defaults(arch);
    o.width = o.ffn = 256, o.head = 64, o.layers = 1;
    o.type = type;
    o.seed = seed;
    ggufw writer = {0};
    return mkmodel(&o, &writer) ? NULL : ggufw_bytes(&writer, count);
}

/* Are its values finite, with the mean square that was asked for (4 / width), within a third? */
static bool sane_weights(zt_gguf *gguf)
{
    zt_type its_type;
    int64_t handle;
    zt_store s = zt_gguf_store(gguf);
    if (s.find(s.user, "token_embd.weight", &its_type, &handle) != ZT_OK) return false;
    int64_t count = zt_type_count(&its_type);
    char *data = malloc(zt_type_bytes(&its_type));
    float *x = malloc((size_t)count * sizeof *x);
    double sum = 0;
    if (data && x && s.read(s.user, handle, 0, data, zt_type_bytes(&its_type)) == ZT_OK) {
        zt_dtype_get(its_type.dtype)->decode(data, x, count);
        for (int64_t i = 0; i < count; i++) sum += (double)x[i] * x[i];
    }
    free(data);
    free(x);
    double ratio = sum / (double)count / (4.0 / (double)its_type.dim[1]);
    if (!(ratio > 0.67 && ratio < 1.5)) diag("mean square is %g of what was asked for", ratio);
    return ratio > 0.67 && ratio < 1.5;
}

static void test_made(zt_ctx *ctx)
{
    for (size_t k = 0; k < sizeof mkmodel_kinds / sizeof *mkmodel_kinds; k++) {
        const mkmodel_kind *type = &mkmodel_kinds[k];
        const char *arch = k % 2 ? "gemma3" : "llama";
        size_t count = 0, again = 0, other = 0;
        char *file = made_file(arch, type, 7, &count), *same = made_file(arch, type, 7, &again);
        char *differs = made_file(arch, type, 8, &other);
        zt_source *source = zt_source_memory(ctx, "made", file, count);
        zt_gguf *gguf = zt_gguf_from(ctx, source);
        ok(gguf && gguf_walk(gguf) && sane_weights(gguf), "%s %s: sound, weights of the size asked for %s", arch, type->name,
           zt_ctx_error(ctx));
        ok(count == again && count == other && memcmp(file, same, count) == 0 && memcmp(file, differs, count) != 0,
           "and drawn from the seed");
        zt_gguf_close(gguf);
        zt_source_close(source);
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
    ggufw writer = {0};
    int fd = mkstemp(path);
    if (!ok(fd >= 0 && !mkmodel(&o, &writer) && ggufw_save(&writer, path), "a made model")) return;
    close(fd);
    zt_gguf *gguf = zt_gguf_open(ctx, path);
    ok(gguf && gguf_walk(gguf) && zt_gguf_n_tensors(gguf) == 20, "opens %s", zt_ctx_error(ctx));
    zt_gguf_close(gguf);
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
