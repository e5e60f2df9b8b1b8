/* vulkan_engine.c - the engine on Vulkan beyond what conformance says of its kernels: memory that comes
 * back, one submit a replay, ops that run ahead of the caller, times, troubles, refusals; of
 * failures of the driver see vulkan_faults.c. Skipped, aloud, where there is no adapter. */
#include "lib/run/run.h"
#include "tests/engine/device.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* y = (x + x) * x ..., n steps of shape [rows]. */
static zt_prog *chain(zt_ctx *ctx, int n, int64_t rows)
{
    zt_prog *p = zt_prog_new(ctx);
    int x = zt_prog_in(p, "x", ZT_F32, 1, &rows), y = x;
    for (int i = 0; i < n; i++) y = i % 2 ? zt_program_mul(p, NULL, y, x) : zt_program_add(p, NULL, y, x);
    zt_prog_out(p, "y", y);
    return p;
}

static zt_status run_once(zt_engine *engine, const zt_prog *program, const float *x, float *y)
{
    zt_session *session = zt_session_open(engine, program, NULL, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    zt_status st = session ? zt_session_step(session, NULL, 0, in, out) : zt_ctx_status(engine->ctx);
    zt_session_close(session);
    return st;
}

/* Programs of many sizes come and go: then what is held is what the pool keeps, which is no more
 * than after the first round and no more than it may, and in use is what was before. */
static void test_memory(zt_ctx *ctx, zt_engine *engine)
{
    static float x[4096], y[4096];
    size_t after_first = 0;
    bool good = true;
    zt_engine_report start = engine->vt->report(engine);
    for (int i = 0; i < 4096; i++) x[i] = 1;
    for (int i = 0; i < 1000 && good; i++) {
        zt_prog *program = chain(ctx, 3, 1 + i % 50 * 80);
        good = run_once(engine, program, x, y) == ZT_OK && y[0] == 3;
        zt_prog_free(program);
        if (i == 49) after_first = engine->vt->report(engine).held;
    }
    zt_engine_report r = engine->vt->report(engine);
    ok(good, "1000 programs prepared, run and freed");
    ok(r.buffers == start.buffers && r.held - r.pooled_bytes == start.held - start.pooled_bytes,
       "device memory in use is what it was: %zu bytes", r.held - r.pooled_bytes);
    ok(r.held == after_first && r.held <= r.peak && r.allocated >= r.held,
       "and what is held what it was after 50 of them: %zu bytes", r.held);
    ok(r.pool_hits > 20 * r.pool_misses, "the pool had it %" PRIu64 " times, and %" PRIu64 " not", r.pool_hits, r.pool_misses);
    ok(r.pool_allocated == r.pool_misses && r.pool_released > 1000, "and got it back");
    ok(zt_mem_get(ctx).held >= r.held, "all of it is the context's: %zu bytes", zt_mem_get(ctx).held);
}

/* Of one size 200 buffers at once: the pool keeps what it may. A device whose memory the host does not see clears them itself: what
 * it still works on is freed later, and what the engine needs for that is taken the first time. */
static void test_pool_cap(zt_engine *engine)
{
    enum { N = 200 };
    static const int64_t dims[] = {1 << 18, 1000}; /* a MiB, and less than 4 KiB */
    zt_ebuf *b[N];
    bool good = true;
    for (int d = 0; d < 2; d++) {
        zt_type its_type = zt_type_make(ZT_F32, 1, &dims[d]);
        for (int i = 0; i < 12; i++) {
            engine->vt->free(engine, engine->vt->alloc(engine, &its_type));
            good = engine->vt->sync(engine) == ZT_OK && good;
        }
        zt_engine_report before = engine->vt->report(engine);
        for (int i = 0; i < N; i++) good = (b[i] = engine->vt->alloc(engine, &its_type)) != NULL && good;
        zt_engine_report full = engine->vt->report(engine);
        good = good && full.buffers == before.buffers + N;
        for (int i = 0; i < N; i++) engine->vt->free(engine, b[i]);
        good = engine->vt->sync(engine) == ZT_OK && good;
        zt_engine_report r = engine->vt->report(engine);
        ok(good && r.buffers == before.buffers, "200 buffers of %zu bytes come and go", zt_type_bytes(&its_type));
        ok(r.pooled <= before.pooled + 64 && r.pooled_bytes <= 32 << 20 && r.held < full.held,
           "%" PRIu64 " buffers of %zu bytes wait, no more", r.pooled, r.pooled_bytes);
        uint64_t hits = r.pool_hits;
        engine->vt->free(engine, engine->vt->alloc(engine, &its_type));
        ok(engine->vt->report(engine).pool_hits == hits + 1, "and are taken");
    }
}

/* The context's limit holds for the device too; the pool is given up before anything fails. */
static void test_limit(zt_ctx *ctx, zt_engine *engine)
{
    const int64_t dim = 1 << 20, most = 40;
    zt_type its_type = zt_type_make(ZT_F32, 1, &dim);
    zt_ebuf *b[40];
    int count = 0;
    size_t held = zt_mem_get(ctx).held;
    zt_mem_limit(ctx, held + (64 << 20));
    while (count < most && (b[count] = engine->vt->alloc(engine, &its_type))) count++;
    ok(count >= 15 && count < most && zt_ctx_status(ctx) == ZT_ENOMEM, "%d buffers of 4 MiB: %s", count, zt_ctx_error(ctx));
    ok(engine->vt->report(engine).pooled == 0, "after what the pool kept was given up");
    zt_ctx_clear(ctx);
    while (count > 0) engine->vt->free(engine, b[--count]);
    zt_mem_limit(ctx, 0);
    ok(engine->vt->sync(engine) == ZT_OK, "the device is done with them");
    ok(zt_mem_get(ctx).held <= held, "and all is there again");
}

/* A matrix past maxStorageBufferRange (128 MiB on lavapipe): rows before and behind it. */
enum { WIDE = 1024, TALL = 34000 };

static zt_status made_find(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user, (void)name;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){TALL, WIDE});
    *handle = 0;
    return ZT_OK;
}

