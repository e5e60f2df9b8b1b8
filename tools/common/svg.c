/* svg.c - elements of SVG 1.1 and axes made of them. */
#include "tools/common/svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text ------------------------------------------------------------------------------------ */

static const char *entity_of(uint32_t code_point)
{
    switch (code_point) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void zt_svg_put_escaped(zt_str *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size;) {
        uint32_t code_point = 0;
        int length = zt_utf8_decode(text + i, size - i, &code_point);
        const char *entity = length ? entity_of(code_point) : NULL;
        bool allowed =
            length && code_point >= 0x20 && !(code_point >= 0x7f && code_point < 0xa0) && (code_point & 0xfffe) != 0xfffe;
        if (entity)
            zt_str_puts(out, entity);
        else if (allowed)
            zt_str_put(out, text + i, (size_t)length);
        else
            for (int k = 0; k < (length ? length : 1); k++) zt_str_printf(out, "\\x%02x", (unsigned char)text[i + (size_t)k]);
        i += length ? (size_t)length : 1;
    }
}

/* A length, two digits after the point at most. */
static void put_length(zt_str *out, double value)
{
    char text[40];
    int length = snprintf(text, sizeof text, "%.2f", isfinite(value) && fabs(value) < 1e9 ? value : 0);
    while (text[length - 1] == '0') length--;
    if (text[length - 1] == '.') length--;
    zt_str_put(out, text, (size_t)length);
}

