/* hf_quantized.h - private to hf_quant*.c: the weights of a quantized Hugging Face model, as config.json describes them and as
 * they lie in its tensors.
 *
 *     hf_quantization.c   config.json's quantization_config as schemes
 *     hf_quantized.c      which tensors are one matrix, by a scheme; a checkpoint that has them as matrices of floats
 *     hf_dequantize.c     reads the values of one
 *
 * A value is
 *
 *     (code - zero) * scale            rounded to the dtype of the scales, or to that of the scheme
 *
 * with the zero and the scale of its block: block_rows x block_columns values, or (g_idx) the columns that name the same group.
 */
#ifndef ZT_HF_QUANTIZED_H
#define ZT_HF_QUANTIZED_H

#include "lib/llm/hf/hf.h"

typedef enum hf_layout {
    HF_PLAIN,  /* weight: f8 or i8 [rows, columns]; weight_scale or weight_scale_inv */
    HF_PACKED, /* weight_packed: i32 [rows, words], the first column in the lowest bits; weight_shape, weight_scale, and zeros
                  packed along the rows: weight_zero_point */
    HF_NVFP4,  /* weight_packed: u8 [rows, columns / 2]; weight_scale f8 [rows, columns / 16], over weight_global_scale */
    HF_MXFP4,  /* the same, with exponents [rows, columns / 32] */
    HF_GPTQ,   /* qweight: i32 [words, rows], words along the columns; qzeros [groups, words], scales [groups, rows], g_idx */
    HF_AWQ     /* qweight: i32 [columns, words]; qzeros [groups, words], scales [groups, rows]; 8 values of a word interleaved */
} hf_layout;

typedef struct hf_scheme {
    hf_layout layout;
    const char *scales;                /* the name behind the module's, of HF_PLAIN */
    int bits;                          /* of a code */
    bool floating;                     /* codes are floats */
    bool symmetric;                    /* codes have the middle of their range as zero; else zeros are stored */
    bool offset;                       /* of GPTQ: zeros are stored less 1 */
    bool ordered;                      /* of GPTQ: g_idx must be there */
    bool padded;                       /* the last block of a row or column may be shorter */
    int64_t block_rows, block_columns; /* 0: all */
    zt_dtype dtype;                    /* of values; ZT_DTYPE_COUNT: that of the scales */
} hf_scheme;

enum { HF_MAX_SCHEMES = 16 };

typedef struct hf_quantization {
    hf_scheme scheme[HF_MAX_SCHEMES];
    int count; /* 0: config.json has none, or tensors that another part of the importer reads */
} hf_quantization;

/* hf_quantization.c: ZT_ENOTSUP or ZT_EDATA names what is not understood; what is not imported is warned about. */
zt_status zt_hf_read_quantization(const hf_import *import, hf_quantization *quantization);

typedef struct hf_matrix {
    hf_scheme scheme; /* with block_rows and block_columns of at least 1 */
    int64_t rows, columns, scale_rows, scale_columns;
    int64_t codes, scales, zeros, groups, global; /* tensors of the checkpoint; -1: there is none */
    zt_dtype code_dtype, scale_dtype, zero_dtype; /* as they are stored */
    zt_dtype dtype;                               /* of the values; of HF_MXFP4 the block type */
} hf_matrix;

/* hf_dequantize.c: values of matrices of a checkpoint, from several threads at once. */
typedef struct hf_dequantizer hf_dequantizer;
hf_dequantizer *zt_hf_dequantizer_new(zt_ctx *ctx, zt_checkpoint *from); /* borrows both; NULL: out of memory */
void zt_hf_dequantizer_free(hf_dequantizer *dequantizer);                /* NULL: nothing */
/* Bytes of the matrix whose number is `index`, in its dtype. */
zt_status zt_hf_dequantize(hf_dequantizer *dequantizer, const hf_matrix *matrix, int64_t index, uint64_t offset, void *dst,
                           size_t size);

#endif
