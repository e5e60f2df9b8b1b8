/* tables.c - what zt-quant prints: types, plans, losses. */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 48 };

static const char *shape_text(const zt_type *t, char buf[CELL])
{
    size_t n = 0;
    buf[0] = 0;
    for (int i = 0; i < t->rank && n < CELL - 24; i++)
        n += (size_t)snprintf(buf + n, CELL - n, "%s%" PRId64, i ? "x" : "", t->dim[i]);
    return buf;
}

static const char *name_of(const zt_entry *e, zt_dtype t)
{
    return t < ZT_DTYPE_COUNT ? zt_dtype_get(t)->name : e->dtype;
}

static const char *old_type(const quant_job *j)
{
    return j->was ? j->was : name_of(&j->in, j->in.type.dtype);
}

static const char *new_type(const quant_job *j)
{
    return j->is ? j->is : name_of(&j->in, j->type.dtype);
}

uint64_t quant_new_bytes(const quant_job *j)
{
    return j->copy ? j->in.bytes : j->is ? j->bytes : zt_type_bytes(&j->type);
}

/* ---- --dry-run ------------------------------------------------------------------------------- */

static zt_status plan_row(zt_table *t, const char *name, const char *from, const char *to,
                          const char *wanted, const char *shape, uint64_t was, uint64_t is)
{
    char cell[2][CELL];
    snprintf(cell[0], CELL, "%" PRIu64, was);
    snprintf(cell[1], CELL, "%" PRIu64, is);
    return zt_table_row(t, (const char *const[]){name, shape, from, to, wanted, cell[0], cell[1]});
}

/* The scales that are written behind a tensor. */
static zt_status scale_row(quant *q, zt_table *t, const quant_job *j, uint64_t *bytes)
{
    char shape[CELL];
    zt_entry e;
    char *name = quant_scale_entry(q, j, &e);
    zt_status s = name ? plan_row(t, name, "", e.dtype, "", shape_text(&e.type, shape), 0, e.bytes)
                       : ZT_ENOMEM;
    *bytes += e.bytes;
    zt_free(q->ctx, name);
    return s;
}

/* The whole of the output: also what is not data of tensors. */
static zt_status file_row(quant *q, zt_table *t)
{
    uint64_t bytes = 0;
    zt_status s = quant_file_bytes(q, &bytes);
    return s == ZT_OK ? plan_row(t, "file", "", zt_container_name(quant_container(q)), "", "", 0,
                                 bytes)
                      : s;
}

zt_status quant_print_plan(quant *q)
{
    static const char *const columns[] = {"tensor", "shape", "from",      "to",
                                          "wanted", "#bytes", "#new_bytes"};
    zt_table *t = zt_table_new(q->cli, "quant-plan", columns, 7);
    uint64_t was = 0, is = 0;
    char shape[CELL];
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        const quant_job *j = &q->job[i];
        was += j->in.bytes;
        is += quant_new_bytes(j);
        s = plan_row(t, j->in.name, old_type(j), new_type(j),
                     j->to.fell_back ? zt_dtype_get(j->to.wanted)->name : "",
                     shape_text(&j->in.type, shape), j->in.bytes, quant_new_bytes(j));
        if (s == ZT_OK && !j->is && !j->copy && quant_is_scaled(j->type.dtype))
            s = scale_row(q, t, j, &is);
    }
    if (s == ZT_OK)
        s = plan_row(t, "total", "", "", "", "", was, is);
    if (s == ZT_OK && !quant_has_frame(q))
        s = file_row(q, t);
    if (s == ZT_OK)
        s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

/* ---- --measure ------------------------------------------------------------------------------- */

static zt_status loss_row(zt_table *t, const char *name, const char *type, const zt_loss_of *l,
                          uint64_t bytes)
{
    char cell[6][CELL];
    snprintf(cell[0], CELL, "%" PRIu64, bytes);
    snprintf(cell[1], CELL, "%.9g", zt_loss_rmse(l));
    snprintf(cell[2], CELL, "%.9g", l->most);
    snprintf(cell[3], CELL, "%.9f", zt_loss_cosine(l));
    snprintf(cell[4], CELL, "%.4f", zt_loss_snr(l));
    return zt_table_row(t, (const char *const[]){name, type, cell[0], cell[1], cell[2], cell[3],
                                                 cell[4]});
}

zt_status quant_print_losses(quant *q)
{
    static const char *const columns[] = {"tensor", "type", "#bytes", "#rmse",
                                          "#max",   "#cosine", "#snr_db"};
    zt_table *t = zt_table_new(q->cli, "quant-measure", columns, 7);
    zt_loss_of all = {0};
    uint64_t bytes = 0;
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        const quant_job *j = &q->job[i];
        if (j->copy || j->to.kept)
            continue;
        bytes += quant_new_bytes(j);
        quant_add_loss(&all, &j->loss);
        s = loss_row(t, j->in.name, new_type(j), &j->loss, quant_new_bytes(j));
    }
    if (s == ZT_OK)
        s = loss_row(t, "total", "", &all, bytes);
    if (s == ZT_OK)
        s = zt_table_print(t);
    zt_table_free(t);
    return s;
}

/* ---- --list-types ---------------------------------------------------------------------------- */

static zt_status type_row(zt_table *t, const char *name, const char *also, const char *mostly,
                          double bits, int block, const char *of)
{
    char cell[2][CELL];
    snprintf(cell[0], CELL, "%.4g", bits);
    snprintf(cell[1], CELL, "%d", block);
    return zt_table_row(t, (const char *const[]){name, also, mostly, cell[0], cell[1], of});
}

static zt_status model_row(zt_table *t, const zt_mix *m)
{
    const zt_dtype_info *d = zt_dtype_get(m->dtype);
    return type_row(t, m->name, m->alias ? m->alias : "", d->name, 8.0 * d->block_bytes / d->block,
                    d->block, "models");
}

static zt_status net_row(zt_table *t, zt_storage s)
{
    const zt_storage_info *i = zt_storage_get(s);
    const char *word = zt_netjson_word(s);
    return type_row(t, i->name, strcmp(word, i->name) ? word : "", word, i->bits, 1, "networks");
}

zt_status quant_list_types(zt_cli *cli)
{
    static const char *const columns[] = {"name", "also", "mostly", "#bits", "#block", "of"};
    zt_table *t = zt_table_new(cli, "quant-types", columns, 6);
    zt_status s = t ? ZT_OK : ZT_ENOMEM;
    const zt_mix *m;
    for (int i = 0; (m = zt_mix_at(i)) && s == ZT_OK; i++)
        if (quant_can(m->dtype))
            s = model_row(t, m);
    for (int i = 0; i < ZT_STORE_COUNT && s == ZT_OK; i++)
        s = net_row(t, (zt_storage)i);
    if (s == ZT_OK)
        s = zt_table_print(t);
    zt_table_free(t);
    return s;
}
