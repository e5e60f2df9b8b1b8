/* vocab.c - tests of vocabularies: made ones against a plain quadratic merge, every allocation
 * failing, hostile keys. (Those of real models: golden_vocab.c, golden_vocab_llm.c.) */
#include "tests/llm/made_vocab.h"

#include <string.h>

#define SPACE "\xe2\x96\x81"

/* ---- made vocabularies ----------------------------------------------------------------------- */

typedef struct list { /* of tokens being made */
    char *text[1000];
    int32_t type[1000];
    float score[1000];
    int n;
} list;

static int add(list *l, const char *text, int type, float score)
{
    l->text[l->n] = strdup(text);
    l->type[l->n] = type;
    l->score[l->n] = score;
    return l->n++;
}

static void put_list(ggufw *w, const char *model, list *l)
{
    ggufw_str(w, "tokenizer.ggml.model", model);
    ggufw_strs(w, "tokenizer.ggml.tokens", l->text, (uint64_t)l->n);
    ggufw_array(w, "tokenizer.ggml.token_type", 5, (uint64_t)l->n, l->type, 4 * (size_t)l->n);
    if (strcmp(model, "llama") == 0) ggufw_array(w, "tokenizer.ggml.scores", 6, (uint64_t)l->n, l->score, 4 * (size_t)l->n);
}

static void free_list(list *l)
{
    for (int i = 0; i < l->n; i++) free(l->text[i]);
}

/* GPT-2's printable character of a byte, the slow way. */
static void byte_text(int b, char *out)
{
    int next = 256, cp = -1;
    for (int i = 0; i <= b; i++) {
        bool prints = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        cp = prints ? i : next++;
    }
    out[zt_utf8_encode((uint32_t)cp, out)] = 0;
}

static const char *const bpe_merges[] = {"h e",       "l l", "he ll", "hell o", "\xc4\xa0 h",        "a a", "aa aa",
                                         "aaaa aaaa", "b c", "a b",   "ab c",   "\xc4\xa0 \xc4\xa0", "1 2"};
enum { N_MERGES = sizeof bpe_merges / sizeof *bpe_merges };

/* Bytes are tokens 0 .. 255, then the merges, then special tokens. */
static void make_bpe(ggufw *writer, const char *pre)
{
    list l = {0};
    char text[64];
    for (int b = 0; b < 256; b++) {
        byte_text(b, text);
        add(&l, text, 1, 0);
    }
    for (int i = 0; i < N_MERGES; i++) {
        const char *sp = strchr(bpe_merges[i], ' ');
        snprintf(text, sizeof text, "%.*s%s", (int)(sp - bpe_merges[i]), bpe_merges[i], sp + 1);
        add(&l, text, 1, 0);
    }
    int end = add(&l, "<|im_end|>", 3, 0);
    add(&l, "<user>", 4, 0);
    add(&l, "<user><user>", 4, 0);
    add(&l, "<unk>", 2, 0);
    put_list(writer, "gpt2", &l);
    ggufw_strs(writer, "tokenizer.ggml.merges", (char *const *)bpe_merges, N_MERGES);
    if (pre) ggufw_str(writer, "tokenizer.ggml.pre", pre);
    ggufw_u32(writer, "tokenizer.ggml.bos_token_id", (uint32_t)end);
    ggufw_u32(writer, "tokenizer.ggml.eos_token_id", (uint32_t)end);
    free_list(&l);
}

static void make_spm(ggufw *writer, bool space)
{
    static const char *const words[] = {"h",    "e",     "l",       "o",           "a",  "b",    "c",  SPACE, "he",  "ll",
                                        "hell", "hello", SPACE "h", SPACE "hello", "aa", "aaaa", "ab", "bc",  "abc", SPACE SPACE};
    list l = {0};
    char text[64];
    add(&l, "<unk>", 2, 0);
    add(&l, "<s>", 3, 0);
    add(&l, "</s>", 3, 0);
    for (int b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        add(&l, text, 6, 0);
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) add(&l, words[i], 1, -(float)(i * 7 % 20));
    add(&l, "[user]", 4, 0);
    put_list(writer, "llama", &l);
    ggufw_bool(writer, "tokenizer.ggml.add_space_prefix", space);
    free_list(&l);
}

