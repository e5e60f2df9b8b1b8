/* made_vocab_keys.h - for tests: the vocabularies of made models (mkmodel.h), as GGUF's keys. */
#ifndef ZT_MADE_VOCAB_KEYS_H
#define ZT_MADE_VOCAB_KEYS_H

#include "tests/common/gguf_writer.h"

typedef struct mkmodel_vocab {
    char **token, **merge;
    float *score;
    int32_t *type; /* 1 normal, 2 unknown, 3 control, 6 byte */
    int64_t n, n_merges, cap;
} mkmodel_vocab;

GGUFW_FN void mkmodel_token(mkmodel_vocab *v, const char *text, int32_t type, float score)
{
    if (v->n == v->cap) return;
    v->token[v->n] = strdup(text);
    v->type[v->n] = type;
    v->score[v->n++] = score;
}

GGUFW_FN bool mkmodel_knows(const mkmodel_vocab *v, int64_t from, int64_t to, const char *text)
{
    for (int64_t i = from; i < to; i++) {
        if (strcmp(v->token[i], text) == 0) return true;
    }
    return false;
}

/* A token made of two others, for both kinds of vocabulary. */
GGUFW_FN void mkmodel_join(mkmodel_vocab *v, const char *a, const char *b)
{
    char text[64], merge[64];
    if (v->n == v->cap) return;
    snprintf(text, sizeof text, "%s%s", a, b);
    snprintf(merge, sizeof merge, "%s %s", a, b);
    v->merge[v->n_merges++] = strdup(merge);
    mkmodel_token(v, text, 1, -(float)v->n_merges);
}

/* A few words' joins, then aa, ab ... zz, aaa ... until the vocabulary is full. */
GGUFW_FN void mkmodel_joins(mkmodel_vocab *v, const char *space)
{
    static const char *const words[][2] = {{"_", "t"}, {"h", "e"}, {"_", "a"}, {"i", "n"},   {"_t", "he"}, {"r", "e"},
                                           {"o", "n"}, {"_", "s"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}};
    int64_t first = v->n;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char a[16];
        bool spaced = words[i][0][0] == '_';
        snprintf(a, sizeof a, "%s%s", spaced ? space : "", words[i][0] + spaced);
        mkmodel_join(v, a, words[i][1]);
    }
    int64_t last = v->n;
    for (int64_t k = 0; v->n < v->cap; k++) {
        char text[16] = "", one[2] = "a"; /* k in base 26, two letters at least */
        int64_t digits = 2, base = 26 * 26, rest = k;
        for (; rest >= base; digits++, base *= 26) rest -= base;
        for (int64_t i = digits - 1; i >= 0; i--, rest /= 26) text[i] = (char)('a' + rest % 26);
        if (mkmodel_knows(v, first, last, text)) continue;
        one[0] = text[digits - 1];
        text[digits - 1] = 0;
        mkmodel_join(v, text, one);
    }
}

/* GPT-2's printable stand-in for a byte, as UTF-8 (its bytes_to_unicode, as a fact). */
GGUFW_FN void mkmodel_byte_text(int byte, char out[5])
{
    int code = byte, count = 0;
    for (int b = 0; b <= byte; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        if (b == byte && !plain) code = 256 + count;
        count += !plain;
    }
    out[zt_utf8_encode((uint32_t)code, out)] = 0;
}

GGUFW_FN void mkmodel_bpe(mkmodel_vocab *v)
{
    char text[8];
    mkmodel_token(v, "<|endoftext|>", 3, 0);
    mkmodel_token(v, "<|im_start|>", 3, 0);
    mkmodel_token(v, "<|im_end|>", 3, 0);
    for (int b = 0; b < 256; b++) {
        mkmodel_byte_text(b, text);
        mkmodel_token(v, text, 1, 0);
    }
    mkmodel_joins(v, "\xc4\xa0");
}

GGUFW_FN void mkmodel_spm(mkmodel_vocab *v)
{
    static const char *const control[] = {"<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"};
    char text[8];
    for (int i = 0; i < 6; i++) mkmodel_token(v, control[i], i == 3 ? 2 : 3, -1000);
    for (int b = 0; b < 256; b++) {
        snprintf(text, sizeof text, "<0x%02X>", b);
        mkmodel_token(v, text, 6, -1000);
    }
    mkmodel_token(v, "\xe2\x96\x81", 1, -500); /* the space */
    mkmodel_token(v, "\n", 1, -500);
    for (char c = 33; c < 127; c++) mkmodel_token(v, (char[]){c, 0}, 1, -500);
    mkmodel_joins(v, "\xe2\x96\x81");
}

/* A vocabulary of `vocab` tokens: SentencePiece's (gemma) or byte-level BPE. */
GGUFW_FN void mkmodel_vocab_keys(ggufw *writer, bool gemma, int64_t vocab)
{
    size_t count = (size_t)vocab;
    mkmodel_vocab v = {.token = calloc(count, sizeof(char *)),
                       .merge = calloc(count, sizeof(char *)),
                       .score = calloc(count, 4),
                       .type = calloc(count, 4),
                       .cap = vocab};
    if (!v.token || !v.merge || !v.score || !v.type) abort();
    if (gemma)
        mkmodel_spm(&v);
    else
        mkmodel_bpe(&v);
    ggufw_str(writer, "tokenizer.ggml.model", gemma ? "llama" : "gpt2");
    ggufw_str(writer, "tokenizer.ggml.pre", gemma ? "default" : "smollm");
    ggufw_strs(writer, "tokenizer.ggml.tokens", v.token, count);
    if (gemma) ggufw_array(writer, "tokenizer.ggml.scores", 6, count, v.score, 4 * count);
    ggufw_array(writer, "tokenizer.ggml.token_type", 5, count, v.type, 4 * count);
    if (!gemma) ggufw_strs(writer, "tokenizer.ggml.merges", v.merge, (uint64_t)v.n_merges);
    ggufw_u32(writer, "tokenizer.ggml.bos_token_id", gemma ? 2 : 1);
    ggufw_u32(writer, "tokenizer.ggml.eos_token_id", gemma ? 1 : 2);
    if (gemma) ggufw_u32(writer, "tokenizer.ggml.eot_token_id", 5);
    ggufw_u32(writer, "tokenizer.ggml.unknown_token_id", gemma ? 3 : 0);
    ggufw_u32(writer, "tokenizer.ggml.padding_token_id", gemma ? 0 : 2);
    ggufw_bool(writer, "tokenizer.ggml.add_bos_token", gemma);
    ggufw_bool(writer, "tokenizer.ggml.add_eos_token", false);
    ggufw_bool(writer, "tokenizer.ggml.add_space_prefix", false);
    for (size_t i = 0; i < count; i++) {
        free(v.token[i]);
        free(v.merge[i]);
    }
    free(v.token);
    free(v.merge);
    free(v.score);
    free(v.type);
}

#endif
