/* data.c - DATA of a command line, in whatever form: arrays, lines of CSV or of NDJSON. */
#include "tools/zt-train/train_tool.h"

#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

/* Lines of text are no container: what they begin with tells. */
static bool is_text(const char *text, size_t length)
{
    if (length >= 2 && !memcmp(text, "PK", 2)) return false;
    if (length >= 4 && !memcmp(text, "GGUF", 4)) return false;
    for (size_t i = 0; i < length && i < 16; i++)
        if (((unsigned char)text[i] < ' ' && !memchr("\t\r\n", text[i], 3)) || text[i] & 0x80) return false;
    return true;
}

static zt_status read_text(zt_samples *samples, const zt_source *source)
{
    size_t length = (size_t)zt_source_size(source);
    char *text = zt_alloc(samples->ctx, length + 1);
    zt_status status = text ? zt_source_read(source, 0, text, length) : ZT_ENOMEM;
    size_t blank = 0;
    while (!status && blank < length && memchr(" \t\r\n", text[blank], 4)) blank++;
    bool json = !status && blank < length && memchr("{[", text[blank], 2);
    const char *name = zt_source_name(source);
    if (!status) status = json ? zt_samples_ndjson(samples, name, text, length) : zt_samples_csv(samples, name, text, length);
    zt_free(samples->ctx, text);
    return status;
}

/* ---- inputs that can be read once ------------------------------------------------------------- */

/* All of stdin or of a pipe: several networks, several runs, or a second way to read it, look at it again. */
typedef struct held_input {
    struct held_input *next;
    char *bytes;
    size_t count;
    char path[]; /* as it was named */
} held_input;

static held_input *held;

void train_data_done(zt_ctx *ctx)
{
    while (held) {
        held_input *input = held;
        held = input->next;
        zt_free(ctx, input->bytes);
        zt_free(ctx, input);
    }
}

static bool can_be_read_once(const char *path)
{
    struct stat info;
    return !strcmp(path, "-") || (!stat(path, &info) && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode));
}

static const held_input *find_held(const char *path)
{
    const held_input *input = held;
    while (input && strcmp(input->path, path)) input = input->next;
    return input;
}

zt_status train_data_hold(zt_ctx *ctx, const char *path)
{
    if (!can_be_read_once(path) || find_held(path)) return ZT_OK;
    held_input *input = zt_alloc(ctx, sizeof *input + strlen(path) + 1);
    if (!input) return ZT_ENOMEM;
    strcpy(input->path, path);
    input->bytes = zt_read_all(ctx, path, &input->count);
    if (!input->bytes) {
        zt_free(ctx, input);
        return zt_ctx_status(ctx);
    }
    input->next = held;
    held = input;
    return ZT_OK;
}

static zt_source *open_source(zt_ctx *ctx, const char *path)
{
    if (train_data_hold(ctx, path)) return NULL;
    const held_input *input = find_held(path);
    return input ? zt_source_memory(ctx, strcmp(path, "-") ? path : "stdin", input->bytes, input->count)
                 : zt_source_open(ctx, path);
}

/* Rows of one file; only: of the input of that name alone. */
static zt_status read_file(zt_samples *samples, const char *path, const char *only)
{
    char head[16];
    zt_source *source = open_source(samples->ctx, path);
    if (!source) return zt_ctx_status(samples->ctx);
    size_t length = zt_source_size(source) < sizeof head ? (size_t)zt_source_size(source) : sizeof head;
    zt_status status = length ? zt_source_read(source, 0, head, length)
                              : zt_fail(samples->ctx, ZT_EDATA, "%s: is empty", zt_source_name(source));
    if (!status && !only && is_text(head, length)) {
        status = read_text(samples, source);
        zt_source_close(source);
        return status;
    }
    zt_checkpoint *checkpoint = status ? NULL : zt_checkpoint_take(samples->ctx, source);
    if (status) zt_source_close(source);
    if (!checkpoint) return zt_ctx_status(samples->ctx);
    status = zt_samples_arrays(samples, checkpoint, only);
    zt_checkpoint_close(checkpoint);
    return status;
}

static zt_samples *read_samples(zt_ctx *ctx, const zt_prog *program, const train_options *options, const char *path,
                                const char *target)
{
    zt_samples *samples = zt_samples_new(ctx, program, NULL, 0);
    if (!samples) return NULL;
    zt_status status = read_file(samples, path, NULL);
    if (!status && target) status = read_file(samples, target, samples->fields[samples->field_count - 1].name);
    if (!status) status = zt_samples_check(samples, path);
    if (!status) zt_samples_scale(samples, options->scale);
    if (!status) return samples;
    zt_samples_free(samples);
    return NULL;
}

zt_samples *train_data_open(train_learner *learner, const train_options *options, const char *path, const char *target)
{
    return read_samples(learner->cli->ctx, learner->forward, options, path, target);
}

/* ---- samples without a model --------------------------------------------------------------------- */

static int64_t count_numbers(const json_t *value)
{
    size_t i;
    const json_t *element;
    int64_t count = json_is_number(value);
    json_array_foreach(value, i, element) count += count_numbers(element);
    return count;
}

