/* chat.c - --chat: a conversation on the terminal.
 *
 * run->ids is the conversation so far, as tokens. The KV cache is kept from turn to turn. What a turn adds:
 *
 *   a template by rule, or a conversation   only the text of this turn: encoded, and appended
 *   that comes from a session file
 *
 *   a template that is a program            the whole conversation is rendered. If the text begins with
 *                                           what was there, only what follows is encoded and appended,
 *                                           so that answers keep the tokens they were generated as;
 *                                           else all of it is encoded anew
 */
#include "tools/zt-run/run.h"

#include <errno.h>
#include <histedit.h>
#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

typedef struct chat_state {
    run_state *run;
    EditLine *editor;
    History *history;
    bool begun;       /* there is a turn before this one */
    bool only_tokens; /* ... and it is known as tokens only: from a session file */
    json_t *messages;
    zt_str known_text; /* the last prompt and the answer to it, as text */
    bool done;
    bool has_early_byte; /* a byte that came together with a Ctrl-C */
    char early_byte;
} chat_state;

/* ---- a line from the terminal ---------------------------------------------------------------- */

static const char *prompt_text(EditLine *editor)
{
    (void)editor;
    return "> ";
}

/* The next byte, as read gives it; -1 on Ctrl-C. The terminal drops what was typed before a Ctrl-C,
 * so a byte that comes together with one is of the next line. */
static ssize_t read_byte(chat_state *chat, char *byte)
{
    if (zt_cli_interrupted()) return -1;
    if (chat->has_early_byte) {
        chat->has_early_byte = false;
        *byte = chat->early_byte;
        return 1;
    }
    ssize_t count = read(STDIN_FILENO, byte, 1);
    if (count != 1 || !zt_cli_interrupted()) return count;
    chat->has_early_byte = true;
    chat->early_byte = *byte;
    return -1;
}

/* One character, as libedit wants it: 1, 0 at the end, -1 on Ctrl-C,
 * which its own reader would pass over. */
static int read_character(EditLine *editor, wchar_t *out)
{
    mbstate_t state = {0};
    char byte;
    void *client = NULL;
    el_get(editor, EL_CLIENTDATA, &client);
    for (;;) {
        ssize_t count = read_byte(client, &byte);
        if (count <= 0) return count < 0 ? -1 : 0;
        size_t size = mbrtowc(out, &byte, 1, &state);
        if (size == (size_t)-1) {
            memset(&state, 0, sizeof state); /* broken: begin anew */
            continue;
        }
        if (size != (size_t)-2) return 1;
    }
}

static zt_status open_line(chat_state *chat)
{
    HistEvent event;
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    chat->editor = el_init("zt-run", stdin, stdout, stderr);
    chat->history = history_init();
    if (!chat->editor || !chat->history) return zt_fail(chat->run->ctx, ZT_ENOMEM, "out of memory in the line editor");
    history(chat->history, &event, H_SETSIZE, 1000);
    history(chat->history, &event, H_SETUNIQUE, 1);
    el_set(chat->editor, EL_PROMPT, prompt_text);
    el_set(chat->editor, EL_EDITOR, "emacs");
    el_set(chat->editor, EL_SIGNAL, 0);
    el_set(chat->editor, EL_HIST, history, chat->history);
    el_set(chat->editor, EL_CLIENTDATA, chat);
    el_set(chat->editor, EL_GETCFN, read_character);
    return ZT_OK;
}

static void close_line(chat_state *chat)
{
    if (chat->editor) el_end(chat->editor);
    if (chat->history) history_end(chat->history);
}

/* The next line without its newline, to be freed by the caller; "" after Ctrl-C; NULL at the end of input. */
static char *read_line(chat_state *chat)
{
    int size = 0;
    HistEvent event;
    el_resize(chat->editor);
    const char *text = el_gets(chat->editor, &size);
    if (!text || size <= 0) {
        bool stopped = zt_cli_interrupted();
        zt_cli_resume();
        run_write(chat->run, "\n", 1);
        return stopped ? zt_strdup(chat->run->ctx, "") : NULL;
    }
    if (size > 1) history(chat->history, &event, H_ENTER, text);
    return zt_strndup(chat->run->ctx, text, (size_t)size - (text[size - 1] == '\n'));
}

/* ---- a turn ---------------------------------------------------------------------------------- */

/* Removes from run->ids what ended the answer and was not shown: a token, or a stop text, which may have
 * begun in the middle of a token. */
