/* recurrent_shared.c - owns what rows of recurrences and of their gradients share: steps of a
 * sequence, checks of inputs, shapes of cases. */
#include "lib/ops/recurrent.h"

/* ---- steps ----------------------------------------------------------------------------------- */

zt_steps zt_steps_of(const zt_type *first, int64_t H, int64_t reverse, const zt_arg *lengths)
{
    return (zt_steps){first->dim[0], first->dim[1], H, reverse != 0, lengths->type ? lengths->i : NULL};
}

int64_t zt_steps_length(const zt_steps *steps, int64_t n, zt_runtime_error *error)
{
    if (!steps->lengths) return steps->T;
    int64_t length = steps->lengths[n];
    if (length >= 0 && length <= steps->T) return length;
    zt_row_runtime_error(error, "length", length, steps->T + 1);
    return 0;
}

int64_t zt_steps_row(const zt_steps *steps, int64_t n, int64_t length, int64_t i)
{
    return (steps->reverse ? length - 1 - i : i) * steps->N + n;
}

/* ---- checks ---------------------------------------------------------------------------------- */

zt_status zt_recurrent_want(zt_ctx *ctx, const char *name, const zt_type *type, int rank, const int64_t *dim)
{
    char got[ZT_TYPE_TEXT], text[ZT_TYPE_TEXT];
    zt_type want = zt_type_make(ZT_F32, rank, dim);
    if (!type || zt_type_equal(type, &want)) return ZT_OK;
    return zt_row_fail(ctx, ZT_ESHAPE, "%s has type %s, expected %s", name, zt_type_text(type, got), zt_type_text(&want, text));
}

zt_status zt_recurrent_lengths(zt_ctx *ctx, const zt_type *lengths, int64_t N)
{
    if (!lengths) return ZT_OK;
    zt_status status = zt_row_want(ctx, "lengths", lengths, ZT_I32, 1);
    if (!status && lengths->dim[0] != N)
        status = zt_row_fail(ctx, ZT_ESHAPE, "lengths has %lld entries, expected %lld (sequences)", (long long)lengths->dim[0],
                             (long long)N);
    return status;
}

zt_status zt_recurrent_flag(zt_ctx *ctx, const char *name, int64_t value)
{
    if (value == 0 || value == 1) return ZT_OK;
    return zt_row_fail(ctx, ZT_EUSAGE, "%s is %lld: must be 0 or 1", name, (long long)value);
}

zt_status zt_recurrent_act(zt_ctx *ctx, const zt_enum_string *act)
{
    static const char *const words[] = {"tanh", "relu"};
    return zt_row_word(ctx, "act", act, words, ZT_LEN(words));
}

/* ---- cases ----------------------------------------------------------------------------------- */

bool zt_recurrent_case_at(int i, zt_recurrent_case *c)
{
    static const zt_recurrent_case rows[] = {
        {5, 2, 3, 4, true, true, true, false, false, false},    {1, 1, 1, 1, false, false, false, false, false, false},
        {4, 3, 2, 5, true, true, false, true, false, true},     {6, 4, 5, 3, true, false, true, true, true, false},
        {3, 2, 3, 6, false, true, true, false, true, true},     {7, 5, 33, 17, true, true, true, true, false, false},
        {2, 9, 18, 33, true, true, true, false, true, true},    {0, 2, 3, 4, true, true, true, true, false, false},
        {3, 0, 3, 4, true, true, true, true, false, true},      {3, 2, 0, 4, true, false, false, false, false, false},
        {3, 2, 4, 0, true, true, true, false, false, false},    {20, 8, 40, 64, true, true, false, false, false, false},
        {12, 3, 100, 96, true, false, false, true, true, true},
    };
    if (i >= ZT_LEN(rows)) return false;
    *c = rows[i];
    return true;
}
