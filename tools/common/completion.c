/* completion.c - completion scripts for bash, zsh and fish, made from the option table. */
#include "tools/common/completion.h"

#include <ctype.h>
#include <string.h>

void zt_completion_identifier(const zt_tool *tool, zt_identifier text)
{
    snprintf(text, sizeof(zt_identifier), "%s", tool->name);
    for (char *letter = text; *letter; letter++)
        if (!isalnum((unsigned char)*letter)) *letter = '_';
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool names_file(const char *argument)
{
    static const char *const words[] = {"FILE", "MODEL", "NET", "DATA"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(argument, words[i])) return true;
    return false;
}

value_kind zt_completion_kind(const zt_opt *option)
{
    if (option->kind == ZT_OPT_WORD) return VALUE_WORDS;
    if (!zt_option_takes_value(option)) return VALUE_NONE;
    if (option->kind != ZT_OPT_STR && option->kind != ZT_OPT_LIST) return VALUE_TEXT;
    const char *equals = strchr(option->arg, '=');
    bool optional = equals && equals > option->arg && equals[-1] == '['; /* "FILE[=SCALE]" */
    if (option->values && equals && !optional) return strcmp(option->arg, "NAME=VALUE") ? VALUE_PAIR : VALUE_WORD_IS;
    if (option->names_from) return equals && !optional ? VALUE_NAME_IS : VALUE_NAMES;
    if (option->values) return strstr(option->arg, "[,") ? VALUE_LIST : names_file(option->arg) ? VALUE_OR_FILE : VALUE_WORDS;
    if (strcmp(option->arg, "DIR") == 0) return VALUE_FOLDER;
    return names_file(option->arg) ? VALUE_FILE : VALUE_TEXT;
}

void zt_completion_words(zt_str *out, const zt_opt *option, const char *behind)
{
    if (option->kind == ZT_OPT_WORD) {
        zt_str_putc(out, ' ');
        for (const char *letter = option->arg; *letter; letter++) zt_str_putc(out, *letter == '|' ? ' ' : *letter);
        return;
    }
    for (int i = 0; option->values && option->values(NULL, i); i++)
        if (*option->values(NULL, i)) zt_str_printf(out, " %s%s", option->values(NULL, i), behind);
}

/* ---- commands -------------------------------------------------------------------------------- */

bool zt_completion_commands(zt_str *out, const zt_tool *tool, const zt_opt *option, const char *between)
{
    int applies = 0, written = 0;
    for (int i = 0; i < tool->n_modes; i++) applies += !option || zt_modes_apply(tool, option, i);
    if (!tool->commands || (option && applies == tool->n_modes)) return false;
    for (int i = 0; i < tool->n_modes; i++)
        if (!option || zt_modes_apply(tool, option, i)) zt_str_printf(out, "%s%s", written++ ? between : "", tool->modes[i].name);
    return true;
}

bool zt_completion_mode_commands(zt_str *out, const zt_tool *tool)
{
    int written = 0;
    for (int i = 0; i < tool->n_modes; i++)
        if (tool->modes[i].command) zt_str_printf(out, "%s%s", written++ ? " " : "", tool->modes[i].name);
    return written > 0;
}

/* ---- the script ------------------------------------------------------------------------------ */

zt_status zt_print_completion(zt_cli_state *state)
{
    static void (*const scripts[])(zt_str * out, const zt_cli_state *state) = {
        zt_completion_bash, zt_completion_zsh, zt_completion_fish}; /* as the row of --completion lists them */
    zt_str out;
    zt_str_init(&out, state->cli.ctx);
    scripts[state->completion](&out, state);
    zt_status status = zt_ctx_status(state->cli.ctx);
    if (status == ZT_OK) status = zt_cli_write(&state->cli, out.data, out.len);
    zt_str_fini(&out);
    return status;
}
