/* hf_baichuan.c - Baichuan 1 and 2: 2 divides each row of its output matrix by its length.
 *
 * The rows of length 1 are a fact from NormHead of modeling_baichuan.py of Baichuan 2; llama.cpp's converter leaves them out. Which of the two a directory holds, config.json shows: 2 has 125696 tokens, and its
 * class has a z_loss_weight.
 */
#include "lib/llm/hf/hf.h"

enum { TOKENS_OF_2 = 125696 };

bool zt_hf_has_unit_head(const hf_import *import)
{
    if (!zt_hf_is(import, HF_SET(HF_BAICHUAN))) return false;
    return json_integer_value(zt_hf_get(import, "vocab_size")) == TOKENS_OF_2 || zt_hf_get(import, "z_loss_weight");
}

zt_status zt_hf_put_baichuan(hf_import *import) { return zt_hf_put_text(import, "tensor_data_layout", "Meta AI original pth"); }
