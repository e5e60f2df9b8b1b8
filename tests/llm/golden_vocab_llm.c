/* golden_vocab_llm.c - the vocabularies of two real models against golden/llm: ids, the text again,
 * and which tokens end an answer. */
#include "lib/llm/llm.h"
#include "tests/common/golden.h"
#include "tests/common/real_model.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <string.h>

/* "12 7 300" for messages and comparison. */
static const char *ids_text(const zt_ids *ids, char *buf, size_t n)
{
    size_t at = 0;
    buf[0] = 0;
    for (size_t i = 0; i < ids->count && at + 16 < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%d", i ? " " : "", ids->id[i]);
    return buf;
}

static bool same_ids(const json_t *want, const zt_ids *ids)
{
    if (json_array_size(want) != ids->count) return false;
    for (size_t i = 0; i < ids->count; i++)
        if (json_integer_value(json_array_get(want, i)) != ids->id[i]) return false;
    return true;
}

/* llama_detokenize(remove_special, unparse_special): without the BOS that the model's rule puts,
 * control tokens as text. */
static bool same_text(const zt_vocab *vocab, zt_ctx *ctx, const zt_ids *ids, const char *hex)
{
    zt_str text;
    zt_ids rule = {0};
    zt_str_init(&text, ctx);
    bool good = !zt_vocab_encode(vocab, "", 0, ZT_TOK_BOS_RULE, &rule);
    size_t from = rule.count && ids->count && ids->id[0] == rule.id[0];
    zt_ids_fini(ctx, &rule);
    for (size_t i = from; i < ids->count; i++) good = good && !zt_vocab_decode(vocab, ids->id[i], true, i == 0, &text);
    good = good && strlen(hex) == 2 * text.len;
    for (size_t i = 0; good && i < text.len; i++) {
        unsigned byte;
        good = sscanf(hex + 2 * i, "%2x", &byte) == 1 && byte == (unsigned char)text.data[i];
    }
    zt_str_fini(&text);
    return good;
}

static bool golden_case(const zt_vocab *vocab, zt_ctx *ctx, const json_t *item)
{
    const json_t *text = json_object_get(item, "text");
    const json_t *want = json_object_get(item, "ids"), *hex = json_object_get(item, "detok_hex");
    unsigned flags = 0;
    zt_ids ids = {0};
    char buf[2000];
    if (!text) text = json_object_get(item, "prompt");
    if (!want) want = json_object_get(item, "prompt_ids");
    if (json_is_true(json_object_get(item, "add_special"))) flags |= ZT_TOK_BOS_RULE;
    if (json_is_true(json_object_get(item, "parse_special"))) flags |= ZT_TOK_SPECIAL;
    bool good = !zt_vocab_encode(vocab, json_string_value(text), json_string_length(text), flags, &ids) && same_ids(want, &ids);
    if (!good) diag("'%s' flags %u: got %s", json_string_value(text), flags, ids_text(&ids, buf, sizeof buf));
    if (good && hex && !same_text(vocab, ctx, &ids, json_string_value(hex))) {
        diag("'%s' comes back otherwise", json_string_value(text));
        good = false;
    }
    zt_ids_fini(ctx, &ids);
    return good;
}

/* The greedy text of a prompt stopped early exactly where its last token ends a generation. */
static bool golden_end(const zt_vocab *vocab, const json_t *item)
{
    const json_t *greedy = json_object_get(item, "greedy");
    const json_t *stopped = json_object_get(greedy, "stopped_on_eog");
    const json_t *ids = json_object_get(greedy, "gen_ids");
    size_t size = json_array_size(ids);
    for (size_t i = 0; i < size; i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        if (zt_vocab_is_eog(vocab, id) != (i + 1 == size && json_is_true(stopped))) return false;
    }
    return size > 0;
}

static void golden_file(const zt_vocab *vocab, zt_ctx *ctx, const char *path)
{
    json_error_t error;
    json_t *top = json_load_file(path, JSON_ALLOW_NUL, &error);
    json_t *cases = json_is_array(top) ? top : json_object_get(top, "cases");
    json_t *item;
    size_t i, bad = 0, ends = 0;
    if (!cases) cases = json_object_get(top, "prompts");
    if (!top) diag("%s: %s", path, error.text);
    json_array_foreach(cases, i, item)
    {
        bad += !golden_case(vocab, ctx, item);
        ends += json_object_get(item, "greedy") && !golden_end(vocab, item);
    }
    ok(json_array_size(cases) > 0 && !bad && !ends, "%zu golden cases of %s", json_array_size(cases), path);
    json_decref(top);
}

static void golden_model(const char *model, const char *const *path)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_gguf *gguf = zt_gguf_open(ctx, model);
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    if (!ok(vocab != NULL, "%s opens", model)) diag("%s", zt_ctx_error(ctx));
    for (; vocab && *path; path++) golden_file(vocab, ctx, *path);
    zt_vocab_free(vocab);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
}

int main(void)
{
    const char *golden = golden_folder();
    if (!golden) skip("no golden data");
    for (int i = 0; golden && i < REAL_MODELS; i++) {
        char file[2][600];
        const char *there[3] = {0}, *model;
        int count = 0;
        snprintf(file[0], sizeof file[0], "%s/llm/%s/tokenizer.json", golden, real_model[i].name);
        snprintf(file[1], sizeof file[1], "%s/llm/%s/prompts.json", golden, real_model[i].name);
        for (int k = 0; k < 2; k++)
            if (golden_has(file[k])) there[count++] = file[k];
        if (count && (model = real_path(i))) golden_model(model, there);
    }
    return tap_done();
}
