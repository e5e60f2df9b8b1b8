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
#define ROW(bit, field, c, n, k, a, h, ...)                                                                                      \
    {                                                                                                                            \
        .share = bit, .value = AT(field), .opt = {.letter = c, .name = n, .kind = ZT_OPT_##k, .arg = a, .help = h, __VA_ARGS__ } \
    }

#define THREADS "number of available processors"
#define ISA     "ZT_ISA, or the newest supported"

static const struct shared_option {
    unsigned share;
    size_t value; /* where in the state it goes */
    zt_opt opt;
} shared_options[] = {
    ROW(ZT_SHARE_OUTPUT, cli.output, 'o', "output", STR, "FILE", "output file; - for stdout",
        .otherwise = "stdout, if the tool can write to it", .opens = ZT_OPENS_OUTPUT),
    ROW(ZT_SHARE_OUTPUT, cli.force, 'f', "force", FLAG, NULL, "overwrite an existing output file", ),
    ROW(ZT_SHARE_PAIR, threads_text, 't', "threads", STR, "N[,N]", "number of threads", .otherwise = THREADS),
    ROW(ZT_SHARE_PAIR, cli.engine, 0, "engine", STR, "NAME[,NAME]", "engine: auto, cpu, cuda, hip, opencl, vulkan or ref",
        .values = zt_cli_engine_names),
    ROW(ZT_SHARE_ENGINES, cli.engine, 0, "engine", STR, "NAME,...", "engines: auto, cpu, cuda, hip, opencl, vulkan or ref",
        .values = zt_cli_engine_names),
    ROW(ZT_SHARE_ENGINE, cli.threads, 't', "threads", I64, "N", "number of threads", .min = 1, .max = 256, .otherwise = THREADS),
    ROW(ZT_SHARE_THREADS, cli.threads, 't', "threads", I64, "N", "number of threads", .min = 1, .max = 256, .otherwise = THREADS),
    ROW(ZT_SHARE_ENGINE, cli.engine, 0, "engine", STR, "NAME", "engine: auto, cpu, cuda, hip, opencl, vulkan or ref",
        .values = zt_cli_engine_names),
    ROW(ZT_SHARE_ENGINE, cli.strict, 0, "strict-engine", FLAG, NULL, "fail if an operation falls back to another engine",
        .detail = true),
    ROW(ZT_SHARE_BITS, cli.strict_bits, 0, "strict-bits", FLAG, NULL,
        "fail if an operation's kernel does not promise the bits of the arithmetic", .excludes = "compute", .detail = true),
    ROW(ZT_SHARE_ENGINE | ZT_SHARE_FORMAT, devices, 0, "list-devices", FLAG, NULL,
        "list the devices of the engines, or of --engine, and exit", .detail = true),
    ROW(ZT_SHARE_PAIR, isa_text, 0, "isa", STR, "ISA[,ISA]", "newest instruction set that the CPU engine may use",
        .otherwise = ISA, .detail = true, .values = zt_cli_isa_names),
    ROW(ZT_SHARE_ENGINE, isa, 0, "isa", WORD, "scalar|avx2|avx512|neon|dotprod",
        "newest instruction set that the CPU engine may use", .otherwise = ISA, .detail = true),
    ROW(ZT_SHARE_ENGINE, cli.compute, 0, "compute", WORD, "f32|f16|bf16|fp8", "arithmetic of the cuda and hip engines",
        .detail = true),
    ROW(ZT_SHARE_TILE, cli.tile, 0, "tile", I64, "N", "tile size: tokens per matrix product on the CPU", .min = 1, .max = 1 << 20,
        .otherwise = "from the cache sizes", .detail = true),
    ROW(ZT_SHARE_MEM, cli.mem_limit, 0, "mem-limit", SIZE, "SIZE",
        "memory limit, such as 512M or 4GiB: fail rather than exceed it", .detail = true),
    ROW(ZT_SHARE_SEED, cli.seed, 0, "seed", U64, "N", "seed of the random numbers; results are deterministic", ),
    ROW(ZT_SHARE_JUNIT, format, 0, "format", WORD, "auto|tsv|csv|json|ndjson|md|junit",
        "table format; auto: columns on a terminal, else tsv", .detail = true),
    ROW(ZT_SHARE_FORMAT, format, 0, "format", WORD, "auto|tsv|csv|json|ndjson|md",
        "table format; auto: columns on a terminal, else tsv", .detail = true),
    ROW(ZT_SHARE_COLOR, cli.color, 0, "color", WORD, "auto|always|never", "colour output", .detail = true),
    ROW(ZT_SHARE_PROGRESS, cli.progress, 0, "progress", WORD, "auto|always|never", "progress bar on stderr", .detail = true),
    ROW(0, sandbox, 0, "sandbox", WORD, "auto|on|off", "sandbox: files and system calls that the run does not need are refused",
        .detail = true),
    ROW(0, cli.quiet, 'q', "quiet", FLAG, NULL, "quiet: print errors only", .detail = true),
    ROW(0, cli.verbose, 'v', "verbose", COUNT, NULL, "verbose: print details; -vv: more details", ),
    ROW(0, help, 'h', "help", HELP, NULL, "print this help and exit; --help=all: every option", ),
    ROW(0, version, 'V', "version", FLAG, NULL, "print version, engines and processor, and exit", .detail = true),
    ROW(0, completion, 0, "completion", WORD, "bash|zsh|fish", "print a completion script and exit", .otherwise = "none",
        .detail = true),
    /* Of a tool without tables: --format for --version alone. Used where the other is not. */
    ROW(0, format, 0, "format", WORD, "text|json", "output format of --version", .detail = true),
};

enum { N_SHARED = sizeof shared_options / sizeof *shared_options };

static bool has_name(const zt_opt *options, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (options[i].name && strcmp(options[i].name, name) == 0) return true;
    return false;
}

static bool *given_flag(zt_cli_state *state, const char *name)
{
    const struct {
        const char *name;
        bool *given;
    } asked[] = {{"isa", &state->isa_given}, {"format", &state->format_given}, {"completion", &state->completion_given}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (strcmp(name, asked[i].name) == 0) return asked[i].given;
    return NULL;
}

/* The tool's own options, then those shared ones that it takes and does not replace. */
static zt_status build_table(zt_cli_state *state)
{
    const zt_tool *tool = state->cli.tool;
    while (tool->options[state->own_count].letter || tool->options[state->own_count].name) state->own_count++;
    state->options = zt_calloc(state->cli.ctx, (size_t)state->own_count + N_SHARED + 1, sizeof *state->options);
    if (!state->options) return ZT_ENOMEM;
    memcpy(state->options, tool->options, (size_t)state->own_count * sizeof *state->options);
    state->option_count = state->own_count;
    for (int i = 0; i < N_SHARED; i++) {
        const struct shared_option *row = &shared_options[i];
        if ((row->share & tool->shared) != row->share || has_name(state->options, state->option_count, row->opt.name)) continue;
        zt_opt *option = &state->options[state->option_count++];
        *option = row->opt;
        option->value = (char *)state + row->value;
        option->given = given_flag(state, option->name);
        zt_modes_share(tool, option);
    }
    state->given = zt_calloc(state->cli.ctx, (size_t)state->option_count + 1, sizeof *state->given);
    state->initial = zt_calloc(state->cli.ctx, (size_t)state->option_count + 1, sizeof *state->initial);
    for (int i = 0; state->initial && i < state->option_count; i++) zt_default_of(&state->options[i], state->initial[i]);
    return state->given && state->initial ? ZT_OK : ZT_ENOMEM;
}

/* ---- messages -------------------------------------------------------------------------------- */

bool zt_option_takes_value(const zt_opt *option)
{
    return option->kind != ZT_OPT_FLAG && option->kind != ZT_OPT_OFF && option->kind != ZT_OPT_COUNT &&
           option->kind != ZT_OPT_HELP;
}

const char *zt_option_display(const zt_opt *option, char buffer[64])
{
    if (option->name)
        snprintf(buffer, 64, "--%.60s", option->name);
    else
        snprintf(buffer, 64, "-%c", option->letter);
    return buffer;
}

static zt_status fail_value(zt_cli_state *state, const zt_opt *option, const char *text, const char *wanted)
{
    char name[64], shown[SHOWN];
    return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '%s': '%s' is not %s", zt_option_display(option, name),
                   zt_escape(shown, sizeof shown, text, strlen(text)), wanted);
}

/* The name of option i, "" where it has none. */
static const char *option_name(const void *user, int i)
{
    const zt_cli_state *state = user;
    return i >= state->option_count ? NULL : state->options[i].name ? state->options[i].name : "";
}

static zt_status fail_unknown_long(zt_cli_state *state, const char *word)
{
    char shown[SHOWN];
    size_t length = strcspn(word, "=");
    const zt_opt *first = NULL, *second = NULL;
    for (const zt_opt *option = state->options; option < state->options + state->option_count; option++) {
        if (option->name && strncmp(option->name, word, length) == 0) {
            second = first ? option : NULL;
            first = first ? first : option;
            if (second) break;
        }
    }
    zt_escape(shown, sizeof shown, word, length);
    if (second)
        return zt_fail(state->cli.ctx, ZT_EUSAGE, "ambiguous option '--%s': '--%s' or '--%s'", shown, first->name, second->name);
    const char *near = zt_near_name(word, length, option_name, state);
    if (!near) return zt_fail(state->cli.ctx, ZT_EUSAGE, "unknown option '--%s': --help lists the options", shown);
    return zt_fail(state->cli.ctx, ZT_EUSAGE, "unknown option '--%s' (did you mean '--%s'?)", shown, near);
}

static zt_status fail_unknown_letter(zt_cli_state *state, int letter)
{
    char shown[16], character = (char)letter;
    zt_escape(shown, sizeof shown, &character, 1);
    for (const zt_opt *option = state->options; option < state->options + state->option_count; option++)
        if (option->letter && (option->letter ^ 0x20) == letter)
            return zt_fail(state->cli.ctx, ZT_EUSAGE, "unknown option '-%s' (did you mean '-%c'?)", shown, option->letter);
    const zt_opt *only = NULL; /* the one whose name begins with it */
    int matches = 0;
    for (const zt_opt *option = state->options; option < state->options + state->option_count; option++) {
        if (!option->name || option->name[0] != character) continue;
        only = option;
        matches++;
    }
    if (matches == 1) return zt_fail(state->cli.ctx, ZT_EUSAGE, "unknown option '-%s' (did you mean '--%s'?)", shown, only->name);
    return zt_fail(state->cli.ctx, ZT_EUSAGE, "unknown option '-%s': --help lists the options", shown);
}

/* ---- values, a function for each kind -------------------------------------------------------- */

static zt_status set_flag(zt_cli_state *state, const zt_opt *option, const char *text)
{
    (void)state, (void)text;
    *(bool *)option->value = option->kind == ZT_OPT_FLAG;
    return ZT_OK;
}

static zt_status set_count(zt_cli_state *state, const zt_opt *option, const char *text)
{
    (void)state, (void)text;
    int *count = option->value;
    *count += *count < 1000;
    return ZT_OK;
}

static zt_status set_str(zt_cli_state *state, const zt_opt *option, const char *text)
{
    (void)state;
    *(const char **)option->value = text ? text : "";
    return ZT_OK;
}

static zt_status set_list(zt_cli_state *state, const zt_opt *option, const char *text)
{
    zt_opt_list *list = option->value;
    size_t count = (size_t)list->n + 1;
    const char **items = zt_realloc(state->cli.ctx, list->item, count * sizeof *items);
    if (!items) return ZT_ENOMEM;
    items[list->n++] = text;
    list->item = items;
    return ZT_OK;
}

static zt_status set_i64(zt_cli_state *state, const zt_opt *option, const char *text)
{
    bool any = option->min == 0 && option->max == 0;
    int64_t value;
    if (zt_parse_i64(text, &value) && (any || (value >= option->min && value <= option->max))) {
        *(int64_t *)option->value = value;
        return ZT_OK;
    }
    char wanted[96] = "an integer";
    if (!any && option->max == INT64_MAX)
        snprintf(wanted, sizeof wanted, "an integer of at least %lld", (long long)option->min);
    else if (!any)
        snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)option->min, (long long)option->max);
    return fail_value(state, option, text, wanted);
}

