/* chat_template.c - a model's own chat template: its text and its variants among the keys of the file,
 * and the special tokens that it may name. */
#include "lib/base/require.h"
#include "lib/llm/llm.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define KEY "tokenizer.chat_template"

bool zt_chat_template(const zt_gguf *gguf, const char *variant, zt_bytes *text)
{
    if (!gguf || !text) return false;
    char key[160];
    if (!variant) return zt_gguf_str(gguf, KEY, text);
    int length = snprintf(key, sizeof key, KEY ".%s", variant);
    return length > 0 && (size_t)length < sizeof key && zt_gguf_str(gguf, key, text);
}

bool zt_chat_template_variant(const zt_gguf *gguf, int index, zt_bytes *name)
{
    static const char prefix[] = KEY ".";
    if (!gguf || !name) return false;
    for (int64_t i = 0; index >= 0 && i < zt_gguf_n_keys(gguf); i++) {
        zt_gguf_kind kind;
        zt_bytes key = zt_gguf_key(gguf, i, &kind);
        if (kind != ZT_GGUF_STR || key.n < sizeof prefix || memcmp(key.data, prefix, sizeof prefix - 1) != 0) continue;
        *name = (zt_bytes){key.data + sizeof prefix - 1, key.n - (sizeof prefix - 1)};
        if (index-- == 0) return true;
    }
    return false;
}

zt_status zt_chat_template_variants(const zt_gguf *gguf, zt_str *names)
{
    if (!gguf) return ZT_EUSAGE;
    zt_status status = ZT_OK;
    zt_bytes name;
    for (int i = 0; status == ZT_OK && zt_chat_template_variant(gguf, i, &name); i++) {
        if (i) status = zt_str_puts(names, ", ");
        if (status == ZT_OK) status = zt_str_put_escaped(names, name.data, name.n);
    }
    return status;
}

/* False: no memory. */
static bool put_token(json_t *tokens, const char *name, zt_ctx *ctx, const zt_vocab *vocab, int64_t id)
{
    zt_str text;
    bool put = true;
    if (id < 0 || id >= zt_vocab_size(vocab)) return true;
    zt_str_init(&text, ctx);
    if (zt_vocab_decode(vocab, (int32_t)id, true, false, &text) == ZT_OK && text.len)
        put = json_object_set_new(tokens, name, json_stringn_nocheck(text.data, text.len)) == 0;
    zt_str_fini(&text);
    return put;
}

struct json_t *zt_chat_template_tokens(const zt_gguf *gguf, const zt_vocab *vocab)
{
    if (!gguf) return NULL;
    ZT_REQUIRE(zt_gguf_ctx(gguf), vocab, NULL);
    static const char *const others[][2] = {{"unk_token", "tokenizer.ggml.unknown_token_id"},
                                            {"pad_token", "tokenizer.ggml.padding_token_id"},
                                            {"sep_token", "tokenizer.ggml.seperator_token_id"}, /* so is it spelled in GGUF */
                                            {"cls_token", "tokenizer.ggml.cls_token_id"},
                                            {"mask_token", "tokenizer.ggml.mask_token_id"}};
    json_t *tokens = json_object();
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    int64_t id;
    bool good = tokens && put_token(tokens, "bos_token", ctx, vocab, zt_vocab_bos(vocab)) &&
                put_token(tokens, "eos_token", ctx, vocab, zt_vocab_eos(vocab));
    for (size_t i = 0; good && i < sizeof others / sizeof *others; i++)
        if (zt_gguf_i64(gguf, others[i][1], &id)) good = put_token(tokens, others[i][0], ctx, vocab, id);
    if (good) return tokens;
    json_decref(tokens);
    return NULL;
}
