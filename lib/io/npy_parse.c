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

static const np_dtype *find_dtype(const char *word)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(word, dtypes[i].word) == 0) return &dtypes[i];
    return NULL;
}

/* ---- the literal ----------------------------------------------------------------------------- */

typedef struct npy_parser {
    zt_ctx *ctx;
    const char *what;
    const char *begin, *cursor, *end;
    char descr[32];
    bool fortran;
    int rank;
    int64_t dim[MAX_DIMS];
} npy_parser;

static zt_status fail_expected(const npy_parser *parser, const char *what)
{
    return zt_fail(parser->ctx, ZT_EDATA, "%s: npy header, byte %zu: expected %s", parser->what,
                   (size_t)(parser->cursor - parser->begin), what);
}

static void skip_space(npy_parser *parser)
{
    while (parser->cursor < parser->end &&
           (*parser->cursor == ' ' || *parser->cursor == '\t' || *parser->cursor == '\n' || *parser->cursor == '\r'))
        parser->cursor++;
}

static bool skip_character(npy_parser *parser, char wanted)
{
    skip_space(parser);
    if (parser->cursor == parser->end || *parser->cursor != wanted) return false;
    parser->cursor++;
    return true;
}

static bool skip_word(npy_parser *parser, const char *word)
{
    size_t length = strlen(word);
    skip_space(parser);
    if ((size_t)(parser->end - parser->cursor) < length || memcmp(parser->cursor, word, length) != 0) return false;
    parser->cursor += length;
    return true;
}

/* 'text' or "text", of fewer than `capacity` bytes, without escapes. */
static bool read_quoted(npy_parser *parser, char *out, size_t capacity)
{
    char quote = skip_character(parser, '\'') ? '\'' : skip_character(parser, '"') ? '"' : 0;
    size_t length = 0;
    for (; quote && parser->cursor < parser->end && length + 1 < capacity; parser->cursor++) {
        if (*parser->cursor == quote || *parser->cursor <= 0x1f || *parser->cursor == '\\') break;
        out[length++] = *parser->cursor;
    }
    out[length] = 0;
    bool complete = quote && parser->cursor < parser->end && *parser->cursor == quote;
    parser->cursor += complete;
    return complete;
}

static bool is_digit(const npy_parser *parser)
{
    return parser->cursor < parser->end && *parser->cursor >= '0' && *parser->cursor <= '9';
}

/* A dimension; Python 2 wrote an L behind large ones. */
static bool read_count(npy_parser *parser, int64_t *value)
{
    skip_space(parser);
    const char *begin = parser->cursor;
    *value = 0;
    for (; is_digit(parser); parser->cursor++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *parser->cursor - '0', value))
            return false;
    bool complete = parser->cursor > begin && (*begin != '0' || parser->cursor == begin + 1);
    if (parser->cursor < parser->end && *parser->cursor == 'L') parser->cursor++;
    return complete;
}

static zt_status read_shape(npy_parser *parser)
{
    bool comma = false;
    parser->rank = 0;
    if (!skip_character(parser, '(')) return fail_expected(parser, "a tuple of dimensions");
    while (!skip_character(parser, ')')) {
        if (parser->rank == MAX_DIMS)
            return zt_fail(parser->ctx, ZT_EDATA, "%s: too many dimensions: at most %d are supported", parser->what, MAX_DIMS);
        if ((parser->rank && !comma) || !read_count(parser, &parser->dim[parser->rank]))
            return fail_expected(parser, "a dimension");
        parser->rank++;
        comma = skip_character(parser, ',');
    }
    return parser->rank != 1 || comma ? ZT_OK : fail_expected(parser, "a tuple, not a number");
}

static zt_status read_order(npy_parser *parser)
{
    parser->fortran = skip_word(parser, "True");
    return parser->fortran || skip_word(parser, "False") ? ZT_OK : fail_expected(parser, "True or False");
}

static zt_status read_descr(npy_parser *parser)
{
    return read_quoted(parser, parser->descr, sizeof parser->descr) ? ZT_OK : fail_expected(parser, "a plain dtype string");
}

