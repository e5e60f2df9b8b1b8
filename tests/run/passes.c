/* passes.c - lib/run: passes. What each does to a text, and that it
 * changes no bit of what comes out. */
#include "lib/run/pass.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

static zt_ctx *ctx;
static zt_engine *cpu;

static zt_prog *parse(const char *text)
{
    zt_prog *p = zt_prog_parse(ctx, "test.zt", text, strlen(text));
    if (!p) diag("%s", zt_ctx_error(ctx));
    return p;
}

/* All passes but one are off. */
static unsigned only(const char *name)
{
    int i = zt_pass_find(name, strlen(name));
    return i < 0 ? ~0u : ~(1u << i);
}

static void becomes(const char *pass, const char *from, const char *want, const char *what)
{
    static const zt_binding sample[] = {{"n", 3}, {"m", 2}};
    zt_pass_opts o = {.sample = sample, .n_sample = 2, .engine = cpu, .off = only(pass)};
    zt_prog *program = parse(from), *q = program ? zt_prog_passes(ctx, program, &o, NULL) : NULL;
    zt_str got;
    zt_str_init(&got, ctx);
    if (q) zt_prog_print(q, &got);
    bool same = q && !strcmp(got.data, want);
    if (!ok(same, "%s: %s", pass, what)) diag("%s got\n%s", zt_ctx_error(ctx), q ? got.data : "nothing");
    zt_str_fini(&got);
    zt_prog_free(q);
    zt_prog_free(program);
    zt_ctx_clear(ctx);
}

#define HEAD "zt program 1\n"

static void test_dead(void)
{
    becomes("dead", HEAD "in    x: f32[n,4]\na = silu x\nb = gelu x\nc = neg b\nout   y = a\n",
            HEAD "in    x: f32[n,4]\na = silu x\nout   y = a\n", "a chain that nobody reads");
    becomes("dead", HEAD "in    x: f32[n,4]\nin    g: f32[4]\ny, r = rms_norm x g\nout   y = y\n",
            HEAD "in    x: f32[n,4]\nin    g: f32[4]\ny = rms_norm x g\nout   y = y\n", "a second output that nobody reads");
    const char *state = HEAD "in    x: f32[n,4]\nin    p: i32[n]\nstate c: f32[8,4]\n"
                             "c1 = kv_put c x p\nout   y = x\n";
    becomes("dead", state, state, "what updates a state stays");
    const char *kept = HEAD "state c: f32[4]\nd = neg c\nkeep  c = d\n";
    becomes("dead", kept, kept, "what a state keeps stays");
}

static void test_cse(void)
{
    becomes("cse",
            HEAD "in    x: f32[n,4]\na = scale x by=2\nb = scale x by=2\nc = neg a\nd = neg b\n"
                 "e = add c d\nout   y = e\nout   z = d\n",
            HEAD "in    x: f32[n,4]\na = scale x by=2\nc = neg a\ne = add c c\nout   y = e\n"
                 "out   z = c\n",
            "a chain computed twice");
    const char *differ = HEAD "in    x: f32[n,4]\na = scale x by=2\nb = scale x by=3\nc = sub a b\n"
                              "d = sub b a\ne = mul c d\nout   y = e\n";
    becomes("cse", differ, differ, "other attributes, other order: not the same");
    becomes("cse",
            HEAD "in    k: i64[]\na = random_normal k shape=[4] seed=1\n"
                 "b = random_normal k shape=[4] seed=1\nc = random_normal k shape=[4] seed=2\n"
                 "d = add b c\nout   a = a\nout   d = d\n",
            HEAD "in    k: i64[]\na = random_normal k shape=[4] seed=1\n"
                 "c = random_normal k shape=[4] seed=2\nd = add a c\nout   a = a\nout   d = d\n",
            "draws of one seed and counter are one");
    const char *donated = HEAD "in    x: f32[n,4]\nin    p: i32[n]\na = scale x by=2\n"
                               "b = scale x by=2\nc = kv_put b x p\nd = add a x\nout   y = c\n"
                               "out   z = d\n";
    becomes("cse", donated, donated, "a value that is used up keeps its own memory");
    becomes("cse",
            HEAD "in    x: f32[n,4]\ndata  g: f32[4] \"t\"\ndata  h: f32[4] \"t\"\n"
                 "a = add x g\nb = add x h\nc = mul a b\nout   y = c\n",
            HEAD "in    x: f32[n,4]\ndata  g: f32[4] \"t\"\ndata  h: f32[4] \"t\"\n"
                 "a = add x g\nc = mul a a\nout   y = c\n",
            "one tensor under two names");
}