static void put_attr(zt_str *out, const char *name, double value)
{
    zt_str_printf(out, " %s=\"", name);
    put_length(out, value);
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

static const char style_sheet[] = "<style>\n"
                                  "text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: #202124 }\n"
                                  ".title { font-size: 15px; font-weight: 600 } .small { font-size: 11px }\n"
                                  ".page { fill: #ffffff } .frame { stroke: #80868b; fill: none }\n"
                                  ".grid { stroke: #dadce0; stroke-width: 1 }\n"
                                  "@media (prefers-color-scheme: dark) {\n"
                                  "text { fill: #e8eaed } .page { fill: #17191c } .grid { stroke: #3c4043 }\n"
                                  "}\n"
                                  "</style>\n";

void zt_svg_begin(zt_str *out, double width, double height, const char *title)
{
    zt_str_puts(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    put_attr(out, "width", width);
    put_attr(out, "height", height);
    zt_str_puts(out, " viewBox=\"0 0 ");
    put_length(out, width);
    zt_str_putc(out, ' ');
    put_length(out, height);
    zt_str_puts(out, "\">\n<title>");
    zt_svg_put_escaped(out, title, strlen(title));
    zt_str_puts(out, "</title>\n");
    zt_str_puts(out, style_sheet);
    zt_str_puts(out, "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n");
    zt_svg_text(out, 12, 22, ZT_SVG_TITLE, ZT_SVG_START, false, title);
}

void zt_svg_end(zt_str *out) { zt_str_puts(out, "</svg>\n"); }

/* ---- elements -------------------------------------------------------------------------------- */

static void begin_text(zt_str *out, double x, double y, zt_svg_face face, zt_svg_anchor anchor)
{
    static const char *const class[] = {" class=\"title\"", "", " class=\"small\""};
    static const char *const anchors[] = {"start", "middle", "end"};
    zt_str_printf(out, "<text%s text-anchor=\"%s\"", class[face], anchors[anchor]);
    put_attr(out, "x", x);
    put_attr(out, "y", y);
}

static void end_text(zt_str *out, const char *text)
{
    zt_str_putc(out, '>');
    zt_svg_put_escaped(out, text, strlen(text));
    zt_str_puts(out, "</text>\n");
}

/* Bytes of the first `count` characters of UTF-8. */
static size_t bytes_of(const char *text, int count)
{
    size_t length = 0;
    for (; text[length] && count > 0; count--) do
            length++;
        while (((unsigned char)text[length] & 0xc0) == 0x80);
    return length;
}

static int count_characters(const char *text)
{
    int count = 0;
    for (; *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

void zt_svg_text_within(zt_str *out, double x, double y, zt_svg_face face, double width, const char *text)
{
    static const double size[] = {15, 12, 11};
    const int count = count_characters(text), most = (int)(width / (.58 * size[face])); /* .58: of an average character */
    begin_text(out, x, y, face, ZT_SVG_START);
    if (count <= most) {
        end_text(out, text);
        return;
    }
    const size_t begin = bytes_of(text, (most - 1) / 2), end = bytes_of(text, count - most / 2);
    zt_str_puts(out, "><title>");
    zt_svg_put_escaped(out, text, strlen(text));
    zt_str_puts(out, "</title>");
    zt_svg_put_escaped(out, text, begin);
    zt_str_puts(out, "\xe2\x80\xa6"); /* ... as one character */
    zt_svg_put_escaped(out, text + end, strlen(text + end));
    zt_str_puts(out, "</text>\n");
}

void zt_svg_text(zt_str *out, double x, double y, zt_svg_face face, zt_svg_anchor anchor, bool turned, const char *text)
{
    begin_text(out, x, y, face, anchor);
    if (turned) {
        zt_str_puts(out, " transform=\"rotate(-90 ");
        put_length(out, x);
        zt_str_putc(out, ' ');
        put_length(out, y);
        zt_str_puts(out, ")\"");
    }
    end_text(out, text);
}

void zt_svg_rect(zt_str *out, double x, double y, double width, double height, const char *fill, const char *title)
{
    zt_str_puts(out, "<rect");
    put_attr(out, "x", x);
    put_attr(out, "y", y);
    put_attr(out, "width", width);
    put_attr(out, "height", height);
    put_fill(out, fill);
    put_close(out, "rect", title);
}

void zt_svg_dot(zt_str *out, double x, double y, double radius, const char *fill, const char *title)
{
    zt_str_puts(out, "<circle");
    put_attr(out, "cx", x);
    put_attr(out, "cy", y);
    put_attr(out, "r", radius);
    put_fill(out, fill);
    put_close(out, "circle", title);
}

void zt_svg_line(zt_str *out, const double *xy, size_t count, const char *stroke, double width, bool dashed, const char *fill)
{
    zt_str_puts(out, "<polyline points=\"");
    for (size_t i = 0; i < count; i++) {
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

const char *zt_svg_ramp(double position, char colour[8])
{
    static const double stop[][3] = {{34, 40, 92}, {40, 98, 140}, {38, 150, 130}, {122, 196, 84}, {250, 228, 60}};
    enum { LAST = sizeof stop / sizeof *stop - 1 };
    double stop_position = (position > 0 ? position < 1 ? position : 1 : 0) * LAST; /* NaN is 0 */
    int stop_index = stop_position < LAST ? (int)stop_position : LAST - 1, rgb[3];
    for (int channel = 0; channel < 3; channel++)
        rgb[channel] = (int)(stop[stop_index][channel] +
                             (stop_position - stop_index) * (stop[stop_index + 1][channel] - stop[stop_index][channel]) + 0.5);
    snprintf(colour, 8, "#%02x%02x%02x", rgb[0] & 255, rgb[1] & 255, rgb[2] & 255);
    return colour;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* 0 at low, 1 at high. */
static double scale_position(const zt_svg_scale *scale, double value)
{
    double low = scale->low, high = scale->high;
    if (scale->log) {
        low = log(low);
        high = log(high);
        value = log(value);
    }
    return high > low ? (value - low) / (high - low) : 0;
}

double zt_svg_at_x(const zt_svg_plot *plot, double value) { return plot->x + plot->width * scale_position(&plot->across, value); }

double zt_svg_at_y(const zt_svg_plot *plot, double value)
{
    return plot->y + plot->height * (1 - scale_position(&plot->up, value));
}

const char *zt_svg_bytes(double bytes, char text[24])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit_index = 0;
    for (; bytes >= 1024 && unit_index < 4; unit_index++) bytes /= 1024;
    snprintf(text, 24, "%.4g %s", bytes, unit[unit_index]);
    return text;
}

/* The least round number (of bytes: power of two) that cuts `range` into `limit` parts at most. */
static double tick_step(double range, int limit, zt_svg_unit unit)
{
    double least = range / limit;
    if (!(least > 0) || !isfinite(least)) return 1;
    if (unit == ZT_SVG_BYTES) return exp2(ceil(log2(least)));
    if (unit == ZT_SVG_WHOLE && least < 1) return 1;
    double power = pow(10, floor(log10(least)));
    return least <= power ? power : least <= 2 * power ? 2 * power : least <= 5 * power ? 5 * power : 10 * power;
}

enum { MAX_TICKS = 16 };

/* Values that ticks stand at; how many. */
static int find_ticks(const zt_svg_scale *scale, int limit, double tick[MAX_TICKS])
{
    int count = 0;
    if (scale->log) {
        double decades = log10(scale->high / scale->low), factor = pow(10, ceil(decades / limit));
        double value = pow(10, ceil(log10(scale->low) - 1e-9));
        for (; value <= scale->high * (1 + 1e-9) && count < MAX_TICKS; value *= factor) tick[count++] = value;
        return count;
    }
    double step = tick_step(scale->high - scale->low, limit, scale->unit), multiple = ceil(scale->low / step - 1e-9);
    for (; multiple * step <= scale->high + step * 1e-9 && count < MAX_TICKS; multiple++)
        tick[count++] = multiple * step + 0.0; /* never -0 */
    return count;
}

static const char *tick_text(const zt_svg_scale *scale, double value, char text[24])
{
    if (scale->unit == ZT_SVG_BYTES) return zt_svg_bytes(value, text);
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

void zt_svg_axes(zt_str *out, const zt_svg_plot *plot)
{
    double tick[MAX_TICKS], bottom = plot->y + plot->height;
    char text[24];
    int count = find_ticks(&plot->across, plot->width < 300 ? 4 : 10, tick);
    for (int i = 0; i < count; i++) {
        double x = zt_svg_at_x(plot, tick[i]);
        put_grid_line(out, x, plot->y, x, bottom);
        zt_svg_text(out, x, bottom + 16, ZT_SVG_SMALL, ZT_SVG_MIDDLE, false, tick_text(&plot->across, tick[i], text));
    }
    count = find_ticks(&plot->up, plot->height < 160 ? 4 : 8, tick);
    for (int i = 0; i < count; i++) {
        double y = zt_svg_at_y(plot, tick[i]);
        put_grid_line(out, plot->x, y, plot->x + plot->width, y);
        zt_svg_text(out, plot->x - 6, y + 4, ZT_SVG_SMALL, ZT_SVG_STOP, false, tick_text(&plot->up, tick[i], text));
    }
    zt_str_puts(out, "<rect class=\"frame\"");
    put_attr(out, "x", plot->x);
    put_attr(out, "y", plot->y);
    put_attr(out, "width", plot->width);
    put_attr(out, "height", plot->height);
    zt_str_puts(out, "/>\n");
    if (plot->across.label)
        zt_svg_text(out, plot->x + plot->width / 2, bottom + 34, ZT_SVG_LABEL, ZT_SVG_MIDDLE, false, plot->across.label);
    if (plot->up.label)
        zt_svg_text(out, plot->x - 62, plot->y + plot->height / 2, ZT_SVG_LABEL, ZT_SVG_MIDDLE, true, plot->up.label);
}
