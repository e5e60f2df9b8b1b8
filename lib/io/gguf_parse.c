/* gguf_parse.c - owns reading a GGUF header: one pass, every number checked before it is believed.
 *
 * Layout (docs/gguf.md of ggml): "GGUF", u32 version, u64 tensors, u64 keys; keys (string, u32
 * kind, value); tensors (string, u32 rank, u64 dims, u32 type, u64 offset); zeros up to a multiple
 * of general.alignment; data. A string is a u64 length and bytes, an array a u32 kind, a u64 count
 * and values. As ggml does we refuse nested arrays, names of 64 bytes, and data with gaps.
 *
 * The length of a header is written nowhere, so it is read in blocks that double. Of a big-endian
 * file every number is turned around in place when it is passed, so that head is little endian
 * behind the reader. Of a stream the size is not known: counts and lengths are then bounded by the
 * bytes that come. */
#include "lib/base/foreign.h"
#include "lib/io/fault.h"
#include "lib/io/gguf_file.h"

#include <stdio.h>
#include <string.h>

enum {
    FIRST_BLOCK = 256 * 1024,
    MAX_KEY = 65535, /* bytes of a key */
    MAX_NAME = 63,   /* bytes of a tensor's name */
    MAX_DIMS = 4,
    MIN_KEY_RECORD = 8 + 1 + 4 + 1, /* bytes of the smallest key and tensor: bounds on the counts */
    MIN_TENSOR_RECORD = 8 + 4 + 4 + 8,
    MAX_WHERE = 160
};

/* A position, and what is being read there, for messages. */
typedef struct reader {
    zt_gguf *g;
    size_t pos;
    const char *noun; /* "key", "tensor", or NULL: the file's beginning */
    uint64_t index, count;
    size_t name, name_len; /* in head; name_len 0: not read yet */
} reader;

uint32_t zt_gguf_u32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

uint64_t zt_gguf_u64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* "key 'general.name'", "key 3 of 12", "header" */
static const char *where(const reader *r, char buf[MAX_WHERE])
{
    char name[MAX_WHERE - 20];
    if (!r->noun)
        snprintf(buf, MAX_WHERE, "header");
    else if (r->name_len)
        snprintf(buf, MAX_WHERE, "%s '%s'", r->noun,
                 zt_escape(name, sizeof name, r->g->head + r->name, r->name_len));
    else
        snprintf(buf, MAX_WHERE, "%s %llu of %llu", r->noun, (unsigned long long)r->index + 1,
                 (unsigned long long)r->count);
    return buf;
}

