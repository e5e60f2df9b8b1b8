/* text.c - strings: parts of buffers with a mark for each byte, and what grows them. */
#include "lib/base/utf8.h"
#include "lib/llm/jinja/internal.h"

#include <string.h>

enum { LEAST_ROOM = 64, STEP_BYTES = 16 };

static uint8_t *buffer_marks(jbuf *buffer) { return (uint8_t *)buffer->data + buffer->capacity; }

static jbuf *new_buf(jmachine *machine, size_t capacity)
{
    size_t bytes;
    if (!zt_mul_size(capacity, 2, &bytes) || !zt_add_size(bytes, sizeof(jbuf), &bytes))
        zt_j_fail(machine, "the template needs too much memory");
    zt_j_step(machine, capacity / STEP_BYTES);
    jbuf *buffer = zt_j_alloc(machine, bytes);
    buffer->capacity = capacity;
    return buffer;
}

const char *zt_j_data(jtext text) { return text.buffer ? text.buffer->data + text.offset : ""; }

const uint8_t *zt_j_marks(jtext text) { return text.buffer ? buffer_marks(text.buffer) + text.offset : (const uint8_t *)""; }

jtext zt_j_text(jmachine *machine, const char *data, size_t size, bool input)
{
    jbuf *buffer = new_buf(machine, size);
    if (size) memcpy(buffer->data, data, size);
    memset(buffer_marks(buffer), input, size);
    buffer->size = size;
    return (jtext){buffer, 0, size};
}

jtext zt_j_part(jtext text, size_t offset, size_t size) { return (jtext){text.buffer, text.offset + offset, size}; }

jvalue zt_j_string(jtext text) { return (jvalue){.kind = J_STRING, .text = text}; }

jvalue zt_j_literal(jmachine *machine, const char *text) { return zt_j_string(zt_j_text(machine, text, strlen(text), false)); }

bool zt_j_text_is(jtext value, const char *text)
{
    return strlen(text) == value.size && memcmp(zt_j_data(value), text, value.size) == 0;
}

bool zt_j_text_same(jtext left, jtext right)
{
    return left.size == right.size && memcmp(zt_j_data(left), zt_j_data(right), left.size) == 0;
}

/* -1, 0 or 1. The order of code points is that of UTF-8's bytes. */
int zt_j_text_compare(jtext left, jtext right)
{
    size_t common = left.size < right.size ? left.size : right.size;
    int order = memcmp(zt_j_data(left), zt_j_data(right), common);
    return order ? (order > 0) - (order < 0) : (left.size > right.size) - (left.size < right.size);
}

size_t zt_j_find_text(jmachine *machine, jtext text, size_t from, jtext what)
{
    if (from > text.size || what.size > text.size - from) return SIZE_MAX;
    if (what.size == 0) return from;
    const char *data = zt_j_data(text), *hit = memmem(data + from, text.size - from, zt_j_data(what), what.size);
    size_t offset = hit ? (size_t)(hit - data) : SIZE_MAX;
    zt_j_step(machine, ((hit ? offset : text.size) - from) / STEP_BYTES);
    return offset;
}

size_t zt_j_rfind_text(jmachine *machine, jtext text, size_t before, jtext what)
{
    const char *data = zt_j_data(text), *wanted = zt_j_data(what);
    zt_j_step(machine, before / STEP_BYTES);
    for (size_t offset = before + 1; offset-- > 0;) {
        if (what.size > before - offset || (what.size && data[offset] != *wanted)) continue;
        zt_j_step(machine, what.size / STEP_BYTES);
        if (memcmp(data + offset, wanted, what.size) == 0) return offset;
    }
    return SIZE_MAX;
}

/* ---- characters ------------------------------------------------------------------------------ */

/* All strings are valid UTF-8: the template and JSON are checked, and only whole characters are cut. */
size_t zt_j_char_bytes(const char *data, size_t size)
{
    unsigned char byte = (unsigned char)*data;
    size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length < size ? length : size;
}

uint32_t zt_j_code(const char *data, size_t size)
{
    uint32_t codepoint = 0;
    return zt_utf8_decode(data, size, &codepoint) ? codepoint : 0xfffd;
}

size_t zt_j_chars(jmachine *machine, jtext text)
{
    zt_j_step(machine, text.size / STEP_BYTES);
    return zt_utf8_count(zt_j_data(text), text.size);
}

size_t zt_j_char_at(jmachine *machine, jtext text, size_t index)
{
    const char *data = zt_j_data(text);
    size_t offset = 0;
    while (offset < text.size && index > 0) {
        offset += zt_j_char_bytes(data + offset, text.size - offset);
        index--;
    }
    zt_j_step(machine, offset / STEP_BYTES);
    return offset;
}

