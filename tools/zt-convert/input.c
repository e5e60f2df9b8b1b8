/* input.c - inputs opened, tensors picked. */
#include "tools/zt-convert/convert.h"

#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

zt_checkpoint *job_open_one(job *j, const char *path, unsigned flags)
{
    if (!is_folder(path)) return zt_checkpoint_open(j->ctx, path, flags);
    zt_gguf *g = zt_model_open_whole(j->ctx, path);
    return g ? zt_checkpoint_of_gguf(j->ctx, g) : NULL;
}

zt_status job_open(job *j)
{
    j->in = zt_calloc(j->ctx, (size_t)j->n_in, sizeof(zt_checkpoint *));
    j->meta = zt_meta_new(j->ctx);
    zt_status s = j->in && j->meta ? ZT_OK : ZT_ENOMEM;
    for (int i = 0; s == ZT_OK && i < j->n_in; i++) {
        j->in[i] = job_open_one(j, j->path[i], ZT_CHECKPOINT_STREAM);
        const zt_meta *m = j->in[i] ? zt_checkpoint_meta(j->in[i]) : NULL;
        s = m ? zt_meta_share(j->meta, m) : zt_ctx_status(j->ctx);
    }
    return s;
}

zt_status job_interrupted(job *j)
{
    return zt_cli_interrupted() ? zt_fail(j->ctx, ZT_EINTR, "interrupted") : ZT_OK;
}

/* ---- picking --------------------------------------------------------------------------------- */

static bool any(const zt_opt_list *globs, const char *name)
{
    for (int i = 0; i < globs->n; i++)
        if (glob_matches(globs->item[i], name)) return true;
    return false;
}

/* The dtype of --dtype; ZT_DTYPE_COUNT: none was given. */
zt_status job_dtype(job *j, zt_dtype *t)
{
    const char *name = j->o->dtype;
    *t = ZT_DTYPE_COUNT;
    if (!name) return ZT_OK;
    if (!zt_dtype_parse(name, strlen(name), t))
        return zt_cli_no_dtype(j->cli, name);
    if (zt_dtype_get(*t)->kind != 'F')
        return zt_fail(j->ctx, ZT_EUSAGE, "option '--dtype': %s is no float%s", name,
                       zt_dtype_get(*t)->kind == 'Q' ? "; zt-quant quantizes" : "");
    return ZT_OK;
}

/* Vectors of a language model, norms and biases (and its positions), keep the precision of f32, as
 * llama.cpp's converter has it and its engines want it. */
static zt_status retype(job *j, pick *p, zt_dtype t)
{
    char text[160];
    size_t bytes;
    if (zt_model_stays_f32(p->in.name, &p->in.type) && zt_dtype_get(t)->block_bytes < 4 &&
        zt_meta_find(j->meta, "general.architecture") >= 0)
        t = ZT_F32;
    if (p->in.type.dtype == ZT_DTYPE_COUNT || p->in.type.rank < 0 ||
        !zt_dtype_is_float(p->in.type.dtype))
        return ZT_OK; /* integers, bools, and what zt does not know, stay */
    p->out.type.dtype = t;
    p->out.dtype = zt_dtype_get(t)->name;
    if (!zt_dtype_converts(p->in.type.dtype, t) || !zt_type_check(j->ctx, &p->out.type, &bytes))
        return zt_fail(j->ctx, ZT_ENOTSUP, "tensor '%s': %s does not become %s",
                       zt_escape(text, sizeof text, p->in.name, strlen(p->in.name)), p->in.dtype,
                       p->out.dtype);
    p->out.bytes = bytes;
    return ZT_OK;
}

/* Arrays without a name, of several files: called as the files are. NULL: no memory. */
static const char *name_of(job *j, int input, const pick *p)
{
    const char *path = j->path[input], *slash = strrchr(path, '/'),
               *base = slash ? slash + 1 : path;
    size_t n = strlen(base);
    if (j->n_in < 2 || zt_checkpoint_container(p->from) != zt_container_named("npy") || n <= 4 ||
        strcmp(base + n - 4, ".npy") != 0)
        return renamed(j, p->in.name);
    const char *name = zt_arena_strndup(j->texts, base, n - 4);
    return name ? renamed(j, name) : NULL;
}

static zt_status pick_from(job *j, int input, zt_dtype dtype)
{
    zt_checkpoint *c = j->in[input];
    zt_status s = ZT_OK;
    for (int64_t i = 0; s == ZT_OK && i < zt_checkpoint_count(c); i++) {
        pick *p = &j->picked[j->n];
        *p = (pick){.from = c, .i = i};
        zt_checkpoint_get(c, i, &p->in);
        if ((j->o->select.n && !any(&j->o->select, p->in.name)) || any(&j->o->drop, p->in.name))
            continue;
        p->out = p->in;
        p->out.name = name_of(j, input, p);
        s = p->out.name ? ZT_OK : ZT_ENOMEM;
        if (s == ZT_OK && dtype != ZT_DTYPE_COUNT && !job_has_frame(j)) s = retype(j, p, dtype);
        j->n++;
    }
    return s;
}

static bool names_any(const job *j, const char *rule, bool (*matches)(const char *, const char *))
{
    zt_entry e;
    for (int i = 0; i < j->n_in; i++)
        for (int64_t k = 0; k < zt_checkpoint_count(j->in[i]); k++) {
            zt_checkpoint_get(j->in[i], k, &e);
            if (matches(rule, e.name)) return true;
        }
    return false;
}

/* What was meant to change something and does not is said, each by its name. */
static void note_unmatched(const job *j)
{
    const struct {
        const char *option;
        const zt_opt_list *list;
        bool (*matches)(const char *, const char *);
    } lists[] = {{"--select", &j->o->select, glob_matches},
                 {"--drop", &j->o->drop, glob_matches},
                 {"--rename", &j->o->rename, rename_matches}};
    char shown[160];
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (int i = 0; i < lists[k].list->n; i++) {
            const char *rule = lists[k].list->item[i];
            if (!names_any(j, rule, lists[k].matches))
                zt_cli_note(j->cli, "%s '%s' matches no tensor", lists[k].option,
                            zt_escape(shown, sizeof shown, rule, strlen(rule)));
        }
}

zt_status job_pick(job *j)
{
    int64_t all = 0;
    zt_dtype dtype;
    zt_status s = job_dtype(j, &dtype);
    if (s == ZT_OK) s = check_renames(j);
    for (int i = 0; i < j->n_in; i++) all += zt_checkpoint_count(j->in[i]);
    j->picked = s == ZT_OK ? zt_alloc_array(j->ctx, (size_t)all + 1, sizeof *j->picked) : NULL;
    if (s == ZT_OK && !j->picked) s = ZT_ENOMEM;
    for (int i = 0; s == ZT_OK && i < j->n_in; i++) s = pick_from(j, i, dtype);
    if (s == ZT_OK) note_unmatched(j);
    if (s == ZT_OK && j->n == 0 && all > 0)
        zt_cli_note(j->cli, "none of %lld tensors is left", (long long)all);
    return s;
}
