/* attributes.h - what an output keeps of the file or directory that it replaces: mode, owner, group
 * and extended attributes. */
#ifndef ZT_ATTRIBUTES_H
#define ZT_ATTRIBUTES_H

#include "lib/base/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct stat;

/* Gives the open file or directory `fd` the attributes of what is at `path`, whose stat is `old`:
 * owner and group where the process may set them, POSIX and NFSv4 access control lists, user.*
 * attributes and the SELinux label where both file systems have them, then the mode. Where the group
 * could not be kept the group gets no more than all others have; set-user-ID and set-group-ID bits
 * stay only with their owner and group. What cannot be kept is logged (ZT_LOG_INFO). ZT_EIO: the
 * mode could not be set; ZT_ENOMEM. */
zt_status zt_attributes_keep(zt_ctx *ctx, int fd, const char *path, const struct stat *old);
/* The same for a directory `fresh` that is about to replace the one at `path`; where that is not a
 * directory, nothing is done. */
zt_status zt_attributes_keep_folder(zt_ctx *ctx, const char *fresh, const char *path);
/* Gives a directory that mkdtemp has made the mode that mkdir would have given it. false and errno: it keeps its own. */
bool zt_attributes_open_folder(const char *fresh);

#ifdef __cplusplus
}
#endif
#endif
