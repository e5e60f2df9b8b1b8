/* list.c - tables of what is in a file: its tensors, their bytes by layer or dtype, its metadata;
 * and one tensor as npy. */
#include "lib/base/near.h"
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *shape_text(const zt_type *t, char buf[ZT_TYPE_TEXT])
{
    int n = snprintf(buf, ZT_TYPE_TEXT, "[");
    if (t->rank < 0) return strcpy(buf, "?");
    for (int i = 0; i < t->rank && n < ZT_TYPE_TEXT - 24; i++)
        n += snprintf(buf + n, ZT_TYPE_TEXT - (size_t)n, i ? ",%" PRId64 : "%" PRId64, t->dim[i]);
    snprintf(buf + n, ZT_TYPE_TEXT - (size_t)n, "]");
    return buf;
}

static bool chosen(const job *j, const char *name)
{
    const zt_opt_list *select = &j->o->select, *drop = &j->o->drop;
    bool yes = select->n == 0;
    for (int i = 0; i < select->n; i++) yes |= glob_matches(select->item[i], name);
    for (int i = 0; i < drop->n; i++) yes &= !glob_matches(drop->item[i], name);
    return yes;
}

/* ---- rows of one input or several ------------------------------------------------------------- */

zt_status job_table(job *j, const char *schema, const char *const *columns, int n)
{
    if (!j->table) j->table = zt_table_new(j->cli, schema, columns + !j->many, n - !j->many);
    return j->table ? ZT_OK : ZT_ENOMEM;
}

zt_status job_row(job *j, const char *const *cells) { return zt_table_row(j->table, cells + !j->many); }

/* ---- by layer or dtype ----------------------------------------------------------------------- */

typedef struct sum {
    const char *name;
    int64_t tensors, elements;
    uint64_t bytes;
} sum;

typedef struct sums {
    job *j;
    zt_map *names;
    sum *sum;
    int64_t n;
} sums;

/* "blk.3" of "blk.3.attn_q.weight": up to the first number; else what is before the first dot. */
static size_t layer_of(const char *name)
{
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, ".");
        if (n && strspn(p, "0123456789") == n) return (size_t)(p + n - name);
        p += n + (p[n] == '.');
    }
    return strcspn(name, ".");
}

static zt_status add(sums *s, const char *name, size_t n, const zt_entry *e)
{
    int64_t i;
    if (!zt_map_get(s->names, name, n, &i)) {
        i = s->n;
        if ((i & (i - 1)) == 0) {
            sum *more = zt_realloc(s->j->ctx, s->sum, (size_t)(i ? 2 * i : 1) * sizeof *more);
            if (!more) return ZT_ENOMEM;
            s->sum = more;
        }
        s->sum[i] = (sum){.name = zt_arena_strndup(s->j->texts, name, n)};
        if (!s->sum[i].name || zt_map_put(s->names, s->sum[i].name, n, i) != ZT_OK)
            return ZT_ENOMEM;
        s->n++;
    }
    s->sum[i].tensors++;
    s->sum[i].elements += e->type.rank < 0 ? 0 : zt_type_count(&e->type);
    s->sum[i].bytes += e->bytes;
    return ZT_OK;
}

static zt_status put_sums(const sums *s)
{
    static const char *const columns[][6] = {
        {"file", "layer", "#tensors", "#elements", "#bytes", "#share"},
        {"file", "dtype", "#tensors", "#elements", "#bytes", "#share"}};
    uint64_t all = 0;
    zt_status st = job_table(s->j, "convert.list", columns[s->j->o->by], 6);
    for (int64_t i = 0; i < s->n; i++) all += s->sum[i].bytes;
    for (int64_t i = 0; st == ZT_OK && i < s->n; i++) {
        char text[4][32];
        const sum *x = &s->sum[i];
        snprintf(text[0], 32, "%" PRId64, x->tensors);
        snprintf(text[1], 32, "%" PRId64, x->elements);
        snprintf(text[2], 32, "%" PRIu64, x->bytes);
        snprintf(text[3], 32, "%.4f", all ? (double)x->bytes / (double)all : 0.0);
        st = job_row(s->j, (const char *[]){s->j->path[0], x->name, text[0], text[1], text[2],
                                            text[3]});
    }
    return st;
}

static zt_status list_sums(job *j, zt_checkpoint *c)
{
    sums s = {.j = j, .names = zt_map_new(j->ctx, 16)};
    zt_status st = s.names ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; st == ZT_OK && i < zt_checkpoint_count(c); i++) {
        zt_entry e;
        zt_checkpoint_get(c, i, &e);
        if (!chosen(j, e.name)) continue;
        st = j->o->by == 1 ? add(&s, e.dtype, strlen(e.dtype), &e)
                           : add(&s, e.name, layer_of(e.name), &e);
    }
    if (st == ZT_OK) st = put_sums(&s);
    zt_map_free(s.names);
    zt_free(j->ctx, s.sum);
    return st;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static zt_status list_tensors(job *j, zt_checkpoint *c)
{
    static const char *const columns[] = {"file", "name", "dtype", "shape", "#bytes"};
    zt_status s = job_table(j, "convert.list", columns, 5);
    for (int64_t i = 0; s == ZT_OK && i < zt_checkpoint_count(c); i++) {
        zt_entry e;
        char shape[ZT_TYPE_TEXT], bytes[32];
        zt_checkpoint_get(c, i, &e);
        if (!chosen(j, e.name)) continue;
        snprintf(bytes, sizeof bytes, "%" PRIu64, e.bytes);
        s = job_row(j, (const char *[]){j->path[0], e.name, e.dtype, shape_text(&e.type, shape),
                                        bytes});
    }
    return s;
}

