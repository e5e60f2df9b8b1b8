/* vocab_kinds.c - tests of the tokenizers beside byte-level BPE and SentencePiece's BPE: Unigram
 * (t5) against a plain search, WordPiece (bert), BPE of characters (gemma4); tokens that take
 * blanks with them; every allocation failing; hostile keys. */
#include "tests/llm/made_vocab.h"

#define SP "\xe2\x96\x81"
enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

typedef struct word {
    const char *text;
    int type;
    float score;
} word;

/* Words up to a NULL, and with `bytes` the 256 byte tokens after them. */
static void put_words(ggufw *writer, const char *model, const word *words, bool bytes)
{
    char *text[600] = {0};
    int32_t type[600];
    float score[600];
    int count = 0;
    for (; words[count].text; count++) {
        text[count] = strdup(words[count].text);
        type[count] = words[count].type;
        score[count] = words[count].score;
    }
    for (int b = 0; bytes && b < 256; b++) {
        text[count] = malloc(8);
        snprintf(text[count], 8, "<0x%02X>", (unsigned)b);
        type[count] = BYTE;
        score[count++] = 0;
    }
    ggufw_str(writer, "tokenizer.ggml.model", model);
    ggufw_strs(writer, "tokenizer.ggml.tokens", text, (uint64_t)count);
    ggufw_array(writer, "tokenizer.ggml.token_type", 5, (uint64_t)count, type, 4 * (size_t)count);
    ggufw_array(writer, "tokenizer.ggml.scores", 6, (uint64_t)count, score, 4 * (size_t)count);
    while (count) free(text[--count]);
}

/* The tokens of text by their texts, with a bar between; unknown ones as "?". */
static bool cuts_into(const made *made_model, const char *text, unsigned flags, const char *want)
{
    zt_ids ids = {0};
    zt_str string;
    zt_str_init(&string, made_model->ctx);
    zt_status st = zt_vocab_encode(made_model->v, text, strlen(text), flags, &ids);
    zt_str_puts(&string, "");
    for (size_t i = 0; !st && i < ids.count; i++) {
        zt_str_puts(&string, i ? "|" : "");
        st = zt_vocab_decode(made_model->v, ids.id[i], true, false, &string);
    }
    char a[200], b[200];
    bool good = ok(!st && strcmp(string.data, want) == 0, "'%s' is cut into '%s'", zt_escape(a, sizeof a, text, strlen(text)),
                   zt_escape(b, sizeof b, want, strlen(want)));
    if (!good) diag("got '%s'", string.data);
    zt_ids_fini(made_model->ctx, &ids);
    zt_str_fini(&string);
    return good;
}

/* ---- t5 -------------------------------------------------------------------------------------- */

// clang-format off
static const word t5_words[] = {
    {"<pad>", CONTROL, 0}, {"</s>", CONTROL, 0}, {"?", UNKNOWN, 0}, {SP, NORMAL, -2.03f},
    {"a", NORMAL, -3.11f}, {"b", NORMAL, -3.71f}, {"c", NORMAL, -4.19f}, {"aa", NORMAL, -4.57f},
    {"ab", NORMAL, -5.03f}, {"bab", NORMAL, -6.79f}, {SP "a", NORMAL, -4.93f},
    {SP "ab", NORMAL, -6.61f}, {"aab", NORMAL, -9.97f}, {"cc", UNUSED, -7.37f},
    {"[u]", USER, -1}, {"\xc3\xa9", NORMAL, -5.51f}, {NULL, 0, 0},
};
// clang-format on

static made open_t5(bool space, bool merge, bool bytes)
{
    ggufw w = {0};
    put_words(&w, "t5", t5_words, bytes);
    ggufw_bool(&w, "tokenizer.ggml.add_space_prefix", space);
    ggufw_bool(&w, "tokenizer.ggml.remove_extra_whitespaces", merge);
    return open_made(&w);
}

static double score_of(const char *text, size_t n)
{
    for (int i = 3; t5_words[i].text; i++)
        if (strlen(t5_words[i].text) == n && memcmp(t5_words[i].text, text, n) == 0)
            return t5_words[i].type == USER ? 0 : t5_words[i].score;
    return 1;
}