static void test_fold(void)
{
    becomes("fold",
            HEAD "in    x: f32[n,4]\na = scale x\nb = cast a\nc = reshape b shape=[n,4]\n"
                 "d = slice c axis=1 to=4\ne = neg d\nout   y = e\n",
            HEAD "in    x: f32[n,4]\ne = neg x\nout   y = e\n", "steps that change nothing");
    const char *work = HEAD "in    x: f32[n,4]\na = scale x by=2\nb = cast a to=f16\n"
                            "c = reshape b shape=[4,n]\nd = slice c axis=1 to=1\nout   y = d\n";
    becomes("fold", work, work, "and steps that do something");
    becomes("fold",
            HEAD "in    x: f16[n,4]\na = cast x\nb = cast a to=bf16\nc = cast a to=f16\n"
                 "d = neg c\nout   y = b\nout   z = d\n",
            HEAD "in    x: f16[n,4]\na = cast x\nb = cast x to=bf16\nc = cast x to=f16\n"
                 "d = neg c\nout   y = b\nout   z = d\n",
            "a cast after one that loses nothing");
    const char *loses = HEAD "in    x: f32[n,4]\na = cast x to=f16\nb = cast a to=bf16\n"
                             "out   y = b\n";
    becomes("fold", loses, loses, "not after one that loses");
    becomes("fold",
            HEAD "in    x: f32[n,4]\ndata  g: f16[4] \"g\"\nh = cast g\ni = scale h by=2\n"
                 "y = rms_norm x i\nout   y = y\n",
            HEAD "in    x: f32[n,4]\ndata  g: f16[4] \"g\"\n"
                 "data  h: f32[4] \"@cast f16[4] \\\"g\\\"\"\n"
                 "data  i: f32[4] \"@scale f32[4] \\\"@cast f16[4] \\\\\\\"g\\\\\\\"\\\" by=2\"\n"
                 "y = rms_norm x i\nout   y = y\n",
            "what hangs on data alone is data");
    const char *out = HEAD "data  g: f16[4] \"g\"\nh = cast g\nout   y = h\n";
    becomes("fold", out, out, "unless it is an output");
    const char *old = HEAD "in    x: f32[n,4]\nin    p: i32[n]\nstate c: f32[8,4]\n"
                           "a = scale c\nc1 = kv_put c x p\nb = add a c1\nout   y = b\n";
    becomes("fold", old, old, "a copy of what is overwritten later");
}

/* What a session computes of data, against the op run in every step. */
static zt_status g_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user;
    *handle = 0;
    *type = zt_type_make(ZT_F16, 1, (int64_t[]){4});
    return strcmp(name, "g") ? ZT_ENOENT : ZT_OK;
}

static zt_status g_read(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    static const uint16_t g[] = {0x3c00, 0x3555, 0xc123, 0x0001};
    (void)user, (void)handle;
    memcpy(dst, (const char *)g + offset, n);
    return ZT_OK;
}

static zt_status run_on_g(const zt_prog *program, float y[8])
{
    static const float x[] = {1, -2, 3, 4, 5, 6, 7, -8};
    const zt_store store = {NULL, g_find, g_read};
    zt_session *session = program ? zt_session_open(cpu, program, &store, NULL) : NULL;
    zt_status st =
        session ? zt_session_step(session, &(zt_binding){"n", 2}, 1, (const void *[]){x}, (void *[]){y}) : zt_ctx_status(ctx);
    zt_session_close(session);
    return st;
}

