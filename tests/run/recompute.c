/* recompute.c - the pass recompute: gradients of deep networks take less memory and give the same
 * bits; programs that gain nothing stay as they are. */
#include "lib/run/pass.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

static zt_ctx *ctx;
static zt_engine *engine;

static unsigned only(const char *name) { return ~(1u << zt_pass_find(name, strlen(name))); }

/* A network of `layers` times `body`, whose last value is
 * h and the layer's number: its gradient by all weights w. */
static zt_prog *gradient_of(const char *body, int layers, int weights)
{
    zt_str text;
    zt_str_init(&text, ctx);
    zt_str_puts(&text, "zt program 1\nin h0: f32[64,96]\nin r: f32[96]\n");
    for (int i = 0; i < layers * weights; i++) zt_str_printf(&text, "in w%d: f32[96,96]\n", i);
    for (int i = 0; i < layers; i++) {
        for (const char *at = body; *at; at++) {
            if (*at == '@') /* this layer; # the next; $0 its first weight */
                zt_str_printf(&text, "%d", i);
            else if (*at == '#')
                zt_str_printf(&text, "%d", i + 1);
            else if (*at == '$')
                zt_str_printf(&text, "%d", i * weights + *++at - '0');
            else
                zt_str_putc(&text, *at);
        }
    }
    zt_str_printf(&text, "y = mean h%d\nout   y = y\n", layers);
    zt_prog *program = zt_prog_parse(ctx, "net", text.data, text.len);
    int wrt[64];
    for (int i = 0; program && i < layers * weights; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        wrt[i] = zt_prog_find(program, name);
    }
    zt_prog *g = program ? zt_prog_grad(ctx, program, wrt, layers * weights, &(zt_grad_opts){0}) : NULL;
    if (!g) diag("%s\n%s", zt_ctx_error(ctx), text.data);
    zt_prog_free(program);
    zt_str_fini(&text);
    return g;
}

/* All outputs in one piece; its bytes, and the arena that it took. */
static char *run_program(const zt_prog *program, size_t *bytes, size_t *arena)
{
    int n_in = zt_prog_count(program, ZT_VALUE_IN), n_out = zt_prog_n_outputs(program);
    const void **in = calloc((size_t)n_in, sizeof *in);
    void **out = calloc((size_t)n_out, sizeof *out);
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    for (int i = 0; i < n_in; i++) {
        int64_t count = zt_type_count(&bound->type[zt_prog_nth(program, ZT_VALUE_IN, i)]);
        float *x = malloc((size_t)count * sizeof *x);
        for (int64_t k = 0; k < count; k++) x[k] = (float)(zt_normal(5, (uint64_t)i, (uint64_t)k) * (i ? 0.1 : 1));
        in[i] = x;
    }
    *bytes = 0;
    for (int o = 0; o < n_out; o++) *bytes += zt_type_bytes(&bound->type[zt_prog_output(program, o)->value]);
    char *all = calloc(1, *bytes);
    size_t at = 0;
    for (int o = 0; o < n_out; o++) {
        out[o] = all + at;
        at += zt_type_bytes(&bound->type[zt_prog_output(program, o)->value]);
    }
    bool good = session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    if (!good) diag("%s", zt_ctx_error(ctx));
    *arena = good ? zt_session_get(session).arena_bytes : 0;
    for (int i = 0; i < n_in; i++) free((void *)(uintptr_t)in[i]);
    zt_session_close(session);
    zt_bound_free(bound);
    free(in);
    free(out);
    return all;
}

static void falls(const char *what, const char *body, int layers, int weights, double most)
{
    zt_prog *program = gradient_of(body, layers, weights);
    zt_pass_opts o = {.engine = engine, .off = only("recompute")};
    zt_pass_report report[32];
    zt_prog *other_program = program ? zt_prog_passes(ctx, program, &o, report) : NULL;
    size_t count = 0, m = 0, before = 0, after = 0;
    char *plain = other_program ? run_program(program, &count, &before) : NULL,
         *less = other_program ? run_program(other_program, &m, &after) : NULL;
    const zt_pass_report *r = &report[zt_pass_find("recompute", 9)];
    ok(other_program && count == m && count && !memcmp(plain, less, count), "%s: the same bits", what);
    ok(other_program && after > 0 && (double)after <= most * (double)before, "%s: an arena of %zu bytes, then %zu", what, before,
       after);
    ok(other_program && r->ran && r->arena_before == before && r->arena_after == after && r->kernels_after >= r->kernels_before,
       "%s: the report says so: %d kernels, then %d", what, r->kernels_before, r->kernels_after);
    free(plain);
    free(less);
    zt_prog_free(other_program);
    zt_prog_free(program);
}

