/* plan_file.c - owns the text of plans: `#plan` lines written beside a program's, read and checked.
 *
 * What can be known without an engine is checked here: words, numbers, names of the program's
 * values, symbols and outputs, passes. Whether the places are right, plan_check.c finds when a session
 * is opened.
 */
#include "lib/base/require.h"
#include "lib/run/plan_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/run/partition.h"

enum { MAX_STATED = 256, MAX_WORDS = 8, MAX_LINE = 4096 };

struct zt_plan_file {
    zt_ctx *ctx;
    zt_arena *memory;
    zt_prog *program;
    char engine[32];
    zt_isa isa;
    unsigned passes_off;
    int n_layouts, n_parts, n_places;
    zt_plan_layout *layouts;
    zt_plan_layout_part *parts;
    zt_plan_layout_place *places;
};

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct plan_writer {
    const zt_prog *program;
    const zt_plan_file_opts *options;
    zt_chain chain;
    zt_bound *bound;
    zt_str *text;
} plan_writer;

static zt_status put_head(const plan_writer *writer)
{
    zt_status status = zt_str_printf(writer->text, "#plan engine %s isa=%s\n#plan passes",
                                     zt_engine_inmost(writer->options->engine)->vt->name, zt_isa_name(writer->options->isa));
    for (int i = 0; zt_pass_at(i) && !status; i++)
        if (!(writer->options->off >> i & 1)) status = zt_str_printf(writer->text, " %s", zt_pass_at(i)->name);
    return status ? status : zt_str_putc(writer->text, '\n');
}

static zt_status put_bind(const plan_writer *writer, const bool *want)
{
    zt_status status = zt_str_puts(writer->text, "#plan bind");
    for (int binding_index = 0; binding_index < writer->options->n_bind && !status; binding_index++)
        status = zt_str_printf(writer->text, " %s=%" PRId64, writer->options->bind[binding_index].symbol,
                               writer->options->bind[binding_index].value);
    if (!status) status = zt_str_puts(writer->text, " out=");
    bool first = true;
    for (int output_index = 0; output_index < zt_prog_n_outputs(writer->program) && !status; output_index++) {
        if (!want[output_index]) continue;
        status = zt_str_printf(writer->text, "%s%s", first ? "" : ",", zt_prog_output(writer->program, output_index)->name);
        first = false;
    }
    return status ? status : zt_str_putc(writer->text, '\n');
}

/* Values in the order of their numbers: of roots, those in the arena. */
static zt_status put_segment(const plan_writer *writer, const zt_partition *partition, const zt_segment *segment)
{
    zt_engine *engine = writer->chain.engines[segment->engine];
    zt_status status =
        zt_str_printf(writer->text, "#plan split %s %d..%d arena=%zu bound=%zu\n", writer->chain.names[segment->engine],
                      segment->first, segment->last, segment->arena_bytes, segment->liveness_bytes);
    for (int value_id = 0; value_id < writer->bound->n_values && !status; value_id++) {
        if (partition->roots[value_id] != value_id || segment->places[value_id].kind != ZT_PLACE_ARENA) continue;
        size_t bytes = (engine->vt->value_bytes(engine, &writer->bound->type[value_id]) + 63) & ~(size_t)63;
        status = zt_str_printf(writer->text, "#plan at %s %zu %zu", zt_prog_value(writer->program, value_id)->name,
                               segment->places[value_id].offset, bytes);
        if (!status && segment->over[value_id] >= 0)
            status = zt_str_printf(writer->text, " over %s", zt_prog_value(writer->program, segment->over[value_id])->name);
        if (!status) status = zt_str_putc(writer->text, '\n');
    }
    return status;
}

/* out[o] NULL: not wanted. */
static zt_status put_layout(plan_writer *writer, void *const *outputs)
{
    zt_partition partition;
    zt_status status = zt_partition_make(&partition, &writer->chain, writer->bound, false, outputs, NULL);
    if (status) return status;
    status = put_bind(writer, partition.wanted);
    for (int segment_index = 0; segment_index < partition.n_segments && !status; segment_index++)
        status = put_segment(writer, &partition, &partition.segments[segment_index]);
    zt_partition_free(&partition);
    return status;
}

