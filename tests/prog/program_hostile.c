/* program_hostile.c - lib/prog: every refusal with its message, broken text, no memory. */
#include "lib/prog/prog.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static zt_ctx *ctx;

/* A sound text that uses the whole grammar. */
static const char sound[] = "zt program 1\n"
                            "model \"dir/a \\\"b\\\" \\u00e9.gguf\" id=5f3c09aa\n"
                            "bind  n=2 ctx=64\n"
                            "in    x: f32[n,(n+64)/n*2-2]   # a comment\n"
                            "in    pos: i32[n]\n"
                            "in    table: i32[2,ctx/32]\n"
                            "data  g: f32[64] \"norm.weight\"\n"
                            "state kc: f32[ctx,64]\n"
                            "h, rstd = rms_norm x g eps=0.001\n"
                            "r = rope h pos _ theta=100000 dims=64 pair=neighbours\n"
                            "kc1 = kv_put kc r pos _ table\n"
                            "c = cast kc1 to=f16\n"
                            "s = scale h by=-inf\n"
                            "v = reshape s shape=[n*2,32]\n"
                            "keep  kc = kc1\n"
                            "out   y = v\n"
                            "out   rstd = rstd\n";

static bool is_refused(const char *text, size_t count, const char *message)
{
    zt_prog *program = zt_prog_parse(ctx, "run.zt", text, count);
    zt_status status = zt_ctx_status(ctx);
    bool good = !program && status == ZT_EDATA && !strchr(zt_ctx_error(ctx), '\n') &&
                (!message || strcmp(zt_ctx_error(ctx), message) == 0);
    if (!good) diag("%s: %s", program ? "accepted" : zt_status_name(status), zt_ctx_error(ctx));
    zt_prog_free(program);
    zt_ctx_clear(ctx);
    return good;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Line 9, after what stands in front of it, is wrong. */
static const char front[] = "zt program 1\n"
                            "in x: f32[n,4]\n"
                            "in g: f32[4]\n"
                            "in pos: i32[n]\n"
                            "data w: f32[4,4] \"w\"\n"
                            "state s: f32[ctx,4]\n"
                            "y = silu x\n"
                            "s1 = kv_put s y pos\n";

#define KINDS "cannot start a line: expected model, bind, in, state, data, keep, out or NAME = OP"
#define QKV   "y y y pos"
#define A16   "aaaaaaaaaaaaaaaa"
#define A64   A16 A16 A16 A16
#define A256  A64 A64 A64 A64

static const struct refusal {
    const char *line, *message;
} refusals[] = {
    {"?", "expected a name, got '?'"},
    {"y", "'y' " KINDS},
    {"\x01", "expected a name, got '\\x01'"},
    {"\xff\xfe", "expected a name, got '\\xff'"},
    {"z = ropee x", "unknown op 'ropee' (did you mean 'rope'?)"},
    {"z = ", "expected an op, got the end of the line"},
    {"z = silu", "op silu: missing input 'x'"},
    {"z = add x", "op add: missing input 'b'"},
    {"z = add x _", "op add: missing input 'b'"},
    {"z = silu x x", "op silu: too many inputs: at most 1"},
    {"z = silu _ x", "op silu: too many inputs: at most 1"},
    {"z = silu q", "undefined value 'q'"},
    {"z = silu z", "undefined value 'z'"},
    {"y = silu x", "value 'y' is already defined"},
    {"x = silu x", "value 'x' is already defined"},
    {"z, z = rms_norm x g", "value 'z' is already defined"},
    {"z, q = silu x", "op silu: too many outputs (2): at most 1"},
    {"a, b, c, d, e, f, h, k = rms_norm x g", "too many outputs: at most 7 are allowed"},
    {"_ = silu x", "op silu: the first output must have a name"},
    {"_, z = rms_norm x g", "op rms_norm: the first output must have a name"},
    {"a, = rms_norm x g", "expected a name, got '='"},
    {"a b = silu x", "'a' " KINDS},
    {"a, b silu x", "expected ',' or '=', got 'silu'"},
    {"z = silu x; q", "expected the end of the line, got ';'"},
    {"z = silu x 5", "expected the end of the line, got '5'"},
    {"9z = silu x", "expected a name, got '9z'"},
    {A256 " = silu x", "value '" A64 A16 "aaaaaaaaaaaa...' has 256 characters: at most 255 are allowed"},
    /* donated values */
    {"z = silu s", "op silu: value 's' was donated: its memory now holds 's1'"},
    {"out z = s", "out 'z': value 's' was donated: its memory now holds 's1'"},
    {"keep s = s", "keep 's': value 's' was donated: its memory now holds 's1'"},
    {"s2 = kv_put s y pos", "op kv_put: value 's' was donated: its memory now holds 's1'"},
    {"s2 = kv_put s1 y pos\nz = silu s1", "op silu: value 's1' was donated: its memory now holds 's2'"},
    {"t = reshape s1 shape=[4]\ns2 = kv_put s1 y pos\nz = silu t", "op silu: value 't' was donated: its memory now holds 's2'"},
    {"t = reshape s1 shape=[4]\ns2 = kv_put t y pos\nz = silu s1", "op silu: value 's1' was donated: its memory now holds 's2'"},
    {"keep s = s1\ns2 = kv_put s1 y pos", "op kv_put overwrites 's1', but 's1' is kept or an output"},
    {"t = reshape s1\nout o = t\ns2 = kv_put s1 y pos", "op kv_put overwrites 's1', but 't' is kept or an output"},
    {"z = kv_put x y pos", "op kv_put overwrites 'x', which is in: only a state or a computed value can be donated"},
    {"z = kv_put w y pos", "op kv_put overwrites 'w', which is data: only a state or a computed value can be donated"},
    {"t = reshape w\nz = kv_put t y pos",
     "op kv_put overwrites 't', which is data: only a state or a computed value can be donated"},
    {"z = kv_put s1 s1 pos", "op kv_put overwrites 's1', but also reads it as 'x'"},
    {"k1, v1, z = rope_put s1 w " QKV,
     "op rope_put overwrites 'w', which is data: only a state or a computed value can be donated"},
    {"k1, v1, z = rope_put x s1 " QKV,
     "op rope_put overwrites 'x', which is in: only a state or a computed value can be donated"},
    {"k1, v1, z = rope_put s1 s1 " QKV, "op rope_put overwrites 's1', but also reads it as 'vc'"},
    {"k1, v1, z = rope_put s1 s " QKV, "op rope_put: value 's' was donated: its memory now holds 's1'"},
    {"state t: f32[4,4]\nk1, v1, z = rope_put s1 t y t y pos", "op rope_put overwrites 't', but also reads it as 'k'"},
    {"state t: f32[4,4]\nu = reshape t\nk1, v1, z = rope_put s1 t y u y pos",
     "op rope_put overwrites 't', but also reads it as 'k'"},
    {"state t: f32[4,4]\nk1, v1, z = rope_put s1 t " QKV "\nz = silu t",
     "op silu: value 't' was donated: its memory now holds 'v1'"},
    {"state t: f32[4,4]\nk1, v1, z = rope_put s1 t " QKV "\nz = silu s1",
     "op silu: value 's1' was donated: its memory now holds 'k1'"},
    {"state t: f32[4,4]\nkeep t = t\nk1, v1, z = rope_put s1 t " QKV, "op rope_put overwrites 't', but 't' is kept or an output"},
    {"state t: f32[4,4]\nk1 = rope_put s1 t " QKV, "op rope_put: output 'vc1' must have a name: it uses the memory of 'vc'"},
    {"state t: f32[4,4]\nk1, _, z = rope_put s1 t " QKV,
     "op rope_put: output 'vc1' must have a name: it uses the memory of 'vc'"},
    /* keep and out */
    {"keep s", "expected '=', got the end of the line"},
    {"keep q = s1", "undefined value 'q'"},
    {"keep s = q", "undefined value 'q'"},
    {"keep y = s1", "keep 'y': not a state"},
    {"keep s = w", "keep 's': 'w' is data of the model and cannot be kept"},
    {"keep s = s1\nkeep s = s1", "keep 's': the state already keeps 's1'"},
    {"keep s = s1 s1", "expected the end of the line, got 's1'"},
    {"out o = q", "undefined value 'q'"},
    {"out o = 5", "expected a value, got '5'"},
    {"out _ = y", "output '_' is not a valid name"},
    {"out o = y\nout o = x", "out 'o' is already defined"},
    /* declarations */
    {"in z f32[4]", "expected ':', got 'f32'"},
    {"in z: f33[4]", "unknown dtype 'f33' (did you mean 'f32'?)"},
    {"in z: F32[4]", "unknown dtype 'F32' (did you mean 'f32'?)"},
    {"in z: f32", "expected '[', got the end of the line"},
    {"in z: f32[", "expected a dimension, got the end of the line"},
    {"in z: f32[4", "expected ',' or ']', got the end of the line"},
    {"in z: f32[4,]", "expected a dimension, got ']'"},
    {"in z: f32[-4]", "expected a dimension, got '-4'"},
    {"in z: f32[4 4]", "expected ',' or ']', got '4'"},
    {"in z: f32[2.5]", "expected ',' or ']', got '.5'"},
    {"in z: f32[1,1,1,1,1,1,1,1,1,1,1]", "too many dimensions: at most 10 are allowed"},
    {"in z: f32[3-4]", "dimension 3-4 is negative"},
    {"in z: f32[4/0]", "dimension 4/0 divides by zero"},
    {"in z: f32[9223372036854775807+1]", "dimension 9223372036854775807+1 overflows"},
    {"in z: f32[9223372036854775808]", "expected a dimension of at most 63 bits, got '9223372036854775808'"},
    {"in z: f32[(n]", "expected ')', got ']'"},
    {"in z: f32[_]", "symbol '_' is not a valid name"},
    {"in z: f32[" A256 "]", "symbol '" A64 A16 "aaaaaaaaaaaa...' has 256 characters: at most 255 are allowed"},
    {"in z: f32[a,b,c,d,e,f,g,h]\nin z2: f32[i,j,k,l,m,o,p]", "too many symbols at 'p': a program has at most 16"},
    {"in z: f32[9999999999,9999999999]", "value 'z': f32[9999999999,9999999999]: too large"},
    {"in z: q4_0[33]", "value 'z': q4_0[33]: the last dimension is not a multiple of the block size"},
    {"in x: f32[4]", "value 'x' is already defined"},
    {"in _: f32[4]", "value '_' is not a valid name"},
    {"in z: f32[4] \"z\"", "expected the end of the line, got '\"'"},
    {"data z: f32[4]", "expected a string, got the end of the line"},
    {"data z: f32[4] z", "expected a string, got 'z'"},
    /* strings */
    {"data z: f32[4] \"z", "unterminated string"},
    {"data z: f32[4] \"z\\", "unterminated string"},
    {"data z: f32[4] \"z\\\"", "unterminated string"},
    {"data z: f32[4] \"a\\x\"", "invalid character or escape at byte 3 of a string"},
    {"data z: f32[4] \"\\u12\"", "invalid character or escape at byte 2 of a string"},
    {"data z: f32[4] \"\\u12g4\"", "invalid character or escape at byte 5 of a string"},
    {"data z: f32[4] \"\\u0000\"", "invalid character or escape at byte 6 of a string"},
    {"data z: f32[4] \"\\udc00\"", "invalid character or escape at byte 6 of a string"},
    {"data z: f32[4] \"\\ud800\"", "invalid character or escape at byte 6 of a string"},
    {"data z: f32[4] \"\\ud800\\u0041\"", "invalid character or escape at byte 12 of a string"},
    {"data z: f32[4] \"\t\"", "invalid character or escape at byte 0 of a string"},
    {"data z: f32[4] \"\xc3\"", "invalid character or escape at byte 0 of a string"},
    {"data z: f32[4] \"\xed\xa0\x80\"", "invalid character or escape at byte 0 of a string"},
    /* the symbols' numbers */
    {"bind", "expected a symbol, got the end of the line"},
    {"bind 5", "expected a symbol, got '5'"},
    {"bind n", "expected '=', got the end of the line"},
    {"bind n=", "expected a number, got the end of the line"},
    {"bind n=3,ctx=4", "expected a symbol, got ','"},
    {"bind n=-1", "symbol 'n' is -1: must be nonnegative"},
    {"bind n=1.5", "symbol value '1.5' is not an integer from 0 to 2^63 - 1"},
    {"bind n=9223372036854775808", "symbol value '9223372036854775808' is not an integer from 0 to 2^63 - 1"},
    {"bind n=" A64, "symbol value '" A64 "' is not an integer from 0 to 2^63 - 1"},
    {"bind n=2 n=2", "symbol 'n' is already bound"},
    {"bind n=2\nbind n=2", "symbol 'n' is already bound"},
    {"bind nn=2", "bind: no dimension uses the symbol 'nn'"},
    {"bind x=2", "bind: no dimension uses the symbol 'x'"},
    {"bind _=2", "symbol '_' is not a valid name"},
    {"bind " A256 "=2", "symbol '" A64 A16 "aaaaaaaaaaaa...' has 256 characters: at most 255 are allowed"},
    {"bind a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1", "too many symbols: a program has at most 16"},
    /* the model */
    {"model m.gguf", "expected a string, got 'm.gguf'"},
    {"model \"m\" id=xyz", "id 'xyz' is not hexadecimal"},
    {"model \"m\" id=", "expected id=HEX after the model's file name"},
    {"model \"m\" name=5", "expected id=HEX after the model's file name"},
    {"model \"m\" id=5 5", "expected the end of the line, got '5'"},
    {"model \"m\"\nmodel \"n\"", "the model is already named: 'm'"},
    /* attributes */
    {"z = silu x by=5", "op silu: unknown attribute 'by'"},
    {"z = scale x by", "op scale: too many inputs: at most 1"},
    {"z = scale x by=", "op scale: attribute 'by': expected a number, got the end of the line"},
    {"z = scale x by=y", "op scale: attribute 'by': expected a number, got 'y'"},
    {"z = scale x by=0x10", "op scale: attribute 'by': expected a number, got '0x10'"},
    {"z = scale x by=1e999", "op scale: attribute 'by': expected a number, got '1e999'"},
    {"z = scale x by=\"1\"", "op scale: attribute 'by': expected a number, got '\"'"},
    {"z = scale x by=1 by=1", "op scale: duplicate attribute 'by'"},
    {"z = scale by=1 x", "op scale: input 'x' must come before the attributes"},
    {"z = rope x pos dims=1.5", "op rope: attribute 'dims': expected an integer, got '1.5'"},
    {"z = rope x pos dims=nan", "op rope: attribute 'dims': expected an integer, got 'nan'"},
    {"z = rope x pos dims=inf", "op rope: attribute 'dims': expected an integer, got 'inf'"},
    {"z = rope x pos dims=n", "op rope: attribute 'dims': expected an integer, got 'n'"},
    {"z = rope x pos dims=9223372036854775808", "op rope: attribute 'dims': expected an integer, got '9223372036854775808'"},
    {"z = cast x to=5", "op cast: attribute 'to': expected a word, got '5'"},
    {"z = cast x to=" A16 "bbbbbbbb", "op cast: attribute 'to' has more than 23 characters: '" A16 "bbbbbbbb'"},
    {"z = reshape x shape=4", "op reshape: attribute 'shape': expected a list [...], got '4'"},
    {"z = reshape x shape=[4", "expected ',' or ']', got the end of the line"},
};

static void test_refusals(void)
{
    char text[2048], message[512];
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        int line = 9;
        for (const char *c = r->line; *c; c++) line += *c == '\n';
        snprintf(text, sizeof text, "%s%s", front, r->line);
        snprintf(message, sizeof message, "run.zt:%d: %s", line, r->message);
        ok(is_refused(text, strlen(text), message), "%s", message);
    }
}

