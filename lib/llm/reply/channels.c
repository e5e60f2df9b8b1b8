/* channels.c - the replies of gpt-oss (harmony): a row of messages, each with a header.
 *
 *   <|channel|>analysis<|message|>reasoning<|end|><|start|>assistant<|channel|>final<|message|>content<|return|>
 *   <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{arguments}<|call|>
 *
 * The prompt ends with <|start|>assistant: the reply begins with the rest of a header.
 */
#include "lib/llm/reply/reply_internal.h"

#include <stdio.h>
#include <string.h>

static const char *const end_marks[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
enum { END_MARKS = sizeof end_marks / sizeof *end_marks, MOST_HEADER = 512 };

/* A message that calls a tool says to=functions.NAME. False: it has no recipient. */
static bool find_recipient(zt_reply *reply, zt_bytes header)
{
    const char *hit = zt_reply_find(header, "to=");
    if (!hit) return false;
    zt_bytes name = part_of(hit + 3, header.data + header.n);
    zt_reply_skip(&name, "functions.");
    size_t size = 0;
    while (size < name.n && !zt_reply_is_space(name.data[size]) && name.data[size] != '<') size++;
    snprintf(reply->recipient, sizeof reply->recipient, "%.*s", (int)(size < MOST_NAME ? size : MOST_NAME - 1), name.data);
    return true;
}

static void begin_message(zt_reply *reply, zt_bytes header)
{
    reply->channel = find_recipient(reply, header)       ? CHANNEL_CALL
                     : zt_reply_find(header, "analysis") ? CHANNEL_REASONING
                                                         : CHANNEL_CONTENT;
    reply->state = IN_MESSAGE;
    reply->drop_space = true;
    reply->scanned = 0;
    reply->scan = (bracket_scan){0};
}

/* Between messages: what separates their texts. */
static zt_status separate(zt_str *text) { return text->len ? zt_str_puts(text, "\n") : ZT_OK; }

/* Does the text begin like a header? STEP_MORE: it may yet. */
static reply_step looks_like_header(const zt_reply *reply, zt_bytes text)
{
    static const char *const words[] = {"<|channel|>", "<|start|>", "<|constrain|>", "<|message|>", "to="};
    zt_reply_skip_space(&text);
    bool partial = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (zt_reply_begins(text, words[i])) return STEP_ON;
        partial = partial || (text.n < strlen(words[i]) && memcmp(text.data, words[i], text.n) == 0);
    }
    return partial && (!reply->ended || !text.n) ? STEP_MORE : STEP_WRONG;
}

static reply_step step_header(zt_reply *reply, zt_status *status)
{
    static const char mark[] = "<|message|>";
    zt_bytes rest = zt_reply_rest(reply);
    reply_step looks = looks_like_header(reply, rest);
    const char *hit = looks == STEP_ON ? zt_reply_find(rest, mark) : NULL;
    if (hit && hit - rest.data <= MOST_HEADER) {
        begin_message(reply, part_of(rest.data, hit));
        reply->position += (size_t)(hit - rest.data) + strlen(mark);
        if (reply->channel == CHANNEL_REASONING) *status = separate(&reply->reasoning);
        if (reply->channel == CHANNEL_CONTENT) *status = separate(&reply->content);
        return STEP_ON;
    }
    bool header = looks != STEP_WRONG && rest.n < MOST_HEADER + sizeof mark;
    if (header && reply->ended) reply->position += rest.n; /* cut in the middle of a header: not content */
    if (header) return STEP_MORE;
    reply->channel = CHANNEL_CONTENT; /* text without a header */
    reply->state = IN_MESSAGE;
    reply->scanned = 0;
    if (looks == STEP_ON) *status = zt_reply_emit(reply, &reply->content, 1, true); /* too long: its mark is text as well */
    return STEP_ON;
}

