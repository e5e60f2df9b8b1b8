/* graft.c - owns networks joined in one: each becomes a branch of a parallel layer, and where it is
 * wanted that stands in a residual block.
 *
 * The new document is made of the text of the old ones: members are copied as they stand, but for
 * places, and the numbers by which a frame (lib/io/netjson.h) names its tensors. A network of one
 * layer is that layer, others are a sequence of their layers in the order of the grid. A Residual
 * step adds the input of the step before it. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"
#include "lib/io/json.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FRAME "zt.netjson"

typedef struct text_span {
    const char *text;
    size_t length;
} text_span;

typedef struct tensor_source { /* a tensor of the new document */
    int network;               /* -1: zeros */
    int64_t tensor;
    uint64_t bytes;
} tensor_source;

typedef struct graft_writer {
    zt_ctx *ctx;
    zt_dna *const *networks;
    int network_count, current; /* networks, and behind them the gate; the one at hand */
    const zt_graft_opts *options;
    zt_str doc;
    text_span *layers; /* of the network at hand */
    int64_t layer_count, layer_capacity;
    tensor_source *sources; /* [tensor_count] */
    int64_t tensor_count, source_capacity;
    bool first; /* no member has been written in the object at hand */
} graft_writer;

static const char *name_of(const graft_writer *graft) { return zt_dna_name(graft->networks[graft->current]); }

/* ---- the text of a layer --------------------------------------------------------------------- */

static zt_status add_tensor(graft_writer *graft, tensor_source from)
{
    if (graft->tensor_count == graft->source_capacity) {
        int64_t room = graft->source_capacity ? 2 * graft->source_capacity : 64;
        tensor_source *more = zt_realloc(graft->ctx, graft->sources, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        graft->sources = more;
        graft->source_capacity = room;
    }
    graft->sources[graft->tensor_count] = from;
    return zt_str_printf(&graft->doc, "\"#%" PRId64 ":%" PRIu64 "\"", graft->tensor_count++, from.bytes);
}

/* "#3:256" of the network at hand gets the next number of all. */
static zt_status put_tensor(graft_writer *graft, const char *text, size_t length)
{
    char copy[64];
    long long tensor = -1;
    unsigned long long bytes = 0;
    snprintf(copy, sizeof copy, "%.*s", (int)(length < sizeof copy ? length : sizeof copy - 1), text);
    if (sscanf(copy, "\"#%lld:%llu\"", &tensor, &bytes) != 2 || tensor < 0)
        return zt_fail(graft->ctx, ZT_EDATA, "%s: \"weights\" is not a string", name_of(graft));
    return add_tensor(graft, (tensor_source){.network = graft->current, .tensor = tensor, .bytes = bytes});
}

static zt_status put_layer(graft_writer *graft, const char *text, size_t length, bool top);

static zt_status put_item(void *user, int64_t index, const char *text, size_t length)
{
    graft_writer *graft = user;
    if (index) zt_str_putc(&graft->doc, ',');
    return put_layer(graft, text, length, false);
}

static zt_status put_items(graft_writer *graft, const char *text, size_t length)
{
    zt_status status = zt_str_putc(&graft->doc, '[');
    if (status == ZT_OK) status = zt_json_items(graft->ctx, name_of(graft), text, length, put_item, graft);
    return status == ZT_OK ? zt_str_putc(&graft->doc, ']') : status;
}

static bool is_listed(const char *key, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(key, *list) == 0) return true;
    return false;
}

static zt_status put_member(graft_writer *graft, const char *key, const char *text, size_t length)
{
    static const char *const lists[] = {"parallel_branches", "sequential_layers", NULL};
    zt_status status = graft->first ? ZT_OK : zt_str_putc(&graft->doc, ',');
    graft->first = false;
    if (status == ZT_OK) status = zt_str_put_json(&graft->doc, key, strlen(key));
    if (status == ZT_OK) status = zt_str_putc(&graft->doc, ':');
    if (status != ZT_OK) return status;
    if (strcmp(key, "weights") == 0) return put_tensor(graft, text, length);
    if (is_listed(key, lists) && length && *text == '[')
        status = put_items(graft, text, length);
    else
        status = zt_str_put(&graft->doc, text, length);
    graft->first = false;
    return status;
}

