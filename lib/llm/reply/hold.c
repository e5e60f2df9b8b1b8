/* hold.c - the grammar of a reply that may call tools, or must: text as it comes, up to the mark that begins a call; then a call in
 * the form of the template, whose name is one of the tools' and whose arguments are valid by that tool's schema; then text
 * again, or another call. Reasoning before it is text in which nothing is a call.
 *
 * It says the same as the parser of replies (reply.c): where that one sees a call, there is one here.
 */
#include "lib/base/require.h"
#include "lib/llm/reply/reply_internal.h"

#include <stdio.h>
#include <string.h>

enum { ID_LETTERS = 9, MOST_TOOL_NAME = 128, MOST_BLANKS = 4 };

typedef struct hold_work {
    gbuilder *builder;
    const zt_reply_hold *hold;
    const call_form *form;
    const call_writing *writing;
    const reasoning_form *thinks;
    int calls;      /* the rule of the calls from the mark that begins them on, and what follows */
    int first_text; /* the rule of the reply's text, where it is not held to a call */
    int begun_text; /* the same behind its first letter */
    int again;      /* with content: the rule of all calls */
} hold_work;

/* ---- tools --------------------------------------------------------------------------------------- */

static const char *tool_name(const json_t *tools, size_t index)
{
    return json_string_value(json_object_get(zt_reply_function(json_array_get(tools, index)), "name"));
}

/* May the tool be called? */
static bool is_allowed(const zt_reply_hold *hold, const char *name)
{
    for (size_t i = 0; i < hold->only_count; i++)
        if (strcmp(hold->only[i], name) == 0) return true;
    return hold->only_count == 0;
}

/* Names that every form can write, and none of them twice. */
static bool check_names(gbuilder *builder, const zt_reply_hold *hold)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    char shown[80];
    for (size_t i = 0; i < json_array_size(hold->tools); i++) {
        const char *name = tool_name(hold->tools, i);
        size_t size = name ? strlen(name) : 0;
        if (!name) return zt_g_fail(builder, "tool %zu has no name", i), false;
        zt_escape(shown, sizeof shown, name, size);
        if (size == 0 || size > MOST_TOOL_NAME || strspn(name, letters) != size)
            return zt_g_fail(builder, "'%s' is not a name of 1 to %d letters, digits, _, . and -", shown, MOST_TOOL_NAME), false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, tool_name(hold->tools, k)) == 0)
                return zt_g_fail(builder, "two tools are called '%s'", shown), false;
    }
    return true;
}

/* The schema of a tool's arguments; of a tool without parameters, of no arguments. Belongs to the caller. */
static json_t *schema_of(const json_t *tool)
{
    json_t *parameters = json_object_get(zt_reply_function(tool), "parameters");
    if (parameters && !json_is_null(parameters)) return json_incref(parameters);
    return json_pack("{s:s,s:{}}", "type", "object", "properties");
}

static gexpr *read_arguments(hold_work *work, const json_t *tool)
{
    char name[200];
    garguments form;
    const char *tool_text = json_string_value(json_object_get(zt_reply_function(tool), "name"));
    snprintf(name, sizeof name, "tools: %s: parameters", tool_text);
    zt_g_name(work->builder, name);
    const bool written = work->form && work->form->arguments;
    if (written) {
        form = *work->form->arguments;
        form.never = work->form->end;
    }
    json_t *schema = schema_of(tool);
    gexpr *expr = zt_g_arguments(work->builder, schema, written ? &form : NULL);
    json_decref(schema);
    zt_g_name(work->builder, "tools");
    return expr;
}

/* ---- the texts of a call_writing ------------------------------------------------------------------ */

static gexpr *letters(gbuilder *builder, size_t count)
{
    gexpr *letter =
        ZT_G_CHOICE(builder, zt_g_range(builder, '0', '9'), zt_g_range(builder, 'A', 'Z'), zt_g_range(builder, 'a', 'z'));
    return zt_g_repeat(builder, letter, (int64_t)count, (int64_t)count);
}

