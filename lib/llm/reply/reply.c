/* reply.c - takes a generated text apart while it grows. A step decides the beginning of the pending text, or says
 * that it needs more of it:
 *
 *   IN_CONTENT    up to the mark of the reasoning or of a call; what may yet become a mark is held back
 *   IN_REASONING  up to the mark that ends it
 *   IN_CALL       a whole call, or a list of calls in one text. If it is not one, the text is content
 *   AFTER_CALL    white space and marks up to the next call or to text
 *
 * A model that writes no marks begins its reply with the call itself (form->begin is NULL). Each byte is looked at a
 * bounded number of times: the text of a call that is not one is never looked at again.
 */
#include "lib/base/require.h"
#include "lib/llm/reply/reply_internal.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_SPACE = 256, /* bytes of white space that are held back */
    MOST_PIECE = 4096 /* bytes that are looked at together: a step may look at all of them */
};

/* ---- pending text ---------------------------------------------------------------------------- */

zt_bytes zt_reply_rest(const zt_reply *reply)
{
    const char *data = reply->pending.data ? reply->pending.data : "";
    return (zt_bytes){data + reply->position, reply->pending.len - reply->position};
}

zt_status zt_reply_emit(zt_reply *reply, zt_str *to, size_t size, bool all)
{
    zt_status status = ZT_OK;
    size_t end = reply->position + size;
    for (size_t run = reply->position; status == ZT_OK && run < end; reply->position = run) {
        bool shown = all || !reply->hidden.data[run];
        while (run < end && (all || !reply->hidden.data[run]) == shown) run++;
        const char *text = reply->pending.data + reply->position;
        size_t count = run - reply->position;
        while (shown && reply->drop_space && count && zt_reply_is_space(*text)) text++, count--;
        if (!shown || !count) continue;
        reply->drop_space = false;
        status = zt_str_put(to, text, count);
    }
    return status;
}

size_t zt_reply_partial(zt_bytes text, const char *mark)
{
    size_t size = strlen(mark), most = size - 1 < text.n ? size - 1 : text.n;
    for (; most > 0; most--)
        if (memcmp(text.data + text.n - most, mark, most) == 0) return most;
    return 0;
}

size_t zt_reply_solid(zt_bytes text)
{
    size_t solid = text.n;
    while (solid && zt_reply_is_space(text.data[solid - 1])) solid--;
    return text.n - solid > MOST_SPACE ? text.n : solid;
}

/* Moves on by bytes that mean nothing. */
static void skip_bytes(zt_reply *reply, size_t size) { reply->position += size; }

/* ---- content --------------------------------------------------------------------------------- */

static bool is_blank(const zt_str *text)
{
    size_t i = 0;
    while (i < text->len && i <= MOST_SPACE && zt_reply_is_space(text->data[i])) i++;
    return i == text->len;
}

/* A mark that is looked for in content, and what it begins. */
typedef struct content_mark {
    const char *text;
    reply_state next; /* IN_CONTENT: nothing, it is dropped */
} content_mark;

enum { MARKS = 8 };

static size_t list_marks(const zt_reply *reply, content_mark marks[MARKS])
{
    size_t count = 0;
    const call_form *form = reply->no_more_calls ? NULL : reply->form;
    if (reply->thinks && is_blank(&reply->content) && !reply->call_count)
        marks[count++] = (content_mark){reply->thinks->begin, IN_REASONING};
    for (size_t i = 0; reply->thinks && i < 3 && reply->thinks->around[i]; i++)
        marks[count++] = (content_mark){reply->thinks->around[i], IN_CONTENT};
    if (!form || !form->begin) return count;
    marks[count++] = (content_mark){form->begin, IN_CALL};
    for (size_t i = 0; i < 3 && form->between[i]; i++) marks[count++] = (content_mark){form->between[i], IN_CONTENT};
    return count;
}

static void begin_call(zt_reply *reply, size_t mark_bytes)
{
    reply->state = IN_CALL;
    reply->body = mark_bytes;
    reply->scanned = reply->value = 0;
    reply->scan = (bracket_scan){0};
}

static zt_status pass_mark(zt_reply *reply, content_mark mark)
{
    if (mark.next == IN_CALL) {
        begin_call(reply, strlen(mark.text));
        return ZT_OK;
    }
    reply->state = mark.next;
    reply->drop_space = true;
    skip_bytes(reply, strlen(mark.text));
    return ZT_OK;
}

