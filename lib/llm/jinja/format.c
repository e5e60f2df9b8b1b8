/* format.c - Python's two ways to format: "%s" % x and "{}".format(x), with the same small language
 * of widths and precisions for both. */
#include "lib/llm/jinja/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 100000 }; /* of a field, and of a float's digits after the point: 300 */

typedef struct format_spec {
    jtext fill;
    char align; /* < > ^ =, 0: by the type */
    char sign;  /* + - space, 0 */
    bool alternate, zero;
    char group;               /* , _ or 0 */
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: by the value */
} format_spec;

/* Pads text of length characters whose first `head` bytes are a sign or prefix. */
static void put_padded(jmachine *machine, jout *out, const format_spec *spec, jtext text, size_t head, char align)
{
    int64_t length = (int64_t)zt_j_chars(machine, text), missing = spec->width > length ? spec->width - length : 0;
    int64_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    if (align == '=') zt_j_put_text(machine, out, zt_j_part(text, 0, head));
    zt_j_put_fill(machine, out, spec->fill, left);
    zt_j_put_text(machine, out, align == '=' ? zt_j_part(text, head, text.size - head) : text);
    zt_j_put_fill(machine, out, spec->fill, missing - left);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Digits in groups: of three, of four where the base is not ten. Only the first run of digits. */
static void put_grouped(jmachine *machine, jout *out, const char *text, char group, int size)
{
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    if (size == 3) digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits; i++) {
        if (group && i && (digits - i) % (size_t)size == 0) zt_j_put(machine, out, &group, 1, false);
        zt_j_put(machine, out, text + i, 1, false);
    }
    zt_j_puts(machine, out, text + digits);
}

static size_t put_sign(jmachine *machine, jout *out, bool negative, char sign)
{
    if (!negative && sign != '+' && sign != ' ') return 0;
    zt_j_puts(machine, out, negative ? "-" : sign == '+' ? "+" : " ");
    return 1;
}

static void put_int_digits(uint64_t number, char type, char buffer[72])
{
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    const char *digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char reversed[72];
    int length = 0, written = 0;
    do reversed[length++] = digits[number % base];
    while (number /= base);
    while (length > 0) buffer[written++] = reversed[--length];
    buffer[written] = 0;
}

static void put_int(jmachine *machine, jout *out, const format_spec *spec, int64_t number)
{
    char digits[72];
    jout text = {NULL};
    bool based = spec->type == 'b' || spec->type == 'o' || spec->type == 'x' || spec->type == 'X';
    size_t head = put_sign(machine, &text, number < 0, spec->sign);
    if (spec->alternate && based) {
        char prefix[3] = {'0', spec->type, 0};
        zt_j_puts(machine, &text, prefix);
        head += 2;
    }
    put_int_digits(number < 0 ? 0 - (uint64_t)number : (uint64_t)number, spec->type, digits);
    for (int64_t zeros = (int64_t)strlen(digits); zeros < spec->precision; zeros++)
        zt_j_puts(machine, &text, "0"); /* of % alone */
    put_grouped(machine, &text, digits, spec->group, based ? 4 : 3);
    put_padded(machine, out, spec, zt_j_done(machine, &text), head, spec->align ? spec->align : spec->zero ? '=' : '>');
}

/* The digits of |number| as %e, %number, %g; repr's where no type is named. */
static void float_digits(const format_spec *spec, double number, char buffer[512])
{
    char shortest[64], fmt[16];
    int precision = (int)(spec->precision < 0 ? 6 : spec->precision);
    if (isnan(number) || isinf(number)) {
        snprintf(buffer, 512, "%s", isnan(number) ? "nan" : "inf");
    } else if (spec->type == 0 && spec->precision < 0) {
        snprintf(buffer, 512, "%s", zt_j_print_float(number, shortest));
    } else if (spec->type == '%') {
        snprintf(buffer, 512, "%.*f%%", precision, number * 100);
    } else {
        char type = spec->type == 0 ? 'g' : spec->type;
        snprintf(fmt, sizeof fmt, "%%%s.*%c", spec->alternate ? "#" : "", type);
        snprintf(buffer, 512, fmt, precision, number);
        if (spec->type == 0 && !strpbrk(buffer, ".e")) {
            size_t length = strlen(buffer);
            memcpy(buffer + length, ".0", 3);
        }
    }
    for (char *letter = buffer; (spec->type == 'F' || spec->type == 'E' || spec->type == 'G') && *letter; letter++)
        *letter = *letter >= 'a' && *letter <= 'z' ? (char)(*letter - 32) : *letter;
}

