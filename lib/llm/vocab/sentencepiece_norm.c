/* sentencepiece_norm.c - SentencePiece's normalization: a map of byte strings, and what becomes of
 * blanks. Source: normalizer.cc of google/sentencepiece, as facts. */
#include "lib/llm/vocab/sentencepiece.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

size_t zt_sp_char(const char *text, size_t size)
{
    unsigned char first = (unsigned char)text[0];
    size_t length = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    return length < size ? length : size;
}

size_t zt_sp_longest(const zt_trie *trie, const char *text, size_t size)
{
    uint32_t node = ZT_TRIE_ROOT;
    size_t longest = 0;
    for (size_t i = 0; trie && i < size; i++) {
        node = zt_trie_step(trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE) break;
        if (zt_trie_value(trie, node) >= 0) longest = i + 1;
    }
    return longest;
}

/* What text begins with, normalized: a user's symbol as it is, a mapped text, or one character. A
 * byte that is not UTF-8 is U+FFFD. size > 0. */
static zt_status normalize_prefix(const zt_sp_norm *norm, const char *text, size_t size, zt_bytes *normalized, size_t *used)
{
    uint32_t codepoint;
    zt_status status = ZT_OK;
    *used = zt_sp_longest(norm->user, text, size);
    *normalized = (zt_bytes){text, *used};
    if (!*used && norm->map) status = zt_charsmap_prefix(norm->map, text, size, false, normalized, used);
    if (status == ZT_OK && !*used) {
        int length = zt_utf8_decode(text, size, &codepoint);
        *used = length ? (size_t)length : 1;
        *normalized = length ? (zt_bytes){text, *used} : (zt_bytes){REPLACEMENT, 3};
    }
    return status;
}

static zt_bytes blank_mark(const zt_sp_norm *norm)
{
    return norm->rule->escape ? (zt_bytes){ZT_SPACE, ZT_SPACE_LEN} : (zt_bytes){" ", 1};
}

static zt_status put_blank(const zt_sp_norm *norm, zt_str *out)
{
    return zt_str_put(out, blank_mark(norm).data, blank_mark(norm).n);
}

/* Blanks become the mark for them. */
static zt_status put_mapped(const zt_sp_norm *norm, zt_bytes mapped, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; status == ZT_OK && i < mapped.n; i++)
        status = mapped.data[i] == ' ' ? put_blank(norm, out) : zt_str_putc(out, mapped.data[i]);
    return status;
}

/* Where the text's first character that is not a blank is. */
static zt_status skip_blanks(const zt_sp_norm *norm, const char *text, size_t size, size_t *offset)
{
    zt_status status = ZT_OK;
    for (size_t used = 0; status == ZT_OK && *offset < size; *offset += used) {
        zt_bytes normalized;
        status = normalize_prefix(norm, text + *offset, size - *offset, &normalized, &used);
        if (status != ZT_OK || normalized.n != 1 || normalized.data[0] != ' ') break;
    }
    return status;
}

static zt_status put_text(const zt_sp_norm *norm, const char *text, size_t size, zt_str *out)
{
    bool remove = norm->rule->remove_extra, after_blank = remove;
    zt_status status = ZT_OK;
    for (size_t offset = 0, used; status == ZT_OK && offset < size; offset += used) {
        zt_bytes normalized;
        status = normalize_prefix(norm, text + offset, size - offset, &normalized, &used);
        for (; status == ZT_OK && after_blank && normalized.n && normalized.data[0] == ' '; normalized.n--) normalized.data++;
        if (status != ZT_OK || !normalized.n) continue;
        status = put_mapped(norm, normalized, out);
        after_blank = remove && normalized.data[normalized.n - 1] == ' ';
    }
    return status;
}

/* Marks that the text itself has at its end go as well. */
static void trim_end(const zt_sp_norm *norm, zt_str *out, size_t from)
{
    zt_bytes mark = blank_mark(norm);
    while (out->len - from >= mark.n && memcmp(out->data + out->len - mark.n, mark.data, mark.n) == 0) out->len -= mark.n;
}

zt_status zt_sp_normalize(const zt_sp_norm *norm, const char *text, size_t size, zt_str *out)
{
    size_t offset = 0, from = out->len;
    bool dummy = norm->rule->dummy_prefix;
    zt_status status = norm->rule->remove_extra ? skip_blanks(norm, text, size, &offset) : ZT_OK;
    if (status != ZT_OK || offset == size) return status;
    if (dummy && !norm->suffix) status = put_blank(norm, out);
    if (status == ZT_OK) status = put_text(norm, text + offset, size - offset, out);
    if (status == ZT_OK && norm->rule->remove_extra) trim_end(norm, out, from);
    if (status == ZT_OK && dummy && norm->suffix) status = put_blank(norm, out);
    if (status == ZT_OK && out->len > INT32_MAX / 4)
        status = zt_fail(norm->ctx, ZT_EUSAGE, "text of %zu bytes is too long: %zu bytes after normalization, the limit is %d",
                         size, out->len, INT32_MAX / 4);
    return status;
}
