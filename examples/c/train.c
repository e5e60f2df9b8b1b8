/* train.c - a small network learns the product of two numbers, and is saved.
 *
 *     cc train.c $(pkg-config --cflags --libs zt) -o train
 *     ./train product.json
 *     printf '0.5,-0.5\n' | zt-run -m product.json -i -        # about -0.25
 *
 * A network is a document of layers. It becomes a program (the forward pass); with a loss behind it that becomes
 * another program, which does one step of training: gradients, optimizer and all.
 */
#include <stdio.h>
#include <string.h>
#include <zt.h>
#include <zt/nn.h>
#include <zt/train.h>

static const char layers[] =
    "{\"depth\": 1, \"rows\": 1, \"cols\": 1, \"layers_per_cell\": 2, \"layers\": ["
    "{\"type\": \"Dense\", \"l\": 0, \"input_height\": 2, \"output_height\": 24, \"activation\": \"silu\"},"
    "{\"type\": \"Dense\", \"l\": 1, \"input_height\": 24, \"output_height\": 1, \"activation\": \"linear\"}]}";

enum { ROWS = 64, STEPS = 1500 };

/* A batch of made data: pairs of numbers from -1 to 1, and their products. */
static void make_batch(uint64_t step, float *x, float *target)
{
    for (int row = 0; row < ROWS; row++) {
        for (int k = 0; k < 2; k++) x[2 * row + k] = (float)(2 * zt_uniform(1, step, (uint64_t)(2 * row + k)) - 1);
        target[row] = x[2 * row] * x[2 * row + 1];
    }
}

/* What was learned goes back into the network: the trainer's first states are the weights, by the program's order. */
static zt_status take_weights(zt_trainer *trainer, zt_nn *network)
{
    for (int i = 0; i < zt_trainer_n_weights(trainer); i++) {
        zt_type type = zt_trainer_state_type(trainer, i);
        float *values = zt_alloc(zt_nn_ctx(network), zt_type_bytes(&type));
        zt_status status = zt_trainer_get(trainer, i, values);
        if (!status) status = zt_nn_put(network, zt_trainer_state_name(trainer, i), values, zt_type_count(&type));
        zt_free(zt_nn_ctx(network), values);
        if (status) return status;
    }
    return ZT_OK;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: train OUTPUT.json\n");
        return 64;
    }
    zt_ctx *ctx = zt_ctx_new();
    zt_engine *engine = zt_engine_open(ctx, "cpu", NULL);
    zt_source *document = zt_source_memory(ctx, "layers", layers, strlen(layers));
    zt_nn *network = zt_nn_from(ctx, document, 1); /* weights are drawn from the seed 1 */
    zt_source_close(document);

    /* x: f32[n,2] -> y: f32[n,1]; then the mean squared error against an input `target`. A batch has n = ROWS. */
    zt_binding batch = {"n", ROWS};
    zt_prog *forward = zt_nn_prog(network, NULL);
    zt_prog *with_loss = zt_train_with_loss(ctx, forward, NULL, ZT_LOSS_MSE, &batch, 1);
    zt_optim adam = zt_optim_default(zt_optimizer_named("adam"));
    zt_store weights = zt_nn_store(network);
    zt_trainer *trainer =
        zt_trainer_open(engine, with_loss, &(zt_train_opts){.optim = &adam, .sample = &batch, .n_sample = 1}, &weights);

    float x[2 * ROWS], target[ROWS];
    for (uint64_t step = 0; step < STEPS; step++) {
        zt_trained result;
        make_batch(step, x, target);
        if (zt_trainer_step(trainer, &batch, 1, (const void *[]){x, target}, 0.01, NULL, &result)) break;
        if (step % 500 == 0 || step + 1 == STEPS) printf("step %4d  loss %.5f\n", (int)step + 1, result.loss);
    }

    zt_sink *out = NULL;
    if (trainer && !take_weights(trainer, network) && (out = zt_sink_open(ctx, argv[1], true)) && !zt_nn_write(network, out))
        zt_sink_commit(out);

    int status = zt_ctx_status(ctx) ? 1 : 0;
    if (status) fprintf(stderr, "train: %s\n", zt_ctx_error(ctx));
    zt_sink_close(out);
    zt_trainer_close(trainer);
    zt_prog_free(with_loss);
    zt_prog_free(forward);
    zt_nn_close(network);
    zt_engine_close(engine);
    zt_ctx_free(ctx);
    return status;
}
