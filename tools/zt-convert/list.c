/* list.c - tables of what is in a file: its tensors, their bytes by layer or dtype, its metadata;
 * and one tensor as npy. */
#include "lib/base/near.h"
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *shape_text(const zt_type *type, char buffer[ZT_TYPE_TEXT])
{
    int length = snprintf(buffer, ZT_TYPE_TEXT, "[");
    if (type->rank < 0) return strcpy(buffer, "?");
    for (int i = 0; i < type->rank && length < ZT_TYPE_TEXT - 24; i++)
        length += snprintf(buffer + length, ZT_TYPE_TEXT - (size_t)length, i ? ",%" PRId64 : "%" PRId64, type->dim[i]);
    snprintf(buffer + length, ZT_TYPE_TEXT - (size_t)length, "]");
    return buffer;
}

static bool is_chosen(const convert_job *job, const char *name)
{
    const zt_opt_list *select = &job->options->select, *drop = &job->options->drop;
    bool yes = select->n == 0;
    for (int i = 0; i < select->n; i++) yes |= glob_matches(select->item[i], name);
    for (int i = 0; i < drop->n; i++) yes &= !glob_matches(drop->item[i], name);
    return yes;
}

/* ---- rows of one input or several ------------------------------------------------------------- */

zt_status job_table(convert_job *job, const char *schema, const char *const *columns, int column_count)
{
    if (!job->table) job->table = zt_table_new(job->cli, schema, columns + !job->many, column_count - !job->many);
    return job->table ? ZT_OK : ZT_ENOMEM;
}

zt_status job_row(convert_job *job, const char *const *cells) { return zt_table_row(job->table, cells + !job->many); }

/* ---- by layer or dtype ----------------------------------------------------------------------- */

typedef struct group_sum {
    const char *name;
    int64_t tensors, elements;
    uint64_t bytes;
} group_sum;

typedef struct group_sums {
    convert_job *job;
    zt_map *names;
    group_sum *groups;
    int64_t count;
} group_sums;

/* "blk.3" of "blk.3.attn_q.weight": up to the first number; else what is before the first dot. */
static size_t layer_name_length(const char *name)
{
    for (const char *part = name; *part;) {
        size_t length = strcspn(part, ".");
        if (length && strspn(part, "0123456789") == length) return (size_t)(part + length - name);
        part += length + (part[length] == '.');
    }
    return strcspn(name, ".");
}

static zt_status add_to_sum(group_sums *sums, const char *name, size_t length, const zt_entry *entry)
{
    int64_t index;
    if (!zt_map_get(sums->names, name, length, &index)) {
        index = sums->count;
        if ((index & (index - 1)) == 0) {
            group_sum *more = zt_realloc(sums->job->ctx, sums->groups, (size_t)(index ? 2 * index : 1) * sizeof *more);
            if (!more) return ZT_ENOMEM;
            sums->groups = more;
        }
        sums->groups[index] = (group_sum){.name = zt_arena_strndup(sums->job->texts, name, length)};
        if (!sums->groups[index].name || zt_map_put(sums->names, sums->groups[index].name, length, index) != ZT_OK)
            return ZT_ENOMEM;
        sums->count++;
    }
    sums->groups[index].tensors++;
    sums->groups[index].elements += entry->type.rank < 0 ? 0 : zt_type_count(&entry->type);
    sums->groups[index].bytes += entry->bytes;
    return ZT_OK;
}

static zt_status put_sums(const group_sums *sums)
{
    static const char *const columns[][6] = {{"file", "layer", "#tensors", "#elements", "#bytes", "#share"},
                                             {"file", "dtype", "#tensors", "#elements", "#bytes", "#share"}};
    uint64_t total = 0;
    zt_status status = job_table(sums->job, "convert.list", columns[sums->job->options->by], 6);
    for (int64_t i = 0; i < sums->count; i++) total += sums->groups[i].bytes;
    for (int64_t i = 0; status == ZT_OK && i < sums->count; i++) {
        char text[4][32];
        const group_sum *group = &sums->groups[i];
        snprintf(text[0], 32, "%" PRId64, group->tensors);
        snprintf(text[1], 32, "%" PRId64, group->elements);
        snprintf(text[2], 32, "%" PRIu64, group->bytes);
        snprintf(text[3], 32, "%.4f", total ? (double)group->bytes / (double)total : 0.0);
        status = job_row(sums->job, (const char *[]){sums->job->paths[0], group->name, text[0], text[1], text[2], text[3]});
    }
    return status;
}

