/* options.c - the options of zt-trace, of all commands. */
#include "tools/zt-trace/trace.h"

/* Filled by the option table, which needs constant addresses. */
trace_options trace_opt = {.kv = -1};

#define IN(command) ZT_IN(TRACE_##command)
#define SUBJECT (IN(STATS) | IN(CHROME) | IN(MEMORY) | IN(DIFF) | IN(COMPILE)) /* bound, and run */
#define ENGINE (SUBJECT | IN(RECORD))

/* letter, name, kind, field, the commands it applies to, the argument's name, help; then what else a
 * row has */
#define ROW(c, n, k, field, in, a, h, ...)                                                         \
    {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &trace_opt.field, .modes = in, .arg = a, \
     .help = h, __VA_ARGS__}

#define NO_PASS(pass)                                                                              \
    ROW(0, "no-" #pass, FLAG, no_pass[TRACE_PASS_##pass], IN(COMPILE), NULL,                       \
        "compile: without the pass " #pass, ),

const zt_opt trace_option_table[] = {
    ROW('m', "model", STR, model, IN(RECORD) | SUBJECT, "MODEL",
        "the model, instead of the one that the program names", .otherwise = "the program's"),
    ROW('i', "input", STR, input, SUBJECT, "FILE",
        "inputs and states by name: npz and others", .otherwise = "drawn from --seed"),
    ROW(0, "data", STR, data, SUBJECT, "FILE", "data by name, before that of the model", ),
    ROW(0, "bind", STR, bind, SUBJECT | IN(SHOW) | IN(DOT) | IN(GRAD), "NAME=N,...",
        "the symbols of a program", .otherwise = "the program's own"),
    ROW(0, "plain", FLAG, plain, IN(SHOW), NULL, "show: the program's text alone, canonical", ),
    ROW('p', "prompt", STR, prompt, IN(RECORD), "TEXT", "record: a run on TEXT, as zt-run --raw", ),
    ROW(0, "steps", STR, steps, IN(RECORD), "A..B",
        "record: ops A to B as a program of their own", ),
    ROW(0, "at", I64, at, IN(RECORD), "N",
        "record: the step of the N-th new token", .min = 0,
        .max = 1 << 20, .otherwise = "0, the prompt"),
    ROW(0, "values", STR, values, IN(RECORD), "FILE",
        "record: inputs, states and what each op made, of that step", ),
    ROW('c', "ctx", I64, ctx, IN(RECORD), "N", "record: as zt-run's",
        .min = 1, .max = INT32_MAX - 64, .otherwise = "4096 or the model's, if smaller"),
    ROW(0, "kv", WORD, kv, IN(RECORD), "f16|f32", "record: type of the cache, as zt-run's", .otherwise = "f16; with --exact f32"),
    ROW(0, "embed", FLAG, embed, IN(RECORD), NULL, "record: the program of zt-run --embed", ),
    ROW(0, "cycles", I64, cycles, IN(RECORD), "N", "record: of a network run as a clocked mesh",
        .min = 1, .max = 1 << 16),
    ROW(0, "times", STR, times, IN(RECORD) | IN(STATS) | IN(CHROME), "FILE",
        "record: seconds of each op into FILE; stats, chrome: read from it", ),
    ROW(0, "by", WORD, by, IN(STATS), "op|step|family|layer", "stats: what a row stands for", ),
    ROW(0, "replay", STR, replay, IN(DIFF), "LINE",
        "diff: the op of that line alone (or that makes the value of that name)",
        .excludes = "through"),
    ROW(0, "through", FLAG, through, IN(DIFF), NULL,
        "diff: each op is given what its own side made, so that errors add up", ),
    ROW(0, "all", FLAG, all, IN(DIFF), NULL,
        "diff: every value that was compared, not only what differs", .excludes = "replay"),
    ROW(0, "exact", FLAG, exact, IN(DIFF) | IN(RECORD), NULL,
        "diff: any bit counts; record: activations and cache stay f32", ),
    ROW(0, "wrt", LIST, wrt, IN(GRAD), "NAME[,NAME]",
        "grad: values to differentiate with respect to; more names may follow", ),
    ROW(0, "of", LIST, of, IN(GRAD), "NAME[,NAME]",
        "grad: outputs to differentiate", .otherwise = "all of floats"),
    ROW(0, "seeds", FLAG, seeds, IN(GRAD), NULL,
        "grad: the cotangent of each output y is an input d.y, not ones", ),
    ROW(0, "report", FLAG, report, IN(COMPILE), NULL, "compile: on stderr, what each pass saved", ),
    ZT_PASSES(NO_PASS) {0}};

const zt_shared_opt trace_shared_options[] = {
    {"output", 0, NULL},
    {"force", 0, "output|values|times"},
    {"threads", ENGINE, NULL},
    {"engine", ENGINE, NULL},
    {"strict-engine", ENGINE, NULL},
    {"isa", ENGINE, NULL},
    {"compute", ENGINE & ~IN(DIFF), NULL},
    {"tile", ENGINE, NULL},
    {"seed", SUBJECT & ~IN(MEMORY), NULL},
    {"format", IN(STATS) | IN(MEMORY) | IN(DIFF), NULL},
    {"color", IN(STATS) | IN(DIFF), NULL},
    {0}};
