/* autograd.c - gradients of eager ops: marks, backward, accumulation, pauses, gradients of
 * gradients; views, tensors written over, tensors freed, scopes; what is refused. */
#include "lib/run/run.h"
#include "tests/common/tap.h"

#include <math.h>
#include <string.h>

static zt_ctx *ctx;
static zt_run *run;

/* ---- help ------------------------------------------------------------------------------------ */

static zt_tensor *row(int n, const float *x)
{
    zt_type t = zt_type_make(ZT_F32, 1, (int64_t[]){n});
    zt_tensor *y = zt_tensor_new(ctx, &t);
    if (y) memcpy(zt_tensor_data(y), x, (size_t)n * sizeof *x);
    return y;
}

#define ROW(...) row((int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

static zt_tensor *leaf(zt_tensor *x)
{
    zt_grad_require(run, x, true);
    return x;
}

static bool holds(const zt_tensor *tensor, int count, const float *want)
{
    if (!tensor) {
        diag("no tensor: %s", zt_ctx_error(ctx));
        return false;
    }
    const float *x = zt_tensor_data(tensor);
    for (int i = 0; i < count; i++)
        if (!(fabsf(x[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i])))) {
            diag("[%d] is %g, not %g", i, x[i], want[i]);
            return false;
        }
    return zt_type_count(zt_tensor_type(tensor)) == count;
}

#define HOLDS(t, ...) holds(t, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

