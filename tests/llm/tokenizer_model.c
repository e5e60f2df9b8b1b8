/* tokenizer_model.c - tokenizer.model files that SentencePiece refuses, or nobody knows: 65 or 69
 * with the reason; memory that runs out; settings beside the file. */
#include "lib/llm/vocab/sentencepiece.h"
#include "tests/common/hf_writer.h"
#include "tests/common/tap.h"

#define CONFIG "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":9}"

/* ---- a file being made ----------------------------------------------------------------------- */

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

static void put_bytes(ggufw_buf *buffer, int number, const void *text, size_t count)
{
    unsigned char head[4] = {(unsigned char)(number << 3 | 2), (unsigned char)count};
    size_t k = 2;
    if (count > 127) {
        head[1] = (unsigned char)(count | 128);
        head[k++] = (unsigned char)(count >> 7 & 127) | (count >> 14 ? 128 : 0);
    }
    if (count >> 14) head[k++] = (unsigned char)(count >> 14);
    ggufw_put(buffer, head, k);
    ggufw_put(buffer, text, count);
}

static void put_piece_of(ggufw_buf *buffer, const char *text, size_t count, float score, int type)
{
    ggufw_buf p = {0};
    put_bytes(&p, 1, text, count);
    ggufw_put(&p, "\x15", 1);
    ggufw_put(&p, &score, 4);
    ggufw_put(&p, (unsigned char[]){3 << 3, (unsigned char)type}, 2);
    put_bytes(buffer, 1, p.data, p.n);
    free(p.data);
}

static void put_piece(ggufw_buf *b, const char *text, int type) { put_piece_of(b, text, strlen(text), -1, type); }

static void put_usual(ggufw_buf *b)
{
    put_piece(b, "<unk>", UNKNOWN);
    put_piece(b, "<s>", CONTROL);
    put_piece(b, "</s>", CONTROL);
    put_piece(b, ZT_SPACE, NORMAL);
    put_piece(b, "a", NORMAL);
}

/* TrainerSpec: model_type, byte_fallback. */
static void put_trainer(ggufw_buf *b, int type, bool bytes)
{
    put_bytes(b, 2, (unsigned char[]){3 << 3, (unsigned char)type, 0x98, 2, bytes}, 5);
}

static zt_gguf *open_file(zt_ctx *ctx, hfw *d, const ggufw_buf *b)
{
    hfw_bytes(d, "tokenizer.model", b->data, b->n);
    hfw_text(d, "config.json", CONFIG);
    return zt_model_open_vocabulary(ctx, d->path);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void empty_piece(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "", NORMAL);
}

static void same_piece(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "a", USER);
}

static void same_as_control(ggufw_buf *b) /* BPE's ids are of all pieces */
{
    put_usual(b);
    put_piece(b, "<s>", NORMAL);
    put_trainer(b, 2, false);
}

static void two_unknown(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "<unk2>", UNKNOWN);
}

static void no_unknown(ggufw_buf *b)
{
    put_piece(b, "<s>", CONTROL);
    put_piece(b, "a", NORMAL);
}

static void byte_without(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "<0x41>", BYTE);
}

static void bytes_missing(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "<0x00>", BYTE);
    put_trainer(b, 2, true);
}

static void byte_misspelt(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "<0x4>", BYTE);
    put_trainer(b, 2, true);
}

static void zero_byte(ggufw_buf *b)
{
    put_usual(b);
    put_piece_of(b, "x\0y", 3, 0, NORMAL);
}

static void no_number(ggufw_buf *b)
{
    put_usual(b);
    put_piece_of(b, "x", 1, __builtin_nanf(""), NORMAL);
}

static void endless(ggufw_buf *b)
{
    put_usual(b);
    put_piece_of(b, "x", 1, __builtin_inff(), NORMAL);
}

static void long_piece(ggufw_buf *b)
{
    char text[8000];
    memset(text, 'x', sizeof text);
    put_usual(b);
    put_piece_of(b, text, sizeof text, 0, NORMAL);
}

static void only_controls(ggufw_buf *b)
{
    put_piece(b, "<unk>", UNKNOWN);
    put_piece(b, "<s>", CONTROL);
}

static void bad_charsmap(ggufw_buf *b)
{
    put_usual(b);
    put_bytes(b, 3, "\x12\x08\xff\xff\xff\x7f....", 10);
}