static void test_first_line(void)
{
    static const struct refusal first[] = {
        {"", "run.zt:1: not a program: the first line must be 'zt program 1'"},
        {"\nzt program 1\n", "run.zt:1: not a program: the first line must be 'zt program 1'"},
        {"zt programme 1\n", "run.zt:1: not a program: the first line must be 'zt program 1'"},
        {"GGUF\3\0\0\0", "run.zt:1: not a program: the first line must be 'zt program 1'"},
        {"zt program 2\n", "run.zt:1: unsupported program version 2: must be 1"},
        {"zt program 10\n", "run.zt:1: unsupported program version 10: must be 1"},
        {"zt program 1 x\n", "run.zt:1: expected the end of the line, got 'x'"},
    };
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        ok(is_refused(first[i].line, strlen(first[i].line), first[i].message), "%s", first[i].message);
    ok(is_refused(NULL, 0, first[0].message), "no text at all");
    ok(is_refused("zt program 1\nin x: f32[4]\0\n", 27,
                  "run.zt:2: expected the end of the line, "
                  "got '\\x00'"),
       "a zero byte");
    zt_prog *program = zt_prog_parse(ctx, "a\033[31m\n", "x", 1);
    ok(!program && strncmp(zt_ctx_error(ctx), "a\\x1b[31m\\x0a:1: ", 16) == 0, "the file's name is escaped");
    zt_ctx_clear(ctx);
}

