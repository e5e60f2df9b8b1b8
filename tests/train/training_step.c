/* training_step.c - a step of training: what is refused, and that its bits are its own: whatever the number
 * of threads, and after its states were taken out and put into another trainer. */
#include "lib/train/train.h"
#include "tests/common/tap.h"

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

static zt_trainer *open_net(zt_engine *e, const zt_prog *p, const char *method)
{
    zt_optim o = zt_optim_default(zt_optimizer_named(method));
    const zt_binding n = {"n", ROWS};
    return zt_trainer_open(e, p, &(zt_train_opts){.optim = &o, .clip = 1, .sample = &n, .n_sample = 1}, &drawn);
}

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

static void refuse(zt_ctx *ctx, const char *text, const char *why)
{
    zt_prog *program = zt_prog_parse(ctx, "p.zt", text, strlen(text));
    zt_engine *engine = zt_engine_open(ctx, "ref", NULL);
    zt_trainer *trainer = program ? open_net(engine, program, "adam") : NULL;
    ok(!trainer && strstr(zt_ctx_error(ctx), why), "refused: %s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    zt_trainer_close(trainer);
    zt_engine_close(engine);
    zt_prog_free(program);
}

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
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_prog *program = zt_prog_parse(ctx, "net.zt", net, sizeof net - 1);
    for (int i = 0; zt_optimizer_at(i); i++) same_bits(ctx, program, zt_optimizer_name(zt_optimizer_at(i)));
    stored_half(ctx, program);
    refusals(ctx);
    zt_prog_free(program);
    ok(zt_mem_get(ctx).blocks == 0, "nothing is left allocated");
    zt_ctx_free(ctx);
    return tap_done();
}
