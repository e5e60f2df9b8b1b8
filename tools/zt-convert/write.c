/* write.c - the conversion: tensor after tensor, in pieces. */
#include "tools/zt-convert/convert.h"

#include <string.h>

enum {
    PIECE = 1 << 20,
    ELEMENTS = 1 << 17, /* a multiple of every block */
    COPY = 32 << 20,    /* bytes between two looks at the time */
    SMALL = 1 << 16     /* not worth calls of the kernel for each */
};

typedef struct copier {
    job *j;
    zt_writer *w;
    uint64_t done, all;      /* bytes put */
    const char *name;        /* of the tensor that they are of */
    char *in, *out;          /* a piece, and what it becomes */
    const zt_source *source; /* whose bytes from `at` on are in `in`, so many; NULL: others are */
    uint64_t at;
    size_t have;
} copier;

static zt_status tick(copier *c, uint64_t bytes)
{
    c->done += bytes;
    zt_progress(c->j->cli, &(zt_work){"convert", c->name, "B", (double)c->done, (double)c->all});
    return job_interrupted(c->j);
}

/* Small ones that lie one behind the other are read together. */
static zt_status copy_small(copier *c, const zt_source *source, uint64_t offset, size_t n)
{
    if (source != c->source || offset < c->at || offset - c->at + n > c->have) {
        c->source = source;
        c->at = offset;
        zt_status s = zt_source_read_some(source, offset, c->in, SMALL, n, &c->have);
        if (s == ZT_OK && c->have < n) s = zt_source_read(source, offset, c->in, n);
        if (s != ZT_OK) return s;
    }
    zt_status s = zt_writer_put(c->w, c->in + (offset - c->at), n);
    return s == ZT_OK ? tick(c, n) : s;
}

/* In a file, to be read anywhere? Then where. */
static bool lies(const pick *p, const zt_source **source, uint64_t *offset)
{
    return !zt_checkpoint_streams(p->from) && zt_checkpoint_place(p->from, p->i, source, offset);
}

static bool same(const pick *p)
{
    return !p->coded && p->in.type.dtype == p->out.type.dtype;
}

/* Tensors from i on that lie one behind the other and go out so: how many, and their bytes. */
static int64_t run_from(const copier *c, int64_t i, uint64_t *bytes)
{
    const zt_source *first, *source;
    uint64_t from, at;
    int64_t n = 0;
    *bytes = 0;
    if (!zt_writer_seamless(c->w) || !lies(&c->j->picked[i], &first, &from)) return 0;
    for (; i + n < c->j->n; n++) {
        const pick *p = &c->j->picked[i + n];
        if (!same(p) || !lies(p, &source, &at) || source != first || at != from + *bytes) break;
        *bytes += p->in.bytes;
    }
    return n;
}

static zt_status copy_run(copier *c, const pick *p, uint64_t n)
{
    const zt_source *source;
    uint64_t offset;
    zt_status s = lies(p, &source, &offset) ? ZT_OK : ZT_EBUG;
    c->source = NULL;
    for (uint64_t at = 0, k, end = p->in.bytes; s == ZT_OK && at < n; at += k) {
        k = n - at < COPY ? n - at : COPY;
        while (end <= at) /* which of them is at `at` */
            end += (++p)->in.bytes;
        c->name = p->in.name;
        s = zt_writer_copy(c->w, source, offset + at, k);
        if (s == ZT_OK) s = tick(c, k);
    }
    return s;
}

/* Bytes as they are: by the kernel where they lie in a file, else through memory. */
static zt_status copy(copier *c, const pick *p)
{
    const zt_source *source;
    uint64_t offset;
    zt_status s = ZT_OK;
    bool file = lies(p, &source, &offset);
    if (file && p->in.bytes <= SMALL) return copy_small(c, source, offset, (size_t)p->in.bytes);
    c->source = NULL;
    for (uint64_t at = 0, k; s == ZT_OK && at < p->in.bytes; at += k) {
        uint64_t most = file ? COPY : PIECE;
        k = p->in.bytes - at < most ? p->in.bytes - at : most;
        if (file) {
            s = zt_writer_copy(c->w, source, offset + at, k);
        } else {
            s = zt_checkpoint_read(p->from, p->i, at, c->in, (size_t)k);
            if (s == ZT_OK) s = zt_writer_put(c->w, c->in, (size_t)k);
        }
        if (s == ZT_OK) s = tick(c, k);
    }
    return s;
}

