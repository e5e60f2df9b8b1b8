/* diff.c - two runs compared op by op, and two values element by element. */
#include "lib/base/require.h"
#include "lib/run/diff.h"

#include "lib/engine/convert.h"
#include "lib/run/rounding.h"

#include <math.h>
#include <string.h>

/* ---- two values ------------------------------------------------------------------------------ */

enum { CHUNK = 256 }; /* elements at a time: a whole number of blocks of every type */

typedef struct error_sums {
    double error, squares; /* sums of squares */
    int64_t finite;
    bool incomparable; /* something cannot be compared */
} error_sums;

/* One element's distance; infinite: it cannot be compared. */
static double element_distance(bool integer, double got, double want)
{
    if (got == want || (isnan(got) && isnan(want))) return 0;
    if (!isfinite(got) || !isfinite(want)) return INFINITY;
    return integer ? INFINITY : fabs(got - want);
}

static void count_element(zt_difference *difference, error_sums *sums, bool integer, int64_t i, double got, double want)
{
    double distance = element_distance(integer, got, want), shown = isfinite(got) && isfinite(want) ? fabs(got - want) : distance;
    if (isfinite(want)) {
        sums->squares += want * want;
        sums->finite++;
    }
    if (distance == 0) return;
    sums->incomparable = sums->incomparable || isinf(distance);
    if (!isinf(distance)) sums->error += distance * distance;
    if (difference->worst >= 0 && shown <= difference->max_abs) return;
    difference->worst = i;
    difference->max_abs = shown;
    difference->got = got;
    difference->want = want;
}

static double element_value(bool integer, const void *decoded, int64_t i)
{
    return integer ? (double)((const int64_t *)decoded)[i] : ((const double *)decoded)[i];
}

static void compare_chunk(const zt_type *type, int64_t start, int64_t count, const char *got, const char *want,
                          zt_difference *difference, error_sums *s)
{
    union {
        double f[CHUNK];
        int64_t i[CHUNK];
    } got_values, want_values;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    bool integer = !zt_dtype_is_float(type->dtype);
    size_t bytes = (size_t)info->block_bytes;
    for (int64_t block = 0; block * info->block < count; block++)
        difference->bits += memcmp(got + (size_t)block * bytes, want + (size_t)block * bytes, bytes) != 0;
    zt_widen(type->dtype, got, &got_values, count);
    zt_widen(type->dtype, want, &want_values, count);
    for (int64_t i = 0; i < count; i++) {
        /* Integers past 2^53 that round to one double. */
        bool hidden = integer && got_values.i[i] != want_values.i[i] && (double)got_values.i[i] == (double)want_values.i[i];
        count_element(difference, s, integer, start + i, element_value(integer, &got_values, i),
                      hidden ? NAN : element_value(integer, &want_values, i));
    }
}

void zt_compare(const zt_type *type, const void *got, const void *want, zt_difference *difference)
{
    if (!type || !difference) return;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    int64_t count = got && want ? zt_type_count(type) : 0;
    error_sums sums = {0};
    *difference = (zt_difference){.worst = -1};
    for (int64_t start = 0; start < count; start += CHUNK) {
        int64_t chunk = count - start < CHUNK ? count - start : CHUNK;
        size_t offset = (size_t)(start / info->block) * (size_t)info->block_bytes;
        compare_chunk(type, start, chunk, (const char *)got + offset, (const char *)want + offset, difference, &sums);
    }
    difference->rms = sums.finite ? sqrt(sums.squares / (double)sums.finite) : 0;
    difference->nmse = sums.incomparable  ? INFINITY
                       : sums.error == 0  ? 0
                       : sums.squares > 0 ? sums.error / sums.squares
                                          : INFINITY;
}

double zt_difference_share(const zt_difference *difference, double bound)
{
    if (!difference) return 0;
    const double one_of_many = 32;
    if (difference->worst < 0) return 0;
    if (bound <= 0 || !isfinite(difference->nmse)) return INFINITY;
    double of_mean = difference->nmse / bound, size = fmax(fabs(difference->want), difference->rms);
    double of_worst = difference->max_abs / (one_of_many * size * sqrt(bound));
    return fmax(of_mean, of_worst * of_worst);
}