/* ---- large and deep -------------------------------------------------------------------------- */

/* head, then `middle` count times, then tail. */
static char *repeat(const char *head, const char *middle, size_t count, const char *tail, size_t *len)
{
    size_t h = strlen(head), m = strlen(middle), t = strlen(tail);
    char *text = malloc(h + count * m + t + 1);
    if (!text) exit(1);
    memcpy(text, head, h);
    for (size_t i = 0; i < count; i++) memcpy(text + h + i * m, middle, m);
    memcpy(text + h + count * m, tail, t + 1);
    *len = h + count * m + t;
    return text;
}

static void test_deep(void)
{
    static const struct deep {
        const char *head, *middle;
        size_t n;
        const char *tail, *message;
    } deep[] = {
        {"zt program 1\nin x: f32[", "(", 100000, "", "run.zt:2: parentheses are nested too deeply: at most 64 are allowed"},
        {"zt program 1\nin x: f32[n", "+1", 100000, "]", "run.zt:2: a dimension has at most 64 numbers and symbols"},
        {"zt program 1\nin x: f32[n", "-(n", 100000, "", "run.zt:2: parentheses are nested too deeply: at most 64 are allowed"},
        {"zt program 1\nin x: f32[", "9", 100000, "]", NULL},
        {"zt program 1\nin x: f32[", "a", 1000000, "]", NULL},
        {"zt program 1\nin x: f32[1]\ny = add", " x", 1000000, "", "run.zt:3: op add: too many inputs: at most 2"},
        {"zt program 1\n", "y, ", 1000000, "", "run.zt:2: too many outputs: at most 7 are allowed"},
        {"zt program 1\nin x: f32[1]\ny = scale x by=", "1", 1000000, "", NULL},
        {"zt program 1\nin x: f32[1]\nz = silu x\nz", "z", 1000000, " = silu x", NULL},
    };
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        size_t n;
        char *text = repeat(deep[i].head, deep[i].middle, deep[i].n, deep[i].tail, &n);
        ok(is_refused(text, n, deep[i].message), "%zu times '%s'", deep[i].n, deep[i].middle);
        free(text);
    }
    size_t n;
    char *text = repeat("zt program 1\nin x: f32[", "(", 64, "n", &n), *all;
    all = repeat(text, ")", 64, "]\n", &n);
    zt_prog *program = zt_prog_parse(ctx, "run.zt", all, n);
    ok(program != NULL, "64 parentheses are fine");
    zt_prog_free(program);
    free(all);
    free(text);
}

