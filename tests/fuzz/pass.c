/* pass.c - a fuzz target for the passes: a text that is a program and binds has what they make
 * of it: a program with the same inputs, states and outputs, which binds too and whose text is a
 * fixed point.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tests/fuzz/prog.h"

static void same_face(const zt_prog *p, const zt_bound *b, const zt_prog *q, const zt_bound *c)
{
    static const zt_value_kind kinds[] = {ZT_VALUE_IN, ZT_VALUE_STATE};
    for (int k = 0; k < 2; k++) {
        must(zt_prog_count(p, kinds[k]) == zt_prog_count(q, kinds[k]));
        for (int i = 0; i < zt_prog_count(p, kinds[k]); i++)
            must(zt_type_equal(&b->type[zt_prog_nth(p, kinds[k], i)],
                               &c->type[zt_prog_nth(q, kinds[k], i)]));
    }
    must(zt_prog_n_outputs(p) == zt_prog_n_outputs(q));
    for (int i = 0; i < zt_prog_n_outputs(p); i++)
        must(zt_type_equal(&b->type[zt_prog_output(p, i)->value],
                           &c->type[zt_prog_output(q, i)->value]));
}

/* The passes, for a sample by which they tell dimensions apart. */
static void pass(zt_ctx *ctx, const zt_prog *p)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    zt_ctx_clear(ctx);
    int n = numbers(p, 64, 32, b);
    zt_bound *of = zt_prog_bind(p, b, n);
    if (of) {
        zt_prog *q = zt_prog_passes(ctx, p, &(zt_pass_opts){.sample = b, .n_sample = n}, NULL);
        must(q != NULL);
        print_twice(ctx, q);
        zt_bound *to = zt_prog_bind(q, b, n);
        must(to != NULL);
        same_face(p, of, q, to);
        zt_bound_free(to);
        zt_prog_free(q);
    }
    zt_bound_free(of);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *p = zt_prog_parse(ctx, "fuzz", (const char *)bytes, n);
    if (p) pass(ctx, p);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_prog_free(p);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