static zt_status set_u64(zt_cli_state *state, const zt_opt *option, const char *text)
{
    uint64_t value = 0;
    bool good = *text != '\0';
    for (const char *digit = text; good && *digit; digit++)
        good = *digit >= '0' && *digit <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*digit - '0'), &value);
    if (!good) return fail_value(state, option, text, "an integer from 0 to 18446744073709551615");
    *(uint64_t *)option->value = value;
    return ZT_OK;
}

static zt_status set_f64(zt_cli_state *state, const zt_opt *option, const char *text)
{
    bool any = option->fmin == 0 && option->fmax == 0;
    double value;
    if (zt_parse_double(text, &value) && isfinite(value) && (any || (value >= option->fmin && value <= option->fmax))) {
        *(double *)option->value = value;
        return ZT_OK;
    }
    char wanted[96] = "a number";
    if (!any && option->fmax >= 1e300)
        snprintf(wanted, sizeof wanted, "a number of at least %g", option->fmin);
    else if (!any)
        snprintf(wanted, sizeof wanted, "a number from %g to %g", option->fmin, option->fmax);
    return fail_value(state, option, text, wanted);
}

static zt_status set_size(zt_cli_state *state, const zt_opt *option, const char *text)
{
    size_t size;
    if (!zt_parse_size(text, &size) || size < (size_t)option->min)
        return fail_value(state, option, text,
                          option->min ? "a size above 0, such as 20000, 512M or 4GiB" : "a size such as 20000, 512M or 4GiB");
    *(size_t *)option->value = size;
    return ZT_OK;
}

