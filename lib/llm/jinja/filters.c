/* filters.c - which filters there are, and those on text. The rows' functions follow jinja2's
 * filters.py; an undefined value is an empty text to most of them. */
#include "lib/llm/jinja/internal.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#define FILTER(name) static jvalue name(jmachine *machine, jvalue value, const jvalue *args, const jcall *call)
#define UNUSED       ((void)machine, (void)args, (void)call)

static jvalue keep_safety(jvalue value, jtext text)
{
    jvalue result = zt_j_string(text);
    result.safe = value.kind == J_STRING && value.safe;
    return result;
}

FILTER(f_upper)
{
    UNUSED;
    return keep_safety(value, zt_j_in_case(machine, zt_j_str(machine, value), J_UPPER, J_UPPER));
}

FILTER(f_lower)
{
    UNUSED;
    return keep_safety(value, zt_j_in_case(machine, zt_j_str(machine, value), J_LOWER, J_LOWER));
}

FILTER(f_capitalize)
{
    UNUSED;
    return keep_safety(value, zt_j_in_case(machine, zt_j_str(machine, value), J_TITLE, J_LOWER));
}

static bool parts_words(const char *data, size_t length)
{
    return zt_j_is_space(zt_j_code(data, length)) || (length == 1 && strchr("-({[<", *data));
}

/* Words begin after blanks, hyphens and opening brackets. Their first character and the others change apart from each other. */
FILTER(f_title)
{
    jtext text = zt_j_str(machine, value);
    const char *data = zt_j_data(text);
    jout out = {NULL};
    UNUSED;
    zt_j_put(machine, &out, "", 0, false);
    for (size_t offset = 0, length; offset < text.size; offset += length) {
        size_t end = offset;
        length = zt_j_char_bytes(data + offset, text.size - offset);
        bool between = parts_words(data + offset, length);
        zt_j_put_case(machine, &out, text, offset, length, between ? J_KEEP : J_UPPER);
        if (between) continue;
        while (end < text.size && !parts_words(data + end, zt_j_char_bytes(data + end, text.size - end)))
            end += zt_j_char_bytes(data + end, text.size - end);
        jtext rest = zt_j_part(text, offset + length, end - offset - length);
        zt_j_put_text(machine, &out, zt_j_in_case(machine, rest, J_LOWER, J_LOWER));
        length = end - offset;
    }
    return zt_j_string(zt_j_done(machine, &out));
}

FILTER(f_trim)
{
    jtext text = zt_j_str(machine, value);
    (void)call;
    if (args[0].kind == J_ABSENT || args[0].kind == J_NONE)
        return keep_safety(value, zt_j_strip(machine, text, NULL, true, true));
    if (args[0].kind != J_STRING) zt_j_fail(machine, "trim: expected a string, not '%s'", zt_j_type(args[0]));
    return keep_safety(value, zt_j_strip(machine, text, &args[0].text, true, true));
}

FILTER(f_string)
{
    UNUSED;
    return keep_safety(value, zt_j_str(machine, value));
}

FILTER(f_replace)
{
    int64_t count = args[2].kind == J_ABSENT || args[2].kind == J_NONE ? -1 : zt_j_as_int(machine, args[2], "replace");
    (void)call;
    return zt_j_string(
        zt_j_replace(machine, zt_j_str(machine, value), zt_j_str(machine, args[0]), zt_j_str(machine, args[1]), count));
}

FILTER(f_escape)
{
    UNUSED;
    jvalue result =
        zt_j_string(value.kind == J_STRING && value.safe ? value.text : zt_j_escape_html(machine, zt_j_str(machine, value)));
    result.safe = true;
    return result;
}

FILTER(f_forceescape)
{
    UNUSED;
    jvalue result = zt_j_string(zt_j_escape_html(machine, zt_j_str(machine, value)));
    result.safe = true;
    return result;
}

FILTER(f_safe)
{
    UNUSED;
    jvalue result = zt_j_string(zt_j_str(machine, value));
    result.safe = true;
    return result;
}

