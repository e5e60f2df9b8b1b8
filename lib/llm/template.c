/* template.c - chat templates: a conversation as the text that a model was trained on.
 *
 * One row a template. A model's own template is a Jinja program; it is not run, but recognised by
 * texts that it must and must not hold. Golden renderings: those of transformers.
 */
#include "lib/llm/llm.h"

#include <string.h>

typedef zt_status render_fn(zt_bytes system, const zt_message *m, int n, zt_str *out);

struct zt_template {
    const char *name;
    const char *tell;    /* the model's template holds this ... */
    const char *not_tell; /* ... and not this; NULL: whatever */
    /* `system`: the default system text, used where the conversation has none. */
    render_fn *render;
};

static render_fn render_chatml, render_gemma;

static const zt_template templates[] = {
    {"chatml", "<|im_start|>", "<|im_sep|>", render_chatml},
    {"gemma", "<start_of_turn>", NULL, render_gemma},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool holds(zt_bytes text, const char *what)
{
    return what && memmem(text.data, text.n, what, strlen(what)) != NULL;
}

const zt_template *zt_template_of(const zt_gguf *g)
{
    zt_bytes text;
    if (!zt_gguf_str(g, "tokenizer.chat_template", &text))
        return NULL;
    for (size_t i = 0; i < COUNT(templates); i++)
        if (holds(text, templates[i].tell) && !holds(text, templates[i].not_tell))
            return &templates[i];
    zt_fail(zt_gguf_ctx(g), ZT_ENOTSUP,
            "%s: its chat template is not known (known: chatml, gemma); --raw runs it without one",
            zt_gguf_name(g));
    return NULL;
}

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

/* ---- the default system text ----------------------------------------------------------------------- */

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

/* ---- rendering --------------------------------------------------------------------------------------- */

static zt_bytes whole(const char *s)
{
    return (zt_bytes){s, strlen(s)};
}

static zt_bytes trimmed(const char *s)
{
    static const char blank[] = " \t\r\n\v\f";
    zt_bytes t = whole(s + strspn(s, blank));
    while (t.n && strchr(blank, t.data[t.n - 1]))
        t.n--;
    return t;
}

/* Several puts with one check: a failed one leaves the string as it was and its error behind. */
static zt_status put_all(zt_str *out, const zt_bytes *part, size_t n)
{
    zt_status s = ZT_OK;
    for (size_t i = 0; !s && i < n; i++)
        s = zt_str_put(out, part[i].data, part[i].n);
    return s;
}

#define PUT(out, ...)                                                                              \
    put_all(out, (const zt_bytes[]){__VA_ARGS__}, COUNT(((const zt_bytes[]){__VA_ARGS__})))

static bool is(const zt_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

static zt_status check(zt_ctx *ctx, const zt_message *m, int n)
{
    for (int i = 0; i < n; i++)
        if (!is(&m[i], "system") && !is(&m[i], "user") && !is(&m[i], "assistant"))
            return zt_fail(ctx, ZT_EUSAGE,
                           "message %d: role '%s' is none of system, user, assistant", i, m[i].role);
    return ZT_OK;
}

static zt_status render_chatml(zt_bytes system, const zt_message *m, int n, zt_str *out)
{
    bool has_system = false;
    zt_status s = ZT_OK;
    for (int i = 0; i < n; i++)
        has_system = has_system || is(&m[i], "system");
    if (!has_system && system.n) {
        s = PUT(out, whole("<|im_start|>system\n"));
        if (!s)
            s = put_literal(system, out);
        if (!s)
            s = PUT(out, whole("<|im_end|>\n"));
    }
    for (int i = 0; !s && i < n; i++)
        s = PUT(out, whole("<|im_start|>"), whole(m[i].role), whole("\n"), whole(m[i].content),
                whole("<|im_end|>\n"));
    return s ? s : PUT(out, whole("<|im_start|>assistant\n"));
}

/* Gemma has no system turn: that text opens the user's next turn. BOS, with which Gemma's template
 * begins, is not part of the text: encoding puts it by the model's rule. */
static zt_status render_gemma(zt_bytes system, const zt_message *m, int n, zt_str *out)
{
    const zt_bytes nothing = {"", 0};
    zt_bytes before = nothing;
    zt_status s = ZT_OK;
    (void)system;
    for (int i = 0; !s && i < n; i++) {
        bool user = is(&m[i], "user");
        if (is(&m[i], "system")) {
            before = whole(m[i].content);
            continue;
        }
        s = PUT(out, whole("<start_of_turn>"), whole(user ? "user" : "model"), whole("\n"),
                user ? before : nothing, whole(user && before.n ? "\n\n" : ""),
                trimmed(m[i].content), whole("<end_of_turn>\n"));
        if (user)
            before = nothing;
    }
    if (!s && before.n)
        return zt_fail(out->ctx, ZT_EUSAGE,
                       "template gemma: a system message needs a user message after it");
    return s ? s : PUT(out, whole("<start_of_turn>model\n"));
}

zt_status zt_template_render(const zt_template *t, const zt_gguf *g, const zt_message *m, int n,
                             zt_str *out)
{
    zt_bytes own = {NULL, 0}, system = {NULL, 0};
    if (zt_gguf_str(g, "tokenizer.chat_template", &own))
        system = default_system(own);
    zt_status s = check(out->ctx, m, n);
    return s ? s : t->render(system, m, n, out);
}
