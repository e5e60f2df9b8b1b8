/* vulkan_programs.c - the operations that a library of tensors on a GPU has, each as a program that the engine
 * on Vulkan runs alone, without a fallback: the same numbers as on ref. What others leave out is among them:
 * the gradients of a convolution by its input and its filter, and of max pooling. Then a training loop of eager
 * ops whose tape stays on the device. Skipped, aloud, where there is no adapter. */
#include "lib/run/bind_inputs.h"
#include "lib/run/diff.h"
#include "tests/engine/device.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Steps and inputs; with wrt the gradients of output y by these values too, with a cotangent that is drawn. */
typedef struct operation {
    const char *name, *text, *wrt[3];
} operation;

#define PAIR  "in a: f32[4,5]\nin b: f32[4,5]\n"
#define LINE  "in x: f32[4,70]\n"
#define WHOLE "in f: f32[4,5]\nin g: f32[4,5]\na = cast f to=i32\nb = cast g to=i32\n"
#define BOOLS "in f: f32[4,5]\nin g: f32[4,5]\nn = neg f\na = lt f g\nb = lt g n\n"
#define PLUS  "in r: f32[4,70]\ns = square r\nx = add_scalar s by=0.5\n"
#define IMAGE "in x: f32[2,3,9,9]\n"

static const operation operations[] = {
    {"add", PAIR "y = add a b", {"a", "b"}},
    {"add of integers", WHOLE "y = add a b", {NULL}},
    {"add, broadcast", "in a: f32[4,5]\nin b: f32[5]\ny = add a b", {"a", "b"}},
    {"add a scalar", LINE "y = add_scalar x by=1.5", {"x"}},
    {"and", BOOLS "y = logical_and a b", {NULL}},
    {"argmax", LINE "y = argmax x", {NULL}},
    {"argmax of the first axis", LINE "y = argmax x axis=0", {NULL}},
    {"batched matrix product", "in a: f32[3,4,6]\nin b: f32[3,6,5]\ny = matmul a b", {"a", "b"}},
    {"batched matrix product of rank 4", "in a: f32[2,3,4,6]\nin b: f32[2,3,6,5]\ny = matmul a b", {"a", "b"}},
    {"cast to i32", LINE "s = scale x by=100\ny = cast s to=i32", {NULL}},
    {"cast to f32", WHOLE "y = cast a to=f32", {NULL}},
    {"concatenation", PAIR "y = concat a b axis=1", {"a", "b"}},
    {"chunks", LINE "p = slice x axis=1 from=0 to=35\nq = slice x axis=1 from=35 to=70\ny = mul p q", {"x"}},
    {"convolution", IMAGE "in w: f32[4,3,3,3]\ny = conv x w stride=[2,2] pad=[1,1]", {NULL}},
    {"gradient of a convolution by its input", IMAGE "in w: f32[4,3,3,3]\ny = conv x w stride=[1,1] pad=[1,1]", {"x"}},
    {"gradient of a convolution by its filter", IMAGE "in w: f32[4,3,3,3]\ny = conv x w stride=[1,1] pad=[1,1]", {"w"}},
    {"cos", LINE "y = cos x", {"x"}},
    {"div", "in a: f32[4,70]\n" PLUS "y = div a x", {"a", "x"}},
    {"div of integers", WHOLE "c = mul b b\none = fill_like b value=1\nd = add c one\ny = div a d", {NULL}},
    {"div by a scalar", LINE "y = scale x by=0.125", {"x"}},
    {"embedding", "in w: f32[7,16]\nin i: i32[2,5]\ny = gather w i", {"w"}},
    {"equal", WHOLE "y = eq a b", {NULL}},
    {"exp", LINE "y = exp x", {"x"}},
    {"expand", "in x: f32[3,1,5]\ny = broadcast_to x shape=[2,3,4,5]", {"x"}},
    {"expand of rank 8", "in x: f32[1,2,1,2,1,2,1,3]\ny = broadcast_to x shape=[2,2,2,2,2,2,2,3]", {NULL}},
    {"flash attention",
     "in q: f32[1,70,2,64]\nin k: f32[1,70,2,64]\nin v: f32[1,70,2,64]\n"
     "y, l = sdpa q k v causal=1 layout=bshd",
     {"q", "k", "v"}},
    {"flash attention of long keys",
     "in q: f32[1,9,2,128]\nin k: f32[1,150,2,128]\nin v: f32[1,150,2,128]\n"
     "y, l = sdpa q k v layout=bshd",
     {NULL}},
    {"gather", "in x: f32[6,5]\nin i: i32[4,5]\ny = gather_elements x i axis=0", {"x"}},
    {"greater", PAIR "y = gt a b", {NULL}},
    {"greater or equal", PAIR "y = ge a b", {NULL}},
    {"log", PLUS "y = log x", {"x"}},
    {"lower", PAIR "y = lt a b", {NULL}},
    {"lower or equal", PAIR "y = le a b", {NULL}},
    {"matrix product", "in a: f32[33,40]\nin b: f32[40,17]\ny = matmul a b", {"a", "b"}},
    {"max pooling", IMAGE "y, i = max_pool x kernel=[3,3] stride=[2,2]", {NULL}},
    {"gradient of max pooling", IMAGE "y, i = max_pool x kernel=[3,3] stride=[2,2]", {"x"}},
    {"mean of an axis", LINE "y = mean x axes=[1] keepdims=1", {"x"}},
    {"mul", PAIR "y = mul a b", {"a", "b"}},
    {"mul by a scalar", LINE "y = scale x by=3", {"x"}},
    {"not", BOOLS "y = logical_not a", {NULL}},
    {"not equal", WHOLE "y = ne a b", {NULL}},
    {"ones", LINE "y = fill_like x value=1", {NULL}},
    {"or", BOOLS "y = logical_or a b", {NULL}},
    {"random numbers", "in c: i64[]\ny = random_uniform c shape=[4,70] seed=5", {NULL}},
    {"relu", LINE "y = relu x", {"x"}},
    {"reshape", LINE "y = reshape x shape=[7,40]", {"x"}},
    {"rsqrt", PLUS "y = rsqrt x", {"x"}},
    {"sigmoid", LINE "y = sigmoid x", {"x"}},
    {"sin", LINE "y = sin x", {"x"}},
    {"softmax", LINE "y = softmax x", {"x"}},
    {"softmax of the first axis", LINE "y = softmax x axis=0", {"x"}},
    {"sqrt", PLUS "y = sqrt x", {"x"}},
    {"squeeze", "in x: f32[4,1,5]\ns = neg x\ny = reshape s shape=[4,5]", {"x"}},
    {"sub", PAIR "y = sub a b", {"a", "b"}},
    {"sub a scalar", LINE "y = add_scalar x by=-1.5", {"x"}},
    {"sum", LINE "y = sum x", {"x"}},
    {"sum of an axis", LINE "y = sum x axes=[0]", {"x"}},
    {"tanh", LINE "y = tanh x", {"x"}},
    {"transpose", "in x: f32[40,33]\ny = transpose x axes=[1,0]", {"x"}},
    {"transpose of rank 6", "in x: f32[2,3,2,3,2,3]\ny = transpose x axes=[5,1,3,0,4,2]", {"x"}},
    {"unsqueeze", LINE "s = neg x\ny = reshape s shape=[4,1,70]", {"x"}},
    {"where", PAIR "c = lt a b\ny = where c a b", {"a", "b"}},
    {"zeros", LINE "y = fill_like x value=0", {NULL}},
};

