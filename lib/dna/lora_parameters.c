/* lora_parameters.c - adapters for parameters that hold the matrices of all experts (PEFT's target_parameters): which parameter the
 * matrices A and B are for, where they belong in a model, and their values.
 *
 * Of a parameter P [E, d1, d2], A is [E r, .] with the rows of one expert after the other, and B [., r E] with the column k E + e for
 * rank k of expert e:
 *
 *     P[e] += scale B_e A_e          d1 = rows of B, d2 = columns of A
 *
 * or its transpose where the module keeps [E, in, out] and says so (gpt-oss). A module with several such parameters is wrapped once
 * for each, the first one innermost: the tensors of all but the last are named MODULE.base_layer.lora_A, .base_layer.base_layer and
 * so on. Facts: PEFT 0.21.2 (tuners/lora/layer.py, ParamWrapper; tuners/tuners_utils.py, _inject_parameters).
 */
#include "lib/dna/lora_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In the order in which modules of experts define them; the first halves of rows of gate_up_proj are the gate's. */
static const char *const parameters[] = {"gate_up_proj", "gate_proj", "up_proj", "down_proj"};
enum { PARAMETERS = sizeof parameters / sizeof *parameters, MOST_EXPERTS = 1 << 16 };

/* ---- names ----------------------------------------------------------------------------------- */

zt_status zt_lora_parameters_read(zt_ctx *ctx, lora_config *config)
{
    const json_t *list = json_object_get(config->json, "target_parameters");
    size_t i;
    json_t *value;
    if (!list || json_is_null(list)) return ZT_OK;
    if (!json_is_array(list)) return zt_fail(ctx, ZT_EDATA, "%s: 'target_parameters' is not a list", config->file);
    json_array_foreach(list, i, value)
    {
        const char *name = json_string_value(value), *point = name ? strrchr(name, '.') : NULL;
        char shown[160];
        bool known = false;
        if (!name) return zt_fail(ctx, ZT_EDATA, "%s: 'target_parameters': a name is not a string", config->file);
        for (int k = 0; k < PARAMETERS; k++) known = known || strcmp(point ? point + 1 : name, parameters[k]) == 0;
        if (!known)
            return zt_fail(ctx, ZT_ENOTSUP,
                           "%s: target_parameters: '%s' is not supported: expected gate_up_proj, gate_proj, up_proj or down_proj "
                           "of experts",
                           config->file, zt_escape(shown, sizeof shown, name, strlen(name)));
    }
    config->parameters = json_array_size(list) ? list : NULL;
    return ZT_OK;
}

/* Is PARAMETER of the module, [module, end), among target_parameters: is it one of these names, or does it end in a point and
 * one? */
static bool is_target(const lora_config *config, const char *module, size_t length, const char *parameter)
{
    size_t i, tail = strlen(parameter);
    json_t *value;
    json_array_foreach(config->parameters, i, value)
    {
        const char *name = json_string_value(value);
        size_t size = strlen(name);
        if (size < tail || strcmp(name + size - tail, parameter) != 0 || (size > tail && name[size - tail - 1] != '.')) continue;
        if (size == tail) return true; /* the parameter's name alone */
        size_t front = size - tail - 1;
        if (front <= length && memcmp(module + length - front, name, front) == 0 &&
            (front == length || module[length - front - 1] == '.'))
            return true;
    }
    return false;
}

/* The module without ".base_layer" at its end, and how many there were. */
static size_t unwrapped_length(const char *module, size_t length, int *depth)
{
    static const char layer[] = ".base_layer";
    const size_t size = sizeof layer - 1;
    for (*depth = 0; length > size && memcmp(module + length - size, layer, size) == 0; length -= size) ++*depth;
    return length;
}

bool zt_lora_parameter_name(const lora_config *config, const char *module, size_t length, size_t *module_length,
                            const char **parameter)
{
    const char *found[PARAMETERS];
    int count = 0, depth;
    if (!config->parameters) return false;
    *module_length = unwrapped_length(module, length, &depth);
    if (*module_length < 7 || memcmp(module + *module_length - 7, "experts", 7) != 0) return false;
    for (int k = 0; k < PARAMETERS; k++)
        if (is_target(config, module, *module_length, parameters[k])) found[count++] = parameters[k];
    if (depth >= count) return false;
    *parameter = found[count - 1 - depth];
    return true;
}

