/* call_json.c - calls whose arguments are JSON: an object with a name and arguments, a list of such, or a name in
 * marks of its own before the arguments.
 */
#include "lib/io/json.h"
#include "lib/llm/reply/reply_internal.h"

#include <string.h>

/* ---- where a value ends ---------------------------------------------------------------------- */

reply_step zt_reply_scan_value(bracket_scan *scan, zt_bytes text)
{
    while (scan->offset < text.n) {
        char byte = text.data[scan->offset];
        bool opens = byte == '{' || byte == '[', closes = byte == '}' || byte == ']';
        if (!scan->begun && !opens) {
            if (!zt_reply_is_space(byte)) return STEP_WRONG;
        } else if (scan->string) {
            scan->string = byte != '"' || scan->escaped;
            scan->escaped = byte == '\\' && !scan->escaped;
        } else if (byte == '"') {
            scan->string = true;
        } else if (opens || closes) {
            scan->begun = true;
            scan->depth += opens ? 1 : -1;
        }
        scan->offset++;
        if (scan->begun && scan->depth == 0) return STEP_ON;
        if (scan->depth > MOST_DEPTH) return STEP_WRONG;
    }
    return STEP_MORE;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* The members of an object that may be a call: their texts as JSON. */
typedef struct call_members {
    zt_bytes name, arguments, id, function;
    zt_bytes only_key, only_value; /* of an object with one member */
    int count;
    bool twice;
    zt_str *key; /* keeps only_key */
} call_members;

static const struct {
    const char *key;
    size_t offset;
} member_rows[] = {
    {"name", offsetof(call_members, name)},
    {"tool_name", offsetof(call_members, name)},
    {"arguments", offsetof(call_members, arguments)},
    {"parameters", offsetof(call_members, arguments)},
    {"id", offsetof(call_members, id)},
    {"tool_call_id", offsetof(call_members, id)},
    {"function", offsetof(call_members, function)},
};

static zt_status note_member(void *user, const char *key, const char *text, size_t size)
{
    call_members *members = user;
    for (size_t i = 0; i < sizeof member_rows / sizeof *member_rows; i++) {
        if (strcmp(member_rows[i].key, key) != 0) continue;
        zt_bytes *value = (zt_bytes *)(void *)((char *)members + member_rows[i].offset);
        members->twice = members->twice || value->n;
        *value = (zt_bytes){text, size};
    }
    members->only_value = (zt_bytes){text, size};
    zt_str_clear(members->key);
    return members->count++ == 0 ? zt_str_puts(members->key, key) : ZT_OK;
}

/* The text of a JSON string, appended to `out`; empty where the value is not a string. */
static zt_status put_text(zt_reply *reply, zt_bytes value, zt_str *out)
{
    if (!value.n || *value.data != '"') return ZT_OK;
    zt_status status = zt_json_string(reply->ctx, "tool call", value.data, value.n, out);
    if (status == ZT_EDATA) {
        zt_ctx_clear(reply->ctx);
        zt_str_clear(out);
        status = ZT_OK;
    }
    return status;
}

static zt_bytes bytes_of(const zt_str *text) { return (zt_bytes){text->data ? text->data : "", text->len}; }

/* {"get_weather": {"city": ..}}: an object with one member, which has the name of a tool. */
static bool is_short(const zt_reply *reply, const call_members *members)
{
    bool found = false;
    if (members->count == 1) zt_reply_tool(reply, bytes_of(members->key), &found);
    return found;
}

static reply_step add_members(zt_reply *reply, const call_members *members, zt_status *status)
{
    zt_str name, id;
    reply_step step = STEP_WRONG;
    zt_str_init(&name, reply->ctx);
    zt_str_init(&id, reply->ctx);
    *status = put_text(reply, members->name, &name);
    if (*status == ZT_OK) *status = put_text(reply, members->id, &id);
    if (*status == ZT_OK && name.len && !members->twice)
        step = zt_reply_add_call(reply, bytes_of(&id), bytes_of(&name), members->arguments, status);
    else if (*status == ZT_OK && is_short(reply, members))
        step = zt_reply_add_call(reply, (zt_bytes){0}, bytes_of(members->key), members->only_value, status);
    else if (*status == ZT_OK)
        step = zt_reply_refuse(reply, members->twice ? "tool call: a member of the object is there twice"
                                                     : "tool call: the object has no name");
    zt_str_fini(&name);
    zt_str_fini(&id);
    return step;
}

static zt_status read_members(zt_reply *reply, zt_bytes object, call_members *members)
{
    zt_status status = zt_json_members(reply->ctx, "tool call", object.data, object.n, note_member, members);
    if (status == ZT_EDATA) {
        zt_ctx_clear(reply->ctx);
        status = ZT_OK;
        members->twice = true;
    }
    return status;
}

/* An object; the call may be inside of its member "function". */
static reply_step add_object(zt_reply *reply, zt_bytes object, zt_status *status)
{
    zt_str key;
    zt_str_init(&key, reply->ctx);
    call_members members = {.key = &key};
    *status = read_members(reply, object, &members);
    if (*status == ZT_OK && members.function.n && *members.function.data == '{' && !members.name.n && !members.twice) {
        zt_bytes inner = members.function, id = members.id;
        members = (call_members){.key = &key};
        *status = read_members(reply, inner, &members);
        if (!members.id.n) members.id = id;
    }
    reply_step step = *status == ZT_OK ? add_members(reply, &members, status) : STEP_WRONG;
    zt_str_fini(&key);
    return step;
}

typedef struct item_reading {
    zt_reply *reply;
    reply_step step;
} item_reading;

static zt_status read_item(void *user, int64_t index, const char *text, size_t size)
{
    item_reading *reading = user;
    zt_status status = ZT_OK;
    (void)index;
    if (reading->step != STEP_ON) return ZT_OK;
    if (*text == '{')
        reading->step = add_object(reading->reply, (zt_bytes){text, size}, &status);
    else
        reading->step = zt_reply_refuse(reading->reply, "tool call: an item of the list is not an object");
    return status;
}

reply_step zt_reply_read_json(zt_reply *reply, zt_bytes text, zt_status *status)
{
    item_reading reading = {.reply = reply, .step = STEP_ON};
    text = zt_reply_trimmed(text);
    const char *end = text.data + text.n;
    if (!text.n || zt_json_value_end(text.data, end, MOST_DEPTH) != end || !zt_utf8_valid(text.data, text.n))
        return zt_reply_refuse(reply, "tool call: not valid JSON");
    if (*text.data == '{') return add_object(reply, text, status);
    int before = reply->call_count;
    *status = zt_json_items(reply->ctx, "tool call", text.data, text.n, read_item, &reading);
    if (*status == ZT_OK && reading.step == STEP_ON && reply->call_count == before)
        return zt_reply_refuse(reply, "tool call: the list has no calls");
    return reading.step;
}

/* ---- a name, then the arguments -------------------------------------------------------------- */

static void drop_last(zt_bytes *text, const char *mark)
{
    size_t size = strlen(mark);
    if (text->n >= size && memcmp(text->data + text->n - size, mark, size) == 0) text->n -= size;
}

/* functions.get_weather:0 -> get_weather; Kimi writes the id of a call so. */
static void unwrap_id(zt_bytes *name)
{
    static const char prefix[] = "functions.";
    if (!zt_reply_skip(name, prefix)) return;
    const char *colon = memrchr(name->data, ':', name->n);
    if (colon) name->n = (size_t)(colon - name->data);
}

void zt_reply_named_parts(const call_form *form, zt_bytes header, zt_bytes *name_out, zt_bytes *id_out)
{
    zt_bytes name = zt_reply_trimmed(header), id = {0};
    drop_last(&name, "```json");
    name = zt_reply_trimmed(name);
    if (form->name_end) drop_last(&name, form->name_end);
    const char *gap = form->separator ? zt_reply_find(name, form->separator) : NULL;
    if (gap) {
        zt_bytes left = part_of(name.data, gap), right = part_of(gap + strlen(form->separator), name.data + name.n);
        bool first = form->name_first || !zt_reply_trimmed(right).n;
        name = first ? left : right;
        id = form->name_end ? first ? right : left : id; /* DeepSeek writes "function" on the left */
    }
    zt_bytes whole = name = zt_reply_trimmed(name);
    unwrap_id(&name);
    if (name.n < whole.n) id = whole;
    *name_out = name;
    *id_out = id;
}

reply_step zt_reply_read_named(zt_reply *reply, zt_bytes header, zt_bytes arguments, zt_status *status)
{
    zt_bytes name, id;
    zt_reply_named_parts(reply->form, header, &name, &id);
    return zt_reply_add_call(reply, id, name, arguments, status);
}
