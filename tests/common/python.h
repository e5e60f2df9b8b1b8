/* python.h - for tests that a Python with some module judges: which one, or a skip, aloud. */
#ifndef ZT_TEST_PYTHON_H
#define ZT_TEST_PYTHON_H

#include <stdlib.h>

#include "tests/common/tap.h"

/* The python that ZT_PYTHON names, or python3; NULL after a skip where it has no such module. */
static inline const char *python_with(const char *module)
{
    const char *given = getenv("ZT_PYTHON"), *python = given ? given : "python3";
    char line[1000];
    snprintf(line, sizeof line, "%s -c 'import %s' 2>/dev/null", python, module);
    if (system(line) == 0) return python;
    skip("no %s here (ZT_PYTHON=... names a python that has it)", module);
    return NULL;
}

#endif
