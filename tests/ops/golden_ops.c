/* golden_ops.c - the golden sets ops/vjp, ops/onnx and layers: every op's values, and where the set
 * has them vector-Jacobian products, on ref and cpu. How a golden op is spelled here stands in
 * tests/ops/spell/, a list a family. What is left out is so by operator, dtype or attribute, and is
 * counted and printed with its reason; ops that have no spelling are printed too. */
#include "lib/run/run.h"
#include "tests/common/golden.h"
#include "tests/common/npy.h"
#include "tests/ops/spell/all.h"
#include "tests/ops/spell/attrs.h"
#include "tests/common/tap.h"

/* The sets, and the share of their cases that must pass. */
static const struct {
    const char *name;
    int pass, of;
    bool dtypes; /* do the outputs' count */
    bool scaled; /* does atol grow with the largest value */
} sets[] = {
    {"ops/vjp", 1, 1, false, true},
    {"ops/onnx", 800, 880, true, false},
    {"layers", 1, 1, false, true},
};
enum { SETS = sizeof sets / sizeof sets[0] };

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct golden_case {
    zt_ctx *ctx;
    const json_t *json;
    const npz *z;
    const spelling *how;
    int set;
    const char *name;
    double rtol, atol;
    zt_prog *p;
    call call;
    held in[MAX_ARGS], made[MAX_MADE], seed[MAX_ARGS]; /* in the order of the programs' inputs */
    int n_made;
} golden_case;

static const json_t *entry(const golden_case *g, const char *list, int i)
{
    const json_t *t = json_array_get(json_object_get(g->json, list), (size_t)i);
    return json_is_object(t) ? t : NULL;
}

static const char *text_of(const golden_case *g, const char *list, int i, const char *key)
{
    return json_string_value(json_object_get(entry(g, list, i), key));
}

static int count(const golden_case *g, const char *list)
{
    int n = (int)json_array_size(json_object_get(g->json, list));
    return n < MAX_ARGS ? n : MAX_ARGS;
}

static void *narrowed(const int64_t *from, int64_t n)
{
    int32_t *to = calloc((size_t)n + 1, sizeof *to);
    for (int64_t i = 0; i < n; i++) to[i] = (int32_t)from[i];
    return to;
}

/* The values of an entry as zt holds them; ids: i64 as i32. False: they cannot be read. */
static bool load_value(const golden_case *golden, const char *list, int i, bool ids, held *h)
{
    const char *dtype = text_of(golden, list, i, "dtype"), *key = text_of(golden, list, i, "key");
    const logical *l = logical_named(dtype);
    zt_dtype t;
    npy a;
    if (!l || !dtype_of(dtype, &t) || !key || !npz_get(golden->z, key, &a)) return false;
    ids &= t == ZT_I64;
    h->type = zt_type_make(ids ? ZT_I32 : t, a.rank, a.shape);
    size_t bytes = zt_type_bytes(&h->type);
    if (ids) {
        h->data = narrowed(a.data, a.count);
    } else {
        h->data = calloc(1, bytes + 8);
        if (l->pack)
            l->pack(a.data, a.count, h->data);
        else if (bytes <= a.bytes)
            memcpy(h->data, a.data, bytes);
    }
    bool good = ids || l->pack || bytes <= a.bytes;
    npy_free(&a);
    return good;
}

static bool add_inputs(golden_case *golden)
{
    call *node = &golden->call;
    char name[16];
    node->n_in = count(golden, "inputs");
    node->n_out = count(golden, "outputs");
    for (int i = 0; i < node->n_out; i++) node->out_dtype[i] = text_of(golden, "outputs", i, "dtype");
    for (int i = 0; i < MAX_ARGS; i++) node->in[i] = ZT_NONE;
    for (int i = 0; i < node->n_in; i++) {
        if (!entry(golden, "inputs", i)) continue;
        if (!load_value(golden, "inputs", i, golden->how->ids, &golden->in[i])) return false;
        const zt_type *its_type = &golden->in[i].type;
        snprintf(name, sizeof name, "x%d", i);
        node->type[i] = *its_type;
        node->data[i] = golden->in[i].data;
        node->dtype[i] = text_of(golden, "inputs", i, "dtype");
        node->name[i] = text_of(golden, "inputs", i, "name");
        node->in[i] = zt_prog_in(golden->p, name, its_type->dtype, its_type->rank, its_type->dim);
    }
    return true;
}

