/* program.c - lib/prog: programs built from C and from text, printed, parsed again, bound. */
#include "lib/prog/prog.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static zt_ctx *ctx;

static zt_prog *parse(const char *text) { return zt_prog_parse(ctx, "test.zt", text, strlen(text)); }

/* The whole message, then a clean context. */
static void said(const char *message, const char *what)
{
    const char *error = zt_ctx_error(ctx);
    if (!ok(strcmp(error, message) == 0, "%s: %s", what, message)) diag("got: %s", error);
    zt_ctx_clear(ctx);
}

static void prints(const zt_prog *program, const char *text, const char *what)
{
    zt_str string;
    zt_str_init(&string, ctx);
    bool same = program && zt_prog_print(program, &string) == ZT_OK && strcmp(string.data, text) == 0;
    if (!ok(same, "%s", what)) diag("%s\n%s", zt_ctx_error(ctx), string.data ? string.data : "nothing");
    zt_str_fini(&string);
    zt_ctx_clear(ctx);
}

/* text in, canonical text out, and that once more. */
static void becomes(const char *text, const char *canonical, const char *what)
{
    zt_prog *program = parse(text);
    prints(program, canonical, what);
    zt_prog_free(program);
    program = parse(canonical);
    prints(program, canonical, "... and its text is a fixed point");
    zt_prog_free(program);
}

/* ---- the example of design.md ---------------------------------------------------------------- */

static const char canonical[] = "zt program 1\n"
                                "model \"SmolLM2.gguf\" id=5f3c09aa12d4e6b70c81e2f49b3a6d57\n"
                                "in    x: f32[n,576]\n"
                                "in    pos: i32[n]\n"
                                "data  wk: q4_1[192,576] \"blk.0.attn_k.weight\"\n"
                                "data  g: f32[576] \"blk.0.attn_norm.weight\"\n"
                                "state kc: f16[ctx,192]\n"
                                "h, rstd = rms_norm x g\n"
                                "k = linear h wk\n"
                                "r = rope k pos theta=100000 dims=64\n"
                                "kc1 = kv_put kc r pos\n"
                                "keep  kc = kc1\n"
                                "out   y = h\n";

static zt_prog *build(void)
{
    int norm[2];
    zt_prog *p = zt_prog_new(ctx);
    if (!p) return NULL;
    int64_t count = zt_prog_symbol(p, "n");
    zt_prog_model(p, "SmolLM2.gguf", "5f3c09aa12d4e6b70c81e2f49b3a6d57");
    int x = zt_prog_in(p, "x", ZT_F32, 2, (int64_t[]){count, 576});
    int pos = zt_prog_in(p, "pos", ZT_I32, 1, &count);
    int wk = zt_prog_data(p, "wk", ZT_Q4_1, 2, (int64_t[]){192, 576}, "blk.0.attn_k.weight");
    int g = zt_prog_data(p, "g", ZT_F32, 1, (int64_t[]){576}, "blk.0.attn_norm.weight");
    int kc = zt_prog_state(p, "kc", ZT_F16, 2, (int64_t[]){zt_prog_symbol(p, "ctx"), 192});
    zt_prog_op(p, ZT_OP_rms_norm, NULL, (int[]){x, g}, (const char *[]){"h", "rstd"}, norm);
    int k = zt_program_linear(p, "k", norm[0], wk, ZT_NONE, NULL);
    zt_rope_attrs a = zt_rope_defaults();
    a.theta = 1e5;
    a.dims = 64;
    int r = zt_program_rope(p, "r", k, pos, ZT_NONE, &a);
    int kc1 = zt_program_kv_put(p, "kc1", kc, r, pos, ZT_NONE, ZT_NONE);
    zt_prog_keep(p, kc, kc1);
    zt_prog_out(p, "y", norm[0]);
    return p;
}