/* A number of up to two digits. */
static gexpr *small_number(gbuilder *builder)
{
    gexpr *digit = zt_g_range(builder, '0', '9');
    return ZT_G_CHOICE(builder, digit, ZT_G_SEQUENCE(builder, zt_g_range(builder, '1', '9'), digit));
}

/* A part of a text without %a; `tool` NULL: without %n. */
static gexpr *read_writing(gbuilder *builder, zt_bytes text, const json_t *tool, gexpr *arguments)
{
    gexpr *list = zt_g_list(builder, G_SEQUENCE);
    for (size_t at = 0; list && at < text.n;) {
        size_t size = 0;
        gexpr *part = NULL;
        while (at + size < text.n && text.data[at + size] != '~' && text.data[at + size] != '%') size++;
        if (size) {
            part = zt_g_mark(builder, text.data + at, size);
        } else if (text.data[at] == '~') {
            part = zt_g_gap(builder);
            size = 1;
        } else {
            char kind = at + 1 < text.n ? text.data[at + 1] : 0;
            const char *name = json_string_value(json_object_get(zt_reply_function(tool), "name"));
            part = kind == 'a'           ? arguments
                   : kind == 'n' && name ? zt_g_literal(builder, name)
                   : kind == 'i'         ? letters(builder, ID_LETTERS)
                                         : small_number(builder);
            size = 2;
        }
        list = zt_g_add(builder, list, part);
        at += size;
    }
    return list;
}

static zt_bytes bytes_of(const char *text) { return (zt_bytes){text ? text : "", text ? strlen(text) : 0}; }

/* The offset of the name or the arguments, whichever comes first, and that behind the other. */
static void find_tool_part(zt_bytes text, size_t *first, size_t *end)
{
    *first = text.n;
    *end = 0;
    for (size_t at = 0; at + 1 < text.n; at++) {
        if (text.data[at] != '%' || (text.data[at + 1] != 'n' && text.data[at + 1] != 'a')) continue;
        if (*first == text.n) *first = at;
        *end = at + 2;
    }
}

/* A call behind the first `skip` bytes of its text, without the end mark: what tools have in common is written once. */
static gexpr *read_call(hold_work *work, zt_bytes text)
{
    gbuilder *builder = work->builder;
    size_t first, end;
    find_tool_part(text, &first, &end);
    gexpr *choice = zt_g_list(builder, G_CHOICE);
    for (size_t i = 0; choice && i < json_array_size(work->hold->tools); i++) {
        const json_t *tool = json_array_get(work->hold->tools, i);
        if (!is_allowed(work->hold, tool_name(work->hold->tools, i))) continue;
        gexpr *arguments = read_arguments(work, tool);
        zt_bytes own = {text.data + first, end - first};
        choice = arguments ? zt_g_add(builder, choice, read_writing(builder, own, tool, arguments)) : NULL;
    }
    return ZT_G_SEQUENCE(builder, read_writing(builder, (zt_bytes){text.data, first}, NULL, NULL), zt_g_as_rule(builder, choice),
                         read_writing(builder, (zt_bytes){text.data + end, text.n - end}, NULL, NULL));
}

/* Cuts the mark that ends a call from the end of the text: it may be a token that ends the generation. */
static bool cut_end(const hold_work *work, zt_bytes *text)
{
    size_t size = work->form->end ? strlen(work->form->end) : 0;
    if (!size || text->n < size || memcmp(text->data + text->n - size, work->form->end, size) != 0) return false;
    text->n -= size;
    if (text->n && text->data[text->n - 1] == '~') text->n--;
    return true;
}

/* What follows the calls: the mark that ends them, and `after`; or, in place of both, the end of the text. */
static gexpr *end_calls(hold_work *work, bool cut, gexpr *after)
{
    gbuilder *builder = work->builder;
    if (!cut) return after;
    const char *end = work->form->end;
    return zt_g_optional(builder, ZT_G_SEQUENCE(builder, zt_g_gap(builder), zt_g_mark(builder, end, strlen(end)), after));
}

/* ---- calls ----------------------------------------------------------------------------------------- */

