/* stages.c - owns the division of a program into stages, and the program of each.
 *
 * A cut is a place between two steps. It is possible where no state is used on both sides and the values that cross have dimensions
 * that are numbers or symbols, and it is taken only where as few bytes cross as in the best place of the program's middle: between
 * layers, where only the residual stream does. Among these places, the cuts with the smallest largest stage are found by dynamic
 * programming over (stages, places). All ranks compute the same cuts.
 */
#include "lib/base/require.h"
#include "lib/prog/states.h"
#include "lib/run/passes/rewrite.h"
#include "lib/run/stages_internal.h"

#include <string.h>

enum { TABLE = 16 << 20 }; /* a table of which rows are gathered is not loaded from here on (cpu/weights.c) */

typedef struct stage_cutter {
    zt_ctx *ctx;
    const zt_prog *program;
    int value_count, step_count;
    const zt_bound *bound, *other; /* by two sets of numbers, which show the symbols */
    int *root;                     /* [values]: whose memory it is */
    int *last;                     /* [values]: the last step that reads it; step_count: the program's end */
    int *place;                    /* [places]: steps before each possible cut; the first is 0, the last all steps */
    int place_count;
    size_t *crossing; /* [steps + 1]: bytes that cross a cut there, SIZE_MAX: impossible */
    size_t *weight;   /* [values]: bytes, of data and states */
    size_t *cost;     /* [places, places]: bytes of the stage between two */
} stage_cutter;

/* ---- what is read where ---------------------------------------------------------------------- */

static int defined_at(const stage_cutter *cutter, int value)
{
    const zt_value *v = zt_prog_value(cutter->program, value);
    return v->kind == ZT_VALUE_OP ? v->index : -1;
}