static void model_type(ggufw_buf *b)
{
    put_usual(b);
    put_trainer(b, 5, false);
}

static void piece_type(ggufw_buf *b)
{
    put_usual(b);
    put_piece(b, "x", 7);
}

static void pointer(ggufw_buf *b)
{
    static const char text[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7\n";
    ggufw_put(b, text, sizeof text - 1);
}

static void tiktoken(ggufw_buf *b) { ggufw_put(b, "IQ== 0\nIg== 1\n", 14); }

static const struct {
    void (*make)(ggufw_buf *b);
    zt_status status;
    const char *says;
} refusals[] = {
    {empty_piece, ZT_EDATA, "piece 5, '', is empty"},
    {same_piece, ZT_EDATA, "piece 5, 'a', occurs twice"},
    {same_as_control, ZT_EDATA, "piece 5, '<s>', occurs twice"},
    {two_unknown, ZT_EDATA, "second unknown piece"},
    {no_unknown, ZT_EDATA, "none of the 2 pieces is the unknown piece"},
    {byte_without, ZT_EDATA, "byte_fallback is off"},
    {bytes_missing, ZT_EDATA, "<0x01> is missing"},
    {byte_misspelt, ZT_EDATA, "not of the form <0x41>"},
    {zero_byte, ZT_EDATA, "zero byte"},
    {no_number, ZT_EDATA, "not a finite number"},
    {endless, ZT_EDATA, "not a finite number"},
    {long_piece, ZT_EDATA, "longer than 7999 bytes"},
    {only_controls, ZT_EDATA, "is a normal piece"},
    {bad_charsmap, ZT_EDATA, "charsmap"},
    {model_type, ZT_ENOTSUP, "unknown model type 5"},
    {piece_type, ZT_ENOTSUP, "piece 5 has the unknown type 7"},
    {pointer, ZT_EDATA, "Git LFS pointer"},
    {tiktoken, ZT_ENOTSUP, "tiktoken"},
};

static void check_refusals(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        zt_ctx *ctx = zt_ctx_new();
        hfw directory = hfw_new();
        ggufw_buf buffer = {0};
        refusals[i].make(&buffer);
        zt_gguf *gguf = open_file(ctx, &directory, &buffer);
        zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
        ok(!vocab && zt_ctx_status(ctx) == refusals[i].status && strstr(zt_ctx_error(ctx), refusals[i].says), "refused: %s",
           zt_ctx_error(ctx));
        zt_gguf_close(gguf);
        ok(zt_mem_get(ctx).blocks == 0, "nothing leaks");
        zt_ctx_free(ctx);
        free(buffer.data);
        hfw_end(&directory);
    }
}

/* ---- cut short, and memory that runs out ----------------------------------------------------- */

static bool lives(zt_ctx *ctx, const char *path)
{
    zt_gguf *gguf = zt_model_open(ctx, path);
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    zt_ids ids = {0};
    zt_str text;
    zt_str_init(&text, ctx);
    bool good = vocab && zt_vocab_encode(vocab, "a <s> b", 7, ZT_TOK_SPECIAL, &ids) == ZT_OK &&
                zt_vocab_decode_ids(vocab, ids.id, ids.count, true, &text) == ZT_OK;
    zt_str_fini(&text);
    zt_ids_fini(ctx, &ids);
    zt_vocab_free(vocab);
    zt_gguf_close(gguf);
    return good;
}

/* A file as long as any that is in use begins no other kind of model's. */
static void check_cut(void)
{
    zt_ctx *ctx = zt_ctx_new();
    hfw directory = hfw_new();
    ggufw_buf buffer = {0};
    int wrong = 0, good = 0;
    put_usual(&buffer);
    put_trainer(&buffer, 1, false);
    put_bytes(&buffer, 3, "\x0a\x04nfkc\x18\x01\x20\x00", 10);
    for (size_t n = 4; n <= buffer.n; n++) {
        hfw_bytes(&directory, "tokenizer.model", buffer.data, n);
        bool lived = lives(ctx, hfw_path(&directory, "tokenizer.model"));
        good += lived;
        wrong += zt_ctx_status(ctx) != (lived ? ZT_OK : ZT_EDATA);
        zt_ctx_clear(ctx);
    }
    ok(!wrong && good >= 3 && good < 10, "cut anywhere: bad data, or what is there is whole");
    uint64_t n = 0;
    for (bool done = false; !done && n < 10000;) {
        zt_mem_fail(ctx, ++n, false);
        done = lives(ctx, hfw_path(&directory, "tokenizer.model"));
        wrong += (zt_ctx_status(ctx) != (done ? ZT_OK : ZT_ENOMEM)) + (zt_mem_get(ctx).blocks != 0);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
    }
    ok(!wrong && n > 20, "each of %d allocations failing: ENOMEM and no leak", (int)n - 1);
    zt_ctx_free(ctx);
    free(buffer.data);
    hfw_end(&directory);
}

