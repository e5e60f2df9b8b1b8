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

static void refused(const char *text, zt_status status, const char *word)
{
    made m = open_text(text);
    ok(!m.v && zt_ctx_status(m.ctx) == status && strstr(zt_ctx_error(m.ctx), word), "%.60s: %s", text,
       zt_ctx_error(m.ctx));
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
        {"[]", ZT_EDATA, "no object"},
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
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(?x) a\"},\"content\":\"\"}," MODEL "}", ZT_ENOTSUP, "group"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\p{Nonesuch}\"},\"content\":\"\"}," MODEL "}", ZT_ENOTSUP, "Nonesuch"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}," MODEL "}", ZT_EDATA, "charsmap"},
        {"{\"added_tokens\":[{\"id\":0}]," MODEL "}", ZT_EDATA, "'content'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].text, rows[i].status, rows[i].word);
}

static void test_deep(void)
{
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 64);
    strcpy(text, "{\"normalizer\":");
    size_t n = strlen(text);
    memset(text + n, '[', DEPTH);
    strcpy(text + n + DEPTH, "]}");
    refused(text, ZT_EDATA, "depth");
    free(text);
}

/* ---- text ------------------------------------------------------------------------------------ */

static bool ids_are(const made *m, const char *text, size_t n, unsigned flags, const char *want)
{
    zt_ids ids = {0};
    char got[400] = "";
    zt_status s = zt_vocab_encode(m->v, text, n, flags, &ids);
    for (size_t i = 0, at = 0; i < ids.count && at < sizeof got - 12; i++)
        at += (size_t)snprintf(got + at, sizeof got - at, "%s%d", i ? " " : "", ids.id[i]);
    zt_ids_fini(m->ctx, &ids);
    if (s || strcmp(got, want) != 0)
        diag("'%s', '%s' expected: %s", got, want, zt_ctx_error(m->ctx));
    return !s && strcmp(got, want) == 0;
}

static void test_bytes(void)
{
    made m = open_text("{\"added_tokens\":[{\"content\":\"<s>\",\"special\":true}],"
                       "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"unk_token\":\"a\","
                       "\"vocab\":{\"a\":0,\"<0xFF>\":1,\"<0xC3>\":5},\"merges\":[\"x y\"]}}");
    ok(m.v && zt_vocab_size(m.v) == 6, "a merge of what is no token is passed over; ids may have gaps");
    ok(ids_are(&m, "a\xff\xc3", 3, 0, "0 1 5"), "bytes that are no UTF-8 are tokens of bytes");
    ok(ids_are(&m, "\xfe", 1, 0, "0"), "where there is none, the unknown token");
    ok(ids_are(&m, "a<s>\xff", 5, ZT_TOK_SPECIAL, "0 3 1"), "an added token has the next free id");
    close_made(&m);
    m = open_text("{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                  "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xc3\xbf\":0,\"\xc4\x80\":1,\"a\":2},\"merges\":[]}}");
    ok(ids_are(&m, "a\xff\0a", 4, 0, "2 0 1 2"), "by a byte level they are their characters");
    close_made(&m);
    m = open_text("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"b\\u0000\",\"vocab\":{\"\\u0000a\":0,\"b\\u0000\":1}}}");
    ok(ids_are(&m, "\0a", 2, 0, "0") && ids_are(&m, "?", 1, 0, "1"), "a token may have U+0000 in it");
    close_made(&m);
}

static void test_explosion(void)
{
    made m = open_text("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"^(?:a|aa|a)+(?=[^a])\"},"
                       "\"behavior\":\"Isolated\",\"invert\":false}," MODEL "}");
    char text[4000];
    zt_ids ids = {0};
    memset(text, 'a', sizeof text);
    zt_status s = m.v ? zt_vocab_encode(m.v, text, sizeof text, 0, &ids) : ZT_OK;
    ok(s == ZT_EDATA && strstr(zt_ctx_error(m.ctx), "regular expression"),
       "a regular expression that explodes: %s", zt_ctx_error(m.ctx));
    zt_ids_fini(m.ctx, &ids);
    close_made(&m);
}