static gexpr *blanks(gbuilder *builder)
{
    gexpr *blank = ZT_G_CHOICE(builder, zt_g_literal(builder, " "), zt_g_literal(builder, "\n"));
    return zt_g_repeat(builder, blank, 0, MOST_BLANKS);
}

/* A text behind the last call: without another one, and of a form without marks only white space. */
static gexpr *last_text(hold_work *work)
{
    gbuilder *builder = work->builder;
    gmark never = {.text = work->form->begin};
    if (work->form->begin)
        return zt_g_as_rule(builder, zt_g_scan(builder, &(gscan){.mark = &never, .count = 1, .may_end = true}));
    return blanks(builder);
}

/* What may follow calls: text, which may call again. Where other text is held to a form, only calls. */
static gexpr *text_after(hold_work *work)
{
    gbuilder *builder = work->builder;
    const zt_reply_hold *hold = work->hold;
    if (hold->content && hold->one) return blanks(builder);
    if (hold->content) return ZT_G_SEQUENCE(builder, blanks(builder), zt_g_optional(builder, zt_g_call(builder, work->again)));
    return !hold->one && work->form->begin ? zt_g_call(builder, work->begun_text) : last_text(work);
}

/* The calls, from `skip` bytes of open and call on: the rest of them, further ones, and the text behind. */
static gexpr *read_calls(hold_work *work, size_t skip)
{
    gbuilder *builder = work->builder;
    const call_writing *writing = work->writing;
    bool many = !work->hold->one, listed = writing->more != NULL;
    zt_bytes open = bytes_of(writing->open), call = bytes_of(writing->call), close = bytes_of(writing->close);
    size_t of_open = skip < open.n ? skip : open.n, of_call = skip - of_open;
    bool cut = cut_end(work, close.n ? &close : &call);
    gexpr *after = text_after(work);
    gexpr *one = zt_g_as_rule(builder, read_call(work, call)), *further = zt_g_literal(builder, "");
    gexpr *first = of_call ? read_call(work, (zt_bytes){call.data + of_call, call.n - of_call}) : one;
    if (many && listed)
        further =
            zt_g_repeat(builder, ZT_G_SEQUENCE(builder, read_writing(builder, bytes_of(writing->more), NULL, NULL), one), 0, -1);
    return ZT_G_SEQUENCE(builder, read_writing(builder, (zt_bytes){open.data + of_open, open.n - of_open}, NULL, NULL), first,
                         further, read_writing(builder, close, NULL, NULL), end_calls(work, cut, after));
}

/* Where the mark that begins a call ends in open and call together. */
static size_t behind_begin(const hold_work *work)
{
    const call_writing *writing = work->writing;
    const char *begin = work->form->begin, *texts[] = {writing->open ? writing->open : "", writing->call};
    const char *hit = strstr(texts[0], begin);
    if (hit) return (size_t)(hit - texts[0]) + strlen(begin);
    hit = strstr(texts[1], begin);
    return strlen(texts[0]) + (hit ? (size_t)(hit - texts[1]) + strlen(begin) : 0);
}

/* ---- text -------------------------------------------------------------------------------------------- */

