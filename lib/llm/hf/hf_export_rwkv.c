/* hf_export_rwkv.c - RWKV-7 and ARWKV, written: config.json's lengths, names and shapes of tensors, and the vocabulary
 * (hf_rwkv.c and hf_rwkv_vocab.c read them).
 */
#include "lib/llm/hf/hf_export.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- config.json ----------------------------------------------------------------------------- */

/* RwkvHybridForCausalLM, whose ranks its code fixes. */
static zt_status set_hybrid(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    const zt_time_mix_sizes *sizes = &hyper->time_mix;
    const bool gated = sizes->gate_rank != 0, normed = hyper->parts & ZT_PART_TIME_NORM;
    const int64_t share = hyper->n_layers > 1 ? hyper->layer[1].share_rank : ZT_HF_ARWKV_SHARE;
    if (sizes->decay_rank != ZT_HF_ARWKV_DECAY || sizes->rate_rank != ZT_HF_ARWKV_RATE || share != ZT_HF_ARWKV_SHARE ||
        (gated && sizes->gate_rank != ZT_HF_ARWKV_GATE))
        return zt_fail(export->ctx, ZT_ENOTSUP,
                       "%s: %s cannot have the ranks %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ": expected %d, %d, %d, %d",
                       export->file, export->arch->class, sizes->decay_rank, sizes->rate_rank, share, sizes->gate_rank,
                       ZT_HF_ARWKV_DECAY, ZT_HF_ARWKV_RATE, ZT_HF_ARWKV_SHARE, ZT_HF_ARWKV_GATE);
    const struct {
        const char *name;
        json_t *value;
    } rows[] = {{"head_size", json_integer(sizes->head)},
                {"head_size_divisor", json_integer(8)},
                {"num_wkv_heads", json_integer(sizes->heads)},
                {"wkv_version", json_integer(7)},
                {"wkv_has_gate", json_boolean(gated)},
                {"wkv_has_group_norm", json_boolean(normed)},
                {"wkv_layers", json_string("full")}};
    zt_status status = ZT_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        zt_status set = zt_export_set(export, export->config, rows[i].name, rows[i].value);
        if (status == ZT_OK) status = set;
    }
    return status;
}

