/* read_gguf.h - for tests and the fuzzer: touch everything that an open GGUF file says. */
#ifndef ZT_READ_GGUF_H
#define ZT_READ_GGUF_H

#include <stdlib.h>
#include <string.h>

#include "lib/io/gguf.h"

/* A key's value by every getter. Returns a sum of bytes seen, so that nothing is left out. */
__attribute__((unused)) static size_t gguf_walk_key(const zt_gguf *gguf, const char *key)
{
    zt_bytes s = {.n = 0};
    zt_gguf_kind kind;
    int64_t count = 0, i;
    double d;
    size_t sum = zt_gguf_i64(gguf, key, &i) + zt_gguf_f64(gguf, key, &d) + zt_gguf_str(gguf, key, &s);
    for (size_t k = 0; k < s.n; k++) sum += (unsigned char)s.data[k];
    if (!zt_gguf_array(gguf, key, &kind, &count)) return sum;
    void *list = calloc((size_t)count + 1, sizeof(zt_bytes));
    if (!list) return sum;
    if (zt_gguf_array_strs(gguf, key, list, count)) {
        for (int64_t k = 0; k < count; k++) sum += ((zt_bytes *)list)[k].n;
        s = count ? ((zt_bytes *)list)[count - 1] : s;
        for (size_t k = 0; k < s.n; k++) sum += (unsigned char)s.data[k];
        sum += zt_gguf_array_str(gguf, key, count - 1).n;
    }
    sum += zt_gguf_array_i64(gguf, key, list, count) + zt_gguf_array_f64(gguf, key, list, count);
    free(list);
    return sum;
}

/* True when the file holds together: every key is found, every tensor's ends can be read. */
__attribute__((unused)) static bool gguf_walk(zt_gguf *gguf)
{
    zt_store store = zt_gguf_store(gguf);
    size_t sum = 0;
    bool sound = strlen(zt_gguf_id(gguf)) == 32;
    for (int64_t i = 0; i < zt_gguf_n_keys(gguf); i++) {
        zt_gguf_kind kind;
        zt_bytes key = zt_gguf_key(gguf, i, &kind);
        char *name = calloc(key.n + 1, 1);
        if (!name) return false;
        memcpy(name, key.data, key.n);
        sum += gguf_walk_key(gguf, name);
        free(name);
    }
    for (int64_t i = 0; i < zt_gguf_n_tensors(gguf); i++) {
        zt_type type;
        size_t bytes;
        uint64_t at;
        char byte;
        const char *name = zt_gguf_tensor(gguf, i, &type, &at, &bytes);
        sound &= zt_gguf_find(gguf, name) == i && at + bytes <= zt_gguf_file_size(gguf);
        sound &= type.rank < 0 || (zt_type_check(NULL, &type, NULL) && zt_type_bytes(&type) == bytes);
        if (bytes)
            sound &= store.read(store.user, i, 0, &byte, 1) == ZT_OK && store.read(store.user, i, bytes - 1, &byte, 1) == ZT_OK;
    }
    return sound && sum != SIZE_MAX;
}

#endif
