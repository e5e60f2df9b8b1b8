/* hf_rwkv.c - RWKV-7 as flash-linear-attention has it (RWKV7ForCausalLM), and ARWKV (RwkvHybridForCausalLM), read: lengths, and
 * tensors that GGUF has in another shape or under another name.
 *
 *     attn.x_r ... x_g      [1,1,C] each; GGUF: one tensor [6,1,1,C], in the order r, w, k, v, a, g
 *     attn.W_lora.lora.N    N 0: W1, N 2: W2, and its bias W0, which is a weight in GGUF
 *     attn.r_k              [heads,head]; GGUF: [C]
 *     ffn.x_k               [C], or [1,1,C]
 *     pre_norm              of layer 0; GGUF: the norm of the embeddings
 *
 * ARWKV has the time mix alone, as self_attn.time_mixer, with names and shapes of RWKV's own files: x_r, w0 [1,1,C], w1 [C,rank] and
 * w2 [rank,C], which are transposed in GGUF.
 *
 * Layer 0 has no share of its own values. GGUF has the matrices of `a` in their places, which nobody reads.
 *
 * Names and defaults: convert_hf_to_gguf.py of llama.cpp (conversion/rwkv.py), configuration_rwkv7.py of
 * flash-linear-attention, configuration_rwkv_hybrid.py of ARWKV; as facts.
 */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ANY_CONTEXT = 1 << 20, LERPS = sizeof ZT_HF_LERPS - 1 };
static const int64_t most_length = 1 << 24;

/* ---- keys ------------------------------------------------------------------------------------ */

/* A rank that config.json does not say: max(1, round(width^exponent factor / 32)) 32. */
static int64_t usual_rank(double width, double exponent, double factor)
{
    double parts = rint(pow(width, exponent) * factor / 32);
    return 32 * (int64_t)(parts < 1 ? 1 : parts);
}

static zt_status put_ranks(hf_import *import, double width)
{
    static const struct {
        const char *suffix, *names;
        double exponent, factor;
    } rows[] = {
        {"attention.decay_lora_rank", "lora_rank_decay|decay_low_rank_dim", 0.5, 1.8},
        {"attention.iclr_lora_rank", "lora_rank_iclr|a_low_rank_dim", 0.5, 1.8},
        {"attention.value_residual_mix_lora_rank", "lora_rank_value_residual_mix|v_low_rank_dim", 0.5, 1.3},
        {"attention.gate_lora_rank", "lora_rank_gate|gate_low_rank_dim", 0.8, 0.6},
    };
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof rows / sizeof *rows; i++) {
        int64_t rank = usual_rank(width, rows[i].exponent, rows[i].factor);
        status = zt_hf_int(import, rows[i].names, &rank);
        if (status == ZT_OK) status = zt_hf_put_int(import, rows[i].suffix, rank);
    }
    return status;
}

/* The norm of heads has an epsilon of its own, for which GGUF has no key: 64e-5, which is head_dim times norm_eps there. */
static zt_status check_head_epsilon(const hf_import *import, int64_t head, double epsilon)
{
    if (fabs((double)head * epsilon - 64e-5) < 1e-9) return ZT_OK;
    return zt_fail(import->ctx, ZT_ENOTSUP,
                   "%sconfig.json: %s models with head_dim times norm_eps %g are not supported: expected 0.00064",
                   import->folder.data, import->arch.name, (double)head * epsilon);
}

/* value_dim, a number or a list with one for each layer: the width. */
static zt_status check_values(const hf_import *import, double width)
{
    const json_t *value = zt_hf_get(import, "value_dim");
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; value && !json_is_null(value) && i < count; i++) {
        const json_t *entry = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_null(entry) && json_number_value(entry) != width)
            return zt_fail(import->ctx, ZT_ENOTSUP,
                           "%sconfig.json: %s models with a value_dim other than hidden_size are not supported",
                           import->folder.data, import->arch.name);
    }
    const json_t *attention = zt_hf_get(import, "attn");
    if (attention && !json_is_null(attention))
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with layers of attention (attn) are not supported",
                       import->folder.data, import->arch.name);
    return ZT_OK;
}

