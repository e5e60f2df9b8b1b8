/* completion.h - private to tools/common: what completion scripts are made of, for every shell the same. */
#ifndef ZT_COMPLETION_H
#define ZT_COMPLETION_H

#include "tools/common/internal.h"

/* What may follow an option. Of a value with a '=' in its argument ("GLOB=TYPE"), words may stand behind it. */
typedef enum value_kind {
    VALUE_NONE,    /* the option takes no value */
    VALUE_TEXT,    /* a text or a number: nothing is offered */
    VALUE_FILE,    /* "FILE", "MODEL" ...: files and directories */
    VALUE_FOLDER,  /* "DIR" */
    VALUE_WORDS,   /* one of the words */
    VALUE_LIST,    /* "NAME[,NAME]": words with commas between them */
    VALUE_OR_FILE, /* "NAME|FILE": one of the words, or a file */
    VALUE_NAMES,   /* a name in the model on the command line: option->names_from prints them */
    VALUE_NAME_IS, /* "KEY=VALUE": such a name and '=' */
    VALUE_WORD_IS, /* "NAME=VALUE": one of the words and '=' */
    VALUE_PAIR,    /* "GLOB=TYPE": such a name, if there is a command for it, '=', and one of the words */
} value_kind;

value_kind zt_completion_kind(const zt_opt *option);
/* Appends the words that the option's value may be, or begin with, with a blank in front of each, `behind` behind it. */
void zt_completion_words(zt_str *out, const zt_opt *option, const char *behind);
/* Appends the tool's commands that the option applies to, `between` them; option NULL: all. False, and nothing appended:
 * the tool has no commands, or the option applies to all of them. */
bool zt_completion_commands(zt_str *out, const zt_tool *tool, const zt_opt *option, const char *between);
/* Appends the names of those modes that are commands, a space between. False: none is. */
bool zt_completion_mode_commands(zt_str *out, const zt_tool *tool);
/* "zt_run" of "zt-run". */
typedef char zt_identifier[64];
void zt_completion_identifier(const zt_tool *tool, zt_identifier text);

/* completion_SHELL.c: appends the script. */
void zt_completion_bash(zt_str *out, const zt_cli_state *state);
void zt_completion_zsh(zt_str *out, const zt_cli_state *state);
void zt_completion_fish(zt_str *out, const zt_cli_state *state);

#endif