zt_status zt_export_rwkv(hf_export *export)
{
    const zt_hyper *hyper = &export->hyper;
    const zt_time_mix_sizes *sizes = &hyper->time_mix;
    if (export->arch->id == HF_ARWKV7) return set_hybrid(export);
    if (export->arch->id != HF_RWKV7) return ZT_OK;
    const int64_t share_rank = hyper->n_layers > 1 ? hyper->layer[1].share_rank : sizes->rate_rank;
    const struct {
        const char *name;
        int64_t value;
    } rows[] = {{"head_dim", sizes->head},
                {"decay_low_rank_dim", sizes->decay_rank},
                {"a_low_rank_dim", sizes->rate_rank},
                {"v_low_rank_dim", share_rank},
                {"gate_low_rank_dim", sizes->gate_rank}};
    if (fabs((double)sizes->head * hyper->eps - 64e-5) >= 1e-9)
        return zt_fail(export->ctx, ZT_ENOTSUP,
                       "%s: %s cannot have heads of %" PRId64 " with a norm's epsilon of %g: expected a product of 0.00064",
                       export->file, export->arch->class, sizes->head, hyper->eps);
    zt_status status = zt_export_set(export, export->config, "norm_eps", zt_export_number(hyper->eps));
    for (size_t i = 0; status == ZT_OK && i < sizeof rows / sizeof *rows; i++)
        status = zt_export_set(export, export->config, rows[i].name, json_integer(rows[i].value));
    return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Behind "blk.N."; NULL: not a layer's. */
static const char *of_layer(const char *gguf)
{
    const char *point = strncmp(gguf, "blk.", 4) == 0 ? strchr(gguf + 4, '.') : NULL;
    return point ? point + 1 : NULL;
}

bool zt_hf_rwkv_export_name(const hf_arch *arch, const char *gguf, int64_t part, zt_str *name, zt_status *status)
{
    const char *what = of_layer(gguf), *layer = gguf + 4;
    *status = ZT_OK;
    zt_str_clear(name);
    if (arch->id == HF_ARWKV7) {
        if (!what || strcmp(what, "time_mix_lerp_fused.weight") != 0) return false;
        *status =
            zt_str_printf(name, "model.layers.%.*sself_attn.time_mixer.x_%c", (int)(what - layer), layer, ZT_HF_LERPS[part]);
        return true;
    }
    if (strncmp(gguf, "token_embd_norm.", 16) == 0)
        *status = zt_str_printf(name, "model.layers.0.pre_norm.%s", gguf + 16);
    else if (what && strcmp(what, "time_mix_lerp_fused.weight") == 0)
        *status = zt_str_printf(name, "model.layers.%.*sattn.x_%c", (int)(what - layer), layer, ZT_HF_LERPS[part]);
    else if (what && strlen(what) == strlen("time_mix_w0.weight") && strncmp(what, "time_mix_", 9) == 0 &&
             strcmp(what + 10, "0.weight") == 0)
        *status = zt_str_printf(name, "model.layers.%.*sattn.%c_lora.lora.2.bias", (int)(what - layer), layer, what[9]);
    else
        return false;
    return true;
}

int64_t zt_export_rwkv_count(const hf_export *export, const char *gguf)
{
    const char *what = of_layer(gguf);
    if (strncmp(gguf, "blk.0.time_mix_v", 16) == 0 && gguf[16] != 'a') return 0; /* of the first layer: not used */
    return what && strcmp(what, "time_mix_lerp_fused.weight") == 0 ? export->hyper.time_mix.lerps : 1;
}

void zt_export_rwkv_type(const hf_export *export, const char *gguf, int64_t part, zt_type *from, zt_type *out, int64_t *row)
{
    const zt_time_mix_sizes *sizes = &export->hyper.time_mix;
    const char *what = of_layer(gguf);
    const int64_t width = export->hyper.width;
    if (what && strcmp(what, "time_mix_lerp_fused.weight") == 0) {
        *row = part;
        *from = zt_type_make(from->dtype, 2, (int64_t[]){1, width});
        *out = zt_type_make(from->dtype, 3, (int64_t[]){1, 1, width});
    } else if (what && strcmp(what, "time_mix_r_k.weight") == 0) {
        *out = zt_type_make(from->dtype, 2, (int64_t[]){sizes->heads, sizes->head});
    } else if (what && export->arch->id == HF_ARWKV7 && from->rank == 1) {
        *out = zt_type_make(from->dtype, 3, (int64_t[]){1, 1, width});
    }
}

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* How many bytes an escaped text stands for. */
static int64_t count_bytes(zt_bytes text)
{
    int64_t count = 0;
    for (size_t i = 0; i < text.n; count++) i += text.data[i] != '\\' || i + 1 == text.n ? 1 : text.data[i + 1] == 'x' ? 4 : 2;
    return count;
}

/* "NUMBER b'TEXT' LENGTH", with the quotes that Python would take. */
static zt_status put_line(zt_str *out, int64_t id, zt_bytes text)
{
    bool single = false;
    for (size_t i = 0; i < text.n; i++) single = single || (text.data[i] == '\'' && (i == 0 || text.data[i - 1] != '\\'));
    char quote = single ? '"' : '\'';
    zt_status status = zt_str_printf(out, "%" PRId64 " b%c", id, quote);
    if (status == ZT_OK) status = zt_str_put(out, text.data, text.n);
    return status == ZT_OK ? zt_str_printf(out, "%c %" PRId64 "\n", quote, count_bytes(text)) : status;
}

/* The first token is none of the file's, and padding follows its last. */
static zt_status put_lines(hf_export *export, const zt_bytes *text, const int64_t *type, int64_t count, zt_str *out)
{
    zt_status status = ZT_OK;
    while (count > 0 && type[count - 1] == HF_TOKEN_UNUSED) count--;
    for (int64_t id = 1; status == ZT_OK && id < count; id++)
        status = type[id] == HF_TOKEN_NORMAL || type[id] == HF_TOKEN_BYTE
                     ? put_line(out, id, text[id])
                     : zt_fail(export->ctx, ZT_ENOTSUP,
                               "%s: token %" PRId64 " has type %" PRId64 ", for which " ZT_HF_RWKV_VOCAB " has no line",
                               export->file, id, type[id]);
    return status;
}

zt_status zt_export_rwkv_vocabulary(hf_export *export)
{
    int64_t count = 0;
    zt_gguf_kind kind;
    zt_str out;
    if (!zt_gguf_array(export->gguf, "tokenizer.ggml.tokens", &kind, &count) || kind != ZT_GGUF_STR || count > INT32_MAX / 4)
        return zt_fail(export->ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' is missing", export->file);
    zt_bytes *text = zt_alloc_array(export->ctx, (size_t)count, sizeof *text);
    int64_t *type = zt_alloc_array(export->ctx, (size_t)count, sizeof *type);
    zt_status status = text && type ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&out, export->ctx);
    if (status == ZT_OK && (!zt_gguf_array_strs(export->gguf, "tokenizer.ggml.tokens", text, count) ||
                            !zt_gguf_array_i64(export->gguf, "tokenizer.ggml.token_type", type, count)))
        status = zt_fail(export->ctx, ZT_EDATA, "%s: 'tokenizer.ggml.tokens' or 'tokenizer.ggml.token_type' cannot be read",
                         export->file);
    if (status == ZT_OK) status = put_lines(export, text, type, count, &out);
    if (status == ZT_OK) status = zt_export_file(export, ZT_HF_RWKV_VOCAB, out.data ? out.data : "", out.len);
    zt_str_fini(&out);
    zt_free(export->ctx, text);
    zt_free(export->ctx, type);
    return status;
}