static void put_float(jmachine *machine, jout *out, const format_spec *spec, double number)
{
    char digits[512];
    jout text = {NULL};
    if (spec->precision > 100 || (spec->type != 'e' && spec->type != 'g' && spec->type && fabs(number) > 1e300))
        zt_j_fail(machine, "a float with too many digits");
    size_t head = put_sign(machine, &text, signbit(number) && !isnan(number), spec->sign);
    float_digits(spec, fabs(number), digits);
    put_grouped(machine, &text, digits, spec->group, 3);
    put_padded(machine, out, spec, zt_j_done(machine, &text), head, spec->align ? spec->align : spec->zero ? '=' : '>');
}

static void put_string(jmachine *machine, jout *out, const format_spec *spec, jtext text, char align)
{
    if (spec->precision >= 0) text = zt_j_part(text, 0, zt_j_char_at(machine, text, (size_t)spec->precision));
    put_padded(machine, out, spec, text, 0, align);
}

static int64_t read_number(jmachine *machine, jtext text, size_t *position)
{
    int64_t number = 0;
    const char *data = zt_j_data(text);
    for (; *position < text.size && data[*position] >= '0' && data[*position] <= '9'; ++*position) {
        number = number * 10 + (data[*position] - '0');
        if (number > MOST_WIDTH) zt_j_fail(machine, "a width of more than %d in a format", MOST_WIDTH);
    }
    return number;
}

/* ---- % --------------------------------------------------------------------------------------- */

typedef struct percent_format {
    jmachine *machine;
    jout *out;
    jtext text;      /* the format */
    size_t position; /* of the next byte in it */
    jvalue args;
    size_t used;
    bool safe; /* the format is Markup: what is put in is escaped */
} percent_format;

static jvalue next_argument(percent_format *state)
{
    if (state->args.kind == J_TUPLE) {
        if (state->used >= state->args.list->count) zt_j_fail(state->machine, "not enough arguments for format string");
        return state->args.list->items[state->used++];
    }
    if (state->used++ > 0) zt_j_fail(state->machine, "not enough arguments for format string");
    return state->args;
}

/* %(name): the mapping's member. */
static jvalue named_argument(percent_format *state)
{
    size_t from = ++state->position;
    const char *data = zt_j_data(state->text);
    while (state->position < state->text.size && data[state->position] != ')') state->position++;
    if (state->position == state->text.size) zt_j_fail(state->machine, "incomplete format key");
    if (state->args.kind != J_DICT) zt_j_fail(state->machine, "format requires a mapping");
    jvalue key = zt_j_string(zt_j_part(state->text, from, state->position++ - from));
    jvalue *found = zt_j_dict_get(state->machine, state->args.dict, key);
    if (!found) zt_j_fail(state->machine, "format key not found: %s", zt_j_zero(state->machine, key.text));
    return *found;
}

static int64_t star_or_number(percent_format *state)
{
    if (state->position < state->text.size && zt_j_data(state->text)[state->position] == '*') {
        state->position++;
        int64_t number = zt_j_as_int(state->machine, next_argument(state), "*");
        if (number > MOST_WIDTH || number < -MOST_WIDTH)
            zt_j_fail(state->machine, "a width of more than %d in a format", MOST_WIDTH);
        return number;
    }
    return read_number(state->machine, state->text, &state->position);
}

static void put_number(percent_format *state, format_spec *spec, jvalue value)
{
    bool floats = strchr("eEfFgG", spec->type) != NULL;
    if (value.kind == J_UNDEFINED) zt_j_fail_undefined(state->machine, value);
    if (!zt_j_is_number(value) || (value.kind == J_FLOAT && strchr("xXo", spec->type)))
        zt_j_fail(state->machine, "%%%c format: a number is required, not %s", spec->type, zt_j_type(value));
    if (floats) {
        put_float(state->machine, state->out, spec, zt_j_as_float(value));
        return;
    }
    if (value.kind == J_FLOAT && !(fabs(value.number) < 9.2e18)) zt_j_fail(state->machine, "an integer of more than 64 bits");
    spec->type = spec->type == 'i' || spec->type == 'u' ? 'd' : spec->type;
    put_int(state->machine, state->out, spec,
            value.kind == J_FLOAT  ? (int64_t)value.number
            : value.kind == J_BOOL ? value.boolean
                                   : value.integer);
}

