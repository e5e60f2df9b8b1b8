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

#define KINDS "begins no line: model, bind, in, state, data, keep, out, or NAME = OP expected"
#define QKV   "y y y pos"
#define A16   "aaaaaaaaaaaaaaaa"
#define A64   A16 A16 A16 A16
#define A256  A64 A64 A64 A64

static const struct refusal {
    const char *line, *message;
} refusals[] = {
    {"?", "a name expected, not '?'"},
    {"y", "'y' " KINDS},
    {"\x01", "a name expected, not '\\x01'"},
    {"\xff\xfe", "a name expected, not '\\xff'"},
    {"z = ropee x", "unknown op 'ropee' (did you mean 'rope'?)"},
    {"z = ", "an op expected, not the end of the line"},
    {"z = silu", "op silu: input 'x' is missing"},
    {"z = add x", "op add: input 'b' is missing"},
    {"z = add x _", "op add: input 'b' is missing"},
    {"z = silu x x", "op silu: too many inputs, it has 1"},
    {"z = silu _ x", "op silu: too many inputs, it has 1"},
    {"z = silu q", "value 'q' is not defined before"},
    {"z = silu z", "value 'z' is not defined before"},
    {"y = silu x", "value 'y' is there already"},
    {"x = silu x", "value 'x' is there already"},
    {"z, z = rms_norm x g", "value 'z' is there already"},
    {"z, q = silu x", "op silu: 2 outputs named, it has 1"},
    {"a, b, c, d, e, f, h = rms_norm x g", "more than 6 outputs"},
    {"_ = silu x", "op silu: its first output needs a name"},
    {"_, z = rms_norm x g", "op rms_norm: its first output needs a name"},
    {"a, = rms_norm x g", "a name expected, not '='"},
    {"a b = silu x", "'a' " KINDS},
    {"a, b silu x", "',' or '=' expected, not 'silu'"},
    {"z = silu x; q", "the end of the line expected, not ';'"},
    {"z = silu x 5", "the end of the line expected, not '5'"},
    {"9z = silu x", "a name expected, not '9z'"},
    {A256 " = silu x", "value '" A64 A16 "aaaaaaaaaaaa...' has 256 letters, at most 255 fit"},
    /* donated values */
    {"z = silu s", "op silu: value 's' is used up, its memory is 's1' now"},
    {"out z = s", "out 'z': value 's' is used up, its memory is 's1' now"},
    {"keep s = s", "keep 's': value 's' is used up, its memory is 's1' now"},
    {"s2 = kv_put s y pos", "op kv_put: value 's' is used up, its memory is 's1' now"},
    {"s2 = kv_put s1 y pos\nz = silu s1", "op silu: value 's1' is used up, its memory is 's2' now"},
    {"t = reshape s1 shape=[4]\ns2 = kv_put s1 y pos\nz = silu t", "op silu: value 't' is used up, its memory is 's2' now"},
    {"t = reshape s1 shape=[4]\ns2 = kv_put t y pos\nz = silu s1", "op silu: value 's1' is used up, its memory is 's2' now"},
    {"keep s = s1\ns2 = kv_put s1 y pos", "op kv_put uses up 's1', but 's1' is kept or an output"},
    {"t = reshape s1\nout o = t\ns2 = kv_put s1 y pos", "op kv_put uses up 's1', but 't' is kept or an output"},
    {"z = kv_put x y pos", "op kv_put uses up 'x', which is in and no state"},
    {"z = kv_put w y pos", "op kv_put uses up 'w', which is data and no state"},
    {"t = reshape w\nz = kv_put t y pos", "op kv_put uses up 't', which is data and no state"},
    {"z = kv_put s1 s1 pos", "op kv_put uses up 's1' and reads it as 'x' too"},
    {"k1, v1, z = rope_put s1 w " QKV, "op rope_put uses up 'w', which is data and no state"},
    {"k1, v1, z = rope_put x s1 " QKV, "op rope_put uses up 'x', which is in and no state"},
    {"k1, v1, z = rope_put s1 s1 " QKV, "op rope_put uses up 's1' and reads it as 'vc' too"},
    {"k1, v1, z = rope_put s1 s " QKV, "op rope_put: value 's' is used up, its memory is 's1' now"},
    {"state t: f32[4,4]\nk1, v1, z = rope_put s1 t y t y pos", "op rope_put uses up 't' and reads it as 'k' too"},
    {"state t: f32[4,4]\nu = reshape t\nk1, v1, z = rope_put s1 t y u y pos", "op rope_put uses up 't' and reads it as 'k' too"},
    {"state t: f32[4,4]\nk1, v1, z = rope_put s1 t " QKV "\nz = silu t", "op silu: value 't' is used up, its memory is 'v1' now"},
    {"state t: f32[4,4]\nk1, v1, z = rope_put s1 t " QKV "\nz = silu s1",
     "op silu: value 's1' is used up, its memory is 'k1' now"},
    {"state t: f32[4,4]\nkeep t = t\nk1, v1, z = rope_put s1 t " QKV, "op rope_put uses up 't', but 't' is kept or an output"},
    {"state t: f32[4,4]\nk1 = rope_put s1 t " QKV, "op rope_put: output 'vc1', which has the memory of 'vc', needs a name"},
    {"state t: f32[4,4]\nk1, _, z = rope_put s1 t " QKV, "op rope_put: output 'vc1', which has the memory of 'vc', needs a name"},
    /* keep and out */
    {"keep s", "'=' expected, not the end of the line"},
    {"keep q = s1", "value 'q' is not defined before"},
    {"keep s = q", "value 'q' is not defined before"},
    {"keep y = s1", "keep 'y': it is no state"},
    {"keep s = w", "keep 's': 'w' is data of the model"},
    {"keep s = s1\nkeep s = s1", "keep 's': it keeps 's1' already"},
    {"keep s = s1 s1", "the end of the line expected, not 's1'"},
    {"out o = q", "value 'q' is not defined before"},
    {"out o = 5", "a value expected, not '5'"},
    {"out _ = y", "output '_' is not a name"},
    {"out o = y\nout o = x", "out 'o' is there already"},
    /* declarations */
    {"in z f32[4]", "':' expected, not 'f32'"},
    {"in z: f33[4]", "unknown dtype 'f33' (did you mean 'f32'?)"},
    {"in z: F32[4]", "unknown dtype 'F32' (did you mean 'f32'?)"},
    {"in z: f32", "'[' expected, not the end of the line"},
    {"in z: f32[", "a dimension expected, not the end of the line"},
    {"in z: f32[4", "',' or ']' expected, not the end of the line"},
    {"in z: f32[4,]", "a dimension expected, not ']'"},
    {"in z: f32[-4]", "a dimension expected, not '-4'"},
    {"in z: f32[4 4]", "',' or ']' expected, not '4'"},
    {"in z: f32[2.5]", "',' or ']' expected, not '.5'"},
    {"in z: f32[1,1,1,1,1,1,1,1,1,1,1]", "more than 10 dimensions"},
    {"in z: f32[3-4]", "dimension 3-4 is below 0"},
    {"in z: f32[4/0]", "dimension 4/0 divides by zero"},
    {"in z: f32[9223372036854775807+1]", "dimension 9223372036854775807+1 overflows"},
    {"in z: f32[9223372036854775808]", "a dimension of at most 63 bits expected, not '9223372036854775808'"},
    {"in z: f32[(n]", "')' expected, not ']'"},
    {"in z: f32[_]", "symbol '_' is not a name"},
    {"in z: f32[" A256 "]", "symbol '" A64 A16 "aaaaaaaaaaaa...' has 256 letters, at most 255 fit"},
    {"in z: f32[a,b,c,d,e,f,g,h]\nin z2: f32[i,j,k,l,m,o,p]", "symbol 'p': a program has at most 16 symbols"},
    {"in z: f32[9999999999,9999999999]", "value 'z': f32[9999999999,9999999999]: too large"},
    {"in z: q4_0[33]", "value 'z': q4_0[33]: the last dimension is not a multiple of the block size"},
    {"in x: f32[4]", "value 'x' is there already"},
    {"in _: f32[4]", "value '_' is not a name"},
    {"in z: f32[4] \"z\"", "the end of the line expected, not '\"'"},
    {"data z: f32[4]", "a string expected, not the end of the line"},
    {"data z: f32[4] z", "a string expected, not 'z'"},
    /* strings */
    {"data z: f32[4] \"z", "a string does not end"},
    {"data z: f32[4] \"z\\", "a string does not end"},
    {"data z: f32[4] \"z\\\"", "a string does not end"},
    {"data z: f32[4] \"a\\x\"", "a string has a bad character or escape at byte 3"},
    {"data z: f32[4] \"\\u12\"", "a string has a bad character or escape at byte 2"},
    {"data z: f32[4] \"\\u12g4\"", "a string has a bad character or escape at byte 5"},
    {"data z: f32[4] \"\\u0000\"", "a string has a bad character or escape at byte 6"},
    {"data z: f32[4] \"\\udc00\"", "a string has a bad character or escape at byte 6"},
    {"data z: f32[4] \"\\ud800\"", "a string has a bad character or escape at byte 6"},
    {"data z: f32[4] \"\\ud800\\u0041\"", "a string has a bad character or escape at byte 12"},
    {"data z: f32[4] \"\t\"", "a string has a bad character or escape at byte 0"},
    {"data z: f32[4] \"\xc3\"", "a string has a bad character or escape at byte 0"},
    {"data z: f32[4] \"\xed\xa0\x80\"", "a string has a bad character or escape at byte 0"},
    /* the symbols' numbers */
    {"bind", "a symbol expected, not the end of the line"},
    {"bind 5", "a symbol expected, not '5'"},
    {"bind n", "'=' expected, not the end of the line"},
    {"bind n=", "a number expected, not the end of the line"},
    {"bind n=3,ctx=4", "a symbol expected, not ','"},
    {"bind n=-1", "symbol 'n' is -1, below 0"},
    {"bind n=1.5", "symbol's number '1.5' is not one of 63 bits"},
    {"bind n=9223372036854775808", "symbol's number '9223372036854775808' is not one of 63 bits"},
    {"bind n=" A64, "symbol's number '" A64 "' is not one of 63 bits"},
    {"bind n=2 n=2", "symbol 'n' has a number already"},
    {"bind n=2\nbind n=2", "symbol 'n' has a number already"},
    {"bind nn=2", "bind: no dimension has a symbol 'nn'"},
    {"bind x=2", "bind: no dimension has a symbol 'x'"},
    {"bind _=2", "symbol '_' is not a name"},
    {"bind " A256 "=2", "symbol '" A64 A16 "aaaaaaaaaaaa...' has 256 letters, at most 255 fit"},
    {"bind a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1 i=1 j=1 k=1 l=1 m=1 n=1 o=1 p=1 q=1", "a program has at most 16 symbols"},
    /* the model */
    {"model m.gguf", "a string expected, not 'm.gguf'"},
    {"model \"m\" id=xyz", "id 'xyz' is not hexadecimal"},
    {"model \"m\" id=", "id=HEX expected after the model's file"},
    {"model \"m\" name=5", "id=HEX expected after the model's file"},
    {"model \"m\" id=5 5", "the end of the line expected, not '5'"},
    {"model \"m\"\nmodel \"n\"", "the model is named already: 'm'"},
    /* attributes */
    {"z = silu x by=5", "op silu: unknown attribute 'by'"},
    {"z = scale x by", "op scale: too many inputs, it has 1"},
    {"z = scale x by=", "op scale: attribute 'by': a number expected, not the end of the line"},
    {"z = scale x by=y", "op scale: attribute 'by': a number expected, not 'y'"},
    {"z = scale x by=0x10", "op scale: attribute 'by': a number expected, not '0x10'"},
    {"z = scale x by=1e999", "op scale: attribute 'by': a number expected, not '1e999'"},
    {"z = scale x by=\"1\"", "op scale: attribute 'by': a number expected, not '\"'"},
    {"z = scale x by=1 by=1", "op scale: attribute 'by' comes twice"},
    {"z = scale by=1 x", "op scale: input 'x' after the attributes"},
    {"z = rope x pos dims=1.5", "op rope: attribute 'dims': an integer expected, not '1.5'"},
    {"z = rope x pos dims=nan", "op rope: attribute 'dims': an integer expected, not 'nan'"},
    {"z = rope x pos dims=inf", "op rope: attribute 'dims': an integer expected, not 'inf'"},
    {"z = rope x pos dims=n", "op rope: attribute 'dims': an integer expected, not 'n'"},
    {"z = rope x pos dims=9223372036854775808", "op rope: attribute 'dims': an integer expected, not '9223372036854775808'"},
    {"z = cast x to=5", "op cast: attribute 'to': a word expected, not '5'"},
    {"z = cast x to=" A16 "bbbbbbbb", "op cast: attribute 'to' has more than 23 letters: '" A16 "bbbbbbbb'"},
    {"z = reshape x shape=4", "op reshape: attribute 'shape': a list [...] expected, not '4'"},
    {"z = reshape x shape=[4", "',' or ']' expected, not the end of the line"},
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
        {"", "run.zt:1: no program: it must begin with 'zt program 1'"},
        {"\nzt program 1\n", "run.zt:1: no program: it must begin with 'zt program 1'"},
        {"zt programme 1\n", "run.zt:1: no program: it must begin with 'zt program 1'"},
        {"GGUF\3\0\0\0", "run.zt:1: no program: it must begin with 'zt program 1'"},
        {"zt program 2\n", "run.zt:1: unsupported program version 2: must be 1"},
        {"zt program 10\n", "run.zt:1: unsupported program version 10: must be 1"},
        {"zt program 1 x\n", "run.zt:1: the end of the line expected, not 'x'"},
    };
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        ok(is_refused(first[i].line, strlen(first[i].line), first[i].message), "%s", first[i].message);
    ok(is_refused(NULL, 0, first[0].message), "no text at all");
    ok(is_refused("zt program 1\nin x: f32[4]\0\n", 27,
                  "run.zt:2: the end of the line expected, "
                  "not '\\x00'"),
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
        {"zt program 1\nin x: f32[", "(", 100000, "", "run.zt:2: more than 64 parentheses in each other"},
        {"zt program 1\nin x: f32[n", "+1", 100000, "]", "run.zt:2: a dimension has at most 64 numbers and symbols"},
        {"zt program 1\nin x: f32[n", "-(n", 100000, "", "run.zt:2: more than 64 parentheses in each other"},
        {"zt program 1\nin x: f32[", "9", 100000, "]", NULL},
        {"zt program 1\nin x: f32[", "a", 1000000, "]", NULL},
        {"zt program 1\nin x: f32[1]\ny = add", " x", 1000000, "", "run.zt:3: op add: too many inputs, it has 2"},
        {"zt program 1\n", "y, ", 1000000, "", "run.zt:2: more than 6 outputs"},
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
    ok(zt_program_silu(program, NULL, 0) == -1 && !strcmp(zt_ctx_error(ctx), "a program has at most 1048576 values"),
       "one too many");
    zt_ctx_clear(ctx);
    ok(zt_prog_n_values(program) == 1 << 20 && zt_prog_n_steps(program) == (1 << 20) - 1, "is not there");
    zt_prog_free(program);
    free(text);
    text = repeat("zt program 1\n", "\n", 1000000, "?", &count);
    ok(is_refused(text, count, "run.zt:1000002: a name expected, not '?'"), "a million empty lines");
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
