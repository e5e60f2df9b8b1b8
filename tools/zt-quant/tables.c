/* tables.c - what zt-quant prints: types, plans, losses. */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 48 };

static const char *shape_text(const zt_type *type, char buffer[CELL])
{
    size_t length = 0;
    buffer[0] = 0;
    for (int i = 0; i < type->rank && length < CELL - 24; i++)
        length += (size_t)snprintf(buffer + length, CELL - length, "%s%" PRId64, i ? "x" : "", type->dim[i]);
    return buffer;
}

static const char *name_of(const zt_entry *entry, zt_dtype dtype)
{
    return dtype < ZT_DTYPE_COUNT ? zt_dtype_get(dtype)->name : entry->dtype;
}

static const char *old_type(const quant_job *job)
{
    return job->old_word ? job->old_word : name_of(&job->source, job->source.type.dtype);
}

static const char *new_type(const quant_job *job)
{
    return job->new_word ? job->new_word : name_of(&job->source, job->type.dtype);
}

uint64_t quant_new_bytes(const quant_job *job)
{
    return job->copy ? job->source.bytes : job->new_word ? job->bytes : zt_type_bytes(&job->type);
}

/* ---- --dry-run ------------------------------------------------------------------------------- */

static zt_status plan_row(zt_table *table, const char *name, const char *from_type, const char *to_type, const char *wanted,
                          const char *shape, uint64_t old_bytes, uint64_t new_bytes)
{
    char cells[2][CELL];
    snprintf(cells[0], CELL, "%" PRIu64, old_bytes);
    snprintf(cells[1], CELL, "%" PRIu64, new_bytes);
    return zt_table_row(table, (const char *const[]){name, shape, from_type, to_type, wanted, cells[0], cells[1]});
}

/* The scales that are written behind a tensor. */
static zt_status scale_row(quant_run *run, zt_table *table, const quant_job *job, uint64_t *bytes)
{
    char shape[CELL];
    zt_entry entry;
    char *name = quant_scale_entry(run, job, &entry);
    zt_status status =
        name ? plan_row(table, name, "", entry.dtype, "", shape_text(&entry.type, shape), 0, entry.bytes) : ZT_ENOMEM;
    *bytes += entry.bytes;
    zt_free(run->ctx, name);
    return status;
}

/* The whole of the output: also what is not data of tensors. */
static zt_status file_row(quant_run *run, zt_table *table)
{
    uint64_t bytes = 0;
    zt_status status = quant_file_bytes(run, &bytes);
    return status == ZT_OK ? plan_row(table, "file", "", zt_container_name(quant_container(run)), "", "", 0, bytes) : status;
}

zt_status quant_print_plan(quant_run *run)
{
    static const char *const columns[] = {"tensor", "shape", "from", "to", "wanted", "#bytes", "#new_bytes"};
    zt_table *table = zt_table_new(run->cli, "quant-plan", columns, 7);
    uint64_t old_bytes = 0, new_bytes = 0;
    char shape[CELL];
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        const quant_job *job = &run->jobs[i];
        old_bytes += job->source.bytes;
        new_bytes += quant_new_bytes(job);
        status = plan_row(table, job->source.name, old_type(job), new_type(job),
                          job->choice.fell_back ? zt_dtype_get(job->choice.wanted)->name : "",
                          shape_text(&job->source.type, shape), job->source.bytes, quant_new_bytes(job));
        if (status == ZT_OK && !job->new_word && !job->copy && quant_is_scaled(job->type.dtype))
            status = scale_row(run, table, job, &new_bytes);
    }
    if (status == ZT_OK) status = plan_row(table, "total", "", "", "", "", old_bytes, new_bytes);
    if (status == ZT_OK && !quant_has_frame(run)) status = file_row(run, table);
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

/* ---- --measure ------------------------------------------------------------------------------- */

static zt_status loss_row(zt_table *table, const char *name, const char *type, const zt_loss_of *loss, uint64_t bytes)
{
    char cells[6][CELL];
    snprintf(cells[0], CELL, "%" PRIu64, bytes);
    snprintf(cells[1], CELL, "%.9g", zt_loss_rmse(loss));
    snprintf(cells[2], CELL, "%.9g", loss->most);
    snprintf(cells[3], CELL, "%.9f", zt_loss_cosine(loss));
    snprintf(cells[4], CELL, "%.4f", zt_loss_snr(loss));
    return zt_table_row(table, (const char *const[]){name, type, cells[0], cells[1], cells[2], cells[3], cells[4]});
}

zt_status quant_print_losses(quant_run *run)
{
    static const char *const columns[] = {"tensor", "type", "#bytes", "#rmse", "#max", "#cosine", "#snr_db"};
    zt_table *table = zt_table_new(run->cli, "quant-measure", columns, 7);
    zt_loss_of total = {0};
    uint64_t bytes = 0;
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < run->tensor_count && status == ZT_OK; i++) {
        const quant_job *job = &run->jobs[i];
        if (job->copy || job->choice.kept) continue;
        bytes += quant_new_bytes(job);
        quant_add_loss(&total, &job->loss);
        status = loss_row(table, job->source.name, new_type(job), &job->loss, quant_new_bytes(job));
    }
    if (status == ZT_OK) status = loss_row(table, "total", "", &total, bytes);
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}

/* ---- --list-types ---------------------------------------------------------------------------- */

static zt_status type_row(zt_table *table, const char *name, const char *also, const char *mostly, double bits, int block,
                          const char *of)
{
    char cells[2][CELL];
    snprintf(cells[0], CELL, "%.4g", bits);
    snprintf(cells[1], CELL, "%d", block);
    return zt_table_row(table, (const char *const[]){name, also, mostly, cells[0], cells[1], of});
}

static zt_status model_row(zt_table *table, const zt_mix *mix)
{
    const zt_dtype_info *info = zt_dtype_get(mix->dtype);
    return type_row(table, mix->name, mix->alias ? mix->alias : "", info->name, 8.0 * info->block_bytes / info->block,
                    info->block, "models");
}

static zt_status net_row(zt_table *table, zt_storage storage)
{
    const zt_storage_info *info = zt_storage_get(storage);
    const char *word = zt_netjson_word(storage);
    return type_row(table, info->name, strcmp(word, info->name) ? word : "", word, info->bits, 1, "networks");
}

zt_status quant_list_types(zt_cli *cli)
{
    static const char *const columns[] = {"name", "also", "mostly", "#bits", "#block", "of"};
    zt_table *table = zt_table_new(cli, "quant-types", columns, 6);
    zt_status status = table ? ZT_OK : ZT_ENOMEM;
    const zt_mix *mix;
    for (int i = 0; (mix = zt_mix_at(i)) && status == ZT_OK; i++)
        if (quant_can(mix->dtype)) status = model_row(table, mix);
    for (int i = 0; i < ZT_STORE_COUNT && status == ZT_OK; i++) status = net_row(table, (zt_storage)i);
    if (status == ZT_OK) status = zt_table_print(table);
    zt_table_free(table);
    return status;
}