static reply_step end_message(zt_reply *reply, size_t size, zt_status *status)
{
    zt_bytes text = zt_reply_rest(reply);
    text.n = size;
    reply->state = IN_HEADER;
    if (reply->channel != CHANNEL_CALL)
        *status = zt_reply_emit(reply, reply->channel == CHANNEL_REASONING ? &reply->reasoning : &reply->content, size, false);
    else if (!reply->tools || zt_reply_add_call(reply, (zt_bytes){0}, (zt_bytes){reply->recipient, strlen(reply->recipient)},
                                                text, status) == STEP_WRONG)
        *status = *status == ZT_OK ? zt_reply_emit(reply, &reply->content, size, true) : *status;
    else
        reply->position += size;
    return STEP_ON;
}

static reply_step step_message(zt_reply *reply, zt_status *status)
{
    zt_bytes rest = zt_reply_rest(reply);
    const char *hit = NULL;
    size_t mark_bytes = 0, held = 0;
    bool call = reply->channel == CHANNEL_CALL;
    if (call && !reply->scan.failed && !reply->ended) { /* marks in the arguments' texts mean nothing */
        reply_step scanned = zt_reply_scan_value(&reply->scan, rest);
        if (scanned == STEP_MORE && rest.n <= MOST_CALL) return STEP_MORE;
        reply->scan.failed = true;
        reply->scanned = scanned == STEP_ON ? reply->scan.offset : 0;
    }
    if (reply->scanned > rest.n) reply->scanned = 0;
    zt_bytes unseen = {rest.data + reply->scanned, rest.n - reply->scanned};
    for (int i = 0; i < END_MARKS; i++) {
        const char *found = zt_reply_find(unseen, end_marks[i]);
        size_t partial = zt_reply_partial(rest, end_marks[i]);
        held = partial > held ? partial : held;
        if (!found || (hit && found > hit)) continue;
        hit = found;
        mark_bytes = i == END_MARKS - 1 ? 0 : strlen(end_marks[i]); /* <|start|> begins the next header */
    }
    if (hit || reply->ended) {
        reply->scanned = 0;
        if (!hit && !rest.n && !call) return STEP_MORE;
        reply_step step = end_message(reply, hit ? (size_t)(hit - rest.data) : rest.n, status);
        reply->position += mark_bytes;
        return hit ? step : STEP_MORE;
    }
    if (call && rest.n <= MOST_CALL) {
        reply->scanned = rest.n - held;
        return STEP_MORE;
    }
    if (call) {
        zt_reply_refuse(reply, "tool call: longer than %d bytes", MOST_CALL);
        reply->channel = CHANNEL_CONTENT;
        return STEP_ON;
    }
    *status =
        zt_reply_emit(reply, reply->channel == CHANNEL_REASONING ? &reply->reasoning : &reply->content, rest.n - held, false);
    return STEP_MORE;
}

/* ---- the grammar of a reply ----------------------------------------------------------------------- */

typedef struct channel_rules { /* of a header, and of a message that is not a call; of a call from to= on */
    int header, message, last_header, last_message, call;
} channel_rules;

static gexpr *put_mark(gbuilder *builder, const char *text) { return zt_g_mark(builder, text, strlen(text)); }

/* A header and the message behind it; `call`: where "to=" leads, NULL: it does not come. */
static bool define_message(gbuilder *builder, int header, int message, gexpr *call)
{
    gexpr *next = zt_g_call(builder, header);
    gmark in_header[] = {{.text = "to=", .then = call}, {.text = "<|message|>", .then = zt_g_call(builder, message)}};
    gmark in_message[END_MARKS];
    for (int i = 0; i < END_MARKS; i++) in_message[i] = (gmark){.text = end_marks[i], .then = next};
    return zt_g_define(builder, header, zt_g_scan(builder, &(gscan){.mark = in_header, .count = 2, .may_end = true})) &&
           zt_g_define(builder, message, zt_g_scan(builder, &(gscan){.mark = in_message, .count = END_MARKS, .may_end = true}));
}

