/* vocab_json_decode.c - tokenizer.json's decoders: a list of token texts becomes one text.
 *
 * One token may also be decoded alone, while a text is streamed. Then incomplete UTF-8 stays bytes (not U+FFFD), rules
 * for the first token apply if it opens the text, and rules for the last token do not apply. Source:
 * huggingface/tokenizers, decoders/, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

#define BROKEN "\xef\xbf\xbd" /* U+FFFD */

zt_status zt_parts_end(zt_parts *parts)
{
    if (parts->count == parts->capacity) {
        size_t capacity = parts->capacity ? 2 * parts->capacity : 32, bytes;
        if (!zt_mul_size(capacity, sizeof *parts->end, &bytes))
            return zt_fail(parts->bytes.ctx, ZT_ENOMEM, "too many strings (%zu)", parts->count);
        size_t *end = zt_realloc(parts->bytes.ctx, parts->end, bytes);
        if (!end) return ZT_ENOMEM;
        parts->end = end;
        parts->capacity = capacity;
    }
    parts->end[parts->count++] = parts->bytes.len;
    return ZT_OK;
}

static zt_bytes get_part(const zt_parts *parts, size_t index)
{
    size_t from = index ? parts->end[index - 1] : 0;
    return (zt_bytes){parts->bytes.len ? parts->bytes.data + from : "", parts->end[index] - from};
}

static bool begins_with(zt_bytes text, zt_bytes with) { return text.n >= with.n && memcmp(text.data, with.data, with.n) == 0; }

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Number of bytes that one U+FFFD replaces: the longest incomplete character at the start of text, at least 1. */
static size_t broken_bytes(const char *text, size_t size)
{
    unsigned char first = (unsigned char)text[0], low = 0x80, high = 0xbf;
    size_t expected = first >= 0xc2 && first <= 0xdf   ? 2
                      : first >= 0xe0 && first <= 0xef ? 3
                      : first >= 0xf0 && first <= 0xf4 ? 4
                                                       : 1;
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    size_t i = 1;
    for (; i < expected && i < size; i++, low = 0x80, high = 0xbf)
        if ((unsigned char)text[i] < low || (unsigned char)text[i] > high) break;
    return i;
}

static zt_status put_lossy(zt_str *out, const char *text, size_t size)
{
    zt_status status = ZT_OK;
    for (size_t i = 0, from = 0; !status && from < size; from = i) {
        uint32_t codepoint;
        int length;
        while (i < size && (length = zt_utf8_decode(text + i, size - i, &codepoint)) > 0) i += (size_t)length;
        status = zt_str_put(out, text + from, i - from);
        if (status || i == size) break;
        i += broken_bytes(text + i, size - i);
        status = zt_str_puts(out, BROKEN);
    }
    return status;
}

static int byte_of_char(uint32_t codepoint) /* -1: stands for none */
{
    if (codepoint >= 256)
        return codepoint < 256 + 33    ? (int)codepoint - 256
               : codepoint < 256 + 67  ? (int)codepoint - 256 + 127 - 33
               : codepoint == 256 + 67 ? 173
                                       : -1;
    return codepoint <= 32 || (codepoint >= 127 && codepoint <= 160) || codepoint == 173 ? -1 : (int)codepoint;
}

/* The bytes that its characters stand for; if one of them stands for none, its own bytes. */
static zt_status put_unprinted(zt_str *out, zt_bytes text)
{
    size_t start = out->len;
    for (size_t i = 0; i < text.n;) {
        uint32_t codepoint = 0;
        int length = zt_utf8_decode(text.data + i, text.n - i, &codepoint), byte = length ? byte_of_char(codepoint) : -1;
        if (byte < 0) {
            out->len = start;
            return zt_str_put(out, text.data, text.n);
        }
        zt_status status = zt_str_putc(out, (char)byte);
        if (status) return status;
        i += (size_t)length;
    }
    return ZT_OK;
}

