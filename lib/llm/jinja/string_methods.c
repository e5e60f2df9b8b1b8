/* string_methods.c - the methods of str. Positions and counts are of code points. */
#include "lib/llm/jinja/internal.h"

#include <string.h>
#include <utf8proc.h>

static jtext expect_text(jmachine *machine, jvalue value, const char *method)
{
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (value.kind != J_STRING) zt_j_fail(machine, "%s: expected a string, not '%s'", method, zt_j_type(value));
    return value.text;
}

static bool is_given(jvalue value) { return value.kind != J_ABSENT && value.kind != J_NONE; }

/* A string that is Markup if `self` is. */
static jvalue keep_safety(jvalue self, jtext text)
{
    jvalue value = zt_j_string(text);
    value.safe = self.safe;
    return value;
}

#define METHOD(name) static jvalue name(jmachine *machine, jvalue self, const jvalue *args, const jcall *call)
#define UNUSED       ((void)machine, (void)args, (void)call)

/* ---- case ------------------------------------------------------------------------------------ */

static jvalue in_case(jmachine *machine, jvalue self, jcase first, jcase rest)
{
    return keep_safety(self, zt_j_in_case(machine, self.text, first, rest));
}

#define CASE(name, first, rest)                                                                                                  \
    METHOD(name)                                                                                                                 \
    {                                                                                                                            \
        UNUSED;                                                                                                                  \
        return in_case(machine, self, first, rest);                                                                              \
    }
CASE(m_upper, J_UPPER, J_UPPER)
CASE(m_lower, J_LOWER, J_LOWER)
CASE(m_casefold, J_FOLD, J_FOLD)
CASE(m_capitalize, J_TITLE, J_LOWER)

/* One character after the other, in the case that `choose` names. */
static jvalue each_char(jmachine *machine, jvalue self, jcase (*choose)(uint32_t codepoint, bool *word))
{
    jout out = {NULL};
    bool word = false;
    zt_j_put(machine, &out, "", 0, false);
    for (size_t offset = 0, length; offset < self.text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(self.text) + offset, self.text.size - offset);
        jcase wanted = choose(zt_j_code(zt_j_data(self.text) + offset, length), &word);
        zt_j_put_case(machine, &out, self.text, offset, length, wanted);
    }
    return keep_safety(self, zt_j_done(machine, &out));
}

static jcase title_case(uint32_t codepoint, bool *word)
{
    bool inside = *word;
    *word = zt_j_is_cased(codepoint);
    return inside ? J_LOWER : J_TITLE;
}

static jcase swap_case(uint32_t codepoint, bool *word)
{
    (void)word;
    return zt_j_is_upper(codepoint) ? J_LOWER : zt_j_is_lower(codepoint) ? J_UPPER : J_KEEP;
}

METHOD(m_title)
{
    UNUSED;
    return each_char(machine, self, title_case);
}

METHOD(m_swapcase)
{
    UNUSED;
    return each_char(machine, self, swap_case);
}

/* ---- strip, split ---------------------------------------------------------------------------- */

static jvalue strip_text(jmachine *machine, jvalue self, const jvalue *args, bool left, bool right)
{
    jtext chars;
    if (!is_given(args[0])) return keep_safety(self, zt_j_strip(machine, self.text, NULL, left, right));
    chars = expect_text(machine, args[0], "strip");
    return keep_safety(self, zt_j_strip(machine, self.text, &chars, left, right));
}

METHOD(m_strip)
{
    (void)call;
    return strip_text(machine, self, args, true, true);
}

METHOD(m_lstrip)
{
    (void)call;
    return strip_text(machine, self, args, true, false);
}

METHOD(m_rstrip)
{
    (void)call;
    return strip_text(machine, self, args, false, true);
}

static int64_t split_limit(jmachine *machine, jvalue value)
{
    return value.kind == J_ABSENT ? -1 : zt_j_as_int(machine, value, "maxsplit");
}

