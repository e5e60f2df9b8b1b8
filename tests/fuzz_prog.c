/* fuzz_prog.c - a fuzz target for program text: any bytes are refused with one line, or they are a
 * program whose text is a fixed point and which binds or says why not.
 * `make fuzz` drives it by libFuzzer, tests/fuzz_main.c without. */
#include "lib/prog/prog.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool good)
{
    if (!good) abort();
}

static void bind(const zt_prog *p, int64_t value)
{
    zt_binding b[ZT_MAX_SYMBOLS];
    int n = zt_prog_n_symbols(p);
    for (int i = 0; i < n; i++) b[i] = (zt_binding){zt_prog_symbol_name(p, i), value};
    zt_bound_free(zt_prog_bind(p, b, n));
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

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_prog *p = zt_prog_parse(ctx, "fuzz", (const char *)bytes, n);
    must(!p == (zt_ctx_status(ctx) == ZT_EDATA));
    if (p) {
        print_twice(ctx, p);
        bind(p, 0);
        bind(p, 64);
        bind(p, INT64_MAX);
    }
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_prog_free(p);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
