/* table.c - rows of text cells, printed as --format says: a writer for each form. */
#include "tools/common/internal.h"
#include <string.h>

typedef struct table_row table_row;
struct table_row {
    table_row *next;
    const char *cells[]; /* [n]; NULL: nothing there */
};

struct zt_table {
    zt_cli *cli;
    zt_arena *arena;
    const char *schema;
    int column_count;
    bool *is_number;     /* [column_count]: the column was marked '#' */
    const char **titles; /* [column_count], without the mark */
    table_row *first, **last;
    bool prints; /* the text goes to stdout */
};

zt_table *zt_table_new(zt_cli *cli, const char *schema, const char *const *columns, int column_count)
{
    zt_arena *arena = zt_arena_new(cli->ctx, 0);
    zt_table *table = arena ? zt_arena_alloc(arena, sizeof *table) : NULL;
    if (!table) {
        zt_arena_free(arena);
        return NULL;
    }
    *table = (zt_table){.cli = cli, .arena = arena, .schema = schema, .column_count = column_count, .last = &table->first};
    table->is_number = zt_arena_alloc(arena, (size_t)column_count * sizeof *table->is_number);
    table->titles = zt_arena_alloc(arena, (size_t)column_count * sizeof *table->titles);
    if (!table->is_number || !table->titles) {
        zt_arena_free(arena);
        return NULL;
    }
    for (int i = 0; i < column_count; i++) {
        table->is_number[i] = columns[i][0] == '#';
        table->titles[i] = columns[i] + table->is_number[i];
    }
    return table;
}

void zt_table_free(zt_table *table)
{
    if (table) zt_arena_free(table->arena);
}

/* One block holds the row and its texts: there are tables of a million rows. */
zt_status zt_table_row(zt_table *table, const char *const *cells)
{
    size_t bytes = sizeof(table_row) + (size_t)table->column_count * sizeof(char *);
    for (int i = 0; i < table->column_count; i++) bytes += cells[i] ? strlen(cells[i]) + 1 : 0;
    table_row *row = zt_arena_alloc(table->arena, bytes);
    if (!row) return ZT_ENOMEM;
    row->next = NULL;
    char *text = (char *)(row->cells + table->column_count);
    for (int i = 0; i < table->column_count; i++) {
        row->cells[i] = cells[i] ? text : NULL;
        if (cells[i]) text = stpcpy(text, cells[i]) + 1;
    }
    *table->last = row;
    table->last = &row->next;
    return ZT_OK;
}

/* Behind each row: text for stdout goes out in pieces, so that not all of it is held. */
static void end_row(const zt_table *table, zt_str *out)
{
    enum { PIECE = 1 << 18 };
    if (!table->prints || out->len < PIECE) return;
    if (zt_ctx_status(out->ctx) == ZT_OK) zt_cli_write(table->cli, out->data, out->len); /* the context keeps a failure */
    zt_str_clear(out);
}

/* ---- aligned columns ------------------------------------------------------------------------- */

static void put_escaped(zt_str *out, const char *cell)
{
    if (cell) zt_str_put_escaped(out, cell, strlen(cell));
}

static void put_padded(zt_str *out, const char *cell, size_t width, bool right)
{
    size_t start = out->len;
    put_escaped(out, cell);
    size_t length = out->len - start, used = length ? zt_utf8_count(out->data + start, length) : 0;
    size_t gap = used < width ? width - used : 0;
    if (gap == 0) return;
    zt_str_printf(out, "%*s", (int)gap, "");
    if (right && length && zt_ctx_status(out->ctx) == ZT_OK) {
        memmove(out->data + start + gap, out->data + start, length);
        memset(out->data + start, ' ', gap);
    }
}

static void put_aligned_row(const zt_table *table, zt_str *out, const char *const *cell, const size_t *width)
{
    for (int i = 0; i < table->column_count; i++) {
        zt_str_puts(out, i ? "  " : "");
        put_padded(out, cell[i], width[i], table->is_number[i]);
    }
    while (out->len && out->data[out->len - 1] == ' ') out->data[--out->len] = '\0';
}

