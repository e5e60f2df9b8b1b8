/* svg.c - elements of SVG 1.1 and axes made of them. */
#include "tools/common/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

static const char *entity_of(uint32_t cp)
{
    switch (cp) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void zt_svg_put_escaped(zt_str *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int len = zt_utf8_decode(text + i, n - i, &cp);
        const char *entity = len ? entity_of(cp) : NULL;
        bool allowed = len && cp >= 0x20 && !(cp >= 0x7f && cp < 0xa0) && (cp & 0xfffe) != 0xfffe;
        if (entity)
            zt_str_puts(out, entity);
        else if (allowed)
            zt_str_put(out, text + i, (size_t)len);
        else
            for (int k = 0; k < (len ? len : 1); k++)
                zt_str_printf(out, "\\x%02x", (unsigned char)text[i + (size_t)k]);
        i += len ? (size_t)len : 1;
    }
}

/* A length, two digits after the point at most. */
static void put_length(zt_str *out, double x)
{
    char text[40];
    int n = snprintf(text, sizeof text, "%.2f", isfinite(x) && fabs(x) < 1e9 ? x : 0);
    while (text[n - 1] == '0') n--;
    if (text[n - 1] == '.') n--;
    zt_str_put(out, text, (size_t)n);
}

static void put_attr(zt_str *out, const char *name, double x)
{
    zt_str_printf(out, " %s=\"", name);
    put_length(out, x);
    zt_str_putc(out, '"');
}

static void put_fill(zt_str *out, const char *fill)
{
    zt_str_puts(out, " fill=\"");
    zt_svg_put_escaped(out, fill, strlen(fill));
    zt_str_putc(out, '"');
}

/* The end of an element that may have a title. */
static void put_close(zt_str *out, const char *name, const char *title)
{
    if (!title) {
        zt_str_puts(out, "/>\n");
        return;
    }
    zt_str_puts(out, "><title>");
    zt_svg_put_escaped(out, title, strlen(title));
    zt_str_printf(out, "</title></%s>\n", name);
}

/* ---- page ------------------------------------------------------------------------------------ */

static const char style[] =
    "<style>\n"
    "text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: #202124 }\n"
    ".title { font-size: 15px; font-weight: 600 } .small { font-size: 11px }\n"
    ".page { fill: #ffffff } .frame { stroke: #80868b; fill: none }\n"
    ".grid { stroke: #dadce0; stroke-width: 1 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #e8eaed } .page { fill: #17191c } .grid { stroke: #3c4043 }\n"
    "}\n"
    "</style>\n";