void zt_summarize(const zt_type *type, const void *bytes, zt_summary *summary)
{
    if (!type || !bytes || !summary) return;
    union {
        double f[CHUNK];
        int64_t i[CHUNK];
    } decoded;
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    bool integer = !zt_dtype_is_float(type->dtype);
    int64_t count = zt_type_count(type), finite = 0;
    double sum = 0, squares = 0;
    *summary = (zt_summary){.min = INFINITY, .max = -INFINITY};
    for (int64_t start = 0; start < count; start += CHUNK) {
        int64_t chunk = count - start < CHUNK ? count - start : CHUNK;
        zt_widen(type->dtype, (const char *)bytes + start / info->block * info->block_bytes, &decoded, chunk);
        for (int64_t i = 0; i < chunk; i++) {
            double value = element_value(integer, &decoded, i);
            summary->nan += isnan(value) != 0;
            summary->infinite += isinf(value) != 0;
            if (!isfinite(value)) continue;
            finite++;
            sum += value;
            squares += value * value;
            summary->min = fmin(summary->min, value);
            summary->max = fmax(summary->max, value);
        }
    }
    if (!finite) summary->min = summary->max = 0;
    summary->mean = finite ? sum / (double)finite : 0;
    summary->rms = finite ? sqrt(squares / (double)finite) : 0;
}

/* ---- two runs -------------------------------------------------------------------------------- */

typedef struct diff_pair {
    zt_interpreter *reference, *tested;
    const zt_prog *reference_program, *tested_program;
    const zt_diff_opts *options;
    int *reference_value; /* [values of b]: the value of a, or -1 */
    double *roots;        /* [values of b]: root of the bound on what may have added up, through */
    zt_diff_fn *fn;
    void *user;
} diff_pair;

/* How much rougher than normal numbers x is where it is rounded in blocks of 32 by their largest:
 * the mean of the largest's square, of that of all, over the six that normal numbers have. */
static double measure_roughness(const zt_type *type, const void *bytes)
{
    double decoded[32], squares = 0, largest = 0;
    int64_t cols = type->rank ? type->dim[type->rank - 1] : 1, count = zt_type_count(type);
    const zt_dtype_info *info = zt_dtype_get(type->dtype);
    for (int64_t row = 0; row + cols <= count && cols > 0; row += cols) {
        for (int64_t start = 0; start < cols; start += 32) {
            int64_t chunk = cols - start < 32 ? cols - start : 32;
            double most = 0;
            zt_widen(type->dtype, (const char *)bytes + (row + start) * info->block_bytes, decoded, chunk);
            for (int64_t i = 0; i < chunk; i++) {
                squares += decoded[i] * decoded[i];
                most = fmax(most, decoded[i] * decoded[i]);
            }
            largest += most * (double)chunk;
        }
    }
    return squares > 0 && isfinite(largest) ? fmax(1, largest / squares / 6) : 1;
}

/* The root of the bound of the output of the step, when what the op reads
 * may be off by `before`, a root of NMSE. */
static double output_bound_root(zt_interpreter *interpreter, int step_index, int output_index, const zt_diff_opts *options,
                                double before)
{
    const zt_bound *bound = zt_interpreter_bound(interpreter);
    const zt_step *step = zt_prog_step(zt_interpreter_prog(interpreter), step_index);
    const zt_type *input_types[ZT_MAX_IN] = {0}, *output_types = &bound->type[step->out[output_index]];
    for (int input = 0; input < zt_op_info(step->op)->n_in; input++)
        input_types[input] = step->in[input] < 0 ? NULL : &bound->type[step->in[input]];
    double own = zt_op_bound(step->op, bound->attrs[step_index], input_types, output_types);
    /* What only moves or rounds rounds other values to the other side now and then, as a cast. */
    if (before > 0) own = fmax(own, zt_op_bound(ZT_OP_cast, NULL, input_types, output_types));
    double root = sqrt(own) * (options->judge ? 1 : 2);
    const void *input_bytes =
        zt_op_rounds(step->op, bound->attrs[step_index], input_types) ? zt_interpreter_get(interpreter, step->in[0]) : NULL;
    if (input_bytes && zt_dtype_get(input_types[0]->dtype)->kind == 'F')
        root *= sqrt(measure_roughness(input_types[0], input_bytes));
    return options->exact ? 0 : zt_dtype_is_float(output_types->dtype) ? root + before : root;
}

