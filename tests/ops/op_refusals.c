/* op_refusals.c - what ops refuse, and in which words: dtypes, shapes and attributes that cannot be; of
 * every op an input that is missing, and one that is no type. (Windows: conv_pool.c.) */
#include "lib/ops/ops.h"
#include "tests/common/refusal.h"
#include "tests/common/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static union {
    zt_linear_attrs linear;
    zt_gelu_attrs gelu;
    zt_geglu_attrs geglu;
    zt_cast_attrs cast;
    zt_softcap_attrs softcap;
    zt_reshape_attrs reshape;
    zt_rms_norm_attrs rms_norm;
    zt_rope_attrs rope;
    zt_attention_attrs attention;
    zt_attention_alibi_attrs alibi;
    zt_layer_norm_attrs layer_norm;
    zt_slice_attrs slice;
    zt_sum_attrs sum;
    zt_argmax_attrs argmax;
    zt_transpose_attrs transpose;
    zt_repeat_attrs repeat;
    zt_uncat_attrs uncat;
    zt_gather_elements_attrs elements;
    zt_one_hot_attrs one_hot;
} const bad_word_linear = {.linear = {{"bf9"}}}, bad_gelu = {.gelu = {{"sin"}}}, bad_geglu = {.geglu = {{""}}},
        to_block = {.cast = {{"q4_0"}}}, to_nothing = {.cast = {{"f33\n"}}}, no_cap = {.softcap = {0}},
        nan_cap = {.softcap = {NAN}}, shape23 = {.reshape = {{2, {2, 3}}}}, shape_negative = {.reshape = {{1, {-6}}}},
        shape_huge = {.reshape = {{3, {INT64_MAX, INT64_MAX, 2}}}}, shape_many = {.reshape = {{11, {1}}}},
        norm5 = {.rms_norm = {1e-5, 5}}, norm_negative = {.rms_norm = {1e-5, -4}},
        rope_odd = {.rope = {1e4, 3, 4, {"halves"}, 1, 1, 0, 0, 0}}, rope_wide = {.rope = {1e4, 8, 4, {"halves"}, 1, 1, 0, 0, 0}},
        rope_uneven = {.rope = {1e4, 4, 6, {"halves"}, 1, 1, 0, 0, 0}},
        rope_word = {.rope = {1e4, 0, 0, {"thirds"}, 1, 1, 0, 0, 0}}, rope_theta = {.rope = {0, 0, 0, {"halves"}, 1, 1, 0, 0, 0}},
        head4 = {.attention = {4, 0, 0, 0}}, head0 = {.attention = {0, 0, 0, 0}}, head3 = {.attention = {3, 0, 0, 0}},
        bias8 = {.alibi = {4, 0, 0, 0, 8}}, no_bias = {.alibi = {4, 0, 0, 0, 0}}, huge_bias = {.alibi = {4, 0, 0, 0, 1025}},
        window_negative = {.attention = {4, 0, -1, 0}}, cap_negative = {.attention = {4, 0, 0, -1}},
        rope_nan = {.rope = {1e4, 0, 0, {"halves"}, NAN, 1, 0, 0, 0}}, eps_negative = {.layer_norm = {-1}},
        slice_axis = {.slice = {2, 0, 1}}, slice_far = {.slice = {1, 0, 9}}, slice_back = {.slice = {-1, 5, 3}},
        slice_low = {.slice = {1, INT64_MIN, 3}}, axes_far = {.sum = {{1, {2}}, 0}}, axes_low = {.sum = {{1, {INT64_MIN}}, 0}},
        axes_twice = {.sum = {{2, {1, -1}}, 0}}, axes_many = {.sum = {{11, {0}}, 0}}, keep2 = {.sum = {{1, {0}}, 2}},
        axis_far = {.argmax = {-3, 0}}, turn_short = {.transpose = {{1, {0}}}}, turn_twice = {.transpose = {{2, {1, 1}}}},
        times0 = {.repeat = {0, 0}}, times_huge = {.repeat = {0, INT64_MAX}}, part4 = {.uncat = {0, 4}},
        oob_word = {.elements = {0, {"wrap"}}}, elements1 = {.elements = {1, {"error"}}},
        depth_low = {.one_hot = {-1, {"error"}}};