static bool add_op(golden_case *golden)
{
    const spelling *s = golden->how;
    call *node = &golden->call;
    int in[ZT_MAX_IN], out[MAX_ARGS];
    int64_t attrs[ZT_MAX_ATTR_BYTES / 8];
    char name[16];
    for (int k = 0; k < MAX_ARGS; k++) out[k] = -1;
    if (s->build) {
        node->more = out + 1;
        out[0] = s->build(node);
    } else {
        const zt_opinfo *info = zt_op_info(s->op);
        for (int k = 0; k < ZT_MAX_IN; k++) {
            int from = s->order && k < (int)strlen(s->order) ? s->order[k] - '0' : k;
            in[k] = from < node->n_in && k < info->n_in ? node->in[from] : ZT_NONE;
        }
        if (!read_attrs(s, node->attrs, (char *)attrs)) return false;
        if (zt_prog_op(golden->p, s->op, attrs, in, NULL, out)) return false;
    }
    for (int k = 0; k < node->n_out; k++) {
        snprintf(name, sizeof name, "y%d", k);
        if (!node->out_dtype[k]) continue;
        if (out[k] < 0 || zt_prog_out(golden->p, name, out[k])) return false;
    }
    return true;
}

/* ---- running and comparing ------------------------------------------------------------------- */

static bool report_failure(const golden_case *g, const char *engine, const char *what)
{
    diag("%s on %s: %s: %s", g->name, engine, what, zt_ctx_error(g->ctx));
    zt_ctx_clear(g->ctx);
    return false;
}

static bool alike_type(const golden_case *golden, const zt_type *want, const zt_type *got)
{
    char a[ZT_TYPE_TEXT], b[ZT_TYPE_TEXT];
    zt_type type = *got;
    if (!sets[golden->set].dtypes) type.dtype = want->dtype;
    if (zt_type_equal(want, &type)) return true;
    diag("%s, not %s", zt_type_text(got, a), zt_type_text(want, b));
    return false;
}

/* What rounding to the dtype itself may lose; integers, and copies of floats, nothing. */
static double rtol_of(const golden_case *g, zt_dtype t)
{
    double least = t == ZT_BF16 ? 1e-2 : t == ZT_F16 ? 1e-3 : 0;
    return g->how->exact || !zt_dtype_is_float(t) ? 0 : fmax(g->rtol, least);
}

/* The largest finite size among them, at least 1. */
static double largest(const held *h)
{
    double most = 1;
    for (int64_t e = 0; e < zt_type_count(&h->type); e++) {
        double w = fabs(element(h->data, h->type.dtype, e));
        if (isfinite(w) && w > most) most = w;
    }
    return most;
}

static bool same_integers(const held *want, const zt_type *t, const void *got)
{
    return t->dtype == want->type.dtype && zt_dtype_get(t->dtype)->block_bytes == 8 && !memcmp(got, want->data, zt_type_bytes(t));
}

