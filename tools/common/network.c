/* network.c - networks where tools take programs. */
#include "tools/common/subject.h"

#include <string.h>

/* An object with a member "layers" where it begins: an index of safetensors has none. */
bool zt_cli_is_network(zt_cli *cli, const char *path)
{
    char head[4097];
    size_t length = path ? zt_cli_head(cli, path, head, sizeof head - 1) : 0;
    head[length] = 0;
    return zt_netjson_sniff(head, length) && strstr(head, "\"layers");
}

/* The model's name is the file's without its folder: programs look for it beside themselves. */
zt_prog *zt_cli_network(zt_cli *cli, const char *path, const zt_nn_options *options)
{
    const char *slash = strrchr(path, '/');
    zt_nn *network = zt_nn_open(cli->ctx, path, cli->seed);
    const char *name = slash ? slash + 1 : !strcmp(path, "-") ? "stdin" : path;
    zt_prog *program = network ? zt_nn_prog_as(network, options) : NULL;
    if (program && zt_prog_model(program, name, zt_nn_id(network))) {
        zt_prog_free(program);
        program = NULL;
    }
    zt_nn_close(network);
    return program;
}
