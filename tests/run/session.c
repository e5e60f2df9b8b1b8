/* session.c - lib/run: sessions, the memory plan, fallbacks, weights. (Eager ops: eager_chain.c.) */
#include "tests/common/chain_program.h"

/* An engine like another, but without kernels for one op: what it lacks must fall back. */
static zt_op lacking;
static const zt_engine_vt *whole;
static bool has_but_one(zt_engine *e, zt_op op, const void *attrs, const zt_type *const in[], const zt_type out[])
{
    return op != lacking && whole->has(e, op, attrs, in, out);
}

/* ---- one program, every engine --------------------------------------------------------------- */

static void test_chain(zt_engine *engine, const char *label, int fallbacks)
{
    float a[N * W], b[N * W], want[N * W], y[N * W], z[N * W], a2[N * W], y2[N * W];
    zt_prog *program = parse(chain_text);
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    fill(a, N * W, 1);
    fill(b, N * W, 2);
    chain_by_hand(a, b, want);
    zt_status st = zt_session_step(session, &(zt_binding){"n", N}, 1, (const void *[]){a, b}, (void *[]){y, z, a2, y2});
    ok(st == ZT_OK, "%s: a chain runs (%s)", label, zt_ctx_error(ctx));
    ok(close_to(y, want, N * W), "%s: its output", label);
    ok(memcmp(y, z, sizeof y) == 0 && memcmp(y, y2, sizeof y) == 0, "%s: a view and a twin", label);
    ok(memcmp(a, a2, sizeof a) == 0, "%s: an input passed through", label);
    zt_session_report r = zt_session_get(session);
    ok(r.fallbacks == fallbacks, "%s: %d fallbacks counted (%d)", label, fallbacks, r.fallbacks);
    ok(r.arena_bytes >= r.liveness_bytes && r.arena_bytes <= r.liveness_bytes * 21 / 20, "%s: arena %zu, lower bound %zu", label,
       r.arena_bytes, r.liveness_bytes);
    zt_session_close(session);
    zt_prog_free(program);
}

