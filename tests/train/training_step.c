/* training_step.c - a step of training: what is refused, and that its bits are its own: whatever the number
 * of threads, and after its states were taken out and put into another trainer. */
#include "lib/train/train.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, WIDE = 40, DEEP = 24, OUT = 5, STATES = 16, LAST = 60 };

static const char net[] = "zt program 1\n"
                          "in x: f32[n,40]\n"
                          "in y: i32[n]\n"
                          "data w0: f32[24,40] \"first\"\n"
                          "data b0: f32[24] \"first.b\"\n"
                          "data w1: f32[5,24] \"second\"\n"
                          "h = linear x w0 b0\n"
                          "a = tanh h\n"
                          "o = linear a w1\n"
                          "loss, lse = cross_entropy o y\n"
                          "out loss = loss\n"
                          "out o = o\n";

/* ---- weights --------------------------------------------------------------------------------- */

static zt_status find_drawn(void *user, const char *name, zt_type *type, int64_t *handle)
{
    static const struct {
        const char *name;
        int rank;
        int64_t dim[2];
    } all[] = {{"first", 2, {24, 40}}, {"first.b", 1, {24}}, {"second", 2, {5, 24}}};
    zt_dtype dtype = user ? *(zt_dtype *)user : ZT_F32;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].name, name)) {
            *type = zt_type_make(dtype, all[i].rank, all[i].dim);
            *handle = (int64_t)i;
            return ZT_OK;
        }
    return ZT_ENOENT;
}

static zt_status read_drawn(void *user, int64_t handle, size_t offset, void *dst, size_t count)
{
    zt_dtype dtype = user ? *(zt_dtype *)user : ZT_F32;
    size_t size = (size_t)zt_dtype_get(dtype)->block_bytes;
    for (size_t i = 0; i < count / size; i++) {
        float x = (float)(0.1 * zt_normal(7, (uint64_t)handle, offset / size + i));
        zt_dtype_get(dtype)->encode(&x, (char *)dst + i * size, 1);
    }
    return ZT_OK;
}

static const zt_store drawn = {NULL, find_drawn, read_drawn};

/* ---- steps ----------------------------------------------------------------------------------- */

static float x[ROWS * WIDE];
static int32_t y[ROWS];

static void draw_batch(uint64_t number)
{
    for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)zt_normal(number, 0, (uint64_t)i);
    for (int i = 0; i < ROWS; i++) { /* the class is the largest of the first five */
        y[i] = 0;
        for (int k = 1; k < OUT; k++)
            if (x[i * WIDE + k] > x[i * WIDE + y[i]]) y[i] = k;
    }
}

static zt_trainer *open_split(zt_engine *e, const zt_prog *p, const char *method, int64_t parts)
{
    zt_optim o = zt_optim_default(zt_optimizer_named(method));
    const zt_binding n = {"n", ROWS};
    zt_train_opts how = {.optim = &o, .clip = 1, .sample = &n, .n_sample = 1, .accumulate = parts};
    return zt_trainer_open(e, p, &how, &drawn);
}

static zt_trainer *open_net(zt_engine *e, const zt_prog *p, const char *method) { return open_split(e, p, method, 0); }

/* Steps from..to-1; the last loss. */
static double steps(zt_trainer *trainer, double lr, int from, int to)
{
    const zt_binding n = {"n", ROWS};
    const void *in[] = {x, y};
    zt_trained got = {0};
    for (int s = from; s < to; s++) {
        draw_batch((uint64_t)s);
        if (zt_trainer_step(trainer, &n, 1, in, lr, NULL, &got)) return -1;
    }
    return got.loss;
}

typedef struct states {
    char *at[STATES];
    size_t bytes[STATES];
    int n;
} states;

static states take_states(zt_trainer *trainer)
{
    states s = {.n = zt_trainer_n_states(trainer)};
    for (int i = 0; i < s.n; i++) {
        zt_type type = zt_trainer_state_type(trainer, i);
        s.bytes[i] = zt_type_bytes(&type);
        s.at[i] = malloc(s.bytes[i]);
        if (zt_trainer_get(trainer, i, s.at[i])) s.bytes[i] = 0;
    }
    return s;
}

static bool alike(const states *a, const states *b)
{
    bool same = a->n == b->n && a->n > 0;
    for (int i = 0; same && i < a->n; i++) same = a->bytes[i] == b->bytes[i] && !memcmp(a->at[i], b->at[i], a->bytes[i]);
    return same;
}

static void drop(states *s)
{
    for (int i = 0; i < s->n; i++) free(s->at[i]);
}

