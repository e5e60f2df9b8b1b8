/* sentencepiece.c - read and check tokenizer.model, SentencePiece's protocol buffer.
 *
 * A field is a varint (number << 3 | wire type) and a value. Fields of ModelProto:
 *
 *     1   a piece
 *     2   TrainerSpec
 *     3   NormalizerSpec
 *     5   the denormalizer's NormalizerSpec
 *
 * Of a field given twice the last counts; a message given twice is merged. Source: sentencepiece_model.proto and
 * model_interface.cc of google/sentencepiece, as facts. */
#include "lib/llm/vocab/sentencepiece.h"
#include "lib/base/foreign.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the wire -------------------------------------------------------------------------------- */

typedef struct wire_span {
    const unsigned char *next, *end;
} wire_span;

static bool read_varint(wire_span *wire, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && wire->next < wire->end; shift += 7) {
        unsigned char byte = *wire->next++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

typedef enum wire_type { VARINT, FIXED64, BYTES, FIXED32 = 5 } wire_type;

typedef struct wire_field {
    uint64_t number, value; /* the value of a varint, and of four or eight bytes */
    unsigned type;
    wire_span bytes; /* of BYTES */
} wire_field;

static bool read_fixed(wire_span *wire, int byte_count, uint64_t *value)
{
    *value = 0;
    if (wire->end - wire->next < byte_count) return false;
    for (int i = 0; i < byte_count; i++) *value |= (uint64_t)wire->next[i] << 8 * i;
    wire->next += byte_count;
    return true;
}

/* The next field; false: it is cut short, or of a wire type that is not in use. */
static bool next_field(wire_span *wire, wire_field *field)
{
    uint64_t tag, length;
    *field = (wire_field){0};
    if (!read_varint(wire, &tag) || tag >> 3 == 0 || tag >> 32) return false;
    field->number = tag >> 3;
    field->type = tag & 7;
    switch (field->type) {
    case VARINT: return read_varint(wire, &field->value);
    case FIXED64: return read_fixed(wire, 8, &field->value);
    case FIXED32: return read_fixed(wire, 4, &field->value);
    case BYTES:
        if (!read_varint(wire, &length) || length > (uint64_t)(wire->end - wire->next)) return false;
        field->bytes = (wire_span){wire->next, wire->next + length};
        wire->next += length;
        return true;
    default: return false;
    }
}

static zt_bytes field_text(const wire_field *field)
{
    return (zt_bytes){(const char *)field->bytes.next, (size_t)(field->bytes.end - field->bytes.next)};
}

static zt_status fail_broken(const zt_sp_model *model)
{
    return zt_fail(model->ctx, ZT_EDATA, "%s: not a SentencePiece model, or truncated", model->file);
}

static bool is_field(const wire_field *field, uint64_t number, wire_type type)
{
    return field->number == number && field->type == type;
}

/* ---- messages -------------------------------------------------------------------------------- */

static zt_status read_piece(zt_sp_model *model, wire_span wire)
{
    zt_sp_piece piece = {{"", 0}, 0, ZT_TOK_NORMAL};
    for (wire_field field; wire.next < wire.end;) {
        if (!next_field(&wire, &field)) return fail_broken(model);
        uint32_t bits = (uint32_t)field.value;
        if (is_field(&field, 1, BYTES))
            piece.text = field_text(&field);
        else if (is_field(&field, 2, FIXED32))
            memcpy(&piece.score, &bits, sizeof piece.score);
        else if (is_field(&field, 3, VARINT) && (field.value < ZT_TOK_NORMAL || field.value > ZT_TOK_BYTE))
            return zt_fail(model->ctx, ZT_ENOTSUP, "%s: piece %d has the unknown type %" PRIu64 ", expected 1 to %d", model->file,
                           model->piece_count, field.value, ZT_TOK_BYTE);
        else if (is_field(&field, 3, VARINT))
            piece.type = (uint8_t)field.value;
    }
    model->piece[model->piece_count++] = piece;
    return ZT_OK;
}

static zt_status read_trainer(zt_sp_model *model, wire_span wire)
{
    for (wire_field field; wire.next < wire.end;) {
        if (!next_field(&wire, &field)) return fail_broken(model);
        if (is_field(&field, 3, VARINT) && (field.value < ZT_SP_UNIGRAM || field.value > ZT_SP_CHAR))
            return zt_fail(model->ctx, ZT_ENOTSUP,
                           "%s: unknown model type %" PRIu64 ": expected 1 (unigram), 2 (BPE), 3 (word) or 4 (char)", model->file,
                           field.value);
        if (is_field(&field, 3, VARINT))
            model->type = (zt_sp_type)field.value;
        else if (is_field(&field, 24, VARINT))
            model->suffix = field.value != 0;
        else if (is_field(&field, 35, VARINT))
            model->byte_fallback = field.value != 0;
        else if (is_field(&field, 44, BYTES))
            model->unk_surface = field_text(&field);
        else if (is_field(&field, 46, BYTES) && field_text(&field).n)
            model->bos_piece = field_text(&field);
        else if (is_field(&field, 47, BYTES) && field_text(&field).n)
            model->eos_piece = field_text(&field);
    }
    return ZT_OK;
}

static zt_status read_rule(const zt_sp_model *model, wire_span wire, zt_sp_rule *rule)
{
    for (wire_field field; wire.next < wire.end;) {
        if (!next_field(&wire, &field)) return fail_broken(model);
        if (is_field(&field, 2, BYTES))
            rule->charsmap = field_text(&field);
        else if (is_field(&field, 3, VARINT))
            rule->dummy_prefix = field.value != 0;
        else if (is_field(&field, 4, VARINT))
            rule->remove_extra = field.value != 0;
        else if (is_field(&field, 5, VARINT))
            rule->escape = field.value != 0;
    }
    return ZT_OK;
}

/* "IQ== 0\n": tokens in base64, and their ranks. Llama 3's tokenizer.model is such a file. */
static bool is_tiktoken(const char *text, const char *end)
{
    size_t length = 0;
    for (; text < end && (isalnum((unsigned char)*text) || *text == '+' || *text == '/' || *text == '='); length++) text++;
    return length > 3 && length % 4 == 0 && end - text > 2 && text[0] == ' ' && text[1] == '0' && text[2] == '\n';
}

static zt_status fail_not_pieces(const zt_sp_model *model, wire_span wire)
{
    zt_status status = zt_foreign_fail(model->ctx, model->file, wire.next, (size_t)(wire.end - wire.next));
    if (status == ZT_OK && is_tiktoken((const char *)wire.next, (const char *)wire.end))
        status = zt_fail(model->ctx, ZT_ENOTSUP,
                         "%s: a tiktoken vocabulary (tokens in base64), not a SentencePiece model: tokenizer.json is required",
                         model->file);
    return status == ZT_OK ? fail_broken(model) : status;
}

static zt_status count_pieces(zt_sp_model *model, wire_span wire)
{
    int64_t count = 0;
    const wire_span whole = wire;
    for (wire_field field; wire.next < wire.end; count += is_field(&field, 1, BYTES))
        if (!next_field(&wire, &field)) return fail_not_pieces(model, whole);
    if (count < 1) return fail_not_pieces(model, whole);
    if (count > INT32_MAX / 4)
        return zt_fail(model->ctx, ZT_EDATA, "%s: %" PRId64 " pieces, the limit is %d", model->file, count, INT32_MAX / 4);
    model->piece = zt_alloc_array(model->ctx, (size_t)count, sizeof *model->piece);
    return model->piece ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_sp_read(zt_sp_model *model, zt_ctx *ctx, const char *file, zt_bytes bytes)
{
    static const zt_sp_rule usual = {.dummy_prefix = true, .remove_extra = true, .escape = true};
    wire_span wire = {(const unsigned char *)bytes.data, (const unsigned char *)bytes.data + bytes.n};
    *model = (zt_sp_model){.ctx = ctx,
                           .file = file,
                           .unk = -1,
                           .type = ZT_SP_UNIGRAM,
                           .unk_surface = {" \xe2\x81\x87 ", 5},
                           .bos_piece = {"<s>", 3},
                           .eos_piece = {"</s>", 4},
                           .norm = usual,
                           .denorm = usual};
    zt_status status = count_pieces(model, wire);
    for (wire_field field; status == ZT_OK && wire.next < wire.end;) {
        next_field(&wire, &field);
        if (is_field(&field, 1, BYTES))
            status = read_piece(model, field.bytes);
        else if (is_field(&field, 2, BYTES))
            status = read_trainer(model, field.bytes);
        else if (is_field(&field, 3, BYTES))
            status = read_rule(model, field.bytes, &model->norm);
        else if (is_field(&field, 5, BYTES))
            status = read_rule(model, field.bytes, &model->denorm);
    }
    return status;
}

void zt_sp_fini(zt_sp_model *model)
{
    if (model->ctx) zt_free(model->ctx, model->piece);
    model->piece = NULL;
}

/* ---- checks ---------------------------------------------------------------------------------- */

enum { LONGEST = 8000 }; /* SentencePiece's bound for a piece's bytes */

static zt_status bad_piece(const zt_sp_model *model, int32_t index, const char *what)
{
    char escaped[80];
    zt_bytes text = model->piece[index].text;
    return zt_fail(model->ctx, ZT_EDATA, "%s: piece %d, '%s', %s", model->file, index,
                   zt_escape(escaped, sizeof escaped, text.data, text.n < 40 ? text.n : 40), what);
}

/* A zero byte as a piece: some converters add one beside <0x00>; it is never met. */
static bool is_lone_zero(const zt_sp_model *model, zt_bytes text)
{
    return model->byte_fallback && text.n == 1 && text.data[0] == 0;
}

static zt_status check_piece(zt_sp_model *model, int32_t index, bool has_byte[256])
{
    zt_sp_piece *piece = &model->piece[index];
    int byte = zt_vocab_hex_byte(piece->text);
    if (!piece->text.n) return bad_piece(model, index, "is empty");
    if (piece->text.n >= LONGEST) return bad_piece(model, index, "is longer than 7999 bytes");
    if (is_lone_zero(model, piece->text))
        piece->type = ZT_TOK_UNUSED;
    else if (memchr(piece->text.data, 0, piece->text.n))
        return bad_piece(model, index, "contains a zero byte");
    if (isnan(piece->score) || (model->type == ZT_SP_UNIGRAM && isinf(piece->score)))
        return bad_piece(model, index, "has a score that is not a finite number");
    if (piece->type == ZT_TOK_UNKNOWN && model->unk >= 0) return bad_piece(model, index, "is a second unknown piece");
    if (piece->type == ZT_TOK_UNKNOWN) model->unk = index;
    if (piece->type == ZT_TOK_BYTE && !model->byte_fallback)
        return bad_piece(model, index, "is a byte piece, but byte_fallback is off");
    if (piece->type == ZT_TOK_BYTE && byte < 0) return bad_piece(model, index, "is a byte piece, but not of the form <0x41>");
    if (piece->type == ZT_TOK_BYTE) has_byte[byte] = true;
    return ZT_OK;
}

static bool is_ordinary(const zt_sp_piece *piece)
{
    return piece->type == ZT_TOK_NORMAL || piece->type == ZT_TOK_USER || piece->type == ZT_TOK_UNUSED;
}

/* No text occurs twice, among ordinary pieces or among the others; with BPE among all. */
static zt_status check_texts(const zt_sp_model *model)
{
    zt_map *seen[2] = {zt_map_new(model->ctx, (size_t)model->piece_count), zt_map_new(model->ctx, 300)};
    zt_status status = seen[0] && seen[1] ? ZT_OK : ZT_ENOMEM;
    for (int32_t i = 0; status == ZT_OK && i < model->piece_count; i++) {
        zt_bytes text = model->piece[i].text;
        zt_map *map = seen[model->type != ZT_SP_BPE && !is_ordinary(&model->piece[i])];
        if (is_lone_zero(model, text)) continue;
        status = zt_map_get(map, text.data, text.n, NULL) ? bad_piece(model, i, "occurs twice")
                                                          : zt_map_put(map, text.data, text.n, i);
    }
    zt_map_free(seen[0]);
    zt_map_free(seen[1]);
    return status;
}

zt_status zt_sp_check(zt_sp_model *model)
{
    bool has_byte[256] = {false}, ordinary = false;
    zt_status status = ZT_OK;
    model->unk = -1;
    for (int32_t i = 0; status == ZT_OK && i < model->piece_count; i++) {
        status = check_piece(model, i, has_byte);
        ordinary = ordinary || is_ordinary(&model->piece[i]);
    }
    if (status == ZT_OK && model->unk < 0 && !model->byte_fallback)
        return zt_fail(model->ctx, ZT_EDATA, "%s: none of the %d pieces is the unknown piece", model->file, model->piece_count);
    for (int byte = 0; status == ZT_OK && model->byte_fallback && byte < 256; byte++)
        if (!has_byte[byte])
            status = zt_fail(model->ctx, ZT_EDATA, "%s: byte_fallback is on, but the piece <0x%02X> is missing", model->file,
                             (unsigned)byte);
    if (status == ZT_OK && !ordinary && model->type == ZT_SP_UNIGRAM)
        return zt_fail(model->ctx, ZT_EDATA, "%s: none of the %d pieces is a normal piece", model->file, model->piece_count);
    return status == ZT_OK ? check_texts(model) : status;
}

int32_t zt_sp_control(const zt_sp_model *model, zt_bytes text)
{
    for (int32_t i = 0; i < model->piece_count; i++) {
        zt_bytes piece_text = model->piece[i].text;
        if (model->piece[i].type == ZT_TOK_CONTROL && piece_text.n == text.n &&
            memcmp(piece_text.data, text.data, piece_text.n) == 0)
            return i;
    }
    return -1;
}

zt_bytes zt_sp_of(const zt_gguf *gguf)
{
    enum { HEAD = 12 }; /* the elements' kind and their count */
    zt_gguf_kind kind, element_kind;
    zt_bytes value = {"", 0};
    int64_t count;
    if (!zt_gguf_array(gguf, ZT_SP_KEY, &element_kind, &count) || (element_kind != ZT_GGUF_U8 && element_kind != ZT_GGUF_I8))
        return value;
    for (int64_t i = 0; i < zt_gguf_n_keys(gguf); i++) {
        zt_bytes name = zt_gguf_key_value(gguf, i, &kind, &value);
        if (name.n == strlen(ZT_SP_KEY) && memcmp(name.data, ZT_SP_KEY, name.n) == 0)
            return (zt_bytes){value.data + HEAD, value.n - HEAD};
    }
    return (zt_bytes){"", 0};
}

/* A piece of less than 128 bytes that begins with its text, or of more. */
bool zt_sp_sniff(const void *head, size_t size)
{
    const unsigned char *bytes = head;
    return size >= 4 && bytes[0] == (1 << 3 | BYTES) &&
           (bytes[1] < 128 ? bytes[1] > 2 && bytes[2] == (1 << 3 | BYTES) : bytes[2] < 128 && bytes[3] == (1 << 3 | BYTES));
}
