/* netjson.c - network JSON: every network of the golden sets of Loom's is read as the weights
 * beside it say, and written back byte for byte; what contradicts itself is refused. */
#include "lib/zt/all.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/io/arrays.h"
#include "tests/common/golden.h"

IO_KIND(netjson)

static char dir[] = "/tmp/zt-netjson-XXXXXX";

static const char *out_path(void)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/out.json", dir);
    return path;
}

/* ---- back again ------------------------------------------------------------------------------ */

/* The document written anew from its frame and tensors, each in pieces of `piece` bytes. */
static bool write_back(zt_ctx *ctx, zt_netjson *j, size_t piece)
{
    size_t count;
    const char *frame = zt_netjson_frame(j, &count);
    zt_sink *out = zt_sink_open(ctx, out_path(), true);
    zt_netjson_writer *w = out ? zt_netjson_writer_new(ctx, out, frame, count) : NULL;
    bool done = w != NULL;
    for (int64_t i = 0; done && i < zt_netjson_count(j); i++) {
        const zt_array *a = zt_netjson_get(j, i);
        uint8_t *bytes = malloc(a->bytes + 1);
        done = zt_netjson_read(j, i, 0, bytes, a->bytes) == ZT_OK && zt_netjson_begin(w, a->name, a->bytes) == ZT_OK;
        for (size_t at = 0; done && at < a->bytes; at += piece)
            done = zt_netjson_write(w, bytes + at, a->bytes - at < piece ? a->bytes - at : piece) == ZT_OK;
        free(bytes);
    }
    done = done && zt_netjson_finish(w) == ZT_OK && zt_sink_commit(out) == ZT_OK;
    zt_netjson_writer_free(w);
    zt_sink_close(out);
    return done;
}

static bool comes_back(const char *text, size_t count, size_t piece)
{
    zt_ctx *ctx = zt_ctx_new();
    size_t got = 0;
    zt_source *in = zt_source_memory(ctx, "network", text, count);
    zt_netjson *j = zt_netjson_from(ctx, in);
    bool same = j && write_back(ctx, j, piece);
    char *back = same ? npy_file(out_path(), &got) : NULL;
    same = back && got == count && memcmp(back, text, count) == 0;
    if (!same) diag("%s", zt_ctx_error(ctx));
    free(back);
    zt_netjson_close(j);
    zt_source_close(in);
    same = same && zt_mem_get(ctx).blocks == 0;
    zt_ctx_free(ctx);
    return same;
}

/* ---- golden networks ------------------------------------------------------------------------- */

static int networks, texts_of_weights, compared;

/* Layer i's own f32 weights, if the file beside tells them. */
static bool masters_are(zt_netjson *j, const json_t *masters)
{
    size_t i;
    json_t *of_layer;
    json_array_foreach(masters, i, of_layer)
    {
        char name[64];
        const json_t *want = json_array_get(of_layer, 0);
        snprintf(name, sizeof name, "layers.%zu.weights", i);
        int64_t k = zt_netjson_find(j, name);
        if (k < 0 || zt_netjson_get(j, k)->type.dtype != ZT_F32 || strcmp(zt_netjson_get(j, k)->dtype, "float32") != 0) continue;
        if ((size_t)zt_netjson_get(j, k)->dim[0] != json_array_size(want)) return false;
        for (size_t e = 0; e < json_array_size(want); e++) {
            float x;
            if (zt_netjson_read(j, k, 4 * e, &x, 4) != ZT_OK || x != (float)json_number_value(json_array_get(want, e)))
                return false;
        }
        compared++;
    }
    return true;
}

static size_t count_weights(const char *text)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, "\"weights\"")); p++) n++;
    return n;
}

static bool is_read(const json_t *network, const json_t *masters)
{
    bool sound = true;
    char *text = json_dumps(network, networks % 2 ? JSON_INDENT(2) : JSON_COMPACT);
    size_t length = strlen(text);
    zt_ctx *ctx = zt_ctx_new();
    zt_source *in = zt_source_memory(ctx, "network", text, length);
    zt_netjson *j = zt_netjson_from(ctx, in);
    bool right = j && (size_t)zt_netjson_count(j) == count_weights(text) && masters_are(j, masters);
    if (j) io_walk(&io_netjson, j, ctx, &sound);
    right = right && sound && comes_back(text, length, 1 + (size_t)networks % 9);
    networks++;
    texts_of_weights += j ? (int)zt_netjson_count(j) : 0;
    if (!right) diag("%s", zt_ctx_error(ctx));
    zt_netjson_close(j);
    zt_source_close(in);
    zt_ctx_free(ctx);
    free(text);
    return right;
}

