/* input.c - inputs opened, tensors picked. */
#include "tools/zt-convert/convert.h"

#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

zt_checkpoint *job_open_one(convert_job *job, const char *path, unsigned flags)
{
    if (!is_folder(path)) return zt_checkpoint_open(job->ctx, path, flags);
    zt_gguf *gguf = zt_model_open_whole(job->ctx, path);
    return gguf ? zt_checkpoint_of_gguf(job->ctx, gguf) : NULL;
}

zt_status job_open(convert_job *job)
{
    job->inputs = zt_calloc(job->ctx, (size_t)job->input_count, sizeof(zt_checkpoint *));
    job->meta = zt_meta_new(job->ctx);
    const unsigned decode = job->options->dtype ? ZT_CHECKPOINT_DECODE : 0; /* else such rows are copied */
    zt_status status = job->inputs && job->meta ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; status == ZT_OK && i < job->input_count; i++) {
        job->inputs[i] = job_open_one(job, job->paths[i], ZT_CHECKPOINT_STREAM | decode);
        const zt_meta *meta = job->inputs[i] ? zt_checkpoint_meta(job->inputs[i]) : NULL;
        status = meta ? zt_meta_share(job->meta, meta) : zt_ctx_status(job->ctx);
    }
    return status;
}

zt_status job_interrupted(convert_job *job) { return zt_cli_interrupted() ? zt_fail(job->ctx, ZT_EINTR, "interrupted") : ZT_OK; }

/* ---- picking --------------------------------------------------------------------------------- */

static bool matches_any(const zt_opt_list *globs, const char *name)
{
    for (int i = 0; i < globs->n; i++)
        if (glob_matches(globs->item[i], name)) return true;
    return false;
}

/* The dtype of --dtype; ZT_DTYPE_COUNT: none was given. */
zt_status job_dtype(convert_job *job, zt_dtype *dtype)
{
    const char *name = job->options->dtype;
    *dtype = ZT_DTYPE_COUNT;
    if (!name) return ZT_OK;
    if (!zt_dtype_parse(name, strlen(name), dtype)) return zt_cli_no_dtype(job->cli, name);
    if (zt_dtype_get(*dtype)->kind != 'F')
        return zt_fail(job->ctx, ZT_EUSAGE, "option '--dtype': %s is not a floating-point type%s", name,
                       zt_dtype_get(*dtype)->kind == 'Q' ? "; use zt-quant to quantize" : "");
    return ZT_OK;
}

/* Vectors of a language model, norms and biases (and its positions), keep the precision of f32, as
 * llama.cpp's converter has it and its engines want it. */
static zt_status change_dtype(convert_job *job, picked_tensor *picked, zt_dtype dtype)
{
    char text[160];
    size_t bytes;
    if (zt_model_stays_f32(picked->in.name, &picked->in.type) && zt_dtype_get(dtype)->block_bytes < 4 &&
        zt_meta_find(job->meta, "general.architecture") >= 0)
        dtype = ZT_F32;
    if (picked->in.type.dtype == ZT_DTYPE_COUNT || picked->in.type.rank < 0 || !zt_dtype_is_float(picked->in.type.dtype))
        return ZT_OK; /* integers, bools, and what zt does not know, stay */
    picked->out.type.dtype = dtype;
    picked->out.dtype = zt_dtype_get(dtype)->name;
    if (!zt_dtype_converts(picked->in.type.dtype, dtype) || !zt_type_check(job->ctx, &picked->out.type, &bytes))
        return zt_fail(job->ctx, ZT_ENOTSUP, "tensor '%s': %s cannot be converted to %s",
                       zt_escape(text, sizeof text, picked->in.name, strlen(picked->in.name)), picked->in.dtype,
                       picked->out.dtype);
    picked->out.bytes = bytes;
    return ZT_OK;
}

/* Arrays without a name, of several files: called as the files are. NULL: no memory. */
static const char *output_name(convert_job *job, int input, const picked_tensor *picked)
{
    const char *path = job->paths[input], *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    if (job->input_count < 2 || zt_checkpoint_container(picked->checkpoint) != zt_container_named("npy") || length <= 4 ||
        strcmp(base + length - 4, ".npy") != 0)
        return rename_tensor(job, picked->in.name);
    const char *name = zt_arena_strndup(job->texts, base, length - 4);
    return name ? rename_tensor(job, name) : NULL;
}

static zt_status pick_from(convert_job *job, int input, zt_dtype dtype)
{
    zt_checkpoint *checkpoint = job->inputs[input];
    zt_status status = ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < zt_checkpoint_count(checkpoint); i++) {
        picked_tensor *picked = &job->picked[job->picked_count];
        *picked = (picked_tensor){.checkpoint = checkpoint, .index = i};
        zt_checkpoint_get(checkpoint, i, &picked->in);
        if ((job->options->select.n && !matches_any(&job->options->select, picked->in.name)) ||
            matches_any(&job->options->drop, picked->in.name))
            continue;
        picked->out = picked->in;
        picked->out.name = output_name(job, input, picked);
        status = picked->out.name ? ZT_OK : ZT_ENOMEM;
        if (status == ZT_OK && dtype != ZT_DTYPE_COUNT && !job_has_frame(job)) status = change_dtype(job, picked, dtype);
        job->picked_count++;
    }
    return status;
}

static bool names_any(const convert_job *job, const char *rule, bool (*matches)(const char *, const char *))
{
    zt_entry entry;
    for (int input = 0; input < job->input_count; input++)
        for (int64_t index = 0; index < zt_checkpoint_count(job->inputs[input]); index++) {
            zt_checkpoint_get(job->inputs[input], index, &entry);
            if (matches(rule, entry.name)) return true;
        }
    return false;
}

/* What was meant to change something and does not is said, each by its name. */
static void note_unmatched(const convert_job *job)
{
    const struct {
        const char *option;
        const zt_opt_list *list;
        bool (*matches)(const char *, const char *);
    } lists[] = {{"--select", &job->options->select, glob_matches},
                 {"--drop", &job->options->drop, glob_matches},
                 {"--rename", &job->options->rename, rename_matches}};
    char shown[160];
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (int i = 0; i < lists[k].list->n; i++) {
            const char *rule = lists[k].list->item[i];
            if (!names_any(job, rule, lists[k].matches))
                zt_cli_note(job->cli, "%s '%s' matches no tensor", lists[k].option,
                            zt_escape(shown, sizeof shown, rule, strlen(rule)));
        }
}

zt_status job_pick(convert_job *job)
{
    int64_t total = 0;
    zt_dtype dtype;
    zt_status status = job_dtype(job, &dtype);
    if (status == ZT_OK) status = check_renames(job);
    for (int i = 0; i < job->input_count; i++) total += zt_checkpoint_count(job->inputs[i]);
    job->picked = status == ZT_OK ? zt_alloc_array(job->ctx, (size_t)total + 1, sizeof *job->picked) : NULL;
    if (status == ZT_OK && !job->picked) status = ZT_ENOMEM;
    for (int i = 0; status == ZT_OK && i < job->input_count; i++) status = pick_from(job, i, dtype);
    if (status == ZT_OK) note_unmatched(job);
    if (status == ZT_OK && job->picked_count == 0 && total > 0)
        zt_cli_note(job->cli, "warning: all %lld tensors are excluded", (long long)total);
    return status;
}
