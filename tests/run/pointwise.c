/* pointwise.c - chains of elementwise ops: their text, hostile or not, and the pass that makes
 * them. Random programs of such ops give the same bits with the pass and without it: on ref, on
 * cpu with every instruction set and number of threads, on vulkan. */
#include "lib/ops/pointwise.h"
#include "lib/run/pass.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

static void hostile_texts(zt_ctx *ctx)
{
    // clang-format off
    static const char *const texts[] = {
        "", " ", ";", "; ", "tanh", "tanh ", "tanh a;", "tanh a; ", "tanh  a", " tanh a", "tanh a ",
        "tanh a b", "tanh %0", "tanh %1", "tanh %00", "tanh %-1", "tanh %", "tanh %99999999999999",
        "tanh i", "tanh A", "tanh aa", "tanh _", "tanhh a", "linear a b", "reshape a",
        "kv_put a b c",
        "call a", "random_uniform a", "pointwise a", "sum a", "add a", "add a %0", "neg a; neg a",
        "neg a; out %0", "neg a; out", "neg a; exp %0; out %0", "neg a; exp %0; out %1 %0",
        "neg a; exp %0; out %0 %0", "neg a; exp %0; out %0 %1 %1", "neg a; exp %0; out a %1",
        "neg a; exp %0; out %0 %1; tanh a", "neg a; exp %0; out %0 %2", "out a", "scale a by",
        "scale a by=", "scale a by=1", "scale a by=1.0", "scale a by=2.0", "scale a by=+2",
        "scale a by=0x2", "scale a by=2 by=3", "scale a BY=2", "scale a =2", "clamp a hi=2 lo=-1",
        "gelu a form=tanh", "gelu a form=123456789012345678901234567890", "cast a saturate=01",
        "neg a,exp %0", "neg a;exp %0", "neg a\n", "neg a;  exp %0", "neg \x01", "neg a; exp %1",
    };
    // clang-format on
    int taken = 0;
    zt_pointwise_chain p;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (zt_pointwise_parse(ctx, texts[i], &p) == ZT_OK) {
            diag("taken: '%s'", texts[i]);
            taken++;
        } else if (!*zt_ctx_error(ctx)) {
            diag("no message: '%s'", texts[i]);
            taken++;
        } else {
            zt_ctx_clear(ctx);
        }
    ok(taken == 0, "hostile chains are refused, each with a sentence");

    char *many = calloc(1, 70 * 12), long_word[300];
    strcpy(many, "neg a");
    for (int i = 0; i < 64; i++) sprintf(many + strlen(many), "; neg %%%d", i);
    ok(zt_pointwise_parse(NULL, many, &p) != ZT_OK, "65 ops are too many");
    *strrchr(many, ';') = 0;
    ok(zt_pointwise_parse(NULL, many, &p) == ZT_OK && p.n_ops == 64, "64 ops are not");
    free(many);
    memset(long_word, 'x', sizeof long_word);
    long_word[sizeof long_word - 1] = 0;
    ok(zt_pointwise_parse(NULL, long_word, &p) != ZT_OK, "a long word");
    ok(zt_pointwise_parse(NULL, NULL, &p) != ZT_OK, "no text");
}

static void hostile_types(zt_ctx *ctx)
{
    const zt_type a = zt_type_make(ZT_F32, 2, (int64_t[]){3, 4}), row = zt_type_make(ZT_F32, 1, (int64_t[]){4}),
                  odd = zt_type_make(ZT_F32, 1, (int64_t[]){3}), half = zt_type_make(ZT_F16, 1, (int64_t[]){4}),
                  block = zt_type_make(ZT_Q8_0, 1, (int64_t[]){32});
    // clang-format off
    const struct {
        const char *chain;
        const zt_type *in[2];
    } bad[] = {
        {"neg a", {&a, &row}},        {"add a b", {&a, NULL}},   {"add a b", {&a, &odd}},
        {"add a b", {&a, &half}},     {"cast a", {&block}},      {"cast a to=q8_0", {&a}},
        {"cast a to=f8_e4m3", {&a}},  {"cast a to=i4", {&a}},    {"cast a to=none", {&a}},
        {"neg b", {&a, &row}},        {"neg b; add a %0; out %0 %1", {&a, &row}},
        {"gelu a form=none", {&a}},   {"softcap a cap=-1", {&a}}, {"sqrt b", {NULL, &a}},
    };
    // clang-format on
    int taken = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const zt_type *in[ZT_MAX_IN] = {bad[i].in[0], bad[i].in[1]};
        zt_type out[ZT_MAX_OUT];
        const zt_pointwise_attrs at = {bad[i].chain};
        if (zt_op_infer(ctx, ZT_OP_pointwise, &at, in, out) == ZT_OK) {
            diag("taken: '%s'", bad[i].chain);
            taken++;
        }
        zt_ctx_clear(ctx);
    }
    ok(taken == 0, "types that do not fit are refused");
}

