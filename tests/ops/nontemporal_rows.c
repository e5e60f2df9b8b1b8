/* nontemporal_rows.c - rows so many that the CPU stores what comes of them past the caches have the bits of the same
 * rows in calls of their own, where it does not, on each instruction set.
 */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 9 << 20 }; /* floats: above 32 MB, with room for what does not divide */

/* x's dimension 0 and y's are cut alike. */
typedef struct subject {
    const char *name;
    zt_op op;
    const void *attrs;
    int rank;
    int64_t dim[4], cut;
    enum { ALONE, WITH_LIKE, WITH_WEIGHTS } second; /* of x's shape, cut too; of x's last dimension */
} subject;

static const zt_gelu_attrs by_erf = {.form = {"erf"}}, by_tanh = {.form = {"tanh"}};
static const zt_softmax_attrs last = {.axis = -1};
static const zt_log_softmax_attrs last_too = {.axis = -1};
static const zt_logsumexp_attrs last_axis = {.axes = {.n = 1, .v = {-1}}};
static const zt_rms_norm_attrs eps = {.eps = 1e-6};
static const zt_transpose_attrs heads = {.axes = {.n = 4, .v = {0, 2, 1, 3}}};
static const zt_transpose_attrs turned = {.axes = {.n = 3, .v = {0, 2, 1}}};

#define ROWS  .rank = 2, .dim = {2150, 4112}, .cut = 25
#define PLAIN .rank = 2, .dim = {2150, 4101}, .cut = 25 /* rows begin within lines */
static const subject subjects[] = {
    {"gelu, erf", ZT_OP_gelu, &by_erf, PLAIN, ALONE},
    {"gelu, tanh", ZT_OP_gelu, &by_tanh, PLAIN, ALONE},
    {"silu", ZT_OP_silu, NULL, PLAIN, ALONE},
    {"neg", ZT_OP_neg, NULL, ROWS, ALONE},
    {"add", ZT_OP_add, NULL, PLAIN, WITH_LIKE},
    {"mul by a row", ZT_OP_mul, NULL, ROWS, WITH_WEIGHTS},
    {"swiglu", ZT_OP_swiglu, NULL, PLAIN, WITH_LIKE},
    {"softmax", ZT_OP_softmax, &last, ROWS, ALONE},
    {"softmax, odd rows", ZT_OP_softmax, &last, PLAIN, ALONE},
    {"log_softmax", ZT_OP_log_softmax, &last_too, ROWS, ALONE},
    {"log_softmax, odd rows", ZT_OP_log_softmax, &last_too, PLAIN, ALONE},
    {"logsumexp", ZT_OP_logsumexp, &last_axis, ROWS, ALONE},
    {"rms_norm", ZT_OP_rms_norm, &eps, ROWS, WITH_WEIGHTS},
    {"transpose, rows", ZT_OP_transpose, &heads, 4, {3, 700, 65, 64}, 1, ALONE},
    {"transpose, rows in two lines", ZT_OP_transpose, &heads, 4, {3, 700, 91, 45}, 1, ALONE},
    {"transpose", ZT_OP_transpose, &turned, 3, {3, 1600, 1904}, 1, ALONE},
};

static float *x, *second, *y, *part; /* LARGE floats each */

/* Into `to`, of x's entries from..from+count-1 of dimension 0; returns floats of y. */
static int64_t run_rows(zt_engine *engine, const subject *s, int64_t from, int64_t count, float *to)
{
    zt_type type = zt_type_make(ZT_F32, s->rank, s->dim), row = zt_type_make(ZT_F32, 1, &s->dim[s->rank - 1]);
    int64_t at = from * (zt_type_count(&type) / s->dim[0]);
    type.dim[0] = count;
    oneop call = {.op = s->op,
                  .attrs = s->attrs ? s->attrs : zt_op_info(s->op)->defaults,
                  .in = {&type, s->second == WITH_LIKE      ? &type
                                : s->second == WITH_WEIGHTS ? &row
                                                            : NULL},
                  .data = {x + at, s->second == WITH_LIKE ? second + at : second},
                  .result = {to}};
    return oneop_made(engine, &call) ? zt_type_count(&call.out[0]) : 0;
}

static void test_subject(zt_engine *engine, const char *isa, const subject *s)
{
    int64_t whole = run_rows(engine, s, 0, s->dim[0], y), at = 0, same = 0;
    for (int64_t from = 0; from < s->dim[0]; from += s->cut) {
        int64_t count = run_rows(engine, s, from, s->cut, part);
        same += count > 0 && !memcmp(y + at, part, (size_t)count * sizeof *y);
        at += count;
    }
    zt_type type = zt_type_make(ZT_F32, s->rank, s->dim);
    ok(zt_type_bytes(&type) >= 32 << 20 && at == whole && same * s->cut == s->dim[0], "%s on %s", s->name, isa);
}

static float *floats(unsigned seed)
{
    float *p = aligned_alloc(64, LARGE * sizeof *p);
    if (!p) abort();
    for (int64_t i = 0; i < LARGE; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(int32_t)seed * 0x1p-28f; /* -8 .. 8 */
    }
    return p;
}

/* Rows of ROWS with what is not finite: one infinity of each kind, a NaN, nothing but -infinity. */
static void make_odd(float *rows, int64_t cols)
{
    rows[7] = INFINITY;
    rows[cols + 8] = -INFINITY;
    rows[2 * cols + 9] = NAN;
    for (int64_t i = 0; i < cols; i++) rows[3 * cols + i] = -INFINITY;
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    x = floats(1);
    make_odd(x + 30 * 4112, 4112);
    second = floats(2);
    y = floats(3);
    part = floats(4);
    for (int isa = 0; isa <= (int)zt_isa_best(); isa++) {
        zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 2, .isa = (zt_isa)isa});
        for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
            test_subject(engine, zt_isa_name((zt_isa)isa), &subjects[i]);
        zt_engine_close(engine);
    }
    zt_ctx_free(ctx);
    free(x);
    free(second);
    free(y);
    free(part);
    return tap_done();
}
