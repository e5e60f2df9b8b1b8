/* template.c - chooses the chat template, and renders conversations with one that is a program.
 *
 *   no --template      the model's own: a program (Jinja)
 *   --template NAME    a variant of the model's own, else one that is built in: rules (JSON)
 *   --template FILE    a JSON object is a template by rule, anything else is a program
 */
#include "lib/base/near.h"
#include "tools/zt-run/run.h"

#include "lib/base/foreign.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The largest file of a template. Real ones have some tens of kilobytes. */
#define MOST_BYTES ((size_t)4 << 20)

struct run_templates {
    zt_jinja *own_template, *tools_template; /* the model's default, and its variant tool_use */
    char *own_name, *tools_name;
    bool no_tools_template;   /* there is no tool_use */
    zt_jinja *given_program;  /* of --template */
    zt_template *given_rules; /* of --template, from JSON */
    char *file_text;          /* of the file */
    json_t *tokens;           /* bos_token and so on */
    json_t *given_args;       /* of --template-arg */
    zt_str turn_text;         /* what opens a user's turn in `turn_of` */
    const zt_jinja *turn_of;
};

run_templates *run_templates_new(const run_state *run)
{
    run_templates *templates = zt_calloc(run->ctx, 1, sizeof *templates);
    if (templates) zt_str_init(&templates->turn_text, run->ctx);
    return templates;
}

void run_templates_free(const run_state *run)
{
    run_templates *templates = run->templates;
    if (!templates) return;
    zt_jinja_free(templates->own_template);
    zt_jinja_free(templates->tools_template);
    zt_jinja_free(templates->given_program);
    zt_template_free(run->ctx, templates->given_rules);
    zt_free(run->ctx, templates->own_name);
    zt_free(run->ctx, templates->tools_name);
    zt_free(run->ctx, templates->file_text);
    json_decref(templates->tokens);
    json_decref(templates->given_args);
    zt_str_fini(&templates->turn_text);
    zt_free(run->ctx, templates);
}

const json_t *run_template_args(const run_state *run) { return run->templates ? run->templates->given_args : NULL; }

bool run_has_template(const run_state *run) { return run->template || run->jinja; }

/* ---- the model's own ------------------------------------------------------------------------- */

/* "m.gguf: chat template", for error messages. */
static char *template_title(run_state *run, const char *variant)
{
    zt_str text;
    zt_str_init(&text, run->ctx);
    zt_str_printf(&text, "%s: chat template%s%s", zt_gguf_name(run->gguf), variant ? " " : "", variant ? variant : "");
    char *name = zt_ctx_status(run->ctx) == ZT_OK ? zt_strdup(run->ctx, text.data) : NULL;
    zt_str_fini(&text);
    return name;
}

static zt_jinja *open_variant(run_state *run, const char *variant, zt_bytes text, char **name)
{
    *name = template_title(run, variant);
    return *name ? zt_jinja_parse(run->ctx, *name, text.data, text.n) : NULL;
}

/* An error if the file has variants, but no default. */
static zt_status need_default(run_state *run)
{
    zt_str names;
    zt_str_init(&names, run->ctx);
    zt_status status = zt_chat_template_variants(run->gguf, &names);
    if (status == ZT_OK && names.len)
        status = zt_fail(run->ctx, ZT_EUSAGE, "%s has no default chat template: specify --template, one of %s",
                         zt_gguf_name(run->gguf), names.data);
    zt_str_fini(&names);
    return status;
}

static zt_status choose_own(run_state *run, bool tools)
{
    run_templates *templates = run->templates;
    zt_bytes text;
    if (tools && !templates->tools_template && !templates->no_tools_template) {
        templates->no_tools_template = !zt_chat_template(run->gguf, "tool_use", &text);
        if (!templates->no_tools_template)
            templates->tools_template = open_variant(run, "tool_use", text, &templates->tools_name);
    }
    if (!(tools && templates->tools_template) && !templates->own_template && zt_ctx_status(run->ctx) == ZT_OK) {
        if (!zt_chat_template(run->gguf, NULL, &text)) return need_default(run);
        templates->own_template = open_variant(run, NULL, text, &templates->own_name);
    }
    run->jinja = tools && templates->tools_template ? templates->tools_template : templates->own_template;
    return zt_ctx_status(run->ctx);
}

