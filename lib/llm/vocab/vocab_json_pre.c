/* vocab_json_pre.c - owns tokenizer.json's pre-tokenizers.
 *
 * A step cuts its text, or writes it anew, and hands each piece to the step after it; after the
 * last comes the model. Cutting by a pattern goes over items, its matches and what lies between
 * them, and a behaviour says which items join. Source: huggingface/tokenizers, pre_tokenizers/ and
 * tokenizer/normalizer.rs, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

zt_status zt_pre_run(zt_tj_work *w, const zt_tj_step *step, zt_text in)
{
    if (!in.n)
        return ZT_OK;
    if (!w->t->pre.n || step == w->t->pre.step + w->t->pre.n)
        return w->t->model->piece(w->t, w, in.s, in.n);
    return step->row->pre(step, w, in);
}

/* in[from .. to) goes on to the next step. */
static zt_status pass(const zt_tj_step *s, zt_tj_work *w, zt_text in, size_t from, size_t to)
{
    size_t zero = in.zero > from ? in.zero - from : 0;
    zero = zero < to - from ? zero : to - from;
    return zt_pre_run(w, s + 1, (zt_text){in.s + from, to - from, zero});
}

static zt_str *scratch(const zt_tj_step *s, zt_tj_work *w)
{
    zt_str *str = &w->step[s - w->t->pre.step];
    zt_str_clear(str);
    return str;
}

/* ---- items ----------------------------------------------------------------------------------- */

typedef bool char_fn(uint32_t cp);

typedef struct items { /* a pattern's matches, and what lies between them */
    zt_finder find;
    char_fn *is;  /* not NULL: each such character is a match */
    zt_text text;
    size_t done;  /* before it everything was given */
    size_t from, to; /* a match that was found but not yet given */
    bool waiting;
} items;

static zt_status find_item(items *it, bool *found)
{
    if (!it->is)
        return zt_finder_next(&it->find, found, &it->from, &it->to);
    for (size_t i = it->done; i < it->text.n; it->to = i) {
        it->from = i;
        if (it->is(zt_char_next(it->text.s, it->text.n, &i))) {
            it->to = i;
            *found = true;
            return ZT_OK;
        }
    }
    *found = false;
    return ZT_OK;
}

/* The next item; *more false: there is none. */
static zt_status next_item(items *it, bool *more, size_t *from, size_t *to, bool *match)
{
    zt_status s = it->waiting ? ZT_OK : find_item(it, &it->waiting);
    if (s)
        return s;
    size_t upto = it->waiting ? it->from : it->text.n;
    *from = it->done;
    *match = it->waiting && it->done == upto;
    *more = *match || it->done < upto;
    *to = *match ? it->to : upto;
    if (*match)
        it->waiting = false;
    it->done = *to;
    return ZT_OK;
}

/* ---- behaviours ------------------------------------------------------------------------------ */

enum { REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS };
static const char *const behaviours[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                         "MergedWithNext", "Contiguous", NULL};

/* Does the item join the piece that is held? The last item was a match, or not. */
static bool joins(int how, bool match, bool last)
{
    return how == WITH_PREVIOUS ? match && !last
           : how == WITH_NEXT   ? !match && last
           : how == CONTIGUOUS  ? match == last
                                : false;
}

static zt_status cut(const zt_tj_step *s, zt_tj_work *w, zt_text in, items *it, int how,
                     bool invert)
{
    size_t from, to, held_from = 0, held_to = 0;
    bool held = false, last = false, match, more;
    zt_status st;
    it->text = in;
    while (!(st = next_item(it, &more, &from, &to, &match)) && more) {
        match ^= invert;
        if (held && joins(how, match, last)) {
            held_to = to;
        } else {
            if (held)
                st = pass(s, w, in, held_from, held_to);
            held = how != REMOVED || !match;
            held_from = from;
            held_to = to;
        }
        last = match;
        if (st)
            return st;
    }
    return !st && held ? pass(s, w, in, held_from, held_to) : st;
}

static zt_status cut_chars(const zt_tj_step *s, zt_tj_work *w, zt_text in, char_fn *is, int how)
{
    items it = {.is = is};
    return cut(s, w, in, &it, how, false);
}

/* ---- by pattern ------------------------------------------------------------------------------ */

enum { INVERT };

static zt_status read_split(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    zt_status st = zt_tj_need(r, o, "behavior");
    if (!st)
        st = zt_tj_word(r, o, "behavior", behaviours, &s->how);
    if (!st)
        st = zt_tj_bool(r, o, "invert", &s->flag[INVERT]);
    return st ? st : zt_pattern_read(r, o, "pattern", &s->pattern);
}

static zt_status split(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    items it = {.find = {.p = s->pattern, .work = w, .text = in.s, .n = in.n}};
    return cut(s, w, in, &it, s->how, s->flag[INVERT]);
}

/* ---- by kinds of characters ------------------------------------------------------------------ */

