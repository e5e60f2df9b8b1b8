/* write.c - the conversion: tensor after tensor, in pieces. */
#include "tools/zt-convert/convert.h"

#include <string.h>

enum {
    PIECE = 1 << 20,
    ELEMENTS = 1 << 17, /* a multiple of every block */
    COPY = 32 << 20,    /* bytes between two looks at the time */
    SMALL = 1 << 16     /* not worth calls of the kernel for each */
};

typedef struct tensor_copier {
    convert_job *job;
    zt_writer *writer;
    uint64_t done, total;    /* bytes put */
    const char *name;        /* of the tensor that they are of */
    char *piece, *out;       /* a piece, and what it becomes */
    const zt_source *source; /* whose bytes from `source_offset` on are in `piece`, so many; NULL: others are */
    uint64_t source_offset;
    size_t buffered;
} tensor_copier;

static zt_status add_progress(tensor_copier *copier, uint64_t bytes)
{
    copier->done += bytes;
    zt_progress(copier->job->cli, &(zt_work){"convert", copier->name, "B", (double)copier->done, (double)copier->total});
    return job_interrupted(copier->job);
}

/* Small ones that lie one behind the other are read together. */
static zt_status copy_small(tensor_copier *copier, const zt_source *source, uint64_t offset, size_t size)
{
    if (source != copier->source || offset < copier->source_offset || offset - copier->source_offset + size > copier->buffered) {
        copier->source = source;
        copier->source_offset = offset;
        zt_status status = zt_source_read_some(source, offset, copier->piece, SMALL, size, &copier->buffered);
        if (status == ZT_OK && copier->buffered < size) status = zt_source_read(source, offset, copier->piece, size);
        if (status != ZT_OK) return status;
    }
    zt_status status = zt_writer_put(copier->writer, copier->piece + (offset - copier->source_offset), size);
    return status == ZT_OK ? add_progress(copier, size) : status;
}

/* In a file, to be read anywhere? Then where. */
static bool find_place(const picked_tensor *picked, const zt_source **source, uint64_t *offset)
{
    return !zt_checkpoint_streams(picked->checkpoint) && zt_checkpoint_place(picked->checkpoint, picked->index, source, offset);
}

static bool keeps_dtype(const picked_tensor *picked) { return !picked->coded && picked->in.type.dtype == picked->out.type.dtype; }

/* Tensors from i on that lie one behind the other and go out so: how many, and their bytes. */
static int64_t count_run(const tensor_copier *copier, int64_t i, uint64_t *bytes)
{
    const zt_source *first, *source;
    uint64_t start, offset;
    int64_t count = 0;
    *bytes = 0;
    if (!zt_writer_seamless(copier->writer) || !find_place(&copier->job->picked[i], &first, &start)) return 0;
    for (; i + count < copier->job->picked_count; count++) {
        const picked_tensor *picked = &copier->job->picked[i + count];
        if (!keeps_dtype(picked) || !find_place(picked, &source, &offset) || source != first || offset != start + *bytes) break;
        *bytes += picked->in.bytes;
    }
    return count;
}

static zt_status copy_run(tensor_copier *copier, const picked_tensor *picked, uint64_t size)
{
    const zt_source *source;
    uint64_t offset;
    zt_status status = find_place(picked, &source, &offset) ? ZT_OK : ZT_EBUG;
    copier->source = NULL;
    for (uint64_t position = 0, step, end = picked->in.bytes; status == ZT_OK && position < size; position += step) {
        step = size - position < COPY ? size - position : COPY;
        while (end <= position) /* which of them is at `position` */
            end += (++picked)->in.bytes;
        copier->name = picked->in.name;
        status = zt_writer_copy(copier->writer, source, offset + position, step);
        if (status == ZT_OK) status = add_progress(copier, step);
    }
    return status;
}

/* Bytes as they are: by the kernel where they lie in a file, else through memory. */
static zt_status copy_tensor(tensor_copier *copier, const picked_tensor *picked)
{
    const zt_source *source;
    uint64_t offset;
    zt_status status = ZT_OK;
    bool file = find_place(picked, &source, &offset);
    if (file && picked->in.bytes <= SMALL) return copy_small(copier, source, offset, (size_t)picked->in.bytes);
    copier->source = NULL;
    for (uint64_t position = 0, step; status == ZT_OK && position < picked->in.bytes; position += step) {
        uint64_t limit = file ? COPY : PIECE;
        step = picked->in.bytes - position < limit ? picked->in.bytes - position : limit;
        if (file) {
            status = zt_writer_copy(copier->writer, source, offset + position, step);
        } else {
            status = zt_checkpoint_read(picked->checkpoint, picked->index, position, copier->piece, (size_t)step);
            if (status == ZT_OK) status = zt_writer_put(copier->writer, copier->piece, (size_t)step);
        }
        if (status == ZT_OK) status = add_progress(copier, step);
    }
    return status;
}