FILTER(f_format)
{
    jvalue operands = {.kind = J_TUPLE};
    (void)args;
    if (call->arg_count && call->keyword_count) zt_j_fail(machine, "format: positional and keyword arguments at the same time");
    if (call->keyword_count) {
        operands = (jvalue){.kind = J_DICT, .dict = zt_j_dict(machine)};
        for (int i = 0; i < call->keyword_count; i++)
            zt_j_dict_set(machine, operands.dict, zt_j_literal(machine, call->keywords[i].name), call->keywords[i].value);
    } else {
        operands.list = zt_j_list(machine, (size_t)call->arg_count);
        for (int i = 0; i < call->arg_count; i++) zt_j_append(machine, operands.list, call->args[i]);
    }
    return zt_j_percent(machine, keep_safety(value, zt_j_str(machine, value)), operands);
}

FILTER(f_indent)
{
    jvalue width = args[0].kind == J_ABSENT ? zt_j_int(4) : args[0];
    bool first = args[1].kind != J_ABSENT && zt_j_truth(machine, args[1]);
    bool blank = args[2].kind != J_ABSENT && zt_j_truth(machine, args[2]);
    jout out = {NULL};
    (void)call;
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(machine, value);
    if (value.kind != J_STRING) zt_j_fail(machine, "indent: expected a string, not '%s'", zt_j_type(value));
    jtext indentation = width.kind == J_STRING
                            ? width.text
                            : zt_j_repeat(machine, zt_j_literal(machine, " ").text, zt_j_as_int(machine, width, "indent"));
    jlist *lines = zt_j_lines(machine, zt_j_concat(machine, value.text, zt_j_literal(machine, "\n").text), false);
    for (size_t i = 0; i < lines->count; i++) {
        jtext line = lines->items[i].text;
        if (i) zt_j_puts(machine, &out, "\n");
        if (i ? blank || line.size : first) zt_j_put_text(machine, &out, indentation);
        zt_j_put_text(machine, &out, line);
    }
    return keep_safety(value, zt_j_done(machine, &out));
}

/* The offset of the last space; the text's size if there is none. */
static size_t last_space(jtext text)
{
    for (size_t i = text.size; i-- > 0;)
        if (zt_j_data(text)[i] == ' ') return i;
    return text.size;
}

FILTER(f_truncate)
{
    int64_t wanted = args[0].kind == J_ABSENT ? 255 : zt_j_as_int(machine, args[0], "truncate"), length;
    jvalue end = args[2].kind == J_ABSENT ? zt_j_literal(machine, "...") : args[2];
    int64_t leeway = args[3].kind == J_ABSENT || args[3].kind == J_NONE ? 5 : zt_j_as_int(machine, args[3], "truncate");
    (void)call;
    if (!zt_j_length(machine, value, &length) || end.kind != J_STRING)
        zt_j_fail(machine, "truncate: expected a string, not '%s'", zt_j_type(value));
    int64_t tail = (int64_t)zt_j_chars(machine, end.text);
    if (wanted < tail || leeway < 0)
        zt_j_fail(machine, "truncate: a length of at least %lld is expected, got %lld", (long long)tail, (long long)wanted);
    if (length <= wanted + leeway) return value;
    if (value.kind != J_STRING) zt_j_fail(machine, "truncate: expected a string, not '%s'", zt_j_type(value));
    jtext cut = zt_j_part(value.text, 0, zt_j_char_at(machine, value.text, (size_t)(wanted - tail)));
    if (args[1].kind == J_ABSENT || !zt_j_truth(machine, args[1])) cut = zt_j_part(cut, 0, last_space(cut));
    return keep_safety(value, zt_j_concat(machine, cut, end.text));
}

FILTER(f_wordcount)
{
    jtext text = zt_j_str(machine, value);
    int64_t count = 0;
    bool inside = false;
    UNUSED;
    for (size_t offset = 0, length; offset < text.size; offset += length) {
        length = zt_j_char_bytes(zt_j_data(text) + offset, text.size - offset);
        uint32_t codepoint = zt_j_code(zt_j_data(text) + offset, length);
        utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)codepoint);
        bool word = codepoint == '_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
                    (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
        zt_j_step(machine, 1);
        count += word && !inside;
        inside = word;
    }
    return zt_j_int(count);
}