ZT_PRINTF(2, 3) static bool bad(const reader *r, const char *fmt, ...)
{
    char what[256], at[MAX_WHERE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    zt_fail(r->g->ctx, ZT_EDATA, "%s: %s: %s", zt_gguf_name(r->g), where(r, at), what);
    return false;
}

/* What can be gone on behind: true if somebody listens. */
ZT_PRINTF(2, 3) static bool amiss(const reader *r, const char *fmt, ...)
{
    char what[256], at[MAX_WHERE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return zt_faults_tell(r->g->ctx, "%s: %s: %s", zt_gguf_name(r->g), where(r, at), what) == ZT_OK;
}

static bool cut(const reader *r, uint64_t bytes)
{
    return bad(r, "%llu bytes expected, %llu left in the file", (unsigned long long)bytes,
               (unsigned long long)(r->g->file_size - r->pos));
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* Have the file's first `least` bytes (no more than it has) in head. */
static bool grow(zt_gguf *g, uint64_t least)
{
    uint64_t want = g->have ? 2 * (uint64_t)g->have : FIRST_BLOCK;
    if (want < least)
        want = least;
    if (want > g->file_size)
        want = g->file_size;
    char *head = zt_realloc(g->ctx, g->head, (size_t)want);
    if (!head)
        return false;
    g->head = head;
    if (zt_source_read(g->source, g->have, head + g->have, (size_t)want - g->have) != ZT_OK)
        return false;
    g->have = (size_t)want;
    return true;
}

/* The same of a stream: never more memory than twice what came. false without a message when it
 * ends before; then its size is known. */
static bool grow_stream(zt_gguf *g, uint64_t least)
{
    while (g->have < least) {
        size_t want = g->have < FIRST_BLOCK ? FIRST_BLOCK : 2 * g->have, got;
        uint64_t missing = least - g->have;
        char *head = zt_realloc(g->ctx, g->head, want);
        if (!head)
            return false;
        g->head = head;
        want -= g->have;
        if (zt_source_read_some(g->source, g->have, head + g->have, want,
                                missing < want ? (size_t)missing : want, &got) != ZT_OK)
            return false;
        g->have += got;
        if (got < want && got < missing) {
            g->file_size = g->have;
            return false;
        }
    }
    return true;
}

static uint64_t left(const reader *r)
{
    return r->g->file_size - r->pos;
}

/* Are n more bytes in head, or can they be had? */
static inline bool need(reader *r, uint64_t n)
{
    if (n <= r->g->have - r->pos)
        return true;
    if (zt_source_streams(r->g->source) && n <= left(r))
        return grow_stream(r->g, r->pos + n) ||
               (zt_ctx_status(r->g->ctx) == ZT_OK && cut(r, n));
    return n <= left(r) ? grow(r->g, r->pos + n) : cut(r, n);
}

/* `count` numbers of so many bytes at `at` in head come out little endian. */
static void turn(zt_gguf *g, size_t at, uint64_t count, int bytes)
{
    if (g->big)
        zt_swap_bytes(g->head + at, (size_t)count, bytes);
}

static inline bool get_u32(reader *r, uint32_t *out)
{
    if (!need(r, 4))
        return false;
    turn(r->g, r->pos, 1, 4);
    *out = zt_gguf_u32(r->g->head + r->pos);
    r->pos += 4;
    return true;
}

static inline bool get_u64(reader *r, uint64_t *out)
{
    if (!need(r, 8))
        return false;
    turn(r->g, r->pos, 1, 8);
    *out = zt_gguf_u64(r->g->head + r->pos);
    r->pos += 8;
    return true;
}

static inline bool get_string(reader *r, size_t *at, uint64_t *len)
{
    if (!get_u64(r, len) || !need(r, *len))
        return false;
    *at = r->pos;
    r->pos += (size_t)*len;
    return true;
}

/* A name: shown in messages from here on. */
static bool get_name(reader *r, uint64_t max)
{
    size_t at;
    uint64_t len;
    if (!get_string(r, &at, &len))
        return false;
    if (len > max)
        return bad(r, "a name of %llu bytes, %llu are allowed", (unsigned long long)len,
                   (unsigned long long)max);
    r->name = at;
    r->name_len = (size_t)len;
    if (memchr(r->g->head + at, 0, (size_t)len))
        return bad(r, "a zero byte in the name");
    return true;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static bool check_bools(const reader *r, uint64_t n)
{
    const char *p = r->g->head + r->pos;
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] & ~1)
            return amiss(r, "a bool of %d, only 0 and 1 are allowed", (unsigned char)p[i]);
    }
    return true;
}

/* n values of a kind of fixed size. */
static bool skip_plain(reader *r, const gguf_kind *kind, uint64_t n)
{
    if (n > left(r) / kind->bytes)
        return bad(r, "%llu values of %s expected, %llu bytes left in the file",
                   (unsigned long long)n, kind->name, (unsigned long long)left(r));
    if (!need(r, n * kind->bytes) || (kind->form == 'b' && !check_bools(r, n)))
        return false;
    turn(r->g, r->pos, n, kind->bytes);
    r->pos += (size_t)n * kind->bytes;
    return true;
}

static bool skip_strings(reader *r, uint64_t n)
{
    if (n > left(r) / 8)
        return bad(r, "%llu strings expected, %llu bytes left in the file", (unsigned long long)n,
                   (unsigned long long)left(r));
    for (uint64_t i = 0, len; i < n; i++) {
        size_t at;
        if (!get_string(r, &at, &len))
            return false;
    }
    return true;
}

static bool skip_array(reader *r)
{
    uint32_t elem;
    uint64_t n;
    if (!get_u32(r, &elem) || !get_u64(r, &n))
        return false;
    const gguf_kind *kind = zt_gguf_kind_get(elem);
    if (!kind)
        return bad(r, "an array of values of kind %u, which there is not", elem);
    if (kind->form == 'a')
        return bad(r, "an array of arrays, which is not allowed");
    return kind->form == 's' ? skip_strings(r, n) : skip_plain(r, kind, n);
}

static bool skip_value(reader *r, const gguf_kind *kind)
{
    if (kind->form == 'a')
        return skip_array(r);
    return kind->form == 's' ? skip_strings(r, 1) : skip_plain(r, kind, 1);
}

/* After general.alignment has been passed: its value lies just behind. */
static bool set_alignment(reader *r, const gguf_kind *kind)
{
    if (kind != zt_gguf_kind_get(ZT_GGUF_U32))
        return bad(r, "a value of kind %s, u32 expected", kind->name);
    uint32_t align = zt_gguf_u32(r->g->head + r->pos - 4);
    if (align == 0 || (align & (align - 1)) != 0)
        return bad(r, "%u is not a power of two", align);
    r->g->align = align;
    return true;
}

static bool read_key(reader *r)
{
    static const char alignment[] = "general.alignment";
    uint32_t number;
    if (!get_name(r, MAX_KEY))
        return false;
    if (r->name_len == 0)
        return bad(r, "the key is empty");
    if (!get_u32(r, &number))
        return false;
    const gguf_kind *kind = zt_gguf_kind_get(number);
    if (!kind)
        return bad(r, "a value of kind %u, which there is not", number);
    if (!skip_value(r, kind))
        return false;
    if (r->name_len == sizeof alignment - 1 &&
        memcmp(r->g->head + r->name, alignment, sizeof alignment - 1) == 0)
        return set_alignment(r, kind);
    return true;
}

/* Room for one more of n entries: doubles, so that memory follows what has been read and not what
 * a count claims. */
static void *room(zt_ctx *ctx, void *list, int64_t n, size_t entry_bytes)
{
    if (n & (n - 1)) /* not a power of two: inside what there is */
        return list;
    return zt_realloc(ctx, list, (size_t)(n ? 2 * n : 1) * entry_bytes);
}

static bool read_keys(reader *r, uint64_t count)
{
    zt_gguf *g = r->g;
    if (count > left(r) / MIN_KEY_RECORD)
        return bad(r, "%llu keys cannot fit in the %llu bytes left in the file",
                   (unsigned long long)count, (unsigned long long)left(r));
    for (uint64_t i = 0; i < count; i++) {
        size_t at = r->pos;
        *r = (reader){.g = g, .pos = at, .noun = "key", .index = i, .count = count};
        size_t *list = room(g->ctx, g->key, g->n_keys, sizeof *list);
        if (!list)
            return false;
        g->key = list;
        if (!read_key(r))
            return false;
        g->key[g->n_keys++] = at;
    }
    g->keys_end = r->pos;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Elements and bytes from the dims in head; refuses what overflows, leaving zeros aside so that
 * strides fit too, or splits a block. */
static bool size_tensor(const reader *r, gguf_tensor *t, const gguf_type *type)
{
    int64_t n = 1, bytes;
    bool empty = false;
    for (int i = 0; i < t->rank; i++) {
        uint64_t dim = zt_gguf_u64(r->g->head + t->dims + 8 * (size_t)i);
        if (i == 0 && dim % type->block != 0)
            return bad(r, "rows of %llu are not in whole blocks of %d (%s)",
                       (unsigned long long)dim, type->block, type->name);
        if (dim > INT64_MAX || (dim && !zt_mul_i64(n, (int64_t)dim, &n)))
            return bad(r, "dimension %d of %llu: too many elements", i, (unsigned long long)dim);
        empty |= dim == 0;
    }
    if (t->rank == 0 && type->block != 1)
        return bad(r, "a scalar of %s, whose blocks have %d elements", type->name, type->block);
    if (!zt_mul_i64(n / type->block, type->block_bytes, &bytes) ||
        (!empty && (uint64_t)bytes > r->g->file_size))
        return bad(r, "%lld elements of %s in a file of %llu bytes", (long long)n, type->name,
                   (unsigned long long)r->g->file_size);
    t->bytes = empty ? 0 : (uint64_t)bytes;
    return true;
}

static uint64_t padded(uint64_t n, uint64_t align) /* n below 2^63, align a power of two */
{
    return (n + align - 1) & ~(align - 1);
}

static bool read_tensor(reader *r, gguf_tensor *t, uint64_t expected_offset)
{
    uint32_t rank, number;
    if (!get_name(r, MAX_NAME) || !get_u32(r, &rank))
        return false;
    if (rank > MAX_DIMS)
        return bad(r, "%u dimensions, %d are allowed", rank, MAX_DIMS);
    *t = (gguf_tensor){.name = r->name, .dims = r->pos};
    t->rank = (uint8_t)rank;
    t->name_len = (uint8_t)r->name_len;
    if (!need(r, 8 * rank))
        return false;
    turn(r->g, r->pos, rank, 8);
    r->pos += 8 * rank;
    if (!get_u32(r, &number) || !get_u64(r, &t->offset))
        return false;
    const gguf_type *type = zt_gguf_type(number);
    if (!type)
        return bad(r, "tensor type %u, which there is not", number);
    t->type = (uint8_t)number;
    if (t->offset != expected_offset) {
        if (!amiss(r, "offset %llu, %llu expected", (unsigned long long)t->offset,
                   (unsigned long long)expected_offset))
            return false;
        t->offset = expected_offset;
    }
    return size_tensor(r, t, type);
}

static bool read_tensors(reader *r, uint64_t count)
{
    zt_gguf *g = r->g;
    uint64_t end = 0;
    *r = (reader){.g = g, .pos = r->pos};
    if (count > left(r) / MIN_TENSOR_RECORD)
        return bad(r, "%llu tensors cannot fit in the %llu bytes left in the file",
                   (unsigned long long)count, (unsigned long long)left(r));
    for (uint64_t i = 0; i < count; i++) {
        *r = (reader){.g = g, .pos = r->pos, .noun = "tensor", .index = i, .count = count};
        gguf_tensor *list = room(g->ctx, g->tensor, g->n_tensors, sizeof *list);
        if (!list)
            return false;
        g->tensor = list;
        gguf_tensor *t = &list[g->n_tensors];
        if (!read_tensor(r, t, padded(end, g->align)))
            return false;
        end = t->offset + t->bytes; /* two numbers below 2^63 */
        if (end > g->file_size) /* all behind it would: nothing to go on for */
            return bad(r, "ends at byte %llu of the data, in a file of %llu bytes",
                       (unsigned long long)end, (unsigned long long)g->file_size);
        g->n_tensors++;
    }
    return true;
}

/* Where the data begin is known only now: is all of it there? */
static bool check_data(reader *r)
{
    zt_gguf *g = r->g;
    g->data = padded(r->pos, g->align);
    for (int64_t i = 0; i < g->n_tensors; i++) {
        const gguf_tensor *t = &g->tensor[i];
        *r = (reader){.g = g, .noun = "tensor", .name = t->name, .name_len = t->name_len};
        uint64_t from = g->data + t->offset;
        uint64_t there = from < g->file_size ? g->file_size - from : 0;
        if ((t->bytes > there || from > g->file_size) &&
            !amiss(r, "%llu bytes expected, %llu left in the file", (unsigned long long)t->bytes,
                   (unsigned long long)there))
            return false;
    }
    return true;
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool check_magic(const zt_gguf *g)
{
    char text[32];
    size_t n = g->have < 4 ? g->have : 4;
    if (n == 0)
        zt_fail(g->ctx, ZT_EDATA, "%s: empty file", zt_gguf_name(g));
    else if (memcmp(g->head, "GGUF", n) == 0)
        return true; /* fewer than four bytes of it are a file cut short */
    else if (zt_foreign_fail(g->ctx, zt_gguf_name(g), g->head, g->have) == ZT_OK)
        zt_fail(g->ctx, ZT_EDATA, "%s: not a GGUF file (starts with '%s')", zt_gguf_name(g),
                zt_escape(text, sizeof text, g->head, n));
    return false;
}

/* The number tells the byte order too: there are not 2^24 versions. */
static bool check_version(zt_gguf *g, uint32_t version)
{
    g->big = version == 0x02000000 || version == 0x03000000;
    turn(g, 4, 1, 4);
    if (g->big || version == 2 || version == 3)
        return true;
    zt_fail(g->ctx, ZT_EDATA, "%s: GGUF version %u, only 2 and 3 are read", zt_gguf_name(g),
            version);
    return false;
}

bool zt_gguf_parse(zt_gguf *g)
{
    reader r = {.g = g};
    uint32_t version;
    uint64_t n_tensors, n_keys;
    g->align = 32;
    if (zt_source_streams(g->source) ? !grow_stream(g, 1) && zt_ctx_status(g->ctx) != ZT_OK
                                     : g->file_size && !g->have && !grow(g, 1))
        return false;
    if (!check_magic(g) || !need(&r, 24))
        return false;
    r.pos = 4;
    return get_u32(&r, &version) && check_version(g, version) && get_u64(&r, &n_tensors) &&
           get_u64(&r, &n_keys) && read_keys(&r, n_keys) && read_tensors(&r, n_tensors) &&
           check_data(&r);
}