static void test_empty(zt_engine *engine)
{
    float y[1] = {7}, z[1] = {7}, a2[1] = {7}, y2[1] = {7}, a[1], b[1];
    zt_prog *program = parse(chain_text);
    zt_session *session = zt_session_open(engine, program, NULL, NULL);
    zt_status st = zt_session_step(session, &(zt_binding){"n", 0}, 1, (const void *[]){a, b}, (void *[]){y, z, a2, y2});
    ok(st == ZT_OK && y[0] == 7 && z[0] == 7 && a2[0] == 7, "no rows: nothing written");
    ok(zt_session_step(session, NULL, 0, (const void *[]){a, b}, (void *[]){y, z, a2, y2}) == ZT_EUSAGE,
       "a symbol without a value is refused");
    said("no value for symbol 'n'");
    zt_session_close(session);
    zt_prog_free(program);
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Two states trade places and one counts; all through `keep` of values not updated in place. */
static void test_keeps(zt_engine *engine, const char *label)
{
    zt_prog *program = parse("zt program 1\nin    x: f32[4]\nstate a: f32[4]\nstate b: f32[4]\n"
                             "state c: f32[4]\nd = add c x\nkeep  a = b\nkeep  b = a\nkeep  c = d\n"
                             "out   sum = d\nout   was = a\n");
    ok(program != NULL, "%s: states parse (%s)", label, zt_ctx_error(ctx));
    zt_session *session = program ? zt_session_open(engine, program, NULL, NULL) : NULL;
    if (!ok(session != NULL, "%s: opens (%s)", label, zt_ctx_error(ctx))) return;
    float one[4] = {1, 2, 3, 4}, sum[4], was[4], a[4], b[4];
    zt_session_state_set(session, 0, one);
    for (int i = 0; i < 3; i++)
        ok(zt_session_step(session, NULL, 0, (const void *[]){one}, (void *[]){sum, was}) == ZT_OK, "%s: step %d (%s)", label, i,
           zt_ctx_error(ctx));
    zt_session_state_get(session, 0, a);
    zt_session_state_get(session, 1, b);
    ok(sum[0] == 3 && sum[3] == 12, "%s: a state counts", label);
    ok(a[3] == 0 && b[3] == 4, "%s: two states trade places", label);
    zt_session_close(session);
    zt_prog_free(program);
}

/* What states keep is written where they lie, if nobody reads them later: m and w by the outputs of
 * one chain over its inputs, f by an op that does not read it. Not: o, whose old value is wanted;
 * l, read later; t, which its maker reads transposed; k, kept by another. */
static const char *const placed_text =
    "zt program 1\nin    x: f32[3,3]\nstate m: f32[3,3]\nstate w: f32[3,3]\nstate f: f32[3,3]\n"
    "state o: f32[3,3]\nstate l: f32[3,3]\nstate t: f32[3,3]\nstate k: f32[3,3]\nstate j: f32[3,3]\n"
    "m1, w1 = pointwise x m w chain=\"scale b by=0.5; add %0 a; sub c %1; out %1 %2\"\n"
    "f1 = matmul x x\no1 = add o x\nl1 = add l x\nl2 = mul l l1\nt1 = linear t x\nk1 = add k x\n"
    "keep m = m1\nkeep w = w1\nkeep f = f1\nkeep o = o1\nkeep l = l1\nkeep t = t1\nkeep k = k1\n"
    "keep j = k\nout  was = o\nout  l2 = l2\nout  w1 = w1\n";

static int placed(const zt_session *s, const zt_prog *p, const char *name)
{
    return zt_session_part_at(s, 0).schedule->place[zt_prog_find(p, name)].kind;
}

/* Two steps of it: outputs and states. */
static bool run_placed(zt_engine *engine, float *all, bool *in_place)
{
    zt_prog *program = parse(placed_text);
    zt_session *session = program ? zt_session_open(engine, program, NULL, NULL) : NULL;
    float x[9];
    bool good = session != NULL;
    fill(x, 9, 7);
    for (int i = 0; good && i < 8; i++) good = zt_session_state_set(session, i, x) == ZT_OK;
    for (int i = 0; good && i < 2; i++)
        good = zt_session_step(session, NULL, 0, (const void *[]){x}, (void *[]){all, all + 9, all + 18}) == ZT_OK;
    for (int i = 0; good && i < 8; i++) good = zt_session_state_get(session, i, all + 27 + 9 * i) == ZT_OK;
    static const char *const names[] = {"m1", "w1", "f1", "o1", "l1", "t1", "k1"};
    for (int i = 0; good && i < 7; i++) in_place[i] = placed(session, program, names[i]) == ZT_PLACE_BUF;
    zt_session_close(session);
    zt_prog_free(program);
    return good;
}

/* ref's values are wider than what it keeps: there none is. */
static void test_placed(zt_engine *engine, zt_engine *ref, const char *label)
{
    bool in_place[7], expected[7] = {0};
    float all[99], want[99];
    for (int i = 0; i < 3; i++) expected[i] = strcmp(label, "ref") != 0;
    if (!ok(run_placed(ref, want, in_place) && run_placed(engine, all, in_place), "%s: states that are kept in every way (%s)",
            label, zt_ctx_error(ctx)))
        return;
    ok(close_to(all, want, 99), "%s: their values", label);
    ok(!memcmp(in_place, expected, sizeof expected), "%s: those in place are", label);
}

/* A cache updated in place, read by attention, over two steps. */
static const char *const cache_text = "zt program 1\n"
                                      "in    x: f32[n,32]\n"
                                      "in    pos: i32[n]\n"
                                      "state kc: f32[ctx,32]\n"
                                      "state vc: f32[ctx,32]\n"
                                      "k = kv_put kc x pos\n"
                                      "v = kv_put vc x pos\n"
                                      "y = attention x k v pos head=16\n"
                                      "keep  kc = k\n"
                                      "keep  vc = v\n"
                                      "out   y = y\n";

static bool run_cache(zt_engine *engine, const int *chunks, float *y)
{
    float x[N * W];
    int32_t pos[N] = {0, 1, 2, 3, 4};
    zt_prog *program = parse(cache_text);
    zt_session *session =
        zt_session_open(engine, program, NULL, &(zt_session_opts){.fixed = &(zt_binding){"ctx", 64}, .n_fixed = 1});
    bool good = session != NULL;
    fill(x, N * W, 3);
    for (int at = 0; good && at < N; at += *chunks++)
        good = zt_session_step(session, &(zt_binding){"n", *chunks}, 1, (const void *[]){x + at * W, pos + at},
                               (void *[]){y + at * W}) == ZT_OK;
    zt_session_close(session);
    zt_prog_free(program);
    return good;
}

static void test_cache(zt_engine *e, const char *label, const float *want)
{
    float y[N * W], z[N * W];
    ok(run_cache(e, (int[]){5}, y), "%s: a cache at once (%s)", label, zt_ctx_error(ctx));
    ok(run_cache(e, (int[]){2, 1, 2}, z), "%s: a cache in chunks (%s)", label, zt_ctx_error(ctx));
    ok(memcmp(y, z, sizeof y) == 0, "%s: the same bits", label);
    ok(!want || close_to(y, want, N * W), "%s: what ref says", label);
}

/* ---- looking at a session -------------------------------------------------------------------- */

typedef struct watched {
    int after, spans, adds; /* steps told; those of op add */
} watched;

static void count_after(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    watched *w = user;
    w->after += seconds >= 0;
    w->adds += plan->step[step].op == ZT_OP_add;
}

static void count_span(void *user, const zt_run_schedule *plan, const zt_span *span)
{
    watched *w = user;
    w->spans += span->end >= span->begin;
    w->adds += plan->step[span->step].op == ZT_OP_add;
}

static void test_look(zt_engine *e, const char *label, int parts)
{
    float a[N * W], b[N * W], y[N * W], z[N * W], a2[N * W], y2[N * W];
    watched w = {0};
    zt_prog *program = parse(chain_text);
    zt_session *session = zt_session_open(e, program, NULL, NULL);
    const zt_binding n = {"n", N};
    fill(a, N * W, 1);
    fill(b, N * W, 2);
    ok(zt_session_parts(session) == 0, "%s: nothing prepared, no parts", label);
    zt_session_watch(session, &(zt_watch){.after = count_after, .user = &w});
    zt_status st = zt_session_step(session, &n, 1, (const void *[]){a, b}, (void *[]){y, z, a2, y2});
    ok(!st && w.after >= 6 && w.adds == 2, "%s: every step is told, on any engine", label);
    w = (watched){0};
    zt_session_watch(session, &(zt_watch){.span = count_span, .user = &w});
    st = zt_session_step(session, &n, 1, (const void *[]){a, b}, (void *[]){y2, z, a2, y2});
    ok(!st && w.spans >= 6 && w.adds >= 2, "%s: or its pieces", label);
    w = (watched){0};
    zt_session_watch(session, NULL);
    st = zt_session_step(session, &n, 1, (const void *[]){a, b}, (void *[]){y2, z, a2, y2});
    ok(!st && w.spans == 0 && !memcmp(y, y2, sizeof y), "%s: or none; the same bits", label);
    int steps = 0;
    bool sound = zt_session_parts(session) == parts;
    for (int i = 0; i < zt_session_parts(session); i++) {
        zt_session_part part = zt_session_part_at(session, i);
        sound = sound && part.engine && part.schedule->arena_bytes >= part.liveness_bytes &&
                part.schedule->n_values == zt_prog_n_values(program);
        steps += part.schedule->n_steps;
    }
    ok(sound && steps == zt_prog_n_steps(program), "%s: %d parts with all steps", label, parts);
    zt_session_close(session);
    zt_prog_free(program);
}

/* ---- fallbacks ------------------------------------------------------------------------------- */

static void no_trace(void *user, const zt_run_schedule *plan, int step, double seconds)
{
    (void)user, (void)plan, (void)step, (void)seconds;
}

static void test_fallback(void)
{
    zt_engine *engine = open_engine("cpu");
    zt_engine_vt lame = *(whole = engine->vt);
    float want[N * W];
    zt_engine *ref = open_engine("ref");
    run_cache(ref, (int[]){5}, want);
    lame.has = has_but_one;
    engine->vt = &lame;
    lacking = ZT_OP_silu;
    test_chain(engine, "cpu without silu", 1);
    test_look(engine, "cpu without silu", 3);
    lacking = ZT_OP_mul;
    test_chain(engine, "cpu without mul", 2);
    lacking = ZT_OP_kv_put;
    test_cache(engine, "cpu without kv_put", want);
    lacking = ZT_OP_attention;
    test_cache(engine, "cpu without attention", want);
    zt_prog *program = parse(cache_text);
    zt_engine *traced = zt_engine_trace(engine, no_trace, NULL);
    for (int i = 0; i < 2; i++) {
        zt_session *session =
            zt_session_open(i ? traced : engine, program, NULL,
                            &(zt_session_opts){.strict = true, .fixed = &(zt_binding){"ctx", 64}, .n_fixed = 1});
        ok(zt_session_prepare(session, &(zt_binding){"n", 1}, 1, NULL) == ZT_ENOTSUP, "strict refuses");
        said("engine cpu has no kernel for op attention");
        zt_session_close(session);
    }
    zt_prog_free(program);
    zt_engine_close(traced);
    zt_engine_close(ref);
}

/* ---- weights --------------------------------------------------------------------------------- */

static float weight[3 * W];
static zt_status find_weight(void *user, const char *name, zt_type *type, int64_t *handle)
{
    (void)user;
    *handle = 0;
    *type = zt_type_make(ZT_F32, 2, (int64_t[]){3, W});
    return strcmp(name, "w") ? ZT_ENOENT : ZT_OK;
}
static zt_status read_weight(void *user, int64_t handle, size_t offset, void *dst, size_t n)
{
    (void)user, (void)handle;
    memcpy(dst, (char *)weight + offset, n);
    return ZT_OK;
}

static void test_weights(zt_engine *engine)
{
    static const zt_store store = {NULL, find_weight, read_weight};
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"zt program 1\nin    x: f32[n,32]\ndata  w: f32[3,32] \"v\"\ny = linear x w\nout   y = y\n", "missing tensor 'v'"},
        {"zt program 1\nin    x: f32[n,32]\ndata  w: f16[3,32] \"w\"\ny = linear x w\nout   y = y\n",
         "tensor 'w' has type f32[3,32], but the program expects f16[3,32]"},
    };
    float x[N * W], y[N * 3], w[3 * W];
    zt_prog *program = parse("zt program 1\nin    x: f32[n,32]\ndata  w: f32[3,32] \"w\"\ny = linear x w\n"
                             "out   y = y\nout   w = w\n");
    zt_session *session = zt_session_open(engine, program, &store, NULL);
    fill(x, N * W, 4);
    fill(weight, 3 * W, 5);
    ok(zt_session_step(session, &(zt_binding){"n", N}, 1, (const void *[]){x}, (void *[]){y, w}) == ZT_OK,
       "a weight is loaded (%s)", zt_ctx_error(ctx));
    double dot = 0;
    for (int k = 0; k < W; k++) dot += (double)x[W + k] * weight[2 * W + k];
    ok(dot - y[3 + 2] < 1e-5 && y[3 + 2] - dot < 1e-5, "and multiplied");
    ok(memcmp(w, weight, sizeof w) == 0, "a weight as an output");
    zt_session_close(session);
    zt_prog_free(program);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        program = parse(bad[i].text);
        session = zt_session_open(engine, program, &store, NULL);
        ok(zt_session_prepare(session, &(zt_binding){"n", 1}, 1, NULL) == ZT_EDATA, "a bad weight is refused");
        said(bad[i].says);
        zt_session_close(session);
        zt_prog_free(program);
    }
}