/* Every step of a repeated group can be gone back to: that wants room, not failure. */
static void test_long_group(void)
{
    enum { N = 100000 };
    made m = open_text("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z&&[^b]]+\"},"
                       "\"behavior\":\"Removed\",\"invert\":false}," MODEL "}");
    char *text = malloc(N);
    zt_ids ids = {0};
    memset(text, 'a', N);
    text[N - 1] = 'b';
    zt_status s = zt_vocab_encode(m.v, text, N, 0, &ids);
    ok(!s && ids.count == 1 && ids.id[0] == 1, "a class repeated %d times: %s", N, zt_ctx_error(m.ctx));
    zt_ids_fini(m.ctx, &ids);
    free(text);
    close_made(&m);
}

static void test_missing_unk(void)
{
    made m = open_text("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"a\":0}}}");
    zt_ids ids = {0};
    ok(ids_are(&m, "a", 1, 0, "0"), "an unknown token may be missing");
    zt_status s = zt_vocab_encode(m.v, "b", 1, 0, &ids);
    ok(s == ZT_EDATA, "until it is met: %s", zt_ctx_error(m.ctx));
    zt_ids_fini(m.ctx, &ids);
    close_made(&m);
}

static void test_piecewise(void)
{
    made m = open_text("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
                       "{\"type\":\"Replace\",\"pattern\":{\"String\":\"_\"},\"content\":\" \"},"
                       "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                       "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]},"
                       "\"added_tokens\":[{\"content\":\"<s>\",\"special\":true}],"
                       "\"model\":{\"type\":\"BPE\",\"vocab\":{\"_a\":0,\"<0xC3>\":1,\"<0xA9>\":2},\"merges\":[]}}");
    static const int32_t ids[] = {0, 1, 2, 3, 0};
    zt_str one, all;
    zt_str_init(&one, m.ctx);
    zt_str_init(&all, m.ctx);
    for (size_t i = 0; i < 5; i++)
        zt_vocab_decode(m.v, ids[i], true, i == 0, &one);
    zt_vocab_decode_ids(m.v, ids, 5, true, &all);
    ok(strcmp(one.data, "a\xc3\xa9<s> a") == 0, "token by token: '%s'", one.data);
    ok(strcmp(one.data, all.data) == 0, "the same as a list");
    zt_str_clear(&all);
    zt_vocab_decode_ids(m.v, ids, 5, false, &all);
    ok(strcmp(all.data, "a\xc3\xa9 a") == 0, "without special tokens: '%s'", all.data);
    zt_str_clear(&all);
    zt_vocab_decode_ids(m.v, ids + 1, 1, false, &all);
    ok(strcmp(all.data, "\xef\xbf\xbd") == 0, "half a character in a list is U+FFFD");
    zt_str_fini(&one);
    zt_str_fini(&all);
    close_made(&m);
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

