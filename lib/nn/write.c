/* write.c - owns the way from a network to its document: members in the order in which Loom writes
 * them, and ours, which it has no place for, where they say something. */
#include "lib/io/base64.h"
#include "lib/io/netjson.h"
#include "lib/nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A layer's text is made whole, then goes out. */
typedef struct writer {
    const zt_nn *nn;
    zt_str text;
} writer;

static void put_number(writer *w, const zt_nn_layer *l, const char *name)
{
    int64_t whole = zt_layer_number(l, name);
    double real = whole < 0 ? zt_layer_real(l, name) : 0;
    if (whole > 0) zt_str_printf(&w->text, ",\"%s\":%" PRId64, name, whole);
    if (real == 0 || isnan(real)) return;
    zt_str_printf(&w->text, ",\"%s\":", name);
    zt_str_put_double(&w->text, real);
}

static void put_numbers(writer *w, const zt_nn_layer *l)
{
    static const char *const names[] = {
        "input_height",  "input_width",    "input_depth",       "output_height", "output_width",
        "output_depth",  "input_channels", "filters",           "kernel_size",   "stride",
        "padding",       "output_padding", "num_heads",         "num_kv_heads",  "head_dim",
        "d_model",       "seq_length",     "rope_freq_base",    "max_seq_len",   "vocab_size",
        "embedding_dim", "num_clusters",   "kmeans_temperature"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_number(w, l, names[i]);
    if (l->kind == ZT_NN_KMEANS)
        zt_str_printf(&w->text, ",\"output_mode\":\"%s\"",
                      l->features ? "features" : "probabilities");
}

static void put_list(writer *w, const char *key, const int64_t *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) zt_str_printf(&w->text, "%s%" PRId64, i ? "," : key, v[i]);
    if (n) zt_str_putc(&w->text, ']');
}

static void put_softmax(writer *w, const zt_nn_layer *l)
{
    static const char *const names[] = {"temperature", "softmax_rows", "softmax_cols",
                                        "entmax_alpha"};
    if (l->kind == ZT_NN_SOFTMAX)
        zt_str_printf(&w->text, ",\"softmax_type\":\"%s\"", zt_nn_softmax_name(l->softmax));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) put_number(w, l, names[i]);
    if (l->gumbel_noise) zt_str_puts(&w->text, ",\"gumbel_noise\":true");
    for (int64_t i = 0; i < l->n_mask; i++)
        zt_str_printf(&w->text, "%s%s", i ? "," : ",\"mask\":[", l->mask[i] ? "true" : "false");
    if (l->n_mask) zt_str_putc(&w->text, ']');
    put_list(w, ",\"hierarchy_levels\":[", l->levels, l->n_levels);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* Loom's codes are cut towards zero: values that are codes already must not fall to the next. */
static void put_inside(const zt_nn_layer *l, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += copysignf(l->scale / 4, x[i]) * (x[i] != 0);
}

static bool is_cut(const zt_net_weights *are)
{
    return are->native && are->rule == ZT_RULE_LOOM && are->type > ZT_STORE_BF16;
}

/* The bytes of n weights, *out from zt_alloc. *back: they mean the same numbers, bit for bit. */
static zt_status encode(const zt_nn *nn, const zt_nn_layer *l, const zt_net_weights *are, int64_t n,
                        void **out, bool *back)
{
    const float *master = nn->weight[l->weights].value;
    zt_net_weights read = *are; /* as it will be */
    if (!zt_nj_reads_by_rule(are->type)) read.rule = ZT_RULE_LOOM;
    float *x = zt_alloc_array(nn->ctx, 2 * (size_t)n, sizeof *x), *y = x + n;
    *out = x ? zt_alloc(nn->ctx, zt_net_bytes(are, n)) : NULL;
    zt_status s = *out ? ZT_OK : ZT_ENOMEM;
    if (!s) memcpy(x, master, (size_t)n * sizeof *x);
    if (!s && is_cut(are)) put_inside(l, x, n);
    if (!s) s = zt_net_encode(nn->ctx, are, x, n, *out, y);
    if (!s) zt_net_decode(&read, *out, n, y);
    *back = !s && !memcmp(y, master, (size_t)n * sizeof *y);
    zt_free(nn->ctx, x);
    return s;
}