static zt_status put_inner_member(void *user, const char *key, const char *text, size_t length)
{
    return put_member(user, key, text, length);
}

static zt_status put_top_member(void *user, const char *key, const char *text, size_t length)
{
    static const char *const places[] = {"z", "y", "x", "l", NULL};
    return is_listed(key, places) ? ZT_OK : put_member(user, key, text, length);
}

/* A layer of a grid loses its place. */
static zt_status put_layer(graft_writer *graft, const char *text, size_t length, bool top)
{
    zt_status status = zt_str_puts(&graft->doc, top ? "{\"z\":0,\"y\":0,\"x\":0,\"l\":0" : "{");
    graft->first = !top;
    if (status == ZT_OK)
        status = zt_json_members(graft->ctx, name_of(graft), text, length, top ? put_top_member : put_inner_member, graft);
    graft->first = false;
    return status == ZT_OK ? zt_str_putc(&graft->doc, '}') : status;
}

/* ---- a network as a branch ------------------------------------------------------------------- */

static zt_status note_layer(void *user, int64_t index, const char *text, size_t length)
{
    graft_writer *graft = user;
    if (index == graft->layer_capacity) {
        int64_t room = index ? 2 * index : 64;
        text_span *more = zt_realloc(graft->ctx, graft->layers, (size_t)room * sizeof *more);
        if (!more) return ZT_ENOMEM;
        graft->layers = more;
        graft->layer_capacity = room;
    }
    graft->layers[index] = (text_span){.text = text, .length = length};
    graft->layer_count = index + 1;
    return ZT_OK;
}

static zt_status note_member(void *user, const char *key, const char *text, size_t length)
{
    graft_writer *graft = user;
    return strcmp(key, "layers") == 0 ? zt_json_items(graft->ctx, name_of(graft), text, length, note_layer, graft) : ZT_OK;
}

typedef struct grid_step {
    int64_t place[4], index;
} grid_step;

static int compare_places(const void *left, const void *right)
{
    const grid_step *first = left, *second = right;
    for (int k = 0; k < 4; k++)
        if (first->place[k] != second->place[k]) return first->place[k] < second->place[k] ? -1 : 1;
    return first->index < second->index ? -1 : first->index > second->index;
}

static bool is_selected(const graft_writer *graft, const zt_dna_layer *layer)
{
    bool selected = graft->options->n_select == 0 || graft->current == graft->network_count; /* a gate is whole */
    for (int k = 0; !selected && k < graft->options->n_select; k++)
        selected =
            fnmatch(graft->options->select[k], layer->name, 0) == 0 || fnmatch(graft->options->select[k], layer->type, 0) == 0;
    return selected;
}

/* The layers that are selected, in the order of the grid; *count of them. */
static grid_step *list_steps(graft_writer *graft, int64_t *count)
{
    const zt_dna *model = graft->networks[graft->current];
    grid_step *steps = zt_alloc_array(graft->ctx, (size_t)model->layer_count + 1, sizeof *steps);
    *count = 0;
    for (int64_t i = 0; steps && i < model->layer_count; i++) {
        if (!is_selected(graft, &model->layers[i])) continue;
        memcpy(steps[*count].place, model->layers[i].place, sizeof steps[*count].place);
        steps[(*count)++].index = i;
    }
    if (steps) qsort(steps, (size_t)*count, sizeof *steps, compare_places);
    return steps;
}

static zt_status put_steps(graft_writer *graft, const grid_step *steps, int64_t count)
{
    zt_status status = ZT_OK;
    if (count != 1)
        status = zt_str_puts(&graft->doc, "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Sequential\","
                                          "\"activation\":\"Linear\",\"dtype\":\"float32\","
                                          "\"sequential_layers\":[");
    for (int64_t i = 0; i < count && status == ZT_OK; i++) {
        if (i) zt_str_putc(&graft->doc, ',');
        const text_span *span = &graft->layers[steps[i].index];
        status = put_layer(graft, span->text, span->length, true);
    }
    return status == ZT_OK && count != 1 ? zt_str_puts(&graft->doc, "]}") : status;
}