static void put_character(percent_format *state, const format_spec *spec, jvalue value)
{
    jout letter = {NULL};
    if (value.kind == J_INT && value.integer >= 0 && value.integer <= 0x10ffff &&
        (value.integer < 0xd800 || value.integer > 0xdfff)) {
        zt_j_put_char(state->machine, &letter, (uint32_t)value.integer, false);
        put_string(state->machine, state->out, spec, zt_j_done(state->machine, &letter), spec->align ? spec->align : '>');
        return;
    }
    if (value.kind != J_STRING || zt_j_chars(state->machine, value.text) != 1)
        zt_j_fail(state->machine, "%%c requires an int or a character");
    put_string(state->machine, state->out, spec, value.text, spec->align ? spec->align : '>');
}

static void read_flags(percent_format *state, format_spec *spec)
{
    for (; state->position < state->text.size; state->position++) {
        char letter = zt_j_data(state->text)[state->position];
        if (letter == '-')
            spec->align = '<';
        else if (letter == '+' || (letter == ' ' && spec->sign != '+'))
            spec->sign = letter;
        else if (letter == '#')
            spec->alternate = true;
        else if (letter == '0')
            spec->zero = true;
        else if (letter != ' ')
            break;
    }
}

static jtext shown_text(percent_format *state, jvalue value, char type)
{
    jtext text = type == 's' ? zt_j_str(state->machine, value) : zt_j_repr(state->machine, value);
    return state->safe && !(value.kind == J_STRING && value.safe) ? zt_j_escape_html(state->machine, text) : text;
}

/* One %...; the position is behind the percent sign. */
static void put_directive(percent_format *state)
{
    format_spec spec = {.fill = zt_j_text(state->machine, " ", 1, false), .width = -1, .precision = -1};
    const char *data = zt_j_data(state->text);
    jvalue value = zt_j_absent;
    if (state->position < state->text.size && data[state->position] == '(') value = named_argument(state);
    read_flags(state, &spec);
    spec.width = star_or_number(state);
    if (spec.width < 0) {
        spec.align = '<';
        spec.width = -spec.width;
    }
    if (state->position < state->text.size && data[state->position] == '.') {
        state->position++;
        spec.precision = star_or_number(state);
        spec.precision = spec.precision < 0 ? 0 : spec.precision;
    }
    while (state->position < state->text.size && strchr("hlL", data[state->position])) state->position++;
    if (state->position >= state->text.size) zt_j_fail(state->machine, "incomplete format");
    spec.type = data[state->position++];
    if (spec.type == '%') {
        zt_j_puts(state->machine, state->out, "%");
        return;
    }
    if (!strchr("diuoxXeEfFgGcsra", spec.type) || spec.type == 0)
        zt_j_fail(state->machine, "unsupported format character '%c'", spec.type);
    if (value.kind == J_ABSENT) value = next_argument(state);
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a')
        put_string(state->machine, state->out, &spec, shown_text(state, value, spec.type), spec.align ? spec.align : '>');
    else if (spec.type == 'c')
        put_character(state, &spec, value);
    else if (spec.zero && !spec.align) {
        spec.fill = zt_j_text(state->machine, "0", 1, false);
        put_number(state, &spec, value);
    } else
        put_number(state, &spec, value);
}

jvalue zt_j_percent(jmachine *machine, jvalue template, jvalue args)
{
    jout out = {NULL};
    percent_format state = {.machine = machine, .out = &out, .text = template.text, .args = args, .safe = template.safe};
    zt_j_put(machine, &out, "", 0, false);
    while (state.position < state.text.size) {
        const char *data = zt_j_data(state.text), *hit = memchr(data + state.position, '%', state.text.size - state.position);
        size_t to = hit ? (size_t)(hit - data) : state.text.size;
        zt_j_put_text(machine, &out, zt_j_part(state.text, state.position, to - state.position));
        state.position = to + (hit != NULL);
        if (hit) put_directive(&state);
    }
    if (args.kind == J_TUPLE
            ? state.used < args.list->count
            : state.used == 0 && args.kind != J_DICT && args.kind != J_LIST && args.kind != J_RANGE && args.kind != J_UNDEFINED)
        zt_j_fail(machine, "not all arguments converted during string formatting");
    jvalue value = zt_j_string(zt_j_done(machine, &out));
    value.safe = template.safe;
    return value;
}