static zt_status put_weights(writer *w, const zt_nn_layer *l)
{
    void *bytes = NULL;
    bool back = true;
    int64_t n = zt_nn_layer_size(w->nn, l);
    zt_net_weights are = {.type = l->dtype,
                          .native = l->settled && l->dtype != ZT_STORE_F32,
                          .rule = l->rule,
                          .scale = l->scale};
    if (n == 0) return ZT_OK;
    zt_status s = encode(w->nn, l, &are, n, &bytes, &back);
    if (!s && !back) { /* codes of more digits than f32 has: the masters tell all */
        zt_free(w->nn->ctx, bytes);
        are.native = false;
        s = encode(w->nn, l, &are, n, &bytes, &back);
    }
    if (!s) zt_str_puts(&w->text, ",\"weights\":\"");
    if (!s) s = zt_base64_put(&w->text, bytes, zt_net_bytes(&are, n));
    zt_free(w->nn->ctx, bytes);
    zt_str_puts(&w->text, are.native ? "\",\"native\":true,\"scale\":" : "\",\"scale\":");
    zt_str_put_double(&w->text, (double)l->scale);
    bool masters = !are.native && l->dtype != ZT_STORE_F32;
    if ((are.native || masters) && l->rule == ZT_RULE_FIELD)
        zt_str_puts(&w->text, ",\"zt.rule\":\"field\"");
    return s;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static zt_status put_layer(writer *w, const zt_nn_layer *l);

static zt_status put_layers(writer *w, const char *key, const zt_nn_layer *list, int64_t n)
{
    zt_status s = ZT_OK;
    if (n == 0) return ZT_OK;
    zt_str_puts(&w->text, key);
    for (int64_t i = 0; i < n && !s; i++) {
        if (i) zt_str_putc(&w->text, ',');
        s = put_layer(w, &list[i]);
    }
    zt_str_putc(&w->text, ']');
    return s;
}

static void put_ours(writer *w, const zt_nn_layer *l)
{
    static const char *const key[4] = {"target_z", "target_y", "target_x", "target_l"};
    put_number(w, l, "eps");
    if (l->disabled) zt_str_puts(&w->text, ",\"is_disabled\":true");
    if (l->link) zt_str_puts(&w->text, ",\"is_remote_link\":true");
    for (int k = 0; k < 4 && l->link; k++)
        zt_str_printf(&w->text, ",\"%s\":%" PRId64, key[k], l->target[k]);
}

static zt_status put_layer(writer *w, const zt_nn_layer *l)
{
    static const char *const axis[4] = {"z", "y", "x", "l"};
    for (int k = 0; k < 4; k++)
        zt_str_printf(&w->text, "%s\"%s\":%" PRId64, k ? "," : "{", axis[k], l->place[k]);
    zt_str_printf(&w->text, ",\"type\":\"%s\",\"activation\":\"%s\",\"dtype\":\"%s\"",
                  zt_nn_kind_name(l->kind), zt_nn_act_name(l->act), zt_netjson_word(l->dtype));
    put_numbers(w, l);
    put_softmax(w, l);
    zt_status s = put_weights(w, l);
    if (!s) s = put_layers(w, ",\"parallel_branches\":[", l->branch, l->n_branches);
    if (l->kind == ZT_NN_PARALLEL) zt_str_printf(&w->text, ",\"combine_mode\":\"%s\"", l->combine);
    if (!s) s = put_layers(w, ",\"sequential_layers\":[", l->step, l->n_steps);
    if (!s && l->gate) {
        zt_str_puts(&w->text, ",\"filter_gate\":");
        s = put_layer(w, l->gate);
    }
    if (l->use_tiling) zt_str_puts(&w->text, ",\"use_tiling\":true");
    put_number(w, l, "tile_size");
    put_ours(w, l);
    zt_str_putc(&w->text, '}');
    return s ? s : zt_ctx_status(w->nn->ctx);
}

static zt_status put_head(writer *w)
{
    static const char *const axis[4] = {"depth", "rows", "cols", "layers_per_cell"};
    const char *id = w->nn->id ? w->nn->id : "network";
    zt_str_puts(&w->text, "{\"id\":");
    zt_str_put_json(&w->text, id, strlen(id));
    for (int k = 0; k < 4; k++)
        zt_str_printf(&w->text, ",\"%s\":%" PRId64, axis[k], w->nn->extent[k]);
    zt_str_puts(&w->text, ",\"layers\":[");
    return zt_ctx_status(w->nn->ctx);
}

static zt_status flush(writer *w, zt_sink *out, zt_status s)
{
    if (!s) s = zt_sink_write(out, w->text.data, w->text.len);
    zt_str_clear(&w->text);
    return s;
}

zt_status zt_nn_write(const zt_nn *nn, zt_sink *out)
{
    writer w = {.nn = nn};
    zt_str_init(&w.text, nn->ctx);
    zt_status s = flush(&w, out, put_head(&w));
    for (int64_t i = 0; i < nn->n && !s; i++) {
        zt_str_puts(&w.text, i ? ",\n" : "\n");
        s = flush(&w, out, put_layer(&w, nn->layer[i]));
    }
    if (!s) s = flush(&w, out, zt_str_puts(&w.text, "\n]}\n"));
    zt_str_fini(&w.text);
    return s;
}
