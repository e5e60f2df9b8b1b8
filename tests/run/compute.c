/* compute.c - programs that compute in less than f32: which values have which form; what runs is
 * near what f32 gives; and what is cast of data alone is data. */
#include "lib/run/compute.h"
#include "lib/run/pass.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static zt_ctx *ctx;

static const zt_binding sample[] = {{"n", 3}};

/* The program in less, and after the passes where `passed`, as text. */
static char *lessened(const char *from, zt_compute how, bool passed)
{
    zt_str string;
    zt_prog *program = zt_prog_parse(ctx, "test", from, strlen(from));
    zt_prog *other_program = program ? zt_prog_computed(ctx, program, sample, 1, how) : NULL;
    zt_prog *r = other_program && passed
                     ? zt_prog_passes(ctx, other_program, &(zt_pass_opts){.sample = sample, .n_sample = 1}, NULL)
                     : NULL;
    zt_str_init(&string, ctx);
    if (other_program) zt_prog_print(passed ? r : other_program, &string);
    char *text = string.data ? strdup(string.data) : strdup("");
    if (zt_ctx_status(ctx)) diag("%s", zt_ctx_error(ctx));
    zt_str_fini(&string);
    zt_prog_free(program);
    zt_prog_free(other_program);
    zt_prog_free(r);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

static const char *const model = "zt program 1\n"
                                 "in ids: i32[n]\n"
                                 "in x: f32[n,64]\n"
                                 "in pos: i32[n]\n"
                                 "data e: q8_0[10,64] \"e\"\n"
                                 "data g: f32[64] \"g\"\n"
                                 "data w: f32[64,64] \"w\"\n"
                                 "data q: q4_0[64,64] \"q\"\n"
                                 "state k: f16[8,64]\n"
                                 "h = gather e ids\n"
                                 "a = add h x\n"
                                 "b = rms_norm a g\n"
                                 "c = linear b w\n"
                                 "d = linear c q\n"
                                 "k1 = kv_put k d pos\n"
                                 "s = silu d\n"
                                 "z = sum s\n"
                                 "keep k = k1\n"
                                 "out y = s\n"
                                 "out z = z\n";

static void forms(void)
{
    char *f32 = lessened(model, ZT_COMPUTE_F32, false);
    char *bf16 = lessened(model, ZT_COMPUTE_BF16, false);
    char *fp8 = lessened(model, ZT_COMPUTE_FP8, true), *f16 = lessened(model, ZT_COMPUTE_F16, true);
    ok(!count(f32, "cast"), "f32: as it was");
    /* x, h, g and w go down; y and s of the sum come up. */
    ok(count(bf16, "to=\"bf16\"") + count(bf16, "to=bf16") == 4 && count(bf16, " cast ") == 6, "bf16: four casts down, two up");
    ok(count(bf16, "h = gather e ids") && count(bf16, "keep  k = k1"), "blocks and states stay");
    ok(count(fp8, "f8_e4m3[64,64]") == 1 && count(fp8, "q4_0[64,64]") == 1 && count(fp8, "@cast") >= 2,
       "fp8: the plain weight is data of E4M3, that of blocks stays");
    ok(count(f16, "f16[64,64] \"@cast") == 1 && count(f16, " cast ") == 3, "f16: weights are data");
    if (tap_failed) diag("%s\n%s\n%s", bf16, fp8, f16);
    /* A cast must not take a name that a later value has: programs of
     * gradients are full of "v7". */
    char *names = lessened("zt program 1\nin x: f32[4,32]\nin w: f32[8,32]\nv2 = linear x w\n"
                           "v3 = relu v2\nv4 = add v3 v3\nx.bf16 = scale v4\n"
                           "v5 = add x.bf16 v4\nout y = v5\n",
                           ZT_COMPUTE_BF16, false);
    ok(count(names, "x.bf16.2 = cast x") == 1 && count(names, "w.bf16 = cast w") == 1, "casts have names of their own");
    free(names);
    free(f32);
    free(bf16);
    free(fp8);
    free(f16);
}

/* ---- what runs ------------------------------------------------------------------------------- */

enum { N = 3, K = 64 };

static zt_status find_any(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user;
    *handle = name[0];
    *type = name[0] == 'g' ? zt_type_make(ZT_F32, 1, (int64_t[]){K}) : zt_type_make(ZT_F32, 2, (int64_t[]){K, K});
    return ZT_OK;
}

static zt_status read_any(void *user, int64_t handle, size_t offset, void *dst, size_t total)
{
    (void)user;
    float *f = dst;
    for (size_t i = 0; i < total / 4; i++) {
        size_t at = offset / 4 + i;
        f[i] = handle == 'g' ? 1 : (float)((at * 37 + (size_t)handle) % 61) / 244 - 0.125f;
    }
    return ZT_OK;
}

static const char *const layer = "zt program 1\n"
                                 "in x: f32[n,64]\n"
                                 "data g: f32[64] \"g\"\n"
                                 "data w: f32[64,64] \"w\"\n"
                                 "data u: f32[64,64] \"u\"\n"
                                 "b = rms_norm x g\n"
                                 "c = linear b w\n"
                                 "d = silu c\n"
                                 "e = linear d u\n"
                                 "f = add e x\n"
                                 "out y = f\n";

static bool run_layer(const char *engine, zt_compute how, float *y)
{
    float x[N * K];
    for (int i = 0; i < N * K; i++) x[i] = sinf((float)i);
    const zt_store store = {.find = find_any, .read = read_any};
    zt_engine_opts opts = {.isa = zt_isa_best(), .compute = how};
    zt_engine *e = zt_engine_open(ctx, engine, &opts);
    if (!e) return false;
    zt_prog *program = zt_prog_parse(ctx, "layer", layer, strlen(layer));
    zt_pass_opts po = {.sample = sample, .n_sample = 1, .engine = e};
    zt_prog *other_program = program ? zt_prog_passes(ctx, program, &po, NULL) : NULL;
    zt_session *session = other_program ? zt_session_open(e, other_program, &store, NULL) : NULL;
    bool good = session && !zt_session_step(session, sample, 1, (const void *[]){x}, (void *[]){y});
    if (!good) diag("%s: %s", engine, zt_ctx_error(ctx));
    zt_session_close(session);
    zt_prog_free(other_program);
    zt_prog_free(program);
    zt_engine_close(e);
    zt_ctx_clear(ctx);
    return good;
}

static void runs(void)
{
    static const struct {
        zt_compute how;
        double least, most; /* that its worst number is off by */
    } rows[] = {
        {ZT_COMPUTE_F32, 0, 1e-5}, {ZT_COMPUTE_F16, 1e-6, 4e-3}, {ZT_COMPUTE_BF16, 1e-5, 3e-2}, {ZT_COMPUTE_FP8, 1e-4, 2e-1}};
    float want[N * K], y[N * K];
    if (!run_layer("cuda", ZT_COMPUTE_F32, y)) {
        skip("cuda: no driver");
        zt_ctx_clear(ctx);
        return;
    }
    ok(run_layer("ref", ZT_COMPUTE_F32, want), "ref runs it");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double worst = 0;
        bool good = run_layer("cuda", rows[r].how, y);
        for (int i = 0; i < N * K; i++) {
            double off = fabs((double)y[i] - want[i]);
            worst = off > worst ? off : worst;
        }
        ok(good && worst >= rows[r].least && worst <= rows[r].most, "cuda in %s: %.2g off at most", zt_compute_name(rows[r].how),
           worst);
    }
    ok(!run_layer("cpu", ZT_COMPUTE_F16, y), "cpu computes in f32 alone");
}

int main(void)
{
    ctx = zt_ctx_new();
    forms();
    runs();
    zt_ctx_clear(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
