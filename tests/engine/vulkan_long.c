/* vulkan_long.c - rows that are longer than those of the cases (conformance.c): reductions in parts, on vulkan near ref's;
 * the first of many entries in order, and tokens drawn from large vocabularies, which are the cpu's. Skipped, aloud, where
 * there is no adapter. */
#include "lib/run/diff.h"
#include "tests/common/one_op.h"
#include "tests/engine/device.h"

#include <math.h>
#include <stdlib.h>

enum { LONG = 70001, ROWS = 3, VOCABULARY = 20011, DRAWS = 24, RECENT = 64, TOP = 40 };

static zt_ctx *ctx;
static zt_engine *device, *ref, *cpu;

static double unit_of(uint64_t sequence, uint64_t i)
{
    uint32_t four[4];
    zt_philox(44, sequence, i, four);
    return (four[0] + 0.5) * 0x1p-32;
}

static bool run_one(zt_engine *engine, oneop call, void *result)
{
    call.result[0] = result;
    if (engine == device && !oneop_has(engine, &call)) return false;
    return oneop_run(engine, &call) == ZT_OK;
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Of numbers from 0.5 to 1.5, or integers from 0 to 9: along the rows, and along the columns. */
static bool is_near(zt_op op, zt_dtype dtype, int64_t axis, const float *numbers)
{
    const zt_sum_attrs attrs = {{1, {axis}}, 0};
    zt_type x = zt_type_make(dtype, 2, axis ? (int64_t[]){ROWS, LONG} : (int64_t[]){LONG, ROWS});
    oneop call = {.op = op, .attrs = &attrs, .in = {&x}};
    void *data = calloc(ROWS * LONG, sizeof(int64_t));
    unsigned char got[ROWS * sizeof(int64_t)], want[ROWS * sizeof(int64_t)];
    if (dtype == ZT_I64)
        for (int i = 0; i < ROWS * LONG; i++) ((int64_t *)data)[i] = (int64_t)(10 * (numbers[i] - 0.5F));
    else
        zt_dtype_convert(ZT_F32, numbers, dtype, data, ROWS * LONG);
    call.data[0] = data;
    bool good = !zt_op_infer(ctx, op, &attrs, call.in, call.out) && run_one(device, call, got) && run_one(ref, call, want);
    for (int i = 0; i < ROWS && good; i++) {
        float one[2] = {0};
        if (dtype == ZT_I64) {
            good = ((int64_t *)(void *)got)[i] == ((int64_t *)(void *)want)[i];
            continue;
        }
        size_t bytes = (size_t)zt_dtype_get(dtype)->block_bytes;
        zt_dtype_convert(dtype, got + (size_t)i * bytes, ZT_F32, &one[0], 1);
        zt_dtype_convert(dtype, want + (size_t)i * bytes, ZT_F32, &one[1], 1);
        good = one[0] == one[1] || fabsf(one[0] - one[1]) <= 2e-7F * fabsf(one[1]);
    }
    free(data);
    return good;
}

static void check_reductions(void)
{
    static const struct {
        zt_op op;
        zt_dtype dtype;
    } rows[] = {{ZT_OP_sum, ZT_F32},  {ZT_OP_mean, ZT_F16}, {ZT_OP_sum, ZT_I64},  {ZT_OP_mean, ZT_I64},
                {ZT_OP_amax, ZT_F32}, {ZT_OP_amin, ZT_I64}, {ZT_OP_prod, ZT_I64}, {ZT_OP_logsumexp, ZT_F32}};
    float *numbers = malloc(ROWS * LONG * sizeof *numbers);
    for (int i = 0; i < ROWS * LONG; i++) numbers[i] = (float)(0.5 + unit_of(1, (uint64_t)i));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int64_t axis = 0; axis < 2; axis++)
            ok(is_near(rows[i].op, rows[i].dtype, axis, numbers), "%s of %d %s along axis %d", zt_op_info(rows[i].op)->name, LONG,
               zt_dtype_get(rows[i].dtype)->name, (int)axis);
    free(numbers);
}

/* ---- further shapes -------------------------------------------------------------------------- */

