/* hf_pretokenizer.c - the name of a pre-tokenizer, which GGUF has instead of its patterns.
 *
 * llama.cpp tells models apart by the ids that their tokenizers make of one text: the first eight
 * bytes of the SHA-256 of "[1, 2, 3]", as such ids print. Names, hashes and text:
 * get_vocab_base_pre of llama.cpp's conversion/base.py, as facts. What is not among them is found
 * by its patterns, among those that vocab_pre.c cuts by.
 */
#include "lib/llm/hf/hf.h"
#include "lib/llm/vocab/vocab.h"

#include <inttypes.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>

/* ---- by ids ---------------------------------------------------------------------------------- */

static const char check_text[] = "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n\360\237\232\200 (normal) "
                                 "\360\237\230\266\342\200\215\360\237\214\253\357\270\217 (multiple emojis concatenated) "
                                 "\342\234\205 \360\237\246\231\360\237\246\231 3 33 333 3333 33333 333333 3333333 3333333"
                                 "3 3.3 3..3 3...3 \341\236\200\341\236\266\341\236\223\341\237\213\341\236\217"
                                 "\341\237\202\341\236\226\341\236\267\341\236\237\341\237\201\341\236\237\341\236\242"
                                 "\341\236\266\341\236\205\360\237\230\201 \?\346\210\221\346\203\263\345\234\250apple"
                                 "\345\267\245\344\275\2341314151\345\244\251\357\275\236 ------======= \320\275\320\265"
                                 "\321\211\320\276 \320\275\320\260 \320\221\321\212\320\273\320\263\320\260\321\200"
                                 "\321\201\320\272\320\270 ''''''```````\"\"\"\"......!!!!!!\?\?\?\?\?\? I've been 'told h"
                                 "e's there, 'RE you sure\? 'M not sure I'll make it, 'D you like some tea\? We'Ve a'lL";

