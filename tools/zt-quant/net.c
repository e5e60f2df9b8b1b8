/* net.c - owns networks, as JSON holds them (lib/io/netjson.h): each layer's weights become codes
 * of one storage type with one scale, which stand in the network's frame.
 *
 * By the field's rule the scale is found from the weights, by Loom's it is the layer's own. What
 * container carries the network does not matter: its frame is metadata.
 */
#include "tools/zt-quant/quant.h"

#include <inttypes.h>
#include <string.h>

#define KEY_FRAME "zt.netjson"

typedef struct net {
    quant *q;
    zt_netjson *j;      /* the frame of the input */
    zt_netjson *out;    /* and of the output */
    zt_net_weights *to; /* [n] what weights become */
    float *x, *y;       /* one layer's, as they are and as they become */
    char *bytes;
    size_t most; /* weights that there is room for */
} net;

bool quant_has_frame(quant *q)
{
    return zt_meta_find(zt_checkpoint_meta(q->in), KEY_FRAME) >= 0;
}

bool quant_is_net(quant *q)
{
    return q->o->type && q->storage != ZT_STORE_COUNT && quant_has_frame(q);
}

zt_status quant_check_model(quant *q)
{
    if (quant_has_frame(q))
        return zt_fail(q->ctx, ZT_EUSAGE, "%s: is a network: %s%s is for models; a network takes "
                       "--type with a type of networks (--list-types)",
                       zt_checkpoint_name(q->in),
                       q->o->type ? "--type " : q->o->target ? "--target-size" : "--bpw",
                       q->o->type ? q->o->type : "");
    if (q->o->rule == ZT_RULE_LOOM || !q->mix)
        return zt_fail(q->ctx, ZT_EUSAGE, "%s: is no network: %s is of networks alone",
                       zt_checkpoint_name(q->in), q->mix ? "--rule loom" : q->o->type);
    for (int i = 0; i < q->o->wishes.n; i++)
        if (q->wish[i].dtype == ZT_DTYPE_COUNT)
            return zt_fail(q->ctx, ZT_EUSAGE, "%s: is no network: --tensor-type '%s'",
                           zt_checkpoint_name(q->in), q->o->wishes.item[i]);
    return ZT_OK;
}

/* ---- the plan -------------------------------------------------------------------------------- */

/* The frame that the input carries must be of its tensors. */
static zt_status open_frame(net *n)
{
    quant *q = n->q;
    zt_meta *m = zt_checkpoint_meta(q->in);
    zt_bytes frame = zt_meta_text(zt_meta_get(m, zt_meta_find(m, KEY_FRAME)));
    n->j = zt_netjson_from_frame(q->ctx, frame.data ? frame.data : "", frame.n);
    if (!n->j)
        return zt_ctx_status(q->ctx);
    bool same = zt_netjson_count(n->j) == zt_checkpoint_count(q->in);
    for (int64_t i = 0; same && i < zt_netjson_count(n->j); i++) {
        const zt_array *a = zt_netjson_get(n->j, i);
        zt_entry e;
        zt_checkpoint_get(q->in, i, &e);
        same = !strcmp(a->name, e.name) && a->bytes == e.bytes;
    }
    return same ? ZT_OK
                : zt_fail(q->ctx, ZT_EDATA, "%s: its frame is of other tensors than there are",
                          zt_checkpoint_name(q->in));
}

static zt_status type_of(const net *n, const char *name, zt_storage *t)
{
    const quant *q = n->q;
    *t = q->storage;
    for (int k = 0; k < q->o->wishes.n; k++)
        if (zt_mix_matches(&q->wish[k], name)) {
            *t = q->net_wish[k];
            if (*t == ZT_STORE_COUNT)
                return zt_fail(q->ctx, ZT_EUSAGE, "--tensor-type '%s': is of models, not networks",
                               q->o->wishes.item[k]);
        }
    return ZT_OK;
}

/* What becomes of layer i's weights; the field's scale comes later. */
static zt_status plan_layer(net *n, int64_t i)
{
    quant *q = n->q;
    quant_job *j = &q->job[i];
    zt_net_weights was = zt_netjson_weights(n->j, i), *to = &n->to[i];
    int64_t count = zt_netjson_elements(n->j, i);
    zt_storage t = ZT_STORE_F32;
    zt_status s = type_of(n, j->in.name, &t);
    *to = (zt_net_weights){t, t != ZT_STORE_F32, (zt_storage_rule)q->o->rule, 1};
    j->was = zt_netjson_word(was.native ? was.type : ZT_STORE_F32);
    j->is = zt_netjson_word(t);
    j->copy = t == was.type && (was.native || t == ZT_STORE_F32);
    if (j->copy)
        *to = was;
    n->most = count > 0 && (size_t)count > n->most ? (size_t)count : n->most;
    if (s != ZT_OK || j->copy)
        return s;
    if (count < 0)
        return zt_fail(q->ctx, ZT_ENOTSUP,
                       "%s: '%s' is packed %s, and the layer's numbers do not say how many there are",
                       zt_checkpoint_name(q->in), j->in.name, j->was);
    if (q->o->rule == ZT_RULE_LOOM)
        to->scale = was.scale;
    if (!(to->scale > 0))
        return zt_fail(q->ctx, ZT_EDATA, "%s: '%s' has a scale of %g", zt_checkpoint_name(q->in),
                       j->in.name, (double)to->scale);
    j->bytes = zt_net_bytes(to, count);
    return ZT_OK;
}

