/* safetensors.c - the safetensors reader: golden files to the bit, hostile ones refused in bounded
 * memory (formats/safetensors' README), and what those sets do not try. */
#include "lib/io/safetensors_write.h"
#include "tests/common/golden_set.h"
#include "tests/io/read_safetensors.h"

#include <sys/stat.h>

static bool is_index(const char *file)
{
    size_t n = strlen(file), k = strlen(".index.json");
    return n > k && strcmp(file + n - k, ".index.json") == 0;
}

/* ---- sound files ----------------------------------------------------------------------------- */

static bool shape_is(const zt_type *type, const json_t *want)
{
    if (type->rank >= 0 && (size_t)type->rank != json_array_size(want)) return false;
    for (int i = 0; i < type->rank; i++)
        if (type->dim[i] != json_integer_value(json_array_get(want, (size_t)i))) return false;
    return true;
}

static bool tensor_is(zt_ctx *ctx, zt_safetensors *safetensors, const json_t *want, const npz *archive)
{
    zt_store store = zt_safetensors_store(safetensors);
    zt_type found;
    int64_t handle, i = zt_safetensors_find(safetensors, text_of(want, "name"));
    npy a = {0};
    if (i < 0) return false;
    const zt_safetensors_entry *e = zt_safetensors_get(safetensors, i);
    char *data = malloc(e->bytes + 1);
    bool same = data && strcmp(e->dtype, text_of(want, "dtype")) == 0 && shape_is(&e->type, json_object_get(want, "shape")) &&
                npz_get(archive, text_of(want, "key"), &a) && a.bytes == e->bytes &&
                store.read(store.user, i, 0, data, e->bytes) == ZT_OK && memcmp(data, a.data, e->bytes) == 0;
    /* what zt has no dtype for is found out when it is used, and named */
    zt_status st = store.find(store.user, e->name, &found, &handle);
    if (e->type.rank >= 0)
        same = same && st == ZT_OK && handle == i && zt_type_equal(&found, &e->type);
    else
        same = same && st == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), e->dtype);
    zt_ctx_clear(ctx);
    free(data);
    npy_free(&a);
    return same;
}

static bool metadata_is(const zt_safetensors *safetensors, const json_t *want)
{
    const char *key, *value;
    size_t count, there = 0;
    while ((key = zt_safetensors_meta(safetensors, (int64_t)there, &value, &count))) {
        const json_t *w = json_object_get(want, key);
        if (!w || json_string_length(w) != count || memcmp(json_string_value(w), value, count) != 0) return false;
        there++;
    }
    return there == json_object_size(want);
}

static bool file_is(zt_ctx *ctx, zt_safetensors *safetensors, const json_t *want, const npz *archive)
{
    const json_t *tensors = json_object_get(want, "tensors");
    bool same = (size_t)zt_safetensors_count(safetensors) == json_array_size(tensors) && st_walk(safetensors);
    for (size_t i = 0; same && i < json_array_size(tensors); i++) {
        same = tensor_is(ctx, safetensors, json_array_get(tensors, i), archive);
        if (!same) diag("tensor %zu differs", i);
    }
    return same && (is_index(text_of(want, "file")) || metadata_is(safetensors, json_object_get(want, "metadata")));
}

static zt_safetensors *open_any(zt_ctx *ctx, const char *path)
{
    return is_index(path) ? zt_safetensors_open_index(ctx, path) : zt_safetensors_open(ctx, path);
}

static bool sound(zt_ctx *ctx, const char *path, const json_t *want, const npz *z)
{
    zt_safetensors *s = open_any(ctx, path);
    bool is = s && file_is(ctx, s, want, z);
    zt_safetensors_close(s);
    return is;
}

/* ---- hostile files --------------------------------------------------------------------------- */

static bool file_refused(zt_ctx *ctx, zt_safetensors *s, bool may)
{
    zt_status st = zt_ctx_status(ctx);
    bool right = s ? may && st_walk(s) : st != ZT_OK && st != ZT_ENOMEM && *zt_ctx_error(ctx);
    zt_safetensors_close(s);
    zt_ctx_clear(ctx);
    return right && zt_mem_get(ctx).blocks == 0;
}

static bool bytes_refused(zt_ctx *ctx, const void *file, size_t count, bool may)
{
    char *copy = malloc(count + !count); /* of its own, so that a sanitizer sees the end */
    if (!copy) return false;
    memcpy(copy, file, count);
    zt_source *in = zt_source_memory(ctx, "t.safetensors", copy, count);
    zt_safetensors *safetensors = zt_safetensors_from(ctx, in);
    bool named = safetensors || strncmp(zt_ctx_error(ctx), "t.safetensors: ", 15) == 0;
    zt_status st = zt_ctx_status(ctx);
    zt_source_close(in);
    /* the source is closed: a file that opened after all is not to be read */
    bool right = safetensors ? may : (st == ZT_EDATA || st == ZT_ENOTSUP);
    zt_safetensors_close(safetensors);
    zt_ctx_clear(ctx);
    free(copy);
    return named && right && zt_mem_get(ctx).blocks == 0;
}