/* Behind to=: functions.NAME, the rest of the header, and the arguments. */
static gexpr *read_channel_call(gbuilder *builder, const zt_reply_hold *hold)
{
    gexpr *space = zt_g_optional(builder, zt_g_literal(builder, " ")), *choice = zt_g_list(builder, G_CHOICE);
    gexpr *commentary = zt_g_optional(builder, ZT_G_SEQUENCE(builder, space, put_mark(builder, "<|channel|>commentary")));
    gexpr *constrain = zt_g_optional(builder, put_mark(builder, "<|constrain|>"));
    gexpr *json = zt_g_optional(
        builder,
        ZT_G_CHOICE(builder, ZT_G_SEQUENCE(builder, zt_g_literal(builder, " "), constrain, zt_g_literal(builder, "json")),
                    put_mark(builder, "<|constrain|>json")));
    gexpr *rest = zt_g_as_rule(builder, ZT_G_SEQUENCE(builder, commentary, json, put_mark(builder, "<|message|>")));
    for (size_t i = 0; choice && i < json_array_size(hold->tools); i++) {
        const json_t *tool = json_array_get(hold->tools, i);
        const char *name = json_string_value(json_object_get(zt_reply_function(tool), "name"));
        if (!zt_reply_may_call(hold, tool)) continue;
        gexpr *arguments = zt_reply_call_arguments(builder, hold, tool);
        choice = zt_g_add(builder, choice, ZT_G_SEQUENCE(builder, zt_g_literal(builder, name), rest, arguments));
    }
    return ZT_G_SEQUENCE(builder, zt_g_literal(builder, "functions."), choice);
}

/* A reply that calls after its analysis at most; or that is the content which the reply is held to. */
static gexpr *require_channel_call(gbuilder *builder, const channel_rules *rules, const zt_reply_hold *hold)
{
    int reply = zt_g_rule(builder, "reply", 5);
    gexpr *again = reply < 0 ? NULL : ZT_G_SEQUENCE(builder, put_mark(builder, "<|start|>assistant"), zt_g_call(builder, reply));
    gmark end = {.text = "<|end|>", .then = zt_g_as_rule(builder, again)};
    gexpr *analysis = ZT_G_SEQUENCE(builder, put_mark(builder, "<|channel|>analysis<|message|>"),
                                    zt_g_scan(builder, &(gscan){.mark = &end, .count = 1}));
    gexpr *to = ZT_G_CHOICE(builder, put_mark(builder, "<|channel|>commentary to="), put_mark(builder, " to="));
    gexpr *call = ZT_G_SEQUENCE(builder, to, zt_g_call(builder, rules->call));
    if (hold->content && !hold->required) /* or the answer */
        call = ZT_G_CHOICE(
            builder, call,
            ZT_G_SEQUENCE(builder, put_mark(builder, "<|channel|>final<|message|>"), zt_g_parts(builder, hold->content, 1)));
    return zt_g_define(builder, reply, ZT_G_CHOICE(builder, analysis, call)) ? zt_g_call(builder, reply) : NULL;
}

gexpr *zt_reply_hold_channels(gbuilder *builder, const zt_reply_hold *hold)
{
    channel_rules rules;
    int *const all[] = {&rules.header, &rules.message, &rules.last_header, &rules.last_message, &rules.call};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if ((*all[i] = zt_g_rule(builder, "message", 7)) < 0) return NULL;
    gexpr *further = zt_g_call(builder, hold->one ? rules.last_header : rules.header);
    gexpr *ends = ZT_G_CHOICE(builder, put_mark(builder, "<|call|>"), put_mark(builder, "<|end|>"));
    gexpr *call =
        ZT_G_SEQUENCE(builder, read_channel_call(builder, hold),
                      hold->content ? zt_g_literal(builder, "") : zt_g_optional(builder, ZT_G_SEQUENCE(builder, ends, further)));
    if (!zt_g_define(builder, rules.call, call) ||
        !define_message(builder, rules.header, rules.message, zt_g_call(builder, rules.call)) ||
        !define_message(builder, rules.last_header, rules.last_message, NULL))
        return NULL;
    return hold->required || hold->content ? require_channel_call(builder, &rules, hold) : zt_g_call(builder, rules.header);
}

/* ---- a step --------------------------------------------------------------------------------------- */

reply_step zt_reply_step_channels(zt_reply *reply, zt_status *status)
{
    return reply->state == IN_HEADER ? step_header(reply, status) : step_message(reply, status);
}
