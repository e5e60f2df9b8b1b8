/* sentencepiece.c - owns tokenizer.model: SentencePiece's protocol buffer, read and checked.
 *
 * Fields are a varint (number << 3 | wire type) and a value. ModelProto: 1 a piece, 2 TrainerSpec,
 * 3 NormalizerSpec, 5 the denormalizer's. Of a field given twice the last counts, and a message
 * given twice is one. Source: sentencepiece_model.proto and model_interface.cc of
 * google/sentencepiece, as facts. */
#include "lib/llm/vocab/sentencepiece.h"
#include "lib/base/foreign.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- the wire -------------------------------------------------------------------------------- */

typedef struct wire {
    const unsigned char *p, *end;
} wire;

static bool varint(wire *w, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && w->p < w->end; shift += 7) {
        unsigned char c = *w->p++;
        *v |= (uint64_t)(c & 0x7f) << shift;
        if (!(c & 0x80))
            return true;
    }
    return false;
}

typedef enum wire_type { VARINT, FIXED64, BYTES, FIXED32 = 5 } wire_type;

typedef struct field {
    uint64_t number, value; /* the value of a varint, and of four or eight bytes */
    unsigned type;
    wire bytes; /* of BYTES */
} field;

static bool fixed(wire *w, int n, uint64_t *v)
{
    *v = 0;
    if (w->end - w->p < n)
        return false;
    for (int i = 0; i < n; i++)
        *v |= (uint64_t)w->p[i] << 8 * i;
    w->p += n;
    return true;
}

/* The next field; false: it is cut short, or of a wire type that is not in use. */
static bool next_field(wire *w, field *f)
{
    uint64_t tag, n;
    *f = (field){0};
    if (!varint(w, &tag) || tag >> 3 == 0 || tag >> 32)
        return false;
    f->number = tag >> 3;
    f->type = tag & 7;
    switch (f->type) {
    case VARINT: return varint(w, &f->value);
    case FIXED64: return fixed(w, 8, &f->value);
    case FIXED32: return fixed(w, 4, &f->value);
    case BYTES:
        if (!varint(w, &n) || n > (uint64_t)(w->end - w->p))
            return false;
        f->bytes = (wire){w->p, w->p + n};
        w->p += n;
        return true;
    default: return false;
    }
}

static zt_bytes text_of(const field *f)
{
    return (zt_bytes){(const char *)f->bytes.p, (size_t)(f->bytes.end - f->bytes.p)};
}

static zt_status broken(const zt_sp_model *m)
{
    return zt_fail(m->ctx, ZT_EDATA, "%s: not a SentencePiece model, or cut short", m->file);
}

static bool is_field(const field *f, uint64_t number, wire_type type)
{
    return f->number == number && f->type == type;
}

/* ---- messages -------------------------------------------------------------------------------- */

static zt_status read_piece(zt_sp_model *m, wire w)
{
    zt_sp_piece p = {{"", 0}, 0, ZT_TOK_NORMAL};
    for (field f; w.p < w.end;) {
        if (!next_field(&w, &f))
            return broken(m);
        uint32_t bits = (uint32_t)f.value;
        if (is_field(&f, 1, BYTES))
            p.text = text_of(&f);
        else if (is_field(&f, 2, FIXED32))
            memcpy(&p.score, &bits, sizeof p.score);
        else if (is_field(&f, 3, VARINT) && (f.value < ZT_TOK_NORMAL || f.value > ZT_TOK_BYTE))
            return zt_fail(m->ctx, ZT_ENOTSUP,
                           "%s: piece %d has type %" PRIu64 ", types from 1 to %d are known",
                           m->file, m->n, f.value, ZT_TOK_BYTE);
        else if (is_field(&f, 3, VARINT))
            p.type = (uint8_t)f.value;
    }
    m->piece[m->n++] = p;
    return ZT_OK;
}

static zt_status read_trainer(zt_sp_model *m, wire w)
{
    for (field f; w.p < w.end;) {
        if (!next_field(&w, &f))
            return broken(m);
        if (is_field(&f, 3, VARINT) && (f.value < ZT_SP_UNIGRAM || f.value > ZT_SP_CHAR))
            return zt_fail(m->ctx, ZT_ENOTSUP,
                           "%s: model type %" PRIu64
                           " is not known (known: 1 unigram, 2 BPE, 3 word, 4 char)",
                           m->file, f.value);
        if (is_field(&f, 3, VARINT))
            m->type = (zt_sp_type)f.value;
        else if (is_field(&f, 24, VARINT))
            m->suffix = f.value != 0;
        else if (is_field(&f, 35, VARINT))
            m->byte_fallback = f.value != 0;
        else if (is_field(&f, 44, BYTES))
            m->unk_surface = text_of(&f);
        else if (is_field(&f, 46, BYTES) && text_of(&f).n)
            m->bos_piece = text_of(&f);
        else if (is_field(&f, 47, BYTES) && text_of(&f).n)
            m->eos_piece = text_of(&f);
    }
    return ZT_OK;
}

