/* vocab.c - a fuzz target for vocabularies: any text becomes tokens that there are, and text
 * again; any tokenizer's keys are refused, or make a vocabulary that does the same.
 *
 * The first byte chooses: below 0xf0 one of the vocabularies made here once (every pre-tokenizer,
 * every kind), the second byte the flags, the rest is text. From 0xf0 on the bytes are read as
 * keys. Drivers: see main.c and make fuzz.
 */
#include "lib/llm/vocab/vocab.h"
#include "tests/common/gguf_writer.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { MADE = 0xf0, MOST_TEXTS = 512, NUMBER_U8 = 0, NUMBER_I32 = 5, NUMBER_F32 = 6 };

static const char *const models[] = {"gpt2", "llama", "t5", "bert", "gemma4"};
enum { GPT2, LLAMA, T5, BERT, GEMMA4, N_MODELS };

typedef struct tokens { /* a list being made */
    char *text[MOST_TEXTS];
    int32_t type[MOST_TEXTS];
    float score[MOST_TEXTS];
    int n;
} tokens;

static void add(tokens *t, const char *text, size_t n, int type, float score)
{
    t->text[t->n] = strndup(text, n);
    t->type[t->n] = type;
    t->score[t->n++] = score;
}

static void put_tokens(ggufw *writer, const char *model, tokens *t)
{
    ggufw_str(writer, "tokenizer.ggml.model", model);
    ggufw_strs(writer, "tokenizer.ggml.tokens", t->text, (uint64_t)t->n);
    ggufw_array(writer, "tokenizer.ggml.token_type", NUMBER_I32, (uint64_t)t->n, t->type, 4 * (size_t)t->n);
    ggufw_array(writer, "tokenizer.ggml.scores", NUMBER_F32, (uint64_t)t->n, t->score, 4 * (size_t)t->n);
    for (int i = 0; i < t->n; i++) free(t->text[i]);
}

/* ---- one text -------------------------------------------------------------------------------- */

/* Byte-level BPE and SentencePiece that adds no space lose nothing, but that U+2581 is a space. */
static bool keeps_all(const zt_vocab *v, const char *text, size_t n)
{
    return v->kind == &zt_vocab_gpt2 && v->byte_level    ? true
           : v->kind == &zt_vocab_llama && !v->add_space ? !memmem(text, n, ZT_SPACE, ZT_SPACE_LEN)
                                                         : false;
}

static void try_text(const zt_vocab *vocab, const char *text, size_t total, unsigned flags, bool whole)
{
    zt_ids ids = {0};
    zt_str back;
    zt_str_init(&back, vocab->ctx);
    zt_status status = zt_vocab_encode(vocab, text, total, flags & ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; !status && i < ids.count; i++) status = zt_vocab_decode(vocab, ids.id[i], true, i == 0, &back);
    if (whole && status) abort(); /* the vocabularies made here take every text */
    if (whole && keeps_all(vocab, text, total) && (back.len != total || (total && memcmp(back.data, text, total) != 0))) abort();
    zt_ids_fini(vocab->ctx, &ids);
    zt_str_fini(&back);
}

/* ---- vocabularies made once ------------------------------------------------------------------ */

static uint32_t char_of_byte(int b) /* GPT-2's printable characters, the slow way */
{
    int next = 256, cp = -1;
    for (int i = 0; i <= b; i++) cp = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174 ? i : next++;
    return (uint32_t)cp;
}

static void add_bytes(tokens *t, bool printed)
{
    for (int b = 0; b < 256; b++) {
        char text[8];
        int count = printed ? zt_utf8_encode(char_of_byte(b), text) : snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        add(t, text, (size_t)count, printed ? ZT_TOK_NORMAL : ZT_TOK_BYTE, 0);
    }
}

static void add_words(tokens *t)
{
    // clang-format off
    static const char *const words[] = {
        "a", "b", "aa", "aaaa", "ab", "abc", "c", "1", "2", "3", "12", "123", ZT_SPACE, ZT_SPACE "a",
        ZT_SPACE ZT_SPACE, ZT_SPACE "abc", "\xc3\xa9", "\xe4\xb8\xad", ".", "e", "bc", "\n", "\n\n",
    };
    // clang-format on
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add(t, words[i], strlen(words[i]), ZT_TOK_NORMAL, -(float)(i * 7 % 20));
    add(t, "<unk>", 5, ZT_TOK_UNKNOWN, 0);
    add(t, "<s>", 3, ZT_TOK_CONTROL, 0);
    add(t, "[user]", 6, ZT_TOK_USER, 0);
    add(t, "[user] [user]", 13, ZT_TOK_USER, 0);
}

