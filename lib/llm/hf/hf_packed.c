/* hf_packed.c - q, k and v that are one matrix in Hugging Face's files, by groups of heads: for each group the rows of its query
 * heads, of its key heads, of its values.
 *
 *     Baichuan      one group of all heads                  q q q q k k k k v v v v
 *     InternLM 2    a group for each key head               q q k v q q k v
 *
 * In GGUF each is a tensor of its own, and rows of the two halves of each head of q and k take turns. Facts: convert_hf_to_gguf.py
 * of llama.cpp (conversion/baichuan.py, internlm.py).
 */
#include "lib/llm/hf/hf.h"

#include <stdio.h>
#include <string.h>

hf_packed zt_hf_packed_layout(hf_id id, int64_t heads, int64_t key_heads, int64_t head)
{
    if (id == HF_INTERNLM2) return (hf_packed){key_heads, heads / key_heads, 1, head};
    return (hf_packed){1, heads, key_heads, head};
}

/* The row there of row `row` of q, k or v (part 0, 1, 2) in GGUF. */
static int64_t packed_row(const hf_packed *layout, int part, int64_t row)
{
    int64_t each = part ? layout->keys : layout->queries, head = row / layout->head, within = row % layout->head;
    int64_t before = part == 0 ? 0 : layout->queries + (part - 1) * layout->keys;
    int64_t place = head / each * (layout->queries + 2 * layout->keys) + before + head % each;
    if (part < 2) within = within % 2 * (layout->head / 2) + within / 2;
    return place * layout->head + within;
}

static zt_status read_layout(const hf_import *import, const hf_tensor *tensor, hf_packed *layout)
{
    double heads = 0, key_heads = 0;
    zt_status status = zt_hf_value(import, "attention.head_count", &heads);
    key_heads = heads;
    if (status == ZT_OK) status = zt_hf_value(import, "attention.head_count_kv", &key_heads);
    if (status != ZT_OK) return status;
    int64_t rows = tensor->type.rank == 2 ? tensor->type.dim[0] : 0, query_count = (int64_t)heads, key_count = (int64_t)key_heads;
    bool counted =
        query_count >= 1 && key_count >= 1 && query_count <= rows && key_count <= query_count && query_count % key_count == 0;
    if (counted && import->arch.id == HF_BAICHUAN) counted = key_count == query_count;
    int64_t head = counted ? rows / (query_count + 2 * key_count) : 0;
    if (head < 2 || head % 2 || head * (query_count + 2 * key_count) != rows || zt_dtype_get(tensor->from)->block != 1)
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' cannot be split into q of %g heads and k and v of %g heads each",
                       import->path, tensor->name, heads, key_heads);
    *layout = zt_hf_packed_layout(import->arch.id, query_count, key_count, head);
    return ZT_OK;
}

zt_status zt_hf_add_packed(hf_import *import, const hf_tensor *tensor)
{
    char name[ZT_HF_NAME];
    hf_packed layout = {1, 0, 0, 1};
    const char *which = strstr(tensor->name, ".attn_q.");
    if (!which) return zt_fail(import->ctx, ZT_EBUG, "tensor '%s' is not q", tensor->name);
    zt_status status = read_layout(import, tensor, &layout);
    for (int part = 0; status == ZT_OK && part < 3; part++) {
        hf_tensor third = *tensor;
        int64_t rows = layout.groups * (part ? layout.keys : layout.queries) * layout.head;
        int64_t *list = zt_arena_alloc(import->tensors->arena, (size_t)rows * sizeof *list);
        if (!list) return ZT_ENOMEM;
        for (int64_t row = 0; row < rows; row++) list[row] = packed_row(&layout, part, row);
        snprintf(name, sizeof name, "%.*s.attn_%c%s", (int)(which - tensor->name), tensor->name, "qkv"[part], which + 7);
        third.name = name;
        third.rows = list;
        third.type.dim[0] = rows;
        third.heads = 0;
        status = zt_hf_tensors_add(import->tensors, &third);
    }
    return status;
}
