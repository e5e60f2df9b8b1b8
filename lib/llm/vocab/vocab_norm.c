/* vocab_norm.c - owns tokenizer.json's normalizers, and what is asked there about characters.
 *
 * Besides the text a normalizer follows `zero`, how many leading bytes come from the very first
 * character of the whole text: a Metaspace that prepends only to the first word asks for it.
 * Characters' properties are utf8proc's. Source of the meanings: huggingface/tokenizers,
 * normalizers/, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>
#include <utf8proc.h>

/* ---- characters ------------------------------------------------------------------------------ */

uint32_t zt_char_next(const char *s, size_t n, size_t *i)
{
    uint32_t cp = (unsigned char)s[*i];
    int len = cp < 0x80 ? 1 : zt_utf8_decode(s + *i, n - *i, &cp);
    *i += len ? (size_t)len : 1;
    return cp;
}

static zt_status put_char(zt_str *out, uint32_t cp)
{
    char utf8[4];
    if (cp < 0x80)
        return zt_str_putc(out, (char)cp);
    return zt_str_put(out, utf8, (size_t)zt_utf8_encode(cp, utf8));
}

bool zt_char_space(uint32_t cp)
{
    if (cp < 0x80)
        return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static bool ascii_letter(uint32_t cp)
{
    return (cp | 32) >= 'a' && (cp | 32) <= 'z';
}

static bool ascii_digit(uint32_t cp)
{
    return cp >= '0' && cp <= '9';
}

static unsigned category_bit(uint32_t cp)
{
    return 1u << utf8proc_category((utf8proc_int32_t)cp);
}

#define CAT(x) (1u << UTF8PROC_CATEGORY_##x)
#define MARKS (CAT(MN) | CAT(MC) | CAT(ME))
#define PUNCTS (CAT(PC) | CAT(PD) | CAT(PS) | CAT(PE) | CAT(PI) | CAT(PF) | CAT(PO))
#define LETTERS (CAT(LU) | CAT(LL) | CAT(LT) | CAT(LM) | CAT(LO))

/* Alphabetic, marks, decimal digits, connectors, joiners. Alphabetic is letters, letter numbers,
 * some marks and the letters in circles and squares. */
bool zt_char_word(uint32_t cp)
{
    if (cp < 0x80)
        return ascii_letter(cp) || ascii_digit(cp) || cp == '_';
    if (cp == 0x200c || cp == 0x200d || (cp >= 0x24b6 && cp <= 0x24e9))
        return true;
    if ((cp >= 0x1f130 && cp <= 0x1f149) || (cp >= 0x1f150 && cp <= 0x1f169) ||
        (cp >= 0x1f170 && cp <= 0x1f189))
        return true;
    return category_bit(cp) & (LETTERS | MARKS | CAT(ND) | CAT(NL) | CAT(PC));
}

bool zt_char_punct(uint32_t cp)
{
    if (cp < 0x80)
        return cp > 32 && cp < 127 && !ascii_letter(cp) && !ascii_digit(cp);
    return category_bit(cp) & PUNCTS;
}

bool zt_char_number(uint32_t cp)
{
    return cp < 0x80 ? ascii_digit(cp) : (category_bit(cp) & (CAT(ND) | CAT(NL) | CAT(NO))) != 0;
}

/* Bytes that print in Latin-1 stand for themselves; the others, in order, for U+0100 and on. */
zt_status zt_char_print(const char *bytes, size_t n, zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < n; i++) {
        uint32_t b = (unsigned char)bytes[i];
        s = put_char(out, b <= 32                ? 256 + b
                          : b >= 127 && b <= 160 ? 256 + 33 + (b - 127)
                          : b == 173             ? 256 + 33 + 34
                                                 : b);
    }
    return s;
}

/* ---- character by character ------------------------------------------------------------------ */

/* What becomes of one character is appended to out. */
typedef zt_status map_fn(const zt_tj_step *s, uint32_t cp, zt_str *out);

static zt_status map_text(const zt_tj_step *s, zt_text in, map_fn *fn, zt_str *out, size_t *zero)
{
    zt_status st = ZT_OK;
    *zero = 0;
    for (size_t i = 0; !st && i < in.n;) {
        bool from_zero = i < in.zero;
        st = fn(s, zt_char_next(in.s, in.n, &i), out);
        if (from_zero)
            *zero = out->len;
    }
    return st;
}

