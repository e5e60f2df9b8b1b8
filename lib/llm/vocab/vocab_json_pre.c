/* vocab_json_pre.c - tokenizer.json's pre-tokenizers.
 *
 * A step splits or rewrites its text and passes each piece to the next step; the last step passes them to the model. A
 * split by a pattern works on items, the matches and the texts between them; a behaviour says which items are joined to
 * one piece. Source: huggingface/tokenizers, pre_tokenizers/ and tokenizer/normalizer.rs, as facts.
 */
#include "lib/llm/vocab/vocab_json.h"

#include <string.h>

zt_status zt_pre_run(zt_tj_work *work, const zt_tj_step *step, zt_text input)
{
    if (!input.size) return ZT_OK;
    if (!work->tokenizer->pre.count || step == work->tokenizer->pre.step + work->tokenizer->pre.count)
        return work->tokenizer->model->piece(work->tokenizer, work, input.data, input.size);
    return step->row->pre(step, work, input);
}

/* in[from .. to) goes on to the next step. */
static zt_status pass_on(const zt_tj_step *step, zt_tj_work *work, zt_text input, size_t from, size_t to)
{
    size_t zero = input.zero > from ? input.zero - from : 0;
    zero = zero < to - from ? zero : to - from;
    return zt_pre_run(work, step + 1, (zt_text){input.data + from, to - from, zero});
}

static zt_str *step_buffer(const zt_tj_step *step, zt_tj_work *work)
{
    zt_str *buffer = &work->step[step - work->tokenizer->pre.step];
    zt_str_clear(buffer);
    return buffer;
}

/* ---- items ----------------------------------------------------------------------------------- */

typedef bool char_fn(uint32_t codepoint);

typedef struct item_list { /* a pattern's matches, and what lies between them */
    zt_finder find;
    char_fn *is_match; /* not NULL: each such character is a match */
    zt_text text;
    size_t done;     /* before it everything was given */
    size_t from, to; /* a match that was found but not yet given */
    bool waiting;
} item_list;

static zt_status find_item(item_list *items, bool *found)
{
    if (!items->is_match) return zt_finder_next(&items->find, found, &items->from, &items->to);
    for (size_t i = items->done; i < items->text.size; items->to = i) {
        items->from = i;
        if (items->is_match(zt_char_next(items->text.data, items->text.size, &i))) {
            items->to = i;
            *found = true;
            return ZT_OK;
        }
    }
    *found = false;
    return ZT_OK;
}

/* The next item; *more false: there is none. */
static zt_status next_item(item_list *items, bool *more, size_t *from, size_t *to, bool *match)
{
    zt_status status = items->waiting ? ZT_OK : find_item(items, &items->waiting);
    if (status) return status;
    size_t upto = items->waiting ? items->from : items->text.size;
    *from = items->done;
    *match = items->waiting && items->done == upto;
    *more = *match || items->done < upto;
    *to = *match ? items->to : upto;
    if (*match) items->waiting = false;
    items->done = *to;
    return ZT_OK;
}

/* ---- behaviours ------------------------------------------------------------------------------ */

