/* mount.c - owns networks made of what a probe found: a document of its layers, and its tensors as
 * their weights. */
#include "lib/io/json.h"
#include "lib/nn/nn_internal.h"
#include "lib/nn/probe_internal.h"

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
     {{"g", "wg"}, {"u", "wu"}, {"d", "wd"}, {"gb", "bg"}, {"ub", "bu"}, {"db", "bd"}}},
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

bool zt_nn_mounts(const zt_nn_probe *p, const zt_nn_archetype *a)
{
    return form_of(a) && (a->named || !p->any_named);
}

/* Has the layer a place for this role: not for a bias of Dense, nor for statistics. */
static bool has_place(const form *f, const char *role)
{
    bool has = false;
    for (int k = 0; k < MAX_ROLES && f->weight[k].role; k++)
        has = has || !strcmp(f->weight[k].role, role);
    return has;
}

int64_t zt_nn_layer_left(const zt_nn_archetype *a)
{
    const form *f = form_of(a);
    int64_t n = 0;
    for (int64_t k = 0; k < a->n_roles; k++) n += !f || !has_place(f, a->role[k].name);
    return n;
}

int64_t zt_nn_probe_left(const zt_nn_probe *p)
{
    int64_t n = 0;
    for (int64_t i = 0; i < zt_nn_probe_tensors(p); i++) n += !zt_nn_probe_matched(p, i);
    for (int64_t i = 0; i < zt_nn_probe_count(p); i++)
        n += zt_nn_mounts(p, zt_nn_probe_at(p, i)) ? zt_nn_layer_left(zt_nn_probe_at(p, i))
                                                   : zt_nn_probe_at(p, i)->n_roles;
    return n;
}

static int64_t metric(const zt_nn_archetype *a, const char *name)
{
    for (int64_t i = 0; i < a->n_metrics; i++)
        if (!strcmp(a->metric[i].name, name)) return a->metric[i].value;
    return 0;
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* A member that is a number above 0; 0: none. */
static double number_of(const json_t *from, const char *key)
{
    double x = json_number_value(json_object_get(from, key));
    return x > 0 ? x : 0;
}

zt_status zt_nn_overrides_read(zt_ctx *ctx, const char *path, zt_nn_overrides *told)
{
    json_t *config = zt_json_file(ctx, path, 1 << 24);
    if (!config) return zt_ctx_status(ctx);
    double heads = number_of(config, "num_attention_heads");
    *told = (zt_nn_overrides){.heads = heads < 1 << 24 ? (int64_t)heads : 0,
                         .rope_base = number_of(config, "rope_theta"),
                         .eps = number_of(config, "rms_norm_eps")};
    if (told->rope_base == 0)
        told->rope_base = number_of(json_object_get(config, "rope_parameters"), "rope_theta");
    if (told->eps == 0) told->eps = number_of(config, "layer_norm_eps");
    json_decref(config);
    return ZT_OK;
}

/* ---- the document ---------------------------------------------------------------------------- */

/* How many heads: told, else of 64 numbers where d and kv are such, else of all that k and v have.
 */
static void put_heads(zt_str *s, const zt_nn_archetype *a, const zt_nn_overrides *told)
{
    int64_t d = metric(a, "d"), kv = metric(a, "kv") ? metric(a, "kv") : d, heads = told->heads;
    if (heads < 1 || d % heads) heads = d % 64 || kv % 64 ? 0 : d / 64;
    if (heads == 0 || kv % (d / heads)) heads = d % kv ? 1 : d / kv;
    zt_str_printf(s, ",\"num_heads\":%" PRId64 ",\"num_kv_heads\":%" PRId64, heads,
                  kv / (d / heads) ? kv / (d / heads) : 1);
    if (!a->named) return;
    zt_str_puts(s, ",\"rope_freq_base\":");
    zt_str_put_double(s, told->rope_base > 0 ? told->rope_base : 10000);
}

/* All but the brace that ends it. */
static void put_layer(zt_str *s, const zt_nn_archetype *a, const zt_nn_overrides *told)
{
    const form *f = form_of(a);
    zt_str_printf(s, "\"type\":\"%s\"", zt_nn_kind_name(a->kind));
    for (int k = 0; k < 4 && f->size[k].metric; k++)
        zt_str_printf(s, ",\"%s\":%" PRId64, f->size[k].number, metric(a, f->size[k].metric));
    if (a->kind == ZT_NN_MHA) put_heads(s, a, told);
    if (!a->named || told->eps <= 0 || (a->kind != ZT_NN_RMSNORM && a->kind != ZT_NN_LAYERNORM))
        return;
    zt_str_puts(s, ",\"eps\":");
    zt_str_put_double(s, told->eps);
}

/* The number of layers of the grid. */
static int64_t put_layers(zt_str *s, const zt_nn_probe *p, const zt_nn_overrides *told)
{
    int64_t n = 0;
    for (int64_t i = 0; i < zt_nn_probe_count(p); i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, i);
        if (!zt_nn_mounts(p, a)) continue;
        zt_str_printf(s, "%s{\"l\":%" PRId64 ",", n ? ",\n" : "", n);
        if (a->residual)
            zt_str_puts(s, "\"type\":\"Sequential\",\"sequential_layers\":[{\"type\":"
                           "\"Sequential\",\"sequential_layers\":[{");
        put_layer(s, a, told);
        if (a->residual) {
            zt_str_puts(s, "},{");
            put_layer(s, zt_nn_probe_at(p, ++i), told);
            zt_str_puts(s, "}]},{\"type\":\"Residual\"}]");
        }
        zt_str_putc(s, '}');
        n++;
    }
    return n;
}