/* Compares what both have. */
static zt_status fill_item(zt_interpreter *reference, zt_interpreter *tested, const zt_diff_opts *options, double root,
                           zt_diff_item *item)
{
    const void *want = zt_interpreter_get(reference, item->reference_value), *got = zt_interpreter_get(tested, item->value);
    if (!want || !got) return zt_ctx_status(zt_interpreter_ctx(reference));
    zt_compare(&zt_interpreter_bound(tested)->type[item->value], got, want, &item->difference);
    item->bound = root * root;
    item->share = zt_difference_share(&item->difference, item->bound);
    if (options->exact) item->share = item->difference.bits ? INFINITY : 0;
    return ZT_OK;
}

/* An input with outliers that the weights hardly meet makes an output far smaller than its errors:
 * then they are estimated from the numbers. The bound is as many times the estimate as that of the
 * op, which is for normal numbers, is of theirs. */
static zt_status widen_bound(zt_interpreter *tested, const zt_diff_opts *options, double before, zt_diff_item *item)
{
    const double margin = 16;
    double size =
        item->difference.rms * item->difference.rms * (double)zt_type_count(&zt_interpreter_bound(tested)->type[item->value]);
    if (options->exact || item->share <= 1 || !isfinite(item->difference.nmse) || size <= 0) return ZT_OK;
    double error = zt_rounding_error(tested, item->step, item->output);
    double root = sqrt(margin * error / size) * (options->judge ? 1 : 2) + before;
    if (error > 0 && root * root > item->bound) {
        item->bound = root * root;
        item->share = zt_difference_share(&item->difference, item->bound);
    }
    return zt_ctx_status(zt_interpreter_ctx(tested));
}

zt_status zt_diff_step(zt_interpreter *reference, zt_interpreter *tested, int step, int output_index, const zt_diff_opts *options,
                       zt_diff_item *item)
{
    ZT_REQUIRE(zt_interpreter_ctx(reference),
               options && item && zt_prog_step(zt_interpreter_prog(tested), step) && output_index >= 0 &&
                   output_index < ZT_MAX_OUT,
               ZT_EUSAGE);
    if (!reference || !tested || !options || !item) return ZT_EUSAGE;
    int value_id = zt_prog_step(zt_interpreter_prog(tested), step)->out[output_index];
    *item = (zt_diff_item){.step = step, .output = output_index, .value = value_id, .reference_value = value_id};
    zt_status status = fill_item(reference, tested, options, output_bound_root(tested, step, output_index, options, 0), item);
    return status ? status : widen_bound(tested, options, 0, item);
}

/* The value of a that has b's name and type. */
static int find_namesake(const diff_pair *pair, int value_id)
{
    int found = zt_prog_find(pair->reference_program, zt_prog_value(pair->tested_program, value_id)->name);
    if (found < 0) return -1;
    return zt_type_equal(&zt_interpreter_bound(pair->reference)->type[found], &zt_interpreter_bound(pair->tested)->type[value_id])
               ? found
               : -1;
}

static zt_status give_value(diff_pair *pair, zt_ctx *ctx, int value_id)
{
    const void *bytes = zt_interpreter_get(pair->reference, pair->reference_value[value_id]);
    return bytes ? zt_interpreter_put(pair->tested, value_id, bytes) : zt_ctx_status(ctx);
}

/* Inputs and states of b, from a. */
static zt_status give_all(diff_pair *pair, zt_ctx *ctx)
{
    zt_status status = ZT_OK;
    for (int value_id = 0; value_id < zt_prog_n_values(pair->tested_program) && !status; value_id++) {
        const zt_value *value = zt_prog_value(pair->tested_program, value_id);
        if (value->kind == ZT_VALUE_IN && pair->reference_value[value_id] < 0)
            return zt_fail(ctx, ZT_EDATA, "input '%s' is missing from one program or has another type there", value->name);
        if ((value->kind == ZT_VALUE_IN || value->kind == ZT_VALUE_STATE) && pair->reference_value[value_id] >= 0)
            status = give_value(pair, ctx, value_id);
    }
    return status;
}

