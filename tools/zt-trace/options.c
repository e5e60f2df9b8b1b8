/* options.c - the options of zt-trace, of all commands. */
#include "tools/zt-trace/trace.h"

trace_options trace_opt; /* filled by the option table, which needs constant addresses */
bool trace_given[TRACE_N_OPTIONS];

#define ROW(id, c, n, k, field, a, h, ...)                                                         \
    [TRACE_##id] = {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &trace_opt.field,         \
                    .arg = a, .help = h, .given = &trace_given[TRACE_##id], __VA_ARGS__}

const zt_opt trace_option_table[TRACE_N_OPTIONS + 1] = {
    ROW(MODEL, 'm', "model", STR, model, "MODEL",
        "the model, instead of the one that the program names", ),
    ROW(INPUT, 'i', "input", STR, input, "FILE",
        "inputs and states by name: npz and others; the rest is drawn from --seed", ),
    ROW(DATA, 0, "data", STR, data, "FILE", "data by name, before that of the model", ),
    ROW(BIND, 0, "bind", STR, bind, "NAME=N,...", "the symbols of a program", ),
    ROW(PLAIN, 0, "plain", FLAG, plain, NULL, "show: the program's text alone, canonical", ),
    ROW(TIMES, 0, "times", STR, times, "FILE", "stats, chrome: times read from FILE", ),
    ROW(BY, 0, "by", WORD, by, "op|step|family|layer", "stats: what a row stands for", ),
    ROW(REPLAY, 0, "replay", STR, replay, "LINE",
        "diff: the op of that line alone (or that makes the value of that name)", ),
    ROW(THROUGH, 0, "through", FLAG, through, NULL,
        "diff: each op is given what its own side made, so that errors add up", ),
    ROW(EXACT, 0, "exact", FLAG, exact, NULL, "diff: any bit that differs is beyond the bound", ),
    ROW(WRT, 0, "wrt", LIST, wrt, "NAME[,NAME]",
        "grad: values to differentiate with respect to; more names may follow", ),
    ROW(OF, 0, "of", LIST, of, "NAME[,NAME]",
        "grad: outputs to differentiate (default: all of floats)", ),
    ROW(SEEDS, 0, "seeds", FLAG, seeds, NULL,
        "grad: the cotangent of each output y is an input d.y, not ones", ),
};