static zt_status read_rule(const zt_sp_model *m, wire w, zt_sp_rule *r)
{
    for (field f; w.p < w.end;) {
        if (!next_field(&w, &f))
            return broken(m);
        if (is_field(&f, 2, BYTES))
            r->charsmap = text_of(&f);
        else if (is_field(&f, 3, VARINT))
            r->dummy_prefix = f.value != 0;
        else if (is_field(&f, 4, VARINT))
            r->remove_extra = f.value != 0;
        else if (is_field(&f, 5, VARINT))
            r->escape = f.value != 0;
    }
    return ZT_OK;
}

/* "IQ== 0\n": tokens in base64, and their ranks. Llama 3's tokenizer.model is such a file. */
static bool is_tiktoken(const char *p, const char *end)
{
    size_t n = 0;
    for (; p < end && (isalnum((unsigned char)*p) || *p == '+' || *p == '/' || *p == '='); n++)
        p++;
    return n > 3 && n % 4 == 0 && end - p > 2 && p[0] == ' ' && p[1] == '0' && p[2] == '\n';
}

static zt_status not_pieces(const zt_sp_model *m, wire w)
{
    zt_status s = zt_foreign_fail(m->ctx, m->file, w.p, (size_t)(w.end - w.p));
    if (s == ZT_OK && is_tiktoken((const char *)w.p, (const char *)w.end))
        s = zt_fail(m->ctx, ZT_ENOTSUP,
                    "%s: a tiktoken vocabulary (tokens in base64), not a SentencePiece model: "
                    "tokenizer.json is needed",
                    m->file);
    return s == ZT_OK ? broken(m) : s;
}

static zt_status count_pieces(zt_sp_model *m, wire w)
{
    int64_t n = 0;
    const wire whole = w;
    for (field f; w.p < w.end; n += is_field(&f, 1, BYTES))
        if (!next_field(&w, &f))
            return not_pieces(m, whole);
    if (n < 1)
        return not_pieces(m, whole);
    if (n > INT32_MAX / 4)
        return zt_fail(m->ctx, ZT_EDATA, "%s: %" PRId64 " pieces, at most %d are possible", m->file,
                       n, INT32_MAX / 4);
    m->piece = zt_alloc_array(m->ctx, (size_t)n, sizeof *m->piece);
    return m->piece ? ZT_OK : ZT_ENOMEM;
}

zt_status zt_sp_read(zt_sp_model *m, zt_ctx *ctx, const char *file, zt_bytes bytes)
{
    static const zt_sp_rule usual = {.dummy_prefix = true, .remove_extra = true, .escape = true};
    wire w = {(const unsigned char *)bytes.data, (const unsigned char *)bytes.data + bytes.n};
    *m = (zt_sp_model){.ctx = ctx,
                       .file = file,
                       .unk = -1,
                       .type = ZT_SP_UNIGRAM,
                       .unk_surface = {" \xe2\x81\x87 ", 5},
                       .bos_piece = {"<s>", 3},
                       .eos_piece = {"</s>", 4},
                       .norm = usual,
                       .denorm = usual};
    zt_status s = count_pieces(m, w);
    for (field f; s == ZT_OK && w.p < w.end;) {
        next_field(&w, &f);
        if (is_field(&f, 1, BYTES))
            s = read_piece(m, f.bytes);
        else if (is_field(&f, 2, BYTES))
            s = read_trainer(m, f.bytes);
        else if (is_field(&f, 3, BYTES))
            s = read_rule(m, f.bytes, &m->norm);
        else if (is_field(&f, 5, BYTES))
            s = read_rule(m, f.bytes, &m->denorm);
    }
    return s;
}

void zt_sp_fini(zt_sp_model *m)
{
    if (m->ctx)
        zt_free(m->ctx, m->piece);
    m->piece = NULL;
}

/* ---- checks ---------------------------------------------------------------------------------- */

enum { LONGEST = 8000 }; /* SentencePiece's bound for a piece's bytes */

static zt_status bad_piece(const zt_sp_model *m, int32_t i, const char *what)
{
    char buf[80];
    zt_bytes t = m->piece[i].text;
    return zt_fail(m->ctx, ZT_EDATA, "%s: piece %d, '%s', %s", m->file, i,
                   zt_escape(buf, sizeof buf, t.data, t.n < 40 ? t.n : 40), what);
}

/* A zero byte as a piece: some converters add one beside <0x00>; it is never met. */
static bool is_lone_zero(const zt_sp_model *m, zt_bytes t)
{
    return m->byte_fallback && t.n == 1 && t.data[0] == 0;
}

