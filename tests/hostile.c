/* hostile.c - hostile files through zt-run: the golden sets of GGUF and safetensors, and configs of
 * Hugging Face directories in which one value is odd. What is demanded: tests/hostile.h.
 *
 *   hostile [FOLDER]     of Hugging Face directories; default: archs beside this program's folder
 */
#include <dirent.h>

#include "tests/golden.h"
#include "tests/hostile.h"

#include "lib/zt.h"
#include <jansson.h>

/* ---- the golden sets ------------------------------------------------------------------------- */

static const char config[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":8,"
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
    if (strcmp(set, "safetensors") != 0)
        return right;
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
    if (!golden_has(manifest))
        return;
    mkdir(under("sets/%s", set), 0700);
    bool there = shell("tar -C '%s' -xzf '%s/formats/%s/bad.tar.gz'", under("sets/%s", set),
                       golden_folder(), set);
    json_t *root = json_load_file(manifest, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, NULL);
    const json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++)
        wrong += !set_case(set, json_string_value(
                                    json_object_get(json_array_get(cases, i), "file")));
    ok(there && json_array_size(cases) > 0 && wrong == 0,
       "%s: %zu hostile files are refused (%zu are not)", set, json_array_size(cases), wrong);
    json_decref(root);
}

/* ---- configs --------------------------------------------------------------------------------- */

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

/* A config in which one value is another: whatever is said of it, it is said well. 1: it is not. */
static size_t try_config(const json_t *whole_config, const char *name, const char *key, int value)
{
    char label[300];
    outcome o;
    if (json_dump_file(whole_config, under("hf/config.json"), 0) != 0)
        return 1;
    o = run(under("hf"), DRY_RUN);
    snprintf(label, sizeof label, "%s: %s odd in way %d", name, key, value % 9);
    if (o.code == 0 || o.code == 1)
        return 0;
    return !refused(&o, o.code == 75 ? 75 : 0, 1 << 20, label);
}

/* Two odd values for each member (one under a sanitizer), those of objects in it too. */
static size_t try_members(const json_t *whole_config, json_t *object, const char *name, int *turn,
                          size_t *runs)
{
    const char *key;
    json_t *value;
    void *next;
    size_t wrong = 0;
    json_object_foreach_safe(object, next, key, value) {
        json_incref(value);
        if (json_is_object(value))
            wrong += try_members(whole_config, value, name, turn, runs);
        for (int i = 0; i < 2 - SANITIZED; i++, ++*turn, ++*runs) {
            json_object_set_new(object, key, odd_value(*turn));
            wrong += try_config(whole_config, name, key, *turn);
        }
        json_object_set_new(object, key, value);
    }
    return wrong;
}

static int is_case(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void test_configs(const char *folder)
{
    struct dirent **entry;
    size_t wrong = 0, runs = 0;
    int turn = 0, n = scandir(folder, &entry, is_case, alphasort);
    for (int i = 0; i < n; i++) {
        char path[4700];
        snprintf(path, sizeof path, "%s/%s/config.json", folder, entry[i]->d_name);
        json_t *c = json_load_file(path, 0, NULL);
        snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, entry[i]->d_name);
        unlink(under("hf/model.safetensors"));
        if (c && access(path, R_OK) == 0 && symlink(path, under("hf/model.safetensors")) == 0)
            wrong += try_members(c, c, entry[i]->d_name, &turn, &runs);
        json_decref(c);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    ok(runs > 500 && wrong == 0, "%zu configs with an odd value (%zu do harm)", runs, wrong);
}

/* ---- a directory that shrinks ---------------------------------------------------------------- */

/* Cut between opening and loading. */
static void test_shrunk(const char *archs, const char *name)
{
    const char *file = "shrunk/model.safetensors";
    bool there = shell("cp -r '%s/%s' '%s'", archs, name, under("shrunk"));
    zt_ctx *ctx = zt_ctx_new();
    zt_gguf *g = zt_model_open(ctx, under("shrunk"));
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.isa = zt_isa_best()});
    bool cut = truncate(under("%s", file), size_of(under("%s", file)) - 1) == 0;
    zt_llm_opts o = {.engine = e, .kv = ZT_DTYPE_COUNT};
    zt_llm *m = g && e ? zt_llm_open(g, &o) : NULL;
    ok(there && g && cut && !m && zt_ctx_status(ctx) == ZT_EIO, "%s cut after opening: %s", name,
       zt_ctx_error(ctx));
    zt_llm_close(m);
    zt_engine_close(e);
    zt_gguf_close(g);
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
}

/* ---------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    char self[4096], archs[4200];
    snprintf(self, sizeof self, "%s", argv[0]);
    snprintf(archs, sizeof archs, argc > 1 ? "%s" : "%s/../archs",
             argc > 1 ? argv[1] : dirname(self));
    if (!ok(hostile_open(argv[0]), "zt-run is there"))
        return tap_done();
    if (golden_folder()) {
        test_set("gguf");
        test_set("safetensors");
    } else {
        skip("no golden data");
    }
    test_configs(archs);
    test_shrunk(archs, "llama");
    hostile_close();
    return tap_done();
}
