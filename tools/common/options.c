/* options.c - the option table made into a parser: getopt_long, values, ranges, misspellings. */
#include "lib/base/near.h"
#include "tools/common/internal.h"
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Codes that getopt returns for options without a letter: FIRST_LONG + index in the table. */
enum { FIRST_LONG = 256, SHOWN = 160 /* bytes of a word from the command line in a message */ };

/* ---- the shared options ---------------------------------------------------------------------- */

#define AT(field) offsetof(zt_cli_state, field)

/* which bit of zt_tool.shared asks for it (0: every tool), field of the state, letter, name, kind,
 * argument, help; then what else the option has */
#define ROW(bit, field, c, n, k, a, h, ...)                                                        \
    {.share = bit, .value = AT(field),                                                             \
     .opt = {.letter = c, .name = n, .kind = ZT_OPT_##k, .arg = a, .help = h, __VA_ARGS__}}

#define THREADS "the processors it may use"
#define ISA "ZT_ISA, else the best there is"

static const struct shared_option {
    unsigned share;
    size_t value; /* where in the state it goes */
    zt_opt opt;
} shared[] = {
    ROW(ZT_SHARE_OUTPUT, pub.output, 'o', "output", STR, "FILE", "output file; - is stdout",
        .otherwise = "stdout, where the tool writes there"),
    ROW(ZT_SHARE_OUTPUT, pub.force, 'f', "force", FLAG, NULL, "overwrite an existing output", ),
    ROW(ZT_SHARE_PAIR, threads_text, 't', "threads", STR, "N[,N]", "number of threads",
        .otherwise = THREADS),
    ROW(ZT_SHARE_PAIR, pub.engine, 0, "engine", STR, "NAME[,NAME]",
        "auto, cpu, cuda, hip, vulkan, vulkan:1 or ref", ),
    ROW(ZT_SHARE_ENGINE, pub.threads, 't', "threads", I64, "N", "number of threads", .min = 1,
        .max = 256, .otherwise = THREADS),
    ROW(ZT_SHARE_THREADS, pub.threads, 't', "threads", I64, "N", "number of threads", .min = 1,
        .max = 256, .otherwise = THREADS),
    ROW(ZT_SHARE_ENGINE, pub.engine, 0, "engine", STR, "NAME",
        "auto, cpu, cuda, hip, vulkan, vulkan:1 or ref", ),
    ROW(ZT_SHARE_ENGINE, pub.strict, 0, "strict-engine", FLAG, NULL,
        "falling back to another engine is an error", ),
    ROW(ZT_SHARE_PAIR, isa_text, 0, "isa", STR, "ISA[,ISA]",
        "scalar, avx2 or avx512: instructions to use at most", .otherwise = ISA),
    ROW(ZT_SHARE_ENGINE, isa, 0, "isa", WORD, "scalar|avx2|avx512", "instructions to use at most",
        .otherwise = ISA),
    ROW(ZT_SHARE_ENGINE, pub.compute, 0, "compute", WORD, "f32|f16|bf16|fp8",
        "number format that cuda and hip compute with", ),
    ROW(ZT_SHARE_TILE, pub.tile, 0, "tile", I64, "N",
        "tokens in a tile of matrix products on the CPU", .min = 1, .max = 1 << 20,
        .otherwise = "by the caches"),
    ROW(ZT_SHARE_MEM, pub.mem_limit, 0, "mem-limit", SIZE, "SIZE",
        "memory limit, such as 512M or 4GiB: past it the run fails", ),
    ROW(ZT_SHARE_SEED, pub.seed, 0, "seed", U64, "N", "seed of random numbers", ),
    ROW(ZT_SHARE_JUNIT, format, 0, "format", WORD, "auto|tsv|csv|json|ndjson|md|junit",
        "form of tables; auto: columns on a terminal, else tsv", ),
    ROW(ZT_SHARE_FORMAT, format, 0, "format", WORD, "auto|tsv|csv|json|ndjson|md",
        "form of tables; auto: columns on a terminal, else tsv", ),
    ROW(ZT_SHARE_COLOR, pub.color, 0, "color", WORD, "auto|always|never", "colours on stdout", ),
    ROW(ZT_SHARE_PROGRESS, pub.progress, 0, "progress", WORD, "auto|always|never",
        "progress bar on stderr", ),
    ROW(0, pub.quiet, 'q', "quiet", FLAG, NULL, "print errors only", ),
    ROW(0, pub.verbose, 'v', "verbose", COUNT, NULL, "print more; twice: still more", ),
    ROW(0, help, 'h', "help", FLAG, NULL, "print this and exit", ),
    ROW(0, version, 'V', "version", FLAG, NULL, "print version, engines, processor and exit", ),
    ROW(0, completion, 0, "completion", WORD, "bash", "print a completion script and exit",
        .otherwise = "none"),
    /* Of a tool without tables: --format for --version alone. Used where the other is not. */
    ROW(0, format, 0, "format", WORD, "text|json", "form of --version", ),
};

enum { N_SHARED = sizeof shared / sizeof *shared };

static bool named(const zt_opt *o, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (o[i].name && strcmp(o[i].name, name) == 0)
            return true;
    return false;
}

static bool *given_of(zt_cli_state *st, const char *name)
{
    const struct {
        const char *name;
        bool *given;
    } asked[] = {{"isa", &st->isa_given},
                 {"format", &st->format_given},
                 {"completion", &st->completion_given}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (strcmp(name, asked[i].name) == 0)
            return asked[i].given;
    return NULL;
}

/* The tool's own options, then those shared ones that it takes and does not replace. */
static zt_status build(zt_cli_state *st)
{
    const zt_tool *tool = st->pub.tool;
    while (tool->options[st->n_own].letter || tool->options[st->n_own].name)
        st->n_own++;
    st->opts = zt_calloc(st->pub.ctx, (size_t)st->n_own + N_SHARED + 1, sizeof *st->opts);
    if (!st->opts)
        return ZT_ENOMEM;
    memcpy(st->opts, tool->options, (size_t)st->n_own * sizeof *st->opts);
    st->n_opts = st->n_own;
    for (int i = 0; i < N_SHARED; i++) {
        const struct shared_option *row = &shared[i];
        if ((row->share & tool->shared) != row->share || named(st->opts, st->n_opts, row->opt.name))
            continue;
        zt_opt *o = &st->opts[st->n_opts++];
        *o = row->opt;
        o->value = (char *)st + row->value;
        o->given = given_of(st, o->name);
        zt_modes_share(tool, o);
    }
    st->given = zt_calloc(st->pub.ctx, (size_t)st->n_opts + 1, sizeof *st->given);
    st->initial = zt_calloc(st->pub.ctx, (size_t)st->n_opts + 1, sizeof *st->initial);
    for (int i = 0; st->initial && i < st->n_opts; i++)
        zt_default_of(&st->opts[i], st->initial[i]);
    return st->given && st->initial ? ZT_OK : ZT_ENOMEM;
}

/* ---- messages -------------------------------------------------------------------------------- */

bool zt_option_takes_value(const zt_opt *o)
{
    return o->kind != ZT_OPT_FLAG && o->kind != ZT_OPT_OFF && o->kind != ZT_OPT_COUNT;
}

const char *zt_option_display(const zt_opt *o, char buf[64])
{
    if (o->name)
        snprintf(buf, 64, "--%.60s", o->name);
    else
        snprintf(buf, 64, "-%c", o->letter);
    return buf;
}

static zt_status bad_value(zt_cli_state *st, const zt_opt *o, const char *text, const char *wanted)
{
    char name[64], shown[SHOWN];
    return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '%s': '%s' is not %s",
                   zt_option_display(o, name), zt_escape(shown, sizeof shown, text, strlen(text)),
                   wanted);
}

/* The name of option i, "" where it has none. */
static const char *option_name(const void *state, int i)
{
    const zt_cli_state *st = state;
    return i >= st->n_opts ? NULL : st->opts[i].name ? st->opts[i].name : "";
}

static zt_status unknown_long(zt_cli_state *st, const char *word)
{
    char shown[SHOWN];
    size_t n = strcspn(word, "=");
    const zt_opt *first = NULL, *second = NULL;
    for (const zt_opt *o = st->opts; o < st->opts + st->n_opts; o++) {
        if (o->name && strncmp(o->name, word, n) == 0) {
            second = first ? o : NULL;
            first = first ? first : o;
            if (second)
                break;
        }
    }
    zt_escape(shown, sizeof shown, word, n);
    if (second)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '--%s' may be '--%s' or '--%s'", shown,
                       first->name, second->name);
    const char *near = zt_near_name(word, n, option_name, st);
    if (!near)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "unknown option '--%s': --help lists the options",
                       shown);
    return zt_fail(st->pub.ctx, ZT_EUSAGE, "unknown option '--%s' (did you mean '--%s'?)", shown,
                   near);
}