/* The best score of letters and spaces (one unknown 'x' costs 10 more than the worst), by trying
 * all first tokens of all ends. */
static double best_score(const char *text, size_t count)
{
    double best[64] = {0};
    for (size_t to = 1; to <= count; to++) {
        best[to] = -1e9;
        for (size_t from = 0; from < to; from++) {
            double s = score_of(text + from, to - from);
            if (s > 0 && to - from == 1 && text[from] == 'x') s = (double)-9.97f - 10;
            if (s <= 0 && best[from] + s > best[to]) best[to] = best[from] + s;
        }
    }
    return best[count];
}

/* Encoding must find a way that scores as much; unknown neighbours are one token. */
static void test_unigram(void)
{
    made made_model = open_t5(false, false, false);
    int bad = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        char text[32];
        zt_ids ids = {0};
        size_t total = 1 + (size_t)(zt_uniform(5, i, 99) * 20), at = 0;
        double score = 0;
        for (size_t j = 0; j < total; j++) text[j] = "aaabbcx"[(size_t)(zt_uniform(5, i, j) * 7)];
        text[total] = 0;
        zt_vocab_encode(made_model.v, text, total, 0, &ids);
        for (size_t k = 0; k < ids.count; k++) {
            size_t len = ids.id[k] == 2 ? strspn(text + at, "x") : strlen(t5_words[ids.id[k]].text);
            score += ids.id[k] == 2 ? (double)len * ((double)-9.97f - 10) : score_of(text + at, len);
            at += len;
        }
        if ((at != total || score < best_score(text, total) - 1e-6) && !bad++)
            diag("%s: %.3f, best is %.3f", text, score, best_score(text, total));
        zt_ids_fini(made_model.ctx, &ids);
    }
    ok(!bad, "2000 random words score as the best cut of all");
    close_made(&made_model);
}

static void test_t5(void)
{
    made plain = open_t5(false, false, false), spaced = open_t5(true, false, false);
    made merged = open_t5(true, true, false), bytes = open_t5(false, false, true);
    made words = open_t5(false, true, false);
    zt_str string;
    zt_str_init(&string, merged.ctx);
    cuts_into(&plain, "ab", 0, "ab");
    cuts_into(&plain, " ab", 0, " ab");
    cuts_into(&plain,
              "xx\xe4\xb8\xad"
              "axb",
              0, "?|a|?|b");
    cuts_into(&plain, "a\xff", 0, "a|?");
    cuts_into(&plain, "cc", 0, "cc");
    cuts_into(&plain, "a[u]a", 0, "a|[u]|a");
    cuts_into(&plain, "a", ZT_TOK_BOS_RULE, "a|</s>");
    cuts_into(&plain, "a</s>", ZT_TOK_SPECIAL, "a|</s>");
    cuts_into(&plain, "", 0, "");
    cuts_into(&spaced, "ab  a", 0, " ab| | a");
    cuts_into(&spaced, "[u]a", 0, "[u]| a");
    cuts_into(&merged, "  ab   a  ", 0, " ab| a");
    cuts_into(&merged, "   ", 0, "");
    cuts_into(&words, "ab  a ", 0, " ab| a"); /* as llama.cpp: a space before each word */
    cuts_into(&bytes, "a\xe4\xb8\xad", 0, "a|\xe4|\xb8|\xad");
    ok(!zt_vocab_decode(merged.v, 10, false, true, &string) && strcmp(string.data, "a") == 0,
       "the first token loses the space that was added");
    ok(zt_vocab_eos(plain.v) == 1 && zt_vocab_is_eog(plain.v, 1) && zt_vocab_bos(plain.v) == -1, "</s> ends, nothing begins");
    zt_str_fini(&string);
    close_made(&plain);
    close_made(&spaced);
    close_made(&merged);
    close_made(&words);
    close_made(&bytes);
}

/* ---- t5's charsmap --------------------------------------------------------------------------- */

/* Three keys as a double array: "x" to "a", "xy" to "b b", U+00C9 to U+00E9. A unit's children are
 * at its own place, offset and byte combined by exclusive or; a value's byte is 0. */