static void texts_are_canonical(zt_ctx *ctx)
{
    zt_case op_case;
    bool same = true;
    zt_str string;
    zt_str_init(&string, ctx);
    for (int i = 0; zt_op_case(ZT_OP_pointwise, i, &op_case); i++) {
        const char *text;
        zt_pointwise_chain p;
        memcpy(&text, op_case.attrs, sizeof text);
        zt_str_clear(&string);
        same = same && !zt_pointwise_parse(ctx, text, &p) && !zt_pointwise_print(&p, &string) && !strcmp(string.data, text);
    }
    ok(same, "what is printed is what was read");
    zt_str_fini(&string);
}

/* ---- random programs ------------------------------------------------------------------------- */

enum { ROWS = 3, COLS = 701, COUNT = ROWS * COLS, MOST_VALUES = 80 };

static const char head[] = "zt program 1\nin x: f32[3,701]\nin w: f32[3,701]\nin r: f32[701]\n"
                           "in c: f32[3,1]\nin s: f32[]\n";

typedef struct maker {
    zt_str text;
    uint64_t state;
    char dtype[MOST_VALUES]; /* of value i: f f32, h f16, b bool */
    int n;
} maker;

static uint64_t draw(maker *m, uint64_t limit)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (m->state >> 33) % limit;
}

/* A value of this dtype: one of the last, or (of f32) an input. */
static const char *pick(maker *m, char dtype, char buf[16])
{
    static const char *const inputs[] = {"x", "w", "r", "c", "s"};
    for (int tries = 0; tries < 6 && m->n; tries++) {
        int v = m->n - 1 - (int)draw(m, m->n < 5 ? (uint64_t)m->n : 5);
        if (m->dtype[v] != dtype) continue;
        snprintf(buf, 16, "y%d", v);
        return buf;
    }
    return dtype == 'f' ? inputs[draw(m, 5)] : NULL;
}

/* x in f32 is always of the full shape. */
static const char *full(maker *m, char buf[16])
{
    const char *p = pick(m, 'f', buf);
    return p[0] == 'y' || p[0] == 'w' ? p : "x";
}

static void put_step(maker *m, bool device)
{
    static const char *const ones[] = {"neg",   "abs",   "square", "exp",      "tanh",       "sigmoid", "silu",
                                       "gelu",  "gelu",  "relu",   "scale",    "add_scalar", "erf",     "clamp",
                                       "floor", "log1p", "sin",    "softplus", "sign"};
    static const char *const ends[] = {"",        "",          "", "",         "", "", "", "", " form=erf", "",
                                       " by=0.3", " by=-1.25", "", " lo=-0.5", "", "", "", "", ""};
    static const char *const twos[] = {"add", "sub", "mul", "max", "min", "div", "pow", "fmod"};
    char a[16], b[16], dtype = 'f';
    const char *truth = pick(m, 'b', b), *half = pick(m, 'h', b);
    uint64_t kind = draw(m, device ? 6 : 10);
    if (kind < 3) {
        uint64_t k = draw(m, device ? 14 : 19);
        zt_str_printf(&m->text, "y%d = %s %s%s\n", m->n, ones[k], full(m, a), ends[k]);
    } else if (kind < 6) {
        const char *cursor = full(m, a);
        zt_str_printf(&m->text, "y%d = %s %s %s\n", m->n, twos[draw(m, device ? 6 : 8)], cursor, pick(m, 'f', b));
    } else if (kind == 6 && truth) {
        zt_str_printf(&m->text, "y%d = where %s ", m->n, truth);
        zt_str_printf(&m->text, "%s ", full(m, a));
        zt_str_printf(&m->text, "%s\n", pick(m, 'f', b));
    } else if (kind == 7) {
        const char *cursor = full(m, a);
        zt_str_printf(&m->text, "y%d = gt %s %s\n", m->n, cursor, pick(m, 'f', b));
        dtype = 'b';
    } else if (half && draw(m, 2)) {
        bool back = draw(m, 2);
        zt_str_printf(&m->text, back ? "y%d = cast %s\n" : "y%d = silu %s\n", m->n, half);
        dtype = back ? 'f' : 'h';
    } else {
        zt_str_printf(&m->text, "y%d = cast %s to=f16\n", m->n, full(m, a));
        dtype = 'h';
    }
    m->dtype[m->n++] = dtype;
}