static zt_prog *parse_operation(zt_ctx *ctx, const operation *one)
{
    char text[1024];
    int wrt[3], count = 0;
    int length = snprintf(text, sizeof text, "zt program 1\n%s\nout y = y\n", one->text);
    zt_prog *program = zt_prog_parse(ctx, one->name, text, (size_t)length);
    while (program && count < 3 && one->wrt[count]) {
        wrt[count] = zt_prog_find(program, one->wrt[count]);
        count++;
    }
    if (!program || !count) return program;
    zt_prog *gradient = zt_prog_grad(ctx, program, wrt, count, &(zt_grad_opts){.seeds = true});
    zt_prog_free(program);
    return gradient;
}

/* Its outputs on an engine, which is to have a kernel for every step. */
static bool run_on(zt_engine *engine, const zt_prog *program, const zt_bound_inputs *inputs)
{
    zt_session *session = zt_session_open(engine, program, &inputs->store, &(zt_session_opts){.strict = true});
    bool good = session && zt_session_step(session, NULL, 0, (const void *const *)inputs->in, inputs->out) == ZT_OK;
    zt_session_close(session);
    return good;
}

static bool is_same(const zt_prog *program, const zt_bound_inputs *got, const zt_bound_inputs *want)
{
    bool same = true;
    for (int i = 0; i < zt_prog_n_outputs(program) && same; i++) {
        const zt_output *output = zt_prog_output(program, i);
        zt_difference difference;
        zt_compare(&want->bound->type[output->value], got->out[i], want->out[i], &difference);
        same = zt_difference_share(&difference, 1e-10) <= 1;
        if (!same) diag("%s: element %" PRId64 " is %g, not %g", output->name, difference.worst, difference.got, difference.want);
    }
    return same;
}

static void test_operation(zt_ctx *ctx, zt_engine *engine, zt_engine *ref, const operation *one)
{
    const zt_bound_inputs_opts opts = {.counts = true, .draw = true, .seed = 3};
    zt_prog *program = parse_operation(ctx, one);
    zt_bound_inputs *got = program ? zt_bound_inputs_new(ctx, program, &opts) : NULL;
    zt_bound_inputs *want = got ? zt_bound_inputs_new(ctx, program, &opts) : NULL;
    bool good = want && run_on(ref, program, want) && run_on(engine, program, got) && is_same(program, got, want);
    ok(good, "%s%s%s%s", one->name, one->wrt[0] ? ", with gradients" : "", good ? "" : ": ", good ? "" : zt_ctx_error(ctx));
    zt_bound_inputs_free(got);
    zt_bound_inputs_free(want);
    zt_prog_free(program);
    zt_ctx_clear(ctx);
}

