/* layer_index.c - owns where a tensor is, told by its name: the first of its parts, between dots, that is
 * a number is its block; what stands before it names the stack of blocks. */
#include "lib/dna/dna_file.h"

#include <string.h>

enum { MOST_DIGITS = 9 };

/* The name's first part that is a number: from .. to-1; false: none. */
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

/* A number that goes with a key: that which it has, or the next. */
static zt_status assign_number(zt_map *numbers, const char *key, size_t length, int64_t *out)
{
    if (zt_map_get(numbers, key, length, out)) return ZT_OK;
    *out = (int64_t)zt_map_count(numbers);
    return zt_map_put(numbers, key, length, *out);
}

typedef struct layer_placement {
    zt_dna *model;
    zt_map *stacks, *blocks; /* by prefix: its number; by prefix and block: tensors so far */
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

zt_status zt_dna_places(zt_dna *model)
{
    layer_placement placement = {
        .model = model, .stacks = zt_map_new(model->ctx, 0), .blocks = zt_map_new(model->ctx, (size_t)model->layer_count)};
    zt_status status = placement.stacks && placement.blocks ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < model->layer_count && status == ZT_OK; i++) status = place_layer(&placement, &model->layers[i]);
    zt_map_free(placement.stacks);
    zt_map_free(placement.blocks);
    return status;
}
