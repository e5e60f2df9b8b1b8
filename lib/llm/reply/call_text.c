/* call_text.c - calls that are not JSON: arguments between tags, calls as in Python, and Gemma's pairs.
 *
 *   <function=f><parameter=a>1</parameter></function>      f(a=1, b=["x"])      call:f{a:1,b:[<|"|>x<|"|>]}
 */
#include "lib/io/json.h"
#include "lib/llm/reply/reply_internal.h"

#include <stdio.h>
#include <string.h>

/* Arguments as they are written: an object of JSON. */
typedef struct argument_list {
    zt_reply *reply;
    const json_t *schema; /* of the tool's parameters */
    zt_str json;
    int count;
} argument_list;

static void begin_arguments(argument_list *list, zt_reply *reply, zt_bytes name)
{
    bool found;
    *list = (argument_list){.reply = reply, .schema = zt_reply_tool(reply, zt_reply_trimmed(name), &found)};
    zt_str_init(&list->json, reply->ctx);
    zt_str_putc(&list->json, '{');
}

static void put_key(argument_list *list, zt_bytes key)
{
    if (list->count++) zt_str_putc(&list->json, ',');
    zt_str_put_json(&list->json, key.data, key.n);
    zt_str_putc(&list->json, ':');
}

static reply_step end_arguments(argument_list *list, zt_bytes name, reply_step step, zt_status *status)
{
    zt_str_putc(&list->json, '}');
    *status = zt_ctx_status(list->reply->ctx);
    if (*status == ZT_OK && step == STEP_ON)
        step = zt_reply_add_call(list->reply, (zt_bytes){0}, name, (zt_bytes){list->json.data, list->json.len}, status);
    zt_str_fini(&list->json);
    return step;
}

