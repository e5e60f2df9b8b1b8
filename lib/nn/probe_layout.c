/* probe_layout.c - owns layouts: the order and nesting of a probe's layers, from text, and whether the output width of each
 * is the input width of the next. */
#include "lib/base/require.h"
#include "lib/nn/probe_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_NODES = 1 << 14 };

static zt_nn_layout *new_node(zt_ctx *ctx, zt_nn_layout_kind kind)
{
    zt_nn_layout *layout = zt_calloc(ctx, 1, sizeof *layout);
    if (layout) *layout = (zt_nn_layout){.kind = kind, .layer = -1, .combine = "concat"};
    return layout;
}

void zt_nn_layout_free(zt_ctx *ctx, zt_nn_layout *layout)
{
    while (layout) {
        zt_nn_layout *next = layout->next;
        zt_nn_layout_free(ctx, layout->inner);
        zt_free(ctx, layout);
        layout = next;
    }
}

bool zt_nn_layout_has(const zt_nn_layout *layout, int64_t layer)
{
    for (; layout; layout = layout->next)
        if ((layout->kind == ZT_NN_LAYOUT_LAYER && layout->layer == layer) || zt_nn_layout_has(layout->inner, layer)) return true;
    return false;
}

/* ---- from text ------------------------------------------------------------------------------- */

typedef struct layout_reader {
    zt_ctx *ctx;
    const zt_nn_probe *probe;
    const char *cursor;
    bool *used; /* [layers] */
    int depth;
    int64_t nodes;
} layout_reader;

static zt_status fail_item(const layout_reader *reader, const char *what, const char *text, size_t length)
{
    char shown[120];
    return zt_fail(reader->ctx, ZT_EUSAGE, "order: '%s' %s", zt_escape(shown, sizeof shown, text, length), what);
}

static void skip_blanks(layout_reader *reader)
{
    while (*reader->cursor == ' ') reader->cursor++;
}

/* A tensor by its index or its name; -1: none. */
static int64_t find_tensor(const layout_reader *reader, const char *text, size_t length)
{
    char *end;
    long long index = strtoll(text, &end, 10);
    if (length && *text >= '0' && *text <= '9' && end == text + length)
        return index < zt_nn_probe_tensors(reader->probe) ? index : -1;
    for (int64_t tensor = 0; tensor < zt_nn_probe_tensors(reader->probe); tensor++) {
        const char *name = zt_nn_probe_tensor(reader->probe, tensor)->name;
        if (name && strlen(name) == length && !memcmp(name, text, length)) return tensor;
    }
    return -1;
}

static int64_t find_layer(const layout_reader *reader, int64_t tensor)
{
    for (int64_t archetype_index = 0; archetype_index < zt_nn_probe_count(reader->probe); archetype_index++) {
        const zt_nn_archetype *archetype = zt_nn_probe_at(reader->probe, archetype_index);
        for (int64_t k = 0; k < archetype->role_count; k++)
            if (archetype->roles[k].tensor == tensor && zt_nn_mounts(reader->probe, archetype)) return archetype_index;
    }
    return -1;
}

static zt_status read_layer(layout_reader *reader, const char *text, size_t length, zt_nn_layout *node)
{
    int64_t tensor = find_tensor(reader, text, length);
    if (tensor < 0) return fail_item(reader, "is not the index or name of a tensor", text, length);
    node->layer = find_layer(reader, tensor);
    if (node->layer < 0)
        return fail_item(reader, "does not belong to a layer that a network can have (see --probe)", text, length);
    if (reader->used[node->layer]) return fail_item(reader, "belongs to a layer that is already listed", text, length);
    reader->used[node->layer] = true;
    return ZT_OK;
}