/* Is the text the beginning of one of the marks, but not all of it? */
static bool may_become(const zt_reply *reply, zt_bytes text, const char *const *marks, size_t count)
{
    for (size_t i = 0; i < count && marks[i] && !reply->ended; i++)
        if (text.n < strlen(marks[i]) && memcmp(text.data, marks[i], text.n) == 0) return true;
    return false;
}

static bool is_beginning(zt_bytes text, zt_bytes whole)
{
    return text.n < whole.n && (text.n == 0 || memcmp(text.data, whole.data, text.n) == 0);
}

/* Does a reply that is held to a grammar begin as the calls of the grammar do: {"name", or [NAME( with the name of a tool? */
static reply_step begins_held(const zt_reply *reply, zt_bytes text)
{
    bool json = reply->form->body == BODY_JSON, more = false;
    if (!zt_reply_skip(&text, json ? "{" : "[")) return STEP_WRONG;
    zt_reply_skip_space(&text);
    for (size_t i = 0; i < (json ? 1 : json_array_size(reply->tools)); i++) {
        char whole[MOST_NAME];
        const char *name = json_string_value(json_object_get(zt_reply_function(json_array_get(reply->tools, i)), "name"));
        snprintf(whole, sizeof whole, json ? "\"name\"" : "%s(", name ? name : "");
        if (zt_reply_begins(text, whole)) return STEP_ON;
        more = more || is_beginning(text, (zt_bytes){whole, strlen(whole)});
    }
    return more && !reply->ended ? STEP_MORE : STEP_WRONG;
}

/* A reply that is the call itself: does it begin like one? */
static reply_step try_bare_call(zt_reply *reply)
{
    const call_form *form = reply->form;
    zt_bytes rest = zt_reply_rest(reply), all = rest;
    for (bool skipped = true; skipped;) {
        skipped = false;
        zt_reply_skip_space(&rest);
        if (all.n <= MOST_SPACE && may_become(reply, rest, form->between, 3)) return STEP_MORE;
        for (size_t i = 0; i < 3 && form->between[i] && !skipped; i++) skipped = zt_reply_skip(&rest, form->between[i]);
    }
    bool opens = rest.n && (*rest.data == '[' || (*rest.data == '{' && form->body == BODY_JSON));
    reply_step held = opens && reply->held ? begins_held(reply, rest) : STEP_ON;
    if (held == STEP_MORE && all.n <= MOST_SPACE + MOST_NAME) return STEP_MORE;
    if (opens && held == STEP_ON)
        begin_call(reply, (size_t)(rest.data - all.data));
    else
        reply->no_more_calls = true;
    return STEP_ON;
}

static reply_step step_content(zt_reply *reply, zt_status *status)
{
    content_mark marks[MARKS], first = {0};
    zt_bytes rest = zt_reply_rest(reply);
    size_t count = list_marks(reply, marks), held = 0;
    const char *hit = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *found = zt_reply_find(rest, marks[i].text);
        bool first_text = !found || marks[i].next != IN_REASONING || !zt_reply_trimmed(part_of(rest.data, found)).n;
        if (found && first_text && (!hit || found < hit)) {
            hit = found;
            first = marks[i];
        }
        size_t partial = zt_reply_partial(rest, marks[i].text);
        held = partial > held ? partial : held;
    }
    if (hit) {
        zt_bytes before = part_of(rest.data, hit);
        *status = zt_reply_emit(reply, &reply->content, zt_reply_solid(before), false);
        reply->position += before.n - zt_reply_solid(before);
        if (*status == ZT_OK) *status = pass_mark(reply, first);
        return STEP_ON;
    }
    if (rest.n && held < rest.n && reply->form && !reply->form->begin && !reply->no_more_calls && is_blank(&reply->content))
        return try_bare_call(reply);
    rest.n -= reply->ended ? 0 : held;
    size_t size = reply->ended || !count ? rest.n : zt_reply_solid(rest);
    if (size) *status = zt_reply_emit(reply, &reply->content, size, false);
    return STEP_MORE;
}

/* ---- reasoning ------------------------------------------------------------------------------- */

