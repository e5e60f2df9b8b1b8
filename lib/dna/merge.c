/* merge.c - owns a merge from its beginning to its end: parents, plan, pool, and each
 * tensor's way: copied as it is, or made by the method.
 */
#include "lib/base/require.h"
#include "lib/dna/merge_internal.h"

#include <string.h>

static zt_status take_parents(zt_merge *merge, const zt_merge_parent *parent, const zt_merge_opts *options)
{
    int threads = options && options->threads ? options->threads : zt_cpu_count();
    size_t parent_count = (size_t)merge->recipe->model_count;
    if (options) merge->options = *options;
    merge->arena = zt_arena_new(merge->ctx, 0);
    merge->parents = zt_calloc(merge->ctx, parent_count, sizeof *merge->parents);
    merge->layer_counts = zt_calloc(merge->ctx, parent_count, sizeof *merge->layer_counts);
    merge->frames = zt_calloc(merge->ctx, parent_count, sizeof(zt_netjson *));
    merge->pool = zt_pool_new(merge->ctx, threads > 256 ? 256 : threads);
    if (!merge->arena || !merge->parents || !merge->layer_counts || !merge->frames || !merge->pool) return ZT_ENOMEM;
    memcpy(merge->parents, parent, parent_count * sizeof *parent);
    for (size_t i = 0; i < parent_count; i++)
        if (zt_checkpoint_streams(parent[i].model))
            return zt_fail(merge->ctx, ZT_EUSAGE, "%s: a parent must be a seekable file", zt_checkpoint_name(parent[i].model));
    return zt_merge_plan(merge);
}

zt_merge *zt_merge_new(zt_ctx *ctx, const zt_recipe *recipe, const zt_merge_parent *parent, const zt_merge_opts *options)
{
    ZT_REQUIRE(ctx, recipe && parent && options, NULL);
    zt_merge *merge = zt_calloc(ctx, 1, sizeof *merge);
    if (!merge) return NULL;
    merge->ctx = ctx;
    merge->recipe = recipe;
    zt_status status = take_parents(merge, parent, options);
    if (status == ZT_OK) status = zt_merge_put_meta(merge);
    if (status == ZT_OK) status = zt_merge_net_finish(merge);
    if (status == ZT_OK) return merge;
    zt_merge_free(merge);
    return NULL;
}

void zt_merge_free(zt_merge *merge)
{
    if (!merge) return;
    for (int i = 0; merge->frames && i < merge->recipe->model_count; i++) zt_netjson_close(merge->frames[i]);
    zt_merge_vocab_free(merge);
    zt_free(merge->ctx, merge->frames);
    zt_free(merge->ctx, merge->parents);
    zt_free(merge->ctx, merge->layer_counts);
    zt_free(merge->ctx, merge->jobs);
    zt_free(merge->ctx, merge->entries);
    zt_meta_free(merge->meta);
    zt_pool_free(merge->pool);
    zt_arena_free(merge->arena);
    zt_free(merge->ctx, merge);
}

int64_t zt_merge_count(const zt_merge *merge) { return merge ? merge->job_count : 0; }
const zt_entry *zt_merge_entries(const zt_merge *merge) { return merge ? merge->entries : NULL; }
zt_meta *zt_merge_meta(zt_merge *merge)
{
    if (!merge) return NULL;
    return merge->meta;
}

zt_status zt_merge_check(const zt_merge *merge)
{
    if (!merge) return ZT_EUSAGE;
    char shown[160];
    for (int64_t i = 0; i < merge->job_count; i++) {
        const merge_job *job = &merge->jobs[i];
        if (!job->copy && !job->coded && !zt_quantize_has(job->entry.type.dtype))
            return zt_fail(merge->ctx, ZT_ENOTSUP, "tensor '%s': writing %s is not supported: choose another type",
                           zt_escape(shown, sizeof shown, job->entry.name, strlen(job->entry.name)), job->entry.dtype);
    }
    return ZT_OK;
}

/* ---- a tensor -------------------------------------------------------------------------------- */

static zt_status copy_tensor(zt_merge *merge, const merge_job *job, zt_writer *writer)
{
    enum { BYTES = 1 << 16 };
    char piece[BYTES];
    zt_status status = ZT_OK;
    for (uint64_t offset = 0, step; offset < job->entry.bytes && status == ZT_OK; offset += step) {
        step = job->entry.bytes - offset < BYTES ? job->entry.bytes - offset : BYTES;
        if (merge->options.stop && merge->options.stop()) return zt_fail(merge->ctx, ZT_EINTR, "interrupted");
        status = zt_merge_read(merge, job, job->type_source, offset, piece, (size_t)step);
        if (status == ZT_OK && writer) status = zt_writer_put(writer, piece, (size_t)step);
    }
    merge->bytes_done += (double)job->entry.bytes;
    return status;
}

/* Types, names and parameters of the sources. */
static zt_status set_up(merge_work *work, merge_values *values)
{
    const merge_job *job = work->job;
    zt_merge *merge = work->merge;
    work->source_count = job->slice->source_count;
    work->base = merge->recipe->method->base ? job->slice->base_index : -1;
    for (int source = 0; source < work->source_count; source++) {
        zt_entry entry;
        zt_status status = zt_merge_source_entry(merge, job, source, &entry);
        if (status != ZT_OK) return status;
        work->coded[source] = zt_merge_net_codes(merge, job, source, &work->net_weights[source]);
        work->types[source] = entry.type;
        work->names[source] = job->head ? job->entry.name : entry.name;
        if (source != work->base) work->others[work->other_count++] = source;
    }
    return zt_merge_resolve(merge->recipe, job->slice, job->entry.name, work->names, job->stack_position, values);
}

zt_status zt_merge_compute(zt_merge *merge, const merge_job *job, zt_writer *writer, double *magnitudes)
{
    double each[MERGE_SOURCES][MP_COUNT];
    unsigned has[MERGE_SOURCES];
    merge_values values = {.each = each, .has_each = has};
    merge_work work = {.merge = merge, .job = job, .values = &values, .writer = writer, .magnitudes = magnitudes};
    zt_status status = set_up(&work, &values);
    if (status == ZT_OK && job->entry.bytes) status = merge->recipe->method->run_method(&work);
    zt_merge_end(&work);
    return status;
}

zt_status zt_merge_write(zt_merge *merge, zt_writer *writer)
{
    if (!merge) return ZT_EUSAGE;
    zt_status status = zt_merge_check(merge);
    merge->bytes_done = merge->bytes_total = 0;
    for (int64_t i = 0; i < merge->job_count; i++) merge->bytes_total += (double)merge->jobs[i].entry.bytes;
    for (int64_t i = 0; i < merge->job_count && status == ZT_OK; i++)
        status = merge->jobs[i].copy ? copy_tensor(merge, &merge->jobs[i], writer)
                                     : zt_merge_compute(merge, &merge->jobs[i], writer, NULL);
    return status;
}
