/* hf_rwkv_vocab.c - the vocabulary of RWKV's World models, rwkv_vocab_v20230424.txt: a line for each token, with its number
 * (from 1 on), a literal of Python for its text or bytes, and how many bytes that has.
 *
 *     257 '\t\n' 2
 *     350 b'\xe2\x80' 2
 *
 * GGUF has the bytes as Python writes them, without b and quotes. Token 0 ends a text. Facts: _set_vocab_rwkv_world of
 * llama.cpp's conversion/base.py.
 */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- literals -------------------------------------------------------------------------------- */

typedef struct literal {
    const char *text; /* what follows the quote */
    size_t size;
    bool bytes; /* b'...' */
} literal;

static int digit_of(char letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                            : 16;
}

/* A number of up to `most` digits to a base; *used: how many there are. */
static uint32_t read_digits(const char *text, size_t size, size_t most, int base, size_t *used)
{
    uint32_t value = 0;
    for (*used = 0; *used < most && *used < size && digit_of(text[*used]) < base; ++*used)
        value = (uint32_t)base * value + (uint32_t)digit_of(text[*used]);
    return value;
}

/* A character of a text, or a byte. */
static zt_status put_value(zt_str *out, bool bytes, uint32_t value)
{
    char utf8[4];
    if (bytes) return zt_str_putc(out, (char)value);
    int length = zt_utf8_encode(value, utf8);
    return zt_str_put(out, utf8, (size_t)length);
}

/* What follows a backslash; *used: its length, 0: not a valid escape. */
static zt_status put_escape(const literal *of, size_t at, zt_str *out, size_t *used)
{
    static const char plain[][2] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}, {'\\', '\\'}, {'\'', '\''},
                                    {'"', '"'},  {'a', '\a'}, {'b', '\b'}, {'f', '\f'},  {'v', '\v'}};
    static const struct {
        char letter;
        size_t digits;
    } hex[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    const char *text = of->text + at;
    size_t size = of->size - at, digits;
    *used = 1;
    for (size_t i = 0; size > 0 && i < sizeof plain / sizeof *plain; i++)
        if (text[0] == plain[i][0]) return zt_str_putc(out, plain[i][1]);
    for (size_t i = 0; size > 0 && i < sizeof hex / sizeof *hex; i++) {
        if (text[0] != hex[i].letter || (of->bytes && i > 0)) continue;
        uint32_t value = read_digits(text + 1, size - 1, hex[i].digits, 16, &digits);
        *used = digits == hex[i].digits && value <= 0x10ffff ? 1 + digits : 0;
        return *used ? put_value(out, of->bytes, value) : ZT_OK;
    }
    uint32_t value = read_digits(text, size, 3, 8, &digits);
    *used = digits;
    return digits ? put_value(out, of->bytes, of->bytes ? value & 255 : value) : ZT_OK;
}

/* Appends the literal's bytes; *end: behind its closing quote, 0: it is not a literal. */
static zt_status put_literal(const char *text, size_t size, zt_str *out, size_t *end)
{
    bool bytes = size > 0 && (text[0] == 'b' || text[0] == 'B');
    char quote = size > bytes ? text[bytes] : 0;
    literal of = {text + bytes + 1, size > bytes ? size - bytes - 1 : 0, bytes};
    zt_status status = ZT_OK;
    *end = 0;
    if (quote != '\'' && quote != '"') return ZT_OK;
    for (size_t i = 0, used; status == ZT_OK && i < of.size;) {
        if (of.text[i] == quote) {
            *end = bytes + 1 + i + 1;
            return ZT_OK;
        }
        if (of.text[i] != '\\') {
            status = zt_str_putc(out, of.text[i++]);
            continue;
        }
        status = put_escape(&of, i + 1, out, &used);
        if (!used) return status;
        i += 1 + used;
    }
    return status;
}

/* As repr of Python writes bytes, without b and quotes. */
static zt_status put_printed(zt_bytes bytes, zt_str *out)
{
    bool single = bytes.n && memchr(bytes.data, '\'', bytes.n), twice = bytes.n && memchr(bytes.data, '"', bytes.n);
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < bytes.n; i++) {
        unsigned char byte = (unsigned char)bytes.data[i];
        const char *word = byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '\r' ? "\\r" : byte == '\\' ? "\\\\" : NULL;
        if (byte == '\'' && single && twice) word = "\\'";
        if (word)
            status = zt_str_puts(out, word);
        else if (byte < 0x20 || byte >= 0x7f)
            status = zt_str_printf(out, "\\x%02x", byte);
        else
            status = zt_str_putc(out, (char)byte);
    }
    return status;
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct vocabulary {
    hf_import *import;
    hf_tokens *tokens;
    zt_str bytes, printed;
} vocabulary;

