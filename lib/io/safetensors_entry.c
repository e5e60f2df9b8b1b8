/* safetensors_entry.c - owns one tensor's entry of a safetensors header: what it says, and whether
 * that can be so.
 *
 * A header has up to a million of them, written by machines in one form: {"dtype":"F32","shape":
 * [2,3],"data_offsets":[0,24]}, the members in any order, with white space or without. What is of
 * that form is scanned. All else is walked member by member: the three that mean something are given
 * to jansson, which knows what they say, and others are checked to be JSON and passed over, as the
 * reference reader does. Both ways end in the same checks. */
#include "lib/io/fault.h"
#include "lib/io/json.h"
#include "lib/io/safetensors_file.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_VALUE = 4096,         /* bytes of a member that means something */
    MAX_RANK = MAX_VALUE / 2, /* a dimension takes a digit and a comma */
    MAX_DEPTH = 125,          /* of what is passed over: the reference reader's, less two objects */
    MAX_DIGITS = 18           /* of a number that is scanned: it is below 2^63 */
};

/* ---- dtypes ---------------------------------------------------------------------------------- */

typedef struct st_dtype {
    const char *name;
    int bits;
    zt_dtype dtype; /* ZT_DTYPE_COUNT: zt does not compute with it */
} st_dtype;

/* Dtype of safetensors 0.8 (src/tensor.rs), as facts. */
static const st_dtype dtypes[] = {
    {"F64", 64, ZT_F64},
    {"F32", 32, ZT_F32},
    {"F16", 16, ZT_F16},
    {"BF16", 16, ZT_BF16},
    {"I64", 64, ZT_I64},
    {"I32", 32, ZT_I32},
    {"I16", 16, ZT_I16},
    {"I8", 8, ZT_I8},
    {"U8", 8, ZT_U8},
    {"BOOL", 8, ZT_BOOL},
    {"U16", 16, ZT_U16},
    {"U32", 32, ZT_U32},
    {"U64", 64, ZT_U64},
    {"C64", 64, ZT_DTYPE_COUNT},
    {"F8_E4M3", 8, ZT_F8_E4M3},
    {"F8_E5M2", 8, ZT_F8_E5M2},
    {"F8_E8M0", 8, ZT_F8_E8M0},
    {"F8_E4M3FNUZ", 8, ZT_F8_E4M3FNUZ},
    {"F8_E5M2FNUZ", 8, ZT_F8_E5M2FNUZ},
    {"F6_E2M3", 6, ZT_DTYPE_COUNT},
    {"F6_E3M2", 6, ZT_DTYPE_COUNT},
    {"F4", 4, ZT_F4_E2M1},
};

static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

static const st_dtype *dtype_named(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (is_word(name, n, dtypes[i].name))
            return &dtypes[i];
    return NULL;
}

const char *zt_safetensors_word(zt_dtype t)
{
    for (size_t i = 0; t < ZT_DTYPE_COUNT && i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == t)
            return dtypes[i].name;
    return NULL;
}

bool zt_safetensors_has_word(const char *word)
{
    return dtype_named(word, strlen(word)) != NULL;
}

/* What an entry says. */
typedef struct said {
    const st_dtype *dtype;
    size_t rank;
    int64_t dim[MAX_RANK]; /* none is negative */
    int64_t at[2];         /* in the data: the first byte, and the one behind the last; likewise */
} said;

/* ---- scanned --------------------------------------------------------------------------------- */

typedef struct cursor {
    const char *p, *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\r' || *c->p == '\t'))
        c->p++;
}

/* Is `wanted` next, after white space? Then it is passed. */
static bool take(cursor *c, char wanted)
{
    skip_space(c);
    if (c->p == c->end || *c->p != wanted)
        return false;
    c->p++;
    return true;
}

/* What is between quotes, as it is written. */
static bool take_word(cursor *c, const char **word, size_t *n)
{
    if (!take(c, '"'))
        return false;
    const char *quote = memchr(c->p, '"', (size_t)(c->end - c->p));
    if (!quote)
        return false;
    *word = c->p;
    *n = (size_t)(quote - c->p);
    c->p = quote + 1;
    return true;
}

/* Digits, of which no zero is the first of several. */
static bool take_count(cursor *c, int64_t *v)
{
    skip_space(c);
    const char *from = c->p;
    for (*v = 0; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
        if (c->p - from == MAX_DIGITS)
            return false;
        *v = 10 * *v + (*c->p - '0');
    }
    return c->p > from && (*from != '0' || c->p == from + 1);
}

/* A list of `most` counts or fewer. */
static bool take_counts(cursor *c, int64_t *list, size_t most, size_t *n)
{
    *n = 0;
    if (!take(c, '['))
        return false;
    if (take(c, ']'))
        return true;
    do {
        if (*n == most || !take_count(c, &list[*n]))
            return false;
        ++*n;
    } while (take(c, ','));
    return take(c, ']');
}

static bool take_dtype(cursor *c, said *e)
{
    const char *word;
    size_t n;
    return take_word(c, &word, &n) && (e->dtype = dtype_named(word, n)) != NULL;
}