static zt_status check_piece(zt_sp_model *m, int32_t i, bool has_byte[256])
{
    zt_sp_piece *p = &m->piece[i];
    int byte = zt_vocab_hex_byte(p->text);
    if (!p->text.n)
        return bad_piece(m, i, "is empty");
    if (p->text.n >= LONGEST)
        return bad_piece(m, i, "is longer than 7999 bytes");
    if (is_lone_zero(m, p->text))
        p->type = ZT_TOK_UNUSED;
    else if (memchr(p->text.data, 0, p->text.n))
        return bad_piece(m, i, "has a zero byte");
    if (isnan(p->score) || (m->type == ZT_SP_UNIGRAM && isinf(p->score)))
        return bad_piece(m, i, "has a score that is not a finite number");
    if (p->type == ZT_TOK_UNKNOWN && m->unk >= 0)
        return bad_piece(m, i, "is a second unknown piece");
    if (p->type == ZT_TOK_UNKNOWN)
        m->unk = i;
    if (p->type == ZT_TOK_BYTE && !m->byte_fallback)
        return bad_piece(m, i, "is a byte piece, but byte_fallback is off");
    if (p->type == ZT_TOK_BYTE && byte < 0)
        return bad_piece(m, i, "is a byte piece, but not of the form <0x41>");
    if (p->type == ZT_TOK_BYTE)
        has_byte[byte] = true;
    return ZT_OK;
}

static bool is_ordinary(const zt_sp_piece *p)
{
    return p->type == ZT_TOK_NORMAL || p->type == ZT_TOK_USER || p->type == ZT_TOK_UNUSED;
}

/* No text is there twice, among ordinary pieces or among the others; with BPE among all. */
static zt_status check_texts(const zt_sp_model *m)
{
    zt_map *seen[2] = {zt_map_new(m->ctx, (size_t)m->n), zt_map_new(m->ctx, 300)};
    zt_status s = seen[0] && seen[1] ? ZT_OK : ZT_ENOMEM;
    for (int32_t i = 0; s == ZT_OK && i < m->n; i++) {
        zt_bytes t = m->piece[i].text;
        zt_map *map = seen[m->type != ZT_SP_BPE && !is_ordinary(&m->piece[i])];
        if (is_lone_zero(m, t))
            continue;
        s = zt_map_get(map, t.data, t.n, NULL) ? bad_piece(m, i, "is there twice")
                                               : zt_map_put(map, t.data, t.n, i);
    }
    zt_map_free(seen[0]);
    zt_map_free(seen[1]);
    return s;
}

zt_status zt_sp_check(zt_sp_model *m)
{
    bool has_byte[256] = {false}, ordinary = false;
    zt_status s = ZT_OK;
    m->unk = -1;
    for (int32_t i = 0; s == ZT_OK && i < m->n; i++) {
        s = check_piece(m, i, has_byte);
        ordinary = ordinary || is_ordinary(&m->piece[i]);
    }
    if (s == ZT_OK && m->unk < 0 && !m->byte_fallback)
        return zt_fail(m->ctx, ZT_EDATA, "%s: none of the %d pieces is the unknown piece", m->file,
                       m->n);
    for (int b = 0; s == ZT_OK && m->byte_fallback && b < 256; b++)
        if (!has_byte[b])
            s = zt_fail(m->ctx, ZT_EDATA,
                        "%s: byte_fallback is on, but the piece <0x%02X> is missing", m->file,
                        (unsigned)b);
    if (s == ZT_OK && !ordinary && m->type == ZT_SP_UNIGRAM)
        return zt_fail(m->ctx, ZT_EDATA, "%s: none of the %d pieces is an ordinary one", m->file,
                       m->n);
    return s == ZT_OK ? check_texts(m) : s;
}

int32_t zt_sp_control(const zt_sp_model *m, zt_bytes text)
{
    for (int32_t i = 0; i < m->n; i++) {
        zt_bytes t = m->piece[i].text;
        if (m->piece[i].type == ZT_TOK_CONTROL && t.n == text.n &&
            memcmp(t.data, text.data, t.n) == 0)
            return i;
    }
    return -1;
}

zt_bytes zt_sp_of(const zt_gguf *g)
{
    enum { HEAD = 12 }; /* the elements' kind and their count */
    zt_gguf_kind kind, elem;
    zt_bytes value = {"", 0};
    int64_t n;
    if (!zt_gguf_array(g, ZT_SP_KEY, &elem, &n) || (elem != ZT_GGUF_U8 && elem != ZT_GGUF_I8))
        return value;
    for (int64_t i = 0; i < zt_gguf_n_keys(g); i++) {
        zt_bytes name = zt_gguf_key_value(g, i, &kind, &value);
        if (name.n == strlen(ZT_SP_KEY) && memcmp(name.data, ZT_SP_KEY, name.n) == 0)
            return (zt_bytes){value.data + HEAD, value.n - HEAD};
    }
    return (zt_bytes){"", 0};
}

/* A piece of less than 128 bytes that begins with its text, or of more. */
bool zt_sp_sniff(const void *head, size_t n)
{
    const unsigned char *p = head;
    return n >= 4 && p[0] == (1 << 3 | BYTES) &&
           (p[1] < 128 ? p[1] > 2 && p[2] == (1 << 3 | BYTES)
                       : p[2] < 128 && p[3] == (1 << 3 | BYTES));
}