static zt_status drop_end(run_state *run)
{
    zt_str text;
    zt_status status = ZT_OK;
    if (run->stop_reason && strcmp(run->stop_reason, "eos") == 0 && run->ids.count > run->prompt_count) run->ids.count--;
    zt_str_init(&text, run->ctx);
    while (status == ZT_OK && run->cut_bytes > 0 && run->ids.count > run->prompt_count) {
        zt_str_clear(&text);
        status = zt_vocab_decode(run->vocab, run->ids.id[--run->ids.count], true, false, &text);
        if (status == ZT_OK && text.len > run->cut_bytes)
            status = zt_vocab_encode(run->vocab, text.data, text.len - run->cut_bytes, 0, &run->ids);
        run->cut_bytes -= text.len < run->cut_bytes ? text.len : run->cut_bytes;
    }
    zt_str_fini(&text);
    run->cut_bytes = 0;
    run->stop_reason = NULL;
    return status;
}

static zt_status add_message(chat_state *chat, const char *role, const char *text, size_t size)
{
    json_t *message = run_message(chat->run, role, text, size);
    if (message && json_array_append_new(chat->messages, message) == 0) return ZT_OK;
    return zt_fail(chat->run->ctx, ZT_ENOMEM, "out of memory");
}

/* Encodes the rendered conversation: only what is new, if it begins with the text known so far. */
static zt_status take_rendered(chat_state *chat, zt_str *text, const zt_str *origin)
{
    run_state *run = chat->run;
    size_t known_size = chat->known_text.len;
    bool goes_on = known_size && text->len >= known_size && memcmp(text->data, chat->known_text.data, known_size) == 0;
    if (!goes_on) run->ids.count = 0;
    zt_status status = run_encode_rendered(run, text, origin, goes_on ? known_size : 0, &run->ids);
    zt_str_clear(&chat->known_text);
    return status == ZT_OK ? zt_str_put(&chat->known_text, text->data, text->len) : status;
}

static zt_status render_turn(chat_state *chat, const char *said)
{
    run_state *run = chat->run;
    zt_str text, origin;
    zt_str_init(&text, run->ctx);
    zt_str_init(&origin, run->ctx);
    zt_status status = ZT_OK;
    if (json_array_size(chat->messages) == 0 && run->options->system)
        status = add_message(chat, "system", run->options->system, strlen(run->options->system));
    if (status == ZT_OK) status = add_message(chat, "user", said, strlen(said));
    if (status == ZT_OK) status = run_render_messages(run, chat->messages, NULL, &text, &origin);
    if (status == ZT_OK) status = take_rendered(chat, &text, &origin);
    zt_str_fini(&text);
    zt_str_fini(&origin);
    return status;
}

/* Adds the answer to the messages and to the known text. */
static zt_status keep_answer(chat_state *chat)
{
    const zt_str *text = &chat->run->answer_text;
    const char *data = text->len ? text->data : "";
    zt_status status = add_message(chat, "assistant", data, text->len);
    return status == ZT_OK ? zt_str_put(&chat->known_text, data, text->len) : status;
}

static zt_status add_turn(chat_state *chat, const char *text)
{
    run_state *run = chat->run;
    zt_message messages[2];
    int message_count = 0;
    if (run->jinja && !chat->only_tokens) return render_turn(chat, text);
    if (chat->begun) return run_encode_next(run, text, &run->ids);
    if (run->options->system) messages[message_count++] = (zt_message){"system", run->options->system};
    messages[message_count++] = (zt_message){"user", text};
    return run_encode_messages(run, messages, message_count, &run->ids);
}

static void tell_full(run_state *run, size_t token_count)
{
    zt_cli_note(run->cli,
                "the conversation of %zu tokens exceeds the context of %" PRId64 ": clear it with /reset, or set a larger --ctx",
                token_count, zt_llm_get(run->llm).ctx_len);
}

/* Ctrl-C ends the answer, not the conversation. */
static zt_status answer_turn(chat_state *chat)
{
    run_state *run = chat->run;
    zt_status status = run_answer(run);
    if (status == ZT_EINTR) {
        zt_cli_resume();
        zt_ctx_clear(run->ctx);
        status = ZT_OK;
    }
    chat->begun = true;
    if (status == ZT_OK) status = run_write(run, "\n", 1);
    if (status == ZT_OK && run->stop_reason && strcmp(run->stop_reason, "ctx") == 0) tell_full(run, run->ids.count);
    if (status == ZT_OK) status = drop_end(run);
    return status == ZT_OK ? keep_answer(chat) : status;
}

/* A turn that has no room in the context is forgotten: all is as before it. */
static zt_status undo_turn(chat_state *chat, size_t ids, size_t messages, const zt_str *known)
{
    chat->run->ids.count = ids;
    while (json_array_size(chat->messages) > messages) json_array_remove(chat->messages, json_array_size(chat->messages) - 1);
    zt_str_clear(&chat->known_text);
    return known->len ? zt_str_put(&chat->known_text, known->data, known->len) : ZT_OK;
}