zt_status zt_lora_parameter_pair(const zt_lora *adapter, lora_part *part, const zt_type *a, const zt_type *b, const char *shown)
{
    int64_t rank;
    zt_status status = zt_lora_config_rank(adapter->ctx, &adapter->config, part->name, &rank);
    if (status != ZT_OK) return status;
    bool fits = a->rank == 2 && b->rank == 2 && rank >= 1 && a->dim[0] == b->dim[1] && a->dim[0] >= rank &&
                a->dim[0] % rank == 0 && a->dim[0] / rank <= MOST_EXPERTS;
    if (!fits)
        return zt_fail(adapter->ctx, ZT_EDATA, "%s: A and B of '%s' are not matrices of rank %" PRId64 " for as many experts",
                       zt_lora_name(adapter), shown, rank);
    part->rank = rank;
    part->experts = a->dim[0] / rank;
    return zt_lora_config_scale(adapter->ctx, &adapter->config, part->name, rank, &part->scale);
}

/* ---- placement ------------------------------------------------------------------------------- */

/* The parameter's name at the end of a part's. */
static const char *parameter_of(const lora_part *part) { return strrchr(part->name, '.') + 1; }

static bool is_fused(const lora_part *part) { return strcmp(parameter_of(part), "gate_up_proj") == 0; }

int64_t zt_lora_parameter_places(const lora_part *part) { return (is_fused(part) ? 2 : 1) * part->experts; }

typedef struct parameter_place {
    const zt_lora *adapter;
    zt_checkpoint *model;
    const lora_part *part;
    const char *arch; /* of a model with GGUF's names; NULL: names are the adapter's own */
    zt_type a, b;
    lora_placement *out;
    int64_t *count;
} parameter_place;

static zt_status refuse_shape(const parameter_place *place, const zt_type *found)
{
    char text[ZT_TYPE_TEXT], shown[160];
    return zt_fail(place->adapter->ctx, ZT_ESHAPE, "%s: A and B of '%s' do not fit %s in %s", zt_lora_name(place->adapter),
                   zt_escape(shown, sizeof shown, place->part->name, strlen(place->part->name)), zt_type_text(found, text),
                   zt_checkpoint_name(place->model));
}

/* A tensor whose matrices have the rows `half` (0, 1) of two halves, or (-1) all; `expert`: of which, -1: of all. */
static zt_status add_place(const parameter_place *place, int64_t tensor, int half, int64_t expert)
{
    const lora_part *part = place->part;
    zt_entry entry;
    zt_checkpoint_get(place->model, tensor, &entry);
    const zt_type *type = &entry.type;
    const int rank = expert < 0 ? 3 : 2;
    if (type->rank != rank || (rank == 3 && type->dim[0] != part->experts)) return refuse_shape(place, type);
    const int64_t rows = type->dim[rank - 2], columns = type->dim[rank - 1], all = half < 0 ? rows : 2 * rows;
    bool straight = place->b.dim[0] == all && place->a.dim[1] == columns;
    bool turned = place->b.dim[0] == columns && place->a.dim[1] == all;
    bool llama4 = place->arch && strcmp(place->arch, "llama4") == 0, gpt_oss = place->arch && strcmp(place->arch, "gpt-oss") == 0;
    if (llama4 ? !turned : place->arch || expert >= 0 ? !straight : straight == turned) return refuse_shape(place, type);
    lora_placement placement = {.adapter = place->adapter, .part = part, .tensor = tensor, .expert = -1, .parameter = true};
    placement.parameter_turned = llama4 || (!place->arch && expert < 0 && turned);
    placement.parameter_expert = expert < 0 ? 0 : expert;
    placement.parameter_step = half >= 0 && gpt_oss ? 2 : 1;
    placement.parameter_first = half <= 0 ? 0 : gpt_oss ? 1 : rows;
    if (expert >= 0) { /* a matrix, not a stack */
        lora_part *single = zt_arena_alloc(place->adapter->arena, sizeof *single);
        if (!single) return ZT_ENOMEM;
        *single = *part;
        single->experts = 0;
        placement.part = single;
    }
    placement.parameter_experts = part->experts;
    place->out[(*place->count)++] = placement;
    return ZT_OK;
}

static zt_status fail_no_tensor(const parameter_place *place)
{
    char shown[160];
    return zt_fail(place->adapter->ctx, ZT_EDATA, "%s: the adapter changes parameter '%s', which %s does not have",
                   zt_lora_name(place->adapter), zt_escape(shown, sizeof shown, place->part->name, strlen(place->part->name)),
                   zt_checkpoint_name(place->model));
}

