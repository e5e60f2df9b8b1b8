/* edit.c - metadata changed by the command line, and shown as text. */
#include "tools/zt-convert/convert.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values as text -------------------------------------------------------------------------- */

/* Bytes of a value of fixed size; 0: it has none. */
static size_t width_of(zt_gguf_kind kind)
{
    static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return (unsigned)kind < sizeof width ? width[kind] : 0;
}

/* The shortest decimal that reads back as the same float. */
static zt_status put_f32(zt_str *s, const char *p)
{
    float f;
    char text[40];
    memcpy(&f, p, sizeof f);
    if (!isfinite(f)) return zt_str_put_double(s, (double)f);
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        if (strtof(text, NULL) == f) break;
    }
    return zt_str_puts(s, text);
}

static zt_status put_number(zt_str *s, zt_gguf_kind kind, const char *p)
{
    uint64_t u = 0;
    double d;
    size_t width = width_of(kind);
    memcpy(&u, p, width);
    switch (kind) {
    case ZT_GGUF_F32: return put_f32(s, p);
    case ZT_GGUF_F64: memcpy(&d, p, sizeof d); return zt_str_put_double(s, d);
    case ZT_GGUF_BOOL: return zt_str_puts(s, u ? "true" : "false");
    case ZT_GGUF_I8:
    case ZT_GGUF_I16:
    case ZT_GGUF_I32:
    case ZT_GGUF_I64:
        if (width < 8 && u >> (8 * width - 1)) u |= UINT64_MAX << 8 * width;
        return zt_str_printf(s, "%" PRId64, (int64_t)u);
    default: return zt_str_printf(s, "%" PRIu64, u);
    }
}

static zt_status put_array(zt_str *s, const zt_meta_item *item, bool brief)
{
    enum { BRIEF = 60 };
    zt_gguf_kind kind;
    uint64_t n;
    size_t at = 0, from = s->len;
    zt_meta_array(item, &kind, &n);
    zt_status st = zt_str_putc(s, '[');
    for (uint64_t i = 0; st == ZT_OK && i < n; i++) {
        zt_str_puts(s, i ? ", " : "");
        if (brief && s->len - from > BRIEF) {
            st = zt_str_puts(s, "...");
            break;
        }
        if (kind == ZT_GGUF_STR) {
            zt_bytes text = zt_meta_next_str(item, &at);
            st = zt_str_put_json(s, text.data, text.n);
        } else {
            st = put_number(s, kind, item->value + 12 + i * width_of(kind));
        }
    }
    return st == ZT_OK ? zt_str_putc(s, ']') : st;
}

zt_status put_value(zt_str *s, const zt_meta_item *item, bool brief)
{
    enum { BRIEF = 200 };
    zt_bytes text = zt_meta_text(item);
    if (item->kind == ZT_GGUF_ARRAY) return put_array(s, item, brief);
    if (!text.data) return put_number(s, item->kind, item->value);
    if (!brief || text.n <= BRIEF) return zt_str_put(s, text.data, text.n);
    size_t n = BRIEF;
    while (n && ((unsigned char)text.data[n] & 0xC0) == 0x80) n--;
    zt_str_put(s, text.data, n);
    return zt_str_puts(s, "...");
}

/* ---- text as values -------------------------------------------------------------------------- */

