/* prog.c - a fuzz target for program text: any bytes are refused with one line, or they are a
 * program whose text is a fixed point and which binds or says why not. Read as a plan they are
 * refused likewise, or have that program. What passes make of one is pass.c's.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "tests/fuzz/prog.h"

static void bind(const zt_prog *p, int64_t value)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    zt_bound_free(zt_prog_bind(p, b, numbers(p, value, 0, b)));
}

static void read_as_plan(zt_ctx *ctx, const uint8_t *bytes, size_t count)
{
    zt_plan_file *plan = zt_plan_file_parse(ctx, "fuzz", (const char *)bytes, count);
    must(!plan == (zt_ctx_status(ctx) == ZT_EDATA));
    must(!plan || (zt_plan_file_prog(plan) && zt_plan_file_engine(plan)));
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_plan_file_free(plan);
    zt_ctx_clear(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *program = zt_prog_parse(ctx, "fuzz", (const char *)bytes, count);
    must(!program == (zt_ctx_status(ctx) == ZT_EDATA));
    if (program) {
        read_as_plan(ctx, bytes, count);
        print_twice(ctx, program);
        bind_own(program);
        bind(program, 0);
        bind(program, 64);
        bind(program, INT64_MAX);
    }
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_prog_free(program);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
