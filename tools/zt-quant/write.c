/* write.c - owns the output: every tensor in the input's order, quantized or as it is. */
#include "tools/zt-quant/quant.h"

#include <string.h>

static zt_status put_bytes(void *user, const void *bytes, size_t size) { return zt_writer_put(user, bytes, size); }

/* A value that is no number, in a tensor that goes over as it is. */
static zt_status refuse_nan(quant_run *run, const quant_job *job, const char *bytes, size_t size, uint64_t position)
{
    const zt_dtype_info *info = zt_dtype_get(job->source.type.dtype);
    float values[256];
    size_t count = size / (size_t)info->block_bytes;
    for (size_t i = 0; i < count; i += 256) {
        int64_t part = (int64_t)(count - i < 256 ? count - i : 256);
        info->decode(bytes + i * (size_t)info->block_bytes, values, part);
        zt_quantizer quantizer = {.dtype = ZT_F32, .columns = part ? part : 1, .name = job->source.name};
        float same[256];
        if (zt_quantize_rows(NULL, &quantizer, values, 1, same) == ZT_OK) continue;
        for (int64_t index = 0; index < part; index++)
            if (zt_quantize_rows(NULL, &(zt_quantizer){.dtype = ZT_F32, .columns = 1}, values + index, 1, same))
                return zt_fail(run->ctx, ZT_EDATA, "tensor '%s': element %llu is not finite", job->source.name,
                               (unsigned long long)(position / (uint64_t)info->block_bytes + i + (uint64_t)index));
    }
    return ZT_OK;
}

static bool can_hold_nan(const quant_job *job)
{
    zt_dtype dtype = job->source.type.dtype;
    return job->source.type.rank >= 0 && (dtype == ZT_F32 || dtype == ZT_F16 || dtype == ZT_BF16);
}

static zt_status copy_tensor(quant_run *run, int64_t i, zt_writer *writer)
{
    const quant_job *job = &run->jobs[i];
    char piece[1 << 16];
    zt_status status = ZT_OK;
    for (uint64_t position = 0, step; position < job->source.bytes && status == ZT_OK; position += step) {
        step = job->source.bytes - position < sizeof piece ? job->source.bytes - position : sizeof piece;
        status = zt_cli_interrupted() ? ZT_EINTR : zt_checkpoint_read(run->input, i, position, piece, step);
        if (status == ZT_OK && can_hold_nan(job)) status = refuse_nan(run, job, piece, step, position);
        if (status == ZT_OK && writer) status = zt_writer_put(writer, piece, step);
    }
    return status;
}

/* Codes, and then their scales. */
static zt_status write_scaled(quant_run *run, int64_t i, zt_writer *writer)
{
    quant_job *job = &run->jobs[i];
    quant_scales scales = {0};
    zt_status status = quant_scales_of(run, i, &scales);
    run->scales = &scales;
    if (status == ZT_OK)
        status = quant_rows(run, i, 0, quant_n_rows(&job->source.type), job->type.dtype,
                            run->options->measure ? &job->loss : NULL, writer ? put_bytes : NULL, writer);
    run->scales = NULL;
    if (status == ZT_OK && writer) status = zt_writer_put(writer, scales.scale, (size_t)scales.count * sizeof *scales.scale);
    zt_free(run->ctx, scales.scale);
    return status;
}

static zt_status write_tensors(quant_run *run, zt_writer *writer)
{
    zt_status status = ZT_OK;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        quant_job *job = &run->jobs[i];
        zt_progress(run->cli, &(zt_work){"quantize", job->source.name, "tensors", (double)i, (double)run->tensor_count});
        if (job->copy)
            status = copy_tensor(run, i, writer);
        else if (quant_is_scaled(job->type.dtype))
            status = write_scaled(run, i, writer);
        else
            status = quant_rows(run, i, 0, quant_n_rows(&job->source.type), job->type.dtype,
                                run->options->measure ? &job->loss : NULL, writer ? put_bytes : NULL, writer);
    }
    return status == ZT_OK ? zt_checkpoint_end(run->input) : status;
}

/* ---- the output ------------------------------------------------------------------------------ */

void quant_outputs_free(quant_run *run, quant_outputs *outputs)
{
    for (int64_t i = 0; outputs->names && i < outputs->count; i++) zt_free(run->ctx, outputs->names[i]);
    zt_free(run->ctx, outputs->names);
    zt_free(run->ctx, outputs->entries);
}

zt_status quant_outputs_list(quant_run *run, quant_outputs *outputs)
{
    outputs->entries = zt_calloc(run->ctx, (size_t)run->tensor_count * 2 + 1, sizeof *outputs->entries);
    outputs->names = zt_calloc(run->ctx, (size_t)run->tensor_count * 2 + 1, sizeof *outputs->names);
    if (!outputs->entries || !outputs->names) return ZT_ENOMEM;
    for (int64_t i = 0; i < run->tensor_count; i++) {
        const quant_job *job = &run->jobs[i];
        zt_entry *entry = &outputs->entries[outputs->count++];
        *entry = job->source;
        if (job->copy) continue;
        entry->type = job->type;
        entry->dtype = zt_dtype_get(job->type.dtype)->name;
        entry->bytes = zt_type_bytes(&job->type);
        if (!quant_is_scaled(job->type.dtype)) continue;
        outputs->names[outputs->count] = quant_scale_entry(run, job, &outputs->entries[outputs->count]);
        if (!outputs->names[outputs->count++]) return ZT_ENOMEM;
    }
    return ZT_OK;
}

const zt_container *quant_container(const quant_run *run)
{
    const zt_container *container = run->options->to   ? zt_container_named(run->options->to)
                                    : run->output_name ? zt_container_for(run->output_name)
                                                       : NULL;
    return container ? container : zt_container_named("gguf");
}

zt_status quant_file_bytes(quant_run *run, uint64_t *bytes)
{
    zt_checkpoint_opts options = {.to = quant_container(run)};
    quant_outputs outputs = {0};
    zt_meta *meta = zt_meta_new(run->ctx);
    zt_status status = meta ? zt_meta_share(meta, zt_checkpoint_meta(run->input)) : ZT_ENOMEM;
    if (status == ZT_OK) status = quant_put_history(run, meta);
    if (status == ZT_OK) status = quant_outputs_list(run, &outputs);
    if (status == ZT_OK) {
        *bytes = zt_writer_bytes(run->ctx, run->output_name ? run->output_name : "the output", &options, meta, outputs.entries,
                                 outputs.count);
        status = *bytes ? ZT_OK : zt_ctx_status(run->ctx);
    }
    zt_meta_free(meta);
    quant_outputs_free(run, &outputs);
    return status;
}

zt_status quant_write(quant_run *run)
{
    zt_checkpoint_opts options = {.to = quant_container(run), .force = run->cli->force};
    if (!run->output_path) return write_tensors(run, NULL);
    zt_status status = strcmp(run->output_path, "-") ? ZT_OK : zt_cli_refuse_terminal(run->cli, "a model");
    if (status == ZT_OK) status = quant_put_history(run, zt_checkpoint_meta(run->input));
    if (status != ZT_OK) return status;
    quant_outputs outputs = {0};
    status = quant_outputs_list(run, &outputs);
    zt_writer *writer = status == ZT_OK ? zt_writer_open(run->ctx, run->output_path, &options, zt_checkpoint_meta(run->input),
                                                         outputs.entries, outputs.count)
                                        : NULL;
    status = writer ? write_tensors(run, writer) : zt_ctx_status(run->ctx);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    quant_outputs_free(run, &outputs);
    return status;
}