/* Rust's lower case is Unicode's, one character at a time: only one becomes two. */
static zt_status lower_char(const zt_tj_step *s, uint32_t cp, zt_str *out)
{
    (void)s;
    if (cp < 0x80)
        return zt_str_putc(out, (char)(cp >= 'A' && cp <= 'Z' ? cp + 32 : cp));
    if (cp == 0x130)
        return zt_str_put(out, "i\xcc\x87", 3);
    return put_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

static zt_status unmark_char(const zt_tj_step *s, uint32_t cp, zt_str *out)
{
    (void)s;
    return cp >= 0x80 && category_bit(cp) & MARKS ? ZT_OK : put_char(out, cp);
}

static zt_status nmt_char(const zt_tj_step *s, uint32_t cp, zt_str *out)
{
    (void)s;
    if ((cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
        cp == 0x8f || cp == 0x9f)
        return ZT_OK;
    bool space = cp == 9 || cp == 0xa || cp == 0xc || cp == 0xd || cp == 0x1680 ||
                 (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
                 cp == 0xfeff || cp == 0xfffd;
    return put_char(out, space ? ' ' : cp);
}

static zt_status byte_char(const zt_tj_step *s, uint32_t cp, zt_str *out)
{
    char utf8[4];
    (void)s;
    return zt_char_print(utf8, (size_t)zt_utf8_encode(cp, utf8), out);
}

#define BY_CHAR(name, fn)                                                                          \
    static zt_status name(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out,             \
                          size_t *zero)                                                            \
    {                                                                                              \
        (void)w;                                                                                   \
        return map_text(s, in, fn, out, zero);                                                     \
    }
BY_CHAR(lowercase, lower_char)
BY_CHAR(strip_accents, unmark_char)
BY_CHAR(nmt, nmt_char)
BY_CHAR(byte_level, byte_char)

/* ---- normal forms ---------------------------------------------------------------------------- */

/* Marks in the order of their combining classes, those of one class as they came: counted, since a
 * text may be nothing but marks. Characters of class 0 part them. */
static zt_status order_marks(zt_ctx *ctx, int32_t *cp, size_t n)
{
    size_t count[257] = {0};
    bool sorted = true;
    int last = 0;
    for (size_t i = 0; i < n; i++) {
        int class = utf8proc_get_property(cp[i])->combining_class;
        sorted = sorted && class >= last;
        last = class;
        count[class + 1]++;
    }
    if (sorted)
        return ZT_OK;
    int32_t *copy = zt_alloc_array(ctx, n, sizeof *copy);
    if (!copy)
        return ZT_ENOMEM;
    memcpy(copy, cp, n * sizeof *cp);
    for (int c = 1; c < 257; c++)
        count[c] += count[c - 1];
    for (size_t i = 0; i < n; i++)
        cp[count[utf8proc_get_property(copy[i])->combining_class]++] = copy[i];
    zt_free(ctx, copy);
    return ZT_OK;
}

static zt_status order_all(zt_ctx *ctx, int32_t *cp, size_t n)
{
    zt_status s = ZT_OK;
    for (size_t i = 0, from; !s && i < n;) {
        for (; i < n && !utf8proc_get_property(cp[i])->combining_class; i++)
            ;
        for (from = i; i < n && utf8proc_get_property(cp[i])->combining_class; i++)
            ;
        if (i - from > 1)
            s = order_marks(ctx, cp + from, i - from);
    }
    return s;
}

enum { MOST_DECOMPOSED = 18 }; /* characters that one becomes, by Unicode's stability policy */

/* Decomposed, ordered, and composed again if how & COMPOSE; appended. No character before the text
 * combines with it. */
static zt_status normal_form(zt_ctx *ctx, const char *text, size_t n, int how, zt_str *out)
{
    size_t cap = n + MOST_DECOMPOSED, len = 0;
    int32_t *cp = zt_alloc_array(ctx, cap, sizeof *cp);
    zt_status s = cp ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; !s && i < n;) {
        int boundary = 0;
        if (cap - len < MOST_DECOMPOSED) {
            int32_t *p = zt_realloc(ctx, cp, (2 * cap) * sizeof *cp);
            if (!p) {
                s = ZT_ENOMEM;
                break;
            }
            cp = p;
            cap *= 2;
        }
        utf8proc_ssize_t k = utf8proc_decompose_char(
            (utf8proc_int32_t)zt_char_next(text, n, &i), cp + len, (utf8proc_ssize_t)(cap - len),
            (utf8proc_option_t)(how & ~UTF8PROC_COMPOSE), &boundary);
        if (k < 0 || (size_t)k > cap - len)
            s = zt_fail(ctx, ZT_EBUG, "utf8proc: %s", utf8proc_errmsg(k));
        else
            len += (size_t)k;
    }
    if (!s)
        s = order_all(ctx, cp, len);
    if (!s && how & UTF8PROC_COMPOSE)
        len = (size_t)utf8proc_normalize_utf32(
            cp, (utf8proc_ssize_t)len, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (size_t i = 0; !s && i < len; i++)
        s = put_char(out, (uint32_t)cp[i]);
    zt_free(ctx, cp);
    return s;
}

/* ASCII is normal in every form and combines with nothing before it: only runs of other characters,
 * each with the ASCII character before it, have to be looked at. */
static zt_status normal_text(zt_ctx *ctx, zt_text in, int how, zt_str *out, size_t *zero)
{
    zt_status s = ZT_OK;
    size_t start = out->len;
    for (size_t i = 0; !s && i < in.n;) {
        size_t from = i;
        for (; i < in.n && (unsigned char)in.s[i] < 0x80; i++)
            ;
        size_t plain = i < in.n && i > from ? i - 1 : i;
        s = zt_str_put(out, in.s + from, plain - from);
        for (; i < in.n && (unsigned char)in.s[i] >= 0x80; i++)
            ;
        if (!s && i > plain)
            s = normal_form(ctx, in.s + plain, i - plain, how, out);
    }
    *zero = 0;
    if (in.zero && out->len > start)
        zt_char_next(out->data + start, out->len - start, zero);
    return s;
}

enum { NFD = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, NFC = UTF8PROC_STABLE | UTF8PROC_COMPOSE };

#define NORMAL_FORM(name, how)                                                                     \
    static zt_status name(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out,             \
                          size_t *zero)                                                            \
    {                                                                                              \
        (void)s;                                                                                   \
        return normal_text(w->t->ctx, in, how, out, zero);                                         \
    }
NORMAL_FORM(nfc, NFC | UTF8PROC_DECOMPOSE)
NORMAL_FORM(nfd, NFD)
NORMAL_FORM(nfkc, NFC | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)
NORMAL_FORM(nfkd, NFD | UTF8PROC_COMPAT)

/* ---- BERT ------------------------------------------------------------------------------------ */

enum { CLEAN, CHINESE, ACCENTS, LOWER };

static zt_status read_bert(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    s->flag[CLEAN] = s->flag[CHINESE] = s->flag[LOWER] = true;
    zt_status st = zt_tj_bool(r, o, "clean_text", &s->flag[CLEAN]);
    if (!st)
        st = zt_tj_bool(r, o, "handle_chinese_chars", &s->flag[CHINESE]);
    if (!st)
        st = zt_tj_bool(r, o, "lowercase", &s->flag[LOWER]);
    s->flag[ACCENTS] = s->flag[LOWER];
    return st ? st : zt_tj_bool(r, o, "strip_accents", &s->flag[ACCENTS]);
}

static bool is_chinese(uint32_t cp)
{
    static const uint32_t range[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df},
                                        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                        {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; cp >= 0x3400 && i < sizeof range / sizeof *range; i++)
        if (cp >= range[i][0] && cp <= range[i][1])
            return true;
    return false;
}

static bool is_control(uint32_t cp)
{
    return category_bit(cp) & (CAT(CC) | CAT(CF) | CAT(CO));
}

/* Controls go, white space is a blank, Chinese characters stand between blanks. */
static zt_status clean_char(const zt_tj_step *s, uint32_t cp, zt_str *out)
{
    if (s->flag[CLEAN]) {
        bool space = cp == '\t' || cp == '\n' || cp == '\r';
        if (cp == 0 || cp == 0xfffd || (!space && is_control(cp)))
            return ZT_OK;
        if (space || zt_char_space(cp))
            cp = ' ';
    }
    bool apart = s->flag[CHINESE] && is_chinese(cp);
    zt_status st = apart ? zt_str_putc(out, ' ') : ZT_OK;
    if (!st)
        st = put_char(out, cp);
    return !st && apart ? zt_str_putc(out, ' ') : st;
}

static zt_status unaccent_char(const zt_tj_step *s, uint32_t cp, zt_str *out)
{
    (void)s;
    return cp >= 0x80 && category_bit(cp) & CAT(MN) ? ZT_OK : put_char(out, cp);
}

static zt_status bert(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out, size_t *zero)
{
    zt_str a, b;
    zt_str_init(&a, w->t->ctx);
    zt_str_init(&b, w->t->ctx);
    zt_status st = map_text(s, in, clean_char, s->flag[ACCENTS] || s->flag[LOWER] ? &a : out, zero);
    if (!st && s->flag[ACCENTS]) {
        st = normal_text(w->t->ctx, (zt_text){a.data, a.len, *zero}, NFD, &b, zero);
        zt_str_clear(&a);
        if (!st)
            st = map_text(s, (zt_text){b.data, b.len, *zero}, unaccent_char,
                          s->flag[LOWER] ? &a : out, zero);
    }
    if (!st && s->flag[LOWER])
        st = map_text(s, (zt_text){a.data, a.len, *zero}, lower_char, out, zero);
    zt_str_fini(&a);
    zt_str_fini(&b);
    return st;
}

/* ---- ends and parts of the text -------------------------------------------------------------- */

static zt_status read_strip(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    zt_status st = zt_tj_bool(r, o, "strip_left", &s->flag[0]);
    return st ? st : zt_tj_bool(r, o, "strip_right", &s->flag[1]);
}

static zt_status strip(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out, size_t *zero)
{
    size_t from = 0, to = 0;
    (void)w;
    for (size_t i = 0; s->flag[0] && i < in.n && zt_char_space(zt_char_next(in.s, in.n, &i));)
        from = i;
    for (size_t i = from; s->flag[1] && i < in.n;)
        if (!zt_char_space(zt_char_next(in.s, in.n, &i)))
            to = i;
    if (!s->flag[1])
        to = in.n;
    *zero = from < in.zero ? in.zero - from : 0;
    return to > from ? zt_str_put(out, in.s + from, to - from) : ZT_OK;
}

static zt_status read_prepend(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    zt_status st = zt_tj_need(r, o, "prepend");
    return st ? st : zt_tj_text(r, o, "prepend", &s->text);
}

static zt_status prepend(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out, size_t *zero)
{
    (void)w;
    *zero = in.zero ? in.zero + s->text.n : 0;
    zt_status st = zt_str_put(out, s->text.data, s->text.n);
    return st ? st : zt_str_put(out, in.s, in.n);
}

static zt_status read_replace(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    zt_status st = zt_tj_need(r, o, "content");
    if (!st)
        st = zt_tj_text(r, o, "content", &s->text);
    return st ? st : zt_pattern_read(r, o, "pattern", &s->pattern);
}

/* New text comes from where the character before its end in the old text came from. */
static zt_status replace(const zt_tj_step *s, zt_tj_work *w, zt_text in, zt_str *out, size_t *zero)
{
    zt_finder f = {.p = s->pattern, .work = w, .text = in.s, .n = in.n};
    size_t done = 0, from, to;
    bool found;
    zt_status st;
    *zero = in.zero;
    while (!(st = zt_finder_next(&f, &found, &from, &to)) && found) {
        st = zt_str_put(out, in.s + done, from - done);
        if (!st)
            st = zt_str_put(out, s->text.data, s->text.n);
        if (st)
            return st;
        if (in.zero && from <= in.zero)
            *zero = to <= in.zero ? out->len + (in.zero - to) : out->len - s->text.n;
        done = to;
    }
    return st ? st : zt_str_put(out, in.s + done, in.n - done);
}

/* ---- the family ------------------------------------------------------------------------------ */

static const zt_tj_row rows[] = {
    {"BertNormalizer", .read = read_bert, .norm = bert},
    {"ByteLevel", .norm = byte_level},
    {"Lowercase", .norm = lowercase},
    {"NFC", .norm = nfc},
    {"NFD", .norm = nfd},
    {"NFKC", .norm = nfkc},
    {"NFKD", .norm = nfkd},
    {"Nmt", .norm = nmt},
    {"Precompiled", .read = zt_precompiled_read, .norm = zt_precompiled},
    {"Prepend", .read = read_prepend, .norm = prepend},
    {"Replace", .read = read_replace, .norm = replace},
    {"Strip", .read = read_strip, .norm = strip},
    {"StripAccents", .norm = strip_accents},
    {0},
};
const zt_tj_family zt_norms = {"normalizer", "normalizers", rows};

/* An empty text stays so: there is nothing that a normalizer would hang something on. */
zt_status zt_norm_run(const zt_tj *t, zt_tj_work *w, zt_text in, zt_text *out)
{
    zt_status s = ZT_OK;
    *out = in;
    for (int i = 0; !s && out->n && i < t->norm.n; i++) {
        zt_str *to = &w->norm[i & 1];
        size_t zero = 0;
        zt_str_clear(to);
        s = t->norm.step[i].row->norm(&t->norm.step[i], w, *out, to, &zero);
        *out = (zt_text){to->data, to->len, zero < to->len ? zero : to->len};
    }
    return s;
}
