/* merge_net.c - owns networks among the parents, as JSON holds them (lib/io/netjson.h): weights
 * that are codes of a storage type with a scale are merged as numbers, and become codes of the
 * first parent's type again.
 *
 * The codes are those nearest to the child's weights, their scale is the field's for these, for which
 * the layer is merged twice: by the first parent's scale they might not fit, and Loom's rule wraps.
 */
#include "lib/dna/merge_internal.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

static zt_netjson *open_frame(zt_merge *merge, zt_checkpoint *checkpoint)
{
    const zt_meta *meta = zt_checkpoint_meta(checkpoint);
    zt_bytes frame_text = zt_meta_text(zt_meta_get(meta, zt_meta_find(meta, KEY_FRAME)));
    zt_netjson *frame = zt_netjson_from_frame(merge->ctx, frame_text.data ? frame_text.data : "", frame_text.n);
    if (!frame) return NULL;
    bool same = zt_netjson_count(frame) == zt_checkpoint_count(checkpoint);
    for (int64_t i = 0; same && i < zt_netjson_count(frame); i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        same = !strcmp(zt_netjson_get(frame, i)->name, entry.name) && zt_netjson_get(frame, i)->bytes == entry.bytes;
    }
    if (same) return frame;
    zt_fail(merge->ctx, ZT_EDATA, "%s: the stored network structure does not match the tensors", zt_checkpoint_name(checkpoint));
    zt_netjson_close(frame);
    return NULL;
}

zt_status zt_merge_net_open(zt_merge *merge)
{
    for (int model_index = 0; model_index < merge->recipe->model_count; model_index++) {
        zt_checkpoint *checkpoint = merge->parents[model_index].model;
        if (zt_meta_find(zt_checkpoint_meta(checkpoint), KEY_FRAME) < 0) continue;
        if (!(merge->frames[model_index] = open_frame(merge, checkpoint))) return zt_ctx_status(merge->ctx);
    }
    return ZT_OK;
}

zt_status zt_merge_net_check(const zt_merge *merge, int model, int64_t tensor)
{
    const zt_netjson *frame = merge->frames[model];
    zt_net_weights weights = zt_netjson_weights(frame, tensor);
    char shown[160];
    const char *name = zt_netjson_get(frame, tensor)->name;
    if (!weights.native || zt_netjson_elements(frame, tensor) >= 0) return ZT_OK;
    return zt_fail(merge->ctx, ZT_ENOTSUP,
                   "%s: '%s' is packed %s: the number of weights does not follow from the layer's "
                   "parameters",
                   zt_checkpoint_name(merge->parents[model].model), zt_escape(shown, sizeof shown, name, strlen(name)),
                   zt_netjson_word(weights.type));
}

void zt_merge_net_entry(const zt_merge *merge, int model, int64_t tensor, zt_entry *entry)
{
    const zt_netjson *frame = merge->frames[model];
    zt_checkpoint_get(merge->parents[model].model, tensor, entry);
    if (frame && entry->type.dtype == ZT_DTYPE_COUNT && zt_netjson_elements(frame, tensor) >= 0)
        entry->type.dim[0] = zt_netjson_elements(frame, tensor);
}

bool zt_merge_net_codes(const zt_merge *merge, const merge_job *job, int source, zt_net_weights *out)
{
    const zt_netjson *frame = merge->frames[job->slice->sources[source].model];
    if (!frame) return false;
    *out = zt_netjson_weights(frame, job->tensors[source]);
    return out->native;
}

bool zt_merge_net_by_mean(const merge_job *job)
{
    return job->net_weights.type == ZT_STORE_TERNARY || job->net_weights.type == ZT_STORE_BINARY;
}

/* The scale that the merged layer needs. */
static zt_status find_scale(zt_merge *merge, merge_job *job)
{
    int64_t count = zt_type_count(&job->entry.type);
    double *sizes = zt_calloc(merge->ctx, (size_t)count + 1, sizeof *sizes), all = 0;
    if (!sizes) return ZT_ENOMEM;
    zt_status status = zt_merge_compute(merge, job, NULL, sizes);
    bool mean = zt_merge_net_by_mean(job);
    for (int64_t i = 0; i < count && status == ZT_OK; i++) all = mean ? all + sizes[i] : sizes[i] > all ? sizes[i] : all;
    float size = (float)(mean && count ? all / (double)count : all);
    if (status == ZT_OK) job->net_weights.scale = zt_storage_scale(zt_net_nearest(&job->net_weights).type, &size, 1);
    zt_free(merge->ctx, sizes);
    return status;
}

zt_status zt_merge_net_finish(zt_merge *merge)
{
    zt_netjson *first_frame = merge->frames[zt_recipe_first(merge->recipe)];
    zt_status status = ZT_OK;
    if (!first_frame) return ZT_OK;
    if (merge->restacked || zt_netjson_count(first_frame) != merge->job_count)
        return zt_fail(merge->ctx, ZT_ENOTSUP, "%s: slices are not supported for networks", merge->recipe->name);
    zt_net_weights *weights = zt_alloc_array(merge->ctx, (size_t)merge->job_count + 1, sizeof *weights);
    if (!weights) return ZT_ENOMEM;
    for (int64_t i = 0; i < merge->job_count; i++) weights[i] = zt_netjson_weights(first_frame, i);
    for (int64_t i = 0; i < merge->job_count && status == ZT_OK; i++) {
        merge_job *job = &merge->jobs[i];
        if (!job->coded || job->copy || job->net_weights.type <= ZT_STORE_BF16) continue;
        status = find_scale(merge, job);
        weights[job->tensors[job->type_source]].scale = job->net_weights.scale;
    }
    zt_str frame;
    zt_str_init(&frame, merge->ctx);
    if (status == ZT_OK) status = zt_netjson_reframe(first_frame, weights, &frame);
    if (status == ZT_OK) status = zt_meta_put_str(merge->meta, KEY_FRAME, frame.data, frame.len);
    zt_str_fini(&frame);
    zt_free(merge->ctx, weights);
    return status;
}