/* A gradient that reads what its op gave needs nothing that the next layer does not keep. */
static void leaner(const char *what, const char *body, const char *other, const char *by_x, int layers)
{
    zt_prog *program[] = {gradient_of(body, layers, 1), gradient_of(by_x, layers, 1)};
    size_t count, arena[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        if (program[i]) free(run_program(program[i], &count, &arena[i]));
        zt_prog_free(program[i]);
    }
    ok(arena[0] && (double)arena[0] <= 0.6 * (double)arena[1], "%s an arena of %zu bytes, %s %zu", what, arena[0], other,
       arena[1]);
}

static void stays(const char *what, const char *text)
{
    zt_prog *program = zt_prog_parse(ctx, "given", text, strlen(text));
    zt_pass_opts o = {.engine = engine, .off = only("recompute")};
    zt_prog *other_program = program ? zt_prog_passes(ctx, program, &o, NULL) : NULL;
    zt_str a, b;
    zt_str_init(&a, ctx);
    zt_str_init(&b, ctx);
    ok(other_program && !zt_prog_print(program, &a) && !zt_prog_print(other_program, &b) && !strcmp(a.data, b.data), "%s", what);
    zt_str_fini(&a);
    zt_str_fini(&b);
    zt_prog_free(other_program);
    zt_prog_free(program);
}

int main(void)
{
    ctx = zt_ctx_new();
    engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    falls("a perceptron of 12 layers, erf", "t@ = linear h@ w$0\nh# = erf t@\n", 12, 1, 0.9);
    falls("the same with silu", "t@ = linear h@ w$0\nh# = silu t@\n", 12, 1, 0.9);
    leaner("with relu", "t@ = linear h@ w$0\nh# = relu t@\n", "with silu", "t@ = linear h@ w$0\nh# = silu t@\n", 12);
    falls("gated units with a residual",
          "g@ = linear h@ w$0\nu@ = linear h@ w$1\ns@ = silu g@\nm@ = mul s@ u@\n"
          "d@ = linear m@ w$2\nh# = add h@ d@\n",
          6, 3, 0.9);
    falls("a transformer of 4 layers",
          "n@ = rms_norm h@ r\nq@ = linear n@ w$0\nk@ = linear n@ w$1\nv@ = linear n@ w$2\n"
          "qq@ = reshape q@ shape=[1,64,4,24]\nkk@ = reshape k@ shape=[1,64,4,24]\n"
          "vv@ = reshape v@ shape=[1,64,4,24]\na@ = sdpa qq@ kk@ vv@ causal=1 layout=bshd\n"
          "o@ = reshape a@ shape=[64,96]\np@ = linear o@ w$3\ns@ = add h@ p@\n"
          "m@ = rms_norm s@ r\ng@ = linear m@ w$4\nu@ = linear m@ w$5\nf@ = silu g@\n"
          "e@ = mul f@ u@\nd@ = linear e@ w$6\nh# = add s@ d@\n",
          4, 7, 0.9);
    stays("what gains nothing stays", "zt program 1\nin    x: f32[64,64]\na = exp x\nb = matmul a a\nc = add b a\nout   c = c\n");
    stays("a state is not read later than it was",
          "zt program 1\nin    x: f32[2,4]\nin    pos: i32[2]\nstate k: f32[8,4]\na = neg k\n"
          "b = matmul a a tb=1\nk1 = kv_put k x pos\nc = matmul b a\nkeep  k = k1\nout   c = c\n");
    zt_engine_close(engine);
    zt_ctx_free(ctx);
    return tap_done();
}
