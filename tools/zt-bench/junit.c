/* junit.c - the XML that continuous integration reads (JUnit's, as Jenkins and GitLab take it). */
#include "tools/common/svg.h"
#include "tools/zt-bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_escaped(zt_str *out, const char *before, const char *text, const char *after)
{
    zt_str_puts(out, before);
    zt_svg_put_escaped(out, text, strlen(text));
    zt_str_puts(out, after);
}

static void put_case(zt_str *text, const char *suite, const bench_case *junit_case)
{
    put_escaped(text, "    <testcase classname=\"zt-bench.", suite, "\"");
    put_escaped(text, " name=\"", junit_case->name, "\"");
    if (junit_case->seconds > 0) zt_str_printf(text, " time=\"%.6f\"", junit_case->seconds);
    zt_str_puts(text, ">\n");
    if (junit_case->failure) put_escaped(text, "      <failure message=\"", junit_case->failure, "\"/>\n");
    put_escaped(text, "      <system-out>", junit_case->text, "</system-out>\n    </testcase>\n");
}

zt_status bench_junit(zt_cli *cli, const char *suite, const bench_case *cases, int64_t count)
{
    zt_str text;
    int64_t failures = 0;
    double seconds = 0;
    for (int64_t i = 0; i < count; i++) {
        failures += cases[i].failure != NULL;
        seconds += cases[i].seconds;
    }
    zt_str_init(&text, cli->ctx);
    zt_str_puts(&text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    put_escaped(&text, "  <testsuite name=\"zt-bench.", suite, "\"");
    zt_str_printf(&text, " tests=\"%" PRId64 "\" failures=\"%" PRId64 "\"", count, failures);
    zt_str_printf(&text, " errors=\"0\" skipped=\"0\" time=\"%.6f\">\n", seconds);
    for (int64_t i = 0; i < count; i++) put_case(&text, suite, &cases[i]);
    zt_str_puts(&text, "  </testsuite>\n</testsuites>\n");
    zt_status status = zt_ctx_status(cli->ctx);
    if (status == ZT_OK) status = bench_write(cli, text.data, text.len);
    zt_str_fini(&text);
    return status;
}
