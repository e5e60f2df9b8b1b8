/* sandbox_internal.h - the two restrictions of a sandbox. */
#ifndef ZT_SANDBOX_INTERNAL_H
#define ZT_SANDBOX_INTERNAL_H

#include "lib/base/sandbox.h"

/* The version of Landlock that the kernel has; 0: none. */
int zt_landlock_version(void);
/* Restricts files, and signals and abstract sockets where the version can. Returns the version; 0: the kernel refused. */
int zt_sandbox_restrict_files(const zt_sandbox_config *config);

/* Does the kernel have filters of system calls? */
bool zt_seccomp_has(void);
/* Installs the filter. *installed: the kernel took it. ZT_ENOMEM. */
zt_status zt_sandbox_restrict_calls(zt_ctx *ctx, unsigned keeps, bool *installed);

#endif