static void widen_columns(const zt_table *table, zt_str *scratch, const char *const *cell, size_t *width)
{
    for (int i = 0; i < table->column_count; i++) {
        zt_str_clear(scratch);
        put_escaped(scratch, cell[i]);
        size_t columns = scratch->len ? zt_utf8_count(scratch->data, scratch->len) : 0;
        width[i] = columns > width[i] ? columns : width[i];
    }
}

static void put_aligned(const zt_table *table, zt_str *out)
{
    bool bold = table->cli->color == 1;
    size_t *width = zt_calloc(out->ctx, (size_t)table->column_count, sizeof *width);
    if (!width) return;
    widen_columns(table, out, table->titles, width);
    for (const table_row *row = table->first; row; row = row->next) widen_columns(table, out, row->cells, width);
    zt_str_clear(out);
    zt_str_puts(out, bold ? "\033[1m" : "");
    put_aligned_row(table, out, table->titles, width);
    zt_str_puts(out, bold ? "\033[0m\n" : "\n");
    for (const table_row *row = table->first; row; row = row->next) {
        put_aligned_row(table, out, row->cells, width);
        zt_str_putc(out, '\n');
        end_row(table, out);
    }
    zt_free(out->ctx, width);
}

/* ---- tsv, csv, md ---------------------------------------------------------------------------- */

typedef void cell_fn(zt_str *s, const char *cell);

/* RFC 4180. A file gets the cell as it is; a terminal is not shown control bytes. */
static void put_csv_cell(zt_str *out, const char *cell)
{
    bool quote = strpbrk(cell, "\",\r\n") != NULL, terminal = zt_cli_on_terminal();
    zt_str_puts(out, quote ? "\"" : "");
    while (*cell) {
        size_t length = strcspn(cell, "\"");
        if (terminal)
            zt_str_put_escaped(out, cell, length);
        else
            zt_str_put(out, cell, length);
        cell += length;
        if (*cell == '"') {
            zt_str_puts(out, "\"\"");
            cell++;
        }
    }
    zt_str_puts(out, quote ? "\"" : "");
}

/* A bar would end the cell. */
static void put_md_cell(zt_str *out, const char *cell)
{
    for (;;) {
        size_t length = strcspn(cell, "|");
        zt_str_put_escaped(out, cell, length);
        cell += length;
        if (!*cell++) return;
        zt_str_puts(out, "\\|");
    }
}

static void put_row(const zt_table *table, zt_str *out, const char *const *cell, cell_fn *put_cell, const char *const edge[3])
{
    zt_str_puts(out, edge[0]);
    for (int i = 0; i < table->column_count; i++) {
        zt_str_puts(out, i ? edge[1] : "");
        if (cell[i]) put_cell(out, cell[i]);
    }
    zt_str_puts(out, edge[2]);
    end_row(table, out);
}

static void put_tsv(const zt_table *table, zt_str *out)
{
    static const char *const edge[3] = {"", "\t", "\n"};
    put_row(table, out, table->titles, put_escaped, edge);
    for (const table_row *row = table->first; row; row = row->next) put_row(table, out, row->cells, put_escaped, edge);
}

static void put_csv(const zt_table *table, zt_str *out)
{
    static const char *const edge[3] = {"", ",", "\n"};
    put_row(table, out, table->titles, put_csv_cell, edge);
    for (const table_row *row = table->first; row; row = row->next) put_row(table, out, row->cells, put_csv_cell, edge);
}

static void put_md(const zt_table *table, zt_str *out)
{
    static const char *const edge[3] = {"| ", " | ", " |\n"};
    put_row(table, out, table->titles, put_md_cell, edge);
    for (int i = 0; i < table->column_count; i++) zt_str_puts(out, table->is_number[i] ? "|---:" : "|---");
    zt_str_puts(out, "|\n");
    for (const table_row *row = table->first; row; row = row->next) put_row(table, out, row->cells, put_md_cell, edge);
}

/* ---- json, ndjson ---------------------------------------------------------------------------- */

