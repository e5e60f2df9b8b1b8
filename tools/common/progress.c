/* progress.c - a bar on stderr: how far a work is, how fast it goes, how long it will take, and on what it
 * is. It is drawn at most ten times a second, in one line that is never wider than the terminal, and
 * taken away before anything else is written there. */
#include "tools/common/internal.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    USUAL_COLUMNS = 80, /* where stderr has no width */
    LEAST_BAR = 10,
    MOST_BAR = 30,
    LEAST_ITEM = 8 /* columns; of a name less says nothing */
};

static zt_cli_state *get_state(zt_cli *cli) { return (zt_cli_state *)cli; }

/* ---- columns --------------------------------------------------------------------------------- */

static size_t columns_of_terminal(void)
{
    struct winsize window;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : USUAL_COLUMNS;
}

/* Columns that a character takes: 2 in the scripts of East Asia and for emoji, none where it
 * combines with the one before it. */
static size_t character_columns(uint32_t code_point)
{
    static const struct {
        uint32_t from, to, columns;
    } range[] = {
        {0x0300, 0x036f, 0}, {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0},   {0x2e80, 0xa4cf, 2},
        {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2}, {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (code_point >= range[i].from && code_point <= range[i].to) return range[i].columns;
    return 1;
}

/* Bytes at the beginning of the text that take at most `limit` columns; *columns: how many they take. */
static size_t fitting_length(const char *text, size_t limit, size_t *columns)
{
    size_t position = 0, length = strlen(text);
    uint32_t code_point;
    for (*columns = 0; position < length;) {
        int bytes = zt_utf8_decode(text + position, length - position, &code_point);
        size_t wide = bytes ? character_columns(code_point) : 1;
        if (*columns + wide > limit) break;
        *columns += wide;
        position += bytes ? (size_t)bytes : 1;
    }
    return position;
}

/* ---- the line -------------------------------------------------------------------------------- */

typedef struct progress_line {
    char text[1024];
    size_t length, columns_left; /* bytes; columns that are left */
} progress_line;

/* As much of the text as there is room for; a cut is marked. */
static void put_text(progress_line *line, const char *text)
{
    size_t columns, length = strlen(text), kept = fitting_length(text, line->columns_left, &columns);
    const char *mark = "";
    if (kept < length && line->columns_left > 3) {
        mark = "...";
        kept = fitting_length(text, line->columns_left - 3, &columns);
    }
    if (line->length + kept + 4 > sizeof line->text) return;
    memcpy(line->text + line->length, text, kept);
    memcpy(line->text + line->length + kept, mark, strlen(mark) + 1);
    line->length += kept + strlen(mark);
    line->columns_left -= columns + strlen(mark);
}

static void put_rate(progress_line *line, double rate, const char *unit)
{
    static const char *const sizes[] = {"B", "kB", "MB", "GB", "TB"};
    char text[64];
    bool bytes = unit && strcmp(unit, "B") == 0;
    int i = 0;
    for (; bytes && rate >= 1000 && i < 4; i++) rate /= 1000;
    if (bytes)
        snprintf(text, sizeof text, "  %.*f %s/s", rate < 10 && i ? 1 : 0, rate, sizes[i]);
    else
        snprintf(text, sizeof text, "  %.*f%s%s/s", rate < 1 ? 2 : rate < 100 ? 1 : 0, rate, unit ? " " : "", unit ? unit : "");
    put_text(line, text);
}

static void put_time_left(progress_line *line, double seconds)
{
    char text[64];
    long long whole = seconds < 1e9 ? (long long)ceil(seconds) : 1000000000;
    if (whole >= 3600)
        snprintf(text, sizeof text, "  %lld:%02lld:%02lld left", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(text, sizeof text, "  %lld:%02lld left", whole / 60, whole % 60);
    put_text(line, text);
}

static void put_bar(progress_line *line, size_t columns, const char *what, double share)
{
    static const char full[MOST_BAR + 1] = "##############################";
    char shown[64], text[160];
    int width = columns / 5 < LEAST_BAR ? LEAST_BAR : columns / 5 > MOST_BAR ? MOST_BAR : (int)(columns / 5);
    int filled = share > 0 ? (int)(share * width) : 0;
    snprintf(text, sizeof text, "%s [%-*.*s] %3.0f%%", zt_escape(shown, sizeof shown, what, strlen(what)), width, filled, full,
             share * 100);
    put_text(line, text);
}

static void put_item(progress_line *line, const char *item)
{
    char shown[512];
    if (line->columns_left < LEAST_ITEM + 2) return;
    put_text(line, "  ");
    put_text(line, zt_escape(shown, sizeof shown, item, strlen(item)));
}

/* ---- the bar --------------------------------------------------------------------------------- */

void zt_progress_erase(zt_cli_state *state)
{
    if (!state->drawn) return; /* nothing is written: messages come from several threads */
    fputs("\r\033[K", stderr);
    state->drawn = false;
}

void zt_progress_clear(zt_cli *cli) { zt_progress_erase(get_state(cli)); }

/* Another work, or the same once more: its rate is its own. */
static void begin_work(zt_cli_state *state, const char *what, double done, double now)
{
    snprintf(state->doing, sizeof state->doing, "%s", what);
    state->began_at = now;
    state->began_done = done;
}

static bool is_same_work(const zt_cli_state *state, const char *what, double done)
{
    return strncmp(state->doing, what, sizeof state->doing - 1) == 0 && done >= state->last_done;
}

static void draw_line(const zt_cli_state *state, const zt_work *work, double now)
{
    size_t columns = columns_of_terminal();
    progress_line line = {.columns_left = columns - 1}; /* a full line would wrap */
    double elapsed = now - state->began_at, rate = elapsed > 0 ? (work->done - state->began_done) / elapsed : 0;
    put_bar(&line, columns, work->what, work->done / work->total);
    if (rate > 0) {
        put_rate(&line, rate, work->unit);
        put_time_left(&line, (work->total - work->done) / rate);
    }
    if (work->item) put_item(&line, work->item);
    fprintf(stderr, "\r\033[K%s", line.text);
    fflush(stderr);
}

void zt_progress(zt_cli *cli, const zt_work *work)
{
    zt_cli_state *state = get_state(cli);
    if (cli->progress != 1) return;
    double now = zt_seconds();
    if (!is_same_work(state, work->what, work->done)) begin_work(state, work->what, work->done, now);
    state->last_done = work->done;
    if (!(work->done < work->total)) { /* it is done */
        zt_progress_erase(state);
        state->drawn_at = 0;
        state->doing[0] = 0;
        return;
    }
    if (now - state->drawn_at < 0.1) return;
    draw_line(state, work, now);
    state->drawn = true;
    state->drawn_at = now;
}
