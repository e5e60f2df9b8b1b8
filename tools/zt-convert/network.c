/* network.c - networks that an input carries: do they have weights, and --dtype f32, by which codes of
 * any storage type become floats, and their frame says so. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KEY_FRAME "zt.netjson"

bool job_has_frame(const job *j)
{
    return zt_meta_find(j->meta, KEY_FRAME) >= 0;
}

/* ---- specifications -------------------------------------------------------------------------- */

typedef struct census {
    int64_t n, without; /* layers that should have weights; those of them that have none here */
    char first[160];    /* such a one */
} census;

/* false: the document is not read as a network, and its layers do not say what they should have. */
static bool take_census(job *j, census *c)
{
    zt_nn *nn = zt_nn_open(j->ctx, j->path[0], 0);
    const zt_nn_layer *last = NULL;
    char name[1 << 12];
    if (!nn) zt_ctx_clear(j->ctx);
    for (int64_t i = 0; nn && i < zt_nn_n_weights(nn); i++) {
        const zt_nn_layer *l = zt_nn_weight_at(nn, i)->layer;
        if (l == last) continue;
        last = l;
        c->n++;
        snprintf(name, sizeof name, "%s.weights", l->path);
        if (zt_checkpoint_find(j->in[0], name) >= 0) continue;
        if (!c->without++) zt_escape(c->first, sizeof c->first, l->path, strlen(l->path));
    }
    zt_nn_close(nn);
    return nn != NULL;
}

zt_status job_check_weights(job *j)
{
    census c = {0};
    const zt_container *json = zt_container_named("json");
    bool file = j->n_in == 1 && strcmp(j->path[0], "-") != 0 &&
                zt_checkpoint_container(j->in[0]) == json;
    bool known = file && take_census(j, &c);
    if (zt_checkpoint_count(j->in[0]) == 0 && j->n_in == 1)
        return zt_fail(j->ctx, ZT_EDATA, "%s: a network without weights: there is no tensor to "
                                         "convert%s", zt_checkpoint_name(j->in[0]),
                       c.n ? "; zt-train --epochs 0 writes a network with drawn ones" : "");
    if (known && c.without)
        zt_cli_note(j->cli, "%s: %" PRId64 " of %" PRId64 " layers have no weights (%s): there is "
                            "no tensor of these",
                    j->path[0], c.without, c.n, c.first);
    return ZT_OK;
}

/* ---- --dtype --------------------------------------------------------------------------------- */

/* The frame must be of the tensors that go out, all of them under their names. */
static zt_status check_frame(const job *j, const zt_netjson *frame)
{
    bool same = zt_netjson_count(frame) == j->n;
    for (int64_t i = 0; same && i < j->n; i++) {
        const zt_array *a = zt_netjson_get(frame, i);
        same = !strcmp(a->name, j->picked[i].out.name) && a->bytes == j->picked[i].in.bytes;
    }
    return same ? ZT_OK
                : zt_fail(j->ctx, ZT_EUSAGE, "%s: --dtype of a network needs all its weights, and "
                                             "under their names",
                          j->path[0]);
}

static zt_status take(job *j, const zt_netjson *frame, int64_t i, zt_net_weights *to)
{
    pick *p = &j->picked[i];
    p->codes = zt_netjson_weights(frame, i);
    p->count = zt_netjson_elements(frame, i);
    *to = p->codes;
    if (!p->codes.native && p->codes.type == ZT_STORE_F32)
        return ZT_OK;
    if (p->count < 0)
        return zt_fail(j->ctx, ZT_ENOTSUP,
                       "%s: '%s' is packed %s, and the layer's numbers do not say how many there are",
                       j->path[0], p->in.name, zt_netjson_word(p->codes.type));
    *to = (zt_net_weights){.type = ZT_STORE_F32, .rule = ZT_RULE_FIELD, .scale = 1};
    p->coded = true;
    p->out.dtype = zt_dtype_get(ZT_F32)->name;
    p->out.type = zt_type_make(ZT_F32, 1, &p->count);
    p->out.bytes = zt_type_bytes(&p->out.type);
    return ZT_OK;
}

static zt_status reframe(job *j, const zt_netjson *frame)
{
    zt_net_weights *to = zt_alloc_array(j->ctx, (size_t)j->n + 1, sizeof *to);
    zt_str text;
    zt_str_init(&text, j->ctx);
    zt_status s = to ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; s == ZT_OK && i < j->n; i++) s = take(j, frame, i, &to[i]);
    if (s == ZT_OK) s = zt_netjson_reframe(frame, to, &text);
    if (s == ZT_OK) s = zt_meta_put_str(j->meta, KEY_FRAME, text.data, text.len);
    zt_str_fini(&text);
    zt_free(j->ctx, to);
    return s;
}

zt_status job_network_dtype(job *j)
{
    zt_dtype t;
    zt_status s = job_dtype(j, &t);
    if (s != ZT_OK || t == ZT_DTYPE_COUNT) return s;
    if (t != ZT_F32)
        return zt_fail(j->ctx, ZT_EUSAGE,
                       "%s: is a network: --dtype makes its weights f32; zt-quant --type %s makes "
                       "them others",
                       j->path[0], j->o->dtype);
    if (j->n_in != 1)
        return zt_fail(j->ctx, ZT_EUSAGE, "--dtype of a network has one input, not %d", j->n_in);
    zt_bytes text = zt_meta_text(zt_meta_get(j->meta, zt_meta_find(j->meta, KEY_FRAME)));
    zt_netjson *frame = zt_netjson_from_frame(j->ctx, text.data ? text.data : "", text.n);
    s = frame ? check_frame(j, frame) : zt_ctx_status(j->ctx);
    if (s == ZT_OK) s = reframe(j, frame);
    zt_netjson_close(frame);
    return s;
}

float *job_network_read(job *j, const pick *p)
{
    void *raw = zt_alloc(j->ctx, (size_t)p->in.bytes + 1);
    float *x = raw ? zt_alloc_array(j->ctx, (size_t)p->count + 1, sizeof *x) : NULL;
    if (x && zt_checkpoint_read(p->from, p->i, 0, raw, (size_t)p->in.bytes) == ZT_OK) {
        zt_net_decode(&p->codes, raw, p->count, x);
    } else {
        zt_free(j->ctx, x);
        x = NULL;
    }
    zt_free(j->ctx, raw);
    return x;
}
