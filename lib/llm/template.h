/* template.h - private to the chat templates of fixed strings. template.c has the built-in ones as rows and renders
 * conversations; template_file.c reads a row from JSON. */
#ifndef ZT_LLM_TEMPLATE_H
#define ZT_LLM_TEMPLATE_H

#include "lib/llm/llm.h"

enum { ZT_ROLE_SYSTEM, ZT_ROLE_USER, ZT_ROLE_ASSISTANT, ZT_ROLES };
int zt_role_find(const char *name); /* -1: unknown role */

/* Where a system message goes. */
enum {
    ZT_SYSTEM_TURN,    /* in a turn of its own */
    ZT_SYSTEM_IN_NEXT, /* in the next user turn, before the user's text */
    ZT_SYSTEM_IN_LAST  /* in the last user turn, before the user's text */
};

struct zt_template {
    const char *name;
    /* Around each role's text. prefix NULL: the template has no such role. */
    const char *prefix[ZT_ROLES], *suffix[ZT_ROLES];
    const char *global_prefix, *global_suffix; /* around the whole; may be NULL */
    const char *again;                         /* before each user's turn but the first; may be NULL */
    const char *open;                          /* opens the answer; NULL: the assistant's prefix */
    int system;                                /* ZT_SYSTEM_... */
    unsigned trim;                             /* bits of roles whose text is trimmed */
    bool trim_joined;                          /* trim the user's text together with the system text before it */
    bool own_system;                           /* the model's template may have a default system text */
    bool always_system;                        /* always write a system turn, possibly empty */
    void *owned;                               /* strings of a row from a file; NULL: built in */
};

/* The text without the blanks around it. */
zt_bytes zt_trimmed(const char *text);

#endif
