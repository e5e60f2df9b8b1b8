/* svg.h - SVG 1.1 drawings for --plot and zt-trace memory, readable on light and dark pages.
 *
 *     zt_svg_begin(&out, 640, 400, "what it shows");
 *     zt_svg_plot plot = {.x = 84, .y = 40, .width = 540, .height = 300,
 *                         .across = {0, 100, .label = "step"},
 *                         .up = {0, 1 << 20, .unit = ZT_SVG_BYTES, .label = "offset"}};
 *     zt_svg_axes(&out, &plot);
 *     zt_svg_rect(&out, zt_svg_at_x(&plot, 3), ..., zt_svg_colour(0), "shown by the mouse");
 *     zt_svg_end(&out);
 *
 * Lengths are in pixels; y grows downwards. Strings are untrusted and escaped; bytes that XML
 * does not allow become \xNN. Errors stay in the context of the output string.
 */
#ifndef ZT_SVG_H
#define ZT_SVG_H

#include "lib/base/base.h"

void zt_svg_begin(zt_str *out, double width, double height, const char *title); /* title: drawn at the top */
void zt_svg_end(zt_str *out);

/* Appends text with XML escapes, for content and attributes. */
void zt_svg_put_escaped(zt_str *out, const char *text, size_t size);

typedef enum zt_svg_anchor { ZT_SVG_START, ZT_SVG_MIDDLE, ZT_SVG_STOP } zt_svg_anchor;
typedef enum zt_svg_face { ZT_SVG_TITLE, ZT_SVG_LABEL, ZT_SVG_SMALL } zt_svg_face;
/* y: the baseline. turned: rotated upwards, for the label of a vertical axis. */
void zt_svg_text(zt_str *out, double x, double y, zt_svg_face face, zt_svg_anchor anchor, bool turned, const char *text);
/* Text that begins at x. Where it would be wider than `width`, its middle is left out, and the tooltip has all of it. */
void zt_svg_text_within(zt_str *out, double x, double y, zt_svg_face face, double width, const char *text);
/* title: the tooltip; NULL: none. */
void zt_svg_rect(zt_str *out, double x, double y, double width, double height, const char *fill, const char *title);
void zt_svg_dot(zt_str *out, double x, double y, double radius, const char *fill, const char *title);
/* A line through `count` points (xy[2 i], xy[2 i + 1]). fill: NULL, or the half-transparent colour of the area below. */
void zt_svg_line(zt_str *out, const double *xy, size_t count, const char *stroke, double width, bool dashed, const char *fill);

/* zt_svg_colour: colour i of a set that is distinguishable on light and dark pages, for any i. zt_svg_ramp: a colour
 * scale for heat maps, position from 0 (dark blue) to 1 (yellow). Both return "#rrggbb". */
const char *zt_svg_colour(unsigned i);
const char *zt_svg_ramp(double position, char colour[8]); /* returns colour */

/* ---- axes ------------------------------------------------------------------------------------ */

/* Ticks of ZT_SVG_WHOLE are whole numbers, for counts. */
typedef enum zt_svg_unit { ZT_SVG_NUMBERS, ZT_SVG_WHOLE, ZT_SVG_BYTES } zt_svg_unit;
typedef struct zt_svg_scale {
    double low, high; /* log: low above 0 */
    bool log;
    zt_svg_unit unit;
    const char *label; /* NULL: none */
} zt_svg_scale;
typedef struct zt_svg_plot {
    double x, y, width, height; /* the area inside the axes */
    zt_svg_scale across, up;
} zt_svg_plot;

/* Pixel position of a value; values beyond the scale lie outside the axes. */
double zt_svg_at_x(const zt_svg_plot *plot, double value);
double zt_svg_at_y(const zt_svg_plot *plot, double value);
/* Draws frame, grid lines at round values, and labels, which need 80 pixels to the left and 40 below. */
void zt_svg_axes(zt_str *out, const zt_svg_plot *plot);
/* "512 KiB", "1.5 MiB": the format of tick labels. */
const char *zt_svg_bytes(double bytes, char text[24]);

#endif