/* Numbers of the first line: cells, or what a list or the member "x" or "input" has. *label: the line has the label too. */
static zt_status count_line(zt_ctx *ctx, const zt_source *source, int64_t *count, bool *label)
{
    size_t length = (size_t)zt_source_size(source), end = 0;
    char *text = zt_alloc(ctx, length + 1);
    zt_status status = text ? zt_source_read(source, 0, text, length) : ZT_ENOMEM;
    const char *line = text;
    while (!status && length && memchr(" \t\r\n", *line, 4)) line++, length--;
    while (!status && end < length && line[end] != '\n') end++;
    *label = true;
    *count = 1;
    if (!status && end && memchr("{[", *line, 2)) {
        json_t *value = json_loadb(line, end, JSON_DECODE_INT_AS_REAL, NULL);
        const json_t *member = json_object_get(value, "x") ? json_object_get(value, "x") : json_object_get(value, "input");
        *label = json_is_array(value);
        *count = count_numbers(*label ? value : member);
        json_decref(value);
    } else {
        for (size_t i = 0; !status && i < end; i++) *count += line[i] == ',';
    }
    zt_free(ctx, text);
    return status;
}

/* Numbers of a row of the array "x" or "input", else of the first. Closes the source. */
static zt_status count_array(zt_ctx *ctx, zt_source *source, int64_t *count)
{
    zt_entry entry = {0}, other;
    zt_checkpoint *checkpoint = zt_checkpoint_take(ctx, source);
    if (!checkpoint) return zt_ctx_status(ctx);
    for (int64_t i = 0; i < zt_checkpoint_count(checkpoint); i++) {
        zt_checkpoint_get(checkpoint, i, &other);
        if (!i || !strcmp(other.name, "x") || !strcmp(other.name, "input")) entry = other;
    }
    *count = entry.type.rank > 0 && entry.type.dim[0] > 0 ? zt_type_count(&entry.type) / entry.type.dim[0] : 0;
    zt_checkpoint_close(checkpoint);
    return ZT_OK;
}

static zt_status count_columns(zt_ctx *ctx, const char *path, bool labels, int64_t *count)
{
    char head[16];
    bool label = false;
    *count = 0;
    zt_source *source = open_source(ctx, path);
    if (!source) return zt_ctx_status(ctx);
    size_t length = zt_source_size(source) < sizeof head ? (size_t)zt_source_size(source) : sizeof head;
    zt_status status = length ? zt_source_read(source, 0, head, length) : ZT_OK;
    if (!status && length && !is_text(head, length)) {
        status = count_array(ctx, source, count);
    } else {
        if (!status && length) status = count_line(ctx, source, count, &label);
        zt_source_close(source);
    }
    *count -= labels && label;
    if (!status && *count < 1)
        status = zt_fail(ctx, ZT_EDATA, "%s: the first sample has no numbers", strcmp(path, "-") ? path : "stdin");
    return status;
}

zt_samples *train_data_rows(zt_cli *cli, const train_options *options, zt_prog **program)
{
    int64_t columns;
    zt_status status = count_columns(cli->ctx, options->input, options->labels && !options->target, &columns);
    *program = status ? NULL : zt_prog_new(cli->ctx);
    if (!*program) return NULL;
    int64_t dim[2] = {zt_prog_symbol(*program, "n"), columns};
    bool good = zt_prog_in(*program, "x", ZT_F32, 2, dim) >= 0 &&
                (!options->labels || zt_prog_in(*program, "target", ZT_F32, 1, dim) >= 0);
    return good ? read_samples(cli->ctx, *program, options, options->input, options->target) : NULL;
}

/* ---- several ids a sample -------------------------------------------------------------------- */

/* So many numbers a sample has at most: those of a line, or of a row of the largest array. */
static int64_t find_widest(zt_ctx *ctx, const char *path)
{
    char head[4096];
    size_t length = 0;
    int64_t most = 1;
    zt_source *source = open_source(ctx, path);
    if (!source) return 0;
    bool read = !zt_source_read_some(source, 0, head, sizeof head, sizeof head, &length);
    if (read && is_text(head, length)) {
        for (size_t i = 0; i < length && (head[i] != '\n' || most == 1); i++) most += head[i] == ',';
        zt_source_close(source);
        return most;
    }
    zt_checkpoint *checkpoint = read ? zt_checkpoint_take(ctx, source) : NULL;
    if (!read) zt_source_close(source);
    for (int64_t i = 0; checkpoint && i < zt_checkpoint_count(checkpoint); i++) {
        zt_entry entry;
        zt_checkpoint_get(checkpoint, i, &entry);
        int64_t rows = entry.type.rank > 0 ? entry.type.dim[0] : 0;
        int64_t each = rows > 0 ? zt_type_count(&entry.type) / rows : 0;
        most = each > most ? each : most;
    }
    zt_checkpoint_close(checkpoint);
    return most;
}

zt_samples *train_data_ids(train_learner **learner, const train_options *options)
{
    enum { MOST = 1 << 12 };
    zt_ctx *ctx = (*learner)->cli->ctx;
    zt_nn_shape shape;
    char why[1024];
    snprintf(why, sizeof why, "%s", zt_ctx_error(ctx));
    zt_ctx_clear(ctx);
    bool ids = (*learner)->network && !options->ids && zt_nn_input((*learner)->network, &shape) == ZT_OK && shape.rank == 1;
    int64_t most = ids ? find_widest(ctx, options->input) : 0;
    for (int64_t count = most < MOST ? most : MOST; count > 1; count--) {
        train_options some = *options;
        some.ids = count;
        zt_ctx_clear(ctx);
        train_learner *other = train_learner_open((*learner)->cli, &some);
        zt_samples *samples = other ? train_data_open(other, &some, options->input, options->target) : NULL;
        if (samples) {
            train_learner_close(*learner);
            *learner = other;
            return samples;
        }
        train_learner_close(other);
    }
    zt_ctx_clear(ctx);
    zt_fail(ctx, ZT_EDATA, "%s", why);
    return NULL;
}
