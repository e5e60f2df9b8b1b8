/* options.c - the options of zt-quant, and which of them go together. */
#include "tools/zt-quant/quant.h"

#include <string.h>

static quant_options opt; /* filled by the rows of options.def, which need constant addresses */

/* What zt-quant does: the modes of the option table. */
enum { QUANTIZE, MEASURE, DRY, IMATRIX, TYPES, N_MODES };
static const zt_mode modes[N_MODES] = {
    [QUANTIZE] = {"quantization", NULL},      [MEASURE] = {"--measure", "measure"},
    [DRY] = {"--dry-run", "dry-run"},         [IMATRIX] = {"--make-imatrix", "make-imatrix"},
    [TYPES] = {"--list-types", "list-types"},
};
#define WRITES  (ZT_IN(QUANTIZE) | ZT_IN(MEASURE))
#define CHOOSES (WRITES | ZT_IN(DRY)) /* types for tensors */

static const zt_opt option_table[] = {
#define OPTION(kind, field, ...) ZT_OPTION_ROW(ZT_OPT_##kind, opt.field, __VA_ARGS__)
#include "tools/zt-quant/options.def"
    {0}};

// clang-format off
static const zt_shared_opt shared[] = {
    {"output", WRITES | ZT_IN(IMATRIX), NULL},
    {"force", WRITES | ZT_IN(IMATRIX), NULL},
    {"threads", CHOOSES | ZT_IN(IMATRIX), NULL},
    {"engine", ZT_IN(IMATRIX), NULL},
    {"strict-engine", ZT_IN(IMATRIX), NULL},
    {"isa", ZT_IN(IMATRIX), NULL},
    {"compute", ZT_IN(IMATRIX), NULL},
    {"format", ZT_IN(MEASURE) | ZT_IN(DRY) | ZT_IN(TYPES), NULL},
    {"color", ZT_IN(MEASURE) | ZT_IN(DRY) | ZT_IN(TYPES), NULL},
    {"progress", CHOOSES | ZT_IN(IMATRIX), NULL},
    {0}};
// clang-format on

static const char *const synopsis[] = {"--type TYPE [--tensor-type GLOB=TYPE]... [--imatrix FILE] [OPTION...] IN OUT",
                                       "--target-size SIZE | --bpw X [--imatrix FILE] [OPTION...] IN OUT",
                                       "--type TYPE --dry-run | --measure [OPTION...] IN",
                                       "--make-imatrix -m MODEL -i FILE -o IMATRIX",
                                       "--list-types",
                                       NULL};

const zt_tool quant_tool = {
    .name = "zt-quant",
    .summary = "quantize a model and measure the quality loss",
    .synopsis = synopsis,
    .options = option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_MEM | ZT_SHARE_FORMAT | ZT_SHARE_COLOR | ZT_SHARE_PROGRESS,
    .max_operands = 2,
    .output_modes = WRITES,
    .modes = modes,
    .n_modes = N_MODES,
    .shared_options = shared,
};

quant_options *quant_options_init(void)
{
    opt = (quant_options){
#define DEFAULT ZT_OPTION_DEFAULT
#include "tools/zt-quant/options.def"
    };
    return &opt;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static zt_status fail_misuse(quant_run *run, const char *what) { return zt_fail(run->ctx, ZT_EUSAGE, "%s", what); }

static zt_status check_imatrix_job(quant_run *run)
{
    const quant_options *options = run->options;
    if (run->cli->n_operands) return fail_misuse(run, "--make-imatrix takes no arguments, only -m MODEL -i FILE -o IMATRIX");
    if (!options->model || !options->input || !run->cli->output)
        return fail_misuse(run, "--make-imatrix needs -m MODEL, -i FILE and -o IMATRIX");
    if (!strcmp(options->model, "-") && !strcmp(options->input, "-"))
        return fail_misuse(run, "model and text cannot both be stdin");
    return ZT_OK;
}

bool quant_fits(const quant_options *options) { return options->target > 0 || options->bpw > 0; }

/* IN and OUT: two operands, or one and -o. */
static zt_status take_operands(quant_run *run)
{
    const quant_options *options = run->options;
    int count = run->cli->n_operands;
    if (count == 0) return fail_misuse(run, "no input file");
    if (count == 2 && run->cli->output) return fail_misuse(run, "the output is given twice");
    run->input_path = run->cli->operands[0];
    run->output_path = run->output_name = count == 2 ? run->cli->operands[1] : run->cli->output;
    if (options->dry_run)
        run->output_path = NULL;
    else if (!run->output_path && !options->measure)
        return fail_misuse(run, "no output file");
    return zt_cli_claim(run->cli, run->output_path, "the output");
}

/* A type of models, of networks, or of both. */
const char *quant_type_names(const void *user, int i)
{
    int mixes = 0;
    while (zt_mix_at(mixes)) mixes++;
    if (i < mixes) return quant_can(zt_mix_at(i)->dtype) ? zt_cli_mix_names(user, i) : "";
    return i - mixes < ZT_STORE_COUNT ? zt_storage_get((zt_storage)(i - mixes))->name : NULL;
}

static zt_status take_types(quant_run *run)
{
    const quant_options *options = run->options;
    if (!options->type && !quant_fits(options)) return fail_misuse(run, "no type: specify --type, --target-size or --bpw");
    if (!quant_find_type(options->type ? options->type : "q8_0", &run->mix, &run->storage))
        return zt_cli_no_mix(run->cli, "type", options->type);
    zt_status status = quant_take_wishes(run);
    if (status == ZT_OK && zt_cli_given(run->cli, "scale") && !quant_wants_scaled(run))
        return fail_misuse(run, "--scale applies only to FP8, but no requested type is FP8");
    return status;
}

zt_status quant_options_check(quant_run *run)
{
    const quant_options *options = run->options;
    int mode = zt_cli_mode(run->cli, QUANTIZE);
    if (mode < 0 || zt_cli_enter(run->cli, mode)) return ZT_EUSAGE;
    if (options->list_types) return run->cli->n_operands ? fail_misuse(run, "--list-types takes no arguments") : ZT_OK;
    if (options->make_imatrix) return check_imatrix_job(run);
    zt_status status = take_operands(run);
    if (status == ZT_OK && options->to && !zt_container_named(options->to)) status = zt_cli_no_container(run->cli, options->to);
    if (status == ZT_OK && options->dry_run && !quant_fits(options))
        status =
            zt_cli_refuse_given(run->cli, "threads|progress", "--dry-run without --target-size or --bpw: nothing is measured");
    return status == ZT_OK ? take_types(run) : status;
}