zt_status zt_hf_put_rwkv(hf_import *import)
{
    double width = 0, epsilon = 1e-5;
    int64_t head = 64;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_int(import, "head_size|head_dim", &head);
    if (status == ZT_OK) status = zt_hf_real(import, "layer_norm_epsilon|norm_eps", &epsilon);
    if (status == ZT_OK && (head < 1 || head > most_length || width > (double)most_length))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'head_dim' is %" PRId64 ", expected 1 to %" PRId64,
                         import->folder.data, head, most_length);
    if (status == ZT_OK) status = check_head_epsilon(import, head, epsilon);
    if (status == ZT_OK) status = check_values(import, width);
    if (status == ZT_OK) status = zt_hf_put_int(import, "context_length", ANY_CONTEXT);
    if (status == ZT_OK) status = zt_hf_put_int(import, "attention.head_count", 0); /* which llama.cpp wants */
    if (status == ZT_OK) status = zt_hf_put_real(import, "attention.layer_norm_epsilon", epsilon);
    if (status == ZT_OK) status = zt_hf_put_int(import, "wkv.head_size", head);
    return status == ZT_OK ? put_ranks(import, width) : status;
}

/* Its ranks are the same for all widths, and there are no keys for them. */
static zt_status put_fixed_ranks(hf_import *import, bool gated)
{
    const struct {
        const char *suffix;
        int64_t rank;
    } rows[] = {{"attention.decay_lora_rank", ZT_HF_ARWKV_DECAY},
                {"attention.iclr_lora_rank", ZT_HF_ARWKV_RATE},
                {"attention.value_residual_mix_lora_rank", ZT_HF_ARWKV_SHARE},
                {"attention.gate_lora_rank", gated ? ZT_HF_ARWKV_GATE : 0}};
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < sizeof rows / sizeof *rows; i++)
        status = zt_hf_put_int(import, rows[i].suffix, rows[i].rank);
    return status;
}

/* Numbers that must be these where config.json has them, and words. */
static zt_status check_hybrid(const hf_import *import)
{
    static const struct {
        const char *name;
        double value;
    } fixed[] = {{"wkv_version", 7}, {"head_size_divisor", 8}};
    const json_t *layers = zt_hf_get(import, "wkv_layers");
    const char *word = json_string_value(layers);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        double value = fixed[i].value;
        zt_status status = zt_hf_real(import, fixed[i].name, &value);
        if (status != ZT_OK) return status;
        if (value != fixed[i].value)
            return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with %s %g are not supported: expected %g",
                           import->folder.data, import->arch.type, fixed[i].name, value, fixed[i].value);
    }
    if (layers && !json_is_null(layers) && !(word && strcmp(word, "full") == 0))
        return zt_fail(import->ctx, ZT_ENOTSUP, "%sconfig.json: %s models with wkv_layers other than 'full' are not supported",
                       import->folder.data, import->arch.type);
    return ZT_OK;
}

static bool has_gate(const hf_import *import)
{
    return import->arch.id != HF_ARWKV7 || !json_is_false(zt_hf_get(import, "wkv_has_gate"));
}

zt_status zt_hf_put_arwkv(hf_import *import)
{
    double width = 0;
    int64_t head = 64;
    zt_status status = check_hybrid(import);
    if (status == ZT_OK) status = zt_hf_value(import, "embedding_length", &width);
    if (status == ZT_OK) status = zt_hf_int(import, "head_size", &head);
    if (status == ZT_OK && (head < 1 || head > most_length || width > (double)most_length))
        status = zt_fail(import->ctx, ZT_EDATA, "%sconfig.json: 'head_size' is %" PRId64 ", expected 1 to %" PRId64,
                         import->folder.data, head, most_length);
    if (status == ZT_OK) status = zt_hf_put_int(import, "context_length", ANY_CONTEXT);
    if (status == ZT_OK) status = zt_hf_put_int(import, "attention.head_count", 0); /* which llama.cpp wants */
    if (status == ZT_OK) status = zt_hf_put_int(import, "wkv.head_size", head);
    if (status == ZT_OK) status = zt_hf_put_int(import, "token_shift_count", 1);
    return status == ZT_OK ? put_fixed_ranks(import, has_gate(import)) : status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static zt_status refuse_shape(const hf_import *import, const hf_tensor *tensor)
{
    char text[ZT_TYPE_TEXT];
    return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s, which does not fit config.json", import->path, tensor->name,
                   zt_type_text(&tensor->type, text));
}

/* Values of a source as floats. */
static zt_status read_values(const hf_import *import, int64_t source, zt_dtype dtype, int64_t count, float *values)
{
    size_t element = (size_t)zt_dtype_get(dtype)->block_bytes;
    char *raw = zt_alloc_array(import->ctx, (size_t)count, element);
    zt_status status = raw ? zt_checkpoint_read(import->tensors->from, source, 0, raw, (size_t)count * element) : ZT_ENOMEM;
    if (status == ZT_OK) zt_dtype_get(dtype)->decode(raw, values, count);
    zt_free(import->ctx, raw);
    return status;
}