void zt_svg_begin(zt_str *out, double w, double h, const char *title)
{
    zt_str_puts(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    put_attr(out, "width", w);
    put_attr(out, "height", h);
    zt_str_puts(out, " viewBox=\"0 0 ");
    put_length(out, w);
    zt_str_putc(out, ' ');
    put_length(out, h);
    zt_str_puts(out, "\">\n<title>");
    zt_svg_put_escaped(out, title, strlen(title));
    zt_str_puts(out, "</title>\n");
    zt_str_puts(out, style);
    zt_str_puts(out, "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
    zt_svg_text(out, 12, 22, ZT_SVG_TITLE, ZT_SVG_START, false, title);
}

void zt_svg_end(zt_str *out) { zt_str_puts(out, "</svg>\n"); }

/* ---- elements -------------------------------------------------------------------------------- */

void zt_svg_text(zt_str *out, double x, double y, zt_svg_face face, zt_svg_anchor anchor,
                 bool turned, const char *text)
{
    static const char *const class[] = {" class=\"title\"", "", " class=\"small\""};
    static const char *const anchors[] = {"start", "middle", "end"};
    zt_str_printf(out, "<text%s text-anchor=\"%s\"", class[face], anchors[anchor]);
    put_attr(out, "x", x);
    put_attr(out, "y", y);
    if (turned) {
        zt_str_puts(out, " transform=\"rotate(-90 ");
        put_length(out, x);
        zt_str_putc(out, ' ');
        put_length(out, y);
        zt_str_puts(out, ")\"");
    }
    zt_str_putc(out, '>');
    zt_svg_put_escaped(out, text, strlen(text));
    zt_str_puts(out, "</text>\n");
}

void zt_svg_rect(zt_str *out, double x, double y, double w, double h, const char *fill,
                 const char *title)
{
    zt_str_puts(out, "<rect");
    put_attr(out, "x", x);
    put_attr(out, "y", y);
    put_attr(out, "width", w);
    put_attr(out, "height", h);
    put_fill(out, fill);
    put_close(out, "rect", title);
}

void zt_svg_dot(zt_str *out, double x, double y, double radius, const char *fill,
                const char *title)
{
    zt_str_puts(out, "<circle");
    put_attr(out, "cx", x);
    put_attr(out, "cy", y);
    put_attr(out, "r", radius);
    put_fill(out, fill);
    put_close(out, "circle", title);
}

void zt_svg_line(zt_str *out, const double *xy, size_t n, const char *stroke, double width,
                 bool dashed, const char *fill)
{
    zt_str_puts(out, "<polyline points=\"");
    for (size_t i = 0; i < n; i++) {
        if (i) zt_str_putc(out, ' ');
        put_length(out, xy[2 * i]);
        zt_str_putc(out, ',');
        put_length(out, xy[2 * i + 1]);
    }
    zt_str_puts(out, "\" stroke=\"");
    zt_svg_put_escaped(out, stroke, strlen(stroke));
    zt_str_putc(out, '"');
    put_attr(out, "stroke-width", width);
    if (dashed) zt_str_puts(out, " stroke-dasharray=\"5 4\"");
    put_fill(out, fill ? fill : "none");
    zt_str_puts(out, fill ? " fill-opacity=\"0.5\"/>\n" : "/>\n");
}

/* ---- colours --------------------------------------------------------------------------------- */

const char *zt_svg_colour(unsigned i)
{
    static const char *const set[] = {"#4285c4", "#d9822b", "#3a9d5d", "#c0504d", "#8a6fc0",
                                      "#2aa5a0", "#b8a02c", "#c76a9d", "#7a8a99", "#8f6a4b"};
    return set[i % (sizeof set / sizeof *set)];
}

const char *zt_svg_ramp(double x, char colour[8])
{
    static const double stop[][3] = {
        {34, 40, 92}, {40, 98, 140}, {38, 150, 130}, {122, 196, 84}, {250, 228, 60}};
    enum { LAST = sizeof stop / sizeof *stop - 1 };
    double at = (x > 0 ? x < 1 ? x : 1 : 0) * LAST; /* NaN is 0 */
    int k = at < LAST ? (int)at : LAST - 1, rgb[3];
    for (int c = 0; c < 3; c++)
        rgb[c] = (int)(stop[k][c] + (at - k) * (stop[k + 1][c] - stop[k][c]) + 0.5);
    snprintf(colour, 8, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
    return colour;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* 0 at lo, 1 at hi. */
static double part_of(const zt_svg_scale *s, double value)
{
    double lo = s->lo, hi = s->hi;
    if (s->log) {
        lo = log(lo);
        hi = log(hi);
        value = log(value);
    }
    return hi > lo ? (value - lo) / (hi - lo) : 0;
}

double zt_svg_at_x(const zt_svg_plot *p, double value)
{
    return p->x + p->w * part_of(&p->across, value);
}

double zt_svg_at_y(const zt_svg_plot *p, double value)
{
    return p->y + p->h * (1 - part_of(&p->up, value));
}

const char *zt_svg_bytes(double bytes, char text[24])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int k = 0;
    for (; bytes >= 1024 && k < 4; k++) bytes /= 1024;
    snprintf(text, 24, "%.4g %s", bytes, unit[k]);
    return text;
}

/* The least round number (of bytes: power of two) that cuts `range` into `most` parts at most. */
static double tick_step(double range, int most, zt_svg_unit unit)
{
    double least = range / most;
    if (!(least > 0) || !isfinite(least)) return 1;
    if (unit == ZT_SVG_BYTES) return exp2(ceil(log2(least)));
    double ten = pow(10, floor(log10(least)));
    return least <= ten ? ten : least <= 2 * ten ? 2 * ten : least <= 5 * ten ? 5 * ten : 10 * ten;
}

enum { MAX_TICKS = 16 };

/* Values that ticks stand at; how many. */
static int find_ticks(const zt_svg_scale *s, int most, double tick[MAX_TICKS])
{
    int n = 0;
    if (s->log) {
        double decades = log10(s->hi / s->lo), factor = pow(10, ceil(decades / most));
        double t = pow(10, ceil(log10(s->lo) - 1e-9));
        for (; t <= s->hi * (1 + 1e-9) && n < MAX_TICKS; t *= factor) tick[n++] = t;
        return n;
    }
    double step = tick_step(s->hi - s->lo, most, s->unit), k = ceil(s->lo / step - 1e-9);
    for (; k * step <= s->hi + step * 1e-9 && n < MAX_TICKS; k++)
        tick[n++] = k * step + 0.0; /* never -0 */
    return n;
}

static const char *tick_text(const zt_svg_scale *s, double value, char text[24])
{
    if (s->unit == ZT_SVG_BYTES) return zt_svg_bytes(value, text);
    snprintf(text, 24, "%.6g", value);
    return text;
}

static void put_grid_line(zt_str *out, double x1, double y1, double x2, double y2)
{
    zt_str_puts(out, "<line class=\"grid\"");
    put_attr(out, "x1", x1);
    put_attr(out, "y1", y1);
    put_attr(out, "x2", x2);
    put_attr(out, "y2", y2);
    zt_str_puts(out, "/>\n");
}

void zt_svg_axes(zt_str *out, const zt_svg_plot *p)
{
    double tick[MAX_TICKS], bottom = p->y + p->h;
    char text[24];
    int n = find_ticks(&p->across, p->w < 300 ? 4 : 10, tick);
    for (int i = 0; i < n; i++) {
        double x = zt_svg_at_x(p, tick[i]);
        put_grid_line(out, x, p->y, x, bottom);
        zt_svg_text(out, x, bottom + 16, ZT_SVG_SMALL, ZT_SVG_MIDDLE, false,
                    tick_text(&p->across, tick[i], text));
    }
    n = find_ticks(&p->up, p->h < 160 ? 4 : 8, tick);
    for (int i = 0; i < n; i++) {
        double y = zt_svg_at_y(p, tick[i]);
        put_grid_line(out, p->x, y, p->x + p->w, y);
        zt_svg_text(out, p->x - 6, y + 4, ZT_SVG_SMALL, ZT_SVG_STOP, false,
                    tick_text(&p->up, tick[i], text));
    }
    zt_str_puts(out, "<rect class=\"frame\"");
    put_attr(out, "x", p->x);
    put_attr(out, "y", p->y);
    put_attr(out, "width", p->w);
    put_attr(out, "height", p->h);
    zt_str_puts(out, "/>\n");
    if (p->across.label)
        zt_svg_text(out, p->x + p->w / 2, bottom + 34, ZT_SVG_LABEL, ZT_SVG_MIDDLE, false,
                    p->across.label);
    if (p->up.label)
        zt_svg_text(out, p->x - 62, p->y + p->h / 2, ZT_SVG_LABEL, ZT_SVG_MIDDLE, true,
                    p->up.label);
}
