/* hf_spm.c - owns tokenizer.model: SentencePiece's own file, of which the pieces are wanted.
 *
 * A protocol buffer: fields of a varint (number << 3 | wire type). Of ModelProto field 1 is a
 * piece, and of a piece 1 is the text, 2 the score (f32), 3 the type (1 when absent). Source:
 * sentencepiece_model.proto of google/sentencepiece, as facts; what becomes of the pieces:
 * _create_vocab_sentencepiece of llama.cpp's conversion/base.py, as facts. */
#include "lib/llm/hf/hf.h"

#include <inttypes.h>
#include <stdio.h>
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

typedef struct field {
    uint64_t number, value; /* of a varint, and of four or eight bytes */
    wire bytes;             /* of a text or message */
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
    if (!varint(w, &tag))
        return false;
    f->number = tag >> 3;
    switch (tag & 7) {
    case 0: return varint(w, &f->value);
    case 1: return fixed(w, 8, &f->value);
    case 5: return fixed(w, 4, &f->value);
    case 2:
        if (!varint(w, &n) || n > (uint64_t)(w->end - w->p))
            return false;
        f->bytes = (wire){w->p, w->p + n};
        w->p += n;
        return true;
    default: return false;
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

typedef struct piece {
    zt_bytes text;
    float score;
    hf_word type;
} piece;

static bool read_piece(wire w, piece *p)
{
    *p = (piece){{"", 0}, 0, HF_WORD_NORMAL};
    for (field f; w.p < w.end;) {
        if (!next_field(&w, &f))
            return false;
        uint32_t bits = (uint32_t)f.value;
        if (f.number == 1 && f.bytes.p)
            p->text = (zt_bytes){(const char *)f.bytes.p, (size_t)(f.bytes.end - f.bytes.p)};
        else if (f.number == 2)
            memcpy(&p->score, &bits, sizeof p->score);
        else if (f.number == 3 && f.value >= 1 && f.value <= HF_WORD_BYTE &&
                 f.value != HF_WORD_USER)
            p->type = (hf_word)f.value; /* numbered as GGUF's; the user's own count as any other */
    }
    return true;
}

static zt_status broken(const hf *m)
{
    return zt_fail(m->ctx, ZT_EDATA, "%stokenizer.model: not SentencePiece's, or cut short",
                   m->folder.data);
}

/* fn (may be NULL) for every piece. */
static zt_status walk(hf *m, const char *text, size_t n, hf_words *words, int64_t *count)
{
    wire w = {(const unsigned char *)text, (const unsigned char *)text + n};
    zt_status s = ZT_OK;
    *count = 0;
    for (field f; s == ZT_OK && w.p < w.end;) {
        piece p;
        if (!next_field(&w, &f))
            return broken(m);
        if (f.number != 1)
            continue;
        if (!f.bytes.p || !read_piece(f.bytes, &p))
            return broken(m);
        if (words)
            s = zt_hf_words_set(words, *count, p.text, p.type, p.score);
        ++*count;
    }
    return s;
}

zt_status zt_hf_spm_count(hf *m, const char *text, size_t n, int64_t *count)
{
    zt_status s = walk(m, text, n, NULL, count);
    return s == ZT_OK && *count == 0 ? broken(m) : s;
}

/* ---- what other files add -------------------------------------------------------------------- */

static zt_bytes text_of(const json_t *v)
{
    const char *s = json_string_value(v);
    return (zt_bytes){s ? s : "", json_string_length(v)};
}

/* added_tokens.json: {"text": id} */
static zt_status add_file(hf_words *w)
{
    zt_status s;
    const char *key;
    json_t *added = zt_hf_load(w->m, "added_tokens.json", &s), *v;
    json_object_foreach(added, key, v) if (s == ZT_OK && json_is_integer(v)) s = zt_hf_words_set(
        w, json_integer_value(v), (zt_bytes){key, strlen(key)}, HF_WORD_USER, -1000);
    json_decref(added);
    return s;
}

/* tokenizer_config.json's added_tokens_decoder: {"id": {"content", "special"}} */
static zt_status add_decoder(hf_words *w)
{
    zt_status s;
    const char *key;
    json_t *config = zt_hf_load(w->m, "tokenizer_config.json", &s), *v;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), key, v)
    {
        int64_t id;
        const json_t *content = json_object_get(v, "content");
        bool special = json_is_true(json_object_get(v, "special"));
        if (s != ZT_OK || !json_is_string(content) || !zt_parse_i64(key, &id))
            continue;
        s = w->m->arch.id == HF_PHI3 /* as they are */
                ? zt_hf_words_set(w, id, text_of(content), special ? HF_WORD_CONTROL : HF_WORD_USER,
                                  -1000)
                : zt_hf_words_add(w, id, text_of(content), special, -1000);
    }
    json_decref(config);
    return s;
}

zt_status zt_hf_spm_read(hf_words *w, const char *text, size_t n)
{
    int64_t count;
    zt_status s = walk(w->m, text, n, w, &count);
    if (s == ZT_OK)
        s = add_file(w);
    return s == ZT_OK ? add_decoder(w) : s;
}

/* ---- and back -------------------------------------------------------------------------------- */

static zt_status put_varint(zt_str *out, uint64_t v)
{
    zt_status s = ZT_OK;
    for (; s == ZT_OK && v > 127; v >>= 7)
        s = zt_str_putc(out, (char)(v | 128));
    return s == ZT_OK ? zt_str_putc(out, (char)v) : s;
}

static int varint_bytes(uint64_t v)
{
    int n = 1;
    for (; v > 127; v >>= 7)
        n++;
    return n;
}

zt_status zt_hf_spm_put(zt_str *out, zt_bytes text, float score, hf_word type)
{
    bool normal = type == HF_WORD_NORMAL || type == HF_WORD_USER;
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    uint64_t n = 1 + (uint64_t)varint_bytes(text.n) + text.n + 5 + (normal ? 0 : 2);
    zt_status s = zt_str_putc(out, 1 << 3 | 2);
    if (s == ZT_OK)
        s = put_varint(out, n);
    if (s == ZT_OK)
        s = zt_str_putc(out, 1 << 3 | 2);
    if (s == ZT_OK)
        s = put_varint(out, text.n);
    if (s == ZT_OK)
        s = zt_str_put(out, text.data, text.n);
    if (s == ZT_OK)
        s = zt_str_putc(out, 2 << 3 | 5);
    for (int i = 0; s == ZT_OK && i < 4; i++)
        s = zt_str_putc(out, (char)(bits >> 8 * i));
    if (s == ZT_OK && !normal)
        s = zt_str_putc(out, 3 << 3 | 0);
    return s == ZT_OK && !normal ? zt_str_putc(out, (char)type) : s;
}

/* TrainerSpec (field 2): model_type (3) is BPE; NormalizerSpec (3): name (1) "identity", and
 * nothing taken from blanks but that a space goes first: remove_extra_whitespaces (4) off. */
zt_status zt_hf_spm_end(zt_str *out)
{
    static const char tail[] = "\x12\x02\x18\x02"
                               "\x1a\x0c\x0a\x08identity\x20\x00";
    return zt_str_put(out, tail, sizeof tail - 1);
}
