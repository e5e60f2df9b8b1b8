/* defaults.c - what an option is where it is not given, in words: the value that its variable begins
 * with, unless the row says it otherwise. */
#include "tools/common/internal.h"

#include <inttypes.h>
#include <string.h>

/* The i-th word of "auto|always|never"; "" where there is none. */
static void put_word(const char *words, int i, zt_default text)
{
    const char *p = i < 0 ? NULL : words;
    for (; i > 0 && p; i--) {
        p = strchr(p, '|');
        p = p ? p + 1 : NULL;
    }
    snprintf(text, sizeof(zt_default), "%.*s", p ? (int)strcspn(p, "|") : 0, p ? p : "");
}

/* "1M" where that is exact, else bytes; 0 is none. */
static void put_size(size_t n, zt_default text)
{
    bool millions = n > 0 && n % 1000000 == 0;
    if (n) snprintf(text, sizeof(zt_default), millions ? "%zuM" : "%zu", millions ? n / 1000000 : n);
}

/* A number below the least that can be given stands for none. */
static void put_integer(const zt_opt *o, zt_default text)
{
    int64_t x = *(const int64_t *)o->value;
    if ((o->min == 0 && o->max == 0) || x >= o->min)
        snprintf(text, sizeof(zt_default), "%" PRId64, x);
}

static void put_real(const zt_opt *o, zt_default text)
{
    double x = *(const double *)o->value;
    if ((o->fmin == 0 && o->fmax == 0) || x >= o->fmin) snprintf(text, sizeof(zt_default), "%g", x);
}

static void put_value(const zt_opt *o, zt_default text)
{
    const char *s = o->kind == ZT_OPT_STR ? *(const char *const *)o->value : NULL;
    if (s) snprintf(text, sizeof(zt_default), "%s", s);
    if (o->kind == ZT_OPT_I64) put_integer(o, text);
    if (o->kind == ZT_OPT_F64) put_real(o, text);
    if (o->kind == ZT_OPT_SIZE) put_size(*(const size_t *)o->value, text);
    if (o->kind == ZT_OPT_WORD) put_word(o->arg, *(const int *)o->value, text);
    if (o->kind == ZT_OPT_U64)
        snprintf(text, sizeof(zt_default), "%" PRIu64, *(const uint64_t *)o->value);
}

void zt_default_of(const zt_opt *o, zt_default text)
{
    *text = '\0';
    if (!zt_option_takes_value(o)) return;
    if (o->otherwise)
        snprintf(text, sizeof(zt_default), "%s", o->otherwise);
    else
        put_value(o, text);
    if (!*text) strcpy(text, "none");
}
