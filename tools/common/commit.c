/* commit.c - the commit of programs that do not name one: those of the tests. */
#include "tools/common/commit.h"

const char zt_commit[] = "unknown";
