/* folder.h - for tests: a folder of the test's own in /tmp, and names in it.
 *
 *     if (!folder_make("npz")) return 1;
 *     ... under("a.npz") ...
 *     ok(folder_remove(), "tidy");      // or rmdir(folder), where nothing may be left in it
 */
#ifndef ZT_TEST_FOLDER_H
#define ZT_TEST_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define FOLDER_FN __attribute__((unused)) static

static char folder[64];

FOLDER_FN bool folder_make(const char *test)
{
    snprintf(folder, sizeof folder, "/tmp/zt-%s-XXXXXX", test);
    return mkdtemp(folder) != NULL;
}

/* With all that is in it. */
FOLDER_FN bool folder_remove(void)
{
    char command[80];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) == 0;
}

/* "FOLDER/name", good until the fourth call after this one. */
FOLDER_FN const char *under(const char *name)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

#endif