static zt_status decode_byte_level(const zt_tj_step *step, zt_tj_work *work, const zt_parts *input, zt_parts *out)
{
    zt_str bytes;
    zt_status status = ZT_OK;
    (void)step;
    zt_str_init(&bytes, work->tokenizer->ctx);
    for (size_t i = 0; !status && i < input->count; i++) status = put_unprinted(&bytes, get_part(input, i));
    if (!status)
        status = work->alone ? zt_str_put(&out->bytes, bytes.len ? bytes.data : "", bytes.len)
                             : put_lossy(&out->bytes, bytes.data, bytes.len);
    zt_str_fini(&bytes);
    return status ? status : zt_parts_end(out);
}

static int hex_digit(char letter)
{
    return letter >= '0' && letter <= '9'                 ? letter - '0'
           : (letter | 32) >= 'a' && (letter | 32) <= 'f' ? (letter | 32) - 'a' + 10
                                                          : -1;
}

/* The value of "<0x41>", -1: it is not of that form. A sign may stand for the first digit. */
static int byte_of_text(zt_bytes text)
{
    if (text.n != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>') return -1;
    int high = text.data[3] == '+' ? 0 : hex_digit(text.data[3]), low = hex_digit(text.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A run of bytes: one text if it is UTF-8, else U+FFFD for each byte. */
static zt_status put_run(const zt_tj_work *work, const zt_str *run, zt_parts *out)
{
    bool valid = true;
    uint32_t codepoint;
    zt_status status = ZT_OK;
    for (size_t i = 0, length; valid && i < run->len; i += length)
        valid = (length = (size_t)zt_utf8_decode(run->data + i, run->len - i, &codepoint)) > 0;
    if (valid || work->alone) {
        status = zt_str_put(&out->bytes, run->data, run->len);
        return status ? status : zt_parts_end(out);
    }
    for (size_t i = 0; !status && i < run->len; i++) {
        status = zt_str_puts(&out->bytes, BROKEN);
        if (!status) status = zt_parts_end(out);
    }
    return status;
}

static zt_status decode_byte_fallback(const zt_tj_step *step, zt_tj_work *work, const zt_parts *input, zt_parts *out)
{
    zt_str run;
    zt_status status = ZT_OK;
    (void)step;
    zt_str_init(&run, work->tokenizer->ctx);
    for (size_t i = 0; !status && i <= input->count; i++) {
        int byte = i < input->count ? byte_of_text(get_part(input, i)) : -1;
        if (byte >= 0) {
            status = zt_str_putc(&run, (char)byte);
            continue;
        }
        if (run.len) status = put_run(work, &run, out);
        zt_str_clear(&run);
        if (!status && i < input->count) status = zt_str_put(&out->bytes, get_part(input, i).data, get_part(input, i).n);
        if (!status && i < input->count) status = zt_parts_end(out);
    }
    zt_str_fini(&run);
    return status;
}

/* ---- part by part ---------------------------------------------------------------------------- */

/* Appends what the i-th of n texts becomes. */
typedef zt_status part_fn(const zt_tj_step *step, zt_tj_work *work, zt_bytes text, size_t index, size_t size, zt_str *out);

static zt_status decode_each(const zt_tj_step *step, zt_tj_work *work, const zt_parts *input, zt_parts *out, part_fn *decode_part)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < input->count; i++) {
        status = decode_part(step, work, get_part(input, i), i, input->count, &out->bytes);
        if (!status) status = zt_parts_end(out);
    }
    return status;
}

#define EACH(name, decode_part)                                                                                                  \
    static zt_status name(const zt_tj_step *step, zt_tj_work *work, const zt_parts *input, zt_parts *out)                        \
    {                                                                                                                            \
        return decode_each(step, work, input, out, decode_part);                                                                 \
    }

static bool opens_text(const zt_tj_work *work, size_t index) { return index == 0 && work->first; }

/* Appends text with every `from` replaced by `to`. */
static zt_status put_replaced(zt_str *out, zt_bytes text, zt_bytes from, zt_bytes to)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i <= text.n;) {
        const char *found = from.n ? memmem(text.data + i, text.n - i, from.data, from.n) : NULL;
        size_t end = found ? (size_t)(found - text.data) : text.n;
        status = zt_str_put(out, text.data + i, end - i);
        if (!status && found) status = zt_str_put(out, to.data, to.n);
        i = found ? end + from.n : text.n + 1;
    }
    return status;
}