static zt_status list_sums(convert_job *job, zt_checkpoint *checkpoint)
{
    group_sums sums = {.job = job, .names = zt_map_new(job->ctx, 16)};
    zt_status status = sums.names ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < zt_checkpoint_count(checkpoint); i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        if (!is_chosen(job, entry.name)) continue;
        status = job->options->by == CONVERT_BY_DTYPE ? add_to_sum(&sums, entry.dtype, strlen(entry.dtype), &entry)
                                                      : add_to_sum(&sums, entry.name, layer_name_length(entry.name), &entry);
    }
    if (status == ZT_OK) status = put_sums(&sums);
    zt_map_free(sums.names);
    zt_free(job->ctx, sums.groups);
    return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static zt_status list_tensors(convert_job *job, zt_checkpoint *checkpoint)
{
    static const char *const columns[] = {"file", "name", "dtype", "shape", "#bytes"};
    zt_status status = job_table(job, "convert.list", columns, 5);
    for (int64_t i = 0; status == ZT_OK && i < zt_checkpoint_count(checkpoint); i++) {
        zt_entry entry;
        char shape[ZT_TYPE_TEXT], bytes[32];
        zt_checkpoint_get(checkpoint, i, &entry);
        if (!is_chosen(job, entry.name)) continue;
        snprintf(bytes, sizeof bytes, "%" PRIu64, entry.bytes);
        status = job_row(job, (const char *[]){job->paths[0], entry.name, entry.dtype, shape_text(&entry.type, shape), bytes});
    }
    return status;
}