static void same_bits(zt_ctx *ctx, const zt_prog *program, const char *method)
{
    states all[3];
    double loss[3], lr = 10 * zt_optim_default(zt_optimizer_named(method)).lr;
    for (int k = 0; k < 3; k++) {
        zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = k == 1 ? 3 : 1, .isa = zt_isa_best()});
        zt_trainer *trainer = open_net(engine, program, method);
        loss[k] = steps(trainer, lr, 0, k == 2 ? 7 : LAST);
        if (k == 2) { /* the rest by another one, from its states */
            states half = take_states(trainer);
            zt_trainer *u = open_net(engine, program, method);
            for (int i = 0; i < half.n; i++) zt_trainer_set(u, i, half.at[i]);
            zt_trainer_set_steps(u, zt_trainer_steps(trainer));
            zt_trainer_close(trainer);
            trainer = u;
            loss[k] = steps(trainer, lr, 7, LAST);
            drop(&half);
        }
        all[k] = take_states(trainer);
        zt_trainer_close(trainer);
        zt_engine_close(engine);
    }
    ok(loss[0] > 0 && loss[0] < 1.4, "%s: the loss of 5 classes after %d steps is %g", method, LAST, loss[0]);
    ok(alike(&all[0], &all[1]) && loss[0] == loss[1], "%s: the same bits by 3 threads", method);
    ok(alike(&all[0], &all[2]) && loss[0] == loss[2], "%s: and by another trainer from the 7th step", method);
    for (int k = 0; k < 3; k++) drop(&all[k]);
}

/* ---- gradient accumulation ------------------------------------------------------------------- */

enum { PARTS = 7, NUMBERS = DEEP * WIDE + DEEP + OUT * DEEP };

/* The gradients of the micro-batches first to end - 1, added as the contract says: the left child of a node has the largest power
 * of two of leaves that is less than all. */
static void sum_tree(float leaf[][NUMBERS], int first, int end, float *sum)
{
    static float right[8][NUMBERS];
    if (end - first == 1) {
        memcpy(sum, leaf[first], sizeof right[0]);
        return;
    }
    int half = 1, level = 0;
    while (2 * half < end - first) half *= 2, level++;
    sum_tree(leaf, first, first + half, sum);
    sum_tree(leaf, first + half, end, right[level]);
    for (int i = 0; i < NUMBERS; i++) sum[i] += right[level][i];
}

/* The gradients of rows first to first + count - 1, by the gradient pass alone. */
static bool gradient_of(zt_session *gradient, int first, int count, float *out)
{
    const void *in[] = {x + first * WIDE, y + first};
    void *outs[] = {NULL, NULL, out, out + DEEP * WIDE, out + DEEP * WIDE + DEEP};
    return zt_session_step(gradient, &(zt_binding){"n", count}, 1, in, outs) == ZT_OK;
}

/* A step of sgd with the learning rate 1 leaves w - sum. */
static void accumulate_in_order(zt_ctx *ctx, const zt_prog *program)
{
    static float leaf[PARTS][NUMBERS], sum[NUMBERS], before[NUMBERS], after[NUMBERS];
    const zt_binding n = {"n", ROWS};
    const char *loss = "loss";
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = 1, .isa = zt_isa_best()});
    zt_optim optim = zt_optim_default(zt_optimizer_named("sgd"));
    zt_train_opts how = {.optim = &optim, .sample = &n, .n_sample = 1, .accumulate = PARTS};
    zt_trainer *trainer = zt_trainer_open(engine, program, &how, &drawn);
    int wrt[] = {zt_prog_find(program, "w0"), zt_prog_find(program, "b0"), zt_prog_find(program, "w1")};
    zt_prog *derived = zt_prog_grad(ctx, program, wrt, 3, &(zt_grad_opts){.of = &loss, .n_of = 1, .sample = &n, .n_sample = 1});
    zt_session *gradient = derived ? zt_session_open(engine, derived, &drawn, NULL) : NULL;
    const size_t at[] = {0, DEEP * WIDE, DEEP * WIDE + DEEP};
    bool good = trainer && gradient;
    draw_batch(3);
    for (int i = 0; i < PARTS && good; i++) {
        int first = ROWS * i / PARTS, count = ROWS * (i + 1) / PARTS - first;
        good = gradient_of(gradient, first, count, leaf[i]);
        for (int k = 0; k < NUMBERS; k++) leaf[i][k] *= (float)((double)count / ROWS);
    }
    for (int i = 0; i < 3 && good; i++) good = !zt_trainer_get(trainer, i, before + at[i]);
    good = good && steps(trainer, 1, 3, 4) > 0;
    for (int i = 0; i < 3 && good; i++) good = !zt_trainer_get(trainer, i, after + at[i]);
    sum_tree(leaf, 0, PARTS, sum);
    for (int i = 0; i < NUMBERS && good; i++) good = after[i] == before[i] - sum[i];
    ok(good, "%d micro-batches of %d rows: their gradients are added in the order of the tree", PARTS, ROWS);
    zt_session_close(gradient);
    zt_prog_free(derived);
    zt_trainer_close(trainer);
    zt_engine_close(engine);
}

