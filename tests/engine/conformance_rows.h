/* conformance_rows.h - for conformance.c: promise (b), a row does not know its neighbours. Parts of a case's
 * rows are run on their own, and must give the bits that they have in the whole. */
#ifndef ZT_TEST_CONFORMANCE_ROWS_H
#define ZT_TEST_CONFORMANCE_ROWS_H

#include "tests/engine/conformance_trial.h"

/* Inputs whose first dimension is the batch's rows (or images, or sequences), as bits; and the rank
 * of input `first` from which it is. */
typedef struct rows {
    unsigned inputs;
    int first, min_rank;
} rows;

// clang-format off
static const rows batch[ZT_OP_COUNT] = {
    [ZT_OP_argmax] = {1, 0, 2},       [ZT_OP_argmin] = {1, 0, 2},
    [ZT_OP_softmax] = {1, 0, 2},      [ZT_OP_log_softmax] = {1, 0, 2},
    [ZT_OP_cumsum] = {1, 0, 2},       [ZT_OP_linear] = {1, 0, 2},
    [ZT_OP_gather] = {2, 1, 1},       [ZT_OP_rms_norm] = {1, 0, 2},
    [ZT_OP_layer_norm] = {1, 0, 2},   [ZT_OP_add_rms_norm] = {3, 0, 2},
    [ZT_OP_norm_add] = {5, 0, 2},     [ZT_OP_rope] = {3, 0, 2},
    [ZT_OP_scaled_softmax] = {1, 0, 2}, [ZT_OP_qk_norm_rope] = {25, 0, 3},
    [ZT_OP_attention] = {25, 0, 2},   [ZT_OP_cumprod] = {1, 0, 2},
    [ZT_OP_attention_sinks] = {49, 0, 2}, [ZT_OP_attention_alibi] = {89, 0, 2},
    [ZT_OP_attention_chunked] = {25, 0, 2}, [ZT_OP_attention_indexed] = {233, 0, 2},
    [ZT_OP_matmul] = {1, 0, 2},       [ZT_OP_conv] = {1, 0, 2},
    [ZT_OP_max_pool] = {1, 0, 2},     [ZT_OP_avg_pool] = {1, 0, 2},
    [ZT_OP_lp_pool] = {1, 0, 2},      [ZT_OP_smooth_max_pool] = {1, 0, 2},
    [ZT_OP_conv_transpose] = {1, 0, 2}, [ZT_OP_linears] = {1, 0, 2},
    [ZT_OP_gated_linear] = {1, 0, 2}, [ZT_OP_linear_act] = {1, 0, 2},
    [ZT_OP_linear_add] = {5, 0, 2},   [ZT_OP_sample_token] = {255, 0, 2},
    [ZT_OP_expert_linear] = {5, 0, 2}, [ZT_OP_hadamard] = {1, 0, 2},
};
// clang-format on

/* An op of single elements has rows wherever all its operands have the same shape. */
static rows rows_of(const trial *tried)
{
    const zt_opdef *def = zt_op_info(tried->o.op)->def;
    unsigned inputs = 0;
    if (tried->o.op == ZT_OP_sample_token && tried->o.in[8] && tried->o.in[8]->rank == 2)
        return (rows){511, 0, 2}; /* rows have lists of their own */
    if (!(def->flags & ZT_OPF_ELEMENTWISE)) return batch[tried->o.op];
    for (int k = 0; k < ZT_MAX_IN; k++) {
        if (!tried->o.in[k]) continue;
        zt_type like = tried->o.out[0];
        like.dtype = tried->o.in[k]->dtype;
        if (!zt_type_equal(&like, tried->o.in[k])) return (rows){0};
        inputs |= 1u << k;
    }
    return (rows){inputs, 0, 1};
}

/* Attributes and inputs by which the first dimension is something else after all. */
static bool has_no_rows(const trial *t)
{
    zt_matmul_attrs m;
    memcpy(&m, t->c.attrs, sizeof m);
    if (t->o.op == ZT_OP_matmul) return m.ta || t->c.in[0].rank != 2 || t->c.in[1].rank != 2;
    return t->o.op == ZT_OP_conv_transpose && t->o.in[3]; /* like has its rows too */
}

/* Ops with an axis: the rows are one line of the case where it is the first. */
static bool goes_across_rows(const trial *tried)
{
    const zt_opinfo *info = zt_op_info(tried->o.op);
    for (int k = 0; k < info->n_attrs; k++) {
        int64_t axis;
        if (strcmp(info->attrs[k].name, "axis")) continue;
        memcpy(&axis, (const char *)tried->c.attrs + info->attrs[k].offset, sizeof axis);
        return axis == 0 || axis == -tried->c.in[0].rank;
    }
    return false;
}

/* Packed types may have rows that end within a byte. */
static bool rows_are_bytes(const zt_type *t, int64_t n) { return zt_type_count(t) / n % zt_dtype_get(t->dtype)->block == 0; }

static bool run_rows(trial *tried, const setup *options, int64_t count, int64_t begin, int64_t end, void *const *whole)
{
    const zt_opinfo *info = zt_op_info(tried->o.op);
    oneop part = tried->o;
    zt_type in[ZT_MAX_IN];
    void *result[ZT_MAX_OUT] = {0};
    bool good = true;
    rows by = rows_of(tried);
    for (int k = 0; k < info->n_in; k++) {
        if (!tried->o.in[k] || !(by.inputs >> k & 1)) continue;
        in[k] = *tried->o.in[k];
        in[k].dim[0] = end - begin;
        part.in[k] = &in[k];
        part.data[k] = (const char *)tried->data[k] + zt_type_bytes(tried->o.in[k]) / (size_t)count * (size_t)begin;
    }
    if (zt_op_infer(tried->ctx, part.op, part.attrs, part.in, part.out))
        return fails(tried, options->name, "part of the rows does not infer");
    new_results(tried->ctx, info, part.out, result);
    memcpy(part.result, result, sizeof result);
    if (oneop_run(options->engine, &part)) good = fails(tried, options->name, "part of the rows does not run");
    for (int k = 0; k < info->n_out && good; k++) {
        size_t row = zt_type_bytes(&tried->o.out[k]) / (size_t)count;
        if (memcmp(result[k], (char *)whole[k] + row * (size_t)begin, row * (size_t)(end - begin)))
            good = fails(tried, options->name, "rows depend on their batch");
    }
    for (int k = 0; k < info->n_out; k++) zt_free(tried->ctx, result[k]);
    return good;
}

static bool rows_alone(trial *tried, const setup *options, void *const *whole)
{
    rows by = rows_of(tried);
    if (!by.inputs || tried->c.in[by.first].rank < by.min_rank) return true;
    if (goes_across_rows(tried) || has_no_rows(tried)) return true;
    int64_t count = tried->c.in[by.first].dim[0];
    if (count < 2 || !rows_are_bytes(&tried->o.out[0], count)) return true;
    for (int k = 0; k < ZT_MAX_IN; k++)
        if (by.inputs >> k & 1 && tried->o.in[k] && !rows_are_bytes(tried->o.in[k], count)) return true;
    return run_rows(tried, options, count, 0, count / 2, whole) && run_rows(tried, options, count, count / 2, count, whole) &&
           run_rows(tried, options, count, count - 1, count, whole);
}

#endif