static void reverse_list(jlist *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        jvalue value = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = value;
    }
}

/* At white space; none of it is in the pieces, but at the end of the last where `max_splits` ended it. */
static jlist *split_space(jmachine *machine, jvalue self, int64_t max_splits, bool back)
{
    jlist *list = zt_j_list(machine, 0);
    jtext rest = zt_j_strip(machine, self.text, NULL, !back, back);
    while (rest.size > 0) {
        const char *data = zt_j_data(rest);
        size_t position = back ? rest.size : 0, length = 0;
        bool last = max_splits >= 0 && (int64_t)list->count >= max_splits;
        while (!last && (back ? position > 0 : position < rest.size)) {
            if (back) {
                for (length = 1; length < position && ((unsigned char)data[position - length] & 0xc0) == 0x80; length++)
                    ;
                if (zt_j_is_space(zt_j_code(data + position - length, length))) break;
                position -= length;
            } else {
                length = zt_j_char_bytes(data + position, rest.size - position);
                if (zt_j_is_space(zt_j_code(data + position, length))) break;
                position += length;
            }
            zt_j_step(machine, 1);
        }
        if (last) position = back ? 0 : rest.size;
        jtext piece = back ? zt_j_part(rest, position, rest.size - position) : zt_j_part(rest, 0, position);
        zt_j_append(machine, list, keep_safety(self, piece));
        rest = back ? zt_j_part(rest, 0, position) : zt_j_part(rest, position, rest.size - position);
        rest = zt_j_strip(machine, rest, NULL, !back, back);
    }
    if (back) reverse_list(list);
    return list;
}

static jlist *split_at(jmachine *machine, jvalue self, jtext separator, int64_t max_splits, bool back)
{
    jlist *list = zt_j_list(machine, 0);
    jtext rest = self.text;
    if (separator.size == 0) zt_j_fail(machine, "empty separator");
    for (;;) {
        size_t hit = max_splits >= 0 && (int64_t)list->count >= max_splits ? SIZE_MAX
                     : back                                                ? zt_j_rfind_text(machine, rest, rest.size, separator)
                                                                           : zt_j_find_text(machine, rest, 0, separator);
        if (hit == SIZE_MAX) break;
        jtext head = zt_j_part(rest, 0, hit);
        jtext tail = zt_j_part(rest, hit + separator.size, rest.size - hit - separator.size);
        zt_j_append(machine, list, keep_safety(self, back ? tail : head));
        rest = back ? head : tail;
    }
    zt_j_append(machine, list, keep_safety(self, rest));
    if (back) reverse_list(list);
    return list;
}

static jvalue split_text(jmachine *machine, jvalue self, const jvalue *args, bool back)
{
    int64_t max_splits = split_limit(machine, args[1]);
    jlist *list = is_given(args[0]) ? split_at(machine, self, expect_text(machine, args[0], "split"), max_splits, back)
                                    : split_space(machine, self, max_splits, back);
    return zt_j_of_list(list, J_LIST);
}

METHOD(m_split)
{
    (void)call;
    return split_text(machine, self, args, false);
}

METHOD(m_rsplit)
{
    (void)call;
    return split_text(machine, self, args, true);
}

METHOD(m_splitlines)
{
    (void)call;
    jlist *list = zt_j_lines(machine, self.text, args[0].kind != J_ABSENT && zt_j_truth(machine, args[0]));
    for (size_t i = 0; i < list->count; i++) list->items[i].safe = self.safe;
    return zt_j_of_list(list, J_LIST);
}