static void test_example(void)
{
    zt_prog *program = build();
    ok(program && zt_ctx_status(ctx) == ZT_OK, "the example is built (%s)", zt_ctx_error(ctx));
    prints(program, canonical, "what C built prints as in design.md");
    zt_prog_free(program);
    becomes("zt program 1\n"
            "model \"SmolLM2.gguf\" id=5f3c09aa12d4e6b70c81e2f49b3a6d57\n"
            "in    x: f32[n,576]\n"
            "in    pos: i32[n]\n"
            "data  wk: q4_1[192,576] \"blk.0.attn_k.weight\"\n"
            "data  g: f32[576] \"blk.0.attn_norm.weight\"\n"
            "state kc: f16[ctx,192]\n"
            "h, rstd = rms_norm x g eps=1e-05     # f32[n,576], f32[n,1]\n"
            "k = linear h wk\n"
            "r = rope k pos _ theta=100000 dims=64\n"
            "kc1 = kv_put kc r pos\n"
            "keep  kc = kc1\n"
            "out   y = h\n",
            canonical, "design.md's text, less defaults and a trailing _");
}

static void test_look(void)
{
    zt_prog *program = build();
    const zt_value *kc = zt_prog_value(program, zt_prog_find(program, "kc"));
    ok(zt_prog_n_values(program) == 10 && zt_prog_n_steps(program) == 4 && zt_prog_n_outputs(program) == 1,
       "10 values, 4 steps, 1 output");
    ok(zt_prog_count(program, ZT_VALUE_IN) == 2 && zt_prog_nth(program, ZT_VALUE_IN, 1) == 1 &&
           zt_prog_nth(program, ZT_VALUE_DATA, 0) == 2 && zt_prog_nth(program, ZT_VALUE_STATE, 1) == -1,
       "values by kind");
    ok(kc->kind == ZT_VALUE_STATE && kc->index == 0 && kc->keep == zt_prog_find(program, "kc1"), "a state knows what it keeps");
    ok(strcmp(zt_prog_value(program, 2)->tensor, "blk.0.attn_k.weight") == 0, "data knows its tensor");
    ok(zt_prog_value(program, zt_prog_find(program, "rstd"))->index == 0 &&
           zt_prog_value(program, zt_prog_find(program, "kc1"))->index == 3,
       "op values know their step");
    const zt_step *st = zt_prog_step(program, 1);
    ok(st->op == ZT_OP_linear && st->in[0] == zt_prog_find(program, "h") && st->in[2] == ZT_NONE && st->out[1] == ZT_NONE,
       "a step's inputs and outputs, absent ones as ZT_NONE");
    ok(((const zt_rope_attrs *)zt_prog_step(program, 2)->attrs)->theta == 1e5, "a step's attributes");
    ok(zt_prog_n_symbols(program) == 2 && strcmp(zt_prog_symbol_name(program, 1), "ctx") == 0, "symbols");
    ok(strcmp(zt_prog_model_file(program), "SmolLM2.gguf") == 0 && *zt_prog_model_id(program) == '5', "model");
    ok(!zt_prog_value(program, 10) && !zt_prog_step(program, -1) && !zt_prog_output(program, 1) &&
           !zt_prog_symbol_name(program, 2) && zt_prog_find(program, "nobody") == -1,
       "past the end: nothing");
    zt_prog_free(program);
}

/* ---- canonical text -------------------------------------------------------------------------- */