/* Metaspace: the replacement becomes a blank; in the first text it is removed if the scheme prepends one. */
static zt_status metaspace_part(const zt_tj_step *step, zt_tj_work *work, zt_bytes text, size_t index, size_t count, zt_str *out)
{
    enum { NEVER = 2 };
    (void)count;
    bool drop = opens_text(work, index) && step->mode != NEVER;
    return put_replaced(out, text, step->text, (zt_bytes){" ", drop ? 0 : 1});
}
EACH(decode_metaspace, metaspace_part)

static zt_status read_bpe(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    step->text = (zt_bytes){"</w>", 4};
    return zt_tj_text(reader, object, "suffix", &step->text);
}

static zt_status bpe_part(const zt_tj_step *step, zt_tj_work *work, zt_bytes text, size_t index, size_t count, zt_str *out)
{
    bool last = index + 1 == count && !work->alone;
    return put_replaced(out, text, step->text, (zt_bytes){" ", last ? 0 : 1});
}
EACH(decode_bpe, bpe_part)

static zt_status read_strip(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    uint32_t codepoint;
    step->text = (zt_bytes){" ", 1};
    zt_status status = zt_tj_text(reader, object, "content", &step->text);
    if (!status && (!step->text.n || (size_t)zt_utf8_decode(step->text.data, step->text.n, &codepoint) != step->text.n))
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'content' is not one character", reader->file, reader->where);
    if (!status) status = zt_tj_size(reader, object, "start", &step->start);
    return status ? status : zt_tj_size(reader, object, "stop", &step->stop);
}

/* Removes up to `start` characters at the beginning and `stop` at the end. After a Fuse these are the ends of the whole
 * text, of which a token decoded alone can have only the first. */
static zt_status strip_part(const zt_tj_step *step, zt_tj_work *work, zt_bytes text, size_t index, size_t count, zt_str *out)
{
    bool fused = work->alone && step->flag[0];
    (void)count;
    for (int64_t k = 0; k < step->start && (!fused || opens_text(work, index)) && begins_with(text, step->text); k++)
        text = (zt_bytes){text.data + step->text.n, text.n - step->text.n};
    for (int64_t k = 0; k < step->stop && !fused && text.n >= step->text.n; k++) {
        if (memcmp(text.data + text.n - step->text.n, step->text.data, step->text.n) != 0) break;
        text.n -= step->text.n;
    }
    return zt_str_put(out, text.data, text.n);
}
EACH(decode_strip, strip_part)

static zt_status read_replace(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_status status = zt_tj_need(reader, object, "content");
    if (!status) status = zt_tj_text(reader, object, "content", &step->text);
    return status ? status : zt_pattern_read(reader, object, "pattern", &step->pattern);
}

static bool is_utf8(zt_bytes text)
{
    uint32_t codepoint;
    int length;
    for (size_t i = 0; i < text.n; i += (size_t)length)
        if (!(length = zt_utf8_decode(text.data + i, text.n - i, &codepoint))) return false;
    return true;
}

/* Bytes that are not UTF-8, which only a token alone can be, are left as they are. */
static zt_status replace_part(const zt_tj_step *step, zt_tj_work *work, zt_bytes text, size_t index, size_t count, zt_str *out)
{
    zt_finder finder = {.pattern = step->pattern, .work = work, .text = text.data, .size = text.n};
    size_t done = 0, from, to;
    bool found;
    zt_status status;
    (void)index, (void)count;
    if (!text.n || !is_utf8(text)) return zt_str_put(out, text.data, text.n);
    while (!(status = zt_finder_next(&finder, &found, &from, &to)) && found) {
        status = zt_str_put(out, text.data + done, from - done);
        if (!status) status = zt_str_put(out, step->text.data, step->text.n);
        if (status) return status;
        done = to;
    }
    return status ? status : zt_str_put(out, text.data + done, text.n - done);
}
EACH(decode_replace, replace_part)

