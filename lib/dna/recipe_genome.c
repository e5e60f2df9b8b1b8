/* recipe_genome.c - owns recipes that evolve: a document whose numbers can be set, and written again. */
#include "lib/dna/recipe_genome.h"
#include "lib/base/require.h"
#include "lib/dna/merge.h"
#include "lib/dna/tree.h"
#include "lib/io/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GENES = 4096, GROUPS = 256 };

typedef struct recipe_gene {
    json_t *value; /* in the document */
    const zt_gene_range *range;
} recipe_gene;

struct zt_recipe_genome {
    zt_ctx *ctx;
    json_t *root;
    const zt_gene_range *ranges;
    int range_count, groups, count;
    recipe_gene genes[GENES];
};

/* ---- the document ---------------------------------------------------------------------------- */

static bool is_word(const char *text, const char *const *words)
{
    while (*words && strcmp(text, *words)) words++;
    return *words != NULL;
}

static json_t *convert_scalar(const zt_tree *node)
{
    static const char *const on[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL};
    static const char *const off[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL};
    static const char *const none[] = {"", "~", "null", "Null", "NULL", NULL};
    int64_t whole;
    double number;
    if (!node->plain) return json_string(node->text);
    if (is_word(node->text, on)) return json_true();
    if (is_word(node->text, off)) return json_false();
    if (is_word(node->text, none)) return json_null();
    if (zt_parse_i64(node->text, &whole)) return json_integer(whole);
    return zt_parse_double(node->text, &number) && isfinite(number) ? json_real(number) : json_string(node->text);
}

/* NULL: no memory, or a text that is not UTF-8. Trees are bounded in depth and size. */
static json_t *convert_tree(const zt_tree *node)
{
    if (node->kind == ZT_TREE_SCALAR) return convert_scalar(node);
    bool map = node->kind == ZT_TREE_MAP, good = true;
    json_t *value = map ? json_object() : json_array();
    for (int64_t i = 0; i < node->count && good; i++) {
        json_t *item = convert_tree(node->items[map ? 2 * i + 1 : i]);
        good =
            item && (map ? json_object_set_new(value, node->items[2 * i]->text, item) : json_array_append_new(value, item)) == 0;
    }
    if (good) return value;
    json_decref(value);
    return NULL;
}

/* ---- models ---------------------------------------------------------------------------------- */

/* A model that is not found here but beside the recipe gets its path from here. */
static bool find_beside(zt_ctx *ctx, const char *folder, size_t length, json_t *map, const char *key)
{
    const char *name = json_string_value(json_object_get(map, key));
    if (!name || *name == '/' || !length || access(name, F_OK) == 0) return true;
    zt_str path;
    zt_str_init(&path, ctx);
    bool good = zt_str_printf(&path, "%.*s%s", (int)length, folder, name) == ZT_OK;
    if (good && access(path.data, F_OK) == 0) good = json_object_set_new(map, key, json_string(path.data)) == 0;
    zt_str_fini(&path);
    return good;
}

static bool find_models(zt_ctx *ctx, const char *folder, size_t length, json_t *value)
{
    const char *key;
    json_t *item;
    bool good = true;
    if (json_is_object(value))
        good = find_beside(ctx, folder, length, value, "model") && find_beside(ctx, folder, length, value, "base_model");
    for (size_t i = 0; i < json_array_size(value) && good; i++) good = find_models(ctx, folder, length, json_array_get(value, i));
    json_object_foreach(value, key, item) { good = good && find_models(ctx, folder, length, item); }
    return good;
}

/* ---- genes ----------------------------------------------------------------------------------- */

static zt_status add_gene(zt_recipe_genome *genome, json_t *value, const zt_gene_range *range)
{
    if (genome->count == GENES) return zt_fail(genome->ctx, ZT_EDATA, "the recipe has more than %d numbers that evolve", GENES);
    genome->genes[genome->count++] = (recipe_gene){value, range};
    return ZT_OK;
}

/* Puts a list of `groups` real numbers in the place of a number or of a list, and adds them: a list of another length is
 * interpolated as a merge does. */