static const struct {
    const char *what;
    zt_op op;
    union {
        zt_sum_attrs sum;
        zt_scatter_add_attrs rows;
        zt_scatter_add_elements_attrs elements;
        zt_topk_attrs topk;
        zt_cross_entropy_attrs entropy;
        zt_cross_entropy_backward_attrs back;
    } attrs;
    zt_type in[4];
    int64_t below[4]; /* integers */
} shapes[] = {
    {"eight dimensions, every other summed",
     ZT_OP_sum,
     {.sum = {{4, {0, 2, 4, 6}}, 0}},
     {{ZT_F32, 8, {2, 3, 2, 3, 2, 3, 2, 3}}},
     {0}},
    {"the same of integers", ZT_OP_sum, {.sum = {{4, {1, 3, 5, 7}}, 0}}, {{ZT_I32, 8, {2, 3, 2, 3, 2, 3, 2, 3}}}, {9}},
    {"10000 rows added to 5",
     ZT_OP_scatter_add,
     {.rows = {{"error"}}},
     {{ZT_F16, 2, {5, 3}}, {ZT_I32, 1, {10000}}, {ZT_F16, 2, {10000, 3}}},
     {0, 5}},
    {"40000 elements added to 7",
     ZT_OP_scatter_add_elements,
     {.elements = {0, {"error"}}},
     {{ZT_I64, 1, {7}}, {ZT_I64, 1, {40000}}, {ZT_I64, 1, {40000}}},
     {9, 7, 9}},
    {"elements of six dimensions",
     ZT_OP_scatter_add_elements,
     {.elements = {3, {"error"}}},
     {{ZT_F32, 6, {2, 3, 2, 3, 2, 3}}, {ZT_I32, 6, {2, 2, 2, 9, 1, 3}}, {ZT_F32, 6, {2, 2, 2, 9, 1, 3}}},
     {0, 3}},
    {"3000 entries sorted", ZT_OP_topk, {.topk = {0, 0, 0}}, {{ZT_F32, 2, {3000, 2}}}, {0}},
    {"600000 positions",
     ZT_OP_cross_entropy,
     {.entropy = {{"mean"}, -100, 0}},
     {{ZT_F32, 2, {600000, 2}}, {ZT_I32, 1, {600000}}},
     {0, 2}},
    {"their gradient",
     ZT_OP_cross_entropy_backward,
     {.back = {{"mean"}, 1, 0}},
     {{ZT_F32, 2, {600000, 2}}, {ZT_I32, 1, {600000}}, {ZT_F32, 1, {600000}}, {ZT_F32, 0, {0}}},
     {0, 2}},
};

static bool is_near_ref(int row)
{
    zt_case filled = {0};
    oneop call = {.op = shapes[row].op, .attrs = &shapes[row].attrs};
    void *data[4] = {0}, *result[2] = {0};
    for (int k = 0; k < 4 && (shapes[row].in[k].rank || k == 3); k++) {
        if (shapes[row].in[k].dtype == ZT_F64) break; /* there is no more */
        filled.in[k] = shapes[row].in[k];
        filled.fill[k] = zt_dtype_is_float(filled.in[k].dtype) ? ZT_FILL_NORMAL : ZT_FILL_IDS;
        filled.limit[k] = shapes[row].below[k];
        data[k] = malloc(zt_type_bytes(&filled.in[k]) + 8);
        zt_case_fill(&filled, k, 7 + (uint64_t)k, data[k]);
        call.in[k] = &filled.in[k];
        call.data[k] = data[k];
    }
    bool good = !zt_op_infer(ctx, call.op, call.attrs, call.in, call.out);
    for (int i = 0; i < 2; i++) result[i] = calloc(1, zt_type_bytes(&call.out[0]) + 8);
    good = good && run_one(device, call, result[0]) && run_one(ref, call, result[1]);
    zt_difference difference = {0};
    if (good) zt_compare(&call.out[0], result[0], result[1], &difference);
    good = good && zt_difference_share(&difference, zt_op_bound(call.op, call.attrs, call.in, &call.out[0])) <= 1;
    if (!good) diag("error %g: %s", difference.nmse, zt_ctx_error(ctx));
    for (int k = 0; k < 4; k++) free(data[k]);
    for (int i = 0; i < 2; i++) free(result[i]);
    return good;
}

/* ---- entries in order ------------------------------------------------------------------------ */