enum { UNITS = 2048, LEAF = 1 << 8 };
static const char replaced[] = "a\0b b\0\xc3\xa9"; /* at 0, 2, 6 */

static size_t charsmap(unsigned char *map)
{
    static uint32_t unit[UNITS];
    size_t x = 256 ^ 'x', xy = x ^ 512 ^ 'y', c3 = 256 ^ 0xc3, e = c3 ^ 768 ^ 0x89;
    memset(unit, 0, sizeof unit);
    unit[0] = 256u << 10;
    unit[x] = 512u << 10 | LEAF | 'x';
    unit[x ^ 512] = 1u << 31 | 0;
    unit[xy] = 1024u << 10 | LEAF | 'y';
    unit[xy ^ 1024] = 1u << 31 | 2;
    unit[c3] = 768u << 10 | 0xc3;
    unit[e] = 1280u << 10 | LEAF | 0x89;
    unit[e ^ 1280] = 1u << 31 | 6;
    for (size_t i = 0; i < 4; i++) map[i] = (unsigned char)(sizeof unit >> 8 * i);
    for (size_t i = 0; i < sizeof unit; i++) map[4 + i] = (unsigned char)(unit[i / 4] >> 8 * (i % 4));
    memcpy(map + 4 + sizeof unit, replaced, sizeof replaced);
    return 4 + sizeof unit + sizeof replaced;
}

static made open_mapped(const unsigned char *map, size_t n)
{
    ggufw w = {0};
    put_words(&w, "t5", t5_words, false);
    ggufw_array(&w, "tokenizer.ggml.precompiled_charsmap", 0, n, map, n);
    return open_made(&w);
}

static void set_unit(unsigned char *map, size_t at, uint32_t unit)
{
    for (size_t i = 0; i < 4; i++) map[4 + 4 * at + i] = (unsigned char)(unit >> 8 * i);
}

static void fails(const made *m, const char *text, const char *says)
{
    zt_ids ids = {0};
    zt_status s = m->v ? zt_vocab_encode(m->v, text, strlen(text), 0, &ids) : zt_ctx_status(m->ctx);
    if (!ok(s == ZT_EDATA && strstr(zt_ctx_error(m->ctx), says), "refused: %s", says)) diag("%s", zt_ctx_error(m->ctx));
    zt_ids_fini(m->ctx, &ids);
}

static void test_charsmap(void)
{
    static unsigned char map[4 + 4 * UNITS + sizeof replaced];
    size_t count = charsmap(map);
    made made_model = open_mapped(map, count);
    cuts_into(&made_model, "x", 0, "a");
    cuts_into(&made_model, "xyx", 0, "b| |b|a");
    cuts_into(&made_model, "\xc3\x89\xc3\xa9", 0, "\xc3\xa9|\xc3\xa9");
    cuts_into(&made_model,
              "\xc3\x8a"
              "b",
              0, "?|b");
    close_made(&made_model);

    made_model = open_mapped(map, 7);
    fails(&made_model, "x", "precompiled_charsmap: 7 bytes");
    close_made(&made_model);
    made_model = open_mapped(map, 4 * UNITS);
    fails(&made_model, "x", "a trie of 8192 bytes");
    close_made(&made_model);
    made_model = open_mapped(map, count - sizeof replaced);
    fails(&made_model, "x", "refers to byte 0 of 0");
    close_made(&made_model);
    set_unit(map, 256 ^ 'x', 0x1fffffu << 10 | LEAF | 'x');
    made_model = open_mapped(map, count);
    fails(&made_model, "x", "refers to unit");
    close_made(&made_model);
    set_unit(map, 0, 0x1fffffu << 10);
    made_model = open_mapped(map, count);
    fails(&made_model, "b", "refers to unit");
    close_made(&made_model);
    charsmap(map);
    set_unit(map, 256 ^ 'x' ^ 512, 1u << 31 | 500);
    made_model = open_mapped(map, count);
    fails(&made_model, "x", "refers to byte 500 of 9");
    close_made(&made_model);
}

/* ---- bert ------------------------------------------------------------------------------------ */

