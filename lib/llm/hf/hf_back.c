/* hf_back.c - owns writing a GGUF as a Hugging Face directory: the directory, whole or absent, and
 * the small files in it. */
#include "lib/base/attributes.h"
#include "lib/llm/hf/hf_back.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- keys ------------------------------------------------------------------------------------ */

const char *zt_back_key(const hf_back *b, const char *suffix, char key[128])
{
    snprintf(key, 128, "%s.%s", b->arch->name, suffix);
    return key;
}

bool zt_back_int(const hf_back *b, const char *suffix, int64_t *v)
{
    char key[128];
    return zt_gguf_i64(b->g, zt_back_key(b, suffix, key), v);
}

bool zt_back_real(const hf_back *b, const char *suffix, double *v)
{
    char key[128];
    return zt_gguf_f64(b->g, zt_back_key(b, suffix, key), v);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

json_t *zt_back_number(double v)
{
    char text[40];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtof(text, NULL) == (float)v)
            break;
    }
    return json_real(strtod(text, NULL));
}

static zt_status no_memory(hf_back *b)
{
    return zt_fail(b->ctx, ZT_ENOMEM, "%s: out of memory", b->file);
}

zt_status zt_back_set(hf_back *b, json_t *object, const char *name, json_t *v)
{
    return json_object_set_new(object, name, v) == 0 ? ZT_OK : no_memory(b);
}

zt_status zt_back_text(hf_back *b, json_t *object, const char *name, zt_bytes text)
{
    json_t *v = json_stringn(text.data, text.n);
    if (!v)
        return zt_fail(b->ctx, ZT_EDATA, "%s: the text for '%s' is not UTF-8", b->file, name);
    return zt_back_set(b, object, name, v);
}

zt_status zt_back_write(hf_back *b, const char *name, const void *bytes, size_t n)
{
    size_t len = b->dir.len;
    zt_status s = zt_str_puts(&b->dir, name);
    zt_sink *out = s == ZT_OK ? zt_sink_open(b->ctx, b->dir.data, false) : NULL;
    s = out ? zt_sink_write(out, bytes, n) : zt_ctx_status(b->ctx);
    if (s == ZT_OK)
        s = zt_sink_commit(out);
    zt_sink_close(out);
    b->dir.len = len;
    b->dir.data[len] = 0;
    return s;
}

zt_status zt_back_json(hf_back *b, const char *name, const json_t *j)
{
    char *text = j ? json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    zt_status s = text ? zt_back_write(b, name, text, strlen(text)) : no_memory(b);
    free(text);
    return s;
}

int64_t zt_back_values(hf_back *b, const char *name, float *v, int64_t n)
{
    zt_type t;
    int64_t handle;
    zt_store store = zt_gguf_store(b->g);
    if (zt_gguf_find(b->g, name) < 0 || store.find(store.user, name, &t, &handle) != ZT_OK)
        return 0;
    if (t.dtype != ZT_F32 || t.rank != 1 || t.dim[0] > n)
        return 0;
    return store.read(store.user, handle, 0, v, (size_t)t.dim[0] * sizeof *v) == ZT_OK ? t.dim[0]
                                                                                       : 0;
}

/* ---- what it is ------------------------------------------------------------------------------ */

/* Of Llama's architecture with a window: Mistral. */
static zt_status find_arch(hf_back *b)
{
    size_t n;
    const hf_arch *archs = zt_hf_archs(&n);
    int64_t window;
    zt_bytes name;
    if (!zt_gguf_str(b->g, "general.architecture", &name))
        return zt_fail(b->ctx, ZT_EDATA, "%s: key 'general.architecture' is missing: not a model",
                       b->file);
    for (size_t i = 0; i < n && !b->arch; i++)
        if (strlen(archs[i].name) == name.n && memcmp(archs[i].name, name.data, name.n) == 0)
            b->arch = &archs[i];
    char text[96];
    if (!b->arch)
        return zt_fail(b->ctx, ZT_ENOTSUP,
                       "%s: architecture '%s' cannot be written for transformers", b->file,
                       zt_escape(text, sizeof text, name.data, name.n));
    if (b->arch->id == HF_LLAMA && zt_back_int(b, "attention.sliding_window", &window))
        b->arch++;
    return ZT_OK;
}

