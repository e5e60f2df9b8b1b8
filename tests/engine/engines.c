/* engines.c - engines by name; ref's promises; the wrappers fault and trace. */
#include "tests/common/one_op.h"
#include "tests/common/tap.h"

#include <inttypes.h>

/* ---- by name --------------------------------------------------------------------------------- */

static void open_refused(const char *name, zt_status status, const char *says)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = zt_engine_open(ctx, name, NULL);
    ok(!engine && zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), says), "refused: %s", zt_ctx_error(ctx));
    zt_engine_close(engine);
    zt_ctx_free(ctx);
}

static bool is_listed(const char *name)
{
    for (int i = 0; zt_engine_list(i); i++)
        if (!strcmp(zt_engine_list(i), name)) return true;
    return false;
}

static void names(zt_ctx *ctx)
{
    bool cpu = false, ref = false, open = true;
    for (int i = 0; zt_engine_list(i); i++) {
        cpu |= !strcmp(zt_engine_list(i), "cpu");
        ref |= !strcmp(zt_engine_list(i), "ref");
        zt_engine *engine = zt_engine_open(ctx, zt_engine_list(i), NULL);
        bool no_device = !engine && zt_ctx_status(ctx) == ZT_ENOTSUP;
        if (no_device) skip("%s: %s", zt_engine_list(i), zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        open &= no_device || (engine && !strcmp(engine->vt->name, zt_engine_list(i)));
        zt_engine_close(engine);
    }
    ok(cpu && ref && open, "the engines listed are those that open");
    ok(!zt_engine_list(-1), "none before the first");
    zt_engine *engine = zt_engine_open(ctx, "auto", NULL);
    ok(engine && !strcmp(engine->vt->name, "cpu"), "auto is cpu");
    zt_engine_close(engine);
    zt_engine_close(NULL);
    ok(!zt_engine_has_devices("cpu") && !zt_engine_has_devices("ref") && !zt_engine_has_devices("") &&
           zt_engine_has_devices("cuda") == is_listed("cuda"),
       "which engines have devices is told by name");
    if (!is_listed("cuda")) open_refused("cuda", ZT_ENOTSUP, "'cuda': zt was built without cuda");
    open_refused("cuda:99", ZT_ENOTSUP, "cuda");
    open_refused("vulkan:99", ZT_ENOTSUP, "vulkan");
    open_refused("cpu:1", ZT_EUSAGE, "engine 'cpu:1': invalid device number");
    open_refused("cuda:x", ZT_EUSAGE, is_listed("cuda") ? "invalid device number" : "unknown engine 'cuda:x'");
    open_refused("cudax", ZT_EUSAGE, "unknown engine 'cudax'");
    open_refused("", ZT_EUSAGE, "''");
    open_refused("re\nf", ZT_EUSAGE, "re\\x0af");
}

/* ---- an op to run: gather, then a bigger plan ------------------------------------------------ */

static const float rows4[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};

/* y[3,2] = x[i], where x is loaded like a weight. */
static zt_status gather3(zt_engine *engine, const int32_t *index, float *y, zt_watch *watch)
{
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){4, 2}), i = zt_type_make(ZT_I32, 1, (int64_t[]){3});
    oneop call = {.op = ZT_OP_gather, .in = {&x, &i}, .data = {rows4, index}, .watch = watch};
    if (zt_op_infer(engine->ctx, call.op, NULL, call.in, call.out)) return zt_ctx_status(engine->ctx);
    call.result[0] = y;
    return oneop_run(engine, &call);
}

/* 7 / b, -7 / b, INT32_MIN / b. */
static zt_status divide3(zt_engine *e, int32_t by, int32_t *y)
{
    const int32_t a[] = {7, -7, INT32_MIN}, b[] = {by};
    zt_type three = zt_type_make(ZT_I32, 1, (int64_t[]){3}), one = zt_type_make(ZT_I32, 0, NULL);
    oneop o = {.op = ZT_OP_div, .in = {&three, &one}, .data = {a, b}, .result = {y}};
    if (zt_op_infer(e->ctx, o.op, NULL, o.in, o.out)) return zt_ctx_status(e->ctx);
    return oneop_run(e, &o);
}

static bool has_division(zt_engine *e)
{
    zt_type one = zt_type_make(ZT_I32, 0, NULL);
    const zt_type *in[ZT_MAX_IN] = {&one, &one};
    return e->vt->has(e, ZT_OP_div, NULL, in, &one);
}

