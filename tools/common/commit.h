/* commit.h - the commit that a program was built from, for --version. */
#ifndef ZT_CLI_COMMIT_H
#define ZT_CLI_COMMIT_H

/* 12 digits of its hash, with "-dirty" where files differed from it; "unknown" without a git clone. tools/zt.c defines it, so
 * that another commit compiles that file alone. Programs without tools/zt.c get the "unknown" of the archive. */
extern const char zt_commit[];

#endif
