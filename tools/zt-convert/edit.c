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
static zt_status put_f32(zt_str *out, const char *bytes)
{
    float value;
    char text[40];
    memcpy(&value, bytes, sizeof value);
    if (!isfinite(value)) return zt_str_put_double(out, (double)value);
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return zt_str_puts(out, text);
}

static zt_status put_number(zt_str *out, zt_gguf_kind kind, const char *bytes)
{
    uint64_t bits = 0;
    double real;
    size_t width = width_of(kind);
    memcpy(&bits, bytes, width);
    switch (kind) {
    case ZT_GGUF_F32: return put_f32(out, bytes);
    case ZT_GGUF_F64: memcpy(&real, bytes, sizeof real); return zt_str_put_double(out, real);
    case ZT_GGUF_BOOL: return zt_str_puts(out, bits ? "true" : "false");
    case ZT_GGUF_I8:
    case ZT_GGUF_I16:
    case ZT_GGUF_I32:
    case ZT_GGUF_I64:
        if (width < 8 && bits >> (8 * width - 1)) bits |= UINT64_MAX << 8 * width;
        return zt_str_printf(out, "%" PRId64, (int64_t)bits);
    default: return zt_str_printf(out, "%" PRIu64, bits);
    }
}

static zt_status put_array(zt_str *out, const zt_meta_item *item, bool brief)
{
    enum { BRIEF = 60 };
    zt_gguf_kind kind;
    uint64_t count;
    size_t position = 0, start = out->len;
    zt_meta_array(item, &kind, &count);
    zt_status status = zt_str_putc(out, '[');
    for (uint64_t i = 0; status == ZT_OK && i < count; i++) {
        zt_str_puts(out, i ? ", " : "");
        if (brief && out->len - start > BRIEF) {
            status = zt_str_puts(out, "...");
            break;
        }
        if (kind == ZT_GGUF_STR) {
            zt_bytes text = zt_meta_next_str(item, &position);
            status = zt_str_put_json(out, text.data, text.n);
        } else {
            status = put_number(out, kind, item->value + 12 + i * width_of(kind));
        }
    }
    return status == ZT_OK ? zt_str_putc(out, ']') : status;
}

zt_status put_value(zt_str *out, const zt_meta_item *item, bool brief)
{
    enum { BRIEF = 200 };
    zt_bytes text = zt_meta_text(item);
    if (item->kind == ZT_GGUF_ARRAY) return put_array(out, item, brief);
    if (!text.data) return put_number(out, item->kind, item->value);
    if (!brief || text.n <= BRIEF) return zt_str_put(out, text.data, text.n);
    size_t length = BRIEF;
    while (length && ((unsigned char)text.data[length] & 0xC0) == 0x80) length--;
    zt_str_put(out, text.data, length);
    return zt_str_puts(out, "...");
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
    int64_t number;
    uint64_t bits;
    double real;
    float single;
    if (kind == ZT_GGUF_BOOL) {
        value[0] = strcmp(text, "true") == 0;
        return value[0] || strcmp(text, "false") == 0;
    }
    if (kind == ZT_GGUF_F32 || kind == ZT_GGUF_F64) {
        bool parsed = zt_parse_double(text, &real);
        single = parsed ? (float)real : 0;
        memcpy(value, kind == ZT_GGUF_F32 ? (void *)&single : (void *)&real, width);
        return parsed;
    }
    if (kind == ZT_GGUF_U64 && parse_u64(text, &bits)) {
        memcpy(value, &bits, 8);
        return true;
    }
    if (!zt_parse_i64(text, &number)) return false;
    memcpy(value, &number, 8);
    bool is_signed = kind == ZT_GGUF_I8 || kind == ZT_GGUF_I16 || kind == ZT_GGUF_I32;
    if (kind == ZT_GGUF_I64) return true;
    if (is_signed) return number >= -(INT64_C(1) << (8 * width - 1)) && number < INT64_C(1) << (8 * width - 1);
    return number >= 0 && width < 8 && number < INT64_C(1) << 8 * width;
}