static void divisions(zt_ctx *ctx, const char *name)
{
    int32_t y[3];
    zt_engine *engine = zt_engine_open(ctx, name, NULL);
    if (!engine || !has_division(engine)) {
        zt_ctx_clear(ctx);
        zt_engine_close(engine);
        return;
    }
    ok(divide3(engine, 2, y) == ZT_OK && y[0] == 3 && y[1] == -3 && y[2] == INT32_MIN / 2,
       "%s: integers are divided towards zero", name);
    ok(divide3(engine, -1, y) == ZT_OK && y[0] == -7 && y[2] == INT32_MIN, "%s: the least integer by -1 wraps", name);
    ok(divide3(engine, 0, y) == ZT_EDATA && !strcmp(zt_ctx_error(ctx), "op div (step 0): integer division by zero"),
       "%s: an integer divided by zero is an error", name);
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
}

static bool has_gather(zt_engine *e)
{
    zt_type x = zt_type_make(ZT_F32, 2, (int64_t[]){4, 2}), i = zt_type_make(ZT_I32, 1, (int64_t[]){3}),
            y = zt_type_make(ZT_F32, 2, (int64_t[]){3, 2});
    const zt_type *in[ZT_MAX_IN] = {&x, &i};
    return e->vt->has(e, ZT_OP_gather, NULL, in, &y);
}

static zt_engine *open_ref(zt_ctx *ctx) { return zt_engine_open(ctx, "ref", NULL); }