static jvalue partition_text(jmachine *machine, jvalue self, jtext separator, bool back)
{
    jlist *list = zt_j_list(machine, 3);
    jvalue none = keep_safety(self, zt_j_part(self.text, 0, 0));
    if (separator.size == 0) zt_j_fail(machine, "empty separator");
    size_t hit =
        back ? zt_j_rfind_text(machine, self.text, self.text.size, separator) : zt_j_find_text(machine, self.text, 0, separator);
    if (hit == SIZE_MAX) {
        zt_j_append(machine, list, back ? none : self);
        zt_j_append(machine, list, none);
        zt_j_append(machine, list, back ? self : none);
    } else {
        zt_j_append(machine, list, keep_safety(self, zt_j_part(self.text, 0, hit)));
        zt_j_append(machine, list, keep_safety(self, separator));
        zt_j_append(machine, list,
                    keep_safety(self, zt_j_part(self.text, hit + separator.size, self.text.size - hit - separator.size)));
    }
    return zt_j_of_list(list, J_TUPLE);
}

METHOD(m_partition)
{
    (void)call;
    return partition_text(machine, self, expect_text(machine, args[0], "partition"), false);
}

METHOD(m_rpartition)
{
    (void)call;
    return partition_text(machine, self, expect_text(machine, args[0], "rpartition"), true);
}

/* ---- searching ------------------------------------------------------------------------------- */

/* The part between the positions a[0] and a[1] in bytes; false: there is none. */
static bool find_window(jmachine *machine, jtext text, const jvalue *args, size_t *from, size_t *to)
{
    int64_t length = (int64_t)zt_j_chars(machine, text), first, end, step;
    int64_t start = is_given(args[0]) ? zt_j_as_int(machine, args[0], "start") : 0;
    int64_t count = zt_j_slice_of(machine, length, args[0], args[1], zt_j_none, &first, &end, &step);
    *from = zt_j_char_at(machine, text, (size_t)first);
    jtext rest = zt_j_part(text, *from, text.size - *from);
    *to = *from + zt_j_char_at(machine, rest, (size_t)count);
    int64_t stop = is_given(args[1]) ? zt_j_as_int(machine, args[1], "end") : length;
    stop = stop < 0 ? stop + length : stop;
    return start <= length && (first <= stop || first == 0);
}

static int64_t find_in_window(jmachine *machine, jvalue self, const jvalue *args, const char *method, bool back)
{
    size_t from, to;
    jtext what = expect_text(machine, args[0], method);
    if (!find_window(machine, self.text, args + 1, &from, &to)) return -1;
    jtext window = zt_j_part(self.text, from, to - from);
    zt_j_step(machine, window.size / 16);
    size_t hit = back ? zt_j_rfind_text(machine, window, window.size, what) : zt_j_find_text(machine, window, 0, what);
    return hit == SIZE_MAX ? -1 : (int64_t)zt_j_chars(machine, zt_j_part(self.text, 0, from + hit));
}

METHOD(m_find)
{
    (void)call;
    return zt_j_int(find_in_window(machine, self, args, "find", false));
}

METHOD(m_rfind)
{
    (void)call;
    return zt_j_int(find_in_window(machine, self, args, "rfind", true));
}

static jvalue find_index(jmachine *machine, jvalue self, const jvalue *args, bool back)
{
    int64_t index = find_in_window(machine, self, args, "index", back);
    if (index < 0) zt_j_fail(machine, "substring not found");
    return zt_j_int(index);
}

METHOD(m_index)
{
    (void)call;
    return find_index(machine, self, args, false);
}

METHOD(m_rindex)
{
    (void)call;
    return find_index(machine, self, args, true);
}

METHOD(m_count)
{
    size_t from, to, count = 0;
    jtext what = expect_text(machine, args[0], "count");
    (void)call;
    if (!find_window(machine, self.text, args + 1, &from, &to)) return zt_j_int(0);
    jtext window = zt_j_part(self.text, from, to - from);
    if (what.size == 0) return zt_j_int((int64_t)zt_j_chars(machine, window) + 1);
    for (size_t offset = 0; (offset = zt_j_find_text(machine, window, offset, what)) != SIZE_MAX; offset += what.size) count++;
    return zt_j_int((int64_t)count);
}

