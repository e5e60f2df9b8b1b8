/* attrs.h - a golden op's attributes as those of the one row that it is spelled as. */
#ifndef ZT_SPELL_ATTRS_H
#define ZT_SPELL_ATTRS_H

#include "tests/ops/spell/spell.h"

static bool set_attr(const zt_opinfo *info, const char *name, const json_t *value, char *attrs)
{
    for (int k = 0; k < info->n_attrs; k++) {
        const zt_attrdef *a = &info->attrs[k];
        if (strcmp(a->name, name)) continue;
        double d = json_number(value);
        int64_t i = (int64_t)d;
        zt_dims dims = {.n = (int64_t)json_array_size(value)};
        zt_enum_string word = {{0}};
        for (int64_t j = 0; j < dims.n && j < ZT_MAX_RANK; j++)
            dims.dim[j] = json_integer_value(json_array_get(value, (size_t)j));
        if (json_string_value(value)) snprintf(word.s, sizeof word.s, "%s", json_string_value(value));
        if (a->kind == ZT_ATTR_f64) memcpy(attrs + a->offset, &d, sizeof d);
        if (a->kind == ZT_ATTR_i64) memcpy(attrs + a->offset, &i, sizeof i);
        if (a->kind == ZT_ATTR_dims) memcpy(attrs + a->offset, &dims, sizeof dims);
        zt_ints ints = json_is_array(value) ? (zt_ints){.n = dims.n} : (zt_ints){1, {i}};
        if (json_is_array(value)) memcpy(ints.v, dims.dim, sizeof ints.v);
        if (a->kind == ZT_ATTR_ints) memcpy(attrs + a->offset, &ints, sizeof ints);
        if (a->kind == ZT_ATTR_word) memcpy(attrs + a->offset, &word, sizeof word);
        return true;
    }
    return false;
}

/* "c:by" among the renames of a spelling. */
static const char *renamed(const spelling *s, const char *name, char *buf, size_t room)
{
    size_t length = strlen(name);
    for (const char *at = s->attrs; at && *at; at += strcspn(at, " "), at += *at == ' ')
        if (!strncmp(at, name, length) && at[length] == ':') {
            snprintf(buf, room, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
            return buf;
        }
    return name;
}

static bool read_attrs(const spelling *s, const json_t *given, char *attrs)
{
    const zt_opinfo *info = zt_op_info(s->op);
    const char *key;
    char name[64], word[64];
    json_t *value;
    bool good = true;
    memcpy(attrs, info->defaults, info->attr_bytes);
    json_object_foreach((json_t *)given, key, value) good &= set_attr(info, renamed(s, key, name, sizeof name), value, attrs);
    if (s->fixed && sscanf(s->fixed, "%63[^=]=%63s", name, word) == 2) {
        char *end;
        double d = strtod(word, &end);
        value = *end ? json_string(word) : json_real(d);
        good &= set_attr(info, name, value, attrs);
        json_decref(value);
    }
    return good;
}

#endif
