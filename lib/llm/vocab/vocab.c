/* vocab.c - what all vocabularies share, whatever file they came from: the table from texts to ids,
 * special tokens in raw text, what goes before and after a text, which tokens end a generation.
 */
#include "lib/base/require.h"
// clang-format off
#include "lib/llm/vocab/vocab.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Texts that end a generation in one model family or another, whatever their type: as llama.cpp,
 * we then treat them as control tokens. The last two lines end a file in code models. */
static const char *const eog_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~[",
    ("<\xef\xbd\x9c" "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"), /* DeepSeek */
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]",
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>",
};
// clang-format on

/* Where all of `with` are tokens, `text` does not end a generation after all: it is one of the
 * user's defined tokens, or plain text. llama.cpp's exceptions, for gpt-oss, Solar and Gemma 4. */
static const struct {
    const char *text, *with[3];
    uint16_t type;
} not_eog[] = {
    {"<|end|>", {"<|return|>", "<|call|>"}, ZT_TOK_USER},
    {"<|end|>", {"<|return|>", "<|calls|>"}, ZT_TOK_USER},
    {"<|end|>", {"<|flush|>", "<|call|>"}, ZT_TOK_USER},
    {"<|end|>", {"<|flush|>", "<|calls|>"}, ZT_TOK_USER},
    {"</s>", {"<|tool_response>"}, ZT_TOK_NORMAL},
    {"<|channel|>", {NULL}, ZT_TOK_USER},
    {"<|message|>", {NULL}, ZT_TOK_USER},
    {"<|start|>", {NULL}, ZT_TOK_USER},
    {"<|constrain|>", {NULL}, ZT_TOK_USER},
};

/* ---- lists of ids ---------------------------------------------------------------------------- */

zt_status zt_ids_push(zt_ctx *ctx, zt_ids *ids, int32_t id)
{
    ZT_REQUIRE(ctx, ids, ZT_EUSAGE);
    if (ids->count == ids->capacity) {
        size_t capacity = ids->capacity ? ids->capacity : 32, bytes;
        if (!zt_mul_size(capacity, 2 * sizeof *ids->id, &bytes))
            return zt_fail(ctx, ZT_ENOMEM, "too many token ids (%zu)", ids->count);
        int32_t *grown = zt_realloc(ctx, ids->id, bytes);
        if (!grown) return ZT_ENOMEM;
        ids->id = grown;
        ids->capacity = 2 * capacity;
    }
    ids->id[ids->count++] = id;
    return ZT_OK;
}

void zt_ids_fini(zt_ctx *ctx, zt_ids *ids)
{
    ZT_REQUIRE(ctx, ids, );
    zt_free(ctx, ids->id);
    *ids = (zt_ids){0};
}

/* ---- the text table -------------------------------------------------------------------------- */

/* Longest run of taken slots that an honest file could make, with room to spare: beyond it the
 * texts were chosen to collide, and every look-up would be slow. */
enum { MOST_PROBES = 4096 };

static size_t home_slot(const zt_vocab *vocab, uint64_t hash) { return (size_t)(hash ^ hash >> 29) & vocab->mask; }

static uint32_t hash_tag(uint64_t hash) { return (uint32_t)(hash >> 32); }

static bool equals_joined(zt_bytes text, zt_bytes left, zt_bytes right)
{
    return text.n == left.n + right.n && memcmp(text.data, left.data, left.n) == 0 &&
           (right.n == 0 || memcmp(text.data + left.n, right.data, right.n) == 0);
}

int32_t zt_vocab_lookup(const zt_vocab *vocab, uint64_t hash, zt_bytes left, zt_bytes right)
{
    for (size_t i = home_slot(vocab, hash);; i = (i + 1) & vocab->mask) {
        const zt_slot *slot = &vocab->slot[i];
        if (!slot->id) return -1;
        if (slot->tag == hash_tag(hash) && equals_joined(vocab->text[slot->id - 1], left, right)) return (int32_t)(slot->id - 1);
    }
}