/* lines of "vN = silu vM"; the caller frees. */
static char *many_lines(int lines, size_t *count)
{
    char *text = malloc((size_t)lines * 40 + 64);
    if (!text) exit(1);
    *count = (size_t)sprintf(text, "zt program 1\nin v0: f32[n*2+1]\n");
    for (int i = 1; i <= lines; i++) *count += (size_t)sprintf(text + *count, "v%d = silu v%d\n", i, i / 2);
    return text;
}

static void test_large(void)
{
    size_t count;
    char *text = many_lines((1 << 20) - 1, &count);
    clock_t t = clock();
    zt_prog *program = zt_prog_parse(ctx, "run.zt", text, count);
    double seconds = (double)(clock() - t) / CLOCKS_PER_SEC;
    ok(program && zt_prog_n_values(program) == 1 << 20, "a million lines (%s)", zt_ctx_error(ctx));
    diag("parsed in %.2f s of processor time", seconds);
    ok(zt_program_silu(program, NULL, 0) == -1 &&
           !strcmp(zt_ctx_error(ctx), "too many items: a program has at most 1048576 values"),
       "one too many");
    zt_ctx_clear(ctx);
    ok(zt_prog_n_values(program) == 1 << 20 && zt_prog_n_steps(program) == (1 << 20) - 1, "is not there");
    zt_prog_free(program);
    free(text);
    text = repeat("zt program 1\n", "\n", 1000000, "?", &count);
    ok(is_refused(text, count, "run.zt:1000002: expected a name, got '?'"), "a million empty lines");
    free(text);
}

