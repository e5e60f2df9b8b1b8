/* table.c - rows of text cells, printed as --format says: a writer for each form. */
#include "tools/common/internal.h"
#include <string.h>
#include <unistd.h>

typedef struct row row;
struct row {
    row *next;
    const char *cell[]; /* [n]; NULL: nothing there */
};

struct zt_table {
    zt_cli *cli;
    zt_arena *arena;
    const char *schema;
    int n;
    bool *number;       /* [n]: the column was marked '#' */
    const char **title; /* [n], without the mark */
    row *first, **last;
    bool prints; /* the text goes to stdout */
};

zt_table *zt_table_new(zt_cli *cli, const char *schema, const char *const *columns, int n)
{
    zt_arena *arena = zt_arena_new(cli->ctx, 0);
    zt_table *t = arena ? zt_arena_alloc(arena, sizeof *t) : NULL;
    if (!t) {
        zt_arena_free(arena);
        return NULL;
    }
    *t = (zt_table){.cli = cli, .arena = arena, .schema = schema, .n = n, .last = &t->first};
    t->number = zt_arena_alloc(arena, (size_t)n * sizeof *t->number);
    t->title = zt_arena_alloc(arena, (size_t)n * sizeof *t->title);
    if (!t->number || !t->title) {
        zt_arena_free(arena);
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        t->number[i] = columns[i][0] == '#';
        t->title[i] = columns[i] + t->number[i];
    }
    return t;
}

void zt_table_free(zt_table *t)
{
    if (t)
        zt_arena_free(t->arena);
}

/* One block holds the row and its texts: there are tables of a million rows. */
zt_status zt_table_row(zt_table *t, const char *const *cells)
{
    size_t bytes = sizeof(row) + (size_t)t->n * sizeof(char *);
    for (int i = 0; i < t->n; i++)
        bytes += cells[i] ? strlen(cells[i]) + 1 : 0;
    row *r = zt_arena_alloc(t->arena, bytes);
    if (!r)
        return ZT_ENOMEM;
    r->next = NULL;
    char *to = (char *)(r->cell + t->n);
    for (int i = 0; i < t->n; i++) {
        r->cell[i] = cells[i] ? to : NULL;
        if (cells[i])
            to = stpcpy(to, cells[i]) + 1;
    }
    *t->last = r;
    t->last = &r->next;
    return ZT_OK;
}

/* Behind each row: text for stdout goes out in pieces, so that not all of it is held. */
static void end_row(const zt_table *t, zt_str *s)
{
    enum { PIECE = 1 << 18 };
    if (!t->prints || s->len < PIECE)
        return;
    if (zt_ctx_status(s->ctx) == ZT_OK)
        zt_cli_write(t->cli, s->data, s->len); /* the context keeps a failure */
    zt_str_clear(s);
}

/* ---- aligned columns ------------------------------------------------------------------------- */

static void put_escaped(zt_str *s, const char *cell)
{
    if (cell)
        zt_str_put_escaped(s, cell, strlen(cell));
}

/* Columns that a text takes on a terminal: a character each. */
static size_t width_of(const char *text, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n; i++)
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

static void put_padded(zt_str *s, const char *cell, size_t width, bool right)
{
    size_t start = s->len;
    put_escaped(s, cell);
    size_t n = s->len - start, have = n ? width_of(s->data + start, n) : 0;
    size_t gap = have < width ? width - have : 0;
    if (gap == 0)
        return;
    zt_str_printf(s, "%*s", (int)gap, "");
    if (right && n && zt_ctx_status(s->ctx) == ZT_OK) {
        memmove(s->data + start + gap, s->data + start, n);
        memset(s->data + start, ' ', gap);
    }
}

static void put_aligned_row(const zt_table *t, zt_str *s, const char *const *cell,
                            const size_t *width)
{
    for (int i = 0; i < t->n; i++) {
        zt_str_puts(s, i ? "  " : "");
        put_padded(s, cell[i], width[i], t->number[i]);
    }
    while (s->len && s->data[s->len - 1] == ' ')
        s->data[--s->len] = '\0';
}

