/* template.c - which chat template is used: the model's own, which is a program; another of --template;
 * one that is known by name. And what a program is run with. */
#include "lib/base/near.h"
#include "tools/zt-run/run.h"

#include "lib/base/foreign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A template's file is some tens of kilobytes. */
#define MOST_BYTES ((size_t)4 << 20)

struct run_templates {
    zt_jinja *own, *own_tools; /* the model's default, and its tool_use */
    char *own_name, *tools_name;
    bool no_tools;    /* there is no tool_use */
    zt_jinja *other;  /* of --template */
    zt_template *row; /* of --template, from JSON */
    char *text;       /* of the file */
    json_t *tokens;   /* bos_token and so on */
    json_t *args;     /* of --template-arg */
    zt_str turn;      /* what opens a user's turn in `turn_of` */
    const zt_jinja *turn_of;
};

run_templates *run_templates_new(const run *r)
{
    run_templates *t = zt_calloc(r->ctx, 1, sizeof *t);
    if (t)
        zt_str_init(&t->turn, r->ctx);
    return t;
}

void run_templates_free(const run *r)
{
    run_templates *t = r->templates;
    if (!t)
        return;
    zt_jinja_free(t->own);
    zt_jinja_free(t->own_tools);
    zt_jinja_free(t->other);
    zt_template_free(r->ctx, t->row);
    zt_free(r->ctx, t->own_name);
    zt_free(r->ctx, t->tools_name);
    zt_free(r->ctx, t->text);
    json_decref(t->tokens);
    json_decref(t->args);
    zt_str_fini(&t->turn);
    zt_free(r->ctx, t);
}

bool run_has_template(const run *r)
{
    return r->tmpl || r->jinja;
}

/* ---- the model's own ------------------------------------------------------------------------- */

/* "m.gguf: chat template", for messages. */
static char *name_of(run *r, const char *variant)
{
    zt_str s;
    zt_str_init(&s, r->ctx);
    zt_str_printf(&s, "%s: chat template%s%s", zt_gguf_name(r->gguf), variant ? " " : "",
                  variant ? variant : "");
    char *name = zt_ctx_status(r->ctx) == ZT_OK ? zt_strdup(r->ctx, s.data) : NULL;
    zt_str_fini(&s);
    return name;
}

static zt_jinja *open_variant(run *r, const char *variant, zt_bytes text, char **name)
{
    *name = name_of(r, variant);
    return *name ? zt_jinja_parse(r->ctx, *name, text.data, text.n) : NULL;
}

/* Some files have variants and no default. */
static zt_status need_default(run *r)
{
    zt_str names;
    zt_str_init(&names, r->ctx);
    zt_status s = zt_chat_template_variants(r->gguf, &names);
    if (s == ZT_OK && names.len)
        s = zt_fail(r->ctx, ZT_EUSAGE, "%s has no default chat template: --template is one of %s",
                    zt_gguf_name(r->gguf), names.data);
    zt_str_fini(&names);
    return s;
}

static zt_status choose_own(run *r, bool tools)
{
    run_templates *t = r->templates;
    zt_bytes text;
    if (tools && !t->own_tools && !t->no_tools) {
        t->no_tools = !zt_chat_template(r->gguf, "tool_use", &text);
        if (!t->no_tools)
            t->own_tools = open_variant(r, "tool_use", text, &t->tools_name);
    }
    if (!(tools && t->own_tools) && !t->own && zt_ctx_status(r->ctx) == ZT_OK) {
        if (!zt_chat_template(r->gguf, NULL, &text))
            return need_default(r);
        t->own = open_variant(r, NULL, text, &t->own_name);
    }
    r->jinja = tools && t->own_tools ? t->own_tools : t->own;
    return zt_ctx_status(r->ctx);
}

/* ---- --template ------------------------------------------------------------------------------ */

static const char *template_name(const void *user, int i)
{
    (void)user;
    return zt_template_list(i);
}

