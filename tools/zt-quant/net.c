/* net.c - owns networks, as JSON holds them (lib/io/netjson.h): each layer's weights become codes
 * of one storage type with one scale, which stand in the network's frame.
 *
 * By the field's rule the scale is found from the weights, by Loom's it is the layer's own. What
 * container carries the network does not matter: its frame is metadata.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <string.h>

#define KEY_FRAME "zt.netjson"

typedef struct net_run {
    quant_run *run;
    zt_netjson *frame;       /* the frame of the input */
    zt_netjson *new_frame;   /* and of the output */
    zt_net_weights *weights; /* [n] what weights become */
    float *values, *decoded; /* one layer's, as they are and as they become */
    char *bytes;
    size_t capacity; /* weights that there is room for */
} net_run;

bool quant_has_frame(quant_run *run) { return zt_meta_find(zt_checkpoint_meta(run->input), KEY_FRAME) >= 0; }

bool quant_is_net(quant_run *run) { return run->options->type && run->storage != ZT_STORE_COUNT && quant_has_frame(run); }

zt_status quant_check_model(quant_run *run)
{
    if (quant_has_frame(run))
        return zt_fail(run->ctx, ZT_EUSAGE,
                       "%s: is a network, but %s%s applies only to models; use --type with a type for networks (--list-types)",
                       zt_checkpoint_name(run->input),
                       run->options->type     ? "--type "
                       : run->options->target ? "--target-size"
                                              : "--bpw",
                       run->options->type ? run->options->type : "");
    if (run->options->rule == ZT_RULE_LOOM || !run->mix)
        return zt_fail(run->ctx, ZT_EUSAGE, "%s: is not a network, but %s applies only to networks",
                       zt_checkpoint_name(run->input), run->mix ? "--rule loom" : run->options->type);
    char text[QUANT_WISH_TEXT];
    for (int64_t i = 0; i < run->wish_count; i++)
        if (run->wishes[i].dtype == ZT_DTYPE_COUNT)
            return zt_fail(run->ctx, ZT_EUSAGE, "%s: is not a network, but %s has a type for networks",
                           zt_checkpoint_name(run->input), quant_wish_text(run, i, text));
    return ZT_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* The frame that the input carries must be of its tensors. */
static zt_status open_frame(net_run *net)
{
    quant_run *run = net->run;
    zt_meta *meta = zt_checkpoint_meta(run->input);
    zt_bytes frame = zt_meta_text(zt_meta_get(meta, zt_meta_find(meta, KEY_FRAME)));
    net->frame = zt_netjson_from_frame(run->ctx, frame.data ? frame.data : "", frame.n);
    if (!net->frame) return zt_ctx_status(run->ctx);
    bool same = zt_netjson_count(net->frame) == zt_checkpoint_count(run->input);
    for (int64_t i = 0; same && i < zt_netjson_count(net->frame); i++) {
        const zt_array *array = zt_netjson_get(net->frame, i);
        zt_entry entry;
        zt_checkpoint_get(run->input, i, &entry);
        same = !strcmp(array->name, entry.name) && array->bytes == entry.bytes;
    }
    return same ? ZT_OK : zt_fail(run->ctx, ZT_EDATA, "%s: the layers do not match the tensors", zt_checkpoint_name(run->input));
}

static zt_status type_of(const net_run *net, const char *name, zt_storage *storage)
{
    const quant_run *run = net->run;
    char text[QUANT_WISH_TEXT];
    *storage = run->storage;
    for (int64_t i = 0; i < run->wish_count; i++)
        if (zt_mix_matches(&run->wishes[i], name)) {
            *storage = run->wish_of[i].net;
            if (*storage == ZT_STORE_COUNT)
                return zt_fail(run->ctx, ZT_EUSAGE, "%s: the type is for models, not for networks",
                               quant_wish_text(run, i, text));
        }
    return zt_ctx_status(run->ctx);
}

/* What becomes of layer i's weights; the field's scale comes later. */
static zt_status plan_layer(net_run *net, int64_t i)
{
    quant_run *run = net->run;
    quant_job *job = &run->jobs[i];
    zt_net_weights old = zt_netjson_weights(net->frame, i), *fresh = &net->weights[i];
    int64_t count = zt_netjson_elements(net->frame, i);
    zt_storage storage = ZT_STORE_F32;
    zt_status status = type_of(net, job->source.name, &storage);
    *fresh = (zt_net_weights){storage, storage != ZT_STORE_F32, (zt_storage_rule)run->options->rule, 1};
    job->old_word = zt_netjson_word(old.native ? old.type : ZT_STORE_F32);
    job->new_word = zt_netjson_word(storage);
    job->copy = storage == old.type && (old.native || storage == ZT_STORE_F32);
    if (job->copy) *fresh = old;
    net->capacity = count > 0 && (size_t)count > net->capacity ? (size_t)count : net->capacity;
    if (status != ZT_OK || job->copy) return status;
    if (count < 0)
        return zt_fail(run->ctx, ZT_ENOTSUP, "%s: '%s' is packed %s, but the layer does not give the number of weights",
                       zt_checkpoint_name(run->input), job->source.name, job->old_word);
    if (run->options->rule == ZT_RULE_LOOM) fresh->scale = old.scale;
    if (!(fresh->scale > 0))
        return zt_fail(run->ctx, ZT_EDATA, "%s: '%s' has the invalid scale %g", zt_checkpoint_name(run->input), job->source.name,
                       (double)fresh->scale);
    job->bytes = zt_net_bytes(fresh, count);
    return ZT_OK;
}

static zt_status check_wishes(const net_run *net)
{
    quant_run *run = net->run;
    zt_status status = ZT_OK;
    for (int64_t wish = run->wish_count - 1; wish >= 0 && status == ZT_OK; wish--) { /* lines of a file in their order */
        bool any = false;
        for (int64_t i = 0; i < run->tensor_count && !any; i++)
            any = zt_mix_matches(&run->wishes[wish], run->jobs[i].source.name);
        if (!any) status = quant_wish_unused(run, wish, "layer");
    }
    return status;
}

static zt_status plan_layers(net_run *net)
{
    quant_run *run = net->run;
    if (zt_cli_refuse_given(run->cli, "imatrix|scale|pure|strict|threads|token-embedding-type|output-tensor-type",
                            "a network; it applies to a model"))
        return ZT_EUSAGE;
    zt_status status = open_frame(net);
    if (status != ZT_OK) return status;
    run->tensor_count = zt_checkpoint_count(run->input);
    if (run->tensor_count == 0)
        return zt_fail(run->ctx, ZT_EDATA, "%s: the network has no weights: nothing to quantize", zt_checkpoint_name(run->input));
    run->jobs = zt_calloc(run->ctx, (size_t)run->tensor_count + 1, sizeof *run->jobs);
    net->weights = zt_calloc(run->ctx, (size_t)run->tensor_count + 1, sizeof *net->weights);
    if (!run->jobs || !net->weights) return ZT_ENOMEM;
    for (int64_t i = 0; i < run->tensor_count; i++) zt_checkpoint_get(run->input, i, &run->jobs[i].source);
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) status = plan_layer(net, i);
    return status == ZT_OK ? check_wishes(net) : status;
}

