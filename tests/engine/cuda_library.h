/* cuda_library.h - for tests of what the engine cuda takes from a library beside the driver (ZT_LIBCUBLAS,
 * ZT_LIBCUFFT), here from those in the emulated driver's library: programs, each run by a judge and,
 * prepared once, twice by cuda, while the library's calls are counted; and names that are refused.
 */
#ifndef ZT_TEST_CUDA_LIBRARY_H
#define ZT_TEST_CUDA_LIBRARY_H

#include "lib/run/run.h"
#include "tests/engine/emulated_cuda.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct beside_case {
    const char *text; /* of the program, without its first line and its last: its output is y */
    int calls;        /* of the library, while it is captured */
} beside_case;

typedef struct beside {
    zt_ctx *ctx;
    zt_engine *judge, *cuda;
    int *calls;                                                        /* that the emulated library has counted */
    const zt_store *store;                                             /* of programs with data; may be NULL */
    void (*fill)(const zt_type *t, void *to, int i);                   /* the i-th of inputs, then states */
    bool (*near)(const zt_type *t, const void *want, const void *got); /* NULL: the same bits */
} beside;

enum { BESIDE_INPUTS = 8, BESIDE_MOST = 1 << 18 }; /* bytes of a value */

/* Small and whole: exact in every type and in every order of sums. */
static inline void beside_whole(const zt_type *t, void *to, int i)
{
    const zt_dtype_info *d = zt_dtype_get(t->dtype);
    for (int64_t k = 0; k < zt_type_count(t); k++) {
        float f = (float)((k * (7 + 4 * i) + 3) % 5) - 2;
        d->encode(&f, (char *)to + (size_t)k * d->block_bytes, 1);
    }
}

static inline zt_prog *beside_program(zt_ctx *ctx, const char *text)
{
    char whole[512];
    int n = snprintf(whole, sizeof whole, "zt program 1\n%sout y = y\n", text);
    return zt_prog_parse(ctx, "made", whole, (size_t)n);
}

/* On cuda strictly. */
static inline zt_session *beside_open(const beside *b, zt_engine *engine, const zt_prog *program)
{
    static char value[BESIDE_MOST];
    const int inputs = zt_prog_count(program, ZT_VALUE_IN);
    zt_session *s = zt_session_open(engine, program, b->store, &(zt_session_opts){.strict = engine == b->cuda});
    for (int i = 0; s && i < zt_prog_count(program, ZT_VALUE_STATE); i++) {
        zt_type type = zt_session_state_type(s, i);
        assert(zt_type_bytes(&type) <= sizeof value);
        b->fill(&type, value, inputs + i);
        zt_session_state_set(s, i, value);
    }
    return s;
}

static inline void beside_inputs(const beside *b, const zt_prog *program, const zt_bound *bound, const void *at[BESIDE_INPUTS])
{
    static char in[BESIDE_INPUTS][BESIDE_MOST];
    assert(zt_prog_count(program, ZT_VALUE_IN) <= BESIDE_INPUTS);
    for (int i = 0; i < zt_prog_count(program, ZT_VALUE_IN); i++) {
        const zt_type *its_type = &bound->type[zt_prog_nth(program, ZT_VALUE_IN, i)];
        assert(zt_type_bytes(its_type) <= sizeof in[i]);
        b->fill(its_type, in[i], i);
        at[i] = in[i];
    }
}

static inline bool beside_right(const beside *b, const beside_case *c)
{
    static char want[BESIDE_MOST], got[2][BESIDE_MOST];
    const void *at[BESIDE_INPUTS];
    zt_prog *program = beside_program(b->ctx, c->text);
    zt_bound *bound = program ? zt_prog_bind(program, NULL, 0) : NULL;
    if (!bound) return zt_prog_free(program), false;
    zt_session *judge = beside_open(b, b->judge, program), *cuda = beside_open(b, b->cuda, program);
    const zt_type *y = &bound->type[zt_prog_output(program, 0)->value];
    const size_t bytes = zt_type_bytes(y);
    const int before = *b->calls;
    assert(bytes <= sizeof want);
    beside_inputs(b, program, bound, at);
    bool good = judge && cuda && !zt_session_step(judge, NULL, 0, at, (void *[]){want});
    for (int twice = 0; twice < 2 && good; twice++)
        good = !zt_session_step(cuda, NULL, 0, at, (void *[]){got[twice]}) &&
               (b->near ? b->near(y, want, got[twice]) : !memcmp(want, got[twice], bytes));
    good = good && !memcmp(got[0], got[1], bytes);
    if (*b->calls - before != c->calls) diag("%d calls", *b->calls - before);
    good = good && *b->calls - before == c->calls; /* captured once, replayed twice */
    zt_session_close(judge);
    zt_session_close(cuda);
    zt_bound_free(bound);
    zt_prog_free(program);
    return good;
}

/* All n, a line each: `what`, its number, what went wrong. */
static inline void beside_walk(const beside *b, const char *what, const beside_case *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool good = beside_right(b, &c[i]);
        ok(good, "%s %zu, %d calls: %s", what, i, c[i].calls, zt_ctx_error(b->ctx));
        zt_ctx_clear(b->ctx);
    }
}

/* No engine where the variable names this library, and the message says why. */
static inline void beside_refused(zt_ctx *ctx, const char *variable, const char *name, const char *why)
{
    setenv(variable, name, 1);
    zt_engine *engine = zt_engine_open(ctx, "cuda", NULL);
    ok(!engine && zt_ctx_status(ctx) == ZT_ENOTSUP && strstr(zt_ctx_error(ctx), why), "%s", zt_ctx_error(ctx));
    zt_engine_close(engine);
    zt_ctx_clear(ctx);
}

/* The whole of main: the test is given an engine that was opened where the variable named nothing, and
 * goes on where it names the emulated library. */
static inline int beside_main(const char *variable, void (*test)(zt_ctx *ctx, zt_engine *without))
{
    zt_ctx *ctx = zt_ctx_new();
    const char *library = getenv("ZT_LIBCUDA");
    unsetenv(variable);
    zt_engine *engine = device_emulated(ctx);
    if (engine && library) {
        setenv(variable, library, 1);
        test(ctx, engine);
    }
    return device_done(ctx, engine);
}

#endif