static made open_bpe(const char *pre)
{
    ggufw w = {0};
    make_bpe(&w, pre);
    return open_made(&w);
}

static made open_spm(bool space)
{
    ggufw w = {0};
    make_spm(&w, space);
    return open_made(&w);
}

/* The tokens of text by their texts, with a bar between. */
static const char *cut_text(const made *made_model, const char *text, size_t total, unsigned flags, char *buf, size_t room)
{
    zt_ids ids = {0};
    zt_str string;
    zt_str_init(&string, made_model->ctx);
    zt_vocab_encode(made_model->v, text, total, flags, &ids);
    for (size_t i = 0; i < ids.count; i++) {
        zt_str_puts(&string, i ? "|" : "");
        zt_vocab_decode(made_model->v, ids.id[i], true, false, &string);
    }
    snprintf(buf, room, "%s", string.data ? string.data : "");
    zt_str_fini(&string);
    zt_ids_fini(made_model->ctx, &ids);
    return buf;
}

static void test_cuts(void)
{
    static const struct {
        char kind; /* g gpt-2, s smollm, l llama, p llama with a space before */
        unsigned flags;
        const char *text, *cut;
    } cases[] = {
        {'g', 0, "", ""},
        {'g', 0, "hello", "hello"},
        {'g', 0, "hello hello", "hello| |hello"}, /* "h e" is listed before "\u0120 h" */
        {'g', 0, "ahello", "a|hello"},
        {'g', 0, "abc", "a|bc"}, /* "b c" is listed before "a b" */
        {'g', 0, "aaaaa", "aaaa|a"},
        {'g', 0, "a  b", "a| | |b"}, /* the last space belongs to b's piece */
        {'g', 0, "a  ", "a|  "},
        {'g', 0, "12", "12"},
        {'s', 0, "12", "1|2"},   /* digits one by one */
        {'s', 0, "  1", "  |1"}, /* and what stands before a digit ends there */
        {'g', 0, "<|im_end|>", "<|||i|m|_|e|n|d|||>"},
        {'g', ZT_TOK_SPECIAL, "a<|im_end|>b", "a|<|im_end|>|b"},
        {'g', 0, "a<user>b", "a|<user>|b"},
        {'g', 0, "<user><user><user>", "<user><user>|<user>"},
        {'g', 0, "<use", "<|u|s|e"},
        {'g', ZT_TOK_SPECIAL, "<unk>", "<unk>"},
        {'g', 0, "<unk>", "<|u|n|k|>"},
        {'g', ZT_TOK_BOS, "a", "<|im_end|>|a"},
        {'g', ZT_TOK_BOS_RULE, "a", "a"},
        {'l', 0, "hello", "hello"},
        {'l', 0, " hello", " h|e|ll|o"}, /* " h" scores above "he" */
        {'p', 0, "hello", " h|e|ll|o"},
        {'p', 0, "", ""},
        {'l', 0, "a[user]b", "a|[user]|b"},
        {'p', 0, "a[user]h", " |a|[user]| h"},
        {'l', 0, "<s>", "<|s|>"},
        {'l', ZT_TOK_SPECIAL, "<s>a</s>", "<s>|a|</s>"},
        {'l', ZT_TOK_BOS_RULE, "a", "<s>|a"},
        {'l', 0, "\xc3\xa9", "\xc3|\xa9"},
        {'l', 0, SPACE, " "},
    };
    made g = open_bpe("gpt-2"), s = open_bpe("smollm"), l = open_spm(false), p = open_spm(true);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buf[200], kind = cases[i].kind;
        const made *made_model = kind == 'g' ? &g : kind == 's' ? &s : kind == 'l' ? &l : &p;
        cut_text(made_model, cases[i].text, strlen(cases[i].text), cases[i].flags, buf, sizeof buf);
        if (!ok(strcmp(buf, cases[i].cut) == 0, "%c: '%s' is cut into '%s'", kind, cases[i].text, cases[i].cut))
            diag("got '%s'", buf);
    }
    close_made(&g);
    close_made(&s);
    close_made(&l);
    close_made(&p);
}

/* ---- against a plain merge ------------------------------------------------------------------- */

