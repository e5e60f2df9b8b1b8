/* diff.c - lib/run: walks (every value of a program, op by op), differences of two values, and two
 * runs compared: an engine with one wrong kernel is found out at the first op that is wrong. */
#include "lib/run/diff.h"
#include "tests/common/tap.h"

#include <math.h>
#include <string.h>

enum { N = 6, W = 32, CTX = 8 };

static zt_ctx *ctx;

static zt_prog *parse(const char *text) { return zt_prog_parse(ctx, "test.zt", text, strlen(text)); }

static void said(const char *part)
{
    ok(strstr(zt_ctx_error(ctx), part) != NULL, "says '%s' (%s)", part, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

static zt_engine *open_engine(const char *name)
{
    return zt_engine_open(ctx, name, &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
}

/* ---- two values ------------------------------------------------------------------------------ */

static zt_difference compare(zt_dtype t, int n, const void *got, const void *want)
{
    zt_difference d;
    zt_type type = zt_type_make(t, 1, (int64_t[]){n});
    zt_compare(&type, got, want, &d);
    return d;
}

static void test_values(void)
{
    float a[400], b[400];
    for (int i = 0; i < 400; i++) a[i] = b[i] = (float)zt_normal(3, 0, (uint64_t)i);
    zt_difference d = compare(ZT_F32, 400, a, b);
    ok(d.nmse == 0 && d.max_abs == 0 && d.worst == -1 && d.bits == 0, "equal");
    a[300] += 0.5f;
    a[399] -= 0.25f;
    d = compare(ZT_F32, 400, a, b);
    ok(d.worst == 300 && d.bits == 2 && fabs(d.max_abs - 0.5) < 1e-6 && d.got == (double)a[300] && d.want == (double)b[300],
       "the worst element: %lld, %g", (long long)d.worst, d.max_abs);
    ok(fabs(d.nmse - 0.3125 / (d.rms * d.rms * 400)) < 1e-6, "the mean: %g", d.nmse);
    ok(zt_difference_share(&d, d.nmse / 2) > 1 && zt_difference_share(&d, 4) < 1 && zt_difference_share(&d, 0) == INFINITY,
       "shares of bounds");
    a[300] = b[300] = NAN;
    a[399] = b[399] = -INFINITY;
    d = compare(ZT_F32, 400, a, b);
    ok(d.nmse == 0 && d.worst == -1, "NaN is NaN, infinity infinity");
    a[7] = NAN;
    d = compare(ZT_F32, 400, a, b);
    ok(d.nmse == INFINITY && d.worst == 7 && zt_difference_share(&d, 1) == INFINITY, "a NaN");
    a[7] = b[7];
    a[9] = 0;
    b[9] = -0.0f;
    d = compare(ZT_F32, 400, a, b);
    ok(d.nmse == 0 && d.worst == -1 && d.bits == 1, "-0 has other bits, and is equal");
    /* One element of many: hidden in the mean, and found. */
    d = (zt_difference){.nmse = 1e-13, .max_abs = 1, .rms = 1, .worst = 0, .want = 1};
    ok(zt_difference_share(&d, 1e-12) > 1, "one wrong element");
    int64_t g[3] = {1, INT64_C(1) << 60, 3}, w[3] = {1, (INT64_C(1) << 60) + 1, 3};
    d = compare(ZT_I64, 3, g, w);
    ok(d.nmse == INFINITY && d.worst == 1 && d.bits == 1, "integers past 2^53");
    d = compare(ZT_I64, 3, g, g);
    ok(d.worst == -1 && d.bits == 0, "integers that are equal");
    d = compare(ZT_F32, 0, NULL, NULL);
    ok(d.nmse == 0 && d.worst == -1, "nothing");
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* A layer in small: a block weight, a fused op, a cache that is donated, a view, an integer. */
static const char *const layer = "zt program 1\n"
                                 "in    x: f32[n,32]\n"
                                 "in    pos: i32[n]\n"
                                 "data  w: q8_0[32,32] \"w\"\n"
                                 "data  g: f32[32] \"g\"\n"
                                 "state kc: f32[8,32]\n"
                                 "# a comment\n"
                                 "h = linear x w act=q8\n"
                                 "s, sum, r = add_rms_norm h x g\n"
                                 "u = silu s\n"
                                 "k1 = kv_put kc u pos\n"
                                 "v = reshape u shape=[32*n]\n"
                                 "y = scale v by=0.5\n"
                                 "i = argmax s\n"
                                 "t = attention s k1 k1 pos head=32\n"
                                 "keep  kc = k1\n"
                                 "out   y = y\n"
                                 "out   i = i\n"
                                 "out   t = t\n";

static float x[N * W], g[W];
static unsigned char w[W * 34];
static int32_t pos[N] = {0, 1, 2, 3, 4, 5};

static zt_status find_weight(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user;
    *handle = name[0];
    *type = name[0] == 'w' ? zt_type_make(ZT_Q8_0, 2, (int64_t[]){W, W}) : zt_type_make(ZT_F32, 1, (int64_t[]){W});
    return strcmp(name, "w") && strcmp(name, "g") ? ZT_ENOENT : ZT_OK;
}

static zt_status read_bytes(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user;
    memcpy(dst, (handle == 'w' ? (char *)w : (char *)g) + offset, n);
    return ZT_OK;
}

static const zt_store store = {.find = find_weight, .read = read_bytes};
static const zt_binding rows = {"n", N};

static void fill_all(void)
{
    zt_case c = {.in = {zt_type_make(ZT_Q8_0, 2, (int64_t[]){W, W})}, .fill = {ZT_FILL_NORMAL}};
    zt_case_fill(&c, 0, 1, w);
    for (int i = 0; i < N * W; i++) x[i] = (float)zt_normal(2, 0, (uint64_t)i);
    for (int i = 0; i < W; i++) g[i] = 1 + 0.1f * (float)zt_normal(3, 0, (uint64_t)i);
}

static zt_interpreter *walk_open(zt_engine *e, const zt_prog *p)
{
    zt_interpreter *k = zt_interpreter_open(e, p, &store, &rows, 1, false);
    zt_interpreter_put(k, zt_prog_find(p, "x"), x);
    zt_interpreter_put(k, zt_prog_find(p, "pos"), pos);
    return k;
}

/* What a session gives, bit for bit, and every value between. */
static void test_walk(const char *engine)
{
    float y[N * W], t[N * W], kc[CTX * W];
    int32_t i[N];
    const float zero[CTX * W] = {0};
    zt_engine *e = open_engine(engine);
    zt_prog *program = parse(layer);
    zt_interpreter *k = walk_open(e, program);
    zt_session *session = zt_session_open(e, program, &store, NULL);
    ok(!zt_interpreter_has(k, zt_prog_find(program, "h")) && zt_interpreter_has(k, zt_prog_find(program, "w")), "what is there");
    ok(!zt_interpreter_get(k, zt_prog_find(program, "u")), "what is not");
    said("'u' is not computed yet");
    bool ran = true;
    for (int n = 0; n < zt_prog_n_steps(program); n++) ran = ran && zt_interpreter_step(k, n) == ZT_OK;
    ok(ran, "%s: every op runs (%s)", engine, zt_ctx_error(ctx));
    ok(!zt_session_step(session, &rows, 1, (const void *[]){x, pos}, (void *[]){y, i, t}), "a session");
    zt_session_state_get(session, 0, kc);
    if (strcmp(engine, "ref")) { /* ref rounds only at the end of a session's step */
        ok(!memcmp(zt_interpreter_get(k, zt_prog_find(program, "y")), y, sizeof y), "%s: y", engine);
        ok(!memcmp(zt_interpreter_get(k, zt_prog_find(program, "t")), t, sizeof t), "%s: t", engine);
        ok(!memcmp(zt_interpreter_get(k, zt_prog_find(program, "k1")), kc, sizeof kc), "%s: the state", engine);
    }
    ok(!memcmp(zt_interpreter_get(k, zt_prog_find(program, "i")), i, sizeof i), "%s: i", engine);
    ok(!memcmp(zt_interpreter_get(k, zt_prog_find(program, "kc")), zero, sizeof zero),
       "%s: the cache before its op is there still", engine);
    ok(!memcmp(zt_interpreter_get(k, zt_prog_find(program, "w")), w, sizeof w), "%s: data", engine);
    ok(!strcmp(zt_interpreter_engine(k, 0), engine) && zt_interpreter_fallbacks(k) == 0, "ran on %s",
       zt_interpreter_engine(k, 0));
    ok(zt_prog_step_line(program, 0) == 8 && zt_prog_step_line(program, 7) == 15 && !zt_prog_step_line(program, 8),
       "lines of the text: %ld", zt_prog_step_line(program, 0));
    zt_session_close(session);
    zt_interpreter_close(k);
    zt_prog_free(program);
    zt_engine_close(e);
}

static void test_refusals(void)
{
    zt_engine *e = open_engine("cpu");
    zt_prog *program = parse(layer),
            *q = parse("zt program 1\ndata w: f32[4] \"none\"\ny = neg w\n"
                       "out y = y\n"),
            *bad = parse("zt program 1\nin i: i32[n]\nin m: f32[6,32]\ny = gather m i\n"
                         "out y = y\n");
    zt_interpreter *k = zt_interpreter_open(e, program, &store, &rows, 1, false);
    ok(zt_interpreter_step(k, 0) == ZT_EUSAGE, "an input that nobody put");
    said("no value for input 'x'");
    ok(zt_interpreter_put(k, zt_prog_find(program, "w"), w) == ZT_EUSAGE, "data are not put");
    said("'w' is data");
    ok(zt_interpreter_step(k, 99) == ZT_EUSAGE, "a step that is not there");
    zt_ctx_clear(ctx);
    zt_interpreter_close(k);
    ok(!zt_interpreter_open(e, program, &store, NULL, 0, false), "a symbol without a value");
    zt_ctx_clear(ctx);
    k = zt_interpreter_open(e, q, &store, NULL, 0, false);
    ok(zt_interpreter_step(k, 0) == ZT_EDATA, "data that are not there");
    said("step 0, 'y': missing tensor 'none'");
    zt_interpreter_close(k);
    k = zt_interpreter_open(e, bad, &store, &rows, 1, false);
    zt_interpreter_put(k, 0, (int32_t[N]){0, 1, 77});
    zt_interpreter_put(k, 1, x);
    ok(zt_interpreter_step(k, 0) == ZT_EDATA, "an op that fails: an index out of range");
    said("step 0, 'y': op gather");
    zt_interpreter_close(k);
    zt_prog_free(program);
    zt_prog_free(q);
    zt_prog_free(bad);
    zt_engine_close(e);
}

/* What the pass fold makes of data alone is data to a walk, too. */
static void test_derived(void)
{
    zt_engine *e = open_engine("cpu");
    zt_prog *program = parse("zt program 1\ndata d: f32[32] \"@neg f32[32] \\\"g\\\"\"\ny = neg d\n"
                             "out y = y\n");
    zt_interpreter *k = program ? zt_interpreter_open(e, program, &store, NULL, 0, false) : NULL;
    ok(k && !zt_interpreter_step(k, 0) && !memcmp(zt_interpreter_get(k, zt_prog_find(program, "y")), g, sizeof g),
       "data made of data (%s)", zt_ctx_error(ctx));
    const float *d = k ? zt_interpreter_get(k, zt_prog_find(program, "d")) : NULL;
    ok(d && d[3] == -g[3], "and its bytes (%s)", zt_ctx_error(ctx));
    zt_interpreter_close(k);
    zt_prog_free(program);
    zt_engine_close(e);
}

/* ---- an engine with one wrong kernel --------------------------------------------------------- */

/* The cpu engine, but op `wrong` has one element of its first output off by `factor`. */
static const zt_engine_vt *right;
static zt_engine_vt planted;
static zt_op wrong;
static double factor;
static bool at_work;

static zt_executable *planted_prepare(zt_engine *e, const zt_run_schedule *plan)
{
    at_work = plan->step[0].op == wrong;
    return right->prepare(e, plan);
}

static zt_status planted_replay(zt_engine *e, zt_executable *r, const void *const *in, void *const *out, const zt_watch *watch)
{
    zt_status s = right->replay(e, r, in, out, watch);
    if (at_work) ((float *)out[0])[5] *= (float)factor;
    return s;
}

static void plant(zt_engine *e, zt_op op, double by)
{
    right = e->vt;
    planted = *right;
    planted.prepare = planted_prepare;
    planted.replay = planted_replay;
    e->vt = &planted;
    wrong = op;
    factor = by;
}

typedef struct seen {
    const zt_prog *p;
    int items, beyond, same;
    const char *first; /* name of the first value beyond its bound */
    zt_diff_item item;
} seen;

static zt_status see(void *user, const zt_diff_item *it)
{
    seen *s = user;
    s->items++;
    s->same += it->difference.bits == 0;
    if (!(it->share > 1)) return ZT_OK;
    if (!s->beyond++) {
        s->first = zt_prog_value(s->p, it->value)->name;
        s->item = *it;
    }
    return ZT_OK;
}

static seen diff_texts(zt_engine *a, zt_engine *b, const char *ta, const char *tb, zt_diff_opts o)
{
    zt_prog *pa = parse(ta), *pb = parse(tb);
    zt_interpreter *ka = walk_open(a, pa), *kb = zt_interpreter_open(b, pb, &store, &rows, 1, false);
    seen s = {.p = pb};
    static char first[64];
    ok(zt_diff(ka, kb, &o, see, &s) == ZT_OK, "compared (%s)", zt_ctx_error(ctx));
    snprintf(first, sizeof first, "%s", s.first ? s.first : "");
    s.first = first;
    zt_interpreter_close(ka);
    zt_interpreter_close(kb);
    zt_prog_free(pa);
    zt_prog_free(pb);
    return s;
}

static void test_planted(void)
{
    static const struct {
        zt_op op;
        double by;
        const char *name;
        bool large; /* more than what the linear before may add up to */
    } plants[] = {{ZT_OP_linear, 1.9, "h", true},       {ZT_OP_add_rms_norm, 1.001, "s", false},
                  {ZT_OP_add_rms_norm, NAN, "s", true}, {ZT_OP_silu, 1.0001, "u", false},
                  {ZT_OP_silu, -9, "u", true},          {ZT_OP_scale, 1.001, "y", false},
                  {ZT_OP_attention, 1.001, "t", false}};
    zt_engine *ref = open_engine("ref");
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        zt_engine *e = open_engine("cpu");
        plant(e, plants[i].op, plants[i].by);
        seen s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true});
        ok(s.beyond == 1 && !strcmp(s.first, plants[i].name) && s.item.difference.worst == 5,
           "%s is named, element 5, and no other: '%s', %d beyond, share %g", zt_op_info(plants[i].op)->name, s.first, s.beyond,
           s.item.share);
        s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true, .through = true});
        ok(plants[i].large ? s.beyond >= 1 && !strcmp(s.first, plants[i].name) : s.beyond == 0,
           "through: '%s' is the first of %d", s.first, s.beyond);
        e->vt = right;
        zt_engine_close(e);
    }
    zt_engine_close(ref);
}