static zt_status read_punctuation(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    s->how = ISOLATED;
    return zt_tj_word(r, o, "behavior", behaviours, &s->how);
}

static zt_status punctuation(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    return cut_chars(s, w, in, zt_char_punct, s->how);
}

static zt_status read_digits(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    bool individual = false;
    zt_status st = zt_tj_bool(r, o, "individual_digits", &individual);
    s->how = individual ? ISOLATED : CONTIGUOUS;
    return st;
}

static zt_status digits(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    return cut_chars(s, w, in, zt_char_number, s->how);
}

static zt_status whitespace_split(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    return cut_chars(s, w, in, zt_char_space, REMOVED);
}

/* Words at white space, and in them each punctuation character by itself. */
static zt_status bert(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    items words = {.is = zt_char_space, .text = in};
    size_t from, to;
    bool more, match;
    zt_status st;
    while (!(st = next_item(&words, &more, &from, &to, &match)) && more && !st)
        if (!match) {
            size_t zero = in.zero > from ? in.zero - from : 0;
            st = cut_chars(s, w, (zt_text){in.s + from, to - from, zero}, zt_char_punct, ISOLATED);
            if (st)
                return st;
        }
    return st;
}

/* Runs of word characters, and runs of what is neither that nor white space. */
static zt_status whitespace(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    enum { SPACE, WORD, OTHER } run = SPACE;
    size_t from = 0;
    zt_status st = ZT_OK;
    for (size_t i = 0; !st && i < in.n;) {
        size_t at = i;
        uint32_t cp = zt_char_next(in.s, in.n, &i);
        int kind = zt_char_word(cp) ? WORD : zt_char_space(cp) ? SPACE : OTHER;
        if (kind == (int)run)
            continue;
        if (run != SPACE)
            st = pass(s, w, in, from, at);
        run = kind;
        from = at;
    }
    return !st && run != SPACE ? pass(s, w, in, from, in.n) : st;
}

static zt_status read_delimiter(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    uint32_t cp;
    zt_status st = zt_tj_need(r, o, "delimiter");
    if (!st)
        st = zt_tj_text(r, o, "delimiter", &s->text);
    if (!st && (size_t)zt_utf8_decode(s->text.data, s->text.n, &cp) != s->text.n)
        st = zt_fail(r->ctx, ZT_EDATA, "%s: %s: 'delimiter' is not one character", r->file,
                     r->where);
    return st;
}

static zt_status delimiter(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    zt_status st = ZT_OK;
    for (size_t i = 0; !st && i <= in.n;) {
        const char *p = memmem(in.s + i, in.n - i, s->text.data, s->text.n);
        size_t to = p ? (size_t)(p - in.s) : in.n;
        st = pass(s, w, in, i, to);
        i = to + s->text.n;
    }
    return st;
}

static zt_status read_fixed(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    s->start = 5;
    zt_status st = zt_tj_size(r, o, "length", &s->start);
    if (!st && !s->start)
        st = zt_fail(r->ctx, ZT_EDATA, "%s: %s: 'length' is 0", r->file, r->where);
    return st;
}

static zt_status fixed_length(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    zt_status st = ZT_OK;
    for (size_t i = 0, from = 0; !st && i < in.n; from = i) {
        for (int64_t k = 0; k < s->start && i < in.n; k++)
            zt_char_next(in.s, in.n, &i);
        st = pass(s, w, in, from, i);
    }
    return st;
}

/* ---- ByteLevel ------------------------------------------------------------------------------- */

enum { ADD_SPACE, USE_REGEX };

#define GPT2(spaces)                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" spaces

/* The library writes all fields of a ByteLevel, and reads none that lacks one. A bare one is from
 * openfluke/loom, whose regular expressions (Go's) know no look-ahead: a run of spaces is one piece
 * there. Source: golden/loom/tokenizer. */

static zt_status read_byte_level(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    s->flag[USE_REGEX] = true;
    zt_status st = zt_tj_bool(r, o, "add_prefix_space", &s->flag[ADD_SPACE]);
    if (!st)
        st = zt_tj_bool(r, o, "use_regex", &s->flag[USE_REGEX]);
    if (st || !s->flag[USE_REGEX])
        return st;
    bool bare = !json_object_get(o, "add_prefix_space");
    json_t *p = json_pack("{s{ss}}", "p", "Regex", bare ? GPT2("\\s+") : GPT2("\\s+(?!\\S)|\\s+"));
    st = p ? zt_pattern_read(r, p, "p", &s->pattern) : ZT_ENOMEM;
    json_decref(p);
    return st;
}

/* The piece in printable characters; what came from the first character still does. */
static zt_status print_piece(const zt_tj_step *s, zt_tj_work *w, zt_text piece)
{
    zt_str *out = scratch(s, w);
    zt_status st = zt_char_print(piece.s, piece.zero, out);
    size_t zero = out->len;
    if (!st)
        st = zt_char_print(piece.s + piece.zero, piece.n - piece.zero, out);
    return st ? st : zt_pre_run(w, s + 1, (zt_text){out->data, out->len, zero});
}