static void test_derived(void)
{
    static const zt_binding sample[] = {{"n", 3}};
    float a[8], b[8];
    zt_pass_opts o = {.sample = sample, .n_sample = 1, .engine = cpu};
    zt_prog *program = parse(HEAD "in    x: f32[n,4]\ndata  g: f16[4] \"g\"\nh = cast g\ni = scale h by=0.1\n"
                                  "y = rms_norm x i\nout   y = y\n");
    zt_prog *other_program = program ? zt_prog_passes(ctx, program, &o, NULL) : NULL;
    ok(other_program && zt_prog_n_steps(other_program) == 1 && !run_on_g(program, a) && !run_on_g(other_program, b) &&
           !memcmp(a, b, sizeof a),
       "data made of data: the same bits (%s)", zt_ctx_error(ctx));
    zt_prog_free(other_program);
    zt_prog_free(program);
    static const struct {
        const char *tensor, *says;
    } bad[] = {
        {"@cast f16[4] \\\"h\\\"", "missing tensor 'h'"},
        {"@cast f16[5] \\\"g\\\"", "the program expects f32[4]"},
        {"@cast f16[4] \\\"g\\\" to=f64", "the program expects f32[4]"},
        {"@concat f16[4] \\\"g\\\" f16[4] \\\"g\\\"", "the program expects f32[4]"},
        {"@cost f16[4] \\\"g\\\"", "cost"},
        {"@cast f16[4] \\\"g", "data:"},
        {"@", "data:"},
        {"@cast f16[4] \\\"g\\\"\\nout z = y", "control character"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 HEAD "in    x: f32[n,4]\ndata  g: f32[4] \"%s\"\n"
                      "y = rms_norm x g\nout   y = y\n",
                 bad[i].tensor);
        program = parse(text);
        zt_status st = program ? run_on_g(program, b) : ZT_OK;
        ok(st && strstr(zt_ctx_error(ctx), bad[i].says), "refused: %s (%s)", bad[i].tensor, zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        zt_prog_free(program);
    }
}

static void test_fuse(void)
{
#define NORM HEAD "in    x: f32[n,4]\nin    r: f32[n,4]\ndata  g: f32[4] \"g\"\n"
    becomes("fuse", NORM "s = add x r\ny = rms_norm s g eps=0.001\nz = mul y s\nout   z = z\n",
            NORM "y, s = add_rms_norm x r g eps=0.001\nz = mul y s\nout   z = z\n",
            "a norm after a sum that is read again: the sum is an output of the fused op");
    becomes("fuse", NORM "s = add x r\ny = rms_norm s g\nout   y = y\n", NORM "y = add_rms_norm x r g\nout   y = y\n",
            "and none where nobody reads it");
    const char *dims = NORM "s = add x r\ny = rms_norm s g dims=4\nout   y = y\n";
    becomes("fuse", dims, dims, "an attribute that the fused op does not have");
    const char *wide = HEAD "in    x: f32[n,4]\nin    r: f32[4]\ndata  g: f32[4] \"g\"\n"
                            "s = add x r\ny = rms_norm s g\nout   y = y\n";
    becomes("fuse", wide, wide, "a sum that repeats an operand is another op");
    /* y = x g r: the value inside is an output, which norm_add does not give. */
    const char *inner = NORM "y = rms_norm x g\nz = add y r\nout   z = z\nout   y = y\n";
    becomes("fuse", inner, inner, "a value inside that somebody reads");
    becomes("fuse", NORM "y = rms_norm x g\nz = add r y\nout   z = z\n", NORM "z = norm_add x g r\nout   z = z\n",
            "a sum either way round");
    const char *twice = NORM "y = rms_norm x g\nz = add y y\nout   z = z\n";
    becomes("fuse", twice, twice, "an operand from outside that the fused op itself would take away");
    /* The second norm reads what the first's sum leads to: there is no place for both at once. */
    becomes("fuse",
            NORM "s = add x r\nt = silu s\nu = add s t\ny = rms_norm u g\nz = rms_norm s g\n"
                 "w = add y z\nout   w = w\n",
            NORM "z, s = add_rms_norm x r g\nt = silu s\ny = add_rms_norm s t g\n"
                 "w = add y z\nout   w = w\n",
            "a fused op stands before the first that reads it");
#undef NORM
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The gradient of a deep network of layers of different widths, after all passes. */
static void test_gradient(int64_t count)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, HEAD "in    x: f32[n,96]\nin    t: f32[n,8]\n");
    for (int i = 0, width = 96; i < 6; i++) {
        int next = i == 5 ? 8 : 160 - 24 * i;
        zt_str_printf(&text, "data  w%d: f32[%d,%d] \"w\"\ndata  b%d: f32[%d] \"b\"\n", i, next, width, i, next);
        zt_str_printf(&text, "l%d = linear %s%d w%d b%d\na%d = gelu l%d\n", i, i ? "a" : "x", i ? i - 1 : 0, i, i, i, i);
        width = next;
    }
    zt_str_puts(&text, "loss = mse a5 t\nout   loss = loss\n");
    for (char *at = text.data; (at = strstr(at, "linear x0")); at++) memcpy(at, "linear x ", 9);
    zt_prog *graph = zt_prog_parse(ctx, "mlp", text.data, text.len);
    int wrt[12], k = 0;
    for (int i = 0; graph && i < zt_prog_count(graph, ZT_VALUE_DATA); i++) wrt[k++] = zt_prog_nth(graph, ZT_VALUE_DATA, i);
    const zt_binding binding = {"n", count};
    zt_grad_opts go = {.sample = &binding, .n_sample = 1};
    zt_prog *program = graph ? zt_prog_grad(ctx, graph, wrt, k, &go) : NULL;
    zt_pass_opts o = {.sample = &binding, .n_sample = 1, .engine = cpu};
    zt_pass_report r[32];
    zt_prog *other_program = program ? zt_prog_passes(ctx, program, &o, r) : NULL;
    int last = 0;
    while (zt_pass_at(last + 1)) last++;
    ok(other_program && r[last].arena_after > 0 && r[last].arena_after <= r[last].bound_after * 21 / 20,
       "a gradient for %d rows: arena %zu bytes, lower bound %zu (%s)", (int)count, r[last].arena_after, r[last].bound_after,
       zt_ctx_error(ctx));
    zt_prog_free(other_program);
    zt_prog_free(program);
    zt_prog_free(graph);
    zt_str_fini(&text);
}

