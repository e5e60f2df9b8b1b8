/* npy_parse.c - owns reading an .npy header: a strict reader of the one Python literal that it is,
 * {'descr': TEXT, 'fortran_order': True or False, 'shape': TUPLE}, in any order and spacing. */
#include "lib/io/npy_array.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_HEADER = 1 << 16, /* bytes; NumPy itself refuses more than 10000 */
    MAX_DIMS = 64         /* NumPy's own bound */
};

/* ---- dtypes ---------------------------------------------------------------------------------- */

typedef struct np_dtype {
    const char *word; /* kind and bytes */
    size_t item, swap;
    zt_dtype dtype; /* ZT_DTYPE_COUNT: zt does not compute with it */
} np_dtype;

static const np_dtype dtypes[] = {
    {"b1", 1, 1, ZT_BOOL},        {"i1", 1, 1, ZT_I8},
    {"i2", 2, 2, ZT_I16},         {"i4", 4, 4, ZT_I32},
    {"i8", 8, 8, ZT_I64},         {"u1", 1, 1, ZT_U8},
    {"u2", 2, 2, ZT_U16},         {"u4", 4, 4, ZT_U32},
    {"u8", 8, 8, ZT_U64},         {"f2", 2, 2, ZT_F16},
    {"f4", 4, 4, ZT_F32},         {"f8", 8, 8, ZT_F64},
    {"c8", 8, 4, ZT_DTYPE_COUNT}, {"c16", 16, 8, ZT_DTYPE_COUNT},
};

static const np_dtype *dtype_of(const char *word)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(word, dtypes[i].word) == 0)
            return &dtypes[i];
    return NULL;
}

/* ---- the literal ----------------------------------------------------------------------------- */

typedef struct parser {
    zt_ctx *ctx;
    const char *what;
    const char *begin, *p, *end;
    char descr[32];
    bool fortran;
    int rank;
    int64_t dim[MAX_DIMS];
} parser;

static zt_status expected(const parser *s, const char *what)
{
    return zt_fail(s->ctx, ZT_EDATA, "%s: npy header, byte %zu: %s expected", s->what,
                   (size_t)(s->p - s->begin), what);
}

static void skip_space(parser *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
}

static bool take(parser *s, char c)
{
    skip_space(s);
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool take_word(parser *s, const char *word)
{
    size_t n = strlen(word);
    skip_space(s);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

/* 'text' or "text", of fewer than `room` bytes, without escapes. */
static bool take_text(parser *s, char *out, size_t room)
{
    char quote = take(s, '\'') ? '\'' : take(s, '"') ? '"' : 0;
    size_t n = 0;
    for (; quote && s->p < s->end && n + 1 < room; s->p++) {
        if (*s->p == quote || *s->p <= 0x1f || *s->p == '\\')
            break;
        out[n++] = *s->p;
    }
    out[n] = 0;
    bool right = quote && s->p < s->end && *s->p == quote;
    s->p += right;
    return right;
}

static bool is_digit(const parser *s)
{
    return s->p < s->end && *s->p >= '0' && *s->p <= '9';
}

/* A dimension; Python 2 wrote an L behind large ones. */
static bool take_count(parser *s, int64_t *v)
{
    skip_space(s);
    const char *from = s->p;
    *v = 0;
    for (; is_digit(s); s->p++)
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, *s->p - '0', v))
            return false;
    bool right = s->p > from && (*from != '0' || s->p == from + 1);
    if (s->p < s->end && *s->p == 'L')
        s->p++;
    return right;
}

static zt_status read_shape(parser *s)
{
    bool comma = false;
    s->rank = 0;
    if (!take(s, '('))
        return expected(s, "a tuple of dimensions");
    while (!take(s, ')')) {
        if (s->rank == MAX_DIMS)
            return zt_fail(s->ctx, ZT_EDATA, "%s: more than %d dimensions", s->what, MAX_DIMS);
        if ((s->rank && !comma) || !take_count(s, &s->dim[s->rank]))
            return expected(s, "a dimension");
        s->rank++;
        comma = take(s, ',');
    }
    return s->rank != 1 || comma ? ZT_OK : expected(s, "a tuple, not a number,");
}

static zt_status read_order(parser *s)
{
    s->fortran = take_word(s, "True");
    return s->fortran || take_word(s, "False") ? ZT_OK : expected(s, "True or False");
}

static zt_status read_descr(parser *s)
{
    return take_text(s, s->descr, sizeof s->descr) ? ZT_OK : expected(s, "a plain dtype");
}

