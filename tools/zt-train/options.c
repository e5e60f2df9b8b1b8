/* options.c - the options of zt-train. */
#include "tools/zt-train/train_tool.h"

/* Filled by the option table, which needs constant addresses. */
train_options train_opt = {.loss = -1, .schedule = "constant", .lr = -1,
                           .momentum = -1, .decay = -1, .scale = 1, .epochs = 10, .batch = 32, .arch = "llama",
                           .size = 1000000, .vocab = 512, .ctx = 128};

#define ROW(c, n, k, field, a, h, ...)                                                             \
    {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &train_opt.field, .arg = a, .help = h,    \
     __VA_ARGS__}

const zt_opt train_option_table[] = {
    ROW('m', "model", STR, model, "NET", "what is trained: a network's JSON, or a program", ),
    ROW(0, "new", STR, make, "NAME",
        "instead of -m a new network: sequential, cnn, transformer or random", ),
    ROW(0, "set", LIST, set, "KEY=VALUE", "of --new: dModel, layersPerCell, numClasses ...", ),
    ROW('i', "input", STR, input, "DATA", "samples: CSV, npz, npy or NDJSON; - is standard input", ),
    ROW(0, "target", STR, target, "FILE", "targets in a file of their own", ),
    ROW(0, "data", STR, data, "FILE", "weights of a program, to begin from; the rest is drawn", ),
    ROW(0, "text", STR, text, "FILE", "a language model, of -m or new, learns the text", ),
    ROW(0, "arch", STR, arch, "NAME", "of a new language model (default: llama)", ),
    ROW(0, "size", SIZE, size, "N", "its parameters, about (default: 1M)", ),
    ROW(0, "vocab", I64, vocab, "N", "its tokens, made from the text (default: 512)", .min = 257,
        .max = 2048),
    ROW('c', "ctx", I64, ctx, "N", "tokens of a window of the text (default: 128)", .min = 2,
        .max = 1 << 20),
    ROW(0, "eval", FLAG, eval, NULL, "no training: accuracy, deviation buckets and score", ),
    ROW(0, "loss", WORD, loss, "mse|cross_entropy", "of a program without an output 'loss'", ),
    ROW(0, "optim", STR, optim, "NAME",
        "sgd momentum nesterov rmsprop adam adamw (default: sgd, of a text adamw)", ),
    ROW(0, "lr", F64, lr, "X", "learning rate (default: the optimizer's)", .fmin = 0, .fmax = 1e6),
    ROW(0, "schedule", STR, schedule, "NAME",
        "how it falls: constant, linear or cosine (default: constant)", ),
    ROW(0, "lr-min", F64, lr_min, "X", "to what it falls (default: 0)", .fmin = 0, .fmax = 1e6),
    ROW(0, "warmup", I64, warmup, "N", "steps in which it rises first", .min = 0, .max = INT32_MAX),
    ROW(0, "momentum", F64, momentum, "X", "of sgd, momentum and nesterov", .fmin = 0, .fmax = 1),
    ROW(0, "weight-decay", F64, decay, "X", "of the weights", .fmin = 0, .fmax = 1e3),
    ROW(0, "clip", F64, clip, "X", "the most that the gradients' norm may be (0: any)", .fmin = 0,
        .fmax = 1e30),
    ROW(0, "epochs", I64, epochs, "N", "times through the data (default: 10)", .min = 0,
        .max = INT32_MAX),
    ROW(0, "batch", I64, batch, "N", "samples a step (default: 32)", .min = 1, .max = INT32_MAX),
    ROW(0, "no-shuffle", FLAG, ordered, NULL, "samples in the order of the data, every epoch", ),
    ROW(0, "scale", F64, scale, "X", "the first input times X (default: 1)", .fmin = -1e30,
        .fmax = 1e30),
    ROW(0, "valid", STR, valid, "DATA", "samples that are not trained on: their loss after each epoch", ),
    ROW(0, "valid-target", STR, valid_target, "FILE", "their targets", ),
    ROW(0, "patience", I64, patience, "N", "end after N epochs without a lower loss (0: never)",
        .min = 0, .max = INT32_MAX),
    ROW(0, "checkpoint", STR, checkpoint, "FILE", "where the run stands, after each epoch", ),
    ROW(0, "checkpoint-every", I64, save_every, "N", "and every N steps", .min = 0,
        .max = INT32_MAX),
    ROW(0, "resume", FLAG, resume, NULL, "go on from the checkpoint, to the same bits", ),
    ROW(0, "observe", STR, observe, "console|FILE|fd:N", "each step what each layer gave, and its gradient", ),
    ROW(0, "plot", STR, plot, "FILE.svg", "the loss by epochs as a picture", ),
    {0}};