static json_t *spread_numbers(const json_t *value, int groups)
{
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    json_t *list = json_array();
    for (int i = 0; list && i < groups; i++) {
        double at = groups > 1 ? (double)i / (groups - 1) * (double)(count - 1) : 0;
        size_t low = (size_t)at, high = low + 1 < count ? low + 1 : low;
        const json_t *from = json_is_array(value) ? json_array_get(value, low) : value;
        const json_t *to = json_is_array(value) ? json_array_get(value, high) : value;
        double number = json_number_value(from) + (at - (double)low) * (json_number_value(to) - json_number_value(from));
        if (json_array_append_new(list, json_real(number))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool is_number_list(const json_t *value)
{
    bool good = json_array_size(value) > 0;
    for (size_t i = 0; i < json_array_size(value) && good; i++) good = json_is_number(json_array_get(value, i));
    return good;
}

static zt_status add_parameter(zt_recipe_genome *genome, json_t *map, const char *key, const zt_gene_range *range);

/* A list of conditions {filter, value}, or one. */
static zt_status add_conditions(zt_recipe_genome *genome, json_t *value, const zt_gene_range *range)
{
    zt_status status = ZT_OK;
    if (json_is_object(value)) return add_parameter(genome, value, "value", range);
    for (size_t i = 0; i < json_array_size(value) && status == ZT_OK; i++)
        if (json_is_object(json_array_get(value, i))) status = add_parameter(genome, json_array_get(value, i), "value", range);
    return status;
}

static zt_status add_parameter(zt_recipe_genome *genome, json_t *map, const char *key, const zt_gene_range *range)
{
    json_t *value = json_object_get(map, key);
    bool list = is_number_list(value);
    if (!json_is_number(value) && !list) return add_conditions(genome, value, range);
    int count = genome->groups > 1 ? genome->groups : list ? (int)json_array_size(value) : 1;
    json_t *numbers = count <= GENES ? spread_numbers(value, count) : NULL;
    if (!numbers) return zt_fail(genome->ctx, count > GENES ? ZT_EDATA : ZT_ENOMEM, "the recipe has too many numbers");
    bool scalar = genome->groups <= 1 && !list;
    json_t *placed = scalar ? json_incref(json_array_get(numbers, 0)) : json_incref(numbers);
    zt_status status = json_object_set_new(map, key, placed) ? ZT_ENOMEM : ZT_OK;
    for (int i = 0; i < count && status == ZT_OK; i++) status = add_gene(genome, json_array_get(numbers, (size_t)i), range);
    json_decref(numbers);
    return status;
}

/* Adds the genes of `parameters`. */
static zt_status add_parameters(zt_recipe_genome *genome, json_t *map)
{
    zt_status status = ZT_OK;
    const char *key;
    void *next;
    json_t *value;
    json_object_foreach_safe(map, next, key, value)
    {
        for (int i = 0; i < genome->range_count && status == ZT_OK; i++)
            if (!strcmp(genome->ranges[i].name, key)) status = add_parameter(genome, map, key, &genome->ranges[i]);
    }
    return status;
}

static zt_status add_genes(zt_recipe_genome *genome, json_t *value)
{
    const char *key;
    json_t *item;
    zt_status status = ZT_OK;
    for (size_t i = 0; i < json_array_size(value) && status == ZT_OK; i++) status = add_genes(genome, json_array_get(value, i));
    json_object_foreach(value, key, item)
    {
        if (status != ZT_OK) break;
        status = !strcmp(key, "parameters") ? add_parameters(genome, item) : add_genes(genome, item);
    }
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status check_ranges(zt_ctx *ctx, const zt_gene_range *ranges, int count, int groups)
{
    if (groups < 1 || groups > GROUPS) return zt_fail(ctx, ZT_EUSAGE, "%d groups of layers: must be 1 to %d", groups, GROUPS);
    for (int i = 0; i < count; i++)
        if (!(isfinite(ranges[i].low) && isfinite(ranges[i].high) && ranges[i].low < ranges[i].high))
            return zt_fail(ctx, ZT_EUSAGE, "%s: the range %g..%g is empty", ranges[i].name, ranges[i].low, ranges[i].high);
    return ZT_OK;
}

/* The document as JSON, if it is a recipe that a merge reads. */
static json_t *read_document(zt_ctx *ctx, const char *name, const char *text, size_t size)
{
    zt_recipe *recipe = zt_recipe_parse(ctx, name, text, size);
    zt_arena *arena = recipe ? zt_arena_new(ctx, 0) : NULL;
    const zt_tree *tree = arena ? zt_tree_parse(ctx, arena, name, text, size) : NULL;
    json_t *root = tree ? convert_tree(tree) : NULL;
    if (tree && !root) zt_fail(ctx, ZT_EDATA, "%s: a text is not UTF-8", name);
    zt_arena_free(arena);
    zt_recipe_free(recipe);
    return root;
}

zt_recipe_genome *zt_recipe_genome_of(zt_ctx *ctx, const char *name, const char *text, size_t size, const zt_gene_range *ranges,
                                      int range_count, int groups)
{
    ZT_REQUIRE(ctx, name && text && ranges && range_count >= 0, NULL);
    if (check_ranges(ctx, ranges, range_count, groups) != ZT_OK) return NULL;
    const char *slash = strrchr(name, '/');
    zt_recipe_genome *genome = zt_calloc(ctx, 1, sizeof *genome);
    if (!genome) return NULL;
    *genome = (zt_recipe_genome){.ctx = ctx, .ranges = ranges, .range_count = range_count, .groups = groups};
    genome->root = read_document(ctx, name, text, size);
    zt_status status = genome->root ? ZT_OK : zt_ctx_status(ctx);
    if (!status && !find_models(ctx, name, slash ? (size_t)(slash - name) + 1 : 0, genome->root)) status = ZT_ENOMEM;
    if (!status) status = add_genes(genome, genome->root);
    if (!status && genome->count == 0) status = zt_fail(ctx, ZT_EDATA, "%s: the recipe has no numbers that evolve", name);
    for (int i = 0; i < genome->count && !status; i++) status = zt_recipe_genome_set(genome, i, zt_recipe_genome_get(genome, i));
    if (!status) return genome;
    zt_recipe_genome_free(genome);
    return NULL;
}

void zt_recipe_genome_free(zt_recipe_genome *genome)
{
    if (!genome) return;
    json_decref(genome->root);
    zt_free(genome->ctx, genome);
}

bool zt_recipe_sniff(const char *text, size_t size)
{
    static const char key[] = "merge_method";
    for (size_t i = 0; text && i + sizeof key - 1 <= size; i++)
        if (!memcmp(text + i, key, sizeof key - 1)) return true;
    return false;
}

/* ---- the genome ------------------------------------------------------------------------------ */

int zt_recipe_genome_count(const zt_recipe_genome *genome) { return genome ? genome->count : 0; }

static bool has_gene(const zt_recipe_genome *genome, int index) { return genome && index >= 0 && index < genome->count; }

double zt_recipe_genome_get(const zt_recipe_genome *genome, int index)
{
    return has_gene(genome, index) ? json_real_value(genome->genes[index].value) : 0;
}

const zt_gene_range *zt_recipe_genome_range(const zt_recipe_genome *genome, int index)
{
    return has_gene(genome, index) ? genome->genes[index].range : NULL;
}

zt_status zt_recipe_genome_set(zt_recipe_genome *genome, int index, double value)
{
    if (!genome) return ZT_EUSAGE;
    ZT_REQUIRE(genome->ctx, has_gene(genome, index) && isfinite(value), ZT_EUSAGE);
    const zt_gene_range *range = genome->genes[index].range;
    double rounded = round(value * 1e6) / 1e6;
    if (rounded < range->low) rounded = range->low;
    if (rounded > range->high) rounded = range->high;
    json_real_set(genome->genes[index].value, rounded);
    return ZT_OK;
}

double zt_recipe_genome_overlap(const zt_recipe_genome *a, const zt_recipe_genome *b)
{
    double sum = 0;
    if (!a || !b || a->count != b->count) return 0;
    for (int i = 0; i < a->count; i++) {
        const zt_gene_range *range = a->genes[i].range;
        sum += fabs(zt_recipe_genome_get(a, i) - zt_recipe_genome_get(b, i)) / (range->high - range->low);
    }
    return 1 - sum / a->count;
}

static void put_value(const json_t *value, zt_str *out)
{
    const char *key, *text = json_string_value(value);
    size_t i;
    json_t *item;
    bool first = true;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        zt_str_putc(out, '{');
        json_object_foreach((json_t *)value, key, item)
        {
            if (!first) zt_str_putc(out, ',');
            first = false;
            zt_str_put_json(out, key, strlen(key));
            zt_str_putc(out, ':');
            put_value(item, out);
        }
        zt_str_putc(out, '}');
        break;
    case JSON_ARRAY:
        zt_str_putc(out, '[');
        json_array_foreach(value, i, item)
        {
            if (i) zt_str_putc(out, ',');
            put_value(item, out);
        }
        zt_str_putc(out, ']');
        break;
    case JSON_STRING: zt_str_put_json(out, text, strlen(text)); break;
    case JSON_INTEGER: zt_str_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value)); break;
    case JSON_REAL: zt_str_put_double(out, json_real_value(value)); break;
    case JSON_TRUE: zt_str_puts(out, "true"); break;
    case JSON_FALSE: zt_str_puts(out, "false"); break;
    case JSON_NULL: zt_str_puts(out, "null"); break;
    }
}

zt_status zt_recipe_genome_put(const zt_recipe_genome *genome, zt_str *out)
{
    if (!genome) return ZT_EUSAGE;
    ZT_REQUIRE(genome->ctx, out, ZT_EUSAGE);
    put_value(genome->root, out);
    return zt_str_putc(out, '\n');
}