static void test_text(void)
{
    becomes("zt program 1", "zt program 1\n", "an empty program");
    becomes("zt program 1 # c\r\n\r\n  # c\n\tin\tx :f32 [ ]# c\r\nout y=x", "zt program 1\nin    x: f32[]\nout   y = x\n",
            "space, comments, carriage returns, no last newline; rank 0");
    becomes("zt program 1\nin in: f32[2]\nout = silu in\nkeep = silu out\nout out = keep\n",
            "zt program 1\nin    in: f32[2]\nout = silu in\nkeep = silu out\nout   out = keep\n", "no word is reserved");
    becomes("zt program 1\nstate s: f32[2]\nin x: f32[2]\nout o = x\nkeep s = x\nin y: f32[1]\n",
            "zt program 1\nstate s: f32[2]\nin    x: f32[2]\nin    y: f32[1]\nkeep  s = x\n"
            "out   o = x\n",
            "keep and out go to the end");
    becomes("zt program 1\nin x: f32[4]\nin g: f32[4]\na = rms_norm x g\nb, _ = rms_norm a g\n"
            "c, r = rms_norm b g\n",
            "zt program 1\nin    x: f32[4]\nin    g: f32[4]\na = rms_norm x g\nb = rms_norm a g\n"
            "c, r = rms_norm b g\n",
            "outputs that nobody wants");
    becomes("zt program 1\nin x: f32[n]\nin p: i32[n]\nin t: i32[1,1]\nstate c: f32[n,1]\n"
            "d = kv_put c x p _ t\ny = kv_put d x p _ _\n",
            "zt program 1\nin    x: f32[n]\nin    p: i32[n]\nin    t: i32[1,1]\n"
            "state c: f32[n,1]\nd = kv_put c x p _ t\ny = kv_put d x p\n",
            "absent inputs");
    becomes("zt program 1\nmodel \"a\\\"\\\\\\/\\n\\u00e9\\ud83d\\ude00\\u0001.gguf\"\n"
            "data w: f32[1] \"\303\251\"\n",
            "zt program 1\nmodel \"a\\\"\\\\/\\n\303\251\360\237\230\200\\u0001.gguf\"\n"
            "data  w: f32[1] \"\303\251\"\n",
            "strings are JSON's");
}

static void test_bindings(void)
{
    static const char both[] = "zt program 1\nmodel \"a\"\nbind  n=3 ctx=0\nin    x: f32[n]\n"
                               "bind = reshape x shape=[ctx*0,n]\n";
    becomes("zt program 1\nin x: f32[n]\nbind n = 3\nmodel \"a\"\nbind ctx=00 # so\n"
            "bind = reshape x shape=[ctx*0,n]\n",
            both, "a program's own numbers: anywhere in the text, one line where it is canonical");
    zt_prog *program = parse(both);
    zt_binding binding[ZT_MAX_SYMBOLS] = {{"n", 7}, {"other", 1}};
    int count = 2, map[2];
    zt_prog_bindings(program, binding, &count);
    ok(count == 3 && binding[0].value == 7 && !strcmp(binding[2].symbol, "ctx") && binding[2].value == 0,
       "they are for those symbols that nobody gave a number");
    zt_prog *other_program = zt_prog_like(program, map);
    ok(other_program && zt_prog_set_binding(other_program, "n", 1) == ZT_EUSAGE, "a program like it has them");
    said("symbol 'n' is already bound", "its message");
    prints(other_program, "zt program 1\nmodel \"a\"\nbind  n=3\nin    x: f32[n]\n",
           "a symbol that is in no dimension any more is not printed");
    ok(zt_prog_model_path(other_program, "../b c") == ZT_OK && zt_prog_set_binding(other_program, "m", -1) == ZT_EUSAGE,
       "the model has another path; no number below 0");
    said("symbol 'm' is -1: must be nonnegative", "its message");
    prints(other_program, "zt program 1\nmodel \"../b c\"\nbind  n=3\nin    x: f32[n]\n", "the path");
    zt_prog_free(other_program);
    zt_prog_free(program);
    program = zt_prog_new(ctx);
    ok(zt_prog_model_path(program, "a") == ZT_EUSAGE, "a path for no model");
    said("the program names no model", "its message");
    zt_prog_free(program);
}

static void attribute(const char *op, const char *text, const char *canonical_text)
{
    char a[512], b[512];
    const char *frame = "zt program 1\nin    x: f32[2]\ny = %s x%s\n";
    snprintf(a, sizeof a, frame, op, text);
    snprintf(b, sizeof b, frame, op, canonical_text);
    becomes(a, b, text);
}

