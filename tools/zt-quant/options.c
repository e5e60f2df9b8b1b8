/* options.c - the options of zt-quant, and which of them go together. */
#include "tools/zt-quant/quant.h"

#include <string.h>

static quant_options opt; /* filled by the option table, which needs constant addresses */

/* What zt-quant does: the modes of the option table. */
enum { QUANTIZE, MEASURE, DRY, IMATRIX, TYPES, N_MODES };
static const zt_mode modes[N_MODES] = {
    [QUANTIZE] = {"quantization", NULL},
    [MEASURE] = {"--measure", "measure"},
    [DRY] = {"--dry-run", "dry-run"},
    [IMATRIX] = {"--make-imatrix", "make-imatrix"},
    [TYPES] = {"--list-types", "list-types"},
};
#define WRITES (ZT_IN(QUANTIZE) | ZT_IN(MEASURE))
#define CHOOSES (WRITES | ZT_IN(DRY)) /* types for tensors */

/* letter, name, kind, field, the modes it applies to (0: all), the argument's name, help; then what
 * else a row has */
#define ROW(c, n, k, field, in, a, h, ...)                                                         \
    {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &opt.field, .modes = in, .arg = a,       \
     .help = h, __VA_ARGS__}
#define FLAG(n, field, in, h) ROW(0, n, FLAG, field, in, NULL, h, )

static const zt_opt option_table[] = {
    ROW('T', "type", STR, type, CHOOSES, "TYPE",
        "the type, or mix of types, of the matrices (--list-types)", ),
    ROW(0, "tensor-type", LIST, wishes, CHOOSES, "GLOB=TYPE",
        "another type for such names; the last that matches holds", ),
    ROW(0, "scale", WORD, scale, CHOOSES, "row|tensor",
        "of FP8: a scale for each row, or one",
        .given = &opt.scale_given),
    ROW(0, "rule", WORD, rule, CHOOSES, "field|loom",
        "of networks: how codes are chosen", ),
    FLAG("pure", pure, CHOOSES, "all matrices of one type: no mix"),
    ROW(0, "target-size", SIZE, target, CHOOSES, "SIZE",
        "types by measured error; the whole file has at most this size", .min = 1,
        .excludes = "type|pure|bpw"),
    ROW(0, "bpw", F64, bpw, CHOOSES, "X",
        "the same; the tensors have at most X bits per weight of the model", .fmin = 1e-3,
        .fmax = 64, .excludes = "type|pure"),
    ROW(0, "imatrix", STR, imatrix, CHOOSES, "FILE",
        "importance matrix (--make-imatrix)", ),
    FLAG("strict", strict, CHOOSES,
        "exit 1 where a tensor cannot have its type and falls back to another"),
    FLAG("dry-run", dry_run, 0, "the types and sizes, as a table; nothing is written"),
    FLAG("measure", measure, 0, "the error of each tensor, as a table; OUT may be left out"),
    ROW(0, "to", STR, to, CHOOSES, "FORMAT",
        "the container of OUT", .otherwise = "by its name, else gguf"),
    FLAG("no-history", no_history, CHOOSES,
        "do not note this run in the metadata: same bytes twice"),
    FLAG("list-types", list_types, 0, "the types and mixes, as a table"),
    FLAG("make-imatrix", make_imatrix, 0,
         "run a model over a text, to see how much each column counts"),
    ROW('m', "model", STR, model, ZT_IN(IMATRIX), "MODEL", "with --make-imatrix: the model", ),
    ROW('i', "input", STR, input, ZT_IN(IMATRIX), "TEXT", "with --make-imatrix: the text", ),
    ROW('c', "ctx", I64, window, ZT_IN(IMATRIX), "N",
        "with --make-imatrix: tokens of a window",
        .min = 1, .max = 1 << 24),
    {0}};

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

static const char *const synopsis[] = {
    "--type TYPE [--tensor-type GLOB=TYPE]... [--imatrix FILE] [OPTION...] IN OUT",
    "--target-size SIZE | --bpw X [--imatrix FILE] [OPTION...] IN OUT",
    "--type TYPE --dry-run | --measure [OPTION...] IN",
    "--make-imatrix -m MODEL -i TEXT -o FILE",
    "--list-types", NULL};

const zt_tool quant_tool = {
    .name = "zt-quant",
    .summary = "quantize a model, and know what it cost",
    .synopsis = synopsis,
    .options = option_table,
    .shared = ZT_SHARE_OUTPUT | ZT_SHARE_ENGINE | ZT_SHARE_MEM | ZT_SHARE_FORMAT | ZT_SHARE_COLOR |
              ZT_SHARE_PROGRESS,
    .max_operands = 2,
    .modes = modes,
    .n_modes = N_MODES,
    .shared_options = shared,
};

