/* vocab_json_norm.c - tokenizer.json's normalizers, and the properties of characters that its components ask for.
 *
 * Besides the text a normalizer updates `zero`: how many leading bytes come from the first character of the whole text.
 * A Metaspace that prepends only to the first word needs it.
 * Characters' properties are utf8proc's. Source of the meanings: huggingface/tokenizers,
 * normalizers/, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>
#include <utf8proc.h>

/* ---- characters ------------------------------------------------------------------------------ */

uint32_t zt_char_next(const char *text, size_t size, size_t *offset)
{
    uint32_t codepoint = (unsigned char)text[*offset];
    int length = codepoint < 0x80 ? 1 : zt_utf8_decode(text + *offset, size - *offset, &codepoint);
    *offset += length ? (size_t)length : 1;
    return codepoint;
}

static zt_status put_char(zt_str *out, uint32_t codepoint)
{
    char utf8[4];
    if (codepoint < 0x80) return zt_str_putc(out, (char)codepoint);
    return zt_str_put(out, utf8, (size_t)zt_utf8_encode(codepoint, utf8));
}

bool zt_char_space(uint32_t codepoint)
{
    if (codepoint < 0x80) return codepoint == ' ' || (codepoint >= 9 && codepoint <= 13);
    return codepoint == 0x85 || codepoint == 0xa0 || codepoint == 0x1680 || (codepoint >= 0x2000 && codepoint <= 0x200a) ||
           codepoint == 0x2028 || codepoint == 0x2029 || codepoint == 0x202f || codepoint == 0x205f || codepoint == 0x3000;
}

static bool ascii_letter(uint32_t codepoint) { return (codepoint | 32) >= 'a' && (codepoint | 32) <= 'z'; }

static bool ascii_digit(uint32_t codepoint) { return codepoint >= '0' && codepoint <= '9'; }

static unsigned category_bit(uint32_t codepoint) { return 1u << utf8proc_category((utf8proc_int32_t)codepoint); }

#define CATEGORY(x) (1u << UTF8PROC_CATEGORY_##x)
#define MARKS       (CATEGORY(MN) | CATEGORY(MC) | CATEGORY(ME))
#define PUNCTS      (CATEGORY(PC) | CATEGORY(PD) | CATEGORY(PS) | CATEGORY(PE) | CATEGORY(PI) | CATEGORY(PF) | CATEGORY(PO))
#define LETTERS     (CATEGORY(LU) | CATEGORY(LL) | CATEGORY(LT) | CATEGORY(LM) | CATEGORY(LO))

/* Alphabetic, marks, decimal digits, connectors, joiners. Alphabetic is letters, letter numbers,
 * some marks and the letters in circles and squares. */
bool zt_char_word(uint32_t codepoint)
{
    if (codepoint < 0x80) return ascii_letter(codepoint) || ascii_digit(codepoint) || codepoint == '_';
    if (codepoint == 0x200c || codepoint == 0x200d || (codepoint >= 0x24b6 && codepoint <= 0x24e9)) return true;
    if ((codepoint >= 0x1f130 && codepoint <= 0x1f149) || (codepoint >= 0x1f150 && codepoint <= 0x1f169) ||
        (codepoint >= 0x1f170 && codepoint <= 0x1f189))
        return true;
    return category_bit(codepoint) & (LETTERS | MARKS | CATEGORY(ND) | CATEGORY(NL) | CATEGORY(PC));
}

bool zt_char_punct(uint32_t codepoint)
{
    if (codepoint < 0x80) return codepoint > 32 && codepoint < 127 && !ascii_letter(codepoint) && !ascii_digit(codepoint);
    return category_bit(codepoint) & PUNCTS;
}

bool zt_char_number(uint32_t codepoint)
{
    return codepoint < 0x80 ? ascii_digit(codepoint)
                            : (category_bit(codepoint) & (CATEGORY(ND) | CATEGORY(NL) | CATEGORY(NO))) != 0;
}

