/* network.c - networks that an input carries: do they have weights, and --dtype f32, by which codes of
 * any storage type become floats, and their frame says so. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_FRAME "zt.netjson"

bool job_has_frame(const convert_job *job) { return zt_meta_find(job->meta, KEY_FRAME) >= 0; }

/* ---- specifications -------------------------------------------------------------------------- */

typedef struct weight_census {
    int64_t layer_count, missing_count; /* layers that should have weights; those of them that have none here */
    char first_missing[160];            /* such a one */
} weight_census;

/* false: the document is not read as a network, and its layers do not say what they should have. */
static bool take_census(convert_job *job, weight_census *census)
{
    zt_nn *network = zt_nn_open(job->ctx, job->paths[0], 0);
    const zt_nn_layer *last = NULL;
    char name[1 << 12];
    if (!network) zt_ctx_clear(job->ctx);
    for (int64_t i = 0; network && i < zt_nn_n_weights(network); i++) {
        const zt_nn_layer *layer = zt_nn_weight_at(network, i)->layer;
        if (layer == last) continue;
        last = layer;
        census->layer_count++;
        snprintf(name, sizeof name, "%s.weights", layer->path);
        if (zt_checkpoint_find(job->inputs[0], name) >= 0) continue;
        if (!census->missing_count++)
            zt_escape(census->first_missing, sizeof census->first_missing, layer->path, strlen(layer->path));
    }
    zt_nn_close(network);
    return network != NULL;
}

zt_status job_check_weights(convert_job *job)
{
    weight_census census = {0};
    const zt_container *json = zt_container_named("json");
    bool file = job->input_count == 1 && strcmp(job->paths[0], "-") != 0 && zt_checkpoint_container(job->inputs[0]) == json;
    bool known = file && take_census(job, &census);
    if (zt_checkpoint_count(job->inputs[0]) == 0 && job->input_count == 1)
        return zt_fail(job->ctx, ZT_EDATA, "%s: the network has no weights: nothing to convert%s",
                       zt_checkpoint_name(job->inputs[0]),
                       census.layer_count ? "; zt-train --epochs 0 writes a network with random weights" : "");
    if (known && census.missing_count)
        zt_cli_note(job->cli, "%s: %" PRId64 " of %" PRId64 " layers have no weights (%s) and no tensors", job->paths[0],
                    census.missing_count, census.layer_count, census.first_missing);
    return ZT_OK;
}

/* ---- --dtype --------------------------------------------------------------------------------- */

/* The frame must be of the tensors that go out, all of them under their names. */
static zt_status check_frame(const convert_job *job, const zt_netjson *frame)
{
    bool same = zt_netjson_count(frame) == job->picked_count;
    for (int64_t i = 0; same && i < job->picked_count; i++) {
        const zt_array *array = zt_netjson_get(frame, i);
        same = !strcmp(array->name, job->picked[i].out.name) && array->bytes == job->picked[i].in.bytes;
    }
    return same ? ZT_OK
                : zt_fail(job->ctx, ZT_EUSAGE, "%s: --dtype of a network needs all weights with their original names",
                          job->paths[0]);
}

static zt_status plan_layer(convert_job *job, const zt_netjson *frame, int64_t i, zt_net_weights *weights)
{
    picked_tensor *picked = &job->picked[i];
    picked->codes = zt_netjson_weights(frame, i);
    picked->count = zt_netjson_elements(frame, i);
    *weights = picked->codes;
    if (!picked->codes.native && picked->codes.type == ZT_STORE_F32) return ZT_OK;
    if (picked->count < 0)
        return zt_fail(job->ctx, ZT_ENOTSUP, "%s: '%s' is packed %s, but the layer does not give the number of weights",
                       job->paths[0], picked->in.name, zt_netjson_word(picked->codes.type));
    *weights = (zt_net_weights){.type = ZT_STORE_F32, .rule = ZT_RULE_FIELD, .scale = 1};
    picked->coded = true;
    picked->out.dtype = zt_dtype_get(ZT_F32)->name;
    picked->out.type = zt_type_make(ZT_F32, 1, &picked->count);
    picked->out.bytes = zt_type_bytes(&picked->out.type);
    return ZT_OK;
}

static zt_status write_frame(convert_job *job, const zt_netjson *frame)
{
    zt_net_weights *weights = zt_alloc_array(job->ctx, (size_t)job->picked_count + 1, sizeof *weights);
    zt_str text;
    zt_str_init(&text, job->ctx);
    zt_status status = weights ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < job->picked_count; i++) status = plan_layer(job, frame, i, &weights[i]);
    if (status == ZT_OK) status = zt_netjson_reframe(frame, weights, &text);
    if (status == ZT_OK) status = zt_meta_put_str(job->meta, KEY_FRAME, text.data, text.len);
    zt_str_fini(&text);
    zt_free(job->ctx, weights);
    return status;
}

zt_status job_network_dtype(convert_job *job)
{
    zt_dtype dtype;
    zt_status status = job_dtype(job, &dtype);
    if (status != ZT_OK || dtype == ZT_DTYPE_COUNT) return status;
    if (dtype != ZT_F32)
        return zt_fail(job->ctx, ZT_EUSAGE, "%s: a network allows only --dtype f32; use zt-quant --type %s", job->paths[0],
                       job->options->dtype);
    if (job->input_count != 1)
        return zt_fail(job->ctx, ZT_EUSAGE, "--dtype of a network needs one input, got %d", job->input_count);
    zt_bytes text = zt_meta_text(zt_meta_get(job->meta, zt_meta_find(job->meta, KEY_FRAME)));
    zt_netjson *frame = zt_netjson_from_frame(job->ctx, text.data ? text.data : "", text.n);
    status = frame ? check_frame(job, frame) : zt_ctx_status(job->ctx);
    if (status == ZT_OK) status = write_frame(job, frame);
    zt_netjson_close(frame);
    return status;
}

float *job_network_read(convert_job *job, const picked_tensor *picked)
{
    void *raw = zt_alloc(job->ctx, (size_t)picked->in.bytes + 1);
    float *values = raw ? zt_alloc_array(job->ctx, (size_t)picked->count + 1, sizeof *values) : NULL;
    if (values && zt_checkpoint_read(picked->checkpoint, picked->index, 0, raw, (size_t)picked->in.bytes) == ZT_OK) {
        zt_net_decode(&picked->codes, raw, picked->count, values);
    } else {
        zt_free(job->ctx, values);
        values = NULL;
    }
    zt_free(job->ctx, raw);
    return values;
}
