/* hf_baichuan.c - Baichuan 1 and 2: q, k and v are one matrix, and 2 divides each row of its output matrix by its length.
 *
 * Names: convert_hf_to_gguf.py of llama.cpp (conversion/baichuan.py); rows of length 1: NormHead of modeling_baichuan.py of Baichuan 2,
 * which that converter leaves out; both as facts. Which of the two a directory holds, config.json shows: 2 has 125696 tokens, and its
 * class has a z_loss_weight.
 */
#include "lib/llm/hf/hf.h"

#include <stdio.h>
#include <string.h>

enum { TOKENS_OF_2 = 125696 };

bool zt_hf_has_unit_head(const hf_import *import)
{
    if (!zt_hf_is(import, HF_SET(HF_BAICHUAN))) return false;
    return json_integer_value(zt_hf_get(import, "vocab_size")) == TOKENS_OF_2 || zt_hf_get(import, "z_loss_weight");
}

zt_status zt_hf_put_baichuan(hf_import *import) { return zt_hf_put_text(import, "tensor_data_layout", "Meta AI original pth"); }

/* The row of q, k or v (part 0, 1, 2) that is row `row` of GGUF's: of q and k rows of a head's two halves take turns. */
static int64_t place_of(int64_t part, int64_t rows, int64_t head, int64_t row)
{
    int64_t within = row % head;
    if (part < 2) row += within % 2 * (head / 2) + within / 2 - within;
    return part * rows + row;
}

zt_status zt_hf_add_thirds(hf_import *import, const hf_tensor *tensor)
{
    char name[ZT_HF_NAME];
    double heads = 0;
    const char *which = strstr(tensor->name, ".attn_q.");
    int64_t rows = tensor->type.rank == 2 ? tensor->type.dim[0] / 3 : 0;
    zt_status status = zt_hf_value(import, "attention.head_count", &heads);
    if (status != ZT_OK) return status;
    int64_t head = heads >= 1 ? rows / (int64_t)heads : 0;
    if (!which || head < 2 || head % 2 || head * (int64_t)heads * 3 != tensor->type.dim[0] ||
        zt_dtype_get(tensor->from)->block != 1)
        return zt_fail(import->ctx, ZT_EDATA, "%s: tensor '%s' cannot be split into q, k and v of %g heads each", import->path,
                       tensor->name, heads);
    for (int64_t part = 0; status == ZT_OK && part < 3; part++) {
        hf_tensor third = *tensor;
        int64_t *list = zt_arena_alloc(import->tensors->arena, (size_t)rows * sizeof *list);
        if (!list) return ZT_ENOMEM;
        for (int64_t row = 0; row < rows; row++) list[row] = place_of(part, rows, head, row);
        snprintf(name, sizeof name, "%.*s.attn_%c%s", (int)(which - tensor->name), tensor->name, "qkv"[part], which + 7);
        third.name = name;
        third.rows = list;
        third.type.dim[0] = rows;
        third.heads = 0;
        status = zt_hf_tensors_add(import->tensors, &third);
    }
    return status;
}