static void test_engines(void)
{
    zt_engine *ref = open_engine("ref"), *e = open_engine("cpu");
    zt_engine *scalar = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    seen s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true});
    ok(s.items == 10 && s.beyond == 0 && s.same < 10, "cpu is within ref's bounds");
    s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true, .through = true});
    ok(s.items == 10 && s.beyond == 0, "so are errors that add up: '%s' %g", s.first, s.item.share);
    s = diff_texts(scalar, e, layer, layer, (zt_diff_opts){0});
    ok(s.beyond == 0, "two instruction sets");
    s = diff_texts(e, e, layer, layer, (zt_diff_opts){.exact = true});
    ok(s.items == 10 && s.same == 10 && s.beyond == 0, "the same engine twice, to the bit");
    s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true, .exact = true});
    ok(s.beyond > 0 && s.beyond == 10 - s.same, "exact: %d of 10 have other bits", s.beyond);
    zt_engine_close(scalar);
    zt_engine_close(e);
    zt_engine_close(ref);
}

/* A linear that rounds x by the largest of 32 may be further off
 * where that is far above the rest. */
static zt_status see_bound(void *user, const zt_diff_item *it)
{
    if (it->step == 0) *(double *)user = it->bound;
    return it->share > 1 ? ZT_EBUG : ZT_OK;
}