static zt_status unknown_letter(zt_cli_state *st, int letter)
{
    char shown[16], c = (char)letter;
    zt_escape(shown, sizeof shown, &c, 1);
    for (const zt_opt *o = st->opts; o < st->opts + st->n_opts; o++)
        if (o->letter && (o->letter ^ 0x20) == letter)
            return zt_fail(st->pub.ctx, ZT_EUSAGE, "unknown option '-%s' (did you mean '-%c'?)",
                           shown, o->letter);
    const zt_opt *one = NULL; /* the one whose name begins with it */
    int n = 0;
    for (const zt_opt *o = st->opts; o < st->opts + st->n_opts; o++) {
        if (!o->name || o->name[0] != c)
            continue;
        one = o;
        n++;
    }
    if (n == 1)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "unknown option '-%s' (did you mean '--%s'?)",
                       shown, one->name);
    return zt_fail(st->pub.ctx, ZT_EUSAGE, "unknown option '-%s': --help lists the options",
                   shown);
}

/* ---- values, a function for each kind -------------------------------------------------------- */

static zt_status set_flag(zt_cli_state *st, const zt_opt *o, const char *text)
{
    (void)st, (void)text;
    *(bool *)o->value = o->kind == ZT_OPT_FLAG;
    return ZT_OK;
}

