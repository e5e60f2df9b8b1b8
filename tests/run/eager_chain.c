/* eager_chain.c - lib/run's door for a chain of ops: values, destinations, what is refused, fault points;
 * the chain recorded, and replayed to the same values; every allocation failing.
 */
#include "tests/common/chain_program.h"

/* ---- the door -------------------------------------------------------------------------------- */

static void test_fault_points(zt_run *runner, zt_tensor *a, zt_tensor *b, zt_tensor *dst, const char *label)
{
    zt_run_fault(runner, &(zt_fault){.at = ZT_FAULT_KERNEL, .nth = 2, .op = "mul"});
    ok(zt_eager_add(runner, a, b) && zt_eager_mul(runner, a, b) && zt_eager_add(runner, a, b) && !zt_eager_mul(runner, a, b),
       "%s: a fault point by op: its second", label);
    said("op mul: injected failure");
    zt_run_fault(runner, &(zt_fault){.at = ZT_FAULT_OUTPUT, .nth = 1, .onwards = true, .dst = dst});
    ok(zt_eager_add(runner, a, b) != NULL, "%s: by tensor: a write to another goes well", label);
    for (int i = 0; i < 2; i++) {
        zt_run_into(runner, dst);
        ok(!zt_eager_add(runner, a, b), "%s: a write to it fails, from then on", label);
        said("op add: injected failure");
    }
    zt_run_fault(runner, &(zt_fault){.at = ZT_FAULT_OUTPUT, .nth = 3});
    ok(zt_eager_add(runner, a, b) && zt_eager_add(runner, a, b) && !zt_eager_add(runner, a, b), "%s: the third output", label);
    ok(zt_ctx_status(ctx) == ZT_ESYS, "%s: is the system's failure", label);
    said("op add: injected failure");
    zt_run_fault(runner, &(zt_fault){.at = ZT_FAULT_ALLOC, .nth = 1});
    ok(!zt_eager_add(runner, a, b) && zt_ctx_status(ctx) == ZT_ENOMEM, "%s: an output's allocation", label);
    said("op add: injected failure");
    zt_run_fault(runner, NULL);
    ok(zt_eager_add(runner, a, b) != NULL, "%s: no fault point", label);
}