static bool take_shape(cursor *c, said *e) { return take_counts(c, e->dim, MAX_RANK, &e->rank); }

static bool take_offsets(cursor *c, said *e)
{
    size_t n;
    return take_counts(c, e->at, 2, &n) && n == 2;
}

static const struct {
    const char *name;
    bool (*take)(cursor *c, said *e);
} members[] = {
    {"dtype", take_dtype}, {"shape", take_shape}, {"data_offsets", take_offsets}};

enum { N_MEMBERS = sizeof members / sizeof *members };

static size_t member_named(const char *word, size_t n)
{
    size_t i = 0;
    while (i < N_MEMBERS && !is_word(word, n, members[i].name))
        i++;
    return i;
}

/* false: not of that form. */
static bool scan(const char *text, size_t n, said *e)
{
    cursor c = {.p = text, .end = text + n};
    bool seen[N_MEMBERS] = {false};
    if (!take(&c, '{'))
        return false;
    for (size_t k = 0; k < N_MEMBERS; k++) {
        const char *word;
        size_t length;
        if ((k && !take(&c, ',')) || !take_word(&c, &word, &length))
            return false;
        size_t i = member_named(word, length);
        if (i == N_MEMBERS || seen[i] || !take(&c, ':') || !members[i].take(&c, e))
            return false;
        seen[i] = true;
    }
    return take(&c, '}') && c.p == c.end;
}

/* ---- walked: as any JSON ----------------------------------------------------------------------------- */

zt_status zt_st_amiss(const st_parser *p, const char *name, const char *fmt, ...)
{
    char what[256], text[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return zt_faults_tell(p->s->ctx, "%s: tensor '%s': %s", p->file,
                          zt_escape(text, sizeof text, name, strlen(name)), what);
}

/* The entry says nothing that could be used: without it one can go on. */
#define unfit(...) (zt_st_amiss(__VA_ARGS__) == ZT_OK ? ZT_ENOENT : ZT_EDATA)

static bool is_count(const json_t *v) { return json_is_integer(v) && json_integer_value(v) >= 0; }

/* A document of MAX_VALUE bytes has no list that is longer than MAX_RANK. */
static zt_status shape_of(const st_parser *p, const char *name, const json_t *shape, said *e)
{
    e->rank = json_array_size(shape);
    if (!json_is_array(shape) || e->rank > MAX_RANK)
        return unfit(p, name, "shape is no list");
    for (size_t i = 0; i < e->rank; i++) {
        const json_t *v = json_array_get(shape, i);
        if (!is_count(v))
            return unfit(p, name, "dimension %zu is no count", i);
        e->dim[i] = json_integer_value(v);
    }
    return ZT_OK;
}

static zt_status offsets_of(const st_parser *p, const char *name, const json_t *list, said *e)
{
    if (json_array_size(list) != 2)
        return unfit(p, name, "data_offsets is no pair of numbers");
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = json_array_get(list, i);
        if (!is_count(v))
            return unfit(p, name, "data_offsets are no counts");
        e->at[i] = json_integer_value(v);
    }
    return ZT_OK;
}

static zt_status dtype_of(const st_parser *p, const char *name, const json_t *v, said *e)
{
    e->dtype = json_is_string(v) ? dtype_named(json_string_value(v), json_string_length(v)) : NULL;
    return e->dtype ? ZT_OK : unfit(p, name, "its dtype is none of the format's");
}

/* In the order of `members`. */
static zt_status (*const said_by[N_MEMBERS])(const st_parser *, const char *, const json_t *,
                                             said *) = {dtype_of, shape_of, offsets_of};

/* An entry on its way through walk(). */
typedef struct entry_walk {
    const st_parser *p;
    const char *name;
    said *e;
    bool seen[N_MEMBERS];
} entry_walk;

/* "-0" is a float to the reference reader, and jansson's 0. */
static bool has_minus(const char *text, size_t n, const json_t *v)
{
    return json_is_array(v) && memchr(text, '-', n);
}

static zt_status read_value(entry_walk *w, size_t member, const char *text, size_t n)
{
    const char *what = members[member].name;
    if (w->seen[member])
        return unfit(w->p, w->name, "'%s' is there twice", what);
    w->seen[member] = true;
    if (n > MAX_VALUE)
        return unfit(w->p, w->name, "'%s' has %zu bytes, %d are allowed", what, n, MAX_VALUE);
    json_t *v = zt_json_load(w->p->s->ctx, w->p->file, text, n);
    zt_status s = !v                       ? zt_ctx_status(w->p->s->ctx)
                  : has_minus(text, n, v) ? unfit(w->p, w->name, "'%s' is not of counts", what)
                                           : said_by[member](w->p, w->name, v, w->e);
    json_decref(v);
    return s;
}