static zt_status decode_fuse(const zt_tj_step *step, zt_tj_work *work, const zt_parts *input, zt_parts *out)
{
    (void)step, (void)work;
    zt_status status = zt_str_put(&out->bytes, input->bytes.len ? input->bytes.data : "", input->bytes.len);
    return status ? status : zt_parts_end(out);
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

enum { CLEANUP };

static zt_status read_wordpiece(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    step->text = (zt_bytes){"##", 2};
    step->flag[CLEANUP] = true;
    zt_status status = zt_tj_text(reader, object, "prefix", &step->text);
    return status ? status : zt_tj_bool(reader, object, "cleanup", &step->flag[CLEANUP]);
}

/* English punctuation without the blanks that tokens put there. */
static zt_status clean_up(zt_str *text)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && text->len && i < sizeof pairs / sizeof *pairs; i++) {
        zt_bytes from = {pairs[i][0], strlen(pairs[i][0])}, to = {pairs[i][1], strlen(pairs[i][1])};
        zt_str cleaned;
        if (!memmem(text->data, text->len, from.data, from.n)) continue;
        zt_str_init(&cleaned, text->ctx);
        status = put_replaced(&cleaned, (zt_bytes){text->data, text->len}, from, to);
        zt_str_fini(text);
        *text = cleaned;
    }
    return status;
}

static zt_status wordpiece_part(const zt_tj_step *step, zt_tj_work *work, zt_bytes part_text, size_t index, size_t count,
                                zt_str *out)
{
    zt_str text;
    zt_status status = ZT_OK;
    (void)count;
    zt_str_init(&text, work->tokenizer->ctx);
    if (!opens_text(work, index) && begins_with(part_text, step->text))
        part_text = (zt_bytes){part_text.data + step->text.n, part_text.n - step->text.n};
    else if (!opens_text(work, index))
        status = zt_str_putc(&text, ' ');
    if (!status) status = zt_str_put(&text, part_text.data, part_text.n);
    if (!status && step->flag[CLEANUP]) status = clean_up(&text);
    if (!status && text.len) status = zt_str_put(out, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
EACH(decode_wordpiece, wordpiece_part)

/* ---- the family ------------------------------------------------------------------------------ */

static const zt_tj_row rows[] = {
    {"BPEDecoder", .read = read_bpe, .decode = decode_bpe},
    {"ByteFallback", .decode = decode_byte_fallback},
    {"ByteLevel", .decode = decode_byte_level},
    {"Fuse", .decode = decode_fuse},
    {"Metaspace", .read = zt_metaspace_read, .decode = decode_metaspace},
    {"Replace", .read = read_replace, .decode = decode_replace},
    {"Strip", .read = read_strip, .decode = decode_strip},
    {"WordPiece", .read = read_wordpiece, .decode = decode_wordpiece},
    {0},
};
const zt_tj_family zt_decoders = {"decoder", "decoders", rows};

/* Whole texts come out of these: a Strip after them means the ends of all. */
void zt_decode_link(zt_tj_steps *steps)
{
    bool fused = false;
    for (int i = 0; i < steps->count; i++) {
        zt_tj_step *step = &steps->step[i];
        fused = fused || step->row->decode == decode_fuse || step->row->decode == decode_byte_level;
        if (step->row->decode == decode_strip) step->flag[0] = fused;
    }
}

static void parts_clear(zt_parts *parts)
{
    zt_str_clear(&parts->bytes);
    parts->count = 0;
}

/* Without a decoder: a blank between texts. */
static zt_status join_blanks(const zt_tj_work *work, const zt_parts *parts, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < parts->count; i++) {
        if (!opens_text(work, i)) status = zt_str_putc(out, ' ');
        if (!status) status = zt_str_put(out, get_part(parts, i).data, get_part(parts, i).n);
    }
    return status;
}

zt_status zt_decode_run(const zt_tj *tokenizer, zt_tj_work *work, zt_parts *parts, zt_str *out)
{
    zt_parts next = {0};
    zt_status status = ZT_OK;
    if (!tokenizer->has_decoder) return join_blanks(work, parts, out);
    zt_str_init(&next.bytes, tokenizer->ctx);
    for (int i = 0; !status && i < tokenizer->decode.count; i++) {
        parts_clear(&next);
        status = tokenizer->decode.step[i].row->decode(&tokenizer->decode.step[i], work, parts, &next);
        zt_parts swap = *parts;
        *parts = next;
        next = swap;
    }
    if (!status && parts->bytes.len) status = zt_str_put(out, parts->bytes.data, parts->bytes.len);
    zt_str_fini(&next.bytes);
    zt_free(tokenizer->ctx, next.end);
    return status;
}
