/* write.c - owns the output: every tensor in the input's order, quantized or as it is. */
#include "tools/zt-quant/quant.h"

#include <string.h>

static zt_status put(void *user, const void *bytes, size_t n)
{
    return zt_writer_put(user, bytes, n);
}

/* A value that is no number, in a tensor that goes over as it is. */
static zt_status refuse_nan(quant *q, const quant_job *j, const char *bytes, size_t n, uint64_t at)
{
    const zt_dtype_info *d = zt_dtype_get(j->in.type.dtype);
    float x[256];
    size_t count = n / (size_t)d->block_bytes;
    for (size_t i = 0; i < count; i += 256) {
        int64_t m = (int64_t)(count - i < 256 ? count - i : 256);
        d->decode(bytes + i * (size_t)d->block_bytes, x, m);
        zt_quantizer z = {.dtype = ZT_F32, .columns = m ? m : 1, .name = j->in.name};
        float same[256];
        if (zt_quantize_rows(NULL, &z, x, 1, same) == ZT_OK)
            continue;
        for (int64_t k = 0; k < m; k++)
            if (zt_quantize_rows(NULL, &(zt_quantizer){.dtype = ZT_F32, .columns = 1}, x + k, 1, same))
                return zt_fail(
                    q->ctx, ZT_EDATA, "tensor '%s': element %llu is not finite", j->in.name,
                    (unsigned long long)(at / (uint64_t)d->block_bytes + i + (uint64_t)k));
    }
    return ZT_OK;
}

static bool can_hold_nan(const quant_job *j)
{
    zt_dtype t = j->in.type.dtype;
    return j->in.type.rank >= 0 && (t == ZT_F32 || t == ZT_F16 || t == ZT_BF16);
}

static zt_status copy(quant *q, int64_t i, zt_writer *w)
{
    const quant_job *j = &q->job[i];
    char piece[1 << 16];
    zt_status s = ZT_OK;
    for (uint64_t at = 0, n; at < j->in.bytes && s == ZT_OK; at += n) {
        n = j->in.bytes - at < sizeof piece ? j->in.bytes - at : sizeof piece;
        s = zt_cli_interrupted() ? ZT_EINTR : zt_checkpoint_read(q->in, i, at, piece, n);
        if (s == ZT_OK && can_hold_nan(j))
            s = refuse_nan(q, j, piece, n, at);
        if (s == ZT_OK && w)
            s = zt_writer_put(w, piece, n);
    }
    return s;
}

/* Codes, and then their scales. */
static zt_status write_scaled(quant *q, int64_t i, zt_writer *w)
{
    quant_job *j = &q->job[i];
    quant_scales scales = {0};
    zt_status s = quant_scales_of(q, i, &scales);
    q->scales = &scales;
    if (s == ZT_OK)
        s = quant_rows(q, i, 0, quant_n_rows(&j->in.type), j->type.dtype,
                       q->o->measure ? &j->loss : NULL, w ? put : NULL, w);
    q->scales = NULL;
    if (s == ZT_OK && w)
        s = zt_writer_put(w, scales.scale, (size_t)scales.n * sizeof *scales.scale);
    zt_free(q->ctx, scales.scale);
    return s;
}

static zt_status write_tensors(quant *q, zt_writer *w)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        quant_job *j = &q->job[i];
        zt_progress(q->cli, &(zt_work){"quantize", j->in.name, "tensors", (double)i, (double)q->n});
        if (j->copy)
            s = copy(q, i, w);
        else if (quant_is_scaled(j->type.dtype))
            s = write_scaled(q, i, w);
        else
            s = quant_rows(q, i, 0, quant_n_rows(&j->in.type), j->type.dtype,
                           q->o->measure ? &j->loss : NULL, w ? put : NULL, w);
    }
    return s == ZT_OK ? zt_checkpoint_end(q->in) : s;
}

/* ---- the output ------------------------------------------------------------------------------ */

void quant_outputs_free(quant *q, quant_outputs *o)
{
    for (int64_t i = 0; o->name && i < o->n; i++)
        zt_free(q->ctx, o->name[i]);
    zt_free(q->ctx, o->name);
    zt_free(q->ctx, o->entry);
}

zt_status quant_outputs_list(quant *q, quant_outputs *o)
{
    o->entry = zt_calloc(q->ctx, (size_t)q->n * 2 + 1, sizeof *o->entry);
    o->name = zt_calloc(q->ctx, (size_t)q->n * 2 + 1, sizeof *o->name);
    if (!o->entry || !o->name)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < q->n; i++) {
        const quant_job *j = &q->job[i];
        zt_entry *e = &o->entry[o->n++];
        *e = j->in;
        if (j->copy)
            continue;
        e->type = j->type;
        e->dtype = zt_dtype_get(j->type.dtype)->name;
        e->bytes = zt_type_bytes(&j->type);
        if (!quant_is_scaled(j->type.dtype))
            continue;
        o->name[o->n] = quant_scale_entry(q, j, &o->entry[o->n]);
        if (!o->name[o->n++])
            return ZT_ENOMEM;
    }
    return ZT_OK;
}

const zt_container *quant_container(const quant *q)
{
    const zt_container *c = q->o->to  ? zt_container_named(q->o->to)
                            : q->named ? zt_container_for(q->named)
                                       : NULL;
    return c ? c : zt_container_named("gguf");
}

zt_status quant_file_bytes(quant *q, uint64_t *bytes)
{
    zt_checkpoint_opts o = {.to = quant_container(q)};
    quant_outputs out = {0};
    zt_meta *m = zt_meta_new(q->ctx);
    zt_status s = m ? zt_meta_share(m, zt_checkpoint_meta(q->in)) : ZT_ENOMEM;
    if (s == ZT_OK)
        s = quant_put_history(q, m);
    if (s == ZT_OK)
        s = quant_outputs_list(q, &out);
    if (s == ZT_OK) {
        *bytes = zt_writer_bytes(q->ctx, q->named ? q->named : "the output", &o, m, out.entry,
                                 out.n);
        s = *bytes ? ZT_OK : zt_ctx_status(q->ctx);
    }
    zt_meta_free(m);
    quant_outputs_free(q, &out);
    return s;
}

zt_status quant_write(quant *q)
{
    zt_checkpoint_opts o = {.to = quant_container(q), .force = q->cli->force};
    if (!q->into)
        return write_tensors(q, NULL);
    zt_status s = strcmp(q->into, "-") ? ZT_OK : zt_cli_refuse_terminal(q->cli, "a model");
    if (s == ZT_OK)
        s = quant_put_history(q, zt_checkpoint_meta(q->in));
    if (s != ZT_OK)
        return s;
    quant_outputs out = {0};
    s = quant_outputs_list(q, &out);
    zt_writer *w = s == ZT_OK ? zt_writer_open(q->ctx, q->into, &o, zt_checkpoint_meta(q->in),
                                               out.entry, out.n)
                              : NULL;
    s = w ? write_tensors(q, w) : zt_ctx_status(q->ctx);
    if (s == ZT_OK)
        s = zt_writer_commit(w);
    zt_writer_close(w);
    quant_outputs_free(q, &out);
    return s;
}
