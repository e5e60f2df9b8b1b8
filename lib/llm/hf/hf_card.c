/* hf_card.c - owns the model card: what README.md's front matter says of a model, and back.
 *
 * Of YAML what cards are written in: between two lines "---", `name: text` from the first column,
 * a list as `[a, b]` or as lines "- a" below; texts plain or in quotes. Anything else is passed
 * over, as is a card that has none. Keys: gguf-py/gguf/metadata.py of llama.cpp, as facts. */
#include "lib/llm/hf/hf_back.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 256 };

typedef struct row {
    const char
        *names;      /* of the card, in order: all of a list's, of a text the first that is there */
    const char *key; /* general.KEY */
    bool list;
} row;

static const row rows[] = {
    {"license", "license", false},
    {"license_name", "license.name", false},
    {"license_link", "license.link", false},
    {"tags|pipeline_tag", "tags", true},
    {"language|languages", "languages", true},
};

typedef struct texts {
    json_t *one[MOST]; /* strings */
    int n;
} texts;

/* ---- reading --------------------------------------------------------------------------------- */

static zt_bytes trim(zt_bytes t)
{
    while (t.n && strchr(" \t\r", t.data[0]))
        t = (zt_bytes){t.data + 1, t.n - 1};
    while (t.n && strchr(" \t\r", t.data[t.n - 1]))
        t.n--;
    return t;
}

/* Up to a comment, which a blank opens. */
static zt_bytes plain(zt_bytes t)
{
    for (size_t i = 0; i < t.n; i++)
        if (t.data[i] == '#' && (i == 0 || t.data[i - 1] == ' '))
            t.n = i;
    return trim(t);
}

static void add_text(texts *out, zt_bytes t)
{
    json_t *v = NULL;
    const char *end;
    t = trim(t);
    if (out->n == MOST || t.n == 0)
        return;
    if (t.n > 1 && t.data[0] == '"')
        v = json_loadb(t.data, t.n, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, NULL);
    else if (t.n > 1 && t.data[0] == '\'' && (end = memchr(t.data + 1, '\'', t.n - 1)))
        v = json_stringn(t.data + 1, (size_t)(end - t.data) - 1);
    else if ((t = plain(t)).n)
        v = json_stringn(t.data, t.n);
    if (json_is_string(v))
        out->one[out->n++] = v;
    else
        json_decref(v);
}

/* "[a, b]" or one text. */
static void add_value(texts *out, zt_bytes t)
{
    t = trim(t);
    if (t.n < 2 || t.data[0] != '[') {
        add_text(out, t);
        return;
    }
    size_t from = 1;
    for (size_t i = 1; i < t.n; i++) {
        if (t.data[i] != ',' && t.data[i] != ']')
            continue;
        add_text(out, (zt_bytes){t.data + from, i - from});
        from = i + 1;
        if (t.data[i] == ']')
            break;
    }
}

static bool next_line(zt_bytes *rest, zt_bytes *line)
{
    if (rest->n == 0)
        return false;
    const char *end = memchr(rest->data, '\n', rest->n);
    size_t n = end ? (size_t)(end - rest->data) : rest->n;
    *line = (zt_bytes){rest->data, n};
    n += end != NULL;
    *rest = (zt_bytes){rest->data + n, rest->n - n};
    return true;
}

static bool is_rule(zt_bytes line)
{
    line = trim(line);
    return line.n == 3 && memcmp(line.data, "---", 3) == 0;
}

