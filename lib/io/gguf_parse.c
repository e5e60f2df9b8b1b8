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
typedef struct header_reader {
    zt_gguf *gguf;
    size_t position;
    const char *noun; /* "key", "tensor", or NULL: the file's beginning */
    uint64_t index, count;
    size_t name, name_length; /* in head; name_length 0: not read yet */
} header_reader;

uint32_t zt_gguf_u32(const char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, 4);
    return value;
}

uint64_t zt_gguf_u64(const char *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, 8);
    return value;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* "key 'general.name'", "key 3 of 12", "header" */
static const char *describe_place(const header_reader *reader, char buffer[MAX_WHERE])
{
    char name[MAX_WHERE - 20];
    if (!reader->noun)
        snprintf(buffer, MAX_WHERE, "header");
    else if (reader->name_length)
        snprintf(buffer, MAX_WHERE, "%s '%s'", reader->noun,
                 zt_escape(name, sizeof name, reader->gguf->head + reader->name, reader->name_length));
    else
        snprintf(buffer, MAX_WHERE, "%s %llu of %llu", reader->noun, (unsigned long long)reader->index + 1,
                 (unsigned long long)reader->count);
    return buffer;
}

ZT_PRINTF(2, 3) static bool fail_at(const header_reader *reader, const char *format, ...)
{
    char what[256], at[MAX_WHERE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    zt_fail(reader->gguf->ctx, ZT_EDATA, "%s: %s: %s", zt_gguf_name(reader->gguf), describe_place(reader, at), what);
    return false;
}

/* Reports a fault that reading can continue after: true where a listener takes it (fault.h). */
ZT_PRINTF(2, 3) static bool report_fault(const header_reader *reader, const char *format, ...)
{
    char what[256], at[MAX_WHERE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return zt_faults_tell(reader->gguf->ctx, "%s: %s: %s", zt_gguf_name(reader->gguf), describe_place(reader, at), what) == ZT_OK;
}

static bool fail_short(const header_reader *reader, uint64_t bytes)
{
    return fail_at(reader, "%llu bytes expected, %llu left in the file", (unsigned long long)bytes,
                   (unsigned long long)(reader->gguf->file_size - reader->position));
}

/* ---- bytes --------------------------------------------------------------------------------- */

/* Have the file's first `least` bytes (no more than it has) in head. */
static bool grow_head(zt_gguf *gguf, uint64_t least)
{
    uint64_t want = gguf->head_size ? 2 * (uint64_t)gguf->head_size : FIRST_BLOCK;
    if (want < least) want = least;
    if (want > gguf->file_size) want = gguf->file_size;
    char *head = zt_realloc(gguf->ctx, gguf->head, (size_t)want);
    if (!head) return false;
    gguf->head = head;
    if (zt_source_read(gguf->source, gguf->head_size, head + gguf->head_size, (size_t)want - gguf->head_size) != ZT_OK)
        return false;
    gguf->head_size = (size_t)want;
    return true;
}

/* The same of a stream: never more memory than twice what came. false without a message when it
 * ends before; then its size is known. */
static bool grow_stream(zt_gguf *gguf, uint64_t least)
{
    while (gguf->head_size < least) {
        size_t want = gguf->head_size < FIRST_BLOCK ? FIRST_BLOCK : 2 * gguf->head_size, received;
        uint64_t missing = least - gguf->head_size;
        char *head = zt_realloc(gguf->ctx, gguf->head, want);
        if (!head) return false;
        gguf->head = head;
        want -= gguf->head_size;
        if (zt_source_read_some(gguf->source, gguf->head_size, head + gguf->head_size, want,
                                missing < want ? (size_t)missing : want, &received) != ZT_OK)
            return false;
        gguf->head_size += received;
        if (received < want && received < missing) {
            gguf->file_size = gguf->head_size;
            return false;
        }
    }
    return true;
}

static uint64_t count_left(const header_reader *reader) { return reader->gguf->file_size - reader->position; }

/* Are `size` more bytes in head, or can they be had? */
static inline bool require_bytes(header_reader *reader, uint64_t size)
{
    if (size <= reader->gguf->head_size - reader->position) return true;
    if (zt_source_streams(reader->gguf->source) && size <= count_left(reader))
        return grow_stream(reader->gguf, reader->position + size) ||
               (zt_ctx_status(reader->gguf->ctx) == ZT_OK && fail_short(reader, size));
    return size <= count_left(reader) ? grow_head(reader->gguf, reader->position + size) : fail_short(reader, size);
}

/* `count` numbers of so many bytes at `position` in head come out little endian. */
static void swap_numbers(zt_gguf *gguf, size_t position, uint64_t count, int bytes)
{
    if (gguf->big_endian) zt_swap_bytes(gguf->head + position, (size_t)count, bytes);
}

static inline bool get_u32(header_reader *reader, uint32_t *out)
{
    if (!require_bytes(reader, 4)) return false;
    swap_numbers(reader->gguf, reader->position, 1, 4);
    *out = zt_gguf_u32(reader->gguf->head + reader->position);
    reader->position += 4;
    return true;
}

static inline bool get_u64(header_reader *reader, uint64_t *out)
{
    if (!require_bytes(reader, 8)) return false;
    swap_numbers(reader->gguf, reader->position, 1, 8);
    *out = zt_gguf_u64(reader->gguf->head + reader->position);
    reader->position += 8;
    return true;
}

static inline bool get_string(header_reader *reader, size_t *start, uint64_t *length)
{
    if (!get_u64(reader, length) || !require_bytes(reader, *length)) return false;
    *start = reader->position;
    reader->position += (size_t)*length;
    return true;
}

/* A name: shown in messages from here on. */
static bool get_name(header_reader *reader, uint64_t max)
{
    size_t start;
    uint64_t length;
    if (!get_string(reader, &start, &length)) return false;
    if (length > max)
        return fail_at(reader, "the name has %llu bytes: at most %llu are allowed", (unsigned long long)length,
                       (unsigned long long)max);
    reader->name = start;
    reader->name_length = (size_t)length;
    if (memchr(reader->gguf->head + start, 0, (size_t)length)) return fail_at(reader, "the name contains a zero byte");
    return true;
}

/* ---- keys ---------------------------------------------------------------------------------- */

static bool check_bools(const header_reader *reader, uint64_t count)
{
    const char *values = reader->gguf->head + reader->position;
    for (uint64_t i = 0; i < count; i++) {
        if (values[i] & ~1) return report_fault(reader, "invalid bool %d: must be 0 or 1", (unsigned char)values[i]);
    }
    return true;
}

/* `count` values of a kind of fixed size. */
static bool skip_plain(header_reader *reader, const gguf_kind *kind, uint64_t count)
{
    if (count > count_left(reader) / kind->bytes)
        return fail_at(reader, "%llu values of %s expected, %llu bytes left in the file", (unsigned long long)count, kind->name,
                       (unsigned long long)count_left(reader));
    if (!require_bytes(reader, count * kind->bytes) || (kind->form == 'b' && !check_bools(reader, count))) return false;
    swap_numbers(reader->gguf, reader->position, count, kind->bytes);
    reader->position += (size_t)count * kind->bytes;
    return true;
}

static bool skip_strings(header_reader *reader, uint64_t count)
{
    if (count > count_left(reader) / 8)
        return fail_at(reader, "%llu strings expected, %llu bytes left in the file", (unsigned long long)count,
                       (unsigned long long)count_left(reader));
    for (uint64_t i = 0, length; i < count; i++) {
        size_t start;
        if (!get_string(reader, &start, &length)) return false;
    }
    return true;
}

static bool skip_array(header_reader *reader)
{
    uint32_t kind_number;
    uint64_t count;
    if (!get_u32(reader, &kind_number) || !get_u64(reader, &count)) return false;
    const gguf_kind *kind = zt_gguf_kind_get(kind_number);
    if (!kind) return fail_at(reader, "unknown array element type %u", kind_number);
    if (kind->form == 'a') return fail_at(reader, "nested arrays are not allowed");
    return kind->form == 's' ? skip_strings(reader, count) : skip_plain(reader, kind, count);
}

static bool skip_value(header_reader *reader, const gguf_kind *kind)
{
    if (kind->form == 'a') return skip_array(reader);
    return kind->form == 's' ? skip_strings(reader, 1) : skip_plain(reader, kind, 1);
}

/* After general.alignment has been passed: its value lies just behind. */
static bool set_alignment(header_reader *reader, const gguf_kind *kind)
{
    if (kind != zt_gguf_kind_get(ZT_GGUF_U32)) return fail_at(reader, "the value is of type %s: must be u32", kind->name);
    uint32_t align = zt_gguf_u32(reader->gguf->head + reader->position - 4);
    if (align == 0 || (align & (align - 1)) != 0) return fail_at(reader, "invalid alignment %u: must be a power of two", align);
    reader->gguf->align = align;
    return true;
}

static bool read_key(header_reader *reader)
{
    static const char alignment[] = "general.alignment";
    uint32_t number;
    if (!get_name(reader, MAX_KEY)) return false;
    if (reader->name_length == 0) return fail_at(reader, "the key is empty");
    if (!get_u32(reader, &number)) return false;
    const gguf_kind *kind = zt_gguf_kind_get(number);
    if (!kind) return fail_at(reader, "unknown value type %u", number);
    if (!skip_value(reader, kind)) return false;
    if (reader->name_length == sizeof alignment - 1 &&
        memcmp(reader->gguf->head + reader->name, alignment, sizeof alignment - 1) == 0)
        return set_alignment(reader, kind);
    return true;
}

/* Room for one more of `count` entries: doubles, so that memory follows what has been read and not what
 * a count claims. */
static void *grow_list(zt_ctx *ctx, void *list, int64_t count, size_t entry_bytes)
{
    if (count & (count - 1)) /* not a power of two: inside what there is */
        return list;
    return zt_realloc(ctx, list, (size_t)(count ? 2 * count : 1) * entry_bytes);
}

static bool read_keys(header_reader *reader, uint64_t count)
{
    zt_gguf *gguf = reader->gguf;
    if (count > count_left(reader) / MIN_KEY_RECORD)
        return fail_at(reader, "%llu keys do not fit in the %llu bytes left in the file", (unsigned long long)count,
                       (unsigned long long)count_left(reader));
    for (uint64_t i = 0; i < count; i++) {
        size_t record = reader->position;
        *reader = (header_reader){.gguf = gguf, .position = record, .noun = "key", .index = i, .count = count};
        size_t *list = grow_list(gguf->ctx, gguf->key, gguf->n_keys, sizeof *list);
        if (!list) return false;
        gguf->key = list;
        if (!read_key(reader)) return false;
        gguf->key[gguf->n_keys++] = record;
    }
    gguf->keys_end = reader->position;
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------- */

/* Elements and bytes from the dims in head; refuses what overflows, leaving zeros aside so that
 * strides fit too, or splits a block. */
static bool size_tensor(const header_reader *reader, gguf_tensor *tensor, const gguf_type *type)
{
    int64_t count = 1, bytes;
    bool empty = false;
    for (int i = 0; i < tensor->rank; i++) {
        uint64_t dim = zt_gguf_u64(reader->gguf->head + tensor->dims + 8 * (size_t)i);
        if (i == 0 && dim % type->block != 0)
            return fail_at(reader, "row length %llu is not a multiple of the block size %d (%s)", (unsigned long long)dim,
                           type->block, type->name);
        if (dim > INT64_MAX || (dim && !zt_mul_i64(count, (int64_t)dim, &count)))
            return fail_at(reader, "dimension %d is %llu: too many elements", i, (unsigned long long)dim);
        empty |= dim == 0;
    }
    if (tensor->rank == 0 && type->block != 1)
        return fail_at(reader, "a scalar cannot be of type %s: its block size is %d", type->name, type->block);
    int64_t columns = tensor->rank ? (int64_t)zt_gguf_u64(reader->gguf->head + tensor->dims) : 1;
    if (!zt_gguf_type_bytes(type, count, columns, &bytes) || (!empty && (uint64_t)bytes > reader->gguf->file_size))
        return fail_at(reader, "%lld elements of type %s do not fit in the file of %llu bytes", (long long)count, type->name,
                       (unsigned long long)reader->gguf->file_size);
    tensor->bytes = empty ? 0 : (uint64_t)bytes;
    return true;
}

static uint64_t round_up(uint64_t size, uint64_t align) /* `size` below 2^63, align a power of two */
{
    return (size + align - 1) & ~(align - 1);
}

static bool read_tensor(header_reader *reader, gguf_tensor *tensor, uint64_t expected_offset)
{
    uint32_t rank, number;
    if (!get_name(reader, MAX_NAME) || !get_u32(reader, &rank)) return false;
    if (rank > MAX_DIMS) return fail_at(reader, "%u dimensions: at most %d are allowed", rank, MAX_DIMS);
    *tensor = (gguf_tensor){.name = reader->name, .dims = reader->position};
    tensor->rank = (uint8_t)rank;
    tensor->name_length = (uint8_t)reader->name_length;
    if (!require_bytes(reader, 8 * rank)) return false;
    swap_numbers(reader->gguf, reader->position, rank, 8);
    reader->position += 8 * rank;
    if (!get_u32(reader, &number) || !get_u64(reader, &tensor->offset)) return false;
    const gguf_type *type = zt_gguf_type(number);
    if (!type) return fail_at(reader, "unknown tensor type %u", number);
    tensor->type = (uint8_t)number;
    if (tensor->offset != expected_offset) {
        if (!report_fault(reader, "data offset is %llu, expected %llu", (unsigned long long)tensor->offset,
                          (unsigned long long)expected_offset))
            return false;
        tensor->offset = expected_offset;
    }
    return size_tensor(reader, tensor, type);
}

static bool read_tensors(header_reader *reader, uint64_t count)
{
    zt_gguf *gguf = reader->gguf;
    uint64_t end = 0;
    *reader = (header_reader){.gguf = gguf, .position = reader->position};
    if (count > count_left(reader) / MIN_TENSOR_RECORD)
        return fail_at(reader, "%llu tensors do not fit in the %llu bytes left in the file", (unsigned long long)count,
                       (unsigned long long)count_left(reader));
    for (uint64_t i = 0; i < count; i++) {
        *reader = (header_reader){.gguf = gguf, .position = reader->position, .noun = "tensor", .index = i, .count = count};
        gguf_tensor *list = grow_list(gguf->ctx, gguf->tensor, gguf->n_tensors, sizeof *list);
        if (!list) return false;
        gguf->tensor = list;
        gguf_tensor *tensor = &list[gguf->n_tensors];
        if (!read_tensor(reader, tensor, round_up(end, gguf->align))) return false;
        end = tensor->offset + tensor->bytes; /* two numbers below 2^63 */
        if (end > gguf->file_size)            /* all behind it would: nothing to go on for */
            return fail_at(reader, "the data ends at byte %llu, past the end of the file (%llu bytes)", (unsigned long long)end,
                           (unsigned long long)gguf->file_size);
        gguf->n_tensors++;
    }
    return true;
}

/* Sets the start of the data section, and checks that every tensor's data lie within the file. */
static bool check_data(header_reader *reader)
{
    zt_gguf *gguf = reader->gguf;
    gguf->data_start = round_up(reader->position, gguf->align);
    for (int64_t i = 0; i < gguf->n_tensors; i++) {
        const gguf_tensor *tensor = &gguf->tensor[i];
        *reader = (header_reader){.gguf = gguf, .noun = "tensor", .name = tensor->name, .name_length = tensor->name_length};
        uint64_t from = gguf->data_start + tensor->offset;
        uint64_t there = from < gguf->file_size ? gguf->file_size - from : 0;
        if ((tensor->bytes > there || from > gguf->file_size) &&
            !report_fault(reader, "%llu bytes expected, %llu left in the file", (unsigned long long)tensor->bytes,
                          (unsigned long long)there))
            return false;
    }
    return true;
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool check_magic(const zt_gguf *gguf)
{
    char text[32];
    size_t size = gguf->head_size < 4 ? gguf->head_size : 4;
    if (size == 0)
        zt_fail(gguf->ctx, ZT_EDATA, "%s: empty file", zt_gguf_name(gguf));
    else if (memcmp(gguf->head, "GGUF", size) == 0)
        return true; /* fewer than four bytes of it are a file cut short */
    else if (zt_foreign_fail(gguf->ctx, zt_gguf_name(gguf), gguf->head, gguf->head_size) == ZT_OK)
        zt_fail(gguf->ctx, ZT_EDATA, "%s: not a GGUF file (starts with '%s')", zt_gguf_name(gguf),
                zt_escape(text, sizeof text, gguf->head, size));
    return false;
}

/* The version also shows the byte order: a big-endian 2 or 3 reads as 0x02000000 or 0x03000000. */
static bool check_version(zt_gguf *gguf, uint32_t version)
{
    gguf->big_endian = version == 0x02000000 || version == 0x03000000;
    swap_numbers(gguf, 4, 1, 4);
    if (gguf->big_endian || version == 2 || version == 3) return true;
    zt_fail(gguf->ctx, ZT_EDATA, "%s: unsupported GGUF version %u: only 2 and 3 are supported", zt_gguf_name(gguf), version);
    return false;
}

bool zt_gguf_parse(zt_gguf *gguf)
{
    header_reader reader = {.gguf = gguf};
    uint32_t version;
    uint64_t tensor_count, key_count;
    gguf->align = 32;
    if (zt_source_streams(gguf->source) ? !grow_stream(gguf, 1) && zt_ctx_status(gguf->ctx) != ZT_OK
                                        : gguf->file_size && !gguf->head_size && !grow_head(gguf, 1))
        return false;
    if (!check_magic(gguf) || !require_bytes(&reader, 24)) return false;
    reader.position = 4;
    return get_u32(&reader, &version) && check_version(gguf, version) && get_u64(&reader, &tensor_count) &&
           get_u64(&reader, &key_count) && read_keys(&reader, key_count) && read_tensors(&reader, tensor_count) &&
           check_data(&reader);
}