static void test_attributes(void)
{
    attribute("scale", " by=1", "");
    attribute("scale", " by=1.0e0", "");
    attribute("scale", " by = 3 ", " by=3");
    attribute("scale", " by=-0", " by=-0");
    attribute("scale", " by=0", " by=0");
    attribute("scale", " by=nan", " by=nan");
    attribute("scale", " by=-inf", " by=-inf");
    attribute("scale", " by=+inf", " by=inf");
    attribute("scale", " by=0.10000000000000001", " by=0.1");
    attribute("scale", " by=5e-324", " by=5e-324");
    attribute("scale", " by=1.7976931348623157e308", " by=1.7976931348623157e+308");
    attribute("cast", " to=bf16", " to=bf16");
    attribute("cast", " to=f32", "");
    attribute("cast", " to=abcdefghijklmnopqrstuvw", " to=abcdefghijklmnopqrstuvw");
    attribute("reshape", " shape=[ ]", "");
    attribute("sum", " axes=[ ] keepdims=1", " keepdims=1");
    attribute("sum", " axes=[ -1 , 0]", " axes=[-1,0]");
    attribute("transpose", " axes=[1,-9223372036854775808]", " axes=[1,-9223372036854775808]");
    attribute("reshape", " shape=[2 , n*1]", " shape=[2,n*1]");
    attribute("reshape", " shape=[0,1,2,3,4,5,6,9223372036854775807]", " shape=[0,1,2,3,4,5,6,9223372036854775807]");
}

static void dimension(const char *text, const char *canonical_text)
{
    char a[512], b[512];
    snprintf(a, sizeof a, "zt program 1\nin    x: f32[%s]\n", text);
    snprintf(b, sizeof b, "zt program 1\nin    x: f32[%s]\n", canonical_text);
    becomes(a, b, text);
}

static void test_dimensions(void)
{
    dimension("n", "n");
    dimension("2*3+4", "10");
    dimension("7/2", "3");
    dimension("10-4-3", "3");
    dimension("2+3*n", "2+3*n");
    dimension("(2+3)*n", "5*n");
    dimension("(n+3)*2", "(n+3)*2");
    dimension("n-(m-1)", "n-(m-1)");
    dimension("(n-m)-1", "n-m-1");
    dimension("n-(m+1)", "n-(m+1)");
    dimension("n+(m+1)", "n+(m+1)");
    dimension("n/(m*2)", "n/(m*2)");
    dimension("n/m*2", "n/m*2");
    dimension("(((n)))", "n");
    dimension("n * (m + (a.b - c_))", "n*(m+(a.b-c_))");
}

/* ---- from C ---------------------------------------------------------------------------------- */

