/* vocab_pre.c - the pre-tokenizers that files name: how each model family cuts text before BPE.
 *
 * A row: the name in tokenizer.ggml.pre, and the rules, in order. Source: the tokenizer.json files of
 * these models and llama.cpp's src/llama-vocab.cpp, as facts.
 */
#include "lib/llm/vocab.h"

#include <string.h>

#define GPT2                                                                                       \
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",         \
     ZT_SPLIT_ISOLATED, false}
#define DIGIT {"\\p{N}", ZT_SPLIT_ISOLATED, false}

static const zt_pre pre_table[] = {
    {.name = "default", .rule = {GPT2}},
    {.name = "gpt-2", .rule = {GPT2}},
    {.name = "gpt2", .rule = {GPT2}},
    {.name = "phi-2", .rule = {GPT2}},
    {.name = "mpt", .rule = {GPT2}},
    {.name = "olmo", .rule = {GPT2}},
    {.name = "smollm", .rule = {DIGIT, GPT2}},
    {.name = "starcoder", .rule = {DIGIT, GPT2}},
    {.name = "refact", .rule = {DIGIT, GPT2}},
    {.name = "codeshell", .rule = {DIGIT, GPT2}},
};

const zt_pre *zt_pre_find(zt_bytes name)
{
    for (size_t i = 0; i < sizeof pre_table / sizeof *pre_table; i++)
        if (strlen(pre_table[i].name) == name.n && !memcmp(pre_table[i].name, name.data, name.n))
            return &pre_table[i];
    return NULL;
}
