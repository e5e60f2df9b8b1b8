/* hf_quantization.c - config.json's quantization_config: how weights are stored.
 *
 * Names and defaults as facts: compressed_tensors/quantization (quant_config.py, quant_args.py), transformers'
 * utils/quantization_config.py, AutoAWQ's and GPTQModel's quantize_config.json.
 */
#include "lib/llm/hf/hf_quantized.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- members --------------------------------------------------------------------------------- */

static zt_status refuse_word(const hf_import *import, const char *name, const char *word, const char *expected)
{
    char text[80];
    return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: quantization with %s '%s' is not supported (expected %s)",
                   import->folder.data, name, zt_escape(text, sizeof text, word, strlen(word)), expected);
}

static zt_status refuse_number(const hf_import *import, const char *name, int64_t value, const char *expected)
{
    return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization's '%s' is %lld, expected %s", import->folder.data, name,
                   (long long)value, expected);
}

/* A whole number of the object; *out stays where it is absent or null. */
static zt_status read_int(const hf_import *import, const json_t *object, const char *name, int64_t *out)
{
    double number = (double)*out;
    zt_status status = zt_hf_number(import, json_object_get(object, name), name, &number);
    if (status == ZT_OK && !(fabs(number) <= UINT32_MAX && number == floor(number)))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization's '%s' is %g, expected an integer",
                       import->folder.data, name, number);
    if (status == ZT_OK) *out = (int64_t)number;
    return status;
}

static zt_status read_switch(const hf_import *import, const json_t *object, const char *name, bool *out)
{
    const json_t *value = json_object_get(object, name);
    if (!value || json_is_null(value)) return ZT_OK;
    if (!json_is_boolean(value))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization's '%s' is not true or false", import->folder.data,
                       name);
    *out = json_is_true(value);
    return ZT_OK;
}

/* The text, or `otherwise` where it is absent or null. */
static zt_status read_word(const hf_import *import, const json_t *object, const char *name, const char *otherwise,
                           const char **out)
{
    const json_t *value = json_object_get(object, name);
    *out = otherwise;
    if (!value || json_is_null(value)) return ZT_OK;
    *out = json_string_value(value);
    return *out ? ZT_OK
                : zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization's '%s' is not a text", import->folder.data, name);
}

static bool is_given(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    bool empty = (json_is_object(value) && json_object_size(value) == 0) || (json_is_array(value) && json_array_size(value) == 0);
    return value && !json_is_null(value) && !json_is_false(value) && !empty;
}

/* A part that would change what the weights mean. */
static zt_status refuse_part(const hf_import *import, const json_t *object, const char *name)
{
    if (!is_given(object, name)) return ZT_OK;
    return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: quantization with '%s' is not supported", import->folder.data, name);
}

static void warn_activations(const hf_import *import, const char *what)
{
    zt_log(import->ctx, ZT_LOG_WARN, "%sconfig.json: %s not quantized here, only the weights: results differ slightly",
           import->folder.data, what);
}

/* -1: all in one group. */
static zt_status read_group(const hf_import *import, const json_t *object, const char *name, int64_t *group)
{
    *group = -1;
    zt_status status = read_int(import, object, name, group);
    if (status == ZT_OK && *group != -1 && (*group < 1 || *group > INT32_MAX))
        return refuse_number(import, name, *group, "-1 or an integer from 1 to 2147483647");
    return status;
}

/* ---- FP8 of transformers --------------------------------------------------------------------- */

/* [rows, columns], each from 1 on. */
static zt_status read_block(const hf_import *import, const json_t *object, const char *name, hf_scheme *scheme)
{
    const json_t *block = json_object_get(object, name);
    int64_t size[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const json_t *item = json_array_get(block, i);
        if (json_is_integer(item)) size[i] = json_integer_value(item);
    }
    if (json_is_string(block)) { /* "128x128" */
        char end;
        long long rows = 0, columns = 0;
        if (sscanf(json_string_value(block), "%9lldx%9lld%c", &rows, &columns, &end) != 2) rows = 0;
        size[0] = rows;
        size[1] = columns;
    }
    bool two = json_is_string(block) || json_array_size(block) == 2;
    if (!two || size[0] < 1 || size[1] < 1 || size[0] > INT32_MAX || size[1] > INT32_MAX)
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization's '%s' is not two integers from 1 to 2147483647",
                       import->folder.data, name);
    scheme->block_rows = size[0];
    scheme->block_columns = size[1];
    scheme->padded = true;
    return ZT_OK;
}

/* The dtype in which config.json says the model computes. */
static zt_dtype model_dtype(const hf_import *import)
{
    static const struct {
        const char *name;
        zt_dtype dtype;
    } rows[] = {{"float32", ZT_F32}, {"float16", ZT_F16}};
    const char *name = json_string_value(zt_hf_get(import, "dtype|torch_dtype"));
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(name, rows[i].name) == 0) return rows[i].dtype;
    return ZT_BF16;
}