/* What is wrong with a word, the words there are, and the nearest. */
static zt_status fail_word(zt_cli_state *state, const zt_opt *option, const char *text)
{
    enum { MOST_WORDS = 32 };
    char wanted[500], words[300];
    const char *list[MOST_WORDS + 1] = {NULL};
    zt_near_hint hint;
    int count = 0;
    snprintf(words, sizeof words, "%s", option->arg);
    for (char *save, *next_word = strtok_r(words, "|", &save); next_word && count < MOST_WORDS;
         next_word = strtok_r(NULL, "|", &save))
        list[count++] = next_word;
    snprintf(wanted, sizeof wanted, "one of %s%s", option->arg, zt_near(hint, text, zt_near_list, list));
    return fail_value(state, option, text, wanted);
}

static zt_status set_word(zt_cli_state *state, const zt_opt *option, const char *text)
{
    int index = 0;
    for (const char *word = option->arg; word; index++) {
        size_t length = strcspn(word, "|");
        if (length == strlen(text) && memcmp(word, text, length) == 0) {
            *(int *)option->value = index;
            return ZT_OK;
        }
        word = word[length] ? word + length + 1 : NULL;
    }
    return fail_word(state, option, text);
}

/* --help, or --help=all. */
static zt_status set_help(zt_cli_state *state, const zt_opt *option, const char *text)
{
    *(bool *)option->value = true;
    if (!text) return ZT_OK;
    if (strcmp(text, "all") != 0) return fail_value(state, option, text, "'all'");
    state->help_all = true;
    return ZT_OK;
}