static bool parse_u64(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

/* A number of that kind, as a file holds it. */
static bool parse_number(const char *text, zt_gguf_kind kind, char value[8])
{
    size_t width = width_of(kind);
    int64_t i;
    uint64_t u;
    double d;
    float f;
    if (kind == ZT_GGUF_BOOL) {
        value[0] = strcmp(text, "true") == 0;
        return value[0] || strcmp(text, "false") == 0;
    }
    if (kind == ZT_GGUF_F32 || kind == ZT_GGUF_F64) {
        bool is = zt_parse_double(text, &d);
        f = is ? (float)d : 0;
        memcpy(value, kind == ZT_GGUF_F32 ? (void *)&f : (void *)&d, width);
        return is;
    }
    if (kind == ZT_GGUF_U64 && parse_u64(text, &u)) {
        memcpy(value, &u, 8);
        return true;
    }
    if (!zt_parse_i64(text, &i)) return false;
    memcpy(value, &i, 8);
    bool is_signed = kind == ZT_GGUF_I8 || kind == ZT_GGUF_I16 || kind == ZT_GGUF_I32;
    if (kind == ZT_GGUF_I64) return true;
    if (is_signed)
        return i >= -(INT64_C(1) << (8 * width - 1)) && i < INT64_C(1) << (8 * width - 1);
    return i >= 0 && width < 8 && i < INT64_C(1) << 8 * width;
}

/* "u32:7": the kind, and what is behind it. */
static bool named_kind(const char **text, zt_gguf_kind *kind)
{
    const char *colon = strchr(*text, ':');
    for (zt_gguf_kind k = ZT_GGUF_U8; colon && k <= ZT_GGUF_F64; k++) {
        const char *name = zt_gguf_kind_name(k);
        if (k == ZT_GGUF_ARRAY || strlen(name) != (size_t)(colon - *text) ||
            strncmp(name, *text, strlen(name)) != 0)
            continue;
        *kind = k;
        *text = colon + 1;
        return true;
    }
    return false;
}

/* What a text looks like where nothing else says it. */
static zt_gguf_kind likely_kind(const char *text)
{
    static const zt_gguf_kind order[] = {ZT_GGUF_BOOL, ZT_GGUF_U32, ZT_GGUF_I32,
                                         ZT_GGUF_I64,  ZT_GGUF_U64, ZT_GGUF_F32};
    char value[8];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (parse_number(text, order[i], value)) return order[i];
    return ZT_GGUF_STR;
}

static zt_status bad_value(job *j, const char *key, const char *text, zt_gguf_kind kind)
{
    char a[160], b[160];
    return zt_fail(j->ctx, ZT_EUSAGE, "option '--set': '%s' of key '%s' is no %s",
                   zt_escape(a, sizeof a, text, strlen(text)),
                   zt_escape(b, sizeof b, key, strlen(key)), zt_gguf_kind_name(kind));
}

/* "[1, 2]": numbers or words, cut at commas; strings with a comma are not written so. */
static zt_status set_array(job *j, const char *key, char *text, zt_gguf_kind kind, bool known)
{
    zt_str s;
    uint32_t number = 0;
    uint64_t n = 0;
    zt_str_init(&s, j->ctx);
    zt_status st = zt_str_put(&s, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
    for (char *item = strtok(text, ","); st == ZT_OK && item; item = strtok(NULL, ","), n++) {
        char value[8];
        while (*item == ' ') item++;
        if (!known) {
            kind = likely_kind(item);
            known = true;
        }
        uint64_t length = strlen(item);
        if (kind == ZT_GGUF_STR) st = zt_str_put(&s, &length, 8);
        if (kind != ZT_GGUF_STR && !parse_number(item, kind, value))
            st = bad_value(j, key, item, kind);
        else if (st == ZT_OK)
            st = kind == ZT_GGUF_STR ? zt_str_put(&s, item, (size_t)length)
                                     : zt_str_put(&s, value, width_of(kind));
    }
    if (st == ZT_OK) {
        number = known ? (uint32_t)kind : (uint32_t)ZT_GGUF_STR;
        memcpy(s.data, &number, 4);
        memcpy(s.data + 4, &n, 8);
        st = zt_meta_put(j->meta, key, ZT_GGUF_ARRAY, s.data, s.len);
    }
    zt_str_fini(&s);
    return st;
}

/* Of the kind named, else of the kind that the key has, else of what it looks like. */
static zt_status set_key(job *j, const char *key, char *text)
{
    char value[8];
    const char *rest = text;
    zt_gguf_kind kind = ZT_GGUF_STR;
    uint64_t n;
    int64_t i = zt_meta_find(j->meta, key);
    const zt_meta_item *item = i >= 0 ? zt_meta_get(j->meta, i) : NULL;
    bool named = named_kind(&rest, &kind);
    size_t length = strlen(rest);
    bool listed = length >= 2 && rest[0] == '[' && rest[length - 1] == ']';
    if (listed && (named || !item || item->kind != ZT_GGUF_STR)) {
        bool known = named || (item && zt_meta_array(item, &kind, &n));
        text[rest - text + (ptrdiff_t)length - 1] = '\0';
        return set_array(j, key, text + (rest - text) + 1, kind, known);
    }
    if (!named && item && item->kind != ZT_GGUF_ARRAY)
        kind = item->kind;
    else if (!named)
        kind = likely_kind(rest);
    if (kind == ZT_GGUF_STR) return zt_meta_put_str(j->meta, key, rest, length);
    if (!parse_number(rest, kind, value)) return bad_value(j, key, rest, kind);
    return zt_meta_put(j->meta, key, kind, value, width_of(kind));
}

static zt_status set_one(job *j, const char *rule)
{
    const char *equal = strchr(rule, '=');
    char text[160];
    if (!equal || equal == rule)
        return zt_fail(j->ctx, ZT_EUSAGE, "option '--set': '%s' is not KEY=VALUE",
                       zt_escape(text, sizeof text, rule, strlen(rule)));
    char *key = zt_arena_strndup(j->texts, rule, (size_t)(equal - rule));
    char *value = zt_arena_strndup(j->texts, equal + 1, strlen(equal + 1));
    return key && value ? set_key(j, key, value) : ZT_ENOMEM;
}

static void unset(job *j, const char *glob)
{
    char text[160];
    int64_t n = zt_meta_count(j->meta);
    for (int64_t i = n - 1; i >= 0; i--)
        if (glob_matches(glob, zt_meta_get(j->meta, i)->key.data)) zt_meta_remove(j->meta, i);
    if (zt_meta_count(j->meta) == n)
        zt_cli_note(j->cli, "there is no key '%s'",
                    zt_escape(text, sizeof text, glob, strlen(glob)));
}

/* ---- what else changes ----------------------------------------------------------------------- */

/* general.file_type of ggml, where the file has one: 0 f32, 1 f16, 32 bf16. */
static zt_status set_file_type(job *j)
{
    static const struct {
        const char *dtype;
        uint32_t number;
    } types[] = {{"f32", 0}, {"f16", 1}, {"bf16", 32}};
    static const char key[] = "general.file_type";
    for (size_t i = 0; j->o->dtype && i < sizeof types / sizeof *types; i++)
        if (strcmp(j->o->dtype, types[i].dtype) == 0 && zt_meta_find(j->meta, key) >= 0)
            return zt_meta_put_u32(j->meta, key, types[i].number);
    return ZT_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Of what, and how. */
static zt_status put_line(job *j, zt_str *s)
{
    const struct {
        const char *name;
        const zt_opt_list *list;
    } lists[] = {{"select", &j->o->select},
                 {"drop", &j->o->drop},
                 {"rename", &j->o->rename},
                 {"set", &j->o->set},
                 {"unset", &j->o->unset}};
    zt_status st = ZT_OK;
    for (int i = 0; st == ZT_OK && i < j->n_in; i++)
        st = zt_str_printf(s, i ? " %s" : "%s", base_name(j->path[i]));
    if (st == ZT_OK && j->o->dtype) st = zt_str_printf(s, " --dtype %s", j->o->dtype);
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (int i = 0; st == ZT_OK && i < lists[k].list->n; i++)
            st = zt_str_printf(s, " --%s %s", lists[k].name, lists[k].list->item[i]);
    return st;
}

static zt_status put_history(job *j)
{
    zt_str line;
    zt_str_init(&line, j->ctx);
    zt_status st = put_line(j, &line);
    if (st == ZT_OK) st = zt_cli_history(j->cli, j->meta, line.data);
    zt_str_fini(&line);
    return st;
}

zt_status job_edit(job *j)
{
    for (int i = 0; i < j->o->unset.n; i++) unset(j, j->o->unset.item[i]);
    zt_status s = set_file_type(j);
    for (int i = 0; s == ZT_OK && i < j->o->set.n; i++) s = set_one(j, j->o->set.item[i]);
    /* An edit in place says no more than it was told, so that it may fit where it is. */
    return s == ZT_OK && j->out && !j->o->no_history ? put_history(j) : s;
}