static int merge_rank(const made *made_model, bool spm, const char *a, const char *b)
{
    char text[200];
    snprintf(text, sizeof text, "%s%s", a, b);
    if (spm) {
        int32_t id = zt_vocab_find(made_model->v, text, strlen(text));
        int32_t base = zt_vocab_find(made_model->v, "h", 1);
        return id < base ? -1 : (id - base) * 7 % 20;
    }
    snprintf(text, sizeof text, "%s %s", a, b);
    for (int i = 0; i < N_MERGES; i++)
        if (strcmp(text, bpe_merges[i]) == 0) return i;
    return -1;
}

/* Merge the leftmost of the best pairs until there is none; letters only. */
static void plain_merge(const made *made_model, bool spm, const char *text, char *out, size_t room)
{
    static char sym[64][64];
    char both[130];
    int count = 0;
    for (; text[count]; count++) snprintf(sym[count], sizeof sym[count], "%c", text[count]);
    for (;;) {
        int best = -1, at = 0;
        for (int i = 0; i + 1 < count; i++) {
            int r = merge_rank(made_model, spm, sym[i], sym[i + 1]);
            if (r >= 0 && (best < 0 || r < best)) best = r, at = i;
        }
        if (best < 0) break;
        snprintf(both, sizeof both, "%s%s", sym[at], sym[at + 1]);
        memcpy(sym[at], both, sizeof sym[at]);
        memmove(sym[at + 1], sym[at + 2], sizeof *sym * (size_t)(count - at - 2));
        count--;
    }
    out[0] = 0;
    for (int i = 0; i < count; i++) snprintf(out + strlen(out), room - strlen(out), "%s%s", i ? "|" : "", sym[i]);
}

static void test_plain(void)
{
    made made_model[2] = {open_bpe("gpt-2"), open_spm(false)};
    for (int k = 0; k < 2; k++) {
        int bad = 0;
        for (uint64_t i = 0; i < 3000; i++) {
            char text[40], want[200], got[200];
            int count = 1 + (int)(zt_uniform(1, i, 99) * 30);
            for (int j = 0; j < count; j++) text[j] = "helloabca"[(int)(zt_uniform(1, i, (uint64_t)j) * 9)];
            text[count] = 0;
            plain_merge(&made_model[k], k == 1, text, want, sizeof want);
            cut_text(&made_model[k], text, (size_t)count, 0, got, sizeof got);
            if (strcmp(want, got) != 0 && !bad++) diag("%s: expected %s, got %s", text, want, got);
        }
        ok(!bad, "3000 random words are merged as one pair after the other would be, kind %d", k);
        close_made(&made_model[k]);
    }
}

/* ---- any bytes ------------------------------------------------------------------------------- */

static bool round_trip(const made *made_model, const char *text, size_t total)
{
    zt_ids ids = {0};
    zt_str string;
    zt_str_init(&string, made_model->ctx);
    bool good = zt_vocab_encode(made_model->v, text, total, 0, &ids) == ZT_OK;
    for (size_t i = 0; good && i < ids.count; i++)
        good = zt_vocab_decode(made_model->v, ids.id[i], true, i == 0, &string) == ZT_OK;
    good = good && string.len == total && (total == 0 || memcmp(string.data, text, total) == 0);
    zt_str_fini(&string);
    zt_ids_fini(made_model->ctx, &ids);
    return good;
}

static void test_bytes(void)
{
    static const struct {
        const char *what;
        int kind;
    } big[] = {{"one letter", 0},   {"spaces", 1}, {"digits", 2},
               {"random bytes", 3}, {"lines", 4},  {"the start of a special token", 5}};
    static const char *const broken[] = {
        "\x80",     "\xff\xfe",         "a\xc3",  "\xc3(",     "\xe2\x96", "\xf0\x9f\x98", "\xed\xa0\x80",
        "\xc0\x80", "\xf4\x90\x80\x80", " \xff ", "\xffhello",
    };
    made made_model[3] = {open_bpe("smollm"), open_spm(false), open_spm(true)};
    enum { N = 1 << 20 };
    char *text = malloc(N);
    for (int k = 0; k < 3; k++) {
        bool good = true;
        for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
            good = good && round_trip(&made_model[k], broken[i], strlen(broken[i]));
        ok(good, "broken UTF-8 comes back, vocabulary %d", k);
        good = true;
        for (uint64_t i = 0; i < 500; i++) {
            size_t count = (size_t)(zt_uniform(3, i, 0) * 40);
            for (size_t j = 0; j < count; j++) text[j] = (char)(zt_uniform(3, i, j + 1) * 256);
            good = good && round_trip(&made_model[k], text, count);
        }
        ok(good, "500 random strings of bytes come back, vocabulary %d", k);
        for (size_t b = 0; b < sizeof big / sizeof *big; b++) {
            for (size_t i = 0; i < N; i++)
                text[i] = big[b].kind == 0   ? 'a'
                          : big[b].kind == 1 ? ' '
                          : big[b].kind == 2 ? (char)('0' + i % 10)
                          : big[b].kind == 3 ? (char)(zt_uniform(4, 0, i) * 256)
                          : big[b].kind == 4 ? '\n'
                                             : "<user"[i % 5];
            ok(round_trip(&made_model[k], text, N), "1 MiB of %s comes back, vocabulary %d", big[b].what, k);
        }
    }
    for (int k = 0; k < 3; k++) close_made(&made_model[k]);
    free(text);
}

