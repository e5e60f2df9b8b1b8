/* golden_nn_report.c - golden/loom names, layer_stats, telemetry, universal_loader: what is told of
 * networks and of tensors without names, by lib/nn. */
#include "tests/common/golden_network.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const char *kind_of(const char *text, int *id)
{
    zt_nn_kind k;
    zt_nn_kind_parse(text, &k);
    return zt_nn_kind_name((zt_nn_kind)(*id = (int)k));
}

static const char *act_of(const char *text, int *id)
{
    zt_nn_act a;
    zt_nn_act_parse(text, &a);
    return zt_nn_act_name((zt_nn_act)(*id = (int)a));
}

static const char *softmax_of(const char *text, int *id)
{
    zt_nn_softmax s;
    zt_nn_softmax_parse(text, &s);
    return zt_nn_softmax_name((zt_nn_softmax)(*id = (int)s));
}

static const char *dtype_of(const char *text, int *id)
{
    static const zt_storage number[] = {
        /* of Loom's, in their order */
        ZT_STORE_F64, ZT_STORE_F32, ZT_STORE_F16, ZT_STORE_BF16, ZT_STORE_FP8E4M3, ZT_STORE_FP8E5M2, ZT_STORE_I64,
        ZT_STORE_I32, ZT_STORE_I16, ZT_STORE_I8,  ZT_STORE_U64,  ZT_STORE_U32,     ZT_STORE_U16,     ZT_STORE_U8,
        ZT_STORE_I4,  ZT_STORE_U4,  ZT_STORE_FP4, ZT_STORE_I2,   ZT_STORE_U2,      ZT_STORE_TERNARY, ZT_STORE_BINARY};
    zt_storage t;
    zt_nn_dtype_parse(text, &t);
    for (int i = 0; i < ZT_STORE_COUNT; i++)
        if (number[i] == t) *id = i;
    return zt_netjson_word(t);
}