/* Which member the quoted name stands for; N_MEMBERS: for none, or for one with a zero inside. */
static zt_status find_member(const entry_walk *w, const char *text, size_t n, size_t *member)
{
    zt_str key;
    *member = member_named(text + 1, n - 2);
    if (*member < N_MEMBERS || n > MAX_VALUE || !memchr(text, '\\', n))
        return ZT_OK;
    zt_str_init(&key, w->p->s->ctx);
    json_t *v = zt_json_parse(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    zt_status s = zt_str_put(&key, json_string_value(v), json_string_length(v));
    if (s == ZT_OK) *member = member_named(key.data, key.len);
    json_decref(v);
    zt_str_fini(&key);
    return s;
}

static zt_status not_json(const entry_walk *w)
{
    return unfit(w->p, w->name, "not an object of dtype, shape and data_offsets");
}

/* The member at the cursor, past its value. */
static zt_status walk_member(entry_walk *w, cursor *c)
{
    size_t member;
    skip_space(c);
    const char *name = c->p, *colon = NULL;
    if (c->p < c->end && *c->p == '"')
        colon = zt_json_value_end(name, c->end, 0);
    if (!colon)
        return not_json(w);
    c->p = colon;
    if (!take(c, ':'))
        return not_json(w);
    skip_space(c);
    const char *value = c->p, *end = zt_json_value_end(value, c->end, MAX_DEPTH);
    if (!end)
        return not_json(w);
    c->p = end;
    zt_status s = find_member(w, name, (size_t)(colon - name), &member);
    return s == ZT_OK && member < N_MEMBERS ? read_value(w, member, value, (size_t)(end - value))
                                            : s;
}

static zt_status walk(const st_parser *p, const char *name, const char *text, size_t n, said *e)
{
    entry_walk w = {.p = p, .name = name, .e = e};
    cursor c = {.p = text, .end = text + n};
    zt_status s = ZT_OK;
    if (!take(&c, '{'))
        return not_json(&w);
    bool more = !take(&c, '}');
    while (more && s == ZT_OK) {
        s = walk_member(&w, &c);
        more = s == ZT_OK && take(&c, ',');
        if (s == ZT_OK && !more && !take(&c, '}'))
            s = not_json(&w);
    }
    skip_space(&c);
    for (size_t i = 0; i < N_MEMBERS && s == ZT_OK; i++)
        if (!w.seen[i] || c.p != c.end)
            s = not_json(&w);
    return s;
}

/* ---- can it be so? --------------------------------------------------------------------------- */

/* Dimensions into type, and the bytes that they make. */
static zt_status check_shape(const st_parser *p, const char *name, const said *e, zt_type *type,
                             uint64_t *bytes)
{
    int64_t count = 1, bits;
    bool empty = false;
    *type = (zt_type){.dtype = e->dtype->dtype, .rank = e->rank <= ZT_MAX_RANK ? (int)e->rank : -1};
    for (size_t i = 0; i < e->rank; i++) {
        int64_t dim = e->dim[i];
        empty |= dim == 0;
        if (dim && !zt_mul_i64(count, dim, &count))
            return unfit(p, name, "dimension %zu of %lld: too many elements", i, (long long)dim);
        if (i < ZT_MAX_RANK)
            type->dim[i] = dim;
    }
    if (!zt_mul_i64(count, e->dtype->bits, &bits))
        return unfit(p, name, "%lld elements are too many", (long long)count);
    if (!empty && bits % 8 != 0)
        return unfit(p, name, "%lld elements of %d bits are no whole bytes", (long long)count,
                     e->dtype->bits);
    *bytes = empty ? 0 : (uint64_t)bits / 8;
    if (e->dtype->dtype == ZT_DTYPE_COUNT)
        type->rank = -1;
    return ZT_OK;
}

static zt_status check(const st_parser *p, const said *e, st_tensor *t)
{
    const char *name = t->e.name;
    uint64_t bytes = 0, from = (uint64_t)e->at[0], to = (uint64_t)e->at[1];
    zt_status s = check_shape(p, name, e, &t->e.type, &bytes);
    if (s != ZT_OK)
        return s;
    if (from > to || to > p->data_bytes)
        return unfit(p, name, "data from byte %llu to %llu, in %llu bytes of data",
                     (unsigned long long)from, (unsigned long long)to,
                     (unsigned long long)p->data_bytes);
    if (to - from != bytes) {
        s = zt_st_amiss(p, name, "%llu bytes of data, its shape makes %llu",
                        (unsigned long long)(to - from), (unsigned long long)bytes);
        if (s != ZT_OK)
            return s;
        t->e.type.dtype = ZT_DTYPE_COUNT; /* who goes on sees bytes */
    }
    t->e.dtype = e->dtype->name;
    t->e.rank = (int)e->rank;
    t->e.bytes = (size_t)(to - from);
    t->offset = p->data + from;
    t->shard = p->s->n_shards - 1;
    return ZT_OK;
}

zt_status zt_st_entry(const st_parser *p, const char *text, size_t n, st_tensor *t)
{
    said e;
    zt_status s = scan(text, n, &e) ? ZT_OK : walk(p, t->e.name, text, n, &e);
    return s == ZT_OK ? check(p, &e, t) : s;
}
