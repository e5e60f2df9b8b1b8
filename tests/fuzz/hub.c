/* hub.c - a fuzz target for the files beside the weights of a Hugging Face directory. The input is texts with zero bytes between them:
 * config.json, tokenizer.json, tokenizer_config.json, generation_config.json, chat_template.jinja, README.md and vocab.txt, of which
 * later ones may be missing. They are refused with one line, or the model's header can be read, as a model's and as a vocabulary's,
 * which encodes.
 * `make fuzz` drives it by libFuzzer, tests/fuzz/main.c without. */
#include "lib/llm/llm.h"

#include "tests/fuzz/pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const names[] = {
    "config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
    "README.md",   "vocab.txt"};

enum { NAMES = sizeof names / sizeof *names };

/* A safetensors file of one tensor, which models of either family have. */
static const char decoder[] =
    "\x48\0\0\0\0\0\0\0{\"model.norm.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \0\0\0";
static const char encoder[] =
    "\x50\0\0\0\0\0\0\0{\"embeddings.LayerNorm.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}\0\0\0";

static void must(bool good)
{
    if (!good) abort();
}

static void remove_files(void)
{
    for (int i = 0; i < NAMES; i++) unlink(pair_path(names[i]));
}

/* A part without bytes is a file that is not there. */
static void write_files(const uint8_t *bytes, size_t count)
{
    static bool made;
    pair_make("model.safetensors", "model.safetensors");
    if (!made) atexit(remove_files); /* before the directory's */
    made = true;
    if (memmem(bytes, count, "Bert", 4))
        pair_put("model.safetensors", encoder, sizeof encoder);
    else
        pair_put("model.safetensors", decoder, sizeof decoder);
    for (int i = 0; i < NAMES; i++) {
        const uint8_t *end = count ? memchr(bytes, 0, count) : NULL;
        size_t size = end ? (size_t)(end - bytes) : count;
        if (size)
            pair_put(names[i], bytes, size);
        else
            unlink(pair_path(names[i]));
        bytes += end ? size + 1 : size;
        count -= end ? size + 1 : size;
    }
}

static void check(zt_ctx *ctx, bool good)
{
    zt_status status = zt_ctx_status(ctx);
    must(good ? status == ZT_OK : status == ZT_EDATA || status == ZT_ENOTSUP || status == ZT_ENOENT || status == ZT_ENOMEM);
    must(!strchr(zt_ctx_error(ctx), '\n'));
    zt_ctx_clear(ctx);
}

static void encode(zt_ctx *ctx, const zt_gguf *gguf)
{
    static const char text[] = "a the <s> \xc3\xa9 Bc\n12";
    zt_ids ids = {0};
    zt_vocab *vocab = zt_vocab_open(gguf);
    check(ctx, vocab != NULL);
    if (vocab) check(ctx, zt_vocab_encode(vocab, text, sizeof text - 1, ZT_TOK_SPECIAL | ZT_TOK_BOS_RULE, &ids) == ZT_OK);
    zt_ids_fini(ctx, &ids);
    zt_vocab_free(vocab);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    zt_ctx *ctx = zt_ctx_new();
    if (!ctx) return 0;
    zt_mem_limit(ctx, 16 * count + (64 << 20));
    write_files(bytes, count);
    zt_gguf *model = zt_model_open(ctx, pair_directory);
    check(ctx, model != NULL);
    zt_gguf_close(model);
    zt_gguf *vocabulary = zt_model_open_vocabulary(ctx, pair_directory);
    check(ctx, vocabulary != NULL);
    if (vocabulary) encode(ctx, vocabulary);
    zt_gguf_close(vocabulary);
    must(zt_mem_get(ctx).blocks == 0);
    zt_ctx_free(ctx);
    return 0;
}