static zt_status read_dict(parser *s)
{
    static const struct {
        const char *key;
        zt_status (*read)(parser *s);
    } member[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
    bool seen[3] = {false};
    if (!take(s, '{'))
        return expected(s, "a dictionary");
    for (int i = 0; i < 3; i++) {
        char key[16];
        int k = 0;
        if ((i && !take(s, ',')) || !take_text(s, key, sizeof key) || !take(s, ':'))
            return expected(s, "one of 'descr', 'fortran_order', 'shape'");
        while (k < 3 && strcmp(key, member[k].key) != 0)
            k++;
        if (k == 3 || seen[k])
            return expected(s, "each of 'descr', 'fortran_order', 'shape' once");
        seen[k] = true;
        zt_status st = member[k].read(s);
        if (st != ZT_OK)
            return st;
    }
    take(s, ',');
    if (!take(s, '}'))
        return expected(s, "'}'");
    skip_space(s);
    return s->p == s->end ? ZT_OK : expected(s, "nothing more");
}

/* ---- the array ------------------------------------------------------------------------------- */

/* The header's text, and where the data begin. */
static zt_status read_text(zt_ctx *ctx, const char *what, uint64_t size, zt_fetch *fetch,
                           void *user, char **text, size_t *n, uint64_t *data)
{
    uint8_t head[12];
    if (size < 10)
        return zt_fail(ctx, ZT_EDATA, "%s: an npy file of %llu bytes: it is cut", what,
                       (unsigned long long)size);
    zt_status st = fetch(user, 0, head, 10);
    if (st != ZT_OK)
        return st;
    bool wide = head[6] > 1;
    if (memcmp(head, "\x93NUMPY", 6) != 0)
        return zt_fail(ctx, ZT_EDATA, "%s: this is no npy file", what);
    if (head[6] < 1 || head[6] > 3 || head[7])
        return zt_fail(ctx, ZT_EDATA, "%s: npy version %d.%d, there are 1.0 to 3.0", what, head[6],
                       head[7]);
    if (wide && size < 12)
        return zt_fail(ctx, ZT_EDATA, "%s: its npy header is cut", what);
    if (wide && (st = fetch(user, 10, head + 10, 2)) != ZT_OK)
        return st;
    *n = head[8] | (size_t)head[9] << 8;
    if (wide)
        *n |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    *data = (wide ? 12 : 10) + (uint64_t)*n;
    if (*n > MAX_HEADER || *data > size)
        return zt_fail(ctx, ZT_EDATA, "%s: an npy header of %zu bytes, %llu are there", what, *n,
                       (unsigned long long)(size - (wide ? 12 : 10)));
    *text = zt_alloc(ctx, *n);
    return *text ? fetch(user, *data - *n, *text, *n) : ZT_ENOMEM;
}

/* '<' and '=' and none are little endian: what wrote '=' was. */
static zt_status read_dtype(const parser *s, npy_array *a, zt_arena *keep)
{
    bool order = s->descr[0] && strchr("<>=|", s->descr[0]);
    const char *word = s->descr + order;
    const np_dtype *d = dtype_of(word);
    char text[80];
    if (!d && *word && strchr("USmMVOfgGa", *word) && *word != 'f')
        return zt_fail(s->ctx, *word == 'O' ? ZT_EDATA : ZT_ENOTSUP,
                       *word == 'O' ? "%s: an array of Python objects (%s), which are code"
                                    : "%s: dtype '%s' is not supported: only numbers are",
                       s->what, zt_escape(text, sizeof text, s->descr, strlen(s->descr)));
    if (!d || (s->descr[0] == '|' && d->swap > 1))
        return zt_fail(s->ctx, ZT_EDATA, "%s: '%s' is no dtype", s->what,
                       zt_escape(text, sizeof text, s->descr, strlen(s->descr)));
    snprintf(text, sizeof text, "%c%s", d->item == 1 ? '|' : s->descr[0] == '>' ? '>' : '<', word);
    a->e.dtype = zt_arena_strndup(keep, text, strlen(text));
    a->e.type.dtype = d->dtype;
    a->layout.item = d->item;
    a->layout.swap = s->descr[0] == '>' ? d->swap : 1;
    return a->e.dtype ? ZT_OK : ZT_ENOMEM;
}

static zt_status lay_out(const parser *s, npy_array *a, zt_arena *keep)
{
    size_t rank = (size_t)s->rank;
    int64_t *dim = zt_arena_alloc(keep, (rank + 1) * sizeof *dim), step = 1;
    int64_t *stride = zt_arena_alloc(keep, (rank + 1) * sizeof *stride);
    if (!dim || !stride)
        return ZT_ENOMEM;
    memcpy(dim, s->dim, rank * sizeof *dim);
    for (size_t k = 0; k < rank; k++) {
        size_t i = s->fortran ? k : rank - 1 - k;
        stride[i] = step;
        if (dim[i] && !zt_mul_i64(step, dim[i], &step))
            return zt_fail(s->ctx, ZT_EDATA, "%s: dimension %zu of %lld: too many elements",
                           s->what, i, (long long)dim[i]);
    }
    a->e.rank = a->layout.rank = s->rank;
    a->e.dim = a->layout.dim = dim;
    a->layout.stride = stride;
    a->e.type.rank = s->rank <= ZT_MAX_RANK ? s->rank : -1;
    for (int i = 0; i < a->e.type.rank; i++)
        a->e.type.dim[i] = dim[i];
    return ZT_OK;
}

static zt_status finish(parser *s, uint64_t size, zt_arena *keep, npy_array *a)
{
    uint64_t span;
    int64_t count;
    zt_status st = read_dict(s);
    if (st == ZT_OK)
        st = read_dtype(s, a, keep);
    if (st == ZT_OK)
        st = lay_out(s, a, keep);
    if (st != ZT_OK)
        return st;
    if (!zt_layout_check(&a->layout, &count, &span))
        return zt_fail(s->ctx, ZT_EDATA, "%s: its shape makes too many bytes", s->what);
    a->e.bytes = (size_t)count * a->layout.item;
    if (size - a->layout.begin != a->e.bytes)
        return zt_fail(s->ctx, ZT_EDATA, "%s: %zu bytes of data expected, %llu are there", s->what,
                       a->e.bytes, (unsigned long long)(size - a->layout.begin));
    return ZT_OK;
}

zt_status zt_npy_array_parse(zt_ctx *ctx, const char *what, uint64_t size, zt_fetch *fetch,
                             void *user, zt_arena *keep, npy_array *a)
{
    char *text = NULL;
    size_t n = 0;
    *a = (npy_array){0};
    zt_status st = read_text(ctx, what, size, fetch, user, &text, &n, &a->layout.begin);
    if (st == ZT_OK) {
        parser s = {.ctx = ctx, .what = what, .begin = text, .p = text, .end = text + n};
        st = finish(&s, size, keep, a);
    }
    zt_free(ctx, text);
    return st;
}