// clang-format off
static const word bert_words[] = {
    {"[PAD]", CONTROL, 0}, {"[UNK]", UNKNOWN, 0}, {"[CLS]", CONTROL, 0}, {"[SEP]", CONTROL, 0},
    {SP "hello", NORMAL, 0}, {SP "hell", NORMAL, 0}, {"o", NORMAL, 0}, {"s", NORMAL, 0},
    {SP "cafe", NORMAL, 0}, {SP ".", NORMAL, 0}, {SP "\xe4\xb8\xad", NORMAL, 0},
    {SP "a", NORMAL, 0}, {"b", NORMAL, 0}, {SP "$", NORMAL, 0}, {SP "\xe1\x84\x80", NORMAL, 0},
    {"\xe1\x85\xa1", NORMAL, 0}, {SP "\xc3\xa9", NORMAL, 0}, {SP "A", NORMAL, 0}, {NULL, 0, 0},
};
// clang-format on

static made open_bert(int lowercase, int strip)
{
    ggufw writer = {0};
    put_words(&writer, "bert", bert_words, false);
    ggufw_u32(&writer, "tokenizer.ggml.cls_token_id", 2);
    ggufw_u32(&writer, "tokenizer.ggml.seperator_token_id", 3);
    ggufw_u32(&writer, "tokenizer.ggml.unknown_token_id", 1);
    if (lowercase >= 0) ggufw_bool(&writer, "tokenizer.ggml.normalizer.lowercase", lowercase);
    if (strip >= 0) ggufw_bool(&writer, "tokenizer.ggml.normalizer.strip_accents", strip);
    return open_made(&writer);
}

static void test_bert(void)
{
    made made_model = open_bert(-1, -1), cased = open_bert(0, -1), accents = open_bert(1, 0);
    zt_str string;
    zt_str_init(&string, made_model.ctx);
    cuts_into(&made_model, "Hello HELLOS\thell.", 0, " hello| hello|s| hell| .");
    cuts_into(&made_model, "caf\xc3\xa9 cafe\xcc\x81", 0, " cafe| cafe");
    cuts_into(&made_model,
              "\xe4\xb8\xad"
              "a\xe4\xb8\xad",
              0, " \xe4\xb8\xad| a| \xe4\xb8\xad");
    cuts_into(&made_model, "a$a", 0, " a| $| a");
    cuts_into(&made_model, "ab az abb", 0, " a|b|[UNK]| a|b|b");
    cuts_into(&made_model,
              "\x01"
              "a\xe2\x80\x8b"
              "b\xff",
              0, " a|b");
    cuts_into(&made_model, "\xea\xb0\x80", 0, " \xe1\x84\x80|\xe1\x85\xa1");
    cuts_into(&made_model,
              "a\xc2\xa0\xe3\x80\x80"
              "a",
              0, " a| a");
    cuts_into(&made_model, "a", ZT_TOK_BOS_RULE, "[CLS]| a|[SEP]");
    cuts_into(&made_model, "[SEP] a", ZT_TOK_SPECIAL, "[SEP]| a");
    cuts_into(&made_model, " \t", 0, "");
    cuts_into(&cased, "A a", 0, " A| a");
    cuts_into(&cased, "\xc3\xa9", 0, " \xc3\xa9");
    cuts_into(&accents, "\xc3\x89", 0, " \xc3\xa9");
    ok(!zt_vocab_decode(made_model.v, 4, false, true, &string) && !zt_vocab_decode(made_model.v, 4, false, false, &string) &&
           strcmp(string.data, "hello hello") == 0,
       "no space before the first word");
    zt_str_fini(&string);
    close_made(&made_model);
    close_made(&cased);
    close_made(&accents);
}

/* ---- rwkv ------------------------------------------------------------------------------------ */

static const word rwkv_words[] = {
    {"<s>", CONTROL, 0}, {"\\x00", NORMAL, 0},  {"a", NORMAL, 0},       {"ab", NORMAL, 0},     {"abcd", NORMAL, 0},
    {"b", NORMAL, 0},    {"c", NORMAL, 0},      {"\\n", NORMAL, 0},     {"\\n\\n", NORMAL, 0}, {"\\xe4\\xb8", NORMAL, 0},
    {"\\\\", NORMAL, 0}, {"\\'\"\\t", USER, 0}, {"[PAD12]", UNUSED, 0}, {NULL, 0, 0},
};

