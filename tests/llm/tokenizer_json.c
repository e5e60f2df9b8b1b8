/* tokenizer_json.c - tests of vocabularies from tokenizer.json that the library has no answer to: hostile
 * files, bytes that are no UTF-8, keys of the model beside it, every allocation failing. */
#include "lib/llm/llm.h"
#include "tests/common/gguf_writer.h"
#include "tests/common/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"<0xFF>\":3},\"merges\":[\"a b\"]}"

typedef struct made { /* an open vocabulary, or why it is not */
    zt_ctx *ctx;
    zt_vocab *v;
} made;

static made open_text(const char *text)
{
    made m = {.ctx = zt_ctx_new()};
    m.v = zt_vocab_open_json(m.ctx, "t.json", text, strlen(text));
    return m;
}

static void close_made(made *m)
{
    zt_vocab_free(m->v);
    ok(zt_mem_get(m->ctx).blocks == 0, "nothing leaks");
    zt_ctx_free(m->ctx);
}

/* ---- files that are refused ------------------------------------------------------------------ */

static void tokenizer_refused(const char *text, zt_status status, const char *word)
{
    made m = open_text(text);
    ok(!m.v && zt_ctx_status(m.ctx) == status && strstr(zt_ctx_error(m.ctx), word), "%.60s: %s", text, zt_ctx_error(m.ctx));
    close_made(&m);
}

static void test_refused(void)
{
    static const struct {
        const char *text;
        zt_status status;
        const char *word;
    } rows[] = {
        {"", ZT_EDATA, "JSON"},
        {"[]", ZT_EDATA, "not a JSON object"},
        {"{}", ZT_EDATA, "'model'"},
        {"{\"model\":{},\"model\":{}}", ZT_EDATA, "duplicate"},
        {"{\"model\":{\"type\":\"Magic\"}}", ZT_ENOTSUP, "Magic"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", ZT_EDATA, "no tokens"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}}", ZT_EDATA, "'a'"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":9999999}}}", ZT_EDATA, "'a'"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":1e300}}}", ZT_EDATA, "'a'"},
        {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"a\":1}}}", ZT_EDATA, "duplicate"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", ZT_EDATA, "'merges'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", ZT_EDATA, "'aa'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", ZT_EDATA, "merge 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", ZT_ENOTSUP, "dropout"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":1}}", ZT_EDATA, "unk_id"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}}", ZT_EDATA, "token 0"},
        {"{\"normalizer\":{\"type\":\"Upper\\u001b\"}," MODEL "}", ZT_ENOTSUP, "Upper\\x1b"},
        {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," MODEL "}", ZT_ENOTSUP, "UnicodeScripts"},
        {"{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", ZT_ENOTSUP, "CTC"},
        {"{\"post_processor\":{\"type\":\"X\"}," MODEL "}", ZT_ENOTSUP, "'X'"},
        {"{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"x\",77]}," MODEL "}", ZT_EDATA, "77"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}," MODEL "}", ZT_EDATA, "'('"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?x) a\"},\"content\":\"\"}," MODEL "}", ZT_ENOTSUP,
         "group"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\p{Nonesuch}\"},\"content\":\"\"}," MODEL "}",
         ZT_ENOTSUP, "Nonesuch"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}," MODEL "}", ZT_EDATA, "charsmap"},
        {"{\"added_tokens\":[{\"id\":0}]," MODEL "}", ZT_EDATA, "'content'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) tokenizer_refused(rows[i].text, rows[i].status, rows[i].word);
}