/* Takes from *text what stands before the mark, and the mark. False: the mark is not there. */
static bool take_until(zt_bytes *text, const char *mark, zt_bytes *before)
{
    const char *hit = zt_reply_find(*text, mark);
    if (!hit) return false;
    const char *end = text->data + text->n;
    *before = part_of(text->data, hit);
    *text = part_of(hit + strlen(mark), end);
    return true;
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* An argument's name, after the mark that begins it. *is_text, *is_json: what an attribute after the name says of
 * the value. */
static bool take_argument_name(zt_bytes *text, const tag_marks *tags, zt_bytes *name, bool *is_text, bool *is_json)
{
    zt_bytes attributes;
    if (tags->argument_end[0] != '"') return take_until(text, tags->argument_end, name);
    if (!take_until(text, "\"", name) || !take_until(text, tags->attributes_end ? tags->attributes_end : ">", &attributes))
        return false;
    *is_text = tags->is_text && zt_reply_find(attributes, tags->is_text);
    *is_json = tags->is_json && zt_reply_find(attributes, tags->is_json);
    return true;
}

/* ---- values that hold further tags ------------------------------------------------------------ */

typedef struct tag_reading {
    zt_bytes rest;
    const tag_marks *tags;
    const json_t *root; /* of the tool's parameters */
    zt_str *out;
    int depth;
} tag_reading;

/* A tag of an argument; false: none, or the end of the value around it. */
static bool take_open_tag(tag_reading *reading, zt_bytes *name)
{
    if (zt_reply_begins(reading->rest, reading->tags->nested)) return false;
    return zt_reply_skip(&reading->rest, reading->tags->argument) &&
           take_until(&reading->rest, reading->tags->argument_end, name);
}

static bool skip_close_tag(tag_reading *reading, zt_bytes name)
{
    if (!zt_reply_skip(&reading->rest, reading->tags->nested)) return false;
    if (reading->rest.n < name.n || memcmp(reading->rest.data, name.data, name.n) != 0) return false;
    reading->rest.data += name.n;
    reading->rest.n -= name.n;
    return zt_reply_skip(&reading->rest, ">");
}

static const json_t *member_schema(const json_t *schema, zt_bytes name)
{
    char key[MOST_NAME];
    if (name.n >= sizeof key) return NULL;
    snprintf(key, sizeof key, "%.*s", (int)name.n, name.data);
    return json_object_get(json_object_get(schema, "properties"), key);
}

static bool has_type(const json_t *schema, const char *type)
{
    const char *own = json_string_value(json_object_get(schema, "type"));
    return own && strcmp(own, type) == 0;
}

static bool read_tagged_value(tag_reading *reading, const json_t *schema);

/* The tags inside of a value, the first of which is open: an object, or a list of items. */
static bool read_members(tag_reading *reading, const json_t *schema, zt_bytes name)
{
    bool list = name.n == 4 && memcmp(name.data, "item", 4) == 0 && !member_schema(schema, name);
    zt_str_putc(reading->out, list ? '[' : '{');
    for (bool more = false;; more = true) {
        const json_t *own = list ? json_object_get(schema, "items") : member_schema(schema, name);
        if (more) zt_str_putc(reading->out, ',');
        if (!list) {
            zt_str_put_json(reading->out, name.data, name.n);
            zt_str_putc(reading->out, ':');
        }
        if (!read_tagged_value(reading, own) || !skip_close_tag(reading, name)) return false;
        zt_reply_skip_space(&reading->rest);
        zt_bytes next;
        if (!take_open_tag(reading, &next)) break;
        if (list && (next.n != 4 || memcmp(next.data, "item", 4) != 0)) return false;
        name = next;
    }
    return zt_str_putc(reading->out, list ? ']' : '}') == ZT_OK;
}

static bool read_tagged_value(tag_reading *reading, const json_t *schema)
{
    zt_bytes text, name;
    tag_reading inside = *reading;
    zt_reply_skip_space(&inside.rest);
    if (++inside.depth > MOST_DEPTH) return false;
    if (take_open_tag(&inside, &name)) {
        bool good = read_members(&inside, schema, name);
        reading->rest = inside.rest;
        return good;
    }
    const char *end = zt_reply_find(reading->rest, reading->tags->nested);
    if (!end) return false;
    text = part_of(reading->rest.data, end);
    reading->rest = part_of(end, reading->rest.data + reading->rest.n);
    if (!zt_reply_trimmed(text).n && (has_type(schema, "object") || has_type(schema, "array")))
        return zt_str_puts(reading->out, has_type(schema, "object") ? "{}" : "[]") == ZT_OK;
    return zt_reply_put_as(reading->root, schema, text, reading->out) == ZT_OK;
}

/* The name of an argument was taken; its value and the mark that ends it. */
static bool put_nested(argument_list *list, zt_bytes *text, const tag_marks *tags, zt_bytes name)
{
    tag_reading reading = {.rest = *text, .tags = tags, .root = list->schema, .out = &list->json};
    put_key(list, name);
    bool good = read_tagged_value(&reading, member_schema(list->schema, name)) && skip_close_tag(&reading, name);
    *text = reading.rest;
    return good;
}

/* ---- arguments between tags ------------------------------------------------------------------- */

/* The text of a value without the newline at each end that belongs to the tags. */
static zt_bytes value_of(zt_bytes text)
{
    static const char cdata[] = "<![CDATA[";
    if (zt_reply_begins(text, cdata) && text.n >= sizeof cdata + 2 && memcmp(text.data + text.n - 3, "]]>", 3) == 0)
        return (zt_bytes){text.data + sizeof cdata - 1, text.n - (sizeof cdata - 1) - 3};
    if (text.n && *text.data == '\n') text.data++, text.n--;
    if (text.n && text.data[text.n - 1] == '\n') text.n--;
    return text;
}

static bool put_argument(argument_list *list, zt_bytes *text, const tag_marks *tags)
{
    zt_bytes name, value;
    bool is_text = false, is_json = false;
    if (!take_argument_name(text, tags, &name, &is_text, &is_json)) return false;
    if (tags->nested) return put_nested(list, text, tags, name);
    if (tags->value) {
        zt_reply_skip_space(text);
        if (!zt_reply_skip(text, tags->value)) return false;
    }
    if (!take_until(text, tags->value_end, &value)) return false;
    put_key(list, zt_reply_trimmed(name));
    value = value_of(value);
    if (is_text)
        zt_str_put_json(&list->json, value.data, value.n);
    else
        zt_reply_put_value(is_json ? NULL : list->schema, zt_reply_trimmed(name), value, &list->json);
    return true;
}

/* A function's name, at the beginning of *text. */
static bool take_function_name(zt_bytes *text, const tag_marks *tags, zt_bytes *name)
{
    zt_bytes attributes;
    if (tags->function)
        return zt_reply_skip(text, tags->function) && take_until(text, tags->function_end, name) &&
               (!tags->attributes_end || take_until(text, tags->attributes_end, &attributes));
    const char *end = zt_reply_find(*text, tags->argument), *all = text->data + text->n;
    end = end ? end : all;
    *name = part_of(text->data, end);
    *text = part_of(end, all);
    return true;
}

/* All arguments as one object of JSON. */
static reply_step read_json_block(zt_reply *reply, zt_bytes *text, zt_bytes name, zt_status *status)
{
    zt_bytes json;
    if (!take_until(text, reply->form->tags->json_end, &json) || zt_reply_trimmed(*text).n)
        return zt_reply_refuse(reply, "tool call: the tags of the arguments do not fit");
    text->n = 0;
    return zt_reply_add_call(reply, (zt_bytes){0}, name, json, status);
}

static bool begins_argument(zt_bytes text, const tag_marks *tags)
{
    return zt_reply_begins(text, tags->argument) && !(tags->close && zt_reply_begins(text, tags->close));
}

static reply_step read_function(zt_reply *reply, zt_bytes *text, zt_status *status)
{
    const tag_marks *tags = reply->form->tags;
    zt_bytes name;
    argument_list list;
    if (!take_function_name(text, tags, &name)) return zt_reply_refuse(reply, "tool call: no name of a function");
    if (zt_reply_skip(text, tags->json)) return read_json_block(reply, text, name, status);
    begin_arguments(&list, reply, name);
    bool good = true;
    for (zt_reply_skip_space(text); good && begins_argument(*text, tags); zt_reply_skip_space(text))
        good = zt_reply_skip(text, tags->argument) && put_argument(&list, text, tags);
    if (good) good = tags->close ? zt_reply_skip(text, tags->close) : text->n == 0;
    if (!good) zt_reply_refuse(reply, "tool call: the tags of the arguments do not fit");
    return end_arguments(&list, name, good ? STEP_ON : STEP_WRONG, status);
}

reply_step zt_reply_read_tags(zt_reply *reply, zt_bytes text, zt_status *status)
{
    reply_step step;
    do {
        if (reply->form->tags->function && *reply->form->tags->function != ' ') zt_reply_skip_space(&text);
        step = read_function(reply, &text, status);
        text = zt_reply_trimmed(text);
    } while (step == STEP_ON && *status == ZT_OK && text.n);
    return step;
}

/* ---- values as in Python, and as pairs -------------------------------------------------------- */

typedef struct literal_reading {
    zt_bytes rest;
    const char *quote; /* the mark around texts; NULL: Python's quotes */
    zt_str *out;
    int depth;
} literal_reading;

static bool read_literal(literal_reading *reading);

static uint32_t read_hex(zt_bytes digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits.n; i++) {
        int digit = digits.data[i] >= '0' && digits.data[i] <= '9' ? digits.data[i] - '0' : (digits.data[i] | 32) - 'a' + 10;
        if (digit < 0 || digit > 15) return UINT32_MAX;
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* What comes after a backslash: the bytes that it stands for, appended. False: it is not complete. */
static bool put_escape(literal_reading *reading, zt_str *text)
{
    static const char from[] = "ntrbf0", to[] = "\n\t\r\b\f";
    zt_bytes *rest = &reading->rest;
    char bytes[4], kind = rest->n ? *rest->data : 0;
    size_t digits = kind == 'u' ? 4 : kind == 'x' ? 2 : kind == 'U' ? 8 : 0;
    if (rest->n < 1 + digits) return false;
    const char *known = kind && !digits ? strchr(from, kind) : NULL;
    uint32_t code = digits ? read_hex((zt_bytes){rest->data + 1, digits}) : 0;
    rest->data += 1 + digits;
    rest->n -= 1 + digits;
    if (kind == 'u' && code >= 0xd800 && code < 0xdc00 && rest->n >= 6 && rest->data[0] == '\\' && rest->data[1] == 'u') {
        uint32_t low = read_hex((zt_bytes){rest->data + 2, 4}); /* the other half of a pair of surrogates, as JSON has them */
        if (low < 0xdc00 || low >= 0xe000) return false;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        rest->data += 6;
        rest->n -= 6;
    }
    if (digits) {
        if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
        return zt_str_put(text, bytes, (size_t)zt_utf8_encode(code, bytes)) == ZT_OK;
    }
    return zt_str_putc(text, known ? to[known - from] : kind) == ZT_OK;
}

static bool read_python_text(literal_reading *reading)
{
    zt_str text;
    zt_bytes *rest = &reading->rest;
    char quote = *rest->data;
    bool good = true, closed = false;
    zt_str_init(&text, reading->out->ctx);
    rest->data++, rest->n--;
    while (good && !closed && rest->n) {
        char byte = *rest->data;
        rest->data++, rest->n--;
        closed = byte == quote;
        if (byte == '\\')
            good = put_escape(reading, &text);
        else if (!closed)
            good = zt_str_putc(&text, byte) == ZT_OK;
    }
    if (good && closed) zt_str_put_json(reading->out, text.data ? text.data : "", text.len);
    zt_str_fini(&text);
    return good && closed;
}

static bool read_text(literal_reading *reading)
{
    zt_bytes text;
    if (!reading->quote) return read_python_text(reading);
    if (!zt_reply_skip(&reading->rest, reading->quote) || !take_until(&reading->rest, reading->quote, &text)) return false;
    return zt_str_put_json(reading->out, text.data, text.n) == ZT_OK;
}

static bool is_text(const literal_reading *reading)
{
    if (reading->quote) return zt_reply_begins(reading->rest, reading->quote);
    return reading->rest.n && (*reading->rest.data == '"' || *reading->rest.data == '\'');
}

static bool is_word(char byte)
{
    return (byte && strchr("+-._", byte)) || (byte >= '0' && byte <= '9') || ((byte | 32) >= 'a' && (byte | 32) <= 'z');
}

static zt_bytes take_word(zt_bytes *rest)
{
    const char *begin = rest->data;
    while (rest->n && is_word(*rest->data)) rest->data++, rest->n--;
    return part_of(begin, rest->data);
}

/* A number or a constant. */
static bool read_constant(literal_reading *reading)
{
    zt_bytes word = take_word(&reading->rest);
    static const char *const constants[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                               {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (word.n == strlen(constants[i][0]) && memcmp(word.data, constants[i][0], word.n) == 0)
            return zt_str_puts(reading->out, constants[i][1]) == ZT_OK;
    const char *end = word.data + word.n;
    return word.n && zt_json_value_end(word.data, end, 1) == end && zt_str_put(reading->out, word.data, word.n) == ZT_OK;
}

/* The key of an object: a text, or in pairs a bare word. */
static bool read_key(literal_reading *reading)
{
    zt_bytes key;
    zt_reply_skip_space(&reading->rest);
    if (is_text(reading)) {
        if (!read_text(reading)) return false;
        zt_reply_skip_space(&reading->rest);
        return zt_reply_skip(&reading->rest, ":");
    }
    if (!reading->quote || !take_until(&reading->rest, ":", &key) || !key.n || key.n > MOST_NAME) return false;
    key = zt_reply_trimmed(key);
    return zt_str_put_json(reading->out, key.data, key.n) == ZT_OK;
}

/* The items of a list, or the members of an object, up to the bracket that closes it. */
static bool read_items(literal_reading *reading, const char *close, bool keys)
{
    if (++reading->depth > MOST_DEPTH) return false;
    for (int count = 0;; count++) {
        zt_reply_skip_space(&reading->rest);
        if (zt_reply_skip(&reading->rest, close)) break;
        if (count && !zt_reply_skip(&reading->rest, ",")) return false;
        zt_reply_skip_space(&reading->rest);
        if (count && zt_reply_skip(&reading->rest, close)) break; /* a comma at the end */
        if (count) zt_str_putc(reading->out, ',');
        if (keys && (!read_key(reading) || zt_str_putc(reading->out, ':') != ZT_OK)) return false;
        if (!read_literal(reading)) return false;
    }
    reading->depth--;
    return true;
}

static bool read_literal(literal_reading *reading)
{
    zt_reply_skip_space(&reading->rest);
    if (is_text(reading)) return read_text(reading);
    bool object = zt_reply_skip(&reading->rest, "{"), list = !object && zt_reply_skip(&reading->rest, "[");
    bool tuple = !object && !list && !reading->quote && zt_reply_skip(&reading->rest, "(");
    if (!object && !list && !tuple) return read_constant(reading);
    zt_str_putc(reading->out, object ? '{' : '[');
    bool good = read_items(reading, object ? "}" : list ? "]" : ")", object);
    return good && zt_str_putc(reading->out, object ? '}' : ']') == ZT_OK;
}

/* ---- calls as in Python ---------------------------------------------------------------------- */

/* argument=value, ... up to the bracket. */
static bool read_keywords(argument_list *list, literal_reading *reading)
{
    for (;;) {
        zt_reply_skip_space(&reading->rest);
        if (zt_reply_skip(&reading->rest, ")")) return true;
        if (list->count && !zt_reply_skip(&reading->rest, ",")) return false;
        zt_reply_skip_space(&reading->rest);
        if (list->count && zt_reply_skip(&reading->rest, ")")) return true;
        zt_bytes key = take_word(&reading->rest);
        zt_reply_skip_space(&reading->rest);
        if (!key.n || !zt_reply_skip(&reading->rest, "=")) return false;
        put_key(list, key);
        if (!read_literal(reading)) return false;
    }
}

static reply_step read_python_call(zt_reply *reply, zt_bytes *text, zt_status *status)
{
    bool printed = zt_reply_skip(text, "print(");
    zt_bytes name = take_word(text);
    argument_list list;
    while (zt_reply_skip(&name, "default_api.") || zt_reply_skip(&name, "functions."))
        ;
    zt_reply_skip_space(text);
    if (!name.n || !zt_reply_skip(text, "(")) return zt_reply_refuse(reply, "tool call: not a call of a function");
    begin_arguments(&list, reply, name);
    literal_reading reading = {.rest = *text, .out = &list.json};
    bool good = read_keywords(&list, &reading);
    *text = reading.rest;
    if (printed) {
        zt_reply_skip_space(text);
        good = good && zt_reply_skip(text, ")");
    }
    if (!good) zt_reply_refuse(reply, "tool call: the arguments are not keywords with constant values");
    return end_arguments(&list, name, good ? STEP_ON : STEP_WRONG, status);
}

reply_step zt_reply_read_python(zt_reply *reply, zt_bytes text, zt_status *status)
{
    reply_step step = STEP_ON;
    text = zt_reply_trimmed(text);
    bool list = zt_reply_skip(&text, "[");
    do {
        zt_reply_skip_space(&text);
        step = read_python_call(reply, &text, status);
        zt_reply_skip_space(&text);
    } while (step == STEP_ON && *status == ZT_OK && (list ? zt_reply_skip(&text, ",") : text.n > 0));
    if (step == STEP_ON && ((list && !zt_reply_skip(&text, "]")) || zt_reply_trimmed(text).n))
        step = zt_reply_refuse(reply, "tool call: text after the list of calls");
    return step;
}

/* ---- Gemma's pairs --------------------------------------------------------------------------- */

reply_step zt_reply_read_pairs(zt_reply *reply, zt_bytes text, zt_status *status)
{
    zt_bytes name;
    zt_str json;
    text = zt_reply_trimmed(text);
    if (!zt_reply_skip(&text, "call:") || !take_until(&text, "{", &name))
        return zt_reply_refuse(reply, "tool call: not call:NAME{..}");
    zt_str_init(&json, reply->ctx);
    zt_str_putc(&json, '{');
    literal_reading reading = {.rest = text, .quote = reply->form->quote, .out = &json};
    bool good = read_items(&reading, "}", true) && !zt_reply_trimmed(reading.rest).n;
    zt_str_putc(&json, '}');
    *status = zt_ctx_status(reply->ctx);
    reply_step step = !good              ? zt_reply_refuse(reply, "tool call: the arguments are not KEY:VALUE")
                      : *status != ZT_OK ? STEP_WRONG
                                         : zt_reply_add_call(reply, (zt_bytes){0}, name, (zt_bytes){json.data, json.len}, status);
    zt_str_fini(&json);
    return step;
}
