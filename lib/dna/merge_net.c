/* merge_net.c - owns networks among the parents, as JSON holds them (lib/io/netjson.h): weights
 * that are codes of a storage type with a scale are merged as numbers, and become codes of the
 * first parent's type again.
 *
 * The codes are those nearest to the child's weights, their scale is the field's for these, for which
 * the layer is merged twice: by the first parent's scale they might not fit, and Loom's rule wraps.
 */
#include "lib/dna/merge_internal.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

static zt_netjson *frame_of(zt_merge *m, zt_checkpoint *c)
{
    const zt_meta *meta = zt_checkpoint_meta(c);
    zt_bytes text = zt_meta_text(zt_meta_get(meta, zt_meta_find(meta, KEY_FRAME)));
    zt_netjson *j = zt_netjson_from_frame(m->ctx, text.data ? text.data : "", text.n);
    if (!j) return NULL;
    bool same = zt_netjson_count(j) == zt_checkpoint_count(c);
    for (int64_t i = 0; same && i < zt_netjson_count(j); i++) {
        zt_entry e;
        zt_checkpoint_get(c, i, &e);
        same =
            !strcmp(zt_netjson_get(j, i)->name, e.name) && zt_netjson_get(j, i)->bytes == e.bytes;
    }
    if (same) return j;
    zt_fail(m->ctx, ZT_EDATA, "%s: its frame is of other tensors than there are",
            zt_checkpoint_name(c));
    zt_netjson_close(j);
    return NULL;
}

zt_status zt_merge_net_open(zt_merge *m)
{
    for (int i = 0; i < m->r->n_models; i++) {
        zt_checkpoint *c = m->parent[i].model;
        if (zt_meta_find(zt_checkpoint_meta(c), KEY_FRAME) < 0) continue;
        if (!(m->net[i] = frame_of(m, c))) return zt_ctx_status(m->ctx);
    }
    return ZT_OK;
}

zt_status zt_merge_net_check(const zt_merge *m, int model, int64_t tensor)
{
    const zt_netjson *j = m->net[model];
    zt_net_weights w = zt_netjson_weights(j, tensor);
    char shown[160];
    const char *name = zt_netjson_get(j, tensor)->name;
    if (!w.native || zt_netjson_elements(j, tensor) >= 0) return ZT_OK;
    return zt_fail(m->ctx, ZT_ENOTSUP,
                   "%s: '%s' is packed %s, and the layer's numbers do not say how many there are",
                   zt_checkpoint_name(m->parent[model].model),
                   zt_escape(shown, sizeof shown, name, strlen(name)), zt_netjson_word(w.type));
}

void zt_merge_net_entry(const zt_merge *m, int model, int64_t tensor, zt_entry *e)
{
    const zt_netjson *j = m->net[model];
    zt_checkpoint_get(m->parent[model].model, tensor, e);
    if (j && e->type.dtype == ZT_DTYPE_COUNT && zt_netjson_elements(j, tensor) >= 0)
        e->type.dim[0] = zt_netjson_elements(j, tensor);
}

bool zt_merge_net_codes(const zt_merge *m, const merge_job *j, int k, zt_net_weights *out)
{
    const zt_netjson *net = m->net[j->slice->source[k].model];
    if (!net) return false;
    *out = zt_netjson_weights(net, j->of[k]);
    return out->native;
}

bool zt_merge_net_by_mean(const merge_job *j)
{
    return j->net.type == ZT_STORE_TERNARY || j->net.type == ZT_STORE_BINARY;
}

/* The scale that the merged layer needs. */
static zt_status find_scale(zt_merge *m, merge_job *j)
{
    int64_t n = zt_type_count(&j->out.type);
    double *sizes = zt_calloc(m->ctx, (size_t)n + 1, sizeof *sizes), all = 0;
    if (!sizes) return ZT_ENOMEM;
    zt_status s = zt_merge_make(m, j, NULL, sizes);
    bool mean = zt_merge_net_by_mean(j);
    for (int64_t i = 0; i < n && s == ZT_OK; i++)
        all = mean ? all + sizes[i] : sizes[i] > all ? sizes[i] : all;
    float size = (float)(mean && n ? all / (double)n : all);
    if (s == ZT_OK) j->net.scale = zt_storage_scale(zt_net_nearest(&j->net).type, &size, 1);
    zt_free(m->ctx, sizes);
    return s;
}

zt_status zt_merge_net_finish(zt_merge *m)
{
    zt_netjson *net = m->net[zt_recipe_first(m->r)];
    zt_status s = ZT_OK;
    if (!net) return ZT_OK;
    if (m->restacked || zt_netjson_count(net) != m->n)
        return zt_fail(m->ctx, ZT_ENOTSUP, "%s: a network has the layers that it has: no slices",
                       m->r->name);
    zt_net_weights *w = zt_alloc_array(m->ctx, (size_t)m->n + 1, sizeof *w);
    if (!w) return ZT_ENOMEM;
    for (int64_t i = 0; i < m->n; i++) w[i] = zt_netjson_weights(net, i);
    for (int64_t i = 0; i < m->n && s == ZT_OK; i++) {
        merge_job *j = &m->job[i];
        if (!j->coded || j->copy || j->net.type <= ZT_STORE_BF16) continue;
        s = find_scale(m, j);
        w[j->of[j->from]].scale = j->net.scale;
    }
    zt_str frame;
    zt_str_init(&frame, m->ctx);
    if (s == ZT_OK) s = zt_netjson_reframe(net, w, &frame);
    if (s == ZT_OK) s = zt_meta_put_str(m->meta, KEY_FRAME, frame.data, frame.len);
    zt_str_fini(&frame);
    zt_free(m->ctx, w);
    return s;
}