/* What the card says under a name. */
static void find(zt_bytes card, const char *name, size_t k, texts *out)
{
    zt_bytes line;
    bool inside = false;
    if (!next_line(&card, &line) || !is_rule(line))
        return;
    while (next_line(&card, &line) && !is_rule(line)) {
        zt_bytes t = trim(line);
        if (inside && t.n > 1 && t.data[0] == '-' && t.data[1] == ' ') {
            add_text(out, (zt_bytes){t.data + 2, t.n - 2});
            continue;
        }
        inside = line.n > k && memcmp(line.data, name, k) == 0 && line.data[k] == ':';
        if (inside)
            add_value(out, (zt_bytes){line.data + k + 1, line.n - k - 1});
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

static zt_status put_row(hf *m, const row *r, const texts *t)
{
    char key[64];
    zt_bytes all[MOST];
    zt_str joined;
    zt_status s = ZT_OK;
    snprintf(key, sizeof key, "general.%s", r->key);
    for (int i = 0; i < t->n; i++)
        all[i] = (zt_bytes){json_string_value(t->one[i]), json_string_length(t->one[i])};
    if (r->list)
        return zt_gguf_put_strs(m->w, key, all, t->n);
    zt_str_init(&joined, m->ctx);
    for (int i = 0; s == ZT_OK && i < t->n; i++) {
        s = i ? zt_str_putc(&joined, ',') : ZT_OK;
        if (s == ZT_OK)
            s = zt_str_put(&joined, all[i].data, all[i].n);
    }
    if (s == ZT_OK)
        s = zt_gguf_put_str(m->w, key, joined.data ? joined.data : "", joined.len);
    zt_str_fini(&joined);
    return s;
}

zt_status zt_hf_put_card(hf *m)
{
    size_t n;
    zt_status s = ZT_OK;
    struct stat st;
    const char *path = zt_hf_file(m, "README.md");
    if (path && (stat(path, &st) != 0 || !S_ISREG(st.st_mode)))
        return ZT_OK;
    char *text = path ? zt_read_all(m->ctx, path, &n) : NULL;
    if (!text)
        return zt_ctx_status(m->ctx);
    for (size_t i = 0; s == ZT_OK && i < sizeof rows / sizeof *rows; i++) {
        texts t = {.n = 0};
        for (const char *p = rows[i].names; *p && (rows[i].list || t.n == 0);) {
            size_t k = strcspn(p, "|");
            find((zt_bytes){text, n}, p, k, &t);
            p += k + (p[k] == '|');
        }
        if (t.n)
            s = put_row(m, &rows[i], &t);
        while (t.n)
            json_decref(t.one[--t.n]);
    }
    zt_free(m->ctx, text);
    return s;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status write_list(hf_back *b, const char *key, int64_t n, zt_str *out)
{
    zt_bytes all[MOST];
    zt_status s = ZT_OK;
    if (n > MOST || !zt_gguf_array_strs(b->g, key, all, n))
        return ZT_OK;
    for (int64_t i = 0; s == ZT_OK && i < n; i++) {
        s = zt_str_puts(out, "\n- ");
        if (s == ZT_OK)
            s = zt_str_put_json(out, all[i].data, all[i].n);
    }
    return s;
}

zt_status zt_back_card(hf_back *b)
{
    zt_str out;
    bool any = false;
    zt_str_init(&out, b->ctx);
    zt_status s = zt_str_puts(&out, "---\n");
    for (size_t i = 0; s == ZT_OK && i < sizeof rows / sizeof *rows; i++) {
        char key[64];
        zt_bytes text;
        zt_gguf_kind elem;
        int64_t n;
        snprintf(key, sizeof key, "general.%s", rows[i].key);
        bool one = zt_gguf_str(b->g, key, &text);
        if (!one && !(zt_gguf_array(b->g, key, &elem, &n) && elem == ZT_GGUF_STR && n > 0))
            continue;
        s = zt_str_printf(&out, "%.*s: ", (int)strcspn(rows[i].names, "|"), rows[i].names);
        if (s == ZT_OK)
            s = one ? zt_str_put_json(&out, text.data, text.n) : write_list(b, key, n, &out);
        if (s == ZT_OK)
            s = zt_str_putc(&out, '\n');
        any = true;
    }
    if (s == ZT_OK)
        s = zt_str_puts(&out, "---\n");
    if (s == ZT_OK && any)
        s = zt_back_write(b, "README.md", out.data, out.len);
    zt_str_fini(&out);
    return s;
}