static in_model open_model(ggufw *w)
{
    in_model m = {.ctx = zt_ctx_new()};
    size_t n;
    ggufw_str(w, "tokenizer.huggingface.json", with_post);
    m.bytes = ggufw_bytes(w, &n);
    m.src = zt_source_memory(m.ctx, "made", m.bytes, n);
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
    ggufw w = {0};
    in_model m = open_model(&w);
    ok(m.v && zt_vocab_bos(m.v) == 4 && zt_vocab_eos(m.v) == -1, "BOS is what the template begins with");
    ok(zt_vocab_is_eog(m.v, 5) && !zt_vocab_is_eog(m.v, 1), "<|eot_id|> ends a generation");
    made t = {m.ctx, m.v};
    ok(ids_are(&t, "ab", 2, ZT_TOK_BOS_RULE | ZT_TOK_BOS, "4 0 1"), "it comes once");
    close_model(&m);
    w = (ggufw){0};
    ggufw_u32(&w, "tokenizer.ggml.bos_token_id", 0);
    ggufw_u32(&w, "tokenizer.ggml.eos_token_id", 5);
    ggufw_array(&w, "tokenizer.ggml.eos_token_ids", 5, 2, ends, sizeof ends);
    m = open_model(&w);
    ok(m.v && zt_vocab_bos(m.v) == 0 && zt_vocab_eos(m.v) == 5, "keys of the model come first");
    ok(zt_vocab_is_eog(m.v, 1) && zt_vocab_is_eog(m.v, 2) && zt_vocab_is_eog(m.v, 5), "all ends end");
    close_model(&m);
    w = (ggufw){0};
    ggufw_u32(&w, "tokenizer.ggml.eos_token_id", 5);
    ggufw_bool(&w, "tokenizer.ggml.add_bos_token", false);
    ggufw_bool(&w, "tokenizer.ggml.add_eos_token", true);
    m = open_model(&w);
    t = (made){m.ctx, m.v};
    ok(m.v && ids_are(&t, "ab", 2, ZT_TOK_BOS_RULE, "0 1 5"), "keys say what goes before and after");
    close_model(&m);
    w = (ggufw){0};
    ggufw_u32(&w, "tokenizer.ggml.eos_token_id", 6);
    m = open_model(&w);
    ok(!m.v && zt_ctx_status(m.ctx) == ZT_EDATA, "an id beyond the vocabulary: %s", zt_ctx_error(m.ctx));
    close_model(&m);
}

static void test_file(void)
{
    char path[] = "/tmp/zt-tokjson-XXXXXX";
    int fd = mkstemp(path);
    ok(fd >= 0 && write(fd, with_post, strlen(with_post)) == (ssize_t)strlen(with_post), "a file");
    close(fd);
    made m = {.ctx = zt_ctx_new()};
    zt_gguf *g = zt_model_open(m.ctx, path);
    m.v = g ? zt_vocab_open(g) : NULL;
    ok(m.v && zt_vocab_size(m.v) == 6, "tokenizer.json alone opens: %s", zt_ctx_error(m.ctx));
    zt_vocab_free(m.v);
    m.v = NULL;
    zt_gguf_close(g);
    close_made(&m);
    unlink(path);
}

/* ---- failing allocations --------------------------------------------------------------------- */

static zt_status whole_way(zt_ctx *ctx)
{
    zt_vocab *v = zt_vocab_open_json(ctx, "t.json", with_post, strlen(with_post));
    zt_ids ids = {0};
    zt_str out;
    zt_str_init(&out, ctx);
    zt_status s = v ? zt_vocab_encode(v, "ab <s> \xff\xc3\xa9", 10, ZT_TOK_SPECIAL | ZT_TOK_BOS_RULE, &ids)
                    : zt_ctx_status(ctx);
    if (!s)
        s = zt_vocab_decode_ids(v, ids.id, ids.count, true, &out);
    zt_str_fini(&out);
    zt_ids_fini(ctx, &ids);
    zt_vocab_free(v);
    return s;
}

static void test_memory(void)
{
    size_t wrong = 0, leaks = 0;
    uint64_t n = 0;
    for (zt_status s = ZT_ENOMEM; s && n < 10000;) {
        zt_ctx *ctx = zt_ctx_new();
        zt_mem_fail(ctx, ++n, false);
        s = whole_way(ctx);
        bool failed = zt_ctx_status(ctx) != ZT_OK;
        if (failed ? s != zt_ctx_status(ctx) || s != ZT_ENOMEM : s != ZT_OK)
            diag("allocation %llu: %s, %s", (unsigned long long)n, zt_status_name(s), zt_ctx_error(ctx)), wrong++;
        leaks += zt_mem_get(ctx).blocks != 0;
        if (!failed && zt_mem_get(ctx).calls >= n)
            s = ZT_ENOMEM; /* that one was not needed: without JIT PCRE2 interprets */
        zt_ctx_free(ctx);
    }
    ok(n > 30 && n < 10000, "%llu allocations", (unsigned long long)n - 1);
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
