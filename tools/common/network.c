/* network.c - networks where tools take programs. */
#include "tools/common/subject.h"

#include <string.h>

/* An object with a member "layers" where it begins: an index of safetensors has none. */
bool zt_cli_is_network(zt_cli *cli, const char *path)
{
    char head[4097];
    size_t n = path ? zt_cli_head(cli, path, head, sizeof head - 1) : 0;
    head[n] = 0;
    return zt_netjson_sniff(head, n) && strstr(head, "\"layers");
}

/* The model's name is the file's without its folder: programs look for it beside themselves. */
zt_prog *zt_cli_network(zt_cli *cli, const char *path, const zt_nn_options *how)
{
    const char *slash = strrchr(path, '/');
    zt_nn *nn = zt_nn_open(cli->ctx, path, cli->seed);
    const char *name = slash ? slash + 1 : !strcmp(path, "-") ? "stdin" : path;
    zt_prog *p = nn ? zt_nn_prog_as(nn, how) : NULL;
    if (p && zt_prog_model(p, name, zt_nn_id(nn))) {
        zt_prog_free(p);
        p = NULL;
    }
    zt_nn_close(nn);
    return p;
}
