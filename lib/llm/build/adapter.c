/* adapter.c - products to which an adapter that is trained adds low-rank ones: y + scale (x A^T) B^T. */
#include "lib/llm/build/internal.h"
#include "lib/llm/learn.h"

#include <stdio.h>
#include <string.h>

static const zt_llm_target *find_target(const zt_llm_targets *targets, const char *tensor)
{
    for (int i = 0; i < zt_llm_targets_count(targets); i++)
        if (!strcmp(zt_llm_target_at(targets, i)->tensor, tensor)) return zt_llm_target_at(targets, i);
    return NULL;
}

typedef struct value_name {
    char text[ZT_LLM_TARGET_NAME];
} value_name;

static value_name name_of(const zt_llm_target *target, const char *what)
{
    value_name name;
    snprintf(name.text, sizeof name.text, "%.*s.lora_%s", (int)(strlen(target->tensor) - strlen(".weight")), target->tensor,
             what);
    return name;
}

/* A or B of a target ("a", "b") as data of its own. */
static int adapter_data(zt_program_builder *builder, const zt_llm_target *target, const char *which, int64_t rows,
                        int64_t columns)
{
    char tensor[ZT_LLM_TARGET_NAME];
    snprintf(tensor, sizeof tensor, "%s.lora_%s", target->tensor, which);
    return zt_prog_data(builder->program, name_of(target, which).text, ZT_F32, 2, (int64_t[]){rows, columns}, tensor);
}

/* y plus what the adapter adds to the product of x by the weight. */
static int add_change(zt_program_builder *builder, int x, int weight, int y)
{
    const zt_llm_adapter *adapter = builder->opts->adapter;
    const zt_value *value = zt_prog_value(builder->program, weight);
    const zt_llm_target *target = value->kind == ZT_VALUE_DATA ? find_target(adapter->targets, value->tensor) : NULL;
    if (!target) return y;
    zt_linear_attrs attrs = zt_linear_defaults();
    int down = adapter_data(builder, target, "a", adapter->rank, target->columns);
    int up = adapter_data(builder, target, "b", target->rows, adapter->rank);
    zt_prog *program = builder->program;
    int low = zt_program_linear(program, name_of(target, "low").text, x, down, ZT_NONE, &attrs);
    int change = zt_program_linear(program, name_of(target, "change").text, low, up, ZT_NONE, &attrs);
    change = zt_program_scale(program, name_of(target, "scaled").text, change, &(zt_scale_attrs){.by = adapter->scale});
    return zt_program_add(program, name_of(target, "sum").text, y, change);
}

int zt_emit_frozen(zt_program_builder *builder, const char *what, int x, int weight, int bias)
{
    char product[ZT_WEIGHT_NAME];
    if (weight < 0) return -1;
    snprintf(product, sizeof product, bias < 0 ? "%s" : "%s_product", what);
    int y = zt_program_matmul_weight(builder->program, product, x, weight, &(zt_matmul_weight_attrs){1});
    if (bias >= 0) y = zt_program_add(builder->program, what, y, bias);
    return y < 0 ? y : add_change(builder, x, weight, y);
}