enum { REMOVED, ISOLATED, WITH_PREVIOUS, WITH_NEXT, CONTIGUOUS };
static const char *const behaviours[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous", NULL};

/* Is the item joined to the current piece? `last`: whether the item before was a match. */
static bool joins_piece(int mode, bool match, bool last)
{
    return mode == WITH_PREVIOUS ? match && !last
           : mode == WITH_NEXT   ? !match && last
           : mode == CONTIGUOUS  ? match == last
                                 : false;
}

static zt_status cut_items(const zt_tj_step *step, zt_tj_work *work, zt_text input, item_list *items, int mode, bool invert)
{
    size_t from, to, held_from = 0, held_to = 0;
    bool held = false, last = false, match, more;
    zt_status status;
    items->text = input;
    while (!(status = next_item(items, &more, &from, &to, &match)) && more) {
        match ^= invert;
        if (held && joins_piece(mode, match, last)) {
            held_to = to;
        } else {
            if (held) status = pass_on(step, work, input, held_from, held_to);
            held = mode != REMOVED || !match;
            held_from = from;
            held_to = to;
        }
        last = match;
        if (status) return status;
    }
    return !status && held ? pass_on(step, work, input, held_from, held_to) : status;
}

static zt_status cut_chars(const zt_tj_step *step, zt_tj_work *work, zt_text input, char_fn *is_match, int mode)
{
    item_list items = {.is_match = is_match};
    return cut_items(step, work, input, &items, mode, false);
}

/* ---- by pattern ------------------------------------------------------------------------------ */

enum { INVERT };

static zt_status read_split(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    zt_status status = zt_tj_need(reader, object, "behavior");
    if (!status) status = zt_tj_word(reader, object, "behavior", behaviours, &step->mode);
    if (!status) status = zt_tj_bool(reader, object, "invert", &step->flag[INVERT]);
    return status ? status : zt_pattern_read(reader, object, "pattern", &step->pattern);
}

static zt_status pre_split(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    item_list items = {.find = {.pattern = step->pattern, .work = work, .text = input.data, .size = input.size}};
    return cut_items(step, work, input, &items, step->mode, step->flag[INVERT]);
}

/* ---- by kinds of characters ------------------------------------------------------------------ */

static zt_status read_punctuation(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    step->mode = ISOLATED;
    return zt_tj_word(reader, object, "behavior", behaviours, &step->mode);
}

static zt_status pre_punctuation(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    return cut_chars(step, work, input, zt_char_punct, step->mode);
}

static zt_status read_digits(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    bool individual = false;
    zt_status status = zt_tj_bool(reader, object, "individual_digits", &individual);
    step->mode = individual ? ISOLATED : CONTIGUOUS;
    return status;
}

static zt_status pre_digits(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    return cut_chars(step, work, input, zt_char_number, step->mode);
}

static zt_status pre_whitespace_split(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    return cut_chars(step, work, input, zt_char_space, REMOVED);
}

/* Words at white space, and in them each punctuation character by itself. */
static zt_status pre_bert(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    item_list words = {.is_match = zt_char_space, .text = input};
    size_t from, to;
    bool more, match;
    zt_status status;
    while (!(status = next_item(&words, &more, &from, &to, &match)) && more && !status)
        if (!match) {
            size_t zero = input.zero > from ? input.zero - from : 0;
            status = cut_chars(step, work, (zt_text){input.data + from, to - from, zero}, zt_char_punct, ISOLATED);
            if (status) return status;
        }
    return status;
}

/* Runs of word characters, and runs of what is neither that nor white space. */
static zt_status pre_whitespace(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    enum { SPACE, WORD, OTHER } run = SPACE;
    size_t from = 0;
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < input.size;) {
        size_t start = i;
        uint32_t codepoint = zt_char_next(input.data, input.size, &i);
        int kind = zt_char_word(codepoint) ? WORD : zt_char_space(codepoint) ? SPACE : OTHER;
        if (kind == (int)run) continue;
        if (run != SPACE) status = pass_on(step, work, input, from, start);
        run = kind;
        from = start;
    }
    return !status && run != SPACE ? pass_on(step, work, input, from, input.size) : status;
}

static zt_status read_delimiter(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    uint32_t codepoint;
    zt_status status = zt_tj_need(reader, object, "delimiter");
    if (!status) status = zt_tj_text(reader, object, "delimiter", &step->text);
    if (!status && (!step->text.n || (size_t)zt_utf8_decode(step->text.data, step->text.n, &codepoint) != step->text.n))
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'delimiter' is not one character", reader->file, reader->where);
    return status;
}

static zt_status pre_delimiter(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    zt_status status = ZT_OK;
    for (size_t from = 0; !status && from <= input.size;) {
        const char *found = memmem(input.data + from, input.size - from, step->text.data, step->text.n);
        size_t to = found ? (size_t)(found - input.data) : input.size;
        status = pass_on(step, work, input, from, to);
        from = to + step->text.n;
    }
    return status;
}

static zt_status read_fixed(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    step->start = 5;
    zt_status status = zt_tj_size(reader, object, "length", &step->start);
    if (!status && !step->start) status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'length' is 0", reader->file, reader->where);
    return status;
}

static zt_status pre_fixed_length(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    zt_status status = ZT_OK;
    for (size_t i = 0, from = 0; !status && i < input.size; from = i) {
        for (int64_t k = 0; k < step->start && i < input.size; k++) zt_char_next(input.data, input.size, &i);
        status = pass_on(step, work, input, from, i);
    }
    return status;
}

/* ---- ByteLevel ------------------------------------------------------------------------------- */

enum { ADD_SPACE, USE_REGEX };

#define GPT2(spaces) "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|" spaces

/* The library writes all fields of a ByteLevel, and reads none that lacks one. A bare one is from
 * openfluke/loom, whose regular expressions (Go's) know no look-ahead: a run of spaces is one piece
 * there. Source: golden/loom/tokenizer. */

static zt_status read_byte_level(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    step->flag[USE_REGEX] = true;
    zt_status status = zt_tj_bool(reader, object, "add_prefix_space", &step->flag[ADD_SPACE]);
    if (!status) status = zt_tj_bool(reader, object, "use_regex", &step->flag[USE_REGEX]);
    if (status || !step->flag[USE_REGEX]) return status;
    bool bare = !json_object_get(object, "add_prefix_space");
    json_t *pattern = json_pack("{s{ss}}", "p", "Regex", bare ? GPT2("\\s+") : GPT2("\\s+(?!\\S)|\\s+"));
    status = pattern ? zt_pattern_read(reader, pattern, "p", &step->pattern) : ZT_ENOMEM;
    json_decref(pattern);
    return status;
}