/* What stands before a parenthesis: "parallel:add". */
static zt_status read_container(const layout_reader *reader, const char *text, size_t length, zt_nn_layout *node)
{
    static const struct {
        const char *word;
        zt_nn_layout_kind kind;
        const char *combine;
    } words[] = {{"sequential", ZT_NN_LAYOUT_SEQUENTIAL, "concat"}, {"residual", ZT_NN_LAYOUT_RESIDUAL, "concat"},
                 {"parallel", ZT_NN_LAYOUT_PARALLEL, "concat"},     {"parallel:concat", ZT_NN_LAYOUT_PARALLEL, "concat"},
                 {"parallel:add", ZT_NN_LAYOUT_PARALLEL, "add"},    {"parallel:avg", ZT_NN_LAYOUT_PARALLEL, "avg"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == length && !memcmp(words[i].word, text, length)) {
            node->kind = words[i].kind;
            node->combine = words[i].combine;
            return ZT_OK;
        }
    return fail_item(reader, "is not one of sequential, residual, parallel, parallel:add, parallel:avg", text, length);
}

static zt_status read_list(layout_reader *reader, zt_nn_layout **link);

static zt_status read_item(layout_reader *reader, zt_nn_layout **node)
{
    skip_blanks(reader);
    const char *text = reader->cursor;
    size_t length = strcspn(text, "(),");
    while (length && text[length - 1] == ' ') length--;
    reader->cursor += strcspn(text, "(),");
    *node = new_node(reader->ctx, ZT_NN_LAYOUT_LAYER);
    if (!*node) return ZT_ENOMEM;
    if (++reader->nodes > MAX_NODES) return fail_item(reader, "exceeds the maximum number of items", text, length);
    if (*reader->cursor != '(') return read_layer(reader, text, length, *node);
    zt_status status = read_container(reader, text, length, *node);
    if (status) return status;
    if (++reader->depth > MAX_DEPTH) return fail_item(reader, "is nested too deeply", text, length);
    reader->cursor++;
    status = read_list(reader, &(*node)->inner);
    reader->depth--;
    if (!status && *reader->cursor != ')') return fail_item(reader, "has no closing parenthesis", text, length);
    reader->cursor += !status;
    skip_blanks(reader);
    return status;
}

static zt_status read_list(layout_reader *reader, zt_nn_layout **link)
{
    zt_status status = read_item(reader, link);
    while (!status && *reader->cursor == ',') {
        link = &(*link)->next;
        reader->cursor++;
        status = read_item(reader, link);
    }
    return status;
}

zt_nn_layout *zt_nn_layout_parse(zt_ctx *ctx, const zt_nn_probe *probe, const char *text)
{
    ZT_REQUIRE(ctx, probe && text, NULL);
    zt_nn_layout *first = NULL;
    layout_reader reader = {.ctx = ctx, .probe = probe, .cursor = text};
    reader.used = zt_calloc(ctx, (size_t)zt_nn_probe_count(probe) + 1, sizeof *reader.used);
    zt_status status = reader.used ? read_list(&reader, &first) : ZT_ENOMEM;
    if (!status && *reader.cursor)
        status = fail_item(&reader, "is unexpected after the list of layers", reader.cursor, strlen(reader.cursor));
    zt_free(ctx, reader.used);
    if (!status) return first;
    zt_nn_layout_free(ctx, first);
    return NULL;
}

/* ---- one after the other, as they were found ------------------------------------------------- */

zt_nn_layout *zt_nn_layout_found(zt_ctx *ctx, const zt_nn_probe *probe)
{
    ZT_REQUIRE(ctx, probe, NULL);
    zt_nn_layout *first = NULL, **link = &first;
    for (int64_t archetype_index = 0; archetype_index < zt_nn_probe_count(probe); archetype_index++) {
        if (!zt_nn_mounts(probe, zt_nn_probe_at(probe, archetype_index))) continue;
        *link = new_node(ctx, ZT_NN_LAYOUT_LAYER);
        if (!*link) {
            zt_nn_layout_free(ctx, first);
            return NULL;
        }
        (*link)->layer = archetype_index;
        link = &(*link)->next;
    }
    return first;
}

/* ---- do they chain --------------------------------------------------------------------------- */

/* The width of a value between layers. */
typedef struct row_width {
    int64_t count;
    bool multiple; /* per id, or per point of a plane: multiples fit too */
    int64_t layer; /* the layer that computed it; -1: the network's input */
} row_width;

static int64_t find_metric(const zt_nn_archetype *archetype, const char *name)
{
    for (int64_t i = 0; i < archetype->metric_count; i++)
        if (!strcmp(archetype->metrics[i].name, name)) return archetype->metrics[i].value;
    return 0;
}

/* Input and output width of each kind, as names of metrics. */
static const struct {
    zt_nn_kind kind;
    const char *takes, *gives;
    bool several; /* per id or point (row_width.multiple) */
} kinds[] = {{ZT_NN_DENSE, "in", "out", false},  {ZT_NN_EMBEDDING, "", "d", true}, {ZT_NN_RMSNORM, "d", "d", false},
             {ZT_NN_LAYERNORM, "d", "d", false}, {ZT_NN_SWIGLU, "h", "h", false},  {ZT_NN_MHA, "d", "d", false},
             {ZT_NN_LSTM, "h", "h", false},      {ZT_NN_CNN1, "c", "f", true},     {ZT_NN_CNN2, "c", "f", true}};

static bool is_plane(zt_nn_kind kind) { return kind == ZT_NN_CNN1 || kind == ZT_NN_CNN2; }

/* "layer 2 ('b.weight', Dense)" */
static const char *layer_text(const zt_nn_probe *probe, int64_t index, char buffer[200])
{
    const zt_nn_archetype *archetype = zt_nn_probe_at(probe, index);
    const char *name = zt_nn_probe_tensor(probe, archetype->roles[0].tensor)->name;
    char shown[120];
    snprintf(buffer, 200, "layer %" PRId64 " ('%s', %s)", index,
             zt_escape(shown, sizeof shown, name ? name : "", strlen(name ? name : "")), zt_nn_kind_name(archetype->kind));
    return buffer;
}

typedef struct chain_checker {
    zt_ctx *ctx;
    const zt_nn_probe *probe;
    const char *file;
} chain_checker;

static zt_status fail_chain(const chain_checker *checker, const row_width *width, int64_t layer, int64_t takes)
{
    char giver[200], taker[200], ids[32];
    snprintf(ids, sizeof ids, "%" PRId64, takes);
    return zt_fail(checker->ctx, ZT_EDATA,
                   "%s: the layers do not chain: %s outputs %" PRId64
                   " numbers, but %s takes %s; give their order and nesting with --hint order=...",
                   checker->file, layer_text(checker->probe, width->layer, giver), width->count,
                   layer_text(checker->probe, layer, taker), takes ? ids : "ids");
}

static zt_status check_layer(const chain_checker *checker, int64_t layer, row_width *width)
{
    const zt_nn_archetype *archetype = zt_nn_probe_at(checker->probe, layer);
    size_t kind = 0;
    while (kind < sizeof kinds / sizeof *kinds && kinds[kind].kind != archetype->kind) kind++;
    if (kind == sizeof kinds / sizeof *kinds) {
        *width = (row_width){.layer = layer};
        return ZT_OK;
    }
    int64_t takes = find_metric(archetype, kinds[kind].takes);
    bool ids = archetype->kind == ZT_NN_EMBEDDING, known = width->layer >= 0 && width->count > 0;
    bool fits = width->count == takes || (width->multiple && takes && takes % width->count == 0) ||
                (is_plane(archetype->kind) && takes && width->count % takes == 0);
    if (known && (ids || !fits)) return fail_chain(checker, width, layer, ids ? 0 : takes);
    *width = (row_width){find_metric(archetype, kinds[kind].gives), kinds[kind].several, layer};
    return ZT_OK;
}

static zt_status check_list(const chain_checker *checker, const zt_nn_layout *layout, row_width *width);

/* The input width of the first layer; 0: its shape does not determine it. */
static int64_t find_first_input(const chain_checker *checker, const zt_nn_layout *layout)
{
    while (layout && layout->kind != ZT_NN_LAYOUT_LAYER) layout = layout->inner;
    const zt_nn_archetype *archetype = layout ? zt_nn_probe_at(checker->probe, layout->layer) : NULL;
    for (size_t k = 0; archetype && k < sizeof kinds / sizeof *kinds; k++)
        if (kinds[k].kind == archetype->kind && !is_plane(archetype->kind)) return find_metric(archetype, kinds[k].takes);
    return 0;
}

/* Branches of the network's input, whose width is unknown, must have equal input widths. */
static zt_status check_takes(const chain_checker *checker, const zt_nn_layout *branch)
{
    int64_t common = 0, taken;
    for (; branch; branch = branch->next) {
        taken = find_first_input(checker, branch);
        if (common && taken && taken != common)
            return zt_fail(checker->ctx, ZT_EDATA,
                           "%s: the layers do not chain: branches take different sizes, %" PRId64 " and %" PRId64, checker->file,
                           common, taken);
        common = taken ? taken : common;
    }
    return ZT_OK;
}

/* Branches have equal inputs. Outputs are concatenated, or must have equal widths. */
static zt_status check_branches(const chain_checker *checker, const zt_nn_layout *layout, row_width *width)
{
    row_width input = *width, all = {.layer = -1};
    bool sum = strcmp(layout->combine, "concat") != 0;
    zt_status status = input.layer < 0 ? check_takes(checker, layout->inner) : ZT_OK;
    char text_before[200], text_branch[200];
    for (const zt_nn_layout *branch = layout->inner; branch && !status; branch = branch->next) {
        row_width out = input;
        zt_nn_layout alone = *branch;
        alone.next = NULL;
        status = check_list(checker, &alone, &out);
        if (!status && sum && all.count && out.count && all.count != out.count)
            status = zt_fail(checker->ctx, ZT_EDATA,
                             "%s: the layers do not chain: branches combined by %s output %" PRId64 " numbers (%s) and %" PRId64
                             " (%s)",
                             checker->file, layout->combine, all.count, layer_text(checker->probe, all.layer, text_before),
                             out.count, layer_text(checker->probe, out.layer, text_branch));
        if (branch == layout->inner)
            all = out;
        else if (!sum)
            all.count = all.count && out.count ? all.count + out.count : 0;
        all.multiple = all.multiple || out.multiple;
    }
    *width = all;
    return status;
}

static zt_status check_list(const chain_checker *checker, const zt_nn_layout *layout, row_width *width)
{
    zt_status status = ZT_OK;
    char text[200];
    for (; layout && !status; layout = layout->next) {
        row_width input = *width;
        if (layout->kind == ZT_NN_LAYOUT_LAYER)
            status = check_layer(checker, layout->layer, width);
        else
            status = layout->kind == ZT_NN_LAYOUT_PARALLEL ? check_branches(checker, layout, width)
                                                           : check_list(checker, layout->inner, width);
        if (input.layer < 0) input.count = find_first_input(checker, layout);
        if (status || layout->kind != ZT_NN_LAYOUT_RESIDUAL || !input.count || !width->count || input.count == width->count)
            continue;
        status = zt_fail(checker->ctx, ZT_EDATA,
                         "%s: the layers do not chain: a residual block takes %" PRId64 " numbers, but %s outputs %" PRId64,
                         checker->file, input.count, layer_text(checker->probe, width->layer, text), width->count);
    }
    return status;
}

zt_status zt_nn_layout_check(zt_ctx *ctx, const zt_nn_probe *probe, const zt_nn_layout *layout, const char *file)
{
    ZT_REQUIRE(ctx, probe && layout, ZT_EUSAGE);
    chain_checker checker = {ctx, probe, file};
    row_width width = {.layer = -1};
    return probe->any_named ? ZT_OK : check_list(&checker, layout, &width);
}