/* ---- weights --------------------------------------------------------------------------------- */

static zt_status make_room(net_run *net)
{
    zt_ctx *ctx = net->run->ctx;
    net->values = zt_alloc_array(ctx, net->capacity + 1, sizeof *net->values);
    net->decoded = zt_alloc_array(ctx, net->capacity + 1, sizeof *net->decoded);
    net->bytes = zt_alloc_array(ctx, net->capacity + 1, sizeof(double)); /* no code is wider */
    return net->values && net->decoded && net->bytes ? ZT_OK : ZT_ENOMEM;
}

/* Layer i's weights as floats; all must be finite. */
static zt_status read_layer(net_run *net, int64_t i)
{
    quant_run *run = net->run;
    zt_net_weights old = zt_netjson_weights(net->frame, i);
    int64_t count = zt_netjson_elements(net->frame, i);
    if (zt_cli_interrupted()) return ZT_EINTR;
    zt_status status = zt_checkpoint_read(run->input, i, 0, net->bytes, (size_t)run->jobs[i].source.bytes);
    if (status != ZT_OK || count == 0) return status;
    zt_net_decode(&old, net->bytes, count, net->values);
    zt_quantizer same = {.dtype = ZT_F32, .columns = count, .name = run->jobs[i].source.name};
    return zt_quantize_rows(run->ctx, &same, net->values, 1, net->decoded);
}

static bool has_scale(const zt_net_weights *weights)
{
    return zt_storage_get(weights->type)->dtype == ZT_DTYPE_COUNT ||
           zt_dtype_get(zt_storage_get(weights->type)->dtype)->kind != 'F' || zt_storage_get(weights->type)->bits < 16;
}

/* The field's scales, from a first look at the weights. */
static zt_status find_scales(net_run *net)
{
    quant_run *run = net->run;
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        if (run->jobs[i].copy || run->options->rule != ZT_RULE_FIELD || !has_scale(&net->weights[i])) continue;
        if (zt_checkpoint_streams(run->input))
            return zt_fail(run->ctx, ZT_ENOTSUP, "%s: a pipe cannot be read twice: use a file", zt_checkpoint_name(run->input));
        status = read_layer(net, i);
        net->weights[i].scale = zt_storage_scale(net->weights[i].type, net->values, zt_netjson_elements(net->frame, i));
    }
    return status;
}