static zt_status unknown_template(run *r, const char *name)
{
    char shown[128];
    zt_near_hint hint;
    zt_str names, own;
    zt_str_init(&names, r->ctx);
    zt_str_init(&own, r->ctx);
    for (int i = 0; zt_template_list(i); i++)
        zt_str_printf(&names, "%s%s", i ? ", " : "", zt_template_list(i));
    zt_status s = zt_chat_template_variants(r->gguf, &own);
    if (s == ZT_OK)
        s = zt_fail(r->ctx, ZT_EUSAGE,
                    "--template '%s' is no file and none of %s%s%s%s; --raw uses none",
                    zt_escape(shown, sizeof shown, name, strlen(name)), names.data,
                    own.len ? ", and of the model's own " : "", own.len ? own.data : "",
                    zt_near(hint, name, template_name, NULL));
    zt_str_fini(&names);
    zt_str_fini(&own);
    return s;
}

/* An object is a template by rule, in JSON; everything else a program. */
static bool is_json(const char *text)
{
    text += strspn(text, " \t\r\n");
    if (*text == '[')
        return true;
    return *text == '{' && !strchr("{%#", text[1] ? text[1] : ' ');
}

static zt_status open_file(run *r, const char *path)
{
    run_templates *t = r->templates;
    size_t n;
    t->text = zt_read_all(r->ctx, path, &n);
    if (!t->text || zt_foreign_fail(r->ctx, path, t->text, n) != ZT_OK)
        return zt_ctx_status(r->ctx);
    if (n > MOST_BYTES)
        return zt_fail(r->ctx, ZT_EDATA, "%s: a template of %zu bytes, more than %zu", path, n,
                       MOST_BYTES);
    if (is_json(t->text))
        t->row = zt_template_open(r->ctx, path);
    else
        t->other = zt_jinja_parse(r->ctx, path, t->text, n);
    return zt_ctx_status(r->ctx);
}

/* A variant of the model's, a name that is known, else a file. */
static zt_status choose_named(run *r, const char *name)
{
    run_templates *t = r->templates;
    zt_bytes text;
    zt_status s = ZT_OK;
    if (!t->other && !t->row && zt_chat_template(r->gguf, name, &text)) {
        t->other = open_variant(r, name, text, &t->own_name);
        s = zt_ctx_status(r->ctx);
    }
    if (!t->other && !t->row && s == ZT_OK)
        r->tmpl = zt_template_find(name);
    if (r->tmpl || s != ZT_OK)
        return s;
    if (!t->other && !t->row) {
        if (access(name, F_OK) != 0 && !strchr(name, '/') && !strchr(name, '.'))
            return unknown_template(r, name);
        s = open_file(r, name);
    }
    r->jinja = t->other;
    r->tmpl = t->row;
    return s;
}

/* ---- --template-arg -------------------------------------------------------------------------- */

static zt_status wrong_arg(run *r, const char *arg, const char *why)
{
    char shown[128];
    return zt_fail(r->ctx, ZT_EUSAGE, "--template-arg '%s': %s",
                   zt_escape(shown, sizeof shown, arg, strlen(arg)), why);
}

static zt_status read_arg(run *r, const char *arg)
{
    const char *is = strchr(arg, '=');
    if (!is || is == arg)
        return wrong_arg(r, arg, "KEY=JSON is expected");
    json_t *value = json_loads(is + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    char *key = value ? zt_strndup(r->ctx, arg, (size_t)(is - arg)) : NULL;
    zt_status s = zt_ctx_status(r->ctx);
    if (!value)
        s = wrong_arg(r, arg, "the value is not JSON (a text is written \"...\")");
    else if (key && (strcmp(key, "messages") == 0 || json_object_get(r->templates->args, key)))
        s = wrong_arg(r, arg, strcmp(key, "messages") == 0 ? "messages are the prompt's"
                                                           : "the argument is given twice");
    else if (key && json_object_set(r->templates->args, key, value) != 0)
        s = zt_fail(r->ctx, ZT_ENOMEM, "no memory for a template's argument");
    json_decref(value);
    zt_free(r->ctx, key);
    return s;
}

static zt_status read_args(run *r)
{
    const zt_opt_list *list = &r->o->template_args;
    if (r->templates->args)
        return ZT_OK;
    r->templates->args = json_object();
    zt_status s = r->templates->args ? ZT_OK : zt_fail(r->ctx, ZT_ENOMEM, "no memory");
    for (int i = 0; s == ZT_OK && i < list->n; i++)
        s = read_arg(r, list->item[i]);
    return s;
}

/* Nothing that is given goes by: it is read by the template, or an error. */
static zt_status check_read(run *r, const json_t *given, zt_status status)
{
    const char *key;
    char shown[64];
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)given, key, value)
        if (!zt_jinja_uses(r->jinja, key))
            return zt_fail(r->ctx, status, "the chat template does not read '%s'",
                           zt_escape(shown, sizeof shown, key, strlen(key)));
    return ZT_OK;
}

