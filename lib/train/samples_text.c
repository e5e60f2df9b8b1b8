/* samples_text.c - data sets from lines of text: CSV and NDJSON. */
#include "lib/train/samples_put.h"

#include "lib/base/foreign.h"
#include "lib/io/json.h"

#include <string.h>

/* A line of text and where it is. */
typedef struct line {
    zt_samples *s;
    const char *name, *text;
    size_t n;
    int64_t number; /* from 1 */
} line;

/* The next line that is not empty, without its end; false: there is none. */
static bool next_line(line *l, const char **at, const char *end)
{
    while (*at < end) {
        const char *stop = memchr(*at, '\n', (size_t)(end - *at));
        if (!stop) stop = end;
        l->text = *at;
        l->n = (size_t)(stop - *at);
        while (l->n && memchr(" \t\r", l->text[l->n - 1], 3)) l->n--;
        *at = stop < end ? stop + 1 : end;
        l->number++;
        if (l->n) return true;
    }
    return false;
}

static zt_status bad(const line *l, const char *what)
{
    return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: %s", l->name, (long long)l->number, what);
}

static int64_t columns_of(const zt_samples *s)
{
    int64_t all = 0;
    for (int i = 0; i < s->n; i++) all += zt_type_count(&s->field[i].row);
    return all;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* One cell as a number; `text` is its own, closed by a zero. */
static bool cell_number(const char *cell, size_t n, char text[64], double *x)
{
    while (n && memchr(" \t", *cell, 2)) cell++, n--;
    while (n && memchr(" \t", cell[n - 1], 2)) n--;
    if (n >= 2 && *cell == '"' && cell[n - 1] == '"') cell++, n -= 2;
    size_t kept = n < 63 ? n : 63;
    memcpy(text, cell, kept);
    text[kept] = 0;
    return n == kept && zt_parse_double(text, x);
}

static size_t cell_end(const line *l, size_t from)
{
    const char *comma = memchr(l->text + from, ',', l->n - from);
    return comma ? (size_t)(comma - l->text) : l->n;
}

static bool is_names(const line *l)
{
    char text[64];
    double x;
    for (size_t at = 0; at <= l->n;) {
        size_t end = cell_end(l, at);
        if (cell_number(l->text + at, end - at, text, &x)) return false;
        at = end + 1;
    }
    return true;
}

/* The cells from *at on that input i has. */
static zt_status put_cells(const line *l, zt_field *f, size_t *at, int64_t *column)
{
    char text[64], shown[256];
    double x;
    for (int64_t k = 0; k < zt_type_count(&f->row); k++, ++*column) {
        size_t end = cell_end(l, *at);
        bool number = cell_number(l->text + *at, end - *at, text, &x);
        if (!number || !zt_field_put(f, x))
            return zt_ctx_status(l->s->ctx)
                       ? zt_ctx_status(l->s->ctx)
                       : zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: column %lld: '%s' is no %s",
                                 l->name, (long long)l->number, (long long)*column + 1,
                                 zt_escape(shown, sizeof shown, text, strlen(text)),
                                 zt_field_wants(f));
        *at = end + 1;
    }
    return ZT_OK;
}

static zt_status put_row(const line *l)
{
    int64_t columns = 1, column = 0, want = columns_of(l->s);
    for (size_t i = 0; i < l->n; i++) columns += l->text[i] == ',';
    if (columns != want)
        return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: %lld columns, and the inputs have %lld",
                       l->name, (long long)l->number, (long long)columns, (long long)want);
    size_t at = 0;
    zt_status s = ZT_OK;
    for (int i = 0; i < l->s->n && !s; i++) s = put_cells(l, &l->s->field[i], &at, &column);
    return s;
}

zt_status zt_samples_csv(zt_samples *s, const char *name, const char *text, size_t n)
{
    line l = {.s = s, .name = name};
    const char *at = text, *end = text + n;
    zt_status st = zt_foreign_fail(s->ctx, name, text, n);
    for (bool first = true; !st && next_line(&l, &at, end); first = false)
        if (!first || !is_names(&l)) st = put_row(&l);
    return st;
}

/* ---- NDJSON ---------------------------------------------------------------------------------- */

/* Numbers of v, nested in any way, appended to f; *left counts down. */
static zt_status put_value(const line *l, zt_field *f, const json_t *v, int64_t *left)
{
    size_t i;
    const json_t *e;
    zt_status s = ZT_OK;
    if (json_is_array(v)) {
        json_array_foreach(v, i, e)
            if (!s) s = put_value(l, f, e, left);
        return s;
    }
    if ((*left)-- <= 0)
        return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: more than the %lld numbers of input '%s'",
                       l->name, (long long)l->number, (long long)zt_type_count(&f->row), f->name);
    if (json_is_number(v) && zt_field_put(f, json_number_value(v))) return ZT_OK;
    if (zt_ctx_status(l->s->ctx)) return zt_ctx_status(l->s->ctx);
    return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: input '%s': a value is no %s", l->name,
                   (long long)l->number, f->name, zt_field_wants(f));
}

static zt_status put_member(const line *l, int i, const json_t *object)
{
    zt_field *f = &l->s->field[i];
    int64_t left = zt_type_count(&f->row);
    const json_t *v = NULL;
    for (int k = 0; !v && zt_field_name(l->s, i, k); k++)
        v = json_object_get(object, zt_field_name(l->s, i, k));
    if (!v)
        return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: has no member '%s'", l->name,
                       (long long)l->number, f->name);
    zt_status s = put_value(l, f, v, &left);
    if (s || !left) return s;
    return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: input '%s' has %lld numbers, not %lld", l->name,
                   (long long)l->number, f->name, (long long)(zt_type_count(&f->row) - left),
                   (long long)zt_type_count(&f->row));
}

/* One list for all inputs, as a line of CSV. */
static zt_status put_list(const line *l, const json_t *list)
{
    size_t at = 0, want = (size_t)columns_of(l->s);
    if (json_array_size(list) != want)
        return zt_fail(l->s->ctx, ZT_EDATA, "%s:%lld: %zu numbers, and the inputs have %zu",
                       l->name, (long long)l->number, json_array_size(list), want);
    zt_status s = ZT_OK;
    for (int i = 0; i < l->s->n; i++)
        for (int64_t k = 0, one; k < zt_type_count(&l->s->field[i].row) && !s; k++) {
            one = 1;
            const json_t *v = json_array_get(list, at++);
            s = json_is_array(v) ? bad(l, "a list where a number belongs")
                                 : put_value(l, &l->s->field[i], v, &one);
        }
    return s;
}

static zt_status put_json(const line *l)
{
    json_error_t why;
    char shown[256];
    json_t *v = zt_json_parse(l->text, l->n, JSON_DECODE_INT_AS_REAL, &why);
    if (!v)
        return bad(l, zt_escape(shown, sizeof shown, why.text, strlen(why.text)));
    zt_status s = ZT_OK;
    if (json_is_array(v))
        s = put_list(l, v);
    else if (!json_is_object(v))
        s = bad(l, "an object or a list is expected");
    for (int i = 0; json_is_object(v) && i < l->s->n && !s; i++) s = put_member(l, i, v);
    json_decref(v);
    return s;
}

zt_status zt_samples_ndjson(zt_samples *s, const char *name, const char *text, size_t n)
{
    line l = {.s = s, .name = name};
    const char *at = text, *end = text + n;
    zt_status st = ZT_OK;
    while (!st && next_line(&l, &at, end)) st = put_json(&l);
    return st;
}
