/* unknown.c - words of the command line that several tools look up in one table, and do not find. */
#include "lib/base/near.h"
#include "tools/common/cli.h"

#include <string.h>

/* "hf" is a directory, and no container of one file. */
static const char *container_name(const void *user, int i)
{
    (void)user;
    return i == 0 ? "hf" : zt_container_at(i - 1) ? zt_container_name(zt_container_at(i - 1)) : NULL;
}

static const char *dtype_name(const void *user, int i)
{
    (void)user;
    return i < ZT_DTYPE_COUNT ? zt_dtype_get((zt_dtype)i)->name : NULL;
}

static const char *mix_name(const void *user, int i)
{
    (void)user;
    return zt_mix_at(i) ? zt_mix_at(i)->name : NULL;
}

zt_status zt_cli_no_container(zt_cli *cli, const char *word)
{
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, "option '--to': unknown container", word, strlen(word), container_name, NULL);
}

zt_status zt_cli_no_dtype(zt_cli *cli, const char *word)
{
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, "option '--dtype': unknown type", word, strlen(word), dtype_name, NULL);
}

zt_status zt_cli_no_mix(zt_cli *cli, const char *option, const char *word)
{
    char what[80];
    snprintf(what, sizeof what, "option '--%.40s': unknown type", option);
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, what, word, strlen(word), mix_name, NULL);
}
