/* evolve_state.c - owns the state of a population as JSON, from which it goes on:
 *
 *     {"population":..,"elites":..,"crossover":..,"survivors":..,"overlap":..,"limit":..,"stagnation":..,"minimize":..,
 *      "seed":"..","generation":..,"evaluations":..,"failures":..,"next_species":..,"champion":[generation,member,fitness] or null,
 *      "species":[[number,representative,stale,best or null]..],
 *      "members":[[first,second,weight_a,weight_b,elite,species,fitness or null]..]}
 */
#include "lib/base/require.h"
#include "lib/dna/evolve_internal.h"
#include "lib/io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static void put_number(zt_str *out, const char *before, double number)
{
    zt_str_puts(out, before);
    zt_str_put_double(out, number);
}

static void put_optional(zt_str *out, bool there, double number)
{
    if (there)
        put_number(out, ",", number);
    else
        zt_str_puts(out, ",null");
}

static void put_settings(const zt_evolution_settings *settings, zt_str *out)
{
    zt_str_printf(out, "{\"population\":%d,\"elites\":%d", settings->population, settings->elites);
    put_number(out, ",\"crossover\":", settings->crossover_rate);
    put_number(out, ",\"survivors\":", settings->survivors);
    put_number(out, ",\"overlap\":", settings->species_overlap);
    zt_str_printf(out, ",\"limit\":%d,\"stagnation\":%d,\"minimize\":%s,\"seed\":\"%" PRIu64 "\"", settings->species_limit,
                  settings->stagnation, settings->minimize ? "true" : "false", settings->seed);
}

zt_status zt_evolution_put(const zt_evolution *evolution, zt_str *out)
{
    if (!evolution) return ZT_EUSAGE;
    ZT_REQUIRE(evolution->ctx, out, ZT_EUSAGE);
    put_settings(&evolution->settings, out);
    zt_str_printf(out,
                  ",\"generation\":%d,\"evaluations\":%" PRId64 ",\"failures\":%" PRId64 ",\"next_species\":%d,\"champion\":",
                  evolution->generation, evolution->evaluations, evolution->failures, evolution->next_species);
    const zt_evolution_champion *champion = &evolution->champion;
    if (champion->member < 0) {
        zt_str_puts(out, "null");
    } else {
        zt_str_printf(out, "[%d,%d", champion->generation, champion->member);
        put_number(out, ",", champion->fitness);
        zt_str_putc(out, ']');
    }
    zt_str_puts(out, ",\"species\":[");
    for (int i = 0; i < evolution->species_count; i++) {
        const evolve_species *species = &evolution->species[i];
        zt_str_printf(out, "%s[%d,%d,%d", i ? "," : "", species->number, species->representative, species->stale);
        put_optional(out, species->has_best, species->best);
        zt_str_putc(out, ']');
    }
    zt_str_puts(out, "],\"members\":[");
    for (int i = 0; i < evolution->settings.population; i++) {
        const zt_evolution_member *member = &evolution->members[i];
        zt_str_printf(out, "%s[%d,%d", i ? ",\n" : "\n", member->first, member->second);
        put_number(out, ",", member->weight_a);
        put_number(out, ",", member->weight_b);
        zt_str_printf(out, ",%s,%d", member->elite ? "true" : "false", member->species);
        put_optional(out, member->elite, member->fitness);
        zt_str_putc(out, ']');
    }
    return zt_str_puts(out, "]}");
}

/* ---- reading --------------------------------------------------------------------------------- */

/* An object or array, and whether all that was read from it so far was there and in range. */
typedef struct state_reader {
    bool good;
} state_reader;

static double read_double(state_reader *reader, const json_t *value)
{
    double number = json_number_value(value);
    reader->good = reader->good && json_is_number(value) && isfinite(number);
    return number;
}

static int read_int(state_reader *reader, const json_t *value, int low, int high)
{
    json_int_t number = json_integer_value(value);
    bool good = json_is_integer(value) && number >= low && number <= high;
    reader->good = reader->good && good;
    return good ? (int)number : low;
}

static bool read_bool(state_reader *reader, const json_t *value)
{
    reader->good = reader->good && json_is_boolean(value);
    return json_is_true(value);
}

static int64_t read_count(state_reader *reader, const json_t *value)
{
    reader->good = reader->good && json_is_integer(value) && json_integer_value(value) >= 0;
    return (int64_t)json_integer_value(value);
}

static uint64_t read_seed(state_reader *reader, const json_t *value)
{
    const char *text = json_string_value(value);
    char *end = NULL;
    uint64_t seed = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    reader->good = reader->good && end && !*end;
    return seed;
}

static const json_t *read_list(state_reader *reader, const json_t *list, size_t count)
{
    reader->good = reader->good && json_array_size(list) == count;
    return list;
}