static void test_chain(void)
{
    zt_prog *program = zt_prog_new(ctx);
    int rstd = 5, x = zt_prog_in(program, "x", ZT_F32, 1, (int64_t[]){4});
    ok(zt_prog_in(program, "x", ZT_F32, 0, NULL) == -1, "a name twice");
    int y = zt_program_rms_norm(program, "y", x, -1, NULL, &rstd);
    int z = zt_program_silu(program, "z", y);
    ok(y == -1 && rstd == -1 && z == -1 && zt_prog_n_steps(program) == 0, "-1 passes through");
    ok(zt_prog_keep(program, y, z) && zt_prog_out(program, "o", z), "keep and out of -1 fail");
    said("value 'x' is already defined", "the first error stays");
    ok(zt_program_silu(program, "z", 7) == -1, "a number out of range");
    said("op silu: value 7 is not in the program", "its message");
    ok(zt_program_add(program, "z", x, ZT_NONE) == -1, "a required input is absent");
    said("op add: missing input 'b'", "its message");
    ok(zt_program_add(program, "z", x, -1) == -1, "a failure that left no message");
    said("op add: input value is invalid (-1): an earlier step failed", "its message");
    ok(zt_program_silu(program, "_", x) == -1, "an unwanted first output");
    said("op silu: the first output must have a name", "its message");
    ok(zt_program_cast(program, "z", x, &(zt_cast_attrs){.to = {{'a', ' ', 'b'}}}) == -1, "a bad word");
    said("op cast: attribute 'to' must be a word, got 'a b'", "its message");
    ok(zt_prog_op(program, (zt_op)9999, NULL, NULL, NULL, NULL) == ZT_EUSAGE, "an op that is none");
    said("invalid op number 9999", "its message");
    ok(zt_prog_data(program, "w", ZT_F32, 0, NULL, NULL) == -1, "data of no tensor");
    said("value 'w': data without a tensor name", "its message");
    ok(zt_prog_in(program, "w", (zt_dtype)99, 0, NULL) == -1, "no dtype");
    said("value 'w': invalid dtype 99 or rank 0", "its message");
    ok(zt_prog_in(program, "w", ZT_F32, 1, (int64_t[]){-5}) == -1, "a foreign dimension");
    said("value 'w': dimension 0 belongs to another program", "its message");
    ok(zt_program_reshape(program, "w", x, &(zt_reshape_attrs){.shape = {1, {-1}}}) == -1, "in attributes");
    said("op reshape: attribute 'shape': dimension 0 belongs to another program", "its message");
    ok(zt_program_reshape(program, "w", x, &(zt_reshape_attrs){.shape = {11, {0}}}) == -1, "too many");
    said("op reshape: attribute 'shape' has an invalid number of dimensions: 11", "its message");
    ok(zt_program_sum(program, "w", x, &(zt_sum_attrs){.axes = {-1, {0}}}) == -1, "a list of -1 integers");
    said("op sum: attribute 'axes' has an invalid number of integers: -1", "its message");
    ok(zt_prog_dim(program, '%', 4, 2) == 0 && zt_prog_dim(program, '+', -1, 2) == 0, "no such dimension");
    zt_ctx_clear(ctx);
    prints(program, "zt program 1\nin    x: f32[4]\n", "failures leave no trace");
    zt_prog_free(program);
}

static void test_made_up_names(void)
{
    zt_prog *program = zt_prog_new(ctx);
    int x = zt_prog_in(program, NULL, ZT_F32, 1, (int64_t[]){4});
    int taken = zt_prog_in(program, "v2", ZT_F32, 1, (int64_t[]){4}), out[2];
    zt_prog_op(program, ZT_OP_rms_norm, NULL, (int[]){x, taken}, NULL, out);
    zt_program_rms_norm(program, NULL, out[0], taken, NULL, NULL);
    prints(program,
           "zt program 1\nin    v0: f32[4]\nin    v2: f32[4]\nv3, v4 = rms_norm v0 v2\n"
           "v5 = rms_norm v3 v2\n",
           "made-up names step aside");
    zt_prog_free(program);
}

static void test_attributes_from_c(void)
{
    zt_prog *program = zt_prog_new(ctx);
    int x = zt_prog_in(program, "x", ZT_F32, 1, (int64_t[]){4});
    zt_cast_attrs a = {.saturate = 1};
    memset(&a.to, 'x', sizeof a.to);
    strcpy(a.to.s, "f16");
    int y = zt_program_cast(program, "y", x, &a);
    const zt_cast_attrs *kept = zt_prog_step(program, zt_prog_value(program, y)->index)->attrs;
    zt_cast_attrs clean = {.to = {"f16"}, .saturate = 1};
    ok(memcmp(kept, &clean, sizeof clean) == 0, "what follows a word is cleared");
    zt_program_cast(program, "z", x, NULL);
    ok(zt_prog_step(program, 1)->attrs == zt_op_info(ZT_OP_cast)->defaults, "defaults are not copied");
    zt_prog_free(program);
}

