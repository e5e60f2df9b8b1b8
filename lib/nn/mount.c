/* mount.c - owns networks made of what a probe found: a document of its layers, and its tensors as
 * their weights. */
#include "lib/nn/nn_room.h"
#include "lib/nn/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ROLES = 8 };

/* A kind: its numbers by the metrics' names, its weights by the roles'. */
typedef struct form {
    zt_nn_kind kind;
    struct {
        const char *metric, *number;
    } size[4];
    struct {
        const char *role, *part; /* with a %c: of four gates, one below the other */
    } weight[MAX_ROLES];
} form;

static const form forms[] = {
    {ZT_NN_DENSE, {{"in", "input_height"}, {"out", "output_height"}}, {{"w", "w"}}},
    {ZT_NN_EMBEDDING, {{"v", "vocab_size"}, {"d", "embedding_dim"}}, {{"w", "w"}}},
    {ZT_NN_RMSNORM, {{"d", "input_height"}}, {{"w", "g"}}},
    {ZT_NN_LAYERNORM, {{"d", "input_height"}}, {{"s", "g"}, {"b", "b"}}},
    {ZT_NN_SWIGLU,
     {{"h", "input_height"}, {"i", "output_height"}},
     {{"g", "wg"}, {"u", "wu"}, {"d", "wd"}}},
    {ZT_NN_MHA,
     {{"d", "d_model"}},
     {{"q", "wq"},
      {"k", "wk"},
      {"v", "wv"},
      {"o", "wo"},
      {"qb", "bq"},
      {"kb", "bk"},
      {"vb", "bv"},
      {"ob", "bo"}}},
    {ZT_NN_LSTM,
     {{"h", "input_height"}, {"h", "output_height"}},
     {{"ih", "w_ih_%c"}, {"hh", "w_hh_%c"}}},
    {ZT_NN_CNN1, {{"f", "filters"}, {"c", "input_channels"}, {"k", "kernel_size"}}, {{"w", "w"}}},
    {ZT_NN_CNN2, {{"f", "filters"}, {"c", "input_channels"}, {"k", "kernel_size"}}, {{"w", "w"}}},
};

static const form *form_of(const zt_nn_archetype *a)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].kind == a->kind && a->n_metrics) return &forms[i];
    return NULL;
}

static int64_t metric(const zt_nn_archetype *a, const char *name)
{
    for (int64_t i = 0; i < a->n_metrics; i++)
        if (!strcmp(a->metric[i].name, name)) return a->metric[i].value;
    return 0;
}

/* ---- the document -----------------------------------------------------------------------------
 */

/* What no tensor tells: how many heads. Those of 64 numbers, where d is such. */
static void put_layer(zt_str *s, const zt_nn_archetype *a, const form *f, int64_t place)
{
    zt_str_printf(s, "%s{\"l\":%" PRId64 ",\"type\":\"%s\"", place ? ",\n" : "", place,
                  zt_nn_kind_name(a->kind));
    for (int k = 0; k < 4 && f->size[k].metric; k++)
        zt_str_printf(s, ",\"%s\":%" PRId64, f->size[k].number, metric(a, f->size[k].metric));
    int64_t d = metric(a, "d");
    if (a->kind == ZT_NN_MHA) zt_str_printf(s, ",\"num_heads\":%" PRId64, d % 64 ? 1 : d / 64);
    zt_str_putc(s, '}');
}

static int64_t put_document(zt_str *s, const zt_nn_probe *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < zt_nn_probe_count(p); i++) n += form_of(zt_nn_probe_at(p, i)) != NULL;
    zt_str_printf(
        s,
        "{\"id\":\"network\",\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":%" PRId64
        ",\"layers\":[\n",
        n);
    n = 0;
    for (int64_t i = 0; i < zt_nn_probe_count(p); i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, i);
        const form *f = form_of(a);
        if (f) put_layer(s, a, f, n++);
    }
    zt_str_puts(s, "]}");
    return n;
}

/* ---- weights ----------------------------------------------------------------------------------
 */

static zt_status read_tensor(zt_nn *nn, zt_checkpoint *c, const zt_nn_geometry *g, float *out)
{
    const zt_dtype_info *info = zt_dtype_get(g->type.dtype);
    int64_t i = zt_checkpoint_find(c, g->name);
    size_t bytes = zt_type_bytes(&g->type);
    if (i < 0 || !info->decode)
        return zt_fail(nn->ctx, ZT_ENOTSUP, "tensor '%s' is of no floats", g->name);
    void *raw = zt_alloc(nn->ctx, bytes);
    zt_status s = raw ? zt_checkpoint_read(c, i, 0, raw, bytes) : ZT_ENOMEM;
    if (!s) info->decode(raw, out, zt_type_count(&g->type));
    zt_free(nn->ctx, raw);
    return s;
}

/* Weights of layer l that the tensor is: one, or four of a quarter each. */
static zt_status put_tensor(zt_nn *nn, const zt_nn_layer *l, const char *part, const float *x,
                            int64_t n)
{
    char name[160];
    zt_status s = ZT_OK;
    int parts = strchr(part, '%') ? 4 : 1;
    for (int k = 0; k < parts && !s; k++) {
        int len = snprintf(name, sizeof name, "%s.%s", l->path, part);
        if (parts == 4) snprintf(name + len - 2, 3, "%c", "ifgo"[k]);
        s = zt_nn_put(nn, name, x + k * (n / parts), n / parts);
    }
    return s;
}

static zt_status fill(zt_nn *nn, const zt_nn_layer *l, const zt_nn_probe *p,
                      const zt_nn_archetype *a, const form *f, zt_checkpoint *c)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; i < a->n_roles && !s; i++)
        for (int k = 0; k < MAX_ROLES && f->weight[k].role && !s; k++) {
            const zt_nn_geometry *g = zt_nn_probe_tensor(p, a->role[i].tensor);
            int64_t n = zt_type_count(&g->type);
            if (strcmp(f->weight[k].role, a->role[i].name)) continue;
            float *x = zt_alloc_array(nn->ctx, (size_t)n, sizeof *x);
            s = x ? read_tensor(nn, c, g, x) : ZT_ENOMEM;
            if (!s) s = put_tensor(nn, l, f->weight[k].part, x, n);
            zt_free(nn->ctx, x);
        }
    return s;
}

zt_nn *zt_nn_mount(zt_ctx *ctx, const zt_nn_probe *p, zt_checkpoint *c)
{
    zt_str text;
    zt_str_init(&text, ctx);
    int64_t n = put_document(&text, p), at = 0;
    zt_source *source = NULL;
    if (n == 0)
        zt_fail(ctx, ZT_EDATA, "%s: no tensor is known for a layer's", zt_checkpoint_name(c));
    else if (zt_ctx_status(ctx) == ZT_OK)
        source = zt_source_memory(ctx, zt_checkpoint_name(c), text.data, text.len);
    zt_nn *nn = source ? zt_nn_from(ctx, source, 0) : NULL;
    zt_status s = nn ? ZT_OK : ZT_EDATA;
    for (int64_t i = 0; i < zt_nn_probe_count(p) && !s; i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, i);
        const form *f = form_of(a);
        if (f) s = fill(nn, nn->layer[at++], p, a, f, c);
    }
    zt_source_close(source);
    zt_str_fini(&text);
    if (!s) return nn;
    zt_nn_close(nn);
    return NULL;
}
