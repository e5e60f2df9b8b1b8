/* chat.c - --chat: a conversation on the terminal.
 *
 * r->ids is the conversation so far, as tokens. A template that is a program writes the whole
 * conversation anew for each turn; as long as that begins with what was there, as it does with most,
 * what was generated stays as it was generated, and a turn adds only its own segment behind it. Of a
 * conversation that a session file holds there are only tokens: there, and with a template by rule,
 * segments are all. The KV cache is kept from turn to turn.
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

typedef struct chat {
    run *r;
    EditLine *line;
    History *history;
    bool begun;  /* there is something to go on from, */
    bool tokens; /* and it is only tokens */
    json_t *messages;
    zt_str known; /* the text of what was there: the last prompt and the answer to it */
    bool done;
    bool has_early; /* a byte that came together with a Ctrl-C */
    char early;
} chat;

/* ---- a line from the terminal ---------------------------------------------------------------- */

static const char *prompt(EditLine *e)
{
    (void)e;
    return "> ";
}

/* The next byte, as read gives it; -1 on Ctrl-C. The terminal drops what was typed before a Ctrl-C,
 * so a byte that comes together with one is of the next line. */
static ssize_t read_byte(chat *c, char *byte)
{
    if (zt_cli_interrupted())
        return -1;
    if (c->has_early) {
        c->has_early = false;
        *byte = c->early;
        return 1;
    }
    ssize_t n = read(STDIN_FILENO, byte, 1);
    if (n != 1 || !zt_cli_interrupted())
        return n;
    c->has_early = true;
    c->early = *byte;
    return -1;
}

/* One character, as libedit wants it: 1, 0 at the end, -1 on Ctrl-C,
 * which its own reader would pass over. */
static int read_character(EditLine *e, wchar_t *out)
{
    mbstate_t state = {0};
    char byte;
    void *c = NULL;
    el_get(e, EL_CLIENTDATA, &c);
    for (;;) {
        ssize_t n = read_byte(c, &byte);
        if (n <= 0)
            return n < 0 ? -1 : 0;
        size_t len = mbrtowc(out, &byte, 1, &state);
        if (len == (size_t)-1) {
            memset(&state, 0, sizeof state); /* broken: begin anew */
            continue;
        }
        if (len != (size_t)-2)
            return 1;
    }
}

static zt_status open_line(chat *c)
{
    HistEvent ev;
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8");
    c->line = el_init("zt-run", stdin, stdout, stderr);
    c->history = history_init();
    if (!c->line || !c->history)
        return zt_fail(c->r->ctx, ZT_ENOMEM, "the line editor has no memory");
    history(c->history, &ev, H_SETSIZE, 1000);
    history(c->history, &ev, H_SETUNIQUE, 1);
    el_set(c->line, EL_PROMPT, prompt);
    el_set(c->line, EL_EDITOR, "emacs");
    el_set(c->line, EL_SIGNAL, 0);
    el_set(c->line, EL_HIST, history, c->history);
    el_set(c->line, EL_CLIENTDATA, c);
    el_set(c->line, EL_GETCFN, read_character);
    return ZT_OK;
}

static void close_line(chat *c)
{
    if (c->line)
        el_end(c->line);
    if (c->history)
        history_end(c->history);
}

/* The next line without its end, ours to free; NULL at the end of input, or "" after Ctrl-C. */
static char *read_line(chat *c)
{
    int n = 0;
    HistEvent ev;
    el_resize(c->line);
    const char *text = el_gets(c->line, &n);
    if (!text || n <= 0) {
        bool stopped = zt_cli_interrupted();
        zt_cli_resume();
        run_write(c->r, "\n", 1);
        return stopped ? zt_strdup(c->r->ctx, "") : NULL;
    }
    if (n > 1)
        history(c->history, &ev, H_ENTER, text);
    return zt_strndup(c->r->ctx, text, (size_t)n - (text[n - 1] == '\n'));
}

/* ---- a turn ---------------------------------------------------------------------------------- */

/* Take back what of the answer was not shown: the token that ended it, or the text that did, which
 * may have begun within a token. */
