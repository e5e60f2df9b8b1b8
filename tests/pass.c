/* pass.c - lib/run: passes. What each does to a text, and that it changes no bit of what comes out. */
#include "lib/run/pass.h"
#include "tests/tap.h"

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
    zt_prog *p = parse(from), *q = p ? zt_prog_passes(ctx, p, &o, NULL) : NULL;
    zt_str got;
    zt_str_init(&got, ctx);
    if (q) zt_prog_print(q, &got);
    bool same = q && !strcmp(got.data, want);
    if (!ok(same, "%s: %s", pass, what))
        diag("%s got\n%s", zt_ctx_error(ctx), q ? got.data : "nothing");
    zt_str_fini(&got);
    zt_prog_free(q);
    zt_prog_free(p);
    zt_ctx_clear(ctx);
}

#define HEAD "zt program 1\n"

static void test_dead(void)
{
    becomes("dead", HEAD "in    x: f32[n,4]\na = silu x\nb = gelu x\nc = neg b\nout   y = a\n",
            HEAD "in    x: f32[n,4]\na = silu x\nout   y = a\n", "a chain that nobody reads");
    becomes("dead", HEAD "in    x: f32[n,4]\nin    g: f32[4]\ny, r = rms_norm x g\nout   y = y\n",
            HEAD "in    x: f32[n,4]\nin    g: f32[4]\ny = rms_norm x g\nout   y = y\n",
            "a second output that nobody reads");
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

static void test_fuse(void)
{
#define NORM HEAD "in    x: f32[n,4]\nin    r: f32[n,4]\ndata  g: f32[4] \"g\"\n"
    becomes("fuse", NORM "s = add x r\ny = rms_norm s g eps=0.001\nz = mul y s\nout   z = z\n",
            NORM "y, s = add_rms_norm x r g eps=0.001\nz = mul y s\nout   z = z\n",
            "a norm after a sum that is read again: the sum is an output of the fused op");
    becomes("fuse", NORM "s = add x r\ny = rms_norm s g\nout   y = y\n",
            NORM "y = add_rms_norm x r g\nout   y = y\n", "and none where nobody reads it");
    const char *dims = NORM "s = add x r\ny = rms_norm s g dims=4\nout   y = y\n";
    becomes("fuse", dims, dims, "an attribute that the fused op does not have");
    const char *wide = HEAD "in    x: f32[n,4]\nin    r: f32[4]\ndata  g: f32[4] \"g\"\n"
                            "s = add x r\ny = rms_norm s g\nout   y = y\n";
    becomes("fuse", wide, wide, "a sum that repeats an operand is another op");
    /* y = x g r: the value inside is an output, which norm_add does not give. */
    const char *inner = NORM "y = rms_norm x g\nz = add y r\nout   z = z\nout   y = y\n";
    becomes("fuse", inner, inner, "a value inside that somebody reads");
    becomes("fuse", NORM "y = rms_norm x g\nz = add r y\nout   z = z\n",
            NORM "z = norm_add x g r\nout   z = z\n", "a sum either way round");
    /* The second norm reads what the first's sum leads to: there is no place for both at once. */
    becomes("fuse",
            NORM "s = add x r\nt = silu s\nu = add s t\ny = rms_norm u g\nz = rms_norm s g\n"
                 "w = add y z\nout   w = w\n",
            NORM "z, s = add_rms_norm x r g\nt = silu s\ny, u = add_rms_norm s t g\n"
                 "w = add y z\nout   w = w\n",
            "a fused op stands before the first that reads it");
#undef NORM
}

static void test_report(void)
{
    static const zt_binding sample[] = {{"n", 3}};
    zt_pass_report r[32];
    zt_pass_opts o = {.sample = sample, .n_sample = 1, .engine = cpu};
    zt_prog *p = parse(HEAD "in    x: f32[n,4]\na = silu x\nb = gelu x\nc = neg a\nout   y = c\n");
    zt_prog *q = zt_prog_passes(ctx, p, &o, r);
    int dead = zt_pass_find("dead", 4);
    ok(q && r[dead].ran && r[dead].kernels_before == r[dead].kernels_after + 1,
       "dead saved a kernel: %d, then %d", r[dead].kernels_before, r[dead].kernels_after);
    ok(r[dead].arena_after > 0 && r[dead].arena_after >= r[dead].bound_after &&
       r[dead].arena_after < r[dead].arena_before, "and memory: %zu, then %zu bytes",
       r[dead].arena_before, r[dead].arena_after);
    zt_prog_free(q);
    o.off = ~0u;
    q = zt_prog_passes(ctx, p, &o, r);
    ok(q && !r[dead].ran && zt_prog_n_steps(q) == 3, "a pass that is off does not run");
    ok(zt_pass_find("deadly", 6) < 0 && zt_pass_find("dea", 3) < 0, "names are whole");
    for (int i = 0; zt_pass_at(i); i++)
        ok(zt_pass_find(zt_pass_at(i)->name, strlen(zt_pass_at(i)->name)) == i &&
           strlen(zt_pass_at(i)->help) < 70, "%s: %s", zt_pass_at(i)->name, zt_pass_at(i)->help);
    zt_prog_free(q);
    zt_prog_free(p);
}

int main(void)
{
    ctx = zt_ctx_new();
    cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    test_dead();
    test_cse();
    test_fuse();
    test_report();
    zt_engine_close(cpu);
    zt_ctx_free(ctx);
    return tap_done();
}
