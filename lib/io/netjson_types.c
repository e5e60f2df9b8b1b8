/* netjson_types.c - owns what a network's weights are: their codes, and a frame that says others.
 *
 * A frame is text: the values of the members that tell of weights are replaced where they stand,
 * and what is missing comes behind the weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/require.h"
#include "lib/io/netjson_file.h"

zt_net_weights zt_netjson_weights(const zt_netjson *net, int64_t i) { return net ? net->weights[i].coding : (zt_net_weights){0}; }

int64_t zt_netjson_elements(const zt_netjson *net, int64_t i) { return net ? net->weights[i].count : 0; }

/* ---- codes ----------------------------------------------------------------------------------- */

/* Floats that are held as f32. */
static bool is_f32(const zt_net_weights *weights)
{
    return !weights->native || weights->type == ZT_STORE_F32 || weights->type == ZT_STORE_F16 || weights->type == ZT_STORE_BF16;
}

size_t zt_net_bytes(const zt_net_weights *weights, int64_t count)
{
    if (!weights) return 0;
    return is_f32(weights) ? (size_t)count * sizeof(float) : zt_storage_bytes(weights->type, weights->rule, count);
}

/* The codes of each byte in the other order: the first of them in the highest bits. */
static void reverse_codes(uint8_t *codes, size_t size, int bits)
{
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < size; i++) {
        unsigned old = codes[i], fresh = 0;
        for (int shift = 0; shift < 8; shift += bits) fresh |= (old >> shift & mask) << (8 - bits - shift);
        codes[i] = (uint8_t)fresh;
    }
}

zt_status zt_net_encode(zt_ctx *ctx, const zt_net_weights *weights, const float *values, int64_t count, void *out, float *decoded)
{
    ZT_REQUIRE(ctx, weights && (values || !count) && out && decoded, ZT_EUSAGE);
    size_t bytes = zt_storage_bytes(weights->type, weights->rule, count);
    int bits = zt_storage_get(weights->type)->bits;
    zt_status status;
    if (!weights->native) {
        memcpy(out, values, (size_t)count * sizeof *values);
        memcpy(decoded, values, (size_t)count * sizeof *values);
        return ZT_OK;
    }
    status = zt_storage_encode(ctx, weights->type, weights->rule, values, count, weights->scale, out);
    if (status != ZT_OK) return status;
    zt_storage_decode(weights->type, weights->rule, out, count, weights->scale, decoded);
    if (is_f32(weights))
        memcpy(out, decoded, (size_t)count * sizeof *decoded);
    else if (weights->rule == ZT_RULE_FIELD && bits < 8)
        reverse_codes(out, bytes, bits);
    return ZT_OK;
}

zt_net_weights zt_net_nearest(const zt_net_weights *weights)
{
    if (!weights) return (zt_net_weights){0};
    static const struct {
        zt_storage type, read; /* by Loom's reader */
    } rows[] = {{ZT_STORE_FP8E4M3, ZT_STORE_I8}, {ZT_STORE_FP8E5M2, ZT_STORE_I8}, {ZT_STORE_FP4, ZT_STORE_I4},
                {ZT_STORE_U64, ZT_STORE_I64},    {ZT_STORE_U32, ZT_STORE_I32},    {ZT_STORE_U16, ZT_STORE_I16},
                {ZT_STORE_U8, ZT_STORE_I8},      {ZT_STORE_U4, ZT_STORE_I4},      {ZT_STORE_U2, ZT_STORE_I2}};
    zt_net_weights nearest = *weights;
    if (!weights->native || weights->rule == ZT_RULE_FIELD || weights->type <= ZT_STORE_BF16) return nearest;
    nearest.rule = ZT_RULE_FIELD;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == weights->type) nearest.type = rows[i].read;
    return nearest;
}

void zt_net_decode(const zt_net_weights *weights, const void *bytes, int64_t count, float *values)
{
    if (!weights || (!bytes && count) || !values) return;
    uint8_t piece[256];
    const uint8_t *input = bytes;
    int bits = zt_storage_get(weights->type)->bits;
    if (is_f32(weights)) {
        memcpy(values, bytes, (size_t)count * sizeof *values);
        return;
    }
    if (weights->rule == ZT_RULE_LOOM || bits >= 8) {
        zt_storage_decode(weights->type, weights->rule, bytes, count, weights->scale, values);
        return;
    }
    for (int64_t piece_count = 8 * (int64_t)sizeof piece / bits; count > 0; count -= piece_count, values += piece_count) {
        int64_t step = count < piece_count ? count : piece_count;
        size_t size = zt_storage_bytes(weights->type, weights->rule, step);
        memcpy(piece, input, size);
        reverse_codes(piece, size, bits);
        zt_storage_decode(weights->type, weights->rule, piece, step, weights->scale, values);
        input += size;
    }
}

