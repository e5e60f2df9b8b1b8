/* graft.c - owns networks joined in one: each becomes a branch of a parallel layer, and where it is
 * wanted that stands in a residual block.
 *
 * The new document is made of the text of the old ones: members are copied as they stand, but for
 * places, and the numbers by which a frame (lib/io/netjson.h) names its tensors. A network of one
 * layer is that layer, others are a sequence of their layers in the order of the grid. A Residual
 * step adds the input of the step before it. */
#include "lib/dna/dna_file.h"
#include "lib/io/json.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FRAME "zt.netjson"

typedef struct span {
    const char *text;
    size_t n;
} span;

typedef struct source { /* a tensor of the new document */
    int net; /* -1: zeros */
    int64_t tensor;
    uint64_t bytes;
} source;

typedef struct graft {
    zt_ctx *ctx;
    zt_dna *const *m;
    int n, at; /* networks, and behind them the gate; the one at hand */
    const zt_graft_how *how;
    zt_str doc;
    span *layer; /* of the network at hand */
    int64_t n_layers, room;
    source *from; /* [n_tensors] */
    int64_t n_tensors, from_room;
    bool first; /* no member has been written in the object at hand */
} graft;

static const char *name_of(const graft *g) { return zt_dna_name(g->m[g->at]); }

/* ---- the text of a layer --------------------------------------------------------------------- */

static zt_status add_tensor(graft *g, source from)
{
    if (g->n_tensors == g->from_room) {
        int64_t room = g->from_room ? 2 * g->from_room : 64;
        source *more = zt_realloc(g->ctx, g->from, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        g->from = more;
        g->from_room = room;
    }
    g->from[g->n_tensors] = from;
    return zt_str_printf(&g->doc, "\"#%" PRId64 ":%" PRIu64 "\"", g->n_tensors++, from.bytes);
}

/* "#3:256" of the network at hand gets the next number of all. */
static zt_status put_tensor(graft *g, const char *text, size_t n)
{
    char copy[64];
    long long tensor = -1;
    unsigned long long bytes = 0;
    snprintf(copy, sizeof copy, "%.*s", (int)(n < sizeof copy ? n : sizeof copy - 1), text);
    if (sscanf(copy, "\"#%lld:%llu\"", &tensor, &bytes) != 2 || tensor < 0)
        return zt_fail(g->ctx, ZT_EDATA, "%s: weights that are no text", name_of(g));
    return add_tensor(g, (source){.net = g->at, .tensor = tensor, .bytes = bytes});
}

static zt_status put_layer(graft *g, const char *text, size_t n, bool top);

static zt_status put_item(void *user, int64_t i, const char *text, size_t n)
{
    graft *g = user;
    if (i) zt_str_putc(&g->doc, ',');
    return put_layer(g, text, n, false);
}

static zt_status put_items(graft *g, const char *text, size_t n)
{
    zt_status s = zt_str_putc(&g->doc, '[');
    if (s == ZT_OK) s = zt_json_items(g->ctx, name_of(g), text, n, put_item, g);
    return s == ZT_OK ? zt_str_putc(&g->doc, ']') : s;
}

static bool is(const char *key, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(key, *list) == 0) return true;
    return false;
}

static zt_status put_member(graft *g, const char *key, const char *text, size_t n)
{
    static const char *const lists[] = {"parallel_branches", "sequential_layers", NULL};
    zt_status s = g->first ? ZT_OK : zt_str_putc(&g->doc, ',');
    g->first = false;
    if (s == ZT_OK) s = zt_str_put_json(&g->doc, key, strlen(key));
    if (s == ZT_OK) s = zt_str_putc(&g->doc, ':');
    if (s != ZT_OK) return s;
    if (strcmp(key, "weights") == 0) return put_tensor(g, text, n);
    if (is(key, lists) && n && *text == '[')
        s = put_items(g, text, n);
    else
        s = zt_str_put(&g->doc, text, n);
    g->first = false;
    return s;
}

static zt_status inner_member(void *user, const char *key, const char *text, size_t n)
{
    return put_member(user, key, text, n);
}

static zt_status top_member(void *user, const char *key, const char *text, size_t n)
{
    static const char *const places[] = {"z", "y", "x", "l", NULL};
    return is(key, places) ? ZT_OK : put_member(user, key, text, n);
}

/* A layer of a grid loses its place. */
static zt_status put_layer(graft *g, const char *text, size_t n, bool top)
{
    zt_status s = zt_str_puts(&g->doc, top ? "{\"z\":0,\"y\":0,\"x\":0,\"l\":0" : "{");
    g->first = !top;
    if (s == ZT_OK)
        s = zt_json_members(g->ctx, name_of(g), text, n, top ? top_member : inner_member, g);
    g->first = false;
    return s == ZT_OK ? zt_str_putc(&g->doc, '}') : s;
}

/* ---- a network as a branch ------------------------------------------------------------------- */