/* |got - want| <= atol + rtol |want|. */
static bool alike_values(const golden_case *golden, const held *want, const zt_type *its_type, const void *got)
{
    zt_dtype dt = want->type.dtype;
    bool wide = !zt_dtype_is_float(dt) && zt_dtype_get(dt)->block_bytes == 8;
    if (wide && its_type->dtype == dt) return same_integers(want, its_type, got);
    double rtol = rtol_of(golden, dt), atol = rtol > 0 ? golden->atol : 0;
    if (sets[golden->set].scaled || golden->how->sums) atol *= largest(want);
    for (int64_t e = 0; e < zt_type_count(&want->type); e++) {
        double w = element(want->data, dt, e), y = element(got, its_type->dtype, e);
        bool good = y == w || (isnan(y) && isnan(w)) || fabs(y - w) <= atol + rtol * fabs(w) ||
                    (dt == ZT_F64 && isinf((float)w) && y == (float)w);
        if (!good) diag("element %lld: %.9g, not %.9g", (long long)e, y, w);
        if (!good) return false;
    }
    return true;
}

static bool alike(const golden_case *golden, const char *list, int i, const zt_type *its_type, const void *got)
{
    held want = {.data = NULL};
    bool good = load_value(golden, list, i, false, &want) && alike_type(golden, &want.type, its_type) &&
                alike_values(golden, &want, its_type, got);
    if (!good) diag("%s %d is wrong", list, i);
    free(want.data);
    return good;
}

typedef struct results {
    int n;
    held out[4 * MAX_ARGS];
} results;

static void free_results(results *r)
{
    for (int o = 0; o < r->n; o++) free(r->out[o].data);
    r->n = 0;
}

static int gather_data(const held *h, int n, const void **in, int at)
{
    for (int i = 0; i < n; i++)
        if (h[i].data) in[at++] = h[i].data;
    return at;
}

/* Replays program on the case's data and keeps all outputs. */
static bool run_program(const golden_case *golden, zt_engine *e, const zt_prog *program, results *r)
{
    const void *in[2 * MAX_ARGS + MAX_MADE];
    void *out[4 * MAX_ARGS];
    int total = gather_data(golden->in, MAX_ARGS, in, 0);
    total = gather_data(golden->made, golden->n_made, in, total);
    gather_data(golden->seed, MAX_ARGS, in, total);
    *r = (results){.n = 0};
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    if (!bound) return false;
    for (r->n = 0; r->n < zt_prog_n_outputs(program) && r->n < 4 * MAX_ARGS; r->n++) {
        held *h = &r->out[r->n];
        h->type = bound->type[zt_prog_output(program, r->n)->value];
        out[r->n] = h->data = calloc(1, zt_type_bytes(&h->type) + 1);
    }
    zt_bound_free(bound);
    zt_session *session = zt_session_open(e, program, NULL, NULL);
    bool good = session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    zt_session_close(session);
    return good;
}

static bool check_forward(const golden_case *golden, zt_engine *e)
{
    results r;
    bool good = run_program(golden, e, golden->p, &r) || report_failure(golden, e->vt->name, "does not run");
    for (int k = 0, o = 0; k < golden->call.n_out && good; k++)
        if (golden->call.out_dtype[k]) {
            good = alike(golden, "outputs", k, &r.out[o].type, r.out[o].data) || report_failure(golden, e->vt->name, "output");
            o++;
        }
    free_results(&r);
    return good;
}

/* The gradient program, with the cotangents' data after the inputs'. */
static zt_prog *gradient(golden_case *golden)
{
    char names[MAX_ARGS][16];
    const char *of[MAX_ARGS];
    int n_of = 0, total = 0, wrt[MAX_ARGS];
    for (int k = 0; k < golden->call.n_out; k++) {
        if (!entry(golden, "cotangents", k)) continue;
        if (!golden->seed[k].data && !load_value(golden, "cotangents", k, false, &golden->seed[k])) return NULL;
        snprintf(names[k], sizeof names[k], "y%d", k);
        of[n_of++] = names[k];
    }
    for (int i = 0; i < golden->call.n_in; i++)
        if (entry(golden, "vjp", i)) wrt[total++] = golden->call.in[i];
    return zt_prog_grad(golden->ctx, golden->p, wrt, total, &(zt_grad_opts){.of = of, .n_of = n_of, .seeds = true});
}