static bool write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    bool done = f && fwrite(bytes, 1, n, f) == n;
    return f && fclose(f) == 0 && done;
}

/* Every member of the archive that lies in the index's folder goes into a folder of its own. */
static bool index_refused(zt_ctx *ctx, const uint8_t *tar, size_t count, const char *index, bool may)
{
    char folder[] = "/tmp/zt-st-XXXXXX", path[256];
    const char *name;
    const uint8_t *data;
    size_t bytes, prefix = (size_t)(strrchr(index, '/') - index) + 1;
    if (!mkdtemp(folder)) return false;
    for (size_t at = 0; (data = tar_next(tar, count, &at, &name, &bytes));) {
        snprintf(path, sizeof path, "%s/%.100s", folder, name + prefix);
        if (strncmp(name, index, prefix) == 0) write_file(path, data, bytes);
    }
    snprintf(path, sizeof path, "%s/%s", folder, index + prefix);
    bool right = file_refused(ctx, zt_safetensors_open_index(ctx, path), may);
    snprintf(path, sizeof path, "rm -r %s", folder);
    return system(path) == 0 && right;
}

static bool refuses(zt_ctx *ctx, const json_t *want, const uint8_t *tar, size_t n)
{
    const char *name = text_of(want, "file");
    size_t bytes;
    const uint8_t *file = tar_member(tar, n, name, &bytes);
    return file &&
           (is_index(name) ? index_refused(ctx, tar, n, name, may_open(want)) : bytes_refused(ctx, file, bytes, may_open(want)));
}

/* ---- what the sets do not try ---------------------------------------------------------------- */

/* A file of this header and `data` bytes; malloc'ed. */
static char *make_file(const char *header, size_t data, size_t *count)
{
    uint64_t len = strlen(header);
    char *file = calloc(1, 8 + len + data);
    *count = 8 + len + data;
    memcpy(file, &len, 8);
    memcpy(file + 8, header, len);
    return file;
}

static void test_headers(zt_ctx *ctx)
{
    static const struct {
        const char *header, *what;
        size_t data;
        bool sound;
    } files[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "one tensor", 4, true},
        {"{\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         "one name, written twice in two ways", 8, false},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", "a fourth member", 4, true},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"dtype\":\"F32\"}}", "dtype twice", 4, false},
        {"{\"__metadata__\":null,\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "metadata that is null", 4,
         true},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"__metadata__\": null }", "the same behind a tensor",
         4, true},
        {"{\"__metadata__\":null,\"__metadata__\":null}", "the same twice", 0, false},
        {"{\"__metadata__\":[]}", "metadata that is a list", 0, false},
        {"{\"__metadata__\":nil}", "metadata that is a word", 0, false},
        {"{\"__metadata__\":{\"a\":null}}", "a value of metadata that is null", 0, false},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", "nine dimensions open", 4, true},
        {"{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", "six bits a value", 3, true},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", "one and a half bytes", 1, false},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}{}", "two objects", 4, false},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}]}", "a bracket of the wrong kind", 4, false},
        {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "a zero in a name", 4, false},
        {"{\"__metadata__\":{\"a\":\"\\ud800\"}}", "half a surrogate pair", 0, false},
        {"{\"__metadata__\":{\"a\":\"b\"}}", "metadata alone", 0, true},
        {" \n\t{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "white space before it", 4, true},
        {"\f{}", "a form feed before it", 0, false},
        {"{", "an object that does not end", 0, false},
        {"{}", "nothing", 0, true},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t count;
        char *file = make_file(files[i].header, files[i].data, &count);
        bool refuses = bytes_refused(ctx, file, count, false);
        ok(refuses == !files[i].sound, "%s: %s", files[i].what, files[i].sound ? "well" : "refused");
        free(file);
    }
}

/* A further member of an entry: lists nested `depth` deep, or a long text. */
static bool reads_further(zt_ctx *ctx, int depth, size_t text)
{
    char *header = malloc((size_t)depth * 2 + text + 200), *p = header;
    size_t count;
    p += sprintf(p, "{\"a\":{\"x\":");
    memset(p, '[', (size_t)depth), p += depth;
    *p++ = '"';
    memset(p, 'y', text), p += text;
    *p++ = '"';
    memset(p, ']', (size_t)depth), p += depth;
    sprintf(p, ",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}");
    char *file = make_file(header, 4, &count);
    bool reads = !bytes_refused(ctx, file, count, false) && bytes_refused(ctx, file, count, true);
    free(file);
    free(header);
    return reads;
}