static made open_rwkv(const word *words, int unknown)
{
    ggufw writer = {0};
    put_words(&writer, "rwkv", words, false);
    ggufw_u32(&writer, "tokenizer.ggml.bos_token_id", 0);
    ggufw_u32(&writer, "tokenizer.ggml.eos_token_id", 0);
    ggufw_u32(&writer, "tokenizer.ggml.eot_token_id", 8);
    if (unknown >= 0) ggufw_u32(&writer, "tokenizer.ggml.unknown_token_id", (uint32_t)unknown);
    return open_made(&writer);
}

static void test_rwkv(void)
{
    static const word broken[][2] = {
        {{"a\\xg0", NORMAL, 0}, {NULL, 0, 0}}, {{"a\\x1", NORMAL, 0}, {NULL, 0, 0}}, {{"a\\", NORMAL, 0}, {NULL, 0, 0}}};
    made made_model = open_rwkv(rwkv_words, -1), known = open_rwkv(rwkv_words, 2);
    cuts_into(&made_model, "abcab", 0, "ab|c|ab");
    cuts_into(&made_model, "abcdabc", 0, "abcd|ab|c");
    cuts_into(&made_model, "a\n\n\nb", 0, "a|\n\n|\n|b");
    cuts_into(&made_model, "\xe4\xb8\xad", 0, "\xe4\xb8"); /* the last byte has no token */
    cuts_into(&known, "\xe4\xb8\xad", 0, "\xe4\xb8|a");
    cuts_into(&made_model, "\\\\", 0, "\\|\\");
    cuts_into(&made_model, "a'\"\tb", 0, "a|'\"\t|b");
    cuts_into(&made_model, "<s>a[PAD12]", 0, "a");
    cuts_into(&made_model, "<s>a", ZT_TOK_SPECIAL, "<s>|a");
    cuts_into(&made_model, "a", ZT_TOK_BOS_RULE, "a");
    ok(zt_vocab_is_eog(made_model.v, 0) && zt_vocab_is_eog(made_model.v, 8) && !zt_vocab_is_eog(made_model.v, 7),
       "the first token ends a text, and two line ends do");
    close_made(&made_model);
    close_made(&known);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        ggufw writer = {0};
        size_t count;
        put_words(&writer, "rwkv", broken[i], false);
        made bad = {.ctx = zt_ctx_new()};
        bad.bytes = ggufw_bytes(&writer, &count);
        bad.src = zt_source_memory(bad.ctx, "made", bad.bytes, count);
        bad.g = zt_gguf_from(bad.ctx, bad.src);
        bad.v = zt_vocab_open(bad.g);
        ok(!bad.v && zt_ctx_status(bad.ctx) == ZT_EDATA && strstr(zt_ctx_error(bad.ctx), "has an escape that is not valid"),
           "'%s' is refused", broken[i][0].text);
        close_made(&bad);
    }
}

/* ---- gemma4; blanks that go with a token ----------------------------------------------------- */

static const word gemma4_words[] = {
    {"<pad>", CONTROL, 0}, {"<bos>", CONTROL, 0}, {"a", NORMAL, 0},    {"b", NORMAL, 0},   {"ab", NORMAL, 0}, {SP, NORMAL, 0},
    {SP "a", NORMAL, 0},   {"\n", NORMAL, 0},     {"\n\n", NORMAL, 0}, {SP SP, NORMAL, 0}, {NULL, 0, 0},
};
static const char *const gemma4_merges[] = {"a b", SP " a", SP " " SP};

static made open_gemma4(void)
{
    ggufw writer = {0};
    put_words(&writer, "gemma4", gemma4_words, true);
    ggufw_strs(&writer, "tokenizer.ggml.merges", (char *const *)gemma4_merges, 3);
    ggufw_u32(&writer, "tokenizer.ggml.bos_token_id", 1);
    ggufw_bool(&writer, "tokenizer.ggml.add_bos_token", false);
    return open_made(&writer);
}