static void test_stress_dimensions(void)
{
    zt_prog *program = zt_prog_new(ctx);
    int64_t d = zt_prog_symbol(program, "n");
    for (int i = 0; i < 6; i++) d = zt_prog_dim(program, '+', d, d);
    ok(d < 0, "64 terms");
    ok(zt_prog_dim(program, '+', d, 1) == 0, "65 are refused");
    said("a dimension has at most 64 numbers and symbols", "its message");
    ok(zt_prog_symbol(program, "n") == zt_prog_symbol(program, "n"), "a symbol is one dimension");
    ok(zt_prog_dim(program, '*', INT64_MAX, 2) == 0, "a number too large");
    said("dimension 9223372036854775807*2 overflows", "its message");
    int x = zt_prog_in(program, "x", ZT_F32, 1, (int64_t[]){zt_prog_symbol(program, "n")});
    ok(x >= 0 && zt_prog_out(program, "y", x) != ZT_OK, "after a dimension that failed a program takes no outputs");
    said("y: a dimension is invalid: an earlier call failed", "its message");
    zt_prog_free(program);
}

/* ---- bind ------------------------------------------------------------------------------------ */

static bool has_type(const zt_bound *b, const char *name, const char *type)
{
    char text[ZT_TYPE_TEXT];
    int v = zt_prog_find(b->prog, name);
    return v >= 0 && strcmp(zt_type_text(&b->type[v], text), type) == 0;
}

static void test_bind(void)
{
    zt_prog *program = build();
    const zt_binding some[] = {{"m", -3}, {"n", 3}, {"ctx", 32}};
    zt_bound *bound = zt_prog_bind(program, some, 3);
    ok(bound && has_type(bound, "x", "f32[3,576]") && has_type(bound, "rstd", "f32[3,1]") && has_type(bound, "r", "f32[3,192]") &&
           has_type(bound, "kc1", "f16[32,192]"),
       "types are inferred, other symbols ignored (%s)", zt_ctx_error(ctx));
    zt_bound_free(bound);
    bound = zt_prog_bind(program, (zt_binding[]){{"n", 0}, {"ctx", 0}}, 2);
    ok(bound && has_type(bound, "k", "f32[0,192]"), "no rows");
    zt_bound_free(bound);
    ok(!zt_prog_bind(program, some, 2) && zt_ctx_status(ctx) == ZT_EUSAGE, "a symbol without a value");
    said("no value for symbol 'ctx'", "its message");
    ok(!zt_prog_bind(program, (zt_binding[]){{"n", -1}, {"ctx", 0}}, 2), "a value below 0");
    said("symbol 'n' is -1: must be nonnegative", "its message");
    zt_prog_free(program);
}

static void test_bind_attributes(void)
{
    zt_prog *program = parse("zt program 1\nin x: f32[n,6]\na = reshape x shape=[n*2,3]\n"
                             "b = reshape a shape=[n*6]\nc = silu b\n");
    zt_bound *bound = zt_prog_bind(program, &(zt_binding){"n", 5}, 1);
    ok(bound && has_type(bound, "a", "f32[10,3]") && has_type(bound, "c", "f32[30]"), "dims in attributes (%s)",
       zt_ctx_error(ctx));
    const zt_reshape_attrs *a = bound ? bound->attrs[0] : NULL, *other = bound ? bound->attrs[1] : NULL;
    ok(a && a->shape.n == 2 && a->shape.dim[0] == 10 && other->shape.dim[0] == 30, "bound attributes are numbers");
    ok(bound && bound->attrs[2] == zt_prog_step(program, 2)->attrs, "others are not copied");
    zt_bound_free(bound);
    zt_prog_free(program);
}

/* Binds `lines` with n = 4 and m = 0. */
static void bind_fails(const char *lines, zt_status status, const char *message)
{
    char text[512];
    snprintf(text, sizeof text, "zt program 1\nin m: f32[m]\nin n: f32[n]\n%s", lines);
    zt_prog *program = parse(text);
    zt_bound *bound = program ? zt_prog_bind(program, (zt_binding[]){{"n", 4}, {"m", 0}}, 2) : NULL;
    ok(program && !bound && zt_ctx_status(ctx) == status, "%s is refused", zt_status_name(status));
    said(message, "its message");
    zt_bound_free(bound);
    zt_prog_free(program);
}