static zt_status read_fp8(const hf_import *import, const json_t *object, hf_quantization *out)
{
    hf_scheme *scheme = &out->scheme[out->count++];
    const char *format, *activations;
    *scheme = (hf_scheme){.layout = HF_PLAIN,
                          .scales = "weight_scale_inv",
                          .bits = 8,
                          .floating = true,
                          .symmetric = true,
                          .dtype = model_dtype(import)};
    zt_status status = read_word(import, object, "fmt", "e4m3", &format);
    if (status == ZT_OK) status = read_word(import, object, "activation_scheme", "dynamic", &activations);
    if (status != ZT_OK) return status;
    if (strcmp(format, "e4m3") != 0) return refuse_word(import, "fmt", format, "e4m3");
    warn_activations(import, "activations are");
    return is_given(object, "weight_block_size") ? read_block(import, object, "weight_block_size", scheme) : ZT_OK;
}

/* ---- GPTQ and AWQ ---------------------------------------------------------------------------- */

static zt_status read_gptq(const hf_import *import, const json_t *object, hf_quantization *out)
{
    hf_scheme *scheme = &out->scheme[out->count++];
    int64_t bits = 4, group;
    const char *format;
    *scheme = (hf_scheme){.layout = HF_GPTQ, .block_rows = 1, .padded = true, .dtype = ZT_DTYPE_COUNT};
    zt_status status = refuse_part(import, object, "dynamic");
    if (status == ZT_OK) status = refuse_part(import, object, "is_marlin_format");
    if (status == ZT_OK) status = read_int(import, object, "bits", &bits);
    if (status == ZT_OK) status = read_group(import, object, "group_size", &group);
    if (status == ZT_OK) status = read_switch(import, object, "desc_act", &scheme->ordered);
    if (status == ZT_OK) status = read_word(import, object, "checkpoint_format", "gptq", &format);
    if (status != ZT_OK) return status;
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8) return refuse_number(import, "bits", bits, "2, 3, 4 or 8 of GPTQ");
    if (strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0)
        return refuse_word(import, "checkpoint_format", format, "gptq or gptq_v2");
    scheme->bits = (int)bits;
    scheme->offset = strcmp(format, "gptq") == 0;
    scheme->block_columns = group > 0 ? group : 0;
    return ZT_OK;
}

static zt_status read_awq(const hf_import *import, const json_t *object, hf_quantization *out)
{
    hf_scheme *scheme = &out->scheme[out->count++];
    int64_t bits = 4, group;
    bool zeros = true;
    const char *version;
    *scheme = (hf_scheme){.layout = HF_AWQ, .block_rows = 1, .bits = 4, .dtype = ZT_DTYPE_COUNT};
    zt_status status = read_int(import, object, json_object_get(object, "w_bit") ? "w_bit" : "bits", &bits);
    if (status == ZT_OK)
        status = read_group(import, object, json_object_get(object, "q_group_size") ? "q_group_size" : "group_size", &group);
    if (status == ZT_OK) status = read_switch(import, object, "zero_point", &zeros);
    if (status == ZT_OK) status = read_word(import, object, "version", "gemm", &version);
    if (status != ZT_OK) return status;
    if (bits != 4) return refuse_number(import, "bits", bits, "4 of AWQ");
    if (strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0) return refuse_word(import, "version", version, "gemm");
    scheme->symmetric = !zeros;
    scheme->block_columns = group > 0 ? group : 0;
    return ZT_OK;
}

/* ---- compressed-tensors ---------------------------------------------------------------------- */

static const struct {
    const char *format;
    hf_layout layout;
    int64_t group; /* the only one there is; 0: any */
} formats[] = {
    {"pack-quantized", HF_PACKED, 0},       {"float-quantized", HF_PLAIN, 0},  {"int-quantized", HF_PLAIN, 0},
    {"naive-quantized", HF_PLAIN, 0},       {"mxfp8-quantized", HF_PLAIN, 32}, {"nvfp4-pack-quantized", HF_NVFP4, 16},
    {"mxfp4-pack-quantized", HF_MXFP4, 32},
};

/* Which values share a scale. */
static zt_status read_strategy(const hf_import *import, const json_t *weights, hf_scheme *scheme)
{
    int64_t group;
    const char *strategy;
    zt_status status = read_group(import, weights, "group_size", &group);
    const char *implied = group > 0 ? "group" : json_is_integer(json_object_get(weights, "group_size")) ? "channel" : "tensor";
    if (status == ZT_OK) status = read_word(import, weights, "strategy", implied, &strategy);
    if (status != ZT_OK) return status;
    bool grouped = strcmp(strategy, "group") == 0 || strcmp(strategy, "tensor_group") == 0;
    if (strcmp(strategy, "block") == 0) return read_block(import, weights, "block_structure", scheme);
    if (!grouped && strcmp(strategy, "channel") != 0 && strcmp(strategy, "tensor") != 0)
        return refuse_word(import, "strategy", strategy, "tensor, channel, group, tensor_group or block");
    if (grouped && group < 1) return refuse_number(import, "group_size", group, "an integer from 1 to 2147483647");
    scheme->block_rows = strcmp(strategy, "tensor") == 0 ? 0 : 1;
    scheme->block_columns = grouped ? group : 0;
    return ZT_OK;
}

