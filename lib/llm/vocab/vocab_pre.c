/* vocab_pre.c - the pre-tokenizers that files name: how each model family cuts text before BPE.
 *
 * A row: the name in tokenizer.ggml.pre, the rules in order, and what else follows from the name.
 * Source: the tokenizer.json files of these models, and llama.cpp's src/llama-vocab.cpp for the
 * names and flags, as facts; patterns are the models' own (llama.cpp must do without \p{Lu} and
 * (?i:)). Where a pattern would go back over the same text again and again it is written so that it
 * does not: same matches, linear time. The comments say where.
 */
// clang-format off
#include "lib/llm/vocab/vocab.h"

#include <string.h>

#define CUT(pattern) {(pattern), ZT_SPLIT_ISOLATED}
#define THREES(pattern) {(pattern), ZT_SPLIT_THREES}

/* ---- pieces of patterns ---------------------------------------------------------------------- */

#define ENGLISH "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BLANKS "\\s+(?!\\S)|\\s+"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SIGNS_OR_PATH " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define LINES "\\s*[\\r\\n]+"

#define GPT2_TEXT                                                                                  \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" BLANKS
#define LLAMA3_TEXT ENGLISH "|" WORD "|\\p{N}{1,3}|" SIGNS "|" LINES "|" BLANKS
#define QWEN2_TEXT ENGLISH "|" WORD "|\\p{N}|" SIGNS "|" LINES "|" BLANKS

/* Words by case: capitals then small letters; letters without case and marks count as both. */
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(upper, lower, end)                                                                   \
    "[^\\r\\n\\p{L}\\p{N}]?[" upper "]*[" lower "]+" end "|"                                        \
    "[^\\r\\n\\p{L}\\p{N}]?[" upper "]+[" lower "]*" end
#define GPT4O_TEXT(digits)                                                                         \
    CASED(UPPER, LOWER, ENGLISH "?") "|" digits "|" SIGNS_OR_PATH "|" LINES "|" BLANKS

#define HAN_KANA "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define CODE_WORDS                                                                                 \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                       \
    "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+"

/* ---- whole patterns -------------------------------------------------------------------------- */

#define GPT2 CUT(GPT2_TEXT)
#define LLAMA3 CUT(LLAMA3_TEXT)
#define QWEN2 CUT(QWEN2_TEXT)
#define GPT4O CUT(GPT4O_TEXT("\\p{N}{1,3}"))
#define DIGIT CUT("\\p{N}")
#define DIGITS_3 CUT("\\p{N}{1,3}")
#define ASCII_3 CUT("[0-9][0-9][0-9]")
#define NEWLINE CUT("[\\r\\n]")
#define LINE CUT("[^\\n]+|[\\n]+")

/* The letters with case of the Unicode that DeepSeek-LLM's makers had. */
#define DEEPSEEK_LETTER                                                                            \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}"                 \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}"         \
    "\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}"                  \
    "\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"                       \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"
#define CJK_DEEPSEEK CUT("[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+")
#define SIGNS_DEEPSEEK                                                                             \
    CUT("\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+")
/* The blanks that end a text (\s+$): not tried again from each blank of a run. */
#define BLANKS_AT_END CUT("(?<!\\s)\\s++\\z")

#define DEEPSEEK3 DIGITS_3, CUT(HAN_KANA), CUT(CODE_WORDS "[\\r\\n]*|" LINES "|" BLANKS)

#define BLOOM                                                                                      \
    CUT(" ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+")

/* \d{1,3}(?=(?:\d{3})*\b): a number that no word goes on from, in threes from its end. */
#define THREES_AT_WORD_END THREES("(?<!\\d)\\d++(?![\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}])")

/* (?=(\d{3})+(?!\d)), where it cuts before threes. A number's sign that is no digit (one half)
 * right behind them is cut off too. */
#define THREES_AT_END THREES("(?:\\d{3})++(?!\\d)")

/* (?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+: words with single spaces between, as one. */
#define PHRASE "[^\\r\\n\\p{L}\\p{N}]?\\p{L}[\\p{L}\\p{M}]*+(?: \\p{L}[\\p{L}\\p{M}]*+)*+"

/* Runs of blanks without line ends in pieces of 512, 256, ... 4, and 2 or 1 characters. The first
 * rule keeps a run together, the second cuts what is nothing but such a run: the whole of the text
 * is looked at once, not once for each piece. */
#define JAIS2                                                                                      \
    LLAMA3, CUT("\\G(?:(?!\\A)|(?=[^\\S\\r\\n]++\\z))(?:\\s{512}|\\s{256}|\\s{128}|\\s{64}|\\s{32}|"    \
                "\\s{16}|\\s{8}|\\s{4}|\\s{1,2})")