static zt_status check_wishes(const net *n)
{
    const quant *q = n->q;
    for (int k = 0; k < q->o->wishes.n; k++) {
        bool any = false;
        for (int64_t i = 0; i < q->n && !any; i++)
            any = zt_mix_matches(&q->wish[k], q->job[i].in.name);
        if (!any)
            return zt_fail(q->ctx, ZT_EUSAGE, "%s: --tensor-type '%s': no layer has such a name",
                           zt_checkpoint_name(q->in), q->o->wishes.item[k]);
    }
    return ZT_OK;
}

static zt_status plan(net *n)
{
    quant *q = n->q;
    if (zt_cli_refuse_given(q->cli, "imatrix|scale|pure|strict|threads",
                            "a network; it applies to a model"))
        return ZT_EUSAGE;
    zt_status s = open_frame(n);
    if (s != ZT_OK)
        return s;
    q->n = zt_checkpoint_count(q->in);
    if (q->n == 0)
        return zt_fail(q->ctx, ZT_EDATA,
                       "%s: a network without weights, a specification: there is nothing to quantize",
                       zt_checkpoint_name(q->in));
    q->job = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *q->job);
    n->to = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *n->to);
    if (!q->job || !n->to)
        return ZT_ENOMEM;
    for (int64_t i = 0; i < q->n; i++)
        zt_checkpoint_get(q->in, i, &q->job[i].in);
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++)
        s = plan_layer(n, i);
    return s == ZT_OK ? check_wishes(n) : s;
}

/* ---- weights --------------------------------------------------------------------------------- */

static zt_status make_room(net *n)
{
    zt_ctx *ctx = n->q->ctx;
    n->x = zt_alloc_array(ctx, n->most + 1, sizeof *n->x);
    n->y = zt_alloc_array(ctx, n->most + 1, sizeof *n->y);
    n->bytes = zt_alloc_array(ctx, n->most + 1, sizeof(double)); /* no code is wider */
    return n->x && n->y && n->bytes ? ZT_OK : ZT_ENOMEM;
}

/* Layer i's weights as floats; all must be finite. */
static zt_status read_layer(net *n, int64_t i)
{
    quant *q = n->q;
    zt_net_weights was = zt_netjson_weights(n->j, i);
    int64_t count = zt_netjson_elements(n->j, i);
    if (zt_cli_interrupted())
        return ZT_EINTR;
    zt_status s = zt_checkpoint_read(q->in, i, 0, n->bytes, (size_t)q->job[i].in.bytes);
    if (s != ZT_OK || count == 0)
        return s;
    zt_net_decode(&was, n->bytes, count, n->x);
    zt_quantizer same = {.dtype = ZT_F32, .columns = count, .name = q->job[i].in.name};
    return zt_quantize_rows(q->ctx, &same, n->x, 1, n->y);
}

static bool has_scale(const zt_net_weights *w)
{
    return zt_storage_get(w->type)->dtype == ZT_DTYPE_COUNT ||
           zt_dtype_get(zt_storage_get(w->type)->dtype)->kind != 'F' ||
           zt_storage_get(w->type)->bits < 16;
}

/* The field's scales, from a first look at the weights. */
static zt_status find_scales(net *n)
{
    quant *q = n->q;
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < q->n && s == ZT_OK; i++) {
        if (q->job[i].copy || q->o->rule != ZT_RULE_FIELD || !has_scale(&n->to[i]))
            continue;
        if (zt_checkpoint_streams(q->in))
            return zt_fail(q->ctx, ZT_ENOTSUP, "%s: a pipe is not read twice: name a file",
                           zt_checkpoint_name(q->in));
        s = read_layer(n, i);
        n->to[i].scale = zt_storage_scale(n->to[i].type, n->x, zt_netjson_elements(n->j, i));
    }
    return s;
}