/* ---- --template ------------------------------------------------------------------------------ */

const char *run_template_names(const void *user, int i)
{
    (void)user;
    return zt_template_list(i);
}

static zt_status unknown_template(run_state *run, const char *name)
{
    char shown[128];
    zt_near_hint hint;
    zt_str names, own;
    zt_str_init(&names, run->ctx);
    zt_str_init(&own, run->ctx);
    for (int i = 0; zt_template_list(i); i++) zt_str_printf(&names, "%s%s", i ? ", " : "", zt_template_list(i));
    zt_status status = zt_chat_template_variants(run->gguf, &own);
    if (status == ZT_OK)
        status =
            zt_fail(run->ctx, ZT_EUSAGE, "--template: '%s' is neither a file nor one of %s%s%s%s; --raw disables the template",
                    zt_escape(shown, sizeof shown, name, strlen(name)), names.data, own.len ? " or the model's own " : "",
                    own.len ? own.data : "", zt_near(hint, name, run_template_names, NULL));
    zt_str_fini(&names);
    zt_str_fini(&own);
    return status;
}

/* Does the file hold a template by rule, a JSON object? Else it is a program. */
static bool is_json(const char *text)
{
    text += strspn(text, " \t\r\n");
    if (*text == '[') return true;
    return *text == '{' && !strchr("{%#", text[1] ? text[1] : ' ');
}

static zt_status open_file(run_state *run, const char *path)
{
    run_templates *templates = run->templates;
    size_t size;
    templates->file_text = zt_read_all(run->ctx, path, &size);
    if (!templates->file_text || zt_foreign_fail(run->ctx, path, templates->file_text, size) != ZT_OK)
        return zt_ctx_status(run->ctx);
    if (size > MOST_BYTES)
        return zt_fail(run->ctx, ZT_EDATA, "%s: template of %zu bytes, the limit is %zu", path, size, MOST_BYTES);
    if (is_json(templates->file_text))
        templates->given_rules = zt_template_open(run->ctx, path);
    else
        templates->given_program = zt_jinja_parse(run->ctx, path, templates->file_text, size);
    return zt_ctx_status(run->ctx);
}

/* Chooses by name: a variant of the model's own, else a built-in template, else a file. */
static zt_status choose_named(run_state *run, const char *name)
{
    run_templates *templates = run->templates;
    zt_bytes text;
    zt_status status = ZT_OK;
    if (!templates->given_program && !templates->given_rules && zt_chat_template(run->gguf, name, &text)) {
        templates->given_program = open_variant(run, name, text, &templates->own_name);
        status = zt_ctx_status(run->ctx);
    }
    if (!templates->given_program && !templates->given_rules && status == ZT_OK) run->template = zt_template_find(name);
    if (run->template || status != ZT_OK) return status;
    if (!templates->given_program && !templates->given_rules) {
        if (access(name, F_OK) != 0 && !strchr(name, '/') && !strchr(name, '.')) return unknown_template(run, name);
        status = open_file(run, name);
    }
    run->jinja = templates->given_program;
    run->template = templates->given_rules;
    return status;
}

/* ---- --template-arg -------------------------------------------------------------------------- */

static zt_status wrong_arg(run_state *run, const char *arg, const char *why)
{
    char shown[128];
    return zt_fail(run->ctx, ZT_EUSAGE, "--template-arg '%s': %s", zt_escape(shown, sizeof shown, arg, strlen(arg)), why);
}

static zt_status read_arg(run_state *run, const char *arg)
{
    const char *equals = strchr(arg, '=');
    if (!equals || equals == arg) return wrong_arg(run, arg, "expected KEY=JSON");
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    char *key = value ? zt_strndup(run->ctx, arg, (size_t)(equals - arg)) : NULL;
    zt_status status = zt_ctx_status(run->ctx);
    if (!value)
        status = wrong_arg(run, arg, "the value is not JSON (a string needs quotes: \"...\")");
    else if (key && (strcmp(key, "messages") == 0 || json_object_get(run->templates->given_args, key)))
        status =
            wrong_arg(run, arg, strcmp(key, "messages") == 0 ? "messages come from the prompt" : "the variable is given twice");
    else if (key && json_object_set(run->templates->given_args, key, value) != 0)
        status = zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    json_decref(value);
    zt_free(run->ctx, key);
    return status;
}

