/* template.h - private to the chat templates: what a row is. template.c has the rows and writes
 * conversations; template_file.c reads a row from JSON. */
#ifndef ZT_LLM_TEMPLATE_H
#define ZT_LLM_TEMPLATE_H

#include "lib/llm/llm.h"

enum { ZT_ROLE_SYSTEM, ZT_ROLE_USER, ZT_ROLE_ASSISTANT, ZT_ROLES };
int zt_role_find(const char *name); /* -1: none of them */

/* Where a system message goes. */
enum {
    ZT_SYSTEM_TURN,    /* a turn of its own */
    ZT_SYSTEM_IN_NEXT, /* into the user's turn after it, before the text */
    ZT_SYSTEM_IN_LAST  /* likewise, but into the user's last */
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
    bool trim_joined;                          /* the user's text is trimmed together with the system's before it */
    bool own_system;                           /* the model's template may name a default system text */
    bool always_system;                        /* a system turn there is always, if need be without a text */
    void *owned;                               /* of a row from a file: its texts */
};

/* The text without the blanks around it. */
zt_bytes zt_trimmed(const char *text);

#endif
