/* template.c - chat templates known by name: a conversation as the text that a model was trained on.
 *
 * One row a template: what stands before and after each role's text, and where the system's goes. They
 * are used where somebody asks for one; a model's own template is a program, and run
 * (chat_template.c). Golden renderings: jinja2's of some models' templates (tests/llm/templates).
 * template_file.c reads rows from JSON.
 */
#include "lib/base/require.h"
#include "lib/llm/template.h"

#include <string.h>

/* In a row: the text of the model's BOS or EOS token. */
#define BOS       "\x02"
#define EOS       "\x03"
#define TURN      "<|start_header_id|>"
#define HEAD      "<|end_header_id|>\n\n"
#define INST_TRIM (1 << ZT_ROLE_USER | 1 << ZT_ROLE_ASSISTANT)
#define TRIM_ALL  (INST_TRIM | 1 << ZT_ROLE_SYSTEM)

/* Roles in the order system, user, assistant. */
static const zt_template templates[] = {
    {.name = "chatml",
     .prefix = {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
     .suffix = {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"},
     .own_system = true},
    {.name = "gemma",
     .prefix = {"", "<start_of_turn>user\n", "<start_of_turn>model\n"},
     .suffix = {"\n\n", "<end_of_turn>\n", "<end_of_turn>\n"},
     .trim = INST_TRIM,
     .system = ZT_SYSTEM_IN_NEXT},
    /* The date is the one that the template falls back on: a prompt that changes with the calendar
     * would give other text every day. */
    {.name = "llama3.1",
     .prefix = {TURN "system" HEAD "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n", TURN "user" HEAD,
                TURN "assistant" HEAD},
     .suffix = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
     .trim = TRIM_ALL,
     .always_system = true},
    {.name = "llama3",
     .prefix = {TURN "system" HEAD, TURN "user" HEAD, TURN "assistant" HEAD},
     .suffix = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
     .trim = TRIM_ALL},
    {.name = "mistral-v7-tekken", .prefix = {"[SYSTEM_PROMPT]", "[INST]", ""}, .suffix = {"[/SYSTEM_PROMPT]", "[/INST]", EOS}},
    {.name = "mistral-v7",
     .prefix = {"[SYSTEM_PROMPT] ", "[INST] ", " "},
     .suffix = {"[/SYSTEM_PROMPT]", "[/INST]", EOS},
     .open = ""},
    {.name = "llama2",
     .prefix = {"<<SYS>>\n", "[INST] ", " "},
     .suffix = {"\n<</SYS>>\n\n", " [/INST]", " " EOS},
     .again = BOS,
     .open = "",
     .trim = INST_TRIM,
     .trim_joined = true,
     .system = ZT_SYSTEM_IN_NEXT},
    {.name = "llama2-one-bos",
     .prefix = {"<<SYS>>\n", "[INST] ", " "},
     .suffix = {"\n<</SYS>>\n\n", " [/INST]", " " EOS},
     .open = "",
     .trim = INST_TRIM,
     .trim_joined = true,
     .system = ZT_SYSTEM_IN_NEXT},
    {.name = "mistral-v1",
     .prefix = {"", " [INST] ", " "},
     .suffix = {"\n\n", " [/INST]", EOS},
     .open = "",
     .system = ZT_SYSTEM_IN_NEXT},
    {.name = "mistral-v3-tekken", .prefix = {"", "[INST]", ""}, .suffix = {"\n\n", "[/INST]", EOS}, .system = ZT_SYSTEM_IN_LAST},
    {.name = "mistral-v3",
     .prefix = {"", "[INST] ", " "},
     .suffix = {"\n\n", "[/INST]", EOS},
     .open = "",
     .trim = 1 << ZT_ROLE_ASSISTANT,
     .system = ZT_SYSTEM_IN_LAST},
    {.name = "mistral-v0.1", .prefix = {"", "[INST] ", ""}, .suffix = {"\n\n", " [/INST]", EOS " "}, .system = ZT_SYSTEM_IN_NEXT},
    {.name = "mistral", .prefix = {"", "[INST] ", ""}, .suffix = {"\n\n", " [/INST]", EOS}, .system = ZT_SYSTEM_IN_NEXT},
    {.name = "phi4-mini", .prefix = {"<|system|>", "<|user|>", "<|assistant|>"}, .suffix = {"<|end|>", "<|end|>", "<|end|>"}},
    {.name = "phi3",
     .prefix = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .suffix = {"<|end|>\n", "<|end|>\n", "<|end|>\n"}},
    {.name = "tulu", .prefix = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, .suffix = {"\n", "\n", EOS "\n"}},
    {.name = "zephyr", .prefix = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"}, .suffix = {EOS "\n", EOS "\n", EOS "\n"}},
    {.name = "granite",
     .prefix = {"<|start_of_role|>system<|end_of_role|>", "<|start_of_role|>user<|end_of_role|>",
                "<|start_of_role|>assistant<|end_of_role|>"},
     .suffix = {"<|end_of_text|>\n", "<|end_of_text|>\n", "<|end_of_text|>\n"}},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- which ----------------------------------------------------------------------------------- */

const zt_template *zt_template_find(const char *name)
{
    if (!name) return NULL;
    for (size_t i = 0; i < COUNT(templates); i++)
        if (strcmp(templates[i].name, name) == 0) return &templates[i];
    return NULL;
}

const char *zt_template_name(const zt_template *chat_template) { return chat_template ? chat_template->name : NULL; }

const char *zt_template_list(int index) { return index >= 0 && (size_t)index < COUNT(templates) ? templates[index].name : NULL; }

zt_bytes zt_template_user(const zt_template *chat_template)
{
    return chat_template ? zt_trimmed(chat_template->prefix[ZT_ROLE_USER]) : (zt_bytes){0};
}

/* ---- the default system text ----------------------------------------------------------------- */

static bool skip_prefix(zt_bytes *text, const char *what)
{
    size_t length = strlen(what);
    if (text->n < length || memcmp(text->data, what, length) != 0) return false;
    *text = (zt_bytes){text->data + length, text->n - length};
    return true;
}

/* What the model's ChatML template writes between "<|im_start|>system\n" and "<|im_end|>" as one
 * literal, {NULL, 0} if nothing: inside a string of the program (then it must end before the quote
 * that closes it) or outside of any (then before the next brace). Escapes are still in it. */
static zt_bytes default_system(zt_bytes text)
{
    static const char head[] = "<|im_start|>system", tail[] = "<|im_end|>";
    zt_bytes rest = text;
    const char *found;
    while ((found = memmem(rest.data, rest.n, head, strlen(head)))) {
        char quote = found > text.data && (found[-1] == '\'' || found[-1] == '"') ? found[-1] : '{';
        rest = (zt_bytes){found + strlen(head), (size_t)(text.data + text.n - found) - strlen(head)};
        if (!skip_prefix(&rest, "\n") && !skip_prefix(&rest, "\\n")) continue;
        const char *end = memmem(rest.data, rest.n, tail, strlen(tail));
        size_t length = 0, limit = end ? (size_t)(end - rest.data) : 0;
        while (length < limit && rest.data[length] != quote) length += rest.data[length] == '\\' && length + 1 < limit ? 2 : 1;
        if (length && length == limit) return (zt_bytes){rest.data, length};
    }
    return (zt_bytes){NULL, 0};
}

/* A piece of a Jinja string: \n is a line's end, any other escaped character itself. */
static zt_status append_unescaped(zt_bytes literal, zt_str *out)
{
    zt_status status = ZT_OK;
    for (size_t i = 0; !status && i < literal.n; i++) {
        char byte = literal.data[i];
        if (byte == '\\' && i + 1 < literal.n) byte = literal.data[++i] == 'n' ? '\n' : literal.data[i];
        status = zt_str_putc(out, byte);
    }
    return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static const char *const role_names[ZT_ROLES] = {"system", "user", "assistant"};

int zt_role_find(const char *name)
{
    for (int i = 0; i < ZT_ROLES; i++)
        if (strcmp(role_names[i], name) == 0) return i;
    return -1;
}

zt_bytes zt_trimmed(const char *text)
{
    static const char blank[] = " \t\r\n\v\f";
    const char *from = text + strspn(text, blank);
    zt_bytes trimmed = {from, strlen(from)};
    while (trimmed.n && strchr(blank, trimmed.data[trimmed.n - 1])) trimmed.n--;
    return trimmed;
}

typedef struct turn_writer { /* a conversation on its way into pieces */
    zt_ctx *ctx;
    const zt_template *chat_template;
    const zt_vocab *vocab;
    const zt_message *messages;
    int message_count, system; /* system: the message that waits for a user's turn; -1: none */
    bool begun;                /* a user's turn was written */
    zt_piece_fn *piece_fn;
    void *user;
} turn_writer;

static zt_status append_token(turn_writer *writer, int32_t id, const char *otherwise, zt_str *out)
{
    return writer->vocab && id >= 0 ? zt_vocab_decode(writer->vocab, id, true, false, out) : zt_str_puts(out, otherwise);
}

/* The template's own words, in which BOS and EOS stand for those tokens' texts. */
static zt_status write_own_text(turn_writer *writer, const char *text)
{
    zt_str expanded;
    zt_str_init(&expanded, writer->ctx);
    zt_status status = ZT_OK;
    for (; *text && status == ZT_OK; text++) {
        if (*text == BOS[0])
            status = append_token(writer, writer->vocab ? zt_vocab_bos(writer->vocab) : -1, "<s>", &expanded);
        else if (*text == EOS[0])
            status = append_token(writer, writer->vocab ? zt_vocab_eos(writer->vocab) : -1, "</s>", &expanded);
        else
            status = zt_str_putc(&expanded, *text);
    }
    if (status == ZT_OK && expanded.len) status = writer->piece_fn(writer->user, (zt_bytes){expanded.data, expanded.len}, -1);
    zt_str_fini(&expanded);
    return status;
}

/* Message k's text. `joined`: a system text stands before it in the same turn. */
static zt_status write_message_text(turn_writer *writer, int index, int role, bool joined)
{
    const char *text = writer->messages[index].content;
    zt_bytes trimmed = {text, strlen(text)};
    if (writer->chat_template->trim >> role & 1) {
        trimmed = zt_trimmed(text);
        if (joined && writer->chat_template->trim_joined) trimmed = (zt_bytes){text, (size_t)(trimmed.data + trimmed.n - text)};
    }
    return trimmed.n ? writer->piece_fn(writer->user, trimmed, index) : ZT_OK;
}

static zt_status write_turn(turn_writer *writer, int index, int role)
{
    const zt_template *chat_template = writer->chat_template;
    bool user = role == ZT_ROLE_USER;
    zt_status status = user && writer->begun && chat_template->again ? write_own_text(writer, chat_template->again) : ZT_OK;
    bool joined = user && writer->system >= 0;
    for (int i = index + 1; joined && chat_template->system == ZT_SYSTEM_IN_LAST && i < writer->message_count; i++)
        joined = zt_role_find(writer->messages[i].role) != ZT_ROLE_USER;
    if (status == ZT_OK) status = write_own_text(writer, chat_template->prefix[role]);
    if (status == ZT_OK && joined) {
        status = write_own_text(writer, chat_template->prefix[ZT_ROLE_SYSTEM]);
        if (status == ZT_OK) status = write_message_text(writer, writer->system, ZT_ROLE_SYSTEM, false);
        if (status == ZT_OK) status = write_own_text(writer, chat_template->suffix[ZT_ROLE_SYSTEM]);
        writer->system = -1;
    }
    writer->begun = writer->begun || user;
    if (status == ZT_OK) status = write_message_text(writer, index, role, joined);
    return status == ZT_OK ? write_own_text(writer, chat_template->suffix[role]) : status;
}

static zt_status check_messages(zt_ctx *ctx, const zt_template *chat_template, const zt_message *messages, int message_count,
                                bool *has_system)
{
    *has_system = false;
    for (int i = 0; i < message_count; i++) {
        char shown[64];
        int role = zt_role_find(messages[i].role);
        if (role < 0)
            return zt_fail(ctx, ZT_EUSAGE, "message %d: unknown role '%s': expected system, user or assistant", i,
                           zt_escape(shown, sizeof shown, messages[i].role, strlen(messages[i].role)));
        *has_system = *has_system || role == ZT_ROLE_SYSTEM;
        if (!chat_template->prefix[role])
            return zt_fail(ctx, ZT_EUSAGE, "template %s does not support %s messages", chat_template->name, role_names[role]);
    }
    return ZT_OK;
}

/* The system text that opens a conversation which brings none. */
static zt_status write_default_system(turn_writer *writer, const zt_gguf *gguf)
{
    zt_bytes own = {NULL, 0};
    if (writer->chat_template->own_system && zt_gguf_str(gguf, "tokenizer.chat_template", &own)) own = default_system(own);
    if (!own.n && !writer->chat_template->always_system) return ZT_OK;
    zt_str text;
    zt_str_init(&text, writer->ctx);
    zt_status status = write_own_text(writer, writer->chat_template->prefix[ZT_ROLE_SYSTEM]);
    if (status == ZT_OK) status = append_unescaped(own, &text);
    if (status == ZT_OK && text.len) status = writer->piece_fn(writer->user, (zt_bytes){text.data, text.len}, -1);
    if (status == ZT_OK) status = write_own_text(writer, writer->chat_template->suffix[ZT_ROLE_SYSTEM]);
    zt_str_fini(&text);
    return status;
}

static zt_status open_answer(turn_writer *writer)
{
    return write_own_text(writer, writer->chat_template->open ? writer->chat_template->open
                                                              : writer->chat_template->prefix[ZT_ROLE_ASSISTANT]);
}

zt_status zt_template_pieces(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab,
                             const zt_message *messages, int message_count, zt_piece_fn *fn, void *user)
{
    zt_ctx *ctx = zt_gguf_ctx(gguf);
    ZT_REQUIRE(ctx, chat_template && gguf && fn && (messages || message_count <= 0), ZT_EUSAGE);
    for (int i = 0; i < message_count; i++) ZT_REQUIRE(ctx, messages[i].role && messages[i].content, ZT_EUSAGE);
    turn_writer writer = {.ctx = ctx,
                          .chat_template = chat_template,
                          .vocab = vocab,
                          .messages = messages,
                          .message_count = message_count,
                          .system = -1,
                          .piece_fn = fn,
                          .user = user};
    bool has_system;
    zt_status status = check_messages(ctx, chat_template, messages, message_count, &has_system);
    if (status == ZT_OK && chat_template->global_prefix) status = write_own_text(&writer, chat_template->global_prefix);
    if (status == ZT_OK && !has_system) status = write_default_system(&writer, gguf);
    for (int i = 0; status == ZT_OK && i < message_count; i++) {
        int role = zt_role_find(messages[i].role);
        if (role == ZT_ROLE_SYSTEM && chat_template->system != ZT_SYSTEM_TURN)
            writer.system = i;
        else
            status = write_turn(&writer, i, role);
    }
    if (status == ZT_OK && writer.system >= 0)
        status = zt_fail(ctx, ZT_EUSAGE, "template %s: a system message must be followed by a user message", chat_template->name);
    if (status == ZT_OK) status = open_answer(&writer);
    return status == ZT_OK && chat_template->global_suffix ? write_own_text(&writer, chat_template->global_suffix) : status;
}

zt_status zt_template_next(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab, const char *text,
                           bool close, zt_piece_fn *fn, void *user)
{
    ZT_REQUIRE(zt_gguf_ctx(gguf), chat_template && gguf && text && fn, ZT_EUSAGE);
    zt_message message = {"user", text};
    turn_writer writer = {.ctx = zt_gguf_ctx(gguf),
                          .chat_template = chat_template,
                          .vocab = vocab,
                          .messages = &message,
                          .message_count = 1,
                          .system = -1,
                          .begun = true,
                          .piece_fn = fn,
                          .user = user};
    zt_status status = close ? write_own_text(&writer, chat_template->suffix[ZT_ROLE_ASSISTANT]) : ZT_OK;
    if (status == ZT_OK) status = write_turn(&writer, 0, ZT_ROLE_USER);
    return status == ZT_OK ? open_answer(&writer) : status;
}

static zt_status append_piece(void *user, zt_bytes text, int message)
{
    (void)message;
    return zt_str_put(user, text.data, text.n);
}

zt_status zt_template_render(const zt_template *chat_template, const zt_gguf *gguf, const zt_vocab *vocab,
                             const zt_message *messages, int message_count, zt_str *out)
{
    ZT_REQUIRE(zt_gguf_ctx(gguf), out, ZT_EUSAGE);
    return zt_template_pieces(chat_template, gguf, vocab, messages, message_count, append_piece, out);
}