static zt_status read_args(run_state *run)
{
    const zt_opt_list *list = &run->options->template_args;
    if (run->templates->given_args) return ZT_OK;
    run->templates->given_args = json_object();
    zt_status status = run->templates->given_args ? ZT_OK : zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    for (int i = 0; status == ZT_OK && i < list->n; i++) status = read_arg(run, list->item[i]);
    return status;
}

/* An argument that the template does not read is an error. */
static zt_status check_read(run_state *run, const json_t *given, zt_status status)
{
    const char *key;
    char shown[64];
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)given, key, value) if (!zt_jinja_uses(run->jinja, key)) return zt_fail(
        run->ctx, status, "the chat template does not use the variable '%s'", zt_escape(shown, sizeof shown, key, strlen(key)));
    return ZT_OK;
}

zt_status run_choose_template(run_state *run, bool tools)
{
    run->template = NULL;
    run->jinja = NULL;
    if (run->options->raw) return ZT_OK;
    zt_status status = run->options->template ? choose_named(run, run->options->template) : choose_own(run, tools);
    if (status == ZT_OK) status = read_args(run);
    if (status == ZT_OK && run->jinja) status = check_read(run, run->templates->given_args, ZT_EUSAGE);
    if (status == ZT_OK && run->template && run->options->template_args.n)
        status = zt_fail(run->ctx, ZT_EUSAGE, "--template-arg: template %s has no variables", zt_template_name(run->template));
    return status;
}

/* ---- rendering ------------------------------------------------------------------------------- */

/* The time that templates see: SOURCE_DATE_EPOCH if it is set, so that prompts can be reproduced; else now. */
static int64_t render_time(bool *utc)
{
    const char *fixed = getenv("SOURCE_DATE_EPOCH");
    int64_t seconds;
    *utc = fixed && zt_parse_i64(fixed, &seconds);
    return *utc ? seconds : (int64_t)time(NULL);
}

json_t *run_message(run_state *run, const char *role, const char *content, size_t size)
{
    json_t *message = json_pack("{s:s}", "role", role);
    if (message && json_object_set_new(message, "content", json_stringn_nocheck(content, size)) == 0) return message;
    json_decref(message);
    zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    return NULL;
}

/* The template's variables. Those of the request take precedence over the command line's. */
static json_t *render_variables(run_state *run, const json_t *messages, const run_beside *beside)
{
    json_t *variables = json_object();
    bool good = variables && json_object_set(variables, "messages", (json_t *)(uintptr_t)messages) == 0 &&
                json_object_set_new(variables, "tools", json_null()) == 0 &&
                json_object_set_new(variables, "documents", json_null()) == 0 &&
                json_object_set_new(variables, "add_generation_prompt", json_true()) == 0 &&
                json_object_update(variables, run->templates->given_args) == 0;
    if (good && beside && beside->args) good = json_object_update(variables, (json_t *)(uintptr_t)beside->args) == 0;
    if (good && beside && beside->tools) good = json_object_set(variables, "tools", (json_t *)(uintptr_t)beside->tools) == 0;
    if (good && beside && beside->documents)
        good = json_object_set(variables, "documents", (json_t *)(uintptr_t)beside->documents) == 0;
    if (good) return variables;
    json_decref(variables);
    zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    return NULL;
}

static zt_status check_beside(run_state *run, const run_beside *beside)
{
    zt_status status = beside && beside->args ? check_read(run, beside->args, ZT_EDATA) : ZT_OK;
    if (status == ZT_OK && beside && beside->tools && !zt_jinja_uses(run->jinja, "tools"))
        status = zt_fail(run->ctx, ZT_EDATA, "the chat template does not support tools");
    if (status == ZT_OK && beside && beside->documents && !zt_jinja_uses(run->jinja, "documents"))
        status = zt_fail(run->ctx, ZT_EDATA, "the chat template does not support documents");
    return status;
}

