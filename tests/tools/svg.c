/* svg.c - drawings: hostile text, numbers, ticks, colours. */
#include "tools/common/svg.h"
#include "tests/common/tap.h"

#include <math.h>
#include <string.h>

static zt_ctx *ctx;

static bool escapes(const char *text, size_t total, const char *want)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_svg_put_escaped(&string, text, total);
    bool same = string.data && !strcmp(string.data, want);
    if (!same) diag("'%s', not '%s'", string.data ? string.data : "", want);
    zt_str_fini(&string);
    return same;
}

static void test_text(void)
{
    ok(escapes("a<b>&\"c'", 8, "a&lt;b&gt;&amp;&quot;c&#39;"), "what XML reads is escaped");
    ok(escapes("\n\t\0\x7f", 4, "\\x0a\\x09\\x00\\x7f"), "control bytes");
    ok(escapes("\xc3\xa4 \xff\xc3", 5, "\xc3\xa4 \\xff\\xc3"), "broken UTF-8 only");
    ok(escapes("\xef\xbf\xbf", 3, "\\xef\\xbf\\xbf"), "U+FFFF, which XML has not");
    ok(escapes("\xc2\x85", 2, "\\xc2\\x85"), "C1 controls");
}

/* How often `what` occurs. */
static int count(const zt_str *s, const char *what)
{
    int n = 0;
    for (const char *at = s->data; at && (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static void test_elements(void)
{
    zt_str string;
    zt_str_init(&string, ctx);
    zt_svg_begin(&string, 100, 50.5, "a & b");
    zt_svg_rect(&string, 1, 2.126, 3, NAN, "#fff\"/><script>", "t<");
    zt_svg_dot(&string, 1, 2, 3, zt_svg_colour(3), NULL);
    zt_svg_line(&string, (double[]){0, 0, 10, INFINITY}, 2, "#000", 1.5, true, "#eee");
    zt_svg_end(&string);
    ok(count(&string, "viewBox=\"0 0 100 50.5\"") == 1 && count(&string, "a &amp; b") == 2, "the page");
    ok(count(&string, "y=\"2.13\" width=\"3\" height=\"0\"") == 1, "lengths are short, and numbers");
    ok(count(&string, "<script") == 0 && count(&string, "<title>t&lt;</title></rect>") == 1, "nothing gets out");
    ok(count(&string, "0,0 10,0") == 1 && count(&string, "stroke-dasharray") == 1, "a line");
    zt_svg_text_within(&string, 1, 2, ZT_SVG_SMALL, 60, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 <");
    ok(count(&string, "</title>\xc3") == 0 && count(&string, "\xa4 &lt;</text>") == 1, "a short text, by its characters");
    zt_svg_text_within(&string, 1, 2, ZT_SVG_SMALL, 60, "sixteen lett\xc3\xa4rs.");
    ok(count(&string, "><title>sixteen lett\xc3\xa4rs.</title>sixt\xe2\x80\xa6\xc3\xa4rs.</text>") == 1,
       "of a long one both ends");
    ok(count(&string, "<svg") == 1 && count(&string, "</svg>\n") == 1, "one drawing");
    ok(count(&string, "prefers-color-scheme") == 1, "for light and dark");
    zt_str_fini(&string);
}

static void test_scales(void)
{
    zt_svg_plot p = {.x = 10,
                     .y = 20,
                     .width = 100,
                     .height = 50,
                     .across = {.low = 1, .high = 1000, .log = true},
                     .up = {.low = 0, .high = 3 << 20, .unit = ZT_SVG_BYTES, .label = "bytes"}};
    ok(fabs(zt_svg_at_x(&p, 10) - (10 + 100 / 3.0)) < 1e-9, "a log scale");
    ok(fabs(zt_svg_at_y(&p, 3 << 19) - 45) < 1e-9, "a linear one, upwards");
    zt_str string;
    zt_str_init(&string, ctx);
    zt_svg_axes(&string, &p);
    ok(count(&string, ">1<") == 1 && count(&string, ">10<") == 1 && count(&string, ">100<") == 1, "decades");
    ok(count(&string, ">1 MiB<") == 1 && count(&string, ">3 MiB<") == 1, "powers of two");
    ok(count(&string, ">0 B<") == 1 && count(&string, ">-0") == 0, "zero has no sign");
    zt_str_clear(&string);
    p.across = (zt_svg_scale){.low = 1, .high = 3, .unit = ZT_SVG_WHOLE};
    zt_svg_axes(&string, &p);
    ok(count(&string, ">2<") == 1 && count(&string, ">3<") == 1 && count(&string, ".5<") == 0, "whole numbers alone");
    zt_str_clear(&string);
    p.across.unit = ZT_SVG_NUMBERS;
    zt_svg_axes(&string, &p);
    ok(count(&string, ">3<") == 1 && count(&string, ".5<") == 2, "or halves");
    zt_str_clear(&string);
    p.across = (zt_svg_scale){.low = 7, .high = 7};
    p.up = (zt_svg_scale){.low = 0, .high = NAN};
    zt_svg_axes(&string, &p);
    ok(count(&string, "nan") == 0 && count(&string, "inf") == 0, "no range is no trouble");
    zt_str_fini(&string);
    char text[24];
    ok(!strcmp(zt_svg_bytes(1536, text), "1.5 KiB"), "sizes");
    ok(!strcmp(zt_svg_bytes(5, text), "5 B"), "small ones");
}

static void test_colours(void)
{
    char a[8], b[8];
    ok(!strcmp(zt_svg_ramp(0, a), zt_svg_ramp(-3, b)), "the ramp begins");
    ok(!strcmp(zt_svg_ramp(1, a), zt_svg_ramp(9, b)), "and ends");
    ok(!strcmp(zt_svg_ramp(NAN, a), zt_svg_ramp(0, b)), "NaN is 0");
    zt_svg_ramp(0.5, a);
    ok(strlen(a) == 7 && a[0] == '#', "a colour: %s", a);
    ok(zt_svg_colour(0) == zt_svg_colour(10) && zt_svg_colour(0) != zt_svg_colour(1), "the set");
}

int main(void)
{
    ctx = zt_ctx_new();
    test_text();
    test_elements();
    test_scales();
    test_colours();
    ok(zt_ctx_status(ctx) == ZT_OK && zt_mem_get(ctx).blocks == 0, "nothing is left");
    zt_ctx_free(ctx);
    return tap_done();
}