static void test_rough(void)
{
    zt_engine *ref = open_engine("ref"), *e = open_engine("cpu");
    zt_prog *program = parse(layer);
    double bound[2] = {0};
    for (int rough = 0; rough < 2; rough++) {
        for (int i = 0; rough && i < N; i++) x[i * W + i] *= 1000;
        zt_interpreter *a = walk_open(ref, program), *b = zt_interpreter_open(e, program, &store, &rows, 1, false);
        ok(!zt_diff(a, b, &(zt_diff_opts){.judge = true}, see_bound, &bound[rough]), "within the bounds");
        zt_interpreter_close(a);
        zt_interpreter_close(b);
    }
    ok(bound[0] >= 5e-4 && bound[0] < 6e-4 && bound[1] > 2.4e-3 && bound[1] < 2.7e-3,
       "x in 8 bits: %g allowed, %g with one large value in each block", bound[0], bound[1]);
    fill_all();
    zt_prog_free(program);
    zt_engine_close(ref);
    zt_engine_close(e);
}

/* x has one large column, which the weights do not meet: what is left is small beside its errors. */
static void test_unmet(void)
{
    zt_engine *ref = open_engine("ref"), *e = open_engine("cpu");
    for (int i = 0; i < N; i++) x[i * W + 7] *= 30;
    for (int i = 0; i < W; i++) w[i * 34 + 2 + 7] = 0;
    seen s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true});
    ok(s.beyond == 0, "rounded beside what no weight meets: '%s', %g of %g", s.first, s.item.difference.nmse, s.item.bound);
    s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true, .through = true});
    ok(s.beyond == 0 || (s.beyond == 1 && !strcmp(s.first, "i")), "through: all but an index of numbers that are close: '%s'",
       s.first);
    plant(e, ZT_OP_linear, 90);
    s = diff_texts(ref, e, layer, layer, (zt_diff_opts){.judge = true});
    ok(s.beyond == 1 && !strcmp(s.first, "h") && s.item.difference.worst == 5, "a wrong element is found");
    e->vt = right;
    fill_all();
    zt_engine_close(ref);
    zt_engine_close(e);
}