static zt_status drop_end(run *r)
{
    zt_str text;
    zt_status s = ZT_OK;
    if (r->stop && strcmp(r->stop, "eos") == 0 && r->ids.count > r->n_prompt)
        r->ids.count--;
    zt_str_init(&text, r->ctx);
    while (s == ZT_OK && r->cut > 0 && r->ids.count > r->n_prompt) {
        zt_str_clear(&text);
        s = zt_vocab_decode(r->vocab, r->ids.id[--r->ids.count], true, false, &text);
        if (s == ZT_OK && text.len > r->cut)
            s = zt_vocab_encode(r->vocab, text.data, text.len - r->cut, 0, &r->ids);
        r->cut -= text.len < r->cut ? text.len : r->cut;
    }
    zt_str_fini(&text);
    r->cut = 0;
    r->stop = NULL;
    return s;
}

static zt_status add_message(chat *c, const char *role, const char *text, size_t n)
{
    json_t *m = run_message(c->r, role, text, n);
    if (m && json_array_append_new(c->messages, m) == 0)
        return ZT_OK;
    return zt_fail(c->r->ctx, ZT_ENOMEM, "no memory for a message");
}

/* The tokens of the rendered conversation: those that are there go on where the text does. */
static zt_status take_rendered(chat *c, zt_str *text, const zt_str *origin)
{
    run *r = c->r;
    size_t n = c->known.len;
    bool goes_on = n && text->len >= n && memcmp(text->data, c->known.data, n) == 0;
    if (!goes_on)
        r->ids.count = 0;
    zt_status s = run_encode_rendered(r, text, origin, goes_on ? n : 0, &r->ids);
    zt_str_clear(&c->known);
    return s == ZT_OK ? zt_str_put(&c->known, text->data, text->len) : s;
}

static zt_status render_turn(chat *c, const char *said)
{
    run *r = c->r;
    zt_str text, origin;
    zt_str_init(&text, r->ctx);
    zt_str_init(&origin, r->ctx);
    zt_status s = ZT_OK;
    if (json_array_size(c->messages) == 0 && r->o->system)
        s = add_message(c, "system", r->o->system, strlen(r->o->system));
    if (s == ZT_OK)
        s = add_message(c, "user", said, strlen(said));
    if (s == ZT_OK)
        s = run_render_messages(r, c->messages, NULL, &text, &origin);
    if (s == ZT_OK)
        s = take_rendered(c, &text, &origin);
    zt_str_fini(&text);
    zt_str_fini(&origin);
    return s;
}

/* The answer belongs to what is known from here on. */
static zt_status keep_answer(chat *c)
{
    const zt_str *text = &c->r->text;
    const char *data = text->len ? text->data : "";
    zt_status s = add_message(c, "assistant", data, text->len);
    return s == ZT_OK ? zt_str_put(&c->known, data, text->len) : s;
}

static zt_status add_turn(chat *c, const char *text)
{
    run *r = c->r;
    zt_message m[2];
    int n = 0;
    if (r->jinja && !c->tokens)
        return render_turn(c, text);
    if (c->begun)
        return run_encode_next(r, text, &r->ids);
    if (r->o->system)
        m[n++] = (zt_message){"system", r->o->system};
    m[n++] = (zt_message){"user", text};
    return run_encode_messages(r, m, n, &r->ids);
}

static void tell_full(run *r, size_t n)
{
    zt_cli_note(r->cli,
                "the conversation has %zu tokens, the context %" PRId64
                ": /reset forgets it, --ctx N makes room", n, zt_llm_get(r->llm).ctx_len);
}

/* Ctrl-C ends the answer, not the conversation. */
static zt_status answer(chat *c)
{
    run *r = c->r;
    zt_status s = run_answer(r);
    if (s == ZT_EINTR) {
        zt_cli_resume();
        zt_ctx_clear(r->ctx);
        s = ZT_OK;
    }
    c->begun = true;
    if (s == ZT_OK)
        s = run_write(r, "\n", 1);
    if (s == ZT_OK && r->stop && strcmp(r->stop, "ctx") == 0)
        tell_full(r, r->ids.count);
    if (s == ZT_OK)
        s = drop_end(r);
    return s == ZT_OK ? keep_answer(c) : s;
}

/* A turn that has no room was never said. */
static zt_status take_back(chat *c, size_t ids, size_t messages, const zt_str *known)
{
    c->r->ids.count = ids;
    while (json_array_size(c->messages) > messages)
        json_array_remove(c->messages, json_array_size(c->messages) - 1);
    zt_str_clear(&c->known);
    return known->len ? zt_str_put(&c->known, known->data, known->len) : ZT_OK;
}