static zt_status set_count(zt_cli_state *st, const zt_opt *o, const char *text)
{
    (void)st, (void)text;
    int *n = o->value;
    *n += *n < 1000;
    return ZT_OK;
}

static zt_status set_str(zt_cli_state *st, const zt_opt *o, const char *text)
{
    (void)st;
    *(const char **)o->value = text;
    return ZT_OK;
}

static zt_status set_list(zt_cli_state *st, const zt_opt *o, const char *text)
{
    zt_opt_list *list = o->value;
    size_t n = (size_t)list->n + 1;
    const char **item = zt_realloc(st->pub.ctx, list->item, n * sizeof *item);
    if (!item)
        return ZT_ENOMEM;
    item[list->n++] = text;
    list->item = item;
    return ZT_OK;
}

static zt_status set_i64(zt_cli_state *st, const zt_opt *o, const char *text)
{
    bool any = o->min == 0 && o->max == 0;
    int64_t x;
    if (zt_parse_i64(text, &x) && (any || (x >= o->min && x <= o->max))) {
        *(int64_t *)o->value = x;
        return ZT_OK;
    }
    char wanted[96] = "an integer";
    if (!any && o->max == INT64_MAX)
        snprintf(wanted, sizeof wanted, "an integer of at least %lld", (long long)o->min);
    else if (!any)
        snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)o->min,
                 (long long)o->max);
    return bad_value(st, o, text, wanted);
}

static zt_status set_u64(zt_cli_state *st, const zt_opt *o, const char *text)
{
    uint64_t x = 0;
    bool good = *text != '\0';
    for (const char *p = text; good && *p; p++)
        good = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(x, 10, &x) &&
               !__builtin_add_overflow(x, (uint64_t)(*p - '0'), &x);
    if (!good)
        return bad_value(st, o, text, "an integer from 0 to 18446744073709551615");
    *(uint64_t *)o->value = x;
    return ZT_OK;
}