static size_t bytes_of(const zt_dtype_info *d, int64_t n)
{
    return (size_t)((n + d->block - 1) / d->block) * (size_t)d->block_bytes;
}

static zt_status cast(copier *c, const pick *p)
{
    const zt_dtype_info *a = zt_dtype_get(p->in.type.dtype), *b = zt_dtype_get(p->out.type.dtype);
    int64_t n = zt_type_count(&p->in.type);
    uint64_t at = 0;
    c->source = NULL;
    zt_status s = ZT_OK;
    for (int64_t k; s == ZT_OK && n > 0; n -= k) {
        k = n < ELEMENTS ? n : ELEMENTS;
        s = zt_checkpoint_read(p->from, p->i, at, c->in, bytes_of(a, k));
        at += bytes_of(a, k);
        if (s == ZT_OK) {
            zt_dtype_convert(p->in.type.dtype, c->in, p->out.type.dtype, c->out, k);
            s = zt_writer_put(c->w, c->out, bytes_of(b, k));
        }
        if (s == ZT_OK) s = tick(c, bytes_of(b, k));
    }
    return s;
}

/* A network's weights, whole: their codes say how many there are. */
static zt_status make_float(copier *c, const pick *p)
{
    float *x = job_network_read(c->j, p);
    c->source = NULL;
    zt_status s = x ? zt_writer_put(c->w, x, (size_t)p->out.bytes) : zt_ctx_status(c->j->ctx);
    zt_free(c->j->ctx, x);
    return s == ZT_OK ? tick(c, p->out.bytes) : s;
}

static zt_status copy_all(copier *c)
{
    job *j = c->j;
    zt_status s = c->in && c->out ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < j->n; i++) c->all += j->picked[i].out.bytes;
    for (int64_t i = 0, n; s == ZT_OK && i < j->n; i += n) {
        const pick *p = &j->picked[i];
        uint64_t bytes;
        c->name = p->in.name;
        n = run_from(c, i, &bytes);
        if (n > 1) {
            s = copy_run(c, p, bytes);
            continue;
        }
        n = 1;
        s = p->coded ? make_float(c, p) : same(p) ? copy(c, p) : cast(c, p);
    }
    for (int i = 0; s == ZT_OK && i < j->n_in; i++) s = zt_checkpoint_end(j->in[i]);
    return s;
}

static zt_status write_to(job *j, const char *path, const zt_checkpoint_opts *o)
{
    zt_entry *out = zt_alloc_array(j->ctx, (size_t)j->n, sizeof *out);
    copier c = {.j = j, .in = zt_alloc(j->ctx, PIECE), .out = zt_alloc(j->ctx, PIECE)};
    for (int64_t i = 0; out && i < j->n; i++) out[i] = j->picked[i].out;
    c.w = out ? zt_writer_open(j->ctx, path, o, j->meta, out, j->n) : NULL;
    zt_status s = c.w ? copy_all(&c) : zt_ctx_status(j->ctx);
    if (s == ZT_OK) s = zt_writer_commit(c.w);
    zt_writer_close(c.w);
    zt_free(j->ctx, out);
    zt_free(j->ctx, c.in);
    zt_free(j->ctx, c.out);
    return s;
}

/* ---- where to -------------------------------------------------------------------------------- */

/* By --to, else by the name; a name without a suffix, or stdout, is GGUF. */
static zt_status choose_container(job *j, const zt_container **to)
{
    const char *slash = strrchr(j->out, '/'), *name = slash ? slash + 1 : j->out;
    *to = j->o->to ? zt_container_named(j->o->to) : zt_container_for(j->out);
    if (j->o->to && !*to)
        return zt_cli_no_container(j->cli, j->o->to);
    if (!*to && strchr(name, '.'))
        return zt_fail(j->ctx, ZT_EUSAGE, "%s: the name tells no container, --to does", j->out);
    if (!*to) *to = zt_container_named("gguf");
    if (!zt_container_writes(*to))
        return zt_fail(j->ctx, ZT_ENOTSUP, "%s is read, and not written", zt_container_name(*to));
    return ZT_OK;
}

