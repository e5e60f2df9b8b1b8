/* dna.c - owns opening: which layers a checkpoint has, and the place of each.
 *
 * The place of a tensor follows from its name: the first part, between dots, that is a number is the block; the text before
 * it names the stack of blocks. */
#include "lib/base/require.h"
#include "lib/dna/dna_file.h"

#include <string.h>

#define KEY_FRAME "zt.netjson"

/* ---- places ------------------------------------------------------------------------------------ */

enum { MOST_DIGITS = 9 };

/* Finds the first part of the name that is a number, name[from] to name[to - 1]; false: none. */
static bool find_block(const char *name, size_t *from, size_t *to, int64_t *block)
{
    for (const char *cursor = name; *cursor;) {
        const char *end = strchrnul(cursor, '.');
        size_t digits = strspn(cursor, "0123456789");
        if (digits > 0 && digits <= MOST_DIGITS && cursor + digits == end) {
            *from = (size_t)(cursor - name);
            *to = (size_t)(end - name);
            *block = 0;
            for (; cursor < end; cursor++) *block = *block * 10 + (*cursor - '0');
            return true;
        }
        cursor = *end ? end + 1 : end;
    }
    return false;
}

/* The number of a key: the one assigned before, or the next. */
static zt_status assign_number(zt_map *numbers, const char *key, size_t length, int64_t *out)
{
    if (zt_map_get(numbers, key, length, out)) return ZT_OK;
    *out = (int64_t)zt_map_count(numbers);
    return zt_map_put(numbers, key, length, *out);
}

typedef struct layer_placement {
    zt_dna *model;
    zt_map *stacks, *blocks; /* by prefix: number of the stack; by prefix and block: tensors so far */
} layer_placement;

static zt_status place_layer(layer_placement *placement, zt_dna_layer *layer)
{
    const char *name = layer->name;
    size_t from = 0, end = 0;
    int64_t *block = &layer->place[0], so_far = 0;
    zt_status status = ZT_OK;
    layer->type = name;
    if (find_block(name, &from, &end, block)) {
        size_t rest_length = strlen(name + end);
        char *type = zt_arena_alloc(placement->model->texts, from + 1 + rest_length + 1);
        if (!type) return ZT_ENOMEM;
        memcpy(type, name, from);
        type[from] = '*';
        memcpy(type + from + 1, name + end, rest_length + 1);
        layer->type = type;
        status = assign_number(placement->stacks, name, from, &layer->place[1]);
    } else {
        *block = -1;
    }
    if (status != ZT_OK) return status;
    zt_map_get(placement->blocks, name, end, &so_far);
    layer->place[3] = so_far;
    return zt_map_put(placement->blocks, name, end, so_far + 1);
}

static zt_status place_layers(zt_dna *model)
{
    layer_placement placement = {
        .model = model, .stacks = zt_map_new(model->ctx, 0), .blocks = zt_map_new(model->ctx, (size_t)model->layer_count)};
    zt_status status = placement.stacks && placement.blocks ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < model->layer_count && status == ZT_OK; i++) status = place_layer(&placement, &model->layers[i]);
    zt_map_free(placement.stacks);
    zt_map_free(placement.blocks);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------- */

/* A layer for each tensor. */
static zt_status list_tensors(zt_dna *model)
{
    int64_t count = zt_checkpoint_count(model->checkpoint);
    model->layers = zt_calloc(model->ctx, (size_t)count + 1, sizeof *model->layers);
    model->parts = zt_calloc(model->ctx, (size_t)count + 1, sizeof *model->parts);
    model->first_parts = zt_alloc_array(model->ctx, (size_t)count + 1, sizeof *model->first_parts);
    if (!model->layers || !model->parts || !model->first_parts) return ZT_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        zt_entry entry;
        zt_checkpoint_get(model->checkpoint, i, &entry);
        bool known = entry.type.dtype != ZT_DTYPE_COUNT && entry.type.rank >= 0;
        model->layers[i] = (zt_dna_layer){
            .name = entry.name, .dtype = entry.dtype, .shape = entry.type, .count = known ? zt_type_count(&entry.type) : 0};
        model->parts[i] = (dna_part){.tensor = i, .count = model->layers[i].count, .next = i + 1};
        model->first_parts[i] = i;
    }
    model->layer_count = model->part_count = count;
    return place_layers(model);
}

static zt_status list_layers(zt_dna *model)
{
    zt_meta *meta = zt_checkpoint_meta(model->checkpoint);
    int64_t frame_index = zt_meta_find(meta, KEY_FRAME);
    zt_bytes frame = frame_index >= 0 ? zt_meta_text(zt_meta_get(meta, frame_index)) : (zt_bytes){.data = NULL};
    model->is_net = model->of_net = frame.data != NULL;
    if (model->is_net) return zt_dna_net_layers(model, frame);
    zt_status status = list_tensors(model);
    return status == ZT_OK && zt_dna_holds_signatures(model) ? zt_dna_read_signatures(model) : status;
}