typedef zt_status set_fn(zt_cli_state *st, const zt_opt *o, const char *text);

static set_fn *const set_value[] = {
    [ZT_OPT_FLAG] = set_flag, [ZT_OPT_OFF] = set_flag,  [ZT_OPT_STR] = set_str,     [ZT_OPT_OPTIONAL] = set_str,
    [ZT_OPT_LIST] = set_list, [ZT_OPT_I64] = set_i64,   [ZT_OPT_U64] = set_u64,     [ZT_OPT_F64] = set_f64,
    [ZT_OPT_SIZE] = set_size, [ZT_OPT_WORD] = set_word, [ZT_OPT_COUNT] = set_count, [ZT_OPT_HELP] = set_help,
};

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct getopt_tables {
    struct option *longs; /* as getopt_long wants them; val is FIRST_LONG + index */
    char *letters;
} getopt_tables;

static zt_status parser_init(zt_cli_state *state, getopt_tables *parser)
{
    size_t count = (size_t)state->option_count, n_longs = 0, n_letters = 0;
    parser->longs = zt_calloc(state->cli.ctx, count + 1, sizeof *parser->longs);
    parser->letters = zt_calloc(state->cli.ctx, 2 * count + 2, 1);
    if (!parser->longs || !parser->letters) return ZT_ENOMEM;
    parser->letters[n_letters++] = ':'; /* getopt tells missing values apart, and prints nothing */
    for (int i = 0; i < state->option_count; i++) {
        const zt_opt *row = &state->options[i];
        bool value = zt_option_takes_value(row);
        bool optional = row->kind == ZT_OPT_HELP || row->kind == ZT_OPT_OPTIONAL;
        int argument = optional ? optional_argument : value ? required_argument : no_argument;
        if (row->name) parser->longs[n_longs++] = (struct option){row->name, argument, NULL, FIRST_LONG + i};
        if (row->letter && !memchr(parser->letters + 1, row->letter, n_letters - 1)) {
            parser->letters[n_letters++] = (char)row->letter;
            if (value) parser->letters[n_letters++] = ':';
        }
    }
    return ZT_OK;
}

/* The option that getopt's code stands for; the tool's own come first. */
static const zt_opt *option_by_code(const zt_cli_state *state, int code)
{
    if (code >= FIRST_LONG) return &state->options[code - FIRST_LONG];
    for (int i = 0; i < state->option_count; i++)
        if (state->options[i].letter == code) return &state->options[i];
    return NULL;
}