/* A program of count steps; the last value, and some others, are outputs. */
static zt_prog *make_chain(zt_ctx *ctx, uint64_t seed, int count, bool device)
{
    maker m = {.state = seed * 977 + 5};
    zt_str_init(&m.text, ctx);
    zt_str_puts(&m.text, head);
    while (m.n < count) put_step(&m, device);
    for (int v = 0; v < count - 1; v++)
        if (draw(&m, 8) == 0) zt_str_printf(&m.text, "out o%d = y%d\n", v, v);
    zt_str_printf(&m.text, "out y = y%d\n", count - 1);
    zt_prog *p = zt_prog_parse(ctx, "made", m.text.data, m.text.len);
    if (!p) diag("%s\n%s", zt_ctx_error(ctx), m.text.data);
    zt_str_fini(&m.text);
    return p;
}

static float inputs[5][COUNT];

/* All outputs, one after the other, in `to`; bytes, or 0: it failed. */
static size_t run_program(zt_engine *engine, const zt_prog *program, char *to)
{
    const void *const in[] = {inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]};
    void *out[MOST_VALUES];
    size_t at = 0;
    zt_bound *bound = zt_prog_bind(program, NULL, 0);
    zt_session *session = zt_session_open(engine, program, NULL, &(zt_session_opts){.strict = true});
    for (int o = 0; bound && o < zt_prog_n_outputs(program); o++) {
        out[o] = to + at;
        at += (zt_type_bytes(&bound->type[zt_prog_output(program, o)->value]) + 63) / 64 * 64;
    }
    memset(to, 0, at);
    bool good = bound && session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    if (!good) diag("%s", zt_ctx_error(engine->ctx));
    zt_session_close(session);
    zt_bound_free(bound);
    return good ? at : 0;
}

/* Steps that went, summed over the programs; -1: bits differ. */
static int compare(const char *name, zt_isa isa, int threads, int programs)
{
    static char with[MOST_VALUES * COUNT * 4], without[MOST_VALUES * COUNT * 4];
    zt_ctx *ctx = zt_ctx_new();
    bool device = !strcmp(name, "vulkan");
    zt_engine *e = zt_engine_open(ctx, name, &(zt_engine_opts){.threads = threads, .isa = isa});
    int saved = 0;
    unsigned off = ~(1u << zt_pass_find("chain", 5));
    if (!e) skip("%s: %s", name, zt_ctx_error(ctx));
    for (int i = 0; i < programs && e && saved >= 0; i++) {
        zt_prog *program = make_chain(ctx, (uint64_t)i, 1 + i * 3 % 70, device);
        zt_prog *other_program = program ? zt_prog_passes(ctx, program, &(zt_pass_opts){.engine = e, .off = off}, NULL) : program;
        size_t count = other_program ? run_program(e, program, without) : 0;
        saved += other_program ? zt_prog_n_steps(program) - zt_prog_n_steps(other_program) : 0;
        if (!count || run_program(e, other_program, with) != count || memcmp(with, without, count)) {
            diag("%s: program %d: %s", name, i, zt_ctx_error(ctx));
            saved = -1;
        }
        zt_prog_free(other_program);
        zt_prog_free(program);
    }
    zt_engine_close(e);
    zt_ctx_free(ctx);
    return e ? saved : -2;
}

static void random_programs(void)
{
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < COUNT; i++) inputs[k][i] = (float)zt_normal(3, (uint64_t)k, (uint64_t)i);
    ok(compare("ref", 0, 1, 20) > 200, "random chains on ref: the bits of the ops alone");
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++)
        for (int threads = 1; threads <= 4; threads++)
            ok(compare("cpu", (zt_isa)isa, threads, 30) > 300, "random chains on cpu, %s, %d threads: the bits of the ops alone",
               isas[isa], threads);
    int saved = compare("vulkan", zt_isa_best(), 1, 12);
    if (saved != -2) ok(saved > 50, "random chains on vulkan: the bits of the ops alone");
}

/* ---- the pass -------------------------------------------------------------------------------- */