/* Writes the piece in printable characters, and keeps track of what came from the first character. */
static zt_status print_piece(const zt_tj_step *step, zt_tj_work *work, zt_text piece)
{
    zt_str *out = step_buffer(step, work);
    zt_status status = zt_char_print(piece.data, piece.zero, out);
    size_t zero = out->len;
    if (!status) status = zt_char_print(piece.data + piece.zero, piece.size - piece.zero, out);
    return status ? status : zt_pre_run(work, step + 1, (zt_text){out->data, out->len, zero});
}

static zt_status print_pieces(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    item_list items = {.find = {.pattern = step->pattern, .work = work, .text = input.data, .size = input.size}, .text = input};
    size_t from, to;
    bool more, match;
    zt_status status = ZT_OK;
    if (!step->pattern) return print_piece(step, work, input);
    while (!status && !(status = next_item(&items, &more, &from, &to, &match)) && more) {
        size_t zero = input.zero > from ? input.zero - from : 0;
        if (to > from)
            status = print_piece(step, work, (zt_text){input.data + from, to - from, zero < to - from ? zero : to - from});
    }
    return status;
}

static zt_status pre_byte_level(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    zt_str spaced;
    if (!step->flag[ADD_SPACE] || input.data[0] == ' ') return print_pieces(step, work, input);
    zt_str_init(&spaced, work->tokenizer->ctx);
    zt_status status = zt_str_putc(&spaced, ' ');
    if (!status) status = zt_str_put(&spaced, input.data, input.size);
    if (!status) status = print_pieces(step, work, (zt_text){spaced.data, spaced.len, input.zero ? input.zero + 1 : 0});
    zt_str_fini(&spaced);
    return status;
}

/* ---- Metaspace ------------------------------------------------------------------------------- */

enum { SPLIT };
enum { ALWAYS, FIRST, NEVER };

/* Files of old say add_prefix_space instead of a scheme. */
zt_status zt_metaspace_read(zt_tj_reader *reader, const json_t *object, zt_tj_step *step)
{
    static const char *const schemes[] = {"always", "first", "never", NULL};
    uint32_t codepoint;
    bool add = true;
    step->flag[SPLIT] = true;
    zt_status status = zt_tj_need(reader, object, "replacement");
    if (!status) status = zt_tj_text(reader, object, "replacement", &step->text);
    if (!status && (!step->text.n || (size_t)zt_utf8_decode(step->text.data, step->text.n, &codepoint) != step->text.n))
        status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s: 'replacement' is not one character", reader->file, reader->where);
    if (!status) status = zt_tj_word(reader, object, "prepend_scheme", schemes, &step->mode);
    if (!status) status = zt_tj_bool(reader, object, "add_prefix_space", &add);
    if (!add) step->mode = NEVER;
    return status ? status : zt_tj_bool(reader, object, "split", &step->flag[SPLIT]);
}

/* The text with the replacement for each blank, and one before it by the scheme. */
static zt_status replace_blanks(const zt_tj_step *step, zt_text input, zt_str *out, size_t *zero)
{
    zt_bytes mark = step->text;
    bool there = input.data[0] == ' ' || (input.size >= mark.n && memcmp(input.data, mark.data, mark.n) == 0);
    bool add = !there && (step->mode == ALWAYS || (step->mode == FIRST && input.zero));
    zt_status status = add ? zt_str_put(out, mark.data, mark.n) : ZT_OK;
    *zero = 0;
    for (size_t i = 0; !status && i < input.size; i++) {
        status = input.data[i] == ' ' ? zt_str_put(out, mark.data, mark.n) : zt_str_putc(out, input.data[i]);
        if (i < input.zero) *zero = out->len;
    }
    return status;
}

static zt_status pre_metaspace(const zt_tj_step *step, zt_tj_work *work, zt_text input)
{
    zt_str *out = step_buffer(step, work);
    size_t zero;
    zt_status status = replace_blanks(step, input, out, &zero);
    zt_text all = {out->data, out->len, zero};
    if (status || !step->flag[SPLIT]) return status ? status : zt_pre_run(work, step + 1, all);
    for (size_t from = 0, to; !status && from < all.size; from = to) {
        const char *next = memmem(all.data + from + 1, all.size - from - 1, step->text.data, step->text.n);
        to = next ? (size_t)(next - all.data) : all.size;
        status = pass_on(step, work, all, from, to);
    }
    return status;
}

static const zt_tj_row rows[] = {
    {"BertPreTokenizer", .pre = pre_bert},
    {"ByteLevel", .read = read_byte_level, .pre = pre_byte_level},
    {"CharDelimiterSplit", .read = read_delimiter, .pre = pre_delimiter},
    {"Digits", .read = read_digits, .pre = pre_digits},
    {"FixedLength", .read = read_fixed, .pre = pre_fixed_length},
    {"Metaspace", .read = zt_metaspace_read, .pre = pre_metaspace},
    {"Punctuation", .read = read_punctuation, .pre = pre_punctuation},
    {"Split", .read = read_split, .pre = pre_split},
    {"Whitespace", .pre = pre_whitespace},
    {"WhitespaceSplit", .pre = pre_whitespace_split},
    {0},
};
const zt_tj_family zt_pres = {"pre_tokenizer", "pretokenizers", rows};
