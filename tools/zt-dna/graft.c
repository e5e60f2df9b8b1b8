/* graft.c - zt-dna graft: networks side by side in one. */
#include "tools/zt-dna/dna_tool.h"

#include <string.h>

enum { MOST = 256 };

static zt_status check_operands(zt_cli *cli, const dna_options *options, char **operands, int operand_count)
{
    int stdins = 0;
    zt_status status = ZT_OK;
    if (!cli->output) return zt_fail(cli->ctx, ZT_EUSAGE, "no output: specify one with -o OUT");
    if (operand_count < 2 && !options->residual)
        return zt_fail(cli->ctx, ZT_EUSAGE, "graft needs at least two networks, or one with --residual");
    if (operand_count > MOST) return zt_fail(cli->ctx, ZT_EUSAGE, "%d networks, the limit is %d", operand_count, MOST);
    for (int operand_index = 0; operand_index < operand_count && status == ZT_OK; operand_index++) {
        stdins += !strcmp(operands[operand_index], "-");
        status = zt_cli_refuse_same(cli, operands[operand_index], cli->output);
    }
    return status == ZT_OK && stdins > 1 ? zt_fail(cli->ctx, ZT_EUSAGE, "only one network can be stdin") : status;
}

static const char *const words[] = {DNA_JOINS(ZT_WORD_ONLY)};

static bool is_filter(const dna_options *options) { return options->combine == DNA_FILTER; }

static zt_status check_gate(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    if (options->gate && !is_filter(options)) return zt_fail(cli->ctx, ZT_EUSAGE, "--gate needs --combine filter");
    if (options->gate && !strcmp(options->gate, "-")) return zt_fail(cli->ctx, ZT_EUSAGE, "--gate cannot be stdin");
    if (is_filter(options) && count < 2) return zt_fail(cli->ctx, ZT_EUSAGE, "--combine filter needs at least two networks");
    if (is_filter(options) && !options->gate && (options->select.n || !strcmp(operands[0], "-")))
        return zt_fail(cli->ctx, ZT_EUSAGE, "--combine filter with %s needs --gate NET",
                       options->select.n ? "--select" : "stdin");
    return options->gate ? zt_cli_refuse_same(cli, options->gate, cli->output) : ZT_OK;
}

/* How many numbers a row the first network takes: as many as a gate beside it. */
static zt_status count_inputs(zt_cli *cli, const char *path, int64_t *count)
{
    zt_nn_shape shape;
    zt_nn *network = zt_nn_open(cli->ctx, path, 0);
    zt_status status = network ? zt_nn_input(network, &shape) : zt_ctx_status(cli->ctx);
    *count = 1;
    for (int axis = 1; status == ZT_OK && axis < shape.rank; axis++) *count *= shape.dim[axis];
    zt_nn_close(network);
    if (status == ZT_OK || status == ZT_ENOMEM) return status;
    zt_ctx_clear(cli->ctx);
    return zt_fail(cli->ctx, ZT_EUSAGE,
                   "%s: --combine filter: the input shape of the network is unknown: specify a gate with --gate", path);
}

static zt_status write_network(zt_cli *cli, const dna_options *options, zt_dna *const *models, int count, zt_graft_opts *how)
{
    zt_checkpoint_opts opts = {.to = dna_container(cli, options, cli->output, "json"), .force = cli->force};
    zt_meta *meta = opts.to ? zt_meta_new(cli->ctx) : NULL;
    zt_status status = meta ? ZT_OK : zt_ctx_status(cli->ctx);
    if (status == ZT_OK && strcmp(cli->output, "-") == 0) status = zt_cli_refuse_terminal(cli, "a network");
    if (status == ZT_OK && !options->no_history) status = zt_cli_history(cli, meta, "graft");
    if (status == ZT_OK) status = zt_dna_graft(models, count, how, meta, cli->output, &opts);
    zt_meta_free(meta);
    return status;
}

zt_status dna_graft(zt_cli *cli, const dna_options *options, char **operands, int count)
{
    zt_dna *models[MOST] = {NULL};
    zt_graft_opts how = {.combine = words[options->combine],
                         .residual = options->residual,
                         .select = options->select.item,
                         .n_select = options->select.n};
    zt_status status = check_operands(cli, options, operands, count);
    if (status == ZT_OK) status = check_gate(cli, options, operands, count);
    if (status != ZT_OK) return status;
    for (int i = 0; i < count && status == ZT_OK; i++) {
        models[i] = dna_open(cli, options, operands[i]);
        status = models[i] ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (status == ZT_OK && options->gate) {
        how.gate = dna_open(cli, options, options->gate);
        status = how.gate ? ZT_OK : zt_ctx_status(cli->ctx);
    }
    if (status == ZT_OK && is_filter(options) && !options->gate) status = count_inputs(cli, operands[0], &how.gate_inputs);
    if (status == ZT_OK) status = write_network(cli, options, models, count, &how);
    zt_dna_close(how.gate);
    for (int i = 0; i < count; i++) zt_dna_close(models[i]);
    return status;
}
