/* samples_text.c - data sets from lines of text: CSV and NDJSON. */
#include "lib/base/require.h"
#include "lib/train/train_internal.h"

#include "lib/base/foreign.h"
#include "lib/io/json.h"

#include <string.h>

/* A line of text and where it is. */
typedef struct text_line {
    zt_samples *samples;
    const char *name, *text;
    size_t length;
    int64_t number; /* from 1 */
} text_line;

/* The next line that is not empty, without its end; false: there is none. */
static bool next_line(text_line *line, const char **cursor, const char *end)
{
    while (*cursor < end) {
        const char *stop = memchr(*cursor, '\n', (size_t)(end - *cursor));
        if (!stop) stop = end;
        line->text = *cursor;
        line->length = (size_t)(stop - *cursor);
        while (line->length && memchr(" \t\r", line->text[line->length - 1], 3)) line->length--;
        *cursor = stop < end ? stop + 1 : end;
        line->number++;
        if (line->length) return true;
    }
    return false;
}

static zt_status fail_line(const text_line *line, const char *what)
{
    return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: %s", line->name, (long long)line->number, what);
}

static int64_t count_columns(const zt_samples *samples)
{
    int64_t all = 0;
    for (int i = 0; i < samples->field_count; i++) all += zt_type_count(&samples->fields[i].row);
    return all;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* One cell as a number; `text` is its own, closed by a zero. */
static bool cell_number(const char *cell, size_t length, char text[64], double *out)
{
    while (length && memchr(" \t", *cell, 2)) cell++, length--;
    while (length && memchr(" \t", cell[length - 1], 2)) length--;
    if (length >= 2 && *cell == '"' && cell[length - 1] == '"') cell++, length -= 2;
    size_t kept = length < 63 ? length : 63;
    memcpy(text, cell, kept);
    text[kept] = 0;
    return length == kept && zt_parse_double(text, out);
}

static size_t cell_end(const text_line *line, size_t from)
{
    const char *comma = memchr(line->text + from, ',', line->length - from);
    return comma ? (size_t)(comma - line->text) : line->length;
}

static bool is_names(const text_line *line)
{
    char text[64];
    double number;
    for (size_t offset = 0; offset <= line->length;) {
        size_t end = cell_end(line, offset);
        if (cell_number(line->text + offset, end - offset, text, &number)) return false;
        offset = end + 1;
    }
    return true;
}

/* The cells from *at on that input i has. */
static zt_status put_cells(const text_line *line, zt_field *field, size_t *offset, int64_t *column)
{
    char text[64], shown[256];
    double value;
    for (int64_t k = 0; k < zt_type_count(&field->row); k++, ++*column) {
        size_t end = cell_end(line, *offset);
        bool number = cell_number(line->text + *offset, end - *offset, text, &value);
        if (!number || !zt_field_put(field, value))
            return zt_ctx_status(line->samples->ctx)
                       ? zt_ctx_status(line->samples->ctx)
                       : zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: column %lld: '%s' is not a valid %s", line->name,
                                 (long long)line->number, (long long)*column + 1,
                                 zt_escape(shown, sizeof shown, text, strlen(text)), zt_field_wants(field));
        *offset = end + 1;
    }
    return ZT_OK;
}

static zt_status put_row(const text_line *line)
{
    int64_t columns = 1, column = 0, want = count_columns(line->samples);
    for (size_t i = 0; i < line->length; i++) columns += line->text[i] == ',';
    if (columns != want)
        return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: %lld columns, but the inputs need %lld", line->name,
                       (long long)line->number, (long long)columns, (long long)want);
    size_t offset = 0;
    zt_status status = ZT_OK;
    for (int i = 0; i < line->samples->field_count && !status; i++)
        status = put_cells(line, &line->samples->fields[i], &offset, &column);
    return status;
}