static void troubles(zt_ctx *ctx, const char *name)
{
    zt_engine *engine = zt_engine_open(ctx, name, NULL);
    float y[6];
    if (!engine) zt_ctx_clear(ctx); /* built, but no device here */
    if (!engine || !has_gather(engine)) {
        zt_engine_close(engine);
        return;
    }
    ok(gather3(engine, (int32_t[]){3, 0, 2}, y, NULL) == ZT_OK && y[0] == 7 && y[3] == 2 && y[5] == 6, "%s gathers", name);
    zt_status result = gather3(engine, (int32_t[]){0, 70000, 4}, y, NULL);
    ok(result == ZT_EDATA && !strcmp(zt_ctx_error(ctx), "op gather (step 0): index 70000 is out of range: must be less than 4"),
       "%s: an index out of range: %s", name, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    result = gather3(engine, (int32_t[]){0, 1, -1}, y, NULL);
    ok(result == ZT_EDATA && strstr(zt_ctx_error(ctx), "index -1"), "%s: a negative one: %s", name, zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(gather3(engine, (int32_t[]){1, 1, 1}, y, NULL) == ZT_OK && y[4] == 3, "%s goes on after", name);
    zt_engine_close(engine);
}

/* A plan whose values share bytes as lib/run places them: a = x + x in place of nothing, b = silu a
 * over a, v = a view of b handed out. Replayed twice. */
static void in_place(zt_ctx *ctx)
{
    zt_engine *engine = open_ref(ctx);
    zt_type six = zt_type_make(ZT_F32, 1, (int64_t[]){6}), two3 = zt_type_make(ZT_F32, 2, (int64_t[]){2, 3});
    zt_type type[] = {six, six, six, two3};
    zt_place place[] = {{ZT_PLACE_IN, 0, 0}, {ZT_PLACE_ARENA, 0, 64}, {ZT_PLACE_ARENA, 0, 64}, {ZT_PLACE_OUT, 0, 0}};
    zt_scale_attrs half = {0.5};
    zt_reshape_attrs shape = {{2, {2, 3}}};
    zt_step step[] = {{ZT_OP_add, NULL, {0, 0}, {1}}, {ZT_OP_scale, &half, {1}, {2}}, {ZT_OP_reshape, &shape, {2}, {3}}};
    zt_run_schedule plan = {4, type, place, 3, step, 1, 1, 0, NULL, 128, false};
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
    zt_executable *r = engine->vt->prepare(engine, &plan);
    memset(step, 0, sizeof step); /* prepare keeps nothing of ours */
    memset(place, 0, sizeof place);
    half.by = 0;
    uint64_t calls = zt_mem_get(ctx).calls;
    bool good = r && engine->vt->replay(engine, r, (const void *[]){x}, (void *[]){y}, NULL) == ZT_OK;
    ok(good && !memcmp(x, y, sizeof x), "values in one place, and a view into an output");
    x[5] = 9;
    good = r && engine->vt->replay(engine, r, (const void *[]){x}, (void *[]){y}, NULL) == ZT_OK;
    ok(good && y[5] == 9, "a second replay");
    ok(zt_mem_get(ctx).calls == calls, "replays allocate nothing");
    ok(engine->vt->report(engine).replays == 2 && engine->vt->report(engine).kernels == 6, "and are counted");
    engine->vt->unprepare(engine, r);
    zt_engine_close(engine);
}

static void integers(zt_ctx *ctx)
{
    zt_engine *engine = open_ref(ctx);
    int8_t i8[2] = {-128, 127}, i8_back[2];
    uint8_t b[2] = {0, 1}, b_back[2];
    int64_t i64[2] = {INT64_MIN, INT64_MAX}, i64_back[2];
    const struct {
        zt_dtype type;
        void *host, *back;
    } rows[] = {{ZT_I8, i8, i8_back}, {ZT_BOOL, b, b_back}, {ZT_I64, i64, i64_back}};
    for (int i = 0; i < 3; i++) {
        zt_type its_type = zt_type_make(rows[i].type, 1, (int64_t[]){2});
        zt_ebuf *buf = engine->vt->alloc(engine, &its_type);
        bool good = buf && !engine->vt->upload(engine, buf, rows[i].host) && !engine->vt->download(engine, buf, rows[i].back) &&
                    !memcmp(rows[i].host, rows[i].back, zt_type_bytes(&its_type));
        ok(good, "ref holds %s", zt_dtype_get(rows[i].type)->name);
        engine->vt->free(engine, buf);
    }
    ok(engine->vt->report(engine).held == 0 && engine->vt->report(engine).peak == 16, "ref counts its bytes");
    zt_engine_close(engine);
}

static void counted(zt_ctx *ctx, const char *name)
{
    const int64_t dim = 100;
    zt_type its_type = zt_type_make(ZT_F32, 1, &dim);
    zt_engine *engine = zt_engine_open(ctx, name, NULL);
    zt_ebuf *a = engine->vt->alloc(engine, &its_type), *b = engine->vt->alloc(engine, &its_type);
    zt_engine_report two = engine->vt->report(engine);
    engine->vt->free(engine, a);
    zt_engine_report one = engine->vt->report(engine);
    ok(two.buffers == 2 && one.buffers == 1 && two.held >= 800 && one.held == two.held / 2 && one.allocated == two.held &&
           one.peak == two.held,
       "%s counts its buffers: %zu bytes of %" PRIu64, name, one.held, one.allocated);
    engine->vt->free(engine, b);
    ok(engine->vt->report(engine).buffers == 0 && engine->vt->report(engine).held == 0, "and what went");
    zt_engine_close(engine);
    ok(zt_engine_adapters(ctx, name, NULL, 0) == 0, "%s has no adapters", name);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void fault_at(zt_ctx *ctx, zt_fault_at at, const char *what, zt_status status)
{
    zt_engine *engine = zt_engine_fault(open_ref(ctx), at, 2, false);
    float y[6];
    const int32_t i[3] = {0, 1, 2};
    ok(gather3(engine, i, y, NULL) == ZT_OK, "fault: the first %s goes well", what);
    ok(gather3(engine, i, y, NULL) == status && strstr(zt_ctx_error(ctx), what), "the second fails: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(gather3(engine, i, y, NULL) == ZT_OK && y[3] == 4, "the third goes well again");
    zt_engine_close(engine);
    engine = zt_engine_fault(open_ref(ctx), at, 1, true);
    bool all = true;
    for (int k = 0; k < 3; k++, zt_ctx_clear(ctx)) all &= gather3(engine, i, y, NULL) == status;
    ok(all, "onwards: every %s fails", what);
    zt_engine_close(engine);
    engine = zt_engine_fault(open_ref(ctx), at, 0, false);
    ok(gather3(engine, i, y, NULL) == ZT_OK, "none: no %s fails", what);
    zt_engine_close(engine);
}

static void fault_counts_states(zt_ctx *ctx)
{
    zt_type its_type = zt_type_make(ZT_F32, 1, (int64_t[]){2});
    zt_engine *engine = zt_engine_fault(open_ref(ctx), ZT_FAULT_ALLOC, 1, false);
    ok(!engine->vt->alloc(engine, &its_type) && zt_ctx_status(ctx) == ZT_ENOMEM, "fault: a state is an allocation");
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
    engine = zt_engine_fault(open_ref(ctx), ZT_FAULT_UPLOAD, 1, false);
    zt_ebuf *b = engine->vt->alloc(engine, &its_type);
    ok(b && engine->vt->upload(engine, b, rows4) == ZT_ESYS, "fault: an upload");
    zt_ctx_clear(ctx);
    float y[2];
    ok(!engine->vt->upload(engine, b, rows4) && !engine->vt->download(engine, b, y) && y[1] == 2, "then none");
    engine->vt->free(engine, b);
    zt_engine_close(engine);
    ok(!zt_engine_fault(NULL, ZT_FAULT_ALLOC, 1, false), "fault around nothing");
}

/* Fault points that count only some events: kernels of one op, one weight, one value. */
static void fault_chosen(zt_ctx *ctx)
{
    float y[6];
    const int32_t i[3] = {0, 1, 2};
    zt_fault f = {.at = ZT_FAULT_KERNEL, .nth = 2, .op = "gather"};
    zt_engine *engine = zt_engine_fault_point(open_ref(ctx), &f);
    int32_t q[3];
    ok(gather3(engine, i, y, NULL) == ZT_OK && divide3(engine, 2, q) == ZT_OK && divide3(engine, 2, q) == ZT_OK,
       "fault by op: others do not count");
    ok(gather3(engine, i, y, NULL) == ZT_ESYS && strstr(zt_ctx_error(ctx), "kernel of op gather"), "its second fails: %s",
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(gather3(engine, i, y, NULL) == ZT_OK, "once");
    zt_engine_close(engine);
    /* oneop numbers values: two inputs, then the output. */
    f = (zt_fault){.at = ZT_FAULT_OUTPUT, .nth = 1, .one_value = true, .value = 1};
    engine = zt_engine_fault_point(open_ref(ctx), &f);
    ok(gather3(engine, i, y, NULL) == ZT_OK, "fault by value: another's write does not count");
    zt_engine_close(engine);
    f.value = 2, f.onwards = true;
    engine = zt_engine_fault_point(open_ref(ctx), &f);
    ok(gather3(engine, i, y, NULL) == ZT_ESYS && strstr(zt_ctx_error(ctx), "output of op gather"), "its own does: %s",
       zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    ok(gather3(engine, i, y, NULL) == ZT_ESYS, "and from then on");
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
}

static zt_status find_named(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){4, 2});
    *handle = name[0] - 'a';
    return name[1] ? ZT_ENOENT : ZT_OK;
}

static zt_status read_rows(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user, (void)handle;
    memcpy(dst, (const char *)rows4 + offset, n);
    return ZT_OK;
}

static void fault_weight(zt_ctx *ctx)
{
    static const zt_store store = {NULL, find_named, read_rows};
    zt_type its_type = zt_type_make(ZT_F32, 2, (int64_t[]){4, 2});
    for (int at = ZT_FAULT_ALLOC; at <= ZT_FAULT_UPLOAD; at++) {
        zt_engine *engine = zt_engine_fault_point(open_ref(ctx), &(zt_fault){.at = (zt_fault_at)at, .nth = 1, .tensor = "b"});
        zt_ebuf *a = engine->vt->load(engine, &its_type, &store, 0), *state = engine->vt->alloc(engine, &its_type);
        ok(a && state && engine->vt->upload(engine, state, rows4) == ZT_OK && !engine->vt->load(engine, &its_type, &store, 1),
           "fault by weight: that of the name, no other and no state: %s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        zt_ebuf *b = engine->vt->load(engine, &its_type, &store, 1);
        ok(b != NULL, "once");
        engine->vt->free(engine, a);
        engine->vt->free(engine, b);
        engine->vt->free(engine, state);
        zt_engine_close(engine);
    }
}

/* ---- traces ---------------------------------------------------------------------------------- */

typedef struct seen {
    int traced, before, after, spans, op;
    zt_status refuse;
    bool in_order;
} seen;

static void on_trace(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    seen *s = user;
    s->traced += seconds >= 0;
    s->op = (int)plan->step[step].op;
}

static zt_status on_before(void *user, const zt_run_schedule *plan, int step)
{
    seen *s = user;
    (void)plan, (void)step;
    s->before++;
    s->in_order = s->traced == s->after && s->before == s->after + 1;
    return s->refuse;
}

static void on_after(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    seen *s = user;
    (void)plan, (void)step, (void)seconds;
    s->after++;
}

static void on_span(void *user, const zt_run_schedule *plan, const zt_span *span)
{
    seen *s = user;
    s->spans += span->step == 0 && span->track == 0 && span->end >= span->begin;
    s->op = (int)plan->step[span->step].op;
}

static void traces(zt_ctx *ctx)
{
    seen s = {0};
    float y[6];
    const int32_t i[3] = {0, 1, 2};
    zt_watch watch = {.before = on_before, .after = on_after, .user = &s};
    zt_watch timed = {.span = on_span, .user = &s};
    zt_engine *engine = zt_engine_trace(open_ref(ctx), on_trace, &s);
    ok(gather3(engine, i, y, NULL) == ZT_OK && s.traced == 1 && s.op == ZT_OP_gather, "trace tells of a step");
    s = (seen){0};
    ok(gather3(engine, i, y, &watch) == ZT_OK && s.traced == 1 && s.before == 1 && s.after == 1 && s.in_order,
       "beside the caller's watch");
    s = (seen){.refuse = ZT_EINTR};
    ok(gather3(engine, i, y, &watch) == ZT_EINTR && s.traced == 0 && s.after == 0, "a step that the watch refuses did not run");
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
    s = (seen){0};
    engine = zt_engine_fault(open_ref(ctx), ZT_FAULT_KERNEL, 2, false);
    ok(gather3(engine, i, y, &timed) == ZT_OK && s.spans == 1 && s.op == ZT_OP_gather, "spans go through wrappers");
    ok(gather3(engine, i, y, &timed) == ZT_ESYS && s.spans == 1, "and a fault is one still");
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
    engine = zt_engine_trace(zt_engine_fault(open_ref(ctx), ZT_FAULT_KERNEL, 2, false), on_trace, &s);
    s = (seen){0};
    ok(gather3(engine, i, y, NULL) == ZT_OK && gather3(engine, i, y, NULL) == ZT_ESYS && s.traced == 1, "a trace around a fault");
    ok(zt_engine_inmost(engine)->vt == &zt_engine_ref && zt_engine_inmost(engine) == engine->inner->inner,
       "whose inmost engine is told");
    zt_ctx_clear(ctx);
    zt_engine_close(engine);
    ok(!zt_engine_trace(NULL, on_trace, NULL), "trace around nothing");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static zt_status whole_life(zt_ctx *ctx)
{
    seen s = {0};
    float y[6];
    zt_engine *engine = zt_engine_fault(open_ref(ctx), ZT_FAULT_ALLOC, 0, false);
    engine = zt_engine_trace(engine, on_trace, &s);
    if (!engine) return zt_ctx_status(ctx);
    zt_status st = gather3(engine, (int32_t[]){0, 1, 2}, y, NULL);
    zt_engine_close(engine);
    return st;
}

static void every_allocation_fails(zt_ctx *ctx)
{
    bool told = true, freed = true;
    zt_status st = ZT_ENOMEM;
    int count = 0;
    for (; st && count < 100; count++) {
        zt_mem_fail(ctx, (uint64_t)count + 1, false);
        st = whole_life(ctx);
        told &= st == zt_ctx_status(ctx) && (!st || st == ZT_ENOMEM);
        freed &= zt_mem_get(ctx).blocks == 0;
        zt_ctx_clear(ctx);
    }
    zt_mem_fail(ctx, 0, false);
    ok(st == ZT_OK && count > 5, "each of %d allocations failed once", count - 1);
    ok(told, "each time it was told");
    ok(freed, "each time nothing was left");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    names(ctx);
    for (int i = 0; zt_engine_list(i); i++) troubles(ctx, zt_engine_list(i));
    for (int i = 0; zt_engine_list(i); i++) divisions(ctx, zt_engine_list(i));
    in_place(ctx);
    integers(ctx);
    counted(ctx, "ref");
    counted(ctx, "cpu");
    fault_at(ctx, ZT_FAULT_ALLOC, "allocation", ZT_ENOMEM);
    fault_at(ctx, ZT_FAULT_UPLOAD, "upload", ZT_ESYS);
    fault_at(ctx, ZT_FAULT_KERNEL, "kernel", ZT_ESYS);
    fault_counts_states(ctx);
    fault_chosen(ctx);
    fault_weight(ctx);
    traces(ctx);
    every_allocation_fails(ctx);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