static zt_prog *passed(zt_ctx *ctx, const char *text, int n_sample)
{
    static const zt_binding sample[] = {{"n", 13}, {"m", 7}};
    unsigned off = ~(1u << zt_pass_find("chain", 5));
    zt_prog *program = zt_prog_parse(ctx, "given", text, strlen(text));
    if (!program) diag("%s", zt_ctx_error(ctx));
    zt_prog *q = program ? zt_prog_passes(ctx, program, &(zt_pass_opts){sample, n_sample, NULL, off}, NULL) : NULL;
    zt_prog_free(program);
    return q;
}

static void becomes(zt_ctx *ctx, const char *text, const char *want, const char *what)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_prog *other_program = passed(ctx, text, 2);
    bool good = other_program && zt_prog_print(other_program, &string) == ZT_OK && !strcmp(string.data, want);
    if (!good) diag("%s", other_program ? string.data : zt_ctx_error(ctx));
    ok(good, "%s", what);
    zt_prog_free(other_program);
    zt_str_fini(&string);
}

static void groups(zt_ctx *ctx)
{
    becomes(ctx,
            "zt program 1\nin    x: f32[n,4]\nin    g: f32[4]\nh = mul x g\ni = exp h\n"
            "y = add i x\nout   y = y\nout   h = h\n",
            "zt program 1\nin    x: f32[n,4]\nin    g: f32[4]\n"
            "h, y = pointwise x g chain=\"mul a b; exp %0; add %1 a; out %0 %2\"\n"
            "out   y = y\nout   h = h\n",
            "a group with two outputs, which keep their names");
    becomes(ctx,
            "zt program 1\nin    x: f32[n,4]\nh = exp x\ns = sum h\ni = neg h\ny = add i s\n"
            "out   y = y\n",
            "zt program 1\nin    x: f32[n,4]\nh = exp x\ns = sum h\n"
            "y = pointwise h s chain=\"neg a; add %0 b\"\nout   y = y\n",
            "a value that is read before the group ends stays outside");
    becomes(ctx,
            "zt program 1\nin    x: f32[4]\nin    w: f32[n,4]\nh = exp x\ny = add w h\n"
            "out   y = y\n",
            "zt program 1\nin    x: f32[4]\nin    w: f32[n,4]\nh = exp x\ny = add w h\n"
            "out   y = y\n",
            "what is of a smaller shape is not computed again");
    becomes(ctx,
            "zt program 1\nin    x: f32[2,4]\nin    pos: i32[2]\nstate k: f32[8,4]\n"
            "a = neg k\nb = exp a\nc = sum b\nk1 = kv_put k x pos\nkeep  k = k1\nout   c = c\n",
            "zt program 1\nin    x: f32[2,4]\nin    pos: i32[2]\nstate k: f32[8,4]\n"
            "a = neg k\nb = exp a\nc = sum b\nk1 = kv_put k x pos\nkeep  k = k1\nout   c = c\n",
            "nothing moves across memory that is used up");
    becomes(ctx, "zt program 1\nin    x: f32[q,4]\na = neg x\nb = exp a\nout   b = b\n",
            "zt program 1\nin    x: f32[q,4]\na = neg x\nb = exp a\nout   b = b\n", "a symbol without a sample: nothing is done");
}

/* Four ops read 6 values and write 4; as one they read one and write one. */
static void traffic(zt_ctx *ctx)
{
    static const char text[] = "zt program 1\nin x: f32[64]\na = neg x\nb = exp a\ny = add b x\n"
                               "c = mul y x\nout y = c\n";
    zt_pass_report r[32];
    zt_engine *e = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1});
    zt_prog *program = zt_prog_parse(ctx, "given", text, strlen(text));
    zt_prog *other_program = zt_prog_passes(ctx, program, &(zt_pass_opts){.engine = e}, r);
    const zt_pass_report *own = &r[zt_pass_find("chain", 5)];
    ok(other_program && own->bytes_before == 10 * 256 && own->bytes_after == 2 * 256 && own->kernels_before == 4 &&
           own->kernels_after == 1,
       "what the pass saved: %g bytes of traffic, then %g", own->bytes_before, own->bytes_after);
    zt_prog_free(other_program);
    zt_prog_free(program);
    zt_engine_close(e);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    hostile_texts(ctx);
    hostile_types(ctx);
    texts_are_canonical(ctx);
    groups(ctx);
    traffic(ctx);
    zt_ctx_free(ctx);
    random_programs();
    return tap_done();
}
