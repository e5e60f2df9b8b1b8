/* junit.c - the XML that continuous integration reads (JUnit's, as Jenkins and GitLab take it). */
#include "tools/common/svg.h"
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put(zt_str *s, const char *before, const char *text, const char *after)
{
    zt_str_puts(s, before);
    zt_svg_put_escaped(s, text, strlen(text));
    zt_str_puts(s, after);
}

static void put_case(zt_str *s, const char *suite, const bench_case *c)
{
    put(s, "    <testcase classname=\"zt-bench.", suite, "\"");
    put(s, " name=\"", c->name, "\"");
    if (c->seconds > 0) zt_str_printf(s, " time=\"%.6f\"", c->seconds);
    zt_str_puts(s, ">\n");
    if (c->failure) put(s, "      <failure message=\"", c->failure, "\"/>\n");
    put(s, "      <system-out>", c->text, "</system-out>\n    </testcase>\n");
}

zt_status bench_junit(zt_cli *cli, const char *suite, const bench_case *cases, int64_t n)
{
    zt_str s;
    int64_t failures = 0;
    double seconds = 0;
    for (int64_t i = 0; i < n; i++) {
        failures += cases[i].failure != NULL;
        seconds += cases[i].seconds;
    }
    zt_str_init(&s, cli->ctx);
    zt_str_puts(&s, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    put(&s, "  <testsuite name=\"zt-bench.", suite, "\"");
    zt_str_printf(&s, " tests=\"%" PRId64 "\" failures=\"%" PRId64 "\"", n, failures);
    zt_str_printf(&s, " errors=\"0\" skipped=\"0\" time=\"%.6f\">\n", seconds);
    for (int64_t i = 0; i < n; i++) put_case(&s, suite, &cases[i]);
    zt_str_puts(&s, "  </testsuite>\n</testsuites>\n");
    zt_status st = zt_ctx_status(cli->ctx);
    if (st == ZT_OK) st = bench_write(cli, s.data, s.len);
    zt_str_fini(&s);
    return st;
}