static zt_status take_turn(chat_state *chat, const char *text)
{
    run_state *run = chat->run;
    size_t ids = run->ids.count, messages = json_array_size(chat->messages);
    zt_str known;
    zt_str_init(&known, run->ctx);
    zt_status status = chat->known_text.len ? zt_str_put(&known, chat->known_text.data, chat->known_text.len) : ZT_OK;
    if (status == ZT_OK) status = add_turn(chat, text);
    run->prompt_count = run->ids.count;
    if (status == ZT_OK && (int64_t)run->prompt_count > zt_llm_get(run->llm).ctx_len) {
        tell_full(run, run->prompt_count);
        status = undo_turn(chat, ids, messages, &known);
    } else if (status == ZT_OK) {
        status = answer_turn(chat);
    }
    zt_str_fini(&known);
    return status;
}

/* ---- commands -------------------------------------------------------------------------------- */

static zt_status reset_chat(chat_state *chat)
{
    chat->run->ids.count = 0;
    chat->begun = chat->only_tokens = false;
    json_array_clear(chat->messages);
    zt_str_clear(&chat->known_text);
    return ZT_OK;
}

static zt_status quit_chat(chat_state *chat)
{
    chat->done = true;
    return ZT_OK;
}

static zt_status print_help(chat_state *chat);

static const struct {
    const char *name, *what;
    zt_status (*run)(chat_state *c);
} chat_commands[] = {
    {"/help", "list the commands", print_help},
    {"/quit", "quit, as Ctrl-D does; Ctrl-C interrupts an answer", quit_chat},
    {"/reset", "clear the conversation", reset_chat},
};

enum { COMMANDS = sizeof chat_commands / sizeof *chat_commands };

static zt_status print_help(chat_state *chat)
{
    zt_str text;
    zt_str_init(&text, chat->run->ctx);
    for (int i = 0; i < COMMANDS; i++) zt_str_printf(&text, "%-8s %s\n", chat_commands[i].name, chat_commands[i].what);
    zt_status status = zt_ctx_status(chat->run->ctx);
    if (status == ZT_OK) status = run_write(chat->run, text.data, text.len);
    zt_str_fini(&text);
    return status;
}

static zt_status obey_line(chat_state *chat, const char *text)
{
    if (text[strspn(text, " \t")] == 0) return ZT_OK;
    if (text[0] != '/') return take_turn(chat, text);
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(text, chat_commands[i].name) == 0) return chat_commands[i].run(chat);
    zt_cli_note(chat->run->cli, "unknown command '%s': /help lists the commands", text);
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Goes on with the conversation that a session file holds. */
static zt_status resume_session(chat_state *chat)
{
    run_state *run = chat->run;
    zt_status status = ZT_OK;
    for (size_t i = 0; i < run->fed_ids.count && status == ZT_OK; i++)
        status = zt_ids_push(run->ctx, &run->ids, run->fed_ids.id[i]);
    chat->begun = chat->only_tokens = run->fed_ids.count > 0;
    if (chat->begun)
        zt_cli_note(run->cli, "%s: the conversation continues after %zu tokens; /reset starts a new one", run->options->session,
                    run->fed_ids.count);
    return status;
}

static zt_status run_conversation(chat_state *chat)
{
    zt_status status = ZT_OK;
    while (status == ZT_OK && !chat->done) {
        char *text = read_line(chat);
        if (text)
            status = obey_line(chat, text);
        else
            chat->done = true;
        zt_free(chat->run->ctx, text);
        if (status == ZT_EINTR) { /* while a command or a line's end was written */
            zt_ctx_clear(chat->run->ctx);
            status = ZT_OK;
        }
        zt_cli_resume();
    }
    return status;
}

zt_status run_chat(run_state *run)
{
    chat_state chat = {.run = run, .messages = json_array()};
    zt_str_init(&chat.known_text, run->ctx);
    zt_status status = chat.messages ? run_choose_template(run, false) : zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    if (status == ZT_OK && !run_has_template(run))
        status = zt_fail(run->ctx, ZT_EUSAGE, "%s has no chat template: specify one with --template", zt_gguf_name(run->gguf));
    if (status == ZT_OK) status = run_find_turn(run);
    if (status == ZT_OK) status = run_hold_to_options(run);
    if (status == ZT_OK) status = run_open_llm(run, 0, false);
    if (status == ZT_OK) status = resume_session(&chat);
    if (status == ZT_OK) status = open_line(&chat);
    if (status == ZT_OK) status = run_conversation(&chat);
    close_line(&chat);
    json_decref(chat.messages);
    zt_str_fini(&chat.known_text);
    if (status == ZT_OK && run->options->session) status = run_catch_up(run);
    return status == ZT_OK && run->options->session ? run_session_save(run) : status;
}