/* ---- another frame --------------------------------------------------------------------------- */

/* frame[from .. to-1] becomes the text. */
typedef struct frame_edit {
    size_t from, to;
    int order; /* among those of one place */
    char text[48];
} frame_edit;

enum { EDITS = NJ_MEMBERS + 1 }; /* of a layer: its members, and what stands for its weights */

static int compare_edits(const void *left, const void *right)
{
    const frame_edit *first = left, *second = right;
    return first->from != second->from ? (first->from < second->from ? -1 : 1) : first->order - second->order;
}

/* The shortest number that reads as this scale. */
static void write_scale(char *buffer, size_t size, float scale)
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(buffer, size, "%.*g", digits, (double)scale);
        if (strtof(buffer, NULL) == scale) return;
    }
}

/* A member's value, where it stands or, missing, behind the weights. */
static void set_member(frame_edit *edit, const nj_weights *weights, int member, const char *value)
{
    static const char *const key[NJ_MEMBERS] = {"dtype", "native", "scale", "zt.rule"};
    nj_span span = weights->member[member];
    bool present = span.to > span.from;
    edit->from = present ? span.from : weights->frame_end + 1;
    edit->to = present ? span.to : edit->from;
    edit->order = member;
    if (present)
        snprintf(edit->text, sizeof edit->text, "%s", value);
    else
        snprintf(edit->text, sizeof edit->text, ",\"%s\":%s", key[member], value);
}

/* Collects the edits that give the frame the new coding of tensor i; how many edits. */
static int collect_edits(const zt_netjson *net, int64_t i, const zt_net_weights *wanted, frame_edit *edits)
{
    const nj_weights *weights = &net->weights[i];
    char text[32];
    int count = 0;
    bool by_rule = wanted->native && zt_nj_reads_by_rule(wanted->type);
    snprintf(text, sizeof text, "\"%s\"", zt_netjson_word(wanted->type));
    set_member(&edits[count++], weights, NJ_DTYPE, text);
    if (wanted->native != weights->coding.native)
        set_member(&edits[count++], weights, NJ_NATIVE, wanted->native ? "true" : "false");
    write_scale(text, sizeof text, wanted->scale);
    if (wanted->scale != weights->coding.scale || (weights->member[NJ_SCALE].to == 0 && wanted->native))
        set_member(&edits[count++], weights, NJ_SCALE, text);
    if (weights->member[NJ_RULE].to || (by_rule && wanted->rule == ZT_RULE_FIELD))
        set_member(&edits[count++], weights, NJ_RULE, wanted->rule == ZT_RULE_FIELD && by_rule ? "\"field\"" : "\"loom\"");
    edits[count] = (frame_edit){.from = weights->frame, .to = weights->frame_end};
    snprintf(edits[count].text, sizeof edits[count].text, "#%lld:%zu", (long long)i,
             zt_net_bytes(wanted, zt_netjson_elements(net, i)));
    return count + 1;
}

static bool is_same(const zt_net_weights *left, const zt_net_weights *right)
{
    return left->type == right->type && left->native == right->native && left->rule == right->rule && left->scale == right->scale;
}

static zt_status put_edited(const zt_netjson *net, const frame_edit *edits, int64_t count, zt_str *out)
{
    size_t position = 0;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < count && status == ZT_OK; i++) {
        status = zt_str_put(out, net->frame.data + position, edits[i].from - position);
        if (status == ZT_OK) status = zt_str_puts(out, edits[i].text);
        position = edits[i].to;
    }
    return status == ZT_OK ? zt_str_put(out, net->frame.data + position, net->frame.len - position) : status;
}

zt_status zt_netjson_reframe(const zt_netjson *net, const zt_net_weights *weights, zt_str *out)
{
    if (!net) return ZT_EUSAGE;
    int64_t count = 0;
    zt_status status = ZT_OK;
    frame_edit *edits = zt_alloc_array(net->base.ctx, (size_t)net->base.count + 1, EDITS * sizeof *edits);
    if (!edits) return ZT_ENOMEM;
    for (int64_t i = 0; i < net->base.count && status == ZT_OK; i++) {
        if (is_same(&weights[i], &net->weights[i].coding)) continue;
        if (zt_netjson_elements(net, i) < 0)
            status = zt_fail(net->base.ctx, ZT_ENOTSUP, "'%s': packed %s weights of unknown count", net->tensors[i].name,
                             zt_netjson_word(net->weights[i].coding.type));
        else
            count += collect_edits(net, i, &weights[i], edits + count);
    }
    if (status == ZT_OK) {
        qsort(edits, (size_t)count, sizeof *edits, compare_edits);
        status = put_edited(net, edits, count, out);
    }
    zt_free(net->base.ctx, edits);
    return status;
}