/* ---- questions, faults, hostile files -------------------------------------------------------- */

static void test_questions(void)
{
    made made_model = open_bpe(NULL);
    zt_str string;
    zt_str_init(&string, made_model.ctx);
    int32_t end = zt_vocab_find(made_model.v, "<|im_end|>", 10), unk = zt_vocab_find(made_model.v, "<unk>", 5);
    ok(end == 256 + N_MERGES && zt_vocab_size(made_model.v) == end + 4, "find and size");
    ok(zt_vocab_bos(made_model.v) == end && zt_vocab_eos(made_model.v) == end, "bos and eos");
    ok(zt_vocab_is_eog(made_model.v, end) && !zt_vocab_is_eog(made_model.v, 0) && !zt_vocab_is_eog(made_model.v, -1) &&
           !zt_vocab_is_eog(made_model.v, end + 4),
       "what ends a generation");
    ok(zt_vocab_is_control(made_model.v, end) && !zt_vocab_is_control(made_model.v, end + 1), "control tokens");
    ok(zt_vocab_find(made_model.v, "nope", 4) == -1 && zt_vocab_find(made_model.v, "", 0) == -1, "no such text");
    ok(!zt_vocab_decode(made_model.v, end, false, false, &string) && !zt_vocab_decode(made_model.v, unk, false, false, &string) &&
           string.len == 0,
       "control tokens print nothing");
    ok(!zt_vocab_decode(made_model.v, end, true, false, &string) && strcmp(string.data, "<|im_end|>") == 0, "or their text");
    zt_str_clear(&string);
    ok(!zt_vocab_decode(made_model.v, end + 1, false, false, &string) && strcmp(string.data, "<user>") == 0,
       "what a user defined prints always");
    ok(zt_vocab_decode(made_model.v, end + 4, true, false, &string) == ZT_EUSAGE &&
           strstr(zt_ctx_error(made_model.ctx), "token id 273 is out of range: the vocabulary has 273 tokens"),
       "an id out of range");
    zt_str_fini(&string);
    close_made(&made_model);
}

/* A file that names no pre-tokenizer, or another, and the caller's choice. */
static void test_pre(void)
{
    made made_model = open_bpe("gpt-2");
    char buf[100];
    zt_vocab_free(made_model.v);
    made_model.v = zt_vocab_open_pre(made_model.g, "smollm");
    ok(made_model.v && strcmp(cut_text(&made_model, "a12", 3, 0, buf, sizeof buf), "a|1|2") == 0,
       "the caller's pre-tokenizer instead of the file's");
    zt_vocab_free(made_model.v);
    made_model.v = zt_vocab_open_pre(made_model.g, NULL);
    ok(made_model.v && strcmp(cut_text(&made_model, "a12", 3, 0, buf, sizeof buf), "a|12") == 0, "the file's without");
    ok(!zt_vocab_open_pre(made_model.g, "gpt-9\x1b") && zt_ctx_status(made_model.ctx) == ZT_ENOTSUP &&
           strstr(zt_ctx_error(made_model.ctx), "unknown pre-tokenizer 'gpt-9\\x1b'"),
       "one that is not known");
    close_made(&made_model);
}

