/* pass.c - a fuzz target for the passes: a text that is a program and binds has what they make
 * of it: a program with the same inputs, states and outputs, which binds too and whose text is a
 * fixed point.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tests/fuzz/prog.h"

static void same_face(const zt_prog *program, const zt_bound *bound, const zt_prog *other_program, const zt_bound *c)
{
    static const zt_value_kind kinds[] = {ZT_VALUE_IN, ZT_VALUE_STATE};
    for (int k = 0; k < 2; k++) {
        must(zt_prog_count(program, kinds[k]) == zt_prog_count(other_program, kinds[k]));
        for (int i = 0; i < zt_prog_count(program, kinds[k]); i++)
            must(zt_type_equal(&bound->type[zt_prog_nth(program, kinds[k], i)],
                               &c->type[zt_prog_nth(other_program, kinds[k], i)]));
    }
    must(zt_prog_n_outputs(program) == zt_prog_n_outputs(other_program));
    for (int i = 0; i < zt_prog_n_outputs(program); i++)
        must(zt_type_equal(&bound->type[zt_prog_output(program, i)->value], &c->type[zt_prog_output(other_program, i)->value]));
}

/* The passes, for a sample by which they tell dimensions apart. */
static void pass(zt_ctx *ctx, const zt_prog *program)
{
    zt_binding binding[ZT_MAX_SYMBOLS];
    zt_ctx_clear(ctx);
    int count = numbers(program, 64, 32, binding);
    zt_bound *of = zt_prog_bind(program, binding, count);
    if (of) {
        zt_prog *other_program = zt_prog_passes(ctx, program, &(zt_pass_opts){.sample = binding, .n_sample = count}, NULL);
        must(other_program != NULL);
        print_twice(ctx, other_program);
        zt_bound *to = zt_prog_bind(other_program, binding, count);
        must(to != NULL);
        same_face(program, of, other_program, to);
        zt_bound_free(to);
        zt_prog_free(other_program);
    }
    zt_bound_free(of);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *program = zt_prog_parse(ctx, "fuzz", (const char *)bytes, count);
    if (program) pass(ctx, program);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_prog_free(program);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