/* What step s reads, as a has it. */
static zt_status give_inputs(diff_pair *pair, zt_ctx *ctx, const zt_step *step)
{
    zt_status status = ZT_OK;
    for (int input = 0; input < zt_op_info(step->op)->n_in && !status; input++) {
        int value_id = step->in[input];
        if (value_id >= 0 && pair->reference_value[value_id] >= 0 &&
            zt_prog_value(pair->tested_program, value_id)->kind == ZT_VALUE_OP)
            status = give_value(pair, ctx, value_id);
    }
    return status;
}

static zt_status report_item(diff_pair *pair, int step_index, const zt_step *step, int output_index)
{
    double before = 0;
    zt_diff_item item = {.step = step_index,
                         .output = output_index,
                         .value = step->out[output_index],
                         .reference_value = pair->reference_value[step->out[output_index]]};
    for (int input = 0; input < zt_op_info(step->op)->n_in && pair->options->through; input++)
        if (step->in[input] >= 0) before = fmax(before, pair->roots[step->in[input]]);
    pair->roots[item.value] = output_bound_root(pair->tested, step_index, output_index, pair->options, before);
    if (item.reference_value < 0) return ZT_OK;
    zt_status bad = fill_item(pair->reference, pair->tested, pair->options, pair->roots[item.value], &item);
    if (!bad) bad = widen_bound(pair->tested, pair->options, before, &item);
    pair->roots[item.value] = fmax(pair->roots[item.value], sqrt(item.bound));
    return bad ? bad : pair->fn(pair->user, &item);
}

static zt_status run_tested(diff_pair *pair, zt_ctx *ctx)
{
    zt_status bad = give_all(pair, ctx);
    for (int step_index = 0; step_index < zt_prog_n_steps(pair->tested_program) && !bad; step_index++) {
        const zt_step *step = zt_prog_step(pair->tested_program, step_index);
        if (!pair->options->through) bad = give_inputs(pair, ctx, step);
        if (!bad) bad = zt_interpreter_step(pair->tested, step_index);
        for (int output = 0; output < zt_op_info(step->op)->n_out && !bad; output++)
            if (step->out[output] >= 0) bad = report_item(pair, step_index, step, output);
    }
    return bad;
}

zt_status zt_diff(zt_interpreter *reference, zt_interpreter *tested, const zt_diff_opts *options, zt_diff_fn *fn, void *user)
{
    static const zt_diff_opts plain;
    zt_ctx *ctx = zt_interpreter_ctx(reference ? reference : tested);
    ZT_REQUIRE(ctx, reference && tested, ZT_EUSAGE);
    const zt_prog *reference_program = zt_interpreter_prog(reference), *tested_program = zt_interpreter_prog(tested);
    size_t value_slots = (size_t)zt_prog_n_values(tested_program) + 1;
    diff_pair pair = {.reference = reference,
                      .tested = tested,
                      .reference_program = reference_program,
                      .tested_program = tested_program,
                      .options = options ? options : &plain,
                      .fn = fn,
                      .user = user};
    zt_status status = ZT_OK;
    for (int step_index = 0; step_index < zt_prog_n_steps(reference_program) && !status; step_index++)
        status = zt_interpreter_step(reference, step_index);
    pair.reference_value = zt_calloc(ctx, value_slots, sizeof *pair.reference_value);
    pair.roots = zt_calloc(ctx, value_slots, sizeof *pair.roots);
    if (!status && (!pair.reference_value || !pair.roots)) status = ZT_ENOMEM;
    for (int value_id = 0; value_id < zt_prog_n_values(tested_program) && !status; value_id++)
        pair.reference_value[value_id] = find_namesake(&pair, value_id);
    if (!status) status = run_tested(&pair, ctx);
    zt_free(ctx, pair.reference_value);
    zt_free(ctx, pair.roots);
    return status;
}