static const refusal refusals[] = {
    {ZT_OP_add, NULL, ZT_ESHAPE, "dimensions 3 and 4 cannot be broadcast", {"f32 2 3", "f32 2 4"}},
    {ZT_OP_add, NULL, ZT_ESHAPE, "different dtypes", {"f32 2 3", "f16 2 3"}},
    {ZT_OP_add, NULL, ZT_EUSAGE, "missing input 'b'", {"f32 2 3"}},
    {ZT_OP_mul, NULL, ZT_ESHAPE, "a is bool", {"bool 2 3", "bool 2 3"}},
    {ZT_OP_div, NULL, ZT_ESHAPE, "block type", {"q8_0 2 32", "q8_0 2 32"}},
    {ZT_OP_pow, NULL, ZT_ESHAPE, "has dtype i32", {"i32 3", "i32 3"}},
    {ZT_OP_eq, NULL, ZT_ESHAPE, "different dtypes", {"i32 3", "i64 3"}},
    {ZT_OP_where, NULL, ZT_ESHAPE, "cannot be broadcast", {"bool 3", "f32 2", "f32 2"}},
    {ZT_OP_neg, NULL, ZT_ESHAPE, "x has dtype bool: must be a plain numeric type", {"bool 3"}},
    {ZT_OP_exp, NULL, ZT_ESHAPE, "x has dtype i32: must be a plain float type", {"i32 3"}},
    {ZT_OP_mod, NULL, ZT_ESHAPE, "different dtypes", {"i32 3", "i64 3"}},
    {ZT_OP_fmod, NULL, ZT_ESHAPE, "cannot be broadcast", {"f32 3", "f32 2"}},
    {ZT_OP_bitwise_and, NULL, ZT_ESHAPE, "a has dtype f32: must be an integer type", {"f32 3", "f32 3"}},
    {ZT_OP_bitwise_not, NULL, ZT_ESHAPE, "x has dtype bool: must be an integer type", {"bool 3"}},
    {ZT_OP_shift_left, NULL, ZT_ESHAPE, "different dtypes", {"i32 3", "i8 3"}},
    {ZT_OP_isnan, NULL, ZT_ESHAPE, "x has dtype i32: must be a plain float type", {"i32 3"}},
    {ZT_OP_isinf, NULL, ZT_ESHAPE, "x has dtype bool: must be a plain float", {"bool 3"}},
    {ZT_OP_prelu, NULL, ZT_ESHAPE, "slope does not broadcast to x's shape", {"f32 3", "f32 2 3"}},
    {ZT_OP_prelu, NULL, ZT_ESHAPE, "different dtypes", {"f32 3", "f16 3"}},
    {ZT_OP_sum_to, NULL, ZT_ESHAPE, "f32[4] cannot be broadcast to f32[2,3]", {"f32 2 3", "f32 4"}},
    {ZT_OP_broadcast_to, NULL, ZT_ESHAPE, "f32[2,3] cannot be broadcast to f32[3]", {"f32 2 3", "f32 3"}},
    {ZT_OP_reshape_like, NULL, ZT_ESHAPE, "like has 5 elements, but x has 6", {"f32 2 3", "f32 5"}},
    {ZT_OP_matmul, NULL, ZT_ESHAPE, "a has 3 columns, but b has 4 rows", {"f32 2 3", "f32 4 5"}},
    {ZT_OP_matmul, NULL, ZT_ESHAPE, "b must have at least 2 dimensions", {"f32 2 3", "f32 3"}},
    {ZT_OP_scatter_add, NULL, ZT_ESHAPE, "y must have one row of x for each index", {"f32 2 3", "i32 4", "f32 3 3"}},
    {ZT_OP_slice_put, NULL, ZT_ESHAPE, "x must have the shape of the slice", {"f32 2 3", "f32 2 4"}},
    /* recurrences */
    {ZT_OP_rnn,
     &(zt_rnn_attrs){{"sin"}, 0},
     ZT_EUSAGE,
     "act is 'sin': must be tanh or relu",
     {"f32 5 2 3", "f32 4 3", "f32 4 4"}},
    {ZT_OP_rnn, &(zt_rnn_attrs){{"tanh"}, 2}, ZT_EUSAGE, "reverse is 2", {"f32 5 2 3", "f32 4 3", "f32 4 4"}},
    {ZT_OP_rnn, NULL, ZT_ESHAPE, "x has 2 dimensions, expected 3", {"f32 2 3", "f32 4 3", "f32 4 4"}},
    {ZT_OP_rnn,
     NULL,
     ZT_ESHAPE,
     "lengths has 2 entries, expected 3 (sequences)",
     {"f32 5 3 3", "f32 4 3", "f32 4 4", NULL, NULL, "i32 2"}},
    {ZT_OP_lstm, NULL, ZT_ESHAPE, "w_hh has type f32[12,4], expected f32[16,4]", {"f32 5 2 3", "f32 16 3", "f32 12 4"}},
    {ZT_OP_lstm, NULL, ZT_ESHAPE, "w_ih has type f32[16,2], expected f32[16,3]", {"f32 5 2 3", "f32 16 2", "f32 16 4"}},
    {ZT_OP_lstm,
     NULL,
     ZT_ESHAPE,
     "peep has type f32[4], expected f32[3,4]",
     {"f32 5 2 3", "f32 16 3", "f32 16 4", NULL, NULL, NULL, "f32 4"}},
    {ZT_OP_gru, NULL, ZT_ESHAPE, "b_hh has type f32[4], expected f32[12]", {"f32 5 2 3", "f32 12 3", "f32 12 4", NULL, "f32 4"}},
    {ZT_OP_gru, &(zt_gru_attrs){2, 0}, ZT_EUSAGE, "linear_before_reset is 2", {"f32 5 2 3", "f32 12 3", "f32 12 4"}},
    {ZT_OP_gru_backward, NULL, ZT_ESHAPE, "saved has type f32[5,2,8], expected f32[5,2,20]", {"f32 5 2 8", "f32 12 4"}},
    {ZT_OP_lstm_backward,
     NULL,
     ZT_ESHAPE,
     "dy has type f32[5,2,3], expected f32[5,2,4]",
     {"f32 5 2 28", "f32 16 4", NULL, NULL, "f32 5 2 3"}},
    /* normalisation by channels */
    {ZT_OP_batch_norm, NULL, ZT_ESHAPE, "x has 1 dimensions", {"f32 5"}},
    {ZT_OP_batch_norm, NULL, ZT_ESHAPE, "g has 2 entries, expected 3 (channels)", {"f32 5 3", "f32 2"}},
    {ZT_OP_batch_norm, &(zt_batch_norm_attrs){-1, 0.1, 1}, ZT_EUSAGE, "eps is -1", {"f32 5 3"}},
    {ZT_OP_batch_norm, &(zt_batch_norm_attrs){0, NAN, 1}, ZT_EUSAGE, "momentum must be finite", {"f32 5 3"}},
    {ZT_OP_batch_norm_inference, NULL, ZT_ESHAPE, "mean has type f16, expected f32", {"f16 5 3", "f16 3", "f32 3"}},
    {ZT_OP_batch_norm_backward, NULL, ZT_ESHAPE, "dy must have the type of x", {"f32 5 3", "f32 3", "f32 3", "f32 5"}},
    {ZT_OP_group_norm, &(zt_group_norm_attrs){2, 1e-5}, ZT_ESHAPE, "3 channels are not divisible into 2 groups", {"f32 5 3"}},
    {ZT_OP_group_norm_backward,
     NULL,
     ZT_ESHAPE,
     "mean must have one entry for each sample and group of x",
     {"f32 5 3", "f32 4 1", "f32 4 1", "f32 5 3"}},
    /* losses */
    {ZT_OP_mse, NULL, ZT_ESHAPE, "target has type f32[3], but x has f32[2,3]", {"f32 2 3", "f32 3"}},
    {ZT_OP_mse, &(zt_mse_attrs){{"max"}}, ZT_EUSAGE, "reduction is 'max'", {"f32 3", "f32 3"}},
    {ZT_OP_smooth_l1, &(zt_smooth_l1_attrs){0, {"mean"}}, ZT_EUSAGE, "beta is 0", {"f32 3", "f32 3"}},
    {ZT_OP_bce_with_logits, NULL, ZT_ESHAPE, "has dtype i32", {"i32 3", "i32 3"}},
    {ZT_OP_cross_entropy, NULL, ZT_ESHAPE, "target has type i32[3], expected i32[2]", {"f32 2 3", "i32 3"}},
    {ZT_OP_cross_entropy, NULL, ZT_ESHAPE, "weight has 2 entries, expected 3 (classes)", {"f32 2 3", "i32 2", "f32 2"}},
    {ZT_OP_cross_entropy, &(zt_cross_entropy_attrs){{"mean"}, 0, 1.5}, ZT_EUSAGE, "label_smoothing is 1.5", {"f32 2 3", "i32 2"}},
    {ZT_OP_nll, NULL, ZT_ESHAPE, "x has 1 dimensions", {"f32 3", "i32 3"}},
    {ZT_OP_nll_backward, NULL, ZT_ESHAPE, "dy must have the type of the loss", {"f32 2 3", "i32 2", "f32 2"}},
    {ZT_OP_entmax, &(zt_entmax_attrs){0, 1}, ZT_EUSAGE, "alpha is 1: must be greater than 1", {"f32 3"}},
    {ZT_OP_entmax, &(zt_entmax_attrs){1, 2}, ZT_ESHAPE, "axis 1 is out of range for 1 dimensions", {"f32 3"}},
    /* random numbers, transforms */
    {ZT_OP_random_uniform, NULL, ZT_ESHAPE, "counter has type i32, expected i64", {"i32"}},
    {ZT_OP_random_normal,
     &(zt_random_normal_attrs){{1, {3}}, 0, 0, INFINITY},
     ZT_EUSAGE,
     "parameters 0 and inf must be finite",
     {"i64"}},
    {ZT_OP_random_normal,
     &(zt_random_normal_attrs){{1, {3}}, 0, 0, 1},
     ZT_EUSAGE,
     "like and shape exclude each other",
     {"i64", "f32 3"}},
    {ZT_OP_rfft, &(zt_rfft_attrs){{"none"}}, ZT_EUSAGE, "norm is 'none'", {"f32 8"}},
    {ZT_OP_irfft, NULL, ZT_ESHAPE, "x must have shape [...,m,2]", {"f32 5 3"}},
    {ZT_OP_irfft, &(zt_irfft_attrs){5, {"ortho"}}, ZT_ESHAPE, "5 bins do not match a length of 5", {"f32 5 2"}},
    {ZT_OP_dft,
     &(zt_dft_attrs){1, 0, 0, {"ortho"}},
     ZT_ESHAPE,
     "axis 1 is out of range for 1 dimensions before the pairs",
     {"f32 5 2"}},
    {ZT_OP_dft, &(zt_dft_attrs){0, 0, -1, {"ortho"}}, ZT_EUSAGE, "length is -1", {"f32 5 2"}},
    {ZT_OP_spectral_conv1d_rfft,
     NULL,
     ZT_ESHAPE,
     "6 modes exceed the 5 bins of the spectrum",
     {"f32 8 2", "f32 6 2 3", "f32 6 2 3"}},
    {ZT_OP_spectral_conv1d_rfft, NULL, ZT_ESHAPE, "w_re takes 3 channels, but x has 2", {"f32 8 2", "f32 4 3 3", "f32 4 3 3"}},
    {ZT_OP_mul, NULL, ZT_ESHAPE, "cannot be broadcast", {"f32 0", "f32 2"}},
    {ZT_OP_scale, NULL, ZT_ESHAPE, "x has dtype q8_0: must be a plain float type", {"q8_0 2 32"}},
    {ZT_OP_softcap, NULL, ZT_ESHAPE, "has dtype i32", {"i32 3"}},
    {ZT_OP_softcap, &no_cap, ZT_EUSAGE, "cap is 0", {"f32 3"}},
    {ZT_OP_softcap, &nan_cap, ZT_EUSAGE, "cap is", {"f32 3"}},
    {ZT_OP_silu, NULL, ZT_ESHAPE, "x has dtype u8: must be a plain float type", {"u8 3"}},
    {ZT_OP_gelu, NULL, ZT_ESHAPE, "x has dtype bool: must be a plain float", {"bool 3"}},
    {ZT_OP_gelu, &bad_gelu, ZT_EUSAGE, "form is 'sin': must be tanh or erf", {"f32 3"}},
    {ZT_OP_swiglu, NULL, ZT_ESHAPE, "gate and up must have the same type", {"f32 2 3", "f32 3 2"}},
    {ZT_OP_geglu, NULL, ZT_ESHAPE, "gate and up must have the same type", {"f32 2 3", "f16 2 3"}},
    {ZT_OP_geglu, &bad_geglu, ZT_EUSAGE, "form is ''", {"f32 2 3", "f32 2 3"}},
    {ZT_OP_cast, &to_block, ZT_ESHAPE, "q4_0 is a block type without an encoder", {"f32 32"}},
    {ZT_OP_cast, &to_nothing, ZT_EUSAGE, "'f33\\x0a'", {"f32 32"}},
    {ZT_OP_argmax, NULL, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension", {"f32"}},
    {ZT_OP_softmax, NULL, ZT_ESHAPE, "x has dtype i32: must be a plain float type", {"i32 2 3"}},
    {ZT_OP_argmax, &axis_far, ZT_ESHAPE, "axis -3 is out of range for 2 dimensions", {"f32 2 3"}},
    {ZT_OP_sum, &axes_far, ZT_ESHAPE, "axis 2 is out of range for 2 dimensions", {"f32 2 3"}},
    {ZT_OP_sum, &axes_low, ZT_ESHAPE, "axis -9223372036854775808 is out of range for 2 dimensions", {"f32 2 3"}},
    {ZT_OP_sum, &axes_twice, ZT_EUSAGE, "duplicate axis 1", {"f32 2 3"}},
    {ZT_OP_sum, &axes_many, ZT_EUSAGE, "too many axes (11)", {"f32 2 3"}},
    {ZT_OP_sum, &keep2, ZT_EUSAGE, "keepdims is 2", {"f32 2 3"}},
    {ZT_OP_sum, NULL, ZT_ESHAPE, "x has dtype bool: must be a plain float", {"bool 2 3"}},
    {ZT_OP_mean, NULL, ZT_ESHAPE, "has dtype i32", {"i32 2 3"}},
    {ZT_OP_amax, NULL, ZT_ESHAPE, "cannot reduce an empty set of integers", {"i32 0 3"}},
    {ZT_OP_transpose, &turn_short, ZT_ESHAPE, "axes has 1 entries, expected 2 (dimensions)", {"f32 2 3"}},
    {ZT_OP_transpose, &turn_twice, ZT_EUSAGE, "duplicate axis 1", {"f32 2 3"}},
    {ZT_OP_transpose, NULL, ZT_ESHAPE, "block type", {"q8_0 2 32"}},
    {ZT_OP_concat, NULL, ZT_ESHAPE, "b must have the shape of a except along axis 0", {"f32 2 3", "f32 2 4"}},
    {ZT_OP_concat, NULL, ZT_ESHAPE, "c must have the shape of a except along axis 0", {"f32 2 3", NULL, "f16 2 3"}},
    {ZT_OP_concat, NULL, ZT_ESHAPE, "axis 0 is out of range for 0 dimensions", {"f32"}},
    {ZT_OP_uncat, &part4, ZT_EUSAGE, "part 4 is out of range", {"f32 2 3", "f32 2 3"}},
    {ZT_OP_uncat, NULL, ZT_ESHAPE, "x does not have the shape of the concatenated parts", {"f32 2 3", "f32 2 3", "f32 1 3"}},
    {ZT_OP_repeat, &times0, ZT_EUSAGE, "times is 0", {"f32 2 3"}},
    {ZT_OP_repeat, &times_huge, ZT_ESHAPE, "has too many elements", {"f32 2 3"}},
    {ZT_OP_gather_elements, &oob_word, ZT_EUSAGE, "oob is 'wrap'", {"f32 2 3", "i32 2 3"}},
    {ZT_OP_gather_elements, &elements1, ZT_ESHAPE, "i has 3 entries along axis 0, but x has 2", {"f32 2 3", "i32 3 3"}},
    {ZT_OP_scatter_add_elements,
     NULL,
     ZT_ESHAPE,
     "y must have the dtype of x and the shape of i",
     {"f32 2 3", "i32 2 3", "f32 2 2"}},
    {ZT_OP_one_hot, &depth_low, ZT_EUSAGE, "depth is -1", {"i32 3"}},
    {ZT_OP_linear, NULL, ZT_ESHAPE, "w has 64 columns, but x has 63", {"f32 2 63", "q8_0 5 64"}},
    {ZT_OP_linear, NULL, ZT_ESHAPE, "x has 1 dimensions, expected 2", {"f32 64", "q8_0 5 64"}},
    {ZT_OP_linear, NULL, ZT_ESHAPE, "w must be a matrix of a float or block type", {"f32 2 64", "i8 5 64"}},
    {ZT_OP_linear, NULL, ZT_ESHAPE, "b has 4 entries, but w has 5 rows", {"f32 2 8", "f32 5 8", "f32 4"}},
    {ZT_OP_linear, &bad_word_linear, ZT_EUSAGE, "act is 'bf9': must be f32 or q8 or q16", {"f32 2 8", "f32 5 8"}},
    {ZT_OP_linear, NULL, ZT_ESHAPE, "", {"f32 2 33", "q4_0 5 33"}},
    {ZT_OP_reshape, &shape23, ZT_ESHAPE, "shape has 6 elements, but x has 7", {"f32 7"}},
    {ZT_OP_reshape, &shape_negative, ZT_ESHAPE, "negative", {"f32 6"}},
    {ZT_OP_reshape, &shape_huge, ZT_ESHAPE, "has too many elements", {"f32 6"}},
    {ZT_OP_reshape, &shape_many, ZT_EUSAGE, "11 dimensions", {"f32 1"}},
    {ZT_OP_gather, NULL, ZT_ESHAPE, "i has type i64, expected i32", {"f32 2 3", "i64 2"}},
    {ZT_OP_gather, NULL, ZT_ESHAPE, "x must be a matrix", {"f32 2", "i32 2"}},
    {ZT_OP_gather, NULL, ZT_ESHAPE, "one too many", {"f32 2 3", "i32 1 1 1 1 1 1 1 1 1 1"}},
    {ZT_OP_kv_put, NULL, ZT_ESHAPE, "x has 5 columns, but cache has 4", {"f16 8 4", "f32 2 5", "i32 2"}},
    {ZT_OP_kv_put, NULL, ZT_ESHAPE, "pos has 3 entries, expected 2 (rows)", {"f16 8 4", "f32 2 4", "i32 3"}},
    {ZT_OP_kv_put, NULL, ZT_ESHAPE, "cache must be a matrix of f32 or f16", {"bf16 8 4", "f32 2 4", "i32 2"}},
    {ZT_OP_kv_put, NULL, ZT_ESHAPE, "seq has 1 entries, expected 2 (rows)", {"f16 8 4", "f32 2 4", "i32 2", "i32 1"}},
    {ZT_OP_kv_put,
     NULL,
     ZT_ESHAPE,
     "the cache of 8 rows is not divisible into 3 blocks",
     {"f16 8 4", "f32 2 4", "i32 2", NULL, "i32 1 3"}},
    {ZT_OP_kv_put,
     NULL,
     ZT_ESHAPE,
     "the cache of 8 rows is not divisible into 0 blocks",
     {"f16 8 4", "f32 2 4", "i32 2", NULL, "i32 1 0"}},
    {ZT_OP_causal_conv,
     NULL,
     ZT_ESHAPE,
     "state must have shape [S,3,8]: one row fewer than w has columns, columns of x",
     {"f32 2 4 8", "f32 5 8", "f32 8 4", "i32 5", "i32 5"}},
    {ZT_OP_causal_conv,
     NULL,
     ZT_ESHAPE,
     "w has 0 columns, expected 1 to 256",
     {"f32 2 3 8", "f32 5 8", "f32 8 0", "i32 5", "i32 5"}},
    {ZT_OP_causal_conv,
     NULL,
     ZT_ESHAPE,
     "w has 7 rows, but x has 8 columns",
     {"f32 2 3 8", "f32 5 8", "f32 7 4", "i32 5", "i32 5"}},
    {ZT_OP_causal_conv,
     NULL,
     ZT_ESHAPE,
     "from and to have 5 and 4 entries, expected 5 (rows)",
     {"f32 2 3 8", "f32 5 8", "f32 8 4", "i32 5", "i32 4"}},
    {ZT_OP_causal_conv,
     NULL,
     ZT_ESHAPE,
     "b has 7 entries, but x has 8 columns",
     {"f32 2 3 8", "f32 5 8", "f32 8 4", "i32 5", "i32 5", "f32 7"}},
    {ZT_OP_rms_norm, NULL, ZT_ESHAPE, "g has 7 entries, expected 8", {"f32 2 8", "f32 7"}},
    {ZT_OP_rms_norm, &norm5, ZT_ESHAPE, "8 columns are not a multiple of dims 5", {"f32 2 8", "f32 5"}},
    {ZT_OP_rms_norm, &norm_negative, ZT_ESHAPE, "8 columns are not a multiple of dims -4", {"f32 2 8", "f32 4"}},
    {ZT_OP_layer_norm, NULL, ZT_ESHAPE, "b has 7 entries, expected 8 (columns)", {"f32 2 8", "f32 8", "f32 7"}},
    {ZT_OP_layer_norm, NULL, ZT_ESHAPE, "g has type f16, expected f32", {"f32 2 8", "f16 8"}},
    {ZT_OP_layer_norm, &eps_negative, ZT_EUSAGE, "eps is -1", {"f32 2 8"}},
    {ZT_OP_layer_norm, NULL, ZT_ESHAPE, "x is a scalar: must have at least 1 dimension", {"f32"}},
    {ZT_OP_slice, &slice_axis, ZT_ESHAPE, "slice from 0 to 1 is out of range along axis 2", {"f32 2 8"}},
    {ZT_OP_slice, &slice_far, ZT_ESHAPE, "slice from 0 to 9 is out of range along axis 1", {"f32 2 8"}},
    {ZT_OP_slice, &slice_back, ZT_ESHAPE, "slice from 5 to 3 is out of range along axis -1", {"f32 2 8"}},
    {ZT_OP_slice, &slice_low, ZT_ESHAPE, "is out of range along axis", {"f32 2 8"}},
    {ZT_OP_slice, NULL, ZT_ESHAPE, "block type", {"q8_0 2 32"}},
    {ZT_OP_slice, NULL, ZT_ESHAPE, "is out of range along axis", {"f32"}},
    {ZT_OP_rope, &rope_nan, ZT_EUSAGE, "scale, amplitude, extend, low and high must be finite", {"f32 2 8", "i32 2"}},
    {ZT_OP_rope, NULL, ZT_ESHAPE, "pos has 3 entries: must have one for each row of x", {"f32 2 8", "i32 3"}},
    {ZT_OP_rope, &rope_odd, ZT_ESHAPE, "3 of 4 columns", {"f32 2 8", "i32 2"}},
    {ZT_OP_rope, &rope_wide, ZT_ESHAPE, "8 of 4 columns", {"f32 2 8", "i32 2"}},
    {ZT_OP_rope, &rope_uneven, ZT_ESHAPE, "8 columns are not a multiple of the head size 6", {"f32 2 8", "i32 2"}},
    {ZT_OP_rope, NULL, ZT_ESHAPE, "tab has 3 entries, expected 4 (pairs)", {"f32 2 8", "i32 2", "f32 3"}},
    {ZT_OP_rope, &rope_word, ZT_EUSAGE, "pair is 'thirds'", {"f32 2 8", "i32 2"}},
    {ZT_OP_rope, &rope_theta, ZT_EUSAGE, "theta is 0", {"f32 2 8", "i32 2"}},
    {ZT_OP_attention, &head0, ZT_EUSAGE, "head is 0", {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2"}},
    {ZT_OP_attention,
     &head3,
     ZT_ESHAPE,
     "8 and 4 columns are not multiples of the head size 3",
     {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2"}},
    {ZT_OP_attention,
     &head4,
     ZT_ESHAPE,
     "the number of query heads 3 is not a multiple of the number of key heads 2",
     {"f32 2 12", "f16 8 8", "f16 8 8", "i32 2"}},
    {ZT_OP_attention,
     &head4,
     ZT_ESHAPE,
     "k and v must be matrices of the same dtype, f32 or f16",
     {"f32 2 8", "f16 8 4", "f32 8 4", "i32 2"}},
    {ZT_OP_attention,
     &head4,
     ZT_ESHAPE,
     "the number of query heads 2 is not a multiple of the number of key heads 0",
     {"f32 2 8", "f16 8 0", "f16 8 0", "i32 2"}},
    {ZT_OP_attention, &head4, ZT_ESHAPE, "pos has type f32, expected i32", {"f32 2 8", "f16 8 4", "f16 8 4", "f32 2"}},
    {ZT_OP_attention_sinks,
     &head4,
     ZT_ESHAPE,
     "sinks has 3 entries, expected one for each of 2 query heads",
     {"f32 2 8", "f16 8 4", "f16 8 4", "f32 3", "i32 2"}},
    {ZT_OP_attention_sinks,
     &head4,
     ZT_ESHAPE,
     "sinks has type f16, expected f32",
     {"f32 2 8", "f16 8 4", "f16 8 4", "f16 2", "i32 2"}},
    {ZT_OP_attention_alibi,
     &no_bias,
     ZT_EUSAGE,
     "bias is 0: must be positive, 1024 at most",
     {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2"}},
    {ZT_OP_attention_alibi, &huge_bias, ZT_EUSAGE, "bias is 1025: must be", {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2"}},
    {ZT_OP_attention_alibi,
     &bias8,
     ZT_ESHAPE,
     "at has 3 entries, expected one for each of 2 rows",
     {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2", "i32 2", "i32 1 2", "i32 3"}},
    {ZT_OP_attention_alibi,
     &bias8,
     ZT_ESHAPE,
     "at has type f32, expected i32",
     {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2", "i32 2", "i32 1 2", "f32 2"}},
    {ZT_OP_attention, &window_negative, ZT_EUSAGE, "window is -1", {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2"}},
    {ZT_OP_attention, &cap_negative, ZT_EUSAGE, "softcap is -1", {"f32 2 8", "f16 8 4", "f16 8 4", "i32 2"}},
};

/* Of every op, without a table: its first case with a required input missing, and with one that is
 * no type at all. */
static void refused_by_all(zt_op op)
{
    const zt_opinfo *info = zt_op_info(op);
    const zt_type *in[ZT_MAX_IN] = {0}, no_type = {.dtype = ZT_F32, .rank = 1, .dim = {-1}};
    zt_type out[ZT_MAX_OUT];
    zt_case op_case;
    bool missing = zt_op_case(op, 0, &op_case), broken = missing;
    for (int k = 0; k < info->n_in; k++)
        if (op_case.fill[k] != ZT_FILL_ABSENT) in[k] = &op_case.in[k];
    for (int k = 0; k < info->def->n_required; k++) {
        const zt_type *right = in[k];
        zt_ctx *ctx = zt_ctx_new();
        in[k] = NULL;
        missing &= zt_op_infer(ctx, op, op_case.attrs, in, out) == ZT_EUSAGE && strstr(zt_ctx_error(ctx), info->name) &&
                   strstr(zt_ctx_error(ctx), info->in_name[k]);
        in[k] = &no_type;
        broken &= zt_op_infer(NULL, op, op_case.attrs, in, out) == ZT_ESHAPE;
        in[k] = right;
        zt_ctx_free(ctx);
    }
    ok(missing, "%s says which input is missing", info->name);
    ok(broken, "%s refuses what is no type", info->name);
}

int main(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) op_refused(&refusals[i]);
    for (int op = 0; op < ZT_OP_COUNT; op++) refused_by_all((zt_op)op);
    return tap_done();
}