/* A double array that maps "a" to "b", "ab" to "" and U+00E9 to "e": units as vocab_charsmap.c
 * says. The root's children are at 0 ^ 256 ^ byte, those of "a" at 353 ^ 768 ^ byte, and so on. */
static void put_charsmap(ggufw *writer)
{
    enum { N = 2048 };
    static unsigned char map[4 + 4 * N + 6];
    static uint32_t unit[N];
    memset(unit, 0, sizeof unit);
    unit[0] = 256u << 10;
    unit[256 ^ 'a'] = (512u << 10) | 1u << 8 | 'a'; /* its value at 353 ^ 512 */
    unit[(256 ^ 'a') ^ 512] = 1u << 31;             /* "b" */
    unit[(256 ^ 'a') ^ 512 ^ 'b'] = (1024u << 10) | 1u << 8 | 'b';
    unit[(256 ^ 'a') ^ 512 ^ 'b' ^ 1024] = 1u << 31 | 4; /* "" */
    unit[256 ^ 0xc3] = (1024u << 10) | 0xc3;
    unit[(256 ^ 0xc3) ^ 1024 ^ 0xa9] = (512u << 10) | 1u << 8 | 0xa9;
    unit[(256 ^ 0xc3) ^ 1024 ^ 0xa9 ^ 512] = 1u << 31 | 2; /* "e" */
    for (size_t i = 0; i < 4; i++) map[i] = (unsigned char)(4 * N >> 8 * i);
    for (size_t i = 0; i < 4 * N; i++) map[4 + i] = (unsigned char)(unit[i / 4] >> 8 * (i % 4));
    memcpy(map + 4 + 4 * N, "b\0e\0\0", 6);
    ggufw_array(writer, "tokenizer.ggml.precompiled_charsmap", NUMBER_U8, sizeof map, map, sizeof map);
}

static const char *const merges[] = {"a a", "aa aa", "a b", "ab c", "b c", "1 2", "12 3"};
enum { N_MERGES = sizeof merges / sizeof *merges };

static void make_vocab(ggufw *writer, int model, const char *pre, bool space)
{
    tokens t = {0};
    add_bytes(&t, model == GPT2);
    if (model == GPT2) {
        static const char *const made[] = {"aa", "aaaa", "ab", "abc", "bc", "12", "123"};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) add(&t, made[i], strlen(made[i]), ZT_TOK_NORMAL, 0);
        add(&t, "<s>", 3, ZT_TOK_CONTROL, 0);
        add(&t, "[user]", 6, ZT_TOK_USER, 0);
    } else {
        add_words(&t);
    }
    put_tokens(writer, models[model], &t);
    if (pre) ggufw_str(writer, "tokenizer.ggml.pre", pre);
    if (model == GPT2 || model == GEMMA4) ggufw_strs(writer, "tokenizer.ggml.merges", (char *const *)merges, N_MERGES);
    if (model == T5) put_charsmap(writer);
    ggufw_bool(writer, "tokenizer.ggml.add_space_prefix", space);
    ggufw_bool(writer, "tokenizer.ggml.remove_extra_whitespaces", space);
}

typedef struct made { /* an open vocabulary, and what it stands on */
    zt_ctx *ctx;
    char *bytes;
    zt_source *src;
    zt_gguf *g;
    zt_vocab *v;
} made;

static void open_made(made *made_model, int model, const char *pre, bool space)
{
    ggufw writer = {0};
    size_t count;
    make_vocab(&writer, model, pre, space);
    made_model->ctx = zt_ctx_new();
    made_model->bytes = ggufw_bytes(&writer, &count);
    made_model->src = zt_source_memory(made_model->ctx, "made", made_model->bytes, count);
    made_model->g = zt_gguf_from(made_model->ctx, made_model->src);
    made_model->v = made_model->g ? zt_vocab_open(made_model->g) : NULL;
    if (!made_model->v) {
        fprintf(stderr, "%s\n", zt_ctx_error(made_model->ctx));
        abort();
    }
}

