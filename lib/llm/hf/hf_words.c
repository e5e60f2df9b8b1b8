/* hf_words.c - owns the tokens of a vocabulary on their way into GGUF's keys: texts, types, scores.
 *
 * Which texts look special: does_token_look_special of llama.cpp's conversion/base.py, as facts. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UNDERLINE "\xe2\x96\x81" /* U+2581, SentencePiece's space */
#define BAR       "\xef\xbd\x9c" /* U+FF5C, DeepSeek's bar */

static zt_status pad(hf_words *w, int64_t id)
{
    char text[40];
    int n = snprintf(text, sizeof text, "[PAD%" PRId64 "]", id);
    return zt_hf_words_set(w, id, (zt_bytes){text, (size_t)n}, HF_WORD_UNUSED, -10000);
}

zt_status zt_hf_words_init(hf_words *w, hf *m, int64_t n)
{
    zt_ctx *ctx = m->ctx;
    *w = (hf_words){.m = m, .n = n, .texts = zt_arena_new(ctx, 0)};
    w->text = zt_alloc_array(ctx, (size_t)n, sizeof *w->text);
    w->type = zt_alloc_array(ctx, (size_t)n, sizeof *w->type);
    w->score = zt_alloc_array(ctx, (size_t)n, sizeof *w->score);
    zt_status s = w->texts && w->text && w->type && w->score ? ZT_OK : ZT_ENOMEM;
    for (int64_t i = 0; s == ZT_OK && i < n; i++)
        s = pad(w, i);
    return s;
}

void zt_hf_words_fini(hf_words *w)
{
    zt_ctx *ctx = w->m->ctx;
    zt_free(ctx, w->text);
    zt_free(ctx, w->type);
    zt_free(ctx, w->score);
    zt_arena_free(w->texts);
}

zt_status zt_hf_words_set(hf_words *w, int64_t id, zt_bytes text, hf_word type, float score)
{
    if (id < 0 || id >= w->n)
        return ZT_OK;
    char *copy = zt_arena_strndup(w->texts, text.data, text.n);
    if (!copy)
        return ZT_ENOMEM;
    w->text[id] = (zt_bytes){copy, text.n};
    w->type[id] = (int32_t)type;
    w->score[id] = score;
    return ZT_OK;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

static bool between(zt_bytes t, const char *first, const char *last)
{
    size_t a = strlen(first), b = strlen(last);
    return t.n >= a && t.n >= b && memcmp(t.data, first, a) == 0 &&
           memcmp(t.data + t.n - b, last, b) == 0;
}

bool zt_hf_looks_special(zt_bytes t)
{
    static const char *const words[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == t.n && memcmp(words[i], t.data, t.n) == 0)
            return true;
    return between(t, "<|", "|>") || between(t, "<" BAR, BAR ">") || between(t, "<unused", ">");
}

zt_status zt_hf_words_add(hf_words *w, int64_t id, zt_bytes text, bool special, float score)
{
    zt_str plain;
    if (special || zt_hf_looks_special(text))
        return zt_hf_words_set(w, id, text, HF_WORD_CONTROL, score);
    zt_str_init(&plain, w->m->ctx);
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < text.n;) {
        bool space = text.n - i >= 3 && memcmp(text.data + i, UNDERLINE, 3) == 0;
        s = zt_str_putc(&plain, space ? ' ' : text.data[i]);
        i += space ? 3 : 1;
    }
    if (s == ZT_OK)
        s = zt_hf_words_set(w, id, (zt_bytes){plain.data ? plain.data : "", plain.len},
                            HF_WORD_USER, score);
    zt_str_fini(&plain);
    return s;
}

/* ---- keys ------------------------------------------------------------------------------------ */

zt_status zt_hf_words_put(hf_words *w, const char *model, const char *pre, bool scores)
{
    zt_gguf_writer *g = w->m->w;
    zt_gguf_put_str(g, "tokenizer.ggml.model", model, strlen(model));
    zt_gguf_put_str(g, "tokenizer.ggml.pre", pre, strlen(pre));
    zt_gguf_put_strs(g, "tokenizer.ggml.tokens", w->text, w->n);
    if (scores)
        zt_gguf_put_array(g, "tokenizer.ggml.scores", ZT_GGUF_F32, w->score, w->n);
    return zt_gguf_put_array(g, "tokenizer.ggml.token_type", ZT_GGUF_I32, w->type, w->n);
}