static void widen(const zt_table *t, zt_str *scratch, const char *const *cell, size_t *width)
{
    for (int i = 0; i < t->n; i++) {
        zt_str_clear(scratch);
        put_escaped(scratch, cell[i]);
        size_t w = scratch->len ? width_of(scratch->data, scratch->len) : 0;
        width[i] = w > width[i] ? w : width[i];
    }
}

static void put_aligned(const zt_table *t, zt_str *s)
{
    bool bold = t->cli->color == 1;
    size_t *width = zt_calloc(s->ctx, (size_t)t->n, sizeof *width);
    if (!width)
        return;
    widen(t, s, t->title, width);
    for (const row *r = t->first; r; r = r->next)
        widen(t, s, r->cell, width);
    zt_str_clear(s);
    zt_str_puts(s, bold ? "\033[1m" : "");
    put_aligned_row(t, s, t->title, width);
    zt_str_puts(s, bold ? "\033[0m\n" : "\n");
    for (const row *r = t->first; r; r = r->next) {
        put_aligned_row(t, s, r->cell, width);
        zt_str_putc(s, '\n');
        end_row(t, s);
    }
    zt_free(s->ctx, width);
}

/* ---- tsv, csv, md ---------------------------------------------------------------------------- */

typedef void cell_fn(zt_str *s, const char *cell);

/* RFC 4180. A file gets the cell as it is; a terminal is not shown control bytes. */
static void put_csv_cell(zt_str *s, const char *cell)
{
    bool quote = strpbrk(cell, "\",\r\n") != NULL, terminal = isatty(STDOUT_FILENO) != 0;
    zt_str_puts(s, quote ? "\"" : "");
    while (*cell) {
        size_t n = strcspn(cell, "\"");
        if (terminal)
            zt_str_put_escaped(s, cell, n);
        else
            zt_str_put(s, cell, n);
        cell += n;
        if (*cell == '"') {
            zt_str_puts(s, "\"\"");
            cell++;
        }
    }
    zt_str_puts(s, quote ? "\"" : "");
}

/* A bar would end the cell. */
static void put_md_cell(zt_str *s, const char *cell)
{
    for (;;) {
        size_t n = strcspn(cell, "|");
        zt_str_put_escaped(s, cell, n);
        cell += n;
        if (!*cell++)
            return;
        zt_str_puts(s, "\\|");
    }
}

static void put_row(const zt_table *t, zt_str *s, const char *const *cell, cell_fn *put,
                    const char *const edge[3])
{
    zt_str_puts(s, edge[0]);
    for (int i = 0; i < t->n; i++) {
        zt_str_puts(s, i ? edge[1] : "");
        if (cell[i])
            put(s, cell[i]);
    }
    zt_str_puts(s, edge[2]);
    end_row(t, s);
}

static void put_tsv(const zt_table *t, zt_str *s)
{
    static const char *const edge[3] = {"", "\t", "\n"};
    put_row(t, s, t->title, put_escaped, edge);
    for (const row *r = t->first; r; r = r->next)
        put_row(t, s, r->cell, put_escaped, edge);
}

static void put_csv(const zt_table *t, zt_str *s)
{
    static const char *const edge[3] = {"", ",", "\n"};
    put_row(t, s, t->title, put_csv_cell, edge);
    for (const row *r = t->first; r; r = r->next)
        put_row(t, s, r->cell, put_csv_cell, edge);
}

static void put_md(const zt_table *t, zt_str *s)
{
    static const char *const edge[3] = {"| ", " | ", " |\n"};
    put_row(t, s, t->title, put_md_cell, edge);
    for (int i = 0; i < t->n; i++)
        zt_str_puts(s, t->number[i] ? "|---:" : "|---");
    zt_str_puts(s, "|\n");
    for (const row *r = t->first; r; r = r->next)
        put_row(t, s, r->cell, put_md_cell, edge);
}