/* Every network in a document, wherever it is. */
static bool networks_are_read(const json_t *value, const json_t *masters)
{
    bool right = true;
    size_t i;
    const char *key;
    json_t *x;
    if (json_object_get(value, "layers_per_cell") && json_is_array(json_object_get(value, "layers")))
        return is_read(value, masters);
    json_object_foreach((json_t *)(uintptr_t)value, key, x) right =
        networks_are_read(x, json_object_get(value, "masters")) && right;
    json_array_foreach(value, i, x) right = networks_are_read(x, NULL) && right;
    return right;
}

static void walk_files(const char *path)
{
    struct dirent **entry;
    struct stat st;
    char sub[4096];
    int count = scandir(path, &entry, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        size_t len = strlen(entry[i]->d_name);
        snprintf(sub, sizeof sub, "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.' && stat(sub, &st) == 0 && S_ISDIR(st.st_mode)) {
            walk_files(sub);
        } else if (len > 5 && strcmp(entry[i]->d_name + len - 5, ".json") == 0) {
            int before = networks;
            json_t *root = json_load_file(sub, 0, NULL);
            bool right = networks_are_read(root, NULL);
            if (networks > before) ok(right, "%s: %d networks", sub, networks - before);
            json_decref(root);
        }
        free(entry[i]);
    }
    if (count >= 0) free(entry);
}

/* ---- by hand --------------------------------------------------------------------------------- */

#define NET(layers) "{\"id\":\"n\",\"depth\":1,\"layers_per_cell\":1,\"layers\":" layers "}"
#define LAYER(rest) NET("[{\"z\":0,\"type\":\"Dense\"," rest "}]")

/* Documents that are right: how many tensors, and the last one's name, dtype's word and elements.
 */
static const struct {
    const char *text;
    int64_t n;
    const char *name, *dtype;
    zt_dtype held;
    int64_t count;
} good[] = {
    {NET("[]"), 0, NULL, NULL, 0, 0},
    {NET("null"), 0, NULL, NULL, 0, 0},
    {LAYER("\"weights\":\"\""), 1, "layers.0.weights", "float32", ZT_F32, 0},
    {LAYER("\"weights\":\"AACAPw==\",\"dtype\":\"float16\""), 1, "layers.0.weights", "float32", ZT_F32, 1},
    {LAYER("\"weights\" : \"AACAPw==\", \"native\" : true ,\"dtype\":\"BF16\""), 1, "layers.0.weights", "bfloat16", ZT_F32, 1},
    {LAYER("\"native\":true,\"weights\":\"AQID\",\"dtype\":\"int8\",\"scale\":0.5"), 1, "layers.0.weights", "int8", ZT_I8, 3},
    {LAYER("\"native\":true,\"weights\":\"AQID\",\"dtype\":\"binary\""), 1, "layers.0.weights", "binary", ZT_DTYPE_COUNT, 3},
    {LAYER("\"native\":true,\"weights\":\"AQIDBAUGBwg=\",\"dtype\":\"u64\""), 1, "layers.0.weights", "uint64", ZT_I64, 1},
    {LAYER("\"parallel_branches\":[{},{\"sequential_layers\":[{\"weights\":\"AAAAAA==\"}]}]"), 1,
     "layers.0.parallel_branches.1.sequential_layers.0.weights", "float32", ZT_F32, 1},
    {LAYER("\"weights\":\"AAAAAA==\",\"parallel_branches\":[{}]"), 1, "layers.0.weights", "float32", ZT_F32, 1},
    {LAYER("\"native\":true,\"weights\":\"AQID\",\"dtype\":\"fp8e4m3\",\"scale\":null"), 1, "layers.0.weights", "fp8e4m3", ZT_I8,
     3},
    {LAYER("\"native\":true,\"weights\":\"AQID\",\"dtype\":\"fp8\",\"zt.rule\":\"field\""), 1, "layers.0.weights", "fp8e4m3",
     ZT_F8_E4M3, 3},
    {LAYER("\"native\":true,\"weights\":\"AQID\",\"dtype\":\"uint8\",\"zt.rule\":\"loom\""), 1, "layers.0.weights", "uint8",
     ZT_I8, 3},
    {LAYER("\"weights\":\"AAAAAA==\",\"dtype\":\"uint8\",\"zt.rule\":\"field\""), 1, "layers.0.weights", "float32", ZT_F32, 1},
    {LAYER("\"native\":true,\"weights\":\"AQID\",\"dtype\":\"fp4\",\"zt.rule\":\"field\""), 1, "layers.0.weights", "fp4",
     ZT_DTYPE_COUNT, 3},
    {LAYER("\"note\":\"\\\"weights\\\":\\\"AA\\\"\""), 0, NULL, NULL, 0, 0},
    {" \n{\"layers\":[\t{\"x\":[{\"y\":1}]} ]}\n", 0, NULL, NULL, 0, 0},
};