/* ---- str.format ------------------------------------------------------------------------------ */

static bool is_align(char letter) { return letter == '<' || letter == '>' || letter == '^' || letter == '='; }

/* [[fill]align][sign][#][0][width][,|_][.precision][type] */
static format_spec read_spec(jmachine *machine, jtext text)
{
    format_spec spec = {.fill = zt_j_text(machine, " ", 1, false), .width = -1, .precision = -1};
    const char *data = zt_j_data(text);
    size_t position = 0, fill_length = text.size ? zt_j_char_bytes(data, text.size) : 0;
    if (fill_length < text.size && is_align(data[fill_length])) {
        spec.fill = zt_j_part(text, 0, fill_length);
        spec.align = data[fill_length];
        position = fill_length + 1;
    } else if (text.size && is_align(data[0])) {
        spec.align = data[position++];
    }
    if (position < text.size && (data[position] == '+' || data[position] == '-' || data[position] == ' '))
        spec.sign = data[position++];
    if (position < text.size && data[position] == '#') spec.alternate = data[position++] == '#';
    if (position < text.size && data[position] == '0') {
        spec.zero = true;
        if (!spec.align) spec.fill = zt_j_text(machine, "0", 1, false);
        position++;
    }
    spec.width = read_number(machine, text, &position);
    if (position < text.size && (data[position] == ',' || data[position] == '_')) spec.group = data[position++];
    if (position < text.size && data[position] == '.') {
        size_t from = ++position;
        spec.precision = read_number(machine, text, &position);
        if (position == from) zt_j_fail(machine, "format specifier missing precision");
    }
    if (position < text.size) spec.type = data[position++];
    if (position < text.size) zt_j_fail(machine, "invalid format specifier");
    return spec;
}

static void put_spec(jmachine *machine, jout *out, jvalue value, jtext text)
{
    format_spec spec = read_spec(machine, text);
    bool integer = value.kind == J_INT || value.kind == J_BOOL;
    if (text.size == 0) {
        zt_j_put_str(machine, out, value);
        return;
    }
    if (value.kind == J_STRING && (spec.type == 0 || spec.type == 's') && !spec.sign && !spec.group && spec.align != '=') {
        put_string(machine, out, &spec, value.text, spec.align ? spec.align : '<');
    } else if (integer && spec.precision < 0 && (spec.type == 0 || strchr("bdoxX", spec.type))) {
        put_int(machine, out, &spec, value.kind == J_INT ? value.integer : value.boolean);
    } else if (zt_j_is_number(value) && (value.kind == J_FLOAT || spec.type) &&
               (spec.type == 0 || strchr("eEfFgG%", spec.type))) {
        put_float(machine, out, &spec, zt_j_as_float(value));
    } else {
        zt_j_fail(machine, "format specifier '%s' does not fit '%s'", zt_j_zero(machine, text), zt_j_type(value));
    }
}

typedef struct str_formatter {
    jmachine *machine;
    const jcall *call;
    int next; /* of fields without a number; -1: fields are numbered */
} str_formatter;

