/* golden.h - where the golden cases are: ZT_GOLDEN, else
 * ../shared/golden, else nowhere (a skip, aloud). A set or file that the
 * folder does not hold has no cases: neither a skip nor a failure. */
#ifndef ZT_GOLDEN_H
#define ZT_GOLDEN_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* NULL: there is no such folder. */
__attribute__((unused)) static const char *golden_folder(void)
{
    const char *given = getenv("ZT_GOLDEN");
    if (given && *given) return given;
    return access("../shared/golden", R_OK) ? NULL : "../shared/golden";
}

__attribute__((unused)) static bool golden_has(const char *path) { return access(path, R_OK) == 0; }

/* Is `set` ("loom/sampling") in the folder? Where not, it has no cases; but a clone of its own,
 * whose folder is what is packed here, says aloud (`skip` of tap.h) that it lacks one that may not
 * be packed. Make sets ZT_GOLDEN_STRICT where the folder was given or lies beside the checkout. */
#define golden_holds(set, path)                                                                                                  \
    (snprintf(path, sizeof path, "%s/%s", golden_folder() ? golden_folder() : "/nowhere", set),                                  \
     golden_has(path) || (!getenv("ZT_GOLDEN_STRICT") && (skip("no golden %s here", set), false)))

#endif