static float made_at(int64_t row, int64_t col) { return (float)(row % 97) - (float)(col % 3); }

static zt_status made_read(void *user, int64_t handle, size_t offset, void *dst, size_t count)
{
    float *to = dst;
    (void)user, (void)handle;
    for (size_t i = 0; i < count / 4; i++) {
        int64_t at = (int64_t)(offset / 4 + i);
        to[i] = made_at(at / WIDE, at % WIDE);
    }
    return ZT_OK;
}

static void test_large(zt_ctx *ctx, zt_engine *engine)
{
    static float x[WIDE], y[TALL], rows[2 * WIDE];
    const int64_t nx[] = {1, WIDE}, ni = 2, nw[] = {TALL, WIDE};
    const int32_t i[] = {TALL - 1, 3};
    const zt_store store = {.find = made_find, .read = made_read};
    zt_prog *program = zt_prog_new(ctx);
    int a = zt_prog_in(program, "x", ZT_F32, 2, nx), ids = zt_prog_in(program, "i", ZT_I32, 1, &ni);
    int w = zt_prog_data(program, "w", ZT_F32, 2, nw, "w");
    zt_prog_out(program, "y", zt_program_linear(program, NULL, a, w, ZT_NONE, NULL));
    zt_prog_out(program, "r", zt_program_gather(program, NULL, w, ids, NULL));
    for (int k = 0; k < WIDE; k++) x[k] = (float)(k % 5);
    zt_session *session = zt_session_open(engine, program, &store, &(zt_session_opts){.strict = true});
    const void *in[] = {x, i};
    void *out[] = {y, rows};
    bool good = session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    for (int64_t r = 0; r < TALL && good; r += 1 + (TALL - 2) / 7) {
        double sum = 0;
        for (int k = 0; k < WIDE; k++) sum += (double)x[k] * made_at(r, k);
        good = fabs(y[r] - sum) <= 1e-6 * WIDE * 400;
    }
    for (int k = 0; k < WIDE && good; k++) good = rows[k] == made_at(TALL - 1, k) && rows[WIDE + k] == made_at(3, k);
    ok(good, "a matrix of %d bytes multiplies, and gives its last row: %s", 4 * WIDE * TALL, zt_ctx_error(ctx));
    zt_session_close(session);
    zt_prog_free(program);
}