static zt_status put_branch(graft_writer *graft)
{
    zt_dna *model = graft->networks[graft->current];
    zt_meta *meta = zt_dna_meta(model);
    zt_bytes frame = zt_meta_text(zt_meta_get(meta, zt_meta_find(meta, KEY_FRAME)));
    graft->layer_count = 0;
    zt_status status = zt_json_members(graft->ctx, name_of(graft), frame.data, frame.n, note_member, graft);
    if (status == ZT_OK && (graft->layer_count == 0 || graft->layer_count != model->layer_count))
        status = zt_fail(graft->ctx, ZT_EDATA, "%s: the network has no layers", name_of(graft));
    int64_t count = 0;
    grid_step *steps = status == ZT_OK ? list_steps(graft, &count) : NULL;
    if (status == ZT_OK && !steps) status = ZT_ENOMEM;
    if (status == ZT_OK && count == 0)
        status = zt_fail(graft->ctx, ZT_EUSAGE, "%s: no layer matches the selection", name_of(graft));
    if (status == ZT_OK) status = put_steps(graft, steps, count);
    zt_free(graft->ctx, steps);
    return status;
}

/* ---- the document ---------------------------------------------------------------------------- */

/* What says how much each branch counts: a network, or a layer that begins with equal shares. */
static zt_status put_gate(graft_writer *graft)
{
    int64_t input_count = graft->options->gate_inputs, count;
    zt_status status = zt_str_puts(&graft->doc, ",\"filter_gate\":");
    if (status == ZT_OK && graft->options->gate) {
        graft->current = graft->network_count;
        return put_branch(graft);
    }
    if (status == ZT_OK && (!zt_mul_i64(input_count, graft->network_count, &count) || count < 1))
        status = zt_fail(graft->ctx, ZT_EUSAGE, "invalid gate: %" PRId64 " outputs", input_count);
    if (status == ZT_OK)
        status = zt_str_printf(&graft->doc,
                               "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Dense\","
                               "\"activation\":\"Linear\",\"dtype\":\"float32\","
                               "\"input_height\":%" PRId64 ",\"output_height\":%d,\"weights\":",
                               input_count, graft->network_count);
    if (status == ZT_OK) status = add_tensor(graft, (tensor_source){.network = -1, .bytes = (uint64_t)count * sizeof(float)});
    return status == ZT_OK ? zt_str_putc(&graft->doc, '}') : status;
}

static zt_status put_branches(graft_writer *graft)
{
    zt_status status = zt_str_puts(&graft->doc, "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Parallel\","
                                                "\"activation\":\"Linear\",\"dtype\":\"float32\","
                                                "\"combine_mode\":");
    if (status == ZT_OK) status = zt_str_put_json(&graft->doc, graft->options->combine, strlen(graft->options->combine));
    if (status == ZT_OK) status = zt_str_puts(&graft->doc, ",\"parallel_branches\":[");
    for (graft->current = 0; graft->current < graft->network_count && status == ZT_OK; graft->current++) {
        if (graft->current) zt_str_putc(&graft->doc, ',');
        status = put_branch(graft);
    }
    if (status == ZT_OK) status = zt_str_putc(&graft->doc, ']');
    if (status == ZT_OK && strcmp(graft->options->combine, "filter") == 0) status = put_gate(graft);
    graft->current = 0;
    return status == ZT_OK ? zt_str_putc(&graft->doc, '}') : status;
}