static zt_status set_f64(zt_cli_state *st, const zt_opt *o, const char *text)
{
    bool any = o->fmin == 0 && o->fmax == 0;
    double x;
    if (zt_parse_double(text, &x) && isfinite(x) && (any || (x >= o->fmin && x <= o->fmax))) {
        *(double *)o->value = x;
        return ZT_OK;
    }
    char wanted[96] = "a number";
    if (!any && o->fmax >= 1e300)
        snprintf(wanted, sizeof wanted, "a number of at least %g", o->fmin);
    else if (!any)
        snprintf(wanted, sizeof wanted, "a number from %g to %g", o->fmin, o->fmax);
    return bad_value(st, o, text, wanted);
}

static zt_status set_size(zt_cli_state *st, const zt_opt *o, const char *text)
{
    size_t n;
    if (!zt_parse_size(text, &n) || n < (size_t)o->min)
        return bad_value(st, o, text,
                         o->min ? "a size above 0, such as 20000, 512M or 4GiB"
                                : "a size such as 20000, 512M or 4GiB");
    *(size_t *)o->value = n;
    return ZT_OK;
}

/* What is wrong with a word, the words there are, and the nearest. */
static zt_status bad_word(zt_cli_state *st, const zt_opt *o, const char *text)
{
    enum { MOST_WORDS = 32 };
    char wanted[500], words[300];
    const char *word[MOST_WORDS + 1] = {NULL};
    zt_near_hint hint;
    int n = 0;
    snprintf(words, sizeof words, "%s", o->arg);
    for (char *save, *w = strtok_r(words, "|", &save); w && n < MOST_WORDS;
         w = strtok_r(NULL, "|", &save))
        word[n++] = w;
    snprintf(wanted, sizeof wanted, "one of %s%s", o->arg, zt_near(hint, text, zt_near_list, word));
    return bad_value(st, o, text, wanted);
}

static zt_status set_word(zt_cli_state *st, const zt_opt *o, const char *text)
{
    int index = 0;
    for (const char *p = o->arg; p; index++) {
        size_t n = strcspn(p, "|");
        if (n == strlen(text) && memcmp(p, text, n) == 0) {
            *(int *)o->value = index;
            return ZT_OK;
        }
        p = p[n] ? p + n + 1 : NULL;
    }
    return bad_word(st, o, text);
}

typedef zt_status set_fn(zt_cli_state *st, const zt_opt *o, const char *text);

static set_fn *const set[] = {
    [ZT_OPT_FLAG] = set_flag, [ZT_OPT_OFF] = set_flag,   [ZT_OPT_STR] = set_str,
    [ZT_OPT_LIST] = set_list, [ZT_OPT_I64] = set_i64,    [ZT_OPT_U64] = set_u64,
    [ZT_OPT_F64] = set_f64,   [ZT_OPT_SIZE] = set_size,  [ZT_OPT_WORD] = set_word,
    [ZT_OPT_COUNT] = set_count,
};

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct parser {
    struct option *longs; /* as getopt_long wants them; val is FIRST_LONG + index */
    char *letters;
} parser;

static zt_status parser_init(zt_cli_state *st, parser *p)
{
    size_t n = (size_t)st->n_opts, n_longs = 0, n_letters = 0;
    p->longs = zt_calloc(st->pub.ctx, n + 1, sizeof *p->longs);
    p->letters = zt_calloc(st->pub.ctx, 2 * n + 2, 1);
    if (!p->longs || !p->letters)
        return ZT_ENOMEM;
    p->letters[n_letters++] = ':'; /* getopt tells missing values apart, and prints nothing */
    for (int i = 0; i < st->n_opts; i++) {
        const zt_opt *o = &st->opts[i];
        bool value = zt_option_takes_value(o);
        if (o->name)
            p->longs[n_longs++] = (struct option){
                o->name, value ? required_argument : no_argument, NULL, FIRST_LONG + i};
        if (o->letter && !memchr(p->letters + 1, o->letter, n_letters - 1)) {
            p->letters[n_letters++] = (char)o->letter;
            if (value)
                p->letters[n_letters++] = ':';
        }
    }
    return ZT_OK;
}