static void put_standing(zt_str *s, const zt_nn_probe *p, const zt_nn_overrides *told,
                         const zt_nn_layout *l);

/* A list, each in braces, of the grid with its place. */
static int64_t put_list(zt_str *s, const zt_nn_probe *p, const zt_nn_overrides *told,
                        const zt_nn_layout *l, bool grid)
{
    int64_t n = 0;
    for (; l; l = l->next, n++) {
        zt_str_puts(s, n ? ",\n{" : "{");
        if (grid) zt_str_printf(s, "\"l\":%" PRId64 ",", n);
        put_standing(s, p, told, l);
        zt_str_putc(s, '}');
    }
    return n;
}

static void put_standing(zt_str *s, const zt_nn_probe *p, const zt_nn_overrides *told,
                         const zt_nn_layout *l)
{
    if (l->kind == ZT_NN_LAYOUT_LAYER) {
        put_layer(s, zt_nn_probe_at(p, l->layer), told);
        return;
    }
    bool parallel = l->kind == ZT_NN_LAYOUT_PARALLEL, residual = l->kind == ZT_NN_LAYOUT_RESIDUAL;
    if (parallel)
        zt_str_printf(s, "\"type\":\"Parallel\",\"combine_mode\":\"%s\",\"parallel_branches\":[",
                      l->combine);
    else
        zt_str_puts(s, "\"type\":\"Sequential\",\"sequential_layers\":[");
    if (residual) zt_str_puts(s, "{\"type\":\"Sequential\",\"sequential_layers\":[");
    put_list(s, p, told, l->inner, false);
    zt_str_puts(s, residual ? "]},{\"type\":\"Residual\"}]" : "]");
}

static int64_t put_document(zt_str *s, const zt_nn_probe *p, const zt_nn_overrides *told,
                            const zt_nn_layout *layout)
{
    zt_str layers;
    zt_str_init(&layers, s->ctx);
    int64_t n = layout ? put_list(&layers, p, told, layout, true) : put_layers(&layers, p, told);
    zt_str_printf(
        s,
        "{\"id\":\"network\",\"depth\":1,\"rows\":1,\"cols\":1,\"layers_per_cell\":%" PRId64
        ",\"layers\":[\n",
        n);
    zt_str_put(s, layers.data, layers.len);
    zt_str_puts(s, "]}");
    zt_str_fini(&layers);
    return n;
}

/* ---- weights --------------------------------------------------------------------------------- */

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

static zt_status fill_all(zt_nn *nn, const zt_nn_probe *p, zt_checkpoint *c)
{
    zt_status s = ZT_OK;
    int64_t at = 0;
    for (int64_t i = 0; i < zt_nn_probe_count(p) && !s; i++) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, i);
        if (!zt_nn_mounts(p, a)) continue;
        const zt_nn_layer *l = nn->layer[at++], *inner = a->residual ? l->step[0].step : l;
        s = fill(nn, inner, p, a, form_of(a), c);
        if (!a->residual || s) continue;
        a = zt_nn_probe_at(p, ++i);
        s = fill(nn, inner + 1, p, a, form_of(a), c);
    }
    return s;
}

/* Weights of layer at, of which the layout says what it is. */
static zt_status fill_standing(zt_nn *nn, const zt_nn_probe *p, zt_checkpoint *c,
                               const zt_nn_layout *l, const zt_nn_layer *at)
{
    zt_status s = ZT_OK;
    int64_t i = 0;
    if (l->kind == ZT_NN_LAYOUT_LAYER) {
        const zt_nn_archetype *a = zt_nn_probe_at(p, l->layer);
        return fill(nn, at, p, a, form_of(a), c);
    }
    if (l->kind == ZT_NN_LAYOUT_RESIDUAL) at = at->step;
    const zt_nn_layer *inner = l->kind == ZT_NN_LAYOUT_PARALLEL ? at->branch : at->step;
    for (const zt_nn_layout *k = l->inner; k && !s; k = k->next)
        s = fill_standing(nn, p, c, k, &inner[i++]);
    return s;
}

static zt_status fill_layout(zt_nn *nn, const zt_nn_probe *p, zt_checkpoint *c,
                             const zt_nn_layout *l)
{
    zt_status s = ZT_OK;
    for (int64_t i = 0; l && !s; l = l->next) s = fill_standing(nn, p, c, l, nn->layer[i++]);
    return s;
}

zt_nn *zt_nn_mount(zt_ctx *ctx, const zt_nn_probe *p, zt_checkpoint *c, const zt_nn_overrides *told)
{
    return zt_nn_mount_as(ctx, p, c, told, NULL);
}

zt_nn *zt_nn_mount_as(zt_ctx *ctx, const zt_nn_probe *p, zt_checkpoint *c, const zt_nn_overrides *told,
                      const zt_nn_layout *layout)
{
    zt_str text;
    zt_str_init(&text, ctx);
    int64_t n = put_document(&text, p, told ? told : &(zt_nn_overrides){0}, layout);
    zt_source *source = NULL;
    if (n == 0)
        zt_fail(ctx, ZT_EDATA, "%s: no tensor is known for a layer's", zt_checkpoint_name(c));
    else if (zt_ctx_status(ctx) == ZT_OK)
        source = zt_source_memory(ctx, zt_checkpoint_name(c), text.data, text.len);
    zt_nn *nn = source ? zt_nn_from(ctx, source, 0) : NULL;
    zt_status s = !nn ? ZT_EDATA : layout ? fill_layout(nn, p, c, layout) : fill_all(nn, p, c);
    zt_source_close(source);
    zt_str_fini(&text);
    if (!s) return nn;
    zt_nn_close(nn);
    return NULL;
}
