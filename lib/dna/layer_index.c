/* layer_index.c - owns where a tensor is, told by its name: the first of its parts, between dots, that is
 * a number is its block; what stands before it names the stack of blocks. */
#include "lib/dna/dna_file.h"

#include <string.h>

enum { MOST_DIGITS = 9 };

/* The name's first part that is a number: from .. to-1; false: none. */
static bool find_block(const char *name, size_t *from, size_t *to, int64_t *block)
{
    for (const char *p = name; *p;) {
        const char *end = strchrnul(p, '.');
        size_t digits = strspn(p, "0123456789");
        if (digits > 0 && digits <= MOST_DIGITS && p + digits == end) {
            *from = (size_t)(p - name);
            *to = (size_t)(end - name);
            *block = 0;
            for (; p < end; p++) *block = *block * 10 + (*p - '0');
            return true;
        }
        p = *end ? end + 1 : end;
    }
    return false;
}

/* A number that goes with a key: that which it has, or the next. */
static zt_status number_of(zt_map *m, const char *key, size_t n, int64_t *out)
{
    if (zt_map_get(m, key, n, out)) return ZT_OK;
    *out = (int64_t)zt_map_count(m);
    return zt_map_put(m, key, n, *out);
}

typedef struct places {
    zt_dna *d;
    zt_map *stacks, *blocks; /* by prefix: its number; by prefix and block: tensors so far */
} places;

static zt_status place_one(places *p, zt_dna_layer *layer)
{
    const char *name = layer->name;
    size_t from = 0, to = 0;
    int64_t *z = &layer->place[0], so_far = 0;
    zt_status s = ZT_OK;
    layer->type = name;
    if (find_block(name, &from, &to, z)) {
        size_t rest = strlen(name + to);
        char *type = zt_arena_alloc(p->d->texts, from + 1 + rest + 1);
        if (!type) return ZT_ENOMEM;
        memcpy(type, name, from);
        type[from] = '*';
        memcpy(type + from + 1, name + to, rest + 1);
        layer->type = type;
        s = number_of(p->stacks, name, from, &layer->place[1]);
    } else {
        *z = -1;
    }
    if (s != ZT_OK) return s;
    zt_map_get(p->blocks, name, to, &so_far);
    layer->place[3] = so_far;
    return zt_map_put(p->blocks, name, to, so_far + 1);
}

zt_status zt_dna_places(zt_dna *d)
{
    places p = {
        .d = d, .stacks = zt_map_new(d->ctx, 0), .blocks = zt_map_new(d->ctx, (size_t)d->n)};
    zt_status s = p.stacks && p.blocks ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; i < d->n && s == ZT_OK; i++) s = place_one(&p, &d->layer[i]);
    zt_map_free(p.stacks);
    zt_map_free(p.blocks);
    return s;
}
