/* options.c - the options of zt-quant, and which of them go together. */
#include "tools/zt-quant/quant.h"

#include <string.h>

static quant_options opt; /* filled by the option table, which needs constant addresses */

#define ROW(c, n, k, field, a, h, ...)                                                             \
    {.letter = c, .name = n, .kind = ZT_OPT_##k, .value = &opt.field, .arg = a, .help = h,         \
     __VA_ARGS__}
#define FLAG(n, field, h) ROW(0, n, FLAG, field, NULL, h, )

static const zt_opt options[] = {
    ROW('T', "type", STR, type, "TYPE",
        "the type, or mix of types, of the matrices (--list-types)", ),
    ROW(0, "tensor-type", LIST, wishes, "GLOB=TYPE",
        "another type for such names; the last that matches holds", ),
    ROW(0, "scale", WORD, scale, "row|tensor", "of FP8: a scale for each row (default), or one",
        .given = &opt.scale_given),
    ROW(0, "rule", WORD, rule, "field|loom",
        "of networks: how codes are chosen (default: field)", ),
    FLAG("pure", pure, "all matrices of one type: no mix"),
    ROW(0, "target-size", SIZE, target, "SIZE",
        "types by measured error; the whole file has at most this size", .min = 1),
    ROW(0, "bpw", F64, bpw, "X",
        "the same; the tensors have at most X bits per weight of the model", .fmin = 1e-3,
        .fmax = 64),
    ROW(0, "imatrix", STR, imatrix, "FILE", "how much each column counts (--make-imatrix)", ),
    FLAG("strict", strict, "exit 1 where a tensor cannot have its type and falls back to another"),
    FLAG("dry-run", dry_run, "the types and sizes, as a table; nothing is written"),
    FLAG("measure", measure, "the error of each tensor, as a table; OUT may be left out"),
    ROW(0, "to", STR, to, "FORMAT", "the container of OUT (default: by its name, else gguf)", ),
    FLAG("no-history", no_history, "do not note this run in the metadata: same bytes twice"),
    FLAG("list-types", list_types, "the types and mixes, as a table"),
    FLAG("make-imatrix", make_imatrix,
         "run a model over a text, to see how much each column counts"),
    ROW('m', "model", STR, model, "MODEL", "with --make-imatrix: the model", ),
    ROW('i', "input", STR, input, "TEXT", "with --make-imatrix: the text", ),
    ROW('c', "ctx", I64, window, "N", "with --make-imatrix: tokens of a window (default: 512)",
        .min = 1, .max = 1 << 24),
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
    if (o->type || quant_fits(o) || o->imatrix || o->dry_run || o->measure || o->to || o->wishes.n ||
        o->scale_given || o->rule || o->pure || o->strict || o->no_history || q->cli->n_operands)
        return misuse(q, "--make-imatrix goes with -m MODEL -i TEXT -o FILE alone");
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
    return ZT_OK;
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
        return zt_fail(q->ctx, ZT_EUSAGE, "--tensor-type '%s': no such type: see --list-types",
                       shown);
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
    char shown[64];
    const char *size = o->target ? "--target-size" : "--bpw";
    if (!o->type && !quant_fits(o))
        return misuse(q, "--type, --target-size or --bpw is missing");
    if (o->target && o->bpw > 0)
        return misuse(q, "--target-size and --bpw exclude each other");
    if ((o->type || o->pure) && quant_fits(o))
        return zt_fail(q->ctx, ZT_EUSAGE, "%s and %s exclude each other",
                       o->type ? "--type" : "--pure", size);
    if (!find_type(o->type ? o->type : "q8_0", &q->mix, &q->storage))
        return zt_fail(q->ctx, ZT_EUSAGE, "--type %s: no such type: see --list-types",
                       zt_escape(shown, sizeof shown, o->type, strlen(o->type)));
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
    if (o->list_types)
        return q->cli->n_operands ? misuse(q, "--list-types has no operands") : ZT_OK;
    if (o->make_imatrix)
        return check_imatrix_job(q);
    if (o->model || o->input)
        return misuse(q, "-m and -i go with --make-imatrix");
    if (o->dry_run && o->measure)
        return misuse(q, "--dry-run and --measure exclude each other");
    zt_status s = take_operands(q);
    if (s == ZT_OK && o->to && !zt_container_named(o->to))
        s = misuse(q, "--to: no such format");
    return s == ZT_OK ? take_types(q) : s;
}