/* Bytes that print in Latin-1 stand for themselves; the others, in order, for U+0100 and on. */
zt_status zt_char_print(const char *bytes, size_t size, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < size; i++) {
        uint32_t byte = (unsigned char)bytes[i];
        status = put_char(out, byte <= 32                   ? 256 + byte
                               : byte >= 127 && byte <= 160 ? 256 + 33 + (byte - 127)
                               : byte == 173                ? 256 + 33 + 34
                                                            : byte);
    }
    return status;
}

/* ---- character by character ------------------------------------------------------------------ */

/* What becomes of one character is appended to out. */
typedef zt_status map_fn(const zt_tj_step *step, uint32_t codepoint, zt_str *out);

static zt_status map_text(const zt_tj_step *step, zt_text input, map_fn *map_char, zt_str *out, size_t *zero)
{
    zt_status status = ZT_OK;
    *zero = 0;
    for (size_t i = 0; !status && i < input.size;) {
        bool from_zero = i < input.zero;
        status = map_char(step, zt_char_next(input.data, input.size, &i), out);
        if (from_zero) *zero = out->len;
    }
    return status;
}

/* Rust's lower case is Unicode's, one character at a time: only one becomes two. */
static zt_status lower_char(const zt_tj_step *step, uint32_t codepoint, zt_str *out)
{
    (void)step;
    if (codepoint < 0x80) return zt_str_putc(out, (char)(codepoint >= 'A' && codepoint <= 'Z' ? codepoint + 32 : codepoint));
    if (codepoint == 0x130) return zt_str_put(out, "i\xcc\x87", 3);
    return put_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint));
}

static zt_status unmark_char(const zt_tj_step *step, uint32_t codepoint, zt_str *out)
{
    (void)step;
    return codepoint >= 0x80 && category_bit(codepoint) & MARKS ? ZT_OK : put_char(out, codepoint);
}

static zt_status nmt_char(const zt_tj_step *step, uint32_t codepoint, zt_str *out)
{
    (void)step;
    if ((codepoint >= 1 && codepoint <= 8) || codepoint == 0xb || (codepoint >= 0xe && codepoint <= 0x1f) || codepoint == 0x7f ||
        codepoint == 0x8f || codepoint == 0x9f)
        return ZT_OK;
    bool space = codepoint == 9 || codepoint == 0xa || codepoint == 0xc || codepoint == 0xd || codepoint == 0x1680 ||
                 (codepoint >= 0x200b && codepoint <= 0x200f) || codepoint == 0x2028 || codepoint == 0x2029 ||
                 codepoint == 0x2581 || codepoint == 0xfeff || codepoint == 0xfffd;
    return put_char(out, space ? ' ' : codepoint);
}

static zt_status byte_char(const zt_tj_step *step, uint32_t codepoint, zt_str *out)
{
    char utf8[4];
    (void)step;
    return zt_char_print(utf8, (size_t)zt_utf8_encode(codepoint, utf8), out);
}

#define BY_CHAR(name, map_char)                                                                                                  \
    static zt_status name(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)                    \
    {                                                                                                                            \
        (void)work;                                                                                                              \
        return map_text(step, input, map_char, out, zero);                                                                       \
    }
BY_CHAR(norm_lowercase, lower_char)
BY_CHAR(norm_strip_accents, unmark_char)
BY_CHAR(norm_nmt, nmt_char)
BY_CHAR(norm_byte_level, byte_char)

/* ---- normal forms ---------------------------------------------------------------------------- */

/* Sorts marks by combining class, stable, between two characters of class 0. A counting sort, because a hostile text may
 * consist of marks only. */
static zt_status order_marks(zt_ctx *ctx, int32_t *codepoints, size_t mark_count)
{
    size_t count[257] = {0};
    bool sorted = true;
    int last = 0;
    for (size_t i = 0; i < mark_count; i++) {
        int combining_class = utf8proc_get_property(codepoints[i])->combining_class;
        sorted = sorted && combining_class >= last;
        last = combining_class;
        count[combining_class + 1]++;
    }
    if (sorted) return ZT_OK;
    int32_t *copy = zt_alloc_array(ctx, mark_count, sizeof *copy);
    if (!copy) return ZT_ENOMEM;
    memcpy(copy, codepoints, mark_count * sizeof *codepoints);
    for (int class_index = 1; class_index < 257; class_index++) count[class_index] += count[class_index - 1];
    for (size_t i = 0; i < mark_count; i++) codepoints[count[utf8proc_get_property(copy[i])->combining_class]++] = copy[i];
    zt_free(ctx, copy);
    return ZT_OK;
}

