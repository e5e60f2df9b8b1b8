/* real_model.h - for tests of the two models that scripts/model fetches: their names in golden/llm,
 * and where they lie. */
#ifndef ZT_TEST_REAL_MODEL_H
#define ZT_TEST_REAL_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/common/tap.h"

enum { REAL_MODELS = 2 };

static const struct {
    const char *name, *file;
} real_model[REAL_MODELS] = {{"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"}, {"gemma3", "gemma-3-270m-q4_k_m.gguf"}};

/* Its path, good until the next call; NULL after a skip where it was not fetched. */
static inline const char *real_path(int i)
{
    static char path[4096];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && *cache;
    snprintf(path, sizeof path, "%s%s/zt/%s", own ? cache : home ? home : "", own ? "" : "/.cache", real_model[i].file);
    if (access(path, R_OK) == 0) return path;
    skip("no model %s: see scripts/model", path);
    return NULL;
}

#endif