static const char *skip_digits(const char *text) { return text + strspn(text, "0123456789"); }

/* RFC 8259: no plus, no leading zero, digits on both sides of a point. */
static bool is_json_number(const char *cursor)
{
    cursor += *cursor == '-';
    const char *end = skip_digits(cursor);
    if (end == cursor || (*cursor == '0' && end > cursor + 1)) return false;
    cursor = end;
    if (*cursor == '.') {
        end = skip_digits(cursor + 1);
        if (end == cursor + 1) return false;
        cursor = end;
    }
    if (*cursor == 'e' || *cursor == 'E') {
        cursor += cursor[1] == '+' || cursor[1] == '-' ? 2 : 1;
        end = skip_digits(cursor);
        if (end == cursor) return false;
        cursor = end;
    }
    return *cursor == '\0';
}

/* JSON has no numbers that are none: those are null, as is a cell without content. */
static bool is_null(const char *cell, bool number)
{
    static const char *const none[] = {"", "nan", "-nan", "inf", "-inf"};
    if (!cell) return true;
    for (size_t i = 0; number && i < sizeof none / sizeof *none; i++)
        if (strcmp(cell, none[i]) == 0) return true;
    return false;
}

static void put_object(const zt_table *table, zt_str *out, const table_row *row)
{
    for (int i = 0; i < table->column_count; i++) {
        zt_str_putc(out, i ? ',' : '{');
        zt_str_put_json(out, table->titles[i], strlen(table->titles[i]));
        zt_str_putc(out, ':');
        if (is_null(row->cells[i], table->is_number[i]))
            zt_str_puts(out, "null");
        else if (table->is_number[i] && is_json_number(row->cells[i]))
            zt_str_puts(out, row->cells[i]);
        else
            zt_str_put_json(out, row->cells[i], strlen(row->cells[i]));
    }
    zt_str_putc(out, '}');
}

static void put_json(const zt_table *table, zt_str *out)
{
    zt_str schema;
    zt_str_init(&schema, out->ctx);
    zt_str_printf(&schema, "zt.%s/1", table->schema);
    zt_str_puts(out, "{\"schema\":");
    if (schema.data) zt_str_put_json(out, schema.data, schema.len);
    zt_str_puts(out, ",\"rows\":[");
    for (const table_row *row = table->first; row; row = row->next) {
        zt_str_puts(out, row == table->first ? "\n" : ",\n");
        put_object(table, out, row);
        end_row(table, out);
    }
    zt_str_puts(out, "]}\n");
    zt_str_fini(&schema);
}

static void put_ndjson(const zt_table *table, zt_str *out)
{
    for (const table_row *row = table->first; row; row = row->next) {
        put_object(table, out, row);
        zt_str_putc(out, '\n');
        end_row(table, out);
    }
}

/* ---- print ----------------------------------------------------------------------------------- */

zt_status zt_table_put(const zt_table *table, bool aligned, zt_str *out)
{
    static void (*const put[])(const zt_table *, zt_str *) = {
        [ZT_FMT_AUTO] = put_aligned, [ZT_FMT_TSV] = put_tsv,       [ZT_FMT_CSV] = put_csv,
        [ZT_FMT_JSON] = put_json,    [ZT_FMT_NDJSON] = put_ndjson, [ZT_FMT_MD] = put_md,
    };
    zt_format format = table->cli->format;
    if (format == ZT_FMT_AUTO && !aligned) format = ZT_FMT_TSV;
    put[format](table, out);
    return zt_ctx_status(table->cli->ctx);
}

zt_status zt_table_print(zt_table *table)
{
    zt_str out;
    zt_str_init(&out, table->cli->ctx);
    table->prints = true;
    bool words = ((const zt_cli_state *)table->cli)->stdout_taken; /* they go to stderr */
    zt_status status = zt_table_put(table, words || zt_cli_on_terminal(), &out);
    if (status == ZT_OK && out.len) status = zt_cli_write(table->cli, out.data, out.len);
    zt_str_fini(&out);
    return status;
}