/* ---- every allocation fails once ------------------------------------------------------------- */

static zt_status everything(zt_engine *engine)
{
    float x[N * W], y[N * W];
    int32_t pos[N] = {0, 1, 2, 3, 4};
    fill(x, N * W, 3);
    zt_prog *program = parse(cache_text);
    zt_session_opts o = {.fixed = &(zt_binding){"ctx", 64}, .n_fixed = 1};
    zt_session *session = program ? zt_session_open(engine, program, NULL, &o) : NULL;
    if (session) zt_session_step(session, &(zt_binding){"n", N}, 1, (const void *[]){x, pos}, (void *[]){y});
    zt_session_close(session);
    zt_prog_free(program);
    return zt_ctx_status(ctx);
}

int main(void)
{
    ctx = zt_ctx_new();
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "cpu" : "ref";
        float want[N * W];
        zt_engine *engine = open_engine(name), *ref = open_engine("ref");
        test_chain(engine, name, 0);
        test_look(engine, name, 1);
        test_empty(engine);
        test_keeps(engine, name);
        test_placed(engine, ref, name);
        run_cache(ref, (int[]){5}, want);
        test_cache(engine, name, want);
        test_weights(engine);
        zt_engine_close(engine);
        zt_engine_close(ref);
    }
    test_fallback();
    ok(zt_mem_get(ctx).blocks == 0, "nothing left (%zu blocks)", zt_mem_get(ctx).blocks);
    every_allocation("ref", everything);
    every_allocation("cpu", everything);
    ok(zt_mem_get(ctx).blocks == 0, "nothing left (%zu blocks)", zt_mem_get(ctx).blocks);
    zt_ctx_free(ctx);
    return tap_done();
}
