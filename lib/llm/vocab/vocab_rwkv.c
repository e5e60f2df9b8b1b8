/* vocab_rwkv.c - the 'rwkv' tokenizer of RWKV's World models: at each place of a text the longest token that is there.
 *
 * Tokens are strings of bytes, which GGUF writes as Python does: \n, \t, \r, \xff, and a backslash before itself and
 * quotes. Control tokens and unused ones are not found in plain text. llama.cpp finds them there; the authors' tokenizer
 * (rwkv_tokenizer.py of BlinkDL's ChatRWKV, rwkv_vocab_v20230424.txt; as facts) does not have them.
 */
#include "lib/llm/vocab/vocab.h"

#include <string.h>

/* ---- escapes --------------------------------------------------------------------------------- */

static int hex_digit(char letter)
{
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
           : letter >= 'A' && letter <= 'F' ? letter - 'A' + 10
                                            : -1;
}

/* The byte that a text of `size` bytes begins with, and *used, how many it takes; -1: not a valid escape. */
static int read_byte(const char *text, size_t size, size_t *used)
{
    *used = 1;
    if (text[0] != '\\') return (unsigned char)text[0];
    if (size < 2) return -1;
    *used = 2;
    switch (text[1]) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'x': break;
    default: return (unsigned char)text[1];
    }
    int high = size < 4 ? -1 : hex_digit(text[2]), low = size < 4 ? -1 : hex_digit(text[3]);
    *used = 4;
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Appends the bytes of a token. */
static zt_status put_bytes(const zt_vocab *vocab, int32_t id, zt_str *out)
{
    zt_bytes text = vocab->text[id];
    zt_status status = ZT_OK;
    char escaped[80];
    for (size_t i = 0, used; !status && i < text.n; i += used) {
        int byte = read_byte(text.data + i, text.n - i, &used);
        status = byte >= 0 ? zt_str_putc(out, (char)byte)
                           : zt_fail(vocab->ctx, ZT_EDATA, "%s: token %d, '%s', has an escape that is not valid", vocab->file, id,
                                     zt_escape(escaped, sizeof escaped, text.data, text.n));
    }
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static zt_status open_rwkv(zt_vocab *vocab, const zt_vocab_spec *spec)
{
    zt_str bytes;
    (void)spec;
    vocab->trie = zt_trie_new(vocab->ctx);
    zt_status status = vocab->trie ? ZT_OK : ZT_ENOMEM;
    zt_str_init(&bytes, vocab->ctx);
    for (int32_t id = 0; !status && id < vocab->token_count; id++) {
        int type = zt_vocab_type(vocab, id);
        if (type != ZT_TOK_NORMAL && type != ZT_TOK_USER && type != ZT_TOK_BYTE) continue;
        zt_str_clear(&bytes);
        status = put_bytes(vocab, id, &bytes);
        if (!status && bytes.len) status = zt_trie_put(vocab->trie, (zt_bytes){bytes.data, bytes.len}, id);
    }
    zt_str_fini(&bytes);
    return status;
}

static void close_rwkv(zt_vocab *vocab) { zt_trie_free(vocab->trie); }

/* ---- text to ids, and back ------------------------------------------------------------------- */

/* The longest token that the text begins with, and its length; -1 and 1: there is none. */
static int32_t find_longest(const zt_vocab *vocab, const char *text, size_t size, size_t *length)
{
    int32_t found = -1;
    uint32_t node = ZT_TRIE_ROOT;
    *length = 1;
    for (size_t i = 0; i < size; i++) {
        node = zt_trie_step(vocab->trie, node, (unsigned char)text[i]);
        if (node == ZT_TRIE_NONE) break;
        int32_t id = zt_trie_value(vocab->trie, node);
        if (id < 0) continue;
        found = id;
        *length = i + 1;
    }
    return found;
}

/* A byte that begins no token is the unknown token, or left out. */
static zt_status encode_rwkv(const zt_vocab *vocab, const char *text, size_t size, zt_merger *merger, zt_ids *ids)
{
    zt_status status = ZT_OK;
    (void)merger;
    for (size_t i = 0, length; !status && i < size; i += length) {
        int32_t id = find_longest(vocab, text + i, size - i, &length);
        if (id < 0) id = vocab->unk;
        if (id >= 0) status = zt_ids_push(vocab->ctx, ids, id);
    }
    return status;
}

static zt_status decode_rwkv(const zt_vocab *vocab, int32_t id, bool first, zt_str *out)
{
    (void)first;
    return put_bytes(vocab, id, out);
}

const zt_vocab_kind zt_vocab_rwkv = {
    .name = "rwkv",
    .open = open_rwkv,
    .close = close_rwkv,
    .encode = encode_rwkv,
    .decode = decode_rwkv,
};
