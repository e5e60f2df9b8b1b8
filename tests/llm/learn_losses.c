/* learn_losses.c - made models with recurrent layers and linear biases are trained as PyTorch trains them: the losses of some
 * steps of Adam (tests/llm/learn/make.py) within 1e-4, on cpu and ref. Encoders are refused.
 *
 *   learn_losses [NAME]
 *
 * The models are those of tests/llm/state_space, delta and rows, beside this program's folder.
 */
#include "tests/common/tap.h"
#include "tests/llm/learn/losses.h"

#include "lib/zt/all.h"

#include <libgen.h>
#include <math.h>
#include <string.h>

enum { VOCAB = 96 };

typedef struct lesson {
    int32_t ids[TEXTS * TOKENS], target[TEXTS * TOKENS], pos[TEXTS * TOKENS];
} lesson;

/* The texts of make.py. */
static int32_t token_at(int text, int i) { return (7 * i * i + 13 * text * i + 5 * text + 3 * i) % (VOCAB - 3) + 3; }

static void fill(lesson *to)
{
    for (int at = 0; at < TEXTS * TOKENS; at++) {
        to->pos[at] = at % TOKENS;
        to->ids[at] = token_at(at / TOKENS, at % TOKENS);
        to->target[at] = token_at(at / TOKENS, at % TOKENS + 1);
    }
}

/* The losses before each step, and after the last. */
static bool train(zt_gguf *gguf, const zt_prog *program, const char *engine_name, double loss[STEPS + 1])
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    zt_store store = zt_gguf_store(gguf);
    zt_optim optim = zt_optim_default(zt_optimizer_named("adam"));
    const zt_binding texts = {"n", TEXTS};
    lesson of;
    fill(&of);
    optim.eps = epsilon;
    zt_engine *engine = zt_engine_open(ctx, engine_name, &(zt_engine_opts){.threads = 2, .isa = zt_isa_best()});
    zt_trainer *trainer =
        zt_trainer_open(engine, program, &(zt_train_opts){.optim = &optim, .sample = &texts, .n_sample = 1}, &store);
    bool good = trainer != NULL;
    for (int step = 0; step <= STEPS && good; step++) {
        zt_trained result = {0};
        good = zt_trainer_step(trainer, &texts, 1, (const void *[]){of.ids, of.target, of.pos}, learning_rate, NULL, &result) ==
               ZT_OK;
        loss[step] = result.loss;
    }
    zt_trainer_close(trainer);
    zt_engine_close(engine);
    return good;
}

static double largest_difference(const double *a, const double *b)
{
    double most = 0;
    for (int step = 0; step <= STEPS; step++) most = fmax(most, fabs(a[step] - b[step]));
    return most;
}

static void check_curve(const char *programs, const curve *of)
{
    char path[4400];
    double cpu[STEPS + 1] = {0}, ref[STEPS + 1] = {0};
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/../%s/%s", programs, of->set, of->name);
    zt_gguf *gguf = zt_model_open(ctx, path);
    zt_prog *program = gguf ? zt_llm_training(gguf, TOKENS) : NULL;
    bool good = program && train(gguf, program, "cpu", cpu);
    double error = good ? largest_difference(cpu, of->loss) : INFINITY;
    if (!ok(error <= 1e-4, "%s: losses of %d steps within %.1e of PyTorch's (%s)", of->name, STEPS, error, zt_ctx_error(ctx)))
        for (int step = 0; step <= STEPS; step++) diag("step %d: %.7f, expected %.7f", step, cpu[step], of->loss[step]);
    good = good && train(gguf, program, "ref", ref);
    error = good ? largest_difference(ref, of->loss) : INFINITY;
    ok(error <= 1e-4, "%s: on ref within %.1e (%s)", of->name, error, zt_ctx_error(ctx));
    zt_prog_free(program);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
}

/* An encoder generates no text. */
static void check_refusal(const char *programs, const char *set, const char *name, const char *arch)
{
    char path[4400], expected[4500];
    zt_ctx *ctx = zt_ctx_new();
    snprintf(path, sizeof path, "%s/../%s/%s", programs, set, name);
    snprintf(expected, sizeof expected, "%s: %s models do not generate text and cannot be trained", path, arch);
    zt_gguf *gguf = zt_model_open(ctx, path);
    zt_prog *program = gguf ? zt_llm_training(gguf, TOKENS) : NULL;
    ok(gguf && !program && zt_ctx_status(ctx) == ZT_ENOTSUP && strcmp(zt_ctx_error(ctx), expected) == 0, "%s", zt_ctx_error(ctx));
    zt_prog_free(program);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *set, *name, *arch;
    } encoders[] = {{"rows", "jina-bert-v2", "jina-bert-v2"}, {"archs", "bert", "bert"}, {"dense", "modernbert", "modern-bert"}};

    char self[4096];
    snprintf(self, sizeof self, "%s", argv[0]);
    const char *programs = dirname(self);
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        if (argc < 2 || strcmp(argv[1], curves[i].name) == 0) check_curve(programs, &curves[i]);
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders && argc < 2; i++)
        check_refusal(programs, encoders[i].set, encoders[i].name, encoders[i].arch);
    return tap_done();
}