static void find_last_uses(stage_cutter *cutter)
{
    const zt_prog *program = cutter->program;
    for (int value = 0; value < cutter->value_count; value++) cutter->last[value] = defined_at(cutter, value);
    for (int step = 0; step < cutter->step_count; step++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (zt_prog_step(program, step)->in[k] >= 0) cutter->last[zt_prog_step(program, step)->in[k]] = step;
    for (int output = 0; output < zt_prog_n_outputs(program); output++)
        cutter->last[zt_prog_output(program, output)->value] = cutter->step_count;
}

/* Numbers for the symbols that no size of a model equals in both sets. */
static zt_bound *bind_with(const stage_cutter *cutter, const zt_binding *fixed, int n_fixed, int base, int each)
{
    zt_binding bindings[2 * ZT_MAX_SYMBOLS];
    int count = 0;
    for (int i = 0; i < n_fixed; i++) bindings[count++] = fixed[i];
    for (int symbol = 0; symbol < zt_prog_n_symbols(cutter->program); symbol++) {
        const char *name = zt_prog_symbol_name(cutter->program, symbol);
        bool known = false;
        for (int i = 0; i < n_fixed; i++) known = known || !strcmp(fixed[i].symbol, name);
        if (!known) bindings[count++] = (zt_binding){name, base + each * symbol};
    }
    return zt_prog_bind(cutter->program, bindings, count);
}

enum { BASE = 11, EACH = 2, OTHER_BASE = 31, OTHER_EACH = 5 };

/* The type of a value with symbols for dimensions; false: a dimension is neither a number nor a symbol. */
static bool port_of(const stage_cutter *cutter, int value, zt_port *port)
{
    const zt_type *one = &cutter->bound->type[value], *two = &cutter->other->type[value];
    *port = (zt_port){value, *one};
    if (one->rank != two->rank) return false;
    for (int axis = 0; axis < one->rank; axis++) {
        if (one->dim[axis] == two->dim[axis]) continue;
        int64_t symbol = (one->dim[axis] - BASE) / EACH;
        bool is_symbol = symbol >= 0 && symbol < zt_prog_n_symbols(cutter->program) && one->dim[axis] == BASE + EACH * symbol &&
                         two->dim[axis] == OTHER_BASE + OTHER_EACH * symbol;
        if (!is_symbol) return false;
        port->type.dim[axis] = -1 - symbol;
    }
    return true;
}

size_t zt_port_bytes(const zt_port *port, const int64_t *symbols)
{
    zt_type type = port->type;
    for (int axis = 0; axis < type.rank; axis++)
        if (type.dim[axis] < 0) type.dim[axis] = symbols[-1 - type.dim[axis]];
    return zt_type_bytes(&type);
}

/* ---- where cuts are possible ----------------------------------------------------------------- */

static void forbid_between(stage_cutter *cutter, int first, int last)
{
    for (int place = first + 1; place <= last; place++) cutter->crossing[place] = SIZE_MAX;
}

/* A value crosses the places behind its step, up to the last one that reads it. */
static void count_crossing(stage_cutter *cutter, int value)
{
    zt_port port;
    int end = cutter->last[value] < cutter->step_count ? cutter->last[value] : cutter->step_count - 1;
    bool memory_of_state = zt_prog_value(cutter->program, cutter->root[value])->kind == ZT_VALUE_STATE;
    if (memory_of_state || !port_of(cutter, value, &port)) {
        forbid_between(cutter, defined_at(cutter, value), end);
        return;
    }
    for (int place = defined_at(cutter, value) + 1; place <= end; place++)
        if (cutter->crossing[place] != SIZE_MAX) cutter->crossing[place] += zt_type_bytes(&cutter->bound->type[value]);
}

/* All steps that use a state, and the one that makes what it keeps, are in one stage. */
static void keep_together(stage_cutter *cutter, int state)
{
    int first = cutter->step_count, last = -1, keep = zt_prog_value(cutter->program, state)->keep;
    for (int step = 0; step < cutter->step_count; step++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (zt_prog_step(cutter->program, step)->in[k] == state) {
                first = step < first ? step : first;
                last = step;
            }
    if (keep >= 0 && defined_at(cutter, keep) >= 0) {
        int at = defined_at(cutter, keep);
        first = at < first ? at : first;
        last = at > last ? at : last;
    }
    forbid_between(cutter, first, last);
}

static void find_crossing(stage_cutter *cutter)
{
    for (int value = 0; value < cutter->value_count; value++) {
        const zt_value *v = zt_prog_value(cutter->program, value);
        if (v->kind == ZT_VALUE_OP) count_crossing(cutter, value);
        if (v->kind == ZT_VALUE_STATE) keep_together(cutter, value);
    }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static bool is_weighed(const stage_cutter *cutter, int value)
{
    zt_value_kind kind = zt_prog_value(cutter->program, value)->kind;
    return kind == ZT_VALUE_DATA || kind == ZT_VALUE_STATE;
}

/* The bytes that step adds to a stage; seen[v] is set to `stamp` for what the stage has. */
static size_t bytes_of_step(const stage_cutter *cutter, int step, int *seen, int stamp)
{
    const zt_step *op = zt_prog_step(cutter->program, step);
    size_t sum = 0;
    for (int k = 0; k < ZT_MAX_IN; k++) {
        int value = op->in[k];
        if (value < 0 || !is_weighed(cutter, value) || seen[value] == stamp) continue;
        size_t bytes = zt_type_bytes(&cutter->bound->type[value]);
        if (op->op == ZT_OP_gather && k == 0 && bytes >= TABLE) continue;
        seen[value] = stamp;
        sum += bytes;
    }
    return sum;
}

/* The best place of the middle, where a quarter to three quarters of all bytes are before it. */
static size_t fewest_crossing(const stage_cutter *cutter, int *seen)
{
    size_t all = 0, before = 0, fewest = SIZE_MAX;
    for (int step = 0; step < cutter->step_count; step++) all += bytes_of_step(cutter, step, seen, 1);
    for (int step = 0; step < cutter->step_count; step++) {
        bool middle = before >= all / 4 && before <= all / 4 * 3;
        if (middle && step && cutter->crossing[step] < fewest) fewest = cutter->crossing[step];
        before += bytes_of_step(cutter, step, seen, 2);
    }
    return fewest;
}

static zt_status find_places(stage_cutter *cutter, int *seen)
{
    size_t fewest = fewest_crossing(cutter, seen);
    cutter->place = zt_alloc_array(cutter->ctx, (size_t)cutter->step_count + 1, sizeof *cutter->place);
    if (!cutter->place) return ZT_ENOMEM;
    for (int step = 0; step <= cutter->step_count; step++)
        if (step == 0 || step == cutter->step_count || (fewest != SIZE_MAX && cutter->crossing[step] <= fewest))
            cutter->place[cutter->place_count++] = step;
    size_t places = (size_t)cutter->place_count;
    cutter->cost = zt_calloc(cutter->ctx, places * places, sizeof *cutter->cost);
    return cutter->cost ? ZT_OK : ZT_ENOMEM;
}

static void weigh_stages(stage_cutter *cutter, int *seen)
{
    int places = cutter->place_count;
    for (int from = 0; from < places - 1; from++) {
        size_t sum = 0;
        for (int to = from + 1; to < places; to++) {
            for (int step = cutter->place[to - 1]; step < cutter->place[to]; step++)
                sum += bytes_of_step(cutter, step, seen, 3 + from);
            cutter->cost[from * places + to] = sum;
        }
    }
}

/* ---- the cuts -------------------------------------------------------------------------------- */

/* best[k][i]: the largest of k + 1 stages that end at place i, as small as it can be; from[k][i]: where the last begins. */
static zt_status choose_cuts(const stage_cutter *cutter, int stages, int *cut)
{
    int places = cutter->place_count;
    size_t count = (size_t)stages * (size_t)places;
    size_t *best = zt_calloc(cutter->ctx, count, sizeof *best);
    int *from = zt_calloc(cutter->ctx, count, sizeof *from);
    zt_status status = best && from ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; i < places && !status; i++) best[i] = cutter->cost[i];
    for (int k = 1; k < stages && !status; k++)
        for (int i = 0; i < places; i++) {
            best[k * places + i] = SIZE_MAX;
            for (int j = k; j < i; j++) {
                size_t left = best[(k - 1) * places + j], right = cutter->cost[j * places + i];
                size_t largest = left > right ? left : right;
                if (largest < best[k * places + i]) best[k * places + i] = largest, from[k * places + i] = j;
            }
        }
    if (!status && (places <= stages || best[count - 1] == SIZE_MAX))
        status = zt_fail(cutter->ctx, ZT_EUSAGE, "the model can be divided among at most %d ranks, not %d", places - 1, stages);
    int end = places - 1;
    cut[stages] = cutter->step_count;
    for (int k = stages - 1; k > 0 && !status; k--) {
        end = from[k * places + end];
        cut[k] = cutter->place[end];
    }
    cut[0] = 0;
    zt_free(cutter->ctx, best);
    zt_free(cutter->ctx, from);
    return status;
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* Values that cross a cut. */
static zt_status list_crossing(const stage_cutter *cutter, int place, zt_ports *ports)
{
    bool inside = place > 0 && place < cutter->step_count;
    ports->items = zt_calloc(cutter->ctx, (size_t)cutter->value_count + 1, sizeof *ports->items);
    if (!ports->items) return ZT_ENOMEM;
    for (int value = 0; value < cutter->value_count && inside; value++) {
        int at = defined_at(cutter, value);
        if (at >= 0 && at < place && cutter->last[value] >= place) port_of(cutter, value, &ports->items[ports->count++]);
    }
    return ZT_OK;
}

static zt_status list_inputs(const stage_cutter *cutter, zt_ports *ports)
{
    int count = zt_prog_count(cutter->program, ZT_VALUE_IN);
    ports->items = zt_calloc(cutter->ctx, (size_t)count + 1, sizeof *ports->items);
    if (!ports->items) return ZT_ENOMEM;
    for (int i = 0; i < count; i++) {
        int value = zt_prog_nth(cutter->program, ZT_VALUE_IN, i);
        if (!port_of(cutter, value, &ports->items[ports->count++]))
            return zt_fail(cutter->ctx, ZT_ENOTSUP, "input '%s': its size is not a product of numbers and symbols",
                           zt_prog_value(cutter->program, value)->name);
    }
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status analyse_program(stage_cutter *cutter, const zt_binding *fixed, int n_fixed, int *seen)
{
    size_t values = (size_t)cutter->value_count + 1;
    cutter->root = zt_calloc(cutter->ctx, values, sizeof *cutter->root);
    cutter->last = zt_calloc(cutter->ctx, values, sizeof *cutter->last);
    cutter->crossing = zt_calloc(cutter->ctx, (size_t)cutter->step_count + 1, sizeof *cutter->crossing);
    if (!cutter->root || !cutter->last || !cutter->crossing) return ZT_ENOMEM;
    cutter->bound = bind_with(cutter, fixed, n_fixed, BASE, EACH);
    cutter->other = cutter->bound ? bind_with(cutter, fixed, n_fixed, OTHER_BASE, OTHER_EACH) : NULL;
    if (!cutter->other) return zt_ctx_status(cutter->ctx);
    zt_prog_roots(cutter->program, cutter->root);
    find_last_uses(cutter);
    find_crossing(cutter);
    zt_status status = find_places(cutter, seen);
    if (!status) weigh_stages(cutter, seen);
    return status;
}

static void free_cutter(stage_cutter *cutter)
{
    zt_bound_free((zt_bound *)cutter->bound);
    zt_bound_free((zt_bound *)cutter->other);
    zt_free(cutter->ctx, cutter->root);
    zt_free(cutter->ctx, cutter->last);
    zt_free(cutter->ctx, cutter->crossing);
    zt_free(cutter->ctx, cutter->place);
    zt_free(cutter->ctx, cutter->cost);
}

/* Ranks with other programs would exchange values of other sizes. */
static zt_status compare_programs(const zt_stages *stages)
{
    zt_str text;
    zt_str_init(&text, stages->ctx);
    zt_status status = zt_prog_print(stages->program, &text);
    if (!status) status = zt_ranks_agree(stages->ranks, "the model's layers or options", text.data, text.len);
    zt_str_fini(&text);
    return status;
}

static zt_status make_room(zt_stages *stages)
{
    zt_ctx *ctx = stages->ctx;
    size_t before = (size_t)stages->before.count + 1, after = (size_t)stages->after.count + 1;
    stages->in = zt_calloc(ctx, before + (size_t)stages->inputs.count, sizeof *stages->in);
    stages->out = zt_calloc(ctx, after, sizeof *stages->out);
    stages->received = zt_calloc(ctx, before, sizeof *stages->received);
    stages->computed = zt_calloc(ctx, after, sizeof *stages->computed);
    stages->received_bytes = zt_calloc(ctx, before, sizeof *stages->received_bytes);
    stages->computed_bytes = zt_calloc(ctx, after, sizeof *stages->computed_bytes);
    bool room =
        stages->in && stages->out && stages->received && stages->computed && stages->received_bytes && stages->computed_bytes;
    return room ? ZT_OK : ZT_ENOMEM;
}

static zt_status divide(zt_stages *stages, const zt_binding *fixed, int n_fixed)
{
    stage_cutter cutter = {.ctx = stages->ctx,
                           .program = stages->program,
                           .value_count = zt_prog_n_values(stages->program),
                           .step_count = zt_prog_n_steps(stages->program)};
    int *seen = zt_calloc(stages->ctx, (size_t)cutter.value_count + 1, sizeof *seen);
    int *cut = zt_calloc(stages->ctx, (size_t)stages->count + 1, sizeof *cut);
    zt_status status = seen && cut ? analyse_program(&cutter, fixed, n_fixed, seen) : ZT_ENOMEM;
    if (!status) status = choose_cuts(&cutter, stages->count, cut);
    if (!status) status = list_inputs(&cutter, &stages->inputs);
    if (!status) {
        stages->first = cut[stages->own];
        stages->end = cut[stages->own + 1];
        for (int step = stages->first; step < stages->end; step++) stages->bytes += bytes_of_step(&cutter, step, seen, -1);
        status = list_crossing(&cutter, stages->first, &stages->before);
    }
    if (!status) status = list_crossing(&cutter, stages->end, &stages->after);
    free_cutter(&cutter);
    zt_free(stages->ctx, seen);
    zt_free(stages->ctx, cut);
    return status;
}

zt_stages *zt_stages_open(zt_ctx *ctx, zt_ranks *ranks, const zt_prog *program, const zt_binding *fixed, int n_fixed)
{
    ZT_REQUIRE(ctx, ranks && program && n_fixed >= 0 && n_fixed <= ZT_MAX_SYMBOLS && (fixed || !n_fixed), NULL);
    zt_stages *stages = zt_calloc(ctx, 1, sizeof *stages);
    if (!stages) return NULL;
    *stages = (zt_stages){.ctx = ctx, .ranks = ranks, .program = program, .count = zt_ranks_count(ranks)};
    for (int i = 0; i < n_fixed; i++)
        for (int symbol = 0; symbol < zt_prog_n_symbols(program); symbol++)
            if (!strcmp(fixed[i].symbol, zt_prog_symbol_name(program, symbol))) stages->fixed[symbol] = true;
    stages->own = (zt_ranks_own(ranks) + stages->count - 1) % stages->count;
    zt_status status = compare_programs(stages);
    if (!status) status = divide(stages, fixed, n_fixed);
    if (!status) status = make_room(stages);
    if (!status) return stages;
    zt_stages_close(stages);
    return NULL;
}

void zt_stages_close(zt_stages *stages)
{
    if (!stages) return;
    zt_ctx *ctx = stages->ctx;
    for (int i = 0; stages->received && i < stages->before.count; i++) zt_free(ctx, stages->received[i]);
    for (int i = 0; stages->computed && i < stages->after.count; i++) zt_free(ctx, stages->computed[i]);
    zt_free(ctx, stages->received);
    zt_free(ctx, stages->computed);
    zt_free(ctx, stages->received_bytes);
    zt_free(ctx, stages->computed_bytes);
    zt_free(ctx, stages->packed);
    zt_free(ctx, stages->in);
    zt_free(ctx, stages->out);
    zt_free(ctx, stages->inputs.items);
    zt_free(ctx, stages->before.items);
    zt_free(ctx, stages->after.items);
    zt_free(ctx, stages);
}

size_t zt_stages_bytes(const zt_stages *stages) { return stages ? stages->bytes : 0; }

/* ---- the program of a stage ------------------------------------------------------------------ */

/* Inputs, and the data and states that steps of the stage use. */
static void mark_declarations(const zt_stages *stages, bool *wanted)
{
    for (int i = 0; i < stages->inputs.count; i++) wanted[stages->inputs.items[i].value] = true;
    for (int step = stages->first; step < stages->end; step++)
        for (int k = 0; k < ZT_MAX_IN; k++)
            if (zt_prog_step(stages->program, step)->in[k] >= 0) wanted[zt_prog_step(stages->program, step)->in[k]] = true;
}

static zt_status declare_port(const zt_stages *stages, const zt_port *port, zt_rewrite *rewrite)
{
    int64_t dim[ZT_MAX_RANK];
    for (int axis = 0; axis < port->type.rank; axis++) {
        int64_t number = port->type.dim[axis];
        dim[axis] =
            number >= 0 ? number : zt_prog_symbol(rewrite->target, zt_prog_symbol_name(stages->program, (int)(-1 - number)));
    }
    const char *name = zt_prog_value(stages->program, port->value)->name;
    rewrite->map[port->value] = zt_prog_in(rewrite->target, name, port->type.dtype, port->type.rank, dim);
    return rewrite->map[port->value] < 0 ? zt_ctx_status(stages->ctx) : ZT_OK;
}

static zt_status keep_states(const zt_stages *stages, const zt_rewrite *rewrite)
{
    zt_status status = ZT_OK;
    for (int i = 0; i < zt_prog_count(stages->program, ZT_VALUE_STATE) && !status; i++) {
        int state = zt_prog_nth(stages->program, ZT_VALUE_STATE, i), keep = zt_prog_value(stages->program, state)->keep;
        if (keep >= 0 && rewrite->map[state] >= 0 && rewrite->map[keep] >= 0)
            status = zt_prog_keep(rewrite->target, rewrite->map[state], rewrite->map[keep]);
    }
    return status;
}

static zt_status put_outputs(const zt_stages *stages, const zt_rewrite *rewrite)
{
    bool last = stages->own == stages->count - 1;
    zt_status status = ZT_OK;
    for (int i = 0; i < stages->after.count && !status; i++) {
        int value = stages->after.items[i].value;
        status = zt_prog_out(rewrite->target, zt_prog_value(stages->program, value)->name, rewrite->map[value]);
    }
    for (int i = 0; last && i < zt_prog_n_outputs(stages->program) && !status; i++) {
        const zt_output *out = zt_prog_output(stages->program, i);
        status = zt_prog_out(rewrite->target, out->name, rewrite->map[out->value]);
    }
    return status;
}

zt_prog *zt_stages_prog(const zt_stages *stages)
{
    if (!stages) return NULL;
    size_t values = (size_t)zt_prog_n_values(stages->program) + 1;
    bool *wanted = zt_calloc(stages->ctx, values, sizeof *wanted);
    zt_rewrite rewrite = {.ctx = stages->ctx, .source = stages->program};
    rewrite.map = zt_calloc(stages->ctx, values, sizeof *rewrite.map);
    if (wanted && rewrite.map) {
        mark_declarations(stages, wanted);
        rewrite.target = zt_prog_like_some(stages->program, wanted, rewrite.map);
    }
    zt_status status = rewrite.target ? ZT_OK : zt_ctx_status(stages->ctx);
    for (int i = 0; i < stages->before.count && !status; i++) status = declare_port(stages, &stages->before.items[i], &rewrite);
    for (int step = stages->first; step < stages->end && !status; step++) status = zt_rewrite_copy(&rewrite, step, NULL);
    if (!status) status = keep_states(stages, &rewrite);
    if (!status) status = put_outputs(stages, &rewrite);
    zt_free(stages->ctx, wanted);
    zt_free(stages->ctx, rewrite.map);
    if (!status) return rewrite.target;
    zt_prog_free(rewrite.target);
    return NULL;
}