static zt_status order_all_marks(zt_ctx *ctx, int32_t *codepoints, size_t count)
{
    zt_status status = ZT_OK;
    for (size_t i = 0, from; !status && i < count;) {
        for (; i < count && !utf8proc_get_property(codepoints[i])->combining_class; i++)
            ;
        for (from = i; i < count && utf8proc_get_property(codepoints[i])->combining_class; i++)
            ;
        if (i - from > 1) status = order_marks(ctx, codepoints + from, i - from);
    }
    return status;
}

enum { MOST_DECOMPOSED = 18 }; /* characters that one becomes, by Unicode's stability policy */

/* Decomposed, ordered, and composed again if how & COMPOSE; appended. No character before the text
 * combines with it. */
static zt_status normal_form(zt_ctx *ctx, const char *text, size_t size, int form, zt_str *out)
{
    size_t capacity = size + MOST_DECOMPOSED, count = 0;
    int32_t *codepoints = zt_alloc_array(ctx, capacity, sizeof *codepoints);
    zt_status status = codepoints ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !status && i < size;) {
        int boundary = 0;
        if (capacity - count < MOST_DECOMPOSED) {
            int32_t *grown = zt_realloc(ctx, codepoints, (2 * capacity) * sizeof *codepoints);
            if (!grown) {
                status = ZT_ENOMEM;
                break;
            }
            codepoints = grown;
            capacity *= 2;
        }
        utf8proc_ssize_t decomposed = utf8proc_decompose_char((utf8proc_int32_t)zt_char_next(text, size, &i), codepoints + count,
                                                              (utf8proc_ssize_t)(capacity - count),
                                                              (utf8proc_option_t)(form & ~UTF8PROC_COMPOSE), &boundary);
        if (decomposed < 0 || (size_t)decomposed > capacity - count)
            status = zt_fail(ctx, ZT_EBUG, "utf8proc: %s", utf8proc_errmsg(decomposed));
        else
            count += (size_t)decomposed;
    }
    if (!status) status = order_all_marks(ctx, codepoints, count);
    if (!status && form & UTF8PROC_COMPOSE)
        count = (size_t)utf8proc_normalize_utf32(codepoints, (utf8proc_ssize_t)count,
                                                 (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (size_t i = 0; !status && i < count; i++) status = put_char(out, (uint32_t)codepoints[i]);
    zt_free(ctx, codepoints);
    return status;
}

/* ASCII is unchanged by every form and combines with nothing before it, so only runs of other characters are normalized,
 * each with the ASCII character before it. */
static zt_status normal_text(zt_ctx *ctx, zt_text input, int form, zt_str *out, size_t *zero)
{
    zt_status status = ZT_OK;
    size_t start = out->len;
    for (size_t i = 0; !status && i < input.size;) {
        size_t from = i;
        for (; i < input.size && (unsigned char)input.data[i] < 0x80; i++)
            ;
        size_t plain = i < input.size && i > from ? i - 1 : i;
        status = zt_str_put(out, input.data + from, plain - from);
        for (; i < input.size && (unsigned char)input.data[i] >= 0x80; i++)
            ;
        if (!status && i > plain) status = normal_form(ctx, input.data + plain, i - plain, form, out);
    }
    *zero = 0;
    if (input.zero && out->len > start) zt_char_next(out->data + start, out->len - start, zero);
    return status;
}

enum { NFD = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NFC = UTF8PROC_STABLE | UTF8PROC_COMPOSE };

#define NORMAL_FORM(name, form)                                                                                                  \
    static zt_status name(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)                    \
    {                                                                                                                            \
        (void)step;                                                                                                              \
        return normal_text(work->tokenizer->ctx, input, form, out, zero);                                                        \
    }
NORMAL_FORM(norm_nfc, NFC | UTF8PROC_DECOMPOSE)
NORMAL_FORM(norm_nfd, NFD)
NORMAL_FORM(norm_nfkc, NFC | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)
NORMAL_FORM(norm_nfkd, NFD | UTF8PROC_COMPAT)

/* ---- BERT ------------------------------------------------------------------------------------ */

enum { CLEAN, CHINESE, ACCENTS, LOWER };

static zt_status read_bert(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    step->flag[CLEAN] = step->flag[CHINESE] = step->flag[LOWER] = true;
    zt_status status = zt_tj_bool(reader, object, "clean_text", &step->flag[CLEAN]);
    if (!status) status = zt_tj_bool(reader, object, "handle_chinese_chars", &step->flag[CHINESE]);
    if (!status) status = zt_tj_bool(reader, object, "lowercase", &step->flag[LOWER]);
    step->flag[ACCENTS] = step->flag[LOWER];
    return status ? status : zt_tj_bool(reader, object, "strip_accents", &step->flag[ACCENTS]);
}

static bool is_chinese(uint32_t codepoint)
{
    static const uint32_t range[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                        {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; codepoint >= 0x3400 && i < sizeof range / sizeof *range; i++)
        if (codepoint >= range[i][0] && codepoint <= range[i][1]) return true;
    return false;
}

static bool is_control(uint32_t codepoint) { return category_bit(codepoint) & (CATEGORY(CC) | CATEGORY(CF) | CATEGORY(CO)); }

/* Controls go, white space is a blank, Chinese characters stand between blanks. */
static zt_status clean_char(const zt_tj_step *step, uint32_t codepoint, zt_str *out)
{
    if (step->flag[CLEAN]) {
        bool space = codepoint == '\t' || codepoint == '\n' || codepoint == '\r';
        if (codepoint == 0 || codepoint == 0xfffd || (!space && is_control(codepoint))) return ZT_OK;
        if (space || zt_char_space(codepoint)) codepoint = ' ';
    }
    bool apart = step->flag[CHINESE] && is_chinese(codepoint);
    zt_status status = apart ? zt_str_putc(out, ' ') : ZT_OK;
    if (!status) status = put_char(out, codepoint);
    return !status && apart ? zt_str_putc(out, ' ') : status;
}

static zt_status unaccent_char(const zt_tj_step *step, uint32_t codepoint, zt_str *out)
{
    (void)step;
    return codepoint >= 0x80 && category_bit(codepoint) & CATEGORY(MN) ? ZT_OK : put_char(out, codepoint);
}

static zt_status norm_bert(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)
{
    zt_str cleaned, decomposed;
    zt_str_init(&cleaned, work->tokenizer->ctx);
    zt_str_init(&decomposed, work->tokenizer->ctx);
    zt_status status = map_text(step, input, clean_char, step->flag[ACCENTS] || step->flag[LOWER] ? &cleaned : out, zero);
    if (!status && step->flag[ACCENTS]) {
        status = normal_text(work->tokenizer->ctx, (zt_text){cleaned.data, cleaned.len, *zero}, NFD, &decomposed, zero);
        zt_str_clear(&cleaned);
        if (!status)
            status = map_text(step, (zt_text){decomposed.data, decomposed.len, *zero}, unaccent_char,
                              step->flag[LOWER] ? &cleaned : out, zero);
    }
    if (!status && step->flag[LOWER]) status = map_text(step, (zt_text){cleaned.data, cleaned.len, *zero}, lower_char, out, zero);
    zt_str_fini(&cleaned);
    zt_str_fini(&decomposed);
    return status;
}

/* ---- ends and parts of the text -------------------------------------------------------------- */

static zt_status read_strip(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_status status = zt_tj_bool(reader, object, "strip_left", &step->flag[0]);
    return status ? status : zt_tj_bool(reader, object, "strip_right", &step->flag[1]);
}

static zt_status norm_strip(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)
{
    size_t from = 0, to = 0;
    (void)work;
    for (size_t i = 0; step->flag[0] && i < input.size && zt_char_space(zt_char_next(input.data, input.size, &i));) from = i;
    for (size_t i = from; step->flag[1] && i < input.size;)
        if (!zt_char_space(zt_char_next(input.data, input.size, &i))) to = i;
    if (!step->flag[1]) to = input.size;
    *zero = from < input.zero ? input.zero - from : 0;
    return to > from ? zt_str_put(out, input.data + from, to - from) : ZT_OK;
}

static zt_status read_prepend(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_status status = zt_tj_need(reader, object, "prepend");
    return status ? status : zt_tj_text(reader, object, "prepend", &step->text);
}

static zt_status norm_prepend(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)
{
    (void)work;
    *zero = input.zero ? input.zero + step->text.n : 0;
    zt_status status = zt_str_put(out, step->text.data, step->text.n);
    return status ? status : zt_str_put(out, input.data, input.size);
}

static zt_status read_replace(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_status status = zt_tj_need(reader, object, "content");
    if (!status) status = zt_tj_text(reader, object, "content", &step->text);
    return status ? status : zt_pattern_read(reader, object, "pattern", &step->pattern);
}

/* New text comes from where the character before its end in the old text came from. */
static zt_status norm_replace(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)
{
    zt_finder finder = {.pattern = step->pattern, .work = work, .text = input.data, .size = input.size};
    size_t done = 0, from, to;
    bool found;
    zt_status status;
    *zero = input.zero;
    while (!(status = zt_finder_next(&finder, &found, &from, &to)) && found) {
        status = zt_str_put(out, input.data + done, from - done);
        if (!status) status = zt_str_put(out, step->text.data, step->text.n);
        if (status) return status;
        if (input.zero && from <= input.zero) *zero = to <= input.zero ? out->len + (input.zero - to) : out->len - step->text.n;
        done = to;
    }
    return status ? status : zt_str_put(out, input.data + done, input.size - done);
}

/* A grapheme cluster of less than 6 bytes, or else each of its characters, is replaced as a whole if some key of the map
 * is its prefix; the shortest such key counts. Source: the crates spm_precompiled and tokenizers
 * (normalizers/precompiled.rs), as facts. */
enum { CLUSTER = 6 };

/* ---- Precompiled: SentencePiece's charsmap --------------------------------------------------------------------------------- */

static int base64_value(char digit)
{
    return digit >= 'A' && digit <= 'Z'   ? digit - 'A'
           : digit >= 'a' && digit <= 'z' ? digit - 'a' + 26
           : digit >= '0' && digit <= '9' ? digit - '0' + 52
           : digit == '+'                 ? 62
           : digit == '/'                 ? 63
                                          : -1;
}

size_t zt_tj_base64(zt_bytes input, char *out)
{
    size_t size = 0;
    uint32_t bits = 0;
    while (input.n && input.data[input.n - 1] == '=') input.n--;
    for (size_t i = 0; i < input.n; i++) {
        int value = base64_value(input.data[i]);
        if (value < 0) return SIZE_MAX;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4) out[size++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    return size;
}

static zt_status read_precompiled(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_bytes text;
    zt_status status = zt_tj_need(reader, object, "precompiled_charsmap");
    if (!status) status = zt_tj_text(reader, object, "precompiled_charsmap", &text);
    if (status) return status;
    char *bytes = zt_arena_alloc(reader->texts, text.n + 1);
    if (!bytes) return ZT_ENOMEM;
    size_t size = zt_tj_base64(text, bytes);
    if (size == SIZE_MAX)
        return zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'precompiled_charsmap' is not base64", reader->file, reader->where);
    step->map = zt_charsmap_new(reader->ctx, reader->file, (zt_bytes){bytes, size});
    return step->map ? ZT_OK : zt_ctx_status(reader->ctx);
}

/* ---- Precompiled: looking up ------------------------------------------------------------------------------ */

/* The text is replaced if some key is a prefix: then *done. */
static zt_status replace_prefix(const zt_charsmap *charsmap, const char *text, size_t size, zt_str *out, bool *done)
{
    zt_bytes replacement;
    size_t used = 0;
    zt_status status = zt_charsmap_prefix(charsmap, text, size, true, &replacement, &used);
    *done = used > 0;
    for (size_t i = 0; !status && used && i < replacement.n; i++) {
        uint32_t codepoint;
        int length = zt_utf8_decode(replacement.data + i, replacement.n - i, &codepoint);
        if (!length) return zt_fail(out->ctx, ZT_EDATA, "invalid precompiled_charsmap: a replacement is not UTF-8");
        i += (size_t)length - 1;
    }
    return !status && used ? zt_str_put(out, replacement.data, replacement.n) : status;
}

static zt_status each_char(const zt_charsmap *charsmap, const char *text, size_t size, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0, from; !status && i < size;) {
        bool done;
        from = i;
        zt_char_next(text, size, &i);
        status = replace_prefix(charsmap, text + from, i - from, out, &done);
        if (!status && !done) status = zt_str_put(out, text + from, i - from);
    }
    return status;
}

/* Where the grapheme cluster that begins at text[offset] ends. */
static size_t cluster_end(zt_text input, size_t offset)
{
    utf8proc_int32_t state = 0, left = (utf8proc_int32_t)zt_char_next(input.data, input.size, &offset);
    while (offset < input.size) {
        size_t next = offset;
        utf8proc_int32_t right = (utf8proc_int32_t)zt_char_next(input.data, input.size, &next);
        if (utf8proc_grapheme_break_stateful(left, right, &state)) break;
        left = right;
        offset = next;
    }
    return offset;
}

static zt_status norm_precompiled(const zt_tj_step *step, zt_tj_work *work, zt_text input, zt_str *out, size_t *zero)
{
    zt_status status = ZT_OK;
    (void)work;
    for (size_t i = 0, end; !status && i < input.size; i = end) {
        bool done = false;
        end = cluster_end(input, i);
        if (end - i < CLUSTER) status = replace_prefix(step->map, input.data + i, end - i, out, &done);
        if (!status && !done) status = each_char(step->map, input.data + i, end - i, out);
    }
    *zero = 0;
    if (input.zero && out->len) zt_char_next(out->data, out->len, zero);
    return status;
}

/* ---- the family ------------------------------------------------------------------------------ */

static const zt_tj_row rows[] = {
    {"BertNormalizer", .read = read_bert, .norm = norm_bert},
    {"ByteLevel", .norm = norm_byte_level},
    {"Lowercase", .norm = norm_lowercase},
    {"NFC", .norm = norm_nfc},
    {"NFD", .norm = norm_nfd},
    {"NFKC", .norm = norm_nfkc},
    {"NFKD", .norm = norm_nfkd},
    {"Nmt", .norm = norm_nmt},
    {"Precompiled", .read = read_precompiled, .norm = norm_precompiled},
    {"Prepend", .read = read_prepend, .norm = norm_prepend},
    {"Replace", .read = read_replace, .norm = norm_replace},
    {"Strip", .read = read_strip, .norm = norm_strip},
    {"StripAccents", .norm = norm_strip_accents},
    {0},
};
const zt_tj_family zt_norms = {"normalizer", "normalizers", rows};

/* An empty text stays empty: no normalizer runs on it. */
zt_status zt_norm_run(const zt_tj *tokenizer, zt_tj_work *work, zt_text input, zt_text *out)
{
    zt_status status = ZT_OK;
    *out = input;
    for (int i = 0; !status && out->size && i < tokenizer->norm.count; i++) {
        zt_str *buffer = &work->norm[i & 1];
        size_t zero = 0;
        zt_str_clear(buffer);
        status = tokenizer->norm.step[i].row->norm(&tokenizer->norm.step[i], work, *out, buffer, &zero);
        *out = (zt_text){buffer->data, buffer->len, zero < buffer->len ? zero : buffer->len};
    }
    return status;
}