/* "NUMBER LITERAL LENGTH", the line of this number. */
static zt_status read_line(vocabulary *of, const char *line, size_t size, int64_t number)
{
    size_t digits, end = 0, length_digits = 0;
    uint32_t value = read_digits(line, size, 9, 10, &digits);
    bool good = digits > 0 && value == number && digits < size && line[digits] == ' ';
    zt_status status = ZT_OK;
    zt_str_clear(&of->bytes);
    zt_str_clear(&of->printed);
    if (good) status = put_literal(line + digits + 1, size - digits - 1, &of->bytes, &end);
    if (status != ZT_OK) return status;
    end = end ? end + digits + 1 : 0;
    good = good && end && end < size && line[end] == ' ';
    uint32_t length = good ? read_digits(line + end + 1, size - end - 1, 9, 10, &length_digits) : 0;
    good = good && length_digits > 0 && end + 1 + length_digits == size && length == of->bytes.len;
    if (!good)
        return zt_fail(of->import->ctx, ZT_EDATA, "%s%s: line %" PRId64 " is not 'NUMBER LITERAL LENGTH' of token %" PRId64,
                       of->import->folder.data, ZT_HF_RWKV_VOCAB, number, number);
    status = put_printed((zt_bytes){of->bytes.data, of->bytes.len}, &of->printed);
    return status == ZT_OK
               ? zt_hf_tokens_set(of->tokens, number, (zt_bytes){of->printed.data ? of->printed.data : "", of->printed.len},
                                  HF_TOKEN_NORMAL, 0)
               : status;
}

static int64_t count_lines(const char *text, size_t size)
{
    int64_t count = size > 0 && text[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) count += text[i] == '\n';
    return count;
}

static zt_status read_lines(vocabulary *of, const char *text, size_t size)
{
    zt_status status = zt_hf_tokens_set(of->tokens, 0, (zt_bytes){"<s>", 3}, HF_TOKEN_CONTROL, 0);
    int64_t number = 1;
    for (size_t at = 0, next; status == ZT_OK && at < size; at = next, number++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        next = at + length + 1;
        if (length > 0 && text[at + length - 1] == '\r') length--;
        status = read_line(of, text + at, length, number);
    }
    return status;
}

bool zt_hf_has_rwkv_vocabulary(hf_import *import)
{
    return zt_hf_is(import, HF_SET(HF_RWKV7)) && zt_hf_has_file(import, ZT_HF_RWKV_VOCAB) &&
           !zt_hf_has_file(import, "tokenizer.json");
}

zt_status zt_hf_put_rwkv_vocabulary(hf_import *import)
{
    size_t size;
    const char *path = zt_hf_file(import, ZT_HF_RWKV_VOCAB);
    char *text = path ? zt_read_all(import->ctx, path, &size) : NULL;
    hf_tokens tokens;
    vocabulary of = {.import = import, .tokens = &tokens};
    int64_t rows, there = text ? 1 + count_lines(text, size) : 0;
    if (!text) return zt_ctx_status(import->ctx);
    zt_status status = zt_hf_count_rows(import, there, &rows);
    if (status == ZT_OK && rows < there)
        status = zt_fail(import->ctx, ZT_EDATA, "%s%s: %" PRId64 " tokens, but the embedding has %" PRId64 " rows",
                         import->folder.data, ZT_HF_RWKV_VOCAB, there, rows);
    if (status != ZT_OK) {
        zt_free(import->ctx, text);
        return status;
    }
    zt_str_init(&of.bytes, import->ctx);
    zt_str_init(&of.printed, import->ctx);
    status = zt_hf_tokens_init(&tokens, import, rows);
    if (status == ZT_OK) status = read_lines(&of, text, size);
    if (status == ZT_OK) status = zt_hf_tokens_put(&tokens, "rwkv", NULL, false);
    if (status == ZT_OK) status = zt_hf_put_special(import, NULL, rows);
    zt_hf_tokens_fini(&tokens);
    zt_str_fini(&of.bytes);
    zt_str_fini(&of.printed);
    zt_free(import->ctx, text);
    return status;
}
