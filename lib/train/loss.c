/* loss.c - owns how a program gets a target and a loss. */
#include "lib/train/copy.h"
#include "lib/train/train.h"

#include <string.h>

static int find_output(const zt_prog *p, const char *name)
{
    for (int o = 0; o < zt_prog_n_outputs(p); o++)
        if (!name || !strcmp(zt_prog_output(p, o)->name, name)) return o;
    return -1;
}

/* What the target is, of an output of type `y` under the sample's numbers. */
static zt_status target_type(zt_ctx *ctx, const zt_prog *p, const zt_type *y, zt_loss_kind kind,
                             zt_type *t)
{
    char text[ZT_TYPE_TEXT];
    int first = zt_prog_nth(p, ZT_VALUE_IN, 0);
    const zt_type *x = first < 0 ? NULL : &zt_prog_value(p, first)->type;
    bool classes = kind == ZT_LOSS_CROSS_ENTROPY;
    if (!x || x->rank < 1 || y->rank < (classes ? 2 : 1) ||
        (y->dtype != ZT_F32 && y->dtype != ZT_F64))
        return zt_fail(ctx, ZT_EUSAGE, "an output %s of %s has no %s", zt_type_text(y, text),
                       x && x->rank ? "floats, rows first," : "a program without rows",
                       classes ? "cross-entropy" : "mean of squares");
    *t = zt_type_make(classes ? ZT_I32 : y->dtype, y->rank - classes, y->dim);
    t->dim[0] = x->dim[0];
    return ZT_OK;
}

/* Classes are an output's last dimension, and cross_entropy's second: all before it become rows, and
 * so do the targets, which are of type t. */
static void flatten(zt_prog *to, const zt_type *y, const zt_type *t, int *value, int *target)
{
    int64_t rows = t->dim[0];
    for (int d = 1; d < t->rank; d++) rows = zt_prog_dim(to, '*', rows, t->dim[d]);
    zt_reshape_attrs all = {{2, {rows, y->dim[y->rank - 1]}}}, each = {{1, {rows}}};
    *value = zt_program_reshape(to, NULL, *value, &all);
    *target = zt_program_reshape(to, NULL, *target, &each);
}

static zt_status write_loss(zt_prog *to, const zt_prog *p, int o, int target, zt_loss_kind kind,
                            const int *map, const zt_type *out, const zt_type *t)
{
    int y = map[zt_prog_output(p, o)->value];
    if (kind == ZT_LOSS_CROSS_ENTROPY && out->rank > 2) flatten(to, out, t, &y, &target);
    int loss = kind == ZT_LOSS_MSE
                   ? zt_program_mse(to, "loss", y, target, NULL)
                   : zt_program_cross_entropy(to, "loss", y, target, ZT_NONE, NULL, NULL);
    zt_status s = loss < 0 ? ZT_EUSAGE : ZT_OK;
    for (int k = 0; k < zt_prog_n_outputs(p) && !s; k++)
        s = zt_prog_out(to, zt_prog_output(p, k)->name, map[zt_prog_output(p, k)->value]);
    return s ? s : zt_prog_out(to, "loss", loss);
}

zt_prog *zt_train_with_loss(zt_ctx *ctx, const zt_prog *p, const char *name, zt_loss_kind kind,
                            const zt_binding *sample, int n_sample)
{
    zt_type target;
    int o = find_output(p, name);
    int *map = zt_calloc(ctx, (size_t)zt_prog_n_values(p) + 1, sizeof *map);
    if (!map) return NULL;
    zt_status s =
        o < 0 ? zt_fail(ctx, ZT_EUSAGE, "the program has no output '%s'", name ? name : "") : ZT_OK;
    zt_bound *b = s ? NULL : zt_prog_bind(p, sample, n_sample);
    const zt_type *y = b ? &b->type[zt_prog_output(p, o)->value] : NULL;
    if (b) s = target_type(ctx, p, y, kind, &target);
    zt_prog *to = b && !s ? zt_prog_like(p, map) : NULL;
    int in = to ? zt_prog_in(to, "target", target.dtype, target.rank, target.dim) : -1;
    bool good =
        in >= 0 && !zt_train_copy_ops(ctx, p, to, map) && !write_loss(to, p, o, in, kind, map, y, &target);
    zt_bound_free(b);
    zt_free(ctx, map);
    if (good) return to;
    zt_prog_free(to);
    return NULL;
}