static void check_topk(const float *logits)
{
    const zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){DRAWS, VOCABULARY});
    const zt_topk_attrs attrs = {.k = TOP, .axis = 1, .largest = 1};
    oneop call = {.op = ZT_OP_topk, .attrs = &attrs, .in = {&x}, .data = {logits}};
    static int32_t place[2][DRAWS * TOP];
    static float value[2][DRAWS * TOP];
    bool good = !zt_op_infer(ctx, call.op, &attrs, call.in, call.out);
    for (int i = 0; i < 2; i++) {
        call.result[1] = place[i];
        good = good && run_one(i ? cpu : device, call, value[i]);
    }
    ok(good && !memcmp(place[0], place[1], sizeof place[0]) && !memcmp(value[0], value[1], sizeof value[0]),
       "the %d largest of %d, with ties", TOP, VOCABULARY);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Which settings the rows have, as bits of the inputs. */
static void check_draws(const float *logits, unsigned with, int top_k, const char *what)
{
    static const char *const names[] = {"", "u", "temp", "top_k", "top_p", "min_p", "penalty", "recent", "banned"};
    const int64_t rows = DRAWS;
    const zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){DRAWS, VOCABULARY}), number = zt_type_make(ZT_F64, 1, &rows);
    const zt_type integer = zt_type_make(ZT_I32, 1, &rows), list = zt_type_make(ZT_I32, 2, (int64_t[]){DRAWS, RECENT});
    const zt_type *const types[] = {&x, &number, &number, &integer, &number, &number, &number, &list, &list};
    static double numbers[7][DRAWS];
    static int32_t counts[DRAWS], lists[2][DRAWS * RECENT], token[2][DRAWS];
    const void *const data[] = {logits, numbers[1], numbers[2], counts, numbers[4], numbers[5], numbers[6], lists[0], lists[1]};
    oneop call = {.op = ZT_OP_sample_token, .in = {&x}, .data = {logits}};
    for (int i = 0; i < DRAWS; i++) {
        for (int k = 1; k < 7; k++) numbers[k][i] = unit_of(10 + (uint64_t)k, (uint64_t)i);
        numbers[2][i] = 0.2 + 1.6 * numbers[2][i];
        numbers[5][i] *= 0.2;
        numbers[6][i] += 1;
        counts[i] = top_k;
    }
    for (int i = 0; i < 2 * DRAWS * RECENT; i++) lists[i % 2][i / 2] = (int32_t)(unit_of(20, (uint64_t)i) * VOCABULARY);
    for (int k = 1; k < 9; k++) {
        if (!(with >> k & 1)) continue;
        call.in[k] = types[k];
        call.data[k] = data[k];
    }
    bool good = !zt_op_infer(ctx, call.op, NULL, call.in, call.out);
    for (int i = 0; i < 2; i++) good = good && run_one(i ? cpu : device, call, token[i]);
    good = good && !memcmp(token[0], token[1], sizeof token[0]);
    ok(good, "tokens with %s are the cpu's", what);
    for (int k = 1; k < 9 && !good; k++)
        if (with >> k & 1) diag("with %s", names[k]);
}

int main(void)
{
    enum { U = 1 << 1, TEMP = 1 << 2, TOP_K = 1 << 3, TOP_P = 1 << 4, MIN_P = 1 << 5, LISTS = 7 << 6 };
    ctx = zt_ctx_new();
    device = device_open(ctx, "vulkan");
    if (!device) return device_done(ctx, NULL);
    ref = zt_engine_open(ctx, "ref", NULL);
    cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    check_reductions();
    for (int row = 0; row < (int)(sizeof shapes / sizeof shapes[0]); row++)
        ok(is_near_ref(row), "%s: %s", zt_op_info(shapes[row].op)->name, shapes[row].what);
    float *logits = malloc((size_t)DRAWS * VOCABULARY * sizeof *logits);
    /* Of a grid, so that many are equal. */
    for (int i = 0; i < DRAWS * VOCABULARY; i++) logits[i] = (float)floor(4096 * log(unit_of(2, (uint64_t)i))) / -1024;
    check_topk(logits);
    check_draws(logits, U | TEMP, 0, "a temperature");
    check_draws(logits, U | TEMP | TOP_K, TOP, "the 40 best");
    check_draws(logits, U | TEMP | TOP_K, 3000, "the 3000 best");
    check_draws(logits, U | TEMP | TOP_P, 0, "a nucleus");
    check_draws(logits, U | TEMP | MIN_P, 0, "a least share");
    check_draws(logits, U | TEMP | TOP_K | TOP_P | MIN_P | LISTS, 200, "all filters, penalties and banned entries");
    free(logits);
    zt_engine_close(cpu);
    zt_engine_close(ref);
    return device_done(ctx, device);
}