zt_status run_choose_template(run *r, bool tools)
{
    r->tmpl = NULL;
    r->jinja = NULL;
    if (r->o->raw)
        return ZT_OK;
    zt_status s = r->o->template ? choose_named(r, r->o->template) : choose_own(r, tools);
    if (s == ZT_OK)
        s = read_args(r);
    if (s == ZT_OK && r->jinja)
        s = check_read(r, r->templates->args, ZT_EUSAGE);
    if (s == ZT_OK && r->tmpl && r->o->template_args.n)
        s = zt_fail(r->ctx, ZT_EUSAGE, "--template-arg: template %s takes no arguments",
                    zt_template_name(r->tmpl));
    return s;
}

/* ---- rendering ------------------------------------------------------------------------------- */

/* SOURCE_DATE_EPOCH makes what is written of the date the same every day. */
static int64_t now(bool *utc)
{
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    int64_t t;
    *utc = fixed && zt_parse_i64(fixed, &t);
    return *utc ? t : (int64_t)time(NULL);
}

json_t *run_message(run *r, const char *role, const char *content, size_t n)
{
    json_t *m = json_pack("{s:s}", "role", role);
    if (m && json_object_set_new(m, "content", json_stringn_nocheck(content, n)) == 0)
        return m;
    json_decref(m);
    zt_fail(r->ctx, ZT_ENOMEM, "no memory for a message");
    return NULL;
}

/* The variables; those of the request go before the command line's. */
static json_t *variables(run *r, const json_t *messages, const run_beside *b)
{
    json_t *v = json_object();
    bool good = v && json_object_set(v, "messages", (json_t *)(uintptr_t)messages) == 0 &&
                json_object_set_new(v, "tools", json_null()) == 0 &&
                json_object_set_new(v, "documents", json_null()) == 0 &&
                json_object_set_new(v, "add_generation_prompt", json_true()) == 0 &&
                json_object_update(v, r->templates->args) == 0;
    if (good && b && b->args)
        good = json_object_update(v, (json_t *)(uintptr_t)b->args) == 0;
    if (good && b && b->tools)
        good = json_object_set(v, "tools", (json_t *)(uintptr_t)b->tools) == 0;
    if (good && b && b->documents)
        good = json_object_set(v, "documents", (json_t *)(uintptr_t)b->documents) == 0;
    if (good)
        return v;
    json_decref(v);
    zt_fail(r->ctx, ZT_ENOMEM, "no memory for a conversation");
    return NULL;
}

static zt_status check_beside(run *r, const run_beside *b)
{
    zt_status s = b && b->args ? check_read(r, b->args, ZT_EDATA) : ZT_OK;
    if (s == ZT_OK && b && b->tools && !zt_jinja_uses(r->jinja, "tools"))
        s = zt_fail(r->ctx, ZT_EDATA, "the chat template has no place for tools");
    if (s == ZT_OK && b && b->documents && !zt_jinja_uses(r->jinja, "documents"))
        s = zt_fail(r->ctx, ZT_EDATA, "the chat template has no place for documents");
    return s;
}