/* The option that getopt's code stands for; the tool's own come first. */
static const zt_opt *by_code(const zt_cli_state *st, int code)
{
    if (code >= FIRST_LONG)
        return &st->opts[code - FIRST_LONG];
    for (int i = 0; i < st->n_opts; i++)
        if (st->opts[i].letter == code)
            return &st->opts[i];
    return NULL;
}

static zt_status misuse(zt_cli_state *st, int code, char **argv)
{
    char name[64];
    const zt_opt *o = optopt ? by_code(st, optopt) : NULL;
    if (code == ':' && optopt < FIRST_LONG)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '-%c' needs a value (%s)", optopt,
                       o ? o->arg : "");
    if (code == ':')
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '%s' needs a value (%s)",
                       zt_option_display(o, name), o->arg);
    if (optopt >= FIRST_LONG)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '%s' takes no value",
                       zt_option_display(o, name));
    if (optopt)
        return unknown_letter(st, optopt);
    return unknown_long(st, argv[optind - 1] + 2);
}

/* Remembers that the option was given. Of values only a list takes more than one: of two
 * different ones the first would be ignored. */
static zt_status note_given(zt_cli_state *st, const zt_opt *o, const char *text)
{
    char name[64], shown[2][SHOWN];
    const char **given = &st->given[o - st->opts];
    if (*given && text && o->kind != ZT_OPT_LIST && strcmp(*given, text))
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "option '%s' is given twice: '%s' and '%s'",
                       zt_option_display(o, name),
                       zt_escape(shown[0], SHOWN, *given, strlen(*given)),
                       zt_escape(shown[1], SHOWN, text, strlen(text)));
    *given = text ? text : "";
    if (o->given)
        *o->given = true;
    return ZT_OK;
}

static zt_status parse_all(zt_cli_state *st, const parser *p, int argc, char **argv)
{
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    for (;;) {
        int code = getopt_long(argc, argv, p->letters, p->longs, NULL);
        if (code == -1)
            break;
        if (code == '?' || code == ':')
            return misuse(st, code, argv);
        const zt_opt *o = by_code(st, code);
        const char *text = zt_option_takes_value(o) ? optarg : NULL;
        zt_status s = note_given(st, o, text);
        if (s == ZT_OK)
            s = set[o->kind](st, o, text);
        if (s)
            return s;
        if (st->help || st->completion_given)
            return ZT_OK;
    }
    st->pub.operands = argv + optind;
    st->pub.n_operands = argc - optind;
    return ZT_OK;
}

static zt_status check_operands(zt_cli_state *st)
{
    int most = st->pub.tool->max_operands;
    char shown[SHOWN];
    if (st->version || most < 0 || st->pub.n_operands <= most)
        return ZT_OK;
    const char *word = st->pub.operands[most];
    zt_escape(shown, sizeof shown, word, strlen(word));
    if (most == 0)
        return zt_fail(st->pub.ctx, ZT_EUSAGE, "'%s': no operand is expected", shown);
    return zt_fail(st->pub.ctx, ZT_EUSAGE, "'%s': at most %d operand%s expected", shown, most,
                   most == 1 ? " is" : "s are");
}

zt_status zt_options_parse(zt_cli_state *st, int argc, char **argv)
{
    parser p = {0};
    zt_status s = build(st);
    if (s == ZT_OK)
        s = parser_init(st, &p);
    if (s == ZT_OK)
        s = parse_all(st, &p, argc, argv);
    zt_free(st->pub.ctx, p.longs);
    zt_free(st->pub.ctx, p.letters);
    if (s || st->help || st->completion_given)
        return s;
    return check_operands(st);
}

void zt_options_free(zt_cli_state *st)
{
    for (int i = 0; st->opts && i < st->n_opts; i++) {
        if (st->opts[i].kind == ZT_OPT_LIST) {
            zt_opt_list *list = st->opts[i].value;
            zt_free(st->pub.ctx, list->item);
            *list = (zt_opt_list){0};
        }
    }
    zt_free(st->pub.ctx, st->given);
    zt_free(st->pub.ctx, st->initial);
    zt_free(st->pub.ctx, st->opts);
    st->given = NULL;
    st->initial = NULL;
    st->opts = NULL;
}