/* "name.attr[key]" of a field. */
static jvalue field_value(str_formatter *formatter, jtext name)
{
    jmachine *machine = formatter->machine;
    const char *data = zt_j_data(name);
    size_t position = 0;
    int64_t number;
    jvalue value = zt_j_absent;
    while (position < name.size && data[position] != '.' && data[position] != '[') position++;
    size_t parsed = 0;
    number = read_number(machine, zt_j_part(name, 0, position), &parsed);
    if (position == 0 || parsed == position) {
        if ((position == 0) != (formatter->next >= 0) && formatter->next != 0)
            zt_j_fail(machine, "numbered and automatic fields in one format");
        number = position == 0 ? formatter->next++ : number;
        formatter->next = position == 0 ? formatter->next : -1;
        if (number >= formatter->call->arg_count) zt_j_fail(machine, "a replacement field without an argument");
        value = formatter->call->args[number];
    }
    for (int i = 0; value.kind == J_ABSENT && i < formatter->call->keyword_count; i++)
        if (zt_j_text_is(zt_j_part(name, 0, position), formatter->call->keywords[i].name))
            value = formatter->call->keywords[i].value;
    if (value.kind == J_ABSENT)
        zt_j_fail(machine, "no argument '%s' for a replacement field", zt_j_zero(machine, zt_j_part(name, 0, position)));
    while (position < name.size) {
        bool item = data[position] == '[';
        size_t from = ++position;
        while (position < name.size && (item ? data[position] != ']' : data[position] != '.' && data[position] != '['))
            position++;
        jtext part = zt_j_part(name, from, position - from);
        parsed = 0;
        number = read_number(machine, part, &parsed);
        value = !item                                  ? zt_j_attribute(machine, value, part)
                : parsed == part.size && part.size > 0 ? zt_j_item(machine, value, zt_j_int(number))
                                                       : zt_j_item(machine, value, zt_j_string(part));
        position += item;
    }
    return value;
}

static jtext expand_fields(str_formatter *formatter, jtext text, int depth);

/* "{...}": name[!conversion][:spec] */
static void put_field(str_formatter *formatter, jout *out, jtext text, int depth)
{
    const char *data = zt_j_data(text);
    size_t end = 0;
    int brackets = 0;
    for (; end < text.size && (brackets > 0 || (data[end] != '!' && data[end] != ':')); end++)
        brackets += data[end] == '[' ? 1 : data[end] == ']' && brackets ? -1 : 0;
    jvalue value = field_value(formatter, zt_j_part(text, 0, end));
    if (end < text.size && data[end] == '!') {
        char conversion = end + 1 < text.size ? data[end + 1] : 0;
        if (conversion != 'r' && conversion != 's' && conversion != 'a')
            zt_j_fail(formatter->machine, "unknown conversion in a format");
        value = zt_j_string(conversion == 's' ? zt_j_str(formatter->machine, value) : zt_j_repr(formatter->machine, value));
        end += 2;
    }
    if (end < text.size && data[end] != ':') zt_j_fail(formatter->machine, "expected ':' after a conversion");
    jtext rest = zt_j_part(text, end < text.size ? end + 1 : text.size, end < text.size ? text.size - end - 1 : 0);
    put_spec(formatter->machine, out, value, depth > 0 ? expand_fields(formatter, rest, depth - 1) : rest);
}

/* The end of the field whose brace is before `offset`: its closing brace. */
static size_t field_end(str_formatter *formatter, jtext text, size_t offset)
{
    int open = 1;
    for (; offset < text.size; offset++) {
        open += zt_j_data(text)[offset] == '{' ? 1 : zt_j_data(text)[offset] == '}' ? -1 : 0;
        if (open == 0) return offset;
    }
    zt_j_fail(formatter->machine, "expected '}' before end of a format");
}

static jtext expand_fields(str_formatter *formatter, jtext text, int depth)
{
    jout out = {NULL};
    const char *data = zt_j_data(text);
    zt_j_put(formatter->machine, &out, "", 0, false);
    for (size_t offset = 0; offset < text.size;) {
        size_t from = offset;
        while (offset < text.size && data[offset] != '{' && data[offset] != '}') offset++;
        zt_j_put_text(formatter->machine, &out, zt_j_part(text, from, offset - from));
        if (offset >= text.size) break;
        if (offset + 1 < text.size && data[offset + 1] == data[offset]) {
            zt_j_put_text(formatter->machine, &out, zt_j_part(text, offset, 1));
            offset += 2;
            continue;
        }
        if (data[offset] == '}') zt_j_fail(formatter->machine, "single '}' in a format");
        size_t end = field_end(formatter, text, offset + 1);
        put_field(formatter, &out, zt_j_part(text, offset + 1, end - offset - 1), depth);
        offset = end + 1;
    }
    return zt_j_done(formatter->machine, &out);
}

jvalue zt_j_str_format(jmachine *machine, jvalue self, const jvalue *args, const jcall *call)
{
    str_formatter formatter = {.machine = machine, .call = call};
    (void)args;
    jvalue value = zt_j_string(expand_fields(&formatter, self.text, 1));
    value.safe = self.safe;
    return value;
}