/* Steps of adam with the batch in so many parts; the last loss. */
static double accumulated(zt_ctx *ctx, const zt_prog *program, int64_t parts, int threads, states *out)
{
    zt_engine *engine = zt_engine_open(ctx, "cpu", &(zt_engine_opts){.threads = threads, .isa = zt_isa_best()});
    zt_trainer *trainer = open_split(engine, program, "adam", parts);
    double loss = steps(trainer, .01, 0, 20);
    *out = take_states(trainer);
    zt_trainer_close(trainer);
    zt_engine_close(engine);
    return loss;
}

/* Any number of parts learns the same within rounding, and has bits of its own for any number of threads. */
static void accumulate(zt_ctx *ctx, const zt_prog *program)
{
    const int64_t parts[] = {2, 5, ROWS, 1000};
    states whole, one, other;
    double at_once = accumulated(ctx, program, 1, 1, &whole);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        double loss = accumulated(ctx, program, parts[i], 1, &one), again = accumulated(ctx, program, parts[i], 3, &other);
        ok(fabs(loss - at_once) < 1e-5 * at_once, "%d micro-batches: the loss %.8g beside %.8g at once", (int)parts[i], loss,
           at_once);
        ok(alike(&one, &other) && loss == again, "and the same bits by 3 threads");
        drop(&one);
        drop(&other);
    }
    drop(&whole);
}

/* A model of f16 weights is trained in f32, from what those are. */
static void stored_half(zt_ctx *ctx, const zt_prog *program)
{
    zt_dtype half = ZT_F16;
    zt_store store = {&half, find_drawn, read_drawn};
    zt_engine *engine = zt_engine_open(ctx, "cpu", NULL);
    zt_optim optimizer = zt_optim_default(zt_optimizer_named("sgd"));
    const zt_binding n = {"n", ROWS};
    zt_trainer *trainer =
        zt_trainer_open(engine, program, &(zt_train_opts){.optim = &optimizer, .sample = &n, .n_sample = 1}, &store);
    float w[WIDE * DEEP], first;
    bool good = trainer && !zt_trainer_get(trainer, 0, w);
    first = (float)(0.1 * zt_normal(7, 0, 5));
    ok(good && w[5] == zt_f16_to_f32(zt_f32_to_f16(first)) && w[5] != first, "weights stored as f16 are taken as f32");
    zt_trainer_close(trainer);
    zt_engine_close(engine);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuse_split(zt_ctx *ctx, const char *text, int64_t parts, const char *why)
{
    zt_prog *program = zt_prog_parse(ctx, "p.zt", text, strlen(text));
    zt_engine *engine = zt_engine_open(ctx, "ref", NULL);
    zt_trainer *trainer = program ? open_split(engine, program, "adam", parts) : NULL;
    ok(!trainer && strstr(zt_ctx_error(ctx), why), "refused: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_trainer_close(trainer);
    zt_engine_close(engine);
    zt_prog_free(program);
}

static void refuse(zt_ctx *ctx, const char *text, const char *why) { refuse_split(ctx, text, 1, why); }

#define HEAD "zt program 1\nin x: f32[n,40]\n"
static void refusals(zt_ctx *ctx)
{
    refuse(ctx, HEAD "data w: f32[1,40] \"first\"\ny = linear x w\nout y = y\n", "no output 'loss'");
    refuse(ctx, HEAD "y = sum x\nout loss = y\n", "no trainable weights");
    refuse(ctx, HEAD "data w: f32[1,40] \"first\"\ny = linear x w\nout loss = y\n", "the loss has type f32[24,1]");
    refuse(ctx, HEAD "data w: f32[40] \"nowhere\"\ny = mul x w\nz = sum y\nout loss = z\n", "missing tensor 'nowhere'");
    refuse(ctx, HEAD "data w: f32[40] \"first\"\ny = mul x w\nz = sum y\nout loss = z\n",
           "'first' has type f32[24,40], but the weight has f32[40]");
    refuse(ctx,
           HEAD "data w: f32[40] \"first\"\nstate s: f32[40]\ny = mul x w\nz = sum y\n"
                "out loss = z\n",
           "state 's'");
    refuse_split(ctx, "zt program 1\nin x: f32[24,40]\ndata w: f32[24,40] \"first\"\ny = mul x w\nz = sum y\nout loss = z\n", 2,
                 "the program has 0 symbols, expected 1");
    refuse_split(ctx,
                 "zt program 1\nin x: f32[40,n]\ndata w: f32[40] \"first\"\ny = sum x\nz = sum w\nl = mul y z\nout loss = l\n", 2,
                 "input 'x' cannot be split into micro-batches");
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_prog *program = zt_prog_parse(ctx, "net.zt", net, sizeof net - 1);
    for (int i = 0; zt_optimizer_at(i); i++) same_bits(ctx, program, zt_optimizer_name(zt_optimizer_at(i)));
    accumulate_in_order(ctx, program);
    accumulate(ctx, program);
    stored_half(ctx, program);
    refusals(ctx);
    zt_prog_free(program);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