/* What can be said before anything is read. */
static zt_status check_paths(job *j)
{
    zt_status s = ZT_OK;
    int streams = 0;
    for (int i = 0; s == ZT_OK && i < j->n_in; i++) {
        streams += strcmp(j->path[i], "-") == 0;
        s = j->out ? zt_cli_refuse_same(j->cli, j->path[i], j->out) : ZT_OK;
    }
    if (s == ZT_OK && streams > 1)
        s = zt_fail(j->ctx, ZT_EUSAGE, "stdin is one input, not %d", streams);
    if (s == ZT_OK && j->out && strcmp(j->out, "-") == 0)
        s = zt_cli_refuse_terminal(j->cli, "a model");
    return s;
}

/* The file itself: a new one takes its place when it is whole, or what changed in its header is
 * written where it is. */
static zt_status edit_file(job *j)
{
    zt_checkpoint_opts o = {.to = zt_checkpoint_container(j->in[0]), .force = true, .in_place = true};
    bool done = false;
    if (zt_checkpoint_streams(j->in[0]) || strcmp(j->path[0], "-") == 0)
        return zt_fail(j->ctx, ZT_EUSAGE, "%s: is no file that can be changed: name an output",
                       zt_checkpoint_name(j->in[0]));
    if (zt_checkpoint_in_parts(j->in[0]))
        return zt_fail(j->ctx, ZT_EUSAGE, "%s: is one of several files: name an output",
                       zt_checkpoint_name(j->in[0]));
    zt_entry *out = zt_alloc_array(j->ctx, (size_t)j->n, sizeof *out);
    for (int64_t i = 0; out && i < j->n; i++) out[i] = j->picked[i].out;
    zt_status s =
        out ? zt_checkpoint_patch(j->in[0], j->path[0], j->meta, out, j->n, &done) : ZT_ENOMEM;
    zt_free(j->ctx, out);
    return s == ZT_OK && !done ? write_to(j, j->path[0], &o) : s;
}

/* ---- to a Hugging Face directory ------------------------------------------------------------- */

bool job_is_hf(const job *j)
{
    size_t n = j->out ? strlen(j->out) : 0;
    return j->o->to ? strcmp(j->o->to, "hf") == 0 : n && j->out[n - 1] == '/';
}

/* Its tensors, names and keys are all of one model, as transformers reads it. */
zt_status job_to_hf(job *j)
{
    const convert_options *o = j->o;
    zt_hf_opts opts = {.dtype = ZT_DTYPE_COUNT, .stop = zt_cli_interrupted};
    zt_status s = job_dtype(j, &opts.dtype);
    if (s != ZT_OK) return s;
    if (j->n_in != 1)
        return zt_fail(j->ctx, ZT_EUSAGE, "a Hugging Face directory is of one whole model, not %d",
                       j->n_in);
    if (strcmp(j->out, "-") == 0)
        return zt_fail(j->ctx, ZT_EUSAGE, "a Hugging Face directory does not go to stdout");
    if (o->dtype && opts.dtype != ZT_F32 && opts.dtype != ZT_F16 && opts.dtype != ZT_BF16)
        return zt_fail(j->ctx, ZT_EUSAGE,
                       "option '--dtype': a Hugging Face directory has f32, f16 "
                       "or bf16");
    zt_checkpoint *c = job_open_one(j, j->path[0], 0);
    zt_gguf *g = c ? zt_checkpoint_gguf(c) : NULL;
    s = g ? zt_hf_write(j->ctx, g, j->out, &opts) : zt_ctx_status(j->ctx);
    zt_gguf_close(g);
    return s;
}

zt_status job_convert(job *j)
{
    zt_checkpoint_opts o = {.force = j->cli->force, .shard = j->o->shard};
    zt_status s = j->out ? choose_container(j, &o.to) : ZT_OK;
    if (s == ZT_OK) s = check_paths(j);
    if (s == ZT_OK) s = job_open(j);
    if (s == ZT_OK) s = job_pick(j);
    if (s == ZT_OK && job_has_frame(j)) s = job_network_dtype(j);
    if (s == ZT_OK && job_has_frame(j) && j->out && o.to != zt_container_named("json"))
        s = job_check_weights(j);
    if (s == ZT_OK) s = job_edit(j);
    if (s == ZT_OK) s = j->out ? write_to(j, j->out, &o) : edit_file(j);
    return s;
}