zt_status run_render_messages(run_state *run, const json_t *messages, const run_beside *beside, zt_str *text, zt_str *origin)
{
    run_templates *templates = run->templates;
    zt_jinja_vars vars = {0};
    zt_status status = check_beside(run, beside);
    if (status == ZT_OK && !templates->tokens && !(templates->tokens = zt_chat_template_tokens(run->gguf, run->vocab)))
        status = zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    if (status != ZT_OK) return status;
    json_t *input = render_variables(run, messages, beside);
    if (!input) return ZT_ENOMEM;
    vars.input = input;
    vars.own = templates->tokens;
    vars.now = render_time(&vars.utc);
    status = zt_jinja_render(run->ctx, run->jinja, &vars, text, origin);
    json_decref(input);
    return status;
}

/* ---- the words that open a user's turn ------------------------------------------------------- */

static const char blanks[] = " \t\r\n\v\f";

static void trim_blanks(zt_bytes *text)
{
    while (text->n && strchr(blanks, *text->data)) text->data++, text->n--;
    while (text->n && strchr(blanks, text->data[text->n - 1])) text->n--;
}

/* Drops from the beginning of *text: all up to a token that ends a text, and a BOS. */
static zt_status skip_end(run_state *run, zt_bytes *text)
{
    zt_ids ids = {0};
    zt_str word;
    zt_str_init(&word, run->ctx);
    zt_status status = zt_vocab_encode(run->vocab, text->data, text->n, ZT_TOK_SPECIAL, &ids);
    for (size_t i = 0; status == ZT_OK && i < ids.count; i++) {
        bool end = zt_vocab_is_eog(run->vocab, ids.id[i]), bos = ids.id[i] == zt_vocab_bos(run->vocab);
        if (!end && !bos) continue;
        zt_str_clear(&word);
        status = zt_vocab_decode(run->vocab, ids.id[i], true, false, &word);
        const char *hit = status == ZT_OK && word.len ? memmem(text->data, text->n, word.data, word.len) : NULL;
        if (hit && (end || hit == text->data))
            *text = (zt_bytes){hit + word.len, (size_t)(text->data + text->n - hit) - word.len};
    }
    zt_ids_fini(run->ctx, &ids);
    zt_str_fini(&word);
    return status;
}

/* What a program writes between an answer and the message after it, without the token that ends the answer. */
static zt_status find_turn(run_state *run, zt_str *turn)
{
    static const char *const said[] = {"zt-run's question", "zt-run's answer", "zt-run's next"};
    zt_str text;
    zt_str_init(&text, run->ctx);
    json_t *messages = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(messages, run_message(run, i == 1 ? "assistant" : "user", said[i], strlen(said[i])));
    zt_status status = messages && json_array_size(messages) == 3 ? run_render_messages(run, messages, NULL, &text, NULL)
                                                                  : zt_fail(run->ctx, ZT_ENOMEM, "out of memory");
    json_decref(messages);
    const char *begin = status == ZT_OK && text.len ? strstr(text.data, said[1]) : NULL;
    const char *end = begin ? strstr(begin, said[2]) : NULL;
    if (end) {
        begin += strlen(said[1]);
        zt_bytes words = {begin, (size_t)(end - begin)};
        status = skip_end(run, &words);
        trim_blanks(&words);
        if (status == ZT_OK) status = zt_str_put(turn, words.data, words.n);
    }
    zt_str_fini(&text);
    return status;
}

/* A template that refuses a conversation of three messages has no such text. */
zt_status run_find_turn(run_state *run)
{
    run_templates *templates = run->templates;
    if (!run->jinja || templates->turn_of == run->jinja) return ZT_OK;
    templates->turn_of = run->jinja;
    zt_str_clear(&templates->turn_text);
    zt_status status = find_turn(run, &templates->turn_text);
    if (status != ZT_EDATA && status != ZT_ENOTSUP) return status;
    zt_ctx_clear(run->ctx);
    return ZT_OK;
}

zt_bytes run_turn_text(const run_state *run)
{
    const run_templates *templates = run->templates;
    if (run_receipt_is_verified(run)) return run_receipt_turn(run);
    if (run->template) return zt_template_user(run->template);
    return run->jinja && templates->turn_of == run->jinja && templates->turn_text.len
               ? (zt_bytes){templates->turn_text.data, templates->turn_text.len}
               : (zt_bytes){NULL, 0};
}
