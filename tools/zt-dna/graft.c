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

static const char *const words[] = {"concat", "add", "avg", "grid_scatter", "filter"};

static bool filters(const dna_options *o)
{
    return !strcmp(words[o->combine], "filter");
}

static zt_status check_gate(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    if (o->gate && !filters(o))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--gate goes with --combine filter");
    if (o->gate && !strcmp(o->gate, "-"))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--gate: a file, not stdin");
    if (filters(o) && n < 2)
        return zt_fail(cli->ctx, ZT_EUSAGE, "--combine filter: one network has no shares");
    if (filters(o) && !o->gate && (o->select.n || !strcmp(operands[0], "-")))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--combine filter with %s needs --gate NET",
                       o->select.n ? "--select" : "stdin");
    return o->gate ? zt_cli_refuse_same(cli, o->gate, cli->output) : ZT_OK;
}

/* How many numbers a row the first network takes: as many as a gate beside it. */
static zt_status count_inputs(zt_cli *cli, const char *path, int64_t *n)
{
    zt_nn_shape in;
    zt_nn *nn = zt_nn_open(cli->ctx, path, 0);
    zt_status s = nn ? zt_nn_input(nn, &in) : zt_ctx_status(cli->ctx);
    *n = 1;
    for (int d = 1; s == ZT_OK && d < in.rank; d++) *n *= in.dim[d];
    zt_nn_close(nn);
    if (s == ZT_OK || s == ZT_ENOMEM) return s;
    zt_ctx_clear(cli->ctx);
    return zt_fail(cli->ctx, ZT_EUSAGE,
                   "%s: --combine filter: what the network takes is not known: name a gate by --gate",
                   path);
}

static zt_status write(zt_cli *cli, const dna_options *o, zt_dna *const *m, int n,
                       zt_graft_opts *how)
{
    zt_checkpoint_opts opts = {.to = dna_container(cli, o, cli->output, "json"),
                               .force = cli->force};
    zt_meta *meta = opts.to ? zt_meta_new(cli->ctx) : NULL;
    zt_status s = meta ? ZT_OK : zt_ctx_status(cli->ctx);
    if (s == ZT_OK && strcmp(cli->output, "-") == 0) s = zt_cli_refuse_terminal(cli, "a network");
    if (s == ZT_OK && !o->no_history) s = zt_cli_history(cli, meta, "graft");
    if (s == ZT_OK) s = zt_dna_graft(m, n, how, meta, cli->output, &opts);
    zt_meta_free(meta);
    return s;
}

zt_status dna_graft(zt_cli *cli, const dna_options *o, char **operands, int n)
{
    zt_dna *m[MOST] = {NULL};
    zt_graft_opts how = {.combine = words[o->combine],
                        .residual = o->residual,
                        .select = o->select.item,
                        .n_select = o->select.n};
    zt_status s = check(cli, o, operands, n);
    if (s == ZT_OK) s = check_gate(cli, o, operands, n);
    if (s != ZT_OK) return s;
    for (int i = 0; i < n && s == ZT_OK; i++) {
        m[i] = dna_open(cli, o, operands[i]);
        s = m[i] ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (s == ZT_OK && o->gate) {
        how.gate = dna_open(cli, o, o->gate);
        s = how.gate ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (s == ZT_OK && filters(o) && !o->gate) s = count_inputs(cli, operands[0], &how.gate_inputs);
    if (s == ZT_OK) s = write(cli, o, m, n, &how);
    zt_dna_close(how.gate);
    for (int i = 0; i < n; i++) zt_dna_close(m[i]);
    return s;
}