/* Weights that stay as they are; finite, where there are floats. */
static zt_status copy_layer(net_run *net, int64_t i, zt_writer *writer)
{
    const quant_job *job = &net->run->jobs[i];
    char piece[1 << 14];
    zt_status status = zt_netjson_elements(net->frame, i) < 0 ? ZT_OK : read_layer(net, i);
    for (uint64_t position = 0, step; position < job->source.bytes && status == ZT_OK; position += step) {
        step = job->source.bytes - position < sizeof piece ? job->source.bytes - position : sizeof piece;
        status = zt_checkpoint_read(net->run->input, i, position, piece, step);
        if (status == ZT_OK && writer) status = zt_writer_put(writer, piece, step);
    }
    return status;
}

static zt_status write_layer(net_run *net, int64_t i, zt_writer *writer)
{
    quant_job *job = &net->run->jobs[i];
    int64_t count = zt_netjson_elements(net->frame, i);
    if (job->copy) return copy_layer(net, i, writer);
    zt_status status = read_layer(net, i);
    if (status == ZT_OK) status = zt_net_encode(net->run->ctx, &net->weights[i], net->values, count, net->bytes, net->decoded);
    if (status == ZT_OK) zt_loss_add(&job->loss, net->values, net->decoded, count);
    return status == ZT_OK && writer ? zt_writer_put(writer, net->bytes, (size_t)job->bytes) : status;
}

static zt_status write_layers(net_run *net, zt_writer *writer)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < net->run->tensor_count && status == ZT_OK; i++) {
        zt_progress(net->run->cli,
                    &(zt_work){"quantize", net->run->jobs[i].source.name, "layers", (double)i, (double)net->run->tensor_count});
        status = write_layer(net, i, writer);
    }
    return status == ZT_OK ? zt_checkpoint_end(net->run->input) : status;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The frame of the output, also in its metadata. */
static zt_status put_frame(net_run *net)
{
    quant_run *run = net->run;
    zt_meta *meta = zt_checkpoint_meta(run->input);
    zt_str frame;
    zt_str_init(&frame, run->ctx);
    zt_status status = zt_netjson_reframe(net->frame, net->weights, &frame);
    if (status == ZT_OK) {
        net->new_frame = zt_netjson_from_frame(run->ctx, frame.data, frame.len);
        status = net->new_frame ? zt_meta_put_str(meta, KEY_FRAME, frame.data, frame.len) : zt_ctx_status(run->ctx);
    }
    zt_str_fini(&frame);
    return status == ZT_OK ? quant_put_history(run, meta) : status;
}

static zt_entry *list_entries(net_run *net)
{
    quant_run *run = net->run;
    zt_entry *entries = zt_calloc(run->ctx, (size_t)run->tensor_count + 1, sizeof *entries);
    for (int64_t i = 0; entries && i < run->tensor_count; i++) {
        const zt_array *array = zt_netjson_get(net->new_frame, i);
        bool known = array->type.dtype < ZT_DTYPE_COUNT;
        entries[i] = (zt_entry){.name = array->name,
                                .dtype = known ? zt_dtype_get(array->type.dtype)->name : array->dtype,
                                .type = array->type,
                                .bytes = array->bytes};
    }
    return entries;
}

static zt_status write_file(net_run *net)
{
    quant_run *run = net->run;
    const zt_container *container = run->options->to ? zt_container_named(run->options->to) : zt_container_for(run->output_path);
    zt_checkpoint_opts options = {.to = container ? container : zt_container_named("json"), .force = run->cli->force};
    zt_status status = strcmp(run->output_path, "-") ? ZT_OK : zt_cli_refuse_terminal(run->cli, "a network");
    if (status == ZT_OK) status = put_frame(net);
    zt_entry *entries = status == ZT_OK ? list_entries(net) : NULL;
    zt_writer *writer =
        entries ? zt_writer_open(run->ctx, run->output_path, &options, zt_checkpoint_meta(run->input), entries, run->tensor_count)
                : NULL;
    if (status == ZT_OK) status = writer ? write_layers(net, writer) : zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_free(run->ctx, entries);
    return status;
}

static zt_status quantize_net(net_run *net)
{
    quant_run *run = net->run;
    zt_status status = plan_layers(net);
    if (status == ZT_OK && run->options->dry_run) return quant_print_plan(run);
    if (status == ZT_OK) status = make_room(net);
    if (status == ZT_OK) status = find_scales(net);
    if (status == ZT_OK) status = run->output_path ? write_file(net) : write_layers(net, NULL);
    return status == ZT_OK && run->options->measure ? quant_print_losses(run) : status;
}

zt_status quant_net(quant_run *run)
{
    net_run net = {.run = run};
    zt_status status = quantize_net(&net);
    zt_netjson_close(net.frame);
    zt_netjson_close(net.new_frame);
    zt_free(run->ctx, net.weights);
    zt_free(run->ctx, net.values);
    zt_free(run->ctx, net.decoded);
    zt_free(run->ctx, net.bytes);
    return status;
}