static size_t element_bytes(const zt_dtype_info *info, int64_t count)
{
    return (size_t)((count + info->block - 1) / info->block) * (size_t)info->block_bytes;
}

static zt_status convert_tensor(tensor_copier *copier, const picked_tensor *picked)
{
    const zt_dtype_info *source_info = zt_dtype_get(picked->in.type.dtype), *target_info = zt_dtype_get(picked->out.type.dtype);
    int64_t remaining = zt_type_count(&picked->in.type);
    uint64_t position = 0;
    copier->source = NULL;
    zt_status status = ZT_OK;
    for (int64_t step; status == ZT_OK && remaining > 0; remaining -= step) {
        step = remaining < ELEMENTS ? remaining : ELEMENTS;
        status = zt_checkpoint_read(picked->checkpoint, picked->index, position, copier->piece, element_bytes(source_info, step));
        position += element_bytes(source_info, step);
        if (status == ZT_OK) {
            zt_dtype_convert(picked->in.type.dtype, copier->piece, picked->out.type.dtype, copier->out, step);
            status = zt_writer_put(copier->writer, copier->out, element_bytes(target_info, step));
        }
        if (status == ZT_OK) status = add_progress(copier, element_bytes(target_info, step));
    }
    return status;
}

/* A network's weights, whole: their codes say how many there are. */
static zt_status make_float(tensor_copier *copier, const picked_tensor *picked)
{
    float *values = job_network_read(copier->job, picked);
    copier->source = NULL;
    zt_status status =
        values ? zt_writer_put(copier->writer, values, (size_t)picked->out.bytes) : zt_ctx_status(copier->job->ctx);
    zt_free(copier->job->ctx, values);
    return status == ZT_OK ? add_progress(copier, picked->out.bytes) : status;
}

static zt_status copy_all(tensor_copier *copier)
{
    convert_job *job = copier->job;
    zt_status status = copier->piece && copier->out ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < job->picked_count; i++) copier->total += job->picked[i].out.bytes;
    for (int64_t i = 0, run; status == ZT_OK && i < job->picked_count; i += run) {
        const picked_tensor *picked = &job->picked[i];
        uint64_t bytes;
        copier->name = picked->in.name;
        run = count_run(copier, i, &bytes);
        if (run > 1) {
            status = copy_run(copier, picked, bytes);
            continue;
        }
        run = 1;
        status = picked->coded         ? make_float(copier, picked)
                 : keeps_dtype(picked) ? copy_tensor(copier, picked)
                                       : convert_tensor(copier, picked);
    }
    for (int i = 0; status == ZT_OK && i < job->input_count; i++) status = zt_checkpoint_end(job->inputs[i]);
    return status;
}

static zt_status write_to(convert_job *job, const char *path, const zt_checkpoint_opts *options)
{
    zt_entry *out = zt_alloc_array(job->ctx, (size_t)job->picked_count, sizeof *out);
    tensor_copier copier = {.job = job, .piece = zt_alloc(job->ctx, PIECE), .out = zt_alloc(job->ctx, PIECE)};
    for (int64_t i = 0; out && i < job->picked_count; i++) out[i] = job->picked[i].out;
    copier.writer = out ? zt_writer_open(job->ctx, path, options, job->meta, out, job->picked_count) : NULL;
    zt_status status = copier.writer ? copy_all(&copier) : zt_ctx_status(job->ctx);
    if (status == ZT_OK) status = zt_writer_commit(copier.writer);
    zt_writer_close(copier.writer);
    zt_free(job->ctx, out);
    zt_free(job->ctx, copier.piece);
    zt_free(job->ctx, copier.out);
    return status;
}

/* ---- where to -------------------------------------------------------------------------------- */

/* By --to, else by the name; a name without a suffix, or stdout, is GGUF. */
static zt_status choose_container(convert_job *job, const zt_container **container)
{
    const char *slash = strrchr(job->output_path, '/'), *name = slash ? slash + 1 : job->output_path;
    *container = job->options->to ? zt_container_named(job->options->to) : zt_container_for(job->output_path);
    if (job->options->to && !*container) return zt_cli_no_container(job->cli, job->options->to);
    if (!*container && strchr(name, '.'))
        return zt_fail(job->ctx, ZT_EUSAGE, "%s: unknown container, specify it with --to", job->output_path);
    if (!*container) *container = zt_container_named("gguf");
    if (!zt_container_writes(*container))
        return zt_fail(job->ctx, ZT_ENOTSUP, "%s can be read but not written", zt_container_name(*container));
    return ZT_OK;
}