static void test_submits(zt_ctx *ctx, zt_engine *engine)
{
    float x[8] = {1, 1, 1, 1, 1, 1, 1, 1}, y[8];
    zt_prog *program = chain(ctx, 64, 8);
    zt_session *session = zt_session_open(engine, program, NULL, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    ok(session && zt_session_prepare(session, NULL, 0, NULL) == ZT_OK, "64 steps prepared");
    zt_engine_report before = engine->vt->report(engine);
    bool good = session && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    zt_engine_report after = engine->vt->report(engine);
    ok(good && after.submits - before.submits == 1, "a replay is one submit");
    ok(after.downloads - before.downloads == 1, "and one download");
    ok(good && y[7] == 33, "with the right numbers");
    zt_session_close(session);
    zt_prog_free(program);
}

static void test_trouble(zt_ctx *ctx, zt_engine *engine)
{
    const int64_t table[] = {5, 3}, n = 2;
    float x[15] = {0}, y[6];
    int32_t i[2] = {4, 5};
    zt_prog *program = zt_prog_new(ctx);
    int a = zt_prog_in(program, "x", ZT_F32, 2, table), b = zt_prog_in(program, "i", ZT_I32, 1, &n);
    zt_prog_out(program, "y", zt_program_gather(program, NULL, a, b, NULL));
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    const void *in[] = {x, i};
    void *out[] = {y};
    ok(session && zt_session_step(session, NULL, 0, in, out) == ZT_EDATA, "an index out of range is an error");
    ok(strstr(zt_ctx_error(ctx), "index 5 is out of range: must be less than 5") != NULL, "that says which");
    zt_ctx_clear(ctx);
    i[1] = 0;
    ok(session && zt_session_step(session, NULL, 0, in, out) == ZT_OK, "the next replay is clean");
    zt_session_close(session);
    zt_prog_free(program);
}

/* ---- ahead of the caller --------------------------------------------------------------------- */

enum { CHAIN = 64 };

static zt_tensor *vector(zt_ctx *ctx, int64_t n, float value)
{
    zt_type t = zt_type_make(ZT_F32, 1, &n);
    zt_tensor *x = zt_tensor_new(ctx, &t);
    float *data = zt_tensor_data(x);
    for (int64_t i = 0; i < n; i++) data[i] = value + (float)i / 64;
    return x;
}

/* y = tanh(x) + x ... of CHAIN ops; the last is kept beyond its scope. */
static zt_tensor *run_chain(zt_run *runner, zt_tensor *x)
{
    zt_tensor *y = x;
    zt_scope_begin(runner);
    for (int i = 0; i < CHAIN; i++) y = i % 2 ? zt_eager_add(runner, y, x) : zt_eager_tanh(runner, y);
    y = zt_tensor_ref(y);
    zt_scope_end(runner);
    return y;
}

/* How ops of a chain are handed over changes when, never what. */
static void test_ahead(zt_ctx *ctx, zt_engine *engine)
{
    static const struct {
        const char *name;
        bool eager;
        int flush_at;
        uint64_t recorded, done; /* submits before anything is asked for, and then */
    } modes[] = {{"ahead", false, 0, 0, 1},
                 {"flushed at 16", false, 16, 4, 4},
                 {"flushed at 60", false, 60, 1, 2},
                 {"eager", true, 0, CHAIN, CHAIN}};
    float first[100];
    zt_tensor *x = vector(ctx, 100, 0.25f);
    for (int m = 0; m < 4; m++) {
        zt_run *runner = zt_run_new(engine, true);
        zt_run_eager(runner, modes[m].eager);
        zt_run_flush_at(runner, modes[m].flush_at);
        zt_engine_report before = engine->vt->report(engine);
        zt_tensor *y = run_chain(runner, x);
        zt_engine_report after = engine->vt->report(engine);
        ok(y && after.submits - before.submits == modes[m].recorded &&
               after.downloads - before.downloads == (modes[m].eager ? CHAIN : 0),
           "%s: %d ops, %" PRIu64 " submits", modes[m].name, CHAIN, after.submits - before.submits);
        const float *data = y ? zt_tensor_data(y) : first;
        after = engine->vt->report(engine);
        /* Where the host does not see the device's memory, the copy of what was handed over before is a submit of its own. */
        const uint64_t copies = after.submits - before.submits - modes[m].done;
        ok(copies <= (modes[m].done == modes[m].recorded && !modes[m].eager) &&
               after.downloads - before.downloads == (modes[m].eager ? CHAIN : 1),
           "%s: %" PRIu64 " when its end is asked for", modes[m].name, after.submits - before.submits);
        if (m == 0) memcpy(first, data, sizeof first);
        ok(!memcmp(first, data, sizeof first), "%s: the same bits", modes[m].name);
        zt_tensor_unref(y);
        zt_run_free(runner);
    }
    zt_tensor_unref(x);
}

/* The host's bytes count when an op is run, not when it is done; what was asked for is the
 * host's. */
static void test_host_writes(zt_ctx *ctx, zt_engine *engine)
{
    zt_run *runner = zt_run_new(engine, true);
    zt_tensor *x = vector(ctx, 8, 1);
    float *data = zt_tensor_data(x);
    zt_tensor *y = zt_eager_add(runner, x, x);
    data[0] = 100;
    zt_tensor *z = zt_eager_add(runner, y, x);
    float *its = zt_tensor_data(y);
    ok(its[0] == 2 && ((float *)zt_tensor_data(z))[0] == 102, "inputs are copied as an op is run");
    its[0] = -7;
    zt_tensor *again = zt_eager_neg(runner, y);
    ok(((float *)zt_tensor_data(again))[0] == 7, "what was fetched and changed goes up again");
    zt_tensor *w = zt_eager_neg(runner, again);
    zt_type half = zt_type_make(ZT_F32, 1, (int64_t[]){4});
    zt_tensor *view = zt_tensor_view(w, &half, 16), *back = zt_eager_neg(runner, view);
    ok(((float *)zt_tensor_data(back))[1] == ((float *)zt_tensor_data(again))[5], "a piece of a tensor that is away");
    zt_tensor *dst = vector(ctx, 8, 0), *late = zt_eager_exp(runner, x);
    const float *seen = zt_tensor_data(dst);
    zt_run_into(runner, dst);
    zt_eager_add(runner, late, x);
    ok(seen[0] == ((float *)zt_tensor_data(late))[0] + 100, "a destination is written at once");
    late = zt_tensor_ref(zt_eager_add(runner, x, x));
    zt_run_free(runner);
    ok(((float *)zt_tensor_data(late))[0] == 200, "a tensor outlives the run");
    zt_tensor_unref(late);
    zt_tensor_unref(view);
    zt_tensor_unref(dst);
    zt_tensor_unref(x);
}

/* Case i of an op, both ways: 1 the same bits, 0 not, -1 no kernel of vulkan's or too large. */
static int same_bits(zt_ctx *ctx, zt_run *const run[2], zt_op op, const zt_case *op_case, int i)
{
    const zt_opinfo *info = zt_op_info(op);
    zt_tensor *in[ZT_MAX_IN] = {0}, *out[2][ZT_MAX_OUT] = {{0}};
    zt_status st[2] = {ZT_OK, ZT_OK};
    int64_t count = 0;
    for (int k = 0; k < info->n_in; k++)
        if (op_case->fill[k] != ZT_FILL_ABSENT) count += zt_type_count(&op_case->in[k]);
    for (int k = 0; k < info->n_in && count < 20000; k++) {
        if (op_case->fill[k] == ZT_FILL_ABSENT) continue;
        in[k] = zt_tensor_new(ctx, &op_case->in[k]);
        zt_case_fill(op_case, k, 1 + (uint64_t)i, zt_tensor_data(in[k]));
    }
    for (int r = 0; r < 2 && count < 20000; r++) {
        zt_scope_begin(run[r]);
        st[r] = zt_run_op(run[r], op, op_case->attrs, in, out[r]);
        if (!st[r]) st[r] = zt_run_sync(run[r]);
        zt_ctx_clear(ctx);
    }
    int same = count >= 20000 || st[1] == ZT_ENOTSUP ? -1 : st[0] == st[1];
    for (int k = 0; k < info->n_out && same == 1 && !st[0]; k++)
        same = !memcmp(zt_tensor_data(out[0][k]), zt_tensor_data(out[1][k]), zt_tensor_bytes(out[0][k]));
    for (int r = 0; r < 2 && count < 20000; r++) zt_scope_end(run[r]);
    for (int k = 0; k < info->n_in; k++) zt_tensor_unref(in[k]);
    return same;
}

/* The first cases of every op that vulkan has a kernel for. */
static void test_every_op(zt_ctx *ctx, zt_engine *engine)
{
    zt_run *run[2] = {zt_run_new(engine, true), zt_run_new(engine, true)};
    int ops = 0, cases = 0, bad = 0;
    zt_run_eager(run[1], true);
    for (int op = 0; op < ZT_OP_COUNT; op++) {
        zt_case op_case;
        int before = cases;
        for (int i = 0; i < 4 && zt_op_case((zt_op)op, i, &op_case); i++) {
            int same = same_bits(ctx, run, (zt_op)op, &op_case, i);
            cases += same >= 0;
            bad += same == 0;
            if (same == 0) diag("%s case %d", zt_op_info((zt_op)op)->name, i);
        }
        ops += cases > before;
    }
    ok(ops > 10 && cases > 50 && bad == 0, "%d cases of %d ops: the same bits ahead and eager", cases, ops);
    zt_run_free(run[0]);
    zt_run_free(run[1]);
}

/* More ops than batches hold, of which nobody looks at any but the last. */
static void test_many(zt_ctx *ctx, zt_engine *engine)
{
    zt_run *runner = zt_run_new(engine, true);
    zt_tensor *x = vector(ctx, 300000, 1), *y = zt_tensor_ref(x);
    zt_tensor *small = vector(ctx, 4, 1), *z = zt_tensor_ref(small);
    size_t peak = engine->vt->report(engine).held;
    for (int i = 0; i < 6000 && y && z; i++) {
        zt_scope_begin(runner);
        zt_tensor *next = zt_tensor_ref(i % 2 ? zt_eager_add(runner, z, small) : zt_eager_sub(runner, z, small));
        zt_tensor_unref(z);
        z = next;
        if (i % 20 == 0) {
            next = zt_tensor_ref(zt_eager_neg(runner, y)); /* larger than the pool keeps */
            zt_tensor_unref(y);
            y = next;
        }
        zt_scope_end(runner);
        if (engine->vt->report(engine).held > peak) peak = engine->vt->report(engine).held;
    }
    ok(z && ((float *)zt_tensor_data(z))[0] == 1 && ((float *)zt_tensor_data(y))[0] == 1,
       "6300 ops before anything is asked for: %s", zt_ctx_error(ctx));
    ok(peak < (size_t)600 << 20, "what they drop comes back meanwhile: at most %zu bytes", peak);
    zt_tensor_unref(y);
    zt_tensor_unref(z);
    zt_tensor_unref(x);
    zt_tensor_unref(small);
    zt_run_free(runner);
}

/* A bad index is told at the next synchronisation, whichever that is. */
static void test_late_trouble(zt_ctx *ctx, zt_engine *engine)
{
    const int64_t table[] = {5, 3}, n = 2;
    zt_type tx = zt_type_make(ZT_F32, 2, table), ti = zt_type_make(ZT_I32, 1, &n);
    zt_tensor *x = zt_tensor_new(ctx, &tx), *i = zt_tensor_new(ctx, &ti), *one = vector(ctx, 3, 1);
    memset(zt_tensor_data(x), 0, zt_tensor_bytes(x));
    memcpy(zt_tensor_data(i), (int32_t[]){4, 7}, 8);
    for (int how = 0; how < 4; how++) {
        zt_run *runner = zt_run_new(engine, true);
        zt_tensor *y = zt_eager_gather(runner, x, i, NULL);
        ok(y && zt_ctx_status(ctx) == ZT_OK, "a bad index is not known when the op is recorded");
        if (how == 0) zt_run_sync(runner);
        if (how == 1) zt_tensor_data(y);
        if (how == 2) zt_run_into(runner, one);
        if (how == 2) zt_eager_add(runner, one, one);
        zt_run_free(runner);
        ok(zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), "gather: index 7 is out of range: must be less than 5"),
           "but when someone waits: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
    }
    zt_tensor_unref(x);
    zt_tensor_unref(i);
    zt_tensor_unref(one);
}

