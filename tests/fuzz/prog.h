/* prog.h - what the fuzz targets of program text hold every program to. */
#ifndef ZT_TEST_PROG_H
#define ZT_TEST_PROG_H

#include "lib/run/plan_file.h"

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
    for (int i = 0; i < n; i++) b[i] = (zt_binding){zt_prog_symbol_name(p, i), value + apart * i};
    return n;
}

/* The numbers that the program has are those of its symbols, which they bind. */
__attribute__((unused)) static void bind_own(const zt_prog *program)
{
    zt_binding binding[ZT_MAX_SYMBOLS];
    int count = 0;
    zt_prog_bindings(program, binding, &count);
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (int s = 0; s < zt_prog_n_symbols(program); s++)
            found = found || !strcmp(zt_prog_symbol_name(program, s), binding[i].symbol);
        must(found && binding[i].value >= 0);
    }
    if (count == zt_prog_n_symbols(program)) zt_bound_free(zt_prog_bind(program, binding, count));
}

/* The text of a program is a fixed point of reading and printing. */
static void print_twice(zt_ctx *ctx, const zt_prog *program)
{
    zt_str a, b;
    zt_str_init(&a, ctx);
    zt_str_init(&b, ctx);
    must(zt_prog_print(program, &a) == ZT_OK);
    zt_prog *again = zt_prog_parse(ctx, "again", a.data, a.len);
    must(again && zt_prog_print(again, &b) == ZT_OK);
    must(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    zt_prog_free(again);
    zt_str_fini(&a);
    zt_str_fini(&b);
}

#endif