/* The layer's digits behind "layers."; NULL: the module is not a layer's experts. */
static const char *layer_digits(const char *name, size_t *count)
{
    const char *layers = strstr(name, "layers."), *experts = strstr(name, "experts.");
    if (!layers || !experts) return NULL;
    *count = strspn(layers + 7, "0123456789");
    return *count > 0 && *count <= 6 && layers[7 + *count] == '.' ? layers + 7 : NULL;
}

static zt_status place_in_gguf(const parameter_place *place)
{
    static const char *const halves[] = {"gate", "up"};
    const char *parameter = parameter_of(place->part);
    size_t digits;
    char name[64];
    const char *layer = layer_digits(place->part->name, &digits);
    if (!layer) return fail_no_tensor(place);
    snprintf(name, sizeof name, "blk.%.*s.ffn_%.*s_exps.weight", (int)digits, layer, (int)(strlen(parameter) - 5), parameter);
    int64_t whole = zt_checkpoint_find(place->model, name);
    if (whole >= 0) return add_place(place, whole, -1, -1);
    if (!is_fused(place->part)) return fail_no_tensor(place);
    zt_status status = ZT_OK;
    for (int half = 0; half < 2 && status == ZT_OK; half++) {
        snprintf(name, sizeof name, "blk.%.*s.ffn_%s_exps.weight", (int)digits, layer, halves[half]);
        int64_t tensor = zt_checkpoint_find(place->model, name);
        status = tensor >= 0 ? add_place(place, tensor, half, -1) : fail_no_tensor(place);
    }
    return status;
}

/* By its own name, or a matrix for each expert. */
static zt_status place_by_name(const parameter_place *place)
{
    static const char *const halves[] = {"gate_proj", "up_proj"};
    const char *parameter = parameter_of(place->part);
    const int length = (int)(parameter - place->part->name), count = is_fused(place->part) ? 2 : 1;
    int64_t whole = zt_lora_find_own(place->model, place->part->name);
    zt_str name;
    if (whole >= 0) return add_place(place, whole, -1, -1);
    zt_str_init(&name, place->adapter->ctx);
    zt_status status = ZT_OK;
    for (int64_t expert = 0; expert < place->part->experts && status == ZT_OK; expert++)
        for (int half = 0; half < count && status == ZT_OK; half++) {
            zt_str_clear(&name);
            status = zt_str_printf(&name, "%.*s%" PRId64 ".%s.weight", length, place->part->name, expert,
                                   count == 2 ? halves[half] : parameter);
            int64_t tensor = status == ZT_OK ? zt_lora_find_own(place->model, name.data) : -1;
            if (status == ZT_OK)
                status = tensor >= 0 ? add_place(place, tensor, count == 2 ? half : -1, expert) : fail_no_tensor(place);
        }
    zt_str_fini(&name);
    return status;
}

zt_status zt_lora_place_parameter(const zt_lora *adapter, zt_checkpoint *model, const char *arch, const lora_part *part,
                                  lora_placement *out, int64_t *count)
{
    parameter_place place = {.adapter = adapter, .model = model, .part = part, .arch = arch, .out = out, .count = count};
    zt_entry entry;
    *count = 0;
    zt_checkpoint_get(adapter->file, part->lora_a, &entry);
    place.a = entry.type;
    zt_checkpoint_get(adapter->file, part->lora_b, &entry);
    place.b = entry.type;
    return arch ? place_in_gguf(&place) : place_by_name(&place);
}

/* ---- values ---------------------------------------------------------------------------------- */

void zt_lora_parameter_values(const lora_placement *placement, const float *a, const float *b, int64_t a_columns, int64_t rows,
                              int64_t columns, float *left, float *right)
{
    const int64_t rank = placement->part->rank, all = placement->parameter_experts;
    const int64_t stack = placement->part->experts ? all : 1, width = rank * all;
    for (int64_t e = 0; e < stack; e++) {
        const int64_t expert = placement->parameter_expert + e;
        for (int64_t i = 0; i < rows; i++) {
            const int64_t from = placement->parameter_first + placement->parameter_step * i;
            for (int64_t k = 0; k < rank; k++)
                left[(e * rows + i) * rank + k] =
                    placement->parameter_turned ? a[(expert * rank + k) * a_columns + from] : b[from * width + k * all + expert];
        }
        for (int64_t k = 0; k < rank; k++)
            for (int64_t j = 0; j < columns; j++)
                right[(e * rank + k) * columns + j] =
                    placement->parameter_turned ? b[j * width + k * all + expert] : a[(expert * rank + k) * a_columns + j];
    }
}