/* Python's str.isspace: White_Space and the four separators of ASCII. */
bool zt_j_is_space(uint32_t codepoint)
{
    return (codepoint >= 9 && codepoint <= 13) || (codepoint >= 28 && codepoint <= 32) || codepoint == 0x85 ||
           codepoint == 0xa0 || codepoint == 0x1680 || (codepoint >= 0x2000 && codepoint <= 0x200a) || codepoint == 0x2028 ||
           codepoint == 0x2029 || codepoint == 0x202f || codepoint == 0x205f || codepoint == 0x3000;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Room for size more bytes at the end of *buffer. */
static void make_room(jmachine *machine, jbuf **buffer, size_t size)
{
    size_t have = *buffer ? (*buffer)->size : 0, wanted;
    if (*buffer && (*buffer)->capacity - have >= size) return;
    if (!zt_add_size(have, size, &wanted) || !zt_mul_size(wanted, 2, &wanted))
        zt_j_fail(machine, "the template needs too much memory");
    jbuf *more = new_buf(machine, wanted < LEAST_ROOM ? LEAST_ROOM : wanted);
    if (have) {
        memcpy(more->data, (*buffer)->data, have);
        memcpy(buffer_marks(more), buffer_marks(*buffer), have);
    }
    more->size = have;
    *buffer = more;
}

static void count_output(jmachine *machine, const jout *out, size_t size)
{
    if (machine->document && out == machine->out && (out->buffer ? out->buffer->size : 0) + size > machine->output)
        zt_j_fail(machine, "the template writes more than %zu bytes", machine->output);
}

void zt_j_put(jmachine *machine, jout *out, const char *data, size_t size, bool input)
{
    count_output(machine, out, size);
    make_room(machine, &out->buffer, size);
    zt_j_step(machine, size / STEP_BYTES);
    if (size) {
        memcpy(out->buffer->data + out->buffer->size, data, size);
        memset(buffer_marks(out->buffer) + out->buffer->size, input, size);
    }
    out->buffer->size += size;
}

void zt_j_puts(jmachine *machine, jout *out, const char *text) { zt_j_put(machine, out, text, strlen(text), false); }

void zt_j_put_char(jmachine *machine, jout *out, uint32_t codepoint, bool input)
{
    char utf8[4];
    zt_j_put(machine, out, utf8, (size_t)zt_utf8_encode(codepoint, utf8), input);
}

void zt_j_put_text(jmachine *machine, jout *out, jtext text)
{
    count_output(machine, out, text.size);
    make_room(machine, &out->buffer, text.size);
    zt_j_step(machine, text.size / STEP_BYTES);
    if (text.size) {
        memcpy(out->buffer->data + out->buffer->size, zt_j_data(text), text.size);
        memcpy(buffer_marks(out->buffer) + out->buffer->size, zt_j_marks(text), text.size);
    }
    out->buffer->size += text.size;
}

void zt_j_put_fill(jmachine *machine, jout *out, jtext fill, int64_t times)
{
    for (int64_t index = 0; index < times; index++) {
        zt_j_step(machine, 1);
        zt_j_put_text(machine, out, fill);
    }
}

jtext zt_j_done(jmachine *machine, jout *out)
{
    return out->buffer ? (jtext){out->buffer, 0, out->buffer->size} : zt_j_text(machine, "", 0, false);
}

/* A text that ends where its buffer does grows in place: texts are built by + as often as not. */
jtext zt_j_concat(jmachine *machine, jtext left, jtext right)
{
    jout joined = {left.buffer};
    if (right.size == 0) return left;
    if (left.size == 0) return right;
    if (left.offset + left.size != left.buffer->size || left.buffer->capacity - left.buffer->size < right.size) {
        joined.buffer = new_buf(machine, (left.size + right.size) * 2);
        memcpy(joined.buffer->data, zt_j_data(left), left.size);
        memcpy(buffer_marks(joined.buffer), zt_j_marks(left), left.size);
        joined.buffer->size = left.size;
        left.offset = 0;
    }
    zt_j_put_text(machine, &joined, right);
    return (jtext){joined.buffer, left.offset, left.size + right.size};
}

jtext zt_j_repeat(jmachine *machine, jtext text, int64_t times)
{
    size_t bytes;
    jout out = {NULL};
    if (times <= 0 || text.size == 0) return zt_j_part(text, 0, 0);
    if (!zt_mul_size(text.size, (size_t)times, &bytes) || bytes > machine->memory)
        zt_j_fail(machine, "the template needs too much memory");
    make_room(machine, &out.buffer, bytes);
    zt_j_put_fill(machine, &out, text, times);
    return zt_j_done(machine, &out);
}

const char *zt_j_zero(jmachine *machine, jtext text)
{
    char *copy = zt_j_alloc(machine, text.size + 1);
    memcpy(copy, zt_j_data(text), text.size);
    return copy;
}

/* ---- what methods and filters share ---------------------------------------------------------- */

/* Is the character at data to be stripped? */
static bool is_stripped(const char *data, size_t size, const jtext *chars)
{
    if (!chars) return zt_j_is_space(zt_j_code(data, size));
    for (size_t i = 0, length; i < chars->size; i += length) {
        length = zt_j_char_bytes(zt_j_data(*chars) + i, chars->size - i);
        if (length == size && memcmp(zt_j_data(*chars) + i, data, size) == 0) return true;
    }
    return false;
}

jtext zt_j_strip(jmachine *machine, jtext text, const jtext *chars, bool left, bool right)
{
    const char *data = zt_j_data(text);
    size_t from = 0, to = text.size;
    while (left && from < to) {
        size_t length = zt_j_char_bytes(data + from, to - from);
        zt_j_step(machine, 1);
        if (!is_stripped(data + from, length, chars)) break;
        from += length;
    }
    while (right && to > from) {
        size_t length = 1;
        zt_j_step(machine, 1);
        while (length < to - from && ((unsigned char)data[to - length] & 0xc0) == 0x80) length++;
        if (!is_stripped(data + to - length, length, chars)) break;
        to -= length;
    }
    return zt_j_part(text, from, to - from);
}

/* With an empty `old`, `new` goes between all characters. */
static jtext put_between(jmachine *machine, jtext text, jtext new, int64_t count)
{
    jout out = {NULL};
    size_t offset = 0;
    for (; count != 0 && offset <= text.size; count--) {
        zt_j_put_text(machine, &out, new);
        if (offset == text.size) return zt_j_done(machine, &out);
        size_t length = zt_j_char_bytes(zt_j_data(text) + offset, text.size - offset);
        zt_j_put_text(machine, &out, zt_j_part(text, offset, length));
        offset += length;
    }
    zt_j_put_text(machine, &out, zt_j_part(text, offset, text.size - offset));
    return zt_j_done(machine, &out);
}

jtext zt_j_replace(jmachine *machine, jtext text, jtext old, jtext new, int64_t count)
{
    jout out = {NULL};
    size_t offset = 0, hit;
    if (old.size == 0) return put_between(machine, text, new, count);
    while (count != 0 && (hit = zt_j_find_text(machine, text, offset, old)) != SIZE_MAX) {
        zt_j_step(machine, 1);
        zt_j_put_text(machine, &out, zt_j_part(text, offset, hit - offset));
        zt_j_put_text(machine, &out, new);
        offset = hit + old.size;
        count -= count > 0;
    }
    if (offset == 0) return text;
    zt_j_put_text(machine, &out, zt_j_part(text, offset, text.size - offset));
    return zt_j_done(machine, &out);
}

jtext zt_j_escape_html(jmachine *machine, jtext plain)
{
    static const struct {
        char c;
        const char *text;
    } entities[] = {{'&', "&amp;"}, {'>', "&gt;"}, {'<', "&lt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
    jout out = {NULL};
    const char *data = zt_j_data(plain);
    for (size_t i = 0; i < plain.size; i++) {
        const char *text = NULL;
        for (size_t entity = 0; entity < sizeof entities / sizeof *entities; entity++)
            if (data[i] == entities[entity].c) text = entities[entity].text;
        if (text)
            zt_j_put(machine, &out, text, strlen(text), zt_j_marks(plain)[i]);
        else
            zt_j_put_text(machine, &out, zt_j_part(plain, i, 1));
    }
    return zt_j_done(machine, &out);
}

/* What ends a line for str.splitlines. */
static bool ends_line(uint32_t codepoint)
{
    return (codepoint >= 10 && codepoint <= 13) || (codepoint >= 0x1c && codepoint <= 0x1e) || codepoint == 0x85 ||
           codepoint == 0x2028 || codepoint == 0x2029;
}

jlist *zt_j_lines(jmachine *machine, jtext text, bool keep)
{
    jlist *list = zt_j_list(machine, 0);
    const char *data = zt_j_data(text);
    size_t from = 0;
    for (size_t offset = 0, length; offset < text.size; offset += length) {
        length = zt_j_char_bytes(data + offset, text.size - offset);
        zt_j_step(machine, 1);
        if (!ends_line(zt_j_code(data + offset, length))) continue;
        size_t end = offset;
        if (data[offset] == '\r' && offset + 1 < text.size && data[offset + 1] == '\n') length = 2;
        zt_j_append(machine, list, zt_j_string(zt_j_part(text, from, (keep ? offset + length : end) - from)));
        from = offset + length;
    }
    if (from < text.size) zt_j_append(machine, list, zt_j_string(zt_j_part(text, from, text.size - from)));
    return list;
}
