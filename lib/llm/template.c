/* template.c - chat templates known by name: a conversation as the text that a model was trained on.
 *
 * One row a template: what stands before and after each role's text, and where the system's goes. They
 * are used where somebody asks for one; a model's own template is a program, and run
 * (chat_template.c). Golden renderings: jinja2's of some models' templates (tests/llm/templates).
 * template_file.c reads rows from JSON.
 */
#include "lib/llm/template.h"

#include <string.h>

/* In a row: the text of the model's BOS or EOS token. */
#define BOS "\x02"
#define EOS "\x03"
#define TURN "<|start_header_id|>"
#define HEAD "<|end_header_id|>\n\n"
#define INST_TRIM (1 << ZT_ROLE_USER | 1 << ZT_ROLE_ASSISTANT)
#define TRIM_ALL (INST_TRIM | 1 << ZT_ROLE_SYSTEM)

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
     .prefix = {TURN "system" HEAD
                "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n",
                TURN "user" HEAD, TURN "assistant" HEAD},
     .suffix = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
     .trim = TRIM_ALL,
     .always_system = true},
    {.name = "llama3",
     .prefix = {TURN "system" HEAD, TURN "user" HEAD, TURN "assistant" HEAD},
     .suffix = {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"},
     .trim = TRIM_ALL},
    {.name = "mistral-v7-tekken",
     .prefix = {"[SYSTEM_PROMPT]", "[INST]", ""},
     .suffix = {"[/SYSTEM_PROMPT]", "[/INST]", EOS}},
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
    {.name = "mistral-v3-tekken",
     .prefix = {"", "[INST]", ""},
     .suffix = {"\n\n", "[/INST]", EOS},
     .system = ZT_SYSTEM_IN_LAST},
    {.name = "mistral-v3",
     .prefix = {"", "[INST] ", " "},
     .suffix = {"\n\n", "[/INST]", EOS},
     .open = "",
     .trim = 1 << ZT_ROLE_ASSISTANT,
     .system = ZT_SYSTEM_IN_LAST},
    {.name = "mistral-v0.1",
     .prefix = {"", "[INST] ", ""},
     .suffix = {"\n\n", " [/INST]", EOS " "},
     .system = ZT_SYSTEM_IN_NEXT},
    {.name = "mistral",
     .prefix = {"", "[INST] ", ""},
     .suffix = {"\n\n", " [/INST]", EOS},
     .system = ZT_SYSTEM_IN_NEXT},
    {.name = "phi4-mini",
     .prefix = {"<|system|>", "<|user|>", "<|assistant|>"},
     .suffix = {"<|end|>", "<|end|>", "<|end|>"}},
    {.name = "phi3",
     .prefix = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .suffix = {"<|end|>\n", "<|end|>\n", "<|end|>\n"}},
    {.name = "tulu",
     .prefix = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .suffix = {"\n", "\n", EOS "\n"}},
    {.name = "zephyr",
     .prefix = {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
     .suffix = {EOS "\n", EOS "\n", EOS "\n"}},
    {.name = "granite",
     .prefix = {"<|start_of_role|>system<|end_of_role|>", "<|start_of_role|>user<|end_of_role|>",
                "<|start_of_role|>assistant<|end_of_role|>"},
     .suffix = {"<|end_of_text|>\n", "<|end_of_text|>\n", "<|end_of_text|>\n"}},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- which ----------------------------------------------------------------------------------- */

const zt_template *zt_template_find(const char *name)
{
    for (size_t i = 0; i < COUNT(templates); i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

const char *zt_template_name(const zt_template *t)
{
    return t->name;
}

const char *zt_template_list(int i)
{
    return i >= 0 && (size_t)i < COUNT(templates) ? templates[i].name : NULL;
}

zt_bytes zt_template_user(const zt_template *t)
{
    return zt_trimmed(t->prefix[ZT_ROLE_USER]);
}

/* ---- the default system text ----------------------------------------------------------------- */

static bool skip(zt_bytes *t, const char *what)
{
    size_t n = strlen(what);
    if (t->n < n || memcmp(t->data, what, n) != 0)
        return false;
    *t = (zt_bytes){t->data + n, t->n - n};
    return true;
}

/* What the model's ChatML template writes between "<|im_start|>system\n" and "<|im_end|>" as one
 * literal, {NULL, 0} if nothing: inside a string of the program (then it must end before the quote
 * that closes it) or outside of any (then before the next brace). Escapes are still in it. */
static zt_bytes default_system(zt_bytes text)
{
    static const char head[] = "<|im_start|>system", tail[] = "<|im_end|>";
    zt_bytes t = text;
    const char *p;
    while ((p = memmem(t.data, t.n, head, strlen(head)))) {
        char quote = p > text.data && (p[-1] == '\'' || p[-1] == '"') ? p[-1] : '{';
        t = (zt_bytes){p + strlen(head), (size_t)(text.data + text.n - p) - strlen(head)};
        if (!skip(&t, "\n") && !skip(&t, "\\n"))
            continue;
        const char *end = memmem(t.data, t.n, tail, strlen(tail));
        size_t len = 0, most = end ? (size_t)(end - t.data) : 0;
        while (len < most && t.data[len] != quote)
            len += t.data[len] == '\\' && len + 1 < most ? 2 : 1;
        if (len && len == most)
            return (zt_bytes){t.data, len};
    }
    return (zt_bytes){NULL, 0};
}

/* A piece of a Jinja string: \n is a line's end, any other escaped character itself. */
static zt_status put_literal(zt_bytes t, zt_str *out)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < t.n; i++) {
        char c = t.data[i];
        if (c == '\\' && i + 1 < t.n)
            c = t.data[++i] == 'n' ? '\n' : t.data[i];
        s = zt_str_putc(out, c);
    }
    return s;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static const char *const role_names[ZT_ROLES] = {"system", "user", "assistant"};

int zt_role_find(const char *name)
{
    for (int i = 0; i < ZT_ROLES; i++)
        if (strcmp(role_names[i], name) == 0)
            return i;
    return -1;
}

zt_bytes zt_trimmed(const char *s)
{
    static const char blank[] = " \t\r\n\v\f";
    const char *from = s + strspn(s, blank);
    zt_bytes t = {from, strlen(from)};
    while (t.n && strchr(blank, t.data[t.n - 1]))
        t.n--;
    return t;
}

typedef struct writer { /* a conversation on its way into pieces */
    zt_ctx *ctx;
    const zt_template *t;
    const zt_vocab *v;
    const zt_message *m;
    int n, system; /* system: the message that waits for a user's turn; -1: none */
    bool begun;    /* a user's turn was written */
    zt_piece_fn *fn;
    void *user;
} writer;

static zt_status put_token(writer *w, int32_t id, const char *otherwise, zt_str *out)
{
    return w->v && id >= 0 ? zt_vocab_decode(w->v, id, true, false, out)
                           : zt_str_puts(out, otherwise);
}

/* The template's own words, in which BOS and EOS stand for those tokens' texts. */
static zt_status put_own(writer *w, const char *text)
{
    zt_str s;
    zt_str_init(&s, w->ctx);
    zt_status st = ZT_OK;
    for (; *text && st == ZT_OK; text++) {
        if (*text == BOS[0])
            st = put_token(w, w->v ? zt_vocab_bos(w->v) : -1, "<s>", &s);
        else if (*text == EOS[0])
            st = put_token(w, w->v ? zt_vocab_eos(w->v) : -1, "</s>", &s);
        else
            st = zt_str_putc(&s, *text);
    }
    if (st == ZT_OK && s.len)
        st = w->fn(w->user, (zt_bytes){s.data, s.len}, -1);
    zt_str_fini(&s);
    return st;
}

/* Message k's text. `joined`: a system text stands before it in the same turn. */
static zt_status put_text(writer *w, int k, int role, bool joined)
{
    const char *text = w->m[k].content;
    zt_bytes t = {text, strlen(text)};
    if (w->t->trim >> role & 1) {
        t = zt_trimmed(text);
        if (joined && w->t->trim_joined)
            t = (zt_bytes){text, (size_t)(t.data + t.n - text)};
    }
    return t.n ? w->fn(w->user, t, k) : ZT_OK;
}

static zt_status put_turn(writer *w, int k, int role)
{
    const zt_template *t = w->t;
    bool user = role == ZT_ROLE_USER;
    zt_status s = user && w->begun && t->again ? put_own(w, t->again) : ZT_OK;
    bool joined = user && w->system >= 0;
    for (int i = k + 1; joined && t->system == ZT_SYSTEM_IN_LAST && i < w->n; i++)
        joined = zt_role_find(w->m[i].role) != ZT_ROLE_USER;
    if (s == ZT_OK)
        s = put_own(w, t->prefix[role]);
    if (s == ZT_OK && joined) {
        s = put_own(w, t->prefix[ZT_ROLE_SYSTEM]);
        if (s == ZT_OK)
            s = put_text(w, w->system, ZT_ROLE_SYSTEM, false);
        if (s == ZT_OK)
            s = put_own(w, t->suffix[ZT_ROLE_SYSTEM]);
        w->system = -1;
    }
    w->begun = w->begun || user;
    if (s == ZT_OK)
        s = put_text(w, k, role, joined);
    return s == ZT_OK ? put_own(w, t->suffix[role]) : s;
}

static zt_status check(zt_ctx *ctx, const zt_template *t, const zt_message *m, int n,
                       bool *has_system)
{
    *has_system = false;
    for (int i = 0; i < n; i++) {
        char shown[64];
        int role = zt_role_find(m[i].role);
        if (role < 0)
            return zt_fail(ctx, ZT_EUSAGE,
                           "message %d: role '%s' is none of system, user, assistant", i,
                           zt_escape(shown, sizeof shown, m[i].role, strlen(m[i].role)));
        *has_system = *has_system || role == ZT_ROLE_SYSTEM;
        if (!t->prefix[role])
            return zt_fail(ctx, ZT_EUSAGE, "template %s has no place for a %s message", t->name,
                           role_names[role]);
    }
    return ZT_OK;
}

/* The system text that opens a conversation which brings none. */
static zt_status put_default(writer *w, const zt_gguf *g)
{
    zt_bytes own = {NULL, 0};
    if (w->t->own_system && zt_gguf_str(g, "tokenizer.chat_template", &own))
        own = default_system(own);
    if (!own.n && !w->t->always_system)
        return ZT_OK;
    zt_str text;
    zt_str_init(&text, w->ctx);
    zt_status s = put_own(w, w->t->prefix[ZT_ROLE_SYSTEM]);
    if (s == ZT_OK)
        s = put_literal(own, &text);
    if (s == ZT_OK && text.len)
        s = w->fn(w->user, (zt_bytes){text.data, text.len}, -1);
    if (s == ZT_OK)
        s = put_own(w, w->t->suffix[ZT_ROLE_SYSTEM]);
    zt_str_fini(&text);
    return s;
}

static zt_status open_answer(writer *w)
{
    return put_own(w, w->t->open ? w->t->open : w->t->prefix[ZT_ROLE_ASSISTANT]);
}

zt_status zt_template_pieces(const zt_template *t, const zt_gguf *g, const zt_vocab *v,
                             const zt_message *m, int n, zt_piece_fn *fn, void *user)
{
    zt_ctx *ctx = zt_gguf_ctx(g);
    writer w = {.ctx = ctx, .t = t, .v = v, .m = m, .n = n, .system = -1, .fn = fn, .user = user};
    bool has_system;
    zt_status s = check(ctx, t, m, n, &has_system);
    if (s == ZT_OK && t->global_prefix)
        s = put_own(&w, t->global_prefix);
    if (s == ZT_OK && !has_system)
        s = put_default(&w, g);
    for (int i = 0; s == ZT_OK && i < n; i++) {
        int role = zt_role_find(m[i].role);
        if (role == ZT_ROLE_SYSTEM && t->system != ZT_SYSTEM_TURN)
            w.system = i;
        else
            s = put_turn(&w, i, role);
    }
    if (s == ZT_OK && w.system >= 0)
        s = zt_fail(ctx, ZT_EUSAGE, "template %s: a system message needs a user message after it",
                    t->name);
    if (s == ZT_OK)
        s = open_answer(&w);
    return s == ZT_OK && t->global_suffix ? put_own(&w, t->global_suffix) : s;
}

zt_status zt_template_next(const zt_template *t, const zt_gguf *g, const zt_vocab *v,
                           const char *text, bool close, zt_piece_fn *fn, void *user)
{
    zt_message m = {"user", text};
    writer w = {.ctx = zt_gguf_ctx(g), .t = t, .v = v, .m = &m, .n = 1, .system = -1,
                .begun = true, .fn = fn, .user = user};
    zt_status s = close ? put_own(&w, t->suffix[ZT_ROLE_ASSISTANT]) : ZT_OK;
    if (s == ZT_OK)
        s = put_turn(&w, 0, ZT_ROLE_USER);
    return s == ZT_OK ? open_answer(&w) : s;
}

static zt_status put_piece(void *user, zt_bytes text, int message)
{
    (void)message;
    return zt_str_put(user, text.data, text.n);
}

zt_status zt_template_render(const zt_template *t, const zt_gguf *g, const zt_vocab *v,
                             const zt_message *m, int n, zt_str *out)
{
    return zt_template_pieces(t, g, v, m, n, put_piece, out);
}
