/* split.c - the pass split, on an engine that lacks some ops: fewer segments, the same bits,
 * nothing out of its order. */
#include "lib/run/pass.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

static zt_ctx *ctx;
static zt_engine *engine;
static unsigned off; /* all passes but split */

/* cpu without cos, which then falls back to ref. */
static bool lacks_cos(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    return op != ZT_OP_cos && zt_engine_cpu.has(e, op, attrs, in, out);
}

static bool run_program(const zt_prog *program, float *out)
{
    float x[4];
    int32_t pos[2] = {1, 2};
    const void *in[] = {x, pos};
    void *to[] = {out};
    for (int i = 0; i < 4; i++) x[i] = (float)zt_normal(1, 2, (uint64_t)i);
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    bool good = session && zt_session_step(session, NULL, 0, in, to) == ZT_OK;
    if (!good) diag("%s", zt_ctx_error(ctx));
    zt_session_close(session);
    return good;
}

/* From so many segments to so many; of both, and steps that fell back, the report tells. */
static zt_prog *splits(const char *text, int before, int after, int fallbacks, const char *what)
{
    zt_pass_report r[32];
    zt_pass_opts o = {.engine = engine, .off = off};
    zt_prog *program = zt_prog_parse(ctx, "given", text, strlen(text));
    zt_prog *q = program ? zt_prog_passes(ctx, program, &o, r) : NULL;
    const zt_pass_report *own = &r[zt_pass_find("split", 5)];
    float a[4] = {0}, b[4] = {0};
    bool good = q && own->segments_before == before && own->segments_after == after && own->fallbacks == fallbacks;
    if (!good && q) diag("%d segments, then %d; %d fall back", own->segments_before, own->segments_after, own->fallbacks);
    ok(good, "%s: %d segments, then %d", what, before, after);
    ok(q && run_program(program, a) && run_program(q, b) && !memcmp(a, b, sizeof a), "%s: the same bits", what);
    zt_prog_free(program);
    return q;
}

static void tells_engines(const zt_prog *program)
{
    const char *name[16];
    int wrong = 0;
    zt_pass_opts o = {.engine = engine};
    bool good = program && zt_prog_n_steps(program) < 16 && zt_prog_engines(ctx, program, &o, name) == ZT_OK;
    for (int s = 0; good && s < zt_prog_n_steps(program); s++) {
        zt_op op = zt_prog_step(program, s)->op;
        const char *want = op == ZT_OP_reshape ? NULL : op == ZT_OP_cos ? "ref" : "cpu";
        wrong += (want == NULL) != (name[s] == NULL) || (want && strcmp(want, name[s]) != 0);
    }
    ok(good && !wrong, "which engine runs each step");
}

/* Random programs of two engines' ops and an update in place. */
static void random_orders(void)
{
    int worse = 0, differ = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        zt_str string;
        zt_str_init(&string, ctx);
        zt_str_puts(&string, "zt program 1\nin x: f32[2,2]\nin pos: i32[2]\nstate k: f32[8,2]\n"
                             "v0 = neg x\n");
        int count = 1, put = 3 + (int)(seed % 9);
        const char *cache = "k";
        for (; count < 14; count++) {
            uint64_t draw = (uint64_t)(1e6 * (3 + zt_normal(seed, 7, (uint64_t)count)));
            static const char *const ops[] = {"cos", "neg", "add", "cos", "matmul"};
            const char *op = ops[draw % 5];
            if (count == put) {
                zt_str_printf(&string, "k1 = kv_put k v%d pos\n", (int)(draw / 7 % (uint64_t)count));
                cache = "k1";
            }
            if (!strcmp(op, "matmul"))
                zt_str_printf(&string, "m%d = matmul %s v%d\nv%d = slice m%d axis=0 from=1 to=3\n", count, cache,
                              (int)(draw / 11 % (uint64_t)count), count, count);
            else if (!strcmp(op, "add"))
                zt_str_printf(&string, "v%d = add v%d v%d\n", count, (int)(draw / 11 % (uint64_t)count),
                              (int)(draw / 131 % (uint64_t)count));
            else
                zt_str_printf(&string, "v%d = %s v%d\n", count, op, (int)(draw / 11 % (uint64_t)count));
        }
        zt_str_puts(&string, "y = add v13 v12\nkeep k = k1\nout y = y\n");
        zt_pass_report r[32];
        zt_prog *program = zt_prog_parse(ctx, "made", string.data, string.len);
        zt_prog *other_program = program ? zt_prog_passes(ctx, program, &(zt_pass_opts){.engine = engine, .off = off}, r) : NULL;
        const zt_pass_report *own = &r[zt_pass_find("split", 5)];
        float a[4] = {0}, b[4] = {0};
        if (!other_program) diag("%s\n%s", zt_ctx_error(ctx), string.data);
        differ += !other_program || !run_program(program, a) || !run_program(other_program, b) || memcmp(a, b, sizeof a);
        worse += other_program && own->segments_after > own->segments_before;
        zt_prog_free(other_program);
        zt_prog_free(program);
        zt_str_fini(&string);
    }
    ok(differ == 0, "random programs: the same bits in the new order");
    ok(worse == 0, "and never more segments");
}

int main(void)
{
    static zt_engine_vt lame;
    ctx = zt_ctx_new();
    off = ~(1u << zt_pass_find("split", 5));
    engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    lame = zt_engine_cpu;
    lame.has = lacks_cos;
    engine->vt = &lame;
    zt_prog *other_program = splits("zt program 1\nin    x: f32[2,2]\nin    pos: i32[2]\na = cos x\nb = neg a\n"
                                    "c = cos x\nd = neg c\ne = reshape x shape=[2,2]\nf = cos e\ng = add b d\n"
                                    "y = add g f\nout   y = y\n",
                                    6, 2, 3, "siblings come together");
    tells_engines(other_program);
    zt_prog_free(other_program);
    zt_prog_free(splits("zt program 1\nin    x: f32[2,2]\nin    pos: i32[2]\na = cos x\nb = neg a\n"
                        "c = cos b\nd = neg c\nout   y = d\n",
                        4, 4, 2, "a chain stays"));
    zt_prog_free(splits("zt program 1\nin    x: f32[2,2]\nin    pos: i32[2]\nstate k: f32[8,2]\n"
                        "a = cos x\nb = matmul k x\nk1 = kv_put k x pos\nc = cos x\n"
                        "d = matmul k1 x\ne = add b d\nf = slice e axis=0 from=1 to=3\n"
                        "g = add f a\ny = add g c\nkeep  k = k1\nout   y = y\n",
                        4, 2, 2, "an update in place stays between its readers"));
    zt_prog_free(splits("zt program 1\nin    x: f32[2,2]\nin    pos: i32[2]\na = neg x\n"
                        "y = exp a\nout   y = y\n",
                        1, 1, 0, "one engine"));
    random_orders();
    zt_engine_close(engine);
    zt_ctx_free(ctx);
    return tap_done();
}