static zt_status put_document(graft_writer *graft)
{
    zt_status status = zt_str_puts(&graft->doc, "{\"id\":\"graft\",\"depth\":1,\"rows\":1,\"cols\":1,"
                                                "\"layers_per_cell\":1,\"layers\":[");
    if (status == ZT_OK && graft->options->residual)
        status = zt_str_puts(&graft->doc, "{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Sequential\","
                                          "\"activation\":\"Linear\",\"dtype\":\"float32\","
                                          "\"sequential_layers\":[");
    if (status == ZT_OK) status = graft->network_count == 1 ? put_branch(graft) : put_branches(graft);
    if (status == ZT_OK && graft->options->residual)
        status = zt_str_puts(&graft->doc, ",{\"z\":0,\"y\":0,\"x\":0,\"l\":0,\"type\":\"Residual\","
                                          "\"activation\":\"Linear\",\"dtype\":\"float32\"}]}");
    return status == ZT_OK ? zt_str_puts(&graft->doc, "]}") : status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static zt_status copy_tensor(graft_writer *graft, const tensor_source *from, zt_writer *writer)
{
    char piece[1 << 14] = {0};
    zt_status status = ZT_OK;
    for (uint64_t offset = 0, step; offset < from->bytes && status == ZT_OK; offset += step) {
        step = from->bytes - offset < sizeof piece ? from->bytes - offset : sizeof piece;
        if (from->network >= 0)
            status = zt_checkpoint_read(graft->networks[from->network]->checkpoint, from->tensor, offset, piece, (size_t)step);
        if (status == ZT_OK) status = zt_writer_put(writer, piece, (size_t)step);
    }
    return status;
}

static zt_status write_file(graft_writer *graft, zt_meta *meta, const char *path, const zt_checkpoint_opts *options)
{
    zt_status status = zt_meta_put_str(meta, KEY_FRAME, graft->doc.data, graft->doc.len);
    zt_netjson *frame = status == ZT_OK ? zt_netjson_from_frame(graft->ctx, graft->doc.data, graft->doc.len) : NULL;
    zt_entry *entries = frame ? zt_calloc(graft->ctx, (size_t)graft->tensor_count + 1, sizeof *entries) : NULL;
    for (int64_t i = 0; entries && i < graft->tensor_count; i++) {
        const zt_array *array = zt_netjson_get(frame, i);
        bool known = array->type.dtype < ZT_DTYPE_COUNT;
        entries[i] = (zt_entry){.name = array->name,
                                .dtype = known ? zt_dtype_get(array->type.dtype)->name : array->dtype,
                                .type = array->type,
                                .bytes = array->bytes};
    }
    zt_writer *writer = entries ? zt_writer_open(graft->ctx, path, options, meta, entries, graft->tensor_count) : NULL;
    if (status == ZT_OK && !writer) status = zt_ctx_status(graft->ctx);
    for (int64_t i = 0; i < graft->tensor_count && status == ZT_OK; i++) status = copy_tensor(graft, &graft->sources[i], writer);
    if (status == ZT_OK) status = zt_writer_commit(writer);
    zt_writer_close(writer);
    zt_free(graft->ctx, entries);
    zt_netjson_close(frame);
    return status;
}

zt_status zt_dna_graft(zt_dna *const *models, int count, const zt_graft_opts *options, zt_meta *meta, const char *path,
                       const zt_checkpoint_opts *file_options)
{
    if (!models || count < 1 || !models[0]) return ZT_EUSAGE;
    zt_ctx *ctx = models[0]->ctx;
    ZT_REQUIRE(ctx, options && meta && path && file_options, ZT_EUSAGE);
    for (int i = 0; i < count; i++) ZT_REQUIRE(ctx, models[i], ZT_EUSAGE);
    zt_dna **all = zt_calloc(ctx, (size_t)count + 1, sizeof *all);
    if (!all) return ZT_ENOMEM;
    memcpy(all, models, (size_t)count * sizeof *all);
    all[count] = options->gate;
    graft_writer graft = {.ctx = ctx, .networks = all, .network_count = count, .options = options};
    zt_str_init(&graft.doc, graft.ctx);
    zt_status status = ZT_OK;
    for (graft.current = 0; graft.current < count + (options->gate != NULL) && status == ZT_OK; graft.current++)
        if (!all[graft.current]->is_net) status = zt_fail(graft.ctx, ZT_EDATA, "%s: not a network", name_of(&graft));
    graft.current = 0;
    if (status == ZT_OK) status = put_document(&graft);
    if (status == ZT_OK) status = write_file(&graft, meta, path, file_options);
    zt_str_fini(&graft.doc);
    zt_free(graft.ctx, graft.layers);
    zt_free(graft.ctx, graft.sources);
    zt_free(ctx, all);
    return status;
}