static void test_report(void)
{
    static const zt_binding sample[] = {{"n", 3}};
    zt_pass_report r[32];
    zt_pass_opts o = {.sample = sample, .n_sample = 1, .engine = cpu};
    zt_prog *program = parse(HEAD "in    x: f32[n,4]\na = silu x\nb = gelu x\nc = neg a\nout   y = c\n");
    zt_prog *other_program = zt_prog_passes(ctx, program, &o, r);
    int dead = zt_pass_find("dead", 4);
    ok(other_program && r[dead].ran && r[dead].kernels_before == r[dead].kernels_after + 1, "dead saved a kernel: %d, then %d",
       r[dead].kernels_before, r[dead].kernels_after);
    ok(r[dead].arena_after > 0 && r[dead].arena_after >= r[dead].bound_after && r[dead].arena_after < r[dead].arena_before,
       "and memory: %zu, then %zu bytes", r[dead].arena_before, r[dead].arena_after);
    zt_prog_free(other_program);
    o.off = ~0u;
    other_program = zt_prog_passes(ctx, program, &o, r);
    ok(other_program && !r[dead].ran && zt_prog_n_steps(other_program) == 3, "a pass that is off does not run");
    ok(zt_pass_find("deadly", 6) < 0 && zt_pass_find("dea", 3) < 0, "names are whole");
    for (int i = 0; zt_pass_at(i); i++)
        ok(zt_pass_find(zt_pass_at(i)->name, strlen(zt_pass_at(i)->name)) == i && strlen(zt_pass_at(i)->help) < 80, "%s: %s",
           zt_pass_at(i)->name, zt_pass_at(i)->help);
    zt_prog_free(other_program);
    zt_prog_free(program);
}

int main(void)
{
    ctx = zt_ctx_new();
    cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    test_dead();
    test_cse();
    test_fold();
    test_derived();
    test_fuse();
    test_gradient(1);
    test_gradient(7);
    test_gradient(64);
    test_gradient(512);
    test_report();
    zt_engine_close(cpu);
    zt_ctx_free(ctx);
    return tap_done();
}