/* ---- the tape -------------------------------------------------------------------------------- */

enum { ROWS = 8, COLUMNS = 6, CLASSES = 3, STEPS = 5, PARTS = 2 };

static zt_tensor *made(zt_ctx *ctx, int64_t rows, int64_t columns, int seed)
{
    const int64_t dim[] = {rows, columns};
    zt_type type = zt_type_make(ZT_F32, 2, dim);
    zt_tensor *tensor = zt_tensor_new(ctx, &type);
    float *at = zt_tensor_data(tensor);
    for (int64_t i = 0; i < rows * columns; i++) at[i] = sinf((float)(i * 7 + seed));
    return tensor;
}

/* The step's loss: w learns from PARTS batches whose gradients are accumulated. It is away until it is asked for. */
static zt_tensor *learn(zt_run *run, zt_tensor **w, zt_tensor *const *x, zt_tensor *target)
{
    zt_tensor *loss = NULL, *sum = NULL;
    for (int part = 0; part < PARTS; part++) {
        loss = zt_eager_mse(run, zt_eager_linear(run, x[part], *w, NULL, NULL), target, NULL);
        zt_backward(run, loss, NULL);
        sum = sum ? zt_eager_add(run, sum, loss) : loss;
    }
    zt_record_clear(run);
    zt_tensor *step = zt_eager_scale(run, zt_grad_of(run, *w), &(zt_scale_attrs){.by = 0.1});
    zt_tensor *next = zt_tensor_ref(zt_eager_sub(run, *w, step));
    zt_grad_zero(run, NULL);
    zt_grad_require(run, *w, false);
    zt_tensor_unref(*w);
    *w = next;
    zt_grad_require(run, *w, true);
    return zt_tensor_ref(sum);
}

/* Losses of STEPS steps; *submits, *downloads: what all of them took before a loss was asked for. */
static bool run_steps(zt_ctx *ctx, zt_engine *engine, float *losses, uint64_t *submits, uint64_t *downloads)
{
    zt_run *run = zt_run_new(engine, true);
    zt_tensor *x[PARTS] = {made(ctx, ROWS, COLUMNS, 1), made(ctx, ROWS, COLUMNS, 2)}, *target = made(ctx, ROWS, CLASSES, 3);
    zt_tensor *w = made(ctx, CLASSES, COLUMNS, 4), *loss[STEPS] = {0};
    zt_grad_require(run, w, true);
    zt_record_begin(run);
    zt_engine_report before = engine->vt->report(engine);
    for (int step = 0; step < STEPS; step++) {
        zt_scope_begin(run);
        loss[step] = learn(run, &w, x, target);
        zt_scope_end(run);
        zt_run_flush(run);
    }
    zt_engine_report after = engine->vt->report(engine);
    *submits = after.submits - before.submits;
    *downloads = after.downloads - before.downloads;
    for (int step = 0; step < STEPS; step++) losses[step] = loss[step] ? *(float *)zt_tensor_data(loss[step]) : NAN;
    bool good = zt_ctx_status(ctx) == ZT_OK && zt_run_fallbacks(run) == 0;
    if (!good) diag("%" PRIu64 " fallbacks: %s", zt_run_fallbacks(run), zt_ctx_error(ctx));
    zt_run_free(run);
    for (int step = 0; step < STEPS; step++) zt_tensor_unref(loss[step]);
    for (int part = 0; part < PARTS; part++) zt_tensor_unref(x[part]);
    zt_tensor_unref(target);
    zt_tensor_unref(w);
    zt_ctx_clear(ctx);
    return good;
}

static void test_tape(zt_ctx *ctx, zt_engine *engine, zt_engine *cpu)
{
    float got[STEPS] = {0}, want[STEPS] = {0};
    uint64_t submits, downloads, none;
    bool good = run_steps(ctx, cpu, want, &none, &none) && run_steps(ctx, engine, got, &submits, &downloads);
    ok(good, "%d steps of training, op by op, without a fallback", STEPS);
    ok(good && submits == STEPS, "one submit a step: %" PRIu64, good ? submits : 0);
    ok(good && downloads == 0, "and no download before the loss is asked for: %" PRIu64, good ? downloads : 0);
    for (int step = 0; step < STEPS && good; step++) good = fabsf(got[step] - want[step]) <= 1e-5f * want[step];
    ok(good && got[STEPS - 1] < got[0], "the losses of the cpu engine, from %g to %g", (double)got[0], (double)got[STEPS - 1]);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = device_open(ctx, "vulkan");
    if (engine) {
        zt_engine *ref = zt_engine_open(ctx, "ref", NULL),
                  *cpu = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.isa = zt_isa_best()});
        for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) test_operation(ctx, engine, ref, &operations[i]);
        test_tape(ctx, engine, cpu);
        zt_engine_close(ref);
        zt_engine_close(cpu);
    }
    return device_done(ctx, engine);
}