/* ---- time ------------------------------------------------------------------------------------ */

typedef struct times {
    int calls;
    double sum;
    bool named;
} times;

static void note_time(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    times *t = user;
    t->calls++;
    t->sum += seconds;
    t->named = t->named && seconds >= 0 && plan->step[step].op == (step % 2 ? ZT_OP_mul : ZT_OP_add);
}

/* Through the trace wrapper every step has a time, of the device's own clock. */
static void test_times(zt_ctx *ctx)
{
    static float x[1 << 16], y[1 << 16];
    times t = {.named = true};
    zt_engine_opts opts = {.isa = zt_isa_best()};
    zt_engine *engine = zt_engine_trace(zt_engine_open(ctx, "vulkan", &opts), note_time, &t);
    zt_prog *program = chain(ctx, 20, 1 << 16);
    zt_session *session = zt_session_open(engine, program, NULL, &(zt_session_opts){.strict = true});
    const void *in[] = {x};
    void *out[] = {y};
    double start = zt_seconds();
    bool good =
        session && zt_session_step(session, NULL, 0, in, out) == ZT_OK && zt_session_step(session, NULL, 0, in, out) == ZT_OK;
    double all = zt_seconds() - start;
    ok(good && t.calls == 40 && t.named, "20 steps, each told twice with its time");
    ok(t.sum > 0 && t.sum <= all, "which add up to less than the time of all: %g of %g s", t.sum, all);
    zt_session_close(session);
    zt_prog_free(program);
    zt_engine_close(engine);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_refusals(zt_ctx *ctx)
{
    zt_engine *e = zt_engine_open(ctx, "vulkan:99", NULL);
    ok(!e && zt_ctx_status(ctx) == ZT_ENOTSUP, "adapter 99 is not there: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = device_open(ctx, "vulkan");
    if (engine) {
        test_memory(ctx, engine);
        test_pool_cap(engine);
        test_limit(ctx, engine);
        test_large(ctx, engine);
        test_submits(ctx, engine);
        test_trouble(ctx, engine);
        test_ahead(ctx, engine);
        test_host_writes(ctx, engine);
        test_every_op(ctx, engine);
        test_many(ctx, engine);
        test_late_trouble(ctx, engine);
        test_times(ctx);
        test_refusals(ctx);
    }
    return device_done(ctx, engine);
}
