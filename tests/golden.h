/* golden.h - where the golden cases are: ZT_GOLDEN, else ../shared/golden, else nowhere (a skip, aloud).
 * A set or file that the folder does not hold has no cases: neither a skip nor a failure. */
#ifndef ZT_GOLDEN_H
#define ZT_GOLDEN_H

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* NULL: there is no such folder. */
__attribute__((unused)) static const char *golden_folder(void)
{
    const char *given = getenv("ZT_GOLDEN");
    if (given && *given)
        return given;
    return access("../shared/golden", R_OK) ? NULL : "../shared/golden";
}

__attribute__((unused)) static bool golden_has(const char *path)
{
    return access(path, R_OK) == 0;
}

#endif
