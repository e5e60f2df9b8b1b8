/* fuzz_prog.c - a fuzz target for program text: any bytes are refused with one line, or they are a
 * program whose text is a fixed point and which binds or says why not. One that binds has what
 * passes make of it: a program with the same inputs, states and outputs, which binds too. Read as a
 * plan they are refused likewise, or have that program.
 * `make fuzz` drives it by libFuzzer, tests/fuzz_main.c without. */
#include "lib/run/planned.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

/* Every symbol is `value`, or that and a little more each where they are to differ. */
static int numbers(const zt_prog *p, int64_t value, int64_t apart, zt_binding *b)
{
    int n = zt_prog_n_symbols(p);
    for (int i = 0; i < n; i++)
        b[i] = (zt_binding){zt_prog_symbol_name(p, i), value + apart * i};
    return n;
}

static void bind(const zt_prog *p, int64_t value)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    zt_bound_free(zt_prog_bind(p, b, numbers(p, value, 0, b)));
}

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

static void print_twice(zt_ctx *ctx, const zt_prog *p);

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

static void print_twice(zt_ctx *ctx, const zt_prog *p)
{
    zt_str a, b;
    zt_str_init(&a, ctx);
    zt_str_init(&b, ctx);
    must(zt_prog_print(p, &a) == ZT_OK);
    zt_prog *again = zt_prog_parse(ctx, "again", a.data, a.len);
    must(again && zt_prog_print(again, &b) == ZT_OK);
    must(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    zt_prog_free(again);
    zt_str_fini(&a);
    zt_str_fini(&b);
}

static void read_as_plan(zt_ctx *ctx, const uint8_t *bytes, size_t n)
{
    zt_planned *plan = zt_planned_parse(ctx, "fuzz", (const char *)bytes, n);
    must(!plan == (zt_ctx_status(ctx) == ZT_EDATA));
    must(!plan || (zt_planned_prog(plan) && zt_planned_engine(plan)));
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_planned_free(plan);
    zt_ctx_clear(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *p = zt_prog_parse(ctx, "fuzz", (const char *)bytes, n);
    must(!p == (zt_ctx_status(ctx) == ZT_EDATA));
    if (p) {
        read_as_plan(ctx, bytes, n);
        print_twice(ctx, p);
        bind(p, 0);
        bind(p, 64);
        bind(p, INT64_MAX);
        pass(ctx, p);
    }
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_prog_free(p);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
