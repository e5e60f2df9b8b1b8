/* hf_tokens.c - owns the tokens of a vocabulary on their way into GGUF's keys: texts, types, scores.
 *
 * Which texts look special: does_token_look_special of llama.cpp's conversion/base.py, as facts. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UNDERLINE "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define BAR       "\xef\xbd\x9c" /* U+FF5C, DeepSeek's bar */

static zt_status pad_token(hf_tokens *tokens, int64_t id)
{
    char text[40];
    int length = snprintf(text, sizeof text, "[PAD%" PRId64 "]", id);
    return zt_hf_tokens_set(tokens, id, (zt_bytes){text, (size_t)length}, HF_TOKEN_UNUSED, -10000);
}

zt_status zt_hf_tokens_init(hf_tokens *tokens, hf_import *import, int64_t count)
{
    zt_ctx *ctx = import->ctx;
    *tokens = (hf_tokens){.import = import, .count = count, .texts = zt_arena_new(ctx, 0)};
    tokens->text = zt_alloc_array(ctx, (size_t)count, sizeof *tokens->text);
    tokens->type = zt_alloc_array(ctx, (size_t)count, sizeof *tokens->type);
    tokens->score = zt_alloc_array(ctx, (size_t)count, sizeof *tokens->score);
    zt_status status = tokens->texts && tokens->text && tokens->type && tokens->score ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; status == ZT_OK && i < count; i++)
        status = pad_token(tokens, i);
    return status;
}

void zt_hf_tokens_fini(hf_tokens *tokens)
{
    zt_ctx *ctx = tokens->import->ctx;
    zt_free(ctx, tokens->text);
    zt_free(ctx, tokens->type);
    zt_free(ctx, tokens->score);
    zt_arena_free(tokens->texts);
}

zt_status zt_hf_tokens_set(hf_tokens *tokens, int64_t id, zt_bytes text, hf_token_type type, float score)
{
    if (id < 0 || id >= tokens->count)
        return ZT_OK;
    char *copy = zt_arena_strndup(tokens->texts, text.data, text.n);
    if (!copy)
        return ZT_ENOMEM;
    tokens->text[id] = (zt_bytes){copy, text.n};
    tokens->type[id] = (int32_t)type;
    tokens->score[id] = score;
    return ZT_OK;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static bool is_enclosed(zt_bytes text, const char *first, const char *last)
{
    size_t first_length = strlen(first), last_length = strlen(last);
    return text.n >= first_length && text.n >= last_length && memcmp(text.data, first, first_length) == 0 &&
           memcmp(text.data + text.n - last_length, last, last_length) == 0;
}

bool zt_hf_looks_special(zt_bytes text)
{
    static const char *const words[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == text.n && memcmp(words[i], text.data, text.n) == 0)
            return true;
    return is_enclosed(text, "<|", "|>") || is_enclosed(text, "<" BAR, BAR ">") || is_enclosed(text, "<unused", ">");
}

zt_status zt_hf_tokens_add(hf_tokens *tokens, int64_t id, zt_bytes text, bool special, float score)
{
    zt_str plain;
    if (special || zt_hf_looks_special(text))
        return zt_hf_tokens_set(tokens, id, text, HF_TOKEN_CONTROL, score);
    zt_str_init(&plain, tokens->import->ctx);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < text.n;) {
        bool space = text.n - i >= 3 && memcmp(text.data + i, UNDERLINE, 3) == 0;
        status = zt_str_putc(&plain, space ? ' ' : text.data[i]);
        i += space ? 3 : 1;
    }
    if (status == ZT_OK)
        status = zt_hf_tokens_set(tokens, id, (zt_bytes){plain.data ? plain.data : "", plain.len}, HF_TOKEN_USER, score);
    zt_str_fini(&plain);
    return status;
}

/* ---- keys ------------------------------------------------------------------------------------ */

zt_status zt_hf_tokens_put(hf_tokens *tokens, const char *model, const char *pre, bool scores)
{
    zt_gguf_writer *writer = tokens->import->writer;
    zt_gguf_put_str(writer, "tokenizer.ggml.model", model, strlen(model));
    zt_gguf_put_str(writer, "tokenizer.ggml.pre", pre, strlen(pre));
    zt_gguf_put_strs(writer, "tokenizer.ggml.tokens", tokens->text, tokens->count);
    if (scores)
        zt_gguf_put_array(writer, "tokenizer.ggml.scores", ZT_GGUF_F32, tokens->score, tokens->count);
    return zt_gguf_put_array(writer, "tokenizer.ggml.token_type", ZT_GGUF_I32, tokens->type, tokens->count);
}
