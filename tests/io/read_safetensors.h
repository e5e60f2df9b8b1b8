/* read_safetensors.h - for tests: read all that an open safetensors file says of itself, as a user would. */
#ifndef ZT_TEST_READ_SAFETENSORS_H
#define ZT_TEST_READ_SAFETENSORS_H

#include "lib/io/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* false: an answer contradicts another. */
__attribute__((unused)) static bool st_walk(zt_safetensors *safetensors)
{
    zt_store store = zt_safetensors_store(safetensors);
    bool sound = true;
    for (int64_t i = 0; i < zt_safetensors_count(safetensors); i++) {
        const zt_safetensors_entry *e = zt_safetensors_get(safetensors, i);
        char first, last;
        sound = sound && zt_safetensors_find(safetensors, e->name) == i && e->dtype &&
                (e->type.rank < 0 || zt_type_bytes(&e->type) == e->bytes);
        if (e->bytes)
            sound = sound && store.read(store.user, i, 0, &first, 1) == ZT_OK &&
                    store.read(store.user, i, e->bytes - 1, &last, 1) == ZT_OK;
    }
    const char *value;
    size_t count;
    for (int64_t i = 0; zt_safetensors_meta(safetensors, i, &value, &count); i++) sound = sound && strlen(value) == count;
    return sound;
}

#endif
