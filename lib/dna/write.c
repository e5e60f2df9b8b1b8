/* write.c - owns a model as a file: its tensors in their order, as zt_dna_fetch gives them, and of
 * a network a frame that says what its weights have become. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

enum { PIECE = 1 << 16 };

zt_meta *zt_dna_meta(zt_dna *model) { return model ? zt_checkpoint_meta(model->checkpoint) : NULL; }

/* ---- checkpoints ----------------------------------------------------------------------------- */

static zt_status put_tensor(zt_dna *model, int64_t index, zt_writer *writer)
{
    zt_dtype dtype = zt_dna_dtype(model, index);
    int64_t count = model->layers[index].count, step;
    if (!model->mix || model->mix->twins[index] < 0) return zt_writer_put_tensor(writer, model->checkpoint, index, NULL, NULL);
    char *piece = zt_alloc(model->ctx, zt_dna_bytes(dtype, PIECE));
    zt_status status = piece ? ZT_OK : ZT_ENOMEM;
    for (int64_t offset = 0; offset < count && status == ZT_OK; offset += step) {
        step = count - offset < PIECE ? count - offset : PIECE;
        status = zt_dna_fetch(model, index, offset, step, piece);
        if (status == ZT_OK) status = zt_writer_put(writer, piece, zt_dna_bytes(dtype, step));
    }
    zt_free(model->ctx, piece);
    return status;
}

/* ---- networks -------------------------------------------------------------------------------- */

/* [tensors] the part that each is; -1: no layer of the grid has it, and it stays as it is. */
static int64_t *list_parts(const zt_dna *model)
{
    int64_t count = zt_checkpoint_count(model->checkpoint);
    int64_t *parts = zt_alloc_array(model->ctx, (size_t)count + 1, sizeof *parts);
    for (int64_t i = 0; parts && i < count; i++) parts[i] = -1;
    for (int64_t part_index = 0; parts && model->is_net && part_index < model->part_count; part_index++)
        if (model->parts[part_index].tensor >= 0) parts[model->parts[part_index].tensor] = part_index;
    return parts;
}

static zt_status put_weights(zt_dna *model, int64_t tensor, int64_t part_index, zt_writer *writer)
{
    if (part_index < 0 || !model->mix || model->mix->twins[part_index] < 0)
        return zt_writer_put_tensor(writer, model->checkpoint, tensor, NULL, NULL);
    const dna_part *part = &model->parts[part_index];
    size_t bytes = zt_net_bytes(&part->weights, part->count);
    float *values = zt_alloc_array(model->ctx, (size_t)part->count, 2 * sizeof *values);
    zt_status status = values ? zt_dna_master(model, part_index, values) : ZT_ENOMEM;
    if (status == ZT_OK) status = zt_dna_grow_codes(model, bytes);
    zt_net_weights nearest = zt_net_nearest(&part->weights);
    if (status == ZT_OK) status = zt_net_encode(model->ctx, &nearest, values, part->count, model->codes, values + part->count);
    if (status == ZT_OK) status = zt_writer_put(writer, model->codes, bytes);
    zt_free(model->ctx, values);
    return status;
}

/* The frame with the weights as they have become; into the metadata. *out: it, opened. */
static zt_status put_frame(zt_dna *model, const int64_t *parts, zt_netjson **out)
{
    zt_meta *meta = zt_dna_meta(model);
    zt_bytes was = zt_meta_text(zt_meta_get(meta, zt_meta_find(meta, KEY_FRAME)));
    zt_netjson *document = zt_netjson_from_frame(model->ctx, was.data, was.n);
    int64_t count = document ? zt_netjson_count(document) : 0;
    zt_net_weights *weights = document ? zt_alloc_array(model->ctx, (size_t)count + 1, sizeof *weights) : NULL;
    zt_str frame;
    zt_str_init(&frame, model->ctx);
    zt_status status = weights ? ZT_OK : zt_ctx_status(model->ctx);
    for (int64_t i = 0; i < count && status == ZT_OK; i++) {
        weights[i] = parts[i] < 0 ? zt_netjson_weights(document, i) : model->parts[parts[i]].weights;
    }
    if (status == ZT_OK) status = zt_netjson_reframe(document, weights, &frame);
    if (status == ZT_OK) status = zt_meta_put_str(meta, KEY_FRAME, frame.data, frame.len);
    if (status == ZT_OK) *out = zt_netjson_from_frame(model->ctx, frame.data, frame.len);
    zt_str_fini(&frame);
    zt_free(model->ctx, weights);
    zt_netjson_close(document);
    return status == ZT_OK && !*out ? zt_ctx_status(model->ctx) : status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static zt_entry *list_entries(zt_dna *model, const zt_netjson *frame)
{
    int64_t count = zt_checkpoint_count(model->checkpoint);
    zt_entry *entries = zt_calloc(model->ctx, (size_t)count + 1, sizeof *entries);
    for (int64_t i = 0; entries && i < count; i++) {
        zt_checkpoint_get(model->checkpoint, i, &entries[i]);
        if (!frame) continue;
        const zt_array *array = zt_netjson_get(frame, i);
        bool known = array->type.dtype < ZT_DTYPE_COUNT;
        entries[i].dtype = known ? zt_dtype_get(array->type.dtype)->name : array->dtype;
        entries[i].type = array->type;
        entries[i].bytes = array->bytes;
    }
    return entries;
}

static zt_status put_all(zt_dna *model, const int64_t *parts, zt_writer *writer)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < zt_checkpoint_count(model->checkpoint) && status == ZT_OK; i++)
        status = model->is_net ? put_weights(model, i, parts[i], writer) : put_tensor(model, i, writer);
    return status == ZT_OK ? zt_writer_commit(writer) : status;
}

zt_status zt_dna_write(zt_dna *model, const char *path, const zt_checkpoint_opts *options)
{
    if (!model) return ZT_EUSAGE;
    ZT_REQUIRE(model->ctx, path && options, ZT_EUSAGE);
    zt_netjson *frame = NULL;
    if (model->lengths) return zt_fail(model->ctx, ZT_ENOTSUP, "%s: holds signatures, not a model", zt_dna_name(model));
    int64_t *parts = list_parts(model);
    zt_status status = !parts ? ZT_ENOMEM : model->is_net ? put_frame(model, parts, &frame) : ZT_OK;
    zt_entry *entries = status == ZT_OK ? list_entries(model, frame) : NULL;
    zt_writer *writer =
        entries ? zt_writer_open(model->ctx, path, options, zt_dna_meta(model), entries, zt_checkpoint_count(model->checkpoint))
                : NULL;
    if (status == ZT_OK) status = writer ? put_all(model, parts, writer) : zt_ctx_status(model->ctx);
    zt_writer_close(writer);
    zt_free(model->ctx, entries);
    zt_free(model->ctx, parts);
    zt_netjson_close(frame);
    return status;
}