static void test_door(zt_engine *engine, const char *label)
{
    float want[N * W];
    zt_tensor *a = tensor(1), *b = tensor(2), *wrong = NULL;
    zt_run *runner = zt_run_new(engine, false);
    chain_by_hand(zt_tensor_data(a), zt_tensor_data(b), want);
    zt_scope_begin(runner);
    zt_tensor *y = chain_eager(runner, a, b);
    ok(y && close_to(zt_tensor_data(y), want, N * W), "%s: eager ops (%s)", label, zt_ctx_error(ctx));
    ok(zt_run_count(runner, ZT_OP_mul) == 2, "%s: counted", label);
    zt_tensor *dst = tensor(9);
    zt_run_into(runner, dst);
    ok(zt_eager_add(runner, a, b) == dst, "%s: dst is used", label);
    zt_run_into(runner, a);
    ok(zt_eager_add(runner, a, b) == a, "%s: in place", label);
    ok(close_to(zt_tensor_data(a), zt_tensor_data(dst), N * W), "%s: in place, same values", label);
    zt_run_into(runner, b);
    ok(!zt_eager_argmax(runner, a, NULL), "%s: a dst of another type is refused", label);
    said("op argmax: dst has type f32[5,32], but the output has type i32[5]");
    zt_type t3 = zt_type_make(ZT_F32, 2, (int64_t[]){N, W - 1});
    wrong = zt_tensor_new(ctx, &t3);
    ok(!zt_eager_mul(runner, a, wrong) && zt_ctx_status(ctx) == ZT_ESHAPE, "%s: shapes are checked", label);
    ok(!chain_eager(runner, a, b), "%s: after a failure ops return NULL", label);
    said("mul");
    ok(!zt_eager_add(runner, a, NULL) && zt_ctx_status(ctx) == ZT_EUSAGE, "%s: NULL gives NULL", label);
    said("missing input b");
    zt_run_fail(runner, 2, false);
    ok(!chain_eager(runner, a, b), "%s: a fault point", label);
    said("op mul: injected failure");
    ok(chain_eager(runner, a, b) != NULL, "%s: once", label);
    test_fault_points(runner, a, b, dst, label);
    zt_scope_end(runner);
    zt_tensor_unref(a);
    zt_tensor_unref(b);
    zt_tensor_unref(dst);
    zt_tensor_unref(wrong);
    zt_run_free(runner);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* ref rounds only what leaves it, so there eager ops and a program differ by roundings. */
static void test_record(zt_engine *engine, bool exact)
{
    zt_tensor *a = tensor(1), *b = tensor(2);
    zt_run *runner = zt_run_new(engine, false);
    zt_record_begin(runner);
    zt_tensor *y = chain_eager(runner, a, b);
    zt_type tp = zt_type_make(ZT_I32, 1, (int64_t[]){N});
    int32_t pos[N] = {4, 3, 2, 1, 0};
    zt_tensor *p = zt_tensor_wrap(ctx, &tp, pos, NULL, NULL), *cache = tensor(3);
    zt_tensor *c1 = zt_eager_kv_put(runner, cache, y, p, NULL, NULL);
    zt_tensor *c2 = zt_eager_kv_put(runner, c1, a, p, NULL, NULL);
    float was[N * W];
    fill(was, N * W, 3);
    ok(memcmp(zt_tensor_data(cache), was, sizeof was) == 0, "an eager tensor does not change");
    zt_prog *prog = zt_record_end(runner, (zt_tensor *[]){y, c1}, 2);
    ok(!prog && zt_ctx_status(ctx), "an output that was used up cannot be recorded");
    zt_ctx_clear(ctx);
    zt_record_begin(runner);
    y = chain_eager(runner, a, b);
    c1 = zt_eager_kv_put(runner, cache, y, p, NULL, NULL);
    prog = zt_record_end(runner, (zt_tensor *[]){y, c1}, 2);
    ok(prog != NULL, "a recording (%s)", zt_ctx_error(ctx));
    zt_str text;
    zt_str_init(&text, ctx);
    zt_prog_print(prog, &text);
    ok(text.data && strstr(text.data, "state s0: f32[5,32]") && strstr(text.data, "keep  s0 = "),
       "what was used up is a state, and kept");
    zt_session *session = zt_session_open(engine, prog, NULL, NULL);
    float y2[N * W], c3[N * W];
    zt_session_state_set(session, 0, zt_tensor_data(cache));
    ok(zt_session_step(session, NULL, 0, (const void *[]){zt_tensor_data(a), zt_tensor_data(b), pos}, (void *[]){y2, c3}) ==
           ZT_OK,
       "replays (%s)", zt_ctx_error(ctx));
    if (exact)
        ok(memcmp(y2, zt_tensor_data(y), sizeof y2) == 0 && memcmp(c3, zt_tensor_data(c1), sizeof c3) == 0, "to the same bits");
    else
        ok(close_to(y2, zt_tensor_data(y), N * W) && close_to(c3, zt_tensor_data(c1), N * W), "to the same values");
    (void)c2;
    zt_session_close(session);
    zt_prog_free(prog);
    zt_str_fini(&text);
    zt_tensor_unref(a);
    zt_tensor_unref(b);
    zt_tensor_unref(p);
    zt_tensor_unref(cache);
    zt_run_free(runner);
}

static zt_status everything(zt_engine *engine)
{
    zt_run *runner = zt_run_new(engine, false);
    if (runner) {
        zt_tensor *a = tensor(1), *b = tensor(2), *out = NULL;
        zt_record_begin(runner);
        if (a && b) out = chain_eager(runner, a, b);
        zt_prog *other_program = out ? zt_record_end(runner, &out, 1) : NULL;
        zt_prog_free(other_program);
        zt_tensor_unref(a);
        zt_tensor_unref(b);
    }
    zt_run_free(runner);
    return zt_ctx_status(ctx);
}

int main(void)
{
    ctx = zt_ctx_new();
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "cpu" : "ref";
        zt_engine *engine = open_engine(name);
        test_door(engine, name);
        test_record(engine, i == 1);
        zt_engine_close(engine);
    }
    every_allocation("ref", everything);
    every_allocation("cpu", everything);
    ok(zt_mem_get(ctx).blocks == 0, "nothing left (%zu blocks)", zt_mem_get(ctx).blocks);
    zt_ctx_free(ctx);
    return tap_done();
}