/* "u32:7": the kind, and what is behind it. */
static bool named_kind(const char **text, zt_gguf_kind *kind)
{
    const char *colon = strchr(*text, ':');
    for (zt_gguf_kind candidate = ZT_GGUF_U8; colon && candidate <= ZT_GGUF_F64; candidate++) {
        const char *name = zt_gguf_kind_name(candidate);
        if (candidate == ZT_GGUF_ARRAY || strlen(name) != (size_t)(colon - *text) || strncmp(name, *text, strlen(name)) != 0)
            continue;
        *kind = candidate;
        *text = colon + 1;
        return true;
    }
    return false;
}

/* What a text looks like where nothing else says it. */
static zt_gguf_kind likely_kind(const char *text)
{
    static const zt_gguf_kind order[] = {ZT_GGUF_BOOL, ZT_GGUF_U32, ZT_GGUF_I32, ZT_GGUF_I64, ZT_GGUF_U64, ZT_GGUF_F32};
    char value[8];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (parse_number(text, order[i], value)) return order[i];
    return ZT_GGUF_STR;
}

static zt_status fail_value(convert_job *job, const char *key, const char *text, zt_gguf_kind kind)
{
    char shown_text[160], shown_key[160];
    return zt_fail(job->ctx, ZT_EUSAGE, "option '--set': value '%s' of key '%s' is not a valid %s",
                   zt_escape(shown_text, sizeof shown_text, text, strlen(text)),
                   zt_escape(shown_key, sizeof shown_key, key, strlen(key)), zt_gguf_kind_name(kind));
}