static const struct {
    const char *name;
    uint64_t hash;
} known[] = {
    {"a.x-4.0", 0xb0a6b1c0bd5998eb},
    {"afmoe", 0x49fc0303c9e0d2c2},
    {"bailingmoe", 0x96a5f08be6259352},
    {"bailingmoe2", 0x9b1be57e70d20d95},
    {"bert-bge-large", 0x8e62295832751ca1},
    {"bloom", 0x3c30d3ad1d6b6420},
    {"chameleon", 0x60824e3c0d9401f8},
    {"chatglm-bpe", 0x81d72c7348a9f0eb},
    {"chatglm-bpe", 0xb6e8e1518dc4305b},
    {"codeshell", 0x7b3e7548e4308f52},
    {"cohere2moe", 0x52df12b4c8d4176e},
    {"command-r", 0x9c2227e4dd922002},
    {"dbrx", 0xa8594e3edff7c29c},
    {"deepseek-coder", 0x347715f544604f91},
    {"deepseek-llm", 0x049ecf7629871e30},
    {"deepseek-r1-qwen", 0xb3f499bb4255f8ca},
    {"deepseek-v3", 0x877081d19cf6996e},
    {"exaone", 0x4e2b24cc4770243d},
    {"exaone-moe", 0x6c81ce329e080288},
    {"exaone4", 0x2085e1638f6c377a},
    {"f2llmv2", 0x862f827721df9560},
    {"falcon", 0x8aeee3860c56296a},
    {"falcon-h1", 0x3eda48b4c4dc7de7},
    {"falcon-h1", 0x48f8e02c0359c0bb},
    {"falcon-h1", 0x60476e1243776c4f},
    {"falcon-h1", 0xa6b57017d60e6edb},
    {"falcon3", 0x9d032fcbd5501f4a},
    {"gemma4", 0x846deafc5b0fa786},
    {"gigachat", 0xad851be1dba641f2},
    {"glm4", 0x9ca2dd618e8afaf0},
    {"glm4", 0xa1336059768a55c9},
    {"glm4", 0xcdf5f35325780597},
    {"gpt-2", 0x0fe1cf6eda062318},
    {"gpt-2", 0x3ce83efda5659b07},
    {"gpt-4o", 0xccc2ef013c104be7},
    {"gpt3-finnish", 0xbc01ce58980e1db4},
    {"granite-docling", 0x53e325976a6e1423},
    {"granite-embed-multi-311m", 0x789696f5946cc0fc},
    {"granite-embed-multi-97m", 0xf241072145675bf8},
    {"grok-2", 0x66b8d4e19ab16c3b},
    {"hunyuan", 0x7e57df22b1fe23a7},
    {"hunyuan-dense", 0xbba3b3366b646dbd},
    {"hy_v4", 0xe6ddf9c6686791c1},
    {"jais", 0xb53802fb28e26d64},
    {"jais-2", 0xbc5108ee1eb6a3d6},
    {"jina-v1-en", 0xc7699093ba4255a9},
    {"jina-v2-code", 0x7967bfa498ade6b7},
    {"jina-v2-de", 0x27949a2493fc4a9f},
    {"jina-v2-de", 0xb3d1dd861f1d4c5c},
    {"jina-v2-en", 0x0876d13b50744004},
    {"jina-v2-es", 0x171aeeedd6fb548d},
    {"jina-v5-nano", 0xa023e9fdc5a11f03},
    {"joyai-llm", 0xb4b8ca1f9769494f},
    {"kanana2", 0xe4d54df1ebc1f2b9},
    {"kimi-k2", 0x81212dc7cdb7e0c1},
    {"kormo", 0x4a2e2abae11ca2b8},
    {"laguna", 0x972da7b59cec44d1},
    {"lfm2", 0x169bf0296a13c4d9},
    {"lfm2", 0x9e454714343b69b9},
    {"llama-bpe", 0x0ef9807a4087ebef},
    {"llama4", 0xd353350c764d8c3b},
    {"megrez", 0xd4c8f286ea6b520b},
    {"mellum", 0xa1e163ecab2e718a},
    {"mellum2", 0x9dcf830ee9990cdb},
    {"midm-2.0", 0xf6791d196f87ce6b},
    {"minerva-7b", 0x1431a23e583c9743},
    {"minicpm5", 0x36f3066e97b7f399},
    {"minimax-m2", 0xf4f37b6c8eb9ea29},
    {"modern-bert", 0xa0b64b4385f12366},
    {"olmo", 0xb6dc8df998e1cfbd},
    {"phi-2", 0xfcace8b9cac38ce8},
    {"pixtral", 0x0e9433cbbb161f89},
    {"poro-chat", 0xc7ea5862a53e4272},
    {"qwen2", 0xd4540891389ea895},
    {"qwen2", 0xe636dc30a262dcc0},
    {"qwen35", 0x1444df51289cfa80},
    {"qwen35", 0xd30d75d9059f1aa2},
    {"refact", 0x6221ad2852e85ce9},
    {"roberta-bpe", 0x8b5a93ed70405748},
    {"sarvam-moe", 0x62f6fb0a6fd5098c},
    {"seed-coder", 0xd5f1dd6f980fec56},
    {"smaug-bpe", 0xc136ed14d01c2745},
    {"smollm", 0x855059429035d75a},
    {"solar-open", 0x16389f0a1f51ee53},
    {"spark2_5", 0x0a766d034107bc73},
    {"stablelm2", 0x32d85c31273f8019},
    {"starcoder", 0x35d91631860c815f},
    {"superbpe", 0x7dec86086fcc38b6},
    {"talkie", 0xf728162c1315c26e},
    {"tekken", 0x63b97e4253352e6f},
    {"tiny_aya", 0xd772b220ace2baec},
    {"trillion", 0x1994ffd01900cfb3},
    {"ufakzeka", 0x653660222fb704f6},
    {"viking", 0x7fc505bd3104ca10},
    {"youtu", 0x9d70134b369a70e5},
};

static uint64_t hash_ids(const zt_str *text)
{
    unsigned char sum[SHA256_DIGEST_LENGTH];
    SHA2_CTX context;
    uint64_t hash = 0;
    SHA256Init(&context);
    SHA256Update(&context, (const uint8_t *)text->data, text->len);
    SHA256Final(sum, &context);
    for (int i = 0; i < 8; i++) hash = hash << 8 | sum[i];
    return hash;
}

static zt_status print_ids(const zt_ids *ids, zt_str *out)
{
    zt_status status = zt_str_putc(out, '[');
    for (size_t i = 0; status == ZT_OK && i < ids->count; i++) {
        char text[16];
        snprintf(text, sizeof text, "%s%" PRId32, i ? ", " : "", ids->id[i]);
        status = zt_str_puts(out, text);
    }
    return status == ZT_OK ? zt_str_putc(out, ']') : status;
}

static zt_status name_by_ids(hf_import *import, const zt_vocab *vocab, const char **name)
{
    zt_ids ids = {0};
    zt_str text;
    zt_str_init(&text, import->ctx);
    zt_status status = zt_vocab_encode(vocab, check_text, sizeof check_text - 1, ZT_TOK_BOS_RULE, &ids);
    if (status == ZT_OK) status = print_ids(&ids, &text);
    uint64_t hash = status == ZT_OK ? hash_ids(&text) : 0;
    for (size_t i = 0; status == ZT_OK && i < sizeof known / sizeof *known; i++)
        if (known[i].hash == hash) *name = known[i].name;
    zt_str_fini(&text);
    zt_ids_fini(import->ctx, &ids);
    return status;
}

