/* options.c - the options of zt-train. */
#include "tools/zt-train/train_tool.h"

/* Filled by the option table, which needs constant addresses. */
train_options train_opt = {.loss = -1,
                           .schedule = "constant",
                           .lr = -1,
                           .momentum = -1,
                           .decay = -1,
                           .scale = 1,
                           .epochs = 10,
                           .batch = 32,
                           .arch = "llama",
                           .size = 1000000,
                           .vocab = 512,
                           .ctx = 128};

#define NETWORK ZT_IN(TRAIN_NETWORK)
#define TEXT    ZT_IN(TRAIN_TEXT)
#define EVAL    ZT_IN(TRAIN_EVAL)
#define FIT     (NETWORK | TEXT)

/* letter, name, kind, field, the modes it applies to (0: all), the argument's name, help; then what
 * else a row has */
#define ROW(c, n, k, field, in, a, h, ...)                                                                                       \
    {                                                                                                                            \
        .letter = c, .name = n, .kind = ZT_OPT_##k, .value = &train_opt.field, .modes = in, .arg = a, .help = h, __VA_ARGS__     \
    }

const zt_opt train_option_table[] = {
    ROW('m', "model", LIST, models, 0, "NET", "what is trained: a network's JSON, or a program; with --eval many times", ),
    ROW(0, "new", STR, make, NETWORK, "NAME", "instead of -m a new network: sequential, cnn, transformer or random",
        .excludes = "model"),
    ROW(0, "set", LIST, set, NETWORK, "KEY=VALUE", "of --new: dModel, layersPerCell, numClasses ...", .needs = "new"),
    ROW('i', "input", STR, input, NETWORK | EVAL, "DATA", "samples: CSV, npz, npy or NDJSON; - is standard input", ),
    ROW(0, "target", STR, target, NETWORK | EVAL, "FILE", "targets in a file of their own", ),
    ROW(0, "data", STR, data, NETWORK | EVAL, "FILE", "weights of a program, to begin from; the rest is drawn",
        .excludes = "new"),
    ROW(0, "text", STR, text, 0, "FILE", "a language model, of -m or new, learns the text", ),
    ROW(0, "arch", STR, arch, TEXT, "NAME", "of a new language model", .excludes = "model"),
    ROW(0, "size", SIZE, size, TEXT, "N", "its parameters, about", .excludes = "model"),
    ROW(0, "vocab", I64, vocab, TEXT, "N", "its tokens, made from the text", .min = 257, .max = 2048, .excludes = "model"),
    ROW('c', "ctx", I64, ctx, TEXT, "N", "tokens of a window of the text", .min = 2, .max = 1 << 20),
    ROW(0, "eval", FLAG, eval, 0, NULL, "no training: accuracy, deviation buckets and score", ),
    ROW(0, "loss", WORD, loss, NETWORK, "mse|cross_entropy", "loss, where the program has no output 'loss'", .otherwise = "mse"),
    ROW(0, "method", WORD, method, FIT, "backprop", "how weights learn: by gradients of the loss", ),
    ROW(0, "optim", STR, optim, FIT, "NAME", "sgd momentum nesterov rmsprop adam adamw", .otherwise = "sgd, of a text adamw"),
    ROW(0, "lr", F64, lr, FIT, "X", "learning rate", .fmin = 0, .fmax = 1e6, .otherwise = "the optimizer's"),
    ROW(0, "schedule", STR, schedule, FIT, "NAME", "how it falls: constant, linear or cosine", ),
    ROW(0, "lr-min", F64, lr_min, FIT, "X", "to what it falls", .fmin = 0, .fmax = 1e6),
    ROW(0, "warmup", I64, warmup, FIT, "N", "steps in which it rises first", .min = 0, .max = INT32_MAX),
    ROW(0, "momentum", F64, momentum, FIT, "X", "of sgd, momentum and nesterov", .fmin = 0, .fmax = 1,
        .otherwise = "the optimizer's"),
    ROW(0, "weight-decay", F64, decay, FIT, "X", "of the weights", .fmin = 0, .fmax = 1e3, .otherwise = "the optimizer's"),
    ROW(0, "clip", F64, clip, FIT, "X", "clip the global gradient norm to X; 0: off", .fmin = 0, .fmax = 1e30),
    ROW(0, "epochs", I64, epochs, FIT, "N", "times through the data", .min = 0, .max = INT32_MAX),
    ROW(0, "batch", I64, batch, 0, "N", "samples a step", .min = 1, .max = INT32_MAX),
    ROW(0, "no-shuffle", FLAG, ordered, NETWORK, NULL, "samples in the order of the data, every epoch", ),
    ROW(0, "scale", F64, scale, NETWORK | EVAL, "X", "the first input times X", .fmin = -1e30, .fmax = 1e30),
    ROW(0, "valid", STR, valid, NETWORK, "DATA", "samples that are not trained on: their loss after each epoch", ),
    ROW(0, "valid-target", STR, valid_target, NETWORK, "FILE", "their targets", .needs = "valid"),
    ROW(0, "patience", I64, patience, FIT, "N", "end after N epochs without a lower loss (0: never)", .min = 0, .max = INT32_MAX),
    ROW(0, "checkpoint", STR, checkpoint, FIT, "FILE", "where the run stands, after each epoch", ),
    ROW(0, "checkpoint-every", I64, save_every, FIT, "N", "and every N steps", .min = 0, .max = INT32_MAX, .needs = "checkpoint"),
    ROW(0, "resume", FLAG, resume, FIT, NULL, "go on from the checkpoint, to the same bits", .needs = "checkpoint"),
    ROW(0, "observe", STR, observe, NETWORK | EVAL, "console|FILE|fd:N", "each step what each layer gave, and its gradient", ),
    ROW(0, "plot", STR, plot, FIT, "FILE.svg", "the loss by epochs as a picture", ),
    {0}};

const zt_shared_opt train_shared_options[] = {{"output", FIT, NULL},
                                              {"force", 0, "output|plot|observe"},
                                              {"seed", 0, NULL},
                                              {"format", EVAL, NULL},
                                              {"color", EVAL, NULL},
                                              {"progress", FIT, NULL},
                                              {0}};