static reply_step step_reasoning(zt_reply *reply, zt_status *status)
{
    zt_bytes rest = zt_reply_rest(reply);
    const char *mark = reply->thinks->end, *hit = zt_reply_find(rest, mark);
    if (!hit) {
        rest.n -= reply->ended ? 0 : zt_reply_partial(rest, mark);
        *status = zt_reply_emit(reply, &reply->reasoning, zt_reply_solid(rest), false);
        return STEP_MORE;
    }
    zt_bytes before = part_of(rest.data, hit);
    size_t solid = zt_reply_solid(before);
    *status = zt_reply_emit(reply, &reply->reasoning, solid, false);
    reply->position += before.n - solid + strlen(mark);
    reply->state = IN_CONTENT;
    reply->drop_space = true;
    return STEP_ON;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* The text of a call, and its size with what ends it; the reader of it. */
typedef struct call_extent {
    zt_bytes text;   /* where it is JSON or between marks; where there is a name, the arguments */
    zt_bytes header; /* the name and what is around it */
    size_t size;     /* from `body` on */
} call_extent;

/* JSON: it ends where its brackets close. */
static reply_step find_json(zt_reply *reply, zt_bytes text, call_extent *extent)
{
    reply_step step = zt_reply_scan_value(&reply->scan, text);
    if (step == STEP_ON) extent->text = (zt_bytes){text.data, reply->scan.offset};
    extent->size = reply->scan.offset;
    return step;
}

/* A name, and then JSON; or JSON at once. */
static reply_step find_named(zt_reply *reply, zt_bytes text, call_extent *extent)
{
    zt_bytes trimmed = text;
    zt_reply_skip_space(&trimmed);
    if (!trimmed.n) return text.n > MOST_NAME ? STEP_WRONG : STEP_MORE;
    if (*trimmed.data == '[' || *trimmed.data == '{') return find_json(reply, text, extent);
    if (!reply->value) {
        size_t most = text.n < MOST_NAME ? text.n : MOST_NAME;
        const char *brace = memchr(text.data, '{', most);
        if (!brace) return most == MOST_NAME ? STEP_WRONG : STEP_MORE;
        reply->value = (size_t)(brace - text.data);
    }
    zt_bytes arguments = {text.data + reply->value, text.n - reply->value};
    reply_step step = find_json(reply, arguments, extent);
    extent->header = (zt_bytes){text.data, reply->value};
    extent->size += reply->value;
    return step;
}

/* Follows the texts in quotes from scan->offset on, up to a mark that is in none of them. NULL: it is not there yet. A text
 * in Python's quotes, or between two marks `quote`. */
static const char *find_unquoted(bracket_scan *scan, zt_bytes text, const char *mark, const char *quote)
{
    size_t mark_size = strlen(mark), quote_size = quote ? strlen(quote) : 1;
    size_t longest = mark_size > quote_size ? mark_size : quote_size;
    for (; scan->offset + longest <= text.n; scan->offset++) {
        zt_bytes rest = {text.data + scan->offset, text.n - scan->offset};
        char byte = *rest.data;
        bool quoted = scan->string;
        if (quote && zt_reply_begins(rest, quote)) {
            scan->string = !scan->string;
            scan->offset += quote_size - 1;
        } else if (!quote && quoted && !scan->escaped && byte == '\\') {
            scan->escaped = true;
            continue;
        } else if (!quote && !quoted && (byte == '"' || byte == '\'')) {
            scan->string = true;
            scan->quote = byte;
        } else if (!quote && quoted && !scan->escaped && byte == scan->quote) {
            scan->string = false;
        } else if (!quoted && zt_reply_begins(rest, mark)) {
            return rest.data;
        }
        scan->escaped = false;
    }
    return NULL;
}

/* Text up to the mark that ends the call, or to the end of the reply. */
static reply_step find_marked(zt_reply *reply, zt_bytes text, call_extent *extent)
{
    const char *mark = reply->form->end;
    zt_bytes unseen = {text.data + reply->scanned, text.n - reply->scanned};
    const char *hit = NULL;
    if (mark && reply->form->body == BODY_TAGS) {
        hit = zt_reply_find(unseen, mark);
        reply->scanned = text.n >= strlen(mark) ? text.n - strlen(mark) + 1 : 0;
    } else if (mark) {
        hit = find_unquoted(&reply->scan, text, mark, reply->form->quote);
        if (!hit && reply->ended) hit = zt_reply_find(text, mark); /* a quote that is not closed */
    }
    if (!hit && !reply->ended) return STEP_MORE;
    extent->text = hit ? part_of(text.data, hit) : text;
    extent->size = extent->text.n + (hit ? strlen(mark) : 0);
    return STEP_ON;
}

static reply_step find_call(zt_reply *reply, zt_bytes text, call_extent *extent)
{
    switch (reply->form->body) {
    case BODY_JSON: return find_json(reply, text, extent);
    case BODY_NAMED: return find_named(reply, text, extent);
    case BODY_TAGS:
    case BODY_PYTHON:
    case BODY_PAIRS: break;
    }
    return find_marked(reply, text, extent);
}

static reply_step read_call(zt_reply *reply, const call_extent *extent, zt_status *status)
{
    switch (reply->form->body) {
    case BODY_NAMED:
        if (extent->header.n) return zt_reply_read_named(reply, extent->header, extent->text, status);
        break;
    case BODY_TAGS: return zt_reply_read_tags(reply, extent->text, status);
    case BODY_PYTHON: return zt_reply_read_python(reply, extent->text, status);
    case BODY_PAIRS: return zt_reply_read_pairs(reply, extent->text, status);
    case BODY_JSON: break;
    }
    return zt_reply_read_json(reply, extent->text, status);
}

/* The text is content: its first `size` bytes after the mark, and the mark. */
static zt_status keep_as_content(zt_reply *reply, size_t size)
{
    reply->state = IN_CONTENT;
    return zt_reply_emit(reply, &reply->content, reply->body + size, true);
}

static reply_step step_call(zt_reply *reply, zt_status *status)
{
    zt_bytes text = zt_reply_rest(reply);
    call_extent extent = {0};
    int calls = reply->call_count;
    const char *fault = reply->fault;
    text.data += reply->body;
    text.n -= reply->body;
    reply_step step = find_call(reply, text, &extent);
    if (step == STEP_MORE && !reply->ended && text.n <= MOST_CALL) return STEP_MORE;
    if (step == STEP_MORE) {
        reply->no_more_calls = true;
        zt_reply_refuse(reply, text.n > MOST_CALL ? "tool call: longer than %d bytes" : "tool call: it is not complete",
                        MOST_CALL);
        extent.size = text.n;
    } else if (step == STEP_WRONG) {
        zt_reply_refuse(reply, "tool call: neither a name nor JSON follows the mark");
    } else {
        step = read_call(reply, &extent, status);
    }
    if (*status != ZT_OK) return STEP_MORE;
    if (step == STEP_ON) {
        reply->state = AFTER_CALL;
        skip_bytes(reply, reply->body + extent.size);
        return STEP_ON;
    }
    reply->call_count = calls;
    if (!reply->form->begin) { /* an answer in JSON is not a call */
        reply->fault = fault;
        reply->no_more_calls = true;
    }
    *status = keep_as_content(reply, extent.size);
    return STEP_ON;
}

/* Marks that may come after a call and mean nothing. */
static size_t list_after(const call_form *form, const char *marks[8])
{
    size_t count = 0;
    bool json = form->body == BODY_JSON || form->body == BODY_NAMED;
    if (json && form->end) marks[count++] = form->end;
    if (form->body == BODY_NAMED) marks[count++] = "```"; /* DeepSeek writes arguments between fences */
    if (form->body == BODY_JSON && form->separator) marks[count++] = form->separator;
    for (size_t i = 0; i < 3 && form->between[i]; i++) marks[count++] = form->between[i];
    return count;
}

static reply_step step_after_call(zt_reply *reply, zt_status *status)
{
    const call_form *form = reply->form;
    const char *marks[8];
    size_t count = list_after(form, marks);
    zt_bytes rest = zt_reply_rest(reply);
    (void)status;
    zt_reply_skip_space(&rest);
    reply->position = reply->pending.len - rest.n;
    if (!rest.n || may_become(reply, rest, marks, count) || may_become(reply, rest, &form->begin, 1)) return STEP_MORE;
    for (size_t i = 0; i < count; i++)
        if (zt_reply_skip(&rest, marks[i])) {
            skip_bytes(reply, strlen(marks[i]));
            return STEP_ON;
        }
    if (form->begin && zt_reply_begins(rest, form->begin))
        begin_call(reply, strlen(form->begin));
    else if ((!form->begin || form->repeats) && (*rest.data == '{' || *rest.data == '['))
        begin_call(reply, 0);
    else
        reply->state = IN_CONTENT;
    return STEP_ON;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static zt_status run_steps(zt_reply *reply)
{
    zt_status status = ZT_OK;
    reply_step step;
    do {
        switch (reply->state) {
        case IN_CONTENT: step = step_content(reply, &status); break;
        case IN_REASONING: step = step_reasoning(reply, &status); break;
        case IN_CALL: step = step_call(reply, &status); break;
        case AFTER_CALL: step = step_after_call(reply, &status); break;
        default: step = zt_reply_step_channels(reply, &status); break;
        }
    } while (step != STEP_MORE && status == ZT_OK);
    if (reply->position == 0 || !reply->pending.len) return status;
    reply->pending.len -= reply->position;
    reply->hidden.len = reply->pending.len;
    memmove(reply->pending.data, reply->pending.data + reply->position, reply->pending.len);
    memmove(reply->hidden.data, reply->hidden.data + reply->position, reply->hidden.len);
    reply->position = 0;
    return status;
}

bool zt_reply_opens(const reasoning_form *thinks, zt_bytes prompt)
{
    size_t size = thinks ? strlen(thinks->begin) : 0;
    while (prompt.n && zt_reply_is_space(prompt.data[prompt.n - 1])) prompt.n--;
    return size && prompt.n >= size && memcmp(prompt.data + prompt.n - size, thinks->begin, size) == 0;
}

zt_reply *zt_reply_new(zt_ctx *ctx, const zt_reply_opts *opts)
{
    ZT_REQUIRE(ctx, opts, NULL);
    zt_reply *reply = zt_calloc(ctx, 1, sizeof *reply);
    if (!reply) return NULL;
    reply->ctx = ctx;
    zt_str *const texts[] = {&reply->pending, &reply->hidden, &reply->content, &reply->reasoning, &reply->open.text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) zt_str_init(texts[i], ctx);
    reply->arena = zt_arena_new(ctx, 0);
    if (!reply->arena) {
        zt_reply_free(reply);
        return NULL;
    }
    if (!opts->template_text.n) return reply;
    reply->tools = opts->tools;
    reply->held = opts->held;
    reply->channels = zt_reply_has_channels(opts->template_text);
    reply->state = reply->channels ? IN_HEADER : IN_CONTENT;
    if (reply->channels) return reply;
    reply->thinks = zt_reply_find_reasoning(opts->template_text);
    reply->form = opts->tools ? zt_reply_find_form(opts->template_text) : NULL;
    if (opts->tools && !reply->form) zt_reply_refuse(reply, "the chat template's form of tool calls is unknown");
    if (zt_reply_opens(reply->thinks, opts->prompt)) reply->state = IN_REASONING;
    reply->drop_space = reply->state == IN_REASONING;
    return reply;
}

void zt_reply_free(zt_reply *reply)
{
    if (!reply) return;
    zt_str *const texts[] = {&reply->pending, &reply->hidden, &reply->content, &reply->reasoning, &reply->open.text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) zt_str_fini(texts[i]);
    zt_arena_free(reply->arena);
    zt_free(reply->ctx, reply->calls);
    zt_free(reply->ctx, reply);
}

static zt_status put_piece(zt_reply *reply, const char *text, size_t size, bool hidden)
{
    zt_status status = zt_str_put(&reply->pending, text, size);
    while (status == ZT_OK && reply->hidden.len < reply->pending.len) status = zt_str_putc(&reply->hidden, hidden);
    if (status == ZT_OK) status = run_steps(reply);
    return status == ZT_OK ? zt_reply_follow_call(reply) : status;
}

zt_status zt_reply_put(zt_reply *reply, const char *text, size_t size, bool hidden)
{
    if (!reply) return ZT_EUSAGE;
    ZT_REQUIRE(reply->ctx, (text || !size) && !reply->ended, ZT_EUSAGE);
    zt_status status = ZT_OK;
    for (size_t at = 0, count; status == ZT_OK && at < size; at += count) {
        count = size - at < MOST_PIECE ? size - at : MOST_PIECE;
        status = put_piece(reply, text + at, count, hidden);
    }
    return status;
}

zt_status zt_reply_end(zt_reply *reply)
{
    if (!reply) return ZT_EUSAGE;
    if (reply->ended) return ZT_OK;
    reply->ended = true;
    zt_status status = run_steps(reply);
    return status == ZT_OK ? zt_reply_follow_call(reply) : status;
}

static zt_bytes bytes_of(const zt_str *text) { return (zt_bytes){text->len ? text->data : "", text->len}; }

zt_bytes zt_reply_content(const zt_reply *reply) { return reply ? bytes_of(&reply->content) : (zt_bytes){"", 0}; }

zt_bytes zt_reply_reasoning(const zt_reply *reply) { return reply ? bytes_of(&reply->reasoning) : (zt_bytes){"", 0}; }

int zt_reply_call_count(const zt_reply *reply) { return reply ? reply->call_count : 0; }

const zt_tool_call *zt_reply_call(const zt_reply *reply, int index)
{
    return reply && index >= 0 && index < reply->call_count ? &reply->calls[index] : NULL;
}

const char *zt_reply_fault(const zt_reply *reply) { return reply ? reply->fault : NULL; }