static void test_gemma4(void)
{
    made made_model = open_gemma4();
    cuts_into(&made_model, "ab a", 0, "ab| a");
    cuts_into(&made_model, "a  b", 0, "a|  |b");
    cuts_into(&made_model, "a\n\nb\n\n\n", 0, "a|\n\n|b|\n|\n|\n");
    cuts_into(&made_model, "\xc3\xa9", 0, "\xc3|\xa9");
    cuts_into(&made_model, "a", ZT_TOK_BOS_RULE, "<bos>|a"); /* whatever the file says */
    close_made(&made_model);
}

static void test_strip(void)
{
    static const word words[] = {
        {"<unk>", UNKNOWN, 0},   {"<s>", CONTROL, 0}, {"</s>", CONTROL, 0},
        {"<|end|>", CONTROL, 0}, {"[u]", USER, 0},    {"<mask>", CONTROL, 0},
        {"a", NORMAL, 0},        {SP, NORMAL, 0},     {NULL, 0, 0},
    };
    for (int phi = 0; phi < 2; phi++) {
        ggufw writer = {0};
        put_words(&writer, "llama", words, true);
        ggufw_str(&writer, "general.name", phi ? "Phi-3-mini" : "other");
        ggufw_str(&writer, "general.architecture", phi ? "phi3" : "nomic-bert-moe");
        ggufw_bool(&writer, "tokenizer.ggml.add_space_prefix", false);
        made made_model = open_made(&writer);
        if (phi) {
            cuts_into(&made_model, "a<|end|> \n a", ZT_TOK_SPECIAL, "a|<|end|>|a");
            cuts_into(&made_model, "a<s> a", ZT_TOK_SPECIAL, "a|<s>| |a");
            cuts_into(&made_model, "a[u]  ", 0, "a|[u]");
        } else {
            cuts_into(&made_model, "a <mask> a", ZT_TOK_SPECIAL, "a|<mask>| |a");
            cuts_into(&made_model, " <mask>", ZT_TOK_SPECIAL, "<mask>");
            cuts_into(&made_model, "a [u] a", 0, "a| |[u]| |a");
        }
        close_made(&made_model);
    }
}

/* ---- faults, hostile keys -------------------------------------------------------------------- */

static void test_faults(void)
{
    static const char text[] = "hello ab  a [UNK] \xff\xc3\xa9  aaaaaaaaaaaa\n\nxyzxyzxyzxyzxyz";
    static unsigned char map[4 + 4 * UNITS + sizeof replaced];
    size_t n_map = charsmap(map);
    made made_model[] = {open_mapped(map, n_map), open_bert(1, 1), open_gemma4(), open_rwkv(rwkv_words, -1)};
    for (int k = 0; k < 4; k++) made_fails(&made_model[k], k, text, ZT_TOK_BOS_RULE);
}

/* Any key that names a token beyond the vocabulary. */
static void test_ids(void)
{
    static const char *const names[] = {
        "bos",    "eos",    "unknown", "padding", "seperator", "cls",     "mask",    "eot",     "eom",
        "prefix", "suffix", "middle",  "fim_pre", "fim_suf",   "fim_mid", "fim_pad", "fim_rep", "fim_sep",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[80], says[160];
        ggufw writer = {0};
        put_words(&writer, "t5", t5_words, false);
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", names[i]);
        snprintf(says, sizeof says, "'%s' is 16, but the vocabulary has 16 tokens", key);
        ggufw_u32(&writer, key, 16);
        made made_model = {.ctx = zt_ctx_new()};
        size_t count;
        made_model.bytes = ggufw_bytes(&writer, &count);
        made_model.src = zt_source_memory(made_model.ctx, "made", made_model.bytes, count);
        made_model.g = zt_gguf_from(made_model.ctx, made_model.src);
        made_model.v = zt_vocab_open(made_model.g);
        ok(!made_model.v && zt_ctx_status(made_model.ctx) == ZT_EDATA && strstr(zt_ctx_error(made_model.ctx), says),
           "a %s token beyond the vocabulary is refused", names[i]);
        close_made(&made_model);
    }
}

int main(void)
{
    test_unigram();
    test_t5();
    test_charsmap();
    test_bert();
    test_rwkv();
    test_gemma4();
    test_strip();
    test_faults();
    test_ids();
    return tap_done();
}