/* Whether q, k and v, and gate and up, are one matrix or several, is the architecture's there. */
static zt_status check_layout(hf_back *b)
{
    const unsigned fused = ZT_PART_QKV | ZT_PART_FUSED_QKV | ZT_PART_GATE | ZT_PART_FUSED_UP;
    if (((b->h.parts ^ b->h.arch->parts) & fused) == 0)
        return ZT_OK;
    return zt_fail(b->ctx, ZT_ENOTSUP,
                   "%s: its matrices are fused otherwise than those of transformers' %s", b->file,
                   b->arch->type);
}

/* The type of the matrices: as stored, blocks as f16, unless it is asked for. */
static void find_dtype(hf_back *b)
{
    zt_type t;
    int64_t n = zt_gguf_n_tensors(b->g);
    b->dtype = ZT_DTYPE_COUNT;
    for (int64_t i = 0; i < n && b->dtype == ZT_DTYPE_COUNT; i++) {
        const char *name = zt_gguf_tensor(b->g, i, &t, NULL, NULL);
        bool plain = t.dtype == ZT_F32 || t.dtype == ZT_F16 || t.dtype == ZT_BF16;
        if (t.rank == 2 && !zt_model_stays_f32(name, &t))
            b->dtype = plain ? t.dtype : ZT_F16;
    }
    if (b->opts.dtype != ZT_DTYPE_COUNT)
        b->dtype = b->opts.dtype;
}

/* ---- the directory --------------------------------------------------------------------------- */

static void remove_all(const char *dir, int depth)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4600];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (unlinkat(dirfd(d), e->d_name, 0) != 0 && depth > 0)
            remove_all(path, depth - 1);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* What may become the directory: nothing, or one without files. */
static zt_status check_target(hf_back *b, const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return ZT_OK;
    DIR *d = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    int files = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        files += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (!d || files)
        zt_fail(b->ctx, ZT_ECREATE, "%s: is there already, and %s", path,
                d ? "has files" : "no directory");
    if (d)
        closedir(d);
    return d && !files ? ZT_OK : ZT_ECREATE;
}

/* "dir/.name.XXXXXX" */
static zt_status make_dir(hf_back *b, const char *path)
{
    mode_t mask = umask(0);
    umask(mask);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    const char *slash = memrchr(path, '/', n);
    size_t parent = slash ? (size_t)(slash - path) + 1 : 0;
    zt_status s = zt_str_printf(&b->dir, "%.*s.%.*s.XXXXXX", (int)parent, path, (int)(n - parent),
                                path + parent);
    if (s == ZT_OK && (!mkdtemp(b->dir.data) || chmod(b->dir.data, 0777 & ~mask) != 0))
        s = zt_fail(b->ctx, ZT_ECREATE, "%s: cannot be created: %s", path, strerror(errno));
    return s == ZT_OK ? zt_str_putc(&b->dir, '/') : s;
}

static zt_status write_all(hf_back *b)
{
    static zt_status (*const step[])(hf_back *) = {zt_back_config, zt_back_rope, zt_back_card,
                                                   zt_back_tokenizer, zt_back_tensors};
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < sizeof step / sizeof *step; i++)
        s = step[i](b);
    return s == ZT_OK ? zt_back_json(b, "config.json", b->config) : s;
}

static zt_status write_model(hf_back *b, const char *path)
{
    zt_status s = make_dir(b, path);
    if (s != ZT_OK)
        return s;
    s = write_all(b);
    b->dir.data[--b->dir.len] = 0;
    if (s == ZT_OK)
        s = zt_attributes_keep_folder(b->ctx, b->dir.data, path);
    if (s == ZT_OK && rename(b->dir.data, path) != 0)
        s = zt_fail(b->ctx, ZT_ECREATE, "%s: cannot be created: %s", path, strerror(errno));
    if (s != ZT_OK)
        remove_all(b->dir.data, 1);
    return s;
}

zt_status zt_hf_write(zt_ctx *ctx, zt_gguf *g, const char *path, const zt_hf_opts *opts)
{
    hf_back b = {.ctx = ctx, .g = g, .file = zt_gguf_name(g), .opts = *opts};
    zt_str_init(&b.dir, ctx);
    b.config = json_object();
    zt_status s = b.config ? check_target(&b, path) : no_memory(&b);
    if (s == ZT_OK)
        s = find_arch(&b);
    if (s == ZT_OK)
        s = zt_hyper_read(g, &b.h);
    if (s == ZT_OK)
        s = zt_weights_check(g, &b.h);
    if (s == ZT_OK)
        s = check_layout(&b);
    if (s == ZT_OK) {
        find_dtype(&b);
        s = write_model(&b, path);
    }
    json_decref(b.config);
    zt_str_fini(&b.dir);
    return s;
}