/* "[1, 2]": numbers or words, cut at commas; strings with a comma are not written so. */
static zt_status set_array(convert_job *job, const char *key, char *text, zt_gguf_kind kind, bool known)
{
    zt_str record;
    uint32_t number = 0;
    uint64_t count = 0;
    zt_str_init(&record, job->ctx);
    zt_status status = zt_str_put(&record, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
    for (char *item = strtok(text, ","); status == ZT_OK && item; item = strtok(NULL, ","), count++) {
        char value[8];
        while (*item == ' ') item++;
        if (!known) {
            kind = likely_kind(item);
            known = true;
        }
        uint64_t length = strlen(item);
        if (kind == ZT_GGUF_STR) status = zt_str_put(&record, &length, 8);
        if (kind != ZT_GGUF_STR && !parse_number(item, kind, value))
            status = fail_value(job, key, item, kind);
        else if (status == ZT_OK)
            status = kind == ZT_GGUF_STR ? zt_str_put(&record, item, (size_t)length) : zt_str_put(&record, value, width_of(kind));
    }
    if (status == ZT_OK) {
        number = known ? (uint32_t)kind : (uint32_t)ZT_GGUF_STR;
        memcpy(record.data, &number, 4);
        memcpy(record.data + 4, &count, 8);
        status = zt_meta_put(job->meta, key, ZT_GGUF_ARRAY, record.data, record.len);
    }
    zt_str_fini(&record);
    return status;
}

/* Of the kind named, else of the kind that the key has, else of what it looks like. */
static zt_status set_key(convert_job *job, const char *key, char *text)
{
    char value[8];
    const char *value_text = text;
    zt_gguf_kind kind = ZT_GGUF_STR;
    uint64_t count;
    int64_t index = zt_meta_find(job->meta, key);
    const zt_meta_item *item = index >= 0 ? zt_meta_get(job->meta, index) : NULL;
    bool named = named_kind(&value_text, &kind);
    size_t length = strlen(value_text);
    bool listed = length >= 2 && value_text[0] == '[' && value_text[length - 1] == ']';
    if (listed && (named || !item || item->kind != ZT_GGUF_STR)) {
        bool known = named || (item && zt_meta_array(item, &kind, &count));
        text[value_text - text + (ptrdiff_t)length - 1] = '\0';
        return set_array(job, key, text + (value_text - text) + 1, kind, known);
    }
    if (!named && item && item->kind != ZT_GGUF_ARRAY)
        kind = item->kind;
    else if (!named)
        kind = likely_kind(value_text);
    if (kind == ZT_GGUF_STR) return zt_meta_put_str(job->meta, key, value_text, length);
    if (!parse_number(value_text, kind, value)) return fail_value(job, key, value_text, kind);
    return zt_meta_put(job->meta, key, kind, value, width_of(kind));
}

static zt_status apply_rule(convert_job *job, const char *rule)
{
    const char *equal = strchr(rule, '=');
    char text[160];
    if (!equal || equal == rule)
        return zt_fail(job->ctx, ZT_EUSAGE, "option '--set': '%s' is not KEY=VALUE",
                       zt_escape(text, sizeof text, rule, strlen(rule)));
    char *key = zt_arena_strndup(job->texts, rule, (size_t)(equal - rule));
    char *value = zt_arena_strndup(job->texts, equal + 1, strlen(equal + 1));
    return key && value ? set_key(job, key, value) : ZT_ENOMEM;
}

static void unset_keys(convert_job *job, const char *glob)
{
    char text[160];
    int64_t count = zt_meta_count(job->meta);
    for (int64_t i = count - 1; i >= 0; i--)
        if (glob_matches(glob, zt_meta_get(job->meta, i)->key.data)) zt_meta_remove(job->meta, i);
    if (zt_meta_count(job->meta) == count)
        zt_cli_note(job->cli, "no key matches '%s'", zt_escape(text, sizeof text, glob, strlen(glob)));
}

/* ---- what else changes ----------------------------------------------------------------------- */

/* general.file_type of ggml, where the file has one: 0 f32, 1 f16, 32 bf16. */
static zt_status set_file_type(convert_job *job)
{
    static const struct {
        const char *dtype;
        uint32_t number;
    } types[] = {{"f32", 0}, {"f16", 1}, {"bf16", 32}};
    static const char key[] = "general.file_type";
    for (size_t i = 0; job->options->dtype && i < sizeof types / sizeof *types; i++)
        if (strcmp(job->options->dtype, types[i].dtype) == 0 && zt_meta_find(job->meta, key) >= 0)
            return zt_meta_put_u32(job->meta, key, types[i].number);
    return ZT_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Of what, and how. */
static zt_status put_line(convert_job *job, zt_str *out)
{
    const struct {
        const char *name;
        const zt_opt_list *list;
    } lists[] = {{"select", &job->options->select},
                 {"drop", &job->options->drop},
                 {"rename", &job->options->rename},
                 {"set", &job->options->set},
                 {"unset", &job->options->unset}};
    zt_status status = ZT_OK;
    for (int i = 0; status == ZT_OK && i < job->input_count; i++)
        status = zt_str_printf(out, i ? " %s" : "%s", base_name(job->paths[i]));
    if (status == ZT_OK && job->options->dtype) status = zt_str_printf(out, " --dtype %s", job->options->dtype);
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (int i = 0; status == ZT_OK && i < lists[k].list->n; i++)
            status = zt_str_printf(out, " --%s %s", lists[k].name, lists[k].list->item[i]);
    return status;
}

static zt_status put_history(convert_job *job)
{
    zt_str line;
    zt_str_init(&line, job->ctx);
    zt_status status = put_line(job, &line);
    if (status == ZT_OK) status = zt_cli_history(job->cli, job->meta, line.data);
    zt_str_fini(&line);
    return status;
}

zt_status job_edit(convert_job *job)
{
    for (int i = 0; i < job->options->unset.n; i++) unset_keys(job, job->options->unset.item[i]);
    zt_status status = set_file_type(job);
    for (int i = 0; status == ZT_OK && i < job->options->set.n; i++) status = apply_rule(job, job->options->set.item[i]);
    /* An edit in place says no more than it was told, so that it may fit where it is. */
    return status == ZT_OK && job->output_path && !job->options->no_history ? put_history(job) : status;
}