static void test_bind_errors(void)
{
    bind_fails("in x: f32[n/m]\n", ZT_EDATA, "dimension n/m: 4/0 divides by zero");
    bind_fails("in x: f32[n*9223372036854775807]\n", ZT_EDATA,
               "dimension n*9223372036854775807: 4*9223372036854775807 overflows");
    bind_fails("in x: f32[m-n+1]\n", ZT_EDATA, "dimension m-n+1 is -3");
    bind_fails("in x: f32[(m-n-1)/2+2]\n", ZT_EDATA, "dimension (m-n-1)/2+2 is -1");
    bind_fails("in x: q8_0[n*9]\n", ZT_ESHAPE, "value 'x': q8_0[36]: the last dimension is not a multiple of the block size");
    bind_fails("in x: f32[n*9999999999,n*9999999999]\n", ZT_ESHAPE, "value 'x': f32[39999999996,39999999996]: too large");
    bind_fails("y = reshape n shape=[2-n]\n", ZT_EDATA, "dimension 2-n is -2");
    bind_fails("state s: f32[n+1]\nkeep s = n\n", ZT_ESHAPE,
               "state 's' has type f32[5], but 'n', which it keeps, has type f32[4]");
    char text[] = "zt program 1\nin x: f32[n,4]\ny = silu x\nz = add y w\nw = silu z\n";
    zt_prog *program = parse(text);
    ok(!program, "use before definition");
    said("test.zt:4: undefined value 'w'", "its message");
    program = parse("zt program 1\nin x: f32[2]\nin z: f32[3]\ny = silu x\nsum = add y z\n");
    ok(program && !zt_prog_bind(program, NULL, 0) && zt_ctx_status(ctx) == ZT_ESHAPE, "shapes that do not fit");
    const char *error = zt_ctx_error(ctx);
    ok(strncmp(error, "step 1, 'sum': op add: ", 23) == 0 && strstr(error, "b f32[3]"), "says step, op and shapes: %s", error);
    zt_ctx_clear(ctx);
    zt_prog_free(program);
}

/* 30 layers of 17 ops, bound for each new count: counted in allocations, and not slow. */
static void test_bind_cost(void)
{
    zt_prog *program = zt_prog_new(ctx);
    int64_t count = zt_prog_symbol(program, "n");
    int x = zt_prog_in(program, "x", ZT_F32, 2, (int64_t[]){count, 64});
    int g = zt_prog_in(program, "g", ZT_F32, 1, (int64_t[]){64});
    for (int i = 0; i < 255; i++) {
        int y = zt_program_rms_norm(program, NULL, x, g, NULL, NULL);
        x = zt_program_add(program, NULL, x, y);
    }
    uint64_t calls = zt_mem_get(ctx).calls;
    double best = 1;
    zt_bound_free(zt_prog_bind(program, &(zt_binding){"n", 1}, 1));
    ok(zt_mem_get(ctx).calls == calls + 1, "binding is one allocation");
    for (int i = 0; i < 20; i++) {
        double t = zt_seconds();
        zt_bound_free(zt_prog_bind(program, &(zt_binding){"n", i}, 1));
        t = zt_seconds() - t;
        best = t < best ? t : best;
    }
    diag("510 steps bound in %.0f us", best * 1e6);
    ok(best < 0.02, "510 steps bind in no time");
    zt_prog_free(program);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash shows where */
    ctx = zt_ctx_new();
    test_example();
    test_look();
    test_text();
    test_bindings();
    test_attributes();
    test_dimensions();
    test_chain();
    test_made_up_names();
    test_attributes_from_c();
    test_stress_dimensions();
    test_bind();
    test_bind_attributes();
    test_bind_errors();
    test_bind_cost();
    ok(zt_ctx_status(ctx) == ZT_OK, "no error is left over (%s)", zt_ctx_error(ctx));
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