static bool has_affix(jtext text, jtext affix, bool end)
{
    return affix.size <= text.size && zt_j_text_same(zt_j_part(text, end ? text.size - affix.size : 0, affix.size), affix);
}

/* One affix, or a tuple of them of which one will do. */
static jvalue match_affix(jmachine *machine, jvalue self, const jvalue *args, bool end)
{
    size_t from, to;
    const char *name = end ? "endswith" : "startswith";
    if (!find_window(machine, self.text, args + 1, &from, &to)) return zt_j_bool(false);
    jtext window = zt_j_part(self.text, from, to - from);
    if (args[0].kind != J_TUPLE) return zt_j_bool(has_affix(window, expect_text(machine, args[0], name), end));
    for (size_t i = 0; i < args[0].list->count; i++)
        if (has_affix(window, expect_text(machine, args[0].list->items[i], name), end)) return zt_j_bool(true);
    return zt_j_bool(false);
}

METHOD(m_startswith)
{
    (void)call;
    return match_affix(machine, self, args, false);
}

METHOD(m_endswith)
{
    (void)call;
    return match_affix(machine, self, args, true);
}

METHOD(m_removeprefix)
{
    (void)call;
    jtext what = expect_text(machine, args[0], "removeprefix");
    bool has = has_affix(self.text, what, false);
    return keep_safety(self, has ? zt_j_part(self.text, what.size, self.text.size - what.size) : self.text);
}

METHOD(m_removesuffix)
{
    (void)call;
    jtext what = expect_text(machine, args[0], "removesuffix");
    bool has = has_affix(self.text, what, true);
    return keep_safety(self, has ? zt_j_part(self.text, 0, self.text.size - what.size) : self.text);
}

/* ---- making ---------------------------------------------------------------------------------- */

METHOD(m_replace)
{
    (void)call;
    jtext old = expect_text(machine, args[0], "replace"), new = expect_text(machine, args[1], "replace");
    if (self.safe && !args[1].safe) new = zt_j_escape_html(machine, new);
    return keep_safety(self, zt_j_replace(machine, self.text, old, new, split_limit(machine, args[2])));
}

METHOD(m_join)
{
    jvalue item;
    jout out = {NULL};
    jiter *iterator = zt_j_iter(machine, args[0]);
    (void)call;
    zt_j_put(machine, &out, "", 0, false);
    for (size_t i = 0; zt_j_next(machine, iterator, &item); i++) {
        if (i) zt_j_put_text(machine, &out, self.text);
        if (item.kind != J_STRING) zt_j_fail(machine, "sequence item %zu: expected str instance, %s found", i, zt_j_type(item));
        zt_j_put_text(machine, &out, self.safe && !item.safe ? zt_j_escape_html(machine, item.text) : item.text);
    }
    return keep_safety(self, zt_j_done(machine, &out));
}

/* Pads to a width; share: how much of what is missing goes to the left, of 2. */
static jvalue pad_text(jmachine *machine, jvalue self, const jvalue *args, int side)
{
    jout out = {NULL};
    int64_t length = (int64_t)zt_j_chars(machine, self.text), width = zt_j_as_int(machine, args[0], "width");
    int64_t missing = width > length ? width - length : 0;
    jtext fill = args[1].kind == J_ABSENT ? zt_j_literal(machine, " ").text : expect_text(machine, args[1], "fillchar");
    if (zt_j_chars(machine, fill) != 1) zt_j_fail(machine, "the fill character must be exactly one character long");
    int64_t left = side < 0 ? missing : side > 0 ? 0 : missing / 2 + (missing & width & 1);
    zt_j_put_fill(machine, &out, fill, left);
    zt_j_put_text(machine, &out, self.text);
    zt_j_put_fill(machine, &out, fill, missing - left);
    return keep_safety(self, zt_j_done(machine, &out));
}

METHOD(m_ljust)
{
    (void)call;
    return pad_text(machine, self, args, 1);
}

METHOD(m_rjust)
{
    (void)call;
    return pad_text(machine, self, args, -1);
}