static void names_case(const json_t *root, const char *name)
{
    static const struct {
        const char *kind;
        const char *(*parse)(const char *text, int *id);
    } rows[] = {{"layer", kind_of}, {"activation", act_of}, {"softmax", softmax_of}, {"dtype", dtype_of}};
    size_t i;
    const json_t *value;
    json_array_foreach(root, i, value)
    {
        const char *kind = json_string_value(json_object_get(value, "kind")),
                   *text = json_string_value(json_object_get(value, "text")), *got = NULL;
        int id = -2;
        for (int k = 0; k < 4 && kind && text; k++)
            if (!strcmp(kind, rows[k].kind)) got = rows[k].parse(text, &id);
        ok(got && !strcmp(got, json_string_value(json_object_get(value, "name"))) &&
               id == (int)json_integer_value(json_object_get(value, "id")),
           "%s: %s '%s'", name, kind, text);
    }
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void stats_case(const json_t *root, const char *name)
{
    size_t count;
    float *x = floats(json_object_get(root, "data"), &count);
    zt_nn_stats s = zt_nn_stats_of(x, (int64_t)count);
    const double got[] = {s.avg, s.max, s.min, (double)s.active, (double)s.total};
    static const char *const key[] = {"avg", "max", "min", "active", "total"};
    for (int k = 0; k < 5; k++) ok(loom_near(got[k], loom_number(json_object_get(root, key[k])), 1e-6), "%s: %s", name, key[k]);
    free(x);
}

/* Has `got` all that `want` has? */
static bool holds(const json_t *got, const json_t *want)
{
    const char *key;
    json_t *value;
    size_t i;
    bool well = json_typeof(got) == json_typeof(want);
    json_object_foreach((json_t *)want, key, value) well =
        well && json_object_get(got, key) && holds(json_object_get(got, key), value);
    if (!json_is_array(want)) return well && (json_is_object(want) || json_equal(got, want));
    well = well && json_array_size(got) == json_array_size(want);
    json_array_foreach(want, i, value) well = well && holds(json_array_get(got, i), value);
    return well;
}

static void blueprint_case(const json_t *root, const char *name)
{
    zt_ctx *ctx = zt_ctx_new();
    const json_t *want = json_object_get(root, "blueprint");
    char *text = json_dumps(json_object_get(root, "network"), JSON_COMPACT);
    zt_source *source = zt_source_memory(ctx, "net.json", text, strlen(text));
    zt_nn *nn = zt_nn_from(ctx, source, 0);
    zt_str out;
    zt_str_init(&out, ctx);
    bool well = nn && zt_nn_blueprint(nn, json_string_value(json_object_get(want, "id")), &out) == ZT_OK;
    json_t *got = well ? json_loads(out.data, 0, NULL) : NULL;
    ok(got && holds(json_array_get(json_object_get(got, "models"), 0), want), "%s%s%s", name, *zt_ctx_error(ctx) ? ": " : "",
       zt_ctx_error(ctx));
    json_decref(got);
    zt_str_fini(&out);
    zt_nn_close(nn);
    zt_source_close(source);
    free(text);
    zt_ctx_free(ctx);
}

/* ---- tensors without names ------------------------------------------------------------------- */

static bool archetype_is(const zt_nn_archetype *a, const json_t *want)
{
    const json_t *roles = json_object_get(want, "indices"), *metrics = json_object_get(want, "metrics");
    zt_nn_kind kind;
    bool well = zt_nn_kind_parse(json_string_value(json_object_get(want, "type")), &kind) && kind == a->kind &&
                !strcmp(a->type, json_string_value(json_object_get(want, "type_name"))) &&
                (size_t)a->role_count == json_object_size(roles) && (size_t)a->metric_count == json_object_size(metrics);
    for (int64_t i = 0; i < a->role_count && well; i++) {
        const json_t *element = json_object_get(roles, a->roles[i].name);
        well = element && json_integer_value(element) == a->roles[i].tensor;
    }
    for (int64_t i = 0; i < a->metric_count && well; i++) {
        const json_t *element = json_object_get(metrics, a->metrics[i].name);
        well = element && json_integer_value(element) == a->metrics[i].value;
    }
    return well;
}

static bool missed_are(const zt_nn_probe *p, const json_t *missed)
{
    size_t at = 0;
    for (int64_t i = 0; i < zt_nn_probe_tensors(p); i++)
        if (!zt_nn_probe_matched(p, i) && json_integer_value(json_array_get(missed, at++)) != i) return false;
    return at == json_array_size(missed);
}

/* ---- networks of them ---- */

/* A safetensors file of the case's geometries, each of one value: its mean magnitude. Names say no
 * more than the order. */
static bool write_tensors(zt_ctx *ctx, const json_t *root, const char *path)
{
    enum { MOST_TENSORS = 64 };
    const json_t *list = json_object_get(root, "geometries");
    size_t size = json_array_size(list);
    zt_entry entry[MOST_TENSORS];
    char names[MOST_TENSORS][8];
    zt_meta *meta = zt_meta_new(ctx);
    for (size_t i = 0; i < size && i < MOST_TENSORS; i++) {
        zt_type type = type_of(json_array_get(list, i));
        snprintf(names[i], sizeof names[i], "t%02zu", i);
        entry[i] = (zt_entry){names[i], "f32", type, zt_type_bytes(&type)};
    }
    zt_writer *writer =
        size <= MOST_TENSORS ? zt_writer_open(ctx, path, &(zt_checkpoint_opts){.force = true}, meta, entry, (int64_t)size) : NULL;
    zt_status status = writer ? ZT_OK : ZT_EUSAGE;
    for (size_t i = 0; i < size && !status; i++) {
        double mean = loom_number(json_object_get(json_array_get(list, i), "mean_abs"));
        float *x = malloc(entry[i].bytes + 1);
        for (size_t k = 0; k < entry[i].bytes / sizeof *x; k++) x[k] = (float)mean;
        status = zt_writer_put(writer, x, entry[i].bytes);
        free(x);
    }
    if (!status) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_meta_free(meta);
    return !status;
}

static bool number_is(const json_t *want, const char *key, int64_t got)
{
    int64_t n = json_integer_value(json_object_get(want, key));
    return n == 0 || n == got; /* what the original leaves out is 0 */
}

/* A layer as the original mounts it, which leaves convolutions without sizes and weights. */
static bool mounted_is(zt_nn *nn, const zt_nn_layer *l, const json_t *want)
{
    const char *type = json_string_value(json_object_get(want, "type"));
    bool conv = l->kind >= ZT_NN_CNN1 && l->kind <= ZT_NN_CNN3;
    return type && !strcmp(type, zt_nn_kind_name(l->kind)) && number_is(want, "in", l->input_height) &&
           number_is(want, "out", l->output_height) && number_is(want, "d_model", l->d_model) &&
           number_is(want, "filters", l->filters) && number_is(want, "kernel", l->kernel_size) &&
           (conv || number_is(want, "weights", zt_nn_layer_size(nn, l)));
}

/* Metadata is a layer of nothing there, and none here. */
static void mounted_case(const json_t *root, const char *name)
{
    zt_ctx *ctx = zt_ctx_new();
    const json_t *mounted = json_object_get(root, "mounted"), *want;
    char path[64];
    size_t i;
    int64_t at = 0;
    snprintf(path, sizeof path, "/tmp/zt-mounted-%ld.safetensors", (long)getpid());
    bool well = write_tensors(ctx, root, path);
    zt_checkpoint *checkpoint = well ? zt_checkpoint_open(ctx, path, 0) : NULL;
    zt_nn_probe *p = checkpoint ? zt_nn_probe_of(ctx, checkpoint, NULL, 0) : NULL;
    zt_nn *nn = p ? zt_nn_mount(ctx, p, checkpoint, NULL) : NULL;
    well = nn != NULL;
    json_array_foreach(mounted, i, want)
    {
        bool nothing = !strcmp(json_string_value(json_object_get(want, "type")), "Sequential");
        if (nothing || !well) continue;
        well = at < zt_nn_count(nn) && mounted_is(nn, zt_nn_layer_at(nn, at), want);
        at++;
    }
    ok(well && at == zt_nn_count(nn), "%s: mounted%s%s", name, *zt_ctx_error(ctx) ? ": " : "", zt_ctx_error(ctx));
    zt_nn_close(nn);
    zt_nn_probe_free(p);
    zt_checkpoint_close(checkpoint);
    remove(path);
    zt_ctx_free(ctx);
}

static void universal_case(const json_t *root, const char *name)
{
    if (json_array_size(json_object_get(root, "mounted"))) mounted_case(root, name);
    const json_t *list = json_object_get(root, "geometries"), *archs = json_object_get(root, "archetypes");
    size_t size = json_array_size(list);
    zt_nn_geometry *g = calloc(size + 1, sizeof *g);
    zt_ctx *ctx = zt_ctx_new();
    for (size_t i = 0; i < size; i++) {
        const json_t *value = json_array_get(list, i);
        g[i].type = type_of(value);
        g[i].mean_abs = (float)loom_number(json_object_get(value, "mean_abs"));
        g[i].variance = (float)loom_number(json_object_get(value, "variance"));
    }
    zt_nn_probe *p = zt_nn_probe_new(ctx, g, (int64_t)size, NULL, 0);
    bool well = p && (size_t)zt_nn_probe_count(p) == json_array_size(archs) && missed_are(p, json_object_get(root, "missed"));
    for (int64_t i = 0; p && i < zt_nn_probe_count(p) && well; i++)
        well = archetype_is(zt_nn_probe_at(p, i), json_array_get(archs, (size_t)i));
    ok(well, "%s", name);
    zt_nn_probe_free(p);
    ok(zt_mem_get(ctx).blocks == 0, "%s: nothing leaks", name);
    zt_ctx_free(ctx);
    free(g);
}

int main(void)
{
    static const walked sets[] = {{"loom/names", names_case},
                                  {"loom/layer_stats", stats_case},
                                  {"loom/telemetry", blueprint_case},
                                  {"loom/universal_loader", universal_case}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) walk_set(&sets[i]);
    return tap_done();
}