zt_status job_list(job *j)
{
    zt_checkpoint *c = job_open_one(j, j->path[0], ZT_CHECKPOINT_STREAM);
    if (!c) return zt_ctx_status(j->ctx);
    zt_status s = j->o->by >= 0 ? list_sums(j, c) : list_tensors(j, c);
    zt_checkpoint_close(c);
    return s;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* "u32", "array of str" */
static const char *kind_text(const zt_meta_item *item, char buf[40])
{
    zt_gguf_kind kind;
    uint64_t n;
    if (zt_meta_array(item, &kind, &n))
        snprintf(buf, 40, "%s[%" PRIu64 "]", zt_gguf_kind_name(kind), n);
    else
        snprintf(buf, 40, "%s", zt_gguf_kind_name(item->kind));
    return buf;
}

/* Long values are cut for eyes alone. */
static zt_status put_meta(job *j, const zt_meta *m)
{
    static const char *const columns[] = {"file", "key", "type", "value"};
    bool brief = j->cli->format == ZT_FMT_AUTO && isatty(STDOUT_FILENO);
    zt_status s = job_table(j, "convert.meta", columns, 4);
    zt_str value;
    zt_str_init(&value, j->ctx);
    for (int64_t i = 0; s == ZT_OK && i < zt_meta_count(m); i++) {
        const zt_meta_item *item = zt_meta_get(m, i);
        char kind[40];
        zt_str_clear(&value);
        s = put_value(&value, item, brief);
        if (s == ZT_OK)
            s = job_row(j, (const char *[]){j->path[0], item->key.data, kind_text(item, kind),
                                            value.data ? value.data : ""});
    }
    zt_str_fini(&value);
    return s;
}

zt_status job_meta(job *j)
{
    zt_checkpoint *c = job_open_one(j, j->path[0], ZT_CHECKPOINT_STREAM);
    const zt_meta *m = c ? zt_checkpoint_meta(c) : NULL;
    zt_status s = m ? put_meta(j, m) : zt_ctx_status(j->ctx);
    zt_checkpoint_close(c);
    return s;
}

/* ---- one tensor ------------------------------------------------------------------------------ */

/* As it is where NumPy has its dtype, else as f32, which holds it. */
static zt_status cat_data(job *j, zt_checkpoint *c, int64_t i, const zt_entry *e, zt_sink *out)
{
    enum { STEP = 1 << 17 };
    zt_type t = e->type;
    const zt_dtype_info *d = zt_dtype_get(t.dtype);
    bool cast = !zt_npz_can(&t);
    if (cast) t.dtype = ZT_F32;
    char *in = zt_alloc(j->ctx, STEP * 8), *f = zt_alloc(j->ctx, STEP * 4);
    int64_t n = zt_type_count(&t);
    uint64_t at = 0;
    zt_status s = in && f ? zt_npy_write_header(out, j->ctx, &t) : ZT_ENOMEM;
    for (int64_t k; s == ZT_OK && n > 0; n -= k) {
        k = n < STEP ? n : STEP;
        size_t bytes = (size_t)((k + d->block - 1) / d->block) * (size_t)d->block_bytes;
        s = zt_checkpoint_read(c, i, at, in, bytes);
        at += bytes;
        if (s == ZT_OK && cast) zt_dtype_convert(e->type.dtype, in, ZT_F32, f, k);
        if (s == ZT_OK)
            s = cast ? zt_sink_write(out, f, (size_t)k * 4) : zt_sink_write(out, in, bytes);
        if (s == ZT_OK) s = job_interrupted(j);
    }
    zt_free(j->ctx, in);
    zt_free(j->ctx, f);
    return s;
}

static const char *tensor_name(const void *checkpoint, int i)
{
    zt_entry e;
    const zt_checkpoint *c = checkpoint;
    if (i >= zt_checkpoint_count(c)) return NULL;
    zt_checkpoint_get(c, i, &e);
    return e.name;
}

static zt_status cat(job *j, zt_checkpoint *c, const char *path)
{
    char text[160];
    zt_near_hint hint;
    zt_entry e;
    const char *name = j->o->cat;
    int64_t i = zt_checkpoint_find(c, name);
    zt_escape(text, sizeof text, name, strlen(name));
    if (i < 0)
        return zt_fail(j->ctx, ZT_ENOENT, "%s: there is no tensor '%s'%s", zt_checkpoint_name(c),
                       text, zt_near(hint, name, tensor_name, c));
    zt_checkpoint_get(c, i, &e);
    if (e.type.rank < 0 || e.type.dtype == ZT_DTYPE_COUNT)
        return zt_fail(j->ctx, ZT_ENOTSUP, "%s: tensor '%s' is of type %s, which is not supported",
                       zt_checkpoint_name(c), text, e.dtype);
    zt_sink *out = zt_sink_open(j->ctx, path, j->cli->force);
    zt_status s = out ? cat_data(j, c, i, &e, out) : zt_ctx_status(j->ctx);
    if (s == ZT_OK) s = zt_sink_commit(out);
    zt_sink_close(out);
    return s;
}

zt_status job_cat(job *j)
{
    const char *path = j->cli->output ? j->cli->output : "-";
    zt_status s = strcmp(path, "-") == 0 ? zt_cli_refuse_terminal(j->cli, "an array") : ZT_OK;
    if (s == ZT_OK) s = zt_cli_refuse_same(j->cli, j->path[0], path);
    zt_checkpoint *c = s == ZT_OK ? job_open_one(j, j->path[0], ZT_CHECKPOINT_STREAM) : NULL;
    if (c) s = cat(j, c, path);
    zt_checkpoint_close(c);
    return s == ZT_OK ? zt_ctx_status(j->ctx) : s;
}