METHOD(m_center)
{
    (void)call;
    return pad_text(machine, self, args, 0);
}

METHOD(m_zfill)
{
    jout out = {NULL};
    int64_t length = (int64_t)zt_j_chars(machine, self.text), width = zt_j_as_int(machine, args[0], "width");
    bool sign = self.text.size && (*zt_j_data(self.text) == '-' || *zt_j_data(self.text) == '+');
    (void)call;
    zt_j_put_text(machine, &out, zt_j_part(self.text, 0, sign));
    zt_j_put_fill(machine, &out, zt_j_literal(machine, "0").text, width - length);
    zt_j_put_text(machine, &out, zt_j_part(self.text, sign, self.text.size - sign));
    return keep_safety(self, zt_j_done(machine, &out));
}

METHOD(m_expandtabs)
{
    jout out = {NULL};
    int64_t size = args[0].kind == J_ABSENT ? 8 : zt_j_as_int(machine, args[0], "tabsize"), column = 0;
    (void)call;
    zt_j_put(machine, &out, "", 0, false);
    for (size_t offset = 0, length; offset < self.text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(self.text) + offset, self.text.size - offset);
        char letter = zt_j_data(self.text)[offset];
        int64_t blanks = letter == '\t' && size > 0 ? size - column % size : 0;
        if (letter == '\t')
            zt_j_put_fill(machine, &out, zt_j_literal(machine, " ").text, blanks);
        else
            zt_j_put_text(machine, &out, zt_j_part(self.text, offset, length));
        column = letter == '\n' || letter == '\r' ? 0 : column + (letter == '\t' ? blanks : 1);
    }
    return keep_safety(self, zt_j_done(machine, &out));
}

/* ---- questions ------------------------------------------------------------------------------- */

typedef bool char_test(uint32_t cp);

static bool is_alpha(uint32_t codepoint)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)codepoint);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t codepoint) { return utf8proc_category((utf8proc_int32_t)codepoint) == UTF8PROC_CATEGORY_ND; }

/* Decimals, superscripts, and the circled and their like. */
static bool is_digit(uint32_t codepoint)
{
    return is_decimal(codepoint) || codepoint == 0xb2 || codepoint == 0xb3 || codepoint == 0xb9 || codepoint == 0x2070 ||
           (codepoint >= 0x2074 && codepoint <= 0x2079) || (codepoint >= 0x2080 && codepoint <= 0x2089) ||
           (codepoint >= 0x2460 && codepoint <= 0x2468);
}

static bool is_numeric(uint32_t codepoint)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)codepoint);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

static bool is_alnum(uint32_t codepoint) { return is_alpha(codepoint) || is_numeric(codepoint); }

static bool is_ascii(uint32_t codepoint) { return codepoint < 0x80; }

/* Not empty, and all of its characters are so. */
static jvalue all_chars(jmachine *machine, jvalue self, char_test *test, bool empty)
{
    for (size_t offset = 0, length; offset < self.text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(self.text) + offset, self.text.size - offset);
        zt_j_step(machine, 1);
        if (!test(zt_j_code(zt_j_data(self.text) + offset, length))) return zt_j_bool(false);
    }
    return zt_j_bool(empty || self.text.size > 0);
}

#define QUESTION(name, test, empty)                                                                                              \
    METHOD(name)                                                                                                                 \
    {                                                                                                                            \
        UNUSED;                                                                                                                  \
        return all_chars(machine, self, test, empty);                                                                            \
    }
QUESTION(m_isalpha, is_alpha, false)
QUESTION(m_isdecimal, is_decimal, false)
QUESTION(m_isdigit, is_digit, false)
QUESTION(m_isnumeric, is_numeric, false)
QUESTION(m_isalnum, is_alnum, false)
QUESTION(m_isspace, zt_j_is_space, false)
QUESTION(m_isascii, is_ascii, true)