static zt_status note_layer(void *user, int64_t i, const char *text, size_t n)
{
    graft *g = user;
    if (i == g->room) {
        int64_t room = i ? 2 * i : 64;
        span *more = zt_realloc(g->ctx, g->layer, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        g->layer = more;
        g->room = room;
    }
    g->layer[i] = (span){.text = text, .n = n};
    g->n_layers = i + 1;
    return ZT_OK;
}

static zt_status note_member(void *user, const char *key, const char *text, size_t n)
{
    graft *g = user;
    return strcmp(key, "layers") == 0 ? zt_json_items(g->ctx, name_of(g), text, n, note_layer, g)
                                      : ZT_OK;
}

typedef struct step {
    int64_t place[4], i;
} step;

static int by_place(const void *a, const void *b)
{
    const step *x = a, *y = b;
    for (int k = 0; k < 4; k++)
        if (x->place[k] != y->place[k]) return x->place[k] < y->place[k] ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static bool is_selected(const graft *g, const zt_dna_layer *l)
{
    bool all = g->how->n_select == 0 || g->at == g->n; /* a gate is whole */
    for (int k = 0; !all && k < g->how->n_select; k++)
        all = fnmatch(g->how->select[k], l->name, 0) == 0 ||
              fnmatch(g->how->select[k], l->type, 0) == 0;
    return all;
}

/* The layers that are selected, in the order of the grid; *n of them. */
static step *list_steps(graft *g, int64_t *n)
{
    const zt_dna *d = g->m[g->at];
    step *s = zt_alloc_array(g->ctx, (size_t)d->n + 1, sizeof *s);
    *n = 0;
    for (int64_t i = 0; s && i < d->n; i++) {
        if (!is_selected(g, &d->layer[i])) continue;
        memcpy(s[*n].place, d->layer[i].place, sizeof s[*n].place);
        s[(*n)++].i = i;
    }
    if (s) qsort(s, (size_t)*n, sizeof *s, by_place);
    return s;
}

static zt_status put_steps(graft *g, const step *steps, int64_t n)
{
    zt_status s = ZT_OK;
    if (n != 1)
        s = zt_str_puts(&g->doc, "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Sequential\","
                                 "\"activation\":\"Linear\",\"dtype\":\"float32\","
                                 "\"sequential_layers\":[");
    for (int64_t i = 0; i < n && s == ZT_OK; i++) {
        if (i) zt_str_putc(&g->doc, ',');
        const span *l = &g->layer[steps[i].i];
        s = put_layer(g, l->text, l->n, true);
    }
    return s == ZT_OK && n != 1 ? zt_str_puts(&g->doc, "]}") : s;
}

static zt_status put_branch(graft *g)
{
    zt_dna *d = g->m[g->at];
    zt_meta *m = zt_dna_meta(d);
    zt_bytes frame = zt_meta_text(zt_meta_get(m, zt_meta_find(m, KEY_FRAME)));
    g->n_layers = 0;
    zt_status s = zt_json_members(g->ctx, name_of(g), frame.data, frame.n, note_member, g);
    if (s == ZT_OK && (g->n_layers == 0 || g->n_layers != d->n))
        s = zt_fail(g->ctx, ZT_EDATA, "%s: a network without layers", name_of(g));
    int64_t n = 0;
    step *steps = s == ZT_OK ? list_steps(g, &n) : NULL;
    if (s == ZT_OK && !steps) s = ZT_ENOMEM;
    if (s == ZT_OK && n == 0)
        s = zt_fail(g->ctx, ZT_EUSAGE, "%s: no layer has a name or a type that is selected",
                    name_of(g));
    if (s == ZT_OK) s = put_steps(g, steps, n);
    zt_free(g->ctx, steps);
    return s;
}

/* ---- the document ---------------------------------------------------------------------------- */

/* What says how much each branch counts: a network, or a layer that begins with equal shares. */
static zt_status put_gate(graft *g)
{
    int64_t in = g->how->gate_inputs, count;
    zt_status s = zt_str_puts(&g->doc, ",\"filter_gate\":");
    if (s == ZT_OK && g->how->gate) {
        g->at = g->n;
        return put_branch(g);
    }
    if (s == ZT_OK && (!zt_mul_i64(in, g->n, &count) || count < 1))
        s = zt_fail(g->ctx, ZT_EUSAGE, "a gate of %" PRId64 " numbers", in);
    if (s == ZT_OK)
        s = zt_str_printf(&g->doc,
                          "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Dense\","
                          "\"activation\":\"Linear\",\"dtype\":\"float32\","
                          "\"input_height\":%" PRId64 ",\"output_height\":%d,\"weights\":",
                          in, g->n);
    if (s == ZT_OK)
        s = add_tensor(g, (source){.net = -1, .bytes = (uint64_t)count * sizeof(float)});
    return s == ZT_OK ? zt_str_putc(&g->doc, '}') : s;
}

static zt_status put_branches(graft *g)
{
    zt_status s = zt_str_puts(&g->doc, "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Parallel\","
                                       "\"activation\":\"Linear\",\"dtype\":\"float32\","
                                       "\"combine_mode\":");
    if (s == ZT_OK) s = zt_str_put_json(&g->doc, g->how->combine, strlen(g->how->combine));
    if (s == ZT_OK) s = zt_str_puts(&g->doc, ",\"parallel_branches\":[");
    for (g->at = 0; g->at < g->n && s == ZT_OK; g->at++) {
        if (g->at) zt_str_putc(&g->doc, ',');
        s = put_branch(g);
    }
    if (s == ZT_OK) s = zt_str_putc(&g->doc, ']');
    if (s == ZT_OK && strcmp(g->how->combine, "filter") == 0) s = put_gate(g);
    g->at = 0;
    return s == ZT_OK ? zt_str_putc(&g->doc, '}') : s;
}

static zt_status put_document(graft *g)
{
    zt_status s = zt_str_puts(&g->doc, "{\"id\":\"graft\",\"depth\":1,\"rows\":1,\"cols\":1,"
                                       "\"layers_per_cell\":1,\"layers\":[");
    if (s == ZT_OK && g->how->residual)
        s = zt_str_puts(&g->doc, "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Sequential\","
                                 "\"activation\":\"Linear\",\"dtype\":\"float32\","
                                 "\"sequential_layers\":[");
    if (s == ZT_OK) s = g->n == 1 ? put_branch(g) : put_branches(g);
    if (s == ZT_OK && g->how->residual)
        s = zt_str_puts(&g->doc, ",{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Residual\","
                                 "\"activation\":\"Linear\",\"dtype\":\"float32\"}]}");
    return s == ZT_OK ? zt_str_puts(&g->doc, "]}") : s;
}

/* ---- the file -------------------------------------------------------------------------------- */

static zt_status copy_tensor(graft *g, const source *from, zt_writer *w)
{
    char piece[1 << 14] = {0};
    zt_status s = ZT_OK;
    for (uint64_t at = 0, k; at < from->bytes && s == ZT_OK; at += k) {
        k = from->bytes - at < sizeof piece ? from->bytes - at : sizeof piece;
        if (from->net >= 0)
            s = zt_checkpoint_read(g->m[from->net]->from, from->tensor, at, piece, (size_t)k);
        if (s == ZT_OK) s = zt_writer_put(w, piece, (size_t)k);
    }
    return s;
}

static zt_status write_file(graft *g, zt_meta *meta, const char *path, const zt_checkpoint_opts *o)
{
    zt_status s = zt_meta_put_str(meta, KEY_FRAME, g->doc.data, g->doc.len);
    zt_netjson *frame = s == ZT_OK ? zt_netjson_from_frame(g->ctx, g->doc.data, g->doc.len) : NULL;
    zt_entry *e = frame ? zt_calloc(g->ctx, (size_t)g->n_tensors + 1, sizeof *e) : NULL;
    for (int64_t i = 0; e && i < g->n_tensors; i++) {
        const zt_array *a = zt_netjson_get(frame, i);
        bool known = a->type.dtype < ZT_DTYPE_COUNT;
        e[i] = (zt_entry){.name = a->name,
                          .dtype = known ? zt_dtype_get(a->type.dtype)->name : a->dtype,
                          .type = a->type,
                          .bytes = a->bytes};
    }
    zt_writer *w = e ? zt_writer_open(g->ctx, path, o, meta, e, g->n_tensors) : NULL;
    if (s == ZT_OK && !w) s = zt_ctx_status(g->ctx);
    for (int64_t i = 0; i < g->n_tensors && s == ZT_OK; i++) s = copy_tensor(g, &g->from[i], w);
    if (s == ZT_OK) s = zt_writer_commit(w);
    zt_writer_close(w);
    zt_free(g->ctx, e);
    zt_netjson_close(frame);
    return s;
}

zt_status zt_dna_graft(zt_dna *const *m, int n, const zt_graft_how *how, zt_meta *meta,
                       const char *path, const zt_checkpoint_opts *o)
{
    zt_ctx *ctx = m[0]->ctx;
    zt_dna **all = zt_calloc(ctx, (size_t)n + 1, sizeof *all);
    if (!all) return ZT_ENOMEM;
    memcpy(all, m, (size_t)n * sizeof *all);
    all[n] = how->gate;
    graft g = {.ctx = ctx, .m = all, .n = n, .how = how};
    zt_str_init(&g.doc, g.ctx);
    zt_status s = ZT_OK;
    for (g.at = 0; g.at < n + (how->gate != NULL) && s == ZT_OK; g.at++)
        if (!all[g.at]->net) s = zt_fail(g.ctx, ZT_EDATA, "%s: is no network", name_of(&g));
    g.at = 0;
    if (s == ZT_OK) s = put_document(&g);
    if (s == ZT_OK) s = write_file(&g, meta, path, o);
    zt_str_fini(&g.doc);
    zt_free(g.ctx, g.layer);
    zt_free(g.ctx, g.from);
    zt_free(ctx, all);
    return s;
}