static const struct {
    const char *why, *text;
} evil[] = {
    {"nothing", ""},
    {"no object", "[]"},
    {"no layers", "{\"id\":\"n\"}"},
    {"layers are no list", NET("{}")},
    {"a layer is no object", NET("[1]")},
    {"cut in a text", "{\"layers\":[{\"weights\":\"AAAA"},
    {"cut behind it", "{\"layers\":[{\"weights\":\"AAAA\""},
    {"no base64", LAYER("\"weights\":\"A*AA\"")},
    {"three letters", LAYER("\"weights\":\"AAA\"")},
    {"a line break in it", LAYER("\"weights\":\"AAAA\nAAAA\"")},
    {"an escape in it", LAYER("\"weights\":\"AAAA\\u0041AAA\"")},
    {"padding amid it", LAYER("\"weights\":\"AA==AAAA\"")},
    {"three of padding", LAYER("\"weights\":\"A===\"")},
    {"bits that are not written", LAYER("\"weights\":\"AACAPx==\"")},
    {"no whole elements", LAYER("\"weights\":\"AAAA\"")},
    {"weights twice", LAYER("\"weights\":\"AAAAAA==\",\"weights\":\"AAAAAA==\"")},
    {"weights are a number", LAYER("\"weights\":1")},
    {"weights are null", LAYER("\"weights\":null")},
    {"weights are a list", LAYER("\"weights\":[\"AAAAAA==\"]")},
    {"weights that are no layer's", "{\"layers\":[],\"weights\":\"AAAA\"}"},
    {"weights below a layer's member", LAYER("\"x\":{\"weights\":\"AAAAAA==\"}")},
    {"a frame's words", LAYER("\"weights\":\"#0:4\"")},
    {"and a name that is spelled otherwise", LAYER("\"weight\\u0073\":\"#0:4\"")},
    {"both", NET("[{\"weights\":\"AAAAAA==\"},{\"weight\\u0073\":\"#0:4\"}]")},
    {"native is a number", LAYER("\"native\":1")},
    {"scale is a text", LAYER("\"scale\":\"1\"")},
    {"scale twice", LAYER("\"scale\":1,\"scale\":1")},
    {"a rule that is none", LAYER("\"zt.rule\":\"other\"")},
    {"dtype is a number", LAYER("\"dtype\":1")},
    {"dtype twice", LAYER("\"dtype\":\"int8\",\"dtype\":\"int8\"")},
    {"no JSON", LAYER("\"x\":nul")},
    {"a comma too many", LAYER("\"x\":1,")},
    {"bytes behind it", NET("[]") "x"},
    {"two", NET("[]") NET("[]")},
};

static void test_by_hand(void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        zt_ctx *ctx = zt_ctx_new();
        size_t length = strlen(good[i].text);
        zt_source *in = zt_source_memory(ctx, "good", good[i].text, length);
        zt_netjson *j = zt_netjson_from(ctx, in);
        bool right = j && zt_netjson_count(j) == good[i].n;
        const zt_array *a = right && good[i].n ? zt_netjson_get(j, good[i].n - 1) : NULL;
        right = right && (!a || (strcmp(a->name, good[i].name) == 0 && strcmp(a->dtype, good[i].dtype) == 0 &&
                                 a->type.dtype == good[i].held && a->dim[0] == good[i].count));
        ok(right && comes_back(good[i].text, length, 2), "%s%s", good[i].text, zt_ctx_error(ctx));
        zt_netjson_close(j);
        zt_source_close(in);
        zt_ctx_free(ctx);
    }
    for (size_t i = 0; i < sizeof evil / sizeof *evil; i++) {
        bool sound = true;
        zt_status st = io_try(&io_netjson, evil[i].text, strlen(evil[i].text), 1 << 20, &sound);
        ok(sound && st == ZT_EDATA, "refused: %s", evil[i].why);
    }
}