/* ---- broken text ----------------------------------------------------------------------------- */

/* Refused with one line, or a program whose text is a fixed point. */
static bool is_harmless(const char *text, size_t count)
{
    zt_prog *program = zt_prog_parse(ctx, "run.zt", text, count), *again = NULL;
    bool good = !program == (zt_ctx_status(ctx) == ZT_EDATA);
    if (program) {
        zt_str a, b;
        zt_str_init(&a, ctx);
        zt_str_init(&b, ctx);
        good = good && zt_prog_print(program, &a) == ZT_OK;
        again = zt_prog_parse(ctx, "again", a.data, a.len);
        good = good && again && zt_prog_print(again, &b) == ZT_OK && strcmp(a.data, b.data) == 0;
        if (!good) diag("%s\n%s\n%s", zt_ctx_error(ctx), a.data, b.data ? b.data : "");
        zt_bound_free(zt_prog_bind(program, (zt_binding[]){{"n", 2}, {"ctx", 64}}, 2));
        zt_str_fini(&a);
        zt_str_fini(&b);
    }
    good = good && !strchr(zt_ctx_error(ctx), '\n');
    zt_prog_free(program);
    zt_prog_free(again);
    zt_ctx_clear(ctx);
    return good && zt_mem_get(ctx).blocks == 0;
}