static zt_evolution_settings read_settings(state_reader *reader, const json_t *root)
{
    return (zt_evolution_settings){.population = read_int(reader, json_object_get(root, "population"), 2, EVOLVE_POPULATION),
                                   .elites = read_int(reader, json_object_get(root, "elites"), 1, EVOLVE_POPULATION),
                                   .crossover_rate = read_double(reader, json_object_get(root, "crossover")),
                                   .survivors = read_double(reader, json_object_get(root, "survivors")),
                                   .species_overlap = read_double(reader, json_object_get(root, "overlap")),
                                   .species_limit = read_int(reader, json_object_get(root, "limit"), 1, EVOLVE_POPULATION),
                                   .stagnation = read_int(reader, json_object_get(root, "stagnation"), 0, EVOLVE_GENERATIONS),
                                   .minimize = read_bool(reader, json_object_get(root, "minimize")),
                                   .seed = read_seed(reader, json_object_get(root, "seed"))};
}

static void read_champion(state_reader *reader, const json_t *list, zt_evolution *evolution)
{
    if (json_is_null(list)) return;
    read_list(reader, list, 3);
    evolution->champion =
        (zt_evolution_champion){.generation = read_int(reader, json_array_get(list, 0), 0, EVOLVE_GENERATIONS),
                                .member = read_int(reader, json_array_get(list, 1), 0, evolution->settings.population - 1),
                                .fitness = read_double(reader, json_array_get(list, 2))};
}

static void read_species(state_reader *reader, const json_t *row, zt_evolution *evolution)
{
    evolve_species *species = &evolution->species[evolution->species_count++];
    read_list(reader, row, 4);
    species->number = read_int(reader, json_array_get(row, 0), 0, evolution->next_species - 1);
    species->representative = read_int(reader, json_array_get(row, 1), 0, evolution->settings.population - 1);
    species->stale = read_int(reader, json_array_get(row, 2), 0, EVOLVE_GENERATIONS);
    species->has_best = !json_is_null(json_array_get(row, 3));
    if (species->has_best) species->best = read_double(reader, json_array_get(row, 3));
    for (int i = 0; i + 1 < evolution->species_count; i++)
        reader->good = reader->good && evolution->species[i].number != species->number;
}

static void read_member(state_reader *reader, const json_t *row, zt_evolution *evolution, int index)
{
    zt_evolution_member *member = &evolution->members[index];
    int last = evolution->settings.population - 1, first = evolution->generation ? 0 : -1;
    read_list(reader, row, 7);
    member->first = read_int(reader, json_array_get(row, 0), first, evolution->generation ? last : -1);
    member->second = read_int(reader, json_array_get(row, 1), -1, evolution->generation ? last : -1);
    member->weight_a = read_double(reader, json_array_get(row, 2));
    member->weight_b = read_double(reader, json_array_get(row, 3));
    member->elite = read_bool(reader, json_array_get(row, 4));
    member->species = read_int(reader, json_array_get(row, 5), -1, EVOLVE_GENERATIONS);
    reader->good = reader->good && member->weight_a >= 0 && member->weight_b >= 0 && (!member->elite || evolution->generation);
    if (!member->elite) return;
    member->fitness = read_double(reader, json_array_get(row, 6));
    member->scored = member->valid = true;
}

static zt_evolution *read_state(zt_ctx *ctx, state_reader *reader, const json_t *root)
{
    zt_evolution_settings settings = read_settings(reader, root);
    if (!reader->good || zt_evolution_check(ctx, &settings) != ZT_OK) {
        zt_ctx_clear(ctx);
        reader->good = false;
        return NULL;
    }
    zt_evolution *evolution = zt_evolution_make(ctx, &settings);
    if (!evolution) return NULL;
    const json_t *species = json_object_get(root, "species"), *members = json_object_get(root, "members");
    evolution->generation = read_int(reader, json_object_get(root, "generation"), 0, EVOLVE_GENERATIONS);
    evolution->evaluations = read_count(reader, json_object_get(root, "evaluations"));
    evolution->failures = read_count(reader, json_object_get(root, "failures"));
    evolution->next_species = read_int(reader, json_object_get(root, "next_species"), 0, EVOLVE_GENERATIONS);
    read_champion(reader, json_object_get(root, "champion"), evolution);
    reader->good = reader->good && json_is_array(species) && json_array_size(species) <= (size_t)settings.population;
    for (size_t i = 0; reader->good && i < json_array_size(species); i++)
        read_species(reader, json_array_get(species, i), evolution);
    read_list(reader, members, (size_t)settings.population);
    for (int i = 0; reader->good && i < settings.population; i++)
        read_member(reader, json_array_get(members, (size_t)i), evolution, i);
    return evolution;
}

zt_evolution *zt_evolution_of(zt_ctx *ctx, const char *name, const char *text, size_t size)
{
    ZT_REQUIRE(ctx, name && text, NULL);
    state_reader reader = {.good = true};
    json_t *root = zt_json_load(ctx, name, text, size);
    zt_evolution *evolution = root ? read_state(ctx, &reader, root) : NULL;
    json_decref(root);
    if (root && !reader.good) zt_fail(ctx, ZT_EDATA, "%s: not a state of zt-dna evolve", name);
    if (reader.good) return evolution;
    zt_evolution_free(evolution);
    return NULL;
}
