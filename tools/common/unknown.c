/* unknown.c - words of the command line that several tools look up in one table: the lists, and messages for unknown ones. */
#include "tools/common/cli.h"

#include <string.h>

/* "hf" is a directory, and no container of one file. */
const char *zt_cli_container_names(const void *user, int i)
{
    (void)user;
    return i == 0 ? "hf" : zt_container_at(i - 1) ? zt_container_name(zt_container_at(i - 1)) : NULL;
}

const char *zt_cli_dtype_names(const void *user, int i)
{
    (void)user;
    return i < ZT_DTYPE_COUNT ? zt_dtype_get((zt_dtype)i)->name : NULL;
}

const char *zt_cli_mix_names(const void *user, int i)
{
    (void)user;
    return zt_mix_at(i) ? zt_mix_at(i)->name : NULL;
}

const char *zt_cli_engine_names(const void *user, int i)
{
    (void)user;
    return i == 0 ? "auto" : zt_engine_list(i - 1);
}

const char *zt_cli_isa_names(const void *user, int i)
{
    (void)user;
    return i < ZT_ISA_COUNT ? zt_isa_name((zt_isa)i) : NULL;
}

zt_status zt_cli_no_container(zt_cli *cli, const char *word)
{
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, "option '--to': unknown container", word, strlen(word), zt_cli_container_names,
                           NULL);
}

zt_status zt_cli_no_dtype(zt_cli *cli, const char *word)
{
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, "option '--dtype': unknown type", word, strlen(word), zt_cli_dtype_names, NULL);
}

zt_status zt_cli_no_mix(zt_cli *cli, const char *option, const char *word)
{
    char what[80];
    snprintf(what, sizeof what, "option '--%.40s': unknown type", option);
    return zt_fail_unknown(cli->ctx, ZT_EUSAGE, what, word, strlen(word), zt_cli_mix_names, NULL);
}
