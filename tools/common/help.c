/* help.c - what the option table says of itself: --help and the completion script. */
#include "tools/common/internal.h"
#include <ctype.h>
#include <string.h>

enum { COLUMN = 28, WIDTH = 100 }; /* where help texts begin, and end */

/* "  -n, --count N" */
static void put_left(zt_str *s, const zt_opt *o)
{
    if (o->letter)
        zt_str_printf(s, "  -%c%s", o->letter, o->name ? ", " : "");
    else
        zt_str_puts(s, "      ");
    if (o->name)
        zt_str_printf(s, "--%s", o->name);
    if (zt_option_takes_value(o))
        zt_str_printf(s, " %s", o->arg);
}

/* Words from COLUMN on, in as many lines as they need. None begins with '-', which would look like
 * an option: the word before goes with it. `width`: how far the first line is. */
static void put_wrapped(zt_str *s, const char *text, int width)
{
    int at = COLUMN;
    zt_str_printf(s, "%*s", COLUMN - width, "");
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        while (p[n] && p[n + 1] == '-') n += 1 + strcspn(p + n + 1, " ");
        if (at > COLUMN && at + 1 + (int)n > WIDTH) {
            zt_str_printf(s, "\n%*s", COLUMN, "");
            at = COLUMN;
        }
        zt_str_puts(s, at > COLUMN ? " " : "");
        zt_str_put(s, p, n);
        at += (int)n + (at > COLUMN);
        p += n + (p[n] == ' ');
    }
    zt_str_putc(s, '\n');
}

static void put_options(zt_str *s, const char *title, const zt_opt *o, const zt_default *initial,
                        int n)
{
    if (n == 0)
        return;
    zt_str_printf(s, "\n%s:\n", title);
    for (int i = 0; i < n; i++) {
        size_t start = s->len;
        put_left(s, &o[i]);
        size_t width = s->len - start;
        if (width + 2 > COLUMN) {
            zt_str_putc(s, '\n');
            width = 0;
        }
        char text[400];
        snprintf(text, sizeof text, *initial[i] ? "%s (default: %s)" : "%s", o[i].help, initial[i]);
        put_wrapped(s, text, (int)width);
    }
}

static zt_status print(zt_cli_state *st, zt_str *s)
{
    zt_status status = zt_ctx_status(st->pub.ctx);
    if (status == ZT_OK)
        status = zt_cli_write(&st->pub, s->data, s->len);
    zt_str_fini(s);
    return status;
}

zt_status zt_print_help(zt_cli_state *st)
{
    const zt_tool *tool = st->pub.tool;
    zt_str s;
    zt_str_init(&s, st->pub.ctx);
    for (int i = 0; tool->synopsis && tool->synopsis[i]; i++)
        zt_str_printf(&s, "%s %s %s\n", i ? "      " : "Usage:", tool->name, tool->synopsis[i]);
    zt_str_printf(&s, "%s: %s.\n", tool->name, tool->summary);
    put_options(&s, "Options", st->opts, st->initial, st->n_own);
    put_options(&s, "Shared by the tools of zt", st->opts + st->n_own, st->initial + st->n_own,
                st->n_opts - st->n_own);
    return print(st, &s);
}

/* ---- completion ------------------------------------------------------------------------------ */

static void put_names(zt_str *s, const zt_opt *o, const char *between)
{
    if (o->name)
        zt_str_printf(s, "--%s", o->name);
    if (o->letter)
        zt_str_printf(s, "%s-%c", o->name ? between : "", o->letter);
}

/* A branch for the options after which words, or no file, are to be offered. */
static void put_branch(zt_str *s, const zt_opt *o)
{
    bool number = o->kind == ZT_OPT_I64 || o->kind == ZT_OPT_U64 || o->kind == ZT_OPT_F64 ||
                  o->kind == ZT_OPT_SIZE;
    if (o->kind != ZT_OPT_WORD && !number)
        return;
    zt_str_puts(s, "    ");
    put_names(s, o, "|");
    if (number) {
        zt_str_puts(s, ") compopt +o default; return ;;\n");
        return;
    }
    zt_str_puts(s, ") COMPREPLY=($(compgen -W '");
    for (const char *p = o->arg; *p; p++)
        zt_str_putc(s, *p == '|' ? ' ' : *p);
    zt_str_puts(s, "' -- \"$cur\")); return ;;\n");
}

zt_status zt_print_completion(zt_cli_state *st)
{
    zt_str s, id;
    zt_str_init(&s, st->pub.ctx);
    zt_str_init(&id, st->pub.ctx);
    for (const char *p = st->pub.tool->name; *p; p++)
        zt_str_putc(&id, isalnum((unsigned char)*p) ? *p : '_');
    zt_str_printf(&s,
                  "# bash completion for %s: source it, or put it into\n"
                  "# ~/.local/share/bash-completion/completions/%s\n"
                  "_%s()\n{\n"
                  "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                  "    COMPREPLY=()\n    case $prev in\n",
                  st->pub.tool->name, st->pub.tool->name, id.data ? id.data : "");
    for (int i = 0; i < st->n_opts; i++)
        put_branch(&s, &st->opts[i]);
    zt_str_puts(&s, "    esac\n    [[ $cur == -* ]] && COMPREPLY=($(compgen -W '");
    for (int i = 0; i < st->n_opts; i++) {
        zt_str_puts(&s, i ? " " : "");
        put_names(&s, &st->opts[i], " ");
    }
    zt_str_printf(&s, "' -- \"$cur\"))\n}\ncomplete -o default -F _%s %s\n",
                  id.data ? id.data : "", st->pub.tool->name);
    zt_str_fini(&id);
    return print(st, &s);
}
