/* hyper_keys.c - keys that may be absent: their values, where they are there. A key of another kind than the architecture's is
 * bad data; it must not count as absent, for then the model would run with a default.
 */
#include "lib/llm/arch/hyper_internal.h"

#include <inttypes.h>
#include <string.h>

/* False. Fails if the key last looked at is in the file: it is not what was expected. */
static bool refuse_present(zt_key_reader *reader, const char *expected)
{
    size_t length = strlen(reader->key);
    for (int64_t i = 0; i < zt_gguf_n_keys(reader->gguf) && reader->status == ZT_OK; i++) {
        zt_gguf_kind kind;
        zt_bytes name = zt_gguf_key(reader->gguf, i, &kind);
        if (name.n == length && memcmp(name.data, reader->key, length) == 0)
            reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: key '%s' is not %s (its kind is %s)", zt_gguf_name(reader->gguf),
                                     reader->key, expected, zt_gguf_kind_name(kind));
    }
    return false;
}

bool zt_hyper_key_i64(zt_key_reader *reader, int64_t *value)
{
    return zt_gguf_i64(reader->gguf, reader->key, value) || refuse_present(reader, "a whole number");
}

bool zt_hyper_i64(zt_key_reader *reader, const char *suffix, int64_t *value)
{
    zt_hyper_key(reader, suffix);
    return zt_hyper_key_i64(reader, value);
}

bool zt_hyper_f64(zt_key_reader *reader, const char *suffix, double *value)
{
    return zt_gguf_f64(reader->gguf, zt_hyper_key(reader, suffix), value) || refuse_present(reader, "a number");
}

bool zt_hyper_str(zt_key_reader *reader, const char *suffix, zt_bytes *value)
{
    return zt_gguf_str(reader->gguf, zt_hyper_key(reader, suffix), value) || refuse_present(reader, "a text");
}

bool zt_hyper_flag(zt_key_reader *reader, const char *suffix, int64_t *value)
{
    int64_t number = 0;
    if (!zt_hyper_i64(reader, suffix, &number)) return false;
    if ((number != 0 && number != 1) && reader->status == ZT_OK)
        reader->status = zt_fail(reader->ctx, ZT_EDATA, "%s: %s is %" PRId64 ", expected true or false",
                                 zt_gguf_name(reader->gguf), reader->key, number);
    *value = number;
    return true;
}