/* ---- json, ndjson ---------------------------------------------------------------------------- */

static const char *digits(const char *p)
{
    return p + strspn(p, "0123456789");
}

/* RFC 8259: no plus, no leading zero, digits on both sides of a point. */
static bool is_json_number(const char *p)
{
    p += *p == '-';
    const char *end = digits(p);
    if (end == p || (*p == '0' && end > p + 1))
        return false;
    p = end;
    if (*p == '.') {
        end = digits(p + 1);
        if (end == p + 1)
            return false;
        p = end;
    }
    if (*p == 'e' || *p == 'E') {
        p += p[1] == '+' || p[1] == '-' ? 2 : 1;
        end = digits(p);
        if (end == p)
            return false;
        p = end;
    }
    return *p == '\0';
}

/* JSON has no numbers that are none: those are null, as is a cell without content. */
static bool is_null(const char *cell, bool number)
{
    static const char *const none[] = {"", "nan", "-nan", "inf", "-inf"};
    if (!cell)
        return true;
    for (size_t i = 0; number && i < sizeof none / sizeof *none; i++)
        if (strcmp(cell, none[i]) == 0)
            return true;
    return false;
}

static void put_object(const zt_table *t, zt_str *s, const row *r)
{
    for (int i = 0; i < t->n; i++) {
        zt_str_putc(s, i ? ',' : '{');
        zt_str_put_json(s, t->title[i], strlen(t->title[i]));
        zt_str_putc(s, ':');
        if (is_null(r->cell[i], t->number[i]))
            zt_str_puts(s, "null");
        else if (t->number[i] && is_json_number(r->cell[i]))
            zt_str_puts(s, r->cell[i]);
        else
            zt_str_put_json(s, r->cell[i], strlen(r->cell[i]));
    }
    zt_str_putc(s, '}');
}

static void put_json(const zt_table *t, zt_str *s)
{
    zt_str schema;
    zt_str_init(&schema, s->ctx);
    zt_str_printf(&schema, "zt.%s/1", t->schema);
    zt_str_puts(s, "{\"schema\":");
    if (schema.data)
        zt_str_put_json(s, schema.data, schema.len);
    zt_str_puts(s, ",\"rows\":[");
    for (const row *r = t->first; r; r = r->next) {
        zt_str_puts(s, r == t->first ? "\n" : ",\n");
        put_object(t, s, r);
        end_row(t, s);
    }
    zt_str_puts(s, "]}\n");
    zt_str_fini(&schema);
}

static void put_ndjson(const zt_table *t, zt_str *s)
{
    for (const row *r = t->first; r; r = r->next) {
        put_object(t, s, r);
        zt_str_putc(s, '\n');
        end_row(t, s);
    }
}

/* ---- print ----------------------------------------------------------------------------------- */

zt_status zt_table_put(const zt_table *t, bool aligned, zt_str *out)
{
    static void (*const put[])(const zt_table *, zt_str *) = {
        [ZT_FMT_AUTO] = put_aligned, [ZT_FMT_TSV] = put_tsv,       [ZT_FMT_CSV] = put_csv,
        [ZT_FMT_JSON] = put_json,    [ZT_FMT_NDJSON] = put_ndjson, [ZT_FMT_MD] = put_md,
    };
    zt_format format = t->cli->format;
    if (format == ZT_FMT_AUTO && !aligned)
        format = ZT_FMT_TSV;
    put[format](t, out);
    return zt_ctx_status(t->cli->ctx);
}

zt_status zt_table_print(zt_table *t)
{
    zt_str s;
    zt_str_init(&s, t->cli->ctx);
    t->prints = true;
    bool words = ((const zt_cli_state *)t->cli)->stdout_taken; /* they go to stderr */
    zt_status status = zt_table_put(t, words || isatty(STDOUT_FILENO), &s);
    if (status == ZT_OK && s.len)
        status = zt_cli_write(t->cli, s.data, s.len);
    zt_str_fini(&s);
    return status;
}
