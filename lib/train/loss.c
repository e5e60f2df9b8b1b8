/* loss.c - owns programs with a target and a loss added. */
#include "lib/base/require.h"
#include "lib/train/train_internal.h"
#include "lib/train/train.h"

#include <string.h>

static int find_output(const zt_prog *program, const char *name)
{
    for (int output = 0; output < zt_prog_n_outputs(program); output++)
        if (!name || !strcmp(zt_prog_output(program, output)->name, name)) return output;
    return -1;
}

/* The type of the target, from the output's type for the sample's numbers. */
static zt_status target_type(zt_ctx *ctx, const zt_prog *program, const zt_type *output, zt_loss_kind kind, zt_type *target)
{
    char text[ZT_TYPE_TEXT];
    int first = zt_prog_nth(program, ZT_VALUE_IN, 0);
    const zt_type *input = first < 0 ? NULL : &zt_prog_value(program, first)->type;
    bool classes = kind == ZT_LOSS_CROSS_ENTROPY;
    if (!input || input->rank < 1 || output->rank < (classes ? 2 : 1) || (output->dtype != ZT_F32 && output->dtype != ZT_F64))
        return zt_fail(ctx, ZT_EUSAGE, "output of type %s cannot have a %s loss: %s", zt_type_text(output, text),
                       classes ? "cross-entropy" : "mean squared error",
                       input && input->rank ? "it must be of floats, with rows first" : "the program has no rows");
    *target = zt_type_make(classes ? ZT_I32 : output->dtype, output->rank - classes, output->dim);
    target->dim[0] = input->dim[0];
    return ZT_OK;
}

/* Classes are the output's last dimension, and the second of cross_entropy: all dimensions before it become rows, of the
 * target too. */
static void flatten_classes(zt_prog *target_program, const zt_type *output, const zt_type *target_type, int *value, int *target)
{
    int64_t rows = target_type->dim[0];
    for (int axis = 1; axis < target_type->rank; axis++) rows = zt_prog_dim(target_program, '*', rows, target_type->dim[axis]);
    zt_reshape_attrs all = {{2, {rows, output->dim[output->rank - 1]}}}, each = {{1, {rows}}};
    *value = zt_program_reshape(target_program, NULL, *value, &all);
    *target = zt_program_reshape(target_program, NULL, *target, &each);
}

static zt_status write_loss(zt_prog *target_program, const zt_prog *program, int output, int target, zt_loss_kind kind,
                            const int *map, const zt_type *output_type, const zt_type *target_type)
{
    int prediction = map[zt_prog_output(program, output)->value];
    if (kind == ZT_LOSS_CROSS_ENTROPY && output_type->rank > 2)
        flatten_classes(target_program, output_type, target_type, &prediction, &target);
    int loss = kind == ZT_LOSS_MSE ? zt_program_mse(target_program, "loss", prediction, target, NULL)
                                   : zt_program_cross_entropy(target_program, "loss", prediction, target, ZT_NONE, NULL, NULL);
    zt_status status = loss < 0 ? ZT_EUSAGE : ZT_OK;
    for (int k = 0; k < zt_prog_n_outputs(program) && !status; k++)
        status = zt_prog_out(target_program, zt_prog_output(program, k)->name, map[zt_prog_output(program, k)->value]);
    return status ? status : zt_prog_out(target_program, "loss", loss);
}

zt_prog *zt_train_with_loss(zt_ctx *ctx, const zt_prog *program, const char *name, zt_loss_kind kind, const zt_binding *sample,
                            int n_sample)
{
    ZT_REQUIRE(ctx, program && n_sample >= 0 && (sample || !n_sample), NULL);
    zt_type target;
    int output = find_output(program, name);
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(program) + 1, sizeof *map);
    if (!map) return NULL;
    zt_status status = output < 0 ? zt_fail(ctx, ZT_EUSAGE, "the program has no output '%s'", name ? name : "") : ZT_OK;
    zt_bound *bound = status ? NULL : zt_prog_bind(program, sample, n_sample);
    const zt_type *output_type = bound ? &bound->type[zt_prog_output(program, output)->value] : NULL;
    if (bound) status = target_type(ctx, program, output_type, kind, &target);
    zt_prog *result = bound && !status ? zt_prog_like(program, map) : NULL;
    int target_input = result ? zt_prog_in(result, "target", target.dtype, target.rank, target.dim) : -1;
    bool good = target_input >= 0 && !zt_train_copy_ops(ctx, program, result, map) &&
                !write_loss(result, program, output, target_input, kind, map, output_type, &target);
    zt_bound_free(bound);
    zt_free(ctx, map);
    if (good) return result;
    zt_prog_free(result);
    return NULL;
}