/* Letters and marks that are no Han: what is neither another category nor Han. */
#define NO_HAN_UPPER "^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}"
#define NO_HAN_LOWER "^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}"
#define KIMI_K2                                                                                    \
    CUT("\\p{sc:Han}+|" CASED(NO_HAN_UPPER, NO_HAN_LOWER, ENGLISH "?") "|\\p{N}{1,3}|" SIGNS       \
        "|" LINES "|" BLANKS)

#define YOUTU                                                                                      \
    CUT("[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}"  \
        "\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|"    \
        "[\\x{3105}-\\x{312f}]+|" HAN_KANA),                                                       \
        CUT(GPT4O_TEXT("\\p{N}"))

/* Scripts written without spaces, as AFMoE's makers list them. */
#define AFMOE_SCRIPTS                                                                              \
    CUT("[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-"  \
        "\\x{30ff}\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}" \
        "-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}"   \
        "\\x{1100}-\\x{11ff}]+")

/* ---- the table ------------------------------------------------------------------------------- */

#define WHOLE_FIRST .ignore_merges = true
#define BOS_FIRST .add_bos = true

static const zt_pre pre_table[] = {
    /* Files from before the key existed: llama.cpp's rule for them. */
    {.name = "default",
     .rule = {CUT("[\\p{P}$+<=>^~|]+"), GPT2, CUT("\\p{N}+"), ASCII_3}},

    {.name = "a.x-4.0", .rule = {GPT2}},
    {.name = "afmoe",
     .rule = {THREES("\\p{N}+"), AFMOE_SCRIPTS, CUT(CODE_WORDS "[\\r\\n]*|" LINES "|" BLANKS)}},
    {.name = "aquila", .rule = {GPT2}},
    {.name = "bailingmoe",
     .rule = {CUT("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"
                  " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|" BLANKS)}},
    {.name = "bailingmoe2", .same = "bailingmoe"},
    {.name = "bloom", .rule = {BLOOM}},
    {.name = "chameleon",
     .rule = {CUT("<sentinel:[0-9]+>"), CUT("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
              CUT("([\\t\\n]|    |  )"), DIGIT, CUT("[\\p{P}!-/:-@\\[-`{-~]"), GPT2},
     BOS_FIRST},
    {.name = "chatglm-bpe", .rule = {LLAMA3}, .no_bos = true},
    {.name = "codeshell", .rule = {DIGIT, GPT2}},
    {.name = "cohere2moe", .same = "tiny_aya"},
    {.name = "command-r", .rule = {DIGIT, GPT2}},
    {.name = "dbrx", .rule = {LLAMA3}},
    {.name = "deepseek-coder",
     .rule = {NEWLINE, CUT("\\s?\\p{L}+"), CUT("\\s?\\p{P}+"), CJK_DEEPSEEK, DIGIT}},
    {.name = "deepseek-llm",
     .rule = {NEWLINE, CUT("\\s?[" DEEPSEEK_LETTER "]+"), SIGNS_DEEPSEEK, BLANKS_AT_END,
              CJK_DEEPSEEK, CUT("\\p{N}+")}},
    {.name = "deepseek-r1-qwen", .rule = {QWEN2}},
    {.name = "deepseek-v3", .rule = {DEEPSEEK3}},
    {.name = "exaone", .rule = {DIGIT, GPT2}},
    {.name = "exaone-moe",
     .rule = {CUT(ENGLISH "|" PHRASE "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" BLANKS)}},
    {.name = "exaone4", .rule = {GPT2}},
    {.name = "f2llmv2", .rule = {QWEN2}},
    {.name = "falcon", .rule = {CUT("[\\p{P}$+<=>^~|`]+"), GPT2, ASCII_3}},
    {.name = "falcon-h1", .same = "llama-bpe"},
    {.name = "falcon3", .same = "llama-bpe"},
    {.name = "gemma4", .rule = {LINE}, .plain = true, .force_bos = true},
    {.name = "gigachat", .rule = {GPT2}},
    {.name = "glm4", .rule = {LLAMA3}, .no_bos = true},
    {.name = "gpt-2", .rule = {GPT2}},
    {.name = "gpt-4o", .rule = {GPT4O}},
    {.name = "gpt-neox", .rule = {GPT2}},
    {.name = "gpt2", .rule = {GPT2}},
    {.name = "gpt3-finnish", .rule = {BLOOM}},
    {.name = "granite-docling", .rule = {GPT2}},
    {.name = "granite-embed-multi-311m", .same = "gemma4"},
    {.name = "granite-embed-multi-97m", .rule = {GPT4O}, WHOLE_FIRST},
    {.name = "grok-2", .rule = {QWEN2}},
    {.name = "hunyuan", .rule = {QWEN2}},
    {.name = "hunyuan-dense", .rule = {DEEPSEEK3}},
    {.name = "hy_v4", .rule = {DEEPSEEK3}},
    {.name = "jais", .rule = {GPT2}},
    {.name = "jais-2", .rule = {JAIS2}},
    {.name = "jina-de", .rule = {GPT2}},
    {.name = "jina-es", .rule = {GPT2}},
    {.name = "jina-v1-en", .rule = {GPT2}},
    {.name = "jina-v2-code", .rule = {GPT2}},
    {.name = "jina-v2-de", .rule = {GPT2}},
    {.name = "jina-v2-es", .rule = {GPT2}},
    {.name = "jina-v5-nano", .same = "llama-bpe"},
    {.name = "joyai-llm", .rule = {DEEPSEEK3}},
    {.name = "kanana2", .rule = {GPT4O}},
    {.name = "kimi-k2", .rule = {KIMI_K2}},
    {.name = "kormo", .rule = {QWEN2}},
    {.name = "laguna", .rule = {LINE, QWEN2}},
    {.name = "lfm2", .same = "llama-bpe"},
    {.name = "llada-moe", .same = "bailingmoe"},
    {.name = "llama-bpe", .rule = {LLAMA3}, WHOLE_FIRST, BOS_FIRST},
    {.name = "llama-v3", .same = "llama-bpe"},
    {.name = "llama3", .same = "llama-bpe"},
    {.name = "llama4", .rule = {GPT4O}},
    {.name = "megrez", .rule = {QWEN2}},
    {.name = "mellum", .rule = {GPT2}},
    {.name = "mellum2", .rule = {DIGIT, GPT2}},
    {.name = "midm-2.0", .same = "llama-bpe"},
    {.name = "minerva-7b", .rule = {DIGIT, GPT2}},
    {.name = "minicpm5",
     .rule = {DIGITS_3, CUT(ENGLISH "|" WORD "|\\p{N}+|" SIGNS "|" LINES "|" BLANKS)},
     WHOLE_FIRST},
    {.name = "minimax-m2", .rule = {GPT4O}},
    {.name = "modern-bert", .rule = {GPT2}},
    {.name = "mpt", .rule = {GPT2}},
    {.name = "olmo", .rule = {GPT2}},
    {.name = "phi-2", .rule = {GPT2}},
    {.name = "pixtral", .same = "llama-bpe"},
    {.name = "poro-chat", .rule = {BLOOM}},
    {.name = "qwen2", .rule = {QWEN2}},
    {.name = "qwen35",
     .rule = {CUT(ENGLISH "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
                  " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES "|" BLANKS)}},
    {.name = "refact", .rule = {DIGIT, GPT2}},
    {.name = "roberta-bpe", .rule = {GPT2}},
    {.name = "sarvam-moe", .rule = {LINE}, .plain = true},
    {.name = "seed-coder",
     .rule = {CUT(ENGLISH "|" WORD "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES "|" BLANKS)}},
    {.name = "smaug-bpe", .rule = {LLAMA3}},
    {.name = "smollm", .rule = {DIGIT, GPT2}},
    {.name = "solar-open", .rule = {QWEN2}},
    {.name = "spark2_5",
     .rule = {DIGITS_3, CUT(HAN_KANA), CUT(CODE_WORDS "|[\\r\\n]|" BLANKS), DIGIT}},
    {.name = "stablelm", .rule = {GPT2}},
    {.name = "stablelm2", .rule = {QWEN2}},
    {.name = "starcoder", .rule = {DIGIT, GPT2}},
    {.name = "superbpe", .rule = {CUT("\\p{N}+"), THREES_AT_END}},
    {.name = "talkie", .rule = {GPT4O}},
    {.name = "tekken",
     .rule = {CUT(CASED(UPPER, LOWER, "") "|\\p{N}|" SIGNS_OR_PATH "|" LINES "|" BLANKS)},
     WHOLE_FIRST, BOS_FIRST},
    {.name = "tiny_aya", .rule = {THREES_AT_WORD_END, GPT4O}},
    {.name = "trillion", .rule = {GPT2}},
    {.name = "ufakzeka", .rule = {CUT(WORD "|\\p{N}|" SIGNS "|" LINES "|" BLANKS)}},
    {.name = "viking", .rule = {BLOOM, DIGIT}},
    {.name = "youtu", .rule = {YOUTU}, WHOLE_FIRST},
};
// clang-format on

const zt_pre *zt_pre_find(zt_bytes name)
{
    for (size_t i = 0; i < sizeof pre_table / sizeof *pre_table; i++)
        if (strlen(pre_table[i].name) == name.n && !memcmp(pre_table[i].name, name.data, name.n)) {
            const char *same = pre_table[i].same;
            return same ? zt_pre_find((zt_bytes){same, strlen(same)}) : &pre_table[i];
        }
    return NULL;
}

const char *zt_pre_name(int index)
{
    return index >= 0 && (size_t)index < sizeof pre_table / sizeof *pre_table ? pre_table[index].name : NULL;
}