quant_options *quant_options_init(void)
{
    opt = (quant_options){.window = 512};
    return &opt;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static zt_status fail_misuse(quant_run *run, const char *what)
{
    return zt_fail(run->ctx, ZT_EUSAGE, "%s", what);
}

static zt_status check_imatrix_job(quant_run *run)
{
    const quant_options *options = run->options;
    if (run->cli->n_operands)
        return fail_misuse(run, "--make-imatrix has no operands: it goes with -m MODEL -i TEXT -o FILE");
    if (!options->model || !options->input || !run->cli->output)
        return fail_misuse(run, "--make-imatrix needs -m MODEL, -i TEXT and -o FILE");
    if (!strcmp(options->model, "-") && !strcmp(options->input, "-"))
        return fail_misuse(run, "model and text cannot both be stdin");
    return ZT_OK;
}

bool quant_fits(const quant_options *options)
{
    return options->target > 0 || options->bpw > 0;
}

/* IN and OUT: two operands, or one and -o. */
static zt_status take_operands(quant_run *run)
{
    const quant_options *options = run->options;
    int count = run->cli->n_operands;
    if (count == 0)
        return fail_misuse(run, "the input is missing");
    if (count == 2 && run->cli->output)
        return fail_misuse(run, "the output is named twice");
    run->input_path = run->cli->operands[0];
    run->output_path = run->output_name = count == 2 ? run->cli->operands[1] : run->cli->output;
    if (options->dry_run)
        run->output_path = NULL;
    else if (!run->output_path && !options->measure)
        return fail_misuse(run, "the output is missing");
    return zt_cli_claim(run->cli, run->output_path, "the output");
}

/* A type of models, of networks, or of both. */
static bool find_type(const char *name, const zt_mix **mix, zt_storage *net)
{
    *mix = zt_mix_find(name);
    if (*mix && !quant_can((*mix)->dtype))
        *mix = NULL;
    if (!zt_storage_parse(name, strlen(name), net))
        *net = ZT_STORE_COUNT;
    for (int storage = 0; storage < ZT_STORE_COUNT; storage++)
        if (!strcmp(name, zt_netjson_word((zt_storage)storage)))
            *net = (zt_storage)storage;
    return *mix || *net != ZT_STORE_COUNT;
}

static zt_status take_wish(quant_run *run, int index)
{
    char shown[64];
    const char *text = run->options->wishes.item[index], *equals = strrchr(text, '=');
    const zt_mix *mix = NULL;
    zt_escape(shown, sizeof shown, text, strlen(text));
    if (!equals || equals == text)
        return zt_fail(run->ctx, ZT_EUSAGE, "--tensor-type '%s' is not GLOB=TYPE", shown);
    if (!find_type(equals + 1, &mix, &run->net_wishes[index]))
        return zt_cli_no_mix(run->cli, "tensor-type", equals + 1);
    run->globs[index] = zt_strndup(run->ctx, text, (size_t)(equals - text));
    run->wishes[index] = (zt_mix_wish){run->globs[index], mix ? mix->dtype : ZT_DTYPE_COUNT};
    return run->globs[index] ? ZT_OK : ZT_ENOMEM;
}

/* A type that is asked for has scales of its own beside its codes. */
static bool has_scales(const quant_run *run)
{
    bool has = run->mix && quant_is_scaled(run->mix->dtype);
    for (int i = 0; i < run->options->wishes.n; i++)
        has = has || quant_is_scaled(run->wishes[i].dtype);
    return has;
}

static zt_status take_types(quant_run *run)
{
    const quant_options *options = run->options;
    size_t count = (size_t)options->wishes.n;
    if (!options->type && !quant_fits(options))
        return fail_misuse(run, "--type, --target-size or --bpw is missing");
    if (!find_type(options->type ? options->type : "q8_0", &run->mix, &run->storage))
        return zt_cli_no_mix(run->cli, "type", options->type);
    run->wishes = zt_calloc(run->ctx, count + 1, sizeof *run->wishes);
    run->globs = zt_calloc(run->ctx, count + 1, sizeof *run->globs);
    run->net_wishes = zt_calloc(run->ctx, count + 1, sizeof *run->net_wishes);
    zt_status status = run->wishes && run->globs && run->net_wishes ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; i < count && status == ZT_OK; i++)
        status = take_wish(run, (int)i);
    if (status == ZT_OK && options->scale_given && !has_scales(run))
        return fail_misuse(run, "--scale is of FP8: no type that is asked for has scales");
    return status;
}

zt_status quant_options_check(quant_run *run)
{
    const quant_options *options = run->options;
    int mode = zt_cli_mode(run->cli, QUANTIZE);
    if (mode < 0 || zt_cli_enter(run->cli, mode))
        return ZT_EUSAGE;
    if (options->list_types)
        return run->cli->n_operands ? fail_misuse(run, "--list-types has no operands") : ZT_OK;
    if (options->make_imatrix)
        return check_imatrix_job(run);
    zt_status status = take_operands(run);
    if (status == ZT_OK && options->to && !zt_container_named(options->to))
        status = zt_cli_no_container(run->cli, options->to);
    if (status == ZT_OK && options->dry_run && !quant_fits(options))
        status = zt_cli_refuse_given(run->cli, "threads|progress",
                                "--dry-run without --target-size or --bpw: nothing is measured");
    return status == ZT_OK ? take_types(run) : status;
}
