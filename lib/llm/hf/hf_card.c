/* hf_card.c - the model card: what README.md's front matter says of a model, and back.
 *
 * Of YAML what cards are written in: between two lines "---", `name: text` from the first column,
 * a list as `[a, b]` or as lines "- a" below; texts plain or in quotes. Anything else is passed
 * over, as is a card that has none. Keys: gguf-py/gguf/metadata.py of llama.cpp, as facts. */
#include "lib/llm/hf/hf_export.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 256 };

typedef struct card_row {
    const char *names; /* of the card, in order: all of a list's, of a text the first that is there */
    const char *key;   /* general.KEY */
    bool list;
} card_row;

static const card_row rows[] = {
    {"license", "license", false},       {"license_name", "license.name", false},   {"license_link", "license.link", false},
    {"tags|pipeline_tag", "tags", true}, {"language|languages", "languages", true},
};

typedef struct card_texts {
    json_t *one[MOST]; /* strings */
    int count;
} card_texts;

/* ---- reading --------------------------------------------------------------------------------- */

static zt_bytes trim_blanks(zt_bytes text)
{
    while (text.n && strchr(" \t\r", text.data[0])) text = (zt_bytes){text.data + 1, text.n - 1};
    while (text.n && strchr(" \t\r", text.data[text.n - 1])) text.n--;
    return text;
}

/* Up to a comment, which a blank opens. */
static zt_bytes strip_comment(zt_bytes text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.data[i] == '#' && (i == 0 || text.data[i - 1] == ' ')) text.n = i;
    return trim_blanks(text);
}