/* Opened when first asked for, and kept. */
static const zt_vocab *made_vocab(unsigned i)
{
    static made all[MADE];
    static unsigned n_pre;
    while (zt_pre_name((int)n_pre)) n_pre++;
    unsigned other = 2 * (N_MODELS - 1);
    i %= n_pre + other < MADE ? n_pre + other : MADE;
    if (!all[i].v && i < other)
        open_made(&all[i], 1 + (int)(i / 2), NULL, i % 2);
    else if (!all[i].v)
        open_made(&all[i], GPT2, zt_pre_name((int)(i - other)), false);
    return all[i].v;
}

/* ---- keys from bytes ------------------------------------------------------------------------- */

typedef struct input {
    const uint8_t *p, *end;
} input;

static unsigned take_number(input *in) { return in->p < in->end ? *in->p++ : 0; }

static size_t take_piece(input *in, size_t n, const char **piece)
{
    size_t left = (size_t)(in->end - in->p);
    *piece = (const char *)in->p;
    n = n < left ? n : left;
    in->p += n;
    return n;
}

/* Lists of a length each, pieces with theirs. */
static void keys_of(input *in, ggufw *writer)
{
    tokens t = {0};
    char *lines[32] = {0};
    int n_lines = 0;
    const char *piece;
    unsigned kind = take_number(in), flags = take_number(in), n = 1 + take_number(in) % 64;
    for (unsigned i = 0; i < n; i++) {
        unsigned head = take_number(in);
        size_t len = take_piece(in, head % 8, &piece);
        add(&t, piece, len, (int)(head >> 5), -(float)(head >> 3 & 3));
    }
    put_tokens(writer, models[kind % N_MODELS], &t);
    for (unsigned k = take_number(in) % 32; k; k--) {
        size_t len = take_piece(in, take_number(in) % 16, &piece);
        lines[n_lines++] = strndup(piece, len);
    }
    ggufw_strs(writer, "tokenizer.ggml.merges", lines, (uint64_t)n_lines);
    while (n_lines) free(lines[--n_lines]);
    size_t len = take_piece(in, flags & 1 ? 4 * take_number(in) : 0, &piece);
    ggufw_array(writer, "tokenizer.ggml.precompiled_charsmap", NUMBER_U8, len, piece, len);
    ggufw_bool(writer, "tokenizer.ggml.add_space_prefix", flags & 2);
    ggufw_bool(writer, "tokenizer.ggml.remove_extra_whitespaces", flags & 4);
    ggufw_u32(writer, "tokenizer.ggml.unknown_token_id", flags & 8 ? take_number(in) : 0);
    ggufw_u32(writer, "tokenizer.ggml.seperator_token_id", flags & 16 ? take_number(in) : 0);
    ggufw_str(writer, "tokenizer.ggml.pre", "gpt-2");
}

static void try_keys(const uint8_t *bytes, size_t count)
{
    input in = {bytes, bytes + count};
    ggufw writer = {0};
    zt_ctx *ctx = zt_ctx_new();
    size_t size;
    keys_of(&in, &writer);
    char *file = ggufw_bytes(&writer, &size);
    zt_source *src = zt_source_memory(ctx, "fuzz", file, size);
    zt_gguf *gguf = zt_gguf_from(ctx, src);
    zt_vocab *vocab = gguf ? zt_vocab_open(gguf) : NULL;
    if (vocab)
        try_text(vocab, (const char *)in.p, (size_t)(in.end - in.p), ZT_TOK_SPECIAL, false);
    else if (zt_ctx_status(ctx) != ZT_EDATA && zt_ctx_status(ctx) != ZT_ENOTSUP)
        abort();
    zt_vocab_free(vocab);
    zt_gguf_close(gguf);
    zt_source_close(src);
    if (zt_mem_get(ctx).blocks) abort();
    zt_ctx_free(ctx);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (n > 1 && bytes[0] < MADE)
        try_text(made_vocab(bytes[0]), (const char *)bytes + 2, n - 2, bytes[1], true);
    else if (n > 1)
        try_keys(bytes + 1, n - 1);
    return 0;
}
