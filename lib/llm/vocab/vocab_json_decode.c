/* vocab_json_decode.c - owns tokenizer.json's decoders: lists of tokens' texts made into one text.
 *
 * One token may also be decoded alone, while a model writes: bytes are then bytes, not U+FFFD, what
 * belongs to the first token is done when it opens the text, and what belongs to the last is not
 * done. Source: huggingface/tokenizers, decoders/, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

#define BROKEN "\xef\xbf\xbd" /* U+FFFD */

zt_status zt_parts_end(zt_parts *p)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 32, bytes;
        if (!zt_mul_size(cap, sizeof *p->end, &bytes))
            return zt_fail(p->bytes.ctx, ZT_ENOMEM, "%zu texts are too many", p->n);
        size_t *end = zt_realloc(p->bytes.ctx, p->end, bytes);
        if (!end)
            return ZT_ENOMEM;
        p->end = end;
        p->cap = cap;
    }
    p->end[p->n++] = p->bytes.len;
    return ZT_OK;
}

static zt_bytes part(const zt_parts *p, size_t i)
{
    size_t from = i ? p->end[i - 1] : 0;
    return (zt_bytes){p->bytes.len ? p->bytes.data + from : "", p->end[i] - from};
}

static bool begins(zt_bytes t, zt_bytes with)
{
    return t.n >= with.n && memcmp(t.data, with.data, with.n) == 0;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* How many bytes at the start of broken text one U+FFFD stands for: the longest beginning of some
 * character that is there, at least 1. */
static size_t broken_bytes(const char *text, size_t n)
{
    unsigned char c = (unsigned char)text[0], low = 0x80, high = 0xbf;
    size_t len = c >= 0xc2 && c <= 0xdf   ? 2
                 : c >= 0xe0 && c <= 0xef ? 3
                 : c >= 0xf0 && c <= 0xf4 ? 4
                                          : 1;
    if (c == 0xe0)
        low = 0xa0;
    else if (c == 0xed)
        high = 0x9f;
    else if (c == 0xf0)
        low = 0x90;
    else if (c == 0xf4)
        high = 0x8f;
    size_t i = 1;
    for (; i < len && i < n; i++, low = 0x80, high = 0xbf)
        if ((unsigned char)text[i] < low || (unsigned char)text[i] > high)
            break;
    return i;
}

static zt_status put_lossy(zt_str *out, const char *text, size_t n)
{
    zt_status s = ZT_OK;
    for (size_t i = 0, from = 0; !s && from < n; from = i) {
        uint32_t cp;
        int len;
        while (i < n && (len = zt_utf8_decode(text + i, n - i, &cp)) > 0)
            i += (size_t)len;
        s = zt_str_put(out, text + from, i - from);
        if (s || i == n)
            break;
        i += broken_bytes(text + i, n - i);
        s = zt_str_puts(out, BROKEN);
    }
    return s;
}

static int byte_of_char(uint32_t cp) /* -1: stands for none */
{
    if (cp >= 256)
        return cp < 256 + 33 ? (int)cp - 256 : cp < 256 + 67 ? (int)cp - 256 + 127 - 33
               : cp == 256 + 67 ? 173 : -1;
    return cp <= 32 || (cp >= 127 && cp <= 160) || cp == 173 ? -1 : (int)cp;
}

/* The bytes that its characters stand for; if one of them stands for none, its own bytes. */
static zt_status put_unprinted(zt_str *out, zt_bytes t)
{
    size_t start = out->len;
    for (size_t i = 0; i < t.n;) {
        uint32_t cp = 0;
        int len = zt_utf8_decode(t.data + i, t.n - i, &cp), b = len ? byte_of_char(cp) : -1;
        if (b < 0) {
            out->len = start;
            return zt_str_put(out, t.data, t.n);
        }
        zt_status s = zt_str_putc(out, (char)b);
        if (s)
            return s;
        i += (size_t)len;
    }
    return ZT_OK;
}

static zt_status byte_level(const zt_tj_step *s, zt_tj_work *w, const zt_parts *in, zt_parts *out)
{
    zt_str bytes;
    zt_status st = ZT_OK;
    (void)s;
    zt_str_init(&bytes, w->t->ctx);
    for (size_t i = 0; !st && i < in->n; i++)
        st = put_unprinted(&bytes, part(in, i));
    if (!st)
        st = w->alone ? zt_str_put(&out->bytes, bytes.len ? bytes.data : "", bytes.len)
                      : put_lossy(&out->bytes, bytes.data, bytes.len);
    zt_str_fini(&bytes);
    return st ? st : zt_parts_end(out);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'               ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* The value of "<0x41>", -1: it is not of that form. A sign may stand for the first digit. */
static int byte_of_text(zt_bytes t)
{
    if (t.n != 6 || memcmp(t.data, "<0x", 3) != 0 || t.data[5] != '>')
        return -1;
    int high = t.data[3] == '+' ? 0 : hex(t.data[3]), low = hex(t.data[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* A run of bytes: one text if it is UTF-8, else U+FFFD for each byte. */
static zt_status put_run(const zt_tj_work *w, const zt_str *run, zt_parts *out)
{
    bool valid = true;
    uint32_t cp;
    zt_status s = ZT_OK;
    for (size_t i = 0, len; valid && i < run->len; i += len)
        valid = (len = (size_t)zt_utf8_decode(run->data + i, run->len - i, &cp)) > 0;
    if (valid || w->alone) {
        s = zt_str_put(&out->bytes, run->data, run->len);
        return s ? s : zt_parts_end(out);
    }
    for (size_t i = 0; !s && i < run->len; i++) {
        s = zt_str_puts(&out->bytes, BROKEN);
        if (!s)
            s = zt_parts_end(out);
    }
    return s;
}

static zt_status byte_fallback(const zt_tj_step *s, zt_tj_work *w, const zt_parts *in,
                               zt_parts *out)
{
    zt_str run;
    zt_status st = ZT_OK;
    (void)s;
    zt_str_init(&run, w->t->ctx);
    for (size_t i = 0; !st && i <= in->n; i++) {
        int b = i < in->n ? byte_of_text(part(in, i)) : -1;
        if (b >= 0) {
            st = zt_str_putc(&run, (char)b);
            continue;
        }
        if (run.len)
            st = put_run(w, &run, out);
        zt_str_clear(&run);
        if (!st && i < in->n)
            st = zt_str_put(&out->bytes, part(in, i).data, part(in, i).n);
        if (!st && i < in->n)
            st = zt_parts_end(out);
    }
    zt_str_fini(&run);
    return st;
}

/* ---- part by part ---------------------------------------------------------------------------- */

/* Appends what the i-th of n texts becomes. */
typedef zt_status part_fn(const zt_tj_step *s, zt_tj_work *w, zt_bytes t, size_t i, size_t n,
                          zt_str *out);

static zt_status each(const zt_tj_step *s, zt_tj_work *w, const zt_parts *in, zt_parts *out,
                      part_fn *fn)
{
    zt_status st = ZT_OK;
    for (size_t i = 0; !st && i < in->n; i++) {
        st = fn(s, w, part(in, i), i, in->n, &out->bytes);
        if (!st)
            st = zt_parts_end(out);
    }
    return st;
}

#define EACH(name, fn)                                                                             \
    static zt_status name(const zt_tj_step *s, zt_tj_work *w, const zt_parts *in, zt_parts *out)   \
    {                                                                                              \
        return each(s, w, in, out, fn);                                                            \
    }

static bool opens(const zt_tj_work *w, size_t i)
{
    return i == 0 && w->first;
}

/* t with `to` in place of `from`. */
static zt_status put_replaced(zt_str *out, zt_bytes t, zt_bytes from, zt_bytes to)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i <= t.n;) {
        const char *p = from.n ? memmem(t.data + i, t.n - i, from.data, from.n) : NULL;
        size_t end = p ? (size_t)(p - t.data) : t.n;
        s = zt_str_put(out, t.data + i, end - i);
        if (!s && p)
            s = zt_str_put(out, to.data, to.n);
        i = p ? end + from.n : t.n + 1;
    }
    return s;
}

/* Metaspace: blanks for the replacement; in the text that opens, nothing, if one is prepended. */
static zt_status unmeta(const zt_tj_step *s, zt_tj_work *w, zt_bytes t, size_t i, size_t n,
                        zt_str *out)
{
    enum { NEVER = 2 };
    (void)n;
    bool drop = opens(w, i) && s->how != NEVER;
    return put_replaced(out, t, s->text, (zt_bytes){" ", drop ? 0 : 1});
}
EACH(metaspace, unmeta)

static zt_status read_bpe(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    s->text = (zt_bytes){"</w>", 4};
    return zt_tj_text(r, o, "suffix", &s->text);
}

static zt_status unsuffix(const zt_tj_step *s, zt_tj_work *w, zt_bytes t, size_t i, size_t n,
                          zt_str *out)
{
    bool last = i + 1 == n && !w->alone;
    return put_replaced(out, t, s->text, (zt_bytes){" ", last ? 0 : 1});
}
EACH(bpe, unsuffix)

static zt_status read_strip(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    uint32_t cp;
    s->text = (zt_bytes){" ", 1};
    zt_status st = zt_tj_text(r, o, "content", &s->text);
    if (!st && (!s->text.n || (size_t)zt_utf8_decode(s->text.data, s->text.n, &cp) != s->text.n))
        st = zt_fail(r->ctx, ZT_EDATA, "%s: %s: 'content' is not one character", r->file, r->where);
    if (!st)
        st = zt_tj_size(r, o, "start", &s->start);
    return st ? st : zt_tj_size(r, o, "stop", &s->stop);
}

/* Up to `start` and `stop` characters from the ends. After a Fuse the text's ends are meant, and a
 * token alone has only the first of them. */
static zt_status strip_ends(const zt_tj_step *s, zt_tj_work *w, zt_bytes t, size_t i, size_t n,
                            zt_str *out)
{
    bool fused = w->alone && s->flag[0];
    (void)n;
    for (int64_t k = 0; k < s->start && (!fused || opens(w, i)) && begins(t, s->text); k++)
        t = (zt_bytes){t.data + s->text.n, t.n - s->text.n};
    for (int64_t k = 0; k < s->stop && !fused && t.n >= s->text.n; k++) {
        if (memcmp(t.data + t.n - s->text.n, s->text.data, s->text.n) != 0)
            break;
        t.n -= s->text.n;
    }
    return zt_str_put(out, t.data, t.n);
}
EACH(strip, strip_ends)

static zt_status read_replace(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    zt_status st = zt_tj_need(r, o, "content");
    if (!st)
        st = zt_tj_text(r, o, "content", &s->text);
    return st ? st : zt_pattern_read(r, o, "pattern", &s->pattern);
}

static bool is_utf8(zt_bytes t)
{
    uint32_t cp;
    int len;
    for (size_t i = 0; i < t.n; i += (size_t)len)
        if (!(len = zt_utf8_decode(t.data + i, t.n - i, &cp)))
            return false;
    return true;
}

/* Bytes that are not UTF-8, which only a token alone can be, are left as they are. */
static zt_status replace_in(const zt_tj_step *s, zt_tj_work *w, zt_bytes t, size_t i, size_t n,
                            zt_str *out)
{
    zt_finder f = {.p = s->pattern, .work = w, .text = t.data, .n = t.n};
    size_t done = 0, from, to;
    bool found;
    zt_status st;
    (void)i, (void)n;
    if (!t.n || !is_utf8(t))
        return zt_str_put(out, t.data, t.n);
    while (!(st = zt_finder_next(&f, &found, &from, &to)) && found) {
        st = zt_str_put(out, t.data + done, from - done);
        if (!st)
            st = zt_str_put(out, s->text.data, s->text.n);
        if (st)
            return st;
        done = to;
    }
    return st ? st : zt_str_put(out, t.data + done, t.n - done);
}
EACH(replace, replace_in)

static zt_status fuse(const zt_tj_step *s, zt_tj_work *w, const zt_parts *in, zt_parts *out)
{
    (void)s, (void)w;
    zt_status st = zt_str_put(&out->bytes, in->bytes.len ? in->bytes.data : "", in->bytes.len);
    return st ? st : zt_parts_end(out);
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

enum { CLEANUP };

static zt_status read_wordpiece(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    s->text = (zt_bytes){"##", 2};
    s->flag[CLEANUP] = true;
    zt_status st = zt_tj_text(r, o, "prefix", &s->text);
    return st ? st : zt_tj_bool(r, o, "cleanup", &s->flag[CLEANUP]);
}

/* English punctuation without the blanks that tokens put there. */
static zt_status clean_up(zt_str *text)
{
    static const char *const pairs[][2] = {
        {" .", "."},     {" ?", "?"},     {" !", "!"},         {" ,", ","},
        {" ' ", "'"},    {" n't", "n't"}, {" 'm", "'m"},       {" do not", " don't"},
        {" 's", "'s"},   {" 've", "'ve"}, {" 're", "'re"},
    };
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && text->len && i < sizeof pairs / sizeof *pairs; i++) {
        zt_bytes from = {pairs[i][0], strlen(pairs[i][0])}, to = {pairs[i][1], strlen(pairs[i][1])};
        zt_str next;
        if (!memmem(text->data, text->len, from.data, from.n))
            continue;
        zt_str_init(&next, text->ctx);
        s = put_replaced(&next, (zt_bytes){text->data, text->len}, from, to);
        zt_str_fini(text);
        *text = next;
    }
    return s;
}

static zt_status join_word(const zt_tj_step *s, zt_tj_work *w, zt_bytes t, size_t i, size_t n,
                           zt_str *out)
{
    zt_str text;
    zt_status st = ZT_OK;
    (void)n;
    zt_str_init(&text, w->t->ctx);
    if (!opens(w, i) && begins(t, s->text))
        t = (zt_bytes){t.data + s->text.n, t.n - s->text.n};
    else if (!opens(w, i))
        st = zt_str_putc(&text, ' ');
    if (!st)
        st = zt_str_put(&text, t.data, t.n);
    if (!st && s->flag[CLEANUP])
        st = clean_up(&text);
    if (!st && text.len)
        st = zt_str_put(out, text.data, text.len);
    zt_str_fini(&text);
    return st;
}
EACH(wordpiece, join_word)

/* ---- the family ------------------------------------------------------------------------------ */

static const zt_tj_row rows[] = {
    {"BPEDecoder", .read = read_bpe, .decode = bpe},
    {"ByteFallback", .decode = byte_fallback},
    {"ByteLevel", .decode = byte_level},
    {"Fuse", .decode = fuse},
    {"Metaspace", .read = zt_metaspace_read, .decode = metaspace},
    {"Replace", .read = read_replace, .decode = replace},
    {"Strip", .read = read_strip, .decode = strip},
    {"WordPiece", .read = read_wordpiece, .decode = wordpiece},
    {0},
};
const zt_tj_family zt_decoders = {"decoder", "decoders", rows};

/* Whole texts come out of these: a Strip after them means the ends of all. */
void zt_decode_link(zt_tj_steps *steps)
{
    bool fused = false;
    for (int i = 0; i < steps->n; i++) {
        zt_tj_step *s = &steps->step[i];
        fused = fused || s->row->decode == fuse || s->row->decode == byte_level;
        if (s->row->decode == strip)
            s->flag[0] = fused;
    }
}

static void parts_clear(zt_parts *p)
{
    zt_str_clear(&p->bytes);
    p->n = 0;
}

/* Without a decoder: a blank between texts. */
static zt_status join_blanks(const zt_tj_work *w, const zt_parts *p, zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < p->n; i++) {
        if (!opens(w, i))
            s = zt_str_putc(out, ' ');
        if (!s)
            s = zt_str_put(out, part(p, i).data, part(p, i).n);
    }
    return s;
}

zt_status zt_decode_run(const zt_tj *t, zt_tj_work *w, zt_parts *p, zt_str *out)
{
    zt_parts next = {0};
    zt_status s = ZT_OK;
    if (!t->has_decoder)
        return join_blanks(w, p, out);
    zt_str_init(&next.bytes, t->ctx);
    for (int i = 0; !s && i < t->decode.n; i++) {
        parts_clear(&next);
        s = t->decode.step[i].row->decode(&t->decode.step[i], w, p, &next);
        zt_parts swap = *p;
        *p = next;
        next = swap;
    }
    if (!s && p->bytes.len)
        s = zt_str_put(out, p->bytes.data, p->bytes.len);
    zt_str_fini(&next.bytes);
    zt_free(t->ctx, next.end);
    return s;
}