static void call_refused(zt_status status, const char *words, const char *what)
{
    bool good = zt_ctx_status(ctx) == status && strstr(zt_ctx_error(ctx), words);
    if (!ok(good, "refused: %s", what)) diag("status %d: %s", (int)zt_ctx_status(ctx), zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
}

/* A fresh recording in a scope; and its end, which forgets marks and tensors. */
static void begin(void)
{
    zt_scope_begin(run);
    zt_record_begin(run);
}

static void end(zt_tensor *a, zt_tensor *b)
{
    zt_tensor *own[] = {a, b};
    zt_prog_free(zt_record_end(run, NULL, 0));
    for (int i = 0; i < 2; i++) {
        if (!own[i]) continue;
        zt_grad_require(run, own[i], false);
        zt_tensor_unref(own[i]);
    }
    zt_scope_end(run);
    zt_ctx_clear(ctx);
}

/* ---- backward -------------------------------------------------------------------------------- */

static void plain(void)
{
    begin();
    zt_tensor *a = leaf(ROW(1, 2, 3)), *b = ROW(4, 5, 6);
    zt_tensor *y = zt_eager_sum(run, zt_eager_mul(run, zt_eager_mul(run, a, a), b), NULL);
    uint64_t muls = zt_run_count(run, ZT_OP_mul);
    ok(zt_backward(run, y, NULL) == ZT_OK && HOLDS(zt_grad_of(run, a), 8, 20, 36), "the gradient of sum a a b in a: %s",
       zt_ctx_error(ctx));
    ok(!zt_grad_of(run, b), "none of what is not marked");
    ok(zt_run_count(run, ZT_OP_mul) - muls <= 4, "nothing forward is computed again");
    ok(zt_record_steps(run) == 3, "backward's ops are not recorded");
    ok(zt_backward(run, y, NULL) == ZT_OK && HOLDS(zt_grad_of(run, a), 16, 40, 72), "a second time adds to it");
    zt_grad_zero(run, a);
    ok(!zt_grad_of(run, a), "zeroed: there is none");
    ok(zt_backward(run, y, NULL) == ZT_OK && HOLDS(zt_grad_of(run, a), 8, 20, 36), "and again one");
    zt_grad_zero(run, NULL);
    ok(!zt_grad_of(run, a) && zt_grad_required(run, a), "all zeroed, the mark stays");
    end(a, b);
}

static void cotangents(void)
{
    begin();
    zt_tensor *a = leaf(ROW(1, 2)), *dy = ROW(10, 100), *y = zt_eager_square(run, a);
    ok(zt_backward(run, y, NULL) == ZT_OK && HOLDS(zt_grad_of(run, a), 2, 4), "from ones");
    zt_grad_zero(run, NULL);
    ok(zt_backward(run, y, &(zt_backward_opts){.dy = dy}) == ZT_OK && HOLDS(zt_grad_of(run, a), 20, 400), "from what is given");
    zt_grad_zero(run, NULL);
    zt_tensor *z = zt_eager_reshape(run, a, &(zt_reshape_attrs){{2, {1, 2}}});
    zt_tensor *dz = zt_eager_reshape(run, dy, &(zt_reshape_attrs){{2, {1, 2}}});
    zt_backward(run, z, &(zt_backward_opts){.dy = dz});
    zt_tensor *g = zt_grad_of(run, a);
    ok(HOLDS(g, 10, 100) && zt_tensor_data(g) != zt_tensor_data(dy), "a gradient is a tensor of its own, not the cotangent");
    zt_grad_zero(run, NULL);
    zt_tensor *b = leaf(ROW(7, 7));
    zt_backward(run, zt_eager_add(run, a, b), NULL);
    ok(zt_grad_of(run, a) && zt_grad_of(run, b) && zt_tensor_data(zt_grad_of(run, a)) != zt_tensor_data(zt_grad_of(run, b)),
       "and two leaves do not share one");
    ok(zt_backward(run, y, &(zt_backward_opts){.dy = dz}) == ZT_ESHAPE, "a cotangent must fit");
    call_refused(ZT_ESHAPE, "the cotangent has type f32[1,2], but the tensor has type f32[2]", "another shape");
    zt_tensor_unref(dy);
    end(a, b);
}

/* (x^3)' = 3 x^2, '' = 6 x, ''' = 6; and the penalty |grad|^2. */
static void test_twice(void)
{
    const zt_backward_opts again = {.record = true};
    begin();
    zt_tensor *x = leaf(ROW(2, -1));
    zt_tensor *y = zt_eager_sum(run, zt_eager_mul(run, zt_eager_mul(run, x, x), x), NULL);
    bool good = zt_backward(run, y, &again) == ZT_OK && HOLDS(zt_grad_of(run, x), 12, 3);
    zt_tensor *d1 = zt_tensor_ref(zt_grad_of(run, x));
    zt_grad_zero(run, x);
    good = good && zt_backward(run, zt_eager_sum(run, d1, NULL), &again) == ZT_OK && HOLDS(zt_grad_of(run, x), 12, -6);
    zt_tensor *d2 = zt_tensor_ref(zt_grad_of(run, x));
    zt_grad_zero(run, x);
    good = good && zt_backward(run, zt_eager_sum(run, d2, NULL), NULL) == ZT_OK && HOLDS(zt_grad_of(run, x), 6, 6);
    ok(good, "gradients of gradients: %s", zt_ctx_error(ctx));
    zt_grad_zero(run, x);
    zt_backward(run, zt_eager_sum(run, zt_eager_square(run, d1), NULL), NULL);
    ok(HOLDS(zt_grad_of(run, x), 288, -36), "a loss with a gradient in it");
    zt_tensor_unref(d1);
    zt_tensor_unref(d2);
    end(x, NULL);
}

static void pauses(void)
{
    begin();
    zt_tensor *x = leaf(ROW(3));
    zt_record_pause(run);
    zt_record_pause(run);
    zt_tensor *c = zt_eager_square(run, x);
    zt_record_resume(run);
    zt_tensor *c2 = zt_eager_square(run, x);
    zt_record_resume(run);
    zt_tensor *y = zt_eager_mul(run, x, zt_eager_add(run, c, c2));
    ok(zt_record_steps(run) == 2, "what runs in a pause is not recorded, and pauses nest");
    zt_backward(run, y, NULL);
    ok(HOLDS(zt_grad_of(run, x), 18), "and is a constant");
    zt_grad_zero(run, NULL);
    zt_backward(run, zt_eager_mul(run, x, zt_detach(run, zt_eager_square(run, x))), NULL);
    ok(HOLDS(zt_grad_of(run, x), 9), "so is what is detached");
    zt_grad_zero(run, NULL);
    zt_tensor *h = zt_eager_square(run, x);
    zt_grad_require(run, h, true);
    zt_backward(run, zt_eager_square(run, h), NULL);
    ok(HOLDS(zt_grad_of(run, h), 18) && HOLDS(zt_grad_of(run, x), 108), "a mark on what an op made");
    zt_grad_require(run, h, false);
    ok(!zt_grad_of(run, h) && !zt_grad_required(run, h), "a mark is taken away with its gradient");
    end(x, NULL);
}

/* ---- tensors come and go --------------------------------------------------------------------- */

static void lives(void)
{
    begin();
    zt_tensor *x = leaf(ROW(1, 2)), *w = ROW(5, 7);
    zt_scope_begin(run);
    zt_tensor *y = zt_tensor_ref(zt_eager_sum(run, zt_eager_mul(run, zt_eager_square(run, x), w), NULL));
    zt_scope_end(run);
    zt_tensor_unref(w);
    zt_scope_begin(run);
    for (int i = 0; i < 20; i++) zt_eager_exp(run, x); /* what was freed would be taken by these */
    ok(zt_backward(run, y, NULL) == ZT_OK && HOLDS(zt_grad_of(run, x), 10, 28), "tensors freed and a scope ended since: %s",
       zt_ctx_error(ctx));
    zt_scope_end(run);
    ok(HOLDS(zt_grad_of(run, x), 10, 28), "a gradient outlives the scope of its backward");
    zt_tensor_unref(y);
    end(x, NULL);
}

static void views(void)
{
    begin();
    zt_tensor *x = leaf(ROW(1, 2, 3, 4));
    zt_tensor *m = zt_eager_reshape(run, x, &(zt_reshape_attrs){{2, {2, 2}}});
    zt_tensor *s = zt_eager_slice(run, m, &(zt_slice_attrs){.axis = 0, .from = 1, .to = 2});
    zt_backward(run, zt_eager_square(run, s), NULL);
    ok(HOLDS(zt_grad_of(run, x), 0, 0, 6, 8), "through views and slices");
    end(x, NULL);
}

static void written_over(void)
{
    begin();
    zt_tensor *x = leaf(ROW(1, 2)), *h = zt_eager_exp(run, x);
    zt_tensor *y = zt_eager_mul(run, h, h);
    zt_run_into(run, h);
    zt_tensor *h2 = zt_eager_add(run, h, x);
    ok(h2 == h && zt_backward(run, y, NULL) == ZT_OK && HOLDS(zt_grad_of(run, x), 2 * expf(2), 2 * expf(4)),
       "a value written over is computed again: %s", zt_ctx_error(ctx));
    zt_grad_zero(run, NULL);
    zt_backward(run, h, NULL);
    ok(HOLDS(zt_grad_of(run, x), expf(1) + 1, expf(2) + 1), "and the tensor has its new history");
    end(x, NULL);

    begin();
    zt_tensor *a = ROW(1, 2);
    x = leaf(ROW(3, 4));
    y = zt_eager_mul(run, a, x);
    zt_run_into(run, a);
    zt_eager_add(run, a, x);
    ok(zt_backward(run, y, NULL) == ZT_EUSAGE && !zt_grad_of(run, x), "an input written over");
    call_refused(ZT_EUSAGE, "op mul needs 'in0', which was overwritten", "it cannot be computed again");
    zt_tensor *v = zt_eager_reshape(run, a, &(zt_reshape_attrs){{2, {1, 2}}});
    zt_run_into(run, a);
    zt_eager_add(run, a, x);
    ok(!zt_eager_exp(run, v), "a view of what was written over");
    call_refused(ZT_EUSAGE, "f32[1,2] is used after an op overwrote it", "its recorded value is gone");
    end(x, a);
}

/* An optimiser's step between two backwards of one recording. */
static void steps(void)
{
    begin();
    zt_tensor *w = leaf(ROW(4));
    float want = 4;
    bool good = true;
    for (int i = 0; i < 3; i++) {
        zt_scope_begin(run);
        zt_tensor *loss = zt_eager_square(run, w);
        good = good && zt_backward(run, loss, NULL) == ZT_OK;
        good = good && HOLDS(zt_grad_of(run, w), 2 * want);
        zt_record_pause(run);
        zt_tensor *d = zt_eager_scale(run, zt_grad_of(run, w), &(zt_scale_attrs){.by = 0.25});
        zt_run_into(run, w);
        zt_eager_sub(run, w, d);
        zt_record_resume(run);
        if (i == 1) zt_record_clear(run);
        if (i == 0) {
            good = good && zt_backward(run, loss, NULL) == ZT_EUSAGE;
            call_refused(ZT_EUSAGE, "the marked tensor f32[1] was overwritten", "backward of a loss before the step");
        }
        zt_grad_zero(run, NULL);
        zt_scope_end(run);
        want /= 2;
    }
    ok(good && HOLDS(w, 0.5), "three steps of descent: %s", zt_ctx_error(ctx));
    end(w, NULL);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refusals(void)
{
    zt_tensor *x = ROW(1, 2), *y = ROW(3, 4);
    zt_type ti = zt_type_make(ZT_I32, 1, (int64_t[]){3});
    zt_tensor *ints = zt_tensor_new(ctx, &ti);
    zt_backward(run, x, NULL);
    call_refused(ZT_EUSAGE, "recording has not started", "backward without a recording");
    zt_record_clear(run);
    call_refused(ZT_EUSAGE, "recording has not started", "nothing to clear");
    ok(zt_record_steps(run) == -1, "no recording, no steps");
    zt_grad_require(run, ints, true);
    call_refused(ZT_EUSAGE, "tensor i32[3] cannot have a gradient", "a mark on integers");
    begin();
    zt_backward(run, x, NULL);
    call_refused(ZT_EUSAGE, "f32[2] was not recorded", "a tensor that nobody recorded");
    zt_tensor *s = zt_eager_add(run, x, y);
    zt_backward(run, s, NULL);
    call_refused(ZT_EUSAGE, "does not depend on any tensor marked", "nothing is marked");
    leaf(x);
    zt_tensor *i = zt_eager_argmax(run, x, NULL);
    zt_backward(run, i, NULL);
    call_refused(ZT_EUSAGE, "i32[] is not of a plain float type", "an integer tensor");
    zt_backward(run, NULL, NULL);
    call_refused(ZT_EUSAGE, "no tensor to start from", "no tensor");
    zt_run_fail(run, 1, false);
    ok(zt_backward(run, zt_eager_square(run, x), NULL), "a fault point before backward");
    zt_ctx_clear(ctx);
    zt_tensor *q = zt_eager_square(run, x);
    zt_run_fail(run, 1, false);
    ok(zt_backward(run, q, NULL) && !zt_grad_of(run, x), "and in it: no gradient has changed");
    call_refused(ZT_ENOMEM, "injected failure", "a fault in backward");
    ok(zt_backward(run, q, NULL) == ZT_OK && HOLDS(zt_grad_of(run, x), 2, 4), "then it goes well");
    zt_tensor_unref(ints);
    end(x, y);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static zt_status everything(zt_engine *e)
{
    run = zt_run_new(e, false);
    if (!run) return zt_ctx_status(ctx);
    zt_tensor *x = ROW(1, 2), *w = ROW(3, 4);
    zt_scope_begin(run);
    if (x && w && !zt_grad_require(run, x, true) && !zt_grad_require(run, w, true) && !zt_record_begin(run)) {
        zt_tensor *y = zt_eager_swiglu(run, zt_eager_mul(run, x, w), x);
        if (y && !zt_backward(run, y, &(zt_backward_opts){.record = true})) zt_backward(run, zt_grad_of(run, x), NULL);
        zt_detach(run, y);
        zt_record_clear(run);
    }
    zt_scope_end(run);
    zt_tensor_unref(x);
    zt_tensor_unref(w);
    zt_run_free(run);
    return zt_ctx_status(ctx);
}

static void allocations(const char *engine)
{
    zt_status st = ZT_ENOMEM;
    bool told = true, freed = true;
    int count = 0;
    for (; st && count < 5000; count++) {
        zt_engine *e = zt_engine_open(ctx, engine, &(zt_engine_opts){.threads = 1});
        size_t before = zt_mem_get(ctx).blocks;
        zt_mem_fail(ctx, (uint64_t)count + 1, false);
        st = everything(e);
        zt_mem_fail(ctx, 0, false);
        told = told && (st == ZT_OK || st == ZT_ENOMEM);
        zt_ctx_clear(ctx);
        freed = freed && zt_mem_get(ctx).blocks <= before + 1; /* the engine's own memory */
        zt_engine_close(e);
        freed = freed && zt_mem_get(ctx).blocks == 0;
    }
    ok(st == ZT_OK && count > 100 && told && freed, "%s: each of %d allocations fails cleanly", engine, count - 1);
}

int main(void)
{
    ctx = zt_ctx_new();
    static const char *const engine[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        zt_engine *e = zt_engine_open(ctx, engine[i], &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
        run = zt_run_new(e, false);
        diag("%s", engine[i]);
        plain();
        cotangents();
        test_twice();
        pauses();
        lives();
        views();
        written_over();
        steps();
        refusals();
        zt_run_free(run);
        zt_engine_close(e);
        ok(zt_mem_get(ctx).blocks == 0, "nothing is left");
        allocations(engine[i]);
    }
    zt_ctx_free(ctx);
    return tap_done();
}