static bool check_vjp(golden_case *golden, zt_engine *e)
{
    results r;
    int o = zt_prog_n_outputs(golden->p);
    zt_prog *program = gradient(golden);
    if (!program) return report_failure(golden, e->vt->name, "no gradient");
    bool good = run_program(golden, e, program, &r) || report_failure(golden, e->vt->name, "its gradient does not run");
    for (int i = 0; i < golden->call.n_in && good; i++)
        if (entry(golden, "vjp", i)) {
            good = alike(golden, "vjp", i, &r.out[o].type, r.out[o].data) || report_failure(golden, e->vt->name, "vjp");
            o++;
        }
    free_results(&r);
    zt_prog_free(program);
    return good;
}

static void drop(held *h, int n)
{
    for (int k = 0; k < n; k++) free(h[k].data);
    memset(h, 0, (size_t)n * sizeof *h);
}

/* Why the case is left out; NULL: it is not. Its program has its inputs. */
static const char *left_out(const golden_case *g) { return g->how->without ? g->how->without(&g->call) : NULL; }

/* A dtype that zt does not have: such a case cannot be written at all. */
static const char *strange_dtype(const golden_case *golden)
{
    static char reason[64];
    zt_dtype t;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < count(golden, k ? "outputs" : "inputs"); i++) {
            const char *dtype = text_of(golden, k ? "outputs" : "inputs", i, "dtype");
            if (!dtype || dtype_of(dtype, &t)) continue;
            snprintf(reason, sizeof reason, "%.40s is no dtype of zt", dtype);
            return reason;
        }
    return NULL;
}

/* Whether the case passes; `reason` says why it was left out instead. */
static bool check_case(golden_case *g, zt_engine *const *engines, const char **reason)
{
    if ((*reason = g->how->no ? g->how->no : strange_dtype(g))) return false;
    g->p = zt_prog_new(g->ctx);
    g->call = (call){
        .p = g->p, .op = g->how->golden, .attrs = json_object_get(g->json, "attrs"), .made = g->made, .n_made = &g->n_made};
    bool good = add_inputs(g) || report_failure(g, "any", "cannot be read");
    if (good) good = !(*reason = left_out(g));
    if (good) good = add_op(g) || report_failure(g, "any", "cannot be written");
    for (int e = 0; e < 2 && good; e++) {
        good = check_forward(g, engines[e]);
        if (good && count(g, "vjp") > 0) good = check_vjp(g, engines[e]);
        drop(g->seed, MAX_ARGS);
    }
    drop(g->in, MAX_ARGS);
    drop(g->made, MAX_MADE);
    zt_prog_free(g->p);
    return good;
}

/* ---- walking --------------------------------------------------------------------------------- */

typedef struct tally {
    char what[80]; /* an op, or a reason */
    int set, cases, passed, left;
    bool spelled;
} tally;

static struct {
    tally list[512];
    int n;
} ops, reasons;

static tally *tally_of(bool op, int set, const char *what)
{
    tally *list = op ? ops.list : reasons.list;
    int *total = op ? &ops.n : &reasons.n;
    for (int i = 0; i < *total; i++)
        if (list[i].set == set && !strncmp(list[i].what, what, sizeof list[i].what - 1)) return &list[i];
    if (*total == 512) return &list[511];
    snprintf(list[*total].what, sizeof list[*total].what, "%s", what);
    list[*total].set = set;
    return &list[(*total)++];
}

/* The npz of a case, kept open while the next case has the same. */
static const npz *archive(const char *folder, const char *set, const char *file)
{
    static npz z;
    static char open_now[512];
    char path[512];
    if (!folder) {
        if (open_now[0]) npz_close(&z);
        open_now[0] = 0;
        return NULL;
    }
    snprintf(path, sizeof path, "%s/%s/%s", folder, set, file);
    if (!strcmp(path, open_now)) return &z;
    if (open_now[0]) npz_close(&z);
    open_now[0] = 0;
    if (!npz_open(&z, path)) return NULL;
    snprintf(open_now, sizeof open_now, "%s", path);
    return &z;
}

