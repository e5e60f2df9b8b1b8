/* emit.c - owns the typed emitters: one function an op, made from ops.def. */
#include "lib/prog/prog.h"

#include <stddef.h>
#include <stdio.h>

enum { NAME = 64 };

/* The name of a further output of an op whose first has a label: "LABEL_OUTPUT". An automatic name, "v" and a number, could be one that
 * the caller takes later. NULL: automatic, as it does not fit or is taken. */
static const char *name_output(const zt_prog *program, const char *label, const char *output, char name[NAME])
{
    if (!program || !label || snprintf(name, NAME, "%s_%s", label, output) >= NAME) return NULL;
    return zt_prog_find(program, name) < 0 ? name : NULL;
}

/* Emitters chain: after a failure they return -1 and change neither program nor first error (a
 * value of -1 is refused, and of errors the context keeps the first). */
static int emit_step(zt_prog *program, zt_op op, const char *label, const void *attrs, const int *inputs, int *const *more)
{
    const zt_opinfo *op_info = zt_op_info(op);
    const char *names[ZT_MAX_OUT] = {label};
    char made[ZT_MAX_OUT][NAME];
    int outputs[ZT_MAX_OUT] = {-1, -1, -1};
    for (int output = 1; output < op_info->n_out; output++)
        names[output] = more[output] ? name_output(program, label, op_info->out_name[output], made[output]) : "_";
    if (zt_prog_op(program, op, attrs, inputs, names, outputs)) outputs[0] = outputs[1] = outputs[2] = -1;
    for (int output = 1; output < op_info->n_out; output++)
        if (more[output]) *more[output] = outputs[output];
    return outputs[0];
}

// clang-format off
#define OP(op, ins, outs, attributes)                                                              \
    int zt_program_##op(zt_prog *p,                                                                   \
                     const char *label ZT_EMIT_##ins ZT_PARAM_##attributes(op) ZT_EMIT_##outs)     \
    {                                                                                              \
        return emit_step(p, ZT_OP_##op, label, ZT_ATTRS_##attributes, (const int[]){ZT_ARGS_##ins},     \
                    (int *const[]){ZT_MORE_##outs});                                               \
    }
// clang-format on
#include "lib/ops/ops.def"
#undef OP