/* All outputs, then each alone. */
static zt_status put_all(plan_writer *writer)
{
    int output_count = zt_prog_n_outputs(writer->program);
    void **outputs = zt_calloc(writer->options->engine->ctx, (size_t)output_count + 1, sizeof *outputs);
    if (!outputs) return ZT_ENOMEM;
    zt_status status = put_layout(writer, NULL);
    for (int output_index = 0; output_index < output_count && output_count > 1 && !status; output_index++) {
        memset(outputs, 0, (size_t)output_count * sizeof *outputs);
        outputs[output_index] = writer;
        status = put_layout(writer, outputs);
    }
    zt_free(writer->options->engine->ctx, outputs);
    return status;
}

/* The program's text with the head after its first line. */
static zt_status put_program(const plan_writer *writer)
{
    zt_str text;
    zt_str_init(&text, writer->options->engine->ctx);
    zt_status status = zt_prog_print(writer->program, &text);
    const char *end = status ? NULL : memchr(text.data, '\n', text.len);
    size_t first = end ? (size_t)(end - text.data) + 1 : 0;
    if (!status) status = zt_str_put(writer->text, text.data, first);
    if (!status) status = put_head(writer);
    if (!status) status = zt_str_put(writer->text, text.data + first, text.len - first);
    zt_str_fini(&text);
    return status;
}

