/* program_part.c - zt_prog_part: some steps of a program as a program of their own. */
#include "lib/prog/prog.h"
#include "tests/common/tap.h"

#include <string.h>

static zt_ctx *ctx;

static const char *const text = "zt program 1\n"
                                "model \"m.gguf\" id=0a\n"
                                "in    x: f32[n,4]\n"
                                "in    pos: i32[n]\n"
                                "data  w: f32[4,4] \"w\"\n"
                                "data  g: f32[4] \"g\"\n"
                                "state s: f32[c,4]\n"
                                "a = linear x w\n"              /* 0 */
                                "s1 = kv_put s a pos\n"         /* 1 */
                                "s2 = kv_put s1 x pos\n"        /* 2 */
                                "b, r = rms_norm a g eps=0.5\n" /* 3 */
                                "m = scale s2 by=2\n"           /* 4 */
                                "z = reshape b shape=[n*4]\n"   /* 5 */
                                "f = fill_like x\n"             /* 6 */
                                "f1 = kv_put f b pos\n"         /* 7 */
                                "y = add f1 a\n"                /* 8 */
                                "keep  s = s2\n"
                                "out   y = y\n"
                                "out   z = z\n"
                                "out   m = m\n"
                                "out   r = r\n";

static void part_is(const zt_bound *bound, int first, int last, const char *want)
{
    zt_str out;
    zt_str_init(&out, ctx);
    zt_prog *program = zt_prog_part(bound, first, last);
    bool good = program && zt_prog_print(program, &out) == ZT_OK && strcmp(out.data, want) == 0;
    ok(good, "steps %d to %d (%s)", first, last, zt_ctx_error(ctx));
    if (!good) diag("%s", out.data ? out.data : "nothing");
    zt_bound *again = program ? zt_prog_bind(program, NULL, 0) : NULL;
    ok(again != NULL, "and it binds without numbers (%s)", zt_ctx_error(ctx));
    zt_bound_free(again);
    zt_prog_free(program);
    zt_str_fini(&out);
    zt_ctx_clear(ctx);
}

#define HEAD "zt program 1\nmodel \"m.gguf\" id=0a\n"

int main(void)
{
    ctx = zt_ctx_new();
    zt_prog *program = zt_prog_parse(ctx, "p", text, strlen(text));
    zt_binding n[] = {{"n", 3}, {"c", 8}};
    zt_bound *bound = program ? zt_prog_bind(program, n, 2) : NULL;
    ok(bound != NULL, "a program (%s)", zt_ctx_error(ctx));
    part_is(bound, 0, 0,
            HEAD "in    x: f32[3,4]\ndata  w: f32[4,4] \"w\"\n"
                 "a = linear x w\nout   a = a\n");
    part_is(bound, 0, 2,
            HEAD "in    x: f32[3,4]\nin    pos: i32[3]\ndata  w: f32[4,4] \"w\"\n"
                 "state s: f32[8,4]\na = linear x w\ns1 = kv_put s a pos\n"
                 "s2 = kv_put s1 x pos\nkeep  s = s2\nout   a = a\n");
    /* what an op before used up begins as a state */
    part_is(bound, 2, 2,
            HEAD "in    x: f32[3,4]\nin    pos: i32[3]\nstate s1: f32[8,4]\n"
                 "s2 = kv_put s1 x pos\nkeep  s1 = s2\n");
    /* what is only read of it is an input; a symbol in an attribute is a number */
    part_is(bound, 4, 5,
            HEAD "in    s2: f32[8,4]\nin    b: f32[3,4]\nm = scale s2 by=2\n"
                 "z = reshape b shape=[12]\nout   m = m\nout   z = z\n");
    /* outputs of an op that nobody wants stay so; one that is put out is */
    part_is(bound, 3, 3,
            HEAD "data  g: f32[4] \"g\"\nin    a: f32[3,4]\nb, r = rms_norm a g eps=0.5\n"
                 "out   b = b\nout   r = r\n");
    /* memory that an op of the part made is no state */
    part_is(bound, 6, 7,
            HEAD "in    x: f32[3,4]\nin    pos: i32[3]\nin    b: f32[3,4]\n"
                 "f = fill_like x\nf1 = kv_put f b pos\nout   f1 = f1\n");
    part_is(bound, 7, 8,
            HEAD "in    pos: i32[3]\nin    a: f32[3,4]\nin    b: f32[3,4]\n"
                 "state f: f32[3,4]\nf1 = kv_put f b pos\ny = add f1 a\n"
                 "keep  f = f1\nout   y = y\n");
    ok(!zt_prog_part(bound, 4, 9) && zt_ctx_status(ctx) == ZT_EUSAGE, "steps that are not there");
    zt_ctx_clear(ctx);
    ok(!zt_prog_part(bound, 4, 3) && zt_ctx_status(ctx) == ZT_EUSAGE, "no steps");
    zt_ctx_clear(ctx);
    for (int k = 1; k < 60; k++) {
        zt_mem_fail(ctx, (uint64_t)k, false);
        zt_prog *other_program = zt_prog_part(bound, 0, 8);
        if (other_program) zt_ctx_clear(ctx);
        if (!other_program && zt_ctx_status(ctx) != ZT_ENOMEM) ok(false, "allocation %d refused", k);
        zt_prog_free(other_program);
        zt_ctx_clear(ctx);
    }
    zt_mem_fail(ctx, 0, false);
    zt_bound_free(bound);
    zt_prog_free(program);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is leaked");
    zt_ctx_free(ctx);
    return tap_done();
}