static void test_truncations(void)
{
    int bad = 0;
    size_t length = strlen(sound);
    ok(is_harmless(sound, length), "the text to break");
    for (size_t i = 0; i <= length; i++) {
        char *cut = malloc(i ? i : 1); /* so that a byte read past the end is seen */
        if (!cut) exit(1);
        memcpy(cut, sound, i);
        bad += !is_harmless(cut, i);
        free(cut);
    }
    ok(bad == 0, "%zu truncations", length + 1);
}

/* One to four bytes changed, lost, doubled, or swapped for another place's. */
static void mutate(char *text, size_t *count, uint64_t seed)
{
    static const char likely[] = "_=,:[]()\"\\#\n +-*/.0919nxyskc";
    uint32_t r[4];
    for (uint64_t i = 0; i < 1 + seed % 4; i++) {
        zt_philox(7, seed, i, r);
        size_t at = r[0] % *count, from = r[1] % *count, len = 1 + r[2] % 12;
        if (at + len > *count) len = *count - at;
        switch (r[3] % 4) {
        case 0: text[at] = (char)r[2]; break;
        case 1: text[at] = likely[r[2] % (sizeof likely - 1)]; break;
        case 2:
            memmove(text + at, text + at + len, *count - at - len);
            *count -= *count > len ? len : 0;
            break;
        default:
            if (from + len <= *count) memmove(text + at, text + from, len);
        }
    }
}

