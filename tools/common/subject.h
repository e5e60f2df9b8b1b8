/* subject.h - what a tool needs to run a program from a file: its text, its symbols, its tensors. */
#ifndef ZT_SUBJECT_H
#define ZT_SUBJECT_H

#include "tools/common/cli.h"

/* A program's text, from a file or "-". */
zt_prog *zt_cli_program(zt_cli *cli, const char *path);

/* --bind n=16,ctx=64 (NULL: none). ZT_EUSAGE says what is wrong with it. */
typedef struct zt_bindings {
    zt_binding at[ZT_MAX_SYMBOLS]; /* [n] */
    int n;
    char name[ZT_MAX_SYMBOLS][64]; /* what at[i].symbol points to: not to be copied */
} zt_bindings;
zt_status zt_bindings_parse(zt_ctx *ctx, const char *text, zt_bindings *b);

#endif