/* Some character has this case, and none the other. */
static jvalue one_case(jmachine *machine, jvalue self, bool (*wanted)(uint32_t codepoint))
{
    bool some = false;
    for (size_t offset = 0, length; offset < self.text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(self.text) + offset, self.text.size - offset);
        uint32_t codepoint = zt_j_code(zt_j_data(self.text) + offset, length);
        zt_j_step(machine, 1);
        if (zt_j_is_cased(codepoint) && !wanted(codepoint)) return zt_j_bool(false);
        some = some || zt_j_is_cased(codepoint);
    }
    return zt_j_bool(some);
}

METHOD(m_islower)
{
    UNUSED;
    return one_case(machine, self, zt_j_is_lower);
}

METHOD(m_isupper)
{
    UNUSED;
    return one_case(machine, self, zt_j_is_upper);
}

METHOD(m_istitle)
{
    bool word = false, some = false;
    UNUSED;
    for (size_t offset = 0, length; offset < self.text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(self.text) + offset, self.text.size - offset);
        uint32_t codepoint = zt_j_code(zt_j_data(self.text) + offset, length);
        bool cased = zt_j_is_cased(codepoint);
        zt_j_step(machine, 1);
        if (cased && word != zt_j_is_lower(codepoint)) return zt_j_bool(false);
        some = some || cased;
        word = cased;
    }
    return zt_j_bool(some);
}

static const jbuiltin methods[] = {
    {"upper", "", 0, m_upper},
    {"lower", "", 0, m_lower},
    {"casefold", "", 0, m_casefold},
    {"capitalize", "", 0, m_capitalize},
    {"title", "", 0, m_title},
    {"swapcase", "", 0, m_swapcase},
    {"strip", "-", 0, m_strip},
    {"lstrip", "-", 0, m_lstrip},
    {"rstrip", "-", 0, m_rstrip},
    {"split", "sep maxsplit", 0, m_split},
    {"rsplit", "sep maxsplit", 0, m_rsplit},
    {"splitlines", "keepends", 0, m_splitlines},
    {"partition", "-", 1, m_partition},
    {"rpartition", "-", 1, m_rpartition},
    {"find", "- - -", 1, m_find},
    {"rfind", "- - -", 1, m_rfind},
    {"index", "- - -", 1, m_index},
    {"rindex", "- - -", 1, m_rindex},
    {"count", "- - -", 1, m_count},
    {"startswith", "- - -", 1, m_startswith},
    {"endswith", "- - -", 1, m_endswith},
    {"removeprefix", "-", 1, m_removeprefix},
    {"removesuffix", "-", 1, m_removesuffix},
    {"replace", "- - -", 2, m_replace},
    {"join", "-", 1, m_join},
    {"ljust", "- -", 1, m_ljust},
    {"rjust", "- -", 1, m_rjust},
    {"center", "- -", 1, m_center},
    {"zfill", "-", 1, m_zfill},
    {"expandtabs", "tabsize", 0, m_expandtabs},
    {"format", NULL, 0, zt_j_str_format},
    {"isalpha", "", 0, m_isalpha},
    {"isdecimal", "", 0, m_isdecimal},
    {"isdigit", "", 0, m_isdigit},
    {"isnumeric", "", 0, m_isnumeric},
    {"isalnum", "", 0, m_isalnum},
    {"isspace", "", 0, m_isspace},
    {"isascii", "", 0, m_isascii},
    {"islower", "", 0, m_islower},
    {"isupper", "", 0, m_isupper},
    {"istitle", "", 0, m_istitle},
    {"encode", NULL, 0, NULL},
    {"format_map", NULL, 0, NULL},
    {"isidentifier", NULL, 0, NULL},
    {"isprintable", NULL, 0, NULL},
    {"maketrans", NULL, 0, NULL},
    {"translate", NULL, 0, NULL},
    {NULL, NULL, 0, NULL},
};

const jbuiltin *zt_j_string_method(const char *name, size_t size) { return zt_j_find(methods, name, size); }
