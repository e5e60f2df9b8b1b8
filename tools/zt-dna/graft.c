/* graft.c - zt-dna graft: networks side by side in one. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

enum { MOST = 256 };

static zt_status check(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    int stdins = 0;
    zt_status s = ZT_OK;
    if (!cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "the output is missing: -o OUT");
    if (n < 2 && !o->residual)
        return zt_fail(cli->ctx, ZT_EUSAGE, "one network alone: nothing to graft it to");
    if (n > MOST) return zt_fail(cli->ctx, ZT_EUSAGE, "%d networks; %d at most", n, MOST);
    for (int i = 0; i < n && s == ZT_OK; i++) {
        stdins += !strcmp(operands[i], "-");
        s = zt_cli_refuse_same(cli, operands[i], cli->output);
    }
    return s == ZT_OK && stdins > 1 ? zt_fail(cli->ctx, ZT_EUSAGE, "only one network can be stdin")
                                    : s;
}

static zt_status write(zt_cli *cli, const dna_options *o, zt_dna *const *m, int n)
{
    static const char *const words[] = {"concat", "add", "avg", "grid_scatter"};
    zt_graft_how how = {.combine = words[o->combine], .residual = o->residual};
    zt_checkpoint_opts opts = {.to = dna_container(cli, o, cli->output, "json"),
                               .force = cli->force};
    zt_meta *meta = opts.to ? zt_meta_new(cli->ctx) : NULL;
    zt_status s = meta ? ZT_OK : zt_ctx_status(cli->ctx);
    if (s == ZT_OK && strcmp(cli->output, "-") == 0) s = zt_cli_refuse_terminal(cli, "a network");
    if (s == ZT_OK && !o->no_history) s = zt_cli_history(cli, meta, "graft");
    if (s == ZT_OK) s = zt_dna_graft(m, n, &how, meta, cli->output, &opts);
    zt_meta_free(meta);
    return s;
}

zt_status dna_graft(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    zt_dna *m[MOST] = {NULL};
    zt_status s = check(cli, o, operands, n);
    if (s != ZT_OK) return s;
    for (int i = 0; i < n && s == ZT_OK; i++) {
        m[i] = dna_open(cli, o, operands[i]);
        s = m[i] ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (s == ZT_OK) s = write(cli, o, m, n);
    for (int i = 0; i < n; i++) zt_dna_close(m[i]);
    return s;
}
