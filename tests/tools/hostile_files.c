/* hostile_files.c - hostile files through zt-run: the golden sets of GGUF and safetensors, and JSON files
 * of Hugging Face directories in which one value is odd. What is demanded: tests/tools/hostile_run.h.
 *
 *   hostile [ARCHS [WHOLE]]   folders of such directories; default: beside this program's folder
 */
#include <dirent.h>

#include "tests/common/golden.h"
#include "tests/tools/hostile_run.h"

#include "lib/zt/all.h"
#include <jansson.h>

/* ---- the golden sets ------------------------------------------------------------------------- */

static const char config[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":8,"
                             "\"hidden_size\":4,\"intermediate_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":1,"
                             "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0}\n";

/* The file as it lies, and (safetensors) as the weights of a Hugging Face directory: with a config
 * beside them they are read, not only sniffed. */
static bool set_case(const char *set, const char *file)
{
    char path[4700], dir[4600], label[600];
    snprintf(path, sizeof path, "%s", under("sets/%s/%s", set, file));
    int64_t size = size_of(path);
    snprintf(label, sizeof label, "%s/%s", set, file);
    bool right = refused_always(path, 0, size, label);
    if (strcmp(set, "safetensors") != 0) return right;
    snprintf(dir, sizeof dir, "%s", under("hf"));
    if (strchr(file, '/')) { /* an index, and its shards beside it */
        snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    } else {
        unlink(under("hf/model.safetensors"));
        right &= link(path, under("hf/model.safetensors")) == 0;
    }
    snprintf(path, sizeof path, "%s/config.json", dir);
    right &= write_file(path, config, sizeof config - 1);
    snprintf(label, sizeof label, "%s/%s in a directory", set, file);
    right &= refused_always(dir, 0, size, label);
    unlink(path);
    return right;
}

static void test_set(const char *set)
{
    char manifest[4500];
    size_t wrong = 0;
    snprintf(manifest, sizeof manifest, "%s/formats/%s/bad.json", golden_folder(), set);
    if (!golden_has(manifest)) return;
    mkdir(under("sets/%s", set), 0700);
    bool there = shell("tar -C '%s' -xzf '%s/formats/%s/bad.tar.gz'", under("sets/%s", set), golden_folder(), set);
    json_t *root = json_load_file(manifest, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    const json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++)
        wrong += !set_case(set, json_string_value(json_object_get(json_array_get(cases, i), "file")));
    ok(there && json_array_size(cases) > 0 && wrong == 0, "%s: %zu hostile files are refused (%zu are not)", set,
       json_array_size(cases), wrong);
    json_decref(root);
}

/* ---- odd values ------------------------------------------------------------------------------ */

static json_t *odd_value(int i)
{
    switch (i % 9) {
    case 0: return json_integer(0);
    case 1: return json_integer(-1);
    case 2: return json_integer((json_int_t)1 << 31);
    case 3: return json_integer(INT64_MAX);
    case 4: return json_real(1e300);
    case 5: return json_real(-0.5);
    case 6: return json_string("\x1b[31m");
    case 7: return json_array();
    default: return json_null();
    }
}

typedef struct oddity { /* one file of one directory */
    const char *name, *file;
    json_t *root;
    int mode; /* of zt-run */
    int *turn;
    size_t runs, wrong;
} oddity;

/* Whatever is said of a file in which one value is another: it is said well. Running is well too:
 * of an answer only the code counts. */
static void try_oddity(oddity *o, const char *key)
{
    char label[600];
    outcome r = {0};
    snprintf(label, sizeof label, "%s/%s: %.99s odd in way %d", o->name, o->file, key, *o->turn % 9);
    if (json_dump_file(o->root, under("hf/%s", o->file), 0) == 0) r = run_model(under("hf"), o->mode);
    bool small = SANITIZED || (r.seconds <= MOST_SECONDS && r.memory <= 2 * MOST_MEMORY);
    bool fine = r.code == 0 || (r.code == 1 && o->mode == DRY_RUN);
    if (fine ? !small : !outcome_refused(&r, r.code == 75 ? 75 : 0, 1 << 20, label)) o->wrong++;
    o->runs++;
    ++*o->turn;
}

static void try_members(oddity *o, json_t *object);

/* Two odd values (one under a sanitizer) in place of this one, and then in what is in it. */
static void try_value(oddity *o, json_t *object, const char *key)
{
    json_t *value = json_incref(json_object_get(object, key)), *first = json_array_get(value, 0);
    for (int i = 0; i < 2 - SANITIZED; i++) {
        json_object_set_new(object, key, odd_value(*o->turn));
        try_oddity(o, key);
    }
    json_object_set_new(object, key, value);
    if (json_is_object(value))
        try_members(o, value);
    else if (json_is_object(first))
        try_members(o, first);
}

/* Of a vocabulary the first few. */
static void try_members(oddity *o, json_t *object)
{
    enum { MOST = 40 };
    char keys[MOST][100];
    const char *key;
    json_t *value;
    size_t size = 0, most = json_object_size(object) > MOST ? 3 : MOST;
    json_object_foreach(object, key, value)
    {
        if (size < most) snprintf(keys[size++], sizeof keys[0], "%s", key);
    }
    for (size_t i = 0; i < size; i++)
        if (json_object_get(object, keys[i])) try_value(o, object, keys[i]);
}

/* The directory as it is, but for that file. */
static oddity try_file(const char *folder, const char *name, const char *file, int mode, int *turn)
{
    char path[4700];
    oddity o = {.name = name, .file = file, .mode = mode, .turn = turn};
    shell("rm -rf '%s' && cp -r '%s/%s' '%s' && chmod -R u+w '%s'", under("hf"), folder, name, under("hf"), under("hf"));
    snprintf(path, sizeof path, "%s/%s/%s", folder, name, file);
    o.root = json_load_file(path, 0, NULL);
    if (o.root) try_members(&o, o.root);
    json_decref(o.root);
    return o;
}

static int is_case(const struct dirent *e) { return e->d_name[0] != '.'; }

static void test_odd(const char *folder, const char *file, int mode)
{
    struct dirent **entry;
    size_t wrong = 0, runs = 0;
    int turn = 0, n = scandir(folder, &entry, is_case, alphasort);
    for (int i = 0; i < n; i++) {
        oddity o = try_file(folder, entry[i]->d_name, file, mode, &turn);
        wrong += o.wrong;
        runs += o.runs;
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    ok(runs > 0 && wrong == 0, "%s: %zu with an odd value (%zu do harm)", file, runs, wrong);
}

/* ---- a directory that shrinks ---------------------------------------------------------------- */

/* Cut between opening and loading. */
static void test_shrunk(const char *archs, const char *name)
{
    const char *file = "shrunk/model.safetensors";
    bool there = shell("cp -r '%s/%s' '%s'", archs, name, under("shrunk"));
    zt_ctx *ctx = zt_ctx_new();
    zt_gguf *gguf = zt_model_open(ctx, under("shrunk"));
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.isa = zt_isa_best()});
    bool cut = truncate(under("%s", file), size_of(under("%s", file)) - 1) == 0;
    zt_llm_opts o = {.engine = e, .kv = ZT_DTYPE_COUNT};
    zt_llm *model = gguf && e ? zt_llm_open(gguf, &o) : NULL;
    ok(there && gguf && cut && !model && zt_ctx_status(ctx) == ZT_EIO, "%s cut after opening: %s", name, zt_ctx_error(ctx));
    zt_llm_close(model);
    zt_engine_close(e);
    zt_gguf_close(gguf);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    char self[4096], archs[4200], whole[4200];
    snprintf(self, sizeof self, "%s", argv[0]);
    const char *dir = dirname(self);
    snprintf(archs, sizeof archs, argc > 1 ? "%s" : "%s/../archs", argc > 1 ? argv[1] : dir);
    snprintf(whole, sizeof whole, argc > 2 ? "%s" : "%s/../whole", argc > 2 ? argv[2] : dir);
    if (!ok(hostile_open(argv[0]), "zt-run is there")) return tap_done();
    if (golden_folder()) {
        test_set("gguf");
        test_set("safetensors");
    } else {
        skip("no golden data");
    }
    test_odd(archs, "config.json", DRY_RUN);
    test_odd(whole, "tokenizer.json", TOKENIZE);
    test_odd(whole, "tokenizer_config.json", GENERATE);
    test_odd(whole, "generation_config.json", GENERATE);
    test_shrunk(archs, "llama");
    hostile_close();
    return tap_done();
}