static void test_further(zt_ctx *ctx)
{
    ok(reads_further(ctx, 0, 1 << 20), "a further member of a megabyte");
    ok(reads_further(ctx, 125, 1), "nested as deep as the reference reads");
    ok(!reads_further(ctx, 126, 1) && !reads_further(ctx, 100000, 1), "deeper is refused");
}

/* The header of one tensor, filled up to `least`; its bytes, 0: not so. */
static size_t written(zt_ctx *ctx, size_t least)
{
    zt_st_writer *w = zt_st_writer_new(ctx, 0);
    size_t count = 0;
    int64_t dim = 1;
    zt_st_put_meta(w, "k", "v", 1);
    zt_st_put_tensor(w, "a", "U8", 1, &dim, 1);
    char *header = zt_st_writer_finish(w, least, &count), *file = header ? calloc(1, count + 1) : NULL;
    if (file) memcpy(file, header, count);
    zt_source *in = file ? zt_source_memory(ctx, "m", file, count + 1) : NULL;
    zt_safetensors *safetensors = in ? zt_safetensors_from(ctx, in) : NULL;
    bool sound = safetensors && zt_safetensors_find(safetensors, "a") == 0;
    zt_safetensors_close(safetensors);
    zt_source_close(in);
    free(file);
    zt_free(ctx, header);
    zt_st_writer_free(w);
    return sound ? count : 0;
}

static void test_written(zt_ctx *ctx)
{
    size_t n = written(ctx, 0);
    ok(n && n % 64 == 0, "the data begin at a multiple of 64 bytes");
    ok(written(ctx, n + 8) == n + 8, "or where those of the file did that is changed in place");
    ok(written(ctx, 16) == n, "unless the header is longer");
}

static void test_use(zt_ctx *ctx)
{
    size_t count;
    char *file = make_file("{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]},"
                           "\"\\u001b[2J\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                           9, &count);
    zt_source *in = zt_source_memory(ctx, "m", file, count);
    zt_safetensors *safetensors = zt_safetensors_from(ctx, in);
    char buf[16];
    ok(safetensors && strcmp(zt_safetensors_get(safetensors, 1)->name, "b") == 0, "tensors in the order of their data");
    ok(zt_safetensors_read(safetensors, 1, 4, buf, 5) == ZT_EUSAGE, "no reading past a tensor's end");
    zt_ctx_clear(ctx);
    ok(zt_safetensors_read(safetensors, 0, 2, buf, 1) == ZT_EUSAGE && !strchr(zt_ctx_error(ctx), 27),
       "a terminal escape in a name is shown as %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(zt_safetensors_find(safetensors, "c") == -1, "a name that is not there");
    zt_safetensors_close(safetensors);
    zt_source_close(in);
    ok(zt_safetensors_sniff(file, 9, count) && !zt_safetensors_sniff("GGUF\3\0\0\0{", 9, 100),
       "safetensors is told from GGUF by nine bytes");
    ok(!zt_safetensors_open(ctx, "/nowhere/m.safetensors") && zt_ctx_status(ctx) == ZT_ENOENT, "no file");
    zt_ctx_clear(ctx);
    free(file);
}

/* Each allocation in turn fails: an error, nothing lost. */
static void test_no_memory(zt_ctx *ctx)
{
    size_t count;
    char *file = make_file("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                           "\"__metadata__\":{\"k\":\"v\\n\"}}",
                           4, &count);
    bool right = true;
    uint64_t nth = 1;
    for (zt_safetensors *safetensors = NULL; !safetensors && nth < 1000; nth++) {
        zt_source *in = zt_source_memory(ctx, "m", file, count);
        zt_mem_fail(ctx, nth, false);
        safetensors = zt_safetensors_from(ctx, in);
        zt_mem_fail(ctx, 0, false);
        right = right && (safetensors || zt_ctx_status(ctx) == ZT_ENOMEM);
        zt_safetensors_close(safetensors);
        zt_source_close(in);
        zt_ctx_clear(ctx);
        right = right && zt_mem_get(ctx).blocks == 0;
        if (safetensors) break;
    }
    ok(right && nth > 5 && nth < 1000, "memory that runs out at any of %d places", (int)nth - 1);
    free(file);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    test_headers(ctx);
    test_further(ctx);
    test_written(ctx);
    test_use(ctx);
    test_no_memory(ctx);
    set_run(ctx, "safetensors", &(set_kind){sound, refuses, 0});
    ok(zt_mem_get(ctx).blocks == 0, "no leak");
    zt_ctx_free(ctx);
    return tap_done();
}