/* Of tokens with one text the last counts. */
static zt_status insert_token(zt_vocab *vocab, int32_t id)
{
    zt_bytes text = vocab->text[id];
    uint64_t hash = zt_hash_more(ZT_HASH_SEED, text.data, text.n);
    size_t i = home_slot(vocab, hash);
    for (int probes = 0; vocab->slot[i].id; i = (i + 1) & vocab->mask) {
        if (vocab->slot[i].tag == hash_tag(hash) && equals_joined(vocab->text[vocab->slot[i].id - 1], text, (zt_bytes){"", 0}))
            break;
        if (++probes > MOST_PROBES)
            return zt_fail(vocab->ctx, ZT_EDATA, "%s: %d tokens have the same hash", vocab->file, MOST_PROBES);
    }
    vocab->slot[i] = (zt_slot){hash_tag(hash), (uint32_t)id + 1};
    return ZT_OK;
}

static zt_status build_table(zt_vocab *vocab)
{
    size_t slots = 64;
    while (slots < 2 * (size_t)vocab->token_count) slots *= 2;
    vocab->slot = zt_calloc(vocab->ctx, slots, sizeof *vocab->slot);
    if (!vocab->slot) return ZT_ENOMEM;
    vocab->mask = slots - 1;
    for (int32_t id = 0; id < vocab->token_count; id++) {
        if (vocab->text[id].n > vocab->longest) vocab->longest = vocab->text[id].n;
        zt_status status = vocab->text[id].n ? insert_token(vocab, id) : ZT_OK;
        if (status) return status;
    }
    return ZT_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int32_t find_text(const zt_vocab *vocab, const char *text) { return zt_vocab_find(vocab, text, strlen(text)); }

/* Bits beside type and ZT_TOK_EOG stay. */
static void set_type(zt_vocab *vocab, int32_t id, unsigned type)
{
    vocab->attr[id] = (uint16_t)((vocab->attr[id] & ~(ZT_TOK_TYPE_MASK | ZT_TOK_EOG)) | type);
}

/* Tokens of these texts end a generation whatever the file says of them. */
static void mark_ends(zt_vocab *vocab)
{
    if (vocab->eos >= 0) vocab->attr[vocab->eos] |= ZT_TOK_EOG;
    for (size_t i = 0; i < COUNT(eog_texts); i++) {
        int32_t id = find_text(vocab, eog_texts[i]);
        if (id >= 0) set_type(vocab, id, ZT_TOK_CONTROL | ZT_TOK_EOG);
    }
    for (size_t i = 0; i < COUNT(not_eog); i++) {
        int32_t id = find_text(vocab, not_eog[i].text);
        bool applies = id >= 0 && id != vocab->eos;
        for (int k = 0; applies && k < 3 && not_eog[i].with[k]; k++) applies = find_text(vocab, not_eog[i].with[k]) >= 0;
        if (applies) set_type(vocab, id, not_eog[i].type);
    }
}

static zt_status index_special(zt_vocab *vocab)
{
    for (int32_t id = 0; id < vocab->token_count; id++) {
        size_t size = vocab->text[id].n;
        if (!size || !zt_vocab_is_special(vocab, id)) continue;
        if (size > ZT_SPECIAL_MAX)
            return zt_fail(vocab->ctx, ZT_EDATA, "%s: special token %d has %zu bytes, the limit is %d", vocab->file, id, size,
                           ZT_SPECIAL_MAX);
        vocab->special[(unsigned char)vocab->text[id].data[0]][(size - 1) / 64] |= UINT64_C(1) << (size - 1) % 64;
    }
    return ZT_OK;
}

static zt_status check_id(const zt_vocab *vocab, const char *what, int32_t id)
{
    if (id < -1 || id >= vocab->token_count)
        return zt_fail(vocab->ctx, ZT_EDATA, "%s: the %s token is %d, but the vocabulary has %d tokens", vocab->file, what, id,
                       vocab->token_count);
    return ZT_OK;
}

static zt_status check_ids(const zt_vocab *vocab)
{
    zt_status status = check_id(vocab, "BOS", vocab->bos);
    if (!status) status = check_id(vocab, "EOS", vocab->eos);
    if (!status) status = check_id(vocab, "unknown", vocab->unk);
    for (int i = 0; !status && i < vocab->before.count; i++) status = check_id(vocab, "first", vocab->before.id[i]);
    for (int i = 0; !status && i < vocab->after.count; i++) status = check_id(vocab, "last", vocab->after.id[i]);
    return status;
}

static zt_status open_vocab(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    zt_status status = check_ids(vocab);
    if (!status) status = build_table(vocab);
    if (status) return status;
    mark_ends(vocab);
    status = vocab->kind->encode_all ? ZT_OK : index_special(vocab);
    if (!status && spec->n_rules) {
        vocab->split = zt_split_new(vocab->ctx, vocab->file, spec->rule, spec->n_rules);
        status = vocab->split ? ZT_OK : zt_ctx_status(vocab->ctx);
    }
    return status ? status : vocab->kind->open(vocab, spec);
}

static void take_spec(zt_vocab *vocab, zt_vocab_spec *spec)
{
    vocab->file = spec->file;
    vocab->kind = spec->kind;
    vocab->token_count = spec->token_count;
    vocab->text = spec->text;
    vocab->attr = spec->attr;
    vocab->score = spec->score;
    vocab->storage = spec->storage;
    vocab->bos = spec->bos;
    vocab->eos = spec->eos;
    vocab->unk = spec->unk;
    vocab->before = spec->before;
    vocab->after = spec->after;
    vocab->byte_level = spec->byte_level;
    vocab->ignore_merges = spec->ignore_merges;
    vocab->byte_fallback = spec->byte_fallback;
    vocab->add_space = spec->add_space;
    vocab->merge_spaces = spec->merge_spaces;
    vocab->lowercase = spec->lowercase;
    vocab->strip_accents = spec->strip_accents;
    for (int byte = 0; byte < 256; byte++) vocab->byte_id[byte] = -1;
}

zt_vocab *zt_vocab_from(zt_ctx *ctx, zt_vocab_spec *spec)
{
    zt_vocab *vocab = zt_calloc(ctx, 1, sizeof *vocab);
    if (vocab) {
        vocab->ctx = ctx;
        take_spec(vocab, spec);
        if (!open_vocab(vocab, spec)) return vocab;
        zt_vocab_free(vocab);
        return NULL;
    }
    zt_free(ctx, spec->text);
    zt_free(ctx, spec->attr);
    zt_free(ctx, spec->score);
    zt_free(ctx, spec->storage);
    return NULL;
}

void zt_vocab_free(zt_vocab *vocab)
{
    if (!vocab) return;
    vocab->kind->close(vocab);
    zt_split_free(vocab->split);
    zt_free(vocab->ctx, vocab->text);
    zt_free(vocab->ctx, vocab->attr);
    zt_free(vocab->ctx, vocab->score);
    zt_free(vocab->ctx, vocab->storage);
    zt_free(vocab->ctx, vocab->slot);
    zt_free(vocab->ctx, vocab);
}

/* ---- questions ------------------------------------------------------------------------------- */

int32_t zt_vocab_size(const zt_vocab *vocab) { return vocab ? vocab->token_count : 0; }

int32_t zt_vocab_bos(const zt_vocab *vocab)
{
    if (!vocab) return -1;
    return vocab->bos;
}

int32_t zt_vocab_eos(const zt_vocab *vocab)
{
    if (!vocab) return -1;
    return vocab->eos;
}

zt_status zt_vocab_check_rows(const zt_vocab *vocab, int64_t rows)
{
    if (!vocab) return ZT_EUSAGE;
    ZT_REQUIRE(vocab->ctx, rows >= 0, ZT_EUSAGE);
    char escaped[80];
    for (int64_t id = rows; id < vocab->token_count; id++)
        if (vocab->text[id].n && !zt_vocab_is_control(vocab, (int32_t)id))
            return zt_fail(vocab->ctx, ZT_EDATA,
                           "%s: token %" PRId64 ", '%s', has no row in the embedding: %d tokens, %" PRId64 " rows", vocab->file,
                           id, zt_escape(escaped, sizeof escaped, vocab->text[id].data, vocab->text[id].n), vocab->token_count,
                           rows);
    return ZT_OK;
}

bool zt_vocab_is_pieces(const zt_vocab *vocab) { return vocab && vocab->kind == &zt_vocab_sentencepiece; }

bool zt_vocab_is_eog(const zt_vocab *vocab, int32_t id)
{
    return vocab && id >= 0 && id < vocab->token_count && vocab->attr[id] & ZT_TOK_EOG;
}

bool zt_vocab_is_control(const zt_vocab *vocab, int32_t id)
{
    return vocab && id >= 0 && id < vocab->token_count && zt_vocab_type(vocab, id) == ZT_TOK_CONTROL;
}

int32_t zt_vocab_find(const zt_vocab *vocab, const char *text, size_t size)
{
    if (!vocab) return -1;
    ZT_REQUIRE(vocab->ctx, text || !size, -1);
    uint64_t hash = zt_hash_more(ZT_HASH_SEED, text, size);
    return size ? zt_vocab_lookup(vocab, hash, (zt_bytes){text, size}, (zt_bytes){"", 0}) : -1;
}

/* ---- byte tokens ----------------------------------------------------------------------------- */

void zt_vocab_hex_bytes(zt_vocab *vocab)
{
    for (int byte = 0; byte < 256; byte++) {
        char text[8];
        int length = snprintf(text, sizeof text, "<0x%02X>", byte);
        vocab->byte_id[byte] = zt_vocab_find(vocab, text, (size_t)length);
    }
}

static int hex_digit(char letter)
{
    return letter >= '0' && letter <= '9' ? letter - '0' : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10 : -1;
}

int zt_vocab_hex_byte(zt_bytes text)
{
    if (text.n != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>') return -1;
    int high = hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* ---- spaces as U+2581 ------------------------------------------------------------------------ */

static zt_status put_replaced(zt_str *out, const char *text, size_t size, const char *old, const char *with)
{
    size_t old_size = strlen(old), done = 0; /* all before done is written */
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < size; i++) {
        const char *found = memchr(text + i, old[0], size - i);
        i = found ? (size_t)(found - text) : size;
        if (size - i < old_size || memcmp(text + i, old, old_size) != 0) continue;
        status = zt_str_put(out, text + done, i - done);
        if (!status) status = zt_str_puts(out, with);
        done = i + old_size;
        i = done - 1;
    }
    return status ? status : zt_str_put(out, text + done, size - done);
}

zt_status zt_vocab_put_spaces(zt_str *out, const char *text, size_t size) { return put_replaced(out, text, size, " ", ZT_SPACE); }

zt_status zt_vocab_take_spaces(zt_str *out, const char *text, size_t size)
{
    return put_replaced(out, text, size, ZT_SPACE, " ");
}

zt_status zt_vocab_decode_spaced(const zt_vocab *vocab, int32_t id, bool first, zt_str *out)
{
    zt_bytes text = vocab->text[id];
    int byte = zt_vocab_type(vocab, id) == ZT_TOK_BYTE ? zt_vocab_hex_byte(text) : -1;
    if (byte >= 0) return zt_str_putc(out, (char)byte);
    bool added = first && vocab->add_space && text.n >= ZT_SPACE_LEN && memcmp(text.data, ZT_SPACE, ZT_SPACE_LEN) == 0;
    size_t skip = added ? ZT_SPACE_LEN : 0;
    return zt_vocab_take_spaces(out, text.data + skip, text.n - skip);
}

/* ---- text to ids ----------------------------------------------------------------------------- */

typedef struct marked_text { /* text in which special tokens are looked for */
    const char *text;
    size_t size;
    const char *origin; /* of each byte: 1, somebody typed it; NULL: not known */
    unsigned flags;
} marked_text;

/* User-defined tokens always count; control and unknown tokens only with ZT_TOK_SPECIAL, or if the template wrote their
 * first and last byte. */
static bool is_wanted_special(const zt_vocab *vocab, int32_t id, const marked_text *input, size_t offset)
{
    bool own = input->origin && !input->origin[offset] && !input->origin[offset + vocab->text[id].n - 1];
    return zt_vocab_is_special(vocab, id) && (zt_vocab_type(vocab, id) == ZT_TOK_USER || own || input->flags & ZT_TOK_SPECIAL);
}

/* The longest special token that is at `offset`, -1: none. */
static int32_t special_at(const zt_vocab *vocab, const marked_text *input, size_t offset)
{
    const char *text = input->text + offset;
    const size_t size = input->size - offset;
    const uint64_t *lengths = vocab->special[(unsigned char)text[0]];
    uint64_t hash = ZT_HASH_SEED;
    size_t done = 0;
    int32_t best = -1;
    for (size_t word = 0; word < ZT_SPECIAL_MAX / 64; word++)
        for (uint64_t bits = lengths[word]; bits; bits &= bits - 1) {
            size_t length = word * 64 + (size_t)__builtin_ctzll(bits) + 1;
            if (length > size) return best;
            hash = zt_hash_more(hash, text + done, length - done);
            done = length;
            int32_t id = zt_vocab_lookup(vocab, hash, (zt_bytes){text, length}, (zt_bytes){"", 0});
            if (id >= 0 && is_wanted_special(vocab, id, input, offset)) best = id;
        }
    return best;
}

/* Finds the first special token from `start` on, the longest of those that begin at one place. Returns its distance, or
 * that of the text's end and id -1. */
static size_t next_special(const zt_vocab *vocab, const marked_text *input, size_t start, int32_t *id)
{
    size_t i = start;
    for (*id = -1; i < input->size; i++) {
        *id = special_at(vocab, input, i);
        if (*id >= 0) break;
    }
    return i - start;
}

/* isspace of the C locale */
static bool is_space(char letter) { return letter == ' ' || (letter >= '\t' && letter <= '\r'); }

static zt_status encode_marked(const zt_vocab *vocab, const marked_text *input, zt_merger *merger, zt_ids *ids)
{
    const char *text = input->text;
    const size_t size = input->size;
    zt_status status = ZT_OK;
    for (size_t offset = 0; !status && offset < size;) {
        int32_t id;
        size_t length = next_special(vocab, input, offset, &id), plain = length;
        while (id >= 0 && vocab->attr[id] & ZT_TOK_LSTRIP && plain && is_space(text[offset + plain - 1])) plain--;
        if (plain && offset && vocab->kind->encode_next)
            status = vocab->kind->encode_next(vocab, text + offset, plain, merger, ids);
        else if (plain)
            status = vocab->kind->encode(vocab, text + offset, plain, merger, ids);
        offset += length;
        if (!status && id >= 0) {
            status = zt_ids_push(vocab->ctx, ids, id);
            offset += vocab->text[id].n;
            while (vocab->attr[id] & ZT_TOK_RSTRIP && offset < size && is_space(text[offset])) offset++;
        }
    }
    return status;
}

/* Where the special token's text is, at or after `from`; SIZE_MAX: nowhere. *len: its bytes. */
static zt_status find_special(const zt_vocab *vocab, const marked_text *input, size_t from, int32_t id, size_t *found,
                              size_t *len)
{
    zt_str word;
    zt_str_init(&word, vocab->ctx);
    zt_status status = zt_vocab_decode(vocab, id, true, false, &word);
    const char *hit = NULL;
    if (status == ZT_OK && word.len) hit = memmem(input->text + from, input->size - from, word.data, word.len);
    *found = hit ? (size_t)(hit - input->text) : SIZE_MAX;
    *len = word.len;
    zt_str_fini(&word);
    return status;
}

/* Appends to `out` the special tokens of `all` that the template wrote, and the text between them encoded without special
 * tokens. *typed: the user typed others. out NULL: only sets *typed. */
static zt_status encode_between(const zt_vocab *vocab, const marked_text *input, const zt_ids *all, zt_ids *out, bool *typed)
{
    size_t plain = 0, from = 0, found, length;
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < all->count; i++) {
        if (!zt_vocab_is_control(vocab, all->id[i])) continue;
        status = find_special(vocab, input, from, all->id[i], &found, &length);
        if (status != ZT_OK || found == SIZE_MAX) continue;
        from = found + length;
        if (input->origin[found] || input->origin[from - 1]) {
            *typed = true;
            continue;
        }
        if (out && found > plain) status = zt_vocab_encode(vocab, input->text + plain, found - plain, 0, out);
        if (out && status == ZT_OK) status = zt_ids_push(vocab->ctx, out, all->id[i]);
        plain = from;
    }
    return out && status == ZT_OK && plain < input->size
               ? zt_vocab_encode(vocab, input->text + plain, input->size - plain, 0, out)
               : status;
}

/* For a kind that handles whole texts: encodes with all special tokens. If the user typed one of them, the text is
 * encoded again, piece by piece between the special tokens that the template wrote. */
static zt_status encode_pieces(const zt_vocab *vocab, const marked_text *input, zt_ids *ids)
{
    zt_ids all = {0};
    bool typed = false;
    zt_status status = vocab->kind->encode_all(vocab, input->text, input->size, ZT_TOK_SPECIAL, &all);
    if (status == ZT_OK) status = encode_between(vocab, input, &all, NULL, &typed);
    if (status == ZT_OK && typed) status = encode_between(vocab, input, &all, ids, &typed);
    for (size_t i = 0; status == ZT_OK && !typed && i < all.count; i++) status = zt_ids_push(vocab->ctx, ids, all.id[i]);
    zt_ids_fini(vocab->ctx, &all);
    return status;
}

static zt_status check_length(const zt_vocab *vocab, size_t size)
{
    if (size > INT32_MAX / 4)
        return zt_fail(vocab->ctx, ZT_EUSAGE, "text of %zu bytes is too long to tokenize, the limit is %d", size, INT32_MAX / 4);
    return ZT_OK;
}

zt_status zt_vocab_encode_origin(const zt_vocab *vocab, const char *text, size_t size, const char *origin, unsigned flags,
                                 zt_ids *ids)
{
    if (!vocab) return ZT_EUSAGE;
    ZT_REQUIRE(vocab->ctx, (text || !size) && ids, ZT_EUSAGE);
    const marked_text input = {text, size, origin, flags & ZT_TOK_SPECIAL};
    zt_merger merger;
    zt_status status = check_length(vocab, size);
    if (status != ZT_OK || size == 0) return status;
    if (vocab->kind->encode_all)
        return input.flags ? vocab->kind->encode_all(vocab, text, size, input.flags, ids) : encode_pieces(vocab, &input, ids);
    zt_merger_init(&merger, vocab->ctx);
    status = encode_marked(vocab, &input, &merger, ids);
    zt_merger_fini(&merger);
    return status;
}

zt_status zt_vocab_encode(const zt_vocab *vocab, const char *text, size_t size, unsigned flags, zt_ids *ids)
{
    if (!vocab) return ZT_EUSAGE;
    ZT_REQUIRE(vocab->ctx, (text || !size) && ids, ZT_EUSAGE);
    bool rule = flags & ZT_TOK_BOS_RULE;
    const marked_text input = {text, size, NULL, flags};
    zt_merger merger;
    zt_status status = check_length(vocab, size);
    if (status != ZT_OK) return status;
    if (vocab->kind->encode_all) return vocab->kind->encode_all(vocab, text, size, flags, ids);
    zt_merger_init(&merger, vocab->ctx);
    if (flags & ZT_TOK_BOS && vocab->bos >= 0 && !(rule && vocab->before.count && vocab->before.id[0] == vocab->bos))
        status = zt_ids_push(vocab->ctx, ids, vocab->bos);
    for (int i = 0; !status && rule && i < vocab->before.count; i++) status = zt_ids_push(vocab->ctx, ids, vocab->before.id[i]);
    if (!status) status = encode_marked(vocab, &input, &merger, ids);
    for (int i = 0; !status && rule && i < vocab->after.count; i++) status = zt_ids_push(vocab->ctx, ids, vocab->after.id[i]);
    zt_merger_fini(&merger);
    return status;
}

/* ---- ids to text ----------------------------------------------------------------------------- */

zt_status zt_vocab_decode(const zt_vocab *vocab, int32_t id, bool special, bool first, zt_str *out)
{
    if (!vocab) return ZT_EUSAGE;
    ZT_REQUIRE(vocab->ctx, out, ZT_EUSAGE);
    if (id < 0 || id >= vocab->token_count)
        return zt_fail(vocab->ctx, ZT_EUSAGE, "token id %d is out of range: the vocabulary has %d tokens", id,
                       vocab->token_count);
    if (vocab->kind->decode_all && (special || zt_vocab_type(vocab, id) != ZT_TOK_CONTROL))
        return vocab->kind->decode(vocab, id, first, out);
    if (!zt_vocab_is_special(vocab, id)) return vocab->kind->decode(vocab, id, first, out);
    bool shown = special || zt_vocab_type(vocab, id) == ZT_TOK_USER;
    return shown ? zt_str_put(out, vocab->text[id].data, vocab->text[id].n) : ZT_OK;
}

zt_status zt_vocab_decode_ids(const zt_vocab *vocab, const int32_t *ids, size_t count, bool special, zt_str *out)
{
    if (!vocab) return ZT_EUSAGE;
    ZT_REQUIRE(vocab->ctx, (ids || !count) && out, ZT_EUSAGE);
    zt_status status = ZT_OK;
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= vocab->token_count)
            return zt_fail(vocab->ctx, ZT_EUSAGE, "token id %d is out of range: the vocabulary has %d tokens", ids[i],
                           vocab->token_count);
    if (vocab->kind->decode_all) return vocab->kind->decode_all(vocab, ids, count, special, out);
    for (size_t i = 0; !status && i < count; i++) status = zt_vocab_decode(vocab, ids[i], special, i == 0, out);
    return status;
}