/* What can be said before anything is read. */
static zt_status check_paths(convert_job *job)
{
    zt_status status = ZT_OK;
    int streams = 0;
    for (int i = 0; status == ZT_OK && i < job->input_count; i++) {
        streams += strcmp(job->paths[i], "-") == 0;
        status = job->output_path ? zt_cli_refuse_same(job->cli, job->paths[i], job->output_path) : ZT_OK;
    }
    if (status == ZT_OK && streams > 1)
        status = zt_fail(job->ctx, ZT_EUSAGE, "stdin is given %d times, but can be one input only", streams);
    if (status == ZT_OK && job->output_path && strcmp(job->output_path, "-") == 0)
        status = zt_cli_refuse_terminal(job->cli, "a model");
    return status;
}

/* The file itself: a new one takes its place when it is whole, or what changed in its header is
 * written where it is. */
static zt_status edit_file(convert_job *job)
{
    zt_checkpoint_opts options = {.to = zt_checkpoint_container(job->inputs[0]), .force = true, .in_place = true};
    bool done = false;
    if (zt_checkpoint_streams(job->inputs[0]) || strcmp(job->paths[0], "-") == 0)
        return zt_fail(job->ctx, ZT_EUSAGE, "%s: cannot be edited in place: specify an output",
                       zt_checkpoint_name(job->inputs[0]));
    if (zt_checkpoint_in_parts(job->inputs[0]))
        return zt_fail(job->ctx, ZT_EUSAGE, "%s: is one of several files and cannot be edited in place: specify an output",
                       zt_checkpoint_name(job->inputs[0]));
    zt_entry *out = zt_alloc_array(job->ctx, (size_t)job->picked_count, sizeof *out);
    for (int64_t i = 0; out && i < job->picked_count; i++) out[i] = job->picked[i].out;
    zt_status status =
        out ? zt_checkpoint_patch(job->inputs[0], job->paths[0], job->meta, out, job->picked_count, &done) : ZT_ENOMEM;
    zt_free(job->ctx, out);
    return status == ZT_OK && !done ? write_to(job, job->paths[0], &options) : status;
}

/* ---- to a Hugging Face directory ------------------------------------------------------------- */

bool job_is_hf(const convert_job *job)
{
    size_t length = job->output_path ? strlen(job->output_path) : 0;
    return job->options->to ? strcmp(job->options->to, "hf") == 0 : length && job->output_path[length - 1] == '/';
}

/* Its tensors, names and keys are all of one model, as transformers reads it. */
zt_status job_to_hf(convert_job *job)
{
    const convert_options *options = job->options;
    zt_hf_opts hf_options = {.dtype = ZT_DTYPE_COUNT, .stop = zt_cli_interrupted};
    zt_status status = job_dtype(job, &hf_options.dtype);
    if (status != ZT_OK) return status;
    if (job->input_count != 1)
        return zt_fail(job->ctx, ZT_EUSAGE, "a Hugging Face directory needs one whole model, got %d inputs", job->input_count);
    if (strcmp(job->output_path, "-") == 0)
        return zt_fail(job->ctx, ZT_EUSAGE, "a Hugging Face directory cannot be written to stdout");
    if (options->dtype && hf_options.dtype != ZT_F32 && hf_options.dtype != ZT_F16 && hf_options.dtype != ZT_BF16)
        return zt_fail(job->ctx, ZT_EUSAGE, "option '--dtype': a Hugging Face directory allows only f32, f16 and bf16");
    zt_checkpoint *checkpoint = job_open_one(job, job->paths[0], 0);
    zt_gguf *gguf = checkpoint ? zt_checkpoint_gguf(checkpoint) : NULL;
    status = gguf ? zt_hf_write(job->ctx, gguf, job->output_path, &hf_options) : zt_ctx_status(job->ctx);
    zt_gguf_close(gguf);
    return status;
}

zt_status job_convert(convert_job *job)
{
    zt_checkpoint_opts writer_options = {.force = job->cli->force, .shard = job->options->shard};
    zt_status status = job->output_path ? choose_container(job, &writer_options.to) : ZT_OK;
    if (status == ZT_OK) status = check_paths(job);
    if (status == ZT_OK) status = job_open(job);
    if (status == ZT_OK) status = job_pick(job);
    if (status == ZT_OK && job_has_frame(job)) status = job_network_dtype(job);
    if (status == ZT_OK && job_has_frame(job) && job->output_path && writer_options.to != zt_container_named("json"))
        status = job_check_weights(job);
    if (status == ZT_OK) status = job_edit(job);
    if (status == ZT_OK) status = job->output_path ? write_to(job, job->output_path, &writer_options) : edit_file(job);
    return status;
}
