/* golden_tiles.c - golden/loom/tiles: rows of a tile of attention from a device's limits. */
#include "tests/common/golden.h"
#include "tests/common/tap.h"

#include "lib/engine/vulkan/tile.h"
#include <dirent.h>
#include <jansson.h>
#include <string.h>

static int64_t whole(const json_t *object, const char *key) { return (int64_t)json_number_value(json_object_get(object, key)); }

static void try_file(const char *name, const json_t *root)
{
    const json_t *item;
    size_t i, good = 0;
    json_array_foreach(root, i, item)
    {
        int64_t shared = whole(item, "shared_mem"), head = whole(item, "head_dim");
        int tile = zt_vk_tile((uint32_t)shared, head);
        if (tile == whole(item, "tile"))
            good++;
        else
            diag("%lld bytes, head_dim %lld: %d, but %lld", (long long)shared, (long long)head, tile,
                 (long long)whole(item, "tile"));
    }
    ok(i > 0 && good == i, "%s: %zu of %zu tiles", name, good, i);
}

static int is_case(const struct dirent *e) { return strstr(e->d_name, ".json") != NULL; }

/* What attention's shader relies on, for limits and heads of any size. */
static void test_range(void)
{
    bool good = true;
    for (uint32_t shared = 0; shared < 1 << 20; shared += 1021)
        for (int64_t head = 0; head < 4096; head += 61) {
            int tile = zt_vk_tile(shared, head);
            good = good && tile >= 8 && tile <= 64 && tile % 8 == 0;
        }
    good = good && zt_vk_tile(UINT32_MAX, 1) == 64 && zt_vk_tile(1, INT64_MAX) == 8;
    ok(good, "8 to 64 rows, a multiple of 8");
}

int main(void)
{
    char folder[4096], path[4500];
    struct dirent **entry;
    int count = golden_holds("loom/tiles", folder) ? scandir(folder, &entry, is_case, alphasort) : -1;
    if (count < 1) diag("no cases");
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entry[i]->d_name);
        json_t *root = json_load_file(path, 0, NULL);
        try_file(entry[i]->d_name, root);
        json_decref(root);
        free(entry[i]);
    }
    if (count >= 0) free(entry);
    test_range();
    return tap_done();
}
