/* hf_mxfp4.c - matrices in MXFP4, which transformers holds as two tensors of bytes and GGUF as one of blocks. Both hold the
 * same: of 32 values one exponent and 32 nibbles, in another order.
 *
 *     NAME_scales     [..., rows, blocks]        the exponents
 *     NAME_blocks     [..., rows, blocks, 16]    byte j: value 2j, and above it value 2j + 1
 *     a GGUF block    the exponent, then 16 bytes; byte j: value j, and above it value j + 16
 *
 * Facts: transformers' integrations/mxfp4.py, ggml-quants.c.
 */
#include "lib/llm/hf/hf_export.h"

#include <inttypes.h>
#include <string.h>

enum { VALUES = 32, BYTES = HF_MXFP4_PAIRS, BLOCK = HF_MXFP4_BLOCK, STEP = 256 };

void zt_hf_mxfp4_block(uint8_t scale, const uint8_t *pairs, uint8_t *block)
{
    block[0] = scale;
    for (int j = 0; j < BYTES; j++) {
        int shift = j % 2 * 4;
        block[1 + j] = (uint8_t)((pairs[j / 2] >> shift & 15) | (pairs[j / 2 + BYTES / 2] >> shift & 15) << 4);
    }
}

static void unpack_block(const uint8_t *block, uint8_t *pairs)
{
    const uint8_t *byte = block + 1;
    for (int j = 0; j < BYTES; j++) {
        int first = 2 * j % BYTES, shift = j < BYTES / 2 ? 0 : 4;
        pairs[j] = (uint8_t)((byte[first] >> shift & 15) | (byte[first + 1] >> shift & 15) << 4);
    }
}

/* ---- from transformers ----------------------------------------------------------------------- */

zt_status zt_hf_read_mxfp4(const hf_tensors *tensors, const hf_tensor *tensor, int64_t first, int64_t count, char *dst)
{
    int64_t row_blocks = tensor->type.dim[tensor->type.rank - 1] / VALUES;
    uint8_t pairs[STEP * BYTES], scales[STEP];
    while (count > 0) {
        int64_t row = first / row_blocks, within = first % row_blocks, run = row_blocks - within;
        if (run > count) run = count;
        if (run > STEP) run = STEP;
        int64_t at = (tensor->half ? 2 * row + tensor->half - 1 : row) * row_blocks + within;
        zt_status status = zt_checkpoint_read(tensors->from, tensor->source, (size_t)at * BYTES, pairs, (size_t)run * BYTES);
        if (status == ZT_OK) status = zt_checkpoint_read(tensors->from, tensor->scales, (size_t)at, scales, (size_t)run);
        if (status != ZT_OK) return status;
        for (int64_t i = 0; i < run; i++, dst += BLOCK) zt_hf_mxfp4_block(scales[i], pairs + i * BYTES, (uint8_t *)dst);
        first += run;
        count -= run;
    }
    return ZT_OK;
}

size_t zt_hf_mxfp4_stem(const char *name)
{
    static const char *const ends[] = {"_blocks", "_scales"};
    size_t length = strlen(name), end_length = strlen(ends[0]);
    for (size_t i = 0; i < sizeof ends / sizeof *ends && length > end_length; i++)
        if (strcmp(name + length - end_length, ends[i]) == 0) return length - end_length;
    return 0;
}

/* The other of the two tensors. */
static int64_t find_other(const hf_import *import, const char *name, bool scales)
{
    zt_str other;
    zt_str_init(&other, import->ctx);
    zt_status status = zt_str_printf(&other, "%.*s%s", (int)zt_hf_mxfp4_stem(name), name, scales ? "_scales" : "_blocks");
    int64_t index = status == ZT_OK ? zt_checkpoint_find(import->tensors->from, other.data) : -1;
    zt_str_fini(&other);
    return index;
}

static bool is_bytes(const zt_entry *entry, int rank) { return entry->type.rank == rank && entry->type.dtype == ZT_U8; }

zt_status zt_hf_plan_mxfp4(const hf_import *import, int64_t index, hf_tensor *tensor)
{
    char text[160], blocks_text[ZT_TYPE_TEXT], scales_text[ZT_TYPE_TEXT];
    zt_entry entry, scales;
    zt_checkpoint_get(import->tensors->from, index, &entry);
    const char *file = zt_checkpoint_name(import->tensors->from),
               *name = zt_escape(text, sizeof text, entry.name, strlen(entry.name));
    bool is_scales = strcmp(entry.name + zt_hf_mxfp4_stem(entry.name), "_scales") == 0;
    int64_t other = find_other(import, entry.name, !is_scales);
    *tensor = (hf_tensor){.source = -1};
    if (zt_ctx_status(import->ctx) != ZT_OK) return zt_ctx_status(import->ctx);
    if (other < 0)
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' has no tensor of its %s beside it", file, name,
                       is_scales ? "blocks" : "scales");
    if (is_scales) return ZT_OK;
    zt_checkpoint_get(import->tensors->from, other, &scales);
    const int64_t *dim = entry.type.dim;
    if (!is_bytes(&entry, 4) || !is_bytes(&scales, 3) || dim[3] != BYTES || memcmp(dim, scales.type.dim, 3 * sizeof *dim) != 0)
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is %s and its scales are %s, expected u8[E,R,B,%d] and u8[E,R,B]",
                       file, name, zt_type_text(&entry.type, blocks_text), zt_type_text(&scales.type, scales_text), BYTES);
    if (dim[2] > INT64_MAX / VALUES) return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' is too large", file, name);
    tensor->type = zt_type_make(ZT_MXFP4, 3, (int64_t[]){dim[0], dim[1], dim[2] * VALUES});
    tensor->from = ZT_U8;
    tensor->source = index;
    tensor->scales = other;
    return ZT_OK;
}

/* ---- and back -------------------------------------------------------------------------------- */

void zt_export_mxfp4(const uint8_t *blocks, int64_t count, bool scales, uint8_t *out)
{
    for (int64_t i = 0; i < count; i++) {
        if (scales)
            out[i] = blocks[i * BLOCK];
        else
            unpack_block(blocks + i * BLOCK, out + i * BYTES);
    }
}
