/* tree_reader.c - owns reading trees as recipes: maps by tables of keys, names by tables of words.
 */
#include "lib/base/near.h"
#include "lib/dna/tree.h"

#include <stdio.h>
#include <string.h>

void *zt_tree_zeroed(zt_tree_reader *reader, int64_t count, size_t size)
{
    size_t bytes;
    if (!zt_mul_size((size_t)count + 1, size, &bytes)) return NULL;
    void *memory = zt_arena_alloc(reader->arena, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

static const char *key_name(const void *keys, int index) { return ((const zt_tree_key *)keys)[index].name; }

zt_status zt_tree_read_keys(zt_tree_reader *reader, const zt_tree *map, const char *what, const zt_tree_key *keys, void *into)
{
    if (map->kind != ZT_TREE_MAP) return zt_tree_fail(reader->ctx, reader->file, map, "%s: expected keys and values", what);
    for (int64_t pair = 0; pair < map->count; pair++) {
        const zt_tree *key = map->items[2 * pair], *value = map->items[2 * pair + 1];
        const zt_tree_key *row = keys;
        char shown[80];
        zt_near_hint hint;
        while (row->name && strcmp(row->name, key->text)) row++;
        if (!row->name)
            return zt_tree_fail(reader->ctx, reader->file, key, "%s: unknown key '%s'%s", what,
                                zt_escape(shown, sizeof shown, key->text, strlen(key->text)),
                                zt_near(hint, key->text, key_name, keys));
        if (!row->read)
            return zt_tree_fail(reader->ctx, reader->file, key, "%s: mergekit's key '%s' is not supported", what, key->text);
        zt_status status = zt_tree_is_null(value) ? ZT_OK : row->read(reader, value, into);
        if (status != ZT_OK) return status;
    }
    return ZT_OK;
}

zt_status zt_tree_read_text(zt_tree_reader *reader, const zt_tree *node, const char *what, const char **out)
{
    if (node->kind != ZT_TREE_SCALAR) return zt_tree_fail(reader->ctx, reader->file, node, "%s: expected a string", what);
    *out = zt_arena_strndup(reader->arena, node->text, strlen(node->text));
    return *out ? ZT_OK : ZT_ENOMEM;
}

bool zt_tree_find_word(const zt_tree_word *words, const char *name, int *value)
{
    for (; words->name; words++)
        if (!strcmp(words->name, name)) return *value = words->value, true;
    return false;
}

zt_status zt_tree_read_word(zt_tree_reader *reader, const zt_tree *node, const char *what, const zt_tree_word *words, int *value)
{
    const char *name = NULL;
    char shown[80], known[200] = "";
    size_t used = 0;
    zt_status status = zt_tree_read_text(reader, node, what, &name);
    if (status != ZT_OK || zt_tree_find_word(words, name, value)) return status;
    for (const zt_tree_word *word = words; word->name && used < sizeof known; word++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", word->name);
    return zt_tree_fail(reader->ctx, reader->file, node, "unknown %s '%s': expected one of %s", what,
                        zt_escape(shown, sizeof shown, name, strlen(name)), known);
}

void *zt_tree_open(zt_ctx *ctx, const char *path, zt_tree_parse_fn *parse)
{
    size_t length;
    zt_source *source = zt_source_open(ctx, path);
    char *text = source ? zt_tree_read(ctx, source, &length) : NULL;
    void *recipe = text ? parse(ctx, zt_source_name(source), text, length) : NULL;
    zt_free(ctx, text);
    zt_source_close(source);
    return recipe;
}