/* ---- by patterns ----------------------------------------------------------------------------- */

typedef struct pattern_list { /* borrowed patterns, in order; count -1: it does something that no pattern can say */
    const char *pattern[ZT_PRE_RULES];
    int count;
} pattern_list;

static void add_cut(pattern_list *patterns, const char *regex)
{
    if (patterns->count < 0 || patterns->count == ZT_PRE_RULES || !regex)
        patterns->count = -1;
    else
        patterns->pattern[patterns->count++] = regex;
}

/* Of ByteLevel: GPT-2's, unless it is told not to cut. */
static const char *gpt2_pattern(void) { return zt_pre_find((zt_bytes){"gpt-2", 5})->rule[0].pattern; }

static void add_step(pattern_list *patterns, const json_t *step)
{
    const char *type = json_string_value(json_object_get(step, "type"));
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    const char *regex = json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
    if (!type)
        patterns->count = -1;
    else if (strcmp(type, "Split") == 0)
        add_cut(patterns, behavior && strcmp(behavior, "Isolated") == 0 ? regex : NULL);
    else if (strcmp(type, "Digits") == 0)
        add_cut(patterns, json_is_true(json_object_get(step, "individual_digits")) ? "\\p{N}" : "\\p{N}+");
    else if (strcmp(type, "ByteLevel") != 0 || json_is_true(json_object_get(step, "add_prefix_space")))
        patterns->count = -1;
    else if (!json_is_false(json_object_get(step, "use_regex")))
        add_cut(patterns, gpt2_pattern());
}

static pattern_list read_patterns(const json_t *pre)
{
    pattern_list patterns = {.count = 0};
    const json_t *list = json_object_get(pre, "pretokenizers");
    if (!list) add_step(&patterns, pre);
    for (size_t i = 0; i < json_array_size(list); i++) add_step(&patterns, json_array_get(list, i));
    return patterns;
}

static bool same_patterns(const zt_pre *pre, const pattern_list *patterns)
{
    for (int i = 0; i < patterns->count; i++)
        if (!pre->rule[i].pattern || pre->rule[i].behavior != ZT_SPLIT_ISOLATED ||
            strcmp(pre->rule[i].pattern, patterns->pattern[i]) != 0)
            return false;
    return patterns->count > 0 && (patterns->count == ZT_PRE_RULES || !pre->rule[patterns->count].pattern);
}

/* Several names may mean the same: those of the architectures here first. */
static const char *name_by_patterns(const pattern_list *patterns, bool ignore_merges)
{
    static const char *const first[] = {"llama-bpe", "qwen2", "gpt-2", "smollm", "dbrx"};
    const char *name = NULL;
    size_t preferred = sizeof first / sizeof *first;
    for (size_t i = 0; !name && (i < preferred || zt_pre_name((int)(i - preferred))); i++) {
        const char *candidate = i < preferred ? first[i] : zt_pre_name((int)(i - preferred));
        const zt_pre *pre = zt_pre_find((zt_bytes){candidate, strlen(candidate)});
        if (same_patterns(pre, patterns) && !pre->plain && pre->ignore_merges == ignore_merges) name = candidate;
    }
    return name;
}

static bool ignores_merges(const json_t *tokenizer)
{
    return json_is_true(json_object_get(json_object_get(tokenizer, "model"), "ignore_merges"));
}

bool zt_hf_pre_same(const json_t *tokenizer, const char *name)
{
    const zt_pre *pre = zt_pre_find((zt_bytes){name, strlen(name)});
    pattern_list patterns = read_patterns(json_object_get(tokenizer, "pre_tokenizer"));
    return pre && !pre->plain && same_patterns(pre, &patterns) && pre->ignore_merges == ignores_merges(tokenizer);
}

/* ---- both ------------------------------------------------------------------------------------ */

zt_status zt_hf_pre_name(hf_import *import, const zt_vocab *vocab, const json_t *tokenizer, const char **name)
{
    *name = NULL;
    zt_status status = name_by_ids(import, vocab, name);
    if (status != ZT_OK || *name) return status;
    pattern_list patterns = read_patterns(json_object_get(tokenizer, "pre_tokenizer"));
    *name = name_by_patterns(&patterns, ignores_merges(tokenizer));
    return ZT_OK;
}