zt_status run_render_messages(run *r, const json_t *messages, const run_beside *beside,
                              zt_str *text, zt_str *origin)
{
    run_templates *t = r->templates;
    zt_jinja_vars vars = {0};
    zt_status s = check_beside(r, beside);
    if (s == ZT_OK && !t->tokens && !(t->tokens = zt_chat_template_tokens(r->gguf, r->vocab)))
        s = zt_fail(r->ctx, ZT_ENOMEM, "no memory for the special tokens");
    if (s != ZT_OK)
        return s;
    json_t *input = variables(r, messages, beside);
    if (!input)
        return ZT_ENOMEM;
    vars.input = input;
    vars.own = t->tokens;
    vars.now = now(&vars.utc);
    s = zt_jinja_render(r->ctx, r->jinja, &vars, text, origin);
    json_decref(input);
    return s;
}

/* ---- the words that open a user's turn ------------------------------------------------------- */

static const char blanks[] = " \t\r\n\v\f";

static void trim(zt_bytes *t)
{
    while (t->n && strchr(blanks, *t->data))
        t->data++, t->n--;
    while (t->n && strchr(blanks, t->data[t->n - 1]))
        t->n--;
}

/* Behind the first token in t that ends a text, and the one that begins one. */
static zt_status skip_end(run *r, zt_bytes *t)
{
    zt_ids ids = {0};
    zt_str word;
    zt_str_init(&word, r->ctx);
    zt_status s = zt_vocab_encode(r->vocab, t->data, t->n, ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; s == ZT_OK && i < ids.count; i++) {
        bool end = zt_vocab_is_eog(r->vocab, ids.id[i]), bos = ids.id[i] == zt_vocab_bos(r->vocab);
        if (!end && !bos)
            continue;
        zt_str_clear(&word);
        s = zt_vocab_decode(r->vocab, ids.id[i], true, false, &word);
        const char *hit = s == ZT_OK && word.len ? memmem(t->data, t->n, word.data, word.len) : NULL;
        if (hit && (end || hit == t->data))
            *t = (zt_bytes){hit + word.len, (size_t)(t->data + t->n - hit) - word.len};
    }
    zt_ids_fini(r->ctx, &ids);
    zt_str_fini(&word);
    return s;
}

/* What a program writes between an answer and the message after it. */
static zt_status find_turn(run *r, zt_str *turn)
{
    static const char *const said[] = {"zt-run's question", "zt-run's answer", "zt-run's next"};
    zt_str text;
    zt_str_init(&text, r->ctx);
    json_t *m = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(m, run_message(r, i == 1 ? "assistant" : "user", said[i],
                                             strlen(said[i])));
    zt_status s = m && json_array_size(m) == 3 ? run_render_messages(r, m, NULL, &text, NULL)
                                               : zt_fail(r->ctx, ZT_ENOMEM, "no memory");
    json_decref(m);
    const char *from = s == ZT_OK && text.len ? strstr(text.data, said[1]) : NULL;
    const char *to = from ? strstr(from, said[2]) : NULL;
    if (to) {
        from += strlen(said[1]);
        zt_bytes t = {from, (size_t)(to - from)};
        s = skip_end(r, &t);
        trim(&t);
        if (s == ZT_OK)
            s = zt_str_put(turn, t.data, t.n);
    }
    zt_str_fini(&text);
    return s;
}

/* A template that refuses three messages has no such words. */
zt_status run_find_turn(run *r)
{
    run_templates *t = r->templates;
    if (!r->jinja || t->turn_of == r->jinja)
        return ZT_OK;
    t->turn_of = r->jinja;
    zt_str_clear(&t->turn);
    zt_status s = find_turn(r, &t->turn);
    if (s != ZT_EDATA && s != ZT_ENOTSUP)
        return s;
    zt_ctx_clear(r->ctx);
    return ZT_OK;
}

zt_bytes run_turn_text(const run *r)
{
    const run_templates *t = r->templates;
    if (r->tmpl)
        return zt_template_user(r->tmpl);
    return r->jinja && t->turn_of == r->jinja && t->turn.len ? (zt_bytes){t->turn.data, t->turn.len}
                                                             : (zt_bytes){NULL, 0};
}