zt_status job_list(convert_job *job)
{
    zt_checkpoint *checkpoint = job_open_one(job, job->paths[0], ZT_CHECKPOINT_STREAM);
    if (!checkpoint) return zt_ctx_status(job->ctx);
    zt_status status = job->options->by >= 0 ? list_sums(job, checkpoint) : list_tensors(job, checkpoint);
    zt_checkpoint_close(checkpoint);
    return status;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* "u32", "array of str" */
static const char *kind_text(const zt_meta_item *item, char buffer[40])
{
    zt_gguf_kind kind;
    uint64_t count;
    if (zt_meta_array(item, &kind, &count))
        snprintf(buffer, 40, "%s[%" PRIu64 "]", zt_gguf_kind_name(kind), count);
    else
        snprintf(buffer, 40, "%s", zt_gguf_kind_name(item->kind));
    return buffer;
}

/* Long values are cut for eyes alone. */
static zt_status put_meta(convert_job *job, const zt_meta *meta)
{
    static const char *const columns[] = {"file", "key", "type", "value"};
    bool brief = job->cli->format == ZT_FMT_AUTO && zt_cli_on_terminal();
    zt_status status = job_table(job, "convert.meta", columns, 4);
    zt_str value;
    zt_str_init(&value, job->ctx);
    for (int64_t i = 0; status == ZT_OK && i < zt_meta_count(meta); i++) {
        const zt_meta_item *item = zt_meta_get(meta, i);
        char kind[40];
        zt_str_clear(&value);
        status = put_value(&value, item, brief);
        if (status == ZT_OK)
            status = job_row(
                job, (const char *[]){job->paths[0], item->key.data, kind_text(item, kind), value.data ? value.data : ""});
    }
    zt_str_fini(&value);
    return status;
}

zt_status job_meta(convert_job *job)
{
    zt_checkpoint *checkpoint = job_open_one(job, job->paths[0], ZT_CHECKPOINT_STREAM);
    const zt_meta *meta = checkpoint ? zt_checkpoint_meta(checkpoint) : NULL;
    zt_status status = meta ? put_meta(job, meta) : zt_ctx_status(job->ctx);
    zt_checkpoint_close(checkpoint);
    return status;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* As it is where NumPy has its dtype, else as f32, which holds it. */
static zt_status write_tensor_data(convert_job *job, zt_checkpoint *checkpoint, int64_t i, const zt_entry *entry, zt_sink *out)
{
    enum { STEP = 1 << 17 };
    zt_type type = entry->type;
    const zt_dtype_info *info = zt_dtype_get(type.dtype);
    bool as_f32 = !zt_npz_can(&type);
    if (as_f32) type.dtype = ZT_F32;
    char *raw = zt_alloc(job->ctx, STEP * 8), *floats = zt_alloc(job->ctx, STEP * 4);
    int64_t remaining = zt_type_count(&type);
    uint64_t position = 0;
    zt_status status = raw && floats ? zt_npy_write_header(out, job->ctx, &type) : ZT_ENOMEM;
    for (int64_t step; status == ZT_OK && remaining > 0; remaining -= step) {
        step = remaining < STEP ? remaining : STEP;
        size_t bytes = (size_t)((step + info->block - 1) / info->block) * (size_t)info->block_bytes;
        status = zt_checkpoint_read(checkpoint, i, position, raw, bytes);
        position += bytes;
        if (status == ZT_OK && as_f32) zt_dtype_convert(entry->type.dtype, raw, ZT_F32, floats, step);
        if (status == ZT_OK) status = as_f32 ? zt_sink_write(out, floats, (size_t)step * 4) : zt_sink_write(out, raw, bytes);
        if (status == ZT_OK) status = job_interrupted(job);
    }
    zt_free(job->ctx, raw);
    zt_free(job->ctx, floats);
    return status;
}

static const char *tensor_name(const void *checkpoint, int i)
{
    zt_entry entry;
    const zt_checkpoint *opened = checkpoint;
    if (i >= zt_checkpoint_count(opened)) return NULL;
    zt_checkpoint_get(opened, i, &entry);
    return entry.name;
}

static zt_status write_tensor(convert_job *job, zt_checkpoint *checkpoint, const char *path)
{
    char text[160];
    zt_near_hint hint;
    zt_entry entry;
    const char *name = job->options->cat;
    int64_t index = zt_checkpoint_find(checkpoint, name);
    zt_escape(text, sizeof text, name, strlen(name));
    if (index < 0)
        return zt_fail(job->ctx, ZT_ENOENT, "%s: there is no tensor '%s'%s", zt_checkpoint_name(checkpoint), text,
                       zt_near(hint, name, tensor_name, checkpoint));
    zt_checkpoint_get(checkpoint, index, &entry);
    if (entry.type.rank < 0 || entry.type.dtype == ZT_DTYPE_COUNT)
        return zt_fail(job->ctx, ZT_ENOTSUP, "%s: tensor '%s' is of type %s, which is not supported",
                       zt_checkpoint_name(checkpoint), text, entry.dtype);
    zt_sink *out = zt_sink_open(job->ctx, path, job->cli->force);
    zt_status status = out ? write_tensor_data(job, checkpoint, index, &entry, out) : zt_ctx_status(job->ctx);
    if (status == ZT_OK) status = zt_sink_commit(out);
    zt_sink_close(out);
    return status;
}

zt_status job_cat(convert_job *job)
{
    const char *path = job->cli->output ? job->cli->output : "-";
    zt_status status = strcmp(path, "-") == 0 ? zt_cli_refuse_terminal(job->cli, "an array") : ZT_OK;
    if (status == ZT_OK) status = zt_cli_refuse_same(job->cli, job->paths[0], path);
    zt_checkpoint *checkpoint =
        status == ZT_OK ? job_open_one(job, job->paths[0], ZT_CHECKPOINT_STREAM | ZT_CHECKPOINT_DECODE) : NULL;
    if (checkpoint) status = write_tensor(job, checkpoint, path);
    zt_checkpoint_close(checkpoint);
    return status == ZT_OK ? zt_ctx_status(job->ctx) : status;
}