zt_status zt_plan_file_print(const zt_prog *program, const zt_plan_file_opts *options, zt_str *output_text)
{
    if (!program) return ZT_EUSAGE;
    ZT_REQUIRE(output_text ? output_text->ctx : NULL, output_text && options && options->engine, ZT_EUSAGE);
    plan_writer writer = {.program = program, .options = options, .text = output_text};
    zt_status status = put_program(&writer);
    if (status || options->n_bind < zt_prog_n_symbols(program)) return status;
    writer.bound = zt_prog_bind(program, options->bind, options->n_bind);
    if (!writer.bound) return zt_ctx_status(options->engine->ctx);
    zt_chain_init(&writer.chain, options->engine);
    status = put_all(&writer);
    zt_chain_fini(&writer.chain);
    zt_bound_free(writer.bound);
    return status;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A #plan line in words; what they point to goes with the next line. */
typedef struct plan_reader {
    zt_plan_file *plan;
    const char *name; /* of the text, escaped */
    int line, word_count;
    char *words[MAX_WORDS + ZT_MAX_SYMBOLS + 32];
    char text[MAX_LINE];
    int place_capacity, part_capacity;
} plan_reader;

static zt_status fail_line(const plan_reader *reader, const char *fmt, const char *what)
{
    char said[128], shown[64];
    snprintf(said, sizeof said, fmt, zt_escape(shown, sizeof shown, what, strlen(what)));
    return zt_fail(reader->plan->ctx, ZT_EDATA, "%s:%d: %s", reader->name, reader->line, said);
}

static bool parse_size(const char *text, size_t *out)
{
    int64_t number;
    if (!zt_parse_i64(text, &number) || number < 0) return false;
    *out = (size_t)number;
    return true;
}

/* "key=value" with that key: the value. */
static const char *text_after_key(const char *word, const char *key)
{
    size_t key_length = strlen(key);
    return !strncmp(word, key, key_length) && word[key_length] == '=' ? word + key_length + 1 : NULL;
}

static zt_status read_engine(plan_reader *reader)
{
    const char *isa = reader->word_count == 4 ? text_after_key(reader->words[3], "isa") : NULL;
    bool known = false;
    for (int i = 0; reader->word_count > 2 && zt_engine_list(i); i++)
        known = known || !strcmp(zt_engine_list(i), reader->words[2]);
    if (!isa || !known || !zt_isa_parse(isa, &reader->plan->isa) || strlen(reader->words[2]) >= sizeof reader->plan->engine)
        return fail_line(reader, "not an engine with its isa: '%s'", reader->word_count > 2 ? reader->words[2] : "");
    if (reader->plan->engine[0]) return fail_line(reader, "duplicate line '%s'", "engine");
    snprintf(reader->plan->engine, sizeof reader->plan->engine, "%s", reader->words[2]);
    return ZT_OK;
}

static zt_status read_passes(plan_reader *reader)
{
    reader->plan->passes_off = ~0u;
    for (int i = 2; i < reader->word_count; i++) {
        int pass = zt_pass_find(reader->words[i], strlen(reader->words[i]));
        if (pass < 0) return fail_line(reader, "unknown pass '%s'", reader->words[i]);
        reader->plan->passes_off &= ~(1u << pass);
    }
    return ZT_OK;
}

static int find_output(const zt_prog *program, const char *name, size_t length)
{
    for (int output_index = 0; output_index < zt_prog_n_outputs(program); output_index++)
        if (strlen(zt_prog_output(program, output_index)->name) == length &&
            !memcmp(zt_prog_output(program, output_index)->name, name, length))
            return output_index;
    return -1;
}

static zt_status read_wanted(plan_reader *reader, zt_plan_layout *layout, const char *list)
{
    for (const char *name = list; *name;) {
        size_t length = strcspn(name, ",");
        int output_index = find_output(reader->plan->program, name, length);
        if (output_index < 0) return fail_line(reader, "'%s' is not a list of the program's outputs", list);
        layout->wanted[output_index] = true;
        name += length + (name[length] == ',');
    }
    return ZT_OK;
}

static zt_status read_symbol(plan_reader *reader, zt_plan_layout *layout, char *word)
{
    char *equals = strchr(word, '=');
    const zt_prog *program = reader->plan->program;
    for (int symbol_id = 0; equals && symbol_id < zt_prog_n_symbols(program); symbol_id++) {
        const char *name = zt_prog_symbol_name(program, symbol_id);
        if (strlen(name) != (size_t)(equals - word) || memcmp(name, word, strlen(name)) != 0) continue;
        if (layout->symbols[symbol_id] >= 0 || !zt_parse_i64(equals + 1, &layout->symbols[symbol_id]) ||
            layout->symbols[symbol_id] < 0)
            break;
        return ZT_OK;
    }
    return fail_line(reader, "'%s' is not SYMBOL=NUMBER", word);
}

static zt_status read_bind(plan_reader *reader)
{
    zt_plan_file *plan = reader->plan;
    if (plan->n_layouts == MAX_STATED) return fail_line(reader, "too many '%s' lines", "bind");
    if (!plan->layouts) plan->layouts = zt_arena_alloc(plan->memory, MAX_STATED * sizeof *plan->layouts);
    if (!plan->layouts) return ZT_ENOMEM;
    size_t n_out = (size_t)zt_prog_n_outputs(plan->program);
    char where[300];
    zt_plan_layout *layout = &plan->layouts[plan->n_layouts];
    *layout = (zt_plan_layout){.ctx = plan->ctx, .engine = plan->engine, .first_split = plan->n_parts};
    layout->wanted = zt_arena_alloc(plan->memory, n_out + 1);
    int where_length = snprintf(where, sizeof where, "%s:%d", reader->name, reader->line);
    size_t length = (size_t)where_length < sizeof where ? (size_t)where_length : sizeof where - 1;
    layout->where = zt_arena_strndup(plan->memory, where, length);
    if (!layout->wanted || !layout->where) return ZT_ENOMEM;
    memset(layout->wanted, 0, n_out + 1);
    for (int i = 0; i < ZT_MAX_SYMBOLS; i++) layout->symbols[i] = -1;
    zt_status status = ZT_OK;
    for (int i = 2; i < reader->word_count && !status; i++) {
        const char *list = text_after_key(reader->words[i], "out");
        status = list ? read_wanted(reader, layout, list) : read_symbol(reader, layout, reader->words[i]);
    }
    for (int symbol_id = 0; symbol_id < zt_prog_n_symbols(plan->program) && !status; symbol_id++)
        if (layout->symbols[symbol_id] < 0)
            status = fail_line(reader, "no value for symbol '%s'", zt_prog_symbol_name(plan->program, symbol_id));
    plan->n_layouts++;
    return status;
}

/* One more of an array in the plan's memory. */
static void *grow_array(plan_reader *reader, void *array, int count, int *capacity, size_t size)
{
    if (count < *capacity) return array;
    int more = *capacity ? 2 * *capacity : 64;
    void *grown = zt_arena_alloc(reader->plan->memory, (size_t)more * size);
    if (grown && count) memcpy(grown, array, (size_t)count * size);
    if (grown) *capacity = more;
    return grown;
}

static zt_status read_split(plan_reader *reader)
{
    zt_plan_file *plan = reader->plan;
    zt_plan_layout_part part = {.first_place = plan->n_places};
    int used = 0;
    if (!plan->n_layouts) return fail_line(reader, "'%s' before the first 'bind'", "split");
    bool good = reader->word_count == 6 && strlen(reader->words[2]) < sizeof part.engine &&
                sscanf(reader->words[3], "%9d..%9d%n", &part.first, &part.last, &used) == 2 && !reader->words[3][used] &&
                text_after_key(reader->words[4], "arena") && text_after_key(reader->words[5], "bound") &&
                parse_size(text_after_key(reader->words[4], "arena"), &part.arena) &&
                parse_size(text_after_key(reader->words[5], "bound"), &part.bound);
    if (!good) return fail_line(reader, "invalid split: '%s'", reader->word_count > 3 ? reader->words[3] : "");
    snprintf(part.engine, sizeof part.engine, "%s", reader->words[2]);
    plan->parts = grow_array(reader, plan->parts, plan->n_parts, &reader->part_capacity, sizeof part);
    if (!plan->parts) return ZT_ENOMEM;
    plan->parts[plan->n_parts++] = part;
    plan->layouts[plan->n_layouts - 1].n_splits++;
    return ZT_OK;
}

static zt_status read_at(plan_reader *reader)
{
    zt_plan_file *plan = reader->plan;
    zt_plan_layout_place place = {.over = -1};
    if (!plan->n_layouts || !plan->layouts[plan->n_layouts - 1].n_splits)
        return fail_line(reader, "'%s' before the first 'split'", "at");
    bool good = (reader->word_count == 5 || (reader->word_count == 7 && !strcmp(reader->words[5], "over"))) &&
                parse_size(reader->words[3], &place.offset) && parse_size(reader->words[4], &place.bytes);
    if (!good) return fail_line(reader, "invalid at: '%s'", reader->word_count > 2 ? reader->words[2] : "");
    place.value = zt_prog_find(plan->program, reader->words[2]);
    if (reader->word_count == 7) place.over = zt_prog_find(plan->program, reader->words[6]);
    if (place.value < 0 || (reader->word_count == 7 && place.over < 0))
        return fail_line(reader, "'%s' is not a value of the program", place.value < 0 ? reader->words[2] : reader->words[6]);
    plan->places = grow_array(reader, plan->places, plan->n_places, &reader->place_capacity, sizeof place);
    if (!plan->places) return ZT_ENOMEM;
    plan->places[plan->n_places++] = place;
    plan->parts[plan->n_parts - 1].n_places++;
    return ZT_OK;
}

static const struct {
    const char *word;
    zt_status (*read)(plan_reader *r);
} kinds[] = {
    {"engine", read_engine}, {"passes", read_passes}, {"bind", read_bind}, {"split", read_split}, {"at", read_at},
};

static zt_status read_line(plan_reader *reader, const char *text, size_t length)
{
    if (length < 6 || memcmp(text, "#plan ", 6) != 0) return ZT_OK;
    if (length >= sizeof reader->text || memchr(text, 0, length)) return fail_line(reader, "not a valid line of a %s", "plan");
    memcpy(reader->text, text, length);
    reader->text[length] = 0;
    reader->word_count = 0;
    for (char *cursor = reader->text; *cursor;) {
        while (*cursor == ' ' || *cursor == '\r' || *cursor == '\t') *cursor++ = 0;
        if (!*cursor) break;
        if (reader->word_count == (int)(sizeof reader->words / sizeof *reader->words))
            return fail_line(reader, "too many words: '%s'", cursor);
        reader->words[reader->word_count++] = cursor;
        while (*cursor && *cursor != ' ' && *cursor != '\r' && *cursor != '\t') cursor++;
    }
    for (size_t k = 0; reader->word_count > 1 && k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(reader->words[1], kinds[k].word)) return kinds[k].read(reader);
    return fail_line(reader, "'%s' cannot start a line of a plan", reader->word_count > 1 ? reader->words[1] : "");
}

static zt_status read_lines(zt_plan_file *plan, const char *name, const char *text, size_t length)
{
    char shown[256];
    plan_reader *reader = zt_arena_alloc(plan->memory, sizeof *reader);
    if (!reader) return ZT_ENOMEM;
    *reader = (plan_reader){.plan = plan, .name = zt_escape(shown, sizeof shown, name, strlen(name))};
    const char *end = text + length;
    zt_status status = ZT_OK;
    for (reader->line = 1; text < end && !status; reader->line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        status = read_line(reader, text, (size_t)((stop ? stop : end) - text));
        text = stop ? stop + 1 : end;
    }
    if (!status && !plan->engine[0]) status = zt_fail(plan->ctx, ZT_EDATA, "%s: not a plan: no engine line", reader->name);
    for (int i = 0; i < plan->n_layouts && !status; i++) {
        if (plan->parts) plan->layouts[i].split = plan->parts + plan->layouts[i].first_split; /* else none */
        plan->layouts[i].places = plan->places;
    }
    return status;
}

zt_plan_file *zt_plan_file_parse(zt_ctx *ctx, const char *name, const char *text, size_t length)
{
    ZT_REQUIRE(ctx, name && (text || !length), NULL);
    zt_plan_file *plan = zt_calloc(ctx, 1, sizeof *plan);
    if (!plan) return NULL;
    plan->ctx = ctx;
    plan->memory = zt_arena_new(ctx, 0);
    plan->program = plan->memory ? zt_prog_parse(ctx, name, text, length) : NULL;
    if (plan->program && read_lines(plan, name, text, length) == ZT_OK) return plan;
    zt_plan_file_free(plan);
    return NULL;
}

void zt_plan_file_free(zt_plan_file *plan)
{
    if (!plan) return;
    zt_prog_free(plan->program);
    zt_arena_free(plan->memory);
    zt_free(plan->ctx, plan);
}

/* ---- looking --------------------------------------------------------------------------------- */

const zt_prog *zt_plan_file_prog(const zt_plan_file *plan) { return plan ? plan->program : NULL; }
const char *zt_plan_file_engine(const zt_plan_file *plan) { return plan->engine; }
zt_isa zt_plan_file_isa(const zt_plan_file *plan) { return plan ? plan->isa : (zt_isa){0}; }
unsigned zt_plan_file_off(const zt_plan_file *plan) { return plan ? plan->passes_off : 0; }
int zt_plan_file_count(const zt_plan_file *plan) { return plan->n_layouts; }
const zt_plan_layout *zt_plan_file_nth(const zt_plan_file *plan, int i) { return &plan->layouts[i]; }

const zt_plan_layout *zt_plan_file_find(const zt_plan_file *plan, const int64_t *symbols, void *const *outputs)
{
    for (int i = 0; i < plan->n_layouts; i++) {
        const zt_plan_layout *layout = &plan->layouts[i];
        bool same = !memcmp(layout->symbols, symbols, (size_t)zt_prog_n_symbols(plan->program) * sizeof *symbols);
        for (int output_index = 0; output_index < zt_prog_n_outputs(plan->program) && same; output_index++)
            same = layout->wanted[output_index] == (!outputs || outputs[output_index]);
        if (same) return layout;
    }
    return NULL;
}