/* The tensor `named`, whose name ends in x_r, and those that end in the other letters, behind each other. */
static zt_status read_lerps(const hf_import *import, const char *named, int count, int64_t width, float *values)
{
    char name[200], text[160];
    zt_status status = ZT_OK;
    for (int i = 0; status == ZT_OK && i < count; i++) {
        zt_entry entry;
        snprintf(name, sizeof name, "%.*s%c", (int)strlen(named) - 1, named, ZT_HF_LERPS[i]);
        int64_t source = zt_checkpoint_find(import->tensors->from, name);
        if (source < 0)
            return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is missing", import->path,
                           zt_escape(text, sizeof text, name, strlen(name)));
        zt_checkpoint_get(import->tensors->from, source, &entry);
        bool floats = entry.type.dtype < ZT_DTYPE_COUNT && zt_dtype_get(entry.type.dtype)->kind == 'F' &&
                      zt_dtype_get(entry.type.dtype)->block_bytes >= 2;
        if (entry.type.rank < 0 || !floats || zt_type_count(&entry.type) != width)
            return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is not %" PRId64 " floating-point numbers", import->path,
                           zt_escape(text, sizeof text, name, strlen(name)), width);
        status = read_values(import, source, entry.type.dtype, width, values + i * width);
    }
    return status;
}

/* Of x_r the tensor of all six, or five without a gate. */
static zt_status add_lerps(hf_import *import, hf_tensor *tensor)
{
    zt_entry entry;
    double width = 0;
    zt_status status = zt_hf_value(import, "embedding_length", &width);
    if (status != ZT_OK) return status;
    if ((double)zt_type_count(&tensor->type) != width || width < 1) return refuse_shape(import, tensor);
    zt_checkpoint_get(import->tensors->from, tensor->source, &entry);
    const int count = has_gate(import) ? LERPS : LERPS - 1;
    float *values = zt_alloc_array(import->ctx, (size_t)count * (size_t)width, sizeof *values);
    status = values ? read_lerps(import, entry.name, count, (int64_t)width, values) : ZT_ENOMEM;
    tensor->type = zt_type_make(ZT_F32, 4, (int64_t[]){count, 1, 1, (int64_t)width});
    tensor->from = ZT_F32;
    tensor->source = -1;
    tensor->values = values;
    if (status == ZT_OK) status = zt_hf_tensors_add(import->tensors, tensor);
    zt_free(import->ctx, values);
    return status;
}

/* The tensor, and of layer 0 those of `a` once more. */
static zt_status add_low_rank(hf_import *import, hf_tensor *tensor, bool first, const char *what)
{
    char other[ZT_HF_NAME];
    if (first && strncmp(what, "time_mix_v", 10) == 0) return ZT_OK;
    zt_status status = zt_hf_tensors_add(import->tensors, tensor);
    if (status != ZT_OK || !first || strncmp(what, "time_mix_a", 10) != 0) return status;
    snprintf(other, sizeof other, "%s", tensor->name);
    other[what - tensor->name + 9] = 'v';
    tensor->name = other;
    return zt_hf_tensors_add(import->tensors, tensor);
}

/* time_mix_w0.weight, and the same of a and v. */
static bool is_offset(const char *what)
{
    return strlen(what) == sizeof "time_mix_w0.weight" - 1 && strncmp(what, "time_mix_", 9) == 0 &&
           strcmp(what + 10, "0.weight") == 0;
}

zt_status zt_hf_add_rwkv(hf_import *import, hf_tensor *tensor)
{
    zt_type *type = &tensor->type;
    const char *what = strchr(tensor->name + 4, '.') + 1;
    const bool first = strncmp(tensor->name, "blk.0.", 6) == 0;
    char bare[ZT_HF_NAME];
    if (strcmp(what, "time_mix_lerp_fused.weight") == 0) return add_lerps(import, tensor);
    if (strncmp(what, "time_mix_lerp_", 14) == 0) return ZT_OK; /* read with the first */
    if (strncmp(what, "token_embd_norm.", 16) == 0) {
        if (!first) return refuse_shape(import, tensor);
        snprintf(bare, sizeof bare, "%s", what);
        tensor->name = bare;
        return zt_hf_tensors_add(import->tensors, tensor);
    }
    if (strcmp(what, "time_mix_r_k.weight") == 0 || strcmp(what, "channel_mix_lerp_k.weight") == 0 ||
        strncmp(what, "time_mix_k_", 11) == 0 || is_offset(what))
        *type = zt_type_make(ZT_F32, 1, (int64_t[]){zt_type_count(type)});
    return add_low_rank(import, tensor, first, what);
}
