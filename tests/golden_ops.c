/* golden_ops.c - golden/ops/vjp: every op's values and vector-Jacobian products on ref and cpu, as
 * PyTorch has them. One table (spellings.h) says how a golden op is spelled here; ops that are not
 * in it are counted and printed. */
#include "lib/run/run.h"
#include "tests/golden.h"
#include "tests/npy.h"
#include "tests/spellings.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>

/* ---- attributes ------------------------------------------------------------------------------ */

static double json_number(const json_t *v)
{
    const char *s = json_string_value(v);
    if (s) return strtod(s, NULL); /* "inf" */
    return json_is_boolean(v) ? json_is_true(v) : json_number_value(v);
}

static bool set_attr(const zt_opinfo *info, const char *name, const json_t *v, char *attrs)
{
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *a = &info->attrs[k];
        if (strcmp(a->name, name)) continue;
        double d = json_number(v);
        int64_t i = (int64_t)d;
        zt_dims dims = {.n = (int64_t)json_array_size(v)};
        zt_word word = {{0}};
        for (int64_t j = 0; j < dims.n && j < ZT_MAX_RANK; j++)
            dims.dim[j] = json_integer_value(json_array_get(v, (size_t)j));
        if (json_string_value(v)) snprintf(word.s, sizeof word.s, "%s", json_string_value(v));
        if (a->kind == ZT_ATTR_f64) memcpy(attrs + a->offset, &d, sizeof d);
        if (a->kind == ZT_ATTR_i64) memcpy(attrs + a->offset, &i, sizeof i);
        if (a->kind == ZT_ATTR_dims) memcpy(attrs + a->offset, &dims, sizeof dims);
        zt_ints ints = json_is_array(v) ? (zt_ints){.n = dims.n} : (zt_ints){1, {i}};
        if (json_is_array(v)) memcpy(ints.v, dims.dim, sizeof ints.v);
        if (a->kind == ZT_ATTR_ints) memcpy(attrs + a->offset, &ints, sizeof ints);
        if (a->kind == ZT_ATTR_word) memcpy(attrs + a->offset, &word, sizeof word);
        return true;
    }
    return false;
}