zt_status zt_samples_csv(zt_samples *samples, const char *name, const char *text, size_t length)
{
    if (!samples) return ZT_EUSAGE;
    ZT_REQUIRE(samples->ctx, text || !length, ZT_EUSAGE);
    text_line line = {.samples = samples, .name = name};
    const char *cursor = text, *end = text + length;
    zt_status status = zt_foreign_fail(samples->ctx, name, text, length);
    for (bool first = true; !status && next_line(&line, &cursor, end); first = false)
        if (!first || !is_names(&line)) status = put_row(&line);
    return status;
}

/* ---- NDJSON ---------------------------------------------------------------------------------- */

/* Numbers of v, nested in any way, appended to field; *left counts down. */
static zt_status put_value(const text_line *line, zt_field *field, const json_t *value, int64_t *left)
{
    size_t i;
    const json_t *element;
    zt_status status = ZT_OK;
    if (json_is_array(value)) {
        json_array_foreach(value, i, element) if (!status) status = put_value(line, field, element, left);
        return status;
    }
    if ((*left)-- <= 0)
        return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: too many numbers: expected %lld for input '%s'", line->name,
                       (long long)line->number, (long long)zt_type_count(&field->row), field->name);
    if (json_is_number(value) && zt_field_put(field, json_number_value(value))) return ZT_OK;
    if (zt_ctx_status(line->samples->ctx)) return zt_ctx_status(line->samples->ctx);
    return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: input '%s': a value is not a valid %s", line->name,
                   (long long)line->number, field->name, zt_field_wants(field));
}

static zt_status put_member(const text_line *line, int index, const json_t *object)
{
    zt_field *field = &line->samples->fields[index];
    int64_t left = zt_type_count(&field->row);
    const json_t *value = NULL;
    for (int k = 0; !value && zt_field_name(line->samples, index, k); k++)
        value = json_object_get(object, zt_field_name(line->samples, index, k));
    if (!value)
        return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: missing member '%s'", line->name, (long long)line->number,
                       field->name);
    zt_status status = put_value(line, field, value, &left);
    if (status || !left) return status;
    return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: input '%s' has %lld numbers, expected %lld", line->name,
                   (long long)line->number, field->name, (long long)(zt_type_count(&field->row) - left),
                   (long long)zt_type_count(&field->row));
}

/* One list for all inputs, as a line of CSV. */
static zt_status put_list(const text_line *line, const json_t *list)
{
    size_t index = 0, want = (size_t)count_columns(line->samples);
    if (json_array_size(list) != want)
        return zt_fail(line->samples->ctx, ZT_EDATA, "%s:%lld: %zu numbers, but the inputs need %zu", line->name,
                       (long long)line->number, json_array_size(list), want);
    zt_status status = ZT_OK;
    for (int i = 0; i < line->samples->field_count; i++)
        for (int64_t k = 0, one; k < zt_type_count(&line->samples->fields[i].row) && !status; k++) {
            one = 1;
            const json_t *value = json_array_get(list, index++);
            status = json_is_array(value) ? fail_line(line, "expected a number, got a list")
                                          : put_value(line, &line->samples->fields[i], value, &one);
        }
    return status;
}

static zt_status put_json(const text_line *line)
{
    json_error_t why;
    char shown[256];
    json_t *value = zt_json_parse(line->text, line->length, JSON_DECODE_INT_AS_REAL, &why);
    if (!value) return fail_line(line, zt_escape(shown, sizeof shown, why.text, strlen(why.text)));
    zt_status status = ZT_OK;
    if (json_is_array(value))
        status = put_list(line, value);
    else if (!json_is_object(value))
        status = fail_line(line, "expected an object or a list");
    for (int i = 0; json_is_object(value) && i < line->samples->field_count && !status; i++) status = put_member(line, i, value);
    json_decref(value);
    return status;
}

zt_status zt_samples_ndjson(zt_samples *samples, const char *name, const char *text, size_t length)
{
    if (!samples) return ZT_EUSAGE;
    ZT_REQUIRE(samples->ctx, text || !length, ZT_EUSAGE);
    text_line line = {.samples = samples, .name = name};
    const char *cursor = text, *end = text + length;
    zt_status status = ZT_OK;
    while (!status && next_line(&line, &cursor, end)) status = put_json(&line);
    return status;
}