/* ---- two programs ---------------------------------------------------------------------------- */

static void test_programs(void)
{
    zt_engine *e = open_engine("cpu");
    static const char whole[] = "zt program 1\nin x: f32[n,32]\ndata g: f32[32] \"g\"\n"
                                "in pos: i32[n]\na = silu x\nb = add a x\ny, r = rms_norm b g\n"
                                "z = scale y by=2\nout z = z\n",
                      fused[] = "zt program 1\nin x: f32[n,32]\ndata g: f32[32] \"g\"\n"
                                "in pos: i32[n]\na = silu x\ny, b, r = add_rms_norm a x g\n"
                                "z = scale y by=2\nout z = z\n",
                      wrong_one[] = "zt program 1\nin x: f32[n,32]\ndata g: f32[32] \"g\"\n"
                                    "in pos: i32[n]\na = silu x\nm = scale a by=1\n"
                                    "y, b, r = add_rms_norm a x g eps=0.5\nz = scale y by=2\n"
                                    "out z = z\n",
                      other_in[] = "zt program 1\nin q: f32[n,32]\ny = neg q\nout z = y\n";
    seen s = diff_texts(e, e, whole, fused, (zt_diff_opts){0});
    ok(s.items == 5 && s.beyond == 0, "a program and its plan: 5 of 5 values, none beyond");
    s = diff_texts(e, e, whole, wrong_one, (zt_diff_opts){0});
    ok(s.items == 5 && s.beyond == 2 && !strcmp(s.first, "y"), "another eps: y and r alone");
    s = diff_texts(e, e, whole, wrong_one, (zt_diff_opts){.through = true});
    ok(s.beyond == 3, "through: z too");
    zt_prog *pa = parse(whole), *pb = parse(other_in);
    zt_interpreter *ka = walk_open(e, pa), *kb = zt_interpreter_open(e, pb, &store, &rows, 1, false);
    ok(zt_diff(ka, kb, NULL, see, &s) == ZT_EDATA, "an input of one alone");
    said("input 'q' is missing from one program");
    zt_interpreter_close(ka);
    zt_interpreter_close(kb);
    zt_prog_free(pa);
    zt_prog_free(pb);
    zt_engine_close(e);
}

int main(void)
{
    ctx = zt_ctx_new();
    fill_all();
    test_values();
    test_walk("cpu");
    test_walk("ref");
    test_refusals();
    test_derived();
    test_planted();
    test_engines();
    test_rough();
    test_unmet();
    test_programs();
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
