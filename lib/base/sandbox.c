/* sandbox.c - the parts of a sandbox, in the order in which they are entered. */
#include "lib/base/internal.h"
#include "lib/base/require.h"
#include "lib/base/sandbox_internal.h"
#include "lib/base/sanitized.h"

#include <sys/prctl.h>
#include <sys/resource.h>

const char *zt_sandbox_lacks(void)
{
    if (SANITIZED) return "a build without a sanitizer";
    if (!zt_landlock_version()) return "Landlock (CONFIG_SECURITY_LANDLOCK, Linux 5.13)";
    return zt_seccomp_has() ? NULL : "filters of system calls (CONFIG_SECCOMP_FILTER)";
}

/* A core file would have the model, the texts and the keys. */
static void refuse_cores(void)
{
    const struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
}

zt_status zt_sandbox_enter(zt_ctx *ctx, const zt_sandbox_config *config, zt_sandbox_parts *parts)
{
    if (!ctx) return ZT_EUSAGE;
    ZT_REQUIRE(ctx, config && parts && config->path_count >= 0 && (config->paths || !config->path_count), ZT_EUSAGE);
    *parts = (zt_sandbox_parts){0};
    if (SANITIZED) return ZT_OK;
    bool commands = config->keeps & ZT_SANDBOX_KEEP_COMMANDS;
    if (!commands) refuse_cores();
    zt_spare_open(ctx, config->temporaries);
    parts->privileges = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    if (!parts->privileges) return ZT_OK; /* the others need it */
    if (!commands) parts->files = zt_sandbox_restrict_files(config);
    return zt_sandbox_restrict_calls(ctx, config->keeps, &parts->calls);
}