static void check_cases(zt_ctx *ctx, zt_engine *const *engines, const char *folder, int set, const json_t *cases)
{
    size_t i;
    json_t *json;
    json_array_foreach(cases, i, json)
    {
        const json_t *tol = json_object_get(json, "tol");
        const char *op = json_string_value(json_object_get(json, "op")), *reason = NULL;
        golden_case g = {.ctx = ctx,
                         .json = json,
                         .how = spelled(sets[set].name, op),
                         .set = set,
                         .name = json_string_value(json_object_get(json, "name")),
                         .rtol = json_number_value(json_object_get(tol, "rtol")),
                         .atol = json_number_value(json_object_get(tol, "atol"))};
        tally *t = tally_of(true, set, op);
        t->cases++;
        t->spelled = g.how != NULL;
        if (!g.how) continue;
        g.z = archive(folder, sets[set].name, json_string_value(json_object_get(json, "file")));
        t->passed += g.z && check_case(&g, engines, &reason);
        t->left += reason != NULL;
        if (reason) tally_of(false, set, reason)->cases++;
    }
    archive(NULL, NULL, NULL);
}

/* The ops of a set that have no spelling, a few a line. */
static void print_missing(int set)
{
    char line[160] = "";
    for (int i = 0; i < ops.n; i++) {
        const tally *t = &ops.list[i];
        char text[64];
        if (t->set != set || t->spelled) continue;
        snprintf(text, sizeof text, " %.40s %d", t->what, t->cases);
        if (strlen(line) + strlen(text) >= 100) {
            diag("%s", line);
            line[0] = 0;
        }
        strcat(line, text);
    }
    if (line[0]) diag("%s", line);
}

/* Nothing that is spelled may fail; what passes must be share enough of all cases that are here. */
static void report(int set)
{
    int all = 0, passed = 0, left = 0, missing = 0;
    for (int i = 0; i < ops.n; i++) {
        const tally *t = &ops.list[i];
        if (t->set != set) continue;
        all += t->cases, passed += t->passed, left += t->left;
        if (!t->spelled) missing += t->cases;
        if (t->spelled && t->cases > t->left)
            ok(t->passed == t->cases - t->left, "%s %s: %d of %d cases", sets[set].name, t->what, t->passed, t->cases - t->left);
    }
    diag("%s: %d of %d cases pass, %d left out", sets[set].name, passed, all, left);
    for (int i = 0; i < reasons.n; i++)
        if (reasons.list[i].set == set) diag("  %d: %s", reasons.list[i].cases, reasons.list[i].what);
    if (missing) diag("  %d: no spelling", missing);
    print_missing(set);
    ok(passed * sets[set].of >= all * sets[set].pass, "%s: %d of %d cases pass, %d in %d must", sets[set].name, passed, all,
       sets[set].pass, sets[set].of);
}

int main(void)
{
    const char *folder = golden_folder();
    char path[512];
    if (!folder) {
        skip("no golden cases (ZT_GOLDEN)");
        return tap_done();
    }
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engines[2] = {zt_engine_open(ctx, "ref", &(zt_engine_opts){0}),
                             zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2})};
    ok(engines[0] && engines[1], "the engines open");
    for (int set = 0; set < SETS; set++) {
        snprintf(path, sizeof path, "%s/%s/manifest.json", folder, sets[set].name);
        if (!golden_has(path)) continue;
        json_t *manifest = json_load_file(path, 0, NULL);
        ok(manifest != NULL, "the list of %s is read", sets[set].name);
        check_cases(ctx, engines, folder, set, json_object_get(manifest, "cases"));
        report(set);
        json_decref(manifest);
    }
    zt_engine_close(engines[0]);
    zt_engine_close(engines[1]);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
