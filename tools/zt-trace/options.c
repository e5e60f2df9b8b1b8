/* options.c - the options of zt-trace, of all commands. */
#include "tools/zt-trace/trace.h"

/* Filled by the option table, which needs constant addresses. */
trace_options trace_opt = {.kv = -1};
bool trace_given[TRACE_N_OPTIONS];

#define ROW(id, c, n, k, field, a, h, ...)                                                         \
    [TRACE_##id] = {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &trace_opt.field,         \
                    .arg = a, .help = h, .given = &trace_given[TRACE_##id], __VA_ARGS__}

#define NO_PASS(pass)                                                                              \
    ROW(NO_##pass, 0, "no-" #pass, FLAG, no_pass[TRACE_PASS_##pass], NULL,                         \
        "compile: without the pass " #pass, ),

const zt_opt trace_option_table[TRACE_N_OPTIONS + 1] = {
    ROW(MODEL, 'm', "model", STR, model, "MODEL",
        "the model, instead of the one that the program names", ),
    ROW(INPUT, 'i', "input", STR, input, "FILE",
        "inputs and states by name: npz and others; the rest is drawn from --seed", ),
    ROW(DATA, 0, "data", STR, data, "FILE", "data by name, before that of the model", ),
    ROW(BIND, 0, "bind", STR, bind, "NAME=N,...", "the symbols of a program", ),
    ROW(PLAIN, 0, "plain", FLAG, plain, NULL, "show: the program's text alone, canonical", ),
    ROW(PROMPT, 'p', "prompt", STR, prompt, "TEXT", "record: a run on TEXT, as zt-run --raw", ),
    ROW(STEPS, 0, "steps", STR, steps, "A..B", "record: ops A to B as a program of their own", ),
    ROW(AT, 0, "at", I64, at, "N",
        "record: the step of the N-th new token (default: 0, the prompt)", .min = 0,
        .max = 1 << 20),
    ROW(VALUES, 0, "values", STR, values, "FILE",
        "record: inputs, states and what each op made, of that step", ),
    ROW(CTX, 'c', "ctx", I64, ctx, "N", "record: as zt-run's", .min = 1, .max = INT32_MAX - 64),
    ROW(KV, 0, "kv", WORD, kv, "f16|f32", "record: type of the cache, as zt-run's", ),
    ROW(EMBED, 0, "embed", FLAG, embed, NULL, "record: the program of zt-run --embed", ),
    ROW(CYCLES, 0, "cycles", I64, cycles, "N", "record: of a network run as a clocked mesh",
        .min = 1, .max = 1 << 16),
    ROW(TIMES, 0, "times", STR, times, "FILE",
        "record: seconds of each op into FILE; stats, chrome: read from it", ),
    ROW(BY, 0, "by", WORD, by, "op|step|family|layer", "stats: what a row stands for", ),
    ROW(REPLAY, 0, "replay", STR, replay, "LINE",
        "diff: the op of that line alone (or that makes the value of that name)", ),
    ROW(THROUGH, 0, "through", FLAG, through, NULL,
        "diff: each op is given what its own side made, so that errors add up", ),
    ROW(EXACT, 0, "exact", FLAG, exact, NULL,
        "diff: any bit counts; record: activations and cache stay f32", ),
    ROW(WRT, 0, "wrt", LIST, wrt, "NAME[,NAME]",
        "grad: values to differentiate with respect to; more names may follow", ),
    ROW(OF, 0, "of", LIST, of, "NAME[,NAME]",
        "grad: outputs to differentiate (default: all of floats)", ),
    ROW(SEEDS, 0, "seeds", FLAG, seeds, NULL,
        "grad: the cotangent of each output y is an input d.y, not ones", ),
    ROW(REPORT, 0, "report", FLAG, report, NULL, "compile: on stderr, what each pass saved", ),
    ZT_PASSES(NO_PASS)
};
