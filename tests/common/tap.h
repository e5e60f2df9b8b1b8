/* tap.h - the Test Anything Protocol for C tests: ok(condition, "what
 * %d", i); return tap_done(); */
#ifndef ZT_TAP_H
#define ZT_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static bool ok(bool cond, const char *fmt, ...)
{
    va_list ap;
    printf("%sok %d - ", cond ? "" : "not ", ++tap_count);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    tap_failed += !cond;
    return cond;
}

__attribute__((format(printf, 1, 2), unused)) static void skip(const char *fmt, ...)
{
    va_list ap;
    printf("ok %d # SKIP ", ++tap_count);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

__attribute__((format(printf, 1, 2), unused)) static void diag(const char *fmt, ...)
{
    va_list ap;
    printf("# ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

__attribute__((unused)) static int tap_done(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed > 0;
}

#endif