static zt_status index_names(zt_dna *model)
{
    zt_status status = ZT_OK;
    model->names = zt_map_new(model->ctx, (size_t)model->layer_count);
    if (!model->names) return ZT_ENOMEM;
    for (int64_t i = 0; i < model->layer_count && status == ZT_OK; i++)
        status = zt_map_put(model->names, model->layers[i].name, strlen(model->layers[i].name), i);
    return status;
}

zt_dna *zt_dna_of(zt_ctx *ctx, zt_checkpoint *checkpoint, zt_storage_rule rule)
{
    zt_dna *model = checkpoint ? zt_calloc(ctx, 1, sizeof *model) : NULL;
    if (!model) {
        zt_checkpoint_close(checkpoint);
        return NULL;
    }
    *model = (zt_dna){.ctx = ctx, .checkpoint = checkpoint, .rule = rule, .texts = zt_arena_new(ctx, 0), .held_layer = -1};
    zt_status status = model->texts ? list_layers(model) : ZT_ENOMEM;
    if (status == ZT_OK) status = index_names(model);
    if (status == ZT_OK) return model;
    zt_dna_close(model);
    return NULL;
}

static const char json_opening[] = "{\"schema\":\"zt.dna.extract/1\"";

bool zt_dna_sniff(const void *head, size_t size)
{
    return head && size >= sizeof json_opening - 1 && memcmp(head, json_opening, sizeof json_opening - 1) == 0;
}

static zt_status parse_signatures(zt_dna *model, const zt_source *source)
{
    size_t size = (size_t)zt_source_size(source);
    char *text = zt_alloc(model->ctx, size + 1);
    model->file_name = zt_strdup(model->ctx, zt_source_name(source));
    zt_status status = text && model->file_name && model->texts ? zt_source_read(source, 0, text, size) : ZT_ENOMEM;
    if (status == ZT_OK) status = zt_dna_parse(model, text, size);
    zt_free(model->ctx, text);
    return status == ZT_OK ? index_names(model) : status;
}

zt_dna *zt_dna_of_json(zt_ctx *ctx, const zt_source *source)
{
    zt_dna *model = source ? zt_calloc(ctx, 1, sizeof *model) : NULL;
    if (!model) return NULL;
    *model = (zt_dna){.ctx = ctx, .texts = zt_arena_new(ctx, 0), .held_layer = -1};
    if (parse_signatures(model, source) == ZT_OK) return model;
    zt_dna_close(model);
    return NULL;
}

static void free_mix(zt_ctx *ctx, dna_mix *mix)
{
    if (!mix) return;
    zt_free(ctx, mix->twins);
    zt_free(ctx, mix->alphas);
    zt_free(ctx, mix->weights_a);
    zt_free(ctx, mix->values_b);
    zt_free(ctx, mix->rows);
    zt_free(ctx, mix);
}

void zt_dna_close(zt_dna *model)
{
    if (!model) return;
    zt_free(model->ctx, model->parts);
    zt_free(model->ctx, model->held_values);
    zt_free(model->ctx, model->codes);
    if (!model->mix) { /* a child has borrowed these */
        zt_checkpoint_close(model->checkpoint);
        zt_arena_free(model->texts);
        zt_map_free(model->names);
        zt_free(model->ctx, model->layers);
        zt_free(model->ctx, model->first_parts);
        zt_free(model->ctx, model->lengths);
        zt_free(model->ctx, model->file_name);
        for (int64_t i = 0; model->json_values && i < model->layer_count; i++) zt_free(model->ctx, model->json_values[i]);
        zt_free(model->ctx, model->json_values);
    }
    free_mix(model->ctx, model->mix);
    zt_free(model->ctx, model);
}

const char *zt_dna_name(const zt_dna *model)
{
    return model ? (model->checkpoint ? zt_checkpoint_name(model->checkpoint) : model->file_name) : NULL;
}

bool zt_dna_is_net(const zt_dna *model) { return model && model->of_net; }

bool zt_dna_is_signed(const zt_dna *model) { return model && model->lengths != NULL; }

int64_t zt_dna_count(const zt_dna *model) { return model ? model->layer_count : 0; }

const zt_dna_layer *zt_dna_get(const zt_dna *model, int64_t index) { return model ? &model->layers[index] : NULL; }

int64_t zt_dna_find(const zt_dna *model, const char *name)
{
    if (!model) return -1;
    ZT_REQUIRE(model->ctx, name, -1);
    return zt_map_find(model->names, name);
}
