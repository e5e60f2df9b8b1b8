/* write.c - owns a model as a file: its tensors in their order, as zt_dna_fetch gives them, and of
 * a network a frame that says what its weights have become. */
#include "lib/dna/dna_file.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

enum { PIECE = 1 << 16 };

zt_meta *zt_dna_meta(zt_dna *d) { return zt_checkpoint_meta(d->from); }

/* ---- checkpoints ----------------------------------------------------------------------------- */

static zt_status put_bytes(zt_dna *d, int64_t i, zt_writer *w)
{
    char piece[1 << 14];
    zt_entry e;
    zt_status s = ZT_OK;
    zt_checkpoint_get(d->from, i, &e);
    for (uint64_t at = 0, k; at < e.bytes && s == ZT_OK; at += k) {
        k = e.bytes - at < sizeof piece ? e.bytes - at : sizeof piece;
        s = zt_checkpoint_read(d->from, i, at, piece, (size_t)k);
        if (s == ZT_OK) s = zt_writer_put(w, piece, (size_t)k);
    }
    return s;
}

static zt_status put_tensor(zt_dna *d, int64_t i, zt_writer *w)
{
    zt_dtype t = zt_dna_dtype(d, i);
    int64_t n = d->layer[i].n, k;
    if (!d->mix || d->mix->twin[i] < 0) return put_bytes(d, i, w);
    char *piece = zt_alloc(d->ctx, zt_dna_bytes(t, PIECE));
    zt_status s = piece ? ZT_OK : ZT_ENOMEM;
    for (int64_t at = 0; at < n && s == ZT_OK; at += k) {
        k = n - at < PIECE ? n - at : PIECE;
        s = zt_dna_fetch(d, i, at, k, piece);
        if (s == ZT_OK) s = zt_writer_put(w, piece, zt_dna_bytes(t, k));
    }
    zt_free(d->ctx, piece);
    return s;
}

/* ---- networks -------------------------------------------------------------------------------- */

/* [tensors] the part that each is; -1: no layer of the grid has it, and it stays as it is. */
static int64_t *list_parts(const zt_dna *d)
{
    int64_t n = zt_checkpoint_count(d->from);
    int64_t *part = zt_alloc_array(d->ctx, (size_t)n + 1, sizeof *part);
    for (int64_t i = 0; part && i < n; i++) part[i] = -1;
    for (int64_t p = 0; part && d->net && p < d->n_parts; p++)
        if (d->part[p].tensor >= 0) part[d->part[p].tensor] = p;
    return part;
}

static zt_status put_weights(zt_dna *d, int64_t tensor, int64_t p, zt_writer *w)
{
    if (p < 0 || !d->mix || d->mix->twin[p] < 0) return put_bytes(d, tensor, w);
    const dna_part *part = &d->part[p];
    size_t bytes = zt_net_bytes(&part->are, part->n);
    float *x = zt_alloc_array(d->ctx, (size_t)part->n, 2 * sizeof *x);
    zt_status s = x ? zt_dna_master(d, p, x) : ZT_ENOMEM;
    if (s == ZT_OK) s = zt_dna_room(d, bytes);
    zt_net_weights nearest = zt_net_nearest(&part->are);
    if (s == ZT_OK) s = zt_net_encode(d->ctx, &nearest, x, part->n, d->codes, x + part->n);
    if (s == ZT_OK) s = zt_writer_put(w, d->codes, bytes);
    zt_free(d->ctx, x);
    return s;
}

/* The frame with the weights as they have become; into the metadata. *out: it, opened. */
static zt_status put_frame(zt_dna *d, const int64_t *part, zt_netjson **out)
{
    zt_meta *m = zt_dna_meta(d);
    zt_bytes was = zt_meta_text(zt_meta_get(m, zt_meta_find(m, KEY_FRAME)));
    zt_netjson *j = zt_netjson_from_frame(d->ctx, was.data, was.n);
    int64_t n = j ? zt_netjson_count(j) : 0;
    zt_net_weights *to = j ? zt_alloc_array(d->ctx, (size_t)n + 1, sizeof *to) : NULL;
    zt_str frame;
    zt_str_init(&frame, d->ctx);
    zt_status s = to ? ZT_OK : zt_ctx_status(d->ctx);
    for (int64_t i = 0; i < n && s == ZT_OK; i++) {
        to[i] = part[i] < 0 ? zt_netjson_weights(j, i) : d->part[part[i]].are;
    }
    if (s == ZT_OK) s = zt_netjson_reframe(j, to, &frame);
    if (s == ZT_OK) s = zt_meta_put_str(m, KEY_FRAME, frame.data, frame.len);
    if (s == ZT_OK) *out = zt_netjson_from_frame(d->ctx, frame.data, frame.len);
    zt_str_fini(&frame);
    zt_free(d->ctx, to);
    zt_netjson_close(j);
    return s == ZT_OK && !*out ? zt_ctx_status(d->ctx) : s;
}

/* ---- the file -------------------------------------------------------------------------------- */

static zt_entry *list_entries(zt_dna *d, const zt_netjson *frame)
{
    int64_t n = zt_checkpoint_count(d->from);
    zt_entry *e = zt_calloc(d->ctx, (size_t)n + 1, sizeof *e);
    for (int64_t i = 0; e && i < n; i++) {
        zt_checkpoint_get(d->from, i, &e[i]);
        if (!frame) continue;
        const zt_array *a = zt_netjson_get(frame, i);
        bool known = a->type.dtype < ZT_DTYPE_COUNT;
        e[i].dtype = known ? zt_dtype_get(a->type.dtype)->name : a->dtype;
        e[i].type = a->type;
        e[i].bytes = a->bytes;
    }
    return e;
}

static zt_status put_all(zt_dna *d, const int64_t *part, zt_writer *w)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < zt_checkpoint_count(d->from) && s == ZT_OK; i++)
        s = d->net ? put_weights(d, i, part[i], w) : put_tensor(d, i, w);
    return s == ZT_OK ? zt_writer_commit(w) : s;
}

zt_status zt_dna_write(zt_dna *d, const char *path, const zt_checkpoint_opts *o)
{
    zt_netjson *frame = NULL;
    if (d->length)
        return zt_fail(d->ctx, ZT_ENOTSUP, "%s: holds signatures, no model", zt_dna_name(d));
    int64_t *part = list_parts(d);
    zt_status s = !part ? ZT_ENOMEM : d->net ? put_frame(d, part, &frame) : ZT_OK;
    zt_entry *e = s == ZT_OK ? list_entries(d, frame) : NULL;
    zt_writer *w =
        e ? zt_writer_open(d->ctx, path, o, zt_dna_meta(d), e, zt_checkpoint_count(d->from)) : NULL;
    if (s == ZT_OK) s = w ? put_all(d, part, w) : zt_ctx_status(d->ctx);
    zt_writer_close(w);
    zt_free(d->ctx, e);
    zt_free(d->ctx, part);
    zt_netjson_close(frame);
    return s;
}