static zt_status take_turn(chat *c, const char *text)
{
    run *r = c->r;
    size_t ids = r->ids.count, messages = json_array_size(c->messages);
    zt_str known;
    zt_str_init(&known, r->ctx);
    zt_status s = c->known.len ? zt_str_put(&known, c->known.data, c->known.len) : ZT_OK;
    if (s == ZT_OK)
        s = add_turn(c, text);
    r->n_prompt = r->ids.count;
    if (s == ZT_OK && (int64_t)r->n_prompt > zt_llm_get(r->llm).ctx_len) {
        tell_full(r, r->n_prompt);
        s = take_back(c, ids, messages, &known);
    } else if (s == ZT_OK) {
        s = answer(c);
    }
    zt_str_fini(&known);
    return s;
}

/* ---- commands -------------------------------------------------------------------------------- */

static zt_status reset(chat *c)
{
    c->r->ids.count = 0;
    c->begun = c->tokens = false;
    json_array_clear(c->messages);
    zt_str_clear(&c->known);
    return ZT_OK;
}

static zt_status quit(chat *c)
{
    c->done = true;
    return ZT_OK;
}

static zt_status help(chat *c);

static const struct {
    const char *name, *what;
    zt_status (*run)(chat *c);
} commands[] = {
    {"/help", "these lines", help},
    {"/quit", "end, as Ctrl-D does; Ctrl-C ends an answer", quit},
    {"/reset", "forget the conversation", reset},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static zt_status help(chat *c)
{
    zt_str s;
    zt_str_init(&s, c->r->ctx);
    for (int i = 0; i < COMMANDS; i++)
        zt_str_printf(&s, "%-8s %s\n", commands[i].name, commands[i].what);
    zt_status st = zt_ctx_status(c->r->ctx);
    if (st == ZT_OK)
        st = run_write(c->r, s.data, s.len);
    zt_str_fini(&s);
    return st;
}

static zt_status take_line(chat *c, const char *text)
{
    if (text[strspn(text, " \t")] == 0)
        return ZT_OK;
    if (text[0] != '/')
        return take_turn(c, text);
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(text, commands[i].name) == 0)
            return commands[i].run(c);
    zt_cli_note(c->r->cli, "no command '%s': /help tells which there are", text);
    return ZT_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A session's conversation goes on. */
static zt_status go_on(chat *c)
{
    run *r = c->r;
    zt_status s = ZT_OK;
    for (size_t i = 0; i < r->fed.count && s == ZT_OK; i++)
        s = zt_ids_push(r->ctx, &r->ids, r->fed.id[i]);
    c->begun = c->tokens = r->fed.count > 0;
    if (c->begun)
        zt_cli_note(r->cli, "%s: the conversation goes on after %zu tokens; /reset begins another",
                    r->o->session, r->fed.count);
    return s;
}

static zt_status converse(chat *c)
{
    zt_status s = ZT_OK;
    while (s == ZT_OK && !c->done) {
        char *text = read_line(c);
        if (text)
            s = take_line(c, text);
        else
            c->done = true;
        zt_free(c->r->ctx, text);
        if (s == ZT_EINTR) { /* while a command or a line's end was written */
            zt_ctx_clear(c->r->ctx);
            s = ZT_OK;
        }
        zt_cli_resume();
    }
    return s;
}

zt_status run_chat(run *r)
{
    chat c = {.r = r, .messages = json_array()};
    zt_str_init(&c.known, r->ctx);
    zt_status s = c.messages ? run_choose_template(r, false) : zt_fail(r->ctx, ZT_ENOMEM, "no memory");
    if (s == ZT_OK && !run_has_template(r))
        s = zt_fail(r->ctx, ZT_EUSAGE, "%s has no chat template: --template names one",
                    zt_gguf_name(r->gguf));
    if (s == ZT_OK)
        s = run_find_turn(r);
    if (s == ZT_OK)
        s = run_open_llm(r, 0, false);
    if (s == ZT_OK)
        s = go_on(&c);
    if (s == ZT_OK)
        s = open_line(&c);
    if (s == ZT_OK)
        s = converse(&c);
    close_line(&c);
    json_decref(c.messages);
    zt_str_fini(&c.known);
    if (s == ZT_OK && r->o->session)
        s = run_catch_up(r);
    return s == ZT_OK && r->o->session ? run_session_save(r) : s;
}