/* Of a form without marks: a reply that begins like this is a call. Adds the marks by which that is seen. */
static gexpr *scan_bare(hold_work *work, const gmark *marks, size_t count)
{
    gbuilder *builder = work->builder;
    const json_t *tools = work->hold->tools;
    gmark *inner = zt_alloc_array(zt_g_context(builder), json_array_size(tools) + 1, sizeof *inner), outer[8];
    if (!inner) return NULL;
    size_t inner_count = 0;
    char(*names)[MOST_TOOL_NAME + 2] = zt_alloc_array(zt_g_context(builder), json_array_size(tools) + 1, sizeof *names);
    bool json = work->form->body == BODY_JSON, good = names != NULL;
    if (json && good) {
        /* behind {~"name" */
        inner[inner_count++] = (gmark){.text = "\"name\"", .then = zt_g_call(builder, work->calls), .first = true};
    }
    for (size_t i = 0; !json && good && i < json_array_size(tools); i++) {
        const char *name = tool_name(tools, i);
        snprintf(names[i], sizeof names[i], "%s(", name);
        gexpr *rest = NULL;
        if (is_allowed(work->hold, name)) {
            gexpr *arguments = read_arguments(work, json_array_get(tools, i));
            rest = zt_g_as_rule(builder,
                                ZT_G_SEQUENCE(builder, arguments, zt_g_literal(builder, ")"), zt_g_call(builder, work->calls)));
            good = rest != NULL;
        }
        inner[inner_count++] = (gmark){.text = names[i], .then = rest, .first = true};
    }
    gexpr *opened =
        good ? zt_g_as_rule(builder, zt_g_scan(builder, &(gscan){.mark = inner, .count = inner_count, .may_end = true})) : NULL;
    memcpy(outer, marks, count * sizeof *marks);
    outer[count] = (gmark){.text = json ? "{" : "[", .then = opened, .first = true};
    gexpr *expr = opened ? zt_g_scan(builder, &(gscan){.mark = outer, .count = count + 1, .may_end = true}) : NULL;
    zt_free(zt_g_context(builder), inner);
    zt_free(zt_g_context(builder), names);
    return expr;
}

/* Reasoning up to its end, and what follows. */
static gexpr *read_reasoning(hold_work *work, gexpr *then, bool may_end)
{
    gmark end = {.text = work->thinks->end, .then = then};
    return zt_g_as_rule(work->builder, zt_g_scan(work->builder, &(gscan){.mark = &end, .count = 1, .may_end = may_end}));
}

/* Defines the rules of text that may call. */
static bool define_texts(hold_work *work)
{
    gbuilder *builder = work->builder;
    const call_form *form = work->form;
    gmark marks[6];
    size_t count = 0;
    gexpr *first = zt_g_call(builder, work->first_text), *calls = zt_g_call(builder, work->calls);
    gexpr *reasoning = work->thinks ? read_reasoning(work, first, true) : NULL;
    if (work->thinks) marks[count++] = (gmark){.text = work->thinks->begin, .then = reasoning, .first = true};
    if (work->thinks && !reasoning) return false;
    if (form->begin) {
        gmark begin = {.text = form->begin, .then = calls};
        marks[count++] = begin;
        return zt_g_define(builder, work->first_text,
                           zt_g_scan(builder, &(gscan){.mark = marks, .count = count, .may_end = true})) &&
               zt_g_define(builder, work->begun_text, zt_g_scan(builder, &(gscan){.mark = &begin, .count = 1, .may_end = true}));
    }
    for (size_t i = 0; i < 3 && form->between[i]; i++)
        marks[count++] = (gmark){.text = form->between[i], .then = first, .first = true};
    return zt_g_define(builder, work->first_text, scan_bare(work, marks, count)) &&
           zt_g_define(builder, work->begun_text, zt_g_literal(builder, ""));
}

/* The rest of the calls of a form without marks: behind {"name", or behind the first call of a list. */
static gexpr *rest_of_bare(hold_work *work)
{
    gbuilder *builder = work->builder;
    const call_writing *writing = work->writing;
    if (work->form->body == BODY_JSON) return read_calls(work, strlen("{~\"name\""));
    gexpr *one = zt_g_as_rule(builder, read_call(work, bytes_of(writing->call))), *further = zt_g_literal(builder, "");
    if (!work->hold->one)
        further =
            zt_g_repeat(builder, ZT_G_SEQUENCE(builder, read_writing(builder, bytes_of(writing->more), NULL, NULL), one), 0, -1);
    return ZT_G_SEQUENCE(builder, further, read_writing(builder, bytes_of(writing->close), NULL, NULL), last_text(work));
}

