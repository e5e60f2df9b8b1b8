/* sentencepiece_norm.c - SentencePiece's normalization: a map of byte strings, and what becomes of
 * blanks. Source: normalizer.cc of google/sentencepiece, as facts. */
#include "lib/llm/vocab/sentencepiece.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

size_t zt_sp_char(const char *text, size_t n)
{
    unsigned char c = (unsigned char)text[0];
    size_t len = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return len < n ? len : n;
}

size_t zt_sp_longest(const zt_trie *t, const char *text, size_t n)
{
    uint32_t node = ZT_TRIE_ROOT;
    size_t longest = 0;
    for (size_t i = 0; t && i < n; i++) {
        node = zt_trie_step(t, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE)
            break;
        if (zt_trie_value(t, node) >= 0)
            longest = i + 1;
    }
    return longest;
}

/* What text begins with, normalized: a user's symbol as it is, a mapped text, or one character. A
 * byte that is not UTF-8 is U+FFFD. n > 0. */
static zt_status prefix(const zt_sp_norm *m, const char *text, size_t n, zt_bytes *to, size_t *used)
{
    uint32_t cp;
    zt_status s = ZT_OK;
    *used = zt_sp_longest(m->user, text, n);
    *to = (zt_bytes){text, *used};
    if (!*used && m->map)
        s = zt_charsmap_prefix(m->map, text, n, false, to, used);
    if (s == ZT_OK && !*used) {
        int len = zt_utf8_decode(text, n, &cp);
        *used = len ? (size_t)len : 1;
        *to = len ? (zt_bytes){text, *used} : (zt_bytes){REPLACEMENT, 3};
    }
    return s;
}

static zt_bytes blank(const zt_sp_norm *m)
{
    return m->rule->escape ? (zt_bytes){ZT_SPACE, ZT_SPACE_LEN} : (zt_bytes){" ", 1};
}

static zt_status put_blank(const zt_sp_norm *m, zt_str *out)
{
    return zt_str_put(out, blank(m).data, blank(m).n);
}

/* Blanks become the mark for them. */
static zt_status put(const zt_sp_norm *m, zt_bytes t, zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; s == ZT_OK && i < t.n; i++)
        s = t.data[i] == ' ' ? put_blank(m, out) : zt_str_putc(out, t.data[i]);
    return s;
}

/* Where the text's first character that is not a blank is. */
static zt_status skip_blanks(const zt_sp_norm *m, const char *text, size_t n, size_t *at)
{
    zt_status s = ZT_OK;
    for (size_t used = 0; s == ZT_OK && *at < n; *at += used) {
        zt_bytes to;
        s = prefix(m, text + *at, n - *at, &to, &used);
        if (s != ZT_OK || to.n != 1 || to.data[0] != ' ')
            break;
    }
    return s;
}

static zt_status put_text(const zt_sp_norm *m, const char *text, size_t n, zt_str *out)
{
    bool remove = m->rule->remove_extra, after_blank = remove;
    zt_status s = ZT_OK;
    for (size_t at = 0, used; s == ZT_OK && at < n; at += used) {
        zt_bytes to;
        s = prefix(m, text + at, n - at, &to, &used);
        for (; s == ZT_OK && after_blank && to.n && to.data[0] == ' '; to.n--)
            to.data++;
        if (s != ZT_OK || !to.n)
            continue;
        s = put(m, to, out);
        after_blank = remove && to.data[to.n - 1] == ' ';
    }
    return s;
}

/* Marks that the text itself has at its end go as well. */
static void trim(const zt_sp_norm *m, zt_str *out, size_t from)
{
    zt_bytes b = blank(m);
    while (out->len - from >= b.n && memcmp(out->data + out->len - b.n, b.data, b.n) == 0)
        out->len -= b.n;
}

zt_status zt_sp_normalize(const zt_sp_norm *m, const char *text, size_t n, zt_str *out)
{
    size_t at = 0, from = out->len;
    bool dummy = m->rule->dummy_prefix;
    zt_status s = m->rule->remove_extra ? skip_blanks(m, text, n, &at) : ZT_OK;
    if (s != ZT_OK || at == n)
        return s;
    if (dummy && !m->suffix)
        s = put_blank(m, out);
    if (s == ZT_OK)
        s = put_text(m, text + at, n - at, out);
    if (s == ZT_OK && m->rule->remove_extra)
        trim(m, out, from);
    if (s == ZT_OK && dummy && m->suffix)
        s = put_blank(m, out);
    if (s == ZT_OK && out->len > INT32_MAX / 4)
        s = zt_fail(m->ctx, ZT_EUSAGE, "text of %zu bytes: normalized it has %zu, at most %d", n,
                    out->len, INT32_MAX / 4);
    return s;
}