static void test_deep(void)
{
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 64);
    strcpy(text, "{\"normalizer\":");
    size_t length = strlen(text);
    memset(text + length, '[', DEPTH);
    strcpy(text + length + DEPTH, "]}");
    tokenizer_refused(text, ZT_EDATA, "depth");
    free(text);
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool ids_are(const made *made_model, const char *text, size_t total, unsigned flags, const char *want)
{
    zt_ids ids = {0};
    char got[400] = "";
    zt_status result = zt_vocab_encode(made_model->v, text, total, flags, &ids);
    for (size_t i = 0, at = 0; i < ids.count && at < sizeof got - 12; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", ids.id[i]);
    zt_ids_fini(made_model->ctx, &ids);
    if (result || strcmp(got, want) != 0) diag("'%s', '%s' expected: %s", got, want, zt_ctx_error(made_model->ctx));
    return !result && strcmp(got, want) == 0;
}

static void test_bytes(void)
{
    made made_model = open_text("{\"added_tokens\":[{\"content\":\"<s>\",\"special\":true}],"
                                "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"a\","
                                "\"vocab\":{\"a\":0,\"<0xFF>\":1,\"<0xC3>\":5},\"merges\":[\"x y\"]}}");
    ok(made_model.v && zt_vocab_size(made_model.v) == 6, "a merge of what is no token is passed over; ids may have gaps");
    ok(ids_are(&made_model, "a\xff\xc3", 3, 0, "0 1 5"), "bytes that are no UTF-8 are tokens of bytes");
    ok(ids_are(&made_model, "\xfe", 1, 0, "0"), "where there is none, the unknown token");
    ok(ids_are(&made_model, "a<s>\xff", 5, ZT_TOK_SPECIAL, "0 3 1"), "an added token has the next free id");
    close_made(&made_model);
    made_model = open_text("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                           "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xc3\xbf\":0,\"\xc4\x80\":1,\"a\":2},\"merges\":[]}}");
    ok(ids_are(&made_model, "a\xff\0a", 4, 0, "2 0 1 2"), "by a byte level they are their characters");
    close_made(&made_model);
    made_model =
        open_text("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"b\\u0000\",\"vocab\":{\"\\u0000a\":0,\"b\\u0000\":1}}}");
    ok(ids_are(&made_model, "\0a", 2, 0, "0") && ids_are(&made_model, "?", 1, 0, "1"), "a token may have U+0000 in it");
    close_made(&made_model);
}

static void test_explosion(void)
{
    made made_model = open_text("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"^(?:a|aa|a)+(?=[^a])\"},"
                                "\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}");
    char text[4000];
    zt_ids ids = {0};
    memset(text, 'a', sizeof text);
    zt_status result = made_model.v ? zt_vocab_encode(made_model.v, text, sizeof text, 0, &ids) : ZT_OK;
    ok(result == ZT_EDATA && strstr(zt_ctx_error(made_model.ctx), "regular expression"), "a regular expression that explodes: %s",
       zt_ctx_error(made_model.ctx));
    zt_ids_fini(made_model.ctx, &ids);
    close_made(&made_model);
}

/* Every step of a repeated group can be gone back to: that wants room, not failure. */
static void test_long_group(void)
{
    enum { N = 100000 };
    made made_model = open_text("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z&&[^b]]+\"},"
                                "\"behavior\":\"Removed\",\"invert\":false}," MODEL "}");
    char *text = malloc(N);
    zt_ids ids = {0};
    memset(text, 'a', N);
    text[N - 1] = 'b';
    zt_status result = zt_vocab_encode(made_model.v, text, N, 0, &ids);
    ok(!result && ids.count == 1 && ids.id[0] == 1, "a class repeated %d times: %s", N, zt_ctx_error(made_model.ctx));
    zt_ids_fini(made_model.ctx, &ids);
    free(text);
    close_made(&made_model);
}

static void test_missing_unk(void)
{
    made made_model = open_text("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"a\":0}}}");
    zt_ids ids = {0};
    ok(ids_are(&made_model, "a", 1, 0, "0"), "an unknown token may be missing");
    zt_status result = zt_vocab_encode(made_model.v, "b", 1, 0, &ids);
    ok(result == ZT_EDATA, "until it is met: %s", zt_ctx_error(made_model.ctx));
    zt_ids_fini(made_model.ctx, &ids);
    close_made(&made_model);
}

static void test_piecewise(void)
{
    made made_model = open_text("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                                "{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"},"
                                "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                                "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
                                "\"added_tokens\":[{\"content\":\"<s>\",\"special\":true}],"
                                "\"model\":{\"type\":\"BPE\",\"vocab\":{\"_a\":0,\"<0xC3>\":1,\"<0xA9>\":2},\"merges\":[]}}");
    static const int32_t ids[] = {0, 1, 2, 3, 0};
    zt_str one, all;
    zt_str_init(&one, made_model.ctx);
    zt_str_init(&all, made_model.ctx);
    for (size_t i = 0; i < 5; i++) zt_vocab_decode(made_model.v, ids[i], true, i == 0, &one);
    zt_vocab_decode_ids(made_model.v, ids, 5, true, &all);
    ok(strcmp(one.data, "a\xc3\xa9<s> a") == 0, "token by token: '%s'", one.data);
    ok(strcmp(one.data, all.data) == 0, "the same as a list");
    zt_str_clear(&all);
    zt_vocab_decode_ids(made_model.v, ids, 5, false, &all);
    ok(strcmp(all.data, "a\xc3\xa9 a") == 0, "without special tokens: '%s'", all.data);
    zt_str_clear(&all);
    zt_vocab_decode_ids(made_model.v, ids + 1, 1, false, &all);
    ok(strcmp(all.data, "\xef\xbf\xbd") == 0, "half a character in a list is U+FFFD");
    zt_str_fini(&one);
    zt_str_fini(&all);
    close_made(&made_model);
}

/* ---- beside a model -------------------------------------------------------------------------- */

static const char with_post[] =
    "{\"added_tokens\":[{\"content\":\"<s>\",\"special\":true},{\"content\":\"<|eot_id|>\",\"special\":true}],"
    "\"normalizer\":{\"type\":\"NFKC\"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\p{Han}|[a&&[^b]]\"},\"behavior\":\"Contiguous\",\"invert\":true},"
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"ids\":[4]}}}," MODEL "}";

typedef struct in_model {
    zt_ctx *ctx;
    char *bytes;
    zt_source *src;
    zt_gguf *g;
    zt_vocab *v;
} in_model;

static in_model open_model(ggufw *writer)
{
    in_model m = {.ctx = zt_ctx_new()};
    size_t count;
    ggufw_str(writer, "tokenizer.huggingface.json", with_post);
    m.bytes = ggufw_bytes(writer, &count);
    m.src = zt_source_memory(m.ctx, "made", m.bytes, count);
    m.g = zt_gguf_from(m.ctx, m.src);
    m.v = m.g ? zt_vocab_open(m.g) : NULL;
    return m;
}

static void close_model(in_model *m)
{
    zt_vocab_free(m->v);
    zt_gguf_close(m->g);
    zt_source_close(m->src);
    zt_ctx_free(m->ctx);
    free(m->bytes);
}

static void test_model(void)
{
    static const int32_t ends[] = {1, 2};
    ggufw writer = {0};
    in_model m = open_model(&writer);
    ok(m.v && zt_vocab_bos(m.v) == 4 && zt_vocab_eos(m.v) == -1, "BOS is what the template begins with");
    ok(zt_vocab_is_eog(m.v, 5) && !zt_vocab_is_eog(m.v, 1), "<|eot_id|> ends a generation");
    made t = {m.ctx, m.v};
    ok(ids_are(&t, "ab", 2, ZT_TOK_BOS_RULE | ZT_TOK_BOS, "4 0 1"), "it comes once");
    close_model(&m);
    writer = (ggufw){0};
    ggufw_u32(&writer, "tokenizer.ggml.bos_token_id", 0);
    ggufw_u32(&writer, "tokenizer.ggml.eos_token_id", 5);
    ggufw_array(&writer, "tokenizer.ggml.eos_token_ids", 5, 2, ends, sizeof ends);
    m = open_model(&writer);
    ok(m.v && zt_vocab_bos(m.v) == 0 && zt_vocab_eos(m.v) == 5, "keys of the model come first");
    ok(zt_vocab_is_eog(m.v, 1) && zt_vocab_is_eog(m.v, 2) && zt_vocab_is_eog(m.v, 5), "all ends end");
    close_model(&m);
    writer = (ggufw){0};
    ggufw_u32(&writer, "tokenizer.ggml.eos_token_id", 5);
    ggufw_bool(&writer, "tokenizer.ggml.add_bos_token", false);
    ggufw_bool(&writer, "tokenizer.ggml.add_eos_token", true);
    m = open_model(&writer);
    t = (made){m.ctx, m.v};
    ok(m.v && ids_are(&t, "ab", 2, ZT_TOK_BOS_RULE, "0 1 5"), "keys say what goes before and after");
    close_model(&m);
    writer = (ggufw){0};
    ggufw_u32(&writer, "tokenizer.ggml.eos_token_id", 6);
    m = open_model(&writer);
    ok(!m.v && zt_ctx_status(m.ctx) == ZT_EDATA, "an id beyond the vocabulary: %s", zt_ctx_error(m.ctx));
    close_model(&m);
}

static void test_file(void)
{
    char path[] = "/tmp/zt-tokjson-XXXXXX";
    int fd = mkstemp(path);
    ok(fd >= 0 && write(fd, with_post, strlen(with_post)) == (ssize_t)strlen(with_post), "a file");
    close(fd);
    made made_model = {.ctx = zt_ctx_new()};
    zt_gguf *gguf = zt_model_open(made_model.ctx, path);
    made_model.v = gguf ? zt_vocab_open(gguf) : NULL;
    ok(made_model.v && zt_vocab_size(made_model.v) == 6, "tokenizer.json alone opens: %s", zt_ctx_error(made_model.ctx));
    zt_vocab_free(made_model.v);
    made_model.v = NULL;
    zt_gguf_close(gguf);
    close_made(&made_model);
    unlink(path);
}

/* ---- failing allocations --------------------------------------------------------------------- */

static zt_status whole_way(zt_ctx *ctx)
{
    zt_vocab *vocab = zt_vocab_open_json(ctx, "t.json", with_post, strlen(with_post));
    zt_ids ids = {0};
    zt_str out;
    zt_str_init(&out, ctx);
    zt_status s =
        vocab ? zt_vocab_encode(vocab, "ab <s> \xff\xc3\xa9", 10, ZT_TOK_SPECIAL | ZT_TOK_BOS_RULE, &ids) : zt_ctx_status(ctx);
    if (!s) s = zt_vocab_decode_ids(vocab, ids.id, ids.count, true, &out);
    zt_str_fini(&out);
    zt_ids_fini(ctx, &ids);
    zt_vocab_free(vocab);
    return s;
}

static void test_memory(void)
{
    size_t wrong = 0, leaks = 0;
    uint64_t count = 0;
    for (zt_status result = ZT_ENOMEM; result && count < 10000;) {
        zt_ctx *ctx = zt_ctx_new();
        zt_mem_fail(ctx, ++count, false);
        result = whole_way(ctx);
        bool failed = zt_ctx_status(ctx) != ZT_OK;
        if (failed ? result != zt_ctx_status(ctx) || result != ZT_ENOMEM : result != ZT_OK)
            diag("allocation %llu: %s, %s", (unsigned long long)count, zt_status_name(result), zt_ctx_error(ctx)), wrong++;
        leaks += zt_mem_get(ctx).blocks != 0;
        if (!failed && zt_mem_get(ctx).calls >= count)
            result = ZT_ENOMEM; /* that one was not needed: without JIT PCRE2 interprets */
        zt_ctx_free(ctx);
    }
    ok(count > 30 && count < 10000, "%llu allocations", (unsigned long long)count - 1);
    ok(!wrong && !leaks, "each failing: %zu wrong answers, %zu leaks", wrong, leaks);
}

int main(void)
{
    test_refused();
    test_deep();
    test_bytes();
    test_explosion();
    test_long_group();
    test_missing_unk();
    test_piecewise();
    test_model();
    test_file();
    test_memory();
    return tap_done();
}