FILTER(f_center)
{
    jvalue self = keep_safety(value, zt_j_str(machine, value)), width = args[0].kind == J_ABSENT ? zt_j_int(80) : args[0];
    jcall call_args = {.args = &width, .arg_count = 1};
    (void)call;
    return zt_j_invoke(machine, zt_j_string_method("center", 6), self, &call_args);
}

FILTER(f_tojson)
{
    (void)call;
    return zt_j_tojson(machine, value, args);
}

static void put_quoted(jmachine *machine, jout *out, jtext text, bool query)
{
    static const char plain[] = "_.-~";
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)zt_j_data(text)[i];
        char escaped[8];
        bool keep = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
                    (byte && strchr(plain, byte)) || (byte == '/' && !query);
        if (keep) {
            zt_j_put_text(machine, out, zt_j_part(text, i, 1));
            continue;
        }
        snprintf(escaped, sizeof escaped, "%%%02X", byte);
        zt_j_put(machine, out, query && byte == ' ' ? "+" : escaped, query && byte == ' ' ? 1 : 3, zt_j_marks(text)[i]);
    }
}

FILTER(f_urlencode)
{
    jout out = {NULL};
    UNUSED;
    zt_j_put(machine, &out, "", 0, false);
    if (value.kind == J_STRING || !zt_j_iterable(value)) {
        put_quoted(machine, &out, zt_j_str(machine, value), false);
        return zt_j_string(zt_j_done(machine, &out));
    }
    if (value.kind == J_DICT)
        value = zt_j_call(machine, zt_j_attribute(machine, value, zt_j_literal(machine, "items").text), &(jcall){0});
    jlist *pairs = zt_j_listed(machine, value);
    for (size_t i = 0; i < pairs->count; i++) {
        jlist *pair = zt_j_listed(machine, pairs->items[i]);
        if (pair->count != 2) zt_j_fail(machine, "urlencode: pairs are expected");
        zt_j_puts(machine, &out, i ? "&" : "");
        put_quoted(machine, &out, zt_j_str(machine, pair->items[0]), true);
        zt_j_puts(machine, &out, "=");
        put_quoted(machine, &out, zt_j_str(machine, pair->items[1]), true);
    }
    return zt_j_string(zt_j_done(machine, &out));
}

const jbuiltin zt_j_filters_text[] = {
    {"upper", "", 0, f_upper},
    {"lower", "", 0, f_lower},
    {"capitalize", "", 0, f_capitalize},
    {"title", "", 0, f_title},
    {"trim", "chars", 0, f_trim},
    {"string", "", 0, f_string},
    {"replace", "old new count", 2, f_replace},
    {"escape", "", 0, f_escape},
    {"e", "", 0, f_escape},
    {"forceescape", "", 0, f_forceescape},
    {"safe", "", 0, f_safe},
    {"format", NULL, 0, f_format},
    {"indent", "width first blank", 0, f_indent},
    {"truncate", "length killwords end leeway", 0, f_truncate},
    {"wordcount", "", 0, f_wordcount},
    {"center", "width", 0, f_center},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, f_tojson},
    {"urlencode", "", 0, f_urlencode},
    {"pprint", NULL, 0, NULL},
    {"random", NULL, 0, NULL},
    {"striptags", NULL, 0, NULL},
    {"urlize", NULL, 0, NULL},
    {"wordwrap", NULL, 0, NULL},
    {"xmlattr", NULL, 0, NULL},
    {NULL, NULL, 0, NULL},
};

const jbuiltin *zt_j_filter(const char *name, size_t size)
{
    static const jbuiltin *const tables[] = {zt_j_filters_text, zt_j_filters_number, zt_j_filters_sequence, zt_j_filters_select};
    const jbuiltin *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !found; i++) found = zt_j_find(tables[i], name, size);
    return found;
}