/* Weights that stay as they are; finite, where there are floats. */
static zt_status copy_layer(net *n, int64_t i, zt_writer *w)
{
    const quant_job *j = &n->q->job[i];
    char piece[1 << 14];
    zt_status s = zt_netjson_elements(n->j, i) < 0 ? ZT_OK : read_layer(n, i);
    for (uint64_t at = 0, k; at < j->in.bytes && s == ZT_OK; at += k) {
        k = j->in.bytes - at < sizeof piece ? j->in.bytes - at : sizeof piece;
        s = zt_checkpoint_read(n->q->in, i, at, piece, k);
        if (s == ZT_OK && w)
            s = zt_writer_put(w, piece, k);
    }
    return s;
}

static zt_status write_layer(net *n, int64_t i, zt_writer *w)
{
    quant_job *j = &n->q->job[i];
    int64_t count = zt_netjson_elements(n->j, i);
    if (j->copy)
        return copy_layer(n, i, w);
    zt_status s = read_layer(n, i);
    if (s == ZT_OK)
        s = zt_net_encode(n->q->ctx, &n->to[i], n->x, count, n->bytes, n->y);
    if (s == ZT_OK)
        zt_loss_add(&j->loss, n->x, n->y, count);
    return s == ZT_OK && w ? zt_writer_put(w, n->bytes, (size_t)j->bytes) : s;
}

static zt_status write_layers(net *n, zt_writer *w)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < n->q->n && s == ZT_OK; i++) {
        zt_progress(n->q->cli, &(zt_work){"quantize", n->q->job[i].in.name, "layers", (double)i,
                                          (double)n->q->n});
        s = write_layer(n, i, w);
    }
    return s == ZT_OK ? zt_checkpoint_end(n->q->in) : s;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The frame of the output, also in its metadata. */
static zt_status put_frame(net *n)
{
    quant *q = n->q;
    zt_meta *m = zt_checkpoint_meta(q->in);
    zt_str frame;
    zt_str_init(&frame, q->ctx);
    zt_status s = zt_netjson_reframe(n->j, n->to, &frame);
    if (s == ZT_OK) {
        n->out = zt_netjson_from_frame(q->ctx, frame.data, frame.len);
        s = n->out ? zt_meta_put_str(m, KEY_FRAME, frame.data, frame.len) : zt_ctx_status(q->ctx);
    }
    zt_str_fini(&frame);
    return s == ZT_OK ? quant_put_history(q, m) : s;
}

static zt_entry *list_entries(net *n)
{
    quant *q = n->q;
    zt_entry *e = zt_calloc(q->ctx, (size_t)q->n + 1, sizeof *e);
    for (int64_t i = 0; e && i < q->n; i++) {
        const zt_array *a = zt_netjson_get(n->out, i);
        bool known = a->type.dtype < ZT_DTYPE_COUNT;
        e[i] = (zt_entry){.name = a->name,
                          .dtype = known ? zt_dtype_get(a->type.dtype)->name : a->dtype,
                          .type = a->type,
                          .bytes = a->bytes};
    }
    return e;
}

static zt_status write_file(net *n)
{
    quant *q = n->q;
    const zt_container *to = q->o->to ? zt_container_named(q->o->to) : zt_container_for(q->into);
    zt_checkpoint_opts o = {.to = to ? to : zt_container_named("json"), .force = q->cli->force};
    zt_status s = strcmp(q->into, "-") ? ZT_OK : zt_cli_refuse_terminal(q->cli, "a network");
    if (s == ZT_OK)
        s = put_frame(n);
    zt_entry *e = s == ZT_OK ? list_entries(n) : NULL;
    zt_writer *w =
        e ? zt_writer_open(q->ctx, q->into, &o, zt_checkpoint_meta(q->in), e, q->n) : NULL;
    if (s == ZT_OK)
        s = w ? write_layers(n, w) : zt_ctx_status(q->ctx);
    if (s == ZT_OK)
        s = zt_writer_commit(w);
    zt_writer_close(w);
    zt_free(q->ctx, e);
    return s;
}

static zt_status work(net *n)
{
    quant *q = n->q;
    zt_status s = plan(n);
    if (s == ZT_OK && q->o->dry_run)
        return quant_print_plan(q);
    if (s == ZT_OK)
        s = make_room(n);
    if (s == ZT_OK)
        s = find_scales(n);
    if (s == ZT_OK)
        s = q->into ? write_file(n) : write_layers(n, NULL);
    return s == ZT_OK && q->o->measure ? quant_print_losses(q) : s;
}

zt_status quant_net(quant *q)
{
    net n = {.q = q};
    zt_status s = work(&n);
    zt_netjson_close(n.j);
    zt_netjson_close(n.out);
    zt_free(q->ctx, n.to);
    zt_free(q->ctx, n.x);
    zt_free(q->ctx, n.y);
    zt_free(q->ctx, n.bytes);
    return s;
}