static void add_text(card_texts *out, zt_bytes text)
{
    json_t *value = NULL;
    const char *end;
    text = trim_blanks(text);
    if (out->count == MOST || text.n == 0) return;
    if (text.n > 1 && text.data[0] == '"')
        value = json_loadb(text.data, text.n, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
    else if (text.n > 1 && text.data[0] == '\'' && (end = memchr(text.data + 1, '\'', text.n - 1)))
        value = json_stringn(text.data + 1, (size_t)(end - text.data) - 1);
    else if ((text = strip_comment(text)).n)
        value = json_stringn(text.data, text.n);
    if (json_is_string(value))
        out->one[out->count++] = value;
    else
        json_decref(value);
}

/* "[a, b]" or one text. */
static void add_value(card_texts *out, zt_bytes text)
{
    text = trim_blanks(text);
    if (text.n < 2 || text.data[0] != '[') {
        add_text(out, text);
        return;
    }
    size_t from = 1;
    for (size_t i = 1; i < text.n; i++) {
        if (text.data[i] != ',' && text.data[i] != ']') continue;
        add_text(out, (zt_bytes){text.data + from, i - from});
        from = i + 1;
        if (text.data[i] == ']') break;
    }
}

static bool next_line(zt_bytes *rest, zt_bytes *line)
{
    if (rest->n == 0) return false;
    const char *end = memchr(rest->data, '\n', rest->n);
    size_t length = end ? (size_t)(end - rest->data) : rest->n;
    *line = (zt_bytes){rest->data, length};
    length += end != NULL;
    *rest = (zt_bytes){rest->data + length, rest->n - length};
    return true;
}

static bool is_rule(zt_bytes line)
{
    line = trim_blanks(line);
    return line.n == 3 && memcmp(line.data, "---", 3) == 0;
}

/* What the card says under a name. */
static void find_entry(zt_bytes card, const char *name, size_t name_length, card_texts *out)
{
    zt_bytes line;
    bool inside = false;
    if (!next_line(&card, &line) || !is_rule(line)) return;
    while (next_line(&card, &line) && !is_rule(line)) {
        zt_bytes trimmed = trim_blanks(line);
        if (inside && trimmed.n > 1 && trimmed.data[0] == '-' && trimmed.data[1] == ' ') {
            add_text(out, (zt_bytes){trimmed.data + 2, trimmed.n - 2});
            continue;
        }
        inside = line.n > name_length && memcmp(line.data, name, name_length) == 0 && line.data[name_length] == ':';
        if (inside) add_value(out, (zt_bytes){line.data + name_length + 1, line.n - name_length - 1});
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static zt_status put_row(hf_import *import, const card_row *row, const card_texts *texts)
{
    char key[64];
    zt_bytes all[MOST];
    zt_str joined;
    zt_status status = ZT_OK;
    snprintf(key, sizeof key, "general.%s", row->key);
    for (int i = 0; i < texts->count; i++)
        all[i] = (zt_bytes){json_string_value(texts->one[i]), json_string_length(texts->one[i])};
    if (row->list) return zt_gguf_put_strs(import->writer, key, all, texts->count);
    zt_str_init(&joined, import->ctx);
    for (int i = 0; status == ZT_OK && i < texts->count; i++) {
        status = i ? zt_str_putc(&joined, ',') : ZT_OK;
        if (status == ZT_OK) status = zt_str_put(&joined, all[i].data, all[i].n);
    }
    if (status == ZT_OK) status = zt_gguf_put_str(import->writer, key, joined.data ? joined.data : "", joined.len);
    zt_str_fini(&joined);
    return status;
}

zt_status zt_hf_put_card(hf_import *import)
{
    size_t size;
    zt_status status = ZT_OK;
    struct stat info;
    const char *path = zt_hf_file(import, "README.md");
    if (path && (stat(path, &info) != 0 || !S_ISREG(info.st_mode))) return ZT_OK;
    char *text = path ? zt_read_all(import->ctx, path, &size) : NULL;
    if (!text) return zt_ctx_status(import->ctx);
    for (size_t i = 0; status == ZT_OK && i < sizeof rows / sizeof *rows; i++) {
        card_texts texts = {.count = 0};
        for (const char *name = rows[i].names; *name && (rows[i].list || texts.count == 0);) {
            size_t length = strcspn(name, "|");
            find_entry((zt_bytes){text, size}, name, length, &texts);
            name += length + (name[length] == '|');
        }
        if (texts.count) status = put_row(import, &rows[i], &texts);
        while (texts.count) json_decref(texts.one[--texts.count]);
    }
    zt_free(import->ctx, text);
    return status;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status write_list(hf_export *export, const char *key, int64_t count, zt_str *out)
{
    zt_bytes all[MOST];
    zt_status status = ZT_OK;
    if (count > MOST || !zt_gguf_array_strs(export->gguf, key, all, count)) return ZT_OK;
    for (int64_t i = 0; status == ZT_OK && i < count; i++) {
        status = zt_str_puts(out, "\n- ");
        if (status == ZT_OK) status = zt_str_put_json(out, all[i].data, all[i].n);
    }
    return status;
}

zt_status zt_export_card(hf_export *export)
{
    zt_str out;
    bool any = false;
    zt_str_init(&out, export->ctx);
    zt_status status = zt_str_puts(&out, "---\n");
    for (size_t i = 0; status == ZT_OK && i < sizeof rows / sizeof *rows; i++) {
        char key[64];
        zt_bytes text;
        zt_gguf_kind element_kind;
        int64_t count;
        snprintf(key, sizeof key, "general.%s", rows[i].key);
        bool one = zt_gguf_str(export->gguf, key, &text);
        if (!one && !(zt_gguf_array(export->gguf, key, &element_kind, &count) && element_kind == ZT_GGUF_STR && count > 0))
            continue;
        status = zt_str_printf(&out, "%.*s: ", (int)strcspn(rows[i].names, "|"), rows[i].names);
        if (status == ZT_OK) status = one ? zt_str_put_json(&out, text.data, text.n) : write_list(export, key, count, &out);
        if (status == ZT_OK) status = zt_str_putc(&out, '\n');
        any = true;
    }
    if (status == ZT_OK) status = zt_str_puts(&out, "---\n");
    if (status == ZT_OK && any) status = zt_export_file(export, "README.md", out.data, out.len);
    zt_str_fini(&out);
    return status;
}