static zt_status read_dict(npy_parser *parser)
{
    static const struct {
        const char *key;
        zt_status (*read)(npy_parser *parser);
    } member[] = {{"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};
    bool seen[3] = {false};
    if (!skip_character(parser, '{')) return fail_expected(parser, "a dictionary");
    for (int i = 0; i < 3; i++) {
        char key[16];
        int row = 0;
        if ((i && !skip_character(parser, ',')) || !read_quoted(parser, key, sizeof key) || !skip_character(parser, ':'))
            return fail_expected(parser, "one of 'descr', 'fortran_order', 'shape'");
        while (row < 3 && strcmp(key, member[row].key) != 0) row++;
        if (row == 3 || seen[row]) return fail_expected(parser, "each of 'descr', 'fortran_order', 'shape' once");
        seen[row] = true;
        zt_status status = member[row].read(parser);
        if (status != ZT_OK) return status;
    }
    skip_character(parser, ',');
    if (!skip_character(parser, '}')) return fail_expected(parser, "'}'");
    skip_space(parser);
    return parser->cursor == parser->end ? ZT_OK : fail_expected(parser, "the end of the header");
}

/* ---- the array ------------------------------------------------------------------------------- */

/* The header's text, and where the data begin. */
static zt_status read_text(zt_ctx *ctx, const char *what, uint64_t size, zt_fetch *fetch, void *user, char **text,
                           size_t *text_size, uint64_t *data)
{
    uint8_t head[12];
    if (size < 10) return zt_fail(ctx, ZT_EDATA, "%s: truncated npy file (%llu bytes)", what, (unsigned long long)size);
    zt_status status = fetch(user, 0, head, 10);
    if (status != ZT_OK) return status;
    bool wide = head[6] > 1;
    if (memcmp(head, "\x93NUMPY", 6) != 0) return zt_fail(ctx, ZT_EDATA, "%s: not an npy file", what);
    if (head[6] < 1 || head[6] > 3 || head[7])
        return zt_fail(ctx, ZT_EDATA, "%s: unsupported npy version %d.%d: 1.0 to 3.0 are supported", what, head[6], head[7]);
    if (wide && size < 12) return zt_fail(ctx, ZT_EDATA, "%s: truncated npy header", what);
    if (wide && (status = fetch(user, 10, head + 10, 2)) != ZT_OK) return status;
    *text_size = head[8] | (size_t)head[9] << 8;
    if (wide) *text_size |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    *data = (wide ? 12 : 10) + (uint64_t)*text_size;
    if (*text_size > MAX_HEADER || *data > size)
        return zt_fail(ctx, ZT_EDATA, "%s: the npy header has %zu bytes, but %llu are left in the file", what, *text_size,
                       (unsigned long long)(size - (wide ? 12 : 10)));
    *text = zt_alloc(ctx, *text_size);
    return *text ? fetch(user, *data - *text_size, *text, *text_size) : ZT_ENOMEM;
}

/* '<' and '=' and none are little endian: what wrote '=' was. */
static zt_status read_dtype(const npy_parser *parser, npy_array *array, zt_arena *keep)
{
    bool order = parser->descr[0] && strchr("<>=|", parser->descr[0]);
    const char *word = parser->descr + order;
    const np_dtype *dtype = find_dtype(word);
    char text[80];
    if (!dtype && *word && strchr("USmMVOfgGa", *word) && *word != 'f')
        return zt_fail(parser->ctx, *word == 'O' ? ZT_EDATA : ZT_ENOTSUP,
                       *word == 'O' ? "%s: an array of Python objects (dtype '%s') is not read: unpickling objects can run "
                                      "code"
                                    : "%s: unsupported dtype '%s': only numeric dtypes are supported",
                       parser->what, zt_escape(text, sizeof text, parser->descr, strlen(parser->descr)));
    if (!dtype || (parser->descr[0] == '|' && dtype->swap > 1))
        return zt_fail(parser->ctx, ZT_EDATA, "%s: invalid dtype '%s'", parser->what,
                       zt_escape(text, sizeof text, parser->descr, strlen(parser->descr)));
    snprintf(text, sizeof text, "%c%s", dtype->item == 1 ? '|' : parser->descr[0] == '>' ? '>' : '<', word);
    array->array.dtype = zt_arena_strndup(keep, text, strlen(text));
    array->array.type.dtype = dtype->dtype;
    array->layout.item = dtype->item;
    array->layout.swap = parser->descr[0] == '>' ? dtype->swap : 1;
    return array->array.dtype ? ZT_OK : ZT_ENOMEM;
}

static zt_status set_layout(const npy_parser *parser, npy_array *array, zt_arena *keep)
{
    size_t rank = (size_t)parser->rank;
    int64_t *dim = zt_arena_alloc(keep, (rank + 1) * sizeof *dim), step = 1;
    int64_t *stride = zt_arena_alloc(keep, (rank + 1) * sizeof *stride);
    if (!dim || !stride) return ZT_ENOMEM;
    memcpy(dim, parser->dim, rank * sizeof *dim);
    for (size_t step_index = 0; step_index < rank; step_index++) {
        size_t i = parser->fortran ? step_index : rank - 1 - step_index;
        stride[i] = step;
        if (dim[i] && !zt_mul_i64(step, dim[i], &step))
            return zt_fail(parser->ctx, ZT_EDATA, "%s: dimension %zu is %lld: too many elements", parser->what, i,
                           (long long)dim[i]);
    }
    array->array.rank = array->layout.rank = parser->rank;
    array->array.dim = array->layout.dim = dim;
    array->layout.stride = stride;
    array->array.type.rank = parser->rank <= ZT_MAX_RANK ? parser->rank : -1;
    for (int i = 0; i < array->array.type.rank; i++) array->array.type.dim[i] = dim[i];
    return ZT_OK;
}

static zt_status read_array(npy_parser *parser, uint64_t size, zt_arena *keep, npy_array *array)
{
    uint64_t span;
    int64_t count;
    zt_status status = read_dict(parser);
    if (status == ZT_OK) status = read_dtype(parser, array, keep);
    if (status == ZT_OK) status = set_layout(parser, array, keep);
    if (status != ZT_OK) return status;
    if (!zt_layout_check(&array->layout, &count, &span))
        return zt_fail(parser->ctx, ZT_EDATA, "%s: the array is too large", parser->what);
    array->array.bytes = (size_t)count * array->layout.item;
    if (size - array->layout.begin != array->array.bytes)
        return zt_fail(parser->ctx, ZT_EDATA, "%s: expected %zu bytes of data, got %llu", parser->what, array->array.bytes,
                       (unsigned long long)(size - array->layout.begin));
    return ZT_OK;
}

zt_status zt_npy_array_parse(zt_ctx *ctx, const char *what, uint64_t size, zt_fetch *fetch, void *user, zt_arena *keep,
                             npy_array *array)
{
    char *text = NULL;
    size_t text_size = 0;
    *array = (npy_array){0};
    zt_status status = read_text(ctx, what, size, fetch, user, &text, &text_size, &array->layout.begin);
    if (status == ZT_OK) {
        npy_parser parser = {.ctx = ctx, .what = what, .begin = text, .cursor = text, .end = text + text_size};
        status = read_array(&parser, size, keep, array);
    }
    zt_free(ctx, text);
    return status;
}
