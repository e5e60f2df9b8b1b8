/* evolve_settings.c - the options of a run that its results depend on: kept in its state, compared when it is resumed. */
#include "tools/zt-dna/evolve_run.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting_row {
    const char *name; /* of the option, without -- */
    zt_opt_kind kind;
    size_t offset; /* in dna_options; of --seed none */
} setting_row;

#define ROW(kind, name, field)                                                                                                   \
    {                                                                                                                            \
        name, ZT_OPT_##kind, offsetof(dna_options, field)                                                                        \
    }
static const setting_row rows[] = {ROW(I64, "population", population),
                                   ROW(I64, "elites", elites),
                                   ROW(F64, "crossover", crossover),
                                   ROW(F64, "survivors", survivors),
                                   ROW(F64, "species", species),
                                   ROW(I64, "species-limit", species_limit),
                                   ROW(I64, "stagnation", stagnation),
                                   ROW(FLAG, "minimize", minimize),
                                   ROW(STR, "fitness", fitness),
                                   ROW(WORD, "mode", mode),
                                   ROW(F64, "alpha", alpha),
                                   ROW(F64, "ratio", ratio),
                                   ROW(F64, "perturb-rate", perturb_rate),
                                   ROW(F64, "perturb-scale", perturb_scale),
                                   ROW(WORD, "noise", noise),
                                   ROW(F64, "weight-rate", weight_rate),
                                   ROW(F64, "replace-rate", replace_rate),
                                   ROW(F64, "activation-rate", activation_rate),
                                   ROW(F64, "kind-rate", kind_rate),
                                   ROW(STR, "kinds", kinds),
                                   ROW(F64, "toggle-rate", toggle_rate),
                                   ROW(F64, "link-add-rate", link_add_rate),
                                   ROW(F64, "link-drop-rate", link_drop_rate),
                                   ROW(I64, "groups", groups),
                                   ROW(STR, "genes", genes)};
enum { ROWS = sizeof rows / sizeof *rows };
#undef ROW

static zt_status put_value(const evolve_run *run, const setting_row *row, zt_str *out)
{
    const void *field = (const char *)&run->options + row->offset;
    switch (row->kind) {
    case ZT_OPT_I64: return zt_str_printf(out, "%" PRId64, *(const int64_t *)field);
    case ZT_OPT_F64: return zt_str_put_double(out, *(const double *)field);
    case ZT_OPT_FLAG: return zt_str_puts(out, *(const bool *)field ? "1" : "0");
    case ZT_OPT_WORD: return zt_str_printf(out, "%d", *(const int *)field);
    default: return zt_str_puts(out, *(const char *const *)field ? *(const char *const *)field : "");
    }
}

zt_status dna_settings_put(const evolve_run *run, zt_str *out)
{
    zt_str value;
    zt_str_init(&value, run->cli->ctx);
    zt_status status = zt_str_printf(out, "{\"seed\":\"%" PRIu64 "\"", run->cli->seed);
    for (int i = 0; i < ROWS && status == ZT_OK; i++) {
        zt_str_clear(&value);
        status = put_value(run, &rows[i], &value);
        zt_str_printf(out, ",\"%s\":", rows[i].name);
        if (status == ZT_OK) status = zt_str_put_json(out, value.data ? value.data : "", value.len);
    }
    zt_str_fini(&value);
    return status == ZT_OK ? zt_str_putc(out, '}') : status;
}

/* ---- a run that is resumed ------------------------------------------------------------------- */

static bool take_value(evolve_run *run, const setting_row *row, const char *text)
{
    void *field = (char *)&run->options + row->offset;
    int64_t number = 0;
    switch (row->kind) {
    case ZT_OPT_I64: return zt_parse_i64(text, field);
    case ZT_OPT_F64: return zt_parse_double(text, field);
    case ZT_OPT_FLAG: *(bool *)field = *text == '1'; return (*text == '0' || *text == '1') && !text[1];
    case ZT_OPT_WORD:
        if (!zt_parse_i64(text, &number) || number < 0 || number > 16) return false;
        *(int *)field = (int)number;
        return true;
    default: break;
    }
    const char *kept = *text ? zt_arena_strndup(run->texts, text, strlen(text)) : NULL;
    *(const char **)field = kept;
    return kept || !*text;
}

static zt_status fail_other(const evolve_run *run, const char *name, const char *kept)
{
    char shown[120];
    return zt_fail(run->cli->ctx, ZT_EUSAGE, "option '--%s': the run in %s has '%s', which cannot change", name, run->folder,
                   zt_escape(shown, sizeof shown, kept, strlen(kept)));
}

static zt_status take_row(evolve_run *run, const setting_row *row, const char *kept)
{
    zt_str given;
    zt_str_init(&given, run->cli->ctx);
    zt_status status = put_value(run, row, &given);
    bool same = status == ZT_OK && !strcmp(given.data ? given.data : "", kept);
    zt_str_fini(&given);
    if (status != ZT_OK) return status;
    bool late = !strcmp(row->name, "fitness") && !*kept; /* others measured so far */
    if (zt_cli_given(run->cli, row->name) && !same && !late) return fail_other(run, row->name, kept);
    if (late) return ZT_OK;
    return take_value(run, row, kept) ? ZT_OK : dna_fail_state(run, row->name);
}

zt_status dna_settings_take(evolve_run *run, const json_t *object)
{
    const char *seed = json_string_value(json_object_get(object, "seed"));
    char *end = NULL;
    uint64_t number = seed ? strtoull(seed, &end, 10) : 0;
    if (!seed || end == seed || *end) return dna_fail_state(run, "option 'seed'");
    for (int i = 0; i < ROWS; i++) {
        const char *kept = json_string_value(json_object_get(object, rows[i].name));
        zt_status status = kept ? take_row(run, &rows[i], kept) : dna_fail_state(run, rows[i].name);
        if (status != ZT_OK) return status;
    }
    if (zt_cli_given(run->cli, "seed") && run->cli->seed != number) return fail_other(run, "seed", seed);
    run->cli->seed = number;
    return ZT_OK;
}