/* "c:by" among the renames of a spelling. */
static const char *renamed(const spelling *s, const char *name, char *buf, size_t room)
{
    size_t n = strlen(name);
    for (const char *at = s->attrs; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (!strncmp(at, name, n) && at[n] == ':') {
            snprintf(buf, room, "%.*s", (int)strcspn(at + n + 1, " "), at + n + 1);
            return buf;
        }
    return name;
}

static bool read_attrs(const spelling *s, const json_t *given, char *attrs)
{
    const zt_opinfo *info = zt_op_info(s->op);
    const char *key;
    char name[64], word[64];
    json_t *v;
    bool good = true;
    memcpy(attrs, info->defaults, info->attr_bytes);
    json_object_foreach((json_t *)given, key, v) good &=
        set_attr(info, renamed(s, key, name, sizeof name), v, attrs);
    if (s->fixed && sscanf(s->fixed, "%63[^=]=%63s", name, word) == 2) {
        char *end;
        double d = strtod(word, &end);
        v = *end ? json_string(word) : json_real(d);
        good &= set_attr(info, name, v, attrs);
        json_decref(v);
    }
    return good;
}

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct golden_case {
    zt_ctx *ctx;
    const json_t *json;
    const npz *z;
    const spelling *how;
    const char *name;
    double rtol, atol;
    zt_prog *p;
    int in[MAX_ARGS], n_in, n_out;
    void *data[2 * MAX_ARGS]; /* of the inputs, then of the cotangents that there are */
} golden_case;

static zt_dtype dtype_of(const npy *a, bool ids)
{
    static const struct {
        const char *descr;
        zt_dtype dtype;
    } list[] = {{"<f4", ZT_F32}, {"<f8", ZT_F64}, {"<f2", ZT_F16}, {"<i8", ZT_I64}, {"<i4", ZT_I32},
                {"<i2", ZT_I16}, {"|i1", ZT_I8},  {"|u1", ZT_U8},  {"|b1", ZT_BOOL}};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (!strcmp(a->descr, list[i].descr))
            return ids && list[i].dtype == ZT_I64 ? ZT_I32 : list[i].dtype;
    return ZT_DTYPE_COUNT;
}

static bool get(const golden_case *g, const char *list, int i, npy *a)
{
    const json_t *t = json_array_get(json_object_get(g->json, list), (size_t)i);
    const char *key = json_string_value(json_object_get(t, "key"));
    return key && npz_get(g->z, key, a);
}

static int count(const golden_case *g, const char *list)
{
    return (int)json_array_size(json_object_get(g->json, list));
}

static bool there(const golden_case *g, const char *list, int i)
{
    return json_is_object(json_array_get(json_object_get(g->json, list), (size_t)i));
}

static double element(const void *data, zt_dtype t, int64_t i)
{
    const char *at = (const char *)data + i * zt_dtype_get(t)->block_bytes;
    int64_t v = 0;
    double d;
    float f;
    if (t == ZT_F64) memcpy(&d, at, sizeof d);
    if (t == ZT_F64) return d;
    if (zt_dtype_is_float(t)) zt_dtype_get(t)->decode(at, &f, 1);
    if (zt_dtype_is_float(t)) return (double)f;
    memcpy(&v, at, (size_t)zt_dtype_get(t)->block_bytes);
    int unused = 64 - 8 * zt_dtype_get(t)->block_bytes;
    bool sign = zt_dtype_get(t)->kind == 'I';
    return sign ? (double)((int64_t)((uint64_t)v << unused) >> unused) : (double)v;
}

static void *copy_values(const npy *a, zt_dtype to)
{
    size_t size = (size_t)zt_dtype_get(to)->block_bytes;
    char *data = calloc((size_t)a->count + 1, size);
    if (to != ZT_I32 || !strcmp(a->descr, "<i4")) {
        memcpy(data, a->data, (size_t)a->count * size);
        return data;
    }
    for (int64_t i = 0; i < a->count; i++) {
        int64_t v;
        memcpy(&v, (const char *)a->data + i * 8, 8);
        int32_t w = (int32_t)v;
        memcpy(data + i * 4, &w, 4);
    }
    return data;
}

static bool add_inputs(golden_case *g, call *c)
{
    char name[16];
    g->n_in = count(g, "inputs");
    for (int i = 0; i < g->n_in && i < MAX_ARGS; i++) {
        npy a;
        g->in[i] = c->in[i] = ZT_NONE;
        if (!there(g, "inputs", i)) continue;
        if (!get(g, "inputs", i, &a)) return false;
        zt_dtype t = dtype_of(&a, g->how->ids);
        snprintf(name, sizeof name, "x%d", i);
        c->type[i] = zt_type_make(t, a.rank, a.shape);
        g->in[i] = c->in[i] = zt_prog_in(g->p, name, t, a.rank, a.shape);
        g->data[i] = copy_values(&a, t);
        npy_free(&a);
    }
    return g->n_in <= MAX_ARGS;
}

static bool add_op(golden_case *g, const call *c)
{
    const spelling *s = g->how;
    int in[ZT_MAX_IN], out[ZT_MAX_OUT];
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    char name[16];
    g->n_out = count(g, "outputs");
    for (int k = 0; k < ZT_MAX_OUT; k++) out[k] = -1;
    if (s->build) {
        call with = *c;
        with.more = out + 1;
        out[0] = s->build(&with);
    } else {
        const zt_opinfo *info = zt_op_info(s->op);
        for (int k = 0; k < ZT_MAX_IN; k++) {
            int from = s->order && k < (int)strlen(s->order) ? s->order[k] - '0' : k;
            in[k] = from < g->n_in && k < info->n_in ? c->in[from] : ZT_NONE;
        }
        if (!read_attrs(s, c->attrs, (char *)attrs)) return false;
        if (zt_prog_op(g->p, s->op, attrs, in, NULL, out)) return false;
    }
    for (int k = 0; k < g->n_out && k < ZT_MAX_OUT; k++) {
        snprintf(name, sizeof name, "y%d", k);
        if (out[k] < 0 || zt_prog_out(g->p, name, out[k])) return false;
    }
    return true;
}

/* ---- running and comparing ------------------------------------------------------------------- */

static bool says(const golden_case *g, const char *engine, const char *what)
{
    diag("%s on %s: %s: %s", g->name, engine, what, zt_ctx_error(g->ctx));
    zt_ctx_clear(g->ctx);
    return false;
}

/* |got - want| <= atol + rtol |want|; atol grows with the largest value, for sums' sake. */
static bool alike(const golden_case *g, const char *list, int i, const zt_type *t, const void *got)
{
    npy a;
    if (!get(g, list, i, &a)) return false;
    zt_dtype dt = dtype_of(&a, false);
    double most = 1;
    bool good = a.count == zt_type_count(t);
    for (int64_t e = 0; e < a.count; e++) {
        double w = fabs(element(a.data, dt, e));
        if (isfinite(w) && w > most) most = w;
    }
    for (int64_t e = 0; e < a.count && good; e++) {
        double w = element(a.data, dt, e), y = element(got, t->dtype, e);
        if (zt_dtype_is_float(t->dtype) && zt_dtype_is_float(dt)) w = isfinite(w) ? w : (float)w;
        good = y == w || (isnan(y) && isnan(w)) ||
               fabs(y - w) <= g->atol * most + g->rtol * fabs(w) ||
               (isinf((float)w) && y == (float)w);
        if (!good)
            diag("%s %d, element %lld: %.9g, not %.9g", list, i, (long long)e, y, w);
    }
    npy_free(&a);
    return good;
}

/* Replays p (inputs: the case's data in order) and keeps all outputs, malloc'ed. */
static bool run(const golden_case *g, zt_engine *e, const zt_prog *p, void **out, zt_type *type)
{
    int n = zt_prog_n_outputs(p);
    zt_bound *b = zt_prog_bind(p, NULL, 0);
    if (!b) return false;
    const void *in[2 * MAX_ARGS];
    int n_in = 0;
    for (int i = 0; i < 2 * MAX_ARGS; i++)
        if (g->data[i]) in[n_in++] = g->data[i];
    for (int o = 0; o < n; o++) {
        type[o] = b->type[zt_prog_output(p, o)->value];
        out[o] = calloc(1, zt_type_bytes(&type[o]) + 1);
    }
    zt_bound_free(b);
    zt_session *s = zt_session_open(e, p, NULL, NULL);
    bool good = s && zt_session_step(s, NULL, 0, in, out) == ZT_OK;
    zt_session_close(s);
    return good;
}

static bool check_forward(golden_case *g, zt_engine *e)
{
    void *out[4 * MAX_ARGS] = {0};
    zt_type type[4 * MAX_ARGS];
    bool good = run(g, e, g->p, out, type) || says(g, e->vt->name, "does not run");
    for (int k = 0; k < g->n_out && good; k++)
        if (there(g, "outputs", k))
            good = alike(g, "outputs", k, &type[k], out[k]) || says(g, e->vt->name, "output");
    for (int o = 0; o < zt_prog_n_outputs(g->p); o++) free(out[o]);
    return good;
}

/* The gradient program, with the cotangents' data after the inputs'. */
static zt_prog *gradient(golden_case *g, int *wrt, int *n)
{
    static const char *const names[ZT_MAX_OUT] = {"y0", "y1", "y2", "y3", "y4", "y5"};
    const char *of[ZT_MAX_OUT];
    int n_of = 0;
    for (int k = 0; k < g->n_out && k < ZT_MAX_OUT; k++) {
        npy a;
        if (!there(g, "cotangents", k) || !get(g, "cotangents", k, &a)) continue;
        if (!g->data[MAX_ARGS + k]) g->data[MAX_ARGS + k] = copy_values(&a, dtype_of(&a, false));
        npy_free(&a);
        of[n_of++] = names[k];
    }
    *n = 0;
    for (int i = 0; i < g->n_in; i++)
        if (there(g, "vjp", i)) wrt[(*n)++] = g->in[i];
    return zt_prog_grad(g->ctx, g->p, wrt, *n,
                        &(zt_grad_opts){.of = of, .n_of = n_of, .seeds = true});
}

static bool check_vjp(golden_case *g, zt_engine *e)
{
    void *out[4 * MAX_ARGS] = {0};
    zt_type type[4 * MAX_ARGS];
    int wrt[MAX_ARGS], n, o = zt_prog_n_outputs(g->p);
    zt_prog *p = gradient(g, wrt, &n);
    if (!p) return says(g, e->vt->name, "no gradient");
    bool good = run(g, e, p, out, type) || says(g, e->vt->name, "its gradient does not run");
    for (int i = 0; i < g->n_in && good; i++)
        if (there(g, "vjp", i)) {
            good = alike(g, "vjp", i, &type[o], out[o]) || says(g, e->vt->name, "vjp");
            o++;
        }
    for (int k = 0; k < zt_prog_n_outputs(p); k++) free(out[k]);
    zt_prog_free(p);
    return good;
}

static bool check_case(golden_case *g, zt_engine *const *engines)
{
    bool good = true;
    g->p = zt_prog_new(g->ctx);
    call c = {.p = g->p, .attrs = json_object_get(g->json, "attrs")};
    if (!add_inputs(g, &c) || !add_op(g, &c)) good = says(g, "any", "cannot be written");
    for (int e = 0; e < 2 && good; e++) {
        good = check_forward(g, engines[e]);
        if (good && count(g, "vjp") > 0) good = check_vjp(g, engines[e]);
        for (int k = 0; k < MAX_ARGS; k++) {
            free(g->data[MAX_ARGS + k]);
            g->data[MAX_ARGS + k] = NULL;
        }
    }
    for (int k = 0; k < MAX_ARGS; k++) free(g->data[k]);
    zt_prog_free(g->p);
    return good;
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct tally {
    char op[48];
    int cases, passed;
    bool built;
} tally;

static tally tallies[512];
static int n_tallies;

static tally *tally_of(const char *op)
{
    for (int i = 0; i < n_tallies; i++)
        if (!strcmp(tallies[i].op, op)) return &tallies[i];
    if (n_tallies == (int)(sizeof tallies / sizeof tallies[0])) return &tallies[n_tallies - 1];
    snprintf(tallies[n_tallies].op, sizeof tallies[0].op, "%s", op);
    return &tallies[n_tallies++];
}

/* The npz of a case, kept open while the next case has the same. */
static const npz *archive(const char *folder, const char *file)
{
    static npz z;
    static char open_now[512];
    char path[512];
    if (!folder) {
        if (open_now[0]) npz_close(&z);
        return NULL;
    }
    snprintf(path, sizeof path, "%s/ops/vjp/%s", folder, file);
    if (!strcmp(path, open_now)) return &z;
    if (open_now[0]) npz_close(&z);
    open_now[0] = 0;
    if (!npz_open(&z, path)) return NULL;
    snprintf(open_now, sizeof open_now, "%s", path);
    return &z;
}

static void walk(zt_ctx *ctx, zt_engine *const *engines, const char *folder, const json_t *cases)
{
    size_t i;
    json_t *json;
    json_array_foreach(cases, i, json)
    {
        const json_t *tol = json_object_get(json, "tol");
        const char *op = json_string_value(json_object_get(json, "op"));
        golden_case g = {.ctx = ctx,
                         .json = json,
                         .how = spelled(op),
                         .name = json_string_value(json_object_get(json, "name")),
                         .rtol = json_number_value(json_object_get(tol, "rtol")),
                         .atol = json_number_value(json_object_get(tol, "atol"))};
        tally *t = tally_of(op);
        t->cases++;
        t->built = g.how != NULL;
        if (!g.how) continue;
        g.z = archive(folder, json_string_value(json_object_get(json, "file")));
        t->passed += g.z && check_case(&g, engines);
    }
    archive(NULL, NULL);
}

static void report(void)
{
    int built = 0, all = 0;
    char line[160] = "";
    for (int i = 0; i < n_tallies; i++) {
        const tally *t = &tallies[i];
        all += t->cases;
        if (!t->built) continue;
        ok(t->passed == t->cases, "%s: %d of %d cases, values and gradients", t->op, t->passed,
           t->cases);
        built += t->cases;
    }
    diag("%d of %d cases are of ops in the table; not built yet:", built, all);
    for (int i = 0; i < n_tallies; i++) {
        if (tallies[i].built) continue;
        char text[64];
        snprintf(text, sizeof text, " %.40s %d", tallies[i].op, tallies[i].cases);
        if (strlen(line) + strlen(text) >= 100) {
            diag("%s", line);
            line[0] = 0;
        }
        strcat(line, text);
    }
    if (line[0]) diag("%s", line);
}

int main(void)
{
    const char *folder = golden_folder();
    char path[512];
    if (!folder) {
        skip("no golden cases (ZT_GOLDEN)");
        return tap_done();
    }
    snprintf(path, sizeof path, "%s/ops/vjp/manifest.json", folder);
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engines[2] = {zt_engine_open(ctx, "ref", &(zt_engine_opts){0}),
                             zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2})};
    json_t *manifest = golden_has(path) ? json_load_file(path, 0, NULL) : NULL;
    ok(engines[0] && engines[1], "the engines open");
    if (manifest) walk(ctx, engines, folder, json_object_get(manifest, "cases"));
    if (golden_has(path)) ok(manifest != NULL, "the list of cases is read");
    report();
    json_decref(manifest);
    zt_engine_close(engines[0]);
    zt_engine_close(engines[1]);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