static zt_status read_weights(const hf_import *import, const json_t *weights, const char *format, hf_scheme *scheme)
{
    int64_t bits = 8;
    const char *type;
    size_t row = 0, count = sizeof formats / sizeof *formats;
    while (row < count && strcmp(format, formats[row].format) != 0) row++;
    if (row == count)
        return refuse_word(import, "format", format,
                           "pack-, float-, int-, naive- or mxfp8-quantized, nvfp4- or mxfp4-pack-quantized");
    *scheme = (hf_scheme){.layout = formats[row].layout, .scales = "weight_scale", .symmetric = true, .dtype = ZT_DTYPE_COUNT};
    zt_status status = read_int(import, weights, "num_bits", &bits);
    if (status == ZT_OK) status = read_word(import, weights, "type", "int", &type);
    if (status == ZT_OK) status = read_switch(import, weights, "symmetric", &scheme->symmetric);
    if (status == ZT_OK) status = read_strategy(import, weights, scheme);
    if (status != ZT_OK) return status;
    scheme->floating = strcmp(type, "float") == 0;
    scheme->bits = (int)bits;
    bool four = scheme->layout == HF_NVFP4 || scheme->layout == HF_MXFP4;
    bool fits = scheme->layout == HF_PACKED ? !scheme->floating && (bits == 2 || bits == 4 || bits == 8)
                : four                      ? scheme->floating && bits == 4
                                            : bits == 8;
    if (!fits || (!scheme->floating && strcmp(type, "int") != 0) || (scheme->floating && !scheme->symmetric))
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s weights of %lld bits in the format '%s' are not supported",
                       import->folder.data, scheme->floating ? "float" : "int", (long long)bits, format);
    if (formats[row].group && scheme->block_columns != formats[row].group)
        return refuse_number(import, "group_size", scheme->block_columns, formats[row].group == 16 ? "16" : "32");
    return ZT_OK;
}

static zt_status read_config_group(const hf_import *import, const json_t *group, const char *format, hf_quantization *out)
{
    const char *own;
    zt_status status = read_word(import, group, "format", format, &own);
    if (status != ZT_OK || !is_given(group, "weights")) return status;
    if (out->count == HF_MAX_SCHEMES)
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: more than %d config_groups of a quantization",
                       import->folder.data, HF_MAX_SCHEMES);
    return read_weights(import, json_object_get(group, "weights"), own, &out->scheme[out->count++]);
}

static zt_status read_compressed(const hf_import *import, json_t *object, hf_quantization *out)
{
    const char *format, *sparse, *name;
    json_t *group, *sparsity = json_object_get(object, "sparsity_config");
    bool activations = false;
    zt_status status = read_word(import, object, "format", "dense", &format);
    if (status == ZT_OK) status = read_word(import, sparsity, "format", "dense", &sparse);
    if (status == ZT_OK && strcmp(sparse, "dense") != 0) return refuse_word(import, "sparsity_config", sparse, "dense");
    if (status == ZT_OK) status = refuse_part(import, object, "transform_config");
    if (status == ZT_OK && !json_is_object(json_object_get(object, "config_groups")))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization without 'config_groups'", import->folder.data);
    json_object_foreach(json_object_get(object, "config_groups"), name, group)
    {
        if (status == ZT_OK) status = read_config_group(import, group, format, out);
        activations = activations || is_given(group, "input_activations") || is_given(group, "output_activations");
    }
    if (status == ZT_OK && activations) warn_activations(import, "activations are");
    if (status == ZT_OK && is_given(object, "kv_cache_scheme")) warn_activations(import, "keys and values (kv_cache_scheme) are");
    return status;
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct {
    const char *method;
    zt_status (*read)(const hf_import *import, const json_t *object, hf_quantization *out);
} methods[] = {{"fp8", read_fp8}, {"gptq", read_gptq}, {"awq", read_awq}};

zt_status zt_hf_read_quantization(const hf_import *import, hf_quantization *quantization)
{
    const json_t *object = zt_hf_get(import, "quantization_config|compression_config");
    const char *method;
    quantization->count = 0;
    if (!object || json_is_null(object)) return ZT_OK;
    if (!json_is_object(object))
        return zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: quantization_config is not an object", import->folder.data);
    zt_status status = read_word(import, object, "quant_method", "", &method);
    if (status != ZT_OK) return status;
    if (strcmp(method, "mxfp4") == 0 && zt_hf_is(import, HF_SET(HF_GPT_OSS))) return ZT_OK; /* hf_mxfp4.c reads it */
    if (strcmp(method, "compressed-tensors") == 0) return read_compressed(import, (json_t *)object, quantization);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(method, methods[i].method) == 0) return methods[i].read(import, object, quantization);
    if (!*method)
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: a quantization_config without quant_method is not supported",
                       import->folder.data);
    return refuse_word(import, "quant_method", method, "fp8, compressed-tensors, gptq or awq");
}