static void test_mutations(void)
{
    char text[sizeof sound];
    int bad = 0, accepted = 0;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        size_t length = strlen(sound);
        memcpy(text, sound, length);
        mutate(text, &length, seed);
        if (!is_harmless(text, length)) {
            bad++;
            diag("seed %llu", (unsigned long long)seed);
        }
        zt_prog *program = zt_prog_parse(ctx, "run.zt", text, length);
        accepted += program != NULL;
        zt_prog_free(program);
        zt_ctx_clear(ctx);
    }
    ok(bad == 0, "6000 mutations (%d of them programs)", accepted);
    ok(accepted > 50 && accepted < 5950, "of both kinds there are enough");
}

/* ---- no memory ------------------------------------------------------------------------------- */

static zt_status parse_bind_print(void)
{
    zt_status s = ZT_ENOMEM;
    zt_bound *bound = NULL;
    zt_str out;
    zt_str_init(&out, ctx);
    zt_prog *program = zt_prog_parse(ctx, "run.zt", sound, strlen(sound));
    if (program) bound = zt_prog_bind(program, (zt_binding[]){{"n", 2}, {"ctx", 64}}, 2);
    if (bound) s = zt_prog_print(program, &out);
    if (s && out.len) s = ZT_EBUG; /* text is whole or absent */
    zt_str_fini(&out);
    zt_bound_free(bound);
    zt_prog_free(program);
    return s;
}

static void test_no_memory(void)
{
    uint64_t before = zt_mem_get(ctx).calls;
    zt_status status = parse_bind_print();
    ok(status == ZT_OK, "parse, bind, print (%s)", zt_ctx_error(ctx));
    uint64_t calls = zt_mem_get(ctx).calls - before;
    int bad = 0;
    for (uint64_t i = 1; i <= calls; i++) {
        for (int onwards = 0; onwards < 2; onwards++) {
            zt_mem_fail(ctx, i, onwards);
            status = parse_bind_print();
            bool good = status == ZT_ENOMEM && zt_ctx_status(ctx) == ZT_ENOMEM;
            zt_mem_fail(ctx, 0, false);
            zt_ctx_clear(ctx);
            bad += !good || zt_mem_get(ctx).blocks != 0;
        }
    }
    ok(bad == 0 && calls > 10, "each of %d allocations fails", (int)calls);
}

/* A program stays sound when an op could not be added: the same call succeeds later. */
static void test_retry(void)
{
    int failures = 0;
    zt_prog *program = zt_prog_new(ctx);
    int x = zt_prog_in(program, "x", ZT_F32, 1, (int64_t[]){4});
    for (int i = 0; i < 300; i++) {
        char name[16], more[16];
        int out[2];
        snprintf(name, sizeof name, "y%d", i);
        snprintf(more, sizeof more, "r%d", i);
        zt_rms_norm_attrs a = {.eps = i};
        for (uint64_t nth = 1; nth < 4; nth++) {
            zt_mem_fail(ctx, nth, false);
            bool done = !zt_prog_op(program, ZT_OP_rms_norm, &a, (int[]){x, x}, (const char *[]){name, more}, out);
            zt_mem_fail(ctx, 0, false);
            if (done) break;
            failures++;
            if (zt_prog_find(program, name) >= 0 || zt_ctx_status(ctx) != ZT_ENOMEM) failures += 10000;
            zt_ctx_clear(ctx);
        }
    }
    ok(failures > 5 && failures < 10000 && zt_prog_n_steps(program) == 300 && zt_prog_n_values(program) == 601,
       "300 ops in spite of %d refused allocations", failures);
    zt_prog_free(program);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash shows where */
    ctx = zt_ctx_new();
    test_refusals();
    test_first_line();
    test_deep();
    test_large();
    test_truncations();
    test_mutations();
    test_no_memory();
    test_retry();
    ok(zt_ctx_status(ctx) == ZT_OK, "no error is left over (%s)", zt_ctx_error(ctx));
    ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(ctx);
    return tap_done();
}