static zt_status fail_misuse(zt_cli_state *state, int code, char **argv)
{
    char name[64];
    const zt_opt *option = optopt ? option_by_code(state, optopt) : NULL;
    if (code == ':' && optopt < FIRST_LONG)
        return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '-%c' needs a value (%s)", optopt, option ? option->arg : "");
    if (code == ':')
        return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '%s' needs a value (%s)", zt_option_display(option, name), option->arg);
    if (optopt >= FIRST_LONG)
        return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '%s' takes no value", zt_option_display(option, name));
    if (optopt) return fail_unknown_letter(state, optopt);
    return fail_unknown_long(state, argv[optind - 1] + 2);
}

/* Remembers that the option was given. Of values only a list takes more than one: of two
 * different ones the first would be ignored. */
static zt_status note_given(zt_cli_state *state, const zt_opt *option, const char *text)
{
    char name[64], shown[2][SHOWN];
    const char **given = &state->given[option - state->options];
    if (*given && text && option->kind != ZT_OPT_LIST && strcmp(*given, text))
        return zt_fail(state->cli.ctx, ZT_EUSAGE, "option '%s' is given twice: '%s' and '%s'", zt_option_display(option, name),
                       zt_escape(shown[0], SHOWN, *given, strlen(*given)), zt_escape(shown[1], SHOWN, text, strlen(text)));
    *given = text ? text : "";
    if (option->given) *option->given = true;
    return ZT_OK;
}

/* The value of the option that getopt has just met. One that may be left out is also the next word, unless that is an
 * option. */
static const char *value_of(const zt_opt *option, int argc, char **argv)
{
    if (option->kind == ZT_OPT_OPTIONAL && !optarg && optind < argc && argv[optind][0] != '-') return argv[optind++];
    return zt_option_takes_value(option) || option->kind == ZT_OPT_HELP ? optarg : NULL;
}

static zt_status parse_all(zt_cli_state *state, const getopt_tables *parser, int argc, char **argv)
{
    optind = 0; /* glibc: begin anew */
    opterr = 0;
    for (;;) {
        int code = getopt_long(argc, argv, parser->letters, parser->longs, NULL);
        if (code == -1) break;
        if ((code == '?' || code == ':') && state->help) continue; /* --help goes before what is wrong after it */
        if (code == '?' || code == ':') return fail_misuse(state, code, argv);
        const zt_opt *option = option_by_code(state, code);
        const char *text = value_of(option, argc, argv);
        if (state->help && option->kind != ZT_OPT_HELP) {
            state->given[option - state->options] = ""; /* it may choose the mode whose options are printed */
            continue;
        }
        zt_status status = note_given(state, option, text);
        if (status == ZT_OK) status = set_value[option->kind](state, option, text);
        if (status) return status;
        if (state->completion_given) return ZT_OK;
    }
    state->cli.operands = argv + optind;
    state->cli.n_operands = argc - optind;
    return ZT_OK;
}

static zt_status check_operands(zt_cli_state *state)
{
    int limit = state->cli.tool->max_operands;
    char shown[SHOWN];
    if (state->version || limit < 0 || state->cli.n_operands <= limit) return ZT_OK;
    const char *word = state->cli.operands[limit];
    zt_escape(shown, sizeof shown, word, strlen(word));
    if (limit == 0) return zt_fail(state->cli.ctx, ZT_EUSAGE, "unexpected argument '%s'", shown);
    return zt_fail(state->cli.ctx, ZT_EUSAGE, "unexpected argument '%s': expected at most %d argument%s", shown, limit,
                   limit == 1 ? "" : "s");
}

zt_status zt_options_parse(zt_cli_state *state, int argc, char **argv)
{
    getopt_tables parser = {0};
    zt_status status = build_table(state);
    if (status == ZT_OK) status = parser_init(state, &parser);
    if (status == ZT_OK) status = parse_all(state, &parser, argc, argv);
    zt_free(state->cli.ctx, parser.longs);
    zt_free(state->cli.ctx, parser.letters);
    if (status || state->help || state->completion_given) return status;
    return check_operands(state);
}

void zt_options_free(zt_cli_state *state)
{
    for (int i = 0; state->options && i < state->option_count; i++) {
        if (state->options[i].kind == ZT_OPT_LIST) {
            zt_opt_list *list = state->options[i].value;
            zt_free(state->cli.ctx, list->item);
            *list = (zt_opt_list){0};
        }
    }
    zt_free(state->cli.ctx, state->given);
    zt_free(state->cli.ctx, state->initial);
    zt_free(state->cli.ctx, state->options);
    state->given = NULL;
    state->initial = NULL;
    state->options = NULL;
}