/* A reply that is this at once, or after its reasoning. */
static gexpr *read_required(hold_work *work, gexpr *calls, bool opened)
{
    gbuilder *builder = work->builder;
    gexpr *space = blanks(builder);
    if (!work->thinks) return ZT_G_SEQUENCE(builder, space, calls);
    int start = zt_g_rule(builder, "reply", 5);
    gexpr *reasoning = start >= 0 ? read_reasoning(work, zt_g_call(builder, start), false) : NULL;
    gexpr *begin = zt_g_mark(builder, work->thinks->begin, strlen(work->thinks->begin));
    gexpr *thought = ZT_G_SEQUENCE(builder, begin, reasoning);
    if (!zt_g_define(builder, start, ZT_G_SEQUENCE(builder, space, ZT_G_CHOICE(builder, thought, calls)))) return NULL;
    return opened ? reasoning : zt_g_call(builder, start);
}

/* ---- the whole ------------------------------------------------------------------------------------ */

static const call_writing *find_writing(const call_form *form, zt_bytes template_text)
{
    for (size_t i = 0; i < sizeof form->writing / sizeof *form->writing && form->writing[i].call; i++)
        if (!form->writing[i].in_template || zt_reply_find(template_text, form->writing[i].in_template)) return &form->writing[i];
    return NULL;
}

/* Text that may call, or has to. */
static gexpr *reply_of_text(hold_work *work, bool opened)
{
    gbuilder *builder = work->builder;
    work->calls = zt_g_rule(builder, "calls", 5);
    work->first_text = zt_g_rule(builder, "reply", 5);
    work->begun_text = zt_g_rule(builder, "reply", 5);
    if (work->calls < 0 || work->first_text < 0 || work->begun_text < 0) return NULL;
    gexpr *calls = work->form->begin ? read_calls(work, behind_begin(work)) : rest_of_bare(work);
    if (!zt_g_define(builder, work->calls, calls) || !define_texts(work)) return NULL;
    if (work->hold->required) return read_required(work, zt_g_as_rule(builder, read_calls(work, 0)), opened);
    gexpr *text = zt_g_call(builder, work->first_text);
    return opened ? read_reasoning(work, text, true) : text;
}

/* Calls; or, unless they are required, what the content is held to. */
static gexpr *reply_or_content(hold_work *work, bool opened)
{
    gbuilder *builder = work->builder;
    work->again = zt_g_rule(builder, "calls", 5);
    if (work->again < 0 || !zt_g_define(builder, work->again, read_calls(work, 0))) return NULL;
    gexpr *reply = zt_g_call(builder, work->again);
    if (!work->hold->required)
        reply = ZT_G_CHOICE(builder, reply, zt_g_as_rule(builder, zt_g_parts(builder, work->hold->content, 1)));
    return read_required(work, reply, opened);
}

static gexpr *make_reply(gbuilder *builder, const void *user)
{
    const zt_reply_hold *hold = user;
    hold_work work = {.builder = builder, .hold = hold};
    if (!check_names(builder, hold)) return NULL;
    if (zt_reply_has_channels(hold->template_text)) return zt_reply_hold_channels(builder, hold);
    work.form = zt_reply_find_form(hold->template_text);
    work.writing = work.form ? find_writing(work.form, hold->template_text) : NULL;
    if (!work.form) return zt_g_fail(builder, "the chat template's form of tool calls is unknown");
    if (!work.writing) return zt_g_fail(builder, "tool calls in the form '%s' cannot be constrained", work.form->name);
    work.thinks = zt_reply_find_reasoning(hold->template_text);
    bool opened = work.thinks && zt_reply_opens(work.thinks, hold->prompt);
    return hold->content ? reply_or_content(&work, opened) : reply_of_text(&work, opened);
}

gexpr *zt_reply_call_arguments(gbuilder *builder, const zt_reply_hold *hold, const json_t *tool)
{
    hold_work work = {.builder = builder, .hold = hold};
    return read_arguments(&work, tool);
}

bool zt_reply_may_call(const zt_reply_hold *hold, const json_t *tool)
{
    return is_allowed(hold, json_string_value(json_object_get(zt_reply_function(tool), "name")));
}

zt_grammar *zt_reply_grammar(zt_ctx *ctx, const zt_reply_hold *hold)
{
    ZT_REQUIRE(ctx, hold && hold->template_text.data && json_array_size(hold->tools) > 0, NULL);
    return zt_g_compile(ctx, "tools", make_reply, hold);
}