static void test_bombs(void)
{
    enum { N = 1 << 20 };
    char *text = malloc(8 * N + 100), *p;
    bool sound = true;
    p = text + sprintf(text, "{\"layers\":[{");
    for (int i = 0; i < 1000; i++) p += sprintf(p, "\"sequential_layers\":[{");
    ok(io_try(&io_netjson, text, (size_t)(p - text), 1 << 20, &sound) == ZT_EDATA && sound, "layers nested a thousand deep");
    p = text + sprintf(text, "{\"x\":[");
    for (int i = 0; i < N; i++) p += sprintf(p, "[],");
    ok(io_try(&io_netjson, text, (size_t)(p - text), 16 * N, &sound) == ZT_EDATA && sound, "a million lists");
    p = text + sprintf(text, "{\"layers\":[");
    for (int i = 0; i < N; i++) p += sprintf(p, "{},");
    p += sprintf(p - 1, "]}") - 1;
    ok(io_try(&io_netjson, text, (size_t)(p - text), 16 * N, &sound) == ZT_OK && sound, "a million layers without weights");
    free(text);
}

/* Every cut of a document, and a frame's. */
static void test_cuts(zt_ctx *ctx)
{
    static const char text[] = LAYER("\"weights\":\"AACAPw==\",\"sequential_layers\":[{\"weights\":\"AAAAAAAA\",\"native\":"
                                     "true,\"dtype\":\"i8\"}]");
    bool right = true, sound = true;
    for (size_t n = 0; n < sizeof text - 1; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, text, n);
        right = io_try(&io_netjson, cut, n, 1 << 20, &sound) == ZT_EDATA && right;
        free(cut);
    }
    ok(right && sound, "refused wherever it is cut");
    zt_source *in = zt_source_memory(ctx, "text", text, sizeof text - 1);
    zt_netjson *j = zt_netjson_from(ctx, in);
    size_t n;
    const char *frame = zt_netjson_frame(j, &n);
    for (size_t k = 0; k < n; k++) {
        zt_netjson_writer *w = zt_netjson_writer_new(ctx, NULL, frame, k);
        right = right && !w && zt_ctx_status(ctx) == ZT_EDATA;
        zt_netjson_writer_free(w);
        zt_ctx_clear(ctx);
    }
    ok(right, "and so is its frame");
    zt_netjson_close(j);
    zt_source_close(in);
}

static void test_writer_faults(zt_ctx *ctx)
{
    static const char frame[] = LAYER("\"weights\":\"#0:4\"");
    zt_sink *out = zt_sink_open(ctx, out_path(), true);
    zt_netjson_writer *w = zt_netjson_writer_new(ctx, out, frame, sizeof frame - 1);
    status_is(ctx, zt_netjson_finish(w), ZT_ENOTSUP);
    status_is(ctx, zt_netjson_begin(w, "layers.1.weights", 4), ZT_ENOTSUP);
    status_is(ctx, zt_netjson_begin(w, "layers.0.weights", 8), ZT_ENOTSUP);
    ok(zt_netjson_begin(w, "layers.0.weights", 4) == ZT_OK, "a tensor begins");
    status_is(ctx, zt_netjson_write(w, "12345", 5), ZT_EUSAGE);
    status_is(ctx, zt_netjson_finish(w), ZT_ENOTSUP);
    ok(zt_netjson_write(w, "1234", 4) == ZT_OK, "and ends");
    status_is(ctx, zt_netjson_begin(w, "layers.0.weights", 4), ZT_ENOTSUP);
    zt_netjson_writer_free(w);
    zt_sink_close(out);
}

int main(void)
{
    char root[4096];
    zt_ctx *ctx = zt_ctx_new();
    if (!mkdtemp(dir)) return 1;
    if (golden_holds("loom", root)) {
        walk_files(root);
        ok(networks > 0 && compared > 0, "%d networks, %d texts of weights, %d told beside them", networks, texts_of_weights,
           compared);
    }
    test_by_hand();
    test_bombs();
    test_cuts(ctx);
    test_writer_faults(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    unlink(out_path());
    ok(rmdir(dir) == 0, "tidy");
    return tap_done();
}
