/* vocab_precompiled.c - tokenizer.json's Precompiled normalizer: SentencePiece's charsmap.
 *
 * A grapheme cluster below 6 bytes, else each of its characters, is replaced as a whole when some
 * key is its prefix; the shortest such key counts. Source: the crates spm_precompiled and
 * tokenizers (normalizers/precompiled.rs), as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>
#include <utf8proc.h>

enum { CLUSTER = 6 };

/* ---- reading --------------------------------------------------------------------------------- */

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

size_t zt_tj_base64(zt_bytes in, char *out)
{
    size_t n = 0;
    uint32_t bits = 0;
    while (in.n && in.data[in.n - 1] == '=')
        in.n--;
    for (size_t i = 0; i < in.n; i++) {
        int v = base64_value(in.data[i]);
        if (v < 0)
            return SIZE_MAX;
        bits = bits << 6 | (uint32_t)v;
        if (i % 4)
            out[n++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    return n;
}

zt_status zt_precompiled_read(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    zt_bytes text;
    zt_status st = zt_tj_need(r, o, "precompiled_charsmap");
    if (!st)
        st = zt_tj_text(r, o, "precompiled_charsmap", &text);
    if (st)
        return st;
    char *blob = zt_arena_alloc(r->texts, text.n + 1);
    if (!blob)
        return ZT_ENOMEM;
    size_t n = zt_tj_base64(text, blob);
    if (n == SIZE_MAX)
        return zt_fail(r->ctx, ZT_EDATA, "%s: %s: 'precompiled_charsmap' is not base64", r->file,
                       r->where);
    s->map = zt_charsmap_new(r->ctx, r->file, (zt_bytes){blob, n});
    return s->map ? ZT_OK : zt_ctx_status(r->ctx);
}

/* ---- looking up ------------------------------------------------------------------------------ */

/* The text is replaced if some key is a prefix: then *done. */
static zt_status transform(const zt_charsmap *m, const char *text, size_t n, zt_str *out,
                           bool *done)
{
    zt_bytes to;
    size_t used = 0;
    zt_status s = zt_charsmap_prefix(m, text, n, true, &to, &used);
    *done = used > 0;
    for (size_t i = 0; !s && used && i < to.n; i++) {
        uint32_t cp;
        int k = zt_utf8_decode(to.data + i, to.n - i, &cp);
        if (!k)
            return zt_fail(out->ctx, ZT_EDATA, "the charsmap has a replacement that is not UTF-8");
        i += (size_t)k - 1;
    }
    return !s && used ? zt_str_put(out, to.data, to.n) : s;
}

static zt_status each_char(const zt_charsmap *m, const char *text, size_t n, zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0, from; !s && i < n;) {
        bool done;
        from = i;
        zt_char_next(text, n, &i);
        s = transform(m, text + from, i - from, out, &done);
        if (!s && !done)
            s = zt_str_put(out, text + from, i - from);
    }
    return s;
}

/* Where the grapheme cluster that begins at text[i] ends. */
static size_t cluster_end(zt_text in, size_t i)
{
    utf8proc_int32_t state = 0, left = (utf8proc_int32_t)zt_char_next(in.s, in.n, &i);
    while (i < in.n) {
        size_t next = i;
        utf8proc_int32_t right = (utf8proc_int32_t)zt_char_next(in.s, in.n, &next);
        if (utf8proc_grapheme_break_stateful(left, right, &state))
            break;
        left = right;
        i = next;
    }
    return i;
}

zt_status zt_precompiled(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out, size_t *zero)
{
    zt_status st = ZT_OK;
    (void)w;
    for (size_t i = 0, end; !st && i < in.n; i = end) {
        bool done = false;
        end = cluster_end(in, i);
        if (end - i < CLUSTER)
            st = transform(s->map, in.s + i, end - i, out, &done);
        if (!st && !done)
            st = each_char(s->map, in.s + i, end - i, out);
    }
    *zero = 0;
    if (in.zero && out->len)
        zt_char_next(out->data, out->len, zero);
    return st;
}
