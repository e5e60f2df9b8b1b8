/* gguf_types.c - owns the two tables of numbers of the format: tensor types and value kinds; and
 * the order of bytes. */
#include "lib/io/gguf_file.h"

#define NONE ZT_DTYPE_COUNT

/* enum ggml_type and the type traits of ggml 0.25 (ggml.h, ggml.c), as facts. */
static const gguf_type types[] = {
    [0] = {"f32", 1, 4, ZT_F32},              [1] = {"f16", 1, 2, ZT_F16},
    [2] = {"q4_0", 32, 18, ZT_Q4_0},          [3] = {"q4_1", 32, 20, ZT_Q4_1},
    [6] = {"q5_0", 32, 22, ZT_Q5_0},          [7] = {"q5_1", 32, 24, ZT_Q5_1},
    [8] = {"q8_0", 32, 34, ZT_Q8_0},          [9] = {"q8_1", 32, 36, NONE},
    [10] = {"q2_k", 256, 84, ZT_Q2_K},        [11] = {"q3_k", 256, 110, ZT_Q3_K},
    [12] = {"q4_k", 256, 144, ZT_Q4_K},       [13] = {"q5_k", 256, 176, ZT_Q5_K},
    [14] = {"q6_k", 256, 210, ZT_Q6_K},       [15] = {"q8_k", 256, 292, NONE},
    [16] = {"iq2_xxs", 256, 66, ZT_IQ2_XXS},  [17] = {"iq2_xs", 256, 74, ZT_IQ2_XS},
    [18] = {"iq3_xxs", 256, 98, ZT_IQ3_XXS},  [19] = {"iq1_s", 256, 50, ZT_IQ1_S},
    [20] = {"iq4_nl", 32, 18, ZT_IQ4_NL},     [21] = {"iq3_s", 256, 110, ZT_IQ3_S},
    [22] = {"iq2_s", 256, 82, ZT_IQ2_S},      [23] = {"iq4_xs", 256, 136, ZT_IQ4_XS},
    [24] = {"i8", 1, 1, ZT_I8},               [25] = {"i16", 1, 2, ZT_I16},
    [26] = {"i32", 1, 4, ZT_I32},             [27] = {"i64", 1, 8, ZT_I64},
    [28] = {"f64", 1, 8, ZT_F64},             [29] = {"iq1_m", 256, 56, ZT_IQ1_M},
    [30] = {"bf16", 1, 2, ZT_BF16},           [34] = {"tq1_0", 256, 54, ZT_TQ1_0},
    [35] = {"tq2_0", 256, 66, ZT_TQ2_0},      [39] = {"mxfp4", 32, 17, ZT_MXFP4},
    [40] = {"nvfp4", 64, 36, ZT_NVFP4},       [41] = {"q1_0", 128, 18, ZT_Q1_0},
    [42] = {"q2_0", 64, 18, ZT_Q2_0},
};

static const gguf_kind kinds[] = {
    [ZT_GGUF_U8] = {"u8", 1, 'u'},    [ZT_GGUF_I8] = {"i8", 1, 'i'},
    [ZT_GGUF_U16] = {"u16", 2, 'u'},  [ZT_GGUF_I16] = {"i16", 2, 'i'},
    [ZT_GGUF_U32] = {"u32", 4, 'u'},  [ZT_GGUF_I32] = {"i32", 4, 'i'},
    [ZT_GGUF_F32] = {"f32", 4, 'f'},  [ZT_GGUF_BOOL] = {"bool", 1, 'b'},
    [ZT_GGUF_STR] = {"str", 0, 's'},  [ZT_GGUF_ARRAY] = {"array", 0, 'a'},
    [ZT_GGUF_U64] = {"u64", 8, 'u'},  [ZT_GGUF_I64] = {"i64", 8, 'i'},
    [ZT_GGUF_F64] = {"f64", 8, 'f'},
};

const gguf_type *zt_gguf_type(uint32_t number)
{
    return number < sizeof types / sizeof *types && types[number].name ? &types[number] : NULL;
}

const gguf_kind *zt_gguf_kind_get(uint32_t kind)
{
    return kind < sizeof kinds / sizeof *kinds ? &kinds[kind] : NULL;
}

void zt_swap_bytes(char *number, size_t count, int bytes)
{
    for (size_t i = 0; bytes > 1 && i < count; i++, number += bytes) {
        for (int low = 0, high = bytes - 1; low < high; low++, high--) {
            char byte = number[low];
            number[low] = number[high];
            number[high] = byte;
        }
    }
}
