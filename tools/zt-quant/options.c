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

static const zt_opt options[] = {
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
    .options = options,
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

static zt_status misuse(quant *q, const char *what)
{
    return zt_fail(q->ctx, ZT_EUSAGE, "%s", what);
}

static zt_status check_imatrix_job(quant *q)
{
    const quant_options *o = q->o;
    if (q->cli->n_operands)
        return misuse(q, "--make-imatrix has no operands: it goes with -m MODEL -i TEXT -o FILE");
    if (!o->model || !o->input || !q->cli->output)
        return misuse(q, "--make-imatrix needs -m MODEL, -i TEXT and -o FILE");
    if (!strcmp(o->model, "-") && !strcmp(o->input, "-"))
        return misuse(q, "model and text cannot both be stdin");
    return ZT_OK;
}

bool quant_fits(const quant_options *o)
{
    return o->target > 0 || o->bpw > 0;
}

/* IN and OUT: two operands, or one and -o. */
static zt_status take_operands(quant *q)
{
    const quant_options *o = q->o;
    int n = q->cli->n_operands;
    if (n == 0)
        return misuse(q, "the input is missing");
    if (n == 2 && q->cli->output)
        return misuse(q, "the output is named twice");
    q->from = q->cli->operands[0];
    q->into = q->named = n == 2 ? q->cli->operands[1] : q->cli->output;
    if (o->dry_run)
        q->into = NULL;
    else if (!q->into && !o->measure)
        return misuse(q, "the output is missing");
    return zt_cli_claim(q->cli, q->into, "the output");
}

/* A type of models, of networks, or of both. */
static bool find_type(const char *name, const zt_mix **m, zt_storage *net)
{
    *m = zt_mix_find(name);
    if (*m && !quant_can((*m)->dtype))
        *m = NULL;
    if (!zt_storage_parse(name, strlen(name), net))
        *net = ZT_STORE_COUNT;
    for (int t = 0; t < ZT_STORE_COUNT; t++)
        if (!strcmp(name, zt_netjson_word((zt_storage)t)))
            *net = (zt_storage)t;
    return *m || *net != ZT_STORE_COUNT;
}

static zt_status take_wish(quant *q, int i)
{
    char shown[64];
    const char *text = q->o->wishes.item[i], *eq = strrchr(text, '=');
    const zt_mix *m = NULL;
    zt_escape(shown, sizeof shown, text, strlen(text));
    if (!eq || eq == text)
        return zt_fail(q->ctx, ZT_EUSAGE, "--tensor-type '%s' is not GLOB=TYPE", shown);
    if (!find_type(eq + 1, &m, &q->net_wish[i]))
        return zt_cli_no_mix(q->cli, "tensor-type", eq + 1);
    q->glob[i] = zt_strndup(q->ctx, text, (size_t)(eq - text));
    q->wish[i] = (zt_mix_wish){q->glob[i], m ? m->dtype : ZT_DTYPE_COUNT};
    return q->glob[i] ? ZT_OK : ZT_ENOMEM;
}

/* A type that is asked for has scales of its own beside its codes. */
static bool has_scales(const quant *q)
{
    bool has = q->mix && quant_is_scaled(q->mix->dtype);
    for (int i = 0; i < q->o->wishes.n; i++)
        has = has || quant_is_scaled(q->wish[i].dtype);
    return has;
}

static zt_status take_types(quant *q)
{
    const quant_options *o = q->o;
    size_t n = (size_t)o->wishes.n;
    if (!o->type && !quant_fits(o))
        return misuse(q, "--type, --target-size or --bpw is missing");
    if (!find_type(o->type ? o->type : "q8_0", &q->mix, &q->storage))
        return zt_cli_no_mix(q->cli, "type", o->type);
    q->wish = zt_calloc(q->ctx, n + 1, sizeof *q->wish);
    q->glob = zt_calloc(q->ctx, n + 1, sizeof *q->glob);
    q->net_wish = zt_calloc(q->ctx, n + 1, sizeof *q->net_wish);
    zt_status s = q->wish && q->glob && q->net_wish ? ZT_OK : ZT_ENOMEM;
    for (size_t i = 0; i < n && s == ZT_OK; i++)
        s = take_wish(q, (int)i);
    if (s == ZT_OK && o->scale_given && !has_scales(q))
        return misuse(q, "--scale is of FP8: no type that is asked for has scales");
    return s;
}

zt_status quant_options_check(quant *q)
{
    const quant_options *o = q->o;
    int mode = zt_cli_mode(q->cli, QUANTIZE);
    if (mode < 0 || zt_cli_enter(q->cli, mode))
        return ZT_EUSAGE;
    if (o->list_types)
        return q->cli->n_operands ? misuse(q, "--list-types has no operands") : ZT_OK;
    if (o->make_imatrix)
        return check_imatrix_job(q);
    zt_status s = take_operands(q);
    if (s == ZT_OK && o->to && !zt_container_named(o->to))
        s = zt_cli_no_container(q->cli, o->to);
    if (s == ZT_OK && o->dry_run && !quant_fits(o))
        s = zt_cli_refuse_given(q->cli, "threads|progress",
                                "--dry-run without --target-size or --bpw: nothing is measured");
    return s == ZT_OK ? take_types(q) : s;
}