static zt_status print_pieces(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    items it = {.find = {.p = s->pattern, .work = w, .text = in.s, .n = in.n}, .text = in};
    size_t from, to;
    bool more, match;
    zt_status st = ZT_OK;
    if (!s->pattern)
        return print_piece(s, w, in);
    while (!st && !(st = next_item(&it, &more, &from, &to, &match)) && more) {
        size_t zero = in.zero > from ? in.zero - from : 0;
        if (to > from)
            st = print_piece(s, w, (zt_text){in.s + from, to - from,
                                             zero < to - from ? zero : to - from});
    }
    return st;
}

static zt_status byte_level(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    zt_str spaced;
    if (!s->flag[ADD_SPACE] || in.s[0] == ' ')
        return print_pieces(s, w, in);
    zt_str_init(&spaced, w->t->ctx);
    zt_status st = zt_str_putc(&spaced, ' ');
    if (!st)
        st = zt_str_put(&spaced, in.s, in.n);
    if (!st)
        st = print_pieces(s, w, (zt_text){spaced.data, spaced.len, in.zero ? in.zero + 1 : 0});
    zt_str_fini(&spaced);
    return st;
}

/* ---- Metaspace ------------------------------------------------------------------------------- */

enum { SPLIT };
enum { ALWAYS, FIRST, NEVER };

/* Files of old say add_prefix_space instead of a scheme. */
zt_status zt_metaspace_read(zt_tj_reader *r, const json_t *o, zt_tj_step *s)
{
    static const char *const schemes[] = {"always", "first", "never", NULL};
    uint32_t cp;
    bool add = true;
    s->flag[SPLIT] = true;
    zt_status st = zt_tj_need(r, o, "replacement");
    if (!st)
        st = zt_tj_text(r, o, "replacement", &s->text);
    if (!st && (!s->text.n || (size_t)zt_utf8_decode(s->text.data, s->text.n, &cp) != s->text.n))
        st = zt_fail(r->ctx, ZT_EDATA, "%s: %s: 'replacement' is not one character", r->file,
                     r->where);
    if (!st)
        st = zt_tj_word(r, o, "prepend_scheme", schemes, &s->how);
    if (!st)
        st = zt_tj_bool(r, o, "add_prefix_space", &add);
    if (!add)
        s->how = NEVER;
    return st ? st : zt_tj_bool(r, o, "split", &s->flag[SPLIT]);
}

/* The text with the replacement for each blank, and one before it by the scheme. */
static zt_status replace_blanks(const zt_tj_step *s, zt_text in, zt_str *out, size_t *zero)
{
    zt_bytes rep = s->text;
    bool there = in.s[0] == ' ' || (in.n >= rep.n && memcmp(in.s, rep.data, rep.n) == 0);
    bool add = !there && (s->how == ALWAYS || (s->how == FIRST && in.zero));
    zt_status st = add ? zt_str_put(out, rep.data, rep.n) : ZT_OK;
    *zero = 0;
    for (size_t i = 0; !st && i < in.n; i++) {
        st = in.s[i] == ' ' ? zt_str_put(out, rep.data, rep.n) : zt_str_putc(out, in.s[i]);
        if (i < in.zero)
            *zero = out->len;
    }
    return st;
}

static zt_status metaspace(const zt_tj_step *s, zt_tj_work *w, zt_text in)
{
    zt_str *out = scratch(s, w);
    size_t zero;
    zt_status st = replace_blanks(s, in, out, &zero);
    zt_text all = {out->data, out->len, zero};
    if (st || !s->flag[SPLIT])
        return st ? st : zt_pre_run(w, s + 1, all);
    for (size_t from = 0, to; !st && from < all.n; from = to) {
        const char *next = memmem(all.s + from + 1, all.n - from - 1, s->text.data, s->text.n);
        to = next ? (size_t)(next - all.s) : all.n;
        st = pass(s, w, all, from, to);
    }
    return st;
}

static const zt_tj_row rows[] = {
    {"BertPreTokenizer", .pre = bert},
    {"ByteLevel", .read = read_byte_level, .pre = byte_level},
    {"CharDelimiterSplit", .read = read_delimiter, .pre = delimiter},
    {"Digits", .read = read_digits, .pre = digits},
    {"FixedLength", .read = read_fixed, .pre = fixed_length},
    {"Metaspace", .read = zt_metaspace_read, .pre = metaspace},
    {"Punctuation", .read = read_punctuation, .pre = punctuation},
    {"Split", .read = read_split, .pre = split},
    {"Whitespace", .pre = whitespace},
    {"WhitespaceSplit", .pre = whitespace_split},
    {0},
};
const zt_tj_family zt_pres = {"pre_tokenizer", "pretokenizers", rows};
