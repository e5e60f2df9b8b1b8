/* defaults.c - what an option is where it is not given, in words: the value that its variable begins
 * with, unless the row says it otherwise. */
#include "tools/common/internal.h"

#include <inttypes.h>
#include <string.h>

/* The i-th word of "auto|always|never"; "" where there is none. */
static void put_word(const char *words, int i, zt_default text)
{
    const char *word = i < 0 ? NULL : words;
    for (; i > 0 && word; i--) {
        word = strchr(word, '|');
        word = word ? word + 1 : NULL;
    }
    snprintf(text, sizeof(zt_default), "%.*s", word ? (int)strcspn(word, "|") : 0, word ? word : "");
}

/* "1M" where that is exact, else bytes; 0 is none. */
static void put_size(size_t size, zt_default text)
{
    bool millions = size > 0 && size % 1000000 == 0;
    if (size) snprintf(text, sizeof(zt_default), millions ? "%zuM" : "%zu", millions ? size / 1000000 : size);
}

/* A number below the least that can be given stands for none. */
static void put_integer(const zt_opt *option, zt_default text)
{
    int64_t value = *(const int64_t *)option->value;
    if ((option->min == 0 && option->max == 0) || value >= option->min) snprintf(text, sizeof(zt_default), "%" PRId64, value);
}

static void put_real(const zt_opt *option, zt_default text)
{
    double value = *(const double *)option->value;
    if ((option->fmin == 0 && option->fmax == 0) || value >= option->fmin) snprintf(text, sizeof(zt_default), "%g", value);
}

static void put_value(const zt_opt *option, zt_default text)
{
    const char *string = option->kind == ZT_OPT_STR ? *(const char *const *)option->value : NULL;
    if (string) snprintf(text, sizeof(zt_default), "%s", string);
    if (option->kind == ZT_OPT_I64) put_integer(option, text);
    if (option->kind == ZT_OPT_F64) put_real(option, text);
    if (option->kind == ZT_OPT_SIZE) put_size(*(const size_t *)option->value, text);
    if (option->kind == ZT_OPT_WORD) put_word(option->arg, *(const int *)option->value, text);
    if (option->kind == ZT_OPT_U64) snprintf(text, sizeof(zt_default), "%" PRIu64, *(const uint64_t *)option->value);
}

void zt_default_of(const zt_opt *option, zt_default text)
{
    *text = '\0';
    if (!zt_option_takes_value(option)) return;
    if (option->otherwise)
        snprintf(text, sizeof(zt_default), "%s", option->otherwise);
    else
        put_value(option, text);
    if (!*text) strcpy(text, "none");
}