/* ---- settings beside the file ---------------------------------------------------------------- */

/* The ids of "a" in a directory with this tokenizer_config.json, by the model's rule. */
static zt_status ids_of(const char *config, zt_ids *ids, char error[300])
{
    zt_ctx *ctx = zt_ctx_new();
    hfw directory = hfw_new();
    ggufw_buf buffer = {0};
    put_usual(&buffer);
    put_piece(&buffer, "[x]", USER);
    put_trainer(&buffer, 1, false);
    hfw_bytes(&directory, "tokenizer.model", buffer.data, buffer.n);
    hfw_text(&directory, "config.json", CONFIG);
    hfw_text(&directory, "tokenizer_config.json", config);
    zt_gguf *gguf = zt_model_open_vocabulary(ctx, directory.path);
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    zt_ids got = {0};
    if (vocab) zt_vocab_encode(vocab, "a[x]<new>a", 10, ZT_TOK_BOS_RULE, &got);
    zt_status s = zt_ctx_status(ctx);
    snprintf(error, 300, "%s", zt_ctx_error(ctx));
    ids->count = 0;
    for (size_t i = 0; i < got.count; i++) ids->id[ids->count++] = got.id[i];
    zt_ids_fini(ctx, &got);
    zt_vocab_free(vocab);
    zt_gguf_close(gguf);
    zt_ctx_free(ctx);
    free(buffer.data);
    hfw_end(&directory);
    return s;
}

static const struct {
    const char *config;
    int32_t ids[10]; /* up to -1 */
} settings[] = {
    {"{}", {1, 3, 4, 5, 0, 4, -1}},
    {"{\"tokenizer_class\":\"LlamaTokenizer\"}", {1, 3, 4, 5, 0, 4, -1}},
    {"{\"tokenizer_class\":\"T5Tokenizer\"}", {3, 4, 5, 0, 4, 2, -1}},
    {"{\"add_bos_token\":false,\"add_eos_token\":true}", {3, 4, 5, 0, 4, 2, -1}},
    {"{\"add_prefix_space\":false}", {1, 4, 5, 0, 4, -1}},
    {"{\"added_tokens_decoder\":{\"6\":{\"content\":\"<new>\",\"special\":false}}}", {1, 3, 4, 5, 6, 3, 4, -1}},
    {"{\"legacy\":false,\"added_tokens_decoder\":{\"6\":{\"content\":\"<new>\",\"special\":false}}"
     "}",
     {1, 3, 4, 5, 6, 4, -1}},
    {"{\"legacy\":false,\"add_prefix_space\":false}", {1, 4, 5, 0, 4, -1}},
    {"{\"added_tokens_decoder\":{\"6\":{\"content\":\"<new>\",\"special\":true}}}", {1, 3, 4, 5, 0, 4, -1}},
};

static void check_settings(void)
{
    int32_t id[64];
    char error[300];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        zt_ids ids = {.id = id};
        size_t total = 0;
        while (settings[i].ids[total] >= 0) total++;
        zt_status status = ids_of(settings[i].config, &ids, error);
        if (!ok(status == ZT_OK && ids.count == total && memcmp(id, settings[i].ids, total * sizeof *id) == 0, "%s %s",
                settings[i].config, error))
            for (size_t k = 0; k < ids.count; k++) diag("%d", id[k]);
    }
    zt_ids ids = {.id = id};
    ok(ids_of("{\"tokenizer_class\":\"XLMRobertaTokenizer\"}", &ids, error) == ZT_ENOTSUP && strstr(error, "XLMRobertaTokenizer"),
       "another numbering of the pieces: %s", error);
}

int main(void)
{
    check_refusals();
    check_cut();
    check_settings();
    return tap_done();
}