static void test_faults(void)
{
    static const char text[] = "hello 12 <|im_end|> \xff\xc3\xa9  aaaaaaaaaaaaaaaa"
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    made m[] = {open_bpe("smollm"), open_spm(true)};
    for (int k = 0; k < 2; k++) made_fails(&m[k], k, text, ZT_TOK_BOS);
}

static void test_hostile(void)
{
    static char *two[] = {"a", "b"}, *merges[] = {"a b"}, *one_word[] = {"a"};
    static const int32_t types[] = {1, 9}, three[] = {1, 1, 1};
    static const float scores[] = {0, 0}, nan_scores[] = {0, 0.0f / 0.0f};
    static const struct {
        const char *what;
        zt_status status;
        const char *says;
    } cases[] = {
        {"no tokenizer", ZT_EDATA, "'tokenizer.ggml.model' is missing"},
        {"an unknown one", ZT_ENOTSUP, "unknown tokenizer 'bert\\x1b'"},
        {"no tokens", ZT_EDATA, "'tokenizer.ggml.tokens'"},
        {"an unknown pre-tokenizer", ZT_ENOTSUP, "unknown pre-tokenizer 'qwen99'"},
        {"no merges", ZT_EDATA, "'tokenizer.ggml.merges'"},
        {"a merge of no tokens", ZT_EDATA, "merge 0, 'a b'"},
        {"a merge of one word", ZT_EDATA, "merge 0, 'a'"},
        {"a type that is none", ZT_EDATA, "token 1 has the unknown type 9"},
        {"types of another number", ZT_EDATA, "3 token types for 2 tokens"},
        {"no scores", ZT_EDATA, "'tokenizer.ggml.scores' has 0 scores"},
        {"a score that is NaN", ZT_EDATA, "the score of token 1"},
        {"bos out of range", ZT_EDATA, "'tokenizer.ggml.bos_token_id' is 2, but the vocabulary has 2"},
        {"eot out of range", ZT_EDATA, "'tokenizer.ggml.eot_token_id' is 7"},
        {"a special token without end", ZT_EDATA, "special token 1 has 600 bytes"},
        {"tokens that are numbers", ZT_EDATA, "'tokenizer.ggml.tokens'"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        bool spm = i == 9 || i == 10;
        ggufw writer = {0};
        char *long_one[] = {"a", NULL}, text[601];
        memset(text, 'x', 600);
        text[600] = 0;
        long_one[1] = text;
        if (i != 0) ggufw_str(&writer, "tokenizer.ggml.model", i == 1 ? "bert\x1b" : spm ? "llama" : "gpt2");
        if (i == 14)
            ggufw_array(&writer, "tokenizer.ggml.tokens", 5, 2, types, 8);
        else if (i != 2)
            ggufw_strs(&writer, "tokenizer.ggml.tokens", i == 13 ? long_one : two, 2);
        if (i == 3) ggufw_str(&writer, "tokenizer.ggml.pre", "qwen99");
        if (i == 5 || i == 6 || i == 13)
            ggufw_strs(&writer, "tokenizer.ggml.merges", i == 6 ? one_word : merges, i == 13 ? 0 : 1);
        if (i == 7 || i == 13) ggufw_array(&writer, "tokenizer.ggml.token_type", 5, 2, i == 7 ? types : (int32_t[]){1, 4}, 8);
        if (i == 8) ggufw_array(&writer, "tokenizer.ggml.token_type", 5, 3, three, 12);
        if (i == 10) ggufw_array(&writer, "tokenizer.ggml.scores", 6, 2, nan_scores, sizeof scores);
        if (i == 11) ggufw_u32(&writer, "tokenizer.ggml.bos_token_id", 2);
        if (i == 12) ggufw_u32(&writer, "tokenizer.ggml.eot_token_id", 7);
        made made_model = open_made(&writer);
        if (!ok(!made_model.v && zt_ctx_status(made_model.ctx) == cases[i].status &&
                    strstr(zt_ctx_error(made_model.ctx), cases[i].says),
                "%s is refused", cases[i].what))
            diag("%s", zt_ctx_error(made_model.ctx));
        close_made(&made_model);
    }
}

int main(void)
{
    test_cuts();
    test_plain();
    test_bytes();
    test_questions();
    test_pre();
    test_faults();
    test_hostile();
    return tap_done();
}
